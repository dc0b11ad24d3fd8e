"""reproduce and the release at the command line."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import huggingface_hub
import pytest

from dejacue_paper.experiments import REGISTRY, Experiment, Result, Value

PNG, PDF = b"\x89PNG\r\n\x1a\n", b"%PDF-"


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
    experiment = Experiment("main", "made", lambda benchmark: Result((value,)))
    monkeypatch.setitem(REGISTRY, "main", experiment)
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


def rows_of(table: str) -> list[list[str]]:
    """Return the cells of the body of a printed table."""
    lines = [line for line in table.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


@pytest.mark.release
def test_data_show_counts_what_is_in_the_release(dejacue, release):
    ran = dejacue("data", "show", release.folder)
    assert ran.code == 0
    assert str(release.folder) in ran.out
    assert [row[:5] for row in rows_of(ran.out)] == [
        ["vost", "78", "7857", "156", "312"],
        ["seven", "7", *counts(release.seven)],
        ["development", "4", *counts(release.development)],
    ]
    assert rows_of(ran.out)[2][5].startswith("D01: data/learned")


def counts(entries) -> list[str]:
    return [
        str(sum(len(entry.history) for entry in entries)),
        str(sum(len(entry.references) for entry in entries)),
        str(sum(len(entry.vocabulary) for entry in entries)),
    ]


def test_data_fetch_shows_where_the_release_is_and_its_terms(dejacue, tmp_path, monkeypatch):
    def download(_: str, *, repo_type: str, local_dir: Path) -> None:
        (local_dir / "data").mkdir(parents=True)
        (local_dir / "data" / "benchmark.json").write_text("{}")
        (local_dir / "DATA_LICENSE.md").write_text("For research [only].")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    ran = dejacue("data", "fetch", tmp_path / "release")
    assert (ran.code, ran.err) == (0, "")
    assert f"The release is in {tmp_path / 'release'}" in ran.out
    assert "For research [only]." in ran.out


@pytest.mark.parametrize("words", [("data", "show"), ("reproduce", "main", "--data")])
def test_a_missing_release_exits_with_1_and_the_remedy(dejacue, tmp_path, words):
    ran = dejacue(*words, tmp_path)
    assert ran.code == 1
    assert ran.out == ""
    remedy = r'run "dejacue data fetch", or set DEJACUE_DATA to the folder that contains data/\n'
    assert re.fullmatch(rf"dejacue: {re.escape(str(tmp_path))}: .*{remedy}", ran.err)


def test_a_failed_download_exits_with_1_and_the_remedy(dejacue, tmp_path, monkeypatch):
    def offline(*_: object, **__: object) -> None:
        raise ConnectionError("no connection")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    ran = dejacue("data", "fetch", tmp_path / "release")
    assert (ran.code, ran.out) == (1, "")
    assert re.fullmatch(r"dejacue: the release could not be downloaded .*DEJACUE_DATA.*\n", ran.err)


def test_an_unknown_table_is_refused(dejacue, tmp_path):
    ran = dejacue("reproduce", "mian", "--data", tmp_path)
    assert ran.code == 2
    assert 'unknown experiment "mian"; did you mean "main"?' in ran.err
