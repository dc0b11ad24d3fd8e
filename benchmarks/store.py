"""What a store costs, as ratios measured in one run: ``python benchmarks/store.py``.

    python benchmarks/store.py [--histories 10000] [--many 100000] [--folder DIR] [--write PAGE]

Random rows, 768 dimensions in float16; a history in four has gaps, all have times. One thread
unless it says otherwise, the best of several rounds, files in the memory of the system. *Reading
the bytes* is ``readinto`` a buffer of 1 MB, again and again, and nothing else. Writing is measured
to the disk (``fsync``), and both sides take turns.
"""

from __future__ import annotations

import os

from _common import Parser, best, one_thread, put_table

one_thread()

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from dejacue import History, Store, Vocabulary
from dejacue.files import read_history, write_history
from dejacue.method import locate_many

D, FRAMES = 768, 300


def histories(count: int, frames: int = FRAMES, dimension: int = D) -> Iterator[History]:
    """Return histories; the checks of History are made for the first thousand only."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4 * frames, dimension)).astype(np.float16)
    records = []
    for k in range(min(count, 1000)):
        seen = np.flatnonzero(rng.random(2 * frames) > 0.03)[:frames]
        numbers = seen if k % 4 == 0 else np.arange(frames)
        first = int(rng.integers(0, 3 * frames))
        records.append(
            History(rows[first : first + frames], numbers, f"h{k}", "random", numbers / 5)
        )
    for k in range(count):
        yield History.trusted(**{**vars(records[k % len(records)]), "id": f"h{k}"})


def words() -> Vocabulary:
    states = {"open": ["open drawer", "drawer pulled out"], "closed": ["closed drawer", "shut"]}
    return Vocabulary(states, np.random.default_rng(1).normal(size=(4, D)), encoder="random")


def read_bytes(path: Path, part: int = 0, parts: int = 1) -> None:
    buffer, size = bytearray(1 << 20), path.stat().st_size
    with open(path, "rb", buffering=0) as stream:
        stream.seek(size * part // parts)
        while stream.tell() < size * (part + 1) // parts:
            stream.readinto(buffer)


def read_by_two(path: Path) -> None:
    """Read with two threads, a half each."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda part: read_bytes(path, part, 2), range(2)))


def adding(folder: Path, count: int, seconds: float) -> Iterator[tuple[str, str]]:
    records = list(histories(count))

    def plain() -> None:
        with open(folder / "plain", "wb") as stream:
            for record in records:
                stream.write(record.features.data)
            stream.flush()
            os.fsync(stream.fileno())
        (folder / "plain").unlink()

    def added() -> None:
        with Store.create(folder / "added") as store:
            store.add(records)
        (folder / "added").unlink()

    base, ours = best([plain, added], seconds=seconds)
    yield (
        f"adding {count:,} histories / writing their bytes",
        f"{ours:.2f} s / {base:.2f} s = {ours / base:.2f}",
    )


def asking(folder: Path, count: int, seconds: float) -> Iterator[tuple[str, str]]:
    store, vocabulary = Store.create(folder / "store"), words()
    store.add(histories(count))
    size = store.size / 1e9
    sides = [
        lambda: read_bytes(folder / "store"),
        lambda: read_by_two(folder / "store"),
        lambda: store.query(vocabulary).columns(),
        lambda: Store.open(folder / "store").query(vocabulary).columns(),
        lambda: store.query(vocabulary, threads=2).columns(),
        lambda: store.query(vocabulary, top=10).columns(),
    ]
    read, both, asked, opened, two, few = best(sides, seconds=seconds)
    what = f"{count:,} × {FRAMES} × {D} float16 ({size:.1f} GB), 4 descriptions"
    yield (
        f"querying {what} / reading the bytes",
        f"{asked:.2f} s / {read:.2f} s = {asked / read:.2f}",
    )
    yield "the same, including opening the store", f"{opened:.2f} s = {opened / read:.2f}"
    yield "one thread / two threads", f"{asked:.2f} s / {two:.2f} s = {asked / two:.2f}"
    yield (
        "one thread / two threads, only reading the bytes",
        f"{read:.2f} s / {both:.2f} s = {read / both:.2f}",
    )
    yield "querying for the 10 likeliest histories", f"{1e3 * few:.1f} ms"
    loaded = list(store.histories())
    list(locate_many(loaded, vocabulary))
    (kernel,) = best([lambda: locate_many(loaded, vocabulary).columns()], seconds=seconds)
    yield (
        "locate_many on histories already in memory",
        f"{kernel:.2f} s = {kernel / read:.2f}",
    )


def against_npz(folder: Path, count: int, seconds: float) -> Iterator[tuple[str, str]]:
    records, vocabulary = list(histories(count)), words()
    store = Store.create(folder / "thousand")
    store.add(records)
    paths = [write_history(folder / "npz" / f"{record.id}.npz", record) for record in records]
    sides = [
        lambda: locate_many(map(read_history, paths), vocabulary).columns(),
        lambda: Store.open(folder / "thousand").query(vocabulary).columns(),
    ]
    files, ours = best(sides, seconds=seconds)
    ratio = f"{files:.2f} s / {ours:.2f} s = {files / ours:.1f}"
    yield f"querying {count:,} .npz files / the same histories in a store", ratio


def opening(folder: Path, count: int, seconds: float) -> Iterator[tuple[str, str]]:
    Store.create(folder / "many").add(histories(count, 8, 16))
    sides = [
        lambda: Store.open(folder / "many"),
        lambda: len(Store.open(folder / "many")),
        lambda: Store.open(folder / "many")[f"h{count // 2}"],
    ]
    opened, counted, single = best(sides, seconds=seconds)
    yield f"opening a store of {count:,} histories", f"{1e3 * opened:.1f} ms"
    yield "… and counting them", f"{1e3 * counted:.1f} ms"
    yield "… and loading one", f"{1e3 * single:.1f} ms"


def main() -> None:
    parser = Parser(__doc__, histories=20, few=5, many=50)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--few", type=int, default=1000, help="histories added or read from files")
    parser.add_argument("--many", type=int, default=100_000)
    parser.add_argument(
        "--folder", type=Path, help="where to create the stores (default: a temporary folder)"
    )
    parser.add_argument("--write", type=Path, help="page to write the table into")
    options = parser.parse_args()
    lines = ["| what | measured |", "|---|---|"]
    seconds = 0.0 if options.smoke else 1.0
    parts = (
        (adding, options.few),
        (asking, options.histories),
        (against_npz, options.few),
        (opening, options.many),
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for part, count in parts:
            for what, figure in part(Path(folder), count, seconds):
                lines.append(f"| {what} | {figure} |")
                print(lines[-1], flush=True)
    if options.write:
        put_table(options.write, "benchmarks/store.py", lines)


if __name__ == "__main__":
    main()
