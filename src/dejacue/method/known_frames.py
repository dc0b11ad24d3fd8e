"""Frames of a history that a person has named, how much all others belong to each state, and the
windows and labellings that agree with them.

How much a frame belongs to a state is a number f, 1 where a person said so and 0 where a person
named another state or none. Between the named frames f is what a Gaussian process expects:

    f(t) = a·r(t) + g(t)     r  evidence of words (and of examples from elsewhere), mean 0 and
                                deviation 1; a is small and uncertain, so words that disagree with
                                the named frames lose their say, or turn round
                             g  looks: frames that look alike belong together; time: so do those
                                that are near; and a constant

with mean 0: far from every named frame, in looks and in time, no state is expected. How much looks
count is a matter of the history: its signal over its noise, as the steps between neighbouring
frames tell. Rows that are noise, white or smooth in time, count for nothing, and f is that of
positions alone. A frame is in the state with the highest f, and in none of them where that is below
one half (unless every frame shows one of the states, by the vocabulary's ``exhaustive``). A state
of which no frame is named is expected where its words say so: f is ½ + (r − level)/2 before
anything is known of it, with the level half way between inside and outside (_labelling.py).
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method import _labelling as labelling
from dejacue.method._labelling import Nodes
from dejacue.method.kernel import Engine
from dejacue.method.scan import ScoredWindow
from dejacue.records import History, Vocabulary
from dejacue.records.arrays import Flags, Floats, Ints
from dejacue.records.vocabulary import NONE, Example

Rows = NDArray[np.float32]
Smoothing = tuple[Ints, Floats]  # where stretches begin, and weights by distance
ROUNDS = 4  # of labelling; more change next to nothing
TIME, CONSTANT = 1.0, 0.5  # prior variances of the parts of f; that of looks: ``Looks.weight``
MIN_COHERENCE = 0.1  # below, as chance gives it, looks say nothing
FORGOTTEN, EVEN = 0.95, 0.4  # from where rows are noise; half A: at most .92, at least .33
MAX_STEPS = 1024  # evenly spread, that tell whether rows are noise
WORDS, TRUST = 1.0, 0.1  # prior variance and mean of a
NOISE = 0.1  # variance of what a person says, which need not be true of the frame's looks
REACH = 0.15  # of the observed frames: how far time carries
HALF = 0.5  # what f must reach
PER_SPAN = 5  # frames of a longer span that f is computed from; all of them are kept
MAX_FRAMES, MAX_CELLS = 400, 1 << 25  # that f is computed from; times those of the history
SCALE_FRAMES = 256  # whose looks say how far apart looks are


@dataclass(frozen=True, eq=False)
class KnownFrames:
    """Frames that a person has named, by positions among the observed frames of a history.

    labels   (N,) the number of the state, S for none of them, −1 where nothing is known
    looked   positions that f is computed from
    marks    positions that begin something else than what was before
    states   S
    exhaustive   whether every frame shows one of the states
    """

    labels: Ints
    looked: Ints
    marks: Ints
    states: int
    exhaustive: bool = False

    @cached_property
    def named_states(self) -> list[bool]:
        """Return one flag per state: does it have a known frame?"""
        counts = np.bincount(self.labels + 1, minlength=self.states + 2)[1:-1]
        return [count > 0 for count in counts.tolist()]

    def named(self, state: int) -> Ints:
        """Return the positions that are known to be in a state."""
        return np.flatnonzero(self.labels == state)

    def shows(self, state: int, window: tuple[int, int]) -> bool:
        """Return whether a frame of a window, by positions, is known to be in the state."""
        return bool((self.labels[window[0] : window[1] + 1] == state).any())

    def barred(self, state: int) -> Flags:
        """Return (N,) flags: is the frame known to show something else?"""
        elsewhere: Flags = (self.labels >= 0) & (self.labels != state)
        return elsewhere

    def open_parts(self, state: int, cuts: Ints) -> list[tuple[int, int]]:
        """Return first position and end of the parts in which a window of a state may lie.

        A long absence, at a cut, ends a part unless the state is known to hold on both sides.
        """
        barred, inside = self.barred(state), cuts[1:-1]
        crossed = (self.labels[inside - 1] == state) & (self.labels[inside] == state)
        edges = np.flatnonzero(barred[1:] != barred[:-1]) + 1
        places = (edges, self.marks, inside[~crossed], cuts[[0, -1]])
        bounds = np.unique(np.concatenate(places)).tolist()
        return [(a, b) for a, b in pairwise(bounds) if not barred[a]]


def known_frames_of(history: History, vocabulary: Vocabulary, width: int = 1) -> KnownFrames:
    """Return which frames of this history the examples and changes of the vocabulary name.

    width   frames of one state that lie closer count as one look
    """
    names = list(vocabulary.states)
    labels = np.full(len(history), -1)
    looked: list[Ints] = []
    for example in vocabulary.frame_examples:
        name, label = example.name, example.state or NONE
        first, last = example.positions(history)
        if first >= last:
            observed = _where(history, example)
            raise InputError(f"the example {name} of {label} shows no observed frame; {observed}")
        state = len(names) if example.state is None else names.index(example.state)
        span = labels[first:last]
        rivals = span[(span >= 0) & (span != state)]
        if rivals.size:
            raise InputError(
                f"the example {name} is given for {label}, but one of its frames is already given "
                f"for {[*names, NONE][int(rivals[0])]}; a frame can show only one of them"
            )
        labels[first:last] = state
        count = min(PER_SPAN, last - first)
        looked.append(np.linspace(first, last - 1, count).round().astype(np.int64))
    chosen = np.unique(np.concatenate(looked)) if looked else np.empty(0, np.int64)
    chosen = _apart(chosen, history.frames, labels, width)
    most = min(MAX_FRAMES, max(1, MAX_CELLS // len(history)))
    if len(chosen) > most:
        chosen = chosen[np.linspace(0, len(chosen) - 1, most).round().astype(np.int64)]
    marks, exhaustive = _marks(history, vocabulary), vocabulary.exhaustive
    return KnownFrames(labels, chosen, marks, len(names), exhaustive)


def _apart(chosen: Ints, frames: Ints, labels: Ints, width: int) -> Ints:
    """Return the middle of each group of positions with one label that lie closer than the width:
    it is one look, and weighs no more for being repeated."""
    groups: list[list[int]] = []
    for at in chosen.tolist():
        first = groups[-1][0] if groups else at
        if groups and labels[at] == labels[first] and frames[at] - frames[first] < width:
            groups[-1].append(at)
        else:
            groups.append([at])
    return np.array([group[len(group) // 2] for group in groups], np.int64)


def _marks(history: History, vocabulary: Vocabulary) -> Ints:
    positions = [change.change_at(history) for change in vocabulary.changes]
    for change, at in zip(vocabulary.changes, positions, strict=True):
        if not 0 < at < len(history):
            problem = f"nothing is observed {'before' if at == 0 else 'after'} it"
            raise InputError(f"a change at {change.name}: {problem}; {_where(history, change)}")
    return np.unique(np.array(positions, np.int64))


def _where(history: History, example: Example) -> str:
    """Return where the object is observed, in the frames in which the example is counted."""
    frames, count = history.frames, "frames"
    if example.unit == "source" and history.sampled and history.source_frames is not None:
        frames, count = history.source_frames, "frames of the file"
    ends = (history.rows_of(run) for run in history.runs())
    runs = [f"{frames[first]}-{frames[last]}" for first, last in ends]
    listed = ", ".join([*runs[:3], f"… {runs[-1]}"] if len(runs) > 3 else runs)
    return f"the object is observed in {count} {listed}"


class Looks:
    """How alike the frames of a history look, and how much that says of their states.

    smoothing   cuts and weights, as evidence is smoothed: looks are those of a moment
    at          (E,) positions of the frames that f is computed from
    """

    def __init__(self, history: History, engine: Engine, smoothing: Smoothing, at: Ints) -> None:
        self.history, self.engine, self.at = history, engine, at
        self.cuts, self._weights = smoothing

    @cached_property
    def is_noise(self) -> bool:
        return is_noise(self.history)

    @cached_property
    def coherence(self) -> float:
        return coherence_of(self.history)

    @cached_property
    def weight(self) -> float:
        """Return the prior variance of looks: signal over noise, by the coherence of the rows, at
        most that of time."""
        if self.coherence < MIN_COHERENCE or self.is_noise:
            return 0.0
        return min(TIME, self.coherence / max(1 - self.coherence, 1e-9))

    @cached_property
    def smoothing(self) -> Smoothing:
        """Return cuts and weights for looks: coherent rows need less smoothing than noisy ones."""
        narrower = min(1.0, 2 * max(1 - self.coherence, 0.0) ** 0.75)
        powers = (self._weights / self._weights[0]) ** (1 / max(narrower, 0.05) ** 2)
        return self.cuts, np.ascontiguousarray(powers[: max(1, int((powers > 1e-3).sum()))])

    @cached_property
    def scale(self) -> float:
        """Return the mean square of smoothed frames around their mean."""
        count = min(SCALE_FRAMES, len(self.history))
        rows = self._rows(np.linspace(0, len(self.history) - 1, count).round().astype(np.int64))
        return float(np.einsum("ed,ed->", rows, rows)) / count

    @cached_property
    def similarity(self) -> Floats:
        """Return (E, N) how much the named frames look like each frame."""
        return self.similarity_of(self.at)

    @cached_property
    def covariances(self) -> Floats:
        """Return (E, N) covariances of the named frames with all."""
        in_time = covariances_in_time(self.history, self.at)
        return in_time + self.weight * self.similarity if self.weight else in_time

    def similarity_of(self, at: Ints) -> Floats:
        """Return (E, N) products x_e · x_t over their mean square; x: unit frames, smoothed, less
        their mean."""
        if self.scale < 1e-9 or not len(at):  # a still picture: nothing looks different
            return np.zeros((len(at), len(self.history)))
        rows, mean = self._rows(at), self.history.mean_direction
        lengths = np.linalg.norm(rows, axis=1)
        queries = (rows / np.maximum(lengths, 1e-12)[:, None]).astype(np.float32)
        cosines, frames = self.engine.cosines(self.history, queries), self.history.frames
        responses, centre, scale = self.engine.smooth(cosines, frames, *self.smoothing)
        smoothed = responses * scale[:, None] + centre[:, None]
        table: Floats = lengths[:, None] * (smoothed - (queries @ mean)[:, None])
        return table / self.scale

    def with_frame(self, at: int) -> Looks:
        """Return the looks beside one more named frame, with all that is known of the others."""
        more, added = copy(self), np.array([at])
        more.at = np.append(self.at, added)
        if self.weight:
            more.similarity = np.concatenate([self.similarity, self.similarity_of(added)])
        vars(more).pop("covariances", None)
        return more

    def variance(self) -> Floats:
        """Return (N,) the variance that the named frames leave of g, if all looks vary as much."""
        settled = np.einsum(
            "en,en->n", self.covariances, np.linalg.solve(self._square(), self.covariances)
        )
        variance: Floats = np.maximum(TIME + CONSTANT + self.weight - settled, 1e-9)
        return variance

    def membership(self, facts: KnownFrames, evidence: Floats | None) -> Floats:
        """Return f of every state and frame, (S, N).

        evidence    (S, N) r; None without words
        """
        if evidence is None:
            expected = np.zeros((facts.states, len(self.history)))
        else:  # words are read from the same rows, so they count as much as looks
            expected = self.weight * TRUST * evidence
            unnamed = ~np.array(facts.named_states)
            if unnamed.any():
                levels = self._levels(evidence)[unnamed, None]
                expected[unnamed] = HALF + (evidence[unnamed] - levels) / 2
        if not len(self.at):
            return expected
        columns, square = self.covariances, self._square()
        residual = (facts.labels[self.at] == np.arange(facts.states)[:, None]).astype(np.float64)
        residual -= expected[:, self.at]
        if evidence is None:
            return np.linalg.solve(square, residual.T).T @ columns
        words = evidence[:, self.at]  # what they say of the named frames
        variance = self.weight * WORDS
        squares = square + variance * words[:, :, None] * words[:, None, :]
        weights = np.linalg.solve(squares, residual[:, :, None])[:, :, 0]
        trust = variance * np.einsum("se,se->s", weights, words)
        f: Floats = expected + weights @ columns + trust[:, None] * evidence
        return f

    def _square(self) -> Floats:
        return self.covariances[:, self.at] + NOISE * np.eye(len(self.at))

    def _levels(self, evidence: Floats) -> Floats:
        """Return (S,) half way between what words say inside each state and outside, by one
        labelling."""
        states, count = evidence.shape
        rows = evidence if states > 1 else np.concatenate([evidence, -evidence])
        nodes = labelling.nodes_for(len(rows), None, False)
        return self.engine.label(rows, nodes, math.log(count), 1, ROUNDS)[1][:states]

    def _rows(self, at: Ints) -> Floats:
        return smoothed_rows(self.history, at, self.smoothing) - self.history.mean_direction


def membership_by_time(history: History, facts: KnownFrames) -> Floats:
    """Return f by the positions of the named frames alone, without looking at pixels, (S, N)."""
    at = facts.looked
    columns = covariances_in_time(history, at)
    square = columns[:, at] + NOISE * np.eye(len(at))
    named = (facts.labels[at] == np.arange(facts.states)[:, None]).astype(np.float64)
    f: Floats = np.linalg.solve(square, named.T).T @ columns
    return f


def covariances_in_time(history: History, at: Ints) -> Floats:
    """Return (E, N) covariances of frames at these positions with all: time, constant."""
    frames = history.frames.astype(np.float64)
    reach = max(REACH * len(frames), 1.0)
    apart = np.abs(frames[at][:, None] - frames[None, :]) / reach
    covariance: Floats = TIME * np.exp(-apart) + CONSTANT
    return covariance


def is_noise(history: History) -> bool:
    """Return whether the rows look like noise, be it white or smooth in time, so that they can tell
    no state from another."""
    forgotten, unevenness = steps_of(history)
    return forgotten >= FORGOTTEN and unevenness <= EVEN


def steps_of(history: History) -> tuple[float, float]:
    """Return two numbers that set noise apart: about 1 and 0 for it.

    A frame of noise that is smooth in time keeps a share of the looks of the frame before, the next
    one keeps the same share of that, and so on. Steps of one frame and of two tell this share, and
    with it how far looks scatter once everything is forgotten. The first number is this over the
    scatter that there is: looks that last scatter further. The second is the deviation of the
    squared steps over their mean: where states change, few steps are long; those of noise are all
    alike.
    """
    apart = np.diff(history.frames)
    twice = np.flatnonzero(apart[1:] + apart[:-1] == 2 * apart.min(initial=len(history)))
    if not len(twice):
        return 0.0, 0.0
    at = twice[np.linspace(0, len(twice) - 1, min(len(twice), MAX_STEPS)).round().astype(np.int64)]
    rows = [history.features[at + k].astype(np.float32, copy=False) for k in range(3)]
    lengths = [np.sqrt(_dots(row, row)) for row in rows]
    single, double = (2 - 2 * _dots(rows[0], rows[k]) / (lengths[0] * lengths[k]) for k in (1, 2))
    at_unit_length = [(1 / length) @ row for length, row in zip(lengths, rows, strict=True)]
    mean = np.sum(at_unit_length, axis=0) / (3 * len(at))
    step, scatter = float(single.mean()), 1 - float(mean @ mean)
    if min(step, scatter) < 1e-6:
        return 0.0, 0.0
    kept = float(double.mean()) / step - 1
    forgotten = step / 2 / (1 - kept) / scatter if kept < 1 else 0.0
    return forgotten, float(single.std()) / step


def coherence_of(history: History) -> float:
    """Return 1 − half the mean squared step between neighbouring frames over the mean square of
    all frames around their mean: 0 for noise, near 1 for looks that change rarely."""
    apart = np.diff(history.frames)
    total = 1.0 - float(history.mean_direction @ history.mean_direction)
    if not len(apart) or total <= 1e-9:
        return 0.0
    is_nearest, chunk, squares = apart == apart.min(), 1024, 0.0
    for first in range(0, len(apart), chunk):
        rows = history.features[first : first + chunk + 1].astype(np.float32, copy=False)
        near = np.sqrt(_dots(rows, rows))
        cosines = _dots(rows[:-1], rows[1:]) / (near[:-1] * near[1:])
        squares += float((2 - 2 * cosines)[is_nearest[first : first + chunk]].sum())
    return 1 - squares / int(is_nearest.sum()) / 2 / total


def _dots(a: Rows, b: Rows) -> Rows:
    """Return the product of each row of a with that of b."""
    dots: Rows = (a[:, None, :] @ b[:, :, None]).ravel()
    return dots


def smoothed_rows(history: History, at: Ints, smoothing: Smoothing) -> Floats:
    """Return the rows around these positions at unit length, smoothed over time, (E, d)."""
    (cuts, weights), frames = smoothing, history.frames
    width, stretch = len(weights), np.searchsorted(cuts, at, side="right")
    first = np.searchsorted(frames, frames[at] - width + 1)
    end = np.searchsorted(frames, frames[at] + width)
    bounds = zip(np.maximum(first, cuts[stretch - 1]), np.minimum(end, cuts[stretch]), strict=True)
    smoothed = np.empty((len(at), history.dimension))
    for row, (low, high) in enumerate(bounds):
        rows = history.features[low:high].astype(np.float32, copy=False)
        share = weights[np.abs(frames[low:high] - frames[at[row]])]
        at_unit_length = (share / np.sqrt(_dots(rows, rows))).astype(np.float32)
        smoothed[row] = at_unit_length @ rows / share.sum()
    return smoothed


def leads(f: Floats, exhaustive: bool) -> Floats:
    """Return (S, N) by how much f exceeds that of every sibling, and one half where a frame may
    show none of the states."""
    rows = f if exhaustive else np.concatenate([f, np.full((1, f.shape[1]), HALF)])
    strongest, frames = rows.argmax(axis=0), np.arange(rows.shape[1])
    siblings = np.repeat(rows[None, strongest, frames], len(rows), axis=0)
    others = rows.copy()
    others[strongest, frames] = -np.inf
    siblings[strongest, frames] = others.max(axis=0)
    lead: Floats = (rows - siblings)[: len(f)]
    return lead


def windows_around(
    lead: Floats, named: Ints, parts: list[tuple[int, int]]
) -> list[ScoredWindow | None]:
    """Return, for each part, the window with the highest sum of leads around its named frames;
    None where no frame is named.

    named   positions of frames that are known to be in the state, ascending
    """
    windows: list[ScoredWindow | None] = []
    bounds = np.searchsorted(named, np.array(parts, np.int64).reshape(-1, 2)).tolist()
    for (first, end), (before, after) in zip(parts, bounds, strict=True):
        if before == after:
            windows.append(None)
            continue
        low, high = int(named[before]) - first, int(named[after - 1]) - first
        prefix = np.concatenate(([0.0], np.cumsum(lead[first:end])))
        start = low - int(prefix[low::-1].argmin())  # of equal ones the nearest
        stop = high + 1 + int(prefix[high + 1 :].argmax())
        windows.append((first + start, first + stop - 1, float(prefix[stop] - prefix[start])))
    return windows


def window_of_words(
    engine: Engine, evidence: Floats, parts: list[tuple[int, int]]
) -> ScoredWindow | None:
    """Return the best contrast of a state of which no frame is known, inside these parts."""
    if not parts:
        return None
    first, end = np.array(parts, np.int64).T.copy()
    starts, ends, scores = engine.search_parts(evidence[None], np.zeros_like(first), first, end)
    at = int(scores.argmax())
    return int(starts[at]), int(ends[at]), float(scores[at])


def windows_beside(
    engine: Engine, f: Floats, facts: KnownFrames, cuts: Ints, evidence: Floats | None
) -> list[ScoredWindow | None]:
    """Return the window of each state: around its known frames, else the best of words."""
    lead, windows = leads(f, facts.exhaustive), list[ScoredWindow | None]()
    for state, has_named_frame in enumerate(facts.named_states):
        parts = facts.open_parts(state, cuts)
        if has_named_frame:
            around = windows_around(lead[state], facts.named(state), parts)
            windows.append(max((w for w in around if w), key=lambda window: window[2]))
        elif evidence is not None:
            windows.append(window_of_words(engine, evidence[state], parts))
        else:
            windows.append(None)
    return windows


def path_beside(
    engine: Engine,
    rows: Floats,
    facts: KnownFrames,
    nodes: Nodes,
    cost: float,
    stay: int,
) -> Ints:
    """Return (N,) the best labelling by the rows' sums that keeps every known label, and changes at
    every mark; refuse what no path can keep.

    Other labels lose more at a known frame than a path can gain. After a mark the path goes on in
    a second set of nodes, which is entered from other states only.
    """
    kinds, count = rows.shape
    against = 4.0 * float(np.abs(rows).sum(axis=1).max()) + 4 * cost + 1.0
    bound = rows.copy()
    known = np.flatnonzero(facts.labels >= 0)
    bound[:, known] -= against
    bound[facts.labels[known], known] += against
    if len(facts.marks):
        later = np.searchsorted(facts.marks, np.arange(count), side="right") % 2 == 1
        bound = np.concatenate([bound - against * later, bound - against * ~later])
        nodes = Nodes(
            np.concatenate([nodes.state, nodes.state + kinds]),
            np.concatenate([nodes.first, np.zeros_like(nodes.first)]),
            np.ascontiguousarray(np.tile(nodes.follows, (2, 2))),
        )
    labels: Ints = engine.label(bound, nodes, cost, stay, 1)[0] % kinds
    unchanged = labels[facts.marks - 1] == labels[facts.marks]
    if (labels[known] != facts.labels[known]).any() or unchanged.any():
        raise InputError(
            "no timeline has all frames and changes that were named; remove one that is wrong, or "
            "the order, irreversible or stay that they do not fit"
        )
    return labels
