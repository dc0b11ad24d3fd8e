"""Run a target that breaks the rule, in the way that the first argument names."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from random import Random

import fuzz


def break_rule(rng: Random, valid: Path, folder: Path) -> None:
    if KIND == "traceback":
        raise KeyError("x")
    if KIND == "death":
        os.kill(os.getpid(), signal.SIGKILL)
    if KIND == "leftover":
        (folder / ".x.json.dejacue-tmp").write_bytes(b"half")
    if KIND == "hang":
        time.sleep(600)
    if KIND == "starved":
        until = time.monotonic() + 2
        while time.monotonic() < until:
            pass


if __name__ == "__main__":
    KIND = sys.argv[1]
    fuzz.TARGETS = {KIND: fuzz.Target(KIND, 1, lambda folder: None, break_rule)}
    fuzz.MAX_SECONDS = 0.3 if KIND in ("hang", "starved") else 600
    if KIND == "starved":  # it wants to compute, and other programs have the processors
        fuzz.computed = lambda pid: 0.0
    failed = fuzz.run([(KIND, 0), (KIND, 1)], 5, 1, Path("scratch").absolute())
    print(f"failed: {dict(failed)}")
