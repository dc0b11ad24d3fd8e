"""The studio as a whole: many clients at once, and a stop."""

from __future__ import annotations

import asyncio
import sys

import pytest
from helpers import ROOT


@pytest.mark.long
def test_many_clients_at_once_are_all_answered(made_workspace) -> None:
    """400 requests; benchmarks/studio.py sends 10,000 and looks at the memory."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from studio import load
    finally:
        sys.path.pop(0)
    result = load(made_workspace, requests=400, clients=20)
    assert result.answered == 400
    assert result.failed == []


@pytest.mark.parametrize("ending", [True, False])
def test_what_is_worked_on_when_the_studio_stops_gets_a_sentence(ending) -> None:
    from types import SimpleNamespace

    from dejacue.studio.app import AnswerOnShutdown

    sent = []

    async def slow(scope, receive, send) -> None:
        await asyncio.sleep(60)

    async def send(message) -> None:
        sent.append(message)

    async def stopped() -> None:
        app = AnswerOnShutdown(slow, SimpleNamespace(ending=ending))
        task = asyncio.create_task(app({"type": "http"}, None, send))
        await asyncio.sleep(0)
        task.cancel()
        await task

    if ending:
        asyncio.run(stopped())
        assert sent[0]["status"] == 503
        assert b"the studio was stopped in the meantime" in sent[1]["body"]
    else:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(stopped())
        assert sent == []
