"""The recommended readout: the window that differs most from the rest of the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from dejacue.method import constrained
from dejacue.method._timelines import in_frames, quoted
from dejacue.method.kernel import Answers, EvidenceTables, Ragged
from dejacue.method.readout import HistoryBatch, View
from dejacue.method.scan import Further, ScoredWindow
from dejacue.method.state_readout import Known, StateReadout
from dejacue.records import Note
from dejacue.records.arrays import Floats, Ints

MAX_LISTED_PAIRS = 3  # of states, in a sentence
MIN_SHARE_OF_BEST = 0.5  # of the best score, for a second occurrence or an alternative


@dataclass(frozen=True)
class Contrast(StateReadout):
    """A readout that takes the window which differs most from the rest, towards the state."""

    name: ClassVar[str] = "contrast"
    usual_windows: ClassVar[int] = 3  # one to take, two to choose from
    usual_share: ClassVar[float | None] = MIN_SHARE_OF_BEST

    def compute(self, batch: HistoryBatch, tables: Ragged, out: EvidenceTables | None) -> Answers:
        return batch.engine.contrast(tables, batch.centres(), out)

    def find_known(self, view: View, known: Known) -> Answers:
        cuts = self.bounds(view.history)
        if known.evidence is not None and not len(known.facts.looked):  # changes only
            parts = known.facts.open_parts(-1, cuts)
            rows = [constrained.window_of_words(view.engine, row, parts) for row in known.evidence]
            return self.answers(view, rows)
        return self.answers(
            view, constrained.windows(view.engine, known.f, known.facts, cuts, known.evidence)
        )

    def alternatives(
        self, view: View, answers: Answers, count: int, least: Floats | None = None
    ) -> list[list[ScoredWindow]]:
        """Return further windows, each the best that overlaps none before it."""
        labels, firsts = view.vocabulary.labels, view.query_directions.firsts
        if self.pooling != 1:
            labels = firsts = np.arange(len(labels))
        start, end = answers.start[firsts], answers.end[firsts]
        known = self.known(view)
        if known is None:
            responses, cuts = self.seen(view)[1].responses[0], self.bounds(view.history)
            lowest = np.full(len(start), -np.inf) if least is None else least[firsts]
            windows = view.engine.further(responses, cuts, start, end, count, lowest)
        else:
            chosen = zip(start.tolist(), end.tolist(), strict=True)
            windows = [
                self._known_disjoint(view, known, row, window, count)
                for row, window in enumerate(chosen)
            ]
        return [windows[row] for row in labels.tolist()]

    def _known_disjoint(
        self, view: View, known: Known, row: int, chosen: tuple[int, int], count: int
    ) -> list[ScoredWindow]:
        """Return further windows of a state; none has a frame known to be in another."""
        facts, evidence = known.facts, known.evidence
        parts = facts.open_parts(row, self.bounds(view.history))
        whole = next((p for p in parts if p[0] <= chosen[0] and chosen[1] < p[1]), None)
        if whole is None or (evidence is None and not facts.named_states[row]):
            return []
        rest = [part for part in parts if part != whole]
        rest += [p for p in ((whole[0], chosen[0]), (chosen[1] + 1, whole[1])) if p[0] < p[1]]
        if facts.named_states[row]:
            lead = view.once(("leads", self), lambda: constrained.leads(known.f, facts))[row]
            around = constrained.windows_around(lead, facts.named(row), rest)
            windows = [
                window or constrained.window_of(lead, *part)
                for part, window in zip(rest, around, strict=True)
            ]
        else:
            assert evidence is not None
            windows = [
                constrained.window_of_words(view.engine, evidence[row], [part]) for part in rest
            ]
        sure = [w for w in windows if w is not None and facts.shows(row, w[:2])]
        better = [w for w in windows if w is not None and w[2] > 0 and w not in sure]
        better = sorted(better, key=lambda window: (-window[2], window[0]))[:count]
        return sorted(sure, key=lambda window: window[0]) + better

    def holds(self, view: View, description: int, window: ScoredWindow) -> bool:
        """Return whether the window has a frame that is known to be in the state."""
        known = self.known(view)
        state = int(view.vocabulary.labels[description])
        return known is not None and known.facts.shows(state, window[:2])

    def hints(self, view: View, answers: Answers, further: Further) -> tuple[Note, ...]:
        """Return where states claim the same frames, and which states may occur again."""
        if self.pooling != 1:
            return ()
        firsts = view.query_directions.firsts.tolist()
        start, end, score = answers.start.tolist(), answers.end.tolist(), answers.score.tolist()
        states = [
            (state, start[q], end[q], score[q], further[q])
            for state, q in zip(view.vocabulary.states, firsts, strict=True)
            if answers.absent is None or not answers.absent[q]
        ]
        shared = _shared(states, view.history.frames)
        recurs = any(further) and self.known(view) is None
        return (*shared, *_recurring(states)) if recurs else shared


State = tuple[str, int, int, float, Sequence[ScoredWindow]]  # name, window, score, further windows


def _shared(states: Sequence[State], frames: Ints) -> tuple[Note, ...]:
    """Name pairs of states whose windows overlap; equal windows have a note of their own."""
    pairs = [
        f"{quoted((a[0], b[0]))} both claim {in_frames(frames[first], frames[last])}"
        for a, b in combinations(states, 2)
        if a[1:3] != b[1:3] and (first := max(a[1], b[1])) <= (last := min(a[2], b[2]))
    ]
    if not pairs:
        return ()
    further = f", and {len(pairs) - MAX_LISTED_PAIRS} more" if pairs[MAX_LISTED_PAIRS:] else ""
    listed = ", ".join(pairs[:MAX_LISTED_PAIRS])
    text = f"{listed}{further}; the joint readout gives every frame to one state"
    return (Note(text, "doubtful"),)


def _recurring(states: Sequence[State]) -> tuple[Note, ...]:
    """Name states with a second strong window on the other side of another state's window."""
    middles = {name: (start + end) / 2 for name, start, end, _, _ in states}
    names = []
    for name, start, end, score, further in states:
        gaps = [
            (min(end, last), max(start, first))
            for first, last, other_score in further
            if other_score >= MIN_SHARE_OF_BEST * score
        ]
        others = [middle for state, middle in middles.items() if state != name]
        if any(low < middle < high for low, high in gaps for middle in others):
            names.append(f'"{name}"')
    if not names:
        return ()
    listed = ", ".join(names)
    text = f"{listed} may occur more than once; the joint readout lists every occurrence"
    return (Note(text, "information"),)
