"""Memory is used again when nobody can see it any more, and never before."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dejacue.masks import buffers
from dejacue.masks.buffers import BufferPool


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_memory_of_an_array_that_has_gone_is_used_again() -> None:
    pool = BufferPool()
    before = address(pool.empty((300, 400)))
    again = pool.empty((400, 300), np.bool_)
    assert (address(again), again.shape, again.dtype) == (before, (400, 300), np.bool_)


@pytest.mark.parametrize(
    "part", [lambda a: a[3:, 5:], lambda a: a.T, lambda a: a.view(np.int8)[::2], np.ravel]
)
def test_memory_of_which_a_part_is_in_use_is_not(part) -> None:
    pool = BufferPool()
    array = pool.empty((300, 400))
    array[:] = 7
    kept = part(array)
    del array
    gc.collect()
    taken = [pool.empty((300, 400)) for _ in range(3)]
    for k, later in enumerate(taken):
        later[:] = k
        assert not np.shares_memory(later, kept)
    assert (kept == 7).all()


def test_memory_of_another_size_is_forgotten_and_little_is_kept(monkeypatch) -> None:
    pool = BufferPool()
    del [pool.empty((10, 10)) for _ in range(3)][:]
    assert pool.empty((20, 10)).shape == (20, 10)
    assert pool.empty((0, 10)).shape == (0, 10)
    monkeypatch.setattr(buffers, "MAX_IDLE_BYTES", 1000)
    arrays = [pool.empty((400,)) for _ in range(9)]
    arrays.clear()
    gc.collect()
    assert sum(memory.nbytes for memory in pool._idle) <= 1000


def test_threads_never_share_memory() -> None:
    pool = BufferPool()

    def fill(k: int) -> bool:
        array = pool.empty((50, 50), np.int64)
        array[:] = k
        return bool((array == k).all())

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(fill, range(2000)))
