"""Any CLIP or SigLIP by name: ``hf:NAME`` through transformers, ``openclip:NAME[/WEIGHTS]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dejacue.errors import DejaCueError, InputError, MissingData, need, unknown
from dejacue.sources.encoders.base import Crops, Encoder, Rows, unit
from dejacue.sources.encoders.siglip_torch import REMEDY, _pooled, choose_device

BATCH = 64


def _loaded(name: str, load: Any) -> Any:
    """A model from the hub or a folder, or one sentence why not."""
    try:
        return load()
    except DejaCueError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise MissingData(
            f"{name} could not be loaded ({reason}); with a connection it is fetched once, "
            "without one give the path of a folder that holds it"
        ) from None


class Transformers(Encoder):
    """``hf:openai/clip-vit-base-patch32``, ``hf:google/siglip-…``, or a folder: AutoModel and
    AutoProcessor decide about the images; texts are padded to the model's full length."""

    def __init__(
        self,
        name: str,
        *,
        device: str | None = None,
        revision: str | None = None,
        batch: int = BATCH,
    ) -> None:
        torch = need("torch", REMEDY)
        transformers = need("transformers", REMEDY)
        self.device = choose_device(device)
        self._model = _loaded(
            name, lambda: transformers.AutoModel.from_pretrained(name, revision=revision)
        )
        if not hasattr(self._model, "get_image_features"):
            raise InputError(f"{name}: is a {type(self._model).__name__}, not an image–text model")
        self._processor = _loaded(
            name, lambda: transformers.AutoProcessor.from_pretrained(name, revision=revision)
        )
        self._model = self._model.eval().requires_grad_(False).to(self.device)
        self._torch, self.batch = torch, batch
        config = self._model.config
        found = getattr(config, "_commit_hash", None) or revision
        self.name, self.identity = f"hf:{name}", f"{name}@{found}" if found else name
        self.dimension = int(
            getattr(config, "projection_dim", None) or config.vision_config.hidden_size
        )
        self.size = int(config.vision_config.image_size)
        self._length = int(config.text_config.max_position_embeddings)
        self.details = {"backend": "transformers", "precision": "fp32"}

    def encode_images(self, crops: Crops) -> Rows:
        parts = []
        with self._torch.inference_mode():
            for first in range(0, len(crops), self.batch):
                images = list(crops[first : first + self.batch])
                given = self._processor(images=images, return_tensors="pt").to(self.device)
                parts.append(_pooled(self._model.get_image_features(**given)).float().cpu())
        return unit(self._torch.cat(parts).numpy(), "image")

    def encode_texts(self, texts: Sequence[str]) -> Rows:
        given = self._processor(
            text=list(texts), padding="max_length", max_length=self._length, truncation=True,
            return_tensors="pt",
        ).to(self.device)  # fmt: skip
        with self._torch.inference_mode():
            rows = _pooled(self._model.get_text_features(**given)).float().cpu().numpy()
        return unit(rows, "text")


class OpenClip(Encoder):
    """``openclip:ViT-B-16-SigLIP2`` (optionally ``/webli``): open_clip's own transforms and
    tokenizer, which also strip punctuation for SigLIP models."""

    def __init__(self, name: str, *, device: str | None = None, batch: int = BATCH) -> None:
        torch = need("torch", REMEDY)
        open_clip = need("open_clip", "pip install open_clip_torch")
        self.device = choose_device(device)
        architecture, _, tag = name.partition("/")
        if architecture not in open_clip.list_models():
            raise unknown("open_clip model", architecture, open_clip.list_models())
        tags = open_clip.list_pretrained_tags_by_model(architecture)
        tag = tag or (tags[-1] if tags else "")
        self._model, _, self._transform = _loaded(
            name, lambda: open_clip.create_model_and_transforms(architecture, pretrained=tag)
        )
        self._model = self._model.eval().to(self.device)
        self._tokenizer = open_clip.get_tokenizer(architecture)
        self._torch, self.batch = torch, batch
        size = self._model.visual.image_size
        self.size = int(size[0] if isinstance(size, tuple) else size)
        self.name, self.identity = f"openclip:{name}", f"openclip:{architecture}/{tag}"
        with torch.inference_mode():
            self.dimension = int(
                self._model.encode_text(self._tokenizer(["x"]).to(self.device)).shape[1]
            )
        self.details = {"backend": "open_clip", "precision": "fp32"}

    def encode_images(self, crops: Crops) -> Rows:
        from PIL import Image

        parts = []
        with self._torch.inference_mode():
            for first in range(0, len(crops), self.batch):
                images = [
                    self._transform(Image.fromarray(c)) for c in crops[first : first + self.batch]
                ]
                parts.append(self._model.encode_image(self._torch.stack(images).to(self.device)))
            rows = self._torch.cat(parts).float().cpu().numpy()
        return unit(np.asarray(rows), "image")

    def encode_texts(self, texts: Sequence[str]) -> Rows:
        with self._torch.inference_mode():
            rows = self._model.encode_text(self._tokenizer(list(texts)).to(self.device))
        return unit(rows.float().cpu().numpy(), "text")
