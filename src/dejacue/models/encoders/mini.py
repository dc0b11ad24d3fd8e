"""``mini``: a small encoder inside the package, for demos, tests and trying things out.

It was trained on this project's rendered scenes alone (by dejacue_paper.learn.mini) and knows their
objects and words, nothing else: real footage needs siglip2.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.models.encoders.base import Crops, Encoder, Rows, in_batches, unit
from dejacue.models.encoders.siglip import pixels, run, session
from dejacue.records.history import MINI
from dejacue.records.words import Spelling

SIZE, TOKENS = 64, 20
PADDING, UNKNOWN = 0, 1
BATCH = 64
# Squared Mahalanobis distance from the crops of rendered scenes: 99 % of the crops of scenes that
# were not trained on are below it (tests/models/encoders/test_mini.py).
MAX_DISTANCE = 250.0
MAX_UNLIKE = 0.25  # share of the pictures of a history
_WORD = re.compile(r"[^\W\d_]+")
_FUNCTION_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at been being by down for from has in into is "
        "it its no not of off on onto or out over that the this to up with"
    )
)


@dataclass(frozen=True)
class WordTokenizer:
    """Turns texts into word ids; words that are not in ``known`` share one id."""

    known: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> WordTokenizer:
        return cls(tuple(sorted({word for text in texts for word in split(text)})))

    @cached_property
    def _index(self) -> dict[str, int]:
        return {word: at for at, word in enumerate(self.known, start=2)}

    def __len__(self) -> int:
        """Return the number of words, with padding and the unknown word."""
        return len(self.known) + 2

    def __call__(self, texts: Sequence[str]) -> NDArray[np.int64]:
        rows = np.full((len(texts), TOKENS), PADDING, np.int64)
        for row, text in zip(rows, texts, strict=True):
            tokens = [self._index.get(word, UNKNOWN) for word in split(text)][:TOKENS]
            row[: len(tokens)] = tokens
        return rows

    def unknown_words(self, text: str) -> list[str]:
        return [word for word in split(text) if word not in self._index]

    def spelling(self, text: str) -> Spelling:
        return Spelling(
            tuple(dict.fromkeys(self.unknown_words(text))), cut=" ".join(split(text)[TOKENS:])
        )


def split(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def content_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words in small letters, without function words."""
    words = frozenset(word for text in texts for word in _WORD.findall(text.lower()))
    return words - _FUNCTION_WORDS


class Mini(Encoder):
    name = "mini"
    size = SIZE

    def __init__(self, *, threads: int | None = None) -> None:
        parts = {name: _file(f"mini_{name}.onnx") for name in ("image", "text")}
        self._image, self._text = (session(data, threads) for data in parts.values())
        words = self._text.get_modelmeta().custom_metadata_map["words"]
        self.words = WordTokenizer(tuple(json.loads(words)))
        digest = hashlib.sha256(b"".join(parts.values())).hexdigest()
        self.identity = f"{MINI}{digest[:12]}"
        self.dimension = int(self._image.get_outputs()[0].shape[-1])
        self.details = {"backend": "onnx", "precision": "fp32", "sha256 mini": digest}

    def encode_images(self, crops: Crops) -> Rows:
        return in_batches(
            lambda batch: run(self._image, "pixel_values", pixels(batch, SIZE)), crops, BATCH
        )

    def encode_texts(self, texts: Sequence[str]) -> Rows:
        return unit(run(self._text, "input_ids", self.words(texts)), "text")

    @staticmethod
    def knows_pictures(rows: Rows) -> bool:
        if rows.shape[1] != len(_scenes()["mean"]):  # a file calls them its rows
            return True
        return float((Mini.distances(rows) > MAX_DISTANCE).mean()) <= MAX_UNLIKE

    @staticmethod
    def distances(rows: Rows) -> NDArray[np.float32]:
        """Return how far each row lies from those of rendered scenes."""
        scenes = _scenes()
        steps = (rows - scenes["mean"]) @ scenes["whitening"]
        return np.asarray(np.square(steps).sum(axis=1), np.float32)

    def spelling(self, text: str) -> Spelling:
        return self.words.spelling(text)

    def unknown_words(self, texts: Sequence[str]) -> list[str]:
        if content_words(texts).isdisjoint(self.words.known):
            problem = "mini knows none of its words, so its answers mean nothing"
            raise InputError(f"{problem}; use other words, or the encoder siglip2")
        return list(dict.fromkeys(w for text in texts for w in self.words.unknown_words(text)))


@cache
def _scenes() -> dict[str, NDArray[np.float32]]:
    with np.load(io.BytesIO(_file("mini_scenes.npz"))) as scenes:
        return dict(scenes)


def _file(name: str) -> bytes:
    return files("dejacue.models.encoders").joinpath(name).read_bytes()
