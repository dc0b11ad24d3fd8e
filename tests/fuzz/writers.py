"""What writes: records that are extreme but legal become files, and finding folders come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import mutate
import numpy as np
from readers import Target

from dejacue import Finding, History, InputError, Vocabulary, find
from dejacue.files import read_timelines
from dejacue.method import Window
from dejacue.report.exports import EXPORTS

READOUTS = (
    "contrast",
    "contrast",
    "joint",
    "published",
    "scan",
    "peak",
    "boxcar",
    "max-frame",
    "mean-window",
    "non-overlap",
    "whole-history",
    "longest-run",
    "ordered",
    "equal-parts",
)
COORDINATES = (None, None, "absolute", "trajectory", "vocabulary", "dual", "query-uniform")


def text(rng: Random) -> str:
    return rng.choice(("cup", "cup", mutate.word(rng)[:300]))


def numbers(rng: Random, count: int) -> np.ndarray:
    """Return strictly increasing whole numbers, often far apart."""
    step = rng.choice((1, 1, 1, 3, 1000, 2**40))
    first = rng.choice((0, 0, 0, 5, -4, 2**53 - count * (step + 1)))
    jumps = [rng.choice((0, 0, 0, step)) for _ in range(count)]
    return first + np.arange(count) + np.cumsum(jumps)


def history(rng: Random) -> History:
    count, dimension = rng.choice((1, 2, 8, 20, 40)), rng.choice((1, 2, 5))
    draw = np.random.default_rng(rng.getrandbits(64))
    features = draw.normal(size=(count, dimension))
    kind = rng.randrange(5)
    if kind == 0:
        features[:] = features[0]
    elif kind == 1:
        features *= rng.choice((1e-14, 1e13))
    elif kind == 2:
        features = np.sign(features)
    fields: dict[str, Any] = {}
    if rng.random() < 0.6:
        scale = rng.choice((0.04, 0.04, 1e-9, 1e9))
        fields["times_s"] = np.arange(count) * scale + rng.choice((0, 0, -5, 1e15))
    if rng.random() < 0.4:
        fields["source_frames"] = numbers(rng, count)
    if rng.random() < 0.3:
        fields["presence"] = np.full(count, rng.choice((0.0, 0.5, 1.0)))
    with np.errstate(over="ignore"):
        stored = features.astype(rng.choice((np.float16, np.float32, np.float64)))
    return History(stored, numbers(rng, count), id=text(rng), **fields)


def vocabulary(rng: Random, dimension: int) -> Vocabulary:
    names = dict.fromkeys(["a", *(text(rng) for _ in range(rng.randint(1, 4)))])
    states = {
        name: [f"{text(rng)} {at} {k}" for k in range(rng.randint(1, 3))]
        for at, name in enumerate(names)
    }
    rows = sum(map(len, states.values()))
    draw = np.random.default_rng(rng.getrandbits(64))
    words = Vocabulary(
        states, draw.normal(size=(rows, dimension)), object=rng.choice((None, text(rng)))
    )
    if rng.random() < 0.7:
        return words
    frames = [rng.choice((0, 1, 2, 5, -3, 1 << 53)) for _ in range(rng.randint(1, 4))]
    return words.with_examples({rng.choice((None, *names)): frame for frame in frames})


def any_finding(rng: Random) -> Finding:
    record = history(rng)
    return find(
        record,
        vocabulary(rng, record.dimension),
        readout=rng.choice(READOUTS),
        coordinates=rng.choice(COORDINATES),
        top=rng.choice((None, 1, 3, 10**9)),
        diagnostics=rng.random() < 0.3,
    )


def write(rng: Random, valid: Path, folder: Path) -> None:
    finding = any_finding(rng)
    kind = rng.choice(("write", "report", "html", *EXPORTS))
    if kind == "write":
        finding.write(folder / "out")
        again = _readable(Finding.read, folder / "out")
        assert again.timeline == finding.timeline or repr(again) == repr(finding)
    elif kind == "report":
        windows = [Window(first, first + rng.choice((0, 9, 2**50))) for first in (0, 3, 2**40)]
        truth = {state: windows for state in finding.vocabulary.states if rng.random() < 0.3}
        finding.report(folder / "out.html", references=truth)
        assert (folder / "out.html").stat().st_size < 1 << 24
    elif kind == "html":
        assert "<" in finding._repr_html_() + finding.history._repr_html_()
        assert repr(finding)
    else:
        path = finding.export(kind, folder / f"out{EXPORTS[kind].suffix}")
        named = bool(finding.history.id.strip()) and _first(finding.history) >= 0
        if kind in ("json", "csv") and named:  # others have no place in a document of ours
            _readable(read_timelines, path)


def _first(history: History) -> int:
    return int(
        min(history.frames[0], 0 if history.source_frames is None else history.source_frames[0])
    )


def _readable(read: Callable[[Path], Any], path: Path) -> Any:
    try:
        return read(path)
    except InputError as error:
        raise AssertionError(f"what was written cannot be read: {error}") from error


def draw(rng: Random, valid: Path, folder: Path) -> None:
    any_finding(rng).plot(folder / "out.png")


TARGETS = [
    Target("writer", 60, lambda folder: None, write),
    Target("plot", 2, lambda folder: None, draw),
]
