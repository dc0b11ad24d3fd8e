"""Kill a writer of a store at many points, and look at what is left.

Run by tests/store/test_store.py:

    python tests/crash/store_killer.py FOLDER [points]

The writer adds, replaces, removes and compacts, and says after each call that it is done. It is a
fork that counts the lines of dejacue.store it runs and kills itself (SIGKILL, in the middle of
a write where one is under way) at one of them. After it the store must hold what was done, or that
and all of the next step; nothing else, nothing twice, every byte right; and a new writer goes on.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dejacue.store
from dejacue import History, Store
from dejacue.store import _segments

HERE = str(Path(dejacue.store.__file__).parent)
_segments.MAX_SEGMENT_BYTES = 3000  # several segments: each history has 1280 bytes


def history(id: str, seed: int) -> History:
    rows = np.random.default_rng(seed).normal(size=(20, 32)).astype(np.float16)
    return History(rows, id=id, encoder="e", times_s=np.arange(20.0))


def picture(seed: int) -> bytes:
    return b"\xff\xd8\xff" + bytes([seed]) * 5000  # begins as a JPEG does


def add(store: Store, **seeds: int) -> None:
    histories = [history(id, seed) for id, seed in seeds.items()]
    pictures = {id: picture(seed) for id, seed in seeds.items()}
    store.add(histories, replace=True, thumbnails=pictures)


Seeds = dict[str, int]  # of the histories in the store, by id
STEPS: list[tuple[Callable[[Store], object], Callable[[Seeds], Seeds]]] = [
    (lambda s: add(s, a=1), lambda h: {**h, "a": 1}),
    (lambda s: add(s, b=2, c=3, d=4), lambda h: {**h, "b": 2, "c": 3, "d": 4}),
    (lambda s: add(s, b=5), lambda h: {**h, "b": 5}),
    (lambda s: s.remove(["a"]), lambda h: {k: v for k, v in h.items() if k != "a"}),
    (lambda s: s.compact(), lambda h: h),
    (lambda s: add(s, e=6), lambda h: {**h, "e": 6}),
]


class HalfWritten:
    """A file of which every write may be cut in half."""

    def __init__(self, stream: Any, line: Callable[[Callable[[], object]], None]) -> None:
        self._stream, self._line = stream, line

    def write(self, data: Any) -> int:
        half = bytes(data)[: memoryview(data).nbytes // 2]
        self._line(lambda: (self._stream.write(half), self._stream.flush()))
        return self._stream.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def write(folder: Path, at: int, report: int) -> None:
    """Run all steps and write their numbers to a pipe; die at this line (0: never)."""
    count = 0

    def line(before: Callable[[], object] = lambda: None) -> None:
        nonlocal count
        count += 1
        if count == at:
            before()
            os.kill(os.getpid(), signal.SIGKILL)

    def trace(frame: Any, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(HERE):
            return None
        if event == "line":
            line()
        return trace

    def opened(path: Path, mode: str) -> Any:
        return open(path, mode) if mode == "rb" else HalfWritten(open(path, mode), line)

    _segments.open = opened  # type: ignore[attr-defined]
    store = Store.open(folder)
    for step, (do, _) in enumerate(STEPS):
        sys.settrace(trace)
        do(store)
        sys.settrace(None)
        os.write(report, bytes([step + 1]))
    os.write(report, b"!" + str(count).encode())


def run(folder: Path, at: int) -> tuple[int, int]:
    """Return the steps that were done, and the lines of a run that was left alone."""
    shutil.rmtree(folder, ignore_errors=True)
    Store.create(folder).close()
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write(folder, at, theirs)
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        report = pipe.read()
    os.waitpid(child, 0)
    steps, _, lines = report.partition(b"!")
    return len(steps), int(lines or 0)


def check(folder: Path, done: int, at: int) -> None:
    states: list[Seeds] = [{}]
    for _, change in STEPS:
        states.append(change(states[-1]))
    with Store.open(folder) as store:
        assert store.verify() == [], (at, store.verify())
        stored = {id: (store[id].features.tobytes(), store.thumbnail(id)) for id in store.ids()}
        expected = [
            {id: (history(id, seed).features.tobytes(), picture(seed)) for id, seed in s.items()}
            for s in states[done : done + 2]
        ]
        assert stored in expected, (at, done, sorted(stored))
        assert len(store.ids()) == len(stored) == len(store), at
        store.add([history("new", 9), *(history(id, 8) for id in stored)], replace=True)
        store.compact()
        assert store.verify() == [], at
        assert set(store.ids()) == {"new", *stored}, at
        assert not any(row.thumbnail for row in store.rows()), at  # they went with the old ones
        numbers = {p.name.split(".")[0] for p in (folder / "segments").iterdir()}
        used = store._reader.execute("SELECT number FROM segments").fetchall()
        assert numbers == {f"{number:06d}" for (number,) in used}, (at, numbers)


def main(folder: Path, points: int) -> None:
    done, lines = run(folder, 0)
    assert done == len(STEPS)
    check(folder, done, 0)
    for at in np.unique(np.linspace(1, lines, points).astype(int)).tolist():
        done, ended = run(folder, at)
        assert not ended, at  # it was killed
        check(folder, done, at)
    print(f"{points} points of {lines} lines")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60)
