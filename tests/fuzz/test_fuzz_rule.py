"""The rule for files from elsewhere is checked: what breaks it fails."""

from __future__ import annotations

import gc
import mmap
import time

import pytest
from helpers import altered

from dejacue import InputError


def fail(error: Exception) -> None:
    raise error


def compute() -> None:
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass


def touch_pages() -> None:
    with mmap.mmap(-1, 64 << 20) as pages:  # new ones: malloc may give what earlier tests freed
        pages[::4096] = b"x" * (64 << 8)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: fail(KeyError("x")), "file: KeyError: 'x'"),
        (compute, "file: computed for 0"),
        (touch_pages, "file: took [0-9]+ MB"),
    ],
)
def test_what_breaks_the_rule_fails_with_its_file(monkeypatch, read, message) -> None:
    monkeypatch.setattr(altered, "MAX_CPU_S", 0.1)
    if not altered.memory("VmHWM") and "MB" in message:
        pytest.skip("this system does not tell the memory of a process")
    gc.collect()  # memory that earlier tests left is not given back meanwhile
    with pytest.raises(AssertionError, match=message):
        altered.check(read, "file", most=32 << 20)


def test_an_answer_and_a_sentence_keep_the_rule() -> None:
    altered.check(lambda: 1, "file")
    altered.check(lambda: fail(InputError("x: is empty")), "file")
