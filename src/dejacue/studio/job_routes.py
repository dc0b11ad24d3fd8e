"""Jobs: follow an object and find its states, follow it alone, measure against references."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Request
from fastapi.responses import StreamingResponse
from pydantic import Field

from dejacue.errors import InputError
from dejacue.pipeline import Job as EncodingJob
from dejacue.pipeline import ReadOptions, Search, VideoOptions, track
from dejacue.progress import Progress
from dejacue.sources.findings import DOCUMENT
from dejacue.sources.masks import open_masks
from dejacue.sources.tracks import RawPrompt
from dejacue.studio.corpus import measured
from dejacue.studio.findings import vocabulary
from dejacue.studio.jobs import Job, Work
from dejacue.studio.models import (
    PROBLEMS,
    Asked,
    Frame,
    Object,
    Own,
    Reading,
    Text,
    Words,
    owner_only,
)
from dejacue.studio.state import Studio

router = APIRouter(
    prefix="/api/jobs", tags=["jobs"], responses=PROBLEMS, dependencies=[Depends(owner_only)]
)
EVERY_S, ALIVE_S = 0.1, 15.0  # between two looks at a job; between signs of life
Place = Annotated[str, Field(min_length=1, max_length=1024)]


class Pointed(Asked):
    """Where an object is, in a frame of the file: a box (x0, y0, x1, y1), or a point (x, y, whether
    it lies on the object)."""

    frame: Frame
    object: Annotated[int, Field(ge=1, le=254)] = 1
    box: tuple[float, float, float, float] | None = None
    point: tuple[float, float, bool] | None = None


class Sampled(Asked):
    """Which frames are looked at, as ``open_video`` takes them."""

    start: Frame | None = None
    end: Frame | None = None
    stride: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    fps: Annotated[float, Field(gt=0, le=1000)] | None = None
    rate: Annotated[float, Field(gt=0, le=1000)] | None = None


class Track(Sampled):
    """Track an object: masks in a folder of the workspace."""

    kind: Literal["track"]
    video: Place
    folder: Place
    prompts: Annotated[list[Pointed], Field(min_length=1, max_length=1000)]
    tracker: Text | None = None


class Find(Sampled, Words, Reading):
    """From a video to a finding: where the object is (prompts, or masks in the workspace), the
    words (states, or a word list) and what is shown; asked for again, it goes on where it was."""

    kind: Literal["find"]
    video: Place
    folder: Place
    vocabulary: Place | None = None
    prompts: Annotated[list[Pointed], Field(max_length=1000)] = Field(default_factory=list)
    masks: Place | None = None
    objects: Annotated[list[int], Field(min_length=1, max_length=254)] | None = None
    encoder: Text | None = None
    tracker: Text | None = None


class Evaluate(Asked):
    """Measure findings against references; methods: name → findings, default: all of them."""

    kind: Literal["evaluate"]
    methods: dict[Text, list[Place]] | None = None
    references: Place | None = None


New = Annotated[Track | Find | Evaluate, Body(discriminator="kind")]


@router.get("")
def list_jobs(studio: Own) -> list[Object]:
    """All jobs since the studio started, latest first."""
    return [_told(studio, job) for job in studio.jobs.all()]


@router.post("", status_code=202)
def new_job(asked: New, studio: Own) -> Object:
    """Starts a job, or queues it behind the running one; obvious errors are reported at once."""
    return _told(studio, _added(studio, asked))


@router.get("/{job}")
def one_job(job: str, studio: Own) -> Object:
    """The progress of a job."""
    return _told(studio, studio.jobs.get(job))


@router.post("/{job}/again", status_code=202)
def again(job: str, studio: Own) -> Object:
    """The same job again: it continues from what was kept."""
    before = studio.jobs.get(job)
    kinds: dict[str, type[Asked]] = {"track": Track, "find": Find, "evaluate": Evaluate}
    return _told(studio, _added(studio, kinds[before.kind].model_validate(before.asked)))


@router.delete("/{job}")
def cancel(job: str, studio: Own) -> Object:
    """Stops a job; what it has done is kept and reused."""
    return _told(studio, studio.jobs.cancel(job))


@router.get("/{job}/events", response_class=StreamingResponse)
async def events(job: str, request: Request, studio: Own) -> StreamingResponse:
    """The job whenever it changes, as server-sent events; ends with the job."""
    found = studio.jobs.get(job)
    return StreamingResponse(_events(studio, found, request), media_type="text/event-stream")


async def _events(studio: Studio, job: Job, request: Request) -> AsyncIterator[str]:
    seen, quiet_s = -1, 0.0
    while not studio.ending and not await request.is_disconnected():
        version, ended = job.version, job.ended
        if version != seen:
            seen, quiet_s = version, 0.0
            yield f"data: {json.dumps(_told(studio, job))}\n\n"
        if ended:
            return
        if quiet_s >= ALIVE_S:
            quiet_s = 0.0
            yield ": alive\n\n"
        await asyncio.sleep(EVERY_S)
        quiet_s += EVERY_S


def _told(studio: Studio, job: Job) -> Object:
    """The job, with ids instead of places."""
    found = job.told()
    if job.problem is not None:
        found["problem"] = studio.workspace.as_ids(job.problem)
    if isinstance(job.result, dict) and "warnings" in job.result:
        said = [studio.workspace.as_ids(text) for text in job.result["warnings"]]
        found["result"] = {**job.result, "warnings": said}
    return found


def _added(studio: Studio, asked: Any) -> Job:
    make: dict[str, Callable[[Studio, Any], Work]] = {
        "track": _track,
        "find": _find,
        "evaluate": _evaluate,
    }
    work = make[asked.kind](studio, asked)
    return studio.jobs.add(asked.kind, asked.model_dump(), work)


def _prompts(given: list[Pointed]) -> list[RawPrompt]:
    for own in given:
        if (own.box is None) == (own.point is None):
            raise InputError("a prompt needs either a box or a point")
    return [RawPrompt(own.object, own.frame, box=own.box, point=own.point) for own in given]


def _sampling(asked: Sampled) -> VideoOptions:
    return VideoOptions(**asked.model_dump(include=set(Sampled.model_fields)))


def _folder(studio: Studio, id: str) -> Any:
    """A folder that is new, empty, or of an earlier run; finding.json: the workspace itself."""
    folder = studio.workspace.root if id == DOCUMENT else studio.workspace.place(id)
    if folder.is_dir():
        names = os.listdir(folder)
        ours = (DOCUMENT, "masks", "track.json")
        if names and not any(n in ours or n.endswith((".npz", ".partial")) for n in names):
            raise InputError(f'"{id}" contains other files; give a new folder')
    elif folder.exists():
        raise InputError(f'"{id}" is a file; give a folder')
    return folder


def _track(studio: Studio, asked: Track) -> Work:
    path, prompts = studio.workspace.video(asked.video), _prompts(asked.prompts)
    folder = _folder(studio, asked.folder)
    video = EncodingJob(video=path, sampling=_sampling(asked))

    def work(progress: Progress) -> Any:
        tracker = studio.tracker(asked.tracker)
        found = track(video.open(), prompts, folder, tracker=tracker, progress=progress)
        studio.workspace.changed()
        doubts = [
            {"object": one, "start": own.first, "end": own.last, "text": own.text}
            for one, own in found.notes.doubts_of()
        ]
        return {"masks": asked.folder, "doubts": doubts, "warnings": list(found.warnings)}

    return work


def _find(studio: Studio, asked: Find) -> Work:
    path, prompts = studio.workspace.video(asked.video), _prompts(asked.prompts)
    folder, masks = _folder(studio, asked.folder), None
    if asked.masks is not None:
        masks = studio.workspace.existing(asked.masks, "masks")
        open_masks(masks)  # what is wrong with them is said before the job waits
    if (masks is None) == (not prompts):
        raise InputError("mark the object with a box, a click or masks")
    words: Any = None
    if asked.vocabulary is not None:
        words = studio.workspace.existing(asked.vocabulary, "vocabulary")
        if asked.examples or asked.changes:
            raise InputError("examples and changes need states; give the states of the word list")
    elif asked.states is not None:
        words = vocabulary(studio, asked, asked.states)
    else:
        raise InputError("give the states and their descriptions, or a word list")
    given = asked.model_dump(include=set(Reading.model_fields), exclude_none=True)

    def work(progress: Progress) -> Any:
        job = EncodingJob(
            video=path,
            sampling=_sampling(asked),
            masks=masks,
            prompts=prompts,
            objects=asked.objects,
            tracker=studio.tracker(asked.tracker) if prompts else None,
            encoder=studio.encoder(asked.encoder),
        )
        search = Search(path, words, job, ReadOptions(**given), None, folder, progress=progress)
        found = search.finding()
        studio.workspace.changed()
        doubts = [{"start": w.start, "end": w.end, "text": text} for w, text in found.doubts]
        return {"finding": asked.folder, "doubts": doubts, "warnings": list(found.warnings)}

    return work


def _evaluate(studio: Studio, asked: Evaluate) -> Work:
    def work(progress: Progress) -> Any:
        return measured(studio, asked.methods, asked.references, progress)

    return work
