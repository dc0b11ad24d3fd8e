"""Finding: the result of ``find``, to look at, to write, to use again with other words."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np

from dejacue.atomic import write_bytes, write_text
from dejacue.errors import InputError, StrPath, shortened, unknown
from dejacue.files.findings import (
    Manifest,
    Pictures,
    Provenance,
    read_finding,
    write_finding,
)
from dejacue.finding._readout import (
    Examples,
    VocabularySource,
    encode_words,
    encoder_for,
    load_words,
    name_of,
    read,
)
from dejacue.finding.by_name import OBJECTS_PICTURE, read_search
from dejacue.finding.request import Lazy
from dejacue.masks import sees_whole_picture
from dejacue.method.localization import READOUTS, Plan, ReadOptions, readout_from
from dejacue.method.questions import Question, next_question
from dejacue.method.readout import Readout
from dejacue.method.segmentation import segments
from dejacue.method.state_readout import StateReadout
from dejacue.method.strips import Border, Strip, marked, open_borders, strip_of
from dejacue.method.teaching import Confirmed, as_teachers
from dejacue.models.encoders import UNKNOWN_WORDS, Encoder, HasOrigin, encoder_name
from dejacue.progress import in_notebook
from dejacue.records import History, Interval, Note, Timeline, Vocabulary, Window
from dejacue.records.note import in_order
from dejacue.records.reference import References
from dejacue.video.frames import open_frames

if TYPE_CHECKING:
    from dejacue.report.exports import Export

TAUGHT_BY = "taught by "
Like = Confirmed | StrPath  # a Finding or a Teacher, or where a finding was written


@dataclass(frozen=True, eq=False, repr=False)
class Finding:
    """The intervals of one object, and all that is needed to show them or to look for other states.

    ``finding["filled"]`` lists the occurrences of a state in time, and ``finding.best("filled")``
    is the one to take if only one is wanted; iteration gives those of all states in time.

    timeline     the intervals, with the evidence behind them; its notes include the warnings
    thumbnails   frame → JPEG of the frame with the object outlined; crops: of the object alone
    doubts       (window in frames of the file, sentence): where the tracker may be wrong
    warnings     what a reader must know of how it was made, the most severe first

    >>> import dejacue
    >>> from dejacue.demo import write_demo
    >>> scene = write_demo("cup", overwrite=True)
    >>> video, words, masks = scene / "scene.mp4", scene / "vocabulary.yaml", scene / "Annotations"
    >>> finding = dejacue.find(video, words, masks=masks, objects=[1], encoder="mini")
    >>> finding["full"][0].trust, finding.at(2.0)
    ('more likely right', 'full')
    """

    history: History
    vocabulary: Vocabulary
    timeline: Timeline
    thumbnails: Mapping[int, bytes] = field(default_factory=dict)
    crops: Mapping[int, bytes] = field(default_factory=dict)
    doubts: tuple[tuple[Window, str], ...] = ()
    warnings: tuple[Note, ...] = ()
    provenance: Provenance = field(default_factory=Provenance)

    @property
    def thumbnail(self) -> bytes | None:
        """Return a JPEG to know the object by; None where no pictures were kept."""
        return self._pictures.middle

    @property
    def _pictures(self) -> Pictures:
        return Pictures(dict(self.thumbnails), dict(self.crops))

    def __post_init__(self) -> None:
        object.__setattr__(self, "warnings", in_order(self.warnings))
        if self.timeline is not None and self.warnings:  # every view and file contains them
            notes = in_order((*self.warnings, *self.timeline.notes))
            if notes != self.timeline.notes:
                object.__setattr__(self, "timeline", self.timeline.replace(notes=notes))

    @property
    def meaningless(self) -> Note | None:
        """Return the note that says why there is no answer; None where there is one."""
        notes = self.warnings if self.timeline is None else self.timeline.notes
        return next((note for note in notes if note.severity == "meaningless"), None)

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

    @property
    def states(self) -> list[str]:
        """Return the names of the states, found or not."""
        return list(self.timeline.states)

    @property
    def intervals(self) -> list[Interval]:
        """Return all intervals in time."""
        return self.timeline.intervals

    def items(self) -> Iterator[tuple[str, list[Interval]]]:
        """Yield each state with its intervals; none where it was not found."""
        return ((state, self.timeline[state]) for state in self.timeline.states)

    def to_dataframe(self, library: str | None = None) -> Any:
        """Return the intervals as a pandas or polars data frame, a row each."""
        return self.timeline.to_dataframe(library)

    def best(self, state: str) -> Interval | None:
        """Return the occurrence of a state to take if only one is wanted; None: there is none."""
        return self.timeline.best(state)

    @property
    def labels(self) -> list[str | None]:
        """Return the state of every frame of the history; None for none of them."""
        return self.timeline.labels

    def at(self, time_s: float | None = None, *, frame: int | None = None) -> str | None:
        """Return the state at a second, or at a frame; None where none holds."""
        return self.timeline.at(time_s, frame=frame)

    def with_words(
        self,
        vocabulary: VocabularySource | None = None,
        *,
        examples: Examples | None = None,
        changes: Sequence[int | str] = (),
        like: Sequence[Confirmed] = (),
        exhaustive: bool = False,
        templates: str | None = None,
        encoder: Encoder | str | Lazy | None = None,
        name: str | None = None,
        **readout_options: Unpack[ReadOptions],
    ) -> Finding:
        """Return the finding for other words or another readout; nothing is decoded again.

        examples, changes, like, exhaustive   beside the words
        templates         how words are phrased (default: as before)
        encoder           for words; default: the one that the history was made with
        name              of the history, for error messages
        readout_options   readout, coordinates, …: those of ``find``, with its defaults
        """
        Plan.of(**readout_options)  # refuses what does not fit
        check_teachers(like, self.history)
        templates = templates or self.provenance.prompts
        source = self.vocabulary if vocabulary is None else vocabulary
        words = load_words(
            source,
            examples=examples,
            changes=changes,
            like=like,
            exhaustive=exhaustive,
            templates=templates,
        )
        called = name_of(vocabulary)
        encoded, notes = encode_words(
            words,
            encoder_for(words, self.history, encoder, called),
            like=() if source is None else like,
            templates=templates,
            name=called,
            video=self.provenance.video,
        )
        outdated = [] if vocabulary is None else [UNKNOWN_WORDS]
        outdated += [] if encoded.external_examples else [TAUGHT_BY]
        warnings = tuple(text for text in self.warnings if not text.startswith(tuple(outdated)))
        names = name or f"history {self.history.id}", called
        return replace(
            self,
            vocabulary=encoded,
            timeline=read(self.history, encoded, names=names, **readout_options),
            warnings=(*warnings, *teacher_notes(like, self.history), *notes),
            provenance=replace(self.provenance, prompts=templates),
        )

    def correct(
        self, examples: Examples | None = None, /, *, changes: Any = (), **states: Any
    ) -> Finding:
        """Return the finding with frames that you name: ``correct(empty=12, filled=[80, 95])``.

        Frames are those that ``finding`` itself counts, the frames of its history. A frame, a
        Window, or several of them; the state None (or "none") is none of the states. changes:
        frames at which one state ends and another begins. Earlier corrections stay.
        """
        return self._read_again(self.vocabulary.with_examples(examples, changes=changes, **states))

    def _read_again(self, vocabulary: Vocabulary) -> Finding:
        """Return the finding with other examples, by the same readout."""
        return replace(self, vocabulary=vocabulary).with_words(readout=self.readout)

    def strip(
        self, pictures: int = 12, *, border: Border | tuple[str, str] | None = None
    ) -> FindingStrip:
        """Return frames side by side, evenly spread over what is visible, to be marked.

        border   (state, "start" or "end"): a finer strip over a border that marks have left open,
                 or one of ``borders``; of a state that is not marked yet, over all that is unknown

        Pictures come from the video. Where it is not here, the frames are those whose pictures are
        stored with the finding; where there are none, ``Strip.missing`` says so.
        """
        source, stored = self._picture_source(), None
        if source is None and self.thumbnails:
            stored = np.intersect1d(list(self.thumbnails), self.history.frames).tolist()
        chosen = strip_of(
            self.history,
            self.vocabulary,
            self.timeline,
            pictures,
            border=border,
            stored=stored or None,
            load=partial(strip_pictures, self.history, self.thumbnails, source),
        )
        return FindingStrip(**vars(chosen), finding=self)

    def mark(
        self,
        strip: Strip,
        marks: Mapping[str | None, Any],
        *,
        exhaustive: bool = False,
        **readout_options: Unpack[ReadOptions],
    ) -> Finding:
        """Return the finding with what you see on a strip: ``mark(strip, {"full": (3, 6)})``.

        Pictures count from 1: one (9), a range with both ends (3, 6), a list of several, or text,
        "1, 3-6". A state that is new is added to the others, described by its name where they have
        words. All frames from the first to the last picture of a range are facts. Pictures that are
        not marked keep what is known of them; else they show none of the states or, where the
        vocabulary is exhaustive, stay unknown; at a border where its state alone is marked, they
        show what follows it. Later marks replace earlier ones.

        exhaustive, readout_options   of a finding that has no states yet, those of ``find``
        """
        if self.timeline is not None:
            return self._read_again(marked(self.history, self.vocabulary, strip, marks))
        vocabulary = marked(self.history, None, strip, marks, exhaustive=exhaustive)
        return self.with_words(vocabulary, **readout_options)

    def borders(self) -> tuple[Border, ...]:
        """Return the borders of marked states that are not known to a frame, the widest first."""
        return open_borders(self.history, self.vocabulary)

    def _picture_source(self) -> str | None:
        """Return the video that pictures can be decoded from; None where it is not here."""
        video, numbered = self.provenance.video, self.history.source_frames is not None
        return video if video is not None and numbered and os.path.exists(video) else None

    def next_question(self, count: int = 1) -> tuple[Question, ...]:
        """Return the frames whose names would tell most about the rest, the most telling first."""
        readout = self.readout
        chosen = readout if isinstance(readout, StateReadout) else None
        return next_question(self.history, self.vocabulary, count, readout=chosen)

    @property
    def named(self) -> dict[str | None, list[Window]]:
        """Return the windows that a person has named, by state; None: they show no state."""
        windows: dict[str | None, list[Window]] = {}
        frames = self.history.frames
        for example in self.vocabulary.frame_examples:
            first, end = example.positions(self.history)
            if first < end:  # else the object is not seen there
                window = Window(int(frames[first]), int(frames[end - 1]))
                windows.setdefault(example.state, []).append(window)
        return windows

    @property
    def confirmed(self) -> dict[str, list[Window]]:
        """Return the windows that a person has confirmed, by state: those that were named, and the
        intervals of the answer that hold a frame named for their state."""
        windows: dict[str, list[Window]] = {}
        for state, named in self.named.items():
            if state is not None:
                answers = [interval.window for interval in self.timeline[state]]
                holding = {w for w in answers if any(w & span for span in named)}
                alone = {span for span in named if not any(span & w == span for w in holding)}
                windows[state] = sorted(holding | alone)
        return windows

    def segments(self, count: int | None = None) -> tuple[Window, ...]:
        """Return stretches of frames that look alike, which may be named in ``correct``."""
        return segments(self.history, count)

    @property
    def readout(self) -> Readout:
        """Return the readout it was read with; timeline, where that one takes no examples."""
        readout = readout_from(self.timeline.settings.get("readout", {}))
        return readout if readout is not None and readout.takes_examples else READOUTS["timeline"]

    @overload
    def report(
        self, path: None = None, *, references: References | None = None, embed: bool = False
    ) -> str: ...
    @overload
    def report(
        self, path: StrPath, *, references: References | None = None, embed: bool = False
    ) -> Path: ...
    def report(
        self,
        path: StrPath | None = None,
        *,
        references: References | None = None,
        embed: bool = False,
    ) -> str | Path:
        """Return the report as one HTML page, or write it to a file.

        embed   put a small copy of the video into the page (at most 480 lines and 8 MB; of a longer
                one, fewer frames): one file to send, which plays anywhere

        >>> from dejacue import find
        >>> from dejacue.demo import write_demo
        >>> scene = write_demo("cup", overwrite=True)
        >>> video, words = scene / "scene.mp4", scene / "vocabulary.yaml"
        >>> page = find(video, words, whole=True, encoder="mini").report(embed=True)
        >>> "data:video/mp4;base64," in page
        True
        """
        from dejacue.report.clips import small_copy
        from dejacue.report.page import report_page

        page = report_page(
            self.history,
            self.timeline,
            references=references,
            thumbnails=list(self.thumbnails.items()),
            crops=list(self._shown_crops.items()),
            copy=small_copy(self._video(), **self._stream()) if embed else None,
            video=_from_here(self.provenance.video),
            film=None if path is None else self._film(Path(path).parent),
            object=self.vocabulary.object,
            doubts=self.doubts,
            tracker=self.provenance.tracker,
            objects=self._objects_picture(),
            named=self.named,
            vocabulary=self.vocabulary,
        )
        return page if path is None else write_text(self._target(path), page)

    def _objects_picture(self) -> bytes | None:
        """Return the picture of the objects among which this one was found by its name."""
        masks = Path(self.provenance.masks or "")
        if read_search(masks) is not None:
            with contextlib.suppress(OSError):
                return masks.with_name(OBJECTS_PICTURE).read_bytes()
        return None

    def _film(self, folder: Path) -> str | None:
        """Return the path of the video relative to a folder; None where it cannot be played."""
        video = self.provenance.video
        if video is None or "stream" in self.provenance.options or not os.path.isfile(video):
            return None
        try:
            return Path(os.path.relpath(video, folder)).as_posix()
        except ValueError:  # on another drive
            return None

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

        thumbnails   (frame, address of a picture, of the object alone or None); default: those of
                     the finding
        segments     whether to look for stretches of frames that look alike
        questions    how many frames to propose, as ``next_question`` does
        most         values of all curves together; longer ones are thinned to extremes
        """
        from dejacue.report.scene import data_url, scene

        if thumbnails is None:
            crops = {frame: data_url(frame, data) for frame, data in self._shown_crops.items()}
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
            video=_from_here(self.provenance.video),
            most=most,
        )

    def widget(
        self,
        *,
        editable: bool = True,
        clock: str = "seconds",
        references: References | None = None,
        segments: bool = True,
    ) -> Any:
        """Return a timeline for a notebook (Jupyter, VS Code, Colab).

        What is done in it can be observed as traits of the widget:
        frame        where the playhead is; setting it moves it
        selection    the selected window: state, index, start, end, …; None without one
        windows      of every row, once one was edited: {"state", "description", "windows":
                     [[0, 9], …]}
        scene        what is drawn; set it to ``other.scene()`` to draw another finding

        editable   whether windows can be moved, added and deleted; the finding itself stays
        clock      what the axis counts: "seconds" (where they are known), "frames" or "source"
        segments   whether edges snap to stretches of frames that look alike
        """
        from dejacue.report.scene import widget_class

        options = {"editable": editable, "clock": clock}
        make = widget_class()
        scene = self.scene(references=references, segments=segments)
        return make(scene=scene, options=options, frame=scene["axis"]["first"])

    def export(self, path: StrPath, kind: str | None = None) -> Path:
        """Write the timeline in the format of another tool: that of the suffix (.json, .csv, .vtt,
        …), or the kind that is named (EXPORTS)."""
        from dejacue.report.exports import EXPORTS, export_for

        if kind is not None and kind not in EXPORTS:
            raise unknown("export", kind, EXPORTS)
        export = export_for(path) if kind is None else EXPORTS[kind]
        return export_findings([self], export, self._target(path))

    def to_fiftyone(self) -> Any:
        """Return the windows as ``fiftyone.TemporalDetections``; needs the package."""
        from dejacue.report.exports import to_fiftyone

        (detections,) = to_fiftyone(self.timeline, self.history).values()
        return detections

    def plot(self, path: StrPath | None = None, *, references: References | None = None) -> Any:
        """Return the evidence as a matplotlib figure or, with a path (.png), write it there."""
        from dejacue.report.plots import evidence_figure, save_png

        figure = evidence_figure(self.history, self.timeline, references)
        return figure if path is None else save_png(self._target(path, ".png"), figure)

    def _target(self, path: StrPath, suffix: str = "") -> StrPath:
        """Return the path; refuse that of the video, or another suffix."""
        if suffix and Path(path).suffix.lower() != suffix:
            raise InputError(f"{path}: give a name that ends in {suffix}")
        video, path = self.provenance.video or "", Path(path)
        if os.path.exists(path) and os.path.exists(video) and os.path.samefile(path, video):
            raise InputError(f"{path}: is the video; give another name")
        return path

    def cut(self, folder: StrPath) -> list[Path]:
        """Cut the windows out of the video as clips, numbered, one for each window of a state."""
        from dejacue.report.clips import cut_clips

        return cut_clips(Path(folder), self._video(), self.history, self.timeline, **self._stream())

    def _video(self) -> str:
        if self.provenance.video is None:
            name = f"history {self.history.id}"
            raise InputError(f"{name}: its video is not known, and is needed for clips and copies")
        return self.provenance.video

    def _stream(self) -> dict[str, Any]:
        """Return how the video was opened."""
        options = self.provenance.options
        kinds = {"rate": float, "stream": int}
        return {name: kind(options[name]) for name, kind in kinds.items() if name in options}

    @property
    def _shown_crops(self) -> Mapping[int, bytes]:
        """Return pictures of the object alone; none where it is the whole picture."""
        return {} if sees_whole_picture(self.history) else self.crops

    def save(self, folder: StrPath) -> Path:
        """Write finding.json and the arrays it names, to be read with ``dejacue.load``."""
        manifest = Manifest(
            timeline=self.timeline,
            warnings=self.warnings,
            doubts=self.doubts,
            provenance=self.provenance,
        )
        return write_finding(Path(folder), self.history, self.vocabulary, self._pictures, manifest)

    @classmethod
    def read(cls, folder: StrPath) -> Finding:
        """Read the folder that ``save`` has written."""
        history, words, pictures, read = read_finding(Path(folder))
        return cls(
            history, words, read.timeline, *pictures, read.doubts, read.warnings, read.provenance
        )

    def __repr__(self) -> str:
        video = _from_here(self.provenance.video) or self.history.id
        seen = f"{len(self.history)} observed frames of {video}"
        return (
            f"<Finding {seen}>\n{'no states yet' if self.timeline is None else repr(self.timeline)}"
        )

    def _repr_html_(self) -> str:
        if self.timeline is None:  # nothing is marked yet
            return self.history._repr_html_()
        from dejacue.report.page import finding_html

        return finding_html(self.history, self.timeline, thumbnails=list(self.thumbnails.items()))


def load(folder: StrPath) -> Finding:
    """Return the finding that was saved in a folder, by ``save`` or ``dejacue find -o``.

    >>> from dejacue import History, find, load
    >>> cup = find(History(np.eye(2).repeat(6, axis=0)), examples={"full": 2, "empty": 9})
    >>> load(cup.save("cup").parent).states
    ['full', 'empty']
    """
    return Finding.read(folder)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FindingStrip(Strip):
    """The strip of a finding, which can be looked at, saved and marked.

    >>> from dejacue import History, find
    >>> cup = find(History(np.eye(2).repeat(6, axis=0)), examples={"full": 2, "empty": 9})
    >>> finding = cup.strip(4).mark(full="1-2", empty="3-4")
    >>> finding.at(frame=3), finding.at(frame=8)
    ('full', 'empty')
    """

    finding: Finding = field(repr=False)

    def mark(
        self,
        marks: Mapping[str | None, Any] | None = None,
        /,
        *,
        exhaustive: bool = False,
        readout: str | Readout | None = None,
        **states: Any,
    ) -> Finding:
        """Return the finding with what you see: ``mark(full="1, 5-6")``, ``mark({"full": [1,
        (5, 6)]})``; see ``Finding.mark``."""
        reading: ReadOptions = {} if readout is None else {"readout": readout}
        named: dict[str | None, Any] = dict(marks or {})
        named.update(states)
        return self.finding.mark(self, named, exhaustive=exhaustive, **reading)

    def save(self, path: StrPath) -> Path:
        """Write the pictures, numbered from 1, as one PNG."""
        return write_bytes(self.finding._target(path, ".png"), self._repr_png_())

    def show(self) -> None:
        """Show the pictures: in the notebook or, elsewhere, with the viewer of this machine."""
        if in_notebook():
            from IPython.display import display

            display(self)
            return
        from PIL import Image

        with Image.open(io.BytesIO(self._repr_png_()), formats=("PNG",)) as picture:
            picture.show(f"strip of {self.history.id}")

    def _repr_png_(self) -> bytes:
        from dejacue.report.contact_sheet import strip_sheet

        return strip_sheet(self)


def strip_pictures(
    history: History, stored: Mapping[int, bytes], video: str | None, frames: Sequence[int]
) -> list[bytes | None]:
    """Return a JPEG of each frame, stored or else decoded from the video; None: there is none."""
    pictures = [stored.get(frame) for frame in frames]
    if video is None or history.source_frames is None:
        return pictures
    from dejacue.report.thumbnails import thumbnail

    sources = history.source_frames[np.searchsorted(history.frames, frames)].tolist()
    with closing(open_frames(Path(video))) as opened:
        for at, source in enumerate(sources):
            if pictures[at] is None:
                pictures[at] = thumbnail(opened.image(source), None)
    return pictures


def read_teachers(like: Like | Sequence[Like]) -> tuple[Confirmed, ...]:
    """Return the findings that states are learnt from; paths are those of their folders."""
    several = like if isinstance(like, list | tuple) else (like,)
    teachers = [
        Finding.read(teacher) if isinstance(teacher, str | os.PathLike) else teacher
        for teacher in several
    ]
    return as_teachers(teachers) if teachers else ()


def check_teachers(teachers: Iterable[Confirmed], history: HasOrigin | Encoder) -> None:
    """Refuse teachers of another encoder than that of the history, or this one."""
    identity = history.identity if isinstance(history, Encoder) else history.encoder
    for teacher in teachers:
        before = teacher.history.encoder
        if None in (before, identity) or before == identity:
            continue
        remedy = "encode its video again with the same encoder"
        if isinstance(teacher, Finding) and teacher.provenance.video is not None:
            name = history.name if isinstance(history, Encoder) else encoder_name(history)
            remedy = f"encode it again: {_command(teacher, name)}"
        problem = f'teacher {teacher.history.id} was encoded with "{before}", not with "{identity}"'
        raise InputError(f"{problem}; {remedy}")


def teacher_notes(teachers: Sequence[Confirmed], history: History) -> list[Note]:
    """Return a note on teachers that show the whole picture where the history shows an object cut
    out of it, or the reverse."""
    if not teachers:
        return []
    whole = sees_whole_picture(history)
    unlike = [
        shortened(teacher.history.id)
        for teacher in teachers
        if None not in (whole, seen := sees_whole_picture(teacher.history)) and seen is not whole
    ]
    if not unlike:
        return []
    names = ", ".join(unlike)
    text = f"the whole picture of {names}, but here the object is cut out"
    if whole:
        text = f"an object cut out of {names}, but here every frame is looked at as a whole"
    return [Note(f"{TAUGHT_BY}{text}", "doubtful")]


def _command(teacher: Finding, encoder: str) -> str:
    """Return the command that makes a finding again, with what was confirmed in it."""
    numbers = teacher.history.source_frames
    words = ["dejacue", "find", _from_here(teacher.provenance.video) or "", "--encoder", encoder]
    if teacher.provenance.masks is not None:
        words += ["--masks", _from_here(teacher.provenance.masks) or ""]
    for state, windows in teacher.confirmed.items():
        for window in windows:
            first, last = np.searchsorted(teacher.history.frames, tuple(window)).tolist()
            if numbers is not None:
                window = Window(int(numbers[first]), int(numbers[last]))
            words += ["--example", f"{state}={window.start}-{window.end}"]
    return shlex.join(words)


def _from_here(path: str | None) -> str | None:
    """Return the path as one would type it: relative if it lies below the current folder."""
    if path is not None and Path(path).is_relative_to(Path.cwd()):
        return os.path.relpath(path)
    return path


def export_findings(findings: Sequence[Finding], export: Export, path: StrPath) -> Path:
    """Write findings of one or several objects to one file, and what goes beside it."""
    from dejacue.report.exports import marks_of

    videos = {
        item.history.id: item.provenance.video
        for item in findings
        if item.provenance.video is not None
    }
    timelines, histories = [item.timeline for item in findings], [item.history for item in findings]
    content = export(timelines, histories, videos=videos if export.opens else None)
    if export.beside is not None:
        ending, text = export.beside
        name = os.fspath(path)
        for suffix in export.suffixes:
            name = name[: -len(suffix)] if name.lower().endswith(suffix) else name
        write_text(name + ending, text(marks_of(timelines, histories, timed=False)))
    return write_bytes(path, content)
