"""Annotation in the page: two blind passes, the differences, references that others read."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dejacue.sources.results import read_references
from dejacue.studio.annotations import PASS

LAST = 59
SAVED = "() => document.querySelector('.saving')?.textContent === 'saved'"


def begin(user, name: str) -> None:
    user.page.get_by_label("Name of the annotator").fill(name)
    user.page.get_by_role("button", name=f"Label as {name}").click()
    user.page.get_by_text("your pass ·").wait_for()
    user.shows(0)


def fill(user, spans: list[tuple[int, int, str]]) -> None:
    """Label spans by keys: b at their start, the number of the label at their end."""
    user.page.locator("h1").click()
    for start, end, key in spans:
        user.page.fill(".goto", str(start))
        user.page.keyboard.press("Enter")
        user.shows(start)
        user.page.locator("h1").click()
        user.page.keyboard.press("b")
        user.page.fill(".goto", str(end))
        user.page.keyboard.press("Enter")
        user.shows(end)
        user.page.locator("h1").click()
        user.page.keyboard.press(key)
    user.until("() => document.querySelector('.ready') !== null")
    user.until(SAVED)


@pytest.fixture
def labelled(address, desk):
    """Write two passes that differ in frames 18 – 21 and 40."""
    user = desk(address)
    user.open("#/annotate/cup")
    states = user.page.get_by_label("States, one per line")
    user.until("() => document.querySelector('textarea')?.value.includes('empty')")
    assert states.input_value().split() == ["empty", "half", "full", "full"]
    states.fill("full\nempty")
    begin(user, "Anna")
    assert user.page.locator(".answers button").all_inner_texts()[:4] == [
        "1\nfull",
        "2\nempty",
        "3\nnone",
        "4\nunobserved",
    ]
    fill(user, [(0, 21, "1"), (22, 40, "3"), (41, LAST, "2")])
    consensus = user.page.get_by_role("button", name="Start the consensus")
    assert consensus.is_disabled()  # there is one pass
    assert "Once the other pass is complete too" in user.page.locator(".ready").inner_text()
    user.page.get_by_role("button", name="Stop").click()
    user.page.get_by_role("link", name="cup", exact=True).click()
    user.page.get_by_role("button", name="Continue as Anna").click()
    user.until("() => document.querySelector('.ready') !== null")  # what she labelled is there
    user.page.get_by_role("button", name="Stop").click()
    user.page.get_by_role("link", name="cup", exact=True).click()
    assert user.page.get_by_label("States, one per line").count() == 0  # they are the first one's
    begin(user, "Ben")
    assert user.page.locator(".answers [aria-pressed=true]").count() == 0  # nothing of Anna's
    fill(user, [(0, 17, "1"), (18, 39, "3"), (40, LAST, "2")])
    return user


@pytest.mark.long
def test_a_pass_has_no_changes_and_no_key_for_them(address, desk) -> None:
    user = desk(address)
    user.open("#/annotate/cup")
    user.until("() => document.querySelector('textarea')?.value.includes('empty')")
    begin(user, "Anna")
    user.page.locator("h1").click()
    user.page.keyboard.press("?")
    user.page.locator("dialog[open]").wait_for()
    keys = user.page.locator("dialog").inner_text()
    assert "the frame shows this state" in keys
    assert "a change happens" not in keys


@pytest.mark.long
def test_a_pass_is_labelled_on_its_strip_with_nothing_proposed(address, desk) -> None:
    user = desk(address)
    page = user.page
    user.open("#/annotate/cup")
    user.until("() => document.querySelector('textarea')?.value.includes('empty')")
    page.get_by_label("States, one per line").fill("full\nempty")
    begin(user, "Anna")
    page.locator("h1").click()
    page.keyboard.press("t")
    user.until("() => document.activeElement.matches('.pictures')")
    under = "[...document.querySelectorAll('.pictures span')].map((text) => text.innerText)"
    assert page.evaluate(under) == [str(n) for n in range(1, 13)]
    for label in "111111222222":
        page.keyboard.press(label)
    page.keyboard.press("Enter")  # the gap between the sixth and the seventh picture
    user.until(f"() => ({under}).length < 12")
    count = len(page.evaluate(under))
    assert page.evaluate(under)[0] == "full"
    page.keyboard.press("Home")
    for _ in range(count - 1):
        page.keyboard.press("1")
    page.keyboard.press("2")
    page.keyboard.press("Enter")
    page.get_by_text("every frame has a label").wait_for()
    user.until("() => document.querySelector('.ready') !== null")
    user.until(SAVED)
    assert user.windows()["full"] == ["0 – 31"]


def test_two_passes_become_references(labelled, workspace) -> None:
    user, page = labelled, labelled.page
    page.get_by_role("button", name="Start the consensus").click()
    page.get_by_text("Difference 1 of 2").wait_for()
    assert "Anna says full, Ben says none" in page.locator(".panel").inner_text()
    user.shows(18)
    page.fill(".goto", "20")
    page.keyboard.press("Enter")
    user.shows(20)
    page.locator("h1").click()
    page.keyboard.press("s")  # 18 – 19 and 20 – 21
    page.get_by_text("of 3:").wait_for()
    page.keyboard.press("1")
    page.get_by_text("Difference 2 of 3").wait_for()
    page.keyboard.press("3")
    page.get_by_text("Difference 3 of 3").wait_for()
    page.locator(".answers").get_by_role("button", name="empty").click()
    page.get_by_text("all differences are decided").wait_for()
    kappa = page.locator("section", has_text="Agreement").locator("tbody td").nth(2).inner_text()
    assert 0.8 < float(kappa) < 1
    page.locator(".events li").first.wait_for()
    assert page.locator(".events").inner_text() == "full 0 – 19 → empty 40 – 59"
    page.get_by_role("button", name="Write the references").click()
    page.get_by_role("link", name="references.json").wait_for()
    with page.expect_download() as down:
        page.get_by_role("link", name="references.json").click()
    (reference,) = read_references(down.value.path())
    assert {state: [list(w) for w in windows] for state, windows in reference.states.items()} == {
        "full": [[0, 19]],
        "empty": [[40, 59]],
    }
    assert (workspace / "cup" / "annotations" / "references.json").is_file()
    page.reload()
    page.get_by_text("all differences are decided").wait_for()


@pytest.mark.long
def test_a_tab_that_is_late_does_not_undo_a_decision_of_the_consensus(labelled) -> None:
    user, page = labelled, labelled.page
    user.expected = "409"
    page.get_by_role("button", name="Start the consensus").click()
    page.get_by_text("Difference 1 of 2").wait_for()
    late = page.context.new_page()
    late.goto(page.url)
    late.get_by_text("Difference 1 of 2").wait_for()
    page.locator("h1").click()
    with page.expect_response(lambda response: response.request.method == "PUT") as written:
        page.keyboard.press("1")
    assert written.value.status == 200
    late.locator("h1").click()
    late.keyboard.press("3")
    versions = late.get_by_role("dialog", name="Two versions")
    versions.get_by_text("frames 18 – 21: none").wait_for()
    versions.get_by_text("frames 18 – 21: full").wait_for()
    versions.get_by_role("button", name="Keep theirs").click()
    late.get_by_text("full / none → full").wait_for()
    page.reload()
    page.get_by_text("full / none → full").wait_for()


@pytest.mark.long
def test_whoever_labels_sees_neither_scores_nor_the_other_pass(labelled) -> None:
    page = labelled.page
    assert page.locator("nav").inner_text().split() == ["Workspace", "Annotate"]
    page.evaluate("location.hash = '#/finding/cup'")
    page.get_by_text("your pass ·").wait_for()
    labelled.until("() => document.querySelectorAll('.tl-label').length === 4")
    assert page.locator(".words").count() == 0
    page.evaluate("location.hash = '#/annotate'")
    page.get_by_text("Ben 100 %").wait_for()
    assert page.get_by_text("Anna").count() == 0
    refused = page.evaluate("async () => (await fetch('/api/annotations/cup/passes/Anna')).status")
    assert refused == 403
    assert all("403" in error for error in labelled.errors)
    labelled.errors.clear()


def test_spans_are_labelled_by_dragging_and_kept(address, desk, workspace) -> None:
    user = desk(address)
    user.open("#/annotate/cup")
    user.page.get_by_label("States, one per line").fill("full\nempty")
    begin(user, "Anna")
    user.drag(user.at("full", 0, 0, LAST), user.at("full", 20, 0, LAST))
    user.until("() => document.querySelector('progress').value === 21")
    user.page.keyboard.down("Alt")
    user.drag(user.at("empty", 15, 0, LAST), user.at("empty", 30, 0, LAST))
    user.page.keyboard.up("Alt")
    user.until("() => document.querySelector('progress').value === 31")
    user.has("full", "0 – 14")
    user.page.locator("h1").click()
    user.page.keyboard.press("Control+z")
    user.until("() => document.querySelector('progress').value === 21")
    user.until(SAVED)
    document = json.loads((workspace / "cup" / "annotations" / f"anna{PASS}").read_text())
    assert "full" in json.dumps(document)
    user.page.reload()
    user.until("() => document.querySelector('progress')?.value === 21")
    user.has("full", "0 – 20")


def test_labels_that_were_changed_elsewhere_are_merged_by_frame(address, desk) -> None:
    user = desk(address)
    user.open("#/annotate/cup")
    user.page.get_by_label("States, one per line").fill("full\nempty")
    begin(user, "Anna")
    other = user.page.context.new_page()
    other.goto(f"{address}#/annotate/cup")
    other.get_by_text("your pass ·").wait_for()
    with other.expect_response(lambda answer: answer.request.method == "PUT"):
        other.locator(".answers button").first.click()
    other.get_by_text("1 of 60 frames labelled").wait_for()
    other.locator(".saving[data-state=saved]").wait_for()
    user.page.keyboard.press("ArrowRight")
    user.shows(1)
    user.page.locator(".answers button").nth(1).click()
    user.page.get_by_role("button", name="Merge").click()
    user.has("full", "0 – 0")
    user.has("empty", "1 – 1")
    user.until(SAVED)
    user.expected = "409"
    other.close()


def test_the_page_keeps_labels_as_runs_without_losing_a_frame(address, desk) -> None:
    """Compare the arithmetic of labels.js with lists."""
    user = desk(address)
    user.open()
    script = """async ([first, values, start, end, label]) => {
      const module = await import("/static/labels.js");
      const names = ["a", "b", "c"], before = Int16Array.from(values);
      const after = module.filled(before, first, start, end, label);
      const runs = module.toRuns(after, first, names), frames = [first, first + values.length - 1];
      const back = module.fromRuns({ frames, runs, labels: names });
      return [[...after], [...back], runs, module.nextOpen(after, first, start)];
    }"""
    draw = np.random.default_rng(3)
    for _ in range(30):
        count, first = int(draw.integers(1, 40)), int(draw.integers(0, 9))
        values = draw.integers(-1, 3, count).tolist()
        start, end = sorted((first + draw.integers(0, count, 2)).tolist())
        label = int(draw.integers(-1, 3))
        changed, back, runs, free = user.page.evaluate(script, [first, values, start, end, label])
        expected = [label if start <= first + n <= end else v for n, v in enumerate(values)]
        assert changed == back == expected
        labels = [run["label"] for run in runs for _ in range(run["end"] - run["start"] + 1)]
        assert labels == [None if v < 0 else "abc"[v] for v in expected]
        open_frames = [first + n for n, v in enumerate(expected) if v < 0]
        after = [frame for frame in open_frames if frame > start] or open_frames
        assert free == (after[0] if after else None)
