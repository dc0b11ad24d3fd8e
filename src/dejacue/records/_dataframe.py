"""Rows or columns as a data frame of whichever library is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from dejacue.errors import need, unknown


def dataframe(make: Callable[[], Any], library: str | None) -> Any:
    """What ``make`` gives as a data frame of pandas or polars."""
    known = ("pandas", "polars")
    if library not in (None, *known):
        raise unknown("library", library, known)
    name = library or next((n for n in known if importlib.util.find_spec(n)), known[0])
    return need(name, "pip install pandas, or pip install polars").DataFrame(make())
