"""Files with something wrong with them, and the rule that they are read by.

An altered file gives an answer or one sentence, an ``InputError``: no other exception, no hang, no
crash, and neither much time nor much memory. ``DEJACUE_FUZZ`` says how many altered files of each
kind are tried (``make fuzz``: many); each has a number of its own and is the same every time.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import shutil
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from dejacue.atomic import is_temporary
from dejacue.errors import DejaCueError

EXAMPLES = int(os.environ.get("DEJACUE_FUZZ", "25"))
MAX_CPU_S, MAX_BYTES, MAX_LETTERS = 5, 300 << 20, 2000
FILE_BYTES = 1 << 20
WORDS = (
    *("", " ", "0", "-1", "007", "1e400", "-0", "nan", "Infinity", "null", "true", "3.5", "1:2:3"),
    *("9" * 5000, "x" * 5000, "\u0663", "\uff11", "\u2028", "\x85", "\ufeff", "\x1b[31m", "%s{0}"),
    *("<script>", "]]>", "&amp;", "a,b;c\td", '"', "'", "\\", "\\ud800", "../x", "*", "[", "?"),
    *("~", "--", "@", ":", "#", "4.5s", "2:1,2,3,4@5", "&a [*a]", "!!python/object:os.system"),
    *("0x10", "1_0", "2020-01-01", "{", "[]", "[" * 6000, '{"a":' * 1500, "%PDF", "PK\x03\x04"),
)
NUMBERS = (
    *(0, 1, -1, 2, 7, 255, 65536, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63)),
    *(10**30, 10**400, -0.0, 0.5, 1e-320, 1e30, -1e308, float("nan"), float("inf"), float("-inf")),
)
DTYPES = ("<f2", "<f4", ">f4", "<f8", "<i8", ">i4", "|u1", "|i1", "<u8", "|b1", "<c8", "<U3", "|S4")


class Usual(Random):
    """Choose the first of all choices, which is the usual one."""

    def choice(self, choices: Any) -> Any:
        return choices[0]


# The rule


def memory(field: str) -> int:
    """Return VmRSS or VmHWM of this process in bytes; 0 where no system tells it."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))
    return 0


@contextlib.contextmanager
def bounded(what: object, most: int = MAX_BYTES) -> Iterator[None]:
    """Check that what runs inside takes neither long nor much memory."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again
    base, began = memory("VmRSS"), time.process_time()
    yield
    took, peak = time.process_time() - began, memory("VmHWM") - base
    assert took < MAX_CPU_S, f"{what}: computed for {took:.1f} s"
    assert peak < most, f"{what}: took {peak >> 20} MB"


def check(read: Callable[[], object], what: object, most: int = MAX_BYTES) -> None:
    """Read, and check that there is an answer or one sentence."""
    with bounded(what, most):
        try:
            read()
        except DejaCueError as error:
            sentence = str(error)
            assert "\n" not in sentence, what
            assert len(sentence) < MAX_LETTERS, what
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


def check_altered(
    folder: Path,
    make: Callable[[Path], object],
    read: Callable[[Random, Path], object],
    alter: Callable[[Random, Path], object] | None = None,
    most: int = MAX_BYTES,
) -> None:
    """Make a valid input in a folder, which is read without an error; then read altered copies.

    The copy that breaks the rule stays in the folder, which pytest keeps."""
    (valid := folder / "valid").mkdir()
    make(valid)
    read(Usual(), shutil.copytree(valid, folder / "unchanged"))
    for number in range(EXAMPLES):
        rng = Random(f"{folder.name}/{number}")
        place = shutil.copytree(valid, folder / f"altered-{number}")
        (alter or tree)(rng, place)
        check(lambda rng=rng, place=place: read(rng, place), place, most)  # type: ignore[misc]
        left = [path.name for path in place.rglob("*") if is_temporary(path)]
        assert not left, f"{place}: left behind: {left}"
        shutil.rmtree(place, ignore_errors=True)


# Small files that unfold


Shape = tuple[str, Callable[[int], bytes]]


def shape(
    name: str, head: str, unit: str | Callable[[int], str], tail: str = "", between: str = ""
) -> Shape:
    """Return a file of one field that is repeated, long or nested until the file has its size."""

    def make(size: int) -> bytes:
        room, parts = size - len(head) - len(tail), list[str]()
        while room > 0:
            parts.append(unit if isinstance(unit, str) else unit(len(parts)))
            room -= len(parts[-1].encode()) + len(between)
        return (head + between.join(parts) + tail).encode()

    return name, make


def check_shapes(folder: Path, shapes: list[Shape], read: Callable[[Path], object]) -> None:
    """Read files of a megabyte of each shape."""
    for at, (name, make) in enumerate(shapes):
        (place := folder / str(at)).mkdir()
        (path := place / name).write_bytes(make(FILE_BYTES))
        check(lambda path=path: read(path), f"shape {at}, {path}")  # type: ignore[misc]
        shutil.rmtree(place)


# Alterations


def word(rng: Random) -> str:
    """Return a text that is often wrong."""
    if rng.random() < 0.15:
        return "".join(rng.choice(WORDS) for _ in range(rng.randint(2, 4)))
    if rng.random() < 0.2:
        return str(rng.choice(NUMBERS))
    return rng.choice(WORDS)


def data(rng: Random, original: bytes, times: int = 6) -> bytes:
    """Replace, insert, leave out, repeat or cut off bytes."""
    out = bytearray(original)
    for _ in range(rng.randint(1, times)):
        at = rng.randrange(len(out) + 1)
        some = rng.choice((1, 1, 1, 2, 4, 8, 16))
        kind = rng.randrange(7)
        if kind == 0:
            out[at : at + some] = rng.randbytes(some)
        elif kind == 1 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif kind == 2:
            out[at:at] = word(rng).encode()[: rng.choice((4, 16, 6000))]
        elif kind == 3:
            del out[at : at + rng.choice((1, some, 200))]
        elif kind == 4:
            out[at : at + some] = rng.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * some
        elif kind == 5:
            out[at:at] = out[at : at + rng.choice((some, 64))]
        elif rng.random() < 0.3:
            del out[at:]
    return bytes(out)


def text(rng: Random, original: bytes) -> bytes:
    """Replace tokens of a text, repeat and leave out lines; now and then change its bytes."""
    if rng.random() < 0.1:
        return data(rng, original, 2)
    lines = original.decode("utf-8", "replace").split("\n")
    for _ in range(rng.randint(1, 3)):
        at, kind = rng.randrange(len(lines)), rng.randrange(5)
        if kind == 0:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif kind == 1 and len(lines) > 1:
            del lines[at]
        else:
            separator = "," if "," in lines[at] else " "
            cells = lines[at].split(separator)
            cells[rng.randrange(len(cells))] = rng.choice(("1", "2", "a", word(rng), word(rng)))
            lines[at] = (separator if rng.random() < 0.9 else rng.choice(";\t|")).join(cells)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def document(rng: Random, original: bytes) -> bytes:
    """Change values of a JSON text, or tokens of another one."""
    if rng.random() < 0.15:
        return data(rng, original, 2)
    try:
        parsed = json.loads(original)
    except ValueError:
        return text(rng, original)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        _alter_value(rng, parsed)
    return json.dumps(parsed, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _alter_value(rng: Random, parsed: Any) -> None:
    places = list(_places(parsed))
    if not places:
        return
    inner, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.06:
        del inner[key]
    elif kind < 0.1 and isinstance(inner, dict):
        inner[word(rng)[:80]] = inner.pop(key)
    elif kind < 0.15:
        inner.append(inner[key]) if isinstance(inner, list) else inner.update({word(rng)[:80]: 1})
    elif kind < 0.25:
        other, place = rng.choice(places)
        inner[key] = copy.deepcopy(other[place])
    else:
        inner[key] = _other(rng, inner[key])


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each list or mapping in a value, with each of its keys."""
    if isinstance(value, dict | list):
        for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from _places(inner)


def _other(rng: Random, original: Any) -> Any:
    kind = rng.randrange(10)
    if kind < 5 and type(original) in (int, float) and abs(original) < 1e300:  # not wholly wrong
        return original + rng.choice((-1, 1, 1, 2, 0.5, 1000, -1000))
    if kind < 5 and isinstance(original, str):
        return rng.choice((original.upper(), original[:-1], f"{original} x", "a", "1"))
    if kind < 6:
        return word(rng)
    if kind < 8:
        return rng.choice(NUMBERS)
    if kind == 8:
        deep: Any = original
        for _ in range(rng.choice((1, 1, 2, 50, 150))):
            deep = [deep] if rng.random() < 0.5 else {"a": deep}
        return deep
    return rng.choice((None, True, False, [], {}, [[]], {"": None}, [original] * 100, "a", 1))


def array(rng: Random, original: np.ndarray) -> np.ndarray:
    """Return an array of another shape or type, or with another value in it."""
    out, kind = original.copy(), rng.randrange(9)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # where numpy will not, it stays as it is
        with contextlib.suppress(ValueError, OverflowError, TypeError):
            if kind < 3 and out.size:
                out.flat[rng.randrange(out.size)] = rng.choice(NUMBERS)
            elif kind == 3:
                out = out.astype(rng.choice(DTYPES))
            elif kind == 4:
                out = np.resize(out, max(0, out.size + rng.choice((-3, -1, 1, 5))))
            elif kind == 5:
                out = out.reshape((1, *out.shape)) if rng.random() < 0.5 else out.ravel()
            elif kind == 6 and out.ndim:
                out = np.asfortranarray(out[: rng.randrange(len(out) + 1)][::-1])
            elif kind == 7:
                out[...] = rng.choice(NUMBERS)
            elif out.size:  # not wholly wrong
                out.flat[rng.randrange(out.size)] += rng.choice((1, 2, -1))
    return out


def npy(rng: Random, original: bytes) -> bytes:
    """Change the array of an .npy file; now and then forge its header."""
    try:
        valid = np.load(io.BytesIO(original))
    except Exception:  # it was changed before
        return data(rng, original)
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array(rng, valid))
    out = stream.getvalue()
    if rng.random() < 0.1:
        sizes = (0, 1, 4, -1, 2**31, 10**12, 10**30)
        shape = tuple(rng.choice(sizes) for _ in range(rng.randint(0, 4)))
        descr = rng.choice((*DTYPES, "|O", "|V0", "<U9999999", "<f3", "[('a','<i4')]"))
        head = f"{{'descr': '{descr}', 'fortran_order': {rng.random() < 0.5}, 'shape': {shape}}}\n"
        body = out[out.index(b"\n") + 1 :]
        out = out[:8] + len(head).to_bytes(2, "little") + head.encode() + body
    return data(rng, out, 2) if rng.random() < 0.1 else out


def npz(rng: Random, original: bytes) -> bytes:
    """Exchange arrays of an .npz under a correct checksum, or change its bytes."""
    if rng.random() < 0.15:
        return data(rng, original, 3)
    with zipfile.ZipFile(io.BytesIO(original)) as old:
        members = [(name, old.read(name)) for name in old.namelist()]
    for _ in range(rng.choice((1, 1, 2))):
        at, kind = rng.randrange(len(members)), rng.random()
        name, content = members[at]
        if kind < 0.08 and len(members) > 1:
            del members[at]
        elif kind < 0.14:
            members[at] = (word(rng)[:300] or "x", content)
        elif kind < 0.2:
            members.append((rng.choice(("extra.npy", name, "readme.txt")), content))
        elif kind < 0.3:
            members[at] = (name, rng.choice(members)[1])
        else:
            members[at] = (name, npy(rng, content))
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", rng.choice((0, 8))) as new:
        warnings.simplefilter("ignore")  # of names that come twice
        for name, content in members:
            new.writestr(name, content)
    return stream.getvalue()


def picture(rng: Random, original: bytes) -> bytes:
    """Return a picture of another mode, size or content, or change its bytes."""
    if rng.random() < 0.4:
        return data(rng, original)
    image, kind = Image.open(io.BytesIO(original)), rng.randrange(3)
    if kind == 0:
        image = image.convert(rng.choice(("1", "L", "P", "RGB", "RGBA", "LA", "I", "F", "CMYK")))
    elif kind == 1:
        image = image.resize((rng.choice((1, 2, 63, 64, 300)), rng.choice((1, 2, 47, 48, 300))))
    else:
        pixels = np.frombuffer(rng.randbytes(48 * 64), np.uint8).reshape(48, 64)
        image = Image.fromarray(pixels >> rng.randrange(8))
    stream = io.BytesIO()
    image.save(stream, "TIFF" if image.mode in ("F", "I", "CMYK") else "PNG")
    return stream.getvalue()


BY_SUFFIX = {
    **dict.fromkeys((".json", ".jsonl", ".yaml"), document),
    **dict.fromkeys((".csv", ".txt"), text),
    ".npz": npz,
    ".npy": npy,
    ".png": picture,
}


def tree(rng: Random, folder: Path) -> None:
    """Change one file of a folder; now and then put something else in its place."""
    path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    kind, content = rng.random(), path.read_bytes()
    if kind < 0.96:
        path.write_bytes(BY_SUFFIX.get(path.suffix, data)(rng, content))
        return
    path.unlink()
    with contextlib.suppress(OSError):  # not every system has all of these
        if kind < 0.97:
            path.mkdir()
        elif kind < 0.98:
            path.symlink_to(path.name)
        elif kind < 0.99:
            name = rng.choice(("0000", "x", "9" * 200, "-1", "x\ny", "\u0663"))
            path.with_name(name + path.suffix).write_bytes(content)
        else:
            path.write_bytes(b"")
