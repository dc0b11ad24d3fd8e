"""Save in a studio that is killed (SIGKILL) at random moments, and look at what is left.

    python tests/crash/studio_killer.py WORKSPACE ROUNDS

The name of the object grows with every save, so that the finding itself says which save it is of:
never an earlier one than the last that was confirmed.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import sys
import threading
from pathlib import Path

import uvicorn

from dejacue import Finding
from dejacue.studio.app import create_app
from dejacue.studio.serve import bound
from dejacue.studio.state import Studio
from dejacue.studio.workspace import Workspace

TOKEN = "the-token-of-this-test-and-no-other"


def serve(root: Path, listening: socket.socket) -> None:
    """Serve a workspace in a process that is killed in the middle of whatever it does."""
    app = create_app(Studio(Workspace(root), encoder="mini"), TOKEN)
    config = uvicorn.Config(app, log_level="critical", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listening])


def save(connection: http.client.HTTPConnection, number: int) -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    body = json.dumps({"object": f"cup {number}"})
    connection.request("PUT", "/api/findings/cup", body, headers)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text


def saved(root: Path) -> int:
    """Return the number in the finding, which is whole."""
    name = Finding.read(root / "cup").vocabulary.object or ""
    return int(name.removeprefix("cup").strip() or 0)


def main(root: Path, rounds: int) -> None:
    draw = random.Random(0)
    number = confirmed = lost = killed = count = 0
    while killed < rounds:
        listening = bound("127.0.0.1", 0)
        child = os.fork()
        if child == 0:
            serve(root, listening)
            os._exit(0)
        port = listening.getsockname()[1]
        listening.close()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        saves, after_s = draw.randrange(1, 6), 0.05 * draw.random()
        kill = threading.Timer(after_s, os.kill, (child, signal.SIGKILL))
        try:
            while True:
                number += 1
                save(connection, number)
                confirmed, count, saves = number, count + 1, saves - 1
                if saves == 0:
                    kill.start()
        except (OSError, http.client.HTTPException):
            pass
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        killed += 1
        lost += not confirmed <= saved(root) <= number
    print(json.dumps({"killed": killed, "confirmed": count, "lost": lost}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
