"""What could not be saved is there when its view is back, and offered when its page is gone."""

from __future__ import annotations

import urllib.request

import pytest
from helpers.studio_client import TOKEN

from dejacue.studio.annotations import PASS

ANNOTATE = "#/annotate/cup"
SAVED = "() => document.querySelector('.saving')?.textContent === 'saved'"
# each annotator with the runs of a pass; the last one labels then
PASSES = """async (passes) => {
  const { fetchJson } = await import("/static/api.js");
  for (const [annotator, runs] of passes) {
    const path = `annotations/cup/passes/${annotator}`;
    await fetchJson("session", { body: { annotator } });
    const first = annotator === passes[0][0];
    await fetchJson(path, { body: first ? { states: ["full", "empty"] } : {} });
    const { revision } = await fetchJson(path);
    if (runs.length) await fetchJson(path, { method: "PUT", body: { runs, revision } });
  }
}"""
LABEL_AS = """async (annotator) =>
  (await import("/static/api.js")).fetchJson("session", { body: { annotator } })"""
DRAFTS = "Object.keys(localStorage).filter((key) => key.includes('save annotations')).length"


def runs(*spans: tuple[int, int, str | None]) -> list[dict[str, object]]:
    return [{"start": start, "end": end, "label": label} for start, end, label in spans]


class Disk:
    """Answers to what a page saves: a full one refuses, others lose the answer or hold it."""

    def __init__(self, page, address: str) -> None:
        self.full, self.loses, self.holds, self.held = False, False, False, []
        page.context.route(address, self.answer)

    def answer(self, route) -> None:
        if route.request.method != "PUT":
            route.continue_()
        elif self.full:
            route.fulfill(status=507, json={"detail": "no space left on the disk"})
        elif self.loses:
            self.loses = False
            route.fetch()
            route.abort()
        elif self.holds:
            self.held.append(route)
        else:
            route.continue_()


def closed_and_opened(user, view: str) -> None:
    """Close the page as a crash does, and open the view in another one of the same browser."""
    page = user.page.context.new_page()
    user.page.close()
    user.page = page
    page.goto(f"{user.address}{view}")


def labelled(user, count: int) -> None:
    user.page.get_by_text(f"{count} of 60 frames labelled").wait_for()
    user.shows(0)
    user.page.locator("h1").click()


@pytest.mark.long
def test_labels_that_were_not_saved_are_there_again_or_offered(address, desk, workspace) -> None:
    user = desk(address)
    page, user.expected = user.page, "Failed to load resource"
    user.open()
    page.evaluate(LABEL_AS, "Anna")
    user.open(ANNOTATE)
    begin = page.get_by_role("button", name="Start my pass")
    begin.click()
    page.get_by_label("States, one per line").fill("full\nempty")
    user.open(ANNOTATE)
    begin.click()
    page.get_by_role("button", name="Use them").click()
    begin.click()
    labelled(user, 0)
    disk = Disk(page, "**/passes/Anna")
    disk.holds = True
    page.keyboard.press("1")
    while not disk.held:
        page.wait_for_timeout(30)
    page.keyboard.press("2")
    page.keyboard.press("2")
    page.get_by_text("3 of 60 frames labelled").wait_for()
    disk.full = True
    disk.held.pop().continue_()
    page.get_by_text("no space left on the disk").wait_for()  # for the two that came later

    page.get_by_role("link", name="Workspace").click()
    page.locator(".card").first.wait_for()
    page.go_back()
    labelled(user, 3)
    page.get_by_text("no space left on the disk").wait_for()

    closed_and_opened(user, ANNOTATE)
    page = user.page
    labelled(user, 1)
    page.get_by_role("button", name="Use them").wait_for()
    disk.full = disk.holds = False
    user.drag(user.at("full", 10, 0, 59), user.at("full", 19, 0, 59))
    page.get_by_text("11 of 60 frames labelled").wait_for()
    user.until(SAVED)
    page.reload()
    labelled(user, 11)
    page.get_by_role("button", name="Use them").click()  # beside what was saved since
    page.get_by_text("13 of 60 frames labelled").wait_for()
    user.until(SAVED)
    user.has("full", "0 – 0", "10 – 19")
    user.has("empty", "1 – 2")
    user.until(f"() => !{DRAFTS}")

    page.locator("h1").click()
    page.keyboard.press("1")
    page.keyboard.press("Control+z")
    user.until(f"() => !{DRAFTS}")  # after an undo, there is nothing to keep

    disk.loses = True
    user.drag(user.at("full", 30, 0, 59), user.at("full", 39, 0, 59))
    page.get_by_text("23 of 60 frames labelled").wait_for()
    user.until(SAVED)
    user.until(f"() => !{DRAFTS}")

    path = workspace / "cup" / "annotations" / f"anna{PASS}"
    path.write_text(f"{path.read_text()}\n")  # as somebody else would
    page.keyboard.press("3")
    page.get_by_role("dialog", name="Two versions").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("button", name="Merge").click()
    user.until(SAVED)


@pytest.mark.long
def test_decisions_that_were_not_saved_are_there_again_or_offered(address, desk) -> None:
    user = desk(address)
    page, user.expected = user.page, "Failed to load resource"
    user.open()
    page.evaluate(
        PASSES,
        [
            ("Anna", runs((0, 59, "full"))),
            ("Ben", runs((0, 19, "full"), (20, 29, "empty"), (30, 39, "full"), (40, 59, "empty"))),
        ],
    )
    user.open(ANNOTATE)
    page.get_by_role("button", name="Start the consensus").click()
    page.get_by_text("Difference 1 of 2").wait_for()
    disk = Disk(page, "**/decisions")
    disk.full = True
    user.shows(20)
    page.locator("h1").click()
    page.keyboard.press("1")
    page.get_by_text("1 difference is open").wait_for()
    page.get_by_text("no space left on the disk").wait_for()
    page.get_by_role("link", name="Workspace").click()
    page.locator(".card").first.wait_for()
    page.go_back()
    page.get_by_text("full / empty → full").wait_for()

    closed_and_opened(user, ANNOTATE)
    page = user.page
    page.get_by_text("2 differences are open").wait_for()
    disk.full = False
    page.locator("li", has_text="40 – 59").get_by_role("button").click()
    with page.expect_response(lambda answer: answer.request.method == "PUT"):
        page.locator(".answers").get_by_role("button", name="empty").click()
    page.get_by_role("button", name="Use them").click()  # beside what was decided since
    page.get_by_text("all differences are decided").wait_for()
    page.locator(".events").wait_for()
    page.reload()
    page.get_by_text("20 – 29: full / empty → full").wait_for()
    page.get_by_text("40 – 59: full / empty → empty").wait_for()


STORED = """(runs) => localStorage.setItem(
  `dejacue-draft ${JSON.stringify([location.host, "gone", "save annotations/cup/passes/Anna"])}`,
  JSON.stringify({ text: JSON.stringify({ runs }), saved_s: 1 }))"""


@pytest.mark.long
def test_labels_that_an_earlier_version_kept_can_be_used(address, desk) -> None:
    user = desk(address)
    page, user.expected = user.page, "Failed to load resource"
    user.open()
    page.evaluate(PASSES, [("Anna", runs((0, 4, None), (5, 9, "full"), (10, 59, None)))])
    page.evaluate("localStorage.setItem('dejacue-draft x', 'y')")  # no draft: hides no other
    page.evaluate(STORED, runs((0, 0, "empty"), (1, 59, None)))  # without a base
    user.open(ANNOTATE)
    labelled(user, 5)
    page.get_by_role("button", name="Use them").click()
    page.get_by_text("6 of 60 frames labelled").wait_for()
    user.until(SAVED)


@pytest.mark.long
def test_a_draft_that_arrives_late_does_not_win(address, desk) -> None:
    """Close a page whose first draft is still on its way, and let it arrive then."""
    user = desk(address)
    page, late = user.page, []
    field = 'input[aria-label="name of state 1"]'
    page.route(
        "**/api/drafts",
        lambda route: route.continue_() if route.request.method == "GET" else late.append(route),
    )
    user.open("#/track/scene%2Fscene.mp4")
    page.fill(field, "first")
    while not late:
        page.wait_for_timeout(30)
    body = late[0].request.post_data
    page.fill(field, "second")
    closed_and_opened(user, "#/track/scene%2Fscene.mp4")
    request = urllib.request.Request(f"{address}api/drafts", body.encode(), method="PUT")
    request.add_header("content-type", "application/json")
    request.add_header("authorization", f"Bearer {TOKEN}")
    urllib.request.urlopen(request).close()
    user.page.reload()
    user.page.get_by_role("button", name="Use them").click()
    assert user.page.input_value(field) == "second"


FORBIDDEN = """for (const name of ["localStorage", "sessionStorage"])
  Object.defineProperty(window, name, { get() { throw new DOMException("", "SecurityError"); } });
if (navigator.locks) navigator.locks.request = navigator.locks.query =
  () => Promise.reject(new DOMException("", "SecurityError"));"""
FULL = "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError'); };"


@pytest.mark.long
def test_where_the_browser_keeps_nothing_the_server_does(address, desk, workspace) -> None:
    for script, text in ((FULL, "there is no room"), (FORBIDDEN, "forbidden")):
        user = desk(address)
        page, field = user.page, 'input[aria-label="name of state 1"]'
        page.add_init_script(script)
        user.open("#/track/scene%2Fscene.mp4")
        page.fill(field, text)
        folder = workspace / ".dejacue-studio"
        while not any(text in path.read_text() for path in folder.glob("drafts/*/*.json")):
            page.wait_for_timeout(30)
        user.open("#/track/scene%2Fscene.mp4")
        page.get_by_role("button", name="Use them").click()
        assert page.input_value(field) == text
