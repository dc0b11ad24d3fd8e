"""Data that arrive late: what a person has begun stays, however slow the server is."""

from __future__ import annotations

import json

import pytest

STATES = "States, one per line"
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
  window.sent = [];
  window.fetch = async (path, options) => {
    if (options?.body) window.sent.push([path, options.body]);
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
        user.expected = "403"  # requested as the owner, answered while an annotator labels
        return user

    return sit


def sent(user, part: str) -> list:
    """Return the bodies that the page has sent to addresses that contain a part."""
    script = "(part) => sent.filter(([path]) => path.includes(part)).map(([, body]) => body)"
    return [json.loads(body) for body in user.page.evaluate(script, part)]


@pytest.mark.parametrize("seed", SEEDS)
def test_states_that_were_typed_before_those_of_the_finding_arrive_are_sent(slow, seed) -> None:
    user = slow(seed)
    user.open("#/annotate/cup")
    user.page.get_by_label(STATES).fill("full\nempty")
    user.page.get_by_label("Name of the annotator").fill("Anna")
    user.page.get_by_role("button", name="Label as Anna").click()
    user.page.get_by_text("your pass ·").wait_for()
    assert sent(user, "/passes/Anna")[0] == {"states": ["full", "empty"]}


def test_a_pass_is_not_begun_before_its_states_have_arrived(slow) -> None:
    user = slow(3)
    user.page.add_init_script("hold('/info')")
    user.open("#/annotate/cup")
    user.page.get_by_label("Name of the annotator").fill("Anna")
    button = user.page.get_by_role("button", name="Label as Anna")
    assert button.is_disabled()
    user.page.evaluate("release()")
    button.click()
    user.page.get_by_text("your pass ·").wait_for()
    assert sent(user, "/passes/Anna")[0] == {"states": ["empty", "half full", "full"]}


def test_what_arrives_for_a_field_with_the_cursor_is_offered(slow) -> None:
    user = slow(9)
    user.page.add_init_script("hold('/info')")
    user.open("#/annotate/cup")
    field = user.page.get_by_label(STATES)
    field.focus()
    user.page.evaluate("release()")
    offer = user.page.locator(".offer")
    offer.wait_for()
    assert "empty, half full, full" in offer.inner_text()
    assert field.input_value() == ""
    user.page.keyboard.type("warm")
    user.page.evaluate("location.hash = '#/annotate'")  # and back: the view is mounted anew
    user.page.get_by_role("link", name="cup", exact=True).click()
    offer.wait_for()
    assert field.input_value() == "warm"
    user.page.get_by_role("button", name="Use it").click()
    user.until("() => document.querySelector('textarea').value === 'empty\\nhalf full\\nfull'")
    assert offer.count() == 0


def test_without_the_cursor_what_arrives_is_shown(slow) -> None:
    user = slow(5)
    user.open("#/annotate/cup")
    user.until("() => document.querySelector('textarea')?.value === 'empty\\nhalf full\\nfull'")
    assert user.page.locator(".offer").count() == 0


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
    page.get_by_role("link", name="Corpus").click()
    page.locator("td .bars").first.wait_for()
    page.evaluate("location.hash = '#/track/scene%2Fscene.mp4'")
    user.shows(0)
    assert page.get_by_label("Tracker").input_value() == "fixed region"
    assert page.get_by_label("Folder of the finding").input_value() == "elsewhere"
    assert page.get_by_label("name of state 1").input_value() == "warm"
    assert page.locator(".marks li").count() == 1


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_labels_and_what_is_set_beside_them_survive_slow_answers(slow, seed) -> None:
    """Two passes, stopped right after the last label; a number is typed while answers come."""
    user = slow(seed)
    page = user.page
    user.open("#/annotate/cup")
    for number, name in enumerate(("Anna", "Ben")):
        if number == 0:
            page.get_by_label(STATES).fill("full\nempty")
        page.get_by_label("Name of the annotator").fill(name)
        page.get_by_role("button", name=f"Label as {name}").click()
        page.get_by_text("your pass ·").wait_for()
        user.shows(0)
        page.get_by_role("button", name="Span from here").click()
        page.keyboard.press("End")
        user.shows(59)
        page.locator(".answers button").nth(number).click()
        page.get_by_role("button", name="Stop").click()  # before the labels are sent
        page.get_by_role("link", name="cup", exact=True).click()
        page.get_by_text(f"{name} 60 of 60 frames labelled").wait_for()
    page.get_by_role("button", name="Start the consensus").click()
    page.get_by_text("Difference 1 of 1").wait_for()
    user.shows(0)
    page.keyboard.press("1")
    minimum = page.get_by_label("Minimum frames of a stable state")
    minimum.fill("7")
    page.evaluate("hold('/decisions')")
    page.locator("h1").click()
    page.keyboard.press("2")
    minimum.fill("12")
    page.evaluate("release()")
    page.get_by_role("button", name="Write the references").click()
    page.get_by_text("references.json: ").wait_for()
    assert sent(user, "/references")[0]["minimum"] == 12
