"""LiveReading: features one frame at a time → the state now, what has ended and what has changed.

Every frame has all that is kept read again, as a whole history is read. Only the calibration takes
in more: an object that has been in one state so far does not show how others look. So frames are
put before those that were seen, for mean, deviation and levels alone: the frames of a similar
history or, without one, as many of each state as the first one is waited for, in which it rises
above the mean by what the most similar state does now. At the end (``flush``) they are left out.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from dejacue.errors import InputError
from dejacue.method._timelines import times_and_source
from dejacue.method.coordinates import Coordinates, check_pair, query_directions
from dejacue.method.filling import filling_of
from dejacue.method.kernel import Answers, Ragged
from dejacue.method.plan import DEFAULT_READOUT, Plan
from dejacue.method.readout import Readout
from dejacue.method.state_readout import StateReadout, is_count, is_number
from dejacue.method.states import MIN_SCALE
from dejacue.method.timeline import Reading, ReadingView
from dejacue.records import History, Interval, Note, Timeline, Vocabulary, Window
from dejacue.records.arrays import NORM_RANGE, Flags, Floats, Ints, as_array
from dejacue.records.fields import MAX_FRAME
from dejacue.records.update import Revision, Update

DELAY_S = 4.0
RATE = 5.0  # frames that count as a second, without times
MIN_DEVIATIONS = 2  # of the smoothing that are observed before a state is named
ROUNDS = 2  # of labelling: half of those of a whole history, for as many frames named right
LOOKS = 10  # times in a delay that occurrences are looked for
NOISE_S = 1e-6  # less than two times differ by
UNKNOWN = -1  # the label of a frame that was not read yet


class LiveReading:
    """Tells the state of one object while it is being looked at; see ``push``.

    vocabulary   with features
    readout      of ``finish``; a timeline also says how frames are read until then, and contrast
                 how they are smoothed
    delay_s      seconds for which an occurrence stays the same before it is closed
    horizon_s    seconds that are kept and read; None: everything
    like         a history of such an object, with which the calibration begins

    Without times, five frames count as a second. Nothing runs beside the calls: the same calls give
    the same answers.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        readout: str | Readout = DEFAULT_READOUT,
        coordinates: str | Coordinates | None = None,
        delay_s: float = DELAY_S,
        horizon_s: float | None = None,
        like: History | None = None,
    ) -> None:
        plan = Plan.of(coordinates, readout, None, False, "auto")
        self.vocabulary, self._plan, self._rules = vocabulary, plan, _rules_of(plan)
        plan.check_examples(vocabulary)
        if vocabulary.frame_examples or vocabulary.changes:
            raise InputError(
                "frames given as examples or changes need a complete history; "
                "a live reading takes pictures and frames of other histories"
            )
        if not is_number(delay_s):
            raise InputError("the delay must be 0 or more, in seconds")
        if horizon_s is not None and not is_number(horizon_s, NOISE_S):
            raise InputError("the horizon must be more than 0, in seconds")
        self.delay_s, self.horizon_s = delay_s, horizon_s
        directions = query_directions(vocabulary, plan.coordinates, 1.0).states
        if len(directions) == 1:  # beside a single state there is none of it
            directions = np.concatenate([directions, -directions])
        self._directions, self._names = directions, [*vocabulary.states, None]
        self._features: deque[NDArray[Any]] = deque()
        self._columns: dict[str, NDArray[Any]] = {  # of what is kept; seconds: 5 frames, untimed
            **dict.fromkeys(("frames", "source", "labels"), np.empty(0, np.int64)),
            "seconds": np.empty(0),
            "cosines": np.empty((len(directions), 0), np.float32),
            "smoothed": np.empty((len(directions), 0)),
        }
        self._before: tuple[Floats, Ints] | None = None  # smoothed frames and their labels
        if like is not None:
            check_pair(like, vocabulary)
            tables = self._view(like).seen[1]
            smoothed = tables.responses[0] * tables.scale[:, None] + tables.centre[:, None]
            self._before = smoothed, tables.paths[0]
        self.observed, self._waits = 0, 0
        self._now: tuple[int, float | None] | None = None
        self._read: tuple[History, Callable[[], Answers]] | None = None
        self._looked_s = -math.inf  # when occurrences were looked for
        self._begins = np.zeros(1, np.int64)  # positions at which stretches of a label begin
        self._edge: tuple[int, int, float] | None = None  # label and beginning of a cut stretch
        self._evidence = np.empty(0)
        self._reported: list[Interval] = []  # closed, as far as they are kept
        self._differs: dict[tuple[str, int, int], float] = {}  # since when it is to change

    def push(
        self,
        features: ArrayLike | None = None,
        *,
        frame: int | None = None,
        time_s: float | None = None,
        source: int | None = None,
    ) -> Update:
        """Take the next frame: its features (d,), or None where the object is not seen.

        frame    its number; default: one more than the last. Those that are left out count as not
                 seen
        time_s   its time: of every frame, or of none
        source   its number in a file, where that is another one; kept for the history

        What is refused changes nothing.
        """
        at = self._checked(frame, time_s)
        seen = None if features is None else self._row(features, at)
        self._now, revised = (at, time_s), list[Revision]()
        if seen is not None:
            self._keep(*seen, at, at if source is None else source)
            revised = self._read_again()
        return self._update(seen is not None, revised, ending=False)

    def flush(self) -> Update:
        """Read what is kept as ``find`` does, close all that is found, and return what changed."""
        if self._now is None or not self._features:
            return Update(*(self._now or (0, None)))
        history = self.history()
        answers, tables = self._view(history).seen
        revised = self._take(history, lambda: answers, tables.paths[0])
        return self._update(self._now[0] == history.frames[-1], revised, ending=True)

    def history(self, id: str = "live", **details: Any) -> History:
        """Return what was observed, as far as it is kept; details: what else a History
        takes."""
        if not self._features:
            problem = "the object was not seen in any frame; is it where the box or the masks say?"
            raise InputError(problem)
        about = {"encoder": self.vocabulary.encoder, **details}
        return self._history_of(np.stack(self._features), id, **about)

    def finish(self, history: History | None = None) -> Timeline:
        """Return what ``analyse`` says of the history: the offline answer for what is kept.

        history   as ``history()`` gives it, where it is there already
        """
        view = self._plan.view(history or self.history(), self.vocabulary)
        timeline = self._plan.analyse(view, hints=True)
        if not self.forgotten:
            return timeline
        note = Note(
            f"only the last {len(self._features)} of {self.observed} observed frames are kept, and "
            "nothing before them was read; a longer horizon keeps more",
            "information",
        )
        return timeline.replace(notes=(*timeline.notes, note))

    @property
    def forgotten(self) -> int:
        """Return the number of observed frames that are no longer kept."""
        return self.observed - len(self._features)

    def _checked(self, frame: int | None, time_s: float | None) -> int:
        """Return the number of the frame; refuse one that is not after the last."""
        before, then_s = self._now or (-1, None)
        at, problem = before + 1 if frame is None else frame, None
        if not is_count(at, 0) or at > MAX_FRAME:
            problem = f"frame {frame!r} is not a whole number, 0 or more"
        elif at <= before:
            problem = f"frame {at} comes after frame {before}; give frames in order, each one once"
        if problem is not None:
            raise InputError(problem)
        if time_s is not None and not is_number(time_s, -np.inf):
            problem = f"the time {time_s!r} is not a number of seconds"
        elif self._now is not None and (time_s is None) != (then_s is None):
            problem = "give the times of all frames, or of none"
        elif time_s is not None and then_s is not None and time_s < then_s:
            problem = (
                f"times run backwards, {time_s:.3f} s comes after {then_s:.3f} s; start a new "
                "reading when a stream restarts"
            )
        if problem is not None:
            raise InputError(f"frame {at}: {problem}")
        return int(at)

    def _row(self, features: ArrayLike, frame: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a row as a history keeps it, and its cosines with the states (S, 1)."""
        what = f"frame {frame}: features"
        array, expected = as_array(features, what), self._directions.shape[1]
        if array.dtype.kind not in "fiu":
            raise InputError(f"{what} must be a single row of numbers, not {array.dtype}")
        if array.shape != (expected,):
            raise InputError(
                f"{what} have shape {array.shape}, but the vocabulary has {expected} dimensions; "
                "encode both with the same encoder"
            )
        with np.errstate(over="ignore", invalid="ignore"):  # named below
            row = array.astype(np.float16 if array.dtype == np.float16 else np.float32)
            wide = row.astype(np.float32, copy=False)
            length = float(np.sqrt(np.vdot(wide, wide)))
        if not NORM_RANGE[0] < length < NORM_RANGE[1]:
            reason = "zero" if length <= NORM_RANGE[0] else "not finite, or too large"
            raise InputError(f"{what} are {reason}; encode the frame again, or push None instead")
        return row, (self._directions @ wide / length)[:, None]

    def _keep(self, row: NDArray[Any], cosines: NDArray[Any], frame: int, source: int) -> None:
        """Add a frame to what is kept, and forget what is older than the horizon."""
        columns, seconds, old = self._columns, self._seconds(), 0
        if self.horizon_s is not None:
            old = int(np.searchsorted(columns["seconds"], seconds - self.horizon_s + NOISE_S))
        if old:
            begin = int(self._begins[self._begins <= old][-1])
            if old in (begin, len(self._features)):
                self._edge = None
            elif begin or self._edge is None:
                began = (columns[name][begin].item() for name in ("labels", "frames", "seconds"))
                self._edge = next(began), next(began), next(began)
        new = {"frames": [frame], "source": [source], "labels": [UNKNOWN], "seconds": [seconds]}
        new |= {"cosines": cosines, "smoothed": cosines}
        for name, values in new.items():
            kept = columns[name][..., old:]
            columns[name] = np.concatenate([kept, np.asarray(values, kept.dtype)], axis=-1)
        for _ in range(old):
            self._features.popleft()
        self._features.append(row)
        self.observed += 1

    def _seconds(self) -> float:
        frame, time_s = self._now or (0, None)
        return frame / RATE if time_s is None else float(time_s)

    def _history_of(self, features: NDArray[Any], id: str = "live", **about: Any) -> History:
        """Return the kept frames with these features."""
        timed = self._now is not None and self._now[1] is not None
        frames, source = self._columns["frames"], self._columns["source"]
        return History(
            features,
            frames,
            id,
            times_s=self._columns["seconds"] if timed else None,
            source_frames=None if np.array_equal(source, frames) else source,
            **about,
        )

    def _view(self, history: History) -> ReadingView:
        plan = self._plan
        return ReadingView(self._rules, history, self.vocabulary, plan.coordinates, plan.engine)

    def _read_again(self) -> list[Revision]:
        """Read all that is kept, and return what changed before the last frame."""
        history = self._history_of(np.ones((len(self._features), 1), np.float32))
        self._smooth(history)
        smoothed = self._columns["smoothed"]
        if self._before is None:
            needed = math.ceil(MIN_DEVIATIONS * self._rules.deviation(history)) or 1
            self._waits = max(0, needed - self.observed)
            if self._waits:
                return []
            self._before = supposed(self._columns["cosines"].mean(axis=1, dtype=float), needed)
        before, labels = self._before
        count, filling = len(labels), filling_of(history)
        rows = np.concatenate([before, smoothed], axis=1)
        standardise(rows)
        read = self._plan.engine, self.vocabulary, filling, self._rules.bounds(history)
        first = self._columns["labels"][0]
        for _ in range(ROUNDS):
            gains = rows[:, count:] - levels(rows, labels)[:, None]
            if self.forgotten and first != UNKNOWN:  # another state there is a switch
                gains[first, 0] += self._rules.cost(len(smoothed[0]) + count)
            path, _ = self._rules.path(*read, gains, rounds=1, elsewhere=count)
            observed = path if filling is None else path[filling.observed]
            labels = np.concatenate([self._before[1], observed])
        self._evidence = rows[:, -1]
        evidence = rows[:, count:]
        return self._take(
            history, lambda: self._rules.answers_of(history, *read, evidence, path), observed
        )

    def _smooth(self, history: History) -> None:
        """Smooth the last frame, and those before it that it is a neighbour of."""
        cuts, weights = self._rules.smoothing_of(history)
        frames, reach = history.frames, len(weights) - 1
        first = int(np.searchsorted(frames, frames[-1] - reach))
        start = int(np.searchsorted(frames, frames[first] - reach))
        part = History(history.features[start:], frames[start:])
        cosines = np.ascontiguousarray(self._columns["cosines"][:, start:])
        queries, inside = np.ones((len(cosines), 1), np.float32), np.unique((cuts - start).clip(0))
        table = Ragged([part], [queries], [inside], [weights])
        (rows,), centre, scale = self._plan.engine.smooth(table, [cosines])
        smoothed = rows[:, first - start :] * scale[:, None] + centre[:, None]
        self._columns["smoothed"][:, first:] = smoothed

    def _take(
        self, history: History, answers: Callable[[], Answers], labels: Ints
    ) -> list[Revision]:
        """Take what was read as what is known, and return where it is not what was announced."""
        was, self._columns["labels"] = self._columns["labels"], labels
        begins = np.flatnonzero(np.diff(labels)) + 1
        self._begins = np.union1d(begins, self._rules.bounds(history)[:-1])
        self._read = history, answers
        if self._edge is not None and self._edge[0] != labels[0]:
            self._edge = None
        new = was[-1] == UNKNOWN and self._now is not None and history.frames[-1] == self._now[0]
        last = len(labels) - new  # the state of a new frame is said beside
        at = np.flatnonzero(was[:last] != labels[:last])
        apart = (np.diff(at) > 1) | (np.diff(was[at]) != 0) | (np.diff(labels[at]) != 0)
        revised = list[Revision]()
        for part in np.split(at, np.flatnonzero(apart) + 1) if len(at) else []:
            before, now = self._names[was[part[0]]], self._names[labels[part[0]]]
            if before != now:
                window = Window(*history.frames[part[[0, -1]]].tolist())
                revised.append(Revision(window, before, now))
        return revised

    def _update(self, seen: bool, revised: Sequence[Revision], ending: bool) -> Update:
        """Return what is known now; ``ending``: without the delay."""
        frame, time_s = self._now or (0, None)
        if self._read is None:
            return Update(frame, time_s, waits=self._waits if self.observed else 0)
        changes: tuple[tuple[Interval, ...], tuple[Interval, ...]] = ((), ())
        if ending or not seen or self._seconds() - self._looked_s >= self.delay_s / LOOKS:
            changes = self._changed(seen, ending)
        state = self._names[self._columns["labels"][-1]] if seen else None
        evidence = zip(self.vocabulary.states, self._evidence.tolist(), strict=False)
        return Update(
            frame,
            time_s,
            state,
            None if state is None else self._since(),
            dict(evidence) if seen else {},
            *changes,
            tuple(revised),
        )

    def _changed(
        self, seen: bool, ending: bool
    ) -> tuple[tuple[Interval, ...], tuple[Interval, ...]]:
        """Return the occurrences that are closed now, and those that are withdrawn."""
        assert self._read is not None
        since, seconds, history = self._since(), self._seconds(), self._read[0]
        self._looked_s = seconds
        # the last stretch goes on where the object is seen
        occurrences = [i for i in self._occurrences() if ending or not seen or i.end < since]
        reported = [i for i in self._reported if i.end >= history.frames[0]]
        slack = 0.0 if ending else self._rules.deviation(history)
        same = self._same(reported, occurrences, slack)
        gone = [reported[at] for at in np.flatnonzero(~same.any(axis=1))]
        new = [occurrences[at] for at in np.flatnonzero(~same.any(axis=0))]
        keys = [(i.state, i.start, i.end) for i in (*gone, *new)]
        self._differs = {key: self._differs.get(key, seconds) for key in keys}
        wait_s = 0.0 if ending else self.delay_s - NOISE_S
        due = [seconds - self._differs[key] >= wait_s for key in keys]
        withdrawn = tuple(compress(gone, due))
        closed = tuple(compress(new, due[len(gone) :]))
        self._reported = [i for i in reported if i not in withdrawn] + list(closed)
        return closed, withdrawn

    def _same(self, reported: list[Interval], occurrences: list[Interval], slack: float) -> Flags:
        """Return (T, F) which occurrences are the same one: of one state, with borders that differ
        by no more than the slack. A border that is no longer kept is no other one."""
        first, second = (
            np.array([(self._names.index(i.state), i.start, i.end) for i in intervals], np.int64)
            for intervals in (reported, occurrences)
        )
        apart = np.abs(first.reshape(-1, 1, 3) - second.reshape(-1, 3))
        apart[[i.start < self._columns["frames"][0] for i in reported], :, 1] = 0
        near: Flags = (apart <= (0, slack, slack)).all(axis=2)
        return near

    def _since(self) -> int:
        """Return the frame at which the last stretch begins, which may be kept no longer."""
        if self._edge is not None and not self._begins[-1]:
            return self._edge[1]
        return int(self._columns["frames"][self._begins[-1]])

    def _occurrences(self) -> list[Interval]:
        """Return the occurrences in what was read."""
        assert self._read is not None
        history, answers = self._read[0], self._read[1]()
        assert answers.state is not None
        count, names = len(answers.start), list(self.vocabulary.states)
        subject, view = np.zeros(count, np.int64), self._view(history)
        times = times_and_source(view, subject, answers, np.arange(count))
        columns = {"start": answers.first, "end": answers.last, "score": answers.score, **times}
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        occurrences = [  # without the end in seconds of a single frame, which is not a number
            Interval(names[label], **{n: v for n, v in zip(columns, row, strict=True) if v == v})
            for label, row in zip(answers.state.tolist(), rows, strict=True)
        ]
        if self._edge is not None and occurrences and occurrences[0].start == history.frames[0]:
            start_s = None if history.times_s is None else self._edge[2]
            occurrences[0] = replace(occurrences[0], start=self._edge[1], start_s=start_s)
        return occurrences


def supposed(means: Floats, frames: int) -> tuple[Floats, Ints]:
    """Return smoothed cosines (S, S · frames) and their labels: each state for so many frames, as
    far above the mean as the highest of these means, and all others below."""
    count, level = len(means), means.mean()
    labels, rise = np.repeat(np.arange(count), frames), means.max() - level
    inside = labels == np.arange(count)[:, None]
    return np.where(inside, level + rise, level - rise / (count - 1)), labels


def standardise(rows: Floats) -> None:
    """Give rows the mean 0 and the deviation 1, in place."""
    rows -= rows.mean(axis=1, keepdims=True)
    scale = np.sqrt(np.einsum("sn,sn->s", rows, rows) / rows.shape[1])
    rows /= np.maximum(scale, MIN_SCALE)[:, None]


def levels(rows: Floats, labels: Ints) -> Floats:
    """Return half way between the means of each row inside its state and outside; 0 where one is
    empty. The rows have mean 0, and those after the labels are outside."""
    count, states = rows.shape[1], len(rows)
    inside = np.bincount(labels, minlength=states)
    total = np.bincount(labels, rows[labels, np.arange(len(labels))], states)
    both = (inside > 0) & (inside < count)
    apart = 1 / np.maximum(inside, 1) - 1 / np.maximum(count - inside, 1)
    halves: Floats = np.where(both, total * apart / 2, 0.0)
    return halves


def _rules_of(plan: Plan) -> Reading:
    """Return the reading of frames until the readout of the plan has all of them."""
    if plan.coordinates.centred_frames:
        raise InputError(
            f"{plan.coordinates.name} coordinates measure frames from the middle of a whole "
            "history; a live reading needs vocabulary, absolute or query-uniform coordinates"
        )
    readout = plan.readout
    if isinstance(readout, Reading) or not isinstance(readout, StateReadout):
        return readout if isinstance(readout, Reading) else Reading()
    return Reading(smoothing_s=readout.smoothing_s, width=readout.width, bridge=readout.bridge)
