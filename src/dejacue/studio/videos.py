"""Videos: the file itself, the time stamps of its frames, any frame as a picture, masks."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
from fastapi import APIRouter, Depends, Query, Response
from fastapi import Path as InPath
from fastapi.responses import FileResponse
from numpy.typing import NDArray
from pydantic import Field

from dejacue.errors import InputError
from dejacue.pipeline import Finding
from dejacue.report.scene import packed
from dejacue.sources.crops import crop
from dejacue.sources.frames import Frames, jpeg
from dejacue.sources.tracks import Prompt
from dejacue.sources.tracks.prompts import united
from dejacue.sources.video import Frame as VideoFrame
from dejacue.studio.errors import NotThere
from dejacue.studio.findings import objects_of
from dejacue.studio.models import (
    MOST_FRAME,
    PROBLEMS,
    Asked,
    Frame,
    Id,
    Object,
    Own,
    Text,
    owner_only,
)
from dejacue.studio.state import Studio
from dejacue.studio.workspace import MEDIA

MOST_SIDE = 640  # pixels of the mask that is followed; finer steps are not seen
Polygon = list[tuple[float, float]]


def outline(mask: NDArray[np.bool_]) -> list[Polygon]:
    """Closed lines (x, y) around the pixels of a mask, holes included, in pixels of the frame."""
    from contourpy import contour_generator

    step = max(1, -(-max(mask.shape) // MOST_SIDE))
    height, width = (-(-side // step) * step for side in mask.shape)
    whole = np.zeros((height, width), bool)
    whole[: mask.shape[0], : mask.shape[1]] = mask
    rows = np.logical_or.reduce([whole[n::step] for n in range(step)])  # faster than .any(axis=…)
    small = np.logical_or.reduce([rows[:, n::step] for n in range(step)])
    if not small.any():
        return []
    y, x = (np.flatnonzero(small.any(axis=axis)) for axis in (1, 0))
    part = small[y[0] : y[-1] + 1, x[0] : x[-1] + 1]
    padded = np.pad(part.astype(np.float32), 1)  # a line closes at the border, too
    found = []
    for line in contour_generator(z=padded).lines(0.5):
        points = (np.asarray(line)[:-1] - 0.5 + (x[0], y[0])) * step
        before, after = points - np.roll(points, 1, 0), np.roll(points, -1, 0) - points
        turns = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
        kept = points[np.abs(turns) > 1e-6]  # a corner, not a point on a straight line
        if len(kept) >= 3:
            limit = (mask.shape[1], mask.shape[0])
            found.append([(float(x), float(y)) for x, y in kept.clip((0, 0), limit)])
    return found


router = APIRouter(tags=["videos"], responses=PROBLEMS)
PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {}}, "description": "A JPEG picture."}
}
PLAYED = ("h264", "vp8", "vp9", "av1", "theora")  # codecs that browsers may have
Number = Annotated[int, InPath(ge=0, le=MOST_FRAME)]
Width = Annotated[int, Query(ge=16, le=4096)]


class Preview(Asked):
    """Where the object is in a frame of the file: a box (x0, y0, x1, y1), or points (x, y, whether
    it lies on the object), in pixels."""

    frame: Frame
    box: tuple[float, float, float, float] | None = None
    points: Annotated[tuple[tuple[float, float, bool], ...], Field(max_length=100)] = ()
    tracker: Text | None = None


@router.get("/api/videos")
def list_videos(studio: Own) -> list[Object]:
    """The videos of the workspace: files, and folders of images."""
    root = studio.workspace.root
    return [
        {"id": id, "kind": "file" if (root / id).is_file() else "images"}
        for id in studio.workspace.contents().videos
    ]


@router.get("/api/videos/{id:path}/info")
def info(id: Id, studio: Own) -> Object:
    """Size, codec, number of frames, and whether a browser is likely to play it."""
    path = studio.workspace.video(id)
    frames = studio.frames(path)
    return {
        "id": id,
        "kind": "file" if path.is_file() else "images",
        "codec": frames.codec,
        "width": frames.width,
        "height": frames.height,
        "frames": len(frames),
        "playable": path.is_file() and frames.codec in PLAYED and path.suffix.lower() in MEDIA,
        "seconds": None if frames.times_s is None else float(frames.times_s[-1]),
        "findings": [
            own
            for own in studio.workspace.contents().findings
            if studio.video_of(studio.made(own)) == id
        ],
    }


@router.get("/api/videos/{id:path}/file", response_class=FileResponse)
def file(id: Id, studio: Own) -> FileResponse:
    """The file, unchanged; supports Range. It is an attachment: it plays in our page, and nothing
    in it is shown as a page of its own."""
    path = studio.workspace.video(id)
    if not path.is_file() or path.suffix.lower() not in MEDIA:
        raise NotThere(f'"{id}" is a folder of images, not a playable file')
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(path.name)}"}
    return FileResponse(path, media_type=MEDIA[path.suffix.lower()], headers=headers)


@router.get("/api/videos/{id:path}/times")
def times(id: Id, studio: Own) -> Object:
    """When each frame is shown, in seconds since the start of the stream (packed f64; null: images
    have no times); start: what a player adds where its clock does not begin there."""
    frames = studio.frames(studio.workspace.video(id))
    known = frames.times_s
    return {
        "frames": len(frames),
        "start": frames.start_s,
        "times": None if known is None else packed(known, "f64"),
    }


@router.get("/api/videos/{id:path}/frames/{number}.jpg", response_class=Response, responses=PICTURE)
def frame(id: Id, number: Number, studio: Own, width: Width | None = None) -> Response:
    """A frame of the file, decoded by the server and found by its timestamp."""
    frames = studio.frames(studio.workspace.video(id))
    _check(frames, number)
    return _picture(jpeg(frames.image(number), width))


@router.post("/api/videos/{id:path}/preview", dependencies=[Depends(owner_only)])
def preview(id: Id, asked: Preview, studio: Own) -> Object:
    """The outline of the object that a tracker sees in one frame."""
    frames = studio.frames(studio.workspace.video(id))
    _check(frames, asked.frame)
    image = frames.image(asked.frame)
    prompt = Prompt(0, 1, asked.box, asked.points)
    if asked.box is None and not any(inside for *_, inside in asked.points):
        raise InputError("draw a box around the object, or click on it")
    checked = united([prompt], image.shape[:2])
    tracker = studio.tracker(asked.tracker)
    seen = tracker.session().step(image, [checked])[1]
    return {
        "tracker": tracker.name,
        "presence": seen.presence,
        "outline": outline(seen.mask),
        "width": image.shape[1],
        "height": image.shape[0],
    }


@router.get(
    "/api/findings/{id:path}/crops/{number}.jpg", response_class=Response, responses=PICTURE
)
def crop_picture(
    id: Id, number: Number, studio: Own, width: Width | None = None, file: bool = False
) -> Response:
    """What the encoder saw of the object in a frame of the history; file: of the file."""
    frames, source, mask = _seen(studio, studio.finding(id), number, file)
    if mask is None:
        raise NotThere(f"the object is not seen in frame {number}")
    # asked for anew each time: another pass of the tracker may see another object
    return _picture(jpeg(crop(frames.image(source), mask), width), "no-cache")


@router.get("/api/findings/{id:path}/outline/{number}")
def outline_of(id: Id, number: Number, studio: Own, file: bool = False) -> Object:
    """Polygons around the object in a frame of the history (file: of the file), in pixels of the
    video; none where it is not seen."""
    frames, _, mask = _seen(studio, studio.finding(id), number, file)
    return {
        "frame": number,
        "width": frames.width,
        "height": frames.height,
        "outline": [] if mask is None else outline(mask),
    }


@router.get("/api/findings/{id:path}/outlines")
def outlines(
    id: Id,
    studio: Own,
    start: Annotated[int, Query(ge=0, le=MOST_FRAME)],
    count: Annotated[int, Query(ge=1, le=100)] = 25,
    file: bool = False,
) -> list[Object]:
    """The outlines of consecutive frames, as far as there are any, for a page that plays."""
    finding = studio.finding(id)
    found: list[Object] = []
    for number in range(start, start + count):
        try:
            mask = _seen(studio, finding, number, file)[2]
        except NotThere:
            if not found:
                raise
            break  # the video has ended
        found.append({"frame": number, "outline": [] if mask is None else outline(mask)})
    return found


def _check(frames: Frames, number: int) -> None:
    if number >= len(frames):
        raise NotThere(f"there is no frame {number}; frames go from 0 to {len(frames) - 1}")


def _picture(data: bytes, cached: str = "max-age=600") -> Response:
    headers = {"cache-control": f"private, {cached}"}
    return Response(data, media_type="image/jpeg", headers=headers)


def _seen(
    studio: Studio, finding: Finding, number: int, of_file: bool
) -> tuple[Frames, int, NDArray[np.bool_] | None]:
    """The frames of the file, which of them it is, and the mask of the object in it; the number is
    that of the history, or of the file."""
    history, path = finding.history, studio.video_path(finding)
    known = (
        history.frames,
        history.frames if history.source_frames is None else history.source_frames,
    )
    other = round(float(np.interp(number, *(known[::-1] if of_file else known))))
    index, source = (other, number) if of_file else (number, other)
    if not history.sampled:
        index = source = number  # also before the first and after the last one
    frames = studio.frames(path)
    _check(frames, source)
    masks = studio.masks_path(finding)
    if masks is None:
        raise NotThere(f"the masks of {history.id} are not in the workspace")
    looked_at = history.frames_looked_at or len(frames)
    size = np.broadcast_to(np.uint8(0), (frames.height, frames.width, 3))  # masks need no pixels
    shown = VideoFrame(index, source, None, frames.name(source), size)
    ids = objects_of(finding)
    return frames, source, studio.mask(masks, looked_at, shown, frozenset(ids) if ids else None)
