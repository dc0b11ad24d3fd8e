"""How time and memory grow with frames and states: ``python benchmarks/growth.py``.

Makes a history of 64 dimensions, a random walk (``segments``: noise), and a vocabulary of random
directions, one description per state. Each readout and ``segments`` work on them in a process of
their own. Prints the seconds of the processor (not of the clock, so that other work on the machine
counts little; the least of a few runs, since the first also waits for the system to hand out
memory), the peak of memory above what the input takes, and by how much the seconds grow when the
frames do tenfold. ``--write`` puts the table into docs/speed.md. A goal that is missed is named,
and the exit code is 1.
"""

from __future__ import annotations

import math
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from _common import Parser, markdown, put_table
from rich.console import Console
from rich.table import Table

from dejacue import History, Vocabulary, locate

PAGE = Path(__file__).resolve().parents[1] / "docs" / "speed.md"
WORKS = ("timeline", "contrast", "published", "segments")
DIMENSION = 64
RUNS = 3
MAX_SECONDS, MAX_MEGABYTES, MAX_GROWTH = 5, 1000, 12  # of a readout, for 100,000 frames
MIN_GOAL_FRAMES = 100_000


def make_history(frames: int, still: bool) -> History:
    """Return a random walk, or noise in which nothing changes: the worst case of segments."""
    rows = np.random.default_rng(0).standard_normal((frames, DIMENSION), np.float32)
    return History(rows if still else np.cumsum(rows, axis=0, out=rows))


def make_vocabulary(states: int) -> Vocabulary:
    rows = np.random.default_rng(1).standard_normal((states, DIMENSION)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Vocabulary({f"state {k}": [f"the state numbered {k}"] for k in range(states)}, rows)


def memory_mb(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith(field))


def measure(work: str, frames: int, states: int) -> tuple[float, float]:
    """Return the seconds of one piece of work, and the megabytes that it took."""
    from dejacue.method.segmentation import segments

    words, seconds, memory = make_vocabulary(states), [], 0.0
    for run in range(RUNS):
        history = make_history(frames, still=work == "segments")
        before, start = memory_mb("VmRSS"), time.process_time()
        if work == "segments":
            segments(history)
        else:
            locate(history, words, readout=work)
        seconds.append(time.process_time() - start)
        memory = memory if run else max(0.0, memory_mb("VmHWM") - before)
    return min(seconds), memory


def apart(work: str, frames: int, states: int) -> tuple[float, float]:
    """Measure in a new process: a peak of memory never goes down again."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, work, frames, states).result()


def main() -> int:
    parser = Parser(__doc__, frames=[100, 1000], states=20)
    parser.add_argument("--frames", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--states", type=int, default=500)
    parser.add_argument("--works", nargs="+", default=list(WORKS), choices=WORKS)
    parser.add_argument("--write", action="store_true", help="put the table into docs/speed.md")
    options = parser.parse_args()
    if not sys.platform.startswith("linux"):
        raise SystemExit("peaks of memory are read from /proc, which is only there on Linux")
    table = Table("", *(f"{frames:,} frames" for frames in options.frames), "grows by", "memory")
    missed = []
    for work in options.works:
        results = [apart(work, frames, options.states) for frames in options.frames]
        seconds = [result[0] for result in results]
        tenfold = math.log10(options.frames[-1] / options.frames[-2]) if len(seconds) > 1 else 1.0
        growth = (seconds[-1] / seconds[-2]) ** (1 / tenfold) if len(seconds) > 1 else math.nan
        cells = [f"{time_s:.3f} s" for time_s in seconds]
        table.add_row(work, *cells, f"{growth:.1f} ×", f"{results[-1][1]:.0f} MB")
        if options.frames[-1] >= MIN_GOAL_FRAMES:
            limits = (MAX_SECONDS, MAX_MEGABYTES, MAX_GROWTH)
            values = (*results[-1], growth)
            missed += (
                [work] if any(v > most for v, most in zip(values, limits, strict=True)) else []
            )
    print(f"{options.states} states")
    Console(width=120).print(table)
    if options.write:
        put_table(PAGE, "benchmarks/growth.py", markdown(table))
    goal = f"{MAX_SECONDS} s, {MAX_MEGABYTES} MB and {MAX_GROWTH} × for ten times the frames"
    print(f"over {goal}: {', '.join(missed)}" if missed else f"none is over {goal}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
