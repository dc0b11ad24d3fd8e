"""States typed as words, and several videos: what a word is, what a video, and what comes out."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest

from dejacue import Finding
from dejacue.cli.find import videos_and_words
from dejacue.files import read_vocabulary
from dejacue.models.encoders.mini import Mini


@pytest.fixture
def clips(scene, tmp_path, monkeypatch) -> Path:
    """Two copies of the scene in the folder clips of an empty folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clips").mkdir()
    for name in ("a.mp4", "b.mp4"):
        shutil.copy(scene / "scene.mp4", tmp_path / "clips" / name)
    return Path("clips")


@pytest.fixture
def find(dejacue, scene, clips):
    """Run ``dejacue find`` with the masks of the scene."""
    where = ("--masks", scene / "Annotations", "--object", 1, "--encoder", "mini")
    return lambda *words: dejacue("find", *words, *where)


def test_words_after_the_video_are_states(find):
    ran = find("clips/a.mp4", "empty cup", "cup filled to the brim", "-o", "out")
    assert ran.code == 0, ran.err
    words = Finding.read(Path("out")).vocabulary
    assert dict(words.states) == {
        "empty cup": ("empty cup",),
        "cup filled to the brim": ("cup filled to the brim",),
    }
    assert "│ empty cup " in ran.out


def test_a_state_may_have_a_name_and_several_descriptions_and_is_saved_as_yaml(find):
    words = ("-s", "empty=empty cup", "-s", "empty=drained cup", "full=full cup")
    ran = find("clips/a.mp4", *words, "-o", "typed", "--save-states", "cup.yaml", "--name", "cup")
    assert ran.code == 2  # masks and a name both say where it is; nothing is written
    assert not Path("cup.yaml").exists()
    ran = find("clips/a.mp4", *words, "-o", "typed", "--save-states", "cup.yaml")
    assert ran.code == 0, ran.err
    saved = read_vocabulary(Path("cup.yaml"))
    assert dict(saved.states) == {"empty": ("empty cup", "drained cup"), "full": ("full cup",)}
    for given in (("-v", "cup.yaml"), ("cup.yaml",)):  # a list of words is one wherever it stands
        assert find("clips/a.mp4", *given, "-o", "listed").code == 0
        answers = [Path(f, "timeline.json").read_text() for f in ("typed", "listed")]
        assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("=empty cup",), 'state "=empty cup": give "empty cup", or with a name'),
        (("-s", "empty="), 'state "empty=": give "empty cup"'),
        (("empty cup", "empty cup", "-v", "x.yaml"), "x.yaml: states are given in words, too"),
        (("x.yaml", "y.yaml"), "x.yaml: y.yaml is given, too; leave one of them out"),
        (("empty cup",), "1 state in words alone"),
        (("--save-states", "cup.yaml"), "no states are given in words"),
        (("a cup", "no cup", "--save-states", "cup.txt"), "give a name that ends in .yaml"),
        (("a cup", "no cup", "--save-states", "mine.yaml"), "mine.yaml: already exists"),
    ],
)
def test_words_that_cannot_be_states_are_refused_before_anything_is_written(find, words, sentence):
    Path("mine.yaml").write_text("mine")
    ran = find("clips/a.mp4", *words)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err
    assert ran.err.count("\n") == 1
    assert {path.name for path in Path().iterdir()} == {"clips", "mine.yaml"}


def test_one_word_is_one_state_that_an_example_or_a_strip_shows(find):
    ran = find("clips/a.mp4", "full cup", "-e", "full cup=40", "-e", "none=3", "-o", "out")
    assert ran.code == 0, ran.err
    finding = Finding.read(Path("out"))
    assert dict(finding.vocabulary.states) == {"full cup": ("full cup",)}
    assert {example.state for example in finding.vocabulary.examples} == {"full cup", None}
    ran = find("clips/b.mp4", "full cup", "--strip", "-o", "strip")
    assert ran.code == 0, ran.err
    assert "--mark 'full cup=3-6'" in ran.err
    assert find("clips/b.mp4", "full cup", "--mark", "full cup=10-12", "-o", "strip").code == 0
    assert list(Finding.read(Path("strip")).named) == ["full cup", None]


def test_what_exists_or_matches_a_glob_is_a_video_and_the_rest_are_words(clips):
    named = {
        ("clips/a.mp4", "clips/b.mp4", "empty cup"): (["a.mp4", "b.mp4"], ["empty cup"]),
        ("clips/*.mp4", "a=b"): (["a.mp4", "b.mp4"], ["a=b"]),
        ("clips", "red"): (["a.mp4", "b.mp4"], ["red"]),
        ("clips/a.mp4", "clips/*", "red"): (["a.mp4", "b.mp4"], ["red"]),  # each once
        ("nowhere", "red"): (["nowhere"], ["red"]),  # the first is a video, or a mistake
        ("clips/a.mp4", "gone.MP4", "red"): (["a.mp4", "gone.MP4"], ["red"]),
        ("clips/a.mp4", "gone/*.mkv", "red"): (["a.mp4", "*.mkv"], ["red"]),
    }
    for texts, (names, words) in named.items():
        videos, others = videos_and_words(texts)
        assert ([path.name for path in videos], others) == (names, words), texts


def test_several_videos_have_a_folder_each_and_one_table(find, dejacue, monkeypatch):
    loaded = []
    real = Mini.__init__
    monkeypatch.setattr(Mini, "__init__", lambda *given: loaded.append(1) or real(*given))
    ran = find("clips/*.mp4", "empty cup", "full cup")
    assert ran.code == 0, ran.err
    assert ran.out.count("┏") == 1
    assert "2 histories" in ran.out
    for name in "ab":
        assert f"│ {name} " in ran.out
        assert Path("out", name, "report.html").is_file()
    assert len(loaded) == 1
    again = dejacue("find", "out/a", "out/b", "-f", "json", "-o", "all")
    documents = [json.loads(Path("all", n, "timeline.json").read_text()) for n in "ab"]
    assert json.loads(again.out) == documents
    ran = find("clips", "empty cup", "full cup", "-o", "found.csv", "--questions", 1)
    assert ran.code == 0, ran.err
    asked = re.findall(r"^question: which state is frame \d+ of (\w+) ", ran.err, re.MULTILINE)
    assert asked == ["a", "b"]
    with open("found.csv") as stream:
        assert {row["history"] for row in csv.DictReader(stream)} == {"a", "b"}


def test_videos_of_one_name_have_folders_of_their_own(find, scene):
    Path("other").mkdir()
    shutil.copy(scene / "scene.mp4", "other/a.mp4")
    assert find("clips/a.mp4", "other/a.mp4", "empty cup", "full cup").code == 0
    folders = sorted(path.name for path in Path("out").iterdir())
    assert (len(folders), folders[0]) == (2, "a")
    videos = {Path(Finding.read(Path("out", f)).provenance.video).parent.name for f in folders}
    assert videos == {"clips", "other"}


def test_one_damaged_video_does_not_stop_the_others(find):
    Path("clips/aa.mp4").write_text("junk")
    ran = find("clips", "gone.mp4", "empty cup", "full cup")
    assert ran.code == 1
    assert "dejacue: clips/aa.mp4: is not a video" in ran.err
    assert "dejacue: gone.mp4: no such file" in ran.err
    assert sorted(path.name for path in Path("out").iterdir()) == ["a", "b"]
    assert "│ b " in ran.out
    ran = find("clips/a.mp4", "clips/b.mp4", "-v", "gone.yaml")
    assert (ran.code, ran.err) == (2, "dejacue: gone.yaml: no such file\n")


def test_marks_are_of_the_strip_of_one_video(find):
    ran = find("clips", "--mark", "full=1-3")
    assert (ran.code, ran.out) == (2, "")
    assert "marks are of one strip, but 2 videos are given" in ran.err
