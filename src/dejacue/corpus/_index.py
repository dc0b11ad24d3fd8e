"""The index of a store: one SQLite file (WAL), in which every change is one transaction.

Readers see the store as it was when they began and are never blocked; there is one writer at a
time, and a lock of SQLite's, which ends with the process, refuses a second one.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from dejacue.atomic import left_folder, name_new, temporary_folder
from dejacue.errors import InputError, unknown

NAME = "index.sqlite"
# not "ingest --replace", which skips a history made from the same video with the same options
REMEDY = "remove it with dejacue store rm, then add or ingest it again"
UNFINISHED = f".{NAME}."  # prefix of what a killed create has left
VERSION = 3
APPLICATION = 0x64656A61  # "deja": tells it from other SQLite files
MAX_COUNT = 1 << 40  # of rows, histories or segments
WAIT_S = 1.0  # for another writer
COLUMNS = ("id", "object", "source")  # that ``where`` looks at; other names lie in made_with
Row = TypeVar("Row", bound=Iterable[object])
_TABLES = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE segments (
    number INTEGER PRIMARY KEY AUTOINCREMENT, rows INTEGER NOT NULL, histories INTEGER NOT NULL
);
CREATE TABLE histories (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL, dead INTEGER NOT NULL DEFAULT 0,
    segment INTEGER NOT NULL, first INTEGER NOT NULL, length INTEGER NOT NULL,
    slot INTEGER NOT NULL, checksum INTEGER NOT NULL, object TEXT, source TEXT, interval_s REAL,
    made_with TEXT, runs BLOB NOT NULL, times_s BLOB, source_frames BLOB, presence BLOB
);
CREATE UNIQUE INDEX living ON histories (id) WHERE dead = 0;
CREATE INDEX places ON histories (segment, slot) WHERE dead = 0;
CREATE TABLE thumbnails (
    history INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, jpeg BLOB NOT NULL
);
CREATE TABLE failures (id TEXT PRIMARY KEY, source TEXT, what TEXT NOT NULL);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""


class Busy(InputError):
    """Another process is writing to the store; try again later."""


def create(folder: Path, meta: Mapping[str, str]) -> None:
    """Make an index in a private folder, then give it its name, unless another has it: of two that
    create a store at once one succeeds, and the other gets FileExistsError."""
    with sqlite_errors(folder), temporary_folder(folder / NAME) as private:
        index = private / NAME
        with contextlib.closing(sqlite3.connect(index, isolation_level=None)) as connection:
            connection.executescript(_TABLES)
            connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            connection.execute("PRAGMA journal_mode = WAL")
        name_new(index, folder / NAME)


def check_writable(folder: Path) -> None:
    """Refuse to write to a disc, share or folder that may only be read."""
    if not os.access(folder, os.W_OK):
        raise _read_only(folder)


def _read_only(folder: Path) -> InputError:
    return InputError(f"{folder}: is read-only; copy the store to a place that can be written to")


def connect(folder: Path, write: bool = False) -> sqlite3.Connection:
    """Open a new connection; refuse what is no store, or one of another version."""
    path = folder / NAME
    if folder.is_file():
        raise InputError(f"{folder}: is a file, but a store is a folder; give the folder")
    if not path.is_file():
        raise InputError(f"{folder}: is not a store; create one with dejacue store add {folder}")
    mode = "mode=rw"
    if write:
        check_writable(folder)
    elif not os.access(folder, os.W_OK):
        mode = "mode=ro" if (folder / f"{NAME}-wal").exists() else "immutable=1"
    with sqlite_errors(folder):
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?{mode}",
            uri=True,
            timeout=WAIT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            (application,), (version,) = (
                connection.execute(f"PRAGMA {name}").fetchone()
                for name in ("application_id", "user_version")
            )
            if application != APPLICATION:
                raise InputError(f"{path}: is an SQLite file, but not that of a store")
            if version != VERSION:
                problem = f"is a store of version {version}, not {VERSION}: made by another "
                raise InputError(f"{folder}: {problem}version of dejacue; make it again")
            # a view in place of a table may have rows without end, and a trigger do anything
            if _declared(connection) != _schema():
                raise sqlite3.DatabaseError("its tables are not those of a store")
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
    return connection


@functools.cache
def _schema() -> frozenset[str]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(_TABLES)
        return _declared(connection)


def _declared(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the SQL of tables and whatever else is declared, except SQLite's own tables."""
    internal = "type = 'table' AND name GLOB 'sqlite_*'"
    query = f"SELECT sql FROM sqlite_master WHERE sql NOTNULL AND NOT ({internal})"
    return frozenset(" ".join(str(sql).split()) for (sql,) in connection.execute(query))


@contextlib.contextmanager
def sqlite_errors(folder: Path) -> Iterator[None]:
    """Raise errors of SQLite as InputError, Busy or OSError that name the store."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # of a text that is damaged
        message, code = str(error), getattr(error, "sqlite_errorcode", 0)
        if "closed" in message:
            raise InputError(f"{folder}: this store is closed; open it again") from None
        if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            problem = "another process is writing to this store"
            raise Busy(f"{folder}: {problem}; wait until it has finished") from None
        if code & 0xFF == sqlite3.SQLITE_READONLY:
            raise _read_only(folder) from None
        if code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from None
        if code & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR):
            check_writable(folder)
            raise OSError(errno.EIO, f"the index cannot be used ({message})", str(folder)) from None
        remedy = "restore the store from a copy, or create it again"
        raise InputError(f"{folder / NAME}: the index is damaged ({message}); {remedy}") from None


@contextlib.contextmanager
def snapshot(folder: Path) -> Iterator[sqlite3.Connection]:
    """Read the store as it is now, whatever is written meanwhile."""
    with sqlite_errors(folder), contextlib.closing(connect(folder)) as connection:
        connection.execute("BEGIN")
        yield connection


@contextlib.contextmanager
def transaction(folder: Path) -> Iterator[sqlite3.Connection]:
    """Become the only writer, and commit everything or nothing."""
    with sqlite_errors(folder), contextlib.closing(connect(folder, write=True)) as connection:
        with left_folder(folder / NAME):
            pass  # it was left by a creator that was killed
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


def meta(index: sqlite3.Connection) -> dict[str, str]:
    # before meta: another process may add the first history between the two
    filled = index.execute("SELECT 1 FROM segments").fetchone()
    values = dict(index.execute("SELECT key, value FROM meta"))
    if not all(isinstance(value, str) for value in values.values()):
        raise sqlite3.DatabaseError("meta that is no text")
    dimension = values.get("dimension", "")
    known = dimension.isascii() and dimension.isdigit() and len(dimension) < 9 and int(dimension)
    if not known and (dimension or filled):
        raise sqlite3.DatabaseError("no dimension")
    return values


def sizes(index: sqlite3.Connection) -> list[tuple[int, int, int]]:
    """Return number, rows and histories of each segment."""
    query = "SELECT number, rows, histories FROM segments ORDER BY number"
    return [check_counts(row) for row in index.execute(query)]


def check_counts(row: Row) -> Row:
    """Return a row of counts: SQLite keeps anything in any column, and files get damaged."""
    if not all(type(count) is int and 0 <= count < MAX_COUNT for count in row):
        raise sqlite3.DatabaseError("an impossible number")
    return row


def check_texts(row: Sequence[Any], optional: int = 0) -> Sequence[Any]:
    """Return a row of texts, of which the last ``optional`` ones may be None."""
    for at, text in enumerate(row):
        if not isinstance(text, str) and not (text is None and at >= len(row) - optional):
            raise sqlite3.DatabaseError(f"{text!r:.40} is not text")
    return row


def condition(index: sqlite3.Connection, where: Mapping[str, str] | None) -> tuple[str, list[str]]:
    """Return SQL and its values for the histories that match: {"source": "kitchen*"}."""
    parts, values = ["dead = 0"], []
    for name, pattern in (where or {}).items():
        if not isinstance(name, str) or not isinstance(pattern, str):
            problem = f"where {name!r:.40}: give names and texts, as in {{'source': 'kitchen*'}}"
            raise InputError(problem)
        if name in COLUMNS:
            parts.append(f"{name} GLOB ?")
        else:
            path = "$." + '"{}"'.format(name.replace('"', ""))
            query = "SELECT 1 FROM histories WHERE json_extract(made_with, ?) NOTNULL"
            if index.execute(query, (path,)).fetchone() is None:
                keys = (
                    "SELECT DISTINCT entry.key FROM histories, json_each(made_with) AS entry "
                    "WHERE dead = 0"
                )
                names = [*COLUMNS, *(key for (key,) in index.execute(keys) if isinstance(key, str))]
                raise unknown("name in where", name, names)
            parts.append("json_extract(made_with, ?) GLOB ?")
            values.append(path)
        values.append(pattern)
    return " AND ".join(parts), values
