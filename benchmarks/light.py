"""The approximate tracker against true masks: ``python benchmarks/light.py [--first SEED]``.

Rendered scenes (alone, with exits, with hands; shown by a mask or a box), the footage if its
folder is there, and the speed at 1280 × 720, all with one thread. IoU is the mean over the frames
after the first in which the object is visible; "agrees" is the share of frames in which tracker and
truth agree whether it is there at all. The masks of the footage are themselves only recovered
from a rendering.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from dejacue import open_masks, open_video
from dejacue.data.rendered import render
from dejacue.sources.tracks.base import Prompt
from dejacue.sources.tracks.light import Light

FOOTAGE = Path(__file__).resolve().parents[2] / "shared" / "footage"
SETTINGS = {
    "alone": {},
    "exits": {"exits": 2},
    "hands": {"hand": 0.6},
    "exits and hands": {"exits": 2, "hand": 0.6},
}

Pairs = Iterable[tuple[np.ndarray, np.ndarray]]


def prompt_of(mask: np.ndarray, kind: str) -> Prompt:
    if kind == "mask":
        return Prompt(mask=mask)
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return Prompt(box=(columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))


def follow(pairs: Pairs, kind: str) -> tuple[float, float, float]:
    """(image, true mask) of each frame → IoU, agreement on visibility, mean presence."""
    session = Light().session()
    overlaps, agrees, presences = [], [], []
    started = False
    for image, mask in pairs:
        if not started and not mask.any():
            continue
        seen = session.step(image, () if started else (prompt_of(mask, kind),))[1]
        if started:
            agrees.append(seen.mask.any() == mask.any())
            presences.append(seen.presence)
            if mask.any():
                overlaps.append((seen.mask & mask).sum() / (seen.mask | mask).sum())
        started = True
    return float(np.mean(overlaps)), float(np.mean(agrees)), float(np.mean(presences))


def table(title: str, columns: Sequence[str]) -> Table:
    made = Table(title=title, title_justify="left")
    for k, column in enumerate(columns):
        made.add_column(column, justify="right" if k else "left", no_wrap=True)
    return made


def rendered(console: Console, first: int, count: int) -> None:
    rows = table(
        f"rendered scenes {first}–{first + count - 1}",
        ("scenes", "shown by", "IoU", "worst", "IoU < 0.5", "agrees", "presence"),
    )
    families: dict[str, list[float]] = defaultdict(list)
    for name, options in SETTINGS.items():
        found: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
        for seed in range(first, first + count):
            scene = render(seed, **options)
            pairs = [(image, given == 1) for image, given in scene]
            for kind in ("mask", "box"):
                found[kind].append(follow(pairs, kind))
            if name == "alone":
                families[scene.family.name].append(found["mask"][-1][0])
        for kind, values in found.items():
            overlaps, agrees, presences = np.array(values).T
            rows.add_row(
                name, kind, f"{overlaps.mean():.3f}", f"{overlaps.min():.2f}",
                f"{(overlaps < 0.5).sum()}", f"{agrees.mean():.3f}", f"{presences.mean():.2f}",
            )  # fmt: skip
    console.print(rows)
    rows = table("by family, alone, shown by a mask", ("family", "scenes", "IoU", "worst"))
    for family, values in sorted(families.items()):
        rows.add_row(family, str(len(values)), f"{np.mean(values):.3f}", f"{min(values):.2f}")
    console.print(rows)


def footage(console: Console, folder: Path) -> None:
    rows = table(
        "footage", ("sequence", "shown by", "IoU", "first 10 frames", "agrees", "presence")
    )
    for sequence in sorted(path.name for path in (folder / "JPEGImages").iterdir()):
        masks = open_masks(folder / "Annotations" / sequence)
        pairs = []
        for frame in open_video(folder / "JPEGImages" / sequence, start=1):  # 0 has a tint
            mask = masks.unions(frame, [None])[0]
            empty = np.zeros(frame.image.shape[:2], dtype=bool)
            pairs.append((frame.image, empty if mask is None else mask))
        for kind in ("mask", "box"):
            overlap, agrees, presence = follow(pairs, kind)
            begun, *_ = follow(pairs[:11], kind)
            rows.add_row(
                sequence, kind, f"{overlap:.3f}", f"{begun:.3f}", f"{agrees:.3f}", f"{presence:.2f}"
            )
    console.print(rows)


def speed(console: Console, first: int) -> None:
    rows = table("1280 × 720, one thread", ("scene", "ms a frame", "frames/s", "IoU"))
    for seed in range(first, first + 3):
        scene = render(seed, size=(720, 1280), frames=24)
        pairs = [(image, given == 1) for image, given in scene]
        session = Light().session()
        session.step(pairs[0][0], (Prompt(mask=pairs[0][1]),))
        overlaps, start = [], time.perf_counter()
        for image, mask in pairs[1:]:
            seen = session.step(image)[1].mask
            overlaps.append((seen & mask).sum() / max((seen | mask).sum(), 1))
        each = (time.perf_counter() - start) / (len(pairs) - 1)
        rows.add_row(scene.id, f"{1e3 * each:.0f}", f"{1 / each:.1f}", f"{np.mean(overlaps):.3f}")
    console.print(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=5000, help="first seed of the scenes")
    parser.add_argument("--count", type=int, default=30, help="how many scenes")
    parser.add_argument("--footage", type=Path, default=FOOTAGE, help="folder in VOST's layout")
    options = parser.parse_args()
    console = Console(width=110)
    speed(console, options.first)
    rendered(console, options.first, options.count)
    if options.footage.is_dir():
        footage(console, options.footage)


if __name__ == "__main__":
    main()
