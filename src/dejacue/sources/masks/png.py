"""Flat PNG masks in compiled code: the numbers that Pillow gives, several times faster and without
blocking other threads."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.sources.crops import compiled
from dejacue.sources.sizes import check_size

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, PALETTE = 0, 3
DEPTHS = {GREY: (8,), PALETTE: (1, 2, 4, 8)}  # Pillow spreads a grey of fewer bits over 0 … 255
MOST = 1 << 24  # bytes of a file; a mask has some thousands


def read_flat_png(path: Path) -> NDArray[np.uint8] | None:
    """The (H, W) numbers of a palette or grey PNG; None where it is another picture, or damaged:
    Pillow reads it, or says what is wrong."""
    if compiled is None or path.suffix.lower() != ".png":
        return None
    with open(path, "rb") as file:
        content = file.read(MOST + 1)
    parts = _parts(content) if len(content) <= MOST else None
    if parts is None:
        return None
    header, stream = parts
    width, height, depth, kind, *rest = struct.unpack(">IIBBBBB", header)
    if depth not in DEPTHS.get(kind, ()) or any(rest) or not 0 < width < 1 << 31 or not height:
        return None
    check_size(width, height)
    array = np.empty((height, width), np.uint8)
    return array if compiled.labels(stream, array, height, width, depth) else None


def _parts(content: bytes) -> tuple[bytes, Any] | None:
    """The header and the compressed rows, if every chunk is whole and they are the only ones that
    must be understood, beside the palette."""
    header, stream, at = b"", [], len(SIGNATURE)
    if not content.startswith(SIGNATURE):
        return None
    while at + 12 <= len(content):
        (length,) = struct.unpack_from(">I", content, at)
        end = at + 8 + length
        if end + 4 > len(content):
            return None
        name = content[at + 4 : at + 8]
        if zlib.crc32(memoryview(content)[at + 4 : end]) != int.from_bytes(content[end : end + 4]):
            return None
        if name == b"IHDR" and length == 13 and not header:
            header = content[at + 8 : end]
        elif name == b"IDAT" and header:
            stream.append(memoryview(content)[at + 8 : end])
        elif name == b"IEND":
            return (header, b"".join(stream)) if stream else None
        elif (name != b"PLTE" and name[:1].isupper()) or name == b"acTL":
            return None
        at = end + 4
    return None
