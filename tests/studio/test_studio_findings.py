"""The studio's findings, words, videos and uploads, as a script requests them."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
from dataclasses import replace

import av
import numpy as np
import pytest
from helpers.errors import refused
from helpers.still_tracker import register
from helpers.studio_client import client_of, studio_of
from PIL import Image

from dejacue import Finding, Sampling, find
from dejacue.files import read_references, read_vocabulary
from dejacue.files.results import write_references
from dejacue.method import Contrast, Window
from dejacue.models.encoders.mini import Mini
from dejacue.models.trackers import Prompt
from dejacue.records import Reference
from dejacue.report.scene import unpacked
from dejacue.studio import security
from dejacue.studio.errors import NotThere
from dejacue.studio.workspace import Workspace

STATES = {
    "empty": ["cup with nothing in it", "drained cup"],
    "half full": ["half full cup", "half empty cup"],
    "full": ["cup filled to the brim", "filled up cup"],
}


def windows(scene: dict) -> dict[str, list[tuple[int, int]]]:
    return {row["state"]: [(w["start"], w["end"]) for w in row["windows"]] for row in scene["rows"]}


def picture(answer) -> np.ndarray:
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/jpeg"
    return np.asarray(Image.open(io.BytesIO(answer.content)))


# The workspace


def test_the_workspace_says_what_lies_in_it(client) -> None:
    contents = client.get("/api/workspace").json()
    assert contents["videos"] == ["scene/scene.mp4"]
    assert contents["findings"] == ["cup"]
    assert contents["vocabularies"] == ["scene/vocabulary.yaml"]
    assert contents["references"] == ["scene/references.json"]
    assert "published" in contents["readouts"]


def test_a_folder_of_images_is_a_video_and_masks_are_not(studio, client) -> None:
    folder = studio.workspace.root / "pictures"
    folder.mkdir()
    for number in range(3):
        Image.new("RGB", (32, 24), (number * 80, 0, 0)).save(folder / f"{number}.png")
    studio.workspace.changed()
    assert client.get("/api/workspace").json()["videos"] == ["pictures", "scene/scene.mp4"]
    about = client.get("/api/videos/pictures/info").json()
    assert (about["kind"], about["frames"]) == ("images", 3)
    assert (about["playable"], about["seconds"]) == (False, None)
    assert client.get("/api/videos/pictures/times").json()["times"] is None
    assert picture(client.get("/api/videos/pictures/frames/2.jpg"))[0, 0, 0] > 140
    assert client.get("/api/videos/pictures/file").status_code == 404


def test_a_finding_of_the_workspace_itself_has_an_id(studio) -> None:
    inner = client_of(studio_of(studio.workspace.root / "cup"))
    assert [row["id"] for row in inner.get("/api/findings").json()] == ["finding.json"]
    assert inner.get("/api/findings/finding.json/scene").status_code == 200


def test_word_lists_are_written_as_the_command_line_reads_them(studio, client) -> None:
    body = {"object": "cup", "states": STATES}
    assert client.put("/api/vocabularies/words/cup.yaml", json=body).status_code == 200
    path = studio.workspace.root / "words" / "cup.yaml"
    assert {s: list(t) for s, t in read_vocabulary(path).states.items()} == STATES
    assert client.get("/api/vocabularies/words/cup.yaml").json()["object"] == "cup"
    assert "words/cup.yaml" in client.get("/api/workspace").json()["vocabularies"]
    refused = client.put("/api/vocabularies/words/cup.txt", json=body)
    assert refused.status_code == 400
    assert "ends in .yaml" in refused.json()["detail"]
    twice = {"states": {"a": ["cup"], "b": ["cup"]}}
    before = path.read_text()
    refused = client.put("/api/vocabularies/words/cup.yaml", json=twice)
    assert 'describes both "a" and "b"' in refused.json()["detail"]
    alone = client.put("/api/vocabularies/words/cup.yaml", json={"states": {"visible": ["a cup"]}})
    assert "describe what it looks like otherwise" in alone.json()["detail"]
    assert path.read_text() == before


def test_a_word_list_says_whether_every_frame_shows_a_state(studio, client) -> None:
    for whether in (True, False):
        body = {"states": STATES, "exhaustive": whether}
        assert client.put("/api/vocabularies/cup.yaml", json=body).status_code == 200
        assert read_vocabulary(studio.workspace.root / "cup.yaml").exhaustive is whether
        assert client.get("/api/vocabularies/cup.yaml").json()["exhaustive"] is whether


# Findings


def test_the_scene_is_that_of_the_finding(studio, client) -> None:
    finding = Finding.read(studio.workspace.root / "cup")
    scene = client.get("/api/findings/cup/scene").json()
    assert scene["schema"] == "dejacue.scene/1"
    assert scene["video"] == "scene/scene.mp4"
    assert windows(scene) == windows(finding.scene(thumbnails=()))
    truth = read_references(studio.workspace.root / "scene" / "references.json")[0]
    assert scene["references"] == {s: [list(w) for w in ws] for s, ws in truth.states.items()}
    assert len(scene["thumbnails"]) == len(finding.thumbnails) > 3
    first = scene["thumbnails"][0]
    answer = client.get(first["url"])
    assert answer.content == finding.thumbnails[first["frame"]]
    alone = next(row for row in scene["thumbnails"] if row["crop"])
    assert client.get(alone["crop"]).content == finding.crops[alone["frame"]]


def test_reading_is_ask_and_writes_nothing(studio, client) -> None:
    folder = studio.workspace.root / "cup"
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    words = {"dark": ["drained cup"], "light": ["cup filled to the brim", "half full cup"]}
    scene = client.post("/api/findings/cup/read", json={"states": words}).json()
    expected = Finding.read(folder).with_words(words, encoder="mini")
    assert windows(scene) == windows(expected.scene(thumbnails=()))
    assert set(windows(scene)) == {"dark", "light"}
    assert all(window["trust"] for row in scene["rows"] for window in row["windows"])
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} == before


def test_what_is_left_out_is_as_the_finding_was_read(studio, client) -> None:
    folder = studio.workspace.root / "cup"
    assert client.get("/api/findings/cup/info").json()["settings"]["readout"]["name"] == "timeline"
    known = replace(Finding.read(folder).vocabulary, exhaustive=True)
    options = {"readout": Contrast(smoothing_s=0.5), "coordinates": "trajectory"}
    Finding.read(folder).with_words(known, **options).save(folder)
    scene = client.post("/api/findings/cup/read", json={}).json()
    assert scene["settings"]["readout"]["name"] == "contrast"
    assert scene["settings"]["readout"]["smoothing_s"] == 0.5
    assert scene["settings"]["coordinates"] == "trajectory"
    assert client.put("/api/findings/cup", json={}).status_code == 200
    assert Finding.read(folder).vocabulary.exhaustive
    other = client.post("/api/findings/cup/read", json={"readout": "published"}).json()
    assert other["settings"]["readout"]["name"] == "scan"


def test_examples_are_frames_of_the_history(studio, client) -> None:
    finding = Finding.read(studio.workspace.root / "cup")
    marks = [{"state": "full", "start": 2, "end": 6}, {"state": None, "start": 30}]
    scene = client.post("/api/findings/cup/read", json={"examples": marks, "changes": [20]}).json()
    expected = finding.correct({"full": [], None: 30}, full=[], changes=20)
    assert [(n["state"], n["start"], n["end"]) for n in scene["named"]] == [
        ("full", 2, 6),
        (None, 30, 30),
    ]
    assert scene["changes"] == expected.scene(thumbnails=())["changes"] == [20]
    assert client.post("/api/findings/cup/read", json={}).json()["named"] == []
    refused = client.post("/api/findings/cup/read", json={"examples": [{"state": "full"}]})
    assert "an example needs a start" in refused.json()["detail"]


def test_an_example_from_elsewhere_lies_in_the_workspace(studio, client, tmp_path) -> None:
    crops = list(Finding.read(studio.workspace.root / "cup").crops.values())
    (studio.workspace.root / "full.jpg").write_bytes(crops[0])
    (studio.workspace.root / "empty.jpg").write_bytes(crops[-1])
    (tmp_path / "outside.jpg").write_bytes(crops[0])

    def read(source: str):
        marks = [
            {"state": "full", "source": source},
            {"state": "full", "source": "full.jpg"},
            {"state": "empty", "source": "empty.jpg"},
        ]
        return client.post("/api/findings/cup/read", json={"examples": marks})

    assert read("full.jpg").status_code == 200
    assert read("scene/scene.mp4@3").status_code == 200
    for outside in ("../outside.jpg", str(tmp_path / "outside.jpg"), "nowhere.jpg"):
        assert read(outside).status_code == 404


def test_a_person_may_say_that_every_frame_shows_a_state(studio, client) -> None:
    marks = [{"state": "empty", "start": 57}, {"state": "full", "start": 2}]
    body = {"examples": marks, "exhaustive": True}
    finding = Finding.read(studio.workspace.root / "cup")
    known = replace(finding.vocabulary.with_examples(empty=57, full=2), exhaustive=True)
    scene = client.post("/api/findings/cup/read", json=body).json()
    assert windows(scene) == windows(finding.with_words(known).scene(thumbnails=()))
    confirmed = [(w["confirmed"], w["trust"]) for row in scene["rows"] for w in row["windows"]]
    assert confirmed.count((True, "confirmed")) == 2
    for whether in (True, False):
        body["exhaustive"] = whether
        assert client.put("/api/findings/cup", json=body).status_code == 200
        assert client.get("/api/findings/cup/info").json()["exhaustive"] is whether
    none = {"examples": [{"state": None, "start": 30}], "exhaustive": True}
    refused = client.post("/api/findings/cup/read", json=none)
    assert "shows none of the states" in refused.json()["detail"]


def test_one_state_is_read_once_something_shows_it(studio, client) -> None:
    body = {"states": {"visible": ["a cup"]}, "examples": []}
    refused = client.put("/api/findings/cup", json=body)
    assert refused.status_code == 400
    assert "or show an example" in refused.json()["detail"]
    shown = client.post("/api/findings/cup/strip", json=body).json()
    strip = Finding.read(studio.workspace.root / "cup").strip(12)
    assert shown["frames"] == list(strip.frames)
    marks = {"frames": shown["frames"], "marks": {"none": [[1, 6]]}}
    refused = client.post("/api/findings/cup/mark", json={**body, **marks})
    assert "or show an example" in refused.json()["detail"]
    marks["marks"]["visible"] = [[7, 12]]
    answer = client.post("/api/findings/cup/mark", json={**body, **marks}).json()
    spans = [(mark["state"], mark["start"], mark["end"]) for mark in answer["examples"]]
    frames = shown["frames"]
    assert sorted(spans, key=lambda span: span[1]) == [
        (None, frames[0], frames[5]),
        ("visible", frames[6], frames[11]),
    ]
    body["examples"] = answer["examples"]
    assert client.put("/api/findings/cup", json=body).status_code == 200
    saved = Finding.read(studio.workspace.root / "cup")
    assert list(saved.vocabulary.states) == ["visible"]
    assert [interval.confirmed for interval in saved["visible"]] == [True]


def test_several_ways_of_reading_are_compared_in_one_call(client) -> None:
    ways = [{"readout": "contrast"}, {"readout": "scan", "coordinates": "dual"}, {"readout": "no"}]
    answers = client.post("/api/findings/cup/compare", json={"readings": ways}).json()
    assert [answer["problem"] is None for answer in answers] == [True, True, False]
    assert answers[1]["scene"]["settings"]["coordinates"] == "dual"
    assert 'unknown readout "no"' in answers[2]["problem"]


def test_what_was_read_is_written_as_a_finding(studio, client) -> None:
    words = {**STATES, "empty": ["drained cup"]}
    answer = client.put("/api/findings/cup", json={"states": words, "folder": "saved/again"})
    assert answer.status_code == 200
    saved = Finding.read(studio.workspace.root / "saved" / "again")
    assert {s: list(t) for s, t in saved.vocabulary.states.items()} == words
    assert [row["id"] for row in client.get("/api/findings").json()] == ["cup", "saved/again"]
    assert windows(answer.json()) == windows(saved.scene(thumbnails=()))
    marks = [{"state": "full", "start": 2, "end": 6}]
    assert client.put("/api/findings/cup", json={"examples": marks}).status_code == 200
    assert client.get("/api/findings/cup/info").json()["examples"] == [
        {"state": "full", "start": 2, "end": 6, "source": None}
    ]
    refused = client.put("/api/findings/cup", json={"folder": "scene"})
    assert "contains other files" in refused.json()["detail"]


def test_a_write_over_what_somebody_else_wrote_is_refused(studio, client) -> None:
    """Words, examples, settings, word lists, copies and objects that are tracked again."""

    def put(path: str, **body):
        return client.put(f"/api/{path}", json=body)

    loaded = client.get("/api/findings/cup/info").json()["revision"]
    marks = [{"state": "full", "start": 2, "end": 6}]
    saved = put("findings/cup", examples=marks, revision=loaded)
    assert saved.status_code == 200
    now = saved.json()["revision"]
    assert now == client.get("/api/findings/cup/info").json()["revision"] != loaded
    find = {"kind": "find", "video": "scene/scene.mp4", "masks": "scene/Annotations"}
    find |= {"objects": [1], "states": STATES, "folder": "cup"}
    assert put("findings/cup", folder="copy", revision="new").status_code == 200
    assert put("vocabularies/w.yaml", states=STATES, revision="new").status_code == 200
    for late in (
        put("findings/cup", states=STATES, examples=[], revision=loaded),
        put("findings/cup", readout="contrast", revision=loaded),
        put("findings/cup", folder="copy", revision="new"),
        put("vocabularies/w.yaml", states=STATES, revision="new"),
        client.post("/api/jobs", json={**find, "revision": loaded}),
        client.post("/api/jobs", json={**find, "revision": "new"}),
    ):
        assert late.status_code == 409, late.text
        assert late.json()["revision"] not in (loaded, "new")
    examples = client.get("/api/findings/cup/info").json()["examples"]
    assert [(mark["start"], mark["end"]) for mark in examples] == [(2, 6)]
    assert put("findings/cup", readout="contrast", revision=now).status_code == 200
    list_ = client.get("/api/vocabularies/w.yaml").json()["revision"]
    assert put("vocabularies/w.yaml", states=STATES, revision=list_).status_code == 200


def test_a_finding_that_is_being_written_is_read_when_it_is_whole(studio, client) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def write(number: int) -> int:
        words = {**STATES, "empty": [f"drained cup {number % 3}"]}
        return client.put("/api/findings/cup", json={"states": words}).status_code

    def read(number: int) -> int:
        return client.get("/api/findings/cup/scene").status_code

    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(write if number % 4 == 0 else read, number) for number in range(40)]
    assert {answer.result() for answer in answers} == {200}


@pytest.mark.parametrize(
    "body",
    [
        {"states": {"one": ["cup"]}},
        {"states": {"a": ["x"], "b": []}},
        {"states": [["a", ["x"]], ["b", ["y"]], ["a", ["z"]]]},
        {"states": [["a"], {"b": ["y"]}]},
        {"readout": "nothing"},
        {"smoothing": 0},
        {"exhaustive": "sometimes"},
        {"coordinates": "nothing"},
        {"unknown": 1},
        {"smoothing": "wide"},
        {"changes": [-1]},
        {"examples": [{"state": "unheard of", "start": 1}]},
    ],
)
def test_what_cannot_be_read_is_one_sentence(client, body) -> None:
    answer = client.post("/api/findings/cup/read", json=body)
    assert answer.status_code in (400, 422)
    detail = answer.json()["detail"]
    assert "\n" not in detail
    assert 0 < len(detail) < 600


def test_a_body_may_be_anything_and_is_refused_in_a_sentence(client) -> None:
    for body in (
        b"",
        b"{",
        b"[1]",
        b'{"states": {"\\ud800": ["a"]}}',
        b'{"smoothing": NaN}',
        b"[" * 9999,
        b'{"smoothing": ' + b"9" * 5000 + b"}",
    ):
        answer = client.post(
            "/api/findings/cup/read", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code in (400, 422)
        assert answer.json()["detail"]


def test_marks_on_a_strip_are_those_of_the_library(studio, client) -> None:
    finding = Finding.read(studio.workspace.root / "cup")
    strip = finding.strip(12)
    shown = client.post("/api/findings/cup/strip", json={}).json()
    assert shown["frames"] == list(strip.frames)
    assert shown["believed"] == list(strip.believed)
    marks = {"empty": [[1, 2], [11, 12]], "full": [[5, 8]]}
    body = {"frames": shown["frames"], "marks": marks}
    answer = client.post("/api/findings/cup/mark", json=body).json()
    after = finding.mark(strip, {"empty": [(1, 2), (11, 12)], "full": (5, 8)})
    assert answer["borders"] == [border._asdict() for border in after.borders()]
    spans = {(mark["state"], mark["start"], mark["end"]) for mark in answer["examples"]}
    named = after.named
    assert spans == {(state, *window) for state in named for window in named[state]}
    words = {"examples": answer["examples"]}
    closer = {**words, "count": 8, "border": answer["borders"][0]}
    shown = client.post("/api/findings/cup/strip", json=closer).json()
    assert shown["frames"] == list(after.strip(8, border=after.borders()[0]).frames)


def test_a_state_that_nothing_shows_yet_can_be_marked_on_a_strip(studio, client) -> None:
    words = Finding.read(studio.workspace.root / "cup").vocabulary.states
    examples = [{"state": state, "start": n, "end": n} for n, state in enumerate(words)]
    body = {"states": {state: [] for state in (*words, "tilted", "odd")}, "examples": examples}
    shown = client.post("/api/findings/cup/strip", json=body).json()
    assert not {"tilted", "odd"} & set(shown["believed"])
    marks = {"tilted": [[4, 6]], **{state: [[7 + n, 7 + n]] for n, state in enumerate(words)}}
    answer = client.post(
        "/api/findings/cup/mark", json={**body, "frames": shown["frames"], "marks": marks}
    )
    assert answer.status_code == 200, answer.text
    tilted = [mark for mark in answer.json()["examples"] if mark["state"] == "tilted"]
    frames = shown["frames"]
    assert [(mark["start"], mark["end"]) for mark in tilted] == [(frames[3], frames[5])]


@pytest.mark.parametrize(
    "wrong",
    [{"marks": {"odd": [[1, 2]]}}, {"marks": {"full": [[3, 1]]}}, {"frames": [0, 10**6]}],
)
def test_marks_that_do_not_fit_are_refused(client, wrong) -> None:
    body = {"frames": [0, 5, 10, 15], "marks": {"full": [[1, 2]]}, **wrong}
    answer = client.post("/api/findings/cup/mark", json=body)
    assert answer.status_code == 400


def test_questions_and_segments_are_those_of_the_finding(studio, client) -> None:
    finding = Finding.read(studio.workspace.root / "cup")
    scene = client.get("/api/findings/cup/scene", params={"questions": 2}).json()
    assert [question["frame"] for question in scene["questions"]] == [
        question.frame for question in finding.next_question(2)
    ]
    segments = client.get("/api/findings/cup/segments").json()
    assert segments == [list(window) for window in finding.segments()]


@pytest.mark.parametrize("kind", ["json", "csv", "vtt", "label-studio", "report"])
def test_exports_are_attachments(studio, client, tmp_path, kind) -> None:
    answer = client.get(f"/api/findings/cup/export/{kind}")
    assert answer.status_code == 200
    assert answer.headers["content-disposition"].startswith("attachment;")
    if kind not in ("report", "label-studio"):
        exported = Finding.read(studio.workspace.root / "cup").export(tmp_path / f"x.{kind}", kind)
        assert answer.content == exported.read_bytes()


def test_an_unknown_export_is_refused(client) -> None:
    answer = client.get("/api/findings/cup/export/docx")
    assert (answer.status_code, answer.json()["detail"][:20]) == (400, 'unknown export "docx')


def test_a_damaged_finding_is_a_sentence_and_others_are_listed(studio, client) -> None:
    shutil.copytree(studio.workspace.root / "cup", studio.workspace.root / "broken")
    (studio.workspace.root / "broken" / "finding.json").write_text('{"schema": "dejacue.fin')
    answer = client.get("/api/findings/broken/scene")
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("broken/finding.json: not valid JSON")
    rows = {row["id"]: row for row in client.get("/api/findings").json()}
    assert rows["broken"]["problem"].startswith("finding.json: not valid JSON")
    assert rows["cup"]["problem"] is None


def test_each_text_is_encoded_once(studio, client, monkeypatch) -> None:
    seen: list[str] = []
    encode_texts = Mini.encode_texts
    monkeypatch.setattr(
        Mini, "encode_texts", lambda self, texts: seen.extend(texts) or encode_texts(self, texts)
    )
    for last in ("drained cup", "an empty cup", "drained cup"):
        words = {**STATES, "empty": [last]}
        assert client.post("/api/findings/cup/read", json={"states": words}).status_code == 200
    assert len(seen) == len(set(seen)) == 3 * 6  # three forms of six descriptions


# Videos


def test_the_file_is_sent_in_parts(studio, client) -> None:
    data = (studio.workspace.root / "scene" / "scene.mp4").read_bytes()
    whole = client.get("/api/videos/scene/scene.mp4/file")
    assert whole.content == data
    assert whole.headers["content-type"] == "video/mp4"
    part = client.get("/api/videos/scene/scene.mp4/file", headers={"range": "bytes=10-99"})
    assert part.status_code == 206
    assert part.content == data[10:100]
    assert part.headers["content-range"] == f"bytes 10-99/{len(data)}"
    wrong = client.get("/api/videos/scene/scene.mp4/file", headers={"range": "bytes=999999999-"})
    assert wrong.status_code == 416


def test_times_are_those_of_the_file(studio, client) -> None:
    document = client.get("/api/videos/scene/scene.mp4/times").json()
    history = Finding.read(studio.workspace.root / "cup").history
    times = unpacked(document["times"])
    assert len(times) == document["frames"] == 60
    assert times[history.source_frames].tolist() == pytest.approx(history.times_s.tolist())


def test_a_crop_is_what_the_encoder_saw(studio, client) -> None:
    finding = Finding.read(studio.workspace.root / "cup")
    frame, known = next(iter(finding.crops.items()))
    saved = np.asarray(Image.open(io.BytesIO(known))).astype(int)
    sent = picture(client.get(f"/api/findings/cup/crops/{frame}.jpg")).astype(int)
    assert sent.shape == saved.shape
    assert np.abs(sent - saved).mean() < 3


def test_the_outline_goes_around_the_mask(studio, client) -> None:
    frame = int(Finding.read(studio.workspace.root / "cup").history.frames[5])
    document = client.get(f"/api/findings/cup/outline/{frame}").json()
    mask = np.asarray(Image.open(studio.workspace.root / f"scene/Annotations/{frame:05d}.png")) == 1
    rows, columns = np.nonzero(mask)
    points = np.array([point for line in document["outline"] for point in line])
    assert (document["width"], document["height"]) == mask.shape[::-1]
    box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    assert np.abs([*points.min(axis=0), *points.max(axis=0)] - np.array(box)).max() <= 1


def test_outlines_of_a_sampled_history_are_found_by_either_number(studio, client) -> None:
    root, scene = studio.workspace.root, studio.workspace.root / "scene"
    find(
        scene / "scene.mp4",
        scene / "vocabulary.yaml",
        masks=scene / "Annotations",
        objects=[1],
        encoder="mini",
        sampling=Sampling(stride=3),
        folder=root / "third",
    )
    whole = client.get("/api/findings/cup/outline/30").json()["outline"]
    assert client.get("/api/findings/third/outline/10").json()["outline"] == whole != []
    by_file = client.get("/api/findings/third/outline/30", params={"file": True}).json()
    assert by_file["outline"] == whole
    several = client.get("/api/findings/third/outlines?start=9&count=2").json()
    assert [outline["frame"] for outline in several] == [9, 10]
    assert several[1]["outline"] == whole
    last = client.get("/api/findings/cup/outlines?start=58&count=9&file=true").json()
    assert [outline["frame"] for outline in last] == [58, 59]  # the video ends
    assert client.get("/api/findings/cup/outlines?start=60").status_code == 404
    pictures = [
        client.get("/api/findings/third/crops/10.jpg"),
        client.get("/api/findings/third/crops/30.jpg", params={"file": True}),
    ]
    assert pictures[0].content == pictures[1].content


def test_between_the_frames_that_were_tracked_the_object_is_where_it_was_seen(studio, client):
    register()
    scene = studio.workspace.root / "scene"
    find(
        scene / "scene.mp4",
        scene / "vocabulary.yaml",
        prompts=[Prompt(0, box=(40, 30, 150, 130)), Prompt(11, box=(80, 30, 190, 130))],
        tracker="still",
        encoder="mini",
        sampling=Sampling(stride=4),
        folder=studio.workspace.root / "fourth",
    )
    numbers = (40, 41, 44)
    answers = [client.get(f"/api/findings/fourth/outline/{n}?file=true").json() for n in numbers]
    tracked, between, later = (answer["outline"] for answer in answers)
    assert tracked == between != later
    assert client.get("/api/findings/fourth/crops/41.jpg?file=true").status_code == 200


def test_a_box_is_previewed(client) -> None:
    register()
    body = {"frame": 3, "box": [20, 20, 60, 50], "tracker": "still"}
    preview = client.post("/api/videos/scene/scene.mp4/preview", json=body).json()
    points = np.array(preview["outline"][0])
    assert [*points.min(axis=0), *points.max(axis=0)] == [20, 20, 60, 50]
    for wrong, sentence in (
        ({"frame": 3}, "draw a box"),
        ({"frame": 600, "box": [1, 1, 9, 9]}, "no frame 600"),
        ({"frame": 3, "box": [60, 50, 20, 20]}, "ends before it begins"),
        ({"frame": 3, "box": [1, 1, 9, 9], "tracker": "magic"}, 'unknown tracker "magic"'),
    ):
        answer = client.post(
            "/api/videos/scene/scene.mp4/preview", json={"tracker": "still", **wrong}
        )
        assert answer.status_code in (400, 404)
        assert sentence in answer.json()["detail"]


def test_a_video_that_was_moved_is_found_by_its_name(studio, client) -> None:
    (studio.workspace.root / "scene" / "scene.mp4").rename(studio.workspace.root / "scene.mp4")
    studio.workspace.changed()
    assert client.get("/api/findings/cup/info").json()["video"] == "scene.mp4"
    (studio.workspace.root / "scene.mp4").unlink()
    studio.workspace.changed()
    assert client.get("/api/findings/cup/info").json()["video"] is None
    answer = client.get("/api/findings/cup/crops/3.jpg")
    assert answer.status_code == 404
    assert "is not in the workspace" in answer.json()["detail"]


# Corpus


def test_a_workspace_that_was_moved_as_a_whole_is_as_before(studio, tmp_path) -> None:
    root = tmp_path / "elsewhere" / "other name"
    shutil.move(studio.workspace.root, root)
    client = client_of(studio_of(root))
    about = client.get("/api/findings/cup/info").json()
    assert (about["video"], about["masks"]) == ("scene/scene.mp4", "scene/Annotations")
    assert client.get("/api/findings/cup/outline/3").json()["outline"]


def test_a_copy_of_a_workspace_has_its_own_video_and_masks(studio, tmp_path) -> None:
    """Two videos of the same name, and the original is still there."""
    root = studio.workspace.root
    (root / "other").mkdir()
    shutil.copy(root / "scene" / "scene.mp4", root / "other" / "scene.mp4")
    written = json.loads((root / "cup" / "finding.json").read_text())
    assert written["provenance"]["video"] == "../scene/scene.mp4"
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    made = Finding.read(copy / "cup").provenance
    assert (made.video, made.masks) == (
        str(copy / "scene" / "scene.mp4"),
        str(copy / "scene" / "Annotations"),
    )
    about = client_of(studio_of(copy)).get("/api/findings/cup/info").json()
    assert (about["video"], about["masks"]) == ("scene/scene.mp4", "scene/Annotations")
    shutil.move(copy / "cup", tmp_path / "alone")  # the paths beside are absolute
    assert Finding.read(tmp_path / "alone").provenance.video == written["absolute"]["video"]


def test_no_folder_is_walked_through_twice_unless_it_has_changed(studio, monkeypatch) -> None:
    root, walked, scandir = studio.workspace.root, [], os.scandir
    for folder, _, _ in os.walk(root, topdown=False):
        os.utime(folder, (1e9, 1e9))
    before = studio.workspace.contents()
    studio.workspace.changed()
    monkeypatch.setattr(os, "scandir", lambda path: walked.append(str(path)) or scandir(path))
    assert studio.workspace.contents() == before
    assert walked == []
    (root / "scene" / "more.yaml").write_text("states: {}")
    studio.workspace.changed()
    assert "scene/more.yaml" in studio.workspace.contents().vocabularies
    assert walked == [str(root / "scene")]


def test_the_metadata_of_a_video_is_nowhere_markup(studio, client) -> None:
    """Title, comment and file name are text in every page and export."""
    markup = "<img src=x onerror=alert(1)>"
    source = studio.workspace.root / "scene" / "scene.mp4"
    path = studio.workspace.root / f"{markup}.mp4"
    with av.open(str(source)) as old, av.open(str(path), "w") as new:
        new.metadata.update(title=markup, comment=markup, artist=markup)
        stream = new.add_stream_from_template(old.streams.video[0])
        for packet in old.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                new.mux(packet)
    job = {"kind": "find", "video": path.name, "masks": "scene/Annotations", "objects": [1]}
    job |= {"states": STATES, "folder": "odd"}
    running = client.post("/api/jobs", json=job).json()
    with client.stream("GET", f"/api/jobs/{running['id']}/events") as answer:
        assert json.loads(answer.read().decode().rsplit("data: ", 1)[1])["state"] == "done"
    for kind in ("report", "label-studio", "vtt", "eaf", "cvat"):
        exported = client.get(f"/api/findings/odd/export/{kind}")
        assert exported.status_code == 200, exported.text
        assert "attachment" in exported.headers["content-disposition"]
        assert kind == "label-studio" or "<img src=x" not in exported.text


def test_findings_are_listed_with_their_answers(studio, client) -> None:
    (row,) = client.get("/api/findings").json()
    finding = Finding.read(studio.workspace.root / "cup")
    assert (row["id"], row["object"], row["problem"]) == ("cup", "cup", None)
    assert (row["encoder"], row["doubts"]) == (finding.history.encoder, len(finding.doubts))
    assert row["states"] == list(finding.timeline.states)
    assert row["intervals"] == [interval.to_dict() for interval in finding.timeline]
    least = min(finding.timeline, key=lambda interval: interval.confidence)
    assert (row["trust"], row["confidence"]) == (least.trust, least.confidence)


def test_the_best_occurrence_of_the_least_sure_state_is_what_a_finding_is_trusted_by(
    studio, client
) -> None:
    document = studio.workspace.root / "cup" / "finding.json"
    written = json.loads(document.read_text())

    def trusted(**figures: tuple[float, float | None, bool]) -> tuple[str | None, float | None]:
        """Write occurrences: state → score, confidence and whether it is confirmed."""
        written["timeline"]["intervals"] = [
            {"state": state.rstrip("_").replace("_", " "), "start": n, "end": n, "score": score}
            | ({} if confidence is None else {"confidence": confidence})
            | ({"confirmed": True} if confirmed else {})
            for n, (state, (score, confidence, confirmed)) in enumerate(figures.items())
        ]
        document.write_text(json.dumps(written))
        (row,) = client.get("/api/findings").json()
        return row["trust"], row["confidence"]

    assert trusted() == (None, None)
    assert trusted(empty=(3.0, 0.2, False), full=(1.0, 0.4, False)) == ("a guess", 0.2)
    better = {"empty": (3.0, 0.2, False), "empty_": (4.0, 0.6, False)}
    assert trusted(**better, full=(1.0, 0.4, False)) == ("unsure", 0.4)
    assert trusted(empty=(3.0, 0.2, True), full=(1.0, 0.4, False)) == ("unsure", 0.4)
    assert trusted(empty=(3.0, 0.2, True)) == ("confirmed", 0.2)
    assert trusted(empty=(3.0, None, False), full=(1.0, 0.1, False)) == (None, None)


def test_a_state_that_is_not_found_has_no_interval(studio, client) -> None:
    (before,) = client.get("/api/findings").json()
    document = studio.workspace.root / "cup" / "finding.json"
    written = json.loads(document.read_text())

    def without_full(intervals: list[dict]) -> list[dict]:
        return [interval for interval in intervals if interval["state"] != "full"]

    written["timeline"]["intervals"] = without_full(written["timeline"]["intervals"])
    document.write_text(json.dumps(written))
    (row,) = client.get("/api/findings").json()
    assert row["states"] == before["states"]
    assert row["intervals"] == without_full(before["intervals"])
    rows = client.get("/api/findings/cup/scene").json()["rows"]
    assert [row["state"] for row in rows if not row["windows"]] == ["full"]


def test_references_of_the_finding_win_and_the_file_is_named(studio, client) -> None:
    root = studio.workspace.root
    states = {"empty": [[0, 1]], "full": [[58, 59]]}  # not the true ones, beside the video
    moved = {state: [Window(*window) for window in windows] for state, windows in states.items()}
    write_references(root / "cup" / "truth.json", [Reference("scene", moved)])
    studio.workspace.changed()
    scene = client.get("/api/findings/cup/scene").json()
    assert scene["references"] == states
    expected = "the references are those of cup/truth.json; not taken: scene/references.json"
    assert expected in [note["text"] for note in scene["notes"]]
    assert scene["comparison"] is None  # these may leave out occurrences


def test_a_complete_reference_is_compared_in_a_note(studio, client) -> None:
    scene = client.get("/api/findings/cup/scene").json()
    assert scene["comparison"]["missed"] == {"empty": [], "half full": [], "full": []}
    (text,) = (note["text"] for note in scene["notes"] if "complete reference" in note["text"])
    assert text.startswith("compared with the complete reference: 3 of 3 true occurrences found")


def test_a_note_is_said_once(studio, client) -> None:
    document = studio.workspace.root / "cup" / "finding.json"
    written = json.loads(document.read_text())
    note = {"severity": "information", "text": "the masks were made by hand"}
    written["warnings"] = written["timeline"]["notes"] = [note]
    document.write_text(json.dumps(written))
    (row,) = client.get("/api/findings").json()
    assert row["notes"] == [note]


# Uploads


def upload(client, name: str, data: bytes, **options):
    return client.post("/api/uploads", params={"name": name}, content=data, **options)


def test_a_video_is_uploaded_and_can_be_looked_at(studio, client) -> None:
    data = (studio.workspace.root / "scene" / "scene.mp4").read_bytes()
    answer = upload(client, "new cup.mp4", data)
    assert (answer.status_code, answer.json()) == (201, {"id": "uploads/new cup.mp4"})
    assert (studio.workspace.root / "uploads" / "new cup.mp4").read_bytes() == data
    assert picture(client.get("/api/videos/uploads/new%20cup.mp4/frames/3.jpg")).ndim == 3
    for name in ("a.png", "b.png"):
        stream = io.BytesIO()
        Image.new("RGB", (8, 8)).save(stream, "PNG")
        assert upload(client, name, stream.getvalue()).status_code == 201
    listed = client.get("/api/workspace").json()["videos"]
    assert listed == ["scene/scene.mp4", "uploads/new cup.mp4"]
    again = upload(client, "new cup.mp4", data)
    assert (again.status_code, again.json()["detail"][-24:]) == (
        409,
        "already exists; give another name"[-24:],
    )


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("page.html", b"<script>alert(1)</script>"),
        ("picture.svg", b"<svg onload=alert(1)>"),
        ("page.mp4", b"<html><script>alert(1)</script>"),
        ("picture.png", b"<svg></svg>"),
        ("empty.mp4", b""),
        ("../out.mp4", b"x"),
        ("a/b.mp4", b"x"),
        (".hidden.mp4", b"x"),
        ("con.mp4", b"x"),
        ("nul\0.mp4", b"x"),
        ("cut.mp4", b"\0\0\0\x20ftypisom" + bytes(100)),
    ],
)
def test_what_is_no_video_leaves_nothing_behind(studio, client, name, data) -> None:
    answer = upload(client, name, data)
    assert answer.status_code in (400, 404)
    assert len(answer.json()["detail"]) < 600
    assert list((studio.workspace.root / "uploads").glob("*")) == []  # hidden ones included


def test_an_upload_that_is_too_large_is_stopped_while_it_comes(studio, client, monkeypatch) -> None:
    monkeypatch.setattr(security, "MAX_UPLOAD_BYTES", 3 << 20)
    sent = 0

    def pieces():  # of no length that is known before
        nonlocal sent
        for _ in range(64):
            sent += 1 << 20
            yield bytes(1 << 20)

    answer = upload(client, "large.mp4", pieces())
    assert answer.status_code == 413
    assert "at most 3 MB" in answer.json()["detail"]
    assert not list((studio.workspace.root / "uploads").iterdir())
    known = upload(client, "large.mp4", bytes(4 << 20))
    assert known.status_code == 413


def test_ids_lead_nowhere_but_into_the_workspace(tmp_path) -> None:
    root = tmp_path / "root"
    (root / "inside").mkdir(parents=True)
    (tmp_path / "secret.mp4").write_bytes(b"secret")
    (root / "link.mp4").symlink_to(tmp_path / "secret.mp4")
    (root / "up").symlink_to(tmp_path)
    (root / "loop").symlink_to(root / "loop")
    (root / ".hidden.mp4").write_bytes(b"hidden")
    workspace = Workspace(root)
    for id in (
        "..",
        "../secret.mp4",
        "inside/../../secret.mp4",
        "/etc/passwd",
        "link.mp4",
        "",
        ".",
        "up/secret.mp4",
        "loop",
        "loop/x",
        ".hidden.mp4",
        "a\0b",
        "a\nb",
        "C:/x",
        "C:x",
        "\\\\host\\x",
        "a\\b",
        "nul",
        "COM1.mp4",
        "inside/aux.mp4",
        "a//b",
        " x",
        "x ",
        "x" * 2000,
        "inside/",
        "./inside",
        "\ud800",
    ):
        with refused("the workspace", kind=NotThere):
            workspace.place(id)
    assert workspace.place("inside/new.mp4") == root / "inside" / "new.mp4"
    assert workspace.contents().videos == []


def test_names_that_need_escapes_are_found(studio, client) -> None:
    odd = "odd # 100% ?&+ü/a b.mp4"
    path = studio.workspace.root / odd
    path.parent.mkdir()
    shutil.copy(studio.workspace.root / "scene" / "scene.mp4", path)
    studio.workspace.changed()
    assert odd in client.get("/api/workspace").json()["videos"]
    from urllib.parse import quote

    assert client.get(f"/api/videos/{quote(odd)}/info").json()["frames"] == 60
    assert client.get(f"/api/videos/{quote(odd, safe='')}/info").json()["frames"] == 60


def test_the_answers_are_plain_json(client) -> None:
    text = client.get("/api/findings/cup/scene").text
    json.loads(text, parse_constant=lambda word: pytest.fail(word))
    assert base64.b64decode(json.loads(text)["rows"][0]["evidence"]["f32"])


def test_a_mistake_of_ours_is_a_sentence_too(studio, monkeypatch) -> None:
    from helpers.studio_client import TOKEN, TestClient, create_app

    monkeypatch.setattr(studio, "finding", lambda id: 1 / 0)
    client = TestClient(
        create_app(studio, TOKEN),
        base_url="http://localhost",
        headers={"authorization": f"Bearer {TOKEN}"},
        raise_server_exceptions=False,
    )
    answer = client.get("/api/findings/cup/scene")
    assert answer.status_code == 500
    assert "went wrong in the studio (ZeroDivisionError)" in answer.json()["detail"]


def test_links_in_folders_of_pictures_lead_nowhere_else(studio, client, tmp_path) -> None:
    folder = studio.workspace.root / "pictures"
    folder.mkdir()
    for number in range(2):
        Image.new("RGB", (32, 24)).save(folder / f"{number}.png")
    (folder / "2.png").symlink_to(folder / "1.png")
    assert client.get("/api/videos/pictures/frames/2.jpg").status_code == 200
    Image.new("RGB", (32, 24), (255, 0, 0)).save(tmp_path / "secret.png")
    (folder / "3.png").symlink_to(tmp_path / "secret.png")
    answer = client.get("/api/videos/pictures/frames/3.jpg")
    assert answer.status_code == 404
    assert "3.png is a link out of the workspace" in answer.json()["detail"]


@pytest.mark.parametrize(
    "text",
    [
        "ffconcat version 1.0\nfile scene.mp4\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nscene.mp4\n",
    ],
)
def test_a_list_of_other_files_is_no_video(studio, client, text) -> None:
    path = studio.workspace.root / "scene" / "list.mp4"
    path.write_text(text)
    for answer in (
        client.get("/api/videos/scene/list.mp4/frames/0.jpg"),
        upload(client, "list.mp4", text.encode()),
    ):
        assert answer.status_code == 400
        assert len(answer.json()["detail"]) < 600


def test_a_finding_that_names_places_elsewhere_opens_nothing_there(studio, client) -> None:
    document = studio.workspace.root / "cup" / "finding.json"
    written = json.loads(document.read_text())
    written["provenance"] |= {"video": "/etc/hostname", "masks": "/etc"}
    document.write_text(json.dumps(written))
    studio.workspace.changed()
    about = client.get("/api/findings/cup/info").json()
    assert (about["video"], about["masks"], about["prompts"]) == (None, None, [])
    for path in ("crops/3.jpg", "outline/3", "export/label-studio"):
        assert client.get(f"/api/findings/cup/{path}").status_code in (200, 404)
    assert client.get("/api/findings/cup/scene").status_code == 200
    assert client.get("/api/videos/scene/scene.mp4/info").json()["findings"] == []
