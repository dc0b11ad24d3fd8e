"""Frames that were left out: borders between them, and the same answers everywhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from dejacue import History, Vocabulary, locate
from dejacue.method import filling, locate_many
from dejacue.method.filling import filling_of
from dejacue.method.known_frames import KnownFrames
from dejacue.method.localization import analyse
from dejacue.method.timeline import Reading
from dejacue.records.vocabulary import Example
from dejacue.video._sampling import FrameChoice
from dejacue_paper import generate

RATE = 30.0  # frames of the file a second


def taken(history: History, source: np.ndarray) -> History:
    """Return a history of these frames alone; of a file with RATE frames a second."""
    at = np.flatnonzero(np.isin(source, history.frames))
    rows = np.searchsorted(history.frames, source[at])
    return History(
        history.features[rows],
        at,
        encoder=history.encoder,
        times_s=source[at] / RATE,
        source_frames=source[at],
    )


def timed(history: History) -> History:
    return replace(history, times_s=history.frames / RATE)


def as_it_is(history: History) -> History:
    """Return a history that does not say which frames were left out."""
    return replace(history, source_frames=None)


def noisy(seed: int, frames: int = 60) -> tuple[History, Vocabulary]:
    """Return rows that change all the time, of a file of which every 5th or 6th frame was taken, in
    runs of one frame and more."""
    rng = np.random.default_rng(seed)
    numbers = np.flatnonzero(rng.random(frames) < 0.8)
    source = 3 + np.cumsum(rng.integers(5, 7, frames))
    words = Vocabulary({"a": ["a"], "b": ["b"], "c": ["c"]}, np.eye(3, 4))
    rows = rng.normal(size=(len(numbers), 4))
    taken_at = source[numbers]
    history = History(rows, numbers, times_s=taken_at / RATE, source_frames=taken_at)
    return history, words


def borders(timeline) -> list[float]:
    return [border for interval in timeline for border in interval.times_s]


def film(seed: int) -> tuple[History, Vocabulary]:
    """Return all frames of a file in which one state passes into the other and back, slowly."""
    rng = np.random.default_rng(seed)
    first, second = (int(at + rng.integers(0, 30)) for at in (80, 180))
    frames = np.arange(300)
    level = 1 / (1 + np.exp((first - frames) / 3)) - 1 / (1 + np.exp((second - frames) / 3))
    rows = rng.normal(scale=0.03, size=(300, 16))
    rows[:, 0] += 1 - level
    rows[:, 1] += level
    words = Vocabulary({"a": ["a"], "b": ["b"]}, np.eye(2, 16))
    return History(rows, times_s=frames / RATE), words


def off(words: Vocabulary, whole: History, read: Vocabulary, history: History) -> list[float]:
    """Return by how many seconds the borders of a history differ from those of all frames."""
    found, true = borders(analyse(history, read)), borders(analyse(whole, words))
    assert len(found) == len(true) == 6
    return [abs(a - b) for a, b in zip(found[1:-1], true[1:-1], strict=True)]


def test_borders_are_those_of_all_frames_and_not_of_the_stride():
    filled, plain = [], []
    for seed in range(8):
        whole, words = film(seed)
        history = taken(whole, np.arange(0, 300, 7))
        filled += off(words, whole, words, history)
        plain += off(words, whole, words, as_it_is(history))
    assert np.mean(filled) < 0.5 * np.mean(plain)
    assert np.mean(filled) < 1.5 / RATE


@pytest.mark.parametrize("exhaustive", [False, True])
def test_borders_beside_examples_are_those_of_all_frames_too(exhaustive):
    filled, plain = [], []
    for seed in range(8):
        whole, words = film(seed)
        history = taken(whole, np.arange(0, 300, 7))
        words = replace(words, exhaustive=exhaustive)
        here = words.with_examples({"a": [4], "b": [20]})
        there = words.with_examples({"a": [28], "b": [140]})
        filled += off(there, whole, here, history)
        plain += off(there, whole, here, as_it_is(history))
        timeline = analyse(history, here)
        assert [(i.state, i.confirmed) for i in timeline] == [
            ("a", True),
            ("b", True),
            ("a", False),
        ]
        assert (timeline.at(frame=4), timeline.at(frame=20)) == ("a", "b")
    assert np.mean(filled) < 0.7 * np.mean(plain)
    assert np.mean(filled) < 2 / RATE


def test_an_interval_counts_frames_that_were_taken_and_names_those_of_the_file():
    scene = generate(2, frames=300)
    history = taken(scene.history, np.arange(0, 300, 6))
    timeline = locate(history, scene.vocabulary)
    assert any(interval.source_start % 6 for interval in timeline)
    assert any((interval.source_end + 1) % 6 for interval in timeline)
    for interval in timeline:
        history.rows_of(interval.window)  # both ends were taken
        assert 6 * (interval.start - 1) < interval.source_start <= 6 * interval.start
        assert 6 * interval.end <= interval.source_end < 6 * (interval.end + 1)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("reading", "exhaustive"),
    [
        (Reading(), False),
        (Reading(width=0, switch=0), False),
        (Reading(width=0, switch=0), True),
        (Reading(order=("a", "b", "c"), irreversible=True), True),
    ],
)
def test_occurrences_are_disjoint_and_have_frames_that_were_taken(seed, reading, exhaustive):
    history, words = noisy(seed)
    words = replace(words, exhaustive=exhaustive)
    timeline = analyse(history, words, readout=reading)
    assert len(timeline) >= 1
    rows = [history.rows_of(interval.window) for interval in timeline]
    for interval, (first, last) in zip(timeline, rows, strict=True):
        assert first <= last
        assert set(timeline.labels[first : last + 1]) == {interval.state}
        inside = (history.source_frames >= interval.source_start) & (
            history.source_frames <= interval.source_end
        )
        assert np.flatnonzero(inside).tolist() == list(range(first, last + 1))
        assert interval.confidence is not None
    for before, after in zip(timeline, timeline.intervals[1:], strict=False):
        assert before.end < after.start
        assert before.source_end < after.source_start
        assert before.end_s <= after.start_s + 1e-12
    assert len(timeline.labels) == len(history)


@pytest.mark.parametrize("with_times", [True, False])
def test_every_call_and_every_kernel_gives_the_same_answer(with_times):
    pairs = [noisy(seed) for seed in range(4)] + [(generate(1).history, generate(1).vocabulary)]
    if not with_times:
        pairs = [(replace(history, times_s=None), words) for history, words in pairs]
    for history, words in pairs:
        alone = locate(history, words)
        plain = locate(history, words, kernel="numpy").intervals
        assert [structs.replace(interval, score=0.0) for interval in plain] == [
            structs.replace(interval, score=0.0) for interval in alone
        ]
        assert [i.score for i in plain] == pytest.approx([i.score for i in alone], rel=2e-5)
        whole = analyse(history, words)
        assert [structs.replace(interval, confidence=None) for interval in whole] == alone.intervals
        assert all(
            (interval.start_s is None) != (history.times_s is not None) for interval in alone
        )
    sampled = [history for history, _ in pairs[:4]]
    together = locate_many(sampled, pairs[0][1])
    for history, timeline in zip(sampled, together, strict=True):
        assert timeline.intervals == locate(history, pairs[0][1]).intervals


def test_a_history_without_frames_left_out_is_read_as_it_is():
    scene = generate(3, missing=0.2)
    whole = timed(scene.history)
    expected = locate(whole, scene.vocabulary)
    for source in (whole.frames, whole.frames + 40):
        history = replace(whole, source_frames=source)
        assert filling_of(history) is None
        timeline = locate(history, scene.vocabulary)
        assert [i.window for i in timeline] == [i.window for i in expected]
        assert [i.score for i in timeline] == [i.score for i in expected]
        assert borders(timeline) == borders(expected)


@pytest.mark.parametrize("readout", ["contrast", "published"])
def test_other_readouts_take_the_rows_as_they_are(readout):
    scene = generate(2, frames=300)
    history = taken(scene.history, np.arange(0, 300, 6))
    timeline = locate(history, scene.vocabulary, readout=readout)
    plain = locate(as_it_is(history), scene.vocabulary, readout=readout)
    assert [i.window for i in timeline] == [i.window for i in plain]
    assert borders(timeline) == borders(plain)
    assert all(interval.source == history.to_source(interval.window) for interval in timeline)


def test_four_frames_a_second_of_thirty_are_seven_or_eight_apart():
    class Picture:
        def __init__(self, frame: int) -> None:
            self.time_s = frame / RATE

    chosen = FrameChoice(fps=4).select(Picture(frame) for frame in range(300))
    source = np.array([frame for frame, _ in chosen])
    assert set(np.diff(source).tolist()) == {7, 8}
    scene = generate(5, frames=300)
    filled = filling_of(taken(scene.history, source))
    assert filled.source.tolist() == list(range(source[-1] + 1))
    assert filled.source[filled.observed].tolist() == source.tolist()


def test_nothing_is_filled_between_runs():
    frames, source = np.array([0, 1, 3, 5, 6]), np.array([10, 13, 19, 25, 28])
    filled = filling_of(History(np.eye(5), frames, source_frames=source))
    assert filled.source.tolist() == [10, 11, 12, 13, 19, 25, 26, 27, 28]
    assert filled.run_ends.tolist() == [3, 4, 8]
    row = filled.rows(np.array([[0.0, 3.0, 9.0, 4.0, 1.0]]))[0]
    assert row.tolist() == [0, 1, 2, 3, 9, 4, 3, 2, 1]
    assert filled.cuts(np.array([0, 2, 5])).tolist() == [0, 4, 9]
    for frames in ([0, 2, 4], [4, 5, 6]):
        alone = History(np.eye(3), np.array(frames), source_frames=[0, 5, 10])
        assert (filling_of(alone) is None) == (frames == [0, 2, 4])


def test_frames_that_stand_in_another_order_in_the_file_are_read_as_they_are():
    frames = np.arange(3)
    assert filling_of(History(np.eye(3), frames, source_frames=[9, 5, 1])) is None
    assert filling_of(History(np.eye(3), frames, source_frames=[1, 5, 5])) is None


def test_a_very_long_history_is_filled_with_every_nth_frame(monkeypatch):
    monkeypatch.setattr(filling, "MAX_FILLED", 100)
    scene = generate(4, frames=300)
    history = taken(scene.history, np.arange(0, 300, 10))  # 261 frames were left out
    filled = filling_of(history)
    assert len(filled.source) <= 100 + len(history)
    assert set(np.diff(filled.source).tolist()) == {3, 1}  # 0, 3, 6, 9, 10, …
    timeline = locate(history, scene.vocabulary)
    for before, after in zip(timeline.intervals, timeline.intervals[1:], strict=False):
        assert before.source_end < after.source_start
    monkeypatch.setattr(filling, "MAX_FILLED", 10)
    assert filling_of(replace(history)) is None


def test_an_interval_up_to_the_end_of_a_run_lasts_as_its_last_frame_does():
    frames = np.array([*range(20), *range(25, 45)])
    rows = np.eye(2)[(frames >= 25).astype(int)]
    words = Vocabulary({"a": ["a"], "b": ["b"]}, np.eye(2))
    history = History(rows, frames, times_s=frames / 4, source_frames=5 * frames)
    first, second = locate(history, words)
    assert (first.source_end, second.source_start, second.source_end) == (95, 125, 220)
    assert (first.times_s, second.times_s) == ((0.0, 5.0), (6.25, 11.25))


def test_a_visit_that_no_taken_frame_shows_is_none():
    filled = filling_of(History(np.eye(3), source_frames=[0, 4, 8]))
    path = np.array([0, 0, 1, 1, 0, 0, 2, 2, 2])
    assert filled.visible(path, np.array([0, 9])).tolist() == [0, 0, 0, 0, 0, 0, 2, 2, 2]
    path = np.array([0, 0, 1, 1, 1, 1, 1, 2, 0])
    assert filled.visible(path, np.array([0, 9])).tolist() == [0, 0, 1, 1, 1, 1, 1, 1, 0]


def test_a_window_between_two_taken_frames_takes_the_nearest_one_of_its_stretch():
    filled = filling_of(History(np.eye(3), source_frames=[0, 4, 8]))
    assert filled.widened((5, 5), 3, 9) == (4, 5)
    assert filled.widened((6, 7), 3, 9) == (6, 8)
    assert filled.widened((6, 7), 3, 8) == (4, 7)
    assert filled.widened((3, 5), 3, 9) == (3, 5)


def test_the_shortest_stay_counts_frames_that_were_taken():
    rows = np.random.default_rng(7).normal(size=(60, 4))
    history = History(rows, source_frames=6 * np.arange(60))
    words = Vocabulary({"a": ["a"], "b": ["b"]}, np.eye(2, 4))
    shortest = []
    for stay in (1, 3):
        reading = Reading(width=0, switch=0, stay=stay)
        labels = analyse(history, words, readout=reading).labels
        at = [0, *(k for k in range(1, 60) if labels[k] != labels[k - 1]), 60]
        shortest.append(min(np.diff(at)))
    assert shortest == [1, 3]
    assert filling_of(history).stay(59, np.array([0, 60])) == 6 * 59
    assert filling_of(history).stay(60, np.array([0, 60])) == 6 * 59 + 1  # there are no more


def test_named_frames_hold_between_them_and_stay_what_they_are():
    known = KnownFrames(
        labels=np.array([0, 0, -1, 2, 2, 1]), looked=np.array([0, 3]), marks=np.array([3]), states=2
    )
    history = History(np.eye(6), np.array([0, 1, 2, 3, 4, 6]), source_frames=[0, 2, 4, 6, 8, 12])
    filled = filling_of(history).facts(known)
    assert filled.labels.tolist() == [0, 0, 0, -1, -1, -1, 2, 2, 2, 1]
    assert (filled.looked.tolist(), filled.marks.tolist()) == ([0, 6], [6])


def test_one_state_by_an_example_and_what_is_described_only_are_filled_as_well():
    rows = np.eye(4)[[0] * 12 + [1] * 12 + [0] * 12]
    history = History(rows, source_frames=5 * np.arange(36), times_s=np.arange(36) / 6)
    alone = analyse(history, Vocabulary({"b": ()}, examples=[Example("b", (15, 15))]))
    (interval,) = alone
    assert (interval.start, interval.end) == (12, 22)
    assert 55 < interval.source_start <= 60
    assert 110 < interval.source_end < 115
    described = Vocabulary({"a": ["a"], "b": ["b"]}, np.eye(2, 4)).with_examples({"b": [15]})
    assert {i.state for i in analyse(history, described)} >= {"b"}


def test_a_marked_change_is_a_border_of_the_file():
    scene = generate(6, frames=300)
    history = taken(scene.history, np.arange(0, 300, 6))
    words = scene.vocabulary.with_examples(changes=[20])
    timeline = analyse(history, words)
    assert timeline.labels[19] != timeline.labels[20]
    assert not any(i.source_start < 120 <= i.source_end for i in timeline)
