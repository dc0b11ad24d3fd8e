"""What an answer says is the same in every format: notes, occurrences, seconds, frames of the file.

One finding, with warnings, a state that comes back and a sampled video, goes through every writer.
"""

from __future__ import annotations

import csv
import html
import io
import json
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers import ROOT
from helpers.peers import PEER, need

from dejacue import Finding, History
from dejacue.cli.tables import as_text, timeline_table
from dejacue.files import read_timelines, write_history, write_vocabulary
from dejacue.files.findings import Provenance
from dejacue.method import Window, locate_many
from dejacue.method.localization import analyse
from dejacue.records import Note
from dejacue.report.exports import EXPORTS
from dejacue.video.video import Video
from dejacue_paper import generate
from dejacue_paper.data.rendered import render, write_scene

FILES = ROOT / "docs" / "files.md"
STEP, RATE = 3, 15  # every third frame of a file with 15 a second
WARNINGS = (  # in their order
    Note("words that mini does not know: xyzzy", "doubtful"),
    Note("the tracker may be wrong in frames 30 – 36 of the file: out of --> sight", "doubtful"),
    Note("masks: only 3 of 8 frames have a mask", "doubtful"),
    Note("mini only knows the rendered scenes of this project; use --encoder siglip2"),
)
MEANINGLESS = Note("all frames look the same", "meaningless")
NOTE = Note('"empty" <and> "filled" & others: p 0.90')
NO_NONE = Note(
    'words give every frame to a state; show an example of "none" to allow it', "information"
)
NOTES = (*WARNINGS, NO_NONE, NOTE)  # of the finding, of the reading


def example_finding() -> Finding:
    """Return a finding of two states that come three times each, every third frame of a video."""
    scene = generate(3, recurrences=3, frames=300)
    frames = scene.history.frames
    history = History(
        scene.history.features,
        frames,
        "cup",
        scene.history.encoder,
        times_s=frames * STEP / RATE,
        source_frames=frames * STEP,
    )
    timeline = analyse(history, scene.vocabulary)
    doubts = ((Window(30, 36), "it is out of sight (7 frames)"),)
    return Finding(
        history,
        scene.vocabulary,
        timeline.replace(notes=(*timeline.notes, NOTE)),
        doubts=doubts,
        warnings=WARNINGS,
        provenance=Provenance("kitchen.mp4", options={}),
    )


@pytest.fixture(scope="module")
def found() -> Finding:
    return example_finding()


class Content(NamedTuple):
    """What a reader of one format gets: notes (None: it has no place for them) and windows."""

    notes: list[str] | str | None
    windows: set[tuple[Any, ...]]


def content_of_rows(rows: list[dict[str, Any]]) -> Content:
    assert not any(row["notes"] for row in rows[1:])  # the first row carries them
    return Content(
        rows[0]["notes"].split(" | "),
        {
            (row["state"], int(row["start"]), int(row["end"]))
            for row in rows
            if row["start"] not in ("", None)
        },
    )


def from_json(data: bytes) -> Content:
    document = json.loads(data)
    windows = {(row["state"], row["start"], row["end"]) for row in document["intervals"]}
    return Content([Note(n["text"], n["severity"]).line for n in document["notes"]], windows)


def from_csv(data: bytes) -> Content:
    return content_of_rows(list(csv.DictReader(io.StringIO(data.decode()))))


def from_parquet(data: bytes) -> Content:
    parquet = pytest.importorskip("pyarrow.parquet")
    return content_of_rows(parquet.read_table(io.BytesIO(data)).to_pylist())


def from_vtt(data: bytes) -> Content:
    first, *blocks = data.decode().strip().split("\n\n")
    assert first == "WEBVTT"
    notes = [html.unescape(block[5:]) for block in blocks if block.startswith("NOTE ")]
    windows = set()
    for block in (block for block in blocks if not block.startswith("NOTE ")):
        _, times, text = block.split("\n")
        windows.add((text.split(":")[0], *(seconds(stamp) for stamp in times.split(" --> "))))
    return Content(notes, windows)


def seconds(stamp: str) -> float:
    hours, minutes, rest = stamp.split(":")
    return round(3600 * int(hours) + 60 * int(minutes) + float(rest), 2)


def from_label_studio(data: bytes) -> Content:
    (task,) = json.loads(data)
    assert task["data"]["video"] == "kitchen.mp4"
    windows = {
        (*region["value"]["timelinelabels"], row["start"] - 1, row["end"] - 1)
        for region in task["predictions"][0]["result"]
        for row in region["value"]["ranges"]
    }
    return Content(task["data"]["notes"].split("\n"), windows)


def from_arrow(data: bytes) -> Content:
    return content_of_rows(
        pytest.importorskip("pyarrow").ipc.open_file(data).read_all().to_pylist()
    )


def from_srt(data: bytes) -> Content:
    windows = set()
    for block in filter(None, data.decode().strip().split("\n\n")):
        _, times, text = block.split("\n")
        start, end = (seconds(stamp.replace(",", ".")) for stamp in times.split(" --> "))
        windows.add((text.split(":")[0], start, end))
    return Content(None, windows)


def from_eaf(data: bytes) -> Content:
    root = ElementTree.fromstring(data)
    slots = {slot.get("TIME_SLOT_ID"): slot.get("TIME_VALUE") for slot in root.iter("TIME_SLOT")}
    windows = {
        (
            tier.get("TIER_ID"),
            *(round(int(slots[annotation.get(f"TIME_SLOT_REF{n}")]) / 1000, 2) for n in (1, 2)),
        )
        for tier in root.iter("TIER")
        for annotation in tier.iter("ALIGNABLE_ANNOTATION")
    }
    return Content([note.text for note in root.iter("PROPERTY")], windows)


def from_cvat(data: bytes) -> Content:
    root = ElementTree.fromstring(data)
    windows = set()
    for track in root.iter("track"):
        first, *_, after = track.iter("box")
        assert (first.get("outside"), after.get("outside")) == ("0", "1")
        state = first.findtext("attribute")
        windows.add((state, int(first.get("frame")), int(after.get("frame")) - 1))
    return Content([note.text for note in root.iter("note")], windows)


def from_fiftyone(data: bytes) -> Content:
    document = json.loads(data)
    windows = {
        (document["classes"][row["label"]], *(frame - 1 for frame in row["support"]))
        for row in document["labels"]["kitchen"]
    }
    return Content(document["notes"], windows)


def from_rerun(data: bytes) -> Content:
    from rerun.chunk import RrdReader

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.rrd"
        path.write_bytes(data)
        tables = [piece.to_record_batch().to_pydict() for piece in RrdReader(str(path)).stream()]
    (notes,) = (table["TextDocument:text"] for table in tables if "TextDocument:text" in table)
    windows = set()
    for table in (table for table in tables if "StateChange:state" in table):
        when = [round(time.total_seconds(), 2) for time in table["video"]]
        states = [state for (state, *_) in table["StateChange:state"]]
        for state, start, end in zip(states, when, when[1:], strict=False):
            windows |= {(state, start, end)} if state else set()
    return Content(notes[0][0].split("\n"), windows)


READERS: dict[str, tuple[Callable[[bytes], Content], str]] = {
    "json": (from_json, "frames"),
    "csv": (from_csv, "frames"),
    "parquet": (from_parquet, "frames"),
    "vtt": (from_vtt, "seconds"),
    "label-studio": (from_label_studio, "source"),
    "arrow": (from_arrow, "frames"),
    "srt": (from_srt, "seconds"),
    "eaf": (from_eaf, "seconds"),
    "cvat": (from_cvat, "source"),
    "fiftyone": (from_fiftyone, "source"),
    "rerun": (from_rerun, "seconds"),
}
KINDS = [pytest.param(kind, marks=PEER if kind == "rerun" else ()) for kind in READERS]


def expected(finding: Finding, unit: str) -> set[tuple[Any, ...]]:
    counted = {
        "frames": lambda interval: tuple(interval.window),
        "source": lambda interval: (interval.source_start, interval.source_end),
        "seconds": lambda interval: tuple(round(second, 2) for second in interval.times_s),
    }[unit]
    return {(interval.state, *counted(interval)) for interval in finding}


def test_every_export_is_in_this_table_and_in_the_documentation():
    assert {*READERS, "labels"} == set(EXPORTS)  # labels are of frames, not of windows
    page = FILES.read_text(encoding="utf-8")
    for export in EXPORTS.values():
        assert f"`{export.suffix}`" in page


@pytest.mark.parametrize("kind", KINDS)
def test_every_export_says_what_a_reader_must_know(found, tmp_path, kind):
    if kind == "rerun":
        need("rerun")
    notes = READERS[kind][0](found.export(tmp_path / "found", kind).read_bytes()).notes
    if notes is None:
        row = re.search(rf"\| `{re.escape(EXPORTS[kind].suffix)}` \|.*", FILES.read_text("utf-8"))
        assert "no place for text" in row[0]
    else:
        assert notes == [note.line for note in NOTES]


@pytest.mark.parametrize("kind", KINDS)
def test_no_export_gives_a_window_of_an_answer_that_is_meaningless(found, tmp_path, kind):
    if kind == "rerun":
        need("rerun")
    withheld = replace(found, warnings=(*WARNINGS, MEANINGLESS))
    content = READERS[kind][0](withheld.export(tmp_path / "found", kind).read_bytes())
    assert content.windows == set()
    assert content.notes is None or content.notes[0] == "meaningless: all frames look the same"


def test_a_meaningless_answer_is_withheld_by_records_pages_and_plots(found, tmp_path):
    withheld = replace(found, warnings=(*WARNINGS, MEANINGLESS))
    assert (list(withheld), set(withheld.labels), withheld.at(0.5)) == ([], {None}, None)
    assert list(withheld.timeline.states) == list(found.timeline.states)
    assert withheld.meaningless == MEANINGLESS
    assert "no answer" in repr(withheld)
    assert not any(row["windows"] or row["evidence"] for row in withheld.scene()["rows"])
    page, notebook = withheld.report(), withheld._repr_html_()
    for text in (page[: page.index('id="scene"')], notebook, repr(withheld)):
        assert MEANINGLESS in text
        assert "not found" not in text
    assert page.index(MEANINGLESS) < page.index(WARNINGS[0]) < page.index(WARNINGS[-1])
    assert "<h2>Found</h2>" not in page
    assert withheld.plot(tmp_path / "found.png").is_file()


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_a_meaningless_answer_is_read_as_none(found, tmp_path, kind):
    withheld = replace(found, warnings=(MEANINGLESS,))
    (back,) = read_timelines(withheld.export(tmp_path / f"found.{kind}", kind))
    assert (list(back), list(back.states)) == ([], list(found.timeline.states))
    assert back.meaningless == MEANINGLESS
    assert [note.line for note in back.notes] == [note.line for note in withheld.timeline.notes]


@pytest.mark.parametrize("kind", KINDS)
def test_every_export_has_every_occurrence(found, tmp_path, kind):
    if kind == "rerun":
        need("rerun")
    reader, unit = READERS[kind]
    windows = reader(found.export(tmp_path / "found", kind).read_bytes()).windows
    assert len(expected(found, unit)) == 6
    assert windows == expected(found, unit)


def test_labels_have_every_observed_frame_of_a_finding_read_again(found, tmp_path):
    found.save(tmp_path / "f")
    again = Finding.read(tmp_path / "f")
    assert again.labels == found.labels
    assert set(again.labels) == {"empty", "filled"}  # words give every frame to a state
    table = again.export(tmp_path / "found.labels.csv", "labels").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [row["state"] for row in rows] == found.labels
    assert [int(row["frame"]) for row in rows] == found.history.frames.tolist()
    assert [float(row["time"]) for row in rows] == found.history.times_s.tolist()
    for interval in found:  # what is trimmed off an interval still has its label
        inside = found.history.rows_of(interval.window)
        assert {found.labels[row] for row in range(inside[0], inside[1] + 1)} == {interval.state}


def test_the_page_the_notebook_and_python_say_it_too(found):
    page, notebook = (html.unescape(text) for text in (found.report(), found._repr_html_()))
    banner = page[page.index('role="alert"') : page.index("</section>")]
    for text in WARNINGS:
        assert (text in banner) is (text.severity == "doubtful")
        assert page[: page.index('id="scene"')].count(text) == notebook.count(text) == 1
    assert NOTE in page
    assert NOTE in notebook
    assert found.timeline.notes == NOTES
    assert found.timeline.to_dataframe()["notes"].tolist()[0].split(" | ") == [
        note.line for note in NOTES
    ]


def test_written_and_read_again_it_says_everything_once(found, tmp_path):
    found.save(tmp_path / "f")
    again = Finding.read(tmp_path / "f")
    assert again.timeline.to_dict() == found.timeline.to_dict()
    other = again.with_words(readout="contrast")
    assert other.timeline.notes == WARNINGS  # notes of the readout are new


@pytest.mark.parametrize("words", [(), ("-o", "found.txt"), ("-f", "json"), ("-o", "found.vtt")])
def test_the_terminal_and_a_text_file_say_it_with_the_table(
    found, dejacue, tmp_path, monkeypatch, words
):
    monkeypatch.chdir(tmp_path)
    found.save(Path("f"))
    words_file = write_vocabulary("v.npz", found.vocabulary)
    ran = dejacue("find", "f", "-v", words_file, *words)
    assert ran.code == 0
    printed = ran.out if not words else ran.err
    *doubts, known = WARNINGS[1:]  # the first was of the other words
    expected = [*(note.line for note in doubts), f"note: {known}"]
    assert [line for line in printed.splitlines() if line in expected] == expected
    if not words:
        assert ran.err == ""  # once
    if "found.txt" in words:
        lines = Path("found.txt").read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if line in expected] == expected


def test_every_interval_has_seconds_and_frames_of_the_file_everywhere(found, tmp_path):
    rows = found.timeline.to_rows()
    assert [row["start"] for row in rows] == sorted(row["start"] for row in rows)
    *before, last = rows
    for row in rows:  # borders between the frames that were taken, around the same ones
        assert STEP * (row["start"] - 1) < row["source_start"] <= STEP * row["start"]
        assert STEP * row["end"] <= row["source_end"] < STEP * (row["end"] + 1)
        assert row["start_s"] == pytest.approx(row["source_start"] / RATE)
    assert any(row["source_start"] % STEP for row in rows)
    for row in before:
        assert row["end_s"] == pytest.approx((row["source_end"] + 1) / RATE)
    assert last["source_end"] == STEP * last["end"]  # nothing is known beyond
    assert last["end_s"] == pytest.approx(STEP * (last["end"] + 1) / RATE)
    assert not found.timeline.to_dataframe()[["start_s", "source_end"]].isna().any().any()
    text = found.export(tmp_path / "f.csv", "csv").read_text(encoding="utf-8")
    table = list(csv.DictReader(io.StringIO(text)))
    assert all(row["start_s"] and row["source_end"] for row in table)
    document = json.loads(found.export(tmp_path / "f.json", "json").read_text("utf-8"))
    for row, same in zip(document["intervals"], rows, strict=True):
        assert {name: row[name] for name in ("source_start", "source_end", "start_s", "end_s")} == {
            name: same[name] for name in ("source_start", "source_end", "start_s", "end_s")
        }
    printed = as_text(timeline_table(found.timeline))
    lines = [line for line in printed.splitlines() if line.startswith("│")]
    assert len(lines) == 6
    for line in lines:
        assert len(re.findall(r"\d – \d", line)) == 3  # frames, source frames, seconds


def test_intervals_come_back_from_json_csv_and_a_finding(found, tmp_path):
    from dejacue.files import read_timelines

    found.save(tmp_path / "f")
    assert Finding.read(tmp_path / "f").timeline.intervals == found.timeline.intervals
    for kind in ("json", "csv"):
        (timeline,) = read_timelines(found.export(tmp_path / f"f.{kind}", kind))
        assert timeline.intervals == found.timeline.intervals


def test_doubts_count_the_frames_of_the_file_on_the_page_and_in_the_document(found, tmp_path):
    page = found.report()
    assert "frames 30 – 36 of the file: it is out of sight (7 frames)" in page
    document = json.loads(found.save(tmp_path / "f").read_text(encoding="utf-8"))
    assert document["doubts"] == [[[30, 36], "it is out of sight (7 frames)"]]


def test_columns_of_many_histories_carry_the_notes_of_each():
    long, short = generate(3, frames=700), generate(4)
    many = locate_many(
        [long.history, short.history], [long.vocabulary, short.vocabulary], readout="published"
    )
    notes = many.columns()["notes"]
    assert [text is not None for text in notes] == [True] + [False] * 7
    assert "no window is longer than 483" in notes[0]


# The ending of a file names its format


@pytest.fixture
def saved(found, tmp_path, monkeypatch):
    """Write the folder of a finding, and a history alone, into an empty folder."""
    monkeypatch.chdir(tmp_path)
    found.save(Path("f"))
    write_history("alone.npz", found.history)
    write_vocabulary("v.npz", found.vocabulary)


@pytest.mark.parametrize("source", ["f", "alone.npz"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_what_its_ending_says(saved, dejacue, source, kind):
    if kind == "rerun":
        need("rerun")
    path = Path(f"found{EXPORTS[kind].suffix}")
    ran = dejacue("find", source, "-v", "v.npz", "-o", path)
    assert (ran.code, ran.out) == (0, "")
    data = path.read_bytes()
    if source == "f":
        assert len(READERS[kind][0](data).windows) == 6
    else:
        assert "┏".encode() not in data
        assert data


@pytest.mark.parametrize("name", ["found.jsonl", "found.xlsx", "found.v2"])
@pytest.mark.parametrize("source", ["f", "alone.npz", "video.mp4"])
def test_an_ending_that_names_no_format_is_refused(saved, dejacue, monkeypatch, source, name):
    before = sorted(Path().iterdir())
    ran = dejacue("find", source, "-v", "v.npz", "-o", name)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"dejacue: {name}: the file ending matches no format; use one of "
        f"{', '.join(each.suffix for each in EXPORTS.values())}, .txt (the table), or a folder\n"
    )
    assert sorted(Path().iterdir()) == before


def test_an_ending_and_a_format_that_differ_are_refused(saved, dejacue):
    for format, name in (("table", "x.vtt"), ("csv", "x.json"), ("json", "x.labelstudio.json")):
        ran = dejacue("find", "f", "-v", "v.npz", "-f", format, "-o", name)
        assert (ran.code, Path(name).exists()) == (2, False)
        assert f"{name}: the suffix does not match --format {format}" in ran.err
    assert dejacue("find", "f", "-v", "v.npz", "-f", "csv", "-o", "x.log").code == 0
    assert Path("x.log").read_text(encoding="utf-8").startswith("history,")


# Other words


@pytest.mark.parametrize("change", ["history", "folder", "no document"])
def test_other_words_keep_the_pictures_and_the_video(dejacue, tmp_path, monkeypatch, change):
    monkeypatch.chdir(tmp_path)
    write_scene(tmp_path / "cup", render(5, family="cup", topology="binary", frames=24))
    Path("other.yaml").write_text("dry: [empty cup]\nwet: [cup filled to the brim]\n")
    words = "cup/scene.mp4 --masks cup/Annotations --object 1 -v cup/vocabulary.yaml -o out"
    assert dejacue("find", *words.split(), "--encoder", "mini").code == 0
    pictures = re.findall('data:image[^"]*', Path("out/report.html").read_text("utf-8"))
    assert pictures

    def never(*_: object) -> None:
        raise AssertionError("the video was decoded again")

    monkeypatch.setattr(Video, "_frames", never)
    if change == "no document":
        Path("out/finding.json").unlink()
    source = "out" if change == "folder" else "out/scene.history.npz"
    ran = dejacue("find", source, "-v", "other.yaml", "-o", "out")
    assert ran.code == 0
    assert "note: mini only knows the rendered scenes of this project" in ran.out
    page = Path("out/report.html").read_text("utf-8")
    assert re.findall('data:image[^"]*', page) == pictures
    assert "dry" in page
    assert dejacue("find", source, "-o", "found.labelstudio.json").code == 0
    (task,) = json.loads(Path("found.labelstudio.json").read_text("utf-8"))
    if change != "no document":  # which knows the path
        assert os.path.abspath(task["data"]["video"]) == os.path.abspath("cup/scene.mp4")


def test_a_clip_is_cut_for_every_occurrence_and_old_ones_go(found, tmp_path):
    from dejacue.report.clips import cut_clips
    from dejacue.video.video import write_video

    images = (np.full((16, 16, 3), at % 250, np.uint8) for at in range(900))
    video = write_video(tmp_path / "v.mp4", images, 25)
    folder = tmp_path / "clips"
    folder.mkdir()
    for name in ("07-old.mp4", "100-old.mp4", "my-own.mp4", "2024-trip.mov", "01-notes.txt"):
        (folder / name).write_text("")
    clips = cut_clips(folder, str(video), found.history, found.timeline)
    assert len(clips) == 6
    names = sorted(path.name for path in folder.iterdir())
    own = ("my-own.mp4", "2024-trip.mov", "01-notes.txt")
    assert names == sorted([*(path.name for path in clips), *own])


def test_a_clip_that_another_run_is_writing_is_not_removed(tmp_path):
    from dejacue.atomic import write_whole
    from dejacue.report.clips import remove_clips

    def write(stream: IO[bytes]) -> None:
        stream.write(b"clip")
        remove_clips(tmp_path)

    clip = write_whole(tmp_path / "01-empty.mp4", write)
    assert clip.read_bytes() == b"clip"
    remove_clips(tmp_path)
    assert list(tmp_path.iterdir()) == []
