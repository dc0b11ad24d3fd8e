"""Preliminary answers while find works, and files of a search that was stopped."""

import io
import json
import math

import numpy as np
import pytest
from helpers.errors import refused
from rich.console import Console

from dejacue import Example, Finding, Vocabulary, find, locate
from dejacue.cli import main, tables
from dejacue.errors import Cancelled
from dejacue.pipeline import _encode
from dejacue.pipeline._encode import PreliminaryAnswers
from dejacue.progress import silent
from dejacue.sources.encoders.mini import Mini
from dejacue_paper import generate
from dejacue_paper.data.rendered import render, write_scene


class Watcher:
    """Takes answers; stops the search when crops are encoded after so many of them."""

    def __init__(self, stop_after=None):
        self.answers, self.stop_after = [], stop_after

    def __call__(self, stage, done, total=None, note=""):
        stopping = self.stop_after is not None and len(self.answers) >= self.stop_after
        if stage == "encode" and stopping:
            raise Cancelled("stopped")

    def answer(self, timeline):
        self.answers.append(timeline)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("preview") / "cup"
    write_scene(folder, render(11, family="cup", topology="binary", frames=80))
    return folder


@pytest.fixture
def cup(scene, monkeypatch):
    monkeypatch.setattr(_encode, "EVERY_S", 0.0)
    monkeypatch.setattr(_encode, "MAX_SHARE", math.inf)
    monkeypatch.setattr(Mini, "batch", 8)

    def run(vocabulary=scene / "vocabulary.yaml", **options):
        options = {"masks": scene / "Annotations", "encoder": "mini", "objects": [1]} | options
        return find(scene / "scene.mp4", vocabulary, **options)

    return run


def test_answers_come_about_once_a_second_and_not_to_a_plain_function():
    now, scene, watcher = 0.0, generate(1), Watcher()
    preview = PreliminaryAnswers(watcher, lambda history: history, lambda: now)
    for tenth in range(35):
        now = tenth / 10
        preview.see(lambda: {"cup": scene.history})
    assert len(watcher.answers) == 3
    plain = PreliminaryAnswers(silent, lambda history: pytest.fail("read"), lambda: now)
    now = 99.0
    plain.see(lambda: {"cup": scene.history})
    assert list(plain.histories) == ["cup"]


def test_reading_answers_takes_a_small_share_of_the_time():
    now, scene, watcher = 0.0, generate(1), Watcher()

    def slow(history):
        nonlocal now
        now += 2.0
        return history

    preview = PreliminaryAnswers(watcher, slow, lambda: now)
    for _ in range(50):
        now += 1.0
        preview.see(lambda: {"cup": scene.history})
    assert len(watcher.answers) == 3


def test_watching_gives_preliminary_answers_and_does_not_change_the_last(cup):
    watcher = Watcher()
    watched, unwatched = cup(progress=watcher), cup()
    assert len(watcher.answers) > 1
    for timeline in watcher.answers:
        assert timeline.notes[0].startswith("preliminary")
    assert [i.window for i in watched] == [i.window for i in unwatched]
    assert np.array_equal(watched.history.features, unwatched.history.features)
    assert not any(note.startswith("preliminary") for note in watched.timeline.notes)


def test_answers_do_not_wait_for_the_frames_that_show_a_state(cup):
    examples = [Example("empty", (3, 3)), Example(None, (60, 60)), Example("filled", (70, 76))]
    words = Vocabulary({"empty": [], "filled": []}, examples=examples, changes=[50])
    watcher = Watcher()
    watched, unwatched = cup(vocabulary=words, progress=watcher), cup(vocabulary=words)
    assert len(watcher.answers) == 10  # one for each batch of eight
    for timeline in watcher.answers:
        assert timeline.notes[0].startswith("preliminary")
        assert list(timeline.states) == ["empty", "filled"]
    assert watcher.answers[2]["empty"]
    assert [i.window for i in watched] == [i.window for i in unwatched]


def test_what_was_known_when_it_was_stopped_goes_with_the_error(cup, tmp_path):
    with refused(Cancelled) as caught:
        cup(progress=Watcher(stop_after=1), folder=tmp_path)
    (finding,) = caught.value.preliminary
    assert finding.warnings[0].startswith("preliminary")
    assert finding.warnings[0].severity == "doubtful"
    finding.write(tmp_path)  # as the command does
    assert Finding.read(tmp_path).timeline.notes[0] == finding.warnings[0]
    whole = cup(folder=tmp_path)
    alone = cup()
    assert np.array_equal(whole.history.features, alone.history.features)
    assert not any(note.startswith("preliminary") for note in whole.timeline.notes)


def test_a_command_that_is_stopped_writes_whole_files_and_ends_with_130(
    scene, tmp_path, monkeypatch
):
    calls, encode = [], Mini.encode_images

    def stopped(self, crops):
        calls.append(len(crops))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return encode(self, crops)

    monkeypatch.setattr(Mini, "batch", 8)
    monkeypatch.setattr(Mini, "encode_images", stopped)
    options = ["--masks", scene / "Annotations", "--object", "1", "-v", scene / "vocabulary.yaml"]
    command = ["find", scene / "scene.mp4", *options, "--encoder", "mini", "-o", tmp_path / "out"]
    monkeypatch.setattr("sys.argv", ["dejacue", *map(str, command)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130
    document = json.loads((tmp_path / "out/timeline.json").read_text())
    assert "preliminary" in json.dumps(document["notes"])
    assert "preliminary" in (tmp_path / "out/report.html").read_text()
    monkeypatch.setattr(Mini, "encode_images", encode)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    assert "preliminary" not in (tmp_path / "out/timeline.json").read_text()


def test_a_file_gets_a_line_every_ten_seconds(capsys):
    now = 0.0
    scene = generate(1)
    with tables.Bars(lambda: now) as progress:
        for second in range(35):
            now = float(second)
            progress("encode", second, 100)
            if second == 15:
                progress.answer(locate(scene.history, scene.vocabulary))
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("encode:")]
    assert [line.split(";")[0] for line in lines] == [
        "encode: 10 of 100",
        "encode: 20 of 100",
        "encode: 30 of 100",
    ]
    assert "empty" in lines[1]
    assert "empty" not in lines[0]


def test_a_terminal_shows_a_table_of_the_answer_so_far(monkeypatch):
    scene = generate(1)
    screen = Console(record=True, force_terminal=True, width=100, file=io.StringIO())
    monkeypatch.setattr(tables, "console", lambda stderr: screen)
    with tables.Bars() as progress:
        progress("encode", 3, 10)
        progress.answer(locate(scene.history, scene.vocabulary))
        screen.print(progress._renderable())
    text = screen.export_text()
    assert "preliminary" in text
    assert "filled" in text
