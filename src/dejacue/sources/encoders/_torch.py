"""What the encoders through torch share: images in, rows out, as the model's files say."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from dejacue.errors import InputError, MissingData, MissingExtra, need
from dejacue.sources.encoders.base import CPU_PACE, Crops, Encoder, Rows, unit
from dejacue.sources.encoders.preprocess import Preprocessing
from dejacue.sources.encoders.siglip_torch import (
    REMEDY,
    Tower,
    choose_device,
    choose_precision,
    dtype_of,
    to_device,
)
from dejacue.sources.encoders.weights import first_sentence

BATCH = 64
SAME = 0.99  # cosine of two rows of one image


def loaded(name: str, load: Callable[[], Any]) -> Any:
    """A model from a folder, or an error of one sentence."""
    try:
        return load()
    except ImportError as error:
        raise MissingExtra(
            f"{name} needs a package that is not installed ({first_sentence(error)})"
        ) from None
    except Exception as error:  # transformers, safetensors and tokenizers raise their own kinds
        raise MissingData(
            f"{name} could not be loaded ({first_sentence(error)}); its files may be incomplete: "
            "download them again, or choose another model"
        ) from None


class TorchEncoder(Encoder):
    """A model of torch that takes square images."""

    def __init__(
        self,
        called: str,
        device: str | None,
        precision: str | None,
        batch: int,
        compile: bool | None = None,
    ) -> None:
        need("torch", REMEDY)
        self.name, self.batch = called, batch
        self.device = choose_device(device)
        self.precision = choose_precision(precision, self.device)
        self._dtype = dtype_of(self.precision)
        self._tower = Tower(self._rows_of, batch, self.device, compile)
        self.workers = 2 if self.device.startswith("cuda") else 1
        self.pace = CPU_PACE if self.device == "cpu" else None

    @abstractmethod
    def image_rows(self, images: Any) -> Any:
        """(n, dimension) of scaled images (n, 3, size, size)."""

    def prepare(self, model: Any, images: Preprocessing) -> None:
        """Takes the model to its device; finds the dimension with an image of noise, twice: some
        models hide a part of every image by chance."""
        torch = need("torch", REMEDY)
        self._model = model.eval().requires_grad_(False).to(self.device, self._dtype)
        self.size, self.images = images.size, images
        self.fit = None if images.usual else images.fit
        channels = (1, 3, 1, 1)
        self._mean, self._std = (
            torch.tensor(values, device=self.device).reshape(channels)
            for values in (images.mean, images.std)
        )
        noise = np.random.default_rng(0).integers(0, 256, (self.size, self.size, 3), np.uint8)
        try:
            first, again = (self.encode_images([noise])[0] for _ in range(2))
        except InputError:
            raise
        except (RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise InputError(
                f"{self.name} gives no features for an image of {self.size}×{self.size} pixels "
                f"({first_sentence(error)}); choose another model"
            ) from None
        if float(first @ again) < SAME:
            raise InputError(
                f"{self.name} gives different features for the same image; choose another model"
            )
        self.dimension = len(first)

    def encode_images(self, crops: Crops) -> Rows:
        torch = need("torch", REMEDY)
        parts = []
        side = (self.size, self.size)
        with torch.inference_mode():
            for at in range(0, len(crops), self.batch):
                own = [
                    crop if crop.shape[:2] == side else self.images.fit(crop)
                    for crop in crops[at : at + self.batch]
                ]
                parts.append(self._tower(to_device(own, self.device)).float())
            rows = torch.cat(parts).cpu().numpy()
        if rows.ndim != 2:
            raise ValueError(f"rows of shape {rows.shape}")
        return unit(rows, "image")

    def _rows_of(self, images: Any) -> Any:
        scaled = images.permute(0, 3, 1, 2).float() / 255
        return self.image_rows(((scaled - self._mean) / self._std).to(self._dtype))
