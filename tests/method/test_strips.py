"""The strip: a person marks pictures, marks become facts, and finer strips close the borders."""

import io
import shutil
from dataclasses import replace

import numpy as np
import pytest
from helpers.errors import refused
from PIL import Image

from dejacue import Finding, History, find, strip
from dejacue.demo import write_demo
from dejacue.files import read_vocabulary, write_vocabulary
from dejacue.method import Window
from dejacue.method.localization import analyse
from dejacue.method.strips import Border, Strip, marked
from dejacue.report.contact_sheet import strip_sheet
from dejacue_paper import generate

EPISODES = [("empty", 60), ("filled", 80), ("empty", 40)]


def made(seed=3, exhaustive=False, **options):
    sample = generate(seed, episodes=EPISODES, signal=0.4, **options)
    vocabulary = replace(sample.vocabulary, exhaustive=exhaustive)
    finding = Finding(sample.history, vocabulary, analyse(sample.history, vocabulary))
    return sample, finding


def seen(sample, strip):
    """Return what a person marks who sees the truth."""
    marks = {}
    for at, frame in enumerate(strip.frames):
        for state, windows in sample.references.items():
            if any(window.start <= frame <= window.end for window in windows):
                marks.setdefault(state, []).append(at + 1)
    return marks


def test_a_strip_is_spread_evenly_over_what_is_visible():
    sample, finding = made(gaps=[(20, 40)])
    strip = finding.strip(7)
    assert len(strip) == len(strip.frames) == len(strip.believed) == len(strip.pictures) == 7
    positions = np.searchsorted(sample.history.frames, strip.frames)
    assert np.array_equal(sample.history.frames[positions], strip.frames)
    assert np.ptp(np.diff(positions)) <= 1
    assert strip.believed == tuple(finding.at(frame=frame) for frame in strip.frames)
    believed = {k for spans in strip.proposal.values() for a, b in spans for k in range(a, b + 1)}
    assert believed <= set(range(1, 8))
    assert len(finding.strip(500)) == len(sample.history)


def test_marks_are_facts_from_the_first_picture_to_the_last():
    _, finding = made()
    strip = finding.strip(12)
    frames = strip.frames
    answer = finding.mark(strip, {"filled": (5, 9), "empty": [(1, 3), (11, 12)]})
    window = answer["filled"][0].window
    assert frames[3] < window.start <= frames[4]
    assert frames[8] <= window.end < frames[9]
    windows = [i.window for i in answer["empty"] if i.confirmed]
    assert len(windows) == 2
    assert windows[0].start <= frames[0]
    assert windows[0].end >= frames[2]
    assert windows[1].start <= frames[10]
    assert windows[1].end >= frames[11]
    for unmarked in (3, 9):
        assert answer.at(frame=frames[unmarked]) is None
    assert finding.vocabulary.examples == ()
    assert "Strip of 12 pictures" in repr(strip)


def test_marks_may_name_a_single_state_and_other_pictures_show_none():
    sample, finding = made()
    strip = finding.strip(12)
    words = marked(sample.history, None, strip, {"visible": (5, 9)})
    assert list(words.states) == ["visible"]
    answer = replace(finding, vocabulary=words).with_words()
    (window,) = (interval.window for interval in answer["visible"] if interval.confirmed)
    assert strip.frames[3] < window.start <= strip.frames[4]
    assert strip.frames[8] <= window.end < strip.frames[9]
    unmarked = [frame for at, frame in enumerate(strip.frames) if not 4 <= at <= 8]
    assert {answer.labels[frame] for frame in unmarked} == {None}
    for marks in ({}, {"none": (1, 4)}, {None: (1, 4)}):
        with refused("marks"):
            marked(sample.history, None, strip, marks)


def test_marks_of_some_pictures_keep_what_is_known_of_the_others():
    _, finding = made()
    strip = finding.strip(12)
    answer = finding.mark(strip, {"filled": (5, 9), "empty": [(1, 3), (11, 12)]})
    known = answer.mark(answer.strip(12), {"filled": (5, 8)}).named
    assert known["empty"] == answer.named["empty"]
    assert set(answer.named["filled"]) <= set(known["filled"])


def test_where_every_frame_shows_a_state_what_is_not_marked_stays_unknown():
    _, finding = made(exhaustive=True)
    strip = finding.strip(12)
    answer = finding.mark(strip, {"filled": (5, 9), "empty": [(1, 3), (11, 12)]})
    assert {e.state for e in answer.vocabulary.frame_examples} == {"filled", "empty"}
    assert answer.at(frame=strip.frames[3]) is not None
    with refused("exhaustive", "5"):
        finding.correct(none=5)
    with refused("exhaustive"):
        made(exhaustive=np.zeros((2, 2)))


def test_later_marks_replace_what_they_contradict_and_nothing_else():
    _, finding = made()
    strip = finding.strip(12)
    first = finding.correct(empty=[1, 2]).mark(strip, {"filled": (4, 9)})
    second = first.mark(strip, {"filled": (6, 9), "empty": (3, 5)})
    frames = strip.frames
    assert second.named["empty"] == [Window(1, 1), Window(2, 2), Window(frames[2], frames[4])]
    named = [frame for w in second.named["filled"] for frame in range(w.start, w.end + 1)]
    assert frames[5] in named
    assert frames[8] in named
    assert not {frames[3], frames[4]} & set(named)


def test_finer_strips_close_a_border_to_a_frame():
    sample, finding = made()
    strip = finding.strip(12)
    finding = finding.mark(strip, seen(sample, strip))
    looks = 0
    while finding.borders():
        border = finding.borders()[0]
        strip = finding.strip(8, border=border[:2])
        assert strip.border == border
        finding = finding.mark(strip, seen(sample, strip))
        looks += 1
        assert looks < 12
    windows = {state: [i.window for i in finding[state]] for state in sample.references}
    assert windows == {state: sorted(w) for state, w in sample.references.items()}
    with refused("border", "filled", "end", "choose another border"):
        finding.strip(8, border=("filled", "end"))


def test_at_a_border_what_is_not_marked_shows_what_comes_after():
    _, finding = made()
    strip = finding.strip(12)
    marks = {"empty": [(1, 4), (11, 12)], "filled": (5, 10)}
    finding = finding.mark(strip, marks)
    border = finding.strip(8, border=("empty", "end"))
    assert border.border == Border("empty", "end", strip.frames[3], strip.frames[4])
    answer = finding.mark(border, {"empty": (1, 3)})
    assert answer.at(frame=border.frames[2]) == "empty"
    assert answer.at(frame=border.frames[3]) == "filled"
    between = finding.mark(border, {"empty": (1, 3), "filled": (6, 8)})
    assert between.at(frame=border.frames[3]) is None
    wrong = finding.mark(border, {"empty": (1, len(border))})  # the first strip was wrong
    assert wrong.at(frame=strip.frames[4]) == "empty"


def test_a_state_that_no_picture_showed_is_looked_for_where_nothing_is_known():
    sample = generate(3, episodes=[("empty", 60), ("filled", 6), ("empty", 60)], signal=0.4)
    words = sample.vocabulary
    finding = Finding(sample.history, words, analyse(sample.history, words))
    strip = finding.strip(6)
    assert set(seen(sample, strip)) == {"empty"}
    finding = finding.mark(strip, {"empty": "1, 2, 3, 4, 5, 6"})
    second = finding.strip(30, border=("filled", "start"))
    assert not set(second.frames) & set(strip.frames)
    before = len(finding.vocabulary.frame_examples)
    finding = finding.mark(second, {"filled": seen(sample, second)["filled"]})
    assert len(finding.vocabulary.frame_examples) <= before + 2  # the others stay unknown
    assert finding["filled"][0].window.start >= 55
    everything = finding.correct(empty=[Window(0, 59), Window(66, 125)], filled=Window(60, 65))
    with refused("border"):
        everything.strip(8, border=("filled", "end"))


@pytest.mark.parametrize(
    ("marks", "fact"),
    [
        ({"filled": (6, 4)}, "a mark of filled is not a first and a last"),
        ({"filled": (6, 13)}, "a mark of filled is not a first and a last"),
        ({"filled": (0, 4)}, "a mark of filled is not a first and a last"),
        ({"filled": (3, 6), "empty": (6, 7)}, "a picture is marked twice, for filled and empty"),
        ({"filled": [(3, 6), (5, 7)]}, "a picture is marked twice, for filled"),
        ({"filled": "2..5"}, "filled=2..5"),
        ({"filled": [(3, 6), None]}, "a mark of filled is not a first and a last"),
        ({"filled": True}, "a mark of filled is not"),
    ],
)
def test_what_is_no_mark_is_refused(marks, fact):
    _, finding = made()
    with refused(fact):
        finding.mark(finding.strip(12), marks)


def test_a_strip_of_something_else_is_refused():
    sample, finding = made()
    _, stranger = made(seed=4)
    with refused("strip", "generated-4"):
        finding.mark(stranger.strip(12), {})
    with refused("strip", 5000):
        finding.mark(Strip(sample.history, (5, 5000), (None, None)), {})
    with refused("not 1"):
        finding.strip(1)
    for border, field in (
        (("filled", "top"), "side of a border"),
        (("nope", "end"), "state of a border"),
        ("filled", "border"),
    ):
        with refused(field):
            finding.strip(8, border=border)


def test_a_vocabulary_says_in_files_that_every_frame_shows_a_state(tmp_path):
    (tmp_path / "cup.yaml").write_text("exhaustive: true\nstates:\n  a: cup\n  b: mug\n")
    assert read_vocabulary(tmp_path / "cup.yaml").exhaustive
    sample, finding = made(exhaustive=True)
    write_vocabulary(tmp_path / "v.npz", finding.vocabulary)
    assert read_vocabulary(tmp_path / "v.npz").exhaustive
    assert not sample.vocabulary.exhaustive
    with refused("exhaustive", "most"):
        replace(sample.vocabulary, exhaustive="most")


def test_pictures_come_from_the_video_and_else_from_what_is_stored(tmp_path):
    write_demo(tmp_path / "cup")
    cup = tmp_path / "cup"
    options = {"masks": cup / "Annotations", "encoder": "mini"}
    finding = find(cup / "scene.mp4", cup / "vocabulary.yaml", **options)
    strip = finding.strip(6)
    assert strip.missing is None
    assert all(Image.open(io.BytesIO(data)).size[0] > 100 for data in strip.pictures)
    (cup / "scene.mp4").unlink()
    strip = finding.strip(6)
    assert set(strip.frames) <= set(finding.thumbnails)
    assert strip.missing is None
    bare = replace(finding, thumbnails={}, crops={})
    assert set(bare.strip(6).pictures) == {None}
    assert "no pictures" in bare.strip(6).missing
    assert "no picture 1:" in replace(finding.strip(6), load=lambda f: [None, *f[1:]]).missing


def test_the_command_line_writes_a_strip_and_takes_marks(tmp_path, dejacue, monkeypatch):
    write_demo(tmp_path / "cup")
    cup, out = tmp_path / "cup", tmp_path / "out"
    options = ("-v", cup / "vocabulary.yaml", "--masks", cup / "Annotations", "--encoder", "mini")
    ran = dejacue("find", cup / "scene.mp4", *options, "-o", out, "--strip")
    assert ran.code == 0, ran.err
    with Image.open(out / "strip.png") as sheet:
        assert sheet.size[0] > 1000
    frames = Finding.read(out).strip(12).frames
    ran = dejacue("find", out, "--mark", "full=3-5", "--mark", "empty=1,9-12", "-o", out)
    assert ran.code == 0, ran.err
    named = Finding.read(out).named
    assert Window(frames[2], frames[4]) in named["full"]
    assert named["empty"] == [Window(frames[0], frames[0]), Window(frames[8], frames[11])]
    for bad in ("full", "full=0", "full=a", "full=3-99", "full=5-3", "emtpy=1-3"):
        assert dejacue("find", out, "--mark", bad).code == 2
    assert dejacue("find", out, "--strip", "-r", "published").code == 2
    answers = iter(["full=9-2", "full=3-6 'half full'=8", ""])
    monkeypatch.setattr("dejacue.cli.find.is_interactive", lambda: True)
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(answers))
    ran = dejacue("find", out, "--strip", "-o", tmp_path / "asked")
    assert ran.code == 0, ran.err
    assert "strip.png" in ran.err  # stays that of the whole, to which --mark refers
    assert "border.png" in ran.err
    assert Finding.read(tmp_path / "asked").named["half full"]
    assert Window(frames[2], frames[5]) in Finding.read(tmp_path / "asked").named["full"]


@pytest.mark.long
def test_marks_that_name_states_are_exhaustive_where_that_is_said(tmp_path, dejacue):
    cup, out = write_demo(tmp_path / "cup"), tmp_path / "out"
    scene = ("find", cup / "scene.mp4", "--masks", cup / "Annotations", "--encoder", "mini")
    assert dejacue(*scene, "--strip", "--exhaustive", "-o", out).code == 0  # nothing is marked yet
    marks = ("--mark", "full=1-4", "--mark", "empty=9-12")
    assert dejacue(*scene, *marks, "--exhaustive", "-o", out).code == 0
    finding = Finding.read(out)
    assert finding.vocabulary.exhaustive
    assert set(finding.labels) == set(finding.named) == {"full", "empty"}
    assert dejacue(*scene, *marks, "-o", tmp_path / "other").code == 0
    other = Finding.read(tmp_path / "other")
    assert None in other.named  # pictures that were not marked
    assert None in other.labels


@pytest.mark.long
def test_without_words_marks_name_the_states(tmp_path, dejacue, monkeypatch):
    cup, out = write_demo(tmp_path / "cup"), tmp_path / "out"
    scene = ("find", cup / "scene.mp4", "--masks", cup / "Annotations", "--encoder", "mini")
    ran = dejacue(*scene, "--mark", "none=12", "-o", out)
    assert (ran.code, out.exists()) == (2, False)  # no state, refused before the work
    ran = dejacue(*scene, "--strip", "-o", out)
    assert (ran.code, (out / "strip.png").is_file()) == (0, True), ran.err
    assert not (out / "finding.json").exists()
    before = (out / "strip.png").read_bytes()
    marks = ("--mark", "full=3-5", "--mark", "empty=1,9-12")
    assert dejacue(*scene, *marks, "--strip", "-r", "contrast", "-o", out).code == 0
    finding = Finding.read(out)
    assert (out / "strip.png").read_bytes() == strip_sheet(finding.strip()) != before
    frames = finding.strip(12).frames
    assert list(finding.vocabulary.states) == ["full", "empty"]
    assert finding.named["full"] == [Window(frames[2], frames[4])]
    assert finding.timeline.settings["readout"]["name"] == "contrast"
    assert dejacue("find", out, "--mark", "full=3-4").code == 0  # states have names now
    saved = (out / "finding.json").read_bytes()
    hall = shutil.copy(cup / "scene.mp4", tmp_path / "hall.mp4")
    runs = (*scene, "--strip"), (*scene, *marks), ("encode", *scene[1:])
    for run in runs:  # of other frames: what was marked would be gone
        ran = dejacue(*run, "--stride", 2, "-o", out)
        assert (ran.code, "other frames" in ran.err) == (2, True)
    ran = dejacue("find", hall, *scene[2:], "-v", cup / "vocabulary.yaml", "-o", out)
    assert (ran.code, "of scene.mp4" in ran.err) == (2, True)
    with refused(out, "scene.mp4"):
        find(hall, whole=True, encoder="mini", folder=out)
    assert (out / "finding.json").read_bytes() == saved
    history = out / f"{finding.history.id}.history.npz"
    (out / "finding.json").unlink()
    assert dejacue("find", history, *marks).code == 2  # its strip may be another one
    answers = iter(["none=12", "full=3-5 empty=1,9-12", ""])
    monkeypatch.setattr("dejacue.cli.find.is_interactive", lambda: True)
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(answers))
    assert dejacue(*scene, "--strip", "-o", out).code == 0
    assert Finding.read(out).named["full"] == [Window(frames[2], frames[4])]


def test_named_windows_leave_out_frames_that_are_not_in_the_history():
    sample, finding = made()
    words = sample.vocabulary.with_examples(empty=[5, 10_000])
    assert replace(finding, vocabulary=words).named == {"empty": [Window(5, 5)]}


def test_the_smallest_histories_have_strips():
    sample = generate(1, frames=40)
    for count in (1, 2, 3):
        history = History(sample.history.features[:count])
        finding = Finding(history, sample.vocabulary, analyse(history, sample.vocabulary))
        answer = finding.mark(finding.strip(12), {"empty": (1, count)})
        assert answer["empty"][0].window == Window(0, count - 1)
        assert answer.borders() == ()


def test_a_strip_comes_before_the_states_and_new_ones_may_appear_at_any_time(tmp_path):
    cup = write_demo(tmp_path / "cup")
    shown = strip(cup / "scene.mp4", masks=cup / "Annotations", encoder="mini", pictures=16)
    assert (len(shown), shown.believed, shown.missing) == (16, (None,) * 16, None)
    assert shown.save(tmp_path / "strip.png").read_bytes() == shown._repr_png_()
    finding = shown.mark(full="1-3, 5")
    assert finding.mark(shown, {"full": [(1, 3), 5]}).labels == finding.labels
    assert shown.mark({"full": [(1, 3), 5]}).labels == finding.labels
    assert finding.named["full"] == [
        Window(shown.frames[0], shown.frames[2]),
        Window(shown.frames[4], shown.frames[4]),
    ]
    finer = finding.strip(8, border=("full", "end"))
    later = finding.strip(16).mark(empty="14-16")
    assert list(later.vocabulary.states) == ["full", "empty"]
    assert later.at(frame=shown.frames[14]) == "empty"
    assert finer.mark(full=1).named["full"][0].start == shown.frames[0]
    worded = find(cup / "scene.mp4", cup / "vocabulary.yaml", encoder="mini", whole=True)
    new = worded.strip().mark(tilted=(2, 3))
    assert [i.state for i in new if i.confirmed] == ["tilted"]
    assert {"full", "tilted"} < set(new.vocabulary.states)
    with refused("name"):
        strip(cup / "scene.mp4", encoder="mini")
    assert strip(finding).believed == finding.strip().believed
