"""Results as lines of a table, and as JSON, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dejacue.experiments.table import (
    ABOUT,
    ABSENT,
    METRICS,
    NO,
    YES,
    Experiment,
    Result,
    Value,
)

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
    groups: dict[tuple[str, str, bool], list[Value]] = {}
    for value in result.values:
        groups.setdefault((value.row, value.metric, value.unit == "p"), []).append(value)
    found = []
    for (row, metric, tests), own in groups.items():
        label = LABELS.get(metric, metric)
        if tests:
            label += ": p (Holm)" if len(own) > 1 else f": {PARTS[own[0].part]}"
        texts = (_text(own, "here"), _text(own, "published"))
        found.append(Line(row, label, *texts, _difference(own), _mark(own)))
    return found


def _number(value: float, unit: str, signed: bool = False) -> str:
    scaled = 100 * value if unit == "%" else value
    text = f"{scaled:{'+' if signed else ''}.{DECIMALS.get(unit, 2)}f}"
    return text.replace("-", "−")


def _text(own: Sequence[Value], side: str) -> str:
    """ "20.51 [15.71, 25.64]", "23.7 ± 3.6", "0.00106 (0.00318)"; our draws as "18.2 … 22.1"."""
    known: dict[str, str] = {}
    for value in own:
        number = getattr(value, side)
        if number is None:
            continue
        text = _number(number, value.unit)
        if side == "here" and value.drawn:
            low, high = (_number(end, value.unit) for end in value.drawn)
            text += f" ({low} … {high})" if low != high else ""
        known[value.part] = text
    if "holm p" in known:
        return f"{known['p']} ({known['holm p']})" if "p" in known else f"({known['holm p']})"
    if "low" in known:
        return f"{known.get('mean', '')} [{known['low']}, {known['high']}]".strip()
    return next(iter(known.values()), "")


def _difference(own: Sequence[Value]) -> str:
    """The largest one of all parts; 0 where every part rounds to the published number."""
    found = [v for v in own if v.difference is not None]
    if not found:
        return ""
    if all(value.mark == YES for value in found):
        return "0"
    largest = max(found, key=lambda v: abs(v.difference or 0.0))
    return _small(largest.difference or 0.0, largest.unit)


def _small(difference: float, unit: str) -> str:
    scaled = 100 * difference if unit == "%" else difference
    return f"{scaled:+.2g}".replace("-", "−")


def _mark(own: Iterable[Value]) -> str:
    marks = {value.mark for value in own}
    return next(mark for mark in (NO, ABOUT, YES, ABSENT) if mark in marks)


Results = Mapping[str, Result]


def summary(results: Iterable[Result]) -> str:
    own = list(results)
    total = sum(result.compared for result in own)
    yes, about, no = (sum(r.count(mark) for r in own) for mark in (YES, ABOUT, NO))
    text = f"{yes} of {total} published values reproduced"
    text += f"; {about} more lie within our draws ({ABOUT})" if about else ""
    return text + (f"; {no} differ ({NO})" if no else "")


def as_json(results: Results, absent: Mapping[str, str]) -> str:
    document = {
        "schema": "dejacue.reproduction/1",
        "summary": summary(results.values()),
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
        "row": value.row, "metric": value.metric, "part": value.part, "unit": value.unit,
        "here": value.here, "published": value.published, "difference": value.difference,
        "mark": value.mark, "drawn_low": low, "drawn_high": high, "finding": value.finding,
    }  # fmt: skip


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
    """{"experiment": {"condition": {"history": [[start, end], …]}}}"""
    document = {
        name: {
            condition: {history: np.asarray(rows).tolist() for history, rows in own.items()}
            for condition, own in result.windows.items()
        }
        for name, result in results.items()
    }
    return json.dumps(document) + "\n"


def as_markdown(
    entries: Iterable[Experiment],
    results: Results,
    absent: Mapping[str, str],
    figures: Iterable[str],
    asked: str,
) -> str:
    """The page: what the marks mean, a table per experiment, what could not be run and why.

    figures   names of the pictures that were drawn; asked: the names given on the command line
    """
    known = list(entries)
    text = [INTRODUCTION.format(summary=summary(results.values()), asked=asked)]
    for entry in known:
        if entry.name not in results:
            continue
        result = results[entry.name]
        text.append(f"## {entry.name}: {entry.title}\n\n{summary([result])}.\n")
        text.append("| row | metric | here | published | difference | |\n|---|---|---|---|---|---|")
        text += [_row(line) for line in lines(result)]
        text.append("".join(f"\n{remark}\n" for remark in result.remarks))
        text += [f"![{name}](figures/{name}.png)\n" for name in result.figures if name in figures]
    if absent:
        text.append("## What was not run, and why\n")
        titles = {entry.name: f"**{entry.name}** ({entry.title})" for entry in known}
        for reason, names in by_reason(absent).items():
            text.append(f"- {', '.join(titles[name] for name in names)}: {reason}.")
        text.append("")
    text.append(PROTOCOL)
    return "\n".join(text).rstrip() + "\n"


def by_reason(absent: Mapping[str, str]) -> dict[str, list[str]]:
    """What was not run, grouped by the reason."""
    found: dict[str, list[str]] = {}
    for name, reason in absent.items():
        found.setdefault(reason, []).append(name)
    return found


def _row(line: Line) -> str:
    cells = (line.row, line.metric, line.here, line.published, line.difference, line.mark)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


INTRODUCTION = """# The published figures, recomputed

Written by `dejacue reproduce {asked}`. **{summary}.**

✓ rounds to the published number (six decimals, or as many as the paper prints); ≈ the
published draws are not known and the published number lies between the smallest and the largest
of ours (in brackets; each draw has the published size); ✗ differs, with what we found below the
table; – nothing to compare: a row of ours that the paper lacks, or a published number whose
inputs are not in the release. Numbers are in %, intervals are 95 %, differences in the same unit.
"""

PROTOCOL = """## Where the protocol differs from the paper's text, or goes beyond it

- **Durations.** The 33 lengths are a fixed list; the recursion in the paper, started afresh for a
  history, gives others (`durations="generated"`). The published figures need the list.
- **Holm's correction.** The paper quotes p = .004 for R@1 .5 (family: the four coordinate
  comparisons); within the three metrics of one comparison it is .0032. Both are shown; every
  corrected p names its family.
- **max-frame** is two things: in the VOST table the earliest window of the schedule that holds the
  best frame, in the matched controls that frame alone.
- **Bridged windows** cross natural gaps too, start and end on observed frames, and are divided by
  the root of their number of observed frames.
- **Texts of S05–S07** hold one state more than the manifest. Only the manifest's states count, also
  for the origin of the coordinates.
- **Ties** go to the earliest start, then the earliest end, as in the paper; scores within 1e-9 of
  the best count as equal, so that the order of summation decides nothing.
- **Trivial baselines** (whole history, longest run, random window) are ours.
"""
