"""Frames from every kind of source: the same ordinals, times and pixels, whatever holds them."""

from __future__ import annotations

import functools
import gc
import itertools
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import pytest
from av.stream import Disposition
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dejacue.video._containers import Container
from dejacue.video._rgb import LazyFrame
from dejacue.video._sampling import FrameChoice, Picture
from dejacue.video.frames import open_frames
from dejacue.video.images import natural
from dejacue.video.video import Frame, open_video, write_video

HEIGHT, WIDTH, BLOCK, BITS = 32, 64, 8, 11
COUNT, RATE = 30, 10
UNEVEN = [round(0.1 * at + 0.04 * (at % 3) + (1.0 if at > 11 else 0.0), 3) for at in range(COUNT)]


def picture(ordinal: int) -> np.ndarray:
    """Return an image that shows its ordinal: blocks for bits from the top left on, red below."""
    image = np.full((HEIGHT, WIDTH, 3), 20, np.uint8)
    for bit in range(BITS):
        row, column = divmod(bit, WIDTH // BLOCK)
        if ordinal >> bit & 1:
            y, x = row * BLOCK, column * BLOCK
            image[y : y + BLOCK, x : x + BLOCK] = 230
    image[-BLOCK:] = (200, 30, 60)
    return image


def read_ordinal(image: np.ndarray) -> int:
    """Return what ``picture`` wrote; fail if it is upside down, mirrored or has blue for red."""
    assert image.dtype == np.uint8
    assert image.shape == (HEIGHT, WIDTH, 3)
    assert np.abs(image[-BLOCK // 2, WIDTH // 2].astype(int) - (200, 30, 60)).max() < 25
    total = 0
    for bit in range(BITS):
        row, column = divmod(bit, WIDTH // BLOCK)
        y, x = row * BLOCK + BLOCK // 2, column * BLOCK + BLOCK // 2
        total |= int(image[y - 1 : y + 1, x - 1 : x + 1].mean() > 125) << bit
    return total


def pictures(count: int = COUNT) -> Iterator[np.ndarray]:
    return map(picture, range(count))


def encode(
    path: Path,
    images: Sequence[np.ndarray],
    matrix: Sequence[int] | None = None,
    options: dict[str, str] | None = None,
    codec: str = "libx264",
    muxer: dict[str, str] | None = None,
) -> Path:
    """Write a video by PyAV itself, for what write_video does not offer."""
    with av.open(str(path), "w", options=muxer or {}) as container:
        stream: Any = container.add_stream(codec, rate=RATE, options=options or {})
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        if matrix is not None:
            stream.set_display_matrix(matrix)
        for at, image in enumerate(images):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
            frame.pts, frame.time_base = at, Fraction(1, RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def image_files(folder: Path, suffix: str, names: Sequence[str] | None = None) -> Path:
    folder.mkdir()
    for at, image in enumerate(pictures()):
        name = f"frame{6 * at:05d}" if names is None else names[at]
        Image.fromarray(image).save(folder / f"{name}{suffix}", quality=95)
    return folder


# One contract over all back ends


class SourceFile(NamedTuple):
    path: str
    times_s: list[float | None]
    options: dict[str, Any]


EVEN: list[float | None] = [at / RATE for at in range(COUNT)]
UNIT = 1 << 16
TURNS = {
    # how the stored picture comes from the shown one, and the matrix that leads back
    "left": (lambda image: np.rot90(image, -1), (0, -UNIT, 0, UNIT, 0, 0, 0, 0, 1 << 30)),
    "right": (lambda image: np.rot90(image, 1), (0, UNIT, 0, -UNIT, 0, 0, 0, 0, 1 << 30)),
    "over": (lambda image: np.rot90(image, 2), (-UNIT, 0, 0, 0, -UNIT, 0, 0, 0, 1 << 30)),
    "mirrored": (lambda image: image[:, ::-1], (-UNIT, 0, 0, 0, UNIT, 0, 0, 0, 1 << 30)),
    "transposed": (lambda image: image.swapaxes(0, 1), (0, UNIT, 0, UNIT, 0, 0, 0, 0, 1 << 30)),
}


def _written(suffix: str, **options: Any) -> Callable[[Path], SourceFile]:
    def make(folder: Path) -> SourceFile:
        path = write_video(folder / f"cup{suffix}", pictures(), RATE, **options)
        return SourceFile(str(path), options.get("times_s", EVEN), {})

    return make


def _turned(name: str) -> Callable[[Path], SourceFile]:
    def make(folder: Path) -> SourceFile:
        store, matrix = TURNS[name]
        return SourceFile(
            str(encode(folder / "cup.mp4", [*map(store, pictures())], matrix)), EVEN, {}
        )

    return make


def _encoded(suffix: str, **options: Any) -> Callable[[Path], SourceFile]:
    return lambda folder: SourceFile(
        str(encode(folder / f"cup{suffix}", [*pictures()], **options)), EVEN, {}
    )


def _images(suffix: str, rate: float | None, pattern: str = "") -> Callable[[Path], SourceFile]:
    def make(folder: Path) -> SourceFile:
        path = image_files(folder / "cup", suffix)
        (path / "notes.txt").write_text("not an image")
        (path / f"._frame00000{suffix}").write_bytes(b"left by another system")
        times = [None] * COUNT if rate is None else [at / rate for at in range(COUNT)]
        return SourceFile(
            os.path.join(path, pattern) if pattern else str(path), times, {"rate": rate}
        )

    return make


BACK_ENDS: dict[str, Callable[[Path], SourceFile]] = {
    "mp4": _written(".mp4"),
    "variable rate mp4": _written(".mp4", times_s=UNEVEN),
    "b-frames": _encoded(".mp4", options={"bf": "3", "g": "12", "x264-params": "b-adapt=0"}),
    "fragmented mp4": _encoded(".mp4", options={"g": "5"}, muxer={"movflags": "frag_keyframe"}),
    "mpeg4": _written(".mov", codec="mpeg4"),
    "variable rate mpeg4": _written(".mp4", codec="mpeg4", times_s=UNEVEN),
    "mkv": _written(".mkv"),
    "variable rate mkv": _written(".mkv", times_s=UNEVEN),
    "avi": _encoded(".avi", codec="mpeg4"),
    "transport stream": _encoded(".ts"),
    **{f"turned: {name}": _turned(name) for name in TURNS},
    "png folder": _images(".png", None),
    "png folder with a rate": _images(".PNG", 12.5),
    "jpg folder": _images(".jpg", 10),
    "glob": _images(".jpg", None, "frame*.jpg"),
    "glob with a rate": _images(".png", 10, "*"),
}


@pytest.fixture(scope="module")
def source_file(tmp_path_factory) -> Callable[[str], SourceFile]:
    return functools.cache(lambda name: BACK_ENDS[name](tmp_path_factory.mktemp("source")))


def check(frames: Sequence[Frame], sources: Sequence[int], source: SourceFile) -> None:
    """Check that indices are consecutive, and ordinals, times and pixels those of the source."""
    assert [frame.index for frame in frames] == list(range(len(sources)))
    assert [frame.source for frame in frames] == list(sources)
    assert [read_ordinal(frame.image) for frame in frames] == list(sources)
    for frame in frames:
        expected = source.times_s[frame.source]
        assert (frame.time_s is None) == (expected is None)
        assert frame.time_s == pytest.approx(expected, abs=1e-9) if expected else not frame.time_s
        assert frame.image.flags.c_contiguous


@pytest.mark.parametrize("name", BACK_ENDS)
def test_every_back_end_gives_all_frames_in_order(source_file, name):
    source = source_file(name)
    video = open_video(source.path, **source.options)
    check(list(video), range(COUNT), source)
    if name != "variable rate mkv":  # its header has only a duration and a rate
        assert video.length == COUNT
    assert video.problems == []
    assert (video.path, video.name) == (source.path, "cup")
    check(list(video), range(COUNT), source)  # a fresh pass


@pytest.mark.parametrize("name", BACK_ENDS)
@pytest.mark.parametrize(
    ("options", "sources"),
    [
        ({"start": 7}, range(7, 30)),
        ({"end": 7}, range(8)),
        ({"start": 13, "end": 13}, [13]),
        ({"start": 29}, [29]),
        ({"start": 20, "end": 999}, range(20, 30)),
        ({"stride": 7}, [0, 7, 14, 21, 28]),
        ({"start": 3, "end": 23, "stride": 10}, [3, 13, 23]),
    ],
)
def test_every_back_end_samples_by_ordinals(source_file, name, options, sources):
    source = source_file(name)
    video = open_video(source.path, **source.options, **options)
    check(list(video), sources, source)
    if name != "variable rate mkv":  # its header has only a duration and a rate
        assert video.length == len(sources)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"start_s": 0.25}, 27),  # frame 3 is the first
        ({"start_s": 0.5}, 25),
        ({"end_s": 1.25}, 13),
        ({"end_s": 0.5}, 6),
        ({"start_s": 0.25, "end_s": 1.25, "stride": 4}, 3),
        ({"start_s": 9.0}, 0),
        ({"end_s": 9.0}, 30),
        ({"fps": 5}, 15),
        ({"fps": 4}, 12),
        ({"fps": 100}, 30),
    ],
)
def test_how_many_frames_are_expected_follows_from_times_too(options, expected):
    times = [at / 10 for at in range(30)]
    assert FrameChoice(**options).expected(30, 10.0) == expected
    assert len(list(FrameChoice(**options).select(fake(times)))) == expected
    assert FrameChoice(**options).expected(30, None) is None  # without a rate


@pytest.mark.parametrize("name", [n for n in BACK_ENDS if n not in ("png folder", "glob")])
@pytest.mark.parametrize(
    "options",
    [
        {"fps": 3},
        {"fps": 7.5},
        {"fps": 1000},
        {"start_s": 0.7, "end_s": 2.0},
        {"start": 4, "fps": 2},
    ],
)
def test_every_back_end_samples_by_times(source_file, name, options):
    source = source_file(name)
    times: list[Any] = source.times_s
    video = open_video(source.path, **source.options, **options)
    check(list(video), brute_force(times, **options), source)


def brute_force(
    times: Sequence[float], fps: float | None = None, start: int = 0, **seconds: float
) -> list[int]:
    low, high = seconds.get("start_s", 0.0), seconds.get("end_s", np.inf)
    chosen = [at for at in range(start, len(times)) if low <= times[at] <= high]
    if fps is None:
        return chosen
    inside = np.array([times[at] for at in chosen])
    end = inside[-1] + (inside[-1] - inside[-2]) / 2 if len(inside) > 1 else inside[-1]
    ticks = inside[0] + np.arange(int((end - inside[0]) * fps) + 2) / fps
    ticks = ticks[(ticks < end) | (ticks == inside[0])]
    distance = np.abs(inside[None] - ticks[:, None])
    near = distance <= distance.min(axis=1, keepdims=True) + 1.5e-9  # the earlier of two as near
    return sorted({chosen[at] for at in near.argmax(axis=1).tolist()})


# Sampling


def fake(times: Sequence[float | None]) -> list[Picture]:
    return [Picture(time_s, None, lambda: picture(0)) for time_s in times]


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=40),
    st.sampled_from([0.5, 1, 3, 4, 9.7, 25, 300]),
)
def test_fps_takes_the_frame_nearest_to_each_tick_once(steps, fps):
    times = [(at - steps[0]) / 100 for at in itertools.accumulate(steps)]
    taken = [source for source, _ in FrameChoice(fps=fps).select(fake(times))]
    assert taken == brute_force(times, fps)


def test_fps_by_hand():
    times = [at / 10 for at in range(12)]
    # ticks 0, .25, .5, .75, 1: a tick in the middle goes to the earlier frame
    assert [at for at, _ in FrameChoice(fps=4).select(fake(times))] == [0, 2, 5, 7, 10]
    assert [at for at, _ in FrameChoice(fps=np.float32(4)).select(fake(times))] == [0, 2, 5, 7, 10]
    assert [at for at, _ in FrameChoice(fps=1e300).select(fake(times))] == list(range(12))
    assert [at for at, _ in FrameChoice(fps=1e-300).select(fake(times))] == [0]


def test_a_tick_between_two_frames_goes_to_the_earlier_however_times_are_rounded():
    times = [at / 30 for at in range(200)]
    taken = [at for at, _ in FrameChoice(fps=12).select(fake(times))]  # every 2.5 frames
    assert taken == [5 * tick // 2 for tick in range(80)]


def test_rounded_times_at_their_own_rate_give_every_frame():
    times = [round(at / 30, 3) for at in range(100)]
    for last in (2, 3, 100):
        assert len(list(FrameChoice(fps=30).select(fake(times[:last])))) == last


def test_sampling_reads_no_further_than_the_end():
    reached = []

    def endless() -> Iterator[Picture]:
        for at in itertools.count():
            reached.append(at)
            yield Picture(float(at), None, lambda: picture(0))

    assert [at for at, _ in FrameChoice(end=4).select(endless())] == [0, 1, 2, 3, 4]
    assert reached[-1] == 4


@pytest.mark.parametrize(
    "options",
    [
        {"stride": 0},
        {"stride": 1.5},
        {"fps": 0},
        {"fps": -1},
        {"fps": math.nan},
        {"fps": math.inf},
        {"fps": 10**5000},
        {"fps": "x"},
        {"start_s": 1e308},
        {"end_s": 1e308},
        {"end_s": 10**400},
        {"start_s": [1]},
        {"stride": 2**63},
        {"start": 10**5000},
        {"end": 10**5000},
        {"start": 5.0},
        {"end": True},
        {"start": -1},
        {"end_s": -0.5},
        {"start": COUNT},
        {"rate": 25},
        {"rate": 0},
        {"rate": 5e-324},
        {"rate": "x"},
        {"errors": "skp"},
    ],
)
def test_an_option_that_makes_no_sense_is_refused(source_file, options):
    path = source_file("mp4").path
    with refused(path, *options):
        open_video(path, **options)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"fps": 2, "stride": 2}, "stride"),
        ({"start": 5, "end": 4}, "start"),
        ({"start_s": 5.0, "end_s": 4.0}, "start"),
        ({"start": 1, "start_s": 1.0}, "start"),
    ],
)
def test_options_that_contradict_each_other_are_refused(source_file, options, field):
    path = source_file("mp4").path
    with refused(path, field):
        open_video(path, **options)


def test_a_start_beyond_the_end_is_found_in_the_pass_where_the_header_does_not_tell(source_file):
    for name, options in (("transport stream", {"start": 500}), ("mp4", {"start_s": 99.0})):
        video = open_video(source_file(name).path, **options)
        with refused(source_file(name).path, "start"):
            next(iter(video))


@pytest.mark.parametrize(("seconds", "refuses"), [(1.0, 30), (3.0, 30), (4.0, 40)])
def test_a_start_is_refused_where_index_and_duration_both_end_before_it(tmp_path, seconds, refuses):
    container = Container(write_video(tmp_path / "cup.mp4", pictures(), RATE))
    container._seconds = seconds  # a header may tell a duration that is wrong
    assert container.expected(FrameChoice(start=refuses - 1)) == max(0, COUNT - refuses + 1)
    with refused("start", refuses, "give at most 29"):
        container.expected(FrameChoice(start=refuses))


def test_the_key_follows_content_and_sampling_but_not_the_folder(tmp_path):
    path = write_video(tmp_path / "cup.mp4", pictures(3), RATE)
    key = open_video(path).key
    assert key == open_video(path).key == open_video(path, errors="fail").key
    others = [open_video(path, start=1).key, open_video(path, fps=3).key]
    (tmp_path / "moved").mkdir()
    moved = path.rename(tmp_path / "moved" / "cup.mp4")
    assert open_video(moved).key == key
    before = moved.stat().st_mtime_ns
    os.utime(moved, ns=(before, before + 1))
    others.append(open_video(moved).key)
    assert len({key, *others}) == 4


def test_stored_order_and_shown_order_differ_where_there_are_b_frames(source_file):
    with av.open(source_file("b-frames").path) as container:
        stamps = [packet.pts for packet in container.demux(video=0) if packet.size]
    assert stamps != sorted(stamps)  # else the contract above shows less than it says


def without_first_five(whole: Path, path: Path) -> Path:
    """Write a copy whose edit list hides five frames."""
    with (
        av.open(str(whole)) as source,
        av.open(str(path), "w", options={"avoid_negative_ts": "disabled"}) as cut,
    ):
        stream = cut.add_stream_from_template(source.streams.video[0])
        five = round(5 / RATE / source.streams.video[0].time_base)
        for packet in source.demux(video=0):
            if packet.size:
                packet.pts, packet.dts, packet.stream = packet.pts - five, packet.dts - five, stream
                cut.mux(packet)
    return path


def test_an_edit_list_hides_frames_and_the_count_starts_behind_it(tmp_path):
    whole = encode(tmp_path / "whole.mp4", [*pictures()], options={"g": "10"})
    video = open_video(without_first_five(whole, tmp_path / "cut.mp4"), errors="fail")
    frames = list(video)
    assert [read_ordinal(frame.image) for frame in frames] == list(range(5, COUNT))
    assert [frame.source for frame in frames] == list(range(COUNT - 5))
    assert [frame.time_s for frame in frames] == EVEN[: COUNT - 5]
    assert video.length == COUNT - 5


def test_a_damaged_frame_that_is_hidden_takes_no_index(tmp_path):
    options = {"g": "10", "sc_threshold": "1000000000"}
    whole = encode(tmp_path / "whole.mp4", [*pictures()], codec="mpeg4", options=options)
    path = without_first_five(whole, tmp_path / "cut.mp4")
    damaged(path, [2, 8])
    video = open_video(path)
    frames = list(video)
    assert [frame.source for frame in frames] == [0, 1, 2, *range(4, COUNT - 5)]
    # up to the next key frame the picture lacks what the damaged ones held
    assert [read_ordinal(frame.image) for frame in frames[4:]] == list(range(10, COUNT))
    assert [sentence.split(" (")[0] for sentence in video.problems] == [f"{path}: frame 3"]


def test_a_stream_without_timestamps_has_frames_but_no_times(tmp_path):
    path = encode(tmp_path / "cup.h264", [*pictures()])
    frames = list(open_video(path))
    assert [read_ordinal(frame.image) for frame in frames] == list(range(COUNT))
    assert {frame.time_s for frame in frames} == {None}
    with refused(path, "sample by start, end and stride"):
        list(open_video(path, fps=2))


# Damage


def packets(path: Path) -> list[Any]:
    with av.open(str(path)) as container:
        return [(p.pos, p.size, p.pts) for p in container.demux(video=0) if p.size]


def damaged(path: Path, stored: Sequence[int]) -> list[int]:
    """Overwrite packets, counted as stored, and return the ordinals of their frames."""
    content, stored_packets = bytearray(path.read_bytes()), packets(path)
    for at in stored:
        position, size, _ = stored_packets[at]
        content[position : position + size] = bytes(size)
    path.write_bytes(content)
    stamps = sorted(stamp for _, _, stamp in stored_packets)
    return sorted(stamps.index(stored_packets[at][2]) for at in stored)


@pytest.mark.parametrize("stored", [[7], [10, 11, 12], [29], [27, 28, 29], [0], [4, 22]])
@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
def test_a_lost_frame_keeps_its_index(tmp_path, codec, stored):
    path = encode(tmp_path / "cup.mp4", [*pictures()], codec=codec, options={"g": "1"})
    lost = damaged(path, stored)
    video = open_video(path)
    frames = list(video)
    intact = [at for at in range(COUNT) if at not in lost]
    assert [frame.index for frame in frames] == [frame.source for frame in frames] == intact
    assert [read_ordinal(frame.image) for frame in frames] == intact
    assert [frame.time_s for frame in frames] == [EVEN[at] for at in intact]
    assert video.problems == [
        f"{path}: frame {at} ({at / RATE:.3f} s) cannot be decoded (damaged data) "
        "and counts as not observed"
        for at in lost
    ]
    with refused(path, "errors") as caught:
        list(open_video(path, errors="fail"))
    caught.match(rf"frame {lost[0]} \(")


def test_frames_that_hang_on_a_lost_key_frame_are_lost_with_it(tmp_path):
    path = encode(
        tmp_path / "cup.mp4",
        [*pictures()],
        options={"g": "10", "x264-params": "scenecut=0:open-gop=0"},
    )
    assert damaged(path, [0]) == [0]
    frames = list(open_video(path))
    assert [frame.source for frame in frames] == list(range(10, COUNT))
    assert [read_ordinal(frame.image) for frame in frames] == list(range(10, COUNT))


def test_a_lost_b_frame_keeps_its_place_in_shown_order(tmp_path):
    options = {"bf": "3", "g": "12", "x264-params": "b-adapt=0"}
    path = encode(tmp_path / "cup.mp4", [*pictures()], options=options)
    stamps = [stamp for _, _, stamp in packets(path)]
    stored = next(at for at in range(5, COUNT) if stamps[at] < stamps[at - 1])
    (lost,) = damaged(path, [stored])
    assert lost != stored  # shown and stored at different places
    sources = [frame.source for frame in open_video(path)]
    assert sources == [at for at in range(COUNT) if at != lost]


def test_a_broadcast_joined_between_key_frames_counts_from_the_first_that_can_be_shown(tmp_path):
    options = {"g": "10", "x264-params": "scenecut=0:open-gop=0"}
    path = encode(tmp_path / "cup.ts", [*pictures()], options=options)
    path.write_bytes(path.read_bytes()[packets(path)[5][0] :])
    with av.open(str(path)) as container:
        assert not next(packet for packet in container.demux(video=0) if packet.size).is_keyframe
    frames = list(open_video(path, errors="fail"))
    assert [frame.source for frame in frames] == list(range(20))
    assert [read_ordinal(frame.image) for frame in frames] == list(range(10, 30))


def test_a_frame_that_is_damaged_but_not_sampled_is_no_problem(tmp_path):
    path = encode(tmp_path / "cup.mp4", [*pictures()], codec="mpeg4", options={"g": "1"})
    assert damaged(path, [7]) == [7]
    frames = list(open_video(path, stride=3, errors="fail"))
    assert [frame.source for frame in frames] == list(range(0, COUNT, 3))
    frames = list(open_video(path, start=1, stride=3))
    assert [(frame.index, frame.source) for frame in frames][:3] == [(0, 1), (1, 4), (3, 10)]


def test_problems_are_those_of_the_last_pass(tmp_path):
    path = encode(tmp_path / "cup.mp4", [*pictures()], codec="mpeg4", options={"g": "1"})
    damaged(path, [7])
    video = open_video(path)
    assert len(list(video)) == len(list(video)) == COUNT - 1
    assert len(video.problems) == 1


def test_a_video_of_which_nothing_can_be_decoded_is_refused(tmp_path):
    path = encode(tmp_path / "cup.mp4", [*pictures()])
    damaged(path, range(COUNT))
    with refused(path, "re-encode it, or copy it again"):
        list(open_video(path))


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".avi"])
def test_a_truncated_video_gives_what_it_has_and_says_where_it_stops(tmp_path, suffix):
    muxer = {"movflags": "faststart"} if suffix == ".mp4" else {}
    path = encode(
        tmp_path / f"cup{suffix}", [*pictures()], codec="mpeg4", options={"g": "1"}, muxer=muxer
    )
    position, size, _ = packets(path)[15]
    path.write_bytes(path.read_bytes()[: position + size // 2])
    video = open_video(path)
    frames = list(video)
    assert [read_ordinal(frame.image) for frame in frames] == list(range(15))
    assert re.search(r"stops at 1\.[56]00 .*: the file is truncated$", video.problems[-1])
    with refused(path, "errors"):
        list(open_video(path, errors="fail"))
    assert len(list(open_video(path, end=9, errors="fail"))) == 10


def test_an_error_of_the_disk_ends_the_pass_and_is_reported(source_file, monkeypatch):
    class Failing:
        """A container whose demuxing fails after ten packets."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def __enter__(self) -> Failing:
            return self

        def __exit__(self, *error: object) -> None:
            self.inner.close()

        def demux(self, stream: Any) -> Iterator[Any]:
            yield from itertools.islice(self.inner.demux(stream), 10)
            raise av.error.InvalidDataError(5, "Input/output error")

    whole = Container.opened
    video = open_video(source_file("mpeg4").path)
    monkeypatch.setattr(Container, "opened", lambda self: Failing(whole(self)))
    assert [read_ordinal(frame.image) for frame in video] == list(range(10))
    assert video.problems == [
        f"{video.path}: stops at 1.000 s and cannot be read further (Input/output error)"
    ]


def test_an_image_that_cannot_be_read_keeps_its_index(tmp_path):
    folder = image_files(tmp_path / "cup", ".jpg", [str(at) for at in range(COUNT)])
    whole = (folder / "4.jpg").read_bytes()
    (folder / "4.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "8.jpg").write_bytes(b"")
    (folder / "12.jpg").write_text("hello")
    video = open_video(folder, stride=2, start=2)
    frames = list(video)
    assert [frame.source for frame in frames] == [2, 6, 10, *range(14, COUNT, 2)]
    assert [frame.index for frame in frames] == [0, 2, 4, *range(6, 14)]
    assert [sentence.split(" cannot")[0] for sentence in video.problems] == [
        f"{folder}: frame {at} ({at})" for at in (4, 8, 12)
    ]
    assert video.length == 14
    with refused(folder, "errors") as caught:
        list(open_video(folder, errors="fail"))
    caught.match(r"frame 4 \(4\) .*(?i:truncated)")


@pytest.mark.parametrize(("codec", "options"), [("libx264", {"bf": "3"}), ("mpeg2video", {})])
def test_seconds_go_on_where_two_recordings_were_joined(tmp_path, codec, options):
    once = encode(tmp_path / "once.ts", [*pictures()], codec=codec, options=options)
    path = tmp_path / "twice.ts"
    path.write_bytes(2 * once.read_bytes())
    video = open_video(path, errors="fail")
    frames = list(video)
    assert [read_ordinal(frame.image) for frame in frames] == 2 * list(range(COUNT))
    assert [frame.time_s for frame in frames] == pytest.approx([k / RATE for k in range(2 * COUNT)])
    assert video.problems == [
        f"{path}: times go back after 3.000 s, where another recording was joined; they are "
        "counted on from there"
    ]
    assert [frame.source for frame in open_video(path, fps=RATE / 2)] == [*range(0, 2 * COUNT, 2)]
    part = open_video(path, start_s=2.8, end_s=3.2, errors="fail")
    assert [frame.source for frame in part] == [28, 29, 30, 31, 32]
    assert open_frames(path).times_s.tolist() == [frame.time_s for frame in frames]


def test_one_damaged_stamp_joins_nothing(tmp_path):
    path = tmp_path / "x.ts"
    with av.open(str(path), "w", options={"strict": "-2"}) as container:
        stream: Any = container.add_stream("mpeg2video", rate=25, options={"g": "1"})
        stream.height, stream.width, stream.pix_fmt = HEIGHT, WIDTH, "yuv420p"
        for at, image in enumerate(pictures(12)):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = at, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with av.open(str(path)) as container:
        places = [packet.pos for packet in container.demux(video=0) if packet.size]
    content = bytearray(path.read_bytes())
    start = content.index(b"\x00\x00\x01\xe0", places[6])
    content[start + 11] ^= 1  # of the stamp
    path.write_bytes(content)
    video = open_video(path)
    assert [read_ordinal(frame.image) for frame in video] == list(range(12))
    assert video.problems == []


# What cannot be opened


@pytest.mark.parametrize("opened", [open_video, open_frames])
def test_a_list_of_files_that_is_called_a_video_is_refused(tmp_path, opened):
    encode(tmp_path / "a.ts", [*pictures(4)], codec="mpeg4")
    for text in (
        "ffconcat version 1.0\nfile x.mp4\n",  # itself, for ever
        "ffconcat version 1.0\nfile a.ts\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:0.16,\na.ts\n#EXT-X-ENDLIST\n",
    ):
        (tmp_path / "x.mp4").write_text(text)
        with refused(tmp_path / "x.mp4", "is not a video"):
            opened(tmp_path / "x.mp4")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have no names here")
@pytest.mark.parametrize("name", ["x.mp4", "x.png", "x.m3u8"])
@pytest.mark.parametrize("opened", [open_video, open_frames])
def test_devices_and_pipes_are_refused_before_they_are_read(tmp_path, opened, name):
    os.mkfifo(tmp_path / name)
    with refused(tmp_path / name, "a device or a pipe"):
        opened(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    with refused(tmp_path / name, "a device or a pipe"):
        opened(tmp_path / name)
    (tmp_path / "0.png").symlink_to("/dev/zero")
    with refused(tmp_path / "*.png", "a device or a pipe"):
        list(open_video(tmp_path / "*.png"))


@pytest.mark.parametrize("opened", [open_video, open_frames])
def test_a_file_that_ffmpeg_may_not_read_is_refused(source_file, monkeypatch, opened):
    def denied(*place: Any, **options: Any) -> Any:
        raise av.error.PermissionError(13, "Permission denied")

    path = source_file("mp4").path
    monkeypatch.setattr(av, "open", denied)
    with refused(path, "Permission denied"):
        opened(Path(path))


@pytest.mark.parametrize("name", ["mp4", "mkv", "avi"])
def test_titles_in_an_unknown_encoding_do_not_matter(source_file, tmp_path, name):
    good = Path(source_file(name).path)
    content = good.read_bytes()
    broken = content.replace(b"Lavf", b"\xff\xfeL(")  # who wrote it, as a text of the container
    assert broken != content
    (tmp_path / good.name).write_bytes(broken)
    assert len(list(open_video(tmp_path / good.name))) == COUNT


def test_files_that_are_no_video_are_refused_in_one_sentence(tmp_path):
    def file(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    noise = np.random.default_rng(0).bytes(5000)
    whole = write_video(tmp_path / "cup.mp4", pictures(), RATE).read_bytes()
    for path, keyword in (
        (tmp_path / "none.mp4", "no such file or folder"),
        (tmp_path / "no:thing.mp4", "no such file or folder"),
        (file("zero.mp4", b""), "empty"),
        (file("text.mp4", b"hello world\n" * 50), "not a video"),
        (file("text.txt", b"hello world\n" * 50), "not a video"),
        (file("noise.mkv", noise), "not a video"),
        (file("cut.mp4", whole[:-2000]), "truncated before its index"),
    ):
        with refused(path) as caught:
            open_video(path)
        caught.match(keyword)


@pytest.mark.parametrize("cover", [False, True])
def test_sound_alone_is_refused_with_or_without_a_cover(tmp_path, cover):
    path = tmp_path / "song.mp4"
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("aac", rate=44100)
        if cover:
            front: Any = container.add_stream("png", rate=1)
            front.height, front.width, front.pix_fmt = HEIGHT, WIDTH, "rgb24"
            front.disposition = Disposition.attached_pic
            image = av.VideoFrame.from_ndarray(picture(0), format="rgb24")
            image.pts = 0
            container.mux([*front.encode(image), *front.encode()])
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 4096), np.float32), "fltp", "mono")
        sound.sample_rate = 44100
        container.mux([*stream.encode(sound), *stream.encode()])
    with av.open(str(path)) as container:
        assert len(container.streams.video) == cover
    with refused(path, "give a file with a video stream"):
        open_video(path)


def test_of_two_video_streams_the_largest_is_used_and_named(tmp_path):
    path = tmp_path / "two.mkv"
    with av.open(str(path), "w") as container:
        streams: list[Any] = [container.add_stream("mpeg4", rate=RATE) for _ in range(2)]
        for side, stream in enumerate(streams, start=1):
            stream.width, stream.height, stream.pix_fmt = 32 * side, 16 * side, "yuv420p"
        for side, stream in enumerate(streams, start=1):
            image = np.full((16 * side, 32 * side, 3), 100 * side, np.uint8)
            for at in range(3):
                frame = av.VideoFrame.from_ndarray(image, format="rgb24")
                frame.pts, frame.time_base = at, Fraction(1, RATE)
                container.mux(stream.encode(frame))
            container.mux(stream.encode())
    videos = [open_video(path, stream=number) for number in (None, 0, 1)]
    assert [[frame.shape for frame in video] for video in videos] == [
        [(32, 64)] * 3,
        [(16, 32)] * 3,
        [(32, 64)] * 3,
    ]
    (note,) = videos[0].problems
    assert "0 (32 × 16), 1 (64 × 32); stream 1 is used" in note
    assert [video.problems for video in videos[1:]] == [[], []]
    assert videos[0].key == videos[2].key != videos[1].key
    with refused(path, "stream", 7):
        open_video(path, stream=7)
    with refused(tmp_path, "images have no streams"):
        open_video(tmp_path, stream=0)


@pytest.mark.parametrize("ends", [True, False])
def test_a_playlist_of_a_live_stream_is_refused_at_once(tmp_path, ends):
    encode(tmp_path / "a.ts", [*pictures(4)], codec="mpeg4")
    parts = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:0.16,\na.ts\n"
    (tmp_path / "v.m3u8").write_text(parts + "#EXT-X-ENDLIST\n" * ends)
    (tmp_path / "all.m3u8").write_text("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8\n")
    for name in ("v.m3u8", "all.m3u8"):
        if ends:
            assert len(list(open_video(tmp_path / name))) == 4
        else:
            with refused(tmp_path / name, "live"):
                open_video(tmp_path / name)
    if not ends:
        (tmp_path / "v.mpd").write_text('<?xml version="1.0"?><MPD type="dynamic"></MPD>')
        with refused(tmp_path / "v.mpd"):
            open_video(tmp_path / "v.mpd")


@pytest.mark.parametrize(
    ("name", "hint"), [("https://example.com/v.mp4", "download"), ("0", "camera:0")]
)
def test_an_address_and_a_camera_are_told_from_a_wrong_path(name, hint):
    for path in (name, Path(name)):
        with refused(name, hint) as caught:
            open_video(path)
        assert str(caught.value).startswith(f"{name}: ")


def test_folders_and_patterns_without_images_are_refused(tmp_path):
    with refused(tmp_path, "empty folder"):
        open_video(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    with refused(tmp_path, "no images"):
        open_video(tmp_path)
    for pattern in (tmp_path / "*.jpg", tmp_path / "*.txt"):
        with refused(pattern):
            open_video(pattern)
    image_files(tmp_path / "cup", ".png")
    with refused(tmp_path, "give one of them"):
        open_video(tmp_path)


def test_images_of_different_sizes_are_refused_by_name(tmp_path):
    folder = image_files(tmp_path / "cup", ".png", [str(at) for at in range(COUNT)])
    Image.new("RGB", (60, 32)).save(folder / "17.png")
    with refused(folder, "17.png"):
        open_video(folder)
    assert len(list(open_video(folder, end=16))) == 17
    video = open_video(folder, stride=2)
    Image.new("RGB", (60, 32)).save(folder / "4.png")  # behind our back
    with refused(folder, "frame", 4):
        list(video)


def test_images_beyond_the_end_or_without_times_are_refused(tmp_path):
    folder = image_files(tmp_path / "cup", ".png")
    with refused(folder, "start"):
        open_video(folder, start=30)
    with refused(folder, "start"):
        open_video(folder, start_s=3.0, rate=10)
    for options in ({"fps": 2}, {"start_s": 1.0}, {"end_s": 1.0}):
        with refused(folder, "rate"):
            open_video(folder, **options)


def test_a_file_that_may_not_be_read_is_refused(source_file, monkeypatch):
    def closed(self: Path) -> Any:
        raise PermissionError(13, "Permission denied")

    path = source_file("mp4").path
    monkeypatch.setattr(Path, "stat", closed)
    monkeypatch.setattr(Path, "is_file", lambda self: True)
    monkeypatch.setattr(Path, "is_dir", lambda self: False)
    with refused(path) as caught:
        open_video(path)
    caught.match("Permission denied")


# Images


def test_digits_in_names_count_as_numbers():
    names = ["frame10.jpg", "frame2.jpg", "frame1.jpg", "b1.jpg", "frame01.jpg", "frame.jpg"]
    ordered = ["b1.jpg", "frame.jpg", "frame01.jpg", "frame1.jpg", "frame2.jpg", "frame10.jpg"]
    assert [path.name for path in natural(names)] == ordered
    assert [str(path) for path in natural(["10/1.png", "9/2.png"])] == [
        os.path.join("9", "2.png"),
        os.path.join("10", "1.png"),
    ]


def test_images_carry_their_stems(tmp_path):
    folder = image_files(tmp_path / "cup", ".jpg", [f"frame{at}" for at in range(COUNT)])
    frames = list(open_video(folder, stride=10))
    assert [frame.name for frame in frames] == ["frame0", "frame10", "frame20"]


def test_a_folder_gives_its_name_and_a_single_image_its_stem(tmp_path, monkeypatch):
    (tmp_path / "cup").mkdir()
    Image.fromarray(picture(3)).save(tmp_path / "cup" / "single.png")
    monkeypatch.chdir(tmp_path / "cup")
    for path, name in (
        (tmp_path / "cup", "cup"),
        (".", "cup"),
        ("*.png", "cup"),
        ("single.png", "single"),
    ):
        video = open_video(path)
        assert video.name == name
        assert [read_ordinal(frame.image) for frame in video] == [3]


GREY = np.arange(32, dtype=np.uint8).reshape(4, 8) * 8
COLOUR = np.stack([GREY, 255 - GREY, GREY // 2], axis=2)
DEEP = np.array([[0, 128, 129, 256, 257, 385, 386, 32768, 65406, 65407, 65535]], np.uint16)
ROUNDED = np.array([[0, 0, 1, 1, 1, 1, 2, 128, 254, 255, 255]], np.uint8)  # to the nearest
BEYOND = np.array([[-5, 70_000]], np.int32)


def _palette() -> Image.Image:
    image = Image.new("P", (8, 4))
    image.putdata((GREY // 8).ravel().tolist())
    image.putpalette(COLOUR.reshape(-1, 3).ravel().tolist())
    return image


@pytest.mark.parametrize(
    ("image", "suffix", "expected"),
    [
        (Image.fromarray(COLOUR), ".png", COLOUR),
        (Image.fromarray(COLOUR), ".bmp", COLOUR),
        (Image.fromarray(GREY), ".png", np.repeat(GREY[..., None], 3, 2)),
        (Image.fromarray(GREY), ".tif", np.repeat(GREY[..., None], 3, 2)),
        (Image.fromarray(GREY.astype(np.uint16) * 257), ".png", np.repeat(GREY[..., None], 3, 2)),
        (Image.fromarray(GREY.astype(np.uint16) * 257), ".tif", np.repeat(GREY[..., None], 3, 2)),
        (Image.fromarray(GREY.astype(np.int32) * 257), ".tif", np.repeat(GREY[..., None], 3, 2)),
        (Image.fromarray(DEEP), ".png", np.repeat(ROUNDED[..., None], 3, 2)),
        (Image.fromarray(DEEP.astype(np.int32)), ".tif", np.repeat(ROUNDED[..., None], 3, 2)),
        (Image.fromarray(BEYOND), ".tif", np.repeat(np.uint8([[0, 255]])[..., None], 3, 2)),
        (Image.fromarray(np.dstack([COLOUR, GREY])), ".png", COLOUR),
        (Image.fromarray(np.dstack([GREY, GREY])), ".png", np.repeat(GREY[..., None], 3, 2)),
        (_palette(), ".png", COLOUR),
        (Image.fromarray(GREY > 99), ".png", np.repeat((GREY > 99)[..., None], 3, 2) * 255),
    ],
)
def test_every_kind_of_image_becomes_rgb(tmp_path, image, suffix, expected):
    image.save(tmp_path / f"0{suffix}")
    (frame,) = open_video(tmp_path)
    assert frame.image.dtype == np.uint8
    assert np.array_equal(frame.image, expected)


def test_a_palette_with_transparency_becomes_rgb_without_a_warning(tmp_path):
    _palette().save(tmp_path / "0.png", transparency=bytes(range(32)))
    (frame,) = open_video(tmp_path / "0.png")
    assert np.array_equal(frame.image, COLOUR)


def test_floating_point_images_are_unreadable(tmp_path):
    Image.fromarray(GREY.astype(np.float32)).save(tmp_path / "0.tif")
    with refused(tmp_path, "errors") as caught:
        list(open_video(tmp_path, errors="fail"))
    caught.match("floating-point")
    with refused(tmp_path, "none of its frames can be decoded"):
        list(open_video(tmp_path))


@pytest.mark.parametrize(
    ("orientation", "stored"),
    [
        (1, lambda image: image),
        (2, lambda image: image[:, ::-1]),
        (3, lambda image: np.rot90(image, 2)),
        (6, lambda image: np.rot90(image, 1)),
        (8, lambda image: np.rot90(image, -1)),
    ],
)
def test_the_orientation_of_a_photograph_is_honoured(tmp_path, orientation, stored):
    exif = Image.Exif()
    exif[0x0112] = orientation
    for ordinal in (5, 6):
        image = np.ascontiguousarray(stored(picture(ordinal)))
        Image.fromarray(image).save(tmp_path / f"{ordinal}.jpg", exif=exif, quality=95)
    Image.fromarray(picture(7)).save(tmp_path / "7.jpg", quality=95)  # of the same size as shown
    assert [read_ordinal(frame.image) for frame in open_video(tmp_path)] == [5, 6, 7]
    Image.fromarray(picture(8)[:16]).save(tmp_path / "8.png")
    with refused(tmp_path, "8.png"):
        open_video(tmp_path)


# Streaming


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/statm")
@pytest.mark.long
def test_memory_stays_flat_over_a_long_stream(tmp_path):
    count, shape = 2000, (96, 128, 3)
    still = [np.full(shape, level, np.uint8) for level in (0, 128, 255)]
    frames = (still[at % 3] for at in range(count))
    path = write_video(tmp_path / "long.mp4", frames, 30, codec="mpeg4")
    stream = iter(open_video(path))
    for _ in range(100):
        next(stream)
    before, peak, count_seen = resident(), 0, 100
    gc.disable()  # it comes after hundreds of frames; nothing may wait for it
    try:
        for frame in stream:
            count_seen += 1
            if frame.index % 50 == 0:
                peak = max(peak, resident() - before)
    finally:
        gc.enable()
    assert count_seen == count
    assert peak < 10e6  # all frames together are 74 MB


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/fd")
def test_the_file_is_closed_when_reading_stops_early(source_file):
    path = source_file("mp4").path

    def opened() -> int:
        links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
        return sum(os.path.realpath(link) == os.path.realpath(path) for link in links)

    stream = iter(open_video(path))
    next(stream)
    assert opened() == 1
    stream.close()
    assert opened() == 0
    list(open_video(path, end=2))
    assert opened() == 0


# Writing


def test_odd_sizes_are_padded_with_the_last_pixels(tmp_path):
    image = np.repeat(np.repeat(GREY[..., None], 3, 2), 8, axis=0).repeat(8, axis=1)[:31, :63]
    (frame,) = open_video(write_video(tmp_path / "odd.mp4", [image], 10))
    assert frame.image.shape == (32, 64, 3)
    assert np.abs(frame.image[:31, :63].astype(int) - image).mean() < 4
    assert np.abs(frame.image[31, :63].astype(int) - image[30]).mean() < 8
    (frame,) = open_video(write_video(tmp_path / "wide.mp4", [image[:30]], 10))
    assert frame.image.shape == (30, 64, 3)
    (frame,) = open_video(write_video(tmp_path / "high.mp4", [image[:, :62]], 10))
    assert frame.image.shape == (32, 62, 3)


def test_colours_come_back(tmp_path):
    colours = np.array([[255, 0, 0], [0, 200, 0], [40, 60, 220], [250, 250, 10]], np.uint8)
    image = np.repeat(np.repeat(colours[None], 32, axis=0), 16, axis=1)
    (frame,) = open_video(write_video(tmp_path / "c.mp4", [image], 10))
    assert np.abs(frame.image[16, 8::16].astype(int) - colours).max() < 6
    with av.open(str(tmp_path / "c.mp4")) as container:
        assert next(container.decode(video=0)).colorspace == 1  # BT.709, and it says so


def test_without_x264_mpeg4_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(av, "codecs_available", av.codecs_available - {"libx264"})
    path = write_video(tmp_path / "cup.mp4", pictures(), RATE)
    with av.open(str(path)) as container:
        assert container.streams.video[0].codec_context.name == "mpeg4"
    assert [read_ordinal(frame.image) for frame in open_video(path)] == list(range(COUNT))


def test_fractional_rates_are_kept(tmp_path):
    path = write_video(tmp_path / "cup.mp4", pictures(), 30000 / 1001)
    assert [frame.time_s for frame in open_video(path)] == [at * 1001 / 30000 for at in range(30)]


@pytest.mark.parametrize(
    ("frames", "options", "fact"),
    [
        ([], {}, "frames"),
        ([picture(0), picture(0)[:-2]], {}, "frame 1"),
        ([picture(0).astype(float)], {}, "frame 0"),
        ([picture(0)[..., 0]], {}, "frame 0"),
        ([picture(0)] * 2, {"times_s": [0.0, 0.0]}, 0.0),
        ([picture(0)] * 2, {"times_s": [-1.0, 0.0]}, -1.0),
        ([picture(0)] * 2, {"times_s": [0.0]}, "frame 1 has the time None"),
        ([picture(0)], {"rate": 0}, "rate 0"),
        ([picture(0)], {"codec": "libx265x"}, "libx265x"),
    ],
)
def test_what_cannot_be_written_leaves_nothing_behind(tmp_path, frames, options, fact):
    path = tmp_path / "cup.mp4"
    with refused(path, fact):
        write_video(path, frames, **{"rate": RATE, **options})
    assert list(tmp_path.iterdir()) == []


def test_a_name_without_a_known_suffix_is_refused(tmp_path):
    with refused(tmp_path / "cup.xyz", "a video is written as .mp4, .mov, .mkv"):
        write_video(tmp_path / "cup.xyz", pictures(), RATE)


def test_frames_that_fail_on_the_way_leave_the_old_file(tmp_path):
    def failing() -> Iterator[np.ndarray]:
        yield from pictures(5)
        raise RuntimeError("no more")

    path = write_video(tmp_path / "cup.mp4", pictures(), RATE)
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="no more"):
        write_video(path, failing(), RATE)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# Real footage


@pytest.mark.parametrize(
    ("name", "count", "last", "shape"),
    [
        ("3161_peel_banana", 85, "frame01008", (360, 640, 3)),
        ("3316_peel_onion", 110, "frame01308", (360, 640, 3)),
        ("555_tear_aluminium_foil", 51, "frame00600", (360, 640, 3)),
        ("556_cut_tomato", 98, "frame01164", (360, 640, 3)),
        ("9671_split_cups", 42, "frame00246", (480, 640, 3)),
    ],
)
def test_the_sequences_of_the_footage_load(footage, name, count, last, shape):
    video = open_video(footage / "JPEGImages" / name, errors="fail")
    assert (video.name, video.length) == (name, count)
    frames = [(frame.index, frame.name, frame.image.shape) for frame in video]
    assert [index for index, _, _ in frames] == list(range(count))
    assert frames[0][1:] == ("frame00000", shape)
    assert frames[-1][1:] == (last, shape)
    assert {size for _, _, size in frames} == {shape}


@pytest.mark.parametrize(
    ("name", "count", "step_s", "shape"),
    [
        ("sam2_coffee.mp4", 287, 1001 / 30000, (720, 1280, 3)),
        ("torchocolate.mp4", 173, 0.1, (960, 544, 3)),
    ],
)
def test_the_clips_of_the_footage_load(footage, name, count, step_s, shape):
    video = open_video(footage / "clips" / name, errors="fail")
    assert video.length == count
    frames = [(frame.source, frame.time_s, frame.image.shape) for frame in video]
    assert [source for source, _, _ in frames] == list(range(count))
    assert [time_s for _, time_s, _ in frames] == pytest.approx([k * step_s for k in range(count)])
    assert {size for _, _, size in frames} == {shape}


@pytest.mark.parametrize("name", BACK_ENDS)
def test_frames_that_become_rgb_later_have_the_same_pixels(source_file, name) -> None:
    source = source_file(name)
    rng = np.random.default_rng(0)
    video = open_video(source.path, **source.options)
    for now, late in zip(video, video.lazy_frames(), strict=True):
        assert (late.index, late.source, late.time_s, late.name) == (
            now.index,
            now.source,
            now.time_s,
            now.name,
        )
        height, width = late.shape
        assert now.shape == (height, width) == now.image.shape[:2]
        for _ in range(3):
            y0, x0 = rng.integers(height), rng.integers(width)
            y1, x1 = rng.integers(y0, height) + 1, rng.integers(x0, width) + 1
            part, top, left = late.part(y0, y1, x0, x1)
            rows, columns = part.shape[:2]
            assert (top <= y0, left <= x0) == (True, True)
            assert (top + rows >= y1, left + columns >= x1) == (True, True)
            assert np.array_equal(part, now.image[top : top + rows, left : left + columns])
        assert np.array_equal(late.image, now.image)


@pytest.mark.parametrize(
    ("size", "pixels", "codec"),
    [
        ((38, 66), "yuv420p", "ffv1"),
        ((38, 131), "yuv420p", "ffv1"),
        ((37, 130), "yuv420p", "ffv1"),
        ((64, 128), "yuvj420p", "mjpeg"),
        ((50, 200), "yuv444p", "ffv1"),
    ],
)
def test_parts_of_frames_are_equal_whatever_the_size(tmp_path, size, pixels, codec) -> None:
    rng = np.random.default_rng(1)
    path = tmp_path / "x.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=5)
        stream.height, stream.width, stream.pix_fmt = *size, pixels
        for _ in range(3):
            image = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format=pixels)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    video = open_video(path, threads=1)
    for now, late in zip(video, video.lazy_frames(), strict=True):
        for y0, y1, x0, x1 in ((0, size[0], 0, size[1]), (3, 9, 5, 66), (30, 37, 64, 66)):
            part, top, left = late.part(y0, y1, x0, x1)
            rows, columns = part.shape[:2]
            assert np.array_equal(part, now.image[top : top + rows, left : left + columns])
        assert isinstance(late.pixels, LazyFrame) == ("420" in pixels and size[0] % 2 == 0)


def test_parts_that_differ_from_the_whole_are_not_used(source_file, monkeypatch) -> None:
    exact = LazyFrame._part

    def shifted(self, *box: int):
        part, top, left = exact(self, *box)
        return part + np.uint8(part.shape[:2] != self.shape), top, left

    monkeypatch.setattr(LazyFrame, "_part", shifted)
    video = open_video(source_file("mp4").path)
    for now, late in zip(video, video.lazy_frames(), strict=True):
        height, width = now.image.shape[:2]
        assert np.array_equal(late.part(0, height, 0, width)[0], now.image)
        assert np.array_equal(late.part(0, 8, 0, 8)[0], now.image)


def test_a_file_is_opened_once_for_its_first_pass_and_only_the_last_is_kept(tmp_path, monkeypatch):
    paths = [write_video(tmp_path / f"{k}.mp4", pictures(), 10) for k in range(2)]
    opened: list[str] = []
    real = av.open

    def counted(path: str, **options: Any) -> Any:
        opened.append(Path(path).stem)
        return real(path, **options)

    monkeypatch.setattr(av, "open", counted)
    first, second = map(open_video, paths)
    assert [frame.index for frame in second] == list(range(COUNT))
    assert opened == ["0", "1"]
    assert [frame.index for frame in first] == list(range(COUNT))
    assert opened == ["0", "1", "0"]
    assert [frame.index for frame in second] == list(range(COUNT))
    assert opened == ["0", "1", "0", "1"]
