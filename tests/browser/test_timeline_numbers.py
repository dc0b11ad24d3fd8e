"""The arithmetic of the timeline against plain arithmetic, on many random histories."""

from __future__ import annotations

import numpy as np
import pytest

from dejacue.report.scene import packed, timeline_module

EXPOSED = "\nObject.assign(window, { Curve, Observed, line, clockText });"
QUERY = """({ runs, column, axis, queries, frames }) => {
  const seen = new Observed(runs), curve = new Curve(column, axis, seen);
  const parts = queries.map(([a, b]) => {
    const any = curve.extremes(a, b);
    return any ? [curve.least, curve.greatest, curve.mean(a, b)] : null;
  });
  return [parts, frames.map((f) => [seen.count(f), seen.count(f + .5), seen.has(f)]),
          curve.levels[0][0].length && Array.from(curve.levels[0][0], (_, n) => seen.frame(n))];
}"""


@pytest.mark.long
def test_extremes_means_and_positions_are_those_of_brute_force(chromium) -> None:
    page = chromium.new_page()
    page.set_content("<!doctype html><title>numbers</title>")
    page.add_script_tag(content=timeline_module() + EXPOSED, type="module")
    page.wait_for_function("window.clockText")
    rng = np.random.default_rng(0)
    for _ in range(60):
        count = int(rng.integers(1, 400))
        frames = np.cumsum(rng.choice([1, 1, 1, 2, 7], count)) - int(rng.integers(0, 50))
        values = rng.normal(size=count).astype(np.float32)
        cuts = np.flatnonzero(np.diff(frames) != 1) + 1
        runs = [[int(run[0]), int(run[-1])] for run in np.split(frames, cuts)]
        queries = [sorted(map(int, rng.integers(0, count + 1, 2))) for _ in range(40)]
        checked = list(range(int(frames[0]) - 3, int(frames[-1]) + 4))
        arguments = {
            "runs": runs,
            "column": packed(values, "f32"),
            "queries": queries,
            "frames": checked,
            "axis": {"first": int(frames[0]), "last": int(frames[-1])},
        }
        ranges, places, back = page.evaluate(QUERY, arguments)
        assert back == frames.tolist()
        for (a, b), range_ in zip(queries, ranges, strict=True):
            if a == b:
                assert range_ is None
                continue
            part = values[a:b].astype(float)
            np.testing.assert_allclose(range_, [part.min(), part.max(), part.mean()], atol=1e-6)
        for frame, (below, half, there) in zip(checked, places, strict=True):
            assert below == (frames < frame).sum()
            assert half == (frames < frame + 0.5).sum()
            assert there == (frame in frames)
    page.close()


def test_times_between_and_beyond_knots_lie_on_straight_lines(chromium) -> None:
    page = chromium.new_page()
    page.set_content("<!doctype html><title>numbers</title>")
    page.add_script_tag(content=timeline_module() + EXPOSED, type="module")
    page.wait_for_function("window.clockText")
    script = "(x) => line([0, 10, 20], [5, 6, 8], x)"
    assert [page.evaluate(script, x) for x in (0, 5, 10, 15, 20, 25, -10)] == [
        5,
        5.5,
        6,
        7,
        8,
        9,
        4,
    ]
    texts = [
        page.evaluate("([s, d]) => clockText(s, d)", pair)
        for pair in (
            [4.1, 2],
            [59.999, 2],
            [64, 0],
            [3604.1, 1],
            [-0.5, 1],
        )
    ]
    assert texts == ["4.10 s", "1:00.00", "1:04", "1:00:04.1", "−0.5 s"]
    page.close()
