"""Timelines as JSON, CSV, Parquet, Arrow and in the formats of other tools, ready to be written.

Every occurrence of every state is in all of them. Only JSON can say that a state was not found; the
others leave it out. All but SubRip and labels, which have no place for text, carry the notes.

Frames are inclusive, seconds run from the start of the first frame to the end of the last one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from dejacue.errors import InputError, StrPath
from dejacue.files.formats.clock import average_rate, frame_ends_s
from dejacue.files.formats.fiftyone import temporal_detections
from dejacue.files.formats.label_studio import view
from dejacue.files.formats.registry import FORMATS
from dejacue.files.formats.spans import Marks, Span
from dejacue.files.formats.tables import csv_text, table_bytes
from dejacue.records import History, Interval, Note, Timeline
from dejacue.records.note import in_order

Timelines = Timeline | Iterable[Timeline]
Histories = History | Iterable[History]
LABEL_COLUMNS = ("frame", "time", "state")
Videos = Mapping[str, str]  # history → its video; the id of a history that is not in it


def as_json(*timelines: Timeline) -> str:
    """Return the document of one timeline, or a list of those of several."""
    texts = [timeline.to_json() for timeline in timelines]
    return (texts[0] if len(texts) == 1 else "[\n" + ",\n".join(texts) + "\n]") + "\n"


def as_csv(*timelines: Timeline) -> str:
    """Return the rows of ``Timeline.to_rows``."""
    return as_table(".csv", timelines).decode()


def _reasons(timeline: Timeline) -> list[dict[str, str | None]]:
    """Return a row without frames for each state of a history whose answer is meaningless; the
    first has the notes."""
    return [
        {"history": subject.id, "state": state, "notes": None if at else subject.notes_line}
        for subject in timeline.subjects
        if subject.meaningless
        for at, state in enumerate(subject.states)
    ]


def as_table(suffix: str, timelines: Timelines) -> bytes:
    """Return ``Timeline.columns`` as .csv, .parquet or .arrow (IPC, also called Feather)."""
    joined = Timeline.joined(_several(timelines))
    columns = joined.columns()
    if reasons := _reasons(joined):
        rows: list[Mapping[str, Any]] = [*joined.to_rows(), *reasons]
        columns = {name: [row.get(name) for row in rows] for name in columns}
    return table_bytes(columns, suffix)


def marks_of(
    timelines: Timelines,
    histories: Histories = (),
    *,
    videos: Videos | None = None,
    timed: bool = True,
) -> Marks:
    """Return every interval once, with the descriptions that share its frames.

    Several timelines are several objects. Frames are those of the file where they are known, else
    positions in the sequence; ``timed`` asks for seconds.
    """
    pairs = with_histories(timelines, histories)
    spans: list[Span] = []
    rates: dict[str, float] = {}
    of_video: dict[str, list[Timeline]] = {}
    for timeline, history in pairs:
        name = timeline.history_id
        video = (videos or {}).get(name)
        of_video.setdefault(video or name, []).append(timeline)
        if history is not None and (rate := average_rate(history)) is not None:
            rates[name] = rate
        shared: dict[tuple[str, int, int], list[Interval]] = {}
        for interval in timeline:
            key = (interval.state, interval.start, interval.end)
            shared.setdefault(key, []).append(interval)
        for (state, *_), same in shared.items():
            texts = [interval.description for interval in same if interval.description is not None]
            spans.append(
                Span(
                    state,
                    same[0].source if history is None else history.to_source(same[0]),
                    seconds(timeline, history, same[0]) if timed else None,
                    name,
                    video,
                    same[0].confidence,
                    tuple(texts or timeline.states[state]),
                )
            )
    return Marks(
        spans,
        {timeline.history_id: (videos or {}).get(timeline.history_id) for timeline, _ in pairs},
        [note.line for note in all_notes([timeline for timeline, _ in pairs])],
        {video: [note.line for note in all_notes(some)] for video, some in of_video.items()},
        rates,
    )


def labels_csv(timelines: Timelines, histories: Histories = (), **_: object) -> str:
    """Return a row for each observed frame: frame, time (its start in seconds) and state.

    The state is empty where none holds, the time where it is not known. Frames are those of the
    history. Several histories have one more column before these: history.
    """
    pairs = with_histories(timelines, histories)
    several = len(pairs) > 1
    rows: list[Sequence[Any]] = []
    for timeline, history in pairs:
        labels, evidence = timeline.labels, timeline.evidence
        assert evidence is not None  # there are no labels without
        times = None if history is None else history.times_s
        known = [None] * len(labels) if times is None else times.tolist()
        for row in zip(evidence.frames.tolist(), known, labels, strict=True):
            rows.append([timeline.history_id, *row] if several else row)
    return csv_text(["history", *LABEL_COLUMNS] if several else LABEL_COLUMNS, rows)


def to_fiftyone(
    timelines: Timelines, histories: Histories = (), *, videos: Videos | None = None
) -> dict[str, Any]:
    """Return video → ``fiftyone.TemporalDetections``, to be set as a field of its sample; needs the
    package."""
    return temporal_detections(marks_of(timelines, histories, videos=videos, timed=False))


@dataclass(frozen=True)
class Export:
    """A format: call it with one or several timelines and, where they are known, their histories.

    suffixes   that name it, the usual one first
    timed   it counts in seconds, so that the intervals, or else the histories, must have times
    opens   its tool opens the video, so that ``videos`` must give paths, not names
    beside  the suffix and the text of a file that its tool wants as well
    needs   an optional package, and how to install it
    """

    suffixes: tuple[str, ...]
    make: Callable[..., str | bytes]
    timed: bool
    opens: bool = False
    beside: tuple[str, Callable[[Marks], str]] | None = None
    needs: tuple[str, str] | None = None

    @property
    def suffix(self) -> str:
        return self.suffixes[0]

    @property
    def missing(self) -> str | None:
        """Return how to install the package that it needs, if that is not installed."""
        if self.needs is None or find_spec(self.needs[0]) is not None:
            return None
        return self.needs[1]

    def __call__(
        self, timelines: Timelines, histories: Histories = (), *, videos: Videos | None = None
    ) -> bytes:
        data = self.make(timelines, histories, videos=videos)
        return data if isinstance(data, bytes) else data.encode()


def _export(name: str, beside: tuple[str, Callable[[Marks], str]] | None = None) -> Export:
    """Return the export of a format of another tool."""
    format = FORMATS[name]

    def make(
        timelines: Timelines, histories: Histories = (), *, videos: Videos | None = None
    ) -> str | bytes:
        return format.write(marks_of(timelines, histories, videos=videos, timed=format.timed))

    return Export(format.suffixes, make, format.timed, format.opens, beside, format.needs)


def _plain(suffix: str, make: Callable[[Timelines], str | bytes], **options: Any) -> Export:
    """Return an export that needs neither histories nor videos."""
    return Export((suffix,), lambda timelines, *_, **__: make(timelines), timed=False, **options)


_PYARROW = ("pyarrow", "pip install pyarrow")
EXPORTS: dict[str, Export] = {
    "json": _plain(".json", lambda timelines: as_json(*_several(timelines))),
    "csv": _plain(".csv", lambda timelines: as_csv(*_several(timelines))),
    "labels": Export((".labels.csv",), labels_csv, timed=False),
    "vtt": _export("vtt"),
    "srt": _export("srt"),
    "parquet": _plain(".parquet", partial(as_table, ".parquet"), needs=_PYARROW),
    "arrow": _plain(".arrow", partial(as_table, ".arrow"), needs=_PYARROW),
    "label-studio": _export("label-studio", (".labelstudio.config.xml", view)),
    "fiftyone": _export("fiftyone"),
    "cvat": _export("cvat"),
    "eaf": _export("eaf"),
    "rerun": _export("rerun"),
}


def export_for(path: StrPath) -> Export:
    """Return the format of the suffix of a path."""
    name = os.fspath(path).lower()
    endings = [(each, export) for export in EXPORTS.values() for each in export.suffixes]
    for ending, export in sorted(endings, key=lambda pair: -len(pair[0])):  # .cvat.xml before .xml
        if name.endswith(ending):
            return export
    remedy = f"use one of {', '.join(export.suffix for export in EXPORTS.values())}"
    raise InputError(f"{path}: the file ending matches no format; {remedy}")


def _several(timelines: Timelines) -> list[Timeline]:
    """Return a timeline for each history."""
    several = [timelines] if isinstance(timelines, Timeline) else timelines
    by_history = [part for timeline in several for part in timeline.split()]
    if not by_history:
        raise InputError("there is no timeline to export; run locate first")
    return by_history


def with_histories(
    timelines: Timelines, histories: Histories
) -> list[tuple[Timeline, History | None]]:
    several = [histories] if isinstance(histories, History) else histories
    known = {history.id: history for history in several}
    return [(timeline, known.get(timeline.history_id)) for timeline in _several(timelines)]


def all_notes(timelines: Sequence[Timeline]) -> tuple[Note, ...]:
    """Return the notes of all, the most severe first; those that not all share say whose they
    are."""
    pairs = [(timeline, note) for timeline in timelines for note in timeline.notes]
    shared = {note for _, note in pairs if all(note in timeline.notes for timeline in timelines)}
    return in_order(
        note if note in shared else Note(f"{timeline.history_id}: {note}", note.severity)
        for timeline, note in pairs
    )


def seconds(timeline: Timeline, history: History | None, interval: Interval) -> tuple[float, float]:
    """Return [start_s, end_s) of an interval as it says itself or, where it does not, by its
    history."""
    if history is not None:
        ends = frame_ends_s(history)  # refuses times that no format can have
        if interval.times_s is None:
            first, last = history.rows_of(interval.window)
            assert history.times_s is not None
            return float(history.times_s[first]), float(ends[last])
    if interval.times_s is None:
        raise InputError(
            f'timeline of "{timeline.history_id}" has no times, but this format counts seconds; '
            "give the history along with it"
        )
    return interval.times_s
