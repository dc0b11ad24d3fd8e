"""The site is built without a warning, has no broken link, and opens from disk without network."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import typer.main

import dejacue
from dejacue.cli.app import app

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class Page(HTMLParser):
    """Its links, its anchors, and what a browser fetches for it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.anchors |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if attributes.get(FETCHED.get(tag, "")):
            self.fetched.append(attributes[FETCHED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    if not all(find_spec(name) for name in ("mkdocs", "material", "mkdocstrings_handlers")):
        missing = "mkdocs is not installed; pip install 'dejacue[docs]'"
        if os.environ.get("DEJACUE_REQUIRE_DOCS"):
            pytest.fail(missing)
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_no_link_of_the_site_is_broken(pages) -> None:
    assert len(pages) >= 35
    for path, page in pages.items():
        for link in page.links + page.fetched:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), f"{path.name}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, f"{path.name}: {link}"


def test_nothing_is_fetched_from_elsewhere(site, pages) -> None:
    for path, page in pages.items():
        assert not [link for link in page.fetched if urlsplit(link).netloc], path.name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", sheet.read_text(encoding="utf-8"))


def test_every_command_and_every_public_name_is_in_the_reference(site, pages) -> None:
    root = typer.main.get_command(app)
    for name, command in root.commands.items():
        for sub in getattr(command, "commands", {"": None}):
            anchor = f"dejacue-{name}-{sub}".rstrip("-")
            assert anchor in pages[site / "cli.html"].anchors
    names = set().union(*(page.anchors for path, page in pages.items() if "api" in path.parts))
    assert {f"dejacue.{name}" for name in dejacue.__all__ if name != "__version__"} <= names


def test_columns_of_a_docstring_are_a_table(site) -> None:
    text = (site / "api/finding.html").read_text(encoding="utf-8")
    assert "<td><code>vocabulary</code></td>" in text


def test_pages_for_language_models_are_there(site) -> None:
    links = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    assert len(links) >= 25
    for link in links:
        assert (site / link).is_file(), link


@pytest.mark.parametrize("width", [390, 1280])
def test_the_site_opens_from_disk_and_is_searched(site, chromium, width) -> None:
    from playwright.sync_api import TimeoutError

    context = chromium.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    urls, errors = [], []
    page.on("request", lambda request: urls.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name in (
        "index",
        "glossary",
        "paper/reproduce",
        "cli",
        "api/method",
        "notebooks/first-steps",
    ):
        page.goto((site / f"{name}.html").as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, name
    for _ in range(10):  # what is typed before the theme listens is not heard: from the beginning
        page.goto((site / "index.html").as_uri())
        if width < 600:
            page.locator("label[for=__search]").first.click()
        page.locator(".md-search__input").fill("bridging")
        with contextlib.suppress(TimeoutError):
            page.locator(".md-search-result__item").first.wait_for(timeout=10_000)
            break
    else:
        pytest.fail("the search gives no result")
    assert not errors
    assert not [url for url in urls if not url.startswith(("file:", "data:", "blob:"))]
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_code_can_be_read_in_light_and_dark(site, chromium, axe, scheme) -> None:
    ours = ("color-contrast", "link-in-text-block", "image-alt")  # the rest is the theme's
    context = chromium.new_context(color_scheme=scheme)
    page = context.new_page()
    for name in ("index", "results", "api/errors"):
        page.goto((site / f"{name}.html").as_uri())
        assert [problem for problem in axe(page) if problem.startswith(ours)] == [], name
    context.close()
