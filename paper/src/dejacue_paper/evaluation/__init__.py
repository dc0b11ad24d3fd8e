"""Measures that only the paper's tables use: pure functions on arrays."""
