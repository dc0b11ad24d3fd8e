"""Annotation in the workspace: where passes lie, who may see them, from passes to references.

FINDING/annotations/       of a finding; of a video without one: NAME.annotations beside it
    ANNOTATOR.pass.json    one for each annotator, as ``dejacue annotate start`` writes it
    decisions.json         the differences of two passes: consensus has begun, passes are closed
    consensus.json         what was decided
    references.json        the true windows of it, as ``dejacue evaluate`` reads them

Until consensus begins nobody but its own annotator sees a pass, and annotators see no reading.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dejacue.data import annotation
from dejacue.data.annotation_files import (
    CONSENSUS,
    Decisions,
    Disagreement,
    Pass,
    annotator_key,
    check_name,
    read_decisions,
    read_pass,
    write_decisions,
    write_pass,
)
from dejacue.errors import InputError, shortened
from dejacue.evaluation.agreement import cohen_kappa
from dejacue.records import Window
from dejacue.sources.files import file_name
from dejacue.sources.results import write_references
from dejacue.studio.errors import Conflict, NotAllowed, NotThere
from dejacue.studio.security import Session
from dejacue.studio.state import ANNOTATIONS, Studio, annotations_of

PASS, DECISIONS, AGREED, TRUTH = ".pass.json", "decisions.json", "consensus.json", "references.json"
MOST_ANNOTATOR = 60
Runs = Sequence[tuple[int, int, str | None]]


@dataclass(frozen=True)
class Target:
    """What is annotated: a finding, or a video without one.

    history   its id, by which references are found
    """

    studio: Studio
    id: str
    folder: Path
    is_finding: bool

    @property
    def history(self) -> str:
        if self.is_finding:
            return self.studio.finding(self.id).history.id
        path = self.studio.workspace.video(self.id)
        return path.stem if path.is_file() else path.name

    @property
    def video(self) -> str | None:
        return self.studio.video_of(self.studio.made(self.id)) if self.is_finding else self.id

    @property
    def frames(self) -> Sequence[int]:
        """Those of the file in which the object is seen."""
        if self.is_finding:
            return annotation.seen(self.studio.finding(self.id).history)
        return range(len(self.studio.frames(self.studio.workspace.video(self.id))))

    @property
    def begun(self) -> bool:
        """Whether consensus has begun: from then on passes are closed, and everybody sees them."""
        return any((self.folder / name).is_file() for name in (DECISIONS, AGREED))

    def path(self, annotator: str) -> Path:
        check_name("annotator", annotator)
        if len(annotator) > MOST_ANNOTATOR or annotator_key(annotator) == CONSENSUS:
            raise InputError(
                f'"{shortened(annotator)}" cannot be an annotator\'s name; give another'
            )
        return self.folder / f"{file_name(annotator_key(annotator))}{PASS}"

    def passes(self) -> list[Pass]:
        """All there are, in the order of their files; whole or not."""
        return [read_pass(path, complete=False) for path in sorted(self.folder.glob(f"*{PASS}"))]

    def read(self, annotator: str) -> Pass:
        path = self.path(annotator)
        if not path.is_file():
            raise NotThere(f'"{self.id}": {annotator} has no pass yet')
        found = read_pass(path, complete=False)
        if annotator_key(found.annotator) != annotator_key(annotator):
            raise Conflict(
                f'the pass in {path.name} belongs to "{found.annotator}"; give another name than '
                f'"{annotator}"'
            )
        return found

    def create(self, annotator: str, states: Sequence[str] | None, preset: bool) -> Pass:
        """A pass to fill in; the second one tells the states of the first apart."""
        path = self.path(annotator)
        if self.begun:
            raise Conflict(f'"{self.id}": the consensus has begun; no more passes can be added')
        if path.exists():
            raise Conflict(f'"{self.id}": {annotator} already has a pass')
        others = self.passes()
        if others:
            known = others[0].states
            if (states is not None or preset) and states != (known and list(known)):
                raise Conflict(
                    f'"{self.id}" is annotated with the labels {", ".join(others[0].known)}; '
                    "leave the states out to use these"
                )
            states = known
        elif states is None and not preset:
            raise InputError("name the states to distinguish, or use the preset vost")
        made = annotation.template(self.history, self.frames, annotator, states)
        write_pass(path, made, durable=True)
        return made

    def write(self, annotator: str, runs: Runs, revision: str | None) -> Pass:
        """Labels for all frames of a pass; on the disk when this returns."""
        before = self.read(annotator)
        if self.begun:
            raise Conflict(f'"{self.id}": the consensus has begun, so passes are closed')
        if revision is not None and revision != self.revision(annotator):
            raise Conflict("the pass was changed elsewhere, perhaps in another tab; reload it")
        labels: list[str | None] = []
        for start, end, label in runs:
            window = Window(start, end)
            if start != before.frames.start + len(labels) or end > before.frames.end:
                raise InputError(
                    f"runs must cover the frames {before.frames} in order, each once; "
                    f"{window} does not follow"
                )
            labels += [label] * window.length
        made = Pass(before.history, before.annotator, before.frames, tuple(labels), before.states)
        write_pass(self.path(annotator), made, durable=True)
        return made

    def revision(self, annotator: str) -> str:
        """Changes when the pass does."""
        return hashlib.sha256(self.path(annotator).read_bytes()).hexdigest()[:16]

    def check_seen(self, who: Session, annotator: str) -> None:
        own = who.annotator is not None and annotator_key(who.annotator) == annotator_key(annotator)
        if not own and not self.begun:
            raise NotAllowed(
                f"only {annotator} sees this pass until both are complete and the consensus begins"
            )

    def check_begun(self) -> None:
        if not self.begun:
            raise NotAllowed(
                f'"{self.id}": passes are compared once both are complete and the consensus begins'
            )

    def pair(self) -> tuple[Pass, Pass]:
        """The two passes, complete."""
        found = self.passes()
        if (self.folder / DECISIONS).is_file():
            keys = read_decisions(self.folder / DECISIONS).annotator_keys
            found = [own for key in keys for own in found if annotator_key(own.annotator) == key]
        if len(found) != 2:
            raise Conflict(f'"{self.id}": a consensus needs two passes, but there are {len(found)}')
        for own in found:
            if None in own.labels:
                raise Conflict(f'"{self.id}": the pass of {own.annotator} is not complete yet')
        return found[0], found[1]

    def begin(self) -> None:
        """Compares the passes: writes what is to be decided, or the consensus where nothing is."""
        if self.begun:
            return
        first, second = self.pair()
        to_decide = annotation.open_decisions(first, second)
        write_decisions(self.folder / DECISIONS, to_decide, durable=True)
        if not to_decide.rows:
            self._agree(first, second, to_decide)

    def decisions(self) -> Decisions:
        self.check_begun()
        return read_decisions(self.folder / DECISIONS)

    def decide(self, runs: Runs) -> Decisions:
        """Labels for the frames that are to be decided; None: still open."""
        self.check_begun()
        first, second = self.pair()
        rows = []
        for start, end, label in runs:
            window = Window(start, end)
            at = start - first.frames.start
            if window | first.frames != first.frames:
                raise InputError(f"frames {window}: the passes cover only {first.frames}")
            a, b = first.labels[at], second.labels[at]
            if a == b:
                raise InputError(f"frame {start}: both passes say {a}; there is nothing to decide")
            rows.append(Disagreement(window, str(a), str(b), label))
        made = Decisions(
            first.history, (first.annotator, second.annotator), tuple(rows), first.states
        )
        if all(row.label is not None for row in rows):
            self._agree(first, second, made)  # refuses what is not decided, or not so
        else:
            _check_open(annotation.open_decisions(first, second), made)
            (self.folder / AGREED).unlink(missing_ok=True)
            write_decisions(self.folder / DECISIONS, made, durable=True)
        return made

    def _agree(self, first: Pass, second: Pass, decided: Decisions) -> None:
        agreed = annotation.consensus(first, second, decided)
        write_decisions(self.folder / DECISIONS, decided, durable=True)
        write_pass(self.folder / AGREED, agreed, durable=True)

    def agreed(self) -> Pass:
        path = self.folder / AGREED
        if not path.is_file():
            raise Conflict(f'"{self.id}": there is no consensus yet; decide every difference')
        return read_pass(path)

    def agreement(self) -> dict[str, Any]:
        """How far the passes agree, over all frames and over those that one of them sees."""
        self.check_begun()
        first, second = self.pair()
        seen = annotation.observed(first, second)
        return {
            "annotators": [first.annotator, second.annotator],
            "all_frames": _agreement(first.labels, second.labels),
            "observed_frames": _agreement(*seen) if seen[0] else None,
        }

    def references(
        self, minimum: int, names: tuple[str, str], component: str | None, write: bool
    ) -> dict[str, Any]:
        """Events of the consensus and the true windows that they give; written where asked for."""
        agreed = self.agreed()
        if agreed.states is not None:
            found = annotation.stable_reference(agreed, minimum, component)
            events: list[Any] = annotation.changes(agreed, minimum)
        else:
            events = annotation.events(agreed, minimum)
            if not events:
                why = annotation.nearest_miss(agreed, minimum)
                raise InputError(f'"{self.id}": no event qualifies: {why}')
            found = annotation.reference(agreed, events[0], *names, component)
        if write:
            write_references(self.folder / TRUTH, [found])
        file = self.studio.workspace.id_of(self.folder / TRUTH) if write else None
        told = [_plain(vars(event)) for event in events]
        return {"events": told, "reference": found.to_dict(), "file": file}


def target(studio: Studio, id: str) -> Target:
    """A finding or a video, by its id."""
    try:
        folder = studio.folder(id)
        return Target(studio, id, folder / ANNOTATIONS, True)
    except NotThere:
        path = studio.workspace.video(id)
        return Target(studio, id, annotations_of(path), False)


def check_readable(studio: Studio, who: Session, id: str) -> None:
    """Whoever labels sees no reading of a history before its consensus has begun."""
    if who.annotator is not None and not target(studio, id).begun:
        raise NotAllowed(
            "annotators see no reading until both passes are complete and the consensus has begun"
        )


def _check_open(expected: Decisions, given: Decisions) -> None:
    """What is still open must cover the same frames; runs may be split."""
    wanted = [
        frame for row in expected.rows for frame in range(row.window.start, row.window.end + 1)
    ]
    told = [frame for row in given.rows for frame in range(row.window.start, row.window.end + 1)]
    if wanted != told:
        raise InputError(
            "decisions must cover every frame on which the passes differ, in order, each once; "
            "reload them"
        )
    pairs = {
        f: (r.first, r.second)
        for r in expected.rows
        for f in range(r.window.start, r.window.end + 1)
    }
    for row in given.rows:
        for frame in range(row.window.start, row.window.end + 1):
            if pairs[frame] != (row.first, row.second):
                raise InputError(f"frame {frame}: the passes differ in another way; split the run")


def _agreement(first: Sequence[Any], second: Sequence[Any]) -> dict[str, Any]:
    return vars(cohen_kappa(first, second))


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: list(own) if isinstance(own, Window) else own for name, own in values.items()}


def found_targets(studio: Studio) -> list[Target]:
    """All that can be annotated: findings, and videos that have none."""
    contents = studio.workspace.contents()
    return [target(studio, id) for id in (*contents.findings, *contents.videos)]
