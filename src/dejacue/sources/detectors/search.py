"""find_objects(): a video and names → where to start following each object.

    all frames ─▶ shots (shots.py) ─▶ a few frames of each (looks.py) ─▶ detector ─▶ instances

An instance is one thing in one shot, with the frame and the box that a tracker can start from. That
two instances in different shots are the same object is not decided here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, counted
from dejacue.progress import Progress, silent
from dejacue.records import Window
from dejacue.sources.detectors.base import (
    Detection,
    Detector,
    ExampleDetector,
    check_names,
    check_picture,
    merged,
)
from dejacue.sources.detectors.loading import load_detector
from dejacue.sources.detectors.looks import MAX_LOOKS, FramePlace, PictureReader, SearchPlan
from dejacue.sources.detectors.shots import ShotDetector
from dejacue.sources.tracks.base import Box, Prompt
from dejacue.sources.video import Video, open_video

MAX_INSTANCES = 8  # of one shot
NEAR_BEST = 0.9  # of the best score: frames as good as the best one, of which the fullest is taken
SHOTS, LOOKS = "find shots", "look for the object"  # stages of progress

Detect = Callable[[NDArray[np.uint8]], list[Detection]]


@dataclass(frozen=True)
class Look:
    """One frame that was looked at, and what was detected in it, best first.

    frame        position in the sampled sequence; ``source`` is its ordinal in the file
    shot         position in ObjectSearch.shots
    detections   those below the threshold included
    """

    frame: int
    source: int
    time_s: float | None
    shot: int
    detections: tuple[Detection, ...]

    @property
    def place(self) -> str:
        """Return "frame 12 (0.40 s)"."""
        return f"frame {self.frame}" + ("" if self.time_s is None else f" ({self.time_s:.2f} s)")


@dataclass(frozen=True)
class Instance:
    """One thing in one shot: a tracker starts from ``box`` in ``frame``, both ways.

    object   its id, from 1 on, by score
    """

    object: int
    shot: int
    frame: int
    source: int
    time_s: float | None
    box: Box
    score: float
    name: str


@dataclass(frozen=True)
class ObjectSearch:
    """The result of looking for objects in a video: instances, and how they were looked for.

    names       as they were looked for; empty for an example
    detector    its identity
    threshold   score from which on a detection counts as found
    frames      how many the video has, of those that are sampled
    shots       which cover all frames
    looks       by frame
    instances   best first; empty where nothing was found
    left_out    how many more were found than a shot may have
    """

    names: tuple[str, ...]
    detector: str
    threshold: float
    frames: int
    shots: tuple[Window, ...]
    looks: tuple[Look, ...]
    instances: tuple[Instance, ...]
    left_out: int = 0

    @property
    def best(self) -> tuple[Look, Detection] | None:
        """Return the best detection, found or not, and the look that has it."""
        several = [(look, detection) for look in self.looks for detection in look.detections[:1]]
        return max(several, key=lambda pair: pair[1].score, default=None)

    def prompts(self, shot: int | None = None) -> list[Prompt]:
        """Return where a tracker starts, for all instances or for those of one shot."""
        return [
            Prompt(instance.frame, instance.object, box=instance.box)
            for instance in self.instances
            if shot is None or instance.shot == shot
        ]

    @property
    def summary(self) -> str:
        """Return one line: what was found, in how many looks, the best score and where; where
        nothing was found, also what to try."""
        kind = " or ".join(f'"{name}"' for name in self.names) or "object like the example"
        looked = (
            f"looked at {len(self.looks)} of {counted(self.frames, 'frame')} in "
            f"{counted(len({look.shot for look in self.looks}), 'shot')}"
        )
        if len({look.shot for look in self.looks}) < len(self.shots):
            looked += f" of {len(self.shots)}"
        score = "nothing like it was seen"
        if self.best is not None:
            look, detection = self.best
            score = f"the best score is {detection.score:.2f} in {look.place}"
        if not self.instances:
            needed = f", below {self.threshold:g}" if self.best is not None else ""
            return f"found no {kind}: {looked}; {score}{needed}; {self.remedy}"
        omitted = f"; {self.left_out} more were left out" if self.left_out else ""
        number = counted(len(self.instances), "instance")
        return f"found {number} of {kind}: {looked}; {score}{omitted}"

    @property
    def remedy(self) -> str:
        """Return what to try where nothing was found."""
        another = "try another name" if self.names else "try another picture of it"
        return f"{another}, or draw a box around the object in one frame"


def find_objects(
    video: Video | str | os.PathLike[str],
    names: str | Sequence[str] = (),
    detector: Detector | str | os.PathLike[str] | None = None,
    *,
    example: NDArray[np.uint8] | None = None,
    threshold: float | None = None,
    max_looks: int = MAX_LOOKS,
    max_instances: int = MAX_INSTANCES,
    progress: Progress = silent,
) -> ObjectSearch:
    """Look for objects by their names, or by a picture of one, in a few frames of each shot.

    detector        a Detector, or what load_detector takes
    example         (H, W, 3) RGB of the object and little else, instead of names (owlv2)
    threshold       score from which on a detection counts (default: the detector's own)
    max_looks       of the whole video, whatever its length
    max_instances   of one shot; the best are kept
    """
    _check_limits(threshold, max_looks, max_instances)
    if (example is None) == (not names):
        raise InputError(
            "give either names or an example",
            field="names" if example is None else "example",
            remedy='name the object, such as "cup"',
        )
    names = check_names(names) if example is None else ()
    if example is not None:
        check_picture(example, "example")
    if not isinstance(detector, Detector):
        detector = load_detector(detector)
    detect, usual = detection_of(detector, names, example)
    threshold = usual if threshold is None else threshold
    if not isinstance(video, Video):
        video = open_video(video)
    places, shots = find_shots(video, progress)
    looks = _look(video, places, shots, detect, threshold, max_looks, progress)
    instances, left_out = _instances(looks, threshold, max_instances)
    return ObjectSearch(
        names, detector.identity, threshold, len(places), shots, looks, instances, left_out
    )


def find_shots(
    video: Video, progress: Progress = silent
) -> tuple[list[FramePlace], tuple[Window, ...]]:
    """Return all frames of a video, without their pixels, and its shots, in one pass."""
    places: list[FramePlace] = []
    detector = ShotDetector()
    for frame in video.late():
        detector.add(frame.index, frame.time_s, frame.image)
        places.append(FramePlace(frame.index, frame.source, frame.time_s, frame.name))
        progress(SHOTS, len(places), video.length)
    return places, tuple(detector.shots())


def _check_limits(threshold: float | None, max_looks: int, max_instances: int) -> None:
    if threshold is not None and not 0 <= threshold <= 1:
        raise InputError(
            f"threshold {threshold} is invalid",
            field="threshold",
            value=threshold,
            remedy="give 0 to 1",
        )
    for field, value in (("max_looks", max_looks), ("max_instances", max_instances)):
        if value < 1:
            raise InputError(
                f"{field} {value} is invalid", field=field, value=value, remedy="give 1 or more"
            )


def detection_of(
    detector: Detector, names: tuple[str, ...], example: NDArray[np.uint8] | None
) -> tuple[Detect, float]:
    """Return the function that looks at a picture, and its usual threshold."""
    if example is None:
        return lambda picture: detector.detect(picture, names), detector.threshold
    if not isinstance(detector, ExampleDetector):
        raise InputError(
            f"{detector.name} finds objects by their names, not by an example",
            field="detector",
            value=detector.name,
            remedy="use owlv2, or a name",
        )
    guided = detector  # which mypy then knows inside the function
    return lambda picture: guided.detect_like(picture, example), detector.example_threshold


def _look(
    video: Video,
    places: Sequence[FramePlace],
    shots: Sequence[Window],
    detect: Detect,
    threshold: float,
    max_looks: int,
    progress: Progress,
) -> tuple[Look, ...]:
    indices = np.array([place.index for place in places])
    bounds = [
        (
            int(np.searchsorted(indices, shot.start)),
            int(np.searchsorted(indices, shot.end, side="right")) - 1,
        )
        for shot in shots
    ]
    plan = SearchPlan(places, bounds, max_looks)
    looks: list[Look] = []
    with PictureReader(video) as reader:
        while positions := plan.next_round():
            by_index = {places[position].index: position for position in positions}
            for place, picture in reader.pictures([places[position] for position in positions]):
                position = by_index[place.index]
                size = (picture.shape[0], picture.shape[1])
                detections = tuple(merged(detect(picture), size))
                shot = plan.looked[position]
                looks.append(Look(place.index, place.source, place.time_s, shot, detections))
                if _counted(detections, threshold):
                    plan.mark_found(position)
                progress(LOOKS, len(looks), len(plan.looked))
    return tuple(sorted(looks, key=lambda look: look.frame))


def _counted(detections: Iterable[Detection], threshold: float, name: str | None = None) -> int:
    """Return how many detections, of a name if one is given, reach the threshold."""
    return sum(
        detection.score >= threshold and name in (None, detection.name) for detection in detections
    )


def _instances(
    looks: Sequence[Look], threshold: float, limit: int
) -> tuple[tuple[Instance, ...], int]:
    """Return the instances of all shots, best first, and how many were left out."""
    instances: list[Instance] = []
    left_out = 0
    for shot in sorted({look.shot for look in looks}):
        shot_looks = [look for look in looks if look.shot == shot]
        candidates = _seeds(shot_looks, threshold)
        # names may have seeds in different frames: boxes in one place are taken for one thing
        detections = [detection for _, detection in candidates]
        everywhere = (2**31, 2**31)  # boxes are inside their pictures already
        several = merged(detections, everywhere, len(detections))
        left_out += max(0, len(several) - limit)
        look_of = {detection: look for look, detection in reversed(candidates)}
        for detection in several[:limit]:
            look = look_of[detection]
            instances.append(
                Instance(
                    0,
                    shot,
                    look.frame,
                    look.source,
                    look.time_s,
                    detection.box,
                    detection.score,
                    detection.name,
                )
            )
    instances.sort(key=lambda instance: (-instance.score, instance.frame))
    numbered = (replace(instance, object=at) for at, instance in enumerate(instances, 1))
    return tuple(numbered), left_out


def _seeds(looks: Sequence[Look], threshold: float) -> list[tuple[Look, Detection]]:
    """Return, for each name, the detections of the one look of a shot from which to start: of those
    with about the best score, the one that shows most."""
    seeds: list[tuple[Look, Detection]] = []
    names = dict.fromkeys(detection.name for look in looks for detection in look.detections)
    for name in names:

        def best_score(look: Look, name: str = name) -> float:
            scores = (detection.score for detection in look.detections if detection.name == name)
            return max(scores, default=0.0)

        best = max(map(best_score, looks))
        if best < threshold:
            continue
        good = [look for look in looks if best_score(look) >= max(threshold, NEAR_BEST * best)]
        chosen = max(
            good, key=lambda look: (_counted(look.detections, threshold, name), best_score(look))
        )
        seeds += [
            (chosen, detection)
            for detection in chosen.detections
            if detection.name == name and detection.score >= threshold
        ]
    return seeds
