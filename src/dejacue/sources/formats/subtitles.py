"""SubRip .srt and WebVTT .vtt: a cue for each span, "STATE: DESCRIPTIONS".

With several objects a cue begins with the object and " · ". Times are milliseconds.
"""

from __future__ import annotations

import html
import re

from dejacue.errors import InputError
from dejacue.sources.documents import named
from dejacue.sources.formats.spans import Marks, Span, times

_TIME = r"(?:(\d{1,6}):)?(\d{1,2}):(\d{1,2})[.,](\d{3})"
_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
BETWEEN = " · "


def write_vtt(marks: Marks) -> str:
    notes = [f"NOTE {_escaped(text)}\n" for text in marks.notes]
    return "\n".join(["WEBVTT\n", *notes, *_cues(marks, ".", _escaped)])


def write_srt(marks: Marks) -> str:
    return "\n".join(_cues(marks, ",", _line))


def _cues(marks: Marks, point: str, as_text: object) -> list[str]:
    marks.one_video("subtitles")
    several = len(marks.objects) > 1
    cues = []
    ordered = sorted(
        marks.spans, key=lambda own: (own.seconds, (own.object or "") if several else "", own.state)
    )
    for number, span in enumerate(ordered, start=1):
        start, end = (_stamp(own, point) for own in span.milliseconds)
        words = f"{span.object}{BETWEEN}{span.state}" if several else span.state
        told = f": {' / '.join(span.descriptions)}" if span.descriptions else ""
        text = as_text(words + told)  # type: ignore[operator]
        cues.append(f"{number}\n{start} --> {end}\n{text}\n")
    return cues


def _stamp(milliseconds: int, point: str) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{rest:03}"


def _line(text: str) -> str:
    """One line: an empty one would end the cue, and "-->" begin another."""
    line = " ".join(text.encode("utf-8", "replace").decode().replace("\0", "\ufffd").split())
    return line.replace("-->", "→")


def _escaped(text: str) -> str:
    line = " ".join(text.encode("utf-8", "replace").decode().replace("\0", "\ufffd").split())
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def read(text: str) -> list[Span]:
    """Cues of either; the state is what stands before the first ": ", or all of the text."""
    vtt = text.lstrip("\ufeff").startswith("WEBVTT")
    spans = []
    for block in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n").replace("\r", "\n")):
        lines = block.strip("\n").split("\n")
        at = next((n for n, line in enumerate(lines[:2]) if "-->" in line), None)
        if at is None:
            continue
        with named(f'cue "{lines[at].strip()}"'):
            found = _TIMES.fullmatch(lines[at])
            if found is None:
                raise InputError("is not two times in hours, minutes, seconds and milliseconds")
            one, other = found.groups()[:4], found.groups()[4:]
            seconds = times(_milliseconds(one), _milliseconds(other), 1e-3)
            words = " ".join(lines[at + 1 :]).strip()
            if vtt:
                words = html.unescape(re.sub("<[^>]*>", "", words))
            if not words:
                raise InputError("has no text; give the state")
        object, between, rest = words.partition(BETWEEN)
        state, _, told = (rest if between else words).partition(": ")
        spans.append(
            Span(
                state.strip(),
                None,
                seconds,
                object if between else None,
                descriptions=tuple(filter(None, told.split(" / "))),
            )
        )
    if not spans:
        raise InputError("has no cue; a cue is a line with two times and -->, then a line of text")
    return spans


def _milliseconds(parts: tuple[str, ...]) -> int:
    hours, minutes, seconds, rest = (int(part or 0) for part in parts)
    return 1000 * (60 * (60 * hours + minutes) + seconds) + rest
