"""``openclip:NAME[/WEIGHTS]``, ``openclip:hf-hub:REPOSITORY``, ``openclip:FOLDER``: a CLIP of
open_clip (PE-Core, DFN, MetaCLIP, SigLIP …), with the weights and settings that it lists."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dejacue.errors import InputError, need, unknown
from dejacue.sources.documents import read_json
from dejacue.sources.encoders._torch import BATCH, TorchEncoder, loaded
from dejacue.sources.encoders.base import Rows, unit
from dejacue.sources.encoders.preprocess import of_open_clip
from dejacue.sources.encoders.siglip_torch import REMEDY
from dejacue.sources.encoders.weights import Model, find_model

EXTRA = "pip install 'dejacue[openclip]'"
HUB = "hf-hub:"
CONFIG = "open_clip_config.json"
FILES = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
    "open_clip_pytorch_model.pth",
)


@dataclass(frozen=True)
class Published:
    """A model as open_clip knows it.

    source   what open_clip.create_model takes: an architecture, or local-dir:FOLDER
    images   how they are resized and scaled
    quick    whether its activation is QuickGELU, which the name of an architecture does not tell
    """

    found: Model
    source: str
    images: dict[str, Any]
    quick: bool = False


class OpenClip(TorchEncoder):
    """open_clip's own tokenizer, which also strips punctuation for SigLIP models."""

    def __init__(
        self,
        name: str,
        *,
        device: str | None = None,
        precision: str | None = None,
        batch: int = BATCH,
    ) -> None:
        called = f"openclip:{name}"
        need("torch", REMEDY)
        open_clip = need("open_clip", EXTRA)
        super().__init__(called, device, precision, batch)
        published = _published(open_clip, name, called)
        own = {"pretrained": str(published.found.weights[0]), "force_quick_gelu": published.quick}
        if published.source.startswith("local-dir:"):
            own = {"require_pretrained": True}
        model = loaded(called, lambda: open_clip.create_model(published.source, **own))
        self._tokenizer = loaded(called, lambda: _tokenizer(open_clip, published))
        self.identity = published.found.identity
        size = model.visual.image_size
        sides = set(size) if isinstance(size, tuple) else {size}
        if len(sides) != 1:
            raise InputError(f"{called}: takes images of {size} pixels, not squares")
        self.prepare(model, of_open_clip(published.images, int(sides.pop()), called))
        self.details = {
            "backend": "open_clip",
            "precision": self.precision,
            "images": str(self.images),
            "open_clip": str(open_clip.__version__),
            **published.found.details,
        }

    def image_rows(self, images: Any) -> Any:
        return self._model.encode_image(images)

    def encode_texts(self, texts: Sequence[str]) -> Rows:
        torch = need("torch", REMEDY)
        with torch.inference_mode():
            rows = self._model.encode_text(self._tokenizer(list(texts)).to(self.device))
        return unit(rows.float().cpu().numpy(), "text")


def _published(open_clip: Any, name: str, called: str) -> Published:
    """From open_clip's list; or from a folder or repository with its own configuration."""
    given = name.removeprefix(HUB)
    if given != name or Path(name).expanduser().is_dir():
        found = find_model(given, called, FILES)
        path = found.folder / CONFIG
        if not path.is_file():
            raise InputError(f"{called} has no {CONFIG}, so it is not an open_clip model")
        config = read_json(path)
        if not isinstance(config, dict) or not isinstance(config.get("preprocess_cfg"), dict):
            raise InputError(f"{path}: has no preprocess_cfg, which says how images are scaled")
        found = replace(found, name=f"openclip:{HUB if given != name else ''}{found.name}")
        return Published(found, f"local-dir:{found.folder}", config["preprocess_cfg"])
    architecture, tag = _listed(open_clip, name)
    config = open_clip.get_pretrained_cfg(architecture, tag)
    repository, _, file = (config.get("hf_hub") or "").rpartition("/")
    if repository:
        found = find_model(repository, called, (file,) if file else FILES)
    else:  # a plain address, which open_clip fetches
        path = Path(loaded(called, lambda: open_clip.download_pretrained(config)))
        found = Model(name, path.parent, (path,))
    quick = bool(config.get("quick_gelu"))
    found = replace(found, name=f"openclip:{architecture}/{tag}")
    return Published(found, architecture, config, quick)


def _tokenizer(open_clip: Any, published: Published) -> Any:
    """From the folder of the weights where the model has a tokenizer of the hub."""
    folder, config = published.found.folder, open_clip.get_model_config(published.source)
    if config["text_cfg"].get("hf_tokenizer_name") and (folder / CONFIG).is_file():
        return open_clip.get_tokenizer(f"local-dir:{folder}")
    return open_clip.get_tokenizer(published.source)


def _listed(open_clip: Any, name: str) -> tuple[str, str]:
    """Architecture and weights; without a name for the weights, those that are listed last."""
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
