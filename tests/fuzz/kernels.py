"""The compiled code, called without the checks of the Python that usually calls it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import mutate
import numpy as np
from readers import Target

NOT_CHANGED = ("name", "operation", "histories")
REFUSED = (ValueError, TypeError, BufferError, OverflowError)


def nothing(folder: Path) -> None:
    """Arguments are made anew for each call."""


def readouts(rng: Random, valid: Path, folder: Path) -> None:
    import test_kernel

    numbers = np.random.default_rng(rng.getrandbits(64))
    fields = test_kernel.arguments(rng.randrange(7))
    names = [name for name in fields if name not in NOT_CHANGED]
    with np.errstate(all="ignore"):
        for name in rng.sample(names, rng.randint(1, 3)):
            fields[name] = test_kernel.mutated(fields[name], numbers)
    test_kernel.raw(fields)


def pixels(rng: Random, valid: Path, folder: Path) -> None:
    from dejacue.sources import _pixels

    height, width, size = (rng.choice((1, 2, 7, 20)) for _ in range(3))
    image = np.frombuffer(rng.randbytes(height * width * 3), np.uint8)
    mask = np.frombuffer(rng.randbytes(height * width), np.uint8) & 1
    given = [image, mask, np.zeros(size * size * 3, np.uint8), height, width, 0.2, 4, 127, size]
    for at in rng.sample(range(len(given)), rng.randint(0, 2)):
        own = given[at]
        given[at] = mutate.array(rng, own) if at < 3 else rng.choice(mutate.NUMBERS)
    _pixels.picture(*given)


TARGETS = [
    Target("kernel", 150, nothing, readouts, REFUSED),
    Target("pixels", 60, nothing, pixels, REFUSED),
]
