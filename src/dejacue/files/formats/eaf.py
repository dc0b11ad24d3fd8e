"""ELAN .eaf: a tier for each state, its spans as annotations in milliseconds.

The tier's participant is the object, the value of an annotation its descriptions. Annotations of a
tier do not overlap in ELAN; those that do go to a tier "STATE (2)". Notes are properties of the
header. The date is always the same, so that the same answer gives the same bytes.
"""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from dejacue.errors import InputError, named
from dejacue.files.formats.spans import Marks, Span, add, as_xml, parse_xml, times
from dejacue.records._html import printable

_SCHEMA = "http://www.mpi.nl/tools/elan/EAFv2.8.xsd"
_XSI = "http://www.w3.org/2001/XMLSchema-instance"
_TYPES = {".mp4": "video/mp4", ".mov": "video/quicktime", ".mpg": "video/mpeg"}
_NUMBERED_TIER = re.compile(r"(?s)(.*) \(\d+\)")
_ALIGNED = "ANNOTATION/ALIGNABLE_ANNOTATION"
_NOTE = "dejacue.note"
_TIER_TYPE = "state"  # of tiers that dejacue writes


def write(marks: Marks) -> str:
    video = marks.one_video("annotations")
    root = Element(
        "ANNOTATION_DOCUMENT",
        {
            "AUTHOR": "dejacue",
            "DATE": "1970-01-01T00:00:00+00:00",
            "FORMAT": "2.8",
            "VERSION": "2.8",
            "xmlns:xsi": _XSI,
            "xsi:noNamespaceSchemaLocation": _SCHEMA,
        },
    )
    header = add(root, "HEADER", MEDIA_FILE="", TIME_UNITS="milliseconds")
    if video is not None:
        url = Path(video).absolute().as_uri() if "://" not in video else video
        kind = _TYPES.get(Path(video).suffix.lower(), "unknown")
        add(
            header,
            "MEDIA_DESCRIPTOR",
            MEDIA_URL=printable(url),
            MIME_TYPE=kind,
            RELATIVE_MEDIA_URL=f"./{printable(Path(video).name)}",
        )
    for note in marks.notes:
        add(header, "PROPERTY", printable(note), NAME=_NOTE)
    order = add(root, "TIME_ORDER")
    number = 0
    for (object, name), spans in _tiers(marks).items():
        tier = add(root, "TIER", LINGUISTIC_TYPE_REF=_TIER_TYPE, TIER_ID=name, PARTICIPANT=object)
        for span in spans:
            number += 1
            slots = f"ts{2 * number - 1}", f"ts{2 * number}"
            for slot, value in zip(slots, span.milliseconds, strict=True):
                add(order, "TIME_SLOT", TIME_SLOT_ID=slot, TIME_VALUE=str(value))
            annotation = add(
                add(tier, "ANNOTATION"),
                "ALIGNABLE_ANNOTATION",
                ANNOTATION_ID=f"a{number}",
                TIME_SLOT_REF1=slots[0],
                TIME_SLOT_REF2=slots[1],
            )
            add(annotation, "ANNOTATION_VALUE", printable(" / ".join(span.descriptions)))
    add(
        root,
        "LINGUISTIC_TYPE",
        LINGUISTIC_TYPE_ID=_TIER_TYPE,
        TIME_ALIGNABLE="true",
        GRAPHIC_REFERENCES="false",
    )
    return as_xml(root)


def _tiers(marks: Marks) -> dict[tuple[str, str], list[Span]]:
    """Return (object, name) → spans that do not overlap, in the order of time."""
    tiers: dict[tuple[str, str], list[Span]] = {}
    several = len(marks.objects) > 1
    for state in marks.states:
        spans = [span for span in marks.spans if span.state == state]
        for span in sorted(spans, key=lambda span: span.milliseconds):
            object = printable(span.object or "")
            name = f"{object}/{printable(state)}" if several else printable(state)
            for number in count(1):
                key = object, name if number == 1 else f"{name} ({number})"
                tier = tiers.setdefault(key, [])
                if not tier or tier[-1].milliseconds[1] <= span.milliseconds[0]:
                    tier.append(span)
                    break
    return tiers


def read(text: str) -> list[Span]:
    """Return the annotations of all tiers.

    A tier is a state; or it is an object, where its annotations have different values, which are
    the states then (but not in tiers that dejacue wrote, whose values are descriptions).
    """
    root = parse_xml(text, "ANNOTATION_DOCUMENT", "an ELAN file")
    header = root.find("HEADER")
    unit = "milliseconds" if header is None else header.get("TIME_UNITS", "milliseconds")
    if unit != "milliseconds":
        raise InputError(f'uses the time unit "{unit:.40}"; save it in ELAN with milliseconds')
    video, shift = _video(root)
    slots = {slot.get("TIME_SLOT_ID"): slot.get("TIME_VALUE") for slot in root.iter("TIME_SLOT")}
    tiers = [(tier, _holds_states(tier)) for tier in root.findall("TIER")]
    names = {tier.get("TIER_ID", "") for tier, _ in tiers}
    several = sum(holds_states for _, holds_states in tiers) > 1
    spans = []
    for tier, holds_states in tiers:
        object, name = tier.get("PARTICIPANT") or None, tier.get("TIER_ID", "")
        numbered = _NUMBERED_TIER.fullmatch(name)
        if numbered and numbered[1] in names:
            name = numbered[1]
        name = name.removeprefix(f"{object}/")
        if holds_states and several:
            object = name
        for annotation in tier.findall(_ALIGNED):
            with named(f'tier "{name}", annotation {annotation.get("ANNOTATION_ID")}'):
                start, end = (
                    slots.get(annotation.get(key)) for key in ("TIME_SLOT_REF1", "TIME_SLOT_REF2")
                )
                if start is None or end is None:
                    raise InputError("has no time; align it in ELAN")
                first, last = times(start, end, scale=1e-3)
            state, sentences = name, _value(annotation)
            if holds_states:
                state, sentences = sentences, ""
            texts = tuple(filter(None, sentences.split(" / ")))
            seconds = first + shift, last + shift
            spans.append(Span(state, None, seconds, object, video, descriptions=texts))
    return spans


def _video(root: Element) -> tuple[str | None, float]:
    """Return the path, and the second of the video at which the annotations count 0."""
    media = root.find("HEADER/MEDIA_DESCRIPTOR")
    if media is None:
        return None, 0.0
    video = media.get("MEDIA_URL") or None
    if video is not None and video.startswith("file://"):
        video = unquote(video.removeprefix("file://"))
    if video is None or not Path(video).exists():
        video = media.get("RELATIVE_MEDIA_URL") or video
    origin = media.get("TIME_ORIGIN", "0")
    return video, 1e-3 * int(origin) if re.fullmatch("[0-9]{1,12}", origin) else 0.0


def _holds_states(tier: Element) -> bool:
    values = {_value(annotation) for annotation in tier.findall(_ALIGNED)}
    return tier.get("LINGUISTIC_TYPE_REF") != _TIER_TYPE and len(values) > 1 and "" not in values


def _value(annotation: Element) -> str:
    return (annotation.findtext("ANNOTATION_VALUE") or "").strip()
