"""SigLIP 2 through ONNX Runtime on the CPU: the base install needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dejacue.errors import InputError, first_line, lacks_memory, unknown
from dejacue.sources.encoders import siglip
from dejacue.sources.encoders.base import Crops, Encoder, Rows, in_batches, unit
from dejacue.sources.encoders.weights import Weights, commit, fetch, sha256

REPOSITORY = "onnx-community/siglip2-base-patch16-224-ONNX"
REVISION = "main"  # the latest: no revision is published that could be pinned
SUFFIX = {"fp32": "", "fp16": "_fp16"}
BATCH = 16


class OnnxSiglip(Encoder):
    """The public ONNX export of the same model. No revision and no hashes of it are published, so
    none are checked: the hashes of the files in use are recorded, and their commit where the hub's
    cache knows it. The tokenizer is the published one, and is checked."""

    name = "siglip2"

    def __init__(
        self, *, precision: str = "fp32", lower: bool = True, threads: int | None = None
    ) -> None:
        if precision not in SUFFIX:
            raise unknown("precision of the ONNX back end", precision, SUFFIX)
        towers = [f"onnx/{tower}_model{SUFFIX[precision]}.onnx" for tower in ("vision", "text")]
        export = Weights(REPOSITORY, REVISION, dict.fromkeys(towers))
        files, published = fetch(export, siglip.TOKENIZER)
        tokens = published["tokenizer.json"]
        self.identity = siglip.IDENTITY
        self._tokenizer = siglip.Tokenizer(tokens, lower=lower)
        self._vision, self._text = (session(files[name], threads) for name in towers)
        self.size = _last(self._vision.get_inputs(), "pixel_values", siglip.SIZE)
        self.dimension = _last(self._vision.get_outputs(), "pooler_output", siglip.DIMENSION)
        self.details = {
            "backend": "onnx", "precision": precision, "lower_case": str(lower),
            "export": f"{REPOSITORY}@{commit(files[towers[0]]) or 'unknown'}",
            **{f"sha256 {name}": sha256(path) for name, path in files.items()},
        }  # fmt: skip

    def encode_images(self, crops: Crops) -> Rows:
        def encode(some: Crops) -> Any:
            return run(self._vision, "pixel_values", siglip.pixels(some, self.size))

        return in_batches(encode, crops, BATCH)

    def encode_texts(self, texts: Sequence[str]) -> Rows:
        return unit(run(self._text, "input_ids", self._tokenizer(texts)), "text")


def session(path: Path | bytes, threads: int | None = None) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime has one kind of error per status
        if lacks_memory(error):
            raise
        name = "the embedded model" if isinstance(path, bytes) else path
        raise InputError(f"{name}: is not a usable ONNX model ({first_line(error)})") from None


def run(model: Any, name: str, values: Any) -> Any:
    """The pooled output for one input."""
    inputs = [one.name for one in model.get_inputs()]
    outputs = [one.name for one in model.get_outputs()]
    if name not in inputs:
        raise InputError(f"the ONNX model takes {', '.join(inputs)}, not {name}")
    wanted = "pooler_output" if "pooler_output" in outputs else outputs[0]
    kind = next(one.type for one in model.get_inputs() if one.name == name)
    if kind == "tensor(float16)":
        values = values.astype(np.float16)
    return model.run([wanted], {name: values})[0]


def _last(arrays: Any, name: str, default: int) -> int:
    """The last length of an input or output, where the file states it."""
    last = next((one.shape[-1] for one in arrays if one.name == name), default)
    return last if isinstance(last, int) else default
