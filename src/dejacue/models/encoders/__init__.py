"""Frozen image encoders by name, most of them with a text encoder beside it (docs/encoders.md).

siglip2                the published model: ONNX Runtime on the CPU, or torch where it is installed
siglip2:fp16, :int8    its smaller exports, through ONNX Runtime; rows of their own
siglip2-large, …       its larger sizes, through torch
mini                   embedded, knows the rendered scenes only
lite                   EfficientNet-Lite0 from a package of the index: pictures, no words
hf:NAME                an image model of transformers: CLIP, SigLIP, MetaCLIP, DINOv2, DINOv3, ViT …
openclip:NAME          a CLIP of open_clip: PE-Core, DFN, MetaCLIP …
timm:NAME              an image model of timm
plug-ins               entry points of the group "dejacue.encoders": a callable → Encoder
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from dejacue.errors import InputError, unknown
from dejacue.models.encoders.base import FORMS as FORMS
from dejacue.models.encoders.base import TEMPLATES as TEMPLATES
from dejacue.models.encoders.base import Encoder as Encoder
from dejacue.models.encoders.base import ImageEncoder as ImageEncoder
from dejacue.models.encoders.base import encode_vocabulary as _encode_vocabulary
from dejacue.plugins import Registry
from dejacue.records import Vocabulary

UNKNOWN_WORDS = "words that mini does not know: "
PLUG_INS: Registry[Callable[..., Encoder]] = Registry("encoders", {})
BUILT_IN = ("siglip2", "mini", "lite")
VARIANTS = {  # of siglip2, by name
    "siglip2:fp32": {"backend": "onnx", "precision": "fp32"},
    "siglip2:fp16": {"backend": "onnx", "precision": "fp16"},
    "siglip2:int8": {"backend": "onnx", "precision": "int8"},
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
    "openclip:ViT-B-32",
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
    """Refuse a name that no encoder has; load nothing.

    >>> check_name("hf:openai/clip-vit-base-patch32")
    """
    family, _, model = name.partition(":")
    if f"{family}:" in FAMILIES:
        if not model:
            example = next(example for example in EXAMPLES if example.startswith(name))
            raise InputError(f'"{name}" names no model; give one, such as {example}')
    elif name not in ENCODERS and name not in PLUG_INS:
        known = [*ENCODERS, *PLUG_INS, *(f"{family}NAME" for family in FAMILIES)]
        near = [text for text in EXAMPLES if name and name.lower() in text.lower()]
        if not near:
            raise unknown("encoder", name, known)
        remedy = f'did you mean "{near[0]}"? known: {", ".join(known)}'
        raise InputError(f'unknown encoder "{name}"; {remedy}')


def knows_no_words(name: str) -> bool:
    """Return whether a name alone tells that its encoder knows pictures only.

    >>> knows_no_words("lite"), knows_no_words("siglip2")
    (True, False)
    """
    return name == "lite" or name.startswith("timm:")


def load_encoder(name: str = "siglip2", **options: Any) -> Encoder:
    """Load an encoder by its name.

    options   of the encoder; for siglip2: backend ("onnx", "torch"; default: torch if a CUDA or
              MPS device and the extra are there, else onnx), precision, device, lower, …; for the
              others through torch: device, precision, batch

    >>> load_encoder("mini").encode_texts(["an empty cup"]).shape
    (1, 128)
    """
    check_name(name)
    if name == "siglip2" or name in VARIANTS:
        return _siglip(name, options)
    family, _, model = name.partition(":")
    ours = name in ENCODERS or f"{family}:" in FAMILIES
    hints = {}
    if name in SIZES:
        family, model, hints = "hf", SIZES[name], {"called": name}
    load = _loader(family) if ours else PLUG_INS[name]
    encoder = _load(name, load, options, *filter(None, [model]), **hints)
    if not isinstance(encoder, Encoder):
        problem = f'the plug-in "{name}" returned a {type(encoder).__name__}, not an Encoder'
        raise InputError(problem)
    return encoder


def encode_vocabulary(
    vocabulary: Vocabulary | Mapping[str, Any] | Sequence[str],
    encoder: Encoder | str,
    *,
    templates: str = "ensemble",
) -> Vocabulary:
    """Return the vocabulary (or states with their descriptions) with text features.

    encoder   as load_encoder gives it, or a name
    templates   raw, photo or definite: one form of every description; ensemble (published): the
              mean of the three unit vectors, at unit length again

    >>> encode_vocabulary({"empty": "an empty cup", "full": "a full cup"}, "mini").encoder[:13]
    'dejacue-mini@'
    """
    if not isinstance(encoder, Encoder):
        encoder = load_encoder(encoder)
    encoded = _encode_vocabulary(vocabulary, encoder, templates=templates)
    if encoded.has_text and (strange := encoder.unknown_words(encoded.descriptions)):
        warnings.warn(f"{UNKNOWN_WORDS}{', '.join(strange)}", stacklevel=2)
    return encoded


class HasOrigin(Protocol):
    """A History, or the record of it in a store, which says how it was made."""

    @property
    def id(self) -> str: ...
    @property
    def encoder(self) -> str | None: ...
    @property
    def made_with(self) -> Mapping[str, str] | None: ...


def encoder_name(history: HasOrigin) -> str:
    """Return the name of the encoder that a history was made with."""
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
    if model == "efficientnet-lite0":
        return "lite"
    if model.startswith(("openclip:", "timm:")):
        return model
    problem = f'history {history.id} was made with "{identity or "an unnamed encoder"}"'
    raise InputError(f"{problem}; name the encoder for the words, or give an .npz vocabulary")


def _loader(family: str) -> Callable[..., Encoder]:
    from dejacue.models.encoders.lite import Lite
    from dejacue.models.encoders.mini import Mini
    from dejacue.models.encoders.torch_models import OpenClip, Timm, load_transformers

    models = {"mini": Mini, "lite": Lite, "openclip": OpenClip, "timm": Timm}
    return load_transformers if family == "hf" else models[family]


def _load(
    name: str, load: Callable[..., Any], options: dict[str, Any], *model: str, **hints: str
) -> Encoder:
    """Load an encoder; refuse an option of the user that it does not have."""
    known = inspect.signature(load).parameters if options else {}
    strange = [option for option in options if option not in known]
    if strange and all(parameter.kind is not parameter.VAR_KEYWORD for parameter in known.values()):
        raise InputError(f"{name} has no option {', '.join(strange)}; leave it out")
    encoder: Encoder = load(*model, **hints, **options)
    return encoder


def _siglip(name: str, options: dict[str, Any]) -> Encoder:
    from dejacue.models.encoders import siglip

    for option, value in VARIANTS.get(name, {}).items():
        if options.get(option) not in (None, value):
            problem = f"{name} is siglip2 with {option} {value}, not {options[option]}"
            raise InputError(f"{problem}; leave {option} out, or name another encoder")
    options = {**options, **VARIANTS.get(name, {})}
    backend = options.pop("backend", None)
    if backend is None:  # a device is one of torch
        backend = "torch" if "device" in options or accelerated() else "onnx"
    if backend not in ("onnx", "torch"):
        raise unknown("backend", backend, ("onnx", "torch"))
    load = siglip.OnnxSiglip if backend == "onnx" else siglip.TorchSiglip
    return _load(f"siglip2 through {backend}", load, options)


def accelerated() -> bool:
    """Return whether siglip2 runs through torch on a device other than the CPU by default."""
    if not find_spec("torch") or not find_spec("transformers"):
        return False
    from dejacue.models.encoders.torch_models import choose_device

    return choose_device(None) != "cpu"
