"""A store with something changed in its files, its index or the question: an answer, or a sentence.

Features are trusted when they are read, so that a changed byte of theirs may change an answer; but
then ``verify`` says so.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import sqlite3
from pathlib import Path
from random import Random
from typing import Any

import mutate
import numpy as np
import writers
from readers import Target

from dejacue import DejaCueError, History, Store, Vocabulary
from dejacue.errors import Cancelled
from dejacue.store import _index, _segments

D, IDS = 6, tuple("abcdefg")
TABLES = {
    "meta": ("value", "key"),
    "segments": ("number", "rows", "histories"),
    "thumbnails": ("history", "checksum", "jpeg"),
    "histories": (
        "number",
        "id",
        "dead",
        "segment",
        "first",
        "length",
        "slot",
        "checksum",
        "object",
        "source",
        "interval_s",
        "made_with",
        "runs",
        "times_s",
        "source_frames",
        "presence",
    ),
}
JPEG = b"\xff\xd8\xff" + bytes(50)  # its first bytes are looked at
READOUTS = (*writers.READOUTS, "", "nothing")


def history(id: str, seed: int) -> History:
    rng = np.random.default_rng(seed)
    frames = np.flatnonzero(rng.random(20) < 0.8)
    return History(
        rng.normal(size=(len(frames), D)).astype(np.float16),
        frames,
        id,
        "e",
        times_s=frames / 5.0 if seed % 2 else None,
        made_with={"camera": f"c{seed}"},
        source_frames=3 * frames if seed % 3 else None,
    )


def words() -> Vocabulary:
    states = {"a": ["one", "two"], "b": ["three"]}
    return Vocabulary(states, np.random.default_rng(7).normal(size=(3, D)), encoder="e")


def store(folder: Path) -> None:
    """Write a store of several segments, one history removed and one replaced."""
    before, _segments.MAX_SEGMENT_BYTES = _segments.MAX_SEGMENT_BYTES, 3 * 16 * D * 2
    try:
        with Store.create(folder / "s") as writer:
            writer.add([history(id, k) for k, id in enumerate(IDS)], object="cup", source="k.mp4")
            writer.remove("c")
            writer.add(history("d", 30), replace=True, thumbnails={"d": JPEG})
    finally:
        _segments.MAX_SEGMENT_BYTES = before


def use(rng: Random, folder: Path) -> None:
    """Do something with a store, or several things."""
    with Store.open(folder) as opened:
        for _ in range(rng.choice((1, 1, 2, 3))):
            step(rng, opened, folder.parent)


def step(rng: Random, opened: Store, folder: Path) -> None:
    kind = rng.randrange(12)
    if kind < 4:
        threads = rng.choice((1, 1, 2))
        answers = list(opened.query(words(), top=rng.choice((None, 1, 3)), threads=threads))
        assert all(math.isfinite(answer.object_score) for answer in answers)
    elif kind == 4:
        repr((opened, len(opened), opened.ids(), opened.encoder, opened.dimension, opened.size))
    elif kind == 5:
        repr(list(opened.rows(rng.choice((None, {"source": "k*"}, {"camera": "c?"})))))
    elif kind == 6:
        with contextlib.suppress(DejaCueError):
            repr([opened[id] for id in opened.ids()])
        repr((opened.thumbnail("d"), opened[rng.choice(IDS)]))
    elif kind == 7:
        opened.verify()
    elif kind == 8:
        opened.add([history("new", 8), history("a", 9)], replace=True)
        assert np.array_equal(opened["new"].features, history("new", 8).features)
    elif kind == 9:
        opened.remove(rng.choice(IDS))
    elif kind == 10:
        opened.compact()
    else:
        out = folder / rng.choice(("out", "out.parquet"))
        opened.export(out, "parquet" if out.suffix else "npz")


def files(rng: Random, valid: Path, folder: Path) -> None:
    """Change a file of features or means, or the index."""
    shutil.copytree(valid, folder, dirs_exist_ok=True)
    mutate.tree(rng, folder)
    use(rng, folder / "s")


def segments(rng: Random, valid: Path, folder: Path) -> None:
    """Check that verify finds whatever is changed in features or means."""
    for name in ("was", "now"):
        shutil.copytree(valid / "s", folder / name)
    path = rng.choice(sorted((folder / "now" / "segments").iterdir()))
    path.write_bytes(mutate.data(rng, path.read_bytes(), 2))
    with Store.open(folder / "was") as was, Store.open(folder / "now") as now:
        problems = now.verify()
        known = {problem.id for problem in problems}
        for id in was.ids():
            with contextlib.suppress(DejaCueError):
                if now[id].features.tobytes() != was[id].features.tobytes():
                    assert id in known, f"{id} has changed and verify does not say so"
        if not problems:
            assert _answers(now) == _answers(was)


def _answers(opened: Store) -> list[Any]:
    return list(opened.query(words()))


def entries(rng: Random, valid: Path, folder: Path) -> None:
    """Change a value of the index, as SQLite would keep it."""
    shutil.copytree(valid, folder, dirs_exist_ok=True)
    with contextlib.closing(sqlite3.connect(folder / "s" / _index.NAME)) as database, database:
        for _ in range(rng.choice((1, 1, 2))):
            table = rng.choice(
                ("histories", "histories", "histories", "segments", "meta", "thumbnails")
            )
            column = rng.choice(TABLES[table])
            rows = database.execute(
                f"SELECT rowid, {column} FROM {table}"
                if table != "meta"
                else f"SELECT key, {column} FROM meta"
            ).fetchall()
            key, value = rng.choice(rows)
            named = "key" if table == "meta" else "rowid"
            with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeError):
                change = f"UPDATE {table} SET {column} = ? WHERE {named} = ?"
                database.execute(change, (_other(rng, value), key))
    use(rng, folder / "s")


def schemas(rng: Random, valid: Path, folder: Path) -> None:
    """Change what the index is made of: tables, columns, views, triggers, rows of any type."""
    shutil.copytree(valid, folder, dirs_exist_ok=True)
    table = rng.choice(tuple(TABLES))
    column = rng.choice(TABLES[table])
    other = rng.choice(tuple(TABLES))
    numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
    statements = (
        f"DROP TABLE {table}",
        f"ALTER TABLE {table} RENAME TO old",
        f"ALTER TABLE {table} RENAME COLUMN {column} TO {column}_2",
        f"ALTER TABLE {table} DROP COLUMN {column}",
        f"ALTER TABLE {table} ADD COLUMN more",
        f"DELETE FROM {table}",
        f"INSERT INTO {table} SELECT * FROM {table}",
        f"UPDATE {table} SET {column} = NULL",
        f"UPDATE {table} SET {column} = rowid",
        f"UPDATE {table} SET {column} = zeroblob(1000)",
        f"UPDATE {table} SET {column} = -1",
        f"UPDATE {table} SET {column} = 9223372036854775807",
        f"UPDATE {table} SET {column} = printf('%.*c', 100000, '[')",
        f"UPDATE {table} SET {column} = (SELECT {rng.choice(TABLES[other])} FROM {other})",
        f"ALTER TABLE {table} RENAME TO old; CREATE VIEW {table} AS SELECT * FROM old",
        f"ALTER TABLE {table} RENAME TO old; CREATE VIEW {table} AS SELECT * FROM old, old AS more",
        f"ALTER TABLE {table} RENAME TO old; CREATE VIEW {table} AS {numbers}",
        f"ALTER TABLE {table} RENAME TO old; CREATE TABLE {table} AS SELECT * FROM old",
        f"CREATE TRIGGER t BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END",
        f"PRAGMA user_version = {rng.choice((0, 1, 99, -1, 2**31 - 1))}",
        f"PRAGMA application_id = {rng.choice((0, 1, -1))}",
    )
    with contextlib.closing(sqlite3.connect(folder / "s" / _index.NAME)) as database:
        for statement in rng.sample(statements, rng.choice((1, 1, 2))):
            with contextlib.suppress(sqlite3.Error):
                database.executescript(statement)
    use(rng, folder / "s")


def _other(rng: Random, value: Any) -> Any:
    if isinstance(value, bytes) and rng.random() < 0.7:
        return mutate.data(rng, value, 2)
    if isinstance(value, int | float) and rng.random() < 0.5:
        return value + rng.choice((-1, 1, 2, 1000, -1000, 0.5))
    if rng.random() < 0.3:
        return rng.choice((None, b"", b"\xff" * 16, b"\0" * 16, "x"))
    return rng.choice((mutate.word(rng), rng.choice(mutate.NUMBERS)))


def question(rng: Random, valid: Path, folder: Path) -> None:
    """Ask with any options; what is answered is part of what the whole store answers."""
    numbers: tuple[Any, ...] = (1, 2, 5, 100, 10**30, 0, -1, 1.5, True, None, "1", np.int64(2))
    names = ("id", "source", "object", "camera", mutate.word(rng)[:50], 1)
    patterns = ("*", "k*", "[a-c]", "c?", mutate.word(rng)[:50], None, 3)
    options: dict[str, Any] = {"readout": rng.choice(READOUTS)}
    if rng.random() < 0.6:
        options["top"] = rng.choice(numbers)
    if rng.random() < 0.4:
        options["threads"] = rng.choice(
            (1, 2, 3, *(number for number in numbers if number != 10**30))
        )
    if rng.random() < 0.5:
        options["where"] = {
            rng.choice(names): rng.choice(patterns) for _ in range(rng.choice((1, 2)))
        }
    vocabulary = words() if rng.random() < 0.5 else writers.vocabulary(rng, rng.choice((D, D, 1)))
    if rng.random() < 0.05:
        vocabulary = rng.choice((None, "words", Vocabulary({"a": ["one"], "b": ["two"]})))
    with Store.open(valid / "s") as opened:
        answers = list(opened.query(vocabulary, **options))
        unlimited = {answer[1:] for answer in opened.query(vocabulary, readout=options["readout"])}
        assert {answer[1:] for answer in answers} <= unlimited
        assert sorted({a.rank for a in answers}) == list(
            range(1, len({a.history for a in answers}) + 1)
        )


TARGETS = [
    Target("store-files", 40, store, files, (Cancelled,)),
    Target("store-segments", 20, store, segments),
    Target("store-entries", 60, store, entries),
    Target("store-schema", 40, store, schemas),
    Target("store-question", 30, store, question),
]
