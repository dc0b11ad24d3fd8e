"""ingest() on Ray makes the histories of the local engine, whatever dies on the way."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from helpers import TESTS
from helpers.errors import refused
from helpers.ingest import FRAMES, Counting, features_by_id, make_video

import dejacue
from dejacue import DejaCueError, InputError, Store, ingest
from dejacue.corpus import cluster
from dejacue.corpus.ingest import on_ray, writer
from dejacue.corpus.ingest.manifest import as_items
from dejacue.corpus.ingest.worker import Decoding, Worker
from dejacue.corpus.ingest.writer import Ingested, IngestRun, RayOptions, Writer
from dejacue.video.video import write_video

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\."),  # of its own code
]
VIDEOS, BATCH = 3, Counting.batch
SOURCE = Path(dejacue.__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def ray():
    """Start one Ray of 100 MB for this module, whose processes find the tests; afterwards it is
    gone with all that it wrote."""
    with pytest.MonkeyPatch.context() as changed:
        folders = (TESTS, Path(__file__).parent, SOURCE, os.environ.get("PYTHONPATH", ""))
        changed.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))
        with cluster.connected("local", num_cpus=2, object_store_memory=100 << 20) as connected:
            yield connected


@pytest.fixture(scope="module")
def videos(tmp_path_factory) -> list[dict[str, str]]:
    """Write good videos, a file that is none, one whose object is never seen, and one that the
    encoder refuses."""
    folder = tmp_path_factory.mktemp("videos")
    good = [make_video(folder, f"v{k}", k) | {"objects": "all"} for k in range(VIDEOS)]
    (folder / "broken.mp4").write_bytes(b"no video" * 100)
    write_video(folder / "dark.mp4", np.zeros((FRAMES, 32, 48, 3), np.uint8), 10)
    broken, dark = ({**good[0], "video": str(folder / f"{n}.mp4")} for n in ("broken", "dark"))
    return [*good[:1], broken, dark, *good[1:], {**good[0], "id": "unseen", "objects": "7"}]


class Strict(Counting):
    """Refuse crops that are dark."""

    def encode_images(self, crops: Any) -> Any:
        if any(crop.max() < 140 for crop in crops):
            raise InputError("image 0: is dark")
        return super().encode_images(crops)


class Fragile(Counting):
    """Kill its process at a crop number, once."""

    def __init__(self, counter: Path, at: int, again: bool = False) -> None:
        super().__init__(counter, mixing=True)
        self._at, self._again = at, again

    def encode_images(self, crops: Any) -> Any:
        dead = self._counter.with_suffix(".dead")
        if self.count >= self._at and (self._again or not dead.exists()):
            dead.touch()
            os._exit(1)
        return super().encode_images(crops)


def test_ray_makes_the_histories_and_failures_of_the_local_engine(
    ray, videos, tmp_path, monkeypatch
) -> None:
    local = ingest(videos, tmp_path / "local", encoder=Strict(tmp_path / "a", True))
    calls = []
    result = ingest(
        videos,
        tmp_path / "ray",
        encoder=Strict(tmp_path / "b", True),
        engine="ray",
        actors=2,
        progress=lambda *call: calls.append(call),
    )
    assert sorted(result.added) == sorted(local.added)
    assert len(result.added) == 2 * VIDEOS
    assert sorted(result.failed) == sorted(local.failed)
    assert [failure.id for failure in sorted(result.failed)] == ["broken", "dark", "unseen"]
    assert features_by_id(tmp_path / "ray") == features_by_id(tmp_path / "local")
    with Store.open(tmp_path / "ray") as a, Store.open(tmp_path / "local") as b:
        assert sorted(a.failures()) == sorted(b.failures())
        for id in a.ids():
            assert a[id].made_with == b[id].made_with
            for name in ("frames", "times_s", "source_frames"):
                assert np.array_equal(getattr(a[id], name), getattr(b[id], name)), name
    assert (tmp_path / "b").stat().st_size == (tmp_path / "a").stat().st_size
    assert calls[-2][:3] == ("videos", len(videos), len(videos))
    assert calls[-1][0] == "crops"
    assert not (tmp_path / "ray.work").exists()
    again = ingest(videos, tmp_path / "ray", encoder=Strict(tmp_path / "c", True), engine="ray")
    assert (len(again.skipped), again.added, len(again.failed)) == (2 * VIDEOS, (), 3)
    assert not (tmp_path / "c").exists()  # nothing was encoded


def test_an_actor_that_dies_in_a_batch_costs_no_more_than_that(
    ray, videos, tmp_path, monkeypatch
) -> None:
    good = [video for video in videos if Path(video["video"]).stem == "v1"]
    ingest(good, tmp_path / "local", encoder=Counting(tmp_path / "a", True))
    ingest(good, tmp_path / "ray", encoder=Fragile(tmp_path / "b", 2 * BATCH), engine="ray")
    assert (tmp_path / "b.dead").exists()
    assert features_by_id(tmp_path / "ray") == features_by_id(tmp_path / "local")
    assert (tmp_path / "b").stat().st_size == (tmp_path / "a").stat().st_size


def test_a_batch_that_always_kills_its_actor_ends_the_run(
    ray, videos, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(on_ray, "MAX_RETRIES", 1)
    encoder = Fragile(tmp_path / "b", BATCH, again=True)
    with pytest.raises(DejaCueError, match="Ray lost a task"):
        ingest(videos[:1], tmp_path / "ray", encoder=encoder, engine="ray")
    partial = list((tmp_path / "ray.work" / writer.PARTIAL).iterdir())
    assert len(partial) == 1  # the batch before, for whoever goes on
    ingest(videos[:1], tmp_path / "ray", encoder=Counting(tmp_path / "c", True))  # locally
    assert (tmp_path / "b").stat().st_size == BATCH
    assert (tmp_path / "c").stat().st_size == 60 - BATCH


def test_a_video_of_4k_goes_through_an_object_store_of_100_mb(ray, tmp_path) -> None:
    frames = 5
    images = np.zeros((1, 2160, 3840, 3), np.uint8).repeat(frames, 0)
    images[:, :, ::7] = np.arange(frames, dtype=np.uint8)[:, None, None, None] * 20
    write_video(tmp_path / "large.mp4", images, 10)
    masks = np.zeros((frames, 2160, 3840), np.uint8)
    masks[:, 100:2000, 100:3000] = 1
    np.savez_compressed(tmp_path / "masks.npz", masks=masks)
    row = {"video": str(tmp_path / "large.mp4"), "masks": str(tmp_path / "masks.npz")}
    rows = [row | {"objects": 1, "id": f"large{k}"} for k in range(2)]
    assert images.nbytes > 100 << 20
    encoder = Counting(tmp_path / "b")
    result = ingest(rows, tmp_path / "ray", encoder=encoder, engine="ray", actors=2)
    assert sorted(result.added) == ["large0", "large1"]
    assert encoder.count == 2 * frames


def deadly(_: Any) -> None:
    os._exit(7)


class Deadly(Counting):
    """Scale images with a function that kills its process."""

    fit = staticmethod(deadly)


def test_a_decoder_that_dies_is_a_failure_of_its_video(ray, videos, tmp_path) -> None:
    encoder = Deadly(tmp_path / "b")
    result = ingest(videos[:1], tmp_path / "ray", encoder=encoder, engine="ray")
    local = ingest(videos[:1], tmp_path / "local", encoder=encoder)
    assert result.failed == local.failed
    (failure,) = result.failed
    assert failure.id == "v0"
    assert "the process that decoded it ended with 7" in failure.what


@pytest.fixture
def processes_here(monkeypatch):
    """End the processes that decode after the test."""
    workers: dict[bytes, Worker] = {}
    monkeypatch.setattr(on_ray, "_workers", workers)
    yield
    for worker in workers.values():
        worker.end()


@pytest.mark.usefixtures("processes_here")
def test_batches_that_actors_do_not_keep_are_kept_here(videos, tmp_path) -> None:
    """Call the same functions without Ray: actors do not see the store, and the driver ends."""
    store, how = Store.create(tmp_path / "s"), Decoding.of(Counting(tmp_path / "b", True))
    (item,) = as_items(videos[:1])
    encoder = Counting(tmp_path / "b", True)
    shared = on_ray.RemoteSettings(how, encoder, tmp_path / "nowhere")

    def passed(stop: int | None) -> Ingested:
        target = Writer(store)
        run = IngestRun(iter([item]), 1, encoder, how, target, None, encoder, RayOptions())
        joined, encode = on_ray._Joined(run), on_ray.EncoderActor(shared)
        rows = list(on_ray.decode_rows(joined.begin(item), shared))
        for row in sorted(rows, key=lambda row: -row["part"])[:stop]:  # whatever the order
            (answer,) = encode(pyarrow.Table.from_pylist([row])).to_pylist()
            assert not answer["saved"]
            joined.take(**answer)
        target.close(keep=stop is not None)
        return target.summary

    assert passed(stop=5) == Ingested()
    before = encoder.count
    assert before == 60 - 4 * BATCH
    assert len(passed(stop=None).added) == 2
    assert encoder.count == 60
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"engine": "ray", "actors": 0}, "actors 0"),
        ({"engine": "ray", "gpus_per_actor": -1}, "GPUs per actor -1"),
        ({"actors": 2}, "actors"),
        ({"engine": "ray", "gpus_per_actor": 0.5, "actors": 3}, "3 actors"),
    ],
)
def test_actors_that_cannot_be_are_refused(ray, videos, tmp_path, options, fact) -> None:
    with refused(fact):
        ingest(videos, tmp_path / "s", encoder=Counting(tmp_path / "b"), **options)


def test_an_encoder_that_differs_on_another_machine_is_refused(ray, videos, tmp_path) -> None:
    class Changing(Counting):
        def __reduce__(self) -> Any:
            other = Counting(self._counter)
            other.identity = "other"
            return object.__new__, (Counting,), vars(other)

    with refused("encoder", "other"):
        ingest(videos, tmp_path / "s", encoder=Changing(tmp_path / "b"), engine="ray")


def test_an_encoder_that_cannot_be_sent_is_refused(ray, videos, tmp_path) -> None:
    encoder = Counting(tmp_path / "b")
    encoder.session = threading.Lock()
    with refused("encoder", "give the encoder by name"):
        ingest(videos, tmp_path / "s", encoder=encoder, engine="ray")


RUN = """
import sys; sys.path.insert(0, {tests!r})
import ray, time
from helpers import ingest as helper
from pathlib import Path
from dejacue import ingest
from dejacue.corpus.ingest import writer

class Slow(helper.Counting):
    def encode_images(self, crops):
        time.sleep(0.1)
        return super().encode_images(crops)

ray.cloudpickle.register_pickle_by_value(helper)
rows = {rows!r}
print(ingest(rows, {store!r}, encoder=Slow(Path({counter!r}), True), engine="ray", actors={actors}))
"""


def processes() -> str:
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return done.stdout


def test_a_driver_that_is_killed_costs_one_batch_an_actor(videos, tmp_path, monkeypatch) -> None:
    good = [video for video in videos if Path(video["video"]).stem.startswith("v")][:VIDEOS]
    ingest(good, tmp_path / "local", encoder=Counting(tmp_path / "a", True))
    crops, actors, counter = (tmp_path / "a").stat().st_size, 2, tmp_path / "b"
    text = RUN.format(
        tests=str(TESTS),
        rows=good,
        store=str(tmp_path / "ray"),
        counter=str(counter),
        actors=actors,
    )
    with subprocess.Popen([sys.executable, "-c", text], start_new_session=True) as running:
        until = time.monotonic() + 600
        while not counter.exists() or counter.stat().st_size < crops // 3:
            assert running.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        running.send_signal(signal.SIGKILL)
    left = list(Path("/tmp").glob(f"dejacue-ray-{running.pid}-*"))
    assert left
    while any(str(folder) in processes() for folder in left):  # Ray ends by itself
        assert time.monotonic() < until
        time.sleep(0.1)
    for folder in left:
        shutil.rmtree(folder)
    result = ingest(good, tmp_path / "ray", encoder=Counting(counter, True))  # any engine goes on
    assert len(result.added) + len(result.skipped) == 2 * VIDEOS
    assert features_by_id(tmp_path / "ray") == features_by_id(tmp_path / "local")
    assert counter.stat().st_size <= crops + actors * BATCH
