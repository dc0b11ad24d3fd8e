"""Beyond the paper: corpus moment retrieval. A vocabulary is asked over a store of many histories,
of which one is meant: is it among the first, and is the window in it right?

Other rules to rank histories by were tried on half A of VOST; half B only confirms, and confirmed
none of them (paper/docs/beyond.md keeps the log).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.corpus import Store
from dejacue.evaluation import compare
from dejacue.method.coordinates import unit_rows
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.experiments.beyond import HALVES, sets
from dejacue_paper.experiments.corpus import Benchmark, Corpus, Table
from dejacue_paper.experiments.table import (
    Experiment,
    Result,
    Value,
    interval_values,
    intervals,
    paired_values,
)

FIRST = (1, 5, 10)
HISTORY, MOMENT, RECIPROCAL = "R@{} of the history", "R@1 .5 within the first {}", "1/rank"
IN_RIGHT_HISTORY = "R@1 .5 of the moment, history given"
SAME = "top history has the same object in its label"
NEAREST = 3  # texts of others that a history is nearest to
ABOUT = (
    "R@k of the history: the history that a vocabulary belongs to is among the first k. R@1 .5 "
    "within the first k: it is among them, and the window found for the state has tIoU ≥ .5 with "
    "a reference; averaged over the states of a history, then over histories.",
    "The same object: the noun of VOST's label (4942_tear_squid).",
    "Chance: histories in random order, windows as found. Contrast score: histories ranked by the "
    "clearest of their windows.",
    "Centred: cosine between the centre of the words and a history's direction minus n/(n + 1) of "
    "the mean of all n directions, so that it is defined for a single history. Near texts: twice "
    f"the mean cosine minus that with the {NEAREST} nearest centres of other vocabularies of half "
    "A. Holm p: within the four metrics of a comparison.",
)


def corpus_moments(benchmark: Benchmark) -> Result:
    """Query VOST, and all histories of the release, with every vocabulary."""
    vost = benchmark.vost
    groups = {"VOST": vost, "seven": benchmark.seven, "development": benchmark.development}
    entries = [entry for corpus in groups.values() for entry in corpus.entries]
    values: list[Value] = []
    windows = {}
    with tempfile.TemporaryDirectory() as folder:
        for stored, asking in ((vost.entries, {"VOST": vost}), (entries, groups)):
            with Store.create(Path(folder) / str(len(stored))) as store:
                store.add(entry.history for entry in stored)
                for name, corpus in asking.items():
                    row = f"{name} over {len(stored)} histories"
                    answers = ask_each(store, corpus)
                    values += _rank_values(row, corpus, answers, len(stored))
                    if corpus is vost:
                        values += _same_object(f"{row}: object score", corpus, answers)
                    windows[row] = corpus.by_history(answers.windows)
    halves = {name: corpus for name, corpus in sets(benchmark).items() if name.startswith("half")}
    background = halves["half A"].entries
    for name, corpus in halves.items():
        values += _rules(f"{name} over itself", corpus, corpus.entries, background, tuple(RULES))
    # near texts describe half of these histories, and would tell which are not meant
    for name, corpus in halves.items():
        row = f"{name} over {len(vost.entries)} histories"
        values += _rules(row, corpus, vost.entries, background, (PLAIN, CENTRED))
    return Result(tuple(values), windows, (*ABOUT, HALVES))


class CorpusRanks(NamedTuple):
    """Results of each description: rank of the right history by object score and by the
    score of its windows, the window in it, and the history that came first."""

    by_object: NDArray[np.int64]
    by_windows: NDArray[np.int64]
    windows: NDArray[np.int64]
    first: list[str]


def ask_each(store: Store, corpus: Corpus) -> CorpusRanks:
    """Query a store with every vocabulary of a corpus."""
    rows: list[tuple[int, int, tuple[int, int], str]] = []
    for entry in corpus.entries:
        matches = list(store.query(entry.vocabulary))
        matches.sort(key=lambda match: match.interval.score)  # the best of a state comes last
        ids = {
            match.interval.state: match for match in matches if match.history == entry.history.id
        }
        rank = next(iter(ids.values())).rank
        clearest = {match.rank: match.interval.score for match in matches}
        nearest = min(matches, key=lambda match: match.rank)
        clearer = 1 + sum(score > clearest[rank] for score in clearest.values())
        for state in entry.vocabulary.state_names:
            window = ids[state].interval.start, ids[state].interval.end
            rows.append((rank, clearer, window, nearest.history))
    *numbers, first = zip(*rows, strict=True)
    by_object, by_windows, windows = map(np.array, numbers)
    return CorpusRanks(by_object, by_windows, windows, list(first))


def _rank_values(row: str, corpus: Corpus, answers: CorpusRanks, count: int) -> list[Value]:
    names = [name.format(k) for name in (HISTORY, MOMENT) for k in FIRST]
    hits = corpus.scores(answers.windows)[:, [1]]
    values = []
    for order, ranks in (("object", answers.by_object), ("contrast", answers.by_windows)):
        within = ranks[:, None] <= np.array(FIRST)
        shares = intervals(corpus.means(np.hstack([within, hits * within])))
        for name, figures in zip(names, shares, strict=True):
            values += interval_values(f"{row}: {order} score", name, figures, None, ())
    means = corpus.means(hits)
    right = float(means.mean())
    for k in FIRST:
        values.append(Value(f"{row}: chance", HISTORY.format(k), k / count, None))
        values.append(Value(f"{row}: chance", MOMENT.format(k), k / count * right, None))
    return values + interval_values(row, IN_RIGHT_HISTORY, intervals(means)[0], None, ())


def _same_object(row: str, corpus: Corpus, answers: CorpusRanks) -> list[Value]:
    noun = {entry.history.id: entry.label.split("_", 2)[-1] for entry in corpus.entries}
    same = [
        noun.get(first) == noun[history]
        for first, history in zip(answers.first, corpus.histories, strict=True)
    ]
    shares = corpus.means(np.array(same, float)[:, None])
    return interval_values(row, SAME, intervals(shares)[0], None, ())


def _mean_cosine(means: Table, centre: Table, others: Table) -> Table:
    return means @ centre


def _centred(means: Table, centre: Table, others: Table) -> Table:
    directions = unit_rows(means)
    scores: Table = unit_rows(directions - directions.sum(axis=0) / (len(means) + 1)) @ centre
    return scores


def _near_texts(means: Table, centre: Table, others: Table) -> Table:
    nearest: Table = np.sort(means @ others.T, axis=1)[:, -NEAREST:].mean(axis=1)
    return 2 * (means @ centre) - nearest


PLAIN, CENTRED, TEXTS = "mean cosine (default)", "centred", "minus near texts"
RULES: dict[str, Callable[[Table, Table, Table], Table]] = {
    PLAIN: _mean_cosine,
    CENTRED: _centred,
    TEXTS: _near_texts,
}


def _rules(
    row: str,
    corpus: Corpus,
    entries: Sequence[ReleaseEntry],
    background: Sequence[ReleaseEntry],
    names: Sequence[str],
) -> list[Value]:
    """Return ranks of the right history by each rule, and how they differ from those of the
    first."""
    means = np.stack([entry.history.mean_direction for entry in entries]).astype(np.float64)
    at = {entry.id: place for place, entry in enumerate(entries)}
    centres = {entry.id: _centre(entry) for entry in (*corpus.entries, *background)}
    metrics = [*(HISTORY.format(k) for k in FIRST), RECIPROCAL]
    values: list[Value] = []
    tables: list[Table] = []
    for name in names:
        ranks = []
        for entry in corpus.entries:
            others = np.stack([centres[e.id] for e in background if e.id != entry.id])
            scores = RULES[name](means, centres[entry.id], others)
            ranks.append(1 + int((scores > scores[at[entry.id]]).sum()))
        first_ranks = np.array(ranks)[:, None]
        tables.append(np.hstack([first_ranks <= np.array(FIRST), 1 / first_ranks]))
        for metric, figures in zip(metrics, intervals(tables[-1]), strict=True):
            values += interval_values(f"{row}: {name}", metric, figures, None, ())
        if len(tables) > 1:
            pairs = dict(zip(metrics, compare(tables[-1], tables[0]), strict=True))
            values += paired_values(f"{row}: {name} − mean cosine", pairs, {})
    return values


def _centre(entry: ReleaseEntry) -> Table:
    """Return what all words have in common: every state weighs the same."""
    words = entry.vocabulary
    assert words.features is not None
    centre: Table = unit_rows((words.weights @ unit_rows(words.features))[None])[0]
    return centre


EXPERIMENTS = (
    Experiment(
        "beyond-corpus",
        "One vocabulary over many histories: which history, and when",
        corpus_moments,
        on_request=True,
    ),
)
