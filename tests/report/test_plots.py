"""The evidence plot is readable whatever the words are, and gives no warning."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
from helpers.errors import refused
from msgspec import structs
from PIL import Image

from dejacue import History, Reference, Timeline, Vocabulary, locate
from dejacue.method import Window
from dejacue.method.localization import analyse
from dejacue.report.plots import evidence_figure, save_png, wrapped
from dejacue_paper import generate

SCENE = generate(3, gaps=((100, 7),))


def drawn(text: str, references=None, history: History = SCENE.history):
    words = Vocabulary({"one": [text], "two": ["b"]}, SCENE.vocabulary.features[::2], "generated")
    return evidence_figure(history, analyse(history, words), references)


@pytest.mark.parametrize(
    "text",
    ["a very long description of a cup " * 40, "W" * 900, "日本語" * 90, "costs $5 and $x_{", "x"],
    ids=["long", "one word", "no such letters", "formula", "short"],
)
def test_any_words_give_a_picture_of_ordinary_size_without_a_warning(tmp_path, text) -> None:
    history = replace(SCENE.history, id=text[:400])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = save_png(tmp_path / "p.png", drawn(text, history=history))
    with Image.open(path) as picture:
        assert picture.width == 1200
        assert picture.height < 800


def test_long_words_are_shortened_and_the_window_stays() -> None:
    assert wrapped("short", ": [0, 9]") == "short: [0, 9]"
    lines = wrapped("word " * 500, ": [0, 9]").splitlines()
    assert 2 <= len(lines) <= 4
    assert lines[-1].endswith("…: [0, 9]")


def test_a_state_that_was_not_found_has_a_curve_and_no_shaded_window() -> None:
    words = Vocabulary({"one": ["a"], "two": ["b"]}, SCENE.vocabulary.features[::2], "generated")
    timeline = analyse(SCENE.history, words)
    gone = Timeline.of(timeline["two"], timeline.states, evidence=timeline.evidence)
    figure = evidence_figure(SCENE.history, gone)
    shaded = [sum(patch.get_alpha() == 0.22 for patch in axis.patches) for axis in figure.axes]
    assert shaded == [0, 1]
    assert all(axis.lines for axis in figure.axes)


def test_a_timeline_without_evidence_says_how_to_make_it() -> None:
    with refused("timeline", "make it with dejacue.find, or dejacue.method.localization.analyse"):
        evidence_figure(SCENE.history, locate(SCENE.history, SCENE.vocabulary))


def test_references_of_the_file_are_drawn_where_the_samples_lie() -> None:
    frames = SCENE.history.frames
    history = History(SCENE.history.features, frames, source_frames=4 * frames)

    def bars(figure) -> list[list[float]]:
        lines = [line for line in figure.axes[0].lines if line.get_lw() == 3]
        return [[float(x) for x in line.get_xdata()] for line in lines]

    assert bars(drawn("x", {"one": [Window(40, 80)]}, history)) == [[9.5, 20.5]]
    assert bars(drawn("x", {"one": [Window(41, 43)]}, history)) == []  # none of it was taken
    assert bars(drawn("x", {"one": [Window(10, 20)]})) == [[9.5, 20.5]]


def test_what_was_missed_is_hollow_and_what_is_superfluous_hatched() -> None:
    frames = SCENE.history.frames
    last = int(frames[-1])
    windows = {"one": [(0, 1), (5, 6)], "two": [(last, last)]}
    complete = Reference("x", windows, frames=(0, last), complete=True)

    def marks(figure) -> tuple[int, int]:
        hollow = sum(line.get_color() == "white" for axis in figure.axes for line in axis.lines)
        hatched = sum(bool(patch.get_hatch()) for axis in figure.axes for patch in axis.patches)
        return hollow, hatched

    drawing = drawn("x", complete)
    assert marks(drawing)[0] == 3
    assert marks(drawing)[1] > 0
    assert "hollow: missed · hatched: superfluous" in " ".join(drawing.get_suptitle().split())
    plain = drawn("x", structs.replace(complete, complete=False))
    assert marks(plain) == (0, 0)
    assert "hollow" not in plain.get_suptitle()


def test_seconds_stand_below_the_frames_where_the_history_has_times() -> None:
    frames = SCENE.history.frames
    timed = History(SCENE.history.features, frames, times_s=5 + frames / 10)
    (second,) = drawn("x", history=timed).axes[-1].child_axes
    labels = [text.get_text() for text in second.get_xticklabels()]
    assert labels[:2] == ["5 s", "10 s"]
    assert second.get_xticks()[:2] == pytest.approx([0, 50])
    assert drawn("x").axes[-1].child_axes == []


def test_the_legend_cannot_be_taken_for_a_state() -> None:
    assert "(shaded: window found" in drawn("x").get_suptitle()


def test_titles_name_the_windows_that_are_shaded_and_no_others() -> None:
    scene = generate(3, recurrences=6, frames=600)
    timeline = analyse(scene.history, scene.vocabulary)
    count = len(timeline["empty"])
    assert count > 3
    figure = evidence_figure(scene.history, timeline)
    first, second, third = (interval.window for interval in timeline["empty"][:3])
    title = figure.axes[0].get_title(loc="left").replace("\n", " ")
    assert title.endswith(f": {first}, {second}, {third} and {count - 3} more")
    gone = Timeline.of([], timeline.states, evidence=timeline.evidence)
    title = evidence_figure(scene.history, gone).axes[0].get_title(loc="left")
    assert title.endswith(": not found")


def test_a_single_frame_of_a_huge_number_is_drawn_without_a_warning(tmp_path) -> None:
    history = History(SCENE.history.features[:1], [2**53])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert save_png(tmp_path / "p.png", drawn("a cup", history=history)).is_file()


def test_very_many_descriptions_still_fit_into_a_picture(tmp_path) -> None:
    from matplotlib.figure import Figure

    path = save_png(tmp_path / "p.png", Figure(figsize=(2, 900)))
    with Image.open(path) as picture:
        assert picture.height <= 60_000
