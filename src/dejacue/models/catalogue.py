"""The models that load_encoder and load_tracker know by name: their files, sizes, licences, state.

Sizes are those of the parameters (counted on models built from their configurations,
docs/encoders.md) until the files are here.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from math import sqrt
from pathlib import Path
from typing import Any

from dejacue.errors import DejaCueError, MissingData, extra, need, unknown
from dejacue.models.detectors import zero_shot
from dejacue.models.encoders import SIZES, Encoder, accelerated, lite, load_encoder, siglip
from dejacue.models.encoders.sentences import TOLERANCE, compare_with_release
from dejacue.models.trackers import nano, sam2
from dejacue.models.weights import Weights, fetch, sha256
from dejacue.progress import Progress, silent

PUBLISHED = ("siglip2", "siglip2:torch")  # whose text features the paper's release has
SMALLER = ("siglip2:fp16", "siglip2:int8")
LATEST = "main"  # no revision is published that could be pinned
SIZE_FILES = (
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
SIGLIP2_PARAMETERS = 375_187_970
PARAMETER_BYTES = {"fp32": 4, "fp16": 2, "int8": 1}
APACHE = "apache-2.0"
INSTEAD = {  # what works without a download
    "encoder": "siglip2:int8 is a quarter of that; without a download, the encoder lite takes "
    "examples of each state (mini only knows the rendered scenes)",
    "detector": "a box, masks or the whole picture need no detector",
    "tracker": "nano follows boxes with 2 MB and no torch; a fixed box needs no tracker, but does "
    "not move",
}


@dataclass(frozen=True, eq=False)
class CatalogueEntry:
    """A model that is known by its name, and the files that it needs.

    kind    encoder, tracker or detector
    parts   files by repository; none: it lies in the package
    needs   the extra that runs it
    about   bytes of the download, as far as that is known before
    brought_by   the package of the index that brings its weights, with the extra
    """

    name: str
    kind: str
    parts: tuple[Weights, ...]
    needs: str = ""
    about: int | None = None
    licence: str = APACHE
    brought_by: str = ""

    @cached_property
    def damaged(self) -> list[Path]:
        """Return the files that are here but empty, or of which the hash is another."""
        return [path for part in self.parts for path in part.damaged()]

    @cached_property
    def state(self) -> str:
        """Return absent, partial, damaged or ready."""
        if self.brought_by and not find_spec(self.brought_by):
            return "absent"
        paths = [path for _, _, path in self.files()]
        if all(paths):
            return "damaged" if self.damaged else "ready"
        return "damaged" if self.damaged else "partial" if any(paths) else "absent"

    def files(self) -> list[tuple[Weights, str, Path | None]]:
        """Return (part, name, path on this machine or None) of each file."""
        return [(part, name, path) for part in self.parts for name, path in part.here().items()]

    def megabytes(self) -> float | None:
        """Return the size of the files if all are here, else of the download if it is known."""
        paths = [path for _, _, path in self.files() if path is not None]
        whole = self.parts and len(paths) == len(self.files())
        size = sum(path.stat().st_size for path in paths) if whole else self.about
        return None if size is None else size / 1e6

    def size(self) -> str:
        if (known := self.megabytes()) is None:
            return "" if self.parts else "in the package"
        return f"{'about ' if self.state in ('absent', 'partial') else ''}{known:.0f} MB"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with the paths of the files."""
        files = [
            {
                "repository": part.repository,
                "revision": part.revision,
                "name": name,
                "path": path and str(path),
                "sha256": part.expected(name, path),
            }
            for part, name, path in self.files()
        ]
        about = {name: getattr(self, name) for name in ("name", "kind", "state", "licence")}
        about |= {"megabytes": self.megabytes(), "needs": self.needs or None, "files": files}
        return about | {"download": [part.line() for part in self.parts]}

    def fetch(self, progress: Progress = silent) -> None:
        """Download what is missing or damaged, and check hashes and, of the paper's encoder, its
        texts. Files that were whole when ``progress`` raised Cancelled are kept."""
        if self.brought_by:
            need(self.brought_by, extra(self.needs))
        fetch(*self.parts, name=self.name, complete=True, progress=progress)
        if self.name in PUBLISHED and (not self.needs or find_spec("transformers")):
            with suppress(MissingData):  # the release is not here: check says so
                compare_with_release(self.name, _exact(self.name))


def catalogue() -> dict[str, CatalogueEntry]:
    """Return every model by its name, encoders first."""
    models = [CatalogueEntry("mini", "encoder", (), licence="as dejacue")]
    models.append(
        CatalogueEntry("lite", "encoder", (), "lite", lite.BYTES, brought_by=lite.PACKAGE)
    )
    for precision, size in PARAMETER_BYTES.items():
        parts = siglip.onnx_export(precision), siglip.TOKENIZER
        name = "siglip2" if precision == "fp32" else f"siglip2:{precision}"
        models.append(CatalogueEntry(name, "encoder", parts, about=size * SIGLIP2_PARAMETERS))
    published = Weights(siglip.REPOSITORY, siglip.REVISION, siglip.TORCH_FILES)
    models.append(
        CatalogueEntry("siglip2:torch", "encoder", (published,), "torch", 4 * SIGLIP2_PARAMETERS)
    )
    for name, repository in SIZES.items():
        files = Weights(repository, LATEST, dict.fromkeys(SIZE_FILES))
        models.append(CatalogueEntry(name, "encoder", (files,), "torch", 4 * PARAMETERS[name]))
    for name, repository in sam2.REPOSITORIES.items():
        files, about = Weights(repository, sam2.REVISION, sam2.FILES), PARAMETERS.get(name)
        models.append(CatalogueEntry(name, "tracker", (files,), "track", about and 4 * about))
    models.append(CatalogueEntry("nano", "tracker", (nano.WEIGHTS,), "nano", nano.BYTES))
    for name in zero_shot.REPOSITORIES:
        files, about = zero_shot.weights_of(name), zero_shot.PARAMETERS.get(name)
        models.append(CatalogueEntry(name, "detector", (files,), "track", about and 4 * about))
    return {model.name: model for model in models}


def model_named(name: str) -> CatalogueEntry:
    """Return a model by its name, as --encoder and --tracker take it."""
    models = catalogue()
    name = {"sam2": sam2.DEFAULT, "siglip2:fp32": "siglip2"}.get(name, name)
    if name in models:
        return models[name]
    family, _, rest = name.partition(":")
    if family == "hf" and rest:
        remedy = f"hf download {rest} downloads them, as does the first use of the encoder {name}"
        raise MissingData(f"{name}: its files are not in this list; {remedy}")
    raise unknown("model", name, models)


def default_encoder(
    backend: str | None = None, precision: str | None = None, device: str | None = None
) -> str:
    """Return the name of the model that is taken where no encoder is named."""
    name = f"siglip2:{precision}" if precision in ("fp16", "int8") else "siglip2"
    torch_chosen = backend == "torch" or (backend is None and device is not None)
    likely = backend is None and may_be_accelerated()
    if torch_chosen or (likely and (model_named(name).state != "ready" or accelerated())):
        return "siglip2:torch"
    return name


def missing_models(**names: str) -> dict[str, CatalogueEntry]:
    """Return those of these models (encoder, tracker, detector) that are not ready; a name that is
    not in the list (a folder, a plug-in) brings its own."""
    known = {}
    for kind, name in names.items():
        with suppress(DejaCueError):
            known[kind] = model_named(name)
    return {kind: model for kind, model in known.items() if model.state != "ready"}


def check_models(**names: str) -> None:
    """Refuse, within a moment, to go on without the weights of the models that are taken where none
    is named (encoder, tracker, detector); downloads of that size are not begun unasked. One message
    lists all that is missing."""
    missing = missing_models(**names)
    if not missing:
        return
    problem = "; ".join(
        f"{model.name}, the default {kind}, is {model.state}"
        + (f" ({model.damaged[0]})" if model.damaged else "")
        for kind, model in missing.items()
    )
    names_to_fetch = " ".join(model.name for model in missing.values())
    licences = dict.fromkeys(model.licence for model in missing.values())
    sizes = ", ".join([*(model.size() for model in missing.values()), *licences])
    instead = "; ".join(INSTEAD[kind] for kind in missing)
    raise MissingData(
        f"{problem}; run dejacue weights fetch {names_to_fetch} ({sizes}), or see dejacue weights "
        f"ls {names_to_fetch} if there is no connection; {instead}"
    )


def may_be_accelerated() -> bool:
    """Return whether siglip2 will go through torch, as far as can be told without loading that."""
    if not (find_spec("torch") and find_spec("transformers")):
        return False
    devices = map(Path, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg"))
    there = any(device.exists() for device in devices) or shutil.which("nvidia-smi") is not None
    return there or sys.platform == "darwin"


def check_model(model: CatalogueEntry) -> Iterator[str]:
    """Compare all hashes of a model, and siglip2 with the paper; yield what is seen, a sentence
    each. A model of which a file is missing or has another hash is refused."""
    if model.state in ("absent", "partial"):
        remedy = f"download it with dejacue weights fetch {model.name} ({model.size()})"
        raise MissingData(f"{model.name} is not on this machine ({model.state}); {remedy}")
    for part, name, path in model.files():
        assert path is not None
        part.check(name, path)
        source = "the published one" if part.files[name] else "the hub"
        known = f"matches {source}" if part.expected(name, path) else "no known hash"
        yield f"{path}: sha256 {sha256(path)}, {known}"
    encoder, tolerance = None, TOLERANCE
    if model.name in PUBLISHED:
        encoder = _exact(model.name)
    elif model.name in SMALLER and model_named("siglip2").state != "ready":
        yield f"{model.name}: not compared with the paper's text features: siglip2 is not here"
    elif model.name in SMALLER:
        encoder = load_encoder(model.name)
        images, texts = (1 - cosine for cosine in siglip.cosines(encoder.details["precision"]))
        errors = f"{images:.4f} (images) and {texts:.4f} (texts)"
        yield f"{model.name}: 1 − cosine with fp32 at most {errors}"
        # two rows that each turn by an angle: their cosine by 2 sin of it
        tolerance += 2 * sqrt(max(1 - (1 - texts) ** 2, 0))
    if encoder is not None:
        try:
            yield compare_with_release(model.name, encoder, tolerance)
        except MissingData as error:
            yield f"{model.name}: not compared with the paper's text features: {error}"


def _exact(name: str) -> Encoder:
    return load_encoder("siglip2:fp32" if name == "siglip2" else name, precision="fp32")
