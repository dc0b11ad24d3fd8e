"""The synthetic duration study: which norm finds an interval of known length in noise.

No features and no text: one response per frame, AR(1) noise plus a step. 2 correlations × 3
signals × 5 durations × 400 trials, read with 9 grids and 3 norms: 270 design cells. The draws
follow the published generator, so every cell and every interval comes out.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.evaluation.overlap import METRICS
from dejacue.evaluation.resampling import DRAWS, SEED
from dejacue.method.calibration import calibration, smooth
from dejacue.method.kernel import engine
from dejacue.method.scan_readout import Grid, schedule_of
from dejacue_paper.evaluation.overlap import paired_tiou
from dejacue_paper.experiments.corpus import Benchmark, Table
from dejacue_paper.experiments.table import Experiment, Result, Value, published

CORRELATIONS, SIGNALS, DURATIONS = (0.0, 0.6), (0.5, 1.0, 1.5), (8, 12, 20, 32, 48)
TRIALS, FRAMES, MARGIN, CAP = 400, 192, 24, 72
GRIDS = [Grid(base, ratio, CAP) for base, ratio in product((4, 5, 6), (1.25, 1.5, 2))]
NORMS = {"mean": "mean", "sqrt_valid_count": "sqrt", "sum": "sum"}
NAMES = {"mean": "mean", "sqrt_valid_count": "sum/√length", "sum": "sum"}
WHOLE = np.array([0, FRAMES], dtype=np.int64)
CELLS = list(product(CORRELATIONS, SIGNALS, DURATIONS))  # noise cells, in the published order


def sequences() -> tuple[Table, NDArray[np.int64]]:
    """Return (trials, frames) responses, cell by cell, and the true windows (trials, 2)."""
    rng = np.random.default_rng(SEED)
    raw = np.empty((len(CELLS), TRIALS, FRAMES))
    truth = np.empty((len(CELLS), TRIALS, 2), np.int64)
    for cell, (_, _, duration) in enumerate(CELLS):
        for trial in range(TRIALS):
            truth[cell, trial, 0] = rng.integers(MARGIN, FRAMES - MARGIN - duration + 1)
            rng.standard_normal(out=raw[cell, trial])
        truth[cell, :, 1] = truth[cell, :, 0] + duration - 1
    correlation = np.array([cell[0] for cell in CELLS])[:, None]
    fresh = np.sqrt(1 - correlation**2)
    for t in range(1, FRAMES):  # AR(1) with unit variance; the first value is the first draw
        raw[..., t] = correlation * raw[..., t - 1] + fresh * raw[..., t]
    time = np.arange(FRAMES)
    inside = (time >= truth[..., :1]) & (time <= truth[..., 1:])
    raw += np.array([cell[1] for cell in CELLS])[:, None, None] * inside
    rows = raw.reshape(-1, FRAMES)
    centre, scale = calibration(rows)
    responses = smooth((rows - centre[:, None]) / scale[:, None], WHOLE, 3)
    return responses, truth.reshape(-1, 2)


def selected(responses: Table, norm: str, using: str) -> NDArray[np.int64]:
    """Return (grids, trials, 2) windows."""
    windows = np.empty((len(GRIDS), len(responses), 2), np.int64)
    for g, grid in enumerate(GRIDS):
        schedule = schedule_of(grid.lengths(FRAMES), norm)
        start, end, _ = engine(using).scan(responses, WHOLE, *schedule)
        windows[g] = np.stack([start, end], axis=1)
    return windows


def duration_study(benchmark: Benchmark) -> Result:
    figures = published()["synthetic_duration"]
    responses, truth = sequences()
    windows = {name: selected(responses, norm, benchmark.engine) for name, norm in NORMS.items()}
    scores = {name: _scores(selected, truth) for name, selected in windows.items()}
    values: list[Value] = []
    for name, theirs in figures["reported_equal_cell_summary"].items():
        for metric, by_cell in scores[name].items():
            unit = "frames" if metric == "mean_absolute_duration_error" else "%"
            values.append(
                Value(NAMES[name], metric, float(by_cell.mean()), theirs[metric], unit=unit)
            )
        cells = float(scores[name]["r1_05"].shape[0] * len(CELLS))
        values.append(
            Value(NAMES[name], "design_cells", cells, theirs["design_cells"], unit="count")
        )
    for duration in DURATIONS:
        cells_of = [c for c, cell in enumerate(CELLS) if cell[2] == duration]
        for name, theirs in figures["reported_by_true_duration"][str(duration)].items():
            for metric, there in theirs.items():
                here = float(scores[name][metric][:, cells_of].mean())
                values.append(Value(f"{NAMES[name]}, duration {duration}", metric, here, there))
    values += _paired(scores, figures["reported_paired_comparisons"])
    return Result(
        tuple(values),
        {
            f"{name}/base {grid.base} ratio {grid.ratio}": {
                "correlation {} signal {} duration {}".format(*cell): rows
                for cell, rows in zip(
                    CELLS, selected[g].reshape(len(CELLS), TRIALS, 2), strict=True
                )
            }
            for name, selected in windows.items()
            for g, grid in enumerate(GRIDS)
        },
        figures={"synthetic_durations": lambda: _figure(scores)},
    )


def _scores(windows: NDArray[np.int64], truth: NDArray[np.int64]) -> dict[str, Table]:
    """Return metric → (grids, cells, trials)."""
    shape = (len(GRIDS), len(CELLS), TRIALS)
    repeated = np.broadcast_to(truth, windows.shape).reshape(-1, 2)
    overlap = paired_tiou(windows.reshape(-1, 2), repeated).reshape(shape)
    lengths = windows[..., 1] - windows[..., 0]
    error = np.abs(lengths - (truth[:, 1] - truth[:, 0])).astype(np.float64).reshape(shape)
    return {
        "r1_05": (overlap >= 0.5).astype(np.float64),
        "top1_tiou": overlap,
        "mean_absolute_duration_error": error,
    }


def _paired(scores: dict[str, dict[str, Table]], figures: Any) -> list[Value]:
    """Return √ minus another norm: mean, cells won, and the bootstrap of trials within noise
    cells."""
    keys = {"r1_05": "r1_tiou_0.5", "top1_tiou": "top1_tiou"}
    jobs = [(name, metric) for name in figures for metric in keys]
    differences = []
    for name, metric in jobs:
        reference = name.removeprefix("sqrt_valid_count_minus_")
        differences.append(scores["sqrt_valid_count"][metric] - scores[reference][metric])
    # The published generator restarts for every comparison: all share the same draws.
    intervals = trial_bootstrap(np.stack([d.mean(axis=0) for d in differences], axis=-1))
    values = []
    for (name, metric), difference, interval in zip(jobs, differences, intervals, strict=True):
        theirs, key = figures[name], keys[metric]
        low, high = theirs[f"{key}_conditional_stratified_paired_trial_bootstrap_95ci"]
        row = f"sum/√length − {NAMES[name.removeprefix('sqrt_valid_count_minus_')]}"
        values += [
            Value(row, metric, float(difference.mean()), theirs[f"{key}_delta"]),
            Value(row, metric, float(interval[0]), low, "low"),
            Value(row, metric, float(interval[1]), high, "high"),
        ]
        cells = difference.mean(axis=2)
        for label, words, count in (
            ("sqrt_better", "won", (cells > TIED).sum()),
            ("baseline_better", "lost", (cells < -TIED).sum()),
            ("tied", "tied", (np.abs(cells) <= TIED).sum()),
        ):
            there = theirs[f"{key}_cells_{label}"]
            what = f"{METRICS[metric]}: cells {words}"
            values.append(Value(row, what, float(count), there, unit="count"))
    return values


TIED = 1e-12  # means of 400 trials that differ by less are equal


def trial_bootstrap(values: Table) -> Table:
    """Return (k, 2) intervals of the mean over cells, trials drawn within cells; values (cells, n,
    k)."""
    cells, trials, count = values.shape
    rng = np.random.default_rng(SEED)
    total = np.zeros((DRAWS, count))
    row = (np.arange(DRAWS) * trials)[:, None]
    for cell in values:
        index = rng.integers(0, trials, size=(DRAWS, trials))
        index += row
        drawn = np.bincount(index.ravel(), minlength=DRAWS * trials)  # how often each trial came
        total += drawn.reshape(DRAWS, trials).astype(np.float64) @ cell / trials
    bounds: Table = np.quantile(total / cells, [0.025, 0.975], axis=0).T
    return bounds


def _figure(scores: dict[str, dict[str, Table]]) -> Any:
    from dejacue_paper.experiments._figures import durations_figure

    order = [[c for c, cell in enumerate(CELLS) if cell[2] == d] for d in DURATIONS]
    lines = {
        metric: {
            name: [float(of_norm[metric][:, cells].mean()) for cells in order]
            for name, of_norm in scores.items()
        }
        for metric in ("r1_05", "top1_tiou")
    }
    return durations_figure(DURATIONS, lines)


EXPERIMENTS = (Experiment("synthetic", "Synthetic duration study, 270 cells", duration_study),)
