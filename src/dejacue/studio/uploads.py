"""Uploads: streamed to a temporary file, checked to be a video or a picture, then renamed."""

from __future__ import annotations

import contextlib
import os
import secrets
from contextlib import closing
from pathlib import Path
from typing import IO, Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request

from dejacue.errors import InputError
from dejacue.sources._sampling import Unreadable
from dejacue.sources.atomic import TEMPORARY
from dejacue.sources.images import SUFFIXES, read_rgb
from dejacue.studio.errors import Conflict
from dejacue.studio.models import PROBLEMS, Object, Own, owner_only
from dejacue.studio.state import Studio, whole_frames
from dejacue.studio.workspace import MEDIA

router = APIRouter(tags=["uploads"], responses=PROBLEMS, dependencies=[Depends(owner_only)])
FOLDER = "uploads"
PIECE = 1 << 20  # bytes that are written at once


@router.post(
    "/api/uploads",
    status_code=201,
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
    request: Request, studio: Own, name: Annotated[str, Query(min_length=1, max_length=200)]
) -> Object:
    """A video or an image as the request body; it is stored in the folder uploads."""
    target = _target(studio, name)
    temporary = target.with_name(f".{secrets.token_hex(8)}{TEMPORARY}{target.suffix.lower()}")
    await to_thread.run_sync(lambda: target.parent.mkdir(exist_ok=True))
    try:
        with open(temporary, "xb") as stream:
            await _receive(request, stream)
        await to_thread.run_sync(_take, studio, temporary, target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return {"id": studio.workspace.id_of(target)}


def remove_left(root: Path) -> None:
    """Removes what uploads of a studio that was killed have left."""
    for left in (root / FOLDER).glob(f".*{TEMPORARY}*"):
        left.unlink(missing_ok=True)


def _target(studio: Studio, name: str) -> Path:
    target = studio.workspace.place(f"{FOLDER}/{name}")
    if "/" in name or target.suffix.lower() not in {*MEDIA, *SUFFIXES}:
        raise InputError(
            f"upload a video ({', '.join(sorted(MEDIA))}) or an image "
            f"({', '.join(sorted(SUFFIXES))}) whose name has one of these endings"
        )
    if target.exists():
        raise Conflict(f'"{FOLDER}/{name}" already exists; give another name')
    return target


async def _receive(request: Request, stream: IO[bytes]) -> None:
    """What comes, piece by piece; how much may come is limited where it is received."""
    piece = bytearray()
    async for data in request.stream():
        piece += data
        if len(piece) >= PIECE:
            await to_thread.run_sync(stream.write, bytes(piece))
            piece.clear()
    await to_thread.run_sync(stream.write, bytes(piece))


def _take(studio: Studio, temporary: Path, target: Path) -> None:
    """Gives it its name, if it can be decoded."""
    try:
        if target.suffix.lower() in SUFFIXES:
            read_rgb(temporary)
        else:
            with closing(whole_frames(temporary)) as frames:
                frames.image(0)
    except (InputError, Unreadable) as error:
        said = str(error).replace(f"{temporary}: ", "")
        raise InputError(f"{target.name}: is not a video or an image: {said}") from None
    with studio.writing:
        if target.exists():
            raise Conflict(f'"{FOLDER}/{target.name}" already exists; give another name')
        os.replace(temporary, target)
        studio.workspace.changed()
