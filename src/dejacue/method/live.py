"""LiveReading: features one frame at a time → the state now, and windows as they close.

The same evidence as offline, as far as it is known: cosines with the states' directions, smoothed
over time, brought to mean 0 and deviation 1 of what was seen so far, and labelled by the best path
through the states. Three things differ, because the future is not known:

    smoothing     of a frame waits for one deviation of later frames, not four
    calibration   is that of the frames so far, and begins with plain similarity
    labels        are settled when every path that may still win agrees, or after the delay

Labels that are not settled may change, and every change is announced. A frame costs the same
whatever went before it, and ``finish`` reads what was kept exactly as offline.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dejacue.errors import InputError
from dejacue.method._online_labelling import Calibration, Labeller, Update
from dejacue.method.coordinates import Coordinates, check_pair, query_directions
from dejacue.method.kernel import engine
from dejacue.method.localization import analyse
from dejacue.method.plan import DEFAULT_READOUT, Plan
from dejacue.method.readout import Readout, View
from dejacue.method.state_readout import (
    FRAMES_WITHOUT_TIMES,
    SMOOTHING_S,
    StateReadout,
    is_count,
    is_number,
)
from dejacue.method.timeline import Reading
from dejacue.records import History, Note, Timeline, Vocabulary
from dejacue.records.arrays import NORM_RANGE, Floats, as_array
from dejacue.records.history import MAX_FRAME

DELAY_S = 4.0
INTERVAL_S = SMOOTHING_S / FRAMES_WITHOUT_TIMES  # what a frame is taken to last without times
MAX_WIDTH_FRAMES = 250.0  # deviation of the smoothing: 0.8 s at more than 300 frames a second
MIN_DEVIATIONS = 2  # of the smoothing that are observed before a state is named
MIN_RATE_FRAMES = 5  # that tell the rate, where the calibration is known


class LiveReading:
    """Tells the state of one object while it is being looked at; see ``push``.

    vocabulary         with features
    readout            of ``finish``; timeline and contrast also give smoothing and bridging, and
                       timeline the cost of a switch and the order of states
    delay_s, delay     after which the state of a frame is settled at the latest, in seconds or,
                       instead, in frames (without times five frames count as a second)
    horizon_s, horizon how much is kept for ``finish``, and how much the calibration looks back;
                       None: everything
    like               a history of such an object, with which the calibration begins; without one
                       the first state that is named is the most similar one, no more

    Nothing runs beside the calls: the same calls give the same answers.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        readout: str | Readout = DEFAULT_READOUT,
        coordinates: str | Coordinates | None = None,
        delay_s: float = DELAY_S,
        delay: int | None = None,
        horizon_s: float | None = None,
        horizon: int | None = None,
        like: History | None = None,
    ) -> None:
        plan = Plan.of(coordinates, readout, None, False, "auto")
        self.vocabulary, self.readout, self.coordinates = vocabulary, plan.readout, plan.coordinates
        self._rules = _labelling_of(plan)
        plan.check_examples(vocabulary)
        if vocabulary.frame_examples or vocabulary.changes:
            raise InputError(
                "frames given as examples or changes need a complete history; "
                "a live reading takes pictures and frames of other histories"
            )
        self._directions = query_directions(vocabulary, plan.coordinates, 1.0).states
        self._names: list[str | None] = list(vocabulary.states)
        if len(self._names) == 1:  # beside a single state there is none of it
            self._directions = np.concatenate([self._directions, -self._directions])
            self._names.append(None)
        if not is_number(delay_s) or not (delay is None or is_count(delay, 0)):
            raise InputError("the delay must be 0 or more, in seconds or in frames")
        if not (horizon_s is None or is_number(horizon_s, 1e-9)) or not (
            horizon is None or is_count(horizon, 1)
        ):
            raise InputError("the horizon must be more than 0, in seconds or in frames")
        self._delay_s, self._horizon_s = delay_s, horizon_s
        self.delay, self.horizon = delay, horizon
        self._like, self._nodes = like, self._rules.nodes(vocabulary)
        self._labeller: Labeller | None = None
        self._early: list[tuple[int, float | None, Floats]] = []  # before the rate is known
        self._rows: deque[tuple[int, float | None, NDArray[Any], int]]
        self._rows = deque(maxlen=horizon)
        self.observed = 0
        self._now: tuple[int, float | None] | None = None
        if like is not None:
            check_pair(like, vocabulary)

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
        if features is None:
            self._now = (at, time_s)
            return self._next(at, time_s, None)
        row, cosines = self._cosines(features, at)
        self._now = (at, time_s)
        self._rows.append((at, time_s, row, at if source is None else source))
        self.observed += 1
        return self._next(at, time_s, cosines)

    def flush(self) -> Update:
        """Settle all labels and close the last window, as when nothing more comes; return what is
        known of the last frame."""
        frame, time_s = self._now or (0, None)
        if not self.observed:
            return Update(frame, time_s)
        seen = self._rows[-1][0] == frame
        return (self._labeller or self._begin()).conclude(frame, time_s, seen, ending=True)

    def history(self, id: str = "live", **details: Any) -> History:
        """Return what was observed, as far as it is kept; ``more`` as History takes it."""
        if not self._rows:
            problem = "the object was not seen in any frame; is it where the box or the masks say?"
            raise InputError(problem)
        frames, times, rows, source = zip(*self._rows, strict=True)
        times_s = None if times[0] is None else np.array(times)
        source_frames = None if source == frames else np.array(source)
        about = {"encoder": self.vocabulary.encoder, **details}
        return History(
            np.stack(rows),
            np.array(frames),
            id,
            times_s=times_s,
            source_frames=source_frames,
            **about,
        )

    def finish(self, history: History | None = None) -> Timeline:
        """Return what ``analyse`` says of the history: the offline answer for what is kept.

        history   as ``history()`` gives it, where it is there already
        """
        timeline = analyse(
            history or self.history(),
            self.vocabulary,
            readout=self.readout,
            coordinates=self.coordinates,
        )
        if not self.forgotten:
            return timeline
        note = Note(
            f"only the last {len(self._rows)} of {self.observed} observed frames are kept, and "
            "nothing before them was read; a longer horizon keeps more",
            "information",
        )
        return timeline.replace(notes=(*timeline.notes, note))

    @property
    def forgotten(self) -> int:
        """Return the number of observed frames that are no longer kept."""
        return self.observed - len(self._rows)

    def _checked(self, frame: int | None, time_s: float | None) -> int:
        """Return the number of the frame; refuse one that is not after the last."""
        before, then_s = self._now or (-1, None)
        at = before + 1 if frame is None else frame
        problem = None
        if not is_count(at, 0) or at > MAX_FRAME:
            problem = f"frame {frame!r} is not a whole number, 0 or more"
        elif at <= before:
            problem = f"frame {at} comes after frame {before}; give frames in order, each one once"
        if problem is not None:
            raise InputError(problem)
        if time_s is not None and not (is_number(time_s, -np.inf)):
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

    def _cosines(self, features: ArrayLike, frame: int) -> tuple[NDArray[Any], Floats]:
        """Return a row as a history keeps it, and its cosines with the states."""
        what = f"frame {frame}: features"
        array = as_array(features, what)
        if array.dtype.kind not in "fiu":
            raise InputError(f"{what} must be a single row of numbers, not {array.dtype}")
        expected = self._directions.shape[1]
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
        return row, (self._directions @ wide).astype(np.float64) / length

    def _next(self, frame: int, time_s: float | None, cosines: Floats | None) -> Update:
        labeller = self._labeller
        if labeller is not None:
            _feed(labeller, frame, time_s, cosines)
        else:
            self._early += [] if cosines is None else [(frame, time_s, cosines)]
            if not self._early or (waits := self._waits()):
                return Update(frame, time_s, waits=waits if self._early else 0)
            labeller = self._begin()
        return labeller.conclude(frame, time_s, seen=cosines is not None)

    def _waits(self) -> int:
        """Return how many more observed frames the calibration needs."""
        if self._like is None:
            needed = math.ceil(MIN_DEVIATIONS * self._width())
        else:
            needed = 1 if self._early[0][1] is None else MIN_RATE_FRAMES
        return max(0, needed - len(self._early))

    def _interval_s(self) -> float | None:
        """Return the seconds from one frame to the next, of those that came first."""
        if self._early[0][1] is None or len(self._early) < 2:
            return None
        frames, times, _ = zip(*self._early, strict=True)
        interval = float(np.median(np.diff(times) / np.diff(frames)))
        return interval if interval > 0 else None

    def _width(self) -> float:
        """Return the deviation of the smoothing in frames."""
        if self._rules.width is not None:
            return min(self._rules.width, MAX_WIDTH_FRAMES)
        interval = self._interval_s()
        wide = FRAMES_WITHOUT_TIMES if interval is None else self._rules.smoothing_s / interval
        return min(wide, MAX_WIDTH_FRAMES)

    def _begin(self) -> Labeller:
        """Make the labeller, with what the first frames say of the rate."""
        interval, width = self._interval_s() or INTERVAL_S, self._width()
        self.delay = round(self._delay_s / interval) if self.delay is None else self.delay
        if self.horizon is None and self._horizon_s is not None:
            self.horizon = max(1, round(self._horizon_s / interval))
            self._rows = deque(self._rows, maxlen=self.horizon)
        calibration = Calibration(len(self._names), self.horizon)
        if self._like is not None:
            self._learn(calibration, self._like)
        else:
            first = np.array([cosines for _, _, cosines in self._early])
            calibration.suppose(first, math.ceil(MIN_DEVIATIONS * width) or 1)
        bridge = self._rules.bridge
        self._labeller = Labeller(
            self._names,
            self._nodes,
            calibration,
            width=width,
            delay=self.delay,
            bridge=round(width) if isinstance(bridge, str) else bridge,
            switch=self._rules.switch,
        )
        for early in self._early:
            _feed(self._labeller, *early)
        self._early = []
        return self._labeller

    def _learn(self, calibration: Calibration, like: History) -> None:
        """Begin with the calibration of a history, labelled as offline."""
        view = View(like, self.vocabulary, self.coordinates, 1.0, engine("auto"))
        tables = self._rules.seen(view)[1]
        for row, state in zip(tables.responses[0].T, tables.paths[0].tolist(), strict=True):
            cosines = row * tables.scale + tables.centre
            calibration.add(cosines)
            calibration.label(cosines, state)


def _feed(labeller: Labeller, frame: int, time_s: float | None, cosines: Floats | None) -> None:
    """Give a frame to the labeller, after those that were left out."""
    labeller.skip(frame - 1)
    labeller.tick(frame, time_s, cosines)


def _labelling_of(plan: Plan) -> Reading:
    """Return the reading that labels frames until the readout of the plan has all of them."""
    if plan.coordinates.centred_frames:
        raise InputError(
            f"{plan.coordinates.name} coordinates measure frames from the middle of a whole "
            "history; a live reading needs vocabulary, absolute or query-uniform coordinates"
        )
    readout = plan.readout
    if isinstance(readout, Reading):
        unordered = readout.irreversible and readout.order is None
        if readout.stay > 1 or unordered:
            raise InputError(
                "a live reading supports no shortest stay, and an irreversible change needs the "
                "order of its states"
            )
        return readout
    if isinstance(readout, StateReadout):
        return Reading(smoothing_s=readout.smoothing_s, width=readout.width, bridge=readout.bridge)
    return Reading()
