"""A plan for more than one machine: measured constants, and a model of what they add up to.

    python benchmarks/corpus_plan.py [--folder DIR] [--write PAGE]

The first table is measured here and now; what is assumed of the machines of a cluster is named in
the second. The third follows from both. A question goes to every node at once and is as late as the
last of them: how late nodes are is drawn from the chunks of 256 MB that are timed here (each over
the median), 2,000 questions. *Asked twice*: where a node has not answered after the time that 95 of
100 take, the one with the other copy is asked, too, and the first answer counts.
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

HISTORIES, ROUNDS, QUESTIONS = 2000, 60, 2000
ROW, MEAN, CODE = FRAMES * D * 2, D * 4, 96  # bytes of a history; codes: benchmarks/first_stage.py
SIZES = (10**6, 10**7, 10**8, 10**9)


@dataclass(frozen=True)
class Assumed:
    """A node, and what is not measured here."""

    cores: int = 16
    memory: float = 96e9  # bytes of its 128 GB that may hold means
    memory_s: float = 100e9  # bytes a second that all cores together read
    disk: float = 15e12
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
            f"| a history | {FRAMES} frames × {D} float16: a minute of video at 5 frames a second, "
            "one object |",
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
        p99 = np.quantile(self.late, 0.99)
        return [
            "| measured | |", "|---|---|",
            f"| a history: rows, mean, index | {ROW:,} + {MEAN:,} + {self.index:,.0f} bytes |",
            f"| asking, one thread | {self.ask_s / 1e9:.1f} GB/s of rows |",
            f"| ranking, one thread | {self.rank_s / 1e9:.1f} GB/s of means |",
            f"| a chunk of 256 MB, the slowest of 100 | {p99:.2f} times the median |",
            f"| decoding a minute of 1080p H.264, 30 frames a second | {self.decode:.1f} CPU s |",
            f"| encoding on one core, SigLIP base-patch16-224 | {self.images_s:.1f} images/s |",
        ]  # fmt: skip


def asked(folder: Path) -> tuple[float, float, float, NDArray[Any]]:
    with Store.create(folder / "store") as made:
        made.add(histories(HISTORIES))
    index = (folder / "store" / "index.sqlite").stat().st_size / HISTORIES
    store, vocabulary = Store.open(folder / "store"), words()
    rates: list[tuple[float, float]] = []  # seconds and histories of a chunk

    def progress(stage: str, done: int, *_: object) -> None:
        nonlocal last, before
        now = time.perf_counter()
        rates.append((now - last, done - before))
        last, before = now, done

    for turn in range(ROUNDS + 1):
        last, before = time.perf_counter(), 0
        store.ask(vocabulary, progress=progress).columns()
        if turn == 0:
            rates.clear()  # the first maps the files
    most = max(count for _, count in rates)
    took = np.array([seconds for seconds, count in rates if count == most])
    means = np.random.default_rng(0).standard_normal((100_000, D), np.float32)
    centre, ranked = means[0].copy(), []
    for _ in range(10):
        start = time.perf_counter()
        np.partition(means @ centre, -100)
        ranked.append(time.perf_counter() - start)
    rank_s = means.nbytes / float(np.median(ranked))
    return index, most * ROW / float(np.median(took)), rank_s, took / np.median(took)


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
    start = time.perf_counter()
    encoder.encode_images(given)
    return count / (time.perf_counter() - start)


def measure(folder: Path) -> Measured:
    return Measured(*asked(folder), decoding(folder), encoding(folder))


def slowest(late: NDArray[Any], nodes: int, twice: bool) -> tuple[float, float]:
    """Median and 99th of 100 questions: the slowest node, over the usual time of one."""
    rng = np.random.default_rng(0)
    wait = np.quantile(late, 0.95)
    found = np.empty(QUESTIONS)
    for k in range(QUESTIONS):
        own = rng.choice(late, nodes)
        if twice:
            own = np.where(own > wait, np.minimum(own, wait + rng.choice(late, nodes)), own)
        found[k] = own.max()
    return float(np.median(found)), float(np.quantile(found, 0.99))


def plan(known: Measured, node: Assumed) -> list[str]:
    lines = [
        "| histories | rows · means · index | nodes | every row read | exact first stage, "
        "then 100 | 99 % of them · asked twice | by codes of 96 bytes | GPU hours | core hours |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for count in SIZES:
        rows, means, index = (count * own for own in (ROW, MEAN, known.index))
        nodes = math.ceil(node.copies * (rows + means + index) / node.disk)
        held = node.memory / node.copies  # the other half is for the copies of others
        kernel = node.cores * known.ask_s
        every = rows / nodes / min(node.disk_s, kernel)

        def first(size: float, nodes: int = nodes, held: float = held) -> float:
            """Seconds to look at so many bytes of means or codes, and at the rows of 100."""
            inside = min(node.cores * known.rank_s, node.memory_s)
            speed = inside if size / nodes <= held else node.disk_s
            return size / nodes / speed + 100 / nodes * ROW / node.disk_s

        usual = first(means)
        once, twice = (slowest(known.late, nodes, own)[1] for own in (False, True))
        lines.append(
            f"| {count:.0e} | {size(rows)} · {size(means)} · {size(index)} | {nodes} "
            f"| {seconds(every)} | {seconds(usual)} | {seconds(usual * once)} · "
            f"{seconds(usual * twice)} | {seconds(first(count * CODE))} "
            f"| {count * FRAMES / node.gpu_images_s / 3600:,.0f} "
            f"| {count * known.decode / 3600:,.0f} |".replace("e+0", "e")
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
    parser.add_argument("--folder", type=Path, help="where to make a store (default: temporary)")
    parser.add_argument("--write", type=Path, help="a page to put the tables in")
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
