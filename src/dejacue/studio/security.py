"""Check who sends requests: token, Host, Origin, Sec-Fetch-Site, sizes.

Loopback is no boundary: any page that is open in a browser on this machine can send requests to it.
So every request below /api needs the token (scripts: Authorization: Bearer …; browsers: a cookie),
comes to a Host that is ours, and from our own pages.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import socket
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from dejacue.atomic import TEMPORARY
from dejacue.studio.workspace import LOOPBACK

SAFE_METHODS = ("GET", "HEAD")
MAX_BODY_BYTES = 4 << 20  # of a request that is no upload
MAX_UPLOAD_BYTES = 16 << 30
STALE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>dejacue studio</title>
</head><body><h1>This address is no longer valid</h1><p>Its token is wrong, or a newer one was made.
Open the address that the studio printed when it started.</p></body></html>"""
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


def kept_token(path: Path, renew: bool = False) -> str:
    """Return the token in a file that only its owner reads (mode 0600): pages that are open go on
    after a restart. It is made where there is none, where others can read it, or to renew it."""
    if not renew:
        with contextlib.suppress(OSError, ValueError):
            with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))) as stream:
                stat, token = os.fstat(stream.fileno()), stream.read()
            private = os.name != "posix" or (stat.st_uid, stat.st_mode & 0o77) == (os.getuid(), 0)
            if private and len(token) >= 43 and token.isascii() and token.isprintable():
                return token
    token = secrets.token_urlsafe(32)
    temporary = path.with_name(f".{path.name}{TEMPORARY}")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "w") as stream:
        stream.write(token)
    os.replace(temporary, path)
    return token


class Guard:
    """ASGI: refuse what does not come from the person at the machine, before a route sees it."""

    def __init__(self, app: Any, token: str, host: str = LOOPBACK[0]) -> None:
        self.app, self.token, self.host = app, token, host

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
            await self._enter(scope, query["token"])(scope, receive, guarded)
        else:
            await self.app(scope, _limited(receive, scope["path"]), guarded)

    def _refused(self, scope: Scope) -> Response | None:
        """Return a refusal, or None."""
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
        bearer = _header(headers, "authorization")
        if bearer:
            kind, _, token = bearer.partition(" ")
            known = kind.lower() == "bearer" and self._is_token(token.strip())
        else:
            known = self._is_token(_cookie(scope, headers))
            if known and not is_safe and origin is None and site != "same-origin":
                problem = "a request that changes something must say where it comes from (Origin)"
                return _refusal(403, problem)
        if not known and not public:
            return _refusal(
                401,
                "open the address that the studio printed when it started, with its token; "
                "scripts send it as Authorization: Bearer TOKEN",
            )
        limit, length = _max_bytes(path), _header(headers, "content-length") or "0"
        if not length.isascii() or not length.isdecimal() or int(length[:20]) > limit:
            return _refusal(413, f"a request may have at most {limit >> 20} MB")
        return None

    def _is_token(self, text: str) -> bool:
        """Return whether a text is the token, in constant time."""
        data = text.encode("utf-8", "surrogateescape")
        return secrets.compare_digest(self.token.encode(), data)

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

    def _enter(self, scope: Scope, token: str) -> Response:
        """Lead from an address with a token to the page, which has it as a cookie."""
        if not self._is_token(token):  # an old bookmark does not hinder who has the cookie
            known = self._is_token(_cookie(scope, Headers(scope=scope)))
            return RedirectResponse("/", 303) if known else HTMLResponse(STALE, 401)
        answer = RedirectResponse("/", 303)
        cookie = f"{_cookie_name(scope)}={self.token}"
        answer.headers["set-cookie"] = f"{cookie}; HttpOnly; SameSite=Strict; Path=/"
        return answer


def _header(headers: Headers, name: str) -> str | None:
    """Return a header; one that comes twice is joined, so that it is wrong."""
    return ", ".join(headers.getlist(name)) if name in headers else None


def _cookie_name(scope: Scope) -> str:
    """Return a name of its own for each port, since browsers send cookies to every port."""
    server = scope.get("server") or ("", 0)
    return f"dejacue-studio-{server[1]}"


def _cookie(scope: Scope, headers: Headers) -> str:
    """Return our cookie, or nothing; other programs of this machine set theirs beside it."""
    for part in ";".join(headers.getlist("cookie")).split(";"):
        name, _, value = part.strip().partition("=")
        if name == _cookie_name(scope):
            return value
    return ""


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
