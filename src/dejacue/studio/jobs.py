"""Long work in the background: one job at a time, with progress; cancelled, it keeps what it can.

A job that is requested again goes on where it was stopped: the pipeline itself reuses what is done.
"""

from __future__ import annotations

import logging
import queue
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dejacue.errors import Cancelled, DejaCueError, lacks_memory, one_line
from dejacue.progress import Progress
from dejacue.studio.errors import Conflict, NotThere

_log = logging.getLogger("dejacue")
MAX_ENDED_JOBS = 200  # that are listed
MAX_WAITING_JOBS = 50
ENDED = ("done", "failed", "stopped")
Work = Callable[[Progress], Any]


@dataclass
class BackgroundTask:
    """Work in the background, and its progress.

    request   its body, to repeat it
    state     waiting, running, done, failed or stopped
    problem   a sentence on what went wrong
    version   grows with every change
    """

    kind: str
    request: dict[str, Any]
    work: Work
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    state: str = "waiting"
    stage: str = ""
    done: int = 0
    total: int | None = None
    note: str = ""
    problem: str | None = None
    result: Any = None
    version: int = 0
    cancelled: bool = False

    @property
    def ended(self) -> bool:
        return self.state in ENDED


class TaskQueue:
    """A queue and its worker thread, which starts with the first task."""

    def __init__(self) -> None:
        self._jobs: dict[str, BackgroundTask] = {}
        self._queue: queue.Queue[BackgroundTask | None] = queue.Queue()
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None

    def add(self, kind: str, request: dict[str, Any], work: Work) -> BackgroundTask:
        with self._lock:
            if sum(not job.ended for job in self._jobs.values()) >= MAX_WAITING_JOBS:
                problem = f"{MAX_WAITING_JOBS} jobs are waiting"
                raise Conflict(problem, remedy="wait until some of them end")
            self.check_free(request.get("folder"))
            job = BackgroundTask(kind, request, work)
            self._jobs[job.id] = job
            for old in [job.id for job in self._jobs.values() if job.ended][:-MAX_ENDED_JOBS]:
                del self._jobs[old]
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)
                self._thread.start()
        self._queue.put(job)
        return job

    def check_free(self, folder: str | None) -> None:
        """Refuse a folder that a job writes to, or will."""
        with self._lock:
            used = (job.request.get("folder") for job in self._jobs.values() if not job.ended)
            if folder is not None and folder in used:
                problem = f'a job is using "{folder}"; wait until it ends, or stop it'
                raise Conflict(problem, field="folder", value=folder)

    def get(self, id: str) -> BackgroundTask:
        with self._lock:
            if id not in self._jobs:
                problem = f'there is no job "{id[:40]}"; jobs are lost when the studio stops'
                raise NotThere(problem, field="job", value=id)
            return self._jobs[id]

    def all(self) -> list[BackgroundTask]:
        """Return all jobs, the latest first."""
        with self._lock:
            return list(self._jobs.values())[::-1]

    def cancel(self, id: str) -> BackgroundTask:
        job = self.get(id)
        job.cancelled = True
        if job.state == "waiting":
            self._end(job, "stopped", "stopped before it began")
        return job

    def close(self) -> None:
        """Stop what runs; it keeps what it can."""
        for job in self.all():
            job.cancelled = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(timeout=10)

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            if not job.cancelled:
                self._work(job)

    def _work(self, job: BackgroundTask) -> None:
        def progress(stage: str, done: int, total: int | None = None, note: str = "") -> None:
            if job.cancelled:
                raise Cancelled("stopped")
            job.stage, job.done, job.total, job.note = stage, done, total, note
            job.version += 1

        job.state = "running"
        job.version += 1
        try:
            job.result = job.work(progress)
            self._end(job, "done")
        except Cancelled as error:
            self._end(job, "stopped", str(error))
        except DejaCueError as error:
            self._end(job, "failed", str(error))
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            self._end(job, "failed", f"{where}{error.strerror or error}")
        except Exception as error:  # the thread goes on, whatever a model or a library raises
            reason = "out of memory" if lacks_memory(error) else type(error).__name__
            if reason != "out of memory":
                _log.exception("a job failed")
            self._end(job, "failed", f"{reason}: {error}")

    def _end(self, job: BackgroundTask, state: str, problem: str | None = None) -> None:
        job.problem = None if problem is None else one_line(problem)
        job.state = state
        job.version += 1
