"""Connect to Ray, and raise its errors as one sentence.

Ray is imported when it is used. What runs on other machines must be installed there in the same
version, and sees files only where those machines have them under the same path.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import logging
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from dejacue._version import __version__
from dejacue.atomic import lock_folder
from dejacue.errors import DejaCueError, InputError, extra, first_line, need, shortened, unknown

ENGINES = ("local", "ray")
LOOPBACK = "127.0.0.1"
MAX_ANSWER_S = 5.0
MAX_CONNECT_S = 30.0  # of a process that imports Ray, too
_TRY = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR')"
_FOLDER = "dejacue-ray-"
_START = "start one there with ray start --head, or leave the address out to use this machine"


def check_engine(engine: str, address: str | None) -> None:
    """Refuse an engine that is unknown, or that cannot be used here."""
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    if engine == "ray":
        need_ray(address or os.environ.get("RAY_ADDRESS"))
    elif address is not None:
        raise _bad_address(address, "the local engine takes no address; name the engine ray, too")


def need_ray(address: str | None = None) -> Any:
    """Return the package; refuse at once if it is not installed, or nothing answers there."""
    if "ray" not in sys.modules:  # what it prints of tasks that died would mix with our output
        os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    ray = need("ray", extra("ray"))
    if address is not None and not ray.is_initialized():
        _check(address)
    return ray


def _check(address: str) -> None:
    """Refuse an address at which no cluster answers; Ray itself would try for minutes."""
    if "://" in address:
        raise _bad_address(
            address,
            "run the command on a machine of the cluster and give HOST:PORT, or auto for the "
            "cluster of this machine",
        )
    if address in ("auto", "local"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise _bad_address(address, "give HOST:PORT, such as 10.0.0.1:6379, or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), MAX_ANSWER_S).close()
    except (OSError, UnicodeError) as error:
        raise _no_cluster(address, error) from None
    _try(address)


@functools.cache  # an address that has answered is not tried again
def _try(address: str) -> None:
    """Connect in another process, which can be killed: Ray itself waits for minutes if something
    else answers, and cannot be interrupted."""
    try:
        ran = subprocess.run(
            [sys.executable, "-c", _TRY, address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=MAX_CONNECT_S,
        )
    except subprocess.TimeoutExpired:
        late = TimeoutError(f"something answers there, but not Ray within {MAX_CONNECT_S:g} s")
        raise _no_cluster(address, late) from None
    if ran.returncode:
        lines = ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"]
        # Ray says last that it could not connect, and before that why: the cluster wants a token
        reason = next((line for line in lines if "AuthenticationError" in line), lines[-1])
        raise _no_cluster(address, RuntimeError(shortened(reason, 200)))


def _no_cluster(address: str, error: BaseException) -> InputError:
    return _bad_address(address, f"no cluster answers ({first_line(error)}); {_START}")


def _bad_address(address: str, problem: str) -> InputError:
    return InputError(f'Ray address "{address}": {problem}')


@contextlib.contextmanager
def connected(address: str | None = None, **options: Any) -> Iterator[Any]:
    """Yield Ray with its connection, or connect it to the cluster at the address (or in
    RAY_ADDRESS), or to one on this machine that ends with this block. Its errors become ours.

    options   of ray.init for a cluster that is started here
    """
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    ray = need_ray(address)
    if ray.is_initialized():
        with _quiet(), _translated_errors(ray):
            yield ray
        return
    with contextlib.ExitStack() as stack:
        if address == "local":
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
            options = {
                "include_dashboard": False,
                "_node_ip_address": LOOPBACK,
                "_temp_dir": os.path.join(stack.enter_context(_private_folder()), "r"),
                **options,
            }
        else:
            options = {}
        stack.callback(ray.shutdown)
        with _quiet(), _translated_errors(ray):
            with _on_loopback() if address == "local" else contextlib.nullcontext():
                _connect(ray, address, options)
            yield ray


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Let Ray take the loopback address, which it does on Windows and macOS only: at another one,
    its servers listen to the network."""
    from ray._private import ray_constants

    known = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = known


@contextlib.contextmanager
def _private_folder() -> Iterator[str]:
    """Yield a folder that only this user may enter: Ray lets everybody write to those it makes. It
    is removed in the end, and those that killed processes have left are removed first."""
    # sockets lie in it, and their paths must be short
    place = "/tmp" if os.name == "posix" else tempfile.gettempdir()
    for left in glob.glob(os.path.join(place, f"{_FOLDER}*")):
        lock = lock_folder(left) if _is_of_a_dead_process(left) else None
        if lock is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(lock)
    folder = tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-", dir=place)
    lock = lock_folder(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _is_of_a_dead_process(folder: str) -> bool:
    """Return whether this user's process in the name has ended: between its making and its lock a
    folder is in use, too."""
    process, _, _ = os.path.basename(folder).removeprefix(_FOLDER).partition("-")
    try:
        found = os.lstat(folder)
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
        os.kill(int(process), 0)
    except ProcessLookupError:
        return ours
    except (OSError, ValueError, OverflowError, AttributeError):  # gone, not ours, or Windows
        pass
    return False


def _connect(ray: Any, address: str, options: dict[str, Any]) -> None:
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False, **options)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        if address != "local":
            raise _no_cluster(address, error) from None
        raise DejaCueError(f"could not start Ray on this machine: {first_line(error)}") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the loggers of Ray."""
    loggers = [logging.getLogger(name) for name in ("ray", "ray.data")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)  # errors are raised, too
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def _translated_errors(ray: Any) -> Iterator[None]:
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, DejaCueError):
            raise cause from None
        if "failed to import" in str(cause):
            raise DejaCueError(
                "a machine of the cluster cannot import dejacue; "
                f"install dejacue[ray]=={__version__} and the same extras on all machines"
            ) from error
        problem = f"a Ray task failed ({type(cause).__name__}: {first_line(cause)})"
        raise DejaCueError(f"{problem}; see the Ray logs for details") from error
    except ray.exceptions.RayError as error:
        raise DejaCueError(
            f"Ray lost a task ({first_line(error)}); "
            "did a machine go down or run out of memory? Run the command again"
        ) from error


def check_version(driver: str) -> None:
    """Refuse, in a task, another version of dejacue than that of the driver."""
    if driver != __version__:
        raise InputError(
            f"{socket.gethostname()}: runs dejacue {__version__}, but the driver runs {driver}; "
            "install the same version on all machines of the cluster"
        )
