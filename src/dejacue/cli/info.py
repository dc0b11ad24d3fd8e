"""``dejacue info``: what is installed here."""

from __future__ import annotations

import importlib.metadata
import os
import platform

from rich.table import Table

from dejacue import plugins
from dejacue._version import __version__
from dejacue.cli.tables import console, escape

PACKAGES = ("numpy", "onnxruntime", "av", "torch", "transformers", "open_clip_torch", "timm")
EXTRAS = ("opencv-python-headless", "fastapi", "uvicorn", "pyarrow", "pandas", "polars", "fsspec")
FAMILIES = {"hf:": "transformers", "openclip:": "open_clip_torch", "timm:": "timm"}


def info() -> None:
    """Show versions, the kernel in use, installed extras and available encoders."""
    from dejacue.method import kernel
    from dejacue.models.weights import FOLDER

    used = kernel.engine("auto").name
    others = [name for name in (*kernel.compiled(), "numpy") if name != used]
    known = f"{used} (also: {', '.join(others)})" if others else used
    rows = {
        "dejacue": __version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        "engine": known if others else f"{known}; not compiled: {kernel.why_not()}",
        **{name: _version(name) for name in (*PACKAGES, *EXTRAS)},
        "weights": os.environ.get(FOLDER) or f"in the Hugging Face cache ({FOLDER} is not set)",
        "encoders": _encoders(),
        "others": _others(),
        "plug-ins": ", ".join(plugins.packages()) or "none",
    }
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


def _encoders() -> str:
    """Return the names of the encoders by whether their files are here."""
    from dejacue.models.catalogue import catalogue

    states: dict[str, list[str]] = {}
    for model in catalogue().values():
        if model.kind == "encoder":
            states.setdefault(model.state, []).append(model.name)
    return "; ".join(f"{state}: {', '.join(names)}" for state, names in states.items())


def _others() -> str:
    """Return the encoders that are given by a name, and what each needs that is not installed."""
    parts = []
    for family, package in FAMILIES.items():
        lacking = [name for name in ("torch", package) if _version(name) == "not installed"]
        parts.append(f"{family}NAME" + (f" (needs {', '.join(lacking)})" if lacking else ""))
    return "; ".join(parts)
