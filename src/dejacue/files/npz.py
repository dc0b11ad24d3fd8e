"""Reading ``.npz`` files that may come from anywhere, and writing files whole or not at all.

numpy.load trusts a header before it looks at the data; here every size is checked first, nothing
is unpickled, what nobody asks for is not unpacked, and every problem is one sentence that names the
file.
"""

from __future__ import annotations

import math
import os
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dejacue.atomic import write_whole
from dejacue.errors import InputError, first_line, in_file

MAX_HEADER_BYTES = 10_000
MAX_BYTES = 64 << 30
ALWAYS_UNPACKED_BYTES = 256 << 20  # what is larger may be a bomb, and is one from
MAX_PACKING = 100  # times its size in the file on: packed features are hardly smaller than plain
MAX_EMPTY_VALUES = 1 << 20  # that take no bytes at all, which nobody needs
DAMAGED = "the file is damaged"
T = TypeVar("T")


def read_npz(path: str | os.PathLike[str], names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Read the arrays of an ``.npz`` file that have these names; others are not looked at."""
    keys = set(names)

    def read(archive: zipfile.ZipFile) -> dict[str, NDArray[Any]]:
        members: dict[str, zipfile.ZipInfo] = {}
        for member in archive.infolist():
            if not member.filename.endswith(".npy"):
                problem = f"{member.filename:.80} is not an array"
                raise InputError(f"{problem}; an .npz file holds .npy members only")
            key = member.filename.removesuffix(".npy")
            if key in members:
                raise InputError(f"contains {member.filename} twice; {DAMAGED}")
            if key in keys:
                members[key] = member
        packed, size = os.path.getsize(path), sum(array.file_size for array in members.values())
        if size > max(ALWAYS_UNPACKED_BYTES, MAX_PACKING * packed):
            raise InputError(
                f"would unpack {packed >> 20} MB to {size >> 20} MB, far more than features do; "
                "if the file is right, save it uncompressed with numpy.savez"
            )
        return {key: _read_member(archive, member) for key, member in members.items()}

    return _opened(path, read)


def names_in(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the arrays in an ``.npz`` file."""
    return _opened(path, lambda file: [m.removesuffix(".npy") for m in file.namelist()])


def _opened(path: str | os.PathLike[str], read: Callable[[zipfile.ZipFile], T]) -> T:
    with in_file(path):
        try:
            with zipfile.ZipFile(path) as archive:
                return read(archive)
        except InputError:
            raise
        except FileNotFoundError:
            raise InputError("no such file") from None
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror or error})") from None
        except MemoryError:
            raise InputError("is larger than the memory of this machine") from None
        except Exception as error:  # zip, its codecs and numpy each fail in their own ways
            raise InputError(f"not an .npz file, or a damaged one ({first_line(error)})") from None


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    where = member.filename
    if member.flag_bits & 0x1:
        raise _bad_array(where, "is encrypted; save it without a password")
    with archive.open(member) as stream:
        shape, fortran, dtype, header = read_header(stream, where)
        size = math.prod(shape) * dtype.itemsize
        if size > MAX_BYTES:
            raise _bad_array(where, f"declares {size} bytes; that is not a history or vocabulary")
        if size != member.file_size - header:
            actual = member.file_size - header
            raise _bad_array(where, f"declares {size} bytes of data but holds {actual}; {DAMAGED}")
        data = stream.read(size)
        stream.read(1)  # at the end of a member the checksum is verified
    if len(data) != size:
        raise _bad_array(where, "is truncated")
    if dtype.kind == "U" and not is_text(data, dtype):
        raise _bad_array(where, f"holds text that is not Unicode; {DAMAGED}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _bad_array(where: str, problem: str) -> InputError:
    return InputError(f"{where} {problem}")


def is_text(data: bytes, dtype: Any) -> bool:
    try:
        data.decode("utf-32-be" if dtype.str.startswith(">") else "utf-32-le")
    except UnicodeDecodeError:
        return False
    return True


def read_header(
    stream: IO[bytes], where: str, remedy: str = "save plain numbers and strings"
) -> tuple[tuple[int, ...], bool, Any, int]:
    """Return shape, whether it is stored column by column, type, and where the data starts."""
    try:
        version = np.lib.format.read_magic(stream)
        readers: dict[tuple[int, int], Any] = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        if version not in readers:
            raise _bad_array(where, f"has the unknown array version {version}; save it again")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's remarks on headers of the Python 2 era
            shape, fortran, dtype = readers[version](stream, max_header_size=MAX_HEADER_BYTES)
    except (InputError, zipfile.BadZipFile):
        raise
    except Exception as error:  # the header is parsed as Python text, which fails in many ways
        raise _bad_array(where, f"has no usable array header ({first_line(error)})") from None
    if any(length < 0 for length in shape):
        raise _bad_array(where, "declares a negative length")
    values = math.prod(max(length, 1) for length in shape)
    if not (math.prod(shape) and dtype.itemsize) and values > MAX_EMPTY_VALUES:
        raise _bad_array(where, f"declares {shape} values of size zero; {DAMAGED}")
    if dtype.hasobject:
        raise _bad_array(where, f"holds pickled objects, which are never loaded; {remedy}")
    return shape, fortran, dtype, stream.tell()


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> Path:
    def write(stream: IO[bytes]) -> None:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, values in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(values), allow_pickle=False)

    return write_whole(path, write)
