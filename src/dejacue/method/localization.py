"""locate(), analyse() and locate_many(): from histories and vocabularies to timelines.

A Plan is a readout with its options, checked once. It makes a View of each history and vocabulary,
in which the readout finds windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import pairwise, repeat
from typing import Any, TypedDict, Unpack

import msgspec
import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, unknown
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import Coordinates, as_coordinates, check_pair
from dejacue.method.kernel import Engine
from dejacue.method.kernel import engine as engine_named
from dejacue.method.readout import Readout, View, analysis_of, timeline_of
from dejacue.method.scan_readout import Scan
from dejacue.method.timeline import Reading
from dejacue.plugins import Registry, check_installed
from dejacue.records import Evidence, History, Timeline, Timelines, Vocabulary
from dejacue.records.arrays import Floats, Ints
from dejacue.records.timeline import plain

Pair = tuple[History, Vocabulary]

READOUTS: Registry[Readout] = Registry(
    "readouts", {"timeline": Reading(), "contrast": Contrast(), "scan": Scan()}
)
# The paper's method: settings that belong together under one name, which no option changes.
PUBLISHED_SCAN = Scan(durations="published", norm="sqrt", runs="strict", smoothing=3)
PRESETS: dict[str, tuple[str, Readout]] = {"published": ("vocabulary", PUBLISHED_SCAN)}
DEFAULT_READOUT, DEFAULT_COORDINATES = "timeline", "vocabulary"
CHUNK_BYTES = 256 << 20  # of features that are read together, unless one history is larger
CHUNK_HISTORIES = 4096


def _selected(
    coordinates: str | Coordinates | None, readout: str | Readout
) -> tuple[Coordinates, Readout]:
    """Return coordinates and readout by name, or of a preset."""
    if isinstance(readout, str) and readout in PRESETS:
        system, preset = PRESETS[readout]
        name = as_coordinates(system if coordinates is None else coordinates).name
        if name != system:
            raise InputError(
                f'"{readout}" is a preset with {system} coordinates; '
                f"to use {name} coordinates, name the readout itself: {preset.name}"
            )
        return as_coordinates(system), preset
    if isinstance(readout, str) and readout not in READOUTS:
        check_installed("readouts", readout)
        raise unknown("readout", readout, [*READOUTS, *PRESETS])
    chosen = as_coordinates(DEFAULT_COORDINATES if coordinates is None else coordinates)
    return chosen, READOUTS[readout] if isinstance(readout, str) else readout


def as_readout(readout: str | Readout) -> Readout:
    """Return a readout by name, or that of a preset."""
    return _selected(None, readout)[1]


def readout_from(settings: object) -> Readout | None:
    """Return the readout that the settings of a timeline describe; None: it is not installed."""
    name = settings.get("name") if isinstance(settings, Mapping) else None
    default = READOUTS.get(name) if isinstance(name, str) else None
    if default is None:
        return None
    try:
        return msgspec.convert(plain(settings), type(default))
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InputError):  # of the readout itself
            raise error.__cause__ from None
        problem = f"the timeline has settings that the readout {name} does not take ({error})"
        raise InputError(f"{problem}; read the history again") from None


def _with_smoothing(readout: Readout, smoothing: int, name: str) -> Readout:
    """Return the readout with this width of smoothing; refuse one that has no such setting."""
    if name in PRESETS:
        raise InputError(f'"{name}" is a preset; for other smoothing, give Scan(smoothing=…)')
    if "smoothing" not in {field.name for field in fields(readout)}:
        problem = f"smoothing does not apply to the {name} readout"
        if readout.smoothing_in:
            problem += f"; it has its own: {type(readout).__name__}({readout.smoothing_in})"
        raise InputError(problem)
    return replace(readout, smoothing=smoothing)  # type: ignore[call-arg]


class ReadOptions(TypedDict, total=False):
    """The options of every reading; ``locate`` explains them."""

    coordinates: str | Coordinates | None
    readout: str | Readout
    smoothing: int | None
    diagnostics: bool
    kernel: str


@dataclass(frozen=True, eq=False)
class Plan:
    """Checked settings, shared by every history of a call."""

    coordinates: Coordinates
    readout: Readout
    diagnostics: bool
    engine: Engine

    @staticmethod
    @lru_cache(maxsize=64)
    def of(
        coordinates: str | Coordinates | None = None,
        readout: str | Readout = DEFAULT_READOUT,
        smoothing: int | None = None,
        diagnostics: bool = False,
        kernel: str = "auto",
    ) -> Plan:
        """Return the plan of these settings; plans are immutable, so equal settings share one."""
        name = readout if isinstance(readout, str) else readout.name
        system, readout = _selected(coordinates, readout)
        if smoothing is not None:
            readout = _with_smoothing(readout, smoothing, name)
        return Plan(system, readout, diagnostics, engine_named(kernel))

    def check_examples(self, vocabulary: Vocabulary) -> None:
        """Refuse examples that the readout would ignore."""
        if not vocabulary.examples and not vocabulary.changes:
            return
        if not self.readout.takes_examples or self.readout.query_pooling != 1:
            what = "this pooling" if self.readout.takes_examples else self.readout.name
            raise InputError(
                f"{what} reads only words; "
                "examples need the readout timeline or contrast, with pooling 1"
            )
        name = self.coordinates.name
        if name != DEFAULT_COORDINATES:
            raise InputError(f"examples need {DEFAULT_COORDINATES} coordinates, not {name}")

    def view(self, history: History, vocabulary: Vocabulary) -> View:
        """Return what the readout works on for one history."""
        self.check_examples(vocabulary)
        return self.readout.view(history, vocabulary, self.coordinates, self.engine)

    def answer(self, pairs: Sequence[Pair]) -> Timeline:
        """Return the timelines of several histories."""
        views = (self.view(*pair) for pair in pairs)
        if not self.diagnostics:
            return timeline_of(views)
        return Timeline.joined([self.analyse(view) for view in views])

    def analyse(self, view: View, hints: bool = False) -> Timeline:
        """Return everything that the readout says of one history."""
        return analysis_of(view, diagnostics=self.diagnostics, hints=hints)


def locate(
    history: History | NDArray[Any],
    vocabulary: Vocabulary | NDArray[Any],
    states: Sequence[str] | None = None,
    *,
    coordinates: str | Coordinates | None = None,
    readout: str | Readout = DEFAULT_READOUT,
    smoothing: int | None = None,
    diagnostics: bool = False,
    kernel: str = "auto",
) -> Timeline:
    """Return when each state of the vocabulary holds.

    >>> from dejacue import History, Vocabulary, locate
    >>> cup = History([[1.0, 0.1]] * 6 + [[0.1, 1.0]] * 6)
    >>> words = Vocabulary({"empty": "an empty cup", "full": "a full cup"}, np.eye(2))
    >>> locate(cup, words)
    <Timeline unnamed: 2 intervals>
      empty   0 – 5
      full   6 – 11
    >>> locate(cup.features, np.eye(2), ["empty", "full"])["full"][0].start  # arrays alone
    6

    states        the names of the rows of features that stand in place of a vocabulary
    coordinates   vocabulary (default), absolute, trajectory, dual, query-uniform, …
    readout       a name or a readout object: "timeline" (every occurrence of every state),
                  "contrast" (one window a state), "published" (the paper's method as it is),
                  "scan", Scan(norm="sum"), …
    smoothing     odd width in frames, for the readouts of the paper that smooth (default 3);
                  timeline and contrast have their own: Reading(smoothing_s=0.8)
    diagnostics   attach residual norms, calibration, the run used, … to every interval
    kernel        auto (compiled if it is there), avx2, baseline, numpy: the same answer
    """
    plan = Plan.of(coordinates, readout, smoothing, diagnostics, kernel)
    if not isinstance(vocabulary, Vocabulary):
        if states is None:
            remedy = "locate(features, text_features, states)"
            raise InputError(f"text features alone do not name the states; give {remedy}")
        vocabulary = Vocabulary({state: state for state in states}, np.asarray(vocabulary))
    elif states is not None:
        raise InputError("a vocabulary names its states; leave states out")
    if not isinstance(history, History):
        history = History(np.asarray(history))
    check_pair(history, vocabulary)
    return plan.answer([(history, vocabulary)])


def analyse(history: History, vocabulary: Vocabulary, **options: Unpack[ReadOptions]) -> Timeline:
    """Return all that a readout says of a history: intervals, evidence, labels, hints.

    options   those of ``locate``
    """
    plan = Plan.of(**options)
    check_pair(history, vocabulary)
    return plan.analyse(plan.view(history, vocabulary), hints=True)


def evidence(history: History, vocabulary: Vocabulary, **options: Unpack[ReadOptions]) -> Evidence:
    """Return what a readout sees: cosines, their calibration, and the smoothed responses.

    >>> cup = History([[1.0, 0.1]] * 6 + [[0.1, 1.0]] * 6)
    >>> words = Vocabulary({"empty": "an empty cup", "full": "a full cup"}, np.eye(2))
    >>> evidence(cup, words, readout="published").responses[0].round(1)
    array([ 1. ,  1.2,  1.2,  1.2,  1.2,  0.4, -0.4, -1.2, -1.2, -1.2, -1.2,
           -1. ])

    options   those of ``locate``
    """
    plan = Plan.of(**options)
    check_pair(history, vocabulary)
    return plan.view(history, vocabulary).evidence


def candidates(
    history: History, vocabulary: Vocabulary, **options: Unpack[ReadOptions]
) -> tuple[Ints, Floats]:
    """Return every window of a scan, (C, 2) frames length by length, and its scores (Q, C).

    >>> cup = History([[1.0, 0.1]] * 6 + [[0.1, 1.0]] * 6)
    >>> words = Vocabulary({"empty": "an empty cup", "full": "a full cup"}, np.eye(2))
    >>> windows, scores = candidates(cup, words, readout=Scan(durations=(6,)))
    >>> windows[scores.argmax(axis=1)]
    array([[ 0,  5],
           [ 6, 11]])

    options   those of ``locate``; the readout is a scan
    """
    options.setdefault("readout", "scan")
    plan = Plan.of(**options)
    check_pair(history, vocabulary)
    if not isinstance(plan.readout, Scan):
        raise InputError(f"only a scan has candidates, not {plan.readout.name}")
    starts, ends, scores = plan.readout.candidates(plan.view(history, vocabulary))
    return np.stack([history.frames[starts], history.frames[ends]], axis=1), scores


def locate_many(
    histories: Iterable[History],
    vocabularies: Vocabulary | Iterable[Vocabulary],
    *,
    coordinates: str | Coordinates | None = None,
    readout: str | Readout = DEFAULT_READOUT,
    smoothing: int | None = None,
    diagnostics: bool = False,
    kernel: str = "auto",
    threads: int = 1,
) -> Timelines:
    """Apply ``locate`` to many histories, lazily and in order: the same answers, much faster.

    >>> cup = History([[1.0, 0.1]] * 6 + [[0.1, 1.0]] * 6)
    >>> words = Vocabulary({"empty": "an empty cup", "full": "a full cup"}, np.eye(2))
    >>> [timeline["full"][0].start for timeline in locate_many([cup, cup], words)]
    [6, 6]

    histories      any iterable, also a generator: read a chunk at a time
    vocabularies   one for all, or one per history
    threads        chunks are cut into this many kernel calls that run side by side

    Iterate over it for one Timeline after the other, or take ``columns()``, ``to_dataframe()`` or
    ``to_arrow()``.
    """
    plan = Plan.of(coordinates, readout, smoothing, diagnostics, kernel)
    if threads < 1:
        raise InputError(f"threads {threads} must be at least 1")
    return Timelines(_run(plan, chunks(histories, vocabularies), threads))


def _run(plan: Plan, chunks: Iterator[list[Pair]], threads: int) -> Iterator[Timeline]:
    if threads == 1:
        yield from map(plan.answer, chunks)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        for chunk in chunks:
            yield from pool.map(plan.answer, _split(chunk, threads))


def _pairs(
    histories: Iterable[History], vocabularies: Vocabulary | Iterable[Vocabulary]
) -> Iterator[Pair]:
    shared = isinstance(vocabularies, Vocabulary)
    remaining = iter(repeat(vocabularies) if isinstance(vocabularies, Vocabulary) else vocabularies)
    for count, history in enumerate(histories):
        vocabulary = next(remaining, None)
        if vocabulary is None:
            raise InputError(f"there are more histories than vocabularies ({count})")
        check_pair(history, vocabulary)
        yield history, vocabulary
    if not shared and next(remaining, None) is not None:
        raise InputError("there are more vocabularies than histories")


def chunks(
    histories: Iterable[History], vocabularies: Vocabulary | Iterable[Vocabulary]
) -> Iterator[list[Pair]]:
    """Yield consecutive pairs that are answered together, up to CHUNK_BYTES of features."""
    chunk: list[Pair] = []
    total = 0
    for pair in _pairs(histories, vocabularies):
        size = pair[0].features.nbytes
        full = total + size > CHUNK_BYTES or len(chunk) == CHUNK_HISTORIES
        if chunk and (full or pair[0].dimension != chunk[0][0].dimension):
            yield chunk
            chunk, total = [], 0
        chunk.append(pair)
        total += size
    if chunk:
        yield chunk


def _split(chunk: list[Pair], parts: int) -> list[list[Pair]]:
    """Return consecutive parts of about equal numbers of frames."""
    ends = np.cumsum([len(history) for history, _ in chunk])
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, parts) / parts) + 1
    bounds = [0, *cuts.tolist(), len(chunk)]
    return [chunk[a:b] for a, b in pairwise(bounds) if a < b]
