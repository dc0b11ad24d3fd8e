"""From pixels without masks: what a tracker's masks cost, and how well its doubts tell.

Rendered scenes, where the true masks are known: the same scenes with true masks, with those of the
light tracker, and with masks that are wrong in a known way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.data.release import Entry
from dejacue.data.rendered import MaskNoise, Scene, render
from dejacue.experiments import rendered
from dejacue.experiments.corpus import Benchmark as Study
from dejacue.experiments.corpus import Table
from dejacue.experiments.table import Experiment, Result, Value, intervals, with_intervals
from dejacue.sources.crops import picture
from dejacue.sources.tracks.base import Prompt, Seen
from dejacue.sources.tracks.doubts import Series, colour_signature, doubts
from dejacue.sources.tracks.tracking import PRESENCE, load_tracker

SCENES = 64
WHOLE_DRIFT = 48  # pixels at level 1, by the last frame
WRONG: Mapping[str, tuple[str, float]] = {
    "true masks, drifting by 10 pixels": ("drift", 10 / WHOLE_DRIFT),
    "true masks, drifting by 20 pixels": ("drift", 20 / WHOLE_DRIFT),
    "switch to another object half way": ("switch", 0.5),
}
TRUE, BOX, MASK = "true masks", "light, from the box in the first frame", "light, from its mask"
CONDITIONS = (TRUE, BOX, MASK, *WRONG)
CURVES = ("r1_05", "top1_tiou")
DOUBT_SEEDS = range(100, 140)
DOUBT_FRAMES = 120

Mask = NDArray[np.bool_]


@dataclass
class Filmed:
    """One scene: a history for each condition, and how well the tracker's masks fit."""

    entries: list[Entry | None]
    overlaps: dict[str, float] = field(default_factory=dict)  # condition → mean mask IoU
    exits: bool = False


def film(number: int) -> Filmed:
    """A scene seen through every kind of mask, each frame drawn once."""
    options = {**rendered.moderate(number), "distractors": 1}
    scene = render(**options)
    noises = {
        name: _noise(render(**options, mask_noise=kind, mask_level=level))
        for name, (kind, level) in WRONG.items()
    }
    encoder = rendered.encoder()
    kept: dict[str, tuple[list[int], list[Any]]] = {name: ([], []) for name in CONDITIONS}
    fits: dict[str, list[float]] = {BOX: [], MASK: []}
    sessions: dict[str, Any] = {}
    for frame, (image, labels) in enumerate(scene):
        true: Mask = labels == 1
        masks = {TRUE: true, **{name: own(labels, frame) == 1 for name, own in noises.items()}}
        for name in (BOX, MASK):
            seen = _followed(sessions, name, image, true)
            if seen is not None:
                masks[name] = seen.mask & (seen.presence >= PRESENCE)
                if true.any():
                    fits[name].append(_overlap(masks[name], true))
        for name, mask in masks.items():
            if mask.any():
                kept[name][0].append(frame)
                kept[name][1].append(picture(image, mask, encoder.size))
    return Filmed(
        [rendered.entry(scene, encoder, *own) if own[0] else None for own in kept.values()],
        {name: float(np.mean(own)) for name, own in fits.items()},
        options["exits"] > 0,
    )


def _followed(
    sessions: dict[str, Any], name: str, image: NDArray[np.uint8], true: Mask
) -> Seen | None:
    """The next frame of a session, which begins where the object is first seen."""
    prompts: Sequence[Prompt] = ()
    if name not in sessions:
        if not true.any():
            return None
        sessions[name] = load_tracker("light").session()
        prompts = [Prompt(box=_box(true))] if name == BOX else [Prompt(mask=true)]
    found: Seen = sessions[name].step(image, prompts)[1]
    return found


def _noise(scene: Scene) -> MaskNoise:
    assert scene.mask_noise is not None
    return scene.mask_noise


def _box(mask: Mask) -> tuple[float, float, float, float]:
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    return float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)


def _overlap(one: Mask, other: Mask) -> float:
    return float((one & other).sum() / max((one | other).sum(), 1))


def masks(study: Study, scenes: int = SCENES, workers: int | None = None) -> Result:
    """Masks from …: R@1 .5 of the contrast readout, and how well the tracker's masks fit."""
    filmed = rendered.in_processes(film, range(scenes), workers)
    ids = sorted(own.entries[0].id for own in filmed if own.entries[0] is not None)
    values: list[Value] = []
    windows: dict[str, Any] = {}
    tables: dict[str, Table] = {}
    for at, name in enumerate(CONDITIONS):
        entries = [own.entries[at] for own in filmed]
        how = ("vocabulary", "contrast")
        tables[name], windows[name] = rendered.measured(entries, ids, study.engine, how)
        values += with_intervals(name, tables[name], CURVES)
        if at:
            change = intervals(tables[name] - tables[TRUE])[1]
            values.append(Value(name, "R@1 .5, change", change[0], None))
    for name in (BOX, MASK):
        for what, chosen in (("without exits", False), ("with exits", True)):
            own = [f.overlaps[name] for f in filmed if f.exits == chosen]
            if own:
                label = f"mean mask IoU, {what} ({len(own)} scenes)"
                values.append(Value(name, label, float(np.mean(own)), None))
    return Result(tuple(values), windows, (rendered.scenes_note(scenes), ABOUT))


ABOUT = (
    "The scenes have a distractor of the same family; camera, light, hands, clutter, grain and up "
    "to two exits as their seed draws them. light: presence of at least .5 counts as seen. Mask "
    "IoU over the frames in which the object is truly visible."
)


def telling(study: Study, seeds: Sequence[int] = DOUBT_SEEDS, workers: int | None = None) -> Result:
    """How often doubts tell a known switch, and how often they come without one."""
    found = rendered.in_processes(_doubted, seeds, workers)
    called = np.array([own[0] for own in found])
    frames = DOUBT_FRAMES * len(seeds)
    values = [
        Value("a switch to another object", "called a switch", float(called[:, 0].mean()), None),
        Value("a switch to another object", "some doubt there", float(called[:, 1].mean()), None),
    ]
    for kind in ("switch", "area", "lost", "back"):
        count = sum(own[1].get(kind, 0) for own in found)
        values.append(
            Value("true masks, per 100 frames", kind, 100 * count / frames, None, unit="times")
        )  # fmt: skip
    return Result(tuple(values), {}, (ABOUT_DOUBTS.format(len(seeds), DOUBT_FRAMES),))


ABOUT_DOUBTS = (
    "{} scenes of {} frames that were not used to choose the thresholds; hands in half of them, "
    "the object leaves the picture in a third. A switch counts as told if the doubt begins within "
    "two frames of it."
)


def _doubted(seed: int) -> tuple[tuple[bool, bool], dict[str, int]]:
    """Whether a switch is called one, and raises some doubt; and the doubts of the true masks."""
    options: dict[str, Any] = {
        "frames": DOUBT_FRAMES, "hand": 0.5 if seed % 2 else 0.0, "distractors": 1,
        "exits": 1 if seed % 3 == 0 else 0,
    }  # fmt: skip
    scene = render(seed, **options)
    wrong = _noise(render(seed, **options, mask_noise="switch", mask_level=0.5))
    true, switched = [], []
    for frame, (image, labels) in enumerate(scene):
        true.append(_sight(image, labels == 1))
        switched.append(_sight(image, wrong(labels, frame) == 1))
    said = doubts(_series(switched))
    at = round(DOUBT_FRAMES * 0.5)
    near = [doubt for doubt in said if abs(doubt.first - at) <= 2]
    counts: dict[str, int] = {}
    for doubt in doubts(_series(true)):
        counts[doubt.kind] = counts.get(doubt.kind, 0) + 1
    return (any(doubt.kind == "switch" for doubt in near), bool(near)), counts


def _sight(image: NDArray[np.uint8], mask: Mask) -> tuple[Any, ...]:
    box = _box(mask) if mask.any() else (0.0, 0.0, 0.0, 0.0)
    return int(mask.sum()), box, colour_signature(image, mask), mask.shape


def _series(sights: Sequence[tuple[Any, ...]]) -> Series:
    areas, boxes, colours, sizes = zip(*sights, strict=True)
    return Series(
        np.arange(len(sights)), np.array(areas), np.ones(len(sights)),
        np.array(boxes).astype(np.int64), np.array(colours), sizes[0],
    )  # fmt: skip


EXPERIMENTS = (
    Experiment("tracking-masks", f"Masks from a tracker, {SCENES} rendered scenes", masks,
               on_request=True),
    Experiment("tracking-doubts", "How well doubts tell a switch", telling, on_request=True),
)  # fmt: skip
