"""How long a reading takes after a click: 5,000 frames, 10 states, 768 dimensions, one thread.

    python benchmarks/examples.py

Each click names one more frame and the history is read again. Beside it, in the same run: reading
the same history from its features by words alone, and a read of all its features (a sum).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from dejacue import History, Vocabulary, ask_next, locate

FRAMES, STATES, DIMENSIONS, CLICKS = 5000, 10, 768, 30


def main() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((FRAMES, DIMENSIONS)).astype(np.float32)
    words = rng.standard_normal((STATES, DIMENSIONS)).astype(np.float32)
    history = History(rows)
    vocabulary = Vocabulary({f"state {k}": [f"words {k}"] for k in range(STATES)}, words)
    by_words = [timed(lambda: locate(history, fresh(vocabulary))) for _ in range(CLICKS)]
    sums = [timed(lambda: rows.sum(axis=0)) for _ in range(CLICKS)]
    print(f"{FRAMES} frames, {STATES} states, {DIMENSIONS} dimensions; medians of {CLICKS}, in ms")
    print(f"{'read all features':34}{median(sums):8.2f}")
    print(f"{'words alone':34}{median(by_words):8.2f}")
    for readout in ("contrast", "joint"):
        clicks, named = [], vocabulary
        for at in rng.permutation(FRAMES)[:CLICKS]:
            named = named.with_examples({f"state {at % STATES}": [int(at)]})
            clicks.append(timed(lambda: locate(history, named, readout=readout)))
        print(f"{'a click, ' + readout:34}{median(clicks[1:]):8.2f}"
              f"   {median(clicks[1:]) / median(by_words):.2f} × words alone")  # fmt: skip
    print(f"{'which frame to ask about':34}{timed(lambda: ask_next(history, named)):8.0f}")


def fresh(vocabulary: Vocabulary) -> Vocabulary:
    """The same words as a new record, of which nothing has been computed."""
    return Vocabulary(vocabulary.states, vocabulary.features)


def timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - begun)


def median(values: list[float]) -> float:
    return statistics.median(values)


if __name__ == "__main__":
    main()
