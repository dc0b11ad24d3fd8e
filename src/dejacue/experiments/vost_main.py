"""The main table: seven methods on the 78 VOST histories (R@1 .3, R@1 .5, Top-1 tIoU)."""

from __future__ import annotations

import numpy as np

from dejacue.data.release import Release
from dejacue.evaluation import best_tiou, nested_mean, recall_at
from dejacue.experiments.table import Experiment, Result, Value, Windows, published
from dejacue.method.batch import locate_many


def run(release: Release, engine: str = "auto") -> Result:
    entries = release.vost
    states = [m for e in entries for m in e.vocabulary.state_names]
    histories = [e.id for e in entries for _ in e.vocabulary.state_names]
    components = [e.component for e in entries for _ in e.vocabulary.state_names]
    references = [
        [list(window) for window in e.references[state]]
        for e in entries
        for state in e.vocabulary.state_names
    ]
    values: list[Value] = []
    windows: dict[str, Windows] = {}
    for method, figures in published()["vost_main"].items():
        readout, coordinates = method.split("/")
        retrievals = locate_many(
            (e.history for e in entries),
            (e.vocabulary for e in entries),
            coordinates=coordinates,
            readout=readout,
            engine=engine,
        )
        chosen = {r.history_id: [list(moment.window) for moment in r] for r in retrievals}
        overlap = best_tiou(np.array([w for own in chosen.values() for w in own]), references)
        metrics = {
            "r1_03": recall_at(0.3, overlap),
            "r1_05": recall_at(0.5, overlap),
            "top1_tiou": overlap,
        }
        for metric, scores in metrics.items():
            here, _ = nested_mean(scores, [states, histories, components])
            values.append(Value(method, metric, here, figures["mean"][metric]))
        windows[method] = chosen
    return Result(tuple(values), windows)


MAIN = Experiment("main", "VOST, 78 histories, 312 descriptions", run)
