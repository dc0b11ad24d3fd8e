"""Finding: the result of ``find``, to look at, to write, to ask again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from dejacue.errors import InputError, unknown
from dejacue.method.contrast import Contrast
from dejacue.method.plan import READOUTS, readout_from
from dejacue.method.questions import Question, next_question
from dejacue.method.readout import Readout
from dejacue.method.segments import segments
from dejacue.pipeline._read import (
    Examples,
    MoreExamples,
    ReadOptions,
    VocabularySource,
    Words,
    read,
)
from dejacue.pipeline.job import EncoderOptions, Place
from dejacue.records import History, Interval, Timeline, Vocabulary, Window
from dejacue.sources.atomic import write_bytes, write_text
from dejacue.sources.encoders import UNKNOWN_WORDS, Encoder
from dejacue.sources.findings import Made, Parts, Pictures, read_finding, write_finding

if TYPE_CHECKING:
    from dejacue.report.exports import Export

References = Mapping[str, Sequence[Window]]  # state → its true windows, in frames of the file


@dataclass(frozen=True, eq=False, repr=False)
class Finding:
    """The intervals of one object, and all that is needed to show them or to ask again.

    ``finding["filled"]`` lists the intervals of a state, best first; iteration gives those of all
    states.

    timeline     the intervals, with the evidence behind them; its notes include the warnings
    thumbnails   frame → JPEG of the frame with the object outlined; crops: of the object alone
    doubts       (window in frames of the file, sentence): where the tracker may be wrong
    warnings     what a reader must know of how it was made
    """

    history: History
    vocabulary: Vocabulary
    timeline: Timeline
    thumbnails: Mapping[int, bytes] = field(default_factory=dict)
    crops: Mapping[int, bytes] = field(default_factory=dict)
    doubts: tuple[tuple[Window, str], ...] = ()
    warnings: tuple[str, ...] = ()
    made: Made = field(default_factory=Made)

    @property
    def thumbnail(self) -> bytes | None:
        """A JPEG to know the object by; None where no pictures were kept."""
        return Pictures(dict(self.thumbnails), dict(self.crops)).middle

    def __post_init__(self) -> None:
        if self.timeline is not None and self.warnings:  # whoever shows or writes it says them, too
            notes = tuple(dict.fromkeys((*self.warnings, *self.timeline.notes)))
            if notes != self.timeline.notes:
                object.__setattr__(self, "timeline", self.timeline.replace(notes=notes))

    @overload
    def __getitem__(self, key: str) -> list[Interval]: ...
    @overload
    def __getitem__(self, key: int) -> Interval: ...
    def __getitem__(self, key: int | str) -> Interval | list[Interval]:
        return self.timeline[key]

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.timeline)

    def __len__(self) -> int:
        return len(self.timeline)

    def __contains__(self, key: object) -> bool:
        return key in self.timeline

    def to_dataframe(self, library: str | None = None) -> Any:
        """Return the intervals as a pandas or polars data frame, a row each."""
        return self.timeline.to_dataframe(library)

    def at(self, time_s: float | None = None, *, frame: int | None = None) -> str | None:
        """Return the state at a second, or at a frame; None where none is claimed."""
        return self.timeline.at(time_s, frame=frame)

    def ask(
        self,
        vocabulary: VocabularySource | None = None,
        *,
        encoder: Encoder | str | None = None,
        encoder_options: EncoderOptions | None = None,
        name: str | None = None,
        shown: MoreExamples | None = None,
        **reading: Any,
    ) -> Finding:
        """Read the same object with other words or another readout; nothing is decoded again.

        encoder   for words; default: the one that the history was made with
        name      of the history, for error messages
        shown     examples beside the words
        reading   readout, coordinates, top, …: those of ``find``, with its defaults
        """
        chosen = ReadOptions(**reading)
        chosen.check()
        options = encoder_options or EncoderOptions(prompts=self.made.prompts)
        again = vocabulary is None
        words = Words.of(self.vocabulary if again else vocabulary, options, shown)
        needed = words.encoder_for(self.history, encoder)
        encoded, warnings = words.encoded(needed, self.made.video)
        names = name or f"history {self.history.id}", words.name
        return replace(
            self,
            vocabulary=encoded,
            timeline=read(self.history, encoded, chosen, names=names),
            warnings=(
                *(text for text in self.warnings if again or not text.startswith(UNKNOWN_WORDS)),
                *warnings,
            ),
            made=replace(self.made, prompts=options.prompts),
        )

    def correct(
        self,
        examples: Examples | None = None,
        /,
        *,
        changes: Any = (),
        **states: Any,
    ) -> Finding:
        """Read again, with frames that you name: ``finding.correct(empty=12, filled=[80, 95])``.

        Frames are those that ``finding`` itself counts, the frames of its history. A frame, a
        Window, or several of them; the state None (or "none") is none of the states. changes:
        frames at which one state ends and another begins. What you said before is kept.
        """
        vocabulary = self.vocabulary.with_examples(examples, changes=changes, **states)
        top = self.timeline.settings.get("top")
        return replace(self, vocabulary=vocabulary).ask(readout=self._readout(), top=top)

    def next_question(self, count: int = 1, *, seed: int = 0) -> tuple[Question, ...]:
        """Return the frames whose names would tell most about the rest, best first."""
        readout = self._readout()
        contrast = readout if isinstance(readout, Contrast) else None
        return next_question(self.history, self.vocabulary, count, readout=contrast, seed=seed)

    @property
    def named(self) -> dict[str | None, list[Window]]:
        """State → the windows in which a person says that it holds; None: none of them."""
        windows: dict[str | None, list[Window]] = {}
        frames = self.history.frames
        for example in self.vocabulary.facts:
            first, end = example.positions(self.history)
            window = Window(int(frames[first]), int(frames[end - 1]))
            windows.setdefault(example.state, []).append(window)
        return windows

    def segments(self, count: int | None = None) -> tuple[Window, ...]:
        """Return stretches of frames that look alike, which may be named in ``correct``."""
        return segments(self.history, count)

    def _readout(self) -> Readout:
        """Return the readout it was read with; contrast, where that one takes no examples."""
        readout = readout_from(self.timeline.settings.get("readout", {}))
        return readout if readout is not None and readout.takes_examples else READOUTS["contrast"]

    @overload
    def report(self, path: None = None, *, references: References | None = None) -> str: ...
    @overload
    def report(self, path: Place, *, references: References | None = None) -> Path: ...
    def report(
        self, path: Place | None = None, *, references: References | None = None
    ) -> str | Path:
        """Return the report as one HTML page, or write it to a file."""
        from dejacue.report.page import report_page

        page = report_page(
            self.history,
            self.timeline,
            references=references,
            thumbnails=list(self.thumbnails.items()),
            crops=list(self.crops.items()),
            video=_from_here(self.made.video),
            object=self.vocabulary.object,
            doubts=self.doubts,
            tracker=self.made.tracker,
            warnings=self.warnings,
            named=self.named,
            vocabulary=self.vocabulary,
        )
        return page if path is None else write_text(self._target(path), page)

    def scene(
        self,
        *,
        references: References | None = None,
        thumbnails: Iterable[tuple[int, str, str | None]] | None = None,
        segments: bool = False,
        questions: int = 0,
        most: int | None = None,
    ) -> dict[str, Any]:
        """Return what a timeline draws of it, as one JSON object (docs/timeline.md).

        thumbnails   (frame, address of a picture, of the object alone or None); default: its own
        segments     whether to look for stretches of frames that look alike
        questions    how many frames to propose, as ``next_question`` does
        most         values of all curves together; longer ones are thinned to extremes
        """
        from dejacue.report.scene import data_url, scene

        if thumbnails is None:
            crops = {frame: data_url(frame, data) for frame, data in self.crops.items()}
            thumbnails = [
                (frame, data_url(frame, data), crops.get(frame))
                for frame, data in self.thumbnails.items()
            ]
        return scene(
            self.history,
            self.timeline,
            self.vocabulary,
            references=references,
            doubts=self.doubts,
            named=self.named,
            segments=self.segments() if segments else None,
            questions=self.next_question(questions) if questions else None,
            thumbnails=thumbnails,
            video=_from_here(self.made.video),
            notes=self.timeline.notes,
            most=most,
        )

    def widget(self, **options: Any) -> Any:
        """Return its timeline for a notebook; options are those of ``dejacue.widget``."""
        from dejacue.pipeline.widget import widget

        return widget(self, **options)

    def export(self, kind: str, path: Place) -> Path:
        """Write the timeline in the format of another tool: json, csv, vtt, … (EXPORTS)."""
        from dejacue.report.exports import EXPORTS

        if kind not in EXPORTS:
            raise unknown("export", kind, EXPORTS)
        return export_findings([self], EXPORTS[kind], self._target(path))

    def to_fiftyone(self) -> Any:
        """Return the windows as ``fiftyone.TemporalDetections``; needs the package."""
        from dejacue.report.exports import to_fiftyone

        (detections,) = to_fiftyone(self.timeline, self.history).values()
        return detections

    def plot(self, path: Place | None = None, *, references: References | None = None) -> Any:
        """Return the evidence as a matplotlib figure or, with a path (.png), write it there."""
        from dejacue.report.plots import evidence_figure, save_png

        figure = evidence_figure(self.history, self.timeline, references)
        return figure if path is None else save_png(self._target(path, ".png"), figure)

    def _target(self, path: Place, suffix: str = "") -> Place:
        """Return the path; refuse that of the video, or another suffix."""
        if suffix and Path(path).suffix.lower() != suffix:
            raise InputError(f"{path}: give a name that ends in {suffix}")
        video = self.made.video
        both_exist = video is not None and os.path.exists(path) and os.path.exists(video)
        if video is not None and both_exist and os.path.samefile(path, video):
            raise InputError(f"{path}: is the video; give another name")
        return path

    def cut(self, folder: Place) -> list[Path]:
        """Cut the windows out of the video as clips, numbered, one for each window of a state."""
        if self.made.video is None:
            raise InputError(
                f"history {self.history.id}: clips are cut from a video, but its video is not known"
            )
        from dejacue.report.clips import cut_clips

        rate = self.made.options.get("rate")
        return cut_clips(
            Path(folder),
            self.made.video,
            self.history,
            self.timeline,
            None if rate is None else float(rate),
        )

    def write(self, folder: Place) -> Path:
        """Write finding.json and the arrays it names, to be read with ``Finding.read``."""
        pictures = Pictures(dict(self.thumbnails), dict(self.crops))
        parts = Parts(
            self.history,
            self.vocabulary,
            self.timeline,
            pictures,
            self.doubts,
            self.warnings,
            self.made,
        )
        return write_finding(Path(folder), parts)

    @classmethod
    def read(cls, folder: Place) -> Finding:
        """Read what ``write`` has written."""
        history, words, timeline, pictures, doubts, warnings, made = read_finding(Path(folder))
        return cls(history, words, timeline, *pictures, doubts, warnings, made)

    def __repr__(self) -> str:
        seen = f"{len(self.history)} observed frames of {self.made.video or self.history.id}"
        return f"<Finding {seen}>\n{self.timeline!r}"

    def _repr_html_(self) -> str:
        from dejacue.report.page import finding_html

        return finding_html(
            self.history,
            self.timeline,
            thumbnails=list(self.thumbnails.items()),
            warnings=self.warnings,
        )


def _from_here(path: str | None) -> str | None:
    """Return the path as one would type it: relative if it lies below the current folder."""
    if path is not None and Path(path).is_relative_to(Path.cwd()):
        return os.path.relpath(path)
    return path


def export_findings(findings: Sequence[Finding], export: Export, path: Place) -> Path:
    """Write findings of one or several objects to one file, and what goes beside it."""
    from dejacue.report.exports import marks_of

    videos = {each.history.id: each.made.video for each in findings if each.made.video is not None}
    timelines, histories = [each.timeline for each in findings], [each.history for each in findings]
    content = export(timelines, histories, videos=videos if export.opens else None)
    if export.beside is not None:
        ending, text = export.beside
        name = os.fspath(path)
        for suffix in (export.suffix, *export.also):
            name = name[: -len(suffix)] if name.lower().endswith(suffix) else name
        write_text(name + ending, text(marks_of(timelines, histories, timed=False)))
    return write_bytes(path, content)
