"""The encoder lite on one thread: CPU milliseconds a picture, in fp32 and in int8.

    python benchmarks/lite.py [--pictures 48]

Pictures are frames of the demo video. int8 is made here by onnxruntime's tools: weights per
channel, activations calibrated on every third picture. Beside its time stand the cosines of its
rows with those of fp32, and of the changes from one picture to the next, by which states are told.
Needs the extra lite.
"""

from __future__ import annotations

from _common import Parser, missing, one_thread

one_thread()

import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np

from dejacue import open_video
from dejacue.demo import write_demo
from dejacue.models.encoders import lite
from dejacue.models.encoders.base import unit
from dejacue.models.encoders.siglip import run, session

ROUNDS = 5


class Calibration:
    """Gives pictures to onnxruntime's quantizer, one after the other."""

    def __init__(self, pixels: np.ndarray) -> None:
        self._inputs: Iterator[dict[str, np.ndarray]] = ({"pixels": p[None]} for p in pixels)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._inputs, None)


def to_int8(source: Path, target: Path, pixels: np.ndarray) -> Path:
    from onnxruntime.quantization import QuantFormat, quantize_static

    quantize_static(
        source, target, Calibration(pixels), quant_format=QuantFormat.QDQ, per_channel=True
    )
    return target


def cpu_seconds(model, pixels: np.ndarray) -> float:
    start = time.process_time()
    run(model, "pixels", pixels)
    return time.process_time() - start


def main() -> None:
    parser = Parser(__doc__, pictures=6)
    parser.add_argument("--pictures", type=int, default=48)
    options = parser.parse_args()
    if find_spec(lite.PACKAGE) is None or find_spec("onnx") is None:
        missing("this benchmark needs the extra lite", options)
    with tempfile.TemporaryDirectory() as folder:
        scene = write_demo(Path(folder) / "scene")
        frames = [frame.image for frame in open_video(scene / "scene.mp4")]
        step = max(1, len(frames) // options.pictures)
        pixels = lite.pixels(frames[::step][: options.pictures])
        paths = {"fp32": lite.converted()}
        paths["int8"] = to_int8(paths["fp32"], Path(folder) / "int8.onnx", pixels[::3])
        print(f"{len(pixels)} pictures, one thread, medians of {ROUNDS}")
        print("precision  CPU ms a picture  file, MB   cosine: least   of changes: mean")
        exact = None
        for name, path in paths.items():
            model = session(path, 1)
            rows = unit(run(model, "pixels", pixels), "picture")
            exact = rows if exact is None else exact
            times = [cpu_seconds(model, pixels) for _ in range(ROUNDS)]
            changes = [np.diff(table, axis=0) for table in (rows, exact)]
            lengths = [np.maximum(np.linalg.norm(table, axis=1), 1e-9) for table in changes]
            alike = np.einsum("nd,nd->n", *changes) / (lengths[0] * lengths[1])
            print(
                f"{name:11} {1e3 * median(times) / len(pixels):12.1f} "
                f"{path.stat().st_size / 1e6:10.1f} {(rows * exact).sum(axis=1).min():15.4f} "
                f"{alike.mean():18.4f}"
            )


if __name__ == "__main__":
    main()
