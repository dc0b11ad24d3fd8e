"""The timeline in a real browser: it draws, zooms, pans, edits, and can be used without a mouse."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_nothing_is_wrong_for_assistive_tools(stage, axe, rich, width, scheme) -> None:
    page = stage(rich, {"editable": True, "segments": True}, width, scheme)
    page.press("n")
    assert axe(page.page) == []
