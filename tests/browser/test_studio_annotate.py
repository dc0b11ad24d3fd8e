"""Annotation in the page: two blind passes, the differences, references that others read."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dejacue.sources.results import read_references
from dejacue.studio.annotations import PASS

LAST = 59
SAVED = "() => document.querySelector('.saving')?.textContent === 'saved'"


def begin(own, name: str) -> None:
    own.page.get_by_label("Name of the annotator").fill(name)
    own.page.get_by_role("button", name=f"Label as {name}").click()
    own.page.get_by_text("your pass ·").wait_for()
    own.shows(0)


def fill(own, spans: list[tuple[int, int, str]]) -> None:
    """Labels spans by keys: b at their start, the number of the label at their end."""
    own.page.locator("h1").click()
    for start, end, key in spans:
        own.page.fill(".goto", str(start))
        own.page.keyboard.press("Enter")
        own.shows(start)
        own.page.locator("h1").click()
        own.page.keyboard.press("b")
        own.page.fill(".goto", str(end))
        own.page.keyboard.press("Enter")
        own.shows(end)
        own.page.locator("h1").click()
        own.page.keyboard.press(key)
    own.until("() => document.querySelector('.ready') !== null")
    own.until(SAVED)


@pytest.fixture
def labelled(address, desk):
    """Two passes that differ in frames 18 – 21 and 40."""
    own = desk(address)
    own.open("#/annotate/cup")
    states = own.page.get_by_label("States, one per line")
    own.until("() => document.querySelector('textarea')?.value.includes('empty')")
    assert states.input_value().split() == ["empty", "half", "full", "full"]
    states.fill("full\nempty")
    begin(own, "Anna")
    assert own.page.locator(".answers button").all_inner_texts()[:4] == [
        "1\nfull",
        "2\nempty",
        "3\nnone",
        "4\nunobserved",
    ]
    fill(own, [(0, 21, "1"), (22, 40, "3"), (41, LAST, "2")])
    consensus = own.page.get_by_role("button", name="Start the consensus")
    assert consensus.is_disabled()  # there is one pass
    assert "Once the other pass is complete too" in own.page.locator(".ready").inner_text()
    own.page.get_by_role("button", name="Stop").click()
    own.page.get_by_role("link", name="cup", exact=True).click()
    own.page.get_by_role("button", name="Continue as Anna").click()
    own.until("() => document.querySelector('.ready') !== null")  # what she labelled is there
    own.page.get_by_role("button", name="Stop").click()
    own.page.get_by_role("link", name="cup", exact=True).click()
    assert own.page.get_by_label("States, one per line").count() == 0  # they are the first one's
    begin(own, "Ben")
    assert own.page.locator(".answers [aria-pressed=true]").count() == 0  # nothing of Anna's
    fill(own, [(0, 17, "1"), (18, 39, "3"), (40, LAST, "2")])
    return own


@pytest.mark.long
def test_a_pass_has_no_changes_and_no_key_for_them(address, desk) -> None:
    own = desk(address)
    own.open("#/annotate/cup")
    own.until("() => document.querySelector('textarea')?.value.includes('empty')")
    begin(own, "Anna")
    own.page.locator("h1").click()
    own.page.keyboard.press("?")
    own.page.locator("dialog[open]").wait_for()
    keys = own.page.locator("dialog").inner_text()
    assert "the frame shows this state" in keys
    assert "a change happens" not in keys


def test_two_passes_become_references(labelled, workspace) -> None:
    own, page = labelled, labelled.page
    page.get_by_role("button", name="Start the consensus").click()
    page.get_by_text("Difference 1 of 2").wait_for()
    assert "Anna says full, Ben says none" in page.locator(".panel").inner_text()
    own.shows(18)
    page.fill(".goto", "20")
    page.keyboard.press("Enter")
    own.shows(20)
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
    (made,) = read_references(down.value.path())
    assert {state: [list(w) for w in own] for state, own in made.states.items()} == {
        "full": [[0, 19]],
        "empty": [[40, 59]],
    }
    assert (workspace / "cup" / "annotations" / "references.json").is_file()
    page.reload()
    page.get_by_text("all differences are decided").wait_for()


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
    own = desk(address)
    own.open("#/annotate/cup")
    own.page.get_by_label("States, one per line").fill("full\nempty")
    begin(own, "Anna")
    own.drag(own.at("full", 0, 0, LAST), own.at("full", 20, 0, LAST))
    own.until("() => document.querySelector('progress').value === 21")
    own.page.keyboard.down("Alt")
    own.drag(own.at("empty", 15, 0, LAST), own.at("empty", 30, 0, LAST))
    own.page.keyboard.up("Alt")
    own.until("() => document.querySelector('progress').value === 31")
    own.has("full", "0 – 14")
    own.page.locator("h1").click()
    own.page.keyboard.press("Control+z")
    own.until("() => document.querySelector('progress').value === 21")
    own.until(SAVED)
    document = json.loads((workspace / "cup" / "annotations" / f"anna{PASS}").read_text())
    assert "full" in json.dumps(document)
    own.page.reload()
    own.until("() => document.querySelector('progress')?.value === 21")
    own.has("full", "0 – 20")


def test_labels_that_were_changed_elsewhere_are_not_overwritten(address, desk) -> None:
    own = desk(address)
    own.open("#/annotate/cup")
    own.page.get_by_label("States, one per line").fill("full\nempty")
    begin(own, "Anna")
    other = own.page.context.new_page()
    other.goto(f"{address}#/annotate/cup")
    other.get_by_text("your pass ·").wait_for()
    with other.expect_response(lambda answer: answer.request.method == "PUT"):
        other.locator(".answers button").first.click()
    other.get_by_text("1 of 60 frames labelled").wait_for()
    other.locator(".saving[data-state=saved]").wait_for()
    own.page.locator(".answers button").nth(1).click()
    own.page.get_by_text("the pass was changed elsewhere").wait_for()
    own.page.get_by_role("button", name="Reload").click()
    own.until("() => document.querySelectorAll('.tl-windows button')[0]?.textContent === '0 – 0'")
    own.expected = "409"
    other.close()


def test_the_page_keeps_labels_as_runs_without_losing_a_frame(address, desk) -> None:
    """The arithmetic of labels.js against lists."""
    own = desk(address)
    own.open()
    script = """async ([first, values, start, end, label]) => {
      const own = await import("/static/labels.js");
      const names = ["a", "b", "c"], before = Int16Array.from(values);
      const made = own.filled(before, first, start, end, label);
      const runs = own.toRuns(made, first, names), frames = [first, first + values.length - 1];
      const back = own.fromRuns({ frames, runs, labels: names });
      return [[...made], [...back], runs, own.nextOpen(made, first, start)];
    }"""
    draw = np.random.default_rng(3)
    for _ in range(30):
        count, first = int(draw.integers(1, 40)), int(draw.integers(0, 9))
        values = draw.integers(-1, 3, count).tolist()
        start, end = sorted((first + draw.integers(0, count, 2)).tolist())
        label = int(draw.integers(-1, 3))
        made, back, runs, free = own.page.evaluate(script, [first, values, start, end, label])
        expected = [label if start <= first + n <= end else v for n, v in enumerate(values)]
        assert made == back == expected
        told = [run["label"] for run in runs for _ in range(run["end"] - run["start"] + 1)]
        assert told == [None if v < 0 else "abc"[v] for v in expected]
        open_frames = [first + n for n, v in enumerate(expected) if v < 0]
        after = [frame for frame in open_frames if frame > start] or open_frames
        assert free == (after[0] if after else None)
