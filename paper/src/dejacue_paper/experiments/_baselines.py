"""Bounds for every table, which the paper does not have: windows chosen without looking at a frame,
and the best window that a schedule offers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dejacue.method.scan import candidate_windows
from dejacue.method.scan_readout import PUBLISHED
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.evaluation.overlap import oracle_tiou
from dejacue_paper.experiments.corpus import Corpus, Table
from dejacue_paper.experiments.table import Value, with_intervals

Windows = dict[str, dict[str, NDArray[np.int64]]]
DRAWS = 100
SEED = 3407


def candidate_frames(
    entry: ReleaseEntry, lengths: tuple[int, ...] = PUBLISHED
) -> NDArray[np.int64]:
    """Return (C, 2): every window of the schedule that fits a run, in frames."""
    history = entry.history
    starts, ends = candidate_windows(history.run_offsets, lengths)
    return np.stack([history.frames[starts], history.frames[ends]], axis=1)


def oracle(corpus: Corpus, lengths: tuple[int, ...] = PUBLISHED) -> Table:
    """Return (n,) overlap of the best candidate of the schedule with the references."""
    return np.concatenate(
        [
            oracle_tiou(candidate_frames(entry, lengths), corpus.references[corpus.rows[entry.id]])
            for entry in corpus.entries
        ]
    )


def _scores(corpus: Corpus) -> Iterator[tuple[str, Table, Windows]]:
    """Return the name, the scores of every description, and the windows by condition and
    history."""
    for name in ("whole-history", "longest-run"):
        rows = corpus.windows("absolute", name)
        yield name, corpus.scores(rows), {name: corpus.by_history(rows)}
    rng = np.random.default_rng(SEED)
    drawn = []
    for entry in corpus.entries:
        windows = candidate_frames(entry)
        drawn.append(windows[rng.integers(0, len(windows), size=(DRAWS, len(entry.vocabulary)))])
    draws = np.concatenate(drawn, axis=1)
    mean = np.mean([corpus.scores(windows) for windows in draws], axis=0)
    conditions = {
        f"random window/{k}": corpus.by_history(windows) for k, windows in enumerate(draws)
    }
    yield f"random window, mean of {DRAWS}", mean, conditions


def baselines(corpus: Corpus) -> tuple[list[Value], Windows]:
    """Return rows for a table, and their windows."""
    values: list[Value] = []
    windows: Windows = {}
    for name, scores, chosen in _scores(corpus):
        values += with_intervals(name, corpus.means(scores))
        windows |= chosen
    return values, windows
