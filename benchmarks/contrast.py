"""The contrast readout beside the published scan: python benchmarks/contrast.py

Both from features to windows through ``locate``, alternating, the best of several repeats. The
exact search beside trying every window (numpy) and beside the scan over the published grid.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from dejacue import generate, locate
from dejacue.method.contrast import search
from dejacue.method.durations import PUBLISHED
from dejacue.method.kernel import Schedule, engine
from dejacue.method.states import compiled

LENGTHS = (100, 500, 1300, 5000, 20_000)
BRUTE_UP_TO = 5000


def best(functions: dict[str, Callable[[], object]], seconds: float = 1.0) -> dict[str, float]:
    """The shortest time of each in milliseconds, taken in turn."""
    times = dict.fromkeys(functions, np.inf)
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 2 or time.perf_counter() < end:
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name] = min(times[name], time.perf_counter() - start)
        rounds += 1
    return {name: 1e3 * value for name, value in times.items()}


def main() -> None:
    print("locate(), 768 dimensions, 2 states with 2 descriptions each: ms for all queries")
    print(f"{'frames':>8} {'scan':>9} {'contrast':>9} {'ratio':>6}")
    for frames in LENGTHS:
        scene = generate(1, frames=frames, dimension=768)
        found = best(
            {
                name: lambda name=name: locate(scene.history, scene.vocabulary, readout=name)
                for name in ("scan", "contrast")
            }
        )
        ratio = found["contrast"] / found["scan"]
        print(f"{frames:>8} {found['scan']:9.3f} {found['contrast']:9.3f} {ratio:6.2f}")
    print("\nsearch alone, one row of smoothed noise: ms")
    print(f"{'frames':>8} {'grid':>9} {'exact':>9} {'ratio':>6} {'all windows (numpy)':>20}")
    for frames in LENGTHS:
        rng = np.random.default_rng(0)
        row = np.convolve(rng.normal(size=frames + 16), np.hanning(17), "valid")[None]
        row = (row - row.mean()) / row.std()
        cuts = np.array([0, frames])
        lengths = tuple(n for n in PUBLISHED if n <= frames)
        schedule = Schedule.of([lengths], "sqrt")
        functions: dict[str, Callable[[], object]] = {
            "grid": lambda: engine().scan(row, cuts, schedule),
            "exact": lambda: search(row, cuts, frames, compiled()),
        }
        if frames <= BRUTE_UP_TO:
            functions["all"] = lambda: search(row, cuts, frames, None)
            same = search(row, cuts, frames, None)[:2], search(row, cuts, frames, compiled())[:2]
            assert np.array_equal(*map(np.array, same)), "the searches disagree"
        found = best(functions)
        ratio = found["exact"] / found["grid"]
        every = f"{found['all']:20.1f}" if "all" in found else f"{'–':>20}"
        print(f"{frames:>8} {found['grid']:9.3f} {found['exact']:9.3f} {ratio:6.2f} {every}")


if __name__ == "__main__":
    main()
