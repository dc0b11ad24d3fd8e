"""Timelines against references: means, intervals, and paired comparisons of methods (§7).

What the methods and the references do not share is named and refused, or left out for all
methods. No file is read here; files/results.py turns files into these records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dejacue.errors import InputError, counted
from dejacue.evaluation.complete import TIMELINE_METRICS, TimelineScores, timeline_scores
from dejacue.evaluation.overlap import METRICS, best_tiou, metrics
from dejacue.evaluation.resampling import Paired, bootstrap_interval, compare, group_means
from dejacue.evaluation.segmentation import SegmentCounts
from dejacue.records import Reference, Timeline, Window
from dejacue.records._html import escaped, table_html
from dejacue.records.arrays import Floats

EVALUATION_SCHEMA = "dejacue.evaluation/1"
FAMILY = "Holm within the three metrics of a comparison"
TIMELINE_FAMILY = "Holm within the five of whole timelines, another family"
OTHER_WORDS = "made with another vocabulary, or incomplete"
MAX_LISTED_NAMES = 5
METRIC_NAMES = METRICS | TIMELINE_METRICS

Query = tuple[str, str, str]  # history, state, description
Windows = Mapping[Query, Window | None]  # None: not found
Record = TypeVar("Record", Reference, Timeline)


class Estimate(NamedTuple):
    """Holds a mean over components and its 95 % interval (None with a single component)."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The scores that ``evaluate`` returns; all numbers are fractions.

    methods        method → metric (r1_03, r1_05, top1_tiou) → Estimate; where a reference is
                   complete also of whole timelines: accuracy, f1_10, f1_25, f1_50, edit
    counts         histories, states, descriptions and components that were evaluated
    components     the G units of resampling, sorted; per_component: method → (G, 3) values, or
                   (G, 8), where NaN stands for a component without a complete reference
    comparisons    "b - a" → metric → Paired; the three metrics are one family of tests, and those
                   of whole timelines another
    left_out       one sentence for each kind of thing that was not shared and does not count
    occurrences    method → history with a complete reference → occurrences that were found
                   (tIoU ≥ .5), are superfluous and were missed
    """

    methods: Mapping[str, Mapping[str, Estimate]]
    counts: Mapping[str, int]
    components: tuple[str, ...]
    per_component: Mapping[str, Floats]
    comparisons: Mapping[str, Mapping[str, Paired]]
    left_out: tuple[str, ...] = ()
    occurrences: Mapping[str, Mapping[str, SegmentCounts]] = field(default_factory=dict)

    @property
    def complete(self) -> int:
        """Return of how many histories the whole timeline is measured."""
        return max(map(len, self.occurrences.values()), default=0)

    @property
    def coverage(self) -> str:
        """Return in words which histories the metrics of whole timelines cover."""
        of = counted(self.counts["histories"], "history")
        return f"whole timelines: {self.complete} of {of}, those with complete references"

    def total(self, method: str) -> SegmentCounts:
        """Return the occurrences that a method found, added, and missed in all histories."""
        return sum(self.occurrences[method].values(), SegmentCounts())

    def __repr__(self) -> str:
        counts = ", ".join(f"{number} {what}" for what, number in self.counts.items())
        means = "; ".join(
            f"{name}: " + ", ".join(f"{METRIC_NAMES[m]} {100 * e.mean:.1f}" for m, e in row.items())
            for name, row in self.methods.items()
        )
        return f"<Evaluation of {counts}: {means}>"

    def _repr_html_(self) -> str:
        rows = [
            (escaped(name), *(percent(*estimate) for estimate in estimates.values()))
            for name, estimates in self.methods.items()
        ]
        rows += [
            (
                escaped(name),
                *(
                    f"{percent(pair.delta, pair.low, pair.high, '+')}<br/>p {pair.p:.2g}, "
                    f"Holm {pair.holm_p:.2g}"
                    for pair in pairs.values()
                ),
            )
            for name, pairs in self.comparisons.items()
        ]
        title = "Evaluation of " + ", ".join(f"{n} {what}" for what, n in self.counts.items())
        notes = ["In %, with 95 % intervals; differences are paired."]
        names = list(METRICS.values())
        if self.complete:
            names += TIMELINE_METRICS.values()
            notes.append(f"{self.coverage}.")
            for name in self.occurrences:
                total = self.total(name)
                notes.append(
                    f"{name}: {total.hits} of {counted(total.hits + total.missed, 'occurrence')} "
                    f"found, {total.missed} missed, {total.superfluous} superfluous."
                )
        return table_html(title, ("", *names), rows, [*notes, *self.left_out])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as the command writes them to JSON."""
        return {
            "schema": EVALUATION_SCHEMA,
            "counts": dict(self.counts),
            "interval": "95 %, components resampled",
            "methods": {
                name: {metric: estimate._asdict() for metric, estimate in estimates.items()}
                for name, estimates in self.methods.items()
            },
            "family": FAMILY,
            "comparisons": {
                name: {metric: asdict(pair) for metric, pair in pairs.items()}
                for name, pairs in self.comparisons.items()
            },
            "components": {
                component: {
                    name: {
                        metric: value
                        for metric, value in zip(METRIC_NAMES, values[at].tolist(), strict=False)
                        if value == value
                    }
                    for name, values in self.per_component.items()
                }
                for at, component in enumerate(self.components)
            },
            "left_out": list(self.left_out),
        } | ({"whole_timelines": self._whole_timelines()} if self.complete else {})

    def _whole_timelines(self) -> dict[str, Any]:
        return {
            "histories": self.complete,
            "family": TIMELINE_FAMILY,
            "occurrences": {
                name: {
                    "total": asdict(self.total(name)),
                    "histories": {history: asdict(n) for history, n in by_history.items()},
                }
                for name, by_history in self.occurrences.items()
            },
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return flat rows for a CSV: the means of methods, then their differences with p, then
        the occurrences of all histories with complete references and of each; None: there is none.
        """
        columns = ["kind", "name", "metric", "value", "low", "high", "p", "holm_p", "family"]
        columns.append("history")
        rows: list[tuple[Any, ...]] = [
            ("method", name, metric, *estimate, None, None, None, None)
            for name, estimates in self.methods.items()
            for metric, estimate in estimates.items()
        ]
        rows += [
            ("difference", name, metric, *asdict(pair).values(), family, None)
            for name, pairs in self.comparisons.items()
            for metric, pair in pairs.items()
            for family in (FAMILY if metric in METRICS else TIMELINE_FAMILY,)
        ]
        rows += [
            ("occurrences", name, kind, number, *[None] * 5, history)
            for name, by_history in self.occurrences.items()
            for history, of_history in [(None, self.total(name)), *by_history.items()]
            for kind, number in asdict(of_history).items()
        ]
        return [dict(zip(columns, row, strict=True)) for row in rows]


def percent(value: float, low: float | None, high: float | None, sign: str = "") -> str:
    """Return a share and its interval in %: 50.0 [40.0, 60.0]."""
    interval = "" if low is None or high is None else f" [{100 * low:.1f}, {100 * high:.1f}]"
    return f"{100 * value:{sign}.1f}{interval}".replace("-", "−")


def evaluate(
    timelines: Mapping[str, Iterable[Timeline] | Timeline],
    references: Iterable[Reference],
    *,
    only_common: bool = False,
) -> Evaluation:
    """Compare methods with references, and every later method with the first.

    timelines     name of the method → its timelines; each history occurs once
    only_common   leave out what not all of them share, instead of refusing it

    R@1 at tIoU .3 and .5 and Top-1 tIoU; averages descriptions → state → history → component →
    uniform over components; intervals and tests resample the components. A state without an
    interval scores 0.

    Of histories whose reference is complete also frame accuracy, F1@.10, .25 and .50 and edit score
    of all intervals; averages history → component → uniform over components.

    >>> from dejacue import Interval, Reference, Timeline
    >>> states = {"empty": ["an empty cup"], "full": ["a full cup"]}
    >>> found = [Interval("empty", 0, 4), Interval("full", 5, 11)]
    >>> timeline = Timeline.of(found, states, history_id="cup")
    >>> true = Reference("cup", {"empty": [(0, 5)], "full": [(6, 11)]})
    >>> scores = evaluate({"ours": timeline}, [true])
    >>> round(scores.methods["ours"]["top1_tiou"].mean, 3)
    0.845
    """
    truth = _by_history(references, "the references")
    if not truth:
        raise InputError("no references; give the true windows of at least one history")
    if not timelines:
        raise InputError("no timelines; give those of at least one method")
    methods = {name: _by_history(_split(rows), name) for name, rows in timelines.items()}
    windows = _windows(methods, truth)
    outside = _outside(methods, truth)
    if outside:
        problem = f"windows outside the frames of the reference: {_shortened(outside)}"
        raise InputError(f"{problem}; correct the timelines, or the frames of the references")
    problems = _mismatches(windows, truth)
    queries = _common(windows, truth)
    listed = "; ".join(_sentences(problems, MAX_LISTED_NAMES))
    if not queries:
        problem = "the timelines and the references have nothing in common, so there is nothing to"
        raise InputError(f"{problem} evaluate; {listed}")
    if problems and not only_common:
        raise InputError(f"{listed}; correct the files, or evaluate only what they have in common")
    return _measured(methods, windows, truth, queries, tuple(_sentences(problems)))


def _measured(
    methods: Mapping[str, Mapping[str, Timeline]],
    windows: Mapping[str, Windows],
    truth: Mapping[str, Reference],
    queries: Sequence[Query],
    left_out: tuple[str, ...],
) -> Evaluation:
    histories = [history for history, _, _ in queries]
    states = [state for _, state, _ in queries]
    sources = [truth[history].component for history in histories]
    true = [truth[history].states[state] for history, state, _ in queries]
    groups: list[Any] = []
    values: dict[str, Floats] = {}
    for name, by_query in windows.items():
        answers = [by_query[key] for key in queries]
        overlaps = best_tiou([w or Window(0, 0) for w in answers], true)  # type: ignore[arg-type]
        overlaps[[window is None for window in answers]] = 0.0
        table = metrics(overlaps)
        groups, values[name] = group_means(table, [states, histories, sources])
    whole = sorted(history for history in {*histories} if truth[history].complete)
    scores = _scores_by_method(methods, truth, whole) if whole else {}
    for name, of_histories in scores.items():
        rows = [[of_histories[h].metrics[metric] for metric in TIMELINE_METRICS] for h in whole]
        covered, means = group_means(rows, [whole, [truth[h].component for h in whole]])
        of_timelines = np.full((len(groups), len(TIMELINE_METRICS)), np.nan)
        of_timelines[[groups.index(component) for component in covered]] = means
        values[name] = np.hstack([values[name], of_timelines])
    comparisons = _comparisons(values)
    if whole and comparisons and "f1_50" not in next(iter(comparisons.values())):
        problem = "differences of whole timelines: all complete references are of one component"
        left_out = (*left_out, problem)
    return Evaluation(
        methods={name: _estimates(table) for name, table in values.items()},
        counts={
            "histories": len(set(histories)),
            "states": len(set(zip(histories, states, strict=True))),
            "descriptions": len(queries),
            "components": len(groups),
        },
        components=tuple(groups),
        per_component=values,
        comparisons=comparisons,
        left_out=left_out,
        occurrences={
            name: {history: of.counts for history, of in of_histories.items()}
            for name, of_histories in scores.items()
        },
    )


def _scores_by_method(
    methods: Mapping[str, Mapping[str, Timeline]],
    truth: Mapping[str, Reference],
    histories: Sequence[str],
) -> dict[str, dict[str, TimelineScores]]:
    """Return method → history → its scores in the states that all methods were asked for."""
    shared = {
        history: [
            state
            for state in truth[history].states
            if all(state in timelines[history].states for timelines in methods.values())
        ]
        for history in histories
    }
    return {
        name: {h: timeline_scores(timelines[h], truth[h], shared[h]) for h in histories}
        for name, timelines in methods.items()
    }


def _families(values: Floats) -> Iterator[tuple[Sequence[str], Floats]]:
    """Yield the metrics of each family and their values, in the components that have them."""
    yield list(METRICS), values[:, : len(METRICS)]
    if values.shape[1] > len(METRICS):
        of_timelines = values[:, len(METRICS) :]
        yield list(TIMELINE_METRICS), of_timelines[~np.isnan(of_timelines[:, 0])]


def _estimates(values: Floats) -> dict[str, Estimate]:
    estimates: dict[str, Estimate] = {}
    for names, table in _families(values):
        means = table.mean(axis=0).tolist()
        ends: Any = [[None] * len(names)] * 2
        if len(table) > 1:
            ends = bootstrap_interval(table).tolist()
        estimates |= {name: Estimate(*row) for name, *row in zip(names, means, *ends, strict=True)}
    return estimates


def _comparisons(values: Mapping[str, Floats]) -> dict[str, dict[str, Paired]]:
    (first, base), *later = values.items()
    if later and len(base) < 2:
        problem = "all histories come from one component, but comparing methods takes two or more"
        remedy = "evaluate each method alone, or name the components in the references"
        raise InputError(f"{problem}; {remedy}")
    return {
        f"{name} - {first}": {
            metric: paired
            for (names, mine), (_, others) in zip(_families(table), _families(base), strict=True)
            if len(mine) > 1
            for metric, paired in zip(names, compare(mine, others), strict=True)
        }
        for name, table in later
    }


def _by_history(records: Iterable[Record], whose: str) -> dict[str, Record]:
    by_id: dict[str, Record] = {}
    for record in records:
        if record.history_id in by_id:
            raise InputError(f'{whose}: history "{record.history_id}" is given twice')
        by_id[record.history_id] = record
    return by_id


def _split(timelines: Iterable[Timeline] | Timeline) -> Iterator[Timeline]:
    """Give the timeline of each history."""
    for timeline in (timelines,) if isinstance(timelines, Timeline) else timelines:
        yield from timeline.split()


def _windows(
    methods: Mapping[str, Mapping[str, Timeline]], truth: Mapping[str, Reference]
) -> dict[str, dict[Query, Window | None]]:
    """Return method → query → window in frames of the file, as references count them.

    A table does not hold the descriptions of a state that is answered as a whole. Such a state
    answers those that the references list or, where they list none, those of the other methods.
    """
    texts: dict[tuple[str, str], dict[str, None]] = {}
    for method, timelines in methods.items():
        for history, timeline in timelines.items():
            for state, sentences in timeline.states.items():
                for text in sentences:
                    if sentences.count(text) > 1:
                        raise InputError(f"{method}: {_name((history, state, text))} occurs twice")
                texts.setdefault((history, state), {}).update(dict.fromkeys(sentences))
    for history, reference in truth.items():
        for state in reference.states:
            if (listed := _listed(reference, state)) is not None:
                texts[history, state] = dict.fromkeys(listed)
    return {
        method: {
            (history, state, text): window
            for history, timeline in timelines.items()
            for (state, description), window in timeline.windows().items()
            for text in (
                (description,)
                if timeline.states[state]
                else texts[history, state] or (description,)
            )
        }
        for method, timelines in methods.items()
    }


def _common(windows: Mapping[str, Windows], truth: Mapping[str, Reference]) -> list[Query]:
    """Return what every method answered inside the frames, and the references know; a state that
    never occurs has no window to find."""
    first, *others = windows.values()
    return [
        key
        for key in first
        if _known(key, truth) and truth[key[0]].states[key[1]] and all(key in o for o in others)
    ]


def _known(key: Query, truth: Mapping[str, Reference]) -> bool:
    history, state, description = key
    if history not in truth or state not in truth[history].states:
        return False
    listed = _listed(truth[history], state)
    return listed is None or description in listed


def _listed(reference: Reference, state: str) -> tuple[str, ...] | None:
    return (reference.descriptions or {}).get(state)


def _outside(
    methods: Mapping[str, Mapping[str, Timeline]], truth: Mapping[str, Reference]
) -> list[str]:
    """Name intervals where the history has no frame: a mistake, never left out of a mean."""
    return [
        f"{method}: {_name((history, i.state, *filter(None, [i.description])))} {i.source}"
        for method, timelines in methods.items()
        for history, timeline in timelines.items()
        if history in truth and (frames := truth[history].frames) is not None
        for i in timeline
        if i.source | frames != frames
    ]


Problem = tuple[str, list[str]]  # what is wrong, and the names concerned


def _mismatches(windows: Mapping[str, Windows], truth: Mapping[str, Reference]) -> list[Problem]:
    """Return what is not shared, by method, then between the methods."""
    problems = [
        (f"{method}: {kind}", names)
        for method, by_query in windows.items()
        for kind, names in _unmatched(by_query, truth).items()
        if names
    ]
    first, *later = windows
    for method in later:
        names = _unpaired(windows[first], windows[method], truth)
        if names:
            kind = f"{first} and {method}: descriptions that only one of them has ({OTHER_WORDS})"
            problems.append((kind, names))
    return problems


def _sentences(problems: Sequence[Problem], limit: int | None = None) -> list[str]:
    """Return a sentence each, with all names or the first few."""
    return [f"{kind}: {_shortened(names, limit)}" for kind, names in problems]


def _unmatched(windows: Windows, truth: Mapping[str, Reference]) -> dict[str, list[str]]:
    """Return what a method and the references do not share, each once, at its coarsest level."""
    histories = dict.fromkeys(key[0] for key in windows)
    states = dict.fromkeys(key[:2] for key in windows)
    referred = {(history, state): None for history in truth for state in truth[history].states}
    listed = {
        (*pair, text): None for pair in referred for text in _listed(truth[pair[0]], pair[1]) or ()
    }
    return {
        "histories without references": [h for h in histories if h not in truth],
        "references without a timeline": [h for h in truth if h not in histories],
        "states that the references do not have": [
            _name(pair) for pair in states if pair[0] in truth and pair not in referred
        ],
        "states missing from the timelines": [
            _name(pair) for pair in referred if pair[0] in histories and pair not in states
        ],
        f"descriptions that the references do not list ({OTHER_WORDS})": [
            _name(key) for key in windows if key[:2] in referred and not _known(key, truth)
        ],
        f"listed descriptions missing from the timelines ({OTHER_WORDS})": [
            _name(key) for key in listed if key[:2] in states and key not in windows
        ],
    }


def _unpaired(first: Windows, second: Windows, truth: Mapping[str, Reference]) -> list[str]:
    """Return descriptions of one method only, in states that both have; those that a reference
    lists are compared with its list already."""
    shared = {key[:2] for key in first} & {key[:2] for key in second}
    return [
        _name(key)
        for key in dict.fromkeys([*first, *second])
        if key[:2] in shared
        and _known(key, truth)
        and _listed(truth[key[0]], key[1]) is None
        and not (key in first and key in second)
    ]


def _name(key: Sequence[str]) -> str:
    history, state, *description = key
    return " / ".join([history, state, *(f'"{text}"' for text in description)])


def _shortened(names: Sequence[str], limit: int | None = MAX_LISTED_NAMES) -> str:
    omitted = 0 if limit is None else len(names) - limit
    return ", ".join(names[:limit]) + (f" … and {omitted} more" if omitted > 0 else "")
