"""Between pictures and the model: frames and prompts in, masks out.

The same steps as transformers' processor, on the model's device: bytes resized with antialiasing
to the model's square and rounded to bytes, then normalised; clicks and boxes scaled along; mask
logits resized back bilinearly and cut at 0.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, need
from dejacue.sources.tracks.base import Mask, Prompt

REMEDY = "pip install 'dejacue[track]'"
MEAN = (0.485, 0.456, 0.406)  # of ImageNet, as the models were trained
DEVIATION = (0.229, 0.224, 0.225)
CORNERS = (2, 3)  # the model's labels for the corners of a box; 1 and 0 are clicks


def pixels(image: NDArray[np.uint8], size: int, device: str, dtype: Any) -> Any:
    """(H, W, 3) bytes → (3, size, size), normalised."""
    torch = need("torch", REMEDY)
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or not image.size:
        raise InputError(
            f"a frame must be uint8 of shape (height, width, 3), but this one is {image.dtype} of "
            f"shape {image.shape}"
        )
    # the CPU resizes bytes as they are; mps has no kernel for it, so that there the CPU does it too
    on_cpu = device.startswith(("cpu", "mps"))
    picture = torch.from_numpy(np.require(image, requirements=["C", "W"])).to(
        "cpu" if on_cpu else device
    )
    picture = picture.permute(2, 0, 1)[None]
    if picture.shape[-2:] != (size, size):
        picture = _resized(torch, picture if on_cpu else picture.float(), size)
        picture = picture if on_cpu else picture.round_().clamp_(0, 255)
    picture = picture.to(device).float()
    return ((picture - _channels(MEAN, device)) / _channels(DEVIATION, device))[0].to(dtype)


def clicks(prompt: Prompt, height: int, width: int, size: int) -> tuple[Any, Any]:
    """A prompt of box and points → coordinates (1, 1, n, 2) in the model's square, and labels."""
    torch = need("torch", REMEDY)
    at: list[tuple[float, float]] = []
    labels: list[int] = []
    if prompt.box is not None:
        at += [prompt.box[:2], prompt.box[2:]]
        labels += CORNERS
    for x, y, inside in prompt.points:
        at.append((x, y))
        labels.append(int(inside))
    scale = torch.tensor([size / width, size / height], dtype=torch.float32)
    coordinates = torch.tensor(at, dtype=torch.float32) * scale
    return coordinates[None, None], torch.tensor(labels, dtype=torch.int64)[None, None]


def painted(mask: Mask, size: int) -> Any:
    """A mask → (1, 1, size, size) of 0 and 1. One too thin to cover half a pixel is kept too."""
    torch = need("torch", REMEDY)
    cover = torch.from_numpy(np.asarray(mask, np.float32))[None, None]
    if cover.shape[-2:] != (size, size):
        cover = _resized(torch, cover, size)
    inside = cover >= 0.5
    return (inside if inside.any() else cover > 0).float()


def masks(logits: Any, height: int, width: int) -> NDArray[np.bool_]:
    """(n, 1, h, w) → (n, height, width)."""
    torch = need("torch", REMEDY)
    parts = [  # one after another: enlarged logits of many objects would fill the memory
        torch.nn.functional.interpolate(
            own[None].float(), size=(height, width), mode="bilinear", align_corners=False
        )[0, 0]
        > 0
        for own in logits
    ]
    return np.asarray(torch.stack(parts).cpu().numpy(), dtype=np.bool_)


def _resized(torch: Any, picture: Any, size: int) -> Any:
    return torch.nn.functional.interpolate(
        picture, size=(size, size), mode="bilinear", align_corners=False, antialias=True
    )


@cache
def _channels(values: tuple[float, ...], device: str) -> Any:
    torch = need("torch", REMEDY)
    return torch.tensor([255 * value for value in values], device=device)[:, None, None]
