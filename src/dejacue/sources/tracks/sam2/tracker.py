"""A model of the SAM 2 family on a device, ready to follow objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dejacue.errors import InputError, need
from dejacue.sources.encoders.siglip_torch import dtype_of
from dejacue.sources.tracks.sam2.images import REMEDY
from dejacue.sources.tracks.sam2.memory import Reach
from dejacue.sources.tracks.sam2.session import Sam2Session

CLASSES = {  # by the model_type of its config.json
    "sam2_video": ("Sam2VideoModel", "Sam2VideoInferenceSession"),
    "edgetam_video": ("EdgeTamVideoModel", "EdgeTamVideoInferenceSession"),
}


class Sam2Tracker:
    """See ``base.Tracker``.

    model       a ``Sam2VideoModel`` or ``EdgeTamVideoModel`` in that precision, anywhere
    key         tells this model from others: states are only taken back by the same
    fallback    whether it falls back to the CPU when the memory of the device is full
    """

    approximate: bool = False
    independent: bool = True

    def __init__(
        self,
        model: Any,
        name: str,
        *,
        device: str,
        precision: str,
        fallback: bool = False,
        key: str = "",
        details: Mapping[str, str] | None = None,
    ) -> None:
        transformers = need("transformers", REMEDY)
        self.name, self.key = name, key
        self.model = model.eval().requires_grad_(False)
        self.device, self.precision = "cpu", precision
        self.dtype = dtype_of(precision)
        self.size = int(model.config.image_size)
        self.reach = Reach.of(model)
        self.session_class = getattr(transformers, CLASSES[model.config.model_type][1])
        self.details: Mapping[str, str] = {
            **(details or {}),
            "device": device,
            "precision": precision,
        }
        self._fallback = fallback
        try:
            self._move(device)
        except RuntimeError as error:
            self.device = device
            self.make_room(error)

    def session(self) -> Sam2Session:
        return Sam2Session(self)

    def make_room(self, error: RuntimeError) -> None:
        """After ``error``: goes to the CPU if that helps and is wanted, otherwise raises."""
        torch = need("torch", REMEDY)
        full = isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error)
        if not full:
            raise error
        if self.device == "cpu" or not self._fallback:
            raise InputError(
                f"{self.name}: the device {self.device} is out of memory; close other programs "
                "that use it, choose a smaller model (sam2-tiny), track fewer objects, or use "
                "the device cpu"
            ) from error
        lost = self.device
        self.dtype, self.precision = dtype_of("fp32"), "fp32"
        self._move("cpu", self.dtype)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self.details = {
            **self.details,
            "device": "cpu",
            "precision": "fp32",
            "note": f"{lost} ran out of memory, so tracking continued on the CPU, which is slower",
        }

    def _move(self, device: str, dtype: Any = None) -> None:
        self.model = self.model.to(device, dtype)
        self.device = device
        _remember_constants(self.model)


def _remember_constants(model: Any) -> None:
    """Position encodings depend on sizes alone; transformers computes them for every frame."""
    encoder = model.vision_encoder
    for owner, name in (
        (getattr(getattr(encoder, "neck", None), "position_encoding", None), "forward"),
        (getattr(encoder, "backbone", None), "_get_pos_embed"),
        (getattr(model.memory_attention, "rotary_emb", None), "forward"),
        (model, "get_image_wide_positional_embeddings"),
    ):
        if hasattr(owner, name):
            vars(owner).pop(name, None)  # what was remembered elsewhere
            setattr(owner, name, _remembered(getattr(owner, name)))


def _remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[Any, Any] = {}

    def looked_up(*given: Any) -> Any:
        key = tuple((*g.shape, g.dtype, g.device) if hasattr(g, "dtype") else g for g in given)
        if key not in known:
            known[key] = function(*given)
        return known[key]

    return looked_up
