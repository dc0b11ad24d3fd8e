"""All findings of a workspace in a table, and what they are worth where the truth is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from dejacue.errors import InputError
from dejacue.evaluation.evaluate import evaluate
from dejacue.pipeline import Finding
from dejacue.progress import Progress
from dejacue.records import Reference, Retrieval
from dejacue.sources.findings import read_document
from dejacue.sources.npz import read_npz
from dejacue.sources.results import read_references
from dejacue.studio.models import PROBLEMS, Object, Own, owner_only
from dejacue.studio.state import Studio

router = APIRouter(tags=["corpus"], responses=PROBLEMS, dependencies=[Depends(owner_only)])
SAMPLING = ("start", "start_s", "stride", "fps")  # options under which frames are not the file's


@router.get("/api/corpus")
def corpus(
    studio: Own, filter: Annotated[str, Query(max_length=200)] = "",
    offset: Annotated[int, Query(ge=0)] = 0, limit: Annotated[int, Query(ge=1, le=5000)] = 500,
) -> Object:  # fmt: skip
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
        return {"id": id, "history": "", "object": None, "moments": [], "doubts": 0, "notes": [],
                "encoder": None, "readout": None, "tiou": None, "problem": found}  # fmt: skip
    retrieval, about = found
    known = studio.references(studio.workspace.place(id), retrieval.history_id)
    moments = [
        {"state": moment.state, "start": moment.window.start, "end": moment.window.end,
         "score": float(moment.score) if math.isfinite(moment.score) else None,
         "absent": moment.absent, "tiou": _tiou(moment, known)}
        for moment, _ in retrieval.answers()
    ]  # fmt: skip
    overlaps = [own["tiou"] for own in moments if own["tiou"] is not None]
    mean = sum(overlaps) / len(overlaps) if overlaps else None
    return {"id": id, "history": retrieval.history_id, **about, "moments": moments, "tiou": mean,
            "problem": None}  # fmt: skip


def _tiou(moment: Any, known: Reference | None) -> float | None:
    true = () if known is None else known.states.get(moment.state, ())
    return max((float(moment.in_source.iou(window)) for window in true), default=None)


def _read(folder: Path) -> tuple[Retrieval, Object] | str:
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
    return retrieval, {
        "object": object, "encoder": document.made.encoder, "readout": readout,
        "doubts": len(document.doubts), "notes": [*document.warnings, *retrieval.notes],
    }  # fmt: skip


def measured(
    studio: Studio, methods: Mapping[str, Sequence[str]] | None, references: str | None,
    progress: Progress,
) -> Object:  # fmt: skip
    """What ``dejacue evaluate`` prints, of the findings of a workspace."""
    chosen = methods or {"findings": studio.workspace.contents().findings}
    total = sum(len(ids) for ids in chosen.values())
    done, truth = 0, {}
    if references is not None:
        path = studio.workspace.existing(references, "references")
        truth = {own.history_id: own for own in read_references(path)}
    retrievals: dict[str, list[Retrieval]] = {}
    for name, ids in chosen.items():
        retrievals[name] = []
        for id in ids:
            found = studio.finding(id)
            known = studio.references(studio.workspace.place(id), found.history.id)
            if references is None and known is not None:
                truth.setdefault(known.history_id, known)
            if found.history.id in truth:
                retrievals[name].append(found.retrieval.with_source(found.history))
            done += 1
            progress("measure", done, total, "")
    if not any(retrievals.values()):
        raise InputError(
            "none of these findings has references in the workspace; annotate some, or copy their "
            "references.json there"
        )
    wanted = {own.history_id for given in retrievals.values() for own in given}
    known_truth = [own for id, own in truth.items() if id in wanted]
    return evaluate(retrievals, known_truth, only_common=True).to_dict()
