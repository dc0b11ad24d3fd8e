"""Objects by their names: found in each shot of a video, recognised in the others, and followed.

find_objects ──▶ link ──▶ track, shot by shot; lost objects are looked for again
instances        objects  Masks
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from dejacue.atomic import write_bytes
from dejacue.errors import InputError, counted, first_line
from dejacue.method.readout import in_frames
from dejacue.models.catalogue import check_models
from dejacue.models.detectors import Detection, Detector, ObjectSearch, find_objects, load_detector
from dejacue.models.detectors.base import merged
from dejacue.models.detectors.lost import LookingAgain
from dejacue.models.detectors.search import MAX_INSTANCES, Instance, detection_of
from dejacue.models.detectors.zero_shot import DEFAULT
from dejacue.models.encoders import Encoder
from dejacue.models.encoders.base import EncoderInfo
from dejacue.models.trackers.base import (
    Tracker,
    box_mask,
)
from dejacue.progress import Progress
from dejacue.records import Note
from dejacue.records._html import clock
from dejacue.records.arrays import Pixels
from dejacue.report.contact_sheet import contact_sheet, with_boxes
from dejacue.video._sampling import Unreadable
from dejacue.video.images import is_image, read_rgb
from dejacue.video.video import Video

SEARCH_FILE, OBJECTS_PICTURE = "objects.json", "objects.png"  # beside the masks
MAX_DRAWN = 6  # frames of the picture
BY_EXAMPLE = "owlv2"  # the detector that takes a picture instead of a name
SAME_OBJECT = 0.85  # cosine of two crops; below it they are two objects (benchmarks/same_object.py)
USUAL_RATE = 10.0  # frames a second, where the video does not say


class SavedSearch(
    msgspec.Struct, frozen=True, tag_field="schema", tag="dejacue.objects/1", eq=False
):
    """Objects found by name; ``key`` changes with the video, the names and the detector."""

    key: str
    search: ObjectSearch


@dataclass(frozen=True, eq=False)
class SearchByName:
    """Looks for objects of these names in a video, or for those that look like a picture of one.

    names      one of them may be the path of a picture of the object and little else
    detector   a Detector, or a name, which is loaded when it is needed; None: the default
    """

    video: Video
    names: tuple[str, ...]
    detector: Detector | str | None

    @cached_property
    def _loaded(self) -> Detector:
        detector = self.detector
        if detector is None and self.example is not None:
            check_models(detector=(detector := BY_EXAMPLE))
        return detector if isinstance(detector, Detector) else load_detector(detector)

    @cached_property
    def example(self) -> Pixels | None:
        """Return the picture of the object, where one is given instead of a name."""
        if not is_example(self.names):
            return None
        path = Path(self.names[0]).expanduser()
        try:
            return read_rgb(path)
        except (OSError, Unreadable) as error:
            problem = f"the picture of the object cannot be read ({first_line(error)})"
            remedy = "give a JPEG or PNG of the object and little else, or its name"
            raise InputError(f"{path}: {problem}; {remedy}") from None

    def search(self, file: Path, encoder: Encoder, progress: Progress) -> ObjectSearch:
        """Return what is found, from the file of an earlier run if it fits; refuse to find nothing.
        It is written with a picture of the objects."""
        detector = self.detector
        wanted = detector.identity if isinstance(detector, Detector) else str(detector or DEFAULT)
        example = self.example
        sought: Sequence[object] = self.names
        if example is not None:
            sought = example.shape, hashlib.sha256(example.tobytes()).hexdigest()
            wanted = wanted if detector is not None else BY_EXAMPLE
        about = json.dumps([self.video.key, sought, wanted])
        key = hashlib.sha256(about.encode()).hexdigest()
        if (saved := _read_saved(file, key)) is not None:
            return saved
        names = self.names if example is None else ()
        search = find_objects(self.video, names, self._loaded, example=example, progress=progress)
        if not search.instances:
            raise InputError(f"{self.video.path}: {search.summary}; {search.remedy}")
        search = linked(search, _rows(self.video, search.instances, encoder))
        write_bytes(file.with_name(OBJECTS_PICTURE), draw_objects(self.video, search))
        write_bytes(file, msgspec.json.encode(SavedSearch(key, search)))
        return search

    def tracker(self, search: ObjectSearch, tracker: Tracker) -> LookingAgain:
        """Return a tracker that looks for objects again when they are lost for a second."""
        patience = max(1, round(self.video.rate or USUAL_RATE))

        def look(picture: Pixels) -> list[Detection]:
            return detection_of(self._loaded, self.names, self.example)[0](picture)

        def detect(picture: Pixels) -> list[Detection]:
            size = (picture.shape[0], picture.shape[1])
            detections = merged(look(picture), size)
            return [thing for thing in detections if thing.score >= search.threshold]

        details = {
            "names": ", ".join(self.names),
            "detector": search.detector,
            "threshold": f"{search.threshold:g}",
            "patience": str(patience),
        }
        return LookingAgain(tracker, detect, patience, details)


def _read_saved(file: Path, key: str | None = None) -> ObjectSearch | None:
    """Return the search of an earlier run; with a key, if it has this one."""
    try:
        saved = msgspec.json.decode(file.read_bytes(), type=SavedSearch)
    except (OSError, msgspec.DecodeError, ValueError, RecursionError):
        return None
    return saved.search if key in (None, saved.key) else None


def is_example(names: Sequence[str]) -> bool:
    """Return whether a picture is given instead of names: one path that ends as pictures do."""
    return len(names) == 1 and is_image(names[0])


def _rows(video: Video, instances: Sequence[Instance], encoder: Encoder) -> NDArray[np.float64]:
    """Return (n, dimension) unit rows of what is in the boxes; (n, 0) if all are in one shot."""
    if len({instance.shot for instance in instances}) < 2:
        return np.zeros((len(instances), 0))
    info = EncoderInfo.of(encoder)
    by_frame: dict[int, list[int]] = defaultdict(list)
    for at, instance in enumerate(instances):
        by_frame[instance.frame].append(at)
    crops: dict[int, Pixels] = {}
    for frame in video.frames_at(by_frame):
        for at in by_frame[frame.index]:
            crops[at] = info.pixels(frame.image, box_mask(instances[at].box, frame.image))
    rows = encoder.encode_images([crops[at] for at in range(len(instances))]).astype(np.float64)
    unit: NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def linked(search: ObjectSearch, rows: NDArray[np.float64]) -> ObjectSearch:
    """Return the search with one object number for the instances of different shots that look
    alike, numbered by their best score; at most MAX_INSTANCES objects are kept.

    Shots come in the order of their best score. An instance joins the object that it resembles
    most, if by SAME_OBJECT or more, and if no other instance of its shot is nearer to it.
    """
    groups: list[list[int]] = []
    instances = search.instances  # best first
    for shot in dict.fromkeys(instance.shot for instance in instances):
        members = [at for at, instance in enumerate(instances) if instance.shot == shot]
        pairs = [
            (float(max(rows[at] @ rows[row] for row in group)), at, number)
            for at in members
            for number, group in enumerate(groups)
        ]
        joined: dict[int, int] = {}
        for cosine, at, number in sorted(pairs, key=lambda pair: (-pair[0], *pair[1:])):
            if cosine >= SAME_OBJECT and at not in joined and number not in joined.values():
                joined[at] = number
        for at in members:
            if at in joined:
                groups[joined[at]].append(at)
            else:
                groups.append([at])
    groups.sort(key=min)
    numbers = {at: number for number, group in enumerate(groups, 1) for at in group}
    instances = tuple(
        replace(instance, object=numbers[at])
        for at, instance in enumerate(instances)
        if numbers[at] <= MAX_INSTANCES
    )
    left_out = search.left_out + max(0, len(groups) - MAX_INSTANCES)
    return replace(search, instances=instances, left_out=left_out)


def others_found(search: ObjectSearch, numbers: Sequence[int]) -> Note:
    """Return a note that names all objects, the first of which is taken."""
    listed = "; ".join(describe(search, number) for number in numbers)
    text = (
        f"{len(numbers)} objects were found: {listed}. This is object {numbers[0]}; "
        f"choose another by its number ({numbers[1]}), or all of them"
    )
    return Note(text, "information")


def describe(search: ObjectSearch, number: int) -> str:
    """Return "2 cup, left, score 0.81, frames 0 – 99": an object, in words."""
    name, place, score, frames = table_row(search, number)
    return f"{number} {name}, {place}, score {score}, {frames}"


def table_row(search: ObjectSearch, number: int) -> tuple[str, str, str, str]:
    """Return name, place in the picture, score and frames of an object."""
    instances = [instance for instance in search.instances if instance.object == number]
    best = instances[0]
    shots = [search.shots[shot] for shot in sorted({instance.shot for instance in instances})]
    frames = ", ".join(in_frames(*shot) for shot in shots[:3]) + (", …" if len(shots) > 3 else "")
    return best.name or "object", _place(search, best), f"{best.score:.2f}", frames


def _place(search: ObjectSearch, instance: Instance) -> str:
    """Return "left": where an instance is among those of its shot."""
    beside = [near for near in search.instances if near.shot == instance.shot]
    beside.sort(key=lambda near: near.box[0] + near.box[2])
    places = {1: ("alone",), 2: ("left", "right"), 3: ("left", "middle", "right")}
    order = beside.index(instance)
    return places[len(beside)][order] if len(beside) in places else f"{order + 1}. from the left"


def read_search(masks: Path) -> ObjectSearch | None:
    """Return the search whose objects are in these masks; None where none lies beside them."""
    return _read_saved(masks.with_name(SEARCH_FILE)) if masks.name else None


def draw_objects(video: Video, search: ObjectSearch) -> bytes:
    """Return a PNG of the frames in which objects were found, each framed and numbered."""
    by_frame: dict[int, list[Instance]] = defaultdict(list)
    for instance in search.instances:
        by_frame[instance.frame].append(instance)
    pictures = []
    for frame in video.frames_at(sorted(by_frame)[:MAX_DRAWN]):
        several = sorted(by_frame[frame.index], key=lambda instance: instance.object)
        boxes = {instance.object: instance.box for instance in several}
        words = ", ".join(f"{near.object} {_place(search, near)}" for near in several)
        time = "" if frame.time_s is None else f" · {clock(frame.time_s)}"
        pictures.append((with_boxes(frame.image, boxes), f"{frame.source}{time} · {words}"))
    objects = counted(len({instance.object for instance in search.instances}), "object")
    names = " or ".join(f'"{name}"' for name in search.names) or "in the example"
    return contact_sheet(pictures, f"{objects} found as {names}; frame · time · numbers")
