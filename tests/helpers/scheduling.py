"""The scheduling of this process, which an encoder may change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def scheduling_restored() -> Iterator[None]:
    """Give this thread its scheduling back afterwards.

    SVT-AV1 gives the thread that opens it real-time priority where a superuser runs it. Browsers
    that the tests start later would inherit it, and leave no processor to anybody else.
    """
    if not hasattr(os, "sched_getscheduler"):  # as on macOS
        yield
        return
    policy, settings = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, settings)
