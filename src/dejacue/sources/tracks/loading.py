"""From a name to a tracker."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from dejacue.errors import InputError, unknown
from dejacue.plugins import Registry
from dejacue.sources.tracks.base import Tracker
from dejacue.sources.tracks.box import BoxTracker

TRACKERS: Registry[Callable[..., Tracker]] = Registry("trackers", {})


def default_tracker() -> str:
    """The name of the tracker that is taken where none is named: sam2 if what the extra ``track``
    brings is installed, otherwise box."""
    there = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
    return "sam2" if there else "box"


def load_tracker(
    name: str | None = None,
    *,
    device: str | None = None,
    precision: str | None = None,
    **options: Any,
) -> Tracker:
    """A tracker by its name; None: the one that default_tracker names.

    box                           the prompt's box, which stays where it is; in the base install
    sam2, sam2-tiny, edgetam, …   SAM 2.1 and others through transformers (dejacue[track])
    others                        plug-ins (dejacue.trackers)
    """
    unnamed = name is None
    name = default_tracker() if name is None else name
    if name == "box":
        given = {"device": device, "precision": precision, **options}
        unused = [option for option, value in given.items() if value is not None]
        if unused:
            raise InputError(f"the tracker box has no option {', '.join(unused)}; leave it out")
        return BoxTracker()
    if unnamed:
        from dejacue.sources.catalogue import check_default_tracker  # which knows the trackers

        check_default_tracker()
    from dejacue.sources.tracks import sam2

    if name in TRACKERS:
        return TRACKERS[name](device=device, precision=precision, **options)
    if name.partition(":")[0] not in ("sam2", "sam3", *sam2.REPOSITORIES):
        known = ["box", "sam2", *sam2.REPOSITORIES, "sam2:FOLDER", *TRACKERS]
        raise unknown("tracker", name, known)
    return sam2.load(name, device=device, precision=precision, **options)
