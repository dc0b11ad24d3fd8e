"""What the model reads again of an object's past, and nothing else.

transformers keeps every frame and every output. Of these the next frame reads

    the memory      of each prompted frame, and of the last ``num_maskmem`` - 1 others
    the pointer     of each prompted frame, and of the last ``max_object_pointers_in_encoder`` - 1

by their distance to it, so older ones can go and the masks stay the same to the last bit. Frames
are numbered in the order in which they come; only differences count, so a video that is fed
backwards is nothing special.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
