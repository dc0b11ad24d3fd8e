"""The result of an experiment: values beside the published ones, and every window it chose."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dejacue.evaluation import Paired, bootstrap_interval
from dejacue.evaluation.overlap import METRICS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dejacue_paper.experiments.corpus import Benchmark

# condition → history → rows of [start, end], in the order of the vocabulary
Windows = Mapping[str, Mapping[str, ArrayLike]]

FAMILY = "Holm p: within the three metrics of a comparison."
GROUPS = 20  # draws of the published size, where the published ones are not known
YES, ABOUT, NO, ABSENT = "✓", "≈", "✗", "–"


@dataclass(frozen=True)
class Value:
    """One number of a published table.

    here        ours; None where the data on hand does not allow it
    published   None where the paper has no such row (our own baselines)
    part        mean, low and high (of the 95 % interval), p, holm p, std, …
    unit        % (a fraction), or what the number counts
    digits      decimals of the published number as it is compared
    drawn       smallest and largest of our draws, where the published draws are not known
    finding     why it differs, where we know something about it
    derived     computed from other published figures: shown, but neither reproduced nor not
    """

    row: str
    metric: str
    here: float | None
    published: float | None
    part: str = "mean"
    unit: str = "%"
    digits: int = 6
    drawn: tuple[float, float] | None = None
    finding: str = ""
    derived: bool = False

    @property
    def difference(self) -> float | None:
        known = self.here is not None and self.published is not None
        return self.here - self.published if known else None  # type: ignore[operator]

    @property
    def mark(self) -> str:
        """Return ✓ if it rounds to the published number; ≈ if that is within our draws; ✗ neither;
        – no pair."""
        if self.here is None or self.published is None or self.derived:
            return ABSENT
        slack = 0.5 * 10.0**-self.digits + 1e-12
        if abs(self.here - self.published) <= slack:
            return YES
        if self.drawn and self.drawn[0] - slack <= self.published <= self.drawn[1] + slack:
            return ABOUT
        return NO


@dataclass(frozen=True)
class Result:
    """Values of a table, windows of every condition, remarks, and pictures drawn on demand."""

    values: tuple[Value, ...]
    windows: Windows = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)

    def count(self, mark: str) -> int:
        return sum(value.mark == mark for value in self.values)

    @property
    def compared(self) -> int:
        return len(self.values) - self.count(ABSENT)

    @property
    def remarks(self) -> list[str]:
        """Return notes, and what is known about the values that differ."""
        findings = dict.fromkeys(v.finding for v in self.values if v.mark == NO and v.finding)
        return [*self.notes, *findings]

    @property
    def unexplained(self) -> list[Value]:
        """Return values that differ although nothing says why."""
        return [value for value in self.values if value.mark == NO and not value.finding]


@dataclass(frozen=True)
class Experiment:
    """A published table, figure or claim. Without ``run``: what cannot be computed, and why.

    on_request   ours, not published, and slow: "all" leaves it out
    """

    name: str
    title: str
    run: Callable[[Benchmark], Result] | None = None
    reason: str = ""
    on_request: bool = False


@cache
def published() -> dict[str, Any]:
    """Return the published figures, as facts with their source."""
    text = files("dejacue_paper.experiments").joinpath("published.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def interval_values(
    row: str,
    metric: str,
    here: tuple[float, float, float],
    mean: float | None,
    ci: Iterable[float],
    **options: Any,
) -> list[Value]:
    """Return mean, low and high beside the published ones."""
    figures = (mean, *(ci or (None, None)))
    return [
        Value(row, metric, ours, theirs, part, **options)
        for part, ours, theirs in zip(("mean", "low", "high"), here, figures, strict=True)
    ]


def with_intervals(
    row: str,
    means: NDArray[np.float64],
    chosen: Iterable[str] = METRICS,
    labels: Mapping[str, str] | None = None,
) -> list[Value]:
    """Return mean and interval of some of the METRICS, the columns of ``means`` (groups, 3)."""
    values: list[Value] = []
    for metric, (mean, low, high) in zip(METRICS, intervals(means), strict=True):
        if metric in chosen:
            label = (labels or {}).get(metric, metric)
            values += interval_values(row, label, (mean, low, high), None, ())
    return values


def intervals(means: NDArray[np.float64]) -> list[tuple[float, float, float]]:
    """Return mean, low and high of every column."""
    low, high = bootstrap_interval(means)
    columns = zip(means.mean(axis=0), low, high, strict=True)
    return [(float(a), float(b), float(c)) for a, b, c in columns]


def drawn(row: str, metric: str, draws: NDArray[np.float64], there: float, **options: Any) -> Value:
    """Return our mean over all draws beside the published value, with the smallest and largest
    draw."""
    ends = (float(draws.min()), float(draws.max()))
    return Value(row, metric, float(draws.mean()), there, drawn=ends, **options)


def paired_values(
    row: str, comparisons: Mapping[str, Paired], figures: Mapping[str, Any], **options: Any
) -> list[Value]:
    """Return the difference, interval, p and Holm p of every metric; ``figures`` may lack some.

    The metrics given are the family of the correction; a result's notes say so.
    """
    rows = []
    for metric, ours in comparisons.items():
        theirs = figures.get(metric, {})
        low, high = theirs.get("ci95", (None, None))
        for part, here, there in (
            ("mean", ours.delta, theirs.get("delta")),
            ("low", ours.low, low),
            ("high", ours.high, high),
            ("p", ours.p, theirs.get("p")),
            ("holm p", ours.holm_p, theirs.get("holm_p")),
        ):
            unit = "p" if part.endswith("p") else "%"
            rows.append(Value(row, metric, here, there, part, unit, **options))
    return rows
