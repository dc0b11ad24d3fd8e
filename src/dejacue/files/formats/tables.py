"""CSV, Parquet and Arrow files as rows, and back; pyarrow does the latter two.

A few kilobytes can hold gigabytes: one long text for millions of rows, or compressed zeros. So only
the columns that are used are decoded, a text that rows share is kept once, and how much a file may
hold depends on its size.
"""

from __future__ import annotations

import csv
import io
import operator
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from dejacue.errors import InputError, first_line, in_file, named, need
from dejacue.files.documents import check_keys, read_text

SUFFIXES = (".csv", ".parquet", ".arrow")
TEXT_COLUMNS = ("history", "state", "description", "component", "notes")  # with their blanks
_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # how a formula begins, also one in quotation marks
MAX_CSV_BYTES = 256 << 20
MAX_ROWS = 10_000_000
ALWAYS_ROWS, BYTES_PER_ROW = 100_000, 4  # more rows than these need as many bytes of the file
ALWAYS_DECODED_BYTES, MAX_PACKING = 64 << 20, 64  # and so do columns, decompressed
MAX_RATIOS = {"UNCOMPRESSED": 1, "SNAPPY": 22, "LZ4": 255, "GZIP": 1032, "ZSTD": 1 << 15}
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
            raise InputError(f"{problem}; {remedy}")
        if len(set(columns)) < len(columns):
            raise InputError("two columns have the same name")
        if allowed is not None:
            with in_file(path, 1):
                check_keys(columns, allowed)
        for cells in reader:
            if cells and len(cells) != len(columns):
                problem = f"{len(cells)} cells for {len(columns)} columns"
                raise InputError(f"line {reader.line_num}: {problem}")
            row = {
                column: _text(cell) if column in TEXT_COLUMNS else cell.strip()
                for column, cell in zip(columns, cells, strict=False)
                if cell
            }
            if cells:
                yield in_file(path, reader.line_num), row
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: not CSV ({error})") from None


def _text(cell: str) -> str:
    """Return the text that ``csv_text`` has written as this cell."""
    return cell[1:] if cell[0] == "'" and _FORMULA.match(cell) else cell


def _parquet(path: str, needed: Sequence[str], columns: Sequence[str]) -> Iterator[Any]:
    """Read row group by row group what cannot unpack to more than a file of this size may hold."""
    parquet = need("pyarrow.parquet", _REMEDY)
    schema = parquet.read_schema(path)
    used = _used(schema, needed, columns)
    texts = [name for name in used if _is_text(schema.field(name).type)]
    size = os.path.getsize(path)
    with (
        _Lockable(path) as stream,
        parquet.ParquetFile(stream, read_dictionary=texts, pre_buffer=False) as file,
    ):
        numbers = range(file.num_row_groups)
        groups = [file.metadata.row_group(number) for number in numbers]
        rows = [group.num_rows for group in groups]
        _check_rows(sum(rows), size)
        places = [at for at in range(len(file.schema)) if file.schema.column(at).path in used]
        for number in numbers:
            _check_columns(file, stream, number, used)
        chunks = [group.column(at) for group in groups for at in places]
        sizes = [chunk.total_compressed_size for chunk in chunks]
        if min([0, *rows, *sizes]) < 0 or sum(sizes) > size:
            raise InputError("cannot be read as a table (its metadata is damaged)")
        most = max(ALWAYS_DECODED_BYTES, MAX_PACKING * size)
        ratios = [MAX_RATIOS.get(chunk.compression, most) for chunk in chunks]
        decoded = sum(map(operator.mul, sizes, ratios))
        if decoded > most:
            problem = f"may unpack {size >> 10} kB to more than {most >> 20} MB"
            raise InputError(f"{problem}; save it with the compression snappy, or without")
        for number in numbers:
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=[number], columns=used):
                if batch.nbytes > most:
                    raise InputError(f"unpacks {size >> 10} kB to more than {most >> 20} MB")
                yield batch


class _Locked(Exception):
    """Nothing may be read now."""


class _Lockable(io.FileIO):
    """A file that can be locked against reading."""

    locked = False

    def read(self, size: int | None = -1) -> bytes | Any:
        if self.locked:
            raise _Locked
        return super().read(size)


def _check_columns(file: Any, stream: _Lockable, number: int, used: Sequence[str]) -> None:
    """Refuse a row group of which the metadata of a column is damaged.

    pyarrow ends the process when it is asked for that, but raises an error before it reads the
    column: so it is made to begin with each, and reads nothing.
    """
    stream.locked = True
    for name in used:
        with suppress(_Locked):
            next(file.iter_batches(1, row_groups=[number], columns=[name]), None)
    stream.locked = False


def _arrow(path: str, needed: Sequence[str], columns: Sequence[str]) -> Iterator[Any]:
    """Read the file as the stream of messages that lies between its two marks."""
    pyarrow, ipc = need("pyarrow", _REMEDY), need("pyarrow.ipc", _REMEDY)
    with open(path, "rb") as file:
        content = pyarrow.py_buffer(file.read())
    if content[:6].to_pybytes() != b"ARROW1":
        raise pyarrow.ArrowInvalid("Not an Arrow file")
    for message in ipc.MessageReader.open_stream(content[8:]):
        if _is_compressed(message):
            raise InputError("has compressed columns; save it without compression")
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
        raise InputError(f"{problem}; the required columns are {', '.join(needed)}")
    used = [name for name in schema.names if name in columns]
    if len(set(used)) < len(used):
        raise InputError("two columns have the same name")
    types = need("pyarrow.types", _REMEDY)
    for name in used:
        kind = schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        plain = (types.is_integer, types.is_floating, types.is_boolean, types.is_null, _is_text)
        if not any(check(kind) for check in plain):
            raise InputError(f"column {name} holds {kind!s:.40}, not text or numbers")
    return used


def _is_text(kind: Any) -> bool:
    types = need("pyarrow.types", _REMEDY)
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _check_rows(count: int, size: int) -> None:
    most = min(MAX_ROWS, max(ALWAYS_ROWS, size // BYTES_PER_ROW))
    if count > most:
        raise InputError(f"has {count} rows, more than {most}; split it, or save it as CSV")


def _values(column: Any) -> list[Any]:
    if not hasattr(column, "dictionary"):
        return list(column.to_pylist())
    used = column.indices.unique().drop_null()  # a dictionary can hold millions that no row names
    words = dict(zip(used.to_pylist(), column.dictionary.take(used).to_pylist(), strict=True))
    return [words.get(at) for at in column.indices.to_pylist()]


def as_cell(value: Any) -> Any:
    """Return a value as a cell of a CSV in which no spreadsheet finds a formula: text that begins
    like one gets a quotation mark in front, which ``table_rows`` takes away; NaN is empty."""
    if isinstance(value, str):
        return f"'{value}" if _FORMULA.match(value) else value
    return None if value != value else value


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as CSV, their values as ``as_cell`` gives them."""
    cells = [list(columns), *(list(map(as_cell, row)) for row in rows)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(cells)
    if "\r" in text.getvalue():  # in a name, which is not put in quotes for that
        text = io.StringIO()
        csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerows(cells)
    return text.getvalue()


def table_bytes(columns: Mapping[str, Any], suffix: str) -> bytes:
    """Return named columns of equal length as a file with that ending; NaN becomes null."""
    if suffix == ".csv":
        values = (v if isinstance(v, list) else v.tolist() for v in columns.values())
        return csv_text(list(columns), zip(*values, strict=True)).encode()
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
