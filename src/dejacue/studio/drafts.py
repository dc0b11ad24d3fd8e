"""Routes of drafts: what somebody has begun on the page and not saved, kept for the next time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from dejacue.sources.atomic import write_text
from dejacue.studio.models import Json, RequestModel, StudioDep
from dejacue.studio.state import Studio

router = APIRouter(prefix="/api/drafts", tags=["drafts"])
MAX_DRAFTS = 200  # the oldest go first


class DraftBody(RequestModel):
    """A draft of one page (a tab, since it was loaded) and form; text null: it is done."""

    page: Annotated[str, Field(min_length=1, max_length=64)]
    name: Annotated[str, Field(min_length=1, max_length=3000)]
    text: Annotated[str, Field(max_length=2_000_000)] | None = None


@router.get("")
def list_drafts(studio: StudioDep) -> list[Json]:
    """List drafts, the latest first."""
    drafts = []
    for path in _folder(studio).glob("*.json"):
        with contextlib.suppress(OSError, ValueError):
            drafts.append(json.loads(path.read_text()))
    return sorted(drafts, key=lambda draft: -float(draft["saved_s"]))


@router.put("")
def write_draft(body: DraftBody, studio: StudioDep) -> Json:
    """Keep a draft, in place of the one before."""
    folder = _folder(studio)
    path = folder / f"{_hashed(body.page, body.name)}.json"
    with studio.writing:
        if body.text is None:
            path.unlink(missing_ok=True)
        else:
            write_text(path, json.dumps({**body.model_dump(), "saved_s": time.time()}))
            drafts = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
            for old in drafts[:-MAX_DRAFTS]:
                old.unlink(missing_ok=True)
    return {"kept": body.text is not None}


def _folder(studio: Studio) -> Path:
    return studio.workspace.private / "drafts"


def _hashed(*names: str) -> str:
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:32]
