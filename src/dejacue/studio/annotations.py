"""Routes of annotation: passes that see neither each other nor a score, consensus, references.

FINDING/annotations/       of a finding; of a video without one: NAME.annotations beside it
    ANNOTATOR.pass.json    one for each annotator, as ``dejacue annotate start`` writes it
    decisions.json         the differences of two passes: consensus has begun, passes are closed
    consensus.json         what was decided
    references.json        the true windows of it, as ``dejacue evaluate`` reads them

Until consensus begins nobody but its own annotator sees a pass, and annotators see no reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi import Path as InPath
from fastapi.responses import FileResponse
from pydantic import Field

from dejacue.data import annotation
from dejacue.data.annotation import (
    CONSENSUS,
    LABELS,
    Decisions,
    Disagreement,
    Pass,
    annotator_key,
    check_name,
    frames_of,
    read_decisions,
    read_pass,
    write_decisions,
    write_pass,
)
from dejacue.errors import DejaCueError, InputError, shortened, unknown
from dejacue.evaluation.agreement import cohen_kappa
from dejacue.records import Window
from dejacue.sources.files import file_name
from dejacue.sources.results import write_references
from dejacue.studio.errors import Conflict, NotAllowed, NotThere, check_revision, revision_of
from dejacue.studio.models import (
    Frame,
    Id,
    Json,
    Owner,
    RequestModel,
    Revision,
    SessionDep,
    StudioDep,
    Text,
)
from dejacue.studio.security import StudioSession
from dejacue.studio.state import ANNOTATIONS, Studio, annotations_of

PASS, DECISIONS, AGREED, TRUTH = ".pass.json", "decisions.json", "consensus.json", "references.json"
EXPORTS = {"decisions": DECISIONS, "consensus": AGREED, "references": TRUTH}
MAX_ANNOTATOR_LETTERS = 60
Name = Annotated[str, Field(min_length=1, max_length=MAX_ANNOTATOR_LETTERS)]
Annotator = Annotated[str, InPath(min_length=1, max_length=MAX_ANNOTATOR_LETTERS)]
Minimum = Annotated[int, Query(ge=1, le=1_000_000)]


class LabelAsBody(RequestModel):
    """The annotator to label as; None: stop labelling and be the owner again."""

    annotator: Name | None


class InvitationBody(RequestModel):
    annotator: Name


class NewPassBody(RequestModel):
    """The states to label, by any names, or the preset "vost": pre, transition, post. Where another
    annotator was first, leave both out: the states are the same."""

    states: Annotated[list[Text], Field(min_length=1, max_length=50)] | None = None
    preset: Annotated[str, Field(pattern="^vost$")] | None = None


class LabelRun(RequestModel):
    """The label of some frames of the file, both ends included; null: not labelled yet."""

    start: Frame
    end: Frame
    label: Text | None


class PassRuns(RequestModel):
    """The labels of all frames of a pass, in order, and the revision that was loaded, so that two
    tabs do not write over each other."""

    runs: Annotated[list[LabelRun], Field(min_length=1, max_length=100_000)]
    revision: Revision = None


class DecisionRuns(RequestModel):
    runs: Annotated[list[LabelRun], Field(max_length=100_000)]
    revision: Revision = None


class ReferenceOptions(RequestModel):
    """How references are made of a consensus.

    minimum     frames that a stable state needs
    pre, post   what the vocabulary calls the states of the preset
    component   the source that several histories share
    """

    minimum: Annotated[int, Field(ge=1, le=1_000_000)] = annotation.MINIMUM
    pre: Text = "pre"
    post: Text = "post"
    component: Text | None = None


@dataclass(frozen=True)
class AnnotationTarget:
    """A finding, or a video without one, to be annotated."""

    studio: Studio
    id: str
    folder: Path
    is_finding: bool

    @property
    def history(self) -> str:
        """Return the id of the history, by which references are found."""
        if self.is_finding:
            return self.studio.finding(self.id).history.id
        path = self.studio.workspace.video(self.id)
        return path.stem if path.is_file() else path.name

    @property
    def video(self) -> str | None:
        return self.studio.video_of(self.studio.made(self.id)) if self.is_finding else self.id

    @property
    def frames(self) -> Sequence[int]:
        """Return the frames of the file in which the object is seen."""
        if self.is_finding:
            return annotation.seen(self.studio.finding(self.id).history)
        return range(len(self.studio.frames(self.studio.workspace.video(self.id))))

    @property
    def closed(self) -> bool:
        """Return whether consensus has begun: then passes are closed, and everybody sees them."""
        return any((self.folder / name).is_file() for name in (DECISIONS, AGREED))

    def path(self, annotator: str) -> Path:
        _check_annotator(annotator)
        return self.folder / f"{file_name(annotator_key(annotator))}{PASS}"

    def passes(self) -> list[Pass]:
        """Return all passes, complete or not, in the order of their files."""
        return [read_pass(path, complete=False) for path in sorted(self.folder.glob(f"*{PASS}"))]

    def read(self, annotator: str) -> Pass:
        path = self.path(annotator)
        if not path.is_file():
            raise self.refusal(f"{annotator} has no pass yet", NotThere)
        pass_ = read_pass(path, complete=False)
        if not _same(pass_.annotator, annotator):
            problem = f'the pass in {path.name} belongs to "{pass_.annotator}"'
            remedy = f'give another name than "{annotator}"'
            raise Conflict(problem, field="annotator", value=annotator, remedy=remedy)
        return pass_

    def refusal(self, problem: str, kind: type[DejaCueError] = Conflict) -> DejaCueError:
        return kind(f'"{self.id}": {problem}', field="id", value=self.id)

    def create(self, annotator: str, states: Sequence[str] | None, preset: bool) -> Pass:
        """Write a pass to fill in; the second one has the states of the first."""
        path = self.path(annotator)
        if self.closed:
            raise self.refusal("the consensus has begun; no more passes can be added")
        if path.exists():
            raise self.refusal(f"{annotator} already has a pass")
        passes = self.passes()
        if passes:
            known = passes[0].states
            if (states is not None or preset) and states != (known and list(known)):
                problem = f'"{self.id}" is annotated with the labels {", ".join(passes[0].known)}'
                remedy = "leave the states out to use these"
                raise Conflict(problem, field="states", remedy=remedy)
            states = known
        elif states is None and not preset:
            problem = "name the states to distinguish, or use the preset vost"
            raise InputError(problem, field="states")
        pass_ = annotation.template(self.history, self.frames, annotator, states)
        write_pass(path, pass_, durable=True)
        return pass_

    def write(self, annotator: str, runs: Sequence[LabelRun], revision: str | None) -> Pass:
        """Write labels for all frames of a pass; they are on the disk when this returns."""
        before = self.read(annotator)
        if self.closed:
            raise self.refusal("the consensus has begun, so passes are closed")
        check_revision(revision, self.revision(annotator), self.id)
        labels: list[str | None] = []
        for run in runs:
            window = Window(run.start, run.end)
            if run.start != before.frames.start + len(labels) or run.end > before.frames.end:
                problem = f"runs must cover the frames {before.frames} in order, each once"
                raise InputError(f"{problem}; {window} does not follow", field="runs")
            labels += [run.label] * window.length
        pass_ = Pass(before.history, before.annotator, before.frames, tuple(labels), before.states)
        write_pass(self.path(annotator), pass_, durable=True)
        return pass_

    def revision(self, annotator: str) -> str:
        return revision_of(self.path(annotator))

    def check_seen(self, session: StudioSession, annotator: str) -> None:
        if not self.closed and not _labels_as(session, annotator):
            raise NotAllowed(
                f"only {annotator} sees this pass until both are complete and the consensus begins"
            )

    def pair(self) -> tuple[Pass, Pass]:
        """Return the two complete passes."""
        passes = self.passes()
        if (self.folder / DECISIONS).is_file():
            keys = read_decisions(self.folder / DECISIONS).annotator_keys
            passes = [
                each for key in keys for each in passes if annotator_key(each.annotator) == key
            ]
        if len(passes) != 2:
            raise self.refusal(f"a consensus needs two passes, but there are {len(passes)}")
        for pass_ in passes:
            if None in pass_.labels:
                raise self.refusal(f"the pass of {pass_.annotator} is not complete yet")
        return passes[0], passes[1]

    def begin(self) -> None:
        """Compare the passes: write what is to be decided, or the consensus where nothing is."""
        if self.closed:
            return
        first, second = self.pair()
        to_decide = annotation.open_decisions(first, second)
        write_decisions(self.folder / DECISIONS, to_decide, durable=True)
        if not to_decide.rows:
            self._agree(first, second, to_decide)

    def decide(self, runs: Sequence[LabelRun]) -> None:
        """Write labels for the frames that are to be decided; None: still open."""
        first, second = self.pair()
        rows = []
        for run in runs:
            window = Window(run.start, run.end)
            at = run.start - first.frames.start
            if window | first.frames != first.frames:
                problem = f"frames {window}: the passes cover only {first.frames}"
                raise InputError(problem, field="runs", value=window)
            a, b = first.labels[at], second.labels[at]
            if a == b:
                problem = f"frame {run.start}: both passes say {a}; there is nothing to decide"
                raise InputError(problem, field="runs", value=window)
            rows.append(Disagreement(window, str(a), str(b), run.label))
        to_decide = annotation.open_decisions(first, second)
        decisions = Decisions(to_decide.history, to_decide.annotators, tuple(rows), first.states)
        if all(row.label is not None for row in rows):
            self._agree(first, second, decisions)  # refuses what is not decided, or not so
        else:
            _check_open(to_decide, decisions)
            (self.folder / AGREED).unlink(missing_ok=True)
            write_decisions(self.folder / DECISIONS, decisions, durable=True)

    def _agree(self, first: Pass, second: Pass, decisions: Decisions) -> None:
        agreed = annotation.consensus(first, second, decisions)
        write_decisions(self.folder / DECISIONS, decisions, durable=True)
        write_pass(self.folder / AGREED, agreed, durable=True)

    def references(self, options: ReferenceOptions, write: bool) -> Json:
        """Return the events of the consensus and the true windows that they give."""
        if not (self.folder / AGREED).is_file():
            raise self.refusal("there is no consensus yet; decide every difference")
        agreed = read_pass(self.folder / AGREED)
        minimum, component = options.minimum, options.component
        events: Sequence[annotation.Event | annotation.StateChange]
        if agreed.states is not None:
            reference = annotation.stable_reference(agreed, minimum, component)
            events = annotation.changes(agreed, minimum)
        else:
            events = qualifying = annotation.events(agreed, minimum)
            if not qualifying:
                why = annotation.nearest_miss(agreed, minimum)
                raise self.refusal(f"no event qualifies: {why}", InputError)
            names = options.pre, options.post
            reference = annotation.reference(agreed, qualifying[0], *names, component)
        if write:
            write_references(self.folder / TRUTH, [reference])
        return {
            "events": [
                {name: list(v) if isinstance(v, Window) else v for name, v in vars(event).items()}
                for event in events
            ],
            "reference": reference.to_dict(),
            "file": self.studio.workspace.id_of(self.folder / TRUTH) if write else None,
        }


def target(studio: StudioDep, id: Id) -> AnnotationTarget:
    """Return the finding or video of this id, to be annotated."""
    try:
        return AnnotationTarget(studio, id, studio.folder(id) / ANNOTATIONS, True)
    except NotThere:
        return AnnotationTarget(studio, id, annotations_of(studio.workspace.video(id)), False)


def check_readable(studio: Studio, session: StudioSession, id: str) -> None:
    """Refuse an annotator a reading of a history before its consensus has begun."""
    if session.annotator is not None and not target(studio, id).closed:
        raise NotAllowed(
            "annotators see no reading until both passes are complete and the consensus has begun"
        )


def _check_open(expected: Decisions, decisions: Decisions) -> None:
    """Refuse decisions that do not cover the frames of ``expected``; runs may be split."""
    expected_pairs, pairs = (
        [(frame, (row.first, row.second)) for row in rows for frame in frames_of(row.window)]
        for rows in (expected.rows, decisions.rows)
    )
    if [frame for frame, _ in expected_pairs] != [frame for frame, _ in pairs]:
        problem = "decisions must cover every frame on which the passes differ, in order, each once"
        raise InputError(problem, field="runs", remedy="reload them")
    for expected_pair, (frame, pair) in zip(expected_pairs, pairs, strict=True):
        if expected_pair != (frame, pair):
            problem = f"frame {frame}: the passes differ in another way; split the run"
            raise InputError(problem, field="runs", value=frame)


def _check_annotator(annotator: str) -> None:
    """Refuse a name that no pass can have; addresses have no parts . and .., nor empty ones."""
    check_name("annotator", annotator)
    reserved = annotator_key(annotator) == CONSENSUS
    odd = any(part.strip() in ("", ".", "..", "passes") for part in annotator.split("/"))
    if len(annotator) > MAX_ANNOTATOR_LETTERS or reserved or odd or not annotator.isprintable():
        problem = f'"{shortened(annotator)}" cannot be an annotator\'s name; give another'
        raise InputError(problem, field="annotator", value=annotator)


def _same(annotator: str, name: str) -> bool:
    return annotator_key(annotator) == annotator_key(name)


def _labels_as(session: StudioSession, annotator: str) -> bool:
    return session.annotator is not None and _same(session.annotator, annotator)


router = APIRouter(tags=["annotation"])
TargetDep = Annotated[AnnotationTarget, Depends(target)]


def closed_target(target: TargetDep) -> AnnotationTarget:
    if not target.closed:
        problem = "passes are compared once both are complete and the consensus begins"
        raise target.refusal(problem, NotAllowed)
    return target


ClosedDep = Annotated[AnnotationTarget, Depends(closed_target)]


@router.get("/api/session")
def session(session: SessionDep) -> Json:
    """Return who sends the request: the owner of the studio, or an annotator."""
    return {"annotator": session.annotator, "owner": session.owner}


@router.post("/api/session")
def label_as(body: LabelAsBody, request: Request, studio: StudioDep, session: SessionDep) -> Json:
    """Let the owner label as an annotator and see what annotators see; null ends it."""
    if not session.owner:
        raise NotAllowed(
            f"this session belongs to {session.annotator}; only the owner can change it"
        )
    if request.state.cookie is None:
        remedy = "invite the annotator and use that token"
        raise InputError("a token has no session to change", remedy=remedy)
    if body.annotator is not None:
        _check_annotator(body.annotator)
    studio.sessions.change(request.state.cookie, StudioSession(body.annotator, True))
    return {"annotator": body.annotator, "owner": True}


@router.post("/api/annotators", dependencies=[Owner])
def invite(body: InvitationBody, studio: StudioDep) -> Json:
    """Return a token for one annotator, who sees only the videos and their own pass."""
    _check_annotator(body.annotator)
    token = studio.sessions.invite(body.annotator)
    return {"annotator": body.annotator, "token": token, "address": f"/?token={token}"}


@router.get("/api/annotations")
def list_annotations(studio: StudioDep, session: SessionDep) -> list[Json]:
    """List what can be annotated, with progress; annotators see only their own progress."""
    contents = studio.workspace.contents()
    ids = (*contents.findings, *contents.videos)
    return [_status(target(studio, id), session) for id in ids]


def _status(target: AnnotationTarget, session: StudioSession) -> Json:
    """Return the progress; ready: the passes that a consensus needs besides one's own are
    complete."""
    rows, others = [], []
    for path in sorted(target.folder.glob(f"*{PASS}")):
        try:
            pass_ = read_pass(path, complete=False)
        except InputError:
            continue
        mine = _labels_as(session, pass_.annotator)
        progress = _progress(pass_)
        if not mine:
            others.append(progress["labelled"] == progress["frames"])
        if mine or session.annotator is None or target.closed:
            rows.append({"annotator": pass_.annotator, **progress})
    return {
        "ready": len(others) == (2 if session.annotator is None else 1) and all(others),
        "id": target.id,
        "kind": "finding" if target.is_finding else "video",
        "passes": rows,
        "begun": target.closed,
        "agreed": (target.folder / AGREED).is_file(),
        "references": (target.folder / TRUTH).is_file(),
    }


def _progress(pass_: Pass) -> dict[str, int]:
    labelled = sum(label is not None for label in pass_.labels)
    return {"frames": pass_.frames.length, "labelled": labelled}


@router.post("/api/annotations/{id:path}/passes/{annotator:path}", status_code=201)
def new_pass(
    target: TargetDep, annotator: Annotator, body: NewPassBody, session: SessionDep
) -> Json:
    """Create a pass to fill in: unobserved where the object is not seen, null elsewhere."""
    _check_own(session, annotator)
    with target.studio.writing:
        pass_ = target.create(annotator, body.states, body.preset is not None)
        target.studio.workspace.changed()
    return _pass_document(target, pass_)


@router.get("/api/annotations/{id:path}/passes/{annotator:path}")
def read_labels(target: TargetDep, annotator: Annotator, session: SessionDep) -> Json:
    """Return the labels of an annotator: your own, or anyone's once the consensus has begun."""
    target.check_seen(session, annotator)
    return _pass_document(target, target.read(annotator))


@router.put("/api/annotations/{id:path}/passes/{annotator:path}")
def write_labels(
    target: TargetDep, annotator: Annotator, body: PassRuns, session: SessionDep
) -> Json:
    """Save a pass; it is on the disk when the save is confirmed."""
    _check_own(session, annotator)
    with target.studio.writing:
        pass_ = target.write(annotator, body.runs, body.revision)
        revision = target.revision(annotator)
    return {"revision": revision, **_progress(pass_)}


@router.post("/api/annotations/{id:path}/consensus")
def begin(target: TargetDep) -> Json:
    """Start the consensus of two complete passes: they are closed, and everybody sees them."""
    with target.studio.writing:
        target.begin()
    return _decisions(target)


@router.get("/api/annotations/{id:path}/decisions")
def read_differences(target: ClosedDep) -> Json:
    """Return the frames on which the passes differ, and what was decided."""
    return _decisions(target)


@router.put("/api/annotations/{id:path}/decisions")
def decide(target: ClosedDep, body: DecisionRuns) -> Json:
    """Save decisions; once all are made, the consensus is written."""
    with target.studio.writing:
        check_revision(body.revision, revision_of(target.folder / DECISIONS), target.id)
        target.decide(body.runs)
        target.studio.workspace.changed()
    return _decisions(target)


@router.get("/api/annotations/{id:path}/agreement")
def agreement(target: ClosedDep) -> Json:
    """Return the exact rate and Cohen's κ of the two passes, over all frames and over those that
    one of them sees."""
    first, second = target.pair()
    seen = annotation.observed(first, second)
    return {
        "annotators": [first.annotator, second.annotator],
        "all_frames": vars(cohen_kappa(first.labels, second.labels)),
        "observed_frames": vars(cohen_kappa(*seen)) if seen[0] else None,
    }


@router.get("/api/annotations/{id:path}/events")
def events(target: ClosedDep, minimum: Minimum = annotation.MINIMUM) -> Json:
    """Return the events of the consensus, and the reference that they give, without writing it."""
    return target.references(ReferenceOptions(minimum=minimum), write=False)


@router.post("/api/annotations/{id:path}/references")
def references(target: ClosedDep, body: ReferenceOptions) -> Json:
    """Write the true windows of the consensus, as ``dejacue evaluate`` reads them."""
    with target.studio.writing:
        document = target.references(body, write=True)
        target.studio.workspace.changed()
    return document


@router.get("/api/annotations/{id:path}/files/{what}.json", response_class=Response)
def export(target: ClosedDep, what: str) -> Response:
    """Return decisions, consensus or references, as the file that the command line reads."""
    if what not in EXPORTS:
        raise unknown("export", what, EXPORTS)
    path = target.folder / EXPORTS[what]
    if not path.is_file():
        raise target.refusal(f"there are no {what} yet", NotThere)
    return FileResponse(path, media_type="application/json", filename=path.name)


def _check_own(session: StudioSession, annotator: str) -> None:
    if not _labels_as(session, annotator):
        raise NotAllowed(
            f"only {annotator} can write this pass; label as {annotator} first, or use the token "
            "made for this annotator"
        )


def _run(window: Window, **labels: str | None) -> Json:
    return {"start": window.start, "end": window.end, **labels}


def _pass_document(target: AnnotationTarget, pass_: Pass) -> Json:
    return {
        "id": target.id,
        "history": pass_.history,
        "annotator": pass_.annotator,
        "video": target.video,
        "preset": "vost" if pass_.states is None else None,
        "states": list(LABELS[:3:2] if pass_.states is None else pass_.states),
        "labels": list(pass_.known),
        "frames": list(pass_.frames),
        "runs": [_run(window, label=label) for window, label in pass_.runs()],
        "revision": target.revision(pass_.annotator),
        "closed": target.closed,
    }


def _decisions(target: AnnotationTarget) -> Json:
    decisions = read_decisions(target.folder / DECISIONS)
    return {
        "id": target.id,
        "annotators": list(decisions.annotators),
        "labels": list(decisions.known),
        "runs": [
            _run(row.window, first=row.first, second=row.second, label=row.label)
            for row in decisions.rows
        ],
        "open": sum(row.label is None for row in decisions.rows),
        "agreed": (target.folder / AGREED).is_file(),
        "revision": revision_of(target.folder / DECISIONS),
    }
