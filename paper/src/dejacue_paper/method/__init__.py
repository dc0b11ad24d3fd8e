"""Readouts and p-values that only the paper's tables use."""
