"""The next question: the frame whose label, given by a person, settles most of what is in doubt.

A frame is in doubt as far as f (known_frames.py) may lie on the other side: by how far the best
label leads, and by the variance that the named frames leave. A question settles doubt around it,
in time and in looks, by the squared correlation of the frames with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dejacue.errors import InputError
from dejacue.method import known_frames as process
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import check_pair
from dejacue.method.known_frames import HALF, KnownFrames
from dejacue.method.plan import Plan
from dejacue.method.readout import View
from dejacue.method.state_readout import is_count
from dejacue.records import History, Vocabulary
from dejacue.records.arrays import Floats, Ints
from dejacue.records.example import NONE

MAX_CANDIDATES = 48  # evenly spaced frames, of which some are asked about


@dataclass(frozen=True)
class Question:
    """A frame to ask a person about.

    frame     of the history; source: of the file, time_s: in seconds, where they are known
    expects   the answers by how likely each is, likeliest first; None: none of the states
    gain      the share of the frames whose doubt the answer settles
    """

    frame: int
    expects: dict[str | None, float]
    gain: float
    source: int | None = None
    time_s: float | None = None

    def __str__(self) -> str:
        when = "" if self.time_s is None else f" ({self.time_s:.2f} s)"
        words = ", ".join(f"{state or NONE} {100 * p:.0f} %" for state, p in self.expects.items())
        return f"frame {self.frame}{when}: {words}"


def next_question(
    history: History,
    vocabulary: Vocabulary,
    count: int = 1,
    *,
    readout: Contrast | None = None,
    kernel: str = "auto",
) -> tuple[Question, ...]:
    """Return the frames that a person should label next, together the most telling; best first."""
    if not is_count(count, 1):
        problem = f"{count!r} frames to ask about: give a number, 1 or more"
        raise InputError(problem, field="count", value=count)
    check_pair(history, vocabulary)
    readout = replace(readout or Contrast(), pooling=1.0)  # it is states that are asked about
    view = Plan.of(None, readout, None, 1, False, kernel).view(history, vocabulary)
    known = readout.known(view)
    smoothing = readout.smoothing_of(history)
    if known is None:
        facts = process.known_frames_of(history, vocabulary)
        f = process.membership(view, facts, readout.seen(view)[1].responses[0], smoothing)
    else:
        facts, f = known.facts, known.f
    candidates = _candidates(history, facts)
    if not len(candidates):
        return ()
    chances = partial(_chances, f, facts)
    chosen = _most_telling(view, facts, smoothing, candidates, count, chances)
    names: list[str | None] = [*vocabulary.states, None]
    return tuple(_question(history, names, at, share, gain) for at, share, gain in chosen)


def _candidates(history: History, facts: KnownFrames) -> Ints:
    """Return evenly spaced positions that nobody has named."""
    open_at = np.flatnonzero(facts.labels < 0)
    count = min(MAX_CANDIDATES, len(open_at))
    return open_at[((np.arange(count) + 0.5) / max(count, 1) * len(open_at)).astype(np.int64)]


def _chances(f: Floats, facts: KnownFrames, variance: Floats) -> Floats:
    """Return (S + 1, N) how likely each label is, the last for none of the states."""
    deviation = np.sqrt(np.maximum(variance, 1e-9))
    none = np.full(f.shape[1], -np.inf if facts.covers_all else HALF)
    labels = np.concatenate([f, none[None, :]])
    powers = np.exp((labels - labels.max(axis=0)) / deviation)
    chances: Floats = powers / powers.sum(axis=0)
    return chances


def _most_telling(
    view: View,
    facts: KnownFrames,
    smoothing: process.Smoothing,
    candidates: Ints,
    count: int,
    chances: partial[Floats],
) -> list[tuple[int, Floats, float]]:
    """Return positions to ask about, what is expected there, and what each settles, given those
    before it."""
    history, named = view.history, facts.looked
    both = np.concatenate([candidates, named])
    columns = process.covariances(view, both, smoothing)
    ours, theirs = columns[: len(candidates)], columns[len(candidates) :]
    variance = np.full(len(history), process.TIME + process.CONSTANT)
    variance += process.looks_weight(history)
    if len(named):  # what the named frames leave of it
        square = theirs[:, named] + process.NOISE * np.eye(len(named))
        weights = np.linalg.solve(square, theirs)
        variance -= np.einsum("en,en->n", theirs, weights)
        ours = ours - theirs[:, candidates].T @ weights
    questions: list[tuple[int, Floats, float]] = []
    for _ in range(min(count, len(candidates))):
        shares = chances(variance)
        doubt = np.where(facts.labels < 0, 1 - shares.max(axis=0), 0.0)
        noisy = np.maximum(variance[candidates], 1e-9) + process.NOISE
        settled = (ours**2 / np.maximum(variance, 1e-9) / noisy[:, None]) @ doubt
        settled[np.isin(candidates, [at for at, _, _ in questions])] = -math.inf
        best = int(settled.argmax())
        at = int(candidates[best])
        questions.append((at, shares[:, at], max(0.0, float(settled[best])) / len(history)))
        variance = variance - ours[best] ** 2 / noisy[best]
        ours = ours - np.outer(ours[:, at], ours[best]) / noisy[best]
    return questions


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
