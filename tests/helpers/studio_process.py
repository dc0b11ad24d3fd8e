"""A studio in a process of its own, which tests kill and start again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dejacue.studio.serve import bound

SERVE = """
import sys
from dejacue.studio.serve import serve
serve([sys.argv[1]], port=int(sys.argv[2]), browser=False, encoder="mini")
"""


class StudioProcess:
    """``dejacue studio`` at one address; patch: code that is executed before it starts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        with bound("127.0.0.1", 0) as listening:
            self.port = listening.getsockname()[1]
        self.process: subprocess.Popen[str] | None = None
        self.token = ""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self, patch: str = "") -> None:
        """Start it, and wait until it listens."""
        command = [sys.executable, "-c", patch + SERVE, str(self.root), str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = ""
        while "token=" not in line:
            line = self.process.stdout.readline()
            assert line, "the studio did not start"
        self.token = line.split("token=")[1].split()[0]

    def kill(self) -> None:
        """Kill it (SIGKILL) and wait for its end."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None
