"""FiftyOne: the labels of a temporal detection dataset, and TemporalDetections of its package; the
samples.json of a whole dataset is read, too.

Frames are counted from 1, both ends inclusive. The key is the video's name without its ending;
a span has a confidence where the timeline tells one.
"""

from __future__ import annotations

from typing import Any

from dejacue.errors import InputError, brief, named, need
from dejacue.files.documents import as_json, parse_json
from dejacue.files.formats.spans import Marks, Span, frames, member, stem, times


def write(marks: Marks) -> str:
    classes = marks.states
    labels = {
        name: [
            {
                "label": classes.index(span.state),
                **_support(span),
                "attributes": {
                    "object": span.object,
                    "descriptions": " / ".join(span.descriptions),
                },
            }
            for span in spans
        ]
        for name, spans in marks.by_video(stem).items()
    }
    return as_json({"classes": classes, "labels": labels, "notes": list(marks.notes)}) + "\n"


def _support(span: Span) -> dict[str, Any]:
    start, end = span.frames
    support: dict[str, Any] = {"support": [start + 1, end + 1]}
    return support if span.confidence is None else support | {"confidence": span.confidence}


def temporal_detections(marks: Marks) -> dict[str, Any]:
    """Return video → ``fiftyone.TemporalDetections``; needs the package."""
    fiftyone = need("fiftyone", "pip install fiftyone")
    return {
        video: fiftyone.TemporalDetections(
            detections=[
                fiftyone.TemporalDetection(label=span.state, **_support(span), object=span.object)
                for span in spans
            ]
        )
        for video, spans in marks.by_video().items()
    }


def read(text: str) -> list[Span]:
    document = parse_json(text)
    if (samples := member(document, "samples", list)) is not None:
        return _read_samples(samples)
    labels = member(document, "labels", dict)
    if labels is None:
        raise InputError('has no "labels" by video; check that it is a temporal detection dataset')
    for video, rows in labels.items():
        if not isinstance(rows, list | None):
            raise InputError(f'labels of "{video}" are not a list')
    return [
        _span(row, document.get("classes"), video, f'labels of "{video}", {at}')
        for video, rows in labels.items()
        for at, row in enumerate(rows or (), start=1)
    ]


def _read_samples(samples: list[Any]) -> list[Span]:
    """Return the temporal detections of videos, in whichever field; two fields are refused."""
    spans: list[Span] = []
    fields: dict[str, None] = {}
    for at, sample in enumerate(samples, start=1):
        video = member(sample, "filepath", str)
        if video is None:
            remedy = "check that it is the samples.json of a dataset"
            raise InputError(f'sample {at} has no "filepath"; {remedy}')
        for name, value in sample.items():
            if isinstance(value, dict) and value.get("_cls") == "TemporalDetections":
                fields[name] = None
                rows = member(value, "detections", list) or ()
                spans += [_span(row, None, video, f'"{name}" of {video}') for row in rows]
    if len(fields) > 1:
        problem = f"has temporal detections in the fields {', '.join(fields)}"
        raise InputError(f"{problem}; export the dataset with one of them")
    return spans


def _span(row: Any, classes: Any, video: str, where: str) -> Span:
    with named(where):
        if not isinstance(row, dict) or ("support" in row) == ("timestamps" in row):
            problem = 'must be an object with a "label" and either "support" or "timestamps"'
            raise InputError(problem)
        label = row.get("label")
        if type(label) is int and isinstance(classes, list) and 0 <= label < len(classes):
            label = classes[label]
        if not isinstance(label, str):
            raise InputError(f'label {brief(label)} is neither text nor one of "classes"')
        pair = row.get("support", row.get("timestamps"))
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError(f"{brief(pair)} is not a pair [first, last]")
        attributes = member(row, "attributes", dict)
        object = member(row if attributes is None else attributes, "object", str)
        window = frames(pair[0], pair[1], base=1) if "support" in row else None
        seconds = None if window else times(pair[0], pair[1])
    return Span(label, window, seconds, object, video)
