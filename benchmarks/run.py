"""Ratios against named alternatives, measured in one run: ``make bench`` or
``python benchmarks/run.py [--corpus HISTORIES]``.

Both sides of a ratio take turns and the best of several rounds counts, one thread each. Machines
are noisy: read the ratios, not the microseconds.
"""

from __future__ import annotations

from _common import Parser, best, markdown, one_thread, put_table

one_thread()

import gc
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import _plain as plain
import numpy as np
from rich.console import Console
from rich.table import Table

from dejacue import History, Vocabulary, locate
from dejacue.errors import MissingData
from dejacue.method import locate_many
from dejacue.method.coordinates import as_coordinates, query_directions
from dejacue.method.kernel import compiled, engine
from dejacue.method.scan_readout import PUBLISHED, Grid, fitting, schedule_of
from dejacue_paper import load_release

D, Q = 768, 4


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"


def evidence_rows(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw cosines with noise and slow change, as real ones have."""
    slow = rng.normal(size=(Q, n)).cumsum(axis=1) / np.sqrt(n)
    return (0.02 * (slow + rng.normal(size=(Q, n)))).astype(np.float32)


def after_the_dot_products(table: Table, name: str, longest: int, seconds: float) -> None:
    rng = np.random.default_rng(0)
    cases = [(50, 0.0), (100, 0.0), (300, 0.0), (500, 0.0), (500, 0.1)]
    cases += [(10_000, 0.0), (10_000, 0.1), (100_000, 0.0), (1_000_000, 0.0)]
    for frames, missing in (case for case in cases if case[0] <= longest):
        count = max(1, 20_000 // frames)
        histories = [
            History(np.ones((n, 1), np.float32), observed)
            for observed in (np.flatnonzero(rng.random(frames) >= missing) for _ in range(count))
            for n in (len(observed),)
        ]
        cosines = [evidence_rows(rng, len(h)) for h in histories]
        grid = PUBLISHED if frames <= 500 else Grid()
        lengths = [fitting(grid, h.longest_run) for h in histories]
        schedules = [schedule_of(fit, "sqrt") for fit in lengths]
        runs, fast = [h.run_offsets for h in histories], engine(name)

        def kernel(rs=runs, ss=schedules, cs=cosines, e=fast):
            return [e.locate_cosines(c, r, 3, *s) for c, r, s in zip(cs, rs, ss, strict=True)]

        def numpy(hs=histories, cs=cosines, ls=lengths):
            return [plain.windows(c, h.frames, n) for h, c, n in zip(hs, cs, ls, strict=True)]

        a, b = best([kernel, numpy], 3 if frames > 10**5 else 5, seconds)
        goal = "≥ 100×" if missing else ("≥ 40×" if frames <= 500 else "≥ 8×")
        what = f"after the dot products, T = {frames:,}" + (", 10 % missing" if missing else "")
        table.add_row(what, milliseconds(a / count), milliseconds(b / count), f"{b / a:.0f}×", goal)


def fused_evidence(table: Table, name: str, megabytes: int, seconds: float) -> None:
    rng = np.random.default_rng(1)
    queries = rng.normal(size=(Q, D)).astype(np.float32)
    block = rng.normal(size=(4000, D))
    for dtype, goal in ((np.float32, "≤ 1.25×"), (np.float16, "≤ 1.8×")):
        rows = 1_000_000 * megabytes // (D * np.dtype(dtype).itemsize)
        features = np.resize(block.astype(dtype), (rows, D))
        history = History(features)
        words = features.view(np.uint64).ravel()
        fast = engine(name)
        sides = [lambda: fast.cosines(history, queries), lambda: np.bitwise_or.reduce(words)]
        a, b = best(sides, 9, 4 * seconds)
        what = f"fused evidence, {np.dtype(dtype).name}, {features.nbytes / 1e6:.0f} MB"
        table.add_row(what, milliseconds(a), f"one read: {milliseconds(b)}", f"{a / b:.2f}×", goal)


def corpus(table: Table, name: str, count: int, seconds: float) -> None:
    """Time a ragged corpus, all steps, from features to timelines."""
    rng = np.random.default_rng(2)
    counts = rng.integers(200, 401, count)
    block = rng.normal(size=(4099, D)).astype(np.float16)
    features = np.resize(block, (int(counts.sum()), D))
    parts = np.split(features, np.cumsum(counts)[:-1])
    histories = [History(part, id=str(i)) for i, part in enumerate(parts)]
    vocabulary = Vocabulary({"a": ["x", "xx"], "b": ["y", "yy"]}, rng.normal(size=(Q, D)))
    directions = query_directions(vocabulary, as_coordinates("vocabulary")).queries
    sample = histories[:: max(1, count // 150)]
    words = features.view(np.uint64).ravel()

    schedules = [schedule_of(fitting(PUBLISHED, h.longest_run), "sqrt") for h in histories]
    fast = engine(name)

    jobs = [(h, directions, None, s) for h, s in zip(histories, schedules, strict=True)]

    def kernel():
        return fast.locate(jobs, 3)

    def ours():
        for _ in locate_many(histories, vocabulary, readout="published", kernel=name):
            pass

    def numpy():
        for h in sample:
            e = plain.cosines(h.features, directions)
            plain.windows(e, h.frames, fitting(PUBLISHED, len(h)))

    sides = [kernel, ours, lambda: np.bitwise_or.reduce(words), numpy]
    k, a, b, c = best(sides, 3, seconds)
    c *= counts.sum() / sum(len(h) for h in sample)
    read, scaled = f"one read: {milliseconds(b)}", f"{milliseconds(c)} (scaled from {len(sample)})"
    corpus = f"{count:,} × ~300 frames × {Q} queries, float16"
    for what, value in (("one kernel call", k), ("locate_many", a)):
        table.add_row(f"{corpus}, {what}", milliseconds(value), read, f"{value / b:.2f}×", "≤ 2.5×")
        table.add_row(
            f"{corpus}, {what}", milliseconds(value), scaled, f"{c / value:.0f}×", "≥ 25×"
        )


READOUTS = (
    ("published", "≤ 8 µs", "≤ 15 µs"),
    ("contrast", "≤ 12 µs", "≤ 15 µs"),
    ("timeline", "≤ 40 µs", ""),
)


def release_queries(table: Table, name: str, seconds: float) -> None:
    """Time all steps per query, from features to windows, on real histories."""
    try:
        entries = list(load_release().vost)
    except MissingData:
        table.add_row("VOST, all steps, per query", "the release is not here", "", "", "")
        return
    histories, vocabularies = [e.history for e in entries], [e.vocabulary for e in entries]
    directions = [query_directions(v, as_coordinates("vocabulary")).queries for v in vocabularies]
    queries = sum(map(len, vocabularies))

    def by_hand():
        for h, u in zip(histories, directions, strict=True):
            plain.windows(plain.cosines(h.features, u), h.frames, PUBLISHED)

    def together(readout):
        return lambda: list(locate_many(histories, vocabularies, readout=readout, kernel=name))

    def fresh():  # vocabularies that nothing is known of yet
        words = [Vocabulary(v.states, v.features, v.encoder) for v in vocabularies]
        return list(locate_many(histories, words, readout="published", kernel=name))

    def one_by_one(readout):
        def run():
            for h, v in zip(histories, vocabularies, strict=True):
                locate(h, v, readout=readout, kernel=name)

        return run

    names = [readout for readout, _, _ in READOUTS]
    sides = [by_hand, fresh, *map(together, names), *map(one_by_one, names)]
    numpy, first, *ours = (time_s / queries for time_s in best(sides, 9, 1.5 * seconds))
    what = "VOST, all steps, per query, {}"
    rows = list(zip(names, ours[:3], ours[3:], READOUTS, strict=True))
    for readout, many, _, (_, goal, _) in rows:
        ratio = f"{numpy / many:.0f}×" if readout == "published" else ""
        against = f"plain scan: {milliseconds(numpy)}" if readout == "published" else ""
        aim = f"{goal}, ≥ 12×" if readout == "published" else goal
        table.add_row(
            what.format(f"locate_many, {readout}"), milliseconds(many), against, ratio, aim
        )
    table.add_row(
        what.format("locate_many, published, new vocabularies"),
        milliseconds(first),
        f"plain scan: {milliseconds(numpy)}",
        f"{numpy / first:.0f}×",
        "",
    )
    for readout, _, measured, (_, _, goal) in rows:
        table.add_row(what.format(f"locate, {readout}"), milliseconds(measured), "", "", goal)


def start_up(table: Table, seconds: float) -> None:
    def timed(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    imports = "import dejacue; [getattr(dejacue, n) for n in dejacue.__all__]"
    show = "import sys; sys.argv = ['dejacue', '--help']; from dejacue.cli import main; main()"
    numpy, usual, names, helped = best(
        [
            timed("import numpy"),
            timed("from dejacue import History, Vocabulary, locate"),
            timed(imports),
            timed(show),
        ],
        9,
        seconds,
    )
    for what, value in (("usual names", usual), ("every public name", names)):
        table.add_row(
            f"import dejacue, {what}",
            milliseconds(value),
            f"numpy: {milliseconds(numpy)}",
            f"+{(value - numpy) * 1e3:.0f} ms",
            "≤ +60 ms",
        )
    table.add_row("dejacue --help", milliseconds(helped), "", "", "< 300 ms")


def memory(table: Table, name: str, longest: int) -> None:
    """Measure peak memory of a scan beyond its input, per frame: flat if it is O(T). Linux only."""
    if not Path("/proc/self/status").is_file():
        return
    code = (
        "import sys, numpy as np\n"
        "from dejacue.method.scan_readout import Grid\n"
        "from dejacue.method.kernel import engine\n"
        "from dejacue.method.scan_readout import schedule_of\n"
        "n = int(sys.argv[1])\n"
        "rng = np.random.default_rng(0)\n"
        "c = rng.standard_normal((4, n), np.float32)\n"
        "s = schedule_of(Grid().lengths(n), 'sqrt')\n"
        "def peak():\n"
        "    lines = open('/proc/self/status').read().splitlines()\n"
        "    return next(int(x.split()[1]) for x in lines if x.startswith('VmHWM'))\n"
        "before = peak()\n"
        f"engine({name!r}).locate_cosines(c, np.array([0, n]), 3, *s)\n"
        "print((peak() - before) * 1024 / n)"
    )
    per_frame = [
        float(
            subprocess.run(
                [sys.executable, "-c", code, str(n)], check=True, text=True, capture_output=True
            ).stdout
        )
        for n in (longest, 4 * longest)
    ]
    table.add_row(
        f"peak memory of a scan, T = {longest:,} and {4 * longest:,}",
        " and ".join(f"{b:.0f}" for b in per_frame) + " B per frame",
        "",
        "",
        "O(T)",
    )


def main() -> None:
    parser = Parser(__doc__, corpus=10, longest=500, megabytes=1)
    parser.add_argument("--corpus", type=int, default=10_000, help="histories in the corpus")
    parser.add_argument("--longest", type=int, default=1_000_000, help="frames of a history")
    parser.add_argument("--megabytes", type=int, default=320, help="features of fused evidence")
    parser.add_argument("--engine", default=(*compiled(), "numpy")[0])
    parser.add_argument("--write", type=Path, help="page to write the table into")
    options = parser.parse_args()
    table = Table(title=f"dejacue, engine {options.engine}, one thread", title_justify="left")
    for column in ("what", "dejacue", "alternative", "ratio", "goal"):
        table.add_column(column, justify="left" if column == "what" else "right", no_wrap=True)
    seconds = 0.0 if options.smoke else 1.0
    after_the_dot_products(table, options.engine, options.longest, seconds)
    fused_evidence(table, options.engine, options.megabytes, seconds)
    release_queries(table, options.engine, seconds)
    start_up(table, seconds)
    memory(table, options.engine, options.longest)
    gc.collect()
    corpus(table, options.engine, options.corpus, seconds)
    Console(width=160).print(table)
    if options.write:
        put_table(options.write, "benchmarks/run.py", markdown(table))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"alternative: numpy {np.__version__}, benchmarks/_plain.py; peak memory {peak:.1f} GB")


if __name__ == "__main__":
    main()
