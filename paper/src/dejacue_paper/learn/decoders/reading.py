"""What trained decoders say of histories, and what that is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dejacue.evaluation import best_tiou, group_means, metrics
from dejacue.records import History, Vocabulary
from dejacue_paper.learn.decoders.core import Model
from dejacue_paper.learn.decoders.records import Labelled, Records, records_of, same, windows_of
from dejacue_paper.learn.decoders.training import Data

TOKENS = 8192  # frames of all records that are read at a time
Found = list[NDArray[np.float64]]  # for each history, rows of first position, last position, score


@dataclass(frozen=True, eq=False)
class Asked:
    """A history and words, without labels."""

    history: History
    vocabulary: Vocabulary
    references: dict[str, Any] = field(default_factory=dict)


def found(model: Model, entries: Sequence[Labelled]) -> list[Found]:
    """For each member and history: a row for each description."""
    asked = [Asked(entry.history, entry.vocabulary) for entry in entries]
    records = records_of(asked, most_frames=model.most_frames)
    spans, scores = _read(model, records)
    every: list[Found] = []
    for own_spans, own_scores in zip(spans, scores, strict=True):
        at, histories = 0, []
        for entry in entries:
            bounds, rows = entry.history.run_offsets, []
            for _ in range(len(entry.vocabulary)):
                runs = slice(at, at + len(bounds) - 1)
                rows.append(windows_of(own_spans[runs], own_scores[runs], bounds))
                at = runs.stop
            histories.append(np.array(rows))
        every.append(histories)
    return every


@torch.no_grad()
def _read(model: Model, records: Records) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Spans (K, n, Q, 2) and scores (K, n, Q) of all records, those of similar length together."""
    device = next(model.parameters()).device
    model.eval()
    data = Data(records, device)
    length = records.length[records.run]
    order = np.argsort(length, kind="stable")
    spans, scores, at = [], [], 0
    while at < len(order):
        size = 1
        while at + size < len(order) and length[order[at + size]] * (size + 1) <= TOKENS:
            size += 1
        rows = torch.from_numpy(order[at : at + size]).to(device).expand(model.members, -1)
        none = torch.zeros_like(rows, dtype=torch.float32)
        batch = data.batch(
            rows,
            none + 1,
            torch.zeros(*rows.shape, 2, 2, dtype=torch.long, device=device),
            none,
            torch.zeros_like(rows),
            none,
            longest=int(length[order[at + size - 1]]),
        )
        output = model(batch, len(model.turns))
        spans.append(output.spans[-1].double().cpu().numpy())
        scores.append(model.scores(output).double().cpu().numpy())
        at += size
    back = np.argsort(order)
    return np.concatenate(spans, axis=1)[:, back], np.concatenate(scores, axis=1)[:, back]


def frames_of(entries: Sequence[Labelled], rows: Found) -> list[NDArray[np.int64]]:
    """For each history the windows (n, 2) in frames."""
    return [
        entry.history.frames[own[:, :2].astype(int)]
        for entry, own in zip(entries, rows, strict=True)
    ]


def worth(entries: Sequence[Labelled], windows: Sequence[NDArray[np.int64]]) -> dict[str, Any]:
    """R@1 .3, R@1 .5 and Top-1 tIoU of each history, over its labelled states, and how alike the
    windows of different states are (``same``)."""
    states: list[str] = []
    histories: list[str] = []
    references: list[NDArray[np.int64]] = []
    scored: list[NDArray[np.int64]] = []
    for entry, own in zip(entries, windows, strict=True):
        true = entry.references
        rows = [q for q, state in enumerate(entry.vocabulary.state_names) if true.get(state)]
        names = [entry.vocabulary.state_names[q] for q in rows]
        states += names
        histories += [entry.history.id] * len(names)
        references += [np.array([tuple(w) for w in true[s]]) for s in names]
        scored.append(own[rows])
    values = metrics(best_tiou(np.concatenate(scored), references))
    order, means = group_means(values, [states, histories])
    return {
        "histories": dict(zip(map(str, order), np.round(means, 6).tolist(), strict=True)),
        "mean": np.round(means.mean(axis=0), 6).tolist(),
        "same": round(same(entries, windows), 4),
    }
