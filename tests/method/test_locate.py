"""locate and locate_many as a whole."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
from helpers import TESTS
from helpers.errors import refused

import dejacue
from dejacue import History, Vocabulary, method
from dejacue.method import Grid, Scan
from dejacue.method import localization as locating
from dejacue.method.kernel import compiled
from dejacue.method.readout import STILL
from dejacue_paper import generate
from dejacue_paper.method.windows import description_windows

# These tests are about the published method.
locate = partial(dejacue.locate, readout="scan")
locate_many = partial(method.locate_many, readout="scan")

GOLDEN = TESTS / "golden" / "generated.json"
ENGINES = (*compiled(), "numpy")


def pairs(count: int = 12):
    scenes = [
        generate(seed, frames=40 + 13 * seed, missing=0.1 * (seed % 3), dtype=dtype)
        for seed, dtype in zip(range(count), [np.float32, np.float16] * count, strict=False)
    ]
    return [m.history for m in scenes], [m.vocabulary for m in scenes]


def answers(timelines):
    return [[(tuple(i.window), i.score) for i in timeline] for timeline in timelines]


@pytest.mark.parametrize("name", ENGINES)
def test_generated_histories_give_the_golden_windows(name) -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert len(golden) == 3
    for case in golden:
        scene = generate(case["seed"], **case["arguments"])
        for readout, expected in case["windows"].items():
            kind, coordinates = readout.split("/")
            timeline = locate(
                scene.history, scene.vocabulary, coordinates=coordinates, readout=kind, kernel=name
            )
            windows = [list(window) for window in timeline.windows().values()]
            assert windows == expected, (case["seed"], readout)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("coordinates", ["vocabulary", "dual"])
def test_many_at_once_equal_one_by_one(name, threads, coordinates) -> None:
    histories, vocabularies = pairs()
    alone = [
        locate(h, v, coordinates=coordinates, kernel=name)
        for h, v in zip(histories, vocabularies, strict=True)
    ]
    many = locate_many(
        iter(histories), iter(vocabularies), coordinates=coordinates, kernel=name, threads=threads
    )
    many = list(many)
    assert answers(many) == answers(alone)
    assert [r.history_id for r in many] == [h.id for h in histories]


@pytest.mark.parametrize("readout", ["peak", "non-overlap", Scan(runs="bridged"), "single-median"])
def test_other_readouts_work_in_batches_too(readout) -> None:
    histories, vocabularies = pairs()
    histories, vocabularies = histories[5:], vocabularies[5:]
    if readout == "single-median":
        histories, vocabularies = histories[1::3], vocabularies[1::3]  # those without gaps
    alone = [locate(h, v, readout=readout) for h, v in zip(histories, vocabularies, strict=True)]
    assert answers(locate_many(histories, vocabularies, readout=readout, threads=2)) == answers(
        alone
    )


def test_threads_share_the_work_of_a_chunk() -> None:
    histories, vocabularies = pairs(12)
    parts = locating._split(list(zip(histories, vocabularies, strict=True)), 3)
    assert len(parts) == 3
    assert [h for part in parts for h, _ in part] == histories
    frames = [sum(len(h) for h, _ in part) for part in parts]
    assert max(frames) < 2 * min(frames)


@pytest.mark.parametrize("name", ENGINES)
def test_equal_frames_are_tied_however_many_descriptions_there_are(name) -> None:
    rng = np.random.default_rng(1)
    frozen = History(np.tile(rng.normal(size=(1, 96)), (282, 1)))
    texts = {"a": [f"a{i}" for i in range(40)], "b": "b"}
    v = Vocabulary(texts, rng.normal(size=(41, 96)))
    windows, _ = description_windows([frozen], v, readout="published", kernel=name)
    assert (windows == 0).all()
    timeline = locate(frozen, v, kernel=name)  # which gives no arbitrary answer
    assert (list(timeline), timeline.meaningless) == ([], STILL)


def test_settings_of_a_timeline_cannot_be_written_to() -> None:
    scene = generate(1, frames=60)
    readout = Scan(durations=Grid(base=2))
    timeline = locate(scene.history, scene.vocabulary, readout=readout)
    with pytest.raises(TypeError):
        timeline.settings["readout"]["durations"]["base"] = 99
    timeline.to_dict()["settings"]["readout"]["durations"]["base"] = 99
    assert timeline.settings["readout"]["durations"]["base"] == 2


def test_one_vocabulary_serves_all_histories() -> None:
    histories, vocabularies = pairs()
    alone = [locate(h, vocabularies[0]) for h in histories]
    assert answers(locate_many(histories, vocabularies[0])) == answers(alone)


def test_diagnostics_are_the_same_in_batches() -> None:
    histories, vocabularies = pairs(4)
    alone = [locate(h, v, diagnostics=True) for h, v in zip(histories, vocabularies, strict=True)]
    many = list(locate_many(histories, vocabularies, diagnostics=True))
    assert [r.to_dict() for r in many] == [r.to_dict() for r in alone]


def test_a_generator_is_read_a_chunk_at_a_time(monkeypatch) -> None:
    monkeypatch.setattr(locating, "CHUNK_HISTORIES", 3)
    histories, vocabularies = pairs(9)
    read = []

    def stream():
        for history in histories:
            read.append(history.id)
            yield history

    results = locate_many(stream(), vocabularies[0])
    next(results)
    assert len(read) <= 4
    assert len(list(results)) == 8


def test_a_chunk_holds_a_bounded_number_of_bytes(monkeypatch) -> None:
    histories, vocabularies = pairs(9)
    limit = 2 * histories[0].features.nbytes
    monkeypatch.setattr(locating, "CHUNK_BYTES", limit)
    sizes = [len(part.subjects) for part in locate_many(histories, vocabularies[0]).chunks()]
    assert sum(sizes) == len(histories)
    assert len(sizes) > 3
    remaining = iter(histories)
    for size in sizes:
        chunk = [next(remaining).features.nbytes for _ in range(size)]
        assert size == 1 or sum(chunk) <= limit
    alike = locate_many([histories[0]] * 7, vocabularies[0]).chunks()
    assert [len(part.subjects) for part in alike] == [2, 2, 2, 1]  # all that is allowed
    expected = answers(locate(h, vocabularies[0]) for h in histories)
    assert answers(locate_many(histories, vocabularies[0])) == expected


def test_dimensions_and_query_counts_may_differ_between_histories() -> None:
    rng = np.random.default_rng(0)
    histories, vocabularies = [], []
    for d, q in ((8, 1), (8, 20), (5, 2), (5, 40), (8, 40), (8, 3)):
        histories.append(History(rng.normal(size=(60, d))))
        texts = {"a": [f"a{i}" for i in range(q)], "b": "b"}
        vocabularies.append(Vocabulary(texts, rng.normal(size=(q + 1, d))))
    alone = [locate(h, v) for h, v in zip(histories, vocabularies, strict=True)]
    assert answers(locate_many(histories, vocabularies)) == answers(alone)


def test_the_order_of_states_does_not_matter() -> None:
    scene = generate(5, states=("empty", "half", "full"))
    v = scene.vocabulary
    order = [2, 0, 1]
    names = list(v.states)
    swapped = Vocabulary(
        {names[k]: v.states[names[k]] for k in order},
        np.concatenate([v.features[2 * k : 2 * k + 2] for k in order]),
    )
    for coordinates in ("vocabulary", "dual"):
        a = locate(scene.history, v, coordinates=coordinates)
        b = locate(scene.history, swapped, coordinates=coordinates)
        assert {m.description: m.window for m in a} == {m.description: m.window for m in b}


def test_scaling_features_changes_no_window() -> None:
    scene = generate(6)
    h, v = scene.history, scene.vocabulary
    scaled = History(h.features * np.linspace(0.01, 50, len(h))[:, None], h.frames)
    louder = Vocabulary(v.states, v.features * 7)
    assert [m.window for m in locate(scaled, louder)] == [m.window for m in locate(h, v)]


def test_times_lead_back_to_seconds() -> None:
    """From the instant at which the first frame is shown to that at which the last one ends."""
    scene = generate(7, frames=60)
    h = History(scene.history.features, scene.history.frames, times_s=np.arange(60) / 25)
    for interval in locate(h, scene.vocabulary):
        expected = (interval.start / 25, (interval.end + 1) / 25)
        assert interval.times_s == pytest.approx(expected, abs=1e-12)


def test_diagnostics_tell_what_happened() -> None:
    scene = generate(8, frames=120, gaps=((50, 10),))
    for interval in locate(scene.history, scene.vocabulary, diagnostics=True):
        why = interval.diagnostics
        assert (interval.window & why.run) == interval.window
        assert why.run in scene.history.runs()
        edge = interval.start == why.run.start or interval.end == why.run.end
        assert why.touches_run_edge == edge
        assert why.scale > 1e-3
        assert not why.floor_active
        assert why.residual_norm > 0.01
    assert locate(scene.history, scene.vocabulary)[0].diagnostics is None


def test_a_frozen_picture_activates_the_floor() -> None:
    v = Vocabulary({"a": "x", "b": "y"}, np.eye(2))
    rows = np.ones((30, 2))
    rows[-1] += (0.01, -0.01)  # one frame that looks otherwise: it is no still picture
    timeline = locate(History(rows), v, diagnostics=True)
    assert [m.diagnostics.floor_active for m in timeline] == [True, True]


def test_one_frame_is_enough() -> None:
    v = Vocabulary({"a": "x", "b": "y"}, np.eye(2))
    timeline = locate(History(np.ones((1, 2)), [17]), v)
    assert [list(m.window) for m in timeline] == [[17, 17], [17, 17]]


def test_a_run_longer_than_the_schedule_is_mentioned() -> None:
    rng = np.random.default_rng(0)
    v = Vocabulary({"a": "x", "b": "y"}, np.eye(4)[:2])
    long = History(rng.normal(size=(600, 4)))
    assert "600 frames, but no window is longer than 483" in locate(long, v).notes[0]
    assert locate(History(long.features[:483]), v).notes == ()
    assert "484 frames" in locate(History(long.features[:484]), v).notes[0]
    assert locate(long, v, readout=Scan(durations="generated")).notes == ()
    gappy = History(rng.normal(size=(540, 4)), np.flatnonzero(np.arange(600) % 10))
    assert locate(gappy, v).notes == ()
    assert "599 frames" in locate(gappy, v, readout=Scan(runs="bridged")).notes[0]


def test_settings_are_recorded_and_serialisable() -> None:
    scene = generate(9)
    timeline = locate(scene.history, scene.vocabulary, readout=Scan(durations=(3, 9), norm="sum"))
    settings = json.loads(timeline.to_json())["settings"]
    assert settings["readout"] == {
        "name": "scan",
        "durations": [3, 9],
        "norm": "sum",
        "runs": "strict",
        "smoothing": 3,
    }
    assert timeline.encoder == "generated"


def test_encoders_must_agree_when_both_are_named() -> None:
    x = np.eye(3)
    v = Vocabulary({"a": "x", "b": "y"}, np.eye(3)[:2], encoder="clip")
    with refused("encoder", "siglip2"):
        locate(History(x, id="cup", encoder="siglip2"), v)
    assert len(locate(History(x), v)) == 2
    assert len(locate(History(x, encoder="clip"), v)) == 2


def test_every_history_is_checked_against_a_shared_vocabulary() -> None:
    v = Vocabulary({"a": "x", "b": "y"}, np.eye(3)[:2], encoder="clip")
    histories = [History(np.eye(3), id=name, encoder=name) for name in ("clip", "siglip2")]
    with refused("encoder", "siglip2"):
        list(locate_many(histories, v))
    wide = [History(np.eye(3), id="narrow"), History(np.eye(4), id="wide")]
    with refused("wide has 4"):
        list(locate_many(wide, v))


def test_dimensions_must_agree() -> None:
    v = Vocabulary({"a": "x", "b": "y"}, np.eye(3)[:2])
    with refused("unnamed has 4"):
        locate(History(np.eye(4)), v)
    with refused("unnamed has 4"):
        list(locate_many([History(np.eye(4))], v))


def test_a_vocabulary_without_features_says_what_to_do() -> None:
    with refused("features"):
        locate(History(np.eye(3)), Vocabulary({"a": "x", "b": "y"}))


def test_descriptions_that_nothing_sets_apart_are_mentioned() -> None:
    v = Vocabulary({"a": "x", "b": "y"}, np.ones((2, 3)))
    history = History(np.random.default_rng(0).normal(size=(20, 3)))
    for timeline in (locate(history, v), *locate_many([history], v)):
        assert timeline.notes == (
            'nothing sets "x", "y" apart from the other descriptions; '
            "plain similarity was used there",
        )
    assert locate(history, v, coordinates="absolute").notes == ()


def test_counts_of_histories_and_vocabularies_must_match() -> None:
    histories, vocabularies = pairs(3)
    with refused("vocabularies", 2):
        list(locate_many(histories, vocabularies[:2]))
    with refused("histories"):
        list(locate_many(histories[:2], vocabularies))


def test_bad_settings_are_refused_at_once() -> None:
    histories, vocabularies = pairs(2)
    with refused("readout", "scam"):
        locate_many(histories, vocabularies, readout="scam")
    with refused("threads", 0):
        locate_many(histories, vocabularies, threads=0)
