"""Parquet and Arrow files as rows, and back; pyarrow does it."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dejacue.errors import InputError, first_line, named, need

SUFFIXES = (".parquet", ".arrow")
MAX_ROWS = 10_000_000
_REMEDY = "pip install pyarrow"


def is_table(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).lower().endswith(SUFFIXES)


def table_rows(path: str, needed: Sequence[str]) -> Iterator[tuple[named, dict[str, Any]]]:
    """Yield where each row stands, and its values that are not null, by column."""
    pyarrow = need("pyarrow", _REMEDY)
    try:
        if path.lower().endswith(".parquet"):
            file = need("pyarrow.parquet", _REMEDY).ParquetFile(path)
            count, names = file.metadata.num_rows, file.schema_arrow.names
            table = file.read() if count <= MAX_ROWS else None
        else:
            with pyarrow.OSFile(path) as stream:
                table = pyarrow.ipc.open_file(stream).read_all()
            count, names = table.num_rows, table.schema.names
        if table is None or count > MAX_ROWS:
            problem = f"has {count} rows, more than {MAX_ROWS}"
            raise InputError(problem, value=count, remedy="split it")
        missing = [name for name in needed if name not in names]
        if missing:
            problem = f"no column {', '.join(missing)}"
            remedy = f"the required columns are {', '.join(needed)}"
            raise InputError(problem, field=missing[0], remedy=remedy)
        table.validate(full=True)  # offsets of a damaged file lead anywhere
        rows = table.to_pylist()
    except FileNotFoundError:
        raise InputError("no such file") from None
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as a table ({first_line(error)})") from None
    for at, row in enumerate(rows, start=1):
        yield named(f"row {at}"), {name: value for name, value in row.items() if value is not None}


def table_bytes(columns: Mapping[str, Any], suffix: str) -> bytes:
    """Return named columns of equal length as a file with that ending; NaN becomes null."""
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
