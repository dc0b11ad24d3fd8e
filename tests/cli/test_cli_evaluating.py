"""evaluate and annotate at the command line."""

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


# annotate


def labelled(path, *runs):
    """Fill in a template with runs (last frame, label) …"""
    document = json.loads(path.read_text(encoding="utf-8"))
    start, filled = document["runs"][0]["start"], []
    for end, label in runs:
        filled.append({"start": start, "end": end, "label": label})
        start = end + 1
    path.write_text(json.dumps({**document, "runs": filled}), encoding="utf-8")


def test_two_passes_lead_to_references(dejacue, tmp_path):
    first, second = tmp_path / "ann.json", tmp_path / "bob.json"
    for path in (first, second):
        words = ("annotate", "start", "--frames", "0:29", "--id", "cup", "-a", path.stem)
        assert dejacue(*words, "-o", path).code == 0
    labelled(first, (9, "pre"), (14, "transition"), (29, "post"))
    labelled(second, (10, "pre"), (14, "transition"), (29, "post"))
    decide, agreed = tmp_path / "decide.json", tmp_path / "consensus.json"
    ran = dejacue("annotate", "consensus", first, second, "-o", decide)
    assert ran.code == 0
    assert len(re.findall(r"30 │ +29 │ +0.967 │ +0.394 │ +0.945", ran.out)) == 2  # all, observed
    document = json.loads(decide.read_text(encoding="utf-8"))
    assert [(row["start"], row["end"]) for row in document["decisions"]] == [(10, 10)]
    document["decisions"][0]["label"] = "pre"
    decide.write_text(json.dumps(document), encoding="utf-8")
    ran = dejacue("annotate", "consensus", first, second, "-d", decide, "-o", agreed)
    assert ran.code == 0
    assert ran.out.endswith(f"continue with: dejacue annotate events {agreed}\n")
    truth = tmp_path / "truth.json"
    words = ("annotate", "events", agreed, "-o", truth, "--pre", "empty", "--post", "filled")
    assert dejacue(*words, "--component", "kitchen").code == 0
    (history,) = json.loads(truth.read_text(encoding="utf-8"))["histories"]
    assert history["states"] == {"empty": [[0, 10]], "filled": [[15, 29]]}
    assert history["component"] == "kitchen"
    ran = dejacue(*words)
    assert (ran.code, ran.out) == (2, "")
    assert f"{truth}: already exists" in ran.err
    assert dejacue(*words, "--force").code == 0
    ran = dejacue("annotate", "events", agreed, "--minimum", 12)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f"dejacue: {agreed}: no event qualifies: before the transition [11, 14], the pre run "
        "[0, 10] has 11 frames, but 12 are needed\n"
    )
