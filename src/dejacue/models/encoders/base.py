"""What an encoder is: images and texts in, unit rows of one space out (§6)."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, unknown
from dejacue.records import Vocabulary
from dejacue.records.arrays import Pixels
from dejacue.records.history import MEANINGLESS
from dejacue.records.words import Spelling
from dejacue.video.crops import crop, picture

if TYPE_CHECKING:
    from dejacue.video.video import Frame

MIN_PIECES = 3  # of a word that is said to be spelled in pieces
# no piece of its own: a mark instead, or the bytes of its letters
_UNKNOWN = re.compile(r"<unk>|\[UNK\]|<0x[0-9A-F]{2}>")


def spelled(text: str, encoding: Any) -> Spelling:
    """Return how a text was read, from its encoding by the library tokenizers."""
    pieces = [
        (*span, token)
        for token, span in zip(encoding.tokens, encoding.offsets, strict=True)
        if span[0] < span[1]  # not the marks around the text
    ]
    end = max((last for _, last, _ in pieces), default=0)
    unknown: dict[str, None] = {}
    in_pieces: dict[str, None] = {}
    for word in re.finditer(r"\w+", text):
        start, stop = word.span()
        tokens = [token for first, last, token in pieces if first < stop and last > start]
        if any(_UNKNOWN.fullmatch(token) for token in tokens):
            unknown[word[0]] = None
        elif len(tokens) >= MIN_PIECES:
            in_pieces[word[0]] = None
    cut = text[end:].strip() if encoding.overflowing else ""
    return Spelling(tuple(unknown), tuple(in_pieces), cut)


Crops = Sequence[NDArray[np.uint8]]
Rows = NDArray[np.float32]

FORMS = {"raw": "{}", "photo": "a photo of {}", "definite": "the {}"}
CPU_MAX_FPS = 4.0  # images a second of siglip2 on two cores (benchmarks/cpu.py)
TEMPLATES = ("ensemble", *FORMS)
UNKNOWN_PICTURES = (
    "the encoder mini knows only the rendered scenes of this project, and these pictures are "
    "unlike them, so its answer means nothing, not even with examples; use another encoder: "
    "siglip2 (after dejacue weights fetch siglip2), or lite (extra lite) with examples"
)
ENCODER_FIELDS = ("identity", "dimension", "size", "details", "batch", "workers", "encode_images")
PADDING, MINIMUM = 0.20, 4  # of the crop, as published
MAX_CHUNK_CROPS = 256
MAX_CHUNK_BYTES = 32 << 20


class Encoder(ABC):
    """A frozen model that turns images and texts into rows of one space.

    name        what ``--encoder`` calls it
    identity    model and revision: histories and vocabularies with the same one may be mixed
    dimension   of the rows
    size        side in pixels of the square that images are resized to
    fit         how an image becomes size × size pixels (None: squashed, bilinear filter); one that
                has this size already is taken as it is
    details     back end, precision, files …: recorded in what is made with it
    has_text    whether it knows words; one that does not reads states that are shown by examples
    max_fps     frames a second that are looked at where the user does not say; None: all
    batch       preferred number of images per call; workers: how many calls may overlap
    """

    name: str
    identity: str
    dimension: int
    size: int
    fit: Callable[[NDArray[np.uint8]], NDArray[np.uint8]] | None = None
    details: dict[str, str]
    has_text: bool = True
    max_fps: float | None = None
    batch: int = 32
    workers: int = 1

    @abstractmethod
    def encode_images(self, crops: Crops) -> Rows:
        """Return (n, dimension) rows of RGB images (H, W, 3), each of its own size."""

    @abstractmethod
    def encode_texts(self, texts: Sequence[str]) -> Rows:
        """Return (n, dimension) rows."""

    def spelling(self, text: str) -> Spelling | None:
        """Return how it reads a text; None: it does not say."""
        return None

    def unknown_words(self, texts: Sequence[str]) -> list[str]:
        """Return words that mean nothing to it, which a reader must be told; refuse descriptions
        that hold no others. Nothing for models that make something of any word."""
        return []

    @staticmethod
    def knows_pictures(rows: Rows) -> bool:
        """Return whether rows of pictures look like what it was trained on; True if it cannot
        tell. Static, since whoever collects the rows need not have the model."""
        return True


class ImageEncoder(Encoder):
    """A frozen model that knows images alone: DINOv2, say.

    >>> class Means(ImageEncoder):
    ...     name = identity = "means"
    ...     dimension, size, details = 3, 8, {}
    ...     def encode_images(self, crops):
    ...         return unit(np.stack([crop.mean(axis=(0, 1)) for crop in crops]), "image")
    >>> Means().encode_images([np.full((4, 4, 3), 9, np.uint8)]).shape
    (1, 3)
    """

    has_text = False

    def encode_texts(self, texts: Sequence[str]) -> Rows:
        raise _no_words(self)


def _no_words(encoder: Encoder) -> InputError:
    problem = f"{encoder.name} has no words"
    return InputError(f"{problem}; show the states by examples, or by other findings")


def unit(rows: NDArray[np.floating], what: str) -> Rows:
    """Return the rows at unit length; refuse one that is zero or not finite.

    >>> unit(np.array([[3.0, 4.0]]), "image").round(1).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    wide = np.asarray(rows, dtype=np.float64)
    norms = np.linalg.norm(wide, axis=-1)
    bad = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
    if bad.size:
        actual = "NaN or infinity" if norms[bad[0]] else "zero"
        problem = f"{what} {bad[0]}: the encoder gave {actual}"
        raise InputError(f"{problem}; try another precision (fp32) or another image")
    return np.asarray(wide / norms[:, None], np.float32)


def in_batches(encode: Callable[[Crops], NDArray[np.floating]], crops: Crops, size: int) -> Rows:
    """Return unit rows of all images, encoded ``size`` at a time."""
    parts = [encode(crops[first : first + size]) for first in range(0, len(crops), size)]
    return unit(np.concatenate(parts), "image")


def encode_vocabulary(
    vocabulary: Vocabulary | Mapping[str, Any] | Sequence[str],
    encoder: Encoder,
    *,
    templates: str = "ensemble",
) -> Vocabulary:
    """Return the vocabulary with text features, as ``dejacue.encode_vocabulary`` does, without a
    warning of words that the encoder does not know."""
    if templates not in TEMPLATES:
        raise unknown("templates", templates, TEMPLATES)
    if not isinstance(vocabulary, Vocabulary):
        vocabulary = Vocabulary.from_dict(vocabulary)
    if not encoder.has_text and not vocabulary.examples:
        raise _no_words(encoder)
    if not vocabulary.has_text or not encoder.has_text:
        return replace(vocabulary, encoder=encoder.identity)  # examples tell its states
    encoder.unknown_words(vocabulary.descriptions)  # refused where it knows none
    forms = list(FORMS.values()) if templates == "ensemble" else [FORMS[templates]]
    texts = [form.format(text) for form in forms for text in vocabulary.descriptions]
    rows = unit(encoder.encode_texts(texts), "description")
    mean = rows.reshape(len(forms), len(vocabulary), -1).mean(axis=0)
    return replace(vocabulary, features=unit(mean, "description"), encoder=encoder.identity)


@dataclass(frozen=True)
class EncoderInfo:
    """All of an encoder but the model; small enough to be sent to other processes."""

    identity: str
    dimension: int
    size: int
    batch: int
    details: Mapping[str, str]
    fit: Callable[[Pixels], Pixels] | None = None
    max_fps: float | None = None
    knows_pictures: Callable[[Rows], bool] = Encoder.knows_pictures

    @classmethod
    def of(cls, encoder: Encoder) -> EncoderInfo:
        """Describe an encoder; refuse an object that lacks what one has."""
        missing = [name for name in ENCODER_FIELDS if not hasattr(encoder, name)]
        if missing:
            raise InputError(
                f"the encoder {type(encoder).__name__} has no {', '.join(missing)}; "
                "add what is missing, preferably by deriving from dejacue.models.encoders.Encoder"
            )
        return cls(
            encoder.identity,
            encoder.dimension,
            encoder.size,
            encoder.batch,
            dict(encoder.details),
            encoder.fit,
            encoder.max_fps,
            encoder.knows_pictures,
        )

    def quality_note(self, rows: Rows) -> dict[str, str]:
        """Return what made_with says of a history of these rows: why it has no meaning, if so."""
        return {} if self.knows_pictures(rows) else {MEANINGLESS: UNKNOWN_PICTURES}

    @property
    def chunk(self) -> int:
        """Return the crops in a chunk for another process: whole batches, not too large."""
        largest = min(MAX_CHUNK_CROPS, MAX_CHUNK_BYTES // (3 * self.size**2))
        return max(1, largest // self.batch) * self.batch

    @property
    def key(self) -> str:
        """Return a text that changes with all that rows of the same pixels depend on."""
        key = {"encoder": self.identity, **self.details, "dimension": self.dimension}
        return json.dumps(key, sort_keys=True)

    def pixels(self, frame: Frame | Pixels, mask: NDArray[np.bool_]) -> Pixels:
        """Return what the encoder is given of a frame, or of its image."""
        if self.fit is not None:
            image = frame if isinstance(frame, np.ndarray) else frame.image
            return self.fit(crop(image, mask, PADDING, MINIMUM))
        return picture(frame, mask, self.size, PADDING, MINIMUM)
