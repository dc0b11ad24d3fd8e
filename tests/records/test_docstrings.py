"""The examples in the docstrings of records run, and each record that a user makes has one."""

from __future__ import annotations

import doctest
import sys

import pytest

from dejacue.records import (
    Example,
    History,
    Interval,
    Note,
    Reference,
    Timeline,
    Vocabulary,
    Window,
)

RECORDS = (Window, Interval, Timeline, History, Vocabulary, Example, Reference, Note)


@pytest.mark.parametrize("record", RECORDS)
def test_the_example_of_a_record_runs(record) -> None:
    (examples,) = (
        found
        for found in doctest.DocTestFinder(recurse=False).find(record, record.__name__)
        if found.examples
    )
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(examples, out=sys.stderr.write)
    assert runner.summarize(verbose=False).failed == 0
    assert len(examples.examples) >= 2
