"""Make a readout of what was typed: its name, and its settings as ``--set KEY=VALUE``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar, get_type_hints

from dejacue.cli.options import bad_setting, setting_value
from dejacue.errors import InputError
from dejacue.method.localization import PRESETS, as_readout
from dejacue.method.readout import Readout
from dejacue.method.scan_readout import SCHEDULES, as_durations
from dejacue.method.state_readout import AUTO
from dejacue.method.timeline import Reading

SMOOTHING_FIELDS = ("smoothing_s", "width")  # both are set by the setting "smoothing"
Number = TypeVar("Number", int, float)
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
        if key == "smoothing" and "smoothing_s" in types:
            in_seconds = text.endswith("s")
            number = _number(
                float, key, text.removesuffix("s"), "give seconds (0.8s) or frames (4)"
            )
            values["smoothing_s" if in_seconds else "width"] = number
        elif key == "smoothing":
            width = _number(int, key, text, "give an odd number of frames")
        elif key == "bridge" and text != AUTO:
            values[key] = _number(int, key, text, "give a number of frames, or auto")
        elif key == "order":
            values[key] = tuple(part.strip() for part in text.split(",") if part.strip())
        elif key == "durations" and text in SCHEDULES:
            values[key] = text
        elif key == "durations":
            try:
                values[key] = tuple(int(part) for part in text.split(",") if part.strip())
            except ValueError:
                values[key] = as_durations(text)  # suggests the nearest schedule
        else:
            values[key] = setting_value(key, text, types[key])
    return (replace(readout, **values) if values else name), width


def _number(type_: type[Number], key: str, text: str, remedy: str) -> Number:
    try:
        return type_(text)
    except ValueError:
        raise bad_setting(key, text, remedy) from None
