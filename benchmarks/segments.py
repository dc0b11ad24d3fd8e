"""Segments of a history, 768 dimensions: python benchmarks/segments.py

With a change every 125 frames; and noise alone, where no start can be dropped: the worst case.
"""

from __future__ import annotations

import numpy as np
from run import best

from dejacue import History, segments

LENGTHS = (500, 5000, 20_000)


def cut(history: History, count: int | None = None) -> None:
    history.derived.clear()  # where a history keeps what was found
    segments(history, count)


def main() -> None:
    print(f"{'frames':>8} {'changes':>9} {'about 20':>9} {'noise':>9}  ms, the best of several")
    for frames in LENGTHS:
        rng = np.random.default_rng(0)
        noise = rng.normal(size=(frames, 768)).astype(np.float32)
        levels = np.repeat(rng.normal(size=(frames // 125, 768)), 125, axis=0)
        changes = History((levels + 0.5 * noise).astype(np.float32))
        still = History(2 * levels[:1].astype(np.float32) + noise)
        seconds = best([lambda: cut(changes), lambda: cut(changes, 20), lambda: cut(still)])
        print(f"{frames:>8} " + " ".join(f"{1e3 * own:9.1f}" for own in seconds))


if __name__ == "__main__":
    main()
