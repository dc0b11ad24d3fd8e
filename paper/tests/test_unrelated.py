"""The bank of unrelated states."""

from __future__ import annotations

import numpy as np
import pytest

from dejacue import Vocabulary, load_encoder
from dejacue.models.encoders import Encoder
from dejacue_paper.data.unrelated import PAIRS, unrelated_vocabularies
from dejacue_paper.method.absence import _words, unrelated_to


class Counting(Encoder):
    """Every text gets its own direction; counts what it is asked."""

    name, identity, dimension, size = "counting", "counting-1", 32, 8
    details = {"precision": "fp32"}  # noqa: RUF012

    def __init__(self) -> None:
        self.asked = 0

    def encode_images(self, crops):
        raise NotImplementedError

    def encode_texts(self, texts):
        self.asked += len(texts)
        return np.stack(
            [np.random.default_rng(list(text.encode())).normal(size=32) for text in texts]
        ).astype(np.float32)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_words_are_encoded_once_and_kept(tmp_path):
    encoder = Counting()
    first = unrelated_vocabularies(encoder)
    assert encoder.asked == 3 * 2 * len(PAIRS)
    again = unrelated_vocabularies(encoder)
    assert encoder.asked == 3 * 2 * len(PAIRS)
    assert all(
        np.array_equal(a.features, b.features) and a.states == b.states
        for a, b in zip(first, again, strict=True)
    )
    assert {v.encoder for v in again} == {"counting-1"}
    unrelated_vocabularies(encoder, "raw")  # another way of encoding is another file
    assert encoder.asked == 4 * 2 * len(PAIRS)


def test_a_damaged_cache_is_made_again(tmp_path):
    encoder = Counting()
    unrelated_vocabularies(encoder)
    (file,) = (tmp_path / "dejacue").glob("unrelated-*.npz")
    file.write_bytes(b"nothing")
    asked = encoder.asked
    assert len(unrelated_vocabularies(encoder)) == len(PAIRS)
    assert encoder.asked == 2 * asked


def test_the_pairs_leave_enough_for_a_level_of_five_percent():
    """Whatever single thing a vocabulary is about, p can fall below 5 %."""
    bank = [Vocabulary({"a": [a], "b": [b]}) for a, b in PAIRS]
    for vocabulary in bank:
        assert 2 * len(unrelated_to(vocabulary, bank)) >= 40
        assert all(_words(vocabulary))


def test_mini_is_compared_with_its_own_families():
    bank = unrelated_vocabularies(load_encoder("mini"))
    cup = next(v for v in bank if v.object == "cup")
    others = unrelated_to(cup, bank)
    assert cup not in others
    assert sum(len(v.states) for v in others) >= 19
