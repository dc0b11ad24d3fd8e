"""A real browser: Chromium where it is on this machine, and a page that shows one timeline."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np
import pytest
from helpers.studio_page import WAIT_S

from dejacue import Example, History, Interval, Timeline, Vocabulary
from dejacue.method import Evidence, Window
from dejacue.method.questions import Question
from dejacue.report.scene import scene, timeline_module

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
POLICY = "default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'"
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>timeline</title>
<link rel="stylesheet" href="page.css"><link rel="icon" href="data:,"></head><body><main>
<h1>Timeline</h1><div id="here"></div></main>
<script type="module" src="start.js"></script></body></html>"""
STYLE = """:root { color-scheme: light dark; background: #fff; color: #1b1f24;
  font-family: sans-serif }
body { margin: 1rem }
@media (prefers-color-scheme: dark) {
  :root:not([data-theme=light]) { background: #14171b; color: #e8ebee }
}
[data-theme=dark] { background: #14171b; color: #e8ebee }"""
START = """import { timeline } from "./timeline.js";
const { scene, options } = await (await fetch("scene.json")).json();
window.events = [];
const names = options.events || ["seek", "change", "select", "mark"];
const on = Object.fromEntries(names.map((name) => [name, (value) => events.push([name, value])]));
window.chart = timeline(document.querySelector("#here"), scene, { ...options, on });
"""
# wait_for_function would need eval, which the policy forbids
READY = """async (wait_s) => {
  const ready = () => Boolean(window.chart && chart.stats.draws);
  const end = performance.now() + 1000 * wait_s;
  while (!ready() && performance.now() < end) await new Promise(requestAnimationFrame);
  return ready();
}"""


def missing(what: str) -> None:
    if os.environ.get("DEJACUE_REQUIRE_BROWSER"):
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="module")  # while it is open an event loop runs, which others may not want
def chromium():
    """Chromium without a window; tests that need it are skipped where it is not (or fail where
    DEJACUE_REQUIRE_BROWSER says that it must be)."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        missing("no Chromium on this machine; apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed; pip install 'dejacue[dev]'")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=ARGS)
        plain = browser.new_context

        def patient(**options: Any) -> Any:
            # without motion a colour is never seen half way between two
            context = plain(**{"reduced_motion": "reduce", **options})
            context.set_default_timeout(1000 * WAIT_S)
            return context

        browser.new_context = patient
        yield browser
        browser.close()


@dataclass
class Stage:
    """One page with one timeline, under the policy of a strict server."""

    page: Any
    errors: list[str] = field(default_factory=list)

    def js(self, expression: str, value: Any = None) -> Any:
        return self.page.evaluate(expression, value)

    def drawn(self) -> None:
        """Wait until the latest changes are drawn."""
        self.js("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")

    @property
    def shown(self) -> dict[str, Any]:
        self.drawn()
        return self.js("chart.shown")

    def events(self, name: str) -> list[Any]:
        script = "(name) => events.filter(([kind]) => kind === name).map(([, value]) => value)"
        return self.js(script, name)

    def at(self, frame: float, row: int = 0, down: float = 7) -> tuple[float, float]:
        """Return the point of a frame in a row."""
        view = self.shown
        box = self.page.locator(".tl-plot").bounding_box()
        label = self.page.locator(".tl-label").nth(row).bounding_box()
        share = (frame - view["first"] + 0.5) / (view["last"] - view["first"] + 1)
        return box["x"] + share * box["width"], label["y"] + down

    def axis(self, frame: float) -> tuple[float, float]:
        x, _ = self.at(frame)
        return x, self.page.locator(".tl-label").first.bounding_box()["y"] - 18

    def drag(self, start: tuple[float, float], end: tuple[float, float], key: str = "") -> None:
        mouse, keyboard = self.page.mouse, self.page.keyboard
        if key:
            keyboard.down(key)
        mouse.move(*start)
        mouse.down()
        mouse.move((start[0] + end[0]) / 2, end[1])
        mouse.move(*end)
        mouse.up()
        if key:
            keyboard.up(key)
        self.drawn()

    def press(self, *keys: str) -> None:
        self.page.locator(".tl-plot").focus()
        for key in keys:
            self.page.keyboard.press(key)
        self.drawn()

    def pixels(self, selector: str = ".tl-plot canvas") -> str:
        """Return the picture of the first canvas as a data: address."""
        self.drawn()
        return self.js("(s) => document.querySelector(s).toDataURL()", selector)


@pytest.fixture
def stage(chromium):
    """stage(scene, options, width=…, scheme=…) opens a page; no error of it goes unnoticed."""
    opened: list[Stage] = []

    def show(
        drawn: dict[str, Any],
        options: dict[str, Any] | None = None,
        width: int = 1280,
        scheme: str = "light",
        **context: Any,
    ) -> Stage:
        view = {"width": width, "height": 900}
        window = chromium.new_context(viewport=view, color_scheme=scheme, **context)
        chart = Stage(window.new_page())
        start = {"scene": drawn, "options": options or {}}
        files = {
            "": ("text/html", PAGE),
            "page.css": ("text/css", STYLE),
            "timeline.js": ("text/javascript", timeline_module()),
            "start.js": ("text/javascript", START),
            "scene.json": ("application/json", json.dumps(start)),
        }

        def answer(route: Any) -> None:
            kind, body = files[route.request.url.split("/", 3)[3]]
            head = {"content-type": f"{kind}; charset=utf-8", "content-security-policy": POLICY}
            route.fulfill(body=body, headers=head)

        chart.page.on("pageerror", lambda error: chart.errors.append(str(error)))
        chart.page.on(
            "console",
            lambda message: chart.errors.append(message.text) if message.type == "error" else None,
        )
        chart.page.route("**/*", answer)
        chart.page.goto("http://timeline.test/")
        opened.append(chart)
        assert chart.js(READY, WAIT_S), chart.errors
        return chart

    yield show
    for chart in opened:
        chart.page.context.close()
        assert chart.errors == []


@pytest.fixture
def axe(chromium):
    """axe(page) → what axe-core finds wrong with it, a sentence each."""
    try:
        import axe_playwright_python
    except ImportError:
        missing("axe-playwright-python is not installed; pip install 'dejacue[dev]'")
    source = resources.files(axe_playwright_python).joinpath("axe.min.js").read_text("utf-8")

    def check(page: Any) -> list[str]:
        page.evaluate(source)
        # all that is right would be much to bring over
        return page.evaluate(
            """async () => {
              const { violations } = await axe.run({ resultTypes: ["violations"] });
              return violations.map(({ id, help, nodes }) =>
                `${id}: ${help} ${nodes.map(({ html }) => html.slice(0, 120)).join(", ")}`);
            }"""
        )

    return check


@pytest.fixture(scope="session")
def rich() -> dict[str, Any]:
    """Return a scene with one of everything: 300 frames, of which 100 … 119 are not observed."""
    frames = np.concatenate([np.arange(100), np.arange(120, 300)])
    history = History(
        np.ones((280, 4)),
        frames,
        "cup",
        "mini",
        times_s=frames / 25,
        source_frames=5 * frames,
        presence=0.5 + 0.4 * np.sin(frames / 30),
    )
    wave = np.sin(frames / 40)
    rows = np.stack([wave, -wave, 0.3 * np.cos(frames / 11)])
    seen = Evidence(rows.astype(np.float32), np.zeros(3), np.ones(3), rows, frames, "mean")
    intervals = [
        Interval(
            state,
            start,
            end,
            score,
            start / 25,
            (end + 1) / 25,
            0.6,
            source_start=5 * start,
            source_end=5 * end,
        )
        for state, start, end, score in (("empty", 20, 60, 2.5), ("filled", 130, 190, 3.25))
    ]
    vocabulary = Vocabulary(
        {"empty": ["empty cup"], "filled": ["full cup"], "broken": ["broken cup"]},
        object="cup",
        changes=[Example(None, (90, 90))],
    )
    return scene(
        history,
        Timeline.of(
            intervals, vocabulary.states, history_id="cup", notes=["a note"], evidence=seen
        ),
        vocabulary,
        references={"empty": [Window(90, 310)], "filled": [Window(640, 900)]},
        doubts=[(Window(450, 480), "hidden by a hand")],
        named={"empty": [Window(40, 40)], None: [Window(95, 97)], "filled": [Window(150, 170)]},
        segments=[Window(*span) for span in ((0, 35), (36, 64), (65, 99), (120, 200), (201, 299))],
        questions=[Question(210, {"filled": 0.6, None: 0.4}, 0.1)],
    )


@pytest.fixture
def desk(chromium):
    """desk(address, width=…, scheme=…) → a page of a studio; no error of it goes unnoticed."""
    from helpers.studio_page import Desk

    opened: list[Any] = []

    def sit(address: str, width: int = 1280, scheme: str = "light", **context: Any) -> Any:
        view = {"width": width, "height": 900}
        window = chromium.new_context(viewport=view, color_scheme=scheme, **context)
        user = Desk(window.new_page(), address)
        user.page.on("pageerror", lambda error: user.errors.append(str(error)))

        def listen(message: Any) -> None:
            if message.type == "error":
                user.errors.append(f"{message.text} {message.location['url']}")

        user.page.on("console", listen)
        opened.append(user)
        return user

    yield sit
    for user in opened:
        user.page.context.close()
        refused = "net::ERR_CONNECTION_REFUSED"  # of a server that the test has stopped before
        expected = (user.expected, refused)
        assert [error for error in user.errors if not any(e in error for e in expected)] == []


@pytest.fixture
def workspace(made_workspace, tmp_path):
    """Copy a workspace with a finding, its video, masks, words and references."""
    from helpers.studio_client import copied

    return copied(made_workspace, tmp_path / "workspace")


@pytest.fixture
def address(workspace):
    """Serve the workspace; yield the address of the studio."""
    from helpers.studio_page import served

    with served(workspace) as url:
        yield url
