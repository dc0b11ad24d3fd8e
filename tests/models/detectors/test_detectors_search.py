"""find_objects: which frames are looked at, how boxes become instances, and what is said."""

from __future__ import annotations

import importlib.metadata
from itertools import pairwise

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import plugins
from dejacue.errors import Cancelled
from dejacue.models.detectors import Detection, find_objects, load_detector
from dejacue.models.detectors.base import check_names, merged
from dejacue.models.detectors.search import MAX_LOOKS, SearchPlan
from dejacue.video.video import Video, open_video, write_video

HEIGHT, WIDTH, RATE = 48, 80, 10
COLOURS = {"cup": (250, 20, 20), "jar": (20, 20, 250)}
BACKGROUNDS = ((200, 200, 190), (40, 60, 50), (180, 150, 60))


class ColourDetector:
    """Finds red cups and blue jars; the larger they are, the higher the score."""

    name, identity = "colours", "colours@1"
    details = {}  # noqa: RUF012

    def __init__(self, threshold: float = 0.3) -> None:
        self.threshold = threshold
        self.pictures: list[np.ndarray] = []

    def detect(self, picture, names):
        self.pictures.append(picture)
        detections = []
        for name in COLOURS.keys() & names:
            inside = (np.abs(picture.astype(int) - COLOURS[name]) < 70).all(axis=2)
            columns = np.flatnonzero(inside.any(axis=0))
            for part in np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1):
                if len(part):
                    rows = np.flatnonzero(inside[:, part].any(axis=1))
                    box = (part[0], rows[0], part[-1] + 1, rows[-1] + 1)
                    detections.append(Detection(box, min(1.0, len(part) / 20), name))
        return detections


def frame(background: int, *things: tuple[str, int, int]) -> np.ndarray:
    """A picture with things (name, left edge, width) in it."""
    image = np.full((HEIGHT, WIDTH, 3), BACKGROUNDS[background], np.uint8)
    for name, left, width in things:
        image[16:32, left : left + width] = COLOURS[name]
    return image


def search_in(path, names, detector, **options):
    names = (names,) if isinstance(names, str) else tuple(names)
    video = path if isinstance(path, Video) else open_video(path)
    return find_objects(video, names, detector, **options)


def saved(path, frames):
    return write_video(path, frames, RATE)


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    """Three shots of 20 frames: a cup that grows, nothing, a cup and a jar."""
    frames = [frame(0, ("cup", 10, 8 + at // 2)) for at in range(20)]
    frames += [frame(1)] * 20
    frames += [frame(2, ("cup", 10, 16), ("jar", 50, 12))] * 20
    return saved(tmp_path_factory.mktemp("film") / "film.mp4", frames)


def test_each_shot_has_its_instances_with_a_frame_and_a_box_to_start_from(film) -> None:
    search = search_in(film, ["cup", "jar"], ColourDetector())
    assert [tuple(shot) for shot in search.shots] == [(0, 19), (20, 39), (40, 59)]
    assert search.frames == 60
    instances = {(instance.shot, instance.name): instance for instance in search.instances}
    assert instances.keys() == {(0, "cup"), (2, "cup"), (2, "jar")}
    assert instances[2, "jar"].box == pytest.approx((50, 16, 62, 32), abs=2)
    scores = [instance.score for instance in search.instances]
    assert scores == sorted(scores, reverse=True)
    assert [instance.object for instance in search.instances] == [1, 2, 3]
    seed = instances[0, "cup"]
    assert seed.frame == max(look.frame for look in search.looks if look.shot == 0)  # the largest
    assert seed.time_s == pytest.approx(seed.frame / RATE)
    prompts = {prompt.object: prompt for prompt in search.prompts()}
    assert len(prompts) == 3
    assert (prompts[seed.object].frame, prompts[seed.object].box) == (seed.frame, seed.box)


def test_more_frames_are_looked_at_where_nothing_was_found(film) -> None:
    search = search_in(film, "cup", ColourDetector())
    looks = [sum(look.shot == shot for look in search.looks) for shot in range(3)]
    assert looks[0] == looks[2] == 3
    assert looks[1] == 9


def test_nothing_found_says_how_it_was_looked_for_and_what_to_try(film) -> None:
    search = search_in(film, "kettle", ColourDetector())
    assert search.instances == ()
    assert search.prompts() == []
    assert search.best is None
    for fact in ('"kettle"', f"{len(search.looks)} of 60 frames", "3 shots"):
        assert fact in search.summary
    assert "\n" not in search.summary


@pytest.mark.long
def test_what_is_below_the_threshold_is_named_but_not_found(film) -> None:
    search = search_in(film, "jar", ColourDetector(0.99))
    assert search.instances == ()
    look, detection = search.best
    assert look.shot == 2
    assert f"{detection.score:.2f} in {look.place}" in search.summary
    assert search_in(film, "jar", ColourDetector(0.1)).instances


def test_the_pictures_are_the_frames_of_the_video(film) -> None:
    detector = ColourDetector()
    video = open_video(film, stride=3)
    search = search_in(video, "kettle", detector)
    frames = {frame.index: frame for frame in video}
    rounds = sorted(map(bytes, detector.pictures))
    assert rounds == sorted(bytes(frames[look.frame].image) for look in search.looks)
    assert all(frames[look.frame].source == look.source for look in search.looks)


def test_pictures_of_a_turned_video_are_upright(tmp_path) -> None:
    import av

    path, turned = tmp_path / "flat.mp4", tmp_path / "turned.mp4"
    saved(path, [frame(0, ("cup", 10, 20))] * 12)
    with av.open(str(path)) as source, av.open(str(turned), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    data = bytearray(turned.read_bytes())
    at = data.index(b"tkhd") + 4 + 40  # the matrix of the track: turned by 90°
    one = (1 << 16).to_bytes(4, "big")
    minus = (-(1 << 16) % (1 << 32)).to_bytes(4, "big")
    zero = bytes(4)
    data[at : at + 20] = zero + one + zero + minus + zero
    turned.write_bytes(data)
    shape = next(iter(open_video(turned))).shape
    assert shape == (WIDTH, HEIGHT)
    search = search_in(turned, "cup", ColourDetector())
    (instance,) = search.instances
    x0, y0, x1, y1 = instance.box
    assert (x1 - x0, y1 - y0) == pytest.approx((16, 20), abs=2)


def test_a_folder_of_images_without_times_is_searched(tmp_path) -> None:
    from PIL import Image

    for at in range(12):
        Image.fromarray(frame(0, ("cup", 10 + at, 20))).save(tmp_path / f"{at:03}.png")
    (instance,) = search_in(tmp_path, "cup", ColourDetector()).instances
    assert instance.time_s is None
    assert instance.box == (10 + instance.frame, 16, 30 + instance.frame, 32)


def test_at_most_so_many_instances_are_kept_and_the_rest_are_counted(tmp_path) -> None:
    things = [("cup", 7 * at, 3 + at % 3) for at in range(11)]
    path = tmp_path / "many"
    path.mkdir()
    from PIL import Image

    Image.fromarray(frame(0, *things)).save(path / "0.png")
    search = search_in(path, "cup", ColourDetector(0.1))
    assert len(search.instances) == 8
    assert search.left_out == 3
    assert "3 more" in search.summary
    widths = [round(20 * instance.score) for instance in search.instances]
    assert widths == [5, 5, 5, 4, 4, 4, 4, 3]


def test_two_boxes_on_one_thing_are_one() -> None:
    detections = [
        Detection((0, 0, 100, 100), 0.6, "cup"),
        Detection((0, 0, 100, 72), 0.8, "mug"),  # overlap .72
        Detection((0, 0, 100, 51), 0.5, "lid"),  # .708 with the mug
        Detection((0, 0, 100, 50), 0.4, "rim"),  # .694 with the mug
        Detection((-50, 150, 500, 544), 0.3, "table"),
        Detection((300, 0, 400, 50), 0.9, "outside"),
        Detection((10, 10, 10.5, 90), 0.9, "thin"),
        Detection((float("nan"), 0, 9, 9), 0.9, "nan"),
    ]
    kept = merged(detections, (200, 200))
    assert [detection.name for detection in kept] == ["mug", "rim", "table"]
    assert kept[2].box == (0, 150, 200, 200)


def test_of_frames_that_are_about_as_good_the_one_that_shows_most_is_the_start(tmp_path) -> None:
    """The middle frame has the best score, the frame of the first sixth has two cups."""
    frames = [frame(0, ("cup", 10, 18), ("cup", 50, 18)) for _ in range(10)]
    frames += [frame(0, ("cup", 10, 19)) for _ in range(20)]
    search = search_in(saved(tmp_path / "two.mp4", frames), "cup", ColourDetector())
    assert len(search.instances) == 2
    assert {instance.frame for instance in search.instances} == {5}


# how many looks


def plan_looks(seconds: float, cuts=(), *, rate=30.0, found=lambda position: False, **options):
    """Return the positions that are looked at, round by round."""
    count = round(seconds * rate)
    times_s = [at / rate for at in range(count)]
    edges = [0, *(round(cut * rate) for cut in cuts), count]
    plan = SearchPlan(times_s, [(start, end - 1) for start, end in pairwise(edges)], **options)
    rounds = []
    while positions := plan.next_round():
        rounds.append(positions)
        for position in positions:
            if found(position):
                plan.mark_found(position)
    return rounds


@pytest.mark.long
def test_looks_at_three_hours_without_the_object_are_bounded() -> None:
    rounds = plan_looks(3 * 3600)
    positions = [position for several in rounds for position in several]
    assert len(positions) == len(set(positions)) == MAX_LOOKS
    gaps = np.diff([0, *sorted(positions), 3 * 3600 * 30])
    assert gaps.max() <= 60 * 30 + 1  # once a minute at least


def test_looks_at_a_film_of_many_shots_are_bounded_and_prefer_long_ones() -> None:
    cuts = [*np.arange(2, 1000, 2.0), *np.arange(1010, 3000, 20.0)]
    (positions,) = plan_looks(3000, cuts)
    assert len(positions) == MAX_LOOKS
    assert sum(position > 1000 * 30 for position in positions) >= 99


def test_a_long_shot_is_looked_at_once_a_minute_although_the_object_was_found() -> None:
    (positions,) = plan_looks(600, found=lambda position: True)
    assert len(positions) == 10


def test_looks_are_never_nearer_than_needed() -> None:
    positions = sorted(position for several in plan_looks(50) for position in several)
    assert 21 <= len(positions) <= 50
    assert np.diff(positions).min() >= 0.9 * 30


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_short_video_is_looked_at_in_each_frame_once(count) -> None:
    positions = [position for several in plan_looks(count, rate=1) for position in several]
    assert sorted(positions) == list(range(count))


def test_the_limit_of_looks_is_kept(film, monkeypatch) -> None:
    detector = ColourDetector()
    monkeypatch.setattr("dejacue.models.detectors.search.MAX_LOOKS", 2)
    search = search_in(film, "kettle", detector)
    assert len(search.looks) == len(detector.pictures) == 2
    assert "2 of 60 frames in 2 shots of 3" in search.summary


# input


@pytest.mark.parametrize(
    ("names", "fact"),
    [
        ((), "no name"),
        ("", 'name ""'),
        ([" "], 'name ""'),
        ("42", "42"),
        ("?.", "?."),
        (["x" * 10_000], 10_000),
        ([f"cup {at}" for at in range(50)], "50 names"),
    ],
)
def test_names_are_checked(names, fact) -> None:
    with refused(fact):
        check_names(names)


def test_an_example_needs_a_detector_that_takes_one(film) -> None:
    with refused("colours"):
        search_in(film, (), ColourDetector(), example=frame(0))


def test_an_example_is_looked_for_with_a_threshold_of_its_own(film) -> None:
    class Guided(ColourDetector):
        example_threshold = 0.7

        def detect_like(self, picture, example):
            names = [name for name, colour in COLOURS.items() if (example == colour).all()]
            detections = self.detect(picture, names)
            return [Detection(detection.box, detection.score, "") for detection in detections]

    example = np.full((9, 9, 3), COLOURS["cup"], np.uint8)
    search = search_in(film, (), Guided(), example=example)
    assert search.threshold == 0.7
    assert {instance.shot for instance in search.instances} == {0, 2}
    assert "example" in search.summary


def test_a_search_can_be_stopped(film) -> None:
    def stop(stage, done, total=None, note=""):
        if stage == "look for the object":
            raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        search_in(film, "cup", ColourDetector(), progress=stop)


def test_a_detector_of_another_package_is_loaded_by_its_name(monkeypatch, film) -> None:
    entry = importlib.metadata.EntryPoint("colours", f"{__name__}:make", "dejacue.detectors")
    wrong = importlib.metadata.EntryPoint("wrong", f"{__name__}:make_wrong", "dejacue.detectors")
    monkeypatch.setattr(plugins, "entry_points", lambda group: {"colours": entry, "wrong": wrong})
    assert isinstance(load_detector("colours"), ColourDetector)
    assert search_in(film, "cup", load_detector("colours")).detector == "colours@1"
    with refused("wrong"):
        load_detector("wrong")


def make(device=None):
    return ColourDetector()


def make_wrong(device=None):
    return object()


def test_an_unknown_detector_is_refused_with_those_that_are_known() -> None:
    with refused("detector", "lmdet", '"llmdet"'):
        load_detector("lmdet")
