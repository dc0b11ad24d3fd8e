"""From video files to rows: ``python benchmarks/files.py [--device cuda] [--seconds 60]``.

1080p H.264 with an object of about 400 pixels and PNG masks (palette, 8 bits), many files at once.
Compared in one run, in frames a second:

    decoding alone     all cores, one file and one thread each: nothing but FFmpeg       floor A
    the tower alone    bytes on the device → rows, as it is and compiled                 floor B
    many files → rows  ``dejacue.ingest`` into a store                                    the path
    one file → rows    ``encode``

and the path as a share of the slower floor. Shared machines change their speed from minute to
minute: ``--repeat`` measures decoding and the path by turns, and compares the means. The model has
the size of SigLIP 2 base-patch16-224 and random weights, so that none are needed. ``--seconds``
gives the path so many files that the slower floor needs that long, ``--stages`` adds what each
stage costs a core. In a checkout the compiled parts are built by ``python setup.py build_ext
--inplace``; PYTHONPATH=src finds them.
``benchmarks/cpu.py`` measures ONNX Runtime on a CPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from _common import Parser, put_table
from encode import random_model

HEIGHT, WIDTH, SIDE, RATE = 1080, 1920, 512, 30
KINDS = 4  # files that differ; the others are links to them
FILES_PER_CORE = 4  # for a floor of all cores


def texture(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Draw coarse and fine structure as photographs have it: amplitudes fall with frequency."""
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width))
    frequency[0, 0] = 1.0
    noise = rng.normal(size=(3, height, width)) / frequency**1.1
    pattern = np.fft.ifft2(noise).real
    pattern = (pattern - pattern.mean(axis=(1, 2), keepdims=True)) / pattern.std(
        axis=(1, 2), keepdims=True
    )
    return np.clip(128 + 48 * pattern, 0, 255).astype(np.uint8).transpose(1, 2, 0)


def scenes(seed: int, frames: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Draw a camera that moves, a thing that moves and changes its outline, noise; and masks."""
    rng = np.random.default_rng(seed)
    ground, thing = texture(rng, HEIGHT + 120, WIDTH + 480), texture(rng, SIDE, SIDE)
    grain = rng.normal(0, 3, (4, HEIGHT, WIDTH, 1)).astype(np.int16)
    y, x = np.mgrid[:SIDE, :SIDE] - SIDE / 2
    angle = np.arctan2(y, x)
    for k in range(frames):
        top, left = int(60 + 50 * np.sin(k / 40)), int(240 + 200 * np.sin(k / 70 + seed))
        image = ground[top : top + HEIGHT, left : left + WIDTH].copy()
        a, b = 150 + 60 * np.sin(k / 25), 190 + 50 * np.cos(k / 31)
        seen = (y / a) ** 2 + (x / b) ** 2 < 1 + 0.15 * np.sin(6 * angle + k / 10)
        top, left = int(280 + 150 * np.sin(k / 33)), int(700 + 400 * np.cos(k / 47))
        image[top : top + SIDE, left : left + SIDE][seen] = thing[seen]
        mask = np.zeros((HEIGHT, WIDTH), np.uint8)
        mask[top : top + SIDE, left : left + SIDE] = seen
        yield np.clip(image + grain[k % 4], 0, 255).astype(np.uint8), mask


def write_files(seed: int, folder: Path, frames: int, bit_rate: int) -> None:
    """Write one video and its masks."""
    import av
    from PIL import Image

    masks = folder / f"masks{seed}"
    masks.mkdir(parents=True)
    palette = [value for k in range(256) for value in (k, 255 - k, k)]
    with av.open(str(folder / f"kind{seed}.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=RATE, options={"preset": "medium"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.bit_rate = bit_rate
        for k, (image, mask) in enumerate(scenes(seed, frames)):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
            picture = Image.fromarray(mask)
            picture.putpalette(palette)
            picture.save(masks / f"{k:05d}.png")
        container.mux(stream.encode())


def write_kinds(folder: Path, kinds: int, frames: int, bit_rate: int, cores: int) -> None:
    """Write the files that differ, each in a process."""
    with ProcessPoolExecutor(min(kinds, cores), get_context("spawn")) as pool:
        make = partial(write_files, folder=folder, frames=frames, bit_rate=bit_rate)
        list(pool.map(make, range(kinds)))


def manifest(folder: Path, kinds: int, videos: int) -> list[dict]:
    """Return the lines of a manifest of so many videos, which are links to the kinds."""
    lines = []
    for k in range(videos):
        path = folder / f"video{k:04d}.mp4"
        if not path.exists():
            os.link(folder / f"kind{k % kinds}.mp4", path)
        lines.append({"video": str(path), "masks": str(folder / f"masks{k % kinds}")})
    return lines


# Stages, each in processes of one thread


def stage(name: str, line: dict) -> tuple[int, float]:
    """Return how many frames of one file went through this stage and those before it, and the
    seconds of a processor that they took."""
    start = time.process_time()
    count = sum(1 for _ in (decoded(line) if name == "decode" else seen(line, name == "crop")))
    return count, time.process_time() - start


def decoded(line: dict) -> Iterator[object]:
    import av

    with av.open(line["video"]) as container:
        stream = container.streams.video[0]
        stream.thread_type, stream.codec_context.thread_count = "NONE", 1
        yield from container.decode(stream)


def seen(line: dict, cropped: bool) -> Iterator[object]:
    from dejacue import open_masks, open_video
    from dejacue.models.encoders.base import EncoderInfo

    encoder = EncoderInfo("none", 768, 224, 32, {})
    masks = open_masks(line["masks"])
    for frame in open_video(line["video"], threads=1).lazy_frames():
        (mask,) = masks.unions(frame, [None])
        yield encoder.pixels(frame, mask) if cropped else mask


@contextmanager
def started(cores: int, line: dict) -> Iterator[ProcessPoolExecutor]:
    """Return processes that have started and read a file."""
    with ProcessPoolExecutor(cores, get_context("spawn")) as pool:
        list(pool.map(partial(stage, "crop"), [line] * cores))
        yield pool


def measured(pool: ProcessPoolExecutor, name: str, lines: list[dict]) -> tuple[float, float]:
    """Return frames a second of all processes, and milliseconds of a processor per frame."""
    start = time.perf_counter()
    frames, cpu_s = map(sum, zip(*pool.map(partial(stage, name), lines), strict=True))
    return frames / (time.perf_counter() - start), 1e3 * cpu_s / frames


# The model


def tower_rate(encoder, mode: str | None, batches: int) -> tuple[float, float, float]:
    """Return images a second, the seconds that compiling took, and the largest difference of a unit
    row from those that are not compiled."""
    import torch

    bytes_ = torch.randint(0, 256, (encoder.batch, 224, 224, 3), dtype=torch.uint8)
    inputs = bytes_.to(encoder.device)
    wait = torch.cuda.synchronize if encoder.device.startswith("cuda") else (lambda: None)
    run: Callable = encoder._rows_of_bytes
    if mode is not None:
        chosen = None if mode == "default" else mode
        run = torch.compile(encoder._rows_of_bytes, dynamic=False, mode=chosen)
    with torch.inference_mode():
        start = time.perf_counter()
        rows = torch.nn.functional.normalize(run(inputs).float())
        wait()
        first = time.perf_counter() - start
        plain = torch.nn.functional.normalize(encoder._rows_of_bytes(inputs).float())
        run(inputs)
        wait()
        start = time.perf_counter()
        for _ in range(batches):
            run(inputs)
        wait()
        rate = batches * encoder.batch / (time.perf_counter() - start)
    return rate, first, float((rows - plain).abs().max())


class Clock:
    """When how many crops were encoded, to tell the steady rate from starting and ending."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []

    def __call__(self, stage: str, done: int, total: int | None = None, note: str = "") -> None:
        if stage == "crops":
            self.seen.append((time.perf_counter(), done))

    def steady(self) -> float:
        """Return the rate over the middle of the run."""
        last = self.seen[-1][1]
        middle = [stamp for stamp in self.seen if 0.25 * last <= stamp[1] <= 0.75 * last]
        if len(middle) < 2:
            return float("nan")
        (start, first), (end, after) = middle[0], middle[-1]
        return (after - first) / (end - start)


def path_rate(lines: list[dict], encoder, folder: Path, workers: int) -> tuple[float, float, float]:
    """Return frames a second of all, starting the processes included, and of the middle; and the
    milliseconds of a processor per frame in these processes."""
    from dejacue.corpus.ingest import ingest

    clock = Clock()
    before = os.times()
    start = time.perf_counter()
    items = [{**line, "stride": 1} for line in lines]  # of all frames
    store = folder / f"store{time.time_ns()}"
    done = ingest(items, store, encoder=encoder, workers=workers, progress=clock)
    seconds = time.perf_counter() - start
    if done.failed:
        raise RuntimeError(f"{len(done.failed)} files failed, the first: {done.failed[0]}")
    after, frames = os.times(), clock.seen[-1][1]
    cpu_s = after.children_user + after.children_system
    cpu_s -= before.children_user + before.children_system
    return frames / seconds, clock.steady(), 1e3 * cpu_s / frames


def one_rate(line: dict, encoder) -> float:
    from dejacue import encode, open_masks, open_video

    masks = open_masks(line["masks"])
    start = time.perf_counter()
    (history,) = encode(open_video(line["video"]), masks, encoder).values()
    return len(history) / (time.perf_counter() - start)


class Results:
    """Figures in frames a second, printed as they come, then as a table."""

    def __init__(self) -> None:
        self.rates: dict[str, float] = {}
        self.notes: dict[str, str] = {}

    def add(self, name: str, rate: float, note: str = "") -> None:
        self.rates[name], self.notes[name] = rate, note
        print(f"{name:44} {rate:9.1f} frames/s  {note}", flush=True)

    @contextmanager
    def short_error(self, name: str) -> Iterator[None]:
        """Print why a measurement cannot be made here, and go on with the others."""
        try:
            yield
        except Exception as error:  # compilers and drivers raise all kinds
            message = (str(error).splitlines() or [repr(error)])[0]
            self.notes[name] = f"failed: {message}"
            print(f"{name}: failed ({message})", flush=True)

    def table(self) -> list[str]:
        """Return lines of Markdown."""
        rows = [
            f"| {name} | {self.rates.get(name, math.nan):,.1f} | {note} |"
            for name, note in self.notes.items()
        ]
        return ["| what | frames/s | |", "| --- | --- | --- |", *rows]


def run(options: argparse.Namespace, folder: Path) -> dict:
    from dejacue.models.encoders.siglip import TorchSiglip
    from dejacue.video import crops

    cores = options.cores or os.cpu_count() or 1
    kinds = min(KINDS, options.videos)
    results = Results()
    start = time.perf_counter()
    write_kinds(folder, kinds, options.frames, options.bit_rate, cores)
    lines = manifest(folder, kinds, options.videos)
    size = os.path.getsize(lines[0]["video"]) * 8 * RATE / options.frames / 1e6
    made_s = time.perf_counter() - start
    parts = "compiled parts" if crops.compiled else "no compiled parts (build_ext --inplace)"
    heading = (
        f"{options.frames} frames a file, {WIDTH} × {HEIGHT}, {size:.1f} Mbit/s, {cores} cores, "
        f"{parts}"
    )
    print(f"{heading}; files made in {made_s:.0f} s", flush=True)
    floor_lines = manifest(
        folder, kinds, max(options.videos, FILES_PER_CORE * cores)
    )  # no core idle
    with started(cores, lines[0]) as pool:
        decoding, alone_ms = measured(pool, "decode", floor_lines)
        results.add("decoding alone, all cores", decoding, f"floor A; {alone_ms:.2f} ms of a core")
        for name in ("masks", "crop") if options.stages else ():
            rate, cpu_ms = measured(pool, name, floor_lines)
            note = f"{rate / decoding:.2f} of decoding alone; {cpu_ms:.2f} ms of a core"
            results.add(f"decoding and {name}, all cores", rate, note)
    random_model(folder / "model", options.layers)
    encoder = TorchSiglip(
        folder=folder / "model",
        device=options.device,
        batch=options.batch,
    )
    model = f"{encoder.device}, {encoder.details['precision']}, batch {encoder.batch}"
    print(f"device {model}", flush=True)
    floors = []
    for mode in (None, *options.modes):
        name = "tower alone" + (f", compiled ({mode})" if mode else "")
        with results.short_error(name):
            rate, first, off = tower_rate(encoder, mode, options.batches)
            floors.append(rate)
            note = f"floor B; first batch {first:.1f} s, rows differ by {off:.1e}"
            results.add(name, rate, note)
    noise = np.random.default_rng(0).integers(0, 256, (4 * encoder.batch, 224, 224, 3), np.uint8)
    encoder.encode_images(list(noise))
    start = time.perf_counter()
    encoder.encode_images(list(noise))
    rate = len(noise) / (time.perf_counter() - start)
    results.add("pictures in memory → rows, one thread", rate, f"{rate / max(floors):.2f} of B")
    floor = min(decoding, max(floors))
    if options.seconds:
        lines = manifest(folder, kinds, math.ceil(options.seconds * floor / options.frames))
    for workers in options.workers or [cores]:
        name = f"{len(lines)} files → rows, {workers} processes"
        with results.short_error(name):
            paths, decodings = [], [decoding]
            for turn in range(options.repeat):
                if turn:
                    with started(cores, lines[0]) as pool:
                        decodings.append(measured(pool, "decode", floor_lines)[0])
                paths.append(path_rate(lines, encoder, folder, workers))
                print(f"turn {turn + 1}: {paths[-1][0]:.0f} to {decodings[-1]:.0f}", flush=True)
            floor = min(float(np.mean(decodings)), max(floors))
            whole, steady, cpu_ms = np.mean(paths, axis=0)
            note = f"{whole / floor:.2f} of the slower floor, start and end included"
            if options.repeat > 1:
                note += f", {options.repeat} turns (decoding {np.mean(decodings):,.0f} on average)"
            note += f"; {cpu_ms:.2f} ms of a core in the processes that decode"
            results.add(name, whole, note)
            note = f"{steady / floor:.2f} of the slower floor"
            results.add(f"{name}, middle of the run", steady, note)
    rate = one_rate(lines[0], encoder)
    results.add("one file → rows", rate, f"{rate / floor:.2f} of the slower floor")
    return {"machine": f"{heading}; {model}", **vars(results), "table": results.table()}


def main() -> None:
    small = {"videos": 1, "frames": 2, "batch": 1, "batches": 1, "layers": 1, "cores": 1}
    parser = Parser(__doc__, **small, device="cpu", stages=True, repeat=2)
    parser.add_argument("--device")
    parser.add_argument("--videos", type=int, default=8)
    parser.add_argument("--seconds", type=float, help="how long the path runs (default: --videos)")
    parser.add_argument("--frames", type=int, default=240, help="frames per video")
    parser.add_argument("--bit-rate", type=int, default=8_000_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--batches", type=int, default=60, help="batches used to time the tower")
    parser.add_argument("--layers", type=int, default=12, help="fewer for a quick try on a CPU")
    parser.add_argument(
        "--cores", type=int, help="processes for decoding alone (default: all cores)"
    )
    parser.add_argument("--workers", type=int, nargs="*", help="processes for the whole path")
    parser.add_argument(
        "--modes", nargs="*", default=[], help="torch.compile modes to try on the tower"
    )
    parser.add_argument("--stages", action="store_true", help="measure each stage as well")
    parser.add_argument("--repeat", type=int, default=1, help="turns of decoding and the path")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--write", type=Path, help="put the table into this page")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        results = run(options, Path(name))
    lines = [results["machine"] + ":", "", *results["table"]]
    print("", *lines, sep="\n")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if options.write:
        put_table(options.write, "benchmarks/files.py", lines)


if __name__ == "__main__":
    main()
