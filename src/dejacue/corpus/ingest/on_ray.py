"""The engine on Ray: machines of a cluster decode and encode, this one joins and writes.

    items ──▶ flat_map: decode and crop, a batch a row ──▶ map_batches: encode ──▶ join ──▶ Writer

Batches of an item may go to any actor: a row of the dataset says which batch of which item it is,
and the item is finished when all of them are here, in whatever order they came. Frames never leave
the process that decoded them. Encoded rows are kept beside the store at once, by the actor where it
sees the store and else by this process, so that a later run does not encode them again.
"""

from __future__ import annotations

import os
import pickle
import socket
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dejacue._version import __version__
from dejacue.corpus import Store
from dejacue.corpus.cluster import check_version, connected, need_ray
from dejacue.corpus.ingest.chunks import Chunk, End, Failed, HistoryBuilder, Message
from dejacue.corpus.ingest.manifest import Item
from dejacue.corpus.ingest.worker import Decoding, Worker, worker_exit_message
from dejacue.corpus.ingest.writer import IngestRun, RayOptions, partial_path
from dejacue.errors import DejaCueError, InputError, counted, extra, first_line, need
from dejacue.files.partial import PartialRows
from dejacue.files.remote import is_remote
from dejacue.finding._encode import Rows, encode_batch
from dejacue.finding.request import Lazy, loaded_encoder
from dejacue.models.encoders import Encoder

BLOCK_BYTES = 4 << 20  # of crops that a task of an actor takes, unless one batch is larger
MAX_TASKS = 1000  # among which the items are divided
MAX_RETRIES = 3  # of a batch whose actor has died
NOTHING = b""


@dataclass(frozen=True)
class RemoteSettings:
    """Settings that other machines need to decode and to encode."""

    decoding: Decoding
    encoder: Encoder | Lazy
    store: Path
    version: str = __version__


def part_path(store: Path, item: str, number: int) -> Path:
    """Return the file that keeps the rows of a batch."""
    return Path(f"{partial_path(store, item)}.{number}.part")


def run_ray(run: IngestRun) -> None:
    need_ray()
    need("ray.data", extra("ray"))  # sets up its logging, so it comes first
    with connected(run.ray.address) as ray:
        joined = _Joined(run)
        blocks = _dataset(ray, run, joined).iter_batches(
            batch_size=None, batch_format="pyarrow", prefetch_batches=0
        )
        for block in blocks:
            for row in block.to_pylist():
                joined.take(**row)
            run.writer.tick()
    if joined.open:
        problem = f"Ray lost batches of {counted(len(joined.open), 'video')}"
        raise DejaCueError(f"{problem}; run the same command to resume")


def _dataset(ray: Any, run: IngestRun, joined: _Joined) -> Any:
    from ray.data import ActorPoolStrategy, DataContext, from_items

    shared = RemoteSettings(run.decoding, run.source, run.writer.path.resolve())
    try:
        ray.cloudpickle.dumps(shared)
    except Exception as error:  # pickle raises whatever the object does
        problem = f"the encoder cannot be sent to other machines ({error})"
        raise InputError(f"{problem}; give the encoder by name") from None
    actors, gpus, cpus = _sizes(ray, run.ray)
    context = DataContext.get_current().copy()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.target_max_block_size = BLOCK_BYTES
    todo = [joined.begin(item) for item in run.items]
    with DataContext.current(context), warnings.catch_warnings():
        # how often actors are made again may not be said so any more from Ray 2.64 on
        warnings.filterwarnings("ignore", "`ray_remote_args` is deprecated")
        items: Any = from_items(todo, override_num_blocks=min(len(todo), MAX_TASKS))
        batches = items.flat_map(
            decode_rows, fn_kwargs={"shared": shared}, num_cpus=1, concurrency=run.workers
        )
        return batches.map_batches(
            EncoderActor,
            fn_constructor_kwargs={"shared": shared},
            batch_size=None,
            batch_format="pyarrow",
            compute=ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=2),
            num_cpus=cpus,
            num_gpus=gpus,
            max_restarts=-1,
            max_task_retries=MAX_RETRIES,
        )


def _sizes(ray: Any, options: RayOptions) -> tuple[int, float, int]:
    """Return how many actors there are, and how many GPUs and cores each has."""
    resources = ray.cluster_resources()
    all_gpus, all_cpus = resources.get("GPU", 0), resources.get("CPU", 0)
    gpus = options.gpus_per_actor
    if gpus is None:
        gpus = 1 if all_gpus else 0
    machines = sum(1 for node in ray.nodes() if node["Alive"])
    actors = options.actors or (max(1, int(all_gpus // gpus)) if gpus else machines)
    if actors * gpus > all_gpus:
        problem = f"{actors} actors with {gpus:g} GPUs each: the cluster has {all_gpus:g}"
        raise InputError(f"{problem}; give fewer actors, or each a fraction of a GPU, such as 0.5")
    return actors, gpus, 0 if gpus or all_cpus <= actors else 1


def _row(item: str, part: int, message: Message | DejaCueError) -> dict[str, Any]:
    """Return a row of the dataset; ``message`` is one of ``decode``, or an error."""
    crops = NOTHING
    if isinstance(message, Chunk):
        crops, message = message.crops.tobytes(), message.without_crops
    return {"item": item, "part": part, "message": pickle.dumps(message), "crops": crops}


def decode_rows(row: dict[str, Any], shared: RemoteSettings) -> Iterator[dict[str, Any]]:
    """Yield a row for each batch of crops of an item, then one that says how it ended.

    Batches that were encoded before come without crops.
    """
    item: Item = pickle.loads(row["item"])
    try:
        check_version(shared.version)
    except InputError as error:
        yield _row(item.id, 0, error)
        return
    known = {row["known"][at : at + 16] for at in range(0, len(row["known"]), 16)}
    part = 0
    size = shared.decoding.encoder.batch
    for message in _messages(item, shared.decoding):
        if isinstance(message, Chunk):
            for at in range(0, len(message), size):
                batch = message.part(at, at + size)
                if known.issuperset(batch.names):
                    batch = batch.without_crops
                yield _row(item.id, part, batch)
                part += 1
        else:
            yield _row(item.id, part, message)


_workers: dict[bytes, Worker] = {}  # idle workers of this process, by their pickled Decoding


def _messages(item: Item, how: Decoding) -> Iterator[Message]:
    """Decode in a process, as the local engine does: if it dies, only its item fails."""
    key = pickle.dumps(how)
    worker = _workers.pop(key, None) or Worker(replace(how, threads=1))
    try:
        yield from worker.messages(item)
    except EOFError:
        yield Failed(worker_exit_message(item, worker.end()))
    except BaseException:
        worker.kill()
        worker.end()
        raise
    else:
        _workers[key] = worker


def _absolute(path: str) -> str:
    """Return a path that holds on other machines, which have other current folders."""
    return path if is_remote(path) else os.path.abspath(path)


class EncoderActor:
    """A Ray actor that loads the model once and encodes the batches of a block."""

    def __init__(self, shared: RemoteSettings) -> None:
        self._shared = shared
        self._sees_store = Store.is_at(shared.store)
        self._encoder: Encoder | None = None

    def _loaded(self) -> Encoder:
        """Load the model; not in __init__, whose errors Ray reports in its own words only."""
        check_version(self._shared.version)
        encoder = loaded_encoder(self._shared.encoder)
        here = self._shared.decoding.encoder.identity
        if encoder.identity != here:
            raise InputError(
                f'{socket.gethostname()}: the encoder is "{encoder.identity}" there, but "{here}" '
                "here; name the device, the backend and the precision"
            )
        return encoder

    def __call__(self, block: Any) -> Any:
        import pyarrow

        rows = (
            {  # without a copy of the crops
                name: block[name][at].as_buffer() if name == "crops" else block[name][at].as_py()
                for name in block.column_names
            }
            for at in range(block.num_rows)
        )
        return pyarrow.Table.from_pylist(list(map(self._answer, rows)))

    def _answer(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the row with encoded crops, or with an error for the driver to raise.

        What the encoder says of a crop is a problem of the item.
        """
        message, rows, problem = row["message"], NOTHING, ""
        try:
            if len(row["crops"]):
                self._encoder = self._encoder or self._loaded()
                chunk: Chunk = pickle.loads(message)
                crops = np.frombuffer(row["crops"], np.uint8).reshape(-1, *chunk.crops.shape[1:])
                chunk = replace(chunk, crops=crops)
                rows = self._rows(self._encoder, chunk, row).astype("<f4").tobytes()
        except DejaCueError as error:
            if self._encoder is None:
                message = pickle.dumps(error)
            problem = str(error)
        except Exception as error:
            what = f"{type(error).__name__}: {first_line(error)}"
            message = pickle.dumps(DejaCueError(f"{socket.gethostname()}: cannot encode ({what})"))
        return {
            "item": row["item"],
            "part": row["part"],
            "message": message,
            "rows": rows,
            "problem": problem,
            "saved": self._sees_store,
        }

    def _rows(self, encoder: Encoder, chunk: Chunk, row: Mapping[str, Any]) -> Rows:
        """Encode a chunk; rows that another actor has left are reused."""
        path = part_path(self._shared.store, row["item"], row["part"]) if self._sees_store else None
        with PartialRows(path, self._shared.decoding.encoder.key) as saved:
            encode_batch(list(chunk.crops), chunk.names, encoder, saved)
            return np.stack([saved[key] for key in chunk.names])


@dataclass
class _ItemBatches:
    item: Item
    known: PartialRows
    batches: dict[int, tuple[Chunk, Rows | None]] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)
    end: End | Failed | None = None
    count: int = -1


class _Joined:
    """Collect the batches of items until all of an item have arrived; ``open``: those of others."""

    def __init__(self, run: IngestRun) -> None:
        self._run, self.open = run, dict[str, _ItemBatches]()
        self._info = run.decoding.encoder

    def begin(self, item: Item) -> dict[str, Any]:
        """Return a row of the dataset: the item, and which crops have been encoded before."""
        known = PartialRows(self._run.writer.partial(item), self._info.key)
        self.open[item.id] = _ItemBatches(item, known)
        here = item.moved(_absolute)
        return {"item": pickle.dumps(here), "known": b"".join(known)}

    def take(
        self, item: str, part: int, message: bytes, rows: bytes, problem: str, saved: bool
    ) -> None:
        parts, content = self.open[item], pickle.loads(message)
        if isinstance(content, DejaCueError):
            raise content
        if problem:
            parts.problems[part] = problem
        if isinstance(content, Chunk):
            encoded = None
            if rows:
                encoded = np.frombuffer(rows, "<f4").reshape(-1, self._info.dimension)
                if not saved:
                    path = part_path(self._run.writer.path, item, part)
                    with PartialRows(path, self._info.key) as file:
                        file.add(dict(zip(content.names, encoded, strict=True)))
            parts.batches[part] = content, encoded
            self._run.writer.encoded(len(content))
        else:
            parts.end, parts.count = content, part
        if len(parts.batches) == parts.count:
            self._finish(self.open.pop(item))

    def _finish(self, parts: _ItemBatches) -> None:
        """Build histories in the order of the frames: rows are those of the local engine."""
        if isinstance(parts.end, Failed):
            self._run.writer.failed(parts.item, parts.end.what)
        elif parts.problems:
            what = parts.problems[max(parts.problems)]
            self._run.writer.failed(parts.item, f"{parts.item.video}: {what}")
        elif parts.end is not None:
            builder = HistoryBuilder(self._info)
            builder.known.add(parts.known)
            for _, (chunk, rows) in sorted(parts.batches.items()):
                builder.see(chunk)
                if rows is not None:
                    builder.known.add(dict(zip(chunk.names, rows, strict=True)))
            self._run.writer.finished(parts.item, builder.histories(parts.end), parts.end)
