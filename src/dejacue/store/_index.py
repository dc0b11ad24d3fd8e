"""The index of a store: one SQLite file (WAL), in which every change is one transaction.

Readers see the store as it was when they began and are never blocked; there is one writer at a
time, and a lock of SQLite's, which ends with the process, tells a second one so.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dejacue.errors import InputError, unknown

NAME = "index.sqlite"
# --replace of ingest leaves what was made of the same
REMEDY = "remove it with dejacue store rm, then add or ingest it again"
UNFINISHED = f".{NAME}"  # how files begin that a killed create has left
VERSION = 3
APPLICATION = 0x64656A61  # "deja": what tells it from other SQLite files
MOST = 1 << 40  # rows of a segment
WAIT_S = 1.0  # for another writer
COLUMNS = ("id", "object", "source")  # that ``where`` looks at; other names are those of made_with
_FIRST = f"""
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
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = 1;
"""
# What later versions have added, by version. A writer adds it to a store that was made before, and
# readers of such a store do without it.
_LATER = {
    2: """
CREATE TABLE thumbnails (
    history INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, jpeg BLOB NOT NULL
)""",
    3: "CREATE TABLE failures (id TEXT PRIMARY KEY, source TEXT, what TEXT NOT NULL)",
}


class Busy(InputError):
    """Somebody else is writing."""


def create(folder: Path, meta: Mapping[str, str]) -> None:
    """Made under another name first: it is there whole, or not at all."""
    temporary = folder / f"{UNFINISHED}.dejacue-tmp"
    for left in folder.glob(f"{UNFINISHED}*"):  # with SQLite's own files beside it
        left.unlink()
    with contextlib.closing(sqlite3.connect(temporary, isolation_level=None)) as made:
        made.executescript(_FIRST)
        _update(made)
        made.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        made.execute("PRAGMA journal_mode = WAL")
    os.replace(temporary, folder / NAME)


def connect(folder: Path, write: bool = False) -> sqlite3.Connection:
    """A connection of one's own; refuses what is no store, or one of a newer version."""
    path = folder / NAME
    if folder.is_file():
        raise InputError(f"{folder}: is a file, but a store is a folder; give the folder")
    if not path.is_file():
        raise InputError(f"{folder}: is not a store; create one with dejacue store add {folder}")
    mode = "mode=rw"
    if not write and not os.access(folder, os.W_OK):  # a disc or share that may only be read
        mode = "mode=ro" if (folder / f"{NAME}-wal").exists() else "immutable=1"
    with told(folder):
        made = sqlite3.connect(
            f"file:{quote(str(path))}?{mode}",
            uri=True,
            timeout=WAIT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            (own,), (version,) = (
                made.execute(f"PRAGMA {name}").fetchone()
                for name in ("application_id", "user_version")
            )
            if own != APPLICATION:
                raise InputError(f"{path}: is an SQLite file, but not that of a store")
            if version > VERSION:
                raise InputError(
                    f"{folder}: is a store of version {version}, but this dejacue reads versions "
                    f"up to {VERSION}; update dejacue"
                )
            made.execute("PRAGMA synchronous = FULL")
        except BaseException:
            made.close()
            raise
    return made


@contextlib.contextmanager
def told(folder: Path) -> Iterator[None]:
    """Says in a sentence what SQLite says in its own words."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # of a text that is damaged
        said = str(error)
        if "closed" in said:
            raise InputError(f"{folder}: this store is closed; open it again") from None
        if "locked" in said or "busy" in said:
            raise Busy(
                f"{folder}: another process is writing to this store; wait until it has finished"
            ) from None
        if "readonly" in said:
            raise InputError(f"{folder}: is not writable; copy the store") from None
        if "is full" in said:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from None
        raise InputError(
            f"{folder / NAME}: the index is damaged ({said}); restore the store from a copy, or "
            "create it again"
        ) from None


@contextlib.contextmanager
def snapshot(folder: Path) -> Iterator[sqlite3.Connection]:
    """The store as it is now, whatever is written meanwhile."""
    with told(folder), contextlib.closing(connect(folder)) as made:
        made.execute("BEGIN")
        yield made


@contextlib.contextmanager
def transaction(folder: Path) -> Iterator[sqlite3.Connection]:
    """The one writer: everything that is done in it, or nothing."""
    with told(folder), contextlib.closing(connect(folder, write=True)) as made:
        made.execute("BEGIN IMMEDIATE")
        try:
            _update(made)
            yield made
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                made.execute("ROLLBACK")
            raise
        made.execute("COMMIT")


def _update(made: sqlite3.Connection) -> None:
    (version,) = made.execute("PRAGMA user_version").fetchone()
    for later in range(version + 1, VERSION + 1):
        made.execute(_LATER[later])
        made.execute(f"PRAGMA user_version = {later}")


def has(index: sqlite3.Connection, table: str) -> bool:
    """Whether the store is of a version that has this table."""
    known = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return index.execute(known, (table,)).fetchone() is not None


def meta(index: sqlite3.Connection) -> dict[str, str]:
    found = dict(index.execute("SELECT key, value FROM meta"))
    if not all(isinstance(own, str) for own in found.values()):
        raise sqlite3.DatabaseError("meta that is no text")
    dimension = found.get("dimension", "")
    known = dimension.isascii() and dimension.isdigit() and int(dimension[:9]) > 0
    if not known and (dimension or index.execute("SELECT 1 FROM segments").fetchone()):
        raise sqlite3.DatabaseError("no dimension")
    return found


def sizes(index: sqlite3.Connection) -> list[tuple[int, int, int]]:
    """Number, rows and histories of each segment."""
    found = index.execute("SELECT number, rows, histories FROM segments ORDER BY number").fetchall()
    for own in found:
        whole(own)
    return found


def whole(numbers: Sequence[Any]) -> Sequence[int]:
    """These, if they are counts: SQLite keeps anything in any column, and files get damaged."""
    if not all(type(own) is int and 0 <= own < MOST for own in numbers):
        raise sqlite3.DatabaseError("an impossible number")
    return numbers


def record(index: sqlite3.Connection, failures: Iterable[tuple[str, str | None, str]]) -> None:
    """What could not be added, and why; the last reason counts."""
    index.executemany("INSERT OR REPLACE INTO failures VALUES (?, ?, ?)", failures)


def settle(index: sqlite3.Connection, ids: Iterable[str]) -> None:
    """These are no failures any more."""
    index.executemany("DELETE FROM failures WHERE id = ?", ((id,) for id in ids))


def condition(index: sqlite3.Connection, where: Mapping[str, str] | None) -> tuple[str, list[str]]:
    """SQL for histories that are there and look so: {"source": "kitchen*"}, all of them."""
    parts, values = ["dead = 0"], []
    for name, pattern in (where or {}).items():
        if not isinstance(name, str) or not isinstance(pattern, str):
            raise InputError(
                f"where {name!r:.40}: give names and texts, as in {{'source': 'kitchen*'}}"
            )
        if name in COLUMNS:
            parts.append(f"{name} GLOB ?")
        else:
            path = "$." + '"{}"'.format(name.replace('"', ""))
            have = (
                "SELECT EXISTS (SELECT 1 FROM histories WHERE json_extract(made_with, ?) NOTNULL)"
            )
            if not index.execute(have, (path,)).fetchone()[0]:
                raise unknown("name in where", name, _names(index))
            parts.append("json_extract(made_with, ?) GLOB ?")
            values.append(path)
        values.append(pattern)
    return " AND ".join(parts), values


def _names(index: sqlite3.Connection) -> list[str]:
    keys = "SELECT DISTINCT own.key FROM histories, json_each(made_with) AS own WHERE dead = 0"
    return [*COLUMNS, *(key for (key,) in index.execute(keys))]
