"""Apply to other videos: what a person confirmed answers them, the least sure first."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from helpers.colour_tracker import Colour
from helpers.films import RATE, ColourRows, CupDetector, Film
from helpers.studio_client import client_of, run_job, start_job, studio_of, wait_for_end

from dejacue import Finding, Store, find
from dejacue.records.interval import TRUST
from dejacue.studio import teaching
from dejacue.studio.jobs import TaskProgress
from dejacue.studio.state import Studio
from dejacue.studio.workspace import Workspace
from dejacue.video.video import write_video

APPLY = {"kind": "apply", "teachers": ["cup"], "folder": "like-cup"}


def confirm(client, id: str = "cup") -> None:
    """Name a frame of each state in a finding, and save it."""
    states = list(client.get(f"/api/findings/{id}/info").json()["states"])
    frames = np.linspace(2, 57, len(states)).astype(int).tolist()
    examples = [{"state": s, "start": n, "end": n} for s, n in zip(states, frames, strict=True)]
    answer = client.put(f"/api/findings/{id}", json={"examples": examples})
    assert answer.status_code == 200, answer.text


@pytest.fixture
def root(studio):
    """A workspace with two further videos: one with masks beside it, one without."""
    root = studio.workspace.root
    shutil.copytree(root / "scene", root / "second")
    shutil.copytree(root / "scene", root / "third", ignore=shutil.ignore_patterns("Annotations"))
    studio.workspace.changed()
    return root


def listed(client, id: str = "cup", folder: str = "like-cup") -> dict:
    return client.get(f"/api/teaching/{id}", params={"folder": folder}).json()


def test_a_confirmed_finding_answers_other_videos(root, studio, client) -> None:
    confirm(client)
    (root / "broken.mp4").write_bytes(b"no video" * 99)
    studio.workspace.changed()
    job = run_job(client, **APPLY)
    assert job["state"] == "done", job["problem"]
    rows = {row["name"]: row for row in job["rows"]}
    assert set(rows) == {"broken.mp4", "second/scene.mp4", "third/scene.mp4"}
    assert rows["second/scene.mp4"]["finding"] == "like-cup/second/scene"
    assert "second/Annotations" in rows["second/scene.mp4"]["object"]
    assert rows["broken.mp4"]["problem"]
    assert "where the object is" not in rows["broken.mp4"]["problem"]
    assert "where the object is" in rows["third/scene.mp4"]["problem"]
    assert str(root) not in str(job)
    taught, teacher = Finding.read(root / "like-cup/second/scene"), Finding.read(root / "cup")
    assert np.array_equal(taught.history.features, teacher.history.features)
    assert taught.vocabulary.external_examples
    assert not taught.named
    (row,) = listed(client)["rows"]
    assert row["id"] == "like-cup/second/scene"
    best = [taught.timeline.best(state) for state in taught.timeline.states]
    assert row["confidence"] == min(interval.confidence for interval in best)
    assert row["trust"] in TRUST


@pytest.mark.long
def test_the_least_sure_comes_first_and_what_was_confirmed_last_and_teaches(
    root, studio, client
) -> None:
    confirm(client)
    for name in ("second", "third"):
        shutil.copytree(
            root / "scene" / "Annotations", root / name / "Annotations", dirs_exist_ok=True
        )
    shutil.copytree(root / "second", root / "fourth")
    studio.workspace.changed()
    assert run_job(client, **APPLY)["state"] == "done"
    rows = listed(client)["rows"]
    assert len(rows) == 3
    confidences = [row["confidence"] for row in rows]
    assert confidences == sorted(confidences)
    first = rows[0]["id"]
    confirm(client, first)
    before = (root / first / "finding.json").read_bytes()
    after = listed(client)
    assert [row["id"] for row in after["rows"]][-1] == first
    assert [teacher["id"] for teacher in after["teachers"]] == ["cup", first]
    job = run_job(client, **{**APPLY, "teachers": ["cup", first]})
    assert job["state"] == "done"
    assert {row["name"] for row in job["rows"]} == {
        row["id"].removeprefix("like-cup/") + ".mp4" for row in rows[1:]
    }
    assert run_job(client, **APPLY)["state"] == "done"
    assert (root / first / "finding.json").read_bytes() == before  # it has a person's marks


def test_what_nobody_can_tell_about_is_looked_at_first() -> None:
    rows: list[dict] = [
        {"confirmed": confirmed, "trust": trust, "confidence": confidence}
        for confirmed, trust, confidence in (
            ([], None, None),
            ([], "a guess", 0.1),
            ([], "more likely right", 0.9),
            (["empty"], "confirmed", 0.2),
            (["empty", "full"], "a guess", 0.1),
        )
    ]
    shuffled = rows[::-1]
    assert sorted(shuffled, key=teaching._by_trust) == rows


@pytest.mark.long
def test_what_a_person_saves_while_it_is_found_stays(root, client, monkeypatch) -> None:
    confirm(client)
    assert run_job(client, **APPLY, videos=["second/scene.mp4"])["state"] == "done"
    at, known_object = "like-cup/second/scene", teaching._known_object

    def slow(*about):
        confirm(client, at)  # while the job is at work
        return known_object(*about)

    monkeypatch.setattr(teaching, "_known_object", slow)
    job = run_job(client, **APPLY, videos=["second/scene.mp4"])
    assert job["state"] == "done", job["problem"]
    assert job["rows"][0]["object"] is None
    assert Finding.read(root / at).named


def test_applying_again_replaces_what_nobody_has_saved(root, client) -> None:
    def applied(texts: list[str], of: str) -> tuple[str | None, list[str]]:
        """Save other words in a finding, and apply the teacher again."""
        states = client.get("/api/findings/cup/info").json()["states"] | {"full": texts}
        assert client.put(f"/api/findings/{of}", json={"states": states}).status_code == 200
        (row,) = run_job(client, **APPLY, videos=["second/scene.mp4"])["rows"]
        return row["object"], list(Finding.read(root / row["finding"]).vocabulary.states["full"])

    confirm(client)
    assert run_job(client, **APPLY, videos=["second/scene.mp4"])["state"] == "done"
    assert applied(["a full cup"], of="cup") == ("as before", ["a full cup"])
    assert applied(["tea"], of="like-cup/second/scene") == (None, ["tea"])
    assert applied(["filled"], of="cup") == (None, ["tea"])


@pytest.mark.long
def test_the_object_of_another_finding_of_the_video_is_taken(root, client) -> None:
    confirm(client)
    body = {"kind": "find", "video": "third/scene.mp4", "fixed": True, "folder": "boxed"}
    states = client.get("/api/findings/cup/info").json()["states"]
    prompts = [{"frame": 0, "box": [40, 30, 150, 130]}]
    assert run_job(client, **body, prompts=prompts, states=states)["state"] == "done"
    (row,) = run_job(client, **APPLY, videos=["third/scene.mp4"])["rows"]
    assert row["object"] == "the object of boxed"
    assert Finding.read(root / row["finding"]).provenance.tracker == "fixed region"


@pytest.mark.long
def test_teachers_of_the_whole_picture_look_at_whole_pictures(root, client) -> None:
    body = {"kind": "find", "video": "scene/scene.mp4", "whole": True, "folder": "whole"}
    states = client.get("/api/findings/cup/info").json()["states"]
    assert run_job(client, **body, states=states)["state"] == "done"
    confirm(client, "whole")
    rows = run_job(client, **{**APPLY, "teachers": ["whole"]})["rows"]
    assert [row["object"] for row in rows] == ["the whole picture"] * 2
    finding = Finding.read(root / rows[0]["finding"])
    assert finding.provenance.tracker == "the whole picture"


@pytest.mark.long
def test_an_object_that_was_found_by_name_is_looked_for_by_it(tmp_path, monkeypatch) -> None:
    encoder = ColourRows()
    monkeypatch.setattr(Studio, "detector", lambda self: CupDetector())
    monkeypatch.setattr(Studio, "tracker", lambda self, name=None: Colour())
    monkeypatch.setattr(Studio, "encoder_of", lambda self, history: encoder)
    for name in ("one", "two"):
        write_video(tmp_path / f"{name}.mp4", Film().shot(20, (0, 5, 70, 6)).frames, RATE)
    find(
        tmp_path / "one.mp4",
        examples={"left": [0, 1], "right": [18, 19]},
        name="cup",
        detector=CupDetector(),
        tracker=Colour(),
        encoder=encoder,
        folder=tmp_path / "found",
    )
    studio = studio_of(tmp_path)
    try:
        (row,) = run_job(client_of(studio), **{**APPLY, "teachers": ["found"]})["rows"]
    finally:
        studio.close()
    assert (row["problem"], row["object"]) == (None, "found by name: cup")


def test_histories_of_a_store_are_answered_too(root, client) -> None:
    confirm(client)
    history = Finding.read(root / "cup").history
    with Store.create(root / "corpus.dejacue") as store:
        store.add([history], source=str(root / "second" / "scene.mp4"))
    assert Workspace(root).contents().stores == ["corpus.dejacue"]
    job = run_job(client, **APPLY, store="corpus.dejacue")
    assert job["state"] == "done", job["problem"]
    (row,) = job["rows"]
    info = client.get(f"/api/findings/{row['finding']}/info").json()
    assert (info["history"], info["video"]) == (history.id, "second/scene.mp4")
    assert [row["id"] for row in listed(client)["rows"]] == [row["finding"]]


@pytest.mark.long
def test_what_was_done_before_it_was_stopped_is_listed_and_it_goes_on(
    root, studio, client, monkeypatch
) -> None:
    confirm(client)
    shutil.copytree(root / "second", root / "fourth")
    real = TaskProgress.add_row

    def add_row(self, row):
        real(self, row)
        for task in studio.jobs.all():
            studio.jobs.cancel(task.id)

    monkeypatch.setattr(TaskProgress, "add_row", add_row)
    started = start_job(client, **APPLY, videos=["second/scene.mp4", "fourth/scene.mp4"])
    stopped = wait_for_end(client, started)
    assert stopped["state"] == "stopped"
    assert [row["name"] for row in stopped["rows"]] == ["second/scene.mp4"]
    monkeypatch.setattr(TaskProgress, "add_row", real)
    done = wait_for_end(client, client.post(f"/api/jobs/{started['id']}/again").json())
    assert [row["problem"] for row in done["rows"]] == [None, None]


def test_what_cannot_be_applied_is_said_at_once(root, client) -> None:
    confirm(client)
    for wrong, sentence in (
        ({"teachers": ["nothing"]}, 'no finding "nothing"'),
        ({"videos": ["nothing.mp4"]}, 'no video "nothing.mp4"'),
        ({"videos": ["scene/scene.mp4"]}, "no other video"),
        ({"folder": "../out"}, "not a place in the workspace"),
        ({"store": "scene"}, "contains no store"),
        ({"store": "scene", "videos": ["second/scene.mp4"]}, "as well as a store"),
    ):
        answer = client.post("/api/jobs", json={**APPLY, **wrong})
        assert answer.status_code in (400, 404)
        assert sentence in answer.json()["detail"]
    assert client.get("/api/jobs").json() == []


def test_a_finding_without_confirmed_states_teaches_nothing(root, client) -> None:
    answer = client.post("/api/jobs", json=APPLY)
    assert (answer.status_code, "name frames of two" in answer.json()["detail"]) == (400, True)
    assert listed(client)["confirmed"] == []
    assert listed(client)["teachers"] == []


@pytest.mark.long
def test_teachers_of_several_encoders_are_refused(root, client) -> None:
    confirm(client)
    find(
        root / "second" / "scene.mp4",
        examples={"empty": 2, "full": 55},
        whole=True,
        encoder=ColourRows(),
        folder=root / "colours",
    )
    assert [teacher["id"] for teacher in listed(client)["teachers"]] == ["cup"]
    answer = client.post("/api/jobs", json={**APPLY, "teachers": ["cup", "colours"]})
    assert answer.status_code == 400
    assert "was encoded with" in answer.json()["detail"]
