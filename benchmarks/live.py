"""A live reading a frame at a time: python benchmarks/live.py

How long a push takes, beside find without its notes and trust (``locate``) on the same frames:
features of 768 dimensions that are already encoded, 10 states, 25 frames a second. With --labels
instead (part of it needs the release): how often what is said is right, a frame at a time.
"""

from __future__ import annotations

from _common import Parser, one_thread

one_thread()

import resource
import time
from collections.abc import Mapping, Sequence

import numpy as np

from dejacue import History, Vocabulary, locate
from dejacue.errors import MissingData
from dejacue.method import LiveReading, Window
from dejacue.method.localization import analyse
from dejacue.records.update import Update
from dejacue_paper import generate, load_release
from dejacue_paper.experiments.rendered import SceneRequest, build_entries, moderate

DIMENSION, STATES, RATE, VISIT = 768, 10, 25.0, 200
HORIZON_S, TIMED = 600.0, 300  # seconds; frames
DELAY = 20  # frames: the default delay, without times
SCENES = 40
KEPT = (1_000, 5_000, 10_000, 20_000)


def speed(frames: int) -> None:
    rng = np.random.default_rng(0)
    words = rng.normal(size=(STATES, DIMENSION)).astype(np.float32)
    vocabulary = Vocabulary({f"state {k}": [f"thing {k}"] for k in range(STATES)}, words)
    noise = rng.normal(size=(4096, DIMENSION)).astype(np.float32)

    def row(t: int) -> np.ndarray:
        return noise[t * 7919 % len(noise)] + 0.5 * words[t // VISIT % STATES]

    print(
        f"{DIMENSION} dimensions, {STATES} states, {RATE:g} frames per second, horizon "
        f"{HORIZON_S:g} s: ms per frame, of the last {TIMED}; locate: all that is kept, at once"
    )
    print(
        f"{'frame':>8} {'kept':>8} {'fastest':>9} {'median':>9} {'99 %':>9} {'peak memory':>12} "
        f"{'locate':>9} {'push ÷ locate':>14}"
    )
    live = LiveReading(vocabulary, horizon_s=HORIZON_S)
    spent: list[float] = []
    for t in range(frames):
        features = row(t)
        start = time.perf_counter()
        live.push(features, time_s=t / RATE)
        spent.append(1e3 * (time.perf_counter() - start))
        if t + 1 not in {*KEPT, frames}:
            continue
        times = np.array(spent[-TIMED:])
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        whole = min(_read_whole(live.history(), vocabulary) for _ in range(5))
        print(
            f"{t + 1:>8,} {len(live.history()):>8,} {times.min():9.2f} {np.median(times):9.2f} "
            f"{np.quantile(times, 0.99):9.2f} {memory:9.0f} MB {whole:9.2f} "
            f"{times.min() / whole:14.2f}",
            flush=True,
        )


def _read_whole(history: History, vocabulary: Vocabulary) -> float:
    """Return in how many ms a history is read that nothing is known of yet."""
    fresh = History(history.features, history.frames, times_s=history.times_s)
    start = time.perf_counter()
    locate(fresh, vocabulary)
    return 1e3 * (time.perf_counter() - start)


def labels(limit: int | None) -> None:
    """Print the share of frames inside the references that are given to their state.

    This is a mean over histories, of which each set has at most so many.
    """
    scenes = range(limit or SCENES)
    sets: dict[str, Sequence] = {}
    try:
        release = load_release()
        vost = list(release.vost)
        sets |= {"VOST, half A": vost[::2], "VOST, half B": vost[1::2], "seven": release.seven}
    except MissingData as error:
        print(f"measured without the release: {error}")
    sets["rendered, mini"] = [build_entries(SceneRequest(moderate(n)))[0] for n in scenes]
    sets["generated"] = [
        generate(seed, frames=400, recurrences=2, states=("a", "b", "c")) for seed in scenes
    ]
    print(
        "frames of the references that are labelled with their state, in %: when they come, "
        f"{DELAY} frames later, offline; calibrated: with the history itself, as if it had "
        "been seen before; changes: their number, the delay in frames until one is noticed "
        "(median), and how many are never noticed; occurrences: their number offline, how many "
        "were closed before the end, and how many of these withdrawn before the end"
    )
    print(
        f"{'':14} {'at once':>9} {'later':>9} {'offline':>9} {'calib.: at once':>15} "
        f"{'later':>9} {'changes':>8} {'after':>6} {'never':>6} {'occurrences':>12} {'closed':>7} "
        f"{'withdrawn':>10}"
    )
    for name, entries in sets.items():
        measured = [_measured(entry) for entry in list(entries)[:limit]]
        rows, waited, counts = zip(*measured, strict=True)
        once, later, offline, *like = (100 * np.mean(rows, axis=0)).tolist()
        every = [frames for waits in waited for frames in waits]
        noticed = [frames for frames in every if frames is not None]
        never = len(every) - len(noticed)
        found, closed, withdrawn = np.sum(counts, axis=0).tolist()
        print(
            f"{name:14} {once:9.1f} {later:9.1f} {offline:9.1f} {like[0]:14.1f} {like[1]:9.1f} "
            f"{len(every):8} {np.median(noticed):6.0f} {never:6} {found:12} {closed:7} "
            f"{withdrawn:10}"
        )


def _measured(entry) -> tuple[list[float], list[int | None], list[int]]:
    history, vocabulary, references = entry.history, entry.vocabulary, entry.references
    truth = _frames(references.items(), history)
    whole = analyse(history, vocabulary)
    once, later, counts = _said(history, vocabulary, None)
    labellings = [once, later, whole.labels, *_said(history, vocabulary, history)[:2]]
    by_frame = [dict(zip(history.frames.tolist(), labels, strict=True)) for labels in labellings]
    shares = [
        float(np.mean([labels[frame] == state for frame, state in truth.items()]))
        for labels in by_frame
    ]
    return shares, _waited(by_frame[0], references), [len(whole.intervals), *counts]


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
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return the label of each frame when it comes and after the delay, and how many occurrences
    were closed and withdrawn before the end."""
    live, frames = LiveReading(vocabulary, calibrate=like), history.frames
    known, once, later = np.full((3, len(frames)), None, object)
    counts, settled = np.zeros(2, int), 0
    for at, row in enumerate(history.features):
        update = live.push(row, frame=int(frames[at]))
        _revise(known, update, frames)
        known[at] = once[at] = update.state
        due = int(np.searchsorted(frames, update.frame - DELAY, side="right"))
        later[settled:due] = known[settled:due]
        settled = due
        counts += len(update.closed), len(update.withdrawn)
    _revise(known, live.flush(), frames)
    later[settled:] = known[settled:]
    return once, later, counts.tolist()


def _revise(known: np.ndarray, update: Update, frames: np.ndarray) -> None:
    for revision in update.revised:
        first, last = np.searchsorted(frames, tuple(revision.window))
        known[first : last + 1] = revision.now


def main() -> None:
    parser = Parser(__doc__, frames=300)
    parser.add_argument("--frames", type=int, default=20_000)
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
