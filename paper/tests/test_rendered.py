"""Rendered scenes: reproducible, with masks of what is drawn and the truth about every frame."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given, settings
from hypothesis import strategies as st

from dejacue.files.histories import read_vocabulary
from dejacue.files.results import read_references
from dejacue.records import Window
from dejacue_paper.data.rendered import FAMILIES, render, scene_reference, write_scene

SMALL = {"frames": 40, "size": (72, 96)}
CALM = {"camera": 0.0, "lighting": 0.0, "clutter": 0.0, "noise": 0.0}


def cup(seed, **options):
    return render(seed, family="cup", **options)


def bytes_of(scene) -> bytes:
    return b"".join(image.tobytes() + labels.tobytes() for image, labels in scene)


def runs(values) -> list[tuple[object, int, int]]:
    """Return (value, first, last) of each maximal run."""
    edges = [0, *(k for k in range(1, len(values)) if values[k] != values[k - 1]), len(values)]
    return [(values[a], a, b - 1) for a, b in pairwise(edges)]


def frames_of(windows) -> set[int]:
    return {frame for window in windows for frame in range(window.start, window.end + 1)}


# The same again


def test_another_seed_gives_another_scene():
    assert bytes_of(cup(5, **SMALL)) != bytes_of(cup(6, **SMALL))


def test_difficulties_change_neither_the_story_nor_the_words_nor_each_other():
    plain = cup(3, **SMALL)
    for more in ({"hand": 1.0}, {"distractors": 3}, {"camera": 1.0, "lighting": 1.0}, {"exits": 1}):
        scene = cup(3, **SMALL, **more)
        assert np.array_equal(scene.progress, plain.progress)
        assert scene.vocabulary.states == plain.vocabulary.states
        assert np.array_equal(scene.backdrop, plain.backdrop)


# The truth


def test_progressive_change_is_slow_steady_and_belongs_to_no_state():
    for seed in range(20):
        scene = cup(seed, topology="progressive", frames=100, size=(48, 64))
        steps = np.diff(scene.progress)
        assert (steps >= 0).all() or (steps <= 0).all()
        assert np.abs(steps).max() <= 3 / 64
        assert 25 <= scene.states.count(None) <= 60


@given(st.integers(0, 500), st.integers(24, 200))
@settings(max_examples=40)
def test_any_number_of_frames_holds_every_state(seed, frames):
    scene = cup(seed, frames=frames, size=(48, 64))
    assert len(scene) == len(scene.states) == len(scene.progress) == frames
    assert min(w.length for windows in scene.references.values() for w in windows) >= 2


def test_the_vocabulary_has_words_for_the_states_that_occur():
    scene = cup(1, topology="binary")
    assert scene.vocabulary.features is None
    assert scene.vocabulary.object == "cup"
    assert set(scene.vocabulary.states) == {state for state in scene.states if state}
    for state, texts in scene.vocabulary.states.items():
        assert len(texts) == 2
        assert set(texts) <= set(FAMILIES["cup"].descriptions[state])
    assert len(cup(1, descriptions=5).vocabulary) % 5 == 0


# Masks


def test_labels_are_the_target_and_the_distractors():
    scene = cup(2, distractors=3, **SMALL)
    images, labels = zip(*scene, strict=True)
    assert all(image.shape == (72, 96, 3) and image.dtype == np.uint8 for image in images)
    assert all(mask.shape == (72, 96) and mask.dtype == np.uint8 for mask in labels)
    assert set(np.unique(labels)) == {0, 1, 2, 3, 4}
    assert set(np.unique([mask for _, mask in cup(2, **SMALL)])) == {0, 1}


def test_a_distractor_of_the_same_family_is_in_another_state_than_the_target_at_the_end():
    for seed in range(10):
        scene = cup(seed, distractors=1, **SMALL)
        state = scene.family.states_at(np.array([scene.distractors[0].progress]))[0]
        assert state >= 0
        assert state != scene.story.labels[-1]


def test_a_hand_hides_what_is_behind_it_and_is_background():
    plain, handed = (cup(8, hand=level, **SMALL) for level in (0.0, 1.0))
    hidden = 0
    for frame in range(40):
        before, after = plain.true_labels(frame), handed.true_labels(frame)
        assert ((after == before) | (after == 0)).all()
        gone = (before == 1) & (after == 0)
        hidden += int(gone.sum())
        other = np.abs(plain.image(frame).astype(int) - handed.image(frame).astype(int)).sum(-1)
        assert (other[gone] > 0).mean() > 0.9 if gone.any() else True
    assert hidden > 500


def test_a_sliver_of_an_object_is_not_labelled():
    for seed in range(6):
        scene = cup(seed, exits=2, hand=0.6, frames=80, size=(72, 96))
        counts = [
            np.bincount(scene.true_labels(frame).ravel(), minlength=2)[1] for frame in range(80)
        ]
        assert min(count for count in counts if count) >= 12
        assert np.array_equal(scene.visible, np.array(counts) > 0)


@given(st.integers(0, 200), st.integers(1, 3))
@settings(max_examples=25)
def test_exits_are_gaps_and_do_not_split_windows(seed, exits):
    scene = cup(seed, exits=exits, size=(48, 64))
    gaps = [run for run in runs(scene.visible.tolist()) if not run[0]]
    assert len(gaps) == exits
    assert all(0 < first <= last < scene.frames - 1 for _, first, last in gaps)
    whole = cup(seed, size=(48, 64))
    for state, windows in scene.references.items():
        assert len(windows) == len(whole.references[state])
        for window, episode in zip(windows, whole.references[state], strict=True):
            assert window | episode == episode
            assert scene.visible[window.start]
            assert scene.visible[window.end]
            cut = frames_of([episode]) - frames_of([window])
            assert not scene.visible[sorted(cut)].any()


def test_the_camera_moves_everything_and_the_light_nothing():
    still, panned = (cup(3, **{**CALM, "camera": level}) for level in (0.0, 1.0))
    centres = [
        [np.argwhere(scene.true_labels(frame) == 1).mean(axis=0) for frame in range(12)]
        for scene in (still, panned)
    ]
    assert np.ptp(centres[0], axis=0).max() < 3
    assert np.ptp(centres[1], axis=0).max() > 3
    lit = cup(3, **{**CALM, "lighting": 1.0})
    assert np.array_equal(lit.true_labels(60), still.true_labels(60))
    assert np.ptp([lit.image(frame).mean() for frame in range(0, 120, 10)]) > 10


# On disk


def test_a_scene_written_as_pictures_is_read_back(tmp_path):
    from PIL import Image

    scene = cup(3, distractors=1, exits=1, **SMALL)
    write_scene(tmp_path / "cup", scene, video=False)
    names = [f"{frame:05d}" for frame in range(40)]
    for folder, suffix in (("JPEGImages", ".jpg"), ("Annotations", ".png")):
        files = sorted(path.name for path in (tmp_path / "cup" / folder).iterdir())
        assert files == [name + suffix for name in names]
    for frame in (0, 17, 39):
        with Image.open(tmp_path / "cup" / "Annotations" / f"{frame:05d}.png") as picture:
            assert picture.mode == "P"
            assert np.array_equal(np.asarray(picture), scene.labels(frame))
        with Image.open(tmp_path / "cup" / "JPEGImages" / f"{frame:05d}.jpg") as picture:
            assert np.abs(np.asarray(picture) - scene.image(frame).astype(int)).mean() < 4
    vocabulary = read_vocabulary(tmp_path / "cup" / "vocabulary.yaml")
    assert vocabulary.states == scene.vocabulary.states
    assert vocabulary.object == "cup"
    (reference,) = read_references(tmp_path / "cup" / "references.json")
    assert reference == scene_reference(scene, "scene")
    assert reference.states == scene.references
    assert reference.frames == Window(0, 39)


def test_a_scene_written_as_video_has_its_frames_and_its_rate(tmp_path):
    from dejacue.video.video import open_video

    scene = cup(3, rate=10, **SMALL)
    write_scene(tmp_path, scene, name="lamp")
    frames = list(open_video(tmp_path / "scene.mp4"))
    assert [frame.index for frame in frames] == list(range(40))
    assert frames[39].time_s == pytest.approx(3.9)
    assert np.abs(frames[20].image.astype(int) - scene.image(20)).mean() < 12
    assert read_references(tmp_path / "references.json")[0].history_id == "lamp"


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with refused(tmp_path):
        write_scene(tmp_path, cup(3, **SMALL), video=False)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_reference_names_the_scene():
    scene = cup(3, topology="three", **SMALL)
    assert scene_reference(scene).history_id == scene.id == "cup-three-3"
    assert set(scene_reference(scene).descriptions) == {"empty", "half full", "full"}


# Bad input


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("family", "cups"),
        ("topology", "ternary"),
        ("mask_noise", "eroded"),
        ("frames", 23),
        ("camera", 1.1),
        ("noise", math.nan),
        ("blur", -0.1),
        ("size", (144, 40)),
        ("size", (144.5, 192)),
        ("rate", 0),
        ("distractors", 5),
        ("descriptions", 9),
        ("seed", -1),
        ("seed", 1.5),
        ("seed", "a"),
    ],
)
def test_what_cannot_be_rendered_is_refused(argument, value):
    with refused(argument.replace("_", " "), value):
        render(**{"seed": 0, argument: value})


def test_more_exits_than_fit_are_refused():
    with refused("exits", 4):
        render(0, frames=30, exits=4)


def test_a_topology_that_the_family_does_not_have_is_refused():
    with refused("topology", "recurrent"):
        render(0, family="toast", topology="recurrent")


@pytest.mark.parametrize("size", [(48, 48), (200, 90), (60, 300)])
def test_any_shape_of_frame_can_be_rendered(size):
    scene = cup(1, size=size, frames=24, camera=1.0, distractors=2, hand=1.0)
    for frame in (0, 12, 23):
        image, labels = scene.frame(frame)
        assert image.shape == (*size, 3)
        assert labels.shape == size
    assert scene.visible.any()
