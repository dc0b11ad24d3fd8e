"""Readouts by name, and windows that look at no frame."""

from __future__ import annotations

import numpy as np
from helpers.errors import refused

from dejacue import History, Vocabulary, locate


def make(seed: int, states: int = 2, frames: int = 40, missing: float = 0.15):
    rng = np.random.default_rng(seed)
    kept = np.flatnonzero(rng.random(frames) > missing)
    features = rng.normal(size=(len(kept), 10)).astype(np.float32)
    texts = {f"s{k}": [f"s{k} a", f"s{k} b"] for k in range(states)}
    return History(features, kept), Vocabulary(texts, rng.normal(size=(2 * states, 10)))


def test_an_unknown_readout_suggests_the_nearest() -> None:
    history, v = make(5)
    with refused(field="readout", value="contrst"):
        locate(history, v, readout="contrst")


def test_windows_that_look_at_no_frame() -> None:
    frames = [3, 4, 8, 9, 10, 11, 20]
    history = History(np.random.default_rng(0).normal(size=(7, 8)), frames)
    v = Vocabulary({"a": ["x"], "b": ["y"]}, np.random.default_rng(1).normal(size=(2, 8)))
    for name, window in (("whole-history", (3, 20)), ("longest-run", (8, 11))):
        timeline = locate(history, v, readout=name, diagnostics=True)
        assert [tuple(m.window) for m in timeline] == [window] * 2
        assert [m.score for m in timeline] == [0, 0]
