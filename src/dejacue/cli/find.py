"""``dejacue find`` and ``demo``: show and write what ``dejacue.find`` returns."""

from __future__ import annotations

import glob
import hashlib
import os
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dejacue
from dejacue.atomic import check_place, write_text
from dejacue.cli import options as o
from dejacue.cli.tables import (
    Bars,
    as_note,
    console,
    diagnostics_table,
    notes,
    objects_table,
    say,
    say_written,
    show,
    timeline_table,
    videos_table,
)
from dejacue.errors import DejaCueError, InputError, unknown
from dejacue.finding.request import FindRequest, Lazy, asked_fields, unwrapped

if TYPE_CHECKING:
    from dejacue.finding.finding import Finding, FindingStrip
    from dejacue.records import Reference
    from dejacue.report.exports import Export

Marks = dict[str | None, str]  # state → pictures, as they are typed
TABLE = ".txt"
VIDEO_HELP = (
    f"{asked_fields()['video'].help} Several have a folder each and one table. Then states, in "
    'words: "empty cup" "full cup".'
)
WORD_LISTS = (".yaml", ".yml", ".json")
KINDS_IN_FOLDER = ("json", "csv", "vtt")  # of the timeline
REPORT_MARK = b'<meta name="generator" content="dejacue">'
MAX_HEAD_BYTES = 1000  # of a report, in which the mark is
NO_ANSWER = 3  # exit code: the answer would be meaningless


class FoundFormat(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"
    labels = "labels"


def _readout_settings(name: str) -> list[str]:
    from dejacue.cli.readouts import setting_names
    from dejacue.method.localization import as_readout

    return setting_names(as_readout(name))


@dataclass(frozen=True)
class Outputs:
    """Says what ``find`` shows, asks and writes: its options beside those of a request.

    states   names of those that are typed, for whoever is asked to mark them
    words    a file and its text: the words that are typed
    """

    questions: Annotated[
        int | None,
        o.states_option("Also list this many frames whose state you should name as an example."),
    ] = None
    strip: Annotated[
        bool,
        o.states_option(
            "Also write strip.png: pictures side by side; a terminal asks which show which state.",
            "--strip",
        ),
    ] = False
    mark: Annotated[
        o.Texts,
        o.states_option(
            "STATE=PICTURES of the strip, from 1: full=3-6, empty=8-9,12; unmarked ones show no "
            "state."
        ),
    ] = None
    references: Annotated[
        Path | None,
        o.results_option("True windows (.json, .csv, .eaf, …) to show beside the results."),
    ] = None
    format: Annotated[
        FoundFormat | None,
        o.results_option(
            "Output format (default: by the suffix of --output, else table); labels: the state of "
            "every frame, as CSV.",
            "--format",
            "-f",
        ),
    ] = None
    output: Annotated[
        Path | None,
        o.output(
            "A file (.json, .csv, .txt, .vtt, .eaf, .parquet, …), or a folder for the report.",
            panel="Results",
        ),
    ] = None
    plot: Annotated[Path | None, o.results_option("Also plot the evidence to this PNG.")] = None
    embed: Annotated[
        bool,
        o.results_option("Put a small copy of the video into the report, to send it.", "--embed"),
    ] = False
    cut: Annotated[
        bool, o.results_option("Also cut the windows found into video clips.", "--cut")
    ] = False
    states: Collection[str] = ()
    words: tuple[Path, str] | None = None

    @cached_property
    def marks(self) -> Marks | None:
        return None if self.mark is None else _marks(self.mark)


@o.takes(
    *("states", "examples", "exhaustive", "like"),
    *("masks", "objects", "box", "point", "name", "whole", "fixed", "tracker"),
    *o.FRAMES,
    *("encoder", "readout"),
    beside=Outputs,
)
def find(
    context: typer.Context,
    video: Annotated[
        list[str],
        typer.Argument(
            metavar="VIDEO|STATE",
            help=VIDEO_HELP,
        ),
    ],
    state: Annotated[
        o.Texts,
        o.states_option(
            'A state in words, which may have a name and several descriptions: empty="empty cup".',
            "--state",
            "-s",
        ),
    ] = None,
    save_states: Annotated[
        Path | None, o.states_option("Also write the words that are typed to this .yaml file.")
    ] = None,
    change: Annotated[
        o.Texts, o.states_option("Frame (300) or time (4.5s) at which a state ends.")
    ] = None,
    mask: o.FirstMask = None,
    device: o.Device = None,
    settings: Annotated[
        o.Texts,
        o.setting(
            o.SETTINGS,
            "A setting of the readout (timeline: smoothing, bridge, order, irreversible, stay, "
            "switch; contrast: smoothing, pooling, bridge; scan: durations, norm, runs), or "
            f"{', '.join(o.SETTINGS)} (docs/commands.md).",
            _readout_settings,
        ),
    ] = None,
    *,
    readout: str,
    states: Path | None,
    examples: o.Texts,
    **asked: Any,
) -> None:
    """Find every time that each state holds.

    Where the answer of an object would be meaningless, none is given: all files say why, and the
    exit code is 3.

    With words: dejacue find kitchen.mp4 "empty cup" "full cup" --name cup

    From a file: dejacue find kitchen.mp4 --box 120,80,300,260@0 -v cup.yaml -o out

    Without: dejacue find kitchen.mp4 --whole --encoder lite --strip -o out
    """
    from dejacue.cli.readouts import readout_from
    from dejacue.files.histories import vocabulary_yaml
    from dejacue.method.localization import ReadOptions
    from dejacue.models.trackers import default_tracker
    from dejacue.records.vocabulary import NONE

    texts = dict(o.pairs(settings, "--set", "KEY=VALUE, as in --set smoothing=0.8s"))
    values = {key: o.setting_value(key, texts.pop(key)) for key in o.SETTINGS if key in texts}
    chosen, width = readout_from(readout, texts, o.SETTINGS)
    tracked = not (asked["masks"] or asked["whole"] or asked["fixed"])
    tracker_options: dict[str, Any] = {}
    if tracked and (asked["tracker"] or default_tracker()):  # device and precision are for it, too
        given = {"device": device, "precision": values.get("precision")}
        tracker_options = {name: value for name, value in given.items() if value is not None}
        if asked["encoder"] == "mini":
            device, values = None, values | {"precision": None}
    videos, words = videos_and_words(video)
    lists = [Path(text) for text in map(str, [*videos[1:], *words]) if text.endswith(WORD_LISTS)]
    videos = [video for video in videos if video not in lists]
    typed = _typed_states([*(word for word in words if Path(word) not in lists), *(state or ())])
    lists += [] if states is None else [states]
    if len(lists) + bool(typed) > 1:
        problem = "states are given in words, too" if typed else f"{lists[1]} is given, too"
        raise InputError(f"{lists[0]}: {problem}; leave one of them out")
    outputs = Outputs(**{name: asked.pop(name) for name in o.typed_fields(Outputs)}, states=typed)
    marking = outputs.strip or outputs.marks is not None
    if save_states is not None:
        _check_save(save_states, typed)
        object = asked["name"][0] if len(asked["name"] or ()) == 1 else None
        text = vocabulary_yaml(typed, object, exhaustive=asked["exhaustive"])
        outputs = replace(outputs, words=(save_states, text))
    shown: Any = _examples(examples)
    document: Any = typed or (lists[0] if lists else None)
    if len(typed) == 1 and shown:  # its examples come with it, since no other word stands beside it
        names = dict.fromkeys([*typed, *(name for name in shown if name != NONE)])
        taken = {n: {"words": typed.get(n, []), "examples": shown.pop(n, [])} for n in names}
        document, shown = {"states": taken, "none": shown.pop(NONE, [])}, {}
    elif len(typed) == 1 and marking:
        document = None  # the marks are to show it
    request = o.request(
        context,
        videos[:1],
        values,
        device,
        mask=mask,
        tracker_options=tracker_options,
        states=o.words_from(document, values, **({"changes": tuple(change)} if change else {})),
        examples=shown or None,
        readout=ReadOptions(
            readout=chosen,
            coordinates=values.get("coordinates"),
            smoothing=width,
            diagnostics=values.get("diagnostics", False),
            kernel=values.get("kernel", "auto"),
        ),
        **asked,
    )
    if outputs.marks is not None and len(videos) > 1:
        problem = f"marks are of one strip, but {len(videos)} videos are given"
        raise InputError(f"{problem}; give one of them")
    find_and_show([replace(request, video=path) for path in videos], outputs, marking=marking)


def videos_and_words(texts: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Return the videos that are named, and the words after them.

    What exists or matches a glob is a video, or a folder of them; so are the first text and one
    that ends as the name of a video does, whose absence is an error where it is opened.
    """
    from dejacue.studio.workspace import MEDIA
    from dejacue.video.images import SUFFIXES, is_image, natural

    videos: list[Path] = []
    words: list[str] = []
    endings = (*MEDIA, *SUFFIXES, ".npz")
    for at, text in enumerate(texts):
        path, found = Path(text), [] if os.path.exists(text) else glob.glob(text)
        if found and not any(map(is_image, found)):
            videos += natural(found)
        elif os.path.isdir(path):
            names = os.listdir(path)
            inside = [path / n for n in names if Path(n).suffix.lower() in MEDIA and n[0] != "."]
            kept = any(is_image(n) or n.endswith(".npz") or n == "finding.json" for n in names)
            videos += natural(inside) if inside and not kept else [path]
        elif at > 0 and path.suffix.lower() not in endings and not (os.path.exists(path) or found):
            words.append(text)
        else:
            videos.append(path)
    o.refuse_values(texts)
    if len(videos) > 1 and any(is_image(video) for video in videos):
        o.single_path(videos)
    return list(dict.fromkeys(videos)), words


def _typed_states(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the states and their descriptions of texts such as "empty cup", empty="empty cup"."""
    states: dict[str, list[str]] = {}
    for text in texts:
        name, mark, description = map(str.strip, text.partition("="))
        if not name or (mark and not description):
            form = '"empty cup", or with a name, empty="empty cup"'
            raise InputError(f'state "{text}": give {form}')
        states.setdefault(name, []).append(description or name)
    return states


def _check_save(path: Path, states: Mapping[str, Sequence[str]]) -> None:
    if not states:
        problem = "no states are given in words, which --save-states writes"
        raise InputError(f'{problem}; give them as in -s empty="empty cup"')
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise InputError(f"{path}: states are written as YAML; give a name that ends in .yaml")
    if os.path.lexists(path):
        raise InputError(f"{path}: already exists; give another name")
    check_place(path)
    dejacue.Vocabulary(states)  # refuses bad ones before they are written


def _examples(examples: o.Texts) -> dict[str, list[str]]:
    by_state: dict[str, list[str]] = {}
    form = "STATE=EXAMPLE, as in --example empty=120"
    for state, text in o.pairs(examples, "--example", form):
        if not text.strip():
            raise InputError(f'--example "{state}=": give {form}')
        by_state.setdefault(state, []).append(text)
    return by_state


def demo(output: Annotated[Path, o.output("Folder for the results.")] = Path("out/demo")) -> None:
    """Find the states of a cup in a short rendered video, and write a report."""
    from dejacue.demo import write_demo

    check_folder(output)
    scene = write_demo(output / "scene", overwrite=True)
    video, masks, words = scene / "scene.mp4", scene / "Annotations", scene / "vocabulary.yaml"
    truth = scene / "references.json"
    request = FindRequest(video, words, masks=masks, objects=[1], encoder="mini")
    find_and_show([request], Outputs(output=output, references=truth))
    say(
        f"again: dejacue find {video} --masks {masks} --object 1 --vocabulary {words} --encoder "
        f"mini --references {truth} --output {output}"
    )
    say(f"measure: dejacue evaluate {output / 'timeline.json'} {truth}")


def find_and_show(
    requests: Sequence[FindRequest], outputs: Outputs, *, marking: bool = False
) -> None:
    """Find in each video, write the files, the clips and the reports, and show the table.

    marking   states may be named on a strip
    """
    from dejacue.finding._find import saved_finding
    from dejacue.finding.finding import export_findings
    from dejacue.finding.request import loaded_encoder
    from dejacue.report._timeline import scores_of
    from dejacue.report.exports import all_notes, as_csv, as_json, labels_csv

    if outputs.plot is not None and outputs.plot.suffix.lower() != ".png":
        remedy = "give a name that ends in .png"
        raise InputError(f"{outputs.plot}: the plot is written as PNG; {remedy}")
    several = len(requests) > 1
    saved = saved_finding(requests[0].video)
    folder, file = _places(outputs, not several and saved is not None)
    found: list[tuple[Finding, Reference | None]] = []
    failed = False
    encoder: Any = None
    for request in requests:
        try:
            saved = saved_finding(request.video) if several else saved
            if several and saved is None and not request.like:
                encoder = encoder or loaded_encoder(request.encoder)  # once for all
                request = replace(request, encoder=Lazy(encoder, unwrapped(request.encoder)[1]))
            found += _find_in(request, saved, outputs, folder, file, several, marking)
        except InputError as error:  # what is wrong with one video does not concern the others
            if not several or not str(error).startswith(str(request.video)):
                raise
            failed = True
            say(f"dejacue: {error}", stderr=True)
    if outputs.words is not None and found:
        say_written(write_text(*outputs.words), "states")
    shown = [(finding, truth) for finding, truth in found if finding.timeline is not None]
    timelines = [finding.timeline for finding, _ in shown]
    findings = [finding for finding, _ in shown]
    sentences = all_notes(timelines)
    if file is not None and shown and (export := _export_for(file, outputs.format)) is not None:
        export_findings(findings, export, file)
        say_written(file)
    elif shown:
        pairs = [(finding.timeline, truth) for finding, truth in shown]
        tables = [videos_table(pairs)] if several else []
        for pair in pairs:
            tables += [] if several else [timeline_table(*pair)]
            if any(interval.diagnostics for interval in pair[0]):
                tables.append(diagnostics_table(pair[0]))
        scores = [(timeline.history_id, scores_of(timeline, truth)) for timeline, truth in pairs]
        histories = [finding.history for finding in findings]
        labels = outputs.format == FoundFormat.labels
        compared = [f"{name}: {score.sentence}" for name, score in scores if score is not None]
        show(
            "csv" if labels else outputs.format,
            file,
            lambda: tables,
            lambda: as_json(*timelines),
            lambda: labels_csv(timelines, histories) if labels else as_csv(*timelines),
            "\n".join([*compared, *map(as_note, sentences)]),
        )
    if file is not None or outputs.format not in (None, "table"):  # else they stand below the table
        notes(*sentences)
    for finding in [f for f in findings if outputs.questions and f.meaningless is None]:
        of = f" of {finding.history.id}" if len(findings) > 1 else ""
        for question in finding.next_question(outputs.questions or 0):
            at = question.frame if question.source is None else question.source
            when = "" if question.time_s is None else f" ({question.time_s:.2f} s)"
            asked = f"question: which state is frame {at}{of}{when}? {question.likely}"
            say(f"{asked}; answer with --example STATE={at}", stderr=True)
    if failed or any(finding.meaningless for finding, _ in found):
        raise typer.Exit(1 if failed else NO_ANSWER)


def _find_in(
    request: FindRequest,
    saved: Finding | None,
    outputs: Outputs,
    folder: Path | None,
    file: Path | None,
    several: bool,
    marking: bool,
) -> list[tuple[Finding, Reference | None]]:
    """Return the findings of one video, or of an earlier result, with their references, and write
    what goes beside the table; of several, each has a folder of its own below ``folder``."""
    from dejacue.files.formats.registry import format_in
    from dejacue.files.histories import file_name
    from dejacue.finding._find import check_same_video, read_again, replaced_video

    source = Path(str(request.video))
    o.check_utf8(str(source))  # a folder or a glob may hold anything
    references: dict[str, Reference] = {}
    if outputs.references is not None:  # those of another tool may count seconds of the video
        format = format_in(outputs.references)
        has_times = saved is None or source.suffix.lower() == ".npz"
        times = source if format is not None and format.timed and has_times else None
        listed = dejacue.files.read_references(outputs.references, times=times)
        references = {reference.history_id: reference for reference in listed}
    findings: Sequence[Finding]
    if saved is not None:
        if several and folder is not None:
            folder = folder / file_name(saved.history.id)
        _check(file, folder, outputs, request, saved, marking)
        findings = [read_again(saved, request, marking=marking)]
        if outputs.cut and findings[0].provenance.video is None:
            raise InputError(f"{source}: is a history; --cut needs the video")
    else:
        _check(file, None, outputs, request, saved, marking)
        name = file_name(request.opened().name)
        if folder is None or several:
            folder = (folder or Path("out")) / name
            if replaced_video(folder, source) is not None:  # of the same name, but another one
                key = hashlib.sha256(os.path.abspath(source).encode()).hexdigest()[:6]
                folder = folder.with_name(f"{name}-{key}")
        check_same_video(folder, source)
        if file is None:
            check_folder(folder)
        findings = _findings_of_video(request, folder, file, marking)
    beside = source if source.is_dir() else source.parent
    if marking:
        place = folder or (beside if file is None else file.parent)
        findings = _with_marks(findings, request, outputs, place)
    pairs = []
    for finding in findings:
        truth = references.get(finding.history.id)
        if len(references) == 1:  # a file of a single history serves any
            (truth,) = references.values()
        pairs.append((finding, truth))
        if finding.timeline is None:  # nothing is marked yet
            notes(*finding.warnings)
            continue
        name = file_name(finding.history.id) if len(findings) > 1 else ""
        if outputs.plot is not None:
            which = name or (file_name(finding.history.id) if several else "")
            plot = outputs.plot.with_stem(f"{outputs.plot.stem}-{which}") if which else outputs.plot
            say_written(finding.plot(plot, references=truth), "plot")
        own = None if file is not None or folder is None else folder / name
        if own is not None:
            write_folder(own, finding, truth, embed=outputs.embed)
        if outputs.cut:
            for clip in finding.cut((own or beside) / "clips"):
                say_written(clip, "clip")
        if own is not None:
            say_written(own / "report.html", "report")
    return pairs


def _marks(texts: Sequence[str]) -> Marks:
    """Return the marks of texts such as full=3-6 or empty=8-9,12."""
    form = "STATE=PICTURES, counted from 1, as in full=3-6 or empty=8-9,12"
    marks: Marks = {}
    for state, text in o.pairs(texts, "mark", form):
        marks[state] = f"{marks[state]},{text}" if state in marks else text
    return marks


def _with_marks(
    findings: Sequence[Finding], request: FindRequest, outputs: Outputs, place: Path
) -> list[Finding]:
    """Write the strip of each finding, and return the findings with what was marked on them."""
    from dejacue.files.histories import file_name

    if len(findings) > 1 and outputs.marks is not None:
        names = ", ".join(finding.history.id for finding in findings)
        problem = f"marks are of one strip, but there are several objects ({names})"
        raise InputError(f"{problem}; choose one with --object")
    answers = []
    options: dict[str, Any] = {"exhaustive": request.exhaustive, **request.reading}
    for finding in findings:
        of = f"-{file_name(finding.history.id)}" if len(findings) > 1 else ""

        def written(strip: FindingStrip, of: str = of) -> FindingStrip:
            kind = "strip" if strip.border is None else "border"  # --mark is of the strip
            say_written(strip.save(place / f"{kind}{of}.png"), kind)
            if strip.missing is not None:
                notes(strip.missing)
            return strip

        strip = finding.strip()
        if outputs.marks is not None:
            finding = _marked(finding, strip, outputs.marks, options)
            strip = finding.strip()  # with what is believed now
        if outputs.strip and finding.meaningless is None:
            written(strip)
        asking = finding.meaningless is None and outputs.marks is None
        if asking and is_interactive():
            while (marked := _asked(finding, strip, outputs.states, options)) is not None:
                finding = marked
                if not finding.borders():
                    break
                strip = written(finding.strip(8, border=finding.borders()[0]))
        elif asking:
            known = outputs.states if finding.vocabulary is None else finding.vocabulary.states
            examples = [f"{name}=3-6" for name in known][:1] or ["open=3-6", "closed=8-12"]
            form = " ".join(f"--mark {shlex.quote(text)}" for text in examples)
            say(f"mark its pictures: give the same command with {form}", stderr=True)
        answers.append(finding)
    return answers


def _marked(
    finding: Finding, strip: FindingStrip, marks: Marks, options: Mapping[str, Any]
) -> Finding:
    """Return the finding with the marks; refuse a name that is none of the states in words: on the
    command line it is misspelt."""
    from dejacue.records.vocabulary import NONE

    words = finding.vocabulary
    if words is not None and words.has_text:
        for state in marks:
            if state not in (None, NONE, *words.states):
                raise unknown("state", state, [*words.states, NONE])
    return finding.mark(strip, marks, **options)


def is_interactive() -> bool:
    """Return whether there is somebody to ask."""
    return sys.stdin is not None and sys.stdin.isatty()


def _asked(
    finding: Finding, strip: FindingStrip, names: Collection[str], options: Mapping[str, Any]
) -> Finding | None:
    """Return the finding with the marks that are given at the prompt; None for an empty line."""
    known = names if finding.vocabulary is None else finding.vocabulary.states
    states = ", ".join(map(shlex.quote, known)) or "each state"
    where = "" if strip.border is None else f" ({strip.border.side} of {strip.border.state})"
    question = f"which pictures{where} show {states}? (full=3-6 empty=8-9; Enter: no more)"
    while True:
        try:
            line = typer.prompt(question, default="", show_default=False, err=True)
        except (typer.Abort, EOFError):
            return None
        if not line.strip():
            return None
        try:
            return _marked(finding, strip, _marks(shlex.split(line)), options)
        except (InputError, ValueError) as error:  # the latter: a quote that does not end
            say(str(error), stderr=True)


def _findings_of_video(
    request: FindRequest, folder: Path, file: Path | None, marking: bool
) -> Sequence[Finding]:
    """Return the findings of a video; say where histories are if only a file is written."""
    from dejacue.cli.video import summarise_tracking
    from dejacue.files.findings import history_path
    from dejacue.finding._find import findings_of
    from dejacue.finding.by_name import read_search
    from dejacue.finding.locate import way_of
    from dejacue.models.trackers import read_notes

    with Bars() as bars:
        request = replace(request, folder=folder, progress=bars)
        findings = findings_of(request, pictures=file is None, marking=marking)
    way = way_of(**request.where)
    if way != "masks" and (tracked := read_notes(folder / "masks")):
        summarise_tracking(tracked, stderr=True)
        if way == "name" and (objects := read_search(folder / "masks")):
            console(stderr=True).print(objects_table(objects, tracked.seen_groups))
    for finding in findings if file else ():
        say_written(history_path(folder, finding.history.id), "history")
    return findings


def _check(
    file: Path | None,
    folder: Path | None,
    outputs: Outputs,
    request: FindRequest,
    saved: Finding | None,
    marking: bool,
) -> None:
    """Refuse, before the work, outputs that cannot be written or that are read here."""
    from dejacue.files.findings import DOCUMENT, holds_finding
    from dejacue.finding._find import names_states
    from dejacue.method.localization import DEFAULT_READOUT, as_readout
    from dejacue.method.strips import marked_states

    if outputs.questions is not None and outputs.questions < 1:
        raise InputError(f"--questions {outputs.questions}: give a number of frames, 1 or more")
    readout = as_readout(request.reading.get("readout", DEFAULT_READOUT))
    if outputs.questions is not None and not readout.takes_examples:
        problem = "--questions works only with the readouts timeline and contrast"
        raise InputError(f"{problem}, which use the answers")
    named = names_states(request)
    if saved is None and not (named or request.exhaustive or marking):
        request.opened()  # refuses a path that is none
        remedy = "give them in words, a vocabulary (-v), --example or --like, or mark a --strip"
        raise InputError(f"no states are named; {remedy}")
    if outputs.marks is not None and not named and (saved is None or saved.vocabulary is None):
        marked_states(outputs.marks)
    if marking and not readout.takes_examples:
        problem = "a strip works only with the readouts timeline and contrast"
        raise InputError(f"{problem}, which use the marks")
    parts = (request.video, request.states, request.masks)
    inputs = [*(unwrapped(part)[0] for part in parts), outputs.references]
    for place in filter(None, (file, outputs.plot)):
        check_place(place)
        document = place.name == DOCUMENT and holds_finding(place.parent)
        o.check_not_read(place, *inputs, place if document else None)
    if folder is not None:
        check_folder(folder)


def _places(outputs: Outputs, saved: bool) -> tuple[Path | None, Path | None]:
    """Return a folder for the report, or one file; of a saved history, an existing file stays."""
    from dejacue.files.findings import holds_finding

    output = outputs.output
    if output is None or holds_finding(output) or (os.path.isdir(output) and not saved):
        return output, None
    if not output.suffix and not (saved and os.path.isfile(output)):
        return output, None
    _export_for(output, outputs.format)  # refused before the work
    return None, output


def _export_for(file: Path, format: str | None) -> Export | None:
    """Return the export of a file's suffix; None: --format says which, or it is the table."""
    from dejacue.report.exports import EXPORTS, export_for

    if file.suffix.lower() in ("", TABLE):
        return None
    try:
        export = export_for(file)
    except InputError as error:
        if format is not None:
            return None
        error.args = (f"{error}, {TABLE} (the table), or a folder",)
        raise
    if format is not None and export is not EXPORTS.get(format):
        problem = f"the suffix does not match --format {format}"
        raise InputError(f"{file}: {problem}; leave one of them out")
    return export


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to, or that holds a report or timeline which nothing
    shows to be ours: neither a finding nor the mark of our report lies beside it."""
    from dejacue.files.findings import holds_finding

    check_place(folder, folder=True)
    report = folder / "report.html"
    if holds_finding(folder):
        return
    if report.is_file():
        with open(report, "rb") as stream:
            if REPORT_MARK in stream.read(MAX_HEAD_BYTES):
                return
    for path in (report, *(folder / f"timeline.{kind}" for kind in KINDS_IN_FOLDER)):
        if os.path.lexists(path):
            problem = "was not written by dejacue"
            if path != report:
                problem = "lies in a folder that has no finding of dejacue"
            problem += ", so it is not replaced"
            raise InputError(f"{path}: {problem}; give another folder")


def write_folder(
    folder: Path, finding: Finding, references: Reference | None, *, embed: bool = False
) -> None:
    """Write the report, the finding and the timeline for programs and players."""
    from dejacue.report.clips import remove_clips

    check_folder(folder)
    finding.report(folder / "report.html", references=references, embed=embed)
    finding.save(folder)
    remove_clips(folder / "clips")  # of an earlier run
    for kind in KINDS_IN_FOLDER:
        path = folder / f"timeline.{kind}"
        path.unlink(missing_ok=True)
        if kind != "vtt" or finding.history.times_s is not None:
            try:
                finding.export(path, kind)
            except DejaCueError as error:
                notes(f"no .{kind}: {error}")
