"""Correct and damaged arguments for raw calls of the compiled kernel."""

from __future__ import annotations

import numpy as np

from dejacue.method.kernel import compiled, engine

BUILDS = compiled()

SCALARS = ("dimension", "smoothing", "total", "stay", "rounds", "least_scale")
LISTS = (
    "features",
    "cosines",
    "responses",
    "runs",
    "numbers",
    "queries",
    "lengths",
    "norms",
    "weights",
    "node_states",
    "node_first",
    "node_follows",
    "paths",
    "levels",
)
ARRAYS = (
    "centres",
    "costs",
    "start",
    "end",
    "first",
    "last",
    "score",
    "centre",
    "scale",
    "out",
)
COSINES, CENTRES, RESPOND, LOCATE, SMOOTH, CONTRAST, LABEL = range(7)


def arguments(operation: int) -> dict[str, object]:
    """Return the fields of a correct call of the raw extension."""
    n, d, q = 6, 4, 2
    rng = np.random.default_rng(1)
    cosines, responses = rng.normal(size=(q, n)).astype(np.float32), rng.normal(size=(q, n))
    fields: dict[str, object] = dict.fromkeys((*SCALARS, *LISTS, *ARRAYS)) | {
        "name": BUILDS[-1],
        "operation": operation,
        "histories": 1,
        "dimension": d,
        "smoothing": 3,
        "total": 0,
        "stay": 1,
        "rounds": 4,
        "least_scale": 1e-4,
        "features": [rng.normal(size=(n, d)).astype(np.float32)],
        "runs": [np.array([0, 2, n])],
        "numbers": [np.array([0, 1, 3, 4, 5, 6])],
        "queries": [np.ones((q, d), np.float32)],
        "start": np.empty(q, np.int64),
        "end": np.empty(q, np.int64),
        "first": np.empty(q, np.int64),
        "last": np.empty(q, np.int64),
        "score": np.empty(q),
        "centre": np.empty(q),
        "scale": np.empty(q),
    }
    if operation == LOCATE:
        fields |= {"lengths": [np.array([1, 2])], "norms": [np.array([1.0, 1.5])]}
    elif operation >= SMOOTH:
        fields |= {"weights": [np.array([1.0, 0.5])]}
    if operation == LABEL:
        fields |= {
            "node_states": [np.array([0, 1])],
            "node_first": [np.ones(2, np.uint8)],
            "node_follows": [np.ones((2, 2), np.uint8)],
            "costs": np.ones(1),
            "paths": [np.empty(n, np.int64)],
            "levels": [np.empty(q)],
        }
    if operation == COSINES:
        fields["cosines"] = [cosines]
    elif operation == CENTRES:
        fields |= {"queries": None, "out": np.empty((1, d), np.float32)}
    elif operation in (RESPOND, SMOOTH):
        fields |= {"features": None, "queries": None, "cosines": [cosines]}
        fields["responses"] = [responses]
    return fields


def raw(fields: dict[str, object]) -> tuple[int, int, int]:
    """Call the extension without the checks of the Python that usually calls it."""
    result: tuple[int, int, int] = engine(BUILDS[0])._module.run(
        fields["name"],
        fields["operation"],
        fields["histories"],
        *(tuple(fields[name] for name in names) for names in (SCALARS, LISTS, ARRAYS)),
    )
    return result


EXTREMES = (0, 1, -1, 2, 3, 7, 2**31 - 1, 2**31, 2**53, 2**62, -(2**62), 2**63 - 1, -(2**63))


def mutated(value, rng: np.random.Generator):
    """Return an argument of the raw call with something wrong with it, or not."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        kind = rng.integers(4)
        if kind == 0:
            return value * int(rng.integers(0, 3))
        return [mutated(item, rng) for item in value]
    if not isinstance(value, np.ndarray):
        return type(value)(rng.choice(EXTREMES)) if rng.random() < 0.8 else float("nan")
    out = value.copy()
    kind = int(rng.integers(6))
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
    elif out.size:
        rng.shuffle(out)
    return out
