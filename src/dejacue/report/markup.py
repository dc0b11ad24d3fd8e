"""Small pieces of HTML and SVG, with everything that comes from outside escaped."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dejacue.errors import InputError
from dejacue.records import Window
from dejacue.report.timeline import HEIGHT, WIDTH

MOST_LISTED = 20  # runs or references in words


def escaped(text: str) -> str:
    """User's words as HTML: nothing in them is markup, and every character may stand in XML."""
    plain = text.encode("utf-8", "replace").decode()
    return html.escape(re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]", "\ufffd", plain))


def section(name: str, *parts: str) -> str:
    return f"<section><h2>{name}</h2>{''.join(parts)}</section>"


def row(kind: str, label: str, track: str, scale: str = "") -> str:
    return (
        f'<div class="row {kind}"><div class="label">{label}</div>'
        f'<div class="track">{track}</div><div class="scale">{scale}</div></div>'
    )


def svg(body: str, attributes: str) -> str:
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none"'
    return f"<svg {box} {attributes}>{body}</svg>"


def figure(name: str, title: str, about: str, body: str, attributes: str = "") -> str:
    words = (
        f'<title id="{name}t">{escaped(title)}</title><desc id="{name}d">{escaped(about)}</desc>'
    )
    labels = f'class="timed" role="img" aria-labelledby="{name}t" aria-describedby="{name}d"'
    return svg(words + body, f"{labels} {attributes}".rstrip())


def picture(frame: int, data: bytes) -> str:
    kinds = {b"\xff\xd8\xff": "jpeg", b"\x89PNG": "png"}
    kind = next((kind for start, kind in kinds.items() if data.startswith(start)), None)
    if kind is None:
        raise InputError(f"the thumbnail of frame {frame} is neither JPEG nor PNG; encode it first")
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    pairs = (f"<dt>{escaped(k)}</dt><dd><bdi>{escaped(v)}</bdi></dd>" for k, v in rows)
    return f"<dl>{''.join(pairs)}</dl>"


def listed(kind: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    return f'<ul class="{kind}">{"".join(f"<li>{item}</li>" for item in items)}</ul>'


def cells(names: Sequence[str], cells: Sequence[str]) -> str:
    return "".join(
        f'<td class="number" data-name="{name}">{cell}</td>' if cell else "<td></td>"
        for name, cell in zip(names, cells, strict=True)
    )


def some(words: Sequence[str]) -> str:
    rest = len(words) - MOST_LISTED
    return ", ".join(words[:MOST_LISTED]) + (f" and {rest} more" if rest > 0 else "")


def spoken(windows: Iterable[Window]) -> str:
    return ", ".join(f"frames {w.start} to {w.end}" for w in windows) or "none"


def count(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Settings, some of them nested, as names with dots."""
    if isinstance(value, Mapping):
        for key, own in value.items():
            yield from flat(f"{name}.{key}" if name else str(key), own)
    else:
        yield (
            name,
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str),
        )
