"""A store that is large, or damaged: what a question reads, and what it says."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import TESTS
from helpers.stores import D, history, words

from dejacue import InputError, Store
from dejacue.store import _index, _query, _segments, _store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def test_ranking_reads_the_entries_of_the_first_only(store, monkeypatch, statements) -> None:
    monkeypatch.setattr(_segments, "MAX_SEGMENT_BYTES", 5 * 30 * D * 2)
    store.add([history(str(k), k) for k in range(20)])
    statements.clear()
    assert len(store.query(words(), top=3).columns()["rank"]) == 6
    read = [own for own in statements if "FROM histories" in own or "JOIN histories" in own]
    assert len(read) == 3
    assert "count(*)" in read[0]
    for own in read[1:]:
        assert own.count(",") < 20  # three places, and names of columns


@pytest.mark.parametrize("top", [1, 4, 9, 10, None])
def test_the_highest_come_first_and_of_equal_ones_the_first(top) -> None:
    scores = np.array([3.0, 1, 2, 3, 3, 0, 1, 2, 1, 1])
    assert _query.highest(scores, top).tolist() == [0, 3, 4, 2, 7, 1, 6, 8, 9, 5][:top]


def test_removed_histories_do_not_answer_before_they_are_compacted(store, monkeypatch) -> None:
    monkeypatch.setattr(_segments, "MAX_SEGMENT_BYTES", 5 * 30 * D * 2)
    store.add([history(str(k), k) for k in range(20)])
    every = list(store.query(words()))
    store.remove([str(k) for k in (0, 7, 10, 11, 12, 13, 14)])
    left = [own[1:] for own in every if own.history in store]
    assert [own[1:] for own in store.query(words())] == left
    store.compact()
    assert [own[1:] for own in store.query(words())] == left
    some = {"id": "1?"}
    wanted = [own[1:] for own in every if own.history in store.ids(some)]
    assert [own[1:] for own in store.query(words(), where=some)] == wanted


@pytest.mark.parametrize("most", [1, 3, 100])
def test_threads_and_chunks_change_no_answer(store, monkeypatch, most) -> None:
    store.add([history(str(k), k) for k in range(20)])
    wanted = list(store.query(words()))
    monkeypatch.setattr(_query, "CHUNK_HISTORIES", most)
    for threads in (1, 2, 3):
        told: list[int] = []
        asked = store.query(
            words(), threads=threads, progress=lambda *own, to=told: to.append(own[1])
        )
        assert list(asked) == wanted
        assert told == sorted(set(told))
        assert told[-1] == 20
        assert len(told) >= max(20 / most, threads)
    unfinished = store.query(words(), threads=2)
    assert next(unfinished) == wanted[0]
    del unfinished  # its threads end


def test_an_error_in_a_thread_is_told(store) -> None:
    store.add([history(str(k), k) for k in range(6)])
    with _index.transaction(store.path) as now:
        now.execute("UPDATE histories SET runs = zeroblob(16) WHERE id = '4'")
    with pytest.raises(InputError, match='entry of history "4" is damaged'):
        list(store.query(words(), threads=2))


def test_what_is_kept_for_the_next_question_has_a_limit(store, monkeypatch) -> None:
    monkeypatch.setattr(_store, "MAX_CACHED_FRAMES", 4 * (30 + _store.HISTORY_AS_FRAMES))
    store.add([history(str(k), k) for k in range(9)])
    wanted = list(store.query(words()))
    assert len(store.cached) == 4
    assert list(store.query(words())) == wanted


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
        assert {own.id for own in again.verify()} == {None, "a", "b"}
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
        with pytest.raises(InputError, match=rf"{name}: is missing; dejacue store verify lists"):
            read()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("slot = 3", "index is damaged"),
        ("slot = -1", "index is damaged"),
        ("slot = 'x'", "index is damaged"),
        ("slot = 1", "index is damaged"),
        ("segment = 2", "index is damaged"),
        ("first = 70", 'entry of history "a" is damaged'),
        ("length = -1", "index is damaged"),
        ("interval_s = 0.0", 'entry of history "a" is damaged'),
        ("interval_s = 'x'", 'entry of history "a" is damaged'),
    ],
)
def test_a_place_that_is_not_there_is_told(store, change, message) -> None:
    store.add([history("a", 0), history("b", 1), history("c", 2)])
    with _index.transaction(store.path) as now:
        now.execute(f"UPDATE histories SET {change} WHERE id = 'a'")
    for where in (None, {"id": "?"}):
        with pytest.raises(InputError, match=message):
            list(store.query(words(), where=where))
    assert "a" in [own.id for own in store.verify()]


def test_means_that_are_no_numbers_are_named(store) -> None:
    store.add([history("a", 0), history("b", 1)])
    path = store.path / "segments" / "000001.means.npy"
    data = bytearray(path.read_bytes())
    data[-4:] = np.array([np.inf], "<f4").tobytes()
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"000001.means.npy: is damaged; dejacue store verify"):
        list(store.query(words()))
    assert [own.id for own in store.verify()] == ["b"]


def test_a_thumbnail_that_is_none_is_told(store) -> None:
    store.add(history("a", 0), thumbnails={"a": b"\xff\xd8\xff" + bytes(9)})
    with _index.transaction(store.path) as now:
        now.execute("UPDATE thumbnails SET jpeg = 1000000000000")
    with pytest.raises(InputError, match="index is damaged"):
        store.thumbnail("a")


def test_a_disk_that_is_full_for_the_index_leaves_the_store_as_it_was(store, monkeypatch) -> None:
    store.add(history("a", 1))
    real = _index.connect

    def full(*given: object, **more: object) -> sqlite3.Connection:
        made = real(*given, **more)  # type: ignore[arg-type]
        pages = made.execute("PRAGMA page_count").fetchone()[0]
        made.execute(f"PRAGMA max_page_count = {pages}")
        return made

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
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (60, most if sys.argv[3] == "more" else 60))
print(len(list(Store.open(sys.argv[1]).query(words()))))
"""


@pytest.mark.parametrize("allowed", ["more", "no more"])
def test_more_segments_than_files_a_process_may_open(store, monkeypatch, allowed) -> None:
    pytest.importorskip("resource")
    monkeypatch.setattr(_segments, "MAX_SEGMENT_BYTES", 30 * D * 2)
    store.add([history(str(k), k) for k in range(50)])
    command = [sys.executable, "-c", FILES, store.path, TESTS, allowed]
    ran = subprocess.run(command, capture_output=True, text=True)
    if allowed == "more":
        assert ran.stdout == "100\n", ran.stderr
    else:
        assert "may not open as many files as the store has segments; raise the limit" in ran.stderr
