"""Serve the page: the socket first, so that a port in use is one sentence; then a browser."""

from __future__ import annotations

import errno
import socket
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dejacue.errors import InputError, extra, need
from dejacue.studio.workspace import LOOPBACK, lock, open_workspace

PORT = 8765
MAX_CONNECTIONS = 128  # further requests get 503; other descriptors are for videos
MAX_HEAD_BYTES = 16 << 10  # of a request
EVERYWHERE = ("0.0.0.0", "::")  # all addresses of the machine, and none that a browser opens
EXTRA = extra("studio")


def _print(text: str) -> None:
    """Print at once, also where the output is a pipe that somebody waits for."""
    print(text, flush=True)


def serve(
    places: Sequence[Path],
    host: str = LOOPBACK[0],
    port: int = PORT,
    browser: bool = True,
    say: Callable[[str], object] = _print,
    new_token: bool = False,
    **options: Any,
) -> None:
    """Serve a workspace until it is stopped.

    places      a folder (default: the current one), or videos
    new_token   make a new token; the one before ends
    options     encoder, tracker, encoder_options: of ``Studio``
    """
    uvicorn = need("uvicorn", EXTRA)
    need("fastapi", EXTRA)
    from dejacue.studio.app import create_app
    from dejacue.studio.security import kept_token
    from dejacue.studio.state import Studio
    from dejacue.studio.videos import remove_unfinished_uploads

    workspace, opened = open_workspace(places)
    with bound(host, port) as listening:
        number = listening.getsockname()[1]
        name = LOOPBACK[0] if host in EVERYWHERE else f"[{host}]" if ":" in host else host
        url = f"http://{name}:{number}/"
        with lock(workspace, url):
            remove_unfinished_uploads(workspace.root)
            token = kept_token(workspace.private / "token", renew=new_token)
            studio = Studio(workspace, opened=opened, **options)
            # no access log: the first address holds the token
            config = uvicorn.Config(
                create_app(studio, token, host),
                access_log=False,
                log_level="warning",
                lifespan="on",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=2,
                log_config=None,
                ws="none",
                http="h11",
                h11_max_incomplete_event_size=MAX_HEAD_BYTES,
                limit_concurrency=MAX_CONNECTIONS,
            )
            address = f"{url}?token={token}"
            if host not in LOOPBACK:
                say(
                    f"whoever reaches {host} and has the token can see the videos and findings in "
                    f"{workspace.root} and write there; the traffic is not encrypted. From another "
                    f"machine the address is http://{socket.gethostname()}:{number}/?token={token}"
                )
            say(f"the studio serves {workspace.root} (Ctrl-C ends it): {address}")
            if browser:
                opening = threading.Timer(0.5, webbrowser.open, [address])
                opening.daemon = True
                opening.start()
            server = uvicorn.Server(config)
            handle_exit = server.handle_exit

            def end(*signal: Any) -> None:
                studio.ending = True  # answers that have no end of their own end now
                handle_exit(*signal)

            server.handle_exit = end
            server.run(sockets=[listening])


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; port 0: any that is free."""
    if not 0 <= port <= 65535:
        raise InputError(f"port {port}: a port is a number from 0 (any free port) to 65535")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sends small answers at once where the protocol is said to be TCP
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
            listening.listen(128)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            problem = f"port {port} is in use, perhaps by another studio"
            raise InputError(f"{problem}; give another one, or 0 for any free port") from None
        problem = f"{host}:{port}: cannot listen there ({error.strerror})"
        raise InputError(f"{problem}; give another host or port") from None
    return listening
