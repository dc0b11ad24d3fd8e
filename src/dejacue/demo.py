"""The scene of ``dejacue demo``: a cup, rendered once and shipped as a file.

``dejacue_paper.data.rendered.demo`` draws it and says how demo.zip is made.
"""

from __future__ import annotations

import calendar
import os
import shutil
import zipfile
from pathlib import Path

from dejacue.atomic import check_place, resolved, temporary_folder
from dejacue.errors import InputError

ARCHIVE = Path(__file__).with_name("demo.zip")


def write_demo(folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write the demo's scene into a new or empty folder; ``overwrite`` replaces what is there.

    scene.mp4         120 frames of a cup that is emptied
    Annotations/      the labels as indexed PNG, 00000.png, …; the cup is object 1
    vocabulary.yaml   states and descriptions
    references.json   the true windows
    """
    check_place(folder, folder=True)
    target = resolved(folder)
    if not overwrite and target.is_dir() and any(target.iterdir()):
        raise InputError(f"{folder}: already exists; remove it or choose another folder")
    with temporary_folder(target) as temporary, zipfile.ZipFile(ARCHIVE) as archive:
        for member in archive.infolist():
            file = archive.extract(member, temporary / "scene")
            written_s = calendar.timegm(member.date_time)  # histories say of which file they are
            os.utime(file, (written_s, written_s))
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(temporary / "scene", target)
    return Path(folder)
