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
    found = [v for v in result.values if (v.row, v.metric, v.part) == (row, metric, part)]
    assert len(found) == 1, (row, metric)
    return found[0].here


def made(seed: int, words: int) -> ReleaseEntry:
    """A history, and the vocabulary of another one, so that not all are found at once."""
    scene, other = generate(seed, frames=60), generate(words, frames=60)
    return ReleaseEntry(
        scene.history, other.vocabulary, scene.references, str(seed), "generated", ""
    )


def test_ranks_and_windows_are_those_of_the_histories_one_by_one(tmp_path) -> None:
    corpus = Corpus([made(seed, seed // 2) for seed in range(8)], "auto")
    store = Store.create(tmp_path / "s", dtype="float32")
    store.add(entry.history for entry in corpus.entries)
    found = asked.ask_each(store, corpus)
    for entry in corpus.entries:
        centre = asked._centre(entry)
        objects = [own.history.mean_direction @ centre for own in corpus.entries]
        clearest = [
            max(interval.score for interval in locate(own.history, entry.vocabulary))
            for own in corpus.entries
        ]
        at = corpus.entries.index(entry)
        for row in range(len(corpus))[corpus.rows[entry.id]]:
            assert found.by_object[row] == 1 + sum(own > objects[at] for own in objects)
            assert found.by_contrast[row] == 1 + sum(own > clearest[at] for own in clearest)
            assert found.first[row] == corpus.entries[int(np.argmax(objects))].id
            (interval,) = locate(entry.history, entry.vocabulary)[corpus.states[row]]
            assert tuple(found.windows[row]) == tuple(interval.window)
    assert len(set(found.by_object.tolist())) > 3


def test_a_moment_counts_only_where_its_history_is_among_the_first() -> None:
    corpus = Corpus([made(seed, seed) for seed in range(4)], "auto")
    right = np.array([tuple(own[0]) for own in corpus.references])
    places = dict(zip((entry.id for entry in corpus.entries), (1, 4, 6, 11), strict=True))
    ranks = np.array([places[id] for id in corpus.histories])
    listed = asked._rank_values("x", corpus, asked.CorpusRanks(ranks, ranks, right, []), 20)
    values = {(own.row, own.metric): own.here for own in listed if own.part == "mean"}
    for k, share in ((1, 0.25), (5, 0.5), (10, 0.75)):
        assert values["x: object score", asked.HISTORY.format(k)] == share
        assert values["x: object score", asked.MOMENT.format(k)] == share
        assert values["x: chance", asked.HISTORY.format(k)] == k / 20
    assert values["x", asked.GIVEN] == 1


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
    own = "VOST over 78 histories"
    for k, least in ((1, 0.39), (5, 0.84), (10, 0.92)):
        assert value(result, f"{own}: object score", asked.HISTORY.format(k)) >= least
        assert value(result, f"{own}: contrast score", asked.HISTORY.format(k)) < 0.2
    within = [value(result, f"{own}: object score", asked.MOMENT.format(k)) for k in asked.FIRST]
    assert within == sorted(within)
    assert within[-1] <= value(result, own, asked.GIVEN)
    for rule in (asked.CENTRED, asked.TEXTS):
        row = f"half B over itself: {rule} − mean cosine"
        for metric in (asked.HISTORY.format(1), asked.RECIPROCAL):
            assert value(result, row, metric, "low") <= 0
            assert value(result, row, metric, "holm p") > 0.05
