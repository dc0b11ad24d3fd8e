"""Every view: accessible, in light and dark, wide and narrow; tracking, uploads, other videos."""

from __future__ import annotations

import shutil

import av
import numpy as np
import pytest
from helpers.studio_page import served
from PIL import Image

VIEWS = {
    "workspace": ("", ".cards img"),
    "finding": ("#/finding/cup", ".tl-windows button"),
    "track": ("#/track/scene%2Fscene.mp4", ".tl-plot"),
    "corpus": ("#/corpus", "td .bars"),
    "annotate": ("#/annotate", "td"),
    "start": ("#/annotate/cup", "textarea"),
    "jobs": ("#/jobs", ".empty"),
}


def there(own, selector: str) -> None:
    own.until("(what) => document.querySelector(what) !== null", selector)


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1280, "light"),
        (1920, "dark"),
        (390, "light"),
    ],
)
@pytest.mark.long
def test_every_view_is_accessible_and_fits(address, desk, axe, width, scheme) -> None:
    own = desk(address, width, scheme)
    for name, (view, selector) in VIEWS.items():
        own.open(view)
        there(own, selector)
        assert axe(own.page) == [], name
        wide = own.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name} is {wide} wide"
    for tab in ("Show it", "Compare", "Doubts"):
        own.open("#/finding/cup")
        own.page.get_by_role("tab", name=tab).click()
        there(own, ".panel p, .panel .bars")
        assert axe(own.page) == [], tab
    own.page.get_by_role("button", name="keys").click()
    assert axe(own.page) == []


@pytest.mark.long
def test_labelling_and_consensus_are_accessible(address, desk, axe) -> None:
    own = desk(address, scheme="dark")
    own.open("#/annotate/cup")
    for name in ("Anna", "Ben"):
        own.page.get_by_label("Name of the annotator").fill(name)
        own.page.get_by_role("button", name=f"Label as {name}").click()
        there(own, ".saving")
        assert axe(own.page) == []
        label = {"Anna": 0, "Ben": 1}[name]
        own.page.get_by_role("button", name="Span from here").click()
        own.page.keyboard.press("End")
        own.shows(59)
        own.page.locator(".answers button").nth(label).click()
        there(own, ".ready")
        own.until("() => document.querySelector('.saving').textContent === 'saved'")
        if name == "Anna":
            own.page.get_by_role("button", name="Stop").click()
            own.page.get_by_role("link", name="cup", exact=True).click()
    own.page.get_by_role("button", name="Start the consensus").click()
    there(own, ".run .bar span")
    assert axe(own.page) == []


def test_an_empty_folder_says_what_to_do_and_takes_a_video(tmp_path, desk, axe) -> None:
    scene = tmp_path / "a.mp4"
    film(scene, "libx264")
    (tmp_path / "no.mp4").write_bytes(b"no video" * 99)
    (tmp_path / "empty").mkdir()
    with served(tmp_path / "empty") as address:
        own = desk(address, 390)
        own.open()
        own.page.get_by_text("Nothing here yet").wait_for()
        assert axe(own.page) == []
        own.page.locator("input[type=file]").set_input_files([scene])
        own.page.get_by_text("uploads/a.mp4", exact=True).wait_for()
        assert (tmp_path / "empty" / "uploads" / "a.mp4").is_file()
        own.page.locator("input[type=file]").set_input_files([tmp_path / "no.mp4"])
        said = own.page.locator(".drop .problem")
        said.wait_for()
        assert "no.mp4: is not a video or an image" in said.inner_text()
        assert [error for error in own.errors if "400" not in error] == []
        own.errors.clear()
        own.page.context.close()


def test_a_job_that_fails_says_why(address, desk, workspace) -> None:
    own = desk(address)
    own.open("#/track/scene%2Fscene.mp4")
    own.shows(0)
    own.page.get_by_label("Tracker").select_option("box")
    stage = own.page.locator(".stage").bounding_box()
    own.drag((stage["x"] + 90, stage["y"] + 90), (stage["x"] + 300, stage["y"] + 300))
    own.page.get_by_label("Words from").select_option("scene/vocabulary.yaml")
    own.page.get_by_label("Folder of the finding").fill("scene")
    own.page.get_by_role("button", name="Track and find").click()
    said = own.page.locator(".foot .problem")
    said.wait_for()
    assert said.inner_text() == '"scene" contains other files; give a new folder'
    assert not (workspace / "scene" / "finding.json").exists()
    assert [error for error in own.errors if "400" not in error] == []
    own.errors.clear()


def test_the_corpus_is_filtered_measured_and_opened(address, desk) -> None:
    own = desk(address)
    own.open("#/corpus")
    there(own, "td .bars")
    own.page.get_by_label("filter").fill("nothing like it")
    own.page.get_by_text("No finding matches these words").wait_for()
    own.page.get_by_label("filter").fill("cup")
    there(own, "td .bars")
    own.page.get_by_role("button", name="Measure against references").click()
    own.page.get_by_text("1 history with references").wait_for()
    numbers = own.page.locator("section td.number").all_inner_texts()
    assert len(numbers) == 3
    assert all(0 <= float(text.split()[0]) <= 100 for text in numbers)
    assert "nothing to resample for an interval" in own.page.locator("caption").inner_text()
    own.page.get_by_role("link", name="cup", exact=True).click()
    there(own, ".tl-windows button")


@pytest.mark.long
def test_what_is_measured_over_two_sources_has_intervals(address, desk, workspace) -> None:
    for folder in ("cup", "scene"):
        shutil.copytree(workspace / folder, workspace / "other" / folder)
    document = workspace / "other" / "cup" / "finding.json"
    told = document.read_text().replace(f"{workspace}/scene", f"{workspace}/other/scene")
    document.write_text(told)
    own = desk(address)
    own.open("#/corpus")
    own.page.get_by_role("button", name="Measure against references").click()
    own.page.get_by_text("95 % intervals, components resampled").wait_for()
    for text in own.page.locator("section td.number").all_inner_texts():
        mean, low, dash, high = text.split()
        assert dash == "–"
        assert float(low) <= float(mean) <= float(high)


@pytest.mark.long
def test_the_theme_is_chosen_and_remembered(address, desk) -> None:
    own = desk(address)
    own.open()
    back = "() => getComputedStyle(document.documentElement).backgroundColor"
    assert own.page.evaluate(back) == "rgb(255, 255, 255)"
    for _ in range(2):
        own.page.get_by_role("button", name="theme").click()
    own.until("() => document.documentElement.dataset.theme === 'dark'")
    own.page.reload()
    own.until("() => document.documentElement.dataset.theme === 'dark'")
    assert own.page.evaluate(back) == "rgb(20, 23, 27)"


# ---- what a browser cannot play


def film(path, codec: str, count: int = 12) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        for number in range(count):
            image = np.full((96, 128, 3), 20 * number, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))


@pytest.mark.long
def test_what_a_browser_cannot_play_is_decoded_by_the_server(tmp_path, desk) -> None:
    film(tmp_path / "old.avi", "mpeg4")
    (tmp_path / "images").mkdir()
    for number in range(12):
        Image.new("RGB", (128, 96), (20 * number,) * 3).save(tmp_path / f"images/{number:03}.png")
    with served(tmp_path) as address:
        own = desk(address)
        for name in ("old.avi", "images"):
            own.open(f"#/track/{name}")
            assert own.shows(0) == "server"
            assert "decoded by the server" in own.page.locator(".shown").inner_text()
            for frame in (7, 3, 11):
                own.page.fill(".goto", str(frame))
                own.page.keyboard.press("Enter")
                assert own.shows(frame) == "server"
                script = """() => {
                  const pen = document.createElement("canvas").getContext("2d");
                  pen.drawImage(document.querySelector(".stage > img"), 0, 0);
                  return pen.getImageData(40, 40, 1, 1).data[0];
                }"""
                assert abs(own.page.evaluate(script) - 20 * frame) < 9
            own.page.keyboard.press("Home")
            own.shows(0)
            own.page.get_by_role("button", name="play (Space)").click()
            assert own.shows(11) == "server"
        own.page.context.close()


@pytest.mark.long
def test_a_file_whose_codec_is_lacking_falls_back_to_the_server(tmp_path, desk) -> None:
    """It says that it plays, and the browser finds out that it does not."""
    film(tmp_path / "a.mp4", "libx264")
    with served(tmp_path) as address:
        own = desk(address)
        broken = {"body": b"x" * 500, "content_type": "video/mp4"}
        own.page.route("**/file", lambda route: route.fulfill(**broken))
        own.open("#/track/a.mp4")
        assert own.shows(0) == "server"
        own.page.get_by_text("this browser cannot play h264").wait_for()
        own.page.keyboard.press("End")
        assert own.shows(11) == "server"
        own.page.context.close()


@pytest.mark.long
def test_the_video_that_it_was_started_with_is_shown_and_views_of_nothing_are_not(
    workspace, desk
) -> None:
    with served(workspace, opened=["scene/scene.mp4"]) as address:
        own = desk(address)
        own.open()
        own.shows(0)
        own.page.get_by_role("heading", name="scene.mp4").wait_for()
        for view in ("workspace", "track", "finding", "nonsense", "finding/%E0%A4%A"):
            own.open(f"#/{view}")
            there(own, ".drop")  # the workspace
        own.page.context.close()


def test_words_that_come_late_leave_other_fields_as_they_are(address, desk) -> None:
    own = desk(address)
    own.open("#/track/scene%2Fscene.mp4")
    own.shows(0)
    held: list = []
    own.page.route("**/api/vocabularies/**", lambda route: held.append(route))
    with own.page.expect_request("**/api/vocabularies/**"):
        own.page.get_by_label("Words from").select_option("scene/vocabulary.yaml")
    own.page.get_by_label("Folder of the finding").fill("elsewhere")
    with own.page.expect_response("**/api/vocabularies/**"):
        held[0].continue_()
    own.until(
        "(text) => [...document.querySelectorAll('textarea')].some((e) => e.value.includes(text))",
        "drained cup",
    )
    assert own.page.get_by_label("Folder of the finding").input_value() == "elsewhere"
