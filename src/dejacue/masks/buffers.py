"""Memory of masks that is used again."""

from __future__ import annotations

import math
import weakref
from collections import deque
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

MAX_IDLE_BYTES = 64 << 20  # of arrays that are used again


class BufferPool:
    """Gives arrays, and takes their memory back when neither they nor their parts are in use: pages
    that are taken anew for every frame cost more than filling them.

    An array that looks at foreign memory is kept alive by all of its parts: numpy does not lead
    them past it, to the memory itself. So memory is idle when that array has gone. Nothing is
    locked, since the last part may be dropped anywhere.
    """

    def __init__(self) -> None:
        self._idle: deque[memoryview] = deque()
        self._used: dict[int, weakref.ref[NDArray[Any]]] = {}  # by the id of their memory

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike = np.uint8) -> NDArray[Any]:
        """Return an array of zeros, or of what one of this size was left with."""
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        if not nbytes:
            return np.empty(shape, dtype)
        memory = self._taken(nbytes) or np.zeros(nbytes, np.uint8).data
        flat = np.frombuffer(memory, dtype)
        self._used[id(memory)] = weakref.ref(flat, partial(self._give_back, memory))
        return flat.reshape(shape)

    def _taken(self, nbytes: int) -> memoryview | None:
        """Return idle memory of this size; forget what has another one."""
        while self._idle:
            try:
                memory = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if memory.nbytes == nbytes:
                return memory
        return None

    def _give_back(self, memory: memoryview, flat: weakref.ref[NDArray[Any]]) -> None:
        del self._used[id(memory)]
        if (len(self._idle) + 1) * memory.nbytes <= MAX_IDLE_BYTES:
            self._idle.append(memory)
