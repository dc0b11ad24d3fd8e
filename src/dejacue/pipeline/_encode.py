"""encode: the history of each object, in one pass over the video; what is finished is reused."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dejacue.errors import Cancelled, InputError
from dejacue.pipeline._observe import Observed
from dejacue.progress import Progress, silent
from dejacue.records import History
from dejacue.records.history import EVERY, LOOKED_AT, PROBLEMS
from dejacue.report.thumbnails import PictureMasks
from dejacue.sources.atomic import check_place
from dejacue.sources.build import Lineage, build_histories, kept, recipe
from dejacue.sources.encoders import Encoder
from dejacue.sources.files import read_history, write_history
from dejacue.sources.findings import (
    DOCUMENT,
    PIXELS,
    Pictures,
    history_path,
    pictures_path,
    read_pictures,
    write_pictures,
)
from dejacue.sources.masks import Masks
from dejacue.sources.video import Video

_log = logging.getLogger("dejacue")
MINI_ONLY_KNOWS = (
    "mini only knows the rendered scenes of this project; for real footage use --encoder siglip2"
)


@dataclass(frozen=True, eq=False)
class Encoded:
    """The history of one object, its file if it was written, and pictures if they were wanted."""

    history: History
    file: Path | None = None
    pictures: Pictures = field(default_factory=lambda: Pictures({}, {}))
    warnings: tuple[str, ...] = ()


def encode(
    video: Video,
    observed: Observed,
    encoder: Encoder,
    *,
    output: str | os.PathLike[str] | None = None,
    pictures: bool = True,
    every: int = 1,
    progress: Progress = silent,
) -> dict[str, Encoded]:
    """Histories by id.

    output   a folder, or the .npz file of a single history: what is there and up to date is taken,
             and what a stopped run has done; None: nothing is kept
    every    of so many frames one is looked at
    """
    video = video.thinned(every)
    observed = replace(observed, masks=observed.masks.thinned(every))
    names = observed.objects
    files = _files(output, names)
    recipes = {n: recipe(video, observed.masks, encoder, own) for n, own in names.items()}
    ready = {
        name: own
        for name, path in files.items()
        if (own := _up_to_date(path, encoder, recipes[name])) is not None
    }
    if ready:
        taken = ", ".join(str(files[name]) for name in ready)
        _log.info("reused %s: made from the same video, masks and options", taken)
    missing = {name: own for name, own in names.items() if name not in ready}
    seen: dict[str, Pictures] = {}
    warnings: list[str] = []
    if missing:
        asked = PictureMasks(observed.masks) if pictures else observed.masks
        made, said = _build(video, asked, encoder, missing, files, progress)
        warnings += said
        ready |= made
        if isinstance(asked, PictureMasks):
            seen = {name: asked.pictures(at) for at, name in enumerate(missing) if name in made}
    elif (partial := _partial_path(files)) is not None and partial.is_file():
        partial.unlink()  # of a run that was killed when all was written
    histories = {name: ready[name] for name in names if name in ready}
    if pictures:
        of = {name: {key: recipes[name][key] for key in PIXELS} for name in histories}
        seen = _pictures(video, observed, files, of, seen)
    return {
        name: Encoded(
            own,
            files.get(name),
            seen.get(name, Pictures({}, {})),
            (*warnings, *history_warnings(own)),
        )
        for name, own in histories.items()
    }


def _files(output: str | os.PathLike[str] | None, names: Mapping[str, Lineage]) -> dict[str, Path]:
    if output is None:
        return {}
    place = Path(output)
    if place.suffix != ".npz":
        return {name: history_path(place, name) for name in names}
    if len(names) > 1:
        raise InputError(
            f"{place}: is a file, but {len(names)} objects need a folder; give the name of a folder"
        )
    return dict.fromkeys(names, place)


def recorded(
    output: str | os.PathLike[str] | None, names: Mapping[str, Lineage]
) -> list[Mapping[str, str]]:
    """Return made_with of the histories that are at this place already."""
    found = []
    for path in filter(Path.is_file, _files(output, names).values()):
        with contextlib.suppress(InputError):  # whatever it is, it will be made again
            found.append(read_history(path).made_with or {})
    return found


def _partial_path(files: Mapping[str, Path]) -> Path | None:
    first = next(iter(files.values()), None)
    return None if first is None else first.with_name(f".{first.name}.partial")


def _build(
    video: Video,
    masks: Masks | PictureMasks,
    encoder: Encoder,
    lineages: dict[str, Lineage],
    files: Mapping[str, Path],
    progress: Progress,
) -> tuple[dict[str, History], list[str]]:
    """Makes the histories and, where they have files, writes them; with what must be said."""
    partial = _partial_path(files)
    if partial is not None:
        check_place(next(iter(files.values())))
        if before := kept(partial, encoder):
            _log.info("resuming after %d encoded crops", before)
    try:
        made = build_histories(
            video,
            masks,  # type: ignore[arg-type]
            encoder,
            lineages,
            partial=partial,
            progress=progress,
            croppers=min(16, os.cpu_count() or 1),
        )
    except (KeyboardInterrupt, Cancelled):
        done = 0 if partial is None else kept(partial, encoder)
        raise _cancelled(partial, done, video.length, len(lineages)) from None
    problems = "\n".join((*video.problems, *masks.problems))
    if problems:
        made = {
            name: replace(own, made_with={**(own.made_with or {}), PROBLEMS: problems})
            for name, own in made.items()
        }
    for name, history in made.items():
        if name in files:
            (files[name].parent / DOCUMENT).unlink(missing_ok=True)  # it speaks of another history
            write_history(files[name], history)
    if partial is not None:
        partial.unlink(missing_ok=True)
    warnings = [
        f"{video.path}: {name} is never visible in these frames; left out"
        for name in lineages
        if name not in made
    ]
    return made, warnings


def _cancelled(partial: Path | None, count: int, length: int | None, objects: int) -> Cancelled:
    if partial is None:
        return Cancelled("stopped; without a folder, nothing is kept")
    if not count:
        return Cancelled("stopped before anything was encoded")
    what = "frames" if objects == 1 else "crops"
    of = f"{count} {what}" if length is None else f"{count} of {length * objects} {what}"
    return Cancelled(f"stopped; {of} are kept in {partial} and will be reused")


def mini_warning(identity: str | None) -> list[str]:
    """What goes with every answer of mini; nothing for other encoders."""
    return [MINI_ONLY_KNOWS] if (identity or "").startswith("dejacue-mini@") else []


def history_warnings(history: History) -> list[str]:
    """What a reader must know of how a history was made, whenever that was."""
    made = history.made_with or {}
    found = mini_warning(history.encoder)
    found += made.get(PROBLEMS, "").splitlines()
    frames = history.frames_looked_at or 0
    if every := made.get(EVERY):
        found.append(
            f"only one in {every} frames was used ({frames} in all), so that a CPU takes about as "
            "long as the video lasts; --stride 1 uses all"
        )
    if 2 * len(history) < frames:
        found.append(f"{history.id} is seen in only {len(history)} of {frames} frames")
    return found


def _up_to_date(path: Path, encoder: Encoder, made_with: dict[str, str]) -> History | None:
    """The history in a file, if it was made from the same pixels in the same way."""
    if not path.is_file():
        return None
    try:
        found = read_history(path)
    except InputError:
        return None  # whatever it is, it will be made again
    of_the_pass = (LOOKED_AT, PROBLEMS)
    made = {key: text for key, text in (found.made_with or {}).items() if key not in of_the_pass}
    return found if made == made_with and found.encoder == encoder.identity else None


def _pictures(
    video: Video,
    observed: Observed,
    files: Mapping[str, Path],
    of: Mapping[str, dict[str, str]],
    seen: dict[str, Pictures],
) -> dict[str, Pictures]:
    """Of each object: those just seen, those of an earlier run or, where these are gone, from a
    pass of their own; kept beside the history."""
    places = {name: pictures_path(files[name]) for name in of if name in files}
    before = {
        name: own
        for name, place in places.items()
        if name not in seen and (own := read_pictures(place, of[name])) is not None
    }
    gone = {n: observed.objects[n] for n in of if n not in seen and n not in before}
    if gone:
        watched = PictureMasks(observed.masks)
        for frame in video:
            watched.unions(frame, list(gone.values()))
        seen = seen | {name: watched.pictures(at) for at, name in enumerate(gone)}
    for name, own in seen.items():
        if name in places:
            write_pictures(places[name], own, of[name])
    return before | seen
