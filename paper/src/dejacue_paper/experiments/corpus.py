"""The benchmark's histories and what experiments compute from them, each computed once."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dejacue.evaluation import METRICS, best_tiou, compare, group_means, metrics
from dejacue.evaluation.resampling import Paired
from dejacue.method.localization import PUBLISHED_SCAN, as_readout
from dejacue.method.readout import Readout
from dejacue.records import History, Vocabulary
from dejacue_paper.data.release import Release, ReleaseEntry, load_release
from dejacue_paper.evaluation.groups import paraphrase_pairs
from dejacue_paper.method.windows import description_windows

T = TypeVar("T")
SCAN = PUBLISHED_SCAN  # in whatever coordinates a table asks for
Table = NDArray[np.float64]
Located = tuple[NDArray[np.int64], Table]  # windows (n, 2) and scores (n,)

# Names of coordinates in the published tables.
COORDINATES_PUBLISHED = {
    "absolute_coordinates": "absolute",
    "visual_centered_coordinates": "trajectory",
    "vocabulary_centered_coordinates": "vocabulary",
    "dual_centered_coordinates": "dual",
    "vocabulary_only": "vocabulary",
    "dual_centered": "dual",
}


class Corpus:
    """Entries side by side: one row per description, in the order of the vocabularies.

    ``components``: whether histories are averaged within their source first (VOST) or not.
    """

    def __init__(
        self, entries: Sequence[ReleaseEntry], engine: str, components: bool = False
    ) -> None:
        self.entries, self.engine, self.components = tuple(entries), engine, components
        self.vocabularies = [entry.vocabulary for entry in self.entries]
        self._known: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return len(self.states)

    @cached_property
    def states(self) -> list[str]:
        return [state for entry in self.entries for state in entry.vocabulary.state_names]

    @cached_property
    def histories(self) -> list[str]:
        return [entry.id for entry in self.entries for _ in entry.vocabulary.state_names]

    @cached_property
    def levels(self) -> list[list[str]]:
        outer = [entry.component for entry in self.entries for _ in entry.vocabulary.state_names]
        return [self.states, self.histories, *([outer] if self.components else [])]

    @cached_property
    def references(self) -> list[NDArray[np.int64]]:
        """Return the true windows of each description."""
        return [
            np.array([tuple(window) for window in entry.references[state]])
            for entry in self.entries
            for state in entry.vocabulary.state_names
        ]

    @cached_property
    def rows(self) -> dict[str, slice]:
        """Return which descriptions belong to each history."""
        ends = np.cumsum([len(v) for v in self.vocabularies]).tolist()
        starts = [0, *ends[:-1]]
        return {e.id: slice(a, b) for e, a, b in zip(self.entries, starts, ends, strict=True)}

    def only(self, cohort: str) -> Corpus:
        return Corpus([e for e in self.entries if e.cohort == cohort], self.engine, self.components)

    def windows(
        self, coordinates: str, readout: str | Readout = SCAN, prompts: str = "ensemble"
    ) -> NDArray[np.int64]:
        """Return (n, 2) selected windows, computed once."""
        return self._located(coordinates, readout, prompts)[0]

    def best_scores(self, coordinates: str, readout: str | Readout = SCAN) -> Table:
        """Return (n,) scores of these windows."""
        return self._located(coordinates, readout, "ensemble")[1]

    def _located(self, coordinates: str, readout: str | Readout, prompts: str) -> Located:
        def compute() -> Located:
            texts = self.cached(prompts, lambda: [e.prompted(prompts) for e in self.entries])
            return self.locate((e.history for e in self.entries), texts, coordinates, readout)

        return self.cached((coordinates, as_readout(readout), prompts), compute)

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result of ``compute``, computed once per key."""
        if key not in self._known:
            self._known[key] = compute()
        known: T = self._known[key]
        return known

    def locate(
        self,
        histories: Iterable[History],
        vocabularies: Iterable[Vocabulary],
        coordinates: str,
        readout: str | Readout = SCAN,
    ) -> Located:
        """Return windows and scores of other histories or vocabularies with the same engine."""
        return description_windows(
            histories, vocabularies, coordinates=coordinates, readout=readout, kernel=self.engine
        )

    def by_history(self, windows: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return {name: windows[rows] for name, rows in self.rows.items()}

    def conditions(self, *coordinates: str) -> dict[str, dict[str, NDArray[np.int64]]]:
        """Return the windows of published scans, by coordinates and history."""
        return {name: self.by_history(self.windows(name)) for name in coordinates}

    def scores(self, windows: NDArray[np.int64]) -> Table:
        """Return (n, 3): the METRICS of every description."""
        return metrics(best_tiou(windows, self.references))

    def means(self, values: NDArray[np.float64]) -> Table:
        """Return means per component (VOST) or history, in the order of their names."""
        return group_means(values, self.levels)[1]

    def paraphrases(self, windows: NDArray[np.int64]) -> dict[str, float]:
        """Return agreement of the windows of one state, averaged like the rest."""
        pairs, overlap, same = paraphrase_pairs(windows, list(zip(*self.levels[:2], strict=True)))
        levels = [[level[row] for row in pairs[:, 0]] for level in self.levels]
        mean = group_means(np.stack([overlap, same], axis=1), levels)[1].mean(axis=0)
        return dict(
            zip(
                ("paraphrase_window_tiou", "paraphrase_exact_agreement"), mean.tolist(), strict=True
            )
        )

    def averages(self, windows: NDArray[np.int64]) -> dict[str, float]:
        """Return the METRICS, averaged over components (VOST) or histories."""
        means = self.means(self.scores(windows)).mean(axis=0)
        return dict(zip(METRICS, means.tolist(), strict=True))

    def compare(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> dict[str, Paired]:
        """Return first − second in the three metrics, which are one family."""
        pairs = compare(self.means(self.scores(first)), self.means(self.scores(second)))
        return dict(zip(METRICS, pairs, strict=True))


class Benchmark:
    """Data that experiments share: release, engine, and a corpus for each group of histories."""

    def __init__(
        self, release: Release | str | os.PathLike[str] | None, engine: str = "auto"
    ) -> None:
        self._release, self.engine = release, engine

    @cached_property
    def release(self) -> Release:
        """Load the release on first use: one experiment needs no data."""
        release = self._release
        return release if isinstance(release, Release) else load_release(release)

    @cached_property
    def vost(self) -> Corpus:
        return Corpus(self.release.vost, self.engine, components=True)

    @cached_property
    def seven(self) -> Corpus:
        return Corpus(self.release.seven, self.engine)

    @cached_property
    def original(self) -> Corpus:
        """Return the four reconstructed histories, which have auxiliary tracks."""
        return self.seven.only("original")

    @cached_property
    def development(self) -> Corpus:
        return Corpus(self.release.development, self.engine)
