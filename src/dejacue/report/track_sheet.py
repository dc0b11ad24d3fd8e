"""The contact sheet beside the masks of a tracker."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.report.contact import Shot, chosen, contact_sheet, drawn
from dejacue.sources.atomic import write_bytes
from dejacue.sources.masks import Masks
from dejacue.sources.tracks import Notes, open_written, read_notes
from dejacue.sources.tracks.notes import notes_path
from dejacue.sources.video import Frame, Video

NOTES = "dejacue.track notes"


def sheet_path(output: Path) -> Path:
    """Beside the masks: inside their folder it would be taken for one of them."""
    return output.with_name(f"{output.name}-contact.png")


def check_sheet(output: Path, video: Video) -> Path:
    """Its path; refused, before the work, where it must not be written."""
    sheet = sheet_path(output)
    images = Path(video.path) if Path(video.path).is_dir() else Path(video.path).parent
    if not Path(video.path).is_file() and sheet.absolute().parent == images.absolute():
        raise InputError(
            f"{output}: is among the images of the video, where {sheet.name} would be taken for "
            "one of them; give a path outside that folder"
        )
    if sheet.exists() and _notes_shown(sheet) is None and read_notes(output) is None:
        raise InputError(
            f"{sheet}: is where the contact sheet would go; move it, or give another -o"
        )
    return sheet


def update_sheet(sheet: Path, output: Path, video: Video, notes: Notes) -> None:
    """Draws the sheet of masks that have been written, unless it is there: it holds the hash of the
    notes that it shows, so that masks which a killed run replaced are drawn by the next."""
    digest = hashlib.sha256(notes_path(output).read_bytes()).hexdigest()
    if _notes_shown(sheet) != digest:
        sheet.unlink(missing_ok=True)  # it shows other masks
        masks = open_written(output, notes)
        write_bytes(sheet, _drawn_sheet(video, masks, notes, {NOTES: digest}))


def _notes_shown(sheet: Path) -> str | None:
    """The hash of the notes that a sheet shows; None where there is none of ours."""
    from PIL import Image

    try:
        with Image.open(sheet) as picture:
            return picture.info.get(NOTES)
    except (OSError, ValueError, SyntaxError):
        return None


def _drawn_sheet(video: Video, masks: Masks, notes: Notes, texts: dict[str, str]) -> bytes:
    places = {frame: at for at, frame in enumerate(notes.frames)}
    doubtful = [places[doubt.first] for _, doubt in notes.doubts_of() if doubt.first in places]
    wanted = {notes.frames[at] for at in chosen(len(notes.frames), doubtful)}
    ids = [one for one, own in notes.objects.items() if own.seen]
    shots = []
    for frame in video:
        if frame.source in wanted:
            found = masks.unions(frame, [frozenset([one]) for one in ids])
            seen = {one: mask for one, mask in zip(ids, found, strict=True) if mask is not None}
            shots.append(_shot(frame, drawn(frame.image, seen), places[frame.source], notes))
    label = f"{notes.tracker}, approximate" if notes.approximate else notes.tracker
    return contact_sheet(shots, f"{notes.video} · {masks.path.name} · {label}", texts)


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
