"""reproduce, evaluate and annotate at the command line."""

from __future__ import annotations

import csv
import json
import re

import pytest

from dejacue import Reference, generate, locate_many, write_references, write_timelines
from dejacue.experiments import REGISTRY, Experiment, Result, Value

PNG, PDF = b"\x89PNG\r\n\x1a\n", b"%PDF-"


# reproduce


def test_the_list_names_every_table_and_what_is_not_here(dejacue):
    ran = dejacue("reproduce", "--list")
    assert ran.code == 0
    for name in REGISTRY:
        assert re.search(rf"^\W*{re.escape(name)} ", ran.out, re.MULTILINE), name
    assert "the label files of S05–S07 are not released" in ran.out


def test_the_main_table_shows_ours_beside_the_published_values(dejacue, release, tmp_path):
    windows = tmp_path / "windows.json"
    ran = dejacue("reproduce", "main", "--data", release.folder, "--windows", windows)
    assert (ran.code, ran.err) == (0, "")
    assert re.search(
        r"\nscan/vocabulary\n +R@1 .3 .*\n +R@1 .5 +20.51 \[15.71, 25.64\] +20.51 "
        r"\[15.71, 25.64\] +0 ✓\n",
        ran.out,
    )
    assert re.search(r"\nwhole-history\n +R@1 .3 +32.69 \[26.28, 38.46\] +–\n", ran.out)
    assert max(len(line) for line in ran.out.split("Rows without")[0].splitlines()) <= 80
    assert "✓ rounds to the published number" in ran.out
    assert ran.out.endswith("63 of 63 published values reproduced\n")
    assert json.loads(windows.read_text())["main"]["scan/vocabulary"]["H001"][0] == [0, 29]


@pytest.mark.long
def test_out_and_figures_write_everything_and_name_the_folder(dejacue, release, tmp_path):
    folder = tmp_path / "out"
    words = ("reproduce", "shifts", "paired", "--data", release.folder, "--out", folder)
    ran = dejacue(*words, "--figures")
    assert ran.code == 0
    assert f"written to {folder}" in ran.out.replace("\n", "")
    document = json.loads((folder / "reproduce.json").read_text(encoding="utf-8"))
    assert set(document["experiments"]) == {"shifts", "paired"}
    with open(folder / "reproduce.csv", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["experiment"] for row in rows} == {"shifts", "paired"}
    page = (folder / "reproduce.md").read_text(encoding="utf-8")
    assert "](figures/vost_effects.png)" in page
    assert "| [shifts](#shifts): " in page
    for name in ("vost_effects", "circular_shifts"):
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(PNG)
        assert (folder / "figures" / f"{name}.pdf").read_bytes().startswith(PDF)


def test_all_without_the_release_runs_what_needs_no_data(dejacue, tmp_path):
    ran = dejacue("reproduce", "all", "--data", tmp_path)
    assert ran.code == 0
    assert "66 of 66 published values reproduced; 30 tables not run\n" in ran.out
    assert "not run: roster, inventory, main, paired," in ran.out
    assert "contains no release" in ran.out.replace("\n", " ")


def test_a_table_that_cannot_be_computed_is_refused_with_the_reason(dejacue, tmp_path):
    ran = dejacue("reproduce", "lexical", "--data", tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert "the added descriptions and their features are not released" in ran.err


@pytest.mark.parametrize(("finding", "code"), [("", 1), ("known.", 0)])
def test_only_an_unexplained_difference_fails(dejacue, monkeypatch, tmp_path, finding, code):
    value = Value("row", "r1_05", 0.2, 0.3, finding=finding)
    made = Experiment("main", "made", lambda benchmark: Result((value,)))
    monkeypatch.setitem(REGISTRY, "main", made)
    ran = dejacue("reproduce", "main", "--data", tmp_path)
    assert ran.code == code
    assert "0 of 1 published values reproduced; 1 not (✗)" in ran.out
    assert ("known." in ran.out) == bool(finding)


def test_where_nothing_is_published_nothing_is_counted(dejacue, tmp_path, monkeypatch):
    ours = Experiment(
        "ours", "made up", lambda benchmark: Result((Value("row", "r1_05", 0.5, None),))
    )
    monkeypatch.setitem(REGISTRY, "ours", ours)
    ran = dejacue("reproduce", "ours", "--data", tmp_path)
    assert ran.code == 0
    assert "50.00" in ran.out
    assert "published values reproduced" not in ran.out


@pytest.mark.parametrize("option", ["--out", "--windows"])
def test_a_place_that_cannot_be_written_is_noticed_before_the_work(dejacue, tmp_path, option):
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "x"
    ran = dejacue("reproduce", "all", "--data", tmp_path, option, place)
    assert (ran.code, ran.out) == (2, "")
    assert "file is a file, not a folder" in ran.err


def test_all_with_a_wrong_name_is_refused(dejacue, tmp_path):
    ran = dejacue("reproduce", "all", "mian", "--data", tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert 'did you mean "main"' in ran.err


def test_a_folder_inside_the_release_is_told_apart(dejacue, release):
    ran = dejacue("reproduce", "main", "--data", release.folder / "data")
    assert ran.code == 1
    assert f"is inside the release; give {release.folder} instead" in ran.err


def test_nothing_is_written_when_an_experiment_fails(dejacue, tmp_path):
    ran = dejacue("reproduce", "main", "--data", tmp_path / "no", "--out", tmp_path / "out")
    assert ran.code == 1
    assert list(tmp_path.iterdir()) == []


# evaluate


@pytest.fixture
def files(tmp_path):
    """Two methods and the truth of four generated histories."""
    made = [generate(seed, frames=80) for seed in range(4)]
    for name in ("vocabulary", "absolute"):
        found = locate_many(
            [m.history for m in made], [m.vocabulary for m in made], coordinates=name
        )
        write_timelines(tmp_path / f"{name}.json", found)
    write_references(tmp_path / "truth.json", [Reference(m.history.id, m.references) for m in made])
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


@pytest.mark.parametrize("shape", ["--json", "--csv"])
def test_evaluate_writes_json_and_csv(dejacue, files, shape):
    ran = dejacue("evaluate", files / "vocabulary.json", files / "truth.json", shape)
    assert (ran.code, ran.err) == (0, "")
    if shape == "--json":
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


def test_the_demo_can_be_measured(dejacue, tmp_path):
    demo = dejacue("demo", "-o", tmp_path)
    command = re.search(r"measure: dejacue (.*)", demo.out)[1]
    ran = dejacue(*command.split())
    assert ran.code == 0
    assert "one component gives no interval" in ran.out


def test_the_benchmarks_references_can_be_written(dejacue, release, tmp_path):
    path = tmp_path / "seven.json"
    ran = dejacue("data", "references", "seven", "-o", path, "--data", release.folder)
    assert (ran.code, ran.err) == (0, "")
    histories = json.loads(path.read_text(encoding="utf-8"))["histories"]
    assert [row["history"] for row in histories] == [f"S0{k}" for k in range(1, 8)]
    assert histories[0]["states"]["intact_surface"] == [[0, 32]]
    ran = dejacue("data", "references", "sevn", "-o", path, "--data", release.folder)
    assert (ran.code, ran.out) == (2, "")
    assert 'did you mean "seven"' in ran.err


# annotate


def labelled(path, *runs):
    """Fill in a template: (last frame, label) …"""
    document = json.loads(path.read_text(encoding="utf-8"))
    start, made = document["runs"][0]["start"], []
    for end, label in runs:
        made.append({"start": start, "end": end, "label": label})
        start = end + 1
    path.write_text(json.dumps({**document, "runs": made}), encoding="utf-8")


def test_two_passes_lead_to_references(dejacue, tmp_path):
    first, second = tmp_path / "ann.json", tmp_path / "bob.json"
    for path in (first, second):
        words = ("annotate", "template", "--frames", "0:29", "--id", "cup", "-a", path.stem)
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
