"""The masks of SAM 3, as docs/tracking.md makes them, with a tiny random model."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from helpers.films import RATE, Film

import dejacue
from dejacue.video.video import open_video, write_video

PAGE = Path(__file__).resolve().parents[2] / "docs/tracking.md"
STATES = "states: {empty: an empty cup, full: a full cup}"


@pytest.mark.long
def test_the_recipe_of_the_documentation_finds_each_object_in_masks_of_sam3(
    tmp_path, monkeypatch
) -> None:
    from helpers.tiny_sam3 import save

    monkeypatch.chdir(tmp_path)
    save(tmp_path / "sam3")
    film = Film().shot(20, (0, 10, 30, 10), (1, 70, 50, 30))
    write_video(tmp_path / "kitchen.mp4", film.frames, RATE)
    (tmp_path / "cup.yaml").write_text(STATES)
    monkeypatch.setattr(dejacue, "find_each", partial(dejacue.find_each, encoder="mini"))
    page = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall('```python title="with_sam3.py"\n(.*?)```', page, re.DOTALL)
    results: dict[str, object] = {}
    exec(compile(code, str(PAGE), "exec"), results)
    masks = results["masks"]
    assert list(masks) == [frame.source for frame in open_video("kitchen.mp4", fps=5)]
    seen: dict[str, list[int]] = {}
    for frame, objects in masks.items():
        for id, mask in objects.items():
            if mask.any():
                seen.setdefault(f"kitchen-{id}", []).append(frame)
    histories = [finding.history for finding in results["findings"]]
    assert {history.id: history.source_frames.tolist() for history in histories} == seen != {}
