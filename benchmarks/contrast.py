"""The readouts of states beside the published scan: python benchmarks/contrast.py

All from features to windows through ``locate``, alternating, the best of several repeats. The
exact search beside trying every window (numpy) and beside the scan over the published grid.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from _common import Parser, best

from dejacue import locate
from dejacue.method.kernel import engine
from dejacue.method.scan_readout import PUBLISHED, schedule_of
from dejacue_paper import generate

READOUTS = ("published", "contrast", "timeline")
LENGTHS = (100, 500, 1300, 5000, 20_000)
BRUTE_UP_TO = 5000


def main() -> None:
    parser = Parser(__doc__, frames=[100])
    parser.add_argument("--frames", type=int, nargs="+", default=LENGTHS, help="lengths to measure")
    options = parser.parse_args()
    seconds = 0.0 if options.smoke else 1.0
    print("locate(), 768 dimensions, 2 states with 2 descriptions each: ms for all queries")
    print(f"{'frames':>8} {'scan':>9} {'contrast':>9} {'ratio':>6} {'timeline':>9} {'ratio':>6}")
    for frames in options.frames:
        scene = generate(1, frames=frames, dimension=768)
        scan, contrast, timeline = best(
            [
                lambda name=name: locate(scene.history, scene.vocabulary, readout=name)
                for name in READOUTS
            ],
            seconds=seconds,
        )
        cells = [f"{1e3 * time_s:9.3f} {time_s / scan:6.2f}" for time_s in (contrast, timeline)]
        print(f"{frames:>8} {1e3 * scan:9.3f} {' '.join(cells)}")
    print("\nsearch alone, one row of smoothed noise: ms")
    print(f"{'frames':>8} {'grid':>9} {'exact':>9} {'ratio':>6} {'all windows (numpy)':>20}")
    for frames in options.frames:
        rng = np.random.default_rng(0)
        row = np.convolve(rng.normal(size=frames + 16), np.hanning(17), "valid")[None]
        row = (row - row.mean()) / row.std()
        cuts = np.array([0, frames])
        lengths = tuple(n for n in PUBLISHED if n <= frames)
        schedule = schedule_of(lengths, "sqrt")
        sides: list[Callable[[], object]] = [
            lambda: engine().scan(row, cuts, *schedule),
            lambda: engine().search(row, cuts),
        ]
        if frames <= BRUTE_UP_TO:
            sides.append(lambda: engine("numpy").search(row, cuts))
            same = [np.array(engine(e).search(row, cuts)[:2]) for e in ("auto", "numpy")]
            assert np.array_equal(*same), "the searches disagree"
        grid, exact, *rest = (1e3 * time_s for time_s in best(sides, seconds=seconds))
        cell = f"{rest[0]:20.1f}" if rest else f"{'–':>20}"
        print(f"{frames:>8} {grid:9.3f} {exact:9.3f} {exact / grid:6.2f} {cell}")


if __name__ == "__main__":
    main()
