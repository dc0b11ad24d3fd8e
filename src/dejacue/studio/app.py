"""create_app: the routes, who may use them, and errors as sentences."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from dejacue._version import __version__
from dejacue.errors import DejaCueError, lacks_memory, one_line
from dejacue.studio import annotation_routes, corpus, findings, job_routes, uploads, videos
from dejacue.studio import workspace_routes as workspace
from dejacue.studio.errors import status_of
from dejacue.studio.security import Guard
from dejacue.studio.state import Studio

STATIC = Path(str(files("dejacue.studio"))) / "static"
DRAWING = Path(str(files("dejacue.report"))) / "static"  # the timeline, which the report has, too


def create_app(studio: Studio, host: str = "127.0.0.1") -> Any:
    """The studio as an ASGI application; host: the address that it is bound to."""

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
    for topic in (workspace, annotation_routes, corpus, findings, job_routes, uploads, videos):
        app.include_router(topic.router)
    app.add_api_route("/", _index, include_in_schema=False)
    for address, folder in (("/static/report", DRAWING), ("/static", STATIC)):
        if folder.is_dir():
            app.mount(address, StaticFiles(directory=folder))
    app.add_exception_handler(DejaCueError, _sentence)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(OSError, _system)
    app.add_exception_handler(MemoryError, _system)
    app.add_exception_handler(Exception, _mistake)
    app.add_middleware(AnsweredAtTheEnd, studio=studio)
    return Guard(app, studio.sessions, host)


class AnsweredAtTheEnd:
    """What is still being worked on when the server stops gets a sentence, instead of a traceback
    in the terminal."""

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
                said = JSONResponse({"detail": "the studio was stopped in the meantime"}, 503)
                await said(scope, receive, send)


def _index() -> Response:
    page = STATIC / "index.html"
    if not page.is_file():
        return HTMLResponse("<!doctype html><title>dejacue studio</title><p>The API is under /api.")
    return HTMLResponse(page.read_bytes())


def _said(request: Request, status: int, sentence: str) -> JSONResponse:
    """Paths are told as ids: relative to the workspace."""
    told = request.app.state.studio.workspace.as_ids(sentence)
    return JSONResponse({"detail": one_line(told)}, status)


async def _sentence(request: Request, error: Any) -> Response:
    return _said(request, status_of(error), str(error))


async def _http(request: Request, error: Any) -> Response:
    said = {404: "there is nothing at this address", 405: "this address has no such method"}
    known = error.status_code in said and error.detail in ("Not Found", "Method Not Allowed")
    answer = _said(
        request, error.status_code, said[error.status_code] if known else str(error.detail)
    )
    answer.headers.update(error.headers or {})
    return answer


async def _invalid(request: Request, error: Any) -> Response:
    """The first thing that is wrong; what was given is not repeated, it may be anything."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "path", "query"))
    where = where.encode("ascii", "replace").decode()[:80]
    return _said(request, 422, f"{where or 'the request'}: {first['msg']}")


async def _system(request: Request, error: Any) -> Response:
    if lacks_memory(error):
        return _said(request, 503, "this machine is out of memory; close something")
    where = f"{error.filename}: " if getattr(error, "filename", None) else ""
    return _said(request, 503, f"{where}{getattr(error, 'strerror', None) or error}")


async def _mistake(request: Request, error: Any) -> Response:
    """A mistake of ours; the server prints where."""
    said = f"something went wrong in the studio ({type(error).__name__}); see its terminal"
    return _said(request, 500, said)
