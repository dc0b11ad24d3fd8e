"""Ray: the same answers and histories as without it, whatever dies on the way."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.stores import drawn, words

from dejacue import DejaCueError, InputError, MissingExtra, Store, cluster, write_vocabulary
from dejacue.store import _query, _segments


@pytest.fixture(scope="module")
def ray():
    """One Ray for this module, which is gone afterwards with all that it wrote."""
    with cluster.connected("local", num_cpus=2, object_store_memory=100 << 20) as own:
        yield own


def filled(folder: Path, count: int = 12) -> Store:
    store = Store.create(folder, dtype="float32")
    store.add([drawn(seed) for seed in range(count)], source="kitchen.mp4")
    return store


def equal(one: dict, other: dict) -> None:
    """To the last bit; how the parts were cut decides the order of the columns."""
    assert one.keys() == other.keys()
    for name in one:
        a, b = (np.asarray(own[name]).tolist() for own in (one, other))
        assert repr(a) == repr(b), name  # nan is nan


@pytest.mark.long
@pytest.mark.parametrize("readout", ["contrast", "joint", "scan"])
def test_ray_gives_the_answers_of_one_machine_to_the_last_bit(
    ray, tmp_path, monkeypatch, readout
) -> None:
    monkeypatch.setattr(_segments, "MAX_SEGMENT_BYTES", 10_000)  # two or three histories each
    monkeypatch.setattr(_query, "CHUNK_HISTORIES", 3)  # four tasks
    store = filled(tmp_path / "s")
    assert len(list((store.path / "segments").iterdir())) > 6
    for options in ({}, {"top": 5}, {"where": {"camera": "c1"}}, {"threads": 2}):
        local = store.ask(words(), readout=readout, **options).columns()
        equal(store.ask(words(), readout=readout, engine="ray", **options).columns(), local)
    assert list(store.ask(words(), engine="ray")) == list(store.ask(words()))
    assert ray.is_initialized()  # it was not ours to end


@pytest.mark.long
def test_a_store_that_is_compacted_meanwhile_is_read_as_it_was(ray, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(_segments, "MAX_SEGMENT_BYTES", 10_000)
    monkeypatch.setattr(_query, "CHUNK_HISTORIES", 1)
    store = filled(tmp_path / "s")
    wanted = list(store.ask(words()))
    asked = store.ask(words(), engine="ray")
    first = next(asked)
    with Store.open(store.path) as other:
        other.remove(other.ids())
        other.compact()
    assert [first, *asked] == wanted
    assert not (store.path / "segments" / "000001.npy").exists()


@pytest.mark.long
def test_errors_of_tasks_are_our_own_sentences(ray, tmp_path, monkeypatch) -> None:
    store = filled(tmp_path / "s")
    asked = store.ask(words(), engine="ray")
    sent = _query.Query._part

    def elsewhere(self, *given):
        return sent(self, *given)._replace(store=tmp_path / "elsewhere")

    with monkeypatch.context() as changed:
        changed.setattr(_query.Query, "_part", elsewhere)
        with pytest.raises(
            InputError, match=r"elsewhere: no such folder on .* all machines of the cl"
        ):
            next(asked)
        changed.setattr(
            _query.Query, "_part", lambda self, *given: sent(self, *given)._replace(version="0")
        )
        with pytest.raises(
            InputError, match="but the driver runs 0; install the same version on all"
        ):
            next(store.ask(words(), engine="ray"))

    def broken(*_: object) -> None:
        raise ZeroDivisionError("no")

    def killed(*_: object) -> None:
        os._exit(1)

    monkeypatch.setattr(_query, "read_part", unknown_there)
    with pytest.raises(DejaCueError, match=r"cannot import dejacue; install dejacue\[ray\]==\d"):
        next(store.ask(words(), engine="ray"))
    monkeypatch.setattr(_query, "read_part", broken)
    with pytest.raises(DejaCueError, match=r"a Ray task failed \(ZeroDivisionError: no\); see"):
        next(store.ask(words(), engine="ray"))
    monkeypatch.setattr(_query, "read_part", killed)
    with pytest.raises(DejaCueError, match=r"Ray lost a task \(.*Run the command again"):
        next(store.ask(words(), engine="ray"))


def unknown_there(*_: object) -> None:
    """Of a module that the machines of the cluster have not: this one."""


@pytest.mark.long
def test_a_task_that_dies_once_is_run_again(ray, tmp_path, monkeypatch) -> None:
    store = filled(tmp_path / "s")
    dead = tmp_path / "dead"
    read_part = _query.read_part

    def dies_once(*given):
        if not dead.exists():
            dead.touch()
            os._exit(1)
        return read_part(*given)

    monkeypatch.setattr(_query, "read_part", dies_once)
    assert list(store.ask(words(), engine="ray")) == list(store.ask(words()))
    assert dead.exists()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "no cluster answers .*refused.* start one there with ray start --head"),
        ("nowhere", 'Ray address "nowhere": give HOST:PORT'),
        ("ray://127.0.0.1:10001", "run the command on a machine of the cluster"),
    ],
)
def test_an_address_without_a_cluster_is_told_at_once(
    monkeypatch, dejacue, tmp_path, address, message
) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # no test leaves one behind
    store = filled(tmp_path / "s")
    with pytest.raises(InputError, match=message):
        store.ask(words(), engine="ray", ray_address=address)
    vocabulary = tmp_path / "words.npz"
    write_vocabulary(vocabulary, words())
    ran = dejacue(
        "store", "query", store.path, "-v", vocabulary, "--engine", "ray", "--ray-address", address
    )
    assert (ran.code, ran.out) == (2, "")
    assert re.search(message, " ".join(ran.err.split()))


@pytest.mark.long
def test_a_port_where_something_else_listens_is_told_before_a_store_is_made(
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
        with pytest.raises(InputError, match="not Ray within 3 s"):
            cluster.check_engine("ray", None)
    assert (ran.code, ran.out) == (2, "")
    assert "no cluster answers (something answers there, but not Ray" in " ".join(ran.err.split())
    assert not (tmp_path / "s").exists()


@pytest.mark.long
def test_the_address_of_a_cluster_passes(ray, monkeypatch) -> None:
    monkeypatch.setattr(cluster, "MAX_CONNECT_S", 600.0)
    cluster._try(ray.get_runtime_context().gcs_address)


def test_engines_that_cannot_be_used_are_refused_at_once(tmp_path, monkeypatch) -> None:
    store = filled(tmp_path / "s")
    with pytest.raises(InputError, match=r'unknown engine "spark"; .*known: local, ray'):
        store.ask(words(), engine="spark")
    with pytest.raises(InputError, match="the local engine takes no address; add --engine ray"):
        store.ask(words(), ray_address="auto")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"ray is not installed; pip install 'dejacue\[ray\]'"):
        store.ask(words(), engine="ray")


@pytest.mark.long
def test_ray_is_started_and_ended_quietly_where_none_runs(tmp_path) -> None:
    store, vocabulary = filled(tmp_path / "s"), tmp_path / "words.npz"
    write_vocabulary(vocabulary, words())
    command = [sys.executable, "-m", "dejacue", "store", "query", store.path, "-v", vocabulary]
    printed = {}
    for engine in ("local", "ray"):
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen([*command, "--jsonl", "--engine", engine], **both) as running:
            printed[engine] = running.communicate()
        assert running.returncode == 0, printed[engine][1]
    assert printed["ray"] == printed["local"]
    assert len(printed["ray"][0].splitlines()) == 20
    assert not list(Path("/tmp").glob(f"dejacue-ray-{running.pid}-*"))
