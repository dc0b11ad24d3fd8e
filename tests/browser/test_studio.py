"""The studio as a person uses it: look, edit a word, show a frame, drag an edge, save, reload."""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from helpers.studio_page import WAIT_S

from dejacue import Finding
from dejacue.method import Window

FINDING = "#/finding/cup"
LAST = 59  # frame of the scene
WORSE = "cup with nothing"  # for "full": it is found elsewhere then


@pytest.fixture
def finding(address, desk):
    """Open the page of the finding and wait for its first frame."""
    user = desk(address)
    user.open(FINDING)
    user.shows(0)
    user.until("() => document.querySelectorAll('.tl-windows button').length >= 3")
    return user


def text_of(state: str) -> str:
    return f'textarea[aria-label="descriptions of {state}, one per line"]'


def changed(user, before) -> dict[str, list[str]]:
    """Return the windows, once they are others than before."""
    end = time.monotonic() + WAIT_S
    while (now := user.windows()) == before:
        assert time.monotonic() < end, f"still {before}"
        user.page.wait_for_timeout(30)
    return now


def test_without_the_token_a_sentence_says_what_to_do(address, desk) -> None:
    user = desk(address)
    user.page.goto(address)
    problem = user.page.locator(".problem").inner_text()
    assert "open the address that the studio printed" in problem
    assert user.errors
    assert all("401" in error for error in user.errors)
    user.errors.clear()


def test_an_edited_word_moves_the_interval_and_undo_moves_it_back(finding) -> None:
    before = finding.windows()
    finding.page.fill(text_of("full"), WORSE)
    now = changed(finding, before)
    finding.page.keyboard.press("Control+z")
    assert changed(finding, now) == before
    assert finding.page.input_value(text_of("full")).startswith("cup filled")
    finding.page.keyboard.press("Control+Shift+z")
    assert changed(finding, before) != before


@pytest.mark.long
def test_each_edit_that_moved_an_interval_is_one_step_of_undo(finding) -> None:
    first = finding.windows()
    finding.page.fill(text_of("full"), WORSE)
    second = changed(finding, first)
    finding.page.fill(text_of("full"), "cup filled")
    third = changed(finding, second)
    finding.page.keyboard.press("Control+z")
    assert changed(finding, third) == second
    assert finding.page.input_value(text_of("full")) == WORSE
    finding.page.keyboard.press("Control+z")
    assert changed(finding, second) == first


def exported(user, act) -> dict:
    with user.page.expect_download() as down:
        act()
    assert down.value.suggested_filename == "scene.json"
    return json.loads(Path(down.value.path()).read_text())


def test_an_export_holds_the_edits_or_says_that_it_does_not(finding, workspace) -> None:
    page, before = finding.page, finding.windows()
    kinds = page.get_by_label("export", exact=True)
    old = exported(finding, lambda: kinds.select_option("json"))
    page.fill(text_of("full"), WORSE)
    changed(finding, before)
    kinds.select_option("json")
    page.get_by_text("There are edits that are not saved").wait_for()
    without = page.get_by_role("button", name="Export without the edits")
    assert exported(finding, without.click) == old
    kinds.select_option("json")
    new = exported(finding, page.get_by_role("button", name="Save and export").click)
    assert json.dumps(WORSE) in json.dumps(new)
    assert json.dumps(WORSE) not in json.dumps(old)
    assert list(Finding.read(workspace / "cup").vocabulary.states["full"]) == [WORSE]


@pytest.mark.long
def test_an_export_that_fails_says_why_until_another_view_is_opened(finding, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    finding.page.get_by_label("export", exact=True).select_option("parquet")
    problem = finding.page.locator(".sentence.problem")
    problem.wait_for()
    assert "pip install" in problem.inner_text()
    finding.page.get_by_role("link", name="Jobs").click()
    finding.page.get_by_role("heading", name="Jobs").wait_for()
    assert problem.count() == 0
    assert all("503" in error for error in finding.errors)
    finding.errors.clear()


@pytest.mark.long
def test_what_is_said_of_a_tracker_without_doubts_is_true(address, desk, workspace) -> None:
    document = workspace / "cup" / "finding.json"
    user = desk(address)
    for tracker, sentence in (
        ("fixed region", "No tracker followed the object (fixed region)"),
        ("sam2", "The tracker sam2 was confident in every frame in which it saw the object"),
    ):
        written = json.loads(document.read_text())
        written["provenance"]["tracker"] = tracker
        document.write_text(json.dumps(written))
        user.open(FINDING)
        user.page.get_by_role("tab", name="Doubts").click()
        user.page.get_by_text(sentence).wait_for()


def test_what_is_saved_is_there_after_a_reload_and_for_the_command_line(finding, workspace) -> None:
    before = finding.windows()
    finding.page.fill(text_of("full"), WORSE)
    now = changed(finding, before)
    finding.page.keyboard.press("Control+s")
    finding.page.get_by_text("saved in cup").wait_for()
    saved = Finding.read(workspace / "cup")
    assert list(saved.vocabulary.states["full"]) == [WORSE]
    full = saved["full"][0].window
    assert now["full"] == [f"{full.start} – {full.end}"]
    finding.page.reload()
    finding.until("() => document.querySelectorAll('.tl-windows button').length >= 3")
    assert finding.windows() == now
    assert finding.page.input_value(text_of("full")) == WORSE


def test_what_is_not_saved_is_there_again_after_a_look_at_another_view(finding) -> None:
    before = finding.windows()
    finding.page.fill(text_of("full"), WORSE)
    now = changed(finding, before)
    finding.page.get_by_role("link", name="Workspace").click()
    finding.page.locator(".card", has=finding.page.get_by_text("cup", exact=True)).click()
    finding.has("full", *now["full"])
    assert finding.page.input_value(text_of("full")) == WORSE
    finding.page.keyboard.press("Control+z")
    finding.has("full", *before["full"])


def test_words_that_cannot_be_read_are_a_sentence_and_the_last_reading_stays(finding) -> None:
    before = finding.windows()
    finding.page.fill('input[aria-label="name of state 1"]', "full")
    problem = finding.page.locator(".words .problem")
    problem.wait_for()
    assert problem.inner_text() == 'two states are called "full"; rename one'
    finding.page.fill('input[aria-label="name of state 1"]', "empty")
    problem.wait_for(state="detached")
    finding.page.fill(text_of("full"), "")
    problem.wait_for()
    assert "full" in problem.inner_text()
    assert finding.windows() == before
    assert all("400" in error or "422" in error for error in finding.errors)
    finding.errors.clear()


def test_a_dragged_edge_is_where_it_was_dropped_and_is_kept(finding, workspace) -> None:
    before = finding.windows()
    start, end = map(int, before["half full"][0].split(" – "))
    edge = finding.at("half full", end + 0.5, 0, LAST)
    finding.page.keyboard.down("Alt")  # does not snap
    finding.drag(edge, finding.at("half full", end - 5 + 0.5, 0, LAST))
    finding.page.keyboard.up("Alt")
    finding.until("() => document.querySelector('.title .main:not(:disabled)')")
    finding.has("half full", f"{start} – {end - 5}")
    finding.page.get_by_role("tab", name="Show it").click()
    assert f"half full: frames {start} – {end - 5}" in finding.page.locator(".marks").inner_text()
    finding.page.keyboard.press("Control+s")
    finding.page.get_by_text("saved in cup").wait_for()
    saved = Finding.read(workspace / "cup")
    assert saved["half full"][0].window == Window(start, end - 5)


def test_a_deleted_window_is_gone(finding) -> None:
    start, end = map(int, finding.windows()["half full"][0].split(" – "))
    finding.page.locator(".tl-label", has_text="half full").locator("button").first.click()
    finding.shows(start)
    finding.page.keyboard.press("Delete")
    finding.until("() => document.querySelector('.title .main:not(:disabled)')")
    now = changed(finding, {**finding.windows(), "half full": [f"{start} – {end}"]})["half full"]
    for first, last in (map(int, interval.split(" – ")) for interval in now):
        assert last < start or first > end


def test_frames_are_named_by_key_and_the_page_proposes_the_next(finding) -> None:
    before = finding.windows()
    finding.page.locator("h1").click()
    finding.page.keyboard.press("q")
    finding.page.get_by_text("A frame worth an answer").wait_for()
    frame = int(
        finding.page.locator(".shown").get_attribute("data-frame")
        or finding.until("() => document.querySelector('.shown').dataset.frame")
    )
    finding.page.keyboard.press("3")
    finding.page.get_by_text("is worth an answer").wait_for()  # the next one is proposed
    marks = finding.page.locator(".marks")
    finding.until("() => document.querySelectorAll('.marks li').length === 1")
    assert marks.inner_text().startswith(f"full: frame {frame}")
    changed(finding, before)
    finding.page.keyboard.press("ArrowRight")
    assert finding.shows(frame + 1 if frame < LAST else LAST)
    finding.page.keyboard.press("x")
    finding.until("() => document.querySelectorAll('.marks li').length === 2")
    assert "none of them" in marks.inner_text()
    finding.page.keyboard.press("c")
    finding.until("() => document.querySelectorAll('.marks li').length === 3")
    assert "change: frame" in marks.inner_text()
    finding.expected = "status of 400"  # a state without words that was not read yet
    finding.page.get_by_role("tab", name="Words").click()
    finding.page.get_by_role("button", name="Add a state").click()
    finding.page.locator("h1").click()
    finding.page.keyboard.press("4")
    finding.page.get_by_role("tab", name="Show it").click()
    finding.until("() => /state 4: frame/.test(document.querySelector('.marks').innerText)")


@pytest.mark.long
def test_readings_are_compared_side_by_side_and_one_is_taken(finding) -> None:
    finding.page.get_by_role("tab", name="Compare").click()
    finding.until("() => document.querySelectorAll('.reading').length === 3")
    finding.page.get_by_label("readout").select_option("scan")
    finding.page.locator(".compare").get_by_role("button", name="Compare").click()
    finding.until("() => document.querySelectorAll('.reading').length === 4")
    before = finding.windows()
    finding.page.locator(".reading").nth(3).get_by_role("button", name="Use").click()
    assert changed(finding, before) != before


@pytest.mark.long
def test_the_same_words_are_read_with_another_encoder_beside(finding, workspace) -> None:
    page = finding.page
    page.fill(text_of("full"), WORSE)
    page.get_by_role("tab", name="Compare").click()
    page.get_by_label("With another encoder").fill("mini")
    page.get_by_role("button", name="Encode").click()
    finding.until("() => document.querySelectorAll('.reading').length === 4")
    beside = page.locator(".reading").nth(3)
    beside.locator("p").wait_for()
    assert beside.locator("b").inner_text() == "cup-mini"
    finding.until("() => document.querySelectorAll('.reading .bars').length === 4")
    now = page.locator(".reading").first.locator("p").inner_text()
    assert beside.locator("p").inner_text() == now
    # other words than those that it was made with
    page.keyboard.press("Control+z")
    finding.until("(now) => document.querySelector('.reading p').innerText !== now", now)
    finding.until("""() => { const all = [...document.querySelectorAll(".reading p")];
      return all[0].innerText === all[3].innerText; }""")
    assert list(Finding.read(workspace / "cup-mini").vocabulary.states["full"]) == [WORSE]


def test_the_keyboard_does_it_all_and_a_sheet_says_how(finding) -> None:
    page = finding.page
    page.locator("h1").click()
    page.keyboard.press("?")
    sheet = page.locator("dialog")
    for text in ("play, pause", "next question", "undo", "one frame back or", "zoom in or out"):
        assert text in sheet.inner_text()
    page.keyboard.press("Escape")
    sheet.wait_for(state="detached")
    page.keyboard.press("ArrowRight")
    finding.shows(1)
    page.keyboard.press("Shift+ArrowRight")
    finding.shows(11)
    page.keyboard.press("]")  # to the next edge of a window
    edge = int(finding.until("() => document.querySelector('.shown').dataset.frame"))
    edges = {int(n) for windows in finding.windows().values() for n in windows[0].split(" – ")}
    assert edge in edges
    page.keyboard.press("Home")
    assert finding.shows(0)
    page.keyboard.press("w")
    finding.until("() => document.activeElement.matches('.words textarea')")


@pytest.mark.long
def test_j_k_l_play_back_pause_and_play_up_to_eight_times_as_fast(finding) -> None:
    page = finding.page
    speed = page.get_by_label("speed")
    page.fill(".goto", "40")
    page.keyboard.press("Enter")
    finding.shows(40)
    page.locator("h1").click()
    page.keyboard.press("j")
    finding.until("() => Number(document.querySelector('.shown').dataset.frame || 99) < 40")
    page.keyboard.press("k")
    finding.pause()
    page.keyboard.press("Home")
    finding.shows(0)
    page.evaluate("""async () => { for (let times = 0; times < 4; times += 1) {
      const press = new KeyboardEvent("keydown", { key: "l", bubbles: true });
      document.activeElement.dispatchEvent(press);
      await new Promise(requestAnimationFrame);
    } }""")
    assert speed.input_value() == "8"
    assert speed.locator("option").last.inner_text() == "8×"
    finding.pause()


@pytest.mark.long
def test_a_window_is_played_in_a_loop_and_never_left(finding) -> None:
    page = finding.page
    start, end = map(int, finding.windows()["half full"][0].split(" – "))
    page.locator(".tl-label", has_text="half full").locator("button").first.click()
    finding.shows(start)
    page.keyboard.press("r")
    page.keyboard.press("v")
    page.keyboard.press("Space")  # plays: what was clicked does not keep the key
    page.get_by_role("button", name="pause (Space)").wait_for()
    script = """async () => {
      const seen = [], end = performance.now() + 300_000;
      for (let rounds = 0; rounds < 2 && performance.now() < end;) {
        await new Promise(requestAnimationFrame);
        const frame = Number(document.querySelector(".shown").dataset.frame || NaN);
        if (frame < seen.at(-1)) rounds += 1;
        if (!Number.isNaN(frame)) seen.push(frame);
      }
      return seen;
    }"""
    seen = page.evaluate(script)
    assert any(later < earlier for earlier, later in pairwise(seen))  # it began again
    assert min(seen) >= start
    assert max(seen) <= end
    finding.pause()


def test_the_object_is_outlined_and_its_crop_is_shown(finding) -> None:
    finding.until("() => document.querySelectorAll('.stage polygon').length > 0")
    finding.until("() => document.querySelector('.crop img').naturalWidth > 0")
    finding.page.get_by_role("button", name="outline of the object").click()
    assert finding.page.locator(".stage polygon").count() == 0


# What is drawn over each frame that is shown while the video plays, until there are enough of them
FOLLOW = """async (enough) => {
  const seen = new Map(), end = performance.now() + 300_000;
  while (seen.size < enough && performance.now() < end) {
    await new Promise(requestAnimationFrame);
    const { frame } = document.querySelector(".shown").dataset;
    const drawn = [...document.querySelectorAll(".stage polygon")];
    if (frame && drawn.length) {
      seen.set(Number(frame), drawn.map((line) => line.getAttribute("points")).join(" | "));
    }
  }
  return [...seen];
}"""


def test_outline_and_crop_follow_the_video_while_it_plays(finding) -> None:
    page = finding.page
    finding.until("() => document.querySelectorAll('.stage polygon').length > 0")
    page.keyboard.press("r")  # over and over, until enough was seen
    page.get_by_role("button", name="play (Space)").click()
    seen = page.evaluate(FOLLOW, 12)
    assert len(seen) == 12
    cut = """() => {
      const canvas = document.querySelector(".crop canvas");
      if (canvas.hidden) return 0;
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return new Set(new Uint32Array(data.buffer)).size;
    }"""
    assert finding.until(cut) > 50  # colours: a picture
    finding.pause()
    script = """async (frame) => (await (await fetch(`/api/findings/cup/outline/${frame}`)).json())
      .outline.map((points) => points.map((point) => point.join(",")).join(" ")).join(" | ")"""
    for frame, points in seen:  # of that frame, not of one before
        assert points == page.evaluate(script, frame)
