"""What could not be saved is there when its view is back, and offered when its page is gone."""

from __future__ import annotations

import pytest

TRACK, FINDING = "#/track/scene%2Fscene.mp4", "#/finding/cup"
NAME, TEXT = "name of state 1", "descriptions of full, one per line"


def closed_and_opened(user, view: str) -> None:
    """Close the page as a crash does, and open the view in another one of the same browser."""
    page = user.page.context.new_page()
    user.page.close()
    user.page = page
    page.goto(f"{user.address}{view}")


def test_what_was_begun_in_a_page_that_is_gone_is_offered(address, desk) -> None:
    user = desk(address)
    user.open(TRACK)
    user.page.get_by_label(NAME).fill("first")
    user.page.get_by_label(NAME).fill("second")
    user.page.evaluate("localStorage.setItem('dejacue-draft x', 'y')")  # no draft: hides no other
    closed_and_opened(user, TRACK)
    user.page.get_by_role("button", name="Use them").click()
    assert user.page.get_by_label(NAME).input_value() == "second"


def test_what_another_tab_edits_is_not_offered(address, desk) -> None:
    user = desk(address)
    user.open(TRACK)
    user.page.get_by_label(NAME).fill("mine")
    other = user.page.context.new_page()
    other.goto(f"{address}{TRACK}")
    other.get_by_label(NAME).wait_for()
    assert other.evaluate("Object.keys(localStorage).length") > 0
    offers = other.evaluate("document.querySelectorAll('.offer').length")
    assert (offers, other.get_by_label(NAME).input_value()) == (0, "")


@pytest.mark.long
def test_words_that_a_full_disk_refuses_stay_and_are_saved_later(address, desk) -> None:
    user = desk(address)
    page, user.expected = user.page, "Failed to load resource"
    full = {"status": 503, "json": {"detail": "cup: No space left on device"}}
    page.context.route(
        "**/api/findings/cup",
        lambda route: (
            route.fulfill(**full) if full and route.request.method == "PUT" else route.continue_()
        ),
    )
    user.open(FINDING)
    page.get_by_label(TEXT).fill("a cup with tea")
    page.keyboard.press("Control+s")
    page.get_by_text("No space left on device").wait_for()
    page.get_by_role("link", name="Workspace").click()
    page.locator(".card").first.wait_for()
    page.go_back()
    assert page.get_by_label(TEXT).input_value() == "a cup with tea"
    closed_and_opened(user, FINDING)
    full.clear()
    user.page.get_by_role("button", name="Use them").click()
    user.page.keyboard.press("Control+s")
    user.page.get_by_text("saved in cup").wait_for()
    user.page.reload()
    user.page.get_by_label(TEXT).wait_for()
    assert user.page.get_by_label(TEXT).input_value() == "a cup with tea"
    assert user.page.locator(".offer").count() == 0


FORBIDDEN = """for (const name of ["localStorage", "sessionStorage"])
  Object.defineProperty(window, name, { get() { throw new DOMException("", "SecurityError"); } });
if (navigator.locks) navigator.locks.request = navigator.locks.query =
  () => Promise.reject(new DOMException("", "SecurityError"));"""
FULL = "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError'); };"
WARNS = "() => !dispatchEvent(new Event('beforeunload', { cancelable: true }))"


@pytest.mark.parametrize("script", [FULL, FORBIDDEN])
def test_where_the_browser_keeps_nothing_it_is_said_and_closing_asks(address, desk, script) -> None:
    user = desk(address)
    page = user.page
    page.add_init_script(script)
    user.open(TRACK)
    field = page.get_by_label(NAME)
    field.wait_for()
    assert not page.evaluate(WARNS)
    field.fill("warm")
    page.get_by_text("this browser cannot keep what is not saved").wait_for()
    assert page.evaluate(WARNS)
    field.fill("")
    user.until(f"() => !({WARNS})()")
