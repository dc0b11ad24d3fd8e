"""Which mask ids are which object: 1 is one, 1,2 are two, 1+2 are the pieces of one."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from dejacue.errors import InputError, shortened


def object_groups(objects: Any) -> list[list[int]]:
    """Return the ids of each object, in the order given: from text as above, or from Python, an id,
    ids that are the pieces of one object, or a list of these for each of several."""
    groups: list[list[Any]] = []
    if isinstance(objects, str):
        quoted = f'"{shortened(objects, 40)}"'
        with suppress(ValueError):
            groups = [[int(id) for id in part.split("+")] for part in objects.split(",")]
    else:
        quoted = f"{objects!r:.40}"
        values = list(objects) if isinstance(objects, Iterable) else [objects]
        if values and all(map(is_id, values)):
            values = [values]
        groups = [list(value) if isinstance(value, Iterable) else [value] for value in values]
    ids = [id for group in groups for id in group]
    if not ids or not all(groups) or not all(map(is_id, ids)):
        problem = (
            f"objects {quoted}: give at least one mask id: one (1), several (1,2), the pieces of "
            'one (1+2), or "all"'
        )
        raise InputError(problem, field="objects", value=objects)
    if len(set(ids)) < len(ids):
        problem = f"objects {quoted}: an id appears twice"
        remedy = "each id belongs to one object"
        raise InputError(problem, field="objects", value=objects, remedy=remedy)
    return [[int(id) for id in group] for group in groups]


def object_name(ids: Iterable[int]) -> str:
    """Return what one of several objects is called after the name of its video."""
    return "+".join(map(str, ids))


def is_id(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
