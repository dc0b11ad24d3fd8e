"""Windows of neighbouring segments, as the table of segments scores them."""

import numpy as np

from dejacue import History
from dejacue.method import Window
from dejacue_paper import generate
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.experiments import segments as experiment


def levels(count, length, dimension=64, spread=0.2, seed=0):
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(count, dimension))
    return np.repeat(means, length, axis=0) + spread * rng.normal(size=(count * length, dimension))


def test_windows_of_neighbouring_segments_and_edges_near_references():
    features = levels(3, 20)
    scene = generate(1)
    references = {"empty": (Window(0, 21),), "filled": (Window(30, 59),)}
    entry = ReleaseEntry(History(features), scene.vocabulary, references, "x", "y", "z")
    edges = experiment.edges_of(entry.history, 3)
    assert edges.tolist() == [0, 20, 40, 60]
    windows = [[0, 19], [20, 39], [40, 59], [0, 39], [20, 59], [0, 59]]
    assert experiment.joined(entry.history, edges).tolist() == windows
    assert experiment.near_edges(entry, edges) == 0.5  # 22 is near 20, 30 is not near 40
    assert experiment.near_edges(entry, np.array([0, 60])) == 0.0
    timed = History(features, times_s=np.arange(60) / 30)  # 0.4 s are 12 frames
    again = ReleaseEntry(timed, scene.vocabulary, references, "x", "y", "z")
    assert experiment.near_edges(again, edges) == 1.0
    rng = np.random.default_rng(0)
    drawn = experiment._drawn(entry.history, edges, rng)
    assert (drawn[0], drawn[-1], len(drawn)) == (0, 60, 4)
