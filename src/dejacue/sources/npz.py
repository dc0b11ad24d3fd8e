"""Reading ``.npz`` files that may come from anywhere, and writing files whole or not at all.

numpy.load trusts a header before it looks at the data; here every size is checked first, nothing
is unpickled, and every problem is one sentence that names the file.
"""

from __future__ import annotations

import math
import os
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, first_line
from dejacue.sources.atomic import write_whole

MOST_HEADER_BYTES = 10_000
MOST_BYTES = 64 << 30


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """All arrays of an ``.npz`` file, by name."""
    name = os.fspath(path)
    try:
        with zipfile.ZipFile(name) as archive:
            return {
                member.filename.removesuffix(".npy"): _read_member(archive, member, name)
                for member in archive.infolist()
            }
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror or error})") from None
    except MemoryError:
        raise InputError(f"{name}: larger than the memory of this machine") from None
    except Exception as error:  # zip, its codecs and numpy each fail in their own ways
        raise InputError(
            f"{name}: not an .npz file, or a damaged one ({first_line(error)})"
        ) from None


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> NDArray[Any]:
    where = f"{name}: {member.filename}"
    if not member.filename.endswith(".npy"):
        raise InputError(f"{where} is not an array; an .npz file holds .npy members only")
    if member.flag_bits & 0x1:
        raise InputError(f"{where} is encrypted; save it without a password")
    with archive.open(member) as stream:
        shape, fortran, dtype, header = read_header(stream, where)
        size = math.prod(shape) * dtype.itemsize
        if size > MOST_BYTES:
            raise InputError(f"{where} declares {size} bytes; that is not a history or vocabulary")
        if size != member.file_size - header:
            raise InputError(f"{where} declares {size} bytes of data but holds "
                             f"{member.file_size - header}; the file is damaged")  # fmt: skip
        data = stream.read(size)
        stream.read(1)  # at the end of a member the checksum is verified
    if len(data) != size:
        raise InputError(f"{where} is truncated")
    if dtype.kind == "U" and not is_text(data, dtype):
        raise InputError(f"{where} holds text that is not Unicode; the file is damaged")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def is_text(data: bytes, dtype: Any) -> bool:
    try:
        data.decode("utf-32-be" if dtype.str.startswith(">") else "utf-32-le")
    except UnicodeDecodeError:
        return False
    return True


def read_header(stream: IO[bytes], where: str) -> tuple[tuple[int, ...], bool, Any, int]:
    """Shape, whether it is stored column by column, type, and where the data starts; checked."""
    try:
        version = np.lib.format.read_magic(stream)
        readers: dict[tuple[int, int], Any] = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        if version not in readers:
            raise InputError(f"{where} has the unknown array version {version}; save it again")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's remarks on headers of the Python 2 era
            shape, fortran, dtype = readers[version](stream, max_header_size=MOST_HEADER_BYTES)
    except (InputError, zipfile.BadZipFile):
        raise
    except Exception as error:  # the header is parsed as Python text, which fails in many ways
        raise InputError(f"{where} has no usable array header ({first_line(error)})") from None
    if any(length < 0 for length in shape):
        raise InputError(f"{where} declares a negative length")
    if dtype.hasobject:
        raise InputError(
            f"{where} holds pickled objects, which are never loaded; save plain numbers and strings"
        )
    return shape, fortran, dtype, stream.tell()


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> Path:
    def write(stream: IO[bytes]) -> None:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, values in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(values), allow_pickle=False)

    return write_whole(path, write)
