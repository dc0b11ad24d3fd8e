"""Model files on this machine: their hashes, the commit they belong to, whether they are whole."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from pathlib import Path
from typing import IO

from dejacue.sources.atomic import cache_folder, write_text

MOST_HASHED = 100 << 20  # bytes
_NOT_JSON = (ValueError, TypeError, LookupError, AttributeError, RecursionError)  # as expected
_SHA256 = re.compile("[0-9a-f]{64}")


def recorded(path: Path) -> str | None:
    """The sha256 that the hub gave for a file when it was downloaded; it gives none for small ones.

    In the hub's cache the file is called so; beside a folder of one's own, which ``hf download
    --local-dir`` has written, it stands in .cache.
    """
    given = path.resolve().name if "snapshots" in path.parts else ""
    for folder in () if given else path.parents:
        own = folder / ".cache" / "huggingface" / "download"
        note = own / f"{path.relative_to(folder)}.metadata"
        if note.is_file():
            with contextlib.suppress(OSError, ValueError, IndexError):
                given = note.read_text(encoding="utf-8").splitlines()[1].strip()
            break
    return given if _SHA256.fullmatch(given) else None


def looks_whole(path: Path, expected: str | None) -> bool:
    """Whether a file is what it should be, as far as a short look tells: a small one by its hash,
    where that is known, another by the lengths that it states."""
    if expected is not None and path.stat().st_size <= MOST_HASHED:
        return sha256(path) == expected
    return _is_whole(path)


def commit(path: Path) -> str | None:
    """The commit that a file of the hub's cache belongs to; None for a file elsewhere."""
    parts = path.parts
    place = parts.index("snapshots") + 1 if "snapshots" in parts else len(parts)
    found = parts[place] if place < len(parts) else ""
    return found if re.fullmatch("[0-9a-f]{40}", found) else None


def _is_whole(path: Path) -> bool:
    """Whether a file ends where its parts do; of kinds that are not known, whether it holds any."""
    kind, size = path.suffix, path.stat().st_size
    with open(path, "rb") as stream, contextlib.suppress(*_NOT_JSON):
        if kind == ".safetensors":
            length = int.from_bytes(stream.read(8), "little")
            if length > min(size, MOST_HASHED):
                return False
            header = json.loads(stream.read(length))
            ends = [own["data_offsets"][1] for name, own in header.items() if name[:2] != "__"]
            return bool(size == 8 + length + max(ends))
        return _is_whole_model(stream, size) if kind == ".onnx" else size > 0
    return False


def _is_whole_model(stream: IO[bytes], size: int) -> bool:
    """Whether the fields of an ONNX file, a protocol buffer, end with it, and one is the graph."""

    def number() -> int:
        value = 0
        for at in range(10):
            byte = stream.read(1)[0]  # an IndexError at the end of the file
            value |= (byte & 0x7F) << 7 * at
            if byte < 0x80:
                break
        return value

    graph = False
    while stream.tell() < size:
        field, kind = divmod(number(), 8)
        if kind not in (0, 2):  # a model has numbers and parts with a length, nothing else
            return False
        length = number()
        if kind == 2:
            stream.seek(length, os.SEEK_CUR)
        graph = graph or field == 7
    return graph and stream.tell() == size


def sha256(path: Path) -> str:
    """Of a file; cached as long as its size and modification time stay the same."""
    state = path.stat()
    key = str(path.resolve())
    stamp = [state.st_size, state.st_mtime_ns]
    memory = cache_folder() / "hashes.json"
    with contextlib.suppress(OSError, *_NOT_JSON):
        known = json.loads(memory.read_text(encoding="utf-8"))[key]
        if known[:2] == stamp:
            return str(known[2])
    with open(path, "rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    with contextlib.suppress(OSError, ValueError):  # a cache: without it we only hash again
        entries = {}
        with contextlib.suppress(OSError, *_NOT_JSON):
            entries = dict(json.loads(memory.read_text(encoding="utf-8")))
        write_text(memory, json.dumps({**entries, key: [*stamp, found]}))
    return found
