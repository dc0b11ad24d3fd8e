"""Crops of rendered scenes, to train an encoder on."""

from __future__ import annotations

import numpy as np
import pytest

from dejacue.errors import InputError
from dejacue_paper.data import crops as module
from dejacue_paper.data.crops import FIRST_TRAINING_SEED, crops
from dejacue_paper.data.rendered import FAMILIES, render


def test_crops_come_from_all_families_and_states():
    samples = list(crops(0, 12 * len(FAMILIES)))
    assert len(samples) == 12 * len(FAMILIES)
    assert {crop.family for crop in samples} == set(FAMILIES)
    for crop in samples:
        family = FAMILIES[crop.family]
        assert crop.image.shape == (64, 64, 3)
        assert crop.image.dtype == np.uint8
        state = family.states.index(crop.state)
        assert abs(crop.progress - family.anchor(state)) <= family.tolerance(state)
        assert (crop.image == 127).all(axis=-1).mean() > 0.1  # outside the mask
        assert (crop.image != 127).any(axis=-1).mean() > 0.05


def test_crops_are_the_same_for_a_seed_and_a_longer_series_begins_like_a_shorter_one():
    short, long = list(crops(3, 9, size=32)), list(crops(3, 20, size=32))
    for first, other in zip(short, long, strict=False):
        assert np.array_equal(first.image, other.image)
        assert first[1:] == other[1:]
    assert not np.array_equal(short[0].image, next(crops(4, 1, size=32)).image)


def test_crops_of_the_way_between_states_name_no_state():
    samples = [crop for crop in crops(0, 60, size=16, between=1.0) if crop.family == "cup"]
    assert samples
    for crop in samples:
        assert crop.state is None
        assert 0.04 < crop.progress < 0.96


def test_training_seeds_lie_beyond_all_others(monkeypatch):
    seeds = []
    monkeypatch.setattr(
        module, "render", lambda seed, **options: seeds.append(seed) or render(seed, **options)
    )
    list(crops(0, 13, size=16))
    list(crops(1, 13, size=16))
    assert min(seeds) >= FIRST_TRAINING_SEED == 2**32
    assert len(set(seeds)) == len(seeds) == 6


def test_crops_refuse_what_makes_no_sense():
    for arguments in ((-1, 5), (2**24, 5), (0, -1)):
        with pytest.raises(InputError, match="crops: seed"):
            list(crops(*arguments))
