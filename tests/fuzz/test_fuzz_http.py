"""Requests of any kind to the studio: every one is answered as OpenAPI says."""

from __future__ import annotations

from pathlib import Path

import pytest
import schemathesis
from helpers import altered
from helpers.still_tracker import register
from helpers.studio_client import TOKEN, copied, create_app, studio_of
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

EXAMPLES = max(3, altered.EXAMPLES // 40)  # of each request
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
