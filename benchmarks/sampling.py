"""Every n-th frame of a video: ``python benchmarks/sampling.py [--write docs/speed.md]``.

A camera that pans, 1280 × 720, encoded by x264, x265 and SVT-AV1 with key frames at different
distances. For every n-th frame the processor time of ``open_video(path, stride=n)`` is compared,
in turns, with a pass that decodes all frames and leaves the others out; the pixels are the same.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import numpy as np
from _common import Parser, put_table
from files import texture

from dejacue.video.video import Frame, open_video

X265 = "log-level=none:keyint={}"
CODECS: dict[str, tuple[str, Callable[[int], dict[str, str]]]] = {
    "H.264": ("libx264", lambda keys: {"g": str(keys), "preset": "medium"}),
    "HEVC": ("libx265", lambda keys: {"x265-params": X265.format(keys), "preset": "ultrafast"}),
    "AV1": ("libsvtav1", lambda keys: {"g": str(keys), "preset": "10"}),
}


def scene(frames: int, height: int, width: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    ground = texture(rng, height + 64, width + 256)
    grain = rng.integers(-4, 5, (4, height, width, 1), dtype=np.int16)
    for k in range(frames):
        top, left = int(32 + 30 * np.sin(k / 40)), int(128 + 120 * np.sin(k / 70))
        image = ground[top : top + height, left : left + width] + grain[k % 4]
        yield np.clip(image, 0, 255).astype(np.uint8)


def write(path: Path, codec: str, options: dict[str, str], frames: int, height: int) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=30, options=options)
        stream.width, stream.height, stream.pix_fmt = height * 16 // 9, height, "yuv420p"
        stream.bit_rate = 4_000_000
        for image in scene(frames, height, height * 16 // 9):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())


def sampled(path: Path, stride: int) -> Iterator[Frame]:
    return open_video(path, stride=stride, threads=1).lazy_frames()


def left_out(path: Path, stride: int) -> Iterator[Frame]:
    return (
        frame for frame in open_video(path, threads=1).lazy_frames() if frame.index % stride == 0
    )


def cpu_s(frames: Iterator[Frame]) -> float:
    start = time.process_time()
    for frame in frames:
        frame.part(0, 64, 0, 64)
    return time.process_time() - start


def main() -> None:
    parser = Parser(__doc__, frames=4, height=72, strides=[2], keys=[2], rounds=1)
    parser.add_argument("--frames", type=int, default=240)
    parser.add_argument("--height", type=int, default=720)
    parser.add_argument("--strides", type=int, nargs="+", default=[2, 5, 15, 60])
    parser.add_argument("--keys", type=int, nargs="+", default=[30, 120], help="key frame distance")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--write", type=Path, help="put the table into this page")
    options = parser.parse_args()
    lines = [
        "| video | " + " | ".join(f"1 of {n}" for n in options.strides) + " |",
        "| --- |" + " --- |" * len(options.strides),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, (codec, settings) in CODECS.items():
            if codec not in av.codecs_available:
                print(f"{name}: this build of PyAV has no encoder {codec}")
                continue
            for keys in options.keys:
                path = Path(folder) / f"{codec}{keys}.mp4"
                write(path, codec, settings(keys), options.frames, options.height)
                cells = []
                for stride in options.strides:
                    ways = (left_out, sampled)
                    times = [
                        [cpu_s(way(path, stride)) for way in ways] for _ in range(options.rounds)
                    ]
                    whole, seeking = map(min, zip(*times, strict=True))
                    cells.append(f"{whole / seeking:.1f}×")
                lines.append(f"| {name}, a key frame every {keys} | {' | '.join(cells)} |")
                print(lines[-1], flush=True)
    print("", *lines, sep="\n")
    if options.write:
        put_table(options.write, "benchmarks/sampling.py", lines)


if __name__ == "__main__":
    main()
