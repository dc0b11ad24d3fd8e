"""Following objects with a tracker that is always right: order, both directions, what is kept."""

from __future__ import annotations

import errno
import json
import shutil

import msgspec
import numpy as np
import pytest
from helpers.colour_tracker import FRAMES, GONE, HEIGHT, WIDTH, Colour, box, picture, truth
from helpers.errors import refused
from helpers.still_tracker import Still
from PIL import Image

from dejacue.errors import Cancelled
from dejacue.files.partial import PartialFile
from dejacue.masks import open_masks
from dejacue.models.trackers import (
    Prompt,
    TrackRequest,
    match_of,
    propagate,
    read_notes,
    track,
    write_track,
)
from dejacue.models.trackers.doubts import KINDS
from dejacue.models.trackers.follow import partial_path
from dejacue.models.trackers.propagate import reversed_frames
from dejacue.records import Note
from dejacue.video.video import open_video


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moving") / "frames"
    folder.mkdir()
    for at in range(FRAMES):
        Image.fromarray(picture(at)).save(folder / f"f{at:03d}.png")
    return folder


def request_of(folder, prompts, tracker=None, **options) -> TrackRequest:
    return TrackRequest.of(folder, prompts, tracker or Colour(), **options)


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

    request = request_of(folder, [Prompt(0, 1, box=box(1, 0))])
    notes = write_track(tmp_path / "masks", request, progress=progress)
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
    notes = write_track(tmp_path / name, request_of(folder, prompts))
    masks = masks_in(tmp_path / name, [1, 2], folder)
    for at in range(FRAMES):
        assert (masks[1][at] == truth(1, at)).all()
        assert (masks[2][at] == truth(2, at)).all()
    assert notes.objects[1].seen == FRAMES - len(GONE)
    assert notes.objects[1].presence[11] == 0.1
    left = {path.name for path in tmp_path.iterdir()}
    assert left == ({"masks"} if name == "masks" else {name, f"{name}.track.json"})


def test_masks_have_the_names_of_images_and_the_numbers_of_frames(folder, tmp_path) -> None:
    write_track(tmp_path / "masks", request_of(folder, [Prompt(0, 1, box=box(1, 0))]))
    names = sorted(path.name for path in (tmp_path / "masks").glob("*.png"))
    assert names == [f"f{at:03d}.png" for at in range(FRAMES)]
    assert read_notes(tmp_path / "masks").match == "stem"


def test_notes_say_what_was_done(folder, tmp_path) -> None:
    prompts = [Prompt(0, 1, points=((5, 5, True), (50, 2, False))), Prompt(9, 2, mask=truth(2, 9))]
    request = TrackRequest.of(open_video(folder, rate=10), prompts, Colour(), presence=0.4)
    write_track(tmp_path / "masks", request, groups={1: (1, 2)})
    notes = read_notes(tmp_path / "masks")
    assert (notes.tracker, notes.details) == ("colour", request.tracker.details)
    assert (notes.video, notes.size, notes.presence) == ("frames", (HEIGHT, WIDTH), 0.4)
    assert notes.groups == {1: (1, 2)}
    inside, outside, mask = notes.prompts
    assert (inside.object, inside.frame, inside.point) == (1, 0, (5, 5, True))
    assert (outside.object, outside.frame, outside.point) == (1, 0, (50, 2, False))
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
    write_track(tmp_path / "masks", request_of(folder, prompts))
    tracker = Colour()
    write_track(tmp_path / "masks", request_of(folder, prompts, tracker))
    assert tracker.steps == 0
    for changed in (
        request_of(folder, [Prompt(0, 1, box=(1, 4, 10, 12))], tracker),
        request_of(folder, prompts, tracker, presence=0.3),
        TrackRequest.of(open_video(folder, end=9), prompts, tracker),
    ):
        before = tracker.steps
        write_track(tmp_path / "masks", changed)
        assert tracker.steps > before


@pytest.mark.parametrize("name", ["masks", "masks.json"])
def test_only_an_added_object_is_followed(folder, tmp_path, name) -> None:
    first = [Prompt(0, 1, box=box(1, 0))]
    write_track(tmp_path / name, request_of(folder, first))
    tracker = Colour()
    both = [*first, Prompt(8, 3, box=box(3, 8))]
    notes = write_track(tmp_path / name, request_of(folder, both, tracker), groups={1: (1, 3)})
    assert all(list(session.colours) == [3] for session in tracker.sessions)
    assert notes.groups == {1: (1, 3)}
    assert [prompt.object for prompt in notes.prompts] == [1, 3]
    masks = masks_in(tmp_path / name, [1, 3], folder)
    for at in range(FRAMES):
        assert (masks[1][at] == truth(1, at)).all()
        assert (masks[3][at] == truth(3, at)).all()


def test_an_object_that_is_left_out_is_removed_without_following(folder, tmp_path) -> None:
    prompts = [Prompt(0, 1, box=box(1, 0)), Prompt(0, 2, box=box(2, 0))]
    write_track(tmp_path / "masks", request_of(folder, prompts))
    tracker = Colour()
    notes = write_track(tmp_path / "masks", request_of(folder, prompts[1:], tracker))
    assert tracker.steps == 0
    assert list(notes.objects) == [2]
    assert [prompt.object for prompt in notes.prompts] == [2]
    assert open_masks(tmp_path / "masks").ids() == (2,)


def same_as_whole(folder, tmp_path, prompts, notes) -> None:
    """Check that a resumed run gives what a run in one go gives, and nothing else is left."""
    whole = write_track(tmp_path / "whole", request_of(folder, prompts))
    for id in (1, 2):
        assert notes.objects[id].presence == whole.objects[id].presence
        assert notes.objects[id].doubts == whole.objects[id].doubts
    for path in (tmp_path / "whole").glob("*.png"):
        assert (tmp_path / "masks" / path.name).read_bytes() == path.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"masks", "whole"}


@pytest.mark.parametrize("stop", [3, 16, 17, 30, 39])  # 16 steps back, then all frames
def test_a_stopped_run_keeps_a_whole_backward_pass(folder, tmp_path, stop) -> None:
    prompts = [Prompt(0, 1, box=box(1, 0)), Prompt(15, 2, box=box(2, 15))]
    message = "the backward pass is kept" if stop > 16 else "before anything was kept"
    with pytest.raises(Cancelled, match=message):
        write_track(tmp_path / "masks", request_of(folder, prompts, Colour(stop)))
    assert not (tmp_path / "masks").exists()
    assert partial_path(tmp_path / "masks").exists() == (stop > 16)
    tracker = Colour()
    notes = write_track(tmp_path / "masks", request_of(folder, prompts, tracker))
    assert tracker.steps == FRAMES + (0 if stop > 16 else 16)
    same_as_whole(folder, tmp_path, prompts, notes)


@pytest.mark.parametrize("error", [Cancelled, KeyboardInterrupt])
@pytest.mark.parametrize(("stage", "at"), [("follow backward", 7), ("follow", 1), ("follow", 19)])
def test_progress_may_stop_the_run(folder, tmp_path, stage, at, error) -> None:
    prompts = [Prompt(0, 1, box=box(1, 0)), Prompt(15, 2, box=box(2, 15))]

    def stop(now: str, done: int, total: int | None = None, note: str = "") -> None:
        if (now, done) == (stage, at):
            raise error

    with pytest.raises(Cancelled, match="stopped"):
        write_track(tmp_path / "masks", request_of(folder, prompts), progress=stop)
    left = [partial_path(tmp_path / "masks")] if stage == "follow" else []
    assert list(tmp_path.iterdir()) == left
    notes = write_track(tmp_path / "masks", request_of(folder, prompts))
    same_as_whole(folder, tmp_path, prompts, notes)


def test_whoever_iterates_gets_what_progress_raises(folder) -> None:
    def stop(*_: object) -> None:
        raise Cancelled("enough")

    frames = track(folder, Prompt(0, 1, box=box(1, 0)), Colour(), progress=stop)
    next(frames)
    with pytest.raises(Cancelled, match="enough"):
        next(frames)


def test_a_backward_pass_of_another_prompt_is_not_used(folder, tmp_path) -> None:
    stopped = request_of(folder, [Prompt(15, 2, box=box(2, 15))], Colour(20))
    with pytest.raises(Cancelled):
        write_track(tmp_path / "masks", stopped)
    for prompts in ([Prompt(15, 2, mask=truth(2, 15))], [Prompt(15, 1, box=box(2, 15))]):
        tracker = Colour()
        write_track(tmp_path / "masks", request_of(folder, prompts, tracker))
        assert tracker.steps == 16 + FRAMES - 15  # it is followed from its prompt on


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    ],
)
def test_a_damaged_backward_pass_is_made_again(folder, tmp_path, damage) -> None:
    prompts = [Prompt(0, 1, box=box(1, 0)), Prompt(15, 2, box=box(2, 15))]
    with pytest.raises(Cancelled):
        write_track(tmp_path / "masks", request_of(folder, prompts, Colour(20)))
    file = partial_path(tmp_path / "masks")
    data = file.read_bytes()
    file.write_bytes(damage(data))
    tracker = Colour()
    notes = write_track(tmp_path / "masks", request_of(folder, prompts, tracker))
    assert tracker.steps == 16 + FRAMES
    same_as_whole(folder, tmp_path, prompts, notes)


def test_a_backward_pass_of_another_form_is_made_again(folder, tmp_path) -> None:
    prompts = [Prompt(0, 1, box=box(1, 0)), Prompt(15, 2, box=box(2, 15))]
    with pytest.raises(Cancelled):
        write_track(tmp_path / "masks", request_of(folder, prompts, Colour(20)))
    place = partial_path(tmp_path / "masks")
    key = place.read_bytes().partition(b"\n")[0].decode()
    place.unlink()
    file = PartialFile(place, key)
    file.append([b"no MessagePack", msgspec.msgpack.encode({0: {2: ["00", 1.0, 0, [0] * 4]}})])
    file.close()
    tracker = Colour()
    notes = write_track(tmp_path / "masks", request_of(folder, prompts, tracker))
    assert tracker.steps == 16 + FRAMES
    same_as_whole(folder, tmp_path, prompts, notes)


def test_a_partial_file_that_holds_something_else_is_not_used(folder, tmp_path) -> None:
    request = request_of(folder, [Prompt(0, 1, box=box(1, 0))])
    file = partial_path(tmp_path / "masks")
    file.write_bytes(b"something else")
    write_track(tmp_path / "masks", request)
    assert request.tracker.steps == FRAMES
    assert not file.exists()


@pytest.mark.parametrize("name", ["masks", "masks.npz"])
def test_a_failure_in_writing_leaves_the_old_masks(folder, tmp_path, monkeypatch, name) -> None:
    write_track(tmp_path / name, request_of(folder, [Prompt(0, 1, box=box(1, 0))]))
    before = sorted(path.name for path in tmp_path.rglob("*"))

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("dejacue.models.trackers.follow.write_notes", fail)
    with pytest.raises(OSError, match="No space"):
        write_track(tmp_path / name, request_of(folder, [Prompt(0, 2, box=box(2, 0))]))
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    assert list(read_notes(tmp_path / name).objects) == [1]
    assert masks_in(tmp_path / name, [1], folder)[1][0].any()


def test_what_others_have_written_is_not_replaced(folder, tmp_path) -> None:
    request = request_of(folder, [Prompt(0, 1, box=box(1, 0))])
    for name, content in (("pictures", "00000.png"), ("texts", "diary.txt")):
        (tmp_path / name).mkdir()
        (tmp_path / name / content).write_bytes(b"mine")
        with refused(tmp_path / name):
            write_track(tmp_path / name, request)
    (tmp_path / "pictures" / "track.json").write_text('{"tracks": []}')  # of another tool
    with refused(tmp_path / "pictures"):
        write_track(tmp_path / "pictures", request)
    for name in ("mine.json", "mine.npz"):
        (tmp_path / name).write_bytes(b"mine")
        with refused(tmp_path / name):
            write_track(tmp_path / name, request)
        assert (tmp_path / name).read_bytes() == b"mine"
    for path in (tmp_path / "masks.mp4", ".", "..", "/"):
        with refused(path):
            write_track(path, request)
    assert request.tracker.steps == 0


def test_nothing_is_written_where_nothing_is_seen(folder, tmp_path) -> None:
    request = request_of(folder, [Prompt(0, 1, box=box(1, 0))], presence=1.0)
    with refused(folder, "the object is not seen in any frame"):
        write_track(tmp_path / "masks", request)
    assert not (tmp_path / "masks").exists()


def test_damaged_notes_are_named(folder, tmp_path) -> None:
    write_track(tmp_path / "masks", request_of(folder, [Prompt(0, 1, box=box(1, 0))]))
    path = tmp_path / "masks" / "track.json"
    document = json.loads(path.read_text())
    for key, value in (
        ("schema", "dejacue.track/9"),
        ("frames", [0, "x"]),
        ("match", "guess"),
        ("objects", {"1": {}}),
        ("prompts", [{"object": 1, "frame": 0, "box": [1, 2]}]),
        ("prompts", [{"object": 1, "frame": 0, "mask": {"size": [2, 2], "counts": "??"}}]),
        ("size", 3),
        ("times_s", 5),
        ("names", ["one"]),
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
    write_track(tmp_path / "masks", request_of(folder, [Prompt(0, 1, box=box(1, 0))]))
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
