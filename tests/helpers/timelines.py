"""Timelines in the form that several tests look at."""

from __future__ import annotations

from typing import Any

from dejacue import History, Interval, Vocabulary, locate


def occurrences(
    history: History, vocabulary: Vocabulary, readout: Any = "joint", **options: Any
) -> dict[str, list[Interval]]:
    """Return state → its intervals, best first."""
    timeline = locate(history, vocabulary, readout=readout, top=None, **options)
    return {state: timeline[state] for state in vocabulary.states}
