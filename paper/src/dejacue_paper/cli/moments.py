"""``dejacue moments``: answers and references as QVHighlights and ActivityNet have them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import dejacue
from dejacue.cli import options as o
from dejacue.cli.convert import check_suffix
from dejacue.cli.tables import say
from dejacue.errors import counted

moments = typer.Typer(
    help="Write answers for, and convert references of, QVHighlights and ActivityNet.",
    no_args_is_help=True,
)
Output = Annotated[Path, o.output("Output: .qvhighlights.jsonl or .activitynet.json.")]


@moments.command()
def answers(
    findings: Annotated[
        list[Path],
        typer.Argument(metavar="FINDINGS...", help="Folders of findings, or files of timelines."),
    ],
    output: Output,
) -> None:
    """Write what was found as predictions of a benchmark."""
    from dejacue_paper.data.moments import write_answers

    o.check_not_read(output, *findings)
    timelines, histories = [], []
    for path in findings:
        if path.is_dir():
            finding = dejacue.Finding.read(path)
            timelines.append(finding.timeline)
            histories.append(finding.history)
        else:
            timelines += dejacue.files.read_timelines(path)
    say(
        f"answers for {counted(len(timelines), 'object')}: "
        f"{write_answers(output, timelines, histories)}"
    )


@moments.command()
def references(
    path: Annotated[Path, typer.Argument(metavar="IN", help="A file of references.")],
    output: Annotated[
        Path, typer.Argument(metavar="OUT", help="Output file; its suffix sets the format.")
    ],
    times: o.Times = None,
) -> None:
    """Convert references from or to the format of a benchmark."""
    from dejacue_paper.data.moments import benchmark_in, benchmark_of, read_moments, write_moments

    o.check_not_read(output, path)
    to_benchmark = benchmark_of(output) is not None
    if not to_benchmark:
        check_suffix(output)
    files = dejacue.files
    records = (read_moments if benchmark_in(path) else files.read_references)(path, times=times)
    write = write_moments if to_benchmark else files.write_references
    say(f"references of {counted(len(records), 'object')}: {write(output, records, times=times)}")
