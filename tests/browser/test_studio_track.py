"""Pick and track in the page: with a box, and with SAM 2 (a tiny model) by clicks."""

from __future__ import annotations

import threading

import av
import numpy as np
import pytest
from helpers.studio_page import DRAWN, served

from dejacue import Finding
from dejacue.models.encoders.mini import Mini
from dejacue.studio.jobs import TaskQueue

SCENE = "#/track/scene%2Fscene.mp4"
LONG = 60  # frames


def stage_at(user, width: int):
    """→ where a pixel of the video is on the screen."""
    box = user.page.locator(".stage").bounding_box()
    scale = box["width"] / width
    return lambda x, y: (box["x"] + x * scale, box["y"] + y * scale)


def name_states(user, *states: tuple[str, str]) -> None:
    for number, (name, text) in enumerate(states, 1):
        user.page.get_by_label(f"name of state {number}").fill(name)
        user.page.locator(f"fieldset:nth-of-type({number}) textarea").fill(text)


def go_to(user, frame: int) -> None:
    user.page.fill(".goto", str(frame))
    user.page.keyboard.press("Enter")
    user.shows(frame)


def fetched(user, path: str):
    """Return the answer of the studio to the page."""
    return user.page.evaluate("async (path) => (await fetch(`/api/${path}`)).json()", path)


def jobs_done(user, count: int) -> None:
    """Wait for so many jobs, and until the page shows the last one."""
    script = """async (count) => (await (await fetch("/api/jobs")).json())
      .filter((job) => job.state === "done").length === count"""
    user.until(script, count)
    user.until("() => document.querySelector('.foot .job.done') !== null")


def polygons(user) -> str:
    """Return the outlines that are drawn, as text."""
    return user.page.evaluate(
        "[...document.querySelectorAll('.stage polygon')]"
        ".map((polygon) => polygon.getAttribute('points')).join(' | ')"
    )


@pytest.mark.long
def test_a_box_that_stays_is_corrected_and_found(address, desk, workspace) -> None:
    user = desk(address)
    user.open(SCENE)
    user.shows(0)
    page = user.page
    start = page.get_by_role("button", name="Track and find")
    assert "Mark the object first" in page.locator(".foot").inner_text()
    page.get_by_label("Tracker").select_option("fixed region")
    at = stage_at(user, 192)
    user.drag(at(40, 30), at(150, 130))
    page.locator(".marks li").first.wait_for()
    assert page.locator(".marks li").first.inner_text().startswith("frame 0: box 40, 30, 150, 130")
    assert start.is_disabled()  # nothing to look for yet
    assert "Name at least two states" in page.locator(".foot").inner_text()
    name_states(user, ("empty", "drained cup"), ("full", "filled up cup"))
    page.get_by_label("Folder of the finding").fill("made/boxed")
    start.click()
    page.get_by_role("button", name="Open").click()
    user.until("() => document.querySelectorAll('.tl-windows button').length >= 2")
    finding = Finding.read(workspace / "made" / "boxed")
    assert finding.provenance.tracker == "fixed region"
    page.locator("h1").click()
    page.keyboard.press("2")  # an example, which is not lost when the object is followed again
    page.keyboard.press("Control+s")
    page.get_by_text("saved in made/boxed").wait_for()

    page.get_by_role("tab", name="Doubts").click()
    page.get_by_role("link", name="Track it again").click()
    page.get_by_text("Correct made/boxed").wait_for()
    user.shows(0)
    assert page.get_by_label("Tracker").input_value() == "fixed region"
    user.until("() => document.querySelectorAll('.stage .outline').length > 0")
    go_to(user, 20)
    user.until("() => document.querySelectorAll('.stage .outline').length > 0")
    before, at = polygons(user), stage_at(user, 192)
    user.drag(at(60, 30), at(170, 130))
    user.until("() => document.querySelectorAll('.marks li').length >= 2")
    page.get_by_role("button", name="Track again").click()
    jobs_done(user, 2)
    go_to(user, 25)  # no prompt is there: the outline is that of the new masks
    user.until("() => document.querySelectorAll('.stage .outline').length > 0")
    assert polygons(user) != before
    page.get_by_role("button", name="Open").click()
    user.until("() => location.hash.startsWith('#/finding')")
    info = fetched(user, "findings/made/boxed/info")
    assert len(info["prompts"]) == 2
    assert [mark["state"] for mark in info["examples"]] == ["full"]
    user.open("#/jobs")
    user.until("() => document.querySelectorAll('.job.done').length === 2")


@pytest.mark.long
def test_boxes_and_clicks_are_moved_by_hand_and_by_key(address, desk, axe) -> None:
    user = desk(address)
    user.page.set_viewport_size({"width": 1280, "height": 720})
    user.open(SCENE)
    user.shows(0)
    page, mark = user.page, user.page.locator(".marks li").first
    page.get_by_label("Tracker").select_option("fixed region")
    page.locator("h1").click()
    page.keyboard.press("m")  # without a pointer: in the middle
    user.until("() => document.activeElement.matches('.handle')")
    assert mark.inner_text().startswith("frame 0: box 48, 36, 144, 108")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowDown")
    user.until("() => document.querySelector('.marks').innerText.includes('box 49, 46, 145, 118')")
    page.keyboard.press("Tab")  # a corner
    page.keyboard.press("Shift+ArrowLeft")
    user.until("() => document.querySelector('.marks').innerText.includes('box 39, 46, 145, 118')")
    user.stands_still(".stage")
    corner = page.get_by_role("button", name="bottom right corner").bounding_box()
    at = stage_at(user, 192)
    user.drag((corner["x"] + 8, corner["y"] + 8), at(230, 170))  # it stays in the picture
    user.until("() => document.querySelector('.marks').innerText.includes('box 39, 46, 192, 144')")
    page.get_by_role("button", name="whole box").hover()  # what was dropped moves no more
    page.evaluate(DRAWN)
    assert "box 39, 46, 192, 144" in mark.inner_text()
    page.keyboard.press("i")
    page.keyboard.press("m")
    user.until("() => document.activeElement.matches('.spot')")
    page.keyboard.press("ArrowUp")
    user.until("() => document.querySelector('.marks').innerText.includes('the object: 96, 71')")
    assert axe(page) == []
    page.keyboard.press("Delete")
    user.until("() => document.querySelectorAll('.marks li').length === 1")
    pictures = page.locator(".filmstrip button")
    assert pictures.count() == 16
    pictures.nth(8).focus()
    page.keyboard.press("Enter")
    user.shows(31)


def test_where_weights_lack_one_click_goes_on_without_them(address, desk, monkeypatch) -> None:
    user = desk(address)
    user.expected = "503"
    urls: list[str] = []
    user.page.on(
        "request", lambda request: urls.append(request.url) if "preview" in request.url else None
    )
    lacking = {"status": 503, "json": {"detail": "the weights of sam2 are not on this machine"}}
    user.page.route("**/preview", lambda route: route.fulfill(**lacking))
    user.open(SCENE)
    user.shows(0)
    at = stage_at(user, 192)
    user.drag(at(40, 30), at(150, 130))
    user.page.get_by_text("the weights of sam2 are not on this machine").wait_for()
    user.drag(at(50, 30), at(150, 130))
    user.until("() => document.querySelector('.marks li').innerText.includes('box 50')")
    user.page.get_by_text("the weights of sam2 are not on this machine").wait_for()
    assert len(urls) == 1  # what lacks is not urls for again
    user.page.get_by_role("button", name="Continue with a fixed region").click()
    assert user.page.get_by_label("Tracker").input_value() == "fixed region"
    user.page.get_by_text("the weights of sam2").wait_for(state="detached")
    assert len(urls) == 1


@pytest.mark.long
def test_the_words_of_a_list_are_taken_and_kept(address, desk, workspace) -> None:
    user = desk(address)
    user.open(SCENE)
    user.shows(0)
    for number, name in enumerate(("full", "spilt"), 1):
        user.page.get_by_label(f"name of state {number}").fill(name)
        user.page.get_by_role("button", name=f"This frame shows {name}").click()
    user.page.get_by_label("Words from").select_option("scene/vocabulary.yaml")
    user.until("() => document.querySelectorAll('fieldset').length === 4")
    assert user.page.get_by_label("name of state 2").input_value() == "half full"
    shown = user.page.locator("fieldset", has_text="frame 0")  # also of a state that is not listed
    assert shown.locator(".name").evaluate_all("(all) => all.map((name) => name.value)") == [
        "full",
        "spilt",
    ]
    user.open("#/finding/cup")
    user.page.get_by_role("button", name="Save these words").click()
    user.page.get_by_label("File in the workspace").fill("lists/cup.txt")
    user.page.get_by_role("button", name="Save", exact=True).last.click()
    user.page.get_by_text("a word list ends in .yaml").wait_for()
    user.page.get_by_label("File in the workspace").fill("lists/cup.yaml")
    user.page.get_by_role("button", name="Save", exact=True).last.click()
    user.page.get_by_text("written: lists/cup.yaml").wait_for()
    assert "half empty cup" in (workspace / "lists" / "cup.yaml").read_text(encoding="utf-8")
    user.until(
        "() => [...document.querySelectorAll('option')].some((option) => option.value === "
        "'lists/cup.yaml')"
    )
    user.expected = "400"


DRAFTS = "Object.keys(localStorage).filter((key) => key.includes('track scene')).length"


@pytest.mark.long
def test_what_was_shown_and_typed_is_kept_until_its_job_is_done(
    workspace, desk, monkeypatch
) -> None:
    plain, fails = Mini.encode_images, [True]

    def encode(self, crops):
        if fails:
            raise MemoryError("not enough memory")
        return plain(self, crops)

    monkeypatch.setattr(Mini, "encode_images", encode)
    with served(workspace) as address:
        user = desk(address)
        page, held = user.page, []
        user.open(SCENE)
        user.shows(0)
        page.get_by_label("Tracker").select_option("fixed region")
        at = stage_at(user, 192)
        user.drag(at(40, 30), at(150, 130))
        page.locator(".marks li").first.wait_for()
        name_states(user, ("empty", "drained cup"), ("full", "filled up cup"))
        page.route(
            "**/api/jobs",
            lambda route: (
                route.continue_() if route.request.method == "GET" else held.append(route)
            ),
        )
        first = page.locator("fieldset:nth-of-type(1) textarea")

        def start_and_type(name: str, text: str) -> None:
            page.get_by_role("button", name=name).click()
            while not held:
                page.wait_for_timeout(30)
            first.fill(text)
            held.pop().continue_()

        start_and_type("Track and find", "typed while it is sent")
        page.locator(".foot .job.failed").wait_for()
        page.get_by_role("link", name="Jobs").click()
        page.locator(".job.failed").wait_for()
        fails.clear()
        page.go_back()
        user.shows(0)
        assert page.locator(".marks li").count() == 1
        assert first.input_value() == "typed while it is sent"

        start_and_type("Track and find", "typed later")
        jobs_done(user, 1)
        assert page.evaluate(DRAFTS) == 1  # what was typed since
        for frame, name in ((5, "empty"), (50, "full")):
            go_to(user, frame)
            page.get_by_role("button", name=f"This frame shows {name}").click()
        page.get_by_role("button", name="Track again").click()
        while not held:
            page.wait_for_timeout(30)
        with page.expect_response(lambda answer: answer.request.method == "POST"):
            held.pop().continue_()
        page.get_by_role("link", name="Jobs").click()  # what it says is there, whatever is shown
        user.until("() => document.querySelectorAll('.job.done').length === 2")
        assert page.evaluate(DRAFTS) == 0
        named = Finding.read(workspace / "findings" / "scene").named
        assert {state: [tuple(w) for w in windows] for state, windows in named.items()} == {
            "empty": [(5, 5)],
            "full": [(50, 50)],
        }
        page.context.close()


def test_a_finding_that_is_there_is_not_replaced_unawares(address, desk, workspace) -> None:
    user = desk(address)
    (workspace / "findings").mkdir()
    (workspace / "cup").rename(workspace / "findings" / "scene")
    user.open(SCENE)
    user.shows(0)
    folder = user.page.get_by_label("Folder of the finding")
    assert folder.input_value() == "findings/scene-2"
    user.page.get_by_role("link", name="findings/scene").wait_for()
    folder.fill("findings/scene")
    user.page.get_by_text("The finding in findings/scene will be replaced").wait_for()


@pytest.mark.long
def test_the_finding_of_the_workspace_itself_is_followed_again(workspace, desk) -> None:
    with served(workspace / "cup") as address:
        (workspace / "scene" / "scene.mp4").rename(workspace / "cup" / "scene.mp4")
        user = desk(address)
        user.expected = "status of 404"  # for a moment there is no finding: the job writes it anew
        user.open("#/track/scene.mp4/finding.json")
        user.page.get_by_role("heading", name="Correct cup").wait_for()
        user.shows(0)
        user.page.get_by_label("Tracker").select_option("fixed region")
        at = stage_at(user, 192)
        user.drag(at(40, 30), at(150, 130))
        user.page.get_by_role("button", name="Track").click()
        user.page.get_by_role("button", name="Open").click()
        user.until("() => document.querySelectorAll('.tl-windows button').length >= 3")
        assert Finding.read(workspace / "cup").provenance.tracker == "fixed region"
        user.open()
        user.page.locator(".card b", has_text="cup").wait_for()  # it is called as its folder is
        user.page.context.close()


# ---- SAM 2


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    from helpers.tiny_sam2 import random_model

    folder = tmp_path_factory.mktemp("weights") / "tiny"
    random_model().save_pretrained(folder)
    return folder


def moving(path, count: int) -> None:
    """Write a video of a bright square before noise."""
    draw = np.random.default_rng(3)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for number in range(count):
            image = draw.integers(0, 90, (64, 96, 3), dtype=np.uint8)
            x = 4 + number * 60 // count
            image[20:44, x : x + 24] = (230, 200, 40)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))


@pytest.fixture
def go_on(monkeypatch):
    """Make jobs wait after a fifth of their first stage, until they are stopped or this is set."""
    go_on, run = threading.Event(), TaskQueue._work

    def work_held(jobs, job) -> None:
        work = job.work

        def waiting(progress):
            def report(stage, done, total=None, note="") -> None:
                progress(stage, done, total, note)
                while total and done > total / 5 and not (go_on.is_set() or job.cancelled):
                    go_on.wait(0.02)

            return work(report)

        job.work = waiting
        run(jobs, job)

    monkeypatch.setattr(TaskQueue, "_work", work_held)
    yield go_on
    go_on.set()


@pytest.mark.long
def test_a_job_that_was_stopped_stays_so_when_the_answer_to_stop_is_late(
    address, desk, go_on
) -> None:
    user, held = desk(address), []
    page = user.page

    def hold(route) -> None:
        if route.request.method == "DELETE":
            held.append((route, route.fetch()))  # it says that the job is running
        else:
            route.continue_()

    page.route("**/api/jobs/*", hold)
    user.open(SCENE)
    user.shows(0)
    page.get_by_role("button", name="Whole picture").click()
    name_states(user, ("empty", "drained cup"), ("full", "filled up cup"))
    page.get_by_role("button", name="Track and find").click()
    user.until("() => document.querySelector('.foot progress')?.value > .1")
    page.get_by_role("button", name="Stop").click()
    user.until("() => document.querySelector('.foot .job.stopped') !== null")
    ((route, response),) = held
    assert response.json()["state"] == "running"
    with page.expect_event("requestfinished", lambda request: request.method == "DELETE"):
        route.fulfill(response=response)
    page.evaluate(DRAWN)
    assert page.get_by_role("button", name="Continue").is_visible()


@pytest.mark.long
def test_sam2_sees_a_click_is_stopped_goes_on_and_is_corrected(
    tmp_path, desk, weights, go_on
) -> None:
    root = tmp_path / "films"
    root.mkdir()
    moving(root / "square.mp4", LONG)
    with served(root, tracker=f"sam2:{weights}") as address:
        user = desk(address)
        page = user.page
        user.open("#/track/square.mp4")
        user.shows(0)
        at = stage_at(user, 96)
        page.keyboard.press("i")  # click on the object
        page.mouse.click(*at(14, 30))
        user.until("() => document.querySelectorAll('.outline.preview').length > 0")
        page.get_by_text(f"sam2:{weights} sees this").wait_for()
        first = polygons(user)
        page.keyboard.press("o")  # and not on this
        page.mouse.click(*at(80, 10))
        user.until(
            "(first) => { const now = [...document.querySelectorAll('.outline.preview')]"
            ".map((polygon) => polygon.getAttribute('points')).join(' | ');"
            " return now && now !== first; }",
            first,
        )
        name_states(user, ("left", "a square at the left"), ("right", "a square at the right"))
        page.get_by_role("button", name="Track and find").click()
        user.until("() => document.querySelector('.foot progress')?.value > .1")
        user.until(
            "() => document.querySelector('.filmstrip .now ~ .ahead') !== null"
        )  # runs along
        user.until("() => document.querySelector('.filmstrip .doubtful') !== null")  # already
        page.get_by_role("button", name="Stop").click()
        user.until("() => document.querySelector('.foot .job.stopped') !== null")
        assert not (root / "findings" / "square" / "finding.json").exists()
        go_on.set()
        page.get_by_role("button", name="Continue").click()
        page.get_by_role("button", name="Open").wait_for()
        assert [job["state"] for job in fetched(user, "jobs")] == ["done"]

        finding = Finding.read(root / "findings" / "square")
        assert finding.provenance.tracker == f"sam2:{weights}"
        assert finding.doubts  # a random model is not sure of anything
        user.until("() => document.querySelectorAll('.panel .marks').length === 2")
        doubts = page.locator(".panel .marks").nth(1).locator("li")
        assert doubts.count() == len(finding.doubts)
        user.until("() => document.querySelector('.filmstrip .doubtful') !== null")
        page.locator("h1").click()
        for window, text in (*finding.doubts, finding.doubts[0])[
            1 if finding.doubts[0][0].start == 0 else 0 :
        ][:3]:
            page.keyboard.press("d")
            user.shows(window.start)
            assert text in page.locator(".panel .here").first.inner_text()
        go_to(user, finding.doubts[-1][0].start)
        page.keyboard.press("i")
        page.mouse.click(*at(50, 30))
        user.until("() => document.querySelectorAll('.panel .marks')[0].children.length === 3")
        page.get_by_role("button", name="Track again").click()
        jobs_done(user, 2)
        page.get_by_role("button", name="Open").click()
        user.until("() => document.querySelectorAll('.tl-windows button').length >= 2")
        info = page.evaluate(
            "async () => (await fetch('/api/findings/findings/square/info')).json()"
        )
        assert len(info["prompts"]) == 3
        page.context.close()
