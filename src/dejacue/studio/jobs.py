"""Long work in the background: one job at a time, with progress; cancelled, it keeps what it can.

A job that is requested again goes on where it was stopped: ``find`` itself reuses what is done.
Jobs are kept as files; those that a killed studio has left are interrupted.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dejacue.atomic import write_text
from dejacue.errors import Cancelled, DejaCueError, InputError, lacks_memory, one_line
from dejacue.records import Note
from dejacue.studio.errors import Conflict, NotThere

_log = logging.getLogger("dejacue")
MAX_ENDED_JOBS = 200  # that are listed
MAX_WAITING_JOBS = 50
MAX_DOUBTS = 500  # that are sent while an object is followed
WRITE_S = 1.0  # after which the progress of a job is written again
ENDED = ("done", "failed", "stopped", "interrupted")


@dataclass
class BackgroundTask:
    """Work in the background, and its progress.

    request   its body, to repeat it
    state     waiting, running, done, failed, stopped or interrupted (the studio was killed)
    doubts    of the object that is followed so far: start, end (shares of its frames) and text
    rows      what it has made so far, where that is a list; they stay if it is stopped
    problem   a sentence on what went wrong
    version   grows with every change
    """

    kind: str
    request: dict[str, Any]
    work: Work | None  # None: of an earlier start of the studio
    # in the order of their beginning
    id: str = field(default_factory=lambda: f"{time.time_ns():016x}{secrets.token_hex(2)}")
    state: str = "waiting"
    stage: str = ""
    done: int = 0
    total: int | None = None
    note: str = ""
    doubts: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    problem: str | None = None
    result: Any = None
    version: int = 0
    cancelled: bool = False

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    def add_doubt(self, start: float, end: float, text: str) -> None:
        """Add a doubtful frame; those that follow each other for one reason are one doubt."""
        last = self.doubts[-1] if self.doubts else None
        if last is not None and (last["end"], last["text"]) == (start, text):
            start = last["start"]
            self.doubts = self.doubts[:-1]
        if len(self.doubts) < MAX_DOUBTS:
            self.doubts = [*self.doubts, {"start": start, "end": end, "text": str(text)}]

    def to_dict(self) -> dict[str, Any]:
        """Return its fields at one moment, without those that only this process uses."""
        fields = vars(self) | {"rows": list(self.rows)}
        del fields["work"], fields["cancelled"]
        return fields


class TaskProgress:
    """The progress function of a task: it takes note, and stops a task that was cancelled."""

    def __init__(self, task: BackgroundTask, write: Callable[[BackgroundTask], object]) -> None:
        self._task, self._write, self._written_s = task, write, time.monotonic()

    def __call__(self, stage: str, done: int, total: int | None = None, note: str = "") -> None:
        task = self._task
        if task.cancelled:
            raise Cancelled("stopped")
        task.stage, task.done, task.total, task.note = stage, done, total, note
        if isinstance(note, Note) and note.severity == "doubtful" and total:
            task.add_doubt((done - 1) / total, done / total, note)
        task.version += 1
        if time.monotonic() - self._written_s > WRITE_S:
            self._written_s = time.monotonic()
            self._write(task)

    def add_row(self, row: dict[str, Any]) -> None:
        """Take another thing that was made."""
        self._task.rows.append(row)
        self._task.version += 1


Work = Callable[[TaskProgress], Any]


class TaskQueue:
    """A queue and its worker thread, which starts with the first task; folder: of its files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jobs: dict[str, BackgroundTask] = {}
        self._queue: queue.Queue[BackgroundTask | None] = queue.Queue()
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        for path in sorted(folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):  # damaged
                job = BackgroundTask(work=None, **json.loads(path.read_text()))
                if not job.ended:
                    job.state = "interrupted"
                    self._write(job)
                if job.id == path.stem:
                    self._jobs[job.id] = job

    def add(self, kind: str, request: dict[str, Any], work: Work) -> BackgroundTask:
        with self._lock:
            if sum(not job.ended for job in self._jobs.values()) >= MAX_WAITING_JOBS:
                raise Conflict(f"{MAX_WAITING_JOBS} jobs are waiting; wait until some of them end")
            self.check_free(request.get("folder"))
            job = BackgroundTask(kind, request, work)
            self._write(job)
            self._jobs[job.id] = job
            for old in [job.id for job in self._jobs.values() if job.ended][:-MAX_ENDED_JOBS]:
                self.remove(old)
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
                raise Conflict(f'a job is using "{folder}"; wait until it ends, or stop it')

    def get(self, id: str) -> BackgroundTask:
        with self._lock:
            if id not in self._jobs:
                raise NotThere(f'there is no job "{id[:40]}"')
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

    def remove(self, id: str) -> None:
        """Forget a job that has ended."""
        with self._lock:
            if self.get(id).ended:
                del self._jobs[id]
                (self._folder / f"{id}.json").unlink(missing_ok=True)

    def _write(self, job: BackgroundTask, **changes: Any) -> None:
        document = {**job.to_dict(), **changes}
        write_text(self._folder / f"{job.id}.json", json.dumps(document))

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
        job.state = "running"
        job.version += 1
        try:
            assert job.work is not None
            job.result = job.work(TaskProgress(job, self._write))
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
        sentence = None if problem is None else one_line(problem)
        ended: dict[str, Any] = {
            "state": state,
            "problem": sentence,
            "version": job.version + 1,
        }
        with contextlib.suppress(OSError, InputError):  # a full disk: after a restart, interrupted
            self._write(job, **ended)
        vars(job).update(ended)  # all at once, for whoever reads it meanwhile
