"""Checked settings of a call, and the records made from what a readout finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from dejacue.errors import InputError, unknown
from dejacue.method._timelines import batch_timeline
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import Coordinates, as_coordinates
from dejacue.method.joint import Joint
from dejacue.method.kernel import Engine
from dejacue.method.kernel import engine as engine_named
from dejacue.method.readout import Batch, Readout, View
from dejacue.method.scan_readout import Scan, Unseen
from dejacue.method.state_readout import is_count
from dejacue.plugins import Registry, check_installed
from dejacue.records import History, Timeline, Vocabulary

Pair = tuple[History, Vocabulary]

READOUTS: Registry[Readout] = Registry(
    "readouts",
    {
        "contrast": Contrast(),
        "joint": Joint(),
        "scan": Scan(),
        "whole-history": Unseen(whole=True),
        "longest-run": Unseen(whole=False),
    },
)
# The paper's method: settings that belong together under one name, which no option changes.
PUBLISHED_SCAN = Scan(durations="published", norm="sqrt", runs="strict", smoothing=3)
PRESETS: dict[str, tuple[str, Readout]] = {"published": ("vocabulary", PUBLISHED_SCAN)}
DEFAULT_READOUT, DEFAULT_COORDINATES = "contrast", "vocabulary"


def chosen(
    coordinates: str | Coordinates | None, readout: str | Readout
) -> tuple[Coordinates, Readout]:
    """Return coordinates and readout by name, or of a preset."""
    if isinstance(readout, str) and readout in PRESETS:
        system, preset = PRESETS[readout]
        if coordinates is not None and as_coordinates(coordinates).name != system:
            raise InputError(
                f'"{readout}" is a preset with {system} coordinates; to use '
                f"{as_coordinates(coordinates).name} coordinates, name the readout itself: "
                f"{preset.name}"
            )
        return as_coordinates(system), preset
    if isinstance(readout, str) and readout not in READOUTS:
        check_installed("readouts", readout)
        raise unknown("readout", readout, [*READOUTS, *PRESETS])
    system_given = DEFAULT_COORDINATES if coordinates is None else coordinates
    return as_coordinates(system_given), READOUTS[readout] if isinstance(readout, str) else readout


def as_readout(given: str | Readout) -> Readout:
    """Return a readout by name, or that of a preset."""
    return chosen(None, given)[1]


def as_read(settings: Mapping[str, Any]) -> Readout | None:
    """Return the readout that the settings of a retrieval describe; None: it is not installed.

    Where another version wrote settings that it does not have now, its defaults hold.
    """
    known: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in settings.items()}
    kind = READOUTS.get(known.pop("name", ""))
    if kind is None:
        return None
    names = {field.name for field in fields(kind)}
    known = {name: value for name, value in known.items() if name in names or value is not None}
    try:
        return type(kind)(**known)
    except TypeError:
        return kind


def with_smoothing(readout: Readout, smoothing: int | None, name: str) -> Readout:
    """Return the readout with this width of smoothing; refuse one that has no such setting."""
    if smoothing is None:
        return readout
    if name in PRESETS:
        raise InputError(f'"{name}" is a preset; for other smoothing, give Scan(smoothing=…)')
    if "smoothing" not in {field.name for field in fields(readout)}:
        kind = type(readout).__name__
        instead = (
            f"; it has its own: {kind}({readout.smoothing_in})" if readout.smoothing_in else ""
        )
        raise InputError(f"smoothing does not apply to the {name} readout{instead}")
    return replace(readout, smoothing=smoothing)  # type: ignore[call-arg]


@dataclass(frozen=True, eq=False)
class Plan:
    """Checked settings, shared by every history of a call. top None: what suits the readout."""

    coordinates: Coordinates
    readout: Readout
    top: int | None
    diagnostics: bool
    engine: Engine

    @classmethod
    def of(
        cls,
        coordinates: str | Coordinates | None,
        readout: str | Readout,
        smoothing: int | None,
        top: int | None,
        diagnostics: bool,
        engine: str,
    ) -> Plan:
        return _plan(coordinates, readout, smoothing, top, diagnostics, engine)

    def check_examples(self, vocabulary: Vocabulary) -> None:
        """Refuse examples where nothing reads them, rather than to leave them unread."""
        if not vocabulary.examples and not vocabulary.changes:
            return
        if not self.readout.takes_examples or self.readout.query_pooling != 1:
            what = "this pooling" if self.readout.takes_examples else f"{self.readout.name}"
            raise InputError(
                f"{what} reads only words; examples need the contrast or joint readout with "
                "pooling 1"
            )
        if self.coordinates.name != DEFAULT_COORDINATES:
            raise InputError(
                f"examples need {DEFAULT_COORDINATES} coordinates, not {self.coordinates.name}"
            )

    def batch(self, pairs: Sequence[Pair]) -> Batch:
        for _, vocabulary in pairs:
            self.check_examples(vocabulary)
        histories, vocabularies = [h for h, _ in pairs], [v for _, v in pairs]
        pooling = self.readout.query_pooling
        return Batch(histories, vocabularies, self.coordinates, pooling, self.engine)

    def answer(self, pairs: Sequence[Pair]) -> Timeline:
        """Return the answers of several histories: one kernel call where the readout has one."""
        batch = self.batch(pairs)
        return batch_timeline(self.readout, batch, self.readout.find(batch), self.top)

    def run(self, pairs: Sequence[Pair]) -> Timeline:
        """Return a chunk; alternatives and diagnostics are made history by history."""
        if self.top == 1 and not self.diagnostics:
            return self.answer(pairs)
        return Timeline.joined([self.analyse(self.view(*pair)) for pair in pairs])

    def view(self, history: History, vocabulary: Vocabulary) -> View:
        self.check_examples(vocabulary)
        pooling = self.readout.query_pooling
        return View(history, vocabulary, self.coordinates, pooling, self.engine)

    def analyse(self, view: View, hints: bool = False) -> Timeline:
        return self.readout.timeline(view, top=self.top, diagnostics=self.diagnostics, hints=hints)


@lru_cache(maxsize=64)
def _plan(
    coordinates: str | Coordinates | None,
    readout: str | Readout,
    smoothing: int | None,
    top: int | None,
    diagnostics: bool,
    engine: str,
) -> Plan:
    """Return the plan of these settings; plans are immutable, so equal settings share one."""
    system, found = chosen(coordinates, readout)
    found = with_smoothing(found, smoothing, readout if isinstance(readout, str) else found.name)
    if top is not None and not is_count(top, 1):
        raise InputError(f"top={top}: give the number of windows, 1 or more")
    if top is not None and top > 1 and not found.gives_alternatives:
        raise InputError(
            f"top={top}: the {found.name} readout has one window per description; scan, contrast "
            "and joint have more"
        )
    top = None if top is None else int(top)  # JSON does not take numpy's numbers
    return Plan(system, found, top, diagnostics, engine_named(engine))
