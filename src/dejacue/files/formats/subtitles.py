"""SubRip .srt and WebVTT .vtt: a cue for each span, "STATE: DESCRIPTIONS".

With several objects a cue begins with the object and " · ". Times are milliseconds.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from dejacue.errors import InputError, named
from dejacue.files.formats.spans import Marks, Span, times

_TIME = r"(?:(\d{1,6}):)?(\d{1,2}):(\d{1,2})[.,](\d{3})"
_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
_AFTER_OBJECT = " · "


def write_vtt(marks: Marks) -> str:
    def escaped(text: str) -> str:
        return html.escape(_one_line(text), quote=False)

    notes = [f"NOTE {escaped(text)}\n" for text in marks.notes]
    return "\n".join(["WEBVTT\n", *notes, *_cues(marks, ".", escaped)])


def write_srt(marks: Marks) -> str:
    # "-->" in the text would begin another cue
    return "\n".join(_cues(marks, ",", lambda text: _one_line(text).replace("-->", "→")))


def _one_line(text: str) -> str:
    """Return the text on one line, since an empty line would end the cue."""
    return " ".join(text.encode("utf-8", "replace").decode().replace("\0", "\ufffd").split())


def _cues(marks: Marks, point: str, as_text: Callable[[str], str]) -> list[str]:
    marks.one_video("subtitles")
    several = len(marks.objects) > 1
    ordered = sorted(
        marks.spans,
        key=lambda span: (span.seconds, (span.object or "") if several else "", span.state),
    )
    cues = []
    for number, span in enumerate(ordered, start=1):
        start, end = (_stamp(time, point) for time in span.milliseconds)
        text = f"{span.object}{_AFTER_OBJECT}{span.state}" if several else span.state
        if span.descriptions:
            text += f": {' / '.join(span.descriptions)}"
        cues.append(f"{number}\n{start} --> {end}\n{as_text(text)}\n")
    return cues


def _stamp(milliseconds: int, point: str) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{rest:03}"


def read(text: str) -> list[Span]:
    """Return the cues of either; the state is what precedes the first ": ", or all of the text."""
    vtt = text.lstrip("\ufeff").startswith("WEBVTT")
    spans = []
    for block in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n").replace("\r", "\n")):
        lines = block.strip("\n").split("\n")
        at = next((n for n, line in enumerate(lines[:2]) if "-->" in line), None)
        if at is None:
            continue
        with named(f'cue "{lines[at].strip()}"'):
            match = _TIMES.fullmatch(lines[at])
            if match is None:
                raise InputError("is not two times in hours, minutes, seconds and milliseconds")
            start, end = _milliseconds(match.groups()[:4]), _milliseconds(match.groups()[4:])
            seconds = times(start, end, 1e-3)
            words = " ".join(lines[at + 1 :]).strip()
            if vtt:
                words = _unescaped(words)
            if not words:
                raise InputError("has no text; give the state")
        object, mark, rest = words.partition(_AFTER_OBJECT)
        state, _, sentences = (rest if mark else words).partition(": ")
        descriptions = tuple(filter(None, sentences.split(" / ")))
        spans.append(
            Span(state.strip(), None, seconds, object if mark else None, descriptions=descriptions)
        )
    if not spans:
        raise InputError("has no cue; a cue is a line with two times and -->, then a line of text")
    return spans


def _unescaped(text: str) -> str:
    """Return the text of a WebVTT cue without its tags and character references."""
    tagged, end, rest = text.rpartition(">")  # behind the last, each "<" would search to the end
    try:
        return html.unescape(re.sub("<[^>]*>", "", tagged + end) + rest)
    except ValueError:  # of a number of thousands of digits
        raise InputError("a character reference (&#…;) is no character; correct it") from None


def _milliseconds(parts: tuple[str, ...]) -> int:
    hours, minutes, seconds, rest = (int(part or 0) for part in parts)
    return 1000 * (60 * (60 * hours + minutes) + seconds) + rest
