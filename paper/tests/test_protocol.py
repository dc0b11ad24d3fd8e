"""The VOST sample: the rule on small rosters, and the published cohort."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

from dejacue import InputError
from dejacue.errors import MissingData
from dejacue.method import Window
from dejacue_paper.data.annotation import Event
from dejacue_paper.data.protocol import read_cohort, read_splits, roster

SMALL = [
    "1_cut_apple",
    "2_cut_apple",
    "3_cut_tape_measure",
    "4_fold_box",
    "5_fold_bag",
    "6_tear_box",
]


def rank(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_rounds_take_one_noun_of_every_action_in_turn() -> None:
    got = roster(SMALL, count=5)
    actions = sorted(["cut", "fold", "tear"], key=lambda a: rank(f"3407\0action\0{a}"))
    assert [row.action for row in got[:3]] == actions
    assert [row.action for row in got[3:]] == [a for a in actions if a != "tear"]
    cut = [row.noun for row in got if row.action == "cut"]
    assert cut == sorted(["apple", "tape_measure"], key=lambda n: rank(f"3407\0cut\0{n}"))


def test_a_pair_gives_one_sequence_and_keeps_the_others_as_reserves() -> None:
    (apple,) = (row for row in roster(SMALL, count=5) if row.noun == "apple")
    order = sorted(["1_cut_apple", "2_cut_apple"], key=lambda s: rank(f"3407\0cut\0apple\0{s}"))
    assert [apple.sequence, *apple.reserves] == order


@given(st.permutations(SMALL), st.integers(0, 2**32), st.integers(1, 5))
def test_the_draw_depends_on_the_seed_but_not_on_the_order_of_the_list(given_, seed, count) -> None:
    got = roster(given_, seed=seed, count=count)
    assert got == roster(SMALL, seed=seed, count=5)[:count]
    pairs = [(row.action, row.noun) for row in got]
    assert len(set(pairs)) == count


def test_another_seed_draws_another_roster() -> None:
    rosters = {
        tuple(row.sequence for row in roster(SMALL, seed=seed, count=5)) for seed in range(9)
    }
    assert len(rosters) > 1


@pytest.mark.parametrize(
    "sequences",
    [
        ["cut_apple"],
        ["1_cut"],
        ["1_cut_"],
        ["1__apple"],
        ["1_cut_apple\n"],
        ["1_cut_ap\0ple"],
        [7],
        ["1_cut_apple"] * 2,
    ],
)
def test_a_bad_list_is_refused(sequences) -> None:
    with refused("sequence"):
        roster(sequences, count=1)


@pytest.mark.parametrize(
    ("sequences", "count"), [(["1_cut_apple", "2_cut_apple"], 2), (["1_cut_apple"], 0), ([], 100)]
)
def test_more_sequences_than_pairs_cannot_be_drawn(sequences, count) -> None:
    with refused(count):
        roster(sequences, count=count)


# The published cohort


@pytest.mark.release
def test_the_published_roster_comes_out_in_order(release) -> None:
    splits = read_splits(release.folder)
    assert [len(splits[split]) for split in ("train", "validation")] == [572, 70]
    drawn = roster([*splits["train"], *splits["validation"]])
    cohort = read_cohort(release.folder)
    assert [selected.sequence for selected in drawn] == [row.sequence for row in cohort]
    assert [selected.action for selected in drawn] == [row.action for row in cohort]
    assert [row.id for row in cohort] == [f"H{n:03}" for n in range(1, 101)]
    assert drawn[0].sequence == "3511_unscrew_jar"


@pytest.mark.release
def test_78_of_the_100_histories_were_retained_and_became_the_benchmark(release) -> None:
    cohort = read_cohort(release.folder)
    retained = [row for row in cohort if row.retained]
    assert (len(cohort), len(retained)) == (100, 78)
    assert [row.evaluation_id for row in retained] == [entry.id for entry in release.vost]
    assert [row.sequence for row in retained] == [entry.label for entry in release.vost]
    assert all(row.evaluation_id is None for row in cohort if not row.retained)


@pytest.mark.release
def test_the_designated_events_are_the_references_of_the_benchmark(release) -> None:
    retained = [row for row in read_cohort(release.folder) if row.retained]
    for row, entry in zip(retained, release.vost, strict=True):
        sides = {state.partition("_")[0]: windows for state, windows in entry.references.items()}
        assert sides == {"pre": (row.event.pre,), "post": (row.event.post,)}
        assert min(row.event.pre.length, row.event.post.length) >= 5
        assert row.event.pre.end + 1 == row.event.transition.start
        assert row.event.transition.end + 1 == row.event.post.start
    assert retained[0].event == Event(Window(43, 49), Window(50, 55), Window(56, 111))


@pytest.mark.release
def test_stable_states_recur_in_13_and_20_of_the_retained_histories(release) -> None:
    cohort = read_cohort(release.folder)
    retained = [row for row in cohort if row.retained]
    counts = [
        (sum(row.pre_runs > 1 for row in rows), sum(row.post_runs > 1 for row in rows))
        for rows in (retained, cohort)
    ]
    assert counts == [(13, 20), (18, 30)]
    assert Counter(row.events for row in retained) == {1: 71, 2: 5, 3: 2}


@pytest.mark.release
def test_every_excluded_history_has_no_event_and_a_reason(release) -> None:
    excluded = [row for row in read_cohort(release.folder) if not row.retained]
    assert {row.events for row in excluded} == {0}
    assert Counter(row.failure for row in excluded) == {
        "stable_sides_not_adjacent_in_required_order": 10,
        "pre_side_absent_or_short": 5,
        "post_side_absent_or_short": 5,
        "both_stable_sides_absent_or_short": 2,
    }


# False releases

ROW = {
    "history_id": "H001",
    "evaluation_history_id": None,
    "sequence_id": "1_cut_apple",
    "action": "cut",
    "target_noun": "apple",
    "status": "excluded",
    "selected_event": None,
    "eligibility_failure": "pre_side_absent_or_short",
    "qualifying_event_count": 0,
    "run_summary": {"pre_run_count": 0, "post_run_count": 1},
}


def cohort_file(tmp_path, text: str):
    (tmp_path / "data/reference").mkdir(parents=True)
    (tmp_path / "data/reference/vost_cohort.json").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_cohort_row_is_read_as_it_stands(tmp_path) -> None:
    (row,) = read_cohort(cohort_file(tmp_path, json.dumps({"roster": [ROW]})))
    assert (row.id, row.failure, row.pre_runs, row.post_runs) == (
        "H001",
        "pre_side_absent_or_short",
        0,
        1,
    )
    assert not row.retained


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "the format of the release"),
        ('{"roster": [{}]}', "KeyError: 'selected_event'"),
        (
            json.dumps({"roster": [ROW | {"status": "retained"}]}),
            "H001 is retained, which contradicts its",
        ),
        (json.dumps({"roster": [ROW | {"run_summary": None}]}), "download it again"),
    ],
)
def test_a_damaged_cohort_file_is_refused(tmp_path, text, message) -> None:
    with pytest.raises(InputError, match=f"vost_cohort.json: .*{message}"):
        read_cohort(cohort_file(tmp_path, text))


def test_files_that_are_not_there_are_named(tmp_path) -> None:
    with refused(tmp_path / "data/protocol/vost/train.txt", kind=MissingData):
        read_splits(tmp_path)
    with refused(tmp_path / "data/reference/vost_cohort.json", kind=MissingData):
        read_cohort(tmp_path)


def test_a_damaged_split_is_refused_with_its_name(tmp_path) -> None:
    folder = tmp_path / "data/protocol/vost"
    folder.mkdir(parents=True)
    (folder / "train.txt").write_text("1_cut_apple\n\n2_cut_apple", encoding="utf-8")
    (folder / "validation.txt").write_text("3_cut\n", encoding="utf-8")
    with refused(folder / "validation.txt", "sequence", "3_cut"):
        read_splits(tmp_path)
    (folder / "validation.txt").write_bytes(b"\xff\xfe")
    with refused(folder / "validation.txt", "cannot be read"):
        read_splits(tmp_path)
    (folder / "validation.txt").write_text("3_cut_box\n", encoding="utf-8")
    assert read_splits(tmp_path) == {
        "train": ("1_cut_apple", "2_cut_apple"),
        "validation": ("3_cut_box",),
    }
