"""export: the histories of a store in files that others read."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dejacue.errors import InputError, need, unknown
from dejacue.progress import Progress
from dejacue.records import History
from dejacue.sources import remote
from dejacue.sources.atomic import write_bytes, write_whole
from dejacue.sources.files import file_name, write_history

if TYPE_CHECKING:
    from dejacue.store._store import Store

KINDS = ("npz", "parquet")
GROUP_BYTES = 64 << 20  # of features in a row group of Parquet


def export(
    store: Store, path: str, kind: str, where: Mapping[str, str] | None, progress: Progress
) -> int:
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    elsewhere = remote.is_remote(path)
    if not elsewhere and Path(path).resolve().is_relative_to(store.path.resolve()):
        raise InputError(f"{path}: is inside the store itself; give another place")
    ids = store.ids(where)
    if not ids:
        raise InputError(f"{store.path}: no history matches, so there is nothing to export")
    write = _as_npz if kind == "npz" else _as_parquet
    if not elsewhere:
        write(store, Path(path), ids, progress)
        return len(ids)
    remote.check(path)
    with tempfile.TemporaryDirectory(prefix="dejacue-") as folder:
        made = Path(folder, "export")
        write(store, made, ids, progress)
        remote.put(made, path)
    return len(ids)


def _as_npz(store: Store, folder: Path, ids: list[str], progress: Progress) -> None:
    names: dict[str, str] = {}
    for id in ids:
        other = names.setdefault(file_name(id).lower(), id)  # some disks know no capitals
        if other != id:
            raise InputError(
                f'histories "{other}" and "{id}" would get the same file name; export them one by '
                "one with where"
            )
    for done, id in enumerate(ids):
        history = store[id]
        told = {key: text for key, text in store.told(id).items() if text is not None}
        if told:  # add takes them out again
            history = replace(history, made_with={**(history.made_with or {}), **told})
        write_history(folder / f"{file_name(id)}.history.npz", history)
        picture = store.thumbnail(id)
        if picture is not None:
            write_bytes(folder / f"{file_name(id)}.jpg", picture)
        progress("export", done + 1, len(ids))


def _as_parquet(store: Store, path: Path, ids: list[str], progress: Progress) -> None:
    """A row a history: features as one list of N · dimension numbers, row after row."""
    arrow = need("pyarrow", "pip install pyarrow")
    parquet = need("pyarrow.parquet", "pip install pyarrow")
    number = {"float16": arrow.float16(), "float32": arrow.float32()}[store.dtype.name]
    whole, real = arrow.list_(arrow.int64()), arrow.list_(arrow.float64())
    schema = arrow.schema(
        {
            "id": arrow.string(),
            "object": arrow.string(),
            "source": arrow.string(),
            "encoder": arrow.string(),
            "dimension": arrow.int64(),
            "frames": whole,
            "times_s": real,
            "source_frames": whole,
            "presence": real,
            "made_with": arrow.string(),
            "features": arrow.list_(number),
            "thumbnail": arrow.binary(),
        }
    )

    def write(stream: IO[bytes]) -> None:
        with parquet.ParquetWriter(stream, schema) as out:
            group: list[dict[str, Any]] = []
            held = 0
            for done, id in enumerate(ids):
                history = store[id]
                more = {**store.told(id), "thumbnail": store.thumbnail(id)}
                group.append(_row(history) | more)
                held += history.features.nbytes
                if held >= GROUP_BYTES or done + 1 == len(ids):
                    out.write_table(arrow.Table.from_pylist(group, schema))
                    group, held = [], 0
                progress("export", done + 1, len(ids))

    write_whole(path, write)


def _row(history: History) -> dict[str, Any]:
    made = None if history.made_with is None else json.dumps(dict(history.made_with))
    columns = {
        name: getattr(history, name)
        for name in ("id", "encoder", "dimension", "frames", "times_s", "source_frames", "presence")
    }
    return {**columns, "made_with": made, "features": history.features.ravel()}
