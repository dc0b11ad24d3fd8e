"""The commands, in the panels of ``dejacue --help``.

A command is declared where it is written. These modules import what they need when a command
runs, or through the names of ``dejacue``, which do the same: so --help is quick.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from dejacue._version import __version__
from dejacue.cli import options as o
from dejacue.cli.convert import convert
from dejacue.cli.evaluate import evaluate
from dejacue.cli.find import demo, find
from dejacue.cli.info import info
from dejacue.cli.live import live
from dejacue.cli.store import ingest, store
from dejacue.cli.tables import say
from dejacue.cli.video import encode, track
from dejacue.cli.weights import weights
from dejacue.cli.words import words
from dejacue.errors import InputError
from dejacue.plugins import add_commands, check_installed


class Commands(typer.core.TyperGroup):
    """All commands; for one that is not installed, the error names its package, and for a video
    that stands before its command, what was meant."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None:
            check_installed("commands", args[0])
            command = next((word for word in args[1:] if self.get_command(ctx, word)), None)
            if command is not None or os.path.exists(args[0]):
                rest = list(args)
                if command is not None:
                    rest.remove(command)
                meant = shlex.join(["dejacue", command or "find", *rest])
                raise InputError(f'"{args[0]}" is no command; did you mean {meant}?')
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="dejacue",
    cls=Commands,
    help="When is an object in which state? Finds the frames in which each state holds.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"dejacue {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


@o.takes("encoder", "tracker")
def studio(
    places: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FOLDER|VIDEO]", help="What to open (default: the current folder)."
        ),
    ] = None,
    host: Annotated[
        str, o.option("Address to listen on; take care with any other than localhost.")
    ] = "127.0.0.1",
    port: Annotated[int, o.option("Port; 0 picks a free one.")] = 8765,
    no_browser: Annotated[bool, o.option("Do not open a browser.", "--no-browser")] = False,
    new_token: Annotated[
        bool, o.option("Make a new token; the address before no longer works.", "--new-token")
    ] = False,
    device: o.Device = None,
    settings: o.EncoderSettings = None,
    **models: Any,
) -> None:
    """Open a page to view, correct, compare and track videos and findings in a folder."""
    from dejacue.studio.serve import serve

    options = o.encoder_from(None, o.settings(settings, o.ENCODER_SETTINGS), device).options
    serve(
        places or [], host, port, not no_browser, say, new_token, encoder_options=options, **models
    )


EXAMPLES = {  # below the help of each; find has some in its text
    "studio": "videos/",
    "demo": "-o out/demo",
    "words": "cup.yaml out/kitchen",
    "track": "kitchen.mp4 --box 120,80,300,260@0 -o masks",
    "encode": "kitchen.mp4 --masks masks --object 1 -o kitchen.history.npz",
    "live": "camera:0 -v cup.yaml --box 120,80,300,260",
    "ingest": "videos.csv --store corpus.dejacue --workers 8",
    "store add": "corpus.dejacue out/kitchen --source kitchen.mp4",
    "store ls": "corpus.dejacue --where source=kitchen*",
    "store failures": "corpus.dejacue",
    "store rm": "corpus.dejacue cup",
    "store verify": "corpus.dejacue",
    "store compact": "corpus.dejacue",
    "store export": "corpus.dejacue -o corpus.parquet",
    "store query": "corpus.dejacue -v cup.yaml --top 10",
    "evaluate": "a.json b.json truth.json",
    "convert": "truth.eaf truth.json --times cup.mp4",
    "weights ls": "",
    "weights fetch": "siglip2",
    "weights check": "siglip2",
    "info": "",
}
START, VIDEOS, MANY = "Start here", "One video", "Many videos"
EVALUATION, MACHINE = "Evaluation", "This machine"
app.command(rich_help_panel=START)(find)
app.command(rich_help_panel=START)(studio)
app.command(rich_help_panel=START)(demo)
app.command(rich_help_panel=VIDEOS)(words)
app.command(rich_help_panel=VIDEOS)(track)
app.command(rich_help_panel=VIDEOS)(encode)
app.command(rich_help_panel=VIDEOS)(live)
app.command(rich_help_panel=MANY)(ingest)
app.add_typer(store, name="store", rich_help_panel=MANY)
app.command(rich_help_panel=EVALUATION)(evaluate)
app.command(rich_help_panel=EVALUATION)(convert)
app.add_typer(weights, name="weights", rich_help_panel=MACHINE)
app.command(rich_help_panel=MACHINE)(info)
add_commands(app)
