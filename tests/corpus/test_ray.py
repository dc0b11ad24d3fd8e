"""Queries on Ray give the same answers as without it, whatever dies on the way."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused
from helpers.stores import drawn, words

from dejacue import DejaCueError, Store
from dejacue.corpus import _query, cluster
from dejacue.errors import MissingExtra, extra
from dejacue.files import write_vocabulary


@pytest.fixture(scope="module")
def ray():
    """Start one Ray for this module; afterwards it is gone with all that it wrote."""
    with cluster.connected("local", num_cpus=2, object_store_memory=100 << 20) as connected:
        yield connected


def filled(folder: Path, count: int = 12) -> Store:
    store = Store.create(folder, dtype="float32")
    store.add([drawn(seed) for seed in range(count)], source="kitchen.mp4")
    return store


def equal(a: dict, b: dict) -> None:
    """Compare columns to the last bit; how the parts were cut decides their order."""
    assert a.keys() == b.keys()
    for name in a:
        first, second = (np.asarray(columns[name]).tolist() for columns in (a, b))
        assert repr(first) == repr(second), name  # nan is nan


@pytest.mark.long
@pytest.mark.parametrize("readout", ["contrast", "timeline", "scan"])
def test_ray_gives_the_answers_of_one_machine_to_the_last_bit(
    ray, tmp_path, monkeypatch, readout
) -> None:
    monkeypatch.setattr(_query, "CHUNK_HISTORIES", 3)  # four tasks
    store = filled(tmp_path / "s")
    for options in ({}, {"top": 5}, {"where": {"camera": "c1"}}, {"threads": 2}):
        local = store.query(words(), readout=readout, **options).columns()
        equal(store.query(words(), readout=readout, engine="ray", **options).columns(), local)
    assert list(store.query(words(), engine="ray")) == list(store.query(words()))
    assert ray.is_initialized()  # it was not ours to end


@pytest.mark.long
def test_a_store_that_is_compacted_meanwhile_is_read_as_it_was(ray, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(_query, "CHUNK_HISTORIES", 1)
    store = filled(tmp_path / "s")
    expected = list(store.query(words()))
    matches = store.query(words(), engine="ray")
    first = next(matches)
    with Store.open(store.path) as other:
        other.remove(other.ids())
        other.compact()
    assert [first, *matches] == expected


@pytest.mark.long
def test_errors_of_tasks_become_errors_of_ours(ray, tmp_path, monkeypatch) -> None:
    store = filled(tmp_path / "s")
    with monkeypatch.context() as changed:
        changed.setattr(_query, "__version__", "0")
        with refused("the driver runs 0"):
            next(store.query(words(), engine="ray"))

    def broken(*_: object) -> None:
        raise ZeroDivisionError("no")

    def killed(*_: object) -> None:
        os._exit(1)

    monkeypatch.setattr(_query, "answer_there", unknown_there)
    with pytest.raises(DejaCueError, match="cannot import dejacue"):
        next(store.query(words(), engine="ray"))
    monkeypatch.setattr(_query, "answer_there", broken)
    with pytest.raises(DejaCueError, match="ZeroDivisionError: no"):
        next(store.query(words(), engine="ray"))
    monkeypatch.setattr(_query, "answer_there", killed)
    with pytest.raises(DejaCueError, match="Ray lost a task"):
        next(store.query(words(), engine="ray"))


def unknown_there(*_: object) -> None:
    """Do nothing, in a module that the machines of the cluster do not have: this one."""


@pytest.mark.long
def test_a_task_that_dies_once_is_run_again(ray, tmp_path, monkeypatch) -> None:
    store = filled(tmp_path / "s")
    dead = tmp_path / "dead"
    answer_there = _query.answer_there

    def dies_once(*arguments):
        if not dead.exists():
            dead.touch()
            os._exit(1)
        return answer_there(*arguments)

    monkeypatch.setattr(_query, "answer_there", dies_once)
    assert list(store.query(words(), engine="ray")) == list(store.query(words()))
    assert dead.exists()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "ray://127.0.0.1:10001"])
def test_an_address_without_a_cluster_is_refused_at_once(
    monkeypatch, dejacue, tmp_path, address
) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # no test leaves one behind
    store = filled(tmp_path / "s")
    with refused(address):
        store.query(words(), engine="ray", ray_address=address)
    vocabulary = tmp_path / "words.npz"
    write_vocabulary(vocabulary, words())
    ran = dejacue(
        "store", "query", store.path, "-v", vocabulary, "--engine", "ray", "--ray-address", address
    )
    assert (ran.code, ran.out) == (2, "")
    assert f'Ray address "{address}"' in " ".join(ran.err.split())


@pytest.mark.long
def test_a_port_where_something_else_listens_is_refused_before_a_store_is_made(
    monkeypatch, dejacue, tmp_path
) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(cluster, "MAX_CONNECT_S", 3.0)
    manifest = tmp_path / "m.csv"
    manifest.write_text("video,masks\nv.mp4,m.npz\n")
    with socket.create_server(("127.0.0.1", 0)) as other:  # accepts, and says nothing
        address = f"127.0.0.1:{other.getsockname()[1]}"
        ran = dejacue(
            "ingest",
            manifest,
            "--store",
            tmp_path / "s",
            "--engine",
            "ray",
            "--ray-address",
            address,
        )
        monkeypatch.setenv("RAY_ADDRESS", address)
        with refused("Ray address", address):
            cluster.check_engine("ray", None)
    assert (ran.code, ran.out) == (2, "")
    assert "no cluster answers (something answers there, but not Ray" in " ".join(ran.err.split())
    assert not (tmp_path / "s").exists()


@pytest.fixture
def head(monkeypatch) -> Iterator[str]:
    """Yield the address of a cluster that somebody else has started, on the loopback address; what
    hangs is killed after two minutes."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # it is ours, and ends with this test
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # or it takes another address
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    command += ["--node-ip-address=127.0.0.1", f"--port={address.rpartition(':')[2]}"]
    command += ["--num-cpus=1", "--object-store-memory=100000000", "--include-dashboard=false"]
    with tempfile.TemporaryDirectory(
        prefix="r", dir="/tmp"
    ) as folder:  # paths of sockets are short
        process = subprocess.Popen(
            [*command, f"--temp-dir={folder}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        end = threading.Timer(120, os.killpg, (process.pid, signal.SIGKILL))
        end.start()
        try:
            assert any("Ray runtime started" in line for line in process.stdout)
            yield address
        finally:
            end.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(120)
            process.stdout.close()


@pytest.mark.long
def test_a_cluster_that_runs_on_this_machine_is_reached(head, monkeypatch) -> None:
    monkeypatch.setattr(cluster, "MAX_CONNECT_S", 120.0)
    cluster._try(head)


@pytest.mark.long
def test_ray_on_this_machine_listens_to_this_machine_only(ray) -> None:
    addresses = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A":  # it listens
                addresses[f"socket:[{inode}]"] = local.partition(":")[0]
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    hosts = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (
                str(session) in (process / "cmdline").read_text()
                or int(process.name) == os.getpid()
            ):
                files = map(os.readlink, (process / "fd").iterdir())
                hosts |= {addresses[file] for file in files if file in addresses}
    assert hosts
    assert {host[-8:] for host in hosts} == {"0100007F"}  # 127.0.0.1
    assert (session.parent.parent.stat().st_mode & 0o777) == 0o700


def test_the_folder_of_a_killed_run_is_removed_by_the_next_one() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, used = (Path(f"/tmp/dejacue-ray-{pid}-test") for pid in (ended.pid, os.getpid()))
    try:
        for folder in (left, used):
            (folder / "r").mkdir(parents=True)
        with cluster._private_folder() as first, cluster._private_folder() as second:
            assert not left.exists()
            assert used.exists()  # of a process that is alive
            assert {os.stat(folder).st_mode & 0o777 for folder in (first, second)} == {0o700}
        assert not os.path.exists(first)
    finally:
        for folder in (left, used):
            shutil.rmtree(folder, ignore_errors=True)


def test_engines_that_cannot_be_used_are_refused_at_once(tmp_path, monkeypatch) -> None:
    store = filled(tmp_path / "s")
    with refused("engine", "spark"):
        store.query(words(), engine="spark")
    with refused("ray", "auto", "name the engine ray, too"):
        store.query(words(), ray_address="auto")
    monkeypatch.setitem(sys.modules, "ray", None)
    with refused(extra("ray"), kind=MissingExtra):
        store.query(words(), engine="ray")


@pytest.mark.long
def test_ray_is_started_and_ended_quietly_where_none_runs(tmp_path) -> None:
    store, vocabulary = filled(tmp_path / "s"), tmp_path / "words.npz"
    write_vocabulary(vocabulary, words())
    command = [sys.executable, "-m", "dejacue", "store", "query", store.path, "-v", vocabulary]
    printed = {}
    for engine in ("local", "ray"):
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen([*command, "--jsonl", "--engine", engine], **both) as running:
            out, err = running.communicate()
        assert running.returncode == 0, err
        printed[engine] = out, re.sub(r"query: \d+ of \d+\n", "", err)  # of more than ten seconds
    assert printed["ray"] == printed["local"]
    ranks = {json.loads(line)["rank"] for line in printed["ray"][0].splitlines()}
    assert ranks == set(range(1, 11))
    assert not list(Path("/tmp").glob(f"dejacue-ray-{running.pid}-*"))
