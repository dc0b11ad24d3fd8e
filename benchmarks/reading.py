"""A whole reading beside the windows alone: python benchmarks/reading.py

``analyse``, which ``find`` uses, adds trust, evidence, labels and notes to what ``locate`` gives.
The two take turns, the best of many turns counts, one thread each. The history is made of the
release's VOST histories, one after the other; without the release it is a scene.
"""

from __future__ import annotations

from _common import Parser, best, one_thread

one_thread()

import numpy as np

from dejacue import History, Vocabulary, locate
from dejacue.errors import MissingData
from dejacue.method.localization import analyse
from dejacue_paper import generate, load_release

LENGTHS = (120, 5000)


def history_of(frames: int) -> tuple[History, Vocabulary]:
    """Return a history of so many frames, and the words to read it with."""
    try:
        entries = list(load_release().vost)
    except MissingData:
        scene = generate(1, frames=frames, dimension=768)
        return scene.history, scene.vocabulary
    nearest = min(entries, key=lambda entry: abs(len(entry.history) - frames))
    first = entries.index(nearest)
    rows = np.concatenate([e.history.features for e in (*entries[first:], *entries[:first])])
    features = np.resize(rows, (frames, rows.shape[1]))
    return History(features, encoder=nearest.history.encoder), nearest.vocabulary


def main() -> None:
    parser = Parser(__doc__, frames=[100])
    parser.add_argument("--frames", type=int, nargs="+", default=LENGTHS, help="lengths to measure")
    options = parser.parse_args()
    print("µs for all descriptions; the goal is a ratio of at most 2")
    print(f"{'frames':>8} {'readout':>10} {'locate':>9} {'analyse':>9} {'ratio':>6}")
    for frames in options.frames:
        history, vocabulary = history_of(frames)
        for name in ("timeline", "contrast", "published"):
            sides = [
                lambda call=call, name=name: call(history, vocabulary, readout=name)
                for call in (locate, analyse)
            ]
            windows, whole = best(sides, rounds=40, seconds=0.0 if options.smoke else 2.0)
            ratio = whole / windows
            print(f"{frames:>8} {name:>10} {1e6 * windows:9.1f} {1e6 * whole:9.1f} {ratio:6.2f}")


if __name__ == "__main__":
    main()
