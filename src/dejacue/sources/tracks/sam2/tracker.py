"""A model of the SAM 2 family on a device, and its passes over consecutive frames.

Each object is followed by itself, with the image's features computed once for all: it can join
at any frame, and its masks do not depend on which other objects are followed. (In a session of
transformers that holds several, a prompt for one changes how the others are remembered.)

transformers keeps every frame and every output. Of these the next frame reads

    the memory      of each prompted frame, and of the last ``num_maskmem`` - 1 others
    the pointer     of each prompted frame, and of the last ``max_object_pointers_in_encoder`` - 1

by their distance to it, so older ones can go and the masks stay the same to the last bit. Frames
are numbered in the order in which they come; only differences count, so a video that is fed
backwards is nothing special.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, need
from dejacue.sources.documents import named
from dejacue.sources.encoders.torch_models import dtype_of
from dejacue.sources.tracks.base import Observation, Prompt
from dejacue.sources.tracks.prompts import united
from dejacue.sources.tracks.sam2 import images
from dejacue.sources.tracks.sam2.images import REMEDY

POINTER = "object_pointer"
MEMORY = ("maskmem_features", "maskmem_pos_enc")

Outputs = dict[int, dict[str, Any]]  # by frame, then by name: tensors


@dataclass(frozen=True)
class Reach:
    """How far back the model reads.

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

    def copy(self) -> Memory:
        return Memory(dict(self.prompted), dict(self.recent))

    def pruned(self, upcoming: int, reach: Reach) -> Memory:
        """What frame ``upcoming`` and those after it can read."""
        latest = sorted(self.prompted)[-reach.prompted :] if reach.prompted else self.prompted
        prompted = {
            frame: _kept(outputs, frame in latest or upcoming - frame <= reach.memories)
            for frame, outputs in self.prompted.items()
        }
        furthest = max(reach.memories, reach.pointers)
        recent = {
            frame: _kept(outputs, upcoming - frame <= reach.memories)
            for frame, outputs in self.recent.items()
            if upcoming - frame <= furthest
        }
        return Memory(prompted, recent)

    def to(self, device: str, dtype: Any) -> Memory:
        def moved(outputs: Outputs) -> Outputs:
            return {
                frame: {name: tensor.to(device, dtype) for name, tensor in own.items()}
                for frame, own in outputs.items()
            }

        return Memory(moved(self.prompted), moved(self.recent))


def _kept(outputs: Mapping[str, Any], whole: bool) -> dict[str, Any]:
    names = (POINTER, *MEMORY) if whole else (POINTER,)
    return {name: outputs[name] for name in names if name in outputs}


KIND = "dejacue sam2 session 1"


class Sam2Session:
    """See ``base.Session``.

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
        given = _by_object(prompts, (image.shape[0], image.shape[1]))
        if not given and not self._objects:
            self._next += 1
            return {}
        while True:
            try:
                objects, seen = self._advance(image, given)
                break
            except RuntimeError as error:
                self._tracker.make_room(error)  # on the CPU, or raises
        self._objects, self._next = objects, self._next + 1  # only a whole step counts
        return seen

    def state(self) -> bytes:
        torch = need("torch", REMEDY)
        objects = {
            number: {"prompted": memory.prompted, "recent": memory.recent}
            for number, memory in self._objects.items()
        }
        stream = io.BytesIO()
        content = {
            "kind": KIND,
            "model": self._tracker.key,
            "precision": self._place[1],
            "next": self._next,
            "objects": objects,
        }
        torch.save(content, stream)
        return stream.getvalue()

    def restore(self, state: bytes) -> None:
        """Goes on exactly on the same kind of device and in the same precision, else nearly."""
        torch = need("torch", REMEDY)
        try:
            found = torch.load(io.BytesIO(state), map_location="cpu", weights_only=True)
            fits = found["kind"] == KIND and found["model"] == self._tracker.key
        except (RuntimeError, ValueError, LookupError, TypeError, EOFError, pickle.PickleError):
            raise InputError("the state of the tracker is damaged; start over") from None
        if not fits:
            raise InputError(
                f"the state was not saved by {self._tracker.name} with these weights; use the "
                "tracker that saved it, or start over"
            )
        self._next = found["next"]
        self._objects = {number: Memory(**own) for number, own in found["objects"].items()}
        self._place = ("cpu", found["precision"])

    def _advance(
        self, image: NDArray[np.uint8], given: Mapping[int, Prompt]
    ) -> tuple[dict[int, Memory], dict[int, Observation]]:
        torch = need("torch", REMEDY)
        self._follow()
        tracker = self._tracker
        height, width = image.shape[:2]
        objects, logits, scores = {}, [], []
        with torch.inference_mode():
            frame = images.pixels(image, tracker.size, tracker.device, tracker.dtype)
            features = None
            for number in dict.fromkeys((*self._objects, *given)):
                known = self._objects.get(number)
                memory = Memory() if known is None else known.copy()
                prompt = given.get(number)
                view = self._view(memory, features)
                if prompt is not None:
                    self._ask(view, prompt, height, width, correcting=known is not None)
                tracker.model(view, frame_idx=self._next, frame=frame)
                features = view.cache
                if prompt is not None and self._next in memory.recent:
                    memory.prompted[self._next] = memory.recent.pop(self._next)
                own = memory.prompted if prompt is not None else memory.recent
                output = own[self._next]
                logits.append(output["pred_masks"].flatten(0, -3))
                scores.append(output["object_score_logits"].flatten())
                memory = memory.pruned(self._next + 1, tracker.reach)
                if tracker.precision == "fp16":  # memories come as bf16; 4.57 cannot mix the two
                    memory = memory.to(tracker.device, tracker.dtype)
                objects[number] = memory
            found = images.masks(torch.stack(logits), height, width)
            presence = torch.cat(scores).float().sigmoid().cpu().tolist()
        return objects, {
            number: Observation(mask, sure)
            for number, mask, sure in zip(objects, found, presence, strict=True)
        }

    def _view(self, memory: Memory, features: Any) -> Any:
        """A session of transformers for one object and one frame, over what is remembered."""
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

    def _ask(self, view: Any, prompt: Prompt, height: int, width: int, correcting: bool) -> None:
        size, index = self._tracker.size, self._next
        if prompt.mask is not None:
            view.add_mask_inputs(0, index, images.painted(prompt.mask, size))
        else:
            coordinates, labels = images.clicks(prompt, height, width, size)
            inputs = {"point_coords": coordinates, "point_labels": labels}
            view.add_point_inputs(0, index, inputs)
            if correcting and prompt.box is None:  # of a frame that counts as tracked
                view.frames_tracked_per_obj[0][index] = {"reverse": False}
        view.obj_with_new_inputs = [1]

    def _follow(self) -> None:
        """Brings the memories to the model, which may have moved since the last frame."""
        tracker = self._tracker
        place = (tracker.device, tracker.precision)
        if place != self._place:
            dtype = tracker.dtype if tracker.precision != self._place[1] else None
            for number, memory in self._objects.items():
                self._objects[number] = memory.to(tracker.device, dtype)
            self._place = place


def _by_object(prompts: Sequence[Prompt], size: tuple[int, int]) -> dict[int, Prompt]:
    """One prompt for each object: what several say of it is put together."""
    together: dict[int, list[Prompt]] = {}
    for prompt in prompts:
        together.setdefault(prompt.object, []).append(prompt)
    found = {}
    for one, own in together.items():
        with named(f"object {one}"):  # track() names the frame
            found[one] = united(own, size)
    return found


CLASSES = {  # by the model_type of its config.json
    "sam2_video": ("Sam2VideoModel", "Sam2VideoInferenceSession"),
    "edgetam_video": ("EdgeTamVideoModel", "EdgeTamVideoInferenceSession"),
}


class Sam2Tracker:
    """See ``base.Tracker``.

    model       a ``Sam2VideoModel`` or ``EdgeTamVideoModel`` in that precision, anywhere
    key         tells this model from others: states are only taken back by the same
    fallback    whether it falls back to the CPU when the memory of the device is full
    """

    approximate: bool = False
    independent: bool = True

    def __init__(
        self,
        model: Any,
        name: str,
        *,
        device: str,
        precision: str,
        fallback: bool = False,
        key: str = "",
        details: Mapping[str, str] | None = None,
    ) -> None:
        transformers = need("transformers", REMEDY)
        self.name, self.key = name, key
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
        """After ``error``: goes to the CPU if that helps and is wanted, otherwise raises."""
        torch = need("torch", REMEDY)
        full = isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error)
        if not full:
            raise error
        if self.device == "cpu" or not self._fallback:
            raise InputError(
                f"{self.name}: the device {self.device} is out of memory; close other programs "
                "that use it, choose a smaller model (sam2-tiny), track fewer objects, or use "
                "the device cpu"
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
        _remember_constants(self.model)


def _remember_constants(model: Any) -> None:
    """Position encodings depend on sizes alone; transformers computes them for every frame."""
    encoder = model.vision_encoder
    for owner, name in (
        (getattr(getattr(encoder, "neck", None), "position_encoding", None), "forward"),
        (getattr(encoder, "backbone", None), "_get_pos_embed"),
        (getattr(model.memory_attention, "rotary_emb", None), "forward"),
        (model, "get_image_wide_positional_embeddings"),
    ):
        if hasattr(owner, name):
            vars(owner).pop(name, None)  # what was remembered elsewhere
            setattr(owner, name, _remembered(getattr(owner, name)))


def _remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[Any, Any] = {}

    def looked_up(*given: Any) -> Any:
        key = tuple((*g.shape, g.dtype, g.device) if hasattr(g, "dtype") else g for g in given)
        if key not in known:
            known[key] = function(*given)
        return known[key]

    return looked_up
