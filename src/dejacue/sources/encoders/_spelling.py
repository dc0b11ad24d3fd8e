"""How a tokenizer reads a text: which words it does not know, and what it leaves out."""

from __future__ import annotations

import re
from typing import Any

from dejacue.records.words import Spelling

MANY = 3  # pieces of a word
# no piece of its own: a mark instead, or the bytes of its letters
_UNKNOWN = re.compile(r"<unk>|\[UNK\]|<0x[0-9A-F]{2}>")


def spelled(text: str, encoding: Any) -> Spelling:
    """Of an encoding of the library tokenizers, which may be cut off."""
    pieces = [
        (*span, token)
        for token, span in zip(encoding.tokens, encoding.offsets, strict=True)
        if span[0] < span[1]  # not the marks around the text
    ]
    end = max((last for _, last, _ in pieces), default=0)
    unknown: dict[str, None] = {}
    in_pieces: dict[str, None] = {}
    for word in re.finditer(r"\w+", text):
        own = [token for first, last, token in pieces if first < word.end() and last > word.start()]
        if any(_UNKNOWN.fullmatch(token) for token in own):
            unknown[word[0]] = None
        elif len(own) >= MANY:
            in_pieces[word[0]] = None
    cut = text[end:].strip() if encoding.overflowing else ""
    return Spelling(tuple(unknown), tuple(in_pieces), cut)
