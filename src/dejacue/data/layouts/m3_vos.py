"""M³-VOS: as VOST, and all_phase_label.json, which names the state before and after.

It says which states there are, not when: clips have vocabularies and no references.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dejacue.data.layouts._records import Clip, Dataset, check
from dejacue.data.layouts._sequences import LISTS, MASKS, PICTURES, has_sequences, listed, sequences
from dejacue.records import Vocabulary
from dejacue.sources.documents import read_json

LABELS = "all_phase_label.json"
KEYS = ("before_state", "after_state")
NEEDS = f"JPEGImages/, Annotations/, {LABELS} (or meta/{LABELS})"


def recognise(folder: Path) -> bool:
    return has_sequences(folder) and labels_in(folder) is not None


def labels_in(folder: Path) -> Path | None:
    return next((p for p in (folder / LABELS, folder / "meta" / LABELS) if p.is_file()), None)


def read(folder: Path) -> Dataset:
    path = labels_in(folder) or folder / LABELS
    labels = read_json(path)
    check(path, _problems(labels))
    splits = listed(folder / LISTS)
    found, missing = sequences(folder / PICTURES, folder / MASKS, [*splits, *labels])
    clips: list[Clip] = []
    for name, clip in found.items():
        clip = replace(clip, more={"split": splits[name]} if name in splits else {})
        if name not in labels:
            missing.append(f'{path.name}: does not mention the sequence "{name}"')
            clips.append(clip)
        for number, own in labels.get(name, {}).items():
            clips.append(_object(clip, number, own))
    same = [clip.id for clip in clips if clip.objects and clip.vocabulary is None]
    notes = [
        f"{len(same)} objects have the same state before and after, so they have no vocabulary: "
        f"{', '.join(same[:3])}"
    ]
    return Dataset("m3-vos", folder, tuple(clips), tuple(missing), tuple(notes if same else ()))


def _object(clip: Clip, number: str, own: dict[str, str]) -> Clip:
    before, after = (own[key].strip() for key in KEYS)
    words = None if before == after else Vocabulary({before: [before], after: [after]})
    more = {**clip.more, "before_state": before, "after_state": after}
    if isinstance(own.get("phase transition"), str):
        more["transition"] = own["phase transition"]
    return replace(
        clip,
        id=f"{clip.id}-{number}",
        objects=(int(number),),
        component=clip.id,
        vocabulary=words,
        more=more,
    )


def _problems(labels: Any) -> list[str]:
    if not isinstance(labels, dict) or not all(isinstance(own, dict) for own in labels.values()):
        return ["must map each sequence to its objects"]
    return [
        f'sequence "{name}", object "{number}": needs its number and, as text, {" and ".join(KEYS)}'
        for name, objects in labels.items()
        for number, own in objects.items()
        if not (number.isascii() and number.isdigit() and isinstance(own, dict))
        or not all(isinstance(own.get(key), str) and own[key].strip() for key in KEYS)
    ]
