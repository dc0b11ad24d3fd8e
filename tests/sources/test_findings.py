"""The folder of a finding: what is written comes back, also from version 1."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import Finding, History, Vocabulary, locate
from dejacue.method import Window
from dejacue.method.localization import analyse
from dejacue.records import Interval
from dejacue.sources.findings import (
    DOCUMENT,
    Made,
    Parts,
    Pictures,
    read_document,
    read_finding,
    write_finding,
)

FRAMES = np.arange(60)
AXES = np.eye(2, 8, dtype=np.float32)
CUP = History(
    AXES[np.repeat([0, 1, 0], 20)] + 0.01,
    FRAMES,
    "cup",
    "siglip",
    times_s=FRAMES / 10,
    source_frames=3 * FRAMES,
)
WORDS = Vocabulary(
    {"empty": ["empty cup", "no coffee"], "full": ["full cup"]}, AXES[[0, 0, 1]], "siglip"
)
EXAMPLES = WORDS.with_examples(empty=3, full=30).examples
WORDLESS = Vocabulary({"empty": (), "full": ()}, encoder="siglip", examples=EXAMPLES)
DOUBTS = ((Window(3, 9), "two objects look alike"),)

# What version 1 wrote of CUP and WORDS: a window per description, which ends at the start of its
# last frame.
VERSION_1 = """{"schema": "dejacue.finding/1",
"files": {"history": "cup.history.npz", "pictures": "cup.thumbnails.npz",
          "vocabulary": "cup.vocabulary.npz", "evidence": "cup.evidence.npz"},
"made": {"video": "kitchen.mp4", "masks": "masks", "tracker": null, "encoder": "siglip",
         "prompts": null, "options": {"fps": "10"}, "version": "0.1.0"},
"warnings": ["the masks are coarse"],
"doubts": [[{"start": 3, "end": 9}, "two objects look alike"]],
"retrieval": {"schema": "dejacue.retrieval/1", "history": "cup", "encoder": "siglip",
 "settings": {"coordinates": "vocabulary", "readout": {"name": "joint", "stay": 1}, "top": null,
              "further_windows": "occurrences"},
 "notes": ["the masks are coarse"],
 "moments": [
  {"state": "empty", "description": "empty cup", "start": 40, "end": 59, "score": 31.5,
   "level": "state", "source_start": 120, "source_end": 177, "start_s": 4.0, "end_s": 5.9,
   "alternatives": [{"start": 0, "end": 19, "score": 31.0, "source_start": 0, "source_end": 57,
                     "start_s": 0.0, "end_s": 1.9}]},
  {"state": "empty", "description": "no coffee", "start": 40, "end": 59, "score": 31.5,
   "level": "state", "source_start": 120, "source_end": 177, "start_s": 4.0, "end_s": 5.9,
   "alternatives": [{"start": 0, "end": 19, "score": 31.0, "source_start": 0, "source_end": 57,
                     "start_s": 0.0, "end_s": 1.9}]},
  {"state": "full", "description": "full cup", "start": 20, "end": 39, "score": 0.0,
   "level": "state", "source_start": 60, "source_end": 117, "start_s": 2.0, "end_s": 3.9,
   "absent": true}]},
"occurrences": {"empty": [
  {"state": "empty", "description": "empty cup", "start": 40, "end": 59, "score": 31.5,
   "level": "state", "start_s": 4.0, "end_s": 5.9},
  {"state": "empty", "description": "empty cup", "start": 0, "end": 19, "score": 31.0,
   "level": "state", "start_s": 0.0, "end_s": 1.9}], "full": []}}"""


def parts(readout="contrast", words=WORDS) -> Parts:
    timeline = analyse(CUP, words, readout=readout)
    pictures = Pictures({4: b"frame"}, {4: b"crop"})
    return Parts(CUP, words, timeline, pictures, DOUBTS, ("a warning",), Made(video="v.mp4"))


@pytest.fixture
def version_1(tmp_path) -> Path:
    """Write a finding of version 1, whose arrays are those of the present one."""
    folder = write_finding(tmp_path / "cup", parts()).parent
    (folder / DOCUMENT).write_text(VERSION_1, encoding="utf-8")
    return folder


@pytest.mark.parametrize("words", [WORDS, WORDLESS], ids=["words", "wordless"])
@pytest.mark.parametrize("readout", ["contrast", "joint"])
def test_what_is_written_comes_back(tmp_path, readout, words) -> None:
    finding = parts(readout, words)
    back = read_finding(write_finding(tmp_path, finding).parent)
    assert back.timeline.to_dict() == finding.timeline.to_dict()
    assert back.timeline.states == words.states
    for name in ("cosines", "centre", "scale", "responses", "frames"):
        array = getattr(back.timeline.evidence, name)
        assert np.array_equal(array, getattr(finding.timeline.evidence, name))
    assert (back.doubts, back.warnings, back.made) == (DOUBTS, ("a warning",), finding.made)
    assert back.pictures == finding.pictures


def test_the_same_finding_written_again_is_the_same_files(tmp_path) -> None:
    def files() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    write_finding(tmp_path, parts())
    first = files()
    for finding, names in ((parts(), first), (parts("joint"), None), (parts(), None)):
        write_finding(tmp_path, finding)
        once = files()
        write_finding(tmp_path, finding)
        assert files() == once
        assert len(once) == 5
        assert names is None or once == names


def test_answers_of_each_description_come_back(tmp_path) -> None:
    finding = parts("published", Vocabulary({"a": ["x", "x", "y"], "b": "z"}, AXES[[0, 0, 0, 1]]))
    back = read_finding(write_finding(tmp_path, finding).parent)
    assert back.timeline.windows() == finding.timeline.windows()
    assert back.timeline.states == finding.vocabulary.states


def test_the_document_alone_holds_the_timeline_without_evidence(tmp_path) -> None:
    finding = parts("joint")
    folder = write_finding(tmp_path, finding).parent
    document = read_document(folder)
    assert document.version == 2
    assert document.timeline.to_dict() == finding.timeline.to_dict()
    assert document.timeline.evidence is None
    assert json.loads((folder / DOCUMENT).read_bytes())["schema"] == "dejacue.finding/2"


def test_a_timeline_without_evidence_is_refused_and_nothing_is_written(tmp_path) -> None:
    finding = parts()._replace(timeline=locate(CUP, WORDS))
    with refused(file=tmp_path / "cup" / DOCUMENT, field="timeline"):
        write_finding(tmp_path / "cup", finding)
    assert not list(tmp_path.rglob("*"))


def test_version_1_is_read_and_its_history_gives_the_seconds(version_1) -> None:
    finding = read_finding(version_1)
    assert finding.timeline.intervals == [
        Interval("empty", 40, 59, 31.5, 4.0, 6.0, source_start=120, source_end=177),
        Interval(
            "empty",
            0,
            19,
            31.0,
            0.0,
            2.0,
            rank=2,
            kind="occurrence",
            source_start=0,
            source_end=57,
        ),
    ]
    assert finding.timeline.states == WORDS.states
    assert finding.timeline["full"] == []
    assert finding.timeline.notes == finding.warnings == ("the masks are coarse",)
    assert finding.timeline.settings["readout"] == {"name": "joint", "stay": 1}
    assert finding.timeline.evidence.responses.shape == (3, 60)
    assert finding.doubts == DOUBTS
    assert finding.made.masks == str(version_1 / "masks")
    assert read_document(version_1).timeline.windows() == finding.timeline.windows()


def test_version_1_of_a_state_without_words_is_read(tmp_path) -> None:
    folder = write_finding(tmp_path, parts(words=WORDLESS)).parent
    document = json.loads(VERSION_1)
    rows = document["retrieval"]["moments"]
    document["retrieval"]["moments"] = [
        rows[0] | {"description": "empty"},
        rows[2] | {"description": "full"},
    ]
    (folder / DOCUMENT).write_text(json.dumps(document))
    timeline = read_finding(folder).timeline
    assert timeline.states == {"empty": (), "full": ()}
    assert [interval.window for interval in timeline] == [Window(40, 59), Window(0, 19)]


def test_version_1_is_written_again_as_the_present_one(version_1) -> None:
    finding = read_finding(version_1)
    write_finding(version_1, finding)
    again = read_finding(version_1)
    assert read_document(version_1).version == 2
    assert again.timeline.to_dict() == finding.timeline.to_dict()
    assert len(list(version_1.iterdir())) == 5


@pytest.mark.parametrize("change", [("empty cup", "another cup"), ('"end": 19', '"end": 99')])
def test_version_1_of_another_history_or_words_is_refused(version_1, change) -> None:
    (version_1 / DOCUMENT).write_text(VERSION_1.replace(*change))
    with refused(file=version_1):
        read_finding(version_1)


def test_arrays_of_another_finding_are_refused(tmp_path) -> None:
    folder = write_finding(tmp_path / "cup", parts()).parent
    other = write_finding(tmp_path / "other", parts(words=WORDLESS)).parent
    shutil.copy(other / "cup.vocabulary.npz", folder)
    with refused(file=folder, field="files"):
        read_finding(folder)


@pytest.mark.parametrize(
    "readout",
    [7, [], {"name": []}, {"name": "contrast", "unknown": 1}, {"name": "contrast", "bridge": [[]]}],
)
def test_a_finding_whose_readout_cannot_be_told_is_corrected_with_contrast(
    tmp_path, readout
) -> None:
    document = write_finding(tmp_path, parts())
    content = json.loads(document.read_text())
    content["timeline"]["settings"]["readout"] = readout
    document.write_text(json.dumps(content))
    corrected = Finding.read(tmp_path).correct({WORDS.state_names[0]: 1})
    assert corrected.timeline.settings["readout"]["name"] == "contrast"
