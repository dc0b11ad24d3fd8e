"""The strip: what a person's marks on pictures side by side give, right or one picture off.

The references stand in for a person who sees each picture. The gain is the person's: the rows
without pixels put every border in the middle of its gap, and say how little looks add to marks.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from dejacue.evaluation import METRICS, compare
from dejacue.method.known_frames import known_frames_of
from dejacue.method.localization import analyse
from dejacue.method.strips import Strip, marked, open_borders, strip_of
from dejacue.records import Timeline, Vocabulary
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.experiments.beyond import HALVES, sets
from dejacue_paper.experiments.corpus import Benchmark, Corpus, Table
from dejacue_paper.experiments.examples import Windows, answer, rendered_corpus
from dejacue_paper.experiments.table import (
    FAMILY,
    Experiment,
    Result,
    Value,
    paired_values,
    with_intervals,
)
from dejacue_paper.method.windows import description_windows

Marks = dict[str | None, list[tuple[int, int]]]
PICTURES, FINER, SEEDS = (8, 12, 16), 8, 5
CLOSED = (12, 16)  # with finer strips at the borders, too
WRONG = 0.3  # of first and last pictures that are one picture off


@dataclass
class Effort:
    """Counts what a person did: clicks on pictures, and actions, which are clicks, a key for the
    state of each mark, and Enter for each strip."""

    clicks: int = 0
    actions: int = 0

    def add(self, marks: Marks) -> None:
        spans = [span for of_state in marks.values() for span in of_state]
        clicks = sum(1 + (first < last) for first, last in spans)
        self.clicks += clicks
        self.actions += clicks + len(spans) + 1


@dataclass(frozen=True, eq=False)
class Marked:
    """A history whose strips have been marked: what is known, and what it took."""

    vocabulary: Vocabulary
    effort: Effort
    right: float  # share of the pictures of the first strip of which the right thing is believed
    none: float  # … that show none of the states


def strips(benchmark: Benchmark) -> Result:
    """Measure strips of 8, 12 and 16 pictures, the latter two with finer strips at the borders."""
    return marked_strips({**sets(benchmark), "rendered": rendered_corpus(benchmark)})


def marked_strips(corpora: Mapping[str, Corpus], seeds: int = SEEDS) -> Result:
    values: list[Value] = []
    for name, corpus in corpora.items():
        for count in PICTURES:
            kinds = {f"{count} pictures": (False, 0.0), f"{count}, marks off": (False, WRONG)}
            if count in CLOSED:
                row = f"{count}, then borders"
                kinds |= {row: (True, 0.0), f"{row}, off": (True, WRONG)}
            for row, (borders, wrong) in kinds.items():
                values += _rows(corpus, f"{name}: {row}", count, borders, wrong, seeds)
    note = (
        f"The references stand in for a person; off: {WRONG:.0%} of first and last pictures are "
        f"one picture off, means over {seeds} seeds. No pixels: borders in the middle of their "
        "gaps; states that nobody marked by words. Clicks: first and last picture of a mark; "
        "actions: clicks, a key for the state of each mark, and Enter for each strip."
    )
    return Result(tuple(values), {}, (HALVES, note, FAMILY))


def _rows(
    corpus: Corpus, row: str, count: int, borders: bool, wrong: float, seeds: int
) -> list[Value]:
    tables: dict[str, list[Table]] = {"": [], ", no pixels": []}
    efforts, shares = [], []
    for seed in range(seeds if wrong else 1):
        people = [_person(entry, count, borders, wrong, seed) for entry in corpus.entries]
        seen = _read(corpus, people)
        for kind, windows in (("", seen), (", no pixels", _by_middle(corpus, people, seen))):
            tables[kind].append(corpus.means(corpus.scores(windows)))
        efforts.append([(person.effort.clicks, person.effort.actions) for person in people])
        shares.append([(person.right, person.none) for person in people])
    means = {kind: np.mean(of_kind, axis=0) for kind, of_kind in tables.items()}
    values = [v for kind, table in means.items() for v in with_intervals(f"{row}{kind}", table)]
    pairs = compare(means[""], means[", no pixels"])
    values += paired_values(f"{row} − no pixels", dict(zip(METRICS, pairs, strict=True)), {})
    for name, mean in zip(("clicks", "actions"), np.mean(efforts, axis=(0, 1)), strict=True):
        values.append(Value(row, name, float(mean), None, unit="a history", digits=2))
    names = "pictures believed right", "pictures that show none of the states"
    for name, mean in zip(names, np.mean(shares, axis=(0, 1)), strict=True):
        values.append(Value(row, name, float(mean), None))
    return values


def _person(entry: ReleaseEntry, count: int, borders: bool, wrong: float, seed: int) -> Marked:
    """Mark the strip of a history and, then, those of states that were not seen and of borders."""
    history, known = entry.history, entry.vocabulary
    rng = np.random.default_rng([seed, zlib.crc32(entry.label.encode())])
    timeline = analyse(history, known)
    strip = strip_of(history, known, timeline, count)
    truth = _truth(entry, strip)
    right = float(np.mean([a == b for a, b in zip(strip.believed, truth, strict=True)]))
    none = truth.count(None) / len(truth)
    marks, effort = _marks(truth, rng, wrong), Effort()
    effort.add(marks)
    if marks:
        known = marked(history, known, strip, marks)
    if not borders:
        return Marked(known, effort, right, none)
    for state in known.states:
        if not any(example.state == state for example in known.frame_examples):
            strip = strip_of(history, known, timeline, count, border=(state, "start"))
            truth = [name if name == state else None for name in _truth(entry, strip)]
            marks = _marks(truth, rng, wrong)
            effort.add(marks)
            if marks:
                known = marked(history, known, strip, marks)
    known = _with_borders(entry, known, timeline, effort, rng, wrong)
    return Marked(known, effort, right, none)


def _with_borders(
    entry: ReleaseEntry,
    known: Vocabulary,
    timeline: Timeline,
    effort: Effort,
    rng: np.random.Generator,
    wrong: float,
) -> Vocabulary:
    """Mark a finer strip at each border that is open, once: every state that it shows."""
    for border in open_borders(entry.history, known):
        if border in open_borders(entry.history, known):  # the strip of another may have closed it
            strip = strip_of(entry.history, known, timeline, FINER, border=border)
            marks = _marks(_truth(entry, strip), rng, wrong)
            effort.add(marks)
            if marks:
                known = marked(entry.history, known, strip, marks)
    return known


def _truth(entry: ReleaseEntry, strip: Strip) -> list[str | None]:
    names: list[str | None] = [*entry.vocabulary.states, None]
    positions = np.searchsorted(entry.history.frames, strip.frames).tolist()
    return [names[answer(entry, at)] for at in positions]


def _marks(truth: list[str | None], rng: np.random.Generator, wrong: float) -> Marks:
    """Return the marks of pictures, each end one picture off as often as ``wrong``."""
    marks: Marks = {}
    first = after = 0
    for state, run in groupby(truth):
        low, high = first, first + len(list(run)) - 1
        first = high + 1
        if state is None:
            continue
        steps = rng.choice([-1, 1], 2) * (rng.random(2) < wrong)
        low, high = max(after, low + int(steps[0])), min(len(truth) - 1, high + int(steps[1]))
        if low <= high:
            marks.setdefault(state, []).append((low + 1, high + 1))  # pictures count from 1
            after = high + 1
    return marks


def _read(corpus: Corpus, people: list[Marked]) -> Windows:
    histories = (entry.history for entry in corpus.entries)
    vocabularies = [person.vocabulary for person in people]
    return description_windows(histories, vocabularies, kernel=corpus.engine)[0]


def _by_middle(corpus: Corpus, people: list[Marked], seen: Windows) -> Windows:
    """Return windows whose borders lie in the middle of their gaps; of states that were not marked,
    those of words."""
    windows, row = seen.copy(), 0
    for entry, person in zip(corpus.entries, people, strict=True):
        middle = middles(entry, person.vocabulary) if person.vocabulary.frame_examples else {}
        for state in entry.vocabulary.state_names:
            windows[row] = middle.get(state, windows[row])
            row += 1
    return windows


def middles(entry: ReleaseEntry, known: Vocabulary) -> dict[str, Any]:
    """Return the longest window of each marked state whose borders lie in the middle of gaps."""
    frames, labels = entry.history.frames, known_frames_of(entry.history, known).labels
    named = np.flatnonzero(labels >= 0)
    path = labels[named[np.abs(frames[:, None] - frames[named][None, :]).argmin(axis=1)]]
    cuts = [0, *(np.flatnonzero(np.diff(path)) + 1).tolist(), len(path)]
    windows = {}
    for number, state in enumerate(known.states):
        stretches = [(a, b) for a, b in pairwise(cuts) if path[a] == number]
        if stretches:
            first, end = max(stretches, key=lambda cut: cut[1] - cut[0])
            windows[state] = (frames[first], frames[end - 1])
    return windows


EXPERIMENTS = (Experiment("beyond-strips", "Marks on strips of pictures", strips, on_request=True),)
