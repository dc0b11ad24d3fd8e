"""``dejacue store``: many histories in a folder, and questions over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from dejacue.cli.bars import Bars
from dejacue.cli.tables import notes, say, say_written, show_tables
from dejacue.cluster import check_engine
from dejacue.errors import InputError
from dejacue.pipeline.options import EncoderOptions
from dejacue.pipeline.words import encoded_words
from dejacue.records import History
from dejacue.sources.documents import as_json
from dejacue.sources.files import read_history
from dejacue.store import Answer, Store

MOST_LISTED = 1000  # lines of a table


def create(path: Path, encoder: str | None, dtype: str) -> None:
    with Store.create(path, encoder=encoder, dtype=dtype) as store:
        say(f"made: {store.path}")


def add(
    path: Path, files: Sequence[Path], replace: bool, object: str | None, source: str | None
) -> None:
    with Store.open(path) as store, Bars() as bars:
        count = store.add(
            _histories(files), replace=replace, object=object, source=source, progress=bars
        )
    say(f"added: {_counted(count)}; {path} holds {_counted(len(Store.open(path)))}")


def _histories(files: Sequence[Path]) -> Iterator[History]:
    for own in files:
        found = sorted(own.glob("*.history.npz")) if own.is_dir() else [own]
        if not found:
            raise InputError(f"{own}: holds no .history.npz; give files, or a folder of them")
        yield from map(read_history, found)


def ls(path: Path, where: Sequence[str], jsonl: bool) -> None:
    with Store.open(path) as store:
        rows = store.rows(conditions(where))
        if jsonl:
            for own in rows:
                typer.echo(as_json(own._asdict()))
            return
        table = Table(title=escape(str(store)), title_justify="left")
        listed = list(islice(rows, MOST_LISTED))
        more = dict.fromkeys(name for own in listed for name in own.columns)
        for name in ("history", "object", "source", *map(escape, more)):
            table.add_column(name, overflow="fold")
        for name in ("frames", "runs", "from – to", "seconds"):
            table.add_column(name, justify="right", no_wrap=True)
        for own in listed:
            texts = (own.id, own.object, own.source, *map(own.columns.get, more))
            names = (escape(text or "") for text in texts)
            span = f"{own.start} – {own.end}"
            table.add_row(*names, str(own.frames), str(own.runs), span, _seconds(own.times_s))
        show_tables(table)
        if next(rows, None) is not None:
            notes(f"the first {MOST_LISTED} are listed; --where chooses, --jsonl lists all")


def failures(path: Path, jsonl: bool) -> None:
    with Store.open(path) as store:
        found = store.failures()
    if jsonl:
        for own in found:
            typer.echo(as_json(own._asdict()))
        return
    for own in found:
        say(f"{own.id}: {own.what}")
    if not found:
        say("nothing has failed")


def show(path: Path, id: str) -> None:
    with Store.open(path) as store:
        history = store[id]
        runs = ", ".join(f"{run.start} – {run.end}" for run in history.runs()[:10])
        more = ", …" if len(history.runs()) > 10 else ""
        say(repr(history).strip("<>"))
        say(f"frames: {runs}{more}")
        for name, text in (history.made_with or {}).items():
            say(f"{name}: {text}")


def rm(path: Path, ids: Sequence[str]) -> None:
    with Store.open(path) as store:
        count = store.remove(ids)
        say(f"removed: {_counted(count)}; dejacue store compact {path} frees their bytes")


def verify(path: Path) -> None:
    with Store.open(path) as store:
        with Bars() as bars:
            problems = store.verify(bars)
        for problem in problems:
            say(f"{path}: {problem}")
        if problems:
            raise typer.Exit(1)
        say(f"all is well: {_counted(len(store))}")


def compact(path: Path) -> None:
    with Store.open(path) as store:
        say(f"freed: {store.compact() / 1e6:.1f} MB")


def export(path: Path, output: str, kind: str | None, where: Sequence[str]) -> None:
    named = "parquet" if output.lower().endswith(".parquet") else "npz"
    with Store.open(path) as store, Bars() as bars:
        count = store.export(output, kind or named, where=conditions(where), progress=bars)
    say_written(output, f"{_counted(count)} in")


def ask(
    path: Path, vocabulary: Path, readout: str, top: int, where: Sequence[str], jsonl: bool,
    threads: int, engine: str, ray_address: str | None, encoder: str | None,
    options: EncoderOptions,
) -> None:  # fmt: skip
    check_engine(engine, ray_address)
    with Store.open(path) as store:
        first = next(iter(store.histories()), None)
        if first is None:
            raise InputError(f"{path}: is empty; add histories with dejacue store add {path}")
        encoded, warnings = encoded_words(vocabulary, first, encoder, options)
        with Bars() as bars:
            found = store.ask(
                encoded, readout=readout, top=top, where=conditions(where), threads=threads,
                engine=engine, ray_address=ray_address, progress=bars,
            )  # fmt: skip
            if jsonl:
                for answer in found:
                    columns = store.columns(answer.history)
                    typer.echo(as_json(answer._asdict() | {"columns": columns}))
            else:
                answers = list(found)
        if not jsonl:
            show_tables(_table(answers))
            warnings += tuple(dict.fromkeys(own.notes for own in answers if own.notes))
        notes(*warnings)


def _table(answers: Iterable[Answer]) -> Table:
    """A line between histories."""
    table = Table(title="the likeliest objects first", title_justify="left")
    table.add_column("", justify="right", no_wrap=True)
    for name in ("history", "source", "state"):
        table.add_column(name, overflow="fold")
    for name in ("frames", "seconds", "score", "object\nscore"):
        table.add_column(name, justify="right", no_wrap=True)
    last = None
    for own in answers:
        head = (str(own.rank), escape(own.history), escape(own.source or ""))
        span = f"{own.start} – {own.end}"
        cells: list[Any] = [f"not found ({span})" if own.absent else span, _seconds(own.times_s)]
        cells += [f"{own.score:.2f}", f"{own.object_score:.3f}"]
        if own.rank == last:
            head, cells[-1] = ("", "", ""), ""
        elif last is not None:
            table.add_section()
        table.add_row(*head, escape(own.state), *cells)
        last = own.rank
    return table


def conditions(texts: Sequence[str] | None) -> dict[str, str]:
    found = {}
    for text in texts or ():
        name, mark, pattern = text.partition("=")
        if not mark or not name.strip():
            raise InputError(f'--where "{text}": give NAME=PATTERN, as in --where source=kitchen*')
        found[name.strip()] = pattern
    return found


def _seconds(times_s: tuple[float, float] | None) -> str:
    return "" if times_s is None else "{:.2f} – {:.2f}".format(*times_s)


def _counted(count: int) -> str:
    return f"{count} {'history' if count == 1 else 'histories'}"
