"""Detectors through transformers (``dejacue[track]``): LLMDet, Grounding DINO and OWLv2.

    llmdet, llmdet-base, llmdet-large   iSEE-Laboratory/llmdet_tiny, …
    grounding-dino                      IDEA-Research/grounding-dino-tiny
    owlv2                               google/owlv2-base-patch16-ensemble; takes examples, too
    FOLDER, or a repository of the hub  another model of these three kinds

No revision and no hash of them is known here: those of the files in use are recorded.

Pixels are prepared in the same way whichever packages are beside transformers. LLMDet and Grounding
DINO take its processor for Pillow. That of OWLv2 needs scipy, or torchvision, and pads with another
grey in transformers 5 than in 4.57 and in the model's own code; ``owl_pixels`` takes its steps in
torch.

A box of LLMDet or Grounding DINO has a score for each token of the text. The text is the names,
with full stops between them; the score of a name is the best of its tokens.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import (
    DejaCueError,
    InputError,
    MissingExtra,
    brief,
    extra,
    first_line,
    need,
    shortened,
)
from dejacue.files.documents import read_json
from dejacue.models.detectors.base import Detection, Detector, as_box, distinct
from dejacue.models.encoders.named import ModelFiles, find_model
from dejacue.models.encoders.torch_models import LOCAL, check_whole, choose_device, is_out_of_memory
from dejacue.models.weights import Weights

DEFAULT = "llmdet"
REPOSITORIES = {
    "llmdet": "iSEE-Laboratory/llmdet_tiny",
    "llmdet-base": "iSEE-Laboratory/llmdet_base",
    "llmdet-large": "iSEE-Laboratory/llmdet_large",
    "grounding-dino": "IDEA-Research/grounding-dino-tiny",
    "owlv2": "google/owlv2-base-patch16-ensemble",
}
REVISION = "main"
SHARED_FILES = (
    "config.json",
    "model.safetensors",
    "preprocessor_config.json",
    "tokenizer_config.json",
)
PARAMETERS = {  # counted on models that were built from their configurations
    "llmdet": 172_250_628,
    "grounding-dino": 172_250_626,
    "owlv2": 154_966_792,
}
WEIGHT_FILES = ("model.safetensors", "model-*-of-*.safetensors")
REMEDY = extra("track")
GREY = 0.5  # what OWLv2's pictures are padded with, as its authors do
REACH = 4.0  # standard deviations, of the blur before a picture is made smaller
_SEPARATORS = re.compile(r"[.?]")  # for Grounding DINO, these end a name


def weights_of(name: str) -> Weights:
    """Return the files of a model by its name."""
    words = ("vocab.json", "merges.txt") if name == "owlv2" else ("tokenizer.json",)
    return Weights(REPOSITORIES[name], REVISION, dict.fromkeys((*SHARED_FILES, *words)))


class ZeroShotDetector(ABC):
    """A model of transformers that finds things by their names; see ``base.Detector``."""

    threshold: float  # as in the examples of transformers' documentation

    def __init__(
        self,
        model: Any,
        processor: Any,
        name: str,
        *,
        device: str,
        identity: str,
        details: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.identity, self.device = name, identity, device
        self.model, self.processor = model.eval().requires_grad_(False), processor
        self.details: Mapping[str, str] = {**(details or {}), "device": device}
        self._run(lambda: self.model.to(device))

    def detect(self, picture: NDArray[np.uint8], names: Sequence[str]) -> list[Detection]:
        for name in names:  # letters that it was not trained on: it would find something at random
            scripts = (unicodedata.name(letter, "") for letter in name if letter.isalpha())
            if not all(script.startswith("LATIN") for script in scripts):
                raise self._unknown_letters(name)
        boxes, scores, labels = self._run(lambda: self._boxes(picture, names))
        return self._detections(boxes, scores, [names[label] for label in labels], picture)

    @abstractmethod
    def _boxes(self, picture: NDArray[np.uint8], names: Sequence[str]) -> tuple[Any, Any, Any]:
        """Return boxes (n, 4) in pixels, scores (n,) and the place of each one's name (n,)."""

    def _detections(
        self, boxes: Any, scores: Any, names: Sequence[str], picture: NDArray[np.uint8]
    ) -> list[Detection]:
        corners, values = boxes.float().cpu().numpy(), scores.float().cpu().numpy()
        if not (np.isfinite(values).all() and np.isfinite(corners).all()):
            problem = f"{self.name} gave boxes that are not finite"
            raise InputError(f"{problem}; its weights are damaged: download them again")
        clipped, rows = distinct(corners, values, (picture.shape[0], picture.shape[1]))
        return [Detection(as_box(clipped[at]), float(values[at]), names[at]) for at in rows]

    def _unknown_letters(self, name: str) -> InputError:
        return InputError(
            f'{self.name} cannot read the name "{shortened(name)}"; give it in English'
        )

    def _too_long(self, names: Sequence[str], tokens: int, limit: int) -> InputError:
        return InputError(
            f'{self.name} reads at most {limit} tokens, but "{shortened(", ".join(names), 40)}" '
            f"has {tokens}; use fewer words"
        )

    def _run(self, function: Callable[[], Any]) -> Any:
        torch = need("torch", REMEDY)
        try:
            with torch.inference_mode():
                return function()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            problem = f"{self.name}: the device {self.device} is out of memory"
            remedy = "close other programs that use it, or use the device cpu"
            raise InputError(f"{problem}; {remedy}") from error


class GroundingDino(ZeroShotDetector):
    """Grounding DINO, or LLMDet, which is MM Grounding DINO trained further."""

    threshold = 0.4

    def _boxes(self, picture: NDArray[np.uint8], names: Sequence[str]) -> tuple[Any, Any, Any]:
        torch = need("torch", REMEDY)
        tokens, spans = self.tokens(names)
        pixels = self.processor.image_processor(picture, return_tensors="pt")
        inputs = {key: value.to(self.device) for key, value in {**tokens, **pixels}.items()}
        outputs = self.model(**inputs)
        # all boxes, in their order; words of the text are not asked for
        detections = self.processor.post_process_grounded_object_detection(
            outputs,
            inputs["input_ids"],
            threshold=-1.0,
            text_threshold=1.0,
            target_sizes=[picture.shape[:2]],
        )[0]
        chances = outputs.logits[0].float().sigmoid()
        by_name = torch.stack([chances[:, span].amax(dim=1) for span in spans])
        scores, labels = by_name.max(dim=0)
        return detections["boxes"], scores, labels.tolist()

    def tokens(self, names: Sequence[str]) -> tuple[dict[str, Any], list[list[int]]]:
        """Return the text as the model takes it, and which of its tokens belong to each name."""
        tokenizer = self.processor.tokenizer
        texts = [" ".join(_SEPARATORS.sub(" ", name).lower().split()) for name in names]
        encoded = tokenizer(
            f"{'. '.join(texts)}.",
            return_tensors="pt",
            return_token_type_ids=True,
            return_offsets_mapping=True,
        )
        offsets = encoded.pop("offset_mapping")[0].tolist()
        limit = int(self.model.config.max_text_len)
        if len(offsets) > limit:
            raise self._too_long(names, len(offsets), limit)
        ids = encoded["input_ids"][0].tolist()
        spans, start = [], 0
        for name, text in zip(names, texts, strict=True):
            end = start + len(text)
            span = [at for at, (low, high) in enumerate(offsets) if start <= low < high <= end]
            if not span or any(ids[at] == tokenizer.unk_token_id for at in span):
                raise self._unknown_letters(name)
            spans.append(span)
            start = end + len(". ")
        return dict(encoded), spans


class Owlv2(ZeroShotDetector):
    """OWLv2: finds things by their names, or by a picture of one; see ``ExampleDetector``."""

    threshold = 0.1
    example_threshold = 0.9

    def detect_like(
        self, picture: NDArray[np.uint8], example: NDArray[np.uint8]
    ) -> list[Detection]:
        boxes, scores, _ = self._run(lambda: self._boxes_like(picture, example))
        return self._detections(boxes, scores, [""] * len(scores), picture)

    def pixels(self, picture: NDArray[np.uint8]) -> Any:
        """Return (1, 3, size, size), normalised, on the device."""
        torch = need("torch", REMEDY)
        images = self.processor.image_processor
        square = owl_pixels(picture, int(self.model.config.vision_config.image_size), self.device)
        mean, deviation = (
            torch.tensor(values, device=self.device)[:, None, None]
            for values in (images.image_mean, images.image_std)
        )
        return ((square - mean) / deviation)[None]

    def _boxes(self, picture: NDArray[np.uint8], names: Sequence[str]) -> tuple[Any, Any, Any]:
        limit = int(self.model.config.text_config.max_position_embeddings)
        texts = [name.lower() for name in names]
        for name, text in zip(names, texts, strict=True):
            count = len(self.processor.tokenizer(text)["input_ids"])
            if count > limit:
                raise self._too_long([name], count, limit)
        tokens = self.processor.tokenizer(
            texts, padding="max_length", max_length=limit, return_tensors="pt"
        )
        outputs = self.model(
            input_ids=tokens["input_ids"].to(self.device),
            attention_mask=tokens["attention_mask"].to(self.device),
            pixel_values=self.pixels(picture),
        )
        return self._scaled(outputs.logits, outputs.pred_boxes, picture)

    def _boxes_like(
        self, picture: NDArray[np.uint8], example: NDArray[np.uint8]
    ) -> tuple[Any, Any, Any]:
        # transformers' own last step divides scores by the best one, which is then always 1
        outputs = self.model.image_guided_detection(
            pixel_values=self.pixels(picture), query_pixel_values=self.pixels(example)
        )
        return self._scaled(outputs.logits, outputs.target_pred_boxes, picture)

    def _scaled(self, logits: Any, boxes: Any, picture: NDArray[np.uint8]) -> tuple[Any, Any, Any]:
        detections = self.processor.post_process_grounded_object_detection(
            SimpleNamespace(logits=logits, pred_boxes=boxes),
            threshold=-1.0,
            target_sizes=[picture.shape[:2]],
        )[0]
        return detections["boxes"], detections["scores"], detections["labels"].tolist()


def owl_pixels(picture: NDArray[np.uint8], size: int, device: str) -> Any:
    """Return (3, size, size) from 0 to 1 of a picture (H, W, 3), padded with grey below or to the
    right to a square; one that is larger is blurred first, so that no lines flicker."""
    torch = need("torch", REMEDY)
    side = max(picture.shape[:2])
    pixels, weights = (torch.from_numpy(table).to(device) for table in resizing(side, size))
    planes = torch.from_numpy(np.ascontiguousarray(picture)).to(device).permute(2, 0, 1)
    planes = planes.contiguous() / 255 - GREY  # so that what is padded is 0
    for _ in range(2):  # along the width, then along the height
        padded = torch.nn.functional.pad(planes, (0, side - planes.shape[-1]))
        planes = torch.zeros((*planes.shape[:-1], size), device=device)
        for pixel, weight in zip(pixels, weights, strict=True):
            planes.addcmul_(padded[..., pixel], weight)
        planes = planes.transpose(1, 2).contiguous()
    return planes + GREY


@cache
def resizing(count: int, size: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return how ``count`` pixels become ``size``: (n, size) pixels that are summed up to each, and
    their weights. It is a blur, where they become fewer, and linear interpolation; beyond its ends
    a line of pixels is mirrored."""
    deviation = max(0.0, (count / size - 1) / 2)
    reach = int(REACH * deviation + 0.5)
    offsets = np.arange(-reach, reach + 1)
    blur = np.exp(-0.5 * (offsets / deviation) ** 2) if reach else np.ones(1)
    blur = np.concatenate([blur / blur.sum(), [0.0]])[:, None]
    places = (np.arange(size) + 0.5) * (count / size) - 0.5
    low = np.floor(places).astype(np.int64)
    around = np.abs(low + np.append(offsets, reach + 1)[:, None]) % max(2 * count - 2, 1)
    pixels = np.minimum(around, 2 * count - 2 - around)  # mirrored at the middle of the end pixels
    weights = (low + 1 - places) * blur + (places - low) * np.roll(blur, 1, axis=0)
    return pixels, weights.astype(np.float32)


KINDS: dict[str, tuple[type[ZeroShotDetector], str]] = {  # by the model_type of config.json
    "mm-grounding-dino": (GroundingDino, "GroundingDino"),
    "grounding-dino": (GroundingDino, "GroundingDino"),
    "owlv2": (Owlv2, "Owlv2"),
}


def load(name: str, *, device: str | None = None) -> Detector:
    """Load a model by its name, or from a folder or a repository of the hub.

    device   cuda, mps or cpu (default: the first that is there)
    """
    need("torch", REMEDY)
    transformers = need("transformers", REMEDY)
    device = choose_device(device)
    files = find_model(REPOSITORIES.get(name, name), name, WEIGHT_FILES)
    kind, family = _kind(files)
    try:
        model, info = transformers.AutoModelForZeroShotObjectDetection.from_pretrained(
            files.folder, output_loading_info=True, **LOCAL
        )
        # the image processor for Pillow, which transformers 4 calls otherwise than 5
        pillow = getattr(transformers, f"{family}ImageProcessorPil", None)
        images = pillow or getattr(transformers, f"{family}ImageProcessor")
        processor = getattr(transformers, f"{family}Processor")(
            image_processor=images.from_pretrained(files.folder, local_files_only=True),
            tokenizer=transformers.AutoTokenizer.from_pretrained(files.folder, **LOCAL),
        )
    except Exception as error:  # transformers, safetensors and tokenizers raise their own kinds
        raise _unloadable(files, error) from error
    check_whole(files.weights[0], info)
    details = {"transformers": str(transformers.__version__), **files.details}
    detector = kind(model, processor, name, device=device, identity=files.identity, details=details)
    assert isinstance(detector, Detector)
    return detector


def _kind(files: ModelFiles) -> tuple[type[ZeroShotDetector], str]:
    path = files.folder / "config.json"
    config = read_json(path)
    kind = config.get("model_type") if isinstance(config, dict) else None
    if str(kind) not in KINDS:
        remedy = f"give the folder of a model of the kind {', '.join(KINDS)}"
        raise InputError(f'{path}: describes a "{brief(kind)}", not a detector; {remedy}')
    return KINDS[str(kind)]


def _unloadable(files: ModelFiles, error: BaseException) -> DejaCueError:
    """Return the error of a library in one sentence; the first of a chain of errors says why."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if "torchvision" in (reason := first_line(cause)):
        problem = f"transformers cannot be used beside this torchvision ({reason})"
        remedy = "install versions that fit each other, or uninstall torchvision"
        return MissingExtra(f"{problem}; {remedy}")
    remedy = "download its files again, or upgrade transformers"
    return InputError(f"{files.folder}: cannot be loaded ({first_line(error)}); {remedy}")
