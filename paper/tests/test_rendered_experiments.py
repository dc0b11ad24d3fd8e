"""Experiments on rendered scenes, with a few scenes each: what they render, measure and write."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

from dejacue.models.encoders import encode_vocabulary
from dejacue.records import Vocabulary
from dejacue_paper.data.crops import FIRST_TRAINING_SEED
from dejacue_paper.data.rendered import FAMILIES, TOPOLOGIES, render
from dejacue_paper.data.rendered.degrade import grown
from dejacue_paper.experiments import (
    ON_REQUEST,
    REGISTRY,
    Experiment,
    Result,
    Value,
    experiment,
    rendered,
)
from dejacue_paper.experiments.corpus import Benchmark, Corpus
from dejacue_paper.experiments.output import as_markdown, lines
from dejacue_paper.experiments.rendered import (
    FIRST_SEED,
    SCENES,
    SceneRequest,
    build_all_entries,
    build_entries,
)

pytestmark = pytest.mark.long

NAMES = ["rendered-retrieval", "rendered-masks", "rendered-difficulty"]
FEW = 8  # every topology twice
MASK_LEVELS = (0.0, 0.25, 1.0)


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return Benchmark(None)


@pytest.fixture(scope="module")
def retrieval(benchmark) -> Result:
    return rendered.retrieval(benchmark, FEW, workers=1)


@pytest.fixture(scope="module")
def masks(benchmark) -> Result:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rendered, "MASK_LEVELS", MASK_LEVELS)
        return rendered.masks(benchmark, 3, workers=1)


@pytest.fixture(scope="module")
def difficulty(benchmark) -> Result:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rendered, "FRAMES", 24)
        return rendered.difficulty(benchmark, 2, workers=1)


def means(result: Result) -> dict[tuple[str, str], float]:
    return {(v.row, v.metric): v.here for v in result.values if v.part == "mean"}


# the scenes


def test_scenes_are_neither_those_of_training_nor_those_of_tests_and_demos() -> None:
    seeds = [rendered.moderate(number)["seed"] for number in range(SCENES)]
    assert seeds == list(range(FIRST_SEED, FIRST_SEED + SCENES))
    assert min(seeds) > 1_000_000
    assert max(seeds) < FIRST_TRAINING_SEED // 4


def test_there_are_enough_scenes_of_every_topology_and_family() -> None:
    options = [rendered.moderate(number) for number in range(SCENES)]
    assert len(options) >= 200
    assert rendered.MASKED >= 60
    assert rendered.DEGRADED >= 40
    pairs = {(o["family"], o["topology"]) for o in options}
    assert pairs == {(f.name, t) for f in FAMILIES.values() for t in f.topologies}
    for topology in TOPOLOGIES:
        assert sum(o["topology"] == topology for o in options) == SCENES // len(TOPOLOGIES)


def test_difficulties_are_drawn_by_the_seed_and_moderate() -> None:
    options = [rendered.moderate(number) for number in range(SCENES)]
    assert rendered.moderate(5) == options[5]
    for name, most in {"camera": 0.6, "lighting": 0.6, "hand": 0.5, "noise": 0.4}.items():
        levels = [o[name] for o in options]
        assert 0 <= min(levels) < 0.1 * most
        assert 0.9 * most < max(levels) <= most
    assert {o["exits"] for o in options} == {0, 1, 2}


def test_one_difficulty_at_a_time_differs_from_the_usual_in_that_alone() -> None:
    usual, shaken = rendered.degraded(3, "hand", 0.0), rendered.degraded(3, "camera", 1.0)
    assert {name for name in usual if usual[name] != shaken[name]} == {"camera"}
    assert usual == rendered.degraded(3, "blur", 0.0)  # so that it is filmed only once
    assert rendered.degraded(3, "clutter", 1.0)["distractors"] == 4
    plain = render(**rendered.subject(3))  # the usual is what the renderer does unasked
    assert np.array_equal(render(**usual).image(7), plain.image(7))


# filming


def test_a_film_has_the_rows_that_a_history_built_from_files_has() -> None:
    options = rendered.moderate(1)
    (entry,) = build_entries(SceneRequest(options))
    scene = render(**options)
    assert entry is not None
    assert np.array_equal(entry.history.frames, np.flatnonzero(scene.visible))
    assert entry.references == scene.references
    assert (entry.id, entry.cohort, entry.label) == (scene.id, "three", scene.family.name)
    again = encode_vocabulary(Vocabulary(scene.vocabulary.states), rendered.encoder())
    assert np.array_equal(entry.vocabulary.features, again.features)
    assert entry.history.encoder == entry.vocabulary.encoder == rendered.encoder().identity


def test_wrong_masks_on_one_film_equal_films_with_wrong_masks() -> None:
    options = {**rendered.moderate(0), "distractors": 1, "exits": 0, "frames": 30}
    wrong = (("drift", 0.5), ("switch", 0.5), ("erode", 1.0))
    _, *together = build_entries(SceneRequest(options, wrong))
    for (kind, level), entry in zip(wrong, together, strict=True):
        (alone,) = build_entries(SceneRequest({**options, "mask_noise": kind, "mask_level": level}))
        assert entry is not None
        assert alone is not None
        assert np.array_equal(entry.history.frames, alone.history.frames), kind
        assert np.array_equal(entry.history.features, alone.history.features), kind


def test_several_processes_give_the_same_histories_in_the_same_order() -> None:
    requests = [
        SceneRequest({**rendered.moderate(number), "frames": 24, "exits": 0}) for number in range(3)
    ]
    here, there = build_all_entries(requests, workers=1), build_all_entries(requests, workers=2)
    for (first,), (other,) in zip(here, there, strict=True):
        assert first is not None
        assert other is not None
        assert first.id == other.id
        assert np.array_equal(first.history.features, other.history.features)
        assert np.array_equal(first.vocabulary.features, other.vocabulary.features)


# results


def test_retrieval_measures_every_coordinate_and_the_baselines_without_published_values(
    retrieval,
) -> None:
    conditions = [*rendered.COORDINATES, "whole-history", "longest-run"]
    assert list(retrieval.windows) == conditions
    for by_history in retrieval.windows.values():
        assert len(by_history) == FEW
        for name, rows in by_history.items():
            assert np.asarray(rows).shape[1] == 2, name
            assert (rows[:, 0] >= 0).all()
            assert (rows[:, 0] <= rows[:, 1]).all()
            assert (rows[:, 1] < rendered.FRAMES).all()
    assert retrieval.compared == 0
    assert not retrieval.unexplained
    averages = means(retrieval)
    for name in (*conditions, "best window of the schedule"):
        assert 0 <= averages[name, "r1_05"] <= averages[name, "r1_03"] <= 1
        assert averages[name, "top1_tiou"] <= averages["best window of the schedule", "top1_tiou"]
    parts = [v.part for v in retrieval.values if v.row == "vocabulary − absolute"]
    assert parts == ["mean", "low", "high", "p", "holm p"] * 3
    for topology in TOPOLOGIES:
        assert (f"{topology}: vocabulary − absolute", "r1_05") in averages


def test_differences_are_those_of_the_rows_and_topologies_add_up(retrieval) -> None:
    averages = means(retrieval)
    for metric in ("r1_03", "r1_05", "top1_tiou"):
        change = averages["vocabulary", metric] - averages["absolute", metric]
        assert averages["vocabulary − absolute", metric] == pytest.approx(change)
        parts = [averages[f"{topology}: dual", metric] for topology in TOPOLOGIES]
        assert averages["dual", metric] == pytest.approx(np.mean(parts))  # as many scenes of each


def test_looking_beats_not_looking(retrieval) -> None:
    averages = means(retrieval)
    assert averages["vocabulary", "r1_05"] > averages["longest-run", "r1_05"] + 0.2
    assert averages["features", "frames nearest to their state"] > 0.95
    assert averages["features", "cosine of sibling states"] < 0.5


def test_the_same_scene_filmed_again_gives_the_windows_of_the_result(benchmark, retrieval) -> None:
    (entry,) = build_entries(SceneRequest(rendered.moderate(2)))
    assert entry is not None
    for coordinates in rendered.COORDINATES:
        rows = Corpus([entry], benchmark.engine).windows(coordinates)
        assert np.array_equal(rows, retrieval.windows[coordinates][entry.id])


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.01, 0.05, "beat"),
        (-0.05, -0.01, "lose to"),
        (-0.01, 0.05, "do not beat"),
        (0.0, 0.05, "do not beat"),
    ],
)
def test_the_verdict_follows_the_interval(low, high, said) -> None:
    assert f"coordinates {said} absolute ones" in rendered._verdict(low, high)


def test_a_switch_hurts_and_a_little_dilation_does_not(masks) -> None:
    averages = means(masks)
    true = averages["switch 0", "top1_tiou"]
    assert {averages[f"{kind} 0", "top1_tiou"] for kind in rendered.MASK_NOISES} == {true}
    assert averages["switch 1", "top1_tiou"] < true - 0.2
    assert averages["switch 1", "top1_tiou"] < averages["dilate 0.25", "top1_tiou"]
    change = averages["switch 1", "Top-1 tIoU, change"]
    assert change == pytest.approx(averages["switch 1", "top1_tiou"] - true)
    assert len(masks.windows) == 4 * 3
    assert not any(row.endswith(" 0") and "change" in metric for row, metric in averages)


def test_a_history_that_is_never_seen_counts_as_zero() -> None:
    (entry,) = build_entries(SceneRequest({**rendered.moderate(0), "frames": 30, "exits": 0}))
    assert entry is not None
    table, windows = rendered.measured([None, entry], ["a scene", entry.id], "auto")
    assert table[0].tolist() == [0, 0, 0]
    assert table[1, 2] > 0
    assert list(windows) == [entry.id]
    nothing, none = rendered.measured([None], ["a scene"], "auto")
    assert nothing.tolist() == [[0, 0, 0]]
    assert not none


def test_one_difficulty_at_a_time_has_a_row_for_every_level(difficulty) -> None:
    rows = [f"{what} {level:g}" for what in rendered.USUAL for level in rendered.LEVELS]
    assert list(difficulty.windows) == [*rows, "all of them 0"]
    averages = means(difficulty)
    usual = averages["hand 0", "top1_tiou"]
    assert usual == averages["blur 0", "top1_tiou"] == averages["blocks 0", "top1_tiou"]
    change = averages["hand 1", "top1_tiou"] - usual
    assert averages["hand 1", "Top-1 tIoU, change"] == pytest.approx(change)


def test_what_lies_behind_the_object_shows_in_its_outline_only() -> None:
    bare, full = (render(**rendered.degraded(0, "clutter", level)) for level in (0.0, 1.0))
    mask = bare.labels(9) == 1
    assert np.array_equal(mask, full.labels(9) == 1)
    differs = (bare.image(9) != full.image(9)).any(axis=2)
    assert differs[~mask].mean() > 0.05
    assert not differs[~grown(~mask, 2)].any()


def test_a_scene_in_which_nothing_else_changes_has_equal_frames() -> None:
    options = {**rendered.still(0), "frames": 24}
    (quiet,), (usual,) = (
        build_entries(SceneRequest(options)),
        build_entries(SceneRequest({**options, "noise": 0.15})),
    )
    assert quiet is not None
    assert usual is not None
    assert len(np.unique(quiet.history.features, axis=0)) < 24 / 2
    assert len(np.unique(usual.history.features, axis=0)) == 24


def test_figures_are_drawn_from_the_results(retrieval, masks, difficulty) -> None:
    drawn = {
        name: draw() for r in (retrieval, masks, difficulty) for name, draw in r.figures.items()
    }
    assert list(drawn) == ["rendered_retrieval", "rendered_masks", "rendered_difficulty"]
    (axis,) = drawn["rendered_retrieval"].axes
    assert [t.get_text() for t in axis.get_xticklabels()] == ["all", *TOPOLOGIES]
    left, right = drawn["rendered_masks"].axes
    assert (left.get_title("left"), right.get_title("left")) == ("R@1 .5 (%)", "Top-1 tIoU (%)")
    assert left.get_legend_handles_labels()[1] == list(rendered.MASK_NOISES)
    points = left.containers[0].lines[0].get_ydata()
    averages = means(masks)
    assert points == pytest.approx(
        [100 * averages[f"erode {level:g}", "r1_05"] for level in MASK_LEVELS]
    )
    assert drawn["rendered_difficulty"].axes[0].get_legend_handles_labels()[1] == list(
        rendered.USUAL
    )


# the command line


def test_they_are_run_by_name_and_not_with_all() -> None:
    assert [name for name in ON_REQUEST if name.startswith("rendered")] == NAMES
    assert not set(NAMES) & set(REGISTRY)
    assert all(experiment(name).on_request for name in NAMES)
    assert not any(entry.on_request for entry in REGISTRY.values())


def test_the_list_names_them_as_on_request(dejacue) -> None:
    ran = dejacue("reproduce", "--list")
    assert ran.code == 0
    for name in NAMES:
        (line,) = [line for line in ran.out.splitlines() if line.strip().startswith(name)]
        assert "only by name" in line


@pytest.fixture
def quick(monkeypatch) -> Experiment:
    """Run rendered-masks with one scene and one level."""
    experiment = Experiment(
        NAMES[1], "few scenes", partial(rendered.masks, scenes=1, workers=1), on_request=True
    )
    monkeypatch.setattr(rendered, "MASK_LEVELS", (0.0, 1.0))
    monkeypatch.setitem(ON_REQUEST, NAMES[1], experiment)
    return experiment


def test_the_command_writes_page_windows_and_picture_without_any_release(
    dejacue, quick, tmp_path
) -> None:
    folder, windows = tmp_path / "out", tmp_path / "windows.json"
    ran = dejacue(
        "reproduce",
        NAMES[1],
        "--data",
        tmp_path / "no",
        "--out",
        folder,
        "--figures",
        "--windows",
        windows,
    )
    assert ran.code == 0, ran.err
    assert (folder / "figures" / "rendered_masks.png").stat().st_size > 5000
    assert "| switch 1 | R@1 .5, change |" in (folder / "reproduce.md").read_text(encoding="utf-8")
    written = json.loads(windows.read_text(encoding="utf-8"))[NAMES[1]]
    assert len(written) == 8
    assert all(len(by_history) == 1 for by_history in written.values())


def test_all_and_a_name_run_both(dejacue, quick, monkeypatch, tmp_path) -> None:
    for name in reversed(list(REGISTRY)):  # so that the original order is restored
        monkeypatch.delitem(REGISTRY, name)
    value = Value("row", "r1_05", 0.5, 0.5)
    monkeypatch.setitem(
        REGISTRY, "main", Experiment("main", "made up", lambda benchmark: Result((value,)))
    )
    alone = dejacue("reproduce", "all", "--data", tmp_path)
    assert "main: made up" in alone.out
    assert "few scenes" not in alone.out
    both = dejacue("reproduce", "all", NAMES[1], "--data", tmp_path)
    assert "main: made up" in both.out
    assert f"{NAMES[1]}: few scenes" in both.out


def test_the_page_shows_no_published_column_entries(retrieval) -> None:
    assert {line.published for line in lines(retrieval)} == {""}
    page = as_markdown([experiment(NAMES[0])], {NAMES[0]: retrieval}, {}, (), NAMES[0])
    assert "| vocabulary − absolute | R@1 .5 |" in page
    assert f"seeds {FIRST_SEED} to {FIRST_SEED + FEW - 1}" in page
