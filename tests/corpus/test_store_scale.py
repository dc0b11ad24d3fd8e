"""What a query reads of a large store, and what it says of a damaged one."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import TESTS
from helpers.errors import refused
from helpers.stores import D, history, words

from dejacue import Store
from dejacue.corpus import _index, _query, _segments, _store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def test_ranking_reads_the_entries_of_the_first_only(store, monkeypatch, statements) -> None:
    monkeypatch.setattr(_segments, "MAX_SEGMENT_BYTES", 5 * 30 * D * 2)
    store.add([history(str(k), k) for k in range(20)])
    statements.clear()
    assert set(store.query(words(), top=3).columns()["rank"]) == {1, 2, 3}
    about = [text for text in statements if "FROM histories" in text or "JOIN histories" in text]
    assert len(about) == 3
    assert "count(*)" in about[0]
    for statement in about[1:]:
        assert statement.count(",") < 20  # three places, and names of columns


@pytest.mark.parametrize("top", [1, 4, 9, 10, None])
def test_the_highest_come_first_and_of_equal_ones_the_first(top) -> None:
    scores = np.array([3.0, 1, 2, 3, 3, 0, 1, 2, 1, 1])
    assert _query.highest(scores, top).tolist() == [0, 3, 4, 2, 7, 1, 6, 8, 9, 5][:top]


def test_removed_histories_do_not_answer_before_they_are_compacted(store, monkeypatch) -> None:
    monkeypatch.setattr(_segments, "MAX_SEGMENT_BYTES", 5 * 30 * D * 2)
    store.add([history(str(k), k) for k in range(20)])
    before = list(store.query(words()))
    store.remove([str(k) for k in (0, 7, 10, 11, 12, 13, 14)])
    left = [match[1:] for match in before if match.history in store]
    assert [match[1:] for match in store.query(words())] == left
    store.compact()
    assert [match[1:] for match in store.query(words())] == left
    some = {"id": "1?"}
    expected = [match[1:] for match in before if match.history in store.ids(some)]
    assert [match[1:] for match in store.query(words(), where=some)] == expected


@pytest.mark.parametrize("chunk_histories", [1, 3, 100])
def test_threads_and_chunks_change_no_answer(store, monkeypatch, chunk_histories) -> None:
    store.add([history(str(k), k) for k in range(20)])
    expected = list(store.query(words()))
    monkeypatch.setattr(_query, "CHUNK_HISTORIES", chunk_histories)
    for threads in (1, 2, 3):
        progress: list[int] = []
        matches = store.query(
            words(), threads=threads, progress=lambda _, done, *__, to=progress: to.append(done)
        )
        assert list(matches) == expected
        assert progress == sorted(set(progress))
        assert progress[-1] == 20
        assert len(progress) >= max(20 / chunk_histories, threads)
    unfinished = store.query(words(), threads=2)
    assert next(unfinished) == expected[0]
    del unfinished  # its threads end


def test_an_error_in_a_thread_is_raised(store) -> None:
    store.add([history(str(k), k) for k in range(6)])
    with _index.transaction(store.path) as now:
        now.execute("UPDATE histories SET runs = zeroblob(16) WHERE id = '4'")
    with refused('the index entry of history "4" is damaged'):
        list(store.query(words(), threads=2))


def test_the_cache_of_histories_has_a_limit(store, monkeypatch) -> None:
    monkeypatch.setattr(_store, "MAX_CACHED_FRAMES", 4 * (30 + _store.HISTORY_AS_FRAMES))
    store.add([history(str(k), k) for k in range(9)])
    expected = list(store.query(words()))
    assert len(store.cached) == 4
    assert list(store.query(words())) == expected


@pytest.mark.parametrize("name", ["000001.npy", "000001.means.npy"])
@pytest.mark.parametrize("left", [None, 150])
def test_nothing_is_added_where_rows_are_lost(store, name, left) -> None:
    store.add([history("a", 1), history("b", 2)])
    path = store.path / "segments" / name
    data = path.read_bytes()[:left]
    path.unlink()
    if left:
        path.write_bytes(data)
    with Store.open(store.path) as again:
        again.add(history("c", 3))
        assert np.array_equal(again["c"].features, history("c", 3).features)
        assert {damage.id for damage in again.verify()} == {None, "a", "b"}
        again.add([history("a", 1), history("b", 2)], replace=True)
        assert np.array_equal(again["b"].features, history("b", 2).features)
        assert len(list(again.query(words()))) == 6
    assert not left or path.read_bytes() == data


@pytest.mark.parametrize("name", ["000001.npy", "000001.means.npy"])
def test_a_segment_that_is_missing_is_named(store, name) -> None:
    store.add([history("a"), history("b")])
    store.remove("b")
    (store.path / "segments" / name).unlink()
    store = Store.open(store.path)
    for read in (lambda: list(store.query(words())), lambda: store["a"], store.compact):
        with refused(store.path / "segments" / name, _segments.SEE_VERIFY):
            read()


@pytest.mark.parametrize(
    "change", ["slot = 3", "slot = -1", "slot = 'x'", "slot = 1", "segment = 2", "length = -1"]
)
def test_an_entry_without_rows_is_damage_of_the_index(store, change) -> None:
    check_damaged(store, change, store.path / _index.NAME)


@pytest.mark.parametrize("change", ["first = 70", "interval_s = 0.0", "interval_s = 'x'"])
def test_an_entry_with_a_wrong_value_is_named(store, change) -> None:
    check_damaged(store, change, 'history "a"')


def check_damaged(store: Store, change: str, fact: object) -> None:
    store.add([history("a", 0), history("b", 1), history("c", 2)])
    with _index.transaction(store.path) as now:
        now.execute(f"UPDATE histories SET {change} WHERE id = 'a'")
    for where in (None, {"id": "?"}):
        with refused(fact):
            list(store.query(words(), where=where))
    assert "a" in [damage.id for damage in store.verify()]


def test_means_that_are_no_numbers_are_named(store) -> None:
    store.add([history("a", 0), history("b", 1)])
    path = store.path / "segments" / "000001.means.npy"
    data = bytearray(path.read_bytes())
    data[-4:] = np.array([np.inf], "<f4").tobytes()
    path.write_bytes(data)
    with refused(path):
        list(store.query(words()))
    assert [damage.id for damage in store.verify()] == ["b"]


def test_a_thumbnail_that_is_no_picture_is_refused(store) -> None:
    store.add(history("a", 0), thumbnails={"a": b"\xff\xd8\xff" + bytes(9)})
    with _index.transaction(store.path) as now:
        now.execute("UPDATE thumbnails SET jpeg = 1000000000000")
    with refused(store.path / _index.NAME):
        store.thumbnail("a")


def test_a_disk_that_is_full_for_the_index_leaves_the_store_as_it_was(store, monkeypatch) -> None:
    store.add(history("a", 1))
    real = _index.connect

    def full(*arguments: object, **options: object) -> sqlite3.Connection:
        connection = real(*arguments, **options)  # type: ignore[arg-type]
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(_index, "connect", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*store'"):
        store.add([history(str(k), k) for k in range(200)])
    monkeypatch.undo()
    assert store.ids() == ["a"]
    store.add(history("b", 2))
    assert store.verify() == []


FILES = """
import resource, sys
from dejacue import Store
sys.path.insert(0, sys.argv[2])
from helpers.stores import words
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (60, hard if sys.argv[3] == "more" else 60))
print(len({match.rank for match in Store.open(sys.argv[1]).query(words())}))
"""


@pytest.mark.parametrize("allowed", ["more", "no more"])
def test_more_segments_than_files_a_process_may_open(store, monkeypatch, allowed) -> None:
    pytest.importorskip("resource")
    monkeypatch.setattr(_segments, "MAX_SEGMENT_BYTES", 30 * D * 2)
    store.add([history(str(k), k) for k in range(50)])
    command = [sys.executable, "-c", FILES, store.path, TESTS, allowed]
    ran = subprocess.run(command, capture_output=True, text=True)
    if allowed == "more":
        assert ran.stdout == "50\n", ran.stderr
    else:
        assert "may not open as many files as the store has segments; raise the limit" in ran.stderr
