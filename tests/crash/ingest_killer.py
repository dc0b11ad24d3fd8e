"""Kill an ingest again and again, go on, and look at what is there.

Run by tests/pipeline/test_ingest.py:

    python tests/crash/ingest_killer.py FOLDER [kills]

Each ingest is a fork that counts the lines of dejacue.store, dejacue.pipeline.ingest and
dejacue.sources.build that any of its threads runs, and kills itself (SIGKILL) at a random one.
After each kill the store is sound; in the end every history is there once, with the rows of a run
that was left alone, and no kill has cost more than a batch of crops that were encoded twice.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # helpers

import numpy as np
from helpers.ingest import Counting, features_by_id, make_video

import dejacue.pipeline.ingest
import dejacue.sources.build
import dejacue.store
from dejacue import Store
from dejacue.pipeline.ingest import ingest, writer

HERE = (
    *(
        str(Path(str(module.__file__)).parent)
        for module in (dejacue.store, dejacue.pipeline.ingest)
    ),
    str(dejacue.sources.build.__file__),
)
VIDEOS = 4


def lines_until_killed(at: int) -> None:
    """Count the lines of every thread, and die at one of them; at 0 nothing happens."""
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(HERE):
            return None
        if event == "line":
            count += 1
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    threading.settrace(trace)
    sys.settrace(trace)


def run(rows: list[dict[str, str]], store: Path, counter: Path, mixing: bool, at: int) -> bool:
    """Ingest in a child process that may be killed; return whether it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            writer.MAX_WAITING_S = 0.0
            lines_until_killed(at)
            result = ingest(rows, store, encoder=Counting(counter, mixing), workers=2)
            os._exit(1 if result.failed else 0)
        except BaseException:
            traceback.print_exc()
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return not os.WIFSIGNALED(status)


def main(folder: Path, kills: int, mixing: bool, seed: int = 1) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [make_video(folder, f"v{k}", k) | {"objects": "all"} for k in range(VIDEOS)]
    whole, once = folder / "whole", folder / "once"
    assert run(rows, whole, once, mixing, 0)
    expected, crops = features_by_id(whole), once.stat().st_size
    assert len(expected) == 2 * VIDEOS
    rng = np.random.default_rng(seed)
    killed = in_chain = 0
    store, counter = folder / "store", folder / "counter"
    while killed < kills or in_chain:
        at = int(rng.integers(1, 9000)) if killed < kills else 0
        if run(rows, store, counter, mixing, at):
            assert features_by_id(store) == expected
            encoded = counter.stat().st_size
            assert encoded <= crops + in_chain * Counting.batch, (encoded, crops, in_chain)
            assert not (store / writer.PARTIAL).exists()
            in_chain = 0
            shutil.rmtree(store)
            counter.unlink()
        else:
            killed, in_chain = killed + 1, in_chain + 1
            if Store.is_at(store):
                there = features_by_id(store)
                assert there == {id: expected[id] for id in there}
    print(f"{kills} kills, {crops} crops")


if __name__ == "__main__":
    for mixing in (False, True):
        place = Path(sys.argv[1], str(mixing))
        main(place, int(sys.argv[2]) if len(sys.argv) > 2 else 24, mixing)
