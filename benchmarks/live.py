"""A live reading a frame at a time: python benchmarks/live.py

Features of 768 dimensions, 10 states, 25 frames a second, which are already encoded. The time of a
push does not depend on how many went before, so the last frames of a long stream are timed; beside
it, what it would cost to read the whole history again at every frame.
"""

from __future__ import annotations

import argparse
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import resource
import time

import numpy as np

from dejacue import History, Vocabulary
from dejacue.method.live import LiveReading
from dejacue.method.locate import read

DIMENSION, STATES, RATE, VISIT = 768, 10, 25.0, 200
HORIZON, TIMED = 15_000, 2_000
AGAIN = (1_000, 10_000, 50_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    frames = parser.parse_args().frames
    rng = np.random.default_rng(0)
    words = rng.normal(size=(STATES, DIMENSION)).astype(np.float32)
    vocabulary = Vocabulary({f"state {k}": [f"thing {k}"] for k in range(STATES)}, words)
    noise = rng.normal(size=(4096, DIMENSION)).astype(np.float32)

    def row(t: int) -> np.ndarray:
        return noise[t * 7919 % len(noise)] + 0.5 * words[t // VISIT % STATES]

    print(f"{DIMENSION} dimensions, {STATES} states, {RATE:g} frames a second, ms a frame")
    print(f"{'frame':>10} {'push: median':>14} {'99 %':>8} {'slowest':>8} {'memory':>8}")
    live = LiveReading(vocabulary, horizon=HORIZON)
    marks = [n for n in (10_000, 100_000, 1_000_000, frames) if n <= frames]
    spent: list[float] = []
    median = 0.0
    for t in range(frames):
        features = row(t)
        start = time.perf_counter()
        live.push(features, time_s=t / RATE)
        spent.append(time.perf_counter() - start)
        if t + 1 in marks:
            own = 1e3 * np.array(spent[-TIMED:])
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
            median = float(np.median(own))
            print(f"{t + 1:>10,} {median:14.3f} {np.quantile(own, 0.99):8.3f} "
                  f"{own.max():8.3f} {memory:5.0f} MB")  # fmt: skip
        if len(spent) > 2 * TIMED:
            del spent[:TIMED]
    print(f"\nreading all frames again (contrast) instead, ms; times a push ({median:.3f} ms)")
    for count in (n for n in AGAIN if n <= frames):
        features = np.stack([row(t) for t in range(count)])
        best = np.inf
        for _ in range(3):
            history = History(features, times_s=np.arange(count) / RATE)
            start = time.perf_counter()
            read(history, vocabulary)
            best = min(best, 1e3 * (time.perf_counter() - start))
        print(f"{count:>10,} {best:14.1f} {best / median:8.0f}×")


if __name__ == "__main__":
    main()
