"""Two passes of annotators, made of a confusion table."""

from __future__ import annotations


def sequences(table: list[list[int]], labels: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return two passes with this confusion table: rows are the first pass, columns the second."""
    pairs = [
        (labels[i], labels[j])
        for i, row in enumerate(table)
        for j, count in enumerate(row)
        for _ in range(count)
    ]
    return [a for a, _ in pairs], [b for _, b in pairs]
