"""From a name to a detector."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dejacue.errors import InputError, unknown
from dejacue.plugins import Registry
from dejacue.sources.detectors import zero_shot
from dejacue.sources.detectors.base import Detector

DETECTORS: Registry[Callable[..., Detector]] = Registry("detectors", {})


def load_detector(
    name: str | os.PathLike[str] | None = None, *, device: str | None = None, **options: Any
) -> Detector:
    """Load a detector by its name, or from the folder of a model.

    None             llmdet, which is not downloaded unasked
    llmdet, grounding-dino, owlv2, …   through transformers (dejacue[track])
    FOLDER, OWNER/REPOSITORY   another model of these kinds, on this machine or on the hub
    others           plug-ins (dejacue.detectors)
    """
    if name is None:
        from dejacue.sources.catalogue import check_models  # which knows the detectors

        name = zero_shot.DEFAULT
        check_models(detector=name)
    name = os.fspath(name)
    if name in zero_shot.REPOSITORIES or _is_model(name):
        if options:
            raise InputError(
                f"{name} has no option {', '.join(options)}", field="options", remedy="leave it out"
            )
        return zero_shot.load(name, device=device)
    if name not in DETECTORS:
        raise unknown("detector", name, [*zero_shot.REPOSITORIES, "FOLDER", *DETECTORS])
    detector = DETECTORS[name](device=device, **options)
    if not isinstance(detector, Detector):
        kind = type(detector).__name__
        raise InputError(
            f'the plug-in "{name}" returned a {kind}, not a Detector', field="detector", value=name
        )
    return detector


def _is_model(name: str) -> bool:
    if name in DETECTORS:
        return False
    return "/" in name or os.sep in name or Path(name).expanduser().is_dir()
