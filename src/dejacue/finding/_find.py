"""find(): the whole path from a video and words to a Finding.

open_video ──▶ locate_object ──▶ encode ──▶ read
Video          Masks             History    Timeline

It calls the stages one after the other, checks what can be checked before each of them, and adds
what a reader must know.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
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
    encode,
    history_warnings,
    left_out,
    pictures_of,
    with_interval_pictures,
)
from dejacue.finding._readout import (
    Examples,
    VocabularySource,
    encode_words,
    load_words,
    name_of,
    read,
)
from dejacue.finding.finding import (
    Finding,
    FindingStrip,
    Like,
    check_teachers,
    read_teachers,
    teacher_notes,
)
from dejacue.finding.locate import (
    MaskSource,
    Objects,
    check_named,
    locate_object,
    models_for,
    way_of,
)
from dejacue.finding.request import (
    FindRequest,
    Lazy,
    Sampling,
    default_encoder_of,
    loaded_encoder,
    unwrapped,
)
from dejacue.masks import Masks
from dejacue.method.localization import Plan, ReadOptions
from dejacue.method.readout import Readout, in_frames
from dejacue.method.timeline import Reading
from dejacue.models.catalogue import check_models
from dejacue.models.detectors.base import Detector
from dejacue.models.encoders import Encoder, encoder_name
from dejacue.models.trackers import Prompt, Tracker
from dejacue.progress import Progress, default_progress
from dejacue.records import History, Note, Vocabulary, Window
from dejacue.records.vocabulary import NONE
from dejacue.report.thumbnails import PictureAlbum
from dejacue.video.video import Video

if TYPE_CHECKING:
    from dejacue.finding.request import Source

ALL_FRAMES = Sampling()
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
    states: VocabularySource | Lazy | None = None,
    *,
    examples: Examples | None = None,
    like: Like | Sequence[Like] = (),
    order: Sequence[str] | None = None,
    exhaustive: bool = False,
    masks: MaskSource | Lazy | None = None,
    objects: Objects = None,
    box: Sequence[float] | None = None,
    point: Sequence[float] | None = None,
    prompts: Prompt | Sequence[Prompt] = (),
    name: str | Sequence[str] | None = None,
    whole: bool = False,
    fixed: bool = False,
    start: int | str | None = None,
    end: int | str | None = None,
    fps: float | None = None,
    sampling: Sampling = ALL_FRAMES,
    encoder: Encoder | str | Lazy | None = None,
    tracker: Tracker | str | Lazy | None = None,
    detector: Detector | str | None = None,
    readout: str | Readout | ReadOptions = "timeline",
    folder: StrPath | None = None,
    progress: Progress | None = None,
) -> Finding:
    """Find when an object of a video is in which state.

    video         a path (file, folder of images, glob) or an opened Video; frames as an array
                  (T, H, W, 3) with fps, a list or generator of them, or the decoder of another
                  library (decord, torchcodec); or a History, a Finding
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

    >>> from dejacue.demo import write_demo
    >>> scene = write_demo("cup", overwrite=True)
    >>> video, words, masks = scene / "scene.mp4", scene / "vocabulary.yaml", scene / "Annotations"
    >>> finding = find(video, words, masks=masks, objects=[1], encoder="mini")
    >>> [(interval.state, round(interval.start_s, 2)) for interval in finding]
    [('full', 0.0), ('half full', 3.42), ('empty', 6.33)]
    """
    return find_one(FindRequest(**locals()))


def find_each(
    video: Source,
    states: VocabularySource | Lazy | None = None,
    *,
    objects: Objects = "all",
    **options: Any,
) -> list[Finding]:
    """Return a Finding for each object, in one pass over the video; options are those of ``find``.

    objects   "all" (the default: each mask id is one), ids that are one object, or "1,2" and
              [[1], [2]] for several

    >>> from dejacue.demo import write_demo
    >>> scene = write_demo("cup", overwrite=True)
    >>> video, words, masks = scene / "scene.mp4", scene / "vocabulary.yaml", scene / "Annotations"
    >>> [finding.history.id for finding in find_each(video, words, masks=masks, encoder="mini")]
    ['scene-1']
    """
    return find_all(FindRequest(video, states, objects=objects, **options))


def strip(video: Source, *, pictures: int = 12, **options: Any) -> FindingStrip:
    """Return pictures of the object side by side, on which you mark the states; none is needed
    before.

    video     as ``find`` takes it
    options   of ``find``: where the object is (box, masks, whole, …), encoder, folder, …

    >>> from dejacue.demo import write_demo
    >>> scene = write_demo("cup", overwrite=True)
    >>> pictures = strip(scene / "scene.mp4", masks=scene / "Annotations", encoder="mini")
    >>> finding = pictures.mark(full="1-6", empty="11, 12")
    >>> [interval.state for interval in finding]
    ['full', 'empty']
    """
    request = FindRequest(video, **options)
    if request.folder is not None:
        check_same_video(request.folder, video)
    saved = saved_finding(video)
    if saved is not None:
        return (read_again(saved, request) if options else saved).strip(pictures)
    (finding,) = findings_of(request, single=True, marking=True)
    return finding.strip(pictures)


def find_one(request: FindRequest) -> Finding:
    """Return the only finding; that of a video is written to the folder."""
    if request.folder is not None:
        check_same_video(request.folder, request.video)
    saved = saved_finding(request.video)
    if saved is not None:
        return read_again(saved, request)
    (finding,) = findings_of(request, single=True)
    if request.folder is not None:
        finding.save(request.folder)
    return finding


def find_all(request: FindRequest) -> list[Finding]:
    """Return a finding for each object."""
    if request.folder is not None:
        check_same_video(request.folder, request.video)
    saved = saved_finding(request.video)
    return findings_of(request) if saved is None else [read_again(saved, request)]


def findings_of(
    request: FindRequest, *, single: bool = False, pictures: bool = True, marking: bool = False
) -> list[Finding]:
    """Return a finding for each object of a video.

    single     several are refused
    pictures   whether a few are kept for the report
    marking    states may be named on a strip instead: where none are, the findings have neither a
               vocabulary nor a timeline yet
    """
    reading, where, folder = request.reading, request.where, request.folder
    readout = Plan.of(**reading).readout  # refuses what does not fit before anything is opened
    way, progress = way_of(**where), request.progress or default_progress()
    like, (states, of_words) = read_teachers(request.like), unwrapped(request.states)

    # the video and the words
    video = request.opened()
    if folder is not None:
        check_place(folder, folder=True)
    vocabulary: Any = None
    if names_states(request) or not marking:
        vocabulary = load_words(
            states,
            examples=request.examples,
            like=like,
            exhaustive=request.exhaustive,
            **of_words,
        )
        _check_examples(vocabulary, video)

    # what is wrong with the input is said before a model is loaded and an object followed
    if way == "name":
        if vocabulary is not None and not where["name"]:
            where["name"] = vocabulary.object
        check_named(video, where["name"])
    part = request.encoder
    if unwrapped(part)[0] is None and like:
        part = Lazy(encoder_name(like[0].history), unwrapped(part)[1])
    _check_weights(part, way, where)
    masks = locate_object(video, **where) if way == "masks" else None
    encoder = loaded_encoder(part)
    check_teachers(like, encoder)
    word_notes: tuple[Note, ...] = ()
    words, templates = name_of(states), of_words.get("templates")
    if vocabulary is not None:
        vocabulary, word_notes = encode_words(
            vocabulary,
            encoder,
            like=() if states is None else like,
            templates=templates,
            name=words,
            video=str(video.path),
        )
        _check_examples(vocabulary, video)  # those from elsewhere may be of this video
        if isinstance(readout, Reading):
            readout.nodes(vocabulary)  # refuses an order of other states

    # Masks
    if masks is None:
        masks = locate_object(video, **where, encoder=encoder, folder=folder, progress=progress)
    if single and len(masks.objects) > 1:
        problem = f"holds {', '.join(masks.objects)}, but find returns one"
        raise InputError(f"{video.path}: {problem}; use find_each for all")

    # History
    facts = [*vocabulary.frame_examples, *vocabulary.changes] if vocabulary is not None else []
    max_fps = request.max_fps(encoder)
    if facts and max_fps is not None:  # of the file: all frames are looked at
        max_fps = None if any(fact.unit != "frames" for fact in facts) else math.inf
    album = PictureAlbum()
    histories = encode(
        video,
        masks,
        encoder,
        max_fps=max_fps,
        folder=folder,
        named=facts,
        watch=album.watch if pictures else None,
        progress=progress,
    )
    seen = pictures_of(video, masks, histories, album, folder) if pictures else {}

    # Timeline, Finding
    path, stream = isinstance(request.video, str | os.PathLike), request.sampled.stream
    provenance = _provenance(request, part, masks, video, encoder, templates)
    notes, findings = (*masks.notes, *left_out(video, masks, histories)), []
    for id, history in histories.items():
        shown_in, timeline = seen.get(id, Pictures({}, {})), None
        if vocabulary is not None:
            timeline = read(history, vocabulary, names=(str(video.path), words), **reading)
            if pictures and path and stream is None:
                shown_in = with_interval_pictures(shown_in, video, masks, history, timeline)
        doubts = masks.doubts.get(id, ())
        warnings = (
            *notes,
            *history_warnings(history),
            *doubt_notes(doubts),
            *_counting(history),
            *word_notes,
            *teacher_notes(like, history),
        )
        found: Any = timeline
        findings.append(
            Finding(history, vocabulary, found, *shown_in, doubts, warnings, provenance)
        )
        progress("read", len(findings), len(histories), "")
    return findings


def read_again(saved: Finding, request: FindRequest, *, marking: bool = False) -> Finding:
    """Return the finding of an earlier run, or of a history, for what is asked now."""
    source, reading, like = request.video, request.reading, read_teachers(request.like)
    Plan.of(**reading)
    states, of_words = unwrapped(request.states)
    way, sampling = way_of(**request.where), request.sampled
    place = named(saved.history.id)
    if isinstance(source, str | os.PathLike):
        place = in_file(source)
    unused = [*sampling.changed, *([] if request.objects in (None, "all") else ["object"])]
    named_now = names_states(request)
    with place:
        if way != "name" or request.name:
            raise InputError("is a history, which needs no masks or boxes; leave them out")
        if not named_now and not request.exhaustive and unwrapped(request.encoder)[0] is not None:
            problem = "without other words nothing is encoded, so encoder has no effect"
            raise InputError(f"{problem}; leave it out, or give words")
        if marking and not named_now and saved.vocabulary is None:
            problem = "has no states yet, and on a history alone none can be marked"
            raise InputError(f"{problem}; give the video instead, or a vocabulary")
        if unused:
            problem = f"is a history, so {unused[0]} has no effect"
            raise InputError(f"{problem}; leave it out, or give the video instead")
    return saved.with_words(
        states,
        examples=request.examples,
        like=like,
        exhaustive=request.exhaustive,
        encoder=request.encoder,
        name=place.name,
        **of_words,
        **reading,
    )


def names_states(request: FindRequest) -> bool:
    """Return whether words, examples or other findings say what the states are."""
    states, of_words = unwrapped(request.states)
    teachers = not isinstance(request.like, list | tuple) or len(request.like) > 0
    return states is not None or bool(request.examples or of_words.get("changes")) or teachers


def _check_weights(encoder: Encoder | str | Lazy | None, way: str, where: dict[str, Any]) -> None:
    """Refuse, before anything is decoded, to go on without all weights that are needed where the
    user names no model."""
    default = default_encoder_of(encoder)
    models = {} if default is None else {"encoder": default}
    models |= models_for(way, where["name"], where["tracker"], where["detector"])
    alone = list(models) == ["tracker"]  # it is looked for when the prompts are checked
    if models and not alone:
        check_models(**models)


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


def doubt_notes(doubts: Sequence[tuple[Window, str]]) -> list[Note]:
    """Return a note of the first doubt of a tracker, which counts the others."""
    if not doubts:
        return []
    window, text = doubts[0]
    further = f", and {len(doubts) - 1} more" if len(doubts) > 1 else ""
    where = f"{in_frames(*window)} of the file"
    return [Note(f"the tracker may be wrong in {where}: {text}{further}", "doubtful")]


def _counting(history: History) -> list[Note]:
    """Return what a reader must know of how frames and seconds are counted."""
    images = [NO_TIMES] if history.times_s is None and history.source_frames is not None else []
    return [*images, *([SAMPLED] if history.sampled else [])]


def _provenance(
    request: FindRequest,
    part: Encoder | str | Lazy | None,
    masks: Masks,
    video: Video,
    encoder: Encoder,
    templates: str | None,
) -> Provenance:
    used = {**request.sampled.changed, **unwrapped(part)[1], "templates": templates}
    if request.masks is None and not (request.whole or request.fixed):
        used |= unwrapped(request.tracker)[1]
    options = {name: str(value) for name, value in used.items() if value is not None}
    on_disk = not masks.temporary and not masks.in_memory
    path = os.path.abspath(masks.path) if on_disk else None
    video_path = None if video.in_memory else os.path.abspath(video.path)
    return Provenance(video_path, path, masks.tracker, encoder.identity, templates, options)


def saved_finding(source: Source) -> Finding | None:
    """Return the finding of an earlier run, or one with a history only; None for a video."""
    if isinstance(source, Finding | Video):
        return source if isinstance(source, Finding) else None
    if isinstance(source, History):
        return _only_history(source, None)
    if not isinstance(source, str | os.PathLike):  # frames
        return None
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
