"""Every view: accessible, in light and dark, wide and narrow; tracking, uploads, other videos."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import av
import numpy as np
import pytest
from helpers.studio_page import served
from PIL import Image

from dejacue import Finding, Interval, Timeline

VIEWS = {
    "workspace": ("", ".cards img"),
    "finding": ("#/finding/cup", ".tl-windows button"),
    "track": ("#/track/scene%2Fscene.mp4", ".tl-plot"),
    "jobs": ("#/jobs", ".empty"),
    "apply": ("#/apply/cup", ".note"),
}


def there(user, selector: str) -> None:
    user.until("(what) => document.querySelector(what) !== null", selector)


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
    user = desk(address, width, scheme)
    for name, (view, selector) in VIEWS.items():
        user.open(view)
        there(user, selector)
        assert axe(user.page) == [], name
        wide = user.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name} is {wide} wide"
    for tab in ("Show it", "Compare", "Doubts"):
        user.open("#/finding/cup")
        user.page.get_by_role("tab", name=tab).click()
        there(user, ".panel p, .panel .bars")
        assert axe(user.page) == [], tab
    user.page.get_by_role("button", name="keys").click()
    assert axe(user.page) == []


def test_an_empty_folder_says_what_to_do_and_takes_a_video(tmp_path, desk, axe) -> None:
    scene = tmp_path / "a.mp4"
    film(scene, "libx264", pixel_aspect=2)
    (tmp_path / "no.mp4").write_bytes(b"no video" * 99)
    (tmp_path / "empty").mkdir()
    with served(tmp_path / "empty") as address:
        user = desk(address, 390)
        user.open()
        user.page.get_by_text("Nothing here yet").wait_for()
        assert axe(user.page) == []
        routes: list = []
        user.page.route(
            "**/api/uploads**",
            lambda route: route.continue_() if routes else routes.append(route),
        )
        with user.page.expect_request("**/api/uploads**"):
            user.page.locator("input[type=file]").set_input_files([scene])
        user.page.get_by_label("upload").wait_for()  # how far it is
        routes[0].continue_()
        user.page.get_by_text("uploads/a.mp4", exact=True).wait_for()
        assert (tmp_path / "empty" / "uploads" / "a.mp4").is_file()
        user.page.locator("input[type=file]").set_input_files([tmp_path / "no.mp4"])
        problem = user.page.locator(".drop .problem")
        problem.wait_for()
        assert "no.mp4: is not a video or an image" in problem.inner_text()
        assert [error for error in user.errors if "400" not in error] == []
        user.errors.clear()
        user.open("#/track/uploads%2Fa.mp4")
        user.shows(0)
        stage = user.page.locator(".stage").bounding_box()
        assert stage["width"] / stage["height"] == pytest.approx(2 * 128 / 96, abs=0.05)
        user.page.context.close()


def test_a_job_that_fails_says_why(address, desk, workspace) -> None:
    user = desk(address)
    user.open("#/track/scene%2Fscene.mp4")
    user.shows(0)
    user.page.get_by_label("Tracker").select_option("fixed region")
    stage = user.page.locator(".stage").bounding_box()
    user.drag((stage["x"] + 90, stage["y"] + 90), (stage["x"] + 300, stage["y"] + 300))
    user.page.get_by_label("Words from").select_option("scene/vocabulary.yaml")
    user.page.get_by_label("Folder of the finding").fill("scene")
    user.page.get_by_role("button", name="Track and find").click()
    problem = user.page.locator(".foot .problem")
    problem.wait_for()
    assert problem.inner_text() == '"scene" contains other files; give a new folder'
    assert not (workspace / "scene" / "finding.json").exists()
    assert [error for error in user.errors if "400" not in error] == []
    user.errors.clear()


def test_a_card_shows_every_occurrence_and_how_far_to_trust_them(address, desk, workspace) -> None:
    before = Finding.read(workspace / "cup")
    found = [Interval("full", 10 * n, 10 * n + 5, confidence=0.9) for n in range(6)]
    found.append(Interval("empty", 6, 8, confidence=0.4))
    old = before.timeline
    timeline = Timeline.of(found, old.states, history_id=old.history_id, evidence=old.evidence)
    replace(before, timeline=timeline).save(workspace / "cup")
    user = desk(address)
    user.open()
    card = user.page.locator(".card", has_text="half full")
    card.get_by_text("trust: unsure").wait_for()
    assert card.locator("rect.bar").count() == 7
    assert card.get_by_role("img").last.get_attribute("aria-label") == (
        "empty: 6 – 8, half full: not found, full: 0 – 5, 10 – 15, 20 – 25, 30 – 35 and 2 more"
    )


@pytest.mark.long
def test_the_theme_is_chosen_and_remembered(address, desk) -> None:
    user = desk(address)
    user.open()
    back = "() => getComputedStyle(document.documentElement).backgroundColor"
    assert user.page.evaluate(back) == "rgb(255, 255, 255)"
    for _ in range(2):
        user.page.get_by_role("button", name="theme").click()
    user.until("() => document.documentElement.dataset.theme === 'dark'")
    user.page.reload()
    user.until("() => document.documentElement.dataset.theme === 'dark'")
    assert user.page.evaluate(back) == "rgb(20, 23, 27)"


# ---- what a browser cannot play


def film(path, codec: str, count: int = 12, pixel_aspect: int = 1) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        stream.codec_context.sample_aspect_ratio = Fraction(pixel_aspect)
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
        user = desk(address)
        for name in ("old.avi", "images"):
            user.open(f"#/track/{name}")
            assert user.shows(0) == "server"
            assert "decoded by the server" in user.page.locator(".shown").inner_text()
            for frame in (7, 3, 11):
                user.page.fill(".goto", str(frame))
                user.page.keyboard.press("Enter")
                assert user.shows(frame) == "server"
                script = """() => {
                  const pen = document.createElement("canvas").getContext("2d");
                  pen.drawImage(document.querySelector(".stage > img"), 0, 0);
                  return pen.getImageData(40, 40, 1, 1).data[0];
                }"""
                assert abs(user.page.evaluate(script) - 20 * frame) < 9
            user.page.keyboard.press("Home")
            user.shows(0)
            user.page.get_by_role("button", name="play (Space)").click()
            assert user.shows(11) == "server"
        user.page.context.close()


@pytest.mark.long
def test_a_file_whose_codec_is_lacking_falls_back_to_the_server(tmp_path, desk) -> None:
    """It says that it plays, and the browser finds out that it does not."""
    film(tmp_path / "a.mp4", "libx264")
    with served(tmp_path) as address:
        user = desk(address)
        broken = {"body": b"x" * 500, "content_type": "video/mp4"}
        user.page.route("**/file", lambda route: route.fulfill(**broken))
        user.open("#/track/a.mp4")
        assert user.shows(0) == "server"
        user.page.get_by_text("this browser cannot play h264").wait_for()
        user.page.keyboard.press("End")
        assert user.shows(11) == "server"
        user.page.context.close()


@pytest.mark.long
def test_the_video_that_it_was_started_with_is_shown_and_views_of_nothing_are_not(
    workspace, desk
) -> None:
    with served(workspace, opened=["scene/scene.mp4"]) as address:
        user = desk(address)
        user.open()
        user.shows(0)
        user.page.get_by_role("heading", name="scene.mp4").wait_for()
        for view in ("workspace", "track", "finding", "nonsense", "finding/%E0%A4%A"):
            user.open(f"#/{view}")
            there(user, ".drop")  # the workspace
        user.page.context.close()


def test_words_that_come_late_leave_other_fields_as_they_are(address, desk) -> None:
    user = desk(address)
    user.open("#/track/scene%2Fscene.mp4")
    user.shows(0)
    routes: list = []
    user.page.route("**/api/vocabularies/**", lambda route: routes.append(route))
    with user.page.expect_request("**/api/vocabularies/**"):
        user.page.get_by_label("Words from").select_option("scene/vocabulary.yaml")
    user.page.get_by_label("Folder of the finding").fill("elsewhere")
    with user.page.expect_response("**/api/vocabularies/**"):
        routes[0].continue_()
    user.until(
        "(text) => [...document.querySelectorAll('textarea')].some((e) => e.value.includes(text))",
        "drained cup",
    )
    assert user.page.get_by_label("Folder of the finding").input_value() == "elsewhere"


def test_a_hundred_findings_are_searched_and_sorted_below_the_videos(address, desk) -> None:
    user = desk(address)
    rows = [
        {
            "id": f"f{n}",
            "object": "cup",
            "states": ["a", "b"],
            "intervals": [],
            "doubts": n % 7,
            "notes": [],
        }
        for n in range(100)
    ]
    user.page.route("**/api/findings", lambda route: route.fulfill(json=rows))

    def listed(route) -> None:
        answer = route.fetch()
        ids = [row["id"] for row in rows]
        route.fulfill(response=answer, json={**answer.json(), "findings": ids})

    user.page.route("**/api/workspace", listed)
    user.open()
    names = """() => [...document.querySelectorAll("main > section:last-child b")]
      .map((name) => name.innerText)"""
    user.until(f"() => ({names})().length === 100")
    assert user.page.evaluate(names)[:3] == ["f0", "f1", "f2"]  # numbers count, not letters
    tops = user.page.evaluate(
        "() => [...document.querySelectorAll('.drop, main > section')].map((e) => e.innerText)"
    )
    assert tops[0].startswith("Drop videos")
    assert tops[1].startswith("Videos")
    user.page.get_by_label("order of the findings").select_option("doubts")
    user.until(f"() => ({names})()[0] === 'f6'")
    user.page.get_by_label("search").fill("CUP f99")
    user.until(f"() => ({names})().join() === 'f99'")
    user.page.get_by_text("1 of 100").wait_for()
