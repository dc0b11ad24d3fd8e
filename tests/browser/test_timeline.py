"""The timeline in a real browser: it draws, zooms, pans, edits, and can be used without a mouse."""

from __future__ import annotations

import time

import numpy as np
import pytest
from helpers.studio_page import WAIT_S

from dejacue import History, Interval, Reference, Timeline
from dejacue.method import Evidence
from dejacue.report.scene import scene

EDIT = {"editable": True}
DRAWN_SINCE = """(before) => new Promise((go) => {
  const look = () => chart.stats.draws > before ? go() : requestAnimationFrame(look);
  look();
})"""
BLUE, ORANGE = (0, 114, 178), (213, 94, 0)


def colour(chart, frame: float, row: int, down: float) -> tuple[int, int, int]:
    """Of the pixel of a frame, so far below the top of a row."""
    x, y = chart.at(frame, row, down)
    box = chart.page.locator(".tl-plot").bounding_box()
    at = [round(x - box["x"]), round(y - box["y"])]
    script = """([x, y]) => [...document.querySelector(".tl-plot canvas").getContext("2d")
        .getImageData(x, y, 1, 1).data].slice(0, 3)"""
    return tuple(chart.js(script, at))


def long_scene(count: int, rows: int, spike: int, most: int | None = None) -> dict:
    """Flat curves but for one frame, and two gaps."""
    frames = np.delete(np.arange(count), np.r_[50:60, count // 2 : count // 2 + 9])
    values = np.zeros((rows, len(frames)))
    values[:, np.searchsorted(frames, spike)] = 5.0
    seen = Evidence(np.zeros((rows, 1), np.float32), np.zeros(rows), np.ones(rows), values, frames)
    history = History(np.ones((len(frames), 2)), frames, times_s=np.round(frames / 29.97, 3))
    intervals = [Interval(f"s{n}", 100, 900, 1.0) for n in range(rows)]
    states = {interval.state: [interval.state] for interval in intervals}
    return scene(history, Timeline.of(intervals, states, evidence=seen), most=most)


# ---- drawing


@pytest.mark.long
def test_labels_of_windows_are_whole_where_there_is_little_room(stage) -> None:
    history = History(np.ones((900, 2)), times_s=20.0 * np.arange(900))
    intervals = [
        Interval("open", start, start + 249, 1.0, 20.0 * start, 20.0 * start + 5000)
        for start in (0, 300, 600)
    ]
    timeline = Timeline.of(intervals, {"open": ["open"], "shut": ["shut"]})
    chart = stage(scene(history, timeline), {"clock": "seconds"})
    chart.drawn()
    row = chart.page.locator(".tl-windows").first
    assert row.inner_text().split("\n")[-1] == "+ 2"
    assert row.evaluate("(list) => list.scrollWidth <= list.clientWidth")
    before = chart.js("chart.stats.draws")
    chart.page.set_viewport_size({"width": 1200, "height": 900})
    chart.js(DRAWN_SINCE, before)
    first = chart.pixels()  # in the bars, texts stand where they will stand when drawn again
    chart.js("chart.view(10, 500)")
    chart.js("chart.view(0, 899)")
    assert chart.pixels() == first


@pytest.mark.long
def test_everything_of_a_scene_is_drawn_where_it_lies(stage, rich) -> None:
    chart = stage(rich)
    panel = colour(chart, 245, 1, 3)
    assert colour(chart, 59, 0, 2) == BLUE  # the window ends with frame 60
    assert colour(chart, 62, 0, 2) == panel
    assert colour(chart, 189, 1, 2) == ORANGE
    ink = colour(chart, 20, 0, 68)  # the reference, frames 90 – 310 of the file
    assert max(ink) < 60
    assert colour(chart, 65, 0, 68) == panel
    assert colour(chart, 40, 0, 55) == ink  # named by a person
    assert colour(chart, 45, 0, 55) != ink
    gap = {colour(chart, frame, 2, down) for frame in (105, 110, 115) for down in range(20, 60, 3)}
    assert panel not in gap
    texts = chart.page.locator(".tl-keys li").all_inner_texts()
    assert texts == [
        "occurrence",
        "reference",
        "named by a person",
        "named: none of these",
        "change",
        "frame worth an answer",
        "not observed",
        "doubtful",
    ]
    assert chart.page.locator(".tl-label .tl-name bdi").all_inner_texts() == [
        "empty",
        "filled",
        "broken",
    ]
    windows = chart.page.locator(".tl-label .tl-windows").all_inner_texts()
    assert windows == ["20 – 60", "130 – 190", "not found"]


@pytest.mark.long
def test_missed_occurrences_are_hollow_and_superfluous_ones_striped(stage) -> None:
    intervals = [Interval("on", 10, 19, confidence=0.6), Interval("on", 40, 69, confidence=0.6)]
    timeline = Timeline.of(intervals, {"on": ["on"], "off": ["off"]})
    windows = {"on": [(10, 20)], "off": [(75, 95)]}
    reference = Reference("x", windows, frames=(0, 99), complete=True)
    chart = stage(scene(History(np.ones((100, 2))), timeline, references=reference), {})
    panel, ink = colour(chart, 5, 0, 3), colour(chart, 15, 0, 66)
    assert max(ink) < 60  # the true occurrence that was found
    height = range(58, 72)
    hollow = {colour(chart, 92, 1, down) for down in height}
    assert {panel, ink} <= hollow
    assert panel not in {colour(chart, 15, 0, down) for down in range(62, 70)}
    bars = [{colour(chart, frame + part / 9, 0, 8) for part in range(9)} for frame in (17, 67)]
    assert bars[0] == {BLUE}
    assert len(bars[1]) > 1
    legend = chart.page.locator(".tl-keys li").all_inner_texts()
    assert legend == ["occurrence", "reference", "missed", "superfluous"]
    groups = chart.page.locator(".tl-label").evaluate_all(
        "(all) => all.map((one) => one.ariaLabel)"
    )
    assert groups == [
        "State on. Found: frames 10 to 19, frames 40 to 69. Reference: frames 10 to 20. "
        "Superfluous: frames 40 to 69.",
        "State off. Not found. Reference: frames 75 to 95. Missed: frames 75 to 95.",
    ]


@pytest.mark.long
def test_the_less_an_occurrence_is_to_be_trusted_the_paler_it_is(stage) -> None:
    spans = {10: {"confidence": 0.6}, 40: {"confidence": 0.4}, 70: {"confidence": 0.1}}
    spans[90] = {"confidence": 0.1, "confirmed": True}
    intervals = [Interval("on", start, start + 9, **trust) for start, trust in spans.items()]
    timeline = Timeline.of(intervals, {"on": ["on"], "off": ["off"]})
    chart = stage(scene(History(np.ones((100, 2))), timeline), {})
    panel, *bars = (colour(chart, frame, 0, 2) for frame in (3, 12, 42, 72, 92))
    assert bars[0] == bars[3] == BLUE  # sure, or confirmed by a person
    reds = [red for red, _, _ in (*bars[:3], panel)]  # the panel is light
    assert reds == sorted(set(reds))
    legend = chart.page.locator(".tl-keys li").all_inner_texts()
    assert legend == ["occurrence", "unsure", "a guess"]
    labels = chart.page.locator(".tl-windows button").evaluate_all(
        "(buttons) => buttons.map((button) => button.ariaLabel)"
    )
    assert labels == [
        "on: frames 10 to 19, more likely right",
        "on: frames 40 to 49, unsure",
    ]


@pytest.mark.long
def test_of_a_long_history_no_peak_is_lost_and_little_is_read(stage) -> None:
    count, rows = 200_000, 6
    chart = stage(long_scene(count, rows, 123_457))
    chart.drawn()
    stats = chart.js("chart.stats")
    width = chart.page.locator(".tl-plot").bounding_box()["width"]
    assert stats["reads"] < 2 * 18 * rows * width  # two nodes a level of the pyramid, per pixel
    marks = [colour(chart, 123_457 + shift, 2, 24) for shift in range(-300, 301, 100)]
    assert len(set(marks)) > 1  # the peak stands out at the top of the curve
    assert len({colour(chart, 23_000 + shift, 2, 24) for shift in range(0, 600, 100)}) == 1
    chart.js("chart.view(123400, 123500)")
    assert chart.shown["first"] == 123_400
    assert chart.js("chart.stats.reads") < 5_000


@pytest.mark.long
def test_a_thinned_history_shows_the_same_peak(stage) -> None:
    chart = stage(long_scene(20_000, 2, 12_345, most=4_000))
    marks = [colour(chart, 12_345 + shift, 1, 24) for shift in range(-60, 61, 10)]
    assert len(set(marks)) > 1
    x, y = chart.at(12_345, 1, 40)
    chart.page.mouse.move(x, y)
    chart.drawn()
    value = chart.page.locator(".tl-label output").nth(1).inner_text()
    assert float(value) == 2.5  # the middle of the least and the greatest value there


@pytest.mark.long
def test_the_theme_follows_the_system_and_an_attribute(stage, rich) -> None:
    light, dark = stage(rich), stage(rich, scheme="dark")
    panel = colour(light, 245, 1, 3)
    assert min(panel) > 200
    night = colour(dark, 245, 1, 3)
    assert max(night) < 60
    light.js("document.documentElement.dataset.theme = 'dark'")
    light.drawn()
    assert colour(light, 245, 1, 3) == night
    dark.js("document.documentElement.dataset.theme = 'light'")
    dark.drawn()
    assert colour(dark, 245, 1, 3) == panel
    assert colour(dark, 59, 0, 2) == BLUE


@pytest.mark.long
def test_a_page_may_write_its_colours_as_it_likes(stage, rich) -> None:
    states = [{**state, "colour": "rgb(0, 114, 178)"} for state in rich["states"]]
    chart = stage({**rich, "states": states})
    chart.js("chart.element.style.setProperty('--tl-panel', 'hsl(60 100% 90%)')")
    chart.js("document.documentElement.dataset.theme = 'light'")
    chart.drawn()
    assert colour(chart, 245, 1, 3) == (255, 255, 204)
    assert colour(chart, 59, 0, 2) == BLUE
    assert colour(chart, 50, 0, 30) not in (
        (255, 255, 204),
        (0, 0, 0),
    )  # the pale band of the window


def test_a_new_scene_keeps_the_view_and_the_selection(stage, rich) -> None:
    chart = stage(rich, EDIT)
    chart.press("n", "n")
    chart.js("chart.view(100, 220)")
    changed = {**rich, "notes": ["new"]}
    chart.js("(scene) => chart.update(scene)", changed)
    assert chart.shown["first"] == 100
    assert chart.shown["selected"]["state"] == "filled"
    chart.js("(scene) => chart.update(scene)", {**rich, "rows": rich["rows"][:1]})
    assert chart.shown["selected"] is None


@pytest.mark.long
def test_a_new_scene_does_not_lose_the_focus(stage, rich) -> None:
    chart = stage(rich, EDIT)
    chart.page.locator(".tl-windows button").first.focus()
    chart.js("(scene) => chart.update(scene)", rich)
    chart.page.keyboard.press("End")
    assert chart.shown["playhead"] == 299
    chart.press("n")
    chart.page.locator(".tl-grip[data-edge=end]").focus()
    chart.js("(scene) => chart.update(scene)", rich)
    assert chart.js("document.activeElement.dataset.edge") == "end"


@pytest.mark.long
def test_a_scene_of_a_page_needs_little_to_be_labelled(stage, axe) -> None:
    states = [{"name": name, "colour": "#0072B2", "descriptions": []} for name in ("open", "shut")]
    rows = [
        {"state": "open", "windows": [{"start": 3, "end": 9}]},
        {"state": "shut", "windows": []},
    ]
    axis = {"first": 0, "last": 99}
    chart = stage({"axis": axis, "observed": [[0, 99]], "states": states, "rows": rows}, EDIT)
    chart.press("ArrowDown", "End", "a", "Home", "ArrowRight", "s")
    assert chart.events("change")[-1]["state"] == "shut"
    assert chart.js("chart.windows.map((row) => row.windows)") == [[[3, 9]], [[1, 99]]]
    assert axe(chart.page) == []


def test_nothing_to_show_is_no_error(stage) -> None:
    chart = stage({"axis": {"first": 5, "last": 5}, "observed": [], "states": [], "rows": []})
    chart.press("n", "]", "+", "-", "0", "ArrowDown", "ArrowRight", "End")
    assert chart.shown["playhead"] == 5


def until_red(chart, frame: int) -> None:
    """Wait until the picture of a frame has arrived and is drawn."""
    end = time.monotonic() + WAIT_S
    while colour(chart, frame, 0, -60) != (255, 0, 0):
        assert time.monotonic() < end


@pytest.mark.long
def test_pictures_follow_the_zoom(stage, rich) -> None:
    chart = stage(rich)
    chart.js(
        """async (scene) => {
      const pen = document.createElement("canvas").getContext("2d");
      pen.canvas.width = 16; pen.canvas.height = 9;
      pen.fillStyle = "#ff0000"; pen.fillRect(0, 0, 16, 9);
      const url = pen.canvas.toDataURL(), { timeline } = await import("./timeline.js");
      chart.destroy();
      window.pictured = new Set();
      const picture = (frame) => { pictured.add(frame); return url; };
      window.chart = timeline(document.querySelector("#here"), scene, { picture });
      for (let n = 0; n < 60; n += 1) await new Promise(requestAnimationFrame);
    }""",
        rich,
    )
    far = sorted(chart.js("[...pictured]"))
    steps = set(np.diff(far).tolist())
    assert len(steps) == 1
    until_red(chart, far[3])
    chart.js("pictured.clear(); chart.view(100, 139)")
    chart.drawn()
    near = sorted(chart.js("[...pictured]"))
    step = np.diff(near).max()  # pictures at the edges may reach beyond the view
    assert 100 - step < near[0] < near[-1] < 139 + step
    assert len(near) == 10
    assert np.diff(near).max() < min(steps)


@pytest.mark.long
def test_pictures_that_arrive_leave_the_curves_as_they_are(stage, rich) -> None:
    chart = stage(rich)
    draws = chart.js(
        """async (scene) => {
      const pen = document.createElement("canvas").getContext("2d");
      pen.canvas.width = 16; pen.canvas.height = 9;
      pen.fillStyle = "#ff0000"; pen.fillRect(0, 0, 16, 9);
      const url = pen.canvas.toDataURL(), { timeline } = await import("./timeline.js");
      const next = () => new Promise(requestAnimationFrame);
      const rest = async () => { for (let n = 0; n < 60; n += 1) await next(); };
      chart.destroy();
      window.pictured = new Set();
      const picture = (frame) => { pictured.add(frame); return `${url}#${frame}`; };
      window.chart = timeline(document.querySelector("#here"), scene, { picture });
      await rest();
      pictured.clear();
      const before = window.chart.stats.draws;
      window.chart.view(100, 139);
      await rest();
      return window.chart.stats.draws - before;
    }""",
        rich,
    )
    assert draws == 1
    until_red(chart, sorted(chart.js("[...pictured]"))[2])


@pytest.mark.long
def test_sharp_screens_get_sharp_lines(stage, rich) -> None:
    chart = stage(rich, device_scale_factor=2)
    sizes = chart.js("""[...document.querySelectorAll(".tl-plot canvas")].map((one) =>
        one.width / parseFloat(one.style.width))""")
    assert sizes == [2, 2]


@pytest.mark.long
def test_destroying_it_leaves_nothing(stage, rich) -> None:
    chart = stage(rich)
    chart.js("chart.destroy()")
    assert chart.js("document.querySelector('#here').childElementCount") == 0


# ---- reading


def test_the_pointer_reads_frame_time_and_values(stage, rich) -> None:
    chart = stage(rich)
    chart.page.mouse.move(*chart.at(80, 1, 40))
    chart.drawn()
    assert chart.page.locator(".tl-reading").inner_text() == "frame 80 · 3.20 s · file 400"
    values = chart.page.locator(".tl-label output").all_inner_texts()
    assert values[:2] == [f"{np.sin(2):.2f}", f"−{np.sin(2):.2f}"]
    chart.page.mouse.move(*chart.at(110, 1, 40))
    chart.drawn()
    assert chart.page.locator(".tl-reading").inner_text().endswith("not observed")
    assert chart.page.locator(".tl-label output").all_inner_texts()[:3] == ["", "", ""]


@pytest.mark.parametrize(
    ("clock", "words"),
    [("frames", "20 – 60"), ("seconds", "0.80 – 2.44 s"), ("source", "100 – 300")],
)
def test_the_axis_counts_frames_seconds_or_frames_of_the_file(stage, rich, clock, words) -> None:
    chart = stage(rich)
    chart.page.locator("select").select_option(clock)
    assert chart.page.locator(".tl-windows button").first.inner_text() == words
    chart.js("chart.clock('frames')")
    assert chart.page.locator("select").input_value() == "frames"


@pytest.mark.long
def test_both_ends_of_a_long_window_are_written_alike(stage, rich) -> None:
    row = rich["rows"][0]
    later = {**row["windows"][0], "times": [0.8, 62.4]}
    chart = stage({**rich, "rows": [{**row, "windows": [later]}]}, {"clock": "seconds"})
    assert chart.page.locator(".tl-windows button").first.inner_text() == "0:00.80 – 1:02.40"


# ---- zooming and panning


def test_the_wheel_zooms_around_the_pointer_and_shift_pans(stage, rich) -> None:
    chart = stage(rich)
    x, y = chart.at(150, 1, 40)
    chart.page.mouse.move(x, y)
    chart.page.mouse.wheel(0, -400)
    near = chart.shown
    assert near["last"] - near["first"] < 160
    assert chart.at(150, 1, 40)[0] == pytest.approx(x, abs=1)
    chart.page.keyboard.down("Shift")
    chart.page.mouse.wheel(0, 200)
    chart.page.keyboard.up("Shift")
    later = chart.shown
    assert later["first"] > near["first"] + 10
    assert later["last"] - later["first"] == pytest.approx(near["last"] - near["first"])


@pytest.mark.long
def test_a_wheel_that_waits_for_the_focus_lets_the_page_scroll(stage, rich) -> None:
    chart = stage(rich, {"wheel": "focus"})
    whole = chart.shown
    chart.page.mouse.move(*chart.at(150, 1, 40))
    chart.page.mouse.wheel(0, -400)
    assert chart.shown == whole
    chart.page.mouse.click(*chart.at(150, 1, 40))
    chart.page.mouse.wheel(0, -400)
    assert chart.shown["last"] < whole["last"]


def test_keys_buttons_and_double_clicks_zoom(stage, rich) -> None:
    chart = stage(rich)
    chart.press("+")
    assert chart.shown["last"] - chart.shown["first"] == pytest.approx(149)
    chart.press("PageDown")
    assert chart.shown["first"] == pytest.approx(120, abs=0.5)
    chart.press("0")
    assert (chart.shown["first"], chart.shown["last"]) == (0, 299)
    chart.page.locator("button[aria-label='zoom in']").click()
    assert chart.shown["last"] == pytest.approx(149, abs=0.5)
    chart.page.locator("button[aria-label='show all frames']").click()
    chart.page.mouse.dblclick(*chart.at(160, 1, 5))
    assert chart.shown["first"] == pytest.approx(130 - 15.25)
    chart.page.mouse.dblclick(*chart.at(195, 2, 40))
    assert (chart.shown["first"], chart.shown["last"]) == (0, 299)


@pytest.mark.long
def test_dragging_the_axis_pans_and_no_zoom_leaves_the_frames(stage, rich) -> None:
    chart = stage(rich)
    chart.js("chart.view(100, 199)")
    chart.drag(chart.axis(150), chart.axis(130))
    assert chart.shown["first"] == pytest.approx(120, abs=0.2)
    chart.drag(chart.axis(190), chart.axis(130))
    chart.drag(chart.axis(250), chart.axis(210))
    assert chart.shown["last"] == pytest.approx(299)
    for _ in range(12):
        chart.press("+")
    assert chart.shown["last"] - chart.shown["first"] + 1 == pytest.approx(8)


@pytest.mark.long
def test_two_fingers_zoom_and_one_taps(stage, rich) -> None:
    chart = stage(rich, has_touch=True)
    x, y = chart.at(150, 1, 40)
    send = chart.page.context.new_cdp_session(chart.page).send

    def touch(kind: str, *points: float) -> None:
        fingers = [{"x": at, "y": y, "id": n} for n, at in enumerate(points)]
        send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})

    touch("touchStart", x - 40, x + 40)
    touch("touchMove", x - 80, x + 80)
    touch("touchMove", x - 160, x + 160)
    touch("touchEnd")
    size = chart.shown["last"] - chart.shown["first"] + 1
    assert size == pytest.approx(75, rel=0.05)
    assert chart.events("seek") == []
    chart.page.touchscreen.tap(*chart.at(160, 1, 40))
    assert chart.events("seek") == [160]
    assert chart.shown["selected"]["state"] == "filled"


@pytest.mark.long
def test_a_finger_drags_the_edge_of_the_window_that_it_selected(stage, rich) -> None:
    chart = stage(rich, EDIT, has_touch=True)
    chart.page.touchscreen.tap(*chart.at(160, 1, 40))
    send = chart.page.context.new_cdp_session(chart.page).send
    chart.drawn()
    for kind, frame in (("Start", 190.5), ("Move", 215.5), ("Move", 240.5), ("End", None)):
        fingers = []
        if frame is not None:
            x, y = chart.at(frame, 1, 40)
            fingers = [{"x": x, "y": y, "id": 1}]
        send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": fingers})
    chart.drawn()
    assert chart.events("change")[-1]["end"] == 240
    assert chart.events("change")[-1]["done"]


@pytest.mark.long
def test_windows_are_added_and_deleted_without_keys(stage, rich) -> None:
    chart = stage(rich, EDIT, width=390, has_touch=True)
    add, delete = (chart.page.get_by_text(name, exact=True) for name in ("Add", "Delete"))
    chart.page.touchscreen.tap(*chart.at(230, 2, 60))
    assert delete.is_disabled()
    add.tap()
    change = chart.events("change")[-1]
    assert (change["state"], change["kind"], change["done"]) == ("broken", "create", True)
    assert abs(change["start"] - 230) <= 1
    chart.drawn()
    delete.tap()
    assert chart.events("change")[-1]["kind"] == "delete"


# ---- the playhead


def test_a_click_seeks_and_the_handle_can_be_dragged(stage, rich) -> None:
    chart = stage(rich)
    chart.page.mouse.click(*chart.at(210, 2, 40))
    assert chart.events("seek") == [210]
    chart.drag(chart.axis(210), chart.axis(240))
    assert chart.events("seek")[-1] == 240
    assert chart.shown["playhead"] == 240
    assert chart.shown["first"] == 0
    slider = chart.page.locator(".tl-plot")
    assert slider.get_attribute("aria-valuenow") == "240"
    text = slider.get_attribute("aria-valuetext")
    assert text.startswith("frame 240 · 9.60 s · file 1200, empty")


def test_keys_move_the_playhead_and_jump_to_edges(stage, rich) -> None:
    chart = stage(rich)
    chart.press("ArrowRight", "ArrowRight", "ArrowLeft", "Shift+ArrowRight")
    assert chart.shown["playhead"] == 11
    chart.press("]", ".", "]")
    assert chart.events("seek")[-3:] == [20, 60, 130]
    chart.press("[", ",")
    assert chart.events("seek")[-2:] == [60, 20]
    chart.press("End", "]")
    assert chart.shown["playhead"] == 299
    chart.press("Home")
    assert chart.shown["playhead"] == 0


@pytest.mark.long
def test_the_view_follows_a_playhead_that_leaves_it(stage, rich) -> None:
    chart = stage(rich)
    chart.js("chart.view(0, 49)")
    chart.js("chart.playhead(120, true)")
    assert chart.shown["first"] <= 120 <= chart.shown["last"]
    chart.js("chart.playhead(10)")
    assert chart.shown["first"] > 10


# ---- editing


def test_an_edge_is_dragged_to_a_frame(stage, rich) -> None:
    chart = stage(rich, EDIT)
    chart.drag(chart.at(190.5, 1), chart.at(230.5, 1))
    steps = chart.events("change")
    assert {(step["state"], step["index"], step["start"], step["kind"]) for step in steps} == {
        ("filled", 0, 130, "end")
    }
    assert [step["done"] for step in steps] == [False] * (len(steps) - 1) + [True]
    assert steps[-1]["end"] == 230
    assert chart.page.locator(".tl-windows button").nth(1).inner_text() == "130 – 230"


def test_an_edge_snaps_to_segments_unless_alt_is_held(stage, rich) -> None:
    chart = stage(rich, EDIT)
    chart.drag(chart.at(190.5, 1), chart.at(201.5, 1))  # a segment ends with 200
    assert chart.events("change")[-1]["end"] == 200
    chart.drag(chart.at(200.5, 1), chart.at(202.5, 1), key="Alt")
    assert chart.events("change")[-1]["end"] == 202
    chart.drag(chart.at(129.5, 1), chart.at(121.5, 1))
    assert chart.events("change")[-1]["start"] == 120  # where the object is seen again


def test_a_window_is_moved_as_a_whole_and_stays_on_the_axis(stage, rich) -> None:
    chart = stage(rich, EDIT)
    chart.drag(chart.at(160, 1), chart.at(180, 1), key="Alt")
    last = chart.events("change")[-1]
    assert (last["start"], last["end"], last["kind"]) == (150, 210, "move")
    chart.drag(chart.at(180, 1), chart.at(295, 1), key="Alt")
    last = chart.events("change")[-1]
    assert (last["start"], last["end"]) == (239, 299)


def test_without_permission_nothing_is_edited(stage, rich) -> None:
    chart = stage(rich)
    chart.drag(chart.at(190.5, 1), chart.at(230.5, 1))
    chart.press("n", "s", "e", "a", "Delete", "1", "x")
    assert chart.events("change") == []
    assert chart.page.locator(".tl-grip:visible").count() == 0


def test_escape_undoes_a_drag(stage, rich) -> None:
    chart = stage(rich, EDIT)
    chart.page.mouse.move(*chart.at(190.5, 1))
    chart.page.mouse.down()
    chart.page.mouse.move(*chart.at(240.5, 1))
    chart.page.keyboard.press("Escape")
    chart.page.mouse.up()
    assert chart.events("change")[-1]["end"] == 190
    assert chart.js("chart.windows[1].windows") == [[130, 190]]


def test_a_window_is_edited_with_keys_alone(stage, rich) -> None:
    chart = stage(rich, EDIT)
    chart.press("n", "n")
    assert chart.shown["selected"]["state"] == "filled"
    assert chart.shown["playhead"] == 130
    chart.press("Shift+ArrowRight", "s")
    assert chart.events("change")[-1]["start"] == 140
    chart.press("Shift+ArrowRight", "e")
    assert chart.events("change")[-1]["end"] == 150
    chart.press("ArrowDown", "Home", "a")
    change = chart.events("change")[-1]
    assert (change["state"], change["start"], change["end"]) == ("broken", 0, 0)
    chart.press("p", "Delete")
    assert chart.events("change")[-1]["kind"] == "delete"
    assert "deleted" in chart.page.locator("[aria-live=polite]").inner_text()


def test_an_edited_window_ends_in_seconds_where_its_last_frame_ends(stage, rich) -> None:
    chart = stage(rich, {"editable": True, "clock": "seconds"})
    chart.press("n", "Shift+ArrowRight", "e")
    assert chart.events("change")[-1]["end"] == 30
    button = chart.page.locator(".tl-windows button").first
    assert button.inner_text() == "0.80 – 1.24 s"
    assert button.get_attribute("aria-label") == "empty: frames 20 to 30, 0.80 s to 1.24 s, edited"


def test_each_edge_of_the_selected_window_is_a_slider(stage, rich) -> None:
    chart = stage(rich, EDIT)
    chart.press("n")
    chart.page.locator(".tl-grip[data-edge=end]").focus()
    grip = chart.page.locator(".tl-grip[data-edge=end]")
    assert grip.get_attribute("aria-valuenow") == "60"
    chart.page.keyboard.press("ArrowRight")
    chart.page.keyboard.press("Shift+ArrowRight")
    chart.drawn()
    assert chart.events("change")[-1]["end"] == 71
    assert grip.get_attribute("aria-valuenow") == "71"
    assert grip.get_attribute("aria-valuetext") == "frame 71 · 2.84 s · file 355"
    assert chart.js("document.activeElement.dataset.edge") == "end"
    chart.page.keyboard.press("Home")
    assert chart.events("change")[-1]["end"] == 20


def test_frames_are_marked_with_keys(stage, rich) -> None:
    chart = stage(rich)
    chart.press("ArrowRight", "2", "x", "c", "9")
    assert chart.events("mark") == [
        {"kind": "state", "state": "filled", "frame": 1},
        {"kind": "none", "state": None, "frame": 1},
        {"kind": "change", "state": None, "frame": 1},
    ]


@pytest.mark.long
def test_every_key_of_the_sheet_does_something(stage, rich) -> None:
    chart = stage(rich, EDIT)
    names = {
        "−": "-",
        "←": "ArrowLeft",
        "→": "ArrowRight",
        "↑": "ArrowUp",
        "↓": "ArrowDown",
        "Esc": "Escape",
        "9": "3",
    }
    chart.press("n")
    keys = {key for sheet in chart.js("chart.keys") for key in sheet["keys"]} - {"Alt", "…"}
    assert len(keys) > 20
    assert [
        key for key in keys if not chart.js("(key) => chart.knows(key)", names.get(key, key))
    ] == []
    assert not chart.js("chart.knows('q')")


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.long), 1920])
def test_nothing_is_wrong_for_assistive_tools(stage, axe, rich, width, scheme) -> None:
    chart = stage(rich, {"editable": True, "segments": True}, width, scheme)
    chart.press("n")
    assert axe(chart.page) == []
    wide = chart.js("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]
