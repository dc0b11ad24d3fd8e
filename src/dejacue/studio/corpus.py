"""All findings of a workspace in a table, and what they are worth where the truth is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from dejacue.errors import InputError
from dejacue.evaluation.evaluate import evaluate
from dejacue.pipeline import Finding
from dejacue.progress import Progress
from dejacue.records import Reference, Retrieval
from dejacue.sources.findings import Made, read_document
from dejacue.sources.npz import read_npz
from dejacue.sources.results import read_references
from dejacue.studio.models import PROBLEMS, Object, Own, owner_only
from dejacue.studio.state import Studio

router = APIRouter(tags=["corpus"], responses=PROBLEMS, dependencies=[Depends(owner_only)])
SAMPLING = ("start", "start_s", "stride", "fps")  # options under which frames are not the file's


@router.get("/api/corpus")
def corpus(
    studio: Own,
    filter: Annotated[str, Query(max_length=200)] = "",
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=5000)] = 500,
) -> Object:
    """A row for each finding: object, states, scores, doubts and, with references, tIoU. filter:
    words that all occur in its id, history, object or states."""
    rows = [row(studio, id) for id in studio.workspace.contents().findings]
    wanted = filter.casefold().split()
    rows = [own for own in rows if all(word in _text(own) for word in wanted)]
    return {"count": len(rows), "rows": rows[offset : offset + limit]}


def _text(own: Object) -> str:
    states = " ".join(moment["state"] for moment in own["moments"])
    return f"{own['id']} {own['history']} {own['object'] or ''} {states}".casefold()


def row(studio: Studio, id: str) -> Object:
    """One finding, from its document alone; a damaged one says what is wrong."""
    found = studio.summary(id, lambda folder: _read(folder))
    if isinstance(found, str):
        return {
            "id": id,
            "history": "",
            "object": None,
            "moments": [],
            "doubts": 0,
            "notes": [],
            "encoder": None,
            "readout": None,
            "tiou": None,
            "references": None,
            "problem": found,
        }
    retrieval, made, about = found
    truth = studio.references(id, retrieval.history_id, made)
    known = None if truth is None else truth.reference
    moments = [
        {
            "state": moment.state,
            "start": moment.window.start,
            "end": moment.window.end,
            "score": float(moment.score) if math.isfinite(moment.score) else None,
            "absent": moment.absent,
            "tiou": _tiou(moment, known),
        }
        for moment, _ in retrieval.answers()
    ]
    overlaps = [own["tiou"] for own in moments if own["tiou"] is not None]
    mean = sum(overlaps) / len(overlaps) if overlaps else None
    notes = [*about["notes"], *(truth.notes if truth else ())]
    return {
        "id": id,
        "history": retrieval.history_id,
        **about,
        "notes": notes,
        "moments": moments,
        "tiou": mean,
        "references": truth.file if truth else None,
        "problem": None,
    }


def _tiou(moment: Any, known: Reference | None) -> float | None:
    true = () if known is None else known.states.get(moment.state, ())
    return max((float(moment.in_source.iou(window)) for window in true), default=None)


def _read(folder: Path) -> tuple[Retrieval, Made, Object] | str:
    try:
        document = read_document(folder)
        retrieval = document.retrieval.retrieval()
        if any(name in document.made.options for name in SAMPLING):
            whole = Finding.read(folder)
            retrieval = whole.retrieval.with_source(whole.history)
        words = read_npz(folder / document.files.get("vocabulary", ""), ("object",))
    except (InputError, OSError) as error:
        return str(error).replace(f"{folder}/", "")
    object = str(words["object"]) if "object" in words else None
    readout = dict(retrieval.settings.get("readout", {})).get("name")
    return (
        retrieval,
        document.made,
        {
            "object": object,
            "encoder": document.made.encoder,
            "readout": readout,
            "doubts": len(document.doubts),
            "notes": list(dict.fromkeys((*document.warnings, *retrieval.notes))),
        },
    )


def measured(
    studio: Studio,
    methods: Mapping[str, Sequence[str]] | None,
    references: str | None,
    progress: Progress,
) -> Object:
    """What ``dejacue evaluate`` prints, of the findings of a workspace."""
    chosen = methods or {"findings": studio.workspace.contents().findings}
    given = {}
    if references is not None:
        path = studio.workspace.existing(references, "references")
        given = {own.history_id: own for own in read_references(path)}
    names = _names(studio, chosen)
    total, done = sum(len(ids) for ids in chosen.values()), 0
    truth: dict[str, Reference] = {}
    retrievals: dict[str, list[Retrieval]] = {}
    for method, ids in chosen.items():
        retrievals[method] = []
        for id in ids:
            found = studio.finding(id)
            known = given.get(found.history.id)
            if references is None:
                taken = studio.references(id, found.history.id, found.made)
                known = None if taken is None else taken.reference
            if known is not None:
                truth.setdefault(names[id], _renamed(studio, found, known, names[id]))
                own = found.retrieval.with_source(found.history)
                retrievals[method].append(replace(own, history_id=names[id]))
            done += 1
            progress("measure", done, total, "")
    if not truth:
        raise InputError(
            "none of these findings has references in the workspace; annotate some, or copy their "
            "references.json there"
        )
    return evaluate(retrievals, list(truth.values()), only_common=True).to_dict()


def _names(studio: Studio, chosen: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """What each finding is called where it is measured: after its history or, where one method has
    two of the same name, after its video, or as it is called itself."""
    ids = {id for own in chosen.values() for id in own}
    names = {id: row(studio, id)["history"] for id in ids}
    if not _told_apart(chosen, names):
        names = {id: studio.video_of(studio.finding(id).made) or id for id in ids}
    return names if _told_apart(chosen, names) else {id: id for id in ids}


def _told_apart(chosen: Mapping[str, Sequence[str]], names: Mapping[str, str]) -> bool:
    return all(len({names[id] for id in own}) == len(own) for own in chosen.values())


def _renamed(studio: Studio, found: Finding, known: Reference, name: str) -> Reference:
    """Findings of one video are one source, whatever they are called."""
    if name == known.history_id:
        return known
    alone = known.component == known.history_id
    source = studio.video_of(found.made) or name
    return replace(known, history_id=name, component=source if alone else known.component)
