"""Timelines in the form that several tests look at."""

from __future__ import annotations

from typing import Any

from dejacue import History, Interval, Vocabulary, locate


def occurrences(
    history: History, vocabulary: Vocabulary, readout: Any = "timeline", **options: Any
) -> dict[str, list[Interval]]:
    """Return state → its intervals in time."""
    timeline = locate(history, vocabulary, readout=readout, **options)
    return {state: timeline[state] for state in vocabulary.states}
