"""How alike crops of one object are, and of two: ``python benchmarks/same_object.py``.

Pairs of rows are drawn from the released features: of one history, and of two. For each threshold
the table has the share of the pairs whose cosine reaches it. ``find`` joins objects of different
shots from SAME_OBJECT on.
"""

from __future__ import annotations

import numpy as np
from _common import Parser
from rich.console import Console
from rich.table import Table

from dejacue.finding.by_name import SAME_OBJECT
from dejacue_paper import load_release

THRESHOLDS = (0.75, 0.80, 0.85, 0.90)


def main() -> None:
    parser = Parser(__doc__, pairs=2)
    parser.add_argument("--pairs", type=int, default=200, help="of each history")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    rows = []
    for entry in load_release().vost:
        features = entry.history.features.astype(np.float64)
        rows.append(features / np.linalg.norm(features, axis=1, keepdims=True))

    def drawn(at: int) -> np.ndarray:
        return rows[at][random.integers(len(rows[at]), size=options.pairs)]

    same = np.concatenate([(drawn(at) * drawn(at)).sum(axis=1) for at in range(len(rows))])
    others = random.permutation(len(rows))
    pairs = [(at, other) for at, other in enumerate(others) if at != other]
    different = np.concatenate([(drawn(at) * drawn(other)).sum(axis=1) for at, other in pairs])
    table = Table("cosine at least", "one object", "two objects")
    for threshold in THRESHOLDS:
        shares = [f"{100 * (cosines >= threshold).mean():.0f} %" for cosines in (same, different)]
        mark = " (SAME_OBJECT)" if threshold == SAME_OBJECT else ""
        table.add_row(f"{threshold:.2f}{mark}", *shares)
    Console().print(table)


if __name__ == "__main__":
    main()
