"""SAM 2.1 and EdgeTAM through transformers, with memory that does not grow (``dejacue[track]``).

    load         a name → a tracker with its published weights
    Sam2Tracker  a model on a device, in a precision; makes sessions
    Sam2Session  frames one after another → masks

Names:

    sam2                                         sam2-small
    sam2-tiny, -small, -base-plus, -large        facebook/sam2.1-hiera-…
    edgetam                                      yonigozlan/EdgeTAM-hf; needs timm as well
    sam2:FOLDER                                  config.json and model.safetensors of either kind

Small is the default: it costs about as much as tiny, and runs where base-plus is slow. No revision
is pinned; the one that was found and the hash of its weights are in the tracker's details.

Each object is followed by itself, with the image's features computed once for all: it can join
at any frame, and its masks do not depend on which other objects are followed. (In a session of
transformers that holds several, a prompt for one changes how the others are remembered.)

transformers keeps every frame and every output. Of these the next frame reads

    the memory      of each prompted frame, and of the last ``num_maskmem`` - 1 others
    the pointer     of each prompted frame, and of the last ``max_object_pointers_in_encoder`` - 1

by their distance to it, so older ones can go and the masks stay the same to the last bit. Frames
are numbered in the order in which they come; only differences count, so a video that is fed
backwards is nothing special.

What goes into the model and comes out takes the same steps as transformers' processor, on the
model's device: bytes resized with antialiasing to the model's square and rounded to bytes, then
normalised; clicks and boxes scaled along; mask logits resized back bilinearly and cut at 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import cachetools
import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, brief, extra, first_line, need
from dejacue.models.encoders.torch_models import (
    check_whole,
    choose_device,
    choose_precision,
    dtype_of,
    is_out_of_memory,
)
from dejacue.models.trackers.base import Mask, Observation, Prompt
from dejacue.models.weights import Weights, commit, fetch, files_in, sha256

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
REMEDY = extra("track")
MEAN = (0.485, 0.456, 0.406)  # of ImageNet, as the models were trained
DEVIATION = (0.229, 0.224, 0.225)
CORNERS = (2, 3)  # the model's labels for the corners of a box; 1 and 0 are clicks
CLASSES = {  # by the model_type of its config.json
    "sam2_video": ("Sam2VideoModel", "Sam2VideoInferenceSession"),
    "edgetam_video": ("EdgeTamVideoModel", "EdgeTamVideoInferenceSession"),
}
POINTER = "object_pointer"
MEMORY = ("maskmem_features", "maskmem_pos_enc")

Outputs = dict[int, dict[str, Any]]  # by frame, then by name: tensors


def load(
    name: str = "sam2",
    *,
    device: str | None = None,
    precision: str | None = None,
    fallback: bool = False,
) -> Sam2Tracker:
    """Load the tracker of a name that ``load_tracker`` knows.

    device      cuda, mps or cpu (default: the first that is there)
    precision   fp32, bf16 or fp16 (default: bf16 on cuda, else fp32)
    fallback    falls back to the CPU when the memory of the device is full, instead of failing
    """
    kind, _, folder = name.partition(":")
    need("torch", REMEDY)
    transformers = need("transformers", REMEDY)
    device = choose_device(device)
    precision = choose_precision(precision, device)
    dtype = dtype_of(precision)
    repository = REPOSITORIES[DEFAULT if kind == "sam2" else kind]
    weights = Weights(repository, REVISION, FILES)
    files = files_in(Path(folder), FILES) if folder else fetch(weights)
    classes = _model_classes(files["config.json"])
    if not hasattr(transformers, classes[0]):
        raise InputError(f"this transformers has no {classes[0]}; {REMEDY} --upgrade")
    model = _load_weights(getattr(transformers, classes[0]), files["model.safetensors"], dtype)
    details = {
        "model": folder or repository,
        "revision": commit(files["config.json"]) or "unknown",
        "sha256 model.safetensors": sha256(files["model.safetensors"]),
        "transformers": transformers.__version__,
    }
    options: dict[str, Any] = {"device": device, "precision": precision, "fallback": fallback}
    return Sam2Tracker(model, name, details=details, **options)


def _model_classes(path: Path) -> tuple[str, str]:
    """Return the classes of the model that a configuration describes; refuse one not in CLASSES."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        kind = config["model_type"]
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        problem = "is not the configuration of a model"
        raise InputError(f"{path}: {problem}; download it again") from None
    if str(kind) not in CLASSES:
        problem = f'describes a "{brief(kind)}"'
        raise InputError(f"{path}: {problem}; a tracker must be one of {', '.join(CLASSES)}")
    if '"timm_wrapper"' in json.dumps(config):
        need("timm", f"EdgeTAM also needs it: {REMEDY} timm")
    return CLASSES[str(kind)]


def _load_weights(kind: Any, path: Path, dtype: Any) -> Any:
    try:
        model, loaded = kind.from_pretrained(
            path.parent, dtype=dtype, local_files_only=True, output_loading_info=True
        )
    except Exception as error:  # safetensors and transformers raise their own kinds
        remedy = "download it and config.json again, or upgrade transformers"
        raise InputError(f"{path}: cannot be loaded ({first_line(error)}); {remedy}") from error
    check_whole(path, loaded)
    return model


def frame_input(image: NDArray[np.uint8], size: int, device: str, dtype: Any) -> Any:
    """Return a frame of (H, W, 3) bytes as (3, size, size), normalised."""
    torch = need("torch", REMEDY)
    # the CPU resizes bytes as they are; mps has no kernel for it, so that there the CPU does it too
    on_cpu = device.startswith(("cpu", "mps"))
    picture = torch.from_numpy(np.require(image, requirements=["C", "W"])).to(
        "cpu" if on_cpu else device
    )
    picture = picture.permute(2, 0, 1)[None]
    if picture.shape[-2:] != (size, size):
        picture = _resized(torch, picture if on_cpu else picture.float(), size)
        picture = picture if on_cpu else picture.round_().clamp_(0, 255)
    picture = picture.to(device).float()
    return ((picture - _channels(MEAN, device)) / _channels(DEVIATION, device))[0].to(dtype)


def point_input(prompt: Prompt, height: int, width: int, size: int) -> tuple[Any, Any]:
    """Return the coordinates (1, 1, n, 2) of box and points in the model's square, and labels."""
    torch = need("torch", REMEDY)
    at: list[tuple[float, float]] = []
    labels: list[int] = []
    if prompt.box is not None:
        at += [prompt.box[:2], prompt.box[2:]]
        labels += CORNERS
    for x, y, inside in prompt.points:
        at.append((x, y))
        labels.append(int(inside))
    scale = torch.tensor([size / width, size / height], dtype=torch.float32)
    coordinates = torch.tensor(at, dtype=torch.float32) * scale
    return coordinates[None, None], torch.tensor(labels, dtype=torch.int64)[None, None]


def mask_input(mask: Mask, size: int) -> Any:
    """Return a mask as (1, 1, size, size) of 0 and 1; one too thin for half a pixel is kept too."""
    torch = need("torch", REMEDY)
    cover = torch.from_numpy(np.asarray(mask, np.float32))[None, None]
    if cover.shape[-2:] != (size, size):
        cover = _resized(torch, cover, size)
    inside = cover >= 0.5
    return (inside if inside.any() else cover > 0).float()


def output_masks(logits: Any, height: int, width: int) -> NDArray[np.bool_]:
    """Return logits (n, 1, h, w) as masks (n, height, width)."""
    torch = need("torch", REMEDY)
    parts = [  # one after another: enlarged logits of many objects would fill the memory
        torch.nn.functional.interpolate(
            plane[None].float(), size=(height, width), mode="bilinear", align_corners=False
        )[0, 0]
        > 0
        for plane in logits
    ]
    return np.asarray(torch.stack(parts).cpu().numpy(), dtype=np.bool_)


def _resized(torch: Any, picture: Any, size: int) -> Any:
    return torch.nn.functional.interpolate(
        picture, size=(size, size), mode="bilinear", align_corners=False, antialias=True
    )


@cache
def _channels(values: tuple[float, ...], device: str) -> Any:
    torch = need("torch", REMEDY)
    return torch.tensor([255 * value for value in values], device=device)[:, None, None]


@dataclass(frozen=True)
class Reach:
    """The number of earlier frames that the model reads.

    memories   frames before this one whose memory it attends to
    pointers   frames before this one whose pointer it attends to
    prompted   how many prompted frames it attends to; None for all
    """

    memories: int
    pointers: int
    prompted: int | None

    @classmethod
    def of(cls, model: Any) -> Reach:
        config = model.config
        limit = getattr(config, "max_cond_frame_num", -1)
        limited = limit > 0 and hasattr(model, "_select_closest_cond_frames")
        return cls(
            config.num_maskmem - 1,
            config.max_object_pointers_in_encoder - 1,
            limit if limited else None,
        )


@dataclass
class Memory:
    """The past of one object: outputs of the frames it was prompted in, and of the latest."""

    prompted: Outputs = field(default_factory=dict)
    recent: Outputs = field(default_factory=dict)

    def pruned(self, upcoming: int, reach: Reach) -> Memory:
        """Return what frame ``upcoming`` and those after it can read."""
        latest = sorted(self.prompted)[-reach.prompted :] if reach.prompted else self.prompted
        prompted = {
            frame: _readable(outputs, frame in latest or upcoming - frame <= reach.memories)
            for frame, outputs in self.prompted.items()
        }
        furthest = max(reach.memories, reach.pointers)
        recent = {
            frame: _readable(outputs, upcoming - frame <= reach.memories)
            for frame, outputs in self.recent.items()
            if upcoming - frame <= furthest
        }
        return Memory(prompted, recent)

    def to(self, device: str, dtype: Any) -> Memory:
        def moved(outputs: Outputs) -> Outputs:
            return {
                frame: {name: tensor.to(device, dtype) for name, tensor in tensors.items()}
                for frame, tensors in outputs.items()
            }

        return Memory(moved(self.prompted), moved(self.recent))


def _readable(outputs: Mapping[str, Any], whole: bool) -> dict[str, Any]:
    names = (POINTER, *MEMORY) if whole else (POINTER,)
    return {name: outputs[name] for name in names if name in outputs}


class Sam2Session:
    """See ``base.TrackerSession``.

    A box or a mask says anew where its object is: the frame is read by itself. Points alone, for
    an object that is being followed, correct: they are read together with what is remembered.
    Prompted frames are remembered for good, others for as long as the model reads them.
    """

    def __init__(self, tracker: Sam2Tracker) -> None:
        self._tracker = tracker
        self._next = 0  # the number of the next frame
        self._objects: dict[int, Memory] = {}  # in the order in which they joined
        self._place = (tracker.device, tracker.precision)  # where and how the memories are

    def step(
        self, image: NDArray[np.uint8], prompts: Sequence[Prompt] = ()
    ) -> Mapping[int, Observation]:
        by_object = {prompt.object: prompt for prompt in prompts}
        if not by_object and not self._objects:
            self._next += 1
            return {}
        while True:
            try:
                objects, seen = self._advance(image, by_object)
                break
            except RuntimeError as error:
                self._tracker.make_room(error)  # on the CPU, or raises
        self._objects, self._next = objects, self._next + 1  # only a whole step counts
        return seen

    def _advance(
        self, image: NDArray[np.uint8], prompts: Mapping[int, Prompt]
    ) -> tuple[dict[int, Memory], dict[int, Observation]]:
        torch = need("torch", REMEDY)
        self._move_memories()
        tracker = self._tracker
        height, width = image.shape[:2]
        objects, logits, scores = {}, [], []
        with torch.inference_mode():
            frame = frame_input(image, tracker.size, tracker.device, tracker.dtype)
            features = None
            for object in dict.fromkeys((*self._objects, *prompts)):
                known = self._objects.get(object)
                past = known or Memory()
                memory = Memory(dict(past.prompted), dict(past.recent))
                prompt = prompts.get(object)
                view = self._view(memory, features)
                if prompt is not None:
                    self._add_prompt(view, prompt, height, width, correcting=known is not None)
                tracker.model(view, frame_idx=self._next, frame=frame)
                features = view.cache
                if prompt is not None and self._next in memory.recent:
                    memory.prompted[self._next] = memory.recent.pop(self._next)
                output = (memory.recent if prompt is None else memory.prompted)[self._next]
                logits.append(output["pred_masks"].flatten(0, -3))
                scores.append(output["object_score_logits"].flatten())
                memory = memory.pruned(self._next + 1, tracker.reach)
                if tracker.precision == "fp16":  # memories come as bf16; 4.57 cannot mix the two
                    memory = memory.to(tracker.device, tracker.dtype)
                objects[object] = memory
            masks = output_masks(torch.stack(logits), height, width)
            presence = torch.cat(scores).float().sigmoid().cpu().tolist()
        return objects, {
            object: Observation(mask, sure)
            for object, mask, sure in zip(objects, masks, presence, strict=True)
        }

    def _view(self, memory: Memory, features: Any) -> Any:
        """Return a session of transformers for one object and one frame, over its memory."""
        tracker = self._tracker
        view = tracker.session_class(
            inference_device=tracker.device,
            inference_state_device=tracker.device,
            video_storage_device=tracker.device,
            dtype=tracker.dtype,
        )
        view.output_dict_per_obj[view.obj_id_to_idx(1)] = {
            "cond_frame_outputs": memory.prompted,
            "non_cond_frame_outputs": memory.recent,
        }
        if features is not None:
            view.cache = features
        return view

    def _add_prompt(
        self, view: Any, prompt: Prompt, height: int, width: int, correcting: bool
    ) -> None:
        size, index = self._tracker.size, self._next
        if prompt.mask is not None:
            view.add_mask_inputs(0, index, mask_input(prompt.mask, size))
        else:
            coordinates, labels = point_input(prompt, height, width, size)
            inputs = {"point_coords": coordinates, "point_labels": labels}
            view.add_point_inputs(0, index, inputs)
            if correcting and prompt.box is None:  # of a frame that counts as tracked
                view.frames_tracked_per_obj[0][index] = {"reverse": False}
        view.obj_with_new_inputs = [1]

    def _move_memories(self) -> None:
        """Move the memories to the model, which may have moved since the last frame."""
        tracker = self._tracker
        place = (tracker.device, tracker.precision)
        if place != self._place:
            dtype = tracker.dtype if tracker.precision != self._place[1] else None
            for object, memory in self._objects.items():
                self._objects[object] = memory.to(tracker.device, dtype)
            self._place = place


class Sam2Tracker:
    """See ``base.Tracker``.

    model       a ``Sam2VideoModel`` or ``EdgeTamVideoModel`` in that precision, anywhere
    fallback    whether it falls back to the CPU when the memory of the device is full
    """

    independent: bool = True

    def __init__(
        self,
        model: Any,
        name: str,
        *,
        device: str,
        precision: str,
        fallback: bool = False,
        details: Mapping[str, str] | None = None,
    ) -> None:
        transformers = need("transformers", REMEDY)
        self.name = name
        self.model = model.eval().requires_grad_(False)
        self.device, self.precision = "cpu", precision
        self.dtype = dtype_of(precision)
        self.size = int(model.config.image_size)
        self.reach = Reach.of(model)
        self.session_class = getattr(transformers, CLASSES[model.config.model_type][1])
        self.details: Mapping[str, str] = {
            **(details or {}),
            "device": device,
            "precision": precision,
        }
        self._fallback = fallback
        try:
            self._move(device)
        except RuntimeError as error:
            self.device = device
            self.make_room(error)

    def session(self) -> Sam2Session:
        return Sam2Session(self)

    def make_room(self, error: RuntimeError) -> None:
        """Move to the CPU if that helps against ``error`` and is wanted, otherwise raise."""
        torch = need("torch", REMEDY)
        if not is_out_of_memory(error):
            raise error
        if self.device == "cpu" or not self._fallback:
            raise InputError(
                f"{self.name}: the device {self.device} is out of memory; close other programs "
                "that use it, choose a smaller model (sam2-tiny), track fewer objects, or use the "
                "device cpu"
            ) from error
        lost = self.device
        self.dtype, self.precision = dtype_of("fp32"), "fp32"
        self._move("cpu", self.dtype)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self.details = {
            **self.details,
            "device": "cpu",
            "precision": "fp32",
            "note": f"{lost} ran out of memory, so tracking continued on the CPU, which is slower",
        }

    def _move(self, device: str, dtype: Any = None) -> None:
        self.model = self.model.to(device, dtype)
        self.device = device
        _cache_constants(self.model)


def _cache_constants(model: Any) -> None:
    """Cache position encodings, which depend on sizes alone, instead of computing them for every
    frame as transformers does."""
    encoder = model.vision_encoder
    for owner, name in (
        (getattr(getattr(encoder, "neck", None), "position_encoding", None), "forward"),
        (getattr(encoder, "backbone", None), "_get_pos_embed"),
        (getattr(model.memory_attention, "rotary_emb", None), "forward"),
        (model, "get_image_wide_positional_embeddings"),
    ):
        if hasattr(owner, name):
            vars(owner).pop(name, None)  # cached on another device
            setattr(owner, name, cachetools.cached({}, key=_shapes)(getattr(owner, name)))


def _shapes(*values: Any) -> tuple[Any, ...]:
    return tuple((*v.shape, v.dtype, v.device) if hasattr(v, "dtype") else v for v in values)
