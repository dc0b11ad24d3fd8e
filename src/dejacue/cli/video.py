"""``dejacue track`` and ``encode``: from a video to masks, and from masks to histories."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dejacue.atomic import check_place
from dejacue.cli import options as o
from dejacue.cli.tables import Bars, console, escape, notes, say
from dejacue.errors import InputError, counted

if TYPE_CHECKING:
    from dejacue.models.trackers import TrackNotes

MAX_LISTED_DOUBTS = 10
TRACK_SETTINGS = {**o.VIDEO_SETTINGS, **o.PRECISION}
ENCODE_SETTINGS = {**o.MASK_SETTINGS, **o.VIDEO_SETTINGS, **o.ENCODER_SETTINGS}


@o.takes("video", "box", "point", "tracker", *o.FRAMES)
def track(
    context: typer.Context,
    output: Annotated[Path, o.output("Folder for the masks, or .npz, or COCO .json.")],
    not_point: Annotated[o.Texts, o.object_option("Point x,y@FRAME outside the object.")] = None,
    mask: o.FirstMask = None,
    at: Annotated[
        int | None,
        o.object_option("Frame of the file for prompts without @FRAME (default: the first)."),
    ] = None,
    add: Annotated[
        o.Texts, o.object_option("Another piece of the object: a box, point or mask.")
    ] = None,
    presence: Annotated[
        float,
        o.object_option(
            "The object counts as seen where the tracker's confidence is at least this."
        ),
    ] = 0.5,
    backward: Annotated[
        bool,
        o.object_option(
            "Also track the object back to the first frame.", "--backward/--no-backward"
        ),
    ] = True,
    fallback: Annotated[
        bool,
        o.object_option(
            "sam2: fall back to the CPU when the GPU runs out of memory.", "--fallback"
        ),
    ] = False,
    device: o.Device = None,
    settings: Annotated[o.Texts, o.setting(TRACK_SETTINGS)] = None,
    *,
    box: o.Texts,
    point: o.Texts,
    tracker: str | None,
    **asked: Any,
) -> None:
    """Track an object through a video from a box, a click or a mask."""
    from dejacue.models.trackers import TrackerOptions
    from dejacue.models.trackers.follow import follow
    from dejacue.models.trackers.prompts import parse_prompts
    from dejacue.records import Note

    values = o.settings(settings, TRACK_SETTINGS)
    video = o.request(context, values=values, device=device, **asked).opened()
    clicks: dict[str, Any] = {"not_points": not_point or (), "masks": mask or ()}
    with Bars() as bars:
        tracked = follow(
            video,
            parse_prompts(box or (), point or (), at=at, adds=add or (), **clicks),
            output,
            tracker=tracker,
            options=TrackerOptions(device, values.get("precision"), presence, backward, fallback),
            progress=bars,
        )
    notes(*(Note(text, "doubtful") for text in (*video.problems, *tracked.problems)))
    summarise_tracking(tracked)
    say(f"masks: {output}")
    groups = tracked.seen_groups.values()
    if sum(map(len, groups)) > 1:
        choices = (f"--object {'+'.join(map(str, pieces))}" for pieces in groups)
        say(f"next, run dejacue find with {' or '.join(choices)}")


def summarise_tracking(tracked: TrackNotes, stderr: bool = False) -> None:
    """Say in how many frames each object is seen, and where the tracker may be wrong."""
    screen = console(stderr)
    count = len(tracked.frames)
    for root, pieces in tracked.seen_groups.items():
        for number in pieces:
            of = "" if number == root else f" (a piece of {root})"
            seen = tracked.objects[number].seen
            screen.print(escape(f"object {number}{of}: seen in {seen} of {count} frames"))
    doubts = tracked.doubts_of()
    if doubts:
        screen.print(f"{counted(len(doubts), 'doubt')} to check:")
    for number, doubt in doubts[:MAX_LISTED_DOUBTS]:
        named = f"object {number}: " if len(tracked.objects) > 1 else ""
        first, last = doubt.first, doubt.last
        when = f"frame {first}" if first == last else f"frames {first} – {last}"
        if (time_s := tracked.time_s(first)) is not None:
            when += f" ({time_s:.2f} s)"
        screen.print(escape(f"  {when}: {named}{doubt.text}"))
    if len(doubts) > MAX_LISTED_DOUBTS:
        screen.print(f"  … and {len(doubts) - MAX_LISTED_DOUBTS} more, in the notes")


@o.takes("video", "masks", "objects", *o.FRAMES, "encoder")
def encode(
    context: typer.Context,
    output: Annotated[
        Path | None, o.output("x.history.npz, or a folder for several objects.")
    ] = None,
    store: Annotated[Path | None, o.option("Store to add it to; created if missing.")] = None,
    replace: o.Replace = False,
    device: o.Device = None,
    settings: Annotated[o.Texts, o.setting(ENCODE_SETTINGS)] = None,
    **asked: Any,
) -> None:
    """Turn a video and the masks of an object into a history of features."""
    from dejacue.corpus.ingest.writer import check_room, open_store
    from dejacue.finding._encode import encode as encode_objects
    from dejacue.finding._encode import history_paths, history_warnings, left_out
    from dejacue.finding.locate import check_named, locate_object
    from dejacue.finding.request import check_encoder, loaded_encoder

    values = o.settings(settings, ENCODE_SETTINGS)
    request = o.request(context, values=values, device=device, **asked)
    # what is wrong with the input is said before a model is loaded
    if output is None and store is None:
        raise InputError("give a place for the history: -o x.history.npz, or --store FOLDER")
    opened = request.opened()
    check_encoder(request.encoder)
    if request.masks is None:
        check_named(opened, None)
    located = locate_object(opened, masks=request.masks, objects=request.objects)
    if output is not None:
        check_place(output, folder=output.suffix != ".npz")
    if store is not None:
        check_room(store, located.objects, replace)
    model = loaded_encoder(request.encoder)
    with contextlib.ExitStack() as stack:
        target = None if store is None else stack.enter_context(open_store(store, model))
        with Bars() as bars:
            histories = encode_objects(
                opened,
                located,
                model,
                max_fps=request.max_fps(model),
                folder=output,
                progress=bars,
            )
        if target is not None:
            added = list(histories.values())
            target.add(added, replace=replace, source=os.fspath(opened.path))
    notes(*left_out(opened, located, histories))
    notes(*(note for history in histories.values() for note in history_warnings(history)))
    paths = history_paths(output, histories)
    for id, history in histories.items():
        say(f"{paths.get(id, store)}: {history!r}")
