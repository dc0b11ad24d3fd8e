"""Label in a studio that is killed (SIGKILL) at random moments, and look at what is left.

    python tests/crash/studio_killer.py WORKSPACE ROUNDS

Each label is one bit of a number that grows with every save, so that the file itself says which
save it is of: never an earlier one than the last that was confirmed.
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

from dejacue.data.annotation import read_pass
from dejacue.studio.annotations import target
from dejacue.studio.app import create_app
from dejacue.studio.security import Sessions
from dejacue.studio.serve import bound
from dejacue.studio.state import Studio
from dejacue.studio.workspace import Workspace

PASS = "/api/annotations/cup/passes/Anna"
FRAMES = 60


def serve(root: Path, sessions: Sessions, listening: socket.socket) -> None:
    """Serve a workspace in a process that is killed in the middle of whatever it does."""
    app = create_app(Studio(Workspace(root), sessions, encoder="mini"))
    config = uvicorn.Config(app, log_level="critical", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listening])


def save(connection: http.client.HTTPConnection, token: str, number: int) -> None:
    bits = [number >> frame & 1 for frame in range(FRAMES)]
    runs = [{"start": k, "end": k, "label": "ab"[bit]} for k, bit in enumerate(bits)]
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    connection.request("PUT", PASS, json.dumps({"runs": runs}), headers)
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, body


def saved(root: Path) -> int:
    """Return the number in the file, which is whole."""
    labels = read_pass(root / "cup" / "annotations" / "anna.pass.json").labels
    return sum(1 << frame for frame, label in enumerate(labels) if label == "b")


def main(root: Path, rounds: int) -> None:
    sessions = Sessions()
    token = sessions.invite("Anna")
    draw = random.Random(0)
    target(Studio(Workspace(root), sessions), "cup").create("Anna", ["a", "b"], False)
    number = confirmed = lost = killed = count = 0
    while killed < rounds:
        listening = bound("127.0.0.1", 0)
        child = os.fork()
        if child == 0:
            serve(root, sessions, listening)
            os._exit(0)
        port = listening.getsockname()[1]
        listening.close()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        saves, after_s = draw.randrange(1, 6), 0.03 * draw.random()
        kill = threading.Timer(after_s, os.kill, (child, signal.SIGKILL))
        try:
            while True:
                number += 1
                save(connection, token, number)
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
