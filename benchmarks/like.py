"""What teachers cost: 20 of them and a store of histories, 300 frames of 768 dimensions each.

    python benchmarks/like.py [--histories 200] [--teachers 20]

Random rows, one thread, CPU time; medians of seven rounds. A query of the store without words is
divided by the number of histories; beside it, in the same run, a query by words alone. Hearing the
teachers happens once per query, however many histories there are.
"""

from __future__ import annotations

from _common import Parser, one_thread

one_thread()

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from dejacue import History, Store, Vocabulary
from dejacue.method import Teacher, Window
from dejacue.method.teaching import taught

FRAMES, DIMENSIONS, ROUNDS = 300, 768, 7
STATES = ("empty", "filled")


def history(seed: int, name: str) -> History:
    rows = np.random.default_rng(seed).standard_normal((FRAMES, DIMENSIONS)).astype(np.float32)
    return History(rows, np.arange(FRAMES), name, "random")


def milliseconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1e3 * median(times)


def main() -> None:
    parser = Parser(__doc__, histories=4, teachers=3)
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--teachers", type=int, default=20)
    options = parser.parse_args()
    halves = [Window(0, FRAMES // 2 - 1)], [Window(FRAMES // 2, FRAMES - 1)]
    confirmed = dict(zip(STATES, halves, strict=True))
    teachers = [Teacher(history(k, f"t{k}"), confirmed) for k in range(options.teachers)]
    features = np.random.default_rng(1).standard_normal((2, DIMENSIONS)).astype(np.float32)
    words = Vocabulary({state: state for state in STATES}, features, "random")
    with tempfile.TemporaryDirectory() as folder, Store.create(Path(folder) / "store") as store:
        store.add(history(1000 + k, f"h{k}") for k in range(options.histories))
        list(store.query(words))  # reads the file once
        by_words = milliseconds(lambda: list(store.query(words)))
        by_teachers = milliseconds(lambda: list(store.query(like=teachers)))
        both = milliseconds(lambda: list(store.query(words, like=teachers)))
    print(f"{options.teachers} teachers, {options.histories} histories; milliseconds")
    hearing = milliseconds(lambda: taught(None, teachers))
    print(f"{'hearing the teachers, once':44}{hearing:9.3f}")
    hearing = milliseconds(lambda: taught(words, teachers))
    print(f"{'the same, weighed beside words':44}{hearing:9.3f}")
    for name, whole in (("words", by_words), ("teachers", by_teachers), ("both", both)):
        each = whole / options.histories
        print(f"{'a query by ' + name + ', per history':44}{each:9.3f}   {whole / by_words:.2f} ×")


if __name__ == "__main__":
    main()
