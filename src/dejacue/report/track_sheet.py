"""Contact sheets: pictures side by side, with words below each.

Beside the masks of a tracker: frames evenly over the video with the masks on them, to see at a
glance whether the right object was followed, and those with a doubt, which are framed and say why.
Of a strip: numbered pictures, with what is believed of each.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from dejacue.errors import InputError
from dejacue.method.strips import Strip
from dejacue.records._html import COLOURS, clock
from dejacue.records.arrays import Flags, Pixels
from dejacue.records.example import NONE
from dejacue.report.thumbnails import covered, grown, small_size
from dejacue.sources.atomic import write_bytes
from dejacue.sources.masks import Masks
from dejacue.sources.tracks import TrackNotes, open_written, read_notes
from dejacue.sources.tracks.notes import notes_path
from dejacue.sources.video import Frame, Video

NOTES_KEY = "dejacue.track notes"  # of the text in the PNG
MAX_EVEN, MAX_DOUBTFUL = 24, 12  # pictures
COLUMNS, WIDTH, GAP, LINE_HEIGHT = 6, 240, 8, 16  # pixels, but for the columns
PAPER, INK, WARNING = (255, 255, 255), (34, 34, 34), (200, 30, 30)
NO_PICTURE = 200  # grey


def sheet_path(output: Path) -> Path:
    """Return a path beside the masks: inside their folder it would be taken for one of them."""
    return output.with_name(f"{output.name}-contact.png")


def check_sheet(output: Path, video: Video) -> Path:
    """Return the path of the sheet; refuse, before the work, one that must not be written."""
    sheet = sheet_path(output)
    images = Path(video.path) if Path(video.path).is_dir() else Path(video.path).parent
    if not Path(video.path).is_file() and sheet.absolute().parent == images.absolute():
        raise InputError(
            f"is among the images of the video, where {sheet.name} would be taken for one of them",
            file=output,
            field="output",
            remedy="give a path outside that folder",
        )
    if sheet.exists() and _notes_shown(sheet) is None and read_notes(output) is None:
        problem = "is where the contact sheet would go"
        raise InputError(problem, file=sheet, field="output", remedy="move it, or give another -o")
    return sheet


def update_sheet(sheet: Path, output: Path, video: Video, notes: TrackNotes) -> None:
    """Draw the sheet of masks that have been written, unless it is there: it holds the hash of the
    notes that it shows, so that masks which a killed run replaced are drawn by the next."""
    digest = hashlib.sha256(notes_path(output).read_bytes()).hexdigest()
    if _notes_shown(sheet) != digest:
        sheet.unlink(missing_ok=True)  # it shows other masks
        masks = open_written(output, notes)
        write_bytes(sheet, _sheet_of(video, masks, notes, {NOTES_KEY: digest}))


def _notes_shown(sheet: Path) -> str | None:
    """Return the hash of the notes that a sheet shows; None where there is none of ours."""
    from PIL import Image

    try:
        with Image.open(sheet) as picture:
            return picture.info.get(NOTES_KEY)
    except (OSError, ValueError, SyntaxError):
        return None


def _sheet_of(video: Video, masks: Masks, notes: TrackNotes, texts: dict[str, str]) -> bytes:
    positions = {frame: at for at, frame in enumerate(notes.frames)}
    doubtful = [
        positions[doubt.first] for _, doubt in notes.doubts_of() if doubt.first in positions
    ]
    chosen = {notes.frames[at] for at in frames_to_show(len(notes.frames), doubtful)}
    ids = [id for id, track in notes.objects.items() if track.seen]
    shots = []
    for frame in video:
        if frame.source in chosen:
            unions = masks.unions(frame, [frozenset([id]) for id in ids])
            seen = {id: mask for id, mask in zip(ids, unions, strict=True) if mask is not None}
            picture = with_masks(frame.image, seen)
            shots.append(_shot(frame, picture, positions[frame.source], notes))
    label = f"{notes.tracker}, approximate" if notes.approximate else notes.tracker
    return contact_sheet(shots, f"{notes.video} · {masks.path.name} · {label}", texts)


@dataclass(frozen=True, eq=False)
class Shot:
    """A picture of the sheet that has been made small.

    image    (H, W, 3) with the masks drawn on it
    title    such as "frame 120 · 4.0 s · presence 0.93"
    doubts   of this frame, in words
    """

    image: Pixels
    title: str
    doubts: tuple[str, ...] = ()


def _shot(frame: Frame, picture: Pixels, at: int, notes: TrackNotes) -> Shot:
    values = [track.presence[at] for track in notes.objects.values()]
    presence = " ".join("-" if value is None else f"{value:.2f}" for value in values)
    doubts = [
        f"{id}: {doubt.text}" if len(notes.objects) > 1 else doubt.text
        for id, doubt in notes.doubts_of()
        if doubt.first <= frame.source <= doubt.last
    ]
    time = "" if frame.time_s is None else f" · {clock(frame.time_s)}"
    title = f"{frame.name or frame.source}{time} · presence {presence}"
    return Shot(picture, title, tuple(doubts))


def frames_to_show(count: int, doubtful: Sequence[int] = ()) -> list[int]:
    """Return positions of frames, of ``count``: evenly from the first to the last, and the doubtful
    ones, the first of them where they are many."""
    even = np.linspace(0, count - 1, min(MAX_EVEN, count)).round().astype(int).tolist()
    extra = [at for at in dict.fromkeys(doubtful) if 0 <= at < count and at not in even]
    return sorted({*even, *extra[:MAX_DOUBTFUL]})


def with_masks(image: Pixels, masks: Mapping[int, Flags], width: int = WIDTH) -> Pixels:
    """Return the frame made small, each object outlined in its own colour."""
    from PIL import Image, ImageColor

    size = small_size(image.shape, width)
    pixels = np.array(Image.fromarray(image).resize(size, Image.Resampling.BOX))
    for id, mask in masks.items():
        if not mask.any():
            continue
        share = covered(mask, size)
        inside = (share > 127) | (share == share.max())  # a small object does not vanish
        colour = ImageColor.getrgb(COLOURS[(id - 1) % len(COLOURS)])
        line = grown(inside, 2) & ~inside
        pixels[grown(line | inside) & ~line & ~inside] = PAPER
        pixels[line] = colour
    return pixels


def with_boxes(
    image: Pixels,
    boxes: Mapping[int, tuple[float, float, float, float]],
    width: int = 2 * WIDTH,
) -> Pixels:
    """Return the frame made small, each object framed in its own colour, with its number."""
    from matplotlib.font_manager import findfont
    from PIL import Image, ImageDraw, ImageFont

    size = small_size(image.shape, width)
    picture = Image.fromarray(image).resize(size, Image.Resampling.BOX)
    pen, font = ImageDraw.Draw(picture), ImageFont.truetype(findfont("DejaVu Sans"), 14)
    across, down = size[0] / image.shape[1], size[1] / image.shape[0]
    for id, (x0, y0, x1, y1) in boxes.items():
        colour = COLOURS[(id - 1) % len(COLOURS)]
        corners = [x0 * across, y0 * down, x1 * across - 1, y1 * down - 1]
        pen.rectangle(corners, outline=colour, width=2)
        left, top = corners[:2]
        plate = pen.textbbox((left + 4, top + 2), str(id), font)
        pen.rectangle((left, top, plate[2] + 4, plate[3] + 2), fill=colour)
        pen.text((left + 4, top + 2), str(id), PAPER, font)
    return np.array(picture)


def contact_sheet(
    shots: Sequence[Shot], title: str = "", texts: Mapping[str, str] | None = None
) -> bytes:
    """Return the sheet as a PNG; ``shots`` in the order in which they are shown.

    texts   stored in the file, not shown
    """
    from matplotlib.font_manager import findfont
    from PIL import Image, ImageDraw, ImageFont
    from PIL.PngImagePlugin import PngInfo

    columns = min(COLUMNS, len(shots))
    height, width = shots[0].image.shape[:2]
    width = max(width, WIDTH // 4)  # room for words
    font = ImageFont.truetype(findfont("DejaVu Sans"), 12)  # Pillow's own has no ü
    head = _lines(title, font, columns * (width + GAP) - GAP)
    captions = [
        [
            (line, colour)
            for text, colour in ((shot.title, INK), *((doubt, WARNING) for doubt in shot.doubts))
            for line in _lines(text, font, width)
        ]
        for shot in shots
    ]
    by_row = [captions[at : at + columns] for at in range(0, len(shots), columns)]
    heights = [height + GAP + LINE_HEIGHT * max(map(len, row)) for row in by_row]
    tops = list(accumulate(heights, initial=GAP + LINE_HEIGHT * len(head)))
    sheet = Image.new("RGB", (columns * (width + GAP) + GAP, tops[-1]), PAPER)
    pen = ImageDraw.Draw(sheet)
    for number, line in enumerate(head):
        pen.text((GAP, GAP // 2 + number * LINE_HEIGHT), line, INK, font)
    for at, (shot, caption) in enumerate(zip(shots, captions, strict=True)):
        left, top = GAP + at % columns * (width + GAP), tops[at // columns]
        sheet.paste(Image.fromarray(shot.image), (left, top))
        if shot.doubts:
            box = (left - 2, top - 2, left + width + 1, top + height + 1)
            pen.rectangle(box, outline=WARNING, width=3)
        for number, (line, colour) in enumerate(caption):
            pen.text((left, top + height + 2 + number * LINE_HEIGHT), line, colour, font)
    stream = io.BytesIO()
    info = PngInfo()
    for name, text in (texts or {}).items():
        info.add_text(name, text)
    sheet.save(stream, "PNG", optimize=True, pnginfo=info)
    return stream.getvalue()


def _lines(text: str, font: Any, room: float) -> list[str]:
    """Return all of a text, in lines that fit; a word that is too long for one is broken."""
    lines: list[str] = []
    for word in text.split():
        if lines and font.getlength(f"{lines[-1]} {word}") <= room:
            lines[-1] += f" {word}"
            continue
        while font.getlength(word) > room and len(word) > 1:
            fits = next(
                n for n in range(len(word) - 1, 0, -1) if n == 1 or font.getlength(word[:n]) <= room
            )
            lines.append(word[:fits])
            word = word[fits:]
        lines.append(word)
    return lines


def strip_sheet(strip: Strip) -> bytes:
    """Return a PNG of the pictures of a strip, numbered from 1; a missing one is grey."""
    images = [None if data is None else _pixels(data) for data in strip.pictures]
    shape = next((image.shape for image in images if image is not None), (WIDTH, WIDTH, 3))
    blank = np.full((*shape[:2], 3), NO_PICTURE, np.uint8)
    shots = [
        Shot(
            image if image is not None and image.shape == shape else blank,
            f"{number}  {state or NONE}" if any(strip.believed) else f"{number}",
            (),
        )
        for number, (image, state) in enumerate(zip(images, strip.believed, strict=True), start=1)
    ]
    where = "evenly over what is visible"
    if strip.border is not None:
        where = f"at the {strip.border.side} of {strip.border.state}"
    believed = "; below each picture what is believed" if any(strip.believed) else ""
    return contact_sheet(shots, f"{strip.history.id}: {where}{believed}")


def _pixels(data: bytes) -> Pixels:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as picture:
        size = small_size((picture.height, picture.width), WIDTH)
        return np.asarray(picture.convert("RGB").resize(size))
