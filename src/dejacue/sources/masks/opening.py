"""From a path to Masks: which kind of masks lies there."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from dejacue.errors import InputError, unknown
from dejacue.sources.documents import read_json
from dejacue.sources.masks.boxes import open_boxes
from dejacue.sources.masks.coco import open_coco
from dejacue.sources.masks.labels import PICTURES, folder_labels
from dejacue.sources.masks.reader import Rows
from dejacue.sources.masks.source import Masks
from dejacue.sources.masks.stacks import open_stack

KINDS = ("indexed", "binary", "youtube-vos", "stack", "coco", "boxes")
_BY_SUFFIX = {
    ".npz": "stack", ".npy": "stack", ".json": "coco", ".txt": "boxes", ".csv": "boxes",
}  # fmt: skip
_PIECES = re.compile(r"(\d+)")


def open_masks(
    path: str | os.PathLike[str], *, kind: str | None = None, match: str = "auto"
) -> Masks:
    """The masks in a folder of pictures, a stack (.npz, .npy), a COCO file (.json) or a table of
    boxes (.txt, .csv).

    kind    one of KINDS; None: what the path looks like. For a folder or a stack of numbers it
            says whether 255 is void (indexed) or the object (binary).
    match   one of MATCHES, see ``matching.Matching``
    """
    if kind is not None and kind not in KINDS:
        raise unknown("kind of masks", kind, KINDS)
    place = Path(path)
    if not place.exists():
        raise InputError(f"{path}: no such file or folder of masks")
    if place.is_dir():
        found, rows = _open_folder(place, kind)
    else:
        found, rows = _open_file(place, kind)
    return Masks(place, found, rows, match)


def _open_file(path: Path, kind: str | None) -> tuple[str, Rows]:
    guess = _BY_SUFFIX.get(path.suffix.lower())
    if guess is None and path.suffix.lower() in PICTURES:
        raise InputError(f"{path}: is a single picture; give the folder of all masks")
    if guess == "stack" and kind in (None, "stack", "indexed", "binary"):
        return open_stack(path, None if kind == "stack" else kind)
    if (kind or guess) == "coco":
        return "coco", open_coco(path)
    if (kind or guess) == "boxes":
        return "boxes", open_boxes(path)
    if kind is not None and guess is not None:
        raise InputError(f"{path}: is not of the kind {kind}; leave the kind out")
    raise InputError(
        f"{path}: masks are a folder of PNG, or a .npz, .npy, .json, .txt or .csv file"
    )


def _open_folder(path: Path, kind: str | None) -> tuple[str, Rows]:
    if kind in ("stack", "coco", "boxes"):
        raise InputError(f"{path}: is a folder, and masks of the kind {kind} are one file")
    folder = _descend(path)
    pictures = sorted(
        (file for file in folder.iterdir() if _is_picture(file)), key=lambda file: _natural(file)
    )
    if not pictures:
        raise InputError(f"{folder}: holds no pictures ({', '.join(PICTURES)})")
    objects = _youtube_vos(folder)
    if objects is None and kind == "youtube-vos":
        raise InputError(f"{path}: no meta.json above names this video; is it YouTube-VOS?")
    if objects is not None and kind in (None, "youtube-vos"):
        return "youtube-vos", folder_labels(pictures, "indexed", objects)
    rows = folder_labels(pictures, kind, None)
    return "binary" if rows.binary else "indexed", rows


def _descend(folder: Path) -> Path:
    """The folder with the pictures of one video, from the root of a dataset on."""
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    if any(_is_picture(entry) for entry in entries):
        return folder
    inner = sorted((entry for entry in entries if entry.is_dir()), key=_natural)
    annotations = [entry for entry in inner if entry.name == "Annotations"]
    if annotations or len(inner) == 1:
        return _descend((annotations or inner)[0])
    if inner:
        names = ", ".join(entry.name for entry in inner[:6]) + (", …" if len(inner) > 6 else "")
        raise InputError(f"{folder}: holds the folders {names}; give the one of this video")
    raise InputError(f"{folder}: is an empty folder, or holds no pictures of masks")


def _youtube_vos(folder: Path) -> frozenset[int] | None:
    """The objects that a YouTube-VOS meta.json names for the video of this folder."""
    for above in list(folder.absolute().parents)[:2]:
        meta = above / "meta.json"
        if meta.is_file():
            return _objects(read_json(meta), folder.absolute().name, meta)
    return None


def _objects(document: Any, video: str, meta: Path) -> frozenset[int] | None:
    videos = document.get("videos") if isinstance(document, dict) else None
    if not isinstance(videos, dict) or video not in videos:
        return None  # some other meta.json
    objects = videos[video].get("objects") if isinstance(videos[video], dict) else None
    if not isinstance(objects, dict) or not all(key.isdecimal() for key in objects):
        raise InputError(f'{meta}: video "{video}" has no "objects" with their numbers')
    return frozenset(map(int, objects))


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in PICTURES and not path.name.startswith(".") and path.is_file()


def _natural(path: Path) -> tuple[Any, ...]:
    """Sorts frame2 before frame10."""
    pieces = _PIECES.split(path.name)
    return tuple(int(piece) if at % 2 else piece for at, piece in enumerate(pieces))
