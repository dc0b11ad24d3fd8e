"""Pictures of any size and shape: what is too large is refused before it is read."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tracemalloc
import weakref
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused
from helpers.still_tracker import register
from PIL import Image

from dejacue import InputError
from dejacue.finding._encode import MAX_BUFFERED_BYTES, prefetch
from dejacue.masks import open_masks
from dejacue.report.contact_sheet import contact_sheet, with_boxes
from dejacue.report.thumbnails import thumbnail
from dejacue.video.sizes import pixel_limit
from dejacue.video.video import open_video, write_video

ROOT = Path(__file__).parents[2]
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\nshowpage\n%%EOF\n"


def test_every_picture_is_opened_in_formats_that_are_named() -> None:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "paper" / "src").rglob("*.py")]
    calls = [
        (file, call)
        for file in files
        for call in re.findall(r"Image\.open\(.*", file.read_text(encoding="utf-8"))
    ]
    assert len(calls) > 2
    assert [(file, call) for file, call in calls if "formats=" not in call] == []


def test_postscript_that_is_called_a_picture_is_refused_and_not_run(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("Ghostscript was run"))
    for name in ("frames", "masks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.png").write_bytes(POSTSCRIPT)
    with pytest.raises(InputError, match="none of its frames can be decoded") as caught:
        list(open_video(tmp_path / "frames"))
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="is not a readable picture") as caught:
        open_masks(tmp_path / "masks")
    assert "\n" not in str(caught.value)


def frames_in(tmp_path, kind):
    pixels = [np.full((30, 40, 3), 60 * k, np.uint8) for k in range(3)]
    if kind == "video":
        return write_video(tmp_path / "x.mkv", pixels, 10)
    for k, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / f"{k}.png")
    return tmp_path


@pytest.mark.parametrize("kind", ["video", "images"])
def test_frames_that_are_too_large_are_refused_when_opened(tmp_path, kind) -> None:
    path = frames_in(tmp_path, kind)
    with pixel_limit(1000), refused(path, "max_pixels", 1200):
        open_video(path)
    with pixel_limit(1200):
        assert len(list(open_video(path))) == 3


@pytest.mark.parametrize("kind", ["indexed", "stack", "coco"])
def test_masks_that_are_too_large_are_refused_when_opened(tmp_path, kind) -> None:
    mask = np.ones((30, 40), np.uint8)
    if kind == "indexed":
        (path := tmp_path / "masks").mkdir()
        Image.fromarray(mask).save(path / "0.png")
    elif kind == "stack":
        np.save(path := tmp_path / "x.npy", mask[None])
    else:
        rle = {"size": [30, 40], "counts": [0, 1200]}
        (path := tmp_path / "x.json").write_text(
            json.dumps([{"frame": 0, "id": 1, "segmentation": rle}])
        )
    with pixel_limit(1000), pytest.raises(InputError, match="max_pixels=1200"):
        open_masks(path)
    assert open_masks(path).ids() == (1,)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1 << 23, 1, 1), "more than 4194304 masks; split them"),
        ((1, 1 << 21, 32, 32), "more than 1 GB"),
    ],
)
def test_a_stack_of_more_masks_than_any_video_has_is_refused(tmp_path, shape, message) -> None:
    path = tmp_path / "x.npy"
    with path.open("wb") as stream:
        head = {"descr": "|b1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, head)
        stream.truncate(stream.tell() + int(np.prod(shape)))
    with pytest.raises(InputError, match=message):
        open_masks(path)


@pytest.mark.parametrize(
    ("options", "kind"),
    [({"lossless": True}, b"VP8L"), ({}, b"VP8 "), ({"icc_profile": bytes(9)}, b"VP8X")],
)
def test_a_webp_is_refused_before_room_is_made_for_it(tmp_path, monkeypatch, options, kind) -> None:
    path = tmp_path / "x.webp"
    Image.new("RGB", (50, 30)).save(path, **options)
    assert path.read_bytes()[12:16] == kind
    assert next(iter(open_video(path))).image.shape == (30, 50, 3)
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("it is opened"))
    with pixel_limit(1499), refused("max_pixels", "50 × 30"):
        open_video(path)


def test_the_limit_of_pillow_is_left_to_others(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # it warns from here, and fails at twice it
    assert len(list(open_video(frames_in(tmp_path, "images")))) == 3
    assert Image.MAX_IMAGE_PIXELS == 100


def test_commands_take_the_limit(dejacue, tmp_path) -> None:
    register()
    path = frames_in(tmp_path, "video")
    command = ("track", path, "--tracker", "still", "--box", "1,1,9,9", "-o", tmp_path / "masks")
    ran = dejacue(*command, "--set", "max_pixels=1000")
    assert ran.code == 2
    assert "exceed the limit of 1000" in ran.err
    assert dejacue(*command, "--set", "max_pixels=1200").code == 0
    ran = dejacue(*command, "--set", "max_pixels=0")
    assert (ran.code, "max_pixels 0 is less than 1" in ran.err) == (2, True)


@pytest.mark.parametrize("shape", [(16000, 2), (2, 16000), (1, 1)])
def test_small_pictures_are_made_of_any_shape(shape) -> None:
    image, mask = np.zeros((*shape, 3), np.uint8), np.ones(shape, bool)
    with Image.open(io.BytesIO(thumbnail(image, mask))) as small:
        assert max(small.size) <= 600
    drawn = with_boxes(image, {1: (0, 0, *shape[::-1])})
    with Image.open(io.BytesIO(contact_sheet([(drawn, "120 · 4.0 s · 1 alone")] * 12, "1"))) as all:
        assert max(all.size) <= 4000


# Memory


def test_of_large_items_few_wait() -> None:
    begun, waiting = [], []
    items = (begun.append(k) or k for k in range(40))
    size = MAX_BUFFERED_BYTES // 3
    for taken, item in enumerate(prefetch(lambda x: x, items, 2, 8, lambda _: size)):
        assert item == taken
        waiting.append(len(begun) - taken)
    assert max(waiting) <= 5
    assert len(waiting) == 40


def test_a_pass_keeps_no_frame(tmp_path) -> None:
    frames = iter(open_video(frames_in(tmp_path, "video")))
    first = weakref.ref(next(frames).image)
    next(frames)
    assert first() is None


def test_a_small_table_of_boxes_takes_little_memory(tmp_path) -> None:
    (tmp_path / "x.csv").write_text("frame,x,y,w,h\n0,1,1,5,5\n")
    tracemalloc.start()
    assert open_masks(tmp_path / "x.csv").ids() == (1,)
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


@pytest.fixture
def question(tmp_path):
    (tmp_path / "words.yaml").write_text("full: a full cup\nempty: an empty cup\n")
    (tmp_path / "x.csv").write_text("frame,x,y,w,h\n0,1,1,25,25\n1,1,1,25,25\n2,1,1,25,25\n")
    video, words = frames_in(tmp_path, "video"), tmp_path / "words.yaml"
    masks, output = tmp_path / "x.csv", tmp_path / "out"
    return ("find", video, "-v", words, "--masks", masks, "--encoder", "mini", "-o", output)


def test_where_no_thread_can_be_started_the_command_says_so(dejacue, question, monkeypatch) -> None:
    def start(thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", start)
    ran = dejacue(*question)
    assert ran.code == 1
    assert "dejacue: not enough memory on this machine, or under its limit" in ran.err


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is that of Linux")
def test_under_a_limit_of_memory_there_is_a_sentence_and_no_traceback(question, tmp_path) -> None:
    limit = 250 << 20  # less than the libraries take
    start = (
        f"import resource, runpy; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit})); "
        "runpy.run_module('dejacue', run_name='__main__', alter_sys=True)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", start, *map(str, question)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=600,
    )
    assert ran.returncode not in (0, -11)
    assert "memory" in ran.stderr.lower()
    assert "Traceback" not in ran.stderr
