"""``dejacue track``."""

from __future__ import annotations

from pathlib import Path

from rich.markup import escape

from dejacue.cli.bars import Bars
from dejacue.cli.tables import console, say
from dejacue.cli.tables import notes as say_notes
from dejacue.pipeline import Job, track
from dejacue.report.track_sheet import sheet_path
from dejacue.sources.tracks import Notes

DOUBTS_SHOWN = 10


def run(job: Job, output: Path) -> None:
    """Masks, notes and contact sheet, and a summary of them."""
    with Bars() as bars:
        found = track(
            job.open(),
            job.prompts,
            output,
            tracker=job.tracker,
            options=job.tracker_options,
            progress=bars,
        )
    notes = found.notes
    say_notes(*found.warnings)
    summarise(output, notes)
    say(f"masks: {output}")
    if sum(map(len, notes.shown.values())) > 1:
        together = ("+".join(map(str, own)) for own in notes.shown.values())
        hint = " or ".join(f"--object {ids}" for ids in together)
        say(f"next, run dejacue locate with {hint}")


def summarise(output: Path, notes: Notes, stderr: bool = False) -> None:
    """In how many frames each object is seen, and where to look."""
    screen = console(stderr)
    count = len(notes.frames)
    for root, pieces in notes.shown.items():
        for one in pieces:
            of = "" if one == root else f" (a piece of {root})"
            seen = notes.objects[one].seen
            screen.print(escape(f"object {one}{of}: seen in {seen} of {count} frames"))
    doubts = notes.doubts_of()
    if doubts:
        screen.print(f"{len(doubts)} doubt{'s' if len(doubts) > 1 else ''} to check:")
    for one, doubt in doubts[:DOUBTS_SHOWN]:
        named = f"object {one}: " if len(notes.objects) > 1 else ""
        screen.print(escape(f"  {_when(notes, doubt.first, doubt.last)}: {named}{doubt.text}"))
    if len(doubts) > DOUBTS_SHOWN:
        screen.print(f"  … and {len(doubts) - DOUBTS_SHOWN} more, in the notes")
    say(f"contact sheet: {sheet_path(output)}", stderr)


def _when(notes: Notes, first: int, last: int) -> str:
    frames = f"frame {first}" if first == last else f"frames {first} – {last}"
    time_s = notes.time_s(first)
    return frames if time_s is None else f"{frames} ({time_s:.2f} s)"
