"""torch.compile: the same rows within the precision, only where it pays, never a reason to stop."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest
from helpers.small_models import crops, save_dinov2, save_siglip, torch

from dejacue import load_encoder
from dejacue.models.encoders import torch_models
from dejacue.models.encoders.siglip import TorchSiglip
from dejacue.models.encoders.torch_models import MIN_COMPILED_IMAGES, Tower

pytestmark = [
    pytest.mark.usefixtures("own_cache"),
    pytest.mark.filterwarnings("ignore"),
]  # what torch and transformers deprecate


@pytest.fixture
def compiled(monkeypatch) -> list[tuple[int, ...]]:
    """Return the sizes of what compiled functions take. They are traced as always, but no C++ is
    compiled, which takes a minute on a CPU (benchmarks/files.py does that on a GPU)."""
    shapes: list[tuple[int, ...]] = []
    real = torch.compile

    def watched(function, **options):
        traced = real(function, backend="aot_eager", **options)
        return lambda images: (shapes.append(tuple(images.shape)), traced(images))[1]

    monkeypatch.setattr(torch, "compile", watched)
    return shapes


@pytest.mark.long
def test_compiled_rows_are_those_of_the_model(tmp_path, compiled) -> None:
    folder = save_siglip(tmp_path / "siglip")
    plain, fast = (
        TorchSiglip(folder=folder, device="cpu", batch=4, compile=compile)
        for compile in (False, True)
    )
    images = crops(count=11)  # two full batches, and three more, which are filled up
    np.testing.assert_allclose(fast.encode_images(images), plain.encode_images(images), atol=1e-5)
    assert compiled == [(4, 32, 32, 3)] * 3
    np.testing.assert_allclose(
        fast.encode_images(images[:1]), plain.encode_images(images[:1]), atol=1e-5
    )
    assert len(compiled) == 3  # one image is not worth a batch
    assert plain.details == fast.details


def test_a_model_of_transformers_is_compiled_on_request(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: lambda images: function(images))
    name = f"hf:{save_dinov2(tmp_path / 'dino')}"
    plain, fast = (load_encoder(name, device="cpu", batch=3, compile=c) for c in (False, True))
    images = crops(count=5)
    assert fast._tower._compiled is None
    np.testing.assert_allclose(fast.encode_images(images), plain.encode_images(images), atol=1e-5)
    assert fast._tower._compiled is not None
    assert plain._tower._compiled is None


def test_a_compiler_that_fails_is_logged_and_not_tried_again(caplog, monkeypatch) -> None:
    tried = []

    def failing(function, **_):
        def run(images):
            tried.append(len(images))
            raise RuntimeError("no C compiler found\nset CC")

        return run

    monkeypatch.setattr(torch, "compile", failing)
    tower = Tower(lambda images: images + 1, 4, "cpu", True)
    with caplog.at_level(logging.WARNING, logger="dejacue"):
        for _ in range(3):
            assert tower(torch.zeros(4, 1)).tolist() == [[1.0]] * 4
    assert tried == [4]
    assert caplog.messages == ["torch.compile failed (no C compiler found); continuing without it"]


@pytest.mark.parametrize(
    ("device", "compile", "compiles"),
    [("cuda", None, True), ("cpu", None, False), ("cuda", False, False), ("cpu", True, True)],
)
def test_it_is_compiled_after_so_many_images_that_it_pays(
    monkeypatch, device, compile, compiles
) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: lambda images: function(images) * 2)
    monkeypatch.setattr(torch_models, "MIN_COMPILED_IMAGES", 40)
    assert MIN_COMPILED_IMAGES >= 100_000
    tower = Tower(lambda images: images, 8, device, compile)
    means = [float(tower(torch.ones(8, 1)).mean()) for _ in range(8)]
    before = 4 if compile is None else 0
    assert means == [1.0] * before + [2.0 if compiles else 1.0] * (8 - before)
    assert tower(torch.ones(3, 1)).tolist() == [[1.0]] * 3  # few are not filled up


def test_of_several_threads_one_compiles(monkeypatch) -> None:
    functions = []
    at_once = threading.Barrier(4)

    def compile(function, **_):
        functions.append(function)
        return function

    monkeypatch.setattr(torch, "compile", compile)
    tower = Tower(lambda images: images, 2, "cpu", True)

    def run() -> None:
        at_once.wait()
        tower(torch.ones(2, 1))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(functions) == 1
