"""Generated histories: reproducible, with the truth and the difficulties that were asked for."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dejacue
from dejacue import InputError
from dejacue.method import Window
from dejacue_paper import generate

# These tests are about the published method.
locate = partial(dejacue.locate, readout="scan")

STATES = ("empty", "half full", "full")


def bytes_of(scene) -> tuple[bytes, ...]:
    arrays = (scene.history.features, scene.history.frames, scene.vocabulary.features)
    return (*(array.tobytes() for array in arrays), repr(scene.references).encode())


def covered(windows) -> list[int]:
    return [frame for window in windows for frame in range(window.start, window.end + 1)]


def fluctuations(**settings) -> np.ndarray:
    rows = generate(1, signal=0, drift=0, **settings).history.features.astype(np.float64)
    return rows - rows.mean(axis=0)


def mean_overlap(scene, coordinates: str) -> float:
    timeline = locate(scene.history, scene.vocabulary, coordinates=coordinates)
    references = scene.references
    return float(np.mean([max(m.window.iou(w) for w in references[m.state]) for m in timeline]))


@pytest.mark.parametrize("settings", [{}, {"missing": 0.2, "recurrences": 3, "states": STATES}])
def test_the_same_seed_gives_the_same_bytes(settings):
    assert bytes_of(generate(5, **settings)) == bytes_of(generate(5, **settings))


def test_another_seed_gives_another_history_vocabulary_and_truth():
    first, other = generate(5), generate(6)
    assert not np.array_equal(first.history.features, other.history.features)
    assert not np.array_equal(first.vocabulary.features, other.vocabulary.features)
    assert first.references != other.references


def test_a_generated_history_says_where_it_comes_from():
    scene = generate(5, object="jar")
    assert scene.history.id == "generated-5"
    assert scene.history.encoder == scene.vocabulary.encoder == "generated"
    assert scene.vocabulary.object == "jar"
    assert scene.vocabulary.states["empty"] == ("empty jar", "jar that is empty")


def test_shapes_are_those_asked_for():
    scene = generate(2, states=STATES, frames=90, dimension=20, descriptions=4, dtype=np.float16)
    assert scene.history.features.shape == (90, 20)
    assert scene.history.features.dtype == np.float16
    assert scene.vocabulary.features.shape == (12, 20)
    assert list(scene.vocabulary.states) == list(scene.references) == list(STATES)


@given(st.integers(0, 999), st.integers(1, 4), st.integers(2, 5), st.integers(80, 120))
def test_references_partition_the_frames(seed, recurrences, states, frames):
    names = [f"state {k}" for k in range(states)]
    scene = generate(
        seed, states=names, frames=frames, recurrences=recurrences, dimension=states + 6
    )
    windows = sorted(w for intervals in scene.references.values() for w in intervals)
    assert covered(windows) == list(range(frames))
    assert {len(intervals) for intervals in scene.references.values()} == {recurrences}
    assert min(window.length for window in windows) >= 3


def test_recurring_states_come_in_turn():
    scene = generate(3, recurrences=3)
    order = sorted((w, state) for state, intervals in scene.references.items() for w in intervals)
    assert [state for _, state in order] == ["empty", "filled"] * 3


def test_episodes_can_be_given():
    scene = generate(episodes=[("filled", 10), ("empty", 5), ("filled", 7)])
    assert len(scene.history) == 22
    assert scene.references == {
        "empty": (Window(10, 14),),
        "filled": (Window(0, 9), Window(15, 21)),
    }


def test_gaps_are_removed_and_the_rest_is_untouched():
    whole, holed = generate(4).history, generate(4, gaps=((10, 5), (100, 1))).history
    assert holed.runs() == [Window(0, 9), Window(15, 99), Window(101, 239)]
    assert np.array_equal(holed.features, whole.features[holed.frames])


def test_the_truth_is_told_for_unobserved_frames_too():
    assert generate(4, gaps=((10, 5),)).references == generate(4).references


def test_missing_frames_are_removed_at_about_the_share_asked_for():
    whole, holed = generate(4, frames=2000).history, generate(4, frames=2000, missing=0.3).history
    assert 0.26 < 1 - len(holed) / 2000 < 0.34
    assert len(holed.runs()) > 100
    assert np.array_equal(holed.features, whole.features[holed.frames])


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6, 0.9])
def test_neighbouring_frames_are_correlated_as_asked(correlation):
    rows = fluctuations(frames=3000, correlation=correlation)
    assert (rows[1:] * rows[:-1]).sum() / (rows**2).sum() == pytest.approx(correlation, abs=0.02)
    assert rows.var(axis=0).sum() == pytest.approx(1, abs=0.05)


def test_noise_scales_the_fluctuations():
    assert np.abs(fluctuations(noise=0)).max() < 1e-5
    ratio = np.std(fluctuations(noise=3)) / np.std(fluctuations(noise=1))
    assert ratio == pytest.approx(3, rel=1e-3)


def test_drift_moves_frames_slowly_whatever_their_state():
    still = generate(1, signal=0, noise=0, drift=0).history.features
    moving = generate(1, signal=0, noise=0, drift=0.5).history.features
    drifting = generate(1, signal=0, noise=0, drift=1.0).history.features
    assert np.allclose(2 * (moving - still), drifting - still, atol=1e-5)
    path = np.linalg.norm(moving - moving[0], axis=1)
    steps = np.linalg.norm(np.diff(moving, axis=0), axis=1)
    assert path.max() > 0.3
    assert steps.max() < 0.05


def test_signal_separates_the_states_in_the_direction_of_their_descriptions():
    scene = generate(1, noise=0, drift=0)
    (empty,), (filled,) = scene.references["empty"], scene.references["filled"]
    apart = scene.history.features[filled.start] - scene.history.features[empty.start]
    text = scene.vocabulary.features.reshape(2, 2, -1).mean(axis=1)
    text_change = text[1] - text[0]
    assert apart @ text_change / np.linalg.norm(apart) / np.linalg.norm(text_change) > 0.9
    flat = generate(1, noise=0, drift=0, signal=0).history.features
    assert np.abs(flat - flat[0]).max() < 1e-6


def test_vocabulary_coordinates_find_the_states_better_than_absolute_ones():
    scenes = [generate(seed) for seed in range(30)]
    vocabulary = np.mean([mean_overlap(scene, "vocabulary") for scene in scenes])
    absolute = np.mean([mean_overlap(scene, "absolute") for scene in scenes])
    assert vocabulary > absolute + 0.1
    assert vocabulary > 0.65


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"states": ["empty"]}, "at least two different states"),
        ({"states": ["empty", "empty"]}, "at least two different states"),
        ({"correlation": 1.0}, r"correlation and missing must be in \[0, 1\)"),
        ({"correlation": -0.1}, r"correlation and missing must be in \[0, 1\)"),
        ({"correlation": float("nan")}, r"correlation and missing must be in \[0, 1\)"),
        ({"missing": 1.0}, r"correlation and missing must be in \[0, 1\)"),
        ({"dimension": 7}, "dimension must exceed the number of states by 6"),
        ({"frames": 7}, "7 frames are too few for 2 episodes"),
        ({"frames": -1}, "-1 frames are too few"),
        ({"recurrences": 0}, "recurrences, descriptions .* must be at least 1"),
        ({"descriptions": 0}, "recurrences, descriptions .* must be at least 1"),
        ({"descriptions": -1}, "recurrences, descriptions .* must be at least 1"),
        ({"gaps": [(-5, 3)]}, "a gap starts at frame 0 or later"),
        ({"gaps": [(5, 0)]}, "the length of a gap must be at least 1"),
        ({"gaps": [(0, 240)]}, "no observed frame"),
        ({"episodes": []}, "episodes need known states and durations of at least one frame"),
        ({"episodes": [("broken", 5)]}, "episodes need known states"),
        ({"episodes": [("empty", 0)]}, "durations of at least one frame"),
        ({"noise": float("nan")}, "row 0 contains nan"),
        ({"seed": -1}, "seed -1 must be a whole number, 0 or more"),
        ({"seed": 1.5}, "seed 1.5 must be a whole number, 0 or more"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        generate(**settings)
