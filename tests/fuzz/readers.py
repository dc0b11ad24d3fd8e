"""What reads files: a small valid file or folder of every format, and what is done with it."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import mutate
import numpy as np
from helpers.release import FakeRelease
from helpers.still_tracker import Still, register
from PIL import Image

from dejacue import Finding, History, Reference, find
from dejacue.data import annotation
from dejacue.data import annotation as passes
from dejacue.errors import Cancelled
from dejacue.files import read_history, read_vocabulary, write_history, write_vocabulary
from dejacue.method import Window
from dejacue.sources.masks import open_masks
from dejacue.sources.results import (
    read_references,
    read_timelines,
    write_references,
    write_timelines,
)
from dejacue.sources.tracks import read_notes
from dejacue.sources.tracks.follow import first_prompts, follow
from dejacue.sources.video import Frame, open_video, write_video
from dejacue_paper import generate
from dejacue_paper.data.release import load_release

COUNT, HEIGHT, WIDTH = 6, 48, 64
register()  # the tracker "still"


class Target(NamedTuple):
    """One thing that is fuzzed.

    share    of the inputs
    make     writes a valid input into a folder, once
    run      takes random numbers, that folder and an empty one, makes an input there and reads it
    allowed  errors that are right beside a DejaCueError
    """

    name: str
    share: int
    make: Callable[[Path], object]
    run: Callable[[Random, Path, Path], object]
    allowed: tuple[type[Exception], ...] = ()


def reader(
    name: str, share: int, make: Callable[[Path], object], read: Callable[[Random, Path], object]
) -> Target:
    """Return a target that changes one file in a copy of the valid folder, and reads the copy."""

    def run(rng: Random, valid: Path, folder: Path) -> object:
        shutil.copytree(valid, folder, dirs_exist_ok=True)
        mutate.tree(rng, folder)
        return read(rng, folder)

    return Target(name, share, make, run)


def only(read: Callable[[Path], object]) -> Callable[[Random, Path], object]:
    """Return a function that reads the file ``x`` of a folder, whatever its ending."""
    return lambda rng, folder: read(next(iter(sorted(folder.glob("x.*"))), folder / "x.gone"))


def scene() -> Any:
    return generate(frames=12, dimension=9)


def finding(folder: Path) -> Finding:
    example = scene()
    result = find(example.history, example.vocabulary)
    result.write(folder)
    return result


def references(folder: Path, suffix: str) -> None:
    records = [Reference("h1", {"a": [Window(0, 3)], "b": [Window(5, 9), Window(12, 12)]})]
    write_references(folder / f"x{suffix}", records)


def marked(folder: Path, suffix: str) -> None:
    """Write a file of another tool."""
    records = [Reference("x", {"a": [Window(0, 3)], "b": [Window(5, 9), Window(12, 12)]})]
    write_references(folder / f"x{suffix}", records, times=clock())


def clock() -> History:
    return History(np.ones((20, 2)), id="x", times_s=np.arange(20) / 25)


def read_marked(path: Path) -> None:
    for reference in read_references(path, times=clock()):
        assert reference.states


def timelines(folder: Path, suffix: str) -> None:
    example = scene()
    timeline = find(example.history, example.vocabulary).timeline
    if suffix == ".csv":
        rows = timeline.to_rows()
        with (folder / "x.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(dict.fromkeys(k for row in rows for k in row)))
            writer.writeheader()
            writer.writerows(rows)
    else:
        write_timelines(folder / f"x{suffix}", [timeline])


def two_passes(folder: Path, states: tuple[str, str] | None = None) -> None:
    pre, between, post = (
        ("pre", "transition", "post") if states is None else (states[0], "none", states[1])
    )
    runs = [pre] * 6 + [between] * 2 + [post] * 7
    window = annotation.template("h", range(15), "a").frames
    first = passes.Pass("h", "ann", window, tuple(runs), states)
    second = passes.Pass("h", "bob", window, (pre, pre, post, *runs[3:]), states)
    passes.write_pass(folder / "one.json", first)
    passes.write_pass(folder / "other.json", second)
    decisions = annotation.open_decisions(first, second)
    decided = [replace(row, label=pre) for row in decisions.rows]
    passes.write_decisions(folder / "decisions.json", replace(decisions, rows=tuple(decided)))


def read_passes(rng: Random, folder: Path) -> None:
    first, second = (passes.read_pass(folder / f"{name}.json") for name in ("one", "other"))
    decisions = passes.read_decisions(folder / "decisions.json")
    agreed = annotation.consensus(first, second, decisions)
    if agreed.states is not None:
        annotation.changes(agreed, rng.choice((1, 5)))
        annotation.stable_reference(agreed, rng.choice((1, 5)))
        return
    annotation.events(agreed, rng.choice((1, 5)))


def release(folder: Path) -> None:
    FakeRelease(folder).load()


def read_release(rng: Random, folder: Path) -> None:
    for entry in load_release(folder).vost:
        entry.prompted("raw")
        assert entry.reference.history_id == entry.id


# Masks


def masks_of(kind: str, folder: Path) -> None:
    place = folder / "masks"
    labels = np.zeros((COUNT, HEIGHT, WIDTH), np.uint8)
    for at in range(COUNT):
        labels[at, 4 : 20 + at, 8:30] = 1
        labels[at, 25:40, 30 : 50 + at] = 2
    box = {"bbox": [4, 8, 20, 12]}
    polygon = {"segmentation": [[4.0, 4.0, 30.0, 4.0, 30.0, 30.0]]}
    rle = {"segmentation": {"size": [HEIGHT, WIDTH], "counts": [100, 500, HEIGHT * WIDTH - 600]}}
    coco = {
        "images": [
            {"id": k, "file_name": f"{k:05d}.png", "height": HEIGHT, "width": WIDTH}
            for k in range(COUNT)
        ],
        "annotations": [
            {"id": k, "image_id": k, "category_id": 1, "track_id": 1, **shape}
            for k, shape in enumerate((box, polygon, rle, box, polygon, rle))
        ],
    }
    plain = [{"frame": k, "id": 1, **shape} for k, shape in enumerate((polygon, rle, box))]
    vis = {
        "videos": [{"file_names": ["00000.png", "00001.png"], "height": HEIGHT, "width": WIDTH}],
        "annotations": [{"id": 1, "segmentations": [rle["segmentation"], None]}],
    }
    sam2 = [
        {"frame_index": k, "results": [{"object_id": 1, "mask": rle["segmentation"]}]}
        for k in range(3)
    ]
    documents = {"coco": coco, "plain": plain, "youtube-vis": vis, "sam2": sam2}
    if kind in documents:
        (folder / "x.json").write_text(json.dumps(documents[kind]))
    elif kind == "stack":
        np.savez_compressed(
            folder / "x.npz",
            masks=labels == 1,
            frames=np.arange(COUNT),
            ids=np.array([1]),
            names=np.array([f"{k:05d}" for k in range(COUNT)]),
        )
    elif kind == "planes":
        np.savez(folder / "x.npz", masks=np.stack([labels == 1, labels == 2], 1))
    elif kind == "labels":
        np.save(folder / "x.npy", labels)
    elif kind == "mot":
        rows = [f"{k + 1},1,{4 + k},5,20,22,0.9,-1,-1,-1" for k in range(COUNT)]
        (folder / "x.txt").write_text("\n".join(rows) + "\n")
    elif kind == "boxes":
        rows = [f"{k},1,{4 + k},5,20,22" for k in range(COUNT)]
        (folder / "x.csv").write_text("\n".join(["frame,id,x1,y1,x2,y2", *rows]) + "\n")
    elif kind == "yolo":
        place.mkdir()
        for k in range(COUNT):
            (place / f"clip_{k}.txt").write_text(f"0 0.5 0.5 0.2 0.{k + 1} 0.9 1\n")
    else:
        place.mkdir()
        homes = {"folders": ("1", "2")}.get(kind, ("Annotations/clip",) if kind == "vos" else ("",))
        for number, home in enumerate(homes, 1):
            (place / home).mkdir(parents=True, exist_ok=True)
            for k in range(COUNT):
                pixels = labels[k] if len(homes) == 1 else 255 * (labels[k] == number)
                Image.fromarray(pixels.astype(np.uint8)).save(place / home / f"{k:05d}.png")
        if kind == "vos":
            meta = {"videos": {"clip": {"objects": {"1": {"category": "cup"}, "2": {}}}}}
            (place / "meta.json").write_text(json.dumps(meta))


FRAMES = [
    Frame(k, k, k / 10, f"{k:05d}", np.zeros((HEIGHT, WIDTH, 3), np.uint8)) for k in range(COUNT)
]


def read_masks(rng: Random, folder: Path) -> None:
    place = next(iter(sorted(folder.glob("x.*"))), folder / "masks")
    kind = rng.choice((None,) * 6 + ("indexed", "binary", "stack", "coco", "boxes", "x"))
    match = rng.choice(("auto",) * 6 + ("stem", "source", "one-based", "index", "x"))
    masks = open_masks(place, kind=kind, match=match, frames=rng.choice((None, COUNT)))
    ids = masks.ids()
    for frame in FRAMES:
        for union in masks.unions(frame, [None, *([frozenset(ids[:2])] if ids else [])]):
            assert union is None or union.shape == (HEIGHT, WIDTH)
    masks.check_matched()
    assert all(len(text) < 2000 and "\n" not in text for text in masks.problems)
    assert len(masks.key) == 64


# Tracks and videos


def small_video(path: Path) -> Path:
    frames = (np.full((HEIGHT, WIDTH, 3), 40 * k, np.uint8) for k in range(COUNT))
    return write_video(path, frames, 10)


def track(folder: Path, **options: Any) -> Any:
    video, place = open_video(folder.parent / "clip.mkv"), folder / "masks"
    return follow(video, first_prompts(box=(4, 4, 30, 30)), place, tracker=Still(), **options)


def tracked(folder: Path) -> None:
    small_video(folder.parent / "clip.mkv")
    track(folder)


def half_tracked(folder: Path) -> None:
    small_video(folder.parent / "clip.mkv")

    def stop(stage: str, done: int, *_: object) -> None:
        if done > 2:
            raise Cancelled("enough")

    try:
        track(folder, progress=stop)
    except Cancelled:
        return
    raise AssertionError("was not stopped")


def track_again(rng: Random, valid: Path, folder: Path) -> None:
    """Track over a changed earlier run, which is used, replaced or refused; never mixed up."""
    inner = folder / "input"
    shutil.copytree(valid, inner)
    shutil.copy2(valid.parent / "clip.mkv", folder)
    mutate.tree(rng, inner)
    read_notes(inner / "masks")
    track(inner)


def read_video(rng: Random, valid: Path, folder: Path) -> None:
    source = rng.choice(sorted(valid.iterdir()))
    path = folder / source.name
    content = source.read_bytes()
    if rng.random() < 0.5:  # headers lie at both ends
        edge = min(len(content), 800)
        first, last = content[:edge], content[-edge:]
        content = (
            mutate.data(rng, first, 3) + content[edge:]
            if rng.random() < 0.5
            else content[:-edge] + mutate.data(rng, last, 3)
        )
    else:
        content = mutate.data(rng, content)
    path.write_bytes(content)
    video = open_video(
        path,
        stride=rng.choice((1, 1, 2, 10**9)),
        start=rng.choice((None, None, None, 2, 10**12)),
        end_s=rng.choice((None, None, None, 0.3, 1e9)),
        errors=rng.choice(("skip", "skip", "fail")),
    )
    for frame in video:
        assert frame.image.dtype == np.uint8
    assert all(len(text) < 2000 and "\n" not in text for text in video.problems)


def videos(folder: Path) -> None:
    for suffix, codec in ((".mp4", "libx264"), (".mkv", "mpeg4"), (".mov", "mpeg4")):
        frames = (np.full((HEIGHT, WIDTH, 3), 40 * k, np.uint8) for k in range(COUNT))
        write_video(folder / f"x{suffix}", frames, 10, codec=codec)


def images(folder: Path) -> None:
    for k in range(3):
        Image.fromarray(np.full((HEIGHT, WIDTH, 3), 60 * k, np.uint8)).save(folder / f"{k}.png")


def read_images(rng: Random, folder: Path) -> None:
    for frame in open_video(folder, rate=rng.choice((None, 10, 1e-300, 1e300))):
        assert frame.image.dtype == np.uint8


def words(folder: Path, suffix: str) -> None:
    state = {"words": ["one"], "examples": [3, "4.5s", "1-2", "cup.jpg", "a.mp4@7"]}
    document = {"object": "cup", "states": {"a": state, "b": ["three"]}, "none": [5], "changes": 6}
    (folder / f"x{suffix}").write_text(
        json.dumps(document)
        if suffix == ".json"
        else "# states\nstates:\n  a: [one, two]\n  b: {words: 'four', examples: [3, 1-2, a.jpg]}\n"
        "none: 4\nchanges: [2]\n"
    )


def history(folder: Path) -> None:
    write_history(folder / "x.npz", scene().history)


def encoded_words(folder: Path) -> None:
    example = scene()
    history, vocabulary = example.history, example.vocabulary
    examples = {next(iter(vocabulary.states)): [1, (history, int(history.frames[0]))], None: 2}
    write_vocabulary(folder / "x.npz", vocabulary.with_examples(examples, changes=3))


MASKS = (
    "coco",
    "plain",
    "youtube-vis",
    "sam2",
    "stack",
    "planes",
    "labels",
    "mot",
    "boxes",
    "yolo",
    "indexed",
    "folders",
    "vos",
)
FOREIGN = (
    ".eaf",
    ".srt",
    ".vtt",
    ".otio",
    ".cvat.xml",
    ".fiftyone.json",
    ".labelstudio.json",
    ".qvhighlights.jsonl",
    ".activitynet.json",
    ".parquet",
    ".arrow",
)
TARGETS = [
    reader("history", 150, history, only(read_history)),
    reader("vocabulary-npz", 80, encoded_words, only(read_vocabulary)),
    *(
        reader(f"vocabulary{s}", 40, partial(words, suffix=s), only(read_vocabulary))
        for s in (".json", ".yaml")
    ),
    reader("finding", 60, finding, lambda rng, folder: Finding.read(folder)),
    *(
        reader(f"references{s}", 40, partial(references, suffix=s), only(read_references))
        for s in (".json", ".csv")
    ),
    *(reader(f"references{s}", 40, partial(marked, suffix=s), only(read_marked)) for s in FOREIGN),
    *(
        reader(f"timelines{s}", 40, partial(timelines, suffix=s), only(read_timelines))
        for s in (".json", ".jsonl", ".csv")
    ),
    reader("annotation", 40, two_passes, read_passes),
    reader("states", 40, partial(two_passes, states=("empty", "full")), read_passes),
    reader("release", 30, release, read_release),
    *(reader(f"masks-{kind}", 25, partial(masks_of, kind), read_masks) for kind in MASKS),
    Target("track-notes", 10, tracked, track_again),
    Target("track-checkpoint", 10, half_tracked, track_again),
    Target("video", 30, videos, read_video),
    reader("images", 20, images, read_images),
]
