"""Folders of pictures with a folder of masks each: VOST, DAVIS, YouTube-VOS, MOSE, M³-VOS."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dejacue.data.layouts._records import Clip, check_plain, folders_in
from dejacue.sources.documents import read_text
from dejacue.sources.images import is_image, natural

PICTURES, MASKS, LISTS = "JPEGImages", "Annotations", "ImageSets"


def has_sequences(folder: Path) -> bool:
    return (folder / PICTURES).is_dir() and (folder / MASKS).is_dir()


def listed(lists: Path) -> dict[str, str]:
    """Sequence → split, from the .txt files of a folder of ImageSets."""
    found: dict[str, str] = {}
    for path in sorted(lists.glob("*.txt")) if lists.is_dir() else ():
        for line in read_text(path).split():
            found.setdefault(line, path.stem)
    return found


def sequences(
    pictures: Path, masks: Path, names: Iterable[str] = (), kind: str | None = "indexed"
) -> tuple[dict[str, Clip], list[str]]:
    """A clip for each sequence that is named or lies there, and what is missing of them.

    Where only every n-th picture has a mask, the clip takes just those.
    """
    wanted = dict.fromkeys([*names, *(own.name for own in folders_in(pictures))])
    check_plain(wanted)
    clips, missing = {}, []
    for name in wanted:
        images = _pictures(pictures / name)
        drawn = _pictures(masks / name)
        gone = [own for own, here in (("pictures", images), ("masks", drawn)) if not here]
        if gone:
            missing.append(f"{name}: its {' and '.join(gone)} are missing")
        at = {image.stem: place for place, image in enumerate(images)}
        alone = [own.name for own in drawn if own.stem not in at]
        if images and alone:
            missing.append(
                f"{name}: {len(alone)} of its masks have no picture: {', '.join(alone[:3])}"
            )
        clips[name] = Clip(
            name,
            video=str(pictures / name) if images else None,
            masks=masks / name if drawn else None,
            kind=kind,
            frames=len(images) or None,
            sampling=_sampling([at[own.stem] for own in drawn if own.stem in at]),
        )
    return clips, missing


def _pictures(folder: Path) -> list[Path]:
    return natural(e for e in folder.iterdir() if is_image(e)) if folder.is_dir() else []


def _sampling(places: list[int]) -> dict[str, Any]:
    """Which pictures have masks, where these are every n-th one."""
    step = math.gcd(*(b - a for a, b in itertools.pairwise(places)))
    if step < 2:
        return {}
    return {"start": places[0], "stride": step} if places[0] else {"stride": step}
