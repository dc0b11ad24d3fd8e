"""Answers and references as QVHighlights and ActivityNet have them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import History, InputError, Interval, Reference, Timeline, find
from dejacue.files import read_references, write_references
from dejacue.video.video import write_video
from dejacue_paper import generate
from dejacue_paper.data.moments import (
    activitynet_answers,
    benchmark_in,
    qvhighlights_answers,
    read_moments,
    write_answers,
    write_moments,
)

SUFFIXES = (".qvhighlights.jsonl", ".activitynet.json")
STATES = {"empty": ["empty cup"], "filled": ["cup filled with tea"]}
INTERVALS = [
    Interval("empty", 0, 3, 2.5),
    Interval("empty", 6, 7, 0.75),
    Interval("empty", 8, 8, 0.5),
    Interval("filled", 6, 8, 4.0),
]
MARKED = Reference("cup", {"empty": [(0, 3), (9, 9)], "half full": [(4, 8)]})
TIMES = [0.0, 0.04, 0.1, 0.14, 0.3, 0.34, 0.5, 0.9, 0.94, 1.0]
CLOCK = History(np.ones((10, 2)), range(10), "cup", times_s=TIMES)


def cup() -> History:
    """Return frames 0 … 3 and 6 … 8, half a second each."""
    frames = np.array([0, 1, 2, 3, 6, 7, 8])
    return History(np.ones((7, 2)), frames, "cup", times_s=frames * 0.5)


def timeline(id: str = "cup") -> Timeline:
    return Timeline.of(INTERVALS, STATES, history_id=id)


def of(*intervals: Interval, **states: list[str]) -> Timeline:
    return Timeline.of(intervals, states, history_id="cup")


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


# Answers


def test_qvhighlights_has_one_line_per_description_with_all_windows() -> None:
    assert lines(qvhighlights_answers(timeline(), cup())) == [
        {
            "qid": 1,
            "query": "empty cup",
            "vid": "cup",
            "pred_relevant_windows": [[0.0, 2.0, 2.5], [3.0, 4.0, 0.75], [4.0, 4.5, 0.5]],
        },
        {
            "qid": 2,
            "query": "cup filled with tea",
            "vid": "cup",
            "pred_relevant_windows": [[3.0, 4.5, 4.0]],
        },
    ]


def test_several_timelines_count_their_queries_through_and_name_their_videos() -> None:
    plate = History(np.ones((9, 2)), range(9), "plate", times_s=np.arange(9) * 2.0)
    text = qvhighlights_answers(
        [timeline(), timeline("plate")], [plate, cup()], videos={"cup": "kitchen"}
    )
    rows = lines(text)
    assert [(row["qid"], row["vid"]) for row in rows] == [
        (1, "kitchen"),
        (2, "kitchen"),
        (3, "plate"),
        (4, "plate"),
    ]
    assert rows[3]["pred_relevant_windows"] == [[12.0, 18.0, 4.0]]


def test_activitynet_lists_labels_scores_and_segments_best_first() -> None:
    assert json.loads(activitynet_answers(timeline(), cup(), videos={"cup": "kitchen"})) == {
        "version": "VERSION 1.3",
        "results": {
            "kitchen": [
                {"label": "filled", "score": 4.0, "segment": [3.0, 4.5]},
                {"label": "empty", "score": 2.5, "segment": [0.0, 2.0]},
                {"label": "empty", "score": 0.75, "segment": [3.0, 4.0]},
                {"label": "empty", "score": 0.5, "segment": [4.0, 4.5]},
            ]
        },
        "external_data": {},
    }


@pytest.mark.parametrize("scores", [(1.0, 3.0), (3.0, 1.0), (3.0, 0.0), (0.0, 3.0)])
def test_a_window_that_descriptions_share_is_one_detection_with_the_best_score(scores) -> None:
    texts = ["empty cup", "cup with nothing in it"]
    rows = [
        interval
        for text, score in zip(texts, scores, strict=True)
        for interval in (
            Interval("empty", 0, 3, score, description=text),
            Interval("empty", 6, 7, -2.0, description=text),
        )
    ]
    shared = of(*rows, empty=texts)
    assert json.loads(activitynet_answers(shared, cup()))["results"]["cup"] == [
        {"label": "empty", "score": 3.0, "segment": [0.0, 2.0]},
        {"label": "empty", "score": -2.0, "segment": [3.0, 4.0]},
    ]
    queries = lines(qvhighlights_answers(shared, cup()))
    assert [(row["query"], row["pred_relevant_windows"][0][2]) for row in queries] == list(
        zip(texts, scores, strict=True)
    )


def test_an_answer_without_a_description_is_that_of_all() -> None:
    texts = ["empty cup", "cup with nothing in it"]
    shared = of(Interval("empty", 0, 1, 3.0), empty=texts)
    queries = lines(qvhighlights_answers(shared, cup()))
    assert [(row["query"], row["pred_relevant_windows"]) for row in queries] == [
        (text, [[0.0, 1.0, 3.0]]) for text in texts
    ]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_answers_need_times_and_windows_of_their_history(suffix, tmp_path) -> None:
    path = tmp_path / f"found{suffix}"
    with refused(path, 'timeline of "cup" has no times'):
        write_answers(path, timeline())
    with pytest.raises(InputError, match="does not observe both ends"):
        write_answers(path, of(Interval("a", 4, 7, 1.0), a=["a"]), cup())
    with refused(tmp_path / "found.json", "the file ending names no benchmark"):
        write_answers(tmp_path / "found.json", timeline(), cup())
    assert not list(tmp_path.iterdir())
    partly = Timeline.of(timeline()["empty"], STATES, history_id="cup")
    content = write_answers(path, partly, cup()).read_bytes()
    assert b"empty" in content
    assert b"filled" not in content


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_command_writes_answers_of_findings_and_of_timelines(suffix, tmp_path, dejacue) -> None:
    scene = generate(3)
    history = History(scene.history.features, id="cup", times_s=np.arange(len(scene.history)) / 8)
    finding = find(history, scene.vocabulary)
    finding.save(tmp_path / "found")
    ran = dejacue("moments", "answers", tmp_path / "found", "-o", tmp_path / f"a{suffix}")
    assert ran.code == 0, ran.err
    assert "answers for 1 object" in ran.out
    finding.export(tmp_path / "found.json")
    ran = dejacue("moments", "answers", tmp_path / "found.json", "-o", tmp_path / f"b{suffix}")
    assert ran.code == 0, ran.err
    text = (tmp_path / f"a{suffix}").read_text()
    assert text == (tmp_path / f"b{suffix}").read_text()
    assert text == write_answers(tmp_path / f"c{suffix}", finding.timeline).read_text()


# References


@pytest.mark.parametrize(("suffix", "name"), [(SUFFIXES[0], "val.jsonl"), (SUFFIXES[1], "gt.json")])
def test_references_come_back_also_under_another_name(suffix, name, tmp_path) -> None:
    path = write_moments(tmp_path / f"truth{suffix}", [MARKED], times=CLOCK)
    assert read_moments(path, times=CLOCK, history="cup") == [MARKED]
    path = path.rename(tmp_path / name)
    assert benchmark_in(path).suffix == suffix
    assert read_moments(path, times=CLOCK, history="cup") == [MARKED]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_command_converts_references_there_and_back(suffix, tmp_path, dejacue) -> None:
    pictures = (np.full((48, 64, 3), 20 * n, np.uint8) for n in range(10))
    video = write_video(tmp_path / "cup.mp4", pictures, 25, times_s=TIMES)
    ours, there = tmp_path / "cup.json", tmp_path / f"there{suffix}"
    write_references(ours, [MARKED])
    ran = dejacue("moments", "references", ours, there, "--times", video)
    assert ran.code == 0, ran.err
    back = tmp_path / "back.csv"
    ran = dejacue("moments", "references", there, back, "--times", video)
    assert (ran.code, ran.out.split(":")[0]) == (0, "references of 1 object")
    (read,) = read_references(back)
    assert read.states == MARKED.states
    ran = dejacue("moments", "references", there, tmp_path / "x.xlsx", "--times", video)
    assert ran.code == 2
    assert not (tmp_path / "x.xlsx").exists()


def activity(*segment: object) -> str:
    row = {"label": "empty", "segment": list(segment)}
    return json.dumps({"database": {"cup": {"annotations": [row]}}})


@pytest.mark.parametrize(
    ("name", "text", "facts"),
    [
        (".activitynet.json", activity(0, 1e999), ("line 1", "Infinity")),
        (".activitynet.json", activity(0, "x"), ("time", "x")),
        (".activitynet.json", activity(0), ("segment",)),
        (".activitynet.json", '{"results": {}}', ("results",)),
        (".activitynet.json", "[]", ("database",)),
        (".qvhighlights.jsonl", '{"pred_relevant_windows": 3}', ("pred_relevant_windows",)),
        (".qvhighlights.jsonl", '{"qid": 3, "query": "a"}', ("query",)),
        ("gt.json", '{"results": {}}', ("results",)),
        ("truth.json", "[7]", ("is no file of QVHighlights or ActivityNet",)),
        ("truth.csv", "history,state,start,end\n", ("is no file of QVHighlights or ActivityNet",)),
    ],
)
def test_what_holds_no_references_of_a_benchmark_is_refused(name, text, facts, tmp_path) -> None:
    path: Path = tmp_path / name
    path.write_text(text)
    with refused(path, *facts):
        read_moments(path, times=CLOCK)
