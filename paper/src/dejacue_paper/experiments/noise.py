"""Beyond the paper: are rows recognised that are noise, white or smooth in time?

Each history keeps its frames, references and words; its rows are replaced. One frame of each state
is named, in the middle of its first reference. The rule was chosen on half A, development and
rendered scenes; half B and the seven histories confirm.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dejacue.method.known_frames import steps_of
from dejacue.method.localization import analyse
from dejacue.method.state_readout import NOISE, WITHOUT_PIXELS
from dejacue.records import History
from dejacue.records.arrays import Floats
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.data.synthetic import ar1
from dejacue_paper.experiments import rendered
from dejacue_paper.experiments.beyond import HALVES, sets
from dejacue_paper.experiments.corpus import Benchmark
from dejacue_paper.experiments.examples import SCENES, with_frames
from dejacue_paper.experiments.table import Experiment, Result, Value
from dejacue_paper.experiments.timeline import RECURRING_SCENES, recurring_scenes

CORRELATIONS = (0.0, 0.5, 0.9, 0.98)


def recognised(benchmark: Benchmark, scenes: int = SCENES, workers: int | None = None) -> Result:
    """Measure how often the notes call rows noise, of histories as they are and of noise."""
    groups: dict[str, Sequence[ReleaseEntry]] = {
        name: corpus.entries for name, corpus in sets(benchmark).items() if name != "VOST"
    }
    if scenes:
        groups["rendered"] = rendered.moderate_entries(scenes, workers)
        groups["rendered, recurring"] = recurring_scenes(RECURRING_SCENES, workers)
    values: list[Value] = []
    for name, entries in groups.items():
        for row, tables in rows_of(entries).items():
            replaced = [with_rows(e, table) for e, table in zip(entries, tables, strict=True)]
            notes = [notes_of(entry) for entry in replaced]
            of_row = f"{name} ({len(entries)}): {row}"
            for metric, which in (("one example a state", 0), ("words", 1)):
                count = float(sum(pair[which] for pair in notes))
                values.append(Value(of_row, metric, count, None, unit="histories"))
            steps = np.array([steps_of(entry.history) for entry in replaced]).T
            for metric, numbers in zip(("forgotten", "unevenness"), steps, strict=True):
                for part, number in (("least", numbers.min()), ("most", numbers.max())):
                    values.append(Value(of_row, f"{metric}, {part}", float(number), None, unit="×"))
    note = (
        "Histories of which a note says so. One example a state: the windows are those without "
        "pixels. Words: states are found by chance. AR(ρ): Gaussian noise of which a frame keeps ρ "
        "of the one before, in as many dimensions, or in those of the history's own steps. "
        "Forgotten: the scatter that steps tell over that which there is. Unevenness: the "
        "deviation of squared steps over their mean."
    )
    return Result(tuple(values), {}, (HALVES, note))


def rows_of(entries: Sequence[ReleaseEntry]) -> Mapping[str, list[Floats]]:
    """Return tables of rows, as they are and of noise, one of each for every entry."""
    made = {"as they are": [entry.history.features for entry in entries]}
    for correlation in CORRELATIONS:
        made[f"AR({correlation:g})"] = [
            ar1(_rng(entry).normal(size=entry.history.features.shape), correlation)
            for entry in entries
        ]
    made["AR(0.9), spread as the steps"] = [_like_steps(entry, 0.9) for entry in entries]
    return made


def _rng(entry: ReleaseEntry) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(entry.label.encode()))


def _like_steps(entry: ReleaseEntry, correlation: float) -> Floats:
    """Return noise around the mean of a history that spreads over the directions of its steps."""
    rows = entry.history.features.astype(np.float64)
    steps = np.diff(rows, axis=0)
    noise = ar1(_rng(entry).normal(size=(len(rows), len(steps))), correlation) @ steps
    away = 3 * np.linalg.norm(noise, axis=1).mean()  # as far as real looks lie from their origin
    mean = rows.mean(axis=0)
    around: Floats = noise + away * mean / np.linalg.norm(mean)
    return around


def with_rows(entry: ReleaseEntry, rows: Floats) -> ReleaseEntry:
    """Return the entry with these rows at its frames."""
    history = History(rows.astype(np.float32), entry.history.frames, id=entry.history.id)
    return replace(entry, history=history)


def notes_of(entry: ReleaseEntry) -> tuple[bool, bool]:
    """Return whether a note says so beside one example a state, and of words alone."""
    frames, named = entry.history.frames, []
    for state, name in enumerate(entry.vocabulary.states):
        first, last = entry.references[name][0]
        named.append((int(np.abs(frames - (first + last) / 2).argmin()), state))
    beside_examples = analyse(entry.history, with_frames(entry, named)).notes
    return WITHOUT_PIXELS in beside_examples, NOISE in analyse(
        entry.history, entry.vocabulary
    ).notes


EXPERIMENTS = (
    Experiment(
        "beyond-noise",
        "Are rows of noise recognised, white or smooth in time?",
        recognised,
        on_request=True,
    ),
)
