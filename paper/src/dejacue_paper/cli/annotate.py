"""``dejacue annotate``: write passes of annotators, their consensus, and its events."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

import dejacue
from dejacue.cli import options as o
from dejacue.cli.convert import check_suffix
from dejacue.cli.tables import make_table, note, say, show_tables, span
from dejacue.errors import DejaCueError, InputError, counted, in_file, named

if TYPE_CHECKING:
    from dejacue.records import Reference, Window
    from dejacue_paper.data.annotation import Event, Pass

annotate = typer.Typer(
    help="Annotate a history: two independent passes, their consensus and its events.",
    no_args_is_help=True,
)
Force = Annotated[bool, o.option("Replace an existing output.", "--force")]


@annotate.command()
def start(
    annotator: Annotated[str, o.option("Name of the annotator.", "--annotator", "-a")],
    output: Annotated[Path, o.output("The pass, as JSON.")],
    history: Annotated[
        Path | None, typer.Argument(help="History of the object (.npz), which defines the frames.")
    ] = None,
    marks: Annotated[
        Path | None,
        o.option("Annotations to start from: .eaf, .cvat.xml, .csv, .json …", "--from"),
    ] = None,
    frames: Annotated[
        str | None, o.option("FIRST:LAST, both included, instead of a history file.")
    ] = None,
    id: Annotated[str | None, o.option("Name of the history.")] = None,
    states: Annotated[
        str | None,
        o.option(
            "States to label, as in empty,full (default: pre, transition, post; with --from, the "
            "labels in the file)."
        ),
    ] = None,
    rest: Annotated[
        str | None,
        o.option(
            "With --from: label for unmarked frames (default: none; with pre and post, left open)."
        ),
    ] = None,
    times: o.Times = None,
    force: Force = False,
) -> None:
    """Write a pass: blank, to fill in, or from annotations in ELAN, CVAT, Label Studio, CSV …

    It goes from the first to the last observed frame.
    """
    from dejacue_paper.data import annotation

    if marks is None and (rest is not None or times):
        raise InputError("--rest and --times are for annotations of another tool; also give --from")
    check_output(output, force, history, marks)
    names = None if states is None else [state.strip() for state in states.split(",")]
    blank = _blank(history, annotator, frames, id, names)
    if marks is not None:
        _import(marks, history, blank, names, output, rest, times)
        return
    annotation.write_pass(output, blank)
    say(
        f"{output}: {blank.frames.length} frames of {blank.history} for {blank.annotator}; split "
        f"the runs where the state changes and replace every null with one of "
        f"{', '.join(blank.known)}"
    )


def _blank(
    history: Path | None,
    annotator: str,
    frames: str | None,
    id: str | None,
    states: Sequence[str] | None,
) -> Pass:
    """Return a pass without labels, for a history file or for the frames FIRST:LAST."""
    from dejacue_paper.data import annotation

    if (history is None) == (frames is None):
        raise InputError("give either a history file or --frames FIRST:LAST")
    if history is not None:
        observed = dejacue.files.read_history(history)
        with in_file(history):
            name = id or observed.id
            return annotation.template(name, annotation.seen(observed), annotator, states)
    window = _frames(frames or "")
    if not id:
        raise InputError("--frames also needs the name of the history; give it with --id")
    return annotation.template(id, range(window.start, window.end + 1), annotator, states)


def _frames(text: str) -> Window:
    from dejacue_paper.data.annotation import MAX_FRAMES

    match = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text.strip())
    if not match:
        raise InputError(f'"{text}" is not FIRST:LAST; give two frames, as in --frames 0:299')
    with named(f"--frames {text}"):
        window = dejacue.method.Window(int(match[1]), int(match[2]))
        if window.length > MAX_FRAMES:  # before they are counted out
            raise InputError(f"a pass has at most {MAX_FRAMES} frames")
    return window


def _import(
    marks: Path,
    history: Path | None,
    blank: Pass,
    states: Sequence[str] | None,
    output: Path,
    rest: str | None,
    times: list[Path] | None,
) -> None:
    """Write a pass from a file of another tool."""
    from dejacue_paper.data import annotation

    timed = history is not None and dejacue.files.read_history(history).times_s is not None
    references = dejacue.files.read_references(
        marks,
        times=times or ([history] if history is not None and timed else None),
        states=None if states is None else annotation.labels_of(states),
        history=blank.history,
    )
    labels = next((r.states for r in references if r.history_id == blank.history), None)
    if labels is None:
        names = ", ".join(reference.history_id for reference in references)
        problem = f'has no marks for "{blank.history}", only for {names}'
        raise InputError(f"{marks}: {problem}; choose one of them with --id")
    with in_file(marks):
        if states is None:
            blank = replace(blank, states=annotation.states_in(labels))
        filled, outside = annotation.filled(blank, labels, rest)
    annotation.write_pass(output, filled)
    used = ", ".join(dict.fromkeys(filter(None, filled.labels)))
    say(
        f"{output}: the pass of {filled.annotator} over {filled.frames.length} frames of "
        f"{filled.history}; labels: {used}"
    )
    if outside:
        note(
            f"{counted(outside, 'marked frame')} left out, outside the frames {filled.frames} of "
            "the history"
        )
    if None in filled.labels:
        note(
            f"{counted(filled.labels.count(None), 'frame')} not labelled yet; mark them, or set "
            "their label with --rest"
        )


@annotate.command("export")
def export_pass(
    path: Annotated[Path, typer.Argument(metavar="PASS", help="A pass or consensus, as JSON.")],
    output: Annotated[
        Path, typer.Argument(metavar="OUT", help="Output file; its suffix sets the format.")
    ],
    times: o.Times = None,
    force: Force = False,
) -> None:
    """Export a pass for another tool, as spans of each label."""
    from dejacue_paper.data import annotation

    check_suffix(output)
    check_output(output, force, path)
    pass_ = annotation.read_pass(path, complete=False)
    with in_file(path):
        marks = annotation.marks_of(pass_)
    written = dejacue.files.write_references(output, [marks], times=times)
    say(f"{written}: the pass of {pass_.annotator} over {pass_.history}")
    if None in pass_.labels:
        note(f"{counted(pass_.labels.count(None), 'frame')} without a label left unmarked")


@annotate.command()
def consensus(
    first: Annotated[Path, typer.Argument(help="The pass of one annotator.")],
    second: Annotated[Path, typer.Argument(help="The pass of the other annotator.")],
    output: Annotated[Path, o.output("The consensus, or the disagreements to decide first.")],
    decisions: Annotated[
        Path | None, o.option("The decisions file, filled in.", "--decisions", "-d")
    ] = None,
    force: Force = False,
) -> None:
    """Compare two passes; write their disagreements or, with decisions, the consensus."""
    from dejacue_paper.data import annotation

    check_output(output, force, first, second, decisions)
    a, b = annotation.read_pass(first), annotation.read_pass(second)
    with named(f"{first} and {second}"):
        to_decide = annotation.open_decisions(a, b)
    if to_decide.rows and decisions is None:
        annotation.write_decisions(output, to_decide)
        done = (
            f"{output}: runs to decide: {len(to_decide.rows)}; replace every null, splitting runs "
            f"where needed, then run again with --decisions {output} and another output"
        )
    else:
        decided = annotation.read_decisions(decisions) if decisions else None
        with in_file(decisions or output):
            agreed = annotation.consensus(a, b, decided)
        annotation.write_pass(output, agreed)
        done = (
            f"{output}: the consensus on {agreed.history};"
            if to_decide.rows
            else f"the passes agree on every frame; {output} is the consensus,"
        )
        done += f" continue with: dejacue annotate events {output}"
    show_tables(_agreement_table(a, b))
    if to_decide.rows:
        rows = [(span(row.window), row.first, row.second) for row in to_decide.rows]
        show_tables(make_table("disagreements", (">frames", a.annotator, b.annotator), rows))
    say(done)


@annotate.command()
def events(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="A consensus (or one pass) for each history.",
            show_default=False,
        ),
    ],
    output: Annotated[Path | None, o.output("Write the references to this file.")] = None,
    pre: Annotated[str, o.option("State before the event, as named in the vocabulary.")] = "pre",
    post: Annotated[str, o.option("State after the event, as named in the vocabulary.")] = "post",
    component: Annotated[
        str | None, o.option("Source (video) that all files come from (default: each its own).")
    ] = None,
    minimum: Annotated[int, o.option("Minimum number of frames of a stable side.")] = 5,
    skip: Annotated[bool, o.option("Skip files without an event.", "--skip")] = False,
    force: Force = False,
) -> None:
    """List the qualifying events; the earliest of each history gives the references."""
    from dejacue_paper.data import annotation

    check_output(output, force, *files)
    passes = _passes(files)
    if any(pass_.states is not None for pass_ in passes.values()):
        _stable(passes, output, minimum, component, (pre, post) != ("pre", "post"))
        return
    by_file: dict[Path, list[Event]] = {}
    misses = []
    for path, pass_ in passes.items():
        with in_file(path):
            qualifying = annotation.events(pass_, minimum)
        if qualifying:
            by_file[path] = qualifying
        else:
            why = annotation.nearest_miss(pass_, minimum)
            misses.append(f"{path}: no event qualifies: {why}")
    if misses and not (skip and by_file):
        _refuse(misses, len(files), can_skip=bool(by_file))
    references = [
        annotation.reference(passes[path], qualifying[0], pre, post, component)
        for path, qualifying in by_file.items()
    ]
    if output is not None:
        dejacue.files.write_references(output, references)
    rows = []
    for path, qualifying in by_file.items():
        for number, event in enumerate(qualifying, 1):
            spans = span(event.pre), span(event.transition), span(event.post)
            remark = "earliest" if number == 1 else ""
            rows.append((passes[path].history, str(number), *spans, remark))
    columns = ("history", ">event", ">pre", ">transition", ">post", "")
    show_tables(make_table("qualifying events", columns, rows))
    for path, qualifying in by_file.items():
        _note_single_pass(path, passes[path])
        others = annotation.other_runs(passes[path], qualifying[0], minimum)
        for side, windows in others.items():
            if windows:
                state = {"pre": pre, "post": post}[side]
                note(
                    f"{path}: {state} also holds in {', '.join(map(str, windows))}: "
                    "not in the references (only the earliest event counts)"
                )
    for miss in misses:
        note(f"left out: {miss}")
    _say_references(output, references, f"states {pre} and {post}" if output else "")


def _stable(
    passes: Mapping[Path, Pass],
    output: Path | None,
    minimum: int,
    component: str | None,
    renamed: bool,
) -> None:
    """Make a reference of every stable run of passes that name their states."""
    from dejacue_paper.data import annotation

    if renamed or any(pass_.states is None for pass_ in passes.values()):
        problem = "--pre and --post, and passes of pre and post, cannot be combined with passes"
        raise InputError(f"{problem} that name their states; give those alone")
    references, rows = [], []
    for path, pass_ in passes.items():
        with in_file(path):
            references.append(annotation.stable_reference(pass_, minimum, component))
            for change in annotation.changes(pass_, minimum):
                between = "" if change.between is None else span(change.between)
                before, after = span(change.before), span(change.after)
                cells = (change.first, before, between, change.second, after)
                rows.append((pass_.history, *cells))
    if output is not None:
        dejacue.files.write_references(output, references)
    columns = ("history", ">from", ">frames", ">between", ">to", ">frames")
    show_tables(make_table("changes of state", columns, rows))
    for path, pass_ in passes.items():
        _note_single_pass(path, pass_)
    _say_references(output, references, f"with every run of a state of {minimum} frames or more")


def _note_single_pass(path: Path, pass_: Pass) -> None:
    from dejacue_paper.data.annotation import CONSENSUS

    if pass_.annotator != CONSENSUS:
        note(f"{path}: is the pass of {pass_.annotator} only, not a consensus")


def _say_references(output: Path | None, references: Sequence[Reference], which: str) -> None:
    """Print where the references are, or how to write them."""
    done = "nothing was written; -o truth.json writes" if output is None else f"{output}:"
    what = references[0].history_id if len(references) == 1 else f"{len(references)} histories"
    say(", ".join(filter(None, (f"{done} the references of {what}", which))))


def _passes(files: list[Path]) -> dict[Path, Pass]:
    """Read the pass in each file; two of the same history are refused."""
    from dejacue_paper.data.annotation import read_pass

    passes: dict[Path, Pass] = {}
    file_of: dict[str, Path] = {}
    for path in files:
        passes[path] = read_pass(path)
        history = passes[path].history
        if history in file_of:
            problem = f"{file_of[history]} and {path}: both belong to history {history}"
            raise InputError(f"{problem}; give each history once")
        file_of[history] = path
    return passes


def _refuse(misses: list[str], files: int, can_skip: bool) -> None:
    """Raise an error that is no InputError: nothing is wrong with the files."""
    if files == 1:
        raise DejaCueError(misses[0])
    for miss in misses:
        say(miss, stderr=True)
    problem = f"no qualifying event in {len(misses)} of {files} files; nothing was written"
    raise DejaCueError(f"{problem}; --skip leaves them out" if can_skip else problem)


def check_output(output: Path | None, force: bool, *inputs: Path | None) -> None:
    """Refuse to write over an input, or over what people have filled in by hand."""
    o.check_not_read(output, *inputs)
    if output is not None and os.path.exists(output) and not force:
        remedy = "give another name, or --force to replace it"
        raise InputError(f"{output}: already exists; {remedy}")


def _agreement_table(a: Pass, b: Pass) -> Table:
    from dejacue_paper.data.annotation import observed

    return make_table(
        f"{a.history}: {a.annotator} and {b.annotator}",
        ("", ">frames", ">agreed", ">exact rate", ">by chance", ">Cohen's κ"),
        [
            ("all frames", *_agreement_cells(a.labels, b.labels)),
            ("observed frames", *_agreement_cells(*observed(a, b))),
        ],
    )


def _agreement_cells(first: Sequence[str | None], second: Sequence[str | None]) -> list[str]:
    from dejacue_paper.evaluation.agreement import cohen_kappa

    if not first:
        return ["0", "0", "–", "–", "–"]
    agreement = cohen_kappa(first, second)
    kappa = f"{agreement.kappa:.3f}" if agreement.chance < 1 else "–"  # one label throughout: 0/0
    shares = f"{agreement.observed:.3f}", f"{agreement.chance:.3f}"
    return [str(agreement.frames), str(agreement.agreed), *shares, kappa]
