"""Store: many histories of one encoder in a folder, added once and queried often."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sqlite3
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as replaced
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.atomic import check_place, unwritten, write_bytes, write_whole
from dejacue.corpus import _index as index
from dejacue.corpus._matches import Matches
from dejacue.corpus._packing import (
    NAMES,
    PackedHistory,
    checksum,
    manifest_columns,
    packed,
    read_made_with,
    stored_rows,
    unpacked,
)
from dejacue.corpus._query import Asked, Query
from dejacue.corpus._segments import (
    HEADER,
    MEANS,
    Segment,
    SegmentWriter,
    mapped,
    mean_path,
    missing_file,
    row_path,
)
from dejacue.corpus.cluster import check_engine
from dejacue.errors import InputError, StrPath, need, shortened, unknown
from dejacue.files import remote
from dejacue.files.histories import file_name, write_history
from dejacue.method.coordinates import query_directions
from dejacue.method.plan import DEFAULT_READOUT, Plan
from dejacue.method.readout import Readout
from dejacue.method.state_readout import is_count
from dejacue.method.teaching import Confirmed, as_teachers, looks, taught
from dejacue.models.encoders import ENCODERS, FAMILIES
from dejacue.progress import Progress, silent
from dejacue.records import History, Vocabulary

DTYPES: dict[str, np.dtype[Any]] = {"float16": np.dtype("<f2"), "float32": np.dtype("<f4")}
EXPORT_KINDS = ("npz", "parquet")
MAX_CACHED_FRAMES = 5_000_000  # whose numbers and times are kept for the next query: 100 MB
HISTORY_AS_FRAMES = 100  # what a history takes in this cache besides its frames
PARQUET_GROUP_BYTES = 64 << 20  # of features
MAX_THUMBNAIL_BYTES = 8192
THUMBNAIL_SIDES = (160, 128, 96, 64)  # pixels, tried one after the other
ObjectSource = Mapping[str, str]
Text = str | None | Mapping[str, str | None]  # for all histories, or by id
_REMOVE = "UPDATE histories SET dead = 1 WHERE id = ? AND dead = 0"


class StoreExists(InputError):
    """Another process may have just created it: open it."""

    def __init__(self, folder: Path) -> None:
        remedy = "give a new folder, or histories to add"
        super().__init__(f"{folder}: is already a store; {remedy}")


class Stored(NamedTuple):
    """The index's entry of a history: ``frames`` observed frames, in ``runs`` runs, from start
    to end; the seconds [start_s, end_s) that they cover; the columns of its manifest."""

    id: str
    object: str | None
    source: str | None
    frames: int
    runs: int
    start: int
    end: int
    times_s: tuple[float, float] | None
    thumbnail: bool
    columns: dict[str, str]


class Origin(NamedTuple):
    """The encoder of a history, and the details of how it was made."""

    id: str
    encoder: str | None
    made_with: Mapping[str, str]


class Failure(NamedTuple):
    """Names what could not be added: the id that it would have had, its source, and why."""

    id: str
    source: str | None
    what: str


class Damage(NamedTuple):
    """Damage that ``verify`` found; id is None where no single history is meant."""

    id: str | None
    segment: str
    what: str

    def __str__(self) -> str:
        whose = "" if self.id is None else f'history "{shortened(self.id)}" in '
        return f"{whose}{self.segment}: {self.what}"


class Store:
    """A store keeps histories of one encoder in a folder; see ``Store.create``, ``Store.open``.

    ``store["cup"]`` is a History whose features are the mapped file; nothing is checked or copied.
    One process writes at a time, and a second one is refused; any number read meanwhile, and what
    they hold stays as it was. A writer that is killed loses nothing that was in the store before.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)
        self._reader = index.connect(self.path)
        with index.sqlite_errors(self.path):
            self._meta = index.meta(self._reader)
        if self._meta.get("dtype") not in DTYPES:
            self._reader.close()
            raise self._error("the index is damaged (no dtype); restore the store from a copy")
        self.dtype = DTYPES[self._meta["dtype"]]
        self._mapped: dict[int, Segment] = {}
        self.cached: dict[int, tuple[History, str | None]] = {}  # by place; see _query
        self._cached_frames = 0

    @classmethod
    def create(cls, path: StrPath, *, encoder: str | None = None, dtype: str = "float16") -> Store:
        """Create an empty store in a folder that is new or empty.

        encoder   the identity that all its histories must have; None: that of the first one
        dtype     float16 (half the bytes; every window of VOST stays the same) or float32
        """
        folder = Path(path)
        if dtype not in DTYPES:
            raise unknown("dtype", dtype, DTYPES)
        meta = {"dtype": dtype}
        if encoder is not None:
            if not isinstance(encoder, str) or not _is_unicode(encoder) or not encoder.strip():
                problem = f"the encoder {encoder!r:.80} must be text: its identity"
                raise InputError(f"{folder}: {problem}")
            if encoder in ENCODERS or (encoder.startswith(FAMILIES) and "@" not in encoder):
                raise InputError(
                    f'{folder}: "{shortened(encoder)}" is the name of an encoder, but a store '
                    "needs its identity, as recorded in histories; leave it out to take it from "
                    "the first history"
                )
            meta["encoder"] = encoder
        cls.check_new(folder)
        new = not folder.exists()
        try:
            index.create(folder, meta)
        except FileExistsError:
            raise StoreExists(folder) from None
        except OSError as error:
            if new:
                with contextlib.suppress(OSError):
                    folder.rmdir()
            raise unwritten(error, folder) from None
        return cls(folder)

    @staticmethod
    def check_new(path: StrPath) -> None:
        """Refuse a folder that is no store and cannot become one."""
        folder = Path(path)
        check_place(folder, folder=True)
        others = folder.is_dir() and any(
            not file.name.startswith(index.UNFINISHED) for file in folder.iterdir()
        )
        if others and not Store.is_at(folder):
            raise InputError(f"{folder}: is not empty; give a new folder")

    def _error(self, problem: str) -> InputError:
        return InputError(f"{self.path}: {problem}")

    @staticmethod
    def is_at(path: StrPath) -> bool:
        return Path(path, index.NAME).exists()

    def check_writable(self) -> None:
        """Refuse, before the work, a store on a disc or share that may only be read."""
        index.check_writable(self.path)

    @classmethod
    def open(cls, path: StrPath) -> Store:
        """Open an existing store; quick, however many histories it holds."""
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
        """Return the identity of the encoder of all histories; None where it is not known (yet)."""
        return self._known("encoder")

    @property
    def dimension(self) -> int | None:
        """Return the dimension of its features; None until the first history is there."""
        known = self._known("dimension")
        return None if known is None else int(known)

    def _known(self, key: str) -> str | None:
        if key not in self._meta:  # somebody may have added the first history meanwhile
            with index.sqlite_errors(self.path):
                self._meta = index.meta(self._reader)
        return self._meta.get(key)

    @property
    def size(self) -> int:
        """Return how many bytes its segments take on the disk."""
        files = (self.path / "segments").glob("*.npy")
        return sum(file.stat().st_size for file in files if file.is_file())

    def __repr__(self) -> str:
        try:
            count = len(self)
        except InputError:
            return f"<Store {self.path}: closed>"
        kind = f"{self.dimension or '?'}-d {self.dtype.name}, encoder {self.encoder or 'unnamed'}"
        return f"<Store {self.path}: {count} {'history' if count == 1 else 'histories'}, {kind}>"

    def __len__(self) -> int:
        with index.sqlite_errors(self.path):
            count = self._reader.execute("SELECT count(*) FROM histories WHERE dead = 0")
            return int(count.fetchone()[0])

    def __contains__(self, id: object) -> bool:
        return self._entry("1", id) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids())

    def ids(self, where: ObjectSource | None = None) -> list[str]:
        """Return the ids, in the order in which they were added."""
        with index.sqlite_errors(self.path):
            condition, values = index.condition(self._reader, where)
            query = f"SELECT id FROM histories WHERE {condition} ORDER BY number"
            return [index.check_texts(row)[0] for row in self._reader.execute(query, values)]

    def _entry(self, columns: str, id: object, table: str = "histories") -> Any:
        """Return these columns of a history's index entry; None where there is none."""
        if not isinstance(id, str) or not _is_unicode(id):
            return None
        with index.sqlite_errors(self.path):
            query = f"SELECT {columns} FROM {table} WHERE id = ? AND dead = 0"
            return self._reader.execute(query, (id,)).fetchone()

    def _known_entry(self, columns: str, id: object, table: str = "histories") -> tuple[Any, ...]:
        entry = self._entry(columns, id, table)
        if entry is None:
            problem = f'has no history "{shortened(str(id))}"'
            raise self._error(f"{problem}; dejacue store ls {self.path} lists them")
        return tuple(entry)

    def __getitem__(self, id: str) -> History:
        columns = f"segment, rows, histories, first, length, {NAMES}"
        table = "histories JOIN segments ON segments.number = segment"
        missing = None
        while True:
            entry = self._known_entry(columns, id, table)
            with index.sqlite_errors(self.path):
                number, rows, histories, first, length = index.check_counts(entry[:5])
            try:
                features = self.segment(number, rows, histories).rows[first : first + length]
            except FileNotFoundError as error:  # compacted meanwhile: look again
                if error.filename == missing:
                    raise missing_file(error) from None
                missing = error.filename
            else:
                return unpacked(self.path, PackedHistory(*entry[5:]), features, self.encoder)

    def histories(self, where: ObjectSource | None = None) -> Iterator[History]:
        """Yield histories in the order in which they were added."""
        return map(self.__getitem__, self.ids(where))

    def rows(self, where: ObjectSource | None = None) -> Iterator[Stored]:
        """Yield what the index says of histories, without their features.

        where   {"object": "cup", "source": "kitchen*"}: id, object, source or a name in made_with
                and what it looks like (``*`` any letters, ``?`` one, ``[ab]`` one of these)
        """
        with index.snapshot(self.path) as now:
            condition, values = index.condition(now, where)
            pictures = "EXISTS (SELECT 1 FROM thumbnails WHERE history = number)"
            query = (
                f"SELECT {pictures}, made_with, "
                "length, id, object, source, interval_s, NULL, runs, times_s, NULL, NULL "
                f"FROM histories WHERE {condition} ORDER BY number"
            )
            for thumbnail, made_with, length, *columns in now.execute(query, values):
                (count,) = index.check_counts([length])
                entry, features = PackedHistory(*columns), np.empty((count, 0), self.dtype)
                history = unpacked(self.path, entry, features, None)
                start, end = history.frames[[0, -1]].tolist()
                yield Stored(
                    entry.id,
                    entry.object,
                    entry.source,
                    count,
                    len(history.run_offsets) - 1,
                    start,
                    end,
                    _span_s(history),
                    bool(thumbnail),
                    manifest_columns(self.path, entry.id, made_with),
                )

    def thumbnail(self, id: str) -> bytes | None:
        """Return the small JPEG that was added with a history; None where there is none."""
        number = self._known_entry("number", id)
        with index.sqlite_errors(self.path):
            query = "SELECT jpeg FROM thumbnails WHERE history = ?"
            row = self._reader.execute(query, number).fetchone()
            if row is not None and not isinstance(row[0], bytes):
                raise sqlite3.DatabaseError("a thumbnail that is none")
        return None if row is None else bytes(row[0])

    def failures(self) -> list[Failure]:
        """Return what ``ingest`` could not add, and why; until it is added."""
        with index.snapshot(self.path) as now:
            query = "SELECT id, what, source FROM failures ORDER BY rowid"
            rows = (index.check_texts(row, optional=1) for row in now.execute(query))
            return [Failure(id, source, what) for id, what, source in rows]

    def origin(self, id: str) -> Origin:
        """Return how a history and its features were made, without a look at its rows."""
        (made_with,) = self._known_entry("made_with", id)
        return Origin(id, self.encoder, read_made_with(self.path, id, made_with))

    def labels(self, id: str) -> dict[str, str | None]:
        """Return the object and the source that a history was added with."""
        entry = self._known_entry("object, source", id)
        with index.sqlite_errors(self.path):
            object, source = index.check_texts(entry, optional=2)
        return {"object": object, "source": source}

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
        """Add all of them, or none, and return how many.

        replace     take the place of histories of the same id, which are refused otherwise
        object      what it is (cup), and
        source      where it is from (kitchen.mp4), to be selected with ``where``; {id: text}
                    where they differ; None: as in made_with, where ``export`` puts them
        thumbnails  id → JPEG to know it by, made smaller where it has more than 8 kB; looked up
                    after each history, so that whoever makes them one by one may fill it meanwhile
        settled     ids of failures to forget, beside those of the added histories
        """
        for name, texts in (("object", object), ("source", source)):
            for text in texts.values() if isinstance(texts, Mapping) else (texts,):
                if text is not None and not (isinstance(text, str) and _is_unicode(text)):
                    raise InputError(f"{self.path}: {name} {text!r:.80} must be text")
        pictures = {} if thumbnails is None else thumbnails
        names: set[str] = set()
        with self._writing() as writer:
            meta = index.meta(writer.transaction)
            for history in [histories] if isinstance(histories, History) else histories:
                self._check(history, meta, names)
                if "dimension" not in meta:
                    meta = self._add_meta(writer.transaction, meta, history)
                self._make_room(writer.transaction, history.id, replace)
                columns = packed(history, _of(object, history.id), _of(source, history.id))
                number = self._add(writer, history.features, columns)
                if (picture := pictures.get(history.id)) is not None:
                    jpeg = self._small_jpeg(history.id, picture)
                    query = "INSERT INTO thumbnails (history, checksum, jpeg) VALUES (?, ?, ?)"
                    writer.transaction.execute(query, (number, zlib.crc32(jpeg), jpeg))
                names.add(history.id)
                progress("add", len(names))
            for id in pictures:
                if id not in names:
                    problem = f'thumbnail of "{shortened(str(id))}", but no such history'
                    raise self._error(f"{problem}; add a thumbnail together with its history")
            _settle(writer.transaction, (*names, *settled))
        return len(names)

    def _check(self, history: History, meta: Mapping[str, str], names: set[str]) -> None:
        """Refuse a history that is not one for this store."""
        id, which = history.id, f'history "{shortened(history.id)}"'
        if not _is_unicode(id):
            raise self._error(f"the id {id!r:.80} is not valid Unicode; choose another one")
        if id in names:
            raise self._error(f"{which} is given twice; every history needs its own id")
        expected = meta.get("encoder")
        if history.encoder != expected and (expected is not None or "dimension" in meta):
            encoder, stored = (
                "an unnamed encoder" if name is None else f'"{name}"'
                for name in (history.encoder, expected)
            )
            problem = f"{which} was encoded with {encoder}, but the store contains {stored}"
            raise self._error(f"{problem}; use one store per encoder")
        if history.dimension != int(meta.get("dimension", history.dimension)):
            raise self._error(
                f"{which} has {history.dimension} dimensions, but the store has "
                f"{meta['dimension']}; encode it with the encoder of the store"
            )

    @staticmethod
    def _add_meta(
        now: sqlite3.Connection, meta: Mapping[str, str], history: History
    ) -> dict[str, str]:
        """Record the dimension and, where it is not known, the encoder of the first history."""
        known = {**meta, "dimension": str(history.dimension)}
        if history.encoder is not None:
            known["encoder"] = history.encoder
        now.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", known.items())
        return known

    def _make_room(self, now: sqlite3.Connection, id: str, replace: bool) -> None:
        if replace:
            now.execute(_REMOVE, (id,))
            return
        query = "SELECT 1 FROM histories WHERE id = ? AND dead = 0"
        if now.execute(query, (id,)).fetchone() is not None:
            problem = f'already has a history "{shortened(id)}"'
            raise self._error(f"{problem}; rename it, or replace the other one")

    def _add(
        self, writer: SegmentWriter, features: NDArray[Any], columns: PackedHistory
    ) -> int | None:
        """Write the rows and the index entry of a history, and return its number."""
        rows, mean = stored_rows(features, self.dtype)
        place = writer.add(rows, mean)
        return writer.transaction.execute(
            f"INSERT INTO histories (segment, first, slot, length, checksum, {NAMES}) "
            f"VALUES ({', '.join('?' * (5 + len(columns)))})",
            (*place, len(rows), checksum(rows, mean, columns), *columns),
        ).lastrowid

    def _small_jpeg(self, id: str, picture: object) -> bytes:
        """Return the picture, made smaller until it has at most MAX_THUMBNAIL_BYTES."""
        which = f'the thumbnail of history "{shortened(id)}"'
        if not isinstance(picture, bytes) or not picture.startswith(b"\xff\xd8\xff"):
            raise self._error(f"{which} is not a JPEG; give the bytes of one")
        if len(picture) <= MAX_THUMBNAIL_BYTES:
            return picture
        from PIL import Image

        try:
            with Image.open(io.BytesIO(picture), formats=["JPEG"]) as opened:
                image = opened.convert("RGB")
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise self._error(f"{which} cannot be decoded ({error}); give another one") from None
        for side in THUMBNAIL_SIDES:
            image.thumbnail((side, side))
            stream = io.BytesIO()
            image.save(stream, "JPEG", quality=75)
            if stream.tell() <= MAX_THUMBNAIL_BYTES:
                break
        return stream.getvalue()

    @contextlib.contextmanager
    def _writing(self, new_segment: bool = False) -> Iterator[SegmentWriter]:
        """Begin a transaction and give its writer of rows, which also cleans up after others."""
        writer = None
        try:
            with index.transaction(self.path) as now:
                writer = SegmentWriter(self.path / "segments", self.dtype, now, new_segment)
                yield writer
                writer.flush()
        except OSError as error:
            raise unwritten(error, self.path, created=True) from None
        finally:
            if writer is not None:
                writer.close()

    def record(self, failures: Iterable[Failure] = (), settled: Iterable[str] = ()) -> None:
        """Keep what could not be added, the last reason of each; forget the ``settled`` ids."""
        try:
            with index.transaction(self.path) as now:
                _settle(now, settled)
                now.executemany("INSERT OR REPLACE INTO failures VALUES (?, ?, ?)", failures)
        except OSError as error:
            raise unwritten(error, self.path, created=True) from None

    def remove(self, ids: str | Iterable[str]) -> int:
        """Take these histories out, all or none; their bytes are freed by ``compact``."""
        names = dict.fromkeys([ids] if isinstance(ids, str) else ids)
        with index.transaction(self.path) as now:
            for id in names:
                known = isinstance(id, str) and _is_unicode(id)
                if not known or not now.execute(_REMOVE, (id,)).rowcount:
                    problem = f'has no history "{shortened(str(id))}", so nothing was removed'
                    raise InputError(f"{self.path}: {problem}")
        return len(names)

    def compact(self) -> int:
        """Free the bytes of removed and replaced histories, and return how many: segments that hold
        some are written again without them. Readers that hold the old ones go on."""
        before = self.size
        with self._writing(new_segment=True) as writer:
            now = writer.transaction
            query = "SELECT DISTINCT segment FROM histories WHERE dead = 1"
            numbers = [number for (number,) in now.execute(query)]
            if not numbers:
                return before - self.size
            now.execute("DELETE FROM histories WHERE dead = 1")
            now.execute(
                "DELETE FROM thumbnails WHERE history NOT IN (SELECT number FROM histories)"
            )
            for number in numbers:
                self._move(writer, number)
                now.execute("DELETE FROM segments WHERE number = ?", (number,))
            left = {number for (number,) in now.execute("SELECT number FROM segments")}
        self.forget_but(left)
        with contextlib.suppress(InputError), self._writing():
            pass  # removes the files; another writer that is quicker does it, too
        return before - self.size

    def _move(self, writer: SegmentWriter, number: int) -> None:
        """Copy the histories of a segment. Checksums move with the rows: what was damaged before is
        still found to be."""
        sizes = next((row for row in index.sizes(writer.transaction) if row[0] == number), None)
        if sizes is None:
            raise sqlite3.DatabaseError("an entry without a segment")
        try:
            segment = self.segment(*sizes)
        except FileNotFoundError as error:
            raise missing_file(error) from None
        query = "SELECT number, first, length, slot FROM histories WHERE segment = ? ORDER BY slot"
        entries = writer.transaction.execute(query, (number,)).fetchall()
        for history, first, length, slot in map(index.check_counts, entries):
            if first + length > len(segment.rows) or slot >= len(segment.means):
                raise sqlite3.DatabaseError(f"history number {history} has no rows")
            place = writer.add(segment.rows[first : first + length], segment.means[slot])
            update = "UPDATE histories SET segment = ?, first = ?, slot = ? WHERE number = ?"
            writer.transaction.execute(update, (*place, history))

    def verify(self, progress: Progress = silent) -> list[Damage]:
        """Read every byte again and return what is not as it was written."""
        problems: list[Damage] = []
        with index.snapshot(self.path) as now:
            for (message,) in now.execute("PRAGMA quick_check"):
                if message != "ok":
                    problems.append(Damage(None, index.NAME, f"the index is damaged ({message})"))
            segments = index.sizes(now)
            query = (
                "SELECT id, segment FROM histories "
                "WHERE dead = 0 AND segment NOT IN (SELECT number FROM segments)"
            )
            for id, number in now.execute(query):
                what = f"there is no segment {number}; {index.REMEDY}"
                problems.append(Damage(id, index.NAME, what))
            for done, (number, rows, histories) in enumerate(segments):
                problems += self._verify_segment(now, number, rows, histories)
                progress("verify", done + 1, len(segments))
            query = (
                "SELECT id, thumbnails.checksum, jpeg FROM thumbnails "
                "JOIN histories ON number = history WHERE dead = 0 ORDER BY number"
            )
            what = f"its thumbnail has changed since it was written; {index.REMEDY}"
            for id, expected, jpeg in now.execute(query):
                if not isinstance(jpeg, bytes) or zlib.crc32(jpeg) != expected:
                    problems.append(Damage(id, index.NAME, what))
        return problems

    def _verify_segment(
        self, now: sqlite3.Connection, number: int, rows: int, histories: int
    ) -> Iterator[Damage]:
        """Yield what is damaged; a file may have been cut short, and what is left is checked."""
        folder, dimension = self.path / "segments", self.dimension or 1
        parts, name = [], row_path(folder, number).name
        for path, dtype, count in (
            (row_path(folder, number), self.dtype, rows),
            (mean_path(folder, number), MEANS, histories),
        ):
            size = path.stat().st_size if path.is_file() else 0
            there = min(count, max(0, size - HEADER) // (dimension * dtype.itemsize))
            if there < count:
                what = "is truncated" if size else "is missing"
                yield Damage(None, path.name, f"{what}: {there} of {count} rows are there")
            parts.append(mapped(path, dtype, dimension, there) if there else None)
        features, means = parts
        query = (
            f"SELECT first, length, slot, checksum, {NAMES} FROM histories "
            "WHERE segment = ? AND dead = 0 ORDER BY slot"
        )
        for first, length, slot, expected, id, *columns in now.execute(query, (number,)):
            try:
                index.check_counts((first, length, slot))
            except sqlite3.DatabaseError:
                yield Damage(id, name, f"its index entry is damaged; {index.REMEDY}")
                continue
            end = first + length
            if features is None or means is None or end > len(features) or slot >= len(means):
                yield Damage(id, name, f"its rows are lost; {index.REMEDY}")
            elif checksum(features[first:end], means[slot], (id, *columns)) != expected:
                yield Damage(id, name, f"has changed since it was written; {index.REMEDY}")

    def export(
        self,
        path: StrPath,
        kind: str = "npz",
        *,
        where: ObjectSource | None = None,
        progress: Progress = silent,
    ) -> int:
        """Write the histories for others to read, and return how many.

        path   also a URL, such as s3://…, where fsspec is installed
        kind   npz: a folder of ``.history.npz`` files; parquet: one file with a row a history
        """
        place = os.fspath(path)
        if kind not in EXPORT_KINDS:
            raise unknown("kind", kind, EXPORT_KINDS)
        is_remote = remote.is_remote(place)
        if not is_remote and Path(place).resolve().is_relative_to(self.path.resolve()):
            raise InputError(f"{place}: is inside the store itself; give another place")
        ids = self.ids(where)
        if not ids:
            raise InputError(f"{self.path}: no history matches, so there is nothing to export")
        write = self._export_npz if kind == "npz" else self._export_parquet
        if not is_remote:
            write(Path(place), ids, progress)
            return len(ids)
        remote.check(place)
        with tempfile.TemporaryDirectory(prefix="dejacue-") as folder:
            local = Path(folder, "export")
            write(local, ids, progress)
            remote.put(local, place)
        return len(ids)

    def _export_npz(self, folder: Path, ids: list[str], progress: Progress) -> None:
        names: dict[str, str] = {}
        for id in ids:
            previous = names.setdefault(file_name(id).lower(), id)  # some disks know no capitals
            if previous != id:
                problem = f'histories "{previous}" and "{id}" would get the same file name'
                raise InputError(f"{problem}; export them one by one with where")
        for done, id in enumerate(ids):
            history = self[id]
            labels = {name: text for name, text in self.labels(id).items() if text is not None}
            if labels:  # add takes them out again
                history = replaced(history, made_with={**(history.made_with or {}), **labels})
            write_history(folder / f"{file_name(id)}.history.npz", history)
            picture = self.thumbnail(id)
            if picture is not None:
                write_bytes(folder / f"{file_name(id)}.jpg", picture)
            progress("export", done + 1, len(ids))

    def _export_parquet(self, path: Path, ids: list[str], progress: Progress) -> None:
        """Write a row a history: features as one list of N · dimension numbers, row after row."""
        arrow = need("pyarrow", "pip install pyarrow")
        parquet = need("pyarrow.parquet", "pip install pyarrow")
        integers, numbers = arrow.list_(arrow.int64()), arrow.list_(arrow.float64())
        schema = arrow.schema(
            {
                "id": arrow.string(),
                "object": arrow.string(),
                "source": arrow.string(),
                "encoder": arrow.string(),
                "dimension": arrow.int64(),
                "frames": integers,
                "times_s": numbers,
                "source_frames": integers,
                "presence": numbers,
                "made_with": arrow.string(),
                "features": arrow.list_(arrow.from_numpy_dtype(self.dtype)),
                "thumbnail": arrow.binary(),
            }
        )

        def row(id: str, history: History) -> dict[str, Any]:
            made_with = None if history.made_with is None else json.dumps(dict(history.made_with))
            special = {
                **self.labels(id),
                "made_with": made_with,
                "features": history.features.ravel(),
                "thumbnail": self.thumbnail(id),
            }
            return {n: special[n] if n in special else getattr(history, n) for n in schema.names}

        def write(stream: IO[bytes]) -> None:
            with parquet.ParquetWriter(stream, schema) as out:
                group: list[dict[str, Any]] = []
                group_bytes = 0
                for done, id in enumerate(ids):
                    history = self[id]
                    group.append(row(id, history))
                    group_bytes += history.features.nbytes
                    if group_bytes >= PARQUET_GROUP_BYTES or done + 1 == len(ids):
                        out.write_table(arrow.Table.from_pylist(group, schema))
                        group, group_bytes = [], 0
                    progress("export", done + 1, len(ids))

        write_whole(path, write)

    def query(
        self,
        vocabulary: Vocabulary | None = None,
        *,
        like: Confirmed | Sequence[Confirmed] = (),
        readout: str | Readout = DEFAULT_READOUT,
        top: int | None = None,
        trust: bool = False,
        where: ObjectSource | None = None,
        threads: int = 1,
        engine: str = "local",
        ray_address: str | None = None,
        progress: Progress = silent,
    ) -> Matches:
        """Find when the states hold, in all histories; the likeliest objects come first.

        First: is this the object? ``object_score`` is the mean cosine of a history's frames with
        the centre of the vocabulary (every state weighs the same): how much it looks like what all
        the words have in common. Histories are ranked by it, and only by it. Then: when is it in
        which state? ``score`` is that of the readout and compares occurrences *within* a history.
        It says nothing about which history is meant: an occurrence differs from the rest of its
        history, and something differs in every one. Neither is a probability, and object scores
        compare under one vocabulary only. They depend on nothing else in the store, so ``where``
        and ``top`` never change them.

        like      findings in which you confirmed when these states hold: they teach what to look
                  for, beside the words or, without a vocabulary, instead of them. Then histories
                  are ranked by how much they look like the teachers' objects
        readout   as in ``locate``
        top       how many histories; None: all. Features of the others are not read
        trust     also tell how far to trust each occurrence; it takes about a millisecond a history
        where     which of them, as in ``rows``
        threads   kernel calls side by side
        engine    local, or ray: rows are read on the machines of a cluster, which must see the
                  store under the same path; the answers are the same to the last bit
        ray_address   HOST:PORT, or auto (default: a connection that is there, RAY_ADDRESS, or Ray
                  on this machine for as long as the answers are read)

        Iterate over it for one Match after the other, each computed when it is reached, take
        ``columns()``, ``to_dataframe()`` or ``to_arrow()``, or ``write`` them to a file. A match is
        an occurrence of a state; a state that is not found in a history has none there.
        """
        teachers = as_teachers(like)
        if teachers:
            vocabulary = taught(vocabulary, teachers)
        if vocabulary is None:
            raise InputError("give a vocabulary, or findings to learn from")
        words = not teachers or vocabulary.features is not None
        self._check_vocabulary(vocabulary, words)
        centre = None if words else looks(teachers)
        check_engine(engine, ray_address)
        plan = Plan.of(None, readout)  # refuses a readout that is not known
        query_directions(vocabulary, plan.coordinates, plan.readout.query_pooling)
        if top is not None and not is_count(top, 1):
            raise InputError(f"top {top}: give the number of histories, 1 or more")
        if not is_count(threads, 1):
            raise InputError(f"threads {threads} must be at least 1")
        with index.snapshot(self.path) as now:
            index.condition(now, where)  # refuses names that are not known
        query = Query(self, Asked(vocabulary, readout, trust), top, where, centre)
        return Matches(query.chunks(threads, engine, ray_address, progress), self.path)

    def _check_vocabulary(self, vocabulary: Vocabulary, words: bool = True) -> None:
        if vocabulary.features is None and words:
            raise self._error(
                "a store selects histories by words, but the vocabulary has no text features; "
                "encode its descriptions with the encoder of the store, or give findings to learn "
                "from"
            )
        if vocabulary.frame_examples or vocabulary.changes:
            remedy = "query a store with words, pictures or frames of named histories"
            raise InputError(f"examples given as frames belong to one history; {remedy}")
        same, encoder = "encode both with the same encoder", vocabulary.encoder
        name = "the vocabulary" if words else "the teachers"
        if None not in (self.encoder, encoder) and self.encoder != encoder:
            problem = f'histories were encoded with "{self.encoder}", but {name} with '
            raise self._error(f'{problem}"{encoder}"; {same}')
        dimension = vocabulary.dimension
        if self.dimension not in (None, dimension):
            raise self._error(f"has {self.dimension} dimensions, but {name} {dimension}; {same}")

    def cache(self, place: int, history: History, source: str | None) -> None:
        """Keep a history and its source for the next query, as far as they fit, by segment and
        slot, which are never given again."""
        size = len(history) + HISTORY_AS_FRAMES
        if self._cached_frames + size <= MAX_CACHED_FRAMES:
            self.cached[place] = history, source
            self._cached_frames += size

    def forget_but(self, numbers: set[int]) -> None:
        """Let go of segments other than these, so that their bytes are freed."""
        for number in self._mapped.keys() - numbers:
            del self._mapped[number]
            self.cached.clear()
            self._cached_frames = 0

    def segment(self, number: int, rows: int, histories: int) -> Segment:
        """Map a segment once, and again where it has grown."""
        known = self._mapped.get(number)
        if known is None or len(known.rows) < rows:
            folder, dimension = self.path / "segments", self.dimension
            assert dimension is not None
            known = self._mapped[number] = Segment(
                mapped(row_path(folder, number), self.dtype, dimension, rows),
                mapped(mean_path(folder, number), MEANS, dimension, histories),
            )
        return known


def _is_unicode(text: str) -> bool:
    """Return whether SQLite can store it: names of files may have bytes that are no letters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _of(texts: Text, id: str) -> str | None:
    return texts.get(id) if isinstance(texts, Mapping) else texts


def _settle(now: sqlite3.Connection, ids: Iterable[str]) -> None:
    now.executemany("DELETE FROM failures WHERE id = ?", ((id,) for id in ids))


def _span_s(history: History) -> tuple[float, float] | None:
    """Return the seconds [start_s, end_s) of a history; a single frame has no known end."""
    times_s = history.times_s
    if times_s is None:
        return None
    if len(history.run_offsets) == 2 and history.frame_interval_s is not None:
        # the median frame lasts this long, as stored: a million histories are listed in a minute
        return float(times_s[0]), float(times_s[-1]) + history.frame_interval_s
    ends_s = history.ends_of(np.array([len(history) - 1]))
    return float(times_s[0]), float((times_s if ends_s is None else ends_s)[-1])
