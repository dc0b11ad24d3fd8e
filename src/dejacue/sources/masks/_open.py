"""From a path to Masks: detects which kind of masks it holds."""

from __future__ import annotations

import glob
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, unknown
from dejacue.plugins import Registry
from dejacue.sources.documents import read_json
from dejacue.sources.images import natural
from dejacue.sources.masks._boxes import open_boxes
from dejacue.sources.masks._coco import open_coco
from dejacue.sources.masks._masks import Masks
from dejacue.sources.masks._matching import Keys
from dejacue.sources.masks._segments import IN_MEMORY, SAVE, from_mapping
from dejacue.sources.masks._stacks import open_stack
from dejacue.sources.masks._yolo import FORMS, is_yolo, open_yolo
from dejacue.sources.masks.labels import LOSSY, PICTURES, VOID, folder_labels, read_picture
from dejacue.sources.masks.reader import ListedRows, Objects, Rows

_OBJECT = re.compile(r"(?:obj|object)?[ _-]?([0-9]+)", re.IGNORECASE)


class Folders(ListedRows):
    """Rows of pictures that are each of one object; whatever is not 0 is the object."""

    def __init__(self, folders: dict[int, list[Path]]) -> None:
        pictures: dict[str, dict[int, Path]] = {}
        for one, paths in folders.items():
            for path in paths:
                if pictures.setdefault(path.stem, {}).setdefault(one, path) != path:
                    raise InputError(f'{path.parent}: two masks are named "{path.stem}"; keep one')
        names = [path.name for path in natural(f"{name}.png" for name in pictures)]
        names = [name.removesuffix(".png") for name in names]
        self.keys = Keys(names=tuple(names))
        self.files = [path for paths in folders.values() for path in paths]
        self._objects = [pictures[name] for name in names]

    def read(self, row: int, shape: tuple[int, int], wanted: frozenset[int] | None) -> Objects:
        return {one: _mask(path) for one, path in self._wanted(row, wanted)}


def object_number(folder: Path) -> int | None:
    """The object that a folder is named after: 2, obj_2, object-2."""
    match = _OBJECT.fullmatch(folder.name)
    return int(match[1]) if match else None


def is_of_one_object(path: Path) -> bool:
    return _is_single(read_picture(path, binary=True), path)


def _mask(path: Path) -> NDArray[np.bool_]:
    picture = read_picture(path, binary=True)
    if not _is_single(picture, path):
        raise InputError(
            f"{path}: holds several values, but its folder is for one object; save the mask in "
            "black and white"
        )
    return np.asarray(picture != 0)


def _is_single(picture: NDArray[Any], path: Path) -> bool:
    """Whether a picture holds one number, or 255 with soft edges."""
    held = picture[picture != 0]
    return path.suffix.lower() in LOSSY or not held.size or held.min() == held.max() or VOID in held


KINDS = ("indexed", "binary", "youtube-vos", "stack", "coco", "boxes", "logits")
READERS: Registry[Callable[[Path], Rows]] = Registry("mask_readers", {})
PICKLES = (".pkl", ".pickle", ".pt", ".pth")
_BY_SUFFIX = {
    ".npz": "stack",
    ".npy": "stack",
    ".json": "coco",
    ".jsonl": "coco",
    ".txt": "boxes",
    ".csv": "boxes",
}
_NUMBER = re.compile("[0-9]{1,9}")


def open_masks(
    path: str | os.PathLike[str] | Mapping[int, Mapping[int, Any]],
    *,
    kind: str | None = None,
    match: str = "auto",
    frames: int | None = None,
) -> Masks:
    """The masks in a folder of pictures, one folder for each object, a glob pattern of pictures, a
    stack (.npz, .npy), a COCO file (.json, .jsonl), a table of boxes (.txt, .csv) or a folder of
    YOLO's texts; or a dictionary {frame: {object: mask}}, SAM 2's video_segments.

    kind    one of KINDS, or a plug-in (dejacue.mask_readers); None: what the path looks like. For
            a folder or a stack of numbers it says whether 255 is void (indexed) or the object
            (binary). Numbers that are not whole need "logits" (the object is where they are above
            0) or "logits:0.5".
    match   one of MATCHES, see ``Matching``
    frames  how many frames the masks are for (``Video.length``), if it is known: it can tell what
            their numbers mean
    """
    threshold = check_kind(kind)
    check_path(path)
    if isinstance(path, Mapping):
        found = "stack" if threshold is None else f"logits:{threshold:g}"
        return Masks(IN_MEMORY, found, from_mapping(path, threshold), match, frames)
    place = Path(path)
    if threshold is not None:
        found, rows = _open_logits(place, threshold)
    elif os.path.exists(place) and (plug_in := _plug_in(place, kind)) is not None:
        found, rows = plug_in, READERS[plug_in](place)
    elif os.path.isdir(place):
        found, rows = _open_folder(place, kind)
    elif os.path.exists(place):
        found, rows = _open_file(place, kind)
    elif glob.has_magic(os.fspath(path)):
        found, rows = _open_pattern(place, kind)
    else:
        raise InputError(f"{path}: no such file or folder of masks")
    return Masks(place, found, rows, match, frames)


def check_kind(kind: str | None) -> float | None:
    """Refuses a kind that there is not; the threshold, if it is one of logits."""
    name, mark, number = (kind or "").partition(":")
    if kind is None or (name in KINDS and name != "logits" and not mark):
        return None
    if kind in READERS:
        return None
    if name != "logits":
        raise unknown("kind of masks", kind, [*KINDS, *READERS])
    try:
        threshold = float(number) if mark else 0.0
    except ValueError:
        threshold = math.nan
    if not math.isfinite(threshold):
        raise InputError(f'kind "{kind}": give logits, or logits:0.5 with a number after the colon')
    return threshold


def check_path(masks: Any) -> None:
    """Refuses what is neither a path nor a dictionary; arrays are saved first, so that a run says
    what it was made of."""
    if isinstance(masks, str | os.PathLike | Mapping):
        return
    shape = getattr(masks, "shape", None)
    given = type(masks).__name__ if shape is None else f"an array of shape {shape}"
    raise InputError(
        f'masks are given as a path, not as {given}; np.savez("masks.npz", masks=array) saves an '
        "array (N, H, W), one mask for each of N frames, and open_masks reads it; the mask of "
        "the first frame alone, (H, W), is the option mask"
    )


def _plug_in(path: Path, kind: str | None) -> str | None:
    """Return the plug-in that reads this kind or, where none is given, this suffix."""
    if kind is not None:
        return kind if kind in READERS else None
    suffix = path.suffix.lower()
    return suffix[1:] if suffix not in _BY_SUFFIX and suffix[1:] in READERS else None


def _open_logits(path: Path, threshold: float) -> tuple[str, Rows]:
    if os.path.exists(path) and path.suffix.lower() not in (".npz", ".npy"):
        raise InputError(f"{path}: logits are read from an .npz or .npy file; leave the kind out")
    return open_stack(path, None, threshold)


def _open_file(path: Path, kind: str | None) -> tuple[str, Rows]:
    guess = _BY_SUFFIX.get(path.suffix.lower())
    if path.suffix.lower() in PICKLES:
        raise InputError(
            f"{path}: a pickle can run code, so it is not opened; load it yourself if you trust "
            f"it, and save its masks: {SAVE}"
        )
    if guess is None and path.suffix.lower() in PICTURES:
        raise InputError(f"{path}: is a single picture; give the folder with all masks")
    if guess == "stack" and kind in (None, "stack", "indexed", "binary"):
        return open_stack(path, None if kind == "stack" else kind)
    if (kind or guess) == "coco":
        return "coco", open_coco(path)
    if (kind or guess) == "boxes":
        return "boxes", open_boxes(path)
    if kind is not None and guess is not None:
        raise InputError(f"{path}: is not of kind {kind}; leave the kind out")
    raise InputError(
        f"{path}: is not a format of masks; give a folder of PNGs, or an .npz, .npy, .json, .txt "
        "or .csv file"
    )


def _open_pattern(pattern: Path, kind: str | None) -> tuple[str, Rows]:
    matches = map(Path, glob.iglob(str(pattern), recursive=True))
    pictures = natural(match for match in matches if _is_picture(match))
    if not pictures:
        raise InputError(
            f"{pattern}: no picture matches this pattern; check it, and quote it in the shell"
        )
    _check_folder_kind(pattern, kind)
    return _open_pictures(pictures, kind, pattern)


def _open_folder(path: Path, kind: str | None) -> tuple[str, Rows]:
    if kind != "boxes":
        _check_folder_kind(path, kind)
        objects = _object_folders(path) if kind in (None, "binary") else None
        if objects is not None:
            return "binary", Folders(objects)
    folder = _descend(path)
    pictures = _pictures(folder)
    if kind == "boxes" or not pictures:
        texts = natural(entry for entry in folder.iterdir() if is_yolo(entry))
        if not texts:
            raise InputError(f"{folder}: holds no YOLO text files ({FORMS})")
        return "boxes", open_yolo(texts)
    return _open_pictures(pictures, kind, path)


def _check_folder_kind(path: Path, kind: str | None) -> None:
    if kind in ("stack", "coco", "boxes"):
        raise InputError(f"{path}: is a folder, but masks of kind {kind} are a single file")


def _open_pictures(pictures: list[Path], kind: str | None, path: Path) -> tuple[str, Rows]:
    objects = _youtube_vos(pictures[0].parent)
    if objects is None and kind == "youtube-vos":
        raise InputError(
            f"{path}: no meta.json above it lists this video; check that it is from YouTube-VOS"
        )
    if objects is not None and kind in (None, "youtube-vos"):
        return "youtube-vos", folder_labels(pictures, "indexed", objects)
    rows = folder_labels(pictures, kind, None)
    return "binary" if rows.binary else "indexed", rows


def _object_folders(folder: Path) -> dict[int, list[Path]] | None:
    """The pictures by object, if the folder holds one folder for each and nothing else to read.

    In a dataset's Annotations folders are videos, whatever their names.
    """
    inner = natural(_folders(folder))
    objects = {
        number: _pictures(one) for one in inner if (number := object_number(one)) is not None
    }
    if (
        len(inner) < 2
        or len(objects) < len(inner)
        or folder.name == "Annotations"
        or _pictures(folder)
        or not all(objects.values())
        or not all(is_of_one_object(pictures[0]) for pictures in objects.values())
    ):
        return None
    return objects


def _descend(folder: Path) -> Path:
    """The folder with the pictures or texts of one video, from the root of a dataset on."""
    if any(_is_picture(entry) or is_yolo(entry) for entry in folder.iterdir()):
        return folder
    inner = natural(_folders(folder))
    annotations = [entry for entry in inner if entry.name == "Annotations"]
    if annotations or len(inner) == 1:
        return _descend((annotations or inner)[0])
    if inner:
        names = ", ".join(entry.name for entry in inner[:6]) + (", …" if len(inner) > 6 else "")
        raise InputError(f"{folder}: holds the folders {names}; give the one for this video")
    raise InputError(f"{folder}: is empty, or holds no mask pictures")


def _folders(folder: Path) -> Iterable[Path]:
    return (e for e in folder.iterdir() if e.is_dir() and not e.name.startswith("."))


def _pictures(folder: Path) -> list[Path]:
    return natural(entry for entry in folder.iterdir() if _is_picture(entry))


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
    if not isinstance(objects, dict) or not all(map(_NUMBER.fullmatch, objects)):
        raise InputError(f'{meta}: video "{video}" has no "objects" with their numbers')
    return frozenset(map(int, objects))


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in PICTURES and not path.name.startswith(".") and path.is_file()
