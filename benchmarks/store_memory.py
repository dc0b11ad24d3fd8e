"""What a store takes as it grows: ``python benchmarks/store_memory.py``.

    python benchmarks/store_memory.py [--largest 1000000] [--folder DIR] [--write PAGE]

Histories of two random frames, 768 dimensions in float16, so that a million fit on a disk (6 GB):
what is counted here is what each history costs besides its features. Every figure is of a process
of its own. *Memory* is the most that the process itself held at a time (RssAnon, looked at 100
times a second), less what it held before; pages of files are not in it: the system takes them back
when it needs them. One thread; the second question, files in the memory of the system.
"""

from __future__ import annotations

from _common import Parser, one_thread, put_table

one_thread()

import multiprocessing
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from store import D, histories, words

from dejacue import Store

FRAMES = 2


def private_bytes() -> int:
    """Return the bytes of this process that are no pages of files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) << 10
    raise SystemExit("this benchmark reads /proc/self/status, which exists only on Linux")


class Peak:
    """The most that is held meanwhile."""

    def __enter__(self) -> Peak:
        self.before = self.most = private_bytes()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.01):
            self.most = max(self.most, private_bytes())

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def __str__(self) -> str:
        return f"{max(0, self.most - self.before) / 1e6:.0f} MB"


def add(path: Path, count: int) -> list[str]:
    start = time.perf_counter()
    records = histories(count, FRAMES)
    with Peak() as peak, Store.create(path) as store:
        store.add(records)
    return [f"{1e6 * (time.perf_counter() - start) / count:.0f} µs · {peak}"]


def opening(path: Path, count: int) -> list[str]:
    start = time.perf_counter()
    store = Store.open(path)
    opened = time.perf_counter() - start
    size = path.stat().st_size / count - FRAMES * D * 2
    assert len(store) == count
    return [f"{1e3 * opened:.1f} ms", f"{size:.0f}"]


def ten(path: Path, count: int) -> list[str]:
    store, vocabulary = Store.open(path), words()
    with Peak() as peak:
        for _ in range(2):
            start = time.perf_counter()
            columns = store.query(vocabulary, top=10).columns()
            took = time.perf_counter() - start
    assert len(set(columns["history"])) == 10
    return [f"{1e3 * took:.0f} ms · {peak}"]


def everything(path: Path, count: int) -> list[str]:
    store, vocabulary = Store.open(path), words()
    with Peak() as peak:
        start = time.perf_counter()
        last = deque(store.query(vocabulary), maxlen=1).pop()
        took = time.perf_counter() - start
    assert last.rank == count
    return [f"{1e6 * took / count:.0f} µs · {peak}"]


COLUMNS: list[tuple[list[str], Callable[[Path, int], list[str]]]] = [
    (["adding, per history · memory"], add),
    (["opening", "bytes per history beside its features"], opening),
    (["10 likeliest · memory"], ten),
    (["all answers in turn, per history · memory"], everything),
]


def alone(work: Callable[[Path, int], list[str]], path: Path, count: int) -> list[str]:
    """Run in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        measured: Any = pool.apply(work, (path, count))
    return list(measured)


def main() -> None:
    parser = Parser(__doc__, largest=1000)
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument(
        "--folder", type=Path, help="where to create the stores (default: a temporary folder)"
    )
    parser.add_argument("--write", type=Path, help="page to write the table into")
    options = parser.parse_args()
    names = ["histories", *(name for titles, _ in COLUMNS for name in titles)]
    lines = [f"| {' | '.join(names)} |", "|" + "---:|" * len(names)]
    print("\n".join(lines))
    for count in (options.largest // 100, options.largest // 10, options.largest):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            path = Path(folder) / "store"
            cells = [cell for _, work in COLUMNS for cell in alone(work, path, count)]
        lines.append(f"| {count:,} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if options.write:
        put_table(options.write, "benchmarks/store_memory.py", lines)


if __name__ == "__main__":
    main()
