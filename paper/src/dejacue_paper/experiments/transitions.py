"""Beyond the paper: a joint labelling in which a frame may be in none of the states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dejacue.method.joint import Joint
from dejacue.method.localization import locate
from dejacue.records import Vocabulary
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.data.synthetic import generate
from dejacue_paper.experiments import rendered
from dejacue_paper.experiments.beyond import HALVES, KINDS, KINDS_EXPLAINED, failure_kinds, sets
from dejacue_paper.experiments.corpus import Benchmark, Corpus
from dejacue_paper.experiments.occurrences import (
    F1,
    GENERATED,
    GENERATED_SEEDS,
    SEED,
    generated,
    occurrence_scores,
    recurrent,
    without,
)
from dejacue_paper.experiments.table import Experiment, Result, Value, with_intervals
from dejacue_paper.method.joint_or_none import JointOrNone

READOUTS: dict[str, Joint] = {
    "joint": Joint(),
    "none at 0.1": JointOrNone(none=0.1),
    "none": JointOrNone(),
    "none at 0.7": JointOrNone(none=0.7),
}
SETS = ("VOST", "half A", "half B", "seven", "development")
SCENES = 80
BETWEEN_SEEDS = range(4000, 4030)
BETWEEN = ("before", "after")


def none(
    benchmark: Benchmark,
    names: Sequence[str] = SETS,
    scenes: int = SCENES,
    workers: int | None = None,
) -> Result:
    """Measure windows, occurrences and absence, with and without a label for none of the states."""
    real = sets(benchmark) if names else {}
    corpora = {name: real[name] for name in names}
    groups = {
        "rendered": rendered.moderate_entries(scenes, workers),
        "generated, something between": [between(seed) for seed in BETWEEN_SEEDS],
    }
    corpora |= {name: Corpus(entries, benchmark.engine) for name, entries in groups.items()}
    values: list[Value] = []
    for name, corpus in corpora.items():
        for row, readout in READOUTS.items():
            values += _windows(f"{name}: {row}", corpus, readout)
            values += _absence(f"{name}: {row}", corpus, readout)
    several: dict[str, Sequence[ReleaseEntry]] = {
        name: entries
        for name, corpus in corpora.items()
        if name in ("seven", "development") and (entries := recurrent(corpus.entries))
    }
    for count in GENERATED:
        several[f"generated, {count} times"] = [generated(seed, count) for seed in GENERATED_SEEDS]
    values += _several(several, benchmark.engine)
    return Result(tuple(values), {}, (HALVES, KINDS_EXPLAINED, ABOUT))


ABOUT = (
    "None: a frame may be in none of the states if no response exceeds its level by 0.4 "
    "deviations, or by the number in the row. No frame: share of states that get no frame in the "
    "labelling, when all frames of their references were cut out (absent), and when the same "
    "number of others was (present). Something between: two states, with frames of a third "
    "between them that is not in the vocabulary."
)


def between(seed: int) -> ReleaseEntry:
    """Measure two states, and frames between them that show neither: 20 or 60 of 200."""
    rng = np.random.default_rng(seed)
    first, lasts = int(rng.integers(40, 100)), 20 if seed % 2 else 60
    episodes = [("before", first), ("between", lasts), ("after", 200 - first - lasts)]
    scene = generate(
        seed, states=(*BETWEEN, "between"), episodes=episodes, signal=0.8 if seed % 2 else 1.5
    )
    words, features = scene.vocabulary, scene.vocabulary.features
    assert features is not None
    rows = [row for row, state in enumerate(words.state_names) if state in BETWEEN]
    vocabulary = Vocabulary(
        {state: words.states[state] for state in BETWEEN}, features[rows], words.encoder
    )
    references = {state: scene.references[state] for state in BETWEEN}
    return ReleaseEntry(scene.history, vocabulary, references, scene.history.id, "generated", "")


def _windows(row: str, corpus: Corpus, readout: Joint) -> list[Value]:
    windows = corpus.windows("vocabulary", readout)
    means = corpus.means(corpus.scores(windows))
    values = with_intervals(row, means, ("r1_05", "top1_tiou"))
    kinds = failure_kinds(corpus, windows)
    for kind in KINDS[1:3]:
        share = corpus.means((kinds == kind).astype(float)[:, None]).mean()
        values.append(Value(row, kind, float(share), None))
    return values


def _absence(row: str, corpus: Corpus, readout: Joint) -> list[Value]:
    """Return how often a state gets no frame: where it is, and where its episodes were cut out."""
    rng = np.random.default_rng(SEED)
    gone: list[tuple[bool, bool]] = []
    for entry in corpus.entries:
        for state in entry.vocabulary.states:
            pair = without(entry, state, rng)
            if pair is not None:
                there, cut = (
                    locate(
                        history, entry.vocabulary, readout=readout, top=None, kernel=corpus.engine
                    )
                    for history in pair
                )
                gone.append((not there[state], not cut[state]))
    shares = np.mean(gone, axis=0).tolist()
    return [
        Value(row, f"no frame, {what}", share, None)
        for what, share in zip(("present", "absent"), shares, strict=True)
    ]


def _several(groups: Mapping[str, Sequence[ReleaseEntry]], engine: str) -> list[Value]:
    return [
        Value(f"{name}: {row}", F1, float(np.mean(scores)), None)
        for name, entries in groups.items()
        for row, readout in READOUTS.items()
        for scores in [[occurrence_scores(e, readout, engine)["f1"] for e in entries]]
    ]


EXPERIMENTS = (
    Experiment(
        "beyond-none",
        "A labelling in which a frame may be in none of the states",
        none,
        on_request=True,
    ),
)
