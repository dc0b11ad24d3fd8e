"""What is added to a store comes back, once; queries find the right histories."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sqlite3
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.errors import refused
from helpers.stores import D, drawn, fill_disk, history, rows, words
from hypothesis import given, settings
from hypothesis import strategies as st

from dejacue import History, InputError, Store, Vocabulary, locate
from dejacue.corpus import Busy, Failure, StoreExists, _file, _query
from dejacue.corpus.ingest import ingest, open_store
from dejacue.files import read_history, write_history, write_vocabulary
from dejacue.method.localization import analyse

COLUMNS = ("features", "frames", "run_offsets", "times_s", "source_frames", "presence")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def test_a_query_has_the_borders_of_locate_where_frames_were_left_out(store):
    rng = np.random.default_rng(5)
    axes = np.eye(2, D).repeat(15, axis=0) + 0.1 * rng.normal(size=(30, D))
    sampled = History(axes, id="a", encoder="e", source_frames=7 * np.arange(30))
    store.add(sampled)
    two = Vocabulary({"a": ["a"], "b": ["b"]}, np.eye(2, D), "e")
    matches = sorted(store.query(two), key=lambda match: match.interval.start)
    expected = locate(store["a"], two).intervals
    assert [match.interval for match in matches] == expected
    assert any(interval.source_start % 7 for interval in expected)


def same(first: History, second: History) -> None:
    for name in COLUMNS:
        a, b = getattr(first, name), getattr(second, name)
        assert (a is None and b is None) or np.array_equal(a, b), name
        assert a is None or a.dtype == b.dtype, name
    for name in ("id", "encoder", "made_with", "frame_interval_s"):
        assert getattr(first, name) == getattr(second, name)


def test_what_is_added_comes_back_as_it_was(tmp_path) -> None:
    histories = {f"h{seed}": drawn(seed) for seed in range(6)}
    with Store.create(tmp_path / "s", dtype="float32") as store:
        assert store.add(histories.values()) == 6
    with Store.open(tmp_path / "s") as again:
        assert (len(again), again.ids(), list(again)) == (6, list(histories), list(histories))
        assert (again.encoder, again.dimension) == ("e", D)
        for id, added in histories.items():
            same(again[id], added)
            assert not again[id].features.flags.writeable
            assert "h3" in again
        for id in ("cup", "\udcff", 3):
            assert id not in again
            with refused(again.path, id):
                _ = again[id]
        assert pickle.loads(pickle.dumps(again)).ids() == again.ids()


@settings(max_examples=40)
@given(st.sets(st.integers(-50, 50), min_size=1), st.booleans())
def test_frames_of_any_kind_come_back(frames, timed) -> None:
    numbers = np.array(sorted(frames))
    record = History(rows(0, len(numbers)), numbers, times_s=numbers / 3.0 if timed else None)
    entry, data = _file.packed(record, None, None), record.features.tobytes()
    same(_file.unpacked(Path("s"), entry, data, np.dtype("<f2"), D, None), record)


def test_all_float16_are_widened_exactly() -> None:
    numbers = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = numbers[np.isfinite(numbers)].reshape(-1, 2)
    assert np.array_equal(_file._wide(finite), finite.astype(np.float32))


def test_rows_that_float16_cannot_hold_keep_their_direction(store) -> None:
    features = rows(1).astype(np.float32) * np.geomspace(1e-9, 1e9, 30, dtype=np.float32)[:, None]
    store.add(History(features, id="a", encoder="e"))
    assert store["a"].features.dtype == np.float16
    stored = store["a"].features.astype(np.float64)
    norms = np.linalg.norm(stored, axis=1) * np.linalg.norm(features, axis=1)
    assert ((stored * features).sum(1) / norms).min() > 1 - 1e-6


def test_an_id_is_there_once_unless_it_is_replaced(store) -> None:
    store.add([history("a", 1), history("b", 2)])
    with refused(store.path, "b", "replace the other one"):
        store.add([history("c", 3), history("b", 4)])
    assert store.ids() == ["a", "b"]  # nothing half-added
    with refused(store.path, "id", "c"):
        store.add([history("c", 3), history("c", 3)], replace=True)
    before = store["b"]
    store.add([history("b", 4)], replace=True)
    assert store.ids() == ["a", "b"]
    assert np.array_equal(store["b"].features, rows(4))
    assert np.array_equal(before.features, rows(2))


@pytest.mark.parametrize(
    ("unfit", "fact"),
    [
        (History(rows(0), id="x", encoder="other"), "other"),
        (History(rows(0), id="x"), "encoder"),
        (History(rows(0, 3, 8), id="x", encoder="e"), "has 8"),
        (history("\udcff"), "id"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(store, unfit, fact) -> None:
    store.add(history("a"))
    with refused(store.path, fact):
        store.add([history("b"), unfit])
    assert store.ids() == ["a"]


def test_a_store_may_be_made_for_one_encoder(tmp_path) -> None:
    store = Store.create(tmp_path / "s", encoder="siglip2@1")
    with refused("encoder", "e"):
        store.add(history("a"))
    assert store.encoder == "siglip2@1"
    for name in ("siglip2", "mini", "siglip2-large", "timm:vit"):
        with refused(tmp_path / "new", "encoder", name):
            Store.create(tmp_path / "new", encoder=name)
    for bad in ("", " ", 3, "\udcff"):
        with refused(tmp_path / "new", "encoder"):
            Store.create(tmp_path / "new", encoder=bad)
    assert not (tmp_path / "new").exists()
    assert repr(store).endswith("0 histories, ?-d float16, encoder siglip2@1>")


def test_a_store_that_may_only_be_read_is_not_called_damaged(store, monkeypatch) -> None:
    store.add(history("a"))
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    file = str(store.path)  # not looked at
    videos = [{"video": file, "masks": file, "object": "1"}]
    writes = (
        lambda: store.add(history("b")),
        lambda: store.remove("a"),
        store.compact,
        lambda: ingest(videos, store.path, encoder="mini"),
    )
    for write in writes:
        with refused(store.path, "read-only"):
            write()


def test_of_two_that_create_a_store_at_once_one_succeeds_and_both_can_use_it(tmp_path) -> None:
    barrier, results = threading.Barrier(2), []

    def make(id: str) -> None:
        barrier.wait()
        try:
            Store.create(tmp_path / "s").close()
            results.append("created")
        except StoreExists:
            results.append("exists")
        with Store.open(tmp_path / "s") as store:
            store.add(history(id))

    both = [threading.Thread(target=make, args=(id,)) for id in "ab"]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(60)
    assert sorted(results) == ["created", "exists"]
    with open_store(tmp_path / "s", SimpleNamespace(identity="e", dimension=D)) as store:
        assert (sorted(store.ids()), store.verify()) == (["a", "b"], [])
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_store_is_made_where_making_one_was_killed(tmp_path) -> None:
    (tmp_path / "s").touch()  # SQLite makes the file, then a transaction fills it
    assert not Store.is_at(tmp_path / "s")
    with refused(tmp_path / "s", "not a store"):
        Store.open(tmp_path / "s")
    assert len(Store.create(tmp_path / "s")) == 0
    with refused(tmp_path / "s", kind=StoreExists):
        Store.create(tmp_path / "s")


def test_a_full_disk_leaves_nothing_of_a_new_store(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(_file, "TABLES", ("PRAGMA max_page_count = 3", *_file.TABLES))
    with pytest.raises(OSError, match="No space left on device") as caught:
        Store.create(tmp_path / "new" / "s")
    assert caught.value.filename == str(tmp_path / "new" / "s")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE failures; CREATE VIEW failures AS WITH RECURSIVE n(id) AS "
        "(SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, '1' AS source, '1' AS what FROM n",
        "CREATE VIEW v AS SELECT 1; CREATE TRIGGER t AFTER INSERT ON histories BEGIN "
        "SELECT * FROM v; END",
        "DROP TABLE means; CREATE TABLE means (block, rows AS (1 << 70))",
    ],
)
def test_tables_other_than_those_of_a_store_are_not_read(store, statement) -> None:
    store.close()
    with contextlib.closing(sqlite3.connect(store.path)) as now:
        now.executescript(statement)
    with refused(store.path, "tables"):
        Store.open(store.path)


def test_places_that_are_no_store_are_named(tmp_path, store) -> None:
    with refused(tmp_path / "new", f"create one with dejacue store add {tmp_path / 'new'}"):
        Store.open(tmp_path / "new")
    for use in (Store.open, Store.create):
        with refused(tmp_path, "is a folder, but a store is a file"):
            use(tmp_path)
    with refused(store.path, "already a store"):
        Store.create(store.path)
    with refused(store.path, "is a file, not a folder"):
        Store.create(store.path / "s")
    with refused("dtype", "int8"):
        Store.create(tmp_path / "new", dtype="int8")
    other = tmp_path / "other"
    with contextlib.closing(sqlite3.connect(other)) as now:
        now.execute("CREATE TABLE a (b)")
    text = tmp_path / "text"
    text.write_bytes(b"no database" * 100)
    for use in (Store.open, Store.create):
        with refused(other, "is an SQLite file, but not a store"):
            use(other)
        with refused(text, "is not a store; give another file"):
            use(text)
    assert text.read_bytes() == b"no database" * 100
    assert not (tmp_path / "new").exists()


def test_a_store_lies_exactly_where_it_was_asked_for(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("corpus", "a b?.dejacue", ":memory:", "file:x", "100%41#", "\u00e9")
    for name in names:
        with Store.create(name) as store:
            store.add(history("a"))
        with Store.open(name) as again:
            assert again.ids() == ["a"]
    assert {path.name for path in tmp_path.iterdir()} == set(names)


@pytest.mark.parametrize("version", [0, _file.VERSION - 1, _file.VERSION + 1])
def test_a_store_of_another_version_is_refused(store, version) -> None:
    store.close()
    with contextlib.closing(sqlite3.connect(store.path)) as now:
        now.execute(f"PRAGMA user_version = {version}")
    with refused(store.path, "version", version, "make it again"):
        Store.open(store.path)


def test_a_second_writer_is_told_and_readers_are_not_blocked(store, monkeypatch) -> None:
    monkeypatch.setattr(_file, "WAIT_S", 0.01)
    store.add(history("a", 1))

    def slowly():
        yield history("b", 2)
        other = Store.open(store.path)
        for write in (
            lambda: other.add(history("c")),
            lambda: other.remove("a"),
            lambda: other.compact(),
        ):
            with refused(store.path, kind=Busy):
                write()
        assert other.ids() == ["a"]
        assert np.array_equal(other["a"].features, rows(1))
        assert len(other.query(words()).columns()["rank"]) == 2
        yield history("d", 3)

    store.add(slowly())
    assert store.ids() == ["a", "b", "d"]
    assert store.verify() == []


def test_what_fails_on_the_way_leaves_the_store_as_it_was(store) -> None:
    store.add(history("a", 1))

    def broken():
        yield history("b", 2)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        store.add(broken())
    assert store.ids() == ["a"]
    assert store.verify() == []
    store.add(history("c", 3))
    assert np.array_equal(store["c"].features, rows(3))
    assert np.array_equal(store["a"].features, rows(1))


def test_a_full_disk_leaves_the_store_as_it_was(store, monkeypatch) -> None:
    store.add(history("a", 1))
    fill_disk(monkeypatch)
    many = [history(str(k), k) for k in range(200)]
    for write in (lambda: store.add(many), lambda: store.record([Failure("f", None, 99999 * "x")])):
        with pytest.raises(OSError, match=r"No space left on device: '.*store'"):
            write()
    monkeypatch.undo()
    assert (store.ids(), store.failures()) == (["a"], [])
    store.add(history("b", 2))
    assert store.verify() == []


def test_features_of_any_length_come_back(store, monkeypatch) -> None:
    monkeypatch.setattr(_file, "PART_BYTES", 1000)
    store.add([history("a", 1), history("b", 2)])
    store.add(history("b", 3), replace=True)
    assert np.array_equal(store["b"].features, rows(3))
    assert [match.history for match in store.query(words(), where={"id": "a"})] == ["a"] * 2
    store.remove(["a", "b"])
    with _file.snapshot(store.path) as now:
        assert now.execute("SELECT count(*) FROM features").fetchone() == (0,)


def test_removed_histories_are_gone_and_compact_frees_their_bytes(store, monkeypatch) -> None:
    monkeypatch.setattr(_file, "MEANS_BLOCK", 2)
    store.add([History(rows(k, 3000), id=str(k), encoder="e") for k in range(6)])
    for unknown in ("x", 3):
        with refused(store.path, unknown):
            store.remove(["1", unknown])
    assert store.remove(["1", "2"]) == 2
    assert store.ids() == ["0", "3", "4", "5"]
    with refused('has no history "1"'):
        _ = store["1"]
    reader, before = Store.open(store.path), store.size
    assert store.compact() == before - store.size > 2 * 96_000 - 2 * _file.PAGE_BYTES
    for view in (store, reader):
        assert view.ids() == ["0", "3", "4", "5"]
        for id in view.ids():
            assert np.array_equal(view[id].features, rows(int(id), 3000))
    assert store.verify() == []
    assert store.compact() == 0
    store.remove(store.ids())
    store.compact()
    assert (len(store), store.path.stat().st_size) == (0, store.size)
    assert list(store.query(words())) == []
    store.add(history("new", 7))  # its block of mean rows has gone with the others
    assert np.array_equal(reader["new"].features, rows(7))
    assert ({match.history for match in store.query(words())}, store.verify()) == ({"new"}, [])


def test_a_query_goes_on_while_the_store_is_compacted(store, monkeypatch) -> None:
    monkeypatch.setattr(_query, "CHUNK_HISTORIES", 2)
    store.add([history(str(k), k) for k in range(6)])
    expected = store.query(words()).columns()
    matches = Store.open(store.path).query(words())
    first = next(matches)
    store.remove(["0", "1", "2"])
    store.compact()
    assert [first.history, *(match.history for match in matches)] == expected["history"]


def test_verify_names_the_history(store) -> None:
    store.add([history(name, seed) for seed, name in enumerate("abc")])
    store.close()
    data = store.path.read_bytes()
    at = data.index(rows(1).tobytes()[:64])
    store.path.write_bytes(data[: at + 7] + bytes([data[at + 7] ^ 4]) + data[at + 8 :])
    with Store.open(store.path) as again:
        (damage,) = again.verify()
        assert damage.id == "b"
        assert "has changed since it was written; remove it with dejacue store rm" in str(damage)
        again.add(history("b", 1), replace=True)
        assert again.verify() == []


@pytest.mark.parametrize("kept", [50, 3000, 0.3, 0.99])
def test_a_file_that_was_cut_is_refused_or_told(store, kept) -> None:
    store.add([history(str(seed), seed) for seed in range(50)])
    store.close()
    size = store.path.stat().st_size
    os.truncate(store.path, kept if kept > 1 else int(kept * size))
    with refused(store.path), Store.open(store.path) as again:
        if again.verify():  # only a part of the last page is missing
            raise InputError(f"{store.path}: told")


@pytest.mark.parametrize("seed", range(30))
def test_damage_anywhere_is_told_in_a_sentence(store, seed) -> None:
    store.add([drawn(k) for k in range(12)], thumbnails={"h3": b"\xff\xd8\xff" + bytes(99)})
    store.record([Failure("f", None, "no such file")])
    store.close()
    rng, data = np.random.default_rng(seed), bytearray(store.path.read_bytes())
    used = np.flatnonzero(np.frombuffer(data, np.uint8))  # most of it is empty pages
    for at in rng.choice(used, 8):
        data[at] = rng.integers(256)
    store.path.write_bytes(data)
    works = (
        lambda again: again.ids(),
        lambda again: list(again.rows({"camera": "c1"})),
        lambda again: list(again.histories()),
        lambda again: list(again.query(words()).rows()),
        lambda again: (again.failures(), again.thumbnail("h3"), again.labels("h4")),
        lambda again: again.verify(),
        lambda again: again.add(drawn(13)),
        lambda again: again.remove(["h2", "h7"]),
        lambda again: again.compact(),
    )
    for work in works:
        with contextlib.suppress(InputError), Store.open(store.path) as again:
            work(again)


def test_verify_looks_at_every_table(store) -> None:
    store.add([history("a", 1, times_s=np.arange(30.0)), history("b", 2)])
    with _file.transaction(store.path) as now:
        now.execute("UPDATE histories SET times_s = zeroblob(240) WHERE id = 'a'")
    assert [damage.id for damage in store.verify()] == ["a"]
    with _file.transaction(store.path) as now:
        now.execute("DELETE FROM means")
    assert [damage.id for damage in store.verify()] == ["a", "b"]
    with _file.transaction(store.path) as now:
        now.execute("DELETE FROM features")
    with refused('history "b"', _file.REMEDY):
        _ = store["b"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("frames", [0, 1]),
        ("frames", [*range(29), 1 << 60]),
        ("frames", [*range(29), 28]),
        ("frames", [*range(1, 30), 0]),
        ("frames", [-(1 << 63), *range(29)]),
        ("frames", []),
        ("times_s", [0] * 31),
        ("times_s", [0]),
    ],
)
def test_a_damaged_entry_reads_nothing_beyond_its_file(store, column, value) -> None:
    store.add(history("a", 1, times_s=np.arange(30.0)))
    with _file.transaction(store.path) as now:
        changed = np.array(value, "<i8").tobytes()
        now.execute(f"UPDATE histories SET {column} = ?", (changed,))
    for read in (lambda: store["a"], lambda: list(store.query(words()))):
        with refused('history "a"', _file.REMEDY):
            read()
    assert [damage.id for damage in store.verify()] == ["a"]


@pytest.mark.parametrize(
    ("change", "use"),
    [
        ('histories SET made_with = \'{"a": {"b": 1}}\'', lambda s: s["a"]),
        ("histories SET made_with = '[1]'", lambda s: s.ids({"b": "c"})),
        ("histories SET interval_s = -1", lambda s: list(s.query(words()))),
        ("means SET block = 7", lambda s: list(s.query(words()))),
        ("means SET rows = x'00'", lambda s: list(s.query(words()))),
        ("store SET dtype = 'int8'", lambda s: s.dtype),
        ("store SET dimension = 3", lambda s: s["a"]),
    ],
)
def test_odd_values_are_a_sentence(store, change, use) -> None:
    store.add(history("a"))
    with _file.transaction(store.path) as now:
        now.execute(f"UPDATE {change}")
    with pytest.raises(InputError), Store.open(store.path) as again:
        use(again)


def test_columns_keep_their_types(store) -> None:
    store.add(history("a"))
    with refused(store.path), _file.transaction(store.path) as now:
        now.execute("UPDATE histories SET source = x'ff'")


def test_readers_beside_a_writer_see_the_store_as_it_was(store) -> None:
    """A hundred readers, each with its own connection, as so many processes would have."""
    store.add([history("a", 1), history("b", 2)])
    readers = [Store.open(store.path) for _ in range(100)]
    queries = [reader.query(words()) for reader in readers]
    first = [next(query) for query in queries]
    store.add(history("c", 3))
    store.remove("a")
    store.compact()
    for reader, query, match in zip(readers, queries, first, strict=True):
        assert {match.history, *(other.history for other in query)} == {"a", "b"}
        assert reader.ids() == ["b", "c"]
        reader.close()
    assert store.verify() == []


def test_a_place_that_may_only_be_read_is_read(store, monkeypatch) -> None:
    store.add(history("a", 1))
    monkeypatch.setattr(_file.os, "access", lambda *_: False)  # the tests may run as root
    for wal in (True, False):
        if not wal:
            store.close()
        assert store.path.with_name("store-wal").exists() == wal
        with Store.open(store.path) as again:
            assert np.array_equal(again["a"].features, rows(1))
    assert repr(store).endswith("store: closed>")
    with refused(store.path, "open it again"):
        store.ids()


def test_a_query_gives_the_answers_of_locate_ranked_by_the_object(tmp_path) -> None:
    histories = {f"h{seed}": drawn(seed) for seed in range(12)}
    store = Store.create(tmp_path / "s", dtype="float32")
    store.add(histories.values(), source="kitchen.mp4")
    vocabulary = words()
    unit = vocabulary.features / np.linalg.norm(vocabulary.features, axis=1)[:, None]
    centre = vocabulary.weights @ unit
    centre /= np.linalg.norm(centre)
    objects = {id: float(each.mean_direction @ centre) for id, each in histories.items()}
    located = partial(locate, vocabulary=vocabulary)
    answers = store.query(vocabulary)
    assert repr(answers) == f"<Matches in {store.path}: computed when they are read, once>"
    matches = list(answers)
    assert repr(answers) == f"<Matches in {store.path}: already read>"
    ranked = sorted(objects, key=lambda id: -objects[id])
    found = [(rank, id, i) for rank, id in enumerate(ranked, 1) for i in located(histories[id])]
    assert [(match.rank, match.history, match.interval) for match in matches] == found
    for match in matches:
        interval, history = match.interval, histories[match.history]
        assert (interval.times_s is None) == (history.times_s is None)
        assert (interval.source_start is None) == (not history.sampled)
        assert match.object_score == pytest.approx(objects[match.history], abs=1e-6)
        assert (match.source, match.notes) == ("kitchen.mp4", ())
    assert list(store.query(vocabulary, top=3)) == [m for m in matches if m.rank <= 3]
    assert list(store.query(vocabulary, threads=2)) == matches


def test_a_query_tells_how_far_to_trust_where_it_is_asked(store) -> None:
    store.add([drawn(seed) for seed in range(4)])
    plain, trusted = list(store.query(words())), list(store.query(words(), trust=True))
    assert {match.interval.confidence for match in plain} == {None}
    for match in trusted:
        assert match.interval in analyse(store[match.history], words())
        assert 0 <= match.interval.confidence <= 1
    without = [match.interval.window for match in plain]
    assert [match.interval.window for match in trusted] == without
    assert [match.notes for match in trusted] == [match.notes for match in plain]


def test_the_columns_of_a_query(store) -> None:
    store.add([history(str(k), k) for k in range(5)])
    columns = store.query(words(), top=2).columns()
    assert set(columns["rank"]) == {1, 2}
    assert {"history", "state", "start", "end", "score", "object_score"} <= set(columns)
    matches = store.query(words())
    count = len(list(matches))
    assert len(store.query(words()).to_dataframe("pandas")) == count
    for again in (matches.columns, lambda: list(matches)):
        with pytest.raises(InputError, match="have already been read"):
            again()
    assert store.query(words()).to_arrow().num_rows == count
    scan = store.query(words(), readout="scan", top=1).columns()
    assert sorted(scan["description"]) == sorted(words().descriptions)


@pytest.mark.parametrize("readout", ["contrast", "timeline", "scan"])
def test_columns_say_what_the_matches_say(tmp_path, monkeypatch, readout) -> None:
    monkeypatch.setattr(_query, "CHUNK_HISTORIES", 4)  # some chunks have no times, or no source
    store = Store.create(tmp_path / "s")
    store.add([drawn(seed) for seed in range(9)], source="kitchen.mp4")
    columns = store.query(words(), readout=readout).columns()
    matches = list(store.query(words(), readout=readout))
    for name in ("rank", "history", "source", "object_score"):
        assert list(columns[name]) == [getattr(match, name) for match in matches]
    for name in ("state", "start", "end", "score"):
        assert list(columns[name]) == [getattr(match.interval, name) for match in matches]
    ends = [match.interval.end_s for match in matches]
    assert [None if np.isnan(end) else end for end in columns["end_s"]] == ends
    assert ("description" in columns) == (readout == "scan")


def test_a_state_that_is_not_found_has_no_match(store) -> None:
    apart = np.eye(3, D)
    seen = np.repeat(apart[[0, 1, 0, 1]], 10, axis=0)
    store.add([History(seen, id="a", encoder="e"), History(seen[::-1], id="b", encoder="e")])
    vocabulary = Vocabulary({"one": "1", "two": "2", "three": "3"}, apart, encoder="e")
    matches = list(store.query(vocabulary))
    assert {match.interval.state for match in matches} == {"one", "two"}
    for match in matches:
        timeline = locate(store[match.history], vocabulary)
        assert timeline["three"] == []
        assert len(timeline[match.interval.state]) == 2
        assert match.interval in timeline[match.interval.state]
    assert [match.rank for match in matches] == [1, 1, 1, 1, 2, 2, 2, 2]


def test_a_query_may_look_at_some_only(store) -> None:
    store.add([drawn(k) for k in range(4)], object="cup", source="a/1.mp4")
    store.add([drawn(k) for k in range(4, 8)], object="drawer", source="b/2.mp4")
    assert store.ids({"source": "a/*"}) == ["h0", "h1", "h2", "h3"]
    assert store.ids({"object": "drawer", "camera": "c1"}) == ["h5", "h7"]
    matches = store.query(words(), where={"object": "cup", "id": "h[12]"})
    assert {match.history for match in matches} == {"h1", "h2"}
    with refused("name in where", "camra"):
        store.query(words(), where={"camra": "c1"})
    for row in store.rows({"object": "cup"}):
        expected = drawn(int(row.id.removeprefix("h")))
        assert (row.frames, row.runs) == (len(expected), len(expected.runs()))
        assert (row.start, row.end) == (expected.frames[0], expected.frames[-1])
        times = expected.times_s
        assert row.times_s == (None if times is None else (times[0], expected.ends_s[-1]))


@pytest.mark.parametrize(
    ("vocabulary", "options", "fact"),
    [
        (words(encoder="other"), {}, "other"),
        (Vocabulary({"a": "b", "c": "d"}), {}, "vocabulary"),
        (Vocabulary({"a": "b", "c": "d"}, np.ones((2, 3))), {}, "the vocabulary 3"),
        (words().with_examples(open=3), {}, "examples"),
        (words(), {"readout": "contrst"}, "contrst"),
        (words(), {"top": 0}, "top 0"),
        (words(), {"threads": 0}, "threads 0"),
        (words(), {"where": {"id": 3}}, "id"),
    ],
)
def test_a_query_that_cannot_be_answered_is_refused_at_once(
    store, vocabulary, options, fact
) -> None:
    store.add(history("a"))
    with refused(fact):
        store.query(vocabulary, **options)


def test_the_words_of_vost_find_their_history(release, tmp_path) -> None:
    store = Store.create(tmp_path / "s")
    entries = list(release.vost)
    store.add(entry.history for entry in entries)
    ranks = []
    for entry in entries:
        matches = [m for m in store.query(entry.vocabulary) if m.history == entry.history.id]
        ranks.append(matches[0].rank)
        timeline = locate(entry.history, entry.vocabulary)
        found = [match.interval.window for match in matches]
        for state in timeline.states:  # of float16 rows; the release has float32
            assert timeline.best(state).window in found
    assert np.mean(np.array(ranks) <= 5) > 0.8  # by chance 0.06


def test_histories_are_exported_and_read_again(store, tmp_path) -> None:
    store.add([drawn(k) for k in range(3)])
    assert store.export(tmp_path / "out") == 3
    for id in store.ids():
        same(read_history(tmp_path / "out" / f"{id}.history.npz"), store[id])
    assert store.export(tmp_path / "x.parquet", where={"id": "h[01]"}) == 2
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(tmp_path / "x.parquet").to_pylist()
    for row in table:
        stored = store[row["id"]]
        assert np.array_equal(np.array(row["features"], np.float16).reshape(-1, D), stored.features)
        assert row["frames"] == stored.frames.tolist()
        assert row["times_s"] == (None if stored.times_s is None else stored.times_s.tolist())
    assert [row["id"] for row in table] == ["h0", "h1"]
    with refused(store.path, "is the store itself"):
        store.export(store.path)
    with refused(store.path, "no history matches"):
        store.export(tmp_path / "y", where={"id": "z"})
    store.add([history("a b"), history("a_b")])
    with refused("a_b"):
        store.export(tmp_path / "y")


def test_object_and_source_are_exported_and_added_again(store, tmp_path, dejacue) -> None:
    import pyarrow.parquet

    store.add([drawn(0), history("plain", 1)], object="cup", source={"h0": "kitchen.mp4"})
    store.add(history("alone", 2))
    store.export(tmp_path / "out")
    Store.create(tmp_path / "again").close()
    assert dejacue("store", "add", tmp_path / "again", tmp_path / "out").code == 0
    with Store.open(tmp_path / "again") as again:
        assert sorted(again.rows()) == sorted(store.rows())
        for id in store.ids():
            same(again[id], store[id])
        other = read_history(tmp_path / "out" / "h0.history.npz")
        again.add(other, source="hall.mp4", replace=True)  # the argument counts
        assert again.labels("h0") == {"object": "cup", "source": "hall.mp4"}
    store.export(tmp_path / "x.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "x.parquet", columns=["id", "object", "source"])
    assert table.to_pylist() == [{"id": id, **store.labels(id)} for id in store.ids()]


def test_opening_reads_no_history(store, statements) -> None:
    store.add([history(str(k), k) for k in range(3)])
    statements.clear()
    Store.open(store.path)
    assert statements
    assert not any("histories" in statement for statement in statements)


def test_the_commands(dejacue, tmp_path, monkeypatch) -> None:
    from dejacue.cli import store as command

    folder, files = tmp_path / "s", tmp_path / "files"
    for seed in range(3):
        write_history(files / f"h{seed}.history.npz", drawn(seed))
    write_vocabulary(tmp_path / "v.npz", words())
    assert dejacue("store", "add", folder).code == 0
    assert "0 histories" not in dejacue("store", "query", folder, "-v", tmp_path / "v.npz").err
    added = dejacue("store", "add", folder, files, "--object", "cup", "--source", "k.mp4")
    assert "added: 3 histories" in added.out
    again = dejacue("store", "add", folder, files / "h1.history.npz")
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert "replace the other one" in again.err
    assert dejacue("store", "add", folder, files / "h1.history.npz", "--replace").code == 0
    assert "k.mp4" in dejacue("store", "ls", folder, "--where", "object=cup").out
    listed = dejacue("store", "ls", folder, "--jsonl").out.splitlines()
    assert len(listed) == 3
    assert listed[0].startswith('{"id": "h0", "object": "cup", "source": "k.mp4", "frames": ')
    monkeypatch.setattr(command, "MAX_TABLE_ROWS", 2)
    assert "the first 2 are listed" in dejacue("store", "ls", folder).err
    details = dejacue("store", "ls", folder, "h1").out
    assert "camera: c1" in details
    assert "seconds: " in details
    assert "source: k.mp4" not in details  # it was replaced, without a source
    assert "source: k.mp4" in dejacue("store", "ls", folder, "h0").out
    title = "".join(dejacue("store", "ls", folder).out.split())  # a long path is wrapped
    assert f"{folder}:3histories,encoder" in title
    assert "<" not in title
    assert "that of the store" in " ".join(dejacue("store", "query", "--help").out.split())
    for command_line in (("ls", folder), ("query", folder, "-v", tmp_path / "v.npz")):
        ran = dejacue("store", *command_line, "--where", "id=nobody")
        assert (ran.code, "no history matches --where" in ran.err) == (0, True)
    ran = dejacue("store", "query", folder, "-v", tmp_path / "v.npz", "--top", 2)
    assert ran.code == 0
    assert "open" in ran.out
    lines = dejacue("store", "query", folder, "-v", tmp_path / "v.npz", "--jsonl").out.splitlines()
    assert {json.loads(line)["rank"] for line in lines} == {1, 2, 3}
    assert all(json.loads(line)["confidence"] is not None for line in lines)
    every = dejacue("store", "query", folder, "-v", tmp_path / "v.npz", "--jsonl", "--top", 0).out
    assert "confidence" not in every
    assert len(every.splitlines()) == len(lines)
    assert dejacue("store", "rm", folder, "h0").code == 0
    assert dejacue("store", "rm", folder, "h0").code == 2
    for more, sentence in (
        ((), "give either names of histories or --where"),
        (("h1", "--where", "id=h1"), "give either names of histories or --where"),
        (("--where", "id=x*"), "no history matches --where, so none was removed"),
    ):
        ran = dejacue("store", "rm", folder, *more)
        assert (ran.code, sentence in ran.err) == (2, True)
    assert "added: 1" in dejacue("store", "add", folder, files / "h0.history.npz").out
    ran = dejacue("store", "rm", folder, "--where", "id=*0")
    assert "removed: 1 history" in ran.out
    assert "freed: 0.0 MB" in dejacue("store", "compact", folder).out
    assert "no damage found: 2 histories" in dejacue("store", "verify", folder).out
    assert dejacue("store", "export", folder, "-o", tmp_path / "x.parquet").code == 0
    assert dejacue("store", "export", folder, "-o", tmp_path / "out").code == 0
    assert len(list((tmp_path / "out").iterdir())) == 2
    for bad in (("add", folder, tmp_path), ("ls", folder, "--where", "x"), ("ls", tmp_path)):
        ran = dejacue("store", *bad)
        assert (ran.code, ran.err.count("\n")) == (2, 1), bad
    with _file.transaction(folder) as now:
        now.execute("UPDATE features SET rows = zeroblob(length(rows))")
    ran = dejacue("store", "verify", folder)
    assert (ran.code, ran.out.count("has changed since it was written")) == (1, 2)


def test_words_are_encoded_with_the_encoder_of_the_store(dejacue, tmp_path) -> None:
    from dejacue import Sampling, find
    from dejacue_paper.data.rendered import render, write_scene

    write_scene(tmp_path / "cup", render(7, family="cup", topology="three"), overwrite=True)
    words = tmp_path / "cup" / "vocabulary.yaml"
    finding = find(
        tmp_path / "cup" / "scene.mp4",
        words,
        masks=tmp_path / "cup" / "Annotations",
        encoder="mini",
        sampling=Sampling(stride=4),
    )
    with Store.create(tmp_path / "s") as store:
        store.add(finding.history)
    ran = dejacue("store", "query", tmp_path / "s", "-v", words)
    assert ran.code == 0, ran.err
    for state in finding.vocabulary.states:
        assert state in ran.out
    (warning,) = ran.err.splitlines()
    output = tmp_path / "answers.jsonl"
    assert dejacue("store", "query", tmp_path / "s", "-v", words, "-o", output).code == 0
    for line in output.read_text(encoding="utf-8").splitlines():
        assert json.loads(line)["notes"] == warning.removeprefix("note: ")
