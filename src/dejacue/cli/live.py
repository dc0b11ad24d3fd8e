"""``dejacue live``: push one frame after another, and show the state after each."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.console import Group
from rich.text import Text

import dejacue
from dejacue.cli import options as o
from dejacue.cli.tables import console, notes, say, show_tables, timeline_table
from dejacue.errors import InputError, in_file, named
from dejacue.files.documents import as_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dejacue.records import Interval
    from dejacue.records.update import Update
    from dejacue.video.video import Frame, Video

    Mask: TypeAlias = NDArray[np.bool_] | None

STREAM_HORIZON_S = 600.0
REFRESH_S = 0.1  # between two drawings of the strip
MIN_NOTED_DELAY_S = 1.0
MAX_SHOWN_WINDOWS = 5
BAR, REACH = 24, 3.0  # letters, deviations
SETTINGS = {"match": o.MASK_SETTINGS["match"], "rate": [], **o.ENCODER_SETTINGS}


def live(
    source: Annotated[
        str, typer.Argument(help="A video, a folder of images, camera:0, rtsp://… or http://…")
    ],
    states: Annotated[Path | None, o.asked("states")] = None,
    like: Annotated[o.Texts, o.asked("like")] = None,
    exhaustive: Annotated[bool, o.asked("exhaustive")] = False,
    box: Annotated[
        str | None, o.option("Box x0,y0,x1,y1 around the object in the first frame.")
    ] = None,
    whole: Annotated[bool, o.asked("whole")] = False,
    tracker: Annotated[
        str | None, o.option("Tracker: sam2, … (default: the box stays where it is).")
    ] = None,
    masks: Annotated[Path | None, o.asked("masks")] = None,
    objects: Annotated[str | None, o.asked("objects")] = None,
    fps: Annotated[float | None, o.asked("fps")] = None,
    delay: Annotated[
        float, o.option("Seconds for which an occurrence stays the same before it is closed.")
    ] = 4.0,
    horizon: Annotated[
        float | None, o.option("Seconds to keep (default: all of a file, 600 of a stream).")
    ] = None,
    calibrate: Annotated[
        Path | None, o.option("x.history.npz of a similar object, to start the calibration from.")
    ] = None,
    timeout: Annotated[float, o.option("Seconds without a frame that end a stream.")] = 10.0,
    realtime: Annotated[bool, o.option("Play a file at its own frame rate.", "--realtime")] = False,
    encoder: o.EncoderName = None,
    device: o.Device = None,
    settings: Annotated[o.Texts, o.setting(SETTINGS)] = None,
    readout: Annotated[str, o.asked("readout")] = "timeline",
    jsonl: Annotated[bool, o.option("Print a JSON object per frame and line.", "--jsonl")] = False,
    output: Annotated[Path | None, o.output("Folder for the files that find writes.")] = None,
) -> None:
    """Show which state the object is in while it is being filmed; Ctrl-C stops."""
    from dejacue.cli.find import NO_ANSWER, check_folder, write_folder
    from dejacue.files.findings import Provenance
    from dejacue.masks._region import FIXED, WHOLE
    from dejacue.video.stream import is_stream, open_stream

    values = o.settings(settings, SETTINGS)
    model = o.encoder_from(encoder, values, device)
    rate = values.get("rate")
    if output is not None:
        check_folder(output)
    stream = is_stream(source)
    if stream and masks is not None:
        raise InputError(f"{source}: --masks needs a video file; for a stream give --box")
    video = (
        open_stream(source, fps=fps, timeout_s=timeout)
        if stream
        else dejacue.open_video(source, fps=fps, rate=rate)
    )
    if [masks is not None, box is not None, whole].count(True) != 1:
        problem = "show where the object is: either --box x0,y0,x1,y1 in the first frame, --whole"
        raise InputError(f"{source}: {problem} or, for a file, --masks")
    mask_of: Callable[[Frame], Mask] = without_mask
    if masks is not None:
        mask_of = masks_from_files(video, masks, values.get("match", "auto"), objects)
    elif box is not None:
        mask_of = masks_from_box(video, box, tracker)
    reading = dejacue.Live(
        o.words_from(states, values),
        like=like or (),
        exhaustive=exhaustive,
        whole=whole,
        encoder=model,
        readout=readout,
        delay_s=delay,
        horizon_s=STREAM_HORIZON_S if horizon is None and stream else horizon,
        calibrate=calibrate,
        id=video.name,
        pictures=output is not None,
    )
    lines: AbstractContextManager[Callable[[Update], object]] = nullcontext(_print_json)
    if not jsonl and console().is_terminal:
        lines = _on_screen(list(reading.reading.vocabulary.states))
    elif not jsonl:
        lines = nullcontext(_print_changes())
    with lines as show, _stopping() as stopped:
        frames = _paced(video) if realtime else video
        problems, late_s = _push_all(reading, frames, mask_of, show, stopped)
        if reading.reading.observed:
            show(reading.flush())
    if late_s > MIN_NOTED_DELAY_S and (realtime or stream):
        problems.append(
            f"{video.path}: the reading ended {late_s:.1f} s behind the video, because "
            "frames arrive faster than they can be processed; take fewer with --fps"
        )
    with in_file(video.path):
        sampling = {"fps": fps, "rate": rate}
        provenance = Provenance(
            None if stream else str(Path(source).absolute()),
            None if masks is None else str(masks.absolute()),
            WHOLE if whole else None if box is None else tracker or FIXED,
            options={name: str(value) for name, value in sampling.items() if value},
        )
        finding = reading.finish(provenance, [*video.problems, *problems])
    if jsonl:
        print(as_json({"timeline": finding.timeline.to_dict()}), flush=True)
    else:
        show_tables(timeline_table(finding.timeline))
    notes(*finding.timeline.notes)
    if output is not None:
        write_folder(output, finding, None)
        say(f"report: {output / 'report.html'}", stderr=True)
    if finding.meaningless:
        raise typer.Exit(NO_ANSWER)


def without_mask(frame: Frame) -> Mask:
    """Return nothing: the object is the whole picture."""
    return None


def masks_from_box(video: Video, box: str, tracker: str | None) -> Callable[[Frame], Mask]:
    """Return a function that gives the mask of each frame, one after the other; without a tracker,
    the box stays where it is."""
    from dejacue.models.trackers.base import box_mask
    from dejacue.models.trackers.prompts import parse_prompts, united
    from dejacue.models.trackers.propagate import PRESENCE

    (prompt,) = parse_prompts([box])
    if prompt.source not in (None, 0):
        raise InputError(f"--box {box}: a live reading starts at the first frame; leave @FRAME out")
    prompts = [dejacue.Prompt(box=prompt.box)]
    session = None if tracker is None else dejacue.load_tracker(tracker).session()

    def mask_of(frame: Frame) -> Mask:
        with named(f"{video.path}, frame {frame.source}"):
            checked = [united(prompts, frame.shape)] if prompts else []
            if session is None:
                assert checked[0].box is not None
                return box_mask(checked[0].box, frame.image)
            tracked = session.step(frame.image, checked)[1]
        prompts.clear()
        return tracked.mask if tracked.presence >= PRESENCE and tracked.mask.any() else None

    return mask_of


def masks_from_files(
    video: Video, masks: Path, match: str, objects: str | None
) -> Callable[[Frame], Mask]:
    from dejacue.finding.locate import locate_object
    from dejacue.finding.request import Lazy

    located = locate_object(video, masks=Lazy(masks, {"match": match}), objects=objects)
    if len(located.objects) > 1:
        names = ", ".join(located.objects)
        problem = f"holds {names}, but a live reading follows one object"
        raise InputError(f"{masks}: {problem}; choose it with --object 1, or its pieces with 1+2")
    groups = list(located.objects.values())
    return lambda frame: located.unions(frame, groups)[0]


def _push_all(
    reading: dejacue.Live,
    frames: Iterable[Frame],
    mask_of: Callable[[Frame], Mask],
    show: Callable[[Update], object],
    stopped: Callable[[], bool],
) -> tuple[list[str], float]:
    """Return what must be said of how it ended, and how far behind the last frame was."""
    problems: list[str] = []
    late_s = 0.0
    began: float | None = None
    try:
        for frame in frames:
            now, due = time.monotonic(), frame.time_s or 0.0
            began = now - due if began is None else began
            update = reading.push(
                frame.image,
                mask=mask_of(frame),
                time_s=frame.time_s,
                frame=frame.index,
                source=frame.source,
            )
            show(update)
            late_s = now - began - due
            if stopped():
                break
    except InputError as error:
        if not reading.reading.observed:
            raise
        problems.append(f"{error}; the frames before it were read")
    return problems, late_s


def _paced(video: Video) -> Iterator[Frame]:
    """Yield the frames of a file, each not before its time."""
    began: float | None = None
    for frame in video:
        if frame.time_s is None:
            remedy = "for images, give --set rate=25"
            raise InputError(f"{video.path}: has no timestamps to play by; {remedy}")
        now = time.monotonic()
        began = now - frame.time_s if began is None else began
        time.sleep(max(0.0, began + frame.time_s - now))
        yield frame


@contextmanager
def _stopping() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed.

    A frame is always finished; Ctrl-C pressed again stops at once.
    """
    pressed = []

    def press(*_: object) -> None:
        pressed.append(True)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


def _print_json(update: Update) -> None:
    print(as_json(update.to_dict()), flush=True)


@contextmanager
def _on_screen(states: Sequence[str]) -> Iterator[Callable[[Update], None]]:
    from rich.live import Live as Screen

    closed: list[Interval] = []
    drawn = 0.0
    with Screen(console=console(), auto_refresh=False) as screen:

        def show(update: Update) -> None:
            nonlocal drawn
            changed = [*update.closed, *update.withdrawn]
            closed[:] = [interval for interval in closed if interval not in update.withdrawn]
            closed.extend(update.closed)
            del closed[:-MAX_SHOWN_WINDOWS]
            now = time.monotonic()
            if now - drawn >= REFRESH_S or changed:
                drawn = now
                screen.update(strip(update, states, closed), refresh=True)

        yield show


def strip(update: Update, states: Sequence[str], closed: Sequence[Interval]) -> Group:
    """Return the state now, a bar of evidence for each, and the last windows."""
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
    lines += [Text(f"closed: {_window(interval)}", style="dim") for interval in closed]
    return Group(*lines)


def _print_changes() -> Callable[[Update], None]:
    from dejacue.method.readout import in_frames

    printed: str | None = None

    def show(update: Update) -> None:
        nonlocal printed
        for change in update.revised:
            instead = "" if change.was is None else f", not {change.was}"
            print(f"{in_frames(*change.window)}: {change.now}{instead}")
        for interval in update.withdrawn:
            print(f"withdrawn: {_window(interval)}")
        for interval in update.closed:
            print(f"closed: {_window(interval)}")
        if update.evidence and update.state != printed:
            printed = update.state
            when = "" if update.time_s is None else f" ({update.time_s:.2f} s)"
            print(f"frame {update.frame}{when}: {printed}")
        sys.stdout.flush()

    return show


def _window(interval: Interval) -> str:
    from dejacue.method.readout import in_frames

    times = interval.times_s
    seconds = "" if times is None else " ({:.2f} – {:.2f} s)".format(*times)
    return f"{interval.state}, {in_frames(*interval.window)}{seconds}"
