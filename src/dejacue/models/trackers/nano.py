"""Boxes without torch: NanoTrack v2 in OpenCV, a few milliseconds a frame on one core
(``dejacue[nano]``).

    nano          the published weights (Apache-2.0, 1.8 MB): dejacue weights fetch nano
    nano:FOLDER   the same two files in a folder

The object is followed as a box. The model compares every frame with the one before, so it is given
all frames, those between sampled ones too. It always answers, with a score that differs from video
to video: where it is well below that of the frame in which the box was drawn, the object counts as
not seen.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, extra, first_line, need
from dejacue.models.trackers.base import Box, Observation, Prompt, box_mask
from dejacue.models.trackers.prompts import box_of
from dejacue.models.weights import WebWeights, fetch, files_in, sha256

WEIGHTS = WebWeights(
    "raw.githubusercontent.com/HonglinChu/SiamTrackers",
    "248663fde6bf7c40190cf10ee396d5662919ecd3/NanoTrack/models/nanotrackv2",
    {
        "nanotrack_backbone_sim.onnx": (
            "530bdd0cd00f19afab79a863e71ba71e3312395a5dc9151af675082bdaaa2fc4"
        ),
        "nanotrack_head_sim.onnx": (
            "0d8c0637be849f092cc7236cae02e55c8b9455ebe37ba50601d6115db4247cd9"
        ),
    },
)
BYTES = 1_783_047
# Share of the score in the frame of the box. On the two VOST sequences on which it was chosen it
# loses no frame in which the box is right; a kettle that is tilted falls to .75, grey to about .78.
SCORE, SCORE_WIDTH = 0.8, 0.02
MIN_SIDE = 10  # OpenCV makes smaller boxes larger
NOTE = "the object is followed as a box, so its crops hold what else is in the box"


class NanoTracker:
    """See ``base.Tracker``.

    create   makes a tracker of OpenCV
    """

    independent: bool = True
    every_frame: bool = True

    def __init__(self, create: Callable[[], Any], name: str, details: Mapping[str, str]) -> None:
        self.create, self.name = create, name
        self.details: Mapping[str, str] = {**details, "score": f"{SCORE:g}", "note": NOTE}

    def session(self) -> NanoSession:
        return NanoSession(self)


class NanoSession:
    """See ``base.TrackerSession``. A prompt says anew where its object is."""

    def __init__(self, tracker: NanoTracker) -> None:
        self._tracker = tracker
        self._objects: dict[int, tuple[Any, float]] = {}  # and its score in the frame of the box

    def step(
        self, image: NDArray[np.uint8], prompts: Sequence[Prompt] = ()
    ) -> Mapping[int, Observation]:
        picture = np.ascontiguousarray(image[..., ::-1])  # OpenCV counts blue first
        boxes: dict[int, tuple[Box, float]] = {}
        for prompt in prompts:
            boxes[prompt.object] = box_of(prompt), 1.0
            self._objects[prompt.object] = self._begun(picture, prompt)
        for id, (tracker, usual) in self._objects.items():
            if id not in boxes:
                (x, y, width, height), score = _updated(tracker, picture)
                sure = 1 / (1 + math.exp((SCORE - score / max(usual, 0.01)) / SCORE_WIDTH))
                boxes[id] = (x, y, x + width, y + height), sure
        return {id: Observation(box_mask(box, image), sure) for id, (box, sure) in boxes.items()}

    def _begun(self, picture: NDArray[np.uint8], prompt: Prompt) -> tuple[Any, float]:
        x0, y0, x1, y1 = map(round, box_of(prompt))
        if min(x1 - x0, y1 - y0) < MIN_SIDE:
            problem = f"object {prompt.object}: the box has {x1 - x0} × {y1 - y0} pixels"
            remedy = f"it needs {MIN_SIDE} × {MIN_SIDE}; draw a larger box, or use sam2"
            raise InputError(f"{problem}, too few for {self._tracker.name}; {remedy}")
        tracker = self._tracker.create()
        tracker.init(picture, (x0, y0, x1 - x0, y1 - y0))
        _, score = _updated(tracker, picture)
        tracker.init(picture, (x0, y0, x1 - x0, y1 - y0))  # where it was drawn
        return tracker, score


def _updated(tracker: Any, picture: NDArray[np.uint8]) -> tuple[Box, float]:
    """Return x, y, width, height of the object in the next frame, and the score, 0 or more."""
    there, box = tracker.update(picture)
    score = float(tracker.getTrackingScore()) if there else 0.0
    return box, score if score > 0 else 0.0  # NaN, too


def load(name: str) -> NanoTracker:
    """Load nano or nano:FOLDER, which run on the CPU."""
    place = name.partition(":")[2]
    cv2: Any = need("cv2", extra("nano"))
    if not hasattr(cv2, "TrackerNano_create"):
        problem = f"OpenCV {cv2.__version__} has no TrackerNano"
        raise InputError(f"{problem}; {extra('nano')} --upgrade")
    params = cv2.TrackerNano_Params()
    files = files_in(Path(place), WEIGHTS.files) if place else fetch(WEIGHTS, name=name)
    for file, path in files.items():
        WEIGHTS.check(file, path)  # OpenCV does not survive every damaged file
    params.backbone, params.neckhead = map(str, (files[file] for file in WEIGHTS.files))

    def create() -> Any:
        with _quiet(cv2):
            return cv2.TrackerNano_create(params)

    try:
        create()
    except cv2.error as error:
        place = str(next(iter(files.values())))
        problem = f"cannot be loaded by OpenCV ({first_line(error)})"
        raise InputError(f"{place}: {problem}; download it again") from None
    details = {f"sha256 {file}": sha256(path) for file, path in files.items()}
    return NanoTracker(create, name, {"opencv": cv2.__version__, **details})


@contextlib.contextmanager
def _quiet(cv2: Any) -> Iterator[None]:
    """Keep OpenCV 5 from warning that its new engine knows no targets."""
    log = getattr(cv2.utils, "logging", None)
    before = None if log is None else log.setLogLevel(log.LOG_LEVEL_ERROR)
    try:
        yield
    finally:
        if log is not None:
            log.setLogLevel(before)
