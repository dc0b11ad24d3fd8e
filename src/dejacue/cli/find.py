"""``dejacue find`` and ``demo``: show and write what ``dejacue.find`` returns."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

import dejacue
from dejacue.atomic import check_place
from dejacue.cli import options as o
from dejacue.cli.tables import (
    Bars,
    as_note,
    console,
    diagnostics_table,
    notes,
    objects_table,
    say,
    say_written,
    show,
    timeline_table,
)
from dejacue.errors import DejaCueError, InputError

if TYPE_CHECKING:
    from dejacue.finding._find import Search
    from dejacue.finding._readout import MoreExamples
    from dejacue.finding.finding import Finding
    from dejacue.method.strips import Strip
    from dejacue.records import Reference
    from dejacue.report.exports import Export

Marks = dict[str | None, list[tuple[int, int]]]  # state → first and last picture, from 0
TABLE = ".txt"
KINDS_IN_FOLDER = ("json", "csv", "vtt")  # of the timeline
REPORT_MARK = b'<meta name="generator" content="dejacue">'
MAX_HEAD_BYTES = 1000  # of a report, in which the mark is
NO_ANSWER = 3  # exit code: the answer would be meaningless


class FoundFormat(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"
    labels = "labels"


def _readout_settings(name: str) -> list[str]:
    from dejacue.cli.readouts import setting_names
    from dejacue.method.plan import as_readout

    return setting_names(as_readout(name))


@o.takes(
    *("video", "states", "examples", "exhaustive", "like"),
    *("masks", "objects", "box", "point", "name", "whole", "fixed", "tracker"),
    *o.FRAMES,
    *("encoder", "readout"),
)
def find(
    context: typer.Context,
    change: Annotated[
        o.Texts, o.states_option("Frame (300) or time (4.5s) at which a state ends.")
    ] = None,
    questions: Annotated[
        int | None,
        o.states_option("Also list this many frames whose state you should name as an example."),
    ] = None,
    strip: Annotated[
        bool,
        o.states_option(
            "Also write strip.png: pictures side by side; a terminal asks which show which state.",
            "--strip",
        ),
    ] = False,
    mark: Annotated[
        o.Texts,
        o.states_option(
            "STATE=PICTURES of the strip, from 1: full=3-6, empty=8-9,12; unmarked ones show no "
            "state."
        ),
    ] = None,
    mask: o.FirstMask = None,
    device: o.Device = None,
    settings: Annotated[
        o.Texts,
        o.setting(
            o.SETTINGS,
            "A setting of the readout (timeline: smoothing, bridge, order, irreversible, stay, "
            "switch; contrast: smoothing, pooling, bridge; scan: durations, norm, runs), or "
            f"{', '.join(o.SETTINGS)} (docs/commands.md).",
            _readout_settings,
        ),
    ] = None,
    references: Annotated[
        Path | None,
        o.results_option("True windows (.json, .csv, .eaf, …) to show beside the results."),
    ] = None,
    format: Annotated[
        FoundFormat | None,
        o.results_option(
            "Output format (default: by the suffix of --output, else table); labels: the state of "
            "every frame, as CSV.",
            "--format",
            "-f",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        o.output(
            "A file (.json, .csv, .txt, .vtt, .eaf, .parquet, …), or a folder for the report.",
            panel="Results",
        ),
    ] = None,
    plot: Annotated[Path | None, o.results_option("Also plot the evidence to this PNG.")] = None,
    cut: Annotated[
        bool, o.results_option("Also cut the windows found into video clips.", "--cut")
    ] = False,
    *,
    readout: str,
    examples: o.Texts,
    **asked: Any,
) -> None:
    """Find every time that each state holds.

    Where the answer of an object would be meaningless, none is given: all files say why, and the
    exit code is 3.

    With words: dejacue find kitchen.mp4 --box 120,80,300,260@0 -v cup.yaml -o out

    Without: dejacue find kitchen.mp4 --whole --encoder lite --strip -o out
    """
    from dejacue.cli.readouts import readout_from
    from dejacue.finding._find import Search
    from dejacue.method.plan import ReadOptions
    from dejacue.models.trackers import default_tracker
    from dejacue.models.trackers.follow import TrackerOptions

    texts = dict(o.pairs(settings, "--set", "KEY=VALUE, as in --set smoothing=0.8s"))
    values = {key: o.setting_value(key, texts.pop(key)) for key in o.SETTINGS if key in texts}
    chosen, width = readout_from(readout, texts, o.SETTINGS)
    tracked = not (asked["masks"] or asked["whole"] or asked["fixed"])
    tracker_options = TrackerOptions()
    if tracked and (asked["tracker"] or default_tracker()):  # device and precision are for it, too
        tracker_options = TrackerOptions(device, values.get("precision"))
        if asked["encoder"] == "mini":
            device, values = None, values | {"precision": None}
    request = o.request(
        context,
        values=values,
        device=device,
        mask=mask,
        tracker_options=tracker_options,
        examples=_examples(examples, change),
        readout=ReadOptions(
            readout=chosen,
            coordinates=values.get("coordinates"),
            smoothing=width,
            diagnostics=values.get("diagnostics", False),
            kernel=values.get("kernel", "auto"),
        ),
        **asked,
    )
    marks = None if mark is None else _marks(mark)
    outputs = Outputs(
        format and format.value, output, plot, references, cut, questions, strip, marks
    )
    find_and_show(Search(request, marking=strip or marks is not None), outputs)


def _examples(examples: o.Texts, changes: o.Texts) -> MoreExamples:
    from dejacue.finding._readout import MoreExamples

    by_state: dict[str | None, list[str]] = {}
    form = "STATE=EXAMPLE, as in --example empty=120"
    for state, text in o.pairs(examples, "--example", form):
        if not text.strip():
            raise InputError(f'--example "{state}=": give {form}')
        by_state.setdefault(state, []).append(text)
    return MoreExamples(by_state or None, tuple(changes or ()))


def demo(output: Annotated[Path, o.output("Folder for the results.")] = Path("out/demo")) -> None:
    """Find the states of a cup in a short rendered video, and write a report."""
    from dejacue.demo import write_demo
    from dejacue.finding._find import Search
    from dejacue.finding.request import FindRequest

    check_folder(output)
    scene = write_demo(output / "scene", overwrite=True)
    video, masks, words = scene / "scene.mp4", scene / "Annotations", scene / "vocabulary.yaml"
    truth = scene / "references.json"
    request = FindRequest(video, words, masks=masks, objects=[1], encoder="mini")
    find_and_show(Search(request), Outputs(output=output, references=truth))
    say(
        f"again: dejacue find {video} --masks {masks} --object 1 --vocabulary {words} --encoder "
        f"mini --references {truth} --output {output}"
    )
    say(f"measure: dejacue evaluate {output / 'timeline.json'} {truth}")


@dataclass(frozen=True)
class Outputs:
    """The options of ``find`` that say what to show and to write."""

    format: str | None = None
    output: Path | None = None
    plot: Path | None = None
    references: Path | None = None
    cut: bool = False
    questions: int | None = None
    strip: bool = False
    marks: Marks | None = None


def find_and_show(search: Search, outputs: Outputs) -> None:
    """Find, then write the files, the clips and the report, and show the table."""
    from dejacue.files.histories import file_name
    from dejacue.finding._find import check_same_video
    from dejacue.finding.finding import export_findings
    from dejacue.report._timeline import scores_of
    from dejacue.report.exports import all_notes, as_csv, as_json, labels_csv

    source = Path(str(search.request.video))
    if outputs.plot is not None and outputs.plot.suffix.lower() != ".png":
        remedy = "give a name that ends in .png"
        raise InputError(f"{outputs.plot}: the plot is written as PNG; {remedy}")
    references = {
        reference.history_id: reference for reference in _references(outputs.references, search)
    }
    folder, file = _places(outputs, search.saved is not None)
    _check(file, folder if search.saved is not None else None, outputs, search)
    findings: Sequence[Finding]
    if search.saved is not None:
        findings = search.findings()
        if outputs.cut and findings[0].provenance.video is None:
            raise InputError(f"{source}: is a history; --cut needs the video")
    else:
        folder = folder or _default_folder(source, file_name(search.job.open().name))
        check_same_video(folder, source)
        if file is None:
            check_folder(folder)
        findings = _findings_of_video(search, folder, file)
    if search.marking:
        place = folder or (file.parent if file is not None else None)
        place = place or (source if source.is_dir() else source.parent)
        findings = _with_marks(findings, search, outputs, place)
        if any(finding.timeline is None for finding in findings):  # nothing is marked yet
            for finding in findings:
                notes(*finding.warnings)
            raise typer.Exit(NO_ANSWER if any(f.meaningless for f in findings) else 0)
    tables: list[Table] = []
    comparisons = []
    for finding in findings:
        name = file_name(finding.history.id) if len(findings) > 1 else ""
        truth = references.get(finding.history.id)
        if len(references) == 1:  # a file of a single history serves any
            (truth,) = references.values()
        if outputs.plot is not None:
            plot = outputs.plot.with_stem(f"{outputs.plot.stem}-{name}") if name else outputs.plot
            say_written(finding.plot(plot, references=truth), "plot")
        place = None if file is not None or folder is None else folder / name
        if place is not None:
            write_folder(place, finding, truth)
        if outputs.cut:
            clips = place or (source if source.is_dir() else source.parent)
            for clip in finding.cut(clips / "clips"):
                say_written(clip, "clip")
        if place is not None:
            say_written(place / "report.html", "report")
        tables.append(timeline_table(finding.timeline, truth))
        if (scores := scores_of(finding.timeline, truth)) is not None:
            comparisons.append(f"{finding.history.id}: {scores.sentence}")
        if any(interval.diagnostics for interval in finding):
            tables.append(diagnostics_table(finding.timeline))
    timelines = [finding.timeline for finding in findings]
    sentences = all_notes(timelines)
    if file is not None and (export := _export_for(file, outputs.format)) is not None:
        export_findings(findings, export, file)
        say_written(file)
    else:
        histories = [finding.history for finding in findings]
        labels = outputs.format == FoundFormat.labels
        show(
            "csv" if labels else outputs.format,
            file,
            lambda: tables,
            lambda: as_json(*timelines),
            lambda: labels_csv(timelines, histories) if labels else as_csv(*timelines),
            "\n".join([*comparisons, *map(as_note, sentences)]),
        )
    if file is not None or outputs.format not in (None, "table"):  # else they stand below the table
        notes(*sentences)
    if outputs.questions is not None:
        _show_questions([f for f in findings if f.meaningless is None], outputs.questions)
    if any(finding.meaningless for finding in findings):
        raise typer.Exit(NO_ANSWER)


def _references(path: Path | None, search: Search) -> list[Reference]:
    """Read the references; those of another tool may count the seconds of the video or history."""
    from dejacue.files.formats.registry import format_in

    if path is None:
        return []
    format, source = format_in(path), Path(str(search.request.video))
    has_times = search.saved is None or source.suffix.lower() == ".npz"
    times = source if format is not None and format.timed and has_times else None
    return dejacue.files.read_references(path, times=times)


def _marks(texts: Sequence[str]) -> Marks:
    """Return marks, pictures counted from 0, of texts such as full=3-6 or empty=8-9,12."""
    form = "STATE=PICTURES, counted from 1, as in full=3-6 or empty=8-9,12"
    marks: Marks = {}
    for state, text in o.pairs(texts, "mark", form):
        for part in text.split(","):
            span = re.fullmatch(r"\s*(\d{1,4})\s*(?:-\s*(\d{1,4})\s*)?", part)
            if span is None or int(span[1]) < 1:
                raise InputError(f'mark "{state}={text}": give {form}')
            first, last = int(span[1]) - 1, int(span[2] or span[1]) - 1
            marks.setdefault(state, []).append((first, last))
    return marks


def _with_marks(
    findings: Sequence[Finding], search: Search, outputs: Outputs, place: Path
) -> list[Finding]:
    """Write the strip of each finding, and return the findings with what was marked on them."""
    from dejacue.atomic import write_bytes
    from dejacue.files.histories import file_name
    from dejacue.report.contact_sheet import strip_sheet

    if len(findings) > 1 and outputs.marks is not None:
        names = ", ".join(finding.history.id for finding in findings)
        problem = f"marks are of one strip, but there are several objects ({names})"
        raise InputError(f"{problem}; choose one with --object")
    answers = []
    for finding in findings:
        of = f"-{file_name(finding.history.id)}" if len(findings) > 1 else ""

        def written(strip: Strip, of: str = of) -> Strip:
            kind = "strip" if strip.border is None else "border"  # --mark is of the strip
            say_written(write_bytes(place / f"{kind}{of}.png", strip_sheet(strip)), kind)
            if strip.missing is not None:
                notes(strip.missing)
            return strip

        strip = finding.strip()
        if outputs.marks is not None:
            finding = search.marked(finding, strip, outputs.marks)
            strip = finding.strip()  # with what is believed now
        if outputs.strip and finding.meaningless is None:
            written(strip)
        asking = finding.meaningless is None and outputs.marks is None
        if asking and is_interactive():
            while (marked := _asked(search, finding, strip)) is not None:
                finding = marked
                if not finding.borders():
                    break
                strip = written(finding.strip(8, border=finding.borders()[0]))
        elif asking:
            examples = ["open=3-6", "closed=8-12"]
            if finding.vocabulary is not None:
                examples = [f"{next(iter(finding.vocabulary.states))}=3-6"]
            form = " ".join(f"--mark {shlex.quote(text)}" for text in examples)
            say(f"mark its pictures: give the same command with {form}", stderr=True)
        answers.append(finding)
    return answers


def is_interactive() -> bool:
    """Return whether there is somebody to ask."""
    return sys.stdin is not None and sys.stdin.isatty()


def _asked(search: Search, finding: Finding, strip: Strip) -> Finding | None:
    """Return the finding with the marks that are given at the prompt; None for an empty line."""
    states = "each state"
    if finding.vocabulary is not None:
        states = ", ".join(map(shlex.quote, finding.vocabulary.states))
    where = "" if strip.border is None else f" ({strip.border.side} of {strip.border.state})"
    question = f"which pictures{where} show {states}? (full=3-6 empty=8-9; Enter: no more)"
    while True:
        try:
            line = typer.prompt(question, default="", show_default=False, err=True)
        except (typer.Abort, EOFError):
            return None
        if not line.strip():
            return None
        try:
            return search.marked(finding, strip, _marks(shlex.split(line)))
        except (InputError, ValueError) as error:  # the latter: a quote that does not end
            say(str(error), stderr=True)


def _show_questions(findings: Sequence[Finding], count: int) -> None:
    """Print the frames whose state is worth naming next, and how to name it."""
    for finding in findings:
        for question in finding.next_question(count):
            at = question.frame if question.source is None else question.source
            when = "" if question.time_s is None else f" ({question.time_s:.2f} s)"
            asked = f"question: which state is frame {at}{when}? {question.likely}"
            say(f"{asked}; answer with --example STATE={at}", stderr=True)


def _findings_of_video(search: Search, folder: Path, file: Path | None) -> Sequence[Finding]:
    """Return the findings of a video; say where histories are if only a file is written."""
    from dejacue.cli.video import summarise_tracking
    from dejacue.files.findings import history_path
    from dejacue.finding.by_name import read_search
    from dejacue.finding.where import ByName
    from dejacue.models.trackers import read_notes

    with Bars() as bars:
        request = replace(search.request, folder=folder, progress=bars)
        findings = replace(search, request=request, pictures=file is None).findings()
    if search.job.locates and (tracked := read_notes(folder / "masks")):
        summarise_tracking(tracked, stderr=True)
        if isinstance(search.job.where, ByName) and (objects := read_search(folder / "masks")):
            console(stderr=True).print(objects_table(objects, tracked.seen_groups))
    for finding in findings if file else ():
        say_written(history_path(folder, finding.history.id), "history")
    return findings


def _default_folder(source: Path, name: str) -> Path:
    """Return out/NAME or, where that holds the finding of another video, a name of its own."""
    from dejacue.finding._find import replaced_video

    folder = Path("out") / name
    if replaced_video(folder, source) is None:
        return folder
    key = hashlib.sha256(os.path.abspath(source).encode()).hexdigest()[:6]
    return folder.with_name(f"{name}-{key}")


def _check(file: Path | None, folder: Path | None, outputs: Outputs, search: Search) -> None:
    """Refuse, before the work, outputs that cannot be written or that are read here."""
    from dejacue.files.findings import DOCUMENT, holds_finding
    from dejacue.method.plan import DEFAULT_READOUT, as_readout
    from dejacue.method.strips import marked_states

    if outputs.questions is not None and outputs.questions < 1:
        raise InputError(f"--questions {outputs.questions}: give a number of frames, 1 or more")
    readout = as_readout(search.reading.get("readout", DEFAULT_READOUT))
    if outputs.questions is not None and not readout.takes_examples:
        problem = "--questions works only with the readouts timeline and contrast"
        raise InputError(f"{problem}, which use the answers")
    if search.saved is None and not (search.request.states or search.examples or search.marking):
        search.job.open()  # refuses a path that is none
        remedy = "give a vocabulary (-v), --example or --like, or see a --strip to mark"
        raise InputError(f"no states are named; {remedy}")
    if outputs.marks is not None and search.unnamed:
        marked_states(outputs.marks)
    if search.marking and not readout.takes_examples:
        problem = "a strip works only with the readouts timeline and contrast"
        raise InputError(f"{problem}, which use the marks")
    request = search.request
    inputs = [request.video, request.states, search.job.masks, outputs.references]
    for place in filter(None, (file, outputs.plot)):
        check_place(place)
        document = place.name == DOCUMENT and holds_finding(place.parent)
        o.check_not_read(place, *inputs, place if document else None)
    if folder is not None:
        check_folder(folder)


def _places(outputs: Outputs, saved: bool) -> tuple[Path | None, Path | None]:
    """Return a folder for the report, or one file; of a saved history, an existing file stays."""
    from dejacue.files.findings import holds_finding

    output = outputs.output
    if output is None or holds_finding(output) or (os.path.isdir(output) and not saved):
        return output, None
    if not output.suffix and not (saved and os.path.isfile(output)):
        return output, None
    _export_for(output, outputs.format)  # refused before the work
    return None, output


def _export_for(file: Path, format: str | None) -> Export | None:
    """Return the export of a file's suffix; None: --format says which, or it is the table."""
    from dejacue.report.exports import EXPORTS, export_for

    if file.suffix.lower() in ("", TABLE):
        return None
    try:
        export = export_for(file)
    except InputError as error:
        if format is not None:
            return None
        error.args = (f"{error}, {TABLE} (the table), or a folder",)
        raise
    if format is not None and export is not EXPORTS.get(format):
        problem = f"the suffix does not match --format {format}"
        raise InputError(f"{file}: {problem}; leave one of them out")
    return export


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to, or that holds a report or timeline which nothing
    shows to be ours: neither a finding nor the mark of our report lies beside it."""
    from dejacue.files.findings import holds_finding

    check_place(folder, folder=True)
    report = folder / "report.html"
    if holds_finding(folder):
        return
    if report.is_file():
        with open(report, "rb") as stream:
            if REPORT_MARK in stream.read(MAX_HEAD_BYTES):
                return
    for path in (report, *(folder / f"timeline.{kind}" for kind in KINDS_IN_FOLDER)):
        if os.path.lexists(path):
            problem = "was not written by dejacue"
            if path != report:
                problem = "lies in a folder that has no finding of dejacue"
            problem += ", so it is not replaced"
            raise InputError(f"{path}: {problem}; give another folder")


def write_folder(folder: Path, finding: Finding, references: Reference | None) -> None:
    """Write the report, the finding and the timeline for programs and players."""
    from dejacue.report.clips import remove_clips

    check_folder(folder)
    finding.report(folder / "report.html", references=references)
    finding.write(folder)
    remove_clips(folder / "clips")  # of an earlier run
    for kind in KINDS_IN_FOLDER:
        path = folder / f"timeline.{kind}"
        path.unlink(missing_ok=True)
        if kind != "vtt" or finding.history.times_s is not None:
            try:
                finding.export(kind, path)
            except DejaCueError as error:
                notes(f"no .{kind}: {error}")
