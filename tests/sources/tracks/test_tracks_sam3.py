"""Trackers that find objects by their names: SAM 3, tiny and random, and one that knows colours."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.errors import refused
from helpers.films import CUPS, RATE, ColourRows, Film, cup_pixels

import dejacue
from dejacue.errors import Cancelled, MissingData
from dejacue.pipeline import Job, where_is
from dejacue.pipeline.by_name import read_search
from dejacue.sources.masks import open_masks
from dejacue.sources.tracks import Prompt, load_tracker, read_notes
from dejacue.sources.tracks.base import NameTracker, Sighting, bounding_box
from dejacue.sources.tracks.follow import TrackerOptions
from dejacue.sources.video import open_video, write_video

COUNT = 20


class Namer:
    """Finds cups by their colours; those of ``twice`` under two ids."""

    name, approximate, independent, threshold = "namer", False, False, 0.7

    def __init__(self, twice: tuple[int, ...] = ()) -> None:
        self.details = {"twice": str(twice)}
        self.twice, self.passes = twice, 0

    def session(self):
        raise AssertionError("it takes no prompts")

    def find(self, pictures, names, count=None):
        self.passes += 1
        for picture in pictures:
            seen = {}
            for cup in range(len(CUPS)):
                mask = cup_pixels(picture, cup)
                if "cup" in names and mask.any():
                    seen[10 + cup] = Sighting(mask, 0.9, 0.8 - cup / 100, "cup")
                    if cup in self.twice:
                        seen[20 + cup] = Sighting(mask, 0.9, 0.75, "cup")
            yield seen


@pytest.fixture
def path(tmp_path):
    film = Film().shot(COUNT, (0, 10, 30, 10), (1, -30, 50, 30))  # which comes in later
    return write_video(tmp_path / "film.mp4", film.frames, RATE)


def search(path, folder, tracker, **options):
    how = {"object_name": "cup", "examples": {"early": [0], "late": [COUNT - 1]}}
    how |= {"encoder": ColourRows(), "pictures": False}
    return dejacue.find(path, tracker=tracker, folder=folder, **{**how, **options})


def test_a_tracker_that_finds_objects_itself_needs_no_detector(path, tmp_path) -> None:
    tracker = Namer(twice=(0,))
    finding = search(path, tmp_path / "out", tracker)
    assert isinstance(tracker, NameTracker)
    assert (finding.made.tracker, tracker.passes) == ("namer", 1)
    found = read_search(tmp_path / "out" / "masks")
    assert [(one.object, one.name, one.score) for one in found.instances] == [
        (1, "cup", 0.8),
        (2, "cup", 0.79),
    ]  # the best first, and what lies on another is the same thing
    notes = read_notes(tmp_path / "out" / "masks")
    masks = open_masks(tmp_path / "out" / "masks", match=notes.match)
    first = found.instances[1]
    for frame in open_video(path):
        for number, cup in ((1, 0), (2, 1)):
            (mask,) = masks.unions(frame, [frozenset([number])])
            assert np.array_equal(cup_pixels(frame.image, cup), mask) or mask is None
            assert (mask is None) == (number == 2 and frame.index < first.frame)
        if frame.index == first.frame:
            assert first.box == bounding_box(cup_pixels(frame.image, 1))
    assert first.frame > 0
    search(path, tmp_path / "out", tracker)
    assert tracker.passes == 1  # all of it is there


def test_of_many_objects_those_with_the_best_scores_are_kept(path, tmp_path) -> None:
    class Many(Namer):
        def find(self, pictures, names, count=None):
            for picture in pictures:
                seen = {}
                for at in range(12):
                    mask = np.zeros(picture.shape[:2], bool)
                    mask[4:10, 8 * at : 8 * at + 6] = True
                    seen[at] = Sighting(mask, 0.9, 0.5 + at / 100, "cup")
                yield seen

    search(path, tmp_path, Many())
    found = read_search(tmp_path / "masks")
    assert [one.box[0] // 8 for one in found.instances] == [11, 10, 9, 8, 7, 6, 5, 4]
    assert found.left_out == 4


def test_a_stopped_run_ends_with_the_same_bytes(path, tmp_path) -> None:
    def stop(stage, done, total=None, note=""):
        if stage == "follow" and done == 9:
            raise Cancelled

    with pytest.raises(Cancelled):
        search(path, tmp_path / "stopped", Namer(), progress=stop)
    for folder in ("stopped", "whole"):
        search(path, tmp_path / folder, Namer())
    for file in (tmp_path / "whole" / "masks").iterdir():
        assert (tmp_path / "stopped" / "masks" / file.name).read_bytes() == file.read_bytes()


def test_what_it_does_not_find_or_take_is_one_sentence(path, tmp_path) -> None:
    with refused(field="object_name") as caught:
        search(path, tmp_path / "none", Namer(), object_name="kettle")
    assert f"looked at {COUNT} of {COUNT} frames" in str(caught.value)
    with refused(field="object_name"):
        search(path, tmp_path / "none", Namer(), object_name=str(tmp_path / "cup.png"))
    for where in ({"box": (1, 1, 20, 20)}, {"point": (5, 5)}):
        for tracker in (Namer(), "sam3:nowhere"):
            with refused(field="tracker"):
                search(path, tmp_path / "none", tracker, object_name=None, **where)
    assert not (tmp_path / "none" / "masks").exists()


# ---- SAM 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from helpers.tiny_sam3 import save

    return save(tmp_path_factory.mktemp("sam3"))


def noise(count: int, size=(40, 60)) -> list[np.ndarray]:
    draw = np.random.default_rng(5)
    return [draw.integers(0, 256, (*size, 3), dtype=np.uint8) for _ in range(count)]


@pytest.mark.long
@pytest.mark.parametrize("delay", [15, 0])  # frames after which objects are no longer taken back
def test_sam3_sees_what_the_iterator_of_transformers_sees(folder, delay) -> None:
    """Also where frames and outputs that are no longer read are dropped."""
    import torch
    import transformers

    from dejacue.sources.tracks.sam2 import frame_input, output_masks

    tracker = load_tracker(f"sam3:{folder}", device="cpu")
    tracker.model.hotstart_delay = delay
    pictures, names = noise(12), ("cup", "jar")
    frames = [frame_input(image, 56, "cpu", torch.float32, *tracker.scale) for image in pictures]
    session = transformers.Sam3VideoInferenceSession(
        torch.stack(frames), 40, 60, dtype=torch.float32
    )
    for at, name in enumerate(names):
        tokens = tracker.tokenizer(name, return_tensors="pt", padding="max_length", max_length=32)
        assert session.add_prompt(name) == at
        session.prompt_input_ids[at] = tokens.input_ids
        session.prompt_attention_masks[at] = tokens.attention_mask
    outputs = list(tracker.model.propagate_in_video_iterator(session))
    seen = list(tracker.find(iter(pictures), names, len(pictures)))
    assert len(seen) == len(outputs) == 12
    for ours, theirs in zip(seen, outputs, strict=True):
        hidden = session.hotstart_removed_obj_ids | set(theirs.suppressed_obj_ids)
        masks = {
            id: output_masks(logits[None], 40, 60)[0]
            for id, logits in theirs.obj_id_to_mask.items()
            if id not in hidden
        }
        masks = {id: mask for id, mask in masks.items() if mask.any()}
        assert set(ours) == set(masks)
        for id, sighting in ours.items():
            assert np.array_equal(sighting.mask, masks[id])
            assert sighting.score == pytest.approx(theirs.obj_id_to_score[id])
            assert sighting.name in names
    assert any(seen)


@pytest.mark.long
def test_a_folder_with_sam3_is_enough_to_find_by_name(folder, path, tmp_path, caplog) -> None:
    caplog.set_level("INFO", "dejacue")
    any_presence = TrackerOptions(presence=0.0)
    where = where_is(names="cup", tracker=f"sam3:{folder}", options=any_presence)
    job = Job(video=path, where=where, encoder=ColourRows())
    observed = job.observe(None, tmp_path / "out")
    assert observed.tracker == f"sam3:{folder}"
    found = read_search(tmp_path / "out" / "masks")
    assert 1 <= len(found.instances) <= 8
    assert len(found.looks) == COUNT
    notes = read_notes(tmp_path / "out" / "masks")
    assert str(folder / "LICENSE") in notes.details["licence"]
    assert notes.details["precision"] == "fp32"
    assert "SAM License" in caplog.text
    assert list(notes.objects) == [instance.object for instance in found.instances]


@pytest.mark.long
def test_what_sam3_cannot_do_is_one_sentence(folder, tmp_path) -> None:
    with refused(field="tracker", value="sam3"):
        load_tracker("sam3")
    with refused(MissingData, file=tmp_path / "config.json"):
        load_tracker(f"sam3:{tmp_path}")
    with refused(field="fallback"):
        load_tracker(f"sam3:{folder}", fallback=True)
    tracker = load_tracker(f"sam3:{folder}", device="cpu")
    with refused(field="tracker"):
        tracker.session().step(noise(1)[0], [Prompt(box=(1, 1, 9, 9))])
    with refused(field="names"):
        next(tracker.find(iter(noise(1)), ["cupcake " * 9]))
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    for name in ("config.json", "model.safetensors"):
        (wrong / name).write_bytes((folder / name).read_bytes())
    with refused(file=wrong):  # there is no tokenizer
        load_tracker(f"sam3:{wrong}")
    config = json.loads((wrong / "config.json").read_text())
    (wrong / "config.json").write_text(json.dumps({**config, "model_type": "sam2_video"}))
    with refused(file=wrong / "config.json", field="model_type"):
        load_tracker(f"sam3:{wrong}")
