"""How long a reading takes after a click: 5,000 frames, 10 states, 768 dimensions, one thread.

    python benchmarks/examples.py

Each click names one more frame and the history is read again. Beside it, in the same run: reading
the same history from its features by words alone, and a read of all its features (a sum).
"""

from __future__ import annotations

from statistics import median

import numpy as np
from _common import Parser, timed

from dejacue import Finding, History, Vocabulary, locate
from dejacue.method import next_question
from dejacue.method.localization import analyse

STATES, DIMENSIONS = 10, 768


def main() -> None:
    parser = Parser(__doc__, frames=100, clicks=2)
    parser.add_argument("--frames", type=int, default=5000)
    parser.add_argument("--clicks", type=int, default=30)
    options = parser.parse_args()
    frames, clicks = options.frames, options.clicks
    rng = np.random.default_rng(0)
    words = rng.standard_normal((STATES, DIMENSIONS)).astype(np.float32)
    looks = words[np.arange(frames) * STATES // frames]  # noise alone would not be looked at
    rows = looks + rng.standard_normal((frames, DIMENSIONS)).astype(np.float32)
    history = History(rows)
    vocabulary = Vocabulary({f"state {k}": [f"words {k}"] for k in range(STATES)}, words)
    by_words = [1e3 * timed(lambda: locate(history, fresh(vocabulary))) for _ in range(clicks)]
    sums = [1e3 * timed(lambda: rows.sum(axis=0)) for _ in range(clicks)]
    print(f"{frames} frames, {STATES} states, {DIMENSIONS} dimensions; medians of {clicks}, in ms")
    print(f"{'read all features':34}{median(sums):8.2f}")
    print(f"{'words alone':34}{median(by_words):8.2f}")
    for readout in ("timeline", "contrast"):
        times, named = [], vocabulary
        for at in rng.permutation(frames)[:clicks]:
            named = named.with_examples({f"state {at % STATES}": [int(at)]})
            times.append(1e3 * timed(lambda: locate(history, named, readout=readout)))
        click = median(times[1:])
        ratio = f"{click / median(by_words):.2f} × words alone"
        print(f"{'a click, ' + readout:34}{click:8.2f}   {ratio}")
    print(
        f"{'which frame to ask about':34}{1e3 * timed(lambda: next_question(history, named)):8.0f}"
    )
    first, again = [], []
    for _ in range(clicks):
        history = History(rows)
        finding = Finding(history, vocabulary, analyse(history, vocabulary))
        strip = finding.strip(12)
        marks = {f"state {k}": k + 1 for k in range(min(STATES, len(strip)))}
        for times in (first, again):
            times.append(1e3 * timed(lambda: finding.mark(strip, marks)))
    for row, times in (("marked first", first), ("marked again", again)):
        ratio = f"{median(times) / median(by_words):.2f} × words alone"
        print(f"{'strip of 12 pictures, ' + row:34}{median(times):8.2f}   {ratio}")


def fresh(vocabulary: Vocabulary) -> Vocabulary:
    """Return the same words as a new record, of which nothing has been computed."""
    return Vocabulary(vocabulary.states, vocabulary.features)


if __name__ == "__main__":
    main()
