"""What ``dejacue locate`` writes: the report with all its formats, the picture, JSON and CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dejacue.cli import encoding
from dejacue.cli.settings import Settings
from dejacue.cli.tables import note
from dejacue.errors import DejaCueError, MissingExtra
from dejacue.method.locate import evidence
from dejacue.method.states import Steady
from dejacue.records import History, Retrieval, Vocabulary, Window
from dejacue.report.exports import EXPORTS
from dejacue.sources.atomic import write_bytes, write_text

References = Mapping[str, Sequence[Window]]


def write_report(
    folder: Path, history: History, vocabulary: Vocabulary, retrieval: Retrieval,
    settings: Settings, references: References | None, pictures: Mapping[int, bytes],
    footage: encoding.Footage | None,
) -> None:  # fmt: skip
    """Everything a reader or another tool may want, in one folder."""
    from dejacue.report.page import report_page

    video = None if footage is None else str(footage.video)
    page = report_page(
        history, _seen(history, vocabulary, settings), retrieval, references=references,
        thumbnails=list(pictures.items()), video=video, object=vocabulary.object,
        doubts=[] if footage is None else footage.doubts(history),
        tracker=None if footage is None else footage.followed,
    )  # fmt: skip
    write_text(folder / "report.html", page)
    write_plot(folder / "evidence.png", history, vocabulary, retrieval, settings, references)
    for clip in (folder / "clips").glob("[0-9][0-9]-*.mp4"):  # of an earlier run
        clip.unlink()
    paths = {} if video is None else {history.id: video}
    for export in EXPORTS.values():
        path = folder / f"retrieval{export.suffix}"
        path.unlink(missing_ok=True)
        if export.timed and history.times_s is None:
            continue
        try:
            data = export(retrieval, history, videos=paths if export.opens else None)
        except MissingExtra:
            continue
        except DejaCueError as error:
            note(f"no {export.suffix}: {error}")
            continue
        write_bytes(path, data)


def write_plot(
    path: Path, history: History, vocabulary: Vocabulary, retrieval: Retrieval,
    settings: Settings, references: References | None,
) -> None:  # fmt: skip
    from dejacue.report.plots import evidence_figure, save_png

    save_png(
        path, evidence_figure(history, _seen(history, vocabulary, settings), retrieval, references)
    )


def _seen(history: History, vocabulary: Vocabulary, settings: Settings) -> Any:
    return evidence(
        history, vocabulary, coordinates=settings.coordinates,
        readout=settings.readout if isinstance(settings.readout, Steady) else "scan",
        smoothing=settings.smoothing, engine=settings.engine,
    )  # fmt: skip
