"""The HTML report: well-formed, complete in itself, escaped, small, and true to the records."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest
from msgspec import structs

from dejacue import History, Interval, Reference, Timeline, locate
from dejacue.method import Evidence, Scan, Window
from dejacue.method.localization import analyse
from dejacue.records import Diagnostics, Note
from dejacue.records._html import clock
from dejacue.report._timeline import Axis
from dejacue.report.page import report_page
from dejacue.report.scene import timeline_module
from dejacue_paper import generate

VOID = {"meta", "br", "img"}
JPEG = b"\xff\xd8\xff\xe0 a picture"


class Outline(HTMLParser):
    """Check that every tag closes; keep tags with their attributes, and the plain words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"{tag} has an attribute twice: {names}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return " ".join("".join(f"{word} " for word in self.words).split())


def drawings(page: str) -> list[ElementTree.Element]:
    """Return every SVG of the page, parsed as XML."""
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def scene_of(page: str) -> dict:
    """Return the scene that the script draws."""
    (text,) = re.findall(r'<script type="application/json" id="scene">(.*?)</script>', page)
    return json.loads(text)


STATES = {"empty": ["empty cup"], "filled": ["cup filled with tea"]}
FRAMES = np.array([0, 1, 2, 3, 6, 7, 8, 9, 10, 11])
WINDOWS = (  # state, start, end, score, confidence
    ("empty", 0, 2, 2.31, 0.6),
    ("filled", 6, 8, 4.0, 0.4),
    ("empty", 9, 10, 0.25, 0.1),
)


def small(times=None, states=STATES, notes=("a note",), id="cup", settings=None, **options):
    """Return ten frames, 0 … 3 and 6 … 11, with the occurrences of two states by hand."""
    history = History(np.ones((10, 4)), FRAMES, id, "mini", times_s=times, **options)
    responses = np.array([[1, 2, 1, 0, -1, -1, -1, 0, 0, -1], [-1, 0, 0, 0, 1, 2, 3, 2, 1, 0.0]])
    intervals = []
    for state, start, end, score, confidence in WINDOWS:
        first, last = history.rows_of(Window(start, end))
        seconds = (None, None)
        if times is not None:
            seconds = float(history.times_s[first]), float(history.ends_s[last])
        source = tuple(history.to_source(Window(start, end))) if history.sampled else (None, None)
        name = list(states)[list(STATES).index(state)]
        intervals.append(
            Interval(name, start, end, score, *seconds, confidence, False, None, *source)
        )
    usual = {"coordinates": "vocabulary", "readout": {"name": "scan", "norm": "sqrt"}}
    return history, Timeline.of(
        intervals,
        states,
        history_id=id,
        encoder="mini",
        notes=notes,
        settings=settings or usual,
        evidence=seen(responses, FRAMES),
    )


def seen(responses, frames) -> Evidence:
    flat = np.zeros(len(responses))
    return Evidence(responses.astype(np.float32), flat, flat + 1, responses, frames)


REFERENCES = {"empty": (Window(0, 3),), "filled": (Window(6, 7), Window(9, 11))}


def test_every_tag_closes_and_every_drawing_is_xml() -> None:
    scene = generate(3, states=("a", "b", "c"), frames=240, gaps=((70, 14), (171, 6)))
    history = History(
        scene.history.features,
        scene.history.frames,
        "cup",
        times_s=scene.history.frames / 30,
        presence=np.linspace(0, 1, len(scene.history)),
        made_with={"padding": "0.2"},
    )
    timeline = analyse(history, scene.vocabulary, readout="scan", diagnostics=True)
    page = report_page(
        history,
        timeline,
        references=scene.references,
        thumbnails=[(0, JPEG), (200, JPEG)],
        video="kitchen.mp4",
    )
    outline = Outline(page)
    assert len(drawings(page)) == 6 + 3  # descriptions, references
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert "padding" in outline.text
    assert "kitchen.mp4" in outline.text
    assert scene_of(page)["presence"] is not None


def test_without_script_occurrences_and_references_are_drawn_where_they_lie() -> None:
    page = report_page(*small(), references=REFERENCES)

    def bars(line: int, colour: str) -> list[tuple[float, float]]:
        rects = drawings(page)[line].findall(f"rect[@fill='{colour}']")
        return [(float(bar.get("x", "")), float(bar.get("width", ""))) for bar in rects]

    blue, orange, ink = "#0072B2", "#D55E00", "currentColor"
    assert bars(0, blue) == [(0, 90), (270, 60)]  # 3 and 2 of 12 frames of 360 units
    assert bars(1, orange) == [(180, 90)]
    assert bars(2, ink) == [(0, 120)]
    assert bars(3, ink) == [(180, 60), (270, 90)]
    assert bars(0, "#808080") == [(0, 120), (180, 180)]  # observed
    labels = re.findall(r"</span> ([^<]*)</td><td[^>]*><svg", page)
    assert labels == ["empty", "filled", "empty: reference", "filled: reference"]
    rows = scene_of(page)["rows"]
    drawn = [[(w["start"], w["end"]) for w in row["windows"]] for row in rows]
    assert drawn == [[(0, 2), (9, 10)], [(6, 8)]]
    assert scene_of(page)["references"]["filled"] == [[6, 7], [9, 11]]


def table_of(page: str) -> list[list[str]]:
    body = re.search(r"<table aria-describedby.*?</table>", page, re.DOTALL)
    assert body
    table = ElementTree.fromstring(body[0])
    return [[" ".join("".join(c.itertext()).split()) for c in row] for row in table.iter("tr")]


def test_the_table_has_a_line_an_occurrence_in_time_with_its_trust_and_overlap() -> None:
    page = report_page(*small(FRAMES * 0.5), references=REFERENCES)
    words, times = ("empty cup", "cup filled with tea"), ("0.00 – 1.50 s", "3.00 – 4.50 s")
    assert table_of(page) == [
        ["state", "description", "frames", "time", "trust", "reference", "tIoU"],
        ["1 empty", words[0], "0 – 2", times[0], "more likely right", "0 – 3", "0.75"],
        ["2 filled", words[1], "6 – 8", times[1], "unsure", "6 – 7", "0.67"],
        ["1 empty", "", "9 – 10", "4.50 – 5.50 s", "a guess", "", "0.00"],
        ["2 filled", "", "not found", "", "", "9 – 11", "0.00"],
    ]
    table = page[page.index("<table aria-describedby") :]
    assert re.findall(r'scope="(\w+)"', table) == ["col"] * 7 + ["row"] * 4


COMPLETE = Reference("cup", REFERENCES, frames=(0, 11), complete=True)


def test_a_complete_reference_is_told_in_words_and_in_the_table() -> None:
    page = report_page(*small(), references=COMPLETE)
    words = (
        "Compared with the complete reference: 2 of 3 true occurrences found (tIoU ≥ .5), "
        "1 missed, 1 superfluous; frame accuracy 58.3 %, F1@.50 66.7 %, edit score 66.7 %."
    )
    assert words in Outline(page).text
    table = table_of(page)
    assert table[0][-2:] == ["tIoU", "result"]
    assert [(row[0], row[2], *row[-3:]) for row in table[1:]] == [
        ("1 empty", "0 – 2", "0 – 3", "0.75", "found"),
        ("2 filled", "6 – 8", "6 – 7", "0.67", "found"),
        ("1 empty", "9 – 10", "", "0.00", "superfluous"),
        ("2 filled", "not found", "9 – 11", "0.00", "missed"),
    ]
    labels = re.findall(r"</span> ([^<]*)</td><td[^>]*><svg", page)
    assert labels[2:] == [
        "empty: reference",
        "filled: reference",
        "filled: missed",
        "empty: superfluous",
    ]
    partly = report_page(*small(), references=structs.replace(COMPLETE, complete=False))
    assert "Compared with" not in partly
    assert table_of(partly)[0][-1] == "tIoU"


def test_a_true_occurrence_that_is_overlapped_too_little_is_missed() -> None:
    reference = structs.replace(COMPLETE, states={"empty": (Window(2, 5),)})
    rows = [row[1:] for row in table_of(report_page(*small(), references=reference))[1:]]
    assert ["", "not found", "", "2 – 5", "0.17", "missed"] in rows
    assert [
        STATES["empty"][0],
        "0 – 2",
        "more likely right",
        "2 – 5",
        "0.17",
        "superfluous",
    ] in rows


def test_times_are_those_of_a_clock_everywhere() -> None:
    page = report_page(*small(FRAMES * 20.0 + 1300))
    assert [row[3] for row in table_of(page)[1:]] == [
        "21:40.00 – 22:40.00",
        "23:40.00 – 24:40.00",
        "24:40.00 – 25:20.00",
    ]
    assert not re.search(r"\b1[34]\d\d\.\d", Outline(page).text)


def test_each_interval_has_the_picture_nearest_to_its_middle() -> None:
    page = report_page(*small(), thumbnails=[(frame, JPEG) for frame in (2, 4, 7, 9, 11)])
    frames = [tag["data-frame"] for tag in Outline(page).named("figure") if "data-frame" in tag]
    assert frames == ["2", "7", "9"]  # of 0 – 2, 6 – 8 and 9 – 10


def test_the_video_is_linked_and_nothing_else_may_be_fetched() -> None:
    page = report_page(*small(), film='../a b/"ü#.mp4')
    (film,) = Outline(page).named("video")
    assert film["src"] == "../a%20b/%22%C3%BC%23.mp4"
    assert "media-src 'self' file:;" in page
    assert "media-src" not in report_page(*small())


def test_what_a_person_named_is_confirmed_and_without_trust_there_is_no_column() -> None:
    history, timeline = small()
    named = [Interval("empty", 0, 2, 2.31, confirmed=True), Interval("filled", 6, 9, 1.0)]
    page = report_page(history, Timeline.of(named, timeline.states, history_id="cup"))
    assert [row[3] for row in table_of(page)] == ["trust", "confirmed", ""]
    assert [
        span["style"] for span in Outline(page).named("span") if span.get("class") == "sure"
    ] == ["--sure:1.000"]
    page = report_page(history, Timeline.of(named[1:], timeline.states, history_id="cup"))
    assert table_of(page)[0] == ["state", "description", "frames"]
    assert "trust:" not in Outline(page).text.lower()


def test_without_times_and_references_neither_is_mentioned() -> None:
    page = report_page(*small())
    assert table_of(page)[0] == ["state", "description", "frames", "trust"]
    text = Outline(page).text
    assert "time:" not in text.lower()
    assert "reference" not in text.lower()
    assert scene_of(page)["times"] is None


def test_a_state_without_references_has_no_overlap_and_a_strange_one_has_a_row() -> None:
    page = report_page(
        *small(), references={"filled": (Window(6, 8),), "broken": (Window(50, 60),)}
    )
    assert [row[-2:] for row in table_of(page)[1:]] == [["", "–"], ["6 – 8", "1.00"], ["", "–"]]
    drawn = scene_of(page)
    assert [state["name"] for state in drawn["states"]] == ["empty", "filled", "broken"]
    assert drawn["references"]["broken"] == []  # it lies outside the observed frames


def test_header_notes_and_details_say_how_it_was_made() -> None:
    times = np.array([0, 1, 2, 3, 6, 7, 8, 9, 10, 71.5])
    sampled = small(
        times,
        made_with={"backend": "onnx", "encoder": "a second line"},
        source_frames=np.arange(10) * 5,
    )
    outline = Outline(report_page(*sampled, object="My cup"))
    assert "Observed frames 0 – 11, 0.00 s – 1:12.50: 10 of 12 (83 %) in 2 runs" in outline.text
    assert "a note" in outline.text
    for pair in (
        "coordinates vocabulary",
        "readout.name scan",
        "readout.norm sqrt",
        "encoder mini",
        "encoder a second line",
        "backend onnx",
        "features 10 × 4, float32",
        "observed runs [0, 3], [6, 11]",
        "frames of the source 0 – 45",
    ):
        assert pair in outline.text
    assert outline.text.startswith("cup cup Object My cup Encoder mini")


def test_diagnostics_become_remarks() -> None:
    history, timeline = small()
    why = Diagnostics(0.0, True, 0.0, 1e-3, True, Window(0, 3), True)
    intervals = [Interval("empty", 0, 2, 1.0, diagnostics=why)]
    page = report_page(history, Timeline.of(intervals, timeline.states, history_id="cup"))
    assert table_of(page)[2] == [
        "",
        "plain similarity was used · the response hardly varies · touches the edge of its run",
    ]


def test_nothing_is_fetched_and_only_its_script_may_run() -> None:
    page = report_page(*small(), thumbnails=[(3, JPEG)])
    assert not re.search(r"https?:|url\(|@import|<link|<iframe|<object|srcset", page)
    for _, attributes in Outline(page).tags:
        assert attributes.get("src", "data:").startswith("data:")
        assert attributes.get("href", "#").startswith("#")
        assert not [name for name in attributes if name.startswith("on")]
    scripts = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    assert len(scripts) == 1
    assert scripts[0].startswith(timeline_module())
    assert not re.search(r"^\s*import\b|\bimport\(|\beval\(", scripts[0], re.MULTILINE)
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = next(a["content"] for a in Outline(page).named("meta") if "http-equiv" in a)
    assert policy == (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )


HOSTILE = (
    "</title></svg></style><script>alert(1)</script><img src=x onerror=\"a\" b='c'> & ]]> $body"
)


def test_words_from_outside_stay_words() -> None:
    states = {f"{state} {HOSTILE}": [f"{texts[0]} {HOSTILE}"] for state, texts in STATES.items()}
    history, timeline = small(
        states=states,
        notes=(Note(f"{HOSTILE}?", "doubtful"),),
        id=HOSTILE,
        settings={"x": {HOSTILE: HOSTILE}},
        made_with={HOSTILE: HOSTILE},
    )
    page = report_page(
        history,
        timeline.replace(encoder=HOSTILE),
        references={f"empty {HOSTILE}": (Window(0, 3),)},
        video=HOSTILE,
        tracker=HOSTILE,
        doubts=[(Window(0, 3), HOSTILE)],
    )
    outline = Outline(page)
    assert outline.named("script") == [
        {"type": "application/json", "id": "scene"},
        {"type": "module"},
    ]
    assert scene_of(page)["notes"] == [{"severity": "doubtful", "text": f"{HOSTILE}?"}]
    assert outline.named("img") == []
    assert not re.search(r"(?<!&lt;script&gt;)(?<!\\u003cscript>)alert\(1\)", page)
    assert outline.text.count(" ".join(HOSTILE.split())) >= 18
    drawings(page)


def test_characters_that_no_xml_may_hold_are_replaced() -> None:
    page = report_page(*small(), object="a\x00b\x1bc\ud800d")
    assert "<bdi>a\ufffdb\ufffdc?d</bdi>" in page
    page.encode("utf-8")


def test_thumbnails_are_embedded_in_order_with_their_frame_and_time() -> None:
    page = report_page(*small(FRAMES * 0.5), thumbnails=[(9, JPEG), (2, b"\x89PNG\r\n"), (4, JPEG)])
    images = Outline(page).named("img")
    assert [image["alt"] for image in images] == [
        "frame 2, 1.00 s",
        "frame 4, 2.00 s",
        "frame 9, 4.50 s",
    ]
    head, data = images[2]["src"].split(",")
    assert head == "data:image/jpeg;base64"
    assert base64.b64decode(data) == JPEG
    assert images[0]["src"].startswith("data:image/png;base64,")


def test_crops_stand_under_the_thumbnail_of_their_frame() -> None:
    page = report_page(*small(), thumbnails=[(2, JPEG), (9, JPEG)], crops=[(9, JPEG), (5, JPEG)])
    assert [image["alt"] for image in Outline(page).named("img")] == [
        "frame 2",
        "frame 9",
        "object in frame 9",
    ]
    assert page.count('<span class="crop"></span>') == 1  # keeps the labels in one line
    assert 'class="crop"' not in report_page(*small(), thumbnails=[(2, JPEG)])


def test_the_most_severe_notes_stand_above_everything_else() -> None:
    doubts = Note("mind the gap", "doubtful"), Note("and the step", "doubtful")
    words = Outline(report_page(*small(notes=("a note", *doubts)))).text
    assert words.index("Doubtful mind the gap and the step") < words.index("a note")
    assert "Doubtful" not in Outline(report_page(*small())).text


def test_forty_descriptions_of_an_hour_stay_below_two_megabytes() -> None:
    scene = generate(
        7, states=tuple("abcdefghij"), frames=108_000, dimension=16, descriptions=4, missing=0.1
    )
    responses = np.random.default_rng(0).normal(size=(40, len(scene.history)))
    history = History(
        scene.history.features, scene.history.frames, times_s=scene.history.frames / 29.97
    )
    timeline = locate(history, scene.vocabulary, readout=Scan(durations=(8,)))
    timeline = timeline.replace(evidence=seen(responses, history.frames))
    page = report_page(history, timeline, references=scene.references)
    assert len(page.encode()) < 2_000_000
    assert len(scene_of(page)["rows"]) == 40
    assert "Pale: minimum and maximum of neighbouring frames" in page
    assert "Pale: minimum" not in report_page(*small())


@pytest.mark.parametrize(
    ("seconds", "digits", "words"),
    [
        (0, 2, "0.00 s"),
        (4.1, 2, "4.10 s"),
        (59.999, 2, "1:00.00"),
        (64.1, 2, "1:04.10"),
        (64, 0, "1:04"),
        (3604.1, 1, "1:00:04.1"),
        (-0.5, 1, "−0.5 s"),
        (-0.001, 2, "0.00 s"),
    ],
)
def test_clock(seconds, digits, words) -> None:
    assert clock(seconds, digits) == words


def test_ticks_are_round_and_follow_the_times_of_the_frames() -> None:
    history = History(np.ones((100, 2)), range(100), times_s=np.arange(100) * 0.04 + 10)
    axis = Axis(history)
    times = axis.ticks()
    assert [label for _, label in times] == [f"{10 + n / 2:.1f} s" for n in range(8)]
    assert [frame for frame, _ in times[:2]] == pytest.approx([0, 12.5])


@pytest.mark.parametrize(
    ("frames", "times", "looked_at"),
    [
        ([0, 1, 2], [0, 1e9, 2e9], "3"),
        ([0, 1, 2], [-(2.0**53), 0, 2.0**53], "3"),
        ([0, 1, 2], [2.0**53, 0, -(2.0**53)], "3"),
        ([0, 1, 2], [1e15, 1e15 + 0.125, 1e15 + 0.25], "3"),
        ([0, 1, 2], [5.0, 5.0, 5.0], "3"),
        ([0, 1, 2], [0, 5e-324, 1e-323], "3"),
        ([5, 6, 7], [1e15, 2e15, 3e15], "9" * 15),
        ([-(2**53), 0, 2**53], [0, 1, 2], "3"),
        ([2**53], [0], "3"),
    ],
)
def test_ticks_of_huge_times_and_frames_are_few_and_in_place(frames, times, looked_at) -> None:
    options = {"times_s": times, "made_with": {"frames": looked_at}}
    axis = Axis(History(np.ones((len(frames), 2)), frames, **options))
    ticks = axis.ticks()
    assert len(ticks) <= 11
    first, last = axis.frames
    assert all(first <= frame <= last for frame, _ in ticks)
    assert bool(ticks) == (len(frames) > 1 and bool((np.diff(times) > 0).all()))


def test_times_that_do_not_grow_give_no_axis_of_seconds() -> None:
    times = np.array([0, 1, 2, 3, 6, 7, 7, 9, 10, 11.0])
    history, timeline = small(times)
    page = report_page(history, timeline)
    assert scene_of(page)["times"] is None
    assert Axis(history).ticks() == []
    assert "time" in table_of(page)[0]


def test_a_single_frame_and_a_flat_response_are_drawn() -> None:
    history = History(np.ones((1, 4)), [7], "one", times_s=[0.5])
    nothing = np.zeros((1, 1))
    page = report_page(
        history,
        Timeline.of(
            [Interval("a", 7, 7, 0.0, 0.5)],
            {"a": ["an a"]},
            history_id="one",
            evidence=seen(nothing, history.frames),
        ),
    )
    Outline(page)
    # how long the frame lasts is not known
    assert table_of(page)[1] == ["1 a", "an a", "7 – 7", "0.50 s"]


def test_a_sampled_history_shows_both_counts_and_references_where_they_lie() -> None:
    truth = {"empty": (Window(0, 12),), "filled": (Window(30, 44),)}
    page = report_page(*small(source_frames=5 * FRAMES), references=truth, object="coffee cup")
    assert table_of(page)[0][2:4] == ["frames", "source frames"]
    filled = table_of(page)[2]
    assert filled[2:4] == ["6 – 8", "30 – 40"]
    assert filled[-2:] == ["30 – 44", f"{Window(30, 40).iou(Window(30, 44)):.2f}"]
    assert table_of(page)[3][2:4] == ["9 – 10", "45 – 50"]
    assert "Object coffee cup" in Outline(page).text
    plain = report_page(*small(), references={"empty": (Window(0, 2),), "filled": (Window(6, 8),)})
    drawn, expected = (
        [[rect.attrib for rect in svg.iter("rect")] for svg in drawings(text)]
        for text in (page, plain)
    )
    assert drawn == expected
    assert scene_of(page)["references"] == scene_of(plain)["references"]


def test_all_frames_taken_need_no_second_count() -> None:
    words = Outline(report_page(*small(source_frames=FRAMES))).text
    assert "source frames" not in words
    assert "Object" not in words  # no vocabulary names it, and the file does not


def test_doubts_are_marked_and_listed_also_where_the_object_is_out_of_sight():
    scene = generate(3, gaps=[(100, 12)])
    frames = scene.history.frames
    sampled = History(
        scene.history.features[::2],
        np.arange(len(frames))[::2] // 2,
        "h",
        source_frames=frames[::2],
    )
    sampled = History(
        sampled.features,
        np.concatenate([np.arange(50), np.arange(56, 56 + len(sampled) - 50)]),
        "h",
        source_frames=sampled.source_frames,
    )
    for history, of in ((scene.history, ""), (sampled, " of the file")):
        vocabulary = scene.vocabulary
        page = report_page(
            history,
            analyse(history, vocabulary),
            doubts=[(Window(100, 111), "it is out of sight"), (Window(5000, 5001), "far away")],
            tracker="light",
        )
        assert f"frames 100 – 111{of}: it is out of sight" in page
        (doubt,) = scene_of(page)["doubts"]
        assert doubt["text"] == "it is out of sight"
        assert "far away" not in page
        assert "light" in page


@pytest.mark.parametrize(
    ("count", "tail"), [(12, None), (13, "… and 1 more"), (20, "… and 8 more")]
)
def test_of_many_doubts_the_first_twelve_are_listed_and_the_others_counted(count, tail):
    doubts = [(Window(6, 6), f"doubt {n}") for n in range(count)]
    words = Outline(report_page(*small(), doubts=doubts)).words
    listed = [word for word in words if word.startswith("frame 6: doubt")]
    assert listed == [f"frame 6: doubt {n}" for n in range(12)]
    assert [word for word in words if word.endswith("more") and "… and" in word] == (
        [tail] if tail else []
    )


@pytest.mark.parametrize(("count", "tail"), [(20, None), (21, "and 1 more")])
def test_of_many_runs_the_first_twenty_are_named_and_the_others_counted(count, tail):
    frames = np.arange(0, 2 * count, 2)
    history = History(np.ones((count, 2)), frames, "cup")
    timeline = Timeline.of([Interval("empty", 0, 0, 1.0)], {"empty": ["empty cup"]})
    words = Outline(report_page(history, timeline)).words
    (runs,) = [word for word in words if word.startswith("[0, 0], [2, 2]")]
    assert runs.count("[") == 20
    assert runs.endswith(f", {tail}" if tail else "]")


def test_a_state_that_was_not_found_has_no_window_on_the_page():
    history, timeline = small(FRAMES * 0.5)
    partly = Timeline.of(timeline["empty"], STATES, history_id="cup", evidence=timeline.evidence)
    page = report_page(history, partly, references=REFERENCES)
    assert table_of(page)[-2:] == [
        ["2 filled", "cup filled with tea", "not found", "", "", "6 – 7", "0.00"],
        ["2 filled", "", "not found", "", "", "9 – 11", "0.00"],
    ]
    assert scene_of(page)["rows"][1]["windows"] == []
    assert scene_of(page)["rows"][1]["evidence"] is not None
    assert 'fill="#D55E00"' not in page


def test_a_timeline_without_evidence_is_shown_without_curves():
    scene = generate(3)
    page = report_page(scene.history, locate(scene.history, scene.vocabulary))
    assert [row["evidence"] for row in scene_of(page)["rows"]] == [None, None]
    assert "Line: how well" not in page
    assert page.count('scope="row"') == 2


def test_descriptions_share_an_answer_where_the_readout_answers_the_state():
    scene = generate(3)
    for readout, answers in (("contrast", 2), ("non-overlap", 2), ("scan", 4)):
        timeline = analyse(scene.history, scene.vocabulary, readout=readout)
        assert report_page(scene.history, timeline).count('scope="row"') == answers
