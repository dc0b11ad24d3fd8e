"""The seven histories: coordinates, durations and norms, controls, non-overlap, ranking."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.evaluation import tiou
from dejacue.evaluation.overlap import METRICS
from dejacue.method.coordinates import query_directions
from dejacue.method.localization import Plan, candidates, evidence
from dejacue.method.readout import Readout
from dejacue.method.scan import select
from dejacue.method.scan_readout import SCHEDULES, Scan, schedule_of
from dejacue.records import Window
from dejacue_paper.experiments._baselines import baselines, oracle
from dejacue_paper.experiments._identity import edge_hits, identity
from dejacue_paper.experiments.corpus import COORDINATES_PUBLISHED, SCAN, Benchmark, Corpus, Table
from dejacue_paper.experiments.table import NO, Experiment, Result, Value, published
from dejacue_paper.experiments.vost_extended import ranking_picture, ranking_values
from dejacue_paper.method.readouts import SINGLE_MEDIAN, MaxFrame

ON_DUAL = {  # published name → ours, and the readout
    "ratio_1_25_sqrt": ("grid 1.25, sum/√length", Scan(durations="published-1.25")),
    "ratio_1_5_mean": ("grid 1.5, mean", Scan(norm="mean")),
    "ratio_1_5_single_median": ("30 frames only", SINGLE_MEDIAN),
    "ratio_1_5_sqrt": ("grid 1.5, sum/√length", Scan()),
    "ratio_1_5_sum": ("grid 1.5, sum", Scan(norm="sum")),
    "ratio_2_0_sqrt": ("grid 2.0, sum/√length", Scan(durations="published-2.0")),
}
CONTROLS: dict[str, tuple[str, str, str | Readout]] = {
    "max_frame_absolute": ("best frame", "absolute", MaxFrame(durations=(1,))),
    "max_frame_vocabulary_centered": ("best frame", "vocabulary", MaxFrame(durations=(1,))),
    "multiscale_mean_pool_absolute": ("mean window", "absolute", "mean-window"),
    "multiscale_mean_pool_vocabulary_centered": ("mean window", "vocabulary", "mean-window"),
}

CASES = {  # for a picture: found, found in part, and mistaken for the moment before
    "misc_espresso": "empty glass cup",
    "interp_torchocolate": "chocolate bar with a blackened surface",
    "misc_tamping": "portafilter with a tamped coffee puck",
}


def _lengths(readout: Scan) -> tuple[int, ...]:
    durations = readout.durations
    lengths = SCHEDULES[durations] if isinstance(durations, str) else durations
    assert isinstance(lengths, tuple)
    return lengths


def measures(corpus: Corpus, coordinates: str, readout: Scan) -> dict[str, Table]:
    """Return all published measures of a scan, one value per description."""
    windows = corpus.windows(coordinates, readout)
    scores = corpus.scores(windows)
    right = identity(corpus, corpus.best_scores(coordinates, readout), coordinates, readout)
    edges = [edge_hits(e.history, windows[corpus.rows[e.id]]) for e in corpus.entries]
    return {
        **{metric: scores[:, k] for k, metric in enumerate(METRICS)},
        "query_macro_joint_crossed_r1_tiou_0.3": scores[:, 0] * right,
        "query_macro_joint_crossed_r1_tiou_0.5": scores[:, 1] * right,
        "query_macro_joint_identity_accuracy": right,
        "query_macro_target_candidate_oracle_tiou": oracle(corpus, _lengths(readout)),
        "query_macro_target_valid_run_edge_hit": np.concatenate(edges),
    }


def _compared(
    corpus: Corpus, row: str, coordinates: str, readout: Scan, theirs: Any
) -> list[Value]:
    values = measures(corpus, coordinates, readout)
    means = corpus.means(np.stack(list(values.values()), axis=1)).mean(axis=0)
    here = dict(zip(values, means.tolist(), strict=True))
    here |= corpus.paraphrases(corpus.windows(coordinates, readout))
    return [Value(row, metric, here[metric], there) for metric, there in theirs.items()]


def coordinates(benchmark: Benchmark) -> Result:
    corpus = benchmark.seven
    values: list[Value] = []
    windows: dict[str, Any] = {}
    extra: list[Value] = []
    for name, theirs in published()["seven_coordinate_conditions"].items():
        system = COORDINATES_PUBLISHED[name]
        values += _compared(corpus, system, system, Scan(), theirs)
        windows[system] = corpus.by_history(corpus.windows(system))
        extra += _by_history(corpus, system)
    ours, trivial = baselines(corpus)
    return Result(
        (*values, *extra, *ours),
        {**windows, **trivial},
        figures={"evidence_cases": lambda: _cases(corpus)},
    )


def _cases(corpus: Corpus) -> Any:
    from dejacue_paper.experiments._figures import Case, cases_figure

    cases = []
    for entry in corpus.entries:
        if entry.component not in CASES:
            continue
        at = entry.vocabulary.descriptions.index(CASES[entry.component])
        seen = evidence(
            entry.history, entry.vocabulary, coordinates="dual", readout=SCAN, kernel=corpus.engine
        )
        window = Window(*corpus.windows("dual")[corpus.rows[entry.id]][at].tolist())
        true = entry.references[entry.vocabulary.state_names[at]]
        title = f"{entry.id} {entry.component}: {CASES[entry.component]}"
        cases.append(Case(title, entry.history, seen.responses[at], window, true))
    return cases_figure(cases)


def _by_history(corpus: Corpus, system: str) -> list[Value]:
    """Return R@1 .5 and Top-1 tIoU of every history and cohort; the paper prints a few of them."""
    known = published()["paper"]["reconstructed_r1_05"].get(system, {})
    means = corpus.means(corpus.scores(corpus.windows(system)))
    values = []
    cohorts: dict[str, list[int]] = {}
    for at, entry in enumerate(sorted(corpus.entries, key=lambda e: e.id)):
        cohorts.setdefault(entry.cohort, []).append(at)
        row = f"{system}, {entry.id} {entry.component}"
        theirs = known.get(entry.component)
        values.append(Value(row, "r1_05", float(means[at, 1]), theirs, digits=3))
        values.append(Value(row, "top1_tiou", float(means[at, 2]), None))
    for cohort, rows in cohorts.items():
        for k in (1, 2):
            here = float(means[rows, k].mean())
            values.append(Value(f"{system}, {cohort}", list(METRICS)[k], here, None))
    return values


def durations(benchmark: Benchmark) -> Result:
    corpus = benchmark.seven
    values: list[Value] = []
    windows = {}
    for name, theirs in published()["seven_duration_and_normalization"].items():
        label, readout = ON_DUAL[name]
        values += _compared(corpus, label, "dual", readout, theirs)
        windows[name] = corpus.by_history(corpus.windows("dual", readout))
    return Result(tuple(values), windows)


def controls(benchmark: Benchmark) -> Result:
    corpus = benchmark.seven
    values: list[Value] = []
    windows = {}
    for name, theirs in published()["seven_matched_similarity_controls"].items():
        label, system, readout = CONTROLS[name]
        chosen = corpus.windows(system, readout)
        for metric, here in corpus.averages(chosen).items():
            values.append(Value(f"{label}, {system}", metric, here, theirs[metric]))
        windows[name] = corpus.by_history(chosen)
    return Result(tuple(values), windows)


def nonoverlap(benchmark: Benchmark) -> Result:
    """Measure one window per state (mean score of its descriptions): independently, and
    disjoint."""
    corpus, figures = benchmark.seven, published()["seven_state_nonoverlap"]
    chosen = {
        "independent": _state_windows(corpus),
        "exact_nonoverlap": corpus.windows("dual", "non-overlap"),
    }
    values: list[Value] = []
    for name, windows in chosen.items():
        for metric, here in corpus.averages(windows).items():
            values.append(Value(name.replace("_", " "), metric, here, figures[name][metric]))
    overlapping = total = 0
    for entry in corpus.entries:
        selected = chosen["independent"][corpus.rows[entry.id]]
        states = dict(zip(entry.vocabulary.state_names, selected.tolist(), strict=True))
        for a, b in combinations(states.values(), 2):
            total += 1
            overlapping += bool(tiou([a], [b])[0, 0] > 0)
    theirs = figures["independent_conflicts"]
    row = "independent"
    values.append(
        Value(row, "overlapping pairs", overlapping, theirs["overlapping_pairs"], unit="count")
    )
    values.append(
        Value(row, "pairs of states", total, theirs["total_cross_state_pairs"], unit="count")
    )
    values.append(Value(row, "share overlapping", overlapping / total, theirs["rate"]))
    return Result(tuple(values), {n: corpus.by_history(w) for n, w in chosen.items()})


def _state_windows(corpus: Corpus) -> NDArray[np.int64]:
    """Return the best window of each state by the mean score of its descriptions (dual)."""
    best = []
    for entry in corpus.entries:
        windows, scores = candidates(
            entry.history, entry.vocabulary, coordinates="dual", kernel=corpus.engine
        )
        labels = entry.vocabulary.labels
        pooled = np.stack([scores[labels == s].mean(axis=0) for s in range(labels.max() + 1)])
        best.append(windows[select(windows[:, 0], windows[:, 1], pooled)][labels])
    return np.concatenate(best)


def ranking(benchmark: Benchmark) -> Result:
    values, means = ranking_values(benchmark.seven, published()["seven_candidate_ranking"])
    values = [
        replace(value, finding=NEAR_TIE) if value.mark == NO and value.metric == "mrr_03" else value
        for value in values
    ]
    windows = benchmark.seven.conditions("absolute", "vocabulary", "dual")
    return Result(tuple(values), windows, figures={"seven_ranking": lambda: ranking_picture(means)})


NEAR_TIE = (
    "MRR .3: on S01, two candidates at ranks 121 and 122 have scores of 11.84130 and 11.84129; "
    "with float64 cosines they rank as here, with float32 BLAS products the other way round."
)


def residuals(benchmark: Benchmark) -> Result:
    """Compare windows from raw residuals and from unit ones: each query has its own scale."""
    corpus = benchmark.seven
    plan = Plan.of("dual", SCAN, None, False, corpus.engine)
    raw, norms = [], []
    for entry in corpus.entries:
        unit = query_directions(entry.vocabulary, plan.coordinates)
        scaled = (unit.queries * unit.residual_norms[:, None]).astype(np.float32)
        history, engine = entry.history, plan.engine
        schedule = schedule_of(SCAN.lengths(history), "sqrt")
        [(_, found)] = engine.locate([(history, scaled, engine.centre(history), schedule)], 3)
        raw.append(history.frames[np.stack(found[:2], axis=1)])
        norms += unit.residual_norms.tolist()
    chosen = {"raw": np.concatenate(raw), "unit": corpus.windows("dual")}
    equal = float((chosen["raw"] == chosen["unit"]).all(axis=1).sum())
    theirs = published()["paper"]["raw_and_unit_residuals"]["equal windows"]
    row = "raw and unit residuals, dual"
    values = [Value(row, "equal windows", equal, theirs, unit="count")]
    for name, here in (
        ("smallest", min(norms)),
        ("median", np.median(norms)),
        ("largest", max(norms)),
    ):
        values.append(Value(row, f"{name} residual norm", float(here), None, unit="norm"))
    return Result(tuple(values), {n: corpus.by_history(w) for n, w in chosen.items()})


SENSITIVITY = {"r1_05": "state_macro_r1_tiou_0.5", "top1_tiou": "state_macro_top1_tiou"}


def sensitivity(benchmark: Benchmark) -> Result:
    """Compare coordinates with absolute on S05–S07; of the three reference sets the release has
    one."""
    corpus = benchmark.seven.only("extension")
    base = corpus.averages(corpus.windows("absolute"))
    values: list[Value] = []
    for name, conditions in published()["annotation_sensitivity"].items():
        for condition, theirs in conditions.items():
            system = COORDINATES_PUBLISHED[
                condition.removesuffix("_minus_absolute") + "_coordinates"
            ]
            means = corpus.averages(corpus.windows(system))
            row = f"{name}: {system} − absolute"
            for metric, key in SENSITIVITY.items():
                here = means[metric] - base[metric] if name == "adjudicated" else None
                values.append(Value(row, metric, here, theirs[key]))
    return Result(
        tuple(values),
        corpus.conditions("absolute", "vocabulary", "dual"),
        notes=("The references of the single passes A and B are not in the release.",),
    )


EXPERIMENTS = (
    Experiment("seven", "Seven histories: four coordinates", coordinates),
    Experiment("durations", "Seven histories: duration grids and norms (dual)", durations),
    Experiment("controls", "Seven histories: matched similarity controls", controls),
    Experiment("nonoverlap", "Seven histories: states that exclude each other (dual)", nonoverlap),
    Experiment("seven-ranking", "Seven histories: candidate ranking", ranking),
    Experiment("residuals", "Seven histories: raw and unit residuals", residuals),
    Experiment("sensitivity", "Annotation sensitivity on S05–S07", sensitivity),
)
