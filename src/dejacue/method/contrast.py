"""The recommended readout: the window that differs most from the rest of the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from dejacue.method import scan as s
from dejacue.method import shown
from dejacue.method._reading import in_frames, quoted
from dejacue.method._tables import Answers, EvidenceTables, Ragged
from dejacue.method.state_readout import Known, StateReadout
from dejacue.method.states import ScoredWindow
from dejacue.method.view import Batch, View

MOST_PAIRS = 3  # of states, in a sentence
CLOSE = 0.5  # of the best score: what a second occurrence or an alternative must reach


@dataclass(frozen=True)
class Contrast(StateReadout):
    """The window that differs most from the rest of the history, in the state's direction."""

    name: ClassVar[str] = "contrast"
    usual_windows: ClassVar[int] = 3  # one to take, two to choose from
    usual_share: ClassVar[float | None] = CLOSE

    def compute(self, batch: Batch, tables: Ragged, kept: EvidenceTables | None) -> Answers:
        return batch.engine.contrast(tables, batch.centres(), kept)

    def find_known(self, view: View, known: Known) -> Answers:
        cuts = self.bounds(view.history)
        if known.evidence is not None and not len(known.facts.looked):  # changes only
            parts = shown.open_parts(known.facts.barred(-1), cuts, known.facts.marks)
            rows = [shown.window_of_words(view.engine, row, parts) for row in known.evidence]
            return self.answers(view, rows)
        return self.answers(
            view, shown.windows(view.engine, known.f, known.facts, cuts, known.evidence)
        )

    def alternatives(self, view: View, found: Answers, more: int) -> list[list[ScoredWindow]]:
        """Each the best that overlaps none before it."""
        labels = view.vocabulary.labels.tolist() if self.pooling == 1 else range(len(found.start))
        chosen = zip(found.start.tolist(), found.end.tolist(), strict=True)
        known: dict[int, list[ScoredWindow]] = {}
        for row, window in zip(labels, chosen, strict=True):
            if row not in known:
                known[row] = self._disjoint(view, row, window, more)
        return [known[row] for row in labels]

    def _disjoint(
        self, view: View, row: int, chosen: tuple[int, int], more: int
    ) -> list[ScoredWindow]:
        known = self.known(view)
        if known is not None:
            return self._known_disjoint(view, known, row, chosen, more)
        responses = self.seen(view)[1].responses[0][row]

        def best_of(first: int, last: int) -> ScoredWindow | None:
            cuts = np.array([0, last - first])  # outside is still all the rest
            found = view.engine.search(responses[None, first:last], cuts, len(responses))
            start, end, score = (column[0] for column in found)
            return (first + int(start), first + int(end), float(score)) if score > 0 else None

        return s.disjoint(self.bounds(view.history).tolist(), chosen, more, best_of)

    def _known_disjoint(
        self, view: View, known: Known, row: int, chosen: tuple[int, int], more: int
    ) -> list[ScoredWindow]:
        """The same where frames are known; none of them has a frame known to be something else."""
        facts, evidence = known.facts, known.evidence
        parts = shown.open_parts(facts.barred(row), self.bounds(view.history), facts.marks)
        whole = next((p for p in parts if p[0] <= chosen[0] and chosen[1] < p[1]), None)
        if whole is None or (evidence is None and not facts.shown[row]):
            return []
        rest = [part for part in parts if part != whole]
        rest += [p for p in ((whole[0], chosen[0]), (chosen[1] + 1, whole[1])) if p[0] < p[1]]
        if facts.shown[row]:
            lead = shown.leads(known.f)[row]
            found = [shown.window_of(lead, *part) for part in rest]
        else:
            assert evidence is not None
            found = [shown.window_of_words(view.engine, evidence[row], [part]) for part in rest]
        better = [window for window in found if window is not None and window[2] > 0]
        return sorted(better, key=lambda window: (-window[2], window[0]))[:more]

    def hints(self, view: View, further: Sequence[Sequence[ScoredWindow]] = ()) -> tuple[str, ...]:
        """Return where states claim the same frames, and which states may occur again."""
        if self.pooling != 1:
            return ()
        if self.known(view) is not None:
            return tuple(self._shared(view))
        return (*self._shared(view), *self._recurring(view, further))

    def _shared(self, view: View) -> list[str]:
        """Pairs of states whose windows overlap; those that are equal have a note of their own."""
        found, frames = self.find_one(view), view.history.frames
        windows = {
            state: (found.start[q], found.end[q])
            for q, state in enumerate(view.vocabulary.state_names)
            if found.absent is None or not found.absent[q]
        }
        pairs = [
            f"{quoted((one, other))} both claim {in_frames(frames[first], frames[last])}"
            for (one, a), (other, b) in combinations(windows.items(), 2)
            if a != b and (first := max(a[0], b[0])) <= (last := min(a[1], b[1]))
        ]
        if not pairs:
            return []
        more = f", and {len(pairs) - MOST_PAIRS} more" if pairs[MOST_PAIRS:] else ""
        shown = ", ".join(pairs[:MOST_PAIRS])
        return [f"{shown}{more}; the joint readout gives every frame to one state"]

    def _recurring(self, view: View, further: Sequence[Sequence[ScoredWindow]]) -> list[str]:
        """Name states with a second strong window on the other side of another state's window."""
        found, labels = self.find_one(view), view.vocabulary.labels.tolist()
        best = {
            state: (int(found.start[q]), int(found.end[q]), float(found.score[q]))
            for q, state in reversed(list(enumerate(labels)))
        }
        middles = {state: (window[0] + window[1]) / 2 for state, window in best.items()}
        states, names = list(view.vocabulary.states), {}
        for q, windows in enumerate(further):
            state = labels[q]
            first, last, score = best[state]
            for other_first, other_last, other_score in windows:
                gap = (min(last, other_last), max(first, other_first))
                parted = any(gap[0] < middles[own] < gap[1] for own in middles if own != state)
                if parted and other_score >= CLOSE * score:
                    names[state] = f'"{states[state]}"'
        if not names:
            return []
        return [
            f"{', '.join(names.values())} may occur more than once; the joint readout lists every "
            "occurrence"
        ]
