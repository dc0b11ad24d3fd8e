"""The whole picture, a box that stays, and boxes that a person drew in several frames."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.errors import refused
from helpers.films import RATE, ColourRows, Film

import dejacue
from dejacue.masks import Region, open_masks, write_region
from dejacue.models.trackers import Prompt
from dejacue.video.video import open_video, write_video

EXAMPLES = {"early": [0], "late": [18]}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    film = Film().shot(20, (0, 0, 80, 10))
    return write_video(tmp_path_factory.mktemp("regions") / "film.mp4", film.frames, RATE)


def boxes_in(masks, path):
    """Return x0, y0, x1, y1 of the mask in each frame."""
    edges = []
    for frame in open_video(path):
        (mask,) = masks.unions(frame, [None])
        rows, columns = np.nonzero(mask)
        edges.append((columns.min(), rows.min(), columns.max() + 1, rows.max() + 1))
    return edges


def test_the_whole_picture_is_the_object_in_every_frame(path, tmp_path) -> None:
    finding = dejacue.find(
        path, examples=EXAMPLES, whole=True, encoder=ColourRows(), folder=tmp_path
    )
    assert len(finding.history) == 20
    assert finding.provenance.tracker == "the whole picture"
    assert finding.doubts == ()
    assert finding.history.presence is None
    again = open_masks(finding.provenance.masks)
    assert set(boxes_in(again, path)) == {(0, 0, 96, 48)}


def test_a_fixed_box_stays_where_it_is_and_says_so(path) -> None:
    box = (10, 5, 40, 30)
    finding = dejacue.find(path, examples=EXAMPLES, box=box, fixed=True, encoder=ColourRows())
    assert finding.provenance.tracker == "fixed region"
    masks = dejacue.locate_object(path, box=box, fixed=True)
    assert set(boxes_in(masks, path)) == {box}
    assert masks.notes


def test_between_boxes_that_a_person_drew_the_box_moves_evenly(path, tmp_path) -> None:
    prompts = [Prompt(2, 1, box=(0, 0, 10, 10)), Prompt(12, 1, box=(20, 10, 40, 30))]
    masks = dejacue.locate_object(path, prompts=prompts, fixed=True, folder=tmp_path)
    edges = boxes_in(masks, path)
    assert edges[:3] == [(0, 0, 10, 10)] * 3
    assert edges[7] == (10, 5, 25, 20)
    assert edges[12:] == [(20, 10, 40, 30)] * 8
    assert masks.tracker == "boxes drawn by a person"
    assert boxes_in(open_masks(tmp_path / "region.json"), path) == edges


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"whole": True, "masks": {0: {1: np.ones((48, 96), bool)}}}, ("masks", "whole")),
        ({"whole": True, "box": (1, 1, 9, 9)}, ("box", "whole")),
        ({"fixed": True, "whole": True}, ("fixed", "box")),
    ],
)
def test_two_ways_to_say_where_the_object_is_are_refused(path, options, facts) -> None:
    with refused(*facts):
        dejacue.find(path, examples=EXAMPLES, encoder=ColourRows(), **options)


def test_without_a_name_or_a_place_all_ways_are_listed(path) -> None:
    with refused(path, "masks") as refusal:
        dejacue.find(path, examples=EXAMPLES, encoder=ColourRows())
    for way in ("name", "box", "masks", "whole picture"):
        assert way in str(refusal.value)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"schema": "dejacue.region/1", "boxes": {"1": {"0": [5, 5, 2, 9]}}}', "[[["]
)
def test_a_damaged_region_is_refused(tmp_path, text) -> None:
    file = tmp_path / "region.json"
    file.write_text(text)
    with refused(file):
        open_masks(file)


def test_a_region_is_read_as_it_was_written(tmp_path) -> None:
    region = Region({2: {0: (1, 2, 3.5, 4), 9: (2, 2, 8, 8)}})
    write_region(tmp_path / "region.json", region)
    assert open_masks(tmp_path / "region.json").region == region
