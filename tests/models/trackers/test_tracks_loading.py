"""Which tracker is taken."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from helpers.errors import refused

from dejacue import load_tracker
from dejacue.errors import MissingExtra, extra
from dejacue.models.trackers import default_tracker


def test_trackers_have_names() -> None:
    for name in ("sma2", "box", "light", "other:folder"):
        with refused("tracker", name):
            load_tracker(name)


@pytest.mark.parametrize(
    ("missing", "ready", "default"),
    [
        ((), ("sam2", "nano"), "sam2"),
        ((), ("edgetam", "nano"), "edgetam"),
        ((), ("nano",), "nano"),
        ((), (), "sam2"),  # of which the weights are asked for
        (("timm",), ("edgetam",), "sam2"),
        (("torch",), ("sam2", "nano"), "nano"),
        (("transformers", "cv2"), ("sam2", "nano"), None),
        (("torch",), (), None),
    ],
)
def test_the_default_is_the_first_that_is_ready(monkeypatch, missing, ready, default) -> None:
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name in missing else object()
    )
    monkeypatch.setattr(
        "dejacue.models.catalogue.model_named",
        lambda name: SimpleNamespace(state="ready" if name in ready else "absent"),
    )
    assert default_tracker() == default
    checked = []
    monkeypatch.setattr("dejacue.models.trackers.sam2.load", lambda name, **options: name)
    monkeypatch.setattr("dejacue.models.trackers.nano.load", lambda name: name)
    monkeypatch.setattr("dejacue.models.catalogue.check_models", lambda **names: checked.append(1))
    assert load_tracker() == (default or "sam2")
    assert len(checked) == (default is not None)


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
