"""Announced: what a live reading has said so far, and how a new answer differs from it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from dejacue.records import Interval, Window
from dejacue.records.arrays import Ints
from dejacue.records.update import Revision

NOISE_S = 1e-6  # less than two times differ by


class Announced:
    """The occurrences that were closed, and since when others are found instead.

    >>> announced, found = Announced(), [Interval("full", 3, 9, 1.0)]
    >>> announced.changes(found, 0, 2.0, now_s=10.0, delay_s=4.0)
    ([], [])
    >>> announced.changes(found, 0, 2.0, now_s=14.0, delay_s=4.0) == (found, [])
    True
    """

    def __init__(self) -> None:
        self._closed: list[Interval] = []  # as far as they are kept
        self._differs: dict[tuple[str, int, int], float] = {}  # since when

    def changes(
        self, found: Sequence[Interval], first: int, slack: float, now_s: float, delay_s: float
    ) -> tuple[list[Interval], list[Interval]]:
        """Return the occurrences that are closed now, and those that are withdrawn.

        found     what has ended
        first     frame that is kept; nothing is known of borders before it
        slack     frames by which the borders of one occurrence may differ
        delay_s   seconds for which a difference lasts before it is announced
        """

        def only_in(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
            windows = [(i.state, max(i.start, first), i.end) for i in others]
            return [
                i
                for i in some
                if not any(
                    i.state == state
                    and abs(max(i.start, first) - start) <= slack
                    and abs(i.end - end) <= slack
                    for state, start, end in windows
                )
            ]

        known = [i for i in self._closed if i.end >= first]
        changed = only_in(found, known), only_in(known, found)
        keys = [(i.state, i.start, i.end) for some in changed for i in some]
        self._differs = {key: self._differs.get(key, now_s) for key in keys}
        due = {k for k, since_s in self._differs.items() if now_s - since_s >= delay_s - NOISE_S}
        closed, withdrawn = (
            [i for i in some if (i.state, i.start, i.end) in due] for some in changed
        )
        self._closed = [i for i in known if i not in withdrawn] + closed
        return closed, withdrawn


def revisions(
    frames: Ints, before: Ints, now: Ints, names: Sequence[str | None]
) -> tuple[Revision, ...]:
    """Return where labels have changed, in stretches; names: of the labels, −1 is the last.

    >>> labels = np.array([[0, 0, 0, 1], [0, 1, 1, 1]])
    >>> revisions(np.array([3, 4, 5, 7]), *labels, ["empty", "full", None])
    (Revision(window=Window(start=4, end=5), was='empty', now='full'),)
    """
    at = np.flatnonzero(before != now)
    columns = at - np.arange(len(at)), before[at], now[at], frames[at]
    revised = []
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for (_, was, label), part in groupby(rows, lambda row: row[:3]):
        window = [row[3] for row in part]
        if names[was] != names[label]:
            revised.append(Revision(Window(window[0], window[-1]), names[was], names[label]))
    return tuple(revised)
