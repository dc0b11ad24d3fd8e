"""How long the timeline takes to draw 200,000 frames × 6 rows in Chromium, at every zoom.

    python benchmarks/timeline.py

Needs Chromium and playwright. CPU: what the main thread of the page works for a redraw, script,
layout and all, as a mean of 20 (what other threads and processes of the browser do is not in it);
wall: the time inside one redraw (both canvases), which a busy machine makes longer.
"""

from __future__ import annotations

import json
import statistics

import numpy as np
from _common import Parser, chromium

from dejacue import History, Interval, Timeline
from dejacue.method import Evidence
from dejacue.report.scene import scene, timeline_module

ROWS, WIDTH = 6, 1920
ARGS = ["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"]
PAGE = """<!doctype html><title>t</title><div id="here"></div>
<script type="module" src="t.js"></script>"""
START = """
const scene = await (await fetch("scene.json")).json(), began = performance.now();
window.own = timeline(document.querySelector("#here"), scene);
window.made = performance.now() - began;
"""
MEASURE = """async ([first, last]) => {
  const all = [], next = () => new Promise(requestAnimationFrame);
  for (let n = 0; n < 20; n += 1) {
    const before = own.stats.draws;
    own.view(first + n * (last - first) / 200, last + n * (last - first) / 200);
    while (own.stats.draws === before) await next();
    all.push(own.stats.ms);
  }
  return all;
}"""


def long_scene(count: int) -> dict:
    """Return noise on slow waves, with a gap in every hundred frames; 200,000 are two hours."""
    rng = np.random.default_rng(0)
    frames = np.arange(count)
    frames = frames[frames % 100 < 97]
    waves = np.stack([np.sin(frames / (900 * (n + 1))) for n in range(ROWS)])
    values = waves + 0.4 * rng.normal(size=waves.shape)
    history = History(np.ones((len(frames), 2)), frames, times_s=np.round(frames / 27.7, 3))
    seen = Evidence(np.zeros((ROWS, 1), np.float32), np.zeros(ROWS), np.ones(ROWS), values, frames)
    intervals = [
        Interval(f"state {n}", count * 9 * n // 200, count * (9 * n + 8) // 200, 1.0)
        for n in range(ROWS)
    ]
    states = {interval.state: [interval.state] for interval in intervals}
    return scene(history, Timeline.of(intervals, states, evidence=seen))


def main() -> None:
    parser = Parser(__doc__, frames=2000)
    parser.add_argument("--frames", type=int, default=200_000)
    frames = parser.parse_args().frames

    from playwright.sync_api import sync_playwright

    files = {
        "": ("text/html", PAGE),
        "t.js": ("text/javascript", timeline_module() + START),
        "scene.json": ("application/json", json.dumps(long_scene(frames))),
    }

    def answer(route) -> None:
        kind, body = files.get(route.request.url.split("/", 3)[3], ("text/plain", ""))
        route.fulfill(body=body, content_type=kind)

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=ARGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": 1000})
        page.route("**/*", answer)
        page.goto("http://timeline.test/")
        page.wait_for_function("() => window.own && own.stats.draws > 0")
        print(f"{frames} frames × {ROWS} rows, {WIDTH} pixels wide, {browser.version}")
        size = len(files["scene.json"][1]) / 1e6
        print(f"scene {size:.1f} MB, unpacked in {page.evaluate('made'):.0f} ms")
        worst = slowest = 0.0
        send = page.context.new_cdp_session(page).send
        send("Performance.enable", {"timeDomain": "threadTicks"})

        def worked() -> float:
            metrics = send("Performance.getMetrics")["metrics"]
            return 1e3 * next(
                metric["value"] for metric in metrics if metric["name"] == "TaskDuration"
            )

        for visible in (frames, *(n for n in (50_000, 10_000, 2_000, 500, 50) if n < frames)):
            before = worked()
            times = page.evaluate(MEASURE, [0, visible - 1])
            cpu = (worked() - before) / len(times)
            worst, slowest = max(worst, cpu), max(slowest, *times)
            wall = f"median {statistics.median(times):5.1f} ms, worst of 20 {max(times):5.1f} ms"
            print(f"{visible:>7} frames shown: CPU mean {cpu:5.1f} ms; wall: {wall}")
        heap = page.evaluate("performance.memory.usedJSHeapSize")
        print(f"costliest zoom: mean CPU {worst:.1f} ms; slowest redraw: {slowest:.1f} ms wall")
        print(f"heap {heap / 1e6:.0f} MB")
        browser.close()


if __name__ == "__main__":
    main()
