"""LiveReading: features one frame at a time → the state now, what has ended and what has changed.

Every frame has all that is kept read again, as a whole history is read; only the calibration takes
in more: an object that has been in one state so far does not show how others look. So frames are
put before those that were seen, for mean, deviation and levels alone: the frames of a similar
history or, without one, as many of each state as the first one is waited for, in which it rises
above the mean by what the most similar state does now. At the end (``flush``) they are left out.

LiveRows are the frames that are kept, Announced what was said so far.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from dejacue.errors import InputError
from dejacue.method.coordinates import Coordinates, check_pair, query_directions
from dejacue.method.filling import filling_of
from dejacue.method.known_frames import Smoothing
from dejacue.method.localization import DEFAULT_READOUT, Plan
from dejacue.method.readout import Readout, times_and_source
from dejacue.method.state_readout import is_count, is_number
from dejacue.method.states import MIN_SCALE
from dejacue.method.timeline import Reading, ReadingView
from dejacue.records import History, Interval, Note, Timeline, Vocabulary, Window
from dejacue.records.arrays import Floats, Ints, as_array, feature_rows
from dejacue.records.fields import MAX_FRAME
from dejacue.records.timeline import Subject
from dejacue.records.update import Revision, Update

DELAY_S = 4.0
MIN_DEVIATIONS = 2  # of the smoothing that are observed before a state is named
ROUNDS = 2  # of labelling: half of those of a whole history, for as many frames named right
NOISE_S = 1e-6  # less than two times differ by
RATE = 5.0  # frames that count as a second, without times
UNKNOWN = -1  # the label of a frame that was not read yet
INTEGERS = ("frame", "source", "label", "since")  # since: where its stretch began, kept or not
NUMBERS = ("seconds", "since_s", "weight")  # sums ÷ weight: the smoothed cosines
LOOKS = 10  # times in a delay that occurrences are looked for


class LiveReading:
    """Tells the state of one object while it is being looked at; see ``push``.

    vocabulary   with features
    readout      of ``finish``; a timeline also says how frames are read until then, and contrast
                 how they are smoothed
    delay_s      seconds for which an occurrence stays the same before it is closed
    horizon_s    seconds that are kept and read; None: everything
    calibrate    a history of such an object, with which the calibration begins

    Without times, five frames count as a second. Nothing runs beside the calls: the same calls give
    the same answers.

    >>> live = LiveReading(Vocabulary({"up": ["up"], "down": ["down"]}, np.eye(2)))
    >>> for t in range(40):
    ...     update = live.push([1.0, 0.1] if t < 20 else [0.1, 1.0])
    >>> update.state, update.since
    ('down', 20)
    >>> [(interval.state, interval.start, interval.end) for interval in live.flush().closed]
    [('up', 0, 19), ('down', 20, 39)]
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        readout: str | Readout = DEFAULT_READOUT,
        coordinates: str | Coordinates | None = None,
        delay_s: float = DELAY_S,
        horizon_s: float | None = None,
        calibrate: History | None = None,
    ) -> None:
        plan = Plan.of(coordinates, readout)
        plan.check_examples(vocabulary)
        if plan.coordinates.centred_frames:
            raise InputError(
                f"{plan.coordinates.name} coordinates measure frames from the middle of a whole "
                "history; a live reading needs vocabulary, absolute or query-uniform coordinates"
            )
        if vocabulary.frame_examples or vocabulary.changes:
            raise InputError(
                "frames given as examples or changes need a complete history; "
                "a live reading takes pictures and frames of other histories"
            )
        if not is_number(delay_s):
            raise InputError("the delay must be 0 or more, in seconds")
        if horizon_s is not None and not is_number(horizon_s, NOISE_S):
            raise InputError("the horizon must be more than 0, in seconds")
        self.vocabulary, self.delay_s, self.horizon_s = vocabulary, delay_s, horizon_s
        self._plan, rules = plan, plan.readout
        if not isinstance(rules, Reading):  # of contrast: smoothing as there
            names = ("smoothing_s", "width", "bridge")
            rules = Reading(
                **{name: getattr(rules, name) for name in names if hasattr(rules, name)}
            )
        self._rules = rules
        directions = query_directions(vocabulary, plan.coordinates, 1.0).states
        if len(directions) == 1:  # beside a single state there is none of it
            directions = np.concatenate([directions, -directions])
        self._rows, self._names = LiveRows(directions, horizon_s), [*vocabulary.states, None]
        self._dimension = directions.shape[1]
        self._prior: tuple[Floats, Ints] | None = None  # smoothed cosines and labels
        if calibrate is not None:
            check_pair(calibrate, vocabulary)
            view = self._view(calibrate)
            responses, centre, scale = view.smoothed
            self._prior = responses * scale[:, None] + centre[:, None], view.path_of_words
        self.observed = 0
        self._now: tuple[int, float | None] | None = None
        self._waits, self._deviation, self._evidence = 0, 0.0, np.empty(0)
        self._find: Callable[[], Sequence[Interval]] = list  # what the last reading found
        self._looked_s, self._announced = -math.inf, Announced()

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
        at, row = self._checked(features, frame, time_s)
        self._now, revised = (at, time_s), tuple[Revision, ...]()
        if row is not None:
            self._rows.append(row, at, time_s, at if source is None else source)
            self.observed += 1
            revised = self._read_again()
        return self._update(row is not None, revised)

    def flush(self) -> Update:
        """Read what is kept as ``find`` does, close all that is found, and return what changed."""
        if self._now is None or not self._rows.features:
            return Update(*(self._now or (0, None)))
        self._waits, history = 0, self.history()
        timeline = self._plan.analyse(self._view(history))
        labels = np.array([self._names.index(name) for name in timeline.labels])
        revised = self._take(history, labels, lambda: timeline.intervals)
        return self._update(self._now[0] == history.frames[-1], revised, ending=True)

    def history(self, id: str = "live", **details: Any) -> History:
        """Return what was observed, as far as it is kept; details: what else a History
        takes."""
        if not self._rows.features:
            problem = "the object was not seen in any frame; is it where the box or the masks say?"
            raise InputError(problem)
        about = {"encoder": self.vocabulary.encoder, **details}
        return self._rows.history(np.stack(self._rows.features), id, **about)

    def finish(self, history: History | None = None) -> Timeline:
        """Return what ``analyse`` says of the history: the offline answer for what is kept.

        history   as ``history()`` gives it, where it is there already
        """
        view = self._plan.view(history or self.history(), self.vocabulary)
        timeline = self._plan.analyse(view, hints=True)
        if not self.forgotten:
            return timeline
        kept = f"the last {len(self._rows.features)} of {self.observed} observed frames are kept"
        text = f"only {kept}, and nothing before them was read; a longer horizon keeps more"
        return timeline.replace(notes=(*timeline.notes, Note(text, "information")))

    @property
    def forgotten(self) -> int:
        """Return the number of observed frames that are no longer kept."""
        return self.observed - len(self._rows.features)

    def _checked(
        self, features: ArrayLike | None, frame: int | None, time_s: float | None
    ) -> tuple[int, NDArray[Any] | None]:
        """Return number and features of a frame; refuse one that is not after the last."""
        before, then_s = self._now or (-1, time_s)
        at = before + 1 if frame is None else frame
        if not is_count(at, before + 1) or at > MAX_FRAME:
            problem = f"frame {frame!r} does not follow frame {before}"
            raise InputError(f"{problem}; give whole numbers in order, each one once")
        if (time_s is None) != (then_s is None):
            raise InputError(f"frame {at}: give the times of all frames, or of none")
        if time_s is not None and not is_number(time_s, -np.inf):
            raise InputError(f"frame {at}: the time {time_s!r} is not a number of seconds")
        if time_s is not None and then_s is not None and time_s < then_s:
            problem = f"times run backwards, {time_s:.3f} s comes after {then_s:.3f} s"
            raise InputError(f"frame {at}: {problem}; start a new reading when a stream restarts")
        if features is None:
            return int(at), None
        what, expected = f"frame {at}: features", self._dimension
        row = feature_rows(as_array(features, what)[None], what)[0]
        if len(row) != expected:
            problem = f"{what} have {len(row)} dimensions, but the vocabulary has {expected}"
            raise InputError(f"{problem}; encode both with the same encoder")
        return int(at), row

    def _view(self, history: History) -> ReadingView:
        plan = self._plan
        return ReadingView(self._rules, history, self.vocabulary, plan.coordinates, plan.engine)

    def _read_again(self) -> tuple[Revision, ...]:
        """Read all that is kept, and return what changed before the last frame."""
        kept, rules = self._rows.table, self._rules
        history = self._rows.history(np.ones((len(kept), 1), np.float32))
        self._deviation = rules.deviation(history)
        self._rows.smooth(rules.smoothing_of(history))
        if self._prior is None:
            needed = math.ceil(MIN_DEVIATIONS * self._deviation) or 1
            self._waits = max(0, needed - self.observed)
            if self._waits:
                return ()
            self._prior = supposed(kept["cosines"].mean(axis=0, dtype=float), needed)
        smoothed, prior = self._prior
        rows = np.concatenate([smoothed, (kept["sums"] / kept["weight"][:, None]).T], axis=1)
        rows -= rows.mean(axis=1, keepdims=True)
        scale = np.sqrt(np.einsum("sn,sn->s", rows, rows) / rows.shape[1])
        rows /= np.maximum(scale, MIN_SCALE)[:, None]
        before, first, filling = len(prior), kept["label"][0], filling_of(history)
        read = self._plan.engine, self.vocabulary, filling, rules.bounds(history)
        labels = prior
        for _ in range(ROUNDS):
            gains = rows[:, before:] - levels(rows, labels)[:, None]
            if self.forgotten and 0 <= first < len(gains):  # another state there is a switch
                gains[first, 0] += rules.cost(rows.shape[1])
            path, _ = rules.path(*read, gains, rounds=1, elsewhere=before)
            observed = path if filling is None else path[filling.observed]
            labels = np.concatenate([prior, observed])
        self._evidence = rows[:, -1]
        evidence = rows[:, before:]

        def find() -> Sequence[Interval]:
            windows, frames = rules.windows_of(*read, evidence, path), history.frames
            assert windows.state is not None
            columns: dict[str, NDArray[Any]] = {
                "state": windows.state,
                "start": frames[windows.start],
                "end": frames[windows.end],
                "score": windows.score,
                **times_and_source(self._view(history), windows),
            }
            return Timeline([Subject("live", None, self.vocabulary.states)], columns).intervals

        return self._take(history, observed, find)

    def _take(
        self, history: History, labels: Ints, find: Callable[[], Sequence[Interval]]
    ) -> tuple[Revision, ...]:
        """Take what was read as what is known, and return where it is not what was announced."""
        was = self._rows.label(labels, self._rules.bounds(history)[:-1])
        if was[-1] == UNKNOWN:
            was[-1] = labels[-1]  # the state of a new frame is said beside
        self._find = find
        return revisions(history.frames, was, labels, self._names)

    def _update(self, seen: bool, revised: tuple[Revision, ...], *, ending: bool = False) -> Update:
        """Return what is known now; ``ending``: without the delay, borders exactly as they are."""
        assert self._now is not None
        if self._waits or not self.observed:
            return Update(*self._now, waits=self._waits)
        changes: tuple[Sequence[Interval], Sequence[Interval]] = (), ()
        frame, time_s = self._now
        now_s, delay_s = frame / RATE if time_s is None else time_s, 0.0 if ending else self.delay_s
        first, last = self._rows.table[0], self._rows.table[-1]
        if ending or not seen or now_s - self._looked_s >= delay_s / LOOKS:
            self._looked_s = now_s  # the last stretch goes on where the object is seen
            found = [i for i in self._find() if ending or not seen or i.end < last["since"]]
            if found and found[0].start == first["frame"] > first["since"]:
                start_s = None if found[0].start_s is None else float(first["since_s"])
                found[0] = replace(found[0], start=int(first["since"]), start_s=start_s)
            slack = 0.0 if ending else self._deviation
            changes = self._announced.changes(found, int(first["frame"]), slack, now_s, delay_s)
        state = self._names[last["label"]] if seen else None
        since = None if state is None else int(last["since"])
        evidence = zip(self.vocabulary.states, self._evidence.tolist(), strict=False)
        closed, withdrawn = map(tuple, changes)
        known = dict(evidence) if seen else {}
        return Update(*self._now, state, since, known, closed, withdrawn, revised)


class LiveRows:
    """Observed frames, the oldest first; ``table`` has a row for each of the ``features``.

    directions   (R, d) of the states
    horizon_s    seconds that are kept; None: everything

    >>> rows = LiveRows(np.eye(2, dtype=np.float32), horizon_s=1.0)
    >>> for frame in range(9):
    ...     rows.append(np.array([3, 4], np.float32), frame, None, frame)
    >>> rows.table["frame"].tolist(), rows.table["cosines"][-1].astype(float).round(3).tolist()
    ([4, 5, 6, 7, 8], [0.6, 0.8])
    """

    def __init__(self, directions: NDArray[np.float32], horizon_s: float | None) -> None:
        self._directions, self._horizon_s, self._timed = directions, horizon_s, False
        self.features: deque[NDArray[Any]] = deque()
        columns: list[Any] = [(name, np.int64) for name in INTEGERS]
        columns += [(name, np.float64) for name in NUMBERS]
        states = len(directions)
        columns += [("cosines", np.float32, states), ("sums", np.float64, states)]
        self.table = np.empty(0, columns)

    def append(self, row: NDArray[Any], frame: int, time_s: float | None, source: int) -> None:
        """Add a frame, and forget what is older than the horizon."""
        table, old, self._timed = self.table, 0, time_s is not None
        seconds = frame / RATE if time_s is None else time_s
        if self._horizon_s is not None:
            old = int(np.searchsorted(table["seconds"], seconds - self._horizon_s + NOISE_S))
        wide, new = row.astype(np.float32), np.zeros(1, table.dtype)
        new["cosines"] = self._directions @ wide / np.linalg.norm(wide)
        new["frame"], new["source"], new["seconds"], new["label"] = frame, source, seconds, UNKNOWN
        self.table = np.concatenate([table[old:], new])
        for _ in range(old):
            self.features.popleft()
        self.features.append(row)

    def history(self, features: NDArray[Any], id: str = "live", **about: Any) -> History:
        """Return the kept frames with these features."""
        frames, source, seconds = (self.table[name] for name in ("frame", "source", "seconds"))
        times_s = seconds if self._timed else None
        numbers = None if np.array_equal(source, frames) else source
        return History(features, frames, id, times_s=times_s, source_frames=numbers, **about)

    def smooth(self, smoothing: Smoothing) -> None:
        """Add the last frame to the sums of those that it is a neighbour of, and these to its."""
        (cuts, weights), frames = smoothing, self.table["frame"]
        first = max(int(np.searchsorted(frames, frames[-1] - len(weights) + 1)), int(cuts[-2]))
        near, last = self.table[first:], self.table[-1]
        share: Floats = weights[frames[-1] - frames[first:]]
        last["sums"], last["weight"] = share[:-1] @ near["cosines"][:-1], share[:-1].sum()
        near["sums"] += share[:, None] * last["cosines"]
        near["weight"] += share

    def label(self, labels: Ints, cuts: Ints) -> Ints:
        """Take labels, and return those before; cuts: positions at which a stretch begins."""
        table, was = self.table, self.table["label"].copy()
        edge = table[["since", "since_s"]][0].copy()
        begins = np.union1d(np.flatnonzero(np.diff(labels)) + 1, cuts)
        begin = begins[np.searchsorted(begins, np.arange(len(labels)), side="right") - 1]
        table["label"] = labels
        table["since"], table["since_s"] = table["frame"][begin], table["seconds"][begin]
        if was[0] == labels[0]:  # the first stretch may begin before what is kept
            table["since"][begin == 0], table["since_s"][begin == 0] = edge
        return was


def supposed(means: Floats, frames: int) -> tuple[Floats, Ints]:
    """Return smoothed cosines (S, S · frames) and their labels: each state for so many frames, as
    far above the mean as the highest of these means, and all others below.

    >>> rows, labels = supposed(np.array([0.0, 0.4]), 2)
    >>> rows.round(1).tolist(), labels.tolist()
    ([[0.4, 0.4, 0.0, 0.0], [0.0, 0.0, 0.4, 0.4]], [0, 0, 1, 1])
    """
    count, level = len(means), means.mean()
    labels, rise = np.repeat(np.arange(count), frames), means.max() - level
    inside = labels == np.arange(count)[:, None]
    return np.where(inside, level + rise, level - rise / (count - 1)), labels


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


class Announced:
    """The occurrences that were closed, and since when others are found instead.

    >>> announced, found = Announced(), [Interval("full", 3, 9, 1.0)]
    >>> announced.changes(found, 0, 2.0, now_s=10.0, delay_s=4.0)
    ([], [])
    >>> announced.changes(found, 0, 2.0, now_s=14.0, delay_s=4.0) == (found, [])
    True
    """

    def __init__(self) -> None:
        self._closed: list[Interval] = []  # as far as they are kept
        self._differs: dict[tuple[str, int, int], float] = {}  # since when

    def changes(
        self, found: Sequence[Interval], first: int, slack: float, now_s: float, delay_s: float
    ) -> tuple[list[Interval], list[Interval]]:
        """Return the occurrences that are closed now, and those that are withdrawn.

        found     what has ended
        first     frame that is kept; nothing is known of borders before it
        slack     frames by which the borders of one occurrence may differ
        delay_s   seconds for which a difference lasts before it is announced
        """

        def only_in(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
            windows = [(i.state, max(i.start, first), i.end) for i in others]
            return [
                i
                for i in some
                if not any(
                    i.state == state
                    and abs(max(i.start, first) - start) <= slack
                    and abs(i.end - end) <= slack
                    for state, start, end in windows
                )
            ]

        known = [i for i in self._closed if i.end >= first]
        changed = only_in(found, known), only_in(known, found)
        keys = [(i.state, i.start, i.end) for some in changed for i in some]
        self._differs = {key: self._differs.get(key, now_s) for key in keys}
        due = {k for k, since_s in self._differs.items() if now_s - since_s >= delay_s - NOISE_S}
        closed, withdrawn = (
            [i for i in some if (i.state, i.start, i.end) in due] for some in changed
        )
        self._closed = [i for i in known if i not in withdrawn] + closed
        return closed, withdrawn


def revisions(
    frames: Ints, before: Ints, now: Ints, names: Sequence[str | None]
) -> tuple[Revision, ...]:
    """Return where labels have changed, in stretches; names: of the labels, −1 is the last.

    >>> labels = np.array([[0, 0, 0, 1], [0, 1, 1, 1]])
    >>> revisions(np.array([3, 4, 5, 7]), *labels, ["empty", "full", None])
    (Revision(window=Window(start=4, end=5), was='empty', now='full'),)
    """
    at = np.flatnonzero(before != now)
    columns = at - np.arange(len(at)), before[at], now[at], frames[at]
    revised = []
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for (_, was, label), part in groupby(rows, lambda row: row[:3]):
        window = [row[3] for row in part]
        if names[was] != names[label]:
            revised.append(Revision(Window(window[0], window[-1]), names[was], names[label]))
    return tuple(revised)
