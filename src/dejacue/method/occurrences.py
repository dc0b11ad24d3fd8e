"""occurrences(): every time that a state holds, not only the best."""

from __future__ import annotations

from dejacue.errors import InputError
from dejacue.method.coordinates import Coordinates
from dejacue.method.joint import Joint
from dejacue.method.plan import Plan
from dejacue.records import History, Moment, Vocabulary, Window


def occurrences(
    history: History,
    vocabulary: Vocabulary,
    *,
    coordinates: str | Coordinates = "vocabulary",
    readout: str | Joint = "joint",
    engine: str = "auto",
) -> dict[str, tuple[Moment, ...]]:
    """The disjoint windows of each state, best first; none for a state that is left out.

    All come from one labelling of the observed frames (``Joint``), so no two states share a frame.
    The labelling gives every frame to some state: one that never occurs mostly gets frames, too.
    Scores add up: joining two windows, and what lies between, adds their scores. A moment speaks
    for its whole state and carries the first of its descriptions.
    """
    plan = Plan.of(coordinates, readout, 3, 1, False, engine)
    if not isinstance(plan.readout, Joint):
        raise InputError("occurrences come from a joint labelling: give a Joint readout")
    view = plan.view(history, vocabulary)
    found = plan.readout.occurrences(view)
    return {
        state: tuple(
            Moment(
                state, texts[0], Window(int(history.frames[a]), int(history.frames[b])), score,
                "state",
                None if history.times_s is None
                else (float(history.times_s[a]), float(history.times_s[b])),
            )
            for a, b, score in own
        )
        for (state, texts), own in zip(vocabulary.states.items(), found, strict=True)
    }  # fmt: skip
