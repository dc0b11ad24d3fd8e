"""find(): the whole path from a video and words to a Finding.

Job ──▶ open ──▶ observe ──▶ encode ──▶ apply_readout
        Video    Masks       History    Timeline
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dejacue.atomic import check_place
from dejacue.errors import InputError, StrPath, in_file, named
from dejacue.files.findings import (
    PIXELS,
    Pictures,
    Provenance,
    holds_finding,
    pictures_path,
    read_document,
    read_pictures,
)
from dejacue.files.histories import read_history
from dejacue.finding._encode import (
    Encoded,
    encode,
    history_warnings,
    with_interval_pictures,
)
from dejacue.finding._readout import (
    Examples,
    LoadedVocabulary,
    MoreExamples,
    VocabularySource,
    apply_readout,
)
from dejacue.finding.finding import Finding, Like, check_teachers, read_teachers, teacher_notes
from dejacue.finding.job import ALL_FRAMES, EncoderOptions, Job, changed_options
from dejacue.finding.request import FindRequest, LazyModel, Sampling
from dejacue.finding.where import AtPrompts, ByName, InMasks, MaskSource, Objects, Observed
from dejacue.method._timelines import in_frames
from dejacue.method.plan import DEFAULT_READOUT, Plan, ReadOptions, as_readout
from dejacue.method.readout import Readout
from dejacue.method.strips import Strip
from dejacue.method.strips import marked as with_marks
from dejacue.method.timeline import Reading
from dejacue.models.detectors.base import Detector
from dejacue.models.encoders import Encoder, encoder_name
from dejacue.models.trackers import Prompt, Tracker
from dejacue.models.trackers.follow import Prompts, TrackerOptions
from dejacue.progress import Progress, default_progress
from dejacue.records import History, Note, Vocabulary
from dejacue.records.example import NONE
from dejacue.video.video import Video

if TYPE_CHECKING:
    from dejacue.finding.request import Source

SAMPLED = Note(
    "frames are numbered as sampled; source frames, seconds, clips and references are those of "
    "the file",
    "information",
)
NO_TIMES = Note(
    "images have no timestamps, so there are no seconds and no .vtt; the setting rate=25 adds them",
    "information",
)


def find(
    video: Source,
    states: VocabularySource | None = None,
    *,
    examples: Examples | MoreExamples | None = None,
    like: Like | Sequence[Like] = (),
    order: Sequence[str] | None = None,
    exhaustive: bool = False,
    masks: MaskSource | InMasks | None = None,
    objects: Objects = None,
    box: Sequence[float] | None = None,
    point: Sequence[float] | None = None,
    prompts: Prompt | Prompts = (),
    name: str | Sequence[str] | None = None,
    whole: bool = False,
    fixed: bool = False,
    start: int | str | None = None,
    end: int | str | None = None,
    fps: float | None = None,
    sampling: Sampling = ALL_FRAMES,
    encoder: Encoder | str | LazyModel[EncoderOptions] | None = None,
    tracker: Tracker | str | LazyModel[TrackerOptions] | None = None,
    detector: Detector | str | None = None,
    readout: str | Readout | ReadOptions = "timeline",
    folder: StrPath | None = None,
    progress: Progress | None = None,
) -> Finding:
    """Find when an object of a video is in which state.

    video         a path (file, folder of images, glob) or an opened Video; or a History, a Finding
                  or where one was written: then nothing is decoded
    states        a path, {state: descriptions}, or a Vocabulary, which may hold examples and
                  changes, too; None: examples or like alone
    examples      states that are shown: {state: frames of the file, "4.5s", "cup.jpg", …}; the
                  state "none" is none of them
    like          findings of other videos, or their folders, in which you confirmed when these
                  states hold: they teach what to look for (docs/teaching.md)
    order         of the states, the only one in which they follow each other; the first comes
                  again after the last
    exhaustive    every frame shows one of the states; otherwise, beside examples, some may show
                  none of them
    masks         of the object: a path, what open_masks returns, or {frame: {object: mask}} as
                  SAM 2 gives them
    objects       the ids that are its pieces, where the masks hold several
    box, point    instead of masks: where it is in the first frame, (x0, y0, x1, y1) or (x, y); a
                  tracker follows it (None: the best one that is installed)
    prompts       the same in any frame, or its mask there, as Prompt records
    name          instead of all these: what it is called, or the path of a picture of it, for a
                  detector to find it (default: the vocabulary's object); of several, the one with
                  the best score
    whole         every frame is the object; fixed: the box stays where it is
    start, end    the first and last frame that are used, or "4.5s", "1:30"; fps: so many a second
                  (default: all or, of a slow encoder, about four)
    sampling      what else says which frames are used (docs/video.md)
    encoder       a name or what load_encoder returns (siglip2; with a history: the one that it was
                  made with)
    tracker       a name or what load_tracker returns; detector: a name or a Detector
    readout       timeline (every occurrence), contrast (one window a state), published (the
                  paper), …, or a readout with its settings, Reading(smoothing_s=0.4)
    folder        where the finding, histories, masks, pictures and unfinished work are kept and
                  reused; None: nothing is written
    progress      see dejacue.progress; None: a bar in a notebook, silence elsewhere
    """
    return _search(FindRequest(**locals())).finding()


def find_each(
    video: Source,
    states: VocabularySource | None = None,
    *,
    objects: Objects = "all",
    **options: Any,
) -> list[Finding]:
    """Return a Finding for each object, in one pass over the video; options are those of ``find``.

    objects   "all" (the default: each mask id is one), ids that are one object, or "1,2" and
              [[1], [2]] for several
    """
    return _search(FindRequest(video, states, objects=objects, **options)).findings()


def _search(request: FindRequest) -> Search:
    """Return the search of a request, whose folder holds no finding of another video."""
    if request.folder is not None:
        check_same_video(request.folder, request.video)
    return Search(request)


@dataclass(frozen=True, eq=False)
class Search:
    """A search returns the findings of a request.

    pictures   whether a few are kept for the report
    marking    states may be named on a strip instead (``marked``): without words and examples, the
               findings of a video have no vocabulary and no timeline yet
    """

    request: FindRequest
    pictures: bool = True
    marking: bool = False

    @cached_property
    def job(self) -> Job:
        """Return how a history is made from a video; unused if there is one already."""
        return Job.of(self.request)

    @cached_property
    def examples(self) -> MoreExamples | None:
        """Return what shows the states beside the words."""
        examples, request = self.request.examples, self.request
        if not isinstance(examples, MoreExamples):
            examples = MoreExamples(examples)
        like = read_teachers(request.like)
        examples = replace(examples, like=like, exhaustive=request.exhaustive)
        return examples if examples.shows_states or examples.exhaustive else None

    @cached_property
    def reading(self) -> ReadOptions:
        """Return the options of the reading; the order is that of a timeline."""
        readout, order = self.request.readout, self.request.order
        options: ReadOptions = {"readout": readout} if not isinstance(readout, dict) else readout
        if order is None:
            return options
        chosen = as_readout(options.get("readout", DEFAULT_READOUT))
        if not isinstance(chosen, Reading) or chosen.order is not None:
            problem = f"order does not apply to the readout {chosen.name}"
            if isinstance(chosen, Reading):
                problem = "order is given as well as in the readout"
            raise InputError(f"{problem}; leave one of them out")
        return {**options, "readout": replace(chosen, order=tuple(order))}

    @cached_property
    def saved(self) -> Finding | None:
        """Return the finding of an earlier run, or one with a history only; None for a video."""
        return saved_finding(self.request.video)

    def finding(self) -> Finding:
        """Return the only finding; that of a video is written to the folder."""
        (finding,) = self.findings(single=True)
        folder = self.request.folder
        if folder is not None and self.saved is None:
            finding.write(folder)
        return finding

    def findings(self, single: bool = False) -> list[Finding]:
        """Return a finding for each object; ``single``: refuse several."""
        Plan.of(**self.reading)  # refuses what does not fit before anything is opened
        if self.saved is not None:
            return [self._of_saved(self.saved)]
        return self._of_video(single)

    def marked(self, finding: Finding, strip: Strip, marks: Mapping[str | None, Any]) -> Finding:
        """Return the finding with marks, which name the states where there are none yet."""
        if finding.timeline is not None:
            return finding.mark(strip, marks)
        exhaustive = self.examples is not None and self.examples.exhaustive
        vocabulary = with_marks(finding.history, None, strip, marks, exhaustive=exhaustive)
        return finding.with_words(vocabulary, **self.reading)

    @property
    def unnamed(self) -> bool:
        """Return whether the states are still to be named on a strip."""
        if not self.marking or self.request.states is not None:
            return False
        if self.saved is not None and self.saved.vocabulary is not None:
            return False
        return self.examples is None or not self.examples.shows_states

    def _of_saved(self, saved: Finding) -> Finding:
        job, source, states = self.job, self.request.video, self.request.states
        place = named(saved.history.id)
        if isinstance(source, str | os.PathLike):
            place = in_file(source)
        unused = [*job.sampling.changed]
        unused += ["object"] if job.objects not in (None, "all") else []
        with place:
            if not isinstance(job.where, ByName) or job.where.names:
                raise InputError("is a history, which needs no masks or boxes; leave them out")
            if states is None and self.examples is None and job.encoder is not None:
                problem = "without other words nothing is encoded, so encoder has no effect"
                raise InputError(f"{problem}; leave it out, or give words")
            if self.unnamed:
                problem = "has no states yet, and on a history alone none can be marked"
                raise InputError(f"{problem}; give the video instead, or a vocabulary")
            if unused:
                problem = f"is a history, so {unused[0]} has no effect"
                raise InputError(f"{problem}; leave it out, or give the video instead")
        return saved.with_words(
            states,
            encoder=job.encoder,
            encoder_options=job.encoder_options,
            name=place.name,
            examples=self.examples,
            **self.reading,
        )

    def _of_video(self, single: bool) -> list[Finding]:
        """Return the findings of a video; while the states are to be named, they have none."""
        job, request, folder = self.job, self.request, self.request.folder
        progress = request.progress or default_progress()
        if job.encoder is None and self.examples is not None and self.examples.like:
            job = replace(job, encoder=encoder_name(self.examples.like[0].history))
        video = job.open()
        if folder is not None:
            check_place(folder, folder=True)
        words: LoadedVocabulary | None = None
        if not self.unnamed:
            words = LoadedVocabulary.load(request.states, job.encoder_options, self.examples)
            _check_examples(words.vocabulary, video)
        if isinstance(job.where, ByName):
            names = job.where.names or (words and words.vocabulary.object) or ()
            where = replace(job.where, names=names)
            where.check(video)
            job = replace(job, where=where)
        job.check_weights()
        # what is wrong with the input is said before a model is loaded and an object followed
        observed = None if job.locates else job.observe(video)
        encoder = job.load()
        teachers = self.examples.like if self.examples else ()
        check_teachers(teachers, encoder)
        vocabulary: Any = None  # and no warnings of its words
        word_warnings: tuple[Note, ...] = ()
        if words is not None:
            vocabulary, word_warnings = words.encoded(encoder, str(video.path))
            _check_examples(vocabulary, video)  # those from elsewhere may be of this video
        observed = observed or job.observe(video, folder, progress, encoder)
        if single and len(observed.objects) > 1:
            names = ", ".join(observed.objects)
            problem = f"holds {names}, but find returns one"
            raise InputError(f"{video.path}: {problem}; use find_each for all")
        facts = [*vocabulary.frame_examples, *vocabulary.changes] if words else []
        if any(example.unit != "frames" for example in facts):  # of the file: all are looked at
            job = replace(job, video=video, sampling=ALL_FRAMES)

        encoded = encode(
            job,
            observed=observed,
            encoder=encoder,
            limit_fps=not facts,
            output=folder,
            pictures=self.pictures,
            progress=progress,
            replaces=words is not None,
        )
        made = _provenance(self.job, observed, encoder)
        is_path = isinstance(request.video, str | os.PathLike)
        pictured = self.pictures and is_path and self.job.sampling.stream is None
        findings = []
        for name, result in encoded.items():
            history, pictures = result.history, result.pictures
            timeline: Any = None
            if words is not None:
                names = str(video.path), words.name
                timeline = apply_readout(history, vocabulary, self.reading, names=names)
                if pictured:
                    pictures = with_interval_pictures(pictures, observed, history, timeline)
            warnings = (
                *_warnings(observed, result, name),
                *word_warnings,
                *teacher_notes(teachers, history),
            )
            doubts = observed.doubts(name)
            findings.append(
                Finding(history, vocabulary, timeline, *pictures, doubts, warnings, made)
            )
            progress("read", len(findings), len(encoded), "")
        return findings


def replaced_video(folder: StrPath, source: StrPath) -> Path | None:
    """Return the video of the finding in a folder ("": not known), if it is not this one."""
    with contextlib.suppress(InputError):  # none, or it cannot be read and is made again
        video = Path(read_document(Path(folder)).provenance.video or "")
        here = Path(os.path.abspath(source))
        if here not in (video, video.parent) and video != here.parent:  # a folder, or a glob
            return video
    return None


def check_same_video(folder: StrPath, source: Source) -> None:
    """Refuse a folder that holds the finding of a video of another name."""
    path = source.path if isinstance(source, Video) else source
    if isinstance(path, str | os.PathLike):
        video = replaced_video(folder, path)
        if video is not None and video.name not in ("", Path(path).name):
            raise InputError(f"{folder}: holds the finding of {video.name}; give another folder")


def _check_examples(vocabulary: Vocabulary, video: Video) -> None:
    """Refuse an example or a change behind the last frame before anything is encoded."""
    facts = [(f"the example {{}} of {e.state or NONE}", e) for e in vocabulary.frame_examples]
    changes = [("a change at {}", e) for e in vocabulary.changes]
    for unit in ("source", "seconds"):
        places = [place for place in (*facts, *changes) if place[1].unit == unit]
        if not places:
            continue
        text, example = max(places, key=lambda place: place[1].span or (0, 0))
        count = video.count_if_before((example.span or (0, 0))[0], unit)
        if count is not None:
            end = f"last frame ({count - 1})"
            if unit == "seconds" and video.rate:
                end = f"end ({count / video.rate:.1f} s)"
            raise InputError(f"{video.path}: {text.format(example.name)} is past the {end}")


def _warnings(observed: Observed, encoded: Encoded, name: str) -> list[Note]:
    warnings = [*observed.warnings, *encoded.warnings]
    if doubts := observed.doubts(name):
        window, text = doubts[0]
        further = f", and {len(doubts) - 1} more" if len(doubts) > 1 else ""
        where = f"{in_frames(*window)} of the file"
        text = f"the tracker may be wrong in {where}: {text}{further}"
        warnings.append(Note(text, "doubtful"))
    return [*warnings, *_counting(encoded.history)]


def _counting(history: History) -> list[Note]:
    """Return what a reader must know of how frames and seconds are counted."""
    images = [NO_TIMES] if history.times_s is None and history.source_frames is not None else []
    return [*images, *([SAMPLED] if history.sampled else [])]


def _provenance(job: Job, observed: Observed, encoder: Encoder) -> Provenance:
    kinds: list[Sampling | EncoderOptions | TrackerOptions]
    kinds = [job.sampling, job.encoder_options]
    kinds += [job.where.options] if isinstance(job.where, AtPrompts | ByName) else []
    options = {name: value for kind in kinds for name, value in changed_options(kind).items()}
    on_disk = not observed.temporary and not observed.masks.in_memory
    masks = os.path.abspath(observed.masks.path) if on_disk else None
    path, prompts = os.path.abspath(observed.video.path), job.encoder_options.templates
    return Provenance(path, masks, observed.tracker, encoder.identity, prompts, options)


def saved_finding(source: Source) -> Finding | None:
    """Return the finding of an earlier run, or one with a history only; None for a video."""
    if isinstance(source, Finding | Video):
        return source if isinstance(source, Finding) else None
    if isinstance(source, History):
        return _only_history(source, None)
    path = Path(source)
    if holds_finding(path):
        return Finding.read(path)
    files = sorted(path.glob("*.history.npz")) if os.path.isdir(path) else []
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:3]) + (", …" if len(files) > 3 else "")
        raise InputError(f"{path}: holds the histories {names}; give one of them")
    path = files[0] if files else path
    if path.suffix.lower() != ".npz":
        return None
    history = read_history(path)
    folders = path.parent, path.with_name(path.name.removesuffix(".history.npz"))
    for folder in filter(holds_finding, folders):
        with contextlib.suppress(InputError):  # damaged; the history itself is sound
            finding = Finding.read(folder)
            before = finding.history
            if (before.id, before.made_with) == (history.id, history.made_with):
                return finding
    made_with = history.made_with or {}
    pixels = {key: made_with[key] for key in PIXELS if key in made_with}
    return _only_history(history, read_pictures(pictures_path(path), pixels))


def _only_history(history: History, pictures: Pictures | None) -> Finding:
    """Return a finding to which ``with_words`` adds a vocabulary and a timeline."""
    nothing: Any = None
    return Finding(
        history,
        nothing,
        nothing,
        *(pictures or Pictures({}, {})),
        warnings=(*history_warnings(history), *_counting(history)),
        provenance=Provenance(encoder=history.encoder),
    )
