"""evaluate at the command line."""

from __future__ import annotations

import csv
import json
import re

import pytest

from dejacue import Reference
from dejacue.files import write_references, write_timelines
from dejacue.method import locate_many
from dejacue_paper import generate

# evaluate


@pytest.fixture
def files(tmp_path):
    """Write the timelines of two methods and the references of four generated histories."""
    generated = [generate(seed, frames=80) for seed in range(4)]
    for name in ("vocabulary", "absolute"):
        timelines = locate_many(
            [m.history for m in generated], [m.vocabulary for m in generated], coordinates=name
        )
        write_timelines(tmp_path / f"{name}.json", timelines)
    write_references(
        tmp_path / "truth.json", [Reference(m.history.id, m.references) for m in generated]
    )
    return tmp_path


def test_evaluate_prints_means_differences_and_the_family(dejacue, files):
    ran = dejacue(
        "evaluate", files / "absolute.json", files / "vocabulary.json", files / "truth.json"
    )
    assert (ran.code, ran.err) == (0, "")
    assert re.search(r"vocabulary +│ +\d+\.\d \[\d+\.\d, \d+\.\d\]", ran.out)
    assert "vocabulary − absolute" in ran.out
    assert "Holm within the three metrics of a comparison" in ran.out
    assert "4 histories, 8 states, 16 descriptions, 4 components" in ran.out


@pytest.mark.parametrize("shape", ["json", "csv"])
def test_evaluate_writes_json_and_csv(dejacue, files, shape):
    ran = dejacue("evaluate", files / "vocabulary.json", files / "truth.json", "-f", shape)
    assert (ran.code, ran.err) == (0, "")
    if shape == "json":
        assert json.loads(ran.out)["counts"]["histories"] == 4
    else:
        assert [row["metric"] for row in csv.DictReader(ran.out.splitlines())] == [
            "r1_03",
            "r1_05",
            "top1_tiou",
        ]


def test_evaluate_names_what_does_not_match_and_writes_nothing(dejacue, files):
    document = json.loads((files / "truth.json").read_text())
    document["histories"] = document["histories"][1:]
    (files / "truth.json").write_text(json.dumps(document))
    words = ("evaluate", files / "vocabulary.json", files / "truth.json")
    ran = dejacue(*words, "-o", files / "out.json")
    assert (ran.code, ran.out) == (2, "")
    assert "histories without references: generated-0" in ran.err
    assert not (files / "out.json").exists()
    ran = dejacue(*words, "--only-common")
    assert ran.code == 0
    assert "3 histories" in ran.out
    assert "generated-0" in ran.err


@pytest.mark.parametrize("name", ["truth.json", "vocabulary.json"])
def test_evaluate_never_writes_onto_what_it_reads(dejacue, files, name):
    before = (files / name).read_bytes()
    words = ("evaluate", files / "vocabulary.json", files / "truth.json", "-o", files / name)
    ran = dejacue(*words)
    assert (ran.code, ran.out) == (2, "")
    assert "is read by this command" in ran.err
    assert (files / name).read_bytes() == before


def test_a_narrow_screen_keeps_the_names(dejacue, files, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    ran = dejacue("evaluate", files / "vocabulary.json", files / "truth.json")
    assert "vocabulary" in ran.out


@pytest.mark.long
def test_the_demo_can_be_measured(dejacue, tmp_path):
    demo = dejacue("demo", "-o", tmp_path)
    command = re.search(r"measure: dejacue (.*)", demo.out)[1]
    ran = dejacue(*command.split())
    assert ran.code == 0
    assert "one component gives no confidence interval" in ran.out
