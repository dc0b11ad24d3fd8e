"""SigLIP 2 as published: what both back ends share (§6).

Images are squashed to 224 × 224 (bilinear) and scaled to −1 … 1. Texts are lower-cased, as in the
model's training (the published features were made without; their descriptions have no capitals),
and always padded to 64 tokens: padding to the longest text gives other, much worse, features.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, first_line
from dejacue.records.words import Spelling
from dejacue.sources.crops import fit
from dejacue.sources.encoders.base import Crops, spelled
from dejacue.sources.encoders.weights import Weights

REPOSITORY = "google/siglip2-base-patch16-224"
REVISION = "75de2d55ec2d0b4efc50b3e9ad70dba96a7b2fa2"
IDENTITY = f"{REPOSITORY}@{REVISION}"
SIZE, TOKENS, DIMENSION = 224, 64, 768
TOKENIZER_HASH = "cb9140fae3ac5122c972d37adf83e1248471a38147ad76f8215c8872c6fd8322"
TOKENIZER = Weights(REPOSITORY, REVISION, {"tokenizer.json": TOKENIZER_HASH})


def pixels(crops: Crops, size: int = SIZE) -> NDArray[np.float32]:
    """(n, 3, size, size): squashed, 0 … 255 → −1 … 1."""
    rows = np.stack([fit(crop, size) for crop in crops]).astype(np.float32)
    rows *= 1 / 127.5
    rows -= 1
    return np.ascontiguousarray(rows.transpose(0, 3, 1, 2))


class Tokenizer:
    """Texts to (n, 64) token ids; padding 0, an end mark, no attention mask."""

    def __init__(self, path: Path, *, lower: bool = True, length: int = TOKENS) -> None:
        import tokenizers

        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain exceptions
            raise InputError(f"{path}: is not a tokenizer file ({first_line(error)})") from None
        self._tokenizer.enable_truncation(length)
        pad = self._tokenizer.token_to_id("<pad>")
        self._tokenizer.enable_padding(length=length, pad_id=pad or 0, pad_token="<pad>")
        self.lower = lower

    def __call__(self, texts: Sequence[str]) -> NDArray[np.int64]:
        given = [text.lower() if self.lower else text for text in texts]
        return np.array([e.ids for e in self._tokenizer.encode_batch(given)], dtype=np.int64)

    def spelling(self, text: str) -> Spelling:
        given = text.lower() if self.lower else text
        return spelled(given, self._tokenizer.encode(given))
