"""A notebook shows the timeline as a widget."""

from __future__ import annotations

import json
import sys

import pytest
from helpers.errors import refused

from dejacue import Finding
from dejacue.errors import MissingExtra, extra
from dejacue.method.localization import analyse
from dejacue.report.scene import timeline_module, widget_class
from dejacue_paper import generate


@pytest.fixture
def finding() -> Finding:
    sample = generate(3)
    return Finding(sample.history, sample.vocabulary, analyse(sample.history, sample.vocabulary))


def test_without_anywidget_one_sentence_says_what_to_install(finding, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    widget_class.cache_clear()
    with refused(extra("notebook"), kind=MissingExtra):
        finding.widget()
    widget_class.cache_clear()


def test_a_widget_holds_the_scene_and_gives_back_what_is_done_in_it(finding) -> None:
    pytest.importorskip("anywidget", reason="no anywidget: pip install 'dejacue[dev]'")
    widget = finding.widget(editable=False, clock="frames")
    assert widget.scene == finding.scene(segments=True)
    assert widget.options == {"editable": False, "clock": "frames"}
    assert widget._esm == timeline_module()
    sent = widget.get_state()
    json.dumps({name: sent[name] for name in ("scene", "options", "frame", "selection", "windows")})
    seen = []
    widget.observe(lambda change: seen.append((change["name"], change["new"])))
    widget.set_state(
        {"frame": 12, "windows": [{"state": "a", "windows": [[3, 9]]}]}
    )  # as a page does
    assert ("frame", 12) in seen
    assert widget.windows[0]["windows"] == [[3, 9]]
    widget.scene = finding.correct({next(iter(finding.vocabulary.states)): 5}).scene()
    assert widget.scene["named"] != []


def test_what_a_notebook_shows_by_itself_stays_still(finding) -> None:
    assert "<script" not in finding._repr_html_()
