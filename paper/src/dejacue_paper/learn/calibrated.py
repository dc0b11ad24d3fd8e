"""A readout fitted to a few labels: ``locate(history, words, readout=Calibrated.read(path))``.

Each frame gets the log-odds of being in the state, a weighted sum of a few kinds of evidence; the
window is the one with the highest sum of them, or the one in which they differ most from the rest
of the history. A handful of weights, in a small JSON file.

``fit`` says whether it is worth using. Frames inside a description's true windows are positive, all
its others negative, each half of its weight; descriptions of a history share its weight, and
histories weigh the same. The weights are those of a logistic regression with a ridge of one. Which
evidence and which rule is chosen by cross-validation over components (source videos), and what the
choice is worth by another around it, so that no component is read by a model that has seen it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from dejacue.atomic import write_text
from dejacue.errors import InputError, brief, counted, in_file, unknown
from dejacue.evaluation import METRICS, best_tiou, compare, group_means, metrics
from dejacue.files.documents import as_json, declared, read_json
from dejacue.method import scan as s
from dejacue.method.contrast import Contrast, ContrastView
from dejacue.method.coordinates import as_coordinates, check_pair
from dejacue.method.localization import DEFAULT_COORDINATES, Plan
from dejacue.method.readout import Readout, View, Windows
from dejacue.method.scan_readout import Scan
from dejacue.records import Evidence, History, Note, Reference, Vocabulary, Window
from dejacue_paper.method.windows import best_of_descriptions

SCHEMA = "dejacue.calibrated/1"
RULES = ("sum", "contrast")
MAX_EVIDENCE = 6.0  # calibrated evidence is clipped: one wild frame does not decide
MAX_NUMBER = 1e12  # of a weight, mean or scale: sums of their products stay finite
CONTRAST = Contrast()
Table = NDArray[np.float64]  # (Q, N)
Positions = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def _is_usable(number: float) -> bool:
    return -MAX_NUMBER <= number <= MAX_NUMBER  # nor is NaN


FEATURES = ("vocabulary", "absolute", "dual", "sibling", "share", "margin", "contrast")


class FeatureTables:
    """Kinds of evidence of one history, (Q, N) each, by the names in FEATURES."""

    def __init__(self, view: View) -> None:
        self.view, self.labels = view, view.vocabulary.labels

    def of(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Return (Q, N, F) values, clipped."""
        tables: list[Table] = [getattr(self, name) for name in names]
        return np.clip(np.stack(tables, axis=2), -MAX_EVIDENCE, MAX_EVIDENCE)

    @cached_property
    def vocabulary(self) -> Table:
        return self._scanned("vocabulary").evidence.responses

    @cached_property
    def absolute(self) -> Table:
        return self._absolute.evidence.responses

    @cached_property
    def dual(self) -> Table:
        return self._scanned("dual").evidence.responses

    @cached_property
    def sibling(self) -> Table:
        return np.stack([others.max(axis=0) for others in self._siblings(self.vocabulary)])

    @cached_property
    def share(self) -> Table:
        """Return the softmax of a description's response among itself and its siblings."""
        shares = []
        for row, others in zip(self.vocabulary, self._siblings(self.vocabulary), strict=True):
            highest = np.maximum(row, others.max(axis=0))
            exponential = np.exp(row - highest)
            shares.append(exponential / (exponential + np.exp(others - highest).sum(axis=0)))
        return np.stack(shares)

    @cached_property
    def margin(self) -> Table:
        """Return the plain cosine less that of the best sibling."""
        rows = self._absolute.cosines.astype(np.float64)
        best = np.stack([others.max(axis=0) for others in self._siblings(rows)])
        return np.asarray(rows - best)

    @cached_property
    def contrast(self) -> Table:
        """Return the evidence of contrast: for each description, that of its state."""
        view, coordinates = self.view, as_coordinates("vocabulary")
        pooled = ContrastView(CONTRAST, view.history, view.vocabulary, coordinates, view.engine)
        return pooled.smoothed[0][self.labels]

    @cached_property
    def _absolute(self) -> View:
        return self._scanned("absolute")

    def _scanned(self, coordinates: str) -> View:
        """Return the history as the published scan sees it, in these coordinates."""
        view = self.view
        return Scan().view(view.history, view.vocabulary, as_coordinates(coordinates), view.engine)

    def _siblings(self, rows: Table) -> list[Table]:
        """Return for each description the means of the other states, (S − 1, N)."""
        labels = self.labels
        states = np.stack([rows[labels == state].mean(axis=0) for state in range(labels.max() + 1)])
        if len(states) < 2:
            raise InputError(
                f"history {self.view.history.id}: its vocabulary has only one state, but sibling "
                "evidence needs two; add a state, or fit with the features vocabulary, absolute, "
                "dual"
            )
        return [np.delete(states, label, axis=0) for label in labels]


def check_features(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names; refuse unknown ones and repetitions."""
    for name in names:
        if name not in FEATURES:
            raise unknown("feature", name, FEATURES)
    if not names or len(set(names)) < len(names):
        raise InputError("features: name one or more, each of them once")
    return tuple(names)


def largest_sum(responses: NDArray[np.float64], run_offsets: NDArray[np.int64]) -> Positions:
    """Return the window of every row with the highest sum, over all lengths, and that sum: O(N).

    From prefix sums P, the best window that starts at a ends where P is highest from there on.
    """
    start, end = np.empty((2, len(responses)), np.int64)
    score = np.empty(len(responses))
    for q, row in enumerate(responses):
        parts = []
        for first, last in pairwise(run_offsets.tolist()):
            prefix = s.prefix_sums(row[None, first:last])[0]
            ahead = np.maximum.accumulate(prefix[:0:-1])[::-1]  # highest at or after each end
            parts.append((first, prefix, ahead - prefix[:-1]))
        threshold = s.tie_threshold(max(float(best.max()) for _, _, best in parts))
        first, prefix, best = next(part for part in parts if part[2].max() >= threshold)
        a = int(np.argmax(best >= threshold))
        sums = prefix[a + 1 :] - prefix[a]
        b = a + int(np.argmax(sums >= threshold))
        start[q], end[q], score[q] = first + a, first + b, sums[b - a]
    return start, end, score


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


class CalibratedView(View):
    """One history by the log-odds of its frames."""

    readout: Calibrated

    @cached_property
    def log_odds(self) -> Table:
        """Return (Q, N); with the rule "contrast" less their mean, so that 0 is the mean frame."""
        model, history, name = self.readout, self.history, self.coordinates.name
        if None not in (history.encoder, model.encoder) and history.encoder != model.encoder:
            raise InputError(
                f'the model was fitted to features of "{model.encoder}", but history {history.id} '
                f'has features of "{history.encoder}"; encode with the same encoder, or fit again'
            )
        if name != DEFAULT_COORDINATES:
            problem = f"a calibrated readout has its own coordinates; leave out {name} coordinates"
            raise InputError(problem)
        return model.combined(FeatureTables(self).of(model.features))

    @cached_property
    def evidence(self) -> Evidence:
        """Return the log-odds, with the cosines of the published evidence."""
        odds = self.log_odds
        centre, scale = np.zeros(len(odds)), np.ones(len(odds))
        zero = "odds" if self.readout.rule == "sum" else "mean"
        return Evidence(self.cosines, centre, scale, odds, self.history.frames, zero=zero)


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
    view_type = CalibratedView
    gives_alternatives: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", check_features(self.features))
        if self.rule not in RULES:
            raise unknown("rule", self.rule, RULES)
        for name in ("mean", "scale", "weights"):
            values = tuple(float(value) for value in getattr(self, name))
            if len(values) != len(self.features) or not all(map(_is_usable, values)):
                raise InputError(f"{name}: give one number within ±{MAX_NUMBER:g} per feature")
            object.__setattr__(self, name, values)
        low = min(self.scale) < 1 / MAX_NUMBER
        if low or not _is_usable(self.bias):
            raise InputError("the scale of every feature must be above 0, and the bias finite")

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide; how it was fitted stays in its file."""
        return {name: value for name, value in asdict(self).items() if name != "fitted"}

    def combined(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return features (…, N, F) as log-odds (…, N)."""
        odds = np.full(values.shape[:-1], float(self.bias))
        for k, weight in enumerate(self.weights):  # in one order on every machine
            odds += weight * ((values[..., k] - self.mean[k]) / self.scale[k])
        if self.rule == "contrast":
            odds -= odds.mean(axis=-1, keepdims=True)
        return odds

    def windows(self, view: View, odds: NDArray[np.float64]) -> Positions:
        """Return the positions of the best window of each row, and its score."""
        cuts = self.bounds(view.history)
        if self.rule == "sum":
            return largest_sum(odds, cuts)
        return view.engine.search(odds, cuts)

    def bounds(self, history: History) -> NDArray[np.int64]:
        return history.run_offsets if self.rule == "sum" else CONTRAST.bounds(history)

    def find(self, view: View) -> Windows:
        assert isinstance(view, CalibratedView)
        start, end, score = self.windows(view, view.log_odds)
        if self.features != ("contrast",):
            return Windows(start, end, score)
        firsts = view.directions.firsts
        return Windows(start[firsts], end[firsts], score[firsts], np.arange(len(firsts)))

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


RIDGE = 1.0
MAX_STEPS, TOLERANCE = 100, 1e-10  # of Newton's method
MAX_LOG_ODDS = 500.0  # beyond it exp would overflow, and nothing changes
FOLDS, MIN_COMPONENTS = 5, 3
CHOSEN_BY, MAX_P = "top1_tiou", 0.05
BASELINES = ("contrast", "published", "whole-history", "longest-run")
SIX_FEATURES = ("vocabulary", "absolute", "dual", "sibling", "share", "margin")
Candidate = tuple[tuple[str, ...], str]  # features and rule
CANDIDATES: tuple[Candidate, ...] = (  # from few weights to many; the first is contrast itself
    (("contrast",), "contrast"),
    (("contrast",), "sum"),
    (("vocabulary",), "sum"),
    (("contrast", "absolute"), "contrast"),
    (("vocabulary", "absolute", "dual"), "sum"),
    (SIX_FEATURES, "sum"),
    (("contrast", *SIX_FEATURES), "contrast"),
)
Row = tuple[str, float, float, float]
Pair = tuple[History, Vocabulary]
Values = NDArray[np.float64]  # (groups, 3): the METRICS


@dataclass(frozen=True, eq=False)
class LabelledHistory:
    """A history that is used with its labels to fit a model.

    view     of all its descriptions; rows: those whose state has labels
    inside   (K, N) which frames are in their windows; weight: of each frame in the fit
    """

    view: View
    reference: Reference
    rows: NDArray[np.int64]
    inside: NDArray[np.bool_]
    weight: NDArray[np.float64]

    @cached_property
    def tables(self) -> FeatureTables:
        return FeatureTables(self.view)

    @property
    def states(self) -> list[str]:
        names = self.view.vocabulary.state_names
        return [names[row] for row in self.rows]

    def features(self, names: Sequence[str]) -> NDArray[np.float64]:
        return self.tables.of(names)[self.rows]

    def windows(self, readout: Readout) -> list[Window]:
        """Return its window for each of the rows; what a model computes is not cached."""
        if isinstance(readout, Calibrated):
            odds = readout.combined(self.features(readout.features))
            start, end, _ = readout.windows(self.view, odds)
        else:
            found = self.view.windows
            if found.state is not None:
                found = best_of_descriptions(found, self.view.vocabulary)
            start, end = found.start[self.rows], found.end[self.rows]
        frames = self.view.history.frames
        return [Window(int(frames[a]), int(frames[b])) for a, b in zip(start, end, strict=True)]


def fit(
    labelled: Iterable[Any],
    references: Iterable[Reference],
    *,
    features: Sequence[str] | None = None,
    rule: str | None = None,
    ridge: float = RIDGE,
    kernel: str = "auto",
) -> Calibrated:
    """Fit a readout to the true windows (``references``) of these histories.

    labelled     findings or (History, Vocabulary) pairs; those without references are left out
    features     the evidence to weigh (FEATURES) and ``rule`` (RULES), instead of choosing them
    ridge        how much weights are held back, beside a weight of one for each history

    Its ``fitted`` holds what it is worth on components that it has not seen, its ``recommended``
    whether that is more than contrast.
    """
    chosen = candidates(features, rule)
    if not (math.isfinite(ridge) and ridge > 0):
        raise InputError(f"ridge {ridge}: give a number above 0")
    true = list(references)
    _check_references(true)
    known, notes = _labelled([_pair(item) for item in labelled], true, kernel)
    groups = {history.reference.component for history in known}
    if len(groups) < MIN_COMPONENTS:
        raise InputError(
            f"the labels come from {counted(len(groups), 'source video')}, but cross-validation "
            f"needs {MIN_COMPONENTS} or more; label others, or name the components in the "
            "references"
        )
    # Each fold, with the model that was chosen and fitted without it.
    unseen = [(out, _best(rest, _tried(rest, chosen, ridge), ridge)) for out, rest in _folds(known)]
    tried = _tried(known, chosen, ridge)
    fitted, recommended = _worth(known, unseen, tried, notes)
    return replace(_best(known, tried, ridge), fitted=fitted, recommended=recommended)


def candidates(features: Sequence[str] | None, rule: str | None) -> Sequence[Candidate]:
    """Return the pairs of evidence and rule to choose from; refuse names that are not known."""
    if rule is not None and rule not in RULES:
        raise unknown("rule", rule, RULES)
    if features is None:
        return [candidate for candidate in CANDIDATES if rule in (None, candidate[1])]
    names = check_features((features,) if isinstance(features, str) else features)
    return [(names, rule or "sum")]


def _pair(item: Any) -> Pair:
    """Return the history and the words of a finding, or of a pair."""
    if hasattr(item, "history") and hasattr(item, "vocabulary"):
        item = item.history, item.vocabulary
    if not isinstance(item, tuple) or len(item) != 2:
        problem = f"{brief(repr(item))}: give findings, or pairs of a History and a Vocabulary"
        raise InputError(problem)
    check_pair(*item)
    return item


def _check_references(references: Sequence[Reference]) -> None:
    """Refuse what cannot be learned from."""
    if not references:
        raise InputError("no labels; give the true windows of some states")
    for reference in references:
        if not isinstance(reference, Reference):
            problem = f"{brief(repr(reference))}: expected a Reference with the true windows"
            raise InputError(problem)
    names = [reference.history_id for reference in references]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"history {twice} has two references; put its windows into one")
    if len({state for reference in references for state in reference.states}) < 2:
        remedy = "label moments of two or more states, so that there is something to tell apart"
        raise InputError(f"the labels cover only one state; {remedy}")


def _labelled(
    pairs: Sequence[Pair], references: Sequence[Reference], kernel: str
) -> tuple[list[LabelledHistory], tuple[str, ...]]:
    """Return histories with labels, in the order of their names, and what is odd about them."""
    by_name: dict[str, Pair] = {}
    for history, vocabulary in pairs:
        if history.id in by_name:
            raise InputError(f"history {history.id} is given twice; give each history once")
        by_name[history.id] = history, vocabulary
    lost = [r.history_id for r in references if r.history_id not in by_name]
    if lost:
        problem = f"the references label history {lost[0]}, which is not among the histories given"
        raise InputError(f"{problem}; add it, or remove its labels")
    encoders = {by_name[r.history_id][0].encoder for r in references} - {None}
    if len(encoders) > 1:
        raise InputError(
            "the histories were encoded with different encoders "
            f"({', '.join(sorted(map(str, encoders)))}); fit one model per encoder"
        )
    ordered = sorted(references, key=lambda reference: reference.history_id)
    with_notes = [_with_labels(*by_name[r.history_id], r, kernel) for r in ordered]
    labelled = [history for history, _ in with_notes if history is not None]
    if not labelled:
        raise InputError(
            "every label covers all observed frames of its history, so there is no other frame to "
            "compare with; label shorter moments"
        )
    return labelled, tuple(note for _, notes in with_notes for note in notes)


def _with_labels(
    history: History, vocabulary: Vocabulary, reference: Reference, kernel: str
) -> tuple[LabelledHistory | None, list[str]]:
    if vocabulary.examples or vocabulary.changes:
        raise InputError(
            f"history {history.id}: its vocabulary has examples, which a calibrated readout does "
            "not read; fit on words alone"
        )
    for state in reference.states:
        if state not in vocabulary.states:
            raise InputError(
                f'the references label state "{state}" of history {history.id}, which is not in '
                f"its vocabulary ({', '.join(vocabulary.states)}); use the same words"
            )
    frames = history.frames if history.source_frames is None else history.source_frames
    notes, masks = [], {}
    for state, windows in reference.states.items():
        masks[state] = np.zeros(len(frames), bool)
        for window in windows:
            within = (frames >= window.start) & (frames <= window.end)
            if not within.any():
                raise InputError(
                    f"reference {history.id}: the object is never observed in window {window} of "
                    f'state "{state}"; correct the window, or remove it'
                )
            masks[state] |= within
            if np.any(np.diff(history.frames[within]) > 1):
                notes.append(
                    f'reference {history.id}: window {window} of state "{state}" spans frames in '
                    "which the object is not observed; only its observed frames count"
                )
    names = vocabulary.state_names
    rows = [q for q, state in enumerate(names) if state in masks and not masks[state].all()]
    if not rows:
        return None, notes
    inside = np.stack([masks[names[row]] for row in rows])
    count = inside.sum(axis=1, keepdims=True)
    weight = np.where(inside, 0.5 / count, 0.5 / (len(frames) - count)) / len(rows)
    view = Plan.of(None, "scan", None, False, kernel).view(history, vocabulary)
    return LabelledHistory(view, reference, np.array(rows), inside, weight), notes


def logistic(
    values: Values, labels: Values, weight: Values, strength: float = RIDGE
) -> NDArray[np.float64]:
    """Return weights of the columns and, last, the bias: the minimum of the weighted log-loss plus
    half the squared length of the weights times ``strength``, by Newton's method."""
    table = np.column_stack([values, np.ones(len(values))])
    ridge = np.append(np.full(values.shape[1], strength), 0.0)

    def slope_at(place: NDArray[np.float64]) -> tuple[Values, Values]:
        share = 1 / (1 + np.exp(-np.clip(table @ place, -MAX_LOG_ODDS, MAX_LOG_ODDS)))
        return share, table.T @ (weight * (share - labels)) + ridge * place

    weights = np.zeros(len(ridge))
    share, slope = slope_at(weights)
    for _ in range(MAX_STEPS):
        curve = (table * (weight * share * (1 - share))[:, None]).T @ table + np.diag(ridge)
        step = np.linalg.solve(curve, slope)
        share, ahead = slope_at(weights - step)
        while np.abs(step).max() > TOLERANCE and ahead @ ahead > slope @ slope:
            step /= 2  # too far: the slope must fall
            share, ahead = slope_at(weights - step)
        weights, slope = weights - step, ahead
        if np.abs(step).max() <= TOLERANCE:
            break
    return weights


def _model(known: Sequence[LabelledHistory], candidate: Candidate, ridge: float) -> Calibrated:
    """Fit the weights of one choice of evidence."""
    names, rule = candidate
    values = np.concatenate([history.features(names).reshape(-1, len(names)) for history in known])
    labels = np.concatenate([history.inside.ravel() for history in known]).astype(np.float64)
    weight = np.concatenate([history.weight.ravel() for history in known])
    mean = weight @ values / weight.sum()
    scale = np.sqrt(weight @ (values - mean) ** 2 / weight.sum())
    scale[scale < TOLERANCE] = 1.0  # evidence that never varies weighs nothing
    *weights, bias = logistic((values - mean) / scale, labels, weight, ridge).tolist()
    if not np.isfinite([*weights, bias]).all():
        raise InputError("the weights are not finite; do the labels belong to these histories?")
    encoder = next((e for history in known if (e := history.view.history.encoder)), None)
    return Calibrated(
        names, tuple(mean.tolist()), tuple(scale.tolist()), tuple(weights), bias, rule, encoder
    )


def _folds(
    known: Sequence[LabelledHistory],
) -> list[tuple[list[LabelledHistory], list[LabelledHistory]]]:
    """Return (left out, rest): components in the order of their names, dealt in turn."""
    groups = sorted({history.reference.component for history in known})
    fold = {group: at % min(FOLDS, len(groups)) for at, group in enumerate(groups)}
    return [
        (
            [history for history in known if fold[history.reference.component] == at],
            [history for history in known if fold[history.reference.component] != at],
        )
        for at in range(min(FOLDS, len(groups)))
    ]


def _tried(
    known: Sequence[LabelledHistory], candidates: Sequence[Candidate], ridge: float
) -> dict[Candidate, Values]:
    """Return what each candidate is worth, by cross-validation among these histories."""
    folds = _folds(known)
    return {
        candidate: _values([(out, _model(rest, candidate, ridge)) for out, rest in folds])
        for candidate in candidates
    }


def _best(
    known: Sequence[LabelledHistory], tried: Mapping[Candidate, Values], ridge: float
) -> Calibrated:
    """Fit the candidate that is worth most (of equal ones the first) to all these histories."""
    column = list(METRICS).index(CHOSEN_BY)
    worth = {candidate: round(float(v[:, column].mean()), 9) for candidate, v in tried.items()}
    return _model(known, max(worth, key=lambda candidate: worth[candidate]), ridge)


def _values(readouts: Iterable[tuple[Sequence[LabelledHistory], Readout]]) -> Values:
    """Return the METRICS of each component; every group of histories comes with its readout."""
    overlaps: list[float] = []
    levels: tuple[list[str], list[str], list[str]] = ([], [], [])
    for group, readout in readouts:
        for labelled in group:
            history, reference, states = labelled.view.history, labelled.reference, labelled.states
            windows = [history.to_source(window) for window in labelled.windows(readout)]
            true = [[tuple(window) for window in reference.states[state]] for state in states]
            overlaps += best_tiou([tuple(window) for window in windows], true).tolist()
            count = len(states)
            named = states, [history.id] * count, [reference.component] * count
            for level, names in zip(levels, named, strict=True):
                level += names
    return group_means(metrics(overlaps), levels)[1]


def _worth(
    known: Sequence[LabelledHistory],
    unseen: Sequence[tuple[Sequence[LabelledHistory], Calibrated]],
    tried: Mapping[Candidate, Values],
    notes: tuple[str, ...],
) -> tuple[Fitted, bool]:
    """Return what cross-validation says, and whether the model is ahead of contrast: the interval
    of the difference in tIoU lies above zero, its p is at most 5 % (intervals of a few components
    are too narrow), and R@1 .5 is not lower."""
    values: Mapping[str, Values] = {
        "calibrated": _values(unseen),
        **{name: _baseline(known, name) for name in BASELINES},
    }
    pairs = dict(zip(METRICS, compare(values["calibrated"], values["contrast"]), strict=True))
    fitted = Fitted(
        histories=len(known),
        components=len(values["calibrated"]),
        moments=sum(len(history.rows) for history in known),
        folds=len(unseen),
        table=_rows(values),
        candidates=_rows({f"{' + '.join(names)}, {rule}": v for (names, rule), v in tried.items()}),
        ahead=tuple((name, p.delta, p.low, p.high, p.p) for name, p in pairs.items()),
        notes=notes,
    )
    gain = pairs[CHOSEN_BY]
    return fitted, gain.low > 0 and gain.p <= MAX_P and pairs["r1_05"].delta >= 0


def _baseline(known: Sequence[LabelledHistory], name: str) -> Values:
    plan = Plan.of(None, name, None, False, known[0].view.engine.name)
    views = [replace(h, view=plan.view(h.view.history, h.view.vocabulary)) for h in known]
    return _values([(views, plan.readout)])


def _rows(values: Mapping[str, Values]) -> tuple[Row, ...]:
    means = {name: of_groups.mean(axis=0).tolist() for name, of_groups in values.items()}
    return tuple((name, a, b, c) for name, (a, b, c) in means.items())
