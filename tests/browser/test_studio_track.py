"""Pick and track in the page: with a box, and with SAM 2 (a tiny model) by clicks."""

from __future__ import annotations

import threading

import av
import numpy as np
import pytest
from helpers.studio_page import served

from dejacue import Finding
from dejacue.studio.jobs import TaskQueue

SCENE = "#/track/scene%2Fscene.mp4"
LONG = 60  # frames


def stage_at(own, width: int):
    """→ where a pixel of the video is on the screen."""
    box = own.page.locator(".stage").bounding_box()
    scale = box["width"] / width
    return lambda x, y: (box["x"] + x * scale, box["y"] + y * scale)


def name_states(own, *states: tuple[str, str]) -> None:
    for number, (name, text) in enumerate(states, 1):
        own.page.get_by_label(f"name of state {number}").fill(name)
        own.page.locator(f"fieldset:nth-of-type({number}) textarea").fill(text)


def go_to(own, frame: int) -> None:
    own.page.fill(".goto", str(frame))
    own.page.keyboard.press("Enter")
    own.shows(frame)


def told(own, path: str):
    """What the studio answers to the page."""
    return own.page.evaluate("async (path) => (await fetch(`/api/${path}`)).json()", path)


def jobs_done(own, count: int) -> None:
    """Waits for so many jobs, and until the page shows the last one."""
    script = """async (count) => (await (await fetch("/api/jobs")).json())
      .filter((job) => job.state === "done").length === count"""
    own.until(script, count)
    own.until("() => document.querySelector('.foot .job.done') !== null")


def polygons(own) -> str:
    """The outlines that are drawn, as text."""
    return own.page.evaluate(
        "[...document.querySelectorAll('.stage polygon')].map((own) => own.getAttribute('points'))"
        ".join(' | ')"
    )


def test_a_box_is_followed_corrected_and_found(address, desk, workspace) -> None:
    own = desk(address)
    own.open(SCENE)
    own.shows(0)
    page = own.page
    start = page.get_by_role("button", name="Track and find")
    assert "Mark the object first" in page.locator(".foot").inner_text()
    page.get_by_label("Tracker").select_option("box")
    at = stage_at(own, 192)
    own.drag(at(40, 30), at(150, 130))
    own.until("() => document.querySelectorAll('.outline.preview').length > 0")
    assert page.locator(".marks li").first.inner_text().startswith("frame 0: box 40, 30, 150, 130")
    assert start.is_disabled()  # nothing to look for yet
    assert "Name and describe at least two states" in page.locator(".foot").inner_text()
    name_states(own, ("empty", "drained cup"), ("full", "filled up cup"))
    page.get_by_label("Folder of the finding").fill("made/boxed")
    start.click()
    page.get_by_role("button", name="Open").click()
    own.until("() => document.querySelectorAll('.tl-windows button').length >= 2")
    made = Finding.read(workspace / "made" / "boxed")
    assert made.made.tracker == "box, approximate"
    page.locator("h1").click()
    page.keyboard.press("2")  # an example, which is not lost when the object is followed again
    page.keyboard.press("Control+s")
    page.get_by_text("saved in made/boxed").wait_for()

    page.get_by_role("tab", name="Doubts").click()
    page.get_by_role("link", name="Track it again").click()
    page.get_by_text("Correct made/boxed").wait_for()
    own.shows(0)
    assert page.get_by_label("Tracker").input_value() == "box"  # as it was followed
    own.until("() => document.querySelectorAll('.stage .outline').length > 0")
    go_to(own, 20)
    own.until("() => document.querySelectorAll('.stage .outline').length > 0")
    before, at = polygons(own), stage_at(own, 192)
    own.drag(at(60, 30), at(170, 130))
    own.until("() => document.querySelectorAll('.marks li').length >= 2")
    page.get_by_role("button", name="Track again").click()
    jobs_done(own, 2)
    go_to(own, 25)  # no prompt is there: the outline is that of the new masks
    own.until("() => document.querySelectorAll('.stage .outline').length > 0")
    assert polygons(own) != before
    page.get_by_role("button", name="Open").click()
    own.until("() => location.hash.startsWith('#/finding')")
    info = told(own, "findings/made/boxed/info")
    assert len(info["prompts"]) == 2
    assert [mark["state"] for mark in info["examples"]] == ["full"]
    own.open("#/jobs")
    own.until("() => document.querySelectorAll('.job.done').length === 2")


def test_where_weights_lack_one_click_goes_on_without_them(address, desk, monkeypatch) -> None:
    own = desk(address)
    own.expected = "503"
    asked: list[str] = []
    own.page.on("request", lambda one: asked.append(one.url) if "preview" in one.url else None)
    lacking = {"status": 503, "json": {"detail": "the weights of sam2 are not on this machine"}}

    def answer(route) -> None:
        if route.request.post_data_json["tracker"] == "box":
            route.continue_()
        else:
            route.fulfill(**lacking)

    own.page.route("**/preview", answer)
    own.open(SCENE)
    own.shows(0)
    at = stage_at(own, 192)
    own.drag(at(40, 30), at(150, 130))
    own.page.get_by_text("the weights of sam2 are not on this machine").wait_for()
    own.drag(at(50, 30), at(150, 130))
    own.until("() => document.querySelector('.marks li').innerText.includes('box 50')")
    own.page.get_by_text("the weights of sam2 are not on this machine").wait_for()
    assert len(asked) == 1  # what lacks is not asked for again
    own.page.get_by_role("button", name="Continue with the box tracker").click()
    own.until("() => document.querySelectorAll('.outline.preview').length > 0")
    assert own.page.get_by_label("Tracker").input_value() == "box"
    own.page.get_by_text("box sees this").wait_for()


def test_the_words_of_a_list_are_taken_and_kept(address, desk, workspace) -> None:
    own = desk(address)
    own.open(SCENE)
    own.shows(0)
    own.page.get_by_label("Words from").select_option("scene/vocabulary.yaml")
    own.until("() => document.querySelectorAll('fieldset').length === 3")
    assert own.page.get_by_label("name of state 2").input_value() == "half full"
    own.open("#/finding/cup")
    own.page.get_by_role("button", name="Save these words").click()
    own.page.get_by_label("File in the workspace").fill("lists/cup.txt")
    own.page.get_by_role("button", name="Save", exact=True).last.click()
    own.page.get_by_text("a word list ends in .yaml").wait_for()
    own.page.get_by_label("File in the workspace").fill("lists/cup.yaml")
    own.page.get_by_role("button", name="Save", exact=True).last.click()
    own.page.get_by_text("written: lists/cup.yaml").wait_for()
    assert "half empty cup" in (workspace / "lists" / "cup.yaml").read_text(encoding="utf-8")
    own.until(
        "() => [...document.querySelectorAll('option')].some((own) => own.value === "
        "'lists/cup.yaml')"
    )
    own.expected = "400"


def test_a_finding_that_is_there_is_not_replaced_unawares(address, desk, workspace) -> None:
    own = desk(address)
    (workspace / "findings").mkdir()
    (workspace / "cup").rename(workspace / "findings" / "scene")
    own.open(SCENE)
    own.shows(0)
    folder = own.page.get_by_label("Folder of the finding")
    assert folder.input_value() == "findings/scene-2"
    own.page.get_by_role("link", name="findings/scene").wait_for()
    folder.fill("findings/scene")
    own.page.get_by_text("The finding in findings/scene will be replaced").wait_for()


@pytest.mark.long
def test_the_finding_of_the_workspace_itself_is_followed_again(workspace, desk) -> None:
    with served(workspace / "cup", tracker="box") as address:
        (workspace / "scene" / "scene.mp4").rename(workspace / "cup" / "scene.mp4")
        own = desk(address)
        own.open("#/track/scene.mp4%3Ffinding.json")
        own.page.get_by_role("heading", name="Correct cup").wait_for()
        own.shows(0)
        at = stage_at(own, 192)
        own.drag(at(40, 30), at(150, 130))
        own.page.get_by_role("button", name="Track").click()
        own.page.get_by_role("button", name="Open").click()
        own.until("() => document.querySelectorAll('.tl-windows button').length >= 3")
        assert Finding.read(workspace / "cup").made.tracker == "box, approximate"
        for view in ("corpus", "annotate"):  # it is called as its folder is
            own.open(f"#/{view}")
            own.page.get_by_role("link", name="cup", exact=True).wait_for()
        own.page.context.close()


# ---- SAM 2


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    from helpers.tiny_sam2 import random_model

    folder = tmp_path_factory.mktemp("weights") / "tiny"
    random_model().save_pretrained(folder)
    return folder


def moving(path, count: int) -> None:
    """A bright square before noise."""
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
def held(monkeypatch):
    """Jobs wait after a fifth of their first stage, until they are stopped or this is set."""
    go_on, run = threading.Event(), TaskQueue._work

    def work_held(jobs, job) -> None:
        work = job.work

        def waiting(progress):
            def told(stage, done, total=None, note="") -> None:
                progress(stage, done, total, note)
                while total and done > total / 5 and not (go_on.is_set() or job.cancelled):
                    go_on.wait(0.02)

            return work(told)

        job.work = waiting
        run(jobs, job)

    monkeypatch.setattr(TaskQueue, "_work", work_held)
    yield go_on
    go_on.set()


@pytest.mark.long
def test_sam2_sees_a_click_is_stopped_goes_on_and_is_corrected(
    tmp_path, desk, weights, held
) -> None:
    root = tmp_path / "films"
    root.mkdir()
    moving(root / "square.mp4", LONG)
    with served(root, tracker=f"sam2:{weights}") as address:
        own = desk(address)
        page = own.page
        own.open("#/track/square.mp4")
        own.shows(0)
        at = stage_at(own, 96)
        page.keyboard.press("i")  # click on the object
        page.mouse.click(*at(14, 30))
        own.until("() => document.querySelectorAll('.outline.preview').length > 0")
        page.get_by_text(f"sam2:{weights} sees this").wait_for()
        first = polygons(own)
        page.keyboard.press("o")  # and not on this
        page.mouse.click(*at(80, 10))
        own.until(
            "(first) => { const now = [...document.querySelectorAll('.outline.preview')]"
            ".map((own) => own.getAttribute('points')).join(' | ');"
            " return now && now !== first; }",
            first,
        )
        name_states(own, ("left", "a square at the left"), ("right", "a square at the right"))
        page.get_by_role("button", name="Track and find").click()
        own.until("() => document.querySelector('.foot progress')?.value > .1")
        page.get_by_role("button", name="Stop").click()
        own.until("() => document.querySelector('.foot .job.stopped') !== null")
        assert not (root / "findings" / "square" / "finding.json").exists()
        held.set()
        page.get_by_role("button", name="Continue").click()
        page.get_by_role("button", name="Open").wait_for()
        assert [job["state"] for job in told(own, "jobs")] == ["done", "stopped"]

        made = Finding.read(root / "findings" / "square")
        assert made.made.tracker == f"sam2:{weights}"
        assert made.doubts  # a random model is not sure of anything
        own.until("() => document.querySelectorAll('.panel .marks').length === 2")
        doubts = page.locator(".panel .marks").nth(1).locator("li")
        assert doubts.count() == len(made.doubts)
        page.locator("h1").click()
        for window, text in (*made.doubts, made.doubts[0])[
            1 if made.doubts[0][0].start == 0 else 0 :
        ][:3]:
            page.keyboard.press("d")
            own.shows(window.start)
            assert text in page.locator(".panel .here").first.inner_text()
        go_to(own, made.doubts[-1][0].start)
        page.keyboard.press("i")
        page.mouse.click(*at(50, 30))
        own.until("() => document.querySelectorAll('.panel .marks')[0].children.length === 3")
        page.get_by_role("button", name="Track again").click()
        jobs_done(own, 2)
        page.get_by_role("button", name="Open").click()
        own.until("() => document.querySelectorAll('.tl-windows button').length >= 2")
        info = page.evaluate(
            "async () => (await fetch('/api/findings/findings/square/info')).json()"
        )
        assert len(info["prompts"]) == 3
        page.context.close()
