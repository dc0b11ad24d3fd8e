"""Corpus moment retrieval: which history, and when in it."""

from __future__ import annotations

import numpy as np
import pytest

from dejacue import Store, locate
from dejacue_paper import generate
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.experiments import asked
from dejacue_paper.experiments.corpus import Benchmark, Corpus


def value(result, row, metric, part="mean"):
    matching = [v for v in result.values if (v.row, v.metric, v.part) == (row, metric, part)]
    assert len(matching) == 1, (row, metric)
    return matching[0].here


def generated_entry(seed: int, words: int) -> ReleaseEntry:
    """Return a history, and the vocabulary of another one, so that not all are found at once."""
    scene, other = generate(seed, frames=60), generate(words, frames=60)
    return ReleaseEntry(
        scene.history, other.vocabulary, scene.references, str(seed), "generated", ""
    )


def test_ranks_and_windows_are_those_of_the_histories_one_by_one(tmp_path) -> None:
    corpus = Corpus([generated_entry(seed, seed // 2) for seed in range(8)], "auto")
    store = Store.create(tmp_path / "s", dtype="float32")
    store.add(entry.history for entry in corpus.entries)
    ranks = asked.ask_each(store, corpus)
    for entry in corpus.entries:
        centre = asked._centre(entry)
        objects = [entry.history.mean_direction @ centre for entry in corpus.entries]
        clearest = [
            max(interval.score for interval in locate(other.history, entry.vocabulary))
            for other in corpus.entries
        ]
        at = corpus.entries.index(entry)
        for row in range(len(corpus))[corpus.rows[entry.id]]:
            assert ranks.by_object[row] == 1 + sum(score > objects[at] for score in objects)
            assert ranks.by_windows[row] == 1 + sum(score > clearest[at] for score in clearest)
            assert ranks.first[row] == corpus.entries[int(np.argmax(objects))].id
            interval = locate(entry.history, entry.vocabulary).best(corpus.states[row])
            assert tuple(ranks.windows[row]) == tuple(interval.window)
    assert len(set(ranks.by_object.tolist())) > 3


def test_a_moment_counts_only_where_its_history_is_among_the_first() -> None:
    corpus = Corpus([generated_entry(seed, seed) for seed in range(4)], "auto")
    right = np.array([tuple(windows[0]) for windows in corpus.references])
    places = dict(zip((entry.id for entry in corpus.entries), (1, 4, 6, 11), strict=True))
    ranks = np.array([places[id] for id in corpus.histories])
    listed = asked._rank_values("x", corpus, asked.CorpusRanks(ranks, ranks, right, []), 20)
    values = {(value.row, value.metric): value.here for value in listed if value.part == "mean"}
    for k, share in ((1, 0.25), (5, 0.5), (10, 0.75)):
        assert values["x: object score", asked.HISTORY.format(k)] == share
        assert values["x: object score", asked.MOMENT.format(k)] == share
        assert values["x: chance", asked.HISTORY.format(k)] == k / 20
    assert values["x", asked.IN_RIGHT_HISTORY] == 1


@pytest.mark.parametrize("rule", list(asked.RULES))
def test_rules_are_defined_for_one_history_and_two(rule) -> None:
    rng = np.random.default_rng(0)
    means, centre, others = rng.normal(size=(2, 6)), rng.normal(size=6), rng.normal(size=(5, 6))
    assert np.isfinite(asked.RULES[rule](means[:1], centre, others)).all()
    assert np.isfinite(asked.RULES[rule](means, centre, others)).all()


@pytest.mark.long
def test_what_the_page_says_of_the_release(release) -> None:
    """paper/docs/beyond.md: the object score finds the history, the contrast score does not, and no
    other rule is confirmed on the half that it was not chosen on."""
    result = asked.corpus_moments(Benchmark(release))
    condition = "VOST over 78 histories"
    for k, least in ((1, 0.39), (5, 0.84), (10, 0.92)):
        assert value(result, f"{condition}: object score", asked.HISTORY.format(k)) >= least
        assert value(result, f"{condition}: contrast score", asked.HISTORY.format(k)) < 0.2
    within = [
        value(result, f"{condition}: object score", asked.MOMENT.format(k)) for k in asked.FIRST
    ]
    assert within == sorted(within)
    assert within[-1] <= value(result, condition, asked.IN_RIGHT_HISTORY)
    for rule in (asked.CENTRED, asked.TEXTS):
        row = f"half B over itself: {rule} − mean cosine"
        for metric in (asked.HISTORY.format(1), asked.RECIPROCAL):
            assert value(result, row, metric, "low") <= 0
            assert value(result, row, metric, "holm p") > 0.05
