"""Beyond the paper: the timeline and one contrast window beside the published scan, on every set.

Nothing here has a published value. Forms and constants were chosen on half A of VOST (H001, H003,
…), the development histories and generated ones; half B and the seven histories only confirm
(paper/docs/beyond.md keeps the log).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.evaluation import best_tiou, recall_at
from dejacue.method.contrast import Contrast
from dejacue.method.localization import evidence, locate
from dejacue.method.readout import Readout
from dejacue.method.scan_readout import Scan
from dejacue.records import Interval, Timeline
from dejacue.records.arrays import Floats
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.data.synthetic import generate
from dejacue_paper.experiments import perturb, rendered
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
from dejacue_paper.method.ranked import ranked_windows

Method = tuple[str, str | Readout]  # coordinates and readout
ByHistory = dict[str, NDArray[np.int64]]

PUBLISHED, CONTRAST, TIMELINE = "published scan", "contrast", "timeline"
METHODS: dict[str, Method] = {
    PUBLISHED: ("vocabulary", "published"),
    "whole history": ("absolute", "whole-history"),
    "longest run": ("absolute", "longest-run"),
    CONTRAST: ("vocabulary", "contrast"),
    TIMELINE: ("vocabulary", "timeline"),
}
RANKS = (1, 3, 5)
LOSSES = (0.0, 0.05, 0.1, 0.2, 0.3)
LOSS_SEEDS = range(3407, 3412)
LOSSY: dict[str, Method] = {
    PUBLISHED: ("vocabulary", "published"),
    "published scan, bridged": ("vocabulary", Scan(runs="bridged")),
    CONTRAST: ("vocabulary", "contrast"),
}
DRAWS = range(5)
FeaturesOf = Callable[[ReleaseEntry, int], Floats]
NO_WORDS = (
    "Words of another action: those of a history of VOST that shares no state; random rows instead "
    f"of any words; means over {len(DRAWS)} draws."
)
HALVES = "Half A: H001, H003, …; half B: H002, H004, …; intervals: source components resampled."


def sets(benchmark: Benchmark) -> dict[str, Corpus]:
    """Return the groups of histories; constants were chosen on half A and development."""
    vost = benchmark.vost
    halves = {
        name: Corpus([e for e in vost.entries if int(e.id[1:]) % 2 == odd], vost.engine, True)
        for name, odd in (("half A", 1), ("half B", 0))
    }
    return {"VOST": vost, **halves, "seven": benchmark.seven, "development": benchmark.development}


def retrieval(benchmark: Benchmark) -> Result:
    result = _compared(sets(benchmark), (HALVES, FAMILY, NO_WORDS))
    values = [*result.values]
    for name, corpus in sets(benchmark).items():
        for row, features in (("words of another action", _foreign), ("random rows", _random)):
            means = [_with_features(corpus, partial(features, benchmark.vost), d) for d in DRAWS]
            values += with_intervals(f"{name}: {TIMELINE}, {row}", np.mean(means, axis=0))
    figures = {**result.figures, "beyond_pieces": _parts_figure}
    return replace(result, values=tuple(values), figures=figures)


def _with_features(corpus: Corpus, features: FeaturesOf, draw: int) -> Table:
    """Return means per component or history of timelines read with other text features."""
    vocabularies = [
        replace(entry.vocabulary, features=features(entry, draw)) for entry in corpus.entries
    ]
    histories = [entry.history for entry in corpus.entries]
    windows, _ = corpus.locate(histories, vocabularies, *METHODS[TIMELINE])
    return corpus.means(corpus.scores(windows))


def _foreign(vost: Corpus, entry: ReleaseEntry, draw: int) -> Floats:
    """Return rows of the words of a history of VOST that shares no state: of its first state for
    the first, and so on."""
    states = set(entry.vocabulary.states)
    strangers = [e.vocabulary for e in vost.entries if not states & set(e.vocabulary.states)]
    rng = np.random.default_rng([draw, zlib.crc32(entry.id.encode())])
    words = strangers[int(rng.integers(len(strangers)))]
    assert words.features is not None
    labels = entry.vocabulary.labels % len(words.states)
    rows = [rng.choice(words.features[words.labels == label]) for label in labels]
    return np.stack(rows).astype(np.float64)


def _random(vost: Corpus, entry: ReleaseEntry, draw: int) -> Floats:
    rng = np.random.default_rng([draw, zlib.crc32(entry.id.encode())])
    return rng.normal(size=(len(entry.vocabulary), entry.history.dimension))


def from_pixels(
    benchmark: Benchmark, scenes: int = rendered.SCENES, workers: int | None = None
) -> Result:
    """Compare the readouts on rendered scenes, from pixels."""
    entries = rendered.moderate_entries(scenes, workers)
    whole = Corpus(entries, benchmark.engine)
    kinds = dict.fromkeys(entry.cohort for entry in entries)
    return _compared({"rendered": whole, **{kind: whole.only(kind) for kind in kinds}}, (FAMILY,))


def _compared(corpora: Mapping[str, Corpus], notes: tuple[str, ...]) -> Result:
    values: list[Value] = []
    windows: dict[str, ByHistory] = {}
    for name, corpus in corpora.items():
        selected_by = {row: corpus.windows(*method) for row, method in METHODS.items()}
        for row, selected in selected_by.items():
            values += with_intervals(f"{name}: {row}", corpus.means(corpus.scores(selected)))
            windows[f"{name}: {row}"] = corpus.by_history(selected)
        for row in (CONTRAST, TIMELINE):
            for baseline in (PUBLISHED, "whole history", "longest run"):
                pairs = corpus.compare(selected_by[row], selected_by[baseline])
                values += paired_values(f"{name}: {row} − {baseline}", pairs, {})
        for row in (PUBLISHED, CONTRAST):
            values += _ranked(f"{name}: {row}, best of", corpus, METHODS[row])
        for row in (PUBLISHED, CONTRAST):
            agreement = corpus.paraphrases(selected_by[row])["paraphrase_window_tiou"]
            values.append(Value(f"{name}: {row}", "tIoU of paraphrases", agreement, None))
    return Result(
        tuple(values), windows, notes, {"beyond": partial(rendered.side_by_side, corpora, METHODS)}
    )


def _ranked(row: str, corpus: Corpus, method: Method) -> list[Value]:
    """Return R@k .5: whether one of the first k windows, none overlapping, reaches tIoU .5."""
    overlaps = np.zeros((len(corpus), max(RANKS)))
    for entry in corpus.entries:
        ranked = ranked_windows(
            entry.history,
            entry.vocabulary,
            max(RANKS),
            coordinates=method[0],
            readout=method[1],
            kernel=corpus.engine,
        )
        rows = range(len(corpus))[corpus.rows[entry.id]]
        for q, windows in zip(rows, ranked, strict=True):
            truth = [corpus.references[q]] * len(windows)
            overlaps[q, : len(windows)] = best_tiou(windows, truth)
    return [
        Value(
            f"{row} {k}",
            "R@k .5",
            float(corpus.means(recall_at(0.5, overlaps[:, :k].max(axis=1))[:, None]).mean()),
            None,
        )
        for k in RANKS
    ]


def missing(benchmark: Benchmark) -> Result:
    """Measure frames lost at random: VOST, and the four original histories of the perturbation
    study."""
    values: list[Value] = []
    lines: dict[str, list[tuple[float, float, float]]] = {}
    for name, corpus in (("VOST", benchmark.vost), ("original", benchmark.original)):
        for row, method in LOSSY.items():
            for rate in LOSSES:
                tables = [
                    _lossy(corpus, method, rate, seed)
                    for seed in LOSS_SEEDS
                    if rate or seed == LOSS_SEEDS[0]
                ]
                mean = np.mean(tables, axis=0)
                values += with_intervals(f"{name}: {row}, {100 * rate:.0f} % lost", mean)
                lines.setdefault(f"{name}: {row}", []).append(intervals(mean)[1])
    seeds = f"Means over {len(LOSS_SEEDS)} draws; intervals: resampled components of the means."
    return Result(tuple(values), {}, (seeds,), {"beyond_missing": partial(_loss_figure, lines)})


def _lossy(corpus: Corpus, method: Method, rate: float, seed: int) -> Table:
    """Return means per component or history, with that share of the frames lost."""

    def drop(entry: ReleaseEntry) -> Any:
        label = f"random_missing_{round(100 * rate):03d}pct"
        return perturb.drop_frames(entry, perturb.seeded(seed, label, entry.label), rate)

    histories = (drop(entry) for entry in corpus.entries)
    windows, _ = corpus.locate(histories, corpus.vocabularies, *method)
    return corpus.means(corpus.scores(windows))


def settings(benchmark: Benchmark) -> Result:
    """Measure one setting of the contrast at a time, on the sets that constants were chosen on."""
    chosen = {
        name: corpus
        for name, corpus in sets(benchmark).items()
        if name in ("half A", "development")
    }
    values: list[Value] = []
    for name, corpus in chosen.items():
        for setting, readout in SETTINGS.items():
            means = corpus.means(corpus.scores(corpus.windows("vocabulary", readout)))
            values += with_intervals(f"{name}: {setting}", means, ("r1_05", "top1_tiou"))
    return Result(tuple(values), {}, (HALVES,))


SETTINGS: dict[str, Contrast] = {
    "as it is": Contrast(),
    **{
        f"width {width:g}": Contrast(width=width)
        for width in (0.0, 1.0, 2.0, 3.0, 6.0, 8.0, 10.0, 12.0)
    },
    **{f"pooling {share:g}": Contrast(pooling=share) for share in (0.0, 0.5)},
    **{f"bridge {frames}": Contrast(bridge=frames) for frames in (0, 1, 2, 8)},
}


def failures(benchmark: Benchmark) -> Result:
    """Count what is wrong with the windows that miss, by description."""
    values: list[Value] = []
    for name, corpus in sets(benchmark).items():
        for row in (PUBLISHED, CONTRAST, TIMELINE):
            kinds = failure_kinds(corpus, corpus.windows(*METHODS[row]))
            shares = corpus.means(np.stack([kinds == kind for kind in KINDS], axis=1).astype(float))
            values += [
                Value(f"{name}: {row}", kind, float(share), None)
                for kind, share in zip(KINDS, shares.mean(axis=0), strict=True)
            ]
    return Result(tuple(values), {}, (KINDS_EXPLAINED,))


KINDS = ("right", "too long", "too short", "on another state", "beside any state", "shifted")
KINDS_EXPLAINED = (
    "right: tIoU ≥ .5 with a reference. Otherwise the first that applies: on another state (more "
    "of its frames in references of other states than of its own), too long (contains at least .8 "
    "of a reference), too short (at least .8 of it is inside a reference), beside any state (less "
    "than half of it in any reference: transitions and unlabelled frames), shifted (the rest)."
)


def failure_kinds(corpus: Corpus, windows: NDArray[np.int64]) -> NDArray[np.str_]:
    """Return (n,) one of KINDS for every description."""
    kinds = []
    for entry in corpus.entries:
        rows = corpus.rows[entry.id]
        for window, state in zip(windows[rows], entry.vocabulary.state_names, strict=True):
            kinds.append(_kind(window, state, entry))
    return np.array(kinds)


def _kind(window: NDArray[np.int64], state: str, entry: ReleaseEntry) -> str:
    true = np.array([tuple(w) for w in entry.references[state]])
    if best_tiou([window], [true])[0] >= 0.5:
        return "right"
    length = window[1] - window[0] + 1
    shared = _shared(window, true)
    others = [
        _shared(window, np.array([tuple(w) for w in references])).sum()
        for name, references in entry.references.items()
        if name != state
    ]
    if sum(others) > shared.sum():
        return "on another state"
    if (shared / (true[:, 1] - true[:, 0] + 1)).max() >= 0.8:
        return "too long"
    if shared.max() >= 0.8 * length:
        return "too short"
    return "beside any state" if shared.sum() + sum(others) < 0.5 * length else "shifted"


def _shared(window: NDArray[np.int64], references: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many frames a window shares with each reference."""
    last = np.minimum(window[1], references[:, 1])
    shared: NDArray[np.int64] = np.maximum(0, last - np.maximum(window[0], references[:, 0]) + 1)
    return shared


def of_descriptions(timeline: Timeline, state: str) -> list[Interval]:
    """Return the interval of each description of a state, in the vocabulary's order; or the one of
    the state itself."""
    texts = timeline.states[state]
    return sorted(
        timeline[state],
        key=lambda interval: texts.index(interval.description) if interval.description else 0,
    )


def _parts_figure() -> Any:
    """Plot what each part of the readout is for, on generated histories."""
    from dejacue_paper.experiments._robustness_figures import RobustnessCase, cases_figure

    scenes = {
        "a state that fills most of the history": generate(
            5, episodes=[("empty", 40), ("filled", 260)], signal=1.0
        ),
        "a tenth of the frames lost": generate(4, frames=300, missing=0.1),
        "a state that comes back": generate(3, frames=300, recurrences=4),
    }
    cases = []
    for title, scene in scenes.items():
        history, words = scene.history, scene.vocabulary
        windows = {
            readout: [of_descriptions(locate(history, words, readout=readout), "filled")[0].window]
            for readout in ("published", "contrast")
        }
        if "back" in title:
            windows["occurrences"] = [
                interval.window for interval in locate(history, words, readout="timeline")["filled"]
            ]
        seen = evidence(history, words, readout="contrast").responses[-1]
        truth = scene.references["filled"]
        cases.append(RobustnessCase(title, history.frames, seen, truth, windows))
    scene = generate(11, frames=300, signal=0.6, descriptions=3)
    history, words = scene.history, scene.vocabulary
    published = of_descriptions(locate(history, words, readout="published"), "filled")
    windows = {
        f"published, {k}": [interval.window] for k, interval in enumerate(published, start=1)
    }
    windows["contrast"] = [locate(history, words, readout="contrast")["filled"][0].window]
    seen = evidence(history, words, readout="contrast").responses[-1]
    truth = scene.references["filled"]
    cases.append(
        RobustnessCase("three paraphrases of one state", history.frames, seen, truth, windows)
    )
    return cases_figure(cases)


def _loss_figure(lines: Mapping[str, list[tuple[float, float, float]]]) -> Any:
    from dejacue_paper.experiments._robustness_figures import levels_figure

    names = dict.fromkeys(key.split(": ")[0] for key in lines)
    panels = {
        name: {key.split(": ")[1]: values for key, values in lines.items() if key.startswith(name)}
        for name in names
    }
    return levels_figure(list(LOSSES), panels, "share of frames lost")


EXPERIMENTS = (
    Experiment(
        "beyond-retrieval",
        "Timeline and contrast against the published scan",
        retrieval,
        on_request=True,
    ),
    Experiment(
        "beyond-rendered",
        "The same comparison from pixels, on rendered scenes",
        from_pixels,
        on_request=True,
    ),
    Experiment(
        "beyond-missing",
        "Frames lost at random: strict, bridged, contrast",
        missing,
        on_request=True,
    ),
    Experiment(
        "beyond-settings", "Contrast with one setting changed at a time", settings, on_request=True
    ),
    Experiment(
        "beyond-failures", "What is wrong with windows that miss", failures, on_request=True
    ),
)
