"""What an error is about, instead of how it says so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dejacue import InputError
from dejacue.errors import DejaCueError


@contextmanager
def refused(
    kind: type[DejaCueError] = InputError, **attributes: object
) -> Iterator[pytest.ExceptionInfo[DejaCueError]]:
    """Expect an error of this class whose file, line, field, value or remedy are these."""
    with pytest.raises(kind) as caught:
        yield caught
    expected = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in attributes.items()
    }
    carried = {name: getattr(caught.value, name) for name in expected}
    del caught  # its traceback holds this frame, which holds it
    assert carried == expected
