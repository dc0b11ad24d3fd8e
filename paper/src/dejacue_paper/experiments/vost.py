"""VOST, 78 histories: the main table, its paired tests, peak, prompts and score normalisation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dejacue.evaluation import holm, sign_flip
from dejacue.evaluation.overlap import METRICS
from dejacue.method.readout import Readout
from dejacue.method.scan_readout import Scan
from dejacue_paper.experiments._baselines import baselines
from dejacue_paper.experiments.corpus import Benchmark, Corpus
from dejacue_paper.experiments.table import (
    FAMILY,
    Experiment,
    Result,
    Value,
    interval_values,
    intervals,
    paired_values,
    published,
)

# Rows of the table, and the sides of the paired tests, under their names in the release.
METHODS = {
    "scan_abs": ("scan", "absolute"),
    "scan_visual": ("scan", "trajectory"),
    "scan_vocab": ("scan", "vocabulary"),
    "scan_dual": ("scan", "dual"),
    "meanpool_abs": ("mean-window", "absolute"),
    "boxcar3_abs": ("boxcar", "absolute"),
    "maxpool_abs": ("max-frame", "absolute"),
}
NAMES = {  # in the rows of the paired tests
    key: coordinates if readout == "scan" else readout
    for key, (readout, coordinates) in METHODS.items()
}
COORDINATE_TESTS = (("vocab", "abs"), ("visual", "abs"), ("dual", "visual"), ("dual", "vocab"))
NORMS = {"sqrt_valid_count": "sqrt", "sum": "sum"}

Condition = tuple[str, str, str | Readout, str]  # its name, coordinates, readout, prompts


def _rows_with_intervals(corpus: Corpus, conditions: Iterable[Condition], figures: Any) -> Result:
    """Return means and intervals of every condition beside ``figures[name]``, and the windows."""
    values: list[Value] = []
    windows = {}
    for name, coordinates, readout, prompts in conditions:
        chosen = corpus.windows(coordinates, readout, prompts)
        means = corpus.means(corpus.scores(chosen))
        theirs = figures[name]
        for metric, here in zip(METRICS, intervals(means), strict=True):
            mean, ends = theirs["mean"][metric], theirs["ci95"][metric]
            values += interval_values(name, metric, here, mean, ends)
        windows[name] = corpus.by_history(chosen)
    return Result(tuple(values), windows)


def main(benchmark: Benchmark) -> Result:
    conditions: list[Condition] = [
        (f"{readout}/{coordinates}", coordinates, readout, "ensemble")
        for readout, coordinates in METHODS.values()
    ]
    table = _rows_with_intervals(benchmark.vost, conditions, published()["vost_main"])
    ours, windows = baselines(benchmark.vost)
    return Result(
        (*table.values, *ours),
        {**table.windows, **windows},
        notes=(
            "Rows without a published value are ours: windows chosen without looking at a frame. "
            "The whole history and the longest run overlap the references more (Top-1 tIoU) than "
            "the published method does, and the longest run reaches tIoU .5 as often.",
        ),
    )


def paired(benchmark: Benchmark) -> Result:
    corpus, figures = benchmark.vost, published()["vost_main_paired"]
    values: list[Value] = []
    for name, theirs in figures.items():
        sides = name.split("_minus_")
        first, second = (_windows(corpus, side) for side in sides)
        row = " − ".join(NAMES[side] for side in sides)
        values += paired_values(row, corpus.compare(first, second), theirs)
    change = _change(corpus, "scan_vocab", "scan_abs")[:, 1]
    counts = {"improve": change > 0, "tie": change == 0, "decline": change < 0}
    for name, theirs in published()["paper"]["components_r1_05"].items():
        here = float(counts[name].sum())
        values.append(
            Value("components, vocabulary − absolute, R@1 .5", name, here, theirs, unit="count")
        )
    tests = [_change(corpus, f"scan_{a}", f"scan_{b}")[:, 1] for a, b in COORDINATE_TESTS]
    four = holm(sign_flip(np.stack(tests, axis=1)))[0]
    values.append(
        Value(
            "vocabulary − absolute, family: the four coordinate tests",
            "r1_05",
            float(four),
            published()["paper"]["holm_four_coordinates_r1_05"],
            "holm p",
            "p",
            3,
        )
    )
    return Result(
        tuple(values),
        {name: corpus.by_history(_windows(corpus, name)) for name in METHODS},
        notes=(f"{FAMILY.removesuffix('.')}, unless the row names its family.",),
        figures={"vost_effects": lambda: _effects(corpus)},
    )


def _windows(corpus: Corpus, name: str) -> Any:
    readout, coordinates = METHODS[name]
    return corpus.windows(coordinates, readout)


def _change(corpus: Corpus, first: str, second: str) -> Any:
    """Return (components, 3) differences."""
    a, b = (corpus.means(corpus.scores(_windows(corpus, name))) for name in (first, second))
    return a - b


def _effects(corpus: Corpus) -> Any:
    from dejacue_paper.experiments._figures import effects_figure

    comparisons = {
        "vocabulary − absolute": ("scan_vocab", "scan_abs"),
        "dual − vocabulary": ("scan_dual", "scan_vocab"),
    }
    windows = {
        name: corpus.compare(_windows(corpus, a), _windows(corpus, b))
        for name, (a, b) in comparisons.items()
    }
    rows = {
        name: {METRICS[m]: (p.delta, p.low, p.high) for m, p in pairs.items()}
        for name, pairs in windows.items()
    }
    return effects_figure(_change(corpus, "scan_vocab", "scan_abs")[:, 1], rows)


def peak(benchmark: Benchmark) -> Result:
    corpus = benchmark.vost
    conditions: list[Condition] = [
        (name, name, "peak", "ensemble") for name in published()["vost_peak"]
    ]
    table = _rows_with_intervals(corpus, conditions, published()["vost_peak"])
    pair = corpus.compare(corpus.windows("vocabulary", "peak"), corpus.windows("absolute", "peak"))
    paired = paired_values("vocabulary − absolute", pair, published()["vost_peak_paired"])
    return Result((*table.values, *paired), table.windows, (FAMILY,))


def prompts(benchmark: Benchmark) -> Result:
    corpus, figures = benchmark.vost, published()["vost_prompts"]
    flat = {f"{p}/{c}": figures[p][c] for p in figures for c in figures[p]}
    conditions: list[Condition] = [(f"{p}/{c}", c, "scan", p) for p in figures for c in figures[p]]
    table = _rows_with_intervals(corpus, conditions, flat)
    values = list(table.values)
    for prompt, theirs in published()["vost_prompts_paired"].items():
        pair = corpus.compare(
            corpus.windows("vocabulary", "scan", prompt), corpus.windows("absolute", "scan", prompt)
        )
        values += paired_values(f"{prompt}: vocabulary − absolute", pair, theirs)
    return Result(tuple(values), table.windows, (FAMILY,))


def normalization(benchmark: Benchmark) -> Result:
    corpus, figures = benchmark.vost, published()["vost_normalization"]
    flat = {f"{NORMS[n]}/{c}": figures[n][c] for n in figures for c in figures[n]}
    conditions: list[Condition] = [
        (f"{NORMS[n]}/{c}", c, Scan(norm=NORMS[n]), "ensemble") for n in figures for c in figures[n]
    ]
    table = _rows_with_intervals(corpus, conditions, flat)
    values, paper = list(table.values), published()["paper"]
    by_sum = {c: corpus.windows(c, Scan(norm="sum")) for c in ("absolute", "vocabulary", "dual")}
    gain = corpus.compare(by_sum["vocabulary"], by_sum["absolute"])
    values += paired_values(
        "sum: vocabulary − absolute", gain, paper["sum_vocabulary_minus_absolute"], digits=3
    )
    cost = corpus.compare(corpus.windows("dual"), by_sum["dual"])
    values += paired_values("dual: sqrt − sum", cost, paper["dual_sqrt_minus_sum"], digits=3)
    return Result(tuple(values), table.windows, (FAMILY,))


EXPERIMENTS = (
    Experiment("main", "VOST main table: seven methods, 78 histories, 312 descriptions", main),
    Experiment("paired", "VOST paired coordinate effects, Holm-corrected", paired),
    Experiment("peak", "VOST adaptive peak", peak),
    Experiment("prompts", "VOST prompt variants", prompts),
    Experiment("normalization", "VOST sum and square-root scores", normalization),
)
