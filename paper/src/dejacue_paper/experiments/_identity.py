"""A history and the other tracks of its video under the same queries (four histories have any)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dejacue.method.localization import as_readout
from dejacue.method.readout import Readout
from dejacue.method.scan_readout import ScheduledReadout
from dejacue.records import History
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.evaluation.identity import identity_correct
from dejacue_paper.experiments.corpus import SCAN, Corpus, Table
from dejacue_paper.method.windows import description_windows


def _track_scores(
    entry: ReleaseEntry, coordinates: str, readout: str | Readout, engine: str
) -> Table:
    """Return (Q, K) best score of each description on each auxiliary track; −inf where nothing
    fits."""
    words = entry.vocabulary
    table = np.full((len(words), len(entry.tracks)), -np.inf)
    for k, track in enumerate(entry.tracks):
        if _fits(track.history, readout):
            table[:, k] = description_windows(
                [track.history], words, coordinates=coordinates, readout=readout, kernel=engine
            )[1]
    return table


def _fits(history: History, readout: str | Readout) -> bool:
    """Return whether any length of the readout's schedule fits a run."""
    resolved = as_readout(readout)
    lengths = resolved.durations if isinstance(resolved, ScheduledReadout) else ()
    return not isinstance(lengths, tuple) or history.longest_run >= lengths[0]


def identity(
    corpus: Corpus, target: Table, coordinates: str, readout: str | Readout = SCAN
) -> Table:
    """Return (n,) 1 where the target's best window outscores those of all its tracks."""
    others = corpus.cached(
        ("tracks", coordinates, as_readout(readout)),
        lambda: [_track_scores(e, coordinates, readout, corpus.engine) for e in corpus.entries],
    )
    return np.concatenate(
        [
            identity_correct(target[corpus.rows[entry.id]], scores)
            for entry, scores in zip(corpus.entries, others, strict=True)
        ]
    )


def edge_hits(history: History, windows: NDArray[np.int64]) -> Table:
    """Return (n,) 1 where a window starts or ends with its run."""
    offsets = history.run_offsets
    first = set(history.frames[offsets[:-1]].tolist())
    last = set(history.frames[offsets[1:] - 1].tolist())
    return np.array([float(a in first or b in last) for a, b in windows.tolist()])
