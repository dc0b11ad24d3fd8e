"""Image encoders through torch: devices, batches, and the models of three libraries by name.

hf:NAME         transformers, from the hub or a folder; CLIP, SigLIP, MetaCLIP … read words as well,
                DINOv2, DINOv3, ViT … have images alone
openclip:NAME[/WEIGHTS], openclip:hf-hub:REPOSITORY, openclip:FOLDER
                a CLIP of open_clip (PE-Core, DFN, MetaCLIP, SigLIP …), with the weights and
                settings that it lists
timm:NAME       timm, from the hub or a folder; images alone
"""

from __future__ import annotations

import difflib
import threading
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dejacue.errors import InputError, MissingData, MissingExtra, extra, need, unknown
from dejacue.files.documents import read_json
from dejacue.models.encoders.base import (
    CPU_MAX_FPS,
    Crops,
    Encoder,
    ImageEncoder,
    Rows,
    spelled,
    unit,
)
from dejacue.models.encoders.named import ModelFiles, find_model
from dejacue.models.encoders.preprocess import Preprocessing, of_open_clip, of_timm, of_transformers
from dejacue.models.weights import first_sentence
from dejacue.records.words import Spelling

REMEDY = extra("torch")
OPEN_CLIP_REMEDY = extra("openclip")
ANOTHER_MODEL = "choose another model"
TIMM_REMEDY = f"{extra('timm')}; its models know no words, so states are shown by examples"
PRECISIONS = ("fp32", "fp16", "bf16")
BATCH = 64
MIN_REPEATED_COSINE = 0.99  # of two rows of one image


def choose_device(device: str | None) -> str:
    torch = need("torch", REMEDY)
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if device is None:
        return next(kind for kind, is_there in available.items() if is_there)
    kind = device.split(":")[0]
    if kind not in available:
        raise unknown("device", device, sorted(available))
    if not available[kind]:
        problem = f'the device "{device}" is not available'
        raise InputError(f"{problem}; leave the device out, or use cpu")
    return device


def choose_precision(precision: str | None, device: str) -> str:
    return precision or ("bf16" if device.startswith("cuda") else "fp32")


def dtype_of(precision: str) -> Any:
    torch = need("torch", REMEDY)
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]


def pooled(output: Any) -> Any:
    """Return the pooled rows: transformers 5 gives an output object where 4 gave the rows."""
    return getattr(output, "pooler_output", output)


def load_model(name: str, load: Callable[[], Any]) -> Any:
    """Return what ``load`` returns; turn the errors of a library into one sentence."""
    try:
        return load()
    except ImportError as error:
        problem = f"{name} needs a package that is not installed ({first_sentence(error)})"
        raise MissingExtra(problem) from None
    except Exception as error:  # transformers, safetensors and tokenizers raise their own kinds
        problem = f"{name} could not be loaded ({first_sentence(error)})"
        remedy = f"its files may be incomplete: download them again, or {ANOTHER_MODEL}"
        raise MissingData(f"{problem}; {remedy}") from None


def check_whole(what: object, info: Mapping[str, Any], but: Collection[str] = ()) -> None:
    """Refuse a model of which weights are missing, which would be random.

    what   the file or the name of the model
    info   as from_pretrained gives it with output_loading_info
    but    names of weights that need not be there
    """
    lacking = {*map(str, info["missing_keys"]), *map(str, info["mismatched_keys"])} - {*but}
    if lacking:
        missing = f"{min(lacking)} and {len(lacking) - 1} more are missing"
        problem = f"does not hold all weights of the model ({missing})"
        raise InputError(f"{what}: {problem}; download it again")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that the memory of a device is full."""
    torch = need("torch", REMEDY)
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error)


class _PinnedBuffers(threading.local):
    """Page-locked memory and a stream per thread, so that copies to a GPU overlap with what the
    other threads compute there."""

    def __init__(self) -> None:
        self.buffers: list[Any] = [None, None]
        self.sent: list[Any] = [None, None]
        self.turn = 0
        self.stream: Any = None

    def send(self, images: Crops, device: str) -> Any:
        """Return (n, size, size, 3) bytes on the device."""
        torch = need("torch", REMEDY)
        if not device.startswith("cuda"):
            return torch.from_numpy(np.stack(images)).to(device)
        self.turn = 1 - self.turn
        if self.sent[self.turn] is not None:
            self.sent[self.turn].synchronize()  # its last copy must be finished
        count, buffer = len(images), self.buffers[self.turn]
        if buffer is None or len(buffer) < count or buffer.shape[1:] != images[0].shape:
            buffer = torch.empty((count, *images[0].shape), dtype=torch.uint8, pin_memory=True)
            self.buffers[self.turn] = buffer
        np.stack(images, out=buffer.numpy()[:count])
        computing = torch.cuda.current_stream(device)
        if self.stream is None or self.stream.device != computing.device:
            self.stream = torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):
            copied = buffer[:count].to(device, non_blocking=True)
            self.sent[self.turn] = self.stream.record_event()
        computing.wait_event(self.sent[self.turn])
        copied.record_stream(computing)  # its memory is not given to others before
        return copied


_BUFFERS = _PinnedBuffers()


class TorchEncoder(Encoder):
    """A model of torch that takes square images.

    device      cuda, mps or cpu (default: the first that is there)
    precision   fp32, fp16 or bf16 (default: bf16 on cuda, else fp32)
    """

    def __init__(self, name: str, device: str | None, precision: str | None, batch: int) -> None:
        self.name, self.batch = name, batch
        self.device = choose_device(device)
        self.precision = choose_precision(precision, self.device)
        self._dtype = dtype_of(self.precision)
        self.workers = 2 if self.device.startswith("cuda") else 1  # one copies, one computes
        self.max_fps = CPU_MAX_FPS if self.device == "cpu" else None

    @abstractmethod
    def image_rows(self, images: Any) -> Any:
        """Return (n, dimension) of scaled images (n, 3, size, size)."""

    def text_rows(self, texts: Sequence[str]) -> Any:
        """Return (n, dimension), unless the model has images alone."""
        raise NotImplementedError

    def place(self, model: Any, images: Preprocessing) -> None:
        """Take the model to its device."""
        torch = need("torch", REMEDY)
        self._model = model.eval().requires_grad_(False).to(self.device, self._dtype)
        self.size, self.images = images.size, images
        self.fit = None if images.usual else images.fit
        self._mean, self._std = (
            torch.tensor(values, device=self.device).reshape((1, 3, 1, 1))
            for values in (images.mean, images.std)
        )

    def prepare(self, model: Any, files: ModelFiles, images: Preprocessing, library: str) -> None:
        """Place the model, and find its dimension with an image of noise, twice: some models hide
        a part of every image by chance."""
        self.place(model, images)
        noise = np.random.default_rng(0).integers(0, 256, (self.size, self.size, 3), np.uint8)
        try:
            first, again = (self.encode_images([noise])[0] for _ in range(2))
        except InputError:
            raise
        except (RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
            pixels = f"{self.size}×{self.size} pixels ({first_sentence(error)})"
            problem = f"{self.name} gives no features for an image of {pixels}"
            raise InputError(f"{problem}; {ANOTHER_MODEL}") from None
        if float(first @ again) < MIN_REPEATED_COSINE:
            problem = f"{self.name} gives different features for the same image"
            raise InputError(f"{problem}; {ANOTHER_MODEL}")
        self.dimension = len(first)
        self.identity = files.identity
        self.details = {
            "backend": library,
            "precision": self.precision,
            library: str(need(library, REMEDY).__version__),
            "images": str(images),
            **files.details,
        }

    def encode_images(self, crops: Crops) -> Rows:
        torch = need("torch", REMEDY)
        parts = []
        side = (self.size, self.size)
        with torch.inference_mode():
            for first in range(0, len(crops), self.batch):
                batch = [
                    crop if crop.shape[:2] == side else self.images.fit(crop)
                    for crop in crops[first : first + self.batch]
                ]
                parts.append(self._rows_of_bytes(_BUFFERS.send(batch, self.device)).float())
            rows = torch.cat(parts).cpu().numpy()
        if rows.ndim != 2:
            raise ValueError(f"rows of shape {rows.shape}")
        return unit(rows, "image")

    def encode_texts(self, texts: Sequence[str]) -> Rows:
        torch = need("torch", REMEDY)
        with torch.inference_mode():
            rows = self.text_rows(texts).float().cpu().numpy()
        return unit(rows, "text")

    def _rows_of_bytes(self, images: Any) -> Any:
        scaled = images.permute(0, 3, 1, 2).float() / 255
        return self.image_rows(((scaled - self._mean) / self._std).to(self._dtype))


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.4)
    return f"did you mean {' or '.join(near)}? " if near else ""


# transformers

SIGLIP = ("siglip", "siglip2")  # kinds that were trained on small letters
MAX_TOKENS = 100_000  # a tokenizer that does not know its limit has a larger one
TRANSFORMERS_FILES = (
    "model.safetensors",
    "model-*-of-*.safetensors",
    "pytorch_model.bin",
    "pytorch_model-*-of-*.bin",
)
LOCAL = {"local_files_only": True, "trust_remote_code": False}  # no code of a stranger is run


def load_transformers(
    name: str,
    *,
    called: str | None = None,
    device: str | None = None,
    precision: str | None = None,
    revision: str | None = None,
    lower: bool | None = None,
    batch: int = BATCH,
) -> Encoder:
    """Load a model by its name on the hub, or from its folder.

    lower   texts in small letters (default: for SigLIP, as in its training; tokenizers of other
            models do what theirs needs)
    """
    called = called or f"hf:{name}"
    need("torch", REMEDY)
    transformers = need("transformers", REMEDY)
    device = choose_device(device)
    dtype_of(choose_precision(precision, device))  # refused before a model is fetched
    files = find_model(name, called, TRANSFORMERS_FILES, revision=revision)
    if not (files.folder / "config.json").is_file():
        raise InputError(f"{called} has no config.json, so it is not a transformers model")
    model, info = load_model(
        called,
        lambda: transformers.AutoModel.from_pretrained(
            files.folder, output_loading_info=True, **LOCAL
        ),
    )
    options = {"device": device, "precision": precision, "batch": batch}
    if hasattr(model, "get_image_features") and hasattr(model, "get_text_features"):
        check_whole(called, info)
        return TextTransformers(called, files, model, lower=lower, **options)
    if model.main_input_name != "pixel_values":
        raise InputError(f"{called} is a {type(model).__name__}, not an image model")
    # a classifier is published without the layer that pools: its first token is taken then
    poolers = {key for key in info["missing_keys"] if "pooler" in key.split(".")}
    check_whole(called, info, poolers)
    return ImageTransformers(called, files, model, pooler=not poolers, **options)


def text_length(called: str, config: Any, tokenizer: Any) -> int:
    """Return how many tokens a model reads; refuse a tokenizer whose files are missing."""
    first, second = (set(tokenizer(text)["input_ids"]) for text in ("empty cup", "full plate"))
    if first == second:
        problem = "its tokenizer knows no words"
        raise InputError(f"{called}: {problem}; check that its files are complete")
    positions = getattr(getattr(config, "text_config", config), "max_position_embeddings", None)
    known = [n for n in (positions, tokenizer.model_max_length) if n and n < MAX_TOKENS]
    if not known:
        raise InputError(f"{called}: its files do not state how many tokens it reads")
    return int(min(known))


class TextTransformers(TorchEncoder):
    """A model of images and texts. Texts are padded to its full length."""

    def __init__(
        self, called: str, files: ModelFiles, model: Any, *, lower: bool | None, **options: Any
    ) -> None:
        super().__init__(called, **options)
        transformers = need("transformers", REMEDY)
        siglip = model.config.model_type in SIGLIP
        self.lower = siglip if lower is None else lower
        self._masked = not siglip  # SigLIP reads its padding
        self._tokenizer = load_model(
            called, lambda: transformers.AutoTokenizer.from_pretrained(files.folder, **LOCAL)
        )
        self._length = text_length(called, model.config, self._tokenizer)
        self.prepare(model, files, of_transformers(files.folder, called), "transformers")
        self.details |= {"lower_case": str(self.lower), "tokens": str(self._length)}

    def image_rows(self, images: Any) -> Any:
        return pooled(self._model.get_image_features(pixel_values=images))

    def text_rows(self, texts: Sequence[str]) -> Any:
        tokens = self._tokenizer(
            [text.lower() if self.lower else text for text in texts],
            padding="max_length",
            max_length=self._length,
            truncation=True,
            return_tensors="pt",
        ).to(self.device)
        names = ["input_ids", *(["attention_mask"] if self._masked else [])]
        inputs = {name: tokens[name] for name in names if name in tokens}
        return pooled(self._model.get_text_features(**inputs))

    def spelling(self, text: str) -> Spelling | None:
        if not self._tokenizer.is_fast:  # it does not say which letters a piece stands for
            return None
        text = text.lower() if self.lower else text
        tokens = self._tokenizer(text, truncation=True, max_length=self._length)
        return spelled(text, tokens.encodings[0])


class ImageTransformers(ImageEncoder, TorchEncoder):
    """A model of images. Its row is what the model pools; where it does not, its first token if
    that stands for the image, else the mean."""

    def __init__(
        self, called: str, files: ModelFiles, model: Any, *, pooler: bool, **options: Any
    ) -> None:
        super().__init__(called, **options)
        self._pooler = pooler
        self._first = any(name.endswith("cls_token") for name, _ in model.named_parameters())
        self.prepare(model, files, of_transformers(files.folder, called), "transformers")
        self.details["rows"] = self._rows

    def image_rows(self, images: Any) -> Any:
        output = self._model(pixel_values=images)
        rows = getattr(output, "pooler_output", None)
        if self._pooler and rows is not None:
            self._rows = "pooled by the model"
            return rows.flatten(1)
        last = output.last_hidden_state
        if last.ndim == 4:
            self._rows = "mean of places"
            return last.mean(dim=(2, 3))
        self._rows = "first token" if self._first else "mean of tokens"
        return last[:, 0] if self._first else last.mean(dim=1)


# open_clip

HUB = "hf-hub:"
OPEN_CLIP_CONFIG = "open_clip_config.json"
OPEN_CLIP_FILES = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
    "open_clip_pytorch_model.pth",
)


class OpenClip(TorchEncoder):
    """A CLIP of open_clip with its tokenizer, which also strips punctuation for SigLIP models."""

    def __init__(
        self,
        name: str,
        *,
        device: str | None = None,
        precision: str | None = None,
        batch: int = BATCH,
    ) -> None:
        called = f"openclip:{name}"
        need("torch", REMEDY)
        open_clip = need("open_clip", OPEN_CLIP_REMEDY)
        super().__init__(called, device, precision, batch)
        files, source, options, config = _find_open_clip(open_clip, name, called)
        model = load_model(called, lambda: open_clip.create_model(source, **options))
        self._tokenizer = load_model(
            called, lambda: _open_clip_tokenizer(open_clip, source, files.folder)
        )
        size = model.visual.image_size
        sides = set(size) if isinstance(size, tuple) else {size}
        if len(sides) != 1:
            raise InputError(f"{called}: takes images of {size} pixels, not squares")
        self.prepare(model, files, of_open_clip(config, int(sides.pop()), called), "open_clip")

    def image_rows(self, images: Any) -> Any:
        return self._model.encode_image(images)

    def text_rows(self, texts: Sequence[str]) -> Any:
        return self._model.encode_text(self._tokenizer(list(texts)).to(self.device))


def _find_open_clip(
    open_clip: Any, name: str, called: str
) -> tuple[ModelFiles, str, dict[str, Any], dict[str, Any]]:
    """Look in open_clip's list; or in a folder or repository with its own configuration.

    Return the files, what open_clip.create_model takes (an architecture or local-dir:FOLDER, and
    options), and the configuration that says how images are resized and scaled.
    """
    place = name.removeprefix(HUB)
    if place != name or Path(name).expanduser().is_dir():
        files = find_model(place, called, OPEN_CLIP_FILES)
        path = files.folder / OPEN_CLIP_CONFIG
        if not path.is_file():
            raise InputError(f"{called} has no {OPEN_CLIP_CONFIG}, so it is not an open_clip model")
        config = read_json(path)
        if not isinstance(config, dict) or not isinstance(config.get("preprocess_cfg"), dict):
            raise InputError(f"{path}: has no preprocess_cfg, which says how images are scaled")
        files = replace(files, name=f"openclip:{HUB if place != name else ''}{files.name}")
        options: dict[str, Any] = {"require_pretrained": True}
        return files, f"local-dir:{files.folder}", options, config["preprocess_cfg"]
    architecture, tag = _listed_open_clip(open_clip, name)
    config = open_clip.get_pretrained_cfg(architecture, tag)
    repository, _, file = (config.get("hf_hub") or "").rpartition("/")
    if repository:
        files = find_model(repository, called, (file,) if file else OPEN_CLIP_FILES)
    else:  # a plain address, which open_clip fetches
        path = Path(load_model(called, lambda: open_clip.download_pretrained(config)))
        files = ModelFiles(name, path.parent, (path,))
    files = replace(files, name=f"openclip:{architecture}/{tag}")
    # the name of an architecture does not tell whether its activation is QuickGELU
    quick = bool(config.get("quick_gelu"))
    options = {"pretrained": str(files.weights[0]), "force_quick_gelu": quick}
    return files, architecture, options, config


def _open_clip_tokenizer(open_clip: Any, source: str, folder: Path) -> Any:
    """Take it from the folder of the weights where the model has a tokenizer of the hub."""
    config = open_clip.get_model_config(source)
    if config["text_cfg"].get("hf_tokenizer_name") and (folder / OPEN_CLIP_CONFIG).is_file():
        return open_clip.get_tokenizer(f"local-dir:{folder}")
    return open_clip.get_tokenizer(source)


def _listed_open_clip(open_clip: Any, name: str) -> tuple[str, str]:
    """Return architecture and weights: those that are listed last, where none are named."""
    architecture, _, tag = name.partition("/")
    models = open_clip.list_models()
    if architecture not in models:
        remedy = f"{_did_you_mean(architecture, models)}open_clip.list_models() lists all"
        raise InputError(f'open_clip has no model "{architecture}"; {remedy}')
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    if not tags:
        raise InputError(f"openclip:{architecture} has no published weights; {ANOTHER_MODEL}")
    if tag and tag not in tags:
        raise unknown(f"weights of openclip:{architecture}", tag, tags)
    return architecture, tag or tags[-1]


# timm

TIMM_FILES = ("model.safetensors", "pytorch_model.bin")


class Timm(ImageEncoder, TorchEncoder):
    """A model of timm; its rows are what it pools before it classifies."""

    def __init__(
        self,
        name: str,
        *,
        device: str | None = None,
        precision: str | None = None,
        batch: int = BATCH,
    ) -> None:
        called = f"timm:{name}"
        need("torch", REMEDY)
        timm = need("timm", TIMM_REMEDY)
        super().__init__(called, device, precision, batch)
        files = find_model(_timm_repository(timm, name), called, TIMM_FILES)
        if not (files.folder / "config.json").is_file():
            raise InputError(f"{called} has no config.json, so it is not a timm model")
        # with its classes first: without them timm would not miss weights that are missing
        model = load_model(
            called, lambda: timm.create_model(f"local-dir:{files.folder}", pretrained=True)
        )
        model.reset_classifier(0)
        files = replace(files, name=f"timm:{files.name.removeprefix('timm/')}")
        images = of_timm(timm.data.resolve_model_data_config(model), called)
        self.prepare(model, files, images, "timm")

    def image_rows(self, images: Any) -> Any:
        return self._model(images)


def _timm_repository(timm: Any, name: str) -> str:
    """Return where a model of timm's list lies on the hub; a folder is itself."""
    if Path(name).expanduser().is_dir():
        return name
    known = timm.list_pretrained()
    if name not in known and name not in timm.list_models():  # without a tag: timm's default
        problem = f'timm has no weights "{name}"'
        raise InputError(f"{problem}; {_did_you_mean(name, known)}timm.list_pretrained() lists all")
    repository = timm.get_pretrained_cfg(name).hf_hub_id
    if not repository:
        raise InputError(f"timm:{name} has no weights on the Hub; {ANOTHER_MODEL}")
    return str(repository)
