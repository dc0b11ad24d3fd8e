"""Which figure tells that an answer is wrong: ``python benchmarks/unsure.py``.

Rendered videos are read with teachers of their kind and words, as the studio applies a finding to
other videos. The table has the rank correlation of each figure with the error, 1 − tIoU; the studio
lists answers by the first one.
"""

from __future__ import annotations

import numpy as np
from _common import Parser
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from dejacue.method import next_question
from dejacue.method.localization import analyse
from dejacue.method.teaching import taught
from dejacue.records import Timeline
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.data.rendered import FAMILIES
from dejacue_paper.experiments.like import TEACHERS, family_entries, kin_of, teacher


def error(entry: ReleaseEntry, timeline: Timeline) -> float:
    overlaps = [
        max(best.window.iou(window) for window in windows) if (best := timeline.best(state)) else 0
        for state, windows in entry.references.items()
    ]
    return 1 - float(np.mean(overlaps))


def figures(entry: ReleaseEntry, others: list[ReleaseEntry]) -> tuple[float, ...]:
    """Return the error, and figures that may tell it: high where the answer is unsure."""
    vocabulary = taught(entry.vocabulary, map(teacher, others))
    timeline = analyse(entry.history, vocabulary)
    best = [timeline.best(state) for state in timeline.states]
    scores = [interval.score if interval else 0.0 for interval in best]
    trust = [interval.confidence or 0.0 if interval else 0.0 for interval in best]
    (question,) = next_question(entry.history, vocabulary)
    unsure = -min(scores), -float(np.mean(scores)), -min(trust), -float(np.mean(trust))
    return error(entry, timeline), *unsure, question.gain


def main() -> None:
    parser = Parser(__doc__, videos=3, kinds=1)
    parser.add_argument("--videos", type=int, default=5, help="of each kind")
    parser.add_argument("--kinds", type=int, default=len(FAMILIES))
    options = parser.parse_args()
    entries = family_entries("mini", options.videos, list(FAMILIES)[: options.kinds])
    rows = []
    for entry in entries:
        kin = kin_of([sibling for sibling in entries if sibling.label == entry.label])[entry.id]
        if kin:
            rows.append(figures(entry, list(kin[:TEACHERS])))
    errors, *columns = np.array(rows).T
    table = Table(f"{len(rows)} videos, mini", "rank correlation with the error")
    for name, column in zip(
        (
            "lowest score of a state",
            "mean score",
            "lowest confidence of a state",
            "mean confidence",
            "what the next question settles",
        ),
        columns,
        strict=True,
    ):
        table.add_row(name, f"{spearmanr(column, errors).statistic:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
