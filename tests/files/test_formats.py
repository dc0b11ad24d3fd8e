"""Files of other tools: each written, read by the tool's own package, and read back."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import ROOT
from helpers.altered import bounded
from helpers.errors import refused
from helpers.peers import PEER, need

from dejacue import History, Interval, Reference, Timeline, Vocabulary, find
from dejacue.errors import MissingExtra
from dejacue.files import (
    read_references,
    write_history,
    write_references,
    write_vocabulary,
)
from dejacue.files.formats.clock import average_rate
from dejacue.files.formats.label_studio import view
from dejacue.files.formats.registry import FORMATS
from dejacue.method import Window
from dejacue.report.exports import EXPORTS, frame_ends_s, marks_of, to_fiftyone
from dejacue_paper import generate

STATES = {"empty": [(0, 3), (9, 9)], "half full": [(4, 8)]}
CUP = Reference("cup", STATES)
UNPACKED = "save it with the compression snappy, or without"
KINDS = [pytest.param(kind, marks=PEER if FORMATS[kind].needs else ()) for kind in FORMATS]


def history(times=None, id: str = "cup", **options) -> History:
    """Return ten frames of uneven length, none shorter than 3 ms."""
    if times is None:
        times = [0.0, 0.0334, 0.0667, 0.1, 0.1501, 0.1533, 0.2, 0.7, 1.7017, 1.7351]
    rows = np.stack([np.ones(len(times)), 1 + np.arange(len(times)) / 10], axis=1)
    return History(rows, range(len(times)), id, times_s=times, **options)


def timeline() -> Timeline:
    """Return the windows of ``STATES``; how far to trust the last one is not known."""
    rows = [
        Interval(state, *window, 1.0, confidence=None if window == (9, 9) else window[1] / 10)
        for state, windows in STATES.items()
        for window in windows
    ]
    texts = {state: [f"{state} cup"] for state in STATES}
    return Timeline.of(rows, texts, history_id="cup", notes=("look <twice> & think",))


# Frames ↔ seconds


@pytest.mark.parametrize("kind", KINDS)
def test_references_come_back_as_they_were(kind, tmp_path) -> None:
    if FORMATS[kind].needs:
        need("rerun")
    path = tmp_path / f"truth{FORMATS[kind].suffix}"
    write_references(path, [CUP], times=history())
    (read,) = read_references(path, times=history(), history="cup")
    assert read == CUP


@pytest.mark.parametrize("kind", [".csv", ".parquet", ".arrow"])
def test_references_come_back_from_tables(kind, tmp_path) -> None:
    jug = Reference("jug", {"full": [(2, 5)]}, "kitchen")
    path = write_references(tmp_path / f"truth{kind}", [CUP, jug])
    assert read_references(path) == [CUP, jug]


def test_columns_of_a_table_that_unfold_are_refused_before_they_do(tmp_path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"history": ["h"] * 200, "state": ["s"] * 200, "start": range(200)}
    columns["end"] = columns["start"]
    path = tmp_path / "truth.parquet"
    parquet.write_table(pyarrow.table(columns | {"component": [["c"]] * 200}), path)
    with refused(path, "component"):
        read_references(path)
    texts = pyarrow.array(["x" * (1 << 20)] * 200)
    plain = {"compression": "zstd", "use_dictionary": False}
    parquet.write_table(pyarrow.table(columns | {"notes": texts}), path, **plain)
    assert len(read_references(path)) == 1  # nobody reads this column
    damage_nulls(path)
    with refused(path):
        read_references(path)
    parquet.write_table(pyarrow.table(columns | {"component": texts}), path, **plain)
    with refused(path, UNPACKED):
        read_references(path)
    group = parquet.read_metadata(path).row_group(0)
    content = path.read_bytes()
    for size in {group.total_byte_size, group.column(4).total_uncompressed_size}:
        told = varint(2 * size)
        assert told in content
        content = content.replace(told, b"\x80" * (len(told) - 1) + b"\x00")
    path.write_bytes(content)  # the footer says that nothing is unpacked
    with refused(path, UNPACKED):
        read_references(path)
    arrow = tmp_path / "truth.arrow"
    packed = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    table = pyarrow.table(columns)
    with pyarrow.ipc.new_file(arrow, table.schema, options=packed) as writer:
        writer.write_table(table)
    with refused(arrow, "save it without compression"):
        read_references(arrow)


def rows_of(count: int, **others: object) -> dict[str, object]:
    zeros = np.zeros(count, int)
    return {"history": ["h"] * count, "state": ["s"] * count, "start": zeros, "end": zeros} | others


@pytest.mark.parametrize(
    ("count", "component", "options"),
    [
        pytest.param(10_000_000, None, {}, id="rows of one value"),
        pytest.param(2, ["y" * 90_000_000] * 2, {"compression": "zstd"}, id="a long text"),
        pytest.param(2, ["y" * 90_000_000] * 2, {"compression": "brotli"}, id="brotli"),
        pytest.param(
            20_000,
            ["x" * 20_000 + str(k) for k in range(20_000)],
            {"column_encoding": {"component": "DELTA_BYTE_ARRAY"}, "use_dictionary": ["state"]},
            id="texts that share their beginning",
        ),
    ],
)
def test_a_small_table_that_unfolds_is_refused_at_once(tmp_path, count, component, options):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "truth.parquet"
    others = {} if component is None else {"component": component}
    parquet.write_table(pyarrow.table(rows_of(count, **others)), path, **options)
    assert path.stat().st_size < 500_000
    del others, component
    with bounded(path, 32 << 20), refused(path):
        read_references(path)


def test_a_dictionary_of_which_rows_name_little_is_not_unpacked(tmp_path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    words = pyarrow.DictionaryArray.from_arrays(np.zeros(9, np.int32), ["a"] * 3_000_000)
    path = tmp_path / "truth.parquet"
    table = pyarrow.table(rows_of(9, component=words))
    parquet.write_table(table, path, compression="gzip")
    assert path.stat().st_size < 20_000
    with bounded(path, 128 << 20):
        (reference,) = read_references(path)
    assert reference.component == "a"


def test_row_groups_that_name_the_same_bytes_are_refused(tmp_path) -> None:
    """Their footer is small, and each of them is unpacked."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, footer = tmp_path / "truth.parquet", tmp_path / "footer"
    texts = [f"{'x' * 300}{k}" for k in range(1000)]
    parquet.write_table(pyarrow.table(rows_of(1000, component=texts)), path)
    metadata, group = parquet.read_metadata(path), parquet.read_metadata(path)
    for _ in range(30):
        metadata.append_row_groups(group)
    metadata.write_metadata_file(footer)
    content = path.read_bytes()
    path.write_bytes(content[: -8 - int.from_bytes(content[-8:-4], "little")])
    with path.open("ab") as stream:
        stream.write(footer.read_bytes()[4:])
    assert path.stat().st_size < 61_000
    with bounded(path), refused(path):
        read_references(path)


def varint(value: int) -> bytes:
    digits = [value >> shift & 127 for shift in range(0, value.bit_length(), 7)]
    return bytes([*(digit | 128 for digit in digits[:-1]), digits[-1]])


def damage_nulls(path) -> None:
    """Say that a column has no nulls, while its statistics count them: pyarrow must not be asked
    for its size, since that ends the process."""
    nullable = b"\x25\x02\x18\x05state"  # a field of the schema, and the beginning of the next
    content = path.read_bytes()
    assert content.count(nullable) == 1
    path.write_bytes(content.replace(nullable, nullable.replace(b"\x02", b"\x00")))


def test_a_history_without_duration_has_no_rate() -> None:
    example = generate(frames=12, dimension=9)
    moment = replace(example.history, times_s=5e-324 * np.arange(len(example.history)))
    assert average_rate(moment) is None


@pytest.mark.parametrize("kind", [".parquet", ".arrow"])
def test_tables_have_at_most_so_many_rows(kind, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("dejacue.files.formats.tables.MAX_ROWS", 3)
    assert read_references(write_references(tmp_path / f"truth{kind}", [CUP])) == [CUP]
    jug = Reference("jug", {"full": [(2, 5)]})
    path = write_references(tmp_path / f"more{kind}", [CUP, jug])
    with refused(path, 4):
        read_references(path)


@pytest.mark.parametrize(
    "kind",
    [
        "vtt",
        "srt",
        "eaf",
        pytest.param("rerun", marks=PEER),
        "label-studio",
        "fiftyone",
        "cvat",
    ],
)
def test_two_objects_of_one_video_stay_two(kind, tmp_path) -> None:
    if FORMATS[kind].needs:
        need("rerun")
    references = [CUP, Reference("a jug", {"empty": [(2, 4)], "lid (2)": [(3, 6)]})]
    path = tmp_path / f"truth{FORMATS[kind].suffix}"
    names = {"cup": history(), "a jug": history(id="a jug")}
    write_references(path, references, times=names)
    read = {reference.history_id: reference for reference in read_references(path, times=names)}
    assert read == {reference.history_id: reference for reference in references}


@pytest.mark.parametrize("rounded", [np.floor, np.ceil, np.round])
def test_milliseconds_may_be_rounded_in_any_way(rounded, tmp_path) -> None:
    cup = history()
    ends = frame_ends_s(cup)
    for first in range(10):
        for last in range(first, 10):
            start, end = rounded([1000 * cup.times_s[first], 1000 * ends[last]]).astype(int)
            text = f"1\n{stamp(start)} --> {stamp(end)}\nfull\n"
            (tmp_path / "t.srt").write_text(text)
            (read,) = read_references(tmp_path / "t.srt", times=cup)
            assert read.states == {"full": (Window(first, last),)}


def stamp(milliseconds: int) -> str:
    return f"00:00:{milliseconds // 1000:02},{milliseconds % 1000:03}"


def test_a_sampled_history_counts_the_frames_of_the_file(tmp_path) -> None:
    sampled = history(source_frames=np.arange(10) * 5)
    for kind in ("fiftyone", "eaf"):
        path = tmp_path / f"t{FORMATS[kind].suffix}"
        path.write_bytes(EXPORTS[kind](timeline(), sampled))
        (read,) = read_references(path, times=sampled)
        assert read.states == {
            "empty": (Window(0, 15), Window(45, 45)),
            "half full": (Window(20, 40),),
        }


# Read by the tools' own packages


def written(tmp_path: Path, kind: str, **options) -> Path:
    path = tmp_path / f"found{FORMATS[kind].suffix}"
    path.write_bytes(EXPORTS[kind](timeline(), history(), **options))
    return path


def test_pympi_reads_the_tiers(tmp_path) -> None:
    elan = pytest.importorskip("pympi.Elan", reason="pympi-ling is not installed")
    path = written(tmp_path, "eaf", videos={"cup": str(tmp_path / "a b.mp4")})
    document = elan.Eaf(str(path))
    assert sorted(document.get_tier_names()) == ["empty", "half full"]
    spans = [row[:3] for row in document.get_annotation_data_for_tier("empty")]
    assert spans == [(0, 150, "empty cup"), (1735, 1768, "empty cup")]
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


@pytest.mark.parametrize(("origin", "frames"), [("0", (0, 3)), ("soon", (0, 3)), ("150", (4, 7))])
def test_elan_counts_from_its_time_origin_if_that_is_a_number(tmp_path, origin, frames) -> None:
    ends = {"0": 150, "soon": 150, "150": 1552}
    media = f'<MEDIA_DESCRIPTOR MEDIA_URL="cup.mp4" TIME_ORIGIN="{origin}"/>'
    text = eaf(b=f'TIME_VALUE="{ends[origin]}"')
    text = text.replace('"milliseconds"/>', f'"milliseconds">{media}</HEADER>')
    (tmp_path / "own.eaf").write_text(text)
    (read,) = read_references(tmp_path / "own.eaf", times=history())
    assert read.states["empty"] == (Window(*frames),)


def test_labels_of_fiftyone_may_be_in_seconds(tmp_path) -> None:
    path = tmp_path / "own.fiftyone.json"
    path.write_text(labels(timestamps=[0.1501, 1.7017]))
    (read,) = read_references(path, times=history())
    assert read.states == {"empty": (Window(4, 7),)}


@pytest.mark.long
@pytest.mark.peers
def test_rerun_reads_the_changes(tmp_path) -> None:
    chunk = need("rerun.chunk")
    rows = {}
    for piece in chunk.RrdReader(str(written(tmp_path, "rerun"))).stream():
        table = piece.to_record_batch().to_pydict()
        if "StateChange:state" in table:
            when = [value.total_seconds() for value in table["video"]]
            rows[piece.entity_path] = list(zip(when, table["StateChange:state"], strict=True))
    ends = frame_ends_s(history())
    assert rows == {
        "/cup/state": [
            (0.0, ["empty"]),
            (0.1501, ["half full"]),
            (1.7351, ["empty"]),
            (pytest.approx(ends[-1], abs=1e-6), [""]),
        ]
    }


@pytest.mark.long
@pytest.mark.peers
def test_rerun_gives_states_that_overlap_a_lane_each(tmp_path) -> None:
    need("rerun")
    reference = Reference("cup", {"empty": [(0, 5), (3, 7)], "lid/on": [(2, 8)]})
    path = write_references(tmp_path / "t.rrd", [reference], times=history())
    (read,) = read_references(path, times=history())
    assert read == Reference("cup", {"empty": [(0, 7)], "lid/on": [(2, 8)]})


@pytest.mark.long
@pytest.mark.peers
def test_datumaro_reads_the_tracks(tmp_path) -> None:
    datumaro = need("datumaro")
    path = written(tmp_path, "cvat")
    seen = {}
    for item in datumaro.Dataset.import_from(str(path), "cvat"):
        for box in item.annotations:
            if not box.attributes["outside"]:
                seen.setdefault(box.attributes["state"], set()).add(item.attributes["frame"])
    assert seen == {"empty": {0, 3, 9}, "half full": {4, 8}}


@pytest.mark.long
@pytest.mark.peers
def test_the_interface_of_label_studio_takes_view_tasks_and_predictions(tmp_path) -> None:
    sdk = need("label_studio_sdk.label_interface")
    interface = sdk.LabelInterface(view(marks_of(timeline(), history(), timed=False)))
    interface.validate()
    (task,) = json.loads(written(tmp_path, "label-studio").read_text())
    assert interface.validate_task({"data": task["data"]})
    (prediction,) = task["predictions"]
    assert interface.validate_prediction(prediction, return_errors=True) == []
    prediction["result"][0]["value"]["timelinelabels"] = ["no such state"]
    assert interface.validate_prediction(prediction, return_errors=True) != []


@pytest.mark.long
@pytest.mark.peers
def test_the_converter_of_label_studio_reads_the_regions(tmp_path) -> None:
    sdk = need("label_studio_sdk.converter")
    path = write_references(tmp_path / "t.labelstudio.json", [CUP], times=history())
    (task,) = json.loads(path.read_text())
    task["id"] = 1  # the server numbers them
    task["annotations"][0] |= {"id": 1, "completed_by": 1, "created_at": "", "updated_at": ""}
    task["annotations"][0]["lead_time"] = 1
    path.write_text(json.dumps([task]))
    words = view(marks_of(timeline(), history(), timed=False))
    converter = sdk.Converter(config=words, project_dir=str(tmp_path), download_resources=False)
    converter.convert(str(path), str(tmp_path / "min"), "JSON_MIN", is_dir=False)
    (row,) = json.loads((tmp_path / "min" / "result.json").read_text())
    assert [(row["timelinelabels"], row["ranges"]) for row in row["states"]] == [
        (["empty"], [{"start": 1, "end": 4}]),
        (["empty"], [{"start": 10, "end": 10}]),
        (["half full"], [{"start": 5, "end": 9}]),
    ]
    (read,) = read_references(path)
    assert read == CUP


class Fake(SimpleNamespace):
    """A class of fiftyone that keeps its arguments as attributes."""


def test_fiftyone_gets_its_classes(monkeypatch) -> None:
    fake = SimpleNamespace(TemporalDetection=Fake, TemporalDetections=Fake)
    monkeypatch.setitem(sys.modules, "fiftyone", fake)
    detections = to_fiftyone(timeline(), history(), videos={"cup": "cup.mp4"})["cup.mp4"].detections
    assert [(row.label, row.support) for row in detections] == [
        ("empty", [1, 4]),
        ("half full", [5, 9]),
        ("empty", [10, 10]),
    ]
    assert [getattr(row, "confidence", None) for row in detections] == [0.3, 0.8, None]


def test_a_finding_gives_its_detections_to_fiftyone(monkeypatch) -> None:
    fake = SimpleNamespace(TemporalDetection=Fake, TemporalDetections=Fake)
    monkeypatch.setitem(sys.modules, "fiftyone", fake)
    scene = generate(3)
    finding = find(scene.history, scene.vocabulary)
    spans = {(row.label, *row.support) for row in finding.to_fiftyone().detections}
    expected = {(row.state, row.window.start + 1, row.window.end + 1) for row in finding}
    assert spans == expected


def test_without_fiftyone_the_remedy_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    with pytest.raises(MissingExtra, match="pip install fiftyone"):
        to_fiftyone(timeline(), history())


def test_fiftyone_json_has_classes_and_supports_from_one(tmp_path) -> None:
    document = json.loads(
        written(tmp_path, "fiftyone", videos={"cup": "a/kitchen.mp4"}).read_text()
    )
    assert document["classes"] == ["empty", "half full"]
    rows = document["labels"]["kitchen"]
    assert [(row["label"], row["support"]) for row in rows] == [
        (0, [1, 4]),
        (1, [5, 9]),
        (0, [10, 10]),
    ]
    assert [row.get("confidence") for row in rows] == [0.3, 0.8, None]


def test_a_track_of_cvat_may_go_through_several_states(tmp_path) -> None:
    boxes = [
        (2, "empty", 0),
        (3, "empty", 0),
        (4, "half full", 0),
        (6, "half full", 1),
        (8, "empty", 0),
        (9, "empty", 0),
    ]
    text = "".join(
        f'<box frame="{frame}" outside="{gone}"><attribute name="state">{state}</attribute></box>'
        for frame, state, gone in boxes
    )
    path = tmp_path / "t.cvat.xml"
    path.write_text(f'<annotations><track id="0" label="cup">{text}</track></annotations>')
    states = {"empty": [(2, 3), (8, 9)], "half full": [(4, 5)]}
    assert read_references(path) == [Reference("cup", states)]


def test_spans_of_a_state_that_overlap_have_tiers_of_their_own_in_elan(tmp_path) -> None:
    windows = [(0, 5), (2, 7), (6, 8)]
    path = write_references(
        tmp_path / "t.eaf", [Reference("cup", {"on": windows})], times=history()
    )
    assert path.read_text().count("<TIER ") == 2
    assert 'TIER_ID="on (2)"' in path.read_text()
    (read,) = read_references(path, times=history())
    assert read.states == {"on": tuple(Window(*window) for window in windows)}


# From the command line


def test_a_file_that_names_its_video_needs_no_times(uneven_video, tmp_path) -> None:
    path = write_references(tmp_path / "t.eaf", [CUP], times=uneven_video)
    assert read_references(path) == [CUP]
    beside = uneven_video.with_name("t.eaf")
    beside.write_text(path.read_text().replace(str(uneven_video.parent), "/gone"))
    assert read_references(beside) == [CUP]


def test_what_was_found_is_measured_by_a_file_of_elan(uneven_video, tmp_path, dejacue) -> None:
    answers = tmp_path / "found.json"
    answers.write_text(timeline().to_json())
    truth = write_references(
        tmp_path / "anything.eaf", [Reference("x", STATES)], times=uneven_video
    )
    ran = dejacue("evaluate", answers, truth, "--times", uneven_video, "-f", "json")
    assert ran.code == 0, ran.err
    assert '"mean": 1.0' in ran.out


def test_references_of_another_tool_stand_in_the_report(tmp_path, dejacue) -> None:
    write_history(tmp_path / "cup.npz", history(encoder="e"))
    words = Vocabulary({"empty": ["one"], "half full": ["two"]}, np.eye(2), "e")
    write_vocabulary(tmp_path / "v.npz", words)
    truth = write_references(tmp_path / "t.srt", [CUP], times=history())
    ran = dejacue("find", tmp_path / "cup.npz", "-v", tmp_path / "v.npz", "--references", truth)
    assert ran.code == 0, ran.err
    assert "tIoU" in ran.out


def test_label_studio_gets_its_view_beside_the_tasks(tmp_path, dejacue) -> None:
    write_history(tmp_path / "cup.npz", history(encoder="e"))
    words = Vocabulary({"a": ["one"], "b": ["two"]}, np.eye(2), "e")
    write_vocabulary(tmp_path / "v.npz", words)
    path = tmp_path / "found.labelstudio.json"
    assert dejacue("find", tmp_path / "cup.npz", "-v", tmp_path / "v.npz", "-o", path).code == 0
    text = (tmp_path / "found.labelstudio.config.xml").read_text()
    assert 'frameRate="5.18' in text  # 9 frames in 1.7351 s
    assert '<Label value="' in text


# Bad input

EAF = """<ANNOTATION_DOCUMENT><HEADER TIME_UNITS="milliseconds"/><TIME_ORDER>
<TIME_SLOT TIME_SLOT_ID="a" TIME_VALUE="{a}"/><TIME_SLOT TIME_SLOT_ID="b" {b}/></TIME_ORDER>
<TIER TIER_ID="{tier}"><ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="a"
TIME_SLOT_REF2="b"/></ANNOTATION></TIER></ANNOTATION_DOCUMENT>"""


def eaf(a="0", b='TIME_VALUE="150"', tier="empty") -> str:
    return EAF.format(a=a, b=b, tier=tier)


def labels(**row) -> str:
    return json.dumps({"classes": ["empty"], "labels": {"cup": [{"label": 0, **row}]}})


def region(first, last) -> dict:
    value = {"ranges": [{"start": first, "end": last}], "timelinelabels": ["empty"]}
    return {"id": "r", "type": "timelinelabels", "value": value}


def cvat(box: str) -> str:
    return f'<annotations><track id="1" label="cup">{box}</track></annotations>'


def tasks(*results: list) -> str:
    return json.dumps([{"annotations": [{"result": result} for result in results]}])


BAD = [
    (".eaf", eaf(tier="comments"), "comments"),
    (".eaf", eaf(b='TIME_VALUE="99000"'), "99 s"),
    (".eaf", eaf(b='TIME_VALUE="inf"'), "time inf"),
    (".eaf", eaf(b=""), "annotation a1"),
    (".eaf", eaf(b='TIME_VALUE="0"'), "ends at 0 s"),
    (".eaf", eaf(a="51", b='TIME_VALUE="90"'), "0.051 to 0.09 s"),
    (".eaf", eaf().replace("milliseconds", "x"), 'time unit "x"'),
    (".eaf", eaf()[:200], "line 3, column 22"),
    (".eaf", '<!DOCTYPE a [<!ENTITY b "c">]>' + eaf(), "<!DOCTYPE>"),
    (".eaf", "<View/>", "<ANNOTATION_DOCUMENT>"),
    (".eaf", "<ANNOTATION_DOCUMENT/>", "marks no state"),
    (".srt", "1\n00:00:01,000 --> 00:00:0x,000\nempty\n", "00:00:01,000 --> 00:00:0x,000"),
    (".srt", "1\n00:00:00,000 --> 00:00:01,000\nfull\n", 'unknown state "full"'),
    (".srt", "1\n00:00:00,000 --> 00:00:01,000\n\n", "00:00:00,000 --> 00:00:01,000"),
    (".vtt", "WEBVTT\n\nNOTE nothing\n", "has no cue"),
    (".vtt", f"WEBVTT\n\n00:00.000 --> 00:01.000\n&#{'9' * 5000};\n", "a character reference"),
    (".fiftyone.json", labels(support=[0, 3]), "frame 0"),
    (".fiftyone.json", labels(support=[4, 3]), "frame 3"),
    (".fiftyone.json", labels(support=[1, 40]), "[0, 39]"),
    (".fiftyone.json", labels(support=[1, 2], label=7), "label 7"),
    (".fiftyone.json", labels(), '"support"'),
    (".fiftyone.json", '{"labels": {"cup": 7}}', 'labels of "cup"'),
    (".fiftyone.json", "[]", 'has no "labels"'),
    (".cvat.xml", "<annotations><image/></annotations>", "holds images, not tracks"),
    (".cvat.xml", cvat('<box frame="x"/>'), 'frame "x"'),
    (".cvat.xml", cvat('<box frame="1"/>'), 'no attribute "state"'),
    (".labelstudio.json", '[{"annotations": 7}]', '"annotations" is not a list'),
    (".labelstudio.json", "7", "a list of tasks"),
    (".labelstudio.json", tasks([], []), "2 annotations"),
    (".labelstudio.json", tasks([region(1, 2.5)]), "frame 2.5"),
    (".parquet", "PAR1", "cannot be read as a table"),
    (".arrow", "nothing", "cannot be read as a table"),
]


@pytest.mark.parametrize(("suffix", "text", "fact"), BAD)
def test_bad_files_are_refused_in_one_sentence(suffix, text, fact, uneven_video, tmp_path) -> None:
    path = tmp_path / f"bad{suffix}"
    path.write_text(text)
    with refused(path, fact) as caught:
        read_references(path, times=uneven_video, states=["empty", "half full"])
    assert len(str(caught.value)) < 600
    assert len(str(caught.value).splitlines()) == 1


def test_a_table_whose_text_is_damaged_is_refused(tmp_path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    bad = pyarrow.array([b"\xff\xfe"]).view(pyarrow.utf8())
    table = pyarrow.table({"history": bad, "state": ["a"], "start": [0], "end": [1]})
    with pyarrow.ipc.new_file(str(tmp_path / "t.arrow"), table.schema) as writer:
        writer.write_table(table)
    with refused(tmp_path / "t.arrow"):
        read_references(tmp_path / "t.arrow")


def test_seconds_without_a_video_say_what_to_give(tmp_path) -> None:
    path = tmp_path / "t.eaf"
    path.write_text(eaf())
    with refused(path, "times"):
        read_references(path)
    with refused(tmp_path / "x.srt", "times"):
        write_references(tmp_path / "x.srt", [CUP])
    assert not (tmp_path / "x.srt").exists()


@pytest.mark.long
@pytest.mark.peers
def test_rerun_refuses_times_that_it_cannot_count(tmp_path) -> None:
    need("rerun")
    late = history(1e12 + np.arange(10))
    with refused(tmp_path / "t.rrd", "Rerun holds at most"):
        write_references(tmp_path / "t.rrd", [CUP], times=late)


@pytest.mark.long
@pytest.mark.peers
def test_a_recording_of_rerun_that_is_none_is_refused(tmp_path) -> None:
    need("rerun")
    path = tmp_path / "t.rrd"
    path.write_bytes(b"RRF2 and nothing")
    with refused(path):
        read_references(path, times=history())


def test_without_rerun_the_remedy_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "rerun", None)
    with pytest.raises(MissingExtra, match="pip install rerun-sdk"):
        write_references(tmp_path / "t.rrd", [CUP], times=history())


def test_names_that_a_file_cannot_hold_do_not_break_it(tmp_path) -> None:
    state, text = "a\x00<&\ud800", "b\n\n-->"
    odd = Timeline.of([Interval(state, 0, 3, 1.0)], {state: [text]}, history_id="c\x1f/d")
    for kind in ("eaf", "cvat", "srt", "vtt"):
        path = tmp_path / f"t{FORMATS[kind].suffix}"
        path.write_bytes(EXPORTS[kind](odd, history(id="c\x1f/d")))
        (read,) = read_references(path, times=history())
        assert list(read.states.values()) == [(Window(0, 3),)]


def test_the_page_lists_how_each_format_counts() -> None:
    page = (ROOT / "docs" / "formats.md").read_text("utf-8")
    for name, format in FORMATS.items():
        endings = ", ".join(f"`{suffix}`" for suffix in format.suffixes)
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        assert f"| {endings} |" in row
        assert ("–" in row) == (format.needs is None)
        assert ("seconds |" in row) == format.timed
