"""``dejacue encode``, and the part of ``dejacue locate`` that starts from a video."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from dejacue.cli import Stopped
from dejacue.cli.tables import console, note
from dejacue.cli.thumbnails import Pictures, Watched, read_pictures, write_pictures
from dejacue.errors import InputError
from dejacue.records import History, Window
from dejacue.records.history import LOOKED_AT
from dejacue.sources.atomic import check_place
from dejacue.sources.build import Lineage, build_histories, kept, recipe
from dejacue.sources.encoders import Encoder, load_encoder
from dejacue.sources.files import read_history, write_history
from dejacue.sources.masks import Masks, open_masks
from dejacue.sources.tracks import match_of, read_notes
from dejacue.sources.video import Video, open_video

PIXELS = ("video", "masks", "objects")  # of a recipe: what pictures depend on
MINI_ONLY_KNOWS = (
    "mini knows this project's rendered scenes only; for real footage use --encoder siglip2"
)


@dataclass(frozen=True)
class Footage:
    """Options that say what is looked at."""

    video: Path
    masks: Path | None = None
    kind: str | None = None
    match: str = "auto"
    objects: str | None = None
    start: str | None = None
    end: str | None = None
    stride: int = 1
    fps: float | None = None
    rate: float | None = None
    errors: str = "skip"

    def open_video(self) -> Video:
        """The frames that are looked at."""
        limits = {**moment("start", self.start), **moment("end", self.end)}
        return open_video(
            self.video, stride=self.stride, fps=self.fps, rate=self.rate, errors=self.errors,
            **limits,
        )  # fmt: skip

    def open(self) -> tuple[Video, Masks]:
        if self.masks is None:
            raise InputError(
                f"{self.video}: is a video; say where the object is with --masks (a folder of "
                "PNGs, an .npz, a COCO .json, boxes .csv), or with --box x0,y0,x1,y1 to follow it"
            )
        video, match = self.open_video(), self.match
        if match == "auto":
            match = match_of(self.masks) or match
        return video, open_masks(self.masks, kind=self.kind, match=match, frames=video.length)

    @property
    def followed(self) -> str | None:
        """The tracker that made the masks."""
        notes = None if self.masks is None else read_notes(self.masks)
        if notes is None:
            return None
        return f"{notes.tracker}, approximate" if notes.approximate else notes.tracker

    def doubts(self, history: History) -> list[tuple[Window, str]]:
        """Where the tracker may have been wrong, in frames of the file."""
        notes = None if self.masks is None else read_notes(self.masks)
        if notes is None:
            return []
        objects = (history.made_with or {}).get("objects", "all")
        ids = None if objects == "all" else [int(id) for id in objects.split(",")]
        return [(Window(d.first, d.last), d.text) for _, d in notes.doubts_of(ids)]

    def lineages(self, video: Video, masks: Masks) -> dict[str, Lineage]:
        """Which histories to make: one of all ids, one of some, or one each."""
        if self.objects is None:
            there = masks.ids()
            if len(there) > 1:
                names = ", ".join(str(id) for id in there[:9]) + (", …" if len(there) > 9 else "")
                raise InputError(
                    f"{masks.path}: holds the objects {names}; say which one with --object "
                    f"{there[0]}, give the pieces of one as --object {there[0]},{there[1]}, or "
                    "take each with --objects all"
                )
            return {video.name: None}
        if self.objects == "all":
            if not masks.ids():
                raise InputError(f"{masks.path}: shows no object; are they the right masks?")
            return {f"{video.name}-{id}": frozenset([id]) for id in masks.ids()}
        try:
            ids = [int(part) for part in self.objects.split(",") if part.strip()]
        except ValueError:
            ids = []
        if not ids:
            raise InputError(f'--object "{self.objects}": give ids such as 1 or 1,2, or all')
        return {video.name: frozenset(ids)}


def one(path: Path, further: Sequence[str]) -> Path:
    """The one source that is asked for; a shell makes many of a glob without quotes."""
    if not further:
        return path
    paths = [path, *map(Path, further)]
    folders = {path.parent for path in paths}
    if len(folders) > 1 or any(path.suffix != paths[0].suffix for path in paths):
        raise InputError(
            f"{len(paths)} paths are given, {paths[0]} first; give one: a video, a folder of "
            "images, or a glob in quotes"
        )
    folder, suffix = folders.pop(), paths[0].suffix
    raise InputError(
        f"{len(paths)} files are given; quote the glob: '{folder / f'*{suffix}'}', or give the "
        f"folder: {folder}"
    )


def moment(name: str, text: str | None) -> dict[str, Any]:
    """``120`` is a frame, ``4.5s`` and ``1:30`` are seconds."""
    if text is None:
        return {}
    try:
        if text.endswith("s"):
            return {f"{name}_s": float(text[:-1])}
        if ":" in text:
            seconds = 0.0
            for part in text.split(":"):
                seconds = 60 * seconds + float(part)
            return {f"{name}_s": seconds}
        return {name: int(text)}
    except ValueError:
        raise InputError(
            f'--{name} "{text}": give a frame (120), seconds (4.5s) or a time (1:30)'
        ) from None


def load(name: str, backend: str | None, precision: str | None, device: str | None) -> Encoder:
    given = {"backend": backend, "precision": precision, "device": device}
    options = {key: value for key, value in given.items() if value is not None}
    if name == "mini" and options:
        raise InputError(f"mini has no {', '.join('--' + key for key in options)}; leave it out")
    return load_encoder(name, **options)


def encoder_for(history: History) -> str:
    """The name of the encoder that a history was made with."""
    identity = history.encoder or ""
    if identity.startswith("google/siglip2-base-patch16-224"):
        return "siglip2"
    if identity.startswith("dejacue-mini"):
        return "mini"
    if identity.startswith("openclip:"):
        return identity
    raise InputError(
        f'history {history.id} was made with "{identity or "an unnamed encoder"}"; name the '
        "encoder for the words with --encoder, or give an .npz vocabulary"
    )


@dataclass
class Bars:
    """Progress of the three steps on the terminal; quiet when it is piped."""

    length: int | None
    objects: int
    seen: dict[str, int] = field(default_factory=dict)

    @contextlib.contextmanager
    def shown(self) -> Iterator[Bars]:
        screen = console(stderr=True)
        bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeRemainingColumn(), console=screen, transient=True, disable=not screen.is_terminal,
        )  # fmt: skip
        with bar:
            self._bar = bar
            most = None if self.length is None else self.length * self.objects
            totals = {"decode": self.length, "crop": most, "encode": most}
            self._tasks = {what: bar.add_task(what, total=n) for what, n in totals.items()}
            yield self

    def __call__(self, what: str, count: int) -> None:
        self.seen[what] = self.seen.get(what, 0) + count
        self._bar.advance(self._tasks[what], count)


def histories(
    footage: Footage, encoder: Encoder, place: Path, pictures: bool = False
) -> tuple[dict[str, History], dict[str, Path], dict[str, Pictures]]:
    """Histories by id, their files and, if wanted, pictures of the video for each.

    place   a folder, or the .npz file of a single history; what is there and up to date is taken
    """
    video, masks = footage.open()
    lineages = footage.lineages(video, masks)
    if place.suffix == ".npz" and len(lineages) > 1:
        raise InputError(f"{place}: {len(lineages)} objects need a folder, not one file")
    files = {
        name: place if place.suffix == ".npz" else place / f"{safe(name)}.history.npz"
        for name in lineages
    }
    recipes = {name: recipe(video, masks, encoder, own) for name, own in lineages.items()}
    ready = {
        name: own
        for name, path in files.items()
        if (own := _up_to_date(path, encoder, recipes[name])) is not None
    }
    if ready:
        names = ", ".join(str(files[name]) for name in ready)
        note(f"taken from {names}: made of the same video, masks and options")
    seen: dict[str, Pictures] = {}
    missing = {name: lineage for name, lineage in lineages.items() if name not in ready}
    if missing:
        asked = Watched(masks) if pictures else masks
        ready |= _build(video, asked, encoder, missing, files)
        if isinstance(asked, Watched):
            taken = {name: asked.pictures(at) for at, name in enumerate(missing)}
            seen = {name: pictured for name, pictured in taken.items() if name in ready}
    found = {name: ready[name] for name in lineages if name in ready}
    lineages = {name: lineages[name] for name in found}
    files = {name: files[name] for name in found}
    if pictures:
        seen = _pictures(video, masks, lineages, files, recipes, seen)
    return found, files, seen


def _pictures(
    video: Video, masks: Masks, lineages: dict[str, Lineage], files: dict[str, Path],
    recipes: dict[str, dict[str, str]], seen: dict[str, Pictures],
) -> dict[str, Pictures]:  # fmt: skip
    """Of each object: those just seen, those of an earlier run or, where these are gone, from a
    pass of their own; kept beside the history."""
    places = {
        name: path.with_name(path.name.removesuffix(".history.npz") + ".thumbnails.npz")
        for name, path in files.items()
    }
    of = {name: {key: own[key] for key in PIXELS} for name, own in recipes.items()}
    before = {
        name: own
        for name in files
        if name not in seen and (own := read_pictures(places[name], of[name])) is not None
    }
    gone = {name: own for name, own in lineages.items() if name not in seen and name not in before}
    if gone:
        watched = Watched(masks)
        for frame in video:
            watched.unions(frame, list(gone.values()))
        seen = seen | {name: watched.pictures(at) for at, name in enumerate(gone)}
    for name, own in seen.items():
        write_pictures(places[name], own, of[name])
    return before | seen


def _build(
    video: Video, masks: Masks | Watched, encoder: Encoder, lineages: dict[str, Lineage],
    files: dict[str, Path],
) -> dict[str, History]:  # fmt: skip
    """Makes and writes the histories, with progress, and says how long it took."""
    first = next(iter(files.values()))
    partial = first.with_name(f".{first.name}.partial")
    check_place(first)
    if encoder.name == "mini":
        note(MINI_ONLY_KNOWS)
    if before := kept(partial, encoder):
        note(f"going on from {before} encoded crops")
    start = time.perf_counter()
    try:
        with Bars(video.length, len(lineages)).shown() as bars:
            made = build_histories(
                video,
                masks,  # type: ignore[arg-type]
                encoder, lineages, partial=partial, progress=bars,
                croppers=min(16, os.cpu_count() or 1),
            )  # fmt: skip
    except KeyboardInterrupt:
        raise _stopped(partial, kept(partial, encoder), video.length, len(lineages)) from None
    for name, history in made.items():
        write_history(files[name], history)
    partial.unlink(missing_ok=True)
    seconds = time.perf_counter() - start
    count = bars.seen.get("encode", 0)
    console(stderr=True).print(
        f"{bars.seen.get('decode', 0)} frames, {count} crops in {seconds:.1f} s "
        f"({count / max(seconds, 1e-9):.0f} a second)",
        soft_wrap=True,
    )
    for problem in (*video.problems, *masks.problems):
        note(problem)
    frames = bars.seen.get("decode", 0)
    for name, history in made.items():
        if 2 * len(history) < frames:
            note(f"{name} is seen in only {len(history)} of {frames} frames")
    return made


def _stopped(partial: Path, count: int, length: int | None, objects: int) -> Stopped:
    if not count:
        return Stopped("stopped; nothing was encoded yet")
    what = "frames" if objects == 1 else "crops"
    of = f"{count} {what}" if length is None else f"{count} of {length * objects} {what}"
    return Stopped(f"stopped; {of} are kept in {partial} and will be reused")


def safe(name: str) -> str:
    """A name that can be a file's."""
    return "".join(c if c.isalnum() or c in "-_.+" else "_" for c in name)


def _up_to_date(path: Path, encoder: Encoder, made_with: dict[str, str]) -> History | None:
    """The history in a file, if it was made from the same pixels in the same way."""
    if not path.is_file():
        return None
    try:
        found = read_history(path)
    except InputError:
        return None  # whatever it is, it will be made again
    made = {key: text for key, text in (found.made_with or {}).items() if key != LOOKED_AT}
    same = made == made_with
    return found if same and found.encoder == encoder.identity else None


def check_output(output: Path) -> None:
    check_place(output, folder=output.suffix != ".npz")


def encode(footage: Footage, encoder: Encoder, output: Path) -> None:
    made, files, _ = histories(footage, encoder, output)
    for name, history in made.items():
        console().print(escape(f"{files[name]}: {history!r}"), soft_wrap=True)
