"""Folders in the layouts of ChangeIt and ChangeIt-Frames."""

from __future__ import annotations

from pathlib import Path

from dejacue_paper.data.rendered import RenderedScene, render, write_scene
from helpers.layouts import document, picture, text


def labels(root: Path, name: str, row: str, category: str = "apple") -> Path:
    """Write the labels of a video: one letter of ``row`` per second."""
    lines = "".join(f"{second},{label}\n" for second, label in enumerate(row))
    return text(root / "annotations" / category / f"{name}.fps1.csv", lines)


def frames(root: Path, numbers: list[int], name: str = "abc") -> None:
    for number in numbers:
        picture(root / "frames" / "apple" / name / f"frame_{number:04}.jpg")


def changeit(root: Path) -> RenderedScene:
    """Write a rendered cup, two frames a second, in the layout of ChangeIt."""
    scene = render(3, family="cup", frames=60, size=(72, 96), rate=2)
    write_scene(root / "videos", scene)
    states = {"full": 1, "empty": 3}
    rows = []
    for second in range(30):
        names = [
            state
            for state, windows in scene.references.items()
            if any(2 * second in window for window in windows)
        ]
        rows.append(f"{second},{states[names[0]] if names else 0}\n")
    text(root / "annotations" / "cup" / "scene.fps1.csv", "".join(rows))
    words = {
        "state1": list(scene.vocabulary.states["full"]),
        "state2": list(scene.vocabulary.states["empty"]),
    }
    document(root / "vocabularies" / "cup.json", {"object": "cup", "states": words})
    (root / "tracked").mkdir()
    (root / "videos" / "Annotations").rename(root / "tracked" / "cup-scene")
    return scene
