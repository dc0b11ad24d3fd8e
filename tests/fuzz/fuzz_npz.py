"""Any bytes given as an .npz must become a record or an InputError, and nothing else.

    python tests/fuzz/fuzz_npz.py [seconds]

Coverage-guided where atheris is installed, else seeded random mutations of a small corpus. What
breaks the rule is saved beside this file as crash.bin and ends the run with a non-zero code.
"""

import contextlib
import importlib.util
import io
import random
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

atheris = __import__("atheris") if importlib.util.find_spec("atheris") else None
with atheris.instrument_imports() if atheris else contextlib.nullcontext():
    from dejacue import InputError, generate, read_history, read_vocabulary
    from dejacue.sources.files import write_history, write_vocabulary

KEYS = ("features", "frames", "times_s", "source_frames", "schema", "id", "states", "descriptions")


def one_input(data: bytes, folder: Path) -> None:
    """First byte 0: the rest is a file. Else the rest replaces one array of a valid file, with a
    correct checksum, so that what lies behind the zip layer is reached too."""
    key = f"{KEYS[data[0] % len(KEYS)]}.npy" if data[:1] > b"\0" else None
    for read, valid in ((read_history, "history.npz"), (read_vocabulary, "vocabulary.npz")):
        whole = io.BytesIO(b"" if key else data[1:])
        if key:
            with zipfile.ZipFile(folder / valid) as old, zipfile.ZipFile(whole, "w") as new:
                for name in sorted({*old.namelist(), key}):
                    new.writestr(name, data[1:] if name == key else old.read(name))
        (folder / "input.npz").write_bytes(whole.getvalue())
        try:
            read(folder / "input.npz")
        except InputError:
            pass
        except BaseException:
            Path(__file__).with_name("crash.bin").write_bytes(data)
            raise


def mutated(rng: random.Random, seed: bytes) -> bytes:
    out = bytearray(seed)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(out) + 1)
        piece = rng.choice((rng.randbytes(rng.choice((1, 1, 4, 16))), b"\xff" * 4, b"-9", b"\0"))
        until, new = rng.choice(((at + len(piece), piece), (at, piece), (at + 1, b""), (None, b"")))
        out[at:until] = new
    return bytes(out)


def main(seconds: int, folder: Path) -> None:
    made = generate(frames=12, dimension=9)
    files = [write_history(folder / "history.npz", made.history)]
    files.append(write_vocabulary(folder / "vocabulary.npz", made.vocabulary))
    seeds = [b"\0" + path.read_bytes() for path in files]
    for array in (z.read(n) for z in map(zipfile.ZipFile, files) for n in z.namelist()):
        seeds += [bytes([which]) + array for which in range(1, len(KEYS) + 1)]
    if atheris:
        for number, seed in enumerate(seeds):
            (folder / f"{number}.seed").write_bytes(seed)
        options = [sys.argv[0], f"-max_total_time={seconds}", str(folder)]
        atheris.Setup(options, lambda data: one_input(data, folder))
        atheris.Fuzz()  # does not return
    rng, stop = random.Random(0), time.monotonic() + seconds
    while time.monotonic() < stop:
        one_input(mutated(rng, rng.choice(seeds)), folder)


if __name__ == "__main__":
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as scratch:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 60, Path(scratch))
