"""Masks → disk: a folder of indexed PNG, a stack, or a COCO file; whole or not at all."""

from __future__ import annotations

import functools
import os
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dejacue.atomic import check_place, temporary_folder, write_whole
from dejacue.errors import InputError, counted, named
from dejacue.files.documents import as_json, write_document
from dejacue.masks.labels import VOID
from dejacue.masks.reader import Mask
from dejacue.masks.rle import decode_rle, pack
from dejacue.records.fields import MAX_FRAME
from dejacue.video.images import natural

WRITTEN_AS = {"": "indexed", ".npz": "stack", ".json": "coco"}
Frames = Iterable[tuple[int | str, Mapping[int, Mask]]]
PackedFrames = Mapping[int | str, Mapping[int, dict[str, Any]]]  # run lengths by object


def write_masks(
    path: str | os.PathLike[str],
    frames: Frames,
) -> Path:
    """Write the masks of one video: into a new folder of indexed pictures, a stack (.npz) or a COCO
    file (.json), by the suffix; ``open_masks`` gives them back.

    frames   for each frame its number or its name (all of one sort, none twice) and the (H, W) or
             (1, H, W) masks by object id (the items of SAM 2's video_segments); a frame without
             objects is written as well. They may come from a generator and in any order: of what
             was given, a folder keeps nothing in memory, the other kinds run-length masks.

    All is written under a temporary name and renamed at the end; if ``frames`` fails, nothing is.
    An indexed folder holds one object per pixel: where two overlap, the later of the mapping stays
    and a warning says so.
    """
    target = Path(path)
    kind = WRITTEN_AS.get(target.suffix.lower())
    if kind is None:
        raise unwritable(target)
    check_place(target)
    if kind == "indexed":
        if os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
            raise InputError(f"{target}: already exists; remove it or choose another folder")
        return _write_folder(target, frames)
    packed = {key: {id: pack(mask) for id, mask in row.items()} for key, row in _checked(frames)}
    numbers = sorted(key for key in packed if isinstance(key, int))
    names = natural(f"{key}.png" for key in packed if isinstance(key, str))
    keys: list[int | str] = [*numbers, *(path.name.removesuffix(".png") for path in names)]
    write = _write_coco if kind == "coco" else _write_stack
    height, width = next(mask["size"] for row in packed.values() for mask in row.values())
    return write(target, {key: packed[key] for key in keys}, (height, width))


def unwritable(target: Path) -> InputError:
    """Return the error for a path whose suffix is none of those of written masks."""
    return InputError(f"{target}: masks are written to a folder, .npz or .json; give one of those")


def _checked(frames: Frames) -> Iterator[tuple[int | str, dict[int, Mask]]]:
    """Check each frame as it is read; all masks have the size of the first."""
    seen: set[int | str] = set()
    size: tuple[int, ...] | None = None
    for key, masks in frames:
        if type(key) is not int and (not isinstance(key, str) or not key or "/" in key):
            raise InputError(f"frame {key!r:.40} is neither a number nor a file stem")
        if type(key) is int and abs(key) > MAX_FRAME:
            raise InputError(f"a frame number is above {MAX_FRAME}; frames count from 0")
        if type(key) is int and key < 0:
            raise InputError(f"frame {key}: frames count from 0")
        planes = {id: mask[0] if mask.shape[:-2] == (1,) else mask for id, mask in masks.items()}
        for id, mask in planes.items():
            size = size or mask.shape[:2]
            if mask.ndim != 2 or mask.shape != size or mask.dtype != bool:
                with named(f"frame {key}, object {id}"):
                    problem = f"the mask has type {mask.dtype} and shape {mask.shape}"
                    raise InputError(f"{problem}; give bool masks, all of size {size}")
        if key in seen or (seen and type(key) is not type(next(iter(seen)))):
            raise InputError("frames are given twice, or some by number and some by name")
        seen.add(key)
        yield key, {int(id): mask for id, mask in planes.items()}
    if size is None:
        raise InputError("there is no mask to write: no frame has an object")


def _ids(frames: PackedFrames) -> list[int]:
    return sorted({id for objects in frames.values() for id in objects})


def _write_coco(path: Path, frames: PackedFrames, size: tuple[int, int]) -> Path:
    images = [
        {"id": at, "height": size[0], "width": size[1]}
        | ({"frame_index": key} if isinstance(key, int) else {"file_name": f"{key}.png"})
        for at, key in enumerate(frames)
    ]
    pieces = [
        (image, track, packed)
        for image, objects in enumerate(frames.values())
        for track, packed in objects.items()
    ]
    annotations = (
        {"id": at, "image_id": image, "track_id": track, "category_id": 1, "segmentation": packed}
        for at, (image, track, packed) in enumerate(pieces, start=1)
    )
    head = {
        "images": images,
        "tracks": [{"id": id} for id in _ids(frames)],
        "categories": [{"id": 1, "name": "object"}],
    }
    return write_document(path, head, "annotations", map(as_json, annotations))


def _write_stack(path: Path, frames: PackedFrames, size: tuple[int, int]) -> Path:
    keys, ids = list(frames), _ids(frames)
    numbered = isinstance(keys[0], int)
    columns = {"frames" if numbered else "names": np.array(keys), "ids": np.array(ids)}

    def write(stream: IO[bytes]) -> None:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, column in columns.items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, column, allow_pickle=False)
            with archive.open("masks.npy", "w", force_zip64=True) as member:
                shape = (len(keys), len(ids), *size)
                header = {"descr": "|b1", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(member, header)
                empty = bytes(size[0] * size[1])
                for objects in frames.values():
                    for id in ids:
                        packed = objects.get(id)
                        member.write(empty if packed is None else decode_rle(packed).tobytes())

    return write_whole(path, write)


def _write_folder(path: Path, frames: Frames) -> Path:
    overlapping, empty = [], []
    labels = np.zeros((0, 0), dtype=np.uint8)
    with temporary_folder(path) as temporary:
        folder = temporary / path.name
        folder.mkdir()
        for key, row in _checked(frames):
            if not row:
                empty.append(key)  # of the size of the others, which need not be known yet
                continue
            labels = np.zeros(next(iter(row.values())).shape, dtype=np.uint8)
            overlaps = False
            for id, mask in row.items():
                if not 0 < id < VOID:
                    raise InputError(f"object {id}: an indexed folder holds the ids 1 to 254")
                overlaps = overlaps or bool(labels[mask].any())
                labels[mask] = id
            if overlaps:
                overlapping.append(key)
            _save(folder, key, labels)
        for key in empty:
            _save(folder, key, np.zeros_like(labels))
        os.replace(folder, path)  # in place of an empty folder, too
    if overlapping:
        number = counted(len(overlapping), "frame")
        warnings.warn(
            f"{path}: objects overlap in {number}, first in {overlapping[0]}; an indexed folder "
            "keeps one object per pixel; .npz and .json keep all",
            stacklevel=3,
        )
    return path


def _save(folder: Path, key: int | str, labels: NDArray[np.uint8]) -> None:
    from PIL import Image

    picture = Image.fromarray(labels).convert("P")
    picture.putpalette(palette())
    picture.save(folder / (f"{key:05d}.png" if isinstance(key, int) else f"{key}.png"))


@functools.cache  # for each picture of a folder
def palette() -> bytes:
    """Return the 256 colours of PASCAL VOC, which DAVIS and VOST use: the bits of the number, dealt
    to red, green and blue in turn, from the top bit of each down."""
    return bytes(
        sum((number >> (3 * bit + channel) & 1) << (7 - bit) for bit in range(3))
        for number in range(256)
        for channel in range(3)
    )
