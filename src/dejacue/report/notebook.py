"""What a notebook shows of a video that was searched: warnings, pictures, timeline."""

from __future__ import annotations

from collections.abc import Sequence

from dejacue.records import History, Timeline
from dejacue.records._html import escaped, timeline_html
from dejacue.report.page import Pictures
from dejacue.report.scene import data_url

MAX_PICTURES = 8


def finding_html(
    history: History,
    timeline: Timeline,
    *,
    thumbnails: Pictures = (),
    warnings: Sequence[str] = (),
) -> str:
    """Return the timeline with its history; above it the warnings and some of the thumbnails."""
    parts = [f"<div>\N{WARNING SIGN} {escaped(warning)}</div>" for warning in warnings]
    step = -(-len(thumbnails) // MAX_PICTURES) or 1
    for frame, data in sorted(thumbnails, key=lambda thumbnail: thumbnail[0])[::step]:
        parts.append(
            f'<img alt="frame {frame}" title="frame {frame}" src="{data_url(frame, data)}" '
            'style="height:64px;margin:0 2px 2px 0;display:inline-block"/>'
        )
    told = timeline.replace(notes=tuple(n for n in timeline.notes if n not in warnings))
    return f"<div>{''.join(parts)}{timeline_html(told, history)}</div>"
