"""A finding as a widget of a notebook: the timeline of the report, to look at and to edit."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from dejacue.errors import extra, need
from dejacue.report.scene import timeline_module

if TYPE_CHECKING:
    from dejacue.pipeline.finding import Finding, References


def widget(
    finding: Finding,
    *,
    editable: bool = True,
    clock: str = "seconds",
    references: References | None = None,
    segments: bool = True,
) -> Any:
    """Return the timeline of a finding for a notebook (Jupyter, VS Code, Colab).

    What is done in it can be observed as traits of the widget:
    frame        where the playhead is; setting it moves it
    selection    the selected window: state, index, start, end, …; None without one
    windows      of every row, once one was edited: {"state", "description", "windows": [[0, 9], …]}
    scene        what is drawn; set it to ``other.scene()`` to draw another finding

    editable   whether windows can be moved, added and deleted; the finding itself stays as it is
    clock      what the axis counts: "seconds" (where they are known), "frames" or "source"
    segments   whether edges snap to stretches of frames that look alike
    """
    options = {"editable": editable, "clock": clock}
    widget_class = _widget_class()
    scene = finding.scene(references=references, segments=segments)
    return widget_class(scene=scene, options=options, frame=scene["axis"]["first"])


@functools.cache
def _widget_class() -> Any:
    anywidget = need("anywidget", extra("notebook"))
    import traitlets

    class TimelineWidget(anywidget.AnyWidget):  # type: ignore[misc, name-defined]
        _esm = timeline_module()
        scene = traitlets.Dict().tag(sync=True)
        options = traitlets.Dict().tag(sync=True)
        frame = traitlets.Int().tag(sync=True)
        selection = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
        windows = traitlets.List().tag(sync=True)

    return TimelineWidget
