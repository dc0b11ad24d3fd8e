"""The compiled code, called without the checks of the Python that usually calls it."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from random import Random

import mutate
import numpy as np
from readers import Target

NOT_CHANGED = ("name", "operation", "histories")
REFUSED = (ValueError, TypeError, BufferError, OverflowError)


def nothing(folder: Path) -> None:
    """Write nothing: arguments are made anew for each call."""


def readouts(rng: Random, valid: Path, folder: Path) -> None:
    from helpers import kernel

    numbers = np.random.default_rng(rng.getrandbits(64))
    fields = kernel.arguments(rng.randrange(7))
    names = [name for name in fields if name not in NOT_CHANGED]
    with np.errstate(all="ignore"):
        for name in rng.sample(names, rng.randint(1, 3)):
            fields[name] = kernel.mutated(fields[name], numbers)
    kernel.raw(fields)


def pixels(rng: Random, valid: Path, folder: Path) -> None:
    from dejacue.sources import _pixels

    height, width, size = (rng.choice((1, 2, 7, 20, 70)) for _ in range(3))
    image = np.frombuffer(rng.randbytes(height * width * 3), np.uint8)
    mask = np.frombuffer(rng.randbytes(height * width), np.uint8) & 1
    out = np.zeros(size * size * 3, np.uint8)
    arguments = [image, mask, out, height, width, 0.2, 4, 127, size, 0, 0, height, width]
    for at in rng.sample(range(len(arguments)), rng.randint(0, 2)):
        number = rng.choice(mutate.NUMBERS)
        arguments[at] = mutate.array(rng, arguments[at]) if at < 3 else number
    _pixels.picture(*arguments)


def png(rng: Random, valid: Path, folder: Path) -> None:
    """Check that what is read of a changed or an invented PNG has the numbers of Pillow; checksums
    of chunks are made right again, so that what is changed gets as far as the compressed rows."""
    from helpers.png import chunk, flat
    from PIL import Image

    from dejacue.sources import _pixels
    from dejacue.sources.masks.labels import SIGNATURE, read_flat_png

    height, width = rng.choice((1, 2, 9, 40)), rng.choice((1, 7, 33, 300))
    depth = rng.choice((1, 2, 4, 8, 8, 8))
    rows = flat(height, -(-width * depth // 8), rng.randrange(1 << 20))
    raw = b"".join(bytes([rng.randrange(5)]) + row.tobytes() for row in rows)
    packer = zlib.compressobj(rng.randrange(10), zlib.DEFLATED, 15, 9, rng.choice((0, 2, 3, 4)))
    stream = packer.compress(raw) + packer.flush()
    kind = rng.randrange(6)
    if kind:
        body = rng.randbytes(rng.randrange(200)) if kind == 1 else mutate.data(rng, stream[2:])
        stream = stream[:2] + body
    if kind == 2:
        sizes = [rng.choice((height, width, rng.choice(mutate.NUMBERS))) for _ in range(2)]
        _pixels.labels(stream, np.zeros(height * width + 16, np.uint8), *sizes, depth)
    head = struct.pack(">IIBBBBB", width, height, depth, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", bytes(768)), (b"IDAT", stream), (b"IEND", b""))
    path = folder / "x.png"
    path.write_bytes(SIGNATURE + b"".join(chunk(*part) for part in parts))
    labels = read_flat_png(path)
    if kind == 0 and labels is None:
        raise AssertionError("a whole PNG was not read")
    if labels is not None:
        with Image.open(path) as picture:
            if not np.array_equal(labels, np.asarray(picture)) or labels.numbers != set(
                labels.flat
            ):
                raise AssertionError("other numbers than Pillow's")


TARGETS = [
    Target("kernel", 150, nothing, readouts, REFUSED),
    Target("pixels", 60, nothing, pixels, REFUSED),
    Target("png", 100, nothing, png, REFUSED),
]
