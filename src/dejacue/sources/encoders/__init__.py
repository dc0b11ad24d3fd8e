"""Frozen image encoders by name, most of them with a text encoder beside it (docs/encoders.md).

siglip2                the published model: ONNX Runtime on the CPU, or torch where it is installed
siglip2:fp16, :int8    its smaller exports, through ONNX Runtime; rows of their own
siglip2-large, …       its larger sizes, through torch
mini                   embedded, knows the rendered scenes only
hf:NAME                an image model of transformers: CLIP, SigLIP, MetaCLIP, DINOv2, DINOv3, ViT …
openclip:NAME          a CLIP of open_clip: PE-Core, DFN, MetaCLIP …
timm:NAME              an image model of timm
plug-ins               entry points of the group "dejacue.encoders": a callable → Encoder
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from dejacue.errors import InputError, unknown
from dejacue.plugins import Registry
from dejacue.records import Vocabulary
from dejacue.sources.encoders.base import (
    FORMS,
    PROMPTS,
    Encoder,
    ImageEncoder,
)
from dejacue.sources.encoders.base import encode_vocabulary as _encode_vocabulary

UNKNOWN_WORDS = "words that mini does not know: "
PLUG_INS: Registry[Callable[..., Encoder]] = Registry("encoders", {})
BUILT_IN = ("siglip2", "mini")
VARIANTS: dict[str, dict[str, str]] = {  # of siglip2, by name
    **{f"siglip2:{own}": {"backend": "onnx", "precision": own} for own in ("fp32", "fp16", "int8")},
    "siglip2:torch": {"backend": "torch"},
}
SIZES = {  # of siglip2; no revision and no hashes of them are known here: what is used is recorded
    "siglip2-large": "google/siglip2-large-patch16-256",
    "siglip2-large-384": "google/siglip2-large-patch16-384",
    "siglip2-so400m": "google/siglip2-so400m-patch14-224",
    "siglip2-so400m-384": "google/siglip2-so400m-patch14-384",
}
ENCODERS = (*BUILT_IN, *VARIANTS, *SIZES)
SAME_ROWS = {"siglip2": ("siglip2:fp32", "siglip2:torch")}  # but for rounding
FAMILIES = ("hf:", "openclip:", "timm:")
EXAMPLES = (
    "openclip:PE-Core-B-16",
    "openclip:ViT-B-16/dfn2b",
    "openclip:ViT-B-16/metaclip_fullcc",
    "hf:openai/clip-vit-base-patch32",
    "hf:facebook/metaclip-2-worldwide-huge-quickgelu",
    "hf:facebook/dinov2-base",
    "hf:facebook/dinov3-vits16-pretrain-lvd1689m",
    "timm:vit_base_patch14_dinov2.lvd142m",
)


def check_name(name: str) -> None:
    """Refuses a name that no encoder has; loads nothing."""
    family, _, model = name.partition(":")
    if f"{family}:" in FAMILIES:
        if not model:
            examples = [one for one in EXAMPLES if one.startswith(name)]
            raise InputError(f'"{name}" names no model; give one, such as {examples[0]}')
    elif name not in ENCODERS and name not in PLUG_INS:
        raise _unknown_encoder(name)


def load_encoder(name: str = "siglip2", **options: Any) -> Encoder:
    """An encoder by name.

    options   of the encoder; for siglip2: backend ("onnx", "torch"; default: torch if a CUDA or
              MPS device and the extra are there, else onnx), precision, device, lower, …; for the
              others through torch: device, precision, batch
    """
    if not isinstance(name, str):
        raise InputError(f"encoder {name!r:.40} is neither a name nor an Encoder")
    check_name(name)
    family, _, model = name.partition(":")
    if f"{family}:" in FAMILIES:
        return _made(name, _loader(family), options, model)
    if name == "siglip2":
        return _siglip(**options)
    if name in VARIANTS:
        return _variant(name, options)
    if name in SIZES:
        return _made(name, _loader("hf"), options, SIZES[name], called=name)
    if name == "mini":
        from dejacue.sources.encoders.mini import Mini

        return _made(name, Mini, options)
    made = _made(name, PLUG_INS[name], options)
    if not isinstance(made, Encoder):
        raise InputError(f'the plug-in "{name}" returned a {type(made).__name__}, not an Encoder')
    return made


def encode_vocabulary(
    vocabulary: Vocabulary | Mapping[str, Any], encoder: Encoder | str, *, prompts: str = "ensemble"
) -> Vocabulary:
    """The vocabulary (or states with their descriptions) with text features.

    encoder   as load_encoder gives it, or a name
    prompts   raw, photo or definite: one form of every description; ensemble (published): the
              mean of the three unit vectors, at unit length again
    """
    if not isinstance(encoder, Encoder):
        encoder = load_encoder(encoder)
    found = _encode_vocabulary(vocabulary, encoder, prompts=prompts)
    if found.spoken and (strange := encoder.unknown_words(found.descriptions)):
        warnings.warn(f"{UNKNOWN_WORDS}{', '.join(strange)}", stacklevel=2)
    return found


class HasOrigin(Protocol):
    """What tells how a history was made: a History itself, or what a store knows of one."""

    @property
    def id(self) -> str: ...
    @property
    def encoder(self) -> str | None: ...
    @property
    def made_with(self) -> Mapping[str, str] | None: ...


def encoder_name(history: HasOrigin) -> str:
    """The name of the encoder that a history was made with."""
    identity = history.encoder or ""
    model, _, revision = identity.partition("@")
    for name, repository in SIZES.items():
        if model == repository:
            return name
    if "/" in model and (history.made_with or {}).get("backend") == "transformers":
        return f"hf:{model}"
    if model == "google/siglip2-base-patch16-224":
        return "".join(("siglip2", *revision.partition(":")[1:]))
    if model == "dejacue-mini":
        return "mini"
    if model.startswith(("openclip:", "timm:")):
        return model
    raise InputError(
        f'history {history.id} was made with "{identity or "an unnamed encoder"}"; name the '
        "encoder for the words with --encoder, or give an .npz vocabulary"
    )


def _loader(family: str) -> Callable[..., Encoder]:
    if family == "hf":
        from dejacue.sources.encoders._transformers import load_transformers

        return load_transformers
    if family == "openclip":
        from dejacue.sources.encoders._open_clip import OpenClip

        return OpenClip
    from dejacue.sources.encoders._timm import Timm

    return Timm


def _made(
    name: str, load: Callable[..., Any], options: dict[str, Any], *model: str, **own: str
) -> Encoder:
    """An encoder with the options of its user, of which it must know all."""
    known = inspect.signature(load).parameters if options else {}
    strange = [option for option in options if option not in known]
    if strange and all(one.kind is not one.VAR_KEYWORD for one in known.values()):
        raise InputError(f"{name} has no option {', '.join(strange)}; leave it out")
    made: Encoder = load(*model, **own, **options)
    return made


def _unknown_encoder(name: str) -> InputError:
    known = [*ENCODERS, *PLUG_INS, *(f"{family}NAME" for family in FAMILIES)]
    near = [one for one in EXAMPLES if name and name.lower() in one.lower()]
    if near:
        return InputError(
            f'unknown encoder "{name}"; did you mean "{near[0]}"? known: {", ".join(known)}'
        )
    return unknown("encoder", name, known)


def _variant(name: str, options: dict[str, Any]) -> Encoder:
    for option, value in VARIANTS[name].items():
        if options.get(option) not in (None, value):
            raise InputError(
                f"{name} is siglip2 with {option} {value}, not {options[option]}; leave {option} "
                "out, or name another encoder"
            )
    return _siglip(**{**options, **VARIANTS[name]})


def _siglip(backend: str | None = None, **options: Any) -> Encoder:
    if backend is None:  # a device is one of torch
        backend = "torch" if "device" in options or accelerated() else "onnx"
    if backend == "onnx":
        from dejacue.sources.encoders.siglip_onnx import OnnxSiglip

        return _made("siglip2 through onnx", OnnxSiglip, options)
    if backend == "torch":
        from dejacue.sources.encoders.siglip_torch import TorchSiglip

        return _made("siglip2 through torch", TorchSiglip, options)
    raise unknown("backend", backend, ("onnx", "torch"))


def accelerated() -> bool:
    from importlib.util import find_spec

    if not find_spec("torch") or not find_spec("transformers"):
        return False
    from dejacue.sources.encoders.siglip_torch import choose_device

    return choose_device(None) != "cpu"


__all__ = [
    "FORMS",
    "PROMPTS",
    "Encoder",
    "ImageEncoder",
    "encode_vocabulary",
    "encoder_name",
    "load_encoder",
]
