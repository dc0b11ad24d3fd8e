"""Store: histories of one encoder in a folder."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dejacue.errors import InputError, shortened, unknown
from dejacue.method.plan import DEFAULT_READOUT
from dejacue.method.view import Readout
from dejacue.progress import Progress, silent
from dejacue.records import History, Vocabulary
from dejacue.sources.atomic import check_place, unwritten
from dejacue.store import _index as index
from dejacue.store import _write
from dejacue.store._ask import ask
from dejacue.store._export import export
from dejacue.store._listing import (
    Failure,
    Origin,
    Stored,
    columns_in,
    failed,
    listed,
    read_made_with,
)
from dejacue.store._matches import Matches
from dejacue.store._packing import NAMES, Packed, checksum, unpacked
from dejacue.store._segments import HEADER, MEANS, Segment, gone, mapped, mean_path, row_path
from dejacue.store._thumbnails import damaged, get
from dejacue.store._write import Text, check_encoder, is_unicode

DTYPES: dict[str, np.dtype[Any]] = {"float16": np.dtype("<f2"), "float32": np.dtype("<f4")}
_PLACED = f"segment, first, length, {NAMES}"
MOST_KEPT = 5_000_000  # frames whose numbers and times are kept for the next question: 100 MB
AS_FRAMES = 100  # what a history takes besides them
Where = Mapping[str, str]


class Problem(NamedTuple):
    """What verify found; id is None where no single history is meant."""

    id: str | None
    segment: str
    what: str

    def __str__(self) -> str:
        whose = "" if self.id is None else f'history "{shortened(self.id)}" in '
        return f"{whose}{self.segment}: {self.what}"


class Store:
    """Histories of one encoder in a folder: ``Store.create(path)``, then ``Store.open(path)``.

    ``store["cup"]`` is a History whose features are the mapped file; nothing is checked or copied.
    One process writes at a time, a second one is told; any number read meanwhile, and what they
    hold stays as it was. A writer that is killed loses nothing that was in the store before.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._reader = index.connect(self.path)
        with index.told(self.path):
            self._meta = index.meta(self._reader)
        if self._meta.get("dtype") not in DTYPES:
            self._reader.close()
            raise InputError(
                f"{self.path}: the index is damaged (no dtype); restore the store from a copy"
            )
        self.dtype = DTYPES[self._meta["dtype"]]
        self._mapped: dict[int, Segment] = {}
        self.kept: dict[int, tuple[History, str | None]] = {}
        self._kept_frames = 0

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], *, encoder: str | None = None, dtype: str = "float16"
    ) -> Store:
        """An empty store, in a folder that is new or empty.

        encoder   the identity that all its histories must have; None: that of the first one
        dtype     float16 (half the bytes; every window of VOST stays the same) or float32
        """
        folder = Path(path)
        if dtype not in DTYPES:
            raise unknown("dtype", dtype, DTYPES)
        check_encoder(folder, encoder)
        cls.check_new(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            index.create(
                folder, {"dtype": dtype, **({} if encoder is None else {"encoder": encoder})}
            )
        except OSError as error:
            raise unwritten(error, folder) from None
        return cls(folder)

    @staticmethod
    def check_new(path: str | os.PathLike[str]) -> None:
        """Refuses a folder in which no store can be made."""
        folder = Path(path)
        check_place(folder, folder=True)
        if folder.is_dir() and any(
            not own.name.startswith(index.UNFINISHED) for own in folder.iterdir()
        ):
            what = "is already a store" if Store.is_at(folder) else "is not empty"
            raise InputError(f"{folder}: {what}; give a new folder")

    @staticmethod
    def is_at(path: str | os.PathLike[str]) -> bool:
        return Path(path, index.NAME).exists()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Store:
        """A store that is there; quick, however many histories it holds."""
        return cls(path)

    def close(self) -> None:
        self._reader.close()
        self.forget_but(set())

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, (self.path,)

    @property
    def encoder(self) -> str | None:
        """The one that all its histories were made with; None where it is not known (yet)."""
        return self._known("encoder")

    @property
    def dimension(self) -> int | None:
        """Of its features; None until the first history is there."""
        known = self._known("dimension")
        return None if known is None else int(known)

    def _known(self, key: str) -> str | None:
        if key not in self._meta:  # somebody may have added the first history meanwhile
            with index.told(self.path):
                self._meta = index.meta(self._reader)
        return self._meta.get(key)

    def __repr__(self) -> str:
        try:
            count = len(self)
        except InputError:
            return f"<Store {self.path}: closed>"
        kind = f"{self.dimension or '?'}-d {self.dtype.name}, encoder {self.encoder or 'unnamed'}"
        return f"<Store {self.path}: {count} {'history' if count == 1 else 'histories'}, {kind}>"

    def __len__(self) -> int:
        with index.told(self.path):
            found = self._reader.execute("SELECT count(*) FROM histories WHERE dead = 0")
            return int(found.fetchone()[0])

    def __contains__(self, id: object) -> bool:
        if not isinstance(id, str) or not is_unicode(id):
            return False
        with index.told(self.path):
            found = self._reader.execute("SELECT 1 FROM histories WHERE id = ? AND dead = 0", (id,))
            return found.fetchone() is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids())

    def ids(self, where: Where | None = None) -> list[str]:
        """Names, in the order in which they were added."""
        with index.told(self.path):
            wanted, values = index.condition(self._reader, where)
            found = f"SELECT id FROM histories WHERE {wanted} ORDER BY number"
            return [id for (id,) in self._reader.execute(found, values)]

    def __getitem__(self, id: str) -> History:
        name = id if isinstance(id, str) and is_unicode(id) else None
        missing = None
        while True:
            with index.told(self.path):
                found = self._reader.execute(
                    f"SELECT rows, histories, {_PLACED} FROM histories JOIN segments "
                    "ON segments.number = segment WHERE id = ? AND dead = 0",
                    (name,),
                ).fetchone()
                index.whole((found or ())[:5])
            if found is None:
                raise self._unknown(id)
            rows, histories, number, first, length, *own = found
            try:
                features = self.segment(number, rows, histories).rows[first : first + length]
            except FileNotFoundError as error:  # compacted meanwhile: look again
                if error.filename == missing:
                    raise gone(error) from None
                missing = error.filename
            else:
                return unpacked(Packed(*own), features, self.encoder)

    def histories(self, where: Where | None = None) -> Iterator[History]:
        """One after the other, in the order in which they were added."""
        return map(self.__getitem__, self.ids(where))

    def rows(self, where: Where | None = None) -> Iterator[Stored]:
        """What the index says of them, without their features.

        where   {"object": "cup", "source": "kitchen*"}: id, object, source or a name in made_with
                and what it looks like (``*`` any letters, ``?`` one, ``[ab]`` one of these)
        """
        return listed(self.path, where)

    def thumbnail(self, id: str) -> bytes | None:
        """The small JPEG that was added with a history; None where there is none."""
        name = id if isinstance(id, str) and is_unicode(id) else None
        with index.told(self.path):
            query = "SELECT number FROM histories WHERE id = ? AND dead = 0"
            found = self._reader.execute(query, (name,)).fetchone()
            if found is None:
                raise self._unknown(id)
            return get(self._reader, found[0])

    def _unknown(self, id: object) -> InputError:
        return InputError(
            f'{self.path}: has no history "{shortened(str(id))}"; dejacue store ls '
            f"{self.path} lists them"
        )

    def add(
        self,
        histories: History | Iterable[History],
        *,
        replace: bool = False,
        object: Text = None,
        source: Text = None,
        thumbnails: Mapping[str, bytes] | None = None,
        settled: Iterable[str] = (),
        progress: Progress = silent,
    ) -> int:
        """Adds all of them, or none; how many.

        replace     take the place of histories of the same id, which are refused otherwise
        object      what it is (cup), and
        source      where it is from (kitchen.mp4), to be asked for with ``where``; {id: text}
                    where each has its own; None: as in made_with, where ``export`` puts them
        thumbnails  id → JPEG to know it by, made smaller where it has more than 8 kB; looked up
                    after each history, so that whoever makes them one by one may fill it meanwhile
        settled     failures that are none any more, beside those of the same ids
        """
        given = [histories] if isinstance(histories, History) else histories
        pictures = {} if thumbnails is None else thumbnails
        return _write.add(self, given, replace, object, source, pictures, progress, settled)

    def failures(self) -> list[Failure]:
        """What could not be added by ``ingest``, and why, until it is."""
        return failed(self.path)

    def record(self, failures: Iterable[Failure] = (), settled: Iterable[str] = ()) -> None:
        """Keeps what could not be added; the ids that are ``settled`` are taken out."""
        _write.record(self, failures, settled)

    def made_with(self, id: str) -> dict[str, str] | None:
        """Of a history, without a look at its rows; None where it is not there."""
        with index.told(self.path):
            query = "SELECT made_with FROM histories WHERE id = ? AND dead = 0"
            found = self._reader.execute(query, (id if is_unicode(id) else None,)).fetchone()
        return None if found is None else read_made_with(self.path, id, found[0])

    def origin(self, id: str) -> Origin:
        """How a history was made, without a look at its rows."""
        made_with = self.made_with(id)
        if made_with is None:
            raise self._unknown(id)
        return Origin(id, self.encoder, made_with)

    def told(self, id: str) -> dict[str, str | None]:
        """The object and the source that a history was added with."""
        with index.told(self.path):
            query = "SELECT object, source FROM histories WHERE id = ? AND dead = 0"
            found = self._reader.execute(query, (id if is_unicode(id) else None,)).fetchone()
        if found is None:
            raise self._unknown(id)
        return dict(zip(("object", "source"), found, strict=True))

    def columns(self, id: str) -> dict[str, str]:
        """What the manifest said of a history beside what dejacue knows: {"camera": "left"}."""
        return columns_in(self.made_with(id) or {})

    def remove(self, ids: str | Iterable[str]) -> int:
        """Takes these histories out, all or none; their bytes are freed by ``compact``."""
        return _write.remove(self.path, [ids] if isinstance(ids, str) else list(ids))

    def compact(self) -> int:
        """Frees the bytes of removed and replaced histories: segments that hold some are written
        again without them. How many bytes; readers that hold the old ones go on."""
        before = self.size
        _write.compact(self)
        return before - self.size

    @property
    def size(self) -> int:
        """Bytes of its segments on the disk."""
        files = (self.path / "segments").glob("*.npy")
        return sum(own.stat().st_size for own in files if own.is_file())

    def verify(self, progress: Progress = silent) -> list[Problem]:
        """Reads every byte again and names what is not as it was written; empty: all is well."""
        return [Problem(*own) for own in verify(self, progress)]

    def export(
        self,
        path: str | os.PathLike[str],
        kind: str = "npz",
        *,
        where: Where | None = None,
        progress: Progress = silent,
    ) -> int:
        """Writes the histories for others to read; how many.

        path   also a URL, such as s3://…, where fsspec is installed
        kind   npz: a folder of ``.history.npz`` files; parquet: one file with a row a history
        """
        return export(self, os.fspath(path), kind, where, progress)

    def ask(
        self,
        vocabulary: Vocabulary,
        *,
        readout: str | Readout = DEFAULT_READOUT,
        top: int | None = None,
        where: Where | None = None,
        threads: int = 1,
        engine: str = "local",
        ray_address: str | None = None,
        progress: Progress = silent,
    ) -> Matches:
        """Where are these states, in all histories? The likeliest objects first.

        First: is this the object? ``object_score`` is the mean cosine of a history's frames with
        the centre of the vocabulary (every state weighs the same): how much it looks like what all
        the words have in common. Histories are ranked by it, and only by it. Then: when is it in
        which state? ``score`` is that of the readout and compares windows and states *within* a
        history. It says nothing about which history is meant: contrast finds the window that
        differs most from the rest, and something differs in every history. Neither is a
        probability, and object scores compare under one vocabulary only. They depend on nothing
        else in the store, so ``where`` and ``top`` never change them.

        readout   as in ``locate``
        top       how many histories; None: all. Features of the others are not read
        where     which of them, as in ``rows``
        threads   kernel calls side by side
        engine    local, or ray: rows are read on the machines of a cluster, which must see the
                  store under the same path; the answers are the same to the last bit
        ray_address   HOST:PORT, or auto (default: a connection that is there, RAY_ADDRESS, or Ray
                  on this machine for as long as the answers are read)

        Iterate over it for one Match after the other, computed when they are asked for, take
        ``columns()``, ``to_dataframe()`` or ``to_arrow()``, or ``write`` them to a file. Each state
        has its best interval; one that the readout does not find has none.
        """
        return ask(self, vocabulary, readout, top, where, threads, engine, ray_address, progress)

    def keep(self, place: int, known: tuple[History, str | None]) -> None:
        """A history and its source for the next question, by segment and slot, which are never
        given again; as many as fit."""
        size = len(known[0]) + AS_FRAMES
        if self._kept_frames + size <= MOST_KEPT:
            self.kept[place] = known
            self._kept_frames += size

    def forget_but(self, numbers: set[int]) -> None:
        """Lets go of segments that are gone, so that their bytes are freed."""
        for number in self._mapped.keys() - numbers:
            del self._mapped[number]
            self.kept.clear()
            self._kept_frames = 0

    def segment(self, number: int, rows: int, histories: int) -> Segment:
        """Mapped once; again where it has grown."""
        known = self._mapped.get(number)
        if known is None or len(known.rows) < rows:
            folder, dimension = self.path / "segments", self.dimension
            assert dimension is not None
            known = self._mapped[number] = Segment(
                mapped(row_path(folder, number), self.dtype, dimension, rows),
                mapped(mean_path(folder, number), MEANS, dimension, histories),
            )
        return known


def verify(store: Store, progress: Progress) -> list[tuple[str | None, str, str]]:
    """(id, segment, what) of each problem."""
    found: list[tuple[str | None, str, str]] = []
    with index.snapshot(store.path) as now:
        for (said,) in now.execute("PRAGMA quick_check"):
            if said != "ok":
                found.append((None, index.NAME, f"the index is damaged ({said})"))
        segments = index.sizes(now)
        lost = (
            "SELECT id, segment FROM histories "
            "WHERE dead = 0 AND segment NOT IN (SELECT number FROM segments)"
        )
        for id, number in now.execute(lost):
            found.append((id, index.NAME, f"there is no segment {number}; {index.REMEDY}"))
        for done, (number, rows, histories) in enumerate(segments):
            found += _segment(store, now, number, rows, histories)
            progress("verify", done + 1, len(segments))
        for id in damaged(now):
            what = f"its thumbnail has changed since it was written; {index.REMEDY}"
            found.append((id, index.NAME, what))
    return found


def _segment(
    store: Store, now: sqlite3.Connection, number: int, rows: int, histories: int
) -> Iterator[tuple[str | None, str, str]]:
    """A file may have been cut short: of what is there, each history is looked at."""
    folder, dimension = store.path / "segments", store.dimension or 1
    parts, name = [], row_path(folder, number).name
    for path, dtype, count in (
        (row_path(folder, number), store.dtype, rows),
        (mean_path(folder, number), MEANS, histories),
    ):
        size = path.stat().st_size if path.is_file() else 0
        there = min(count, max(0, size - HEADER) // (dimension * dtype.itemsize))
        if there < count:
            what = "is truncated" if size else "is missing"
            yield None, path.name, f"{what}: {there} of {count} rows are there"
        parts.append(mapped(path, dtype, dimension, there) if there else None)
    kept, means = parts
    query = (
        f"SELECT first, length, slot, checksum, {NAMES} FROM histories "
        "WHERE segment = ? AND dead = 0 ORDER BY slot"
    )
    for first, length, slot, wanted, *own in now.execute(query, (number,)):
        try:
            index.whole((first, length, slot))
        except sqlite3.DatabaseError:
            yield own[0], name, f"its index entry is damaged; {index.REMEDY}"
            continue
        if kept is None or means is None or first + length > len(kept) or slot >= len(means):
            yield own[0], name, f"its rows are lost; {index.REMEDY}"
        elif checksum(kept[first : first + length], means[slot], own) != wanted:
            yield own[0], name, f"has changed since it was written; {index.REMEDY}"
