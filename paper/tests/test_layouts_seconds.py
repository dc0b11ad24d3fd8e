"""Readers of data sets that say when: ChangeIt, ChangeIt-Frames, HowToChange."""

from __future__ import annotations

import json

import pytest
from data_sets import document, frames, howtochange, labels, manifest, problems, text, video
from helpers.errors import refused

from dejacue import evaluate, open_video
from dejacue.files import read_references
from dejacue.method import Window
from dejacue.records import Interval, Timeline
from dejacue_paper import open_dataset
from dejacue_paper.data.layouts.seconds import seconds_of

# ChangeIt


def test_changeit_without_videos_counts_seconds(tmp_path) -> None:
    labels(tmp_path, "abc", "0011202330")
    dataset = open_dataset(tmp_path)
    (clip,) = dataset
    assert dataset.layout == "changeit"
    assert dataset.missing == ("apple/abc: its video is missing",)
    assert clip.in_seconds
    assert "the windows of 1 clip without a video are counted in seconds" in dataset.notes[0]
    assert clip.states == {
        "state1": (Window(2, 3),),
        "action": (Window(4, 4), Window(6, 6)),
        "state2": (Window(7, 8),),
    }
    assert (clip.id, clip.object, clip.component) == ("apple-abc", "apple", "abc")


def test_changeit_with_a_video_counts_its_frames(tmp_path) -> None:
    labels(tmp_path, "abc", "0011203330")
    video(tmp_path / "videos" / "apple" / "abc.mp4", seconds=10, rate=5)
    (clip,) = open_dataset(tmp_path)
    assert not clip.in_seconds
    assert clip.states["state1"] == (Window(10, 15),)
    assert clip.states["state2"] == (Window(30, 40),)
    taken = [frame.source for frame in clip.open()]
    assert taken == list(range(0, 50, 5))  # a second each, as the labels have it


def test_a_timeline_of_the_labelled_seconds_is_perfect(tmp_path) -> None:
    labels(tmp_path, "abc", "0011203330")
    video(tmp_path / "abc.mp4", seconds=10, rate=5)
    (clip,) = open_dataset(tmp_path)
    taken = [frame.source for frame in clip.open()]

    def interval(state: str, start: int, end: int) -> Interval:
        source = {"source_start": taken[start], "source_end": taken[end]}
        return Interval(state, start, end, 1.0, **source)

    intervals = (interval("state1", 2, 3), interval("state2", 6, 8), interval("action", 4, 4))
    states = {state: (state,) for state in ("state1", "state2", "action")}
    timeline = Timeline.of(intervals, states, history_id=clip.id)
    measured = evaluate({"seconds": [timeline]}, [clip.reference])
    assert measured.methods["seconds"]["top1_tiou"].mean == 1.0


def test_changeit_takes_header_and_no_other_labels(tmp_path) -> None:
    text(tmp_path / "annotations" / "apple" / "a.fps1.csv", "second,label\n0,1\n1,3\n")
    assert set(open_dataset(tmp_path).clips[0].states) == {"state1", "state2"}
    text(tmp_path / "annotations" / "apple" / "b.fps1.csv", "0,1\n1,4\n")
    text(tmp_path / "annotations" / "apple" / "c.fps1.csv", "0,1\n0,1\n")
    text(tmp_path / "annotations" / "apple" / "d.fps1.csv", "0;1\n1;1\n")
    sentences = problems(tmp_path)
    assert sentences[0] == "apple/b.fps1.csv, line 2: the label 4 is not one of 0, 1, 2, 3"
    assert "second 0 already has a label" in sentences[1]
    assert 'not "second,label"' in sentences[2]


def test_changeit_with_labels_beyond_the_video_is_refused(tmp_path, dejacue) -> None:
    labels(tmp_path, "abc", "001120333333")
    labels(tmp_path, "def", "11111111")
    for name in ("abc", "def"):
        video(tmp_path / f"{name}.mp4", seconds=5)
    assert problems(tmp_path) == (
        "apple-abc: state2 lasts until second 11, but the video ends at 4",
        "apple-def: state1 lasts until second 7, but the video ends at 4",
    )


def test_words_of_ones_own_become_those_of_a_category(tmp_path, dejacue) -> None:
    labels(tmp_path, "abc", "0011203330")
    words = {"object": "apple", "states": {"state1": "whole apple", "state2": "sliced apple"}}
    document(tmp_path / "vocabularies" / "apple.json", words)
    (clip,) = open_dataset(tmp_path)
    assert set(clip.states) == {"state1", "state2"}  # they have no word for the action
    ran = dejacue("data", "open", tmp_path, "--vocabularies", tmp_path / "out")
    assert ran.code == 0
    assert json.loads((tmp_path / "out" / "apple-abc.json").read_text())["object"] == "apple"


def test_words_for_labels_that_do_not_exist_are_refused(tmp_path) -> None:
    labels(tmp_path, "abc", "0011203330")
    words = {"states": {"state1": "whole apple", "peeled": "peeled apple"}}
    document(tmp_path / "vocabularies" / "apple.json", words)
    (problem,) = problems(tmp_path)
    assert (
        'apple.json: the state "peeled" is not one of the labels state1, action, state2' in problem
    )


def test_a_manifest_takes_masks_of_ones_own(tmp_path, dejacue) -> None:
    labels(tmp_path, "abc", "0011203330")
    video(tmp_path / "abc.mp4", seconds=10)
    out = tmp_path / "m.csv"
    ran = dejacue("data", "open", tmp_path, "--manifest", out)
    assert ran.code == 2
    assert "no masks; create them (dejacue track)" in ran.err
    assert not out.exists()
    text(tmp_path / "tracked" / "apple-abc.csv", "frame,x,y,w,h\n0,1,1,9,9\n")
    ran = dejacue("data", "open", tmp_path, "--manifest", out, "--masks", tmp_path / "tracked")
    assert ran.code == 0, ran.err
    (row,) = manifest(out)
    assert (row["masks"], row["fps"], row["id"]) == ("tracked/apple-abc.csv", "1.0", "apple-abc")
    assert dejacue("data", "open", tmp_path, "--masks", tmp_path).code == 2


# ChangeIt-Frames


def test_frame_n_of_changeit_frames_is_second_n_minus_1(tmp_path) -> None:
    labels(tmp_path, "abc", "0011203330")
    frames(tmp_path, [3, 4, 7, 8, 9])
    dataset = open_dataset(tmp_path)
    (clip,) = dataset
    assert dataset.layout == "changeit-frames"
    assert not dataset.missing
    assert clip.times == (2, 3, 6, 7, 8)
    assert clip.states == {"state1": (Window(0, 1),), "state2": (Window(2, 4),)}
    assert [frame.time_s for frame in clip.open()] == [2, 3, 6, 7, 8]


def test_changeit_frames_without_labels_says_which_are_missing(tmp_path) -> None:
    frames(tmp_path, [3, 4])
    dataset = open_dataset(tmp_path)
    assert dataset.missing == ("annotations/apple/abc.fps1.csv: is missing",)
    assert not dataset.references


def test_pictures_beyond_the_labels_are_refused(tmp_path) -> None:
    labels(tmp_path, "abc", "0011")
    frames(tmp_path, [3, 4, 5, 11])
    assert problems(tmp_path) == (
        "apple/abc/frame_0005.jpg: second 4 has no label",
        "apple/abc/frame_0011.jpg: second 10 has no label",
    )


def test_changeit_with_frames_and_videos_asks_which(tmp_path, dejacue) -> None:
    labels(tmp_path, "abc", "0011")
    frames(tmp_path, [3, 4])
    (tmp_path / "videos").mkdir()
    ran = dejacue("data", "open", tmp_path)
    assert ran.code == 2
    assert "could be changeit or changeit-frames" in ran.err


# HowToChange


def test_howtochange_rounds_seconds_by_its_own_rule(tmp_path) -> None:
    dataset = open_dataset(howtochange(tmp_path, {}))
    (clip,) = dataset
    assert clip.states == {
        "initial_state": (Window(0, 1),),
        "transitioning_state": (Window(2, 4),),
        "end_state": (Window(5, 5), Window(7, 7)),
    }
    assert (clip.id, clip.component, clip.columns["osc"]) == ("abc_10", "abc", "slicing apple")
    assert dataset.missing == ("abc_10: its video is missing",)


def test_howtochange_finds_the_clip_or_its_part_of_the_whole_video(tmp_path) -> None:
    howtochange(tmp_path, {})
    video(tmp_path / "whole" / "abc.mp4", seconds=12)
    (clip,) = open_dataset(tmp_path)
    assert clip.sampling == {"fps": 1.0, "start_s": 2.0, "end_s": 10.0}
    assert clip.states["initial_state"] == (Window(10, 15),)  # from second 2 on, 5 frames a second
    assert [frame.source for frame in clip.open()][:2] == [10, 15]
    video(tmp_path / "clips" / "abc_10.mp4", seconds=8)
    (clip,) = open_dataset(tmp_path)
    assert clip.sampling == {"fps": 1.0}
    assert clip.states["initial_state"] == (Window(0, 5),)


def test_howtochange_lists_every_line_that_is_wrong(tmp_path) -> None:
    howtochange(
        tmp_path,
        {"end_state": "[[5, 11]]"},
        {"video_name": "b", "duration": "long"},
        {"video_name": "c", "initial_state": "[[3, 1]]"},
        {"video_name": ""},
        {"video_name": "d", "initial_state": "0-3"},
    )
    sentences = problems(tmp_path)
    assert len(sentences) == 5
    assert (
        sentences[0]
        == "howtochange_eval.csv, line 2: end_state ends at 11 s, but the clip lasts 8 s"
    )
    assert 'duration "long" is not a number of seconds' in sentences[1]


def test_howtochange_beyond_the_file_is_refused(tmp_path) -> None:
    howtochange(tmp_path, {})
    video(tmp_path / "abc_10.mp4", seconds=4)
    assert problems(tmp_path) == (
        "abc_10: end_state lasts until second 5, but the video ends at 3",
        "abc_10: end_state lasts until second 7, but the video ends at 3",
    )


def test_howtochange_without_its_columns_is_refused(tmp_path) -> None:
    text(tmp_path / "howtochange_eval.csv", "video_name,osc\na,b\n")
    with refused(tmp_path / "howtochange_eval.csv", "video_id"):
        open_dataset(tmp_path)


def test_references_of_howtochange_are_written(tmp_path, dejacue) -> None:
    howtochange(tmp_path, {}, {"video_name": "abc_20"})
    ran = dejacue("data", "open", tmp_path, "--references", tmp_path / "r.json")
    assert ran.code == 0
    components = [reference.component for reference in read_references(tmp_path / "r.json")]
    assert components == ["abc", "abc"]


def test_a_clip_of_howtochange_that_is_there_for_two_changes_is_two(tmp_path) -> None:
    dataset = open_dataset(howtochange(tmp_path, {}, {"osc": "peeling apple"}))
    assert [clip.id for clip in dataset] == ["abc_10-slicing apple", "abc_10-peeling apple"]
    assert "appears 2 times" in problems(howtochange(tmp_path, {}, {}))[0]


def test_videos_behind_links_are_found_and_circles_end(tmp_path) -> None:
    labels(tmp_path / "set", "abc", "0011203330")
    video(tmp_path / "elsewhere" / "abc.mp4", seconds=10)
    (tmp_path / "set" / "videos").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "set")
    assert not open_dataset(tmp_path / "set").missing


def test_a_label_far_away_takes_no_room(tmp_path) -> None:
    text(tmp_path / "annotations" / "apple" / "a.fps1.csv", "0,1\n999999999,3\n")
    (clip,) = open_dataset(tmp_path)
    assert clip.states["state2"] == (Window(999999999, 999999999),)


def test_a_damaged_video_is_named(tmp_path) -> None:
    labels(tmp_path, "abc", "0011")
    text(tmp_path / "abc.mp4", "no video")
    assert "abc.mp4: cannot be read" in problems(tmp_path)[0]


@pytest.mark.long
def test_seconds_are_the_frames_that_one_frame_a_second_takes(tmp_path, footage) -> None:
    odd = video(tmp_path / "odd.mp4", seconds=7, rate=13)
    for path in (odd, *sorted((footage / "clips").glob("*.mp4"))):
        for limits in ({}, {"start_s": 1.3, "end_s": 5.1}):
            taken = [frame.source for frame in open_video(path, fps=1, **limits).lazy_frames()]
            assert list(seconds_of(path, **limits).values()) == taken


def test_a_video_may_have_a_title_that_is_not_unicode(tmp_path) -> None:
    import av

    path = tmp_path / "v.mp4"
    with av.open(str(path), "w") as container:
        container.metadata["title"] = "a cup in a kitchen"
        stream = container.add_stream("libx264", rate=1)
        stream.width = stream.height = 16
        for at in range(3):
            frame = av.VideoFrame(16, 16, "yuv420p")
            frame.pts = at
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    content = path.read_bytes()
    assert content.count(b"a cup in") == 1
    path.write_bytes(content.replace(b"a cup in", b"a \x98up in"))
    assert list(seconds_of(path)) == [0, 1, 2]
