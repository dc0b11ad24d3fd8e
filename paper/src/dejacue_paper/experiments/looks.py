"""Beyond the paper: how much of the answer is left if the encoder looks at fewer frames.

The grid, the agreement at which looking stops and the size of a round (dejacue.method.looks) were
chosen on half A, rendered scenes and generated histories; the other sets only report.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from dejacue.method.looks import AUTO, Flags, Looks, Rows, fill, look_less
from dejacue.method.plan import Plan
from dejacue.records import History, Timeline, Vocabulary
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
ABOUT = (
    "Agreement: tIoU with the window of all frames, and the share of windows whose ends are within "
    "one frame of its ends. Evenly: as many frames of each history as auto looks at, at even "
    "distances. Examples: one random frame inside a reference of each state."
)


def compared(benchmark: Benchmark) -> Result:
    """Compare looking as needed with looking evenly and at all frames."""
    corpora = {**sets(benchmark), "rendered": rendered_corpus(benchmark)}
    released = (benchmark.vost, benchmark.seven, benchmark.development)
    long = [e for corpus in released for e in corpus.entries if len(e.history) > LONG]
    corpora[f"more than {LONG} frames"] = Corpus(long, benchmark.engine)
    values = []
    for row in READOUTS:
        known: dict[str, History] = {}  # a history may be in several sets
        for name, corpus in corpora.items():
            values += rows(name, corpus, row, known)
    return Result(tuple(values), {}, (HALVES, ABOUT))


def rows(
    name: str, corpus: Corpus, row: str, known: dict[str, History] | None = None
) -> list[Value]:
    """Return accuracy, share of looks and agreement of a readout with all frames, with some as
    needed, and with as many at even distances.

    known   histories of which a part was looked at before, by id; new ones are added
    """
    readout = READOUTS[row]
    vocabularies = [_with_examples(e) if row == EXAMPLES else e.vocabulary for e in corpus.entries]
    pairs = list(zip((e.history for e in corpus.entries), vocabularies, strict=True))
    known = {} if known is None else known
    for history, words in pairs:
        if history.id not in known:
            known[history.id] = looked(history, words, readout)
    chosen = [known[history.id] for history, _ in pairs]
    even = [
        evenly(full, int(part.seen.sum())) for (full, _), part in zip(pairs, chosen, strict=True)
    ]
    locate = partial(description_windows, vocabularies=vocabularies, readout=readout)
    full = locate([history for history, _ in pairs])[0]
    share = float(np.mean([history.seen.mean() for history in chosen]))
    values = []
    for kind, histories in {"all": None, AUTO: chosen, "evenly": even}.items():
        windows = full if histories is None else locate(histories)[0]
        label, means = f"{name}: {row}, {kind}", corpus.averages(windows)
        values.append(Value(label, "R@1 .5", means["r1_05"], None))
        values.append(Value(label, "Top-1 tIoU", means["top1_tiou"], None))
        if histories is not None:
            near = (np.abs(windows - full) <= 1).all(axis=1).astype(float)
            both = corpus.means(np.stack([paired_tiou(windows, full), near], axis=1)).mean(axis=0)
            values.append(Value(label, "share of looks", share, None))
            values.append(Value(label, "agreement", float(both[0]), None))
            values.append(Value(label, "within a frame", float(both[1]), None))
    return values


def _with_examples(entry: ReleaseEntry) -> Vocabulary:
    return with_frames(entry, inside(entry, 1, 0))


def looked(history: History, vocabulary: Vocabulary, readout: str) -> History:
    """Return the history as it is if only some of its frames are looked at."""
    plan = Plan.of(None, readout, None, None, False, "auto")
    marks = [at for fact in vocabulary.facts for at in range(*fact.positions(history))]

    def partly(rows: Rows, seen: Flags) -> History:
        return replace(history, features=rows, made_with=seen_text(frames, seen))

    def read(rows: Rows, seen: Flags) -> Timeline:
        return plan.analyse(plan.view(partly(rows, seen), vocabulary))

    frames, runs = history.frames, history.run_offsets
    return partly(
        *look_less(frames, runs, lambda at: history.features[at], read, looks=Looks(), marks=marks)
    )


def evenly(history: History, count: int) -> History:
    """Return the history as it is if so many frames at even distances are looked at."""
    seen = np.zeros(len(history), bool)
    seen[np.linspace(0, len(history) - 1, count).round().astype(int)] = True
    units = np.concatenate(list(history.unit_blocks())).astype(np.float32)
    return replace(
        history,
        features=fill(units, seen, history.run_offsets)[0],
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
