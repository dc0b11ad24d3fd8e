"""try_model: a model of the catalogue, really loaded and run once, after all its hashes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import MissingData
from dejacue.sources.catalogue import Model, catalogue
from dejacue.sources.encoders import Encoder, load_encoder
from dejacue.sources.encoders.siglip import cosines
from dejacue.sources.encoders.weights import sha256
from dejacue.sources.tracks import Prompt, load_tracker

SIDE = 96  # pixels of the pictures
IMAGES = 4
TEXTS = ("an open door", "a closed door")
SMALLER = ("siglip2:fp16", "siglip2:int8")


@dataclass(frozen=True)
class Norms:
    """Lengths of rows, and the largest cosine of two different ones."""

    rows: int
    dimension: int
    least: float
    most: float
    alike: float


@dataclass(frozen=True)
class Trial:
    """What became of a model.

    hashes    of each file: its sha256, and by whom it is known (published, the hub, nobody)
    norms     of the rows of images and of texts (an encoder)
    masks     pixels of the object and presence in each of two frames (a tracker)
    errors    1 − the least cosine with fp32, of images and of texts, by model
    """

    hashes: dict[Path, tuple[str, str]] = field(default_factory=dict)
    norms: dict[str, Norms] = field(default_factory=dict)
    masks: list[tuple[int, float]] = field(default_factory=list)
    errors: dict[str, tuple[float, float]] = field(default_factory=dict)

    def lines(self, name: str) -> list[str]:
        """What was seen, as sentences about the model of that name."""
        by_whom = {"nobody": "no known hash", "published": "matches the published one"}
        found = [
            f"{path}: sha256 {digest}, {by_whom.get(by, f'matches {by}')}"
            for path, (digest, by) in self.hashes.items()
        ]
        found += [
            f"{name}: {own.rows} {what}, {own.dimension} numbers each, norms {own.least:.4f} to "
            f"{own.most:.4f}, cosine of two different ones at most {own.alike:.3f}"
            for what, own in self.norms.items()
        ]
        found += [
            f"{name}: frame {at}: a mask of {pixels} pixels, presence {presence:.2f}"
            for at, (pixels, presence) in enumerate(self.masks)
        ]
        found += [
            f"{other}: 1 − cosine with fp32 at most {images:.4f} (images) and {texts:.4f} (texts)"
            for other, (images, texts) in self.errors.items()
        ]
        return [*found, f"{name}: works"]


def try_model(model: Model) -> Trial:
    """Refuses a model of which a file is missing, has another hash, or that does not run."""
    if model.state in ("absent", "partial"):
        raise MissingData(
            f"{model.name} is not on this machine ({model.state}); download it with dejacue "
            f"weights fetch {model.name} ({model.size()})"
        )
    trial = Trial()
    for own, name, path in model.files():
        assert path is not None
        own.check({name: path}, hub=True)
        known = own.expected(name, path)
        by = "published" if own.files[name] else "the hub" if known else "nobody"
        trial.hashes[path] = sha256(path), by
    if model.kind == "tracker":
        trial.masks.extend(_followed(model.name))
        return trial
    trial.norms.update(_norms(load_encoder(model.name)))
    if model.name in ("siglip2", *SMALLER):
        here = {name: own for name, own in catalogue().items() if own.state == "ready"}
        for name in SMALLER:
            if {name, "siglip2"} <= here.keys() and model.name in (name, "siglip2"):
                images, texts = cosines(name.partition(":")[2])
                trial.errors[name] = 1 - images, 1 - texts
    return trial


def _pictures(count: int) -> list[NDArray[np.uint8]]:
    """Coarse noise, always the same."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (count, SIDE // 12, SIDE // 12, 3)).astype(np.uint8)
    return [np.kron(own, np.ones((12, 12, 1), np.uint8)) for own in coarse]


def _norms(encoder: Encoder) -> dict[str, Norms]:
    found = {"images": _measured(encoder.encode_images(_pictures(IMAGES)))}
    if encoder.has_text:
        found["texts"] = _measured(encoder.encode_texts(TEXTS))
    return found


def _measured(rows: NDArray[np.float32]) -> Norms:
    norms = np.linalg.norm(rows, axis=1)
    cosines = rows @ rows.T - 2 * np.eye(len(rows))
    count, dimension = rows.shape
    return Norms(count, dimension, float(norms.min()), float(norms.max()), float(cosines.max()))


def _followed(name: str) -> list[tuple[int, float]]:
    session = load_tracker(name).session()
    box = SIDE / 4, SIDE / 4, SIDE / 2, SIDE / 2
    image = _pictures(1)[0]
    seen = [session.step(image, [Prompt(box=box)])[1], session.step(np.roll(image, 2, axis=1))[1]]
    return [(int(own.mask.sum()), float(own.presence)) for own in seen]
