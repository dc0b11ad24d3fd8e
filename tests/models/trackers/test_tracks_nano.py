"""Following boxes with NanoTrack in OpenCV, with the real weights."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import Prompt, load_tracker, open_masks, open_video
from dejacue.errors import MissingData, MissingExtra, extra
from dejacue.files import read_history
from dejacue.finding.locate import locate_object
from dejacue.masks import RegionMasks
from dejacue.models.catalogue import model_named
from dejacue.models.trackers import nano, propagate, read_notes, track
from dejacue.models.trackers.base import bounding_box
from dejacue.models.trackers.follow import follow
from dejacue.video.video import write_video

cv2 = pytest.importorskip("cv2")

ROOT = Path(__file__).resolve().parents[3]
HEIGHT, WIDTH, SIDE, FRAMES = 180, 240, 40, 24
RNG = np.random.default_rng(3)
SCENE = RNG.integers(90, 130, (HEIGHT // 6, WIDTH // 6, 3)).repeat(6, axis=0).repeat(6, axis=1)
CUP = RNG.integers(0, 256, (SIDE // 8, SIDE // 8, 3)).repeat(8, axis=0).repeat(8, axis=1)


@pytest.fixture(scope="session")
def weights() -> Path:
    """The folder DEJACUE_NANO; without it, tests are skipped (or fail where data is required)."""
    folder = Path(os.environ.get("DEJACUE_NANO") or "nowhere").resolve()
    if not all((folder / name).is_file() for name in nano.WEIGHTS.files):
        message = "the weights of NanoTrack are not here; set DEJACUE_NANO to their folder"
        if os.environ.get("DEJACUE_REQUIRE_DATA"):
            pytest.fail(message)
        pytest.skip(message)
    return folder


def copied(weights: Path, folder: Path) -> Path:
    """Copy the files into a new folder; they may be read-only where they lie."""
    folder.mkdir(parents=True)
    for name in nano.WEIGHTS.files:
        shutil.copyfile(weights / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def tracker(weights):
    return load_tracker(f"nano:{weights}")


@pytest.fixture
def published(weights, tmp_path, monkeypatch) -> None:
    """Put the weights where a download would put them."""
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(tmp_path / "weights"))
    copied(weights, tmp_path / "weights" / nano.WEIGHTS.repository)


def place(at: int) -> tuple[int, int, int, int]:
    x, y = 20 + 6 * at, 40 + 2 * at
    return x, y, x + SIDE, y + SIDE


def picture(at: int, cup: bool = True) -> np.ndarray:
    image = SCENE.astype(np.uint8)
    image[10:50, 180:220] = CUP[::-1]  # another one, which stays
    x0, y0, x1, y1 = place(at)
    if cup:
        image[y0:y1, x0:x1] = CUP
    return image


@pytest.fixture(scope="session")
def film(tmp_path_factory) -> Path:
    """A cup that moves to the lower right."""
    path = tmp_path_factory.mktemp("film") / "cup.mp4"
    return write_video(path, map(picture, range(FRAMES)), 10)


def overlap(mask: np.ndarray, box: tuple[int, ...]) -> float:
    true = np.zeros_like(mask)
    true[box[1] : box[3], box[0] : box[2]] = True
    return float((mask & true).sum() / (mask | true).sum())


def box(at: int) -> tuple[float, ...]:
    return tuple(map(float, place(at)))


def test_a_box_is_followed_forward_and_backward(film, tracker) -> None:
    tracked = list(track(film, Prompt(frame=12, box=box(12)), tracker))
    assert len(tracked) == FRAMES
    assert min(overlap(frame.objects[1].mask, place(frame.frame.index)) for frame in tracked) > 0.6
    for frame in tracked:
        x0, y0, x1, y1 = bounding_box(frame.objects[1].mask)
        assert frame.objects[1].mask.sum() == (x1 - x0) * (y1 - y0)  # it is a box


@pytest.mark.parametrize("sampling", [{"stride": 6}, {"fps": 2}, {"start": 3, "stride": 7}])
def test_frames_between_sampled_ones_are_seen_too(film, tracker, sampling, monkeypatch) -> None:
    pictures = []
    real = nano.NanoSession.step
    monkeypatch.setattr(
        nano.NanoSession,
        "step",
        lambda self, image, prompts=(): pictures.append(image) or real(self, image, prompts),
    )
    sampled = open_video(film, **sampling)
    sources = [frame.source for frame in sampled]
    middle = len(sources) // 2
    prompt = Prompt(source=sources[middle], box=box(sources[middle]))
    tracked = list(track(sampled, prompt, tracker))
    assert [(frame.frame.index, frame.frame.source) for frame in tracked] == list(
        enumerate(sources)
    )
    for frame in tracked:
        assert overlap(frame.objects[1].mask, place(frame.frame.source)) > 0.6
    back = sources[middle] - sources[0] + 1
    assert len(pictures) == back + FRAMES - sources[middle]


def test_further_boxes_restart_it_and_objects_are_apart(film, tracker) -> None:
    still = (180.0, 10.0, 220.0, 50.0)
    prompts = [Prompt(0, 2, box=still), Prompt(0, 1, box=(60, 100, 100, 140))]
    prompts.append(Prompt(10, 1, box=box(10)))
    tracked = list(track(film, prompts, tracker, presence=0.0))
    assert overlap(tracked[9].objects[1].mask, place(9)) < 0.3
    assert overlap(tracked[10].objects[1].mask, place(10)) == 1.0
    assert overlap(tracked[20].objects[1].mask, place(20)) > 0.6
    assert overlap(tracked[23].objects[2].mask, tuple(map(int, still))) > 0.5


def test_where_the_score_is_low_it_is_not_seen_and_a_doubt_names_the_frames(
    tracker, tmp_path
) -> None:
    noise = RNG.integers(0, 255, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    frames = [picture(at) if not 8 <= at < 14 else noise for at in range(FRAMES)]
    video = open_video(write_video(tmp_path / "gone.mp4", frames, 10))
    notes = follow(video, [Prompt(box=box(0))], tmp_path / "masks", tracker=tracker)
    lost = [doubt for _, doubt in notes.doubts_of() if doubt.kind == "lost"]
    assert (lost[0].first, lost[0].last >= 12) == (8, True)
    assert max(notes.objects[1].presence[8:13]) < 0.5
    assert min(notes.objects[1].presence[:8]) > 0.5


def test_the_note_says_that_it_is_a_box(film, tracker, tmp_path) -> None:
    notes = follow(open_video(film), [Prompt(box=box(0))], tmp_path / "masks.npz", tracker=tracker)
    assert any("followed as a box" in problem for problem in notes.problems)
    assert notes.details["opencv"] == cv2.__version__
    assert set(nano.WEIGHTS.files.values()) <= set(notes.details.values())


# Bad input


@pytest.mark.parametrize(
    ("prompt", "facts"),
    [
        (Prompt(box=(10, 10, 11, 11)), ("1 × 1 pixels", "draw a larger box")),
        (Prompt(box=(10, 10, 60, 15)), ("50 × 5 pixels",)),
        (Prompt(box=(500, 500, 560, 560)), ("outside the picture of 240 × 180",)),
        (Prompt(points=((30, 60, True),)), ("a box or a mask is needed, not clicks",)),
    ],
)
def test_what_it_cannot_follow_is_refused(film, tracker, prompt, facts) -> None:
    with refused(film, *facts):
        list(track(film, prompt, tracker))


def test_a_video_of_one_pixel_is_refused(tracker, tmp_path) -> None:
    from PIL import Image

    for at in range(3):
        Image.new("RGB", (1, 1)).save(tmp_path / f"{at}.png")
    with refused(tmp_path, "1 × 1 pixels"):
        list(track(tmp_path, Prompt(box=(0, 0, 1, 1)), tracker))


def test_frames_that_change_their_size_are_followed(tracker) -> None:
    session = tracker.session()
    session.step(picture(0), [Prompt(box=box(0))])
    for shape in ((1, 1), (30, 30), (400, 700)):
        seen = session.step(np.zeros((*shape, 3), np.uint8))[1]
        assert seen.mask.shape == shape
        assert 0 <= seen.presence < 0.5


def test_wrong_or_damaged_files_are_refused(weights, tmp_path) -> None:
    backbone, head = nano.WEIGHTS.files
    with refused(tmp_path / backbone, kind=MissingData):
        load_tracker(f"nano:{tmp_path}")
    for name, data in (
        (backbone, (weights / backbone).read_bytes()[:5000]),
        (backbone, (weights / head).read_bytes()),
        (head, b""),
    ):
        folder = copied(weights, tmp_path / "damaged")
        (folder / name).write_bytes(data)
        with refused(folder / name, "sha256"):
            load_tracker(f"nano:{folder}")
        shutil.rmtree(folder)


def test_opencv_without_the_tracker_or_none_is_refused(weights, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", SimpleNamespace(__version__="4.5.1"))
    with refused("OpenCV 4.5.1 has no TrackerNano"):
        load_tracker(f"nano:{weights}")
    monkeypatch.setitem(sys.modules, "cv2", None)
    with refused(extra("nano"), kind=MissingExtra):
        load_tracker(f"nano:{weights}")


def test_the_weights_are_known_by_name(published, weights) -> None:
    model = model_named("nano")
    assert (model.state, model.kind, model.needs) == ("ready", "tracker", "nano")
    assert sum((weights / name).stat().st_size for name in nano.WEIGHTS.files) == nano.BYTES
    (line,) = model.to_dict()["download"]
    assert f"https://{nano.WEIGHTS.repository}/{nano.WEIGHTS.revision}/" in line


# find


@pytest.fixture
def without_torch(monkeypatch) -> None:
    real = propagate.importlib.util.find_spec
    monkeypatch.setattr(
        propagate.importlib.util,
        "find_spec",
        lambda name, *more: None if name in ("torch", "timm") else real(name, *more),
    )


def test_without_torch_a_box_is_followed_by_nano(film, published, without_torch, tmp_path) -> None:
    masks = locate_object(film, box=box(0), folder=tmp_path / "out")
    assert masks.tracker == "nano"
    notes = read_notes(masks.path)
    assert notes is not None
    assert notes.objects[1].seen == FRAMES


def test_without_its_weights_the_box_stays_and_a_warning_says_what_would_follow_it(
    film, without_torch, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(tmp_path / "none"))
    masks = locate_object(film, box=box(0))
    assert isinstance(masks, RegionMasks)
    assert locate_object(film, box=box(0), fixed=True).tracker == masks.tracker
    (warning,) = (note for note in masks.notes if note.severity == "doubtful")
    assert "nano would follow it as a box" in warning
    assert "1.8 MB" in warning


def test_find_follows_a_box_on_a_laptop(film, weights, dejacue, tmp_path) -> None:
    edges = ",".join(str(side) for side in place(0))
    words = ["find", film, "--box", edges, "--tracker", f"nano:{weights}", "--encoder", "lite"]
    words += ["--example", "left=0", "--example", "right=23", "-o", tmp_path / "out"]
    ran = dejacue(*words)
    assert ran.code == 0, ran.err
    assert "followed as a box" in ran.err + ran.out
    for name in ("report.html", "timeline.json", "finding.json"):
        assert "followed as a box" in (tmp_path / "out" / name).read_text(encoding="utf-8")
    history = read_history(tmp_path / "out" / "cup.history.npz")
    assert len(history) == FRAMES
    path = tmp_path / "out" / "masks"
    masks = open_masks(path, match=read_notes(path).match)
    for frame in open_video(film):
        assert overlap(masks.unions(frame, [None])[0], place(frame.index)) > 0.6


def test_real_footage_is_followed_better_than_by_a_box_that_stays(footage, tracker) -> None:
    folder = footage / "JPEGImages" / "3316_peel_onion"
    video, masks = open_video(folder, start=1), open_masks(footage / "Annotations" / folder.name)
    true = [bounding_box(masks.unions(frame, [None])[0]) for frame in video]
    centred = {"nano": 0, "still": 0}
    for tracked in track(video, Prompt(box=tuple(map(float, true[0]))), tracker, presence=0.0):
        x0, y0, x1, y1 = true[tracked.frame.index]
        boxes = {"nano": bounding_box(tracked.objects[1].mask), "still": true[0]}
        for name, edges in boxes.items():
            x, y = (edges[0] + edges[2]) / 2, (edges[1] + edges[3]) / 2
            centred[name] += x0 <= x < x1 and y0 <= y < y1
    assert centred["nano"] > 0.8 * len(true) > 0.2 * len(true) > centred["still"]
