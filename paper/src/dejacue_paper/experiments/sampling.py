"""Beyond the paper: what is lost where frames are left out, and what filling gives back.

Every second, third or sixth frame of a file is kept. These rows are read as they are, as if it were
not known that frames lie between, and with evidence filled in there (filling.py of the method).
Beside these, the rows themselves are filled, and read as all frames are. That evidence is filled,
of words and of examples, was chosen on half A and rendered scenes; the rest confirms.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dejacue.evaluation.segmentation import BACKGROUND
from dejacue.method.filling import filling_of
from dejacue.method.localization import locate
from dejacue.records import History, Interval, Timeline, Window
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.experiments import rendered
from dejacue_paper.experiments.beyond import HALVES, sets
from dejacue_paper.experiments.corpus import Benchmark, Corpus
from dejacue_paper.experiments.examples import inside, with_frames
from dejacue_paper.experiments.table import Experiment, Result, Value, with_intervals
from dejacue_paper.experiments.timeline import scored

STEPS = (2, 3, 6)  # one of so many frames is kept
RATE = 5.0  # frames a second, of VOST; others are read as if they had it, as without times
SCENES = 60
WORDS, EXAMPLE = "words", "one example"
ALL, PLAIN, FILLED, ROWS = "all frames", "as they are", "filled", "rows filled"
READINGS = (ALL, PLAIN, FILLED, ROWS)
SEGMENTS = {"accuracy": "frame accuracy, intervals", "f1_50": "F1@0.50"}
ABOUT = (
    "One of two, three or six frames is kept, from each place on where the first may lie; means "
    "over these. Five frames count as a second, so that smoothing is that of all frames. Windows "
    "are the frames of the file that begin in the seconds of the best occurrence. One example: a "
    "random frame of each state, of those that are kept, beside its words; all frames are read "
    "with the same one. Rows filled: unit rows between those that are kept, read as all frames; "
    "there, the last frame of a run lasts a frame of the file, not until the next that is kept."
)


def sampling(benchmark: Benchmark, scenes: int = SCENES, workers: int | None = None) -> Result:
    """Measure evenly sampled frames, read as they are and filled, beside all frames."""
    groups = sets(benchmark)
    groups["rendered"] = Corpus(rendered.moderate_entries(scenes, workers), benchmark.engine)
    values = [value for name, corpus in groups.items() for value in measured(name, corpus)]
    return Result(tuple(values), {}, (HALVES, ABOUT))


def measured(name: str, corpus: Corpus) -> list[Value]:
    """Return the values of a group of histories, by words and by one example a state."""
    values = _values(f"{name}: {WORDS}, {ALL}", corpus, WORDS, ALL, 1)
    for how in (WORDS, EXAMPLE):
        for step in STEPS:
            for reading in READINGS:
                if (how, reading) != (WORDS, ALL):  # which no step changes
                    row = f"{name}: {how}, 1 of {step}, {reading}"
                    values += _values(row, corpus, how, reading, step)
    return values


def _values(row: str, corpus: Corpus, how: str, reading: str, step: int) -> list[Value]:
    tables, segments = [], []
    for first in range(step):
        windows: list[NDArray[np.int64]] = []
        for entry in corpus.entries:
            timeline = _read(entry, how, reading, kept_frames(entry, step, first), first)
            windows += _best(entry, timeline)
            labels = labels_in_file(timeline, entry.history)
            segments.append(scored(entry, lambda *_, labels=labels: (labels, labels), 0))
        tables.append(corpus.means(corpus.scores(np.stack(windows))))
    return [
        *with_intervals(row, np.mean(tables, axis=0), ("r1_05", "top1_tiou")),
        *(
            Value(row, metric, float(np.mean([scores[key] for scores in segments])), None)
            for key, metric in SEGMENTS.items()
        ),
    ]


def _read(entry: ReleaseEntry, how: str, reading: str, kept: History, draw: int) -> Timeline:
    """Return the timeline of an entry of which these frames are kept."""
    assert kept.source_frames is not None
    if reading == ALL:
        history = replace(entry.history, times_s=entry.history.frames / RATE)
    elif reading == ROWS:
        history = filled_rows(kept)
    else:
        history = kept if reading == FILLED else replace(kept, source_frames=None)
    words = entry.vocabulary
    if how == EXAMPLE:
        as_in_file = replace(entry, history=replace(kept, frames=kept.source_frames))
        named = inside(as_in_file, 1, draw)
        counted = as_in_file if reading in (ALL, ROWS) else replace(entry, history=kept)
        words = with_frames(counted, named)
    return locate(history, words)


def _best(entry: ReleaseEntry, timeline: Timeline) -> list[NDArray[np.int64]]:
    """Return the best window of each description; of a state that is not found the first frame."""
    nothing = entry.history.frames[[0, 0]]
    best = {state: timeline.best(state) for state in timeline.states}
    return [
        nothing if (interval := best[state]) is None else np.array(tuple(in_file(interval)))
        for state in entry.vocabulary.state_names
    ]


def kept_frames(entry: ReleaseEntry, step: int, first: int) -> History:
    """Return one of so many frames, numbered as sampled, with those of the file."""
    history = entry.history
    since = history.frames - history.frames[0] - first
    kept = (since % step == 0) & (since >= 0)
    frames = history.frames[kept]
    return History(
        history.features[kept],
        since[kept] // step,
        history.id,
        history.encoder,
        times_s=frames / RATE,
        source_frames=frames,
    )


def filled_rows(kept: History) -> History:
    """Return a history of all frames of the file, with even mixtures of the rows that are kept."""
    filling = filling_of(kept)
    assert kept.source_frames is not None
    rows = np.concatenate([*kept.unit_blocks()])
    frames = kept.source_frames
    if filling is not None:
        rows, frames = filling.rows(rows.T).T, filling.source
    return History(rows, frames, kept.id, kept.encoder, times_s=frames / RATE)


def in_file(interval: Interval) -> Window:
    """Return the frames of the file that begin in the seconds of an interval."""
    assert interval.start_s is not None
    assert interval.end_s is not None
    first, end = (math.ceil(RATE * at - 1e-6) for at in (interval.start_s, interval.end_s))
    return Window(first, max(first, end - 1))


def labels_in_file(timeline: Timeline, history: History) -> NDArray[np.int64]:
    """Return the state that the intervals give each frame of the whole history."""
    labels: NDArray[np.int64] = np.full(len(history), BACKGROUND)
    states = list(timeline.states)
    for interval in timeline:
        window = in_file(interval)
        here = (history.frames >= window.start) & (history.frames <= window.end)
        labels[here] = states.index(interval.state)
    return labels


EXPERIMENTS = (
    Experiment(
        "beyond-sampling",
        "Frames left out: read as they are, and filled",
        sampling,
        on_request=True,
    ),
)
