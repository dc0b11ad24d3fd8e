"""Checked settings of a call, and the records made from what a readout finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TypedDict

import msgspec

from dejacue.errors import InputError, unknown
from dejacue.method._timelines import analysis_of, timeline_of
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import Coordinates, as_coordinates
from dejacue.method.kernel import Engine
from dejacue.method.kernel import engine as engine_named
from dejacue.method.readout import Readout, View
from dejacue.method.scan_readout import Scan
from dejacue.method.timeline import Reading
from dejacue.plugins import Registry, check_installed
from dejacue.records import History, Timeline, Vocabulary
from dejacue.records.timeline import plain

Pair = tuple[History, Vocabulary]

READOUTS: Registry[Readout] = Registry(
    "readouts", {"timeline": Reading(), "contrast": Contrast(), "scan": Scan()}
)
# The paper's method: settings that belong together under one name, which no option changes.
PUBLISHED_SCAN = Scan(durations="published", norm="sqrt", runs="strict", smoothing=3)
PRESETS: dict[str, tuple[str, Readout]] = {"published": ("vocabulary", PUBLISHED_SCAN)}
DEFAULT_READOUT, DEFAULT_COORDINATES = "timeline", "vocabulary"


def _selected(
    coordinates: str | Coordinates | None, readout: str | Readout
) -> tuple[Coordinates, Readout]:
    """Return coordinates and readout by name, or of a preset."""
    if isinstance(readout, str) and readout in PRESETS:
        system, preset = PRESETS[readout]
        name = as_coordinates(system if coordinates is None else coordinates).name
        if name != system:
            raise InputError(
                f'"{readout}" is a preset with {system} coordinates; '
                f"to use {name} coordinates, name the readout itself: {preset.name}"
            )
        return as_coordinates(system), preset
    if isinstance(readout, str) and readout not in READOUTS:
        check_installed("readouts", readout)
        raise unknown("readout", readout, [*READOUTS, *PRESETS])
    chosen = as_coordinates(DEFAULT_COORDINATES if coordinates is None else coordinates)
    return chosen, READOUTS[readout] if isinstance(readout, str) else readout


def as_readout(readout: str | Readout) -> Readout:
    """Return a readout by name, or that of a preset."""
    return _selected(None, readout)[1]


def readout_from(settings: object) -> Readout | None:
    """Return the readout that the settings of a timeline describe; None: it is not installed."""
    name = settings.get("name") if isinstance(settings, Mapping) else None
    default = READOUTS.get(name) if isinstance(name, str) else None
    if default is None:
        return None
    try:
        return msgspec.convert(plain(settings), type(default))
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InputError):  # of the readout itself
            raise error.__cause__ from None
        problem = f"the timeline has settings that the readout {name} does not take ({error})"
        raise InputError(f"{problem}; read the history again") from None


def _with_smoothing(readout: Readout, smoothing: int, name: str) -> Readout:
    """Return the readout with this width of smoothing; refuse one that has no such setting."""
    if name in PRESETS:
        raise InputError(f'"{name}" is a preset; for other smoothing, give Scan(smoothing=…)')
    if "smoothing" not in {field.name for field in fields(readout)}:
        problem = f"smoothing does not apply to the {name} readout"
        if readout.smoothing_in:
            problem += f"; it has its own: {type(readout).__name__}({readout.smoothing_in})"
        raise InputError(problem)
    return replace(readout, smoothing=smoothing)  # type: ignore[call-arg]


class ReadOptions(TypedDict, total=False):
    """The options of every reading; ``locate`` explains them."""

    coordinates: str | Coordinates | None
    readout: str | Readout
    smoothing: int | None
    diagnostics: bool
    kernel: str


@dataclass(frozen=True, eq=False)
class Plan:
    """Checked settings, shared by every history of a call."""

    coordinates: Coordinates
    readout: Readout
    diagnostics: bool
    engine: Engine

    @staticmethod
    @lru_cache(maxsize=64)
    def of(
        coordinates: str | Coordinates | None = None,
        readout: str | Readout = DEFAULT_READOUT,
        smoothing: int | None = None,
        diagnostics: bool = False,
        kernel: str = "auto",
    ) -> Plan:
        """Return the plan of these settings; plans are immutable, so equal settings share one."""
        name = readout if isinstance(readout, str) else readout.name
        system, readout = _selected(coordinates, readout)
        if smoothing is not None:
            readout = _with_smoothing(readout, smoothing, name)
        return Plan(system, readout, diagnostics, engine_named(kernel))

    def check_examples(self, vocabulary: Vocabulary) -> None:
        """Refuse examples that the readout would ignore."""
        if not vocabulary.examples and not vocabulary.changes:
            return
        if not self.readout.takes_examples or self.readout.query_pooling != 1:
            what = "this pooling" if self.readout.takes_examples else self.readout.name
            raise InputError(
                f"{what} reads only words; "
                "examples need the readout timeline or contrast, with pooling 1"
            )
        name = self.coordinates.name
        if name != DEFAULT_COORDINATES:
            raise InputError(f"examples need {DEFAULT_COORDINATES} coordinates, not {name}")

    def view(self, history: History, vocabulary: Vocabulary) -> View:
        """Return what the readout works on for one history."""
        self.check_examples(vocabulary)
        return self.readout.view(history, vocabulary, self.coordinates, self.engine)

    def answer(self, pairs: Sequence[Pair]) -> Timeline:
        """Return the timelines of several histories."""
        views = (self.view(*pair) for pair in pairs)
        if not self.diagnostics:
            return timeline_of(views)
        return Timeline.joined([self.analyse(view) for view in views])

    def analyse(self, view: View, hints: bool = False) -> Timeline:
        """Return everything that the readout says of one history."""
        return analysis_of(view, diagnostics=self.diagnostics, hints=hints)
