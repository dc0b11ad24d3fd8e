"""Any frame by its number: the right one at every rate, in every order, in files and folders."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from helpers.errors import refused
from PIL import Image

from dejacue import open_video
from dejacue.video.frames import jpeg, open_frames
from dejacue.video.video import write_video

COUNT, BITS, BLOCK = 90, 8, 16


def numbered(number: int) -> np.ndarray:
    """Return a picture that shows its number in black and white blocks."""
    bits = [number >> bit & 1 for bit in range(BITS)]
    row = np.repeat(np.array(bits, np.uint8) * 255, BLOCK)
    image = np.broadcast_to(row[None, :, None], (64, BITS * BLOCK, 3)).copy()
    image[48:] = 90 + number % 64  # something that moves, so that frames differ
    return image


def number_in(image: np.ndarray) -> int:
    blocks = image[:40].mean(axis=(0, 2)).reshape(BITS, BLOCK).mean(axis=1)
    return sum(int(value > 127) << bit for bit, value in enumerate(blocks))


def uneven(count: int) -> list[float]:
    steps = np.random.default_rng(3).choice([1 / 60, 1 / 24, 1 / 7], count)
    return np.cumsum(steps).tolist()


def written_by(codec: str, path: Path, times: list[float], options: dict[str, str]) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=30, options=options)
        stream.width, stream.height, stream.pix_fmt = BITS * BLOCK, 64, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, time_s in enumerate(times):
            frame = av.VideoFrame.from_ndarray(numbered(number), format="rgb24")
            frame.pts, frame.time_base = round(1000 * time_s), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


@pytest.fixture(scope="module")
def videos(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("frames")
    even = [k / 30 for k in range(COUNT)]
    images = [numbered(k) for k in range(COUNT)]
    files = {
        "even": write_video(folder / "even.mp4", images, 30),
        "uneven": write_video(folder / "uneven.mp4", images, 30, times_s=uneven(COUNT)),
        "open groups": written_by(
            "libx264",
            folder / "open.mkv",
            even,
            {"x264-params": "keyint=12:min-keyint=12:open-gop=1:bframes=3:scenecut=0"},
        ),
        "vp9": written_by(
            "libvpx-vp9",
            folder / "vp9.webm",
            uneven(COUNT),
            {"g": "20", "auto-alt-ref": "1", "lag-in-frames": "16", "deadline": "realtime"},
        ),
        "vp8": written_by(
            "libvpx",
            folder / "vp8.webm",
            even,
            {
                "g": "20",
                "auto-alt-ref": "1",
                "lag-in-frames": "16",
                "deadline": "good",
                "cpu-used": "8",
            },
        ),
        "avi": written_by("mpeg4", folder / "old.avi", even, {}),
    }
    (folder / "images").mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / "images" / f"{number:03d}.png")
    return {**files, "images": folder / "images"}


KINDS = ["even", "uneven", "open groups", "vp9", "vp8", "avi", "images"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_frame_is_the_right_one_in_any_order(videos, kind) -> None:
    frames = open_frames(videos[kind])
    assert len(frames) == COUNT
    order = [*np.random.default_rng(0).permutation(COUNT).tolist(), 0, 1, 2, COUNT - 1, 1]
    assert [number_in(frames.image(number)) for number in order] == order
    frames.close()
    assert number_in(frames.image(5)) == 5  # opened again
    frames.close()


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_the_times_are_those_of_the_video(videos, kind) -> None:
    frames = open_frames(videos[kind])
    known = [frame.time_s for frame in open_video(videos[kind])]
    assert frames.times_s.tolist() == pytest.approx(known, abs=1e-9)
    frames.close()


def test_images_have_names_and_no_times(videos) -> None:
    frames = open_frames(videos["images"])
    assert (frames.times_s, frames.name(7), frames.codec) == (None, "007", "images")


@pytest.mark.parametrize("kind", ["even", "images"])
@pytest.mark.parametrize("number", [-1, COUNT, 10**15])
def test_a_frame_that_is_not_there_is_refused(videos, kind, number) -> None:
    frames = open_frames(videos[kind])
    with refused(videos[kind], "frame", number):
        frames.image(number)
    frames.close()


def test_a_damaged_frame_is_refused_and_others_are_shown(videos, tmp_path) -> None:
    data = bytearray(videos["even"].read_bytes())
    with av.open(str(videos["even"])) as container:
        places = [(p.pts, p.pos, p.size) for p in container.demux(video=0) if p.size]
    _, start, size = sorted(places)[COUNT // 2]
    data[start + 4 : start + size] = bytes(size - 4)
    path = tmp_path / "damaged.mp4"
    path.write_bytes(data)
    frames = open_frames(path)
    assert len(frames) == COUNT
    assert number_in(frames.image(3)) == 3
    around = range(COUNT // 2 - 2, COUNT // 2 + 3)
    with refused(path, "frame"):
        list(map(frames.image, around))
    assert number_in(frames.image(4)) == 4
    frames.close()


@pytest.mark.parametrize("name", ["empty.mp4", "text.mp4"])
def test_a_file_that_is_no_video_is_refused(tmp_path, name) -> None:
    (tmp_path / name).write_text("" if name == "empty.mp4" else "hello " * 100)
    with refused(tmp_path / name):
        open_frames(tmp_path / name)


def test_transparent_images_are_shown_with_the_colours_that_the_video_has(tmp_path) -> None:
    Image.new("RGBA", (16, 16), (200, 100, 50, 0)).save(tmp_path / "0.png")
    image = open_frames(tmp_path).image(0)
    assert (image == (200, 100, 50)).all()
    (frame,) = open_video(tmp_path)
    assert (frame.image == image).all()


def test_a_file_that_states_no_start_begins_with_its_first_frame(tmp_path) -> None:
    path = tmp_path / "x.apng"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("apng", rate=10)
        stream.width, stream.height, stream.pix_fmt = BITS * BLOCK, 64, "rgb24"
        for number in range(3):
            frame = av.VideoFrame.from_ndarray(numbered(number), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    frames = open_frames(path)
    assert (frames.start_s, frames.times_s[0]) == (0.0, 0.0)
    assert frames.times_s.tolist() == pytest.approx([frame.time_s for frame in open_video(path)])


def test_a_picture_is_no_wider_than_asked_for() -> None:
    image = np.zeros((100, 300, 3), np.uint8)
    assert Image.open(io.BytesIO(jpeg(image, 60))).size == (60, 20)
    assert Image.open(io.BytesIO(jpeg(image))).size == (300, 100)


def test_a_video_that_is_turned_is_shown_upright(tmp_path) -> None:
    path = tmp_path / "turned.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        stream.set_display_matrix([0, 65536, 0, -65536, 0, 0, 0, 0, 1 << 30])
        for _ in range(3):
            frame = av.VideoFrame.from_ndarray(np.zeros((64, 96, 3), np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    frames = open_frames(path)
    assert frames.image(1).shape == (96, 64, 3)
    assert (frames.width, frames.height) == (64, 96)
    frames.close()
