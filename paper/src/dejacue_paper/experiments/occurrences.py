"""Beyond the paper: every occurrence of a state, and whether it occurs at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.method.localization import locate
from dejacue.method.readout import Readout
from dejacue.records import History, Interval, Vocabulary
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.data.synthetic import generate
from dejacue_paper.evaluation.occurrences import match, recurrence
from dejacue_paper.experiments import perturb, rendered
from dejacue_paper.experiments.beyond import of_descriptions, sets
from dejacue_paper.experiments.corpus import Benchmark, Corpus
from dejacue_paper.experiments.table import Experiment, Result, Value
from dejacue_paper.method.absence import state_p_values

F1 = "F1 at tIoU .5"
MEASURES = {
    "map": "mean average precision",
    "recall_05": "recall at .5",
    "precision_05": "precision at .5",
    "count_error": "count error",
}
GENERATED = (2, 4, 6)  # recurrences
GENERATED_SEEDS = range(2000, 2020)
LEVELS = (0.05, 0.1, 0.2, 0.5)
LEAST_LEFT = 15  # frames, after an episode was cut
SEED = 3407
FAMILIES_SCENES = 80


def recurring(benchmark: Benchmark) -> Result:
    """Measure histories in which some state holds more than once, against all annotated
    episodes."""
    groups: dict[str, Sequence[ReleaseEntry]] = {
        "development": recurrent(benchmark.development.entries),
        "seven": recurrent(benchmark.seven.entries),
    }
    groups["all real"] = [*groups["development"], *groups["seven"]]
    for count in GENERATED:
        groups[f"generated, {count} times"] = [generated(seed, count) for seed in GENERATED_SEEDS]
    values: list[Value] = []
    for name, entries in groups.items():
        for method in ("published scan", "contrast", "occurrences"):
            scores = [_scores(entry, method, benchmark.engine) for entry in entries]
            mean = {key: float(np.mean([row[key] for row in scores])) for key in scores[0]}
            for key, label in {"f1": F1, **MEASURES}.items():
                unit = "count" if key == "count_error" else "%"
                values.append(Value(f"{name}: {method}", label, mean[key], None, unit=unit))
        if name in ("development", "seven"):
            values += [
                Value(f"{entry.id}: {method}", F1, f1, None)
                for entry in entries
                for method in ("contrast", "occurrences")
                for f1 in [_scores(entry, method, benchmark.engine)["f1"]]
            ]
    return Result(tuple(values), {}, (ABOUT_RECURRING,))


ABOUT_RECURRING = (
    "Means over the states of a history, then over histories in which some state has more than "
    "one annotated episode. The published scan and contrast give one window per state (the scan: "
    "for its first description)."
)


def recurrent(entries: Sequence[ReleaseEntry]) -> list[ReleaseEntry]:
    return [e for e in entries if any(len(windows) > 1 for windows in e.references.values())]


def generated(seed: int, count: int) -> ReleaseEntry:
    scene = generate(seed, recurrences=count, frames=400)
    return ReleaseEntry(
        scene.history, scene.vocabulary, scene.references, scene.history.id, "generated", ""
    )


def _scores(entry: ReleaseEntry, method: str, engine: str) -> dict[str, float]:
    if method == "occurrences":
        return occurrence_scores(entry, "timeline", engine)
    readout = "published" if method == "published scan" else "contrast"
    timeline = locate(entry.history, entry.vocabulary, readout=readout, kernel=engine)
    states = entry.vocabulary.states
    return _matched(entry, {state: of_descriptions(timeline, state)[:1] for state in states})


def occurrence_scores(entry: ReleaseEntry, readout: str | Readout, engine: str) -> dict[str, float]:
    """Return F1 and MEASURES of all occurrences that a reading lists, means over states."""
    timeline = locate(entry.history, entry.vocabulary, readout=readout, kernel=engine)
    return _matched(entry, {state: timeline[state] for state in entry.vocabulary.states})


def _matched(entry: ReleaseEntry, windows: Mapping[str, Sequence[Interval]]) -> dict[str, float]:
    rows = []
    for state, selected in windows.items():
        ranked = [tuple(m.window) for m in selected], [m.score for m in selected]
        references = np.array([tuple(window) for window in entry.references[state]])
        hits = int(match(*ranked, references, 0.5).sum()) if ranked[0] else 0
        rows.append(recurrence(*ranked, references))
        rows[-1]["f1"] = 2 * hits / (len(ranked[0]) + len(references))
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def absence(
    benchmark: Benchmark, scenes: int = FAMILIES_SCENES, workers: int | None = None
) -> Result:
    """Measure how often a state is called present: where it is, and where its episodes were cut
    out."""
    chosen = {name: corpus for name, corpus in sets(benchmark).items() if name != "VOST"}
    entries = rendered.moderate_entries(scenes, workers)
    chosen["rendered"] = Corpus(entries, benchmark.engine)
    others = [entry.vocabulary for entry in benchmark.vost.entries]
    banks = dict.fromkeys(chosen, others) | {"rendered": [e.vocabulary for e in entries]}
    values: list[Value] = []
    curves: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    for name, corpus in chosen.items():
        present, absent = _p_values(corpus, banks[name])
        curves[name] = present, absent
        for level in LEVELS:
            for what, p_values in (("present", present), ("absent", absent)):
                share = float(np.mean(p_values <= level))
                values.append(
                    Value(f"{name}: {what}, p ≤ {level:g}", "called present", share, None)
                )
        values.append(Value(name, "states judged", float(len(absent)), None, unit="count"))
    return Result(
        tuple(values), {}, (ABOUT_ABSENCE,), {"beyond_absence": partial(_curves_figure, curves)}
    )


ABOUT_ABSENCE = (
    "p-values against the vocabularies of other VOST histories (rendered: of other scenes) that "
    "share no word with the history's own. Absent: all frames in references of the state were cut "
    "out. Present: the same number of other frames was cut out instead, so that lengths match. "
    "Frames that nobody labelled may still show the state (VOST's references cover the first "
    "event only)."
)


def _p_values(
    corpus: Corpus, bank: Sequence[Vocabulary]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return p-values of states that are present, and of states that were cut out, pairwise."""
    present: list[float] = []
    absent: list[float] = []
    rng = np.random.default_rng(SEED)
    for entry in corpus.entries:
        for state in entry.vocabulary.states:
            pair = without(entry, state, rng)
            if pair is None:
                continue
            for history, p_values in zip(pair, (present, absent), strict=True):
                p_values.append(
                    state_p_values(history, entry.vocabulary, bank, corpus.engine)[state]
                )
    return np.array(present), np.array(absent)


def without(
    entry: ReleaseEntry, state: str, rng: np.random.Generator
) -> tuple[History, History] | None:
    """Return the history with a stretch of other frames cut out, and with all frames of the state
    cut out: of equal length. None where too little would be left."""
    frames = entry.history.frames
    in_state = np.zeros(len(frames), bool)
    for window in entry.references[state]:
        in_state |= (frames >= window.start) & (frames <= window.end)
    others, count = np.flatnonzero(~in_state), int(in_state.sum())
    if len(others) < LEAST_LEFT or count == 0 or len(others) - count < 0:
        return None
    instead = np.ones(len(frames), bool)
    first = int(rng.integers(0, len(others)))
    instead[np.roll(others, -first)[:count]] = False
    return perturb.keep(entry.history, instead), perturb.keep(entry.history, ~in_state)


def _curves_figure(curves: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Any:
    from dejacue_paper.experiments._robustness_figures import calibration_figure

    return calibration_figure(curves)


EXPERIMENTS = (
    Experiment(
        "beyond-occurrences",
        "All occurrences of a state, against all annotated episodes",
        recurring,
        on_request=True,
    ),
    Experiment(
        "beyond-absence",
        "Does a state occur? p-values when it does and when it does not",
        absence,
        on_request=True,
    ),
)
