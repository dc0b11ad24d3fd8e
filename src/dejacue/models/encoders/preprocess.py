"""How a model wants its images, read from the files that are published with it.

transformers   preprocessor_config.json (or, from transformers 5, processor_config.json)
open_clip      preprocess_cfg of open_clip_config.json, or open_clip's own list of weights
timm           pretrained_cfg of config.json
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, in_file, named
from dejacue.files.documents import read_json
from dejacue.video import crops

FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
MAX_ASPECT = 16  # of a strip that is longer, compared with its width, only the middle is resized
# what may stand in preprocessor_config.json; another key that is set changes the image in its way
KNOWN_KEYS = {
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
    """Resizes an image, cuts out its middle and scales its values.

    size        side of the square that the model takes
    resize      the shorter side before the cut, or both sides (``squash``)
    resample    Pillow's filter
    mean, std   of the channels, for values of 0 … 1
    rounded     half a pixel beside the middle goes to the even side, as in torchvision, and not
                to the first, as in transformers

    >>> usual = Preprocessing(224, 256, False, "bicubic", (0.5,) * 3, (0.5,) * 3)
    >>> str(usual), usual.fit(np.zeros((90, 160, 3), np.uint8)).shape
    ('shorter side 256 bicubic, middle 224, mean 0.5 std 0.5', (224, 224, 3))
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
        if not 1 <= self.size <= self.resize <= crops.MAX_SIDE:
            limits = f"give 1 to {crops.MAX_SIDE}, and no more than the image has"
            raise InputError(f"crop of {self.size} pixels from {self.resize}: {limits}")
        if len(self.mean) != 3 or len(self.std) != 3 or not all(self.std):
            problem = f"mean {self.mean} and deviation {self.std}: give three values for each"
            raise InputError(problem)

    @property
    def usual(self) -> bool:
        """Return whether images are squashed by the bilinear filter, as crops.picture does."""
        return self.squash and self.resample == "bilinear" and self.resize == self.size

    def fit(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return (size, size, 3)."""
        from PIL import Image

        if self.usual:
            return crops.fit(image, self.size)
        shorter = min(image.shape[:2])
        if not self.squash:
            image = _middle(image, MAX_ASPECT * shorter)
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
    """Return at most ``side`` rows and columns, from the middle."""
    spare = [max(0, length - side) for length in image.shape[:2]]
    top, left = (round(length / 2) if rounded else length // 2 for length in spare)
    return image[top : top + side, left : left + side]


def _listed(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:g}" for value in (values[:1] if len(set(values)) == 1 else values))


def of_transformers(folder: Path, called: str) -> Preprocessing:
    """Read preprocessor_config.json of a folder."""
    paths = (folder / "preprocessor_config.json", folder / "processor_config.json")
    path = next(filter(Path.is_file, paths), None)
    if path is None:
        problem = f"{called} has no preprocessor_config.json, which defines how images are scaled"
        raise InputError(f"{problem}; copy the authors' file to {folder}, or use another model")
    config = read_json(path)
    if path == paths[1] and isinstance(config, dict):
        config = config.get("image_processor")
    with in_file(path):
        if not isinstance(config, dict):
            raise InputError("does not state how images are scaled")
        strange = sorted(key for key, value in config.items() if key not in KNOWN_KEYS and value)
        if strange:
            problem = f"asks for {', '.join(strange[:3])}, which dejacue does not support"
            raise InputError(f"{problem}; use a model whose images are resized to one size")
        with _stating_scale():
            return _image_processor(config)


@contextmanager
def _stating_scale() -> Iterator[None]:
    """Refuse a configuration that lacks, or has wrong, what the block reads of it."""
    try:
        yield
    except (InputError, TypeError, ValueError, KeyError) as error:
        raise InputError(f"does not state how images are scaled ({error})") from None


def _image_processor(config: Mapping[str, Any]) -> Preprocessing:
    """Read the keys that most image processors of transformers share."""
    if not config.get("do_resize", True) or not config.get("do_rescale", True):
        raise InputError("images that are not resized or not rescaled are not supported")
    factor = float(config.get("rescale_factor") or 1 / 255) * 255
    cut = bool(config.get("do_center_crop"))
    size = config["size"]
    if isinstance(size, int):  # old files: of a square, or of the shorter side before a cut
        size = {"shortest_edge": size} if cut else {"height": size, "width": size}
    if not isinstance(size, Mapping):
        raise InputError(f"size {size!r:.40} is not the length of one side")
    sides = {side for name in ("height", "width", "shortest_edge") if (side := size.get(name))}
    if len(sides) != 1 or size.get("longest_edge"):
        raise InputError(f"size {dict(size)!r:.80} is not the length of one side")
    resize = int(sides.pop())
    crop: Any = config["crop_size"] if cut else resize
    if isinstance(crop, Mapping):
        if crop["height"] != crop["width"]:
            raise InputError(f"crop_size {dict(crop)} is not a square")
        crop = crop["height"]
    resample = config.get("resample")
    if resample is None:
        kind = str(config.get("image_processor_type") or config.get("feature_extractor_type"))
        if not kind.startswith("ViT"):  # of the others, the file says it
            raise InputError("resample is missing")
        resample = FILTERS["bilinear"]
    mean, std = [0.0] * 3, [1.0] * 3
    if config.get("do_normalize", True):
        mean, std = config["image_mean"], config["image_std"]
    return Preprocessing(
        int(crop),
        resize,
        not size.get("shortest_edge"),
        next((name for name, number in FILTERS.items() if number == resample), str(resample)),
        tuple(float(value) / factor for value in mean),
        tuple(float(value) / factor for value in std),
    )


def of_open_clip(config: Mapping[str, Any], size: int, called: str) -> Preprocessing:
    """Read preprocess_cfg, or an entry of open_clip's list; ``size`` is the model's."""
    mode = config.get("resize_mode", "shortest")
    if mode not in ("shortest", "squash"):
        problem = f"{called}: its images are resized by {mode}, which dejacue does not support"
        raise InputError(problem)
    with named(called), _stating_scale():
        return Preprocessing(
            size,
            size,
            mode == "squash",
            str(config["interpolation"]),
            tuple(map(float, config["mean"])),
            tuple(map(float, config["std"])),
            rounded=True,
        )


def of_timm(config: Mapping[str, Any], called: str) -> Preprocessing:
    """Read what timm.data.resolve_model_data_config gives."""
    mode = config.get("crop_mode", "center")
    if mode not in ("center", "squash"):
        problem = f"{called}: its images are cropped by {mode}, which dejacue does not support"
        raise InputError(problem)
    height, width = config["input_size"][1:]
    if height != width:
        raise InputError(f"{called}: takes images of {width}×{height} pixels, not squares")
    resize = math.floor(height / config["crop_pct"])
    scale = tuple(config["mean"]), tuple(config["std"])
    with named(called):
        return Preprocessing(
            height, resize, mode == "squash", config["interpolation"], *scale, rounded=True
        )
