"""What it costs to bring many videos into a store, measured in one run.

    python benchmarks/ingest.py [--videos 8] [--frames 100] [--encoder mini]
    python benchmarks/ingest.py --ray [--videos 40] [--cost-ms 100]

Rendered scenes of 640 × 360 as H.264 with masks as PNG. *Decoding and cropping* is decode() in as
many workers as ingest takes, whose chunks are read and dropped; *encoding* is the encoder on
crops that are there. A loop of encode is what ingest replaces. The last two lines send
chunks of 256 crops of 224 × 224 from one process to another.

--ray compares the engines on this machine, in turns, three times each (the best counts). Ray is up
before and its first ingest is not counted, one process decodes and one encodes in both. The encoder
is the bottleneck, as a large model on a GPU is: it takes 32 crops of 224 × 224 at a time and sleeps
--cost-ms for them, which leaves the cores to decoding.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _common import Parser, timed

from dejacue import Store, encode, ingest, load_encoder, locate_object
from dejacue.corpus import cluster
from dejacue.corpus.ingest.chunks import Chunk
from dejacue.corpus.ingest.manifest import Item, as_items
from dejacue.corpus.ingest.worker import Decoding, Worker, decode
from dejacue.models.encoders.base import ImageEncoder
from dejacue_paper.data.rendered import render, write_scene

CHUNK, TIMES = 256 * 224 * 224 * 3, 30
_PIPE = (
    f"import os; d = bytes({CHUNK})\nfor _ in range({TIMES}):\n m = memoryview(d)\n "
    "while m: m = m[os.write(1, m):]"
)
_SHARED = (
    "import mmap, os, sys; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0)\n"
    f"d = bytes({CHUNK})\nfor _ in range({TIMES}): m[:] = d; os.write(1, b'.'); "
    "os.read(0, 1)"
)


def decoded(items: list[Item], how: Decoding, workers: int) -> None:
    """Read all crops and drop them."""
    waiting = iter(items)

    def work(_: int) -> None:
        worker = Worker(replace(how, threads=max(1, (os.cpu_count() or 1) // workers)))
        for item in waiting:
            for _ in worker.messages(item):
                pass
        worker.end()

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))


def scenes(folder: Path, count: int, frames: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for k in range(count):
        write_scene(folder / f"s{k}", render(k, family="cup", frames=frames, size=(360, 640)))
        rows.append(
            {
                "video": str(folder / f"s{k}" / "scene.mp4"),
                "objects": 1,
                "id": f"s{k}",
                "masks": str(folder / f"s{k}" / "Annotations"),
            }
        )
    return rows


def measure(folder: Path, count: int, frames: int, name: str) -> Iterator[tuple[str, str]]:
    encoder = load_encoder(name)
    how, workers = Decoding.of(encoder), max(1, (os.cpu_count() or 2) - 1)
    rows = scenes(folder, count, frames)
    items = as_items(rows)
    chunk = next(part for part in decode(items[0], how) if isinstance(part, Chunk))
    crops = list(chunk.crops[: encoder.batch])
    encoder.encode_images(crops)

    def loop() -> None:
        for row in rows:
            masks = locate_object(row["video"], masks=row["masks"], objects=1, id=row["id"])
            encode(row["video"], masks, encoder)

    alone = timed(lambda: [encoder.encode_images(crops) for _ in range(10)]) / 10 / len(crops)
    decoding = timed(lambda: decoded(items, how, workers))
    one_by_one = timed(loop)
    whole = timed(lambda: ingest(rows, folder / "store", encoder=encoder))
    total = sum(row.frames for row in Store.open(folder / "store").rows())
    again = timed(lambda: ingest(rows, folder / "store", encoder=encoder))
    yield f"encoding alone ({name})", f"{1 / alone:,.0f} crops/s"
    yield f"decoding and cropping alone, processes: {workers}", f"{total / decoding:,.0f} crops/s"
    yield "a loop of encode", f"{total / one_by_one:,.0f} crops/s"
    yield f"ingest, {count} videos, {total} crops", f"{total / whole:,.0f} crops/s"
    yield "the same again, everything already there", f"{again:.1f} s"


class Costly(ImageEncoder):
    """Colours of a few pixels, at the cost of a model that runs elsewhere than on these cores."""

    name = identity = "costly"
    dimension, size, batch = 768, 224, 32

    def __init__(self, cost_s: float) -> None:
        self.details = {"backend": "none", "precision": "fp32"}
        self._cost_s = cost_s

    def encode_images(self, crops: Any) -> Any:
        time.sleep(self._cost_s)
        return np.stack([crop.reshape(-1)[:768] for crop in crops]).astype(np.float32) + 1


def engines(folder: Path, count: int, frames: int, cost_s: float) -> Iterator[tuple[str, str]]:
    """Run the local engine and Ray, in turns."""
    rows = scenes(folder, count, frames)
    took: dict[str, list[float]] = {"local": [], "ray": []}
    batches = count * -(-frames // Costly.batch)
    with cluster.connected("local") as ray:
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        ingest(rows[:2], folder / "first", encoder=Costly(cost_s), engine="ray", workers=1)
        for turn in range(3):
            for engine, seconds in took.items():
                place, encoder = folder / f"{engine}{turn}", Costly(cost_s)
                seconds.append(
                    timed(partial(ingest, rows, place, encoder=encoder, engine=engine, workers=1))
                )
                assert len(Store.open(place)) == count
    local, ray_s = min(took["local"]), min(took["ray"])
    yield f"the encoder's own time, {batches} batches", f"{batches * cost_s:.1f} s"
    yield f"local, {count} videos of {frames} frames", f"{local:.1f} s"
    yield "Ray on the same machine", f"{ray_s:.1f} s"
    yield "rate of Ray / local", f"{local / ray_s:.0%}"


def sending(folder: Path) -> Iterator[tuple[str, str]]:
    buffer = memoryview(bytearray(CHUNK))
    with subprocess.Popen([sys.executable, "-c", _PIPE], stdout=-1, bufsize=0) as process:
        process.stdout.readinto(buffer[:1])  # type: ignore[union-attr]
        left = CHUNK * TIMES - 1
        start = time.perf_counter()
        while left:
            left -= process.stdout.readinto(buffer)  # type: ignore[union-attr]
        yield "a pipe", f"{CHUNK * TIMES / (time.perf_counter() - start) / 1e9:.1f} GB/s"
    place = Path("/dev/shm" if os.path.isdir("/dev/shm") else folder, f"dejacue-{os.getpid()}")
    place.write_bytes(bytes(CHUNK))
    command = [sys.executable, "-c", _SHARED, str(place)]
    with (
        subprocess.Popen(command, stdin=-1, stdout=-1, bufsize=0) as process,
        open(place, "rb") as f,
    ):
        shared = np.frombuffer(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        process.stdout.read(1)  # type: ignore[union-attr]
        start = time.perf_counter()
        for _ in range(TIMES - 1):
            shared.copy()  # a batch is made of it
            process.stdin.write(b".")  # type: ignore[union-attr]
            process.stdout.read(1)  # type: ignore[union-attr]
        took = time.perf_counter() - start
        process.stdin.write(b".")  # type: ignore[union-attr]
    place.unlink()
    yield "shared memory", f"{CHUNK * (TIMES - 1) / took / 1e9:.1f} GB/s"


def main() -> None:
    parser = Parser(__doc__, videos=1, frames=24, cost_ms=1)
    parser.add_argument("--videos", type=int, default=8)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--encoder", default="mini")
    parser.add_argument("--ray", action="store_true", help="compare the engines")
    parser.add_argument("--cost-ms", type=float, default=100)
    options = parser.parse_args()
    print("| what | measured |\n|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = [measure(folder, options.videos, options.frames, options.encoder), sending(folder)]
        if options.ray:
            parts = [engines(folder, options.videos, options.frames, options.cost_ms / 1000)]
        for part in parts:
            for what, figure in part:
                print(f"| {what} | {figure} |", flush=True)


if __name__ == "__main__":
    main()
