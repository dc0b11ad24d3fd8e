"""Taught by other videos: what whole intervals of other histories of a kind tell of one.

On VOST the kind is the action, on other objects; references stand in for what a person confirmed.
Rendered families are several videos of one kind, with mini (which knows words for them) and lite
(which has none). Forms and constants were chosen on half A and on rendered scenes with other seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import ClassVar

import numpy as np

from dejacue.evaluation import METRICS, compare
from dejacue.method.coordinates import COORDINATES, query_directions
from dejacue.method.localization import DEFAULT_READOUT
from dejacue.method.readout import Readout
from dejacue.method.strips import Strip, marked
from dejacue.method.teaching import Lesson, Teacher, taught
from dejacue.method.timeline import Reading
from dejacue.records import Vocabulary
from dejacue.records.arrays import Floats
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.data.rendered import FAMILIES
from dejacue_paper.experiments import examples, rendered, strips
from dejacue_paper.experiments.corpus import Benchmark, Corpus, Table
from dejacue_paper.experiments.table import (
    FAMILY,
    Experiment,
    Result,
    Value,
    paired_values,
    with_intervals,
)
from dejacue_paper.method.ordered import EqualParts, Ordered, OrderedView

FIRST_SCENE, SCENES_PER_FAMILY = 40_000, 5
TEACHERS, PICTURES = 3, 8
ENCODERS = ("mini", "lite")
IN_ORDER = partial(Reading, irreversible=True)  # and every frame shows a state
Make = Callable[[ReleaseEntry], Vocabulary]
Marks = dict[str | None, list[tuple[int, int]]]
Kin = Mapping[str, Sequence[ReleaseEntry]]  # history → others of its kind, the nearest first


def taught_by_others(benchmark: Benchmark) -> Result:
    """Measure one teacher, several, words, marks and order."""
    values = vost_values(benchmark)
    for name in ENCODERS:
        values += family_values(name, family_entries(name), benchmark.engine)
    note = (
        "Teachers are other histories of the kind (VOST: the same action on another object); their "
        "references are what a person confirmed. Single frames: three a state, of one teacher, "
        f"means over {examples.DRAWS} draws (as beyond-transfer). Strip: {PICTURES} pictures."
    )
    return Result(tuple(values), {}, (note, FAMILY))


@dataclass(frozen=True)
class WithoutEvidence(Ordered):
    """The ordered readout by visual change and place alone."""

    name: ClassVar[str] = "ordered without evidence"

    def rows(self, view: OrderedView) -> Floats:
        return np.zeros_like(super().rows(view))


def teacher(entry: ReleaseEntry) -> Teacher:
    return Teacher(entry.history, entry.references)


def wordless(entry: ReleaseEntry) -> Vocabulary:
    """Return the states alone, to be shown by teachers or marks."""
    return Vocabulary(entry.vocabulary.states, encoder=entry.history.encoder)


def kin_of(entries: Sequence[ReleaseEntry]) -> Kin:
    """Return, for each history, the others of its label or states that share two states or more:
    those with most of its states first, then the next ones in the list."""
    kin: dict[str, list[ReleaseEntry]] = {}
    for at, entry in enumerate(entries):
        states = set(entry.vocabulary.states)
        shared = [
            (len(states & set(sibling.vocabulary.states)), sibling)
            for sibling in (*entries[at + 1 :], *entries[:at])
        ]
        shared.sort(key=lambda pair: -pair[0])  # stable
        kin[entry.id] = [sibling for count, sibling in shared if count >= 2]
    return kin


def vost_values(benchmark: Benchmark) -> list[Value]:
    whole = benchmark.vost
    kin = kin_of(whole.entries)
    corpus = Corpus([e for e in whole.entries if kin[e.id]], whole.engine, whole.components)
    nearest = {id: others[:1] for id, others in kin.items()}
    rows: dict[str, Table] = {"words": _means(corpus, lambda e: e.vocabulary)}
    pairs = {e.id: nearest[e.id][0] for e in corpus.entries}
    for row, carried in (("", examples._carried), (", alone", examples._carried_alone)):
        draws = []
        for draw in range(examples.DRAWS):
            named = {id: examples.inside(sibling, 3, draw) for id, sibling in pairs.items()}
            draws.append(_means(corpus, partial(_carried, carried, pairs, named)))
        rows[f"single frames of one teacher{row}"] = np.mean(draws, axis=0)
    for name, who in (("one teacher", nearest), ("all of the action", kin)):
        rows[f"intervals of {name}"] = _means(corpus, partial(with_words, who))
        rows[f"intervals of {name}, alone"] = _means(corpus, partial(alone, who))
    rows |= _in_order(corpus, {"words": lambda e: e.vocabulary, "teachers": partial(alone, kin)})
    name = f"VOST ({len(corpus.entries)} histories)"
    single = "intervals of one teacher"
    values = _table_values(
        name,
        rows,
        [
            (single, "words"),
            (f"{single}, alone", "words"),
            (single, "single frames of one teacher"),
            (f"{single}, alone", "single frames of one teacher, alone"),
            ("intervals of all of the action", "words"),
            ("ordered, teachers", "equal parts"),
            ("ordered, words", "equal parts"),
            ("timeline in order, teachers", "ordered, teachers"),
            ("timeline in order, words", "ordered, words"),
        ],
    )
    return [*values, *_why(name, corpus, nearest)]


def _carried(
    carried: Callable[[ReleaseEntry, ReleaseEntry, examples.Named], Vocabulary],
    pairs: Mapping[str, ReleaseEntry],
    named: Mapping[str, examples.Named],
    entry: ReleaseEntry,
) -> Vocabulary:
    return carried(entry, pairs[entry.id], named[entry.id])


def _why(name: str, corpus: Corpus, nearest: Kin) -> list[Value]:
    """Measure whether states differ alike: how well directions tell the first state of a history
    from the last, and the cosine of differences within an action and between actions."""
    lessons, states = {}, {}
    for entry in corpus.entries:
        states[entry.id] = tuple(entry.vocabulary.states)
        lessons[entry.id] = Lesson.of(teacher(entry), states[entry.id])
    first = {id: lessons[id].differences[states[id][0]] for id in states}
    shares: dict[str, list[float]] = {}
    for at, entry in enumerate(corpus.entries):
        others = (*corpus.entries[at + 1 :], *corpus.entries[:at])
        stranger = next(sibling.id for sibling in others if states[sibling.id] != states[entry.id])
        words = query_directions(entry.vocabulary, COORDINATES["vocabulary"], 1.0).states[0]
        directions = {
            "words": words.astype(np.float64),
            "a teacher of the action": first[nearest[entry.id][0].id],
            "a teacher of another action": first[stranger],
        }
        for row, direction in directions.items():
            earned = lessons[entry.id].earned({states[entry.id][0]: direction})
            assert earned is not None
            shares.setdefault(row, []).append(earned[0])
    within: list[float] = []
    between: list[float] = []
    for a, b in combinations(states, 2):
        (within if states[a] == states[b] else between).append(float(first[a] @ first[b]))
    values = [
        Value(f"{name}: {row}", "AUC", 0.5 + float(np.mean(of_row)) / 2, None)
        for row, of_row in shares.items()
    ]
    for row, cosines in (("the same action", within), ("two actions", between)):
        mean = float(np.mean(cosines))
        values.append(Value(f"{name}: differences of {row}", "cosine", mean, None, unit="cosine"))
    return values


def family_entries(
    name: str, per_family: int = SCENES_PER_FAMILY, families: Sequence[str] = tuple(FAMILIES)
) -> list[ReleaseEntry]:
    """Render several videos of each family, with an encoder's rows; no seed was used elsewhere."""
    requests = []
    for number, family in enumerate(FAMILIES.values()):
        for k in range(per_family if family.name in families else 0):
            options = rendered.moderate(FIRST_SCENE + 100 * number + k)
            options |= {
                "family": family.name,
                "topology": family.topologies[k % len(family.topologies)],
            }
            requests.append(rendered.SceneRequest(options))
    built = rendered.in_processes(partial(rendered.build_entries, name=name), requests)
    return [entry for entry, *_ in built if entry is not None]


def family_values(encoder: str, entries: Sequence[ReleaseEntry], engine: str) -> list[Value]:
    kin: dict[str, Sequence[ReleaseEntry]] = {}
    for family in dict.fromkeys(entry.label for entry in entries):
        kin |= kin_of([entry for entry in entries if entry.label == family])
    three = {id: others[:TEACHERS] for id, others in kin.items()}
    able = [e for e in entries if _covered(e, three[e.id]) and _all_marked(e)]
    corpus = Corpus(able, engine)
    rows: dict[str, Table] = {}
    has_words = entries[0].vocabulary.features is not None
    if has_words:
        rows["words"] = _means(corpus, lambda e: e.vocabulary)
        rows[f"words and {TEACHERS} teachers"] = _means(corpus, partial(with_words, three))
    rows[f"{TEACHERS} teachers"] = _means(corpus, partial(alone, three))
    rows["strip"] = _means(corpus, lambda e: _marked(e, wordless(e)))
    middles = [strips.middles(e, _marked(e, wordless(e))) for e in corpus.entries]
    windows = [
        window_of[state]
        for entry, window_of in zip(corpus.entries, middles, strict=True)
        for state in entry.vocabulary.state_names
    ]
    rows["strip, no pixels"] = corpus.means(corpus.scores(np.array(windows)))
    rows[f"strip and {TEACHERS} teachers"] = _means(corpus, lambda e: _marked(e, alone(three, e)))
    pairs = [(f"strip and {TEACHERS} teachers", "strip"), ("strip", "strip, no pixels")]
    pairs += [(f"{TEACHERS} teachers", "words")] if has_words else []
    name = f"rendered families, {encoder} ({len(corpus.entries)} videos)"
    values = _table_values(name, rows, pairs)
    once = [e for e in corpus.entries if all(len(w) == 1 for w in e.references.values())]
    part = Corpus(once, engine)
    rows = {f"{TEACHERS} teachers": _means(part, partial(alone, three))}
    rows |= _in_order(part, {"teachers": partial(alone, three)})
    name = f"of these, each state once, {encoder} ({len(once)} videos)"
    pairs = [("ordered, teachers", row) for row in ("equal parts", "ordered, without change")]
    pairs.append(("timeline in order, teachers", "ordered, teachers"))
    return values + _table_values(
        name, rows, [*pairs, ("ordered, teachers", "ordered, change alone")]
    )


def _covered(entry: ReleaseEntry, others: Iterable[ReleaseEntry]) -> bool:
    taught_states = {state for sibling in others for state in sibling.references}
    return set(entry.vocabulary.states) <= taught_states


def with_words(kin: Kin, entry: ReleaseEntry) -> Vocabulary:
    """Return the words of a history, taught by its kin."""
    return taught(entry.vocabulary, map(teacher, kin[entry.id]))


def alone(kin: Kin, entry: ReleaseEntry) -> Vocabulary:
    """Return the states of a history without words, taught by its kin."""
    return taught(wordless(entry), map(teacher, kin[entry.id]))


def _strip(entry: ReleaseEntry) -> tuple[Strip, Marks]:
    """Return a strip of PICTURES, and what a person would mark on it."""
    history = entry.history
    at = ((np.arange(PICTURES) + 0.5) / PICTURES * len(history) - 0.5).round().astype(int)
    frames = tuple(history.frames[np.unique(at)].tolist())
    marks: Marks = {}
    for state, windows in entry.references.items():
        for window in windows:
            inside = [k for k, frame in enumerate(frames) if frame in window]
            if inside:
                marks.setdefault(state, []).append((inside[0] + 1, inside[-1] + 1))
    return Strip(history, frames, (None,) * len(frames)), marks


def _all_marked(entry: ReleaseEntry) -> bool:
    return len(_strip(entry)[1]) == len(entry.vocabulary.states)


def _marked(entry: ReleaseEntry, vocabulary: Vocabulary) -> Vocabulary:
    return marked(entry.history, vocabulary, *_strip(entry))


def _in_order(corpus: Corpus, makes: Mapping[str, Make]) -> dict[str, Table]:
    """Return the readouts that know the order, by what they are told beside it."""
    last = list(makes.values())[-1]
    rows = {"equal parts": _means(corpus, last, EqualParts)}
    for name, make in makes.items():
        rows[f"ordered, {name}"] = _means(corpus, make, Ordered)
        rows[f"timeline in order, {name}"] = _means(corpus, partial(_exhaustive, make), IN_ORDER)
    rows["ordered, without change"] = _means(corpus, last, partial(Ordered, change=0.0))
    rows["ordered, change alone"] = _means(corpus, last, WithoutEvidence)
    return rows


def _exhaustive(make: Make, entry: ReleaseEntry) -> Vocabulary:
    return replace(make(entry), exhaustive=True)


def _means(corpus: Corpus, make: Make, readout: Callable[..., Readout] | None = None) -> Table:
    """Return the metrics per component or history of the windows that vocabularies give."""
    windows = []
    for entry in corpus.entries:
        vocabulary = make(entry)
        chosen: str | Readout = DEFAULT_READOUT
        if readout is not None:
            starts = {s: min(w.start for w in ws) for s, ws in entry.references.items()}
            chosen = readout(order=tuple(sorted(starts, key=lambda state: starts[state])))
        located, _ = corpus.locate([entry.history], [vocabulary], "vocabulary", chosen)
        rows = [vocabulary.state_names.index(state) for state in entry.vocabulary.state_names]
        windows.append(located[rows])
    return corpus.means(corpus.scores(np.concatenate(windows)))


def _table_values(
    name: str, rows: Mapping[str, Table], pairs: Iterable[tuple[str, str]]
) -> list[Value]:
    values: list[Value] = []
    for row, table in rows.items():
        values += with_intervals(f"{name}: {row}", table)
    for first, second in pairs:
        differences = dict(zip(METRICS, compare(rows[first], rows[second]), strict=True))
        values += paired_values(f"{name}: {first} − {second}", differences, {})
    return values


EXPERIMENTS = (
    Experiment(
        "beyond-like",
        "Taught by whole intervals of other histories",
        taught_by_others,
        on_request=True,
    ),
)
