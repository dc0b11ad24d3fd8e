"""Beyond the paper: do the edges of states lie where frames change, and what do segments allow?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dejacue.evaluation import metrics
from dejacue.method.contrast import Contrast
from dejacue.method.segmentation import segments
from dejacue.records import History
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.evaluation.overlap import oracle_tiou
from dejacue_paper.experiments.beyond import HALVES, sets
from dejacue_paper.experiments.corpus import Benchmark, Corpus, Table
from dejacue_paper.experiments.table import Experiment, Result, Value

MAX_JOINED = 5  # neighbouring segments in a window
COUNTS = (3, 5, 8)  # segments that are asked for
NEAR_S, NEAR_FRAMES = 0.4, 2.0
DRAWS, SEED = 20, 3407
SETS = ("VOST", "half A", "half B", "seven", "development")

Edges = NDArray[np.int64]  # positions at which segments begin, and N


def visual(benchmark: Benchmark, names: Sequence[str] = SETS) -> Result:
    """Compare segments with random ones of the same number."""
    chosen: dict[str, int | None] = {"segments": None}
    chosen |= {f"about {count} segments": count for count in COUNTS}
    values: list[Value] = []
    corpora = sets(benchmark)
    for name in names:
        for row, count in chosen.items():
            values += _rows(f"{name}: {row}", corpora[name], count)
    return Result(tuple(values), {}, (HALVES, ABOUT))


ABOUT = (
    f"Best window: the best one made of 1 to {MAX_JOINED} neighbouring segments. Near an edge: "
    f"share of reference edges inside stretches that are within {NEAR_S} s ({NEAR_FRAMES:g} "
    "frames if a history has no times) of an edge between segments; mean over histories that have "
    f"such edges. Random: the same number of edges drawn in the same stretches, means of {DRAWS} "
    "draws."
)


def _rows(row: str, corpus: Corpus, count: int | None) -> list[Value]:
    edges = {entry.id: edges_of(entry.history, count) for entry in corpus.entries}
    rng = np.random.default_rng(SEED)
    drawn = [
        {entry.id: _drawn(entry.history, edges[entry.id], rng) for entry in corpus.entries}
        for _ in range(DRAWS)
    ]
    number = float(np.mean([len(cuts) - 1 for cuts in edges.values()]))
    values = [Value(row, "segments per history", number, None, unit="count")]
    for name, tables in ((row, [edges]), (f"{row}, random", drawn)):
        best = np.mean([_best(corpus, table) for table in tables], axis=0)
        values += [
            Value(name, "R@1 .5 of the best window", float(best[1]), None),
            Value(name, "tIoU of the best window", float(best[2]), None),
            Value(
                name,
                "near an edge",
                float(np.mean([_near(corpus, table) for table in tables])),
                None,
            ),
        ]
    return values


def edges_of(history: History, count: int | None = None) -> Edges:
    starts = [window.start for window in segments(history, count)]
    return np.append(np.searchsorted(history.frames, starts), len(history))


def _drawn(history: History, edges: Edges, rng: np.random.Generator) -> Edges:
    """Draw as many edges at random; the ends of stretches stay."""
    cuts = Contrast().bounds(history)
    free = np.setdiff1d(np.arange(len(history)), cuts)
    return np.union1d(cuts, rng.choice(free, len(edges) - len(cuts), replace=False))


def _best(corpus: Corpus, edges: dict[str, Edges]) -> Table:
    """Return the METRICS of the best window of each description."""
    overlaps = [
        oracle_tiou(
            joined(entry.history, edges[entry.id]), corpus.references[corpus.rows[entry.id]]
        )
        for entry in corpus.entries
    ]
    best: Table = corpus.means(metrics(np.concatenate(overlaps))).mean(axis=0)
    return best


def joined(history: History, edges: Edges) -> NDArray[np.int64]:
    """Return (C, 2) frames of all windows of a few neighbouring segments."""
    first, last = history.frames[edges[:-1]], history.frames[edges[1:] - 1]
    return np.concatenate(
        [
            np.stack([first[: len(first) - count], last[count:]], axis=1)
            for count in range(min(MAX_JOINED, len(first)))
        ]
    )


def _near(corpus: Corpus, edges: dict[str, Edges]) -> float:
    shares = [share for e in corpus.entries if (share := near_edges(e, edges[e.id])) is not None]
    return float(np.mean(shares))


def near_edges(entry: ReleaseEntry, edges: Edges) -> float | None:
    """Return the share of reference edges near one of these; None where all are ends of
    stretches."""
    history = entry.history
    frames, cuts = history.frames, Contrast().bounds(history)
    windows = [tuple(window) for references in entry.references.values() for window in references]
    first, last = np.array(windows).T
    true = np.union1d(np.searchsorted(frames, first), np.searchsorted(frames, last, side="right"))
    true, inner = np.setdiff1d(true, cuts), np.setdiff1d(edges, cuts)
    if not len(true):
        return None
    if not len(inner):
        return 0.0
    interval = history.frame_interval_s
    limit = NEAR_FRAMES if interval is None else NEAR_S / interval
    apart = np.abs(frames[true][:, None] - frames[inner][None, :]).min(axis=1)
    return float(np.mean(apart <= limit))


EXPERIMENTS = (
    Experiment(
        "beyond-segments", "Segments of similar frames, and their edges", visual, on_request=True
    ),
)
