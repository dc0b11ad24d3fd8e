"""A small release of one history, in the files of the public one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from dejacue_paper import load_release
from dejacue_paper.data.release import Release


def unit(*shape: int) -> np.ndarray:
    rows = np.random.default_rng(1).normal(size=shape)
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


class FakeRelease:
    """Writes a release of one VOST history under ``folder``; tests replace parts before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.row: dict[str, Any] = {
            "history_id": "H001",
            "sequence_id": "cup",
            "source_component_id": "video",
            "siglip2_visual": "data/visual.npz",
            "siglip2_text": "data/text.npz",
            "siglip2_prompt_text": "data/prompts.npz",
            "states": [
                {"state_id": "empty", "references": [[0, 2]]},
                {"state_id": "filled", "references": [[3, 5], [7, 8]]},
            ],
        }
        self.document: dict[str, Any] = {
            "interval_convention": "zero_based_inclusive",
            "histories": [self.row],
        }
        words = {
            "state_ids": np.array(["filled", "empty"]),
            "state_texts": np.array(["full cup", "empty cup"]),
        }
        self.files: dict[str, dict[str, Any]] = {
            "visual": {"visual_features": unit(9, 4), "frame_indices": np.arange(9)},
            "text": {**words, "text_features": unit(2, 4)},
            "prompts": {
                "state_ids": np.array(["empty", "filled"]),
                "state_texts": np.array(["empty cup", "full cup"]),
                "variant_names": np.array(["raw"]),
                "text_features": unit(1, 2, 4),
            },
        }

    def load(self) -> Release:
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        for name, arrays in self.files.items():
            np.savez(self.folder / "data" / f"{name}.npz", **arrays)
        (self.folder / "data" / "benchmark.json").write_text(json.dumps(self.document))
        return load_release(self.folder)
