"""Methods against references: averages by hand, mismatches by name, the published digits."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import astuple
from functools import partial

import numpy as np
import pytest
from helpers.errors import refused
from msgspec import structs

from dejacue import InputError, method
from dejacue.cli import evaluate as evaluating
from dejacue.cli.options import TableFormat
from dejacue.evaluation import Estimate, Evaluation, Paired, bootstrap_interval, compare
from dejacue.evaluation.evaluate import METRICS, evaluate
from dejacue.files.results import (
    read_references,
    read_timelines,
    write_references,
    write_timelines,
)
from dejacue.method import Window
from dejacue.records import Interval, Timeline
from dejacue.records.reference import Reference
from dejacue.report.exports import as_csv

# These tests are about the published method.
locate_many = partial(method.locate_many, readout="scan")

TRUE = (Window(0, 9),)
HIT, HALF, MISS = Window(0, 9), Window(0, 4), Window(50, 59)  # tIoU 1, .5, 0


def timeline_of(history: str, **states: list[Window]) -> Timeline:
    """Return a timeline in which the descriptions of a state are called "a 1", "a 2", …"""
    intervals = [
        Interval(state, *window, 1.0, description=f"{state} {n}")
        for state, windows in states.items()
        for n, window in enumerate(windows, start=1)
    ]
    texts = {
        state: [f"{state} {n}" for n, _ in enumerate(windows, start=1)]
        for state, windows in states.items()
    }
    return Timeline.of(intervals, texts, history_id=history)


REFERENCES = [
    Reference("h1", {"a": TRUE, "b": TRUE}, "kitchen"),
    Reference("h2", {"a": TRUE}, "kitchen"),
    Reference("h3", {"a": TRUE, "b": (Window(90, 99), Window(0, 9))}),
]
FIRST = [
    timeline_of("h1", a=[HIT, MISS], b=[MISS]),  # (.5 + 0)/2 = .25
    timeline_of("h2", a=[HIT]),  # 1 → kitchen .625
    timeline_of("h3", a=[HALF], b=[HIT]),  # .5 and 1 → .75, R@1 1
]
SECOND = [
    timeline_of("h1", a=[MISS, MISS], b=[MISS]),
    timeline_of("h2", a=[HALF]),  # .5 → kitchen .25, R@1 .5
    timeline_of("h3", a=[MISS], b=[MISS]),
]


def test_a_sampled_timeline_is_compared_in_frames_of_the_file() -> None:
    """Frames 0, 2, 4, … of the file were taken: samples 0 … 4 are its frames 0 … 8."""
    interval = Interval("a", 0, 4, 1.0, source_start=0, source_end=8)
    timeline = Timeline.of([interval], {"a": ["a 1"]}, history_id="h2")
    result = evaluate({"m": [timeline]}, [REFERENCES[1]])
    assert result.methods["m"]["top1_tiou"].mean == pytest.approx(9 / 10)
    outside = structs.replace(interval, source_end=20)
    bounded = Reference("h2", {"a": TRUE}, frames=Window(0, 10))
    with refused("frames", "m: h2 / a [0, 20]"):
        evaluate({"m": [Timeline.of([outside], {"a": ["a 1"]}, history_id="h2")]}, [bounded])


def test_means_are_taken_level_by_level() -> None:
    result = evaluate({"ours": FIRST}, REFERENCES)
    means = {metric: estimate.mean for metric, estimate in result.methods["ours"].items()}
    assert means == {"r1_03": 0.8125, "r1_05": 0.8125, "top1_tiou": 0.6875}
    assert result.components == ("h3", "kitchen")
    assert result.per_component["ours"].tolist() == [[1.0, 1.0, 0.75], [0.625, 0.625, 0.625]]
    assert result.counts == {"histories": 3, "states": 5, "descriptions": 6, "components": 2}
    assert result.left_out == ()


def test_overlap_at_each_threshold_counts() -> None:
    references = [Reference("h", {"a": TRUE})]
    for window, expected in (
        (Window(0, 2), [1.0, 0.0, 0.3]),  # reaches .3
        (Window(0, 1), [0.0, 0.0, 0.2]),
        (HALF, [1.0, 1.0, 0.5]),
    ):
        result = evaluate({"m": [timeline_of("h", a=[window])]}, references)
        assert [e.mean for e in result.methods["m"].values()] == expected


def test_intervals_resample_the_components() -> None:
    result = evaluate({"ours": FIRST}, REFERENCES)
    low, high = bootstrap_interval(result.per_component["ours"])
    for at, metric in enumerate(METRICS):
        estimate = result.methods["ours"][metric]
        assert (estimate.low, estimate.high) == (low[at], high[at])
    assert result.methods["ours"]["top1_tiou"].low == 0.625


def test_one_component_has_a_mean_and_no_interval() -> None:
    references = [structs.replace(r, component="kitchen") for r in REFERENCES]
    result = evaluate({"ours": FIRST}, references)
    # (.25 + 1 + .75)/3
    assert result.methods["ours"]["top1_tiou"] == (pytest.approx(2 / 3), None, None)


def test_every_later_method_is_compared_with_the_first() -> None:
    result = evaluate({"base": SECOND, "ours": FIRST, "same": SECOND}, REFERENCES)
    assert list(result.comparisons) == ["ours - base", "same - base"]
    expected = compare(result.per_component["ours"], result.per_component["base"])
    assert list(result.comparisons["ours - base"].values()) == expected
    assert result.comparisons["ours - base"]["top1_tiou"].delta == 0.6875 - 0.125
    assert {paired.delta for paired in result.comparisons["same - base"].values()} == {0.0}


def test_one_method_is_compared_with_nothing() -> None:
    assert evaluate({"ours": FIRST}, REFERENCES).comparisons == {}


def test_iterators_of_timelines_and_references_are_taken() -> None:
    result = evaluate({"ours": iter(FIRST), "base": iter(SECOND)}, iter(REFERENCES))
    assert result.counts["descriptions"] == 6


def test_a_timeline_of_many_histories_is_taken() -> None:
    alone = evaluate({"ours": FIRST, "base": SECOND}, REFERENCES).to_dict()
    joined = {"ours": Timeline.joined(FIRST), "base": [Timeline.joined(SECOND)]}
    assert evaluate(joined, REFERENCES).to_dict() == alone


def test_the_order_of_timelines_does_not_matter() -> None:
    document = evaluate({"a": FIRST, "b": SECOND}, REFERENCES).to_dict()
    assert evaluate({"a": FIRST[::-1], "b": SECOND}, REFERENCES[::-1]).to_dict() == document


def test_the_result_is_plain_values() -> None:
    document = evaluate({"base": SECOND, "ours": FIRST}, REFERENCES).to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["schema"] == "dejacue.evaluation/1"
    assert document["family"] == "Holm within the three metrics of a comparison"
    assert document["methods"]["ours"]["r1_05"]["mean"] == 0.8125
    assert document["components"]["kitchen"]["ours"]["top1_tiou"] == 0.625
    assert set(document["comparisons"]["ours - base"]["r1_05"]) == {
        "delta",
        "low",
        "high",
        "p",
        "holm_p",
    }


def test_rows_hold_the_means_and_then_the_differences() -> None:
    result = evaluate({"base": SECOND, "ours": FIRST}, REFERENCES)
    rows = result.to_rows()
    assert [row["kind"] for row in rows] == ["method"] * 6 + ["difference"] * 3
    assert len({tuple(row) for row in rows}) == 1
    assert (rows[5]["name"], rows[5]["metric"], rows[5]["value"]) == ("ours", "top1_tiou", 0.6875)
    last, paired = rows[-1], result.comparisons["ours - base"]["top1_tiou"]
    assert (last["name"], last["value"], last["p"]) == ("ours - base", paired.delta, paired.p)
    assert rows[0]["p"] is None
    assert "three metrics" in last["family"]


# Mismatches

OTHER = Reference("h4", {"a": TRUE})
LISTED = [
    structs.replace(REFERENCES[0], descriptions={"a": ["a 1", "a 3"]}),
    *REFERENCES[1:],
]
FRAMED = [structs.replace(REFERENCES[0], frames=Window(0, 55)), *REFERENCES[1:]]
MISMATCHES = [
    ([*FIRST, timeline_of("h9", a=[HIT])], REFERENCES, "ours: histories without references: h9"),
    (FIRST, [*REFERENCES, OTHER], "ours: references without a timeline: h4"),
    (
        [*FIRST[:2], timeline_of("h3", a=[HALF], b=[HIT], c=[HIT])],
        REFERENCES,
        "ours: states that the references do not have: h3 / c",
    ),
    (
        [*FIRST[:2], timeline_of("h3", a=[HALF])],
        REFERENCES,
        "ours: states missing from the timelines: h3 / b",
    ),
    (
        FIRST,
        LISTED,
        r"ours: descriptions that the references do not list "
        r'\(made with another vocabulary, or incomplete\): h1 / a / "a 2"',
    ),
    (
        FIRST,
        LISTED,
        r"ours: listed descriptions missing from the timelines "
        r'\(made with another vocabulary, or incomplete\): h1 / a / "a 3"',
    ),
]


@pytest.mark.parametrize(("timelines", "references", "message"), MISMATCHES)
def test_what_is_not_shared_is_named_and_refused(timelines, references, message) -> None:
    with refused("evaluate only what they have in common") as caught:
        evaluate({"ours": timelines}, references)
    assert re.search(message, str(caught.value))


@pytest.mark.parametrize(("timelines", "references", "message"), MISMATCHES)
def test_what_is_not_shared_is_left_out_on_demand(timelines, references, message) -> None:
    result = evaluate({"ours": timelines}, references, only_common=True)
    assert any(re.fullmatch(message, sentence) for sentence in result.left_out)
    assert result.counts["components"] == 2


def test_nothing_is_left_out_of_what_agrees() -> None:
    strict = evaluate({"a": FIRST, "b": SECOND}, REFERENCES)
    loose = evaluate({"a": FIRST, "b": SECOND}, REFERENCES, only_common=True)
    assert loose.to_dict() == strict.to_dict()


def test_descriptions_of_only_one_method_are_another_vocabulary() -> None:
    fewer = [timeline_of("h1", a=[MISS], b=[MISS]), *SECOND[1:]]
    with refused('incomplete): h1 / a / "a 2"; correct'):
        evaluate({"ours": FIRST, "base": fewer}, REFERENCES)
    result = evaluate({"ours": FIRST, "base": fewer}, REFERENCES, only_common=True)
    assert len(result.left_out) == 1
    assert result.counts["descriptions"] == 5
    # h1 of ours without its miss: (1 + 0)/2 = .5, kitchen (.5 + 1)/2
    assert result.per_component["ours"][1].tolist() == [0.75, 0.75, 0.75]


@pytest.mark.parametrize("only_common", [False, True])
def test_a_window_outside_the_frames_is_a_mistake_and_never_left_out(only_common) -> None:
    with refused('ours: h1 / a / "a 2" [50, 59], ours: h1 / b'):
        evaluate({"ours": FIRST}, FRAMED, only_common=only_common)


def test_all_names_are_kept_and_only_the_message_is_short() -> None:
    many = [timeline_of(f"x{k}", a=[HIT]) for k in range(9)]
    for count, words in ((5, "x3, x4;"), (6, "x3, x4 … and 1 more"), (9, "x4 … and 4 more")):
        with refused(words):
            evaluate({"ours": [*FIRST, *many[:count]]}, REFERENCES)
    result = evaluate({"ours": [*FIRST, *many]}, REFERENCES, only_common=True)
    assert "x8" in result.left_out[0]
    assert repr(result).startswith("<Evaluation of 3 histories, 5 states")


def test_shares_are_written_in_percent_with_their_interval() -> None:
    estimates = {"r1_03": Estimate(0.5, 0.25, 0.75), "r1_05": Estimate(1.0, None, None)}
    pairs = {"r1_03": Paired(-0.125, -0.25, 0.0, 0.5, 0.5)}
    result = Evaluation({"ours": estimates}, {}, (), {}, {"ours - base": pairs})
    html = result._repr_html_()
    for cell in (">50.0 [25.0, 75.0]<", ">100.0<", ">−12.5 [−25.0, 0.0]<"):
        assert cell in html


def test_a_history_that_one_method_lacks_is_left_out_of_all() -> None:
    result = evaluate({"ours": FIRST, "base": SECOND[1:]}, REFERENCES, only_common=True)
    assert result.left_out == ("base: references without a timeline: h1",)
    assert result.counts == {"histories": 2, "states": 3, "descriptions": 3, "components": 2}
    assert result.per_component["ours"][1].tolist() == [1.0, 1.0, 1.0]


def test_all_mismatches_stand_in_one_sentence_with_few_names_each() -> None:
    surplus = [timeline_of(f"x{n}", a=[HIT]) for n in range(8)]
    with refused("evaluate only") as caught:
        evaluate({"ours": [*FIRST, *surplus]}, [*REFERENCES, OTHER])
    message = str(caught.value)
    assert (
        "without references: x0, x1, x2, x3, x4 … and 3 more; ours: references without" in message
    )
    assert "x5" not in message
    assert message.count("correct the files") == 1


@pytest.mark.parametrize("only_common", [False, True])
def test_nothing_in_common_is_refused(only_common) -> None:
    with refused("ours: histories without references: h9"):
        evaluate({"ours": [timeline_of("h9", a=[HIT])]}, REFERENCES, only_common=only_common)


def test_methods_are_not_compared_over_one_component() -> None:
    references = [structs.replace(r, component="kitchen") for r in REFERENCES]
    with refused("component"):
        evaluate({"ours": FIRST, "base": SECOND}, references)


@pytest.mark.parametrize(
    ("timelines", "references", "fact"),
    [
        ({}, REFERENCES, "timelines"),
        ({"ours": FIRST}, [], "references"),
        (
            {"ours": []},
            REFERENCES,
            "references",
        ),
        ({"ours": [*FIRST, FIRST[0]]}, REFERENCES, "h1"),
        ({"ours": FIRST}, [*REFERENCES, REFERENCES[2]], "h3"),
        (
            {"ours": [Timeline.of([], {"a": ("a 1", "a 1")}, history_id="h2")]},
            REFERENCES,
            "a 1",
        ),
    ],
)
def test_records_that_make_no_sense_are_refused(timelines, references, fact) -> None:
    with refused(fact):
        evaluate(timelines, references)


# The published digits


@pytest.fixture(scope="module")
def vost(release, tmp_path_factory):
    """Write the two methods and the references to files."""
    folder = tmp_path_factory.mktemp("vost")
    entries = release.vost
    for name in ("absolute", "vocabulary"):
        timelines = locate_many(
            (e.history for e in entries), (e.vocabulary for e in entries), coordinates=name
        )
        write_timelines(folder / f"{name}.json", timelines)
    references = [
        Reference(
            e.id, e.references, e.component, e.history.frames[[0, -1]], dict(e.vocabulary.states)
        )
        for e in entries
    ]
    write_references(folder / "references.json", references)
    return folder


def test_published_figures_come_out_of_files(vost) -> None:
    result = evaluate(
        {name: read_timelines(vost / f"{name}.json") for name in ("absolute", "vocabulary")},
        read_references(vost / "references.json"),
    )
    assert result.counts == {
        "histories": 78,
        "states": 156,
        "descriptions": 312,
        "components": 78,
    }
    assert result.methods["absolute"]["r1_05"].mean == pytest.approx(0.102564, abs=1e-6)
    assert result.methods["vocabulary"]["r1_05"] == pytest.approx(
        (0.205128, 0.157051, 0.25641), abs=1e-6
    )
    paired = result.comparisons["vocabulary - absolute"]["r1_05"]
    assert astuple(paired) == pytest.approx(
        (0.102564, 0.044872, 0.160256, 0.00106, 0.00318), abs=1e-6
    )


# The command


@pytest.fixture
def files(tmp_path):
    return [
        write_timelines(tmp_path / "base.json", SECOND),
        write_timelines(tmp_path / "ours.jsonl", FIRST),
        write_references(tmp_path / "references.json", REFERENCES),
    ]


@pytest.fixture
def printed(monkeypatch, capsys):
    """Return a function that runs the command and returns its output: (out, err)."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "dumb")
    for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)

    def run(files, format=None, output=None, only_common=False):
        evaluating.evaluate(files, only_common, None, format and TableFormat(format), output)
        return capsys.readouterr()

    return run


def rows_of(table: str) -> list[list[str]]:
    """Return the cells of the body of a printed table."""
    lines = [line for line in table.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_the_command_prints_means_differences_and_counts(printed, files) -> None:
    out, err = printed(files)
    assert rows_of(out)[:2] == [
        ["base", "25.0 [0.0, 50.0]", "25.0 [0.0, 50.0]", "12.5 [0.0, 25.0]"],
        ["ours", "81.2 [62.5, 100.0]", "81.2 [62.5, 100.0]", "68.8 [62.5, 75.0]"],
    ]
    # two components: of the four sign assignments two are as far from zero
    assert rows_of(out)[2] == [
        "ours − base",
        "R@1 .3",
        "+56.2 [+12.5, +100.0]",
        "0.5000",
        "1.0000",
    ]
    assert len(rows_of(out)) == 5
    assert "Holm within the three metrics of a comparison" in out
    assert "3 histories, 5 states, 6 descriptions, 2 components; 95 % intervals" in out
    assert err == ""


def test_one_method_has_no_table_of_differences(printed, files) -> None:
    out, _ = printed(files[1:])
    assert len(rows_of(out)) == 1
    assert "Holm" not in out


def test_one_component_is_said_to_give_no_interval(printed, files, tmp_path) -> None:
    alone = [structs.replace(r, component="kitchen") for r in REFERENCES]
    out, _ = printed([files[1], write_references(tmp_path / "alone.json", alone)])
    assert rows_of(out) == [["ours", "75.0", "75.0", "66.7"]]
    assert "one component gives no confidence interval" in out


def test_json_and_csv_are_those_of_the_library(printed, files, tmp_path) -> None:
    expected = evaluate({"base": SECOND, "ours": FIRST}, REFERENCES)
    assert json.loads(printed(files, "json").out) == expected.to_dict()
    rows = list(csv.DictReader(io.StringIO(printed(files, "csv").out)))
    assert [float(row["value"]) for row in rows] == [row["value"] for row in expected.to_rows()]
    assert printed(files, output=tmp_path / "out.json").out == ""
    assert json.loads((tmp_path / "out.json").read_bytes()) == expected.to_dict()
    printed(files, output=tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text("utf-8").startswith("kind,name,metric,value,low,high")


def test_a_table_is_written_to_other_names(printed, files, tmp_path) -> None:
    out, _ = printed(files, output=tmp_path / "out.txt")
    text = (tmp_path / "out.txt").read_text("utf-8")
    assert out == ""
    assert len(rows_of(text)) == 5
    assert text.endswith("2 components; 95 % intervals, components resampled\n")


def test_methods_whose_files_have_one_name_are_told_apart_by_their_paths(printed, files) -> None:
    folder = files[0].parent / "other"
    again = write_timelines(folder / "base.json", SECOND)
    names = json.loads(printed([files[0], again, files[2]], "json").out)["methods"]
    assert list(names) == [str(files[0]), str(again)]
    with pytest.raises(InputError, match=r"base.json: is given twice"):
        printed([files[0], files[0], files[2]])


def test_what_is_left_out_is_said(printed, files, tmp_path) -> None:
    files[0] = write_timelines(tmp_path / "[base].json", SECOND[1:])
    with refused("evaluate only"):
        printed(files, output=tmp_path / "out.txt")
    assert not (tmp_path / "out.txt").exists()
    out, err = printed(files, only_common=True)
    assert err == "note: left out: [base]: references without a timeline: h1\n"
    assert rows_of(out)[0][0] == "[base]"


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_files_are_refused(printed, files, count) -> None:
    with pytest.raises(InputError, match="then the references"):
        printed(files[:count])


def test_files_in_the_wrong_order_are_refused(printed, files) -> None:
    with pytest.raises(InputError, match=r"base.json: references are a JSON object"):
        printed([files[2], files[0]])


def test_the_values_of_components_are_arrays() -> None:
    values = evaluate({"ours": FIRST}, REFERENCES).per_component["ours"]
    assert isinstance(values, np.ndarray)
    assert values.shape == (2, 3)


def test_a_state_without_an_interval_scores_nothing() -> None:
    right = timeline_of("h", on=[Window(0, 9)])
    reference = Reference("h", {"on": (Window(0, 9),)}, frames=Window(0, 20))
    missing = Timeline.of([], right.states, history_id="h")
    assert evaluate({"a": [right]}, [reference]).methods["a"]["r1_05"].mean == 1.0
    result = evaluate({"a": [missing]}, [reference])
    assert result.methods["a"]["r1_05"].mean == result.methods["a"]["top1_tiou"].mean == 0.0
    assert result.counts["descriptions"] == 1


def test_one_answer_of_a_state_stands_for_all_its_descriptions() -> None:
    texts = {"a": ("a 1", "a 2"), "b": ("b 1",)}
    shared = Timeline.of([Interval("a", *HALF), Interval("b", *MISS)], texts, history_id="h1")
    each = timeline_of("h1", a=[HALF, HALF], b=[MISS])
    reference = [REFERENCES[0]]
    result = evaluate({"m": [shared]}, reference)
    assert result.to_dict() == evaluate({"m": [each]}, reference).to_dict()
    assert result.counts["descriptions"] == 3


def test_a_table_without_descriptions_is_compared_with_what_has_them(tmp_path) -> None:
    texts = {"a": ("a 1", "a 2"), "b": ("b 1",)}
    shared = Timeline.of([Interval("a", *HALF), Interval("b", *MISS)], texts, history_id="h1")
    path = tmp_path / "found.csv"
    path.write_text(as_csv(shared))
    table = read_timelines(path)
    assert table[0].states == {"a": (), "b": ()}
    expected = evaluate({"m": [shared]}, [REFERENCES[0]]).methods
    further, references = FIRST[2], [REFERENCES[0], REFERENCES[2]]
    for other in (shared, timeline_of("h1", a=[HIT, MISS], b=[MISS])):
        both = evaluate({"m": [*table, further], "other": [other, further]}, references)
        alone = evaluate({"m": [shared, further]}, references)
        assert both.methods["m"] == alone.methods["m"]
        assert both.counts["descriptions"] == 3 + 2
    assert evaluate({"m": table}, [REFERENCES[0]]).methods == expected
    listed = structs.replace(REFERENCES[0], descriptions=dict(texts))
    assert evaluate({"m": table}, [listed]).counts["descriptions"] == 3
