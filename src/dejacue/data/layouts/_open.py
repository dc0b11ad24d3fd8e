"""From a folder to a Dataset: which layout it has, and what is in it."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

from dejacue.data.layouts import (
    changeit,
    changeit_frames,
    davis,
    howtochange,
    m3_vos,
    mose,
    vost,
    vost_tas,
    youtube_vos,
)
from dejacue.data.layouts._records import Dataset
from dejacue.data.layouts._seconds import counted_in_frames
from dejacue.errors import InputError
from dejacue.plugins import Registry
from dejacue.progress import Progress, default_progress

READERS: Registry[ModuleType] = Registry(
    "layouts",
    {
        "vost": vost,
        "vost-tas": vost_tas,
        "davis": davis,
        "youtube-vos": youtube_vos,
        "mose": mose,
        "m3-vos": m3_vos,
        "changeit": changeit,
        "changeit-frames": changeit_frames,
        "howtochange": howtochange,
    },
)


def open_dataset(
    folder: str | os.PathLike[str], layout: str | None = None, *, progress: Progress | None = None
) -> Dataset:
    """What is in the folder of a data set; ``layout``: one of READERS, None: as it looks.

    Nothing is decoded. What the data set names and is not there is listed in ``missing``; what
    contradicts itself (times beyond a video, labels that do not exist) is refused, all at once.
    """
    place = Path(folder)
    if not place.is_dir():
        what = "is a file, not a folder" if place.exists() else "no such folder"
        raise InputError(f"{place}: {what}; give the folder of a data set")
    reader = None if layout is None else READERS.named(layout, "layout")
    try:
        if reader is None:
            reader = _recognised(place)
        elif not reader.recognise(place):
            raise InputError(
                f"{place}: does not have the layout {layout}, which needs {reader.NEEDS}"
            )
        found: Dataset = reader.read(place)
        return counted_in_frames(found, progress or default_progress())
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror})") from None


def _recognised(folder: Path) -> ModuleType:
    readers = READERS.loaded()
    names = [name for name, reader in readers.items() if reader.recognise(folder)]
    if not names:
        raise InputError(
            f"{folder}: has none of the layouts {', '.join(READERS)}; give the folder that "
            "contains the files (docs/data.md lists them), or name the layout (--as)"
        )
    if len(names) > 1:
        raise InputError(
            f"{folder}: could be {' or '.join(names)}; name the layout (--as {names[0]}; in "
            f'Python: layout="{names[0]}")'
        )
    return readers[names[0]]
