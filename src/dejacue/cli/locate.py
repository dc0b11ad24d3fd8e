"""``dejacue locate``: calls find, then shows and writes what was found."""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table

from dejacue.cli.bars import Bars
from dejacue.cli.tables import (
    as_note,
    diagnostics_table,
    notes,
    say,
    say_written,
    show,
    timeline_table,
)
from dejacue.cli.track import summarise
from dejacue.errors import DejaCueError, InputError, MissingExtra
from dejacue.method.plan import as_readout
from dejacue.pipeline import Finding, Search
from dejacue.pipeline.finding import References, export_findings
from dejacue.records import Reference
from dejacue.report.clips import remove_clips
from dejacue.report.exports import EXPORTS, Export, all_notes, as_csv, as_json, export_for
from dejacue.sources.atomic import check_place
from dejacue.sources.files import file_name
from dejacue.sources.findings import DOCUMENT, history_path, holds_finding
from dejacue.sources.formats.registry import format_in
from dejacue.sources.results import read_references
from dejacue.sources.tracks import read_notes

TABLE = ".txt"


@dataclass(frozen=True)
class Wanted:
    """What is to be shown and written."""

    format: str | None = None
    output: Path | None = None
    plot: Path | None = None
    references: Path | None = None
    cut: bool = False
    ask: int | None = None


def run(source: Path, search: Search, wanted: Wanted) -> None:
    if wanted.plot is not None and wanted.plot.suffix.lower() != ".png":
        raise InputError(
            f"{wanted.plot}: the plot is written as PNG; give a name that ends in .png"
        )
    known = [] if wanted.references is None else _references(wanted.references, source)
    truth: dict[str, References] = {own.history_id: own.states for own in known}
    if _is_saved(source):
        folder, file = _places(wanted, saved=True)
        _check(file, folder, wanted, source, search)
        findings = search.findings()
        if wanted.cut and findings[0].made.video is None:
            raise InputError(f"{source}: is a history; --cut needs the video")
    else:
        folder, file, findings = _from_video(source, search, wanted)
    shown = [(own, _of(truth, own)) for own in findings]
    for finding, references in shown:
        place, several = None if file else folder, len(findings) > 1
        if place is not None and several:
            place /= file_name(finding.history.id)
        clips = place or (source if source.is_dir() else source.parent)
        _write(finding, references, place, wanted, several, clips / "clips")
    found = [finding.timeline for finding in findings]
    said = all_notes(found)
    if file is not None and (export := _format_of(file, wanted.format)) is not None:
        export_findings(findings, export, file)
        say_written(file)
    else:
        show(
            wanted.format,
            file,
            lambda: [table for own in shown for table in _tables(*own)],
            lambda: as_json(*found),
            lambda: as_csv(*found),
            "\n".join(map(as_note, said)),
        )
    if file is not None or wanted.format in ("json", "csv"):  # else they stand below the table
        notes(*said)
    if wanted.ask is not None:
        _ask(findings, wanted.ask)


def _references(path: Path, source: Path) -> list[Reference]:
    """Those of another tool may count in seconds, which the video or the history has."""
    timed = (own := format_in(path)) is not None and own.timed
    folder = _is_saved(source) and source.suffix.lower() != ".npz"
    return read_references(path, times=source if timed and not folder else None)


def _ask(findings: list[Finding], count: int) -> None:
    """Which frames a person should look at next, and how to answer."""
    for finding in findings:
        for question in finding.ask_next(count):
            at = question.frame if question.source is None else question.source
            likely = ", ".join(
                f"{state or 'none'} {100 * share:.0f} %"
                for state, share in question.expects.items()
            )
            when = "" if question.time_s is None else f" ({question.time_s:.2f} s)"
            say(
                f"ask: which state is frame {at}{when}? {likely}; answer with --example STATE={at}",
                stderr=True,
            )


def _from_video(
    source: Path, search: Search, wanted: Wanted
) -> tuple[Path, Path | None, list[Finding]]:
    """The folder of the history, the one file that is wanted instead of a report, the findings."""
    folder, file = _places(wanted)
    folder = folder or _default_folder(source, file_name(search.job.open().name))
    _check(file, None, wanted, source, search)
    with Bars() as bars:
        search = replace(search, folder=folder, pictures=file is None, progress=bars)
        findings = search.findings()
    if search.job.prompts and (tracked := read_notes(folder / "masks")):
        summarise(folder / "masks", tracked, stderr=True)
    for own in findings if file else ():
        say_written(history_path(folder, own.history.id), "history")
    return folder, file, findings


def _is_saved(source: Path) -> bool:
    """Whether it is what an earlier run has written, not a video."""
    return (
        source.suffix.lower() == ".npz"
        or holds_finding(source)
        or (os.path.isdir(source) and any(source.glob("*.history.npz")))
    )


def _default_folder(source: Path, name: str) -> Path:
    """out/NAME or, where that holds what was found in another video, a name of its own."""
    folder = Path("out") / name
    if holds_finding(folder):
        with contextlib.suppress(InputError):
            known, here = Path(Finding.read(folder).made.video or ""), Path(os.path.abspath(source))
            if here not in (known, known.parent) and known != here.parent:  # a folder, or a glob
                key = hashlib.sha256(os.path.abspath(source).encode()).hexdigest()[:6]
                return folder.with_name(f"{name}-{key}")
    return folder


def _check(
    file: Path | None, folder: Path | None, wanted: Wanted, source: Path, search: Search
) -> None:
    """Refuses, before the work, outputs that cannot be written or that are read here."""
    given = [source, search.vocabulary, search.job.masks, wanted.references]
    read = [own for own in given if isinstance(own, Path)]
    if wanted.ask is not None and wanted.ask < 1:
        raise InputError(f"--ask {wanted.ask}: give a number of frames, 1 or more")
    if wanted.ask is not None and not as_readout(search.reading.readout).takes_examples:
        raise InputError(
            "--ask works only with the readouts contrast and joint, which use the answers"
        )
    for place in (file, wanted.plot):
        if place is None:
            continue
        check_place(place)
        inputs = [own for own in read if own.exists()]
        own_document = place.name == DOCUMENT and holds_finding(place.parent)
        if own_document or (place.exists() and any(place.samefile(own) for own in inputs)):
            raise InputError(f"{place}: is read by this command; give another output")
    if folder is not None:
        check_place(folder, folder=True)


def _places(wanted: Wanted, saved: bool = False) -> tuple[Path | None, Path | None]:
    """A folder for the report, or one file; of a saved history, a file that is there stays one."""
    output = wanted.output
    if output is None or holds_finding(output) or (os.path.isdir(output) and not saved):
        return output, None
    if not output.suffix and not (saved and os.path.isfile(output)):
        return output, None
    _format_of(output, wanted.format)  # refused before the work
    return None, output


def _format_of(file: Path, format: str | None) -> Export | None:
    """What its ending asks for; None: what --format says, or the table."""
    if file.suffix.lower() in ("", TABLE):
        return None
    try:
        export = export_for(file)
    except InputError as error:
        if format is not None:
            return None
        raise InputError(f"{error}, {TABLE} (the table), or a folder") from None
    if format is not None and export is not EXPORTS.get(format):
        raise InputError(
            f"{file}: the suffix does not match --format {format}; leave one of them out"
        )
    return export


def _of(truth: dict[str, References], finding: Finding) -> References | None:
    """A file of a single history serves any."""
    return next(iter(truth.values())) if len(truth) == 1 else truth.get(finding.history.id)


def _write(
    finding: Finding,
    references: References | None,
    folder: Path | None,
    wanted: Wanted,
    several: bool,
    clips: Path,
) -> None:
    """The picture that is asked for, the clips and, in a folder, the report and all formats."""
    if wanted.plot is not None:
        stem = f"{wanted.plot.stem}-{file_name(finding.history.id)}"
        path = wanted.plot.with_stem(stem) if several else wanted.plot
        finding.plot(path, references=references)
        say_written(path, "plot")
    if folder is not None:
        write_folder(folder, finding, references)
    if wanted.cut:
        for path in finding.cut(clips):
            say_written(path, "clip")
    if folder is not None:
        say_written(folder / "report.html", "report")


def write_folder(folder: Path, finding: Finding, references: References | None) -> None:
    """Everything a reader or another tool may want."""
    finding.report(folder / "report.html", references=references)
    finding.plot(folder / "evidence.png", references=references)
    finding.write(folder)
    remove_clips(folder / "clips")  # of an earlier run
    for kind, export in EXPORTS.items():
        path = folder / f"timeline{export.suffix}"
        for suffix in (export.suffix, *export.also):
            (folder / f"timeline{suffix}").unlink(missing_ok=True)
        if export.asked:
            continue
        if export.timed and finding.history.times_s is None:
            continue
        try:
            finding.export(kind, path)
        except MissingExtra:
            continue
        except DejaCueError as error:
            notes(f"no {export.suffix}: {error}")


def _tables(finding: Finding, references: References | None) -> list[Table]:
    tables = [timeline_table(finding.timeline, references)]
    if any(interval.diagnostics for interval in finding):
        tables.append(diagnostics_table(finding.timeline))
    return tables
