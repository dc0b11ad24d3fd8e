"""A readout from what was typed: its name and the options that it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from dejacue.errors import InputError
from dejacue.method.durations import SCHEDULES, as_durations
from dejacue.method.plan import PRESETS, as_readout
from dejacue.method.state_readout import AUTO
from dejacue.method.view import Readout
from dejacue.plugins import Registry

SAVED: Registry[Callable[[str], Readout]] = Registry("saved_readouts", {})


def readout_from(name: str, **options: Any) -> tuple[str | Readout, int | None]:
    """The readout, and the width of the published smoothing if it was given; options that the user
    did not give are None."""
    given = {key: value for key, value in options.items() if value is not None}
    chosen = readout_named(name)
    if not given:
        return chosen, None
    readout = as_readout(chosen)
    if name in PRESETS:
        raise InputError(
            f"--{next(iter(given))} does not apply to the preset {name}; to change settings, use "
            f"--readout {readout.name}"
        )
    known = {one.name for one in fields(readout)}
    width = None
    if "smoothing" in given:
        if "smoothing_s" in known:
            given |= _deviation(given.pop("smoothing"))
        else:
            width = _width(given.pop("smoothing"))
    for key in given:
        if key not in known:
            raise InputError(f"--{key} does not apply to the {name} readout")
    if "durations" in given and given["durations"] not in SCHEDULES:
        given["durations"] = _lengths(given["durations"])
    if "order" in given:
        given["order"] = tuple(part.strip() for part in given["order"].split(",") if part.strip())
    if "bridge" in given and given["bridge"] != AUTO:
        given["bridge"] = _number("--bridge", given["bridge"], "give a number of frames, or auto")
    return (replace(readout, **given) if given else chosen), width


def readout_named(name: str) -> str | Readout:
    """A name as it is; the readout that ``dejacue learn`` wrote to a file or a folder."""
    if (Path(name) / "settings.json").is_file():
        return SAVED.named("decoder", "saved readout")(name)
    if not name.endswith(".json"):
        return name
    from dejacue.learn.calibrated import Calibrated

    return Calibrated.read(name)


def _number(option: str, text: str, remedy: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f'{option} "{text}": {remedy}') from None


def _width(text: str) -> int:
    return _number("--smoothing", text, "give an odd number of frames")


def _deviation(text: str) -> dict[str, float]:
    """``0.8s`` is the deviation in seconds, ``4`` in frames."""
    try:
        if text.endswith("s"):
            return {"smoothing_s": float(text[:-1])}
        return {"width": float(text)}
    except ValueError:
        raise InputError(f'--smoothing "{text}": give seconds (0.8s) or frames (4)') from None


def _lengths(text: str) -> Any:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        return as_durations(text)  # not a list of numbers: suggests the nearest schedule
