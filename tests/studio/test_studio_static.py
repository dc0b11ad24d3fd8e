"""The files of the studio's page: libraries as they were published, nothing from elsewhere."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest

STATIC = Path(str(files("dejacue.studio"))) / "static"
REPORT = Path(str(files("dejacue.report"))) / "static"
VENDOR = {
    "htm-preact.js": "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7",
    "htm.LICENSE": "740725f7252e750af735d0028cc534970772f513331e9f68150fede8fb3ce00f",
}
MODULES = sorted(path.name for path in STATIC.glob("*.js"))


def test_libraries_are_as_they_were_published_and_licensed() -> None:
    hashes = {
        name: hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() for name in VENDOR
    }
    assert hashes == VENDOR
    there = {path.name for path in (STATIC / "vendor").iterdir()}
    assert there == {*VENDOR, "preact.LICENSE", "README.md"}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_what_is_there(name) -> None:
    text = (STATIC / name).read_text("utf-8")
    for path in re.findall(r'from "([^"]+)"', text):
        assert path.startswith("./"), path
        home = REPORT.parent if "/report/" in path else STATIC
        assert (home / path.replace("/report/", "/static/")).is_file(), path
    assert "eval(" not in text
    assert "innerHTML" not in text


def test_the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?! type=\"module\" src=\"/static/main.js\"></script>)", page) == []
    assert " style=" not in page
    for path in (*STATIC.glob("*.js"), *STATIC.glob("*.css"), STATIC / "index.html"):
        text = path.read_text("utf-8")
        assert set(re.findall(r"https?://[^\s\"'`)]*", text)) == set(), path.name
