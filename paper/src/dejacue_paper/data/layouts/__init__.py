"""Folders of the data sets of this field → clips: videos, masks, true windows, words."""

from __future__ import annotations

import os
from pathlib import Path

from dejacue.errors import InputError, unknown
from dejacue.progress import Progress, default_progress
from dejacue_paper.data.layouts import d_nerf, nerfies, neu3d, seconds, sequences
from dejacue_paper.data.layouts.manifest import clip_rows as clip_rows
from dejacue_paper.data.layouts.manifest import manifest_rows as manifest_rows
from dejacue_paper.data.layouts.manifest import vocabulary_documents as vocabulary_documents
from dejacue_paper.data.layouts.manifest import write_manifest as write_manifest
from dejacue_paper.data.layouts.manifest import write_vocabularies as write_vocabularies
from dejacue_paper.data.layouts.records import Clip as Clip
from dejacue_paper.data.layouts.records import Dataset as Dataset
from dejacue_paper.data.layouts.records import Layout as Layout

LAYOUTS: dict[str, Layout] = {
    **sequences.LAYOUTS,
    **seconds.LAYOUTS,
    "nerfies": nerfies.LAYOUT,
    "neu3d": neu3d.LAYOUT,
    "d-nerf": d_nerf.LAYOUT,
}


def open_dataset(
    folder: str | os.PathLike[str], layout: str | None = None, *, progress: Progress | None = None
) -> Dataset:
    """Read what is in the folder of a data set; ``layout``: one of LAYOUTS, None: as it looks.

    Nothing is decoded. What the data set names and is not there is listed in ``missing``; what
    contradicts itself (times beyond a video, labels that do not exist) is refused, all at once.
    """
    place = Path(folder)
    if not place.is_dir():
        what = "is a file, not a folder" if place.exists() else "no such folder"
        raise InputError(f"{place}: {what}; give the folder of a data set")
    if layout is not None and layout not in LAYOUTS:
        raise unknown("layout", layout, LAYOUTS)
    try:
        reader = LAYOUTS[layout or _recognised(place)]
        if layout is not None and not reader.recognise(place):
            problem = f"does not have the layout {layout}, which needs {reader.needs}"
            raise InputError(f"{place}: {problem}")
        return seconds.counted_in_frames(reader.read(place), progress or default_progress())
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror})") from None


def _recognised(folder: Path) -> str:
    names = [name for name, layout in LAYOUTS.items() if layout.recognise(folder)]
    if not names:
        raise InputError(
            f"{folder}: has none of the layouts {', '.join(LAYOUTS)}; give the folder that "
            "contains the files (paper/docs/data.md lists them), or name the layout"
        )
    if len(names) > 1:
        problem = f"could be {' or '.join(names)}"
        raise InputError(f'{folder}: {problem}; name the layout, such as "{names[0]}"')
    return names[0]
