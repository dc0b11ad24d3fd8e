"""Correct and damaged arguments for raw calls of the compiled kernel."""

from __future__ import annotations

import numpy as np

from dejacue.method.kernel import compiled, engine

BUILDS = compiled()


def arguments(operation: str) -> dict[str, object]:
    """Return the arguments of a correct call of the raw extension, in its order."""
    n, d, q = 6, 4, 2
    rng = np.random.default_rng(1)
    cosines, responses = rng.normal(size=(q, n)).astype(np.float32), rng.normal(size=(q, n))
    features = {"features": rng.normal(size=(n, d)).astype(np.float32)}
    rows = {**features, "queries": np.ones((q, d), np.float32), "centre": np.ones(d, np.float32)}
    rows["cosines"] = cosines
    numbers, runs = {"numbers": np.array([0, 1, 3, 4, 5, 6])}, {"runs": np.array([0, 2, n])}
    smoothing = {"smoothing": 3}
    schedule = {"lengths": np.array([1, 2]), "norms": np.array([1.0, 1.5])}
    weights = {"weights": np.array([1.0, 0.5]), "least_scale": 1e-4}
    out = {"responses": responses, "centre_out": np.empty(q), "scale": np.empty(q)}
    windows = {"start": np.empty(q, np.int64), "end": np.empty(q, np.int64), "score": np.empty(q)}
    fields: dict[str, dict[str, object]] = {
        "cosines": rows,
        "centre": {**features, "out": np.empty(d, np.float32)},
        "respond": {"cosines": cosines, **runs, **smoothing, **out},
        "scan": {"responses": responses, **runs, **schedule, **windows},
        "locate": {**rows, **runs, **smoothing, **schedule, **windows},
        "smooth": {"cosines": cosines, **numbers, **runs, **weights, **out},
        "contrast": {**rows, **numbers, **runs, **weights, **out, **windows},
        "search": {"responses": responses, **runs, **windows},
        "search_parts": {
            "responses": responses,
            "rows": np.array([0, 1]),
            "firsts": np.array([0, 3]),
            "stops": np.array([2, n]),
            **windows,
        },
        "label": {
            "responses": responses,
            "node_states": np.array([0, 1]),
            "node_first": np.ones(2, np.uint8),
            "node_follows": np.ones((2, 2), np.uint8),
            "cost": 1.0,
            "stay": 1,
            "rounds": 4,
            "paths": np.empty(n, np.int64),
            "levels": np.empty(q),
        },
    }
    return {"name": BUILDS[-1], **fields[operation]}


OPERATIONS = (
    *("cosines", "centre", "respond", "scan", "locate"),
    *("smooth", "contrast", "search", "search_parts", "label"),
)


def raw(operation: str, fields: dict[str, object]) -> tuple[int, ...] | None:
    """Call the extension without the checks of the Python that usually calls it."""
    name, *arguments = fields.values()
    if operation in ("locate", "contrast"):  # which take a list of histories
        arguments = [[tuple(arguments)]]
    result: tuple[int, ...] | None = getattr(engine(BUILDS[0])._module, operation)(name, *arguments)
    return result


EXTREMES = (0, 1, -1, 2, 3, 7, 2**31 - 1, 2**31, 2**53, 2**62, -(2**62), 2**63 - 1, -(2**63))


def mutated(value, rng: np.random.Generator):
    """Return an argument of the raw call with something wrong with it, or not."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, np.ndarray):
        return type(value)(rng.choice(EXTREMES)) if rng.random() < 0.8 else float("nan")
    out = value.copy()
    kind = int(rng.integers(7))
    if kind == 0 and out.size:
        special = EXTREMES if out.dtype.kind in "iu" else (np.nan, np.inf, -np.inf, 0.0, 1e308)
        with np.errstate(all="ignore"):
            out.flat[rng.integers(out.size)] = np.array(rng.choice(special)).astype(out.dtype)
    elif kind == 1:
        out = np.resize(out, max(0, out.size + int(rng.integers(-3, 4))))
    elif kind == 2:
        with np.errstate(all="ignore"):
            out = out.astype(rng.choice([np.float16, np.float32, np.float64, np.int64, np.uint8]))
    elif kind == 3:
        out = out.reshape((1, *out.shape)) if rng.random() < 0.5 else out.ravel()
    elif kind == 4:
        out = out[::-1]
    elif kind == 5:
        return None
    elif out.size:
        rng.shuffle(out)
    return out
