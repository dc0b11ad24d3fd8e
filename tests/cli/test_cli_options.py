"""How options of the command line become a request."""

from __future__ import annotations

import pytest
from helpers.errors import refused

from dejacue import Sampling


def test_a_time_of_more_than_59_seconds_after_a_colon_is_refused() -> None:
    with refused("time", "1:70", "did you mean 130s?"):
        Sampling.between("1:70", None)


@pytest.mark.parametrize(
    ("text", "frame", "seconds"),
    [
        ("120", 120, None),
        ("0", 0, None),
        ("4.5s", None, 4.5),
        ("120s", None, 120.0),
        ("1:30", None, 90.0),
        ("1:30s", None, 90.0),
        ("0:07.25", None, 7.25),
        ("1:02:03", None, 3723.0),
    ],
)
def test_a_plain_number_is_a_frame_and_colons_separate_hours_minutes_and_seconds(
    text, frame, seconds
) -> None:
    begun, ended = Sampling.between(text, None), Sampling.between(None, text)
    assert (begun.start, begun.start_s, begun.end, begun.end_s) == (
        frame if frame is not None else Sampling.between(None, None).start,
        seconds,
        None,
        None,
    )
    assert (ended.end, ended.end_s) == (frame, seconds)
    assert ended.start_s is None


@pytest.mark.parametrize("text", ["1:x", "4.5", "s", "1:30m", ""])
def test_a_text_that_is_neither_frame_nor_time_is_refused(text) -> None:
    with refused("start", f'"{text}"'):
        Sampling.between(text, None)


def test_the_help_of_options_speaks_of_no_types_of_python(dejacue, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for command in ("find", "track", "store query"):
        told = dejacue(*command.split(), "--help").out
        assert "list[" not in told
        assert "Repeatable." in told
    assert "lite (small, knows no words)" in dejacue("find", "--help").out
