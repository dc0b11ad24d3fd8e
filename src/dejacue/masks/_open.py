"""From a path to Masks: detects which kind of masks it holds."""

from __future__ import annotations

import glob
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dejacue.errors import InputError, unknown
from dejacue.files.documents import read_json
from dejacue.masks._arrays import IN_MEMORY, SAVE, from_mapping, open_stack, stack_kind
from dejacue.masks._boxes import YOLO_LINE, is_yolo, open_boxes, open_yolo
from dejacue.masks._coco import open_coco
from dejacue.masks._masks import Masks
from dejacue.masks._region import is_region, open_region
from dejacue.masks.labels import LOSSY, PICTURES, VOID, folder_labels, read_picture
from dejacue.masks.reader import Keys, ListedRows, Mask, Rows
from dejacue.video.images import folders_in, natural

KINDS = ("indexed", "binary", "youtube-vos", "stack", "coco", "boxes", "logits")
LEAVE_KIND_OUT = "leave the kind out"
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
_OBJECT_FOLDER = re.compile(r"(?:obj|object)?[ _-]?([0-9]+)", re.IGNORECASE)  # 2, obj_2, object-2


def open_masks(
    path: str | os.PathLike[str] | Mapping[int, Mapping[int, Any]],
    *,
    kind: str | None = None,
    match: str = "auto",
    frames: int | None = None,
) -> Masks:
    """Open masks: a folder of pictures, one folder for each object, a glob pattern of pictures, a
    stack (.npz, .npy), a COCO file (.json, .jsonl), a table of boxes (.txt, .csv), a folder of
    YOLO's texts or a region.json; or a dictionary {frame: {object: mask}}, SAM 2's video_segments.

    kind    one of KINDS; None: what the path looks like. For a folder or a stack of numbers it
            says whether 255 is void (indexed) or the object (binary). Numbers that are not whole
            need "logits" (the object is where they are above 0) or "logits:0.5".
    match   one of MATCHES, see ``Matching``
    frames  how many frames the masks are for (``Video.length``), if it is known: it can tell what
            their numbers mean

    >>> from dejacue.demo import write_demo
    >>> scene = write_demo("cup", overwrite=True)
    >>> masks = open_masks(scene / "Annotations")
    >>> masks.kind, masks.ids(), len(masks)
    ('indexed', (1,), 120)
    """
    threshold = check_kind(kind)
    check_path(path)
    if isinstance(path, Mapping):
        rows: Rows = from_mapping(path, threshold)
        return Masks(IN_MEMORY, stack_kind(threshold), rows, match, frames)
    place = Path(path)
    exists = os.path.exists(place)
    if exists and kind is None and is_region(place):
        return open_region(place)
    if threshold is not None:
        if exists and place.suffix.lower() not in (".npz", ".npy"):
            problem = "logits are read from an .npz or .npy file"
            raise InputError(f"{place}: {problem}; {LEAVE_KIND_OUT}")
        actual, rows = open_stack(place, None, threshold)
    elif os.path.isdir(place):
        actual, rows = _open_folder(place, kind)
    elif exists:
        actual, rows = _open_file(place, kind)
    elif glob.has_magic(os.fspath(path)):
        actual, rows = _open_pattern(place, kind)
    else:
        raise InputError(f"{place}: no such file or folder of masks")
    return Masks(place, actual, rows, match, frames)


def check_kind(kind: str | None) -> float | None:
    """Refuse an unknown kind; return the threshold, if it is one of logits."""
    name, mark, number = (kind or "").partition(":")
    if kind is None or (name in KINDS and name != "logits" and not mark):
        return None
    if name != "logits":
        raise unknown("kind of masks", kind, KINDS)
    try:
        threshold = float(number) if mark else 0.0
    except ValueError:
        threshold = math.nan
    if not math.isfinite(threshold):
        raise InputError(f'kind "{kind}": give logits, or logits:0.5 with a number after the colon')
    return threshold


def check_path(masks: Any) -> None:
    """Refuse what is neither a path nor a dictionary; arrays are saved first, so that a run says
    what it was made of."""
    if isinstance(masks, str | os.PathLike | Mapping):
        return
    shape = getattr(masks, "shape", None)
    what = type(masks).__name__ if shape is None else f"an array of shape {shape}"
    raise InputError(
        f'masks are given as a path, not as {what}; np.savez("masks.npz", masks=array) saves an '
        "array (N, H, W), one mask for each of N frames, and open_masks reads it; the mask of the "
        "first frame alone, (H, W), is the option mask"
    )


def _open_file(path: Path, kind: str | None) -> tuple[str, Rows]:
    guess = _BY_SUFFIX.get(path.suffix.lower())
    if path.suffix.lower() in PICKLES:
        remedy = f"load it yourself if you trust it, and save its masks: {SAVE}"
        raise InputError(f"{path}: a pickle can run code, so it is not opened; {remedy}")
    if guess is None and path.suffix.lower() in PICTURES:
        raise InputError(f"{path}: is a single picture; give the folder with all masks")
    if guess == "stack" and kind in (None, "stack", "indexed", "binary"):
        return open_stack(path, None if kind == "stack" else kind)
    if (kind or guess) == "coco":
        return "coco", open_coco(path)
    if (kind or guess) == "boxes":
        return "boxes", open_boxes(path)
    if kind is not None and guess is not None:
        raise InputError(f"{path}: is not of kind {kind}; {LEAVE_KIND_OUT}")
    remedy = "give a folder of PNGs, or an .npz, .npy, .json, .txt or .csv file"
    raise InputError(f"{path}: is not a format of masks; {remedy}")


def _open_pattern(pattern: Path, kind: str | None) -> tuple[str, Rows]:
    matches = map(Path, glob.iglob(str(pattern), recursive=True))
    pictures = natural(match for match in matches if _is_picture(match))
    if not pictures:
        remedy = "check it, and quote it in the shell"
        raise InputError(f"{pattern}: no picture matches this pattern; {remedy}")
    _check_folder_kind(pattern, kind)
    return _open_pictures(pictures, kind, pattern)


def _open_folder(path: Path, kind: str | None) -> tuple[str, Rows]:
    if kind != "boxes":
        _check_folder_kind(path, kind)
        objects = _object_folders(path) if kind in (None, "binary") else None
        if objects is not None:
            return "binary", _folder_rows(objects)
    folder = _descend(path)
    pictures = _pictures(folder)
    if kind == "boxes" or not pictures:
        texts = natural(entry for entry in folder.iterdir() if is_yolo(entry))
        if not texts:
            raise InputError(f"{folder}: holds no YOLO text files ({YOLO_LINE})")
        return "boxes", open_yolo(texts)
    return _open_pictures(pictures, kind, path)


def _check_folder_kind(path: Path, kind: str | None) -> None:
    if kind in ("stack", "coco", "boxes"):
        raise InputError(f"{path}: is a folder, but masks of kind {kind} are a single file")


def _open_pictures(pictures: list[Path], kind: str | None, path: Path) -> tuple[str, Rows]:
    objects = _youtube_vos(pictures[0].parent.absolute())
    if objects is None and kind == "youtube-vos":
        problem = "no meta.json above it lists this video"
        raise InputError(f"{path}: {problem}; check that it is from YouTube-VOS")
    if objects is not None and kind in (None, "youtube-vos"):
        return "youtube-vos", folder_labels(pictures, "indexed", objects)
    rows = folder_labels(pictures, kind, None)
    return "binary" if rows.binary else "indexed", rows


def _object_folders(folder: Path) -> dict[int, list[Path]] | None:
    """Return the pictures by object, if the folder holds one folder for each and nothing else.

    In a dataset's Annotations folders are videos, whatever their names.
    """
    inner = folders_in(folder)
    objects = {
        int(match[1]): _pictures(entry)
        for entry in inner
        if (match := _OBJECT_FOLDER.fullmatch(entry.name))
    }
    if (
        len(inner) < 2
        or len(objects) < len(inner)
        or folder.name == "Annotations"
        or _pictures(folder)
        or not all(objects.values())
        or any(_single_object(pictures[0]) is None for pictures in objects.values())
    ):
        return None
    return objects


def _folder_rows(folders: dict[int, list[Path]]) -> ListedRows:
    """Return rows of pictures that are each of one object; whatever is not 0 is the object."""
    pictures: dict[str, dict[int, Path]] = {}
    for object, paths in folders.items():
        for path in paths:
            if pictures.setdefault(path.stem, {}).setdefault(object, path) != path:
                raise InputError(f'{path.parent}: two masks are named "{path.stem}"; keep one')
    names = [path.name.removesuffix(".png") for path in natural(f"{n}.png" for n in pictures)]
    files = [path for paths in folders.values() for path in paths]
    return ListedRows(
        Keys(names=tuple(names)),
        files,
        [pictures[name] for name in names],
        lambda path, shape: _read_single_object(path),
    )


def _read_single_object(path: Path) -> Mask:
    mask = _single_object(path)
    if mask is None:
        problem = "holds several values, but its folder is for one object"
        raise InputError(f"{path}: {problem}; save the mask in black and white")
    return mask


def _single_object(path: Path) -> Mask | None:
    """Return the mask of a picture that holds one number, or 255 with soft edges; else None."""
    picture = read_picture(path, binary=True)
    values = picture[picture != 0]
    lossy = path.suffix.lower() in LOSSY
    single = lossy or not values.size or values.min() == values.max() or VOID in values
    return np.asarray(picture != 0) if single else None


def _descend(folder: Path) -> Path:
    """Return the folder with the pictures or texts of one video, below the root of a dataset."""
    if any(_is_picture(entry) or is_yolo(entry) for entry in folder.iterdir()):
        return folder
    inner = folders_in(folder)
    annotations = [entry for entry in inner if entry.name == "Annotations"]
    if annotations or len(inner) == 1:
        return _descend((annotations or inner)[0])
    if inner:
        names = ", ".join(entry.name for entry in inner[:6]) + (", …" if len(inner) > 6 else "")
        raise InputError(f"{folder}: holds the folders {names}; give the one for this video")
    raise InputError(f"{folder}: is empty, or holds no mask pictures")


def _pictures(folder: Path) -> list[Path]:
    return natural(entry for entry in folder.iterdir() if _is_picture(entry))


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in PICTURES and not path.name.startswith(".") and path.is_file()


def _youtube_vos(folder: Path) -> frozenset[int] | None:
    """Return the objects that a YouTube-VOS meta.json names for the video of this folder."""
    metas = (parent / "meta.json" for parent in list(folder.parents)[:2])
    meta = next((path for path in metas if path.is_file()), None)
    document = None if meta is None else read_json(meta)
    videos = document.get("videos") if isinstance(document, dict) else None
    if not isinstance(videos, dict) or folder.name not in videos:
        return None  # no meta.json, or some other one
    video = videos[folder.name]
    objects = video.get("objects") if isinstance(video, dict) else None
    if not isinstance(objects, dict) or not all(map(_NUMBER.fullmatch, objects)):
        raise InputError(f'{meta}: video "{folder.name}" has no "objects" with their numbers')
    return frozenset(map(int, objects))
