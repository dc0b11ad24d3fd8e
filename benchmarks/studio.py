"""The studio under load, and how quickly intervals follow edited words.

    python benchmarks/studio.py            10,000 requests of 20 clients; memory before and after
    python benchmarks/studio.py --frames   also histories of 20,000 and 200,000 frames

Renders a scene, finds its states with mini, starts ``dejacue studio`` and asks as scripts do.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _common import Parser

STATES = {
    "empty": ["cup with nothing in it", "drained cup"],
    "full": ["filled up cup"],
    "half full": ["half full cup"],
}


class Server(NamedTuple):
    process: subprocess.Popen[str]
    port: int
    token: str

    def ask(self, connection: http.client.HTTPConnection, path: str, body: object = None) -> bytes:
        method = "GET" if body is None else "POST"
        text = None if body is None else json.dumps(body)
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        connection.request(method, path, text, headers)
        answer = connection.getresponse()
        data = answer.read()
        if answer.status not in (200, 206):
            raise ValueError(f"{path}: {answer.status} {data[:200]!r}")
        return data

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def cpu_ms(self) -> float:
        """Return how long the server has worked since it started."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0


@contextmanager
def served(root: Path) -> Iterator[Server]:
    command = [
        sys.executable,
        "-m",
        "dejacue",
        "studio",
        str(root),
        "--no-browser",
        "--port",
        "0",
        "--encoder",
        "mini",
    ]
    env = {**os.environ, "COLUMNS": "1000", "TERM": "dumb"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split()[-1]
        base, token = address.split("?token=")
        yield Server(process, int(base.rsplit(":", 1)[1].strip("/")), token)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


class Load(NamedTuple):
    answered: int
    failed: list[str]
    seconds: float
    memory_mb: list[float]  # at even steps


def load(root: Path, requests: int, clients: int) -> Load:
    """Send what a page asks for, in turn: scenes, readings, frames, parts of the file, lists."""
    reading = {"states": STATES}
    paths: list[tuple[str, object]] = [
        ("/api/findings/cup/scene", None),
        ("/api/findings/cup/read", reading),
        ("/api/videos/scene/scene.mp4/frames/{n}.jpg?width=160", None),
        ("/api/workspace", None),
        ("/api/findings/cup/read", {"examples": [{"state": "full", "start": 3, "end": 5}]}),
        ("/api/findings/cup/outline/{n}", None),
        ("/api/findings", None),
        ("/api/jobs", None),
        ("/api/videos/scene/scene.mp4/times", None),
        ("/api/videos/scene/scene.mp4/file", None),
    ]
    with served(root) as server:
        left, answered = iter(range(requests)), [0] * clients
        failed: list[str] = []
        memory: list[float] = []

        def client(thread: int) -> None:
            connection = server.connect()
            for number in left:
                path, body = paths[number % len(paths)]
                try:
                    server.ask(connection, path.format(n=number * 7 % 50), body)
                    answered[thread] += 1
                except (OSError, ValueError, http.client.HTTPException) as error:
                    failed.append(f"{path}: {error}")
                    connection.close()
                if number % max(requests // 10, 1) == 0:
                    memory.append(server.memory_mb())
            connection.close()

        threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began
        memory.append(server.memory_mb())
    return Load(sum(answered), failed, took, memory)


def readings(root: Path, finding: str, edits: int) -> tuple[float, float, float]:
    """Return the median milliseconds until the scene is there: with a new word, and once it is
    encoded; and how long the server works for one, whatever else the machine does."""
    new, known = [], []
    words = ["tall", "white", "small", "old", "round", "empty", "full", "dark", "bright", "clean"]
    with served(root) as server:
        connection = server.connect()
        server.ask(connection, f"/api/findings/{finding}/read", {"states": STATES})
        before = server.cpu_ms()
        for number in range(edits):
            text = f"{words[number % 10]} {words[number // 10]} cup"
            body = {"states": {**STATES, "empty": [text]}, "most": 20_000}
            for times in (new, known):
                began = time.perf_counter()
                server.ask(connection, f"/api/findings/{finding}/read", body)
                times.append(1000 * (time.perf_counter() - began))
        worked = (server.cpu_ms() - before) / (2 * edits)
        connection.close()
    return float(np.median(new)), float(np.median(known)), worked


def segments(root: Path, finding: str) -> tuple[float, float]:
    """Return milliseconds until they are there, for the first time, and CPU of the server."""
    with served(root) as server:
        connection = server.connect()
        server.ask(connection, f"/api/findings/{finding}/info")  # the finding is read
        began, before = time.perf_counter(), server.cpu_ms()
        server.ask(connection, f"/api/findings/{finding}/segments")
        took, worked = 1000 * (time.perf_counter() - began), server.cpu_ms() - before
        connection.close()
        return took, worked


def browsing(root: Path, rounds: int) -> float:
    """Return CPU ms of the server for a round of what a page asks as a person looks around."""
    paths = ("workspace", "findings", "findings/cup/info", "findings/cup/outline/3")
    with served(root) as server:
        connection = server.connect()
        for path in paths:  # what is read once is read now
            server.ask(connection, f"/api/{path}")
        before = server.cpu_ms()
        for _ in range(rounds):
            for path in paths:
                server.ask(connection, f"/api/{path}")
        connection.close()
        return (server.cpu_ms() - before) / rounds


def made_workspace(folder: Path, frames: int) -> Path:
    from dejacue import find
    from dejacue_paper.data.rendered import render, write_scene

    scene = folder / "scene"
    write_scene(scene, render(7, family="cup", topology="three", frames=frames))
    find(
        scene / "scene.mp4",
        scene / "vocabulary.yaml",
        masks=scene / "Annotations",
        objects=[1],
        encoder="mini",
        folder=folder / "cup",
    )
    return folder


def long_finding(root: Path, frames: int) -> None:
    """Write the finding again, its history repeated until it has so many frames."""
    from dataclasses import replace

    from dejacue import Finding, History

    finding = Finding.read(root / "cup")
    rows = np.resize(np.arange(len(finding.history)), frames)
    history = History(finding.history.features[rows], id="long", encoder=finding.history.encoder)
    replace(finding, history=history, thumbnails={}, crops={}).with_words().save(root / "long")


def main() -> None:
    parser = Parser(__doc__, requests=20, clients=2)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--frames", action="store_true", help="also measure long histories")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        short, edits = (60, 2) if asked.smoke else (300, 30)
        root = made_workspace(Path(folder, "here"), short)
        print("ms until the scene arrives (median), and CPU ms of the server:")
        for frames in (short, 20_000, 200_000) if asked.frames else (short,):
            if frames > short:
                long_finding(root, frames)
            finding = "cup" if frames == short else "long"
            new, known, worked = readings(root, finding, edits if frames == short else 5)
            took, cut = segments(root, finding)
            print(
                f"{frames} frames: a new word {new:.0f}, an encoded word {known:.0f}, CPU "
                f"{worked:.0f}; segments {took:.0f}, CPU {cut:.0f}"
            )
        moved = shutil.copytree(root, Path(folder, "moved"))
        rounds = 5 if asked.smoke else 200
        here, elsewhere = browsing(root, rounds), browsing(moved, rounds)
        ratio = elsewhere / max(here, 1e-9)
        print(f"a round of lists, info and outline: CPU {here:.1f} ms; in a copy {ratio:.2f} times")
        answers = load(root, asked.requests, asked.clients)
    print(
        f"{asked.requests} requests from {asked.clients} clients: {answers.answered} answered, "
        f"{len(answers.failed)} failed, {asked.requests / answers.seconds:.0f} per second"
    )
    print("memory of the server in MB: " + ", ".join(f"{size:.0f}" for size in answers.memory_mb))
    for text in answers.failed[:5]:
        print(text)


if __name__ == "__main__":
    main()
