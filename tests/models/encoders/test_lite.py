"""``lite``: the weights that a package brings, read without executing them, and their rows."""

from __future__ import annotations

import hashlib
import os
import pickle
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused

from dejacue.errors import MissingExtra
from dejacue.models.encoders import lite

REQUIRED = bool(os.environ.get("DEJACUE_REQUIRE_DATA"))


@pytest.fixture(scope="module")
def weights_file() -> Path:
    if find_spec(lite.PACKAGE) is None:
        message = f"{lite.PACKAGE} is not installed; {lite.REMEDY}"
        pytest.fail(message) if REQUIRED else pytest.skip(message)
    return lite.weights_file()


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def reference(weights: lite.Weights, pixels: np.ndarray) -> np.ndarray:
    """Return the rows as torch computes them, batch normalisation and all."""
    torch = pytest.importorskip("torch")
    from torch.nn import functional

    tensors = {name: torch.from_numpy(values) for name, values in weights.items()}

    def convolve(x, layer, norm, stride=1, groups=1, clip=True):
        kernel = tensors[f"{layer}.weight"]
        outputs = -(-x.shape[-1] // stride)
        padding = max((outputs - 1) * stride + kernel.shape[-1] - x.shape[-1], 0)
        x = functional.pad(x, (padding // 2, padding - padding // 2) * 2)
        x = functional.conv2d(x, kernel, stride=stride, groups=groups)
        mean, variance, gain, bias = (
            tensors[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        x = functional.batch_norm(x, mean, variance, gain, bias, eps=lite.EPSILON)
        return functional.relu6(x) if clip else x

    with torch.no_grad():
        x = convolve(torch.from_numpy(pixels), "_conv_stem", "_bn0", 2)
        block = 0
        for _, first_stride, _, count in lite.STAGES:
            for repeat in range(count):
                name, before = f"_blocks.{block}", x
                if block:
                    x = convolve(x, f"{name}._expand_conv", f"{name}._bn0")
                stride = first_stride if repeat == 0 else 1
                x = convolve(x, f"{name}._depthwise_conv", f"{name}._bn1", stride, x.shape[1])
                x = convolve(x, f"{name}._project_conv", f"{name}._bn2", clip=False)
                x = x + before if x.shape == before.shape else x
                block += 1
        return convolve(x, "_conv_head", "_bn1").mean((2, 3)).numpy()


def test_rows_are_those_of_torch_and_the_model_is_written_once(weights_file, cache) -> None:
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (h, w, 3), np.uint8) for h, w in ((224, 224), (90, 400))]
    encoder = lite.Lite(threads=1)
    rows = encoder.encode_images(pictures)
    assert rows.shape == (2, encoder.dimension)
    weights = lite.read_weights(weights_file, lite.SHA256)
    expected = reference(weights, lite.pixels(pictures))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    before = lite.converted().stat().st_mtime_ns
    lite.Lite(threads=1)
    assert lite.converted().stat().st_mtime_ns == before


@pytest.mark.parametrize("damage", [b"", b"something else"])
def test_a_model_in_the_cache_that_was_changed_is_written_again(
    weights_file, cache, damage
) -> None:
    path = lite.converted()
    model = path.read_bytes()
    path.write_bytes(damage)
    assert lite.converted().read_bytes() == model
    path.with_suffix(".sha256").write_bytes(damage)
    assert lite.converted().read_bytes() == model
    assert path.with_suffix(".sha256").read_bytes() != damage


def test_it_has_no_words(weights_file, cache) -> None:
    encoder = lite.Lite(threads=1)
    assert not encoder.has_text
    with refused("lite has no words"):
        encoder.encode_texts(["a cup"])


def test_a_real_coffee_pot_is_called_one(weights_file, cache, footage) -> None:
    import av

    with av.open(str(footage / "clips" / "sam2_coffee.mp4")) as container:
        frame = next(container.decode(video=0)).to_ndarray(format="rgb24")
    height, width = frame.shape[:2]
    pot = np.ascontiguousarray(
        frame[int(0.38 * height) : int(0.9 * height), width // 3 : -width // 3]
    )
    weights = lite.read_weights(weights_file)
    model = lite.session(lite.converted(), 1)
    row = lite.run(model, "pixels", lite.pixels([pot]))[0]
    scores = row @ weights["_fc.weight"].T + weights["_fc.bias"]
    assert set(np.argsort(scores)[-5:].tolist()) & {505, 550, 849, 899}  # pots and jugs of ImageNet


def test_a_missing_package_is_one_sentence(monkeypatch) -> None:
    monkeypatch.setattr(lite, "PACKAGE", "no_such_package_at_all")
    with refused(lite.REMEDY, kind=MissingExtra):
        lite.weights_file()


def test_a_changed_or_cut_file_is_refused(weights_file, tmp_path) -> None:
    data = weights_file.read_bytes()
    changed = tmp_path / "weights.pth"
    changed.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with refused(changed):
        lite.read_weights(changed, lite.SHA256)
    changed.write_bytes(data[: len(data) // 2])
    with refused(changed):
        lite.read_weights(changed)
    changed.write_bytes(b"")
    with refused(changed):
        lite.read_weights(changed)


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


def test_nothing_in_a_file_is_executed(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "evil.pth"
    path.write_bytes(pickle.dumps(Evil()))
    with refused(path):
        lite.read_weights(path)
    assert not (tmp_path / "evil").exists()


def test_tensors_keep_their_strides_and_stay_inside_their_storage(tmp_path) -> None:
    torch = pytest.importorskip("torch")
    values = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    path = tmp_path / "some.pth"
    state = {"turned": values.permute(2, 0, 1), "part": values[1]}
    torch.save(state, path, _use_new_zipfile_serialization=False)
    read = lite.read_weights(path, hashlib.sha256(path.read_bytes()).hexdigest())
    np.testing.assert_array_equal(read["turned"], values.permute(2, 0, 1).numpy())
    np.testing.assert_array_equal(read["part"], values[1].numpy())
    storages = {"key": np.zeros(4, np.float32)}
    outside = lite.Tensor(("storage", "FloatStorage", "key", "cpu", 4, None), 0, (3, 3), (3, 1))
    with pytest.raises(ValueError, match="exceeds"):
        lite._laid_out(outside, storages)
