"""Flat PNG masks in compiled code: the numbers of Pillow, or nothing at all."""

from __future__ import annotations

import io
import re
import struct
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
from dejacue.sources import crops
from dejacue.sources.masks import labels
from dejacue.sources.masks.labels import SIGNATURE, read_flat_png, read_picture
from dejacue.sources.sizes import pixel_limit

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


@pytest.mark.parametrize(("height", "width"), [(900, 300), (90_000, 2), (4, 70_001), (1, 300_000)])
@pytest.mark.parametrize("level", [0, 6])
def test_rows_cross_the_window_of_what_is_inflated(tmp_path, height, width, level) -> None:
    rng = np.random.default_rng(width)
    thing = rng.integers(0, 4, (8, width), dtype=np.uint8)
    rows = np.concatenate([thing, np.zeros_like(thing), np.ones_like(thing)])
    rows = np.resize(rows, (height, width))  # the same again, from far back
    check(tmp_path / "x.png", png_of(rows, rng.integers(0, 5, height), level=level))
    filters = np.zeros(height, int)
    check(tmp_path / "x.png", png_of(rows, filters, level=level, depth=4, width=2 * width))


@pytest.mark.parametrize("distance", [32_768, 32_767, 1])
def test_matches_reach_as_far_back_as_deflate_allows(tmp_path, distance) -> None:
    first, times = np.random.default_rng(distance).integers(0, 5, 32_768, np.uint8).tobytes(), 640
    extra = f"{distance - 24_577:013b}"[::-1] if distance > 1 else ""
    match = "11000101" + ("11101" if distance > 1 else "00000") + extra  # 258 bytes, fixed codes
    text = "110" + match * times + "0000000"
    text += "0" * (-len(text) % 8)
    body = bytes(int(text[at : at + 8][::-1], 2) for at in range(0, len(text), 8))
    stream = b"\x78\x9c\0" + struct.pack("<HH", 32_768, 32_767) + first + body
    raw = zlib.decompressobj().decompress(stream)
    assert len(raw) == 32_768 + 258 * times
    stream += struct.pack(">I", zlib.adler32(raw))
    head = struct.pack(">IIBBBBB", 127, len(raw) // 128, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", stream), (b"IEND", b""))
    check(tmp_path / "x.png", SIGNATURE + b"".join(chunk(*part) for part in parts))


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
    path, pool, rng = tmp_path / "x.png", labels.BufferPool(), np.random.default_rng(3)
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
    monkeypatch.setattr(labels, "MAX_PNG_BYTES", path.stat().st_size - 1)
    assert read_flat_png(path) is None
    monkeypatch.undo()
    monkeypatch.setattr(labels, "compiled", None)
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
    with pixel_limit(5999), refused(path, "max_pixels", 6000):
        read_picture(path)


def block_of_zeros(count: int, distances: list[int]) -> bytes:
    """Return a zlib stream of zeros: one block whose codes of distances, never used, have these
    lengths of 1 or 2 bits."""
    lengths = {18: "0", 1: "10", 2: "11"}  # of code lengths: many zeros, 1, 2
    order = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1)

    def number(value: int, bits: int) -> str:
        return f"{value:0{bits}b}"[::-1]

    text = "1" + number(2, 2) + number(0, 5) + number(len(distances) - 1, 5)
    text += number(len(order) - 4, 4) + "".join(number(len(lengths.get(k, "")), 3) for k in order)
    text += lengths[1] + "".join(lengths[18] + number(zeros - 11, 7) for zeros in (138, 117))
    text += lengths[1] + "".join(lengths[length] for length in distances) + "0" * count + "1"
    packed = [int(text[at : at + 8][::-1], 2) for at in range(0, len(text), 8)]
    return b"\x78\x9c" + bytes(packed) + struct.pack(">I", zlib.adler32(bytes(count)))


@pytest.mark.parametrize(("distances", "whole"), [([1], True), ([2, 2], False), ([2], False)])
def test_codes_that_leave_bits_unused_are_refused_as_zlib_refuses_them(tmp_path, distances, whole):
    stream = block_of_zeros(5 * 4, distances)
    if whole:
        assert zlib.decompress(stream) == bytes(20)
    else:
        with pytest.raises(zlib.error):
            zlib.decompress(stream)
    head = struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", stream), (b"IEND", b""))
    path = tmp_path / "x.png"
    path.write_bytes(SIGNATURE + b"".join(chunk(*part) for part in parts))
    assert (read_flat_png(path) is not None) == whole
