"""Annotation: passes that see neither each other nor a score, consensus, agreement, references."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import Field

from dejacue.data.annotation import MINIMUM
from dejacue.data.annotation_files import LABELS, Pass, annotator_key
from dejacue.errors import InputError, unknown
from dejacue.studio.errors import NotAllowed, NotThere
from dejacue.studio.labels import AGREED, DECISIONS, PASS, TRUTH, Target, found_targets, target
from dejacue.studio.models import PROBLEMS, Asked, Frame, Id, Object, Own, Text, Who, owner_only
from dejacue.studio.security import Session

router = APIRouter(tags=["annotation"], responses=PROBLEMS)
FILES = {"decisions": DECISIONS, "consensus": AGREED, "references": TRUTH}
Name = Annotated[str, Field(min_length=1, max_length=60)]
Annotator = Annotated[str, Path(min_length=1, max_length=60)]
Minimum = Annotated[int, Query(ge=1, le=1_000_000)]


class Label(Asked):
    """annotator: whom to label as; None: stop labelling and be the owner again."""

    annotator: Name | None


class Invitation(Asked):
    annotator: Name


class NewPass(Asked):
    """states: any names; preset "vost": pre, transition, post. Where another annotator was first,
    leave both out: the states are the same."""

    states: Annotated[list[Text], Field(min_length=1, max_length=50)] | None = None
    preset: Annotated[str, Field(pattern="^vost$")] | None = None


class Run(Asked):
    """Frames of the file, both included; null: not labelled yet."""

    start: Frame
    end: Frame
    label: Text | None


class Labels(Asked):
    """All frames of a pass, in order; revision: the one that was loaded, so that two tabs do not
    write over each other."""

    runs: Annotated[list[Run], Field(min_length=1, max_length=100_000)]
    revision: Annotated[str, Field(max_length=64)] | None = None


class Decided(Asked):
    runs: Annotated[list[Run], Field(max_length=100_000)]


class Wanted(Asked):
    """minimum: frames that a stable state needs; pre, post: what the vocabulary calls the states of
    the preset; component: the source that several histories share."""

    minimum: Annotated[int, Field(ge=1, le=1_000_000)] = MINIMUM
    pre: Text = "pre"
    post: Text = "post"
    component: Text | None = None


@router.get("/api/session")
def session(who: Who) -> Object:
    """Who is asking: the owner of the studio, or an annotator."""
    return {"annotator": who.annotator, "owner": who.owner}


@router.post("/api/session")
def label_as(asked: Label, request: Request, studio: Own, who: Who) -> Object:
    """The owner labels as an annotator and sees what annotators see; null ends it."""
    if not who.owner:
        raise NotAllowed(f"this session belongs to {who.annotator}; only the owner can change it")
    if request.state.cookie is None:
        raise InputError(
            "a token has no session to change; invite the annotator and use that token"
        )
    if asked.annotator is not None and not asked.annotator.isprintable():
        raise InputError("give the annotator's name on one line")
    studio.sessions.change(request.state.cookie, Session(asked.annotator, True))
    return {"annotator": asked.annotator, "owner": True}


@router.post("/api/annotators", dependencies=[Depends(owner_only)])
def invite(asked: Invitation, studio: Own) -> Object:
    """A token for one annotator, who sees only the videos and their own pass."""
    if not asked.annotator.isprintable() or not asked.annotator.strip():
        raise InputError("give the annotator's name on one line")
    token = studio.sessions.invite(asked.annotator)
    return {"annotator": asked.annotator, "token": token, "address": f"/?token={token}"}


@router.get("/api/annotations")
def list_annotations(studio: Own, who: Who) -> list[Object]:
    """All that can be annotated, with progress; annotators see only their own progress."""
    return [_status(own, who) for own in found_targets(studio)]


def _status(own: Target, who: Session) -> Object:
    """ready: whether the passes are complete that a consensus needs besides one's own."""
    rows, others = [], []
    for path in sorted(own.folder.glob(f"*{PASS}")):
        try:
            made = own.read(path.name.removesuffix(PASS))
        except InputError:
            continue
        mine = who.annotator is not None and _same(made.annotator, who.annotator)
        labelled = sum(label is not None for label in made.labels)
        if not mine:
            others.append(labelled == made.frames.length)
        if mine or who.annotator is None or own.begun:
            rows.append(
                {"annotator": made.annotator, "frames": made.frames.length, "labelled": labelled}
            )
    wanted = 2 if who.annotator is None else 1
    return {
        "ready": len(others) == wanted and all(others),
        "id": own.id,
        "kind": "finding" if own.is_finding else "video",
        "passes": rows,
        "begun": own.begun,
        "agreed": (own.folder / AGREED).is_file(),
        "references": (own.folder / TRUTH).is_file(),
    }


def _same(one: str, other: str) -> bool:
    return annotator_key(one) == annotator_key(other)


@router.post("/api/annotations/{id:path}/passes/{annotator}", status_code=201)
def new_pass(id: Id, annotator: Annotator, asked: NewPass, studio: Own, who: Who) -> Object:
    """A pass to fill in: unobserved where the object is not seen, null elsewhere."""
    own = target(studio, id)
    _check_own(who, annotator)
    with studio.writing:
        made = own.create(annotator, asked.states, asked.preset is not None)
        studio.workspace.changed()
    return _told(own, made)


@router.get("/api/annotations/{id:path}/passes/{annotator}")
def read_labels(id: Id, annotator: Annotator, studio: Own, who: Who) -> Object:
    """The labels of an annotator: your own, or anyone's once the consensus has begun."""
    own = target(studio, id)
    own.check_seen(who, annotator)
    return _told(own, own.read(annotator))


@router.put("/api/annotations/{id:path}/passes/{annotator}")
def write_labels(id: Id, annotator: Annotator, asked: Labels, studio: Own, who: Who) -> Object:
    """Saves a pass; it is on the disk when the save is confirmed."""
    own = target(studio, id)
    _check_own(who, annotator)
    with studio.writing:
        made = own.write(annotator, _runs(asked.runs), asked.revision)
        revision = own.revision(annotator)
    labelled = sum(label is not None for label in made.labels)
    return {"revision": revision, "frames": made.frames.length, "labelled": labelled}


@router.post("/api/annotations/{id:path}/consensus")
def begin(id: Id, studio: Own) -> Object:
    """Starts the consensus of two complete passes: they are closed, and everybody sees them."""
    own = target(studio, id)
    with studio.writing:
        own.begin()
    return _decisions(own)


@router.get("/api/annotations/{id:path}/decisions")
def read_decided(id: Id, studio: Own) -> Object:
    """The frames on which the passes differ, and what was decided."""
    return _decisions(target(studio, id))


@router.put("/api/annotations/{id:path}/decisions")
def decide(id: Id, asked: Decided, studio: Own) -> Object:
    """Saves decisions; once all are made, the consensus is written."""
    own = target(studio, id)
    with studio.writing:
        own.decide(_runs(asked.runs))
        studio.workspace.changed()
    return _decisions(own)


@router.get("/api/annotations/{id:path}/agreement")
def agreement(id: Id, studio: Own) -> Object:
    """The exact rate and Cohen's κ of the two passes."""
    return target(studio, id).agreement()


@router.get("/api/annotations/{id:path}/events")
def events(id: Id, studio: Own, minimum: Minimum = MINIMUM) -> Object:
    """The events of the consensus, and the reference that they give; nothing is written."""
    own = target(studio, id)
    own.check_begun()
    return own.references(minimum, ("pre", "post"), None, write=False)


@router.post("/api/annotations/{id:path}/references")
def references(id: Id, asked: Wanted, studio: Own) -> Object:
    """Writes the true windows of the consensus, as ``dejacue evaluate`` reads them."""
    own = target(studio, id)
    own.check_begun()
    with studio.writing:
        made = own.references(asked.minimum, (asked.pre, asked.post), asked.component, write=True)
        studio.workspace.changed()
    return made


@router.get("/api/annotations/{id:path}/files/{what}.json", response_class=Response)
def export(id: Id, what: str, studio: Own) -> Response:
    """decisions, consensus or references, as the file that the command line reads."""
    if what not in FILES:
        raise unknown("export", what, FILES)
    own = target(studio, id)
    own.check_begun()
    path = own.folder / FILES[what]
    if not path.is_file():
        raise NotThere(f'"{id}": there are no {what} yet')
    return FileResponse(path, media_type="application/json", filename=path.name)


def _check_own(who: Session, annotator: str) -> None:
    if who.annotator is None or not _same(who.annotator, annotator):
        raise NotAllowed(
            f"only {annotator} can write this pass; label as {annotator} first, or use the token "
            "made for this annotator"
        )


def _runs(runs: list[Run]) -> list[tuple[int, int, str | None]]:
    return [(run.start, run.end, run.label) for run in runs]


def _told(own: Target, made: Pass) -> Object:
    return {
        "id": own.id,
        "history": made.history,
        "annotator": made.annotator,
        "video": own.video,
        "preset": "vost" if made.states is None else None,
        "states": list(LABELS[:3:2] if made.states is None else made.states),
        "labels": list(made.known),
        "frames": list(made.frames),
        "runs": [{"start": w.start, "end": w.end, "label": label} for w, label in made.runs()],
        "revision": own.revision(made.annotator),
        "closed": own.begun,
    }


def _decisions(own: Target) -> Object:
    found = own.decisions()
    rows: list[dict[str, Any]] = [
        {
            "start": row.window.start,
            "end": row.window.end,
            "first": row.first,
            "second": row.second,
            "label": row.label,
        }
        for row in found.rows
    ]
    return {
        "id": own.id,
        "annotators": list(found.annotators),
        "labels": list(found.known),
        "runs": rows,
        "open": sum(row.label is None for row in found.rows),
        "agreed": (own.folder / AGREED).is_file(),
    }
