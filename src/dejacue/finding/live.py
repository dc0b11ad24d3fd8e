"""Live takes pictures one at a time, says the state of the object now, and ends in a Finding.

picture, mask ──▶ crop ──▶ encode ──▶ LiveReading ──▶ Update
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dejacue.errors import InputError, StrPath, counted
from dejacue.files.findings import Pictures, Provenance, holds_finding
from dejacue.files.histories import read_history
from dejacue.finding._encode import history_warnings
from dejacue.finding._readout import (
    Examples,
    VocabularySource,
    encode_words,
    load_words,
    name_of,
)
from dejacue.finding.finding import Finding, Like, check_teachers, read_teachers, teacher_notes
from dejacue.finding.request import FindRequest, Lazy, loaded_encoder, unwrapped
from dejacue.masks import Region, RegionMasks
from dejacue.masks.reader import MIN_NOTED_OUTSIDE, share_outside
from dejacue.method.live import DELAY_S, LiveReading
from dejacue.method.localization import DEFAULT_READOUT, ReadOptions
from dejacue.method.readout import Readout
from dejacue.models.encoders import Encoder, encoder_name
from dejacue.models.encoders.base import EncoderInfo
from dejacue.models.trackers.base import box_mask
from dejacue.records import History, Note
from dejacue.records.arrays import Flags, Pixels
from dejacue.records.history import LOOKED_AT
from dejacue.records.update import Update
from dejacue.report.thumbnails import PictureAlbum

JUDGED_ROWS = 64  # the last ones: does the encoder know such pictures?


class Live:
    """Tells the state of one object, frame by frame, while it is being filmed.

    states, examples, like, exhaustive, order, encoder, readout, whole: as ``find`` takes them;
    states may also be the folder of a finding: what was confirmed there

    delay_s      seconds for which an occurrence stays the same before it is closed
    horizon_s    seconds to keep and to read; None: all
    calibrate    a history (or its file) of a similar object, to start the calibration from
    on_update    called with every Update
    pictures     keep a few for the report

    Nothing runs beside the calls.

    >>> live = Live({"empty": "an empty cup", "full": "a full cup"}, encoder="mini")
    >>> update = live.push(np.zeros((40, 60, 3), np.uint8), box=(10, 5, 30, 20))
    >>> update.frame, update.state, update.waits
    (0, None, 7)
    """

    def __init__(
        self,
        states: VocabularySource | Lazy | None = None,
        *,
        examples: Examples | None = None,
        like: Like | Sequence[Like] = (),
        order: Sequence[str] | None = None,
        exhaustive: bool = False,
        whole: bool = False,
        encoder: Encoder | str | Lazy | None = None,
        readout: str | Readout | ReadOptions = DEFAULT_READOUT,
        delay_s: float = DELAY_S,
        horizon_s: float | None = None,
        calibrate: History | StrPath | None = None,
        on_update: Callable[[Update], object] | None = None,
        id: str = "live",
        pictures: bool = False,
    ) -> None:
        source, options = unwrapped(states)
        if isinstance(source, str | os.PathLike) and holds_finding(Path(source)):
            several = like if isinstance(like, list | tuple) else (like,)
            like, source = (source, *several), None
        reading = FindRequest("", order=order, readout=readout).reading
        self._teachers = read_teachers(like)
        words = load_words(
            source, examples=examples, like=self._teachers, exhaustive=exhaustive, **options
        )
        name, templates = name_of(source), options.get("templates")
        known = read_history(calibrate) if isinstance(calibrate, str | os.PathLike) else calibrate
        if unwrapped(encoder)[0] is None and self._teachers:
            encoder = Lazy(encoder_name(self._teachers[0].history), unwrapped(encoder)[1])
        self.encoder = loaded_encoder(encoder)
        check_teachers(self._teachers, self.encoder)
        self._info = EncoderInfo.of(self.encoder)
        encoded, self._warnings = encode_words(
            words,
            self.encoder,
            like=() if source is None else self._teachers,
            templates=templates,
            name=name,
        )
        if encoded.encoder not in (None, self.encoder.identity):
            raise InputError(
                f'{name}: was encoded with "{encoded.encoder}", but images are encoded with '
                f'"{self.encoder.identity}"; use the same encoder for both'
            )
        self.reading = LiveReading(
            encoded,
            readout=reading.get("readout", DEFAULT_READOUT),
            coordinates=reading.get("coordinates"),
            delay_s=delay_s,
            horizon_s=horizon_s,
            calibrate=known,
        )
        self._on_update, self._id, self._looked, self._whole = on_update, id, 0, whole
        self._cut_off, self._most_cut_off = 0, 0.0  # boxes that stick out, and the largest share
        self._recent: deque[NDArray[np.float32]] = deque(maxlen=JUDGED_ROWS)
        self._album = PictureAlbum() if pictures else None
        self._provenance = Provenance(encoder=self.encoder.identity, prompts=templates)

    def push(
        self,
        picture: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        box: Sequence[float] | None = None,
        time_s: float | None = None,
        frame: int | None = None,
        source: int | None = None,
    ) -> Update:
        """Read the next frame: (H, W, 3) RGB uint8, and where the object is in it.

        mask     (H, W) or (1, H, W), not 0 on the object; or box (x0, y0, x1, y1) in pixels around
                 it; what lies outside the picture is left out, and the finding says so. Neither,
                 or an empty one: the object is not seen, unless it is the ``whole`` picture
        time_s   seconds: of all frames, or of none
        frame    its number; default: one more than the last. source: that in a file
        """
        image = np.asarray(picture)
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or not image.size:
            problem = f"the image has type {image.dtype} and shape {image.shape}"
            raise InputError(f"{problem}; give RGB as uint8 of shape (height, width, 3)")
        if self._whole and (mask is not None or box is not None):
            raise InputError("whole is given as well as a mask or box; leave one of them out")
        seen = np.ones(image.shape[:2], bool) if self._whole else _mask(image, mask, box)
        if box is not None:
            x0, y0, x1, y1 = map(float, box)
            share = share_outside((x0, y0, x1 - x0, y1 - y0), image.shape[:2])
            self._cut_off += share > MIN_NOTED_OUTSIDE
            self._most_cut_off = max(self._most_cut_off, share)
        row = None
        if seen is not None:
            row = self.encoder.encode_images([self._info.pixels(image, seen)])[0]
            self._recent.append(row)
        update = self.reading.push(row, frame=frame, time_s=time_s, source=source)
        self._looked += 1
        if self._album is not None:
            self._album.see(update.frame, lambda: image, {"": seen})
        return self._announced(update)

    def flush(self) -> Update:
        """Read what is kept as ``find`` does, and close all that is found."""
        return self._announced(self.reading.flush())

    def finish(self, provenance: Provenance | None = None, warnings: Sequence[str] = ()) -> Finding:
        """Return the Finding of the frames that are kept.

        provenance, warnings   what else is known of where they came from
        """
        details = {**self.encoder.details, LOOKED_AT: str(self._looked)}
        if self._whole:
            details["masks"] = RegionMasks(Region(), Path()).key
        history = self.reading.history(self._id, encoder=self.encoder.identity, made_with=details)
        history = replace(history, made_with=details | self._info.quality_note(history.features))
        doubtful = [Note(text, "doubtful") for text in warnings]
        if self._cut_off:
            text = (
                f"in {counted(self._cut_off, 'frame')} the box reaches out of the picture, by up "
                f"to {self._most_cut_off:.0%} of its area, which is left out; boxes are in pixels "
                "of the picture that is given"
            )
            doubtful.append(Note(text, "doubtful"))
        taught_by = teacher_notes(self._teachers, history)
        all_warnings = (*doubtful, *history_warnings(history), *self._warnings, *taught_by)
        pictures = Pictures({}, {})
        if self._album is not None:
            pictures = self._album.pictures("", int(history.frames[0]))
        timeline = self.reading.finish(history)
        if provenance is not None:
            provenance = replace(
                provenance, encoder=self._provenance.encoder, prompts=self._provenance.prompts
            )
        words, about = self.reading.vocabulary, provenance or self._provenance
        return Finding(history, words, timeline, *pictures, (), all_warnings, about)

    def _announced(self, update: Update) -> Update:
        if self._recent and not self._info.knows_pictures(np.stack(self._recent)):
            update = Update(update.frame, update.time_s)  # what it says would be meaningless
        if self._on_update is not None:
            self._on_update(update)
        return update


def _mask(image: Pixels, mask: ArrayLike | None, box: Sequence[float] | None) -> Flags | None:
    """Return the mask of the object; None where it is not seen."""
    if mask is not None and box is not None:
        raise InputError("both a mask and a box are given; leave one of them out")
    if mask is not None:
        seen = np.asarray(mask) != 0
        seen = seen[0] if seen.shape[:-2] == (1,) else seen
        if seen.shape != image.shape[:2]:
            problem = f"the mask has shape {seen.shape}, but the image has shape {image.shape}"
            raise InputError(problem)
    elif box is not None:
        corners = np.asarray(box, dtype=float) if len(box) == 4 else np.full(4, np.nan)
        x0, y0, x1, y1 = corners.tolist()
        if not (np.isfinite(corners).all() and x0 < x1 and y0 < y1):
            raise InputError(f"box {box}: give (x0, y0, x1, y1) in pixels, x0 < x1 and y0 < y1")
        seen = box_mask((x0, y0, x1, y1), image)
    else:
        return None
    return seen if seen.any() else None
