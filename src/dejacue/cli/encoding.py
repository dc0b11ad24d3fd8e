"""``dejacue encode``, and the part of ``dejacue locate`` that starts from a video."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from dejacue.cli.tables import console
from dejacue.errors import InputError
from dejacue.records import History
from dejacue.sources.build import Lineage, build_histories, recipe
from dejacue.sources.encoders import Encoder, load_encoder
from dejacue.sources.files import read_history, write_history
from dejacue.sources.masks import Masks, open_masks
from dejacue.sources.video import Frame, Video, open_video

THUMBNAILS, THUMBNAIL_WIDTH = 12, 192
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

    def open(self) -> tuple[Video, Masks]:
        if self.masks is None:
            raise InputError(
                f"{self.video}: is a video, and needs the masks of the object: give --masks (a "
                "folder of PNGs, an .npz, a COCO .json, boxes .csv)"
            )
        limits = {**moment("start", self.start), **moment("end", self.end)}
        video = open_video(
            self.video, stride=self.stride, fps=self.fps, rate=self.rate, errors=self.errors,
            **limits,
        )  # fmt: skip
        masks = open_masks(self.masks, kind=self.kind, match=self.match)
        # More masks than frames to look at: they can only be numbered as the file's frames are.
        more = video.length is not None and len(masks) > video.length
        if self.match == "auto" and more and not os.path.isdir(self.video):
            masks = open_masks(self.masks, kind=self.kind, match="source")
        return video, masks

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
            return {f"{video.name}-{id}": frozenset([id]) for id in masks.ids()}
        try:
            ids = [int(part) for part in self.objects.split(",") if part.strip()]
        except ValueError:
            ids = []
        if not ids:
            raise InputError(f'--object "{self.objects}": give ids such as 1 or 1,2, or all')
        return {video.name: frozenset(ids)}


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


class Watched:
    """A video that keeps a few small pictures of what passes, evenly over its length."""

    def __init__(self, video: Video) -> None:
        self.video, self.path, self.name, self.key = video, video.path, video.name, video.key
        self._kept: dict[int, bytes] = {}

    def __iter__(self) -> Iterator[Frame]:
        self._kept, step = {}, 1
        for frame in self.video:
            if frame.index % step == 0:
                self._kept[frame.index] = small(frame)
                if len(self._kept) > 4 * THUMBNAILS:  # the length need not be known
                    step *= 2
                    self._kept = {k: v for k, v in self._kept.items() if k % step == 0}
            yield frame

    @property
    def pictures(self) -> dict[int, bytes]:
        """At most THUMBNAILS of them."""
        every = list(self._kept.items())
        count = min(THUMBNAILS, len(every))
        return dict(every[k * len(every) // count] for k in range(count))


def small(frame: Frame) -> bytes:
    from PIL import Image

    height, width = frame.image.shape[:2]
    size = (THUMBNAIL_WIDTH, max(1, round(height * THUMBNAIL_WIDTH / width)))
    stream = io.BytesIO()
    Image.fromarray(frame.image).resize(size).save(stream, "JPEG", quality=80)
    return stream.getvalue()


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
    footage: Footage, encoder: Encoder, folder: Path
) -> tuple[dict[str, History], dict[int, bytes]]:
    """Histories by id, from the folder where they are up to date, and pictures of the video."""
    video, masks = footage.open()
    lineages = footage.lineages(video, masks)
    files = {name: folder / f"{safe(name)}.history.npz" for name in lineages}
    watched = Watched(video)
    ready = {
        name: found
        for name, path in files.items()
        if (found := _up_to_date(path, encoder, video, masks, lineages[name])) is not None
    }
    if len(ready) == len(lineages):
        for _ in watched:  # for the pictures
            pass
        names = ", ".join(str(path) for path in files.values())
        console(stderr=True).print(escape(f"taken from {names}"), soft_wrap=True)
        return ready, watched.pictures
    return _build(watched, masks, encoder, lineages, files), watched.pictures


def _build(
    watched: Watched, masks: Masks, encoder: Encoder, lineages: dict[str, Lineage],
    files: dict[str, Path],
) -> dict[str, History]:  # fmt: skip
    """Makes and writes the histories, with progress, and says how long it took."""
    screen, video = console(stderr=True), watched.video
    if encoder.name == "mini":
        screen.print(MINI_ONLY_KNOWS, soft_wrap=True)
    first = next(iter(files.values()))
    partial = first.with_name(f".{first.name}.partial")
    start = time.perf_counter()
    with Bars(video.length, len(lineages)).shown() as bars:
        made = build_histories(
            watched,  # type: ignore[arg-type]
            masks, encoder, lineages, partial=partial, progress=bars,
            croppers=min(16, os.cpu_count() or 1),
        )  # fmt: skip
    for name, history in made.items():
        write_history(files[name], history)
    partial.unlink(missing_ok=True)
    seconds = time.perf_counter() - start
    count = bars.seen.get("encode", 0)
    screen.print(
        f"{bars.seen.get('decode', 0)} frames, {count} crops in {seconds:.1f} s "
        f"({count / max(seconds, 1e-9):.0f} a second)"
    )
    for problem in video.problems:
        screen.print(escape(f"note: {problem}"), soft_wrap=True)
    return made


def safe(name: str) -> str:
    """A name that can be a file's."""
    return "".join(c if c.isalnum() or c in "-_.+" else "_" for c in name)


def _up_to_date(
    path: Path, encoder: Encoder, video: Video, masks: Masks, lineage: Lineage
) -> History | None:
    """The history in a file, if it was made from the same pixels in the same way."""
    if not path.is_file():
        return None
    try:
        found = read_history(path)
    except InputError:
        return None  # whatever it is, it will be made again
    same = dict(found.made_with or {}) == recipe(video, masks, encoder, lineage)
    return found if same and found.encoder == encoder.identity else None


def encode(footage: Footage, encoder: Encoder, output: Path) -> None:
    video, masks = footage.open()
    lineages = footage.lineages(video, masks)
    if output.suffix == ".npz" and len(lineages) > 1:
        raise InputError(f"{output}: {len(lineages)} objects need a folder, not one file")
    files = {
        name: output if output.suffix == ".npz" else output / f"{safe(name)}.history.npz"
        for name in lineages
    }
    for name, history in _build(Watched(video), masks, encoder, lineages, files).items():
        console().print(escape(f"{files[name]}: {history!r}"), soft_wrap=True)
