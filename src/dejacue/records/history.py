"""History: one object seen over time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, counted
from dejacue.records._html import history_html
from dejacue.records.arrays import (
    as_array,
    check_names,
    feature_rows,
    frozen,
    optional_column,
)
from dejacue.records.fields import MAX_FRAME
from dejacue.records.interval import Interval, Window

SAME_LOOK = 1 - 1e-6  # cosine above which two frames look the same
FRAME_STEP = "every"  # in made_with: one of so many frames was looked at, where nobody said which
LOOKED_AT = "frames"  # in made_with: how many frames were looked at, observed or not
COLUMNS = "columns"  # in made_with: which of its names are columns of a manifest, a line each
PROBLEMS = "problems"  # in made_with: what was wrong with video and masks, a sentence a line
MINI = "dejacue-mini@"  # how the identity of the encoder mini begins
MEANINGLESS = "meaningless"  # in made_with: why nothing that is read from it has a meaning


def without_noise(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums of seconds without the noise of their last bits: 0.8, not 0.7999999999999999."""
    with np.errstate(over="ignore"):  # of seconds without number; they stay as they are
        decimal = np.round(seconds, 9)
    return np.where(np.abs(decimal - seconds) <= 4 * np.spacing(seconds), decimal, seconds)


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """One object seen over time: one embedding per *observed* frame.

    features       (N, d) float32 or float16; only the direction of a row matters
    frames         (N,) strictly increasing integers; a missing index is an unobserved frame
                   (default 0 … N−1)
    times_s, source_frames, presence   optional (N,) columns that lead back to the file, within
                   ±2^53 as frames are
    made_with      optional: back end, precision, crop, files … as text, for whoever asks later

    >>> import numpy as np
    >>> from dejacue import History
    >>> history = History(np.eye(4), [0, 1, 2, 7], "cup", times_s=[0.0, 0.1, 0.2, 0.7])
    >>> history.runs()
    [Window(start=0, end=2), Window(start=7, end=7)]
    """

    features: NDArray[Any]
    frames: NDArray[np.int64] = None  # type: ignore[assignment]  # None: 0 … N−1
    id: str = "unnamed"
    encoder: str | None = None
    times_s: NDArray[np.float64] | None = None
    source_frames: NDArray[np.int64] | None = None
    presence: NDArray[np.float64] | None = None
    made_with: Mapping[str, str] | None = None
    run_offsets: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        check_names("history", id=self.id, encoder="" if self.encoder is None else self.encoder)
        array = as_array(self.features, f"history {self.id}: features")
        if array.ndim == 2 and len(array) == 0:
            raise InputError(f"history {self.id}: no observed frame; the object is never visible")
        features = feature_rows(array, f"history {self.id}: features")
        frames = self._checked_frames(len(features))
        breaks = np.flatnonzero(np.diff(frames) != 1) + 1
        columns = {
            "features": features,
            "frames": frames,
            "run_offsets": frozen(np.concatenate(([0], breaks, [len(frames)])).astype(np.int64)),
        }
        for name, dtype in _OPTIONAL_COLUMNS.items():
            what = f"history {self.id}: {name}"
            columns[name] = optional_column(getattr(self, name), len(features), dtype, what)
        vars(self).update(columns)
        if self.made_with is not None:
            check_names("history", **{str(key): text for key, text in self.made_with.items()})

    @classmethod
    def trusted(cls, **columns: Any) -> History:
        """Make a history of columns that were checked when they were stored, ``run_offsets`` among
        them; none is checked again."""
        history = object.__new__(cls)
        vars(history).update(columns)
        return history

    def _checked_frames(self, rows: int) -> NDArray[np.int64]:
        what = f"history {self.id}: frames"
        given: Any = self.frames
        frames = np.arange(rows) if given is None else optional_column(given, rows, np.int64, what)
        steps = np.flatnonzero(frames[1:] <= frames[:-1])
        if steps.size:
            before, after = frames[steps[0] : steps[0] + 2].tolist()
            raise InputError(
                f"{what} are {'repeated' if before == after else 'not sorted'} ({before} is "
                f"followed by {after}); sort the rows by frame and keep one per frame"
            )
        return frozen(frames)

    def __len__(self) -> int:
        """Return the number of observed frames."""
        return len(self.frames)

    @property
    def dimension(self) -> int:
        return int(self.features.shape[1])

    @cached_property
    def longest_run(self) -> int:
        """Return the number of frames in the longest observed run."""
        return int((self.run_offsets[1:] - self.run_offsets[:-1]).max())

    @cached_property
    def gaps(self) -> NDArray[np.int64]:
        """Return the number of frames that are missing between each observed run and the next."""
        begins = self.run_offsets[1:-1]
        return frozen(self.frames[begins] - self.frames[begins - 1] - 1)

    @cached_property
    def frame_interval_s(self) -> float | None:
        """Return the median of the seconds from one frame to the next; None without times."""
        if self.times_s is None or len(self) < 2:
            return None
        interval = float(np.median(np.diff(self.times_s) / np.diff(self.frames)))
        return interval if interval > 0 else None

    @cached_property
    def ends_s(self) -> NDArray[np.float64] | None:
        """Return the second at which each frame ends, (N,); None without times, or with one frame.

        A frame lasts until the next one is shown. Before a gap it lasts its share of the gap, and
        the last frame as long as the median frame.
        """
        return self.ends_of(np.arange(len(self)))

    def ends_of(self, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return ``ends_s`` of some rows, without computing the others."""
        times, frames = self.times_s, self.frames
        if times is None or len(self) < 2:
            return None
        last = len(self) - 1
        first = np.minimum(rows, last - 1)
        apart = frames[first + 1] - frames[first]
        lasting = (times[first + 1] - times[first]) / apart
        if last in rows:
            lasting[rows == last] = self._median_frame_s
        ends = without_noise(times[rows] + lasting)
        return frozen(np.where((apart == 1) & (rows < last), times[first + 1], ends))

    @cached_property
    def _median_frame_s(self) -> float:
        """Return how long the median frame lasts, of those before no gap where there are some."""
        assert self.times_s is not None
        apart = np.diff(self.frames)
        each = np.diff(self.times_s) / apart
        return float(np.median(each[apart == 1]) if (apart == 1).any() else np.median(each))

    def rows_of(self, window: Window) -> tuple[int, int]:
        """Return the rows of the first and the last frame of a window; both must be observed."""
        first, last = np.searchsorted(self.frames, tuple(window)).tolist()
        if last >= len(self) or tuple(self.frames[[first, last]].tolist()) != tuple(window):
            problem = f'history "{self.id}" does not observe both ends of the window {window}'
            raise InputError(f"{problem}; give the history that the timeline was made from")
        return first, last

    def to_source(self, window: Window | Interval) -> Window:
        """Return the frames of the file at both ends of a window; an interval may say them itself.

        Where frames were left out, an interval may begin or end between two that were taken.
        """
        if isinstance(window, Interval):
            if window.source_start is not None:
                return window.source
            window = window.window
        if self.source_frames is None:
            return window
        first, last = self.rows_of(window)
        return Window(int(self.source_frames[first]), int(self.source_frames[last]))

    def from_source(self, window: Window) -> Window | None:
        """Return the observed frames that lie in a window of the file; None where none does."""
        if not self.sampled or self.source_frames is None:
            return window
        first = int(np.searchsorted(self.source_frames, window.start))
        last = int(np.searchsorted(self.source_frames, window.end, side="right")) - 1
        if first > last:
            return None
        return Window(int(self.frames[first]), int(self.frames[last]))

    @property
    def frames_looked_at(self) -> int | None:
        """Return how many frames were looked at, observed or not; None where it is not known."""
        text = (self.made_with or {}).get(LOOKED_AT, "")
        known = text.isascii() and text.isdecimal() and len(text) < len(str(MAX_FRAME))
        return int(text) if known else None

    @cached_property
    def sampled(self) -> bool:
        """Return whether its frames are numbered differently from those of the file."""
        source = self.source_frames
        return source is not None and bool((source != self.frames).any())

    def unit_blocks(self) -> Iterator[NDArray[np.float64]]:
        """Yield its features at unit length, some frames at a time."""
        for first in range(0, len(self), 1024):
            yield _unit(self.features[first : first + 1024])

    @cached_property
    def mean_direction(self) -> NDArray[np.float64]:
        """Return the mean of its features at unit length, (d,)."""
        total, block = np.zeros(self.dimension), 128  # rows at a time, which stay in the cache
        for first in range(0, len(self), block):
            rows = self.features[first : first + block].astype(np.float64)
            squares = (rows[:, None, :] @ rows[:, :, None]).ravel()
            total += (1 / np.sqrt(squares)) @ rows
        return frozen(total / len(self))

    @cached_property
    def still(self) -> bool:
        """Return whether it has several frames, which all look the same to the encoder."""
        if len(self) == 1:
            return False
        two = self.features[:: len(self) // 2][:2].astype(np.float64)  # the first and the middle
        (first, both), (_, middle) = (two @ two.T).tolist()
        if both <= SAME_LOOK * math.sqrt(first * middle):  # as in most videos
            return False
        least = SAME_LOOK * math.sqrt(first)
        return all((rows @ two[0] > least).all() for rows in self.unit_blocks())

    @property
    def span(self) -> int:
        """Return the number of frames from the first observed one to the last, with gaps."""
        return int(self.frames[-1]) - int(self.frames[0]) + 1

    def runs(self) -> list[Window]:
        """Return the maximal blocks of consecutive observed frames, in order."""
        first, last = self.frames[self.run_offsets[:-1]], self.frames[self.run_offsets[1:] - 1]
        return [Window(a, b) for a, b in zip(first.tolist(), last.tolist(), strict=True)]

    def __repr__(self) -> str:
        runs = len(self.run_offsets) - 1
        return (
            f"<History {self.id}: {len(self)} observed frames in {counted(runs, 'run')}, "
            f"{self.dimension}-d {self.features.dtype}, encoder {self.encoder or 'unnamed'}>"
        )

    def _repr_html_(self) -> str:
        return history_html(self)


def _unit(rows: NDArray[Any]) -> NDArray[np.float64]:
    wide = rows.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1)[:, None]
    return wide


_OPTIONAL_COLUMNS: dict[str, type] = {
    "times_s": np.float64,
    "source_frames": np.int64,
    "presence": np.float64,
}
