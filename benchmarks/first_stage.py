"""An approximate first stage: what it reads, what it loses: ``python benchmarks/first_stage.py``.

    python benchmarks/first_stage.py [--histories 200000] [--write PAGE]

A store ranks histories by one linear score of their mean rows (``docs/corpora.md``). Here the means
of many histories are generated and asked for with the 78 vocabularies of VOST: exactly, and by
stages that read fewer bytes and hand the first 1,000 (where it says so) to the exact score.

The means resemble those of the public release. Each belongs to a class, whose centre is the mean of
a real VOST history. It lies about it as far as histories of the same noun (dough, bag, wood, …) lie
about theirs, in the directions in which frames vary within histories. 78 classes are few: thousands
of histories are nearly alike, so that the exact first ten are hard to find.

Recall is the share of the exact first 10 and 100 that are found, over the vocabularies. Bytes are
those that are read, over the number of histories. Times are numpy's, CPU seconds of one thread.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from store import RELEASE, put_table

from dejacue import load_release

Rows = NDArray[Any]
KEPT = 1000  # histories that the exact score looks at again
SAMPLE = 20_000  # means that codes are learnt from


class Stage(NamedTuple):
    name: str
    bytes: float  # read of a history, on average
    seconds: float  # of a question
    recall_10: float
    recall_100: float


def unit(rows: Rows) -> Rows:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def corpus(count: int, seed: int = 0) -> tuple[Rows, Rows]:
    """Means of so many histories, and the centres of the vocabularies that ask."""
    entries = list(load_release(os.environ.get("DEJACUE_DATA", RELEASE)).vost)
    means = np.stack([own.history.mean_direction for own in entries])
    nouns: dict[str, list[int]] = defaultdict(list)
    for at, own in enumerate(entries):
        nouns[own.label.rpartition("_")[2]].append(at)
    alike = [means[own] for own in nouns.values() if len(own) > 1]
    spread = sum(len(own) * own.var(axis=0, ddof=1).sum() for own in alike)
    spread /= sum(map(len, alike))
    frames = [unit(own.history.features.astype(np.float32)) for own in entries]
    within = np.concatenate([own - own.mean(axis=0) for own in frames])
    values, directions = np.linalg.eigh(within.T @ within / len(within))
    size = np.sqrt(np.maximum(values, 0) * spread / values.sum())
    print(
        f"{sum(map(len, alike))} histories of {len(alike)} nouns have a spread of "
        f"{np.sqrt(spread):.3f} around their noun; all histories have "
        f"{np.sqrt(means.var(axis=0).sum()):.3f} around the overall mean"
    )
    rng = np.random.default_rng(seed)
    found = means[rng.integers(len(means), size=count)].astype(np.float32)
    turned = (directions * size).T.astype(np.float32)
    for first in range(0, count, 10_000):
        part = found[first : first + 10_000]
        part += rng.standard_normal(part.shape, np.float32) @ turned
    words = [own.vocabulary for own in entries]
    centres = np.stack([own.weights @ unit(own.features) for own in words])  # type: ignore[arg-type]
    return found, unit(centres).astype(np.float32)


def centroids(rows: Rows, count: int, seed: int = 0, rounds: int = 8) -> Rows:
    """k-means of Lloyd."""
    rng = np.random.default_rng(seed)
    found = rows[rng.choice(len(rows), count, replace=False)]
    for _ in range(rounds):
        nearest = nearest_to(rows, found)
        used, starts = np.unique(np.sort(nearest), return_index=True)
        sums = np.add.reduceat(rows[np.argsort(nearest)], starts)
        found[used] = sums / np.bincount(nearest)[used, None]
    return found


def nearest_to(rows: Rows, known: Rows) -> NDArray[np.int64]:
    half = (known**2).sum(axis=1) / 2
    parts = [rows[k : k + 10_000] for k in range(0, len(rows), 10_000)]
    return np.concatenate([np.argmax(part @ known.T - half, axis=1) for part in parts])


def best(scores: Rows, count: int) -> NDArray[np.int64]:
    chosen = np.argpartition(scores, -count)[-count:]
    return chosen[np.argsort(-scores[chosen])]


Asked = Callable[[Rows], tuple[NDArray[np.int64], float]]  # centre → the first 100, bytes in all


def exact(means: Rows) -> Asked:
    return lambda centre: (best(means @ centre, 100), means.nbytes)


def again(means: Rows, first: Callable[[Rows], Rows], held: int) -> Asked:
    """The first of an approximate score, asked exactly."""

    def ask(centre: Rows) -> tuple[NDArray[np.int64], float]:
        chosen = best(first(centre), KEPT)
        found = chosen[best(means[chosen] @ centre, 100)]
        return found, held + KEPT * means[0].nbytes

    return ask


def eight_bits(means: Rows) -> tuple[Callable[[Rows], Rows], int]:
    """Each number in a byte, a scale for each history."""
    scale = np.abs(means).max(axis=1) / 127
    codes = np.rint(means / scale[:, None]).astype(np.int8)

    def score(centre: Rows) -> Rows:
        parts = [
            codes[k : k + 2000].astype(np.float32) @ centre for k in range(0, len(codes), 2000)
        ]
        return np.concatenate(parts) * scale

    return score, codes.nbytes + scale.nbytes


def products(means: Rows, parts: int) -> tuple[Callable[[Rows], Rows], int]:
    """Product quantisation: each of so many parts of a row by one of 256 centroids, a byte each."""
    shaped = means.reshape(len(means), parts, -1)
    books = [centroids(shaped[:SAMPLE, k], 256, k) for k in range(parts)]
    codes = np.stack([nearest_to(shaped[:, k], books[k]) for k in range(parts)]).astype(np.uint8)

    def score(centre: Rows) -> Rows:
        found = np.zeros(len(means), np.float32)
        for book, own, code in zip(books, centre.reshape(parts, -1), codes, strict=True):
            found += (book @ own)[code]
        return found

    return score, codes.nbytes


def leading(means: Rows, count: int) -> tuple[Callable[[Rows], Rows], int]:
    """The directions in which means vary most; numpy is slow in float16, so that times are those of
    float32, and bytes those of float16."""
    middle = means[:SAMPLE].mean(axis=0)
    _, _, axes = np.linalg.svd(means[:SAMPLE] - middle, full_matrices=False)
    kept = ((means - middle) @ axes[:count].T).astype(np.float16).astype(np.float32)
    return lambda centre: kept @ (axes[:count] @ centre), kept.nbytes // 2


def cells(means: Rows, count: int) -> Callable[[int], Asked]:
    """Histories by the nearest of so many centroids; a question looks into the likeliest."""
    middles = centroids(means[:SAMPLE], count)
    nearest = nearest_to(means, middles)
    order = np.argsort(nearest, kind="stable")
    bounds = np.searchsorted(nearest[order], np.arange(count + 1))
    sorted_means = means[order]

    def opened(probes: int) -> Asked:
        def ask(centre: Rows) -> tuple[NDArray[np.int64], float]:
            chosen = best(middles @ centre, probes)
            inside = [slice(bounds[k], bounds[k + 1]) for k in chosen]
            scores = np.concatenate([sorted_means[own] @ centre for own in inside])
            which = np.concatenate([order[own] for own in inside])
            first = best(scores, min(100, len(scores)))
            return which[first], middles.nbytes + len(scores) * means[0].nbytes

        return ask

    return opened


def measured(name: str, ask: Asked, truth: list[Rows], centres: Rows, count: int) -> Stage:
    ask(centres[0])
    start = time.process_time()
    found = [ask(centre) for centre in centres]
    took = (time.process_time() - start) / len(centres)
    pairs = list(zip(truth, (own for own, _ in found), strict=True))
    recalls = (np.mean([np.isin(own[:k], got[:k]).mean() for own, got in pairs]) for k in (10, 100))
    return Stage(
        name, float(np.mean([own for _, own in found])) / count, took, *map(float, recalls)
    )


def stages(count: int) -> list[Stage]:
    means, centres = corpus(count)
    truth = [best(means @ centre, 100) for centre in centres]
    asks: list[tuple[str, Asked]] = [("all means, exact", exact(means))]
    for name, (score, held) in (
        ("8 bits per number", eight_bits(means)),
        ("64 leading directions, float16", leading(means, 64)),
        ("256 leading directions, float16", leading(means, 256)),
        ("product codes of 96 bytes", products(means, 96)),
        ("product codes of 48 bytes", products(means, 48)),
    ):
        asks.append((f"{name}, then {KEPT:,} exact", again(means, score, held)))
    opened = cells(means, 512)
    asks += [(f"{probes} of 512 cells", opened(probes)) for probes in (8, 32, 128)]
    return [measured(name, ask, truth, centres, count) for name, ask in asks]


def table(found: list[Stage]) -> list[str]:
    lines = ["| first stage | bytes per history | time per query | recall@10 | recall@100 |",
             "|---|---:|---:|---:|---:|"]  # fmt: skip
    return lines + [
        f"| {own.name} | {own.bytes:,.0f} | {1e3 * own.seconds:.1f} ms "
        f"| {100 * own.recall_10:.1f} % | {100 * own.recall_100:.1f} % |"
        for own in found
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--histories", type=int, default=200_000)
    parser.add_argument("--write", type=Path, help="page to write the table into")
    given = parser.parse_args()
    lines = table(stages(given.histories))
    print("\n".join(lines))
    if given.write:
        put_table(given.write, "benchmarks/first_stage.py", lines)


if __name__ == "__main__":
    main()
