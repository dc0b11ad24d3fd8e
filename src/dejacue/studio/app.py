"""The application: routes of the workspace, routes by topic, and errors as sentences."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from dejacue._version import __version__
from dejacue.atomic import write_text
from dejacue.errors import DejaCueError, InputError, lacks_memory, one_line
from dejacue.files.histories import read_vocabulary, vocabulary_yaml
from dejacue.masks._region import FIXED
from dejacue.method.coordinates import COORDINATES
from dejacue.method.localization import PRESETS, READOUTS
from dejacue.models.encoders import BUILT_IN, EXAMPLES, SIZES
from dejacue.models.trackers import default_tracker
from dejacue.models.trackers.propagate import NAMES
from dejacue.records import Vocabulary
from dejacue.report.exports import EXPORTS
from dejacue.studio import findings, job_routes, teaching, videos
from dejacue.studio.errors import Changed, check_revision, revision_of, status_of
from dejacue.studio.models import Id, Json, PairsToo, RequestModel, Revision, StudioDep, Text
from dejacue.studio.security import Guard
from dejacue.studio.state import Studio
from dejacue.studio.workspace import LOOPBACK, WORDS

STATIC = Path(str(files("dejacue.studio"))) / "static"
REPORT_STATIC = Path(str(files("dejacue.report"))) / "static"  # the timeline is that of the report
STATUSES = (400, 401, 403, 404, 409, 413, 422, 503)  # of errors
MESSAGES = {
    "Not Found": "there is nothing at this address",
    "Method Not Allowed": "this address has no such method",
}
router = APIRouter(tags=["workspace"])


class ErrorResponse(BaseModel):
    """An answer to a request that failed: the problem, in one sentence."""

    detail: str
    revision: str | None = None  # the current one, where the request had another


def create_app(studio: Studio, token: str, host: str = LOOPBACK[0]) -> Any:
    """Return the studio as an ASGI application.

    token   that requests must have
    host    the address that it is bound to
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        studio.close()

    app = FastAPI(
        title="dejacue studio",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    app.state.studio = studio
    topics = (findings, job_routes, teaching, videos)
    for routes in (router, *(topic.router for topic in topics)):
        app.include_router(routes, responses={code: {"model": ErrorResponse} for code in STATUSES})
    app.add_api_route("/", lambda: FileResponse(STATIC / "index.html"), include_in_schema=False)
    app.mount("/static/report", StaticFiles(directory=REPORT_STATIC))
    app.mount("/static", StaticFiles(directory=STATIC))
    ours = (DejaCueError, RequestValidationError, HTTPException, ClientDisconnect)
    for kind in (*ours, OSError, MemoryError, Exception):
        app.add_exception_handler(kind, _answer)
    app.add_middleware(AnswerOnShutdown, studio=studio)
    return Guard(app, token, host)


class AnswerOnShutdown:
    """Middleware that answers requests which are unfinished when the server stops with a sentence,
    instead of a traceback in the terminal."""

    def __init__(self, app: Any, studio: Studio) -> None:
        self.app, self.studio = app, studio

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        begun = False

        async def sending(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except asyncio.CancelledError:
            if not self.studio.ending or scope["type"] != "http":
                raise
            if not begun:
                answer = JSONResponse({"detail": "the studio was stopped in the meantime"}, 503)
                await answer(scope, receive, send)


async def _answer(request: Request, error: Exception) -> JSONResponse:
    """Answer an error with a sentence; paths become ids, relative to the workspace."""
    status, sentence = _problem(error)
    detail = one_line(request.app.state.studio.workspace.as_ids(sentence))
    headers = error.headers if isinstance(error, HTTPException) else None
    current = {"revision": error.revision} if isinstance(error, Changed) else {}
    return JSONResponse({"detail": detail, **current}, status, headers)


def _problem(error: Exception) -> tuple[int, str]:
    """Return the status and the sentence for an error."""
    if isinstance(error, DejaCueError):
        return status_of(error), str(error)
    if isinstance(error, HTTPException):
        return error.status_code, MESSAGES.get(error.detail, error.detail)
    if isinstance(error, ClientDisconnect):
        return 400, "the connection ended before the request did"
    if isinstance(error, RequestValidationError):  # its input is not repeated: it may be anything
        first = error.errors()[0]
        names = [str(part) for part in first["loc"] if part not in ("body", "path", "query")]
        where = ".".join(names).encode("ascii", "replace").decode()[:80]
        return 422, f"{where or 'the request'}: {first['msg']}"
    if isinstance(error, OSError | MemoryError) and lacks_memory(error):
        return 503, "this machine is out of memory; close something"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return 503, f"{where}{error.strerror or error}"
    kind = type(error).__name__  # a mistake of ours; the server prints where
    return 500, f"something went wrong in the studio ({kind}); see its terminal"


class WordsBody(RequestModel):
    """Texts to check with an encoder."""

    texts: Annotated[list[Annotated[str, Field(max_length=5000)]], Field(max_length=200)]
    encoder: Text | None = None
    finding: Text | None = None


class VocabularyBody(RequestModel):
    """A vocabulary to write to a word list."""

    object: Text | None = None
    states: Annotated[
        dict[Text, Annotated[list[Text], Field(min_length=1, max_length=100)]],
        Field(min_length=1, max_length=50),
        PairsToo,
    ]
    exhaustive: bool = False
    revision: Revision = None


@router.get("/api/workspace")
def workspace(studio: StudioDep) -> Json:
    """Return the contents of the folder, and what this studio can do."""
    contents = studio.workspace.contents()
    return {
        "name": studio.workspace.name,
        "version": __version__,
        "opened": studio.opened,
        **vars(contents),
        "encoder": studio.encoder_name or "siglip2",
        "tracker": studio.tracker_name or default_tracker() or FIXED,
        "encoders": [*BUILT_IN, *SIZES, *EXAMPLES],
        "trackers": [FIXED, *NAMES[1:]],
        "readouts": [*READOUTS, *PRESETS],
        "coordinates": list(COORDINATES),
        "exports": list(EXPORTS),
        "missing": {name: hint for name, export in EXPORTS.items() if (hint := export.missing)},
    }


@router.get("/api/vocabularies/{id:path}")
def read_words(id: Id, studio: StudioDep) -> Json:
    """Return the states and descriptions of a word list."""
    path = studio.workspace.existing(id, "vocabulary")
    if path.suffix.lower() not in WORDS:
        raise InputError(f'"{id}" is not a word list; word lists end in .yaml')
    words = read_vocabulary(path)
    states = {state: list(texts) for state, texts in words.states.items()}
    revision = revision_of(path)
    about = {"id": id, "object": words.object, "revision": revision}
    return {**about, "states": states, "order": list(states), "exhaustive": words.exhaustive}


@router.post("/api/words")
def unknown_words(body: WordsBody, studio: StudioDep) -> Json:
    """Return the words that an encoder does not know, of a name or that of a finding; has_text:
    whether it knows any."""
    history = studio.finding(body.finding).history if body.finding else None
    encoder = studio.encoder_of(history) if history else studio.encoder(body.encoder)
    spellings = [encoder.spelling(text) for text in body.texts]
    unknown = {word: None for spelling in spellings if spelling for word in spelling.unknown}
    return {"encoder": encoder.name, "has_text": encoder.has_text, "unknown": list(unknown)}


@router.put("/api/vocabularies/{id:path}")
def write_words(id: Id, body: VocabularyBody, studio: StudioDep) -> Json:
    """Write a word list (.yaml), as ``dejacue find --vocabulary`` reads it."""
    path = studio.workspace.place(id)
    if path.suffix.lower() not in WORDS:
        raise InputError(f'"{id}": a word list ends in .yaml')
    Vocabulary(body.states, object=body.object)  # refuses bad ones before they are written
    text = vocabulary_yaml(body.states, body.object, exhaustive=body.exhaustive)
    with studio.writing:
        check_revision(body.revision, revision_of(path), id)
        write_text(path, text)
        studio.workspace.changed()
        return {"id": id, "revision": revision_of(path)}
