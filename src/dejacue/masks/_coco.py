"""Masks in JSON: COCO and COCO-VID (images and annotations), YouTube-VIS (one list of segmentations
per object), what the SAM 2 demo streams ({"frame_index", "results"}), the detections of
supervision's JSONSink, or a plain list of {"frame", "id", "segmentation"}; lists may be JSON lines.

A segmentation is a run-length mask or polygons; where there is none, the box is the mask. The
object is the track_id or instance_id of an annotation; in a file without them its category_id;
without that its id.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dejacue.errors import InputError, in_file, named
from dejacue.files.documents import check_object, parse_documents, read_text, whole_number
from dejacue.masks._boxes import MAX_BYTES, box_mask, check_box, is_json_sink, json_sink_boxes
from dejacue.masks.reader import Keys, ListedRows, Mask, resize_nearest
from dejacue.masks.rle import decode_rle, polygon_mask, rle_size

ID_KEYS = ("track_id", "instance_id", "category_id", "id")
FRAME_KEYS = ("frame_index", "frame_id", "frame")
ACCEPTED = (
    "COCO's images and annotations, YouTube-VIS, SAM 2's frame_index and results, or a list of "
    '{"frame", "id", "segmentation"}'
)
MAX_COORDINATE = 1e5  # polygons are traced edge by edge, so distant corners would take forever
MAX_OUTLINE = 2_000_000  # of one annotation: a hundred times around a picture
PIXELS_PER_STEP = 128  # that could be filled while a polygon is traced for one
MAX_FRAME_PIXELS = 1 << 30  # of all masks of a frame, as of a stack


class _Segment(NamedTuple):
    """One annotation: what draws it, and the size it was drawn at, if the file says so."""

    where: str
    segmentation: Any
    size: tuple[int, int] | None
    outline: float = 0  # the length of all polygons, in pixels

    @property
    def cost(self) -> float:
        """Return what drawing it takes, in pixels that are filled."""
        return math.prod(self.size or ()) + PIXELS_PER_STEP * self.outline


Frames = list[dict[int, list[_Segment]]]  # the annotations of each object, row by row


def open_coco(path: Path) -> ListedRows:
    """Read the annotations of a JSON file; each is checked, and drawn only when its frame comes."""
    text = read_text(path, MAX_BYTES)
    with in_file(path):
        documents = parse_documents(text)
        document = documents[0] if len(documents) == 1 else documents
        complete = True
        if (streamed := _streamed(document)) is not None:
            keys, frames = _sam2(streamed)
        elif is_json_sink(document):
            return json_sink_boxes(path, document)
        elif isinstance(document, list):
            (keys, frames), complete = _plain(document), False
        elif not isinstance(document, dict) or not isinstance(document.get("annotations"), list):
            is_object = isinstance(document, dict)
            keys_there = f" but the keys {', '.join(list(document)[:6])}" if is_object else ""
            raise InputError(f"holds no masks{keys_there}; masks are {ACCEPTED}")
        elif _is_youtube_vis(document):
            keys, frames = _youtube_vis(document)
        else:
            keys, frames = _coco(document)
        for at, objects in enumerate(frames):
            pixels = sum(segment.cost for segments in objects.values() for segment in segments)
            if pixels > MAX_FRAME_PIXELS:
                problem = f"row {at}: its masks would take {pixels} pixels to draw"
                raise InputError(f"{problem}; leave out objects")
        return ListedRows(
            keys, [path], frames, partial(_draw, path), boxes=_boxes, complete=complete
        )


def _is_youtube_vis(document: Mapping[str, Any]) -> bool:
    lists = [isinstance(row, dict) and "segmentations" in row for row in document["annotations"]]
    return isinstance(document.get("videos"), list) and ("images" not in document or any(lists))


def _draw(path: Path, segments: list[_Segment], shape: tuple[int, int]) -> Mask:
    """Draw the annotations of one object, at the size of the first."""
    union: Mask | None = None
    for where, segmentation, size, _ in segments:
        with in_file(path), named(where):
            if isinstance(segmentation, dict):
                mask = decode_rle(segmentation)
            elif isinstance(segmentation, tuple):
                mask = box_mask(segmentation, size or shape)
            else:
                mask = polygon_mask(segmentation, size or shape)
        union = mask if union is None else union | resize_nearest(mask, union.shape)
    assert union is not None, "an object has at least one annotation"
    return union


def _boxes(
    segments: list[_Segment], shape: tuple[int, int]
) -> Iterator[tuple[Any, tuple[int, int]]]:
    return ((box, size or shape) for _, box, size, _ in segments if isinstance(box, tuple))


def _streamed(document: Any) -> list[Any] | None:
    """Return SAM 2's results frame by frame, if a document holds them; they may be in one list."""
    if isinstance(document, dict) and "results" not in document and len(document) == 1:
        document = next(iter(document.values()))
    rows = document if isinstance(document, list) else [document]
    first = rows[0] if rows else None
    return rows if isinstance(first, dict) and {"frame_index", "results"} <= first.keys() else None


def _sam2(rows: list[Any]) -> tuple[Keys, Frames]:
    """Read the SAM 2 demo's stream; a frame that comes again, as when an object is followed both
    ways, has its latest masks."""
    frames: dict[int, dict[int, list[_Segment]]] = {}
    for at, row in enumerate(rows):
        with named(f"result {at + 1}"):
            check_object(row, ("frame_index", "results"))
            frame = frames.setdefault(whole_number(row.get("frame_index"), "frame_index"), {})
            if not isinstance(row.get("results"), list):
                raise InputError('"results" must be a list of {"object_id", "mask"}')
            for result in row["results"]:
                check_object(result, ("object_id", "mask"))
                object = _whole(result, "object_id")
                where = f"frame {row['frame_index']}, object {object}"
                with named(where):
                    frame[object] = [_segment({"segmentation": result.get("mask")}, where, None)]
    return _in_order(frames)


def _plain(rows: list[Any]) -> tuple[Keys, Frames]:
    frames: dict[int, dict[int, list[_Segment]]] = {}
    for at, row in enumerate(rows):
        where = f"mask {at + 1}"
        with named(where):
            check_object(row, ("frame", "id", "segmentation"))
            if "frame" not in row:
                raise InputError(f'has no "frame"; masks are {ACCEPTED}')
            frame = whole_number(row["frame"], "frame")
            segment = _segment(row, where, None)
            frames.setdefault(frame, {}).setdefault(_whole(row, "id"), []).append(segment)
    if not frames:
        raise InputError("is an empty list; it holds no masks")
    return _in_order(frames)


def _in_order(frames: Mapping[int, dict[int, list[_Segment]]]) -> tuple[Keys, Frames]:
    return Keys(numbers=tuple(sorted(frames))), [frames[frame] for frame in sorted(frames)]


def _coco(document: Mapping[str, Any]) -> tuple[Keys, Frames]:
    images = document.get("images")
    if not isinstance(images, list) or not images:
        problem = 'has no list of "images", which annotations need to refer to frames'
        raise InputError(f"{problem}; add it")
    rows: dict[Any, int] = {}
    for at, image in enumerate(images):
        with named(f"image {at + 1}"):
            check_object(image, ("id", "file_name", "width", "height"))
            if rows.setdefault(whole_number(image.get("id"), "id"), at) != at:
                raise _refusal(image, "id", "is given twice; keep one")
            if isinstance(image.get("video_id"), list | dict):
                raise _refusal(image, "video_id", "is neither a number nor a name")
    videos = {image.get("video_id") for image in images}
    if len(videos) > 1:
        raise InputError(f"holds images of {len(videos)} videos; give the masks of one")
    frames: Frames = [{} for _ in images]
    annotations = document["annotations"]
    for at, annotation in enumerate(annotations):
        with named(f"annotation {at + 1}"):
            check_object(annotation, ("image_id", "id", "segmentation"))
    owner = next((key for key in ID_KEYS if all(key in row for row in annotations)), None)
    if owner is None:
        raise InputError(f"some annotations have none of {', '.join(ID_KEYS)}; name their objects")
    for at, annotation in enumerate(annotations):
        where = f"annotation {at + 1}"
        with named(where):
            image_id = annotation.get("image_id")
            if type(image_id) is not int or image_id not in rows:
                raise _refusal(annotation, "image_id", "is not the id of an image")
            row = rows[image_id]
            segment = _segment(annotation, where, _size(images[row]))
            frames[row].setdefault(_whole(annotation, owner), []).append(segment)
    return _image_keys(images), frames


def _youtube_vis(document: Mapping[str, Any]) -> tuple[Keys, Frames]:
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
    frames: Frames = [{} for _ in names]
    for at, annotation in enumerate(document["annotations"]):
        with named(f"annotation {at + 1}"):
            check_object(annotation, ("id", "segmentations"))
            segmentations = annotation.get("segmentations")
            if not isinstance(segmentations, list) or len(segmentations) != len(names):
                raise InputError(f"must have a list of {len(names)} segmentations, one per frame")
            object = _whole(annotation, "id")
            for row, segmentation in enumerate(segmentations):
                if segmentation is not None:
                    where = f"annotation {at + 1}, frame {row}"
                    segment = _segment({"segmentation": segmentation}, where, size)
                    frames[row].setdefault(object, []).append(segment)
    return keys, frames


def _image_keys(images: list[Any]) -> Keys:
    """Return numbers where every image has one, and names likewise; else their order."""
    field = next((key for key in FRAME_KEYS if all(key in image for image in images)), None)
    numbers = None
    if field is not None:
        numbers = tuple(whole_number(image[field], field) for image in images)
    firm = field != "frame_id"  # COCO-VID counts from 0, some that call themselves so from 1
    names = tuple(image.get("file_name") for image in images)
    if all(isinstance(name, str) and name for name in names):
        return Keys(tuple(Path(name).stem for name in names), numbers, firm)
    return Keys(None, numbers or tuple(range(len(images))), firm)


def _segment(row: Mapping[str, Any], where: str, size: tuple[int, int] | None) -> _Segment:
    """Return the checked segmentation of an annotation, or its box."""
    segmentation = row.get("segmentation")
    if isinstance(segmentation, dict):
        height, width = rle_size(segmentation)
        if size is not None and (height, width) != size:
            raise InputError(f"its mask is {width}×{height}, its image {size[1]}×{size[0]}")
        return _Segment(where, segmentation, (height, width))
    if isinstance(segmentation, list) and segmentation:
        outline = 0.0
        for corners in segmentation:
            if (
                not isinstance(corners, list)
                or len(corners) < 6
                or len(corners) % 2
                or any(type(x) not in (int, float) or abs(x) > MAX_COORDINATE for x in corners)
            ):
                raise InputError("a polygon is a list of at least three corners: x, y, x, y, …")
            steps = np.abs(np.diff(np.reshape(corners, (-1, 2)), axis=0, append=[corners[:2]]))
            outline += float(steps.max(axis=1).sum())
        if outline > MAX_OUTLINE:
            problem = f"its polygons are {outline:.0f} pixels around, more than {MAX_OUTLINE}"
            raise InputError(f"{problem}; simplify them")
        return _Segment(where, segmentation, size, outline)
    if segmentation is not None and segmentation != []:
        raise _refusal(row, "segmentation", "is neither a run-length mask nor a list of polygons")
    box = row.get("bbox")
    if not isinstance(box, list) or len(box) != 4:
        raise InputError("has neither a segmentation nor a bbox [x, y, width, height]")
    return _Segment(where, check_box(*box), size)


def _size(image: Mapping[str, Any]) -> tuple[int, int] | None:
    if "height" not in image and "width" not in image:
        return None
    return rle_size({"size": [image.get("height"), image.get("width")]})


def _whole(row: Mapping[str, Any], key: str) -> int:
    value = row.get(key)
    if type(value) is not int:
        raise _refusal(row, key, "is not a whole number")
    return value


def _refusal(row: Mapping[str, Any], key: str, problem: str) -> InputError:
    """Return the error for the value of a key."""
    return InputError(f"{key} {row.get(key)!r:.40} {problem}")
