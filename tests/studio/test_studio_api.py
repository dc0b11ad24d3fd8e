"""The studio's API as a whole: OpenAPI is true, many clients at once, and a killed server."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import schemathesis
from helpers import ROOT, TESTS
from helpers.still_tracker import register
from helpers.studio_client import TOKEN, copied, create_app, studio_of
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

EXAMPLES = int(os.environ.get("DEJACUE_STUDIO_EXAMPLES", "3"))  # a request; 300 for a long search
HEADERS = {"authorization": f"Bearer {TOKEN}", "host": "127.0.0.1:8765"}
IDS = {
    "id": ["cup", "scene/scene.mp4", "scene/vocabulary.yaml"],
    "kind": ["json", "report"],
    "number": [3],
    "frame": [0],
}


@pytest.fixture(scope="module")
def api(made_workspace, tmp_path_factory):
    root = copied(made_workspace, tmp_path_factory.mktemp("api") / "workspace")
    register()
    studio = studio_of(root, tracker="still")
    app = create_app(studio, TOKEN)
    yield schemathesis.openapi.from_asgi("/api/openapi.json", app, headers=HEADERS)
    studio.close()


def operations() -> list[tuple[str, str]]:
    app = create_app(studio_of(Path()), TOKEN)
    paths = app.app.openapi()["paths"]
    return [(path, method) for path, methods in paths.items() for method in methods]


def about_what_is_there(parameters: dict) -> None:
    """Replace half of the parameters with ids that exist."""
    for name in IDS.keys() & (parameters or {}).keys():
        size, known = len(str(parameters[name])), IDS[name]
        if size % 2:
            parameters[name] = known[size // 2 % len(known)]


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("path", "method"), operations())
def test_every_request_is_answered_as_openapi_says(api, path, method, mode) -> None:
    """What a schema cannot say, such as which readouts there are, is refused with 400."""

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(case=api[path][method].as_strategy(generation_mode=mode))
    def answered(case) -> None:
        if mode is GenerationMode.POSITIVE:
            about_what_is_there(case.path_parameters)
        case.call_and_validate(headers=HEADERS, excluded_checks=[positive_data_acceptance])

    try:
        answered()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # a request that takes nothing


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


@pytest.mark.long
def test_nothing_that_was_confirmed_is_lost_when_the_server_is_killed(made_workspace, tmp_path):
    """The server is killed at 20 moments while somebody saves."""
    root = copied(made_workspace, tmp_path / "workspace")
    script = TESTS / "crash" / "studio_killer.py"
    ran = subprocess.run(
        [sys.executable, str(script), str(root), "20"], capture_output=True, text=True, timeout=1200
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    counts = json.loads(ran.stdout.splitlines()[-1])
    assert counts["killed"] == 20
    assert counts["confirmed"] >= 20
    assert counts["lost"] == 0


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
