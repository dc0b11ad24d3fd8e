"""``dejacue data convert``."""

from __future__ import annotations

from pathlib import Path

from dejacue.cli.tables import say
from dejacue.errors import InputError, counted
from dejacue.sources.files import read_vocabulary
from dejacue.sources.formats.registry import FORMATS, format_of
from dejacue.sources.results import read_references, write_references

OWN = (".json", ".csv", ".parquet", ".arrow")


def convert(given: Path, output: Path, times: list[Path] | None, vocabulary: Path | None) -> None:
    check_ending(output)
    if output.exists() and given.exists() and output.samefile(given):
        raise InputError(f"{output}: is read by this command; give another output")
    states = None if vocabulary is None else list(read_vocabulary(vocabulary).states)
    found = read_references(given, times=times, states=states)
    path = write_references(output, found, times=times)
    say(f"references of {counted(len(found), 'object')}: {path}")


def check_ending(output: Path) -> None:
    if format_of(output) is None and output.suffix.lower() not in OWN:
        known = [suffix for own in FORMATS.loaded().values() for suffix in own.suffixes]
        raise InputError(
            f"{output}: the suffix is not a format of references; use one of "
            f"{', '.join([*OWN, *known])}"
        )
