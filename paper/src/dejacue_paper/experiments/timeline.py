"""Beyond the paper: whole timelines, and how far to trust an occurrence.

Frames count where a reference says what they show; there, a timeline is one label per frame. The
form of the reading was chosen on half A, development and rendered scenes; half B and the seven
histories confirm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dejacue.evaluation import best_tiou
from dejacue.evaluation.segmentation import (
    BACKGROUND,
    edit_score,
    frame_accuracy,
    segment_f1,
    segments_of,
)
from dejacue.method.localization import Plan, analyse
from dejacue.method.readout import timeline_of
from dejacue.method.timeline import ALIKE, ReadingView
from dejacue.records import History, Interval, Timeline, Vocabulary, Window
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.data.rendered import FAMILIES
from dejacue_paper.experiments import rendered
from dejacue_paper.experiments.beyond import HALVES, sets
from dejacue_paper.experiments.corpus import Benchmark
from dejacue_paper.experiments.examples import DRAWS, inside, with_frames
from dejacue_paper.experiments.like import alone, kin_of, with_words
from dejacue_paper.experiments.table import Experiment, Result, Value

Labels = NDArray[np.int64]
# intervals as labels, and whole stretches; the number of the draw
Read = Callable[[ReleaseEntry, int], tuple[Labels, Labels]]
Entries = Sequence[ReleaseEntry]

THRESHOLDS = (0.10, 0.25, 0.50)
RECURRING_SCENES = 60
RECURRING_SEED = 90_000  # beyond those of the other experiments
COVERAGE = (0.1, 0.3, 0.5, 1.0)
METRICS = {
    "accuracy": "frame accuracy, intervals",
    "labels": "frame accuracy, labels",
    **{f"f1_{round(100 * t)}": f"F1@{t:.2f}" for t in THRESHOLDS},
    "edit": "edit score",
    "segments": "occurrences found",
    "true": "true occurrences",
}


def whole_timelines(
    benchmark: Benchmark, scenes: int = RECURRING_SCENES, workers: int | None = None
) -> Result:
    """Measure timelines of words, and of one example a state, against all that is labelled."""
    groups: dict[str, Entries] = {name: corpus.entries for name, corpus in sets(benchmark).items()}
    for half in ("half A", "half B"):
        groups[f"{half} recombined"] = [
            entry for original in groups[half] for entry in recombined(original)
        ]
    groups["rendered, recurring"] = recurring_scenes(scenes, workers)
    rows = [value for name, entries in groups.items() for value in measured(name, entries)]
    return Result(tuple(rows), {}, (HALVES, ABOUT))


ABOUT = (
    "Means over histories (examples: over five draws, too); frames without a reference do not "
    "count. Recombined: each history followed by itself, backwards and again, so that states "
    "return. Segments as in action segmentation: a found one counts once. One example: a random "
    "frame of each state beside its words; exhaustive: every frame shows one of the states. "
    "Nearest example: each frame gets the state of the example nearest in time, without pixels."
)


def measured(name: str, entries: Entries) -> list[Value]:
    """Return the values of every way to read a group of histories."""
    values: list[Value] = []
    for row, (read, draws) in READINGS.items():
        scores = [scored(entry, read, draw) for draw in range(draws) for entry in entries]
        for key, metric in METRICS.items():
            unit = "count" if key in ("segments", "true") else "%"
            mean = float(np.mean([score[key] for score in scores]))
            values.append(Value(f"{name}: {row}", metric, mean, None, unit=unit))
    return values


def scored(entry: ReleaseEntry, read: Read, draw: int) -> dict[str, float]:
    """Return the METRICS of one history."""
    (windows, stretches), true = read(entry, draw), truth(entry)
    known = true != BACKGROUND
    pair = windows[known], true[known]
    scores = {f"f1_{round(100 * t)}": segment_f1(*pair, t) for t in THRESHOLDS}
    return scores | {
        "accuracy": frame_accuracy(*pair),
        "labels": frame_accuracy(stretches[known], true[known]),
        "edit": edit_score(*pair),
        "segments": float(len(segments_of(windows))),
        "true": float(len(segments_of(true[known]))),
    }


def truth(entry: ReleaseEntry) -> Labels:
    """Return the state that the references give each frame, −1 where they say nothing."""
    frames = entry.history.frames
    labels: Labels = np.full(len(frames), BACKGROUND)
    for state, name in enumerate(entry.vocabulary.states):
        for window in entry.references[name]:
            labels[(frames >= window.start) & (frames <= window.end)] = state
    return labels


def labels_of(timeline: Timeline, history: History) -> tuple[Labels, Labels]:
    """Return the state that the intervals give each frame, the better one where they overlap, and
    the labels of the timeline."""
    labels: Labels = np.full(len(history), BACKGROUND)
    states = list(timeline.states)
    for interval in sorted(timeline, key=lambda interval: interval.score):
        first, last = history.rows_of(interval.window)
        labels[first : last + 1] = states.index(interval.state)
    assert timeline.evidence is not None
    dense = timeline.evidence.labels
    return labels, labels if dense is None else dense


def _words(readout: str) -> Read:
    return lambda entry, draw: labels_of(
        analyse(entry.history, entry.vocabulary, readout=readout), entry.history
    )


def _one_example(readout: str, exhaustive: bool = False) -> Read:
    def read(entry: ReleaseEntry, draw: int) -> tuple[Labels, Labels]:
        words: Vocabulary = with_frames(entry, inside(entry, 1, draw))
        words = replace(words, exhaustive=exhaustive)
        return labels_of(analyse(entry.history, words, readout=readout), entry.history)

    return read


def _nearest(entry: ReleaseEntry, draw: int) -> tuple[Labels, Labels]:
    named = inside(entry, 1, draw)
    at, states = np.array([at for at, _ in named]), np.array([state for _, state in named])
    frames = entry.history.frames
    labels: Labels = states[np.abs(frames[:, None] - frames[at][None, :]).argmin(axis=1)]
    return labels, labels


READINGS: Mapping[str, tuple[Read, int]] = {
    "contrast": (_words("contrast"), 1),
    "timeline": (_words("timeline"), 1),
    "one example, contrast": (_one_example("contrast"), DRAWS),
    "one example, timeline": (_one_example("timeline"), DRAWS),
    "one example, exhaustive": (_one_example("timeline", exhaustive=True), DRAWS),
    "one example, no pixels": (_nearest, DRAWS),
}


def recombined(entry: ReleaseEntry) -> list[ReleaseEntry]:
    """Return the history followed by itself backwards, and followed by itself."""
    forwards = np.arange(len(entry.history))
    return [
        rearranged(entry, order)
        for order in (
            np.concatenate([forwards, forwards[::-1]]),
            np.concatenate([forwards, forwards]),
        )
    ]


def rearranged(entry: ReleaseEntry, order: Labels) -> ReleaseEntry:
    """Return an entry of these rows in this order, as frames without gaps."""
    states = list(entry.vocabulary.states)
    references: dict[str, list[Window]] = {state: [] for state in entry.references}
    for state, first, end in segments_of(truth(entry)[order]):
        references[states[state]].append(Window(first, end - 1))
    history = History(entry.history.features[order], id=entry.history.id)
    windows = {state: tuple(row) for state, row in references.items()}
    return replace(entry, history=history, references=windows)


def recurring_scenes(scenes: int, workers: int | None) -> list[ReleaseEntry]:
    """Return rendered scenes in which states return, of seeds that no other experiment has."""
    able = [f.name for f in FAMILIES.values() if "recurrent" in f.topologies]
    requests = [
        rendered.SceneRequest(
            {
                **rendered.moderate(number),
                "seed": RECURRING_SEED + number,
                "family": able[number % len(able)],
                "topology": "recurrent",
            }
        )
        for number in range(scenes)
    ]
    built = rendered.build_all_entries(requests, workers)
    return [with_true_masks for with_true_masks, *_ in built if with_true_masks is not None]


def trust(benchmark: Benchmark) -> Result:
    """Measure whether the confidence ranks occurrences, and what the surest of them are worth."""
    values: list[Value] = []
    for name, corpus in sets(benchmark).items():
        values += _ranked(name, corpus.entries)
        values += _of_states(f"{name}: states", corpus.entries)
    kin = kin_of(benchmark.vost.entries)
    for name in ("half A", "half B"):
        able = [entry for entry in sets(benchmark)[name].entries if kin[entry.id]]
        for beside, vocabulary_of in (("words and teachers", with_words), ("teachers", alone)):
            taught = [replace(e, vocabulary=vocabulary_of(kin, e)) for e in able]
            values += _ranked(f"{name}, {beside}", taught)
    about = (
        "Right: tIoU ≥ .5 with a reference of the state; of states, that of the best occurrence. "
        "L: how far looks lie from those of other states. Doubtful: named so by a note, because "
        "the highest L of a state is low."
    )
    return Result(tuple(values), {}, (HALVES, about))


def _ranked(name: str, entries: Entries) -> list[Value]:
    """Return how the confidence ranks all occurrences of these histories, and the best of each
    state."""
    values: list[Value] = []
    rows = [row for entry in entries for row in _trusted(entry)]
    for which, chosen in (("all", rows), ("best of a state", [r for r in rows if r[2]])):
        confidence = np.array([row[0] for row in chosen])
        right = np.array([row[1] for row in chosen])
        row = f"{name}: {which}"
        values.append(Value(row, "AUC", area(confidence, right), None, unit="AUC"))
        for share in COVERAGE:
            surest = np.argsort(-confidence, kind="stable")[: max(1, round(share * len(right)))]
            values.append(
                Value(row, f"right, surest {share:.0%}", float(right[surest].mean()), None)
            )
        for at, third in zip((1, 2), np.quantile(confidence, [1 / 3, 2 / 3]), strict=True):
            values.append(Value(row, f"third {at}", float(third), None, unit="confidence"))
    return values


def _of_states(row: str, entries: Entries) -> list[Value]:
    """Return the lowest tenth of the highest L of a state, and how right those are that a note
    names as doubtful; and how many it names of words that have nothing to do with the history."""
    highest, right = np.array([state for entry in entries for state in _highest(entry)]).T
    doubtful = highest <= ALIKE
    next_ones = [*entries[1:], *entries[:1]]
    unrelated = [
        apart
        for entry, next_one in zip(entries, next_ones, strict=True)
        for _, apart, _ in _apart(entry.history, next_one.vocabulary)
    ]
    values = [
        Value(row, "lowest tenth", float(np.quantile(highest, 0.1)), None, unit="L"),
        Value(row, "named doubtful", float(doubtful.mean()), None),
        Value(
            row, "… by words of another history", float(np.mean(np.array(unrelated) <= ALIKE)), None
        ),
    ]
    for which, chosen in (("doubtful", doubtful), ("others", ~doubtful)):
        share = float(right[chosen].mean()) if chosen.any() else None
        values.append(Value(row, which, float(chosen.sum()), None, unit="states"))
        values.append(Value(row, f"right, {which}", share, None))
    return values


def _highest(entry: ReleaseEntry) -> list[tuple[float, bool]]:
    """Return of each state that is found its highest L, and whether its best window is right."""
    rows = []
    for name, apart, best in _apart(entry.history, entry.vocabulary):
        true = np.array([tuple(window) for window in entry.references[name]])
        rows.append((apart, bool(best_tiou([tuple(best.window)], [true])[0] >= 0.5)))
    return rows


def _apart(history: History, vocabulary: Vocabulary) -> list[tuple[str, float, Interval]]:
    """Return each state that is found, its highest L and its best occurrence."""
    view = Plan.of().view(history, vocabulary)
    assert isinstance(view, ReadingView)
    timeline, found = timeline_of([view]), view.windows.state
    return [
        (name, float(view.separations[found == state].max()), best)
        for state, name in enumerate(vocabulary.states)
        if (best := timeline.best(name)) is not None
    ]


def _trusted(entry: ReleaseEntry) -> list[tuple[float, bool, bool]]:
    """Return of each occurrence its confidence, whether it is right, and whether it is the best."""
    timeline = analyse(entry.history, entry.vocabulary)
    rows = []
    for interval in timeline:
        true = np.array([tuple(window) for window in entry.references[interval.state]])
        right = bool(best_tiou([tuple(interval.window)], [true])[0] >= 0.5)
        assert interval.confidence is not None
        rows.append((interval.confidence, right, interval is timeline.best(interval.state)))
    return rows


def area(scores: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Return how often what is right has the higher score, ties half."""
    yes, no = scores[right], scores[~right]
    if not len(yes) or not len(no):
        return float("nan")
    higher, equal = yes[:, None] > no, yes[:, None] == no
    return float(higher.mean() + equal.mean() / 2)


EXPERIMENTS = (
    Experiment(
        "beyond-timeline",
        "Whole timelines of words and of one example a state",
        whole_timelines,
        on_request=True,
    ),
    Experiment(
        "beyond-trust",
        "Does the confidence rank occurrences? AUC and coverage",
        trust,
        on_request=True,
    ),
)
