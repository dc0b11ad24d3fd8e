"""Frozen image–text encoders by name.

siglip2                the published model: ONNX Runtime on the CPU, or torch where it is installed
mini                   embedded, knows the rendered scenes only
hf:NAME, openclip:NAME any CLIP or SigLIP
plug-ins               entry points of the group "dejacue.encoders": a callable → Encoder
"""

from __future__ import annotations

from typing import Any

from dejacue.errors import InputError, unknown
from dejacue.records import History
from dejacue.sources.encoders.base import FORMS, PROMPTS, Encoder, encode_vocabulary

GROUP = "dejacue.encoders"
BUILT_IN = ("siglip2", "mini")


def load_encoder(name: str = "siglip2", **options: Any) -> Encoder:
    """An encoder by name.

    options   of the encoder; for siglip2: backend ("onnx", "torch"; default: torch if a CUDA or
              MPS device and the extra are there, else onnx), precision, device, lower, …
    """
    if not isinstance(name, str):
        raise InputError(f"encoder {name!r:.40} is neither a name nor an Encoder")
    if name.startswith("hf:"):
        from dejacue.sources.encoders._clip import Transformers

        return Transformers(name.removeprefix("hf:"), **options)
    if name.startswith("openclip:"):
        from dejacue.sources.encoders._clip import OpenClip

        return OpenClip(name.removeprefix("openclip:"), **options)
    if name == "siglip2":
        return _siglip(**options)
    if name == "mini":
        from dejacue.sources.encoders.mini import Mini

        return Mini(**options)
    plug_ins = {entry.name: entry for entry in _entry_points()}
    if name not in plug_ins:
        raise unknown("encoder", name, [*BUILT_IN, *plug_ins, "hf:NAME", "openclip:NAME"])
    made = plug_ins[name].load()(**options)
    if not isinstance(made, Encoder):
        raise InputError(f'the plug-in "{name}" returned a {type(made).__name__}, not an Encoder')
    return made


def encoder_name(history: History) -> str:
    """The name of the encoder that a history was made with."""
    identity = history.encoder or ""
    if identity.startswith("google/siglip2-base-patch16-224"):
        return "siglip2"
    if identity.startswith("dejacue-mini"):
        return "mini"
    if identity.startswith("openclip:"):
        return identity
    raise InputError(
        f'history {history.id} was made with "{identity or "an unnamed encoder"}"; name the '
        "encoder for the words with --encoder, or give an .npz vocabulary"
    )


def _siglip(backend: str | None = None, **options: Any) -> Encoder:
    if backend is None:
        backend = "torch" if _accelerated() else "onnx"
    if backend == "onnx":
        from dejacue.sources.encoders.siglip_onnx import OnnxSiglip

        return OnnxSiglip(**options)
    if backend == "torch":
        from dejacue.sources.encoders.siglip_torch import TorchSiglip

        return TorchSiglip(**options)
    raise unknown("backend", backend, ("onnx", "torch"))


def _accelerated() -> bool:
    from importlib.util import find_spec

    if not find_spec("torch") or not find_spec("transformers"):
        return False
    from dejacue.sources.encoders.siglip_torch import choose_device

    return choose_device(None) != "cpu"


def _entry_points() -> Any:
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


__all__ = ["FORMS", "PROMPTS", "Encoder", "encode_vocabulary", "encoder_name", "load_encoder"]
