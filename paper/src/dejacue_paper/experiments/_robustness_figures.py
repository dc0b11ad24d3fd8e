"""Figures of the experiments on rendered scenes: groups with intervals, and curves over a level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dejacue.records import Window
from dejacue.records._html import COLOURS
from dejacue_paper.experiments._figures import Interval, panels, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = "os^Dv<>"


@styled
def groups_figure(rows: Mapping[str, Mapping[str, Interval]], title: str) -> Figure:
    """Plot name → group → interval (fractions): the groups side by side, a point per name in
    each."""
    figure, ((axis,),) = panels(1, 1, 6.0, 2.6)
    groups = list(next(iter(rows.values())))
    for k, (name, points) in enumerate(rows.items()):
        at = np.arange(len(groups)) + 0.13 * (k - (len(rows) - 1) / 2)
        mean, low, high = 100 * np.array([points[group] for group in groups]).T
        axis.errorbar(
            at,
            mean,
            yerr=[mean - low, high - mean],
            fmt=MARKS[k % 7],
            ms=4,
            lw=1.2,
            color=COLOURS[k % 7],
            label=name,
        )
    axis.set_xticks(range(len(groups)), groups)
    axis.set_ylim(0, 100)
    axis.set_title(title, loc="left")
    figure.legend(frameon=False, loc="outside lower center", ncols=len(rows))
    return figure  # type: ignore[no-any-return]


@styled
def levels_figure(
    levels: Sequence[float],
    lines: Mapping[str, Mapping[str, Sequence[Interval]]],
    what: str = "level",
) -> Figure:
    """Plot metric → kind → one interval (fractions) per level: a panel per metric, a line per kind.

    The lines are set a little apart, so that their intervals can be told from each other.
    """
    figure, (axes,) = panels(1, len(lines), 6.8, 2.8, sharey=True)
    step = 0.25 * min(np.diff(levels)) / max(len(rows) for rows in lines.values())
    for axis, (metric, rows) in zip(axes, lines.items(), strict=True):
        for k, (kind, points) in enumerate(rows.items()):
            at = np.asarray(levels) + step * (k - (len(rows) - 1) / 2)
            mean, low, high = 100 * np.asarray(points).T
            axis.errorbar(
                at,
                mean,
                yerr=[mean - low, high - mean],
                fmt=f"{MARKS[k % 7]}-",
                ms=3.5,
                lw=1.3,
                elinewidth=0.8,
                color=COLOURS[k % 7],
                label=kind,
            )
        axis.set_title(f"{metric} (%)", loc="left")
        axis.set_xlabel(what)
        axis.set_xticks(list(levels))
    axes[0].set_ylim(0, 100)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=len(labels))
    return figure  # type: ignore[no-any-return]


@styled
def calibration_figure(
    curves: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> Figure:
    """Plot how many p-values lie below a level, against the level, where the state is there and
    where it was cut out. Calibrated is on the diagonal."""
    figure, (axes,) = panels(1, len(curves), 1.9 * len(curves), 2.4, sharey=True)
    for axis, (name, (there, cut)) in zip(axes, curves.items(), strict=True):
        axis.plot([0, 100], [0, 100], color="0.7", lw=0.8)
        for k, (label, p_values) in enumerate((("state present", there), ("state cut out", cut))):
            share = 100 * np.arange(1, len(p_values) + 1) / len(p_values)
            axis.step(
                100 * np.sort(p_values), share, where="post", color=COLOURS[k], lw=1.3, label=label
            )
        axis.set_title(name, loc="left")
        axis.set_xlabel("level (%)")
        axis.set_xlim(0, 100)
    axes[0].set_ylim(0, 100)
    axes[0].set_ylabel("called present (%)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=2)
    return figure  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class RobustnessCase:
    """One history in a picture: what the evidence is, what is true, what each readout finds."""

    title: str
    frames: NDArray[np.int64]
    responses: NDArray[np.float64]
    references: Sequence[Window]
    windows: Mapping[str, Sequence[Window]]


@styled
def cases_figure(cases: Sequence[RobustnessCase]) -> Figure:
    """Plot a panel per case: the response as a line, a row of bars for the truth and each
    readout."""
    rows = (len(cases) + 1) // 2
    figure, axes = panels(rows, 2, 7.2, 2.1 * rows)
    for axis, case in zip(axes.flat, cases, strict=False):
        gaps = np.flatnonzero(np.diff(case.frames) > 1) + 1
        axis.plot(
            np.insert(case.frames.astype(float), gaps, np.nan),
            np.insert(case.responses, gaps, np.nan),
            lw=0.7,
            color="0.35",
        )
        low, high = case.responses.min(), case.responses.max()
        step = 0.16 * (high - low)
        bars = {"true": case.references, **case.windows}
        for k, (name, windows) in enumerate(bars.items()):
            level = low - (k + 1) * step
            for window in windows:
                axis.plot(
                    [window.start - 0.5, window.end + 0.5],
                    [level, level],
                    lw=4,
                    solid_capstyle="butt",
                    color="black" if k == 0 else COLOURS[k - 1],
                )
            axis.text(
                1.01, level, name, transform=axis.get_yaxis_transform(), va="center", fontsize=7
            )
        axis.set_title(case.title, loc="left")
        axis.set_yticks([])
    for axis in list(axes.flat)[len(cases) :]:
        axis.set_axis_off()
    return figure  # type: ignore[no-any-return]
