"""Connections that send no whole request end soon, and faults are one line in the log.

Neither needs a token: whoever reaches the port could use up the descriptors or the disk otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import traceback
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from dejacue.errors import one_line

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

REQUEST_S = 10.0  # in which the head of a request is to be sent
MAX_CONNECTIONS = 2048
ACCEPTED_AT_ONCE = 32  # connections, before the oldest ones can make room
REPEATED_S = 10.0  # in which the same line is not written again


def max_connections() -> int:
    """Raise the limit of open files as far as is allowed; leave most of it to videos."""
    if resource is None:
        return MAX_CONNECTIONS // 8
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * MAX_CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, soft // 4)


class LimitedProtocol(H11Protocol):
    """A connection that has REQUEST_S for the head of a request. Where there are too many, of one
    address or in all, the one that has waited longest without a request makes room."""

    limit = MAX_CONNECTIONS
    _timer: asyncio.TimerHandle | None = None
    _began_s = 0.0

    @property
    def _address(self) -> str | None:
        return self.client[0] if self.client else None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._began_s = self.loop.time()
        self._await_request()
        connections = cast("list[LimitedProtocol]", list(self.connections))
        same = [peer for peer in connections if peer._address == self._address]
        for peers, limit in ((same, 3 * self.limit // 4), (connections, self.limit)):
            if len(peers) > limit:
                waiting = [peer for peer in peers if peer._is_waiting() and peer is not self]
                min(waiting, key=lambda peer: peer._began_s, default=self)._end(503)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_waiting():
            self._await_request()
        else:
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _is_waiting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _await_request(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(REQUEST_S, self._late)

    def _late(self) -> None:
        self._timer = None
        if self._is_waiting():
            self._end(408)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, status: int) -> None:
        self._stop_timer()
        self.connections.discard(self)
        head = f"HTTP/1.1 {status} \r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        self.transport.write(head.encode())
        self.transport.close()


class OneLine(logging.Formatter):
    """Write an error as one line: what was raised, and through which of our lines it came."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage().strip()
        error: Any = record.exc_info[1] if record.exc_info else None
        if error is not None:
            frames = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in frames if "dejacue" in frame.filename] or frames[-1:]
            lines = (f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in ours)
            text = f"{text}: {type(error).__name__}: {error} ({' > '.join(lines)})"
        return one_line(text)


class Once(logging.Filter):
    """Drop a line that was written a moment ago."""

    def __init__(self) -> None:
        super().__init__()
        self._written_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text, now = OneLine().format(record), time.monotonic()
        recent = {line: at for line, at in self._written_s.items() if now - at < REPEATED_S}
        self._written_s = recent | ({} if text in recent else {text: now})
        return text not in recent


def log_in_lines() -> None:
    """Let the server and its loop write one line for a fault."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine())
    handler.addFilter(Once())
    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
