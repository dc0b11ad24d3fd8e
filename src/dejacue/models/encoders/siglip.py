"""SigLIP 2 as published (§6): through ONNX Runtime on the CPU, which the base install has, or
through torch and transformers (extra ``dejacue[torch]``).

Images are squashed to 224 × 224 (bilinear) and scaled to −1 … 1. Texts are lower-cased, as in the
model's training (the published features were made without; their descriptions have no capitals),
and always padded to 64 tokens: padding to the longest text gives other, much worse, features.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, first_line, lacks_memory, need, unknown
from dejacue.models.encoders.base import (
    CPU_MAX_FPS,
    Crops,
    Encoder,
    Rows,
    in_batches,
    spelled,
    unit,
)
from dejacue.models.encoders.preprocess import Preprocessing
from dejacue.models.encoders.torch_models import REMEDY, TorchEncoder, pooled
from dejacue.models.weights import Weights, commit, fetch, files_in, sha256
from dejacue.records.words import Spelling
from dejacue.video.crops import fit

REPOSITORY = "google/siglip2-base-patch16-224"
REVISION = "75de2d55ec2d0b4efc50b3e9ad70dba96a7b2fa2"
IDENTITY = f"{REPOSITORY}@{REVISION}"
SIZE, TOKENS, DIMENSION = 224, 64, 768
TOKENIZER_HASH = "cb9140fae3ac5122c972d37adf83e1248471a38147ad76f8215c8872c6fd8322"
TOKENIZER = Weights(REPOSITORY, REVISION, {"tokenizer.json": TOKENIZER_HASH})
TORCH_FILES: dict[str, str | None] = {
    "config.json": "fe8b5fe6d5734360678fd71c11c21e1ea3364bd8598d34295d9206335973ffd7",
    "model.safetensors": "612923381c76ec5a9bed335d1c48827e3f2e506ac31b044b63b2031fadee6a0b",
    "tokenizer.json": TOKENIZER_HASH,
}
TORCH_BATCH = 256
ONNX_REPOSITORY = "onnx-community/siglip2-base-patch16-224-ONNX"
ONNX_REVISION = "main"  # the latest: no revision is published that could be pinned
ONNX_SUFFIX = {"fp32": "", "fp16": "_fp16", "int8": "_int8"}  # of the hub's files
ONNX_BATCH = 16  # of 1, 4 and 16 the best with two threads (benchmarks/cpu.py)
COMPARED_IMAGES = 8  # and as many texts, by which two precisions are compared


def pixels(crops: Crops, size: int = SIZE) -> NDArray[np.float32]:
    """Return (n, 3, size, size): squashed, 0 … 255 → −1 … 1."""
    rows = np.stack([fit(crop, size) for crop in crops]).astype(np.float32)
    rows *= 1 / 127.5
    rows -= 1
    return np.ascontiguousarray(rows.transpose(0, 3, 1, 2))


class Tokenizer:
    """Turns texts into (n, 64) token ids: an end mark, then 0 as padding; no attention mask."""

    def __init__(self, path: Path, *, lower: bool = True, length: int = TOKENS) -> None:
        import tokenizers

        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain exceptions
            raise InputError(f"{path}: is not a tokenizer file ({first_line(error)})") from None
        self._tokenizer.enable_truncation(length)
        pad = self._tokenizer.token_to_id("<pad>")
        self._tokenizer.enable_padding(length=length, pad_id=pad or 0, pad_token="<pad>")
        self.lower = lower

    def __call__(self, texts: Sequence[str]) -> NDArray[np.int64]:
        texts = [text.lower() if self.lower else text for text in texts]
        return np.array([e.ids for e in self._tokenizer.encode_batch(texts)], dtype=np.int64)

    def spelling(self, text: str) -> Spelling:
        text = text.lower() if self.lower else text
        return spelled(text, self._tokenizer.encode(text))


class OnnxSiglip(Encoder):
    """Runs the public ONNX export of the same model. No revision and no hashes of it are published,
    so none are checked: the hashes of the files in use are recorded, and their commit where the
    hub's cache knows it. The tokenizer is the published one, and is checked."""

    max_fps, batch = CPU_MAX_FPS, ONNX_BATCH

    def __init__(
        self, *, precision: str = "fp32", lower: bool = True, threads: int | None = None
    ) -> None:
        export = onnx_export(precision)
        towers = list(export.files)
        files = fetch(export, TOKENIZER)
        tokens = files.pop("tokenizer.json")
        # rows of another precision are near those of fp32, not the same: they are not mixed
        variant = "" if precision == "fp32" else f":{precision}"
        self.name, self.identity = f"siglip2{variant}", f"{IDENTITY}{variant}"
        self._tokenizer = Tokenizer(tokens, lower=lower)
        self._vision, self._text = (session(files[name], threads) for name in towers)
        self.size = _last(self._vision.get_inputs(), "pixel_values", SIZE)
        self.dimension = _last(self._vision.get_outputs(), "pooler_output", DIMENSION)
        self.details = {
            "backend": "onnx",
            "precision": precision,
            "lower_case": str(lower),
            "export": f"{ONNX_REPOSITORY}@{commit(files[towers[0]]) or 'unknown'}, not checked",
            **{f"sha256 {name}": sha256(path) for name, path in files.items()},
        }

    def encode_images(self, crops: Crops) -> Rows:
        def encode(batch: Crops) -> Any:
            return run(self._vision, "pixel_values", pixels(batch, self.size))

        return in_batches(encode, crops, ONNX_BATCH)

    def encode_texts(self, texts: Sequence[str]) -> Rows:
        return unit(run(self._text, "input_ids", self._tokenizer(texts)), "text")

    def spelling(self, text: str) -> Spelling:
        return self._tokenizer.spelling(text)


class TorchSiglip(TorchEncoder):
    """Runs the published model and revision with transformers.

    folder   a folder that holds the files, instead of the published ones
    """

    def __init__(
        self,
        *,
        device: str | None = None,
        precision: str | None = None,
        lower: bool = True,
        folder: Path | None = None,
        batch: int = TORCH_BATCH,
    ) -> None:
        transformers = need("transformers", REMEDY)
        super().__init__("siglip2", device, precision, batch)
        published = Weights(REPOSITORY, REVISION, TORCH_FILES)
        files = fetch(published) if folder is None else files_in(folder, TORCH_FILES)
        model = transformers.SiglipModel.from_pretrained(
            files["config.json"].parent, dtype=self._dtype, local_files_only=True
        )
        size = int(model.config.vision_config.image_size)
        self.place(model, Preprocessing(size, size, True, "bilinear", (0.5,) * 3, (0.5,) * 3))
        self._tokenizer = Tokenizer(files["tokenizer.json"], lower=lower)
        self.dimension = int(model.config.vision_config.hidden_size)
        self.identity = IDENTITY if folder is None else f"siglip:{folder.name}"
        self.details = {
            "backend": "torch",
            "precision": self.precision,
            "lower_case": str(lower),
            "sha256 model.safetensors": sha256(files["model.safetensors"]),
        }

    def _rows_of_bytes(self, images: Any) -> Any:
        # channels stay last in memory, which is faster for the convolution
        return self.image_rows((images.permute(0, 3, 1, 2).float() / 127.5 - 1).to(self._dtype))

    def image_rows(self, images: Any) -> Any:
        return pooled(self._model.get_image_features(pixel_values=images))

    def text_rows(self, texts: Sequence[str]) -> Any:
        torch = need("torch", REMEDY)
        ids = torch.from_numpy(self._tokenizer(texts)).to(self.device)
        return pooled(self._model.get_text_features(input_ids=ids))

    def spelling(self, text: str) -> Spelling:
        return self._tokenizer.spelling(text)


def onnx_export(precision: str = "fp32") -> Weights:
    """Return the files of a precision: of images, then of words."""
    if precision not in ONNX_SUFFIX:
        raise unknown("precision of the ONNX back end", precision, ONNX_SUFFIX)
    names = [f"onnx/{tower}_model{ONNX_SUFFIX[precision]}.onnx" for tower in ("vision", "text")]
    return Weights(ONNX_REPOSITORY, ONNX_REVISION, dict.fromkeys(names))


def cosines(precision: str) -> tuple[float, float]:
    """Return how near the rows of a precision are to those of fp32: the least cosine of some images
    (coarse noise, always the same), and of some texts."""
    rng = np.random.default_rng(0)
    images = [
        np.kron(rng.integers(0, 256, (7, 7, 3)), np.ones((32, 32, 1))).astype(np.uint8)
        for _ in range(COMPARED_IMAGES)
    ]
    things = ("cup", "door", "banana", "drawer")
    texts = [f"{state} {thing}" for thing in things for state in ("an open", "a closed")]
    encoder, exact = OnnxSiglip(precision=precision), OnnxSiglip()
    of_images = (exact.encode_images(images) * encoder.encode_images(images)).sum(axis=1)
    of_texts = (exact.encode_texts(texts) * encoder.encode_texts(texts)).sum(axis=1)
    return float(of_images.min()), float(of_texts.min())


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
    """Return 0, which leaves it to the runtime (a thread a core: best, benchmarks/cpu.py), unless
    this process may use only some of the cores: more threads than cores wait for each other."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    return allowed if allowed < (os.cpu_count() or 1) else 0


def run(model: Any, name: str, values: Any) -> Any:
    """Return the pooled output for one input."""
    inputs = [value.name for value in model.get_inputs()]
    outputs = [value.name for value in model.get_outputs()]
    if name not in inputs:
        raise InputError(f"the ONNX model takes {', '.join(inputs)}, not {name}")
    output = "pooler_output" if "pooler_output" in outputs else outputs[0]
    kind = next(value.type for value in model.get_inputs() if value.name == name)
    if kind == "tensor(float16)":
        values = values.astype(np.float16)
    return model.run([output], {name: values})[0]


def _last(arrays: Any, name: str, default: int) -> int:
    """Return the last length of an input or output, where the file states it."""
    last = next((array.shape[-1] for array in arrays if array.name == name), default)
    return last if isinstance(last, int) else default
