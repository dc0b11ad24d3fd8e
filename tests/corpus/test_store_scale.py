"""What a query reads of a large store, and what it says of a damaged one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused
from helpers.stores import history, words

from dejacue import Store
from dejacue.corpus import _file, _query


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def test_ranking_reads_the_histories_of_the_first_only(store, monkeypatch, statements) -> None:
    monkeypatch.setattr(_file, "MEANS_BLOCK", 5)
    store.add([history(str(k), k) for k in range(20)])
    statements.clear()
    assert set(store.query(words(), top=3).columns()["rank"]) == {1, 2, 3}
    about = [text for text in statements if "FROM histories" in text]
    assert [("count(*)" in text, "features" in text) for text in about] == [
        (True, False),
        *[(False, True)] * 3,
    ]


@pytest.mark.parametrize("top", [1, 4, 9, 10, None])
def test_the_highest_come_first_and_of_equal_ones_the_first(top) -> None:
    scores = np.array([3.0, 1, 2, 3, 3, 0, 1, 2, 1, 1])
    assert _query.highest(scores, top).tolist() == [0, 3, 4, 2, 7, 1, 6, 8, 9, 5][:top]


def test_removed_histories_do_not_answer_before_they_are_compacted(store, monkeypatch) -> None:
    monkeypatch.setattr(_file, "MEANS_BLOCK", 5)
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
        assert len(progress) >= 20 / chunk_histories
    unfinished = store.query(words(), threads=2)
    assert next(unfinished) == expected[0]
    del unfinished  # its threads end


def test_an_error_in_a_thread_is_raised(store) -> None:
    store.add([history(str(k), k) for k in range(6)])
    with _file.transaction(store.path) as now:
        now.execute("UPDATE histories SET frames = zeroblob(240) WHERE id = '4'")
    with refused('history "4" is damaged'):
        list(store.query(words(), threads=2))


@pytest.mark.parametrize("change", ["interval_s = 0.0", "frames = x'00'", "frames = zeroblob(240)"])
def test_an_entry_with_a_wrong_value_is_named(store, change) -> None:
    check_damaged(store, change, 'history "a"')


def check_damaged(store: Store, change: str, fact: object) -> None:
    store.add([history("a", 0), history("b", 1), history("c", 2)])
    with _file.transaction(store.path) as now:
        now.execute(f"UPDATE histories SET {change} WHERE id = 'a'")
    for where in (None, {"id": "?"}):
        with refused(fact):
            list(store.query(words(), where=where))
    assert "a" in [damage.id for damage in store.verify()]


def test_means_that_are_no_numbers_are_named(store) -> None:
    store.add([history("a", 0), history("b", 1)])
    with _file.transaction(store.path) as now:
        (data,) = now.execute("SELECT rows FROM means").fetchone()
        infinite = data[:-4] + np.array([np.inf], "<f4").tobytes()
        now.execute("UPDATE means SET rows = ?", (infinite,))
    with refused(store.path, "verify"):
        list(store.query(words()))
    assert [damage.id for damage in store.verify()] == ["b"]
