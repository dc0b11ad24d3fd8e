"""Draw the scene that ``dejacue demo`` unpacks, and archive it; the same scene, the same bytes.

python -m dejacue_paper.data.rendered.demo src/dejacue/demo.zip
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path
from typing import IO

from dejacue.atomic import write_whole
from dejacue_paper.data.rendered.render import render, write_scene
from dejacue_paper.data.rendered.scene import RenderedScene


def demo_scene() -> RenderedScene:
    return render(7, family="cup", topology="three", hand=0.3, exits=1)


def archive(folder: Path, stream: IO[bytes]) -> None:
    """Write the files of a folder, sorted, without times and not compressed, as a zip file."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as target:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix())
            entry.external_attr = 0o100644 << 16
            target.writestr(entry, path.read_bytes())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        scene = write_scene(Path(temporary, "scene"), demo_scene())
        write_whole(sys.argv[1], lambda stream: archive(scene, stream))
