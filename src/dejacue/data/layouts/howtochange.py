"""HowToChange: howtochange_eval.csv, a line for each clip, its states in seconds from its start.

Seconds become frames by the rule of the data set: at one frame a second, the interval [s, e] holds
from round(s) to round(e) − 1. A clip is VIDEO_NAME.mp4, or start_time to start_time + duration of
VIDEO_ID.mp4, anywhere in the folder; where it is not here, the windows count seconds.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from dejacue.data.layouts._labels import told, words_in
from dejacue.data.layouts._records import Clip, Dataset, check
from dejacue.data.layouts._seconds import SLACK_S, SUFFIXES, videos_in
from dejacue.errors import DejaCueError, InputError
from dejacue.records import Window
from dejacue.sources.documents import named, parse_json, read_text

FILE = "howtochange_eval.csv"
STATES = ("initial_state", "transitioning_state", "end_state")
COLUMNS = ("video_name", "video_id", "start_time", "duration", *STATES, "osc")
NEEDS = f"{FILE}, and the clips anywhere below"


def recognise(folder: Path) -> bool:
    return (folder / FILE).is_file()


def read(folder: Path) -> Dataset:
    path = folder / FILE
    rows = csv.DictReader(io.StringIO(read_text(path), newline=""))
    lacking = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
    if lacking:
        raise InputError(f"{path}: has no column {', '.join(lacking)}; is it the file of the set?")
    videos = videos_in(folder)
    words, problems = words_in(folder, STATES)
    clips: list[Clip] = []
    missing: list[str] = []
    for row in rows:
        osc = row["osc"] or ""
        try:
            with named(f"line {rows.line_num}"):
                clips.append(_clip(row, videos, words.get(osc.replace(" ", "_"))))
        except DejaCueError as error:
            problems.append(f"{FILE}, {error}")
            continue
        if clips[-1].video is None:
            missing.append(f"{clips[-1].id}: its video is missing")
    check(folder, problems)
    clips = _distinct(clips)
    return Dataset("howtochange", folder, tuple(clips), tuple(missing))


def _distinct(clips: list[Clip]) -> list[Clip]:
    """A clip that is there for several changes is a history for each."""
    times = Counter(clip.id for clip in clips)
    return [
        clip if times[clip.id] == 1 else replace(clip, id=f"{clip.id}-{clip.more['osc']}")
        for clip in clips
    ]


def _clip(row: dict[str, Any], videos: dict[str, list[Path]], words: Any) -> Clip:
    name, source, osc = (str(row[key] or "").strip() for key in ("video_name", "video_id", "osc"))
    if not name:
        raise InputError("has no video_name")
    start_s, duration_s = _number(row, "start_time"), _number(row, "duration")
    windows = {state: own for state in STATES if (own := _windows(row, state, duration_s))}
    if name.lower().endswith(SUFFIXES):
        name = Path(name).stem
    found = next(iter(videos.get(name, ())), None)
    sampling: dict[str, Any] = {"fps": 1.0}
    if found is None and source in videos:
        found = videos[source][0]
        sampling |= {"start_s": start_s, "end_s": start_s + duration_s}
    more = {"osc": osc}
    if row.get("is_novel_osc"):
        more["is_novel_osc"] = str(row["is_novel_osc"]).strip()
    return Clip(
        name,
        video=None if found is None else str(found),
        states=told(windows, words),
        in_seconds=True,
        vocabulary=words,
        component=source or name,
        sampling=sampling,
        more=more,
    )


def _number(row: dict[str, Any], key: str) -> float:
    try:
        value = float(row[key])
        if value >= 0 and math.isfinite(value):
            return value
    except (TypeError, ValueError):
        pass
    raise InputError(f'{key} "{row[key]}" is not a number of seconds')


def _windows(row: dict[str, Any], state: str, duration_s: float) -> tuple[Window, ...]:
    """Seconds of the clip in which it holds, by the rule of the data set."""
    text = (row[state] or "").strip() or "[]"
    spans = parse_json(text)
    if not isinstance(spans, list):
        raise InputError(f'{state} "{text}" is not a list of [start, end]')
    found = []
    for span in spans:
        numbers = isinstance(span, list) and all(type(own) in (int, float) for own in span)
        if not numbers or len(span) != 2 or not 0 <= span[0] <= span[1]:
            raise InputError(f"{state} {span!r:.40} is not [start, end] in seconds")
        if span[1] > duration_s + SLACK_S:
            raise InputError(f"{state} ends at {span[1]} s, but the clip lasts {duration_s:g} s")
        first, last = round(span[0]), round(span[1]) - 1
        if first <= last:  # shorter than the rule can hold
            found.append(Window(first, last))
    return tuple(found)
