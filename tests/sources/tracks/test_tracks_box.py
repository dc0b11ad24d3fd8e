"""The tracker of the base install: a box that stays where it is, and which tracker is taken."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from helpers.errors import refused
from PIL import Image

from dejacue import load_tracker, track
from dejacue.sources.tracks import (
    Prompt,
    TrackRequest,
    default_tracker,
    read_notes,
    write_track,
)

FRAMES, HEIGHT, WIDTH = 6, 30, 40


def area(x0: int, y0: int, x1: int, y1: int) -> np.ndarray:
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[y0:y1, x0:x1] = True
    return mask


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "frames"
    folder.mkdir()
    for at in range(FRAMES):
        image = rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        Image.fromarray(image).save(folder / f"{at}.png")
    return folder


def test_the_box_is_the_mask_of_every_frame(folder) -> None:
    frames = list(track(folder, Prompt(0, box=(3.5, 4, 9.2, 12)), "box"))
    assert len(frames) == FRAMES
    for tracked in frames:
        assert (tracked.objects[1].mask == area(3, 4, 10, 12)).all()  # every pixel it touches
        assert tracked.objects[1].presence == 1.0


def test_another_prompt_moves_the_box_from_its_frame_on(folder) -> None:
    prompts = [Prompt(1, box=(0, 0, 5, 5)), Prompt(4, box=(10, 10, 20, 20))]
    for at, tracked in enumerate(track(folder, prompts, "box")):  # and back to the first frame
        mask = tracked.objects[1].mask
        assert (mask == (area(0, 0, 5, 5) if at < 4 else area(10, 10, 20, 20))).all()


def test_of_a_mask_the_box_around_it_stays(folder) -> None:
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[5, 7], mask[20, 30] = True, True
    (first, *_) = track(folder, Prompt(mask=mask), "box")
    assert (first.objects[1].mask == area(7, 5, 31, 21)).all()


def test_clicks_alone_are_refused_and_beside_a_box_change_nothing(folder) -> None:
    with refused(field="box"):
        list(track(folder, Prompt(0, 2, points=((5, 5, True),)), "box"))
    both = Prompt(box=(0, 0, 9, 9), points=((5, 5, True), (8, 8, False)))
    (first, *_) = track(folder, both, "box")
    assert (first.objects[1].mask == area(0, 0, 9, 9)).all()


def test_the_notes_say_that_nothing_was_followed(folder, tmp_path) -> None:
    prompts = [Prompt(0, 1, box=(0, 0, 5, 5)), Prompt(0, 2, box=(2, 2, 9, 9))]
    write_track(tmp_path / "masks.npz", TrackRequest.of(folder, prompts, "box"))
    notes = read_notes(tmp_path / "masks.npz")
    assert (notes.tracker, notes.approximate) == ("box", True)
    assert notes.problems[0].startswith("box: the object is not tracked: the box stays in place")
    assert {id: noted.seen for id, noted in notes.objects.items()} == {1: FRAMES, 2: FRAMES}


def test_objects_do_not_depend_on_each_other(folder) -> None:
    first, second = Prompt(0, 1, box=(0, 0, 5, 5)), Prompt(0, 2, box=(2, 2, 9, 9))
    alone = TrackRequest.of(folder, first, "box")
    assert TrackRequest.of(folder, [first, second], "box").key(1) == alone.key(1)


def test_a_session_goes_on_from_its_state() -> None:
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    session, restored = load_tracker("box").session(), load_tracker("box").session()
    session.step(image, [Prompt(0, 1, box=(0, 0, 5.5, 5)), Prompt(0, 7, box=(2, 2, 9, 9))])
    restored.restore(session.state())
    expected, objects = session.step(image), restored.step(image)
    assert list(objects) == [1, 7]
    assert all((objects[id].mask == expected[id].mask).all() for id in objects)


# Which tracker


def test_trackers_have_names() -> None:
    assert load_tracker("box").name == "box"
    for options in ({"device": "cuda"}, {"precision": "fp16"}, {"fallback": True}):
        with refused(field=next(iter(options))):
            load_tracker("box", **options)
    for name in ("sma2", "box:x", "light", "other:folder"):
        with refused(field="tracker", value=name):
            load_tracker(name)


@pytest.mark.parametrize("missing", ["torch", "transformers", None])
def test_sam2_is_the_default_where_its_extra_is_installed(monkeypatch, missing) -> None:
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == missing else object()
    )
    assert default_tracker() == ("box" if missing else "sam2")
    loaded = []
    monkeypatch.setattr(
        "dejacue.sources.tracks.sam2.load", lambda name, **options: loaded.append(name)
    )
    monkeypatch.setattr("dejacue.sources.catalogue.check_models", lambda **names: None)
    load_tracker()
    assert loaded == ([] if missing else ["sam2"])


def test_the_default_is_known_without_heavy_imports() -> None:
    code = (
        "import sys; from dejacue.sources.tracks import default_tracker; default_tracker(); "
        "print({'torch', 'transformers'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
