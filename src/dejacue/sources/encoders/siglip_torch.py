"""SigLIP 2 through torch and transformers (extra ``dejacue[torch]``)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dejacue.errors import InputError, first_line, need, unknown
from dejacue.records.words import Spelling
from dejacue.sources.crops import fit
from dejacue.sources.encoders import siglip
from dejacue.sources.encoders.base import CPU_PACE, Crops, Encoder, Rows, unit
from dejacue.sources.encoders.weights import Weights, files_in, sha256

REMEDY = "pip install 'dejacue[torch]'"
MIN_COMPILED_IMAGES = 500_000  # an estimate: compiling takes long and makes a batch faster
_log = logging.getLogger("dejacue")


class Tower:
    """Bytes (n, size, size, 3) on the device → rows.

    function   computes them
    wanted     True: compiled from the first full batch on; False: never; None: on CUDA, after
               MIN_COMPILED_IMAGES

    Compiled rows differ from the others by rounding, within the precision.
    """

    def __init__(
        self, function: Callable[[Any], Any], batch: int, device: str, wanted: bool | None
    ) -> None:
        self._function, self._batch = function, batch
        self._compiled: Callable[[Any], Any] | None = None
        self._lock = threading.Lock()
        self._after: int | None = MIN_COMPILED_IMAGES if device.startswith("cuda") else None
        if wanted is not None:
            self._after = 0 if wanted else None
        self._seen = 0

    def __call__(self, images: Any) -> Any:
        count = len(images)
        self._seen += count
        if self._after is None or self._seen < self._after or 2 * count < self._batch:
            return self._function(images)
        if self._compiled is None:
            with self._lock:  # several threads may come at once; one compiles
                return self._first(images)
        return self._compiled(self._padded(images))[:count]

    def _first(self, images: Any) -> Any:
        """Compiles, unless another thread just has; where that fails, all goes on without."""
        torch = need("torch", REMEDY)
        compiled = self._compiled or torch.compile(self._function, dynamic=False)
        try:
            rows = compiled(self._padded(images))[: len(images)]
        except Exception as error:  # the compilers behind it raise all kinds
            self._after = None
            _log.warning("torch.compile failed (%s); continuing without it", first_line(error))
            return self._function(images)
        self._compiled = compiled
        return rows

    def _padded(self, images: Any) -> Any:
        """A full batch, the only size that is compiled: the rest is black."""
        torch = need("torch", REMEDY)
        lacking = self._batch - len(images)
        if lacking <= 0:
            return images
        return torch.cat([images, images.new_zeros((lacking, *images.shape[1:]))])


PRECISIONS = ("fp32", "fp16", "bf16")
BATCH = 256
FILES: dict[str, str | None] = {
    "config.json": "fe8b5fe6d5734360678fd71c11c21e1ea3364bd8598d34295d9206335973ffd7",
    "model.safetensors": "612923381c76ec5a9bed335d1c48827e3f2e506ac31b044b63b2031fadee6a0b",
    "tokenizer.json": siglip.TOKENIZER_HASH,
}


def choose_device(device: str | None) -> str:
    torch = need("torch", REMEDY)
    if device is not None:
        kind = device.split(":")[0]
        available = {
            "cpu": True,
            "cuda": torch.cuda.is_available(),
            "mps": torch.backends.mps.is_available(),
        }
        if kind not in available:
            raise unknown("device", device, available)
        if not available[kind]:
            raise InputError(
                f'the device "{device}" is not available; leave --device out, or use cpu'
            )
        return device
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def choose_precision(precision: str | None, device: str) -> str:
    return precision or ("bf16" if device.startswith("cuda") else "fp32")


def dtype_of(precision: str) -> Any:
    torch = need("torch", REMEDY)
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]


class TorchSiglip(Encoder):
    """The published model and revision with transformers.

    device      cuda, mps or cpu (default: the first that is there)
    precision   fp32, fp16 or bf16 (default: bf16 on cuda, else fp32)
    folder      a folder that holds the files, instead of the published ones
    compile     with torch.compile (default: on cuda, after so many images that it pays)
    """

    name = "siglip2"

    def __init__(
        self,
        *,
        device: str | None = None,
        precision: str | None = None,
        lower: bool = True,
        folder: Path | None = None,
        batch: int = BATCH,
        compile: bool | None = None,
    ) -> None:
        transformers = need("transformers", REMEDY)
        self.device = choose_device(device)
        precision = choose_precision(precision, self.device)
        self._dtype = dtype_of(precision)
        published = Weights(siglip.REPOSITORY, siglip.REVISION, FILES)
        files = published.fetch() if folder is None else files_in(folder, FILES)
        model = transformers.SiglipModel.from_pretrained(
            files["config.json"].parent, dtype=self._dtype, local_files_only=True
        )
        self._model = model.eval().requires_grad_(False).to(self.device)
        self._tokenizer = siglip.Tokenizer(files["tokenizer.json"], lower=lower)
        self.size = int(model.config.vision_config.image_size)
        self.dimension = int(model.config.vision_config.hidden_size)
        self.identity = siglip.IDENTITY if folder is None else f"siglip:{folder.name}"
        self.batch = batch
        self._tower = Tower(self._rows, batch, self.device, compile)
        self.workers = 2 if self.device.startswith("cuda") else 1  # one copies, one computes
        self.pace = CPU_PACE if self.device == "cpu" else None
        self.details = {
            "backend": "torch",
            "precision": precision,
            "lower_case": str(lower),
            "sha256 model.safetensors": sha256(files["model.safetensors"]),
        }

    def encode_images(self, crops: Crops) -> Rows:
        torch = need("torch", REMEDY)
        parts = []
        with torch.inference_mode():
            for first in range(0, len(crops), self.batch):
                own = [fit(crop, self.size) for crop in crops[first : first + self.batch]]
                parts.append(self._tower(to_device(own, self.device)))
            rows = torch.cat(parts).float().cpu().numpy()
        return unit(rows, "image")

    def _rows(self, images: Any) -> Any:
        # channels stay last in memory, which is faster for the convolution
        pixels = (images.permute(0, 3, 1, 2).float() / 127.5 - 1).to(self._dtype)
        return pooled(self._model.get_image_features(pixel_values=pixels))

    def encode_texts(self, texts: Sequence[str]) -> Rows:
        torch = need("torch", REMEDY)
        ids = torch.from_numpy(self._tokenizer(texts)).to(self.device)
        with torch.inference_mode():
            rows = pooled(self._model.get_text_features(input_ids=ids)).float().cpu().numpy()
        return unit(rows, "text")

    def spelling(self, text: str) -> Spelling:
        return self._tokenizer.spelling(text)


def pooled(output: Any) -> Any:
    """transformers 5 returns an output object where 4 returned the pooled rows."""
    return getattr(output, "pooler_output", output)


class _PinnedBuffers(threading.local):
    """Page-locked memory and a stream per thread, so that copies to a GPU overlap with what the
    other threads compute there."""

    def __init__(self) -> None:
        self.buffers: list[Any] = [None, None]
        self.sent: list[Any] = [None, None]
        self.turn = 0
        self.stream: Any = None

    def send(self, images: Crops, device: str) -> Any:
        """(n, size, size, 3) bytes on the device."""
        torch = need("torch", REMEDY)
        if not device.startswith("cuda"):
            return torch.from_numpy(np.stack(images)).to(device)
        self.turn = 1 - self.turn
        if self.sent[self.turn] is not None:
            self.sent[self.turn].synchronize()  # its last copy must be finished
        count, buffer = len(images), self.buffers[self.turn]
        if buffer is None or len(buffer) < count or buffer.shape[1:] != images[0].shape:
            buffer = torch.empty((count, *images[0].shape), dtype=torch.uint8, pin_memory=True)
            self.buffers[self.turn] = buffer
        np.stack(images, out=buffer.numpy()[:count])
        computing = torch.cuda.current_stream(device)
        if self.stream is None or self.stream.device != computing.device:
            self.stream = torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):
            there = buffer[:count].to(device, non_blocking=True)
            self.sent[self.turn] = self.stream.record_event()
        computing.wait_event(self.sent[self.turn])
        there.record_stream(computing)  # its memory is not given to others before
        return there


_BUFFERS = _PinnedBuffers()
to_device = _BUFFERS.send
