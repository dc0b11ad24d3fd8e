"""By default all frames are used, or as many as a CPU encodes in about the time that the video
lasts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import Sampling, Store, find, ingest, load_encoder, open_masks, open_video
from dejacue.finding._encode import stride_for
from dejacue.models.encoders.mini import Mini
from dejacue_paper.data.rendered import render, write_scene

NOTE = (
    "only one in 3 frames was used (20 in all), so that a CPU takes about as long as the video "
    "lasts; a stride of 1 uses all"
)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("max_fps") / "cup"
    write_scene(folder, render(11, family="cup", topology="binary", frames=60))
    return folder


@pytest.fixture
def slow(scene):
    """Return an encoder that takes a third of the frames of a second."""
    encoder = load_encoder("mini")
    encoder.max_fps = open_video(scene / "scene.mp4").rate / 3
    return encoder


@pytest.fixture
def find_slowly(scene, slow):
    """Return ``find`` with the slow encoder."""

    def run(video=scene / "scene.mp4", **more):
        options = {"masks": scene / "Annotations", "objects": [1], "encoder": slow} | more
        return find(video, scene / "vocabulary.yaml", **options)

    return run


def test_a_slow_encoder_gets_every_third_frame_and_that_is_said(find_slowly, tmp_path) -> None:
    few, full = find_slowly(folder=tmp_path / "out"), find_slowly(sampling=Sampling(stride=1))
    third = full.history.source_frames % 3 == 0
    assert few.history.source_frames.tolist() == full.history.source_frames[third].tolist()
    assert (3 * few.history.frames == few.history.source_frames).all()
    np.testing.assert_allclose(few.history.features, full.history.features[third], atol=1e-5)
    assert few.history.made_with["every"] == "3"
    assert few.history.frames_looked_at == 20
    assert NOTE in few.warnings
    assert set(few.thumbnails) <= set(range(20))
    again = find_slowly(folder=tmp_path / "out")  # taken from there, and said again
    assert again.history.made_with == few.history.made_with
    assert NOTE in again.warnings
    assert NOTE not in full.warnings
    assert "every" not in full.history.made_with


def test_frames_that_are_chosen_are_all_used(find_slowly, scene) -> None:
    rate = open_video(scene / "scene.mp4").rate
    for more in (
        {"fps": rate},
        {"sampling": Sampling(stride=1)},
        {"examples": {"full": 31}},
        {"video": open_video(scene / "scene.mp4")},
    ):
        assert find_slowly(**more).history.frames_looked_at == 60
    assert find_slowly(sampling=Sampling(stride=2)).history.frames_looked_at == 30
    assert find_slowly(encoder="mini").history.frames_looked_at == 60


def test_ingest_has_the_rows_of_find(find_slowly, slow, scene, tmp_path) -> None:
    row = {"video": str(scene / "scene.mp4"), "masks": str(scene / "Annotations"), "objects": 1}
    Store.create(tmp_path / "store", dtype="float32").close()
    ingest([row, row | {"id": "all", "stride": 1}], tmp_path / "store", encoder=slow)
    expected = find_slowly().history
    with Store.open(tmp_path / "store") as store:
        few, full = store["scene"], store["all"]
        assert (len(few), len(full)) == (
            len(expected),
            len(find_slowly(sampling=Sampling(stride=1)).history),
        )
        assert np.array_equal(few.features, expected.features)
        assert np.array_equal(few.source_frames, expected.source_frames)
        assert few.made_with["every"] == "3"
        assert "every" not in full.made_with


@pytest.mark.long
def test_what_is_there_keeps_the_pace_it_was_made_with(find_slowly, slow, scene, tmp_path) -> None:
    """Nothing is encoded again, whether a store or a folder has all frames or few."""
    row = {"video": str(scene / "scene.mp4"), "masks": str(scene / "Annotations"), "objects": 1}
    fast = load_encoder("mini")
    for at, (before, after, frames) in enumerate(((fast, slow, 60), (slow, fast, 20))):
        store, folder = tmp_path / f"store{at}", tmp_path / f"folder{at}"
        assert ingest([row], store, encoder=before).added == ("scene",)
        assert ingest([row], store, encoder=after).skipped == ("scene",)
        assert ingest([row], store, encoder=after, replace=True).skipped == ("scene",)
        find_slowly(encoder=before, folder=folder)
        stamp = (folder / "scene.history.npz").stat().st_mtime_ns
        assert find_slowly(encoder=after, folder=folder).history.frames_looked_at == frames
        assert (folder / "scene.history.npz").stat().st_mtime_ns == stamp
    # what names frames of the history means those of the history that is there
    words = find_slowly(folder=tmp_path / "folder1").correct(full=15).vocabulary
    options = {"masks": scene / "Annotations", "objects": [1], "encoder": slow}
    again = find(scene / "scene.mp4", words, **options, folder=tmp_path / "folder1")
    assert again.history.frames_looked_at == 20
    assert list(again.named) == ["full"]
    with refused(tmp_path / "folder1", "what was named in it would be lost"):
        find_slowly(folder=tmp_path / "folder1", sampling=Sampling(stride=1))
    stated = find_slowly(folder=tmp_path / "folder0", sampling=Sampling(stride=2))
    assert stated.history.frames_looked_at == 30


@pytest.mark.parametrize(
    ("rate", "stride"), [(30, 8), (29.97, 7), (25, 6), (60, 15), (4, 1), (1, 1)]
)
def test_the_rule_is_a_quotient_and_no_clock(rate, stride) -> None:
    assert stride_for(SimpleNamespace(rate=rate), 4.0) == stride
    assert stride_for(SimpleNamespace(rate=rate), None) == 1
    assert stride_for(SimpleNamespace(rate=None), 4.0) == 1  # images, which somebody has chosen


@pytest.mark.parametrize("match", ["auto", "source", "index"])
@pytest.mark.parametrize("first", [0, 1])
def test_masks_are_found_as_for_all_frames(scene, tmp_path, match, first) -> None:
    """This holds by their position among all frames, too, and if masks count from 1."""
    if (match, first) == ("source", 1):
        match = "one-based"
    folder = tmp_path / "masks"
    folder.mkdir()
    for at, path in enumerate(sorted((scene / "Annotations").rglob("*.png"))):
        (folder / f"{at + first:05d}.png").write_bytes(path.read_bytes())
    video = open_video(scene / "scene.mp4")
    masks = open_masks(folder, match=match, frames=video.length)
    whole = {frame.source: masks.unions(frame, [None])[0] for frame in video}
    fewer = masks.thinned(7)
    seen = list(video.thinned(7))
    assert [frame.index for frame in seen] == list(range(9)) == list(range(video.thinned(7).length))
    for frame in seen:
        assert frame.source == 7 * frame.index
        (mask,) = fewer.unions(frame, [None])
        assert (mask is None) == (whole[frame.source] is None)
        assert mask is None or np.array_equal(mask, whole[frame.source])
    assert fewer.problems == []  # masks between them are no surprise
    assert video.thinned(7).key != video.key


def test_the_command_says_it_and_takes_all_on_demand(scene, tmp_path, dejacue, monkeypatch) -> None:
    monkeypatch.setattr(Mini, "max_fps", open_video(scene / "scene.mp4").rate / 3)
    masks, output = ("--masks", scene / "Annotations"), ("-o", tmp_path / "cup.history.npz")
    words = ("encode", scene / "scene.mp4", *masks, "--object", 1, "--encoder", "mini", *output)
    ran = dejacue(*words)
    assert ran.code == 0
    assert NOTE in " ".join(ran.err.split())
    ran = dejacue(*words, "--stride", 1)
    assert ran.code == 0
    assert "frames was used" not in ran.err
