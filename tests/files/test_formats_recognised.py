"""Exports of other tools under the names that they have: known by what is in them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import History, Reference
from dejacue.files import read_references, write_references
from dejacue.files.formats.registry import FORMATS, format_in

CUP = Reference("cup", {"empty": [(0, 3), (9, 9)], "half full": [(4, 8)]})
HISTORY = History(np.ones((10, 2)), range(10), "cup", times_s=0.1 * np.arange(10))
NAMES = {
    "fiftyone": "labels.json",
    "label-studio": "project-1-at-2026-11-16.json",
    "cvat": "annotations.xml",
    "eaf": "session.xml",
}


@pytest.mark.parametrize("kind", NAMES)
def test_an_export_is_known_by_what_it_holds(kind, tmp_path, dejacue) -> None:
    path = write_references(tmp_path / f"x{FORMATS[kind].suffix}", [CUP], times=HISTORY)
    path = path.rename(tmp_path / NAMES[kind])
    assert format_in(path) is FORMATS[kind]
    assert read_references(path, times=HISTORY, history="cup") == [CUP]
    if not FORMATS[kind].timed:
        ran = dejacue("convert", path, tmp_path / "truth.csv")
        assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("truth.json", '{"histories": []}'),
        ("found.json", '[{"history": "cup", "states": {}, "intervals": []}]'),
        ("x.json", "[7]"),
        ("x.json", "[]"),
        ("x.json", "{"),
        ("x.xml", "<View/>"),
        ("x.csv", "history,state,start,end\n"),
    ],
)
def test_what_is_ours_or_nobodys_is_not_taken_for_an_export(name, text, tmp_path) -> None:
    (tmp_path / name).write_text(text)
    assert format_in(tmp_path / name) is None


def test_a_folder_or_an_archive_of_an_export_says_what_to_give(tmp_path) -> None:
    (tmp_path / "task.zip").touch()
    for path, verb in ((tmp_path, "give"), (tmp_path / "task.zip", "unpack")):
        with refused(path, f"; {verb}"):
            read_references(path)


def samples(*fields: str) -> str:
    """Return what FiftyOne 1.22.1 exports as a FiftyOneDataset."""
    rows = [("empty", 1, 4), ("half full", 5, 9), ("empty", 10, 10)]
    detections = {
        "_cls": "TemporalDetections",
        "detections": [
            {
                "_id": {"$oid": "6afb"},
                "_cls": "TemporalDetection",
                "tags": [],
                "label": label,
                "support": [first, last],
            }
            for label, first, last in rows
        ],
    }
    sample = {"filepath": "/videos/cup.mp4", "tags": [], "_media_type": "video"}
    return json.dumps({"samples": [sample | dict.fromkeys(fields, detections)]})


def test_the_samples_of_a_fiftyone_dataset_are_read(tmp_path) -> None:
    path = tmp_path / "samples.json"
    path.write_text(samples("events"))
    assert read_references(path) == [CUP]
    path.write_text(samples("events", "predictions"))
    with refused(path, "detections", "events", "predictions"):
        read_references(path)
    path.write_text('{"samples": [{"events": 1}]}')
    with refused(path, "filepath"):
        read_references(path)
    path.write_text(samples())
    with refused(path, "state"):
        read_references(path)


# One tier for the object, as many in ELAN have it


def elan(tiers: dict[str, list[tuple[int, int, str]]], kind: str = "default-lt") -> str:
    slots, rows = [], []
    for name, spans in tiers.items():
        rows.append(f'<TIER TIER_ID="{name}" LINGUISTIC_TYPE_REF="{kind}">')
        for a, b, value in spans:
            at = len(slots)
            slots += [
                f'<TIME_SLOT TIME_SLOT_ID="ts{at + k}" TIME_VALUE="{t}"/>'
                for k, t in enumerate((a, b))
            ]
            rows.append(
                f'<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a{at}" TIME_SLOT_REF1="ts{at}" '
                f'TIME_SLOT_REF2="ts{at + 1}"><ANNOTATION_VALUE>{value}</ANNOTATION_VALUE>'
                "</ALIGNABLE_ANNOTATION></ANNOTATION>"
            )
        rows.append("</TIER>")
    head = '<ANNOTATION_DOCUMENT><HEADER TIME_UNITS="milliseconds"/>'
    order = "".join(slots)
    return f"{head}<TIME_ORDER>{order}</TIME_ORDER>{''.join(rows)}</ANNOTATION_DOCUMENT>"


def read(path: Path, text: str, **options) -> list[Reference]:
    path.write_text(text)
    return read_references(path, times=HISTORY, **options)


def test_different_values_of_a_tier_are_states(tmp_path) -> None:
    path = tmp_path / "own.eaf"
    spans = [(0, 400, "empty"), (400, 900, "full")]
    states = {"empty": [(0, 3)], "full": [(4, 8)]}
    assert read(path, elan({"state": spans})) == [Reference("own", states)]
    assert read(path, elan({"cup": spans, "jug": spans[::-1]})) == [
        Reference("cup", states),
        Reference("jug", dict(reversed(states.items()))),
    ]


def test_a_tier_with_one_value_or_none_or_of_ours_is_a_state(tmp_path) -> None:
    path = tmp_path / "own.eaf"
    for values, kind in ((("", ""), "default-lt"), (("x", "x"), "default-lt"), ("ab", "state")):
        spans = [(0, 200, values[0]), (500, 700, values[1])]
        assert read(path, elan({"empty": spans}, kind)) == [
            Reference("own", {"empty": [(0, 1), (5, 6)]})
        ]


def test_known_states_tell_what_a_tier_is(tmp_path) -> None:
    path = tmp_path / "own.eaf"
    spans = [(0, 200, "empty"), (500, 700, "empty")]
    known = read(path, elan({"cup": spans}), states=["empty", "full"])
    assert known == [Reference("own", {"empty": [(0, 1), (5, 6)]})]
