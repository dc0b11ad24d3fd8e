"""Any CLIP or SigLIP by name: ``hf:NAME`` through transformers, ``openclip:NAME[/WEIGHTS]``."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dejacue.errors import InputError, MissingData, MissingExtra, need, unknown
from dejacue.records.words import Spelling
from dejacue.sources.encoders._spelling import spelled
from dejacue.sources.encoders.base import Crops, Encoder, Rows, in_batches, unit
from dejacue.sources.encoders.siglip_torch import REMEDY, choose_device, pooled
from dejacue.sources.encoders.weights import commit, first_sentence, sha256

BATCH = 64
SUFFIXES = (".safetensors", ".bin")


def _loaded(name: str, load: Callable[[], Any]) -> Any:
    """A model from the hub or a folder, or an error of one sentence."""
    try:
        return load()
    except ImportError as error:
        raise MissingExtra(
            f"{name} needs a package that is not installed ({first_sentence(error)})"
        ) from None
    except Exception as error:  # the hub, safetensors and tokenizers raise their own kinds
        raise MissingData(
            f"{name} could not be loaded ({first_sentence(error)}); check the name; with a "
            "connection it is fetched once, without one give the path of a folder that holds it"
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
        called = f"hf:{name}"
        self._model, loaded = _loaded(
            called,
            lambda: transformers.AutoModel.from_pretrained(
                name, revision=revision, output_loading_info=True
            ),
        )
        if not hasattr(self._model, "get_image_features"):
            kind = type(self._model).__name__
            raise InputError(f"{called} is a {kind}, not a model of images and texts")
        if lacking := sorted(loaded["missing_keys"]):  # they would be random
            raise InputError(
                f"{called}: {len(lacking)} weights are missing from its file ({lacking[0]}, …)"
            )
        self._processor = _loaded(
            called, lambda: transformers.AutoProcessor.from_pretrained(name, revision=revision)
        )
        self._model = self._model.eval().requires_grad_(False).to(self.device)
        self._torch, self.batch = torch, batch
        config = self._model.config
        self.name, self.identity = called, _identity(name, revision)
        self.dimension = int(
            getattr(config, "projection_dim", None) or config.vision_config.hidden_size
        )
        self.size = int(config.vision_config.image_size)
        self._length = int(config.text_config.max_position_embeddings)
        self.details = {
            "backend": "transformers", "precision": "fp32", "transformers": transformers.__version__
        }  # fmt: skip

    def encode_images(self, crops: Crops) -> Rows:
        from PIL import Image

        def encode(some: Crops) -> Any:
            # as pictures: an array of three pixel rows would be taken for three channels
            images = [Image.fromarray(crop) for crop in some]
            given = self._processor(images=images, return_tensors="pt").to(self.device)
            return pooled(self._model.get_image_features(**given)).float().cpu().numpy()

        with self._torch.inference_mode():
            return in_batches(encode, crops, self.batch)

    def encode_texts(self, texts: Sequence[str]) -> Rows:
        given = self._processor(
            text=list(texts), padding="max_length", max_length=self._length, truncation=True,
            return_tensors="pt",
        ).to(self.device)  # fmt: skip
        with self._torch.inference_mode():
            rows = pooled(self._model.get_text_features(**given)).float().cpu().numpy()
        return unit(rows, "text")

    def spelling(self, text: str) -> Spelling | None:
        tokenizer = self._processor.tokenizer
        if not tokenizer.is_fast:  # it does not say which letters a piece stands for
            return None
        given = tokenizer(text, truncation=True, max_length=self._length)
        return spelled(text, given.encodings[0])


def _identity(name: str, revision: str | None) -> str:
    """Name and commit on the hub; for a folder, its name and the hash of its weights."""
    from huggingface_hub import try_to_load_from_cache

    folder = Path(name)
    if not folder.is_dir():
        cached = try_to_load_from_cache(name, "config.json", revision=revision)
        found = commit(Path(cached)) if isinstance(cached, str) else revision
        return f"{name}@{found}" if found else name
    files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)
    digest = hashlib.sha256("".join(map(sha256, files)).encode()).hexdigest()
    return f"{folder.resolve().name}@{digest[:12]}"


class OpenClip(Encoder):
    """``openclip:ViT-B-16-SigLIP2`` (optionally ``/webli``): open_clip's own transforms and
    tokenizer, which also strip punctuation for SigLIP models."""

    def __init__(self, name: str, *, device: str | None = None, batch: int = BATCH) -> None:
        torch = need("torch", REMEDY)
        open_clip = need("open_clip", "pip install open_clip_torch")
        self.device = choose_device(device)
        architecture, tag = _published(open_clip, name)
        self._model, _, self._transform = _loaded(
            f"openclip:{name}",
            lambda: open_clip.create_model_and_transforms(architecture, pretrained=tag),
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

        def encode(some: Crops) -> Any:
            images = self._torch.stack([self._transform(Image.fromarray(crop)) for crop in some])
            return self._model.encode_image(images.to(self.device)).float().cpu().numpy()

        with self._torch.inference_mode():
            return in_batches(encode, crops, self.batch)

    def encode_texts(self, texts: Sequence[str]) -> Rows:
        with self._torch.inference_mode():
            rows = self._model.encode_text(self._tokenizer(list(texts)).to(self.device))
        return unit(rows.float().cpu().numpy(), "text")


def _published(open_clip: Any, name: str) -> tuple[str, str]:
    """Architecture and weights; without a name for the weights, those that open_clip lists last."""
    architecture, _, tag = name.partition("/")
    models = open_clip.list_models()
    if architecture not in models:
        near = difflib.get_close_matches(architecture, models, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise InputError(
            f'open_clip has no model "{architecture}"; {hint}open_clip.list_models() lists all'
        )
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    if not tags:
        raise InputError(f"openclip:{architecture} has no published weights; choose another model")
    if tag and tag not in tags:
        raise unknown(f"weights of openclip:{architecture}", tag, tags)
    return architecture, tag or tags[-1]
