"""SigLIP 2 through ONNX Runtime on the CPU: the base install needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dejacue.errors import InputError, first_line, lacks_memory, unknown
from dejacue.records.words import Spelling
from dejacue.sources.encoders import siglip
from dejacue.sources.encoders.base import CPU_PACE, Crops, Encoder, Rows, in_batches, unit
from dejacue.sources.encoders.weights import Weights, commit, fetch, sha256

REPOSITORY = "onnx-community/siglip2-base-patch16-224-ONNX"
REVISION = "main"  # the latest: no revision is published that could be pinned
SUFFIX = {"fp32": "", "fp16": "_fp16", "int8": "_int8"}  # of the hub's files
BATCH = 16  # of 1, 4 and 16 the best with two threads (benchmarks/cpu.py)
LOOKS = 8  # images, and texts, by which two precisions are compared


class OnnxSiglip(Encoder):
    """The public ONNX export of the same model. No revision and no hashes of it are published, so
    none are checked: the hashes of the files in use are recorded, and their commit where the hub's
    cache knows it. The tokenizer is the published one, and is checked."""

    name = "siglip2"
    pace, batch = CPU_PACE, BATCH

    def __init__(
        self, *, precision: str = "fp32", lower: bool = True, threads: int | None = None
    ) -> None:
        export = export_of(precision)
        towers = list(export.files)
        files = fetch(export, siglip.TOKENIZER)
        tokens = files.pop("tokenizer.json")
        # rows of another precision are near those of fp32, not the same: they are not mixed
        self.identity = siglip.IDENTITY + ("" if precision == "fp32" else f":{precision}")
        self.name = "siglip2" if precision == "fp32" else f"siglip2:{precision}"
        self._tokenizer = siglip.Tokenizer(tokens, lower=lower)
        self._vision, self._text = (session(files[name], threads) for name in towers)
        self.size = _last(self._vision.get_inputs(), "pixel_values", siglip.SIZE)
        self.dimension = _last(self._vision.get_outputs(), "pooler_output", siglip.DIMENSION)
        self.details = {
            "backend": "onnx",
            "precision": precision,
            "lower_case": str(lower),
            "export": f"{REPOSITORY}@{commit(files[towers[0]]) or 'unknown'}, not checked",
            **{f"sha256 {name}": sha256(path) for name, path in files.items()},
        }

    def encode_images(self, crops: Crops) -> Rows:
        def encode(some: Crops) -> Any:
            return run(self._vision, "pixel_values", siglip.pixels(some, self.size))

        return in_batches(encode, crops, BATCH)

    def encode_texts(self, texts: Sequence[str]) -> Rows:
        return unit(run(self._text, "input_ids", self._tokenizer(texts)), "text")

    def spelling(self, text: str) -> Spelling:
        return self._tokenizer.spelling(text)


def export_of(precision: str = "fp32") -> Weights:
    """The files of a precision: of images, then of words."""
    if precision not in SUFFIX:
        raise unknown("precision of the ONNX back end", precision, SUFFIX)
    names = [f"onnx/{tower}_model{SUFFIX[precision]}.onnx" for tower in ("vision", "text")]
    return Weights(REPOSITORY, REVISION, dict.fromkeys(names))


def cosines(precision: str) -> tuple[float, float]:
    """How near the rows of a precision are to those of fp32: the least cosine of some images
    (coarse noise, always the same), and of some texts."""
    rng = np.random.default_rng(0)
    images = [
        np.kron(rng.integers(0, 256, (7, 7, 3)), np.ones((32, 32, 1))).astype(np.uint8)
        for _ in range(LOOKS)
    ]
    things = ("cup", "door", "banana", "drawer")
    texts = [f"{state} {thing}" for thing in things for state in ("an open", "a closed")]
    own, exact = OnnxSiglip(precision=precision), OnnxSiglip()
    seen = (exact.encode_images(images) * own.encode_images(images)).sum(axis=1)
    said = (exact.encode_texts(texts) * own.encode_texts(texts)).sum(axis=1)
    return float(seen.min()), float(said.min())


def session(path: Path | bytes, threads: int | None = None) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads or _threads()
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime has one kind of error per status
        if lacks_memory(error):
            raise
        name = "the bundled model" if isinstance(path, bytes) else path
        raise InputError(f"{name}: is not a usable ONNX model ({first_line(error)})") from None


def _threads() -> int:
    """0 leaves it to the runtime, which takes a thread a core: the best (benchmarks/cpu.py), unless
    this process may use only some of the cores; more threads than cores wait for each other."""
    ours = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    return ours if ours < (os.cpu_count() or 1) else 0


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
