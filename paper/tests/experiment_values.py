"""Look up figures in the results of experiments."""

from __future__ import annotations


def value(result, row, metric, part="mean"):
    """Return the one figure that was computed here for a row, metric and part."""
    values = [v for v in result.values if (v.row, v.metric, v.part) == (row, metric, part)]
    assert len(values) == 1, (row, metric)
    return values[0].here
