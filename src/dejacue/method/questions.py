"""The next question: the frame whose label, given by a person, would change most.

Many labellings of the history are drawn that agree with all named frames (known_frames.py) and in
which every state occurs, since it is in the vocabulary: a committee. Where its members label a
frame differently, the answer tells which of them are wrong. The best question is the one after
which the frames that the others give to each state differ least, in expectation over the answers
that the committee itself expects.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dejacue.errors import InputError
from dejacue.method import _labelling as labelling
from dejacue.method import constrained
from dejacue.method import known_frames as process
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import check_pair
from dejacue.method.joint import and_none
from dejacue.method.known_frames import HALF, KnownFrames
from dejacue.method.plan import Plan
from dejacue.method.readout import View
from dejacue.method.state_readout import is_count
from dejacue.records import History, Vocabulary
from dejacue.records.arrays import Floats, Ints
from dejacue.records.example import NONE

MEMBERS = 96
DRAWS = 3 * MEMBERS  # of which those are members in which every state occurs
MAX_COMMITTEE_FRAMES = 512  # evenly spaced, that a committee looks at


@dataclass(frozen=True)
class Question:
    """A frame to ask a person about.

    frame     of the history; source: of the file, time_s: in seconds, where they are known
    expects   the answers by what the committee expects of each, likeliest first; None: none of
              the states
    gain      by how much the overlap (tIoU) between what members give to a state grows, once it is
              answered
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
    seed: int = 0,
    kernel: str = "auto",
) -> tuple[Question, ...]:
    """Return the frames that a person should label next, together the most telling; best first.

    seed   of the committee; the same one gives the same questions
    """
    if not is_count(count, 1):
        problem = f"{count!r} frames to ask about: give a number, 1 or more"
        raise InputError(problem, field="count", value=count)
    if not is_count(seed, 0):
        raise InputError(f"seed {seed!r}: give a whole number, 0 or more", field="seed", value=seed)
    check_pair(history, vocabulary)
    readout = replace(readout or Contrast(), pooling=1.0)  # it is states that are asked about
    view = Plan.of(None, readout, None, 1, False, kernel).view(history, vocabulary)
    known = readout.known(view)
    evidence: Floats | None
    if known is None:
        evidence = readout.seen(view)[1].responses[0]
        empty = np.empty(0, np.int64)
        facts = KnownFrames(np.full(len(history), -1), empty, empty, len(vocabulary.states))
    else:
        evidence, facts = known.evidence, known.facts
    at = _looked_at(history, facts)
    paths = _committee(view, readout, facts, evidence, at, seed)
    open_at = np.flatnonzero(facts.labels[at] < 0)
    chosen = _most_telling(paths, open_at, min(count, len(open_at)), facts.states)
    names: list[str | None] = [*vocabulary.states, None]
    return tuple(_question(history, names, int(at[p]), paths[:, p], gain) for p, gain in chosen)


def _looked_at(history: History, facts: KnownFrames) -> Ints:
    even = np.linspace(0, len(history) - 1, min(MAX_COMMITTEE_FRAMES, len(history))).round()
    return np.union1d(even.astype(np.int64), facts.looked)


def _committee(
    view: View, readout: Contrast, facts: KnownFrames, evidence: Floats | None, at: Ints, seed: int
) -> Ints:
    """Return (M, T) labellings of the frames at these positions, S for none of the states."""
    rng = np.random.default_rng([seed, len(facts.looked)])
    draws = _drawn(view, readout, facts, evidence, at, rng)
    states, count = facts.states, len(at)
    weight = len(view.history) / count  # frames that each of them stands for
    cost = constrained.SWITCH * math.log(len(view.history)) / weight
    nodes = labelling.nodes_for(states + 1, None, False)
    marks = np.unique(np.searchsorted(at, facts.marks))
    empty = np.empty(0, np.int64)
    named = KnownFrames(facts.labels[at], empty, marks[marks < count], states)
    cuts = np.array([0, count])
    paths = np.stack(
        [
            constrained.path(view.engine, and_none(f - HALF), named, cuts, nodes, cost, 1)
            for f in draws
        ]
    )
    missing = sum((paths != state).all(axis=1).astype(int) for state in range(states))
    return paths[np.argsort(missing, kind="stable")[:MEMBERS]]


def _drawn(
    view: View,
    readout: Contrast,
    facts: KnownFrames,
    evidence: Floats | None,
    at: Ints,
    rng: np.random.Generator,
) -> Floats:
    """Return (M, S, T) draws of f given what is known; at first each label is as likely."""
    history, states, smoothing = view.history, facts.states, readout.smoothing_of(view.history)
    rows = process.moments_of(history, at.tolist(), smoothing)
    scale = max(float(np.einsum("td,td->", rows, rows)) / len(rows), 1e-9)
    shape = (DRAWS, states)
    f = rng.standard_normal((*shape, history.dimension)) @ rows.T * math.sqrt(process.LOOKS / scale)
    f += math.sqrt(process.TIME) * _wander(history, at, shape, rng)
    f += math.sqrt(process.CONSTANT) * rng.standard_normal((*shape, 1))
    f += 1 / (states + 1)
    if evidence is not None:
        trust = process.TRUST + math.sqrt(process.WORDS) * rng.standard_normal((*shape, 1))
        f += trust * evidence[:, at]
    if not len(facts.looked):
        return f
    named = np.searchsorted(at, facts.looked)
    columns = process.covariances(view, facts.looked, smoothing)[:, at]
    for state in range(states):
        covariance = columns
        if evidence is not None:
            r = evidence[state]
            covariance = columns + process.WORDS * np.outer(r[facts.looked], r[at])
        noise = math.sqrt(process.NOISE) * rng.standard_normal((DRAWS, len(named)))
        residual = (facts.labels[facts.looked] == state) - f[:, state, named] - noise
        square = covariance[:, named] + process.NOISE * np.eye(len(named))
        f[:, state] += np.linalg.solve(square, residual.T).T @ covariance
    return f


def _wander(history: History, at: Ints, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Return (M, S, T) what drifts over time, with variance 1."""
    reach = max(process.REACH * len(history), 1.0)
    keep = np.exp(-np.diff(history.frames[at].astype(np.float64)) / reach)
    steps = rng.standard_normal((*shape, len(at)))
    steps[..., 1:] *= np.sqrt(1 - keep**2)
    for t in range(1, len(at)):
        steps[..., t] += keep[t - 1] * steps[..., t - 1]
    return steps


def _most_telling(
    paths: Ints, candidates: Ints, count: int, states: int
) -> list[tuple[int, float]]:
    """Return positions to ask about, and what each gains, given those before it."""
    apart = _apart(paths, states)
    groups = [np.arange(len(paths))]  # members that the answers so far do not tell apart
    before = float(apart.mean())
    questions: list[tuple[int, float]] = []
    for _ in range(count):
        left = sum(_left(apart[np.ix_(g, g)], paths[g][:, candidates]) for g in groups)
        left = left / len(paths)
        taken = np.isin(candidates, [position for position, _ in questions])
        left[taken] = np.inf
        near = np.flatnonzero(left <= left.min() + 1e-12)
        best = int(near[len(near) // 2])
        questions.append((int(candidates[best]), max(0.0, before - float(left[best]))))
        before = float(left[best])
        labels = paths[:, candidates[best]]
        groups = [g[labels[g] == label] for g in groups for label in np.unique(labels[g])]
    return questions


def _apart(paths: Ints, states: int) -> Floats:
    """Return (M, M): 1 − the overlap of the frames that two members give to a state, on average."""
    total = np.zeros((len(paths), len(paths)))
    for state in range(states):
        inside = (paths == state).astype(np.float64)
        both, counts = inside @ inside.T, inside.sum(axis=1)
        either = counts[:, None] + counts[None, :] - both
        total += 1 - np.where(either > 0, both / np.maximum(either, 1), 1)
    return total / states


def _left(apart: Floats, labels: Ints) -> Any:
    """Return (C,) for each candidate the sum over members of how far they are from those that give
    the same answer."""
    total = np.zeros(labels.shape[1])
    for label in np.unique(labels):
        same = (labels == label).astype(np.float64)
        total += (same * (apart @ same)).sum(axis=0) / np.maximum(same.sum(axis=0), 1)
    return total


def _question(
    history: History, names: list[str | None], at: int, labels: Ints, gain: float
) -> Question:
    share = np.bincount(labels, minlength=len(names)) / len(labels)
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
