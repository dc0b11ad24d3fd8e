"""The timeline in a real browser: it draws, zooms, pans, edits, and can be used without a mouse."""

from __future__ import annotations

import time

import numpy as np
import pytest
from helpers.studio_page import WAIT_S

from dejacue import Evidence, History, Interval, Timeline
from dejacue.report.scene import scene

EDIT = {"editable": True}
BLUE, ORANGE = (0, 114, 178), (213, 94, 0)


def colour(own, frame: float, row: int, down: float) -> tuple[int, int, int]:
    """Of the pixel of a frame, so far below the top of a row."""
    x, y = own.at(frame, row, down)
    box = own.page.locator(".tl-plot").bounding_box()
    at = [round(x - box["x"]), round(y - box["y"])]
    script = """([x, y]) => [...document.querySelector(".tl-plot canvas").getContext("2d")
        .getImageData(x, y, 1, 1).data].slice(0, 3)"""
    return tuple(own.js(script, at))


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


def test_everything_of_a_scene_is_drawn_where_it_lies(stage, rich) -> None:
    own = stage(rich)
    panel = colour(own, 245, 1, 3)
    assert colour(own, 59, 0, 2) == BLUE  # the window ends with frame 60
    assert colour(own, 62, 0, 2) == panel
    assert colour(own, 189, 1, 2) == ORANGE
    ink = colour(own, 20, 0, 68)  # the reference, frames 90 – 310 of the file
    assert max(ink) < 60
    assert colour(own, 65, 0, 68) == panel
    assert colour(own, 40, 0, 55) == ink  # named by a person
    assert colour(own, 45, 0, 55) != ink
    gap = {colour(own, frame, 2, down) for frame in (105, 110, 115) for down in range(20, 60, 3)}
    assert panel not in gap
    alternative = [colour(own, 240 + n / 5, 0, 6) for n in range(30)]
    assert panel in alternative  # hatched, not filled
    assert BLUE not in alternative
    assert len(set(alternative)) > 2
    texts = own.page.locator(".tl-keys li").all_inner_texts()
    assert texts == [
        "window",
        "alternative, by rank",
        "reference",
        "named by a person",
        "named: none of these",
        "change",
        "frame worth an answer",
        "not observed",
        "doubtful",
    ]
    assert own.page.locator(".tl-label .tl-name bdi").all_inner_texts() == [
        "empty",
        "filled",
        "broken",
    ]
    found = own.page.locator(".tl-label .tl-windows").all_inner_texts()
    assert found == ["20 – 60", "130 – 190", "not found"]


@pytest.mark.long
def test_of_a_long_history_no_peak_is_lost_and_little_is_read(stage) -> None:
    count, rows = 200_000, 6
    own = stage(long_scene(count, rows, 123_457))
    own.drawn()
    stats = own.js("own.stats")
    width = own.page.locator(".tl-plot").bounding_box()["width"]
    assert stats["reads"] < 2 * 18 * rows * width  # two nodes a level of the pyramid, per pixel
    marks = [colour(own, 123_457 + shift, 2, 24) for shift in range(-300, 301, 100)]
    assert len(set(marks)) > 1  # the peak stands out at the top of the curve
    assert len({colour(own, 23_000 + shift, 2, 24) for shift in range(0, 600, 100)}) == 1
    own.js("own.view(123400, 123500)")
    assert own.shown["first"] == 123_400
    assert own.js("own.stats.reads") < 5_000


@pytest.mark.long
def test_a_thinned_history_shows_the_same_peak(stage) -> None:
    own = stage(long_scene(20_000, 2, 12_345, most=4_000))
    marks = [colour(own, 12_345 + shift, 1, 24) for shift in range(-60, 61, 10)]
    assert len(set(marks)) > 1
    x, y = own.at(12_345, 1, 40)
    own.page.mouse.move(x, y)
    own.drawn()
    value = own.page.locator(".tl-label output").nth(1).inner_text()
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
    own = stage({**rich, "states": states})
    own.js("own.element.style.setProperty('--tl-panel', 'hsl(60 100% 90%)')")
    own.js("document.documentElement.dataset.theme = 'light'")
    own.drawn()
    assert colour(own, 245, 1, 3) == (255, 255, 204)
    assert colour(own, 59, 0, 2) == BLUE
    assert colour(own, 50, 0, 30) not in ((255, 255, 204), (0, 0, 0))  # the pale band of the window


def test_a_new_scene_keeps_the_view_and_the_selection(stage, rich) -> None:
    own = stage(rich, EDIT)
    own.press("n", "n")
    own.js("own.view(100, 220)")
    changed = {**rich, "notes": ["new"]}
    own.js("(scene) => own.update(scene)", changed)
    assert own.shown["first"] == 100
    assert own.shown["selected"]["state"] == "filled"
    own.js("(scene) => own.update(scene)", {**rich, "rows": rich["rows"][:1]})
    assert own.shown["selected"] is None


@pytest.mark.long
def test_a_new_scene_does_not_lose_the_focus(stage, rich) -> None:
    own = stage(rich, EDIT)
    own.page.locator(".tl-windows button").first.focus()
    own.js("(scene) => own.update(scene)", rich)
    own.page.keyboard.press("End")
    assert own.shown["playhead"] == 299
    own.press("n")
    own.page.locator(".tl-grip[data-edge=end]").focus()
    own.js("(scene) => own.update(scene)", rich)
    assert own.js("document.activeElement.dataset.edge") == "end"


@pytest.mark.long
def test_a_scene_of_a_page_needs_little_to_be_labelled(stage, axe) -> None:
    states = [{"name": name, "colour": "#0072B2", "descriptions": []} for name in ("open", "shut")]
    rows = [
        {"state": "open", "windows": [{"start": 3, "end": 9}]},
        {"state": "shut", "windows": []},
    ]
    axis = {"first": 0, "last": 99}
    own = stage(
        {"axis": axis, "observed": [[0, 99]], "states": states, "rows": rows}, {"labels": True}
    )
    own.drag(own.at(20, 1, 40), own.at(39, 1, 40), key="Alt")
    assert own.events("change")[-1]["state"] == "shut"
    assert own.js("own.windows.map((row) => row.windows)") == [[[3, 9]], [[20, 39]]]
    assert axe(own.page) == []


def test_nothing_to_show_is_no_error(stage) -> None:
    own = stage({"axis": {"first": 5, "last": 5}, "observed": [], "states": [], "rows": []})
    own.press("n", "]", "+", "-", "0", "ArrowDown", "ArrowRight", "End")
    assert own.shown["playhead"] == 5


def until_red(own, frame: int) -> None:
    """Wait until the picture of a frame has arrived and is drawn."""
    end = time.monotonic() + WAIT_S
    while colour(own, frame, 0, -60) != (255, 0, 0):
        assert time.monotonic() < end


@pytest.mark.long
def test_pictures_follow_the_zoom(stage, rich) -> None:
    own = stage(rich)
    own.js(
        """async (scene) => {
      const pen = document.createElement("canvas").getContext("2d");
      pen.canvas.width = 16; pen.canvas.height = 9;
      pen.fillStyle = "#ff0000"; pen.fillRect(0, 0, 16, 9);
      const url = pen.canvas.toDataURL(), { timeline } = await import("./timeline.js");
      own.destroy();
      window.asked = new Set();
      const picture = (frame) => { asked.add(frame); return url; };
      window.own = timeline(document.querySelector("#here"), scene, { picture });
      for (let n = 0; n < 60; n += 1) await new Promise(requestAnimationFrame);
    }""",
        rich,
    )
    far = sorted(own.js("[...asked]"))
    steps = set(np.diff(far).tolist())
    assert len(steps) == 1
    until_red(own, far[3])
    own.js("asked.clear(); own.view(100, 139)")
    own.drawn()
    near = sorted(own.js("[...asked]"))
    assert 100 <= near[0] < near[-1] <= 139
    assert len(near) == 5
    assert np.diff(near).max() < min(steps)


@pytest.mark.long
def test_pictures_that_arrive_leave_the_curves_as_they_are(stage, rich) -> None:
    own = stage(rich)
    draws = own.js(
        """async (scene) => {
      const pen = document.createElement("canvas").getContext("2d");
      pen.canvas.width = 16; pen.canvas.height = 9;
      pen.fillStyle = "#ff0000"; pen.fillRect(0, 0, 16, 9);
      const url = pen.canvas.toDataURL(), { timeline } = await import("./timeline.js");
      const next = () => new Promise(requestAnimationFrame);
      const rest = async () => { for (let n = 0; n < 60; n += 1) await next(); };
      own.destroy();
      window.asked = new Set();
      const picture = (frame) => { asked.add(frame); return `${url}#${frame}`; };
      window.own = timeline(document.querySelector("#here"), scene, { picture });
      await rest();
      asked.clear();
      const before = window.own.stats.draws;
      window.own.view(100, 139);
      await rest();
      return window.own.stats.draws - before;
    }""",
        rich,
    )
    assert draws == 1
    until_red(own, sorted(own.js("[...asked]"))[2])


@pytest.mark.long
def test_sharp_screens_get_sharp_lines(stage, rich) -> None:
    own = stage(rich, device_scale_factor=2)
    sizes = own.js("""[...document.querySelectorAll(".tl-plot canvas")].map((one) =>
        one.width / parseFloat(one.style.width))""")
    assert sizes == [2, 2]


@pytest.mark.long
def test_destroying_it_leaves_nothing(stage, rich) -> None:
    own = stage(rich)
    own.js("own.destroy()")
    assert own.js("document.querySelector('#here').childElementCount") == 0


# ---- reading


def test_the_pointer_reads_frame_time_and_values(stage, rich) -> None:
    own = stage(rich)
    own.page.mouse.move(*own.at(80, 1, 40))
    own.drawn()
    assert own.page.locator(".tl-reading").inner_text() == "frame 80 · 3.20 s · file 400"
    values = own.page.locator(".tl-label output").all_inner_texts()
    assert values[:2] == [f"{np.sin(2):.2f}", f"−{np.sin(2):.2f}"]
    own.page.mouse.move(*own.at(110, 1, 40))
    own.drawn()
    assert own.page.locator(".tl-reading").inner_text().endswith("not observed")
    assert own.page.locator(".tl-label output").all_inner_texts()[:3] == ["", "", ""]


@pytest.mark.parametrize(
    ("clock", "words"),
    [("frames", "20 – 60"), ("seconds", "0.80 – 2.44 s"), ("source", "100 – 300")],
)
def test_the_axis_counts_frames_seconds_or_frames_of_the_file(stage, rich, clock, words) -> None:
    own = stage(rich)
    own.page.locator("select").select_option(clock)
    assert own.page.locator(".tl-windows button").first.inner_text() == words
    own.js("own.clock('frames')")
    assert own.page.locator("select").input_value() == "frames"


@pytest.mark.long
def test_both_ends_of_a_long_window_are_written_alike(stage, rich) -> None:
    row = rich["rows"][0]
    later = {**row["windows"][0], "times": [0.8, 62.4]}
    own = stage({**rich, "rows": [{**row, "windows": [later]}]}, {"clock": "seconds"})
    assert own.page.locator(".tl-windows button").first.inner_text() == "0:00.80 – 1:02.40"


# ---- zooming and panning


def test_the_wheel_zooms_around_the_pointer_and_shift_pans(stage, rich) -> None:
    own = stage(rich)
    x, y = own.at(150, 1, 40)
    own.page.mouse.move(x, y)
    own.page.mouse.wheel(0, -400)
    near = own.shown
    assert near["last"] - near["first"] < 160
    assert own.at(150, 1, 40)[0] == pytest.approx(x, abs=1)
    own.page.keyboard.down("Shift")
    own.page.mouse.wheel(0, 200)
    own.page.keyboard.up("Shift")
    later = own.shown
    assert later["first"] > near["first"] + 10
    assert later["last"] - later["first"] == pytest.approx(near["last"] - near["first"])


@pytest.mark.long
def test_a_wheel_that_waits_for_the_focus_lets_the_page_scroll(stage, rich) -> None:
    own = stage(rich, {"wheel": "focus"})
    whole = own.shown
    own.page.mouse.move(*own.at(150, 1, 40))
    own.page.mouse.wheel(0, -400)
    assert own.shown == whole
    own.page.mouse.click(*own.at(150, 1, 40))
    own.page.mouse.wheel(0, -400)
    assert own.shown["last"] < whole["last"]


def test_keys_buttons_and_double_clicks_zoom(stage, rich) -> None:
    own = stage(rich)
    own.press("+")
    assert own.shown["last"] - own.shown["first"] == pytest.approx(149)
    own.press("PageDown")
    assert own.shown["first"] == pytest.approx(120, abs=0.5)
    own.press("0")
    assert (own.shown["first"], own.shown["last"]) == (0, 299)
    own.page.locator("button[aria-label='zoom in']").click()
    assert own.shown["last"] == pytest.approx(149, abs=0.5)
    own.page.locator("button[aria-label='show all frames']").click()
    own.page.mouse.dblclick(*own.at(160, 1, 5))
    assert own.shown["first"] == pytest.approx(130 - 15.25)
    own.page.mouse.dblclick(*own.at(195, 2, 40))
    assert (own.shown["first"], own.shown["last"]) == (0, 299)


@pytest.mark.long
def test_dragging_the_axis_pans_and_no_zoom_leaves_the_frames(stage, rich) -> None:
    own = stage(rich)
    own.js("own.view(100, 199)")
    own.drag(own.axis(150), own.axis(130))
    assert own.shown["first"] == pytest.approx(120, abs=0.2)
    own.drag(own.axis(190), own.axis(130))
    own.drag(own.axis(250), own.axis(210))
    assert own.shown["last"] == pytest.approx(299)
    for _ in range(12):
        own.press("+")
    assert own.shown["last"] - own.shown["first"] + 1 == pytest.approx(8)


@pytest.mark.long
def test_two_fingers_zoom_and_one_taps(stage, rich) -> None:
    own = stage(rich, has_touch=True)
    x, y = own.at(150, 1, 40)
    send = own.page.context.new_cdp_session(own.page).send

    def touch(kind: str, *points: float) -> None:
        fingers = [{"x": at, "y": y, "id": n} for n, at in enumerate(points)]
        send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})

    touch("touchStart", x - 40, x + 40)
    touch("touchMove", x - 80, x + 80)
    touch("touchMove", x - 160, x + 160)
    touch("touchEnd")
    size = own.shown["last"] - own.shown["first"] + 1
    assert size == pytest.approx(75, rel=0.05)
    assert own.events("seek") == []
    own.page.touchscreen.tap(*own.at(160, 1, 40))
    assert own.events("seek") == [160]
    assert own.shown["selected"]["state"] == "filled"


@pytest.mark.long
def test_a_finger_drags_the_edge_of_the_window_that_it_selected(stage, rich) -> None:
    own = stage(rich, EDIT, has_touch=True)
    own.page.touchscreen.tap(*own.at(160, 1, 40))
    send = own.page.context.new_cdp_session(own.page).send
    own.drawn()
    for kind, frame in (("Start", 190.5), ("Move", 215.5), ("Move", 240.5), ("End", None)):
        fingers = []
        if frame is not None:
            x, y = own.at(frame, 1, 40)
            fingers = [{"x": x, "y": y, "id": 1}]
        send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": fingers})
    own.drawn()
    assert own.events("change")[-1]["end"] == 240
    assert own.events("change")[-1]["done"]


@pytest.mark.long
def test_windows_are_added_and_deleted_without_keys(stage, rich) -> None:
    own = stage(rich, EDIT, width=390, has_touch=True)
    add, delete = (own.page.get_by_text(name, exact=True) for name in ("Add", "Delete"))
    own.page.touchscreen.tap(*own.at(230, 2, 60))
    assert delete.is_disabled()
    add.tap()
    made = own.events("change")[-1]
    assert (made["state"], made["kind"], made["done"]) == ("broken", "create", True)
    assert abs(made["start"] - 230) <= 1
    own.drawn()
    delete.tap()
    assert own.events("change")[-1]["kind"] == "delete"


# ---- the playhead


def test_a_click_seeks_and_the_handle_can_be_dragged(stage, rich) -> None:
    own = stage(rich)
    own.page.mouse.click(*own.at(210, 2, 40))
    assert own.events("seek") == [210]
    own.drag(own.axis(210), own.axis(240))
    assert own.events("seek")[-1] == 240
    assert own.shown["playhead"] == 240
    assert own.shown["first"] == 0
    slider = own.page.locator(".tl-plot")
    assert slider.get_attribute("aria-valuenow") == "240"
    said = slider.get_attribute("aria-valuetext")
    assert said.startswith("frame 240 · 9.60 s · file 1200, empty")


def test_keys_move_the_playhead_and_jump_to_edges(stage, rich) -> None:
    own = stage(rich)
    own.press("ArrowRight", "ArrowRight", "ArrowLeft", "Shift+ArrowRight")
    assert own.shown["playhead"] == 11
    own.press("]", ".", "]")
    assert own.events("seek")[-3:] == [20, 60, 130]
    own.press("[", ",")
    assert own.events("seek")[-2:] == [60, 20]
    own.press("End", "]")
    assert own.shown["playhead"] == 299
    own.press("Home")
    assert own.shown["playhead"] == 0


@pytest.mark.long
def test_the_view_follows_a_playhead_that_leaves_it(stage, rich) -> None:
    own = stage(rich)
    own.js("own.view(0, 49)")
    own.js("own.playhead(120, true)")
    assert own.shown["first"] <= 120 <= own.shown["last"]
    own.js("own.playhead(10)")
    assert own.shown["first"] > 10


# ---- editing


def test_an_edge_is_dragged_to_a_frame(stage, rich) -> None:
    own = stage(rich, EDIT)
    own.drag(own.at(190.5, 1), own.at(230.5, 1))
    steps = own.events("change")
    assert {(one["state"], one["index"], one["start"], one["kind"]) for one in steps} == {
        ("filled", 0, 130, "end")
    }
    assert [one["done"] for one in steps] == [False] * (len(steps) - 1) + [True]
    assert steps[-1]["end"] == 230
    assert own.page.locator(".tl-windows button").nth(1).inner_text() == "130 – 230"


def test_an_edge_snaps_to_segments_unless_alt_is_held(stage, rich) -> None:
    own = stage(rich, EDIT)
    own.drag(own.at(190.5, 1), own.at(201.5, 1))  # a segment ends with 200
    assert own.events("change")[-1]["end"] == 200
    own.drag(own.at(200.5, 1), own.at(202.5, 1), key="Alt")
    assert own.events("change")[-1]["end"] == 202
    own.drag(own.at(129.5, 1), own.at(121.5, 1))
    assert own.events("change")[-1]["start"] == 120  # where the object is seen again


def test_a_window_is_moved_as_a_whole_and_stays_on_the_axis(stage, rich) -> None:
    own = stage(rich, EDIT)
    own.drag(own.at(160, 1), own.at(180, 1), key="Alt")
    last = own.events("change")[-1]
    assert (last["start"], last["end"], last["kind"]) == (150, 210, "move")
    own.drag(own.at(180, 1), own.at(295, 1), key="Alt")
    last = own.events("change")[-1]
    assert (last["start"], last["end"]) == (239, 299)


def test_without_permission_nothing_is_edited(stage, rich) -> None:
    own = stage(rich)
    own.drag(own.at(190.5, 1), own.at(230.5, 1))
    own.press("n", "s", "e", "a", "Delete", "1", "x")
    assert own.events("change") == []
    assert own.page.locator(".tl-grip:visible").count() == 0


def test_windows_are_drawn_on_an_empty_row_and_deleted(stage, rich) -> None:
    own = stage(rich, {"labels": True})
    own.drag(own.at(210, 0, 40), own.at(250, 0, 40), key="Alt")
    made = own.events("change")[-1]
    assert (made["state"], made["start"], made["end"]) == ("empty", 210, 250)
    assert (made["kind"], made["done"], made["index"]) == ("create", True, 1)
    own.drag(own.at(200, 0, 40), own.at(240, 0, 40), key="Alt")  # up to its neighbour
    assert own.events("change")[-1]["end"] == 209
    own.press("Delete")
    gone = own.events("change")[-1]
    assert (gone["kind"], gone["index"], gone["start"]) == ("delete", 2, 200)
    assert own.js("own.windows[0].windows") == [[20, 60], [210, 250]]


def test_escape_undoes_a_drag(stage, rich) -> None:
    own = stage(rich, EDIT)
    own.page.mouse.move(*own.at(190.5, 1))
    own.page.mouse.down()
    own.page.mouse.move(*own.at(240.5, 1))
    own.page.keyboard.press("Escape")
    own.page.mouse.up()
    assert own.events("change")[-1]["end"] == 190
    assert own.js("own.windows[1].windows") == [[130, 190]]


def test_a_window_is_edited_with_keys_alone(stage, rich) -> None:
    own = stage(rich, EDIT)
    own.press("n", "n")
    assert own.shown["selected"]["state"] == "filled"
    assert own.shown["playhead"] == 130
    own.press("Shift+ArrowRight", "s")
    assert own.events("change")[-1]["start"] == 140
    own.press("Shift+ArrowRight", "e")
    assert own.events("change")[-1]["end"] == 150
    own.press("ArrowDown", "Home", "a")
    made = own.events("change")[-1]
    assert (made["state"], made["start"], made["end"]) == ("broken", 0, 0)
    own.press("p", "Delete")
    assert own.events("change")[-1]["kind"] == "delete"
    assert "deleted" in own.page.locator("[aria-live=polite]").inner_text()


def test_an_edited_window_ends_in_seconds_where_its_last_frame_ends(stage, rich) -> None:
    own = stage(rich, {"editable": True, "clock": "seconds"})
    own.press("n", "Shift+ArrowRight", "e")
    assert own.events("change")[-1]["end"] == 30
    button = own.page.locator(".tl-windows button").first
    assert button.inner_text() == "0.80 – 1.24 s"
    assert button.get_attribute("aria-label") == "empty: frames 20 to 30, 0.80 s to 1.24 s, edited"


def test_each_edge_of_the_selected_window_is_a_slider(stage, rich) -> None:
    own = stage(rich, EDIT)
    own.press("n")
    own.page.locator(".tl-grip[data-edge=end]").focus()
    grip = own.page.locator(".tl-grip[data-edge=end]")
    assert grip.get_attribute("aria-valuenow") == "60"
    own.page.keyboard.press("ArrowRight")
    own.page.keyboard.press("Shift+ArrowRight")
    own.drawn()
    assert own.events("change")[-1]["end"] == 71
    assert grip.get_attribute("aria-valuenow") == "71"
    assert grip.get_attribute("aria-valuetext") == "frame 71 · 2.84 s · file 355"
    assert own.js("document.activeElement.dataset.edge") == "end"
    own.page.keyboard.press("Home")
    assert own.events("change")[-1]["end"] == 20


def test_frames_are_marked_with_keys(stage, rich) -> None:
    own = stage(rich)
    own.press("ArrowRight", "2", "x", "c", "9")
    assert own.events("mark") == [
        {"kind": "state", "state": "filled", "frame": 1},
        {"kind": "none", "state": None, "frame": 1},
        {"kind": "change", "state": None, "frame": 1},
    ]


@pytest.mark.long
def test_every_key_of_the_sheet_does_something(stage, rich) -> None:
    own = stage(rich, EDIT)
    names = {
        "−": "-",
        "←": "ArrowLeft",
        "→": "ArrowRight",
        "↑": "ArrowUp",
        "↓": "ArrowDown",
        "Esc": "Escape",
        "9": "3",
    }
    own.press("n")
    keys = {key for sheet in own.js("own.keys") for key in sheet["keys"]} - {"Alt", "…"}
    assert len(keys) > 20
    assert [key for key in keys if not own.js("(key) => own.knows(key)", names.get(key, key))] == []
    assert not own.js("own.knows('q')")


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.long), 1920])
def test_nothing_is_wrong_for_assistive_tools(stage, axe, rich, width, scheme) -> None:
    own = stage(rich, {"editable": True, "segments": True}, width, scheme)
    own.press("n")
    assert axe(own.page) == []
    wide = own.js("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]
