"""Folders of the data sets of this field → clips: videos, masks, true windows, words."""

from __future__ import annotations

import os
from pathlib import Path

from dejacue.data.layouts import seconds, sequences
from dejacue.data.layouts.manifest import clip_rows as clip_rows
from dejacue.data.layouts.manifest import manifest_rows as manifest_rows
from dejacue.data.layouts.manifest import vocabulary_documents as vocabulary_documents
from dejacue.data.layouts.manifest import write_manifest as write_manifest
from dejacue.data.layouts.manifest import write_vocabularies as write_vocabularies
from dejacue.data.layouts.records import Clip as Clip
from dejacue.data.layouts.records import Dataset as Dataset
from dejacue.data.layouts.records import Layout as Layout
from dejacue.errors import InputError
from dejacue.plugins import Registry
from dejacue.progress import Progress, default_progress

READERS: Registry[Layout] = Registry("layouts", {**sequences.LAYOUTS, **seconds.LAYOUTS})


def open_dataset(
    folder: str | os.PathLike[str], layout: str | None = None, *, progress: Progress | None = None
) -> Dataset:
    """Read what is in the folder of a data set; ``layout``: one of READERS, None: as it looks.

    Nothing is decoded. What the data set names and is not there is listed in ``missing``; what
    contradicts itself (times beyond a video, labels that do not exist) is refused, all at once.
    """
    place = Path(folder)
    if not place.is_dir():
        what = "is a file, not a folder" if place.exists() else "no such folder"
        raise InputError(what, file=place, remedy="give the folder of a data set")
    reader = None if layout is None else READERS.named(layout, "layout")
    try:
        if reader is None:
            reader = _recognised(place)
        elif not reader.recognise(place):
            problem = f"does not have the layout {layout}, which needs {reader.NEEDS}"
            raise InputError(problem, file=place, field="layout", value=layout)
        return seconds.counted_in_frames(reader.read(place), progress or default_progress())
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=error.filename) from None


def _recognised(folder: Path) -> Layout:
    readers = READERS.loaded()
    names = [name for name, reader in readers.items() if reader.recognise(folder)]
    if not names:
        problem = f"has none of the layouts {', '.join(READERS)}"
        remedy = (
            "give the folder that contains the files (docs/data.md lists them), or name the "
            "layout (layout=)"
        )
        raise InputError(problem, file=folder, field="layout", remedy=remedy)
    if len(names) > 1:
        problem = f"could be {' or '.join(names)}"
        remedy = f"name the layout (layout={names[0]})"
        raise InputError(problem, file=folder, field="layout", value=names, remedy=remedy)
    return readers[names[0]]
