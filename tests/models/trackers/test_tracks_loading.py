"""Which tracker is taken."""

from __future__ import annotations

import subprocess
import sys

import pytest
from helpers.errors import refused

from dejacue import load_tracker
from dejacue.errors import MissingExtra, extra
from dejacue.models.trackers import default_tracker


def test_trackers_have_names() -> None:
    for name in ("sma2", "box", "light", "other:folder"):
        with refused("tracker", name):
            load_tracker(name)


@pytest.mark.parametrize("missing", ["torch", "transformers", None])
def test_sam2_is_the_default_where_its_extra_is_installed(monkeypatch, missing) -> None:
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == missing else object()
    )
    assert default_tracker() == (None if missing else "sam2")
    checked = []
    monkeypatch.setattr("dejacue.models.trackers.sam2.load", lambda name, **options: name)
    monkeypatch.setattr("dejacue.models.catalogue.check_models", lambda **names: checked.append(1))
    assert load_tracker() == "sam2"
    assert len(checked) == (missing is None)


def test_without_its_extra_the_error_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "torch", None)
    with refused(extra("track"), kind=MissingExtra):
        load_tracker()


def test_the_default_is_known_without_heavy_imports() -> None:
    code = (
        "import sys; from dejacue.models.trackers import default_tracker; default_tracker(); "
        "print({'torch', 'transformers'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
