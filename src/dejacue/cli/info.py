"""``dejacue info``."""

from __future__ import annotations

import importlib.metadata
import os
import platform

from rich.markup import escape
from rich.table import Table

from dejacue import plugins
from dejacue._version import __version__
from dejacue.cli.tables import console
from dejacue.method import kernel
from dejacue.sources.catalogue import catalogue
from dejacue.sources.encoders import SIZES
from dejacue.sources.encoders.weights import FOLDER

PACKAGES = ("numpy", "onnxruntime", "av")
EXTRAS = (
    "torch",
    "transformers",
    "open_clip_torch",
    "timm",
    "fastapi",
    "uvicorn",
    "pyarrow",
    "pandas",
    "polars",
    "fsspec",
)
FAMILIES = {"hf:": "transformers", "openclip:": "open_clip_torch", "timm:": "timm"}


def run() -> None:
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


def _weights() -> str:
    return os.environ.get(FOLDER) or f"in the Hugging Face cache ({FOLDER} is not set)"


def _encoders() -> dict[str, str]:
    """Which encoders need no connection."""
    models = {name: own for name, own in catalogue().items() if own.kind == "encoder"}
    ready = [name for name, own in models.items() if own.state == "ready"]
    damaged = {str(path): own.name for own in models.values() for path in own.damaged}
    absent = [name for name, own in models.items() if own.state in ("absent", "partial")]
    found = {"ready": ", ".join(ready)}
    if damaged:
        again = " ".join(sorted(set(damaged.values())))
        found["damaged"] = f"{', '.join(sorted(damaged))} (dejacue weights fetch {again})"
    return {**found, **({"not here": ", ".join(absent)} if absent else {})}


def _others() -> str:
    """The encoders that are given by a name, and what each kind needs that is not installed."""
    needed = {", ".join(SIZES): ("torch", "transformers")}
    needed |= {f"{family}NAME": ("torch", package) for family, package in FAMILIES.items()}
    parts = []
    for names, packages in needed.items():
        lacking = [package for package in packages if _version(package) == "not installed"]
        parts.append(f"{names} (needs {', '.join(lacking)})" if lacking else names)
    return "; ".join(parts)
