"""What the documents share: where in a text it fails, and what is written comes back."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re

import msgspec
import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dejacue import InputError, open_masks
from dejacue.errors import Cancelled, MissingData, MissingExtra, in_file
from dejacue.files import read_references, read_vocabulary
from dejacue.files.documents import (
    as_json,
    declared,
    parse_documents,
    read_json,
    read_text,
    write_document,
)
from dejacue.files.results import read_timelines
from dejacue.models.trackers import read_notes
from dejacue.records.fields import Finite, FrameNumber, Name
from dejacue.video.video import Frame
from dejacue_paper import load_release


class Row(msgspec.Struct, forbid_unknown_fields=True):
    start: FrameNumber
    end: FrameNumber
    score: Finite | None = None

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise InputError("ends before it starts")


class Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: str
    rows: list[Row]
    name: Name = "cup"
    by_state: dict[str, list[Row]] = {}
    pair: tuple[int, int] = (0, 0)


words = st.text() | st.sampled_from(["NaN", '"Infinity', "\\", "\U0001f375"])
values = st.recursive(
    st.none() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(values), st.sampled_from([None, 2]), st.booleans())
def test_documents_one_after_the_other_are_those_that_were_written(
    documents, indent, ascii
) -> None:
    texts = [json.dumps(value, indent=indent, ensure_ascii=ascii) for value in documents]
    assert parse_documents("\n".join(texts)) == documents


@given(values, st.sampled_from(["NaN", "Infinity", "-Infinity"]))
def test_a_constant_is_named_with_its_line_whatever_the_text_before_it_says(before, word) -> None:
    text = json.dumps([before], indent=1)
    line = text.count("\n") + 2
    with refused(f"line {line}", word):
        parse_documents(f"{text}\n[{word}, NaN]\n[NaN]")


def test_a_file_is_read_up_to_its_limit(tmp_path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x" * (1 << 20))
    assert len(read_text(path, 1 << 20)) == 1 << 20
    path.write_text("x" * (1 << 20) + "x")
    with refused(path, "split it"):
        read_text(path, 1 << 20, "split it")


def test_a_name_is_put_in_front_once() -> None:
    with refused("a.json", "end") as caught, in_file("a.json"), in_file("a.json"):
        declared({"start": 1}, Row)
    assert str(caught.value).count("a.json: ") == 1


GOOD = {"schema": "kind/1", "rows": [{"start": 0, "end": 1}]}


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"rows": ...}, '"rows"'),
        ({"row": []}, '"row"'),
        ({"rows": 3}, "rows 3"),
        ({"rows": [{"start": 0, "end": 1}, "x"]}, "rows[1] 'x'"),
        ({"rows": [{"start": 0}]}, 'rows[0]: has no "end"'),
        ({"rows": [{"start": 0, "ends": 1}]}, 'rows[0]: unknown key "ends"'),
        ({"rows": [{"start": "a", "end": 1}]}, "rows[0].start 'a'"),
        ({"rows": [{"start": True, "end": 1}]}, "rows[0].start True"),
        ({"rows": [{"start": 0, "end": 1.0}]}, "rows[0].end 1.0"),
        ({"rows": [{"start": -1, "end": 1}]}, "rows[0].start -1"),
        ({"rows": [{"start": 5, "end": 3}]}, "rows[0]: ends before it starts"),
        ({"rows": [{"start": 0, "end": (1 << 53) + 1}]}, f"rows[0].end {(1 << 53) + 1}"),
        ({"rows": [{"start": 0, "end": 1, "score": math.inf}]}, "rows[0].score inf"),
        ({"rows": [{"start": 0, "end": 1, "score": "1"}]}, "rows[0].score '1'"),
        ({"name": " "}, "name ' '"),
        ({"pair": [1, 2, 3]}, "pair [1, 2, 3]"),
        ({"by_state": {"a": [], "empty": [3], "b": []}}, 'by_state["empty"][0] 3'),
        ({"schema": "other/1", "lines": []}, "other/1"),
        ({"schema": ...}, '"schema"'),
    ],
)
def test_what_is_not_as_declared_is_refused_with_its_place(changes, fact) -> None:
    document = {key: value for key, value in (GOOD | changes).items() if value is not ...}
    with refused(fact):
        declared(document, Document, schema="kind/1")


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"start": "a", "end": 1}, "rows[0].start 'a': expected a whole number"),
        ({"start": 0, "end": 1, "score": math.inf}, "rows[0].score inf: expected a finite number"),
        ({"start": 0, "end": 1, "score": "1"}, "rows[0].score '1': expected a number or null"),
        ({"start": 0}, 'rows[0]: has no "end"; add it'),
    ],
)
def test_errors_of_msgspec_are_said_in_plain_words(row, sentence) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        declared(GOOD | {"rows": [row]}, Document)


def test_only_where_it_is_not_strict_a_text_may_spell_a_number() -> None:
    row = {"start": "3", "end": "4", "score": "0.5"}
    assert declared(row, Row, strict=False) == Row(3, 4, 0.5)
    with refused("start", "3"):
        declared(row, Row)
    with pytest.raises(InputError, match="must be an object"):
        declared([], Row)


def test_frames_end_where_json_numbers_are_no_longer_exact() -> None:
    assert declared({"start": 0, "end": 1 << 53}, Row).end == 1 << 53


@given(st.lists(values, max_size=4), values)
def test_a_document_has_one_row_a_line_and_comes_back(tmp_path_factory, rows, value) -> None:
    path = tmp_path_factory.getbasetemp() / "document.json"
    write_document(path, {"schema": "kind/1", "other": value}, "rows", map(as_json, rows))
    assert read_json(path) == {"schema": "kind/1", "other": value, "rows": rows}
    assert path.read_bytes().count(b"\n") == 6 + max(len(rows), 1)


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), "\ud800", {1, 2}])
def test_what_json_cannot_hold_is_not_written(value) -> None:
    with pytest.raises(InputError, match="cannot be written as JSON"):
        as_json({"a": [value]})


@pytest.mark.parametrize(
    "digits", ["1e400", "-1E+0309", "9" * 309, "1" * 5000, f"{'1' * 290}e99", f"-{'7' * 400}.5"]
)
def test_a_number_that_no_float_holds_is_named_with_its_line(digits) -> None:
    with refused("line 2", digits[:40]):
        parse_documents(f'{{"a": 1,\n"b": [{digits}]}}')
    assert parse_documents(f'["{digits}", 1e308, 1e-999]') == [[digits, 1e308, 0.0]]


@pytest.mark.parametrize(
    ("message", "part"),
    [
        ("cup.json: a\nb\r\nc", "cup.json: a b c"),
        (f'cup.json: "{"x" * 9000}" is not a state; known: a', f'"{"x" * 80}…" is not a state'),
        (f"cup.json: {'x' * 9000} is unknown; leave it out", "is unknown; leave it out"),
    ],
)
def test_a_message_is_one_line_that_keeps_the_file_and_the_remedy(message, part) -> None:
    for kind in (InputError, MissingData, MissingExtra, Cancelled):
        text = str(kind(message))
        assert text.startswith("cup.json: ")
        assert part in text
        assert len(text) <= 600
        assert len(text.splitlines()) == 1


def nodes(value, path=()):
    """Yield the path of every part of a document."""
    yield path
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield from nodes(value[key], (*path, key))


def replaced(value, path, other):
    if not path:
        return other
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], other)
    return copy


def use_masks(path) -> None:
    masks = open_masks(path)
    frame = Frame(0, 0, 0.0, None, np.zeros((6, 8, 3), np.uint8))
    masks.ids()
    masks.unions(frame, [None])


def use_timelines(path) -> None:
    for timeline in read_timelines(path):
        timeline.to_json()


def use_release(path) -> None:
    # the third group is read by its rows' keys before they are looked at as a whole
    data = path.parent / "release" / "data"
    for name in ("benchmark.json", "learned/development/manifest.json"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(path.read_bytes())
    release = load_release(data.parent)
    with contextlib.suppress(InputError):
        list(release.vost)
    list(release.development)


def use_meta(path) -> None:
    folder = path.parent / "videos" / "v"
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.eye(6, 8, dtype=np.uint8)).save(folder / "0.png")
    (folder.parent / "meta.json").write_bytes(path.read_bytes())
    use_masks(folder)


def use_notes(path) -> None:
    (path.parent / "track.json").write_bytes(path.read_bytes())
    read_notes(path.parent)


RLE = {"size": [6, 8], "counts": [40, 8]}
STATE = {"state_id": "s", "references": [[0, 1]]}
READ = {
    "references": (
        read_references,
        {
            "schema": "dejacue.references/1",
            "histories": [
                {
                    "history": "h",
                    "component": "k",
                    "frames": [0, 9],
                    "states": {"a": [[0, 5]]},
                    "descriptions": {"a": ["x"]},
                }
            ],
        },
    ),
    "timeline": (
        use_timelines,
        {
            "schema": "dejacue.timeline/2",
            "history": "h",
            "encoder": "e",
            "settings": {"a": 1},
            "notes": [{"severity": "doubtful", "text": "n"}],
            "states": {"a": ["x"], "b": []},
            "intervals": [
                {
                    "state": "a",
                    "description": "x",
                    "start": 0,
                    "end": 5,
                    "start_s": 0.0,
                    "end_s": 1.0,
                    "source_start": 0,
                    "source_end": 5,
                    "score": 3.0,
                    "rank": 1,
                    "kind": "answer",
                }
            ],
        },
    ),
    "vocabulary": (read_vocabulary, {"object": "cup", "states": {"a": ["x", "y"], "b": "z"}}),
    "coco": (
        use_masks,
        {
            "images": [{"id": 1, "file_name": "0.png", "width": 8, "height": 6, "frame_index": 0}],
            "annotations": [
                {"id": 1, "image_id": 1, "track_id": 1, "segmentation": [[0, 0, 4, 0, 4, 4]]},
                {"id": 2, "image_id": 1, "track_id": 2, "segmentation": RLE},
                {"id": 3, "image_id": 1, "track_id": 3, "bbox": [0, 0, 2, 2]},
            ],
        },
    ),
    "youtube-vis": (
        use_masks,
        {
            "videos": [{"id": 1, "file_names": ["0.jpg"], "width": 8, "height": 6}],
            "annotations": [{"id": 1, "segmentations": [RLE]}],
        },
    ),
    "sam 2": (use_masks, [{"frame_index": 0, "results": [{"object_id": 1, "mask": RLE}]}]),
    "list of masks": (use_masks, [{"frame": 0, "id": 1, "segmentation": RLE}]),
    "meta.json": (use_meta, {"videos": {"v": {"objects": {"1": {"category": "cup"}}}}}),
    "release": (
        use_release,
        {
            "interval_convention": "inclusive",
            "histories": [
                {
                    "history_id": "h",
                    "sequence_id": "q",
                    "states": [STATE],
                    "siglip2_visual": "v.npz",
                    "visual_features": "v.npz",
                }
            ],
        },
    ),
    "notes": (
        use_notes,
        {
            "schema": "dejacue.track/3",
            "tracker": "t",
            "details": {},
            "video": "v",
            "video_key": "k",
            "match": "source",
            "presence": 0.5,
            "backward": True,
            "prompts": [{"source": 0, "mask": RLE}],
            "frames": [0],
            "times_s": [0.0],
            "objects": {
                "1": {
                    "key": "k",
                    "seen": 1,
                    "cut": 0,
                    "presence": [0.5],
                    "doubts": [{"kind": "area", "first": 0, "last": 0, "text": "t"}],
                }
            },
        },
    ),
}
DEEP = "@deep@"  # as text; json.dumps would not write it
ODD = (None, True, 7, -1, 1e308, 10**300, "x", "9" * 5000, "a\nb", [], [1], {}, {"a": 1}, DEEP)


@pytest.mark.parametrize("name", READ)
def test_any_other_value_in_any_place_is_read_or_refused_in_one_sentence(name, tmp_path) -> None:
    read, document = READ[name]
    path = tmp_path / "document.json"
    messages = []
    for place, value in itertools.product(nodes(document), ODD):
        text = json.dumps(replaced(document, place, value))
        path.write_text(text.replace(f'"{DEEP}"', "[" * 20_000 + "]" * 20_000))
        try:
            read(path)
        except InputError as error:
            messages.append(str(error))
    assert len(messages) > 2 * len(list(nodes(document)))
    assert max(map(len, messages)) <= 600
    assert all(len(message.splitlines()) == 1 for message in messages)
