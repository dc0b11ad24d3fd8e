"""``dejacue track``, and the part of ``dejacue locate`` that follows the object first."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from dejacue.cli import Stopped
from dejacue.cli.tables import console, note
from dejacue.errors import Cancelled, InputError
from dejacue.report.contact import Shot, chosen, drawn, write_contact_sheet
from dejacue.sources.tracks import (
    PRESENCE,
    Notes,
    TrackRequest,
    check_target,
    drop_repeated_pieces,
    load_tracker,
    notes_path,
    open_written,
    read_notes,
    read_prompts,
    resolve_prompts,
    write_track,
)
from dejacue.sources.video import Frame, Video

DOUBTS_SHOWN = 10


@dataclass(frozen=True)
class Clicks:
    """Options that say where the object is, as they were typed."""

    boxes: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    not_points: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    at: int | None = None
    adds: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, box: list[str] | None, point: list[str] | None, not_point: list[str] | None,
        mask: list[str] | None, at: int | None, add: list[str] | None,
    ) -> Clicks:  # fmt: skip
        """As the command line gives them."""
        boxes, points, not_points, masks, adds = (
            tuple(own or ()) for own in (box, point, not_point, mask, add)
        )
        return cls(boxes, points, not_points, masks, at, adds)

    def __bool__(self) -> bool:
        return any((self.boxes, self.points, self.not_points, self.masks, self.adds))


@dataclass(frozen=True)
class Following:
    """Options that say how it is followed."""

    tracker: str | None = None
    device: str | None = None
    precision: str | None = None
    presence: float = PRESENCE
    backward: bool = True
    fallback: bool = False


def track(video: Video, clicks: Clicks, following: Following, output: Path) -> None:
    """The command: masks, notes and contact sheet, and a summary of them."""
    path = follow(video, clicks, following, output)
    notes = read_notes(path)
    assert notes is not None
    summarise(path, notes)
    console().print(escape(f"masks: {path}"), soft_wrap=True)
    if sum(map(len, notes.shown.values())) > 1:
        together = (",".join(map(str, own)) for own in notes.shown.values())
        hint = " or ".join(f"--object {ids}" for ids in together)
        console().print(escape(f"locate with {hint}"), soft_wrap=True)


def follow(video: Video, clicks: Clicks, following: Following, output: Path) -> Path:
    """The masks of the objects, in ``output`` (a folder, .npz or .json): followed now, or as they
    lie there if they are up to date. Its notes (read_notes) say which ids are one object."""
    check_target(output)
    sheet = _check_sheet(output, video)
    plan, lineages = _plan(video, clicks, following, output)
    start, before = time.perf_counter(), _noted(output)
    try:
        with Bars().shown() as bars:
            notes = write_track(output, plan, lineages=lineages, progress=bars)
    except Cancelled as error:
        raise Stopped(str(error)) from None
    if bars.counts:
        seconds, count = time.perf_counter() - start, bars.counts.get("follow", 0)
        console(stderr=True).print(
            f"{count} frames in {seconds:.1f} s ({count / max(seconds, 1e-9):.1f} a second)",
            soft_wrap=True,
        )
    elif _noted(output) == before:
        note(f"taken from {output}: made of the same video, prompts and tracker")
    else:
        note(f"{output}: written anew from what was followed before")
    for problem in (*video.problems, *notes.problems):
        note(problem)
    if _noted(output) != before:
        sheet.unlink(missing_ok=True)  # it shows other masks
    if not sheet.is_file():
        write_sheet(sheet, video, output, notes)
    return output


def _noted(output: Path) -> bytes:
    path = notes_path(output)
    return path.read_bytes() if path.is_file() else b""


def _plan(
    video: Video, clicks: Clicks, following: Following, output: Path
) -> tuple[TrackRequest, Mapping[int, tuple[int, ...]]]:
    """What is wrong with the input is said before a model is loaded."""
    alone = not any((clicks.boxes, clicks.points, clicks.not_points, clicks.masks))
    before = read_notes(output) if clicks.adds and alone and output.exists() else None
    given, lineages = read_prompts(
        clicks.boxes, clicks.points, clicks.not_points, clicks.masks, clicks.at, clicks.adds,
        (before.prompts, before.lineages) if before else ((), {}),
    )  # fmt: skip
    if not given:
        raise InputError(
            f"{video.path}: say where the object is: --box x0,y0,x1,y1, --point x,y or --mask "
            "first.png, with @FRAME where it is not in the first frame"
        )
    if not 0 <= following.presence <= 1:
        raise InputError(f"--presence {following.presence}: give a number from 0 to 1")
    if before:
        _check_same(output, before, video, following)
    prompts, lineages = drop_repeated_pieces(resolve_prompts(video, given), lineages)
    options = {"fallback": True} if following.fallback else {}
    name = following.tracker or (before.tracker if before else None)
    tracker = load_tracker(name, device=following.device, precision=following.precision, **options)
    return TrackRequest(video, prompts, tracker, following.backward, following.presence), lineages


def _check_same(output: Path, before: Notes, video: Video, following: Following) -> None:
    """What is added must be followed as the others were."""
    ways = {True: "--backward", False: "--no-backward"}
    pairs = [
        (f"--tracker {before.tracker}", f"--tracker {following.tracker or before.tracker}"),
        (f"--presence {before.presence:g}", f"--presence {following.presence:g}"),
        (ways[before.backward], ways[following.backward]),
    ]
    if before.video_key != video.key:
        taken = _frames(before.frames, len(before.frames))
        now = _frames((frame.source for frame in video), video.length)
        pairs.append((f"{before.video}, {taken}", f"{video.path}, {now}"))
    for was, now in pairs:
        if was != now:
            raise InputError(
                f"{output}: was made with {was}, and now it is {now}; give the same options to add "
                "to it, or all prompts to make it anew"
            )


def _frames(sources: Iterable[int], count: int | None) -> str:
    first = ", ".join(str(source) for source in itertools.islice(sources, 3))
    return f"frames {first}, …" + ("" if count is None else f" ({count} of them)")


@dataclass
class Bars:
    """Progress on the terminal, with frames per second and the note; quiet when it is piped."""

    counts: dict[str, int] = field(default_factory=dict)

    @contextlib.contextmanager
    def shown(self) -> Iterator[Bars]:
        screen = console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(),
            TimeRemainingColumn(), TextColumn("{task.fields[fps]}"),
            TextColumn("{task.fields[note]}"), console=screen, transient=True,
            disable=not screen.is_terminal,
        )  # fmt: skip
        self._tasks: dict[str, TaskID] = {}
        self._starts: dict[str, float] = {}
        with self._bar:
            yield self

    def __call__(self, stage: str, done: int, total: int | None = None, note: str = "") -> None:
        if stage not in self._tasks:
            self._starts[stage] = time.perf_counter()
            self._tasks[stage] = self._bar.add_task(stage, total=total, fps="", note="")
        self.counts[stage] = count = self.counts.get(stage, 0) + 1
        seconds = time.perf_counter() - self._starts[stage]
        rate = f"{(count - 1) / max(seconds, 1e-9):.1f} fps"
        self._bar.update(self._tasks[stage], completed=done, fps=rate, note=note)


def sheet_path(output: Path) -> Path:
    """Beside the masks: inside their folder it would be taken for one of them."""
    return output.with_name(f"{output.name}-contact.png")


def _check_sheet(output: Path, video: Video) -> Path:
    sheet = sheet_path(output)
    images = Path(video.path) if Path(video.path).is_dir() else Path(video.path).parent
    if not Path(video.path).is_file() and sheet.absolute().parent == images.absolute():
        raise InputError(
            f"{output}: lies among the images of the video, where {sheet.name} would be taken for "
            "one of them; give a place outside of that folder"
        )
    if sheet.exists() and read_notes(output) is None:
        raise InputError(
            f"{sheet}: is in the way of the contact sheet; move it, or give another -o"
        )
    return sheet


def write_sheet(path: Path, video: Video, output: Path, notes: Notes) -> Path:
    """The contact sheet of masks that have been written."""
    places = {frame: at for at, frame in enumerate(notes.frames)}
    doubtful = [places[doubt.first] for _, doubt in notes.doubts_of() if doubt.first in places]
    wanted = {notes.frames[at] for at in chosen(len(notes.frames), doubtful)}
    ids = [one for one, own in notes.objects.items() if own.seen]
    masks = open_written(output, notes)
    shots = []
    for frame in video:
        if frame.source in wanted:
            found = masks.unions(frame, [frozenset([one]) for one in ids])
            seen = {one: mask for one, mask in zip(ids, found, strict=True) if mask is not None}
            shots.append(_shot(frame, drawn(frame.image, seen), places[frame.source], notes))
    label = f"{notes.tracker}, approximate" if notes.approximate else notes.tracker
    return write_contact_sheet(path, shots, f"{notes.video} · {output.name} · {label}")


def _shot(frame: Frame, picture: NDArray[np.uint8], at: int, notes: Notes) -> Shot:
    values = [own.presence[at] for own in notes.objects.values()]
    presence = " ".join("-" if value is None else f"{value:.2f}" for value in values)
    marks = [
        f"{one}: {doubt.text}" if len(notes.objects) > 1 else doubt.text
        for one, doubt in notes.doubts_of()
        if doubt.first <= frame.source <= doubt.last
    ]
    time_s = "" if frame.time_s is None else f" · {frame.time_s:.2f} s"
    return Shot(
        picture, f"{frame.name or frame.source}{time_s}", f"presence {presence}", tuple(marks)
    )


def summarise(output: Path, notes: Notes, stderr: bool = False) -> None:
    """In how many frames each object is seen, and where to look."""
    screen = console(stderr)
    count = len(notes.frames)
    for root, pieces in notes.shown.items():
        for one in pieces:
            of = "" if one == root else f" (a piece of {root})"
            seen = notes.objects[one].seen
            screen.print(escape(f"object {one}{of}: seen in {seen} of {count} frames"))
    doubts = notes.doubts_of()
    if doubts:
        screen.print(f"{len(doubts)} doubt{'s' if len(doubts) > 1 else ''}, worth a look:")
    for one, doubt in doubts[:DOUBTS_SHOWN]:
        named = f"object {one}: " if len(notes.objects) > 1 else ""
        screen.print(escape(f"  {_when(notes, doubt.first, doubt.last)}: {named}{doubt.text}"))
    if len(doubts) > DOUBTS_SHOWN:
        screen.print(f"  … and {len(doubts) - DOUBTS_SHOWN} more, in the notes")
    screen.print(escape(f"contact sheet: {sheet_path(output)}"), soft_wrap=True)


def _when(notes: Notes, first: int, last: int) -> str:
    frames = f"frame {first}" if first == last else f"frames {first} – {last}"
    time_s = notes.time_s(first)
    return frames if time_s is None else f"{frames} ({time_s:.2f} s)"
