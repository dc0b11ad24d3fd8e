"""The bodies of requests, checked by pydantic before a route sees them, and what routes share."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from dejacue.studio.errors import NotAllowed
from dejacue.studio.security import Session
from dejacue.studio.state import Studio

MAX_FRAME = 1 << 53
Frame = Annotated[int, Field(ge=0, le=MAX_FRAME)]
Text = Annotated[str, Field(min_length=1, max_length=500)]
Id = Annotated[str, Path(min_length=1, max_length=1024, description="A path in the workspace.")]
Json = dict[str, Any]


class RequestModel(BaseModel):
    """The base of all bodies: unknown keys, NaN and infinity are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Problem(BaseModel):
    """The problem, in one sentence."""

    detail: str


PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem} for code in (400, 401, 403, 404, 409, 413, 422, 503)
}


def _studio(request: Request) -> Studio:
    studio: Studio = request.app.state.studio
    return studio


def _session(request: Request) -> Session:
    session: Session = request.state.session
    return session


StudioDep = Annotated[Studio, Depends(_studio)]
SessionDep = Annotated[Session, Depends(_session)]


def owner_only(session: SessionDep) -> None:
    """Refuse annotators: they see nothing that tells what others, or a machine, say."""
    if session.annotator is not None:
        raise NotAllowed("annotators see only their own pass; only the studio's owner sees this")


class Mark(RequestModel):
    """Frames of the history in which a state holds (None: none of them), or a picture of it that
    lies in the workspace (pictures/cup.jpg, kitchen.mp4@120)."""

    state: Text | None = None
    start: Frame | None = None
    end: Frame | None = None
    source: Text | None = None


class Reading(RequestModel):
    """How to read; fields that you omit stay as the finding was read."""

    readout: Text | None = None
    coordinates: Text | None = None
    top: Annotated[int, Field(ge=1, le=100)] | None = None
    smoothing: Annotated[int, Field(ge=1, le=100_000)] | None = None


class Words(RequestModel):
    """What to find: states with their descriptions, and examples; fields that you omit stay as the
    finding has them."""

    object: Text | None = None
    states: (
        Annotated[dict[Text, Annotated[list[Text], Field(max_length=100)]], Field(max_length=50)]
        | None
    ) = None
    examples: Annotated[list[Mark], Field(max_length=10_000)] | None = None
    changes: Annotated[list[Frame], Field(max_length=10_000)] | None = None


class Read(Words, Reading):
    """segments: also return stretches that look alike; questions: the number of frames worth an
    answer to return; most: the total number of curve values, beyond which curves are thinned."""

    segments: bool = False
    questions: Annotated[int, Field(ge=0, le=20)] = 0
    most: Annotated[int, Field(ge=100, le=100_000_000)] | None = None


class Compare(Words):
    """The same words, read in several ways."""

    readings: Annotated[list[Reading], Field(min_length=1, max_length=12)]
    most: Annotated[int, Field(ge=100, le=100_000_000)] | None = None


class Save(Words, Reading):
    """folder: where to write; default: over the finding itself."""

    folder: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
