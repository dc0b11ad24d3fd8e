"""One screen, like an editor: a large video, the timeline under it, both always in sight."""

from __future__ import annotations

import shutil

import pytest

from dejacue import Finding, Sampling, find

MANY = 30  # states

# Share of the window that the video has, and the rows that are wholly in sight
MEASURE = """() => {
  const box = (selector) => document.querySelector(selector).getBoundingClientRect();
  const stage = box(".stage"), rows = box(".tl-scroll"), axis = box(".tl-reading");
  const labels = [...document.querySelectorAll(".tl-label:not(.tl-lane)")];
  const seen = labels.map((row) => row.getBoundingClientRect()).filter(
    ({ top, bottom }) => top >= axis.bottom - 1 && bottom <= rows.bottom + 1);
  return { share: stage.width * stage.height / (innerWidth * innerHeight), rows: seen.length,
    inside: stage.top >= 0 && stage.bottom <= innerHeight && rows.bottom <= innerHeight,
    scrolls: document.documentElement.scrollHeight > innerHeight };
}"""


@pytest.fixture
def many(address, desk, workspace):
    """many(width, height) opens a finding of thirty states, one with a name that has no end."""
    finding = Finding.read(workspace / "cup")
    states = {f"state {n} of a long list": [f"cup filled {n}"] for n in range(MANY - 1)}
    finding.with_words({**states, "x" * 80: ["cup with nothing"]}).save(workspace / "many")

    def sit(width: int, height: int, shape: float | None = None):
        user = desk(address, width)
        user.page.set_viewport_size({"width": width, "height": height})
        if shape is not None:
            shape_video(user, shape)
        user.open("#/finding/many")
        user.until(f"() => document.querySelectorAll('.tl-windows').length >= {MANY}")
        user.shows(0)
        return user

    return sit


SIZES = [(1280, 720, 0.20, 3), (1920, 1080, 0.30, 5)]


def shape_video(user, shape: float) -> None:
    """Let the page see a video of another shape: its pixels are not square."""

    def answer(route) -> None:
        response = route.fetch()
        video = response.json()
        video["pixel_aspect"] = shape * video["height"] / video["width"]
        route.fulfill(response=response, json=video)

    user.page.route("**/api/videos/**/info", answer)


def apart(user, first: str, second: str) -> bool:
    """Return whether two elements cover nothing of each other."""
    a, b = (user.page.locator(name).bounding_box() for name in (first, second))
    beside = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
    return beside or a["y"] + a["height"] <= b["y"] or b["y"] + b["height"] <= a["y"]


@pytest.mark.parametrize(("width", "height", "share", "rows"), SIZES)
def test_a_square_video_is_large_and_never_scrolls_away(many, width, height, share, rows) -> None:
    user = many(width, height, shape=1)
    if not user.page.locator(".marker").count():
        user.page.keyboard.press("t")
    user.until("() => document.querySelectorAll('.pictures [role=option]').length === 12")
    assert apart(user, ".stage", ".marker")  # beside it, where the window is wider than the video
    before = user.page.evaluate(MEASURE)
    assert before["share"] >= share
    assert before["rows"] >= rows
    assert before["inside"]
    assert not before["scrolls"]
    user.page.locator(".tl-label").last.scroll_into_view_if_needed()
    assert user.page.evaluate("document.querySelector('.tl-scroll').scrollTop") > 0
    after = user.page.evaluate(MEASURE)
    assert after == {**before, "rows": after["rows"]}  # the video stands, the axis sticks


@pytest.mark.long
@pytest.mark.parametrize(("width", "height", "share", "rows"), SIZES)
def test_a_video_is_as_large_where_its_object_is_marked(
    address, desk, workspace, width, height, share, rows
) -> None:
    states = {f"state {n}": [f"cup filled {n}"] for n in range(rows)}
    Finding.read(workspace / "cup").with_words(states).save(workspace / "cup")
    user = desk(address)
    user.page.set_viewport_size({"width": width, "height": height})
    shape_video(user, 1)
    user.open("#/track/scene%2Fscene.mp4/cup")
    user.shows(0)
    user.until(f"() => ({MEASURE})().rows >= {rows}")
    seen = user.page.evaluate(MEASURE)
    assert (seen["share"] >= share, seen["inside"], seen["scrolls"]) == (True, True, False)
    pictures = user.page.locator(".filmstrip button")
    assert apart(user, ".stage", ".filmstrip")
    assert pictures.first.bounding_box()["height"] > 40
    shape_video(user, 16 / 9)  # it has no room beside it
    user.page.reload()
    user.shows(0)
    assert user.page.evaluate(MEASURE)["share"] > 1.5 * share
    assert apart(user, ".stage", ".filmstrip")
    assert (pictures.first.bounding_box()["height"] > 40) == (height > 800)  # else it is folded
    pictures.nth(8).focus()
    assert pictures.first.bounding_box()["height"] > 40


@pytest.mark.long
def test_an_open_strip_covers_nothing_of_a_wide_video(many) -> None:
    user = many(1920, 1080, shape=16 / 9)
    user.until("() => document.querySelectorAll('.pictures [role=option]').length === 12")
    assert apart(user, ".stage", ".marker")
    seen = user.page.evaluate(MEASURE)
    assert seen["share"] > 0.35
    assert seen["rows"] >= 5
    user.page.set_viewport_size({"width": 390, "height": 844})
    user.stands_still(".stage")
    assert apart(user, ".stage", ".marker")
    widths = "[...document.querySelectorAll('.pictures > div')].map((box) => box.clientWidth)"
    assert min(user.page.evaluate(widths)) > 44  # for a finger


def test_an_opened_row_leaves_the_others_in_sight(address, desk) -> None:
    user = desk(address)
    user.page.set_viewport_size({"width": 1280, "height": 720})
    user.open("#/finding/cup")
    user.shows(0)
    labels = user.page.locator(".tl-label:not(.tl-lane)")
    count = labels.count()
    user.until(f"() => ({MEASURE})().rows === {count}")
    labels.last.get_by_role("button").first.click()  # its window is selected
    user.until("() => document.querySelectorAll('.tl-open').length === 1")
    assert user.page.evaluate(MEASURE)["rows"] == count
    notes, answer = (user.page.locator(name).bounding_box() for name in (".notes", ".tl-plot"))
    assert notes["y"] + notes["height"] <= answer["y"]  # what is doubtful stands over the answer


@pytest.mark.long
def test_why_there_is_no_answer_stands_in_place_of_windows(
    address, desk, workspace, footage
) -> None:
    clip = shutil.copy(footage / "clips" / "sam2_coffee.mp4", workspace)
    words, made = {"empty": "cup", "full": "mug"}, workspace / "coffee"
    find(
        clip, words, whole=True, sampling=Sampling(stride=40), encoder="mini", folder=made
    )  # it knows no such picture
    user = desk(address)
    user.page.set_viewport_size({"width": 1280, "height": 720})
    user.open("#/finding/coffee")
    user.shows(0)
    reason = user.page.locator(".tl-reason", has_text="its answer means nothing")
    reason.wait_for()
    box, strip = reason.bounding_box(), user.page.locator(".strip").bounding_box()
    assert box["y"] + box["height"] <= strip["y"] + strip["height"]
    assert user.windows() == {"empty": [], "full": []}


@pytest.mark.long
def test_the_divider_gives_room_rows_open_and_the_pointer_shows_its_frame(many) -> None:
    user = many(1280, 720)
    page, height = user.page, "document.querySelector('.strip').clientHeight"
    divider = page.get_by_role("separator", name="height of the timeline")
    small = page.evaluate(height)
    divider.focus()
    page.keyboard.press("ArrowUp")
    assert page.evaluate(height) == small + 24
    box = divider.bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + 4)
    user.drag(middle, (middle[0], middle[1] - 100))
    page.mouse.move(middle[0], middle[1] - 97)  # it was dropped
    assert page.evaluate(height) == small + 124
    page.reload()  # it is remembered
    user.until(f"() => document.querySelectorAll('.tl-windows').length >= {MANY}")
    user.until(f"() => {height} === {small + 124}")
    user.shows(0)

    row = page.locator(".tl-label", has=page.get_by_role("button")).first
    thin = row.bounding_box()["height"]
    row.get_by_role("button").first.click()  # its window is selected
    user.until("() => document.querySelectorAll('.tl-open').length === 1")
    assert row.bounding_box()["height"] > 2 * thin
    start = int(user.windows()[row.locator("bdi").inner_text()][0].split(" – ")[0])
    user.shows(start)

    value = row.locator("output").inner_text()
    plot = page.locator(".tl-plot").bounding_box()
    page.mouse.move(plot["x"] + 0.9 * plot["width"], plot["y"] + 20)
    skim = "() => { const { hidden, dataset } = document.querySelector('.skim');"
    user.until(f"{skim} return !hidden && dataset.frame > 45; }}")  # large, where the video is
    assert row.locator("output").inner_text() == value  # of the frame of the player
    page.mouse.move(plot["x"] + 0.9 * plot["width"], 100)
    user.until(f"{skim} return hidden; }}")

    text = page.locator(".words textarea").first
    text.fill("cup filled zyzzyva")
    user.until("() => document.querySelector('.descriptions mark')?.textContent === 'zyzzyva'")
    page.get_by_text("mini does not know zyzzyva").wait_for()
    text.fill("cup filled")
    user.until("() => !document.querySelector('.descriptions').querySelector('mark')")

    names = page.evaluate("""() => [...document.querySelectorAll(".tl-label, .answers button")]
      .filter((box) => box.scrollWidth > box.clientWidth + 1).length""")
    assert names == 0  # none overflows
    pixels = "document.querySelector('.tl-plot canvas').toDataURL()"
    for kind in ("intervals", "none"):  # each draws something else
        before = page.evaluate(pixels)
        page.get_by_label("pictures").select_option(kind)
        user.until(f"(before) => {pixels} !== before", before)
    page.get_by_role("tab", name="Show it").click()
    panel = page.locator(".panel")
    assert panel.evaluate("(box) => box.scrollWidth <= box.clientWidth")


@pytest.mark.long
def test_on_a_phone_the_words_are_a_sheet_that_leaves_the_intervals_in_sight(many, axe) -> None:
    user = many(390, 844)
    folded = user.page.evaluate(MEASURE)
    assert folded["inside"]
    assert folded["rows"] >= 5
    user.page.get_by_role("tab", name="Words").click()
    user.page.locator(".words textarea").first.fill("drained cup")
    sheet = user.page.evaluate(MEASURE)
    assert sheet["inside"]
    assert sheet["rows"] >= 3
    assert not sheet["scrolls"]
    assert axe(user.page) == []
    user.page.get_by_role("button", name="Words, examples and doubts").click()
    user.until("() => document.querySelector('.panel').offsetHeight === 0")
