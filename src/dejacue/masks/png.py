"""PNG masks: the numbers of an ordinary palette or grey picture, several times as fast as Pillow.

zlib-ng inflates; compiled code undoes the filters of the rows. Whatever is not ordinary, or not
whole, is left to Pillow, which reads it or says what is wrong.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from zlib_ng import zlib_ng

from dejacue.masks.buffers import BufferPool
from dejacue.video.crops import MeasuredArray, compiled, measured
from dejacue.video.sizes import check_size

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, PALETTE = 0, 3
DEPTHS = {GREY: (8,), PALETTE: (1, 2, 4, 8)}  # Pillow spreads a grey of fewer bits over 0 … 255
MAX_PNG_BYTES = 1 << 24  # of a file; a mask has some thousands


def read_flat_png(path: Path, pool: BufferPool | None = None) -> MeasuredArray | None:
    """Return the (H, W) numbers of a palette or grey PNG, in memory of the pool; None where it is
    another picture, or damaged."""
    if compiled is None or path.suffix.lower() != ".png":
        return None
    with open(path, "rb", buffering=0) as file:
        nbytes = os.fstat(file.fileno()).st_size
        parts = _parts(file.read(nbytes)) if nbytes <= MAX_PNG_BYTES else None
    if parts is None:
        return None
    header, colours, stream = parts
    width, height, depth, kind, *rest = struct.unpack(">IIBBBBB", header)
    ordinary = depth in DEPTHS.get(kind, ()) and not any(rest) and 0 < width < 1 << 31 and height
    if not ordinary or (kind == PALETTE and not colours):
        return None
    check_size(width, height)
    length = height * (1 + (width * depth + 7) // 8)
    inflater = zlib_ng.decompressobj()
    try:
        rows = inflater.decompress(stream, length + 1)  # one more than it may have
    except Exception:  # zlib_ng.error, which its types do not call an exception
        return None
    if len(rows) != length or not inflater.eof or inflater.unused_data:
        return None
    array = (pool or BufferPool()).empty((height, width))
    if (known := compiled.labels(rows, array, height, width, depth)) is None:
        return None
    numbers, box = frozenset(known[0]), known[1]
    return measured(array, box if numbers - {0} else None, numbers)


def _parts(content: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Return the header, the palette and the compressed rows, if every chunk is whole and in its
    place, and there are no others."""
    stream: list[bytes] = []
    header, colours, before, at = b"", b"", b"", len(SIGNATURE)
    if not content.startswith(SIGNATURE):
        return None
    while at + 12 <= len(content):
        (length,) = struct.unpack_from(">I", content, at)
        end = at + 8 + length
        name, data = content[at + 4 : at + 8], content[at + 8 : end]
        if content[end : end + 4] != struct.pack(">I", zlib_ng.crc32(data, zlib_ng.crc32(name))):
            return None
        if name == b"IHDR" and length == 13 and not before:
            header = data
        elif name == b"IDAT" and header and (not stream or before == b"IDAT"):
            stream.append(data)
        elif name == b"IEND":
            return (header, colours, b"".join(stream)) if stream else None
        elif name == b"PLTE" and not colours and not stream and length <= 3 * 256:
            colours = data
        else:
            return None
        before, at = name, end + 4
    return None
