"""What a notebook shows of a video that was searched: warnings, pictures, timeline."""

from __future__ import annotations

from collections.abc import Sequence

from dejacue.records import History, Retrieval
from dejacue.records._html import escaped, retrieval_html
from dejacue.report.page import Pictures
from dejacue.report.scene import data_url

MAX_PICTURES = 8


def finding_html(
    history: History,
    retrieval: Retrieval,
    *,
    thumbnails: Pictures = (),
    warnings: Sequence[str] = (),
) -> str:
    """The retrieval with its history; above it the warnings and some of the thumbnails."""
    parts = [f"<div>\N{WARNING SIGN} {escaped(warning)}</div>" for warning in warnings]
    step = -(-len(thumbnails) // MAX_PICTURES) or 1
    for frame, data in sorted(thumbnails, key=lambda thumbnail: thumbnail[0])[::step]:
        parts.append(
            f'<img alt="frame {frame}" title="frame {frame}" src="{data_url(frame, data)}" '
            'style="height:64px;margin:0 2px 2px 0;display:inline-block"/>'
        )
    return f"<div>{''.join(parts)}{retrieval_html(retrieval, history)}</div>"
