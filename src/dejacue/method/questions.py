"""Which frame to ask a person about next: the one whose answer would change most.

Many labellings of the history are drawn that agree with everything that is known (facts.py) and in
which every state occurs, since somebody asks for it: a committee. Where its members name a frame
differently, the answer tells which of them are wrong. The best question is the one after which the
frames that those who are left give to each state differ least, in expectation over the answers that
the committee itself expects.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dejacue.errors import InputError
from dejacue.method import _labelling as labelling
from dejacue.method import constrained
from dejacue.method import known_frames as known
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import check_pair
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
    engine: str = "auto",
) -> tuple[Question, ...]:
    """Return the frames to ask about next, together the most telling; best first.

    seed   of the committee; the same one gives the same questions
    """
    if not is_count(count, 1):
        raise InputError(f"{count!r} frames to ask about: give a number, 1 or more")
    check_pair(history, vocabulary)
    readout = replace(readout or Contrast(), pooling=1.0)  # it is states that are asked about
    view = Plan.of(None, readout, None, 1, False, engine).view(history, vocabulary)
    own = readout.known(view)
    evidence: Floats | None
    if own is None:
        evidence = readout.seen(view)[1].responses[0]
        empty = np.empty(0, np.int64)
        facts = KnownFrames(np.full(len(history), -1), empty, empty, empty, len(vocabulary.states))
    else:
        evidence, facts = own.evidence, own.facts
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
    f = _drawn(view, readout, facts, evidence, at, rng)
    states, count = facts.states, len(at)
    weight = len(view.history) / count  # frames that each of them stands for
    cost = constrained.SWITCH * math.log(len(view.history)) / weight
    nodes = labelling.nodes_for(states + 1, None, False)
    marks = np.unique(np.searchsorted(at, facts.marks))
    empty = np.empty(0, np.int64)
    seen = KnownFrames(facts.labels[at], empty, empty, marks[marks < count], states)
    cuts, none = np.array([0, count]), np.zeros((1, count))
    paths = np.stack(
        [
            constrained.path(
                view.engine, np.concatenate([own - HALF, none]), seen, cuts, nodes, cost, 1
            )
            for own in f
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
    rows = known.moments_of(history, at.tolist(), smoothing)
    scale = max(float(np.einsum("td,td->", rows, rows)) / len(rows), 1e-9)
    shape = (DRAWS, states)
    f = rng.standard_normal((*shape, history.dimension)) @ rows.T * math.sqrt(known.LOOKS / scale)
    f += math.sqrt(known.TIME) * _wander(history, at, shape, rng)
    f += math.sqrt(known.CONSTANT) * rng.standard_normal((*shape, 1))
    f += 1 / (states + 1)
    if evidence is not None:
        trust = known.TRUST + math.sqrt(known.WORDS) * rng.standard_normal((*shape, 1))
        f += trust * evidence[:, at]
    if not len(facts.looked):
        return f
    named = np.searchsorted(at, facts.looked)
    columns = known.covariances(view, facts.looked, smoothing)[:, at]
    for state in range(states):
        own = columns
        if evidence is not None:
            r = evidence[state]
            own = columns + known.WORDS * np.outer(r[facts.looked], r[at])
        noise = math.sqrt(known.NOISE) * rng.standard_normal((DRAWS, len(named)))
        wanted = (facts.labels[facts.looked] == state) - f[:, state, named] - noise
        square = own[:, named] + known.NOISE * np.eye(len(named))
        f[:, state] += np.linalg.solve(square, wanted.T).T @ own
    return f


def _wander(history: History, at: Ints, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Return (M, S, T) what drifts over time, with variance 1."""
    reach = max(known.REACH * len(history), 1.0)
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
    found: list[tuple[int, float]] = []
    for _ in range(count):
        left = sum(_left(apart[np.ix_(own, own)], paths[own][:, candidates]) for own in groups)
        left = left / len(paths)
        taken = np.isin(candidates, [position for position, _ in found])
        left[taken] = np.inf
        near = np.flatnonzero(left <= left.min() + 1e-12)
        best = int(near[len(near) // 2])
        found.append((int(candidates[best]), max(0.0, before - float(left[best]))))
        before = float(left[best])
        said = paths[:, candidates[best]]
        groups = [own[said[own] == label] for own in groups for label in np.unique(said[own])]
    return found


def _apart(paths: Ints, states: int) -> Floats:
    """Return (M, M): 1 − the overlap of the frames that two members give to a state, on average."""
    total = np.zeros((len(paths), len(paths)))
    for state in range(states):
        own = (paths == state).astype(np.float64)
        both, counts = own @ own.T, own.sum(axis=1)
        either = counts[:, None] + counts[None, :] - both
        total += 1 - np.where(either > 0, both / np.maximum(either, 1), 1)
    return total / states


def _left(apart: Floats, labels: Ints) -> Any:
    """(C,) for each candidate, the sum over members of how far they are from those that give the
    same answer."""
    total = np.zeros(labels.shape[1])
    for label in np.unique(labels):
        same = (labels == label).astype(np.float64)
        total += (same * (apart @ same)).sum(axis=0) / np.maximum(same.sum(axis=0), 1)
    return total


def _question(
    history: History, names: list[str | None], at: int, said: Ints, gain: float
) -> Question:
    share = np.bincount(said, minlength=len(names)) / len(said)
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
