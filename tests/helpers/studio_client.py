"""A studio in this process for tests: a workspace with the finding of a rendered scene."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from dejacue import find
from dejacue_paper.data.rendered import render, write_scene

pytest.importorskip("fastapi", reason="the studio needs the extra studio")
from starlette.testclient import TestClient

from dejacue.studio.app import create_app
from dejacue.studio.state import Studio
from dejacue.studio.workspace import Workspace

TOKEN = "the-token-of-this-test-and-no-other"
HOST = "http://127.0.0.1:8765"


def make_workspace(folder: Path) -> Path:
    """Write a workspace: cup/ is a finding of scene/, which has video, masks and references."""
    scene = folder / "scene"
    write_scene(scene, render(7, family="cup", topology="three", frames=60))
    find(
        scene / "scene.mp4",
        scene / "vocabulary.yaml",
        masks=scene / "Annotations",
        objects=[1],
        encoder="mini",
        folder=folder / "cup",
    )
    return folder


def copied(workspace: Path, target: Path) -> Path:
    """Copy a workspace; its finding names the video by its path, which is another now."""
    shutil.copytree(workspace, target)
    document = target / "cup" / "finding.json"
    document.write_text(document.read_text().replace(str(workspace), str(target)))
    return target


def studio_of(root: Path, **options: Any) -> Studio:
    return Studio(Workspace(root), **{"encoder": "mini", **options})


def client_of(studio: Studio, token: str | None = TOKEN, host: str = "127.0.0.1") -> TestClient:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return TestClient(
        create_app(studio, TOKEN, host),
        base_url=HOST,
        headers=headers,
        raise_server_exceptions=True,
    )


def browser_of(studio: Studio) -> TestClient:
    """Return a client that sends requests as a page does: with a cookie and its own Origin."""
    client = client_of(studio, None)
    assert client.get("/", params={"token": TOKEN}, follow_redirects=False).status_code == 303
    client.headers["origin"] = HOST
    return client


def wait_for_end(client: TestClient, job: dict[str, Any], seconds: float = 600) -> Any:
    """Return the job once it has ended."""
    until = time.monotonic() + seconds
    while job["state"] in ("waiting", "running"):
        assert time.monotonic() < until, job
        time.sleep(0.02)
        job = client.get(f"/api/jobs/{job['id']}").json()
    return job


def start_job(client: TestClient, **body: Any) -> Any:
    answer = client.post("/api/jobs", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()


def run_job(client: TestClient, **body: Any) -> Any:
    return wait_for_end(client, start_job(client, **body))
