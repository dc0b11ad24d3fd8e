"""``dejacue track``: masks that ``find`` takes as they are, and a summary."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from helpers.colour_tracker import FRAMES, GONE, Colour, box, picture, truth
from helpers.still_tracker import register
from PIL import Image

from dejacue.cli.video import summarise_tracking
from dejacue.files import read_history
from dejacue.masks import open_masks
from dejacue.models.trackers import Prompt, propagate, read_notes
from dejacue.models.trackers.doubts import Doubt
from dejacue.models.trackers.notes import TrackedObject, TrackNotes
from dejacue.video.video import open_video, write_video
from dejacue_paper.data.rendered import render, write_scene

register()
BOX_OF_THE_CUP = ("--box", "65,35,128,119", "--tracker", "still")


@pytest.fixture
def run(dejacue):
    """Return a function that runs ``dejacue track`` and returns all that it prints."""

    def run(*words: object) -> str:
        ran = dejacue("track", *words)
        assert ran.code == 0, ran.err
        return ran.out + ran.err

    return run


@pytest.fixture
def refusal(dejacue):
    """Return a function that runs ``dejacue track`` with wrong input and returns the sentence about
    it."""

    def refusal(*words: object) -> str:
        ran = dejacue("track", *words)
        assert (ran.code, ran.out) == (2, "")
        return ran.err.splitlines()[-1]

    return refusal


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moving") / "frames"
    folder.mkdir()
    for at in range(FRAMES):
        Image.fromarray(picture(at)).save(folder / f"{at:05d}.png")
    return folder


@pytest.fixture
def exact(monkeypatch):
    """Load the tracker that is always right under any name; return those that were loaded."""
    loaded: list[Colour] = []

    def load(name, **_):
        loaded.append(Colour())
        loaded[-1].name = name or "exact"
        return loaded[-1]

    monkeypatch.setattr(propagate, "load_tracker", load)
    return loaded


def text(id: int, at: int) -> str:
    return ",".join(str(side) for side in box(id, at))


def test_the_command_writes_masks_and_notes(folder, tmp_path, exact, run) -> None:
    out = run(folder, "--box", text(1, 0), "-o", tmp_path / "masks", "--set", "rate=10")
    assert f"object 1: seen in {FRAMES - len(GONE)} of {FRAMES} frames" in out
    assert "frames 10 – 12 (1.00 s): it is out of sight (3 frames)" in out
    assert "frame 13 (1.30 s): it comes back" in out
    assert [path.name for path in tmp_path.iterdir()] == ["masks"]
    opened = open_masks(tmp_path / "masks")  # as find does, without any option
    for frame in open_video(folder):
        (mask,) = opened.unions(frame, [frozenset([1])])
        assert (mask is None) == (frame.index in GONE)
        assert mask is None or (mask == truth(1, frame.index)).all()


@pytest.mark.parametrize("sampling", [{}, {"start": 3, "stride": 4}, {"stride": 5}, {"start": 1}])
@pytest.mark.parametrize("name", ["masks", "masks.npz", "masks.json"])
def test_masks_of_a_video_are_numbered_as_its_frames(tmp_path, exact, sampling, name, run) -> None:
    scaled = (picture(at).repeat(2, axis=0).repeat(2, axis=1) for at in range(FRAMES))
    video = write_video(tmp_path / "v.mp4", scaled, 10)
    words = [word for key, value in sampling.items() for word in (f"--{key}", value)]
    first = sampling.get("start", 0)
    x0, y0, x1, y1 = (2 * side for side in box(2, first))
    run(video, "--box", f"{x0},{y0},{x1},{y1}", *words, "-o", tmp_path / name)
    notes = read_notes(tmp_path / name)
    sampled = open_video(video, **sampling)
    assert notes.match == "source"
    assert notes.frames == tuple(frame.source for frame in sampled)
    by_source = open_masks(tmp_path / name, match=notes.match)
    auto = open_masks(tmp_path / name, frames=sampled.length)
    for frame in sampled:
        (mask,) = by_source.unions(frame, [None])
        expected = truth(2, frame.source).repeat(2, axis=0).repeat(2, axis=1)
        assert (mask & expected).sum() / (mask | expected).sum() > 0.8  # the codec blurs colours
        if not sampling or (name == "masks" and sampling != {"start": 1}):  # else it is unclear
            (same,) = auto.unions(frame, [None])
            assert (mask == same).all()


def test_a_second_run_takes_what_is_there_and_an_added_piece_is_followed_alone(
    folder, tmp_path, exact, run
) -> None:
    masks = tmp_path / "masks"
    run(folder, "--box", text(1, 0), "-o", masks)
    assert "reused" in run(folder, "--box", text(1, 0), "-o", masks)
    assert exact[1].steps == 0
    third, second = f"{text(3, 9)}@9", text(2, 0)
    out = run(folder, "--add", third, "-o", masks)
    assert all(list(session.colours) == [2] for session in exact[2].sessions)
    assert "object 2 (a piece of 1): seen in 16 of 24 frames" in out
    assert "find with --object 1+2" in out
    assert read_notes(masks).groups == {1: (1, 2)}
    for first in (("--box", text(1, 0)), ()):
        assert "reused" in run(folder, *first, "--add", third, "-o", masks)
    run(folder, "--add", third, "--add", second, "-o", masks)
    assert read_notes(masks).groups == {1: (1, 2, 3)}


@pytest.mark.parametrize(
    ("words", "was", "now"),
    [
        (["--presence", 0.3], "presence 0.5", "presence 0.3"),
        (["--tracker", "sam2-tiny"], "tracker exact", "tracker sam2-tiny"),
        (["--no-backward"], "both directions", "one direction"),
        (
            ["--stride", 3],
            "frames 0, 1, 2, … (24 of them)",
            "frames 0, 3, 6, … (8 of them)",
        ),
    ],
)
def test_what_is_added_must_be_followed_as_the_rest_was(
    folder, tmp_path, exact, run, refusal, words, was, now
) -> None:
    masks = tmp_path / "masks"
    run(folder, "--box", text(1, 0), "-o", masks)
    sentence = refusal(folder, "--add", f"{text(3, 9)}@9", "-o", masks, *words)
    assert f"{masks}: was made with " in sentence
    before, after = sentence.split("but now it is")
    assert was in before
    assert now in after
    assert list(read_notes(masks).objects) == [1]
    run(folder, "--box", text(1, 0), "--add", f"{text(3, 9)}@9", "-o", masks, *words)


def test_an_object_that_is_not_in_the_masks_is_a_note_and_no_hint(
    folder, tmp_path, exact, run
) -> None:
    grey = "2:30,1,34,3"  # the background; what is added is all under 1
    add = f"1:{text(1, 1)}@1"
    words = [folder, "--box", text(1, 0), "--box", grey, "--add", add, "-o", tmp_path / "masks"]
    out = run(*words)
    assert "object 3 lies under others throughout, and nothing is left" in out
    assert ".npz keeps overlapping objects whole" in out
    assert "object 3 (a piece of 1)" not in out
    assert "find with --object 1 or --object 2\n" in out
    assert "object 3 lies under others" in run(*words)


def test_a_tracker_that_ran_out_of_memory_is_a_note(folder, tmp_path, run, monkeypatch) -> None:
    class Full(Colour):
        name = "sam2"

        def session(self):
            self.details = {**self.details, "note": "the memory of cuda was full"}
            return super().session()

    options = []
    monkeypatch.setattr(
        propagate, "load_tracker", lambda name, **more: options.append(more) or Full()
    )
    out = run(folder, "--box", text(1, 0), "--tracker", "sam2", "--fallback", "-o", tmp_path / "m")
    assert options[0]["fallback"] is True
    assert "doubtful: sam2: the memory of cuda was full" in out


def test_the_masks_of_a_second_object_need_no_new_pass_of_the_first(
    folder, tmp_path, exact, run
) -> None:
    masks = tmp_path / "masks.npz"
    run(folder, "--box", text(1, 0), "-o", masks)
    out = run(folder, "--box", text(1, 0), "--box", f"2:{text(2, 4)}", "--at", 0, "-o", masks)
    assert [list(session.colours) for session in exact[1].sessions] == [[2]]
    assert "find with --object 1 or --object 2" in out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "a box (x0,y0,x1,y1)"),
        (["--box", "99,1,120,9"], "box 99,1,120,9"),
        (["--box", "1,1,9,9@24"], "frame 24"),
        (["--add", "1,1,9,9@3"], "add 1,1,9,9@3: there is no object yet"),
        (["--box", "1,1,9,9", "--presence", 3], "presence 3.0"),
        (["--mask", "none.png"], "none.png"),
        (["--mask", "."], "is a folder; a mask is one picture"),
        (["--box", "1,1,9,9", "--tracker", "sma2"], 'tracker "sma2"'),
        (["--box", "1,1,9,9", "--tracker", "box:x"], 'tracker "box:x"'),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    folder, tmp_path, words, named, refusal
) -> None:
    assert named in refusal(folder, *words, "-o", tmp_path / "masks")
    assert list(tmp_path.iterdir()) == []


def test_the_masks_need_a_name(folder, tmp_path, refusal, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "a name" in refusal(folder, "--box", "1,1,9,9", "-o", ".")


def test_a_stopped_run_says_that_nothing_is_kept(folder, tmp_path, monkeypatch, dejacue) -> None:
    words = (folder, "--box", f"{text(1, 3)}@3", "-o", tmp_path / "masks")
    monkeypatch.setattr(propagate, "load_tracker", lambda name, **_: Colour(stop=11))
    stopped = dejacue("track", *words)
    assert stopped.code == 130
    assert f"stopped before {tmp_path / 'masks'} was written; nothing is kept" in stopped.err
    assert list(tmp_path.iterdir()) == []


# Tracked, then found


@pytest.fixture(scope="module")
def cup(tmp_path_factory):
    """Render a scene; return its folder and the box of its object in the first frame."""
    scene = render(7, family="cup", topology="three", frames=30)
    folder = tmp_path_factory.mktemp("cup")
    write_scene(folder, scene)
    rows, columns = np.nonzero(scene.true_labels(0) == 1)
    edges = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    return folder, ",".join(map(str, edges))


@pytest.fixture
def find(dejacue, cup, tmp_path):
    """Return a function that runs ``dejacue find`` from a box."""
    folder, edges = cup

    def find(*arguments: object):
        words = [folder / "scene.mp4", "--box", edges, "--tracker", "still", "--encoder", "mini"]
        words += ["-v", folder / "vocabulary.yaml", "-o", tmp_path / "out"]
        ran = dejacue("find", *words, *arguments)
        assert ran.code == 0, ran.err
        return ran.err + ran.out

    return find


def test_find_tracks_the_object_from_a_box_and_reuses_the_masks(find, tmp_path) -> None:
    first = find()
    assert "doubtful: still: the box stays in place" in first
    assert "30 frames in" in first
    notes = read_notes(tmp_path / "out" / "masks")
    assert notes.objects[1].seen == 30
    assert len(list((tmp_path / "out" / "masks").glob("*.png"))) == 30
    before = (tmp_path / "out" / "masks" / "00000.png").stat().st_mtime_ns
    again = find()
    assert f"reused {tmp_path / 'out' / 'masks'}: " in again
    assert "scene.history.npz: made from the same video, masks and options" in again
    assert (tmp_path / "out" / "masks" / "00000.png").stat().st_mtime_ns == before


def test_the_history_of_a_tracked_object_says_how_sure_the_tracker_was(find, tmp_path) -> None:
    find("--stride", 2)
    history = read_history(tmp_path / "out" / "scene.history.npz")
    notes = read_notes(tmp_path / "out" / "masks")
    assert history.source_frames.tolist() == list(range(0, 30, 2))
    assert history.presence.tolist() == pytest.approx(notes.objects[1].presence)


def test_a_track_json_of_another_tool_does_not_stop_find(cup, dejacue, tmp_path) -> None:
    folder, _ = cup
    masks = tmp_path / "masks"
    shutil.copytree(folder / "Annotations", masks)
    inner = next(masks.rglob("*.png")).parent
    (inner / "track.json").write_text('{"tracks": []}')
    words = [folder / "scene.mp4", "--masks", inner, "--object", 1, "--encoder", "mini"]
    words += ["-v", folder / "vocabulary.yaml", "-o", tmp_path / "out"]
    ran = dejacue("find", *words)
    assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    ("count", "tail"), [(1, None), (10, None), (11, "  … and 1 more, in the notes")]
)
def test_of_many_doubts_ten_are_shown_and_the_others_counted(capsys, count, tail) -> None:
    doubts = tuple(Doubt("lost", at, at, f"doubt {at}") for at in range(count))
    noted = TrackedObject("key", 20, 0, (1.0,) * 20, doubts)
    summarise_tracking(
        TrackNotes(
            tracker="still",
            details={},
            video="v.mp4",
            video_key="k",
            match="source",
            presence=0.5,
            backward=True,
            prompts=(Prompt(),),
            frames=tuple(range(20)),
            times_s=None,
            objects={1: noted},
        ),
    )
    lines = capsys.readouterr().out.splitlines()
    listed = [line for line in lines if ": doubt" in line]
    assert listed == [f"  frame {at}: doubt {at}" for at in range(min(count, 10))]
    assert f"{count} doubt{'s' if count > 1 else ''} to check:" in lines
    assert [line for line in lines if "more" in line] == ([tail] if tail else [])


def test_find_from_a_box_says_where_to_look(dejacue, tmp_path) -> None:
    # what is in a box that stays changes altogether where the picture does
    scene = render(7, family="cup", topology="three", frames=40)
    write_scene(tmp_path / "cup", scene, video=False)
    frames = sorted((tmp_path / "cup" / "JPEGImages").rglob("*.jpg"))
    for path in frames[20:30]:
        Image.new("RGB", (192, 144), (250, 10, 10)).save(path)
    words = [frames[0].parent, *BOX_OF_THE_CUP, "-v", tmp_path / "cup" / "vocabulary.yaml"]
    ran = dejacue("find", *words, "--encoder", "mini", "-o", tmp_path / "out")
    assert ran.code == 3, ran.err  # the encoder does not know what the box shows there
    assert "object 1: seen in 40 of 40 frames" in ran.err
    assert "frame 20: it looks different" in ran.err.replace("frames 20", "frame 20")
    history = read_history(next((tmp_path / "out").glob("*.history.npz")))
    assert history.made_with["frames"] == "40"
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "it looks different" in page
