"""What notebooks show of the records: well-formed, complete in itself, escaped, true to them."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from dejacue import (
    History,
    Interval,
    Reference,
    Timeline,
    Vocabulary,
    evaluate,
    locate,
)
from dejacue.records import Note
from dejacue.records._html import BarRow, bars_html
from dejacue.report.page import finding_html
from dejacue_paper import generate

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=\"a\" b='c'> & ]]>\x00\x1b\ud800"
SHOWN = HOSTILE.replace("\x00\x1b\ud800", "\ufffd\ufffd?")
JPEG = b"\xff\xd8\xff\xe0 a picture"


def cup(**options) -> History:
    """Return a history of frames 0 … 3 and 6 … 9, half a second each."""
    frames = np.array([0, 1, 2, 3, 6, 7, 8, 9])
    return History(np.ones((8, 4)), frames, "cup", "mini", times_s=frames * 0.5, **options)


def timeline_of(
    state: str = "empty", text: str = "empty cup", note: str = "a note", id: str = "cup"
) -> Timeline:
    intervals = [
        Interval(state, 0, 3, 2.31, 0.0, 2.0),
        Interval(state, 8, 9, 0.25, 4.0, 5.0, 0.4),
        Interval("filled", 6, 7, 4.0, 3.0, 4.0),
    ]
    states = {state: [text], "filled": ["cup filled with tea"]}
    return Timeline.of(intervals, states, history_id=id, encoder="mini", notes=[note])


def parsed(page: str) -> ElementTree.Element:
    """Return the parsed page, which has no scripts and nothing to fetch."""
    page.encode()
    root = ElementTree.fromstring(page)
    for element in root.iter():
        assert element.tag not in ("script", "link", "iframe", "style")
        assert not [name for name in element.attrib if name.startswith("on")]
        assert element.get("src", "data:").startswith("data:")
    assert "url(" not in page
    return root


def rows(root: ElementTree.Element) -> list[list[str]]:
    """Return the text of the cells; lines of a cell are separated by |."""
    for br in root.iter("br"):
        br.text = "|"
    return [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]


def bars(root: ElementTree.Element, line: int) -> list[tuple[float, float, str]]:
    svg = list(root.iter("svg"))[line]
    return [
        (float(bar.get("x", "")), float(bar.get("width", "")), bar.get("fill", ""))
        for bar in svg.iter("rect")
        if bar.get("fill") != "#808080"
    ]


def test_a_timeline_shows_windows_seconds_trust_and_notes() -> None:
    root = parsed(timeline_of()._repr_html_())
    assert rows(root) == [
        ["", "", "frames", "time", "trust", "description"],
        [
            "■ empty",
            "0 to 3, 8 to 9",
            "0 – 3|8 – 9",
            "0.00 – 2.00 s|4.00 – 5.00 s",
            "|unsure",
            "empty cup",
        ],
        ["■ filled", "6 to 7", "6 – 7", "3.00 – 4.00 s", "", "cup filled with tea"],
        ["", "09"],
    ]
    assert "a note" in "".join(root.itertext())
    assert root.findtext("strong") == "cup"


def test_windows_are_drawn_where_they_lie() -> None:
    root = parsed(timeline_of()._repr_html_())  # ten frames on 360 pixels
    assert bars(root, 0) == [(0.0, 144.0, "#0072B2"), (288.0, 72.0, "#0072B2")]
    assert bars(root, 1) == [(216.0, 72.0, "#D55E00")]


def test_without_times_there_is_no_column_of_seconds() -> None:
    timeline = Timeline.of([Interval("a", 3, 4, 1.0)], {"a": ["an a"]})
    table = rows(parsed(timeline._repr_html_()))
    assert table[:2] == [
        ["", "", "frames", "trust", "description"],
        ["■ a", "3 to 4", "3 – 4", "", "an a"],
    ]


def test_a_state_that_was_not_found_has_no_bar() -> None:
    timeline = timeline_of()
    partly = Timeline.of(timeline["empty"], timeline.states, history_id="cup")
    root = parsed(partly._repr_html_())
    assert rows(root)[2] == ["■ filled", "no frames", "not found", "", "", "cup filled with tea"]
    assert bars(root, 1) == []
    parsed(Timeline.of([], {})._repr_html_())


def test_descriptions_that_share_an_answer_share_a_line() -> None:
    scene = generate(3)
    shared = locate(scene.history, scene.vocabulary, readout="contrast")
    apart = locate(scene.history, scene.vocabulary, readout="scan")
    assert len(list(parsed(shared._repr_html_()).iter("svg"))) == 2
    assert len(list(parsed(apart._repr_html_()).iter("svg"))) == 4


def test_many_intervals_are_folded_away_below_the_first() -> None:
    found = [Interval("a", 4 * k, 4 * k + 1, 1.0) for k in range(20)] + [Interval("b", 2, 3, 1.0)]
    timeline = Timeline.of(found, {"a": ["an a"], "b": ["a b"]}, history_id="cup")
    root = parsed(timeline._repr_html_())
    table = rows(root)
    assert table[1][2].split("|")[-2:] == ["28 – 29", "… and 12 more"]
    (folded,) = root.iter("details")
    assert folded.get("open") is None
    assert folded.findtext("summary") == "all 21 intervals"
    every = rows(folded)
    assert [row[:2] for row in every[1:4]] == [["a", "0 – 1"], ["b", "2 – 3"], ["a", "4 – 5"]]
    assert len(every) == 22
    assert not list(parsed(timeline_of()._repr_html_()).iter("details"))


def test_a_finding_shows_warnings_pictures_gaps_and_seconds() -> None:
    pictures = [(frame, JPEG) for frame in (9, 0, 3)]
    timeline = timeline_of().replace(notes=["a note", Note("mind the gap", "doubtful")])
    root = parsed(finding_html(cup(), timeline, thumbnails=pictures))
    words = "".join(root.itertext())
    assert "⚠ doubtful: mind the gap" in words
    assert words.count("mind the gap") == words.count("a note") == 1
    assert "0 · 0.00 s9 · 4.50 s" in words
    images = list(root.iter("img"))
    assert [image.get("alt") for image in images] == ["frame 0", "frame 3", "frame 9"]
    assert base64.b64decode(images[0].get("src", "").split(",")[1]) == JPEG
    grey = [r for r in next(root.iter("svg")).iter("rect") if r.get("fill") == "#808080"]
    assert [(r.get("x"), r.get("width")) for r in grey] == [("0.0", "144.0"), ("216.0", "144.0")]


def test_of_many_pictures_a_notebook_shows_a_few_over_the_whole_video() -> None:
    pictures = [(frame, JPEG) for frame in range(100)]
    root = parsed(finding_html(cup(), timeline_of(), thumbnails=pictures))
    frames = [int(image.get("alt", "").split()[1]) for image in root.iter("img")]
    assert len(frames) == 8
    assert frames[0] == 0
    assert frames[-1] > 80


def test_a_history_shows_its_runs_frames_seconds_and_encoder() -> None:
    root = parsed(cup()._repr_html_())
    assert bars(root, 0) == [(0.0, 144.0, "#0072B2"), (216.0, 144.0, "#0072B2")]
    words = "".join(root.itertext())
    assert "8 of 10 frames in 2 runs; 4-d float32, encoder mini" in words
    assert "0 · 0.00 s9 · 4.50 s" in words


def test_very_many_runs_stay_small() -> None:
    history = History(np.ones((20_000, 2)), np.arange(20_000) * 2)
    page = history._repr_html_()
    parsed(page)
    assert len(page) < 5_000
    sparse = History(np.ones((200, 2)), np.arange(200) * 1_000)
    root = parsed(sparse._repr_html_())
    assert len(bars(root, 0)) == 200
    (title,) = (element.text for element in root.iter("title"))
    assert title.split(", ") == [f"{at} to {at}" for at in range(0, 20_000, 1_000)]


def test_a_vocabulary_shows_states_descriptions_and_encoder() -> None:
    states = {"empty": ["empty cup", "no tea"], "filled": ["full cup"]}
    root = parsed(Vocabulary(states, np.eye(3), "mini", "cup")._repr_html_())
    assert root.findtext("strong") == "cup"
    assert rows(root)[1:] == [["empty", "empty cup|no tea"], ["filled", "full cup"]]
    assert "3-d, encoder mini" in "".join(root.itertext())
    assert "not encoded yet" in Vocabulary(states)._repr_html_()


def test_an_evaluation_shows_means_with_intervals_and_paired_differences() -> None:
    scenes = [generate(seed, signal=0.6) for seed in range(4)]
    references = [Reference(scene.history.id, scene.references) for scene in scenes]
    methods = {
        name: [locate(scene.history, scene.vocabulary, coordinates=name) for scene in scenes]
        for name in ("absolute", "vocabulary")
    }
    result = evaluate(methods, references)
    table = rows(parsed(result._repr_html_()))
    assert table[0] == ["", "R@1 .3", "R@1 .5", "Top-1 tIoU"]
    assert [row[0] for row in table[1:]] == ["absolute", "vocabulary", "vocabulary - absolute"]
    mean, low, high = (100 * value for value in result.methods["vocabulary"]["r1_05"])
    assert table[2][2] == f"{mean:.1f} [{low:.1f}, {high:.1f}]"
    delta = result.comparisons["vocabulary - absolute"]["r1_05"]
    assert table[3][2].startswith(f"{100 * delta.delta:+.1f} [".replace("-", "−"))
    assert table[3][2].endswith(f"|p {delta.p:.2g}, Holm {delta.holm_p:.2g}")
    alone = evaluate({"x": methods["absolute"][:1]}, references[:1])._repr_html_()
    assert re.search(r">\d+\.\d</td>", alone)  # one component: no interval


def test_words_from_outside_stay_words() -> None:
    plain = HOSTILE.replace("\x00\x1b\ud800", "")
    timeline = timeline_of(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    for page, count in (
        (timeline._repr_html_(), 4),
        (finding_html(cup(), timeline.replace(notes=[Note(HOSTILE, "doubtful")])), 4),
        (bars_html(HOSTILE, [BarRow(HOSTILE, "#0072B2", [])], 0, 9, head=[HOSTILE]), 3),
    ):
        assert "".join(parsed(page).itertext()).count(SHOWN) == count
    pages = [
        History(np.ones((2, 2)), id=plain, encoder=plain)._repr_html_(),
        Vocabulary({plain: [plain], "b": ["b"]}, encoder=plain, object=plain)._repr_html_(),
    ]
    assert ["".join(parsed(page).itertext()).count(plain) for page in pages] == [2, 4]


@pytest.mark.parametrize("page", [timeline_of()._repr_html_(), cup()._repr_html_()])
def test_text_takes_the_colour_of_the_notebook(page) -> None:
    """Light or dark: no colour is set but that of bars and badges, no background at all."""
    assert set(re.findall(r"[;\"]color:([^;\"]*)", page)) <= {"#0072B2", "#D55E00"}
    assert set(re.findall(r"background:([^;\"]*)", page)) == {"none"}
