"""The outside world → records. Only this package and data/ read files."""
