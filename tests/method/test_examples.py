"""States shown by examples: named frames are facts, and carry to frames that look alike."""

import itertools
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from helpers.errors import refused
from PIL import Image

from dejacue import (
    Example,
    Finding,
    History,
    InputError,
    Sampling,
    Vocabulary,
    find,
    load_encoder,
    locate,
)
from dejacue.evaluation import best_tiou
from dejacue.files import read_vocabulary, write_history, write_vocabulary
from dejacue.finding._readout import resolved
from dejacue.method import (
    Contrast,
    Reading,
    Window,
    locate_many,
    next_question,
    questions,
)
from dejacue.method import _labelling as labelling
from dejacue.method import known_frames as f
from dejacue.method.kernel import compiled, engine
from dejacue.method.localization import analyse
from dejacue.method.state_readout import NOISE
from dejacue.method.teaching import Teacher, taught
from dejacue.records.vocabulary import examples_of, from_text
from dejacue_paper import generate
from dejacue_paper.data.synthetic import ar1

ENGINES = ["numpy", *compiled()]


def scene(seed=3, **options):
    return generate(
        seed, episodes=[("empty", 60), ("filled", 80), ("empty", 40)], signal=0.8, **options
    )


def overlap(window, other):
    return float(best_tiou([tuple(window)], [np.array([tuple(other)])])[0])


def swapped(vocabulary):
    """Return the same states with each other's words."""
    features = np.asarray(vocabulary.features)
    return Vocabulary(
        vocabulary.states, features[::-1].copy(), vocabulary.encoder, vocabulary.object
    )


# ── what an example is ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "span", "unit"),
    [
        ("120", (120, 120), "frames"),
        ("120-180", (120, 180), "frames"),
        ("4.5s", (4.5, 4.5), "seconds"),
        ("4s-6.25s", (4, 6.25), "seconds"),
        ("1:30", (90, 90), "seconds"),
        ("1:02:03.5", (3723.5, 3723.5), "seconds"),
    ],
)
def test_examples_are_written_as_frames_or_times(text, span, unit):
    example = from_text("empty", text)
    assert (example.span, example.unit, example.source) == (span, unit, None)
    assert Example("empty", (0.4, np.float64(12)), unit="seconds").name == "0.4s-12s"


@pytest.mark.parametrize("text", ["cup.jpg", "kitchen.mp4@120", "1e5", "-3", "12.5", "9" * 400])
def test_what_is_neither_a_frame_nor_a_time_names_a_source(text):
    assert from_text("empty", text).source == text


def test_a_vocabulary_gathers_examples():
    sample = scene()
    vocabulary = sample.vocabulary.with_examples(empty=[3, Window(10, 20)], none=70, changes=[60])
    again = vocabulary.with_examples({"filled": np.int64(90), None: [75]})
    assert [(example.state, example.name) for example in again.examples] == [
        ("empty", "3"),
        ("empty", "10-20"),
        (None, "70"),
        ("filled", "90"),
        (None, "75"),
    ]
    assert [change.name for change in again.changes] == ["60"]
    assert sample.vocabulary.examples == ()
    assert "5 examples" in repr(again)


def test_two_numbers_are_a_range_and_a_list_is_several():
    words = scene().vocabulary.with_examples(empty=(3, 30), filled=[40, (50, 60), 7.5, (8.0, 9.5)])
    names = [example.name for example in words.examples]
    assert names == ["3-30", "40", "50-60", "7.5s", "8s-9.5s"]
    assert [e.unit for e in words.examples] == ["frames"] * 3 + ["seconds"] * 2
    assert [change.name for change in words.with_examples(changes=(60, 90)).changes] == ["60", "90"]


@pytest.mark.parametrize(
    ("examples", "fact"),
    [
        ({"empty": True}, "an example of empty is a frame, not True"),
        ({"empty": (3, 4.5)}, "an example of empty is from 3 to 4.5"),
        ({"empty": (9, 3)}, "the example 9-3 ends before it starts"),
        ({"empty": float("nan")}, "an example is at a frame or a second"),
        ({"empty": ""}, "an example of empty is empty"),
        ({"nope": 3}, "nope"),
        ({"empty": "9-3"}, "the example 9-3 ends before it starts"),
        ({"empty": Window(3, 1 << 60)}, "an example is at a frame or a second"),
        ({"empty": np.zeros(4)}, "row 0"),
        ({"empty": np.full(4, np.nan)}, "row 0"),
        ([3], "examples"),
    ],
)
def test_what_is_no_example_is_refused(examples, fact):
    with refused(fact):
        scene().vocabulary.with_examples(examples)


def test_frames_that_no_format_counts_are_refused():
    for number in (10**5000, -(10**400)):
        with refused("within ±2^53"):
            scene().vocabulary.with_examples({None: number})


def test_an_example_is_of_the_history_or_from_elsewhere():
    with refused("span"):
        Example("empty")
    with refused("span"):
        Example("empty", (3, 3), source="cup.jpg")
    with refused("minutes"):
        Example("empty", (3, 3), "minutes")


def test_states_need_words_or_examples():
    with refused("empty", "add at least one, or an example"):
        Vocabulary({"empty": [], "filled": "cup"})
    vocabulary = Vocabulary({"empty": [], "filled": "cup"}, examples=examples_of({"empty": 3}))
    assert vocabulary.descriptions == ("empty", "cup")
    assert not vocabulary.has_text


# ── named frames are facts ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ENGINES)
def test_words_that_point_the_wrong_way_are_turned_round(name):
    sample = scene()
    wrong = swapped(sample.vocabulary)
    truth = sample.references["filled"][0]
    assert overlap(locate(sample.history, wrong, kernel=name)["filled"][0].window, truth) < 0.3
    named = wrong.with_examples(filled=100, empty=[20, 160])
    window = locate(sample.history, named, kernel=name)["filled"][0].window
    assert overlap(window, truth) > 0.75


def test_every_engine_reads_examples_the_same_way():
    sample = scene()
    named = sample.vocabulary.with_examples(filled=[100], empty=[20], none=[70], changes=[61])
    for readout in ("contrast", "timeline"):
        windows = [
            [
                (m.state, m.window, pytest.approx(m.score, rel=2e-5))
                for m in locate(sample.history, named, readout=readout, kernel=e)
            ]
            for e in ENGINES
        ]
        assert all(row == windows[0] for row in windows)


def test_a_window_has_its_own_frames_and_none_of_the_others():
    rng = np.random.default_rng(5)
    for seed in range(20):
        sample = scene(seed)
        at = rng.choice(180, 6, replace=False)
        names = rng.choice(["empty", "filled", "none"], 6)
        frames_of = {}
        for frame, state in zip(at.tolist(), names.tolist(), strict=True):
            frames_of.setdefault(state, []).append(frame)
        named = sample.vocabulary.with_examples(frames_of)
        timeline = locate(sample.history, named)
        for state in ("empty", "filled"):
            for occurrence in timeline[state]:
                inside = [s for s, t in zip(names, at, strict=True) if t in occurrence]
                assert set(inside) <= {state}
                assert occurrence.confirmed == bool(inside)
            if state in frames_of:
                assert timeline.best(state).confirmed
            for frame in frames_of.get(state, ()):
                assert any(frame in occurrence for occurrence in timeline[state])


def test_a_span_is_kept_whole_and_ends_where_it_was_said_to():
    sample = scene()
    named = sample.vocabulary.with_examples(filled=Window(70, 110), none=Window(111, 139))
    for readout in ("contrast", "timeline"):
        assert locate(sample.history, named, readout=readout)["filled"][0].window.end == 110


def test_none_of_these_frames_are_in_no_window():
    sample = scene()
    named = sample.vocabulary.with_examples(none=Window(60, 139))
    timeline = locate(sample.history, named)
    assert timeline["empty"]
    assert all(interval.end < 60 or interval.start > 139 for interval in timeline)


@pytest.mark.parametrize("readout", ["contrast", "timeline"])
def test_no_window_crosses_a_change(readout):
    sample = scene()
    for frame in (30, 100):
        named = sample.vocabulary.with_examples(changes=[frame])
        for interval in locate(sample.history, named, readout=readout):
            assert interval.end < frame or interval.start >= frame


def test_a_labelling_changes_at_every_mark():
    sample = scene()
    named = sample.vocabulary.with_examples(changes=[30, 100])
    labels = analyse(sample.history, named).labels
    assert labels[29] != labels[30]
    assert labels[99] != labels[100]


def test_examples_alone_tell_states():
    sample = scene()
    named = examples_of({"empty": [20, 160], "filled": 100})
    bare = Vocabulary({"empty": (), "filled": ()}, examples=named)
    timeline = analyse(sample.history, bare)
    assert [(i.state, i.description) for i in timeline] == [
        ("empty", None),
        ("filled", None),
        ("empty", None),
    ]
    for state, windows in sample.references.items():
        pairs = zip(timeline[state], windows, strict=True)
        assert all(overlap(found.window, true) > 0.5 for found, true in pairs)
    right = [
        frame in window
        for frame, state in enumerate(timeline.labels)
        for window in sample.references[state]
    ]
    assert sum(right) > 0.95 * 180
    assert "read with examples: empty 20, 160; filled 100" in timeline.notes


def test_a_history_with_gaps_and_times():
    sample = scene()
    keep = np.r_[0:40, 45:120, 121:180]
    history = History(
        sample.history.features[keep],
        sample.history.frames[keep],
        times_s=keep / 10,
        source_frames=keep * 3,
        id="gaps",
    )
    by_time = sample.vocabulary.with_examples(filled="10s", empty="2s")
    by_file = sample.vocabulary.with_examples(
        filled=Example("filled", (300, 300), "source"), empty=Example("empty", (60, 60), "source")
    )
    by_frame = sample.vocabulary.with_examples(filled=100, empty=20)
    timelines = [locate(history, words) for words in (by_time, by_file, by_frame)]
    windows = [[m.window for m in timeline] for timeline in timelines]
    assert windows[0] == windows[1] == windows[2]
    said = [next(n for n in timeline.notes if "examples" in n) for timeline in timelines]
    assert said[1] == said[2]  # one count, that of the file, and it is named
    assert "(frames of the file): filled 300; empty 60" in said[2]
    beyond = sample.vocabulary.with_examples(empty=Example("empty", (9999, 9999), "source"))
    with refused("the example 9999 of empty shows no observed") as refusal:
        locate(history, beyond)
    refusal.match("in frames of the file 0-117, 135-357, 363-537")


@pytest.mark.parametrize(
    ("examples", "fact", "detail"),
    [
        ({"empty": 42}, "the example 42", "of empty"),
        ({"empty": 9999}, "the example 9999", "in frames 0-39, 45-179"),
        ({"empty": "3s"}, "3s", ""),
        ({"empty": 20, "filled": 20}, "the example 20", "already given for empty"),
        ({"empty": Window(10, 30), None: 20}, "the example 20", "already given for empty"),
        ({"empty": "cup.jpg"}, "cup.jpg", ""),
        ({"empty": np.ones(7, np.float32)}, "unnamed has 64", "but the example"),
    ],
)
def test_examples_that_do_not_fit_the_history_are_refused(examples, fact, detail):
    sample = scene()
    keep = np.r_[0:40, 45:180]
    history = History(sample.history.features[keep], keep)
    with refused(fact, detail):
        locate(history, sample.vocabulary.with_examples(examples))


@pytest.mark.parametrize("frame", [0, -4, 180, 10**9])
def test_a_change_lies_inside_the_history(frame):
    sample = scene()
    with refused(str(frame)):
        locate(sample.history, sample.vocabulary.with_examples(changes=[frame]))


def test_other_readouts_do_not_leave_examples_unread():
    sample = scene()
    named = sample.vocabulary.with_examples(empty=3)
    for readout in ("published", "peak", Contrast(pooling=0.5)):
        with refused("readout"):
            locate(sample.history, named, readout=readout)
    with refused("coordinates", "absolute"):
        locate(sample.history, named, coordinates="absolute")


def test_an_order_is_kept_beside_examples():
    sample = scene()
    named = sample.vocabulary.with_examples(filled=100, empty=20)
    timeline = locate(sample.history, named, readout=Reading(irreversible=True))
    assert [len(timeline[state]) for state in timeline.states] == [1, 1]


def test_before_between_and_after_the_states_of_an_order_there_may_be_none():
    sample = scene()
    named = sample.vocabulary.with_examples(empty=20, filled=70, none=[0, Window(90, 100), 179])
    order = Reading(order=("empty", "filled"), irreversible=True)
    timeline = analyse(sample.history, named, readout=order)
    assert [timeline.labels[frame] for frame in (0, 20, 70, 95, 179)] == [
        None,
        "empty",
        "filled",
        None,
        None,
    ]
    assert [interval.state for interval in timeline] == ["empty", "filled"]


def test_a_state_that_nothing_shows_here_is_refused_not_guessed():
    """Words are missing, and its only example is from elsewhere."""
    sample = scene()
    for more in ({"empty": (another(sample), 20)}, {}):
        named = examples_of({"filled": 100, **more})
        bare = Vocabulary({"empty": "empty cup", "filled": ()}, examples=named)
        with refused("empty"):
            locate(sample.history, bare)


@pytest.mark.parametrize("readout", ["contrast", "timeline"])
def test_states_that_nobody_names_are_looked_for_by_their_words(readout):
    fried = generate(2, states=("raw", "fried", "burnt"), frames=240, signal=0.8)
    truth = fried.references["raw"][0]
    named = fried.vocabulary.with_examples(raw=(truth.start + truth.end) // 2)
    timeline = locate(fried.history, named, readout=readout)
    for state in ("fried", "burnt"):
        assert timeline[state]
        best = max(overlap(timeline[state][0].window, window) for window in fried.references[state])
        assert best > 0.5


def test_a_span_says_nothing_of_what_lies_beyond_it():
    """However long a span is, it counts as one example."""
    sample = scene()
    timeline = locate(sample.history, sample.vocabulary.with_examples(filled=Window(90, 110)))
    truth = sample.references["filled"][0]
    assert overlap(timeline["filled"][0].window, truth) > 0.8


def test_a_frame_of_the_file_without_the_object_is_not_moved():
    sample = scene()
    keep = np.r_[0:66, 76:180]
    history = History(sample.history.features[keep], keep, source_frames=keep, times_s=keep / 10)
    for unit, at in (("source", 70), ("seconds", 7.0)):
        named = sample.vocabulary.with_examples({None: Example(None, (at, at), unit)})
        with refused(named.frame_examples[0].name):
            locate(history, named)
    late = locate(
        history, sample.vocabulary.with_examples(changes=[Example(None, (70, 70), "source")])
    )
    assert all(m.window.end <= 65 or m.window.start >= 76 for m in late)


def test_what_is_said_twice_is_kept_once():
    sample = scene()
    named = sample.vocabulary.with_examples(empty=[3, 3], changes=60).with_examples(
        empty=3, changes=[60]
    )
    assert (len(named.examples), len(named.changes)) == (1, 1)


def test_many_histories_are_read_as_each_alone():
    samples = [scene(seed) for seed in range(3)]
    named = [m.vocabulary.with_examples(filled=100 + k) for k, m in enumerate(samples)]
    named[1] = samples[1].vocabulary
    timelines = locate_many([m.history for m in samples], named)
    for m, words, timeline in zip(samples, named, timelines, strict=True):
        assert [x.window for x in timeline] == [x.window for x in locate(m.history, words)]


@pytest.mark.parametrize("readout", ["contrast", "timeline"])
def test_a_state_is_not_found_where_it_is_not_whatever_is_read_beside(readout):
    sample, other = scene(1), scene(2)
    exemplified = sample.history, sample.vocabulary.with_examples(filled=100, empty=20)
    nothing = other.history, other.vocabulary.with_examples(none="0-179")
    plain = other.history, other.vocabulary
    for pairs in (
        [exemplified, nothing],
        [nothing, exemplified],
        [exemplified, plain],
        [plain, exemplified],
    ):
        timelines = locate_many([h for h, _ in pairs], [v for _, v in pairs], readout=readout)
        for pair, timeline in zip(pairs, timelines, strict=True):
            assert [not timeline[state] for state in timeline.states] == 2 * [pair is nothing]


def test_a_state_that_is_not_found_claims_no_frame():
    sample = scene()
    timeline = analyse(sample.history, sample.vocabulary.with_examples(filled=Window(0, 179)))
    assert [(i.state, i.window) for i in timeline] == [("filled", Window(0, 179))]


def test_a_still_picture_is_read_by_time_alone():
    sample = scene()
    history = History(np.tile(sample.history.features[:1], (60, 1)))
    timeline = locate(history, sample.vocabulary.with_examples(filled=10, empty=50))
    assert timeline["filled"][0].window.start <= 10 <= timeline["filled"][0].window.end < 50


# ── looks earn their weight ────────────────────────────────────────────────────────────────────

TOPOLOGIES = {
    "once each": [0, 1],
    "there and back": [0, 1, 0],
    "twice each": [0, 1, 0, 1],
    "three": [0, 1, 2],
    "apart": [None, 0, None, 1, None],
    "with a return": [0, 1, 2, 0, 1],
    "five": [0, 1, 2, 3, 4],
    "the same again after something else": [None, 0, None, 0, 1],
}
WITHOUT_PIXELS = "the same windows come out without looking at pixels"


def rows_of(sequence, rng, *, truth):
    """Return labels (None: −1) and rows: the truth with 2 % noise, or nothing but noise."""
    lengths = rng.integers(12, 90, len(sequence))
    labels = np.repeat([-1 if state is None else state for state in sequence], lengths)
    axes = np.linalg.qr(rng.normal(size=(64, 8)))[0].T  # the seventh is what is shared
    rows = 2 * axes[6] + axes[labels] if truth else np.zeros((len(labels), 64))
    noise = rng.normal(size=rows.shape)
    return labels, (rows + (0.02 if truth else 1.0) * noise).astype(np.float32)


def clicked(labels, rng):
    """Return a vocabulary of words that say nothing, with a click in each state."""
    names = [f"state {k}" for k in range(labels.max() + 1)]
    words = rng.normal(size=(len(names), 64)).astype(np.float32)
    clicks = {name: int(rng.choice(np.flatnonzero(labels == k))) for k, name in enumerate(names)}
    return Vocabulary({name: (name,) for name in names}, words).with_examples(clicks)


def truths(labels, state):
    edges = np.flatnonzero(np.diff(np.concatenate([[0], labels == state, [0]])))
    return np.stack([edges[::2], edges[1::2] - 1], axis=1)


@pytest.mark.parametrize("sequence", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_one_click_a_state_is_enough_where_looks_are_the_truth(sequence):
    overlaps = []
    for seed in range(5):
        rng = np.random.default_rng([seed, len(sequence)])
        labels, rows = rows_of(sequence, rng, truth=True)
        timeline = locate(History(rows), clicked(labels, rng))
        for state, name in enumerate(timeline.states):
            window = [tuple(timeline[name][0].window)]
            overlaps.append(best_tiou(window, [truths(labels, state)])[0])
        assert WITHOUT_PIXELS not in timeline.notes
    assert np.mean(overlaps) >= 0.9


@pytest.mark.parametrize("readout", ["contrast", "timeline"])
def test_rows_of_noise_leave_the_answer_to_positions_and_the_note_says_so(readout):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        labels, rows = rows_of([0, 1, 2], rng, truth=False)
        words = clicked(labels, rng)
        timelines = [
            analyse(History(table), words, readout=readout)
            for table in (rows, rng.normal(size=rows.shape).astype(np.float32))
        ]
        windows = [[i.window for i in t] for t in timelines]
        assert windows[0] == windows[1]
        for timeline in timelines:
            (note,) = [note for note in timeline.notes if note == WITHOUT_PIXELS]
            assert note.severity == "information"
        for timeline in (
            locate(History(rows), words, readout=readout),
            *locate_many([History(rows)], words, readout=readout),
        ):
            assert WITHOUT_PIXELS in timeline.notes
        assert (
            WITHOUT_PIXELS
            not in locate(History(rows), Vocabulary(words.states, words.features)).notes
        )


def smooth_noise(count, rng, correlation=0.9):
    """Return rows of noise of which a frame keeps a share of the one before."""
    return ar1(rng.normal(size=(count, 768)), correlation).astype(np.float32)


@pytest.mark.parametrize("readout", ["contrast", "timeline"])
@pytest.mark.parametrize("correlation", [0.5, 0.9])
def test_noise_that_is_smooth_in_time_counts_for_nothing_and_the_note_says_so(readout, correlation):
    found = 0
    for seed in range(47):
        rng = np.random.default_rng([seed, 9])
        labels, _ = rows_of([0, 1], rng, truth=False)
        rows = smooth_noise(len(labels), rng, correlation)
        words = Vocabulary({"a": ("a",), "b": ("b",)}, rng.normal(size=(2, 768)))
        middles = [int(np.flatnonzero(labels == state).mean()) for state in (0, 1)]
        named = words.with_examples(a=middles[0], b=middles[1])
        found += WITHOUT_PIXELS in analyse(History(rows), named, readout=readout).notes
    assert found >= 45


def shapes():
    """Return the looks of clips in which something lasts, or returns, by what happens in them."""
    time = np.linspace(0, 1, 120)
    turn, change = 2 * np.pi * time, 1 / (1 + np.exp(-40 * (time - 0.5)))
    return {
        "a drift": time,
        "a gradual change": change,
        "there and back": np.sin(turn),
        "again and again": np.sin(4 * turn),
        "a moment": (np.abs(time - 0.3) < 0.02).astype(float),
        "a sudden change": (time > 0.4).astype(float),
    }


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("shape", shapes())
def test_looks_that_last_or_return_are_no_noise(shape, noise):
    rng = np.random.default_rng(5)
    rows = 2 * np.eye(64)[0] + shapes()[shape][:, None] * np.eye(64)[1]
    assert not f.is_noise(History(rows + noise * rng.normal(size=rows.shape)))


def test_looks_that_change_only_while_nothing_is_observed_are_no_noise():
    rows = np.repeat(np.eye(8)[:2], 20, axis=0)
    assert not f.is_noise(History(rows, frames=[*range(20), *range(50, 70)]))


def test_a_lasting_look_under_smooth_noise_is_seen_where_it_is_as_strong():
    rng = np.random.default_rng(6)
    noise = smooth_noise(120, rng)
    state = np.repeat([0.0, 1.0, 0.0, 1.0], 30)[:, None] * np.eye(768)[0]
    assert f.is_noise(History(noise + state))
    assert not f.is_noise(History(noise + 3 * np.sqrt(768) * state))


def test_of_a_state_that_nobody_named_the_notes_say_that_noise_holds_no_look():
    rng = np.random.default_rng(7)
    words = Vocabulary({"a": ("a",), "b": ("b",)}, rng.normal(size=(2, 768)))
    shown = {"a": [Window(0, 29)], "b": [Window(30, 59)]}
    by_teacher = taught(None, [Teacher(History(smooth_noise(60, rng)), shown)])
    asked = words, words.with_examples(changes=40), words.with_examples(a=20), by_teacher
    for rows in (smooth_noise(90, rng), smooth_noise(90, rng, 0.0)):
        for vocabulary in asked:
            for readout in ("contrast", "timeline"):
                (note,) = (
                    note
                    for note in analyse(History(rows), vocabulary, readout=readout).notes
                    if note == NOISE
                )
                assert note.severity == "doubtful"
        both = words.with_examples(a=20, b=70)
        assert NOISE not in analyse(History(rows), both).notes
    assert NOISE not in analyse(scene().history, scene().vocabulary).notes


def test_a_state_known_on_both_sides_of_an_absence_crosses_it():
    sample = scene(gaps=[(90, 30)])
    apart = locate(sample.history, sample.vocabulary.with_examples(filled=[80, 130]))
    whole = locate(sample.history, sample.vocabulary.with_examples(filled=Window(80, 130)))
    assert apart["filled"][0].window.end < 90 or apart["filled"][0].window.start >= 120
    assert whole["filled"][0].window.start <= 80
    assert whole["filled"][0].window.end >= 130


# ── the parts ──────────────────────────────────────────────────────────────────────────────────


def test_the_window_around_named_frames_is_the_best_of_all():
    rng = np.random.default_rng(0)
    for _ in range(200):
        count = int(rng.integers(1, 12))
        lead = rng.standard_normal(count)
        at = int(rng.integers(count))
        ((first, last, score),) = f.windows_around(lead, np.array([at]), [(0, count)])
        best = max(lead[a : b + 1].sum() for a in range(at + 1) for b in range(at, count))
        assert score == pytest.approx(best)
        assert score == pytest.approx(lead[first : last + 1].sum())


def test_neighbouring_clicks_are_no_worse_than_one_and_their_order_does_not_matter():
    overlaps = {1: [], 3: []}
    for seed in range(12):
        sample = scene(seed)
        frame = 70 + 5 * seed
        for count, frames in ((1, [frame]), (3, [frame + 1, frame - 1, frame])):
            named = [
                locate(sample.history, sample.vocabulary.with_examples(filled=order, empty=20))
                for order in (frames, sorted(frames))
            ]
            windows = [timeline["filled"][0].window for timeline in named]
            assert windows[0] == windows[1]
            overlaps[count].append(overlap(windows[0], sample.references["filled"][0]))
    assert np.mean(overlaps[3]) >= np.mean(overlaps[1])


@pytest.mark.parametrize("name", ENGINES)
def test_a_path_keeps_what_is_known_and_is_the_best_that_does(name):
    rng = np.random.default_rng(3)
    nodes = labelling.nodes_for(3, None, False)
    for _ in range(30):
        rows = rng.standard_normal((3, 6))
        labels = np.where(rng.random(6) < 0.4, rng.integers(0, 3, 6), -1)
        marks = np.flatnonzero(rng.random(6) < 0.2)
        marks = marks[marks > 0]
        marks = marks[~((labels[marks] == labels[marks - 1]) & (labels[marks] >= 0))]
        nothing = np.empty(0, np.int64)
        known = f.KnownFrames(labels, nothing, marks, 2)
        path = f.path_beside(engine(name), rows, known, nodes, 0.7, 1)

        def worth(path, rows=rows):
            return rows[list(path), range(6)].sum() - 0.7 * sum(
                a != b for a, b in itertools.pairwise(path)
            )

        allowed = [
            path
            for path in itertools.product(range(3), repeat=6)
            if all(k < 0 or k == p for k, p in zip(labels, path, strict=True))
            and all(path[m] != path[m - 1] for m in marks)
        ]
        assert worth(path.tolist()) == pytest.approx(max(map(worth, allowed)))
        assert tuple(path.tolist()) in allowed


def test_membership_is_that_of_the_whole_covariance():
    """Columns of the engine equal x · x of smoothed frames; one more frame adds its own."""
    history = scene().history
    looks = f.Looks(history, engine("auto"), Contrast().smoothing_of(history), np.array([3, 77]))
    x = f.smoothed_rows(history, np.arange(len(history)), looks.smoothing) - history.mean_direction
    expected = x[[3, 77, 150]] @ x.T / (x * x).sum(axis=1).mean()
    np.testing.assert_allclose(looks.similarity, expected[:2], atol=2e-4)
    np.testing.assert_allclose(looks.with_frame(150).similarity, expected, atol=2e-4)
    fresh = f.Looks(history, looks.engine, (looks.cuts, looks._weights), np.array([3, 77, 150]))
    np.testing.assert_allclose(looks.with_frame(150).variance(), fresh.variance(), rtol=1e-6)


# ── examples from elsewhere ────────────────────────────────────────────────────────────────────


def another(sample, number=7):
    """Return the same states of another object."""
    rows = np.asarray(sample.history.features, np.float64)
    rows = rows / np.linalg.norm(rows, axis=1)[:, None]
    strange = rows + 2 * np.roll(rows[:1], number, axis=1)
    return History(strange.astype(np.float32), id=f"another {number}")


def test_another_history_of_the_kind_teaches_this_one():
    sample = scene(3)
    truth = sample.references["filled"][0]
    named = examples_of(
        {
            "filled": [(another(sample), t) for t in (80, 100, 120)],
            "empty": [(another(sample), t) for t in (10, 30, 170)],
        }
    )
    alone = Vocabulary({"empty": (), "filled": ()}, examples=named)
    assert overlap(locate(sample.history, alone)["filled"][0].window, truth) > 0.7


def test_words_weigh_as_much_as_four_histories_however_many_frames_they_show():
    sample = scene(3)
    truth, wrong = sample.references["filled"][0], swapped(sample.vocabulary)

    def overlap_with(histories, frames):
        others = [another(sample, 7 + k) for k in range(histories)]
        taught = wrong.with_examples(
            filled=[(other, 80 + 5 * t) for other in others for t in range(frames)],
            empty=[(other, 5 + 5 * t) for other in others for t in range(frames)],
        )
        return overlap(locate(sample.history, taught)["filled"][0].window, truth)

    assert overlap_with(1, 8) < 0.3
    assert overlap_with(12, 2) > 0.5


def test_one_state_shown_in_another_history_is_enough():
    sample = scene(3)
    taught = sample.vocabulary.with_examples(filled=(another(sample), 100))
    assert taught.external_examples[0].centred
    assert (
        overlap(locate(sample.history, taught)["filled"][0].window, sample.references["filled"][0])
        > 0.8
    )


@pytest.mark.parametrize(
    ("make", "fact"),
    [
        (lambda m, o: m.vocabulary.with_examples(filled=(o.history, 4000)), 4000),
        (lambda m, o: m.vocabulary.with_examples(none=(o.history, 4)), "generated-4@4"),
        (
            lambda m, o: m.vocabulary.with_examples(filled=np.asarray(o.history.features[3])),
            "filled",
        ),
        (
            lambda m, o: Vocabulary(
                {"empty": (), "filled": "filled cup"},
                examples=examples_of({"empty": (o.history, 3)}),
            ),
            "empty",
        ),
    ],
)
def test_examples_from_elsewhere_that_say_nothing_are_refused(make, fact):
    sample, other = scene(3), scene(4)
    with refused(fact):
        locate(sample.history, make(sample, other))


def test_an_example_of_another_encoder_is_refused():
    sample, other = scene(3), scene(4)
    strange = History(other.history.features, id="other", encoder="another")
    history = History(sample.history.features, id="cup", encoder="one")
    words = Vocabulary(sample.vocabulary.states, sample.vocabulary.features, "one")
    with refused("encoder", "another"):
        words.with_examples(filled=(strange, 3))
    unnamed = Vocabulary(sample.vocabulary.states, sample.vocabulary.features)
    with refused("encoder", "one"):
        locate(history, unnamed.with_examples(filled=(strange, 3)))


# ── which frame to ask about ───────────────────────────────────────────────────────────────────


def test_questions_are_about_frames_that_are_not_known_and_the_same_each_time():
    sample = scene()
    named = sample.vocabulary.with_examples(filled=[100], none=Window(0, 30))
    asked = next_question(sample.history, named, 4)
    assert asked == next_question(sample.history, named, 4)
    frames = [q.frame for q in asked]
    assert len(set(frames)) == 4
    assert not {100, *range(31)} & set(frames)
    for question in asked:
        assert sum(question.expects.values()) == pytest.approx(1)
        assert question.gain >= 0
    assert "frame" in str(asked[0])


def test_an_exact_half_of_the_doubt_is_not_left_to_rounding():
    unknown, believed = np.full(60, -1), np.zeros(60, np.int64)
    for doubt in np.random.default_rng(0).uniform(1, 3, 50):
        assert questions._divided(unknown, np.full(60, doubt), believed) == (29, 1.0)


def test_questions_are_about_states_also_where_descriptions_speak_for_themselves():
    sample = scene()
    asked = next_question(sample.history, sample.vocabulary, 2, readout=Contrast(pooling=0.5))
    assert asked == next_question(sample.history, sample.vocabulary, 2)


def test_questions_spread_over_the_history_at_first_and_then_go_to_a_border():
    rng = np.random.default_rng(0)
    history = History(rng.normal(size=(120, 16)).astype(np.float32))
    words = Vocabulary({"empty": ("empty",), "full": ("full",)}, rng.normal(size=(2, 16)))
    asked = []
    for _ in range(4):
        asked.append(next_question(history, words)[0].frame)
        words = words.with_examples({"empty" if asked[-1] < 75 else "full": asked[-1]})
    assert sorted(frame // 40 for frame in asked[:3]) == [0, 1, 2]
    border = min(frame for frame in asked if frame >= 75) - max(f for f in asked if f < 75)
    assert border <= 24  # a grid of four: 30


def test_answers_lead_to_the_truth():
    """A person answers four questions, and the words say nothing."""
    hits = 0
    for seed in range(6):
        sample = generate(seed, episodes=[("empty", 70), ("filled", 50), ("empty", 60)], signal=0.7)
        noise = np.random.default_rng(seed).standard_normal(sample.vocabulary.features.shape)
        words = Vocabulary(sample.vocabulary.states, noise.astype(np.float32))
        truth = sample.references["filled"][0]
        for _ in range(4):
            frame = next_question(sample.history, words)[0].frame
            state = "filled" if truth.start <= frame <= truth.end else "empty"
            words = words.with_examples({state: frame})
        hits += overlap(locate(sample.history, words)["filled"][0].window, truth) >= 0.5
    assert hits >= 5


def test_nothing_is_left_to_ask_where_everything_is_known():
    sample = scene()
    named = sample.vocabulary.with_examples(
        empty=[Window(0, 59), Window(140, 179)], filled=Window(60, 139)
    )
    assert next_question(sample.history, named, 3) == ()
    with refused("0 frames"):
        next_question(sample.history, named, 0)


def test_a_long_history_is_asked_about_quickly():
    long = generate(1, frames=3000)
    question = next_question(long.history, long.vocabulary.with_examples(filled=3))[0]
    assert question.frame in long.history.frames


# ── files, find and the command line ───────────────────────────────────────────────────────────


def test_a_vocabulary_with_examples_is_written_and_read(tmp_path):
    sample, other = scene(3), scene(4)
    full = sample.vocabulary.with_examples(
        empty=[3, Window(9, 12), "4.5s", (other.history, 20)], none=70, changes=[60, "5s"]
    )
    bare = Vocabulary({"empty": (), "filled": "cup"}, examples=examples_of({"empty": 3}))
    for number, vocabulary in enumerate((full, bare)):
        path = write_vocabulary(tmp_path / f"{number}.npz", vocabulary)
        again = read_vocabulary(path)
        assert dict(again.states) == dict(vocabulary.states)
        for mine, theirs in zip(
            (*vocabulary.examples, *vocabulary.changes),
            (*again.examples, *again.changes),
            strict=True,
        ):
            assert (mine.state, mine.span, mine.unit, mine.source, mine.centred) == (
                theirs.state,
                theirs.span,
                theirs.unit,
                theirs.source,
                theirs.centred,
            )
            np.testing.assert_array_equal(mine.features, theirs.features)
    windows = [
        [m.window for m in locate(_timed(sample.history), v)]
        for v in (full, read_vocabulary(tmp_path / "0.npz"))
    ]
    assert windows[0] == windows[1]


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.float32(3), "rows × dimensions"),
        (np.empty((0, 64), np.float32), "of 0 rows"),
        (np.zeros((1, 64), np.float32), "zero vector"),
    ],
)
def test_features_of_examples_that_are_none_are_refused(tmp_path, array, words):
    sample = scene(3)
    named = sample.vocabulary.with_examples(empty=(another(sample), 20))
    with np.load(write_vocabulary(tmp_path / "v.npz", named)) as file:
        arrays = dict(file)
    np.savez(tmp_path / "v.npz", **(arrays | {"example_features": array}))
    with pytest.raises(InputError, match=words):
        read_vocabulary(tmp_path / "v.npz")


def _timed(history):
    return History(history.features, history.frames, times_s=history.frames / 10)


def test_a_list_in_yaml_shows_states(tmp_path):
    Image.new("RGB", (8, 8), "red").save(tmp_path / "cup.png")
    (tmp_path / "cup.yaml").write_text(
        "object: cup\nstates:\n  empty:\n    words: [empty cup]\n"
        "    examples: [12, 4.5s, cup.png]\n  filled: [filled cup]\nnone: [45]\nchanges: 60\n"
    )
    vocabulary = read_vocabulary(tmp_path / "cup.yaml")
    assert [(example.state, example.unit) for example in vocabulary.examples] == [
        (None, "source"),
        ("empty", "source"),
        ("empty", "seconds"),
        ("empty", "frames"),
    ]
    assert vocabulary.examples[-1].source == str(tmp_path / "cup.png")
    assert vocabulary.changes[0].span == (60, 60)


def test_any_text_may_name_an_example(tmp_path):
    strange = ["a" * 5000, "a\0b", "@3", "@", "cup.jpg@", "a" * 5000 + "@7", "."]
    document = {"states": {"empty": {"words": "a", "examples": strange}, "filled": "b"}}
    (tmp_path / "cup.json").write_text(json.dumps(document))
    vocabulary = read_vocabulary(tmp_path / "cup.json")
    for example in vocabulary.external_examples:
        with pytest.raises(InputError):
            resolved(replace(vocabulary, examples=(example,)), None, "scene.mp4")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("empty: {words: a, looks: b}\nfilled: c", "empty"),
        ("states: {empty: a, filled: b}\nchanges: [1-4]", "1-4"),
        ("states: {empty: a, filled: b}\nnone: [[3]]", [3]),
        ("states: {empty: {examples: 3}, filled: {}}", "filled"),
    ],
)
def test_lists_that_show_nothing_are_refused(tmp_path, text, fact):
    (tmp_path / "cup.yaml").write_text(text)
    with refused(fact):
        read_vocabulary(tmp_path / "cup.yaml")


@pytest.fixture(scope="module")
def cup(scene, tmp_path_factory):
    """Return a copy of a small rendered video, options of find, and its finding, kept in out."""
    folder = shutil.copytree(scene, tmp_path_factory.mktemp("examples") / "cup")
    options = {"masks": folder / "Annotations", "objects": [1], "encoder": "mini"}
    video, words = folder / "scene.mp4", folder / "vocabulary.yaml"
    return folder, options, find(video, words, folder=folder / "out", **options)


def test_find_takes_examples_beside_words_and_without(cup, tmp_path):
    folder, options, finding = cup
    first, other = finding.vocabulary.states
    window = finding[first][0].window
    middle = (window.start + window.end) // 2
    away = finding[other][0].window.start + 1
    named = {first: middle, other: [away, f"{finding.history.times_s[away]:.3f}s"]}
    both = find(folder / "scene.mp4", folder / "vocabulary.yaml", examples=named, **options)
    alone = find(folder / "scene.mp4", examples=named, **options)
    for corrected in (both, alone):
        assert corrected[first][0].window.start <= middle <= corrected[first][0].window.end
    assert {i.state for i in alone.timeline if i.confirmed} == {first, other}
    for word in ("read with examples", f"{first} {middle}"):
        assert any(word in note for note in both.timeline.notes)
    assert any(
        "only the examples define" in note
        for note in find(
            folder / "scene.mp4",
            {first: "cup", other: {"examples": [away]}},
            examples={first: middle},
            **options,
        ).timeline.notes
    )
    both.save(tmp_path / "saved")
    again = Finding.read(tmp_path / "saved")
    assert [m.window for m in again] == [m.window for m in both]
    assert len(again.vocabulary.examples) == 3
    alone.save(tmp_path / "alone")
    assert Finding.read(tmp_path / "alone").vocabulary.examples_only


def test_one_state_is_found_by_examples_and_never_by_its_words(cup):
    folder, options, finding = cup
    middle = (finding["full"][0].start + finding["full"][0].end) // 2
    bare = find(folder / "scene.mp4", examples={"full": middle}, **options)
    assert bare.best("full").confirmed
    assert overlap(bare.best("full").window, finding["full"][0].window) > 0.8
    words = {"full": {"words": "full cup", "examples": [middle]}}
    described = find(folder / "scene.mp4", words, **options)
    assert [i.window for i in described] == [i.window for i in bare]
    assert any("words of one state have nothing to differ from" in n for n in described.warnings)
    with refused("1 state"):
        find(folder / "scene.mp4", {"full": "full cup"}, **options)
    with refused("vocabulary"):
        find(folder / "scene.mp4", examples={"none": middle}, **options)
    with refused("exhaustive"):
        replace(bare.vocabulary, exhaustive=True)


def test_one_state_may_be_shown_by_a_frame_of_another_history(cup):
    sample = scene()
    only = Vocabulary({"filled": ()}, examples=examples_of({"filled": (another(sample), 100)}))
    spoken = replace(only, states={"filled": "cup"}, features=sample.vocabulary.features[:1])
    for words in (only, spoken):
        for readout in ("contrast", "timeline"):
            assert not locate(sample.history, words, readout=readout).best("filled").confirmed
        for readout in ("contrast", "timeline"):
            timeline = locate(sample.history, words.with_examples(filled=100), readout=readout)
            assert timeline.best("filled").confirmed


def test_frames_are_those_of_the_file_however_it_is_sampled(cup):
    folder, options, finding = cup
    first = next(iter(finding.vocabulary.states))
    at = int(finding.history.frames[finding[first][0].window.start + 4])
    sampled = find(
        folder / "scene.mp4",
        folder / "vocabulary.yaml",
        sampling=Sampling(stride=2),
        examples={first: at},
        **options,
    )
    assert sampled.history.sampled
    source = sampled[first][0].source
    assert source.start <= at <= source.end


def test_a_finding_is_corrected_and_asks_back(cup):
    _, _, finding = cup
    first, other = finding.vocabulary.states
    question = finding.next_question()[0]
    assert question.source is not None
    assert question.time_s == pytest.approx(
        float(finding.history.times_s[question.frame]), abs=0.05
    )
    corrected = finding.correct({other: question.frame}).correct(none=Window(0, 3))
    assert len(corrected.vocabulary.examples) == 2
    assert question.frame in corrected.best(other)
    assert corrected[first][0].start > 3
    assert corrected.labels[:4] == [None] * 4
    assert corrected.thumbnails == finding.thumbnails
    stays = finding.with_words(readout=Reading(stay=3)).correct({other: question.frame})
    assert stays.timeline.settings["readout"]["stay"] == 3
    assert (
        finding.with_words(readout="published")
        .correct({other: question.frame})
        .timeline.settings["readout"]["name"]
        == "timeline"
    )


def test_pictures_and_other_histories_show_states(cup, tmp_path, dejacue):
    folder, options, teacher = cup
    first, other = teacher.vocabulary.states
    for state in (first, other):
        window = teacher[state][0].window
        near = min(teacher.crops, key=lambda t: abs(t - (window.start + window.end) // 2))
        (tmp_path / f"{state}.jpg").write_bytes(teacher.crops[near])
    write_history(tmp_path / "teacher.history.npz", teacher.history)
    at = teacher[first][0].window.start + 3
    named = {
        first: [str(tmp_path / f"{first}.jpg"), f"{tmp_path / 'teacher.history.npz'}@{at}"],
        other: str(tmp_path / f"{other}.jpg"),
    }
    taught = find(folder / "scene.mp4", folder / "vocabulary.yaml", examples=named, **options)
    assert [example.centred for example in taught.vocabulary.external_examples] == [
        False,
        True,
        False,
    ]
    for state in (first, other):
        assert overlap(taught[state][0].window, teacher[state][0].window) > 0.5
    # of the video that is read: a frame of its history
    video = f"{folder / 'scene.mp4'}@{at}"
    finding = find(
        folder / "scene.mp4", folder / "vocabulary.yaml", examples={first: video}, **options
    )
    assert finding.vocabulary.frame_examples[0].span == (at, at)
    whole = folder / "scene.mp4"
    copy = tmp_path / whole.name  # the same name does not make it the same video
    copy.write_bytes(whole.read_bytes())
    frames = {first: f"{copy}@{at}", other: f"{copy}@0"}
    other_video = find(whole, folder / "vocabulary.yaml", examples=frames, **options)
    assert len(other_video.vocabulary.external_examples) == 2


@pytest.mark.parametrize(
    ("example", "words"),
    [
        ("empty=missing.jpg", "missing.jpg does not exist"),
        ("empty=words.txt", "words.txt is not a picture"),
        ("empty=broken.png", "cannot be read as a picture"),
        ("empty=scene.mp4@100000", "100000"),
        ("empty=99999", "shows no observed frame; the object is observed in frames"),
        ("empty", "give STATE=EXAMPLE"),
        ("nope=3", 'unknown state of an example "nope"'),
    ],
)
def test_the_command_refuses_what_is_no_example(
    cup, tmp_path, dejacue, monkeypatch, example, words
):
    folder, _, finding = cup
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("cup")
    (tmp_path / "broken.png").write_bytes(b"no picture")
    (tmp_path / "scene.mp4").write_bytes((folder / "scene.mp4").read_bytes())
    example = example.replace("empty", next(iter(finding.vocabulary.states)))
    words_file = ("-v", folder / "vocabulary.yaml")
    ran = dejacue("find", folder / "out", *words_file, "--example", example, "-o", "x.json")
    assert ran.code != 0
    assert words in ran.err
    assert ran.err.count("\n") <= 2
    assert not (tmp_path / "x.json").exists()


def test_the_command_shows_corrects_and_asks(cup, tmp_path, dejacue):
    folder, _, finding = cup
    first = next(iter(finding.vocabulary.states))
    at = finding[first][0].window.start + 5
    shown = ("--example", f"{first}={at}")
    marks = (*shown, "-e", "none=0-2", "--change", 30, "--questions", 2)
    ran = dejacue("find", folder / "out", *marks, "-o", tmp_path / "x.json")
    assert ran.code == 0, ran.err
    document = json.loads((tmp_path / "x.json").read_text())
    notes = json.dumps(document)
    assert f"read with examples: {first} {at}; none 0-2; changes at 30" in notes
    assert ran.err.count("question: which state is frame") == 2
    assert "--example STATE=" in ran.err
    assert dejacue("find", folder / "out", "--questions", 0).code != 0
    published = dejacue("find", folder / "out", "--questions", 1, "-r", "published")
    assert "--questions works only with" in published.err
    nothing = dejacue("find", folder / "out", "--example", f"{first}={at}")
    assert nothing.code == 0  # the words of the finding
    cup_alone = ("--masks", folder / "Annotations", "--object", 1, "--encoder", "mini", *shown)
    bare = dejacue("find", folder / "scene.mp4", *cup_alone, "-o", tmp_path / "y.json")
    assert bare.code == 0, bare.err  # one state, by an example alone
    states = json.loads((tmp_path / "y.json").read_text())["intervals"]
    assert {row["state"] for row in states} == {first}


def test_an_encoder_without_words_reads_examples(cup):
    folder, options, finding = cup
    first, other = finding.vocabulary.states

    class Blind(type(load_encoder("mini"))):
        has_text = False

        def encode_texts(self, texts):
            raise AssertionError("it has no words")

    named = {first: finding[first][0].window.start + 2, other: finding[other][0].window.start + 2}
    seen = find(
        folder / "scene.mp4",
        folder / "vocabulary.yaml",
        examples=named,
        **(options | {"encoder": Blind()}),
    )
    assert any("has no words" in note for note in seen.timeline.notes)
    assert seen.vocabulary.examples_only
    with pytest.raises(InputError, match="has no words"):
        find(folder / "scene.mp4", folder / "vocabulary.yaml", **(options | {"encoder": Blind()}))


def test_one_frame_few_frames_and_half_precision():
    sample = scene()
    for count in (1, 2, 3):
        history = History(sample.history.features[:count].astype(np.float16))
        named = sample.vocabulary.with_examples(empty=0)
        assert locate(history, named)["empty"][0].window.start == 0
        asked = next_question(history, sample.vocabulary, 2)
        assert len(asked) == min(2, count)
        assert next_question(history, named, 5) == next_question(history, named, 5)


def test_memory_is_bounded_on_a_long_history(monkeypatch):
    """Only some of many named frames enter the computation, but all keep their label."""
    monkeypatch.setattr(f, "MAX_CELLS", 1000)
    sample = scene()
    named = sample.vocabulary.with_examples(filled=list(range(60, 140, 2)), empty=[20, 160])
    known = f.known_frames_of(sample.history, named)
    assert len(known.looked) == 1000 // 180
    assert (known.labels >= 0).sum() == 42
    window = locate(sample.history, named)["filled"][0].window
    assert window.start <= 60
    assert window.end >= 138
