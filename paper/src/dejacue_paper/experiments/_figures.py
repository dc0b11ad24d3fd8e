"""Figures of the reproduced tables, from plain numbers; readable at column width."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dejacue.records import History, Window
from dejacue.records._html import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN = COLOURS[:3]
GREY = "#999999"
Interval = tuple[float, float, float]  # mean, low, high
P = ParamSpec("P")
SMALL: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,
}


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Let a figure be drawn with the small type of all figures here."""

    @wraps(draw)
    def inside(*values: P.args, **named: P.kwargs) -> Figure:
        from matplotlib import rc_context

        with rc_context(SMALL):
            return draw(*values, **named)

    return inside


def panels(rows: int, columns: int, width: float, height: float, **options: Any) -> Any:
    """Return a figure and its axes (rows, columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


@styled
def effects_figure(changes: ArrayLike, comparisons: Mapping[str, Mapping[str, Interval]]) -> Figure:
    """Plot the ordered paired changes of every component, and the aggregate effects with
    intervals."""
    ordered = np.sort(100 * np.asarray(changes))
    figure, ((left, right),) = panels(1, 2, 6.4, 2.5, width_ratios=[1.5, 1])
    colours = np.where(ordered > 0, BLUE, np.where(ordered < 0, ORANGE, GREY))
    at = np.arange(len(ordered))
    left.vlines(at, 0, ordered, colors=colours.tolist(), lw=1.4)
    left.scatter(at, ordered, s=7, c=colours.tolist(), zorder=3)
    left.axhline(0, color="black", lw=0.6)
    counts = [int((ordered < 0).sum()), int((ordered == 0).sum()), int((ordered > 0).sum())]
    left.set_title("(a) vocabulary − absolute: R@1 .5 (points)", loc="left")
    left.set_xlabel(f"components: {counts[0]} decline, {counts[1]} tie, {counts[2]} improve")
    left.set_xticks([])
    for k, (name, rows) in enumerate(comparisons.items()):
        where = np.arange(len(rows))[::-1] + 0.15 * (1 - 2 * k)
        mean, low, high = 100 * np.array(list(rows.values())).T
        right.errorbar(
            mean,
            where,
            xerr=[mean - low, high - mean],
            fmt="os"[k % 2],
            ms=4,
            lw=1.2,
            color=(BLUE, ORANGE)[k % 2],
            label=name,
        )
        right.set_yticks(np.arange(len(rows))[::-1], list(rows))
    right.axvline(0, color="black", lw=0.6)
    right.set_title("(b) mean change (points)", loc="left")
    right.set_ylim(-0.6, len(rows) + 0.1)
    right.legend(loc="upper right", frameon=False)
    return figure  # type: ignore[no-any-return]


@styled
def durations_figure(
    durations: Sequence[int], lines: Mapping[str, Mapping[str, Sequence[float]]]
) -> Figure:
    """Plot the synthetic study: one panel per metric, one line per norm, by true duration."""
    figure, (axes,) = panels(1, len(lines), 6.4, 2.3)
    names = {"r1_05": "R@1 .5", "top1_tiou": "Top-1 tIoU"}
    norms = {"sqrt_valid_count": "sum / √length", "sum": "sum", "mean": "mean"}
    for axis, (metric, rows) in zip(axes, lines.items(), strict=True):
        for k, norm in enumerate(norms):
            axis.plot(
                durations,
                100 * np.asarray(rows[norm]),
                marker="os^"[k],
                ms=4,
                lw=1.4,
                color=(BLUE, ORANGE, GREEN)[k],
                label=norms[norm],
            )
        axis.set_title(f"{names[metric]} (%)", loc="left")
        axis.set_xlabel("true duration (frames)")
        axis.set_xticks(list(durations))
        axis.set_ylim(0, 100)
    axes[0].legend(frameon=False, loc="upper left")
    return figure  # type: ignore[no-any-return]


@styled
def diagnostics_figure(
    paraphrase: Mapping[str, tuple[float, float]],
    oracle: Mapping[str, tuple[float, float]],
    norms: Mapping[str, Mapping[str, float]],
) -> Figure:
    """Plot VOST: paraphrase agreement, selected against oracle, and sum against square root
    (dual)."""
    figure, (axes,) = panels(1, 3, 6.8, 2.2)
    for axis, rows, labels, title in (
        (axes[0], paraphrase, ("overlap", "equal"), "(a) two wordings of a state"),
        (axes[1], oracle, ("selected", "best candidate"), "(b) Top-1 tIoU"),
    ):
        where = np.arange(len(rows))[::-1]
        first, second = 100 * np.array(list(rows.values())).T
        axis.hlines(where, np.minimum(first, second), np.maximum(first, second), color="#CCCCCC")
        axis.plot(first, where, "o", ms=5, color=BLUE, label=labels[0])
        axis.plot(second, where, "o", ms=5, mfc="white", color=BLUE, label=labels[1])
        axis.set_yticks(where, list(rows))
        axis.set_ylim(-0.5, len(rows) + 0.2)
        axis.set_xlim(0, 100)
        axis.set_title(f"{title} (%)", loc="left")
        axis.legend(frameon=False, loc="upper center", ncols=2, columnspacing=0.8, handletextpad=0)
    bars = axes[2]
    metrics = list(next(iter(norms.values())))
    for k, (norm, row) in enumerate(norms.items()):
        at = np.arange(len(metrics)) + (k - 0.5) * 0.36
        drawn = bars.bar(
            at, [100 * row[m] for m in metrics], 0.34, color=(BLUE, ORANGE)[k], label=norm
        )
        bars.bar_label(drawn, fmt="%.1f", fontsize=6.5)
    bars.set_xticks(range(len(metrics)), metrics)
    bars.set_title("(c) window score, dual (%)", loc="left")
    bars.set_ylim(0, 1.6 * max(100 * value for row in norms.values() for value in row.values()))
    bars.legend(frameon=False, loc="upper left")
    return figure  # type: ignore[no-any-return]


@styled
def shifts_figure(histories: Sequence[str], rows: Mapping[str, Sequence[float]]) -> Figure:
    """Plot a matrix: one row per circular shift, one column per history and the mean
    (fractions)."""
    figure, ((axis,),) = panels(1, 1, 3.4, 0.6 + 0.24 * len(rows))
    table = 100 * np.array(list(rows.values()))
    axis.imshow(table, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    for (r, c), value in np.ndenumerate(table):
        axis.text(
            c,
            r,
            f"{value:.1f}",
            ha="center",
            va="center",
            fontsize=7,
            color="white" if value > 55 else "black",
        )
    axis.set_xticks(range(len(histories)), histories)
    axis.xaxis.tick_top()
    axis.set_yticks(range(len(rows)), list(rows))
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    axis.set_xlabel("R@1 .5 (%)")
    return figure  # type: ignore[no-any-return]


@styled
def missing_figure(
    rates: Sequence[float],
    lines: Mapping[str, Mapping[str, ArrayLike]],
    published: Mapping[str, Mapping[str, Sequence[float]]],
) -> Figure:
    """Plot missing frames: our draws (line and range) and the published means, strict and bridged.

    lines   metric → condition → (draws, rates); the first rate is 0
    """
    figure, (axes,) = panels(1, len(lines), 6.4, 2.4, sharey=True)
    at = 100 * np.asarray(rates)
    for axis, (metric, rows) in zip(axes, lines.items(), strict=True):
        for k, (name, draws) in enumerate(rows.items()):
            values = 100 * np.asarray(draws)
            colour = (ORANGE, BLUE)[k % 2]
            axis.fill_between(at, values.min(0), values.max(0), color=colour, alpha=0.18, lw=0)
            axis.plot(at, values.mean(0), color=colour, marker="os"[k % 2], ms=4, label=name)
            theirs = 100 * np.asarray(published[metric][name])
            axis.plot(at[1:], theirs, "x", color="black", ms=5, label="published" if k else None)
        axis.set_title(f"{metric} (%)", loc="left")
        axis.set_xlabel("frames removed (%)")
        axis.set_xticks(at)
    axes[0].set_ylim(0, None)
    axes[0].legend(frameon=False, loc="lower left", ncols=3)
    return figure  # type: ignore[no-any-return]


@styled
def ranking_figure(rows: Mapping[str, Mapping[str, float]]) -> Figure:
    """Plot bars: one group per measure, one bar per coordinate system."""
    figure, ((axis,),) = panels(1, 1, 5.2, 2.4)
    measures = list(next(iter(rows.values())))
    width = 0.8 / len(rows)
    for k, (name, row) in enumerate(rows.items()):
        at = np.arange(len(measures)) + (k - (len(rows) - 1) / 2) * width
        drawn = axis.bar(
            at,
            [100 * row[m] for m in measures],
            0.94 * width,
            label=name,
            color=(GREY, BLUE, ORANGE)[k % 3],
        )
        axis.bar_label(drawn, fmt="%.1f", fontsize=6.5)
    axis.set_xticks(range(len(measures)), measures)
    axis.set_ylim(0, 112)
    axis.set_ylabel("%")
    axis.legend(frameon=False, loc="upper left", ncols=3)
    return figure  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Case:
    """One description of one history: its responses, the window found and the true ones."""

    title: str
    history: History
    responses: NDArray[np.float64]
    window: Window
    references: Sequence[Window]


@styled
def cases_figure(cases: Sequence[Case]) -> Figure:
    """Plot evidence over time; blue bands are references, orange is the window found."""
    figure, axes = panels(len(cases), 1, 5.6, 1.35 * len(cases))
    for (axis,), case in zip(axes, cases, strict=True):
        frames = case.history.frames
        for number, window in enumerate(case.references):
            axis.axvspan(
                window.start - 0.5,
                window.end + 0.5,
                color=BLUE,
                alpha=0.18,
                lw=0,
                label=None if number else "reference",
            )
        for run in np.split(np.arange(len(frames)), case.history.run_offsets[1:-1]):
            axis.plot(frames[run], case.responses[run], color="#444444", lw=0.7)
        top = float(case.responses.max())
        axis.plot(
            [case.window.start - 0.5, case.window.end + 0.5],
            [1.12 * top] * 2,
            color=ORANGE,
            lw=4,
            solid_capstyle="butt",
            label="window found",
        )
        axis.axhline(0, color="#BBBBBB", lw=0.5, zorder=0)
        axis.set_ylim(None, 1.25 * top)
        axis.set_xlim(frames[0] - 0.5, frames[-1] + 0.5)
        axis.set_title(case.title, loc="left")
    axes[-1][0].set_xlabel("frame")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower right", ncols=2)
    figure.supylabel("calibrated response", fontsize=8)
    return figure  # type: ignore[no-any-return]
