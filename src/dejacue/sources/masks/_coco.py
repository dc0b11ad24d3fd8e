"""Masks in JSON: COCO and COCO-VID (images and annotations), YouTube-VIS (one list of segmentations
per object), what the SAM 2 demo streams ({"frame_index", "results"}), the detections of
supervision's JSONSink, or a plain list of {"frame", "id", "segmentation"}; lists may be JSON lines.

A segmentation is a run-length mask or polygons; where there is none, the box is the mask. The
object is the track_id or instance_id of an annotation; in a file without them its category_id;
without that its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, need
from dejacue.sources.documents import check_object, named, parse_documents, read_text, whole_number
from dejacue.sources.masks._boxes import box_mask, check_box, is_sunk, sunk_boxes
from dejacue.sources.masks._matching import Keys
from dejacue.sources.masks.reader import ListedRows, Objects, resize_nearest
from dejacue.sources.masks.rle import decode_rle, rle_size

MOST_BYTES = 1 << 30
OWNERS = ("track_id", "instance_id", "category_id", "id")
NUMBERS = ("frame_index", "frame_id", "frame")
READ = (
    "COCO's images and annotations, YouTube-VIS, SAM 2's frame_index and results, or a list of "
    '{"frame", "id", "segmentation"}'
)
FAR = 1e5  # polygons are traced edge by edge, so distant corners would take forever


class _Segment(NamedTuple):
    """One annotation: what draws it, and the size it was drawn at, if the file says so."""

    where: str
    segmentation: Any
    size: tuple[int, int] | None


class _SegmentRows(ListedRows):
    """Rows of annotations, drawn on access."""

    def __init__(
        self, path: Path, keys: Keys, frames: list[dict[int, list[_Segment]]], complete: bool = True
    ) -> None:
        self.keys, self.files, self.complete = keys, [path], complete
        self._path, self._objects = path, frames

    def read(self, row: int, shape: tuple[int, int], wanted: frozenset[int] | None) -> Objects:
        found: Objects = {}
        for one, segments in self._wanted(row, wanted):
            for segment in segments:
                with named(f"{self._path}: {segment.where}"):
                    mask = draw(segment.segmentation, segment.size or shape)
                if one in found:
                    mask = found[one] | resize_nearest(mask, found[one].shape)
                found[one] = mask
        return found


def open_coco(path: Path) -> ListedRows:
    """The annotations of a JSON file; each is checked, and drawn only when its frame comes."""
    text = read_text(path, MOST_BYTES)
    with named(str(path)):
        documents = parse_documents(text)
        document = documents[0] if len(documents) == 1 else documents
        if (streamed := _streamed(document)) is not None:
            return _SegmentRows(path, *_sam2(streamed))
        if is_sunk(document):
            return sunk_boxes(path, document)
        if isinstance(document, list):
            return _SegmentRows(path, *_plain(document), complete=False)
        if not isinstance(document, dict) or not isinstance(document.get("annotations"), list):
            held = f"the keys {', '.join(list(document)[:6])}" if isinstance(document, dict) else ""
            raise InputError(f"holds no masks{' but ' if held else ''}{held}; masks are {READ}")
        lists = [isinstance(a, dict) and "segmentations" in a for a in document["annotations"]]
        if isinstance(document.get("videos"), list) and ("images" not in document or any(lists)):
            return _SegmentRows(path, *_youtube_vis(document))
        return _SegmentRows(path, *_coco(document))


def _streamed(document: Any) -> list[Any] | None:
    """The results frame by frame, if that is what a document holds; they may be in one list."""
    if isinstance(document, dict) and "results" not in document and len(document) == 1:
        document = next(iter(document.values()))
    rows = document if isinstance(document, list) else [document]
    first = rows[0] if rows else None
    return rows if isinstance(first, dict) and {"frame_index", "results"} <= first.keys() else None


def _sam2(rows: list[Any]) -> tuple[Keys, list[dict[int, list[_Segment]]]]:
    """A frame that comes again, as when an object is followed both ways, has its latest masks."""
    frames: dict[int, dict[int, list[_Segment]]] = {}
    for at, row in enumerate(rows):
        with named(f"result {at + 1}"):
            check_object(row, ("frame_index", "results"))
            frame = frames.setdefault(whole_number(row.get("frame_index"), "frame_index"), {})
            if not isinstance(row.get("results"), list):
                raise InputError('"results" must be a list of {"object_id", "mask"}')
            for result in row["results"]:
                check_object(result, ("object_id", "mask"))
                one = _whole(result, "object_id")
                where = f"frame {row['frame_index']}, object {one}"
                with named(where):
                    frame[one] = [_segment({"segmentation": result.get("mask")}, where, None)]
    return Keys(numbers=tuple(sorted(frames))), [frames[frame] for frame in sorted(frames)]


def _plain(rows: list[Any]) -> tuple[Keys, list[dict[int, list[_Segment]]]]:
    frames: dict[int, dict[int, list[_Segment]]] = {}
    for at, row in enumerate(rows):
        where = f"mask {at + 1}"
        with named(where):
            check_object(row, ("frame", "id", "segmentation"))
            if "frame" not in row:
                raise InputError(f'has no "frame"; masks are {READ}')
            frame = whole_number(row["frame"], "frame")
            segment = _segment(row, where, None)
            frames.setdefault(frame, {}).setdefault(_whole(row, "id"), []).append(segment)
    if not frames:
        raise InputError("is an empty list; it holds no masks")
    return Keys(numbers=tuple(sorted(frames))), [frames[frame] for frame in sorted(frames)]


def _coco(document: Mapping[str, Any]) -> tuple[Keys, list[dict[int, list[_Segment]]]]:
    images = document.get("images")
    if not isinstance(images, list) or not images:
        raise InputError(
            'has no list of "images", which annotations need to refer to frames; add it'
        )
    rows: dict[Any, int] = {}
    for at, image in enumerate(images):
        with named(f"image {at + 1}"):
            check_object(image, ("id", "file_name", "width", "height"))
            if rows.setdefault(whole_number(image.get("id"), "id"), at) != at:
                raise InputError(f"id {image['id']} is given twice; keep one")
            if isinstance(image.get("video_id"), list | dict):
                raise InputError(
                    f"video_id {image['video_id']!r:.40} is neither a number nor a name"
                )
    videos = {image.get("video_id") for image in images}
    if len(videos) > 1:
        raise InputError(f"holds images of {len(videos)} videos; give the masks of one")
    frames: list[dict[int, list[_Segment]]] = [{} for _ in images]
    annotations = document["annotations"]
    owner = _owner(annotations)
    for at, annotation in enumerate(annotations):
        where = f"annotation {at + 1}"
        with named(where):
            image_id = annotation.get("image_id")
            if type(image_id) is not int or image_id not in rows:
                raise InputError(f"image_id {image_id!r:.40} is not the id of an image")
            row = rows[image_id]
            segment = _segment(annotation, where, _size(images[row]))
            frames[row].setdefault(_whole(annotation, owner), []).append(segment)
    return _image_keys(images), frames


def _youtube_vis(document: Mapping[str, Any]) -> tuple[Keys, list[dict[int, list[_Segment]]]]:
    videos = document["videos"]
    if len(videos) != 1:
        raise InputError(f"holds {len(videos)} videos; give the masks of one")
    with named("video 1"):
        check_object(videos[0], ("file_names", "width", "height"))
        names = videos[0].get("file_names")
        if not isinstance(names, list) or not names:
            raise InputError('has no "file_names"')
        keys = _image_keys([{"file_name": name} for name in names])
        size = _size(videos[0])
    frames: list[dict[int, list[_Segment]]] = [{} for _ in names]
    for at, annotation in enumerate(document["annotations"]):
        with named(f"annotation {at + 1}"):
            check_object(annotation, ("id", "segmentations"))
            given = annotation.get("segmentations")
            if not isinstance(given, list) or len(given) != len(names):
                raise InputError(f"must have a list of {len(names)} segmentations, one per frame")
            one = _whole(annotation, "id")
            for row, segmentation in enumerate(given):
                if segmentation is not None:
                    where = f"annotation {at + 1}, frame {row}"
                    segment = _segment({"segmentation": segmentation}, where, size)
                    frames[row].setdefault(one, []).append(segment)
    return keys, frames


def _image_keys(images: list[Any]) -> Keys:
    """Numbers where every image has one, names where every image has one, else their order."""
    field = next((key for key in NUMBERS if all(key in image for image in images)), None)
    numbers = None
    if field is not None:
        numbers = tuple(whole_number(image[field], field) for image in images)
    firm = field != "frame_id"  # COCO-VID counts from 0, some that call themselves so from 1
    names = tuple(image.get("file_name") for image in images)
    if all(isinstance(name, str) and name for name in names):
        return Keys(tuple(Path(name).stem for name in names), numbers, firm)
    return Keys(None, numbers or tuple(range(len(images))), firm)


def _owner(annotations: list[Any]) -> str:
    for at, annotation in enumerate(annotations):
        with named(f"annotation {at + 1}"):
            check_object(annotation, ("image_id", "id", "segmentation"))
    for key in OWNERS:
        if all(key in annotation for annotation in annotations):
            return key
    raise InputError(f"some annotations have none of {', '.join(OWNERS)}; name their objects")


def _segment(row: Mapping[str, Any], where: str, size: tuple[int, int] | None) -> _Segment:
    """The checked segmentation of an annotation, or its box."""
    given = row.get("segmentation")
    if isinstance(given, dict):
        own = rle_size(given)
        if size is not None and own != size:
            raise InputError(f"its mask is {own[1]}×{own[0]}, its image {size[1]}×{size[0]}")
        return _Segment(where, given, own)
    if isinstance(given, list) and given:
        for corners in given:
            if (
                not isinstance(corners, list)
                or len(corners) < 6
                or len(corners) % 2
                or any(type(value) not in (int, float) or abs(value) > FAR for value in corners)
            ):
                raise InputError("a polygon is a list of at least three corners: x, y, x, y, …")
        return _Segment(where, given, size)
    if given is not None and given != []:
        raise InputError(
            f"segmentation {given!r:.40} is neither a run-length mask nor a list of polygons"
        )
    box = row.get("bbox")
    if not isinstance(box, list) or len(box) != 4:
        raise InputError("has neither a segmentation nor a bbox [x, y, width, height]")
    return _Segment(where, check_box(*box), size)


def draw(segmentation: Any, size: tuple[int, int]) -> NDArray[np.bool_]:
    """(H, W) mask of a checked run-length mask, list of polygons, or box."""
    if isinstance(segmentation, dict):
        return decode_rle(segmentation)
    if isinstance(segmentation, tuple):
        return box_mask(segmentation, size)
    coco = need("pycocotools.mask", "pip install pycocotools")
    parts = [[float(value) for value in corners] for corners in segmentation]
    packed = coco.merge(coco.frPyObjects(parts, *size))
    return decode_rle({"size": list(size), "counts": packed["counts"].decode("ascii")})


def _size(image: Mapping[str, Any]) -> tuple[int, int] | None:
    if "height" not in image and "width" not in image:
        return None
    return rle_size({"size": [image.get("height"), image.get("width")]})


def _whole(row: Mapping[str, Any], key: str) -> int:
    value = row.get(key)
    if type(value) is not int:
        raise InputError(f"{key} {value!r:.40} is not a whole number")
    return value
