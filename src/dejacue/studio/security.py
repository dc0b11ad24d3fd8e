"""Who may ask: a token a start, sessions, Host, Origin and Sec-Fetch-Site, headers, sizes.

Loopback is no boundary: any page that is open in a browser on this machine can send requests to it.
So every request below /api needs the token (scripts: Authorization: Bearer …) or the cookie of a
session that was begun with it, comes to a Host that is ours, and from our own pages.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import secrets
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SAFE = ("GET", "HEAD")
MOST_BODY = 4 << 20  # bytes of a request that is no upload
MOST_UPLOAD = 16 << 30
MOST_SESSIONS = 1000
UPLOADS = "/api/uploads"
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
class Session:
    """Whoever asks. annotator: who labels, and sees nothing but the own pass; None: the owner.

    owner   whether the session was begun with the token of the start, so that it may stop labelling
    """

    annotator: str | None = None
    owner: bool = True


class Sessions:
    """Tokens and the sessions that were begun with them; they end with the process."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token or secrets.token_urlsafe(32)
        self._invited: dict[str, str] = {}  # token → annotator
        self._sessions: OrderedDict[str, Session] = OrderedDict()  # hash of the cookie → who

    def invite(self, annotator: str) -> str:
        """A token with which one annotator may label, and no more."""
        for token, known in self._invited.items():
            if known == annotator:
                return token
        token = secrets.token_urlsafe(32)
        self._invited[token] = annotator
        return token

    def of_token(self, given: str) -> Session | None:
        found = None
        tokens = {self.token: Session(), **{t: Session(a, False) for t, a in self._invited.items()}}
        for token, session in tokens.items():  # all of them, each in constant time
            if secrets.compare_digest(token.encode(), given.encode("utf-8", "surrogateescape")):
                found = session
        return found

    def begin(self, session: Session) -> str:
        """The value of a cookie."""
        cookie = secrets.token_urlsafe(32)
        self._sessions[_hashed(cookie)] = session
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return cookie

    def of_cookie(self, cookie: str) -> Session | None:
        return self._sessions.get(_hashed(cookie))

    def change(self, cookie: str, session: Session) -> None:
        self._sessions[_hashed(cookie)] = session


def _hashed(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogateescape")).hexdigest()


class Guard:
    """ASGI: refuses what does not come from the person at the machine, before a route sees it."""

    def __init__(self, app: Any, sessions: Sessions, host: str = "127.0.0.1") -> None:
        self.app, self.sessions, self.host = app, sessions, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("the studio speaks only HTTP")
        headers = _headers(scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                if scope["path"].startswith("/static/") and b"cache-control" not in own:
                    message["headers"].append((b"cache-control", b"no-cache"))
                    own.add(b"cache-control")
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in HEADERS.items()
                        if name.encode() not in own
                    ),
                ]
            await send(message)

        refusal = self._refused(scope, headers)
        if refusal is not None:
            await _answer(guarded, *refusal)
        elif scope["path"] == "/" and "token" in (query := _query(scope)):
            await self._begin(scope, guarded, query["token"][0])
        else:
            await self.app(scope, _limited(receive, scope["path"]), guarded)

    def _refused(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """Status and sentence, or None; sets who asks."""
        host, path, method = headers.get("host", ""), scope["path"], scope["method"]
        if not self._is_ours(host):
            return 400, f'Host "{host[:80]}" is not this studio; use the address that it printed'
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        own = f"{scope['scheme']}://{host}".lower()
        if origin is not None and origin.lower() != own:
            return 403, "requests from other pages are refused (Origin)"
        public = path == "/" or path.startswith("/static/") or path == "/favicon.ico"
        if not (public and method in SAFE) and site not in (None, "same-origin", "none"):
            return 403, "requests from other pages are refused (Sec-Fetch-Site)"
        cookie = _cookie(scope, headers)
        session = None if cookie is None else self.sessions.of_cookie(cookie)
        bearer = headers.get("authorization", "")
        if bearer:
            kind, _, token = bearer.partition(" ")
            session = self.sessions.of_token(token.strip()) if kind.lower() == "bearer" else None
        elif session and method not in SAFE and origin is None and site != "same-origin":
            return 403, "a request that changes something must say where it comes from (Origin)"
        if session is None and not public:
            return 401, (
                "open the address that the studio printed when it started, with its token; "
                "scripts send it as Authorization: Bearer TOKEN"
            )
        most = MOST_UPLOAD if path == UPLOADS else MOST_BODY
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdecimal() or int(length[:20]) > most:
            return 413, f"a request may have at most {most >> 20} MB"
        scope.setdefault("state", {}).update(session=session, cookie=None if bearer else cookie)
        return None

    def _is_ours(self, host: str) -> bool:
        """Names of this machine alone: a foreign name that leads here is another site's trick. An
        address in numbers is no name, so where others may connect, each is ours."""
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

    async def _begin(self, scope: Scope, send: Send, token: str) -> None:
        session = self.sessions.of_token(token)
        if session is None:
            await _answer(
                send,
                401,
                "the token is wrong or from an earlier start; open the "
                "address that the studio printed when it started",
            )
            return
        cookie = f"{_cookie_name(scope)}={self.sessions.begin(session)}"
        headers = [
            (b"location", b"/"),
            (b"set-cookie", f"{cookie}; HttpOnly; SameSite=Strict; Path=/".encode()),
        ]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _headers(scope: Scope) -> dict[str, str]:
    """Those that are looked at; one that comes twice counts as wrong."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        between = "; " if key == "cookie" else ", "
        found[key] = f"{found[key]}{between}{text}" if key in found else text
    return found


def _query(scope: Scope) -> dict[str, list[str]]:
    return parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)


def _cookie_name(scope: Scope) -> str:
    """Of its own for each port, since browsers send cookies to every port."""
    server = scope.get("server") or ("", 0)
    return f"dejacue-studio-{server[1]}"


def _cookie(scope: Scope, headers: dict[str, str]) -> str | None:
    """Ours, whatever other programs of this machine have set: they share cookies."""
    name = _cookie_name(scope)
    for part in headers.get("cookie", "").split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return None


async def _answer(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"detail": sentence}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _limited(receive: Receive, path: str) -> Receive:
    """No more bytes than are allowed, also where their number is not said before."""
    most = MOST_UPLOAD if path == UPLOADS else MOST_BODY
    got = 0

    async def counted() -> Message:
        nonlocal got
        message = await receive()
        if message["type"] == "http.request":
            got += len(message.get("body", b""))
            if got > most:
                raise HTTPException(413, f"a request may have at most {most >> 20} MB")
        return message

    return counted
