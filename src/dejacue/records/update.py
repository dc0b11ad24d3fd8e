"""Update and Revision: what a live reading says of a frame, and of those before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dejacue.records.interval import Interval, Window


class Revision(msgspec.Struct, frozen=True):
    """Frames whose state was another one before; None: it was unknown, or they are in none.

    >>> Revision(Window(3, 9), None, "full").now
    'full'
    """

    window: Window
    was: str | None
    now: str | None


class Update(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of an object now, and what changed with the latest frame.

    state       that the object is in now; None: it is not seen, in none of the states, or too
                little of it was seen so far
    since       the frame from which on it is, as far as is known now
    evidence    by state, in deviations from its mean so far; empty where the object is not seen
    closed      occurrences that have ended and stayed the same for the delay
    withdrawn   closed occurrences that are no longer found; what is found instead is closed
    revised     frames whose state was another one before
    waits       frames that have to come before the first state is named

    >>> Update(12, state="full", since=4).to_dict()
    {'frame': 12, 'state': 'full', 'since': 4}
    """

    frame: int
    time_s: float | None = None
    state: str | None = None
    since: int | None = None
    evidence: Mapping[str, float] = msgspec.field(default_factory=dict)
    closed: tuple[Interval, ...] = ()
    withdrawn: tuple[Interval, ...] = ()
    revised: tuple[Revision, ...] = ()
    waits: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; what is unknown or empty is left out, except the state."""
        evidence = {name: round(value, 4) for name, value in self.evidence.items()}
        brief = msgspec.structs.replace(self, evidence=evidence)
        return {"frame": self.frame, "state": self.state, **msgspec.to_builtins(brief)}
