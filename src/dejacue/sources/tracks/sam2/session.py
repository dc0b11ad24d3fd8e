"""One pass of SAM 2 over consecutive frames.

Each object is followed by itself, with the image's features computed once for all: it can join
at any frame, and its masks do not depend on which other objects are followed. (In a session of
transformers that holds several, a prompt for one changes how the others are remembered.)
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, need
from dejacue.sources.documents import named
from dejacue.sources.tracks.base import Observation, Prompt
from dejacue.sources.tracks.prompts import united
from dejacue.sources.tracks.sam2 import images
from dejacue.sources.tracks.sam2.images import REMEDY
from dejacue.sources.tracks.sam2.memory import Memory

if TYPE_CHECKING:
    from dejacue.sources.tracks.sam2.tracker import Sam2Tracker

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
