"""CSV, Parquet and Arrow files as rows, and back; pyarrow does the latter two.

A few kilobytes can hold gigabytes: one long text for millions of rows, or compressed zeros. So only
the columns that are used are decoded, a text that rows share is kept once, and how much a file may
hold depends on its size.
"""

from __future__ import annotations

import csv
import io
import mmap
import os
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from dejacue.errors import InputError, first_line, in_file, named, need
from dejacue.sources.documents import check_keys, read_text

SUFFIXES = (".csv", ".parquet", ".arrow")
TEXT_COLUMNS = ("history", "state", "description", "component")  # of a CSV, with their blanks
MAX_CSV_BYTES = 256 << 20
MAX_ROWS = 10_000_000
ALWAYS_ROWS, BYTES_PER_ROW = 100_000, 4  # more rows than these need as many bytes of the file
ALWAYS_DECODED_BYTES, MAX_PACKING = 64 << 20, 64  # and so do columns, decompressed
_BATCH_ROWS = 1 << 16
_REMEDY = "pip install pyarrow"


def is_table(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).lower().endswith(SUFFIXES)


def table_rows(
    path: str, needed: Sequence[str], columns: Sequence[str], only: bool = False
) -> Iterator[tuple[named, dict[str, Any]]]:
    """Yield where each row stands, and its values that are not null, by column.

    needed    must be there
    columns   all that are used; others are not decoded
    only      of a CSV: others are refused, since they may be misspelled
    """
    if path.lower().endswith(".csv"):
        yield from _csv_rows(path, needed, columns if only else None)
        return
    pyarrow = need("pyarrow", _REMEDY)
    numbers = count(1)
    try:
        batches = _parquet if path.lower().endswith(".parquet") else _arrow
        for batch in batches(path, needed, columns):
            batch.validate(full=True)  # offsets of a damaged file lead anywhere
            names = batch.schema.names
            for row in zip(*map(_values, batch.columns), strict=True):
                cells = zip(names, row, strict=True)
                place = named(f"row {next(numbers)}")
                yield place, {name: value for name, value in cells if value is not None}
    except FileNotFoundError:
        raise InputError("no such file") from None
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, struct.error) as error:
        raise InputError(f"cannot be read as a table ({first_line(error)})") from None


def _csv_rows(
    path: str, needed: Sequence[str], allowed: Sequence[str] | None
) -> Iterator[tuple[named, dict[str, Any]]]:
    text = read_text(path, MAX_CSV_BYTES, "split it")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = [column.strip() for column in next(reader)]
        missing = [column for column in needed if column not in columns]
        if missing:
            problem, listed = f"no column {', '.join(missing)}", ", ".join(needed)
            remedy = f"the first line must name the columns {listed}, separated by commas"
            raise InputError(problem, field=missing[0], remedy=remedy)
        column, times = Counter(columns).most_common(1)[0]
        if times > 1:
            raise InputError("two columns have the same name", field=column)
        if allowed is not None:
            with in_file(path, 1):
                check_keys(columns, allowed)
        for cells in reader:
            if cells and len(cells) != len(columns):
                problem = f"{len(cells)} cells for {len(columns)} columns"
                raise InputError(problem, line=reader.line_num)
            row = {
                column: cell if column in TEXT_COLUMNS else cell.strip()
                for column, cell in zip(columns, cells, strict=False)
                if cell
            }
            if cells:
                yield in_file(path, reader.line_num), row
    except csv.Error as error:
        raise InputError(f"not CSV ({error})", line=reader.line_num) from None


def _parquet(path: str, needed: Sequence[str], columns: Sequence[str]) -> Iterator[Any]:
    parquet = need("pyarrow.parquet", _REMEDY)
    schema = parquet.read_schema(path)
    used = _used(schema, needed, columns)
    texts = [name for name in used if _is_text(schema.field(name).type)]
    with parquet.ParquetFile(path, read_dictionary=texts) as file:
        size = os.path.getsize(path)
        _check_rows(file.metadata.num_rows, size)
        decoded = _decoded_bytes(path, used)
        if decoded > max(ALWAYS_DECODED_BYTES, MAX_PACKING * size):
            problem = f"would unpack {size >> 10} kB to {decoded >> 20} MB"
            raise InputError(problem, value=decoded, remedy="save it without compression")
        yield from file.iter_batches(_BATCH_ROWS, columns=used)


def _decoded_bytes(path: str, used: Sequence[str]) -> int:
    """Return what the pages of these columns unpack to, as their headers say.

    pyarrow takes memory by these headers; sizes in the footer may be others, and pyarrow ends the
    process when it is asked for a damaged column there.
    """
    total = 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            length = int.from_bytes(data[-8:-4], "little")
            footer = _Thrift(data, len(data) - 8 - length).struct()
            chunks = (chunk for group in footer[4] for chunk in group[1])
            for about in (chunk[3] for chunk in chunks):
                if b".".join(about[3]).decode() not in used:
                    continue
                offsets = [offset for key in (9, 11) if (offset := about.get(key))]
                reader = _Thrift(data, min(offsets))
                end = reader.at + about[7]
                while reader.at < end:
                    page = reader.struct()
                    if min(page[2], page[3]) < 0:
                        raise ValueError
                    total += page[2]
                    reader.at += page[3]
        except (IndexError, KeyError, TypeError, ValueError, AttributeError):
            raise InputError("cannot be read as a table (its metadata is damaged)") from None
    return total


class _Thrift:
    """Reads structs of Thrift's compact protocol, in which the metadata of Parquet is written.

    A struct is returned as {number of the field: value}.
    """

    MAX_DEPTH = 16

    def __init__(self, data: mmap.mmap, at: int) -> None:
        if at < 0:
            raise ValueError
        self._data, self.at = data, at

    def struct(self, depth: int = 0) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > self.MAX_DEPTH:
            raise ValueError
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind in (7, 8):
            length = 8 if kind == 7 else self._varint()
            self.at += length
            if self.at > len(self._data):
                raise ValueError
            return self._data[self.at - length : self.at]
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128 and shift < 63:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


def _arrow(path: str, needed: Sequence[str], columns: Sequence[str]) -> Iterator[Any]:
    """Read the file as the stream of messages that lies between its two marks."""
    pyarrow, ipc = need("pyarrow", _REMEDY), need("pyarrow.ipc", _REMEDY)
    with open(path, "rb") as file:
        content = pyarrow.py_buffer(file.read())
    if content[:6].to_pybytes() != b"ARROW1":
        raise pyarrow.ArrowInvalid("Not an Arrow file")
    for message in ipc.MessageReader.open_stream(content[8:]):
        if _is_compressed(message):
            raise InputError("has compressed columns", remedy="save it without compression")
    with ipc.open_stream(content[8:]) as stream:
        used = _used(stream.schema, needed, columns)
        rows = 0
        for batch in stream:
            rows += batch.num_rows
            _check_rows(rows, content.size)
            yield batch.select(used)


def _is_compressed(message: Any) -> bool:
    """Return whether a record batch, or one of a dictionary, names a compression.

    That is a field of the flatbuffer of the message, which pyarrow does not tell.
    """
    data = message.metadata.to_pybytes()

    def follow(table: int, field: int) -> int | None:
        vtable = table - struct.unpack_from("<i", data, table)[0]
        size = struct.unpack_from("<H", data, vtable)[0]
        at = 4 + 2 * field
        offset = struct.unpack_from("<H", data, vtable + at)[0] if at < size else 0
        at = table + offset
        return at + struct.unpack_from("<I", data, at)[0] if offset else None

    header = follow(struct.unpack_from("<I", data, 0)[0], 2)
    if header is not None and message.type == "dictionary":
        header = follow(header, 1)
    compressible = message.type in ("dictionary", "record batch")
    return compressible and header is not None and follow(header, 3) is not None


def _used(schema: Any, needed: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the columns that are used; they hold texts or plain numbers."""
    missing = [name for name in needed if name not in schema.names]
    if missing:
        problem = f"no column {', '.join(missing)}"
        remedy = f"the required columns are {', '.join(needed)}"
        raise InputError(problem, field=missing[0], remedy=remedy)
    used = [name for name in schema.names if name in columns]
    if len(set(used)) < len(used):
        raise InputError("two columns have the same name", field=max(used, key=used.count))
    types = need("pyarrow.types", _REMEDY)
    for name in used:
        kind = schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        plain = (types.is_integer, types.is_floating, types.is_boolean, types.is_null, _is_text)
        if not any(check(kind) for check in plain):
            problem = f"column {name} holds {kind!s:.40}, not text or numbers"
            raise InputError(problem, field=name)
    return used


def _is_text(kind: Any) -> bool:
    types = need("pyarrow.types", _REMEDY)
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _check_rows(count: int, size: int) -> None:
    most = min(MAX_ROWS, max(ALWAYS_ROWS, size // BYTES_PER_ROW))
    if count > most:
        problem, remedy = f"has {count} rows, more than {most}", "split it, or save it as CSV"
        raise InputError(problem, value=count, remedy=remedy)


def _values(column: Any) -> list[Any]:
    if not hasattr(column, "dictionary"):
        return list(column.to_pylist())
    words = [*column.dictionary.to_pylist(), None]
    return [words[-1 if at is None else at] for at in column.indices.to_pylist()]


def table_bytes(columns: Mapping[str, Any], suffix: str) -> bytes:
    """Return named columns of equal length as a file with that ending; NaN becomes null."""
    if suffix == ".csv":
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)  # names hold \r
        rows.writerows([list(columns), *zip(*columns.values(), strict=True)])
        return text.getvalue().encode()
    pyarrow = need("pyarrow", _REMEDY)
    table = pyarrow.table(
        {name: pyarrow.array(values, from_pandas=True) for name, values in columns.items()}
    )
    stream = io.BytesIO()
    if suffix == ".parquet":
        need("pyarrow.parquet", _REMEDY).write_table(table, stream)
    else:
        with need("pyarrow.ipc", _REMEDY).new_file(stream, table.schema) as writer:
            writer.write_table(table)
    return stream.getvalue()
