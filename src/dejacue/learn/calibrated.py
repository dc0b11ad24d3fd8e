"""A readout fitted to a few labels: ``locate(history, words, readout=Calibrated.read(path))``.

Each frame gets the log-odds of being in the state, a weighted sum of a few kinds of evidence; the
window is the one with the highest sum of them, or the one in which they differ most from the rest
of the history. A handful of weights, in a small JSON file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, in_file, unknown
from dejacue.method import scan as s
from dejacue.method.contrast import MIN_SHARE_OF_BEST, Contrast
from dejacue.method.coordinates import as_coordinates
from dejacue.method.kernel import Answers
from dejacue.method.plan import DEFAULT_COORDINATES
from dejacue.method.readout import PUBLISHED_WIDTH, Readout, View
from dejacue.method.scan import ScoredWindow
from dejacue.records import Evidence, History, Note
from dejacue.sources.atomic import write_text
from dejacue.sources.documents import as_json, declared, read_json

SCHEMA = "dejacue.calibrated/1"
RULES = ("sum", "contrast")
MAX_EVIDENCE = 6.0  # calibrated evidence is clipped: one wild frame does not decide
MAX_NUMBER = 1e12  # of a weight, mean or scale: sums of their products stay finite
CONTRAST = Contrast()
Table = NDArray[np.float64]  # (Q, N)
Positions = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def _is_usable(number: float) -> bool:
    return -MAX_NUMBER <= number <= MAX_NUMBER  # nor is NaN


def in_coordinates(view: View, coordinates: str, pooling: float = 0.0) -> View:
    """Return the same history in other coordinates; it is created once for each view."""
    return view.once(
        ("in coordinates", coordinates, pooling),
        lambda: View(
            view.history, view.vocabulary, as_coordinates(coordinates), pooling, view.engine
        ),
    )


def _responses(coordinates: str) -> Callable[[View], Table]:
    return lambda view: in_coordinates(view, coordinates).respond(PUBLISHED_WIDTH)[0]


def _contrast(view: View) -> Table:
    """Return the evidence of contrast: for each description, that of its state."""
    pooled = in_coordinates(view, "vocabulary", 1.0)
    return CONTRAST.seen(pooled)[1].responses[0][view.vocabulary.labels]


def _siblings(view: View, rows: Table) -> list[Table]:
    """Return for each description the means of the other states, (S − 1, N)."""
    labels = view.vocabulary.labels
    states = np.stack([rows[labels == state].mean(axis=0) for state in range(labels.max() + 1)])
    if len(states) < 2:
        problem = (
            f"history {view.history.id}: its vocabulary has only one state, but sibling evidence "
            "needs two"
        )
        remedy = "add a state, or fit with the features vocabulary, absolute, dual"
        raise InputError(problem, field="states", value=len(states), remedy=remedy)
    return [np.delete(states, label, axis=0) for label in labels]


def _sibling(view: View) -> Table:
    rows = _responses("vocabulary")(view)
    return np.stack([others.max(axis=0) for others in _siblings(view, rows)])


def _share(view: View) -> Table:
    """Return the softmax of a description's response among itself and its siblings."""
    rows = _responses("vocabulary")(view)
    shares = []
    for row, others in zip(rows, _siblings(view, rows), strict=True):
        highest = np.maximum(row, others.max(axis=0))
        exponential = np.exp(row - highest)
        shares.append(exponential / (exponential + np.exp(others - highest).sum(axis=0)))
    return np.stack(shares)


def _margin(view: View) -> Table:
    """Return the plain cosine less that of the best sibling."""
    rows = in_coordinates(view, "absolute").cosines.astype(np.float64)
    best = np.stack([others.max(axis=0) for others in _siblings(view, rows)])
    return np.asarray(rows - best)


FEATURES: dict[str, Callable[[View], Table]] = {
    "vocabulary": _responses("vocabulary"),
    "absolute": _responses("absolute"),
    "dual": _responses("dual"),
    "sibling": _sibling,
    "share": _share,
    "margin": _margin,
    "contrast": _contrast,
}


def check_features(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names; refuse unknown ones and repetitions."""
    for name in names:
        if name not in FEATURES:
            raise unknown("feature", name, FEATURES)
    if not names or len(set(names)) < len(names):
        problem = "features: name one or more, each of them once"
        raise InputError(problem, field="features", value=names)
    return tuple(names)


def features_of(view: View, names: Sequence[str]) -> NDArray[np.float64]:
    """Return (Q, N, F) values, clipped; each is computed once for a view."""
    tables = [view.once(("feature", name), partial(FEATURES[name], view)) for name in names]
    return np.clip(np.stack(tables, axis=2), -MAX_EVIDENCE, MAX_EVIDENCE)


@dataclass(frozen=True)
class Fitted:
    """A record of what a model was fitted on, with cross-validated scores by component.

    moments      descriptions with labels
    table        (method, R@1 .3, R@1 .5, Top-1 tIoU): the model as chosen and fitted without the
                 component that is read, and what needs no labels
    candidates   the same for every model that was tried
    ahead        of contrast: (metric, difference, low, high, p), 95 % over components, sign-flips
    notes        what was odd about the labels
    """

    histories: int
    components: int
    moments: int
    folds: int
    table: tuple[tuple[str, float, float, float], ...]
    candidates: tuple[tuple[str, float, float, float], ...]
    ahead: tuple[tuple[str, float, float, float, float], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Calibrated(Readout):
    """A readout that turns a few kinds of evidence into log-odds of frames, by fitted weights.

    features      names of the evidence (FEATURES); mean and scale: of each, in the labels
    weights       of the features so standardised; bias: what is added
    rule          "sum": the window with the highest sum, inside a run; "contrast": the one that
                  differs most from the rest, with contrast's own gaps
    encoder       identity of the encoder that the histories were made with; None matches any
    recommended   whether it was ahead of contrast on components that it had not seen
    """

    features: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float
    rule: str = "sum"
    encoder: str | None = None
    recommended: bool = False
    fitted: Fitted | None = field(default=None, repr=False)
    name: ClassVar[str] = "calibrated"
    gives_alternatives: ClassVar[bool] = True
    usual_windows: ClassVar[int] = 3
    usual_share: ClassVar[float | None] = MIN_SHARE_OF_BEST

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", check_features(self.features))
        if self.rule not in RULES:
            raise unknown("rule", self.rule, RULES)
        for name in ("mean", "scale", "weights"):
            values = tuple(float(value) for value in getattr(self, name))
            if len(values) != len(self.features) or not all(map(_is_usable, values)):
                problem = f"{name}: give one number within ±{MAX_NUMBER:g} per feature"
                raise InputError(problem, field=name, value=values)
            object.__setattr__(self, name, values)
        low = min(self.scale) < 1 / MAX_NUMBER
        if low or not _is_usable(self.bias):
            problem = "the scale of every feature must be above 0, and the bias finite"
            raise InputError(problem, field="scale" if low else "bias")

    @property
    def level(self) -> str:
        return "state" if self.features == ("contrast",) else "description"

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide; how it was fitted stays in its file."""
        return {name: value for name, value in asdict(self).items() if name != "fitted"}

    def log_odds(self, view: View) -> NDArray[np.float64]:
        """Return (Q, N); with the rule "contrast" less their mean, so that 0 is the mean frame."""

        def compute() -> NDArray[np.float64]:
            self._check(view)
            return self.combined(features_of(view, self.features))

        return view.once(("log-odds", self), compute)

    def combined(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return features (…, N, F) as log-odds (…, N)."""
        odds = np.full(values.shape[:-1], float(self.bias))
        for k, weight in enumerate(self.weights):  # in one order on every machine
            odds += weight * ((values[..., k] - self.mean[k]) / self.scale[k])
        if self.rule == "contrast":
            odds -= odds.mean(axis=-1, keepdims=True)
        return odds

    def _check(self, view: View) -> None:
        history = view.history
        if None not in (history.encoder, self.encoder) and history.encoder != self.encoder:
            problem = (
                f'the model was fitted to features of "{self.encoder}", but history {history.id} '
                f'has features of "{history.encoder}"'
            )
            remedy = "encode with the same encoder, or fit again"
            raise InputError(problem, field="encoder", value=history.encoder, remedy=remedy)
        name = view.coordinates.name
        if name != DEFAULT_COORDINATES:
            problem = f"a calibrated readout has its own coordinates; leave out {name} coordinates"
            raise InputError(problem, field="coordinates", value=name)

    def find_one(self, view: View) -> Answers:
        def compute() -> Answers:
            start, end, score = self.windows(view, self.log_odds(view))
            return Answers.at(view.history.frames, start, end, score)

        return view.once(("found", self), compute)

    def windows(self, view: View, odds: NDArray[np.float64]) -> Positions:
        """Return the positions of the best window of each row, and its score."""
        cuts = self.bounds(view.history)
        if self.rule == "sum":
            return s.largest_sum(odds, cuts)
        return view.engine.search(np.ascontiguousarray(odds), cuts, odds.shape[1])

    def bounds(self, history: History) -> NDArray[np.int64]:
        return history.run_offsets if self.rule == "sum" else CONTRAST.bounds(history)

    def evidence(self, view: View) -> Evidence:
        """Return the log-odds, with the cosines of the published evidence."""
        odds = self.log_odds(view)
        centre, scale = np.zeros(len(odds)), np.ones(len(odds))
        zero = "odds" if self.rule == "sum" else "mean"
        return Evidence(view.cosines, centre, scale, odds, view.history.frames, zero=zero)

    def alternatives(
        self, view: View, answers: Answers, count: int, least: NDArray[np.float64] | None = None
    ) -> list[list[ScoredWindow]]:
        odds = self.log_odds(view)
        return s.disjoint(
            self.bounds(view.history).tolist(),
            list(zip(answers.start.tolist(), answers.end.tolist(), strict=True)),
            count,
            lambda parts: [self._best_of(view, odds[row], *part) for row, *part in parts],
            None if least is None else least.tolist(),
        )

    def _best_of(
        self, view: View, row: NDArray[np.float64], first: int, end: int
    ) -> ScoredWindow | None:
        """Return the best window of a part of a row, where that speaks for the state."""
        part, cuts = np.ascontiguousarray(row[None, first:end]), np.array([0, end - first])
        if self.rule == "sum":
            windows = s.largest_sum(part, cuts)
        else:
            windows = view.engine.search(part, cuts, len(row))
        start, last, score = (column[0] for column in windows)
        return (first + int(start), first + int(last), float(score)) if score > 0 else None

    def notes(self, history: History) -> tuple[Note, ...]:
        return () if self.recommended else (NOT_AHEAD,)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write a small JSON file, a line for each setting."""
        rows = {"schema": SCHEMA, **asdict(self)}
        lines = [f"  {as_json(key)}: {as_json(value)}" for key, value in rows.items()]
        return write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Calibrated:
        """Read what ``write`` has written."""
        document = read_json(path)
        with in_file(path):
            model = declared(document, _Document, schema=SCHEMA)
            return cls(*(getattr(model, field.name) for field in fields(cls)))


NOT_AHEAD = Note(
    "this calibrated model was not ahead of contrast on videos that it had not seen, so it is "
    "not recommended; use contrast, or fit it with more labels",
    "doubtful",
)


_Document = msgspec.defstruct(  # the file: every field is there, and none besides
    "_Document",
    [
        ("schema", str),
        *((field.name, get_type_hints(Calibrated)[field.name]) for field in fields(Calibrated)),
    ],
    forbid_unknown_fields=True,
)
