"""Packages of other projects that read what dejacue writes, or compute what it computes.

They are installed with the extra ``peers``, in an environment of their own: some of them want older
versions of packages that the rest of the tests use.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType

import pytest

PEER = (pytest.mark.long, pytest.mark.peers)  # the marks of a test that calls need()
WITH_TORCHVISION = ("open_clip", "timm", "torchvision")  # the first two import it


def need(module: str) -> ModuleType:
    """Import a module of a peer; without it skip the test, or fail under DEJACUE_REQUIRE_PEERS."""
    try:
        if module in WITH_TORCHVISION:
            _import_torchvision()
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        message = f"{error}; pip install 'dejacue[peers]'"
        if os.environ.get("DEJACUE_REQUIRE_PEERS"):
            pytest.fail(message)
        pytest.skip(message)


def _import_torchvision() -> None:
    """Import torchvision, also a build for CUDA beside a torch without it.

    The compiled operators of such a build do not load, and its import stops where it describes two
    of them. It goes on once these have a signature; no transform of images calls them.
    """
    torch = importlib.import_module("torch")
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "operator torchvision::nms does not exist" not in str(error):
            raise
        for name in ("nms", "qnms"):
            signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", signature)
        importlib.import_module("torchvision")
