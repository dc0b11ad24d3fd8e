"""The families of rendered objects, and what degrades a scene or its masks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from dejacue.files.histories import read_vocabulary
from dejacue.records import Vocabulary, Window
from dejacue_paper.data.rendered import FAMILIES, TOPOLOGIES, render, write_scene
from dejacue_paper.data.rendered import scene as scene_module
from dejacue_paper.data.rendered.degrade import grown
from dejacue_paper.data.rendered.drawing import Canvas, Viewpoint, stamp

SMALL = {"frames": 40, "size": (72, 96)}
CALM = {"camera": 0.0, "lighting": 0.0, "clutter": 0.0, "noise": 0.0}
PAIRS = [(name, topology) for name, family in FAMILIES.items() for topology in family.topologies]


def bytes_of(scene) -> bytes:
    return b"".join(image.tobytes() + labels.tobytes() for image, labels in scene)


def runs(values) -> list[tuple[object, int, int]]:
    """Return (value, first, last) of each maximal run."""
    edges = [0, *(k for k in range(1, len(values)) if values[k] != values[k - 1]), len(values)]
    return [(values[a], a, b - 1) for a, b in pairwise(edges)]


def test_there_are_ten_families_or_more_in_which_every_state_has_four_paraphrases():
    assert len(FAMILIES) >= 10
    for name, family in FAMILIES.items():
        assert family.name == name
        assert family.states == tuple(family.descriptions)
        assert len(family.states) >= 2
        assert all(len(set(texts)) >= 4 for texts in family.descriptions.values())
        Vocabulary(family.descriptions)  # no description belongs to two states


def test_every_topology_has_families_with_and_without():
    for topology in TOPOLOGIES[1:]:
        able = [family for family in FAMILIES.values() if topology in family.topologies]
        assert 0 < len(able) < len(FAMILIES)
    assert all("binary" in family.topologies for family in FAMILIES.values())


@pytest.mark.parametrize("name", FAMILIES)
def test_states_look_different_and_appearances_too(name):
    family = FAMILIES[name]

    def drawn(seed: int, state: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        view, paint = Viewpoint.draw(rng), family.make(rng)
        canvas = Canvas(view)
        paint(canvas, family.anchor(state))
        return np.asarray(canvas.image).astype(int)

    for seed in range(3):
        pictures = [drawn(seed, state) for state in range(len(family.states))]
        for first, other in pairwise(pictures):
            touched = (first[..., 3] > 0) | (other[..., 3] > 0)
            changed = np.abs(first - other).max(axis=-1) > 40
            assert changed.sum() > 0.05 * touched.sum()
    assert (np.abs(drawn(0, 0) - drawn(1, 0)).max(axis=-1) > 40).mean() > 0.05


def test_the_same_arguments_give_the_same_bytes():
    hard = {"hand": 0.5, "distractors": 2, "exits": 1, "blur": 0.3, "blocks": 0.5}
    assert bytes_of(render(5, **SMALL, **hard)) == bytes_of(render(5, **SMALL, **hard))


@pytest.mark.parametrize("family", ["candle", "umbrella"])
def test_a_frame_is_the_same_on_its_own_and_in_its_turn(family):
    scene, again = render(2, family=family, **SMALL), render(2, family=family, **SMALL)
    in_turn = list(scene)
    for frame in (31, 4, 31, 0):
        image, labels = again.frame(frame)
        assert np.array_equal(image, in_turn[frame][0])
        assert np.array_equal(image, again.image(frame))
        assert np.array_equal(labels, in_turn[frame][1])
        assert np.array_equal(labels, again.labels(frame))
        assert np.array_equal(labels, again.true_labels(frame))


def test_the_seed_chooses_family_and_topology():
    scenes = [render(seed, **SMALL) for seed in range(60)]
    assert len({scene.family.name for scene in scenes}) >= 10
    assert {scene.topology for scene in scenes} == set(TOPOLOGIES)
    recurrent = {render(seed, topology="recurrent", **SMALL).family for seed in range(30)}
    assert all(family.reversible for family in recurrent)


@pytest.mark.parametrize(("family", "topology"), PAIRS)
def test_the_state_of_every_frame_follows_from_its_progress(family, topology):
    for seed in range(6):
        scene = render(seed, family=family, topology=topology, size=(48, 64))
        kind, states = scene.family, list(scene.vocabulary.states)
        for frame in range(scene.frames):
            holding = [
                state
                for state in states
                if abs(scene.progress[frame] - kind.anchor(kind.states.index(state)))
                <= kind.tolerance(kind.states.index(state))
            ]
            assert [scene.states[frame]] == (holding or [None])


@pytest.mark.parametrize(("family", "topology"), PAIRS)
def test_references_are_the_episodes_of_each_state(family, topology):
    for seed in range(6):
        scene = render(seed, family=family, topology=topology, size=(48, 64))
        assert scene.visible.all()
        expected: dict = dict.fromkeys(scene.vocabulary.states, ())
        for state, first, last in runs(scene.states):
            if state is not None:
                expected[state] = (*expected[state], Window(first, last))
        assert scene.references == expected
        assert all(scene.references.values())


@pytest.mark.parametrize(("family", "topology"), PAIRS)
def test_states_follow_each_other_as_the_topology_says(family, topology):
    names = FAMILIES[family].states
    for seed in range(8):
        scene = render(seed, family=family, topology=topology, size=(48, 64))
        order = [state for state, _, _ in runs(scene.states) if state is not None]
        if topology == "binary":
            assert len(order) == len(set(order)) == 2
        elif topology == "recurrent":
            assert len(order) > len(set(order)) == len(scene.vocabulary.states)
        else:
            assert order in (list(names), list(names)[::-1])
        if not FAMILIES[family].reversible:
            assert order == sorted(order, key=names.index)


def test_an_instant_change_leaves_no_frame_without_a_state():
    for family in ("bulb", "traffic light"):
        for seed in range(5):
            assert None not in render(seed, family=family, size=(48, 64)).states


@pytest.mark.parametrize("family", FAMILIES)
def test_the_mask_is_where_the_object_is_drawn(family, monkeypatch):
    def stamp_others(drawing, place, image, labels, label):
        if label != 1:
            stamp(drawing, place, image, labels, label)

    scene = render(4, family=family, **CALM)
    for frame in (0, 60, 119):
        mask, image = scene.true_labels(frame) == 1, scene.image(frame).astype(int)
        with monkeypatch.context() as patched:
            patched.setattr(scene_module, "stamp", stamp_others)
            change = np.abs(image - scene.image(frame)).max(axis=-1)
        assert 0.01 < mask.mean() < 0.5
        assert (change[mask] > 0).mean() > 0.99
        assert change[~grown(mask, 1)].max() <= 8  # beyond the soft edge


@pytest.mark.parametrize("difficulty", ["noise", "blur", "blocks", "lighting", "clutter"])
def test_each_difficulty_grows_with_its_level(difficulty):
    plain = render(7, family="box", **CALM).image(30).astype(float)
    distances = [
        np.abs(render(7, family="box", **{**CALM, difficulty: level}).image(30) - plain).mean()
        for level in (0.3, 1.0)
    ]
    assert 0 < distances[0] < distances[1]


def eroded(mask: np.ndarray, pixels: int) -> np.ndarray:
    """Return, pixel by pixel, those whose whole square, clipped to the frame, lies in the mask."""
    out = np.zeros_like(mask)
    for y, x in np.argwhere(mask):
        square = mask[max(y - pixels, 0) : y + pixels + 1, max(x - pixels, 0) : x + pixels + 1]
        out[y, x] = square.all()
    return out


@pytest.mark.parametrize(("kind", "level", "pixels"), [("erode", 0.5, 2), ("dilate", 0.5, 4)])
def test_masks_lose_or_gain_a_border_of_so_many_pixels(kind, level, pixels):
    scene = render(2, mask_noise=kind, mask_level=level, distractors=1, **SMALL)
    for frame in (0, 25):
        true, noisy = scene.true_labels(frame), scene.labels(frame)
        if kind == "erode":
            assert np.array_equal(noisy == 1, eroded(true == 1, pixels))
            assert np.array_equal(noisy == 2, true == 2)
        else:
            assert np.array_equal(noisy != 1, eroded(true != 1, pixels))
            assert np.array_equal(noisy == 2, (true == 2) & (noisy != 1))


def test_a_drifting_mask_keeps_its_shape_and_slides_away_evenly():
    scene = render(2, mask_noise="drift", mask_level=0.5, **SMALL)
    assert np.array_equal(scene.labels(0), scene.true_labels(0))
    for frame in (13, 39):
        down, right = scene.mask_noise.shift(frame)
        assert np.hypot(down, right) == pytest.approx(12 * frame / 39, abs=0.8)
        expected = np.zeros((72, 96), dtype=bool)
        for y, x in np.argwhere(scene.true_labels(frame) == 1):
            if 0 <= y + down < 72 and 0 <= x + right < 96:
                expected[y + down, x + right] = True
        assert np.array_equal(scene.labels(frame) == 1, expected)


def test_a_switch_puts_the_target_s_label_on_a_distractor():
    scene = render(2, mask_noise="switch", mask_level=0.25, **SMALL)
    assert len(scene.distractors) == 1
    for frame in range(30):
        assert np.array_equal(scene.labels(frame), scene.true_labels(frame))
    for frame in range(30, 40):
        true, noisy = scene.true_labels(frame), scene.labels(frame)
        assert (true == 2).sum() > 50
        assert np.array_equal(noisy == 1, true == 2)
        assert (noisy[true == 1] == 0).all()


@pytest.mark.parametrize("kind", ["erode", "dilate", "drift", "switch"])
def test_mask_noise_changes_no_pixel_of_the_image_and_not_the_truth(kind):
    plain = render(2, distractors=1, **SMALL)
    noisy = render(2, distractors=1, mask_noise=kind, mask_level=1.0, **SMALL)
    assert noisy.references == plain.references
    assert np.array_equal(noisy.visible, plain.visible)
    image, labels = noisy.frame(35)
    assert np.array_equal(image, plain.image(35))
    assert np.array_equal(noisy.true_labels(35), plain.true_labels(35))
    assert not np.array_equal(labels, plain.labels(35))


def test_at_level_zero_masks_are_true():
    for kind in ("erode", "dilate", "drift", "switch"):
        scene = render(2, mask_noise=kind, mask_level=0.0, **SMALL)
        assert np.array_equal(scene.labels(39), scene.true_labels(39))


def test_states_that_yaml_would_take_for_truth_values_are_written_in_quotes(tmp_path):
    scene = render(3, family="bulb", **SMALL)
    write_scene(tmp_path / "bulb", scene, video=False)
    vocabulary = read_vocabulary(tmp_path / "bulb" / "vocabulary.yaml")  # "on", "off"
    assert vocabulary.states == scene.vocabulary.states
    assert vocabulary.object == "light bulb"
