"""``dejacue learn fit``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table

from dejacue.cli.tables import notes, say, say_written, show_tables
from dejacue.errors import InputError
from dejacue.evaluation import METRICS
from dejacue.learn.calibrated import Calibrated, Fitted
from dejacue.learn.calibrated_fit import Pair, candidates, fit
from dejacue.pipeline.finding import Finding
from dejacue.pipeline.words import encoded_words
from dejacue.records import History
from dejacue.sources.atomic import check_place
from dejacue.sources.documents import named
from dejacue.sources.files import read_history
from dejacue.sources.findings import holds_finding
from dejacue.sources.results import read_references
from dejacue.store import Store


def run(
    files: Sequence[Path],
    output: Path,
    words: Path | None,
    features: str | None,
    rule: str | None,
    encoder: str | None,
) -> None:
    """The last file holds the references."""
    if len(files) < 2:
        raise InputError(
            "give the findings, then the references: dejacue learn fit FINDING… REFERENCES.json "
            "-o MODEL.json"
        )
    if output.suffix != ".json":
        raise InputError(f"{output}: a model is written as JSON; give a name that ends in .json")
    check_place(output)
    *places, last = files
    if last.is_dir():
        raise InputError(
            f"{last}: is a folder, but the last argument must be the references; dejacue learn fit "
            "FINDING… REFERENCES.json -o MODEL.json"
        )
    names = None if features is None else [part.strip() for part in features.split(",")]
    candidates(names, rule)
    references = read_references(last)
    wanted = {own.history_id for own in references}
    pairs = [pair for place in places for pair in _pairs(place, wanted, words, encoder)]
    with named(str(last)):
        model = fit(pairs, references, features=names, rule=rule)
    _show(model)
    model.write(output)
    say_written(output, "model")


def _pairs(place: Path, wanted: set[str], words: Path | None, encoder: str | None) -> list[Pair]:
    """The histories of a finding, a file or a store that have labels, each with its words."""
    if place.is_dir() and holds_finding(place):
        own = Finding.read(place)
        return [(own.history, own.vocabulary)]
    if place.is_dir():
        inside = sorted(own for own in place.iterdir() if own.is_dir() and holds_finding(own))
        if inside:
            return [pair for own in inside for pair in _pairs(own, wanted, words, encoder)]
        with Store.open(place) as store:
            return _described([store[id] for id in store.ids() if id in wanted], words, encoder)
    return _described([read_history(place)], words, encoder)


def _described(histories: Iterable[History], words: Path | None, encoder: str | None) -> list[Pair]:
    found: list[Pair] = []
    for history in histories:
        if words is None:
            raise InputError(f"history {history.id}: also give the descriptions, with --words")
        known = found[0][1] if found else encoded_words(words, history, encoder)[0]
        found.append((history, known))
    return found


def _show(model: Calibrated) -> None:
    assert model.fitted is not None
    fitted = model.fitted
    said = (
        f"{fitted.moments} descriptions, {fitted.histories} histories, {fitted.components} "
        f"components in {fitted.folds} folds: each is scored by a model that has not seen it"
    )
    show_tables(
        _table("cross-validated, means in %", fitted.table),
        _table("candidates, means in %", fitted.candidates),
        _weights(model),
    )
    say(said)
    say(_verdict(model, fitted))
    notes(*fitted.notes)


def _table(title: str, rows: Sequence[tuple[str, float, float, float]]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("", overflow="fold", min_width=10)
    for metric in METRICS.values():
        table.add_column(metric, justify="right")
    for name, *values in rows:
        table.add_row(name, *(f"{100 * value:.1f}" for value in values))
    return table


def _weights(model: Calibrated) -> Table:
    table = Table(title=f"model, rule {model.rule}", title_justify="left")
    table.add_column("evidence")
    table.add_column("weight", justify="right")
    for name, weight in zip((*model.features, "bias"), (*model.weights, model.bias), strict=True):
        table.add_row(name, f"{weight:+.3f}")
    return table


def _verdict(model: Calibrated, fitted: Fitted) -> str:
    differences = ", ".join(
        f"{METRICS[metric]} {100 * mean:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] (p {p:.2g})"
        for metric, mean, low, high, p in fitted.ahead
    )
    if model.recommended:
        return f"ahead of contrast: {differences} points"
    few = ", and fewer than six components cannot show more" if fitted.components < 6 else ""
    return f"not ahead of contrast: {differences} points{few}; contrast is recommended instead"
