"""Make a readout of what was typed: its name, and its settings as ``--set KEY=VALUE``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, get_type_hints

from dejacue.cli.options import bad_setting, setting_value
from dejacue.errors import InputError
from dejacue.method.durations import SCHEDULES, as_durations
from dejacue.method.plan import PRESETS, as_readout
from dejacue.method.readout import Readout
from dejacue.method.state_readout import AUTO
from dejacue.method.timeline import Reading

SMOOTHING_FIELDS = ("smoothing_s", "width")  # both are set by the setting "smoothing"
POOLING = "pooling"  # which a timeline does not leave to choose


def setting_names(readout: Readout) -> list[str]:
    """Return the settings of a readout, as ``--set`` takes them."""
    names = [field.name for field in fields(readout) if field.name not in SMOOTHING_FIELDS]
    if isinstance(readout, Reading):
        names.remove(POOLING)
    return list(dict.fromkeys(["smoothing", *names]))


def readout_from(
    name: str, texts: Mapping[str, str], others: Iterable[str] = ()
) -> tuple[str | Readout, int | None]:
    """Return the readout with these settings, and the width of the published smoothing if given.

    others   the settings that the command has beside those of the readout, for the error message
    """
    if not texts:
        return name, None
    readout = as_readout(name)
    known = setting_names(readout)
    for key in texts:
        if key not in known:
            which, remedy = f"{name} readout", f"known: {', '.join([*known, *others])}"
        elif name in PRESETS:
            which = f"preset {name}"
            remedy = f"to change settings, use --readout {readout.name}"
        else:
            continue
        raise InputError(f"--set {key} does not apply to the {which}; {remedy}")
    values: dict[str, Any] = {}
    width = None
    types = get_type_hints(type(readout))
    for key, text in texts.items():
        if key == "smoothing":
            if "smoothing_s" in types:
                values |= _deviation(text)
            else:
                width = _number(key, text, "give an odd number of frames")
        elif key == "durations":
            values[key] = text if text in SCHEDULES else _lengths(text)
        elif key == "order":
            values[key] = tuple(part.strip() for part in text.split(",") if part.strip())
        elif key == "bridge" and text != AUTO:
            values[key] = _number(key, text, "give a number of frames, or auto")
        else:
            values[key] = setting_value(key, text, types[key])
    return (replace(readout, **values) if values else name), width


def _number(key: str, text: str, remedy: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise bad_setting(key, text, remedy) from None


def _deviation(text: str) -> dict[str, float]:
    """Return the deviation: ``0.8s`` in seconds, ``4`` in frames."""
    try:
        if text.endswith("s"):
            return {"smoothing_s": float(text[:-1])}
        return {"width": float(text)}
    except ValueError:
        raise bad_setting("smoothing", text, "give seconds (0.8s) or frames (4)") from None


def _lengths(text: str) -> Any:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        return as_durations(text)  # not a list of numbers: suggests the nearest schedule
