"""What an error says: its class, and the names and numbers in its sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dejacue import InputError
from dejacue.errors import DejaCueError


@contextmanager
def refused(
    *facts: object, kind: type[DejaCueError] = InputError
) -> Iterator[pytest.ExceptionInfo[DejaCueError]]:
    """Expect an error of this class, in whose sentence each fact stands as a word of its own."""
    with pytest.raises(kind) as caught:
        yield caught
    sentence = str(caught.value)
    assert sentence == sentence.rstrip("; ").removesuffix(".")
    del caught  # its traceback holds this frame, which holds it
    for fact in facts:
        text = os.fspath(fact) if isinstance(fact, os.PathLike) else str(fact)
        whole = rf"(?!\B\w){re.escape(text)}(?<!\w\B)"
        assert re.search(whole, sentence), f"no {text} in {sentence}"
