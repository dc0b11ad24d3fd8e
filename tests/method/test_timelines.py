"""One reading per call, one default, the published preset, and columns instead of objects."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from helpers.errors import refused
from msgspec import structs

from dejacue import History, Vocabulary, locate
from dejacue.method import Contrast, Scan, evidence, locate_many
from dejacue.method.kernel import engine
from dejacue.method.localization import PRESETS, READOUTS, Plan, analyse
from dejacue_paper import Peak, generate


class Counted:
    """An engine that counts how often it starts from features."""

    def __init__(self, inner) -> None:
        self.inner, self.calls = inner, []

    def __getattr__(self, name):
        value = getattr(self.inner, name)
        if name not in ("cosines", "locate", "contrast"):
            return value

        def call(*args):
            self.calls.append(name)
            return value(*args)

        return call


@pytest.mark.parametrize("readout", sorted(READOUTS))
def test_a_reading_computes_the_cosines_once(readout, monkeypatch) -> None:
    scene = generate(3, recurrences=3)
    counted = Counted(engine())
    monkeypatch.setattr("dejacue.method.localization.engine_named", lambda name: counted)
    from dejacue.method.localization import Plan

    Plan.of.cache_clear()
    timeline = analyse(scene.history, scene.vocabulary, readout=readout, diagnostics=True)
    Plan.of.cache_clear()
    second_opinion = ["cosines"] if readout == "timeline" else []  # of each description alone
    assert counted.calls[1:] == second_opinion
    assert timeline.evidence.responses.shape == (len(scene.vocabulary), len(scene.history))


@pytest.mark.parametrize("readout", ["contrast", "timeline", "published", "peak"])
def test_a_reading_holds_what_the_single_functions_give(readout) -> None:
    scene = generate(4, recurrences=3, frames=300)
    whole = analyse(scene.history, scene.vocabulary, readout=readout)
    alone = locate(scene.history, scene.vocabulary, readout=readout)
    assert [structs.replace(i, confidence=None) for i in whole] == alone.intervals
    assert all((i.confidence is not None) == (readout == "timeline") for i in whole)
    seen = evidence(scene.history, scene.vocabulary, readout=readout)
    np.testing.assert_array_equal(whole.evidence.responses, seen.responses)


def test_a_still_picture_has_no_answer_and_one_note() -> None:
    scene = generate(4, frames=300, signal=2.0)
    assert analyse(scene.history, replace(scene.vocabulary, exhaustive=True)).notes == ()
    still = History(np.tile(scene.history.features[:1], (40, 1)), encoder="generated")
    timeline = analyse(still, scene.vocabulary)
    (note,) = timeline.notes
    assert "all frames look the same" in note
    assert list(timeline) == []


@pytest.mark.parametrize(("unlike", "still"), [(0.5e-6, True), (1.5e-6, False)])
@pytest.mark.parametrize("frames", [2, 1030])
def test_one_frame_that_looks_otherwise_is_no_still_picture(unlike, still, frames) -> None:
    words = Vocabulary({"a": ["an a"], "b": ["a b"]}, np.eye(2))
    rows = np.tile([1.0, 0.0], (frames, 1))
    rows[-1] = 1 - unlike, np.sqrt(1 - (1 - unlike) ** 2)
    notes = analyse(History(rows), words).notes
    assert any("all frames look the same" in note for note in notes) is still


def test_a_single_frame_is_no_still_picture() -> None:
    words = Vocabulary({"a": ["an a"], "b": ["a b"]}, np.eye(2))
    notes = analyse(History([[1.0, 0.5]]), words).notes
    assert not any("all frames look the same" in note for note in notes)


def test_contrast_gives_one_window_a_state_and_timeline_all_occurrences() -> None:
    history = History(np.eye(2)[np.repeat([0, 1] * 5, 20)])  # each state five times
    words = Vocabulary({"a": ["an a"], "b": ["a b"]}, np.eye(2))
    assert [len(analyse(history, words)[state]) for state in "ab"] == [5, 5]
    assert [len(analyse(history, words, readout="contrast")[state]) for state in "ab"] == [1, 1]


def test_timeline_is_the_default_everywhere_in_python() -> None:
    scene = generate(5)
    for timeline in (
        locate(scene.history, scene.vocabulary),
        next(locate_many([scene.history], scene.vocabulary)),
        analyse(scene.history, scene.vocabulary),
    ):
        assert timeline.settings["readout"]["name"] == "timeline"
        assert timeline.settings["coordinates"] == "vocabulary"


def test_published_is_a_preset_that_no_option_changes() -> None:
    scene = generate(5)
    timeline = locate(scene.history, scene.vocabulary, readout="published")
    assert timeline.to_dict()["settings"] == {
        "coordinates": "vocabulary",
        "readout": {
            "name": "scan",
            "durations": "published",
            "norm": "sqrt",
            "runs": "strict",
            "smoothing": 3,
        },
    }
    assert PRESETS["published"][1] == Scan()
    with refused("coordinates", "dual"):
        locate(scene.history, scene.vocabulary, readout="published", coordinates="dual")
    with refused("smoothing"):
        locate(scene.history, scene.vocabulary, readout="published", smoothing=5)
    same = locate(scene.history, scene.vocabulary, readout="published", coordinates="vocabulary")
    assert [m.window for m in same] == [m.window for m in timeline]


@pytest.mark.parametrize(
    "readout", ["contrast", "timeline", "max-frame", "boxcar", "whole-history"]
)
def test_smoothing_is_refused_by_name_where_it_does_not_apply(readout) -> None:
    scene = generate(5)
    with refused("smoothing"):
        locate(scene.history, scene.vocabulary, readout=readout, smoothing=9)


def test_readouts_that_smooth_otherwise_say_how() -> None:
    for name, setting in (("contrast", True), ("whole-history", False)):
        with refused("smoothing") as caught:
            Plan.of(None, name, 3, False, "auto")
        assert ("Contrast(smoothing_s=0.8)" in str(caught.value)) == setting


def test_smoothing_is_a_setting_of_the_readouts_that_have_it() -> None:
    scene = generate(5)
    for readout in (Scan(smoothing=9), Peak(smoothing=9)):
        timeline = locate(scene.history, scene.vocabulary, readout=readout)
        asked = locate(scene.history, scene.vocabulary, readout=readout.name, smoothing=9)
        assert [(m.window, m.score) for m in timeline] == [(m.window, m.score) for m in asked]
        assert timeline.settings["readout"]["smoothing"] == 9


def batch(count: int = 7):
    scenes = [generate(seed, frames=80 + seed, missing=0.1 * (seed % 2)) for seed in range(count)]
    return [m.history for m in scenes], [m.vocabulary for m in scenes]


@pytest.mark.parametrize(
    "readout", ["published", "contrast", "timeline", Contrast(pooling=0), "peak"]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_columns_hold_what_the_timelines_hold(readout, threads) -> None:
    histories, vocabularies = batch()
    columns = locate_many(histories, vocabularies, readout=readout, threads=threads).columns()
    one_by_one = [
        interval
        for history, vocabulary in zip(histories, vocabularies, strict=True)
        for interval in locate(history, vocabulary, readout=readout)
    ]
    assert columns["start"].tolist() == [m.window.start for m in one_by_one]
    assert columns["end"].tolist() == [m.window.end for m in one_by_one]
    assert columns["score"].tolist() == [m.score for m in one_by_one]
    assert columns["state"] == [m.state for m in one_by_one]
    per_state = readout in ("contrast", "timeline")
    assert ("description" in columns) is not per_state
    assert columns.get("description", [None] * len(one_by_one)) == [
        m.description for m in one_by_one
    ]


def test_columns_lead_back_to_the_file_where_the_histories_do() -> None:
    histories, vocabularies = batch(3)
    frames = histories[1].frames
    histories[1] = History(
        histories[1].features,
        frames,
        "timed",
        "generated",
        times_s=frames / 5,
        source_frames=6 * frames,
    )
    timelines = list(locate_many(histories, vocabularies))
    columns = locate_many(histories, vocabularies).columns()
    rows = [i for i, name in enumerate(columns["history"]) if name == "timed"]
    for row, interval in zip(rows, timelines[1], strict=True):
        assert interval.times_s == (columns["start_s"][row], columns["end_s"][row])
        assert tuple(interval.source) == (columns["source_start"][row], columns["source_end"][row])
        # five of six frames were left out, so a border may lie between two that were taken
        assert interval.start_s == pytest.approx(interval.source.start / 30)
        assert 6 * (interval.start - 1) < interval.source.start <= 6 * interval.start
        assert 6 * interval.end <= interval.source.end < 6 * (interval.end + 1)
        assert interval.end / 5 < interval.end_s < (interval.end + 1) / 5 + 1e-9
    assert all(
        interval.times_s is None and interval.source_start is None for interval in timelines[0]
    )
    assert np.isnan(columns["start_s"][: rows[0]]).all()


@pytest.mark.parametrize("at_a_time", [1, 9])
def test_histories_with_and_without_times_stand_in_one_batch(monkeypatch, at_a_time) -> None:
    monkeypatch.setattr("dejacue.method.localization.CHUNK_HISTORIES", at_a_time)
    scenes = [generate(seed, frames=80) for seed in range(3)]
    plain, rows = scenes[0].history, np.arange(80)
    timed = History(scenes[1].history.features, times_s=rows / 4, encoder="generated")
    sampled = History(scenes[2].history.features, source_frames=3 * rows, encoder="generated")
    timelines = list(locate_many([plain, timed, sampled], scenes[0].vocabulary))
    assert [len(timeline) for timeline in timelines] == [2, 3, 3]
    for timeline, history in zip(timelines, (plain, timed, sampled), strict=True):
        alone = locate(history, scenes[0].vocabulary)
        assert [(m.times_s, m.source) for m in timeline] == [(m.times_s, m.source) for m in alone]
    assert (
        timelines[0][0].times_s is timelines[0][0].source_start is timelines[2][0].times_s is None
    )
    assert timelines[1][0].times_s[0] == timelines[1][0].start / 4
    for interval in timelines[2]:
        assert 3 * (interval.start - 1) < interval.source.start <= 3 * interval.start
        assert 3 * interval.end <= interval.source.end < 3 * (interval.end + 1)
    table = locate_many([plain, timed, sampled], scenes[0].vocabulary).columns()
    for name in ("start", "end"):  # the first two count the frames of the file
        assert table[f"source_{name}"][:5].tolist() == table[name][:5].tolist()
        of_sampled = [getattr(interval, f"source_{name}") for interval in timelines[2]]
        assert table[f"source_{name}"][5:].tolist() == of_sampled
    assert np.isnan(table["start_s"]).tolist() == [True] * 2 + [False] * 3 + [True] * 3
    only = locate(timed, scenes[0].vocabulary)
    assert only[0].times_s is not None
    assert locate(sampled, scenes[0].vocabulary)[0].source_start is not None


@pytest.mark.parametrize(("seen", "words"), [("mini", None), (None, "mini"), ("mini", "mini")])
def test_an_answer_names_the_encoder_that_either_side_names(seen, words) -> None:
    scene = generate(0)
    history = replace(scene.history, encoder=seen)
    assert locate(history, replace(scene.vocabulary, encoder=words)).encoder == "mini"


def test_data_frames_and_arrow_come_from_the_columns() -> None:
    histories, vocabularies = batch(3)
    frame = locate_many(histories, vocabularies).to_dataframe("pandas")
    arrow = locate_many(histories, vocabularies).to_arrow()
    columns = locate_many(histories, vocabularies).columns()
    assert list(frame.columns) == arrow.column_names == list(columns)
    assert frame["score"].tolist() == arrow["score"].to_pylist() == columns["score"].tolist()


def test_timelines_do_not_keep_features_alive() -> None:
    histories, vocabularies = batch(2)
    seen = weakref.ref(histories[0])
    timelines = list(locate_many(histories, vocabularies))
    del histories
    gc.collect()
    assert seen() is None
    assert len(timelines[0]) == len(vocabularies[0].states)


def test_text_directions_are_computed_once_per_vocabulary(monkeypatch) -> None:
    from dejacue.method import coordinates

    scene, calls = generate(6), []
    compute = coordinates._word_directions
    monkeypatch.setattr(coordinates, "_word_directions", lambda *a: calls.append(a) or compute(*a))
    for _ in range(3):
        locate(scene.history, scene.vocabulary)
        list(locate_many([scene.history] * 4, scene.vocabulary, readout="published"))
    assert len(calls) == 2  # pooled for the timeline, plain for the paper


@pytest.mark.parametrize("readout", ["contrast", "timeline", "published"])
def test_where_frames_are_counted_from_moves_the_windows_and_nothing_else(readout) -> None:
    scene = generate(6, missing=0.2)
    earlier = History(scene.history.features, scene.history.frames - 1000, encoder="generated")
    timeline = analyse(scene.history, scene.vocabulary, readout=readout)
    moved = analyse(earlier, scene.vocabulary, readout=readout)
    for interval, other in zip(timeline, moved, strict=True):
        assert (interval.start - 1000, interval.end - 1000) == tuple(other.window)
        assert (interval.state, interval.score) == (other.state, other.score)
    np.testing.assert_array_equal(timeline.evidence.responses, moved.evidence.responses)


def test_timelines_are_read_once_and_say_so() -> None:
    histories, vocabularies = batch(2)
    timelines = locate_many(histories, vocabularies)
    assert len(list(timelines)) == 2
    for again in (lambda: list(timelines), timelines.columns):
        with refused("timelines"):
            again()
    timelines = locate_many(histories, vocabularies)
    assert len(timelines.columns()["start"])
    with refused("timelines"):
        timelines.columns()
    nothing = locate_many([], [])
    assert {len(column) for column in nothing.columns().values()} == {0}
