"""Note: a sentence that a reader of an answer must know, and what it takes from the answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

Severity = Literal["meaningless", "doubtful", "information"]
SEVERITIES: tuple[Severity, ...] = ("meaningless", "doubtful", "information")  # in this order


class Note(str):
    """A sentence that goes with an answer and has a severity. It is text wherever text is wanted:
    printed, joined, compared.

    severity   "meaningless": no answer is given; "doubtful": the answer may be wrong;
               "information": how to read it

    >>> from dejacue.records import Note
    >>> note = Note("the tracker may be wrong in 3 – 9: it was lost", "doubtful")
    >>> note.severity, "tracker" in note
    ('doubtful', True)
    >>> Note("found 2 of 3").line, note.line
    ('found 2 of 3', 'doubtful: the tracker may be wrong in 3 – 9: it was lost')
    """

    __slots__ = ("severity",)
    severity: Severity

    class Fields(msgspec.Struct):
        """A note in JSON.

        severity   what it takes from the answer
        text       the sentence
        """

        severity: Severity
        text: str

        def record(self) -> Note:
            return Note(self.text, self.severity)

    def __new__(cls, text: str, severity: Severity | None = None) -> Note:
        """Take the severity of ``text`` where none is given; of plain text, "information"."""
        note = super().__new__(cls, text)
        inherited = text.severity if isinstance(text, Note) else SEVERITIES[-1]
        note.severity = severity or inherited
        return note

    @classmethod
    def from_line(cls, line: str) -> Note:
        """Return the note that ``line`` wrote."""
        head, _, text = line.partition(": ")
        severe = [severity for severity in SEVERITIES[:2] if severity == head]
        return cls(text, severe[0]) if severe else cls(line)

    @property
    def line(self) -> str:
        """Return the text, after its severity where that is more than information."""
        return str(self) if self.severity == "information" else f"{self.severity}: {self}"

    def to_dict(self) -> dict[str, str]:
        return {"severity": self.severity, "text": str(self)}

    def __reduce__(self) -> tuple[Any, ...]:
        return Note, (str(self), self.severity)


def in_order(notes: Iterable[str]) -> tuple[Note, ...]:
    """Return each note once, the most severe first."""
    ordered = sorted(map(Note, notes), key=lambda note: SEVERITIES.index(note.severity))
    return tuple(dict.fromkeys(ordered))
