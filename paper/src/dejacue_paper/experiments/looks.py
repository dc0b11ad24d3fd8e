"""Beyond the paper: how much of the answer is left if the encoder looks at fewer frames.

The grid, the agreement at which looking stops and the size of a round (dejacue.method.looks) were
chosen on half A, rendered scenes and generated histories; the other sets only report.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dejacue.method.looks import AUTO, Flags, Looks, Rows, fill, look_less
from dejacue.method.plan import Plan
from dejacue.records import History, Timeline, Vocabulary
from dejacue.records.arrays import Ints
from dejacue.records.history import seen_text
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.evaluation.overlap import paired_tiou
from dejacue_paper.experiments.beyond import HALVES, sets
from dejacue_paper.experiments.corpus import Benchmark, Corpus
from dejacue_paper.experiments.examples import inside, rendered_corpus, with_frames
from dejacue_paper.experiments.table import Experiment, Result, Value
from dejacue_paper.method.windows import description_windows

EXAMPLES = "contrast, an example a state"
READOUTS = {"contrast": "contrast", "joint": "joint", EXAMPLES: "contrast"}
LONG = 300  # frames
SEEDS = range(5)  # of the draws after which frames are looked at
ABOUT = (
    "Agreement: tIoU with the window of all frames, and the share of windows whose ends are within "
    "one frame of its ends. Evenly: as many frames of each history as auto looks at, at even "
    "distances. Means over five seeds. Examples: one random frame inside a reference of each state."
)


def compared(benchmark: Benchmark) -> Result:
    """Compare looking as needed with looking evenly and at all frames."""
    corpora = {**sets(benchmark), "rendered": rendered_corpus(benchmark)}
    released = (benchmark.vost, benchmark.seven, benchmark.development)
    long = [e for corpus in released for e in corpus.entries if len(e.history) > LONG]
    corpora[f"more than {LONG} frames"] = Corpus(long, benchmark.engine)
    values = []
    for row in READOUTS:
        known: dict[tuple[str, int], History] = {}  # a history may be in several sets
        for name, corpus in corpora.items():
            values += rows(name, corpus, row, SEEDS, known)
    return Result(tuple(values), {}, (HALVES, ABOUT))


def rows(
    name: str,
    corpus: Corpus,
    row: str,
    seeds: Iterable[int],
    known: dict[tuple[str, int], History] | None = None,
) -> list[Value]:
    """Return accuracy, share of looks and agreement of a readout with all frames, with some as
    needed, and with as many at even distances.

    known   histories of which a part was looked at before, by id and seed; new ones are added
    """
    readout = READOUTS[row]
    vocabularies = [_with_examples(e) if row == EXAMPLES else e.vocabulary for e in corpus.entries]
    histories = [e.history for e in corpus.entries]
    known = {} if known is None else known
    locate = partial(description_windows, vocabularies=vocabularies, readout=readout)
    full = locate(histories)[0]
    measured: dict[str, list[dict[str, float]]] = {AUTO: [], "evenly": []}
    for seed in seeds:
        for history, words in zip(histories, vocabularies, strict=True):
            if (history.id, seed) not in known:
                known[history.id, seed] = looked(history, words, readout, seed)
        chosen = [known[history.id, seed] for history in histories]
        even = [evenly(h, int(part.seen.sum())) for h, part in zip(histories, chosen, strict=True)]
        share = float(np.mean([history.seen.mean() for history in chosen]))
        for kind, parts in zip(measured, (chosen, even), strict=True):
            windows = locate(parts)[0]
            near = (np.abs(windows - full) <= 1).all(axis=1).astype(float)
            both = corpus.means(np.stack([paired_tiou(windows, full), near], axis=1)).mean(axis=0)
            agreement = {"agreement": float(both[0]), "within a frame": float(both[1])}
            measured[kind].append(
                {**_accuracy(corpus, windows), "share of looks": share, **agreement}
            )
    return [
        Value(
            f"{name}: {row}, {kind}",
            metric,
            float(np.mean([table[metric] for table in tables])),
            None,
        )
        for kind, tables in {"all": [_accuracy(corpus, full)], **measured}.items()
        for metric in tables[0]
    ]


def _accuracy(corpus: Corpus, windows: NDArray[np.int64]) -> dict[str, float]:
    means = corpus.averages(windows)
    return {"R@1 .5": means["r1_05"], "Top-1 tIoU": means["top1_tiou"]}


def _with_examples(entry: ReleaseEntry) -> Vocabulary:
    return with_frames(entry, inside(entry, 1, 0))


def looked(history: History, vocabulary: Vocabulary, readout: str, seed: int) -> History:
    """Return the history as it is if only some of its frames are looked at."""
    plan = Plan.of(None, readout, None, None, False, "auto")
    marks = [at for fact in vocabulary.facts for at in range(*fact.positions(history))]

    def partly(rows: Rows, seen: Flags) -> History:
        return replace(history, features=rows, made_with=seen_text(frames, seen))

    def read(rows: Rows, seen: Flags) -> Timeline:
        return plan.analyse(plan.view(partly(rows, seen), vocabulary))

    def look(at: Ints) -> Rows:
        return history.features[at]

    frames = history.frames
    return partly(*look_less(frames, look, read, looks=Looks(), marks=marks, seed=seed))


def evenly(history: History, count: int) -> History:
    """Return the history as it is if so many frames at even distances are looked at."""
    seen = np.zeros(len(history), bool)
    seen[np.linspace(0, len(history) - 1, count).round().astype(int)] = True
    units = np.concatenate(list(history.unit_blocks())).astype(np.float32)
    return replace(
        history,
        features=fill(units, seen, history.frames)[0],
        made_with=seen_text(history.frames, seen),
    )


EXPERIMENTS = (
    Experiment(
        "beyond-looks",
        "Answers from a part of the frames: as needed, evenly, all",
        compared,
        on_request=True,
    ),
)
