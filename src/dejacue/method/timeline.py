"""The reading: from evidence to the whole timeline of an object, every occurrence of every state.

Each frame gets one label, a state or none of them; the labels are those of the best path, which
earns the gain of the state it is in and pays for every switch.

    words      The gain of a state is its evidence, measured from half way between its level inside
               the state and outside; a few rounds of labelling find these levels. Words give every
               frame to a state. Each stretch of a state is then trimmed to the window inside it
               that differs most from the rest of the history (contrast.py): these windows are the
               occurrences, and what is trimmed off lies in between. Where every frame shows a
               state, the whole stretches are.
    examples   Frames that a person has named keep their label, and so do those around them that
               belong to them (known_frames.py). Elsewhere the gain of a state is how far a frame
               looks like its examples: from half way between its own frames and its siblings', in
               units of that distance; and the same for how much more it looks like them than like
               each sibling, or like frames that were named as none. The least of these counts.
               "None of the states" gains nothing, so a frame that looks like no example is in
               none, unless every frame shows a state. Of a stretch with a named frame, the
               occurrence is what belongs to that; of others, all of it. A state that is described
               but not shown takes the best window of its words among frames that are in none.
    one state  by examples: what is half as near to them as the mean frame is none. By other
               videos: none has the evidence of the state, turned round.

A switch costs log n, what it takes to say at which of the n observed frames it happens; half of it
between gains of examples, which are about ±½. What is known of the order may be given; it never
enters by default. Along an order that is gone through once, switches are free: there are few. And
where no state returns, what is seen before and after a long absence is one occurrence.

Of a file of which only some frames were observed, gains are filled in between them (filling.py),
and labels and windows are those of all its frames.

How far to trust an occurrence is a number that ranks occurrences and is no probability:

    confidence = (L + P) / 2

L is the share of the scatter of looks that lies between the occurrence and the frames of other
states: where both look the same, the occurrence means little. P asks the paper's method for a
second opinion: inside the stretch around the occurrence it takes the best window of each
description, and P is the mean tIoU of these windows with the occurrence. Other videos that teach a
state turn its descriptions towards what they show. Where named frames decide, the confidence is L
alone. Where L is low for all occurrences of a state, a note names the state as doubtful.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method import _labelling as labelling
from dejacue.method import known_frames
from dejacue.method._labelling import Nodes
from dejacue.method.coordinates import query_directions
from dejacue.method.filling import Filling
from dejacue.method.kernel import Engine
from dejacue.method.known_frames import HALF, KnownFrames, Smoothing, smoothed_rows
from dejacue.method.readout import PUBLISHED_WIDTH, View, Windows, cached_property, quoted
from dejacue.method.scan import ScoredWindow
from dejacue.method.scan_readout import PUBLISHED, schedule_of
from dejacue.method.state_readout import (
    Known,
    Occurrence,
    StateReadout,
    StateView,
    is_count,
    is_number,
    occurrences,
)
from dejacue.method.states import contrast_norms
from dejacue.records import History, Note, Vocabulary
from dejacue.records.arrays import Flags, Floats, Ints

ROUNDS = 4  # of labelling; more change next to nothing
OF_EXAMPLES = 0.5  # share of the cost of a switch between gains of examples
SMALL = 1e-3  # least distance between levels of similarity
MAX_MOMENTS = 64  # frames, evenly spread, that stand for the looks of a history
ALIKE = 0.22  # the highest L of a state, lowest tenth on half A, by reproduce beyond-trust
Order = tuple[str, ...] | None  # of states, by name


class ReadingView(StateView):
    """One history as a reading sees it."""

    readout: Reading

    @cached_property
    def read(self) -> Read:
        """Return what is found beside known frames."""
        assert self.known is not None
        return self._read_known(self.known)

    @property
    def queries(self) -> NDArray[np.float32]:
        """Return a direction per state; beside a single one, that other videos show, none of it."""
        rows = super().queries
        return np.concatenate([rows, -rows]) if len(rows) == 1 else rows

    @cached_property
    def labelled(self) -> tuple[Ints, Floats]:
        """Return the path by words, through all places of a filling, and its levels."""
        self.readout.check_stay(self.history, self.smoothing[0])
        return self.readout.path(*self._ground_of_words, self.smoothed[0])

    @property
    def _ground_of_words(self) -> tuple[Engine, Vocabulary, Filling | None, Ints]:
        return self.engine, self.vocabulary, self.filling, self.smoothing[0]

    @property
    def path_of_words(self) -> Ints:
        """Return the path by words through the observed frames, (N,)."""
        path = self.labelled[0]
        return path if self.filling is None else path[self.filling.observed]

    def find_by_words(self) -> Windows:
        path = self.labelled[0]
        return self.readout.windows_of(*self._ground_of_words, self.smoothed[0], path)

    def find_known(self, known: Known) -> Windows:
        read = self.read if known is self.known else self._read_known(known)
        return occurrences(read.windows, known.facts, self.filling)

    @cached_property
    def labels(self) -> Ints:
        path = self.path_of_words if self.known is None else self.read.path
        return np.where(path == len(self.vocabulary.states), -1, path)

    def confidences(self) -> Floats:
        windows, facts = self.windows, self.facts
        if not len(windows.start):
            return np.empty(0)
        if len(facts.looked):
            return self.separations
        cuts = self.readout.not_crossed(self.smoothing[0])
        cuts = cuts if self.known is None else cuts_beside(facts, cuts)
        parts = [part for part in stretches(self.labels, cuts) if part[0] >= 0]
        agreement = second_opinion(self, parts, windows.start, windows.end)
        return (self.separations + agreement) / 2

    @cached_property
    def separations(self) -> Floats:
        """Return how far the looks of each occurrence lie from those of the other states."""
        start, end, _, state, *_ = self.windows
        assert state is not None
        return separation(self, self.labels, state, start, end, self.smoothing)

    def rows_of_known(self, known: Known) -> Floats:
        return self.read.rows

    def hints(self) -> tuple[Note, ...]:
        """Name the states that are not found, and those that look like the others; say that words
        give every frame to a state."""
        state = self.windows.state
        assert state is not None
        names, notes = list(self.vocabulary.states), list(super().hints())
        if doubtful := self._doubtful_states(state):
            alike = quoted(names[state] for state in doubtful)
            notes.append(
                Note(
                    f"what is found for {alike} looks much like the other states; such answers are "
                    "seldom right",
                    "doubtful",
                )
            )
        if left_out := [name for k, name in enumerate(names) if k not in state]:
            notes.append(Note(f"not found: {quoted(left_out)} (no frame is in it)", "information"))
        if len(names) > 1 and self.known is None and not self.vocabulary.exhaustive:
            givers = "the examples" if self.vocabulary.examples_only else "words"
            notes.append(
                Note(
                    f'{givers} give every frame to a state; show an example of "none" to allow it',
                    "information",
                )
            )
        return tuple(notes)

    def _doubtful_states(self, found: Ints) -> list[int]:
        """Return the states without a named frame of which every occurrence looks like the others,
        as far as trust was measured: with two states or more."""
        named = self.facts.named_states
        if len(named) == 1 or all(named) or not len(found):
            return []
        best = np.full(len(named), -np.inf)
        np.maximum.at(best, found, self.separations)
        is_found = np.isfinite(best) & ~np.array(named)
        return np.flatnonzero(is_found & (best <= ALIKE)).tolist()

    def _read_known(self, known: Known) -> Read:
        by_looks = bool(len(known.facts.looked)) or known.evidence is None
        ground = self._ground(known, self._similarity(known) if by_looks else [])
        read = (self._of_examples if by_looks else self._of_changes)(ground)
        if ground.filling is None:
            return read
        observed = ground.filling.observed
        return Read(read.path[observed], read.windows, read.rows[:, observed])

    def _of_changes(self, ground: Ground) -> Read:
        facts, evidence = ground.known.facts, ground.known.evidence
        assert evidence is not None
        levels, exhaustive = self.labelled[1], self.vocabulary.exhaustive
        rows = evidence if len(evidence) == len(levels) else np.concatenate([evidence, -evidence])
        nodes = self.readout.nodes(self.vocabulary)
        path = self._path(ground, facts, rows - levels[:, None], nodes, 1.0)
        parts = [part for part in stretches(path, ground.cuts) if part[0] < facts.states]
        windows = inside_stretches(self.engine, evidence, parts, exhaustive, ground.filling)
        return Read(path, windows, evidence)

    def _ground(self, known: Known, alike: list[Floats | None]) -> Ground:
        """Return what a history is read by; its filling, where frames were left out."""
        filling, bounds, stay = self.filling, self.smoothing[0], self.readout.stay
        self.readout.check_stay(self.history, bounds)
        cuts = cuts_beside(known.facts, self.readout.not_crossed(bounds))
        if filling is None:
            return Ground(known, alike, bounds, cuts, stay, None)
        words = None if known.evidence is None else filling.rows(known.evidence)
        filled = Known(filling.facts(known.facts), filling.rows(known.f), words, known.blind)
        similarities = [None if row is None else filling.rows(row[None])[0] for row in alike]
        stay = filling.stay(stay, bounds)
        return Ground(filled, similarities, filling.cuts(bounds), filling.cuts(cuts), stay, filling)

    def _of_examples(self, ground: Ground) -> Read:
        known, alike, cuts = ground.known, ground.alike, ground.cuts
        around = windows_around(known.f, known.facts, ground.bounds)
        facts = with_windows(known.facts, around)
        none, nodes = facts.states, self.readout.nodes_with_none(self.vocabulary, facts)
        inside = [facts.labels == label for label in range(none + 1)]
        if none == 1 and alike[0] is not None and not inside[1].any():
            inside[0] = alike[0] > (alike[0][inside[0]].mean() + alike[0].mean()) / 2
        for _ in range(ROUNDS):
            gains = gains_of(alike, known.f - HALF, inside, facts.exhaustive)
            rows = gains if facts.exhaustive else with_none(gains)
            path = self._path(ground, facts, rows, nodes, OF_EXAMPLES)
            for state in range(none):
                now = path == state
                inside[state] = now if now.any() else inside[state]
        windows = list[Occurrence]()
        for state, first, end in stretches(path, cuts):
            if state == none:
                continue
            score = float(rows[state, first:end].sum())
            inner = [w for w in around[state] if first <= w[0] and w[1] < end]
            start, last = (inner[0][0], inner[-1][1]) if inner else (first, end - 1)
            windows.append((state, start, last, score))
        windows += self._by_words(ground, path)
        return Read(path, sorted(windows, key=lambda row: row[1]), gains)

    def _by_words(self, ground: Ground, path: Ints) -> list[Occurrence]:
        """Return, of each state that is described but not shown, and that the path leaves out, the
        best window of its words where the path has none of the states; the path then has it. Where
        it is known what follows what, the path has settled that already."""
        windows: list[Occurrence] = []
        facts, evidence, filling = ground.known.facts, ground.known.evidence, ground.filling
        if self.readout.order is not None or self.readout.irreversible:
            return windows
        if evidence is not None and filling is not None:
            evidence = evidence - evidence.mean(axis=1, keepdims=True)
        for state, named in enumerate(facts.named_states):
            if named or evidence is None or (path == state).any():
                continue
            free = (path == facts.states) & (facts.labels < 0)
            parts = [
                (a, b) for label, a, b in stretches(free.astype(np.int64), ground.cuts) if label
            ]
            if filling is not None:
                parts = [part for part in parts if filling.holds_observed(*part)]
            window = known_frames.window_of_words(self.engine, evidence[state], parts)
            if window is not None and window[2] > 0 and window[1] - window[0] + 1 >= ground.stay:
                start, end, score = window
                if filling is not None:
                    around = next((a, b) for a, b in parts if a <= start < b)
                    start, end = filling.widened((start, end), *around)
                windows.append((state, start, end, score))
                path[start : end + 1] = state
        return windows

    def _similarity(self, known: Known) -> list[Floats | None]:
        """Return how much each frame looks like the named frames of a state and, last, of none,
        (N,) each; None where none is named, or where looks say nothing."""
        facts = known.facts
        if known.blind or not self.looks.weight:
            return [None] * (facts.states + 1)
        of_label = [facts.labels[facts.looked] == label for label in range(facts.states + 1)]
        table = self.looks.similarity
        return [table[at].mean(axis=0) if at.any() else None for at in of_label]

    def _path(
        self,
        ground: Ground,
        facts: KnownFrames,
        rows: Floats,
        nodes: Nodes,
        share: float,
    ) -> Ints:
        cost = share * self.readout.cost(rows.shape[1])
        path = known_frames.path_beside(self.engine, rows, facts, nodes, cost, ground.stay)
        return path if ground.filling is None else ground.filling.visible(path, ground.cuts)


@dataclass(frozen=True)
class Reading(StateReadout):
    """The readout of whole timelines: every occurrence, each frame in at most one state.

    >>> from dejacue import Vocabulary, locate
    >>> cup = History(([[1.0, 0.1]] * 6 + [[0.1, 1.0]] * 6) * 2)
    >>> words = Vocabulary({"empty": "an empty cup", "full": "a full cup"}, np.eye(2))
    >>> [tuple(interval.window) for interval in locate(cup, words, readout=Reading(width=1))]
    [(0, 5), (6, 11), (12, 17), (18, 23)]

    switch         cost of a switch, in units of log n; along an order that is irreversible, none
    stay           least number of consecutive observed frames in a state; a long gap cuts what it
                   gives in two
    order          states by name, as they follow each other: from each one may only go to the
                   next, and from the last to the first again; others do not occur
    irreversible   no state that was left is entered again
    """

    switch: float = 1.0
    stay: int = 1
    order: Order = None
    irreversible: bool = False
    name: ClassVar[str] = "timeline"
    view_type = ReadingView

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling != 1:
            raise InputError("a timeline is one of states; leave the pooling at 1")
        if not is_number(self.switch) or not is_count(self.stay, 1):
            problem = "the switch cost must be 0 or more, and the shortest stay 1 frame or more"
            raise InputError(f"{problem}, not {self.switch!r} and {self.stay!r}")
        if not isinstance(self.irreversible, bool):
            raise InputError(f"irreversible must be true or false, not {self.irreversible!r}")
        order = checked_order(self.order)
        vars(self).update(switch=float(self.switch), stay=int(self.stay), order=order)

    def path(
        self,
        engine: Engine,
        vocabulary: Vocabulary,
        filling: Filling | None,
        cuts: Ints,
        gains: Floats,
        rounds: int = ROUNDS,
        elsewhere: int = 0,
    ) -> tuple[Ints, Floats]:
        """Return the label of each frame, of each place of the filling where there is one, and the
        levels that the rounds have found.

        gains       (R, N) of the observed frames, from which levels are taken off
        elsewhere   how many more frames there are in which a switch might be
        """
        stay = self.stay
        if filling is not None:
            gains, stay, cuts = filling.rows(gains), filling.stay(stay, cuts), filling.cuts(cuts)
        cost = self.cost(gains.shape[1] + elsewhere)
        stay = min(stay, int(np.diff(cuts).max()))
        path, levels = engine.label(gains, self.nodes(vocabulary), cost, stay, rounds)
        return path if filling is None else filling.visible(path, cuts), levels

    def windows_of(
        self,
        engine: Engine,
        vocabulary: Vocabulary,
        filling: Filling | None,
        cuts: Ints,
        rows: Floats,
        path: Ints,
    ) -> Windows:
        """Return the occurrences that a path shows; rows: the evidence (R, N)."""
        if filling is not None:
            rows, cuts = filling.rows(rows), filling.cuts(cuts)
        parts = stretches(path, self.not_crossed(cuts))
        if len(vocabulary.states) == 1:
            parts = [part for part in parts if part[0] == 0]
        windows = inside_stretches(engine, rows, parts, vocabulary.exhaustive, filling)
        return occurrences(windows, None, filling)

    def not_crossed(self, cuts: Ints) -> Ints:
        """Return the cuts that end an occurrence: all but where a state holds once."""
        return cuts[[0, -1]] if self.irreversible else cuts

    def check_stay(self, history: History, cuts: Ints) -> None:
        """Refuse a stay that fits into no stretch."""
        if self.stay > 1 and self.stay > (longest := int(np.diff(cuts).max())):
            raise InputError(
                f"history {history.id}: a stay of {self.stay} frames is longer than every "
                f"stretch; the longest has {longest}; use a shorter stay"
            )

    def cost(self, frames: int) -> float:
        """Return what a switch costs in so many frames."""
        once = self.order is not None and self.irreversible
        return 0.0 if once else self.switch * math.log(frames)

    def nodes(self, vocabulary: Vocabulary) -> Nodes:
        """Return the graph of states: which there are, and what may follow what. Beside a single
        state there is none of it, as number 1."""
        graph = self._graph(vocabulary)
        if len(vocabulary.states) > 1:
            return graph
        return labelling.with_none(graph, 1, not self.irreversible)

    def _graph(self, vocabulary: Vocabulary) -> Nodes:
        names = list(vocabulary.states)
        order = None if self.order is None else labelling.numbers_of(self.order, names)
        return labelling.nodes_for(len(names), order, self.irreversible)

    def nodes_with_none(self, vocabulary: Vocabulary, facts: KnownFrames) -> Nodes:
        """Return the nodes where the last row of gains is none of the states."""
        if facts.exhaustive:
            return self._graph(vocabulary)
        if self.order is None and not self.irreversible:
            return labelling.nodes_for(facts.states + 1, None, False)
        return labelling.with_none(self._graph(vocabulary), facts.states, not self.irreversible)


class Ground(NamedTuple):
    """What a reading beside known frames goes by: a history, or all frames of its filling.

    alike    how much each frame looks like the named frames of a state and, last, of none
    bounds   positions that no occurrence crosses because nothing is observed
    cuts     these, unless the state is known to hold on both sides, and marked changes
    """

    known: Known
    alike: list[Floats | None]
    bounds: Ints
    cuts: Ints
    stay: int
    filling: Filling | None


def cuts_beside(facts: KnownFrames, cuts: Ints) -> Ints:
    """Return positions that no occurrence crosses: long absences, unless the state is known to hold
    on both sides, and changes that a person has marked."""
    inside, labels = cuts[1:-1], facts.labels
    held = (labels[inside] >= 0) & (labels[inside - 1] == labels[inside])
    return np.unique(np.concatenate([cuts[[0, -1]], inside[~held], facts.marks]))


class Read(NamedTuple):
    """What a reading beside known frames gives: labels, S for none, occurrences in time, gains."""

    path: Ints  # (N,)
    windows: list[Occurrence]
    rows: Floats  # (S, N)


def stretches(path: Ints, cuts: Ints) -> list[tuple[int, int, int]]:
    """Return runs of one label in time: the label, first position and end; none crosses a cut.

    >>> stretches(np.array([0, 0, 1, 1, 1]), np.array([0, 4, 5]))
    [(0, 0, 2), (1, 2, 4), (1, 4, 5)]
    """
    ends = np.union1d(np.flatnonzero(np.diff(path)) + 1, cuts).tolist()
    return [(int(path[first]), first, end) for first, end in pairwise(ends)]


def inside_stretches(
    engine: Engine,
    evidence: Floats,
    parts: Sequence[tuple[int, int, int]],
    exhaustive: bool,
    filling: Filling | None,
) -> list[Occurrence]:
    """Return the occurrence in each stretch; of a filling, with at least one observed frame."""
    read = whole if exhaustive else trimmed
    if filling is None:
        return read(engine, evidence, parts)
    centred = evidence - evidence.mean(axis=1, keepdims=True)  # the mean of what is observed is 0
    return [
        (state, *filling.widened((start, end), first, stop), score)
        for (state, start, end, score), (_, first, stop) in zip(
            read(engine, centred, parts), parts, strict=True
        )
    ]


def trimmed(
    engine: Engine, evidence: Floats, parts: Sequence[tuple[int, int, int]]
) -> list[Occurrence]:
    """Return of each stretch the window that differs most from the rest of the history."""
    if not parts:  # of a single state, where the path is never in it
        return []
    state, first, stop = np.array(parts, np.int64).T.copy()
    windows = (column.tolist() for column in engine.search_parts(evidence, state, first, stop))
    return list(zip(state.tolist(), *windows, strict=True))


def whole(
    engine: Engine, evidence: Floats, parts: Sequence[tuple[int, int, int]]
) -> list[Occurrence]:
    """Return every stretch as it is, with the score that the window would have."""
    norms = contrast_norms(evidence.shape[1])
    return [
        (state, first, end - 1, float(evidence[state, first:end].sum() / norms[end - first]))
        for state, first, end in parts
    ]


def with_none(gains: Floats) -> Floats:
    """Add the row of none of the states: nothing, or of one state what that loses."""
    none = -gains if len(gains) == 1 else np.zeros((1, gains.shape[1]))
    return np.concatenate([gains, none])


def windows_around(f: Floats, facts: KnownFrames, cuts: Ints) -> list[list[ScoredWindow]]:
    """Return per state, in time, the windows that belong to its named frames."""
    lead = known_frames.leads(f, facts.exhaustive)
    windows: list[list[ScoredWindow]] = []
    for state in range(facts.states):
        parts = facts.open_parts(state, cuts)
        around = known_frames.windows_around(lead[state], facts.named(state), parts)
        windows.append([window for window in around if window is not None])
    return windows


def with_windows(facts: KnownFrames, windows: list[list[ScoredWindow]]) -> KnownFrames:
    """Return the facts with all frames of these windows as named ones."""
    labels = facts.labels.copy()
    for state, of_state in enumerate(windows):
        for first, last, _ in of_state:
            span = labels[first : last + 1]
            span[span < 0] = state
    return KnownFrames(labels, facts.looked, facts.marks, facts.states, facts.exhaustive)


def gains_of(
    alike: Sequence[Floats | None], f: Floats, inside: Sequence[Flags], exhaustive: bool
) -> Floats:
    """Return (S, N) the gain of each state, about ±½; f less one half where it has no similarity.

    alike    (N,) similarity per state and, last, of the frames named as none; None where not known
    inside   (N,) flags for each of these: the frames that levels are measured in
    """
    gains, known = f.copy(), {label: row for label, row in enumerate(alike) if row is not None}
    for state in range(len(f)):
        if (row := known.get(state)) is None:
            continue
        siblings = {label: row - rival for label, rival in known.items() if label != state}
        rivals = [(lead, lead[inside[label]].mean()) for label, lead in siblings.items()]
        if not exhaustive or not siblings:
            elsewhere = [row[inside[label]].mean() for label in siblings]
            if not siblings:
                elsewhere = [row.min() if inside[state].all() else row[~inside[state]].mean()]
            rivals.append((row, np.mean(elsewhere)))
        gains[state] = np.inf
        for values, low in rivals:
            high = values[inside[state]].mean()
            gain = (values - (high + low) / 2) / max(high - low, SMALL)
            gains[state] = np.minimum(gains[state], gain)
    return gains


def separation(
    view: View, path: Ints, state: Ints, start: Ints, end: Ints, smoothing: Smoothing
) -> Floats:
    """Return L of each occurrence.

    path   (N,) the label of each frame; state, start, end: of the occurrences, by positions
    """
    count = len(path)
    sampled = np.linspace(0, count - 1, min(count, MAX_MOMENTS)).round().astype(np.int64)
    at = np.union1d(sampled, (start + end) // 2)  # each occurrence has a moment
    looks = smoothed_rows(view.history, at, smoothing)
    squares = np.einsum("md,md->m", looks, looks)

    def mean_and_scatter(part: Flags | slice) -> tuple[Floats, float]:
        mean = looks[part].mean(axis=0)
        return mean, float(squares[part].mean() - mean @ mean)

    beside: dict[int, tuple[int, Floats, float]] = {}  # of each label: what its occurrences share
    for label in np.unique(state).tolist():
        other_count = int((path != label).sum())
        elsewhere = path[at] != label if other_count else np.ones(len(at), bool)
        beside[label] = other_count, *mean_and_scatter(elsewhere)
    shares = np.empty(len(start))
    firsts, ends = np.searchsorted(at, start), np.searchsorted(at, end, side="right")
    for row, label in enumerate(state.tolist()):
        other_count, outside, scatter_outside = beside[label]
        inside, scatter_inside = mean_and_scatter(slice(firsts[row], ends[row]))
        length = int(end[row] - start[row] + 1)
        weight = length / (length + (other_count or count))
        between = weight * (1 - weight) * float((inside - outside) @ (inside - outside))
        within = weight * scatter_inside + (1 - weight) * scatter_outside
        shares[row] = between / max(between + within, 1e-12)
    return shares


def second_opinion(
    view: View, parts: Sequence[tuple[int, int, int]], start: Ints, end: Ints
) -> Floats:
    """Return P of each occurrence; parts: the state, first position and end of its stretch."""
    history, labels = view.history, view.vocabulary.labels
    directions = query_directions(view.vocabulary, view.coordinates, 0.0)
    runs, (lengths, norms) = history.run_offsets, schedule_of(PUBLISHED, "sqrt")
    cosines = view.engine.cosines(history, directions.queries, view.centre)
    responses = view.engine.respond(cosines, runs, PUBLISHED_WIDTH)[0]
    agreement = np.empty(len(parts))
    for row, (state, first, stop) in enumerate(parts):
        inner = runs[(runs > first) & (runs < stop)] - first
        offsets = np.concatenate(([0], inner, [stop - first]))
        rows = responses[labels == state, first:stop]
        starts, ends, _ = view.engine.scan(rows, offsets, lengths, norms)
        common = np.minimum(ends + first, end[row]) - np.maximum(starts + first, start[row]) + 1
        common = np.maximum(common, 0)
        either = ends - starts + end[row] - start[row] + 2 - common
        agreement[row] = float((common / either).mean())
    return agreement


def checked_order(order: object) -> Order:
    """Return an order as a tuple of names; refuse fewer than two, and a name given twice."""
    if order is None:
        return None
    names = (order,) if isinstance(order, str) else tuple(order)  # type: ignore[arg-type]
    if len(set(names)) != len(names) or len(names) < 2:
        raise InputError("an order names at least two states, each of them once")
    return names
