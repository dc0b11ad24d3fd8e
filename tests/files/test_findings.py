"""The folder of a finding: what is written comes back."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import Finding, History, Vocabulary, locate
from dejacue.files.findings import (
    DOCUMENT,
    Provenance,
    read_document,
)
from dejacue.method import Window
from dejacue.method.localization import analyse
from dejacue.records import Note

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


def finding_of(readout="timeline", words=WORDS) -> Finding:
    timeline = analyse(CUP, words, readout=readout)
    made = Provenance(video="v.mp4")
    pictures = {"thumbnails": {4: b"frame"}, "crops": {4: b"crop"}}
    warnings = (Note("a warning", "doubtful"),)
    return Finding(
        CUP, words, timeline, **pictures, doubts=DOUBTS, warnings=warnings, provenance=made
    )


@pytest.mark.parametrize("words", [WORDS, WORDLESS], ids=["words", "wordless"])
@pytest.mark.parametrize("readout", ["timeline", "contrast"])
def test_what_is_written_comes_back(tmp_path, readout, words) -> None:
    finding = finding_of(readout, words)
    back = Finding.read(finding.save(tmp_path).parent)
    assert back.timeline.to_dict() == finding.timeline.to_dict()
    assert back.timeline.states == words.states
    for name in ("cosines", "centre", "scale", "responses", "frames"):
        array = getattr(back.timeline.evidence, name)
        assert np.array_equal(array, getattr(finding.timeline.evidence, name))
    assert back.timeline.labels == finding.timeline.labels
    assert (back.timeline.evidence.labels is None) is (readout == "contrast")
    assert (back.doubts, back.warnings) == (DOUBTS, ("a warning",))
    assert (back.warnings[0].severity, back.timeline.notes[0].severity) == ("doubtful", "doubtful")
    assert back.provenance == finding.provenance
    assert (back.thumbnails, back.crops) == ({4: b"frame"}, {4: b"crop"})


def test_the_same_finding_written_again_is_the_same_files(tmp_path) -> None:
    def files() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    finding_of().save(tmp_path)
    first = files()
    for readout, same in (("timeline", True), ("contrast", False), ("timeline", False)):
        finding = finding_of(readout)
        finding.save(tmp_path)
        once = files()
        finding.save(tmp_path)
        assert files() == once
        assert len(once) == 5
        assert not same or once == first


def test_answers_of_each_description_come_back(tmp_path) -> None:
    finding = finding_of(
        "published", Vocabulary({"a": ["x", "x", "y"], "b": "z"}, AXES[[0, 0, 0, 1]])
    )
    back = Finding.read(finding.save(tmp_path).parent)
    assert back.timeline.windows() == finding.timeline.windows()
    assert back.timeline.states == finding.vocabulary.states


def test_the_document_alone_holds_the_timeline_without_evidence(tmp_path) -> None:
    finding = finding_of()
    folder = finding.save(tmp_path).parent
    document = read_document(folder)
    assert document.timeline.to_dict() == finding.timeline.to_dict()
    assert document.timeline.evidence is None
    assert json.loads((folder / DOCUMENT).read_bytes())["schema"] == "dejacue.finding/3"


def test_a_timeline_without_evidence_is_refused_and_nothing_is_written(tmp_path) -> None:
    finding = replace(finding_of(), timeline=locate(CUP, WORDS))
    with refused(tmp_path / "cup" / DOCUMENT, "timeline"):
        finding.save(tmp_path / "cup")
    assert not list(tmp_path.rglob("*"))


def test_arrays_of_another_finding_are_refused(tmp_path) -> None:
    folder = finding_of().save(tmp_path / "cup").parent
    other = finding_of(words=WORDLESS).save(tmp_path / "other").parent
    shutil.copy(other / "cup.vocabulary.npz", folder)
    with refused(folder, "files"):
        Finding.read(folder)


@pytest.mark.parametrize("readout", [7, [], {"name": []}, {"name": "timeline", "unknown": 1}])
def test_a_finding_whose_readout_cannot_be_told_is_corrected_with_the_timeline(
    tmp_path, readout
) -> None:
    document = finding_of().save(tmp_path)
    content = json.loads(document.read_text())
    content["timeline"]["settings"]["readout"] = readout
    document.write_text(json.dumps(content))
    corrected = Finding.read(tmp_path).correct({WORDS.state_names[0]: 1})
    assert corrected.timeline.settings["readout"]["name"] == "timeline"


def test_settings_that_its_readout_does_not_take_are_refused(tmp_path) -> None:
    document = finding_of().save(tmp_path)
    content = json.loads(document.read_text())
    content["timeline"]["settings"]["readout"]["bridge"] = [[]]
    document.write_text(json.dumps(content))
    finding = Finding.read(tmp_path)
    with refused("readout", "read the history again"):
        finding.correct({WORDS.state_names[0]: 1})


@pytest.mark.parametrize("labels", [[0] * 59, [-2] * 60, [2] * 60, [0.5] * 60])
def test_labels_that_are_no_states_of_these_frames_are_refused(tmp_path, labels) -> None:
    folder = finding_of().save(tmp_path).parent
    arrays = dict(np.load(folder / "cup.evidence.npz"))
    np.savez(folder / "cup.evidence.npz", **arrays | {"labels": np.array(labels)})
    with refused(folder, "files"):
        Finding.read(folder)
