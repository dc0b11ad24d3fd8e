"""Data that arrive late: what a person has begun stays, however slow the server is."""

from __future__ import annotations

import pytest

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))]
# Every request waits for a random time; window.hold(pattern) keeps those that match until the
# function that it returns is called.
DELAYED = """(() => {
  let seed = SEED;
  const random = () => (seed = (seed * 1664525 + 1013904223) % 4294967296) / 4294967296;
  const plain = window.fetch.bind(window), gates = [];
  window.hold = (pattern) => {
    const gate = { pattern };
    gate.free = new Promise((go) => { gate.release = go; });
    gates.push(gate);
    window.release = () => { gates.splice(0).forEach((gate) => gate.release()); };
  };
  window.fetch = async (path, options) => {
    await new Promise((go) => setTimeout(go, 400 * random()));
    const waits = gates.filter((gate) => String(path).includes(gate.pattern));
    await Promise.all(waits.map((gate) => gate.free));
    return plain(path, options);
  };
})();"""


@pytest.fixture
def slow(address, desk):
    """slow(seed) → a page whose requests are delayed, by times that follow from the seed."""

    def sit(seed: int):
        user = desk(address)
        user.page.add_init_script(DELAYED.replace("SEED", str(seed)))
        return user

    return sit


def track(user):
    user.open("#/track/scene%2Fscene.mp4")
    user.shows(0)
    return user.page


def test_a_list_of_words_that_comes_after_other_edits_is_offered(slow) -> None:
    user = slow(1)
    page = track(user)
    page.evaluate("hold('/vocabularies/')")
    page.get_by_label("Words from").select_option("scene/vocabulary.yaml")
    page.get_by_label("name of state 1").fill("warm")
    page.evaluate("release()")
    page.get_by_text("scene/vocabulary.yaml arrived while you were writing").wait_for()
    assert page.get_by_label("name of state 1").input_value() == "warm"
    page.get_by_role("button", name="Keep mine").click()
    assert page.locator(".offer").count() == 0
    page.get_by_label("Words from").select_option("scene/vocabulary.yaml")
    user.until(
        "() => document.querySelectorAll('fieldset').length === 3"
    )  # nothing was typed since


@pytest.mark.long
def test_the_words_of_a_finding_are_not_replaced_while_they_are_edited(slow) -> None:
    user = slow(2)
    user.open("#/finding/cup")
    user.shows(0)
    page = user.page
    page.evaluate("hold('/vocabularies/')")
    page.get_by_label("Words from").select_option("scene/vocabulary.yaml")
    page.get_by_label("name of state 2").fill("warm")
    page.evaluate("release()")
    page.get_by_role("button", name="Use it").click()
    name = "(text) => document.querySelectorAll('.words .name')[1].value === text"
    user.until(name, "half full")
    page.keyboard.press("Control+z")
    user.until(name, "warm")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_form_for_tracking_is_there_again_after_a_look_at_another_view(slow, seed) -> None:
    user = slow(seed)
    page = track(user)
    page.get_by_label("Tracker").select_option("fixed region")
    page.get_by_label("Folder of the finding").fill("elsewhere")
    page.get_by_label("name of state 1").fill("warm")
    stage = page.locator(".stage").bounding_box()
    user.drag((stage["x"] + 90, stage["y"] + 90), (stage["x"] + 300, stage["y"] + 300))
    page.locator(".marks li").wait_for()
    page.get_by_role("link", name="Workspace").click()
    page.locator(".card .bars").first.wait_for()
    page.evaluate("location.hash = '#/track/scene%2Fscene.mp4'")
    user.shows(0)
    assert page.get_by_label("Tracker").input_value() == "fixed region"
    assert page.get_by_label("Folder of the finding").input_value() == "elsewhere"
    assert page.get_by_label("name of state 1").input_value() == "warm"
    assert page.locator(".marks li").count() == 1


def test_words_that_a_finding_got_meanwhile_are_offered_to_its_form(slow) -> None:
    user = slow(4)
    page = user.page
    user.open("#/track/scene%2Fscene.mp4/cup")
    page.get_by_label("name of state 1").fill("warm")
    page.get_by_role("link", name="Back to the finding").click()
    page.get_by_label("descriptions of full, one per line").fill("a cup with tea")
    page.keyboard.press("Control+s")
    page.get_by_text("saved in cup").wait_for()
    page.go_back()
    page.get_by_text("The finding has other words now.").wait_for()
    assert page.get_by_label("name of state 1").input_value() == "warm"
    page.get_by_role("button", name="Use it").click()
    user.until("() => document.querySelector('input.name').value === 'empty'")
    text = page.get_by_label("descriptions of full, one per line")
    assert text.input_value() == "a cup with tea"
    assert page.locator(".offer").count() == 0
