"""Routes of jobs: look for an object, track it, find its states, fetch weights."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import Field, TypeAdapter

from dejacue.errors import InputError
from dejacue.finding._find import find_one
from dejacue.finding.by_name import SEARCH_FILE, SearchByName, describe
from dejacue.finding.request import FindRequest, Sampling
from dejacue.masks import open_masks
from dejacue.models.catalogue import default_encoder, missing_models, model_named
from dejacue.models.detectors.base import check_names
from dejacue.models.detectors.zero_shot import DEFAULT
from dejacue.models.encoders import knows_no_words
from dejacue.models.trackers import Prompt, default_tracker
from dejacue.models.trackers.follow import follow
from dejacue.progress import Progress
from dejacue.records import Note, Vocabulary
from dejacue.studio.errors import check_revision
from dejacue.studio.findings import ReadingSettings, WordsModel, no_words, vocabulary
from dejacue.studio.jobs import ENDED, BackgroundTask, Work
from dejacue.studio.models import (
    Frame,
    Json,
    Place,
    RequestModel,
    Revision,
    StudioDep,
    Text,
    asked,
)
from dejacue.studio.state import Studio
from dejacue.studio.teaching import apply_to_store, apply_to_videos, confirmed_teachers

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
POLL_S, KEEPALIVE_S = 0.1, 15.0
OfFrames: Any = asked("start", "end", "fps", "stride", "rate")
OfTracker: Any = asked("tracker")
OfName: Any = asked("name", "encoder")
OfObject: Any = asked("name", "whole", "fixed", "masks", "encoder")


class PromptModel(RequestModel):
    """A box (x0, y0, x1, y1) around an object in a frame of the file, or a point (x, y, whether it
    lies on the object)."""

    frame: Frame
    object: Annotated[int, Field(ge=1, le=254)] = 1
    box: tuple[float, float, float, float] | None = None
    point: tuple[float, float, bool] | None = None

    def prompt(self) -> Prompt:
        if (self.box is None) == (self.point is None):
            raise InputError("a prompt needs either a box or a point")
        points = () if self.point is None else (self.point,)
        return Prompt(source=self.frame, object=self.object, box=self.box, points=points)


class OfVideo(OfFrames):  # type: ignore[misc]
    """A video of the workspace, which of its frames are used, and the folder of what is made."""

    video: Place
    folder: Place

    def request(self, studio: Studio, **fields: Any) -> FindRequest:
        """Return the request for these frames of the video; fields: what else is asked."""
        sampling = Sampling(stride=self.stride, rate=self.rate)
        frames: Json = {"start": self.start, "end": self.end, "fps": self.fps, "sampling": sampling}
        return FindRequest(studio.workspace.video(self.video), **frames, **fields)


class TrackBody(OfVideo, OfTracker):  # type: ignore[misc]
    """Track an object and write its masks to a folder of the workspace."""

    kind: Literal["track"]
    prompts: Annotated[list[PromptModel], Field(min_length=1, max_length=1000)]

    def work(self, studio: Studio) -> Work:
        prompts = [prompt.prompt() for prompt in self.prompts]
        request, folder = self.request(studio), studio.output_folder(self.folder)

        def work(progress: Progress) -> Json:
            tracker, video = studio.tracker(self.tracker), request.opened()
            tracked = follow(video, prompts, folder, tracker=tracker, progress=progress)
            studio.workspace.changed()
            doubts = [
                {"object": object, "start": doubt.first, "end": doubt.last, "text": doubt.text}
                for object, doubt in tracked.doubts_of()
            ]
            problems = (*video.problems, *tracked.problems)
            warnings = [Note(text, "doubtful").to_dict() for text in problems]
            return {"masks": self.folder, "doubts": doubts, "warnings": warnings}

        return work


class FindBody(OfVideo, OfObject, OfTracker, WordsModel, ReadingSettings):  # type: ignore[misc]
    """Make a finding of a video from prompts (or masks in the workspace, names of the object, or
    the whole picture), words (states, or a word list) and examples; a stopped job continues where
    it was. objects: numbers in the masks, or of what was found by name. revision: of the finding
    that is replaced."""

    kind: Literal["find"]
    vocabulary: Place | None = None
    prompts: Annotated[list[PromptModel], Field(max_length=1000)] = Field(default_factory=list)
    objects: Annotated[list[int], Field(min_length=1, max_length=254)] | None = None
    revision: Revision = None

    def work(self, studio: Studio) -> Work:
        prompts = [prompt.prompt() for prompt in self.prompts]
        folder, masks = studio.output_folder(self.folder), None
        check_revision(self.revision, studio.revision(folder), self.folder)
        if self.masks is not None:
            masks = studio.workspace.existing(self.masks, "masks")
            open_masks(masks)  # refuses bad ones before the job waits
        if sum(map(bool, (masks, prompts, self.name, self.whole))) != 1:
            problem = "say where the object is, in one way: a box or click, its name, its masks or "
            raise InputError(f"{problem}the whole picture")
        words: Path | Vocabulary
        if self.vocabulary is not None:
            words = studio.workspace.existing(self.vocabulary, "vocabulary")
            if self.examples or self.changes or self.exhaustive is not None:
                problem = "examples, exhaustive and changes need states; give the states of the "
                problem += "word list"
                raise InputError(problem)
        elif self.states is not None:
            words = vocabulary(studio, self)
        else:
            raise InputError("give the states and their descriptions, or a word list")
        name = self.encoder or studio.encoder_name or ""
        if knows_no_words(name) and not self.examples:
            raise no_words(name)
        reading: Any = {name: value for name, value in self.settings().items() if value is not None}
        request = self.request(
            studio,
            states=words,
            masks=masks,
            objects=self.objects,
            prompts=prompts,
            name=self.name,
            whole=self.whole,
            fixed=self.fixed,
            readout=reading,
            folder=folder,
        )

        def work(progress: Progress) -> Json:
            encoder = studio.encoder(self.encoder)
            if not encoder.has_text and not self.examples:
                raise no_words(encoder.name)
            models: Json = {"encoder": encoder, "progress": progress}
            if self.name or (prompts and not self.fixed):
                models["tracker"] = studio.tracker(self.tracker)
            if self.name:
                models["detector"] = studio.detector()
            finding = find_one(replace(request, **models))
            studio.workspace.changed()
            doubts = [{"start": w.start, "end": w.end, "text": text} for w, text in finding.doubts]
            return {
                "finding": self.folder,
                "revision": studio.revision(folder),
                "tracker": finding.provenance.tracker,
                "doubts": doubts,
                "warnings": [note.to_dict() for note in finding.warnings],
            }

        return work


class LookBody(OfVideo, OfName):  # type: ignore[misc]
    """Look for objects of these names in a video: instances to choose from, whose numbers are those
    that a finding in the same folder takes."""

    kind: Literal["look"]

    def work(self, studio: Studio) -> Work:
        request, names = self.request(studio), check_names(self.name)
        folder = studio.output_folder(self.folder)

        def work(progress: Progress) -> Json:
            encoder = studio.encoder(self.encoder)
            by_name = SearchByName(request.opened(), names, studio.detector())
            search = by_name.search(folder / SEARCH_FILE, encoder, progress)
            instances = [
                {
                    "object": instance.object,
                    "text": describe(search, instance.object),
                    "frame": instance.source,
                    "box": instance.box,
                }
                for instance in search.instances
            ]
            return {"instances": instances, "summary": search.summary}

        return work


class WeightsBody(RequestModel):
    """Download the weights of models, by name; files that are whole when it is stopped are kept."""

    kind: Literal["weights"]
    models: Annotated[list[Text], Field(min_length=1, max_length=20)]

    def work(self, studio: Studio) -> Work:
        models = [model_named(name) for name in self.models]

        def work(progress: Progress) -> Json:
            for model in models:
                if model.state != "ready":
                    model.fetch(progress)
            return {"models": self.models}

        return work


class ApplyBody(RequestModel):
    """Apply what a person confirmed in findings, the teachers, to other videos (default: all others
    of the workspace), or to the count histories of a store that look most like their objects.
    Each becomes a finding below the folder; one that a person has saved stays as it is."""

    kind: Literal["apply"]
    teachers: Annotated[list[Place], Field(min_length=1, max_length=100)]
    folder: Place
    videos: Annotated[list[Place], Field(min_length=1, max_length=100_000)] | None = None
    store: Place | None = None
    count: Annotated[int, Field(ge=1, le=10_000)] = 50

    def work(self, studio: Studio) -> Work:
        lesson = confirmed_teachers(studio, self.teachers)
        studio.workspace.place(self.folder)
        if self.store is None:
            return apply_to_videos(studio, lesson, self.folder, self.videos)
        if self.videos is not None:
            raise InputError("videos are given as well as a store; leave one of them out")
        return apply_to_store(studio, lesson, self.folder, self.store, self.count)


AnyBody = TrackBody | FindBody | LookBody | WeightsBody | ApplyBody
JobBody = Annotated[AnyBody, Field(discriminator="kind")]


@router.get("")
def list_jobs(studio: StudioDep) -> list[Json]:
    """List all jobs, latest first; those that a killed studio left are interrupted."""
    return [_document(studio, job) for job in studio.jobs.all()]


@router.post("", status_code=202)
def new_job(body: JobBody, studio: StudioDep) -> Json:
    """Start a job, or queue it behind the running one; obvious errors are reported at once."""
    return _add(studio, body)


@router.get("/missing")
def missing(
    studio: StudioDep,
    encoder: Text | None = None,
    tracker: Text | None = None,
    by_name: bool = False,
    tracked: bool = True,
) -> list[Json]:
    """List the models that a job would need and that are not on this machine. tracked: whether a
    tracker follows the object"""
    chosen = {"encoder": encoder or studio.encoder_name or default_encoder()}
    if tracked:
        chosen["tracker"] = tracker or studio.tracker_name or default_tracker() or "sam2"
    if by_name:
        chosen["detector"] = DEFAULT
    return [
        {"name": m.name, "kind": kind, "size": m.size(), "licence": m.licence}
        for kind, m in missing_models(**chosen).items()
    ]


@router.get("/{job}")
def read_job(job: str, studio: StudioDep) -> Json:
    """Return the progress of a job."""
    return _document(studio, studio.jobs.get(job))


@router.post("/{job}/again", status_code=202)
def again(job: str, studio: StudioDep) -> Json:
    """Start the same job again, in its place: it continues from what was kept."""
    document = _add(studio, TypeAdapter(JobBody).validate_python(studio.jobs.get(job).request))
    studio.jobs.remove(job)
    return document


@router.delete("/{job}")
def cancel(job: str, studio: StudioDep) -> Json:
    """Stop a job; what it has done is kept and reused."""
    return _document(studio, studio.jobs.cancel(job))


@router.get("/{job}/events", response_class=StreamingResponse)
async def events(job: str, request: Request, studio: StudioDep) -> StreamingResponse:
    """Send the job, then what has changed of it (and only new rows), as server-sent events, until
    it ends."""
    events = _events(studio, studio.jobs.get(job), request)
    return StreamingResponse(events, media_type="text/event-stream")


async def _events(studio: Studio, job: BackgroundTask, request: Request) -> AsyncIterator[str]:
    sent: Json = {"version": -1, "rows": []}
    quiet_s = 0.0
    while not studio.ending and not await request.is_disconnected():
        document = _document(studio, job)
        if document["version"] != sent["version"]:
            known = sent.items()
            changes = {key: value for key, value in document.items() if (key, value) not in known}
            changes["rows"] = document["rows"][len(sent["rows"]) :]
            sent, quiet_s = document, 0.0
            yield f"data: {json.dumps(changes)}\n\n"
        if document["state"] in ENDED:
            return
        if quiet_s >= KEEPALIVE_S:
            quiet_s = 0.0
            yield ": alive\n\n"
        await asyncio.sleep(POLL_S)
        quiet_s += POLL_S


def _document(studio: Studio, job: BackgroundTask) -> Json:
    """Return the job as the page sees it, with ids instead of paths."""
    document = job.to_dict()
    if job.problem is not None:
        document["problem"] = studio.workspace.as_ids(job.problem)
    if isinstance(job.result, dict) and "warnings" in job.result:
        warnings = [
            {**note, "text": studio.workspace.as_ids(note["text"])}
            for note in job.result["warnings"]
        ]
        document["result"] = {**job.result, "warnings": warnings}
    return document


def _add(studio: Studio, body: AnyBody) -> Json:
    job = studio.jobs.add(body.kind, body.model_dump(), body.work(studio))
    return _document(studio, job)
