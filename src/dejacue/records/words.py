"""WordsReport: what an encoder makes of the words of a vocabulary."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from dejacue.errors import counted
from dejacue.records.interval import Window


class Spelling(msgspec.Struct, frozen=True):
    """The words of a text that an encoder does not know, splits, or cuts off.

    unknown     words that it does not know
    in_pieces   words that it reads as three pieces or more
    cut         what is beyond the longest text that it reads
    """

    unknown: tuple[str, ...] = ()
    in_pieces: tuple[str, ...] = ()
    cut: str = ""


class DescriptionWords(msgspec.Struct, frozen=True):
    """One description: how far it agrees with the others of its state, and how it is read.

    agreement      mean cosine of its contrast with those of the others; None without others
    spelling       None where the encoder does not say
    window         on a history: what it finds alone, …
    state_window   … and what all descriptions of its state find together
    """

    state: str
    text: str
    agreement: float | None
    spelling: Spelling | None = None
    window: Window | None = None
    state_window: Window | None = None


class StatePair(msgspec.Struct, frozen=True):
    """Two states: how much alike they are.

    similarity   cosine of their mean features
    cosine       of their directions, measured from the centre of all states; None of two states in
                 all, whose directions are opposite, whatever the words
    overlap      on a history: the tIoU of their windows
    """

    first: str
    second: str
    similarity: float | None
    cosine: float | None
    overlap: float | None = None


class WordsReport(msgspec.Struct, frozen=True, tag_field="schema", tag="dejacue.words/1"):
    """The report of ``check_words``: descriptions, pairs of states, first the most alike, and
    notes, which say in sentences what to look at."""

    encoder: str | None
    history: str | None
    descriptions: tuple[DescriptionWords, ...]
    state_pairs: tuple[StatePair, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as the command writes them to JSON; windows are {start, end}."""
        plain: dict[str, Any] = msgspec.to_builtins(self, enc_hook=str)
        return plain

    def to_json(self, indent: int | None = 2) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def __repr__(self) -> str:
        states = len({row.state for row in self.descriptions})
        count = counted(len(self.descriptions), "description")
        head = f"<WordsReport of {count} of {states} states>"
        return "\n".join([head, *(f"note: {note}" for note in self.notes)])


def decimal(value: float | None) -> str:
    """Return two digits, or a dash where there is no number."""
    return "–" if value is None else f"{value + 0.0:.2f}".replace("-", "−")
