"""WordsReport: what an encoder makes of the words of a vocabulary."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from dejacue.errors import counted
from dejacue.records._html import escaped, table_html
from dejacue.records.interval import Window

SCHEMA = "dejacue.words/1"


@dataclass(frozen=True)
class Spelling:
    """The words of a text that an encoder does not know, splits, or cuts off.

    unknown     words that it does not know
    in_pieces   words that it reads as three pieces or more
    cut         what is beyond the longest text that it reads
    """

    unknown: tuple[str, ...] = ()
    in_pieces: tuple[str, ...] = ()
    cut: str = ""


@dataclass(frozen=True)
class DescriptionWords:
    """Figures of one description: how an encoder reads it, and how well it fits its state.

    agreement   mean cosine of its contrast with those of the others of its state
    kept        cosine of its state's direction with and without it: 1, it adds nothing
    window      on a history: what it gives alone, …
    overlap     … the tIoU of that with the window of its state, …
    without     … and the tIoU of its state's windows with and without it
    spelling    None where the encoder does not say
    """

    state: str
    text: str
    agreement: float | None
    kept: float | None
    window: Window | None = None
    overlap: float | None = None
    without: float | None = None
    spelling: Spelling | None = None


@dataclass(frozen=True)
class DescriptionPair:
    """Figures of two descriptions of a state: how far they agree.

    cosine        of their contrasts
    correlation   on a history: of the evidence of their contrasts
    overlap       on a history: tIoU of the windows that each gives alone
    """

    state: str
    first: str
    second: str
    cosine: float | None
    correlation: float | None = None
    overlap: float | None = None


@dataclass(frozen=True)
class StateWords:
    """Figures of a state: how far its mean is from the centre of all; on a history, its window."""

    state: str
    residual_norm: float
    window: Window | None = None


@dataclass(frozen=True)
class StatePair:
    """Figures of two states: how far they differ.

    similarity    cosine of their mean features
    agreement     mean cosine of the contrasts between these two: do their descriptions mean the
                  same difference?
    cosine        of their directions; of two states in all, always −1, …
    correlation   … as that of their evidence on a history
    overlap       tIoU of their windows
    """

    first: str
    second: str
    similarity: float | None
    agreement: float | None
    cosine: float | None
    correlation: float | None = None
    overlap: float | None = None


@dataclass(frozen=True, repr=False)
class WordsReport:
    """The report of ``check_words``: rows for descriptions, pairs of them, states and pairs of
    states, and notes, which say in sentences what to look at."""

    descriptions: tuple[DescriptionWords, ...]
    pairs: tuple[DescriptionPair, ...]
    states: tuple[StateWords, ...]
    state_pairs: tuple[StatePair, ...]
    encoder: str | None = None
    history_id: str | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as the command writes them to JSON; windows are {start, end}."""
        parts = ("descriptions", "pairs", "states", "state_pairs")
        rows = {part: [asdict(row) for row in getattr(self, part)] for part in parts}
        about = {"schema": SCHEMA, "encoder": self.encoder, "history": self.history_id}
        return about | rows | {"notes": list(self.notes)}

    def to_json(self, indent: int | None = 2) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def __repr__(self) -> str:
        count = counted(len(self.descriptions), "description")
        head = f"<WordsReport of {count} of {len(self.states)} states>"
        return "\n".join([head, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        columns = ("state", "description", "agrees", "direction without it")
        rows = [
            (escaped(row.state), escaped(row.text), decimal(row.agreement), decimal(row.kept))
            for row in self.descriptions
        ]
        return table_html("Words", columns, rows, self.notes)


def decimal(value: float | None) -> str:
    """Return two digits, or a dash where there is no number."""
    return "–" if value is None else f"{value + 0.0:.2f}".replace("-", "−")
