"""This library computes the VOST tables as one would in an afternoon, for tables.py to compare.

It uses numpy, goes history by history, and draws anew for every interval and every test. It gives
the same numbers.
"""

from __future__ import annotations

import numpy as np

from dejacue.method.scan_readout import PUBLISHED


def unit(rows: np.ndarray) -> np.ndarray:
    rows = rows.astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def directions(vocabulary, origin: bool) -> np.ndarray:
    z = unit(vocabulary.features).astype(np.float64)
    if origin:
        labels = vocabulary.labels
        z = z - np.mean([z[labels == s].mean(axis=0) for s in range(labels.max() + 1)], axis=0)
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def frames_of(history, centred: bool) -> np.ndarray:
    x = unit(history.features).astype(np.float64)
    if centred:
        x = x - np.median(x, axis=0)
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


def runs_of(frames: np.ndarray) -> list[tuple[int, int]]:
    cuts = np.flatnonzero(np.diff(frames) != 1) + 1
    return list(zip([0, *cuts], [*cuts, len(frames)], strict=True))


def smoothed(values: np.ndarray, runs, root: bool) -> np.ndarray:
    out = np.empty_like(values)
    for first, last in runs:
        for t in range(first, last):
            a, b = max(first, t - 1), min(last, t + 2)
            out[:, t] = values[:, a:b].sum(axis=1) / (np.sqrt(b - a) if root else b - a)
    return out


def calibrated(cosines: np.ndarray, runs) -> np.ndarray:
    centre = np.median(cosines, axis=1, keepdims=True)
    scale = np.maximum(1.4826 * np.median(np.abs(cosines - centre), axis=1, keepdims=True), 1e-3)
    return smoothed((cosines - centre) / scale, runs, True)


def candidates(runs) -> np.ndarray:
    candidates = []
    for length in PUBLISHED:
        for first, last in runs:
            for start in range(first, last - length + 1):
                candidates.append((start, start + length - 1))
    return np.array(candidates)


def scores_of(method: str, x, u, runs, windows) -> np.ndarray:
    """Return scores (Q, C) of one readout."""
    cosines = u @ x.T
    starts, ends = windows[:, 0], windows[:, 1]
    lengths = ends - starts + 1
    if method == "mean-window":
        prefix = np.vstack([np.zeros(x.shape[1]), np.cumsum(x, axis=0)])
        sums = prefix[ends + 1] - prefix[starts]
        return (u @ sums.T) / np.linalg.norm(sums, axis=1)
    if method == "max-frame":
        return np.stack([cosines[:, a : b + 1].max(axis=1) for a, b in windows], axis=1)
    boxcar = method == "boxcar"
    values = smoothed(cosines, runs, False) if boxcar else calibrated(cosines, runs)
    prefix = np.concatenate([np.zeros((len(u), 1)), np.cumsum(values, axis=1)], axis=1)
    sums = prefix[:, ends + 1] - prefix[:, starts]
    return sums / {"scan": np.sqrt(lengths), "sum": 1.0, "boxcar": lengths}[method]


def chosen(scores: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """Return the best by the tie rule: earliest start, then earliest end, of all within 1e-9 of the
    best."""
    found = []
    for row in scores:
        top = row.max()
        close = np.flatnonzero(row >= top - 1e-9 * max(1.0, abs(top)))
        found.append(min(tuple(w) for w in windows[close].tolist()))
    return np.array(found)


def peak(x, u, runs) -> np.ndarray:
    windows = []
    for row in calibrated(u @ x.T, runs):
        at = int(row.argmax())
        first, last = next(run for run in runs if run[0] <= at < run[1])
        a = b = at
        if row[at] > 0:
            while a > first and row[a - 1] >= 0.3 * row[at]:
                a -= 1
            while b < last - 1 and row[b + 1] >= 0.3 * row[at]:
                b += 1
        windows.append((a, b))
    return np.array(windows)


def overlap(window, references) -> float:
    best = 0.0
    for a, b in references:
        common = max(0, min(window[1], b) - max(window[0], a) + 1)
        best = max(best, common / (window[1] - window[0] + b - a + 2 - common))
    return best


def table(entries, method: str, coordinates: str, prompts: str = "ensemble") -> np.ndarray:
    """Return (components, 3) means of a method."""
    rows = {}
    for entry in entries:
        history, vocabulary = entry.history, entry.prompted(prompts)
        runs = runs_of(history.frames)
        x = frames_of(history, coordinates in ("trajectory", "dual"))
        u = directions(vocabulary, coordinates in ("vocabulary", "dual"))
        if method == "peak":
            windows = peak(x, u, runs)
        else:
            every = candidates(runs)
            windows = chosen(scores_of(method, x, u, runs, every), every)
        states = {}
        for window, state in zip(history.frames[windows], vocabulary.state_names, strict=True):
            value = overlap(window, [tuple(w) for w in entry.references[state]])
            states.setdefault(state, []).append((value >= 0.3, value >= 0.5, value))
        mean = np.mean([np.mean(s, axis=0) for s in states.values()], axis=0)
        rows.setdefault(entry.component, []).append(mean)
    return np.array([np.mean(rows[name], axis=0) for name in sorted(rows)])


def interval(values: np.ndarray) -> np.ndarray:
    n = len(values)
    index = np.random.default_rng(3407).integers(0, n, size=(10_000, n))
    return np.quantile(values[index].mean(axis=1), [0.025, 0.975])


def sign_flip(values: np.ndarray) -> float:
    rng, hits = np.random.default_rng(3407), 0
    for _ in range(10):
        signs = rng.choice([-1.0, 1.0], size=(10_000, len(values)))
        hits += (np.abs((signs * values).mean(axis=1)) >= abs(values.mean()) - 1e-15).sum()
    return (hits + 1) / 100_001


def ranking(entries, coordinates: str) -> float:
    """Return MRR .5, the mean of everything; the other measures follow from the same order."""
    ranked = []
    for entry in entries:
        history, vocabulary = entry.history, entry.vocabulary
        runs = runs_of(history.frames)
        windows = candidates(runs)
        x = frames_of(history, coordinates == "dual")
        u = directions(vocabulary, coordinates != "absolute")
        scores = scores_of("scan", x, u, runs, windows)
        for row, state in zip(scores, vocabulary.state_names, strict=True):
            references = [tuple(w) for w in entry.references[state]]
            order = np.argsort(-row, kind="stable")
            values = [overlap(history.frames[windows[at]], references) for at in order]
            good = np.flatnonzero(np.array(values) >= 0.5)
            ranked.append(1 / (good[0] + 1) if len(good) else 0.0)
    return float(np.mean(ranked))


MAIN = [
    ("scan", "absolute"),
    ("scan", "trajectory"),
    ("scan", "vocabulary"),
    ("scan", "dual"),
    ("mean-window", "absolute"),
    ("boxcar", "absolute"),
    ("max-frame", "absolute"),
]


def main_table(entries) -> dict:
    means = {name: table(entries, *name) for name in MAIN}
    return {
        name: (values.mean(axis=0), [interval(column) for column in values.T])
        for name, values in means.items()
    }


def extended_tables(entries) -> dict:
    """Compute paired tests of the main table, peak, prompts, sum, and ranking."""
    means = {name: table(entries, *name) for name in MAIN}
    dual, vocabulary = means["scan", "dual"], means["scan", "vocabulary"]
    pairs = [(dual, means[name]) for name in MAIN if name != ("scan", "dual")]
    pairs += [
        (vocabulary, means["scan", "absolute"]),
        (means["scan", "trajectory"], means["scan", "absolute"]),
    ]
    for prompt in ("raw", "photo", "definite"):
        pairs.append(tuple(table(entries, "scan", c, prompt) for c in ("vocabulary", "absolute")))
    for method in ("peak", "sum"):
        pairs.append(tuple(table(entries, method, c) for c in ("vocabulary", "absolute")))
    tests = [
        (interval(a - b), sign_flip(a - b))
        for first, second in pairs
        for a, b in zip(first.T, second.T, strict=True)
    ]
    orders = [ranking(entries, c) for c in ("absolute", "vocabulary", "dual")]
    return {"tests": tests, "ranking": orders}
