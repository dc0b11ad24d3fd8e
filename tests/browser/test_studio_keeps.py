"""Nothing is lost: two tabs save one finding, names are taken, the server is killed."""

from __future__ import annotations

import random
import stat
import threading

import pytest
from helpers.studio_process import StudioProcess

from dejacue import Finding

FINDING = "#/finding/cup"


def text_of(state: str) -> str:
    return f'textarea[aria-label="descriptions of {state}, one per line"]'


@pytest.fixture
def tabs(address, desk):
    """Open the finding in two tabs of one browser."""
    user = desk(address)
    user.open(FINDING)
    user.page.locator(text_of("full")).wait_for()
    other = user.page.context.new_page()
    other.goto(f"{address}{FINDING}")
    other.locator(text_of("full")).wait_for()
    user.expected = "status of 40"  # 404: a refused name
    return user.page, other


def save(page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()


def words_of(workspace) -> dict[str, list[str]]:
    states = Finding.read(workspace / "cup").vocabulary.states
    return {state: list(texts) for state, texts in states.items()}


@pytest.mark.long
def test_of_two_tabs_that_save_one_finding_either_version_can_be_kept(tabs, workspace) -> None:
    (mine, theirs), before = tabs, words_of(workspace)
    theirs.fill(text_of("empty"), "a cup without tea")
    save(theirs)
    theirs.get_by_text("saved in cup").wait_for()
    mine.fill(text_of("full"), "a cup with tea")
    save(mine)
    dialog = mine.get_by_role("dialog", name="A newer version")
    dialog.wait_for()
    assert words_of(workspace)["empty"] == ["a cup without tea"]  # nothing is written over
    mine.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert mine.input_value(text_of("full")) == "a cup with tea"
    save(mine)
    mine.get_by_role("button", name="Load theirs").click()
    assert mine.input_value(text_of("empty")) == "a cup without tea"
    mine.keyboard.press("Control+z")
    assert mine.input_value(text_of("full")) == "a cup with tea"
    save(mine)
    mine.get_by_text("saved in cup").wait_for()
    assert words_of(workspace) == {**before, "full": ["a cup with tea"]}
    theirs.fill(text_of("empty"), "drained")
    save(theirs)
    theirs.get_by_role("button", name="Keep mine").click()
    theirs.get_by_role("button", name="Save", exact=True, disabled=True).wait_for()
    assert words_of(workspace) == {**before, "empty": ["drained"]}


MERGED = """async () => {
  const { mergeExamples } = await import("/static/marks.js");
  const examples = (all) => all.map(([state, start, end]) => ({ state, start, end, source: null }));
  return mergeExamples(
    examples([["empty", 0, 4], ["full", 9, 9]]), examples([["full", 9, 9], ["full", 20, 22]]),
    examples([["empty", 0, 4], ["full", 9, 9], ["empty", 21, 21], ["empty", 30, 31]]));
}"""


def test_examples_that_a_person_has_changed_meanwhile_stay(address, desk) -> None:
    user = desk(address)
    user.open()
    marks = [(each["state"], each["start"], each["end"]) for each in user.page.evaluate(MERGED)]
    assert marks == [("full", 9, 9), ("empty", 30, 31), ("full", 20, 22)]


@pytest.mark.long
def test_a_word_list_that_is_there_is_replaced_only_if_the_person_says_so(tabs, workspace) -> None:
    page, path = tabs[0], workspace / "scene" / "vocabulary.yaml"
    before = path.read_bytes()
    page.fill(text_of("full"), "a cup with tea")
    page.get_by_role("button", name="Save these words …").click()
    page.get_by_label("File in the workspace (.yaml)").fill("scene/vocabulary.yaml")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    page.get_by_text("scene/vocabulary.yaml is there already. Replace it?").wait_for()
    assert path.read_bytes() == before
    page.get_by_role("button", name="Replace it").click()
    page.get_by_text("written: scene/vocabulary.yaml").wait_for()
    assert path.read_bytes() != before


@pytest.mark.long
def test_save_as_offers_free_names_and_asks_before_it_replaces(tabs, workspace) -> None:
    page = tabs[0]

    def save_as(name: str | None = None):
        page.get_by_role("button", name="Save as …").click()
        field = page.get_by_label("Folder in the workspace")
        if name is not None:
            field.fill(name)
        chosen = field.input_value()
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        return chosen

    for expected in ("cup-2", "cup-3"):
        assert save_as() == expected
        page.get_by_role("heading", name=expected).wait_for()
        page.locator(text_of("full")).wait_for()
    document = workspace / "cup-2" / "finding.json"
    before = document.read_bytes()
    page.fill(text_of("full"), "a cup with tea")
    save_as("../cup")
    page.get_by_text("is not a place in the workspace").wait_for()
    assert page.get_by_label("Folder in the workspace").input_value() == "../cup"
    page.get_by_label("Folder in the workspace").fill("cup-2")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    page.get_by_text("Replace it?").wait_for()
    assert document.read_bytes() == before
    page.get_by_role("button", name="Replace it").click()
    page.get_by_role("heading", name="cup-2").wait_for()
    assert document.read_bytes() != before


DRAFTS = "Object.keys(localStorage).filter((key) => key.startsWith('dejacue-draft')).length"


def test_what_was_begun_is_offered_after_a_reload_and_shown_on_its_card(address, desk) -> None:
    user = desk(address)
    user.open(FINDING)
    page = user.page
    page.fill(text_of("full"), "a cup with tea")
    user.open()
    page.locator(".card", has_text="cup").get_by_text("unsaved edits").wait_for()
    user.open(FINDING)
    page.get_by_role("button", name="Use them").click()
    assert page.input_value(text_of("full")) == "a cup with tea"
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("saved in cup").wait_for()
    user.until(f"() => !{DRAFTS}")
    user.open("#/track/scene%2Fscene.mp4")
    page.get_by_label("name of state 1").fill("warm")
    user.open("#/track/scene%2Fscene.mp4")
    names = "[...document.querySelectorAll('input.name')].map((field) => field.value)"
    page.get_by_label("name of state 2").fill("cold")
    for expected in (["warm", ""], ["", "cold"]):  # in the place of what is there, which is offered
        page.get_by_role("button", name="Use them").click()
        user.until(f"(expected) => String({names}) === String(expected)", expected)


# a person types, and all that the page does before it draws the next frame is done
TYPED = """async ([selector, text]) => {
  const field = document.querySelector(selector);
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  await Promise.resolve();
  return Object.values(localStorage).some((draft) => draft.includes(text));
}"""


@pytest.mark.parametrize(
    ("view", "selector"),
    [
        (FINDING, text_of("full")),
        ("#/track/scene%2Fscene.mp4", 'input[aria-label="name of state 1"]'),
    ],
)
def test_what_is_typed_is_kept_before_the_next_frame(address, desk, view, selector) -> None:
    user = desk(address)
    user.open(view)
    user.page.locator(selector).wait_for()
    assert user.page.evaluate(TYPED, [selector, "typed last"])


# the second batch of pictures is never encoded
HANG = """
import threading
from dejacue.models.encoders.mini import Mini
plain = Mini.encode_images
def encode(self, crops, calls=[]):
    calls.append(1)
    if len(calls) > 1:
        threading.Event().wait()
    return plain(self, crops)
Mini.encode_images = encode
"""


@pytest.mark.long
def test_a_studio_that_is_killed_and_started_again_goes_on(workspace, desk) -> None:
    studio, folder = StudioProcess(workspace), workspace / "made"
    try:
        studio.start(HANG)
        token = studio.token
        user = desk(studio.address)
        page, user.expected = user.page, "ERR_"  # the connection is refused, or reset
        page.goto(f"{studio.address}?token={token}")
        body = {"kind": "find", "video": "scene/scene.mp4", "masks": "scene/Annotations"}
        body |= {"objects": [1], "vocabulary": "scene/vocabulary.yaml", "folder": "made"}
        begin = "async (body) => (await import('/static/api.js')).fetchJson('jobs', { body })"
        page.evaluate(begin, body)
        page.reload()
        page.get_by_role("link", name="Jobs").click()
        user.until("() => document.querySelector('.job.running .state')?.innerText.includes('/')")
        while not list(folder.glob("*.partial")):
            page.wait_for_timeout(30)
        studio.kill()
        page.get_by_text("Connection lost, trying again").wait_for()
        studio.start()
        assert studio.token == token
        page.locator(".job.interrupted").wait_for()
        user.until("() => document.querySelector('.connection').innerText === ''")
        page.get_by_role("button", name="Continue").click()
        page.locator(".job.done").wait_for()
        assert page.locator(".job").count() == 1
        windows = [tuple(interval.window) for interval in Finding.read(folder)]
        assert windows == [tuple(interval.window) for interval in Finding.read(workspace / "cup")]
        kept = workspace / ".dejacue-studio" / "token"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    finally:
        studio.kill()


ROUNDS = 8
SAVED = (
    "() => [...document.querySelectorAll('button')].find((b) => b.innerText === 'Save')?.disabled"
)
LOST = "() => document.querySelector('.connection')?.innerText"


@pytest.mark.long
def test_nothing_that_was_saved_or_begun_is_lost_in_kills(workspace, desk) -> None:
    """Save words while the studio is killed at random moments; the words say which save it was."""
    studio, draw, confirmed = StudioProcess(workspace), random.Random(0), -1
    studio.start()
    user = desk(studio.address)
    page = user.page
    # no answer, or 409: what was written before the kill is sent again
    user.expected = "Failed to load resource"
    page.goto(f"{studio.address}?token={studio.token}")

    def write(number: int) -> None:
        page.fill(text_of("full"), f"a cup with tea {number}")

    def saved() -> int:
        (text,) = words_of(workspace)["full"]
        return int(text.rpartition(" ")[2])

    try:
        user.open(FINDING)
        write(0)
        page.keyboard.press("Control+s")
        user.until(SAVED)
        for number in range(1, ROUNDS + 1):
            kill = threading.Timer(draw.random(), studio.process.kill)
            write(number)
            kill.start()
            page.keyboard.press("Control+s")
            user.until(f"() => ({SAVED})() || ({LOST})()")
            confirmed = number if page.evaluate(SAVED) else number - 1
            kill.join()
            studio.kill()
            assert confirmed <= saved() <= number
            begun = number % 4 == 0
            if begun:  # and the page is closed, too
                user.until(LOST)
                write(1000 + number)
                page.goto("about:blank")
            studio.start()
            if begun:
                page.goto(f"{studio.address}{FINDING}")
                page.get_by_role("button", name="Use them").click()
                assert page.input_value(text_of("full")) == f"a cup with tea {1000 + number}"
                write(number)
                page.keyboard.press("Control+s")
            user.until(SAVED)
            assert saved() == number
    finally:
        studio.kill()
