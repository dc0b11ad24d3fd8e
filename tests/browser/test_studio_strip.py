"""The strip: states marked on pictures side by side, then their borders."""

from __future__ import annotations

import pytest

from dejacue import Finding

PICTURES = "() => document.querySelectorAll('.pictures [role=option]').length"
CAPTION = "() => document.querySelector('.marker .caption')?.innerText"


def marked(user) -> list[str]:
    """Return what stands under each picture."""
    script = "[...document.querySelectorAll('.pictures span')].map((text) => text.innerText)"
    return user.page.evaluate(script)


def frames(user) -> list[int]:
    script = """[...document.querySelectorAll('.pictures [role=option]')]
      .map((picture) => Number(/frame (\\d+)/.exec(picture.ariaLabel)[1]))"""
    return user.page.evaluate(script)


def middle(user, picture: int) -> tuple[float, float]:
    box = user.page.locator(".pictures [role=option]").nth(picture).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.long
@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1920, 1080)])
def test_a_new_finding_has_a_strip_that_is_marked_by_key_and_by_hand(
    address, desk, workspace, axe, width, height
) -> None:
    user = desk(address, width)
    page = user.page
    page.set_viewport_size({"width": width, "height": height})
    user.open("#/finding/cup")
    user.shows(0)
    if height < 800:  # folded, so that the picture is large
        before = page.locator(".stage").bounding_box()
        assert page.locator(".marker").count() == 0
        page.get_by_role("button", name="mark states on a strip (t)").click()
        user.until(f"() => ({PICTURES})() === 12")
        box, strip = (page.locator(name).bounding_box() for name in (".stage", ".marker"))
        assert before | {"x": box["x"]} == box  # a narrow video stays as large as it is
        assert box["x"] + box["width"] <= strip["x"]
    user.until(f"() => ({PICTURES})() === 12")  # open: nothing was shown yet
    proposed = marked(user)
    assert set(proposed) <= {"empty", "half full", "full", *map(str, range(1, 13))}
    assert axe(page) == []
    page.locator("h1").click()
    page.keyboard.press("t")
    user.until("() => document.activeElement.matches('.pictures')")
    at = frames(user)
    page.keyboard.press("ArrowRight")
    user.shows(at[1])  # the player goes along
    page.keyboard.press("ArrowDown")
    user.shows(at[4])  # three stand side by side
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("1")  # empty, and the cursor is on the third picture
    for _ in range(10):
        page.keyboard.press("x")
    user.drag(middle(user, 4), middle(user, 7))
    page.locator(".marker").get_by_role("button", name="full", exact=False).last.click()
    user.drag(middle(user, 10), middle(user, 11))
    page.keyboard.press("1")  # empty again: a second stretch
    expected = ["empty"] * 2 + ["none"] * 2 + ["full"] * 4 + ["none"] * 2 + ["empty"] * 2
    assert marked(user) == expected
    page.keyboard.press("Enter")
    user.until(f"() => /^The (start|end) of/.test(({CAPTION})())")
    border = frames(user)
    assert border[0] in at or border[-1] in at  # between two pictures
    page.get_by_role("button", name="close the strip").click()
    page.keyboard.press("Control+s")
    page.get_by_text("saved in cup").wait_for()
    named = Finding.read(workspace / "cup").named
    assert [tuple(window) for window in named["empty"]] == [(at[0], at[1]), (at[10], at[11])]
    assert [tuple(window) for window in named["full"]] == [(at[4], at[7])]
    user.open("#/finding/cup")
    user.shows(0)
    assert page.locator(".marker").count() == 0  # something was shown: it stays closed


def test_enter_confirms_what_is_proposed_and_borders_become_known_to_a_frame(address, desk) -> None:
    user = desk(address)
    page = user.page
    user.open("#/finding/cup")
    user.shows(0)
    user.until(f"() => ({PICTURES})() === 12")
    before = user.windows()
    page.locator("h1").click()
    page.keyboard.press("t")
    user.until("() => document.activeElement.matches('.pictures')")
    rounds = 0
    while page.locator(".marker").count():
        shown = frames(user)
        page.keyboard.press("Enter")
        user.until(
            """(shown) => { const now = [...document.querySelectorAll('.pictures [role=option]')]
              .map((picture) => Number(/frame (\\d+)/.exec(picture.ariaLabel)[1]));
              return JSON.stringify(now) !== JSON.stringify(shown); }""",
            shown,
        )
        rounds += 1
        assert rounds < 20
    page.get_by_text("every border is known to a frame").wait_for()
    assert user.windows().keys() == before.keys()


def go_to(user, frame: int) -> None:
    user.page.fill(".goto", str(frame))
    user.page.keyboard.press("Enter")
    user.shows(frame)
    user.page.locator("h1").click()


def at_the_strip(user) -> None:
    user.page.locator("h1").click()
    user.page.keyboard.press("t")
    user.until(f"() => ({PICTURES})() === 12 && document.activeElement.matches('.pictures')")


@pytest.mark.long
def test_confirm_leaves_examples_that_nobody_marked_on_the_strip(address, desk) -> None:
    user = desk(address)
    page, held = user.page, []
    page.route("**/findings/cup/mark", lambda route: held.append(route))
    user.open("#/finding/cup")
    user.shows(0)
    user.until(f"() => ({PICTURES})() === 12")
    at = frames(user)
    assert at[0] < 3 < at[1]
    assert marked(user)[:3] == ["full"] * 3
    go_to(user, 3)
    page.keyboard.press("x")  # between two pictures that are believed to be full
    go_to(user, at[2])
    page.keyboard.press("1")  # on a picture, after the strip was made
    assert marked(user)[2] == "empty"
    at_the_strip(user)
    page.keyboard.press("Enter")
    while not held:
        page.wait_for_timeout(30)
    go_to(user, 33)
    page.keyboard.press("2")  # while the answer is on its way
    held.pop().continue_()
    user.until(f"() => /^The (start|end) of/.test(({CAPTION})())")
    page.get_by_role("tab", name="Show it").click()
    examples = page.locator(".show .marks li").all_inner_texts()
    for example in ("none of them: frame 3", f"empty: frame {at[2]}", "half full: frame 33"):
        assert any(text.startswith(example) for text in examples), examples


@pytest.mark.long
def test_marks_that_are_not_confirmed_yet_stay(address, desk) -> None:
    user = desk(address)
    page = user.page
    user.open("#/finding/cup")
    user.shows(0)
    at_the_strip(user)
    page.keyboard.type("333222111333")
    name = page.get_by_label("name of state 1", exact=True)
    name.fill("")
    page.get_by_text("a state has no name").wait_for()
    page.locator(".pictures").press("Enter")
    page.locator(".sentence", has_text="a state has no name").wait_for()
    name.fill("drained")
    expected = ["full"] * 3 + ["half full"] * 3 + ["drained"] * 3 + ["full"] * 3
    assert marked(user) == expected
    page.get_by_role("link", name="Workspace").click()
    page.locator(".card").first.wait_for()
    page.go_back()
    user.until(f"() => ({PICTURES})() === 12")
    assert marked(user) == expected
