"""Write a Dataset as the files that other commands take: a manifest, and vocabularies."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

from dejacue.atomic import check_place, write_text
from dejacue.errors import InputError
from dejacue.files.histories import file_name
from dejacue_paper.data.layouts.records import Clip, Dataset

COLUMNS = ("id", "video", "masks", "objects", "object", "source", "kind")
SAMPLING = ("start", "end", "start_s", "end_s", "stride", "fps")
MASK_SUFFIXES = ("", ".csv", ".txt", ".npz", ".npy", ".json", ".jsonl")


def write_manifest(
    path: str | os.PathLike[str], dataset: Dataset, masks: str | os.PathLike[str] | None = None
) -> dict[str, str]:
    """Write a manifest for ``ingest`` of the clips that have a video and masks; return id → why
    not, of the others.

    masks   a folder with masks or boxes of one's own, ID (a folder), ID.csv, ID.npz …, for data
            sets that have none
    """
    rows, left_out = manifest_rows(path, dataset, masks)
    extra = dict.fromkeys(key for row in rows for key in row if key not in (*COLUMNS, *SAMPLING))
    used = [key for key in (*COLUMNS, *SAMPLING, *extra) if any(key in row for row in rows)]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, used, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, stream.getvalue())
    return left_out


def manifest_rows(
    path: str | os.PathLike[str], dataset: Dataset, masks: str | os.PathLike[str] | None = None
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the rows that ``write_manifest`` writes, and what it returns."""
    if not os.fspath(path).lower().endswith(".csv"):
        raise InputError(f"{path}: the manifest must be a .csv file; change the name")
    rows, left_out = clip_rows(dataset, masks, Path(path).absolute().parent)
    if not rows:
        first, reason = next(iter(left_out.items()))
        raise InputError(f'{path}: no clip can be listed; "{first}": {reason}')
    return rows, left_out


def clip_rows(
    dataset: Dataset, masks: str | os.PathLike[str] | None = None, base: Path | None = None
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the clips as lines of a manifest, with paths relative to ``base`` (None: absolute),
    and id → why not, of the others."""
    folder = None if masks is None else Path(masks)
    if folder is not None and not folder.is_dir():
        raise InputError(
            f"{folder}: no such folder of masks; give the folder that contains ID.csv …"
        )
    left_out: dict[str, str] = {}
    rows = []
    for clip in dataset.clips:
        path = clip.masks if folder is None else _masks_in(folder, clip.id)
        reason = _why_not_listed(clip)
        if reason is None and path is not None:
            rows.append(_row(clip, path, base))
        else:
            left_out[clip.id] = reason or (
                "no masks; create them (dejacue track) and give their folder"
            )
    return rows, left_out


def _masks_in(folder: Path, name: str) -> Path | None:
    return next((p for suffix in MASK_SUFFIXES if (p := folder / f"{name}{suffix}").exists()), None)


def _why_not_listed(clip: Clip) -> str | None:
    if clip.transparent:
        return (
            "its pictures are transparent, and a manifest cannot put them on white; open them in "
            "Python"
        )
    if clip.video is None and clip.images:
        return "no folder or pattern matches exactly its pictures"
    return "no video" if clip.video is None else None


def _row(clip: Clip, masks: Path, base: Path | None) -> dict[str, Any]:
    def placed(path: str) -> str:
        return os.path.abspath(path) if base is None else os.path.relpath(path, base)

    of_dataset = masks == clip.masks
    row = {
        "id": clip.id,
        "video": placed(str(clip.video)),
        "masks": placed(str(masks)),
        "objects": ("+".join(map(str, clip.objects)) or "all") if of_dataset else None,
        "object": clip.object,
        "source": clip.component or clip.id,
        "kind": clip.kind if of_dataset else None,
        **{key: clip.sampling.get(key) for key in SAMPLING},
        **clip.columns,
    }
    return {key: value for key, value in row.items() if value not in (None, "")}


def write_vocabularies(folder: str | os.PathLike[str], dataset: Dataset) -> list[Path]:
    """Write ID.json for each clip that has words, as ``read_vocabulary`` takes it."""
    documents = vocabulary_documents(dataset)
    check_place(folder, folder=True)
    return [
        write_text(
            Path(folder) / f"{name}.json", json.dumps(words, indent=2, ensure_ascii=False) + "\n"
        )
        for name, words in documents.items()
    ]


def vocabulary_documents(dataset: Dataset) -> dict[str, dict[str, Any]]:
    """Return what ``write_vocabularies`` writes, by the name of the file."""
    documents = {
        file_name(clip.id): {
            **({"object": clip.vocabulary.object} if clip.vocabulary.object else {}),
            "states": {state: list(texts) for state, texts in clip.vocabulary.states.items()},
        }
        for clip in dataset.clips
        if clip.vocabulary is not None
    }
    if not documents:
        problem = f"{dataset.layout} has no words for its states here"
        remedy = "write your own list with the states that it names"
        raise InputError(f"{dataset.folder}: {problem}; {remedy}")
    return documents
