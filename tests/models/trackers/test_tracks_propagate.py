"""Following objects with a tracker that is always right: order, both directions, what is kept."""

from __future__ import annotations

import errno
import json
import shutil

import numpy as np
import pytest
from helpers.colour_tracker import FRAMES, GONE, HEIGHT, WIDTH, Colour, box, picture, truth
from helpers.errors import refused
from helpers.still_tracker import Still
from PIL import Image

from dejacue.errors import Cancelled
from dejacue.masks import open_masks
from dejacue.models.trackers import Prompt, TrackerOptions, match_of, propagate, read_notes, track
from dejacue.models.trackers.base import Observation
from dejacue.models.trackers.doubts import KINDS
from dejacue.models.trackers.follow import follow
from dejacue.models.trackers.propagate import reversed_frames
from dejacue.progress import silent
from dejacue.records import Note
from dejacue.video.video import Video, open_video


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moving") / "frames"
    folder.mkdir()
    for at in range(FRAMES):
        Image.fromarray(picture(at)).save(folder / f"f{at:03d}.png")
    return folder


def write(path, folder, prompts, tracker=None, progress=silent, **options):
    """Follow the objects in a folder of pictures, or in a video."""
    video = folder if isinstance(folder, Video) else open_video(folder)
    tracker = tracker or Colour()
    options = TrackerOptions(**options)
    return follow(video, prompts, path, tracker=tracker, options=options, progress=progress)


def masks_in(path, ids, folder=None) -> dict[int, list[np.ndarray]]:
    """Return the masks of each object, frame by frame."""
    opened = open_masks(path, match=read_notes(path).match)
    blank = np.zeros((HEIGHT, WIDTH), bool)
    masks = {id: [] for id in ids}
    for frame in open_video(folder):
        unions = opened.unions(frame, [frozenset([id]) for id in ids])
        for id, mask in zip(ids, unions, strict=True):
            masks[id].append(blank if mask is None else mask)
    return masks


def test_every_frame_comes_in_order_with_its_masks(folder) -> None:
    prompts = [Prompt(0, 1, box=box(1, 0)), Prompt(0, 2, points=((54, 20, True),))]
    results = list(track(folder, prompts, Colour()))
    assert [tracked.frame.index for tracked in results] == list(range(FRAMES))
    for at, tracked in enumerate(results):
        assert (tracked.objects[1].mask == truth(1, at)).all()
        assert (tracked.objects[2].mask == truth(2, at)).all()


def test_an_object_shown_late_is_also_followed_back(folder) -> None:
    prompts = [Prompt(0, 1, box=box(1, 0)), Prompt(15, 2, mask=truth(2, 15))]
    tracker = Colour()
    results = list(track(folder, prompts, tracker))
    for at, tracked in enumerate(results):
        assert list(tracked.objects) == [1, 2]
        assert (tracked.objects[2].mask == truth(2, at)).all()
    assert len(tracker.sessions) == 2
    assert tracker.sessions[0].count == 16  # back over frames 15 … 0
    assert list(tracker.sessions[0].colours) == [2]  # object 1 has nothing before its first frame
    # before its prompt from the backward pass (the first of which is frame 15), then forward
    assert results[14].objects[2].presence == pytest.approx(0.9 + 2 / 1000)
    assert results[15].objects[2].presence == pytest.approx(0.9 + 16 / 1000)


def test_without_backward_an_object_is_not_known_before_its_prompt(folder) -> None:
    tracker = Colour()
    prompt = Prompt(8, 3, box=box(3, 8))
    results = list(track(folder, prompt, tracker, backward=False))
    assert [bool(tracked.objects) for tracked in results] == [at >= 8 for at in range(FRAMES)]
    assert tracker.steps == FRAMES - 8


def test_an_object_that_the_tracker_is_not_sure_of_is_not_seen(folder) -> None:
    results = track(folder, Prompt(0, 1, box=box(1, 0)), Colour())
    seen = [tracked.objects[1] for tracked in results]
    assert [not object.mask.any() for object in seen] == [at in GONE for at in range(FRAMES)]
    assert seen[11].presence == 0.1
    strict = track(folder, Prompt(0, 1, box=box(1, 0)), Colour(), presence=0.95)
    assert not any(tracked.objects[1].mask.any() for tracked in strict)  # 0.9 is not enough
    enough = next(iter(track(folder, Prompt(0, 1, box=box(1, 0)), Colour(), presence=0.901)))
    assert enough.objects[1].presence == 0.901
    assert enough.objects[1].mask.any()  # as sure as is asked for
    with refused("presence", 2):
        track(folder, Prompt(0, 1, box=box(1, 0)), Colour(), presence=2)


def test_a_sampled_video_is_followed_in_its_samples(folder) -> None:
    video = open_video(folder, start=3, stride=4)
    results = list(track(video, Prompt(2, 2, box=box(2, 11)), Colour()))
    assert [tracked.frame.source for tracked in results] == [3, 7, 11, 15, 19, 23]
    for tracked in results:
        assert (tracked.objects[2].mask == truth(2, tracked.frame.source)).all()


def test_progress_reports_every_step(folder) -> None:
    steps = []
    prompt = Prompt(5, 1, box=box(1, 5))
    for _ in track(folder, prompt, Colour(), progress=lambda *step: steps.append(step)):
        pass
    assert [step[:3] for step in steps] == (
        [("follow backward", done, 6) for done in range(1, 7)]
        + [("follow", done, FRAMES) for done in range(1, FRAMES + 1)]
    )
    assert steps[0][3] == "area 2.7 %"  # 8 × 8 of 60 × 40 pixels
    assert steps[6][3:] == ("",)  # before its prompt, the tracker does nothing


def test_progress_says_which_frames_are_doubtful(folder, tmp_path) -> None:
    doubtful = []

    def progress(stage, done, total=None, note="") -> None:
        if stage == "follow" and isinstance(note, Note) and note.severity == "doubtful":
            doubtful.append((done - 1, str(note)))

    prompts = [Prompt(0, 1, box=box(1, 0))]
    notes = write(tmp_path / "masks", folder, prompts, progress=progress)
    (lost, back) = notes.objects[1].doubts
    assert doubtful == [
        *((frame, KINDS["lost"]) for frame in GONE),
        (back.first, KINDS["back"]),
    ]
    assert (lost.first, lost.last) == (GONE[0], GONE[-1])


def test_prompts_are_refused_before_a_step(folder) -> None:
    tracker = Colour()
    with refused(folder, "frame", 99):
        track(folder, Prompt(99, 1, box=(1, 1, 5, 5)), tracker)
    assert tracker.steps == 0


# Backward


@pytest.mark.parametrize("stretch", [1, 3, 100])  # frames
def test_frames_come_back_in_reverse(folder, stretch, monkeypatch) -> None:
    monkeypatch.setattr(propagate, "STRETCH_BYTES", stretch * 3 * HEIGHT * WIDTH)
    frames = list(open_video(folder))
    back = list(reversed_frames(open_video(folder), 19, 4))
    assert [frame.index for frame in back] == list(range(19, 3, -1))
    for frame in back:
        first = frames[frame.index]
        assert (frame.source, frame.name, frame.time_s) == (first.source, first.name, first.time_s)
        assert (frame.image == first.image).all()


def test_frames_that_cannot_be_decoded_are_left_out_backwards_too(folder, tmp_path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    for at in (9, 4, 0):
        (broken / f"f{at:03d}.png").write_bytes(b"no picture")
    back = reversed_frames(open_video(broken), 9)
    assert [frame.index for frame in back] == [8, 7, 6, 5, 3, 2, 1]


# Files


@pytest.mark.parametrize("name", ["masks", "masks.npz", "masks.json"])
def test_masks_are_written_as_they_were_seen(folder, tmp_path, name) -> None:
    prompts = [Prompt(0, 1, box=box(1, 0)), Prompt(15, 2, box=box(2, 15))]
    notes = write(tmp_path / name, folder, prompts)
    masks = masks_in(tmp_path / name, [1, 2], folder)
    for at in range(FRAMES):
        assert (masks[1][at] == truth(1, at)).all()
        assert (masks[2][at] == truth(2, at)).all()
    assert notes.objects[1].seen == FRAMES - len(GONE)
    assert notes.objects[1].presence[11] == 0.1
    left = {path.name for path in tmp_path.iterdir()}
    assert left == ({"masks"} if name == "masks" else {name, f"{name}.track.json"})


def test_masks_have_the_names_of_images_and_the_numbers_of_frames(folder, tmp_path) -> None:
    write(tmp_path / "masks", folder, [Prompt(0, 1, box=box(1, 0))])
    names = sorted(path.name for path in (tmp_path / "masks").glob("*.png"))
    assert names == [f"f{at:03d}.png" for at in range(FRAMES)]
    assert read_notes(tmp_path / "masks").match == "stem"


def test_notes_say_what_was_done(folder, tmp_path) -> None:
    clicks = ((5, 5, True), (50, 2, False))
    prompts = [Prompt(0, 1, points=clicks), Prompt(9, 2, mask=truth(2, 9), piece_of=1)]
    write(tmp_path / "masks", open_video(folder, rate=10), prompts, presence=0.4)
    notes = read_notes(tmp_path / "masks")
    assert (notes.tracker, notes.details) == ("colour", Colour().details)
    assert (notes.video, notes.presence) == ("frames", 0.4)
    assert notes.groups == {1: (1, 2)}
    clicked, mask = notes.prompts
    assert (clicked.object, clicked.source, clicked.points) == (1, 0, clicks)
    assert (mask.object, mask.source) == (2, 9)
    assert (mask.mask == truth(2, 9)).all()
    assert notes.time_s(12) == pytest.approx(1.2)
    lost, back = notes.objects[1].doubts
    assert (lost.kind, lost.first, lost.last) == ("lost", 10, 12)
    assert (back.kind, back.first) == ("back", 13)
    assert notes.presence_of([1])[11] == 0.1
    assert notes.presence_of([1, 2])[11] > 0.9
    assert [id for id, _ in notes.doubts_of()] == [1, 1]


def test_what_is_up_to_date_is_not_made_again(folder, tmp_path) -> None:
    prompts = [Prompt(0, 1, box=box(1, 0))]
    write(tmp_path / "masks", folder, prompts)
    tracker = Colour()
    write(tmp_path / "masks", folder, prompts, tracker)
    assert tracker.steps == 0
    for video, box_now, presence in (
        (folder, (1, 4, 10, 12), 0.5),
        (folder, box(1, 0), 0.3),
        (open_video(folder, end=9), box(1, 0), 0.5),
    ):
        before = tracker.steps
        changed = [Prompt(0, 1, box=box_now)]
        write(tmp_path / "masks", video, changed, tracker, presence=presence)
        assert tracker.steps > before


@pytest.mark.parametrize("name", ["masks", "masks.json"])
def test_only_an_added_object_is_followed(folder, tmp_path, name) -> None:
    first = [Prompt(0, 1, box=box(1, 0))]
    write(tmp_path / name, folder, first)
    tracker = Colour()
    both = [*first, Prompt(8, 3, box=box(3, 8), piece_of=1)]
    notes = write(tmp_path / name, folder, both, tracker)
    assert all(list(session.colours) == [3] for session in tracker.sessions)
    assert notes.groups == {1: (1, 3)}
    assert [prompt.object for prompt in notes.prompts] == [1, 3]
    masks = masks_in(tmp_path / name, [1, 3], folder)
    for at in range(FRAMES):
        assert (masks[1][at] == truth(1, at)).all()
        assert (masks[3][at] == truth(3, at)).all()


class UnsureOfTwo(Colour):
    """Never sees object 2."""

    def session(self):
        session = super().session()
        step = session.step

        def unsure(image, prompts=()):
            seen = step(image, prompts)
            return seen | ({2: Observation(seen[2].mask, 0.0)} if 2 in seen else {})

        session.step = unsure
        return session


@pytest.mark.parametrize("name", ["masks", "masks.npz", "masks.json"])
def test_an_object_that_was_never_seen_is_not_followed_again(folder, tmp_path, name) -> None:
    first = [Prompt(0, 1, box=box(1, 0)), Prompt(0, 2, box=box(2, 0))]
    notes = write(tmp_path / name, folder, first, UnsureOfTwo())
    assert (notes.objects[1].seen > 0, notes.objects[2].seen) == (True, 0)
    tracker = UnsureOfTwo()
    notes = write(tmp_path / name, folder, [*first, Prompt(8, 3, box=box(3, 8))], tracker)
    assert {id for session in tracker.sessions for id in session.colours} == {3}
    assert notes.objects[2].seen == 0
    assert notes.objects[3].seen > 0
    assert open_masks(tmp_path / name).ids() == (1, 3)


def test_an_object_that_is_left_out_is_removed_without_following(folder, tmp_path) -> None:
    prompts = [Prompt(0, 1, box=box(1, 0)), Prompt(0, 2, box=box(2, 0))]
    write(tmp_path / "masks", folder, prompts)
    tracker = Colour()
    notes = write(tmp_path / "masks", folder, prompts[1:], tracker)
    assert tracker.steps == 0
    assert list(notes.objects) == [2]
    assert [prompt.object for prompt in notes.prompts] == [2]
    assert open_masks(tmp_path / "masks").ids() == (2,)


@pytest.mark.parametrize("stop", [3, 17, 39])  # 16 steps back, then all frames
def test_a_stopped_run_leaves_nothing_and_starts_again(folder, tmp_path, stop) -> None:
    prompts = [Prompt(0, 1, box=box(1, 0)), Prompt(15, 2, box=box(2, 15))]
    with pytest.raises(Cancelled, match="nothing is kept"):
        write(tmp_path / "masks", folder, prompts, Colour(stop))
    assert list(tmp_path.iterdir()) == []
    tracker = Colour()
    write(tmp_path / "masks", folder, prompts, tracker)
    assert tracker.steps == FRAMES + 16


@pytest.mark.parametrize("error", [Cancelled, KeyboardInterrupt])
@pytest.mark.parametrize(("stage", "at"), [("follow backward", 7), ("follow", 1), ("follow", 19)])
def test_progress_may_stop_the_run(folder, tmp_path, stage, at, error) -> None:
    prompts = [Prompt(0, 1, box=box(1, 0)), Prompt(15, 2, box=box(2, 15))]

    def stop(now: str, done: int, total: int | None = None, note: str = "") -> None:
        if (now, done) == (stage, at):
            raise error

    with pytest.raises(Cancelled, match="stopped"):
        write(tmp_path / "masks", folder, prompts, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_whoever_iterates_gets_what_progress_raises(folder) -> None:
    def stop(*_: object) -> None:
        raise Cancelled("enough")

    frames = track(folder, Prompt(0, 1, box=box(1, 0)), Colour(), progress=stop)
    next(frames)
    with pytest.raises(Cancelled, match="enough"):
        next(frames)


@pytest.mark.parametrize("name", ["masks", "masks.npz"])
def test_a_failure_in_writing_leaves_the_old_masks(folder, tmp_path, monkeypatch, name) -> None:
    write(tmp_path / name, folder, [Prompt(0, 1, box=box(1, 0))])
    before = sorted(path.name for path in tmp_path.rglob("*"))

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("dejacue.models.trackers.follow.write_notes", fail)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / name, folder, [Prompt(0, 2, box=box(2, 0))])
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    assert list(read_notes(tmp_path / name).objects) == [1]
    assert masks_in(tmp_path / name, [1], folder)[1][0].any()


def test_what_others_have_written_is_not_replaced(folder, tmp_path) -> None:
    tracker = Colour()

    def refused_at(path) -> None:
        with refused(path):
            write(path, folder, [Prompt(0, 1, box=box(1, 0))], tracker)

    for name, content in (("pictures", "00000.png"), ("texts", "diary.txt")):
        (tmp_path / name).mkdir()
        (tmp_path / name / content).write_bytes(b"mine")
        refused_at(tmp_path / name)
    (tmp_path / "pictures" / "track.json").write_text('{"tracks": []}')  # of another tool
    refused_at(tmp_path / "pictures")
    for name in ("mine.json", "mine.npz"):
        (tmp_path / name).write_bytes(b"mine")
        refused_at(tmp_path / name)
        assert (tmp_path / name).read_bytes() == b"mine"
    for path in (tmp_path / "masks.mp4", ".", "..", "/"):
        refused_at(path)
    assert tracker.steps == 0


def test_nothing_is_written_where_nothing_is_seen(folder, tmp_path) -> None:
    with refused(folder, "the object is not seen in any frame"):
        write(tmp_path / "masks", folder, [Prompt(0, 1, box=box(1, 0))], presence=1.0)
    assert not (tmp_path / "masks").exists()


def test_damaged_notes_are_named(folder, tmp_path) -> None:
    write(tmp_path / "masks", folder, [Prompt(0, 1, box=box(1, 0))])
    path = tmp_path / "masks" / "track.json"
    document = json.loads(path.read_text())
    for key, value in (
        ("schema", "dejacue.track/9"),
        ("frames", [0, "x"]),
        ("match", "guess"),
        ("objects", {"1": {}}),
        ("prompts", [{"object": 1, "frame": 0, "box": [1, 2]}]),
        ("prompts", [{"object": 1, "frame": 0, "mask": {"size": [2, 2], "counts": "??"}}]),
        ("times_s", 5),
        ("presence", 2),
        ("strange", 1),
    ):
        path.write_text(json.dumps({**document, key: value}))
        with refused(path):
            read_notes(tmp_path / "masks")
    path.write_text(json.dumps(document)[:-3])
    with refused(path):
        read_notes(tmp_path / "masks")
    assert read_notes(tmp_path) is None


@pytest.mark.parametrize("content", ['{"tracks": []}', "[1, 2]", "not JSON", ""])
def test_notes_of_other_tools_are_none(folder, tmp_path, content) -> None:
    write(tmp_path / "masks", folder, [Prompt(0, 1, box=box(1, 0))])
    assert match_of(tmp_path / "masks") == "stem"
    (tmp_path / "masks" / "track.json").write_text(content)
    assert read_notes(tmp_path / "masks") is None
    assert match_of(tmp_path / "masks") is None


def test_what_the_tracker_refuses_names_the_frame_of_the_file_once(folder) -> None:
    video = open_video(folder, start=3, stride=4)
    click = Prompt(2, 1, points=((58, 38, True),))  # in frame 11
    with refused("box", "frame 11: object 1") as caught:
        list(track(video, click, Still()))
    assert "frame 2" not in str(caught.value)
