"""Vocabularies of everyday things: the null distribution for the question whether a state occurs.

Only texts: they are encoded once with the encoder in use and cached on disk. ``mini``, which knows
few words, gets the descriptions of its own families.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dejacue.atomic import cache_folder
from dejacue.errors import DejaCueError
from dejacue.files.npz import read_npz, write_npz
from dejacue.models.encoders import Encoder
from dejacue.models.encoders.base import encode_vocabulary
from dejacue.records import Vocabulary
from dejacue_paper.data.rendered import FAMILIES

PAIRS = (
    ("an open door", "a closed door"),
    ("a lit candle", "an unlit candle"),
    ("a lamp that is switched on", "a lamp that is switched off"),
    ("a clean window", "a dirty window"),
    ("a green leaf", "a withered leaf"),
    ("a whole loaf of bread", "bread cut into slices"),
    ("a folded towel", "a crumpled towel"),
    ("an inflated balloon", "a burst balloon"),
    ("a packed suitcase", "an unpacked suitcase"),
    ("a raw egg in its shell", "a fried egg"),
    ("a full bottle", "an empty bottle"),
    ("a tied shoelace", "a loose shoelace"),
    ("a parked car", "a car on a lift"),
    ("a plain wall", "a freshly painted wall"),
    ("a rolled up carpet", "a carpet spread on the floor"),
    ("a sharp pencil", "a broken pencil"),
    ("a frozen pond", "a pond with open water"),
    ("a sleeping dog", "a running dog"),
    ("an umbrella that is folded", "an umbrella that is opened"),
    ("a ripe banana", "a peeled banana"),
    ("a blank sheet of paper", "a sheet covered with handwriting"),
    ("a set table", "a table after the meal"),
    ("a standing domino", "a fallen domino"),
    ("melted butter", "a hard block of butter"),
    ("a snow covered roof", "a bare roof"),
    ("a bicycle with two wheels", "a bicycle without its front wheel"),
    ("a budding rose", "a rose in full bloom"),
    ("a curtain drawn aside", "a curtain hanging straight"),
    ("hair in a braid", "hair worn loose"),
    ("a stacked pile of bricks", "bricks scattered on the ground"),
    ("a flag at half mast", "a flag at the top of its pole"),
    ("a wrapped gift", "a gift without its wrapping"),
    ("a rusty nail", "a shiny nail"),
    ("a smoking chimney", "a cold chimney"),
    ("a coiled rope", "a rope pulled tight"),
    ("a screen that shows a picture", "a screen that is dark"),
    ("a mown lawn", "an overgrown lawn"),
    ("a shirt with its buttons done", "a shirt hanging unbuttoned"),
    ("an assembled jigsaw puzzle", "loose jigsaw pieces"),
    ("a boat in the harbour", "a boat under sail"),
    ("a ladder leaning upright", "a ladder lying flat"),
    ("a cracked mirror", "an intact mirror"),
    ("a burning log", "a heap of ashes"),
    ("a tree in blossom", "a tree without foliage"),
)


def unrelated_vocabularies(encoder: Encoder, prompts: str = "ensemble") -> list[Vocabulary]:
    """Return vocabularies with features of this encoder; the caller removes those that share
    words."""
    if encoder.name == "mini":
        return [encode_vocabulary(words, encoder, templates=prompts) for words in _of_families()]
    states = {
        f"{k}-{side}": [text]
        for k, pair in enumerate(PAIRS)
        for side, text in zip("ab", pair, strict=True)
    }
    path = _cache_file(encoder, prompts)
    rows = _read_cache(path, len(states), encoder.dimension)
    if rows is None:
        rows = np.asarray(
            encode_vocabulary(Vocabulary(states), encoder, templates=prompts).features
        )
        with contextlib.suppress(OSError, DejaCueError):  # a cache: without it, encode again
            write_npz(path, {"features": rows})
    return [
        Vocabulary({"a": [first], "b": [second]}, rows[2 * k : 2 * k + 2], encoder.identity)
        for k, (first, second) in enumerate(PAIRS)
    ]


def _of_families() -> Iterator[Vocabulary]:
    """Yield a vocabulary for every way of saying the states of a family."""
    for family in FAMILIES.values():
        for texts in zip(*family.descriptions.values(), strict=False):
            states = {state: [text] for state, text in zip(family.states, texts, strict=True)}
            yield Vocabulary(states, object=family.object)


def _cache_file(encoder: Encoder, prompts: str) -> Path:
    """Return the file for this encoder, prompt form and list of texts."""
    what = repr((encoder.identity, sorted(encoder.details.items()), prompts, PAIRS))
    name = hashlib.sha256(what.encode()).hexdigest()[:16]
    return cache_folder() / f"unrelated-{name}.npz"


def _read_cache(path: Path, rows: int, dimension: int) -> np.ndarray | None:
    if not path.is_file():
        return None
    try:
        features = read_npz(path, ["features"]).get("features")
    except DejaCueError:
        return None
    if features is None or features.shape != (rows, dimension) or not np.isfinite(features).all():
        return None
    return features
