"""``dejacue convert``: references go to other tools and come back."""

from __future__ import annotations

import pytest

from dejacue import Reference
from dejacue.files import read_references, write_references
from dejacue.files.formats.registry import FORMATS

CUP = Reference("cup", {"empty": [(0, 3), (9, 9)], "half full": [(4, 8)]})


@pytest.mark.parametrize("kind", ["eaf", "srt", "cvat"])
def test_references_go_to_another_tool_and_come_back(kind, uneven_video, tmp_path, dejacue) -> None:
    ours, there = tmp_path / "cup.json", tmp_path / f"there{FORMATS[kind].suffix}"
    write_references(ours, [CUP])
    assert dejacue("convert", ours, there, "--times", uneven_video).code == 0
    back = tmp_path / "back.json"
    ran = dejacue("convert", there, back, "--times", uneven_video)
    assert (ran.code, ran.out.split(":")[0]) == (0, "references of 1 object")
    (read,) = read_references(back)
    assert read.states == CUP.states
    if kind == "cvat":
        text = there.read_text()
        assert 'xbr="64.0" ybr="48.0"' in text
        # a span that lasts to the end is not ended in a frame that the video does not have
        assert "<size>10</size>" in text
        assert 'frame="9"' in text
        assert 'frame="10"' not in text


def test_marks_of_another_tool_are_complete_where_one_says_so(
    uneven_video, tmp_path, dejacue
) -> None:
    ours, there, back = (tmp_path / name for name in ("cup.json", "cup.srt", "back.csv"))
    write_references(ours, [CUP])
    assert dejacue("convert", ours, there, "--times", uneven_video).code == 0
    assert dejacue("convert", there, back, "--times", uneven_video, "--complete").code == 0
    (read,) = read_references(back)
    assert (read.states, read.complete, tuple(read.frames)) == (CUP.states, True, (0, 9))

    ran = dejacue("convert", ours, back, "--complete")
    assert (ran.code, "its first and last frame are unknown" in ran.err) == (2, True)
    ran = dejacue("convert", ours, there, "--times", uneven_video, "--complete")
    assert (ran.code, "cannot say that references are complete" in ran.err) == (2, True)
    write_references(ours, [Reference("cup", {"empty": [(0, 3)], "full": [(3, 8)]})])
    ran = dejacue("convert", ours, tmp_path / "new.json", "--times", uneven_video, "--complete")
    assert ran.code == 2
    assert ran.err.startswith(f"dejacue: {ours}: reference cup: is complete, but window [0, 3]")
    assert not (tmp_path / "new.json").exists()


def test_of_a_bad_file_nothing_is_written(uneven_video, tmp_path, dejacue) -> None:
    path, out = tmp_path / "bad.eaf", tmp_path / "out.json"
    path.write_text("<ANNOTATION_DOCUMENT>")
    ran = dejacue("convert", path, out, "--times", uneven_video)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"dejacue: {path}: ")
    assert ran.err.count("\n") == 1
    assert not out.exists()


def test_an_ending_without_a_format_of_references_is_refused(tmp_path, dejacue) -> None:
    write_references(tmp_path / "t.json", [CUP])
    ran = dejacue("convert", tmp_path / "t.json", tmp_path / "t.xlsx")
    assert ran.code == 2
    for format in FORMATS.values():
        assert format.suffix in ran.err
    ran = dejacue("convert", tmp_path / "t.json", tmp_path / "t.json")
    assert (ran.code, "is read by this command" in ran.err) == (2, True)


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_labels_outside_the_vocabulary_are_refused_in_files_of_ours_too(
    suffix, tmp_path, dejacue
) -> None:
    path = write_references(tmp_path / f"truth{suffix}", [CUP])
    (tmp_path / "v.yaml").write_text("empty: empty cup\nfull: full cup\n")
    ran = dejacue("convert", path, tmp_path / "out.srt", "-v", tmp_path / "v.yaml")
    assert ran.code == 2
    assert str(path) in ran.err
    assert "half full" in ran.err
    assert not (tmp_path / "out.srt").exists()
