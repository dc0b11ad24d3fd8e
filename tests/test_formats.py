"""Files of other tools: each written, read by the tool's own package, and read back."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dejacue import (
    History,
    MissingExtra,
    Moment,
    Reference,
    Retrieval,
    Window,
    read_references,
    write_references,
)
from dejacue.report.exports import EXPORTS, frame_ends_s, marks_of, to_fiftyone
from dejacue.sources.formats.label_studio import view
from dejacue.sources.formats.registry import FORMATS

STATES = {"empty": [(0, 3), (9, 9)], "half full": [(4, 8)]}
CUP = Reference("cup", STATES)


def history(times=None, id: str = "cup", **more) -> History:
    """Ten frames of uneven length, none shorter than 3 ms."""
    if times is None:
        times = [0.0, 0.0334, 0.0667, 0.1, 0.1501, 0.1533, 0.2, 0.7, 1.7017, 1.7351]
    return History(np.ones((len(times), 2)), range(len(times)), id, times_s=times, **more)


def found(id: str = "cup") -> Retrieval:
    moments = tuple(
        Moment(state, f"{state} cup", Window(*windows[0]), score,
               alternatives=tuple((Window(*own), 0.5) for own in windows[1:]))
        for (state, windows), score in zip(STATES.items(), (2.0, -1.0), strict=True)
    )  # fmt: skip
    every = {"further_windows": "occurrences"}
    return Retrieval(moments, every, id, notes=("look <twice> & think",))


# Frames ↔ seconds


@pytest.mark.parametrize("kind", FORMATS)
def test_references_come_back_as_they_were(kind, tmp_path) -> None:
    if FORMATS[kind].package:
        pytest.importorskip("rerun", reason="rerun-sdk is not installed")
    path = tmp_path / f"truth{FORMATS[kind].suffix}"
    write_references(path, [CUP], times=history())
    (read,) = read_references(path, times=history(), history="cup")
    assert read == CUP


@pytest.mark.parametrize("kind", [".csv", ".parquet", ".arrow"])
def test_references_come_back_from_tables(kind, tmp_path) -> None:
    jug = Reference("jug", {"full": [(2, 5)]}, "kitchen")
    path = write_references(tmp_path / f"truth{kind}", [CUP, jug])
    assert read_references(path) == [CUP, jug]


@pytest.mark.parametrize("kind", ["vtt", "srt", "eaf", "otio", "rerun", "label-studio", "fiftyone",
                                  "cvat"])  # fmt: skip
def test_two_objects_of_one_video_stay_two(kind, tmp_path) -> None:
    if FORMATS[kind].package:
        pytest.importorskip("rerun", reason="rerun-sdk is not installed")
    given = [CUP, Reference("a jug", {"empty": [(2, 4)], "lid (2)": [(3, 6)]})]
    path = tmp_path / f"truth{FORMATS[kind].suffix}"
    names = {"cup": history(), "a jug": history(id="a jug")}
    write_references(path, given, times=names)
    read = {own.history_id: own for own in read_references(path, times=names)}
    assert read == {own.history_id: own for own in given}


@pytest.mark.parametrize("rounded", [np.floor, np.ceil, np.round])
def test_milliseconds_may_be_rounded_in_any_way(rounded, tmp_path) -> None:
    own = history()
    ends = frame_ends_s(own)
    for first in range(10):
        for last in range(first, 10):
            start, end = rounded([1000 * own.times_s[first], 1000 * ends[last]]).astype(int)
            text = f"1\n{stamp(start)} --> {stamp(end)}\nfull\n"
            (tmp_path / "t.srt").write_text(text)
            (read,) = read_references(tmp_path / "t.srt", times=own)
            assert read.states == {"full": (Window(first, last),)}


def stamp(milliseconds: int) -> str:
    return f"00:00:{milliseconds // 1000:02},{milliseconds % 1000:03}"


def test_a_sampled_history_counts_the_frames_of_the_file(tmp_path) -> None:
    own = history(source_frames=np.arange(10) * 5)
    for kind in ("fiftyone", "eaf"):
        data = EXPORTS[kind](found(), own)
        path = tmp_path / f"t{FORMATS[kind].suffix}"
        path.write_bytes(data)
        (read,) = read_references(path, times=own)
        assert read.states == {"empty": (Window(0, 15), Window(45, 45)),
                               "half full": (Window(20, 40),)}  # fmt: skip


# Read by the tools' own packages


def written(tmp_path: Path, kind: str, **more) -> Path:
    path = tmp_path / f"found{FORMATS[kind].suffix}"
    path.write_bytes(EXPORTS[kind](found(), history(), **more))
    return path


def test_pympi_reads_the_tiers(tmp_path) -> None:
    elan = pytest.importorskip("pympi.Elan", reason="pympi-ling is not installed")
    path = written(tmp_path, "eaf", videos={"cup": str(tmp_path / "a b.mp4")})
    document = elan.Eaf(str(path))
    assert sorted(document.get_tier_names()) == ["empty", "half full"]
    spans = [own[:3] for own in document.get_annotation_data_for_tier("empty")]
    assert spans == [(0, 150, "empty cup"), (1735, 1769, "empty cup")]
    assert document.get_parameters_for_tier("empty")["PARTICIPANT"] == "cup"
    (media,) = document.get_linked_files()
    assert media["MEDIA_URL"].endswith("/a%20b.mp4")
    assert media["RELATIVE_MEDIA_URL"] == "./a b.mp4"


def test_what_pympi_writes_is_read(tmp_path) -> None:
    elan = pytest.importorskip("pympi.Elan", reason="pympi-ling is not installed")
    document = elan.Eaf(author="someone")
    document.add_tier("half full")
    document.add_annotation("half full", 150, 1702, "x")
    document.to_file(str(tmp_path / "own.eaf"))
    (read,) = read_references(tmp_path / "own.eaf", times=history())
    assert read == Reference("own", {"half full": [(4, 7)]})


def test_opentimelineio_reads_the_markers(tmp_path) -> None:
    otio = pytest.importorskip("opentimelineio", reason="opentimelineio is not installed")
    steady = history(np.arange(10) / 25)
    path = tmp_path / "found.otio"
    for own, rate in ((steady, 25), (history(), 1_000_000)):
        path.write_bytes(EXPORTS["otio"](found(), own, videos={"cup": "cup.mp4"}))
        (clip,) = otio.adapters.read_from_file(str(path)).find_clips()
        assert clip.media_reference.target_url == "cup.mp4"
        marked = {marker.name: marker.marked_range for marker in reversed(clip.markers)}
        assert marked["half full"].start_time.rate == rate
        start, end = marked["half full"].start_time, marked["half full"].end_time_exclusive()
        assert start.to_seconds() == pytest.approx(own.times_s[4], abs=1e-6)
        assert end.to_seconds() == pytest.approx(own.times_s[9], abs=1e-6)
    otio.adapters.write_to_file(otio.adapters.read_from_file(str(path)), str(path))
    (read,) = read_references(path, times=history())
    assert read == CUP


def test_rerun_reads_the_changes(tmp_path) -> None:
    chunk = pytest.importorskip("rerun.chunk", reason="rerun-sdk is not installed")
    rows = {}
    for own in chunk.RrdReader(str(written(tmp_path, "rerun"))).stream():
        table = own.to_record_batch().to_pydict()
        if "StateChange:state" in table:
            when = [value.total_seconds() for value in table["video"]]
            rows[own.entity_path] = list(zip(when, table["StateChange:state"], strict=True))
    ends = frame_ends_s(history())
    assert rows == {
        "/cup/state": [(0.0, ["empty"]), (0.1501, ["half full"]), (1.7351, ["empty"]),
                       (pytest.approx(ends[-1], abs=1e-6), [""])]
    }  # fmt: skip


def test_rerun_gives_states_that_overlap_a_lane_each(tmp_path) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed")
    given = Reference("cup", {"empty": [(0, 5), (3, 7)], "lid/on": [(2, 8)]})
    path = write_references(tmp_path / "t.rrd", [given], times=history())
    (read,) = read_references(path, times=history())
    assert read == Reference("cup", {"empty": [(0, 7)], "lid/on": [(2, 8)]})


def test_datumaro_reads_the_tracks(tmp_path) -> None:
    datumaro = pytest.importorskip("datumaro", reason="datumaro is not installed")
    path = written(tmp_path, "cvat")
    seen = {}
    for item in datumaro.Dataset.import_from(str(path), "cvat"):
        for own in item.annotations:
            if not own.attributes["outside"]:
                seen.setdefault(own.attributes["state"], set()).add(item.attributes["frame"])
    assert seen == {"empty": {0, 3, 9}, "half full": {4, 8}}


def test_the_interface_of_label_studio_takes_view_tasks_and_predictions(tmp_path) -> None:
    sdk = pytest.importorskip(
        "label_studio_sdk.label_interface", reason="label-studio-sdk is not installed"
    )
    interface = sdk.LabelInterface(view(marks_of(found(), history(), timed=False)))
    interface.validate()
    (task,) = json.loads(written(tmp_path, "label-studio").read_text())
    assert interface.validate_task({"data": task["data"]})
    (prediction,) = task["predictions"]
    assert interface.validate_prediction(prediction, return_errors=True) == []
    prediction["result"][0]["value"]["timelinelabels"] = ["no such state"]
    assert interface.validate_prediction(prediction, return_errors=True) != []


class Fake(SimpleNamespace):
    """A class of fiftyone: keeps what it is given."""


def test_fiftyone_gets_its_classes(monkeypatch) -> None:
    fake = SimpleNamespace(TemporalDetection=Fake, TemporalDetections=Fake)
    monkeypatch.setitem(sys.modules, "fiftyone", fake)
    made = to_fiftyone(found(), history(), videos={"cup": "cup.mp4"})
    assert [(own.label, own.support) for own in made["cup.mp4"].detections] == [
        ("empty", [1, 4]), ("empty", [10, 10]), ("half full", [5, 9]),
    ]  # fmt: skip
    assert [own.confidence for own in made["cup.mp4"].detections] == [
        pytest.approx(5 / 6), pytest.approx(2 / 3), 0.25,
    ]  # fmt: skip


def test_without_fiftyone_the_remedy_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    with pytest.raises(MissingExtra, match="fiftyone is not installed; pip install fiftyone"):
        to_fiftyone(found(), history())


def test_fiftyone_json_has_classes_and_supports_from_one(tmp_path) -> None:
    document = json.loads(
        written(tmp_path, "fiftyone", videos={"cup": "a/kitchen.mp4"}).read_text()
    )
    assert document["classes"] == ["empty", "half full"]
    rows = document["labels"]["kitchen"]
    assert [(own["label"], own["support"]) for own in rows] == [
        (0, [1, 4]), (0, [10, 10]), (1, [5, 9]),
    ]  # fmt: skip
    assert all(0 <= own["confidence"] <= 1 for own in rows)
