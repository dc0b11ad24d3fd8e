"""Timelines in the form that several tests look at."""

from __future__ import annotations

from dejacue import Interval, Timeline


def by_description(timeline: Timeline) -> list[Interval]:
    """Return the best interval of each description, or of its state, in the vocabulary's order."""
    return [
        max(
            (i for i in timeline[state] if i.description in (None, text)),
            key=lambda interval: interval.score,
        )
        for state, texts in timeline.states.items()
        for text in texts
    ]
