"""Flat PNG masks in compiled code: the numbers of Pillow, or nothing at all."""

from __future__ import annotations

import io
import re
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused
from helpers.png import chunk, flat
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dejacue import InputError
from dejacue.masks import png
from dejacue.masks.buffers import BufferPool
from dejacue.masks.labels import read_picture
from dejacue.masks.png import SIGNATURE, read_flat_png
from dejacue.video import crops
from dejacue.video.sizes import pixel_limit

PALETTE = [value for k in range(256) for value in (k, 255 - k, 7 * k % 256)]


@pytest.fixture(autouse=True)
def compiled() -> None:
    if crops.compiled is None:
        pytest.skip("the extension is not built; without it there is nothing to compare")


def png_of(
    rows: np.ndarray,
    filters: np.ndarray,
    *,
    level: int = 6,
    strategy: int = 0,
    pieces: int = 1,
    depth: int = 8,
    kind: int = 3,
    width: int | None = None,
    interlaced: int = 0,
) -> bytes:
    """Return a PNG of rows with these filters, so that every filter and kind of block occurs."""
    raw = b"".join(bytes([f]) + row.tobytes() for f, row in zip(filters, rows, strict=True))
    packer = zlib.compressobj(level, zlib.DEFLATED, 15, 9, strategy)
    stream = packer.compress(raw) + packer.flush()
    head = struct.pack(">IIBBBBB", width or rows.shape[1], len(rows), depth, kind, 0, 0, interlaced)
    step = -(-len(stream) // pieces)
    return SIGNATURE + b"".join(
        [
            chunk(b"IHDR", head),
            chunk(b"PLTE", bytes(PALETTE)) if kind == 3 else b"",
            *(chunk(b"IDAT", stream[at : at + step]) for at in range(0, len(stream), step)),
            chunk(b"IEND", b""),
        ]
    )


def pillow(content: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(content)) as picture:
        return np.asarray(picture)


def check(path: Path, content: bytes) -> None:
    """Check that a PNG has the numbers of Pillow, and that those that occur are known."""
    path.write_bytes(content)
    read = read_flat_png(path)
    assert read is not None
    assert np.array_equal(read, pillow(content))
    assert not read.flags.writeable
    assert read.numbers == frozenset(np.unique(read).tolist())
    assert read.box == crops.tight_box(np.asarray(read) > 0)


@given(
    st.integers(1, 60),
    st.integers(1, 700),
    st.integers(0, 9999),
    st.sampled_from([0, 1, 6, 9]),
    st.sampled_from([0, 2, 3, 4]),
    st.integers(1, 3),
    st.sampled_from([0, 3]),
)
def test_every_filter_and_block_gives_the_numbers_of_pillow(
    tmp_path_factory, height, width, seed, level, strategy, pieces, kind
) -> None:
    path = tmp_path_factory.mktemp("png") / "x.png"
    filters = np.random.default_rng(seed).integers(0, 5, height)
    content = png_of(
        flat(height, width, seed), filters, level=level, strategy=strategy, pieces=pieces, kind=kind
    )
    check(path, content)


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("width", [1, 7, 8, 9, 33])
def test_a_palette_of_few_colours_is_packed(tmp_path, depth, width) -> None:
    path = tmp_path / "x.png"
    rng = np.random.default_rng(width)
    rows = rng.integers(0, 256, (5, -(-width * depth // 8)), dtype=np.uint8)
    check(path, png_of(rows, rng.integers(0, 5, 5), depth=depth, width=width))


def test_what_pillow_writes_is_read(tmp_path) -> None:
    path = tmp_path / "x.png"
    for seed in range(20):
        picture = Image.fromarray(flat(90, 1000, seed))
        if seed % 2:
            picture.putpalette(PALETTE)
        picture.save(path, optimize=seed % 4 > 1)
        check(path, path.read_bytes())


def test_memory_that_is_used_again_holds_nothing_of_another_mask(tmp_path) -> None:
    path, pool, rng = tmp_path / "x.png", BufferPool(), np.random.default_rng(3)
    addresses = set()
    for at in range(60):
        rows = np.zeros((20, 30) if at % 7 < 4 else (30, 20), np.uint8)
        top, left = rng.integers(20, size=2)
        rows[top : top + rng.integers(9), left : left + 5] = 1 + at % 3
        content = png_of(rows, np.full(len(rows), at % 2))
        if at % 9 == 8:  # begun, and found to be damaged
            stream = content[content.index(b"IDAT") + 4 : -16]
            content = content[: content.index(b"IDAT") - 4] + chunk(b"IDAT", stream[:-1] + b"?")
            content += chunk(b"IEND", b"")
        path.write_bytes(content)
        read = read_flat_png(path, pool)
        assert (read is None) == (at % 9 == 8)
        if read is not None:
            assert np.array_equal(read, pillow(content))
            addresses.add(read.__array_interface__["data"][0])
        del read
    assert len(addresses) < 20


def test_other_pictures_are_left_to_pillow(tmp_path, monkeypatch) -> None:
    path = tmp_path / "x.png"
    image = Image.fromarray(flat(20, 30, 3))
    for mode in ("1", "RGB", "RGBA", "LA", "I;16"):
        image.convert(mode).save(path)
        assert read_flat_png(path) is None
    path.write_bytes(png_of(flat(20, 30, 3), np.zeros(20, int), interlaced=1))
    assert read_flat_png(path) is None
    rows = np.zeros((3, 2), np.uint8)
    path.write_bytes(png_of(rows, np.zeros(3, int), kind=0, depth=4, width=4))
    assert read_flat_png(path) is None  # a grey that Pillow spreads
    image.save(tmp_path / "x.bmp")
    assert read_flat_png(tmp_path / "x.bmp") is None
    image.save(path)
    monkeypatch.setattr(png, "MAX_PNG_BYTES", path.stat().st_size - 1)
    assert read_flat_png(path) is None
    monkeypatch.undo()
    monkeypatch.setattr(png, "compiled", None)
    assert read_flat_png(path) is None


def test_a_damaged_or_missing_mask_is_refused(tmp_path) -> None:
    path = tmp_path / "x.png"
    Image.fromarray(flat(30, 200, 1)).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    for broken in (path, tmp_path / "none" / "x.png"):
        with pytest.raises(InputError, match=f"^{re.escape(str(broken))}: "):
            read_picture(broken)


def test_a_large_picture_is_refused_before_it_is_read(tmp_path) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(png_of(flat(30, 200, 1), np.zeros(30, int)))
    with pixel_limit(5999), refused(path, 6000):
        read_picture(path)


def test_what_is_inflated_is_no_more_than_the_header_says(tmp_path) -> None:
    rows = np.zeros((30_000, 1000), np.uint8)
    content = png_of(rows, np.zeros(len(rows), int))
    head = struct.pack(">IIBBBBB", 1000, 30, 8, 3, 0, 0, 0)
    path = tmp_path / "x.png"
    path.write_bytes(content[:8] + chunk(b"IHDR", head) + content[33:])
    tracemalloc.start()
    try:
        assert read_flat_png(path) is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def random_png(rng: np.random.Generator) -> tuple[bytes, bool]:
    """Return a PNG of any kind, and whether it is an ordinary one."""
    kind = int(rng.choice([0, 2, 3, 3, 3, 3, 4, 6]))
    depths = {0: [1, 2, 4, 8, 8, 16], 3: [1, 2, 4, 8, 8]}.get(kind, [8, 16])
    depth, interlaced = int(rng.choice(depths)), int(rng.random() < 0.1)
    height, width = (int(n) for n in rng.choice([1, 2, 7, 8, 9, 33, 100], 2))
    step = -(-width * depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind] // 8)
    raw = flat(height, step, int(rng.integers(1 << 30)))
    filters = rng.integers(0, 5, (height, 1), np.uint8)
    odd = int(rng.integers(0, 20))
    if odd == 0:
        filters[-1] = rng.integers(5, 256)  # no such filter
    data = np.concatenate([filters, raw], axis=1).tobytes()
    data = {1: data[:-1], 2: data + b"?", 3: data + bytes(step + 1)}.get(odd, data)
    packer = zlib.compressobj(int(rng.integers(0, 10)), zlib.DEFLATED, int(rng.integers(9, 16)))
    stream = packer.compress(data) + packer.flush()
    stream = {4: stream[:-1], 5: stream[:-1] + b"?", 6: stream + b"?"}.get(odd, stream)
    cut = int(rng.integers(0, len(stream) + 1))
    head = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced)
    colours = bytes(
        PALETTE[: int(rng.choice([768, 768, 768, 3 * 2**depth if depth < 9 else 3, 4]))]
    )
    parts = [(b"IHDR", head), (b"PLTE", colours), (b"IDAT", stream[:cut]), (b"IDAT", stream[cut:])]
    if kind != 3 or odd == 7:
        del parts[1]
    extra = [(b"tEXt", b"a\0b"), (b"pHYs", bytes(9)), (b"gAMA", bytes(4)), (b"tRNS", bytes(3))]
    extra += [
        (b"pHYs", b"?"),
        (b"XXXX", b""),
        (b"acTL", bytes(8)),
        (b"iCCP", b"?"),
        (b"tIME", bytes(7)),
    ]
    if odd in (8, 9, 10, 11):
        parts.insert(int(rng.integers(0, len(parts) + 1)), extra[int(rng.integers(len(extra)))])
    if odd == 12:
        parts.append(parts[int(rng.integers(len(parts)))])
    content = SIGNATURE + b"".join(chunk(*part) for part in [*parts, (b"IEND", b"")])
    if odd == 13:
        at = int(rng.integers(8, len(content)))
        content = (
            content[:at] + bytes([content[at] ^ 1 << int(rng.integers(8))]) + content[at + 1 :]
        )
    content = content[: int(rng.integers(8, len(content)))] if odd == 14 else content
    ordinary = odd > 14 and not interlaced and (kind == 3 or (kind, depth) == (0, 8))
    return content, ordinary


def test_thousands_of_pngs_of_every_kind_are_read_or_refused_as_pillow_does(
    tmp_path, monkeypatch
) -> None:
    path, quick = tmp_path / "x.png", 0

    def outcome() -> object:
        try:
            return read_picture(path, binary=True)
        except InputError as error:
            return str(error)

    for seed in range(4000):
        content, ordinary = random_png(np.random.default_rng(seed))
        path.write_bytes(content)
        read = read_flat_png(path)
        quick += read is not None
        assert read is not None or not ordinary, seed
        if read is not None:
            assert np.array_equal(read, pillow(content)), seed
        ours = outcome()
        with monkeypatch.context() as without:
            without.setattr(png, "compiled", None)
            theirs = outcome()
        assert np.array_equal(ours, theirs), seed
    assert quick > 500
