"""Masks of every kind, and PNG files that are decoded without Pillow."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from random import Random

import numpy as np
import pytest
from helpers import altered
from helpers.altered import shape
from helpers.png import chunk, flat
from PIL import Image

from dejacue.masks import open_masks
from dejacue.masks.png import SIGNATURE, read_flat_png
from dejacue.video import crops
from dejacue.video.video import Frame

COUNT, HEIGHT, WIDTH = 6, 48, 64
FRAMES = [
    Frame(k, k, k / 10, f"{k:05d}", np.zeros((HEIGHT, WIDTH, 3), np.uint8)) for k in range(COUNT)
]
BOX = {"bbox": [4, 8, 20, 12]}
POLYGON = {"segmentation": [[4.0, 4.0, 30.0, 4.0, 30.0, 30.0]]}
COUNTS = {"size": [HEIGHT, WIDTH], "counts": [100, 500, HEIGHT * WIDTH - 600]}
RLE = {"segmentation": COUNTS}
SIZE = {"height": HEIGHT, "width": WIDTH}
DOCUMENTS = {
    "coco": {
        "images": [{"id": k, "file_name": f"{k:05d}.png", **SIZE} for k in range(COUNT)],
        "annotations": [
            {"id": k, "image_id": k, "category_id": 1, "track_id": 1, **shape}
            for k, shape in enumerate((BOX, POLYGON, RLE, BOX, POLYGON, RLE))
        ],
    },
    "plain": [{"frame": k, "id": 1, **shape} for k, shape in enumerate((POLYGON, RLE, BOX))],
    "youtube-vis": {
        "videos": [{"file_names": ["00000.png", "00001.png"], **SIZE}],
        "annotations": [{"id": 1, "segmentations": [COUNTS, None]}],
    },
    "sam2": [
        {"frame_index": k, "results": [{"object_id": 1, "mask": COUNTS}]} for k in range(COUNT)
    ],
}
TABLES = {
    "mot.txt": [f"{k + 1},1,{4 + k},5,20,22,0.9,-1,-1,-1" for k in range(COUNT)],
    "boxes.csv": ["frame,id,x1,y1,x2,y2", *(f"{k},1,{4 + k},5,20,22" for k in range(COUNT))],
}
KINDS = (*DOCUMENTS, *TABLES, "stack", "planes", "labels", "yolo", "indexed", "folders", "vos")


def labels() -> np.ndarray:
    out = np.zeros((COUNT, HEIGHT, WIDTH), np.uint8)
    for at in range(COUNT):
        out[at, 4 : 20 + at, 8:30] = 1
        out[at, 25:40, 30 : 50 + at] = 2
    return out


def pictures(folder: Path, values: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for k, pixels in enumerate(values):
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{k:05d}.png")


def make(folder: Path, kind: str) -> None:
    place, values = folder / "masks", labels()
    if kind in DOCUMENTS:
        (folder / "x.json").write_text(json.dumps(DOCUMENTS[kind]))
    elif kind in TABLES:
        (folder / f"x{Path(kind).suffix}").write_text("\n".join(TABLES[kind]) + "\n")
    elif kind == "stack":
        names = np.array([f"{k:05d}" for k in range(COUNT)])
        columns = {"frames": np.arange(COUNT), "ids": np.array([1]), "names": names}
        np.savez_compressed(folder / "x.npz", masks=values == 1, **columns)
    elif kind == "planes":
        np.savez(folder / "x.npz", masks=np.stack([values == 1, values == 2], 1))
    elif kind == "labels":
        np.save(folder / "x.npy", values)
    elif kind == "yolo":
        place.mkdir()
        for k in range(COUNT):
            (place / f"clip_{k}.txt").write_text(f"0 0.5 0.5 0.2 0.{k + 1} 0.9 1\n")
    elif kind == "folders":
        for number in (1, 2):
            pictures(place / str(number), 255 * (values == number))
    else:
        pictures(place / "Annotations" / "clip" if kind == "vos" else place, values)
    if kind == "vos":
        meta = {"videos": {"clip": {"objects": {"1": {"category": "cup"}, "2": {}}}}}
        (place / "meta.json").write_text(json.dumps(meta))


def read(rng: Random, folder: Path) -> None:
    place = next(iter(sorted(folder.glob("x.*"))), folder / "masks")
    kind = rng.choice((None,) * 6 + ("indexed", "binary", "stack", "coco", "boxes", "x"))
    match = rng.choice(("auto",) * 6 + ("stem", "source", "one-based", "index", "x"))
    masks = open_masks(place, kind=kind, match=match, frames=rng.choice((None, COUNT)))
    ids = masks.ids()
    for frame in FRAMES:
        for union in masks.unions(frame, [None, *([frozenset(ids[:2])] if ids else [])]):
            assert union is None or union.shape == (HEIGHT, WIDTH)
    masks.check_matched()
    assert all(len(text) < altered.MAX_LETTERS and "\n" not in text for text in masks.problems)
    assert len(masks.key) == 64


@pytest.mark.parametrize("kind", KINDS)
def test_altered_masks_are_read_or_refused(tmp_path, kind) -> None:
    altered.check_altered(tmp_path, lambda folder: make(folder, kind), read)


def png(rng: Random) -> tuple[bytes, bool]:
    """Return a PNG, and whether it is whole. Checksums of chunks are right, so that what is changed
    gets as far as the compressed rows."""
    height, width = rng.choice((1, 2, 9, 40)), rng.choice((1, 7, 33, 300))
    depth = rng.choice((1, 2, 4, 8, 8, 8))
    rows = flat(height, -(-width * depth // 8), rng.randrange(1 << 20))
    raw = b"".join(bytes([rng.randrange(5)]) + row.tobytes() for row in rows)
    packer = zlib.compressobj(rng.randrange(10), zlib.DEFLATED, 15, 9, rng.choice((0, 2, 3, 4)))
    stream = packer.compress(raw) + packer.flush()
    kind = rng.randrange(6)
    if kind:
        body = rng.randbytes(rng.randrange(200)) if kind == 1 else altered.data(rng, stream[2:])
        stream = stream[:2] + body
    head = struct.pack(">IIBBBBB", width, height, depth, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", bytes(768)), (b"IDAT", stream), (b"IEND", b""))
    return SIGNATURE + b"".join(chunk(*part) for part in parts), kind == 0


@pytest.mark.skipif(crops.compiled is None, reason="the extension is not built")
def test_what_is_read_of_an_altered_png_has_the_numbers_of_pillow(tmp_path) -> None:
    for number in range(10 * altered.EXAMPLES):
        content, whole = png(Random(f"png/{number}"))
        (path := tmp_path / f"{number}.png").write_bytes(content)
        read = read_flat_png(path)
        assert read is not None or not whole, path
        if read is not None:
            with Image.open(path) as picture:
                assert np.array_equal(read, np.asarray(picture)), path
            assert read.numbers == set(read.flat), path
        rng = Random(number)
        at = rng.randrange(len(SIGNATURE), len(content))
        flipped = bytes([content[at] ^ 1 << rng.randrange(8)])
        for changed in (content[:at], content[:at] + flipped + content[at + 1 :]):
            path.write_bytes(changed)
            assert read_flat_png(path) is None, path  # a checksum tells
        path.unlink()


IMAGE = '{"images":[{"id":0,"file_name":"a.png","height":8192,"width":8192}],"annotations":['
FLAT = '"segmentation":[[0,0,9,0,9,9]]'
LARGE = '"segmentation":{"size":[8192,8192],"counts":[67108864]}'
POINTS = '[{"frame":0,"id":1,"segmentation":[['
SHAPES = [
    shape("x.json", IMAGE, lambda k: f'{{"id":{k},"image_id":0,"bbox":[0,0,9,9]}}', "]}", ","),
    shape("x.json", IMAGE, f'{{"id":1,"image_id":0,{FLAT}}}', "]}", ","),
    shape("x.json", "[", lambda k: f'{{"frame":{k},"id":1,{FLAT}}}', "]", ","),
    shape("x.json", "[", lambda k: f'{{"frame":0,"id":{k},{LARGE}}}', "]", ","),
    shape("x.json", POINTS, "0,0,90000,90000", "]]}]", ","),
    shape("x.json", POINTS, "0,0,6000,6000", "]]}]", ","),
    shape("x.csv", "frame,x,y,w,h\n", lambda k: f"{k},0,0,9,9\n"),
    shape("x.csv", "frame,id,x,y,w,h\n", lambda k: f"0,{k},0,0,9,9\n"),
    shape("x.txt", "", lambda k: f"1,{k},0,0,9,9\n"),
    shape("x.jsonl", "", lambda k: f'{{"frame_index":{k},"results":[]}}\n'),
]


@pytest.mark.long
def test_masks_of_a_megabyte_take_seconds_and_little_memory(tmp_path) -> None:
    def first(path: Path) -> None:
        masks = open_masks(path)
        masks.ids()
        masks.unions(FRAMES[0], [None])
        masks.check_matched()

    altered.check_shapes(tmp_path, SHAPES, first)
