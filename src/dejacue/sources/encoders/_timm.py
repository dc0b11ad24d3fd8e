"""``timm:NAME``: an image model of timm, from the hub or a folder. It has no words."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Any

from dejacue.errors import InputError, need
from dejacue.sources.encoders._torch import BATCH, TorchEncoder, loaded
from dejacue.sources.encoders.base import ImageEncoder
from dejacue.sources.encoders.preprocess import of_timm
from dejacue.sources.encoders.siglip_torch import REMEDY
from dejacue.sources.encoders.weights import find_model

EXTRA = "pip install 'dejacue[timm]'"
FILES = ("model.safetensors", "pytorch_model.bin")


class Timm(ImageEncoder, TorchEncoder):
    """Rows are what the model pools before it classifies."""

    def __init__(
        self,
        name: str,
        *,
        device: str | None = None,
        precision: str | None = None,
        batch: int = BATCH,
    ) -> None:
        called = f"timm:{name}"
        need("torch", REMEDY)
        timm = need("timm", EXTRA)
        super().__init__(called, device, precision, batch)
        found = find_model(_repository(timm, name), called, FILES)
        if not (found.folder / "config.json").is_file():
            raise InputError(f"{called} has no config.json, so it is not a timm model")
        # with its classes first: without them timm would not miss weights that are missing
        model = loaded(
            called, lambda: timm.create_model(f"local-dir:{found.folder}", pretrained=True)
        )
        model.reset_classifier(0)
        self.identity = replace(found, name=f"timm:{found.name.removeprefix('timm/')}").identity
        images = of_timm(timm.data.resolve_model_data_config(model), called)
        self.prepare(model, images)
        self.details = {
            "backend": "timm",
            "precision": self.precision,
            "timm": str(timm.__version__),
            "images": str(images),
            **found.details,
        }

    def image_rows(self, images: Any) -> Any:
        return self._model(images)


def _repository(timm: Any, name: str) -> str:
    """Where a model of timm's list lies on the hub; a folder is itself."""
    if Path(name).expanduser().is_dir():
        return name
    known = timm.list_pretrained()
    if name not in known and name not in timm.list_models():  # without a tag: timm's default
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise InputError(f'timm has no weights "{name}"; {hint}timm.list_pretrained() lists all')
    repository = timm.get_pretrained_cfg(name).hf_hub_id
    if not repository:
        raise InputError(f"timm:{name} has no weights on the Hub; choose another model")
    return str(repository)
