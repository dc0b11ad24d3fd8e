"""Results as lines of a table, and as JSON, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dejacue.evaluation.overlap import METRICS
from dejacue_paper.experiments.captions import CAPTIONS, INTRODUCTION, PROTOCOL
from dejacue_paper.experiments.table import ABOUT, ABSENT, NO, YES, Experiment, Result, Value

LABELS = {
    **METRICS,
    "mrr_03": "MRR .3",
    "mrr_05": "MRR .5",
    "recall_at_5_05": "R@5 .5",
    "recall_at_10_05": "R@10 .5",
    "recall_at_50_05": "R@50 .5",
    "best_overlap_normalized_rank": "rank of best overlap",
    "oracle_tiou": "oracle tIoU",
    "oracle_gap": "oracle gap",
    "oracle_gap_closed_at_10": "gap closed at 10",
    "paraphrase_window_tiou": "paraphrase tIoU",
    "paraphrase_exact_agreement": "paraphrase equal",
    "query_macro_joint_crossed_r1_tiou_0.3": "R@1 .3 and identity",
    "query_macro_joint_crossed_r1_tiou_0.5": "R@1 .5 and identity",
    "query_macro_joint_identity_accuracy": "identity",
    "query_macro_target_candidate_oracle_tiou": "oracle tIoU",
    "query_macro_target_valid_run_edge_hit": "touches run edge",
    "candidate_oracle_top1_tiou": "oracle tIoU",
    "permuted_r1_tiou_0.5": "R@1 .5, states exchanged",
    "mean_absolute_duration_error": "duration error",
    "design_cells": "cells",
    "num_original_queries": "descriptions",
    "target_window_changes": "windows changed",
    "joint_window_changes": "windows or tracks changed",
    "joint_identity_changes": "tracks changed",
    "maximum_absolute_target_score_delta": "largest score change",
    "maximum_absolute_joint_score_delta": "largest joint change",
}
PARTS = {"p": "p", "holm p": "Holm p"}
DECIMALS = {"p": 5, "count": 0, "norm": 3}


@dataclass(frozen=True)
class Line:
    """One metric in one row, with its interval, or its p-values."""

    row: str
    metric: str
    here: str
    published: str
    difference: str
    mark: str


def lines(result: Result) -> list[Line]:
    groups: dict[tuple[str, str, str], list[Value]] = {}
    for value in result.values:
        kind = "p" if value.unit == "p" else value.part if value.drawn else ""
        groups.setdefault((value.row, value.metric, kind), []).append(value)
    rows = []
    for (row, metric, kind), values in groups.items():
        label = LABELS.get(metric, metric)
        if kind == "p":
            label += ": p (Holm)" if len(values) > 1 else f": {PARTS[values[0].part]}"
        elif kind in ("low", "high"):
            label += f", {kind} end"
        texts = (_text(values, "here"), _text(values, "published"))
        mark = _mark(values)
        if mark == NO and texts[0] == texts[1]:  # then the difference is in further digits
            texts = (_text(values, "here", digits=4), _text(values, "published", digits=4))
        rows.append(Line(row, label, *texts, _difference(values), mark))
    return rows


def _number(value: Value, number: float, side: str, digits: int = 0) -> str:
    """Return the number with two decimals, or as many as the paper prints."""
    shift = 2 if value.unit == "%" else 0
    decimals = DECIMALS.get(value.unit, 2) + digits
    if side == "published":
        decimals = min(decimals, max(0, value.digits - shift))
    return f"{number * 10**shift:.{decimals}f}".replace("-", "−")


def _text(values: Sequence[Value], side: str, digits: int = 0) -> str:
    """Return "20.51 [15.71, 25.64]", "20.51 ± 3.10" or "0.00106 (0.00318)"; our draws as "20.1
    (18.2 … 22.1)"."""
    known: dict[str, str] = {}
    for value in values:
        number = getattr(value, side)
        if number is None:
            continue
        text = _number(value, number, side, digits)
        if side == "here" and value.drawn:
            low, high = (_number(value, end, side, digits) for end in value.drawn)
            text += f" ({low} … {high})" if low != high else ""
        known[value.part] = text
    if "holm p" in known:
        return f"{known['p']} ({known['holm p']})" if "p" in known else f"({known['holm p']})"
    if "low" in known and len(values) > 1:
        return f"{known.get('mean', '')} [{known['low']}, {known['high']}]".strip()
    if "mean" in known and "std" in known:
        return f"{known['mean']} ± {known['std']}"
    return next(iter(known.values()), "")


def _difference(values: Sequence[Value]) -> str:
    """Return the difference of the mean (else of the first part); 0 where every part rounds to the
    published number."""
    compared = [v for v in values if v.difference is not None]
    if not compared:
        return ""
    if all(value.mark == YES for value in compared):
        return "0"
    scale = 100 if compared[0].unit == "%" else 1
    return f"{scale * (compared[0].difference or 0.0):+.2g}".replace("-", "−")


def _mark(values: Iterable[Value]) -> str:
    marks = {value.mark for value in values}
    return next(mark for mark in (NO, ABOUT, YES, ABSENT) if mark in marks)


Results = Mapping[str, Result]


def summary(results: Iterable[Result], not_run: int = 0) -> str:
    names = list(results)
    total = sum(result.compared for result in names)
    if not total:  # nothing of it is published
        return f"{not_run} table{'s' if not_run > 1 else ''} not run" if not_run else ""
    yes, about, no = (sum(r.count(mark) for r in names) for mark in (YES, ABOUT, NO))
    text = f"{yes} of {total} published values reproduced"
    text += f"; {about} more within our draws ({ABOUT})" if about else ""
    text += f"; {no} not ({NO})" if no else ""
    return text + (f"; {not_run} table{'s' if not_run > 1 else ''} not run" if not_run else "")


def as_json(results: Results, absent: Mapping[str, str]) -> str:
    document = {
        "schema": "dejacue.reproduction/1",
        "summary": summary(results.values(), len(absent)),
        "experiments": {
            name: {"values": [_plain(v) for v in result.values], "notes": result.remarks}
            for name, result in results.items()
        },
        "not_run": dict(absent),
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _plain(value: Value) -> dict[str, Any]:
    low, high = value.drawn or (None, None)
    return {
        "row": value.row,
        "metric": value.metric,
        "part": value.part,
        "unit": value.unit,
        "here": value.here,
        "published": value.published,
        "difference": value.difference,
        "mark": value.mark,
        "drawn_low": low,
        "drawn_high": high,
        "finding": value.finding,
    }


def as_csv(results: Results) -> str:
    rows = [
        {"experiment": name, **_plain(value)}
        for name, result in results.items()
        for value in result.values
    ]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def as_windows(results: Results) -> str:
    """Return {"experiment": {"condition": {"history": [[start, end], …]}}} as JSON."""
    document = {
        name: {
            condition: {history: np.asarray(rows).tolist() for history, rows in windows.items()}
            for condition, windows in result.windows.items()
        }
        for name, result in results.items()
        if result.windows
    }
    return json.dumps(document) + "\n"


def as_markdown(
    entries: Iterable[Experiment],
    results: Results,
    absent: Mapping[str, str],
    figures: Iterable[str],
    arguments: str,
) -> str:
    """Return the page: what the marks mean, a table per experiment, what could not be run and why.

    figures   names of the pictures that were drawn; asked: the names given on the command line
    """
    known = list(entries)
    totals = summary(results.values(), len(absent))
    text = [INTRODUCTION.format(summary=totals, asked=arguments).replace(" **.**", "")]
    text.append(f"| table | {YES} | {ABOUT} | {NO} |\n|---|---|---|---|")
    listed = [(entry, results[entry.name]) for entry in known if entry.name in results]
    for entry, result in listed:
        counts = " | ".join(str(result.count(mark) or "") for mark in (YES, ABOUT, NO))
        text.append(f"| [{entry.name}](#{entry.name}): {entry.title} | {counts} |")
    for entry, result in listed:
        counted = f": {summary([result])}" if result.compared else ""
        text.append(f"\n## {entry.name}\n\n{entry.title}{counted}.\n")
        text.append("| row | metric | here | published | difference | |\n|---|---|---|---|---|---|")
        text += [_row(line) for line in lines(result)]
        text += [f"\n{remark}" for remark in result.remarks]
        for name in result.figures:
            if name in figures:
                text.append(f"\n![{CAPTIONS[name]}](figures/{name}.png)\n\n*{CAPTIONS[name]}*")
    if absent:
        text.append("\n## What was not run, and why\n")
        titles = {entry.name: f"**{entry.name}** ({entry.title})" for entry in known}
        for reason, names in by_reason(absent).items():
            text.append(f"- {', '.join(titles[name] for name in names)}: {reason}.")
    text.append(f"\n{PROTOCOL}")
    return "\n".join(text).rstrip() + "\n"


def by_reason(absent: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what was not run, grouped by the reason."""
    groups: dict[str, list[str]] = {}
    for name, reason in absent.items():
        groups.setdefault(reason, []).append(name)
    return groups


def _row(line: Line) -> str:
    cells = (line.row, line.metric, line.here, line.published, line.difference, line.mark)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
