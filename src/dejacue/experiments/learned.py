"""The eight learned decoders against the frozen scan: published, and trained by us.

The published predictions are not released, only their means; ours come from training runs whose
windows lie in learned.json with the command that made them, and are scored here. What is published
with 86 records has 40 here: the features of D01 are missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.evaluation import METRICS, holm, sign_flip_exact
from dejacue.evaluation.resampling import DRAWS, SEED
from dejacue.experiments.corpus import Benchmark, Corpus, Table
from dejacue.experiments.table import Experiment, Result, Value, published
from dejacue.learn.decoders import DECODERS
from dejacue.learn.decoders.records import same

FAMILIES = {"state_macro_top1_tiou": "top1_tiou", "state_macro_r1_tiou_0.5": "r1_05"}
# the order in which the published bootstrap draws, cohort after cohort in every draw
DRAWN = (
    ("coffee_martini", "interp_slice-banana", "misc_cross-hands"),
    ("interp_torchocolate", "misc_americano", "misc_espresso", "misc_tamping"),
)
CONDITIONS = {
    "published": "40 records, as published",
    "negatives": "40 records and negative runs",
    "vost": "VOST, four fifths",
    "generated": "generated histories",
}
SHARES = {"whole longest run": 1.0, "first 40 % of the longest run": 0.4}


@cache
def runs() -> dict[str, Any] | None:
    """Our training runs, where they have been made."""
    path = files("dejacue.experiments").joinpath("learned.json")
    if not path.is_file():
        return None
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def cohort_interval(differences: Mapping[str, float]) -> tuple[float, float]:
    """95 % interval of the mean difference: histories redrawn within their cohort, draw by draw."""
    rng = np.random.default_rng(SEED)
    cohorts = [np.array([differences[name] for name in own]) for own in DRAWN]
    sums = np.empty(DRAWS)
    for draw in range(DRAWS):
        sums[draw] = sum(own[rng.integers(0, len(own), size=len(own))].sum() for own in cohorts)
    low, high = np.quantile(sums / sum(map(len, cohorts)), [0.025, 0.975]).tolist()
    return low, high


def _same(corpus: Corpus, windows: NDArray[np.int64]) -> float:
    return same(corpus.entries, list(corpus.by_history(windows).values()))


def constant(corpus: Corpus, share: float) -> NDArray[np.int64]:
    """One window for everything: the first part of the longest run."""
    rows = []
    for entry in corpus.entries:
        offsets = entry.history.run_offsets
        run = int(np.argmax(np.diff(offsets)))
        first, length = int(offsets[run]), int(offsets[run + 1] - offsets[run])
        last = first + max(1, round(share * length)) - 1
        rows += [entry.history.frames[[first, last]]] * len(entry.vocabulary)
    return np.array(rows)


def learned(benchmark: Benchmark) -> Result:
    corpus = benchmark.seven
    scan = corpus.windows("vocabulary")
    values = [*_published(corpus, scan), *_references(corpus)]
    windows: dict[str, Any] = {**corpus.conditions("vocabulary")}
    notes = [
        "Published, 86 records: not counted, since the predictions and the values per history are "
        "not in the release. Differences are our scan minus the published mean, Holm p (within the "
        "eight decoders) follows from the published p; intervals and p need values per history.",
    ]
    made = runs()
    if made is None:
        notes.append("Ours: no training run is in the package; docs/learn.md says how to make one.")
        return Result(tuple(values), windows, tuple(notes))
    own, chosen = _ours(benchmark, scan, made)
    notes.append(
        f"Ours: windows of training runs on {made['machine']} (torch {made['torch']}), made with "
        f"{made['command']} and scored here. same: overlap of the windows of different states, 1 "
        "where the words do not matter. Intervals, p and Holm p (within the decoders of a "
        "condition): scan minus the mean over seeds, by history."
    )
    return Result((*values, *own), {**windows, **chosen}, tuple(notes))


def _published(corpus: Corpus, scan: NDArray[np.int64]) -> list[Value]:
    """Our vocabulary scan minus the published means of eight decoders."""
    decoders, ours = published()["seven_learned_decoders"], corpus.averages(scan)
    values: list[Value] = []
    for family, metric in FAMILIES.items():
        rows = published()["seven_learned_paired"][family]
        corrected = holm([row["p"] for row in rows])
        for row, p in zip(rows, corrected.tolist(), strict=True):
            label = f"scan − {row['model']}"
            delta = ours[metric] - decoders[row["model"]]["mean"][metric]
            values += [
                Value(label, metric, delta, row["delta"], derived=True),
                Value(label, metric, None, row["ci95"][0], "low"),
                Value(label, metric, None, row["ci95"][1], "high"),
                Value(label, metric, None, row["p"], "p", "p"),
                Value(label, metric, p, row["holm_p"], "holm p", "p", derived=True),
            ]
    return values


def _references(corpus: Corpus) -> list[Value]:
    """What needs no training: the scan, the recommended readout, windows that look at nothing."""
    rows = {
        "frozen scan": corpus.windows("vocabulary"),
        "contrast": corpus.windows("vocabulary", "contrast"),
        **{name: constant(corpus, share) for name, share in SHARES.items()},
    }
    values: list[Value] = []
    for name, windows in rows.items():
        values += [Value(name, m, v, None) for m, v in corpus.averages(windows).items()]
        values.append(Value(name, "same", _same(corpus, windows), None, unit="overlap"))
    return values


def _ours(
    benchmark: Benchmark, scan: NDArray[np.int64], made: Mapping[str, Any]
) -> tuple[list[Value], dict[str, Any]]:
    corpus = benchmark.seven
    values: list[Value] = []
    windows: dict[str, Any] = {}
    for condition, title in CONDITIONS.items():
        runs_of = [run for run in made["runs"]
                   if run["condition"] == condition and "error" not in run]  # fmt: skip
        runs_of.sort(key=lambda run: list(DECODERS).index(run["decoder"]))
        means = {}
        for run in runs_of:
            label = f"{DECODERS[run['decoder']][3]}, {title}"
            for state in ("untrained", "trained"):
                seeds = [_windows(corpus, own) for own in run[state]["seven"]]
                row = label if state == "trained" else f"{label}: untrained"
                values += _row(corpus, row, seeds, _theirs(run, condition, state))
            means[label] = np.mean([corpus.means(corpus.scores(own)) for own in seeds], axis=0)
            windows |= {f"{label}/{k}": corpus.by_history(own) for k, own in enumerate(seeds)}
            values += _elsewhere(benchmark, label, run)
        values += _compared(corpus, scan, means)
    return values, windows


def _windows(corpus: Corpus, answer: Mapping[str, Any]) -> NDArray[np.int64]:
    return np.concatenate([np.array(answer["windows"][entry.id]) for entry in corpus.entries])


def _theirs(run: Mapping[str, Any], condition: str, state: str) -> Mapping[str, Any]:
    """The published means of three seeds and 86 records, to be seen beside ours."""
    if condition != "published" or state != "trained":
        return {}
    found: Mapping[str, Any] = published()["seven_learned_decoders"][DECODERS[run["decoder"]][2]]
    return found


def _row(
    corpus: Corpus, row: str, seeds: Sequence[NDArray[np.int64]], theirs: Mapping[str, Any]
) -> list[Value]:
    """Mean and standard deviation over seeds."""
    table = np.array([list(corpus.averages(own).values()) for own in seeds])
    spread = table.std(axis=0, ddof=1) if len(table) > 1 else np.zeros(3)
    values = []
    for k, metric in enumerate(METRICS):
        for part, here in (("mean", table[:, k].mean()), ("std", spread[k])):
            there = theirs.get(part, {}).get(metric)
            values.append(Value(row, metric, float(here), there, part, derived=True))
    alike = float(np.mean([_same(corpus, own) for own in seeds]))
    return [*values, Value(row, "same", alike, None, unit="overlap")]


def _elsewhere(benchmark: Benchmark, label: str, run: Mapping[str, Any]) -> list[Value]:
    """The same decoder on its own training histories, scored here, and on other groups."""
    values = []
    for name, answers in run["trained"].items():
        if name == "seven":
            continue
        if name == "development":
            corpus = benchmark.development
            rows = [list(corpus.averages(_windows(corpus, own)).values()) for own in answers]
        else:
            rows = [own["mean"] for own in answers]
        for metric, value in zip(METRICS, np.mean(rows, axis=0).tolist(), strict=True):
            values.append(Value(f"{label}, on {name}", metric, value, None))
    return values


def _compared(corpus: Corpus, scan: NDArray[np.int64], means: Mapping[str, Table]) -> list[Value]:
    """scan − decoder, by history: the decoders of a condition are one family per metric."""
    if not means:
        return []
    ours = corpus.means(corpus.scores(scan))
    names = [entry.component for entry in sorted(corpus.entries, key=lambda e: e.id)]
    values: list[Value] = []
    for metric in FAMILIES.values():
        k = list(METRICS).index(metric)
        differences = {label: ours[:, k] - own[:, k] for label, own in means.items()}
        p = [float(sign_flip_exact(own)) for own in differences.values()]
        for (label, own), one, corrected in zip(differences.items(), p, holm(p), strict=True):
            low, high = cohort_interval(dict(zip(names, own.tolist(), strict=True)))
            row = f"scan − {label}"
            values += [
                Value(row, metric, float(own.mean()), None), Value(row, metric, low, None, "low"),
                Value(row, metric, high, None, "high"), Value(row, metric, one, None, "p", "p"),
                Value(row, metric, float(corrected), None, "holm p", "p"),
            ]  # fmt: skip
    return values


EXPERIMENTS = (Experiment("learned", "Learned decoders against the scan", learned),)
