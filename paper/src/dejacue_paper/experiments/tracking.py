"""From pixels without masks: what a tracker's masks cost, and how well its doubts tell.

Rendered scenes, where the true masks are known: the same scenes with true masks, with a box that
stays where it is, and with masks that are wrong in a known way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.models.trackers.base import Box, bounding_box, box_mask
from dejacue.models.trackers.doubts import Series, colour_signature, find_doubts
from dejacue.video.crops import picture
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.data.rendered import MaskNoise, RenderedScene, render
from dejacue_paper.experiments import rendered
from dejacue_paper.experiments.corpus import Benchmark, Table
from dejacue_paper.experiments.table import Experiment, Result, Value, intervals, with_intervals

SCENES = 64
WHOLE_DRIFT = 48  # pixels at level 1, by the last frame
WRONG: Mapping[str, tuple[str, float]] = {
    "true masks, drifting by 10 pixels": ("drift", 10 / WHOLE_DRIFT),
    "true masks, drifting by 20 pixels": ("drift", 20 / WHOLE_DRIFT),
    "switch to another object halfway": ("switch", 0.5),
}
TRUE, BOX = "true masks", "the box of the first frame, never moved"
CONDITIONS = (TRUE, BOX, *WRONG)
CURVES = ("r1_05", "top1_tiou")
DOUBT_SEEDS = range(100, 140)
DOUBT_FRAMES = 120

Mask = NDArray[np.bool_]


@dataclass
class Filmed:
    """One scene: a history for each condition, and how well the box that stays fits."""

    entries: list[ReleaseEntry | None]
    overlap: float  # mean IoU with the box around the true mask
    exits: bool


def film(number: int) -> Filmed:
    """Draw a scene once and see it through every kind of mask."""
    options = {**rendered.moderate(number), "distractors": 1}
    scene = render(**options)
    noises = {
        name: _noise(render(**options, mask_noise=kind, mask_level=level))
        for name, (kind, level) in WRONG.items()
    }
    encoder = rendered.encoder()
    frames_of: dict[str, tuple[list[int], list[Any]]] = {name: ([], []) for name in CONDITIONS}
    fits: list[float] = []
    first: Box | None = None
    for frame, (image, labels) in enumerate(scene):
        true: Mask = labels == 1
        masks = {TRUE: true, **{name: noise(labels, frame) == 1 for name, noise in noises.items()}}
        edges = bounding_box(true)
        first = first or edges
        if first is not None:  # from the frame on in which the object is first seen
            masks[BOX] = box_mask(first, image)
            if edges is not None:
                fits.append(_overlap(masks[BOX], edges))
        for name, mask in masks.items():
            if mask.any():
                frames_of[name][0].append(frame)
                frames_of[name][1].append(picture(image, mask, encoder.size))
    return Filmed(
        [
            rendered.entry(scene, encoder, *observed) if observed[0] else None
            for observed in frames_of.values()
        ],
        float(np.mean(fits)),
        options["exits"] > 0,
    )


def _noise(scene: RenderedScene) -> MaskNoise:
    assert scene.mask_noise is not None
    return scene.mask_noise


def _overlap(still: Mask, edges: tuple[int, int, int, int]) -> float:
    box = np.zeros_like(still)
    box[edges[1] : edges[3], edges[0] : edges[2]] = True
    return float((still & box).sum() / (still | box).sum())


def masks(benchmark: Benchmark, scenes: int = SCENES, workers: int | None = None) -> Result:
    """Compare masks from several sources: R@1 .5 of the contrast readout, and how well the box that
    stays fits."""
    filmed = rendered.in_processes(film, range(scenes), workers)
    ids = sorted(clip.entries[0].id for clip in filmed if clip.entries[0] is not None)
    values: list[Value] = []
    windows: dict[str, Any] = {}
    tables: dict[str, Table] = {}
    for at, name in enumerate(CONDITIONS):
        entries = [clip.entries[at] for clip in filmed]
        how = ("vocabulary", "contrast")
        tables[name], windows[name] = rendered.measured(entries, ids, benchmark.engine, how)
        values += with_intervals(name, tables[name], CURVES)
        if at:
            change = intervals(tables[name] - tables[TRUE])[1]
            values.append(Value(name, "R@1 .5, change", change[0], None))
    for what, chosen in (("without exits", False), ("with exits", True)):
        fits = [clip.overlap for clip in filmed if clip.exits == chosen]
        if fits:
            label = f"mean box IoU, {what} ({len(fits)} scenes)"
            values.append(Value(BOX, label, float(np.mean(fits)), None))
    return Result(tuple(values), windows, (rendered.scenes_note(scenes), ABOUT))


ABOUT = (
    "The scenes have a distractor of the same family; camera, light, hands, clutter, grain and up "
    "to two exits are drawn from their seed. Box IoU: with the box around the true mask, over the "
    "frames in which the object is actually visible."
)


def telling(
    benchmark: Benchmark, seeds: Sequence[int] = DOUBT_SEEDS, workers: int | None = None
) -> Result:
    """Measure how often doubts tell a known switch, and how often they come without one."""
    results = rendered.in_processes(_doubted, seeds, workers)
    called = np.array([result[0] for result in results])
    frames = DOUBT_FRAMES * len(seeds)
    values = [
        Value(
            "a switch to another object", "reported as a switch", float(called[:, 0].mean()), None
        ),
        Value(
            "a switch to another object", "reported as any doubt", float(called[:, 1].mean()), None
        ),
    ]
    for kind in ("switch", "area", "lost", "back"):
        count = sum(result[1].get(kind, 0) for result in results)
        values.append(
            Value("true masks, per 100 frames", kind, 100 * count / frames, None, unit="times")
        )
    return Result(tuple(values), {}, (ABOUT_DOUBTS.format(len(seeds), DOUBT_FRAMES),))


ABOUT_DOUBTS = (
    "{} scenes of {} frames that were not used to choose the thresholds; half of them have hands, "
    "and the object leaves the picture in a third. A switch counts as detected if the doubt "
    "begins within two frames of it."
)


def _doubted(seed: int) -> tuple[tuple[bool, bool], dict[str, int]]:
    """Return whether a switch is found, and doubted at all; and the doubts of the true masks."""
    options: dict[str, Any] = {
        "frames": DOUBT_FRAMES,
        "hand": 0.5 if seed % 2 else 0.0,
        "distractors": 1,
        "exits": 1 if seed % 3 == 0 else 0,
    }
    scene = render(seed, **options)
    wrong = _noise(render(seed, **options, mask_noise="switch", mask_level=0.5))
    true, switched = [], []
    for frame, (image, labels) in enumerate(scene):
        true.append(_measured(image, labels == 1))
        switched.append(_measured(image, wrong(labels, frame) == 1))
    doubts = find_doubts(_series(switched))
    at = round(DOUBT_FRAMES * 0.5)
    near = [doubt for doubt in doubts if abs(doubt.first - at) <= 2]
    counts: dict[str, int] = {}
    for doubt in find_doubts(_series(true)):
        counts[doubt.kind] = counts.get(doubt.kind, 0) + 1
    return (any(doubt.kind == "switch" for doubt in near), bool(near)), counts


def _measured(image: NDArray[np.uint8], mask: Mask) -> tuple[Any, ...]:
    return (
        int(mask.sum()),
        bounding_box(mask) or (0, 0, 0, 0),
        colour_signature(image, mask),
        mask.shape,
    )


def _series(frames: Sequence[tuple[Any, ...]]) -> Series:
    areas, boxes, colours, sizes = zip(*frames, strict=True)
    return Series(
        np.arange(len(frames)),
        np.array(areas),
        np.ones(len(frames)),
        np.array(boxes),
        np.array(colours),
        sizes[0],
    )


EXPERIMENTS = (
    Experiment("tracking-masks", f"Wrong masks, {SCENES} rendered scenes", masks, on_request=True),
    Experiment("tracking-doubts", "How well doubts detect a switch", telling, on_request=True),
)
