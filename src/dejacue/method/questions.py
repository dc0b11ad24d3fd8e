"""The next question: a frame whose label, given by a person, settles most of what is in doubt.

Frames that a person has named divide the history into gaps; the one with the most doubt is divided
next, so that questions spread over what is visible, as the pictures of a strip do, and then close
in on the borders of states. A frame is in doubt by the variance that the named frames leave
(known_frames.py), and half as much where it seems to show what the frames named around it show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dejacue.errors import InputError
from dejacue.method.coordinates import check_pair
from dejacue.method.known_frames import HALF, KnownFrames
from dejacue.method.localization import Plan
from dejacue.method.state_readout import StateReadout, StateView, is_count
from dejacue.method.timeline import Reading
from dejacue.records import History, Vocabulary
from dejacue.records.arrays import Floats, Ints
from dejacue.records.vocabulary import NONE

AGREED = 0.5  # doubt of a frame that seems to show what is known around it
AT_AN_END = 3.0  # weight of a gap at an end of the history, where only one side is known
NEAR_AN_END = 0.4  # of the doubt of such a gap lies between the end and the question


@dataclass(frozen=True)
class Question:
    """A frame to ask a person about.

    frame     of the history; source: of the file, time_s: in seconds, where they are known
    expects   the answers by how likely each is, likeliest first; None: none of the states
    gain      the share of the frames that lie in the gap which it divides

    >>> print(Question(12, {"empty": 0.7, "full": 0.3}, 0.5))
    frame 12: empty 70 %, full 30 %
    """

    frame: int
    expects: dict[str | None, float]
    gain: float
    source: int | None = None
    time_s: float | None = None

    def __str__(self) -> str:
        when = "" if self.time_s is None else f" ({self.time_s:.2f} s)"
        return f"frame {self.frame}{when}: {self.likely}"

    @property
    def likely(self) -> str:
        """Return the answers in words: "full 80 %, none 20 %"."""
        return ", ".join(f"{state or NONE} {100 * p:.0f} %" for state, p in self.expects.items())


def next_question(
    history: History,
    vocabulary: Vocabulary,
    count: int = 1,
    *,
    readout: StateReadout | None = None,
    kernel: str = "auto",
) -> tuple[Question, ...]:
    """Return the frames that a person should label next, the most telling first.

    >>> cup = History([[1.0, 0.1]] * 6 + [[0.1, 1.0]] * 6)
    >>> words = Vocabulary({"empty": "an empty cup", "full": "a full cup"}, np.eye(2))
    >>> print(next_question(cup, words.with_examples(empty=0))[0])
    frame 8: full 44 %, none 36 %, empty 20 %
    """
    if not is_count(count, 1):
        raise InputError(f"{count!r} frames to ask about: give a number, 1 or more")
    check_pair(history, vocabulary)
    readout = replace(readout or Reading(), pooling=1.0)  # it is states that are asked about
    view = Plan.of(None, readout, None, False, kernel).view(history, vocabulary)
    assert isinstance(view, StateView)
    facts, f, looks = view.facts, view.membership, view.looks
    names: list[str | None] = [*vocabulary.states, None]
    labels, questions = facts.labels.copy(), list[Question]()
    for _ in range(min(count, int((labels < 0).sum()))):
        variance = looks.variance()
        shares = _chances(f, facts, variance)
        at, gain = _divided(labels, variance, shares.argmax(axis=0))
        questions.append(_question(history, names, at, shares[:, at], gain))
        labels[at] = shares[:, at].argmax()  # as if that had been the answer
        looks = looks.with_frame(at)
    return tuple(questions)


def _divided(labels: Ints, variance: Floats, believed: Ints) -> tuple[int, float]:
    """Return the position that divides the gap with the most doubt, and that gap's share.

    labels     (N,) −1 where nothing is known
    believed   (N,) the likeliest labels
    """
    known = np.flatnonzero(labels >= 0)
    gaps = np.searchsorted(known, np.arange(len(labels)), side="right")
    doubt, weights, middles = variance.copy(), np.ones(len(known) + 1), np.full(len(known) + 1, 0.5)
    if len(known):
        around = labels[known[[0, *range(len(known)), -1]]]  # beyond the outermost, the same
        doubt[(believed == around[gaps]) & (believed == around[gaps + 1])] *= AGREED
        doubt[known] = 0.0
        weights[[0, -1]], middles[0], middles[-1] = AT_AN_END, NEAR_AN_END, 1 - NEAR_AN_END
    totals = np.bincount(gaps, doubt, len(weights))
    widest = int((weights * totals).argmax())
    before = np.cumsum(np.where(gaps == widest, doubt, 0.0))
    share = middles[widest] * (1 - 1e-9)  # an exact half is not left to rounding
    at = int(np.searchsorted(before, share * before[-1]))
    return at, float(((gaps == widest) & (labels < 0)).mean())


def _chances(f: Floats, facts: KnownFrames, variance: Floats) -> Floats:
    """Return (S + 1, N) how likely each label is, the last for none of the states."""
    none = np.full(f.shape[1], -np.inf if facts.exhaustive else HALF)
    labels = np.concatenate([f, none[None, :]])
    powers = np.exp((labels - labels.max(axis=0)) / np.sqrt(variance))
    chances: Floats = powers / powers.sum(axis=0)
    return chances


def _question(
    history: History, names: list[str | None], at: int, share: Floats, gain: float
) -> Question:
    order = np.argsort(-share, kind="stable")
    expects = {names[label]: float(share[label]) for label in order if share[label] > 0}
    source, times = history.source_frames, history.times_s
    return Question(
        int(history.frames[at]),
        expects,
        gain,
        None if source is None else int(source[at]),
        None if times is None else float(times[at]),
    )
