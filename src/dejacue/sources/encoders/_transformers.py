"""``hf:NAME``: an image model of transformers, from the hub or a folder.

CLIP, SigLIP, MetaCLIP … read words as well; DINOv2, DINOv3, ViT … have images alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dejacue.errors import InputError, need
from dejacue.records.words import Spelling
from dejacue.sources.encoders._torch import BATCH, TorchEncoder, loaded
from dejacue.sources.encoders.base import Encoder, ImageEncoder, Rows, spelled, unit
from dejacue.sources.encoders.preprocess import of_transformers
from dejacue.sources.encoders.siglip_torch import (
    REMEDY,
    choose_device,
    choose_precision,
    dtype_of,
    pooled,
)
from dejacue.sources.encoders.weights import Model, find_model

SIGLIP = ("siglip", "siglip2")  # kinds that were trained on small letters
MOST_TOKENS = 100_000  # a tokenizer that does not know its limit has a larger one
FILES = (
    "model.safetensors",
    "model-*-of-*.safetensors",
    "pytorch_model.bin",
    "pytorch_model-*-of-*.bin",
)
HERE = {"local_files_only": True, "trust_remote_code": False}  # no code of a stranger is run


def load_transformers(
    name: str,
    *,
    called: str | None = None,
    device: str | None = None,
    precision: str | None = None,
    revision: str | None = None,
    lower: bool | None = None,
    batch: int = BATCH,
    compile: bool | None = None,
) -> Encoder:
    """A model by its name on the hub, or its folder.

    precision   fp32, fp16 or bf16 (default: bf16 on cuda, else fp32)
    lower       texts in small letters (default: for SigLIP, as in its training; tokenizers of
                other models do what theirs needs)
    compile     with torch.compile (default: on cuda, after so many images that it pays)
    """
    called = called or f"hf:{name}"
    need("torch", REMEDY)
    transformers = need("transformers", REMEDY)
    device = choose_device(device)
    precision = choose_precision(precision, device)
    dtype_of(precision)  # a precision that there is not is refused before a model is fetched
    found = find_model(name, called, FILES, revision=revision)
    if not (found.folder / "config.json").is_file():
        raise InputError(f"{called} has no config.json, so it is not a transformers model")
    model, info = loaded(
        called,
        lambda: transformers.AutoModel.from_pretrained(
            found.folder, output_loading_info=True, **HERE
        ),
    )
    options = {"device": device, "precision": precision, "batch": batch, "compile": compile}
    lacking = set(info["missing_keys"])
    if hasattr(model, "get_image_features") and hasattr(model, "get_text_features"):
        _check(called, lacking)
        return TextTransformers(called, found, model, lower=lower, **options)
    if model.main_input_name != "pixel_values":
        raise InputError(f"{called} is a {type(model).__name__}, not an image model")
    # a classifier is published without the layer that pools: its first token is taken then
    poolers = {name for name in lacking if "pooler" in name.split(".")}
    _check(called, lacking - poolers)
    return ImageTransformers(called, found, model, pooler=not poolers, **options)


def _check(called: str, lacking: set[str]) -> None:
    """Weights that are missing would be random."""
    if lacking:
        raise InputError(
            f"{called}: {len(lacking)} weights are missing from its file ({min(lacking)}, …)"
        )


def _length(called: str, config: Any, tokenizer: Any) -> int:
    """How many tokens it reads; a tokenizer whose files are missing, which is none, is refused."""
    one, other = (set(tokenizer(text)["input_ids"]) for text in ("empty cup", "full plate"))
    if one == other:
        raise InputError(
            f"{called}: its tokenizer knows no words; check that its files are complete"
        )
    positions = getattr(getattr(config, "text_config", config), "max_position_embeddings", None)
    known = [n for n in (positions, tokenizer.model_max_length) if n and n < MOST_TOKENS]
    if not known:
        raise InputError(f"{called}: its files do not state how many tokens it reads")
    return int(min(known))


def _details(found: Model, encoder: TorchEncoder) -> dict[str, str]:
    version = need("transformers", REMEDY).__version__
    return {
        "backend": "transformers",
        "precision": encoder.precision,
        "transformers": version,
        "images": str(encoder.images),
        **found.details,
    }


class TextTransformers(TorchEncoder):
    """A model of images and texts. Texts are padded to its full length."""

    def __init__(
        self, called: str, found: Model, model: Any, *, lower: bool | None, **options: Any
    ) -> None:
        super().__init__(called, **options)
        self.identity = found.identity
        siglip = model.config.model_type in SIGLIP
        self.lower = siglip if lower is None else lower
        self._masked = not siglip  # SigLIP reads its padding
        transformers = need("transformers", REMEDY)
        self._tokenizer = loaded(
            called, lambda: transformers.AutoTokenizer.from_pretrained(found.folder, **HERE)
        )
        self._length = _length(called, model.config, self._tokenizer)
        self.prepare(model, of_transformers(found.folder, called))
        self.details = {
            **_details(found, self),
            "lower_case": str(self.lower),
            "tokens": str(self._length),
        }

    def image_rows(self, images: Any) -> Any:
        return pooled(self._model.get_image_features(pixel_values=images))

    def encode_texts(self, texts: Sequence[str]) -> Rows:
        torch = need("torch", REMEDY)
        written = [text.lower() if self.lower else text for text in texts]
        given = self._tokenizer(
            written,
            padding="max_length",
            max_length=self._length,
            truncation=True,
            return_tensors="pt",
        ).to(self.device)
        wanted = ["input_ids", *(["attention_mask"] if self._masked else [])]
        inputs = {name: given[name] for name in wanted if name in given}
        with torch.inference_mode():
            rows = pooled(self._model.get_text_features(**inputs)).float().cpu().numpy()
        return unit(rows, "text")

    def spelling(self, text: str) -> Spelling | None:
        if not self._tokenizer.is_fast:  # it does not say which letters a piece stands for
            return None
        written = text.lower() if self.lower else text
        given = self._tokenizer(written, truncation=True, max_length=self._length)
        return spelled(written, given.encodings[0])


class ImageTransformers(ImageEncoder, TorchEncoder):
    """A model of images. Its row is what the model pools; where it does not, its first token if
    that stands for the image, else the mean."""

    def __init__(
        self, called: str, found: Model, model: Any, *, pooler: bool, **options: Any
    ) -> None:
        super().__init__(called, **options)
        self.identity = found.identity
        self._pooler = pooler
        self._first = any(name.endswith("cls_token") for name, _ in model.named_parameters())
        self.prepare(model, of_transformers(found.folder, called))
        self.details = {**_details(found, self), "rows": self._rows}

    def image_rows(self, images: Any) -> Any:
        output = self._model(pixel_values=images)
        rows = getattr(output, "pooler_output", None)
        if self._pooler and rows is not None:
            self._rows = "pooled by the model"
            return rows.flatten(1)
        last = output.last_hidden_state
        if last.ndim == 4:
            self._rows = "mean of places"
            return last.mean(dim=(2, 3))
        self._rows = "first token" if self._first else "mean of tokens"
        return last[:, 0] if self._first else last.mean(dim=1)
