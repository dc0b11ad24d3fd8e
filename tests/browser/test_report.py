"""The report in a real browser: opened from disk, printed, and without script."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from dejacue import Finding, History
from dejacue.files.findings import Provenance
from dejacue.method import Window
from dejacue.method.localization import analyse
from dejacue.report.thumbnails import thumbnail
from dejacue.video.video import write_video
from dejacue_paper import generate


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report on disk, with pictures, references, doubts and a gap."""
    generated = generate(3, states=("empty", "half full", "filled"), frames=240, gaps=((70, 14),))
    history = History(
        generated.history.features,
        generated.history.frames,
        "cup",
        times_s=generated.history.frames / 25,
    )
    pictures = {
        frame: thumbnail(np.full((90, 160, 3), frame, np.uint8), None)
        for frame in range(0, 240, 20)
    }
    finding = Finding(
        history,
        generated.vocabulary,
        analyse(history, generated.vocabulary),
        thumbnails=pictures,
        crops=pictures,
        doubts=((Window(20, 30), "is it hidden?"),),
    )
    folder = tmp_path_factory.mktemp("report")
    images = (np.full((90, 160, 3), frame, np.uint8) for frame in range(240))
    video = write_video(folder / "video ü#.mp4", images, 25)
    finding = replace(finding, provenance=Provenance(str(video)))
    path = folder / "page" / "report.html"
    path.parent.mkdir()
    return finding.report(path, references=generated.references)


@pytest.fixture
def opened(chromium, report):
    """opened(**context) → the report as a page; no error of it goes unnoticed."""
    contexts, errors = [], []

    def show(**context):
        window = chromium.new_context(viewport={"width": 1280, "height": 900}, **context)
        page = window.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console",
            lambda message: errors.append(message.text) if message.type == "error" else None,
        )
        page.goto(report.as_uri())
        contexts.append(window)
        return page

    yield show
    for window in contexts:
        window.close()
    assert errors == []


def shown(page, selector: str) -> int:
    return page.locator(f"{selector}:visible").count()


def test_from_disk_the_timeline_takes_the_place_of_the_bars(opened, axe) -> None:
    page = opened()
    page.locator(".tl-plot").wait_for()
    assert shown(page, ".tl-label .tl-name") == 3
    assert shown(page, ".still") == 0
    assert shown(page, "table") == 1
    page.locator(".tl-plot").focus()
    page.keyboard.press("n")
    assert page.locator(".tl-windows button[aria-pressed=true]").count() == 1
    assert axe(page) == []


TIME = """(film) => new Promise((go) => {
  const told = () => { if (film.currentTime > 0) go(film.currentTime); };
  film.addEventListener("seeked", told);
  told();
})"""


def test_the_video_and_the_timeline_show_the_same_instant(opened) -> None:
    page = opened()
    film, plot = page.locator("video"), page.locator(".tl-plot")
    plot.focus()
    page.keyboard.press("End")
    assert film.evaluate(TIME) == pytest.approx(239 / 25, abs=0.02)
    film.evaluate("(film) => { film.currentTime = 100.5 / 25; }")
    page.locator(".tl-plot[aria-valuenow='100']").wait_for()
    assert shown(page, ".film .lost") == 0


def test_the_large_picture_is_the_one_nearest_to_the_pointer(opened) -> None:
    page = opened()
    caption = page.locator(".large figcaption")
    page.locator(".large figcaption", has_text="frame 0, 0.00 s").wait_for()
    box = page.locator(".tl-plot").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 102 / 240, box["y"] + 150)
    page.locator(".large figcaption", has_text="nearest picture: frame 100").wait_for()
    assert page.locator(".large > img").get_attribute("alt") == "frame 100, 4.00 s"
    page.mouse.move(5, 5)
    page.locator(".large figcaption", has_text="frame 0, 0.00 s").wait_for()
    assert caption.count() == 1
    assert shown(page, ".shot img") == page.locator('td[data-name="trust"]').count() >= 3


def test_a_page_whose_video_is_gone_says_so_and_works(chromium, report, tmp_path) -> None:
    window = chromium.new_context()
    page = window.new_page()
    page.goto(shutil.copy(report, tmp_path / "report.html").as_uri())
    page.locator(".film figcaption", has_text="video ü#.mp4").wait_for()
    page.locator(".tl-plot").focus()
    page.keyboard.press("End")
    page.locator(".large figcaption", has_text="frame 220").wait_for()
    window.close()


def test_on_paper_the_timeline_is_drawn_for_its_width_in_light_colours(opened) -> None:
    page = opened(color_scheme="dark")
    page.locator(".tl-plot").wait_for()
    size = "[...document.querySelectorAll('.dejacue-timeline')].map((node) => node.clientWidth)[0]"
    wide = page.evaluate(size)
    assert wide > 690
    page.evaluate(
        """() => addEventListener("beforeprint", () => {
      const canvas = document.querySelector(".tl-plot canvas");
      window.printed = { width: canvas.width, theme: document.documentElement.dataset.theme };
    })"""
    )
    page.emulate_media(media="print")
    assert shown(page, ".dejacue-timeline") == 1
    assert shown(page, ".still") == shown(page, ".tl-tools") == 0
    page.emulate_media(media="screen")
    page.pdf()
    printed = page.evaluate("printed")
    assert 400 < printed["width"] < 690
    assert printed["theme"] == "light"
    page.screenshot()  # draws a frame
    assert page.evaluate(size) == wide
    assert page.evaluate("document.documentElement.dataset.theme") is None
    assert page.evaluate("document.querySelector('details').open")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_without_script_the_page_is_complete(opened, scheme) -> None:
    page = opened(java_script_enabled=False, color_scheme=scheme)
    assert shown(page, ".still svg[role=img]") == 3 + 3  # states, references
    assert shown(page, ".strip img") == 24
    assert shown(page, "table") == 2
    assert shown(page, "#timeline") == 0


def test_without_script_a_phone_shows_the_names_of_the_bars(opened) -> None:
    page = opened(java_script_enabled=False)
    page.set_viewport_size({"width": 390, "height": 800})
    names = page.locator(".still tbody tr td:first-child")
    assert max(box["height"] for box in (n.bounding_box() for n in names.all())) < 60


def test_on_a_phone_nothing_is_wider_than_the_screen(chromium, report, axe) -> None:
    window = chromium.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
    page = window.new_page()
    page.goto(report.as_uri())
    page.locator(".tl-plot").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert axe(page) == []
    window.close()
