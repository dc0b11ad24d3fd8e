"""Routes of videos: files, their time stamps, any frame as a picture, outlines, uploads."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import IO, Annotated, Any
from urllib.parse import quote

import numpy as np
from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as InPath
from fastapi.responses import FileResponse
from pydantic import Field

from dejacue.atomic import TEMPORARY
from dejacue.errors import InputError
from dejacue.finding.finding import Finding
from dejacue.models.trackers import Prompt
from dejacue.models.trackers.prompts import united
from dejacue.records.arrays import Flags
from dejacue.report.scene import packed
from dejacue.studio.errors import Conflict, NotThere
from dejacue.studio.findings import objects_of
from dejacue.studio.models import MAX_FRAME, Frame, Id, Json, RequestModel, StudioDep, Text
from dejacue.studio.state import Studio, whole_frames
from dejacue.studio.workspace import MEDIA
from dejacue.video._sampling import Unreadable
from dejacue.video.crops import crop
from dejacue.video.frames import Frames, jpeg
from dejacue.video.images import SUFFIXES, read_rgb
from dejacue.video.video import Frame as VideoFrame

MAX_OUTLINED_SIDE = 640  # pixels of the mask that is outlined; finer steps are not seen
UPLOADS = "uploads"  # folder of the workspace
UPLOAD_PIECE_BYTES = 1 << 20
Polygon = list[tuple[float, float]]


def outline(mask: Flags) -> list[Polygon]:
    """Return closed lines (x, y) around the pixels of a mask, holes included, in pixels."""
    from contourpy import contour_generator

    step = max(1, -(-max(mask.shape) // MAX_OUTLINED_SIDE))
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
    polygons = []
    for line in contour_generator(z=padded).lines(0.5):
        points = (np.asarray(line)[:-1] - 0.5 + (x[0], y[0])) * step
        before, after = points - np.roll(points, 1, 0), np.roll(points, -1, 0) - points
        turns = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
        corners = points[np.abs(turns) > 1e-6]  # not points on a straight line
        if len(corners) >= 3:
            limit = (mask.shape[1], mask.shape[0])
            polygons.append([(float(x), float(y)) for x, y in corners.clip((0, 0), limit)])
    return polygons


router = APIRouter(tags=["videos"])
PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {}}, "description": "A JPEG picture."}
}
PLAYABLE = ("h264", "vp8", "vp9", "av1", "theora")  # codecs that browsers may have
Number = Annotated[int, InPath(ge=0, le=MAX_FRAME)]
Width = Annotated[int, Query(ge=16, le=4096)]


class PreviewRequest(RequestModel):
    """A box (x0, y0, x1, y1) around the object in a frame of the file, or points (x, y, whether it
    lies on the object), in pixels."""

    frame: Frame
    box: tuple[float, float, float, float] | None = None
    points: Annotated[tuple[tuple[float, float, bool], ...], Field(max_length=100)] = ()
    tracker: Text | None = None


@router.get("/api/videos/{id:path}/info")
def info(id: Id, studio: StudioDep) -> Json:
    """Return size, codec, number of frames, and whether a browser is likely to play it."""
    path = studio.workspace.video(id)
    frames = studio.frames(path)
    return {
        "id": id,
        "kind": "file" if path.is_file() else "images",
        "codec": frames.codec,
        "width": frames.width,
        "height": frames.height,
        "pixel_aspect": frames.pixel_aspect,
        "frames": len(frames),
        "playable": path.is_file() and frames.codec in PLAYABLE and path.suffix.lower() in MEDIA,
        "seconds": None if frames.times_s is None else float(frames.times_s[-1]),
        "findings": [
            finding
            for finding in studio.workspace.contents().findings
            if studio.video_of(studio.provenance(finding)) == id
        ],
    }


@router.get("/api/videos/{id:path}/file", response_class=FileResponse)
def file(id: Id, studio: StudioDep) -> FileResponse:
    """Return the file, unchanged; supports Range. It is an attachment: it plays in our page, and
    nothing in it is shown as a page of its own."""
    path = studio.workspace.video(id)
    if not path.is_file() or path.suffix.lower() not in MEDIA:
        raise NotThere(f'"{id}" is a folder of images, not a playable file')
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(path.name)}"}
    return FileResponse(path, media_type=MEDIA[path.suffix.lower()], headers=headers)


@router.get("/api/videos/{id:path}/times")
def times(id: Id, studio: StudioDep) -> Json:
    """Return when each frame is shown, in seconds since the start of the stream (packed f64; null:
    images have no times); start: what a player adds where its clock does not begin there."""
    frames = studio.frames(studio.workspace.video(id))
    times_s = frames.times_s
    return {
        "frames": len(frames),
        "start": frames.start_s,
        "times": None if times_s is None else packed(times_s, "f64"),
    }


@router.get("/api/videos/{id:path}/frames/{number}.jpg", response_class=Response, responses=PICTURE)
def frame(id: Id, number: Number, studio: StudioDep, width: Width | None = None) -> Response:
    """Return a frame of the file, decoded by the server and found by its timestamp."""
    frames = studio.frames(studio.workspace.video(id))
    _check(frames, number)
    return _picture(jpeg(frames.image(number), width))


@router.post("/api/videos/{id:path}/preview")
def preview(id: Id, body: PreviewRequest, studio: StudioDep) -> Json:
    """Return the outline of the object that a tracker sees in one frame."""
    frames = studio.frames(studio.workspace.video(id))
    _check(frames, body.frame)
    image = frames.image(body.frame)
    prompt = Prompt(0, 1, body.box, body.points)
    if body.box is None and not any(inside for *_, inside in body.points):
        raise InputError("draw a box around the object, or click on it")
    checked = united([prompt], image.shape[:2])
    tracker = studio.tracker(body.tracker)
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
    id: Id, number: Number, studio: StudioDep, width: Width | None = None, file: bool = False
) -> Response:
    """Return what the encoder saw of the object in a frame of the history; file: of the file."""
    frames, source, mask = _masked_frame(studio, studio.finding(id), number, file)
    if mask is None:
        raise NotThere(f"the object is not seen in frame {number}")
    # not cached: another pass of the tracker may see another object
    return _picture(jpeg(crop(frames.image(source), mask), width), "no-cache")


@router.get("/api/findings/{id:path}/outline/{number}")
def outline_of(id: Id, number: Number, studio: StudioDep, file: bool = False) -> Json:
    """Return polygons around the object in a frame of the history (file: of the file), in pixels of
    the video; none where it is not seen."""
    frames, _, mask = _masked_frame(studio, studio.finding(id), number, file)
    return {
        "frame": number,
        "width": frames.width,
        "height": frames.height,
        "outline": [] if mask is None else outline(mask),
    }


@router.get("/api/findings/{id:path}/outlines")
def outlines(
    id: Id,
    studio: StudioDep,
    start: Annotated[int, Query(ge=0, le=MAX_FRAME)],
    count: Annotated[int, Query(ge=1, le=100)] = 25,
    file: bool = False,
) -> list[Json]:
    """Return the outlines of consecutive frames up to the end of the video, for a page that
    plays."""
    finding = studio.finding(id)
    frames: list[Json] = []
    for number in range(start, start + count):
        try:
            mask = _masked_frame(studio, finding, number, file)[2]
        except NotThere:
            if not frames:
                raise
            break  # the video has ended
        frames.append({"frame": number, "outline": [] if mask is None else outline(mask)})
    return frames


def _check(frames: Frames, number: int) -> None:
    if number >= len(frames):
        raise NotThere(f"there is no frame {number}; frames go from 0 to {len(frames) - 1}")


def _picture(data: bytes, cached: str = "max-age=600") -> Response:
    headers = {"cache-control": f"private, {cached}"}
    return Response(data, media_type="image/jpeg", headers=headers)


def _masked_frame(
    studio: Studio, finding: Finding, number: int, of_file: bool
) -> tuple[Frames, int, Flags | None]:
    """Return the frames of the video, which of them has this number in the history (or in the
    file), and the mask of the object in it. A tracker saw the sampled frames alone: of others, the
    nearest of these."""
    history, path = finding.history, studio.video_path(finding)
    index = source = number  # also before the first and after the last one
    if history.sampled and history.source_frames is not None:
        if of_file:
            index = round(float(np.interp(number, history.source_frames, history.frames)))
        if not of_file or finding.provenance.tracker is not None:
            source = round(float(np.interp(index, history.frames, history.source_frames)))
    frames = studio.frames(path)
    _check(frames, source)
    masks = studio.masks_path(finding)
    if masks is None:
        raise NotThere(f"the masks of {history.id} are not in the workspace")
    looked_at = history.frames_looked_at or len(frames)
    size = np.broadcast_to(np.uint8(0), (frames.height, frames.width, 3))  # masks need no pixels
    frame = VideoFrame(index, source, None, frames.name(source), size)
    ids = objects_of(finding)
    return frames, source, studio.mask(masks, looked_at, frame, frozenset(ids) if ids else None)


@router.post(
    "/api/uploads",
    status_code=201,
    tags=["uploads"],
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            },
        }
    },
)
async def upload(
    request: Request, studio: StudioDep, name: Annotated[str, Query(min_length=1, max_length=200)]
) -> Json:
    """Store a video or an image, which is the request body, in the folder uploads."""
    target = _target(studio, name)
    temporary = target.with_name(f".{secrets.token_hex(8)}{TEMPORARY}{target.suffix.lower()}")
    await to_thread.run_sync(lambda: target.parent.mkdir(exist_ok=True))
    try:
        with open(temporary, "xb") as stream:
            await _receive(request, stream)
        await to_thread.run_sync(_accept, studio, temporary, target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return {"id": studio.workspace.id_of(target)}


def remove_unfinished_uploads(root: Path) -> None:
    """Remove what uploads of a studio that was killed have left."""
    for path in (root / UPLOADS).glob(f".*{TEMPORARY}*"):
        path.unlink(missing_ok=True)


def _target(studio: Studio, name: str) -> Path:
    target = studio.workspace.place(f"{UPLOADS}/{name}")
    if "/" in name or target.suffix.lower() not in {*MEDIA, *SUFFIXES}:
        videos, images = ", ".join(sorted(MEDIA)), ", ".join(sorted(SUFFIXES))
        problem = f"upload a video ({videos}) or an image ({images}) whose name has one of these"
        raise InputError(f"{problem} endings")
    _check_free(target)
    return target


def _check_free(target: Path) -> None:
    if target.exists():
        raise Conflict(f'"{UPLOADS}/{target.name}" already exists; give another name')


async def _receive(request: Request, stream: IO[bytes]) -> None:
    """Write the body piece by piece; its length is limited where it is received."""
    piece = bytearray()
    async for data in request.stream():
        piece += data
        if len(piece) >= UPLOAD_PIECE_BYTES:
            await to_thread.run_sync(stream.write, bytes(piece))
            piece.clear()
    await to_thread.run_sync(stream.write, bytes(piece))


def _accept(studio: Studio, temporary: Path, target: Path) -> None:
    """Give the upload its name, if it can be decoded."""
    try:
        if target.suffix.lower() in SUFFIXES:
            read_rgb(temporary)
        else:
            with contextlib.closing(whole_frames(temporary)) as frames:
                frames.image(0)
    except (InputError, Unreadable) as error:
        reason = str(error).replace(f"{temporary}: ", "")
        raise InputError(f"{target.name}: is not a video or an image: {reason}") from None
    with studio.writing:
        _check_free(target)
        os.replace(temporary, target)
        studio.workspace.changed()
