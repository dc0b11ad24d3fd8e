"""Predict windows with trained decoders, and score them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dejacue.evaluation import best_tiou, group_means, metrics
from dejacue.records import History, Vocabulary
from dejacue_paper.learn.decoders.core import DecoderModel
from dejacue_paper.learn.decoders.records import (
    DecoderExample,
    Records,
    records_of,
    same,
    windows_of,
)
from dejacue_paper.learn.decoders.training import Data

TOKENS = 8192  # frames of all records that are read at a time
Predictions = list[NDArray[np.float64]]  # per history: first position, last position, score


@dataclass(frozen=True, eq=False)
class UnlabelledHistory:
    """A history and words that have no labels."""

    history: History
    vocabulary: Vocabulary
    references: dict[str, Any] = field(default_factory=dict)


def predict(model: DecoderModel, entries: Sequence[DecoderExample]) -> list[Predictions]:
    """Return, for each member and history, a row for each description."""
    unlabelled = [UnlabelledHistory(entry.history, entry.vocabulary) for entry in entries]
    records = records_of(unlabelled, most_frames=model.most_frames)
    members: list[Predictions] = []
    for spans, scores in zip(*_spans_and_scores(model, records), strict=True):
        at, histories = 0, []
        for entry in entries:
            bounds, rows = entry.history.run_offsets, []
            for _ in range(len(entry.vocabulary)):
                runs = slice(at, at + len(bounds) - 1)
                rows.append(windows_of(spans[runs], scores[runs], bounds))
                at = runs.stop
            histories.append(np.array(rows))
        members.append(histories)
    return members


@torch.no_grad()
def _spans_and_scores(
    model: DecoderModel, records: Records
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return spans (K, n, Q, 2) and scores (K, n, Q) of all records."""
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


def frames_of(entries: Sequence[DecoderExample], rows: Predictions) -> list[NDArray[np.int64]]:
    """Return, for each history, the windows (n, 2) in frames."""
    return [
        entry.history.frames[positions[:, :2].astype(int)]
        for entry, positions in zip(entries, rows, strict=True)
    ]


def scores_of(
    entries: Sequence[DecoderExample], windows: Sequence[NDArray[np.int64]]
) -> dict[str, Any]:
    """Return R@1 .3, R@1 .5 and Top-1 tIoU of each history, over its labelled states, and how alike
    the windows of different states are (``same``)."""
    states: list[str] = []
    histories: list[str] = []
    references: list[NDArray[np.int64]] = []
    scored: list[NDArray[np.int64]] = []
    for entry, selected in zip(entries, windows, strict=True):
        true = entry.references
        rows = [q for q, state in enumerate(entry.vocabulary.state_names) if true.get(state)]
        names = [entry.vocabulary.state_names[q] for q in rows]
        states += names
        histories += [entry.history.id] * len(names)
        references += [np.array([tuple(w) for w in true[s]]) for s in names]
        scored.append(selected[rows])
    values = metrics(best_tiou(np.concatenate(scored), references))
    order, means = group_means(values, [states, histories])
    return {
        "histories": dict(zip(map(str, order), np.round(means, 6).tolist(), strict=True)),
        "mean": np.round(means.mean(axis=0), 6).tolist(),
        "same": round(same(entries, windows), 4),
    }
