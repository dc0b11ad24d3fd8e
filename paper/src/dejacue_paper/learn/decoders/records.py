"""From labelled histories to what decoders are trained on and asked: one record is a description
and an observed run. Windows come back from the spans that a decoder gives for the runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method.coordinates import as_coordinates, check_pair, query_directions, unit_rows
from dejacue.records import History, Vocabulary, Window
from dejacue_paper.evaluation.overlap import paired_tiou

Rows = NDArray[np.float32]
EVENT_KERNEL = 2  # frames on each side of a change
MAX_EVENTS = 40


class DecoderExample(Protocol):
    """A history, its words, and when each state holds: of a release, or generated."""

    @property
    def history(self) -> History: ...

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def references(self) -> Mapping[str, tuple[Window, ...]]: ...


@dataclass(frozen=True, eq=False)
class Records:
    """Records as arrays: n records over R runs and Q texts.

    video     (R, T, d + 2) frames and their place in the run; length (R,)
    words     (Q, W, d + 1) the description, then its siblings; count (Q,)
    run, text, history, wording    (n,) of each record; equal wordings are equal texts
    spans     (n, G, 2) centre and width of the targets; targets (n,) how many there are
    inside    (n, T) frames inside a target
    events    (R, E, 2) spans between the changes of a run; parts (R,)
    """

    video: Rows
    length: NDArray[np.int64]
    words: Rows
    count: NDArray[np.int64]
    run: NDArray[np.int64]
    text: NDArray[np.int64]
    history: NDArray[np.int64]
    wording: NDArray[np.int64]
    spans: Rows
    targets: NDArray[np.int64]
    inside: NDArray[np.bool_]
    events: Rows
    parts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.run)

    @property
    def digest(self) -> bytes:
        """Return a hash of all that is learned from."""
        digest = hashlib.sha256()
        for array in vars(self).values():
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.digest()

    @property
    def dimension(self) -> int:
        return int(self.words.shape[2]) - 1

    @property
    def positive(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.targets > 0)

    @property
    def negative(self) -> NDArray[np.int64]:
        """Return records of runs in which the state does not hold."""
        return np.flatnonzero(self.targets == 0)


def check_words(entries: Sequence[DecoderExample]) -> None:
    """Refuse histories, words and labels that do not belong together, or a history that comes
    twice."""
    for entry in entries:
        name, known = entry.history.id, entry.vocabulary.states
        check_pair(entry.history, entry.vocabulary)
        for state in entry.references:
            if state not in known:
                raise InputError(
                    f'history {name}: a moment is labelled "{state}", but the vocabulary has '
                    f"{', '.join(known)}; use its states"
                )
    names = [entry.history.id for entry in entries]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"history {twice} is given twice; give each history once")


def check_labels(entries: Sequence[DecoderExample]) -> None:
    """Refuse what cannot be trained on: no labels, of one state only, or of states without
    words."""
    if not entries:
        raise InputError("no histories to learn from; give at least one with labelled moments")
    check_words(entries)
    labelled = [[s for s, windows in e.references.items() if windows] for e in entries]
    if not any(labelled):
        raise InputError("no history has labelled moments; label at least two states")
    if all(len(states) < 2 for states in labelled):
        raise InputError(
            "every history has labelled moments of only one state; label at least two states of "
            "one history, so that there is something to tell apart"
        )


def spans_in(
    entry: DecoderExample, state: str, first: int, last: int, clip: bool
) -> list[tuple[int, int]]:
    """Return the references of a state in the run at positions first … last − 1, as half-open
    positions."""
    frames = entry.history.frames
    start, end = int(frames[first]), int(frames[last - 1])
    spans = []
    for window in entry.references.get(state, ()):
        if window.end < start or window.start > end:
            continue
        if (window.start < start or window.end > end) and not clip:
            raise InputError(
                f'history {entry.history.id}: the moment {window.start}–{window.end} of "{state}" '
                f"crosses a gap; its run has frames {start}–{end}; cut it there, or let "
                "moments be cut"
            )
        spans.append((max(window.start, start) - start, min(window.end, end) - start + 1))
    return spans


def records_of(
    entries: Sequence[DecoderExample],
    *,
    clip: bool = False,
    most_frames: int | None = None,
    events: bool = False,
) -> Records:
    """Return a record for every pair of a description and a run.

    clip          cut moments that cross a gap instead of refusing them
    most_frames   longer runs are resampled to so many frames
    events        whether spans between changes are wanted
    """
    runs, texts, rows, wordings = [], [], [], {}  # type: ignore[var-annotated]
    for number, entry in enumerate(entries):
        first_run, first_text = len(runs), len(texts)
        bounds = list(pairwise(entry.history.run_offsets.tolist()))
        unit = unit_rows(entry.history.features).astype(np.float32)
        runs += [_tokens(unit[a:b], most_frames) for a, b in bounds]
        texts += _texts(entry.vocabulary)
        for q, (state, text) in enumerate(
            zip(entry.vocabulary.state_names, entry.vocabulary.descriptions, strict=True)
        ):
            wording = wordings.setdefault(text, len(wordings))
            for r, (a, b) in enumerate(bounds):
                spans = [(s / (b - a), e / (b - a)) for s, e in spans_in(entry, state, a, b, clip)]
                rows.append((first_run + r, first_text + q, number, wording, spans))
    return _stacked(runs, texts, rows, events)


def _tokens(unit: Rows, most: int | None) -> Rows:
    if most is not None and len(unit) > most:
        unit = unit[np.round(np.linspace(0, len(unit) - 1, most)).astype(int)]
    place = np.arange(len(unit), dtype=np.float32)[:, None] / len(unit)
    return np.concatenate([unit, place, place + np.float32(1 / len(unit))], axis=1)


def _texts(vocabulary: Vocabulary) -> list[Rows]:
    """Return, for each description, its direction, then those of its siblings."""
    directions = query_directions(vocabulary, as_coordinates("vocabulary"), 0.0).queries
    role = np.zeros((len(directions), 1), np.float32)
    role[0] = 1
    order = [[q, *(k for k in range(len(directions)) if k != q)] for q in range(len(directions))]
    return [np.concatenate([directions[rows], role], axis=1).astype(np.float32) for rows in order]


def _stacked(runs: list[Rows], texts: list[Rows], rows: list[Any], events: bool) -> Records:
    run, text, history, wording = (np.array([row[k] for row in rows]) for k in range(4))
    targets = np.array([len(row[4]) for row in rows])
    length = np.array([len(run) for run in runs])
    ends = np.zeros((len(rows), max(1, targets.max()), 2))
    for end, row in zip(ends, rows, strict=True):
        end[: len(row[4])] = np.array(row[4]).reshape(-1, 2)
    at = (np.arange(length.max()) + 0.5) / length[run][:, None]
    inside = ((ends[:, :, :1] <= at[:, None]) & (at[:, None] < ends[:, :, 1:])).any(axis=1)
    spans = np.stack([ends.mean(axis=2), ends[..., 1] - ends[..., 0]], axis=2)
    parted = [_events(run) if events else np.array([[0.5, 1.0]]) for run in runs]
    return Records(
        _padded(runs),
        length,
        _padded(texts),
        np.array([len(text) for text in texts]),
        run,
        text,
        history,
        wording,
        spans.astype(np.float32),
        targets,
        inside,
        _padded(parted),
        np.array([len(spans) for spans in parted]),
    )


def _padded(tables: Sequence[NDArray[Any]]) -> Rows:
    out = np.zeros((len(tables), max(map(len, tables)), tables[0].shape[1]), np.float32)
    for block, table in zip(out, tables, strict=True):
        block[: len(table)] = table
    return out


def _events(tokens: Rows) -> NDArray[np.float64]:
    """Return spans between the changes of a run, (E, 2).

    A change is a local maximum, not below the mean, of how much more alike frames are on the same
    side than across: a checkerboard kernel on the diagonal of their similarity.
    """
    n, k = len(tokens), EVENT_KERNEL
    unit = tokens[:, :-2]
    padded = np.zeros((n + 2 * k, n + 2 * k))
    padded[k : k + n, k : k + n] = unit @ unit.T
    side = np.array([*[1] * k, 0, *[-1] * k])
    board = np.outer(side, side)
    score = np.array(
        [(padded[t : t + 2 * k + 1, t : t + 2 * k + 1] * board).sum() for t in range(n)]
    )
    inner = np.arange(1, n - 1)
    peak = (score[inner] > score[inner - 1]) & (score[inner] > score[inner + 1])
    changes = inner[peak & (score[inner] >= score.mean())]
    strongest = changes[np.argsort(-score[changes], kind="stable")[: MAX_EVENTS - 1]]
    bounds = np.array([0, *np.sort(strongest), n]) / n
    return np.stack([(bounds[1:] + bounds[:-1]) / 2, np.diff(bounds)], axis=1)


def windows_of(
    spans: NDArray[np.float64], scores: NDArray[np.float64], bounds: NDArray[np.int64]
) -> tuple[int, int, float]:
    """Return the best window of a description: first and last position, and its score.

    spans   (runs, queries, 2); bounds: where runs begin, and the end of the last
    """
    length = np.diff(bounds)[:, None]
    half = spans[..., 1] / 2
    first = np.round(np.round(spans[..., 0] - half, 4) * length).astype(int)
    last = np.round(np.round(spans[..., 0] + half, 4) * length).astype(int)
    first = np.clip(first, 0, length - 1)
    last = np.clip(last, first + 1, length)
    first, last = first + bounds[:-1, None], last + bounds[:-1, None] - 1
    best = np.lexsort((last.ravel(), first.ravel(), -scores.ravel()))[0]
    return int(first.ravel()[best]), int(last.ravel()[best]), float(scores.ravel()[best])


def same(entries: Sequence[Any], windows: Sequence[NDArray[np.int64]]) -> float:
    """Return the mean overlap of the windows of different states of one history, over all such
    pairs of descriptions: near 1, the words do not matter. NaN where there is one state only."""
    alike = []
    for entry, selected in zip(entries, windows, strict=True):
        names = entry.vocabulary.state_names
        pairs = [(a, b) for a, b in combinations(range(len(selected)), 2) if names[a] != names[b]]
        if pairs:
            first, second = np.array(pairs).T
            alike.append(paired_tiou(selected[first], selected[second]))
    return float(np.concatenate(alike).mean()) if alike else float("nan")
