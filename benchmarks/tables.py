"""The published tables against a plain numpy implementation: ``python benchmarks/tables.py``.

The means of the plain main table are checked against the published ones. Features are in memory,
one thread each.
"""

from __future__ import annotations

from _common import Parser, markdown, missing, one_thread, put_table

one_thread()

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import _plain_tables as plain
import numpy as np
from rich.console import Console
from rich.table import Table

from dejacue.errors import MissingData
from dejacue.method.calibration import calibration, smooth
from dejacue.method.scan import NORMS, scan
from dejacue_paper import load_release
from dejacue_paper.experiments import REGISTRY, synthetic
from dejacue_paper.experiments.corpus import Benchmark
from dejacue_paper.experiments.table import published

EXTENDED = ("paired", "peak", "prompts", "normalization", "ranking")


def timed(run: Callable[[], object], rounds: int = 1) -> tuple[float, object]:
    best, result = np.inf, None
    for _ in range(rounds):
        start = time.perf_counter()
        result = run()
        best = min(best, time.perf_counter() - start)
    return best, result


def check(table: dict) -> None:
    for (readout, coordinates), (means, _) in table.items():
        theirs = published()["vost_main"][f"{readout}/{coordinates}"]["mean"]
        assert np.allclose(means, list(theirs.values()), atol=1e-6), (readout, coordinates)


def trial_by_trial(count: int) -> None:
    """Run the synthetic study as a loop: generate, calibrate, smooth, scan with 9 grids, 3
    norms."""
    rng = np.random.default_rng(3407)
    for _ in range(count):
        rng.integers(24, 161)
        row = rng.standard_normal(synthetic.FRAMES)[None]
        for t in range(1, synthetic.FRAMES):
            row[0, t] = 0.6 * row[0, t - 1] + 0.8 * row[0, t]
        row[0, 80:100] += 1.0
        centre, scale = calibration(row)
        responses = smooth((row - centre[:, None]) / scale[:, None], synthetic.WHOLE, 3)
        for grid in synthetic.GRIDS:
            lengths = grid.lengths(synthetic.FRAMES)
            for norm in ("sqrt", "sum", "mean"):
                scan(responses, synthetic.WHOLE, lengths, NORMS[norm](np.array(lengths)))


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--write", type=Path, help="page to write the table into")
    options = parser.parse_args()
    try:
        release = load_release()
    except MissingData as error:
        missing(str(error), options)
    entries = release.vost
    rounds, trials, few, what = 3, 200, entries, "all"
    if options.smoke:
        rounds, trials, few, what = 1, 2, list(entries)[:2], "main"
    table = Table(title="published tables, one thread", title_justify="left")
    for column in ("what", "dejacue", "plain numpy", "ratio"):
        table.add_column(column, justify="left" if column == "what" else "right", no_wrap=True)

    def row(what: str, ours: float, theirs: float | None) -> None:
        cells = (f"{theirs:.2f} s", f"{theirs / ours:.0f}×") if theirs else ("", "")
        table.add_row(what, f"{ours:.2f} s", *cells)

    ours, _ = timed(lambda: REGISTRY["main"].run(Benchmark(release)), rounds)
    theirs, plain_result = timed(lambda: plain.main_table(entries))
    check(plain_result)
    row("VOST main table with intervals (ours: plus three baselines)", ours, theirs)

    def extended() -> None:
        benchmark = Benchmark(release)
        for name in EXTENDED:
            REGISTRY[name].run(benchmark)

    ours, _ = timed(extended, rounds)
    theirs, plain_result = timed(lambda: plain.extended_tables(few))
    row("VOST paired tests, peak, prompts, norms, ranking", ours, theirs)
    ours, _ = timed(lambda: REGISTRY["synthetic"].run(Benchmark(release)), rounds)
    theirs, _ = timed(lambda: trial_by_trial(trials))
    study = f"synthetic study (plain: scaled from {trials} trials, no bootstrap)"
    row(study, ours, theirs * 12_000 / trials)
    command = [sys.executable, "-m", "dejacue", "reproduce", what]
    whole, _ = timed(lambda: subprocess.run(command, check=True, capture_output=True))
    row(f"dejacue reproduce {what}, from start to exit", whole, None)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    table.add_row("peak memory of that run", f"{peak:.2f} GB", "", "")
    Console(width=140).print(table)
    if options.write:
        put_table(options.write, "benchmarks/tables.py", markdown(table))


if __name__ == "__main__":
    main()
