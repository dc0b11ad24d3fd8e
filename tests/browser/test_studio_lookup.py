"""Where the object is without drawing it: found by its name, the whole picture, weights fetched."""

from __future__ import annotations

import threading

import pytest
from helpers.colour_tracker import Colour
from helpers.films import RATE, ColourRows, CupDetector, Film
from helpers.studio_page import served

from dejacue import Finding
from dejacue.models.catalogue import CatalogueEntry
from dejacue.studio.findings import objects_of
from dejacue.studio.state import Studio
from dejacue.video.video import write_video


@pytest.fixture
def user(tmp_path, desk, monkeypatch):
    """Open the film of two cups that cross, in a studio with a detector that knows them."""
    monkeypatch.setattr(Studio, "detector", lambda self: CupDetector())
    monkeypatch.setattr(Studio, "tracker", lambda self, name=None: Colour())
    root = tmp_path / "films"
    root.mkdir()
    write_video(root / "film.mp4", Film().shot(20, (0, 5, 70, 6), (1, 70, 5, 26)).frames, RATE)
    with served(root) as address:
        user = desk(address)
        user.page.set_viewport_size({"width": 1280, "height": 720})
        user.open("#/track/film.mp4")
        user.shows(0)
        for number, name in enumerate(("left", "right"), 1):
            user.page.get_by_label(f"name of state {number}").fill(name)
            user.page.locator(f"fieldset:nth-of-type({number}) textarea").fill(f"cup {name}")
        yield user
        user.page.context.close()


def find(user, name: str) -> None:
    user.page.get_by_label("find the object by its name").fill(name)
    user.page.get_by_role("button", name="Find", exact=True).click()


def test_an_object_is_found_by_its_name_and_one_of_several_is_taken(user, tmp_path, axe) -> None:
    page, start = user.page, user.page.get_by_role("button", name="Track and find")
    find(user, "spoon")
    page.get_by_text('found no "spoon"').wait_for()
    assert start.is_disabled()
    find(user, "cup")
    user.until("() => document.querySelectorAll('.found [role=radio]').length === 2")
    chosen = page.get_by_role("radio", checked=True)
    assert "1 cup" in chosen.inner_text()
    page.get_by_role("radio").nth(1).click()
    user.until("() => document.querySelectorAll('.instance').length > 0")
    page.locator(".instance", has_text="2").click()
    user.until(
        "() => document.querySelector('[role=radio][aria-checked=true]').innerText[0] === '2'"
    )
    assert axe(page) == []
    start.click()
    user.until("() => document.querySelector('.foot .job.done') !== null")
    finding = Finding.read(tmp_path / "films" / "findings" / "film")
    assert objects_of(finding) == [2]
    page.get_by_label("Folder of the finding").fill("whole")
    page.get_by_role("button", name="Whole picture").click()
    user.until("() => !document.querySelector('.found [role=radio]')")
    start.click()
    user.until("() => document.querySelector('.foot .job.done') !== null")
    assert Finding.read(tmp_path / "films" / "whole").provenance.tracker == "the whole picture"


@pytest.mark.long
def test_boxes_are_kept_beside_what_is_found_and_the_whole_picture(user, monkeypatch) -> None:
    page, look = user.page, threading.Event()
    monkeypatch.setattr(Studio, "detector", lambda self: look.wait() and CupDetector())
    find(user, "cup")
    box = page.locator(".stage").bounding_box()
    corner = lambda share: (box["x"] + share * box["width"], box["y"] + share * box["height"])  # noqa: E731
    user.drag(corner(0.1), corner(0.4))
    page.locator(".marks li").wait_for()
    look.set()  # the box was drawn while it looked
    page.get_by_role("radio").nth(1).wait_for()
    assert page.get_by_role("radio", checked=True).count() == 0

    def draws(count: int) -> None:
        """Wait until so many boxes are listed and drawn."""
        user.until(f"() => document.querySelectorAll('.marks li').length === {count}")
        user.until(f"() => document.querySelectorAll('.stage rect.box').length === {count}")

    draws(1)
    page.get_by_role("radio").nth(1).click()
    draws(0)
    page.get_by_role("button", name="Forget them").click()
    page.locator(".marks li button").first.click()  # back to its frame
    draws(1)
    whole = page.get_by_role("button", name="Whole picture")
    whole.click()
    draws(0)
    whole.click()
    draws(1)
    page.get_by_role("link", name="Workspace").click()
    page.locator(".card").first.wait_for()
    page.go_back()
    user.shows(0)
    draws(1)
    assert page.get_by_role("radio").count() == 0


@pytest.mark.long
def test_with_an_encoder_without_words_a_frame_of_each_state_is_enough(
    tmp_path, desk, monkeypatch
) -> None:
    root = tmp_path / "films"
    root.mkdir()
    write_video(
        root / "film.mp4", Film().shot(10, (0, 5, 5, 6)).shot(10, (1, 5, 5, 6)).frames, RATE
    )
    monkeypatch.setattr(Studio, "encoder", lambda self, name=None: ColourRows())
    with served(root) as address:
        user = desk(address)
        page = user.page
        user.open("#/track/film.mp4")
        user.shows(0)
        page.get_by_role("button", name="Whole picture").click()
        for number, name in enumerate(("red", "green"), 1):
            page.get_by_label(f"name of state {number}").fill(name)
        page.get_by_text("knows no words: show a frame of each state").wait_for()
        assert page.locator("fieldset textarea").count() == 0
        page.get_by_role("button", name="This frame shows red").click()
        page.locator("h1").click()
        page.keyboard.press("End")
        user.shows(19)
        page.get_by_role("button", name="This frame shows green").click()
        page.get_by_role("button", name="Track and find").click()
        user.until("() => document.querySelector('.foot .job.done') !== null")
        user.open("#/track/film.mp4/findings%2Ffilm")  # its frames are shown already
        user.shows(0)
        user.until("() => !document.querySelector('.foot .main').disabled")
        page.context.close()
    finding = Finding.read(root / "findings" / "film")
    assert [tuple(window) for window in finding.named["green"]] == [(19, 19)]
    assert [interval.state for interval in finding] == ["red", "green"]


def test_missing_weights_are_fetched_and_a_fetch_can_be_stopped(user, monkeypatch) -> None:
    page, go_on, ready = user.page, threading.Event(), []

    def fetch(model, progress) -> None:
        for done in range(1, 101):
            progress("download", 10_000_000 * done, 1_000_000_000, "model.safetensors")
            while done > 50 and not go_on.wait(0.02):
                progress("download", 10_000_000 * done, 1_000_000_000, "model.safetensors")
        ready.append(model.name)

    state = property(lambda model: "ready" if model.name in ready else "absent")
    monkeypatch.setattr(CatalogueEntry, "state", state)
    monkeypatch.setattr(CatalogueEntry, "fetch", fetch)
    page.get_by_label("find the object by its name").fill("cup")
    missing = page.get_by_role("group", name="missing weights")
    missing.get_by_text("llmdet (detector, about").wait_for()
    missing.get_by_role("button", name="Fetch").click()
    missing.get_by_text("download 510 / 1000 MB").wait_for()
    assert 0.5 < missing.get_by_role("progressbar").evaluate("(bar) => bar.value") < 0.52
    missing.get_by_role("button", name="Stop").click()
    missing.get_by_role("button", name="Continue", exact=True).wait_for()
    assert ready == []
    go_on.set()
    missing.get_by_role("button", name="Continue", exact=True).click()
    missing.wait_for(state="detached")
    assert "llmdet" in ready
