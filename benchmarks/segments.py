"""Segments of a history, 768 dimensions: python benchmarks/segments.py

With a change every 125 frames; and noise alone, where no start can be dropped: the worst case.
"""

from __future__ import annotations

import numpy as np
from _common import Parser, best

from dejacue import History
from dejacue.method import segments

LENGTHS = (500, 5000, 20_000)


def main() -> None:
    parser = Parser(__doc__, frames=[125])
    parser.add_argument("--frames", type=int, nargs="+", default=LENGTHS, help="lengths to measure")
    options = parser.parse_args()
    print(f"{'frames':>8} {'changes':>9} {'about 20':>9} {'noise':>9}  ms, the best of several")
    for frames in options.frames:
        rng = np.random.default_rng(0)
        noise = rng.normal(size=(frames, 768)).astype(np.float32)
        levels = np.repeat(rng.normal(size=(frames // 125, 768)), 125, axis=0)
        changes = History((levels + 0.5 * noise).astype(np.float32))
        still = History(2 * levels[:1].astype(np.float32) + noise)
        sides = [lambda: segments(changes), lambda: segments(changes, 20), lambda: segments(still)]
        seconds = best(sides, seconds=0.0 if options.smoke else 1.0)
        print(f"{frames:>8} " + " ".join(f"{1e3 * time_s:9.1f}" for time_s in seconds))


if __name__ == "__main__":
    main()
