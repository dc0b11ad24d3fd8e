"""Timelines against references: means, intervals, and paired comparisons of methods (§7).

What the methods and the references do not share is named and refused, or left out for all
methods. No file is read here; sources/results.py turns files into these records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar

from dejacue.errors import InputError
from dejacue.evaluation.overlap import METRICS, best_tiou, metrics
from dejacue.evaluation.resampling import Paired, bootstrap_interval, compare, group_means
from dejacue.records import Reference, Timeline, Window
from dejacue.records._html import escaped, table_html
from dejacue.records.arrays import Floats

EVALUATION_SCHEMA = "dejacue.evaluation/1"
FAMILY = "Holm within the three metrics of a comparison"
OTHER_WORDS = "made with another vocabulary, or incomplete"
MAX_LISTED_NAMES = 5

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

    methods        method → metric (r1_03, r1_05, top1_tiou) → Estimate
    counts         histories, states, descriptions and components that were evaluated
    components     the G units of resampling, sorted; per_component: method → (G, 3) values
    comparisons    "b - a" → metric → Paired; the three metrics are one family of tests
    left_out       one sentence for each kind of thing that was not shared and does not count
    """

    methods: Mapping[str, Mapping[str, Estimate]]
    counts: Mapping[str, int]
    components: tuple[str, ...]
    per_component: Mapping[str, Floats]
    comparisons: Mapping[str, Mapping[str, Paired]]
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        counts = ", ".join(f"{number} {what}" for what, number in self.counts.items())
        means = "; ".join(
            f"{name}: " + ", ".join(f"{METRICS[m]} {100 * e.mean:.1f}" for m, e in row.items())
            for name, row in self.methods.items()
        )
        return f"<Evaluation of {counts}: {means}>"

    def _repr_html_(self) -> str:
        rows = [
            (escaped(name), *(_percent(*estimate) for estimate in estimates.values()))
            for name, estimates in self.methods.items()
        ]
        rows += [
            (
                escaped(name),
                *(
                    f"{_percent(pair.delta, pair.low, pair.high, '+')}<br/>p {pair.p:.2g}, "
                    f"Holm {pair.holm_p:.2g}"
                    for pair in pairs.values()
                ),
            )
            for name, pairs in self.comparisons.items()
        ]
        title = "Evaluation of " + ", ".join(f"{n} {what}" for what, n in self.counts.items())
        about = "In %, with 95 % intervals; differences are paired."
        return table_html(title, ("", *METRICS.values()), rows, [about, *self.left_out])

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
                    name: dict(zip(METRICS, values[at].tolist(), strict=True))
                    for name, values in self.per_component.items()
                }
                for at, component in enumerate(self.components)
            },
            "left_out": list(self.left_out),
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return flat rows for a CSV: the means of methods, then their differences with p; None
        where there is none."""
        names = ("kind", "name", "metric", "value", "low", "high", "p", "holm_p", "family")
        rows: list[tuple[Any, ...]] = [
            ("method", name, metric, *estimate, None, None, None)
            for name, estimates in self.methods.items()
            for metric, estimate in estimates.items()
        ]
        rows += [
            ("difference", name, metric, *asdict(pair).values(), FAMILY)
            for name, pairs in self.comparisons.items()
            for metric, pair in pairs.items()
        ]
        return [dict(zip(names, row, strict=True)) for row in rows]


def _percent(value: float, low: float | None, high: float | None, sign: str = "") -> str:
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
    """
    truth = _by_history(references, "the references")
    if not truth:
        problem = "no references; give the true windows of at least one history"
        raise InputError(problem, field="references")
    if not timelines:
        raise InputError("no timelines; give those of at least one method", field="timelines")
    windows = _windows(
        {name: _by_history(_split(rows), name) for name, rows in timelines.items()}, truth
    )
    outside = _outside(windows, truth)
    if outside:
        problem = f"windows outside the frames of the reference: {_shortened(outside)}"
        remedy = "correct the timelines, or the frames of the references"
        raise InputError(problem, field="frames", value=outside, remedy=remedy)
    problems = _mismatches(windows, truth)
    queries = _common(windows, truth)
    listed = "; ".join(_sentences(problems, MAX_LISTED_NAMES))
    if not queries:
        problem = "the timelines and the references have nothing in common, so there is nothing to"
        raise InputError(f"{problem} evaluate; {listed}", field="references", value=problems)
    if problems and not only_common:
        remedy = "correct the files, or evaluate only what they have in common"
        raise InputError(listed, field="only_common", value=problems, remedy=remedy)
    return _measured(windows, truth, queries, tuple(_sentences(problems)))


def _measured(
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
    values = {}
    for name, by_query in windows.items():
        answers = [by_query[key] for key in queries]
        overlaps = best_tiou([w or Window(0, 0) for w in answers], true)  # type: ignore[arg-type]
        overlaps[[window is None for window in answers]] = 0.0
        table = metrics(overlaps)
        groups, values[name] = group_means(table, [states, histories, sources])
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
        comparisons=_comparisons(values),
        left_out=left_out,
    )


def _estimates(values: Floats) -> dict[str, Estimate]:
    means = values.mean(axis=0).tolist()
    if len(values) < 2:
        return {m: Estimate(mean, None, None) for m, mean in zip(METRICS, means, strict=True)}
    low, high = bootstrap_interval(values).tolist()
    return {m: Estimate(*row) for m, *row in zip(METRICS, means, low, high, strict=True)}


def _comparisons(values: Mapping[str, Floats]) -> dict[str, dict[str, Paired]]:
    (first, base), *later = values.items()
    if later and len(base) < 2:
        problem = "all histories come from one component, but comparing methods takes two or more"
        remedy = "evaluate each method alone, or name the components in the references"
        raise InputError(problem, field="component", value=len(base), remedy=remedy)
    return {
        f"{name} - {first}": dict(zip(METRICS, compare(table, base), strict=True))
        for name, table in later
    }


def _by_history(records: Iterable[Record], whose: str) -> dict[str, Record]:
    by_id: dict[str, Record] = {}
    for record in records:
        if record.history_id in by_id:
            problem = f'{whose}: history "{record.history_id}" is given twice'
            raise InputError(problem, field=whose, value=record.history_id)
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
                        problem = f"{method}: {_name((history, state, text))} occurs twice"
                        raise InputError(problem, field=method, value=text)
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
    """Return what every method answered inside the frames, and the references know."""
    first, *others = windows.values()
    return [key for key in first if _known(key, truth) and all(key in keys for keys in others)]


def _known(key: Query, truth: Mapping[str, Reference]) -> bool:
    history, state, description = key
    if history not in truth or state not in truth[history].states:
        return False
    listed = _listed(truth[history], state)
    return listed is None or description in listed


def _listed(reference: Reference, state: str) -> tuple[str, ...] | None:
    return (reference.descriptions or {}).get(state)


def _outside(windows: Mapping[str, Windows], truth: Mapping[str, Reference]) -> list[str]:
    """Name windows where the history has no frame: a mistake, never left out of a mean."""
    return [
        f"{method}: {_name(key)} {window}"
        for method, by_query in windows.items()
        for key, window in by_query.items()
        if window is not None and key[0] in truth
        if (frames := truth[key[0]].frames) is not None and window | frames != frames
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
