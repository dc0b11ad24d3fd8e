"""Beyond the paper: a few weights fitted to labels, beside what needs none.

On the seven histories with labels of the development histories only; on VOST by folds of source
videos. Evidence and rules to choose from were fixed before either was looked at
(paper/docs/learned.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from dejacue.evaluation import METRICS
from dejacue_paper.experiments.corpus import Benchmark, Corpus
from dejacue_paper.experiments.table import (
    FAMILY,
    Experiment,
    Result,
    Value,
    paired_values,
    with_intervals,
)
from dejacue_paper.learn.calibrated import RIDGE, Calibrated, Fitted, fit

THREE = ("vocabulary", "absolute", "dual")
WEAK = "3 weights, published evidence, a weak ridge"
FIXED: dict[str, tuple[tuple[str, ...], str]] = {
    "1 weight, published evidence": (("vocabulary",), "sum"),
    "3 weights, published evidence": (THREE, "sum"),
    "1 weight, contrast's evidence": (("contrast",), "contrast"),
    "1 weight, contrast's evidence, sum": (("contrast",), "sum"),
}
BASELINES = ("contrast", "published", "whole-history", "longest-run")


def learned(benchmark: Benchmark) -> Result:
    values: list[Value] = []
    seven = benchmark.seven
    models = {name: _fit(benchmark.development, *settings) for name, settings in FIXED.items()}
    models[WEAK] = _fit(
        benchmark.development, THREE, "sum", ridge=weak_ridge(benchmark.development)
    )
    models["chosen by cross-validation"] = _fit(benchmark.development)
    windows_of = {name: seven.windows("vocabulary", model) for name, model in models.items()}
    beside = {name: seven.windows("vocabulary", name) for name in BASELINES}
    for name, selected in {**windows_of, **beside}.items():
        values += with_intervals(f"seven: {name}", seven.means(seven.scores(selected)))
    for name, selected in windows_of.items():
        pairs = seven.compare(selected, beside["contrast"])
        values += paired_values(f"seven: {name} − contrast", pairs, {})
    notes = [f"Chosen on development: {_in_words(models['chosen by cross-validation'])}."]
    for name, corpus in (("development", benchmark.development), ("VOST", benchmark.vost)):
        model = _fit(corpus)
        assert model.fitted is not None
        values += _validated(name, model.fitted)
        notes.append(
            f"Chosen on all of {name}: {_in_words(model)}; "
            f"{'recommended' if model.recommended else 'not recommended'}."
        )
    weak = models[WEAK].fitted
    assert weak is not None
    values += _rows("development: tried", [(WEAK, *weak.table[0][1:])])
    windows = {
        f"seven: {name}": seven.by_history(selected) for name, selected in windows_of.items()
    }
    return Result(tuple(values), windows, (*notes, ABOUT, FAMILY))


ABOUT = (
    "seven: fitted to the development histories. Others: at most five folds of source videos; "
    '"calibrated" is chosen and fitted without the fold that is read; the rows "tried" are fitted '
    "the same way, but not chosen."
)


def weak_ridge(corpus: Corpus) -> float:
    """Fit with a ridge that weighs one beside each description and frame, instead of each
    history."""
    rows = sum(len(entry.vocabulary) * len(entry.history) for entry in corpus.entries)
    return len(corpus.entries) / rows


def _fit(
    corpus: Corpus,
    features: tuple[str, ...] | None = None,
    rule: str | None = None,
    ridge: float = RIDGE,
) -> Calibrated:
    references = [entry.reference for entry in corpus.entries]
    return fit(
        corpus.entries, references, features=features, rule=rule, ridge=ridge, kernel=corpus.engine
    )


def _in_words(model: Calibrated) -> str:
    return f"{' + '.join(model.features)}, {model.rule}"


def _rows(name: str, rows: Sequence[tuple[str, float, float, float]]) -> list[Value]:
    return [
        Value(f"{name}: {row}", metric, value, None)
        for row, *values in rows
        for metric, value in zip(METRICS, values, strict=True)
    ]


def _validated(name: str, fitted: Fitted) -> list[Value]:
    """Return the cross-validated table of a model."""
    rows = [*fitted.table, *((f"tried: {row[0]}", *row[1:]) for row in fitted.candidates)]
    values = _rows(name, rows)
    values += [
        Value(f"{name}: calibrated − contrast", metric, value, None, part)
        for metric, *values in fitted.ahead
        for part, value in zip(("mean", "low", "high"), values[:3], strict=True)
    ]
    return values


EXPERIMENTS = (
    Experiment(
        "beyond-learned",
        "A few weights fitted to labels, against readouts without any",
        learned,
        on_request=True,
    ),
)
