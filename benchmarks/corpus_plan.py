"""A plan for more than one machine: measured constants, and a model of what they add up to.

    python benchmarks/corpus_plan.py [--folder DIR] [--write PAGE]

The first table is measured here and now, in CPU seconds; what is assumed of the machines of a
cluster is named in the second. The third follows from both. A question goes to every node at once
and is as late as the last of them: how late nodes are is drawn from the chunks of 256 MB that are
timed here (each over the median), 2,000 questions. *Asked twice*: where a node has not answered
after the time that 95 of 100 take, the one with the other copy is asked, too, and the first answer
counts.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from encode import random_model
from numpy.typing import NDArray
from store import FRAMES, D, histories, put_table, words

from dejacue import Store
from dejacue.sources.encoders.siglip_torch import TorchSiglip
from dejacue.sources.video import open_video, write_video

HISTORIES, ROUNDS, QUESTIONS = 2000, 30, 2000
ROW, MEAN = D * 2, D * 4  # bytes of a frame, and of the mean of a history
SHORT = 128  # bytes of a mean in 64 leading directions, float16 (benchmarks/first_stage.py)
CASES = ((10**6, FRAMES), (10**7, FRAMES), (10**8, FRAMES), (10**9, FRAMES), (10**9, 100))


@dataclass(frozen=True)
class Assumed:
    """A node, and what is not measured here."""

    cores: int = 16
    memory: float = 96e9  # bytes of its 128 GB that may hold means
    memory_s: float = 100e9  # bytes a second that all cores together read
    disk: float = 12e12
    disk_s: float = 6e9
    copies: int = 2
    gpu_images_s: float = 5400  # H200, frames in memory → rows (docs/speed.md: 6849 at best)

    def lines(self) -> list[str]:
        return [
            "| assumed | |", "|---|---|",
            f"| a node | {self.cores} cores, {self.memory / 1e9:.0f} GB for means, which its cores "
            f"read at {self.memory_s / 1e9:.0f} GB/s; {self.disk / 1e12:.0f} TB of disk at "
            f"{self.disk_s / 1e9:.0f} GB/s |",
            f"| copies of everything | {self.copies} |",
            f"| a history | rows of {D} float16; 5 frames per second, one object per video |",
            f"| encoding on a GPU | {self.gpu_images_s:,.0f} images/s |",
        ]  # fmt: skip


@dataclass(frozen=True)
class Measured:
    index: float  # bytes of a history
    ask_s: float  # bytes a second, one thread
    rank_s: float
    late: NDArray[Any]  # times of chunks over their median
    decode: float  # CPU seconds of a minute of video
    images_s: float

    def lines(self) -> list[str]:
        p99, rows = np.quantile(self.late, 0.99), FRAMES * ROW
        return [
            "| measured | |", "|---|---|",
            f"| a history: rows, mean, index | {rows:,} + {MEAN:,} + {self.index:,.0f} bytes |",
            f"| querying, one thread | {self.ask_s / 1000000000.0:.1f} GB/s of rows |",
            f"| ranking, one thread | {self.rank_s / 1e9:.1f} GB/s of means |",
            f"| a chunk of 256 MB, slowest of 100 | {p99:.2f} times the median |",
            f"| decoding a minute of 1080p H.264, 30 frames per second | {self.decode:.1f} CPU s |",
            f"| encoding on one core, SigLIP base-patch16-224 | {self.images_s:.1f} images/s |",
        ]  # fmt: skip


def asked(folder: Path) -> tuple[float, float, float, NDArray[Any]]:
    """Bytes of the index, bytes a second of rows and of means, and how late chunks are."""
    with Store.create(folder / "store") as made:
        made.add(histories(HISTORIES))
    index = (folder / "store" / "index.sqlite").stat().st_size / HISTORIES
    store, vocabulary = Store.open(folder / "store"), words()
    rates: list[tuple[float, float, int]] = []  # seconds, CPU seconds and histories of a chunk

    def clocks(done: int) -> tuple[float, float, int]:
        return time.perf_counter(), time.process_time(), done

    def progress(stage: str, done: int, *_: object) -> None:
        nonlocal last
        now = clocks(done)
        rates.append((now[0] - last[0], now[1] - last[1], now[2] - last[2]))
        last = now

    for turn in range(ROUNDS + 1):
        last = clocks(0)
        store.ask(vocabulary, progress=progress).columns()
        if turn == 0:
            rates.clear()  # the first maps the files
    most = max(count for _, _, count in rates)
    took, used = np.array([own[:2] for own in rates if own[2] == most]).T
    means = np.random.default_rng(0).standard_normal((100_000, D), np.float32)
    centre, ranked = means[0].copy(), []
    for _ in range(10):
        start = time.process_time()
        np.partition(means @ centre, -100)
        ranked.append(time.process_time() - start)
    rank_s = means.nbytes / float(np.median(ranked))
    return index, most * FRAMES * ROW / float(np.median(used)), rank_s, took / np.median(took)


def decoding(folder: Path, seconds: int = 4) -> float:
    """CPU seconds of a minute; a picture that moves, with noise."""
    rng = np.random.default_rng(0)
    wide = rng.integers(0, 256, (68, 160, 3), dtype=np.uint8).repeat(16, axis=0).repeat(16, axis=1)
    wide = wide // 2 + rng.integers(0, 64, wide.shape, dtype=np.uint8)
    frames = (wide[:1080, 5 * k : 5 * k + 1920] for k in range(30 * seconds))
    write_video(folder / "x.mp4", frames, 30)
    start = time.process_time()
    count = sum(1 for _ in open_video(folder / "x.mp4"))
    assert count == 30 * seconds
    return (time.process_time() - start) * 60 / seconds


def encoding(folder: Path, count: int = 48) -> float:
    random_model(folder / "model", 12)
    encoder = TorchSiglip(folder=folder / "model", device="cpu", batch=16)
    given = list(np.random.default_rng(0).integers(0, 256, (count, 224, 224, 3), dtype=np.uint8))
    encoder.encode_images(given[:16])
    start = time.process_time()
    encoder.encode_images(given)
    return count / (time.process_time() - start)


def measure(folder: Path) -> Measured:
    return Measured(*asked(folder), decoding(folder), encoding(folder))


def slowest(late: NDArray[Any], nodes: int, twice: bool) -> float:
    """The time of the slowest node over the usual one, of 99 in 100 questions."""
    rng = np.random.default_rng(0)
    wait = np.quantile(late, 0.95)
    found = np.empty(QUESTIONS)
    for k in range(QUESTIONS):
        own = rng.choice(late, nodes)
        if twice:
            own = np.where(own > wait, np.minimum(own, wait + rng.choice(late, nodes)), own)
        found[k] = own.max()
    return float(np.quantile(found, 0.99))


def plan(known: Measured, node: Assumed) -> list[str]:
    lines = [
        "| histories × frames | rows · means · index | nodes | reading every row | first stage, "
        "then 100 | 99 % within · retrying slow nodes | 64 directions, then 100 | GPU hours | core "
        "hours |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    held = node.memory / node.copies  # a node has the means of others, too
    inside = min(node.cores * known.rank_s, node.memory_s)
    for count, frames in CASES:
        row = frames * ROW
        rows, means, index = (count * own for own in (row, MEAN, known.index))
        nodes = max(node.copies, math.ceil(node.copies * (rows + means + index) / node.disk))
        last = math.ceil(100 / nodes) * row / node.disk_s  # the rows of 100
        every = rows / nodes / min(node.disk_s, node.cores * known.ask_s)
        usual, short = (
            own / nodes / (inside if own / nodes <= held else node.disk_s) + last
            for own in (means, count * SHORT + 1000 * MEAN * nodes)
        )
        once, twice = (usual * slowest(known.late, nodes, own) for own in (False, True))
        hours = (
            count * frames / node.gpu_images_s / 3600,
            count * frames / 300 * known.decode / 3600,
        )
        lines.append(
            f"| {count:.0e} × {frames} | {size(rows)} · {size(means)} · {size(index)} | {nodes} "
            f"| {seconds(every)} | {seconds(usual)} | {seconds(once)} · {seconds(twice)} "
            f"| {seconds(short)} | {hours[0]:,.0f} | {hours[1]:,.0f} |".replace("e+0", "e")
        )
    return lines


def size(bytes: float) -> str:
    unit, name = next((u, n) for u, n in ((1e12, "TB"), (1e9, "GB"), (1, "B")) if bytes >= u)
    return f"{bytes / unit:,.1f} {name}" if bytes < 100 * unit else f"{bytes / unit:,.0f} {name}"


def seconds(value: float) -> str:
    if value < 1:
        return f"{1e3 * value:.0f} ms"
    return f"{value:.1f} s" if value < 600 else f"{value / 3600:.1f} h"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--folder", type=Path, help="where to create a store (default: a temporary folder)"
    )
    parser.add_argument("--write", type=Path, help="page to write the tables into")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        known = measure(Path(folder))
    node = Assumed()
    lines = [*known.lines(), "", *node.lines(), "", *plan(known, node)]
    print("\n".join(lines))
    if given.write:
        put_table(given.write, "benchmarks/corpus_plan.py", lines)


if __name__ == "__main__":
    main()
