"""The published main table, from every engine."""

from __future__ import annotations

import json

import pytest

from dejacue import InputError
from dejacue.experiments import Value, experiment
from dejacue.experiments.table import published
from dejacue.method.kernel import compiled

METHODS = ["scan/absolute", "scan/trajectory", "scan/vocabulary", "scan/dual",
           "mean-window/absolute", "boxcar/absolute", "max-frame/absolute"]  # fmt: skip


@pytest.fixture(scope="module")
def results(release):
    return {name: experiment("main").run(release, name) for name in (*compiled(), "numpy")}


def test_all_published_means_come_out_to_six_digits(results) -> None:
    for name, result in results.items():
        assert [v.row for v in result.values[::3]] == METHODS
        assert len(result.values) == 21
        for value in result.values:
            assert value.here == pytest.approx(value.published, abs=1e-6), (name, value)
        assert result.reproduced == 21


def test_every_engine_selects_the_same_windows(results) -> None:
    first, *others = results.values()
    assert len(first.windows) == 7
    for chosen in first.windows.values():
        assert len(chosen) == 78
        assert sum(len(windows) for windows in chosen.values()) == 312
    for other in others:
        assert other.windows == first.windows


def test_windows_are_json_and_follow_the_files_order(results, release) -> None:
    windows = json.loads(json.dumps(results["numpy"].windows))
    entry = release.vost["H001"]
    assert len(windows["scan/vocabulary"]["H001"]) == len(entry.vocabulary)
    assert windows["scan/vocabulary"]["H001"][0] == [0, 29]


def test_the_facts_in_the_package_equal_the_published_ones(release) -> None:
    path = release.folder.parent / "published.json"
    if not path.is_file():
        pytest.skip("published.json is not beside the release")
    source = json.loads(path.read_text(encoding="utf-8"))["vost_main"]
    for method, figures in published()["vost_main"].items():
        assert figures["mean"] == source[method]["mean"]
    assert list(published()["vost_main"]) == METHODS


def test_a_value_agrees_only_when_it_rounds_to_the_published_one() -> None:
    assert Value("row", "metric", 0.2154886, 0.215489).agrees
    assert not Value("row", "metric", 0.2154880, 0.215489).agrees
    assert not Value("row", "metric", 0.22, 0.215489).agrees


def test_an_unknown_table_is_named() -> None:
    with pytest.raises(InputError, match='did you mean "main"'):
        experiment("mian")
