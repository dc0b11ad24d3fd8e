"""From a name to a tracker with its published weights.

    sam2                                         sam2-small
    sam2-tiny, -small, -base-plus, -large        facebook/sam2.1-hiera-…
    edgetam                                      yonigozlan/EdgeTAM-hf; needs timm as well
    sam2:FOLDER                                  config.json and model.safetensors of either kind

Small is the default: it costs about as much as tiny, and runs where base-plus is slow. No revision
is pinned; the one that was found and the hash of its weights are in the tracker's details.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dejacue.errors import InputError, first_line, need, shown, unknown
from dejacue.sources.encoders.torch_models import choose_device, dtype_of
from dejacue.sources.encoders.weights import Weights, commit, files_in, sha256
from dejacue.sources.tracks.sam2.images import REMEDY
from dejacue.sources.tracks.sam2.tracker import CLASSES, Sam2Tracker

DEFAULT = "sam2-small"
REPOSITORIES = {
    **{
        f"sam2-{size}": f"facebook/sam2.1-hiera-{size}"
        for size in ("tiny", "small", "base-plus", "large")
    },
    "edgetam": "yonigozlan/EdgeTAM-hf",
}
FILES: dict[str, str | None] = {"config.json": None, "model.safetensors": None}
REVISION = "main"
SAM3 = (
    "sam3 is not offered: its weights are gated and under the SAM License, which restricts their "
    "use, so they cannot be downloaded for you; track the object from a box or a click with sam2"
)


def load(
    name: str = "sam2",
    *,
    device: str | None = None,
    precision: str | None = None,
    fallback: bool = False,
) -> Sam2Tracker:
    """The tracker of that name.

    device      cuda, mps or cpu (default: the first that is there)
    precision   fp32, bf16 or fp16 (default: bf16 on cuda, else fp32)
    fallback    falls back to the CPU when the memory of the device is full, instead of failing
    """
    kind, _, folder = name.partition(":")
    if kind == "sam3":
        raise InputError(SAM3)
    if kind != "sam2" and kind not in REPOSITORIES:
        raise unknown("tracker", name, ["sam2", *REPOSITORIES, "sam2:FOLDER"])
    need("torch", REMEDY)
    transformers = need("transformers", REMEDY)
    device = choose_device(device)
    precision = precision or ("bf16" if device.startswith("cuda") else "fp32")
    dtype = dtype_of(precision)
    repository = REPOSITORIES[DEFAULT if kind == "sam2" else kind]
    files = (
        files_in(Path(folder), FILES) if folder else Weights(repository, REVISION, FILES).fetch()
    )
    classes = _classes(files["config.json"])
    if not hasattr(transformers, classes[0]):
        raise InputError(f"this transformers has no {classes[0]}; {REMEDY} --upgrade")
    model = _model(getattr(transformers, classes[0]), files["model.safetensors"].parent, dtype)
    digest = sha256(files["model.safetensors"])
    details = {
        "model": folder or repository,
        "revision": commit(files["config.json"]) or "unknown",
        "sha256 model.safetensors": digest,
        "transformers": transformers.__version__,
    }
    return Sam2Tracker(
        model,
        name,
        device=device,
        precision=precision,
        fallback=fallback,
        key=digest,
        details=details,
    )


def _classes(path: Path) -> tuple[str, str]:
    """The names of the model's class and of its session's."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        kind = config["model_type"]
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        raise InputError(
            f"{path}: is not the configuration of a model; download it again"
        ) from None
    if str(kind) not in CLASSES:
        raise InputError(
            f'{path}: describes a "{shown(kind)}"; a tracker must be one of {", ".join(CLASSES)}'
        )
    if '"timm_wrapper"' in json.dumps(config):
        need("timm", "EdgeTAM also needs it: pip install 'dejacue[track]' timm")
    return CLASSES[str(kind)]


def _model(kind: Any, folder: Path, dtype: Any) -> Any:
    try:
        model, loaded = kind.from_pretrained(
            folder, dtype=dtype, local_files_only=True, output_loading_info=True
        )
    except Exception as error:  # safetensors and transformers raise their own kinds
        raise InputError(
            f"{folder / 'model.safetensors'}: cannot be loaded ({first_line(error)}); download it "
            "and config.json again, or upgrade transformers"
        ) from error
    if loaded["missing_keys"] or loaded["mismatched_keys"]:
        lacking = sorted(map(str, [*loaded["missing_keys"], *loaded["mismatched_keys"]]))
        raise InputError(
            f"{folder / 'model.safetensors'}: does not hold all weights of the model "
            f"({lacking[0]} and {len(lacking) - 1} more are missing); download it again"
        )
    return model
