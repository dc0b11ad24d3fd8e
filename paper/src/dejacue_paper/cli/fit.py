"""``dejacue learn fit``: fit a readout to labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

import dejacue
from dejacue.atomic import check_place
from dejacue.cli.tables import make_table, notes, say, say_written, show_tables
from dejacue.errors import InputError, in_file

if TYPE_CHECKING:
    from dejacue.records import History
    from dejacue_paper.learn.calibrated import Calibrated, Fitted, Pair

USAGE = "dejacue learn fit FINDING… REFERENCES.json -o MODEL.json"


def fit(
    files: Sequence[Path],
    output: Path,
    words: Path | None,
    features: str | None,
    rule: str | None,
    encoder: str | None,
) -> None:
    from dejacue_paper.learn import calibrated

    if len(files) < 2:
        raise InputError(f"give the findings, then the references: {USAGE}")
    if output.suffix != ".json":
        raise InputError(f"{output}: a model is written as JSON; give a name that ends in .json")
    check_place(output)
    *places, last = files
    if last.is_dir():
        problem = "is a folder, but the last argument must be the references"
        raise InputError(f"{last}: {problem}; {USAGE}")
    names = None if features is None else [part.strip() for part in features.split(",")]
    calibrated.candidates(names, rule)
    references = dejacue.files.read_references(last)
    ids = {reference.history_id for reference in references}
    pairs = [pair for place in places for pair in _pairs(place, ids, words, encoder)]
    with in_file(last):
        model = calibrated.fit(pairs, references, features=names, rule=rule)
    _show(model)
    model.write(output)
    say_written(output, "model")


def _pairs(place: Path, ids: set[str], words: Path | None, encoder: str | None) -> list[Pair]:
    """Return the labelled histories of a finding, a file or a store, each with its words."""
    from dejacue.files.findings import holds_finding

    if place.is_dir() and holds_finding(place):
        finding = dejacue.Finding.read(place)
        return [(finding.history, finding.vocabulary)]
    if place.is_dir():
        inside = sorted(path for path in place.iterdir() if path.is_dir() and holds_finding(path))
        if inside:
            return [pair for path in inside for pair in _pairs(path, ids, words, encoder)]
        raise InputError(f"{place}: holds no findings; give one, or a folder of them")
    if place.suffix.lower() != ".npz" and dejacue.Store.is_at(place):
        with dejacue.Store.open(place) as store:
            return _described([store[id] for id in store.ids() if id in ids], words, encoder)
    return _described([dejacue.files.read_history(place)], words, encoder)


def _described(histories: Iterable[History], words: Path | None, encoder: str | None) -> list[Pair]:
    from dejacue.finding._readout import encoded_words

    pairs: list[Pair] = []
    for history in histories:
        if words is None:
            raise InputError(f"history {history.id}: also give the descriptions, with --words")
        encoded = pairs[0][1] if pairs else encoded_words(words, history, encoder)[0]
        pairs.append((history, encoded))
    return pairs


def _show(model: Calibrated) -> None:
    assert model.fitted is not None
    fitted = model.fitted
    names, values = (*model.features, "bias"), (*model.weights, model.bias)
    weights = [(name, f"{weight:+.3f}") for name, weight in zip(names, values, strict=True)]
    show_tables(
        _table("cross-validated, means in %", fitted.table),
        _table("candidates, means in %", fitted.candidates),
        make_table(f"model, rule {model.rule}", ("evidence", ">weight"), weights),
    )
    say(
        f"{fitted.moments} descriptions, {fitted.histories} histories, {fitted.components} "
        f"components in {fitted.folds} folds: each is scored by a model that has not seen it"
    )
    say(_verdict(model, fitted))
    notes(*fitted.notes)


def _table(title: str, rows: Sequence[tuple[str, float, float, float]]) -> Table:
    from dejacue.evaluation import METRICS

    columns = ("", *(f">{metric}" for metric in METRICS.values()))
    cells = [(name, *(f"{100 * value:.1f}" for value in values)) for name, *values in rows]
    table = make_table(title, columns, cells)
    table.columns[0].min_width = 10
    return table


def _verdict(model: Calibrated, fitted: Fitted) -> str:
    from dejacue.evaluation import METRICS

    differences = ", ".join(
        f"{METRICS[metric]} {100 * mean:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] (p {p:.2g})"
        for metric, mean, low, high, p in fitted.ahead
    )
    if model.recommended:
        return f"ahead of contrast: {differences} points"
    few = ", and fewer than six components cannot show more" if fitted.components < 6 else ""
    return f"not ahead of contrast: {differences} points{few}; contrast is recommended instead"
