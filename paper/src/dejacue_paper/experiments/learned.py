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

from dejacue.errors import counted
from dejacue.evaluation import METRICS, holm, sign_flip_exact
from dejacue_paper.evaluation.resampling import stratified_interval
from dejacue_paper.experiments.corpus import Benchmark, Corpus, Table
from dejacue_paper.experiments.table import Experiment, Result, Value, published
from dejacue_paper.learn.decoders import DECODERS
from dejacue_paper.learn.decoders.records import same

FAMILIES = {"state_macro_top1_tiou": "top1_tiou", "state_macro_r1_tiou_0.5": "r1_05"}
# the order in which the published bootstrap draws, cohort after cohort in every draw
DRAWN = (
    ("coffee_martini", "interp_slice-banana", "misc_cross-hands"),
    ("interp_torchocolate", "misc_americano", "misc_espresso", "misc_tamping"),
)
CONDITIONS = {
    "published": "40 records, as published",
    "negatives": "40 records and negative runs",
    "vost": "VOST, five folds",
    "rendered": "rendered histories",
    "rendered-long": "rendered histories, five times as long",
    "generated": "generated histories",
    "generated-long": "generated histories, four times as long",
}
# what else they are asked about; "vost" by those of VOST that a fold leaves out
GROUPS = {
    "development": "the four that the 40 records are of",
    "vost": "VOST",
    "rendered": "the rendered histories it learned from",
    "rendered-tests": "other rendered histories",
    "generated": "the generated histories it learned from",
    "generated-tests": "other generated histories",
}
# The published code with these 40 records, run elsewhere: R@1 .3, R@1 .5 and Top-1 tIoU in %, mean
# and standard deviation of three seeds (of one seed: none)
RERUN: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "moment": ((24.2, 13.5, 20.1), (4.5, 2.7, 3.0)),
    "qd": ((32.1, 22.2, 23.0), (11.7, 13.2, 5.2)),
    "eatr": ((21.4, 14.3, 18.1), (4.1, 4.1, 1.0)),
    "cg": ((28.6, 22.2, 21.3), (10.9, 9.6, 4.7)),
    "uvcom": ((31.0, 11.9, 20.1), ()),
    "tr": ((20.2, 14.3, 13.9), ()),
}
SHARES = {"whole longest run": 1.0, "first 40 % of the longest run": 0.4}
KEPT = {"contrast": "contrast", "published": "frozen scan", "longest-run": "whole longest run"}


@cache
def runs() -> dict[str, Any] | None:
    """Return our training runs, where they have been made."""
    path = files("dejacue_paper.experiments").joinpath("learned.json")
    if not path.is_file():
        return None
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def cohort_intervals(names: Sequence[str], differences: Table) -> Table:
    """Return low and high ends (2, n) of 95 % intervals of the means of (7, n) differences, in the
    published order of draws."""
    order = [names.index(name) for cohort in DRAWN for name in cohort]
    cohorts = [k for k, cohort in enumerate(DRAWN) for _ in cohort]
    return stratified_interval(differences[order], cohorts)


def _same(corpus: Corpus, windows: NDArray[np.int64]) -> float:
    return same(corpus.entries, list(corpus.by_history(windows).values()))


def constant(corpus: Corpus, share: float) -> NDArray[np.int64]:
    """Return one window for everything: the first part of the longest run."""
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
    values = [*_published(corpus, scan), *_references(corpus, "")]
    windows: dict[str, Any] = {**corpus.conditions("vocabulary")}
    notes = [
        "Published, 86 records: not counted, since the predictions and the values per history are "
        "not in the release (the means per seed are). Differences are our scan minus the published "
        "mean. Holm p (within the eight decoders) follows from the published p; intervals and p "
        "need values per history.",
    ]
    study = runs()
    if study is None:
        notes.append(
            "Ours: no training run is in the package; paper/docs/learned.md says how to make one."
        )
        return Result(tuple(values), windows, tuple(notes))
    for name in ("development", "vost"):
        values += _references(getattr(benchmark, name), f", on {GROUPS[name]}")
    for name, readouts in study["baselines"].items():
        for readout, answer in readouts.items():
            values += _row(
                f"{KEPT[readout]}, on {GROUPS[name]}", [answer["mean"]], [answer["same"]]
            )
    ours, chosen = _ours(benchmark, study)
    notes.append(
        f"Ours: windows of training runs on {study['machine']} (torch {study['torch']}), made with "
        f"{study['command']}, and scored here. same: overlap of the windows of different states, 1 "
        "if the words do not matter. ±: standard deviation over seeds (over folds for VOST's "
        "decoders on the seven). Intervals, p and Holm p (within the decoders of a condition): "
        "scan or contrast minus the mean over seeds, by history."
    )
    notes += [_effort(title, study["runs"], condition) for condition, title in CONDITIONS.items()]
    return Result((*values, *ours), {**windows, **chosen}, tuple(filter(None, notes)))


def _effort(title: str, study: Sequence[Mapping[str, Any]], condition: str) -> str:
    """Describe how much data a condition was trained on, and for how long."""
    matching = [run for run in study if run["condition"] == condition and "steps" in run]
    if not matching:
        return ""
    first, steps = matching[0], sorted({run["steps"] for run in matching})
    without = "" if first["settings"]["as_published"] else f" and {first['negatives']} without"
    return (
        f"{title}: {counted(len(matching), 'decoder')} from {first['records']} records of runs "
        f"with the state{without}, {len(first['settings']['seeds'])} "
        f"{'folds' if condition == 'vost' else 'seeds'} side by side, "
        f"{' or '.join(map(str, steps))} steps, {sum(run['seconds'] for run in matching):.0f} s of "
        "training, several at a time."
    )


def _published(corpus: Corpus, scan: NDArray[np.int64]) -> list[Value]:
    """Return our vocabulary scan minus the published means of eight decoders."""
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


def _references(corpus: Corpus, where: str) -> list[Value]:
    """Return the values of what needs no training: the scan, the recommended readout, windows that
    look at nothing."""
    rows = {
        "frozen scan": corpus.windows("vocabulary"),
        "contrast": corpus.windows("vocabulary", "contrast"),
        **{name: constant(corpus, share) for name, share in SHARES.items()},
    }
    values: list[Value] = []
    for name, windows in rows.items():
        means = list(corpus.averages(windows).values())
        values += _row(f"{name}{where}", [means], [_same(corpus, windows)])
    return values


def _ours(benchmark: Benchmark, study: Mapping[str, Any]) -> tuple[list[Value], dict[str, Any]]:
    corpus = benchmark.seven
    values: list[Value] = []
    windows: dict[str, Any] = {}
    for condition, title in CONDITIONS.items():
        runs_of = [
            run for run in study["runs"] if run["condition"] == condition and "error" not in run
        ]
        runs_of.sort(key=lambda run: list(DECODERS).index(run["decoder"]))
        means = {}
        for run in runs_of:
            label = f"{DECODERS[run['decoder']][3]}, {title}"
            values += _asked(benchmark, label, run)
            if "seven" not in run["trained"]:
                continue
            seeds = [_windows(corpus, answer) for answer in run["trained"]["seven"]]
            means[label] = np.mean(
                [corpus.means(corpus.scores(selected)) for selected in seeds], axis=0
            )
            windows |= {
                f"{label}/{k}": corpus.by_history(selected) for k, selected in enumerate(seeds)
            }
        if condition == "published":
            for run in runs_of:
                values += _rerun(run["decoder"], values) if run["decoder"] in RERUN else []
            values += _compared(corpus, "scan", corpus.windows("vocabulary"), means)
        values += _compared(corpus, "contrast", corpus.windows("vocabulary", "contrast"), means)
    return values, windows


def _rerun(name: str, ours: Sequence[Value]) -> list[Value]:
    """Compare ours as published once more with the published code on the same records."""
    label = f"{DECODERS[name][3]}, {CONDITIONS['published']}"
    here = {(v.metric, v.part): v.here for v in ours if v.row == label}
    row = f"{label}, and its own code"
    return [
        Value(row, metric, here.get((metric, part)), value / 100, part, digits=3, derived=True)
        for part, theirs in zip(("mean", "std"), RERUN[name], strict=True)
        for metric, value in zip(METRICS, theirs, strict=False)  # of one seed: no deviation
    ]


def _asked(benchmark: Benchmark, label: str, run: Mapping[str, Any]) -> list[Value]:
    """Return the values of a decoder before and after its training, on the seven histories and on
    other groups. Where windows are stored, they are scored here."""
    values = []
    for name in ("seven", *GROUPS):
        for state in ("untrained", "trained"):
            answers = run[state].get(name)
            if answers is None or (state == "untrained" and name in ("development", "vost")):
                continue
            if "windows" in answers[0]:
                corpus = getattr(benchmark, name)
                members = [_windows(corpus, answer) for answer in answers]
                rows = [list(corpus.averages(member).values()) for member in members]
                alike = [_same(corpus, member) for member in members]
            else:
                rows, alike = ([answer[key] for answer in answers] for key in ("mean", "same"))
            row = label + (": untrained" if state == "untrained" else "")
            row += f", on {GROUPS[name]}" if name in GROUPS else ""
            theirs = _theirs(run) if (name, state) == ("seven", "trained") else {}
            values += _row(row, rows, alike, theirs)
    return values


def _windows(corpus: Corpus, answer: Mapping[str, Any]) -> NDArray[np.int64]:
    return np.concatenate([np.array(answer["windows"][entry.id]) for entry in corpus.entries])


def _theirs(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the published means of three seeds and 86 records, to be seen beside ours."""
    if run["condition"] != "published":
        return {}
    figures: Mapping[str, Any] = published()["seven_learned_decoders"][DECODERS[run["decoder"]][2]]
    return figures


def _row(
    row: str,
    rows: Sequence[Sequence[float]],
    alike: Sequence[float],
    theirs: Mapping[str, Any] | None = None,
) -> list[Value]:
    """Return the mean and, of several seeds, the standard deviation."""
    table = np.array(rows)
    values = []
    for k, metric in enumerate(METRICS):
        parts = {"mean": table[:, k].mean()}
        if len(table) > 1:
            parts["std"] = table[:, k].std(ddof=1)
        for part, here in parts.items():
            there = (theirs or {}).get(part, {}).get(metric)
            values.append(Value(row, metric, float(here), there, part, derived=True))
    return [*values, Value(row, "same", float(np.mean(alike)), None, unit="overlap")]


def _compared(
    corpus: Corpus, name: str, chosen: NDArray[np.int64], means: Mapping[str, Table]
) -> list[Value]:
    """Return what needs no training − decoder, by history: the decoders of a condition are one
    family per metric."""
    if not means:
        return []
    ours = corpus.means(corpus.scores(chosen))
    names = [entry.component for entry in sorted(corpus.entries, key=lambda e: e.id)]
    values: list[Value] = []
    for metric in FAMILIES.values():
        k = list(METRICS).index(metric)
        differences = {label: ours[:, k] - theirs[:, k] for label, theirs in means.items()}
        p = [float(sign_flip_exact(values)) for values in differences.values()]
        ends = cohort_intervals(names, np.stack(list(differences.values()), axis=1)).T.tolist()
        for (label, difference), p_value, corrected, (low, high) in zip(
            differences.items(), p, holm(p), ends, strict=True
        ):
            row = f"{name} − {label}"
            values += [
                Value(row, metric, float(difference.mean()), None),
                Value(row, metric, low, None, "low"),
                Value(row, metric, high, None, "high"),
                Value(row, metric, p_value, None, "p", "p"),
                Value(row, metric, float(corrected), None, "holm p", "p"),
            ]
    return values


EXPERIMENTS = (Experiment("learned", "Learned decoders against the scan", learned),)
