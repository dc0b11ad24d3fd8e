"""Routes of findings: list them, show one, read it again with other words, save what was read."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Response
from fastapi import Path as InPath
from pydantic import Field

from dejacue.errors import DejaCueError, InputError, unknown
from dejacue.files.findings import read_document
from dejacue.files.histories import file_name
from dejacue.files.npz import read_npz
from dejacue.finding.finding import Finding
from dejacue.masks._region import is_region, open_region
from dejacue.method.localization import READOUTS, readout_from
from dejacue.method.strips import Border, Strip, marked, open_borders
from dejacue.models.trackers import read_notes
from dejacue.records import Example, Note, Vocabulary
from dejacue.records.note import in_order
from dejacue.records.vocabulary import NONE
from dejacue.report.exports import EXPORTS
from dejacue.studio.errors import NotThere, check_revision
from dejacue.studio.models import (
    Frame,
    Id,
    Json,
    PairsToo,
    RequestModel,
    Revision,
    StudioDep,
    Text,
)
from dejacue.studio.state import Studio

QuestionCount = Annotated[int, Field(ge=0, le=20)]
CurveLimit = Annotated[int, Field(ge=100, le=100_000_000)]
APPLIED = "applied"  # option of a finding that was made by applying others, until a person saves it


class ExampleModel(RequestModel):
    """An example of a state (None: of none of them): frames of the history, or a picture that lies
    in the workspace (pictures/cup.jpg, kitchen.mp4@120)."""

    state: Text | None = None
    start: Frame | None = None
    end: Frame | None = None
    source: Text | None = None


class ReadingSettings(RequestModel):
    """The settings of the readout; fields that you omit stay as the finding was read, or are the
    defaults of another readout."""

    readout: Text | None = None
    coordinates: Text | None = None
    smoothing: Annotated[int, Field(ge=1, le=100_000)] | None = None

    def settings(self) -> dict[str, Any]:
        return self.model_dump(include=set(ReadingSettings.model_fields))


class WordsModel(RequestModel):
    """States with their descriptions, and examples; fields that you omit stay as the finding has
    them. exhaustive: whether every frame shows one of the states."""

    object: Text | None = None
    states: (
        Annotated[
            dict[Text, Annotated[list[Text], Field(max_length=100)]],
            Field(max_length=50),
            PairsToo,
        ]
        | None
    ) = None
    examples: Annotated[list[ExampleModel], Field(max_length=10_000)] | None = None
    changes: Annotated[list[Frame], Field(max_length=10_000)] | None = None
    exhaustive: bool | None = None


class ReadBody(WordsModel, ReadingSettings):
    """Says what to read, and what to return beside it.

    segments    also return stretches that look alike
    questions   the number of frames worth an answer to return
    most        the total number of curve values, beyond which curves are thinned
    """

    segments: bool = False
    questions: QuestionCount = 0
    most: CurveLimit | None = None


class CompareBody(WordsModel):
    """Words, and several ways to read them."""

    readings: Annotated[list[ReadingSettings], Field(min_length=1, max_length=12)]
    most: CurveLimit | None = None


class SaveBody(WordsModel, ReadingSettings):
    """Says what to read, and the folder to write it to (default: that of the finding itself).

    revision   of the finding that is replaced
    """

    folder: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    revision: Revision = None


class BorderModel(RequestModel):
    """A border of a state that is not known to a frame; frames of the history."""

    state: Text
    side: Literal["start", "end"]
    inside: Frame
    outside: Frame | None = None


def _border(border: BorderModel | None) -> Border | None:
    return None if border is None else Border(**border.model_dump())


class StripBody(WordsModel, ReadingSettings):
    """Words and examples, and the strip to show of them: whole, or over a border."""

    count: Annotated[int, Field(ge=2, le=100)] = 12
    border: BorderModel | None = None


class MarkBody(WordsModel, ReadingSettings):
    """Says what a person saw on the pictures of a strip: state ("none": none of them) → first and
    last picture of each stretch, counted from 0."""

    frames: Annotated[list[Frame], Field(min_length=2, max_length=100)]
    border: BorderModel | None = None
    marks: Annotated[dict[Text, list[tuple[int, int]]], Field(max_length=51)]


def _finding(id: Id, studio: StudioDep) -> Finding:
    return studio.finding(id)


router = APIRouter(prefix="/api/findings", tags=["findings"])
FindingDep = Annotated[Finding, Depends(_finding)]


@router.get("")
def list_findings(studio: StudioDep) -> list[Json]:
    """List the findings of the workspace: object, states, intervals, doubts and notes of each."""
    return [finding_row(studio, id) for id in studio.workspace.contents().findings]


@router.get("/{id:path}/info")
def info(id: Id, studio: StudioDep, finding: FindingDep) -> Json:
    """Return how a finding was made, with its words."""
    scene = finding.scene(thumbnails=(), most=100)
    return {
        "id": id,
        "revision": studio.revision(studio.folder(id)),
        "history": finding.history.id,
        "video": studio.video_of(finding.provenance),
        "object": finding.vocabulary.object,
        "encoder": finding.history.encoder,
        "tracker": finding.provenance.tracker,
        "prompts": _prompts(studio, finding),
        "masks": studio.workspace.id_of(studio.masks_path(finding)),
        "objects": objects_of(finding),
        "options": dict(finding.provenance.options),
        "states": {state: list(texts) for state, texts in finding.vocabulary.states.items()},
        "order": list(finding.vocabulary.states),
        "examples": [_mark(finding, example) for example in finding.vocabulary.examples],
        "changes": scene["changes"],
        "exhaustive": finding.vocabulary.exhaustive,
        "settings": scene["settings"],
        "warnings": [note.to_dict() for note in finding.warnings],
    }


@router.get("/{id:path}/scene")
def scene(
    id: Id,
    studio: StudioDep,
    finding: FindingDep,
    segments: bool = False,
    questions: QuestionCount = 0,
    most: CurveLimit | None = None,
) -> Json:
    """Return the scene of a finding, as a timeline draws it (dejacue.scene/1)."""
    return draw(studio, id, finding, segments, questions, most)


@router.post("/{id:path}/read")
def read(id: Id, body: ReadBody, studio: StudioDep, finding: FindingDep) -> Json:
    """Read the same object with other words, examples or settings: a scene; nothing is written."""
    again = reread(studio, finding, body, body)
    return draw(studio, id, again, body.segments, body.questions, body.most)


@router.post("/{id:path}/compare")
def compare(id: Id, body: CompareBody, studio: StudioDep, finding: FindingDep) -> list[Json]:
    """Read the same words in several ways, each with a scene or a problem."""
    answers: list[Json] = []
    for reading in body.readings:
        answer: Json = {"reading": reading.model_dump(), "scene": None, "problem": None}
        try:
            again = reread(studio, finding, body, reading)
            answer["scene"] = draw(studio, id, again, most=body.most)
        except DejaCueError as error:
            answer["problem"] = str(error)
        answers.append(answer)
    return answers


def _with_shown_states(body: WordsModel) -> WordsModel:
    """Return the words without states that neither words nor examples show yet."""
    if body.states is None or body.examples is None:
        return body
    with_examples = {example.state for example in body.examples}
    states = {
        state: texts for state, texts in body.states.items() if texts or state in with_examples
    }
    return body.model_copy(update={"states": states})


def _needs_marks(words: WordsModel) -> bool:
    """Return whether it has one state, which cannot be read until something shows it."""
    return words.states is not None and len(words.states) < 2 and not words.examples


def _first_marks(body: MarkBody) -> list[ExampleModel]:
    """Return an example of each state that is marked on a strip."""
    return [
        ExampleModel(state=state, start=body.frames[first - 1], end=body.frames[last - 1])
        for state, spans in body.marks.items()
        for first, last in spans[:1]
        if state in (body.states or ()) and 1 <= first <= last <= len(body.frames)
    ]


@router.post("/{id:path}/strip")
def strip(id: Id, body: StripBody, studio: StudioDep, finding: FindingDep) -> Json:
    """Return frames side by side to be marked, and what is believed of each."""
    words = _with_shown_states(body)
    again = finding if _needs_marks(words) else reread(studio, finding, words, body)
    pictures = again.strip(body.count, border=_border(body.border))
    return {
        "frames": pictures.frames,
        "believed": pictures.believed,
        "missing": None if studio.video_of(again.provenance) else pictures.missing,
    }


@router.post("/{id:path}/mark")
def mark(id: Id, body: MarkBody, studio: StudioDep, finding: FindingDep) -> Json:
    """Return the examples with what was marked on a strip, and the borders that are still open, the
    widest first; nothing is written."""
    frames = tuple(body.frames)
    words = _with_shown_states(body)
    if _needs_marks(words):
        words = _with_shown_states(body.model_copy(update={"examples": _first_marks(body)}))
    again = reread(studio, finding, words, body)
    pictures = Strip(again.history, frames, (None,) * len(frames), _border(body.border))
    spans: dict[str | None, Any] = dict(body.marks.items())
    for state in set(spans) - {NONE, *again.vocabulary.states, *(body.states or ())}:
        raise unknown("state", state, again.vocabulary.states)
    known = marked(again.history, again.vocabulary, pictures, spans)
    return {
        "examples": [_mark(again, example) for example in known.examples],
        "borders": [border._asdict() for border in open_borders(again.history, known)],
    }


@router.put("/{id:path}")
def save(id: Id, body: SaveBody, studio: StudioDep) -> Json:
    """Read as ``read`` does and write the result: over the finding, or to another folder."""
    studio.jobs.check_free(body.folder or id)
    finding = reread(studio, studio.finding(id), body, body)
    options = {name: value for name, value in finding.provenance.options.items() if name != APPLIED}
    finding = replace(finding, provenance=replace(finding.provenance, options=options))
    folder = studio.folder(id)
    if body.folder is not None:
        folder = studio.workspace.place(body.folder)
        if folder.is_dir() and os.listdir(folder) and not (folder / "finding.json").is_file():
            raise InputError(f'"{body.folder}" contains other files; give another folder')
    with studio.saving:
        check_revision(body.revision, studio.revision(folder), body.folder or id)
        finding.save(folder)
        studio.workspace.changed()
        revision = studio.revision(folder)
    return {**draw(studio, studio.workspace.finding_id(folder), finding), "revision": revision}


@router.get("/{id:path}/segments")
def segments(
    finding: FindingDep, count: Annotated[int, Query(ge=1, le=10_000)] | None = None
) -> list[list[int]]:
    """Return stretches of frames that look alike."""
    return [[window.start, window.end] for window in finding.segments(count)]


@router.get("/{id:path}/thumbnails/{frame}.jpg", response_class=Response)
def thumbnail(
    finding: FindingDep, frame: Annotated[int, InPath(ge=0)], object: bool = False
) -> Response:
    """Return a small picture of a frame with the object outlined, or of the object alone; the scene
    lists the frames that have one."""
    pictures = finding.crops if object else finding.thumbnails
    if frame not in pictures:
        raise NotThere(f"there is no thumbnail of frame {frame}")
    return Response(pictures[frame], media_type="image/jpeg")


@router.get("/{id:path}/export/{kind}", response_class=Response)
def export(id: Id, kind: str, studio: StudioDep, finding: FindingDep) -> Response:
    """Return the finding in the format of another tool, or the report (kind: report)."""
    name = file_name(finding.history.id)
    if kind == "report":
        references, _ = studio.references(id, finding.history.id, finding.provenance)
        page = finding.report(references=references)
        return _attached(page.encode(), f"{name}.report.html", "text/html")
    if kind not in EXPORTS:
        raise unknown("export", kind, [*EXPORTS, "report"])
    with tempfile.TemporaryDirectory() as folder:
        path = finding.export(Path(folder, "export"), kind)
        name = f"{name}{EXPORTS[kind].suffix}"
        return _attached(path.read_bytes(), name, "application/octet-stream")


def _attached(data: bytes, name: str, kind: str) -> Response:
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
    return Response(data, media_type=kind, headers=headers)


def finding_row(studio: Studio, id: str) -> Json:
    """Return what its card shows of a finding, from its document alone; a damaged one has a
    problem."""
    return {"id": id, **studio.summary(id, _read_row)}


def _read_row(folder: Path) -> Json:
    row: Json = {"doubts": 0, "states": [], "intervals": [], "notes": [], "problem": None}
    row |= {"object": None, "encoder": None, "trust": None, "confidence": None}
    try:
        document = read_document(folder)
        words = read_npz(folder / document.files.get("vocabulary", ""), ("object",))
    except (InputError, OSError) as error:
        return row | {"problem": str(error).replace(f"{folder}/", "")}
    timeline = document.timeline
    notes = in_order((*document.warnings, *timeline.notes))
    best = [interval for state in timeline.states if (interval := timeline.best(state))]
    least = min(
        best,
        key=lambda i: (i.confirmed, -math.inf if i.confidence is None else i.confidence),
        default=None,
    )
    return row | {
        "object": str(words["object"]) if "object" in words else None,
        "encoder": document.provenance.encoder,
        "doubts": len(document.doubts),
        "notes": [note.to_dict() for note in notes],
        "states": list(timeline.states),
        "intervals": [interval.to_dict() for interval in timeline],
        "trust": least and least.trust,
        "confidence": least and least.confidence,
    }


def draw(
    studio: Studio,
    id: str,
    finding: Finding,
    segments: bool = False,
    questions: int = 0,
    most: int | None = None,
) -> Json:
    """Return the scene, with addresses of pictures and ids instead of paths."""
    place = f"/api/findings/{quote(id)}/thumbnails"
    references, notes = studio.references(id, finding.history.id, finding.provenance)
    scene = finding.scene(
        references=references,
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
    if scene["comparison"] is not None:
        text = f"compared with the complete reference: {scene['comparison']['text']}"
        notes = [Note(text, "information"), *notes]
    listed = [*scene["notes"], *(note.to_dict() for note in notes)]
    return {**scene, "notes": listed, "video": studio.video_of(finding.provenance)}


def reread(
    studio: Studio, finding: Finding, words: WordsModel, reading: ReadingSettings
) -> Finding:
    """Read a finding again with the words, examples and settings of a request."""
    settings = reading.settings()
    if reading.readout is None:  # as the finding was read
        before = finding.timeline.settings
        settings["readout"] = readout_from(before.get("readout", {})) or READOUTS["timeline"]
        settings["coordinates"] = reading.coordinates or before.get("coordinates")
    known = vocabulary(studio, words, finding.vocabulary)
    encoder = None
    if [*known.states.items()] != [*finding.vocabulary.states.items()]:
        encoder = studio.encoder_of(finding.history)
        if not encoder.has_text and not known.examples:
            raise no_words(encoder.name)
    elif any(example.features is None for example in known.external_examples):
        encoder = studio.encoder_of(finding.history)
    return finding.with_words(known, encoder=encoder, **settings)


def no_words(encoder: str) -> InputError:
    """Return the refusal of words alone for an encoder that knows none."""
    remedy = "show a frame of each state, or choose another encoder"
    return InputError(f"{encoder} knows no words; {remedy}")


def vocabulary(studio: Studio, words: WordsModel, before: Vocabulary | None = None) -> Vocabulary:
    """Return the states, examples and changes of a request; what it omits is as before."""
    given: dict[str, Any] = {}
    if words.examples is not None:
        known = () if before is None else before.external_examples
        given["examples"] = tuple(_example(studio, known, mark) for mark in words.examples)
    if words.changes is not None:
        given["changes"] = tuple(Example(None, (frame, frame)) for frame in words.changes)
    if "object" in words.model_fields_set:
        given["object"] = words.object
    if words.exhaustive is not None:
        given["exhaustive"] = words.exhaustive
    if before is None:
        return Vocabulary(words.states or {}, **given)
    same_words = [(state, list(texts)) for state, texts in before.states.items()]
    if words.states is None or same_words == list(words.states.items()):
        return replace(before, **given)
    kept = ("examples", "changes", "object", "exhaustive")
    return Vocabulary(words.states, **{name: getattr(before, name) for name in kept} | given)


def _example(studio: Studio, known: Sequence[Example], mark: ExampleModel) -> Example:
    """Return the example of a request; one that the finding has already keeps its features."""
    state = None if mark.state == "none" else mark.state
    if mark.source is None:
        if mark.start is None:
            raise InputError("an example needs a start (and an end), or a source")
        return Example(state, (mark.start, mark.start if mark.end is None else mark.end))
    for example in known:
        if (example.state, example.source) == (state, mark.source):
            return example
    head, at, frame = mark.source.rpartition("@")
    numbered = bool(at) and frame.isascii() and frame.isdecimal()
    path = studio.workspace.existing(head if numbered else mark.source, "picture or video")
    return Example(state, source=f"{path}@{frame}" if numbered else str(path))


def _mark(finding: Finding, example: Example) -> Json:
    if example.span is None:
        return {"state": example.state, "start": None, "end": None, "source": example.source}
    first, end = example.positions(finding.history)
    frames = finding.history.frames
    start = int(frames[min(first, len(frames) - 1)])
    last = int(frames[max(end - 1, first, 0)]) if first < len(frames) else start
    return {"state": example.state, "start": start, "end": last, "source": None}


def objects_of(finding: Finding) -> list[int] | None:
    """Return the ids in the masks that are its object; None: all of them."""
    ids = (finding.history.made_with or {}).get("objects", "all").split(",")
    return [int(id) for id in ids if id.isascii() and id.isdecimal()] or None


def _prompts(studio: Studio, finding: Finding) -> list[Json]:
    """Return the boxes and clicks that a person has made, in frames of the file."""
    masks = studio.masks_path(finding)
    if masks is not None and is_region(masks):
        return [
            {"object": object, "frame": frame, "box": box, "point": None}
            for object, boxes in open_region(masks).region.boxes.items()
            for frame, box in sorted(boxes.items())
        ]
    notes = None if masks is None else read_notes(masks)
    return [
        {"object": prompt.object, "frame": prompt.source, "box": box, "point": point}
        for prompt in (notes.prompts if notes else ())
        for box, point in [(prompt.box, None), *((None, point) for point in prompt.points)]
        if box or point
    ]
