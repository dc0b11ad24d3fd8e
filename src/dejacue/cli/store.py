"""``dejacue ingest`` and ``dejacue store``: keep many histories in a file, and query them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

import dejacue
from dejacue.atomic import write_bytes
from dejacue.cli import options as o
from dejacue.cli.tables import (
    Bars,
    escape,
    make_table,
    notes,
    say,
    say_written,
    seconds,
    show_tables,
    span,
)
from dejacue.corpus.cluster import check_engine
from dejacue.errors import InputError, counted, shortened
from dejacue.files.documents import as_json

if TYPE_CHECKING:
    from dejacue.corpus import Match, Store
    from dejacue.records import History, Note

MAX_TABLE_ROWS = 1000
MAX_LISTED_PROBLEMS = 20  # all are in the store
NO_MATCH = "no history matches --where"
INGEST_SETTINGS = {
    "max_pixels": [],
    **o.ENCODER_SETTINGS,
    **o.DETECTOR_SETTINGS,
}

store = typer.Typer(
    help="A file of many histories, and queries over all of them.", no_args_is_help=True
)
StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="File of the store.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Names of histories.")]
Conditions = Annotated[
    list[str] | None,
    o.option(
        "Only histories that match NAME=PATTERN: id, object, source (kitchen*), or a name listed "
        "by ls ID.",
        "--where",
    ),
]
Jsonl = Annotated[bool, o.option("Print one JSON object per line.", "--jsonl")]


@o.takes("encoder", "tracker")
def ingest(
    manifest: Annotated[
        str, typer.Argument(help="Manifest of videos, masks and objects: a .csv or .jsonl file.")
    ],
    store: Annotated[Path, o.option("Store for the histories; created if missing.")],
    engine: o.Workers = "local",
    ray_address: o.RayAddress = None,
    actors: Annotated[
        int | None,
        o.option("Number of models on Ray (default: one per GPU; without GPUs, one per machine)."),
    ] = None,
    gpus_per_actor: Annotated[
        float | None,
        o.option("GPUs per model, or a fraction of one (default: 1 if there are any)."),
    ] = None,
    workers: o.Decoders = None,
    retry: Annotated[bool, o.option("Only retry what failed before.", "--retry")] = False,
    replace: o.ReplaceOther = False,
    root: Annotated[
        str | None,
        o.option("Folder or URL below which a fetched manifest may name files, beside its own."),
    ] = None,
    device: o.Device = None,
    settings: Annotated[o.Texts, o.setting(INGEST_SETTINGS)] = None,
    *,
    encoder: str | None,
    **models: Any,
) -> None:
    """Turn many videos into histories in a store; run it again to resume."""
    values = o.settings(settings, INGEST_SETTINGS)
    with Bars() as bars:
        ingested = dejacue.ingest(
            manifest,
            store,
            encoder=o.encoder_from(encoder, values, device),
            detector=values.get("detector"),
            engine=engine,
            workers=workers,
            retry=retry,
            replace=replace,
            root=root,
            max_pixels=values.get("max_pixels"),
            ray_address=ray_address,
            actors=actors,
            gpus_per_actor=gpus_per_actor,
            progress=bars,
            **models,
        )
    problems = [f"{id}: {text}" for id, texts in ingested.problems.items() for text in texts]
    notes(*problems[:MAX_LISTED_PROBLEMS])
    if (unlisted := len(problems) - MAX_LISTED_PROBLEMS) > 0:
        notes(f"and {unlisted} more problems: dejacue store ls {store} ID")
    notes(*(f"{failure.id}: {failure.what}" for failure in ingested.failed[:MAX_LISTED_PROBLEMS]))
    say(f"{store}: {ingested}")
    if ingested.failed:
        with dejacue.Store.open(store) as opened:
            recorded = {failure.id for failure in opened.failures()}
        if count := len(recorded & {failure.id for failure in ingested.failed}):
            listed = counted(count, "failure")
            say(f"dejacue store failures {store} lists {listed}; --retry tries again")
        raise typer.Exit(1)


@store.command()
def add(
    path: StorePath,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Histories (.npz), or folders of them; none: only create the store.",
        ),
    ] = None,
    replace: o.Replace = False,
    object: Annotated[str | None, o.option("Name of the object, such as cup.")] = None,
    source: Annotated[str | None, o.option("Source of the histories, such as kitchen.mp4.")] = None,
    encoder: Annotated[
        str | None,
        o.option("Of a new store: the encoder's identity (default: that of the first history)."),
    ] = None,
) -> None:
    """Add histories, with the pictures beside them: all of them, or none.

    The store is created if it is missing.
    """
    from dejacue.corpus import StoreExists

    must_be_new = not files or encoder is not None
    if must_be_new or not dejacue.Store.is_at(path):
        next(_histories(files or [], {}), None)  # what cannot be read is refused before that
        try:
            with dejacue.Store.create(path, encoder=encoder) as created:
                say(f"created: {created.path}")
        except StoreExists:  # another process was quicker
            if must_be_new:
                raise
    if not files:
        return
    pictures: dict[str, bytes] = {}
    with dejacue.Store.open(path) as opened, Bars() as bars:
        count = opened.add(
            _histories(files, pictures),
            replace=replace,
            object=object,
            source=source,
            thumbnails=pictures,
            progress=bars,
        )
        say(f"added: {counted(count, 'history')}; {path} holds {counted(len(opened), 'history')}")


def _histories(files: Sequence[Path], pictures: dict[str, bytes]) -> Iterator[History]:
    """Yield each history; add a picture from the files beside it to ``pictures``."""
    for path in files:
        histories = sorted(path.glob("*.history.npz")) if path.is_dir() else [path]
        if not histories:
            raise InputError(f"{path}: holds no .history.npz; give files, or a folder of them")
        for file in histories:
            history, picture = dejacue.files.read_history(file), _picture(file)
            if picture is not None:
                pictures[history.id] = picture
            yield history


def _picture(history: Path) -> bytes | None:
    """Return the picture of an export (ID.jpg), or one of a finding (ID.thumbnails.npz)."""
    from dejacue.files.findings import pictures_path, read_pictures

    exported = history.with_name(history.name.removesuffix(".history.npz") + ".jpg")
    if history.name.endswith(".history.npz") and exported.is_file():
        return exported.read_bytes()
    pictures = read_pictures(pictures_path(history))
    return None if pictures is None else pictures.middle


@store.command()
def ls(
    path: StorePath,
    id: Annotated[str | None, typer.Argument(help="Show the details of this history.")] = None,
    where: Conditions = None,
    jsonl: Jsonl = False,
    thumbnail: Annotated[
        Path | None, o.option("Write the thumbnail of the history to this file (.jpg).")
    ] = None,
) -> None:
    """List the histories, or show the details of one."""
    if id is not None and (where or jsonl):
        raise InputError("--where and --jsonl are for a list of histories; leave the id out")
    if id is None and thumbnail is not None:
        raise InputError("--thumbnail is for one history; give its id")
    with dejacue.Store.open(path) as opened:
        if id is not None:
            _show_history(opened, id, thumbnail)
            return
        rows = opened.rows(conditions(where))
        if jsonl:
            for row in rows:
                typer.echo(as_json(row._asdict()))
            return
        title = f"{opened.path}: {counted(len(opened), 'history')}, encoder {_encoder(opened)}"
        listed = list(islice(rows, MAX_TABLE_ROWS))
        columns = dict.fromkeys(name for row in listed for name in row.columns)
        numbers = (">frames", ">runs", ">from – to", ">at seconds", ">thumb-\nnail")
        table = make_table(title, ("history", "object", "source", *columns, *numbers))
        for row in listed:
            texts = (row.id, row.object, row.source, *map(row.columns.get, columns))
            frames = (str(row.frames), str(row.runs), f"{row.start} – {row.end}")
            times = (seconds(row.times_s), "yes" if row.thumbnail else "")
            table.add_row(*(escape(text or "") for text in texts), *frames, *times)
        show_tables(table)
        if not listed and where:
            notes(NO_MATCH)
        elif not listed:
            notes(f"the store is empty; add histories with dejacue store add {path}")
        if next(rows, None) is not None:
            notes(f"only the first {MAX_TABLE_ROWS} are listed; --where selects, --jsonl lists all")


def _show_history(store: Store, id: str, thumbnail: Path | None) -> None:
    history = store[id]
    runs = ", ".join(map(span, history.runs()[:10]))
    ellipsis = ", …" if len(history.runs()) > 10 else ""
    say(f"{id}: {counted(len(history), 'observed frame')} of {store.path}")
    for name, text in store.labels(id).items():
        if text is not None:
            say(f"{name}: {text}")
    say(f"frames: {runs}{ellipsis}")
    if history.times_s is not None:
        ends_s = history.times_s if history.ends_s is None else history.ends_s
        say(f"seconds: {seconds((float(history.times_s[0]), float(ends_s[-1])))}")
    say(f"encoder: {_encoder(store)}")
    for name, text in (history.made_with or {}).items():
        say(f"{name}: {text}")
    picture = store.thumbnail(id)
    if picture is not None:
        say(f"thumbnail: {len(picture) / 1000:.1f} kB")
    if thumbnail is not None:
        if picture is None:
            raise InputError(f'{store.path}: history "{shortened(id)}" has no thumbnail')
        say_written(write_bytes(thumbnail, picture))


def _encoder(store: Store) -> str:
    return f"{store.encoder or 'unnamed'}, {store.dimension or '?'} dimensions, {store.dtype.name}"


@store.command()
def failures(
    path: StorePath,
    ids: Ids = None,
    jsonl: Jsonl = False,
    clear: Annotated[
        bool, o.option("Clear the failures instead of listing them.", "--clear")
    ] = False,
) -> None:
    """List what ingest could not add, and why."""
    with dejacue.Store.open(path) as opened:
        recorded = opened.failures()
        unknown = set(ids or ()) - {failure.id for failure in recorded}
        if unknown:
            problem = f'has no failure "{shortened(min(unknown))}"'
            raise InputError(f"{path}: {problem}; dejacue store failures {path} lists them")
        chosen = [failure for failure in recorded if not ids or failure.id in ids]
        if clear:
            opened.record(settled=[failure.id for failure in chosen])
            say(f"cleared: {counted(len(chosen), 'failure')}")
            return
    for failure in chosen:
        if jsonl:
            typer.echo(as_json(failure._asdict()))
        else:
            say(f"{failure.id}: {failure.what}")
    if not chosen and not jsonl:
        say("no failures")


@store.command()
def rm(path: StorePath, ids: Ids = None, where: Conditions = None) -> None:
    """Remove histories, by name or with --where: all of them, or none."""
    if bool(ids) == bool(where):
        raise InputError("give either names of histories or --where NAME=PATTERN")
    with dejacue.Store.open(path) as opened:
        chosen = ids or opened.ids(conditions(where))
        if not chosen:
            raise InputError(f"{path}: {NO_MATCH}, so none was removed")
        count = opened.remove(chosen)
        say(f"removed: {counted(count, 'history')}; dejacue store compact {path} frees the space")


@store.command()
def verify(path: StorePath) -> None:
    """Read every byte and list damaged histories (then the exit code is 1)."""
    with dejacue.Store.open(path) as opened:
        with Bars() as bars:
            problems = opened.verify(bars)
        for problem in problems:
            say(f"{path}: {problem}")
        if problems:
            raise typer.Exit(1)
        say(f"no damage found: {counted(len(opened), 'history')}")


@store.command()
def compact(path: StorePath) -> None:
    """Free the space of removed or replaced histories."""
    with dejacue.Store.open(path) as opened:
        say(f"freed: {opened.compact() / 1e6:.1f} MB")


@store.command()
def export(
    path: StorePath,
    output: Annotated[str, o.output("A folder or a .parquet file; also s3://… and others.")],
    where: Conditions = None,
) -> None:
    """Export the histories as files for other tools."""
    with dejacue.Store.open(path) as opened, Bars() as bars:
        count = opened.export(output, where=conditions(where), progress=bars)
    say_written(output, f"{counted(count, 'history')} in")


@store.command()
@o.takes("like", "readout")
def query(
    path: StorePath,
    vocabulary: Annotated[
        Path | None,
        o.option(
            "Descriptions of each state: words (.yaml, .json) or features (.npz); optional with "
            "--like.",
            "--vocabulary",
            "-v",
        ),
    ] = None,
    top: Annotated[int, o.option("Number of histories to list; 0: all.")] = 10,
    where: Conditions = None,
    jsonl: Annotated[
        bool,
        o.option(
            "Print one JSON object per answer, one per line, as answers are found.", "--jsonl"
        ),
    ] = False,
    output: Annotated[
        Path | None, o.output("Write the answers to a .parquet, .csv, .jsonl or .json file.")
    ] = None,
    engine: o.Workers = "local",
    ray_address: o.RayAddress = None,
    encoder: Annotated[
        str | None,
        o.method_option("Encoder for the words (default: that of the store).", values=o.encoders),
    ] = None,
    device: o.Device = None,
    settings: o.EncoderSettings = None,
    *,
    like: list[Path] | None,
    readout: str,
) -> None:
    """Find these states in all histories, the likeliest objects first.

    Histories are ranked by the object score: the mean cosine of their frames
    with what all the words have in common. It is no probability. In a
    history, every occurrence of a state is listed, in time. How far to trust
    it is told where --top is not 0.
    """
    from dejacue.corpus import check_output
    from dejacue.finding._encode import mini_warning
    from dejacue.finding._readout import encoded_words
    from dejacue.finding.finding import check_teachers, read_teachers
    from dejacue.models.encoders import encoder_name, knows_no_words

    model = o.encoder_from(encoder, o.settings(settings, o.ENCODER_SETTINGS), device)
    if vocabulary is None and not like:
        raise InputError("give --vocabulary, --like or both")
    teachers = read_teachers(like or [])
    if top < 0:
        raise InputError(f"--top {top}: give a number of histories, or 0 for all")
    check_engine(engine, ray_address)
    if output is not None:
        if jsonl:
            raise InputError("--jsonl prints the answers and --output writes them; give one")
        check_output(output)
    as_table = not jsonl and output is None
    with dejacue.Store.open(path) as opened:
        first = next(opened.rows(), None)
        if first is None:
            raise InputError(f"{path}: is empty; add histories with dejacue store add {path}")
        origin = opened.origin(first.id)
        check_teachers(teachers, origin)
        if vocabulary is not None and vocabulary.suffix != ".npz":
            name = encoder or encoder_name(origin)
            if knows_no_words(name):
                remedy = "give findings in which you marked the states instead (--like)"
                raise InputError(f"{path}: is of {name}, which has no words; {remedy}")
        encoded = vocabulary and encoded_words(vocabulary, origin, model)
        words, unknown = encoded or (None, ())
        warnings: tuple[str, ...] = (*mini_warning(origin.encoder), *unknown)
        if as_table and min(len(opened), top or len(opened)) > MAX_TABLE_ROWS:
            top = MAX_TABLE_ROWS
            warnings += (
                f"only the first {top} histories are listed; --jsonl or --output gives all",
            )
        matches: list[Match] = []
        with Bars() as bars:
            answers = opened.query(
                words,
                like=teachers,
                readout=readout,
                top=top or None,
                trust=bool(top),
                where=conditions(where),
                engine=engine,
                ray_address=ray_address,
                progress=bars,
            )
            # lines and files are written while answers are computed; a table is shown at the end
            if jsonl:
                for row in answers.rows(warnings):
                    typer.echo(as_json({n: value for n, value in row.items() if value is not None}))
            elif output is not None:
                count = answers.write(output, warnings)
            else:
                matches = list(answers)
        if as_table:
            show_tables(_match_table(matches))
            warnings += () if matches or answers.meaningless else (NO_MATCH,)
        elif output is not None:
            say_written(output, f"{counted(count, 'answer')} in")
        notes(
            *warnings,
            *(text for match in matches for text in match.notes),
            *_no_answers(answers.meaningless),
        )


def _no_answers(meaningless: Mapping[str, Note]) -> list[Note]:
    """Return a note for each reason, which names its histories."""
    from dejacue.records import Note

    by_reason: dict[Note, list[str]] = {}
    for history, reason in meaningless.items():
        by_reason.setdefault(reason, []).append(history)
    found = []
    for reason, ids in by_reason.items():
        few = ", ".join(ids[:3]) + (", …" if ids[3:] else "")
        found.append(Note(f"{few} ({counted(len(ids), 'history')}): {reason}", "meaningless"))
    return found


def _match_table(matches: Iterable[Match]) -> Table:
    """Return a row per occurrence, with a line between histories."""
    columns = (">", "history", "source", "state", ">frames", ">seconds", "trust", ">object\nscore")
    table = make_table("likeliest objects first", columns)
    last_rank = None
    for match in matches:
        head = (str(match.rank), escape(match.history), escape(match.source or ""))
        interval = match.interval
        cells = [span(interval.window), seconds(interval.times_s), interval.trust or ""]
        cells.append(f"{match.object_score:.3f}")
        if match.rank == last_rank:
            head, cells[-1] = ("", "", ""), ""
        elif last_rank is not None:
            table.add_section()
        table.add_row(*head, escape(interval.state), *cells)
        last_rank = match.rank
    return table


def conditions(texts: Iterable[str] | None) -> dict[str, str]:
    return dict(o.pairs(texts, "--where", "NAME=PATTERN, as in --where source=kitchen*"))
