"""How a model wants its images, read from the files that are published with it.

transformers   preprocessor_config.json (or, from transformers 5, processor_config.json)
open_clip      preprocess_cfg of open_clip_config.json, or open_clip's own list of weights
timm           pretrained_cfg of config.json
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.sources import crops
from dejacue.sources.documents import read_json

FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
LONGEST = 16  # of a strip that is longer, compared with its width, only the middle is resized
# what may stand in preprocessor_config.json; another key that is set changes the image in its way
KNOWN = {
    "do_resize",
    "size",
    "resample",
    "do_center_crop",
    "crop_size",
    "do_rescale",
    "rescale_factor",
    "do_normalize",
    "image_mean",
    "image_std",
    "do_convert_rgb",
    "image_processor_type",
    "feature_extractor_type",
    "processor_class",
    "_valid_processor_keys",
    "data_format",
    "input_data_format",
    "default_to_square",
    "return_tensors",
    "auto_map",
    "backend",
    "use_fast",
    "image_seq_length",
}


@dataclass(frozen=True)
class Preprocessing:
    """Resized, its middle cut out, scaled.

    size        side of the square that the model takes
    resize      the shorter side before the cut, or both sides (``squash``)
    resample    Pillow's filter
    mean, std   of the channels, for values of 0 … 1
    rounded     half a pixel beside the middle goes to the even side, as in torchvision, and not
                to the first, as in transformers
    """

    size: int
    resize: int
    squash: bool
    resample: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rounded: bool = False

    def __post_init__(self) -> None:
        if self.resample not in FILTERS:
            raise InputError(f'the filter "{self.resample}" is not one of {", ".join(FILTERS)}')
        if not 1 <= self.size <= self.resize <= crops.LARGEST:
            raise InputError(
                f"crop of {self.size} pixels from {self.resize}: give 1 to {crops.LARGEST}, and "
                "no more than the image has"
            )
        if len(self.mean) != 3 or len(self.std) != 3 or not all(self.std):
            raise InputError(
                f"mean {self.mean} and deviation {self.std}: give three values for each"
            )

    @property
    def usual(self) -> bool:
        """Squashed by the bilinear filter, as crops.picture does."""
        return self.squash and self.resample == "bilinear" and self.resize == self.size

    def fit(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """(size, size, 3)."""
        from PIL import Image

        if self.usual:
            return crops.fit(image, self.size)
        shorter = min(image.shape[:2])
        if not self.squash:
            image = _middle(image, LONGEST * shorter)
        height, width = image.shape[:2]
        sides = (self.resize, self.resize)
        if not self.squash:
            sides = (self.resize * width // shorter, self.resize * height // shorter)
        picture = Image.fromarray(image)
        for step in ((sides[0], height), sides):  # rows first, as crops.fit
            if step != picture.size:
                picture = picture.resize(step, Image.Resampling(FILTERS[self.resample]))
        return np.ascontiguousarray(_middle(np.asarray(picture), self.size, self.rounded))

    def __str__(self) -> str:
        how = "both sides" if self.squash else "shorter side"
        scaled = f"mean {_listed(self.mean)} std {_listed(self.std)}"
        return f"{how} {self.resize} {self.resample}, middle {self.size}, {scaled}"


def _middle(image: NDArray[np.uint8], side: int, rounded: bool = False) -> NDArray[np.uint8]:
    """At most so many rows and columns, from the middle."""
    spare = [max(0, length - side) for length in image.shape[:2]]
    top, left = (round(length / 2) if rounded else length // 2 for length in spare)
    return image[top : top + side, left : left + side]


def _listed(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:g}" for value in (values[:1] if len(set(values)) == 1 else values))


def of_transformers(folder: Path, called: str) -> Preprocessing:
    """From preprocessor_config.json of a folder."""
    path = folder / "preprocessor_config.json"
    inner = folder / "processor_config.json"
    if path.is_file():
        found = read_json(path)
    elif inner.is_file():
        path = inner
        found = read_json(path)
        found = found.get("image_processor") if isinstance(found, dict) else None
    else:
        raise InputError(
            f"{called} has no preprocessor_config.json, which defines how images are scaled; copy "
            f"the authors' file to {folder}, or use another model"
        )
    if not isinstance(found, dict):
        raise InputError(f"{path}: does not state how images are scaled")
    strange = sorted(key for key, value in found.items() if key not in KNOWN and value)
    if strange:
        raise InputError(
            f"{path}: asks for {', '.join(strange[:3])}, which dejacue does not support; use a "
            "model whose images are resized to one size"
        )
    try:
        return _plain(found)
    except (InputError, TypeError, ValueError, KeyError) as error:
        raise InputError(f"{path}: does not state how images are scaled ({error})") from None


def _plain(found: Mapping[str, Any]) -> Preprocessing:
    """The keys that most image processors of transformers share."""
    if not found.get("do_resize", True) or not found.get("do_rescale", True):
        raise InputError("images that are not resized or not rescaled are not supported")
    factor = float(found.get("rescale_factor") or 1 / 255) * 255
    cut = bool(found.get("do_center_crop"))
    size = found["size"]
    if isinstance(size, int):  # old files: of a square, or of the shorter side before a cut
        size = {"shortest_edge": size} if cut else {"height": size, "width": size}
    if not isinstance(size, Mapping):
        raise InputError(f"size {size!r:.40} is not the length of one side")
    sides = {side for name in ("height", "width", "shortest_edge") if (side := size.get(name))}
    if len(sides) != 1 or size.get("longest_edge"):
        raise InputError(f"size {dict(size)!r:.80} is not the length of one side")
    resize = int(sides.pop())
    squash = not size.get("shortest_edge")
    crop: Any = found["crop_size"] if cut else resize
    if isinstance(crop, Mapping):
        if crop["height"] != crop["width"]:
            raise InputError(f"crop_size {dict(crop)} is not a square")
        crop = crop["height"]
    resample = found.get("resample")
    if resample is None:
        kind = str(found.get("image_processor_type") or found.get("feature_extractor_type"))
        if not kind.startswith("ViT"):  # of the others, the file says it
            raise InputError("resample is missing")
        resample = FILTERS["bilinear"]
    scaled = found.get("do_normalize", True)
    mean, std = (found["image_mean"], found["image_std"]) if scaled else ([0.0] * 3, [1.0] * 3)
    return Preprocessing(
        int(crop),
        resize,
        squash,
        _filter(resample),
        tuple(float(value) / factor for value in mean),
        tuple(float(value) / factor for value in std),
    )


def _filter(number: Any) -> str:
    return next((name for name, at in FILTERS.items() if at == number), str(number))


def of_open_clip(found: Mapping[str, Any], size: int, called: str) -> Preprocessing:
    """From preprocess_cfg, or from an entry of open_clip's list; ``size`` is the model's."""
    mode = found.get("resize_mode", "shortest")
    if mode not in ("shortest", "squash"):
        raise InputError(
            f"{called}: its images are resized by {mode}, which dejacue does not support"
        )
    try:
        return Preprocessing(
            size,
            size,
            mode == "squash",
            str(found["interpolation"]),
            tuple(map(float, found["mean"])),
            tuple(map(float, found["std"])),
            rounded=True,
        )
    except (InputError, TypeError, ValueError, KeyError) as error:
        raise InputError(f"{called}: does not state how images are scaled ({error})") from None


def of_timm(found: Mapping[str, Any], called: str) -> Preprocessing:
    """From what timm.data.resolve_model_data_config gives."""
    mode = found.get("crop_mode", "center")
    if mode not in ("center", "squash"):
        raise InputError(
            f"{called}: its images are cropped by {mode}, which dejacue does not support"
        )
    height, width = found["input_size"][1:]
    if height != width:
        raise InputError(f"{called}: takes images of {width}×{height} pixels, not squares")
    resize = math.floor(height / found["crop_pct"])
    scale = tuple(found["mean"]), tuple(found["std"])
    try:
        return Preprocessing(
            height, resize, mode == "squash", found["interpolation"], *scale, rounded=True
        )
    except InputError as error:
        raise InputError(f"{called}: {error}") from None
