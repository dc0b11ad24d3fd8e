"""``dejacue annotate``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from dejacue.cli.data import check_ending
from dejacue.cli.tables import note, say, show_tables
from dejacue.data import annotation
from dejacue.data import annotation_files as passes
from dejacue.data.annotation import Event
from dejacue.data.annotation_files import Disagreement, Pass, filled, marks_of, states_in
from dejacue.errors import DejaCueError, InputError, counted
from dejacue.evaluation.agreement import cohen_kappa
from dejacue.records import Reference, Window
from dejacue.sources.atomic import resolved
from dejacue.sources.documents import named
from dejacue.sources.files import read_history
from dejacue.sources.results import read_references, write_references


def template(
    history: Path | None,
    annotator: str,
    output: Path,
    frames: str | None = None,
    id: str | None = None,
    force: bool = False,
    states: str | None = None,
) -> None:
    """A pass to fill in, for a history file or, without one, for the frames FIRST:LAST."""
    check_output(output, force, history)
    named_states = None if states is None else states_of(states)
    made = blank(history, annotator, frames, id, named_states)
    passes.write_pass(output, made)
    say(
        f"{output}: {made.frames.length} frames of {made.history} for {made.annotator}; split the "
        f"runs where the state changes and replace every null with one of {', '.join(made.known)}"
    )


def blank(
    history: Path | None,
    annotator: str,
    frames: str | None,
    id: str | None,
    states: Sequence[str] | None,
) -> Pass:
    """A pass without labels."""
    if (history is None) == (frames is None):
        raise InputError("give either a history file or --frames FIRST:LAST")
    if history is not None:
        found = read_history(history)
        with named(str(history)):
            return annotation.template(id or found.id, annotation.seen(found), annotator, states)
    window = _frames(frames or "")
    if not id:
        raise InputError("--frames also needs the name of the history; give it with --id")
    return annotation.template(id, range(window.start, window.end + 1), annotator, states)


def states_of(text: str) -> list[str]:
    return [state.strip() for state in text.split(",")]


def _frames(text: str) -> Window:
    found = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text.strip())
    if not found:
        raise InputError(f'"{text}" is not FIRST:LAST; give two frames, as in --frames 0:299')
    with named(f"--frames {text}"):
        window = Window(int(found[1]), int(found[2]))
        if window.length > passes.MOST_FRAMES:  # before they are counted out
            raise InputError(f"a pass has at most {passes.MOST_FRAMES} frames")
    return window


def consensus(
    first: Path, second: Path, decisions: Path | None, output: Path, force: bool = False
) -> None:
    """Agreement of two passes; writes what is to be decided or, once it is, the consensus."""
    check_output(output, force, first, second, decisions)
    a, b = passes.read_pass(first), passes.read_pass(second)
    with named(f"{first} and {second}"):
        to_decide = annotation.open_decisions(a, b)
    if to_decide.rows and decisions is None:
        passes.write_decisions(output, to_decide)
        done = (
            f"{output}: runs to decide: {len(to_decide.rows)}; replace every null, splitting runs "
            f"where needed, then run again with --decisions {output} and another output"
        )
    else:
        decided = passes.read_decisions(decisions) if decisions else None
        with named(str(decisions)):
            agreed = annotation.consensus(a, b, decided)
        passes.write_pass(output, agreed)
        done = (
            f"{output}: the consensus on {agreed.history};"
            if to_decide.rows
            else f"the passes agree on every frame; {output} is the consensus,"
        )
        done += f" continue with: dejacue annotate events {output}"
    show_tables(_agreement_table(a, b))
    if to_decide.rows:
        show_tables(_disagreement_table(a, b, to_decide.rows))
    say(done)


def events(
    files: list[Path],
    output: Path | None = None,
    minimum: int = annotation.MINIMUM,
    pre: str = "pre",
    post: str = "post",
    component: str | None = None,
    force: bool = False,
    skip: bool = False,
) -> None:
    """The qualifying events of each consensus; the earliest one of each gives the references."""
    check_output(output, force, *files)
    given = _histories(files)
    if any(pass_.states is not None for pass_ in given.values()):
        _stable(given, output, minimum, component, (pre, post) != ("pre", "post"))
        return
    found: dict[Path, list[Event]] = {}
    misses = []
    for path, pass_ in given.items():
        with named(str(path)):
            qualifying = annotation.events(pass_, minimum)
        if qualifying:
            found[path] = qualifying
        else:
            why = annotation.nearest_miss(pass_, minimum)
            misses.append(f"{path}: no event qualifies: {why}")
    if misses and not (skip and found):
        _refuse(misses, len(files), can_skip=bool(found))
    references = [
        annotation.reference(given[path], own[0], pre, post, component)
        for path, own in found.items()
    ]
    if output is not None:
        write_references(output, references)
    show_tables(_event_table({given[path].history: own for path, own in found.items()}))
    for path, own in found.items():
        _say_notes(path, given[path], own[0], minimum, {"pre": pre, "post": post})
    for miss in misses:
        note(f"left out: {miss}")
    what = references[0].history_id if len(references) == 1 else f"{len(references)} histories"
    if output is not None:
        say(f"{output}: the references of {what}, states {pre} and {post}")
    else:
        say(f"nothing was written; -o truth.json writes the references of {what}")


def _stable(
    given: Mapping[Path, Pass],
    output: Path | None,
    minimum: int,
    component: str | None,
    renamed: bool,
) -> None:
    """Of passes that name their states every stable run is a reference."""
    if renamed or any(pass_.states is None for pass_ in given.values()):
        raise InputError(
            "--pre and --post, and passes of pre and post, cannot be combined with passes that "
            "name their states; give those alone"
        )
    references, rows = [], []
    for path, pass_ in given.items():
        with named(str(path)):
            references.append(annotation.stable_reference(pass_, minimum, component))
            rows += [(pass_.history, own) for own in annotation.changes(pass_, minimum)]
    if output is not None:
        write_references(output, references)
    show_tables(_change_table(rows))
    for path, pass_ in given.items():
        if pass_.annotator != passes.CONSENSUS:
            note(f"{path}: is the pass of {pass_.annotator} only, not a consensus")
    what = references[0].history_id if len(references) == 1 else f"{len(references)} histories"
    done = "nothing was written; -o truth.json writes" if output is None else f"{output}:"
    say(f"{done} the references of {what}, with every run of a state of {minimum} frames or more")


def _change_table(rows: Iterable[tuple[str, annotation.Change]]) -> Table:
    table = Table(title="changes of state", title_justify="left")
    table.add_column("history", overflow="fold")
    for column in ("from", "frames", "between", "to", "frames"):
        table.add_column(column, justify="right", no_wrap=True)
    for history, own in rows:
        between = "" if own.between is None else _span(own.between)
        cells = (own.first, _span(own.before), between, own.second, _span(own.after))
        table.add_row(escape(history), *map(escape, cells))
    return table


def _histories(files: list[Path]) -> dict[Path, Pass]:
    """The pass in each file, every one of another history."""
    given: dict[Path, Pass] = {}
    of: dict[str, Path] = {}
    for path in files:
        given[path] = passes.read_pass(path)
        history = given[path].history
        if history in of:
            raise InputError(
                f"{of[history]} and {path}: both belong to history {history}; give each history "
                "once"
            )
        of[history] = path
    return given


def _refuse(misses: list[str], files: int, can_skip: bool) -> None:
    """Nothing is wrong with the files, so this is no InputError."""
    if files == 1:
        raise DejaCueError(misses[0])
    for miss in misses:
        say(miss, stderr=True)
    hint = "; --skip leaves them out" if can_skip else ""
    raise DejaCueError(
        f"no qualifying event in {len(misses)} of {files} files; nothing was written{hint}"
    )


def _say_notes(
    path: Path, pass_: Pass, event: Event, minimum: int, states: Mapping[str, str]
) -> None:
    if pass_.annotator != passes.CONSENSUS:
        note(f"{path}: is the pass of {pass_.annotator} only, not a consensus")
    for side, windows in annotation.other_runs(pass_, event, minimum).items():
        if windows:
            note(
                f"{path}: {states[side]} also holds in {', '.join(map(str, windows))}: "
                "not in the references (only the earliest event counts)"
            )


def check_output(output: Path | None, force: bool, *inputs: Path | None) -> None:
    """What people have filled in by hand is not written over by accident."""
    if output is None:
        return
    for path in inputs:
        if path is not None and resolved(path) == resolved(output):
            raise InputError(f"{output}: is read by this command; give another output")
    if output.exists() and not force:
        raise InputError(f"{output}: already exists; give another name, or --force to replace it")


def _agreement_table(a: Pass, b: Pass) -> Table:
    title = escape(f"{a.history}: {a.annotator} and {b.annotator}")
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for column in ("frames", "agreed", "exact rate", "by chance", "Cohen's κ"):
        table.add_column(column, justify="right")
    table.add_row("all frames", *_agreement_cells(a.labels, b.labels))
    table.add_row("observed frames", *_agreement_cells(*annotation.observed(a, b)))
    return table


def _agreement_cells(first: Sequence[str | None], second: Sequence[str | None]) -> list[str]:
    if not first:
        return ["0", "0", "–", "–", "–"]
    found = cohen_kappa(first, second)
    kappa = f"{found.kappa:.3f}" if found.chance < 1 else "–"  # one label throughout: 0/0
    return [
        str(found.frames),
        str(found.agreed),
        f"{found.observed:.3f}",
        f"{found.chance:.3f}",
        kappa,
    ]


def _disagreement_table(a: Pass, b: Pass, rows: Iterable[Disagreement]) -> Table:
    table = Table(title="disagreements", title_justify="left")
    table.add_column("frames", justify="right", no_wrap=True)
    for annotator in (a.annotator, b.annotator):
        table.add_column(escape(annotator))
    for row in rows:
        table.add_row(_span(row.window), row.first, row.second)
    return table


def _event_table(found: Mapping[str, Iterable[Event]]) -> Table:
    table = Table(title="qualifying events", title_justify="left")
    table.add_column("history", overflow="fold")
    for column in ("event", "pre", "transition", "post"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("")
    for history, own in found.items():
        for number, event in enumerate(own, 1):
            spans = (_span(window) for window in (event.pre, event.transition, event.post))
            table.add_row(escape(history), str(number), *spans, "earliest" if number == 1 else "")
    return table


def _span(window: Window) -> str:
    return f"{window.start} – {window.end}"


def take(
    given: Path,
    history: Path | None,
    annotator: str,
    output: Path,
    frames: str | None,
    id: str | None,
    states: str | None,
    rest: str | None,
    times: list[Path] | None,
    force: bool,
) -> None:
    """A pass from a file of another tool."""
    check_output(output, force, given, history)
    wanted = None if states is None else states_of(states)
    known = None if wanted is None else passes.labels_of(wanted)
    empty = blank(history, annotator, frames, id, wanted)
    clock = times or ([history] if history is not None and _is_timed(history) else None)
    found = read_references(given, times=clock, states=known, history=empty.history)
    marked = _of(given, empty.history, found).states
    with named(str(given)):
        if wanted is None:
            empty = replace(empty, states=states_in(marked))
        made, outside = filled(empty, marked, rest)
    passes.write_pass(output, made)
    labels = ", ".join(dict.fromkeys(filter(None, made.labels)))
    say(
        f"{output}: the pass of {made.annotator} over {made.frames.length} frames of "
        f"{made.history}; labels: {labels}"
    )
    if outside:
        note(
            f"{counted(outside, 'marked frame')} left out, outside the frames {made.frames} of "
            "the history"
        )
    if None in made.labels:
        note(
            f"{counted(made.labels.count(None), 'frame')} not labelled yet; mark them, or set "
            "their label with --rest"
        )


def _is_timed(history: Path) -> bool:
    return read_history(history).times_s is not None


def _of(path: Path, history: str, found: list[Reference]) -> Reference:
    own = next((one for one in found if one.history_id == history), None)
    if own is None:
        names = ", ".join(one.history_id for one in found)
        raise InputError(
            f'{path}: has no marks for "{history}", only for {names}; choose one of them with --id'
        )
    return own


def give(given: Path, output: Path, times: list[Path] | None, force: bool) -> None:
    """A pass as a file of another tool."""
    check_ending(output)
    check_output(output, force, given)
    own = passes.read_pass(given, complete=False)
    with named(str(given)):
        marks = marks_of(own)
    path = write_references(output, [marks], times=times)
    say(f"{path}: the pass of {own.annotator} over {own.history}")
    if None in own.labels:
        note(f"{counted(own.labels.count(None), 'frame')} without a label left unmarked")
