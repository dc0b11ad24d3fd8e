"""The words of a text that say something: all but "the", "with" and the like."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"[^\W\d_]+")
_FUNCTION_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at been being by down for from has in into is "
        "it its no not of off on onto or out over that the this to up with"
    )
)


def content_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words in small letters, without function words."""
    return (
        frozenset(word for text in texts for word in _WORD.findall(text.lower())) - _FUNCTION_WORDS
    )
