"""ELAN .eaf: a tier for each state, its spans as annotations in milliseconds.

The tier's participant is the object, the value of an annotation its descriptions. Annotations of a
tier do not overlap in ELAN; those that do go to a tier "STATE (2)". Notes are properties of the
header. The date is always the same, so that the same answer gives the same bytes.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree.ElementTree import Element

from dejacue.errors import InputError
from dejacue.sources.documents import named
from dejacue.sources.formats.markup import add, as_xml, parse_xml
from dejacue.sources.formats.spans import Marks, Span, clean, local, times

_SCHEMA = "http://www.mpi.nl/tools/elan/EAFv2.8.xsd"
_XSI = "http://www.w3.org/2001/XMLSchema-instance"
_TYPES = {".mp4": "video/mp4", ".mov": "video/quicktime", ".mpg": "video/mpeg"}
_FURTHER = re.compile(r"(?s)(.*) \(\d+\)")
NOTE = "dejacue.note"
TYPE = "state"  # of our tiers


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
            MEDIA_URL=clean(url),
            MIME_TYPE=kind,
            RELATIVE_MEDIA_URL=f"./{clean(Path(video).name)}",
        )
    for note in marks.notes:
        add(header, "PROPERTY", clean(note), NAME=NOTE)
    order = add(root, "TIME_ORDER")
    count = 0
    for (object, name), spans in _tiers(marks).items():
        tier = add(root, "TIER", LINGUISTIC_TYPE_REF=TYPE, TIER_ID=name, PARTICIPANT=object)
        for span in spans:
            count += 1
            slots = f"ts{2 * count - 1}", f"ts{2 * count}"
            for slot, value in zip(slots, span.milliseconds, strict=True):
                add(order, "TIME_SLOT", TIME_SLOT_ID=slot, TIME_VALUE=str(value))
            own = add(
                add(tier, "ANNOTATION"),
                "ALIGNABLE_ANNOTATION",
                ANNOTATION_ID=f"a{count}",
                TIME_SLOT_REF1=slots[0],
                TIME_SLOT_REF2=slots[1],
            )
            add(own, "ANNOTATION_VALUE", clean(" / ".join(span.descriptions)))
    add(
        root,
        "LINGUISTIC_TYPE",
        LINGUISTIC_TYPE_ID=TYPE,
        TIME_ALIGNABLE="true",
        GRAPHIC_REFERENCES="false",
    )
    return as_xml(root)


def _tiers(marks: Marks) -> dict[tuple[str, str], list[Span]]:
    """(object, name) → spans that do not overlap, in the order of time."""
    tiers: dict[tuple[str, str], list[Span]] = {}
    several = len(marks.objects) > 1
    for state in marks.states:
        for span in sorted(
            (own for own in marks.spans if own.state == state), key=lambda own: own.milliseconds
        ):
            object = clean(span.object or "")
            name = f"{object}/{clean(state)}" if several else clean(state)
            number = 1
            while True:
                key = object, name if number == 1 else f"{name} ({number})"
                own = tiers.setdefault(key, [])
                if not own or own[-1].milliseconds[1] <= span.milliseconds[0]:
                    break
                number += 1
            own.append(span)
    return tiers


def read(text: str) -> list[Span]:
    """A tier is a state; or it is an object, where its annotations have different values, which
    are the states then (but not in tiers of our own, whose values are descriptions)."""
    root = parse_xml(text, "ANNOTATION_DOCUMENT", "an ELAN file")
    header = root.find("HEADER")
    unit = "milliseconds" if header is None else header.get("TIME_UNITS", "milliseconds")
    if unit != "milliseconds":
        raise InputError(f'uses the time unit "{unit:.40}"; save it in ELAN with milliseconds')
    video, shift = _video(root)
    slots = {own.get("TIME_SLOT_ID"): own.get("TIME_VALUE") for own in root.iter("TIME_SLOT")}
    names = {tier.get("TIER_ID", "") for tier in root.iter("TIER")}
    valued = [tier for tier in root.iter("TIER") if _holds_states(tier)]
    spans = []
    for tier in root.iter("TIER"):
        object, state = tier.get("PARTICIPANT") or None, tier.get("TIER_ID", "")
        further = _FURTHER.fullmatch(state)
        if further and further[1] in names:
            state = further[1]
        state = state.removeprefix(f"{object}/")
        if tier in valued and len(valued) > 1:
            object = state
        for own in tier.iter("ALIGNABLE_ANNOTATION"):
            with named(f'tier "{state}", annotation {own.get("ANNOTATION_ID")}'):
                ends = [slots.get(own.get(key)) for key in ("TIME_SLOT_REF1", "TIME_SLOT_REF2")]
                if None in ends:
                    raise InputError("has no time; align it in ELAN")
                start, end = times(ends[0], ends[1], scale=1e-3)
            told, when = _value(own), (start + shift, end + shift)
            if tier in valued:
                spans.append(Span(told, None, when, object, video))
                continue
            spans.append(
                Span(
                    state,
                    None,
                    when,
                    object,
                    video,
                    descriptions=tuple(filter(None, told.split(" / "))),
                )
            )
    return spans


def _video(root: Element) -> tuple[str | None, float]:
    """Its path, and the second of it that is the zero of the annotations."""
    media = root.find("HEADER/MEDIA_DESCRIPTOR")
    if media is None:
        return None, 0.0
    video = local(media.get("MEDIA_URL", "")) or None
    if video is None or not Path(video).exists():
        video = media.get("RELATIVE_MEDIA_URL") or video
    origin = media.get("TIME_ORIGIN", "0")
    return video, 1e-3 * int(origin) if re.fullmatch("[0-9]{1,12}", origin) else 0.0


def _holds_states(tier: Element) -> bool:
    values = {_value(own) for own in tier.iter("ALIGNABLE_ANNOTATION")}
    return tier.get("LINGUISTIC_TYPE_REF") != TYPE and len(values) > 1 and "" not in values


def _value(annotation: Element) -> str:
    return (annotation.findtext("ANNOTATION_VALUE") or "").strip()
