"""The page of the studio with a long video: how it redraws, seeks and follows words; memory.

    python benchmarks/studio_page.py       200,000 frames, two hours

Needs Chromium and playwright. CPU: what the main thread of the page works for a redraw, script,
layout and all, whatever else the machine does; wall: what a person waits, which a busy machine
makes longer.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from _common import Parser, chromium
from studio import made_workspace, served

from dejacue import Finding, History

RATE = Fraction(111, 4)  # frames a second: 200,000 are two hours
ARGS = ["--no-sandbox", "--disable-gpu"]
SEEK = """async (frame) => {
  const field = document.querySelector(".goto"), began = performance.now();
  field.value = frame;
  field.dispatchEvent(new Event("change"));
  const shown = () => document.querySelector(".shown").dataset;
  for (let n = 0; n < 5000 && shown().frame !== String(frame); n += 1) {
    await new Promise((go) => setTimeout(go, 2));
  }
  return [performance.now() - began, shown().how];
}"""
NEXT = "new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"
WINDOWS = "() => [...document.querySelectorAll('.tl-windows')].map((own) => own.textContent).join()"


def write_film(path: Path, count: int) -> None:
    """Write grey pictures that change slowly; a key frame every 250."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = 160, 120, "yuv420p"
        stream.options = {"preset": "ultrafast", "crf": "40"}
        stream.codec_context.gop_size = 250
        for number in range(count):
            if number % 50 == 0:
                image = np.full((120, 160, 3), number // 50 % 200 + 20, np.uint8)
                frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format="yuv420p")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def long_finding(root: Path, frames: int) -> None:
    """Write the finding again, its history repeated until it is as long as the film, with some
    gaps."""
    finding = Finding.read(root / "cup")
    numbers = np.arange(frames)
    numbers = numbers[numbers % 1000 < 990]
    rows = np.resize(np.arange(len(finding.history)), len(numbers))
    history = History(
        finding.history.features[rows],
        numbers,
        "long",
        finding.history.encoder,
        times_s=numbers / float(RATE),
    )
    provenance = replace(finding.provenance, video=str(root / "long.mp4"), masks=None)
    replace(
        finding, history=history, provenance=provenance, thumbnails={}, crops={}
    ).with_words().save(root / "long")


def working_ms(session: Any) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return 1000 * next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def redraws(page: Any, session: Any, keys: list[str]) -> list[float]:
    """Measure CPU of the page for each of some keys that change what the timeline shows."""
    times = []
    page.locator("h1").click()
    for key in keys:
        page.evaluate(NEXT)
        before = working_ms(session)
        page.keyboard.press(key)
        page.evaluate(NEXT)
        times.append(working_ms(session) - before)
    return times


def renderer_mb() -> float:
    """Return the size of our largest process that draws a page; what it shares with others counts
    in part."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(stat[1])
    largest = 0.0
    for parent in parents:
        above = parent
        while above in parents and above != os.getpid():
            above = parents[above]
        with suppress(OSError):
            if above != os.getpid() or b"--type=renderer" not in _read(parent, "cmdline"):
                continue
            sizes = [
                line.split()[1]
                for line in _read(parent, "smaps_rollup").splitlines()
                if line.startswith(b"Pss:")
            ]
            largest = max(largest, int(sizes[0]) / 1024)
    return largest


def _read(process: int, name: str) -> bytes:
    return Path(f"/proc/{process}/{name}").read_bytes()


def edit(page: Any, text: str, limit_s: float) -> float:
    """Return the milliseconds from a new word to other windows."""
    before, began = page.evaluate(WINDOWS), time.perf_counter()
    page.fill(".words textarea >> nth=0", text)
    while page.evaluate(WINDOWS) == before and time.perf_counter() - began < limit_s:
        page.wait_for_timeout(5)
    return 1000 * (time.perf_counter() - began)


def main() -> None:
    parser = Parser(__doc__, frames=500)
    parser.add_argument("--frames", type=int, default=200_000)
    asked = parser.parse_args()

    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        root = made_workspace(Path(folder), 60)
        write_film(root / "long.mp4", asked.frames)
        long_finding(root, asked.frames)
        with served(root) as server:
            browser = play.chromium.launch(executable_path=chromium(), args=ARGS)
            page = browser.new_page(viewport={"width": 1920, "height": 1000})
            page.goto(f"http://127.0.0.1:{server.port}/?token={server.token}")
            began = time.perf_counter()
            page.goto(f"http://127.0.0.1:{server.port}/#/finding/long")
            page.locator(".tl-windows button").first.wait_for(timeout=120_000)
            page.locator(".shown[data-frame='0']").wait_for(timeout=120_000)
            print(f"{asked.frames} frames: opened in {time.perf_counter() - began:.1f} s")
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            keys = ["+"] * 6 + ["PageDown"] * 4 + ["-"] * 6 + ["ArrowRight"] * 4
            count = 4 if asked.smoke else 40
            if not asked.smoke:
                keys *= 3
                page.wait_for_timeout(20_000)  # until segments are there, which takes a while
            for name in ("at first", "then"):
                cpu = sorted(redraws(page, session, keys))
                most = f"95 % within {cpu[round(0.95 * len(cpu)) - 1]:.0f} ms, all {cpu[-1]:.0f} ms"
                print(f"redraw {name}, CPU: median {statistics.median(cpu):.0f} ms, {most}")
            draw = np.random.default_rng(0)
            seeks = [page.evaluate(SEEK, int(n)) for n in draw.integers(0, asked.frames, count)]
            took = sorted(ms for ms, _ in seeks)
            sure = sum(how == "verified" for _, how in seeks)
            most = f"95 % within {took[round(0.95 * count) - 1]:.0f} ms"
            print(
                f"seek: median {took[count // 2]:.0f} ms, {most}; {sure} of {count} verified, "
                "the others decoded by the server"
            )
            limit_s = 2 if asked.smoke else 60
            names = ("tall cup", "white cup", "small cup", "old cup")
            words = [edit(page, text, limit_s) for text in names]
            print(
                f"a new word moves the windows in {statistics.median(words):.0f} ms (150 ms of "
                "which is the pause after typing)"
            )
            heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
            print(
                f"memory of the page: {renderer_mb():.0f} MB, of which {heap:.0f} MB is JavaScript"
            )
            browser.close()


if __name__ == "__main__":
    main()
