"""Whatever is given becomes a record or a DejaCueError, and nothing else.

    python tests/fuzz/fuzz.py [--inputs 200000] [--seed 0] [--jobs 2] [target ...]
    python tests/fuzz/fuzz.py --seed 0 --replay history:17
    python tests/fuzz/fuzz.py --list
    python tests/fuzz/fuzz.py --sizes

Each input is a small valid one with something changed, made by its target, the seed and its
number alone. It must be answered, or refused in one line of less than 2,000 letters, within 10 s
and 2 GB, with no temporary file left. Inputs run in forks of this process, which watches them:
what hangs, dies or eats the memory is told with its input as well. The files of an input that
breaks the rule are kept, and the command that runs it again is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # helpers

import archives
import commands
import kernels
import readers
import sizes
import stores
import writers
from readers import Target

from dejacue.errors import DejaCueError
from dejacue.sources.atomic import is_temporary

MODULES = (readers, commands, stores, writers, kernels, sizes, archives)
MAX_SECONDS, MAX_BYTES, MAX_LETTERS = 10, 2 << 30, 2000
TARGETS: dict[str, Target] = {
    target.name: target for module in MODULES for target in module.TARGETS
}
Input = tuple[str, int]  # target and number


class Failure(NamedTuple):
    input: Input
    message: str


def broken_rule(target: Target, number: int, seed: int, corpus: Path, folder: Path) -> str | None:
    """Run one input; return what is wrong with the answer, or None."""
    rng = random.Random(f"{seed}/{target.name}/{number}")
    try:
        target.run(rng, corpus / target.name / "valid", folder)
    except DejaCueError as error:
        text = str(error)
        if len(text.splitlines()) != 1 or len(text) >= MAX_LETTERS:
            lines = len(text.splitlines())
            return f"the sentence has {len(text)} letters in {lines} lines: {text[:300]!r}"
    except target.allowed:
        pass
    except BaseException:
        return traceback.format_exc()
    left = [path.name for path in folder.rglob("*") if is_temporary(path)]
    return f"left behind: {', '.join(left[:5])}" if left else None


def work(
    inputs: Sequence[Input], seed: int, corpus: Path, folder: Path, now: Any, failures: Any
) -> None:
    """Run, in a fork, the inputs from ``now[0]`` on; ``now[1]`` is when the present one started,
    ``now[2]`` how long this process had computed by then."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)  # of FFmpeg
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("error")
    watcher = os.getppid()
    while now[0] < len(inputs) and os.getppid() == watcher:
        name, number = inputs[int(now[0])]
        clear(folder)
        os.chdir(folder)
        now[2] = time.process_time()
        now[1] = time.monotonic()
        message = broken_rule(TARGETS[name], number, seed, corpus, folder)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        if message is None and peak > MAX_BYTES:
            message = f"took {peak >> 20} MB of memory"
        if message is not None:
            failures.put(Failure((name, number), message))
            keep(folder, name, seed, number, message)
        now[0] += 1
        now[1] = 0
        if peak > MAX_BYTES:
            os._exit(0)  # the peak is for good: go on in another process


def clear(folder: Path) -> None:
    os.chdir("/")
    with contextlib.suppress(FileNotFoundError):
        if not any(folder.iterdir()):
            return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def keep(folder: Path, name: str, seed: int, number: int, message: str) -> None:
    place = FAILED_INPUTS / f"{name}-{seed}-{number}"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place, symlinks=True)
    (place / "problem.txt").write_text(message, errors="replace")


FAILED_INPUTS = Path("out/fuzz").absolute()


class Worker:
    """A fork, started anew after each input that it does not survive."""

    def __init__(self, inputs: list[Input], seed: int, corpus: Path, folder: Path) -> None:
        self.inputs, self.seed, self.corpus, self.folder = inputs, seed, corpus, folder
        self.context = multiprocessing.get_context("fork")
        self.now = self.context.Array("d", 3, lock=False)
        self.failures = self.context.SimpleQueue()
        self.start()

    def start(self) -> None:
        arguments = (self.inputs, self.seed, self.corpus, self.folder, self.now, self.failures)
        self.process = self.context.Process(target=work, args=arguments)
        self.process.start()
        self.idle_since = self.looked_at = time.monotonic()
        self.slept_s = 0.0

    def watch(self) -> list[Failure]:
        """Return what has failed since; kill what hangs, and go on after what has died."""
        failures = []
        started, now = self.now[1], time.monotonic()
        if started:
            self.idle_since = now
        if started > self.looked_at:
            self.slept_s = 0.0
        elif sleeps(self.process.pid):
            self.slept_s += now - self.looked_at
        self.looked_at = now
        if self.process.is_alive():
            if now - self.idle_since > 3 * MAX_SECONDS and self.now[0] < len(
                self.inputs
            ):  # a thread held a lock at the fork, which nobody releases there
                self.process.kill()
                self.process.join()
                self.start()
            late = bool(started) and (
                computed(self.process.pid) - self.now[2] > MAX_SECONDS
                or self.slept_s > 3 * MAX_SECONDS  # it waits for something, not for a processor
            )
            large = resident(self.process.pid) > MAX_BYTES
            if late or large:
                self.process.kill()
                self.process.join()
                failures.append(
                    self.blame(f"took more than {MAX_SECONDS} s" if late else "took more than 2 GB")
                )
        elif self.now[0] < len(self.inputs):
            if started:
                code = self.process.exitcode or 0
                how = signal.strsignal(-code) if code < 0 else f"exit code {code}"
                failures.append(self.blame(f"the process died: {how}"))
            else:
                self.start()
        while not self.failures.empty():
            failures.append(self.failures.get())
        return failures

    def blame(self, message: str) -> Failure:
        name, number = self.inputs[int(self.now[0])]
        keep(self.folder, name, self.seed, number, message)
        self.now[0] += 1
        self.now[1] = 0
        self.start()
        return Failure((name, number), message)

    @property
    def done(self) -> bool:
        over = not self.process.is_alive() and self.now[0] >= len(self.inputs)
        return over and self.failures.empty()


def resident(pid: int | None) -> int:
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    return 0


def computed(pid: int | None) -> float:
    """Return the seconds that a process has computed."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def sleeps(pid: int | None) -> bool:
    """Return whether no thread of a process runs, wants a processor or waits for a disk."""
    with contextlib.suppress(OSError, IndexError):
        states = [
            path.read_text().rpartition(")")[2].split()[0]
            for path in Path(f"/proc/{pid}/task").glob("*/stat")
        ]
        return not {"R", "D"}.intersection(states)
    return False


def schedule(names: Sequence[str], count: int) -> list[Input]:
    """Return so many inputs by the shares of the targets, mixed: a stopped run has seen all."""
    total = sum(TARGETS[name].share for name in names)
    inputs = [
        ((k + 0.5) / share, name, k)
        for name in names
        for share in [max(1, round(count * TARGETS[name].share / total))]
        for k in range(share)
    ]
    return [(name, k) for _, name, k in sorted(inputs)]


def run(inputs: list[Input], seed: int, jobs: int, scratch: Path) -> Counter[str]:
    """Return how many inputs of each target break the rule."""
    corpus = scratch / "corpus"
    for name in {name for name, _ in inputs}:
        (corpus / name / "valid").mkdir(parents=True)
        TARGETS[name].make(corpus / name / "valid")
    gc.freeze()  # what is imported by now need not be looked at in each fork again
    workers = [Worker(inputs[k::jobs], seed, corpus, scratch / f"worker-{k}") for k in range(jobs)]
    failed: Counter[str] = Counter()
    reported = time.monotonic()
    try:
        while not all(worker.done for worker in workers):
            if time.monotonic() - reported > 30:
                reported += 30
                done = sum(int(worker.now[0]) for worker in workers)
                print(f"{done} of {len(inputs)}", file=sys.stderr)
            for failure in [failure for worker in workers for failure in worker.watch()]:
                name, number = failure.input
                failed[name] += 1
                last = failure.message.strip().splitlines()[-1]
                print(f"{name}:{number}: {last[:300]}")
                print(f"  python tests/fuzz/fuzz.py --seed {seed} --replay {name}:{number}")
            time.sleep(0.05)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()
    return failed


def roomy_memory() -> str | None:
    """Return a folder in memory if there is room: most of what is tried is synced to disk."""
    memory = "/dev/shm"
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > MAX_BYTES
    return memory if roomy else None


def replay(name: str, number: int, seed: int, scratch: Path) -> int:
    """Run one input in this process, and print all that it says."""
    target, valid, folder = TARGETS[name], scratch / name / "valid", scratch / "input"
    valid.mkdir(parents=True)
    target.make(valid)
    clear(folder)
    os.chdir(folder)
    warnings.simplefilter("error")
    message = broken_rule(target, number, seed, scratch, folder)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        print(f"{path.relative_to(folder)}: {path.read_bytes()[:200]!r}")
    print(message or "the rule holds")
    return int(message is not None)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="target", help="default: all")
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--replay", metavar="TARGET:NUMBER")
    parser.add_argument("--list", action="store_true", help="how many inputs each target gets")
    parser.add_argument("--sizes", action="store_true", help="the files of sizes.py, measured")
    options = parser.parse_args()
    unknown = [name for name in options.targets if name not in TARGETS]
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    inputs = schedule(options.targets or list(TARGETS), options.inputs)
    if options.list:
        counts = Counter(name for name, _ in inputs)
        print("\n".join(f"{count:6d} {name}" for name, count in counts.most_common()))
        return 0
    if options.sizes:
        return sizes.measure_all(options.targets)
    with tempfile.TemporaryDirectory(prefix="dejacue-fuzz-", dir=roomy_memory()) as place:
        commands.alone(Path(place))
        if options.replay:
            name, _, number = options.replay.rpartition(":")
            return replay(name, int(number), options.seed, Path(place))
        began = time.monotonic()
        failed = run(inputs, options.seed, options.jobs, Path(place))
        os.chdir("/")
    took, used = time.monotonic() - began, sum(os.times()[:4])
    print(
        f"{len(inputs)} inputs of {len({name for name, _ in inputs})} targets in {took:.0f} s "
        f"({used:.0f} s of computing): {failed.total()} break the rule"
    )
    if failed:
        print(f"by target: {dict(failed)}; their files are in {FAILED_INPUTS}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
