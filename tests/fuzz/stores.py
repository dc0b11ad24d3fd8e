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

from dejacue import Cancelled, DejaCueError, History, Store, Vocabulary
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
    """Several segments, one history removed and one replaced."""
    before, _segments.MAX_SEGMENT_BYTES = _segments.MAX_SEGMENT_BYTES, 3 * 16 * D * 2
    try:
        with Store.create(folder / "s") as made:
            made.add([history(id, k) for k, id in enumerate(IDS)], object="cup", source="k.mp4")
            made.remove("c")
            made.add(history("d", 30), replace=True, thumbnails={"d": JPEG})
    finally:
        _segments.MAX_SEGMENT_BYTES = before


def use(rng: Random, folder: Path) -> None:
    """Something that is done with a store, or several things."""
    with Store.open(folder) as own:
        for _ in range(rng.choice((1, 1, 2, 3))):
            step(rng, own, folder.parent)


def step(rng: Random, own: Store, folder: Path) -> None:
    kind = rng.randrange(12)
    if kind < 4:
        threads = rng.choice((1, 1, 2))
        found = list(own.query(words(), top=rng.choice((None, 1, 3)), threads=threads))
        assert all(math.isfinite(answer.object_score) for answer in found)
    elif kind == 4:
        repr((own, len(own), own.ids(), own.encoder, own.dimension, own.size))
    elif kind == 5:
        repr(list(own.rows(rng.choice((None, {"source": "k*"}, {"camera": "c?"})))))
    elif kind == 6:
        with contextlib.suppress(DejaCueError):
            repr([own[id] for id in own.ids()])
        repr((own.thumbnail("d"), own[rng.choice(IDS)]))
    elif kind == 7:
        own.verify()
    elif kind == 8:
        own.add([history("new", 8), history("a", 9)], replace=True)
        assert np.array_equal(own["new"].features, history("new", 8).features)
    elif kind == 9:
        own.remove(rng.choice(IDS))
    elif kind == 10:
        own.compact()
    else:
        out = folder / rng.choice(("out", "out.parquet"))
        own.export(out, "parquet" if out.suffix else "npz")


def files(rng: Random, valid: Path, folder: Path) -> None:
    """A changed file: of features or means, or the index."""
    shutil.copytree(valid, folder, dirs_exist_ok=True)
    mutate.tree(rng, folder)
    use(rng, folder / "s")


def segments(rng: Random, valid: Path, folder: Path) -> None:
    """Whatever is changed in features or means, verify finds it."""
    for name in ("was", "now"):
        shutil.copytree(valid / "s", folder / name)
    path = rng.choice(sorted((folder / "now" / "segments").iterdir()))
    path.write_bytes(mutate.data(rng, path.read_bytes(), 2))
    with Store.open(folder / "was") as was, Store.open(folder / "now") as now:
        problems = now.verify()
        known = {own.id for own in problems}
        for id in was.ids():
            with contextlib.suppress(DejaCueError):
                if now[id].features.tobytes() != was[id].features.tobytes():
                    assert id in known, f"{id} has changed and verify does not say so"
        if not problems:
            assert _answers(now) == _answers(was)


def _answers(own: Store) -> list[Any]:
    return list(own.query(words()))


def entries(rng: Random, valid: Path, folder: Path) -> None:
    """A value of the index changed, as SQLite would keep it."""
    shutil.copytree(valid, folder, dirs_exist_ok=True)
    with contextlib.closing(sqlite3.connect(folder / "s" / _index.NAME)) as made, made:
        for _ in range(rng.choice((1, 1, 2))):
            table = rng.choice(
                ("histories", "histories", "histories", "segments", "meta", "thumbnails")
            )
            column = rng.choice(TABLES[table])
            rows = made.execute(
                f"SELECT rowid, {column} FROM {table}"
                if table != "meta"
                else f"SELECT key, {column} FROM meta"
            ).fetchall()
            key, held = rng.choice(rows)
            named = "key" if table == "meta" else "rowid"
            with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeError):
                change = f"UPDATE {table} SET {column} = ? WHERE {named} = ?"
                made.execute(change, (_other(rng, held), key))
    use(rng, folder / "s")


def _other(rng: Random, held: Any) -> Any:
    if isinstance(held, bytes) and rng.random() < 0.7:
        return mutate.data(rng, held, 2)
    if isinstance(held, int | float) and rng.random() < 0.5:
        return held + rng.choice((-1, 1, 2, 1000, -1000, 0.5))
    if rng.random() < 0.3:
        return rng.choice((None, b"", b"\xff" * 16, b"\0" * 16, "x"))
    return rng.choice((mutate.word(rng), rng.choice(mutate.NUMBERS)))


def question(rng: Random, valid: Path, folder: Path) -> None:
    """Any options; what is answered is part of what the whole store answers."""
    numbers: tuple[Any, ...] = (1, 2, 5, 100, 10**30, 0, -1, 1.5, True, None, "1", np.int64(2))
    names = ("id", "source", "object", "camera", mutate.word(rng)[:50], 1)
    patterns = ("*", "k*", "[a-c]", "c?", mutate.word(rng)[:50], None, 3)
    given: dict[str, Any] = {"readout": rng.choice(READOUTS)}
    if rng.random() < 0.6:
        given["top"] = rng.choice(numbers)
    if rng.random() < 0.4:
        given["threads"] = rng.choice((1, 2, 3, *(own for own in numbers if own != 10**30)))
    if rng.random() < 0.5:
        given["where"] = {
            rng.choice(names): rng.choice(patterns) for _ in range(rng.choice((1, 2)))
        }
    vocabulary = words() if rng.random() < 0.5 else writers.vocabulary(rng, rng.choice((D, D, 1)))
    if rng.random() < 0.05:
        vocabulary = rng.choice((None, "words", Vocabulary({"a": ["one"], "b": ["two"]})))
    with Store.open(valid / "s") as own:
        found = list(own.query(vocabulary, **given))
        every = {answer[1:] for answer in own.query(vocabulary, readout=given["readout"])}
        assert {answer[1:] for answer in found} <= every
        assert sorted({a.rank for a in found}) == list(
            range(1, len({a.history for a in found}) + 1)
        )


TARGETS = [
    Target("store-files", 40, store, files, (Cancelled,)),
    Target("store-segments", 20, store, segments),
    Target("store-entries", 60, store, entries),
    Target("store-question", 30, store, question),
]
