"""Memory of a long 1080p stream: ``python benchmarks/memory.py [--frames 20000]``.

Writes a video of a moving pattern (ten seconds, encoded once, their packets over and over) and one
box per frame, no two of them with the same pixels; builds the history with ``mini``, its rows made
as wide as those of siglip2, in the way of ``dejacue encode``, partial file included; and prints the
resident memory on the way and at its peak, of this process and without the part that was there once
the model was loaded. An hour at 30 frames a second is 108,000 frames.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from pathlib import Path

import numpy as np
from _common import Parser

from dejacue import open_masks, open_video
from dejacue.finding._encode import build_histories
from dejacue.models.encoders import Encoder
from dejacue.models.encoders.mini import Mini

RATE, LOOP = 30, 300
HEIGHT, WIDTH = 1080, 1920
DIMENSION = 768
LIMIT_MB = 1500
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)


def place(frame: int) -> tuple[int, int]:
    """Return left and top of the object, which goes round once per loop."""
    turn = 2 * np.pi * frame / LOOP
    return int(760 + 600 * np.cos(turn)), int(340 + 300 * np.sin(turn))


def box(frame: int) -> str:
    """Return a box that is a little smaller in every loop, in one direction or the other."""
    left, top = place(frame)
    loop = frame // LOOP
    return f"{frame},1,{left},{top},{400 - loop % 25},{400 - loop // 25 % 25}"


class Wide(Mini):
    """Its rows, repeated to the width of siglip2's: they are not judged."""

    knows_pictures = staticmethod(Encoder.knows_pictures)

    def __init__(self) -> None:
        super().__init__()
        self.dimension = DIMENSION

    def encode_images(self, crops):
        rows = super().encode_images(crops)
        return np.tile(rows, -(-DIMENSION // rows.shape[1]))[:, :DIMENSION]


def pictures(count: int):
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    ground = np.stack([x // 8, y // 5, (x // 40 + y // 40) % 2 * 90], axis=-1).astype(np.uint8)
    texture = np.random.default_rng(0).integers(0, 256, (25, 25, 3), dtype=np.uint8)
    thing = texture.repeat(16, 0).repeat(16, 1)
    for frame in range(count):
        left, top = place(frame)
        image = np.roll(ground, 4 * frame, axis=1)
        image[top : top + 400, left : left + 400] = thing
        yield image


def write(folder: Path, frames: int) -> None:
    import av

    with av.open(str(folder / "long.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.options = {"preset": "veryfast", "crf": "28", "bf": "0", "g": str(LOOP)}
        stream.codec_context.time_base = Fraction(1, RATE)
        encoded = []
        for image in pictures(min(LOOP, frames)):
            encoded += stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24"))
        encoded += stream.encode(None)
        loop = [(bytes(packet), packet.is_keyframe) for packet in encoded]
        for frame in range(frames):
            content, key = loop[frame % LOOP]
            packet = av.Packet(content)
            packet.stream, packet.time_base = stream, Fraction(1, RATE)
            packet.pts = packet.dts = frame
            packet.is_keyframe = key
            container.mux(packet)
    lines = ["frame,id,x,y,w,h", *map(box, range(frames)), ""]
    (folder / "boxes.csv").write_text("\n".join(lines))


def resident_mb() -> float:
    """Return what this process holds now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def peak_mb() -> float:
    """Return the peak of this process (Linux); ru_maxrss would hold that of its parent, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM:"))


def main() -> None:
    parser = Parser(__doc__, frames=10)
    parser.add_argument("--frames", type=int, default=20_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            pool.submit(write, folder, options.frames).result()  # its memory is not ours
        size = (folder / "long.mp4").stat().st_size / 1e6
        encoder = Wide()
        encoder.encode_images([np.zeros((9, 9, 3), np.uint8)])
        model = resident_mb()
        print(
            f"{options.frames} frames of {WIDTH} × {HEIGHT}, {size:.0f} MB; model loaded: "
            f"{model:.0f} MB resident"
        )
        marks = [max(1, int(share * options.frames)) for share in SHARES]
        start = time.perf_counter()

        def tell(what: str, done: int, total: int | None = None, note: str = "") -> None:
            while what == "decode" and marks and done >= marks[0]:
                share = marks.pop(0) / options.frames
                print(f"{share:5.0%}  {resident_mb():6.0f} MB", flush=True)

        (history,) = build_histories(
            open_video(folder / "long.mp4"),
            open_masks(folder / "boxes.csv"),
            encoder,
            {"long": None},
            partial=folder / "partial",
            progress=tell,
        ).values()
        seconds = time.perf_counter() - start
        partial_bytes = (folder / "partial").stat().st_size  # less where two crops are the same
    peak = peak_mb()
    print(
        f"peak   {peak:6.0f} MB, {peak - model:.0f} MB more than with the model alone "
        f"(limit {LIMIT_MB})"
    )
    print(f"{len(history.frames)} rows, {options.frames / seconds:.0f} frames/s")
    if partial_bytes < options.frames * DIMENSION * 4 or peak - model > LIMIT_MB:
        sys.exit("rows are missing, or the limit is exceeded")


if __name__ == "__main__":
    main()
