"""A scene on disk, as the command line takes it: video or pictures, masks, words and the truth."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from dejacue.data.rendered._scene import Scene
from dejacue.errors import InputError
from dejacue.records import Reference, Window
from dejacue.sources.atomic import write_text, write_whole
from dejacue.sources.results import write_references


def write_scene(
    folder: str | os.PathLike[str],
    scene: Scene,
    *,
    video: bool = True,
    name: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a scene into a new or empty folder; ``overwrite`` removes what is there.

    scene.mp4         or, without ``video``, JPEGImages/00000.jpg, …
    Annotations/      the given labels as indexed PNG, 00000.png, …
    vocabulary.yaml   states and descriptions
    references.json   the true windows of the history ``name`` (default: "scene", as the video)
    """
    import yaml

    from dejacue.sources.masks import write_masks

    target = Path(folder)
    if overwrite and target.is_dir():
        shutil.rmtree(target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{folder}: already exists; remove it or choose another folder")
    reference = scene_reference(scene, name or "scene")
    if video:
        from dejacue.sources.video import write_video

        images = (scene.image(frame) for frame in range(scene.frames))
        write_video(target / "scene.mp4", images, scene.rate)
    else:
        for frame in range(scene.frames):
            _write_jpeg(target / "JPEGImages" / f"{frame:05d}.jpg", scene, frame)
    masks = (_masks(scene, frame) for frame in range(scene.frames))
    write_masks(target / "Annotations", masks)
    words = {
        "object": scene.vocabulary.object,
        "states": {state: list(texts) for state, texts in scene.vocabulary.states.items()},
    }
    text = yaml.safe_dump(words, sort_keys=False, allow_unicode=True)
    write_text(target / "vocabulary.yaml", text)
    write_references(target / "references.json", [reference])
    return target


def scene_reference(scene: Scene, name: str | None = None) -> Reference:
    """The truth about a scene, for ``evaluate``; the history is called ``scene.id`` by default.

    A state that hands hide throughout is left out.
    """
    seen = {state: windows for state, windows in scene.references.items() if windows}
    return Reference(
        name or scene.id,
        seen,
        frames=Window(0, scene.frames - 1),
        descriptions={state: tuple(scene.vocabulary.states[state]) for state in seen},
    )


def _masks(scene: Scene, frame: int) -> tuple[str, dict[int, NDArray[np.bool_]]]:
    """The file stem of a frame, and the given mask of each object in it."""
    labels = scene.labels(frame)
    return f"{frame:05d}", {int(label): labels == label for label in np.unique(labels) if label}


def _write_jpeg(path: Path, scene: Scene, frame: int) -> None:
    from PIL import Image

    def write(stream: IO[bytes]) -> None:
        Image.fromarray(scene.image(frame)).save(stream, "JPEG", quality=95, subsampling=0)

    write_whole(path, write)
