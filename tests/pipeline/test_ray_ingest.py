"""Ingest on Ray: the histories of the local engine, whatever dies on the way."""

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
from helpers.ingest import FRAMES, Counting, held, make_video

import dejacue
from dejacue import DejaCueError, InputError, Store, cluster, ingest
from dejacue.pipeline import EncoderOptions
from dejacue.pipeline.ingest import (
    Decoding,
    Ingested,
    IngestRun,
    RayOptions,
    Writer,
    on_ray,
    writer,
)
from dejacue.pipeline.ingest.manifest import as_items
from dejacue.pipeline.ingest.worker import Worker
from dejacue.sources.video import write_video

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\."),  # of its own code
]
VIDEOS, BATCH = 3, Counting.batch
SOURCE = Path(dejacue.__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def ray():
    """One Ray for this module, of 100 MB, which is gone afterwards with all that it wrote; its
    processes find the tests."""
    with pytest.MonkeyPatch.context() as changed:
        path = os.pathsep.join([str(TESTS), str(SOURCE), os.environ.get("PYTHONPATH", "")])
        changed.setenv("PYTHONPATH", path)
        with cluster.connected("local", num_cpus=2, object_store_memory=100 << 20) as own:
            yield own


@pytest.fixture(scope="module")
def videos(tmp_path_factory) -> list[dict[str, str]]:
    """Good ones, one that is no video, one whose object is never seen, and one that the encoder
    refuses."""
    folder = tmp_path_factory.mktemp("videos")
    made = [make_video(folder, f"v{k}", k) | {"objects": "all"} for k in range(VIDEOS)]
    (folder / "broken.mp4").write_bytes(b"no video" * 100)
    write_video(folder / "dark.mp4", np.zeros((FRAMES, 32, 48, 3), np.uint8), 10)
    broken, dark = ({**made[0], "video": str(folder / f"{own}.mp4")} for own in ("broken", "dark"))
    return [*made[:1], broken, dark, *made[1:], {**made[0], "id": "unseen", "objects": "7"}]


class Strict(Counting):
    """Refuses what is dark."""

    def encode_images(self, crops: Any) -> Any:
        if any(own.max() < 140 for own in crops):
            raise InputError("image 0: is dark")
        return super().encode_images(crops)


class Fragile(Counting):
    """Kills its process at a crop number, once."""

    def __init__(self, counter: Path, at: int, again: bool = False) -> None:
        super().__init__(counter, mixing=True)
        self._at, self._again = at, again

    def encode_images(self, crops: Any) -> Any:
        dead = self._counter.with_suffix(".dead")
        if self.given >= self._at and (self._again or not dead.exists()):
            dead.touch()
            os._exit(1)
        return super().encode_images(crops)


def test_ray_makes_the_histories_and_failures_of_the_local_engine(
    ray, videos, tmp_path, monkeypatch
) -> None:
    wanted = ingest(videos, tmp_path / "local", encoder=Strict(tmp_path / "a", True))
    told = []
    made = ingest(
        videos,
        tmp_path / "ray",
        encoder=Strict(tmp_path / "b", True),
        engine="ray",
        actors=2,
        progress=lambda *given: told.append(given),
    )
    assert sorted(made.added) == sorted(wanted.added)
    assert len(made.added) == 2 * VIDEOS
    assert sorted(made.failed) == sorted(wanted.failed)
    assert [own.id for own in sorted(made.failed)] == ["broken", "dark", "unseen"]
    assert held(tmp_path / "ray") == held(tmp_path / "local")
    with Store.open(tmp_path / "ray") as own, Store.open(tmp_path / "local") as other:
        assert sorted(own.failures()) == sorted(other.failures())
        for id in own.ids():
            one, two = own[id], other[id]
            assert one.made_with == two.made_with
            for name in ("frames", "times_s", "source_frames"):
                assert np.array_equal(getattr(one, name), getattr(two, name)), name
    assert (tmp_path / "b").stat().st_size == (tmp_path / "a").stat().st_size
    assert told[-2][:3] == ("videos", len(videos), len(videos))
    assert told[-1][0] == "crops"
    assert not (tmp_path / "ray" / writer.PARTIAL).exists()
    again = ingest(videos, tmp_path / "ray", encoder=Strict(tmp_path / "c", True), engine="ray")
    assert (len(again.skipped), again.added, len(again.failed)) == (2 * VIDEOS, (), 3)
    assert not (tmp_path / "c").exists()  # nothing was encoded


def test_an_actor_that_dies_in_a_batch_costs_no_more_than_that(
    ray, videos, tmp_path, monkeypatch
) -> None:
    good = [own for own in videos if Path(own["video"]).stem == "v1"]
    ingest(good, tmp_path / "local", encoder=Counting(tmp_path / "a", True))
    ingest(good, tmp_path / "ray", encoder=Fragile(tmp_path / "b", 2 * BATCH), engine="ray")
    assert (tmp_path / "b.dead").exists()
    assert held(tmp_path / "ray") == held(tmp_path / "local")
    assert (tmp_path / "b").stat().st_size == (tmp_path / "a").stat().st_size


def test_a_batch_that_always_kills_its_actor_ends_the_run(
    ray, videos, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(on_ray, "MAX_RETRIES", 1)
    encoder = Fragile(tmp_path / "b", BATCH, again=True)
    with pytest.raises(DejaCueError, match="Ray lost a task"):
        ingest(videos[:1], tmp_path / "ray", encoder=encoder, engine="ray")
    kept = list((tmp_path / "ray" / writer.PARTIAL).iterdir())
    assert len(kept) == 1  # the batch before, for whoever goes on
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
    made = ingest(rows, tmp_path / "ray", encoder=encoder, engine="ray", actors=2)
    assert sorted(made.added) == ["large0", "large1"]
    assert encoder.given == 2 * frames


def deadly(_: Any) -> None:
    os._exit(7)


class Deadly(Counting):
    """Its images are scaled by something that kills the process that does it."""

    fit = staticmethod(deadly)


def test_a_decoder_that_dies_is_a_failure_of_its_video(ray, videos, tmp_path) -> None:
    given = videos[:1]
    encoder = Deadly(tmp_path / "b")
    made = ingest(given, tmp_path / "ray", encoder=encoder, engine="ray")
    assert sorted(made.failed) == sorted(ingest(given, tmp_path / "local", encoder=encoder).failed)
    assert [own.id for own in made.failed] == ["v0"]
    assert (
        "the process that decoded it ended with 7; there may be too little memory"
        in made.failed[0].what
    )


@pytest.fixture
def processes_here(monkeypatch):
    """Those that decode are ended."""
    kept: dict[bytes, Worker] = {}
    monkeypatch.setattr(on_ray, "_workers", kept)
    yield
    for own in kept.values():
        own.end()


@pytest.mark.usefixtures("processes_here")
def test_batches_that_actors_do_not_keep_are_kept_here(videos, tmp_path) -> None:
    """The same functions, without Ray: actors that do not see the store, and a driver that ends."""
    store, how = Store.create(tmp_path / "s"), Decoding.of(Counting(tmp_path / "b", True))
    (item,) = as_items(videos[:1])
    encoder = Counting(tmp_path / "b", True)
    shared = on_ray.Shared(how, encoder, EncoderOptions(), tmp_path / "nowhere")

    def passed(stop: int | None) -> Ingested:
        own = Writer(store)
        options = EncoderOptions()
        run = IngestRun(iter([item]), 1, encoder, how, own, None, encoder, options, RayOptions())
        joined, encode = on_ray._Joined(run), on_ray.Encode(shared)
        rows = list(on_ray.decode_rows(joined.begin(item), shared))
        for row in sorted(rows, key=lambda row: -row["part"])[:stop]:  # whatever the order
            (answer,) = encode(pyarrow.Table.from_pylist([row])).to_pylist()
            assert not answer["kept"]
            joined.take(**answer)
        own.close(keep=stop is not None)
        return own.summary

    assert passed(stop=5) == Ingested()
    before = encoder.given
    assert before == 60 - 4 * BATCH
    assert len(passed(stop=None).added) == 2
    assert encoder.given == 60
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "ray", "actors": 0}, "actors 0: give at least 1"),
        ({"engine": "ray", "gpus_per_actor": -1}, "GPUs per actor -1: give 0 or more"),
        ({"actors": 2}, "actors need Ray; add --engine ray"),
        ({"engine": "ray", "gpus_per_actor": 0.5, "actors": 3}, "the cluster has 0; give fewer"),
    ],
)
def test_actors_that_cannot_be_are_refused(ray, videos, tmp_path, options, message) -> None:
    with pytest.raises(InputError, match=message):
        ingest(videos, tmp_path / "s", encoder=Counting(tmp_path / "b"), **options)


def test_an_encoder_that_is_another_one_elsewhere_is_told(ray, videos, tmp_path) -> None:
    class Changing(Counting):
        def __reduce__(self) -> Any:
            other = Counting(self._counter)
            other.identity = "other"
            return object.__new__, (Counting,), vars(other)

    with pytest.raises(InputError, match='the encoder is "other" there, but "counting" here'):
        ingest(videos, tmp_path / "s", encoder=Changing(tmp_path / "b"), engine="ray")


def test_an_encoder_that_cannot_be_sent_is_told(ray, videos, tmp_path) -> None:
    encoder = Counting(tmp_path / "b")
    encoder.session = threading.Lock()
    with pytest.raises(InputError, match=r"cannot be sent .* give the encoder by name"):
        ingest(videos, tmp_path / "s", encoder=encoder, engine="ray")


RUN = """
import sys; sys.path.insert(0, {tests!r})
import ray, time
from helpers import ingest as helper
from pathlib import Path
from dejacue import ingest
from dejacue.pipeline.ingest import writer

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
    good = [own for own in videos if Path(own["video"]).stem.startswith("v")][:VIDEOS]
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
    while any(str(own) in processes() for own in left):  # Ray ends by itself
        assert time.monotonic() < until
        time.sleep(0.1)
    for own in left:
        shutil.rmtree(own)
    made = ingest(good, tmp_path / "ray", encoder=Counting(counter, True))  # any engine goes on
    assert len(made.added) + len(made.skipped) == 2 * VIDEOS
    assert held(tmp_path / "ray") == held(tmp_path / "local")
    assert counter.stat().st_size <= crops + actors * BATCH
