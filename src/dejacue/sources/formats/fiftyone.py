"""FiftyOne: the labels of a temporal detection dataset, and TemporalDetections of its package; the
samples.json of a whole dataset is read, too.

Frames are counted from 1, both ends inclusive. The key is the video's name without its ending;
confidence is the score between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dejacue.errors import InputError, need, shown
from dejacue.sources.documents import as_json, named, parse_json
from dejacue.sources.formats.spans import Marks, Span, frames, squashed, stem, times


def write(marks: Marks) -> str:
    classes = marks.states
    labels: dict[str, list[dict[str, Any]]] = {
        stem(marks.video_of(object)): [] for object in marks.objects
    }
    for span in marks.spans:
        labels[stem(marks.video_of(span.object))].append(
            {
                "label": classes.index(span.state),
                **_values(span),
                "attributes": {
                    "object": span.object,
                    "descriptions": " / ".join(span.descriptions),
                },
            }
        )
    document = {"classes": classes, "labels": labels, "notes": list(marks.notes)}
    return as_json(document) + "\n"


def _values(span: Span) -> dict[str, Any]:
    start, end = span.frames
    found: dict[str, Any] = {"support": [start + 1, end + 1]}
    return found if span.score is None else found | {"confidence": squashed(span.score)}


def temporal_detections(marks: Marks) -> dict[str, Any]:
    """Video → ``fiftyone.TemporalDetections``; needs the package."""
    fiftyone = need("fiftyone", "pip install fiftyone")
    found: dict[str, list[Any]] = {marks.video_of(object): [] for object in marks.objects}
    for span in marks.spans:
        one = fiftyone.TemporalDetection(label=span.state, **_values(span), object=span.object)
        found[marks.video_of(span.object)].append(one)
    return {video: fiftyone.TemporalDetections(detections=rows) for video, rows in found.items()}


def read(text: str) -> list[Span]:
    document = parse_json(text)
    if isinstance(document, dict) and isinstance(document.get("samples"), list):
        return _of_samples(document["samples"])
    labels = document.get("labels") if isinstance(document, dict) else None
    if not isinstance(labels, dict):
        raise InputError('has no "labels" by video; check that it is a temporal detection dataset')
    for video, rows in labels.items():
        if not isinstance(rows, list | None):
            raise InputError(f'labels of "{video}" are not a list')
    return [
        span
        for video, rows in labels.items()
        for at, row in enumerate(rows or (), start=1)
        for span in _span(row, document.get("classes"), video, f'labels of "{video}", {at}')
    ]


def _of_samples(samples: list[Any]) -> list[Span]:
    """The temporal detections of videos, in whichever field they are; two fields are refused."""
    spans: list[Span] = []
    fields: dict[str, None] = {}
    for at, sample in enumerate(samples, start=1):
        if not isinstance(sample, dict) or not isinstance(sample.get("filepath"), str):
            raise InputError(
                f'sample {at} has no "filepath"; check that it is the samples.json of a dataset'
            )
        video = sample["filepath"]
        for name, own in sample.items():
            if isinstance(own, dict) and own.get("_cls") == "TemporalDetections":
                fields[name] = None
                for row in own.get("detections") or ():
                    spans += _span(row, None, video, f'"{name}" of {video}')
    if len(fields) > 1:
        raise InputError(
            f"has temporal detections in the fields {', '.join(fields)}; export the dataset with "
            "one of them"
        )
    return spans


def _span(row: Any, classes: Any, video: str, where: str) -> Iterator[Span]:
    with named(where):
        if not isinstance(row, dict) or ("support" in row) == ("timestamps" in row):
            raise InputError(
                'must be an object with a "label" and either "support" or "timestamps"'
            )
        label = row.get("label")
        if type(label) is int and isinstance(classes, list) and 0 <= label < len(classes):
            label = classes[label]
        if not isinstance(label, str):
            raise InputError(f'label {shown(label)} is neither text nor one of "classes"')
        pair = row.get("support", row.get("timestamps"))
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError(f"{shown(pair)} is not a pair [first, last]")
        more = row.get("attributes")
        object = more.get("object") if isinstance(more, dict) else row.get("object")
        window = frames(pair[0], pair[1], base=1) if "support" in row else None
        seconds = None if window else times(pair[0], pair[1])
        yield Span(label, window, seconds, object if isinstance(object, str) else None, video)
