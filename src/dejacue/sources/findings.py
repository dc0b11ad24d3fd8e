"""A finding on disk: finding.json, and the arrays that it names.

The document is declared here and checked by msgspec. What it names is written first and it last,
so that a document never speaks of other arrays than its own: another reading has files of other
names, and where the history is another one the older document is removed before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from dejacue._version import __version__
from dejacue.errors import InputError
from dejacue.records import Evidence, History, Interval, Timeline, Vocabulary, Window
from dejacue.sources.atomic import check_place, write_bytes
from dejacue.sources.documents import as_json, declared, named, parse_json, read_json
from dejacue.sources.files import (
    file_name,
    read_history,
    read_vocabulary,
    write_history,
    write_vocabulary,
)
from dejacue.sources.npz import names_in, read_npz, write_npz
from dejacue.sources.timeline_document import RetrievalDocument, TimelineDocument

DOCUMENT = "finding.json"
KIND, VERSION = "dejacue.finding", 2
PIXELS = ("video", "masks", "objects")  # of how a history was made: what pictures depend on
OF, CROP = "made_of", "crop-"
TURNS = ("vocabulary", "evidence")  # what two names take turns for
_EVIDENCE = ("cosines", "centre", "scale", "responses", "frames", "zero")


@dataclass(frozen=True)
class Made:
    """How a finding was made; what is not known is None.

    encoder   its identity; prompts: how descriptions were phrased
    options   those of video, masks, encoder and tracker that are not the default
    """

    video: str | None = None
    masks: str | None = None
    tracker: str | None = None
    encoder: str | None = None
    prompts: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    version: str = __version__


class Pictures(NamedTuple):
    """By frame, as JPEG: the whole frame, and the object as the encoder sees it."""

    thumbnails: dict[int, bytes]
    crops: dict[int, bytes]

    @property
    def middle(self) -> bytes | None:
        """One to know the object by: it alone or, where that is not there, the whole frame."""
        own = list((self.crops or self.thumbnails).values())
        return own[len(own) // 2] if own else None


class _Common(msgspec.Struct, kw_only=True):
    """What finding.json holds in every version."""

    files: dict[str, str]
    doubts: list[tuple[Window, str]] = []
    warnings: tuple[str, ...] = ()
    made: Made = Made()


class _Version1(_Common, kw_only=True):
    retrieval: RetrievalDocument


class _Version2(_Common, kw_only=True):
    timeline: TimelineDocument


class Document(NamedTuple):
    """finding.json; the timeline has no evidence and, in version 1, no seconds."""

    version: int
    files: dict[str, str]
    timeline: Timeline
    doubts: tuple[tuple[Window, str], ...]
    warnings: tuple[str, ...]
    made: Made


class Parts(NamedTuple):
    """The fields of a Finding; the timeline has its evidence."""

    history: History
    vocabulary: Vocabulary
    timeline: Timeline
    pictures: Pictures
    doubts: tuple[tuple[Window, str], ...]
    warnings: tuple[str, ...]
    made: Made


def history_path(folder: Path, name: str) -> Path:
    return folder / f"{file_name(name)}.history.npz"


def pictures_path(history: Path) -> Path:
    return history.with_name(history.name.removesuffix(".history.npz") + ".thumbnails.npz")


def write_pictures(path: Path, pictures: Pictures, of: Mapping[str, str]) -> Path:
    """Beside the history; ``of`` says which pixels they show."""
    rows = {str(frame): data for frame, data in pictures.thumbnails.items()}
    rows |= {f"{CROP}{frame}": data for frame, data in pictures.crops.items()}
    arrays = {name: np.frombuffer(data, np.uint8) for name, data in rows.items()}
    return write_npz(path, {OF: json.dumps(dict(of)), **arrays})


def read_pictures(path: Path, of: Mapping[str, str] | None = None) -> Pictures | None:
    """Those in a file, if they are of the same video, masks and object (None: whatever they are
    of); None where there are none."""
    try:
        arrays = read_npz(path, names_in(path))
        made_of = parse_json(str(arrays.pop(OF)))
        if of is not None and made_of != dict(of):
            return None
        found = Pictures({}, {})
        for name, data in arrays.items():
            part = found.crops if name.startswith(CROP) else found.thumbnails
            part[int(name.removeprefix(CROP))] = data.tobytes()
        return found
    except (InputError, KeyError, ValueError):
        return None


def write_finding(folder: Path, finding: Parts) -> Path:
    """The path of the document.

    Another reading of the same history gets files of other names, until the document names them:
    whoever is stopped half-way leaves the finding as it was.
    """
    path = folder / DOCUMENT
    check_place(folder, folder=True)
    history, own = finding.history, history_path(folder, finding.history.id)
    stem = own.name.removesuffix(".history.npz")
    turns = {
        what: (folder / f"{stem}.{what}.npz", folder / f"{stem}.{what}-2.npz") for what in TURNS
    }
    used = _named_files(folder)
    files = {"history": own, "pictures": pictures_path(own)}
    files |= {what: other if one.name in used else one for what, (one, other) in turns.items()}
    evidence = finding.timeline.evidence
    if evidence is None:
        raise InputError(
            f"{path}: the timeline has no evidence, which a finding keeps; make it with read(…) "
            "instead of locate(…)"
        )
    document = {
        "schema": f"{KIND}/{VERSION}",
        "files": {what: file.name for what, file in files.items()},
        "made": replace(finding.made, masks=_stored_path(finding.made.masks, folder)),
        "warnings": finding.warnings,
        "doubts": finding.doubts,
        "timeline": finding.timeline.to_dict(),
    }
    with named(str(path)):
        plain = msgspec.to_builtins(document)
        as_json(plain)  # msgspec writes null for NaN and infinity
        declared(plain, _Version2)  # what could not be read again
    if not used or not _holds(own, history):
        path.unlink(missing_ok=True)
        write_history(own, history)
    write_vocabulary(files["vocabulary"], finding.vocabulary)
    write_npz(files["evidence"], {name: getattr(evidence, name) for name in _EVIDENCE})
    known = history.made_with or {}
    of = {key: known[key] for key in PIXELS if key in known}
    write_pictures(files["pictures"], finding.pictures, of)
    write_bytes(path, msgspec.json.format(msgspec.json.encode(document), indent=2))
    for what, both in turns.items():
        next(one for one in both if one != files[what]).unlink(missing_ok=True)
    return path


def _named_files(folder: Path) -> set[str]:
    """What the finding that is there names; empty where there is none that can be read."""
    try:
        return set(read_document(folder).files.values())
    except InputError:
        return set()


def _holds(path: Path, history: History) -> bool:
    """Whether the file is this history."""
    try:
        known = read_history(path)
    except InputError:
        return False
    return all(
        _equal(getattr(known, own.name), getattr(history, own.name)) for own in fields(History)
    )


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return bool(one == other)


def _stored_path(path: str | None, folder: Path) -> str | None:
    """Masks that lie in the folder of the finding move with it."""
    if path is None or not Path(path).is_relative_to(folder.absolute()):
        return path
    return os.path.relpath(path, folder)


def _known_path(path: str | None, folder: Path) -> str | None:
    return None if path is None else os.path.join(folder.absolute(), path)


def holds_finding(folder: Path) -> bool:
    return os.path.isfile(folder / DOCUMENT)


def read_finding(folder: Path) -> Parts:
    """What ``write_finding`` has written."""
    document = read_document(folder)
    files = {}
    for what in ("history", "vocabulary", "evidence", "pictures"):
        name = document.files.get(what, "")
        if not name or Path(name).name != name:
            raise InputError(
                f"{folder / DOCUMENT}: names no file for its {what}; write the finding again"
            )
        files[what] = folder / name
    history, vocabulary = read_history(files["history"]), read_vocabulary(files["vocabulary"])
    arrays = read_npz(files["evidence"], _EVIDENCE)
    timeline = document.timeline
    with named(str(folder)):
        same = _asked(timeline.states) == _asked(vocabulary.states)
        same &= timeline.history_id == history.id
        if not same or not _is_evidence(arrays, history, vocabulary):
            raise InputError(
                "its files do not belong together, as if some had been replaced; run locate "
                "again, or copy the whole folder again"
            )
        columns: dict[str, Any] = {**arrays, "zero": str(arrays["zero"])}
        evidence = Evidence(**{name: columns[name] for name in _EVIDENCE})
        if document.version < VERSION:
            timeline = Timeline.of(
                [_placed(interval, history) for interval in timeline],
                vocabulary.states,
                history_id=history.id,
                encoder=timeline.encoder,
                settings=timeline.settings,
                notes=timeline.notes,
            )
    pictures = read_pictures(files["pictures"]) or Pictures({}, {})
    return Parts(
        history,
        vocabulary,
        timeline.replace(evidence=evidence),
        pictures,
        document.doubts,
        document.warnings,
        replace(document.made, masks=_known_path(document.made.masks, folder)),
    )


def _asked(states: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return state → its descriptions, each once; of a state without any, its name."""
    return {state: list(dict.fromkeys(texts or (state,))) for state, texts in states.items()}


def _placed(interval: Interval, history: History) -> Interval:
    """Return the interval with the seconds and the frames of the file of its history."""
    first, last = history.rows_of(interval.window)
    source = history.to_source(interval.window) if history.sampled else None
    times, ends = history.times_s, history.ends_s
    return replace(
        interval,
        start_s=None if times is None else float(times[first]),
        end_s=None if ends is None else float(ends[last]),
        source_start=None if source is None else source.start,
        source_end=None if source is None else source.end,
    )


def _is_evidence(arrays: Mapping[str, Any], history: History, vocabulary: Vocabulary) -> bool:
    """Whether all of it is there, in numbers, for these frames and descriptions."""
    shape = len(vocabulary), len(history)
    shapes = {"cosines": shape, "responses": shape, "centre": shape[:1], "scale": shape[:1]}
    return (
        set(_EVIDENCE) <= set(arrays)
        and np.array_equal(arrays["frames"], history.frames)
        and all(arrays[name].shape == own for name, own in shapes.items())
        and all(arrays[name].dtype.kind == "f" for name in shapes)
        and all(bool(np.isfinite(arrays[name]).all()) for name in shapes)
    )


def read_document(folder: Path) -> Document:
    """The document alone, without the arrays that it names."""
    path = folder / DOCUMENT
    if not os.path.isfile(path):
        raise InputError(
            f"{folder}: is not the folder of a finding ({DOCUMENT} is missing); write one with "
            "finding.write(folder) or dejacue find -o folder"
        )
    document = read_json(path)
    with named(str(path)):
        schema = document.get("schema") if isinstance(document, dict) else None
        kind, _, version = str(schema).partition("/")
        if kind != KIND or not (version.isascii() and version.isdecimal()):
            raise InputError(f'is "{kind:.40}", not a finding')
        if len(version) > 9 or int(version) > VERSION:
            raise InputError(
                f"was written by a newer dejacue (format version {version:.9}; this one reads "
                f"{VERSION}); update dejacue to read it"
            )
        given: _Common
        if int(version) < VERSION:
            given = first = declared(document, _Version1)
            timeline = first.retrieval.timeline()
        else:
            given = second = declared(document, _Version2)
            timeline = second.timeline.timeline()
        doubts = tuple(given.doubts)
        return Document(int(version), given.files, timeline, doubts, given.warnings, given.made)
