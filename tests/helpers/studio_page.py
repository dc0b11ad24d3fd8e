"""The studio in a real browser: a server of its own, and what a person does with the page."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from dejacue.studio.app import create_app
from dejacue.studio.serve import bound
from dejacue.studio.state import Studio
from helpers.studio_client import TOKEN, studio_of

DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
WAIT_S = 300.0  # says only that something hangs


@contextmanager
def served_with(studio: Studio) -> Iterator[int]:
    """Serve a studio until the block ends; yield the port."""
    with bound("127.0.0.1", 0) as listening:
        config = uvicorn.Config(
            create_app(studio, TOKEN),
            access_log=False,
            log_level="error",
            lifespan="on",
            timeout_graceful_shutdown=1,
            log_config=None,
            ws="none",
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            studio.ending = server.should_exit = True
            thread.join()


@contextmanager
def served(root: Path, **options: Any) -> Iterator[str]:
    """Serve a folder until the block ends; yield the address."""
    with served_with(studio_of(root, **options)) as port:
        yield f"http://127.0.0.1:{port}/"


@dataclass
class Desk:
    """The page as one person sees and uses it."""

    page: Any
    address: str
    errors: list[str] = field(default_factory=list)
    expected: str = "never"  # an answer that a test provokes, perhaps more than once

    def open(self, view: str = "") -> None:
        """Open a view anew, so that nothing is left of the one before."""
        if self.page.url == "about:blank":
            self.page.goto(f"{self.address}?token={TOKEN}")
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}{view}")

    def until(self, expression: str, value: Any = None) -> Any:
        """Wait until the expression is true; wait_for_function needs eval, which the page forbids.

        value   the argument of the expression, where that is a function
        """
        end = time.monotonic() + WAIT_S
        while not (result := self.page.evaluate(expression, value)):
            assert time.monotonic() < end, f"not within {WAIT_S:.0f} s: {expression}"
            self.page.wait_for_timeout(30)
        return result

    def pause(self) -> None:
        """Pause unless the video has come to its end, and wait for the frame that stands."""
        self.page.evaluate("document.querySelector('.play[aria-label^=pause]')?.click()")
        self.until("() => !document.querySelector('.play[aria-label^=pause]')")
        self.until("() => document.querySelector('.shown').dataset.how")

    def shows(self, frame: int) -> str:
        """Wait for a frame; return how it is known: "verified" or "server"."""
        how = "(n) => document.querySelector(`.shown[data-frame='${n}']`)?.dataset.how"
        return str(self.until(how, frame))

    def windows(self) -> dict[str, list[str]]:
        """Return the windows of each state, as the timeline lists them."""
        script = """() => Object.fromEntries([...document.querySelectorAll(".tl-label")]
            .filter((row) => row.querySelector("bdi"))
            .map((row) => [row.querySelector("bdi").textContent,
              [...row.querySelectorAll(".tl-windows button")].map((node) => node.textContent)]))"""
        windows: dict[str, list[str]] = self.page.evaluate(script)
        return windows

    def has(self, state: str, *expected: str) -> None:
        """Wait until these are the windows of a state."""
        end = time.monotonic() + WAIT_S
        while (windows := self.windows().get(state)) != list(expected):
            assert time.monotonic() < end, f"{state}: {windows}, not {expected}"
            self.page.wait_for_timeout(30)

    def at(self, state: str, frame: float, first: int, last: int) -> tuple[float, float]:
        """Return the point of a frame in the row of a state, where all frames are shown."""
        plot = self.page.locator(".tl-plot").bounding_box()
        row = self.page.locator(".tl-label", has_text=state).first.bounding_box()
        share = (frame - first + 0.5) / (last - first + 1)
        return plot["x"] + share * plot["width"], row["y"] + 8

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag the mouse; each step has been drawn before the next."""
        mouse = self.page.mouse
        mouse.move(*start)
        mouse.down()
        self.page.evaluate(DRAWN)
        mouse.move((start[0] + end[0]) / 2, end[1])
        mouse.move(*end)
        self.page.evaluate(DRAWN)
        mouse.up()

    def stands_still(self, selector: str) -> None:
        """Wait until all pictures are there and an element has stopped moving."""
        self.until(
            """(selector) => {
              const box = JSON.stringify(document.querySelector(selector).getBoundingClientRect());
              const still = window.lastBox === box && [...document.images].every((i) => i.complete);
              window.lastBox = box;
              return still;
            }""",
            selector,
        )
