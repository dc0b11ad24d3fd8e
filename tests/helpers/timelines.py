"""Timelines in the form that several tests look at."""

from __future__ import annotations

from typing import Any

from dejacue import History, Interval, Timeline, Vocabulary, locate


def occurrences(
    history: History, vocabulary: Vocabulary, readout: Any = "timeline", **options: Any
) -> dict[str, list[Interval]]:
    """Return state → its intervals in time."""
    timeline = locate(history, vocabulary, readout=readout, **options)
    return {state: timeline[state] for state in vocabulary.states}


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
