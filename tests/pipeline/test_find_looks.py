"""find() with a part of the frames: what the encoder sees, what is kept, how it goes on."""

import errno
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import Finding, Store, find
from dejacue.files import read_history
from dejacue.pipeline import Job, encode
from dejacue.pipeline.where import InMasks
from dejacue.sources import looking
from dejacue.sources.encoders.mini import Mini
from dejacue.sources.looking import SmallPictures, crops_path
from dejacue.sources.video import write_video
from dejacue_paper.data.rendered import render, write_scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("looks") / "cup"
    write_scene(folder, render(11, family="cup", topology="binary", frames=80, distractors=1))
    return folder


class Counting(Mini):
    """The embedded encoder; it counts pictures and may be killed before a batch."""

    def __init__(self, killed_at=None):
        super().__init__()
        self.pictures, self.killed_at = 0, killed_at

    @property
    def batch(self):
        return 4

    def encode_images(self, crops):
        if self.killed_at is not None and self.pictures >= self.killed_at:
            raise KeyboardInterrupt
        self.pictures += len(crops)
        return super().encode_images(crops)


@pytest.fixture
def cup(scene):
    def run(vocabulary=scene / "vocabulary.yaml", looks="auto", video=None, **more):
        options = {"masks": scene / "Annotations", "objects": [1], "encoder": "mini"} | more
        return find(video or scene / "scene.mp4", vocabulary, looks=looks, **options)

    return run


OTHER = {"bright": ["full cup"], "dark": ["empty cup"], "tall": ["half full cup"]}


def test_the_answer_of_a_part_of_the_frames_is_that_of_all_and_says_how_many(cup):
    full, encoder = cup(looks="all"), Counting()
    partly = cup(encoder=encoder)
    seen = partly.history.seen
    assert encoder.pictures == seen.sum() < 0.4 * len(seen)
    assert np.array_equal(partly.history.frames, full.history.frames)
    for ours, theirs in zip(partly.timeline.answers, full.timeline.answers, strict=True):
        assert abs(ours.start - theirs.start) <= 2
        assert abs(ours.end - theirs.end) <= 2
    (note,) = [text for text in partly.timeline.notes if text.startswith(looking.ENCODER_SAW)]
    assert f"{seen.sum()} of {len(seen)}" in note
    assert full.history.seen.all()


def test_seen_rows_are_as_with_all_frames_and_files_and_stores_keep_which(cup, tmp_path):
    full, partly = cup(looks="all").history, cup(folder=tmp_path / "out").history
    assert np.allclose(partly.features[partly.seen], full.features[partly.seen], atol=1e-5)
    read = Finding.read(tmp_path / "out").history
    assert np.array_equal(read.seen, partly.seen)
    with Store.create(tmp_path / "store", encoder=partly.encoder) as store:
        store.add([partly])
        assert np.array_equal(store[partly.id].seen, partly.seen)


@pytest.mark.parametrize("budget", [1, 6, "10%"])
def test_no_more_frames_are_seen_than_the_budget_allows(cup, budget):
    encoder = Counting()
    history = cup(looks=budget, encoder=encoder).history
    assert encoder.pictures == history.seen.sum() <= 8


@pytest.mark.parametrize("budget", [0, -1, float("nan"), "0%", "120%", "some"])
def test_a_budget_that_is_none_is_refused_before_anything_is_opened(cup, budget):
    with refused(field="looks"):
        cup(looks=budget, video="missing.mp4")


def test_looking_needs_words_and_a_history_takes_no_budget(cup, scene, tmp_path):
    where = InMasks(masks=scene / "Annotations")
    job = Job(video=scene / "scene.mp4", where=where, looks="auto", objects=[1])
    with refused(field="looks"):
        encode(job)
    cup(folder=tmp_path)
    with refused(field="looks"):
        find(tmp_path, looks="auto")


def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(cup, tmp_path):
    cup(folder=tmp_path / "whole", encoder=Counting())
    with pytest.raises(Exception, match="kept"):
        cup(folder=tmp_path / "killed", encoder=Counting(killed_at=8))
    again = Counting()
    history = cup(folder=tmp_path / "killed", encoder=again).history
    assert again.pictures == history.seen.sum() - 8
    for kind in ("*.npz", "*.crops", "*.json"):
        for path in sorted((tmp_path / "whole").glob(kind)):
            assert path.read_bytes() == (tmp_path / "killed" / path.name).read_bytes(), path.name
    assert not list((tmp_path / "killed").glob(".*"))


def test_the_same_question_sees_nothing_again_and_all_frames_answer_any(cup, tmp_path):
    first, encoder = cup(folder=tmp_path), Counting()
    again = cup(folder=tmp_path, encoder=encoder)
    assert encoder.pictures == 0
    assert np.array_equal(again.history.features, first.history.features)
    whole = cup(folder=tmp_path, looks="all", encoder=encoder)
    assert encoder.pictures == len(whole.history)
    assert whole.history.seen.all()
    assert not list(tmp_path.glob("*.crops"))
    assert cup(folder=tmp_path, encoder=encoder).history.seen.all()
    assert encoder.pictures == len(whole.history)


def test_other_words_look_further_from_kept_crops_without_the_video(cup, tmp_path, monkeypatch):
    first = cup(folder=tmp_path)
    monkeypatch.setattr(looking, "crops", None)  # nothing is decoded
    encoder = Counting()
    for other in (
        find(tmp_path, OTHER, encoder=encoder),
        cup(OTHER, folder=tmp_path, encoder=encoder, pictures=False),
    ):
        assert other.history.seen[first.history.seen].all()
        assert other.history.seen.sum() - first.history.seen.sum() > 0
    assert encoder.pictures == 2 * (other.history.seen.sum() - first.history.seen.sum())
    said = [text for text in other.timeline.notes if text.startswith(looking.ENCODER_SAW)]
    assert said == looking.saw_note(other.history)


def test_looks_of_an_earlier_run_are_kept_and_the_note_says_so(cup, tmp_path):
    assert "earlier" not in str(cup(folder=tmp_path, looks=12).warnings)
    again = cup(OTHER, folder=tmp_path, looks=5)
    assert again.history.seen.sum() > 5
    assert "(looks=5, and what an earlier run saw)" in str(again.warnings)


def test_without_kept_crops_other_words_are_answered_from_what_was_seen(cup, tmp_path):
    first = cup(folder=tmp_path)
    crops_path(next(tmp_path.glob("*.history.npz"))).unlink()
    assert np.array_equal(find(tmp_path, OTHER).history.seen, first.history.seen)


def test_a_correction_is_seen_with_the_frames_beside_it(cup, tmp_path):
    first = cup(folder=tmp_path)
    at = int(np.flatnonzero(~first.history.seen)[7])
    frame, state = int(first.history.frames[at]), first.timeline.answers[0].state
    corrected = first.correct({state: frame})
    assert corrected.history.seen[at]


def test_a_full_disk_leaves_no_crops_and_the_run_can_go_on(cup, tmp_path, monkeypatch):
    def full(self, crops, keys):
        self._stream = open(self._unfinished, "wb")  # noqa: SIM115
        self.remove()
        raise OSError(errno.ENOSPC, "No space left on device", str(self.path))

    with monkeypatch.context() as patch:
        patch.setattr(looking.KeptCrops, "append", full)
        with pytest.raises(OSError, match="No space"):
            cup(folder=tmp_path)
    assert not [path for path in tmp_path.rglob("*") if "crops" in path.name]
    assert not cup(folder=tmp_path).history.seen.all()


def test_crops_beyond_the_limit_are_refused(cup, tmp_path, monkeypatch):
    monkeypatch.setattr(looking, "MAX_KEPT_BYTES", 100_000)
    with refused(field="looks"):
        cup(folder=tmp_path)
    assert not list(tmp_path.glob("*crops*"))


def test_crops_of_a_still_scene_share_looks_and_a_moving_one_does_not():
    rng = np.random.default_rng(0)
    scene = rng.integers(0, 256, (64, 64, 3)).astype(float)

    def looks(pictures, runs):
        small = SmallPictures()
        small.add(np.clip(pictures, 0, 255).astype(np.uint8))
        return len(np.unique(small.alike(np.array(runs))))

    still = scene + rng.normal(0, 3, (200, *scene.shape))
    assert looks(still, [0, 200]) <= 20
    assert looks(still, [0, 100, 200]) >= 2
    changed = still.copy()
    changed[100:, 20:36, 20:36] += 25  # a part of the object
    assert looks(changed, [0, 200]) >= 2
    moving = np.stack([np.roll(scene, n, axis=1) for n in range(60)])
    assert looks(moving, [0, 60]) == 60
    fading = scene[None] * np.linspace(1, 0.5, 100)[:, None, None, None]
    assert looks(fading, [0, 100]) > 20


def test_the_note_says_how_many_frames_share_a_look(tmp_path):
    dark, bright = np.full((2, 64, 64, 3), [[[[40]]], [[[220]]]], np.uint8)
    video = write_video(tmp_path / "still.mp4", [dark] * 20 + [bright] * 20, 10)
    finding = find(video, OTHER, whole=True, encoder="mini", looks="25%", folder=tmp_path / "out")
    seen = int(finding.history.seen.sum())
    assert seen < 10
    (note,) = looking.saw_note(finding.history)
    assert f"saw {seen} of 40 frames; {40 - seen} others look the same" in note
    assert note in Finding.read(tmp_path / "out").timeline.notes


def test_a_history_of_another_run_has_no_use_for_these_crops(cup, tmp_path):
    first = cup(folder=tmp_path)
    crops = crops_path(next(tmp_path.glob("*.history.npz")))
    data = bytearray(crops.read_bytes())
    data[0] ^= 1
    crops.write_bytes(data)
    assert not looking.KeptCrops(crops, Mini().size).fits(first.history)
    assert read_history(next(tmp_path.glob("*.history.npz"))).seen.sum() == first.history.seen.sum()
