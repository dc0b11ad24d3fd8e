"""The models that load_encoder and load_tracker know by name: their files, sizes, licences, state.

Sizes are those of the parameters (counted on models built from their configurations,
docs/encoders.md) until the files are here.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from dejacue.errors import MissingData, unknown
from dejacue.sources.encoders import SIZES, accelerated, siglip
from dejacue.sources.encoders.weights import Weights, obtain
from dejacue.sources.tracks.sam2 import loading

MAIN = "main"  # the latest: no revision is published that could be pinned
OF_A_SIZE = (
    "config.json",
    "model.safetensors",
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
)
PARAMETERS = {
    "siglip2-large": 881_526_786,
    "siglip2-large-384": 881_854_466,
    "siglip2-so400m": 1_135_463_602,
    "siglip2-so400m-384": 1_136_008_498,
    "sam2-tiny": 38_962_498,
    "sam2-small": 46_060_354,
    "sam2-base-plus": 80_833_714,
    "sam2-large": 224_446_642,
}
OF_SIGLIP2 = 375_187_970
BYTES = {"fp32": 4, "fp16": 2, "int8": 1}
APACHE = "apache-2.0"


@dataclass(frozen=True, eq=False)
class Model:
    """A model by its name, and the files that it needs.

    kind    encoder or tracker
    parts   files by repository; none: it lies in the package
    needs   the extra that runs it
    about   bytes of the download, as far as that is known before
    """

    name: str
    kind: str
    parts: tuple[Weights, ...]
    needs: str = ""
    about: int | None = None
    licence: str = APACHE

    @cached_property
    def damaged(self) -> list[Path]:
        """The files that are here but not whole, as far as a short look tells."""
        return [path for own in self.parts for path in own.damaged()]

    @cached_property
    def state(self) -> str:
        """absent, partial, damaged or ready."""
        paths = [path for _, _, path in self.files()]
        if all(paths):
            return "damaged" if self.damaged else "ready"
        return "damaged" if self.damaged else "partial" if any(paths) else "absent"

    def files(self) -> list[tuple[Weights, str, Path | None]]:
        return [(own, name, path) for own in self.parts for name, path in own.here().items()]

    def megabytes(self) -> float | None:
        """Size of the files if all are here, else of the download, as far as that is known."""
        paths = [path for _, _, path in self.files()]
        if paths and all(paths):
            return sum(path.stat().st_size for path in paths if path) / 1e6
        return None if self.about is None else self.about / 1e6

    def size(self) -> str:
        """The size in words."""
        if (known := self.megabytes()) is None:
            return "" if self.parts else "in the package"
        return f"{'about ' if self.state in ('absent', 'partial') else ''}{known:.0f} MB"

    def lines(self) -> list[str]:
        """The commands that get the files on a machine with a connection."""
        return [own.line() for own in self.parts]

    def fetch(self) -> None:
        """Downloads what is missing or damaged, and checks hashes."""
        obtain(self.name, self.parts)


def catalogue() -> dict[str, Model]:
    """Every model by its name, encoders first."""
    models = [Model("mini", "encoder", (), licence="as dejacue")]
    for precision, size in BYTES.items():
        parts = siglip.onnx_export(precision), siglip.TOKENIZER
        name = "siglip2" if precision == "fp32" else f"siglip2:{precision}"
        models.append(Model(name, "encoder", parts, about=size * OF_SIGLIP2))
    published = Weights(siglip.REPOSITORY, siglip.REVISION, siglip.TORCH_FILES)
    models.append(Model("siglip2:torch", "encoder", (published,), "torch", 4 * OF_SIGLIP2))
    for name, repository in SIZES.items():
        files = Weights(repository, MAIN, dict.fromkeys(OF_A_SIZE))
        models.append(Model(name, "encoder", (files,), "torch", 4 * PARAMETERS[name]))
    for name, repository in loading.REPOSITORIES.items():
        files = Weights(repository, loading.REVISION, loading.FILES)
        about = PARAMETERS.get(name)
        models.append(Model(name, "tracker", (files,), "track", about and 4 * about))
    return {own.name: own for own in models}


def model_named(name: str) -> Model:
    """By its name, as --encoder and --tracker take it."""
    found = catalogue()
    name = {"sam2": loading.DEFAULT, "siglip2:fp32": "siglip2"}.get(name, name)
    if name in found:
        return found[name]
    family, _, rest = name.partition(":")
    if family == "hf" and rest:
        raise MissingData(
            f"{name}: its files are not in this list; hf download {rest} downloads them, as does "
            f"the first use of --encoder {name}"
        )
    raise unknown("model", name, found)


def check_default(
    backend: str | None = None, precision: str | None = None, device: str | None = None
) -> None:
    """Refuses, within a moment, to go on without the weights of the encoder that is taken where
    none is named; a download of that size is not begun unasked."""
    models = catalogue()
    name = f"siglip2:{precision}" if precision in ("fp16", "int8") else "siglip2"
    asked = backend == "torch" or (backend is None and device is not None)
    likely = backend is None and may_be_accelerated()
    if asked or (likely and (models[name].state != "ready" or accelerated())):
        name = "siglip2:torch"
    _refuse_absent(
        models[name],
        "encoder",
        "--encoder mini is bundled, but only knows the rendered scenes of this project, so its "
        "answers on real footage are random",
    )


def check_default_tracker() -> None:
    """Refuses to go on without the weights of the default tracker."""
    instead = "--tracker box needs no weights, but its box does not move"
    _refuse_absent(model_named("sam2"), "tracker", instead)


def _refuse_absent(model: Model, kind: str, instead: str) -> None:
    if model.state == "ready":
        return
    if model.state == "damaged":
        what = f"is damaged ({model.damaged[0]})"
    else:
        what = f"is {'not all ' if model.state == 'partial' else 'not '}on this machine"
    raise MissingData(
        f"{model.name}, the default {kind}, {what}; download it with dejacue weights fetch "
        f"{model.name} ({model.size()}, {model.licence}), or see dejacue weights ls {model.name} "
        f"if there is no connection; {instead}"
    )


def may_be_accelerated() -> bool:
    """Whether siglip2 will go through torch, as far as can be told without loading that."""
    if not (find_spec("torch") and find_spec("transformers")):
        return False
    devices = map(Path, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg"))
    there = any(device.exists() for device in devices) or shutil.which("nvidia-smi") is not None
    return there or sys.platform == "darwin"
