"""``dejacue annotate import`` and ``export``: passes from and to other tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dejacue.cli.annotate import blank, check_output, states_of
from dejacue.cli.data import check_ending
from dejacue.cli.tables import note, say
from dejacue.data import annotation_files as passes
from dejacue.data.annotation_marks import filled, marks_of, states_in
from dejacue.errors import InputError, counted
from dejacue.records import Reference
from dejacue.sources.documents import named
from dejacue.sources.files import read_history
from dejacue.sources.results import read_references, write_references


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
