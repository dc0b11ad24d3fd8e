"""Labelled histories in one file, to be learned from where the release and its readers are not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dejacue.errors import InputError, MissingData
from dejacue.records import History, Vocabulary, Window
from dejacue_paper.learn.decoders.records import DecoderExample


@dataclass(frozen=True, eq=False)
class PackedExample:
    history: History
    vocabulary: Vocabulary
    references: Mapping[str, tuple[Window, ...]]
    component: str


def write_pack(
    path: Path, groups: Mapping[str, Sequence[DecoderExample]], half: Sequence[str]
) -> None:
    """Write groups of histories; the features of the groups in ``half`` are in half precision."""
    arrays: dict[str, Any] = {}
    about: dict[str, list[Any]] = {}
    for group, entries in groups.items():
        about[group] = []
        for k, entry in enumerate(entries):
            history, vocabulary = entry.history, entry.vocabulary
            kind = np.float16 if group in half else np.float32
            arrays[f"{group}.{k}.features"] = history.features.astype(kind)
            arrays[f"{group}.{k}.frames"] = history.frames
            arrays[f"{group}.{k}.words"] = np.asarray(vocabulary.features)
            references = {
                state: [tuple(window) for window in windows]
                for state, windows in entry.references.items()
            }
            component = getattr(entry, "component", history.id)
            states = {state: list(texts) for state, texts in vocabulary.states.items()}
            about[group].append([history.id, history.encoder, component, states, references])
    with path.open("wb") as file:
        np.savez(file, about=np.array(json.dumps(about)), **arrays)


def read_pack(path: Path) -> dict[str, list[PackedExample]]:
    if not path.is_file():
        raise MissingData(f"{path}: no such file; write it with write_pack")
    with np.load(path, allow_pickle=False) as file:
        if "about" not in file:
            raise InputError(f"{path}: is not a pack of labelled histories; write it again")
        groups: dict[str, list[PackedExample]] = {}
        for group, entries in json.loads(str(file["about"])).items():
            groups[group] = []
            for k, (name, encoder, component, states, references) in enumerate(entries):
                features, frames, words = (
                    file[f"{group}.{k}.{part}"] for part in ("features", "frames", "words")
                )
                groups[group].append(
                    PackedExample(
                        History(features.astype(np.float32), frames, name, encoder),
                        Vocabulary(states, words, encoder),
                        {
                            s: tuple(Window(*w) for w in windows)
                            for s, windows in references.items()
                        },
                        component,
                    )
                )
    return groups
