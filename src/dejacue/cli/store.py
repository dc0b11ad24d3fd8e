"""``dejacue store``: many histories in a folder, and questions over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import typer
from rich.markup import escape
from rich.table import Table

from dejacue.cli.bars import Bars
from dejacue.cli.readouts import readout_named
from dejacue.cli.tables import notes, say, say_written, show_tables
from dejacue.cluster import check_engine
from dejacue.errors import InputError, counted, shortened
from dejacue.pipeline.options import EncoderOptions
from dejacue.pipeline.words import encoded_words
from dejacue.records import History
from dejacue.sources.atomic import write_bytes
from dejacue.sources.documents import as_json
from dejacue.sources.files import read_history
from dejacue.sources.findings import pictures_path, read_pictures
from dejacue.store import Match, Store, check_output

MOST_LISTED = 1000  # lines of a table
NONE = "no history matches --where"


def create(path: Path, encoder: str | None, dtype: str) -> None:
    with Store.create(path, encoder=encoder, dtype=dtype) as store:
        say(f"made: {store.path}")


def add(
    path: Path, files: Sequence[Path], replace: bool, object: str | None, source: str | None
) -> None:
    pictures: dict[str, bytes] = {}
    with Store.open(path) as store, Bars() as bars:
        count = store.add(
            _histories(files, pictures),
            replace=replace,
            object=object,
            source=source,
            thumbnails=pictures,
            progress=bars,
        )
    say(f"added: {_counted(count)}; {path} holds {_counted(len(Store.open(path)))}")


def _histories(files: Sequence[Path], pictures: dict[str, bytes]) -> Iterator[History]:
    """Each, and a picture of it from the files beside it, where there is one."""
    for own in files:
        found = sorted(own.glob("*.history.npz")) if own.is_dir() else [own]
        if not found:
            raise InputError(f"{own}: holds no .history.npz; give files, or a folder of them")
        for file in found:
            history, picture = read_history(file), _picture(file)
            if picture is not None:
                pictures[history.id] = picture
            yield history


def _picture(history: Path) -> bytes | None:
    """That of an export (ID.jpg), or one of those of a finding (ID.thumbnails.npz)."""
    exported = history.with_name(history.name.removesuffix(".history.npz") + ".jpg")
    if history.name.endswith(".history.npz") and exported.is_file():
        return exported.read_bytes()
    seen = read_pictures(pictures_path(history))
    return None if seen is None else seen.middle


def ls(path: Path, where: Sequence[str], jsonl: bool) -> None:
    with Store.open(path) as store:
        rows = store.rows(conditions(where))
        if jsonl:
            for own in rows:
                typer.echo(as_json(own._asdict()))
            return
        table = Table(title=escape(_about(store)), title_justify="left")
        listed = list(islice(rows, MOST_LISTED))
        more = dict.fromkeys(name for own in listed for name in own.columns)
        for name in ("history", "object", "source", *map(escape, more)):
            table.add_column(name, overflow="fold")
        for name in ("frames", "runs", "from – to", "at seconds", "thumb-\nnail"):
            table.add_column(name, justify="right", no_wrap=True)
        for own in listed:
            texts = (own.id, own.object, own.source, *map(own.columns.get, more))
            names = (escape(text or "") for text in texts)
            span = f"{own.start} – {own.end}"
            rest = (_seconds(own.times_s), "yes" if own.thumbnail else "")
            table.add_row(*names, str(own.frames), str(own.runs), span, *rest)
        show_tables(table)
        if not listed:
            notes(
                NONE
                if where
                else (f"the store is empty; add histories with dejacue store add {path}")
            )
        if next(rows, None) is not None:
            notes(f"only the first {MOST_LISTED} are listed; --where selects, --jsonl lists all")


def failures(path: Path, ids: Sequence[str], jsonl: bool, clear: bool) -> None:
    with Store.open(path) as store:
        found = store.failures()
        strange = set(ids) - {own.id for own in found}
        if strange:
            raise InputError(
                f'{path}: has no failure "{shortened(min(strange))}"; dejacue store failures '
                f"{path} lists them"
            )
        found = [own for own in found if not ids or own.id in ids]
        if clear:
            store.record(settled=[own.id for own in found])
            say(f"cleared: {counted(len(found), 'failure')}")
            return
    if jsonl:
        for own in found:
            typer.echo(as_json(own._asdict()))
        return
    for own in found:
        say(f"{own.id}: {own.what}")
    if not found:
        say("no failures")


def show(path: Path, id: str, thumbnail: Path | None) -> None:
    with Store.open(path) as store:
        history = store[id]
        runs = ", ".join(f"{run.start} – {run.end}" for run in history.runs()[:10])
        more = ", …" if len(history.runs()) > 10 else ""
        say(f"{id}: {counted(len(history), 'observed frame')} of {path}")
        for name, text in store.labels(id).items():
            if text is not None:
                say(f"{name}: {text}")
        say(f"frames: {runs}{more}")
        if history.times_s is not None:
            ends_s = history.times_s if history.ends_s is None else history.ends_s
            say(f"seconds: {_seconds((float(history.times_s[0]), float(ends_s[-1])))}")
        say(f"encoder: {history.encoder or 'unnamed'}, {_kind(store)}")
        for name, text in (history.made_with or {}).items():
            say(f"{name}: {text}")
        picture = store.thumbnail(id)
        if picture is not None:
            say(f"thumbnail: {len(picture) / 1000:.1f} kB")
        if thumbnail is not None:
            if picture is None:
                raise InputError(f'{path}: history "{shortened(id)}" has no thumbnail')
            say_written(write_bytes(thumbnail, picture))


def rm(path: Path, ids: Sequence[str], where: Sequence[str]) -> None:
    if bool(ids) == bool(where):
        raise InputError("give either names of histories or --where NAME=PATTERN")
    with Store.open(path) as store:
        chosen = ids or store.ids(conditions(where))
        if not chosen:
            raise InputError(f"{path}: {NONE}, so none was removed")
        count = store.remove(chosen)
        say(f"removed: {_counted(count)}; dejacue store compact {path} frees the space")


def _about(store: Store) -> str:
    name = f"encoder {store.encoder or 'unnamed'}, {_kind(store)}"
    return f"{store.path}: {_counted(len(store))}, {name}"


def _kind(store: Store) -> str:
    return f"{store.dimension or '?'} dimensions, {store.dtype.name}"


def verify(path: Path) -> None:
    with Store.open(path) as store:
        with Bars() as bars:
            problems = store.verify(bars)
        for problem in problems:
            say(f"{path}: {problem}")
        if problems:
            raise typer.Exit(1)
        say(f"no damage found: {_counted(len(store))}")


def compact(path: Path) -> None:
    with Store.open(path) as store:
        say(f"freed: {store.compact() / 1e6:.1f} MB")


def export(path: Path, output: str, kind: str | None, where: Sequence[str]) -> None:
    named = "parquet" if output.lower().endswith(".parquet") else "npz"
    with Store.open(path) as store, Bars() as bars:
        count = store.export(output, kind or named, where=conditions(where), progress=bars)
    say_written(output, f"{_counted(count)} in")


def ask(
    path: Path,
    vocabulary: Path,
    readout: str,
    top: int,
    where: Sequence[str],
    jsonl: bool,
    output: Path | None,
    threads: int,
    engine: str,
    ray_address: str | None,
    encoder: str | None,
    options: EncoderOptions,
) -> None:
    """Lines and files are written while answers are computed; a table is shown at the end."""
    if top < 0:
        raise InputError(f"--top {top}: give a number of histories, or 0 for all")
    check_engine(engine, ray_address)
    if output is not None:
        if jsonl:
            raise InputError("--jsonl prints the answers and --output writes them; give one")
        check_output(output)
    as_table = not jsonl and output is None
    with Store.open(path) as store:
        first = next(store.rows(), None)
        if first is None:
            raise InputError(f"{path}: is empty; add histories with dejacue store add {path}")
        encoded, warnings = encoded_words(vocabulary, store.origin(first.id), encoder, options)
        if as_table and min(len(store), top or len(store)) > MOST_LISTED:
            top = MOST_LISTED
            warnings += (
                f"only the first {top} histories are listed; --jsonl or --output gives all",
            )
        answers: list[Match] = []
        with Bars() as bars:
            found = store.ask(
                encoded,
                readout=readout_named(readout),
                top=top or None,
                where=conditions(where),
                threads=threads,
                engine=engine,
                ray_address=ray_address,
                progress=bars,
            )
            if jsonl:
                for row in found.rows(warnings):
                    typer.echo(as_json({n: value for n, value in row.items() if value is not None}))
            elif output is not None:
                count = found.write(output, warnings)
            else:
                answers = list(found)
        if as_table:
            show_tables(_table(answers))
            warnings += () if answers else (NONE,)
        elif output is not None:
            say_written(output, f"{count} {'answer' if count == 1 else 'answers'} in")
        notes(*warnings, *(text for match in answers for text in match.notes))


def _table(matches: Iterable[Match]) -> Table:
    """A line between histories."""
    table = Table(title="likeliest objects first", title_justify="left")
    table.add_column("", justify="right", no_wrap=True)
    for name in ("history", "source", "state"):
        table.add_column(name, overflow="fold")
    for name in ("frames", "seconds", "score", "object\nscore"):
        table.add_column(name, justify="right", no_wrap=True)
    last = None
    for match in matches:
        head = (str(match.rank), escape(match.history), escape(match.source or ""))
        interval = match.interval
        cells = [f"{interval.start} – {interval.end}", _seconds(interval.times_s)]
        cells += [f"{interval.score:.2f}", f"{match.object_score:.3f}"]
        if match.rank == last:
            head, cells[-1] = ("", "", ""), ""
        elif last is not None:
            table.add_section()
        table.add_row(*head, escape(interval.state), *cells)
        last = match.rank
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
