"""Check who sends requests: tokens, sessions, Host, Origin, Sec-Fetch-Site, sizes.

Loopback is no boundary: any page that is open in a browser on this machine can send requests to it.
So every request below /api needs the token (scripts: Authorization: Bearer …) or the cookie of a
session that was begun with it, comes to a Host that is ours, and from our own pages.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import secrets
import socket
import threading
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from cachetools import FIFOCache
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from dejacue.sources.atomic import TEMPORARY
from dejacue.studio.workspace import LOOPBACK

SAFE_METHODS = ("GET", "HEAD")
MAX_BODY_BYTES = 4 << 20  # of a request that is no upload
MAX_UPLOAD_BYTES = 16 << 30
MAX_SESSIONS = 1000
STALE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>dejacue studio</title>
</head><body><h1>This address is no longer valid</h1><p>Its token is wrong, or a newer one was made.
Open the address that the studio printed when it started, or ask for another invitation.</p></body>
</html>"""
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data: blob:; media-src 'self' "
    "blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class StudioSession:
    """The sender of a request.

    annotator   who labels, and sees nothing but their own pass; None: the owner
    owner       whether the session began with the owner's token, so that it may stop labelling
    """

    annotator: str | None = None
    owner: bool = True


class Sessions:
    """Tokens and the sessions that were begun with them.

    path    a file that keeps them for the next start, which only its owner reads (mode 0600); None:
            they end with the process
    renew   forget what the file has
    """

    def __init__(
        self, token: str | None = None, path: Path | None = None, renew: bool = False
    ) -> None:
        self.token = token or secrets.token_urlsafe(32)
        self._invited: dict[str, str] = {}  # token → annotator
        # by hash of the cookie
        self._sessions: FIFOCache[str, StudioSession] = FIFOCache(MAX_SESSIONS)
        self._path, self._lock = path, threading.Lock()
        if path is not None:
            if not renew:
                self._read(path)
            self._write()

    def _read(self, path: Path) -> None:
        """Read the file, unless others can or it came here with a copy of the folder."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))) as stream:
                stat = os.fstat(stream.fileno())
                document = json.load(stream)
            private = os.name != "posix" or (stat.st_uid, stat.st_mode & 0o77) == (os.getuid(), 0)
            if private and document["place"] == _place(path) and len(document["token"]) >= 43:
                self.token = str(document["token"])
                self._invited = {str(t): str(name) for t, name in document["invited"].items()}
                for cookie, session in document["sessions"].items():
                    self._sessions[str(cookie)] = StudioSession(*session)

    def _write(self) -> None:
        if self._path is None:
            return
        sessions = {cookie: astuple(session) for cookie, session in self._sessions.items()}
        document = {"place": _place(self._path), "token": self.token, "invited": self._invited}
        temporary = self._path.with_name(f".{self._path.name}{TEMPORARY}")
        temporary.unlink(missing_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "w") as stream:
            json.dump({**document, "sessions": sessions}, stream)
        os.replace(temporary, self._path)

    def invite(self, annotator: str) -> str:
        """Return a token with which one annotator may label, and no more."""
        with self._lock:
            for token, known in self._invited.items():
                if known == annotator:
                    return token
            token = secrets.token_urlsafe(32)
            self._invited[token] = annotator
            self._write()
        return token

    def of_token(self, token: str) -> StudioSession | None:
        data, session = token.encode("utf-8", "surrogateescape"), None
        known = {
            self.token: StudioSession(),
            **{t: StudioSession(a, False) for t, a in self._invited.items()},
        }
        for candidate in known:  # all of them, each in constant time
            if secrets.compare_digest(candidate.encode(), data):
                session = known[candidate]
        return session

    def begin(self, session: StudioSession) -> str:
        """Begin a session and return the value of its cookie."""
        cookie = secrets.token_urlsafe(32)
        self.change(cookie, session)
        return cookie

    def of_cookie(self, cookie: str) -> StudioSession | None:
        return self._sessions.get(_hashed(cookie))

    def change(self, cookie: str, session: StudioSession) -> None:
        with self._lock:
            self._sessions[_hashed(cookie)] = session
            self._write()


def _place(path: Path) -> list[str]:
    """Return what differs between a folder and its copy, here or on another machine."""
    return [socket.gethostname(), str(path.parent.stat().st_ino)]


def _hashed(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogateescape")).hexdigest()


class Guard:
    """ASGI: refuse what does not come from the person at the machine, before a route sees it."""

    def __init__(self, app: Any, sessions: Sessions, host: str = "127.0.0.1") -> None:
        self.app, self.sessions, self.host = app, sessions, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("the studio speaks only HTTP")

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if scope["path"].startswith("/static/"):
                    headers.setdefault("cache-control", "no-cache")
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refused(scope)
        query = QueryParams(scope.get("query_string", b""))
        if refusal is not None:
            await refusal(scope, receive, guarded)
        elif scope["path"] == "/" and "token" in query:
            await self._begin(scope, query["token"])(scope, receive, guarded)
        else:
            await self.app(scope, _limited(receive, scope["path"]), guarded)

    def _refused(self, scope: Scope) -> Response | None:
        """Return a refusal, or None; set the session of the request."""
        headers, path = Headers(scope=scope), scope["path"]
        host, is_safe = _header(headers, "host") or "", scope["method"] in SAFE_METHODS
        if not self._is_ours(host):
            problem = f'Host "{host[:80]}" is not this studio; use the address that it printed'
            return _refusal(400, problem)
        origin, site = _header(headers, "origin"), _header(headers, "sec-fetch-site")
        if origin is not None and origin.lower() != f"{scope['scheme']}://{host}".lower():
            return _refusal(403, "requests from other pages are refused (Origin)")
        public = path == "/" or path.startswith("/static/") or path == "/favicon.ico"
        if not (public and is_safe) and site not in (None, "same-origin", "none"):
            return _refusal(403, "requests from other pages are refused (Sec-Fetch-Site)")
        cookie = _cookie(scope, headers)
        session = None if cookie is None else self.sessions.of_cookie(cookie)
        bearer = _header(headers, "authorization")
        if bearer:
            kind, _, token = bearer.partition(" ")
            session = self.sessions.of_token(token.strip()) if kind.lower() == "bearer" else None
        elif session and not is_safe and origin is None and site != "same-origin":
            problem = "a request that changes something must say where it comes from (Origin)"
            return _refusal(403, problem)
        if session is None and not public:
            return _refusal(
                401,
                "open the address that the studio printed when it started, with its token; "
                "scripts send it as Authorization: Bearer TOKEN",
            )
        limit, length = _max_bytes(path), _header(headers, "content-length") or "0"
        if not length.isascii() or not length.isdecimal() or int(length[:20]) > limit:
            return _refusal(413, f"a request may have at most {limit >> 20} MB")
        scope.setdefault("state", {}).update(session=session, cookie=None if bearer else cookie)
        return None

    def _is_ours(self, host: str) -> bool:
        """Return whether a Host is a name of this machine: a foreign name that leads here is
        another site's trick. An address in numbers is no name, so where others may connect, each is
        ours."""
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        name = name.strip("[]").lower()
        if name in LOOPBACK:
            return True
        if self.host in LOOPBACK:
            return False
        if name in (self.host.lower(), socket.gethostname().lower()):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _begin(self, scope: Scope, token: str) -> Response:
        """Begin the session of a token and lead to the page."""
        session = self.sessions.of_token(token)
        cookie = _cookie(scope, Headers(scope=scope))
        known = cookie is not None and self.sessions.of_cookie(cookie) is not None
        if session is None and not known:
            return HTMLResponse(STALE, 401)
        answer = RedirectResponse("/", 303)
        if session is None:  # an old bookmark of somebody who has a session
            return answer
        cookie = f"{_cookie_name(scope)}={self.sessions.begin(session)}"
        answer.headers["set-cookie"] = f"{cookie}; HttpOnly; SameSite=Strict; Path=/"
        return answer


def _header(headers: Headers, name: str) -> str | None:
    """Return a header; one that comes twice is joined, so that it is wrong."""
    return ", ".join(headers.getlist(name)) if name in headers else None


def _cookie_name(scope: Scope) -> str:
    """Return a name of its own for each port, since browsers send cookies to every port."""
    server = scope.get("server") or ("", 0)
    return f"dejacue-studio-{server[1]}"


def _cookie(scope: Scope, headers: Headers) -> str | None:
    """Return our cookie, whatever other programs of this machine have set: they share cookies."""
    for part in ";".join(headers.getlist("cookie")).split(";"):
        name, _, value = part.strip().partition("=")
        if name == _cookie_name(scope):
            return value
    return None


def _refusal(status: int, sentence: str) -> Response:
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"detail": sentence}, status, headers)


def _max_bytes(path: str) -> int:
    return MAX_UPLOAD_BYTES if path == "/api/uploads" else MAX_BODY_BYTES


def _limited(receive: Receive, path: str) -> Receive:
    """Refuse more bytes than are allowed, also where their number is not said before."""
    limit, received = _max_bytes(path), 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            if received > limit:
                raise HTTPException(413, f"a request may have at most {limit >> 20} MB")
        return message

    return counted
