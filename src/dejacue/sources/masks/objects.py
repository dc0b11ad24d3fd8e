"""Which mask ids are which object: 1 is one, 1,2 are two, 1+2 are the pieces of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dejacue.errors import InputError, shortened

SAID = 'one (1), several (1,2), the pieces of one (1+2), or "all"'


def parse_objects(text: str) -> list[list[int]]:
    """The ids of each object, in the order given."""
    try:
        groups = [[int(one) for one in part.split("+")] for part in text.split(",")]
    except ValueError:
        groups = []
    return check_groups(groups, text)


def object_groups(given: Any) -> list[list[int]]:
    """The same from Python: an id, ids that are the pieces of one, or a list of these for each of
    several; a text as on the command line."""
    if isinstance(given, str):
        return parse_objects(given)
    values = list(given) if isinstance(given, Iterable) else [given]
    if values and all(map(_is_id, values)):
        values = [values]
    groups = [list(own) if isinstance(own, Iterable) else [own] for own in values]
    return check_groups(groups, given)


def check_groups(groups: list[list[Any]], given: Any) -> list[list[int]]:
    ids = [one for own in groups for one in own]
    shown = f'"{shortened(given, 40)}"' if isinstance(given, str) else f"{given!r:.40}"
    if not ids or not all(groups) or not all(map(_is_id, ids)):
        raise InputError(f"objects {shown}: give at least one mask id: {SAID}")
    if len(set(ids)) < len(ids):
        raise InputError(f"objects {shown}: an id appears twice; each id belongs to one object")
    return [[int(one) for one in own] for own in groups]


def object_name(ids: Iterable[int]) -> str:
    """What one of several is called after the name of its video."""
    return "+".join(map(str, ids))


def _is_id(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
