"""A finding on disk: finding.json, and the arrays that it names.

The document is declared here and checked by msgspec. What it names is written first and it last,
so that a document never speaks of other arrays than its own: another reading has files of other
names, and where the history is another one the older document is removed before.
"""

from __future__ import annotations

import contextlib
import filecmp
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from dejacue._version import __version__
from dejacue.atomic import check_place, write_text
from dejacue.errors import InputError, in_file
from dejacue.files.documents import as_json, declared, parse_json, read_json
from dejacue.files.histories import (
    file_name,
    read_history,
    read_vocabulary,
    write_history,
    write_vocabulary,
)
from dejacue.files.npz import names_in, read_npz, write_npz
from dejacue.records import Evidence, History, Note, Timeline, Vocabulary, Window
from dejacue.records.note import in_order

DOCUMENT = "finding.json"
SCHEMA = "dejacue.finding/3"
PIXELS = ("video", "masks", "objects")  # of how a history was made: what pictures depend on
SOURCE_KEY, CROP_PREFIX = "made_of", "crop-"
_EVIDENCE = ("cosines", "centre", "scale", "responses", "frames", "zero")
_LABELS = "labels"  # of a readout that labels frames


@dataclass(frozen=True)
class Provenance:
    """A record of how a finding was made; None: not known.

    encoder   its identity; prompts: how descriptions were phrased
    options   those of video, masks, encoder and tracker that are not the default; applied: the
              studio made it of other findings, and nobody has saved it since
    """

    video: str | None = None
    masks: str | None = None
    tracker: str | None = None
    encoder: str | None = None
    prompts: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    version: str = __version__


class Pictures(NamedTuple):
    """Pictures as JPEG by frame: the whole frame, and the object as the encoder sees it."""

    thumbnails: dict[int, bytes]
    crops: dict[int, bytes]

    @property
    def middle(self) -> bytes | None:
        """Return one to know the object by: it alone or, without any, a whole frame."""
        pictures = list((self.crops or self.thumbnails).values())
        return pictures[len(pictures) // 2] if pictures else None


class Manifest(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """finding.json: a finding but for its arrays; the timeline has no evidence as it is read.

    timeline     its intervals
    warnings     notes on how it was made
    doubts       where the tracker may be wrong, in frames of the file
    provenance   video and masks (relative to the folder), tracker, encoder, prompts, options that
                 are not the default, version
    absolute     where video and masks were when it was written; used if nothing is there
    files        names of history, vocabulary, evidence and pictures beside it
    """

    timeline: Timeline
    warnings: tuple[Note, ...]
    doubts: tuple[tuple[Window, str], ...]
    provenance: Provenance
    absolute: dict[str, str] = {}
    files: dict[str, str] = {}


def history_path(folder: Path, name: str) -> Path:
    return folder / f"{file_name(name)}.history.npz"


def pictures_path(history: Path) -> Path:
    return history.with_name(history.name.removesuffix(".history.npz") + ".thumbnails.npz")


def write_pictures(path: Path, pictures: Pictures, of: Mapping[str, str]) -> Path:
    """Write pictures beside the history; ``of`` says which pixels they show."""
    rows = {str(frame): data for frame, data in pictures.thumbnails.items()}
    rows |= {f"{CROP_PREFIX}{frame}": data for frame, data in pictures.crops.items()}
    arrays = {name: np.frombuffer(data, np.uint8) for name, data in rows.items()}
    return write_npz(path, {SOURCE_KEY: json.dumps(dict(of)), **arrays})


def read_pictures(path: Path, of: Mapping[str, str] | None = None) -> Pictures | None:
    """Read the pictures of a file, if they are of the same video, masks and object (None: whatever
    they are of); return None where there are none."""
    try:
        arrays = read_npz(path, names_in(path))
        made_of = parse_json(str(arrays.pop(SOURCE_KEY)))
        if of is not None and made_of != dict(of):
            return None
        pictures = Pictures({}, {})
        for name, data in arrays.items():
            part = pictures.crops if name.startswith(CROP_PREFIX) else pictures.thumbnails
            part[int(name.removeprefix(CROP_PREFIX))] = data.tobytes()
        return pictures
    except (InputError, KeyError, ValueError):
        return None


def write_finding(
    folder: Path, history: History, vocabulary: Vocabulary, pictures: Pictures, manifest: Manifest
) -> Path:
    """Write a finding and return the path of its document; the files that it names, and paths
    relative to the folder, are put into the manifest here.

    Another reading of the same history gets files of other names, until the document names them:
    whoever is stopped half-way leaves the finding as it was.
    """
    path = folder / DOCUMENT
    check_place(folder, folder=True)
    place = history_path(folder, history.id)
    files = {"history": place.name, "pictures": pictures_path(place).name}
    evidence = manifest.timeline.evidence
    if evidence is None:
        problem = "the timeline has no evidence, which a finding keeps"
        raise InputError(f"{path}: {problem}; make it with find instead of locate")
    places = _places(manifest.provenance)
    manifest = msgspec.structs.replace(
        manifest,
        files=files,
        provenance=replace(manifest.provenance, **_relative(places, folder)),
        absolute={
            name: path
            for name, path in places.items()
            if not Path(path).is_relative_to(folder.absolute())  # it does not move with the folder
        },
    )
    with in_file(path):
        declared(parse_json(as_json(manifest)), Manifest)  # what could not be read again
    used: set[str] = set()  # what the finding that is there names
    with contextlib.suppress(InputError):
        used = set(read_document(folder).files.values())
    if not used or not _holds(place, history):
        path.unlink(missing_ok=True)
        used = set()
        write_history(place, history)
    stem = place.name.removesuffix(".history.npz")
    arrays = {name: getattr(evidence, name) for name in _EVIDENCE}
    if evidence.labels is not None:
        arrays[_LABELS] = evidence.labels
    writers: dict[str, Callable[[Path], Path]] = {
        "vocabulary": lambda file: write_vocabulary(file, vocabulary),
        "evidence": lambda file: write_npz(file, arrays),
    }
    replaced = []  # what the finding that is there names, or would
    for what, write in writers.items():
        new, old = folder / f"{stem}.{what}.npz", folder / f"{stem}.{what}-2.npz"
        if new.name in used:
            new, old = old, new
        write(new)
        same = old.name in used and old.is_file() and filecmp.cmp(old, new, shallow=False)
        if same:  # the same answer keeps its files
            new, old = old, new
        files[what] = new.name
        replaced.append(old)
    known = history.made_with or {}
    of = {key: known[key] for key in PIXELS if key in known}
    write_pictures(pictures_path(place), pictures, of)
    write_text(path, as_json(manifest, indent=2) + "\n")
    for old in replaced:
        old.unlink(missing_ok=True)
    return path


def _holds(path: Path, history: History) -> bool:
    """Return whether the file is this history."""
    try:
        known = read_history(path)
    except InputError:
        return False
    for column in fields(History):
        first, second = getattr(known, column.name), getattr(history, column.name)
        if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
            if first.dtype != second.dtype or not np.array_equal(first, second):
                return False
        elif first != second:
            return False
    return True


def _places(provenance: Provenance) -> dict[str, str]:
    """Return the paths of video and masks, as far as they are known."""
    return {
        name: path for name in ("video", "masks") if (path := getattr(provenance, name)) is not None
    }


def _relative(places: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Return the paths relative to the folder, so that it moves with them; those on another drive
    of Windows as they are."""
    relative = dict(places)
    for name, path in places.items():
        with contextlib.suppress(ValueError):
            relative[name] = os.path.relpath(path, folder.absolute())
    return relative


def _resolved(provenance: Provenance, folder: Path, absolute: Mapping[str, str]) -> Provenance:
    """Return how it was made with absolute paths: those from the folder or, where nothing lies
    there, those that were absolute when it was written."""
    places: dict[str, Any] = {}
    for name, path in _places(provenance).items():
        places[name] = os.path.abspath(os.path.join(folder, path))
        if name in absolute and not os.path.exists(places[name]):
            places[name] = absolute[name]
    return replace(provenance, **places)


def holds_finding(folder: Path) -> bool:
    return os.path.isfile(folder / DOCUMENT)


def read_finding(folder: Path) -> tuple[History, Vocabulary, Pictures, Manifest]:
    """Read what ``write_finding`` has written; the timeline has its evidence."""
    manifest = read_document(folder)
    files = {}
    for what in ("history", "vocabulary", "evidence", "pictures"):
        name = manifest.files.get(what, "")
        if not name or Path(name).name != name:
            problem = f"names no file for its {what}"
            raise InputError(f"{folder / DOCUMENT}: {problem}; write the finding again")
        files[what] = folder / name
    history, vocabulary = read_history(files["history"]), read_vocabulary(files["vocabulary"])
    arrays = read_npz(files["evidence"], (*_EVIDENCE, _LABELS))
    timeline = manifest.timeline
    with in_file(folder):
        same = _words_of(timeline.states) == _words_of(vocabulary.states)
        same &= timeline.history_id == history.id
        if not same or not _is_evidence(arrays, history, vocabulary):
            problem = "its files do not belong together, as if some had been replaced"
            raise InputError(f"{problem}; run locate again, or copy the whole folder again")
        columns: dict[str, Any] = {**arrays, "zero": str(arrays["zero"])}
        timeline = timeline.replace(evidence=Evidence(**columns))
    pictures = read_pictures(files["pictures"]) or Pictures({}, {})
    return history, vocabulary, pictures, msgspec.structs.replace(manifest, timeline=timeline)


def _words_of(states: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return state → its descriptions, each once; of a state without any, its name."""
    return {state: list(dict.fromkeys(texts or (state,))) for state, texts in states.items()}


def _is_evidence(arrays: Mapping[str, Any], history: History, vocabulary: Vocabulary) -> bool:
    """Return whether the arrays are all there, in numbers, for these frames and descriptions."""
    shape = len(vocabulary), len(history)
    shapes = {"cosines": shape, "responses": shape, "centre": shape[:1], "scale": shape[:1]}
    return (
        set(_EVIDENCE) <= set(arrays)
        and np.array_equal(arrays["frames"], history.frames)
        and all(arrays[name].shape == expected for name, expected in shapes.items())
        and all(arrays[name].dtype.kind == "f" for name in shapes)
        and all(bool(np.isfinite(arrays[name]).all()) for name in shapes)
        and _are_labels(arrays.get(_LABELS), history, vocabulary)
    )


def _are_labels(labels: Any, history: History, vocabulary: Vocabulary) -> bool:
    """Return whether these are numbers of states, −1 for none of them, a number for each frame."""
    if labels is None:
        return True
    shaped = labels.dtype.kind == "i" and labels.shape == (len(history),)
    return shaped and bool(((labels >= -1) & (labels < len(vocabulary.states))).all())


def read_document(folder: Path) -> Manifest:
    """Read the document alone, without the arrays that it names."""
    path = folder / DOCUMENT
    if not os.path.isfile(path):
        problem = f"is not the folder of a finding ({DOCUMENT} is missing)"
        remedy = "write one with finding.save(folder) or dejacue find -o folder"
        raise InputError(f"{folder}: {problem}; {remedy}")
    document = read_json(path)
    with in_file(path):
        read = declared(document, Manifest, schema=SCHEMA)
        provenance = _resolved(read.provenance, folder, read.absolute)
        warnings = in_order(read.warnings)
        return msgspec.structs.replace(read, provenance=provenance, warnings=warnings)
