"""The history of one object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dejacue import History, Masks, load_encoder, locate_object, open_video
from dejacue.finding._encode import build_histories


def build_history(
    video: Any,
    masks: Any,
    encoder: Any,
    *,
    objects: Any = None,
    id: str | None = None,
    **options: Any,
) -> History:
    """Return the history of one object; options are those of ``build_histories``."""
    video = open_video(video) if isinstance(video, str | Path) else video
    encoder = load_encoder(encoder) if isinstance(encoder, str) else encoder
    if isinstance(masks, Masks) or not hasattr(masks, "unions"):
        masks = locate_object(video, masks=masks, objects=objects, id=id)
        named = masks.objects
    else:  # made up in a test
        named = {id or video.name: None if objects is None else frozenset(objects)}
    (history,) = build_histories(video, masks, encoder, named, **options).values()
    return history
