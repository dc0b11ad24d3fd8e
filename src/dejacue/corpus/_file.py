"""The SQLite file of a store: its tables, how it is opened, and how a history lies in it.

Readers see the store as it was when they began and are never blocked; there is one writer at a
time, and a lock of SQLite's, which ends with the process, refuses a second one. The file is never
opened without SQLite: closing it would drop the locks that this process holds on it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from dejacue.atomic import missing_folders, remove_empty, unwritten
from dejacue.errors import InputError, shortened, unknown
from dejacue.records import History
from dejacue.records.fields import MAX_FRAME
from dejacue.records.history import COLUMNS

# not "ingest --replace", which skips a history made from the same video with the same options
REMEDY = "remove it with dejacue store rm, then add or ingest it again"
VERSION = 4
APPLICATION = 0x64656A61  # "deja": tells it from other SQLite files
PAGE_BYTES = 32768  # features of 460 kB are read at 16 GB/s; of pages of 4096 bytes, at 13
MMAP_BYTES = 1 << 40  # SQLite maps as much of it as it was compiled for, 2 GB mostly
PART_BYTES = 256 << 20  # of features in one row of their table: SQLite allows 1 GB
MEANS_BLOCK = 256  # mean rows in one row of their table
MEANS = np.dtype("<f4")
FLOAT16_NORMS = (0.1, 1000.0)  # lengths of rows that float16 holds well
WAIT_S = 1.0  # for another writer
LABELS = ("id", "object", "source")  # that ``where`` looks at; other names lie in made_with
TABLES = (
    "CREATE TABLE store (dtype TEXT NOT NULL, encoder TEXT, dimension INTEGER) STRICT",
    # AUTOINCREMENT: a number is never given twice, since it also says where the mean row lies
    """CREATE TABLE histories (
        number INTEGER PRIMARY KEY AUTOINCREMENT, checksum INTEGER NOT NULL,
        id TEXT NOT NULL UNIQUE, object TEXT, source TEXT, made_with TEXT, interval_s REAL,
        frames BLOB NOT NULL, times_s BLOB, source_frames BLOB, presence BLOB
    ) STRICT""",
    # in tables of their own, so that lists and rankings read none of them; part: the number of the
    # history · 1024 + 0, 1, … (WITHOUT ROWID, whole rows would be read to compare their keys)
    "CREATE TABLE features (part INTEGER PRIMARY KEY, rows BLOB NOT NULL) STRICT",
    "CREATE TABLE thumbnails (history INTEGER PRIMARY KEY, jpeg BLOB NOT NULL) STRICT",
    """CREATE TRIGGER removed AFTER DELETE ON histories BEGIN
        DELETE FROM features WHERE part BETWEEN old.number << 10 AND (old.number << 10) + 1023;
        DELETE FROM thumbnails WHERE history = old.number;
    END""",
    # of the histories 1 … 256, 257 … 512, …: one row each, the mean of its frames at unit length
    "CREATE TABLE means (block INTEGER PRIMARY KEY, rows BLOB NOT NULL) STRICT",
    "CREATE TABLE failures (id TEXT PRIMARY KEY, source TEXT, what TEXT NOT NULL) STRICT",
)


class Busy(InputError):
    """Another process is writing to the store; try again later."""


class StoreExists(InputError):
    """Another process may have just created it: open it."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: is already a store; give a new file, or histories to add")


def create(path: Path, dtype: str, encoder: str | None) -> None:
    """Make an empty store in one transaction: of two that create it at once, one succeeds."""
    new_folders, new = missing_folders(path.parent), not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with sqlite_errors(path), contextlib.closing(_connection(path, "mode=rwc")) as now:
            now.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            now.execute("BEGIN IMMEDIATE")
            if now.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
                _check_kind(path, now)
                raise StoreExists(path)
            for statement in TABLES:
                now.execute(statement)
            now.execute(f"PRAGMA application_id = {APPLICATION}")
            now.execute(f"PRAGMA user_version = {VERSION}")
            now.execute("INSERT INTO store VALUES (?, ?, NULL)", (dtype, encoder))
            now.execute("COMMIT")
            now.execute("PRAGMA journal_mode = WAL")
    except OSError as error:
        if new and path.is_file() and not path.stat().st_size:
            path.unlink()
        remove_empty(new_folders)
        raise unwritten(error, path) from None


def check_writable(path: Path) -> None:
    """Refuse to write to a file, or on a disk or share, that may only be read."""
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise _read_only(path)


def _read_only(path: Path) -> InputError:
    return InputError(f"{path}: is read-only; copy the store to a place that can be written to")


def connect(path: Path, write: bool = False) -> sqlite3.Connection:
    """Open a new connection; refuse what is no store, or one of another version."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder, but a store is a file; give the file")
    if not path.is_file():
        raise InputError(f"{path}: is not a store; create one with dejacue store add {path}")
    mode = "mode=rw"
    if write:
        check_writable(path)
    elif not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    with sqlite_errors(path):
        now = _connection(path, mode)
        try:
            _check_kind(path, now)
            # a view in place of a table may have rows without end, and a trigger do anything
            declared = (
                "SELECT sql FROM sqlite_master WHERE sql NOTNULL AND name != 'sqlite_sequence'"
            )
            if {sql for (sql,) in now.execute(declared)} != set(TABLES):
                raise sqlite3.DatabaseError("its tables are not those of a store")
            now.execute(f"PRAGMA mmap_size = {MMAP_BYTES}")
            now.execute("PRAGMA synchronous = FULL")
            now.execute("PRAGMA secure_delete = OFF")  # which would write all that is removed again
        except BaseException:
            now.close()
            raise
    return now


def _connection(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(os.path.abspath(path))}?{mode}",
        uri=True,
        timeout=WAIT_S,
        isolation_level=None,
        check_same_thread=False,
    )


def _check_kind(path: Path, now: sqlite3.Connection) -> None:
    (application,), (version,) = (
        now.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    if application != APPLICATION:
        raise InputError(f"{path}: is an SQLite file, but not a store; give another file")
    if version != VERSION:
        problem = f"is a store of version {version}, not {VERSION}: made by another"
        raise InputError(f"{path}: {problem} version of dejacue; make it again")


@contextlib.contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Raise errors of SQLite as InputError, Busy or OSError that name the store."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # of a text that is damaged
        message, code = str(error), getattr(error, "sqlite_errorcode", 0)
        if "closed" in message:
            raise InputError(f"{path}: this store is closed; open it again") from None
        if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            problem = "another process is writing to this store"
            raise Busy(f"{path}: {problem}; wait until it has finished") from None
        if code & 0xFF == sqlite3.SQLITE_READONLY:
            raise _read_only(path) from None
        if code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None
        if code & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR):
            check_writable(path)
            raise OSError(errno.EIO, f"cannot be used ({message})", str(path)) from None
        if code & 0xFF == sqlite3.SQLITE_NOTADB:
            raise InputError(f"{path}: is not a store; give another file") from None
        remedy = "restore the store from a copy, or create it again"
        raise InputError(f"{path}: is damaged ({message}); {remedy}") from None


@contextlib.contextmanager
def snapshot(path: Path) -> Iterator[sqlite3.Connection]:
    """Read the store as it is now, whatever is written meanwhile."""
    with sqlite_errors(path), contextlib.closing(connect(path)) as now:
        now.execute("BEGIN")
        yield now


@contextlib.contextmanager
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection to write with; in the end, what was written moves into the file itself,
    as far as no reader needs what was there before."""
    try:
        with sqlite_errors(path), contextlib.closing(connect(path, write=True)) as now:
            now.execute("PRAGMA journal_mode = WAL")
            try:
                yield now
            finally:
                # it is committed, or rolled back: a disk that is full now changes nothing
                with contextlib.suppress(sqlite3.Error):
                    now.execute("PRAGMA busy_timeout = 0")
                    now.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except OSError as error:
        raise unwritten(error, path, created=True) from None


@contextlib.contextmanager
def transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """Become the only writer, and commit everything or nothing."""
    with writer(path) as now:
        now.execute("BEGIN IMMEDIATE")
        try:
            yield now
            now.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                now.execute("ROLLBACK")
            raise


def condition(now: sqlite3.Connection, where: Mapping[str, str] | None) -> tuple[str, list[str]]:
    """Return SQL and its values for the histories that match: {"source": "kitchen*"}."""
    parts, values = ["TRUE"], []
    for name, pattern in (where or {}).items():
        if not isinstance(name, str) or not isinstance(pattern, str):
            problem = f"where {name!r:.40}: give names and texts, as in {{'source': 'kitchen*'}}"
            raise InputError(problem)
        if name in LABELS:
            parts.append(f"{name} GLOB ?")
        else:
            path = "$." + '"{}"'.format(name.replace('"', ""))
            query = "SELECT 1 FROM histories WHERE json_extract(made_with, ?) NOTNULL"
            if now.execute(query, (path,)).fetchone() is None:
                keys = "SELECT DISTINCT entry.key FROM histories, json_each(made_with) AS entry"
                names = [*LABELS, *(key for (key,) in now.execute(keys) if isinstance(key, str))]
                raise unknown("name in where", name, names)
            parts.append("json_extract(made_with, ?) GLOB ?")
            values.append(path)
        values.append(pattern)
    return " AND ".join(parts), values


class Entry(NamedTuple):
    """Columns of the table of histories; arrays as little-endian bytes."""

    id: str
    object: str | None
    source: str | None
    made_with: str | None
    interval_s: float | None
    frames: bytes
    times_s: bytes | None
    source_frames: bytes | None
    presence: bytes | None


def packed(history: History, object: str | None, source: str | None) -> Entry:
    """Pack a history; what an export has put into made_with is a column again."""
    made_with = dict(history.made_with or {})
    exported = made_with.pop("object", None), made_with.pop("source", None)
    as_it_was = exported == (None, None) and history.made_with is not None
    return Entry(
        history.id,
        exported[0] if object is None else object,
        exported[1] if source is None else source,
        json.dumps(made_with) if made_with or as_it_was else None,
        history.frame_interval_s,
        history.frames.astype("<i8", copy=False).tobytes(),
        _bytes(history.times_s, "<f8"),
        _bytes(history.source_frames, "<i8"),
        _bytes(history.presence, "<f8"),
    )


def _bytes(values: NDArray[Any] | None, dtype: str) -> bytes | None:
    return None if values is None else values.astype(dtype, copy=False).tobytes()


NAMES = ", ".join(Entry._fields)


def read_history(now: sqlite3.Connection, number: int) -> tuple[Entry, bytes] | None:
    """Return the columns and the features of a history."""
    query = (
        f"SELECT {NAMES}, rows FROM histories LEFT JOIN features "
        "ON part BETWEEN number << 10 AND (number << 10) + 1023 WHERE number = ? ORDER BY part"
    )
    found = now.execute(query, (number,)).fetchall()
    if not found:
        return None
    return Entry(*found[0][:-1]), b"".join(row[-1] or b"" for row in found)


def unpacked(
    store: Path,
    entry: Entry,
    data: bytes | None,
    dtype: np.dtype[Any],
    dimension: int,
    encoder: str | None,
) -> History:
    """Return a history of these features (None: without). What it has was checked when it was
    added; only what could be read wrongly without a word is checked again."""
    try:
        frames = np.frombuffer(entry.frames, "<i8")
        count, steps = len(frames), frames[1:] - frames[:-1]
        if not -MAX_FRAME <= frames[0] <= frames[-1] <= MAX_FRAME:
            raise ValueError
        if count > 1 and steps.min() < 1:
            raise ValueError
        rows = np.empty((count, 0), dtype)
        if data is not None:
            rows = np.frombuffer(data, dtype).reshape(count, dimension)
        offsets = np.concatenate(([0], np.flatnonzero(steps != 1) + 1, [count]))
        offsets.flags.writeable = False
        columns = {
            "times_s": _column(entry.times_s, "<f8", count),
            "source_frames": _column(entry.source_frames, "<i8", count),
            "presence": _column(entry.presence, "<f8", count),
        }
        if entry.interval_s is not None and not 0 < entry.interval_s < math.inf:
            raise ValueError
        if not all(isinstance(text, str | None) for text in entry[1:4]):
            raise ValueError
        if not isinstance(entry.id, str):
            raise ValueError
    except (ValueError, TypeError, IndexError):
        raise damaged(store, entry.id) from None
    made_with = entry.made_with
    return History.trusted(
        features=rows,
        frames=frames,
        run_offsets=offsets,
        id=entry.id,
        encoder=encoder,
        **columns,
        frame_interval_s=entry.interval_s,
        made_with=None if made_with is None else read_made_with(store, entry.id, made_with),
    )


def _column(data: bytes | None, dtype: str, count: int) -> NDArray[Any] | None:
    if data is None:
        return None
    values = np.frombuffer(data, dtype)
    if len(values) != count:
        raise ValueError
    return values


def damaged(store: Path, id: object) -> InputError:
    return InputError(f'{store}: history "{shortened(str(id))}" is damaged; {REMEDY}')


def read_made_with(store: Path, id: str, text: str | None) -> dict[str, str]:
    try:
        made_with = json.loads(text or "{}")
        if isinstance(made_with, dict) and all(isinstance(v, str) for v in made_with.values()):
            return made_with
    except (TypeError, ValueError, RecursionError):
        pass
    raise damaged(store, id)


def manifest_columns(store: Path, id: str, text: str | None) -> dict[str, str]:
    """Return the values in ``made_with`` that are columns of a manifest: {"camera": "left"}."""
    if not isinstance(text, str) or f'"{COLUMNS}"' not in text:  # most have none
        return {}
    made_with = read_made_with(store, id, text)
    names = made_with.get(COLUMNS, "").split("\n")
    return {name: made_with[name] for name in names if name in made_with}


def stored_rows(
    features: NDArray[Any], dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Return the rows in the type of the store, and their mean direction.

    Rows that float16 would not hold are brought to unit length: only their direction matters.
    """
    rows: NDArray[Any] = features
    if features.dtype != dtype:
        rows = np.empty(features.shape, dtype)
    mean = np.zeros(features.shape[1], np.float32)
    for first in range(0, len(features), 1024):
        part = slice(first, first + 1024)
        block = _wide(features[part])
        norms = np.sqrt(np.einsum("nd,nd->n", block, block))
        mean += (1 / norms) @ block
        if rows is not features:
            safe = (norms > FLOAT16_NORMS[0]) & (norms < FLOAT16_NORMS[1])
            rows[part] = block if safe.all() else block / np.where(safe, 1, norms)[:, None]
    mean /= len(features)
    return rows, mean


def _wide(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return rows as float32. Finite float16 are moved bit by bit, which is exact and several times
    faster than astype: sign, exponent and fraction to their places, then 2^(127 − 15) for the other
    bias."""
    if rows.dtype != np.float16:
        return rows.astype(np.float32, copy=False)
    bits = rows.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= np.int32(-0x70002000)
    wide = bits.view(np.float32)
    wide *= np.float32(2.0**112)
    return wide


def checksum(rows: bytes | memoryview, mean: bytes, jpeg: bytes | None, entry: Entry) -> int:
    """Return the CRC-32 of all that is kept of a history."""
    crc = zlib.crc32(mean, zlib.crc32(rows))
    for value in (jpeg, *entry):
        data = value if isinstance(value, bytes) else repr(value).encode("utf-8", "replace")
        crc = zlib.crc32(data, crc)
    return crc


def insert(
    now: sqlite3.Connection,
    entry: Entry,
    features: NDArray[Any],
    dtype: np.dtype[Any],
    jpeg: bytes | None,
) -> tuple[int, bytes]:
    """Write a history, and return its number and its mean row."""
    rows, direction = stored_rows(features, dtype)
    mean, data = direction.tobytes(), np.ascontiguousarray(rows).reshape(-1).view("u1").data
    columns = (checksum(data, mean, jpeg, entry), *entry)
    query = f"INSERT INTO histories (checksum, {NAMES}) VALUES (?{', ?' * len(entry)})"
    number = now.execute(query, columns).lastrowid
    assert number is not None
    for part, first in enumerate(range(0, len(data), PART_BYTES), number << 10):
        some = data[first : first + PART_BYTES]
        now.execute("INSERT INTO features VALUES (?, ?)", (part, some))
    if jpeg is not None:
        now.execute("INSERT INTO thumbnails VALUES (?, ?)", (number, jpeg))
    return number, mean


def is_sound(now: sqlite3.Connection, number: int, size: int, blocks: dict[int, bytes]) -> bool:
    """Return whether a history is as it was written. blocks: that of its mean row, which is kept
    here for the next one; size: bytes of a mean row."""
    block, at = divmod(number - 1, MEANS_BLOCK)
    if block not in blocks:
        blocks.clear()
        query = "SELECT rows FROM means WHERE block = ?"
        (blocks[block],) = now.execute(query, (block,)).fetchone() or (b"",)
    query = (
        "SELECT checksum, (SELECT jpeg FROM thumbnails WHERE history = number) "
        "FROM histories WHERE number = ?"
    )
    expected, jpeg = now.execute(query, (number,)).fetchone() or (None, None)
    entry, data = read_history(now, number) or (None, b"")
    mean = blocks[block][at * size : (at + 1) * size]
    return entry is not None and checksum(data, mean, jpeg, entry) == expected


def append_means(now: sqlite3.Connection, last: int, means: Sequence[bytes]) -> None:
    """Write the mean rows of the histories up to the number ``last``, all of one block."""
    first = last - len(means) + 1
    block, at = divmod(first - 1, MEANS_BLOCK)
    before = now.execute("SELECT rows FROM means WHERE block = ?", (block,)).fetchone() or (b"",)
    # ljust: compact removes a block of which nothing is left
    data = before[0].ljust(at * len(means[0]), b"\0") + b"".join(means)
    now.execute("INSERT OR REPLACE INTO means VALUES (?, ?)", (block, data))
