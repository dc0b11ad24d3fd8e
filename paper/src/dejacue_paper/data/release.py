"""The public release of frozen SigLIP 2 features (dataset HaofanCao/deja-cue-data).

    release = load_release("path/to/release")
    release.vost[0].history, .vocabulary, .references, .component

Everything is checked when it is read: shapes, order, finiteness, unit norms, paths. Nothing is
unpickled and no path may leave the folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from dejacue.atomic import cache_folder, resolved
from dejacue.errors import DejaCueError, InputError, MissingData, first_line, in_file, unknown
from dejacue.files.documents import read_json
from dejacue.files.histories import grouped_vocabulary, read_vocabulary
from dejacue.files.npz import read_npz
from dejacue.models.encoders.sentences import release_folder
from dejacue.records import History, Reference, Vocabulary, Window

REPOSITORY = "HaofanCao/deja-cue-data"
ENCODER = "google/siglip2-base-patch16-224@75de2d55ec2d0b4efc50b3e9ad70dba96a7b2fa2"
TEMPLATES = ("ensemble", "raw", "photo", "definite")
UNIT_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class ReleaseTrack:
    """Another object of the same video, and when it shares the view with a state of the target."""

    id: int
    label: str
    history: History
    co_visible: Mapping[str, tuple[Window, ...]]


@dataclass(frozen=True, eq=False)
class ReleaseEntry:
    """One history of the benchmark with all that belongs to it.

    references   state → windows; component: its source video; cohort: vost, original, extension
                 or development; label: what the release calls the object or sequence
    """

    history: History
    vocabulary: Vocabulary
    references: Mapping[str, tuple[Window, ...]]
    component: str
    cohort: str
    label: str
    tracks: tuple[ReleaseTrack, ...] = ()
    prompt_file: Path | None = None

    @property
    def id(self) -> str:
        return self.history.id

    @property
    def reference(self) -> Reference:
        """Return the true windows, as ``evaluate`` takes them."""
        frames = Window(int(self.history.frames[0]), int(self.history.frames[-1]))
        texts = {
            state: tuple(descriptions) for state, descriptions in self.vocabulary.states.items()
        }
        return Reference(self.id, self.references, self.component, frames, texts)

    def prompted(self, prompts: str) -> Vocabulary:
        """Return the vocabulary with one prompt variant: ensemble, raw, photo or definite."""
        if prompts not in TEMPLATES:
            raise unknown("templates", prompts, TEMPLATES)
        if prompts == "ensemble":
            return self.vocabulary
        if self.prompt_file is None:
            raise InputError(f"{self.id}: the release has prompt variants only for VOST")
        vocabulary = read_vocabulary(self.prompt_file, templates=prompts)
        with in_file(self.prompt_file):
            same = vocabulary.descriptions == self.vocabulary.descriptions  # rows in order, too
            if not same or vocabulary.features is None:
                raise InputError("descriptions differ from those of the ensemble")
            _check_unit(vocabulary.features, "text_features")
            return replace(vocabulary, encoder=ENCODER)


class NoSuchHistory(InputError, KeyError):
    """An id that the release does not have."""

    __str__ = InputError.__str__  # a KeyError would show its message in quotes


class Entries(Sequence[ReleaseEntry]):
    """Lists entries in the release's order, also by id; ``missing`` names what is not on disk."""

    def __init__(self, entries: Sequence[ReleaseEntry], missing: Sequence[str] = ()) -> None:
        self._entries = tuple(entries)
        self.missing = tuple(missing)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        ids = [entry.id for entry in self._entries]
        names = ", ".join(ids if len(ids) < 9 else [*ids[:3], "…", ids[-1]])
        return f"<{len(ids)} histories: {names}; missing: {', '.join(self.missing) or 'none'}>"

    def __iter__(self) -> Iterator[ReleaseEntry]:
        return iter(self._entries)

    @overload
    def __getitem__(self, key: int | str) -> ReleaseEntry: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[ReleaseEntry]: ...
    def __getitem__(self, key: int | str | slice) -> ReleaseEntry | Sequence[ReleaseEntry]:
        if isinstance(key, str):
            for entry in self._entries:
                if entry.id == key:
                    return entry
            raise NoSuchHistory(
                f"no history {key}; known: {', '.join(e.id for e in self._entries)}"
            )
        return self._entries[key]


class Release:
    """The three groups of the release, each read on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"<Release in {self.folder}: vost, seven, development>"

    @cached_property
    def vost(self) -> Entries:
        """Return 78 VOST histories; ``entry.prompted("raw")`` gives another prompt variant."""
        rows = self._manifest("data/benchmark.json")["histories"]
        return Entries([self._entry(self._vost, row) for row in rows])

    @cached_property
    def seven(self) -> Entries:
        """Return the seven evaluation histories with auxiliary tracks."""
        rows = self._manifest("data/seven_history/manifest.json")["histories"]
        return Entries([self._entry(self._seven, row) for row in rows])

    @cached_property
    def development(self) -> Entries:
        """Return the development histories whose visual features are there; others are
        ``missing``."""
        rows = self._manifest("data/learned/development/manifest.json")["histories"]
        entries, missing = [], []
        for row in rows:
            visual = str(row.get("visual_features"))
            if "visual_features" in row and not os.path.isfile(self._path(visual)):
                missing.append(f"{row.get('history_id')}: {visual}")
            else:
                entries.append(self._entry(self._development, row))
        return Entries(entries, missing)

    def _path(self, relative: str) -> Path:
        path = resolved(self.folder / relative)
        homes = [self.folder]
        if self.folder.parent.name == "snapshots":  # a hub cache links its files to ../../blobs
            homes.append(self.folder.parent.parent / "blobs")
        if not any(path.is_relative_to(home) for home in homes):
            raise InputError(f"{self.folder}: the path {relative} points outside the folder")
        return path

    def _manifest(self, relative: str) -> dict[str, Any]:
        path = self._path(relative)
        if not os.path.exists(path):
            raise MissingData(f"{path}: no such file; is {self.folder} the release folder?")
        document: dict[str, Any] = read_json(path)
        rows = document.get("histories") if isinstance(document, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise InputError(f"{path}: has no list of histories; download the release again")
        convention = str(document.get("interval_convention", ""))
        if "inclusive" not in convention:
            raise InputError(f'{path}: intervals are "{convention}", not inclusive')
        return document

    def _entry(
        self, build: Callable[[dict[str, Any]], ReleaseEntry], row: dict[str, Any]
    ) -> ReleaseEntry:
        try:
            return build(row)
        except DejaCueError:
            raise
        except (LookupError, TypeError, ValueError) as error:
            raise InputError(
                f"{self.folder}: an entry or its files are not in the format of the release "
                f"({type(error).__name__}: {error}); download it again"
            ) from None

    def _vost(self, row: dict[str, Any]) -> ReleaseEntry:
        order = [state["state_id"] for state in row["states"]]
        return ReleaseEntry(
            history=self._history(row["siglip2_visual"], row["history_id"]),
            vocabulary=self._vocabulary(row["siglip2_text"], "state_ids", {s: s for s in order}),
            references=_references(row["states"]),
            component=row["source_component_id"],
            cohort="vost",
            label=row["sequence_id"],
            prompt_file=self._path(row["siglip2_prompt_text"]),
        )

    def _seven(self, row: dict[str, Any]) -> ReleaseEntry:
        # The text files of S05–S07 hold one state more than the manifest: only its rows count,
        # also for the origin, in the manifest's order.
        tokens = {state["feature_state_id"]: state["state_id"] for state in row["states"]}
        field = row["text_state_field"]
        expected = {s["state_id"]: tuple(s["descriptions"]) for s in row["states"]}
        vocabulary = self._vocabulary(row["text_features"], field, tokens, expected)
        return ReleaseEntry(
            history=self._history(row["target_visual_features"], row["history_id"]),
            vocabulary=vocabulary,
            references=_references(row["states"]),
            component=row["scene"],
            cohort=row["stratum"],
            label=row["object_group_id"],
            tracks=tuple(self._track(track, row["history_id"]) for track in row["distractors"]),
        )

    def _track(self, row: dict[str, Any], owner: str) -> ReleaseTrack:
        windows: dict[str, tuple[Window, ...]] = {}
        for moment in row["co_visible_moments"]:
            state = moment["state_id"]
            windows[state] = (*windows.get(state, ()), Window(moment["start"], moment["end"]))
        history = self._history(row["visual_features"], f"{owner}/track-{row['track_id']}")
        return ReleaseTrack(row["track_id"], row["object_label"], history, windows)

    def _development(self, row: dict[str, Any]) -> ReleaseEntry:
        order = [state["state_id"] for state in row["states"]]
        return ReleaseEntry(
            history=self._history(row["visual_features"], row["history_id"]),
            vocabulary=self._vocabulary(row["text_features"], "state_ids", {s: s for s in order}),
            references=_references(row["states"]),
            component=row["native_history_id"],
            cohort="development",
            label=row["label"],
        )

    def _history(self, relative: str, id: str) -> History:
        path = self._path(relative)
        arrays = read_npz(path, ("visual_features", "frame_indices"))
        with in_file(path):
            features = _need(arrays, "visual_features")
            _check_unit(features, "visual_features")
            return History(features, _need(arrays, "frame_indices"), id, ENCODER)

    def _vocabulary(
        self,
        relative: str,
        field: str,
        tokens: Mapping[str, str],
        expected: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Vocabulary:
        """Return rows of the states in ``tokens`` (file's token → state), in the order of
        ``tokens``."""
        path = self._path(relative)
        arrays = read_npz(path, ("text_features", field, "state_texts", "description_indices"))
        with in_file(path):
            features = _need(arrays, "text_features")
            _check_unit(features, "text_features")
            states = [str(s) for s in _need(arrays, field).tolist()]
            texts = [str(t) for t in _need(arrays, "state_texts").tolist()]
            rank = _need(arrays, "description_indices") if "description_indices" in arrays else None
            order = list(range(len(states))) if rank is None else np.argsort(rank, kind="stable")
            rows = [i for token in tokens for i in order if states[i] == token]
            vocabulary = grouped_vocabulary(
                [tokens[states[i]] for i in rows],
                [texts[i] for i in rows],
                features[rows],
                encoder=ENCODER,
            )
            if expected is not None and dict(vocabulary.states) != dict(expected):
                raise InputError("states or descriptions differ from the manifest")
            return vocabulary


def _need(arrays: Mapping[str, NDArray[Any]], key: str) -> NDArray[Any]:
    if key not in arrays:
        raise InputError(f"no array {key}; known: {', '.join(arrays)}")
    return arrays[key]


def _check_unit(rows: NDArray[Any], what: str) -> None:
    if rows.dtype.kind != "f":
        raise InputError(f"{what} contains {rows.dtype} instead of numbers; the file is damaged")
    with np.errstate(all="ignore"):  # a signalling NaN in a damaged file
        norms = np.linalg.norm(rows.astype(np.float64), axis=-1)
    off = np.flatnonzero(~(np.abs(norms.ravel() - 1) < UNIT_TOLERANCE))
    if off.size:
        raise InputError(
            f"{what}: row {off[0]} has length {norms.ravel()[off[0]]:.4g}, not 1; "
            "the file is damaged"
        )


def _references(states: Sequence[dict[str, Any]]) -> dict[str, tuple[Window, ...]]:
    return {s["state_id"]: tuple(Window(*pair) for pair in s["references"]) for s in states}


def load_release(path: str | os.PathLike[str] | None = None) -> Release:
    """Open the release in a folder (the one that holds ``data/``).

    Without a path: the folder named by DEJACUE_DATA, else what ``dejacue data fetch`` stored.
    """
    folder = resolved(Path(path or release_folder()).expanduser())
    if not os.path.isfile(folder / "data" / "benchmark.json"):
        if os.path.isfile(folder / "benchmark.json"):
            raise MissingData(f"{folder}: is inside the release; give {folder.parent} instead")
        raise MissingData(
            f"{folder}: contains no release (no data/benchmark.json); "
            'run "dejacue data fetch", or set DEJACUE_DATA to the folder that contains data/'
        )
    return Release(folder)


def default_folder() -> Path:
    """Return where ``dejacue data fetch`` puts the release."""
    return cache_folder() / "release"


def fetch_release(folder: str | os.PathLike[str] | None = None) -> Path:
    """Download the public release from the Hugging Face hub, with its own progress bars."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    target = Path(folder or default_folder()).expanduser()
    try:
        snapshot_download(REPOSITORY, repo_type="dataset", local_dir=target)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise MissingData(
            f"the release could not be downloaded ({first_line(error)}); on a machine with a "
            f"connection, get the dataset {REPOSITORY} from the Hugging Face hub and copy it to "
            f"{target} (or anywhere else, and set DEJACUE_DATA to that folder)"
        ) from None
    if not (target / "data" / "benchmark.json").is_file():  # offline, the hub keeps what is there
        raise MissingData(
            f"{target}: has no data/benchmark.json, so the download is incomplete; "
            'run "dejacue data fetch" again with a connection'
        )
    return target
