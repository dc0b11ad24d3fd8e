"""Shots: hard cuts are found in generated pictures, and motion, light and flashes are none."""

from __future__ import annotations

import numpy as np
import pytest

from dejacue.models.detectors.search import ShotDetector

RATE = 25.0
LENGTH = 30  # frames of each scene


def scene(seed: int, *, height: int = 54, width: int = 96) -> np.ndarray:
    """A wide picture of coloured blocks, of which frames show a part."""
    rng = np.random.default_rng(seed)
    palette = rng.integers(0, 256, (4, 3))
    blocks = palette[rng.integers(0, 4, (6, 20))].astype(np.uint8)
    return np.kron(blocks, np.ones((height // 6, width // 8, 1), np.uint8))


def pan(seed: int, count: int = LENGTH, *, step: int = 2) -> list[np.ndarray]:
    """Frames of a camera that moves over a scene, with noise."""
    rng = np.random.default_rng(seed)
    wide = scene(seed)
    frames = []
    for at in range(count):
        frame = wide[:, (step * at) % 140 :][:, :96].astype(int)
        noise = rng.integers(-12, 13, frame.shape)
        frames.append(np.clip(frame + noise, 0, 255).astype(np.uint8))
    return frames


def shots_of(frames, *, timed: bool = True, rate: float = RATE) -> list[tuple[int, int]]:
    detector = ShotDetector()
    for at, frame in enumerate(frames):
        detector.add(at, at / rate if timed else None, frame)
    return [tuple(shot) for shot in detector.shots()]


@pytest.mark.parametrize("timed", [True, False])
def test_every_cut_between_scenes_is_found_and_nothing_else(timed) -> None:
    frames = [frame for seed in range(12) for frame in pan(seed)]
    expected = [(LENGTH * at, LENGTH * at + LENGTH - 1) for at in range(12)]
    assert shots_of(frames, timed=timed) == expected


@pytest.mark.parametrize("length", [1, 3, 5])
def test_a_flash_is_no_cut(length) -> None:
    frames = pan(1)
    frames[10 : 10 + length] = [np.full_like(frames[0], 255)] * length
    assert shots_of(frames) == [(0, LENGTH - 1)]


def test_a_short_picture_in_between_is_a_shot_when_frames_are_seconds_apart() -> None:
    frames = pan(1)
    frames[10:13] = pan(2)[:3]
    assert shots_of(frames, rate=1.0) == [(0, 9), (10, 12), (13, LENGTH - 1)]


def test_a_flash_at_a_cut_leaves_one_cut() -> None:
    white = np.full((54, 96, 3), 255, np.uint8)
    assert shots_of([*pan(1), white, white, *pan(2)]) == [(0, 29), (30, 61)]


def test_light_that_changes_slowly_is_no_cut() -> None:
    frames = [(frame * (1 - at / 40)).astype(np.uint8) for at, frame in enumerate(pan(3))]
    assert shots_of(frames) == [(0, LENGTH - 1)]


def test_a_fast_pan_is_no_cut() -> None:
    assert shots_of(pan(4, step=5)) == [(0, LENGTH - 1)]


def test_frames_that_are_missing_belong_to_the_shot_before() -> None:
    detector = ShotDetector()
    frames = dict(enumerate([*pan(1), *pan(2)]))
    for lost in (29, 30, 31):
        del frames[lost]
    for at, frame in frames.items():
        detector.add(at, at / RATE, frame)
    assert [tuple(shot) for shot in detector.shots()] == [(0, 31), (32, 59)]


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (7, 3), (2160, 3840)])
def test_pictures_of_any_size_have_colours(size) -> None:
    black, white = (np.full((*size, 3), value, np.uint8) for value in (0, 255))
    assert shots_of([*[black] * 12, *[white] * 12]) == [(0, 11), (12, 23)]


def test_a_single_frame_is_a_shot() -> None:
    assert shots_of(pan(1)[:1]) == [(0, 0)]
