"""What an experiment gives back: values beside the published ones, and every window it chose."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from dejacue.data.release import Release

# experiment → condition → history → [[start, end], …] in the order of the vocabulary
Windows = dict[str, list[list[int]]]


@dataclass(frozen=True)
class Value:
    """One number of a published table: both as fractions."""

    row: str
    metric: str
    here: float
    published: float

    @property
    def agrees(self) -> bool:
        """Rounds to the published figure, which has six decimals."""
        return abs(self.here - self.published) <= 0.5e-6 + 1e-12


@dataclass(frozen=True)
class Result:
    values: tuple[Value, ...]
    windows: Mapping[str, Windows]

    @property
    def reproduced(self) -> int:
        return sum(value.agrees for value in self.values)


@dataclass(frozen=True)
class Experiment:
    """name and title of a table, and the function that computes it on an engine."""

    name: str
    title: str
    run: Callable[[Release, str], Result]


@cache
def published() -> dict[str, Any]:
    """The published figures, as facts with their source."""
    text = files("dejacue.experiments").joinpath("published.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document
