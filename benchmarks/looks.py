"""A video with masks, all of it seen or a part: ``python benchmarks/looks.py [--looks 20%]``.

A minute of 1080p with an object of about 400 pixels and PNG masks is answered with every sampled
frame and with ``--looks``, in fp32 and int8; printed are the wall time, the pictures that the
encoder was given and the quotient. The image tower has the size of SigLIP 2 base-patch16-224 and
random weights in ONNX Runtime, so that none are needed; what they answer means nothing and seldom
settles, so the share of looks is a budget. ``--write docs/speed.md`` puts the table into the page.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from _common import Parser, put_table
from cpu import export, other_precision
from files import RATE, write_files

from dejacue import find
from dejacue.sources.encoders.base import CPU_PACE, Encoder, unit
from dejacue.sources.encoders.siglip import DIMENSION, ONNX_BATCH, SIZE, pixels, run, session

WORDS = {"empty": ["an empty cup"], "full": ["a full cup"]}


class Counting(Encoder):
    """An image tower and rows of noise for texts; counts the pictures that it is given."""

    dimension, size, pace, batch = DIMENSION, SIZE, CPU_PACE, ONNX_BATCH

    def __init__(self, path: Path, precision: str) -> None:
        self.name = self.identity = f"random:{precision}"
        self.details = {"precision": precision}
        self._tower, self.pictures = session(path), 0

    def encode_images(self, crops):
        self.pictures += len(crops)
        parts = range(0, len(crops), ONNX_BATCH)
        rows = [run(self._tower, "pixel_values", pixels(crops[k : k + ONNX_BATCH])) for k in parts]
        return unit(np.concatenate(rows), "image")

    def encode_texts(self, texts):
        return unit(np.random.default_rng(0).normal(size=(len(texts), DIMENSION)), "text")


def main() -> None:
    parser = Parser(__doc__, frames=16, layers=1, looks="50%", precision=["fp32"])
    parser.add_argument("--frames", type=int, default=60 * RATE)
    parser.add_argument("--looks", default="20%")
    parser.add_argument("--precision", nargs="*", default=["fp32", "int8"])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--write", type=Path, help="put the table into this page")
    options = parser.parse_args()
    lines = ["| precision | looks | wall time | pictures encoded | |", "| --- " * 5 + "|"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(0, folder, options.frames, 8_000_000)
        export(folder / "vision_model.onnx", options.layers)
        for precision in options.precision:
            path = folder / "vision_model.onnx"
            path = path if precision == "fp32" else other_precision(path, precision)
            seconds = []
            for looks in ("all", options.looks):
                encoder = Counting(path, precision)
                start = time.perf_counter()
                finding = find(
                    folder / "kind0.mp4",
                    WORDS,
                    masks=folder / "masks0",
                    encoder=encoder,
                    looks=looks,
                    folder=folder / f"{precision}-{looks}",
                )
                seconds.append(time.perf_counter() - start)
                seen = f"{encoder.pictures} of {len(finding.history)}"
                times = f"{seconds[0] / seconds[-1]:.1f} × faster" if len(seconds) > 1 else ""
                lines.append(f"| {precision} | {looks} | {seconds[-1]:.1f} s | {seen} | {times} |")
                print(lines[-1], flush=True)
    if options.write:
        put_table(options.write, "benchmarks/looks.py", lines)


if __name__ == "__main__":
    main()
