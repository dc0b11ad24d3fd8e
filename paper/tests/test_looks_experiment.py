"""Answers from a part of the frames, as the table of looks scores them."""

import numpy as np

from dejacue_paper import generate
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.experiments import looks as experiment
from dejacue_paper.experiments.corpus import Corpus


def entries(count):
    scenes = [generate(seed, frames=200, signal=1.5) for seed in range(count)]
    return [
        ReleaseEntry(s.history, s.vocabulary, s.references, f"S{n}", f"S{n}", f"S{n}")
        for n, s in enumerate(scenes)
    ]


def test_a_part_of_the_frames_gives_nearly_the_answer_of_all():
    corpus = Corpus(entries(4), "auto")
    for row in experiment.READOUTS:
        values = {(v.row, v.metric): v.here for v in experiment.rows("made", corpus, row, [0])}
        by_example = row == experiment.EXAMPLES  # served less well: beyond.md
        assert values[f"made: {row}, auto", "share of looks"] < (0.6 if by_example else 0.4)
        assert values[f"made: {row}, auto", "agreement"] > (0.75 if by_example else 0.9)
        accuracy = [values[f"made: {row}, {kind}", "Top-1 tIoU"] for kind in ("all", "auto")]
        assert abs(accuracy[0] - accuracy[1]) < (0.2 if by_example else 0.02)


def test_even_looks_are_as_many_and_rows_between_are_filled():
    history = entries(1)[0].history
    even = experiment.evenly(history, 41)
    assert even.seen.sum() == 41
    assert np.flatnonzero(even.seen)[:3].tolist() == [0, 5, 10]
    middle = (even.features[0] * 0.6 + even.features[5] * 0.4).astype(np.float32)
    assert np.allclose(even.features[2], middle, atol=1e-6)
