"""The models that load_encoder and load_tracker know by name: their files, sizes, licences, state.

Sizes are those of the parameters (counted on models built from their configurations,
docs/encoders.md) until the files are here.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from math import sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import DejaCueError, InputError, MissingData, counted, extra, need, unknown
from dejacue.progress import Progress, silent
from dejacue.sources.detectors import zero_shot
from dejacue.sources.encoders import SIZES, Encoder, accelerated, lite, load_encoder, siglip
from dejacue.sources.encoders.sentences import TOLERANCE, compare, read_sentences
from dejacue.sources.encoders.weights import Weights, obtain, sha256
from dejacue.sources.tracks import sam2
from dejacue.sources.tracks.base import Prompt

PUBLISHED = ("siglip2", "siglip2:torch")  # whose text features the paper's release has
LATEST = "main"  # no revision is published that could be pinned
TRIAL_SIDE = 96  # pixels of the pictures that a model is tried with
TRIAL_IMAGES = 4
TRIAL_TEXTS = ("an open door", "a closed door")
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
        """Return the files that are here but not whole, as far as a short look tells."""
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
        paths = [path for _, _, path in self.files()]
        if paths and all(paths):
            return sum(path.stat().st_size for path in paths if path) / 1e6
        return None if self.about is None else self.about / 1e6

    def size(self) -> str:
        if (known := self.megabytes()) is None:
            return "" if self.parts else "in the package"
        return f"{'about ' if self.state in ('absent', 'partial') else ''}{known:.0f} MB"

    def lines(self) -> list[str]:
        """Return the commands that get the files on a machine with a connection."""
        return [part.line() for part in self.parts]

    def fetch(self, progress: Progress = silent) -> None:
        """Download what is missing or damaged, and check hashes and, of the paper's encoder, its
        texts. What was downloaded before ``progress`` raised Cancelled is kept."""
        if self.brought_by:
            need(self.brought_by, extra(self.needs))
        obtain(self.name, self.parts, progress=progress)
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
        files = Weights(repository, sam2.REVISION, sam2.FILES)
        about = PARAMETERS.get(name)
        models.append(CatalogueEntry(name, "tracker", (files,), "track", about and 4 * about))
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
    names_to_fetch = " ".join(model.name for model in missing.values())
    kind, first = next(iter(missing.items()))
    if len(missing) == 1:
        problem = f"{first.name}, the default {kind}, {_what_is_wrong(first)}"
        size = f" ({first.size()}, {first.licence})"
    else:
        listed = (f"{model.name} ({model.size()})" for model in missing.values())
        problem, size = f"{', '.join(listed)} are not all on this machine", ""
    raise MissingData(
        f"{problem}; download {'it' if len(missing) == 1 else 'them'} with dejacue weights fetch "
        f"{names_to_fetch}{size}, or see dejacue weights ls {names_to_fetch} if there is no "
        f"connection; {_instead(missing)}"
    )


def _what_is_wrong(model: CatalogueEntry) -> str:
    if model.state == "damaged":
        return f"is damaged ({model.damaged[0]})"
    return f"is {'not all ' if model.state == 'partial' else 'not '}on this machine"


def _instead(missing: Mapping[str, CatalogueEntry]) -> str:
    """Return what works without some of these downloads."""
    choices = []
    if "encoder" in missing:
        if missing["encoder"].name == "siglip2":
            choices.append(f"siglip2:int8 is smaller ({model_named('siglip2:int8').size()})")
        choices.append(
            "without a download, the encoder lite takes examples of each state (mini only knows "
            "the rendered scenes of this project)"
        )
    if "detector" in missing:
        choices.append("a box, masks or the whole picture need no detector")
    if "tracker" in missing:
        choices.append("a fixed box needs no tracker, but does not move")
    return "; ".join(choices)


def may_be_accelerated() -> bool:
    """Return whether siglip2 will go through torch, as far as can be told without loading that."""
    if not (find_spec("torch") and find_spec("transformers")):
        return False
    devices = map(Path, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg"))
    there = any(device.exists() for device in devices) or shutil.which("nvidia-smi") is not None
    return there or sys.platform == "darwin"


def try_model(model: CatalogueEntry) -> Iterator[str]:
    """Load a model and run it once, after all its hashes; yield what is seen, a sentence each.

    A model of which a file is missing, has another hash, or that does not run is refused.
    """
    if model.state in ("absent", "partial"):
        remedy = f"download it with dejacue weights fetch {model.name} ({model.size()})"
        raise MissingData(f"{model.name} is not on this machine ({model.state}); {remedy}")
    for part, name, path in model.files():
        assert path is not None
        part.check({name: path}, hub=True)
        known = "no known hash"
        if part.expected(name, path):
            known = f"matches {'the published one' if part.files[name] else 'the hub'}"
        yield f"{path}: sha256 {sha256(path)}, {known}"
    trials = {"encoder": _try_encoder, "tracker": _try_tracker, "detector": _try_detector}
    yield from trials[model.kind](model.name)
    yield f"{model.name}: works"


def _try_encoder(name: str) -> Iterator[str]:
    encoder = load_encoder(name)
    rows = {"images": encoder.encode_images(_trial_images(TRIAL_IMAGES))}
    if encoder.has_text:
        rows["texts"] = encoder.encode_texts(TRIAL_TEXTS)
    for what, features in rows.items():
        norms = np.linalg.norm(features, axis=1)
        cosines = features @ features.T - 2 * np.eye(len(features))
        yield (
            f"{name}: {len(features)} {what}, {features.shape[1]} numbers each, norms "
            f"{norms.min():.4f} to {norms.max():.4f}, cosine of two different ones at most "
            f"{cosines.max():.3f}"
        )
    models = catalogue()
    tolerance = TOLERANCE if name in PUBLISHED else None
    for smaller in ("siglip2:fp16", "siglip2:int8"):
        both = (smaller, "siglip2")
        if name in both and all(models[part].state == "ready" for part in both):
            images, texts = siglip.cosines(smaller.partition(":")[2])
            yield (
                f"{smaller}: 1 − cosine with fp32 at most {1 - images:.4f} (images) and "
                f"{1 - texts:.4f} (texts)"
            )
            if name == smaller:  # two rows that each turn by an angle: their cosine by 2 sin of it
                tolerance = TOLERANCE + 2 * sqrt(max(1 - texts**2, 0))
    if tolerance is not None:
        if name in PUBLISHED and encoder.details["precision"] != "fp32":
            encoder = _exact(name)
        try:
            yield compare_with_release(name, encoder, tolerance)
        except MissingData as error:
            yield f"{name}: not compared with the paper's text features: {error}"
    elif name in ("siglip2:fp16", "siglip2:int8"):
        yield (
            f"{name}: not compared with the paper's text features: how far this precision may "
            "differ is measured where siglip2 is here, too"
        )


def _exact(name: str) -> Encoder:
    return load_encoder("siglip2:fp32" if name == "siglip2" else name, precision="fp32")


def compare_with_release(name: str, encoder: Encoder, tolerance: float = TOLERANCE) -> str:
    """Say how far an encoder's texts are from those of the paper's release; refuse one that is
    further away than another precision explains. MissingData: the release is not here."""
    sentences = read_sentences()
    result = compare(encoder, sentences, tolerance)
    of = f"{len(sentences)} sentences of the paper"
    if not result.differs:
        within = f"at most {result.largest:.4f} (allowed: {tolerance:.4f})"
        return f"{name}: the cosines of {of} differ from the published ones by {within}"
    problem = (
        f"{name}: the cosines of {of} differ from the published ones by up to "
        f"{result.largest:.4f}; what differs is {result.differs}"
    )
    if result.slight:
        return problem
    raise InputError(
        f"{problem}; delete the files that dejacue weights ls {name} --paths lists, then dejacue "
        f"weights fetch {name}; if that does not help, its source has changed"
    )


def _try_tracker(name: str) -> Iterator[str]:
    session = sam2.load(name).session()
    prompt = Prompt(box=(TRIAL_SIDE / 4, TRIAL_SIDE / 4, TRIAL_SIDE / 2, TRIAL_SIDE / 2))
    image = _trial_images(1)[0]
    for at, prompts in enumerate(([prompt], [])):
        observed = session.step(np.roll(image, 2 * at, axis=1), prompts)[1]
        yield (
            f"{name}: frame {at}: a mask of {int(observed.mask.sum())} pixels, presence "
            f"{observed.presence:.2f}"
        )


def _try_detector(name: str) -> Iterator[str]:
    detections = zero_shot.load(name).detect(_trial_images(1)[0], ["cup"])
    yield f"{name}: a picture of noise, in which it sees {counted(len(detections), 'cup')}"


def _trial_images(count: int) -> list[NDArray[np.uint8]]:
    """Return coarse noise, always the same."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (count, TRIAL_SIDE // 12, TRIAL_SIDE // 12, 3)).astype(np.uint8)
    return [np.kron(image, np.ones((12, 12, 1), np.uint8)) for image in coarse]
