"""``dejacue info``."""

from __future__ import annotations

import importlib.metadata
import os
import platform

from rich.markup import escape
from rich.table import Table

from dejacue._version import __version__
from dejacue.cli.tables import console, say
from dejacue.data.release import load_release
from dejacue.errors import DejaCueError
from dejacue.method import kernel
from dejacue.sources.encoders import SIZES, siglip, siglip_onnx, siglip_torch
from dejacue.sources.encoders.siglip_onnx import LOOKS
from dejacue.sources.encoders.weights import FOLDER, Weights

PACKAGES = ("numpy", "onnxruntime", "av")
EXTRAS = (
    "torch", "transformers", "open_clip_torch", "timm", "fastapi", "uvicorn", "pyarrow", "pandas",
    "polars", "fsspec",
)  # fmt: skip
FAMILIES = {"hf:": "transformers", "openclip:": "open_clip_torch", "timm:": "timm"}


def run(precision: str | None = None) -> None:
    if precision is not None:
        images, texts = siglip_onnx.cosines(precision)
        say(
            f"siglip2 at {precision}: cosine with fp32 at least {images:.4f} (of {LOOKS} images) "
            f"and {texts:.4f} (of {LOOKS} texts); its files were not checked: no hashes are known"
        )
        return
    used = kernel.engine("auto").name
    others = [name for name in (*kernel.compiled(), "numpy") if name != used]
    known = f"{used} (also: {', '.join(others)})" if others else used
    rows = {
        "dejacue": __version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        "engine": known if others else f"{known}; not compiled: {kernel.why_not()}",
        **{name: _version(name) for name in (*PACKAGES, *EXTRAS)},
        "weights": _weights(),
        "encoders": "; ".join(f"{name}: {ready}" for name, ready in _encoders().items()),
        "others": _others(),
    }
    try:
        rows["release"] = str(load_release().folder)
    except DejaCueError:
        rows["release"] = "not here (dejacue data fetch)"
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, escape(value))
    console().print(table)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _weights() -> str:
    return os.environ.get(FOLDER) or f"in the cache of the hub ({FOLDER} is not set)"


def _encoders() -> dict[str, str]:
    """Which encoders need no connection."""
    back_ends = {
        "onnx": [siglip_onnx.export_of(), siglip.TOKENIZER],
        "torch": [Weights(siglip.REPOSITORY, siglip.REVISION, siglip_torch.FILES)],
    }
    looked_at = {name: [weights.damaged() for weights in own] for name, own in back_ends.items()}
    complete = {name: own for name, own in looked_at.items() if None not in own}
    ready = [name for name, own in complete.items() if not any(own)]
    damaged = {str(path) for own in complete.values() for paths in own for path in paths or ()}
    found = [f"ready ({', '.join(ready)})"] if ready else []
    found += [f"damaged, get it again: {', '.join(sorted(damaged))}"] if damaged else []
    return {"mini": "ready", "siglip2": ", ".join(found) or "not here; fetched when first used"}


def _others() -> str:
    """The encoders that are given by a name, and what each kind needs that is not installed."""
    needed = {", ".join(SIZES): ("torch", "transformers")}
    needed |= {f"{family}NAME": ("torch", package) for family, package in FAMILIES.items()}
    parts = []
    for names, packages in needed.items():
        lacking = [package for package in packages if _version(package) == "not installed"]
        parts.append(f"{names} (needs {', '.join(lacking)})" if lacking else names)
    return "; ".join(parts)
