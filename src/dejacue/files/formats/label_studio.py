"""Label Studio: tasks with a region of TimelineLabels for each span, and the labelling view.

Frames are counted from 1, both ends inclusive. The score of a region is the confidence of the span,
where the timeline tells one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

from dejacue.errors import InputError, named
from dejacue.files.documents import as_json, parse_json
from dejacue.files.formats.spans import Marks, Span, add, as_xml, frames, member
from dejacue.records._html import printable

_KIND = "timelinelabels"
_MAX_SPANS = 10_000  # of one region, which usually has one


def write(marks: Marks) -> str:
    videos = marks.by_video()
    shared = len(videos) < len(marks.objects)
    tasks = []
    for video, spans in videos.items():
        notes = marks.notes_of.get(video, ())
        data = {"video": video} | ({"notes": "\n".join(notes)} if notes else {})
        result = [_region(span, number, shared) for number, span in enumerate(spans, start=1)]
        task: dict[str, Any] = {"predictions": [{"model_version": "dejacue", "result": result}]}
        if marks.truth:
            task = {"annotations": [{"result": result}]}
        tasks.append({"data": data} | task)
    return as_json(tasks) + "\n"


def _region(span: Span, number: int, shared: bool) -> dict[str, Any]:
    """Return the region of a span; ``shared``: its video has several objects, so it names its."""
    return {
        "id": f"dejacue-{number}",
        "type": _KIND,
        "from_name": "states",
        "to_name": "video",
        "value": {
            "ranges": [{"start": span.frames.start + 1, "end": span.frames.end + 1}],
            _KIND: [span.state],
        },
        **({} if span.confidence is None else {"score": span.confidence}),
        "meta": {"text": list(span.descriptions)} | ({"object": [span.object]} if shared else {}),
    }


def view(marks: Marks) -> str:
    """Return the labelling view: the states, and the rate that Label Studio counts frames by."""
    root = Element("View")
    labels = add(root, "TimelineLabels", name="states", toName="video")
    for state in marks.states:
        add(labels, "Label", value=printable(state))
    rates = sorted(marks.rates.values())
    rate = {"frameRate": f"{rates[len(rates) // 2]:.6g}"} if rates else {}
    add(root, "Video", name="video", value="$video", **rate)
    return as_xml(root, declaration=False)


def read(text: str) -> list[Span]:
    """Return the regions of annotations or, where no task has one, of predictions."""
    tasks = parse_json(text)
    tasks = [tasks] if isinstance(tasks, dict) else tasks
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise InputError("must be a list of tasks; export it from Label Studio as JSON")
    key = "annotations" if any(task.get("annotations") for task in tasks) else "predictions"
    spans: list[Span] = []
    for at, task in enumerate(tasks, start=1):
        with named(f"task {at}"):
            answers = [
                answer
                for answer in _list_of(task, key)
                if isinstance(answer, dict) and not answer.get("was_cancelled")
            ]
            if len(answers) > 1:
                raise InputError(f"has {len(answers)} {key}; keep one")
            video = member(task.get("data"), "video", str)
            for region in _list_of(answers[0], "result") if answers else ():
                spans += _spans(region, video)
    return spans


def _list_of(item: dict[str, Any], key: str) -> list[Any]:
    value = item.get(key)
    if not isinstance(value, list | None):
        raise InputError(f'"{key}" is not a list')
    return value or []


def _spans(region: Any, video: str | None) -> Iterator[Span]:
    if not isinstance(region, dict) or region.get("type") != _KIND:
        return
    with named(f'region "{region.get("id")}"'):
        value: Any = region.get("value")
        try:
            labels = [str(label) for label in value[_KIND]]
            pairs = [(pair["start"], pair["end"]) for pair in value["ranges"]]
        except (KeyError, TypeError):
            raise InputError(f'has no "ranges" of start and end with "{_KIND}"') from None
        if len(labels) * len(pairs) > _MAX_SPANS:
            problem = f"has {len(labels)} labels with {len(pairs)} ranges each"
            raise InputError(f"{problem}; give a region one label")
        objects = member(region.get("meta"), "object", list)
        object = str(objects[0]) if objects else None
        texts = tuple(map(str, member(region.get("meta"), "text", list) or ()))
        for label in labels:
            for pair in pairs:
                yield Span(label, frames(*pair, base=1), None, object, video, descriptions=texts)
