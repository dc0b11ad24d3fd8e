"""Jobs of the studio: from a box to a finding, progress, cancel, go on, what fails half-way."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import numpy as np
import pytest
from helpers.slow_encoder import Slow
from helpers.still_tracker import register
from helpers.studio_client import client_of, run_job, start_job, studio_of, wait_for_end

from dejacue import Finding, open_video
from dejacue.errors import InputError
from dejacue.models.encoders.mini import Mini
from dejacue.records import Note
from dejacue.studio.job_routes import _events
from dejacue.studio.jobs import BackgroundTask, TaskProgress, TaskQueue

VIDEO, MASKS, WORDS = "scene/scene.mp4", "scene/Annotations", "scene/vocabulary.yaml"
BOX = [{"frame": 0, "box": [40, 30, 150, 130]}]
FIND = {"kind": "find", "video": VIDEO, "masks": MASKS, "objects": [1], "vocabulary": WORDS}


def test_masks_and_words_become_a_finding(studio, client) -> None:
    job = run_job(client, **FIND, folder="made/one")
    assert (job["state"], job["problem"], job["result"]["finding"]) == ("done", None, "made/one")
    finding = Finding.read(studio.workspace.root / "made" / "one")
    known = Finding.read(studio.workspace.root / "cup")
    assert np.array_equal(finding.history.features, known.history.features)
    assert [tuple(m.window) for m in finding] == [tuple(m.window) for m in known]
    assert "made/one" in [row["id"] for row in client.get("/api/findings").json()]


def test_a_box_that_stays_becomes_a_finding(studio, client) -> None:
    body = {
        "kind": "find",
        "video": VIDEO,
        "prompts": BOX,
        "fixed": True,
        "stride": 2,
        "states": {"empty": ["drained cup"], "full": ["filled up cup"]},
    }
    job = run_job(client, **body, folder="boxed")
    assert job["state"] == "done", job["problem"]
    finding = Finding.read(studio.workspace.root / "boxed")
    assert finding.provenance.tracker == "fixed region"
    about = client.get("/api/findings/boxed/info").json()
    assert about["prompts"] == [{"object": 1, "frame": 0, "box": [40, 30, 150, 130], "point": None}]
    outline = client.get("/api/findings/boxed/outline/3").json()
    assert outline["outline"]
    corrected = [*BOX, {"frame": 20, "box": [60, 30, 170, 130]}]
    again = run_job(client, **{**body, "prompts": corrected}, folder="boxed")
    assert again["state"] == "done"
    about = client.get("/api/findings/boxed/info").json()
    assert (len(about["prompts"]), about["tracker"]) == (2, "boxes drawn by a person")
    between = client.get("/api/findings/boxed/outline/5").json()["outline"][0]
    assert min(x for x, _ in between) == 50  # frame 10 of the file: halfway
    clicked = {**body, "prompts": [{"frame": 0, "point": [90, 80, True]}]}
    assert "not clicks" in run_job(client, **clicked, folder="clicked")["problem"]


@pytest.mark.long
def test_what_was_shown_stays_when_the_object_is_followed_again(studio, client) -> None:
    register()
    body = {
        "kind": "find",
        "video": VIDEO,
        "prompts": BOX,
        "tracker": "still",
        "folder": "boxed",
        "states": {"empty": ["drained cup"], "full": ["filled up cup"]},
        "examples": [{"state": "full", "start": 50, "end": 55}],
        "changes": [30],
    }
    assert run_job(client, **body)["state"] == "done"
    info = client.get("/api/findings/boxed/info").json()
    (example,) = info["examples"]
    assert (example["state"], example["start"], example["end"]) == ("full", 50, 55)
    assert info["changes"] == [30]
    assert info["objects"] == [1]
    answer = client.post("/api/jobs", json={**FIND, "folder": "other", "changes": [30]})
    assert answer.status_code == 400
    assert "need states; give the states of the word list" in answer.json()["detail"]


def test_a_slow_encoder_is_paced_as_in_find(studio, client, monkeypatch) -> None:
    monkeypatch.setattr(Mini, "max_fps", open_video(studio.workspace.root / VIDEO).rate / 3)
    few, unpaced = (
        run_job(client, **FIND, **more, folder=folder)
        for folder, more in (("few", {}), ("every", {"stride": 1}))
    )
    assert any(
        note["text"].startswith("only one in 3 frames was used")
        for note in few["result"]["warnings"]
    )
    root = studio.workspace.root
    after = client_of(studio_of(root)).get("/api/jobs").json()  # of a studio that is started anew
    assert after[-1]["result"]["warnings"] == few["result"]["warnings"]
    histories = [Finding.read(root / folder).history for folder in ("few", "every")]
    assert 3 * histories[0].frames_looked_at == histories[1].frames_looked_at
    assert unpaced["state"] == "done"


@pytest.mark.long
def test_an_object_is_followed_alone(studio, client) -> None:
    register()
    body = {"kind": "track", "video": VIDEO, "prompts": BOX, "tracker": "still"}
    job = run_job(client, **body, folder="followed")
    assert job["state"] == "done"
    assert (studio.workspace.root / "followed" / "track.json").is_file()
    assert job["result"]["masks"] == "followed"


def test_a_cancelled_job_keeps_what_it_did_and_goes_on(studio, client, monkeypatch) -> None:
    slow = Slow()
    monkeypatch.setattr(studio, "encoder", lambda name=None: slow)
    job = start_job(client, **FIND, folder="made")
    assert slow.at_work.wait(600)
    assert client.get(f"/api/jobs/{job['id']}").json()["state"] == "running"
    waiting = start_job(client, **FIND, folder="never")
    assert client.delete(f"/api/jobs/{waiting['id']}").json()["state"] == "stopped"
    twice = client.post("/api/jobs", json={**FIND, "folder": "made"})
    assert (twice.status_code, "a job is using" in twice.json()["detail"]) == (409, True)
    assert client.put("/api/findings/cup", json={"folder": "made"}).status_code == 409
    client.delete(f"/api/jobs/{job['id']}")
    slow.go_on.set()
    stopped = wait_for_end(client, job)
    assert stopped["state"] == "stopped"
    assert "will be reused" in stopped["problem"]
    assert "of 60 frames are kept" in stopped["problem"]
    before = slow.images
    done = wait_for_end(client, client.post(f"/api/jobs/{job['id']}/again").json())
    assert done["state"] == "done", done["problem"]
    assert before < slow.images < before + 60
    assert Finding.read(studio.workspace.root / "made").history is not None
    assert not (studio.workspace.root / "never").exists()
    states = [job["state"] for job in client.get("/api/jobs").json()]
    assert states == ["done", "stopped"]  # the one that went on is not listed twice


def test_words_alone_are_refused_of_an_encoder_that_knows_none(studio, client, monkeypatch) -> None:
    answer = client.post("/api/jobs", json={**FIND, "folder": "made", "encoder": "lite"})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("lite knows no words; show a frame of each state")
    wordless = Mini()
    wordless.has_text = False
    monkeypatch.setattr(studio, "encoder", lambda name=None: wordless)
    assert "mini knows no words" in run_job(client, **FIND, folder="made")["problem"]
    texts = client.post("/api/words", json={"texts": ["cup"], "encoder": "mini"}).json()
    assert texts["has_text"] is False
    body = {"states": {"a": ["b"], "c": ["d"]}, "examples": []}
    answer = client.post("/api/findings/cup/read", json=body)
    assert (answer.status_code, "knows no words" in answer.json()["detail"]) == (400, True)


def test_progress_comes_as_events_that_end_with_the_job(studio, client) -> None:
    job = start_job(client, **FIND, folder="made")
    with client.stream("GET", f"/api/jobs/{job['id']}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    assert events[-1]["state"] == "done"
    assert events[-1]["version"] > 2
    versions = [event["version"] for event in events]
    assert versions == sorted(set(versions))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"video": "nothing.mp4"}, 'no video "nothing.mp4"'),
        ({"video": "../x.mp4"}, "not a place in the workspace"),
        ({"folder": "../out"}, "not a place in the workspace"),
        ({"folder": "scene"}, "contains other files"),
        ({"folder": "scene/scene.mp4"}, "is a file; give a folder"),
        ({"masks": None}, "say where the object is"),
        ({"prompts": BOX}, "say where the object is"),
        ({"masks": "scene/nothing"}, 'no masks "scene/nothing"'),
        ({"masks": "scene/vocabulary.yaml"}, "is not a format of masks; give a folder of PNG"),
        ({"vocabulary": None}, "give the states"),
        ({"vocabulary": None, "states": {"one": ["cup"]}}, "need two or more"),
        ({"vocabulary": "no.yaml"}, 'no vocabulary "no.yaml"'),
        ({"masks": None, "prompts": [{"frame": 0}]}, "a prompt needs either a box or a point"),
    ],
)
def test_what_is_plainly_wrong_is_said_at_once(client, wrong, sentence) -> None:
    answer = client.post("/api/jobs", json={**FIND, "folder": "made", **wrong})
    assert answer.status_code in (400, 404)
    assert sentence in answer.json()["detail"]
    assert client.get("/api/jobs").json() == []


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"objects": [9]}, "no object 9"),
        ({"encoder": "nothing"}, 'unknown encoder "nothing"'),
        ({"readout": "nothing"}, 'unknown readout "nothing"'),
        ({"start": 999}, "start 999 is past the last"),
    ],
)
def test_a_job_that_fails_carries_the_sentence_and_leaves_nothing(
    studio, client, wrong, sentence
) -> None:
    job = run_job(client, **{**FIND, **wrong}, folder="made")
    assert job["state"] == "failed"
    assert sentence in job["problem"]
    assert not (studio.workspace.root / "made" / "finding.json").exists()


def test_a_job_of_another_kind_is_not_known(client) -> None:
    assert client.post("/api/jobs", json={"kind": "dance"}).status_code == 422
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/again"), ("GET", "/events")):
        answer = client.request(method, f"/api/jobs/unknown{path}")
        assert answer.status_code == 404
        assert 'no job "unknown"' in answer.json()["detail"]


def test_jobs_run_one_at_a_time_and_errors_of_any_kind_end_only_themselves(
    tmp_path, caplog
) -> None:
    jobs, running = TaskQueue(tmp_path), []

    def work(progress):
        running.append(1)
        progress("x", 1, 2, "")
        assert len(running) == 1
        time.sleep(0.01)
        running.pop()
        return 7

    def fail(error):
        def work(progress):
            raise error

        return work

    errors = [
        OSError(28, "No space left on device", "x.npz"),
        ValueError("odd"),
        MemoryError(),
        InputError("cup.mp4: wrong"),
    ]
    tasks = [jobs.add("x", {}, work) for _ in range(3)]
    tasks += [jobs.add("x", {}, fail(error)) for error in errors]
    tasks.append(jobs.add("x", {}, work))
    while not tasks[-1].ended:
        time.sleep(0.01)
    assert [job.state for job in tasks] == ["done"] * 3 + ["failed"] * 4 + ["done"]
    problems = [job.problem for job in tasks[3:7]]
    assert problems[0] == "x.npz: No space left on device"
    assert problems[1] == "ValueError: odd"
    assert problems[2].startswith("out of memory")
    assert problems[3] == "cup.mp4: wrong"
    jobs.close()


def test_jobs_of_a_studio_that_was_killed_are_interrupted(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("dejacue.studio.jobs.WRITE_S", 0.0)
    first, at_work, go_on = TaskQueue(tmp_path), threading.Event(), threading.Event()

    def work(progress) -> None:
        progress("follow", 299, 802)
        at_work.set()
        assert go_on.wait(600)

    done = first.add("find", {"folder": "a"}, lambda progress: {"finding": "a"})
    running = first.add("find", {"folder": "b"}, work)
    waiting = first.add("track", {"folder": "c"}, work)
    assert at_work.wait(600)
    (tmp_path / "damaged.json").write_text("{")
    after = TaskQueue(tmp_path)
    go_on.set()
    first.close()
    assert [job.id for job in after.all()] == [waiting.id, running.id, done.id]
    assert [job.state for job in after.all()] == ["interrupted", "interrupted", "done"]
    job = after.get(running.id)
    assert (job.stage, job.done, job.total, job.request) == ("follow", 299, 802, {"folder": "b"})
    assert after.get(done.id).result == {"finding": "a"}
    after.remove(waiting.id)
    assert [job.id for job in TaskQueue(tmp_path).all()] == [running.id, done.id]


def test_doubtful_frames_are_known_while_an_object_is_followed(tmp_path) -> None:
    jobs, at_work, go_on = TaskQueue(tmp_path), threading.Event(), threading.Event()

    def work(progress) -> None:
        for frame in range(1, 9):
            lost = frame in (3, 4, 7)
            progress("follow", frame, 8, Note("lost", "doubtful") if lost else "area 3 %")
        at_work.set()
        assert go_on.wait(600)

    job = jobs.add("find", {}, work)
    assert at_work.wait(600)
    spans = [(doubt["start"], doubt["end"], doubt["text"]) for doubt in job.to_dict()["doubts"]]
    assert spans == [(0.25, 0.5, "lost"), (0.75, 0.875, "lost")]
    go_on.set()
    jobs.close()


def test_a_studio_that_ends_stops_its_job(studio, monkeypatch) -> None:
    slow = Slow()
    monkeypatch.setattr(studio, "encoder", lambda name=None: slow)
    with client_of(studio) as client:
        job = start_job(client, **FIND, folder="made")
        assert slow.at_work.wait(600)
        slow.go_on.set()
    assert studio.jobs.get(job["id"]).state in ("stopped", "done")


class OpenRequest:
    async def is_disconnected(self) -> bool:
        return False


def test_events_of_a_job_that_goes_on_end_with_the_server(studio) -> None:
    async def sent_events() -> list[str]:
        texts = []
        task = BackgroundTask("find", {}, lambda progress: None)
        async for text in _events(studio, task, OpenRequest()):
            texts.append(text)
            studio.ending = True
        return texts

    assert len(asyncio.run(asyncio.wait_for(sent_events(), 600))) == 1


def test_an_event_holds_what_has_changed_of_a_job(studio) -> None:
    task = BackgroundTask("apply", {"teachers": ["cup"]}, lambda progress: None, state="running")
    progress = TaskProgress(task, lambda task: None)

    async def sent_events() -> list[dict]:
        events: list[dict] = []
        async for text in _events(studio, task, OpenRequest()):
            events.append(json.loads(text.removeprefix("data: ")))
            if len(events) < 4:
                progress("encode", len(events), 3)
                progress.add_row({"name": f"{len(events)}.mp4"})
            else:
                task.state = "done"
        return events

    first, *others = asyncio.run(asyncio.wait_for(sent_events(), 600))
    assert first == {**task.to_dict(), "rows": [], "state": "running", "version": 0} | {
        "stage": "",
        "done": 0,
        "total": None,
    }
    assert [event["rows"] for event in others] == [[{"name": f"{n}.mp4"}] for n in (1, 2, 3)]
    assert others[0].keys() == {"stage", "done", "total", "version", "rows"}
    assert others[1].keys() == {"done", "version", "rows"}  # all else is as it was


def test_a_click_is_previewed_and_followed_with_a_model(studio, client, monkeypatch) -> None:
    pytest.importorskip("transformers")
    from helpers.tiny_sam2 import random_model

    from dejacue.models.trackers.sam2 import Sam2Tracker

    model = Sam2Tracker(random_model(), "sam2", device="cpu", precision="fp32")
    monkeypatch.setattr(studio, "tracker", lambda name=None: model)
    body = {"frame": 4, "points": [[90, 70, True], [5, 5, False]]}
    preview = client.post("/api/videos/scene/scene.mp4/preview", json=body).json()
    assert preview["tracker"] == "sam2"
    assert 0 <= preview["presence"] <= 1
    prompts = [{"frame": 4, "point": [90, 70, True]}, {"frame": 4, "point": [5, 5, False]}]
    job = start_job(client, kind="track", video=VIDEO, folder="followed", prompts=prompts, end=20)
    job = wait_for_end(client, job)
    assert job["state"] == "done", job["problem"]
    for doubt in job["result"]["doubts"]:
        assert 0 <= doubt["start"] <= doubt["end"] <= 20
