"""Looking at a part of the frames: which ones, and what is said of the others."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import History, Vocabulary
from dejacue.method.known_frames import looks_weight
from dejacue.method.looks import Looks, fill, first_looks, look_less
from dejacue.method.plan import Plan
from dejacue.records.history import seen_text
from dejacue_paper import generate


def looking(history, vocabulary, looks="auto", readout="contrast", **options):
    """Return rows, flags and the positions in the order in which they were looked at."""
    plan, order = Plan.of(None, readout, None, None, False, "auto"), []

    def look(positions):
        order.extend(positions.tolist())
        return history.features[positions]

    def read(rows, seen):
        return plan.analyse(plan.view(replace(history, features=rows), vocabulary))

    rows, seen = look_less(history.frames, look, read, looks=Looks.of(looks), **options)
    return rows, seen, order


def answers(history, vocabulary, readout="contrast"):
    plan = Plan.of(None, readout, None, 1, False, "auto")
    return [interval.window for interval in plan.answer([(history, vocabulary)])]


@pytest.mark.parametrize(
    "budget",
    [0, -3, float("nan"), 2.5, True, "0", "-1", "0%", "101%", "nan", "inf", "nan%", "few", ""],
)
def test_a_budget_that_is_no_number_of_frames_is_refused(budget):
    with refused(field="looks"):
        Looks.of(budget)


def test_budgets_are_all_as_needed_a_number_or_a_share():
    assert Looks.of("all") is Looks.of(None) is None
    limits = {text: Looks.of(text).limit(200) for text in ("auto", "40", 40, "25%", "0.1%", 900)}
    assert limits == {"auto": 200, "40": 40, 40: 40, "25%": 50, "0.1%": 1, 900: 200}
    assert [str(Looks.of(text)) for text in ("auto", 40, "25%")] == ["auto", "40", "25%"]


def test_rows_are_filled_linearly_by_frames_and_repeated_at_the_ends():
    rows = np.array([[9.0], [0], [9], [9], [9], [16], [9]], np.float32)
    seen = np.array([0, 1, 0, 0, 0, 1, 0], bool)
    filled, *_ = fill(rows, seen, np.array([1, 2, 3, 15, 16, 18, 19]))  # away for a while
    assert filled.ravel().tolist() == [0, 0, 1, 13, 14, 16, 16]


@pytest.mark.parametrize("readout", ["contrast", "joint"])
def test_a_long_history_is_answered_from_a_fifth_of_its_frames(readout):
    for seed in range(4):
        scene = generate(seed, frames=600)
        history, words = scene.history, scene.vocabulary
        rows, seen, order = looking(history, words, readout=readout)
        assert seen.mean() <= 0.2
        assert sorted(order) == np.flatnonzero(seen).tolist()
        full = answers(history, words, readout)
        partly = answers(replace(history, features=rows), words, readout)
        for window, other in zip(partly, full, strict=True):
            assert abs(window.start - other.start) <= 6
            assert abs(window.end - other.end) <= 6


def test_what_was_seen_is_as_the_encoder_gave_it_and_a_second_run_sees_the_same():
    scene = generate(3, frames=200, missing=0.1)
    history = scene.history
    rows, seen, order = looking(history, scene.vocabulary)
    assert np.array_equal(rows[seen], history.features[seen])
    again = looking(history, scene.vocabulary)
    assert np.array_equal(rows, again[0])
    assert order == again[2]


@pytest.mark.parametrize("budget", [1, 2, 7, "12%"])
def test_a_budget_is_never_exceeded(budget):
    scene = generate(1, frames=100, missing=0.3, signal=0.1)
    _, seen, order = looking(scene.history, scene.vocabulary, budget)
    assert len(order) == seen.sum() <= Looks.of(budget).limit(len(scene.history))


def test_rows_of_an_earlier_search_are_not_looked_at_again():
    first, second = generate(4, frames=300), generate(5, frames=300)
    rows, seen, _ = looking(first.history, first.vocabulary)
    more_rows, more_seen, order = looking(first.history, second.vocabulary, known=(rows, seen))
    assert not seen[order].any()
    assert (more_seen[seen]).all()
    assert np.array_equal(more_rows[seen], rows[seen])


def test_frames_beside_a_mark_are_looked_at_first():
    assert {121, 122, 123} <= set(first_looks(500, 500, [122]).tolist())
    assert first_looks(500, 3, [122]).tolist() == [121, 122, 123]
    assert first_looks(1, 1).tolist() == [0]


@pytest.mark.parametrize("length", [2, 20])
def test_a_history_of_many_runs_is_answered_from_a_fifth_of_its_frames(length):
    scene = generate(6, frames=400)
    history = History(scene.history.features, np.arange(400) + np.arange(400) // length)
    rows, seen, _ = looking(history, scene.vocabulary)
    assert seen.mean() <= 0.2
    partly = answers(replace(history, features=rows), scene.vocabulary)
    for window, full in zip(partly, answers(history, scene.vocabulary), strict=True):
        assert abs(window.start - full.start) <= 6
        assert abs(window.end - full.end) <= 6


def test_a_history_knows_which_rows_were_seen():
    seen = np.array([1, 1, 0, 0, 1, 0], bool)
    frames = np.array([3, 4, 5, 8, 9, 10])
    made_with = seen_text(frames, seen)
    assert made_with == {"seen": "3:2 9:1"}
    history = History(np.eye(6), frames, made_with=made_with)
    assert history.seen.tolist() == seen.tolist()
    assert History(np.eye(6)).seen.all()
    assert seen_text(frames, seen | True) == {}


@pytest.mark.parametrize("text", ["", "3", "3:x", "3:2:1", "9" * 30 + ":1", "3:2 9"])
def test_a_list_of_seen_frames_that_is_none_is_refused(text):
    with refused(field="seen"):
        History(np.eye(2), made_with={"seen": text})


def test_frames_that_are_alike_share_a_look_and_are_not_called_seen():
    rows = np.repeat(np.eye(4, dtype=np.float32), 25, axis=0)
    history = History(rows)
    stretch = np.repeat(np.arange(4) * 25, 25)
    plan = Plan.of(None, "contrast", None, None, False, "auto")
    words = Vocabulary({"a": ["a"], "b": ["b"]}, np.eye(4, dtype=np.float32)[:2])
    asked = []

    def look(positions):
        asked.extend(positions.tolist())
        return rows[positions]

    def read(features, seen):
        return plan.analyse(plan.view(History(features), words))

    filled, seen = look_less(history.frames, look, read, looks=Looks(), alike=stretch)
    assert len(asked) == seen.sum() == 4
    assert np.array_equal(filled, rows)


def test_looks_weigh_by_the_rows_that_were_seen_not_by_those_filled_in():
    weights = []
    for seed in range(5):
        history = generate(seed, frames=200, correlation=0.0).history
        seen = np.isin(np.arange(200), (*range(0, 200, 10), *range(41, 199, 40)))
        filled, *_ = fill(history.features, seen, history.frames)
        smooth = replace(history, features=filled)
        partly = replace(smooth, made_with=seen_text(history.frames, seen))
        weights.append([looks_weight(rows) for rows in (history, partly, smooth)])
    whole, partly, smooth = np.mean(weights, axis=0)
    assert partly == pytest.approx(whole, abs=0.15)
    assert smooth == 1.0 > 2 * whole


def test_frames_that_share_a_look_count_as_seen():
    rows = np.repeat(np.eye(4, dtype=np.float32), 25, axis=0)
    seen = np.arange(100) % 25 == 7
    shared = History(rows, made_with=seen_text(np.arange(100), seen))
    assert looks_weight(shared) == looks_weight(History(rows)) == 1.0
