"""The scene of ``dejacue demo`` is unpacked whole, over nothing that was not meant."""

from __future__ import annotations

import pytest
from helpers.errors import refused

from dejacue import DejaCueError
from dejacue.demo import write_demo


def test_a_folder_with_something_in_it_is_left_alone_unless_it_may_be_replaced(tmp_path) -> None:
    (tmp_path / "scene").mkdir()
    write_demo(tmp_path / "scene")  # an empty one is fine
    notes = tmp_path / "scene" / "notes.txt"
    notes.write_text("mine", encoding="utf-8")
    with refused(tmp_path / "scene"):
        write_demo(tmp_path / "scene")
    assert notes.read_text(encoding="utf-8") == "mine"
    write_demo(tmp_path / "scene", overwrite=True)
    names = {path.name for path in (tmp_path / "scene").iterdir()}
    assert names == {"scene.mp4", "Annotations", "vocabulary.yaml", "references.json"}
    assert [path.name for path in tmp_path.iterdir()] == ["scene"]


def test_a_file_is_not_replaced_by_the_folder(tmp_path) -> None:
    (tmp_path / "scene").write_text("mine", encoding="utf-8")
    with pytest.raises(DejaCueError, match="is a file"):
        write_demo(tmp_path / "scene", overwrite=True)
    assert (tmp_path / "scene").read_text(encoding="utf-8") == "mine"


def test_a_failure_while_unpacking_leaves_what_was_there(tmp_path, monkeypatch) -> None:
    write_demo(tmp_path / "scene")
    monkeypatch.setattr("dejacue.demo.ARCHIVE", tmp_path / "scene" / "scene.mp4")
    with pytest.raises(Exception, match="not a zip file"):
        write_demo(tmp_path / "scene", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["scene"]
    assert (tmp_path / "scene" / "references.json").is_file()


def test_the_scene_written_again_counts_as_the_same_video(tmp_path) -> None:
    first, second = (write_demo(tmp_path / name) / "scene.mp4" for name in ("a", "b"))
    assert first.stat().st_mtime_ns == second.stat().st_mtime_ns
