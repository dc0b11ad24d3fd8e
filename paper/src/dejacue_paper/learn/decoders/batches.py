"""Which records are seen together, drawn from a seed; every epoch has every record of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dejacue_paper.learn.decoders.records import Records

CAP = 20
Index = NDArray[np.int64]
FAMILIES = ("once", "cycle", "unique", "balanced")


def once(rows: Index, history: Index, random: np.random.Generator) -> list[Index]:
    """Return the rows shuffled, in batches of nearly equal size."""
    return np.array_split(random.permutation(rows), -(-len(rows) // CAP))


def cycle(rows: Index, history: Index, random: np.random.Generator) -> list[Index]:
    """Return batches in which neighbours, also the last and the first, are of different histories.
    Where one history has more than half of the records, others are repeated.

    Where one history has more than half of the records, others are repeated.
    """
    order = random.permutation(rows)
    names, sizes = np.unique(history[order], return_counts=True)
    largest = names[np.argmax(sizes)]
    short = 2 * int(sizes.max()) - len(order)
    others = order[history[order] != largest]
    if short > 0 and len(others):
        order = np.concatenate([order, random.permutation(np.resize(others, short))])
    if len(order) % 2:
        order = np.concatenate([order, random.permutation(others if len(others) else order)[:1]])
    rank = dict(zip(names.tolist(), sizes.tolist(), strict=True))
    grouped = order[np.lexsort((history[order], [-rank[h] for h in history[order].tolist()]))]
    arranged = np.empty_like(grouped)  # groups fill every second place, then the others
    half = len(grouped) // 2
    arranged[0::2], arranged[1::2] = grouped[:half], grouped[half:]
    pairs = arranged.reshape(-1, 2)
    count = -(-len(pairs) // (CAP // 2))
    return [part.ravel() for part in np.array_split(pairs, count)]


def unique(rows: Index, history: Index, random: np.random.Generator) -> list[Index]:
    """Return batches with at most one record of a history; none has one record where there are two
    histories."""
    order = random.permutation(rows)
    groups = [order[history[order] == name] for name in np.unique(history[order])]
    groups.sort(key=len, reverse=True)
    batches: list[list[int]] = [[] for _ in range(max(len(groups[0]), -(-len(order) // CAP)))]
    place = 0
    for group in groups:
        for row in group.tolist():
            batches[place % len(batches)].append(row)
            place += 1
    random.shuffle(batches)
    for batch in batches:
        rest = order[history[order] != history[batch[0]]]
        if len(batch) == 1 and len(rest):
            batch.append(int(random.choice(rest)))
    return [np.array(batch) for batch in batches]


def epoch_of(records: Records, family: str, seed: int, only: Index | None = None) -> list[Index]:
    """Return the batches of one epoch: rows with a target, and for "balanced" as many without one.

    only   numbers of the histories to learn from
    """
    random = np.random.default_rng(seed)
    rows = np.arange(len(records))
    if only is not None:
        rows = rows[np.isin(records.history, only)]
    positive, negative = (
        rows[(records.targets[rows] > 0) == has_target] for has_target in (True, False)
    )
    if family == "balanced":
        few = random.permutation(negative)[: len(positive)]
        return once(np.concatenate([positive, few]), records.history, random)
    batches_of = {"once": once, "cycle": cycle, "unique": unique}[family]
    return batches_of(positive, records.history, random)


@dataclass(frozen=True, eq=False)
class BatchSchedule:
    """All steps of a training: (steps, members, batch) rows of records.

    weight     0 for rows that only fill a batch up
    drawn      (…, 2, 2) two frames inside and two outside a target, hinged: whether there are any
    rival      the place in the batch of a record with a wrong text, rivalled: whether there is one
    steps      of an epoch
    """

    rows: Index
    weight: NDArray[np.float32]
    drawn: Index
    hinged: NDArray[np.float32]
    rival: Index
    rivalled: NDArray[np.float32]
    steps: int


def schedule(
    records: Records,
    family: str,
    seeds: Sequence[int],
    epochs: range,
    as_published: bool,
    only: Sequence[Index | None] | None = None,
) -> BatchSchedule:
    """Draw all steps of a training; ``only`` lists, for each member, the numbers of the histories
    it learns from (None: all)."""
    some = only or [None] * len(seeds)
    epochs_of = [
        [
            epoch_of(records, family, seed + epoch, histories)
            for seed, histories in zip(seeds, some, strict=True)
        ]
        for epoch in epochs
    ]
    steps = max(len(batches) for epoch in epochs_of for batches in epoch)
    size = max(len(batch) for epoch in epochs_of for batches in epoch for batch in batches)
    shape = (len(epochs_of) * steps, len(seeds), size)
    rows, weight = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
    drawn, hinged = np.zeros((*shape, 2, 2), np.int64), np.zeros(shape, np.float32)
    rival, rivalled = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
    for e, epoch in enumerate(epochs_of):
        for k, members in enumerate(epoch):
            random = np.random.default_rng([seeds[k], epochs[e]])
            for s, batch in enumerate(members):
                at = (e * steps + s, k, slice(len(batch)))
                rows[at[0], k] = batch[0]
                rows[at], weight[at] = batch, 1
                for b, row in enumerate(batch.tolist()):
                    place = (at[0], k, b)
                    hinged[place] = _draw(records, row, random, drawn[place])
                rival[at], rivalled[at] = _rivals(records, batch, as_published)
    return BatchSchedule(rows, weight, drawn, hinged, rival, rivalled, steps)


def _draw(records: Records, row: int, random: np.random.Generator, out: Index) -> float:
    """Draw two frames inside and two outside; inside ones where nothing is outside."""
    length = records.length[records.run[row]]
    inside = records.inside[row, :length]
    first, rest = np.flatnonzero(inside), np.flatnonzero(~inside)
    if not len(first):
        return 0.0
    rest = rest if len(rest) >= 2 else first
    out[0] = random.choice(first, 2, replace=len(first) < 2)
    out[1] = random.choice(rest, 2, replace=len(rest) < 2)
    return 1.0


def _rivals(records: Records, batch: Index, as_published: bool) -> tuple[Index, Index]:
    """Return the next record whose text is wrong here: of another history and with other words."""
    size = len(batch)
    history, wording = records.history[batch], records.wording[batch]
    rival, rivalled = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for b in range(size):
        for step in range(1, size + 1):
            partner = (b + step) % size
            if as_published or (history[partner] != history[b] and wording[partner] != wording[b]):
                rival[b], rivalled[b] = partner, 1
                break
    return rival, rivalled
