"""How to locate: the options of the method, checked before anything is read."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from dejacue.errors import InputError
from dejacue.method.contrast import Contrast
from dejacue.method.durations import SCHEDULES, as_durations
from dejacue.method.joint import Joint
from dejacue.method.plan import Plan, as_readout
from dejacue.method.states import AUTO, Steady
from dejacue.method.view import Readout

PUBLISHED_WIDTH = 3
SHOWN = 3  # windows of a contrast: one to take, two to choose from
ALL = 1000  # occurrences


@dataclass(frozen=True)
class Settings:
    """How to locate.

    top         None: as many as suit the readout
    absent_at   p-values above it mean "not found"
    """

    coordinates: str
    readout: Readout
    smoothing: int
    top: int | None
    diagnostics: bool
    engine: str
    absent_at: float | None = None

    @property
    def windows(self) -> int:
        if self.top is not None:
            return self.top
        usual = {Contrast: SHOWN, Joint: ALL}
        return usual.get(type(self.readout), 1)

    def check(self) -> None:
        """Refuses before anything is read."""
        Plan.of(
            self.coordinates, self.readout, self.smoothing, self.windows, self.diagnostics,
            self.engine,
        )  # fmt: skip
        if self.absent_at is None:
            return
        if not isinstance(self.readout, Contrast):
            raise InputError("--absent-at needs p-values, which the readout contrast has")
        if not 0 < self.absent_at < 1:
            raise InputError(f"--absent-at {self.absent_at}: give a level between 0 and 1")


def readout_from(name: str, **options: Any) -> Readout:
    """The named readout with the options that the user gave; those not given are None."""
    readout = as_readout(name)
    given = {key: value for key, value in options.items() if value is not None}
    known = {field.name for field in fields(readout)}  # type: ignore[arg-type]
    if isinstance(readout, Steady):
        given |= _widths(given.pop("smoothing", None))
    else:
        given.pop("smoothing", None)  # see width_from
    for key in given:
        if key not in known:
            raise InputError(f"--{key} does not apply to the readout {name}")
    if "durations" in given and given["durations"] not in SCHEDULES:
        given["durations"] = _lengths(given["durations"])
    if "order" in given:
        given["order"] = tuple(part.strip() for part in given["order"].split(",") if part.strip())
    if "bridge" in given and given["bridge"] != AUTO:
        try:
            given["bridge"] = int(given["bridge"])
        except ValueError:
            raise InputError(
                f'--bridge "{given["bridge"]}": give a number of frames, or auto'
            ) from None
    return replace(readout, **given) if given else readout  # type: ignore[type-var]


def width_from(readout: Readout, text: str | None) -> int:
    """The odd width of the published smoothing."""
    if text is None or isinstance(readout, Steady):
        return PUBLISHED_WIDTH
    try:
        return int(text)
    except ValueError:
        raise InputError(f'--smoothing "{text}": give an odd number of frames') from None


def _widths(text: str | None) -> dict[str, float]:
    """``0.8s`` is the deviation in seconds, ``4`` in frames."""
    if text is None:
        return {}
    try:
        if text.endswith("s"):
            return {"smoothing_s": float(text[:-1])}
        return {"width": float(text)}
    except ValueError:
        raise InputError(f'--smoothing "{text}": give seconds (0.8s) or frames (4)') from None


def _lengths(text: str) -> Any:
    parts = [part.strip() for part in text.split(",")]
    try:
        return tuple(int(part) for part in parts if part)
    except ValueError:
        return as_durations(text)  # not a list of numbers: suggests the nearest schedule
