"""find_objects(): a video and names → where to start following each object.

    all frames ─▶ shots ─▶ a few frames of each ─▶ detector ─▶ instances

An instance is one thing in one shot, with the frame and the box that a tracker can start from. That
two instances in different shots are the same object is not decided here.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, counted, unknown
from dejacue.models.detectors import zero_shot
from dejacue.models.detectors.base import Detection, Detector, ExampleDetector, merged
from dejacue.models.trackers.base import Box, Prompt
from dejacue.models.trackers.doubts import colour_counts, colour_distance
from dejacue.plugins import Registry
from dejacue.progress import Progress, silent
from dejacue.records import Window
from dejacue.video.video import Video

MAX_INSTANCES = 8  # of one shot
NEAR_BEST = 0.9  # of the best score: frames as good as the best one, of which the fullest is taken
SHOTS, LOOKS = "find shots", "look for the object"  # stages of progress
MAX_LOOKS = 240
FEW_LOOKS = 3  # of a shot, where something was found, too
MAX_STRETCH_S, MAX_STRETCH_FRAMES = 60.0, 1500  # seconds, or frames where times are not known
ALWAYS_ROUNDS = 3  # whatever the distance between looks; later ones keep …
MIN_SPACING_S, MIN_SPACING_FRAMES = 1.0, 10  # … at least this
SAMPLED_SIDE = 48  # about so many rows and columns of a frame are looked at
MIN_CHANGE = 0.3  # share of the pixels whose colour differs, between the frames around a cut …
MIN_RATIO = 3.0  # … and against the median of the shot's last changes: fast motion is no cut
PAST_CHANGES = 12
FLASH_S = 0.25  # colours that come back within this were no cut; no shot is shorter, either
FLASH_FRAMES = 3  # the same where frames have no times

Detect = Callable[[NDArray[np.uint8]], list[Detection]]
DETECTORS: Registry[Callable[..., Detector]] = Registry("detectors", {})


def load_detector(
    name: str | os.PathLike[str] | None = None, *, device: str | None = None
) -> Detector:
    """Load a detector by its name, or from the folder of a model.

    None             llmdet, which is not downloaded unasked
    llmdet, grounding-dino, owlv2, …   through transformers (dejacue[track])
    FOLDER, OWNER/REPOSITORY   another model of these kinds, on this machine or on the hub
    others           plug-ins (dejacue.detectors)
    """
    if name is None:
        from dejacue.models.catalogue import check_models  # which knows the detectors

        name = zero_shot.DEFAULT
        check_models(detector=name)
    name = os.fspath(name)
    is_place = "/" in name or os.sep in name or Path(name).expanduser().is_dir()
    if name in zero_shot.REPOSITORIES or (is_place and name not in DETECTORS):
        return zero_shot.load(name, device=device)
    if name not in DETECTORS:
        raise unknown("detector", name, [*zero_shot.REPOSITORIES, "FOLDER", *DETECTORS])
    detector = DETECTORS[name](device=device)
    if not isinstance(detector, Detector):
        problem = f'the plug-in "{name}" returned a {type(detector).__name__}, not a Detector'
        raise InputError(problem)
    return detector


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

    def prompts(self) -> list[Prompt]:
        """Return where a tracker starts."""
        return [
            Prompt(instance.frame, instance.object, box=instance.box) for instance in self.instances
        ]

    @property
    def summary(self) -> str:
        """Return one line: what was found, in how many looks, the best score and where."""
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
            return f"found no {kind}: {looked}; {score}{needed}"
        omitted = f"; {self.left_out} more were left out" if self.left_out else ""
        number = counted(len(self.instances), "instance")
        return f"found {number} of {kind}: {looked}; {score}{omitted}"

    @property
    def remedy(self) -> str:
        """Return what to try where nothing was found."""
        another = "try another name" if self.names else "try another picture of it"
        return f"{another}, or draw a box around the object in one frame"


def find_objects(
    video: Video,
    names: tuple[str, ...],
    detector: Detector,
    *,
    example: NDArray[np.uint8] | None = None,
    progress: Progress = silent,
) -> ObjectSearch:
    """Look for objects by their names, or by a picture of one, in a few frames of each shot.

    names     as check_names returns them; none where there is an example
    example   (H, W, 3) RGB of the object and little else (owlv2)

    MAX_LOOKS limits the looks at the whole video, whatever its length, MAX_INSTANCES what is kept
    of one shot.
    """
    detect, threshold = detection_of(detector, names, example)
    times_s, shots = find_shots(video, progress)
    looks = _look(video, times_s, shots, detect, threshold, progress)
    instances, left_out = _instances(looks, threshold)
    return ObjectSearch(
        names, detector.identity, threshold, len(times_s), shots, looks, instances, left_out
    )


class ShotDetector:
    """Takes one frame after another and tells the shots; holds two colour signatures, no frames.

    A hard cut changes the colours of the whole picture between two frames, and they stay changed. A
    flash changes them and they come back. Dissolves and fades are not found: their shots stay one.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._last = -1  # index of the frame that came last
        self._colours: NDArray[np.float64] | None = None  # of that frame
        self._changes: deque[float] = deque(maxlen=PAST_CHANGES)
        # a change that may be a flash: colours before it, its frame, its time, its count of frames
        self._pending: tuple[NDArray[np.float64], int, float | None, int] | None = None

    def add(self, index: int, time_s: float | None, image: NDArray[np.uint8]) -> None:
        """Take the next frame (H, W, 3 RGB)."""
        colours = frame_colours(image)
        if self._colours is None:
            self._starts.append(index)
        elif self._pending is not None:
            self._settle(time_s, colours)
        if self._colours is not None and self._pending is None:
            change = float(colour_distance(self._colours, colours))
            usual = float(np.median(self._changes)) if self._changes else 0.0
            if change >= max(MIN_CHANGE, MIN_RATIO * usual):
                self._pending = (self._colours, index, time_s, 0)
            else:
                self._changes.append(change)
        self._colours, self._last = colours, index

    def shots(self) -> list[Window]:
        """Return the shots so far, which cover all frames: indices, both ends included."""
        starts = self._starts + ([self._pending[1]] if self._pending is not None else [])
        ends = [start - 1 for start in starts[1:]] + [self._last]
        return [Window(start, end) for start, end in zip(starts, ends, strict=True)]

    def _settle(self, time_s: float | None, colours: NDArray[np.float64]) -> None:
        """Decide whether the pending change was a cut, a flash, or is not yet known."""
        assert self._pending is not None
        before, start, start_s, count = self._pending
        over = count + 1 >= FLASH_FRAMES
        if time_s is not None and start_s is not None:
            over = time_s - start_s > FLASH_S
        if over:
            self._starts.append(start)
            self._changes.clear()
            self._pending = None
        elif colour_distance(before, colours) < MIN_CHANGE / 2:
            self._colours = colours  # coming back is no cut either
            self._pending = None
        else:
            self._pending = (before, start, start_s, count + 1)


def frame_colours(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return (256,) shares of the colours in the quarters of a frame, of which every n-th pixel is
    taken: by quarters, cuts between places of similar colours differ more than motion does."""
    steps = [max(1, side // SAMPLED_SIDE) for side in image.shape[:2]]
    sampled = image[:: steps[0], :: steps[1]]
    below, right = (np.arange(side) >= (side + 1) // 2 for side in sampled.shape[:2])
    quarters = (2 * below[:, None] + right).astype(np.intp).ravel()
    pixels = np.bincount(quarters, minlength=4)
    counts = colour_counts(sampled.reshape(-1, 3), quarters, 4).reshape(4, -1)
    shares: NDArray[np.float64] = counts / np.maximum(pixels, 1)[:, None] / np.count_nonzero(pixels)
    return shares.ravel()


def find_shots(
    video: Video, progress: Progress = silent
) -> tuple[dict[int, float | None], tuple[Window, ...]]:
    """Return the times of all frames of a video by index, and its shots, in one pass."""
    times_s: dict[int, float | None] = {}
    detector = ShotDetector()
    for frame in video.lazy_frames():
        detector.add(frame.index, frame.time_s, frame.image)
        times_s[frame.index] = frame.time_s
        progress(SHOTS, len(times_s), video.length)
    return times_s, tuple(detector.shots())


def detection_of(
    detector: Detector, names: tuple[str, ...], example: NDArray[np.uint8] | None
) -> tuple[Detect, float]:
    """Return the function that looks at a picture, and its usual threshold."""
    if example is None:
        return lambda picture: detector.detect(picture, names), detector.threshold
    if not isinstance(detector, ExampleDetector):
        problem = f"{detector.name} finds objects by their names, not by an example"
        raise InputError(f"{problem}; use owlv2, or a name")
    guided = detector  # which mypy then knows inside the function
    return lambda picture: guided.detect_like(picture, example), detector.example_threshold


@dataclass
class SearchPlan:
    """Decides, round by round, which positions are looked at.

    times_s   of all frames of the video
    shots     first and last position of each shot
    limit     of all looks together

    A detector is slow, so few frames are looked at: the middle of each shot (of each minute of a
    long one), then two more, then ever more between these in shots where nothing was found. Where
    the limit does not suffice, the longest stretches come first.
    """

    times_s: Sequence[float | None]
    shots: Sequence[tuple[int, int]]
    limit: int = MAX_LOOKS
    looked: dict[int, int] = field(default_factory=dict)  # position → shot
    with_objects: set[int] = field(default_factory=set)  # shots
    rounds: int = 0

    def __post_init__(self) -> None:
        self.stretches = [  # the shot, and a part of it
            (shot, stretch)
            for shot, bounds in enumerate(self.shots)
            for stretch in self._stretches(*bounds)
        ]

    def next_round(self) -> list[int]:
        """Return the positions to look at next, in order; none: the search is over."""
        while len(self.looked) < self.limit:
            several = [pair for pair in self.stretches if self._deserves_more(*pair)]
            if not several:
                break
            several.sort(key=lambda pair: (pair[0] in self.with_objects, -pair[1].length))
            positions: dict[int, int] = {}
            for shot, stretch in several:
                for position in _spread(stretch, self.rounds):
                    room = len(self.looked) + len(positions) < self.limit
                    if room and position not in self.looked:
                        positions[position] = shot
            self.rounds += 1
            if positions:
                self.looked |= positions
                return sorted(positions)
        return []

    def mark_found(self, position: int) -> None:
        self.with_objects.add(self.looked[position])

    def _deserves_more(self, shot: int, stretch: Window) -> bool:
        if self.rounds == 0:
            return True
        if shot in self.with_objects:
            looks = sum(looked == shot for looked in self.looked.values())
            return self.rounds == 1 and looks < FEW_LOOKS
        if self.rounds < ALWAYS_ROUNDS:
            return True
        parts = 3 << self.rounds  # neighbouring looks are at least one apart, after this round
        seconds = self._seconds(stretch.start, stretch.end)
        if seconds is None:
            return stretch.length / parts >= MIN_SPACING_FRAMES
        return seconds / parts >= MIN_SPACING_S

    def _stretches(self, first: int, last: int) -> Iterator[Window]:
        """Divide a shot into parts of about equal length, none longer than a stretch may be."""
        seconds, count = self._seconds(first, last), last - first + 1
        parts = count / MAX_STRETCH_FRAMES if seconds is None else seconds / MAX_STRETCH_S
        edges = np.linspace(0, count, min(count, max(1, int(np.ceil(parts)))) + 1).astype(int)
        for start, end in itertools.pairwise(edges):
            yield Window(first + int(start), first + int(end) - 1)

    def _seconds(self, first: int, last: int) -> float | None:
        start_s, end_s = self.times_s[first], self.times_s[last]
        return None if start_s is None or end_s is None else end_s - start_s


def _spread(stretch: Window, round: int) -> list[int]:
    """Return positions: the middle, then the odd sixths, the odd twelfths, and so on."""
    parts = 2 if round == 0 else 3 * 2**round
    steps = range(1, parts, 2)
    return sorted({stretch.start + stretch.length * step // parts for step in steps})


def _look(
    video: Video,
    times_s: Mapping[int, float | None],
    shots: Sequence[Window],
    detect: Detect,
    threshold: float,
    progress: Progress,
) -> tuple[Look, ...]:
    indices = np.array(list(times_s))
    starts = np.searchsorted(indices, [shot.start for shot in shots]).tolist()
    ends = np.searchsorted(indices, [shot.end for shot in shots], side="right").tolist()
    bounds = [(start, end - 1) for start, end in zip(starts, ends, strict=True)]
    plan = SearchPlan(list(times_s.values()), bounds, MAX_LOOKS)
    looks: list[Look] = []
    while positions := plan.next_round():
        by_index = {int(indices[position]): position for position in positions}
        for frame in video.frames_at(by_index):
            position = by_index[frame.index]
            detections = tuple(merged(detect(frame.image), frame.shape))
            shot = plan.looked[position]
            looks.append(Look(frame.index, frame.source, frame.time_s, shot, detections))
            if _counted(detections, threshold):
                plan.mark_found(position)
            progress(LOOKS, len(looks), len(plan.looked))
    return tuple(sorted(looks, key=lambda look: look.frame))


def _counted(detections: Iterable[Detection], threshold: float, name: str | None = None) -> int:
    """Return how many detections, of a name if one is given, reach the threshold."""
    return sum(
        detection.score >= threshold and name in (None, detection.name) for detection in detections
    )


def _instances(looks: Sequence[Look], threshold: float) -> tuple[tuple[Instance, ...], int]:
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
        left_out += max(0, len(several) - MAX_INSTANCES)
        look_of = {detection: look for look, detection in reversed(candidates)}
        for thing in several[:MAX_INSTANCES]:
            look = look_of[thing]
            place = shot, look.frame, look.source, look.time_s
            instances.append(Instance(0, *place, thing.box, thing.score, thing.name))
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
