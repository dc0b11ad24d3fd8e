"""List all findings of a workspace in a table, and score those that have references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query

from dejacue.errors import InputError
from dejacue.evaluation.evaluate import evaluate
from dejacue.pipeline import Finding
from dejacue.progress import Progress
from dejacue.records import Interval, Reference, Timeline, Window
from dejacue.records.note import in_order
from dejacue.sources.findings import Made, read_document
from dejacue.sources.npz import read_npz
from dejacue.sources.results import read_references
from dejacue.studio.models import Json, StudioDep
from dejacue.studio.state import Studio

router = APIRouter(tags=["corpus"])
EMPTY_ROW: Json = {"history": "", "doubts": 0, "states": [], "intervals": [], "notes": []}
EMPTY_ROW |= dict.fromkeys(("object", "encoder", "readout", "tiou", "references"))


@router.get("/api/corpus")
def corpus(
    studio: StudioDep,
    filter: Annotated[str, Query(max_length=200)] = "",
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=5000)] = 500,
) -> Json:
    """Return a row for each finding: object, states, scores, doubts and, with references, tIoU.
    filter: words that all occur in its id, history, object or states."""
    rows = []
    for id in studio.workspace.contents().findings:
        entry = row(studio, id)
        names = (id, entry["history"], entry["object"] or "", *entry["states"])
        text = " ".join(names).casefold()
        if all(word in text for word in filter.casefold().split()):
            rows.append(entry)
    return {"count": len(rows), "rows": rows[offset : offset + limit]}


def row(studio: Studio, id: str) -> Json:
    """Return the row of a finding, from its document alone; a damaged one has a problem."""
    summary = studio.summary(id, _read)
    if isinstance(summary, str):
        return EMPTY_ROW | {"id": id, "problem": summary}
    timeline, made, columns = summary
    nearest = studio.reference(id, timeline.history_id, made)
    true = nearest.states or {}
    intervals = [
        answer.to_dict() | {"tiou": _tiou(answer, true.get(answer.state, ()))}
        for answer in timeline.answers
    ]
    overlaps = [interval["tiou"] for interval in intervals if interval["tiou"] is not None]
    overlaps += [0.0 for state in timeline.states if true.get(state) and not timeline[state]]
    return {
        "id": id,
        "history": timeline.history_id,
        **columns,
        "notes": [note.to_dict() for note in (*columns["notes"], *nearest.notes)],
        "states": list(timeline.states),
        "intervals": intervals,
        "tiou": sum(overlaps) / len(overlaps) if overlaps else None,
        "references": nearest.file,
        "problem": None,
    }


def _tiou(interval: Interval, true: Sequence[Window]) -> float | None:
    return max((float(interval.source.iou(window)) for window in true), default=None)


def _read(folder: Path) -> tuple[Timeline, Made, Json] | str:
    """Return the timeline of a finding, how it was made, and columns; or what is wrong with it."""
    try:
        document = read_document(folder)
        timeline = document.timeline
        words = read_npz(folder / document.files.get("vocabulary", ""), ("object",))
    except (InputError, OSError) as error:
        return str(error).replace(f"{folder}/", "")
    columns = {
        "object": str(words["object"]) if "object" in words else None,
        "encoder": document.made.encoder,
        "readout": dict(timeline.settings.get("readout", {})).get("name"),
        "doubts": len(document.doubts),
        "notes": in_order((*document.warnings, *timeline.notes)),
    }
    return timeline, document.made, columns


def evaluate_findings(
    studio: Studio,
    methods: Mapping[str, Sequence[str]] | None,
    references: str | None,
    progress: Progress,
) -> Json:
    """Return the scores that ``dejacue evaluate`` prints, for findings of a workspace."""
    chosen = methods or {"findings": studio.workspace.contents().findings}
    from_file = {}
    if references is not None:
        path = studio.workspace.existing(references, "references")
        from_file = {reference.history_id: reference for reference in read_references(path)}
    names = _names(studio, chosen)
    total, done = sum(len(ids) for ids in chosen.values()), 0
    known: dict[str, Reference] = {}
    timelines: dict[str, list[Timeline]] = {}
    for method, ids in chosen.items():
        timelines[method] = []
        for id in ids:
            finding = studio.finding(id)
            reference = from_file.get(finding.history.id)
            if references is None:
                reference = studio.reference(id, finding.history.id, finding.made).reference
            if reference is not None:
                known.setdefault(names[id], _renamed(studio, finding, reference, names[id]))
                timelines[method].append(finding.timeline.replace(id=names[id]))
            done += 1
            progress("measure", done, total, "")
    if not known:
        problem = "none of these findings has references in the workspace"
        remedy = "annotate some, or copy their references.json there"
        raise InputError(problem, field="references", remedy=remedy)
    return evaluate(timelines, list(known.values()), only_common=True).to_dict()


def _names(studio: Studio, chosen: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return a name for each finding: its history or, where one method has two of the same name,
    its video, or its id."""
    ids = {id for of_method in chosen.values() for id in of_method}
    names = {id: row(studio, id)["history"] for id in ids}
    if not _are_unique(chosen, names):
        names = {id: studio.video_of(studio.finding(id).made) or id for id in ids}
    return names if _are_unique(chosen, names) else {id: id for id in ids}


def _are_unique(chosen: Mapping[str, Sequence[str]], names: Mapping[str, str]) -> bool:
    return all(len({names[id] for id in ids}) == len(ids) for ids in chosen.values())


def _renamed(studio: Studio, finding: Finding, reference: Reference, name: str) -> Reference:
    """Return a reference under another name; findings of one video are one component."""
    if name == reference.history_id:
        return reference
    component = reference.component
    if component == reference.history_id:
        component = studio.video_of(finding.made) or name
    return replace(reference, history_id=name, component=component)
