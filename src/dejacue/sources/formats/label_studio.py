"""Label Studio: tasks with a region of TimelineLabels for each span, and the labelling view.

Frames are counted from 1, both ends inclusive. Scores lie between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

from dejacue.errors import InputError
from dejacue.sources.documents import as_json, named, parse_json
from dejacue.sources.formats.markup import add, as_xml
from dejacue.sources.formats.spans import Marks, Span, clean, frames, squashed

_KIND = "timelinelabels"


def write(marks: Marks) -> str:
    tasks: dict[str, list[dict[str, Any]]] = {marks.video_of(own): [] for own in marks.objects}
    shared = len(tasks) < len(marks.objects)
    for span in marks.spans:
        regions = tasks[marks.video_of(span.object)]
        meta: dict[str, Any] = {"text": list(span.descriptions)}
        if shared:
            meta["object"] = [span.object]
        region: dict[str, Any] = {
            "id": f"dejacue-{len(regions) + 1}",
            "type": _KIND,
            "from_name": "states",
            "to_name": "video",
            "value": {
                "ranges": [{"start": span.frames.start + 1, "end": span.frames.end + 1}],
                _KIND: [span.state],
            },
        }
        if span.score is not None:
            region["score"] = squashed(span.score)
        regions.append(region | {"meta": meta})
    rows = []
    for video, regions in tasks.items():
        notes = marks.notes_of.get(video, ())
        data = {"video": video} | ({"notes": "\n".join(notes)} if notes else {})
        made: dict[str, Any] = {"predictions": [{"model_version": "dejacue", "result": regions}]}
        if marks.truth:
            made = {"annotations": [{"result": regions}]}
        rows.append({"data": data} | made)
    return as_json(rows) + "\n"


def view(marks: Marks) -> str:
    """The labelling view: the states, and the rate that Label Studio counts frames by."""
    root = Element("View")
    labels = add(root, "TimelineLabels", name="states", toName="video")
    for state in marks.states:
        add(labels, "Label", value=clean(state))
    rates = sorted(marks.rates.values())
    rate = {"frameRate": f"{rates[len(rates) // 2]:.6g}"} if rates else {}
    add(root, "Video", name="video", value="$video", **rate)
    return as_xml(root, declared=False)


def read(text: str) -> list[Span]:
    """The regions of annotations or, where no task has one, of predictions."""
    tasks = parse_json(text)
    tasks = [tasks] if isinstance(tasks, dict) else tasks
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise InputError("must be a list of tasks; export it from Label Studio as JSON")
    key = "annotations" if any(task.get("annotations") for task in tasks) else "predictions"
    spans: list[Span] = []
    for at, task in enumerate(tasks, start=1):
        with named(f"task {at}"):
            own = [one for one in _listed(task, key) if isinstance(one, dict)]
            own = [one for one in own if not one.get("was_cancelled")]
            if len(own) > 1:
                raise InputError(f"has {len(own)} {key}; keep one")
            data = task.get("data")
            video = data.get("video") if isinstance(data, dict) else None
            for region in _listed(own[0], "result") if own else ():
                spans += _spans(region, video if isinstance(video, str) else None)
    return spans


def _listed(given: dict[str, Any], key: str) -> list[Any]:
    found = given.get(key)
    if not isinstance(found, list | None):
        raise InputError(f'"{key}" is not a list')
    return found or []


def _spans(region: Any, video: str | None) -> Iterator[Span]:
    if not isinstance(region, dict) or region.get("type") != _KIND:
        return
    with named(f'region "{region.get("id")}"'):
        value, meta = region.get("value"), region.get("meta")
        try:
            labels = [str(label) for label in value[_KIND]]  # type: ignore[index]
            pairs = [(own["start"], own["end"]) for own in value["ranges"]]  # type: ignore[index]
        except (KeyError, TypeError):
            raise InputError(f'has no "ranges" of start and end with "{_KIND}"') from None
        objects = meta.get("object") if isinstance(meta, dict) else None
        object = str(objects[0]) if isinstance(objects, list) and objects else None
        told = meta.get("text") if isinstance(meta, dict) else None
        texts = tuple(map(str, told)) if isinstance(told, list) else ()
        for label in labels:
            for pair in pairs:
                yield Span(label, frames(*pair, base=1), None, object, video, descriptions=texts)
