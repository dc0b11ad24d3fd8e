"""Annotation in the studio: blind passes, durable saving, consensus, agreement, references."""

from __future__ import annotations

import json
import os

import pytest
from helpers.studio_client import browser_of, client_of

from dejacue import Finding
from dejacue.data.annotation import read_decisions, read_pass, seen
from dejacue.evaluation.agreement import cohen_kappa
from dejacue.files import read_references

CUP = "/api/annotations/cup"
STATES = {"states": ["empty", "full"]}
LABELS = ["empty"] * 20 + ["none"] * 5 + ["full"] * 35


def invited(studio, name: str):
    """Return a client with the token of one annotator."""
    token = client_of(studio).post("/api/annotators", json={"annotator": name}).json()["token"]
    return client_of(studio, token)


def runs(labels: list[str | None]) -> list[dict]:
    return [{"start": k, "end": k, "label": label} for k, label in enumerate(labels)]


def label(client, name: str, labels: list[str | None], first: dict | None = None) -> None:
    created = client.post(f"{CUP}/passes/{name}", json=first or {})
    assert created.status_code == 201, created.text
    saved = client.put(f"{CUP}/passes/{name}", json={"runs": runs(labels)})
    assert saved.status_code == 200, saved.text


@pytest.fixture
def pair(studio):
    """Return clients of two annotators and of the owner."""
    return invited(studio, "Anna"), invited(studio, "Ben"), client_of(studio)


def test_a_pass_is_the_template_of_the_command_line(studio, pair) -> None:
    anna = pair[0]
    document = anna.post(f"{CUP}/passes/Anna", json=STATES).json()
    path = studio.workspace.root / "cup" / "annotations" / "anna.pass.json"
    pass_ = read_pass(path, complete=False)
    assert (pass_.history, pass_.annotator, pass_.states) == ("scene", "Anna", ("empty", "full"))
    observed = seen(Finding.read(studio.workspace.root / "cup").history)
    open_frames = [k for k, label_ in enumerate(pass_.labels) if label_ is None]
    assert [pass_.frames.start + k for k in open_frames] == observed
    assert document["labels"] == ["empty", "full", "none", "unobserved"]
    assert document["video"] == "scene/scene.mp4"
    assert document["frames"] == list(pass_.frames)
    again = anna.post(f"{CUP}/passes/ANNA ", json=STATES)
    assert (again.status_code, "already" in again.json()["detail"]) == (409, True)


def test_what_is_confirmed_is_on_the_disk(studio, pair, monkeypatch) -> None:
    anna = pair[0]
    label(anna, "Anna", [None] * 60, STATES)
    synced: list[str] = []
    fsync = os.fsync
    monkeypatch.setattr(
        os,
        "fsync",
        lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")) or fsync(handle),
    )
    saved = anna.put(f"{CUP}/passes/Anna", json={"runs": runs(LABELS)}).json()
    folder = str(studio.workspace.root / "cup" / "annotations")
    assert [os.path.dirname(synced[0]), synced[1]] == [folder, folder]
    assert (saved["frames"], saved["labelled"]) == (60, 60)
    path = studio.workspace.root / "cup" / "annotations" / "anna.pass.json"
    assert list(read_pass(path).labels) == LABELS
    loaded = anna.get(f"{CUP}/passes/anna").json()
    assert loaded["revision"] == saved["revision"]
    assert loaded["runs"] == [
        {"start": 0, "end": 19, "label": "empty"},
        {"start": 20, "end": 24, "label": "none"},
        {"start": 25, "end": 59, "label": "full"},
    ]


def test_two_tabs_do_not_write_over_each_other(pair) -> None:
    anna = pair[0]
    label(anna, "Anna", [None] * 60, STATES)
    revision = anna.get(f"{CUP}/passes/Anna").json()["revision"]
    body = {"runs": runs(LABELS), "revision": revision}
    assert anna.put(f"{CUP}/passes/Anna", json=body).status_code == 200
    late = anna.put(f"{CUP}/passes/Anna", json={**body, "runs": runs(["full"] * 60)})
    assert (late.status_code, "changed elsewhere" in late.json()["detail"]) == (409, True)


@pytest.mark.parametrize(
    "wrong_runs",
    [
        [],
        runs(LABELS)[:-1],
        runs(LABELS)[1:],
        runs([*LABELS, "full"]),
        runs(LABELS)[::-1],
        runs(["pre"] * 60),
        [{"start": 5, "end": 1, "label": None}],
        [{"start": 0, "end": 10**15, "label": None}],
        runs(LABELS)[:9] + runs(LABELS)[8:],
    ],
)
def test_a_pass_that_is_not_whole_is_refused_and_the_old_one_kept(studio, pair, wrong_runs) -> None:
    anna = pair[0]
    label(anna, "Anna", LABELS, STATES)
    path = studio.workspace.root / "cup" / "annotations" / "anna.pass.json"
    before = path.read_bytes()
    answer = anna.put(f"{CUP}/passes/Anna", json={"runs": wrong_runs})
    assert answer.status_code in (400, 422)
    assert path.read_bytes() == before


def test_annotators_see_neither_each_other_nor_a_score(studio, pair) -> None:
    anna, ben, owner = pair
    label(anna, "Anna", LABELS, STATES)
    label(ben, "Ben", [None] * 60)
    hidden = [
        "/api/findings",
        "/api/findings/cup/scene",
        "/api/findings/cup/info",
        "/api/corpus",
        "/api/findings/cup/export/json",
        "/api/findings/cup/questions",
        "/api/jobs",
        "/api/teaching/cup",
        "/api/findings/cup/segments",
        "/api/findings/cup/export/report",
        "/api/vocabularies",
        "/api/findings/cup/thumbnails/0.jpg",
        f"{CUP}/passes/Anna",
        f"{CUP}/agreement",
        f"{CUP}/decisions",
        f"{CUP}/events",
        f"{CUP}/files/decisions.json",
    ]
    for path in hidden:
        assert ben.get(path).status_code == 403, path
    for path, body in (
        ("/api/findings/cup/read", {}),
        ("/api/jobs", {"kind": "evaluate"}),
        ("/api/findings/cup/compare", {"readings": [{}]}),
        ("/api/annotators", {"annotator": "Anna"}),
        ("/api/session", {"annotator": None}),
    ):
        assert ben.post(path, json=body).status_code == 403, path
    assert ben.put("/api/findings/cup", json={}).status_code == 403
    assert ben.put(f"{CUP}/passes/Anna", json={"runs": runs(LABELS)}).status_code == 403
    assert ben.post(f"{CUP}/passes/Carl", json={}).status_code == 403
    assert ben.post("/api/uploads", params={"name": "x.mp4"}, content=b"x").status_code == 403
    about = ben.get("/api/workspace").json()
    assert (about["findings"], about["references"], about["annotator"]) == ([], [], "Ben")
    listed = {row["id"]: row for row in ben.get("/api/annotations").json()}
    assert [row["annotator"] for row in listed["cup"]["passes"]] == ["Ben"]
    for path in (
        "/api/videos/scene/scene.mp4/file",
        "/api/videos/scene/scene.mp4/times",
        "/api/videos/scene/scene.mp4/frames/3.jpg",
        "/api/findings/cup/outline/3",
        "/api/findings/cup/crops/3.jpg",
        f"{CUP}/passes/Ben",
    ):
        assert ben.get(path).status_code == 200, path
    assert owner.get(f"{CUP}/passes/Anna").status_code == 403
    passes = {row["id"]: row for row in owner.get("/api/annotations").json()}["cup"]["passes"]
    assert [(row["annotator"], row["labelled"]) for row in passes] == [("Anna", 60), ("Ben", 0)]


def test_the_second_pass_tells_the_same_states_apart(pair) -> None:
    anna, ben, _ = pair
    assert anna.post(f"{CUP}/passes/Anna", json={}).status_code == 400
    label(anna, "Anna", LABELS, STATES)
    other = ben.post(f"{CUP}/passes/Ben", json={"states": ["dark", "light"]})
    assert (other.status_code, "empty, full, none" in other.json()["detail"]) == (409, True)
    assert ben.post(f"{CUP}/passes/Ben", json={"preset": "vost"}).status_code == 409
    assert ben.post(f"{CUP}/passes/Ben", json={}).json()["states"] == ["empty", "full"]


def test_a_consensus_is_ready_once_two_passes_are_complete(pair) -> None:
    def ready() -> list[bool]:
        return [client.get("/api/annotations").json()[0]["ready"] for client in pair]

    anna, ben, owner = pair
    assert owner.get("/api/annotations").json()[0]["id"] == "cup"
    label(anna, "Anna", LABELS, STATES)
    assert ready() == [False, True, False]  # besides one's own
    label(ben, "Ben", [*LABELS[:-1], None])
    assert ready() == [False, True, False]
    assert ben.put(f"{CUP}/passes/Ben", json={"runs": runs(LABELS)}).status_code == 200
    assert ready() == [True, True, True]


def test_from_two_passes_to_references(studio, pair) -> None:
    anna, ben, owner = pair
    other = [*LABELS[:18], *["none"] * 4, *LABELS[22:]]
    label(anna, "Anna", LABELS, STATES)
    early = owner.post(f"{CUP}/consensus")
    assert (early.status_code, "there are 1" in early.json()["detail"]) == (409, True)
    label(ben, "Ben", [*other[:-1], None])
    early = owner.post(f"{CUP}/consensus")
    assert (early.status_code, "of Ben is not complete" in early.json()["detail"]) == (409, True)
    assert ben.put(f"{CUP}/passes/Ben", json={"runs": runs(other)}).status_code == 200
    decisions = owner.post(f"{CUP}/consensus").json()
    assert (decisions["annotators"], decisions["open"], decisions["agreed"]) == (
        ["Anna", "Ben"],
        1,
        False,
    )
    assert decisions["runs"] == [
        {"start": 18, "end": 19, "first": "empty", "second": "none", "label": None}
    ]
    # now everything is open, and the passes are closed
    assert ben.get(f"{CUP}/passes/Anna").status_code == 200
    assert ben.get("/api/findings/cup/scene").status_code == 200
    closed = anna.put(f"{CUP}/passes/Anna", json={"runs": runs(LABELS)})
    assert (closed.status_code, "passes are closed" in closed.json()["detail"]) == (409, True)
    assert invited(studio, "Carl").post(f"{CUP}/passes/Carl", json={}).status_code == 409
    agreement = owner.get(f"{CUP}/agreement").json()
    kappa = cohen_kappa(LABELS, other)
    assert agreement["all_frames"]["kappa"] == pytest.approx(kappa.kappa)
    assert agreement["all_frames"]["agreed"] == 58
    assert owner.get(f"{CUP}/events").status_code == 409
    split = [{"start": 18, "end": 18, "label": "empty"}, {"start": 19, "end": 19, "label": None}]
    half = owner.put(f"{CUP}/decisions", json={"runs": split}).json()
    assert (half["open"], half["agreed"]) == (1, False)
    split[1]["label"] = "none"
    stale = {"runs": split, "revision": decisions["revision"]}
    late = owner.put(f"{CUP}/decisions", json=stale)
    assert (late.status_code, late.json()["revision"]) == (409, half["revision"])
    done = owner.put(f"{CUP}/decisions", json={**stale, "revision": half["revision"]}).json()
    assert (done["open"], done["agreed"]) == (0, True)
    folder = studio.workspace.root / "cup" / "annotations"
    assert read_decisions(folder / "decisions.json").rows[1].label == "none"
    agreed = read_pass(folder / "consensus.json")
    assert list(agreed.labels) == [*LABELS[:19], "none", *LABELS[20:]]
    event = owner.get(f"{CUP}/events").json()["events"][0]
    assert (event["first"], event["before"], event["between"]) == ("empty", [0, 18], [19, 24])
    written = owner.post(f"{CUP}/references", json={}).json()
    assert written["file"] == "cup/annotations/references.json"
    (truth,) = read_references(folder / "references.json")
    assert {s: [tuple(w) for w in windows] for s, windows in truth.states.items()} == {
        "empty": [(0, 18)],
        "full": [(25, 59)],
    }
    for what in ("decisions", "consensus", "references"):
        answer = owner.get(f"{CUP}/files/{what}.json")
        assert answer.content == (folder / f"{what}.json").read_bytes()
    status = {row["id"]: row for row in owner.get("/api/annotations").json()}["cup"]
    assert (status["begun"], status["agreed"], status["references"]) == (True, True, True)
    # the nearest references are now these
    scene = owner.get("/api/findings/cup/scene").json()
    assert scene["references"] == {"empty": [[0, 18]], "full": [[25, 59]]}


def test_the_command_line_goes_on_from_what_the_studio_wrote(studio, pair, dejacue) -> None:
    anna, ben, _ = pair
    label(anna, "Anna", LABELS, STATES)
    label(ben, "Ben", LABELS)
    folder = studio.workspace.root / "cup" / "annotations"
    passes = [folder / "anna.pass.json", folder / "ben.pass.json"]
    done = dejacue("annotate", "consensus", *passes, "-o", folder / "c.json")
    assert done.code == 0, done.err
    assert dejacue("annotate", "events", folder / "c.json", "-o", folder / "t.json").code == 0
    finding = Finding.read(studio.workspace.root / "cup")
    finding.export("json", folder / "found.json")
    assert dejacue("evaluate", folder / "found.json", folder / "t.json", "--only-common").code == 0


def test_passes_that_agree_have_a_consensus_at_once(pair) -> None:
    anna, ben, owner = pair
    label(anna, "Anna", LABELS, STATES)
    label(ben, "Ben", LABELS)
    decisions = owner.post(f"{CUP}/consensus").json()
    assert (decisions["open"], decisions["runs"], decisions["agreed"]) == (0, [], True)
    assert owner.post(f"{CUP}/consensus").status_code == 200  # and again


@pytest.mark.parametrize(
    ("decided", "sentence"),
    [
        ([], "not decided"),
        (runs(LABELS)[:1], "nothing to decide"),
        ([{"start": 18, "end": 18, "label": "none"}], "frame 19 is not decided"),
        ([{"start": 18, "end": 18, "label": None}], "decisions must cover every frame"),
        ([{"start": 18, "end": 19, "label": "pre"}], 'unknown label "pre"'),
        ([{"start": 18, "end": 90, "label": "none"}], "the passes cover only"),
        ([{"start": 18, "end": 20, "label": "none"}], "both passes say none there"),
    ],
)
def test_decisions_that_do_not_fit_are_refused(pair, decided, sentence) -> None:
    anna, ben, owner = pair
    label(anna, "Anna", LABELS, STATES)
    label(ben, "Ben", [*LABELS[:18], *["none"] * 4, *LABELS[22:]])
    owner.post(f"{CUP}/consensus")
    before = owner.get(f"{CUP}/decisions").json()
    answer = owner.put(f"{CUP}/decisions", json={"runs": decided})
    assert answer.status_code == 400
    assert sentence in answer.json()["detail"]
    assert owner.get(f"{CUP}/decisions").json() == before


def test_the_protocol_of_vost_is_a_preset(studio, pair) -> None:
    anna, ben, owner = pair
    labels = ["pre"] * 20 + ["transition"] * 5 + ["post"] * 35
    label(anna, "Anna", labels, {"preset": "vost"})
    label(ben, "Ben", labels)
    folder = studio.workspace.root / "cup" / "annotations"
    assert json.loads((folder / "anna.pass.json").read_text())["schema"] == "dejacue.annotation/1"
    assert anna.get(f"{CUP}/passes/Anna").json()["preset"] == "vost"
    owner.post(f"{CUP}/consensus")
    written = owner.post(f"{CUP}/references", json={"pre": "empty", "post": "full"}).json()
    assert written["reference"]["states"] == {"empty": [[0, 19]], "full": [[25, 59]]}
    refused = owner.post(f"{CUP}/references", json={"minimum": 50})
    assert "no event qualifies" in refused.json()["detail"]


def test_a_video_without_a_finding_is_annotated_too(studio) -> None:
    anna = invited(studio, "Anna")
    created = anna.post("/api/annotations/scene/scene.mp4/passes/Anna", json=STATES)
    assert created.status_code == 201
    assert (created.json()["history"], created.json()["frames"]) == ("scene", [0, 59])
    assert (studio.workspace.root / "scene" / "scene.annotations" / "anna.pass.json").is_file()


def test_the_owner_labels_as_an_annotator_and_sees_as_little(studio) -> None:
    browser = browser_of(studio)
    assert browser.get("/api/session").json() == {"annotator": None, "owner": True}
    assert browser.post("/api/session", json={"annotator": "Anna"}).status_code == 200
    assert browser.get("/api/findings/cup/scene").status_code == 403
    label(browser, "Anna", LABELS, STATES)
    assert browser.post("/api/session", json={"annotator": None}).status_code == 200
    assert browser.get("/api/findings/cup/scene").status_code == 200
    assert browser.get(f"{CUP}/passes/Anna").status_code == 403
    assert client_of(studio).post("/api/session", json={"annotator": "A"}).status_code == 400


def test_an_annotator_may_have_a_slash_in_the_name(studio) -> None:
    pass_ = f"{CUP}/passes/a%2Fb"
    annotator = invited(studio, "a/b")
    assert annotator.post(pass_, json=STATES).status_code == 201
    body = {"runs": runs(LABELS), "revision": annotator.get(pass_).json()["revision"]}
    assert annotator.put(pass_, json=body).status_code == 200
    listed = client_of(studio).get("/api/annotations").json()
    (target,) = (target for target in listed if target["id"] == "cup")
    assert [row["annotator"] for row in target["passes"]] == ["a/b"]


def test_an_invitation_opens_the_page_for_its_annotator_alone(studio) -> None:
    invitation = client_of(studio).post("/api/annotators", json={"annotator": "Anna"}).json()
    again = client_of(studio).post("/api/annotators", json={"annotator": "Anna"}).json()
    assert invitation == again
    assert invitation["address"] == f"/?token={invitation['token']}"
    browser = browser_of(studio, invitation["token"])
    assert browser.get("/api/session").json() == {"annotator": "Anna", "owner": False}
    assert browser.post("/api/session", json={"annotator": None}).status_code == 403


@pytest.mark.parametrize("name", ["consensus", "a\nb", " ", "x" * 61, ".", "a/..", "a//b"])
def test_names_that_cannot_be_annotators_are_refused(studio, name) -> None:
    browser = browser_of(studio)
    browser.post("/api/session", json={"annotator": name})
    from urllib.parse import quote

    answer = browser.post(f"{CUP}/passes/{quote(name)}", json=STATES)
    assert answer.status_code in (400, 403, 404, 405, 422)


def test_a_pass_under_the_name_of_another_is_not_taken(studio, pair) -> None:
    label(pair[0], "Anna", LABELS, STATES)
    folder = studio.workspace.root / "cup" / "annotations"
    (folder / "anna.pass.json").rename(folder / "a_b.pass.json")
    other = invited(studio, "a/b".replace("/", ":"))
    answer = other.get(f"{CUP}/passes/a:b")
    assert (answer.status_code, 'belongs to "Anna"' in answer.json()["detail"]) == (409, True)
