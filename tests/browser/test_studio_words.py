"""States are renamed, replaced and encoded again: what a person has shown and saved stays."""

from __future__ import annotations

import pytest

from dejacue import Finding

FINDING = "#/finding/cup"


@pytest.fixture
def finding(address, desk):
    """Open the finding, with frame 50 as an example of full."""
    user = desk(address)
    user.open(FINDING)
    user.shows(0)
    user.page.fill(".goto", "50")
    user.page.keyboard.press("Enter")
    user.shows(50)
    user.page.locator("h1").click()
    user.page.keyboard.press("3")
    return user


def name(page, number: int):
    return page.get_by_label(f"name of state {number}", exact=True)


def save(page) -> None:
    page.keyboard.press("Control+s")
    page.get_by_role("button", name="Save", exact=True, disabled=True).wait_for()


def saved(workspace, folder: str = "cup"):
    """Return the names of the states, and the examples."""
    words = Finding.read(workspace / folder).vocabulary
    return list(words.states), [(e.state, tuple(e.span)) for e in words.examples]


def test_what_is_saved_is_what_the_page_shows(finding, workspace) -> None:
    page = finding.page
    name(page, 1).fill("")
    name(page, 1).press_sequentially("full of tea")  # on the way, it is called as another state
    page.get_by_role("textbox", name="Object").fill("")
    save(page)
    shown = [("full", (50, 50))]
    assert saved(workspace) == (["full of tea", "half full", "full"], shown)
    assert Finding.read(workspace / "cup").vocabulary.object is None
    for number, text in enumerate(("10", "2", "__proto__"), 1):
        name(page, number).fill(text)
    finding.expected = "status of 400"  # it may be read before it has words
    page.get_by_role("button", name="Add a state").click()
    name(page, 4).fill("constructor")
    page.locator("fieldset textarea").last.fill("cup and saucer")
    save(page)
    order = ["10", "2", "__proto__", "constructor"]
    assert saved(workspace) == (order, [("__proto__", (50, 50))])
    finding.open(FINDING)
    name(page, 4).wait_for()
    assert [name(page, number).input_value() for number in (1, 2, 3, 4)] == order


RENAMED = """async (all) => {
  const { withStates } = await import("/static/words.js");
  const begin = { states: ["empty", "full", "new"].map((name) => ({ name, text: "" })),
    examples: ["empty", "full", null].map((state, start) => ({ state, start })) };
  const as = (state, name) => ({ ...state, name, before: state.before ?? state.name });
  const renamed = ({ states, examples }, [n, name]) => withStates(examples,
    states.map((state, at) => (at === n ? as(state, name) : state)));
  return all.map((edits) => edits.reduce(renamed, begin));
}"""


def test_examples_stay_with_their_states(address, desk) -> None:
    user = desk(address)
    user.open()
    expected = {
        ((0, "full"), (0, "full "), (0, "full of tea")): ["full of tea", "full", None],
        ((0, "full"), (1, "empty")): ["full", "empty", None],  # they change their names
        ((0, "full"), (1, "tilted")): ["full", "tilted", None],
        ((0, ""), (1, ""), (0, "a"), (1, "b")): ["a", "b", None],
        ((2, "full"), (2, "fuller")): ["empty", "full", None],
    }
    answers = user.page.evaluate(RENAMED, [list(edits) for edits in expected])
    for words, states in zip(answers, expected.values(), strict=True):
        assert [example["state"] for example in words["examples"]] == states
        assert all("before" not in state for state in words["states"])


def test_a_person_says_that_every_frame_shows_a_state(finding, workspace) -> None:
    page = finding.page
    box = page.get_by_role("checkbox", name="Every frame shows one of these")
    assert not box.is_checked()
    box.check()
    page.locator("h1").click()
    page.keyboard.press("Control+z")
    finding.until("() => !document.querySelector('.words [type=checkbox]').checked")
    page.keyboard.press("Control+Shift+z")
    finding.until("() => document.querySelector('.words [type=checkbox]').checked")
    save(page)
    assert Finding.read(workspace / "cup").vocabulary.exhaustive
    finding.open(FINDING)
    assert box.is_checked()
    page.locator("h1").click()
    page.keyboard.press("x")
    page.get_by_text("a frame of none of the states contradicts").wait_for()
    box.uncheck()
    page.locator(".words .problem").wait_for(state="detached")
    save(page)
    assert not Finding.read(workspace / "cup").vocabulary.exhaustive
    assert (None, (0, 0)) in saved(workspace)[1]


def test_one_state_is_saved_once_something_shows_it(finding, workspace) -> None:
    page = finding.page
    box = page.get_by_role("checkbox", name="Every frame shows one of these")
    page.get_by_role("button", name="remove half full").click()
    page.get_by_role("button", name="remove empty").click()
    assert box.is_disabled()
    assert page.get_by_role("button", name="remove full").is_disabled()
    save(page)
    assert saved(workspace) == (["full"], [("full", (50, 50))])
    finding.expected = "status of 400"
    page.get_by_role("tab", name="Show it").click()
    page.get_by_role("button", name="remove full at frame 50").click()
    page.locator(".show .problem").wait_for()
    assert "or show an example" in page.locator(".show .problem").inner_text()
    save_button = page.get_by_role("button", name="Save", exact=True)
    save_button.click()
    page.locator(".sentence", has_text="or show an example").wait_for()
    assert save_button.is_enabled()


# A window of 10 – 19 is dragged to 12 – 19, and another of 30 – 39 is deleted
OTHERS = """async (other) => {
  const { dragged, denied } = await import("/static/marks.js");
  const to = { state: "full", before: { start: 10, end: 19 }, start: 12, end: 19 };
  const none = other ?? undefined;
  const moved = dragged([], to, () => true, (frame) => (frame === 11 ? none : "empty"));
  const full = [{ state: "full", start: 30, end: 32, source: null }];
  const gone = denied(full, { state: "full", start: 30, end: 39 }, () => true, () => none);
  return [moved, gone].map((marks) => marks.map(({ state, start, end }) => [state, start, end]));
}"""


def test_where_every_frame_shows_a_state_an_edge_says_no_more_than_is_known(address, desk) -> None:
    user = desk(address)
    user.open()
    known = [["full", 12, 19], ["empty", 20, 20]]
    assert user.page.evaluate(OTHERS, None) == [known, []]
    expected = [[known[0], ["tilted", 11, 11], known[1]], [["tilted", 30, 39]]]
    assert user.page.evaluate(OTHERS, "tilted") == expected


@pytest.mark.long
def test_a_state_that_was_called_as_another_takes_nothing_with_it(finding) -> None:
    page = finding.page
    finding.expected = "status of 400"  # it may be read before it has words
    page.get_by_role("button", name="Add a state").click()
    name(page, 4).fill("full")
    page.get_by_role("button", name="remove full").last.click()
    page.get_by_role("tab", name="Show it").click()
    assert page.locator(".marks li").inner_text().startswith("full: frame 50")
    page.get_by_role("tab", name="Words").click()
    page.get_by_role("button", name="remove full").click()
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    page.get_by_role("tab", name="Show it").click()
    assert page.locator(".marks li").inner_text().startswith("full: frame 50")


@pytest.mark.long
def test_a_word_list_says_which_examples_go(finding, workspace) -> None:
    words = "object: cup\nstates:\n  empty: [an empty cup]\n  2: [a broken cup]\n  1: [a cup]\n"
    (workspace / "other.yaml").write_text(words.replace("2:", '"2":').replace("1:", '"1":'))
    page = finding.page
    save(page)
    finding.open(FINDING)
    page.get_by_label("Words from").select_option("other.yaml")
    page.get_by_text("does not have full: examples of it are removed").wait_for()
    assert [name(page, n).input_value() for n in (1, 2, 3)] == ["empty", "2", "1"]
    page.keyboard.press("Control+z")
    page.get_by_role("tab", name="Show it").click()
    assert page.locator(".marks li").count() == 1


@pytest.mark.long
def test_an_encoder_that_was_compared_before_gets_a_finding_of_its_own(finding, workspace) -> None:
    page = finding.page
    finding.open(FINDING)
    for folder in ("cup-mini", "cup-mini-2"):
        page.get_by_role("tab", name="Compare").click()
        page.get_by_label("With another encoder").fill("mini")
        page.get_by_role("button", name="Encode").click()
        page.get_by_role("button", name=f"remove {folder}", exact=True).wait_for()
        words = Finding.read(workspace / folder).vocabulary.states
        Finding.read(workspace / folder).correct({"full": 50}).save(workspace / folder)
    assert list(words) == ["empty", "half full", "full"]
    assert saved(workspace, "cup-mini")[1] == [("full", (50, 50))]


@pytest.mark.long
def test_another_readout_says_that_its_defaults_hold(address, desk, workspace) -> None:
    Finding.read(workspace / "cup").with_words(coordinates="trajectory").save(workspace / "cup")
    user = desk(address)
    user.open(FINDING)
    user.page.get_by_text("Readout settings").click()
    readout, coordinates = user.page.locator("details select").all()
    assert coordinates.locator("option:checked").inner_text() == "unchanged (trajectory)"
    readout.select_option("contrast")
    assert coordinates.locator("option:checked").inner_text() == "default"
