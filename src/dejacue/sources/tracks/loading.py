"""From a name to a tracker."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from dejacue.arguments import checked
from dejacue.errors import InputError, unknown
from dejacue.plugins import Registry
from dejacue.sources.tracks.base import Tracker

TRACKERS: Registry[Callable[..., Tracker]] = Registry("trackers", {})


def default_tracker() -> str | None:
    """Return the name of the tracker that is taken where none is named: sam2 if what the extra
    ``track`` brings is installed, otherwise None."""
    installed = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
    return "sam2" if installed else None


def check_tracker(name: str) -> None:
    """Refuse a name that no tracker has; load nothing."""
    from dejacue.sources.tracks import sam2, sam3

    models = ("sam2", sam3.KIND, *sam2.REPOSITORIES)
    if name in TRACKERS or name.partition(":")[0] in models:
        return
    if name == "box":  # of earlier versions
        problem = "there is no tracker box any more: a box that stays where it is was never tracked"
        raise InputError(problem, field="tracker", value=name, remedy="give the box and fixed=True")
    raise unknown(
        "tracker", name, ["sam2", *sam2.REPOSITORIES, "sam2:FOLDER", "sam3:FOLDER", *TRACKERS]
    )


@checked
def load_tracker(
    name: str | None = None,
    *,
    device: str | None = None,
    precision: str | None = None,
    **options: Any,
) -> Tracker:
    """Load a tracker by its name; None: sam2, whose weights are not downloaded unasked.

    sam2, sam2-tiny, edgetam, …   SAM 2.1 and others through transformers (dejacue[track])
    sam3:FOLDER                   SAM 3, which starts from the name of an object
    others                        plug-ins (dejacue.trackers)
    """
    if name is None:
        name = "sam2"
        if default_tracker() is not None:  # otherwise it is the extra that is missing
            from dejacue.sources.catalogue import check_models  # which knows the trackers

            check_models(tracker=name)
    from dejacue.sources.tracks import sam2, sam3

    if name in TRACKERS:
        return TRACKERS[name](device=device, precision=precision, **options)
    check_tracker(name)
    load: Callable[..., Tracker] = sam3.load if sam3.finds_by_name(name) else sam2.load
    return load(name, device=device, precision=precision, **options)
