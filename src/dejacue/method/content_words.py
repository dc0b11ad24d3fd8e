"""The words of a text that say something: all but "the", "with" and the like."""

from __future__ import annotations

import re
from collections.abc import Iterable

_FUNCTION_WORDS = frozenset(
    (
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "been",
        "being",
        "by",
        "down",
        "for",
        "from",
        "has",
        "in",
        "into",
        "is",
        "it",
        "its",
        "no",
        "not",
        "of",
        "off",
        "on",
        "onto",
        "or",
        "out",
        "over",
        "that",
        "the",
        "this",
        "to",
        "up",
        "with",
    )
)


def content_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words in small letters, without function words."""
    words = {word for text in texts for word in re.findall(r"[^\W\d_]+", text.lower())}
    return frozenset(words) - _FUNCTION_WORDS
