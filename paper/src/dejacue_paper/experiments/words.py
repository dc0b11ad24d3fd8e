"""What a second description of a state adds, and how far two of them mean the same.

Texts are compared on all of VOST, without a look at frames or references; retrieval is measured on
the sets that constants were chosen on (half A, development), since advice is drawn from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product

import numpy as np

from dejacue.evaluation import METRICS, best_tiou, compare, metrics
from dejacue.finding.words import check_words
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import unit_rows
from dejacue.records import Vocabulary
from dejacue_paper.data.release import TEMPLATES, ReleaseEntry
from dejacue_paper.experiments.beyond import HALVES, sets
from dejacue_paper.experiments.corpus import Benchmark, Corpus, Table
from dejacue_paper.experiments.table import (
    FAMILY,
    Experiment,
    Result,
    Value,
    interval_values,
    intervals,
    paired_values,
    with_intervals,
)

BOTH, ONE_FORM = "all descriptions", "one description per state"
ALIKE, MIXED = "one per state, phrased alike", "one per state, phrased differently"
LISTED_METRICS = ("r1_05", "top1_tiou")
COSINE = "cosine of contrasts"
RANK = "rank correlation with Top-1 tIoU"
DRAWS, SEED = 10_000, 3407
MIN_HISTORIES = 10  # histories, which have no rank correlation to speak of
PHRASED = (
    "Phrased alike: the first descriptions of all states together, or the second ones; in the "
    "release these are mostly phrased alike. Differently: all other choices of one description "
    "per state. Intervals of rank correlations: histories resampled."
)


def words(benchmark: Benchmark) -> Result:
    values = _texts(benchmark.vost)
    for name in ("half A", "development"):
        corpus = sets(benchmark)[name]
        values += [*_agreement(name, corpus), *_added(name, corpus)]
    return Result(tuple(values), {}, (HALVES, PHRASED, FAMILY))


def _texts(corpus: Corpus) -> list[Value]:
    """Return cosines of contrasts: of two descriptions, with their like and crossed; of prompt
    forms."""
    rows = {
        "VOST: two descriptions, phrased alike": [_crossed(e, 0) for e in corpus.entries],
        "VOST: two descriptions, crossed": [_crossed(e, 1) for e in corpus.entries],
        "VOST: two prompt forms": [
            _forms(e, combinations(TEMPLATES[1:], 2)) for e in corpus.entries
        ],
        "VOST: a prompt form and the ensemble": [
            _forms(e, product(TEMPLATES[1:], TEMPLATES[:1])) for e in corpus.entries
        ],
    }
    return [
        value
        for row, values in rows.items()
        for value in _with_interval(row, COSINE, corpus, values)
    ]


def _with_interval(
    row: str, metric: str, corpus: Corpus, by_history: Sequence[float]
) -> list[Value]:
    """Return the mean over histories within components, with its interval."""
    counts = [len(vocabulary) for vocabulary in corpus.vocabularies]
    means = corpus.means(np.repeat(np.array(by_history), counts)[:, None])
    return interval_values(row, metric, intervals(means)[0], None, (), unit="value")


def _crossed(entry: ReleaseEntry, shift: int) -> float:
    """Return the cosine of contrasts of two states with two descriptions each: first less first
    beside second less second or, shifted, first less second beside second less first."""
    unit = unit_rows(_features(entry.vocabulary))
    return float(np.prod([_unit(unit[k] - unit[2 + (k + shift) % 2]) for k in (0, 1)], 0).sum())


def _forms(entry: ReleaseEntry, pairs: Iterator[tuple[str, str]]) -> float:
    """Return the mean cosine of the contrasts of a description in two forms."""
    cosines = []
    for pair in pairs:
        first, second = (unit_rows(_features(entry.prompted(form))) for form in pair)
        cosines += [
            _unit(first[k] - first[2 + k]) @ _unit(second[k] - second[2 + k]) for k in (0, 1)
        ]
    return float(np.mean(cosines))


def _features(vocabulary: Vocabulary) -> Table:
    assert vocabulary.features is not None
    return vocabulary.features


def _unit(row: Table) -> Table:
    unit: Table = row / np.linalg.norm(row)
    return unit


def _agreement(name: str, corpus: Corpus) -> list[Value]:
    """Compare two descriptions of a state as ``dejacue words`` does, and whether what it shows goes
    with how well the state is found."""
    cosines = []
    alone = Contrast(pooling=0)
    for entry in corpus.entries:
        report = check_words(entry.vocabulary)
        cosines.append(float(np.mean([row.agreement for row in report.descriptions])))
    row = f"{name}: two descriptions"
    overlap = corpus.paraphrases(corpus.windows("vocabulary", alone))["paraphrase_window_tiou"]
    scores = corpus.scores(corpus.windows("vocabulary", "contrast"))[:, 2]
    scores_by_history = np.array([scores[corpus.rows[entry.id]].mean() for entry in corpus.entries])
    values = [
        *_with_interval(row, COSINE, corpus, cosines),
        Value(row, "tIoU of windows, each alone", overlap, None),
    ]
    if len(scores_by_history) < MIN_HISTORIES:
        return values
    return [
        *values,
        *_ranked(f"{row}, {COSINE}", np.array(cosines), scores_by_history),
    ]


def _ranked(row: str, first: Table, second: Table) -> list[Value]:
    """Return Spearman's correlation over histories, with the interval of resampled histories."""
    rng = np.random.default_rng(SEED)
    draws = [rank_correlation(first, second)]
    for index in rng.integers(0, len(first), size=(DRAWS, len(first))):
        if len(set(index.tolist())) > 1:
            draws.append(rank_correlation(first[index], second[index]))
    low, high = np.nanquantile(draws[1:], [0.025, 0.975])
    return interval_values(row, RANK, (draws[0], low, high), None, (), unit="value")


def rank_correlation(first: Table, second: Table) -> float:
    """Return the correlation of the ranks, where ties share theirs; nan where all values of one are
    the same."""
    ranks = []
    for values in (first, second):
        _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
        middle = np.cumsum(counts) - (counts + 1) / 2
        ranks.append(middle[place] - middle[place].mean())
    norm = np.sqrt((ranks[0] @ ranks[0]) * (ranks[1] @ ranks[1]))
    return float(ranks[0] @ ranks[1] / norm) if norm else float("nan")


def _added(name: str, corpus: Corpus) -> list[Value]:
    """Compare retrieval with all descriptions and with one a state."""
    single = [_one_each(corpus, entry) for entry in corpus.entries]
    tables = {
        BOTH: corpus.means(corpus.scores(corpus.windows("vocabulary", "contrast"))),
        ONE_FORM: corpus.means(
            np.concatenate([np.concatenate(choices).mean(axis=0) for choices in single])
        ),
        ALIKE: corpus.means(np.concatenate([alike.mean(axis=0) for alike, _ in single])),
        MIXED: corpus.means(np.concatenate([mixed.mean(axis=0) for _, mixed in single])),
    }
    values: list[Value] = []
    for row, means in tables.items():
        values += with_intervals(f"{name}: {row}", means, LISTED_METRICS)
    for row, baseline in ((BOTH, ONE_FORM), (ALIKE, MIXED)):
        pairs = dict(zip(METRICS, compare(tables[row], tables[baseline]), strict=True))
        values += paired_values(f"{name}: {row} − {baseline}", pairs, {})
    return values


def _one_each(corpus: Corpus, entry: ReleaseEntry) -> tuple[Table, Table]:
    """Return (choices, descriptions, 3): the METRICS with one description a state, for choices that
    are phrased alike, and for the others."""
    full = entry.vocabulary
    choices = list(product((0, 1), repeat=len(full.states)))
    fewer = [chosen(full, choice) for choice in choices]
    windows, _ = corpus.locate([entry.history] * len(fewer), fewer, "vocabulary", "contrast")
    selected = windows.reshape(len(fewer), len(full.states), 2)[:, full.labels]
    references = corpus.references[corpus.rows[entry.id]]
    scores = np.stack([metrics(best_tiou(rows, references)) for rows in selected])
    alike = np.array([len(set(choice)) == 1 for choice in choices])
    return scores[alike], scores[~alike]


def chosen(vocabulary: Vocabulary, choice: Sequence[int]) -> Vocabulary:
    """Return the vocabulary with one description of each state: which one, state by state."""
    firsts = np.searchsorted(vocabulary.labels, np.arange(len(vocabulary.states)))
    pairs = zip(vocabulary.states.items(), choice, strict=True)
    states = {state: (texts[pick],) for (state, texts), pick in pairs}
    features = _features(vocabulary)[firsts + np.array(choice)]
    return replace(vocabulary, states=states, features=features)


EXPERIMENTS = (
    Experiment(
        "beyond-words",
        "Two descriptions per state: what they share, what a second adds",
        words,
        on_request=True,
    ),
)
