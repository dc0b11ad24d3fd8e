"""VOST, extended analyses: duration strata, candidate ranking, paraphrases, three examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from dejacue.evaluation import compare
from dejacue.evaluation.overlap import METRICS
from dejacue.method.localization import candidates
from dejacue.method.scan_readout import Scan
from dejacue_paper.evaluation.groups import duration_strata
from dejacue_paper.evaluation.ranking import RANKING, rank_candidates
from dejacue_paper.experiments.corpus import COORDINATES_PUBLISHED, Benchmark, Corpus, Table
from dejacue_paper.experiments.table import Experiment, Result, Value, paired_values, published

QUARTERS = {"q1_shortest": "shortest", "q2": "second", "q3": "third", "q4_longest": "longest"}
RANK_TESTS = ("mrr_05", "recall_at_10_05", "best_overlap_normalized_rank")


def strata(benchmark: Benchmark) -> Result:
    corpus, figures = benchmark.vost, published()["vost_duration_strata"]
    lengths = np.array([inside[0, 1] - inside[0, 0] + 1 for inside in corpus.references])
    pairs = list(zip(corpus.histories, corpus.states, strict=True))
    first_of_state = [pairs.index(pair) for pair in dict.fromkeys(pairs)]
    quarter, boundaries = duration_strata(lengths, lengths[first_of_state])
    values: list[Value] = []
    for name, theirs in figures.items():
        coordinates = name.removeprefix("scan_")
        scores = corpus.scores(corpus.windows(coordinates))
        for k, there in enumerate(theirs["duration_quartile_boundaries"]):
            values.append(
                Value(coordinates, f"boundary {k + 1}", float(boundaries[k]), there, unit="frames")
            )
        for q, label in enumerate(QUARTERS):
            inside, row = quarter == q, f"{coordinates}, {QUARTERS[label]} quarter"
            there = theirs["by_duration"][label]
            count = float(inside.sum())
            values.append(
                Value(row, "descriptions", count, there["num_descriptions"], unit="count")
            )
            for k, metric in enumerate(METRICS):
                values.append(Value(row, metric, float(scores[inside, k].mean()), there[metric]))
    return Result(tuple(values), corpus.conditions("absolute", "vocabulary"))


def ranks(corpus: Corpus, coordinates: str, readout: Scan | None = None) -> Table:
    """Return (n, measures): RANKING of every description over all candidates."""
    tables = []
    for entry in corpus.entries:
        windows, scores = candidates(
            entry.history,
            entry.vocabulary,
            coordinates=coordinates,
            readout=readout or "scan",
            kernel=corpus.engine,
        )
        values = rank_candidates(windows, scores, corpus.references[corpus.rows[entry.id]])
        tables.append(np.stack([values[name] for name in RANKING], axis=1))
    return np.concatenate(tables)


def ranking_values(corpus: Corpus, figures: Any) -> tuple[list[Value], dict[str, Table]]:
    """Return means beside the published ones, and the values per component or history."""
    values: list[Value] = []
    means = {}
    for name, theirs in figures.items():
        coordinates = COORDINATES_PUBLISHED.get(name, name)
        table = means[coordinates] = corpus.means(ranks(corpus, coordinates))
        for metric, there in theirs.items():
            here = float(table[:, RANKING.index(metric)].mean())
            values.append(Value(coordinates, metric, here, there))
    return values, means


def ranking(benchmark: Benchmark) -> Result:
    values, means = ranking_values(benchmark.vost, published()["vost_ranking"])
    columns = [RANKING.index(metric) for metric in RANK_TESTS]
    pairs = compare(means["vocabulary"][:, columns], means["absolute"][:, columns])
    values += paired_values(
        "vocabulary − absolute",
        dict(zip(RANK_TESTS, pairs, strict=True)),
        published()["paper"]["ranking_vocabulary_minus_absolute"],
        digits=3,
    )
    return Result(
        tuple(values),
        benchmark.vost.conditions("absolute", "vocabulary", "dual"),
        notes=("Holm p: within the three measures compared.",),
        figures={"vost_ranking": lambda: ranking_picture(means)},
    )


def ranking_picture(means: dict[str, Table]) -> Any:
    from dejacue_paper.experiments._figures import ranking_figure

    bars = {
        "mrr_05": "MRR .5",
        "recall_at_10_05": "R@10 .5",
        "top1_tiou": "Top-1 tIoU",
        "oracle_tiou": "oracle tIoU",
    }
    return ranking_figure(
        {
            name: {label: float(table[:, RANKING.index(m)].mean()) for m, label in bars.items()}
            for name in ("absolute", "vocabulary", "dual")
            for table in [means[name]]
        }
    )


def paraphrase(benchmark: Benchmark) -> Result:
    values: list[Value] = []
    windows = {}
    for name, theirs in published()["vost_paraphrase"].items():
        coordinates = COORDINATES_PUBLISHED[name]
        chosen = benchmark.vost.windows(coordinates)
        for metric, here in benchmark.vost.paraphrases(chosen).items():
            values.append(Value(coordinates, metric, here, theirs[metric]))
        windows[coordinates] = benchmark.vost.by_history(chosen)
    return Result(
        tuple(values), windows, figures={"vost_diagnostics": lambda: _diagnostics(benchmark.vost)}
    )


def _diagnostics(corpus: Corpus) -> Any:
    from dejacue_paper.experiments._figures import diagnostics_figure

    systems = ("absolute", "vocabulary", "dual")
    pairs = {c: corpus.paraphrases(corpus.windows(c)) for c in systems[:2]}
    columns = [RANKING.index("top1_tiou"), RANKING.index("oracle_tiou")]
    best = {c: corpus.means(ranks(corpus, c))[:, columns].mean(axis=0) for c in systems}
    norms = {
        label: corpus.means(corpus.scores(corpus.windows("dual", Scan(norm=norm)))).mean(axis=0)
        for norm, label in (("sqrt", "sum / √length"), ("sum", "sum"))
    }
    return diagnostics_figure(
        {c: (overlap, same) for c, values in pairs.items() for overlap, same in [values.values()]},
        {c: (float(a), float(b)) for c, (a, b) in best.items()},
        {n: {"R@1 .5": float(v[1]), "Top-1 tIoU": float(v[2])} for n, v in norms.items()},
    )


def examples(benchmark: Benchmark) -> Result:
    """Show the three descriptions of the qualitative figure: absolute and vocabulary."""
    corpus = benchmark.vost
    texts = [text for v in corpus.vocabularies for text in v.descriptions]
    overlaps = [corpus.scores(corpus.windows(c))[:, 2] for c in ("absolute", "vocabulary")]
    values: list[Value] = []
    for text, theirs in published()["paper"]["examples_tiou"].items():
        at = texts.index(text)
        for name, here, there in zip(("absolute", "vocabulary"), overlaps, theirs, strict=True):
            row = f"{corpus.histories[at]}: {text}"
            values.append(Value(row, name, float(here[at]), there, unit="tIoU", digits=2))
    return Result(tuple(values), corpus.conditions("absolute", "vocabulary"))


EXPERIMENTS = (
    Experiment("strata", "VOST by duration of the reference", strata),
    Experiment("ranking", "VOST candidate ranking", ranking),
    Experiment("paraphrase", "VOST paraphrase consistency", paraphrase),
    Experiment("examples", "VOST: the three examples of the figure", examples),
)
