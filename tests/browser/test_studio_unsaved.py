"""What could not be saved is there when its view is back, and offered when its page is gone."""

from __future__ import annotations

import urllib.request

import pytest
from helpers.studio_client import TOKEN


def closed_and_opened(user, view: str) -> None:
    """Close the page as a crash does, and open the view in another one of the same browser."""
    page = user.page.context.new_page()
    user.page.close()
    user.page = page
    page.goto(f"{user.address}{view}")


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
