"""Progress on the terminal, drawn with rich; quiet when it is piped."""

from __future__ import annotations

import time

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from dejacue.cli.tables import console
from dejacue.errors import counted


class Bars:
    """Shows a progress bar for each stage, with its note, within a ``with`` block."""

    def __init__(self) -> None:
        self._screen = console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description:8}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._screen,
            transient=True,
            disable=not self._screen.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._seen: dict[str, tuple[float, int, int]] = {}  # when it began, first and last count

    def __enter__(self) -> Bars:
        self._bar.__enter__()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._bar.__exit__(kind, error, trace)  # type: ignore[arg-type]
        if error is None:
            self._summarise()

    def __call__(self, stage: str, done: int, total: int | None = None, note: str = "") -> None:
        now = time.perf_counter()
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(stage, note="")
        began, first, _ = self._seen.get(stage, (now, done, done))
        self._seen[stage] = began, first, done
        self._bar.update(self._tasks[stage], completed=done, total=total, note=note)

    def _summarise(self) -> None:
        """Print how much was done, and how fast."""
        now = time.perf_counter()
        if "follow" in self._seen:
            began, first, last = self._seen["follow"]
            self._say(f"{last - first + 1} frames", last - first + 1, now - began)
        if "crops" in self._seen:
            began, _, crops = self._seen["crops"]
            videos = counted(self._seen["videos"][2], "video")
            self._say(f"{videos}, {counted(crops, 'crop')}", crops, now - began)
        if "decode" in self._seen:
            began, _, frames = self._seen["decode"]
            crops = self._seen.get("encode", (0.0, 0, 0))[2]
            self._say(f"{frames} frames, {crops} crops", crops, now - began)

    def _say(self, what: str, count: int, seconds: float) -> None:
        rate = count / max(seconds, 1e-9)
        self._screen.print(f"{what} in {seconds:.1f} s ({rate:.0f} per second)", soft_wrap=True)
