"""Inputs with something wrong with them, or not: bytes, texts, JSON values, arrays, pictures.

Every function takes a random.Random first, and with the same one gives the same.
"""

from __future__ import annotations

import copy
import io
import json
import operator
import shutil
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

WORDS = (
    "",
    " ",
    "0",
    "-1",
    "1",
    "007",
    "1e400",
    "1e-400",
    "-0",
    "nan",
    "inf",
    "-inf",
    "NaN",
    "Infinity",
    "null",
    "true",
    "3.5",
    "9" * 30,
    "9" * 5000,
    "x" * 5000,
    "\u0663",
    "\uff11",
    "\u2028",
    "\x85",
    "\ufeff",
    "\u202e",
    "\x1b[31m",
    "%s%n{0}",
    "<script>",
    "]]>",
    "&amp;",
    "a,b;c\td",
    '"',
    "'",
    "\\",
    "\\ud800",
    "..",
    "../x",
    "*",
    "[",
    "?",
    "~",
    "-",
    "--",
    "@",
    ":",
    "#",
    "a:b:c",
    "1:2",
    "1:2:3",
    "4.5s",
    "1,2,3,4",
    "1,2@3",
    "2:1,2,3,4@5",
    "&a [*a]",
    "!!python/object:os.system",
    "0x10",
    "1_0",
    "2020-01-01",
    "{",
    "}",
    "[]",
    "{}",
    "[" * 6000,
    '{"a":' * 1500,
    "%PDF",
    "PK\x03\x04",
    "\x93NUMPY",
)
NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    255,
    256,
    65536,
    2**31 - 1,
    2**31,
    2**32,
    2**53,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63),
    10**30,
    10**400,
    0.0,
    -0.0,
    0.5,
    1e-320,
    1e-30,
    1e30,
    1e308,
    -1e308,
    1.5e9,
    float("nan"),
    float("inf"),
    float("-inf"),
)
DTYPES = ("<f2", "<f4", ">f4", "<f8", "<i8", ">i4", "|u1", "|i1", "<u8", "|b1", "<c8", "<U3", "|S4")


def word(rng: Random) -> str:
    """Return a text that is often wrong."""
    if rng.random() < 0.15:
        return "".join(rng.choice(WORDS) for _ in range(rng.randint(2, 4)))
    if rng.random() < 0.2:
        return str(rng.choice(NUMBERS))[:6000]
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
        at = rng.randrange(len(lines))
        kind = rng.randrange(5)
        if kind == 0:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif kind == 1 and len(lines) > 1:
            del lines[at]
        else:
            separator = "," if "," in lines[at] else " "
            cells = lines[at].split(separator)
            cells[rng.randrange(len(cells))] = rng.choice(
                ("1", "2", "-1", "a", word(rng), word(rng))
            )
            lines[at] = (separator if rng.random() < 0.9 else rng.choice(";\t|")).join(cells)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def value(rng: Random, original: Any) -> Any:
    """Return a JSON value of which one place holds something else."""
    out = copy.deepcopy(original)
    places = list(_places(out))
    if not places:
        return _other(rng, out)
    inner, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.06:
        del inner[key]
    elif kind < 0.1 and isinstance(inner, dict):
        inner[word(rng)[:80]] = inner.pop(key)
    elif kind < 0.15:
        inner.append(inner[key]) if isinstance(inner, list) else inner.update({word(rng)[:80]: 1})
    elif kind < 0.25:
        inner[key] = copy.deepcopy(operator.getitem(*rng.choice(places)))
    else:
        inner[key] = _other(rng, inner[key])
    return out


def _places(original: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each list or mapping in a value, with each of its keys."""
    pairs = original.items() if isinstance(original, dict) else enumerate(original)
    for key, inner in list(pairs):
        yield original, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def _other(rng: Random, original: Any) -> Any:
    kind = rng.randrange(10)
    if kind < 5 and type(original) in (int, float) and abs(original) < 1e300:  # not wholly wrong
        return original + rng.choice((-1, 1, 1, 2, 0.5, 1000, -1000))
    if kind < 5 and isinstance(original, str):
        return rng.choice((original.upper(), original[:-1], f"{original} x", "a", "pre", "1"))
    if kind < 6:
        return word(rng)
    if kind < 8:
        return rng.choice(NUMBERS)
    if kind == 8:
        deep: Any = original
        for _ in range(rng.choice((1, 1, 2, 50, 150))):
            deep = [deep] if rng.random() < 0.5 else {"a": deep}
        return deep
    if rng.random() < 0.5:
        return [original] * rng.choice((0, 1, 2, 100))
    return rng.choice((None, True, False, [], {}, [[]], {"": None}, [None], "a", 1))


def document(rng: Random, original: bytes) -> bytes:
    """Change the value of a JSON or YAML text, or its letters."""
    if rng.random() < 0.15:
        return data(rng, original, 2)
    try:
        parsed = json.loads(original)
    except ValueError:
        return text(rng, original)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        parsed = value(rng, parsed) if isinstance(parsed, dict | list) else parsed
    return json.dumps(parsed, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def array(rng: Random, original: np.ndarray) -> np.ndarray:
    """Return an array of another shape or type, or with another value in it."""
    out, kind = original.copy(), rng.randrange(11)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if kind < 2 and out.size:
                out.flat[rng.randrange(out.size)] = rng.choice(NUMBERS)
            elif kind == 2:
                out = out.astype(rng.choice(DTYPES))
            elif kind == 3:
                out = np.resize(out, max(0, out.size + rng.choice((-3, -1, 1, 5))))
            elif kind == 4:
                out = out.reshape((1, *out.shape)) if rng.random() < 0.5 else out.ravel()
            elif kind == 5:
                out = np.asfortranarray(out[::-1])
            elif kind == 6 and out.ndim:
                out = out[: rng.randrange(len(out) + 1)]
            elif kind == 7:
                out[...] = rng.choice(NUMBERS)
            elif out.size:  # not wholly wrong
                out.flat[rng.randrange(out.size)] += rng.choice((1, 2, -1))
        except (ValueError, OverflowError, TypeError, IndexError):
            pass  # numpy will not; then it stays as it is
    return out


def npy(rng: Random, original: bytes) -> bytes:
    """Change the array of an .npy file; now and then forge its header."""
    try:
        valid = np.load(io.BytesIO(original))
    except Exception:  # it was changed before
        return data(rng, original)
    if valid.size > 1 << 20:  # of nothing
        return original
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array(rng, valid))
    out = stream.getvalue()
    if rng.random() < 0.1:
        end = out.index(b"\n") + 1
        shape = tuple(
            rng.choice((0, 1, 4, -1, 2**31, 10**12, 10**30)) for _ in range(rng.randint(0, 4))
        )
        descr = rng.choice((*DTYPES, "|O", "|V0", "<U9999999", "<f3", "[('a','<i4')]"))
        head = f"{{'descr': '{descr}', 'fortran_order': {rng.random() < 0.5}, 'shape': {shape}}}\n"
        out = out[:8] + len(head).to_bytes(2, "little") + head.encode() + out[end:]
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
            members[at] = (rng.choice((word(rng)[:300] or "x", rng.choice(members)[0])), content)
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
    image = Image.open(io.BytesIO(original))
    kind = rng.randrange(4)
    if kind == 0:
        image = image.convert(rng.choice(("1", "L", "P", "RGB", "RGBA", "LA", "I", "F", "CMYK")))
    elif kind == 1:
        image = image.resize((rng.choice((1, 2, 63, 64, 300)), rng.choice((1, 2, 47, 48, 300))))
    elif kind == 2:
        pixels = np.frombuffer(rng.randbytes(48 * 64), np.uint8).reshape(48, 64)
        image = Image.fromarray(pixels >> rng.randrange(8))
    else:
        image = Image.new(image.mode, image.size)
    stream = io.BytesIO()
    image.save(stream, "TIFF" if image.mode in ("F", "I", "CMYK") else "PNG")
    return stream.getvalue()


BY_SUFFIX = {
    ".json": document,
    ".jsonl": document,
    ".yaml": document,
    ".csv": text,
    ".txt": text,
    ".npz": npz,
    ".npy": npy,
    ".png": picture,
}


def tree(rng: Random, folder: Path) -> None:
    """Change one file of a folder; now and then put something else in its place."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = rng.choice(files)
    kind = rng.random()
    if kind < 0.95:
        path.write_bytes(BY_SUFFIX.get(path.suffix, data)(rng, path.read_bytes()))
        return
    content = path.read_bytes()
    path.unlink()
    if kind < 0.96:
        path.mkdir()
    elif kind < 0.97:
        path.symlink_to(path.name)
    elif kind < 0.98:
        name = rng.choice(("0000", "x", "9" * 200, "a" * 200, "-1", "x\ny", "\u0663"))
        path.with_name(name + path.suffix).write_bytes(content)
    elif kind < 0.99:
        path.write_bytes(b"")
    elif path.parent != folder:
        shutil.rmtree(path.parent)
