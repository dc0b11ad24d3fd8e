"""Folders of dynamic scenes (NeRF) → clips, as plug-ins of dejacue.data.layouts."""

from collections.abc import Callable, Iterator
from pathlib import Path

from dejacue.sources.images import folders_in


def scenes_in(folder: Path, is_scene: Callable[[Path], object]) -> Iterator[Path]:
    """Return the folder itself, or those in it, where they look like a scene."""
    return (place for place in (folder, *folders_in(folder)) if is_scene(place))
