"""A live reading a frame at a time: python benchmarks/live.py

How long a push takes: features of 768 dimensions that are already encoded, 10 states, 25 frames a
second. It does not depend on how many went before; beside it, what reading the whole history again
would cost. With --labels instead (part of it needs the release): how often what is said is right,
a frame at a time.
"""

from __future__ import annotations

from _common import RELEASE, Parser, one_thread

one_thread()

import resource
import time
from collections.abc import Mapping, Sequence

import numpy as np

from dejacue import History, Vocabulary
from dejacue.errors import MissingData
from dejacue.method import LiveReading, Window
from dejacue.method.localization import analyse
from dejacue_paper import generate, load_release
from dejacue_paper.experiments.rendered import SceneRequest, build_entries, moderate

DIMENSION, STATES, RATE, VISIT = 768, 10, 25.0, 200
HORIZON, TIMED = 15_000, 2_000  # frames
SCENES = 40
AGAIN = (1_000, 10_000, 50_000)


def speed(frames: int) -> None:
    rng = np.random.default_rng(0)
    words = rng.normal(size=(STATES, DIMENSION)).astype(np.float32)
    vocabulary = Vocabulary({f"state {k}": [f"thing {k}"] for k in range(STATES)}, words)
    noise = rng.normal(size=(4096, DIMENSION)).astype(np.float32)

    def row(t: int) -> np.ndarray:
        return noise[t * 7919 % len(noise)] + 0.5 * words[t // VISIT % STATES]

    print(
        f"{DIMENSION} dimensions, {STATES} states, {RATE:g} frames per second, horizon {HORIZON} "
        "frames: ms per frame"
    )
    print(f"{'frame':>10} {'median':>9} {'99 %':>9} {'slowest':>9} {'peak memory':>12}")
    live = LiveReading(vocabulary, horizon=HORIZON)
    marks = {n for n in (20_000, 100_000, 1_000_000, frames) if n <= frames}
    spent: list[float] = []
    median = 0.0
    for t in range(frames):
        features = row(t)
        start = time.perf_counter()
        live.push(features, time_s=t / RATE)
        spent.append(1e3 * (time.perf_counter() - start))
        if t + 1 in marks:
            times = np.array(spent[-TIMED:])
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
            median = float(np.median(times))
            print(
                f"{t + 1:>10,} {median:9.3f} {np.quantile(times, 0.99):9.3f} {times.max():9.3f} "
                f"{memory:9.0f} MB",
                flush=True,
            )
        if len(spent) > 2 * TIMED:
            del spent[:TIMED]
    print(
        "\nreading all frames again instead (timeline): ms, and the number of pushes "
        f"({median:.3f} ms each) that take as long"
    )
    for count in (n for n in AGAIN if n <= frames):
        features = np.stack([row(t) for t in range(count)])
        best = np.inf
        for _ in range(3):
            history = History(features, times_s=np.arange(count) / RATE)
            start = time.perf_counter()
            analyse(history, vocabulary)
            best = min(best, 1e3 * (time.perf_counter() - start))
        print(f"{count:>10,} {best:9.1f} {best / median:9.0f}×")


def labels(limit: int | None) -> None:
    """Print the share of frames inside the references that are given to their state.

    This is a mean over histories, of which each set has at most so many.
    """
    scenes = range(limit or SCENES)
    sets: dict[str, Sequence] = {}
    try:
        release = load_release(RELEASE)
        vost = list(release.vost)
        sets |= {"VOST, half A": vost[::2], "VOST, half B": vost[1::2], "seven": release.seven}
    except MissingData as error:
        print(f"measured without the release: {error}")
    sets["rendered, mini"] = [build_entries(SceneRequest(moderate(n)))[0] for n in scenes]
    sets["generated"] = [
        generate(seed, frames=400, recurrences=2, states=("a", "b", "c")) for seed in scenes
    ]
    print(
        "frames of the references that are labelled with their state, in %; like: calibrated with "
        "the history itself, as if it had been seen before; changes: their number, the delay in "
        "frames until one is noticed (median), and how many are never noticed"
    )
    print(
        f"{'':14} {'at once':>9} {'settled':>9} {'offline':>9} {'like: at once':>14} "
        f"{'settled':>9} {'changes':>8} {'after':>6} {'never':>6}"
    )
    for name, entries in sets.items():
        rows, waited = zip(*(_measured(entry) for entry in list(entries)[:limit]), strict=True)
        once, settled, offline, *like = (100 * np.mean(rows, axis=0)).tolist()
        every = [frames for waits in waited for frames in waits]
        noticed = [frames for frames in every if frames is not None]
        never = len(every) - len(noticed)
        print(
            f"{name:14} {once:9.1f} {settled:9.1f} {offline:9.1f} {like[0]:14.1f} {like[1]:9.1f} "
            f"{len(every):8} {np.median(noticed):6.0f} {never:6}"
        )


def _measured(entry) -> tuple[list[float], list[int | None]]:
    history, vocabulary, references = entry.history, entry.vocabulary, entry.references
    truth = _frames(references.items(), history)
    whole = analyse(history, vocabulary).labels
    offline = {int(frame): state for frame, state in zip(history.frames, whole, strict=True)}
    labellings = [*_said(history, vocabulary, None), offline, *_said(history, vocabulary, history)]
    shares = [
        float(np.mean([labels.get(frame) == state for frame, state in truth.items()]))
        for labels in labellings
    ]
    return shares, _waited(labellings[0], references)


def _waited(
    once: Mapping[int, str], references: Mapping[str, Sequence[Window]]
) -> list[int | None]:
    """Return, for each change, after how many frames its state is named; None: not before it
    ends."""
    visits = sorted(
        (w.start, w.end, state) for state, windows in references.items() for w in windows
    )
    return [
        next((f - first for f in range(first, last + 1) if once.get(f) == state), None)
        for first, last, state in visits[1:]
    ]


def _frames(windows, history: History) -> dict[int, str]:
    seen = set(history.frames.tolist())
    return {
        frame: state
        for state, spans in windows
        for window in spans
        for frame in range(window.start, window.end + 1)
        if frame in seen
    }


def _said(
    history: History, vocabulary: Vocabulary, like: History | None
) -> tuple[dict[int, str], dict[int, str]]:
    """Return the label of each frame when it comes, and when it is settled."""
    live = LiveReading(vocabulary, like=like)
    pairs = zip(history.features, history.frames.tolist(), strict=True)
    updates = [live.push(row, frame=frame) for row, frame in pairs]
    once = {update.frame: update.state for update in updates if update.state is not None}
    closed = [window for update in (*updates, live.flush()) for window in update.closed]
    return once, _frames(((window.state, [window.window]) for window in closed), history)


def main() -> None:
    parser = Parser(__doc__, frames=1000)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument(
        "--labels", action="store_true", help="measure how often it is right instead"
    )
    options = parser.parse_args()
    if options.smoke or not options.labels:
        speed(options.frames)
    if options.smoke or options.labels:
        labels(1 if options.smoke else None)


if __name__ == "__main__":
    main()
