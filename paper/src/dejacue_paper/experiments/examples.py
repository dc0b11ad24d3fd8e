"""States shown by example frames: how far a few go, which frames to ask about, other histories.

A person is played by the references: a frame inside a reference of a state shows that state, any
other frame none of them. Every table has what examples give without looking at a single pixel: each
frame to the nearest example in time, and the span of a state's examples, widened as chance demands.
Forms and constants were chosen on half A, development, generated and rendered histories
(paper/docs/beyond.md keeps the log); half B and the seven histories confirm.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.evaluation import METRICS, compare
from dejacue.method.localization import locate
from dejacue.method.questions import next_question
from dejacue.records import Vocabulary
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.experiments import rendered
from dejacue_paper.experiments.beyond import HALVES, sets
from dejacue_paper.experiments.corpus import Benchmark, Corpus, Table
from dejacue_paper.experiments.table import (
    FAMILY,
    Experiment,
    Result,
    Value,
    intervals,
    paired_values,
    with_intervals,
)
from dejacue_paper.method.windows import description_windows

Named = list[tuple[int, int]]  # frames by position, and the number of the state; S: none of them
Windows = NDArray[np.int64]
Read = Callable[[ReleaseEntry, Named], list[tuple[int, int]]]  # the window of each state

DRAWS = 5
PER_STATE = (1, 3)
ANSWERS = (1, 2, 3, 4, 6, 8)
SCENES = 60
ASKED = {"asked for": "next_question", "grid": "grid", "at random": "random"}


def answer(entry: ReleaseEntry, at: int) -> int:
    """Return what a person would say of a frame."""
    frame = int(entry.history.frames[at])
    for state, windows in enumerate(entry.references.values()):
        if any(window.start <= frame <= window.end for window in windows):
            return list(entry.vocabulary.states).index(list(entry.references)[state])
    return len(entry.vocabulary.states)


def inside(entry: ReleaseEntry, count: int, draw: int) -> Named:
    """Draw this many random frames of each state."""
    rng = np.random.default_rng([draw, zlib.crc32(entry.label.encode())])
    labels = np.array([answer(entry, at) for at in range(len(entry.history))])
    named: Named = []
    for state in range(len(entry.vocabulary.states)):
        positions = rng.permutation(np.flatnonzero(labels == state))[:count]
        named += [(int(at), state) for at in positions]
    return named


def neighbouring(entry: ReleaseEntry, draw: int) -> Named:
    """Draw a random frame of each state, and name up to two of its neighbours of that state too."""
    named: Named = []
    for at, state in inside(entry, 1, draw):
        beside = (at + step for step in (-1, 1, -2, 2) if 0 <= at + step < len(entry.history))
        same = [position for position in beside if answer(entry, position) == state]
        named += [(position, state) for position in (at, *same[:2])]
    return named


def with_frames(entry: ReleaseEntry, named: Named) -> Vocabulary:
    """Return the vocabulary with these frames as examples."""
    names: list[str | None] = [*entry.vocabulary.states, None]
    frames: dict[str | None, list[int]] = {}
    for at, state in named:
        frames.setdefault(names[state], []).append(int(entry.history.frames[at]))
    return entry.vocabulary.with_examples(frames)


def wordless(entry: ReleaseEntry, named: Named) -> Vocabulary:
    """Return a vocabulary of examples alone."""
    vocabulary = with_frames(entry, named)
    bare = dict.fromkeys(vocabulary.states, ())
    return Vocabulary(bare, encoder=vocabulary.encoder, examples=vocabulary.examples)


def read_all(
    corpus: Corpus,
    named: Mapping[str, Named],
    readout: str = "timeline",
    make: Callable[[ReleaseEntry, Named], Vocabulary] = with_frames,
) -> Windows:
    """Return (n, 2) windows of every description."""
    vocabularies = [make(entry, named[entry.id]) for entry in corpus.entries]
    histories = (entry.history for entry in corpus.entries)
    windows, _ = description_windows(histories, vocabularies, readout=readout, kernel=corpus.engine)
    rows, before = [], 0
    for entry, vocabulary in zip(corpus.entries, vocabularies, strict=True):  # maybe wordless
        rows += [
            before + vocabulary.state_names.index(state) for state in entry.vocabulary.state_names
        ]
        before += len(vocabulary)
    return windows[rows]


def without_pixels(corpus: Corpus, named: Mapping[str, Named], read: Read) -> Windows:
    rows = []
    for entry in corpus.entries:
        window_of = dict(zip(entry.vocabulary.states, read(entry, named[entry.id]), strict=True))
        rows += [window_of[state] for state in entry.vocabulary.state_names]
    return np.array(rows)


def nearest(entry: ReleaseEntry, named: Named) -> list[tuple[int, int]]:
    """Give each frame to the nearest example in time, and return the longest stretch of each state;
    of a state that has no example, the window of its words."""
    frames = entry.history.frames
    at = np.array([frames[position] for position, _ in named])
    labels = np.array([state for _, state in named])
    path = labels[np.abs(frames[:, None] - at[None, :]).argmin(axis=1)]
    cuts = [0, *(np.flatnonzero(np.diff(path)) + 1).tolist(), len(path)]
    windows: list[tuple[int, int]] = []
    by_words = None
    for state, name in enumerate(entry.vocabulary.states):
        stretches = [(a, b) for a, b in pairwise(cuts) if path[a] == state]
        if stretches:
            first, end = max(stretches, key=lambda cut: cut[1] - cut[0])
            windows.append((int(frames[first]), int(frames[end - 1])))
        else:
            by_words = by_words or locate(entry.history, entry.vocabulary, readout="contrast")
            windows.append((by_words[name][0].start, by_words[name][0].end))
    return windows


def span(entry: ReleaseEntry, named: Named) -> list[tuple[int, int]]:
    """Return the stretch from the first example of a state to the last, widened: n frames drawn
    from a stretch leave out 2/(n + 1) of it on average. A single one gives the nearest-example
    window."""
    frames, plain = entry.history.frames, nearest(entry, named)
    windows = []
    for state, window in enumerate(plain):
        own_frames = [int(frames[at]) for at, label in named if label == state]
        if len(own_frames) < 2:
            windows.append(window)
            continue
        edge = (max(own_frames) - min(own_frames)) / (len(own_frames) - 1)
        first = max(int(frames[0]), round(min(own_frames) - edge))
        windows.append((first, min(int(frames[-1]), round(max(own_frames) + edge))))
    return windows


def per_state(benchmark: Benchmark) -> Result:
    """Measure one and three random frames of every state."""
    corpora = {**sets(benchmark), "rendered": rendered_corpus(benchmark)}
    return compared(corpora)


def rendered_corpus(benchmark: Benchmark, scenes: int = SCENES) -> Corpus:
    return Corpus(rendered.moderate_entries(scenes, None), benchmark.engine)


def compared(corpora: Mapping[str, Corpus], draws: int = DRAWS) -> Result:
    values: list[Value] = []
    for name, corpus in corpora.items():
        words = corpus.means(corpus.scores(corpus.windows("vocabulary", "contrast")))
        values += with_intervals(f"{name}: words", words)
        for count in PER_STATE:
            tables = _tables(corpus, count, draws)
            for row, table in tables.items():
                values += with_intervals(f"{name}: {row}, {count} a state", table)
            for baseline, table in {"words": words, **_baselines(tables)}.items():
                pairs = compare(tables["words and examples"], table)
                row = f"{name}: words and examples, {count} a state − {baseline}"
                values += paired_values(row, dict(zip(METRICS, pairs, strict=True)), {})
    note = f"Means over {draws} draws of the examples; the references stand in for a person."
    return Result(tuple(values), {}, (HALVES, note, FAMILY))


def _baselines(tables: Mapping[str, Table]) -> dict[str, Table]:
    return {row: table for row, table in tables.items() if row.startswith("no pixels")}


def _tables(corpus: Corpus, count: int, draws: int) -> dict[str, Table]:
    """Return means per component or history, over the draws."""
    by_row: dict[str, list[Table]] = {}
    for draw in range(draws):
        named = {entry.id: inside(entry, count, draw) for entry in corpus.entries}
        beside = {entry.id: neighbouring(entry, draw) for entry in corpus.entries}
        windows = {
            "words and examples": read_all(corpus, named),
            "the same, contrast": read_all(corpus, named, "contrast"),
            **({"and two neighbours": read_all(corpus, beside)} if count == 1 else {}),
            "examples alone": read_all(corpus, named, make=wordless),
            "no pixels, nearest example": without_pixels(corpus, named, nearest),
            "no pixels, span of examples": without_pixels(corpus, named, span),
        }
        for row, selected in windows.items():
            by_row.setdefault(row, []).append(corpus.means(corpus.scores(selected)))
    return {row: np.mean(tables, axis=0) for row, tables in by_row.items()}


def questions(benchmark: Benchmark) -> Result:
    """Measure how good the windows are after so many answers, by how the frames were chosen."""
    return asked({**sets(benchmark), "rendered": rendered_corpus(benchmark)})


def asked(corpora: Mapping[str, Corpus]) -> Result:
    values: list[Value] = []
    lines: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
    for name, corpus in corpora.items():
        known = {kind: _answers(corpus, how) for kind, how in ASKED.items()}
        for count in ANSWERS:
            tables: dict[str, Table] = {}
            for kind, draws in known.items():
                named = [
                    {id: answers[:count] for id, answers in draw.items()} for draw in draws[count]
                ]
                by_draw = [corpus.means(corpus.scores(read_all(corpus, d))) for d in named]
                tables[kind] = np.mean(by_draw, axis=0)
                if len(named) > 1:
                    row = f"{name}: {count} answers, {kind}, deviation of draws"
                    deviations = np.std(np.mean(by_draw, axis=1), axis=0, ddof=1).tolist()
                    values += [
                        Value(row, metric, std, None)
                        for metric, std in zip(METRICS, deviations, strict=True)
                    ]
                tables[f"no pixels, {kind}"] = _mean(
                    corpus, [without_pixels(corpus, draw, nearest) for draw in named]
                )
            for row, table in tables.items():
                values += with_intervals(f"{name}: {count} answers, {row}", table)
                lines.setdefault(name, {}).setdefault(row, []).append(intervals(table)[1])
            if count == 4:
                for method in list(tables)[1:]:
                    pairs = compare(tables["asked for"], tables[method])
                    row = f"{name}: {count} answers, asked for − {method}"
                    values += paired_values(row, dict(zip(METRICS, pairs, strict=True)), {})
    figure = partial(_curve_figure, {n: o for n, o in lines.items() if n not in ("VOST",)})
    note = f"The references stand in for a person; grid, at random: means over {DRAWS} draws."
    return Result(tuple(values), {}, (HALVES, note, FAMILY), {"examples": figure})


def _mean(corpus: Corpus, windows: list[Windows]) -> Table:
    mean: Table = np.mean([corpus.means(corpus.scores(selected)) for selected in windows], axis=0)
    return mean


def _answers(corpus: Corpus, how: str) -> dict[int, list[dict[str, Named]]]:
    """Return the number of answers → draws of the frames that were named."""
    if how == "next_question":
        whole = {
            entry.id: _dialogue(entry, max(ANSWERS), corpus.engine) for entry in corpus.entries
        }
        return {count: [whole] for count in ANSWERS}
    if how == "grid":
        return {
            count: [{e.id: _grid(e, count, d) for e in corpus.entries} for d in range(DRAWS)]
            for count in ANSWERS
        }
    most = max(ANSWERS)
    draws = [{e.id: _random(e, most, draw) for e in corpus.entries} for draw in range(DRAWS)]
    return dict.fromkeys(ANSWERS, draws)


def _dialogue(entry: ReleaseEntry, count: int, engine: str) -> Named:
    """Ask each question given the answers before it, and return all answers."""
    named: Named = []
    for _ in range(count):
        asked_for = next_question(entry.history, with_frames(entry, named), kernel=engine)
        if not asked_for:
            break
        at = int(np.searchsorted(entry.history.frames, asked_for[0].frame))
        named.append((at, answer(entry, at)))
    return named


def _grid(entry: ReleaseEntry, count: int, draw: int) -> Named:
    """Name evenly spaced frames; where the first lies is drawn."""
    rng = np.random.default_rng([draw, zlib.crc32(entry.label.encode())])
    size = len(entry.history)
    at = np.unique(((np.arange(count) + rng.random()) / count * size).astype(int))
    return [(int(position), answer(entry, int(position))) for position in at]


def _random(entry: ReleaseEntry, count: int, draw: int) -> Named:
    rng = np.random.default_rng([draw, zlib.crc32(entry.label.encode())])
    at = rng.permutation(len(entry.history))[:count]
    return [(int(position), answer(entry, int(position))) for position in at]


def transfer(benchmark: Benchmark) -> Result:
    """Measure examples of one labelled history of a kind, three frames a state, in others of its
    kind."""
    values: list[Value] = []
    for name, corpus in {"VOST": benchmark.vost, "rendered": rendered_corpus(benchmark)}.items():
        pairs = _kin(corpus)
        kin = Corpus([entry for entry, _ in pairs], corpus.engine, corpus.components)
        words = kin.means(kin.scores(kin.windows("vocabulary", "contrast")))
        values += with_intervals(f"{name}: words ({len(pairs)} histories)", words)
        for row, make in (("words and examples", _carried), ("examples alone", _carried_alone)):
            draws = []
            for draw in range(DRAWS):
                teacher = {e.id: (source, inside(source, 3, draw)) for e, source in pairs}
                vocabularies = [make(e, *teacher[e.id]) for e, _ in pairs]
                histories = (entry.history for entry, _ in pairs)
                windows, _ = kin.locate(histories, vocabularies, "vocabulary", "contrast")
                if len(windows) != len(kin):  # a state without words has one row
                    windows = _by_description(kin, windows)
                draws.append(kin.means(kin.scores(windows)))
            table = np.mean(draws, axis=0)
            values += with_intervals(f"{name}: {row}", table)
            differences = dict(zip(METRICS, compare(table, words), strict=True))
            values += paired_values(f"{name}: {row} − words", differences, {})
    note = (
        "The labelled history is the next one with the same states (VOST: the same action on "
        f"another object); means over {DRAWS} draws of three frames per state."
    )
    return Result(tuple(values), {}, (note, FAMILY))


def _kin(corpus: Corpus) -> list[tuple[ReleaseEntry, ReleaseEntry]]:
    """Return histories that share their states with another one, and that one."""
    kinds: dict[tuple[str, ...], list[ReleaseEntry]] = {}
    for entry in corpus.entries:
        kinds.setdefault(tuple(entry.vocabulary.states), []).append(entry)
    return [
        (entry, members[(at + 1) % len(members)])
        for members in kinds.values()
        if len(members) > 1
        for at, entry in enumerate(members)
    ]


def _carried(entry: ReleaseEntry, teacher: ReleaseEntry, named: Named) -> Vocabulary:
    names = list(entry.vocabulary.states)
    examples: dict[str | None, list[Any]] = {}
    for at, state in named:
        frame = int(teacher.history.frames[at])
        examples.setdefault(names[state], []).append((teacher.history, frame))
    return entry.vocabulary.with_examples(examples)


def _carried_alone(entry: ReleaseEntry, teacher: ReleaseEntry, named: Named) -> Vocabulary:
    vocabulary = _carried(entry, teacher, named)
    bare = dict.fromkeys(vocabulary.states, ())
    return Vocabulary(bare, encoder=vocabulary.encoder, examples=vocabulary.examples)


def _by_description(corpus: Corpus, windows: Windows) -> Windows:
    rows, first = [], 0
    for entry in corpus.entries:
        of_entry = windows[first : first + len(entry.vocabulary.states)]
        first += len(of_entry)
        rows.append(of_entry[entry.vocabulary.labels])
    return np.concatenate(rows)


def _curve_figure(lines: Mapping[str, Mapping[str, list[tuple[float, float, float]]]]) -> Any:
    from dejacue_paper.experiments._robustness_figures import levels_figure

    panels = {
        f"{name}\nR@1 .5": {
            row: values for row, values in rows.items() if not row.startswith("no pixels, at")
        }
        for name, rows in lines.items()
    }
    return levels_figure(list(ANSWERS), panels, "answers")


EXPERIMENTS = (
    Experiment(
        "beyond-examples", "One and three example frames per state", per_state, on_request=True
    ),
    Experiment(
        "beyond-questions",
        "Answers about frames, and which frames to ask about",
        questions,
        on_request=True,
    ),
    Experiment(
        "beyond-transfer",
        "Examples from another history of the same kind",
        transfer,
        on_request=True,
    ),
)
