"""Frames that are asked for are those of a whole pass, bit for bit, though less is decoded."""

from __future__ import annotations

import io
import itertools
import math
import os
import random
import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from helpers.altered import EXAMPLES
from helpers.errors import refused
from helpers.scheduling import scheduling_restored
from PIL import Image

from dejacue.errors import InputError
from dejacue.video import _containers
from dejacue.video._containers import Container
from dejacue.video.frames import open_frames
from dejacue.video.video import Frame, Video, open_video

COUNT, WIDTH, HEIGHT = 48, 64, 48
X265 = "log-level=none:pools=none:frame-threads=1:"
CLIPS: dict[str, tuple[str, str, dict[str, str]]] = {
    "closed groups": ("libx264", ".mp4", {"x264-params": "keyint=8:bframes=2"}),
    "open groups": ("libx264", ".mkv", {"x264-params": "keyint=8:bframes=3:open-gop=1"}),
    "pyramid": ("libx264", ".mov", {"x264-params": "keyint=16:bframes=7:b-pyramid=normal:ref=4"}),
    "intra refresh": ("libx264", ".mp4", {"x264-params": "keyint=10:intra-refresh=1"}),
    "interlaced": ("libx264", ".mp4", {"x264-params": "keyint=10:interlaced=1:bframes=2"}),
    "hevc": ("libx265", ".mp4", {"x265-params": X265 + "keyint=10:bframes=3:open-gop=0"}),
    "hevc open": ("libx265", ".mp4", {"x265-params": X265 + "keyint=9:bframes=4:open-gop=1"}),
    "hevc layers": (
        "libx265",
        ".mkv",
        {"x265-params": X265 + "keyint=12:bframes=4:b-pyramid=1:temporal-layers=2"},
    ),
    "av1": ("libsvtav1", ".mp4", {"preset": "12", "g": "9", "svtav1-params": "lp=1"}),
    "vp9": ("libvpx-vp9", ".webm", {"g": "9", "deadline": "realtime", "lag-in-frames": "8"}),
    "mpeg4": ("mpeg4", ".mp4", {"g": "8", "bf": "2"}),
    "jpeg": ("mjpeg", ".mkv", {}),
}
SAMPLINGS: list[dict[str, Any]] = [
    {"stride": 2},
    {"stride": 7},
    {"stride": 30},
    {"fps": 4.0},
    {"start": 21, "stride": 3},
    {"start_s": 0.7, "end": 40},
]
each_clip = pytest.mark.parametrize("name", CLIPS)


def written(
    path: Path, codec: str, options: dict[str, str], times: Iterable[int], seed: int = 0
) -> Path:
    """Write a scene that moves, cuts once in a while, and looks different in each frame."""
    if codec not in av.codecs_available:
        pytest.skip(f"this build of PyAV has no encoder {codec}")
    rng = np.random.default_rng(seed)
    pixels = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    with scheduling_restored(), av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, pixels
        stream.codec_context.time_base = Fraction(1, 1000)
        ground = rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
        for k, time_ms in enumerate(times):
            if rng.random() < 0.04:
                ground = rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
            image = np.roll(ground, 2 * k, axis=1)
            image[k % 32 : k % 32 + 12, 8:24] = 255 - 5 * k % 256
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format=pixels)
            frame.pts, frame.time_base = time_ms, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def even(count: int = COUNT) -> Iterable[int]:
    return range(0, 40 * count, 40)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")

    def made(name: str) -> Path:
        codec, suffix, options = CLIPS[name]
        path = folder / f"{name}{suffix}"
        return path if path.exists() else written(path, codec, options, even())

    return made


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="scheduling is Linux's")
def test_writing_a_clip_leaves_this_process_as_it_was_scheduled(clip) -> None:
    before = os.sched_getscheduler(0)
    clip("av1")
    assert os.sched_getscheduler(0) == before == os.SCHED_OTHER


Facts = list[tuple[int, int, float | None, int]]


def facts(frames: Iterable[Frame]) -> Facts:
    return [(f.index, f.source, f.time_s, hash(f.image.tobytes())) for f in frames]


def decoded_all(video: Video) -> Iterator[Frame]:
    """Iterate over a video without seeking."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_containers, "MIN_SKIPPED", math.inf)
        yield from video


@pytest.fixture(autouse=True, params=[-1, _containers.MIN_SKIPPED], ids=["always", "where it pays"])
def seeking(request, monkeypatch) -> None:
    """Seek where it pays, and past the smallest gap."""
    monkeypatch.setattr(_containers, "MIN_SKIPPED", request.param)


@pytest.fixture
def fed(monkeypatch) -> list[int]:
    """Count the packets that are decoded; refuse to decode all."""
    count = [0]
    stream_of = Container.stream

    class Counted:
        def __init__(self, stream: Any) -> None:
            self.inner = stream

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def decode(self, packet: Any) -> Any:
            count[0] += packet is not None
            return self.inner.decode(packet)

    class Unwrapping:
        def __init__(self, container: Any) -> None:
            self.inner = container

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def demux(self, stream: Any) -> Any:
            return self.inner.demux(stream.inner if isinstance(stream, Counted) else stream)

        def seek(self, to: int, stream: Any) -> None:
            self.inner.seek(to, stream=stream.inner if isinstance(stream, Counted) else stream)

    opened = Container.opened
    monkeypatch.setattr(Container, "stream", lambda *a: Counted(stream_of(*a)))
    monkeypatch.setattr(Container, "opened", lambda self: Unwrapping(opened(self)))
    monkeypatch.setattr(Container, "pictures", lambda *_: pytest.fail("all is decoded"))
    return count


@each_clip
def test_sampled_frames_are_those_of_a_pass_that_decodes_all(clip, name) -> None:
    path = clip(name)
    for sampling in SAMPLINGS:
        expected = facts(decoded_all(open_video(path, **sampling)))
        assert len(expected) > 1
        for threads in (1, None):
            video = open_video(path, threads=threads, **sampling)
            assert facts(video) == expected, sampling
            assert video.problems == []


@each_clip
def test_what_the_frames_do_not_need_is_not_decoded(clip, name, fed) -> None:
    (frame,) = open_video(clip(name), start=46, end=46)
    assert frame.source == 46
    assert 0 < fed[0] <= (47 if name in ("open groups", "intra refresh") else 24)


@each_clip
def test_a_whole_pass_decodes_each_packet_once(clip, name, fed) -> None:
    if _containers.MIN_SKIPPED > 0:
        assert len(list(open_video(clip(name), threads=1))) == COUNT == fed[0]


@each_clip
def test_single_frames_are_those_of_the_whole_pass(clip, name) -> None:
    video = open_video(clip(name))
    everything = facts(video)
    rng = random.Random(1)
    for count in (1, 2, 5, 30):
        indices = sorted(rng.sample(range(COUNT), count))
        assert facts(video.frames_at(indices)) == [everything[k] for k in indices]
    thinned = open_video(clip(name), start=3).thinned(4)
    expected = [(k, *everything[3 + 4 * k][1:]) for k in (2, 7)]
    assert facts(thinned.frames_at([7, 2, 2, 900])) == expected
    assert facts(video.frames_at([5, 40])) == [everything[5], everything[40]]


def test_frames_at_no_index_are_none_and_negative_ones_are_refused(clip) -> None:
    video = open_video(clip("jpeg"))
    assert list(video.frames_at([])) == []
    assert list(video.frames_at([COUNT, 1000])) == []
    with refused("no frame -1"):
        video.frames_at([3, -1])


def test_single_images_of_a_folder_are_those_of_the_pass(tmp_path) -> None:
    for k in range(6):
        Image.new("RGB", (8, 8), (k, 0, 0)).save(tmp_path / f"{k}.png")
    video = open_video(tmp_path)
    assert [frame.name for frame in video.frames_at([4, 1])] == ["1", "4"]


def remuxed(path: Path, target: Path, first: int = 0, shift: int = 0) -> Path:
    """Copy the packets from this one on, with earlier stamps."""
    with (
        av.open(str(path)) as source,
        av.open(str(target), "w", options={"avoid_negative_ts": "disabled"}) as copy,
    ):
        stream = copy.add_stream_from_template(source.streams.video[0])
        earlier = round(shift / 25 / source.streams.video[0].time_base)
        for packet in itertools.islice(source.demux(video=0), first, None):
            if packet.size:
                packet.pts, packet.dts = packet.pts - earlier, packet.dts - earlier
                packet.stream = stream
                copy.mux(packet)
    return target


@pytest.mark.parametrize("name", ["pyramid", "hevc", "hevc open"])
def test_frames_that_an_edit_list_hides_are_not_counted(clip, tmp_path, name) -> None:
    path = remuxed(clip(name), tmp_path / "edited.mp4", shift=5)  # stamps below 0 are edited away
    everything = facts(open_video(path))
    assert len(everything) == COUNT - 5
    for stride in (2, 9):
        sampled = open_video(path, stride=stride)
        assert [fact[1:] for fact in facts(sampled)] == [f[1:] for f in everything[::stride]]


class Pipe(io.BytesIO):
    """What cannot be sought, so that no index is written into it."""

    def seekable(self) -> bool:
        return False

    seek = None  # type: ignore[assignment]


@pytest.mark.parametrize("name", ["closed groups", "hevc open"])
def test_a_file_without_an_index_gives_the_same_frames(clip, tmp_path, name) -> None:
    pipe = Pipe()
    with av.open(str(clip(name))) as source, av.open(pipe, "w", format="matroska") as copy:
        stream = copy.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = stream
                copy.mux(packet)
    path = tmp_path / "piped.mkv"
    path.write_bytes(pipe.getvalue())
    everything = facts(decoded_all(open_video(path)))
    assert [f[1:] for f in facts(open_video(path, stride=9))] == [f[1:] for f in everything[::9]]
    assert facts(open_video(path).frames_at([3, 40])) == [everything[3], everything[40]]


@pytest.mark.parametrize("name", ["closed groups", "hevc open", "vp9", "av1"])
def test_times_at_a_variable_rate_choose_the_same_frames(tmp_path, name) -> None:
    codec, suffix, options = CLIPS[name]
    steps = np.random.default_rng(5).choice([10, 40, 170], COUNT)
    path = written(tmp_path / f"vfr{suffix}", codec, options, np.cumsum(steps).tolist())
    for sampling in ({"fps": 6.0}, {"fps": 0.7}, {"start_s": 1.0, "stride": 5}):
        expected = facts(decoded_all(open_video(path, **sampling)))
        assert facts(open_video(path, **sampling)) == expected


@pytest.mark.parametrize(
    ("codec", "suffix", "options"),
    [
        ("libx264", ".ts", {"x264-params": "keyint=8"}),
        ("mpeg4", ".avi", {"g": "8"}),
        ("libvpx", ".webm", {"auto-alt-ref": "1", "lag-in-frames": "8", "g": "8"}),
    ],
)
def test_where_packets_do_not_tell_everything_is_decoded(tmp_path, codec, suffix, options) -> None:
    path = written(tmp_path / f"clip{suffix}", codec, options, even())
    everything = facts(open_video(path))
    sampled = [fact[1:] for fact in facts(open_video(path, stride=7))]
    assert sampled == [fact[1:] for fact in everything[::7]]
    assert facts(open_video(path).frames_at([3, 30])) == [everything[3], everything[30]]


@pytest.mark.parametrize("name", ["closed groups", "hevc open"])
def test_a_file_that_begins_with_pictures_of_another_is_decoded_whole(clip, tmp_path, name) -> None:
    path = remuxed(clip(name), tmp_path / "joined.mkv", first=9)
    expected = facts(decoded_all(open_video(path, stride=3)))
    assert facts(open_video(path, stride=3)) == expected


@pytest.mark.parametrize("stored", [0, 5, 17, 23])
@pytest.mark.parametrize("name", ["closed groups", "pyramid", "hevc", "hevc open", "av1", "vp9"])
def test_damage_is_reported_as_by_a_pass_that_decodes_all(clip, tmp_path, name, stored) -> None:
    content = bytearray(clip(name).read_bytes())
    with av.open(str(clip(name))) as source:
        packets = [(p.pos, p.size) for p in source.demux(video=0) if p.size]
    at, size = packets[stored]
    content[at + 5 : at + size] = bytes(max(0, size - 5))
    path = tmp_path / f"damaged{clip(name).suffix}"
    path.write_bytes(content)
    for sampling in ({"stride": 4}, {"stride": 5}, {"stride": 13}, {"start": 22, "stride": 6}):
        whole, seeking = (open_video(path, threads=1, **sampling) for _ in range(2))
        assert facts(seeking) == facts(decoded_all(whole))
        assert seeking.problems == whole.problems
    everything = open_video(path)
    places = [(source, round(25 * (time_s or 0))) for _, source, time_s, _ in facts(everything)]
    assert all(source == place for source, place in places)
    assert len(places) + len(everything.problems) == COUNT


def stamps(path: Path) -> list[int | None]:
    with av.open(str(path), metadata_errors="replace") as container:
        return [packet.pts for packet in container.demux(video=0) if packet.size]


@pytest.mark.parametrize("name", ["closed groups", "open groups", "mpeg4", "vp9", "av1"])
def test_with_damaged_bytes_numbers_stay_and_what_is_lost_is_reported(clip, tmp_path, name) -> None:
    whole, known = clip(name).read_bytes(), stamps(clip(name))
    path = tmp_path / f"damaged{clip(name).suffix}"
    intact = 0
    for seed in range(EXAMPLES):
        rng, content = random.Random(seed), bytearray(whole)
        for _ in range(4):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(content)
        try:
            video = open_video(path)
            passed, problems = facts(video), video.problems
            single = facts(video.frames_at(rng.sample(range(COUNT), 6)))
            opened = open_frames(path)
        except InputError:
            continue
        times_s = opened.times_s
        if any((f[1], f[2]) not in {(g[1], g[2]) for g in passed} for f in single) or any(
            time_s is not None and times_s[number] != time_s for _, number, time_s, _ in passed
        ):
            assert problems, seed
        opened.close()
        if stamps(path) == known:  # the damage is in the pictures
            intact += 1
            assert all(number == round(25 * (time_s or 0)) for _, number, time_s, _ in passed), seed
            lost = [problem for problem in problems if "cannot be decoded" in problem]
            assert len(passed) + len(lost) == COUNT, seed
    assert intact > EXAMPLES / 3


@pytest.mark.parametrize("name", ["hevc", "hevc open"])
def test_stamps_in_disorder_are_no_damage(clip, tmp_path, name) -> None:
    path = tmp_path / "disordered.mp4"
    with av.open(str(clip(name))) as source, av.open(str(path), "w") as copy:
        stream = copy.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size:
                packet.pts, packet.stream = packet.dts, stream
                copy.mux(packet)
    video = open_video(path)
    everything = facts(video)
    assert (len(everything), video.problems) == (COUNT - 2, [])  # two lie before the edit list
    assert [f[1:] for f in facts(open_video(path, stride=5))] == [f[1:] for f in everything[::5]]


def test_a_truncated_file_says_so_when_it_is_sampled(clip, tmp_path) -> None:
    path = tmp_path / "cut.mkv"
    content = clip("open groups").read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])
    video = open_video(path, stride=4)
    frames = facts(video)
    assert frames == facts(decoded_all(open_video(path, stride=4)))
    assert any("truncated" in problem for problem in video.problems)
    with pytest.raises(InputError, match="truncated"):
        list(open_video(path, stride=4, errors="fail"))


def random_recipe(rng: random.Random) -> tuple[str, str, dict[str, str]]:
    keys, b = rng.choice([2, 5, 8, 12, 20, 50]), rng.choice([0, 1, 2, 3, 4])
    shared = f"keyint={keys}:min-keyint={rng.choice([1, keys])}:open-gop={rng.choice([0, 1])}"
    x264 = f"{shared}:bframes={b}:b-pyramid={rng.choice(['none', 'strict', 'normal'])}"
    x264 += f":ref={rng.choice([1, 3, 6])}:slices={rng.choice([1, 3])}"
    x265 = f"{X265}{shared}:bframes={b}:b-pyramid={rng.choice([0, 1])}"
    x265 += f":temporal-layers={rng.choice([0, 2])}"
    svt = f"lp=1:irefresh-type={rng.choice([1, 2])}"
    vp9 = {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": rng.choice(["0", "16"])}
    recipes: list[tuple[str, str, dict[str, str]]] = [
        ("libx264", rng.choice([".mp4", ".mkv", ".mov"]), {"x264-params": x264}),
        ("libx265", rng.choice([".mp4", ".mkv"]), {"preset": "ultrafast", "x265-params": x265}),
        ("libsvtav1", ".mp4", {"preset": "12", "g": str(keys), "svtav1-params": svt}),
        ("libvpx-vp9", ".webm", {"g": str(keys), **vp9}),
    ]
    return rng.choice([recipe for recipe in recipes if recipe[0] in av.codecs_available])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(60))
def test_any_frames_of_any_video_are_those_of_the_whole_pass(tmp_path, seed) -> None:
    rng = random.Random(seed)
    codec, suffix, options = random_recipe(rng)
    times = np.cumsum([rng.choice([40, 40, 90]) for _ in range(rng.choice([1, 4, 60]))]).tolist()
    if codec == "libx265" and len(times) < 5:  # with B-frames it gives few frames random stamps
        options["x265-params"] = re.sub(r"bframes=\d", "bframes=0", options["x265-params"])
    path = written(tmp_path / f"clip{suffix}", codec, options, times, seed)
    everything = facts(open_video(path))
    assert [fact[1] for fact in everything] == list(range(len(times)))
    for _ in range(6):
        threads, stride = rng.choice([1, 2, None]), rng.choice([1, 2, 3, 5, 13, 40])
        start = rng.randrange(len(times))
        sampled = facts(open_video(path, start=start, stride=stride, threads=threads))
        assert [fact[1:] for fact in sampled] == [f[1:] for f in everything[start::stride]]
        indices = sorted(rng.sample(range(len(times)), rng.randint(1, len(times))))
        chosen = facts(open_video(path, threads=threads).frames_at(indices))
        assert chosen == [everything[k] for k in indices]
