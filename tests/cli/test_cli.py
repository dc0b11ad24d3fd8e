"""The command line: what it prints and writes, and that bad input becomes one sentence."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
import typer
from msgspec import structs

from dejacue import History, Interval, Reference, Timeline, Vocabulary, __version__, locate
from dejacue.atomic import write_whole
from dejacue.cli.app import app
from dejacue.cli.tables import as_text, timeline_table
from dejacue.files import read_history, write_history, write_references, write_vocabulary
from dejacue.method import Contrast, Reading, Scan, Window, evidence
from dejacue.method.localization import analyse
from dejacue.plugins import PAPER
from dejacue.report import plots
from dejacue_paper import generate

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def generated():
    return generate(3, gaps=((100, 7),))


@pytest.fixture
def files(tmp_path, generated) -> tuple[Path, Path]:
    """Write a history and its vocabulary; return their paths."""
    return (
        write_history(tmp_path / "cup.history.npz", generated.history),
        write_vocabulary(tmp_path / "cup.vocabulary.npz", generated.vocabulary),
    )


@pytest.fixture
def scan(dejacue, files):
    """Run ``dejacue find`` with the readout scan on the history and its vocabulary."""
    return lambda *words: dejacue("find", files[0], "-r", "scan", "-v", files[1], *words)


def rows_of(table: str) -> list[list[str]]:
    """Return the cells of the body of a printed table."""
    lines = [line for line in table.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


# locate


def test_locate_prints_one_row_per_description(scan, generated):
    ran = scan()
    expected = [
        [m.state, m.description, f"{m.window.start} – {m.window.end}"]
        for m in locate(generated.history, generated.vocabulary, readout="scan")
    ]
    assert ran.code == 0
    assert rows_of(ran.out) == expected
    assert ran.err == ""


def test_locate_prints_json_as_the_library_makes_it(dejacue, files, generated):
    ran = dejacue("find", files[0], "-r", "scan", "--vocabulary", files[1], "--format", "json")
    assert (
        json.loads(ran.out)
        == locate(generated.history, generated.vocabulary, readout="scan").to_dict()
    )
    assert (ran.code, ran.err) == (0, "")


def test_locate_prints_csv_with_a_header(scan, generated):
    ran = scan("-f", "csv")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    expected = locate(generated.history, generated.vocabulary, readout="scan")
    assert [row["description"] for row in rows] == [m.description for m in expected]
    assert [(int(r["start"]), int(r["end"])) for r in rows] == [tuple(m.window) for m in expected]
    assert {row["history"] for row in rows} == {"generated-3"}


def test_the_timeline_is_what_find_reads_unless_told_otherwise(dejacue, files, generated):
    ran = dejacue("find", files[0], "-v", files[1], "-f", "json")
    document = json.loads(ran.out)
    expected = analyse(generated.history, generated.vocabulary)
    assert document == json.loads(expected.to_json())
    assert document["settings"]["readout"]["name"] == "timeline"
    assert all(0 <= interval["confidence"] <= 1 for interval in document["intervals"])


def test_options_of_contrast_and_the_timeline_reach_the_library(dejacue, files, generated):
    words = "-r contrast --set pooling=0.5 --set smoothing=2 --set bridge=3"
    ran = dejacue("find", files[0], "-v", files[1], "-f", "json", *words.split())
    expected = locate(
        generated.history, generated.vocabulary, readout=Contrast(pooling=0.5, width=2.0, bridge=3)
    )
    assert json.loads(ran.out) == json.loads(expected.to_json())
    words = (
        "--set order=filled,empty --set irreversible=true --set stay=5 --set switch=2 "
        "--set smoothing=0.5s"
    )
    ran = dejacue("find", files[0], "-v", files[1], "-f", "json", *words.split())
    reading = Reading(
        order=("filled", "empty"), irreversible=True, stay=5, switch=2, smoothing_s=0.5
    )
    expected = analyse(generated.history, generated.vocabulary, readout=reading)
    assert json.loads(ran.out) == json.loads(expected.to_json())
    assert 'not found: "filled"' in ran.err


def test_the_table_has_a_line_an_occurrence_with_its_trust(dejacue, tmp_path):
    generated = generate(3, recurrences=4, frames=400)
    history = write_history(tmp_path / "h.npz", generated.history)
    words = write_vocabulary(tmp_path / "v.npz", generated.vocabulary)
    found = analyse(generated.history, generated.vocabulary)
    assert len(found) == 8  # four of each of two states
    lines = [[i.state, f"{i.start} – {i.end}", i.trust] for i in found]
    assert rows_of(dejacue("find", history, "-v", words).out) == lines


def test_a_line_names_the_true_window_it_overlaps_and_what_was_missed_comes_last():
    found = [
        Interval("open", 0, 9, confidence=0.5),
        Interval("shut", 10, 19, confidence=0.4),
        Interval("open", 20, 29, confidence=0.1),
    ]
    states = {"open": ("open door",), "shut": ("shut door",), "ajar": ("a gap",), "lost": ("x",)}
    references = {"open": [Window(0, 4), Window(8, 11)], "ajar": [Window(7, 9), Window(30, 31)]}
    assert rows_of(as_text(timeline_table(Timeline.of(found, states), references))) == [
        ["open", "0 – 9", "more likely right", "0 – 4", "0.50"],
        ["shut", "10 – 19", "unsure", "", "–"],
        ["open", "20 – 29", "a guess", "", "0.00"],
        ["ajar", "not found", "", "7 – 9", "0.00"],
        ["ajar", "not found", "", "30 – 31", "0.00"],
        ["lost", "not found", "", "", "–"],
    ]
    references |= {"ajar": [Window(30, 31)]}
    complete = Reference("x", references, frames=Window(0, 40), complete=True)
    assert rows_of(as_text(timeline_table(Timeline.of(found, states), complete))) == [
        ["open", "0 – 9", "more likely right", "0 – 4", "0.50", "found"],
        ["shut", "10 – 19", "unsure", "", "–", ""],
        ["open", "20 – 29", "a guess", "", "0.00", "superfluous"],
        ["open", "not found", "", "8 – 11", "0.17", "missed"],
        ["ajar", "not found", "", "30 – 31", "0.00", "missed"],
        ["lost", "not found", "", "", "–", ""],
    ]


def test_a_complete_reference_is_summed_up_below_the_table(dejacue, tmp_path):
    generated = generate(3, recurrences=2, frames=200)
    history = write_history(tmp_path / "h.npz", generated.history)
    words = write_vocabulary(tmp_path / "v.npz", generated.vocabulary)
    reference = Reference("x", generated.references, frames=Window(0, 199), complete=True)
    truth = write_references(tmp_path / "truth.json", [reference])
    ran = dejacue("find", history, "-v", words, "--references", truth)
    assert re.search(r"generated-3: 4 of 4 true occurrences found .* 0 superfluous", ran.out)
    assert "result" not in ran.out  # where all were found, the sentence says it
    write_references(truth, [structs.replace(reference, complete=False)])
    assert (
        "true occurrences" not in dejacue("find", history, "-v", words, "--references", truth).out
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--set durations=5,10", "--set durations does not apply to the timeline readout"),
        ("-r scan --set pooling=1", "--set pooling does not apply to the scan readout"),
        ("--set smoothing=wide", "give seconds (0.8s) or frames (4)"),
        ("-r scan --set smoothing=0.8s", "give an odd number of frames"),
        ("--set bridge=far", "give a number of frames, or auto"),
        ("--set pooling=0.5", "--set pooling does not apply to the timeline readout"),
        ("--set order=empty,full", 'unknown state in the order "full"'),
        ("--set stay=900", "longer than every stretch"),
        (
            "-r published --set norm=sum",
            "--set norm does not apply to the preset published; to change settings, use "
            "--readout scan",
        ),
        (
            "-r published --set coordinates=dual",
            "to use dual coordinates, name the readout itself: scan",
        ),
    ],
)
def test_options_of_the_method_that_do_not_fit_get_one_sentence(dejacue, files, words, sentence):
    ran = dejacue("find", files[0], "-v", files[1], *words.split())
    assert ran.code == 2
    assert sentence in ran.err
    assert ran.err.count("\n") == 1


def test_options_of_locate_reach_the_library(scan, generated):
    words = (
        "--set coordinates=absolute --set norm=sum --set runs=bridged --set smoothing=5 "
        "--set durations=5,10"
    )
    ran = scan("-f", "json", *words.split())
    expected = locate(
        generated.history,
        generated.vocabulary,
        coordinates="absolute",
        smoothing=5,
        readout=Scan(durations=(5, 10), norm="sum", runs="bridged"),
    )
    assert json.loads(ran.out) == json.loads(expected.to_json())


def test_durations_can_be_a_schedule(scan):
    ran = scan("-f", "json", "--set", "durations=generated")
    assert json.loads(ran.out)["settings"]["readout"]["durations"] == "generated"


def test_every_readout_can_be_named(scan):
    for name in ("peak", "mean-window", "boxcar", "max-frame", "non-overlap", "single-median"):
        ran = scan("-f", "json", "-r", name)
        assert ran.code == 0
        expected = "scan" if name == "single-median" else name
        assert json.loads(ran.out)["settings"]["readout"]["name"] == expected


def test_diagnostics_say_why(scan):
    words = ("--set", "diagnostics=true")
    why = json.loads(scan(*words, "-f", "json").out)["intervals"][0]["diagnostics"]
    assert why["run"] in ([0, 99], [107, 239])
    table = scan(*words).out
    assert "residual" in table
    assert len(rows_of(table)) == 8
    rows = list(csv.DictReader(io.StringIO(scan(*words, "-f", "csv").out)))
    assert {"residual_norm", "scale", "run_start", "run_end", "touches_run_edge"} <= set(rows[0])


def test_seconds_are_shown_where_the_history_has_them(dejacue, tmp_path, generated, files):
    timed = replace_columns(generated.history, times_s=generated.history.frames / 25)
    path = write_history(tmp_path / "timed.npz", timed)
    first = locate(timed, generated.vocabulary, readout="scan")[0]
    ran = dejacue("find", path, "-r", "scan", "-v", files[1])
    assert "{:.2f} – {:.2f}".format(*first.times_s) in ran.out
    ran = dejacue("find", path, "-r", "scan", "-v", files[1], "-f", "csv")
    best, second = list(csv.DictReader(io.StringIO(ran.out)))[:2]
    assert float(best["start_s"]) == first.times_s[0]
    assert float(second["start_s"]) == int(second["start"]) / 25
    assert float(second["end_s"]) == (int(second["end"]) + 1) / 25  # where the frame ends


def replace_columns(history: History, **columns: object) -> History:
    return History(history.features, history.frames, history.id, history.encoder, **columns)


def test_labels_are_the_state_of_every_frame_on_request_only(dejacue, files, tmp_path, generated):
    words = ("find", files[0], "-v", files[1], "-e", "empty=3", "-e", "filled=200")
    vocabulary = generated.vocabulary.with_examples(empty=3, filled=200)
    labels = analyse(generated.history, vocabulary).labels
    ran = dejacue(*words, "-f", "labels")
    assert ran.code == 0
    assert "note: read with examples" in ran.err
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [row["state"] or None for row in rows] == labels
    assert [int(row["frame"]) for row in rows] == generated.history.frames.tolist()
    for name in ("found.labels.csv", "found.log"):
        format = () if name.endswith(".csv") else ("-f", "labels")
        assert dejacue(*words, *format, "-o", tmp_path / name).code == 0
        assert (tmp_path / name).read_text(encoding="utf-8") == ran.out
    refused = dejacue(*words, "-f", "labels", "-o", tmp_path / "found.csv")
    assert (refused.code, "does not match --format labels" in refused.err) == (2, True)
    assert dejacue(*words, "-o", tmp_path / "folder").code == 0
    assert (tmp_path / "folder" / "timeline.csv").is_file()
    assert not (tmp_path / "folder" / "timeline.labels.csv").exists()


def test_exhaustive_gives_every_frame_to_a_state(dejacue, tmp_path):
    generated = generate(3, states=("a", "b", "c"), frames=300)
    frames = {state: windows[0].start + 5 for state, windows in generated.references.items()}
    history = write_history(tmp_path / "h.npz", generated.history)
    examples = [word for state in "ab" for word in ("-e", f"{state}={frames[state]}")]
    shown = {}
    for words in ((), ("--exhaustive",)):
        ran = dejacue("find", history, *examples, *words, "-f", "labels")
        assert ran.code == 0
        rows = csv.DictReader(io.StringIO(ran.out))
        shown[words] = {row["state"] for row in rows}
    assert shown == {(): {"a", "b", ""}, ("--exhaustive",): {"a", "b"}}
    ran = dejacue("find", history, *examples, "-e", f"none={frames['c']}", "--exhaustive")
    assert ran.code == 2
    assert "shows none of the states, but the vocabulary is exhaustive" in ran.err


def test_words_that_are_exhaustive_need_no_note_about_none(dejacue, files):
    words = ("find", files[0], "-v", files[1])
    assert 'show an example of "none"' in dejacue(*words).out
    assert 'show an example of "none"' not in dejacue(*words, "--exhaustive").out


@pytest.mark.parametrize("format", ["json", "csv", "table"])
def test_output_goes_to_the_file_and_not_to_the_screen(scan, tmp_path, format):
    target = tmp_path / "new" / "found.txt"
    words = ("-f", format)
    ran = scan(*words, "-o", target)
    assert ran == (0, "", f"written: {target}\n")
    assert list(target.parent.iterdir()) == [target]
    text, printed = target.read_text(encoding="utf-8"), scan(*words).out
    if format != "table":
        assert text == printed
    else:  # the width differs, the cells do not
        assert rows_of(text) == rows_of(printed)
        assert len(rows_of(text)) == 4


def test_plot_is_a_png_and_the_table_is_printed_too(scan, tmp_path):
    ran = scan("--plot", tmp_path / "evidence.png")
    assert ran.code == 0
    assert len(rows_of(ran.out)) == 4
    assert (tmp_path / "evidence.png").read_bytes().startswith(PNG)


def test_the_plotted_evidence_is_that_of_the_call(scan, generated, tmp_path, monkeypatch):
    seen = []
    real = plots.evidence_figure
    monkeypatch.setattr(
        plots,
        "evidence_figure",
        lambda *arguments, **more: seen.append(arguments) or real(*arguments, **more),
    )
    words = ("--set", "coordinates=absolute", "--set", "smoothing=5", "--plot", tmp_path / "p.png")
    assert scan(*words).code == 0
    _, timeline, _ = seen[0]
    options = {"coordinates": "absolute", "readout": Scan(smoothing=5)}
    expected = evidence(generated.history, generated.vocabulary, **options)
    assert np.array_equal(timeline.evidence.responses, expected.responses)
    located = locate(generated.history, generated.vocabulary, **options)
    assert [m.window for m in timeline] == [m.window for m in located]


def test_a_prompt_variant_is_chosen_by_name(scan, dejacue, files, tmp_path, generated):
    vocabulary = generated.vocabulary
    np.savez(
        tmp_path / "prompts.npz",
        variant_names=np.array(["raw", "photo"]),
        text_features=np.stack([vocabulary.features, vocabulary.features[::-1]]),
        state_ids=np.array(vocabulary.state_names),
        state_texts=np.array(vocabulary.descriptions),
    )
    words = (
        "find",
        files[0],
        "-r",
        "scan",
        "-v",
        tmp_path / "prompts.npz",
        "-f",
        "csv",
        "--set",
    )
    assert dejacue(*words, "templates=raw").out == scan("-f", "csv").out
    assert dejacue(*words, "templates=photo").out != dejacue(*words, "templates=raw").out


def test_a_schedule_that_is_too_short_for_the_history_is_noted_on_stderr(dejacue, files):
    long = generate(3, frames=700)
    path = write_history(files[0].parent / "long.npz", long.history)
    ran = dejacue("find", path, "-r", "scan", "-v", files[1], "-f", "json")
    assert ran.code == 0
    assert ran.err.startswith(
        "doubtful: the longest run has 700 frames, but no window is longer than 483"
    )
    assert json.loads(ran.out)["notes"]
    chosen = dejacue(
        "find", path, "-r", "scan", "-v", files[1], "-f", "json", "--set", "durations=5,10"
    )
    assert chosen.err == ""  # the user's own choice needs no remark


def test_words_are_printed_as_they_are(dejacue, tmp_path, generated):
    states = {"[bold]on[/]": ["lamp :bulb: [red]"], "[/off]": ["lamp off"]}
    history = replace(generated.history, id="[/x]")
    words = Vocabulary(states, generated.vocabulary.features[::2], "generated")
    ran = dejacue(
        "find",
        write_history(tmp_path / "h.npz", history),
        "-r",
        "scan",
        "-v",
        write_vocabulary(tmp_path / "v.npz", words),
        "--set",
        "diagnostics=true",
    )
    assert ran.code == 0
    assert ran.out.startswith("[/x]")
    assert [row[:2] for row in rows_of(ran.out)[:2]] == [
        ["[bold]on[/]", "lamp :bulb: [red]"],
        ["[/off]", "lamp off"],
    ]


# Other commands


def test_demo_goes_from_pixels_to_a_report(dejacue, tmp_path):
    folder = tmp_path / "demo[bold]"
    ran = dejacue("demo", "-o", folder)
    assert ran.code == 0
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "report.html",
        "finding.json",
        "timeline.json",
        "timeline.csv",
        "timeline.vtt",
        "scene.history.npz",
        "scene.vocabulary.npz",
        "scene.evidence.npz",
        "scene.thumbnails.npz",
        "scene",
    }
    history = read_history(folder / "scene.history.npz")
    assert history.encoder.startswith("dejacue-mini@")
    timeline = json.loads((folder / "timeline.json").read_text(encoding="utf-8"))
    assert len(timeline["intervals"]) == len([row for row in rows_of(ran.out) if row[2]])
    assert [row["state"] for row in timeline["intervals"]] == [row[0] for row in rows_of(ran.out)]
    assert {row[3] for row in rows_of(ran.out)} == {"more likely right"}
    assert f"report: {folder / 'report.html'}" in ran.err
    assert f"again: dejacue find {folder / 'scene' / 'scene.mp4'} --masks" in ran.out
    overlaps = [float(row[-1]) for row in rows_of(ran.out) if row[0]]
    assert min(overlaps) > 0.5


def test_info_names_versions_and_what_is_installed(dejacue, monkeypatch, tmp_path):
    monkeypatch.setenv("DEJACUE_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "600")
    ran = dejacue("info")
    facts = dict(line.split(maxsplit=1) for line in ran.out.splitlines())
    assert ran.code == 0
    assert facts["dejacue"].strip() == __version__
    assert facts["numpy"].strip() == np.__version__
    assert facts["pandas"].strip() != "not installed"
    assert facts["plug-ins"].strip() == f"dejacue-paper {__version__}"


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("find", "x.npz", "-v", "v.npz", "--cut", "true"), "leave true out"),
        (("find", "x.npz", "--cut", "False", "-v", "v.npz"), "leave both out"),
        (("track", "--backward", "no", "x.mp4", "-o", "m"), "give --no-backward"),
        (("evaluate", "--only-common", "1", "a.json", "b.json"), "leave 1 out"),
    ],
)
def test_a_switch_that_is_given_a_value_is_named(dejacue, words, remedy):
    switch = next(word for word in words if word.startswith("--"))
    message = f"dejacue: {switch} is a switch and takes no value; {remedy}\n"
    assert dejacue(*words) == (2, "", message)


@pytest.mark.parametrize("name", ["x.json", "x.csv", "x.txt", "x.parquet"])
def test_what_is_written_is_named(dejacue, files, tmp_path, name):
    places = ("-o", tmp_path / name, "--plot", tmp_path / "x.png")
    ran = dejacue("find", *files[:1], "-v", *files[1:], *places)
    assert ran.out == ""
    assert f"plot: {tmp_path / 'x.png'}\nwritten: {tmp_path / name}\n" in ran.err


def test_version_is_printed(dejacue):
    assert dejacue("--version") == (0, f"dejacue {__version__}\n", "")


def commands(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    children = getattr(command, "commands", {})
    below = [command for name in children for command in commands(children[name], (*path, name))]
    return [path, *below]


EVERY_COMMAND = commands(typer.main.get_command(app))


NAMES = """
    find, words, live, encode, track, evaluate, demo, info, ingest, convert, studio, reproduce
    store, store add, store ls, store rm, store verify, store compact, store export, store query
    store failures, weights, weights ls, weights fetch, weights check
    data, data open, data evaluate, data fetch, data show, data references
    annotate, annotate start, annotate export, annotate consensus, annotate events
    moments, moments answers, moments references
    learn, learn fit, learn train, learn eval, learn predict
"""


def test_every_command_is_known_here():
    known = {name.strip() for line in NAMES.splitlines() for name in line.split(",")}
    assert {" ".join(path) for path in EVERY_COMMAND} == known


def test_commands_and_the_options_of_find_stay_few():
    product = [path for path in EVERY_COMMAND if path and path[0] not in PAPER["commands"]]
    groups = {path[:1] for path in product if len(path) > 1}
    assert len({path[0] for path in product}) <= 16
    assert len([path for path in product if path not in groups]) <= 30
    find = typer.main.get_command(app).commands["find"]
    assert len([option for option in find.params if option.param_type_name == "option"]) <= 34


def test_the_help_begins_with_what_to_start_with(dejacue):
    text = dejacue("--help").out
    panels = ("Start here", "One video", "Many videos", "Evaluation", "This machine")
    assert sorted(panels, key=text.index) == list(panels)
    assert "dejacue find kitchen.mp4 --whole --encoder lite" in dejacue("find", "--help").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("find",), "known: smoothing, bridge, switch, stay, order, irreversible, kind, match"),
        (("find", "-r", "contrast"), "known: smoothing, pooling, bridge, kind, match, rate"),
        (("encode", "-o", "x.npz"), "known: kind, match, rate, errors, max_pixels"),
    ],
)
def test_an_unknown_setting_is_refused_with_a_list_of_the_known_ones(dejacue, words, message):
    ran = dejacue(words[0], "x.mp4", *words[1:], "--set", "colour=red")
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("path", EVERY_COMMAND, ids=" ".join)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_command_has_help(dejacue, path, flag):
    ran = dejacue(*path, flag)
    assert (ran.code, ran.err) == (0, "")
    assert "Usage: " + " ".join(("dejacue", *path)) in ran.out


@pytest.mark.parametrize(
    "name", [" ".join(path) for path in EVERY_COMMAND if path and path[0] not in PAPER["commands"]]
)
def test_the_help_of_every_command_has_an_example(dejacue, name):
    if name not in ("store", "weights"):
        usage, example = f"Usage: dejacue {name}", f": dejacue {name}"
        text = dejacue(*name.split(), "--help").out
        assert text.count(example) > text.count(usage)


def test_no_command_at_all_shows_the_help(dejacue):
    assert "Usage: dejacue" in dejacue().out


# Bad input


def words_only(folder: Path, files: tuple[Path, Path]) -> tuple[list, str]:
    path = folder / "cup.yaml"
    path.write_text("empty: empty cup\nfilled: full cup\n")
    return [
        files[0],
        "-v",
        path,
    ], r"cup\.yaml: history .* was made with .generated.; name the encoder"


def broken_history(folder: Path, files: tuple[Path, Path]) -> tuple[list, str]:
    files[0].write_bytes(files[0].read_bytes()[:500])
    return [files[0], "-v", files[1]], r"cup\.history\.npz: not an \.npz file, or a damaged one"


def a_folder(folder: Path, files: tuple[Path, Path]) -> tuple[list, str]:
    (folder / "empty").mkdir()
    return [folder / "empty", "-v", files[1]], "is an empty folder; give a folder of"


def two_histories(folder: Path, files: tuple[Path, Path]) -> tuple[list, str]:
    for name in ("a", "b"):
        shutil.copy(files[0], folder / f"{name}.history.npz")
    return [folder, "-v", files[1]], r"holds the histories a\.history\.npz, b.*; give one of them"


def swapped(folder: Path, files: tuple[Path, Path]) -> tuple[list, str]:
    return [files[1], "-v", files[0]], r"cup\.vocabulary\.npz: is \"dejacue\.vocabulary/2\", not"


def other_dimension(folder: Path, files: tuple[Path, Path]) -> tuple[list, str]:
    path = write_history(folder / "wide.npz", History(np.eye(3, 65), encoder="generated"))
    return [
        path,
        "-v",
        files[1],
    ], r"wide\.npz with .*cup\.vocabulary\.npz: .* has 65 dimensions, but the vocabulary has 64"


def other_encoder(folder: Path, files: tuple[Path, Path]) -> tuple[list, str]:
    path = write_history(folder / "other.npz", History(np.eye(3, 64), encoder="clip"))
    message = r'other\.npz with .*: .* encoded with "clip", but the vocabulary with "generated"'
    return [path, "-v", files[1]], message


def odd_name(folder: Path, files: tuple[Path, Path]) -> tuple[list, str]:
    path = write_history(folder / "odd.npz", History(np.eye(3, 65), id="two\nlines"))
    return [path, "-v", files[1]], r"odd\.npz with .*: history two lines has 65 dimensions"


@pytest.mark.parametrize(
    "case",
    [
        words_only,
        broken_history,
        a_folder,
        two_histories,
        swapped,
        other_dimension,
        other_encoder,
        odd_name,
    ],
)
def test_a_bad_file_becomes_one_sentence_that_names_it(dejacue, files, tmp_path, case):
    words, message = case(tmp_path, files)
    before = set(tmp_path.rglob("*"))
    ran = dejacue(
        "find", *words, "-f", "json", "-o", tmp_path / "o.json", "--plot", tmp_path / "p.png"
    )
    assert ran.code == 2
    assert ran.out == ""
    assert re.fullmatch(rf"dejacue: {re.escape(str(tmp_path))}.*{message}.*\n", ran.err)
    assert ran.err.count("\n") == 1
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--set coordinates=vocabulry",
            'unknown coordinates "vocabulry"; did you mean "vocabulary"',
        ),
        ("--readout scna", 'unknown readout "scna"; did you mean "scan"'),
        (f"--readout {'9' * 300}", "unknown readout"),
        ("--set durations=publishd", 'unknown durations "publishd"; did you mean "published"'),
        ("--set norm=squrt", 'unknown norm "squrt"; did you mean "sqrt"'),
        ("--set runs=brigded", 'unknown runs "brigded"; did you mean "bridged"'),
        ("--set kernel=nunpy", 'unknown kernel "nunpy"; did you mean "numpy"'),
        ("--set smoothing=4", "smoothing width 4 must be an odd number"),
        ("--set smoothing=100000000000000000001", "smoothing width 1.*1 must be an odd number"),
        ("--set smoothing=0", "smoothing width 0 must be an odd number"),
        ("--set smoothing=-3", "smoothing width -3 must be an odd number"),
        (
            "--set durations=5000",
            r"cup\.history\.npz: .*no duration fits.* has 133 frames; add short",
        ),
        ("--set durations=,", "durations: give at least one length"),
        ("--set durations=", "durations: give at least one length"),
        ("--set durations=0", "durations: give at least one length, each at least one frame"),
        ("--set durations=5,-3", "durations: give at least one length, each at least one frame"),
        ("--set durations=--5", 'unknown durations "--5"'),
        ("--set durations=5²", 'unknown durations "5²"'),
        ("--set durations=2.5", 'unknown durations "2.5"'),
        ("--readout peak --set norm=sum", "--set norm does not apply to the peak readout"),
        ("--readout peak --set durations=5", "--set durations does not apply to the peak readout"),
        ("--readout boxcar --set runs=bridged", "--set runs does not apply to the boxcar readout"),
        ("--set templates=raw", r"cup\.vocabulary\.npz: holds one form of each description"),
    ],
)
def test_a_bad_option_becomes_one_sentence(scan, tmp_path, words, message):
    before = set(tmp_path.rglob("*"))
    ran = scan(
        *words.split(),
        "-f",
        "json",
        "-o",
        tmp_path / "o.json",
        "--plot",
        tmp_path / "p.png",
    )
    assert ran.code == 2
    assert ran.out == ""
    assert re.fullmatch(rf"dejacue: .*{message}.*\n", ran.err)
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("option", ["--output", "--plot"])
def test_a_folder_is_not_overwritten(scan, tmp_path, option):
    (tmp_path / "results.png").mkdir()
    before = set(tmp_path.rglob("*"))
    target = tmp_path / "results.png"
    ran = scan("-f", "json", option, target)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith(f"dejacue: {target}: is a folder or a device")
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("words", [["find"], ["loacte"], ["find", "x.npz", "--fromat", "json"]])
def test_a_wrong_command_line_exits_with_2(dejacue, words):
    ran = dejacue(*words)
    assert (ran.code, ran.out) == (2, "")
    assert "Usage" in ran.err
    assert "Traceback" not in ran.err


# As a process of its own


def process(*words: object, encoding: str = "utf-8", **more: Any) -> CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dejacue", *map(str, words)],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more},
        encoding=encoding,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )


def test_2_is_returned_for_bad_input(dejacue, files, tmp_path):
    ran = dejacue("find", tmp_path / "nowhere.npz", "-v", files[1])
    assert ran == (2, "", f"dejacue: {tmp_path / 'nowhere.npz'}: no such file\n")


def test_1_is_returned_for_missing_data(dejacue, tmp_path, monkeypatch):
    monkeypatch.setenv("DEJACUE_DATA", str(tmp_path))
    ran = dejacue("data", "show")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"dejacue: {tmp_path.resolve()}: contains no release")
    assert ran.err.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_one_sentence(files):
    with open("/dev/full", "w") as full:
        ran = process("find", files[0], "-r", "scan", "-v", files[1], "-f", "json", stdout=full)
    assert ran.returncode == 1
    assert ran.stderr.startswith("dejacue: No space left on device\n")


def test_the_package_runs_as_a_module_where_a_narrow_code_page_gets_question_marks(files):
    ran = process("find", files[0], "-v", files[1], encoding="ascii")
    assert ran.returncode == 0
    assert "generated-3" in ran.stdout


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/stderr"])
def test_a_device_is_not_a_file_to_replace(scan, name):
    ran = scan("-f", "csv", "-o", name)
    assert ran == (
        2,
        "",
        f"dejacue: {name}: is a folder or a device, not a file; give another name\n",
    )


def test_a_plot_is_a_png(scan, tmp_path):
    ran = scan("--plot", tmp_path / "evidence.pdf")
    assert ran.code == 2
    assert "ends in .png" in ran.err
    assert not (tmp_path / "evidence.pdf").exists()


def test_a_vocabulary_given_as_the_history_is_recognised(dejacue, files, tmp_path):
    bare = tmp_path / "v.npz"
    np.savez(
        bare, states=np.array(["a", "b"]), descriptions=np.array(["x", "y"]), features=np.eye(2)
    )
    ran = dejacue("find", bare, "-v", bare)
    assert ran.code == 2
    assert "is a vocabulary; give a history" in ran.err


def test_a_failed_write_names_the_file_that_was_asked_for(tmp_path):
    def full(stream):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left") as caught:
        write_whole(tmp_path / "found.json", full)
    assert caught.value.filename == str(tmp_path / "found.json")
    assert list(tmp_path.iterdir()) == []


def test_words_in_a_note_are_printed_as_they_are(dejacue, tmp_path):
    history = write_history(tmp_path / "h.npz", History(np.eye(5)))
    same = Vocabulary({"a": "[bold]lamp[/x]", "b": "y"}, np.ones((2, 5)))
    words = write_vocabulary(tmp_path / "v.npz", same)
    ran = dejacue("find", history, "-r", "scan", "-v", words, "-f", "json")
    assert ran.code == 0
    assert 'nothing sets "[bold]lamp[/x]", "y" apart' in ran.err


def test_shared_memory_is_an_ordinary_folder(tmp_path):
    folder = Path("/dev/shm")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        pytest.skip("there is no /dev/shm here")
    target = folder / f"dejacue-{os.getpid()}.txt"
    try:
        write_whole(target, lambda stream: stream.write(b"here"))
        assert target.read_bytes() == b"here"
    finally:
        target.unlink(missing_ok=True)


@pytest.mark.parametrize(("option", "name"), [("-o", "words.json"), ("--plot", "words.png")])
def test_what_is_read_is_never_written_over(dejacue, files, tmp_path, option, name):
    words = tmp_path / name
    shutil.copy(files[1], tmp_path / "v.npz")
    os.link(tmp_path / "v.npz", words)
    before = words.read_bytes()
    ran = dejacue("find", files[0], "-v", tmp_path / "v.npz", option, words)
    assert ran.code == 2
    assert "is read by this command; give another output" in ran.err
    assert words.read_bytes() == before


def test_a_report_of_somebody_else_is_never_replaced(dejacue, files, tmp_path):
    (folder := tmp_path / "out").mkdir()
    report = folder / "report.html"
    report.write_text("<!doctype html><title>Annual report</title>")
    command = ("find", files[0], "-v", files[1], "-o", folder)
    ran = dejacue(*command)
    assert ran.code == 2
    assert f"{report}: was not written by dejacue" in ran.err
    assert [path.name for path in folder.iterdir()] == ["report.html"]
    assert "Annual report" in report.read_text()
    report.unlink()
    for name in ("timeline.csv", "timeline.vtt"):
        (folder / name).write_text("mine")
        ran = dejacue(*command)
        assert ran.code == 2
        assert f"{folder / name}: lies in a folder that has no finding" in ran.err
        assert [path.name for path in folder.iterdir()] == [name]
        assert (folder / name).read_text() == "mine"
        (folder / name).unlink()
    assert dejacue(*command).code == 0
    assert dejacue(*command).code == 0  # its own outputs are replaced
    (folder / "finding.json").unlink()  # as if it had been killed before
    assert dejacue(*command).code == 0


@pytest.mark.parametrize("words", ["--stride 3", "--start 5", "--set rate=5", "--object 1"])
def test_options_of_a_video_are_refused_with_a_history(dejacue, files, words):
    ran = dejacue("find", files[0], "-v", files[1], *words.split())
    assert ran.code == 2
    assert "is a history, so" in ran.err
    assert "has no effect" in ran.err


def test_a_path_of_thousands_of_letters_is_shortened(dejacue, files) -> None:
    ran = dejacue("find", files[0], "-v", files[1], "-o", "[" * 6000)
    assert ran.code == 2
    assert ran.err.endswith("File name too long); give another place\n")
    assert len(ran.err) < 700


# What was meant


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("clip.mp4", "find"), "dejacue find clip.mp4"),
        (("my clip.mp4", "find", "-v", "cup.yaml"), "dejacue find 'my clip.mp4' -v cup.yaml"),
        (("clip.mp4", "--box", "1,2,3,4", "track"), "dejacue track clip.mp4 --box 1,2,3,4"),
        (("here.mp4", "empty cup"), "dejacue find here.mp4 'empty cup'"),
    ],
)
def test_a_video_before_its_command_gets_the_line_that_was_meant(
    dejacue, tmp_path, monkeypatch, words, meant
):
    monkeypatch.chdir(tmp_path)
    Path("here.mp4").touch()
    message = f'dejacue: "{words[0]}" is no command; did you mean {meant}?\n'
    assert dejacue(*words) == (2, "", message)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-e", "empty cup=20s"), "the example 20s of empty cup is past the end (5.0 s)"),
        (("-e", "empty cup=900"), "the example 900 of empty cup is past the last frame (59)"),
        (("--change", "20s"), "a change at 20s is past the end (5.0 s)"),
        (("--start", "20s"), "start 20s is past the end; give an earlier one"),
        (("--start", "900"), "start 900 is past the last"),
    ],
)
def test_what_is_past_the_end_is_told_in_what_was_typed(dejacue, scene, tmp_path, words, sentence):
    states = ("empty cup", "full cup", "--whole", "--encoder", "mini", "-o", tmp_path / "out")
    ran = dejacue("find", scene / "scene.mp4", *states, *words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert sentence in ran.err
    assert not (tmp_path / "out" / "finding.json").exists()


def test_control_characters_in_names_are_printed_escaped(scene, tmp_path):
    name = "\x1b[31mred"
    video = shutil.copy(scene / "scene.mp4", tmp_path / f"{name}.mp4")
    masks = ("--masks", scene / "Annotations", "--object", 1)
    states = ("empty cup", "full cup", *masks, "--encoder", "mini")
    ran = process("find", video, *states, "-o", tmp_path / "out")
    assert ran.returncode == 0, ran.stderr
    assert "\\x1b[31mred" in ran.stdout
    gone = process("find", tmp_path / "\x1b7gone.mp4", *states)
    assert "\\x1b7gone.mp4: no such file" in gone.stderr
    assert "\x1b" not in ran.stdout + ran.stderr + gone.stdout + gone.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes only there")
def test_a_name_that_is_not_utf_8_is_refused_before_anything_is_written(
    dejacue, scene, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clips").mkdir()
    bad = shutil.copy(scene / "scene.mp4", os.fsdecode(b"clips/caf\xe9.mp4"))
    states = ("empty cup", "full cup", "--whole", "--encoder", "mini")
    message = "dejacue: clips/caf\\udce9.mp4: the name is not UTF-8; rename the file\n"
    assert dejacue("find", bad, *states) == (2, "", message)
    assert dejacue("track", bad, "--box", "1,1,9,9", "-o", "masks") == (2, "", message)
    shutil.copy(scene / "scene.mp4", "clips/good.mp4")
    ran = dejacue("find", "clips", *states)
    assert (ran.code, message in ran.err) == (1, True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["good"]
