"""Which tracker is taken, and what is left of the tracker "box" of earlier versions."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from helpers.errors import refused
from helpers.films import ColourRows
from helpers.still_tracker import Still
from PIL import Image

import dejacue
from dejacue import load_tracker
from dejacue.errors import MissingExtra, extra
from dejacue.sources.tracks import Prompt, TrackRequest, default_tracker, read_notes, write_track


def test_trackers_have_names() -> None:
    for name in ("sma2", "box:x", "light", "other:folder"):
        with refused(field="tracker", value=name):
            load_tracker(name)


@pytest.mark.parametrize("missing", ["torch", "transformers", None])
def test_sam2_is_the_default_where_its_extra_is_installed(monkeypatch, missing) -> None:
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == missing else object()
    )
    assert default_tracker() == (None if missing else "sam2")
    checked = []
    monkeypatch.setattr("dejacue.sources.tracks.sam2.load", lambda name, **options: name)
    monkeypatch.setattr("dejacue.sources.catalogue.check_models", lambda **names: checked.append(1))
    assert load_tracker() == "sam2"
    assert len(checked) == (missing is None)


def test_without_its_extra_the_error_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra) as caught:
        load_tracker()
    assert caught.value.remedy == extra("track")


def test_the_default_is_known_without_heavy_imports() -> None:
    code = (
        "import sys; from dejacue.sources.tracks import default_tracker; default_tracker(); "
        "print({'torch', 'transformers'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_a_box_that_stays_is_no_tracker_and_the_error_names_the_fixed_region() -> None:
    with refused(field="tracker", value="box") as caught:
        load_tracker("box")
    assert "fixed" in caught.value.remedy


def test_masks_of_the_former_tracker_box_are_read_as_a_fixed_region(tmp_path) -> None:
    frames = tmp_path / "frames"
    frames.mkdir()
    for at in range(6):
        Image.fromarray(np.full((30, 40, 3), 40 * at, np.uint8)).save(frames / f"{at}.png")
    masks = tmp_path / "masks"
    write_track(masks, TrackRequest.of(frames, Prompt(0, box=(3, 4, 9, 12)), Still()))
    assert read_notes(masks).presence_of()
    text = (masks / "track.json").read_text()
    changed = text.replace('"still"', '"box"').replace('"doubts":[]', '"doubts":[["lost",2,3,"x"]]')
    json.loads(changed)
    (masks / "track.json").write_text(changed)
    notes = read_notes(masks)
    assert (notes.tracker, notes.presence_of(), notes.doubts_of()) == ("box", {}, [])
    examples, encoder = {"early": [0], "late": [5]}, ColourRows()
    finding = dejacue.find(frames, examples=examples, masks=masks, encoder=encoder)
    assert (finding.made.tracker, finding.doubts) == ("fixed region", ())
    assert finding.history.presence is None
    assert any("the box stays in place" in warning for warning in finding.warnings)
