"""SAM 3 through transformers, from a folder that the user has (``dejacue[track]``): it finds all
instances of a name and follows them, without a detector and without prompts.

    load          "sam3:FOLDER" → a tracker
    Sam3Tracker   a model on a device; names and pictures, one after another → masks of each frame

Nothing is downloaded: the weights are gated and under a licence of their own, which the tracker's
details name. The precision is fp32 unless another is asked for: bf16 is known to find less.

What goes into the model and comes out takes the steps of transformers' processor, which needs
torchvision and is not used: bytes resized with antialiasing to the model's square, then normalised;
mask logits resized back bilinearly and cut at 0. Objects that overlap stay whole; there the
processor gives each pixel to one of them, here the masks' format decides.

As in transformers' iterator, frames come out ``hotstart_delay`` frames late, without the objects
that the model has taken back by then. Frames and outputs that it no longer reads are dropped.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, first_line, need
from dejacue.sources.encoders.torch_models import choose_device, dtype_of
from dejacue.sources.encoders.weights import files_in, sha256
from dejacue.sources.tracks.base import NameTracker, Sighting, Tracker, TrackerSession
from dejacue.sources.tracks.sam2 import (
    FILES,
    REMEDY,
    frame_input,
    load_weights,
    model_type,
    output_masks,
)

KIND = "sam3"
MODEL_TYPE = "sam3_video"
LICENCE = "the SAM License of Meta"
MAX_NAME_TOKENS = 32
SCALE = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)  # mean and deviation, where the folder has no others
PROCESSOR_FILES = ("processor_config.json", "preprocessor_config.json")
TOKENIZER_FILES = ("tokenizer.json", "vocab.json")
COMPLETE = "copy all files of the model's repository into it"
NO_KERNELS = (
    "without the package kernels, SAM 3 fills no holes and keeps several detections of one thing"
)
_log = logging.getLogger("dejacue")


def finds_by_name(tracker: Tracker | str | None) -> bool:
    """Return whether a tracker, or the one of this name, finds objects by their names itself."""
    if isinstance(tracker, str):
        return tracker.partition(":")[0] == KIND
    return isinstance(tracker, NameTracker)


def refuse_prompts(tracker: Tracker | str | None) -> NoReturn:
    name = getattr(tracker, "name", tracker)
    problem = f"{name} starts from the name of an object, not from a box, click or mask"
    raise InputError(problem, field="tracker", value=name, remedy="name the object, or choose sam2")


def load(
    name: str, *, device: str | None = None, precision: str | None = None, fallback: bool = False
) -> Sam3Tracker:
    """Load the tracker "sam3:FOLDER"; config.json, model.safetensors and the files of the tokenizer
    are in the folder.

    device      cuda, mps or cpu (default: the first that is there)
    precision   fp32 (default), bf16 or fp16
    """
    _, _, place = name.partition(":")
    if not place:
        raise InputError(
            f"the weights of SAM 3 are not downloaded for you: they are gated, under {LICENCE}",
            field="tracker",
            value=name,
            remedy="give the folder that you have them in, sam3:FOLDER",
        )
    if fallback:
        problem = f"{name} does not fall back to another device"
        raise InputError(problem, field="fallback", remedy="leave it out")
    need("torch", REMEDY)
    transformers = need("transformers", REMEDY)
    device, precision = choose_device(device), precision or "fp32"
    dtype = dtype_of(precision)
    files = files_in(Path(place), FILES)
    folder = files["config.json"].parent
    model_type(files["config.json"], [MODEL_TYPE])
    if not hasattr(transformers, "Sam3VideoModel"):
        problem = "this transformers has no Sam3VideoModel"
        raise InputError(problem, field="tracker", value=name, remedy=f"{REMEDY} --upgrade")
    if not any((folder / file).is_file() for file in TOKENIZER_FILES):
        # transformers would make an empty one
        problem = f"holds no tokenizer ({' or '.join(TOKENIZER_FILES)})"
        raise InputError(problem, file=folder, remedy=COMPLETE)
    model = load_weights(transformers.Sam3VideoModel, folder, dtype)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # tokenizers and transformers raise their own kinds
        problem = f"holds no tokenizer that can be loaded ({first_line(error)})"
        raise InputError(problem, file=folder, remedy=COMPLETE) from error
    licence = next((path for path in sorted(folder.glob("LICENSE*")) if path.is_file()), None)
    details = {
        "model": place,
        "licence": LICENCE + ("" if licence is None else f" ({licence})"),
        "sha256 model.safetensors": sha256(files["model.safetensors"]),
        "transformers": transformers.__version__,
        "device": device,
        "precision": precision,
        **({} if find_spec("kernels") else {"note": NO_KERNELS}),
    }
    _log.info("%s: its weights are under %s", name, details["licence"])
    return Sam3Tracker(model, tokenizer, name, device, dtype, _scale(folder), details)


def _scale(folder: Path) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation of pictures, as the files of the processor say."""
    for name in PROCESSOR_FILES:
        try:
            values = json.loads((folder / name).read_text(encoding="utf-8"))
            values = values.get("image_processor", values)
            mean, deviation = (tuple(map(float, values[f"image_{key}"])) for key in ("mean", "std"))
            return mean, deviation
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            continue
    return SCALE


class Sam3Tracker:
    """See ``base.NameTracker``.

    model   a ``Sam3VideoModel``, anywhere
    scale   mean and deviation of its pictures
    """

    approximate: bool = False
    independent: bool = False

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        device: str,
        dtype: Any,
        scale: tuple[tuple[float, ...], tuple[float, ...]] = SCALE,
        details: Mapping[str, str] | None = None,
    ) -> None:
        self.model = model.eval().requires_grad_(False).to(device, dtype)
        self.tokenizer, self.name, self.device, self.dtype = tokenizer, name, device, dtype
        self.scale = scale
        self.details: Mapping[str, str] = details or {}
        self.threshold = float(model.config.new_det_thresh)
        tracker = model.config.tracker_config
        self.reach = max(tracker.num_maskmem, tracker.max_object_pointers_in_encoder)

    def session(self) -> TrackerSession:
        refuse_prompts(self)

    def find(
        self, pictures: Iterable[NDArray[np.uint8]], names: Sequence[str], count: int | None = None
    ) -> Iterator[dict[int, Sighting]]:
        torch = need("torch", REMEDY)
        session = self._session(names, count)
        late: deque[tuple[tuple[int, int], Any]] = deque()
        removed: set[int] = set()
        for at, picture in enumerate(pictures):
            frame = frame_input(
                picture, self.model.config.image_size, self.device, self.dtype, *self.scale
            )
            session.add_new_frame(frame, at)
            try:
                with torch.inference_mode():
                    output = self.model(session, frame_idx=at)
            except RuntimeError as error:
                if "out of memory" not in str(error):
                    raise
                problem = f"{self.name}: the device {self.device} is out of memory"
                remedy = "use fewer frames, another device, or sam2 with a detector"
                raise InputError(
                    problem, field="device", value=self.device, remedy=remedy
                ) from error
            self._forget(session, at)
            removed |= output.removed_obj_ids
            late.append(((picture.shape[0], picture.shape[1]), output))
            if len(late) >= max(1, self.model.hotstart_delay):
                yield self._sightings(session, *late.popleft(), removed)
        for size, output in late:
            yield self._sightings(session, size, output, removed)

    def _session(self, names: Sequence[str], count: int | None) -> Any:
        """Return a session of transformers with the tokens of the names."""
        transformers = need("transformers", REMEDY)
        session = transformers.Sam3VideoInferenceSession(
            inference_device=self.device,
            inference_state_device=self.device,
            video_storage_device=self.device,
            dtype=self.dtype,
        )
        if count:  # how many there are: early frames are encoded as part of the whole
            session.processed_frames = dict.fromkeys(range(count))
        for name in names:
            tokens = self.tokenizer(
                name, return_tensors="pt", padding="max_length", max_length=MAX_NAME_TOKENS
            ).to(self.device)
            if tokens.input_ids.shape[1] > MAX_NAME_TOKENS:
                problem = f'"{name}" has more than {MAX_NAME_TOKENS} tokens'
                raise InputError(problem, field="names", value=name, remedy="use fewer words")
            prompt = session.add_prompt(name)
            session.prompt_input_ids[prompt] = tokens.input_ids
            session.prompt_attention_masks[prompt] = tokens.attention_mask
        return session

    def _forget(self, session: Any, at: int) -> None:
        """Drop what frames after this one do not read."""
        session.processed_frames[at] = None  # they are counted
        for outputs in session.output_dict_per_obj.values():
            recent = outputs["non_cond_frame_outputs"]
            for frame in [frame for frame in recent if frame <= at - self.reach]:
                del recent[frame]

    def _sightings(
        self, session: Any, size: tuple[int, int], output: Any, removed: set[int]
    ) -> dict[int, Sighting]:
        """Return the objects of a frame that are in sight, at the size of the frame."""
        torch = need("torch", REMEDY)
        hidden = removed | set(output.suppressed_obj_ids or ())
        ids = [id for id in sorted(output.obj_id_to_mask) if id not in hidden]
        if not ids:
            return {}
        logits = torch.stack([output.obj_id_to_mask[id] for id in ids])
        masks = output_masks(logits, *size)
        sightings = {}
        for id, mask in zip(ids, masks, strict=True):
            if mask.any():
                presence = float(output.obj_id_to_tracker_score.get(id, 0.0))
                name = session.prompts[session.obj_id_to_prompt_id.get(id, 0)]
                score = float(output.obj_id_to_score[id])
                sightings[id] = Sighting(mask, presence, score, name)
        return sightings
