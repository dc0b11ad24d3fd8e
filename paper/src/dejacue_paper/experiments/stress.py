"""Repeated descriptions, shifted time and tracking errors on the seven or four histories."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.evaluation import bootstrap_interval
from dejacue.evaluation.overlap import METRICS
from dejacue.method.localization import Plan
from dejacue.method.scan_readout import schedule_of
from dejacue.records import History, Vocabulary
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.experiments import perturb
from dejacue_paper.experiments._identity import identity
from dejacue_paper.experiments.corpus import SCAN, Benchmark, Corpus, Table
from dejacue_paper.experiments.table import GROUPS, Experiment, Result, Value, drawn, published

SEED = 3407
EXACT = ("num_original_queries", "target_window_changes")
FLOAT32 = (
    "Not explained: the window counts agree, but score changes and joint counts do not. The "
    "published change of 1.7e-5 under the balanced origin, where ours is 0, suggests float32 "
    "scores."
)
OTHER_TRACKS = (
    "The released tracks cover a few frames each, and no frame has two. So the full mix has no "
    "randomness: the change in R@1 .5 can only be a multiple of 1/16, which the published −4/48 is "
    "not. The published figures seem to come from other tracks."
)
NO_SEEDS = (
    "With the published rule and seeds 3407–3409 (our first draw), the change in R@1 .5 agrees, "
    "but Top-1 tIoU and identity do not."
)
BASELINE = (
    "Leaving the length 46 out of the schedule gives the published Top-1 tIoU before the change; "
    "then only one window (S03) differs, and no other value here becomes exact."
)
IDENTITY = "query_macro_joint_identity_accuracy"
LABELS = {**METRICS, IDENTITY: "identity"}


def shifts(benchmark: Benchmark) -> Result:
    """Measure frames rolled within their runs: the same features, another order (dual)."""
    corpus, figures = benchmark.original, published()["circular_shift"]
    size = 8
    count = size * GROUPS
    plan = Plan.of("dual", SCAN, None, False, corpus.engine)
    chosen = np.empty((count, len(corpus), 2), np.int64)
    for entry in corpus.entries:
        history, rows = entry.history, corpus.rows[entry.id]
        view = plan.view(history, entry.vocabulary)
        orders = [perturb.shift_order(history, np.random.default_rng(1 + k)) for k in range(count)]
        # Cosines, their centre and their scale do not depend on the order of the frames.
        rolled = view.cosines[:, np.array(orders)].swapaxes(0, 1).reshape(-1, len(history))
        schedule = schedule_of(SCAN.lengths(history), "sqrt")
        start, end, _ = view.engine.locate_cosines(
            np.ascontiguousarray(rolled), history.run_offsets, 3, *schedule
        )
        frames = history.frames[np.stack([start, end], axis=1)]
        chosen[:, rows] = frames.reshape(count, -1, 2)
    whole = corpus.means(corpus.scores(corpus.windows("dual")))[:, 1]
    each = np.array(
        [corpus.means(corpus.scores(selected))[:, 1] for selected in chosen]
    )  # (count, 4)
    draws = each.mean(axis=1).reshape(GROUPS, size).mean(axis=1)
    return Result(
        (
            Value("unshifted", "r1_05", float(whole.mean()), figures["unshifted"]),
            drawn(f"mean of {size} shifts", "r1_05", draws, figures["shift_mean"]),
        ),
        {
            "unshifted": corpus.by_history(corpus.windows("dual")),
            **{f"seed {1 + k}": corpus.by_history(selected) for k, selected in enumerate(chosen)},
        },
        notes=(
            f"Seeds 1–8, our first draw, give {100 * draws[0]:.2f} %, the published mean, but so "
            "do other draws; the published seeds are not known.",
        ),
        figures={"circular_shifts": lambda: _matrix(corpus, whole, each[:size])},
    )


def _matrix(corpus: Corpus, whole: Table, each: Table) -> Any:
    from dejacue_paper.experiments._figures import shifts_figure

    names = sorted(entry.id for entry in corpus.entries)
    rows = {"unshifted": whole}
    rows |= {f"seed {1 + k}": row for k, row in enumerate(each)}
    rows["mean of the shifts"] = each.mean(axis=0)
    table = {name: [*row.tolist(), float(row.mean())] for name, row in rows.items()}
    return shifts_figure([*names, "mean"], table)


def duplication(benchmark: Benchmark) -> Result:
    """Measure the first state's descriptions repeated: does the origin follow their number?
    (dual)"""
    corpus = benchmark.seven
    systems = {"query_uniform": "dual-query-uniform", "state_balanced": "dual"}
    before = {name: _joint(corpus, system, 1) for name, system in systems.items()}
    values: list[Value] = []
    windows = {}
    for times, figures in published()["duplication_stress"].items():
        for name, theirs in figures.items():
            chosen, target, joint = _joint(corpus, systems[name], int(times))
            old, old_target, old_joint = before[name]
            winner, old_winner = joint.argmax(axis=1), old_joint.argmax(axis=1)
            moved = (chosen[:, 0] != old[:, 0]).any(axis=1)
            rows = np.arange(len(chosen))
            elsewhere = (chosen[rows, winner] != old[rows, old_winner]).any(axis=1)
            here = {
                "num_original_queries": len(chosen),
                "target_window_changes": moved.sum(),
                "joint_window_changes": (elsewhere | (winner != old_winner)).sum(),
                "joint_identity_changes": (winner != old_winner).sum(),
                "maximum_absolute_target_score_delta": np.abs(target - old_target).max(),
                "maximum_absolute_joint_score_delta": np.abs(
                    joint.max(axis=1) - old_joint.max(axis=1)
                ).max(),
            }
            for metric, value in here.items():
                unit = "score" if "score" in metric else "count"
                row = f"{name.replace('_', '-')} origin, ×{times}"
                there = theirs[metric]
                finding = "" if metric in EXACT else FLOAT32
                values.append(Value(row, metric, float(value), there, unit=unit, finding=finding))
            windows[f"{name}/x{times}"] = corpus.by_history(chosen[:, 0])
    return Result(tuple(values), windows)


def _joint(corpus: Corpus, system: str, times: int) -> tuple[NDArray[np.int64], Table, Table]:
    """Return, for the original descriptions, windows (n, 1 + K, 2) on the target and on each track,
    the target's scores (n,), and all scores (n, 1 + K), −inf where a history has fewer tracks."""
    most = 1 + max(len(entry.tracks) for entry in corpus.entries)
    windows = np.zeros((len(corpus), most, 2), np.int64)
    scores = np.full((len(corpus), most), -np.inf)
    for entry in corpus.entries:
        words, originals = repeated(entry.vocabulary, times)
        for k, history in enumerate([entry.history, *(t.history for t in entry.tracks)]):
            windows_here, best = corpus.locate([history], [words], system)
            windows[corpus.rows[entry.id], k] = windows_here[originals]
            scores[corpus.rows[entry.id], k] = best[originals]
    return windows, scores[:, 0], scores


def repeated(vocabulary: Vocabulary, times: int) -> tuple[Vocabulary, NDArray[np.int64]]:
    """Return the vocabulary with the alphabetically first state's descriptions ``times`` over, and
    the rows of the originals."""
    first = min(vocabulary.states)
    rows: list[int] = []
    originals: list[int] = []
    states: dict[str, list[str]] = {}
    for row, (state, text) in enumerate(
        zip(vocabulary.state_names, vocabulary.descriptions, strict=True)
    ):
        originals.append(len(rows))
        copies = times if state == first else 1
        rows += [row] * copies
        states.setdefault(state, []).extend(
            text if k == 0 else f"{text} ({k + 1})" for k in range(copies)
        )
    features = None if vocabulary.features is None else vocabulary.features[rows]
    return Vocabulary(states, features, vocabulary.encoder), np.array(originals)


Perturbation = Callable[[ReleaseEntry, np.random.Generator], History | None]
PERTURBED = {  # in the tables
    "random_missing_010pct": "10 % of the frames missing",
    "contiguous_missing_span_010pct": "a span of 10 % missing",
    "distractor_contamination_025pct_mix050pct": "25 % of shared frames half mixed",
    "distractor_contamination_100pct_mix100pct": "all shared frames replaced",
    "identity_switch_after_050pct": "another track after half",
}
PERTURBATIONS: dict[str, Perturbation] = {
    "random_missing_010pct": partial(perturb.drop_frames, rate=0.10),
    "contiguous_missing_span_010pct": partial(perturb.drop_span, fraction=0.10),
    "distractor_contamination_025pct_mix050pct": partial(perturb.mix_tracks, rate=0.25, share=0.5),
    "distractor_contamination_100pct_mix100pct": partial(perturb.mix_tracks, rate=1.0, share=1.0),
    "identity_switch_after_050pct": lambda entry, _: perturb.switch_identity(entry, 0.5),
}


def perturbations(benchmark: Benchmark) -> Result:
    """Measure tracking errors on the four histories with tracks: change from the whole history
    (dual)."""
    corpus = benchmark.original
    metrics = ("r1_05", "top1_tiou", IDENTITY)
    base = _tracked(corpus, corpus.windows("dual"), corpus.best_scores("dual"))
    values: list[Value] = []
    windows = {}
    for condition, theirs in published()["perturbations"].items():
        change = PERTURBATIONS[condition]
        deltas = np.empty((3 * GROUPS, len(corpus.entries), 3))
        for at in range(len(deltas)):
            seed = SEED + at
            worse = [change(e, perturb.seeded(seed, condition, e.label)) for e in corpus.entries]
            there = [w or e.history for w, e in zip(worse, corpus.entries, strict=True)]
            chosen, scores = corpus.locate(there, corpus.vocabularies, "dual")
            deltas[at] = _tracked(corpus, chosen, scores) - base
            windows[f"{condition}/seed {seed}"] = corpus.by_history(chosen)
        present = [k for k, w in enumerate(worse) if w is not None]
        by_draw = deltas[:, present].reshape(GROUPS, 3, len(present), 3).mean(axis=1)
        ends = np.array([bootstrap_interval(draw) for draw in by_draw])  # (draws, 2, metrics)
        finding = OTHER_TRACKS if "missing" not in condition else NO_SEEDS
        for k, metric in enumerate(metrics):
            observed, label = theirs["observed"][metric], LABELS[metric]
            row = PERTURBED[condition]
            before = float(base[present, k].mean())
            low, high = theirs["paired_delta_scene_cluster_bootstrap_95ci"][metric]
            values.append(
                Value(row, f"{label} before", before, observed["baseline"], finding=BASELINE)
            )
            for part, draws, there in (
                ("mean", by_draw[:, :, k].mean(axis=1), observed["delta"]),
                ("low", ends[:, 0, k], low),
                ("high", ends[:, 1, k], high),
            ):
                values.append(
                    drawn(row, f"{label} change", draws, there, part=part, finding=finding)
                )
    return Result(tuple(values), windows)


def _tracked(corpus: Corpus, windows: NDArray[np.int64], scores: Table) -> Table:
    """Return (histories, 3): R@1 .5, Top-1 tIoU and identity."""
    right = identity(corpus, scores, "dual")
    table = np.column_stack([corpus.scores(windows)[:, 1:], right])
    return corpus.means(table)


EXPERIMENTS = (
    Experiment("duplication", "Seven histories: repeated descriptions (dual)", duplication),
    Experiment("shifts", "Four histories: circular shifts (dual)", shifts),
    Experiment("perturbations", "Four histories: tracking errors (dual)", perturbations),
)
