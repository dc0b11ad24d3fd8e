"""Findings: look, read again with other words, write what was read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Response
from fastapi import Path as InPath

from dejacue.errors import DejaCueError, InputError, unknown
from dejacue.method.plan import READOUTS, as_read
from dejacue.pipeline import EncoderOptions, Finding
from dejacue.records import Example, Vocabulary
from dejacue.report.exports import EXPORTS
from dejacue.sources.files import file_name
from dejacue.sources.tracks import read_notes
from dejacue.studio.annotations import check_readable
from dejacue.studio.errors import NotThere
from dejacue.studio.models import (
    PROBLEMS,
    Compare,
    Id,
    Json,
    Mark,
    Read,
    Reading,
    Save,
    SessionDep,
    StudioDep,
    Words,
    owner_only,
)
from dejacue.studio.state import Studio, Truth


def _readable(id: Id, studio: StudioDep, session: SessionDep) -> None:
    check_readable(studio, session, id)


router = APIRouter(prefix="/api/findings", tags=["findings"], responses=PROBLEMS)
READ = [Depends(_readable)]


@router.get("", dependencies=[Depends(owner_only)])
def list_findings(studio: StudioDep) -> list[Json]:
    """The findings of the workspace."""
    return [{"id": id} for id in studio.workspace.contents().findings]


@router.get("/{id:path}/info", dependencies=READ)
def info(id: Id, studio: StudioDep) -> Json:
    """How a finding was made, with its words."""
    finding = studio.finding(id)
    drawn = finding.scene(thumbnails=(), most=100)
    return {
        "id": id,
        "history": finding.history.id,
        "video": studio.video_of(finding.made),
        "object": finding.vocabulary.object,
        "encoder": finding.history.encoder,
        "tracker": finding.made.tracker,
        "prompts": _prompts(studio, finding),
        "masks": studio.workspace.id_of(studio.masks_path(finding)),
        "objects": objects_of(finding),
        "options": dict(finding.made.options),
        "states": {state: list(texts) for state, texts in finding.vocabulary.states.items()},
        "examples": [_mark(finding, own) for own in finding.vocabulary.examples],
        "changes": drawn["changes"],
        "settings": drawn["settings"],
        "warnings": list(finding.warnings),
    }


@router.get("/{id:path}/scene", dependencies=READ)
def scene(
    id: Id,
    studio: StudioDep,
    segments: bool = False,
    questions: Annotated[int, Query(ge=0, le=20)] = 0,
    most: Annotated[int, Query(ge=100, le=100_000_000)] | None = None,
) -> Json:
    """The scene of a finding, as a timeline draws it (dejacue.scene/1)."""
    return draw(studio, id, studio.finding(id), segments, questions, most)


@router.post("/{id:path}/read", dependencies=READ)
def read(id: Id, asked: Read, studio: StudioDep) -> Json:
    """The same object read with other words, examples or settings: a scene; nothing is written."""
    finding = reread(studio, studio.finding(id), asked, asked)
    return draw(studio, id, finding, asked.segments, asked.questions, asked.most)


@router.post("/{id:path}/compare", dependencies=READ)
def compare(id: Id, asked: Compare, studio: StudioDep) -> list[Json]:
    """The same words read in several ways, each with a scene or a problem."""
    finding = studio.finding(id)
    found: list[Json] = []
    for own in asked.readings:
        try:
            made = draw(studio, id, reread(studio, finding, asked, own), most=asked.most)
            found.append({"reading": own.model_dump(), "scene": made, "problem": None})
        except DejaCueError as error:
            found.append({"reading": own.model_dump(), "scene": None, "problem": str(error)})
    return found


@router.put("/{id:path}", dependencies=[Depends(owner_only)])
def save(id: Id, asked: Save, studio: StudioDep) -> Json:
    """Reads as ``read`` does and writes the result: over the finding, or to another folder."""
    studio.jobs.check_free(asked.folder or id)
    finding = reread(studio, studio.finding(id), asked, asked)
    folder = studio.folder(id)
    if asked.folder is not None:
        folder = studio.workspace.place(asked.folder)
        if folder.is_dir() and os.listdir(folder) and not (folder / "finding.json").is_file():
            raise InputError(f'"{asked.folder}" contains other files; give another folder')
    with studio.saving:
        finding.write(folder)
        studio.workspace.changed()
    return draw(studio, studio.workspace.finding_id(folder), finding)


@router.get("/{id:path}/questions", dependencies=READ)
def questions(
    id: Id, studio: StudioDep, count: Annotated[int, Query(ge=1, le=20)] = 1
) -> list[Json]:
    """The frames whose labels would tell most about the rest, best first."""
    made: list[Json] = studio.finding(id).scene(thumbnails=(), questions=count)["questions"]
    return made


@router.get("/{id:path}/segments", dependencies=READ)
def segments(
    id: Id, studio: StudioDep, count: Annotated[int, Query(ge=1, le=10_000)] | None = None
) -> list[list[int]]:
    """Stretches of frames that look alike."""
    return [[window.start, window.end] for window in studio.finding(id).segments(count)]


@router.get("/{id:path}/thumbnails/{frame}.jpg", dependencies=READ, response_class=Response)
def thumbnail(
    id: Id, frame: Annotated[int, InPath(ge=0)], studio: StudioDep, object: bool = False
) -> Response:
    """A small picture of a frame with the object outlined, or of the object alone; the scene says
    of which frames."""
    finding = studio.finding(id)
    pictures = finding.crops if object else finding.thumbnails
    if frame not in pictures:
        raise NotThere(f"there is no thumbnail of frame {frame}")
    return Response(pictures[frame], media_type="image/jpeg")


@router.get("/{id:path}/export/{kind}", dependencies=READ, response_class=Response)
def export(id: Id, kind: str, studio: StudioDep) -> Response:
    """The finding in the format of another tool, or the report (kind: report)."""
    finding = studio.finding(id)
    name = file_name(finding.history.id)
    if kind == "report":
        page = finding.report(references=_states(_truth(studio, id, finding)))
        return _attached(page.encode(), f"{name}.report.html", "text/html")
    if kind not in EXPORTS:
        raise unknown("export", kind, [*EXPORTS, "report"])
    with tempfile.TemporaryDirectory() as folder:
        path = finding.export(kind, Path(folder, "export"))
        name = f"{name}{EXPORTS[kind].suffix}"
        return _attached(path.read_bytes(), name, "application/octet-stream")


def _attached(data: bytes, name: str, kind: str) -> Response:
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
    return Response(data, media_type=kind, headers=headers)


def draw(
    studio: Studio,
    id: str,
    finding: Finding,
    segments: bool = False,
    questions: int = 0,
    most: int | None = None,
) -> Json:
    """The scene, with addresses of pictures and ids instead of paths."""
    place = f"/api/findings/{quote(id)}/thumbnails"
    truth = _truth(studio, id, finding)
    found = finding.scene(
        references=_states(truth),
        segments=segments,
        questions=questions,
        most=most,
        thumbnails=[
            (
                frame,
                f"{place}/{frame}.jpg",
                f"{place}/{frame}.jpg?object=true" if frame in finding.crops else None,
            )
            for frame in finding.thumbnails
        ],
    )
    notes = [*found["notes"], *(truth.notes if truth else ())]
    return {**found, "notes": notes, "video": studio.video_of(finding.made)}


def _truth(studio: Studio, id: str, finding: Finding) -> Truth | None:
    return studio.references(id, finding.history.id, finding.made)


def _states(truth: Truth | None) -> Any:
    return None if truth is None else truth.reference.states


def reread(studio: Studio, finding: Finding, words: Words, reading: Reading) -> Finding:
    """``Finding.ask``, with the words and examples of a request."""
    own = finding.vocabulary
    marks, changes = _shown(studio, own, words)
    states = {state: list(texts) for state, texts in own.states.items()}
    object = own.object if words.object is None else words.object
    settings = _settings(finding, reading)
    if words.states is None or words.states == states:
        known = replace(own, examples=marks, changes=changes, object=object)
        unseen = any(mark.features is None for mark in known.elsewhere)
        encoder = studio.encoder_of(finding.history) if unseen else None
        return finding.ask(known, encoder=encoder, **settings)
    given = Vocabulary(words.states, object=object, examples=marks, changes=changes)
    return finding.ask(
        given,
        encoder=studio.encoder_of(finding.history),
        encoder_options=EncoderOptions(prompts=finding.made.prompts),
        **settings,
    )


def vocabulary(studio: Studio, words: Words, states: Mapping[str, Sequence[str]]) -> Vocabulary:
    """These states, with what a request shows of them."""
    own = Vocabulary(states, object=words.object)
    marks, changes = _shown(studio, own, words)
    return replace(own, examples=marks, changes=changes)


def _shown(
    studio: Studio, own: Vocabulary, words: Words
) -> tuple[Sequence[Example], Sequence[Example]]:
    """The examples and changes of a request, else those that there are."""
    marks, changes = own.examples, own.changes
    if words.examples is not None:
        marks = tuple(_example(studio, own, mark) for mark in words.examples)
    if words.changes is not None:
        changes = tuple(Example(None, (frame, frame)) for frame in words.changes)
    return marks, changes


def _settings(finding: Finding, reading: Reading) -> dict[str, Any]:
    """The options of ``Finding.ask``: as asked for, else as the finding was read."""
    asked = reading.model_dump(include=set(Reading.model_fields))
    if asked["readout"] is not None:
        return asked
    before = finding.timeline.settings
    asked["readout"] = as_read(before.get("readout", {})) or READOUTS["contrast"]
    if asked["coordinates"] is None:
        asked["coordinates"] = before.get("coordinates")
    if asked["top"] is None:
        asked["top"] = before.get("top")
    return asked


def _example(studio: Studio, own: Vocabulary, mark: Mark) -> Example:
    """Frames of the history, or something in the workspace; what the finding has already is kept
    as it is, with the features that an encoder saw."""
    state = None if mark.state == "none" else mark.state
    if mark.source is None:
        if mark.start is None:
            raise InputError("an example needs a start (and an end), or a source")
        return Example(state, (mark.start, mark.start if mark.end is None else mark.end))
    for known in own.elsewhere:
        if (known.state, known.source) == (state, mark.source):
            return known
    head, at, frame = mark.source.rpartition("@")
    numbered = bool(at) and frame.isascii() and frame.isdecimal()
    path = studio.workspace.existing(head if numbered else mark.source, "picture or video")
    return Example(state, source=f"{path}@{frame}" if numbered else str(path))


def _mark(finding: Finding, own: Example) -> Json:
    if own.span is None:
        return {"state": own.state, "start": None, "end": None, "source": own.source}
    first, end = own.positions(finding.history)
    frames = finding.history.frames
    start = int(frames[min(first, len(frames) - 1)])
    last = int(frames[max(end - 1, first, 0)]) if first < len(frames) else start
    return {"state": own.state, "start": start, "end": last, "source": None}


def objects_of(finding: Finding) -> list[int] | None:
    """The ids in the masks that are its object; None: all of them."""
    ids = (finding.history.made_with or {}).get("objects", "all").split(",")
    return [int(one) for one in ids if one.isascii() and one.isdecimal()] or None


def _prompts(studio: Studio, finding: Finding) -> list[Json]:
    """Where the object was shown to the tracker, in frames of the file."""
    masks = studio.masks_path(finding)
    notes = None if masks is None else read_notes(masks)
    return [
        {"object": own.object, "frame": own.frame, "box": own.box, "point": own.point}
        for own in (notes.prompts if notes else ())
        if own.mask is None and own.picture is None
    ]
