"""What changes a store: each call is one transaction, of one writer at a time."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as replaced
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dejacue.errors import InputError, shortened
from dejacue.progress import Progress
from dejacue.records import History
from dejacue.sources.atomic import unwritten
from dejacue.sources.encoders import ENCODERS, FAMILIES
from dejacue.store import _index as index
from dejacue.store._packing import NAMES, Packed, checksum, packed, stored_rows
from dejacue.store._segments import SegmentWriter, gone, remove_others
from dejacue.store._thumbnails import put

if TYPE_CHECKING:
    from dejacue.store._store import Store

Text = str | None | Mapping[str, str | None]  # for all histories, or by id
_ALIVE = "SELECT 1 FROM histories WHERE id = ? AND dead = 0"
_BURY = "UPDATE histories SET dead = 1 WHERE id = ? AND dead = 0"


def is_unicode(text: str) -> bool:
    """Names of files may have bytes that are no letters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_encoder(folder: Path, encoder: str | None) -> None:
    """Refuses what no history can have."""
    if encoder is None:
        return
    if not isinstance(encoder, str) or not is_unicode(encoder) or not encoder.strip():
        raise InputError(f"{folder}: the encoder {encoder!r:.80} must be text: its identity")
    if encoder in ENCODERS or (encoder.startswith(FAMILIES) and "@" not in encoder):
        raise InputError(
            f'{folder}: "{shortened(encoder)}" is the name of an encoder, but a store needs its '
            "identity, as recorded in histories; leave it out to take it from the first history"
        )


class _Writing:
    """A transaction, and the writer of rows that belongs to it."""

    def __init__(self, store: Store, now: sqlite3.Connection) -> None:
        self.now, self._store = now, store
        self.folder = store.path / "segments"
        self.writer: SegmentWriter | None = None

    def begin(self, dimension: int, new: bool = False) -> SegmentWriter:
        """Goes on with the last segment, or begins a new one."""
        last = None if new else next(reversed(index.sizes(self.now)), None)
        self.writer = SegmentWriter(
            self.folder, self._store.dtype, dimension, last, self._new_segment, self._grown
        )
        return self.writer

    def sweep(self) -> None:
        """Removes files that no segment has: of what was killed, has failed, or was compacted."""
        numbers = {number for (number,) in self.now.execute("SELECT number FROM segments")}
        remove_others(self.folder, numbers)

    def _new_segment(self) -> int:
        made = self.now.execute("INSERT INTO segments (rows, histories) VALUES (0, 0)")
        assert made.lastrowid is not None
        return made.lastrowid

    def _grown(self, number: int, rows: int, histories: int) -> None:
        sizes = "UPDATE segments SET rows = ?, histories = ? WHERE number = ?"
        self.now.execute(sizes, (rows, histories, number))


@contextlib.contextmanager
def _writing(store: Store) -> Iterator[_Writing]:
    own = None
    try:
        with index.transaction(store.path) as now:
            own = _Writing(store, now)
            own.folder.mkdir(exist_ok=True)
            own.sweep()
            yield own
            if own.writer is not None:
                own.writer.flush()
    except OSError as error:
        raise unwritten(error, store.path, made=True) from None
    finally:
        if own is not None and own.writer is not None:
            own.writer.close()


def add(
    store: Store,
    histories: Iterable[Any],
    replace: bool,
    object: Text,
    source: Text,
    thumbnails: Mapping[str, bytes],
    progress: Progress,
    settled: Iterable[str] = (),
) -> int:
    """settled   failures that are none any more, beside those of the histories' own ids"""
    names: set[str] = set()
    for name, given in (("object", object), ("source", source)):
        for text in given.values() if isinstance(given, Mapping) else (given,):
            if text is not None and not (isinstance(text, str) and is_unicode(text)):
                raise InputError(f"{store.path}: {name} {text!r:.80} must be text")
    if not isinstance(thumbnails, Mapping):
        raise InputError(f"{store.path}: thumbnails must be a dictionary: id → bytes of a JPEG")
    with _writing(store) as own:
        known = index.meta(own.now)
        for history in histories:
            _check(store.path, history, known, names)
            if own.writer is None:
                known = _first_known(own.now, known, history)
                own.begin(history.dimension)
            assert own.writer is not None
            _make_room(store.path, own.now, history.id, replace)
            rows, mean = stored_rows(history.features, store.dtype)
            columns = _packed(history, _of(object, history.id), _of(source, history.id))
            place = own.writer.add(rows, mean)
            made = own.now.execute(
                f"INSERT INTO histories (segment, first, slot, length, checksum, {NAMES}) "
                f"VALUES ({', '.join('?' * (5 + len(columns)))})",
                (*place, len(rows), checksum(rows, mean, columns), *columns),
            )
            picture = thumbnails.get(history.id)
            if picture is not None:
                assert made.lastrowid is not None
                put(own.now, store.path, history.id, made.lastrowid, picture)
            names.add(history.id)
            progress("add", len(names))
        for id in thumbnails:
            if id not in names:
                raise InputError(
                    f'{store.path}: thumbnail of "{shortened(str(id))}", but no such history; add '
                    "a thumbnail together with its history"
                )
        index.settle(own.now, (*names, *settled))
    return len(names)


def _packed(history: History, object: str | None, source: str | None) -> Packed:
    """What an export has put into made_with is a column again."""
    made = dict(history.made_with or {})
    exported = made.pop("object", None), made.pop("source", None)
    if exported != (None, None):
        history = replaced(history, made_with=made or None)
    return packed(
        history,
        exported[0] if object is None else object,
        exported[1] if source is None else source,
    )


def _of(given: Text, id: str) -> str | None:
    return given.get(id) if isinstance(given, Mapping) else given


def record(
    store: Store, failures: Iterable[tuple[str, str | None, str]], settled: Iterable[str]
) -> None:
    try:
        with index.transaction(store.path) as now:
            index.settle(now, settled)
            index.record(now, failures)
    except OSError as error:
        raise unwritten(error, store.path, made=True) from None


def _first_known(
    now: sqlite3.Connection, known: dict[str, str], history: History
) -> dict[str, str]:
    """The first history tells the dimension, and the encoder where it is not known."""
    if "dimension" in known:
        return known
    known = known | {"dimension": str(history.dimension)}
    if history.encoder is not None:
        known["encoder"] = history.encoder
    now.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", known.items())
    return known


def _check(path: Path, history: Any, known: Mapping[str, str], names: set[str]) -> None:
    if not isinstance(history, History):
        raise InputError(
            f"{path}: a store takes histories, not {type(history).__name__}; read them with "
            "read_history"
        )
    which = f'history "{shortened(history.id)}"'
    if not is_unicode(history.id):
        raise InputError(
            f"{path}: the id {history.id!r:.80} is not valid Unicode; choose another one"
        )
    if history.id in names:
        raise InputError(f"{path}: {which} is given twice; every history needs its own id")
    wanted = known.get("encoder")
    if history.encoder != wanted and (wanted is not None or "dimension" in known):
        was, has = (
            "an unnamed encoder" if own is None else f'"{own}"' for own in (history.encoder, wanted)
        )
        raise InputError(
            f"{path}: {which} was encoded with {was}, but the store contains {has}; use one store "
            "per encoder"
        )
    if history.dimension != int(known.get("dimension", history.dimension)):
        raise InputError(
            f"{path}: {which} has {history.dimension} dimensions, but the store has "
            f"{known['dimension']}; encode it with the encoder of the store"
        )


def _make_room(path: Path, now: sqlite3.Connection, id: str, replace: bool) -> None:
    if replace:
        now.execute(_BURY, (id,))
    elif now.execute(_ALIVE, (id,)).fetchone() is not None:
        raise InputError(
            f'{path}: already has a history "{shortened(id)}"; rename it, or replace the other '
            "one: --replace, add(…, replace=True)"
        )


def remove(path: Path, ids: Sequence[str]) -> int:
    names = dict.fromkeys(ids)
    with index.transaction(path) as now:
        for id in names:
            known = isinstance(id, str) and is_unicode(id)
            if not known or not now.execute(_BURY, (id,)).rowcount:
                raise InputError(
                    f'{path}: has no history "{shortened(str(id))}", so nothing was removed'
                )
    return len(names)


def compact(store: Store) -> None:
    with _writing(store) as own:
        holds = "SELECT DISTINCT segment FROM histories WHERE dead = 1"
        old = [number for (number,) in own.now.execute(holds)]
        if not old:
            return
        own.now.execute("DELETE FROM histories WHERE dead = 1")
        own.now.execute(
            "DELETE FROM thumbnails WHERE history NOT IN (SELECT number FROM histories)"
        )
        writer = own.begin(int(index.meta(own.now)["dimension"]), new=True)
        for number in old:
            _move(store, own.now, number, writer)
            own.now.execute("DELETE FROM segments WHERE number = ?", (number,))
        left = {number for (number,) in own.now.execute("SELECT number FROM segments")}
    store.forget_but(left)
    with contextlib.suppress(InputError), _writing(store) as own:
        own.sweep()  # another writer that is quicker does it, too


def _move(store: Store, now: sqlite3.Connection, number: int, writer: SegmentWriter) -> None:
    """Checksums move with the rows: what was damaged before is still found to be."""
    sizes = next((own for own in index.sizes(now) if own[0] == number), None)
    if sizes is None:
        raise sqlite3.DatabaseError("an entry without a segment")
    try:
        segment = store.segment(*sizes)
    except FileNotFoundError as error:
        raise gone(error) from None
    inside = "SELECT number, first, length, slot FROM histories WHERE segment = ? ORDER BY slot"
    for own, first, length, slot in map(index.whole, now.execute(inside, (number,)).fetchall()):
        place = writer.add(segment.rows[first : first + length], segment.means[slot])
        moved = "UPDATE histories SET segment = ?, first = ?, slot = ? WHERE number = ?"
        now.execute(moved, (*place, own))
