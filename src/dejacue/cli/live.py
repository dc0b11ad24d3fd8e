"""``dejacue live``: pushes one frame after another, and shows what it brings."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Group
from rich.live import Live as Screen
from rich.text import Text

from dejacue.cli.locate import write_folder
from dejacue.cli.readouts import readout_named
from dejacue.cli.tables import console, notes, say, show_tables, timeline_table
from dejacue.errors import InputError
from dejacue.method._reading import in_frames
from dejacue.method.live import Update
from dejacue.pipeline import Finding, Job, Made
from dejacue.pipeline.live import Live
from dejacue.records import Interval
from dejacue.sources.atomic import check_place
from dejacue.sources.documents import as_json, named
from dejacue.sources.stream import is_stream, open_stream
from dejacue.sources.tracks.base import Prompt
from dejacue.sources.tracks.loading import load_tracker
from dejacue.sources.tracks.prompts import TypedPrompts, read_prompts
from dejacue.sources.tracks.propagate import PRESENCE
from dejacue.sources.video import Frame, Video, open_video

STREAM_HORIZON_S = 600.0
REFRESH_S = 0.1  # of the strip
LATE_S = 1.0  # that is worth a note
SHOWN_WINDOWS = 5
BAR, REACH = 24, 3.0  # letters, deviations
Mask = NDArray[np.bool_] | None


@dataclass(frozen=True)
class Shown:
    """What is looked at, and where the object is in it."""

    source: str
    masks: Path | None
    match: str
    objects: list[list[int]] | str | None
    box: str | None
    tracker: str
    fps: float | None
    rate: float | None
    timeout_s: float

    def open(self) -> Video:
        if is_stream(self.source):
            if self.masks is not None:
                raise InputError(
                    f"{self.source}: --masks needs a video file; for a stream give --box"
                )
            return open_stream(self.source, fps=self.fps, timeout_s=self.timeout_s)
        return open_video(self.source, fps=self.fps, rate=self.rate)

    def look(self, video: Video) -> Callable[[Frame], Mask]:
        """Gives the mask of each frame, one after the other."""
        if (self.masks is None) == (self.box is None):
            raise InputError(
                f"{self.source}: show where the object is: either --box x0,y0,x1,y1 in the first "
                "frame or, for a file, --masks"
            )
        if self.masks is not None:
            return self._from_masks(video, self.masks)
        given, _ = read_prompts(TypedPrompts(boxes=[self.box or ""]))
        if given[0].frame not in (None, 0):
            raise InputError(
                f"--box {self.box}: a live reading starts at the first frame; leave @FRAME out"
            )
        session = load_tracker(self.tracker).session()
        prompts = [Prompt(box=given[0].box)]

        def step(frame: Frame) -> Mask:
            with named(f"{video.path}, frame {frame.source}"):
                found = session.step(frame.image, prompts)[1]
            prompts.clear()
            return found.mask if found.presence >= PRESENCE and found.mask.any() else None

        return step

    def _from_masks(self, video: Video, masks: Path) -> Callable[[Frame], Mask]:
        job = Job(video=video, masks=masks, match=self.match, objects=self.objects)
        observed = job.observe(video)
        if len(observed.objects) > 1:
            names = ", ".join(observed.objects)
            raise InputError(
                f"{masks}: holds {names}, but a live reading follows one object; choose it with "
                "--object 1, or its pieces with 1+2"
            )
        lineages = list(observed.objects.values())
        return lambda frame: observed.masks.unions(frame, lineages)[0]


def run(
    shown: Shown, options: dict[str, Any], jsonl: bool, realtime: bool, output: Path | None
) -> None:
    """``options`` are those of Live."""
    if output is not None:
        check_place(output, folder=True)
    options["readout"] = readout_named(options["readout"])
    options["encoder_options"].check(options["encoder"])
    video = shown.open()
    look = shown.look(video)
    if options["horizon_s"] is None and is_stream(shown.source):
        options["horizon_s"] = STREAM_HORIZON_S
    live = Live(**options, id=video.name, pictures=output is not None)
    lines = _Lines() if jsonl else _strip(list(live.reading.vocabulary.states))
    with lines as show, _stopping() as stopped:
        problems = _push_all(live, _paced(video) if realtime else video, look, show, stopped)
        if live.reading.observed:
            show(live.flush())
    if problems.late_s > LATE_S and (realtime or is_stream(shown.source)):
        problems.said.append(
            f"{video.path}: the reading ended {problems.late_s:.1f} s behind the video, because "
            "frames arrive faster than they can be processed; take fewer with --fps"
        )
    finding = _finish(live, video, shown, [*video.problems, *problems.said])
    if jsonl:
        print(as_json({"timeline": finding.timeline.to_dict()}), flush=True)
    else:
        show_tables(timeline_table(finding.timeline))
    notes(*finding.timeline.notes)
    if output is not None:
        write_folder(output, finding, None)
        say(f"report: {output / 'report.html'}", stderr=True)


@dataclass
class _Ended:
    """What must be said of how it ended, and how far behind the last frame was."""

    said: list[str] = field(default_factory=list)
    late_s: float = 0.0


def _push_all(
    live: Live,
    frames: Iterable[Frame],
    look: Callable[[Frame], Mask],
    show: Callable[[Update], None],
    stopped: Callable[[], bool],
) -> _Ended:
    ended = _Ended()
    began: float | None = None
    try:
        for frame in frames:
            now, due = time.monotonic(), frame.time_s or 0.0
            began = now - due if began is None else began
            mask = look(frame)
            show(
                live.push(
                    frame.image,
                    mask=mask,
                    time_s=frame.time_s,
                    frame=frame.index,
                    source=frame.source,
                )
            )
            ended.late_s = now - began - due
            if stopped():
                break
    except InputError as error:
        if not live.reading.observed:
            raise
        ended.said.append(f"{error}; the frames before it were read")
    return ended


def _finish(live: Live, video: Video, shown: Shown, problems: Sequence[str]) -> Finding:
    with named(video.path):
        place = None if is_stream(shown.source) else str(Path(shown.source).absolute())
        masks = None if shown.masks is None else str(shown.masks.absolute())
        options = {"fps": str(shown.fps)} if shown.fps else {}
        options |= {"rate": str(shown.rate)} if shown.rate else {}
        made = Made(place, masks, None if shown.box is None else shown.tracker, options=options)
        return live.finish(made, problems)


def _paced(video: Video) -> Iterator[Frame]:
    """The frames of a file, each not before its time."""
    began: float | None = None
    for frame in video:
        if frame.time_s is None:
            raise InputError(f"{video.path}: has no timestamps to play by; for images, give --rate")
        now = time.monotonic()
        began = now - frame.time_s if began is None else began
        time.sleep(max(0.0, began + frame.time_s - now))
        yield frame


@contextmanager
def _stopping() -> Iterator[Callable[[], bool]]:
    """Tells whether Ctrl-C was pressed; a frame is always finished, and pressed again it stops at
    once."""
    pressed = []

    def press(*_: object) -> None:
        pressed.append(True)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


class _Lines(nullcontext[Callable[[Update], None]]):
    """One JSON object a line."""

    def __enter__(self) -> Callable[[Update], None]:
        return lambda update: print(as_json(update.to_dict()), flush=True)


def _strip(states: Sequence[str]) -> AbstractContextManager[Callable[[Update], None]]:
    """On a terminal a few lines that change, elsewhere a line for each change."""
    return _on_screen(states) if console().is_terminal else nullcontext(_say_changes())


@contextmanager
def _on_screen(states: Sequence[str]) -> Iterator[Callable[[Update], None]]:
    closed: list[Interval] = []
    drawn = 0.0
    with Screen(console=console(), auto_refresh=False) as screen:

        def show(update: Update) -> None:
            nonlocal drawn
            closed.extend(update.closed)
            del closed[:-SHOWN_WINDOWS]
            now = time.monotonic()
            if now - drawn >= REFRESH_S or update.closed:
                drawn = now
                screen.update(strip(update, states, closed), refresh=True)

        yield show


def strip(update: Update, states: Sequence[str], closed: Sequence[Interval]) -> Group:
    """The state now, a bar of evidence for each, and the last windows."""
    when = f"frame {update.frame}" + ("" if update.time_s is None else f" · {update.time_s:.2f} s")
    if update.state is not None:
        what = f"{update.state} (since frame {update.since})"
    else:
        what = f"no answer for {update.waits} more frames" if update.waits else "not seen"
    wide = max(map(len, states))
    lines = [Text(f"{when} · {what}", style="bold")]
    for name in states:
        value = update.evidence.get(name, 0.0)
        filled = round(BAR * (min(max(value, -REACH), REACH) + REACH) / (2 * REACH))
        style = "bold green" if name == update.state else ""
        number = f"{value:+.2f}" if update.evidence else ""
        lines.append(Text(f"{name:<{wide}} {'█' * filled:·<{BAR}} {number}", style=style))
    lines += [Text(f"closed: {_window(own)}", style="dim") for own in closed]
    return Group(*lines)


def _say_changes() -> Callable[[Update], None]:
    said: str | None = None

    def show(update: Update) -> None:
        nonlocal said
        for change in update.revised:
            instead = "" if change.was is None else f", not {change.was}"
            print(f"{in_frames(*change.window)}: {change.now}{instead}")
        for own in update.closed:
            print(f"closed: {_window(own)}")
        if update.evidence and update.state != said:
            said = update.state
            when = "" if update.time_s is None else f" ({update.time_s:.2f} s)"
            print(f"frame {update.frame}{when}: {said}")
        sys.stdout.flush()

    return show


def _window(interval: Interval) -> str:
    times = interval.times_s
    seconds = "" if times is None else " ({:.2f} – {:.2f} s)".format(*times)
    return f"{interval.state}, {in_frames(*interval.window)}{seconds}"
