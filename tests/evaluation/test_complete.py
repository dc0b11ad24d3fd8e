"""Timelines against references that list every occurrence: by hand."""

from __future__ import annotations

import csv
import io
import json

import pytest
from helpers.errors import refused

from dejacue.cli.evaluate import as_csv, counts, evaluation_tables
from dejacue.cli.tables import as_markdown
from dejacue.evaluation import compare, evaluate
from dejacue.evaluation.complete import TIMELINE_METRICS, timeline_scores
from dejacue.evaluation.evaluate import FAMILY, TIMELINE_FAMILY
from dejacue.evaluation.segmentation import SegmentCounts
from dejacue.records import Interval, Reference, Timeline, Window

FRAMES = Window(0, 19)
STATES = {"a": ("an a",), "b": ("a b",)}
TRUTH = {"a": [(0, 4), (10, 14)], "b": [(5, 9)]}  # 15 … 19: neither


def reference(history: str = "h", component: str | None = None, **changes) -> Reference:
    values = {"states": TRUTH, "frames": FRAMES, "complete": True} | changes
    return Reference(history, component=component, **values)


def timeline(*rows: tuple[str, int, int], history: str = "h", states=STATES) -> Timeline:
    return Timeline.of([Interval(*row) for row in rows], states, history_id=history)


RIGHT = [("a", 0, 4), ("b", 5, 9), ("a", 10, 14)]
POOR = [("a", 0, 4), ("b", 5, 5), ("a", 16, 18)]  # one is right, 2 of 3 are missed


def test_frames_in_no_window_show_no_state_and_count() -> None:
    assert timeline_scores(timeline(*RIGHT), reference()).metrics["accuracy"] == 1.0
    # 0 … 4 and 5 are right, and so are 15 and 19, where there is nothing
    assert timeline_scores(timeline(*POOR), reference()).metrics["accuracy"] == 8 / 20


def test_missed_and_superfluous_occurrences_are_those_that_f1_counts() -> None:
    found = timeline_scores(timeline(*POOR), reference())
    assert found.missed == {"a": (Window(10, 14),), "b": (Window(5, 9),)}
    assert found.superfluous == {"a": (Window(16, 18),), "b": (Window(5, 5),)}
    assert found.matched == {"a": (Window(0, 4),), "b": ()}
    assert found.sentence == (
        "1 of 3 true occurrences found (tIoU ≥ .5), 2 missed, 2 superfluous; frame accuracy "
        "40.0 %, F1@.50 33.3 %, edit score 100.0 %"
    )
    assert found.counts == SegmentCounts(hits=1, superfluous=2, missed=2)
    assert found.metrics["f1_50"] == found.counts.f1 == 2 / 6
    assert found.metrics["f1_10"] == 4 / 6  # one frame of five is a tIoU of .2
    assert found.metrics["f1_25"] == 2 / 6
    assert found.metrics["edit"] == 1.0  # a, b, a


def test_an_overlap_of_exactly_half_is_found() -> None:
    found = timeline_scores(
        timeline(("a", 0, 9), states={"a": ()}), reference(states={"a": [(0, 4)]})
    )
    assert found.counts == SegmentCounts(hits=1)


def test_two_occurrences_of_one_true_window_are_one_too_many() -> None:
    alone = reference(states={"a": [(0, 9)]})
    found = timeline_scores(timeline(("a", 0, 5), ("a", 7, 9)), alone)
    assert (found.counts, found.superfluous["a"]) == (SegmentCounts(1, 1, 0), (Window(7, 9),))


def test_occurrences_of_one_state_that_touch_are_one() -> None:
    touching = reference(states={"a": [(0, 4), (5, 9)], "b": []})
    assert timeline_scores(timeline(("a", 0, 9)), touching).counts == SegmentCounts(hits=1)
    apart = timeline(("a", 0, 3), ("a", 4, 9))
    assert timeline_scores(apart, touching).counts == SegmentCounts(hits=1)


def test_where_intervals_overlap_the_best_score_counts() -> None:
    rows = [Interval("a", 0, 9, 1.0), Interval("b", 5, 9, 2.0), Interval("a", 10, 14, 1.0)]
    for given in (rows, rows[::-1]):
        found = timeline_scores(Timeline.of(given, STATES, history_id="h"), reference())
        assert (found.metrics["accuracy"], found.counts.missed) == (1.0, 0)
    equal = [Interval("a", 0, 9), Interval("b", 5, 12)]
    both = Timeline.of(equal, STATES, history_id="h")
    truth = reference(states={"a": [(0, 9)], "b": [(10, 12)]})
    assert (
        timeline_scores(both, truth).metrics["accuracy"] == 1.0
    )  # of equals the first, as in at()
    assert both.at(frame=7) == "a"


def test_frames_are_those_of_the_file() -> None:
    sampled = Interval("a", 0, 2, source_start=0, source_end=8)
    truth = reference(states={"a": [(2, 11)]}, frames=Window(2, 11))
    found = timeline_scores(Timeline.of([sampled], {"a": ()}, history_id="h"), truth)
    assert found.metrics["accuracy"] == 7 / 10


def test_a_state_that_only_one_of_them_knows_is_not_measured() -> None:
    found = timeline_scores(timeline(*RIGHT, states=STATES), reference(states={"a": TRUTH["a"]}))
    assert (found.metrics["accuracy"], found.counts) == (1.0, SegmentCounts(hits=2))
    less = timeline(("a", 0, 4), ("a", 10, 14), states={"a": ()})
    assert timeline_scores(less, reference()).counts == SegmentCounts(hits=2)


def test_a_state_that_never_occurs_can_only_be_superfluous() -> None:
    truth = reference(states={"a": TRUTH["a"], "b": []})
    result = evaluate({"m": timeline(*RIGHT)}, [truth])
    assert result.occurrences == {"m": {"h": SegmentCounts(hits=2, superfluous=1)}}
    assert result.methods["m"]["accuracy"].mean == 15 / 20
    assert result.counts["states"] == 1  # nothing can be retrieved of the other
    assert result.left_out == ()


def test_a_reference_that_is_not_complete_has_no_agreement() -> None:
    with refused("complete"):
        timeline_scores(timeline(*RIGHT), reference(complete=False))


# In evaluate

REFERENCES = [
    reference("h1", "kitchen"),
    reference("h2", "kitchen"),
    reference("h3"),
    reference("h4", complete=False),
]


def method(**rows) -> list[Timeline]:
    return [timeline(*rows.get(f"h{n}", RIGHT), history=f"h{n}") for n in (4, 1, 2, 3)]


def test_metrics_of_whole_timelines_stand_beside_the_others() -> None:
    result = evaluate({"m": method(h1=POOR)}, REFERENCES)
    assert list(result.methods["m"]) == ["r1_03", "r1_05", "top1_tiou", *TIMELINE_METRICS]
    # kitchen: (8/20 + 1)/2, h3: 1; each source counts the same
    assert result.methods["m"]["accuracy"].mean == pytest.approx((0.7 + 1) / 2)
    assert result.methods["m"]["f1_50"].mean == pytest.approx(((1 / 3 + 1) / 2 + 1) / 2)
    assert (result.methods["m"]["accuracy"].low, result.methods["m"]["accuracy"].high) == (0.7, 1)
    assert result.complete == 3
    assert result.total("m") == SegmentCounts(hits=7, superfluous=2, missed=2)
    assert result.occurrences["m"]["h1"] == SegmentCounts(hits=1, superfluous=2, missed=2)
    assert result.components == ("h3", "h4", "kitchen")
    accuracy = result.per_component["m"][:, 3].tolist()
    assert (accuracy[0], accuracy[2]) == (1.0, pytest.approx(0.7))
    assert accuracy[1] != accuracy[1]  # h4: not complete


def test_without_complete_references_nothing_is_added() -> None:
    result = evaluate({"m": timeline(*RIGHT)}, [reference(complete=False)])
    assert list(result.methods["m"]) == ["r1_03", "r1_05", "top1_tiou"]
    assert result.per_component["m"].shape == (1, 3)
    assert (result.complete, result.occurrences) == (0, {})
    assert "whole_timelines" not in result.to_dict()
    assert "whole" not in counts(result)
    assert len(evaluation_tables(result)) == 1


def test_metrics_of_whole_timelines_are_a_family_of_their_own() -> None:
    result = evaluate({"m": method(), "n": method(h1=POOR, h3=POOR)}, REFERENCES)
    pairs = result.comparisons["n - m"]
    tables = [result.per_component[name] for name in ("n", "m")]
    assert list(pairs.values())[:3] == compare(*(table[:, :3] for table in tables))
    assert list(pairs.values())[3:] == compare(*(table[[0, 2], 3:] for table in tables))
    rows = [row for row in result.to_rows() if row["kind"] == "difference"]
    assert [row["family"] for row in rows] == [FAMILY] * 3 + [TIMELINE_FAMILY] * 5


def test_methods_are_not_compared_where_one_source_is_complete() -> None:
    references = [reference("h1"), *(reference(f"h{n}", complete=False) for n in (2, 3, 4))]
    result = evaluate({"m": method(), "n": method(h1=POOR)}, references)
    assert list(result.comparisons["n - m"]) == ["r1_03", "r1_05", "top1_tiou"]
    assert result.methods["n"]["accuracy"] == (8 / 20, None, None)
    (sentence,) = result.left_out
    assert "complete references are of one component" in sentence


def test_an_occurrence_outside_the_frames_is_refused_though_another_is_the_best() -> None:
    rows = [Interval("a", 0, 4, 2.0), Interval("a", 15, 25, 1.0)]
    with refused("frames", "m: h / a [15, 25]"):
        evaluate({"m": Timeline.of(rows, {"a": ()}, history_id="h")}, [reference()])


def test_only_what_is_common_is_labelled() -> None:
    other = timeline(("a", 0, 4), ("a", 10, 14), states={"a": ("an a",)})
    again = [reference("g"), reference()]
    both = {
        name: [of, timeline(*RIGHT, history="g")]
        for name, of in (("m", timeline(*RIGHT)), ("n", other))
    }
    result = evaluate(both, again, only_common=True)
    assert result.occurrences["m"] == {"g": SegmentCounts(hits=3), "h": SegmentCounts(hits=2)}
    assert result.occurrences["n"] == result.occurrences["m"]
    assert result.methods["m"]["accuracy"].mean == 1.0


def test_tables_and_files_count_occurrences_by_history_and_in_total() -> None:
    result = evaluate({"m": method(h1=POOR)}, REFERENCES)
    text = "".join(map(as_markdown, evaluation_tables(result)))
    assert "| m | h1 | 3 | 1 | 2 | 2 |" in text
    assert "| m | all | 9 | 7 | 2 | 2 |" in text
    assert "F1@.50 | edit score |" in text
    assert "whole timelines: 3 of 4 histories" in counts(result)
    rows = list(csv.DictReader(io.StringIO(as_csv(result.to_rows()))))
    missed = {row["history"]: row["value"] for row in rows if row["metric"] == "missed"}
    assert missed == {"": "2", "h1": "2", "h2": "0", "h3": "0"}
    document = result.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["whole_timelines"]["occurrences"]["m"]["total"]["superfluous"] == 2
    assert list(document["components"]["h4"]["m"]) == ["r1_03", "r1_05", "top1_tiou"]
    assert "m: 7 of 9 occurrences found, 2 missed, 2 superfluous." in result._repr_html_()
    assert "F1@.50 83.3" in repr(result)
