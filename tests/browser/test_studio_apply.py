"""Apply to other videos: from a confirmed finding to answers, and to the next teacher."""

from __future__ import annotations

import shutil

import pytest

from dejacue import Finding

# On how many lines each part of a name stands, between its slashes
LINES_OF_PARTS = """() => [...document.querySelectorAll("tbody th a")].flatMap((link) =>
  [...link.childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE).map((part) => {
    const range = document.createRange();
    range.selectNodeContents(part);
    return new Set([...range.getClientRects()].map(({ top }) => top)).size;
  }))"""


@pytest.mark.long
def test_a_confirmed_finding_answers_other_videos_and_these_teach(
    address, desk, workspace, axe
) -> None:
    shutil.copytree(workspace / "scene", workspace / "second")
    masks = shutil.ignore_patterns("Annotations")
    shutil.copytree(workspace / "scene", workspace / "third", ignore=masks)
    user = desk(address)
    page = user.page
    user.open("#/apply/cup")
    page.get_by_text("Nothing is confirmed here yet.").wait_for()
    Finding.read(workspace / "cup").correct({"empty": 2, "full": 57}).save(workspace / "cup")
    user.open("#/finding/cup")
    page.get_by_role("tab", name="Show it").click()
    page.get_by_role("link", name="Apply to other videos").click()
    page.get_by_text("Confirmed in cup: empty, full.").wait_for()
    page.get_by_label("Folder for the findings").fill("like-cup ")
    user.open("#/apply/cup")
    page.get_by_role("button", name="Use them").click()
    assert page.get_by_label("Folder for the findings").input_value() == "like-cup "
    page.get_by_role("button", name="Apply").click()
    answer = page.get_by_role("link", name="second/scene", exact=True)
    answer.wait_for()
    page.get_by_text("nobody has said where the object is in it").wait_for()
    page.get_by_role("link", name="third/scene.mp4").wait_for()
    assert axe(page) == []
    assert page.get_by_role("checkbox").count() == 0
    page.get_by_role("link", name="Look at the next one").click()
    user.shows(0)
    page.keyboard.press("1")
    page.keyboard.press("End")
    user.shows(59)
    page.keyboard.press("3")
    page.keyboard.press("Control+s")
    page.get_by_text("saved in like-cup/second/scene").wait_for()
    assert len(Finding.read(workspace / "like-cup/second/scene").confirmed) == 2
    page.go_back()
    page.get_by_role("cell", name="confirmed", exact=True).wait_for()
    assert page.get_by_label("Folder for the findings").input_value() == "like-cup "
    user.until("() => !Object.keys(localStorage).some((key) => key.includes('apply cup'))")
    assert page.get_by_role("checkbox", checked=True).count() == 1
    page.get_by_role("checkbox").uncheck()
    page.get_by_role("button", name="Apply").click()
    page.get_by_text("A person has saved it, so it stays as it is.").wait_for()
    page.get_by_role("button", name="Apply", disabled=False).wait_for()  # all is done
    for width in (390, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert set(page.evaluate(LINES_OF_PARTS)) == {1}
        assert axe(page) == []
