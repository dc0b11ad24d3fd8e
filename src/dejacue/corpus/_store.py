"""Store: many histories of one encoder in a file, added once and queried often."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as replaced
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeGuard

import numpy as np

from dejacue.atomic import check_place, write_bytes, write_whole
from dejacue.corpus import _file as file
from dejacue.corpus._file import Entry, manifest_columns, read_made_with
from dejacue.corpus._query import Asked, Matches, answers
from dejacue.corpus.cluster import check_engine
from dejacue.errors import InputError, StrPath, counted, need, shortened, unknown
from dejacue.files import remote
from dejacue.files.histories import file_name, write_history
from dejacue.method.coordinates import query_directions
from dejacue.method.localization import DEFAULT_READOUT, Plan
from dejacue.method.readout import Readout
from dejacue.method.state_readout import is_count
from dejacue.method.teaching import Confirmed, as_teachers, looks, taught
from dejacue.models.encoders import ENCODERS, FAMILIES
from dejacue.progress import Progress, silent
from dejacue.records import History, Vocabulary

DTYPES: dict[str, np.dtype[Any]] = {"float16": np.dtype("<f2"), "float32": np.dtype("<f4")}
PARQUET_GROUP_BYTES = 64 << 20  # of features
MAX_THUMBNAIL_BYTES = 8192
THUMBNAIL_SIDES = (160, 128, 96, 64)  # pixels, tried one after the other
Conditions = Mapping[str, str]
Text = str | None | Mapping[str, str | None]  # for all histories, or by id


class Stored(NamedTuple):
    """The entry of a history in a store: ``frames`` observed frames, in ``runs`` runs, from start
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
    what: str

    def __str__(self) -> str:
        return self.what if self.id is None else f'history "{shortened(self.id)}": {self.what}'


class Store:
    """A store keeps histories of one encoder in a file; see ``Store.create``, ``Store.open``.

    One process writes at a time, and a second one is refused; any number read meanwhile. A writer
    that is killed loses nothing that was in the store before.

    >>> import tempfile, numpy as np
    >>> from dejacue import History, Store, Vocabulary
    >>> path = Path(tempfile.mkdtemp(), "corpus.dejacue")
    >>> cups = [History(np.eye(2).repeat(30, axis=0)[k:], id=f"cup{k}") for k in range(3)]
    >>> with Store.create(path) as store:
    ...     store.add(cups, object="cup")
    ...     store
    3
    <Store ...corpus.dejacue: 3 histories, 2-d float16, encoder unnamed>
    >>> words = Vocabulary({"empty": "an empty cup", "full": "a full cup"}, np.eye(2))
    >>> with Store.open(path) as store:
    ...     store["cup2"]
    ...     for match in store.query(words, top=1):
    ...         print(match.rank, match.history, match.interval.state, match.interval.window)
    <History cup2: 58 observed frames in 1 run, 2-d float16, encoder unnamed>
    1 cup0 empty [0, 29]
    1 cup0 full [30, 59]
    """

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)
        self._reader = file.connect(self.path)
        self._known: list[Any]  # encoder and dimension
        dtype, *self._known = self._head()
        if dtype not in DTYPES:
            self._reader.close()
            raise self._error("is damaged (no dtype); restore the store from a copy")
        self.dtype = DTYPES[dtype]

    def _read(self, query: str, values: Sequence[str] = ()) -> list[Any]:
        with file.sqlite_errors(self.path):
            return self._reader.execute(query, values).fetchall()

    def _head(self) -> tuple[str | None, str | None, int | None]:
        """Return dtype, encoder and dimension; somebody may have added the first history now."""
        rows = self._read("SELECT dtype, encoder, dimension FROM store")
        return tuple(rows[0]) if rows else (None, None, None)

    @classmethod
    def create(cls, path: StrPath, *, encoder: str | None = None, dtype: str = "float16") -> Store:
        """Create an empty store: a new file, exactly at this path (corpus.dejacue).

        encoder   the identity that all its histories must have; None: that of the first one
        dtype     float16 (half the bytes; every window of VOST stays the same) or float32
        """
        if dtype not in DTYPES:
            raise unknown("dtype", dtype, DTYPES)
        if encoder is not None:
            if not _is_unicode(encoder) or not encoder.strip():
                problem = f"the encoder {encoder!r:.80} must be text: its identity"
                raise InputError(f"{path}: {problem}")
            if encoder in ENCODERS or (encoder.startswith(FAMILIES) and "@" not in encoder):
                raise InputError(
                    f'{path}: "{shortened(encoder)}" is the name of an encoder, but a store '
                    "needs its identity, as recorded in histories; leave it out to take it from "
                    "the first history"
                )
        cls.check_new(path)
        file.create(Path(path), dtype, encoder)
        return cls(path)

    @staticmethod
    def check_new(path: StrPath) -> None:
        """Refuse a place where no store can be created."""
        if Path(path).is_dir():
            remedy = f"give {Path(path, 'corpus.dejacue')}"
            raise InputError(f"{path}: is a folder, but a store is a file; {remedy}")
        check_place(path)

    def _error(self, problem: str) -> InputError:
        return InputError(f"{self.path}: {problem}")

    @staticmethod
    def is_at(path: StrPath) -> bool:
        """Return whether there is a file; a killed ``create`` may have left an empty one."""
        return Path(path).is_file() and Path(path).stat().st_size > 0

    def check_writable(self) -> None:
        """Refuse, before the work, a store on a disc or share that may only be read."""
        file.check_writable(self.path)

    @classmethod
    def open(cls, path: StrPath) -> Store:
        """Open an existing store; quick, however many histories it holds."""
        return cls(path)

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, (self.path,)

    @property
    def encoder(self) -> str | None:
        """Return the identity of the encoder of all histories; None where it is not known (yet)."""
        return self._head()[1]

    @property
    def dimension(self) -> int | None:
        """Return the dimension of its features; None until the first history is there."""
        return self._head()[2]

    @property
    def size(self) -> int:
        """Return how many bytes the file takes on the disk."""
        (count,), (size,) = *self._read("PRAGMA page_count"), *self._read("PRAGMA page_size")
        return int(count * size)

    def __repr__(self) -> str:
        try:
            count = len(self)
        except InputError:
            return f"<Store {self.path}: closed>"
        kind = f"{self.dimension or '?'}-d {self.dtype.name}, encoder {self.encoder or 'unnamed'}"
        return f"<Store {self.path}: {counted(count, 'history')}, {kind}>"

    def __len__(self) -> int:
        return int(self._read("SELECT count(*) FROM histories")[0][0])

    def __contains__(self, id: object) -> bool:
        return _is_unicode(id) and bool(self._read("SELECT 1 FROM histories WHERE id = ?", (id,)))

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids())

    def ids(self, where: Conditions | None = None) -> list[str]:
        """Return the ids, in the order in which they were added."""
        with file.sqlite_errors(self.path):
            condition, values = file.condition(self._reader, where)
        query = f"SELECT id FROM histories WHERE {condition} ORDER BY number"
        return [str(id) for (id,) in self._read(query, values)]

    def _row(self, columns: str, id: object) -> Any:
        """Return these columns of a history."""
        query = f"SELECT {columns} FROM histories WHERE id = ?"
        found = self._read(query, (id,)) if _is_unicode(id) else None
        if not found:
            problem = f'has no history "{shortened(str(id))}"'
            raise self._error(f"{problem}; dejacue store ls {self.path} lists them")
        return found[0]

    def __getitem__(self, id: str) -> History:
        while True:
            (number,) = self._row("number", id)
            with file.sqlite_errors(self.path):
                found = file.read_history(self._reader, number)
            if found is not None:  # else it has just been replaced
                return self.unpacked(*found)

    def unpacked(self, entry: Entry, data: bytes | None) -> History:
        """Return a history as it lies in the file; data: its features (None: without)."""
        if self._known[1] is None:  # somebody may have added the first history meanwhile
            _, *self._known = self._head()
        encoder, dimension = self._known
        return file.unpacked(self.path, entry, data, self.dtype, dimension or 1, encoder)

    def histories(self, where: Conditions | None = None) -> Iterator[History]:
        """Yield histories in the order in which they were added."""
        return map(self.__getitem__, self.ids(where))

    def rows(self, where: Conditions | None = None) -> Iterator[Stored]:
        """Yield what the store says of histories, without their features.

        where   {"object": "cup", "source": "kitchen*"}: id, object, source or a name in made_with
                and what it looks like (``*`` any letters, ``?`` one, ``[ab]`` one of these)
        """
        with file.snapshot(self.path) as now:
            condition, values = file.condition(now, where)
            query = (
                "SELECT EXISTS (SELECT 1 FROM thumbnails WHERE history = number), made_with, "
                "id, object, source, NULL, interval_s, frames, times_s, NULL, NULL "
                f"FROM histories WHERE {condition} ORDER BY number"
            )
            for thumbnail, made_with, *columns in now.execute(query, values):
                entry = Entry(*columns)
                history = self.unpacked(entry, None)
                start, end = history.frames[[0, -1]].tolist()
                yield Stored(
                    entry.id,
                    entry.object,
                    entry.source,
                    len(history),
                    len(history.run_offsets) - 1,
                    start,
                    end,
                    _span_s(history),
                    bool(thumbnail),
                    manifest_columns(self.path, entry.id, made_with),
                )

    def thumbnail(self, id: str) -> bytes | None:
        """Return the small JPEG that was added with a history; None where there is none."""
        (jpeg,) = self._row("(SELECT jpeg FROM thumbnails WHERE history = number)", id)
        return None if jpeg is None else bytes(jpeg)

    def failures(self) -> list[Failure]:
        """Return what ``ingest`` could not add, and why; until it is added."""
        query = "SELECT id, source, what FROM failures ORDER BY rowid"
        return [Failure(*row) for row in self._read(query)]

    def origin(self, id: str) -> Origin:
        """Return how a history and its features were made, without a look at its rows."""
        (made_with,) = self._row("made_with", id)
        return Origin(id, self.encoder, read_made_with(self.path, id, made_with))

    def labels(self, id: str) -> dict[str, str | None]:
        """Return the object and the source that a history was added with."""
        object, source = self._row("object, source", id)
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
                if text is not None and not _is_unicode(text):
                    raise InputError(f"{self.path}: {name} {text!r:.80} must be text")
        pictures = {} if thumbnails is None else thumbnails
        names: set[str] = set()
        means: list[bytes] = []  # of the last histories, until their block is full
        number = 0
        with file.transaction(self.path) as now:
            _, encoder, dimension = now.execute("SELECT * FROM store").fetchone()
            for history in [histories] if isinstance(histories, History) else histories:
                id = history.id
                self._check(history, encoder, dimension, names)
                if dimension is None:
                    encoder, dimension = history.encoder, history.dimension
                    now.execute("UPDATE store SET encoder = ?, dimension = ?", (encoder, dimension))
                if replace:
                    now.execute("DELETE FROM histories WHERE id = ?", (id,))
                picture = pictures.get(id)
                jpeg = None if picture is None else self._small_jpeg(id, picture)
                entry = file.packed(history, _of(object, id), _of(source, id))
                try:
                    number, mean = file.insert(now, entry, history.features, self.dtype, jpeg)
                except sqlite3.IntegrityError:
                    problem = f'already has a history "{shortened(id)}"'
                    raise self._error(f"{problem}; rename it, or replace the other one") from None
                means.append(mean)
                if number % file.MEANS_BLOCK == 0:
                    file.append_means(now, number, means)
                    means = []
                names.add(id)
                progress("add", len(names))
            if means:
                file.append_means(now, number, means)
            for id in pictures:
                if id not in names:
                    problem = f'thumbnail of "{shortened(str(id))}", but no such history'
                    raise self._error(f"{problem}; add a thumbnail together with its history")
            _settle(now, (*names, *settled))
        return len(names)

    def _check(
        self, history: History, encoder: str | None, dimension: int | None, names: set[str]
    ) -> None:
        """Refuse a history that is not one for this store."""
        id, which = history.id, f'history "{shortened(history.id)}"'
        if not _is_unicode(id):
            raise self._error(f"the id {id!r:.80} is not valid Unicode; choose another one")
        if id in names:
            raise self._error(f"{which} is given twice; every history needs its own id")
        if history.encoder != encoder and (encoder is not None or dimension is not None):
            given, stored = (
                "an unnamed encoder" if name is None else f'"{name}"'
                for name in (history.encoder, encoder)
            )
            problem = f"{which} was encoded with {given}, but the store contains {stored}"
            raise self._error(f"{problem}; use one store per encoder")
        if dimension not in (None, history.dimension):
            raise self._error(
                f"{which} has {history.dimension} dimensions, but the store has {dimension}; "
                "encode it with the encoder of the store"
            )

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

    def record(self, failures: Iterable[Failure] = (), settled: Iterable[str] = ()) -> None:
        """Keep what could not be added, the last reason of each; forget the ``settled`` ids."""
        with file.transaction(self.path) as now:
            _settle(now, settled)
            now.executemany("INSERT OR REPLACE INTO failures VALUES (?, ?, ?)", failures)

    def remove(self, ids: str | Iterable[str]) -> int:
        """Take these histories out, all or none; later ones take their room, or ``compact``
        frees it."""
        names = dict.fromkeys([ids] if isinstance(ids, str) else ids)
        with file.transaction(self.path) as now:
            for id in names:
                query = "DELETE FROM histories WHERE id = ?"
                if not (_is_unicode(id) and now.execute(query, (id,)).rowcount):
                    problem = f'has no history "{shortened(str(id))}", so nothing was removed'
                    raise self._error(problem)
        return len(names)

    def compact(self) -> int:
        """Free the room of removed and replaced histories, and return how many bytes. The file is
        written again, so there must be room for another one on the disk; readers go on."""
        before = self.size
        with file.writer(self.path) as now:
            now.execute(
                "DELETE FROM means WHERE NOT EXISTS (SELECT 1 FROM histories WHERE number > "
                f"block * {file.MEANS_BLOCK} AND number <= (block + 1) * {file.MEANS_BLOCK})"
            )
            if now.execute("PRAGMA freelist_count").fetchone() != (0,):
                now.execute("VACUUM")
        return before - self.size

    def verify(self, progress: Progress = silent) -> list[Damage]:
        """Read every byte again and return what is not as it was written."""
        with file.snapshot(self.path) as now:
            problems = [
                Damage(None, f"the file is damaged ({message})")
                for (message,) in now.execute("PRAGMA quick_check")
                if message != "ok"
            ]
            rows = now.execute("SELECT number, id FROM histories ORDER BY number").fetchall()
            blocks: dict[int, bytes] = {}  # the one of the last history
            size = (self.dimension or 1) * file.MEANS.itemsize
            for done, (number, id) in enumerate(rows, 1):
                try:
                    sound = file.is_sound(now, number, size, blocks)
                    problem = "has changed since it was written"
                except (sqlite3.DatabaseError, UnicodeDecodeError):
                    sound, problem = False, "cannot be read"
                if not sound:
                    problems.append(Damage(str(id), f"{problem}; {file.REMEDY}"))
                progress("verify", done, len(rows))
        return problems

    def export(
        self,
        path: StrPath,
        *,
        where: Conditions | None = None,
        progress: Progress = silent,
    ) -> int:
        """Write the histories for others to read, and return how many.

        path   x.parquet: one file with a row a history; else a folder of ``.history.npz`` files;
               also a URL, such as s3://…, where fsspec is installed
        """
        place = os.fspath(path)
        is_remote = remote.is_remote(place)
        if not is_remote and Path(place).resolve() == self.path.resolve():
            raise InputError(f"{place}: is the store itself; give another place")
        ids = self.ids(where)
        if not ids:
            raise InputError(f"{self.path}: no history matches, so there is nothing to export")
        is_table = place.lower().endswith(".parquet")
        write = self._export_parquet if is_table else self._export_npz
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
        columns = dict.fromkeys(("id", "object", "source", "encoder"), arrow.string())
        columns |= {"dimension": arrow.int64(), "frames": integers, "times_s": numbers}
        columns |= {"source_frames": integers, "presence": numbers, "made_with": arrow.string()}
        columns |= {"features": arrow.list_(arrow.from_numpy_dtype(self.dtype))}
        schema = arrow.schema(columns | {"thumbnail": arrow.binary()})

        def write(stream: IO[bytes]) -> None:
            with parquet.ParquetWriter(stream, schema) as out:
                group: list[dict[str, Any]] = []
                group_bytes = 0
                for done, id in enumerate(ids, 1):
                    history = self[id]
                    made_with = history.made_with
                    row = {name: getattr(history, name, None) for name in schema.names}
                    row |= self.labels(id)
                    row["made_with"] = None if made_with is None else json.dumps(dict(made_with))
                    row["features"] = history.features.ravel()
                    row["thumbnail"] = self.thumbnail(id)
                    group.append(row)
                    group_bytes += history.features.nbytes
                    if group_bytes >= PARQUET_GROUP_BYTES or done == len(ids):
                        out.write_table(arrow.Table.from_pylist(group, schema))
                        group, group_bytes = [], 0
                    progress("export", done, len(ids))

        write_whole(path, write)

    def query(
        self,
        vocabulary: Vocabulary | None = None,
        *,
        like: Confirmed | Sequence[Confirmed] = (),
        readout: str | Readout = DEFAULT_READOUT,
        top: int | None = None,
        trust: bool = False,
        where: Conditions | None = None,
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
        engine    local, or ray: rows are read here and sent to the machines of a cluster; the
                  answers are the same to the last bit
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
        with file.snapshot(self.path) as now:
            file.condition(now, where)  # refuses names that are not known
        asked = Asked(vocabulary, readout, trust, centre, where, top)
        return Matches(answers(self, asked, threads, engine, ray_address, progress), self.path)

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


def _is_unicode(text: object) -> TypeGuard[str]:
    """Return whether SQLite can store it: names of files may have bytes that are no letters."""
    with contextlib.suppress(UnicodeEncodeError):
        return isinstance(text, str) and text.encode() is not None
    return False


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
