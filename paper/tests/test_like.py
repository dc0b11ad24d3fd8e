"""Taught by other videos: the table of the 59 histories, and the bars on rendered families."""

import pytest
from experiment_values import value

from dejacue_paper.experiments import like
from dejacue_paper.experiments.corpus import Benchmark
from dejacue_paper.experiments.table import Result

pytestmark = pytest.mark.long


def test_histories_of_an_action_are_kin_and_none_is_its_own(release):
    entries = Benchmark(release).vost.entries
    kin = like.kin_of(entries)
    assert sum(bool(others) for others in kin.values()) == 59
    for entry in entries:
        for other in kin[entry.id]:
            assert other is not entry
            assert tuple(other.vocabulary.states) == tuple(entry.vocabulary.states)


def test_the_table_has_single_frames_whole_intervals_and_equal_parts_side_by_side(release):
    result = Result(tuple(like.vost_values(Benchmark(release))))
    name = "VOST (59 histories)"
    single = value(result, f"{name}: single frames of one teacher, alone", "top1_tiou")
    assert value(result, f"{name}: intervals of one teacher, alone", "top1_tiou") > single
    assert value(result, f"{name}: equal parts", "r1_05") > 0
    for row in ("the same action", "two actions"):
        assert -1 < value(result, f"{name}: differences of {row}", "cosine") < 1


def test_three_teachers_do_as_well_as_words_and_add_to_a_strip():
    entries = like.family_entries("mini", 4, ("cup", "bulb", "box"))
    result = Result(tuple(like.family_values("mini", entries, "auto")))
    (name,) = {v.row.partition(":")[0] for v in result.values if v.row.startswith("rendered")}
    three, strip = (value(result, f"{name}: {row}", "top1_tiou") for row in ("3 teachers", "strip"))
    assert three >= value(result, f"{name}: words", "top1_tiou") - 0.01
    assert value(result, f"{name}: strip and 3 teachers", "top1_tiou") >= strip - 0.01
    (once,) = {v.row.partition(":")[0] for v in result.values if v.row.startswith("of these")}
    ordered = value(result, f"{once}: ordered, teachers", "top1_tiou")
    assert ordered > value(result, f"{once}: equal parts", "top1_tiou")
    assert ordered >= value(result, f"{once}: ordered, change alone", "top1_tiou") - 0.01
