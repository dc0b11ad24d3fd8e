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
from hypothesis import given
from hypothesis import strategies as st

from dejacue import (
    Evidence,
    History,
    InputError,
    Moment,
    Retrieval,
    Scan,
    Window,
    evidence,
    locate,
)
from dejacue.records import Diagnostics
from dejacue.report._timeline import (
    MAX_GAPS,
    Axis,
    clock,
    curve_path,
    decimate,
    gaps_path,
    mean_path,
    observed_path,
)
from dejacue.report.page import report_page
from dejacue.report.scene import timeline_module
from dejacue_paper import generate

VOID = {"meta", "br", "img"}
JPEG = b"\xff\xd8\xff\xe0 a picture"


class Outline(HTMLParser):
    """Checks that every tag closes, and keeps tags with their attributes and the plain words."""

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
    """Every SVG of the page, parsed as XML."""
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def scene_of(page: str) -> dict:
    """What the script draws."""
    (text,) = re.findall(r'<script type="application/json" id="scene">(.*?)</script>', page)
    return json.loads(text)


def small(times=None, **more):
    """Ten frames, 0 … 3 and 6 … 11, two states; windows and scores by hand."""
    frames = np.array([0, 1, 2, 3, 6, 7, 8, 9, 10, 11])
    history = History(np.ones((10, 4)), frames, "cup", "mini", times_s=times, **more)
    responses = np.array([[1, 2, 1, 0, -1, -1, -1, 0, 0, -1], [-1, 0, 0, 0, 1, 2, 3, 2, 1, 0.0]])
    seen = Evidence(responses.astype(np.float32), np.zeros(2), np.ones(2), responses, frames)
    first = Moment(
        "empty",
        "empty cup",
        Window(0, 2),
        2.31,
        alternatives=((Window(9, 10), 0.25),),
        times_s=None if times is None else (float(times[0]), float(times[2])),
    )
    second = Moment("filled", "cup filled with tea", Window(6, 9), 4.0)
    settings = {"coordinates": "vocabulary", "readout": {"name": "scan", "norm": "sqrt"}, "top": 2}
    return history, seen, Retrieval((first, second), settings, "cup", "mini", ("a note",))


REFERENCES = {"empty": (Window(0, 3),), "filled": (Window(6, 7), Window(9, 11))}


def test_every_tag_closes_and_every_drawing_is_xml() -> None:
    made = generate(3, states=("a", "b", "c"), frames=240, gaps=((70, 14), (171, 6)))
    history = History(
        made.history.features,
        made.history.frames,
        "cup",
        times_s=made.history.frames / 30,
        presence=np.linspace(0, 1, len(made.history)),
        made_with={"padding": "0.2"},
    )
    retrieval = locate(made.history, made.vocabulary, readout="scan", top=3, diagnostics=True)
    page = report_page(
        history,
        evidence(made.history, made.vocabulary, readout="scan"),
        retrieval,
        references=made.references,
        thumbnails=[(0, JPEG), (200, JPEG)],
        video="kitchen.mp4",
        references_note="by hand",
    )
    outline = Outline(page)
    figures = [svg for svg in drawings(page) if svg.get("role") == "img"]
    assert len(figures) == 3 + 1 + 6 + 1  # states, observed, descriptions, presence
    for svg in figures:
        ids = {child.tag: child.get("id") for child in svg}
        assert ids["title"] == svg.get("aria-labelledby")
        assert ids["desc"] == svg.get("aria-describedby")
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for attributes in outline.named("use"):
        assert attributes["href"].removeprefix("#") in ids
    assert "padding" in outline.text
    assert "kitchen.mp4" in outline.text
    assert "presence (the tracker's confidence)" in outline.text


def test_windows_alternatives_and_references_are_drawn_where_they_lie() -> None:
    page = report_page(*small(), references=REFERENCES)
    figures = {svg.findtext("title"): svg for svg in drawings(page) if svg.get("role") == "img"}

    def bars(name: str, kind: str) -> list[tuple[int, int]]:
        found = figures[name].findall(f"rect[@class='{kind}']")
        return [(int(bar.get("x", "")), int(bar.get("width", ""))) for bar in found]

    assert bars("State empty", "found") == [(0, 2500)]  # 3 of 12 frames of 10000 units
    assert bars("State empty", "reference") == [(0, 3333)]
    assert bars("State filled", "found") == [(5000, 3333)]
    assert bars("State filled", "reference") == [(5000, 1667), (7500, 2500)]
    assert bars("Evidence for empty cup", "found") == [(0, 2500)]
    assert bars("Evidence for empty cup", "other") == [(7500, 1667)]
    assert bars("Evidence for cup filled with tea", "other") == []
    about = figures["Evidence for empty cup"].findtext("desc") or ""
    assert "Found: frames 0 – 2." in about
    assert "Alternatives: frames 9 to 10." in about
    assert "Reference: frames 0 to 3." in about


def table_of(page: str) -> list[list[str]]:
    body = re.search(r"<table.*?</table>", page, re.DOTALL)
    assert body
    table = ElementTree.fromstring(body[0])
    return [[" ".join("".join(c.itertext()).split()) for c in row] for row in table.iter("tr")]


def test_the_table_lists_frames_seconds_scores_and_overlap() -> None:
    times = np.array([0, 1, 2, 3, 6, 7, 8, 9, 10, 11]) * 0.5
    page = report_page(*small(times), references=REFERENCES, references_note="by two people")
    assert table_of(page) == [
        ["state", "description", "frames", "seconds", "score", "reference", "tIoU"],
        ["1 empty", "empty cup", "0 – 2", "0.00 – 1.00", "2.31", "0 – 3", "0.75"],
        ["", "or 9 – 10 (4.50 – 5.00 s), score 0.25"],
        [
            "2 filled",
            "cup filled with tea",
            "6 – 9",
            "3.00 – 4.50",
            "4.00",
            "6 – 7, 9 – 11",
            "0.50",
        ],
    ]
    assert "References: by two people" in Outline(page).text
    assert [a.get("scope") for a in Outline(page).named("th")] == ["col"] * 7 + ["row"] * 2


def test_without_times_and_references_neither_is_mentioned() -> None:
    page = report_page(*small())
    assert table_of(page)[0] == ["state", "description", "frames", "score"]
    text = Outline(page).text
    assert "seconds" not in text.lower()
    assert "reference" not in text.lower()
    assert 'data-unit="time"' not in page
    assert scene_of(page)["times"] is None


def test_a_state_without_references_has_no_overlap_and_a_strange_one_has_a_row() -> None:
    page = report_page(
        *small(), references={"filled": (Window(6, 9),), "broken": (Window(50, 60),)}
    )
    rows = table_of(page)
    assert rows[1][-2:] == ["", "–"]
    assert rows[-1][-1] == "1.00"
    names = [svg.findtext("title") for svg in drawings(page)]
    assert "State broken" in names
    broken = next(svg for svg in drawings(page) if svg.findtext("title") == "State broken")
    assert broken.findall("rect") == []  # it lies outside the observed frames
    assert "frames 50 to 60" in (broken.findtext("desc") or "")


def test_header_notes_and_details_say_how_it_was_made() -> None:
    times = np.array([0, 1, 2, 3, 6, 7, 8, 9, 10, 71.5])
    given = small(
        times,
        made_with={"backend": "onnx", "encoder": "a second line"},
        source_frames=np.arange(10) * 5,
    )
    outline = Outline(report_page(*given, title="My cup"))
    assert "Observed frames 0 – 11, 0.00 s – 1:11.50: 10 of 12 (83 %) in 2 runs" in outline.text
    assert "a note" in outline.text
    for pair in (
        "coordinates vocabulary",
        "readout.name scan",
        "readout.norm sqrt",
        "top 2",
        "encoder mini",
        "encoder a second line",
        "backend onnx",
        "features 10 × 4, float32",
        "observed runs [0, 3], [6, 11]",
        "frames of the source 0 – 45",
    ):
        assert pair in outline.text
    assert outline.text.startswith("My cup My cup Object cup Encoder mini")


def test_diagnostics_become_remarks() -> None:
    history, seen, retrieval = small()
    why = Diagnostics(0.0, True, 0.0, 1e-3, True, Window(0, 3), True)
    moments = tuple(
        Moment(one.state, one.description, one.window, one.score, diagnostics=why)
        for one in retrieval
    )
    page = report_page(history, seen, Retrieval(moments, {}, "cup"))
    assert table_of(page)[2] == [
        "",
        "plain similarity was used · the response hardly varies · touches the edge of its run",
    ]


def test_nothing_is_fetched_and_only_the_own_script_may_run() -> None:
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
    history, seen, retrieval = small()
    history = History(
        history.features, history.frames, HOSTILE, HOSTILE, made_with={HOSTILE: HOSTILE}
    )
    moments = tuple(
        Moment(f"{one.state} {HOSTILE}", f"{one.description} {HOSTILE}", one.window, one.score)
        for one in retrieval
    )
    hostile = Retrieval(moments, {"x": {HOSTILE: HOSTILE}}, HOSTILE, HOSTILE, (HOSTILE,))
    page = report_page(
        history,
        seen,
        hostile,
        references={f"empty {HOSTILE}": (Window(0, 3),)},
        title=HOSTILE,
        video=HOSTILE,
        references_note=HOSTILE,
        tracker=HOSTILE,
        warnings=[HOSTILE],
        doubts=[(Window(0, 3), HOSTILE)],
    )
    outline = Outline(page)
    drawings(page)
    assert outline.named("script") == [
        {"type": "application/json", "id": "scene"},
        {"type": "module"},
    ]
    assert scene_of(page)["notes"] == [HOSTILE]
    assert outline.named("img") == []
    assert not re.search(r"(?<!&lt;script&gt;)(?<!\\u003cscript>)alert\(1\)", page)
    assert outline.text.count(" ".join(HOSTILE.split())) >= 18
    titles = [svg.findtext("title") for svg in drawings(page)]
    assert f"Evidence for empty cup {HOSTILE}" in titles


def test_characters_that_no_xml_may_hold_are_replaced() -> None:
    history, seen, retrieval = small()
    page = report_page(history, seen, retrieval, title="a\x00b\x1bc\ud800d")
    assert "<bdi>a\ufffdb\ufffdc?d</bdi>" in page
    page.encode("utf-8")


def test_thumbnails_are_embedded_in_order_with_their_frame_and_time() -> None:
    times = np.array([0, 1, 2, 3, 6, 7, 8, 9, 10, 11]) * 0.5
    page = report_page(*small(times), thumbnails=[(9, JPEG), (2, b"\x89PNG\r\n"), (4, JPEG)])
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
    threads = re.findall(r'<line x1="(\d+)" y1="0" x2="(\d+)"', page)
    assert threads == [("1667", "2083"), ("5000", "3750"), ("8333", "7917")]


def test_crops_stand_under_the_thumbnail_of_their_frame() -> None:
    page = report_page(*small(), thumbnails=[(2, JPEG), (9, JPEG)], crops=[(9, JPEG), (5, JPEG)])
    assert [image["alt"] for image in Outline(page).named("img")] == [
        "frame 2",
        "frame 9",
        "object in frame 9",
    ]
    assert page.count('<span class="crop"></span>') == 1  # keeps the labels in one line
    assert 'class="crop"' not in report_page(*small(), thumbnails=[(2, JPEG)])


def test_warnings_stand_above_everything_else() -> None:
    words = Outline(report_page(*small(), warnings=["mind the gap", "and the step"])).text
    assert words.index("Warnings mind the gap and the step") < words.index("a note")
    assert "Warning" not in Outline(report_page(*small())).text


def test_many_thumbnails_scroll_and_have_no_threads() -> None:
    page = report_page(*small(), thumbnails=[(frame % 12, JPEG) for frame in range(15)])
    assert 'class="strip many"' in page
    assert "<line" not in page


def test_a_thumbnail_that_is_no_picture_is_refused() -> None:
    with pytest.raises(InputError, match=r"thumbnail of frame 3 is neither JPEG nor PNG"):
        report_page(*small(), thumbnails=[(3, b"GIF89a")])


def test_evidence_of_another_history_is_refused() -> None:
    _, seen, retrieval = small()
    other = History(np.ones((9, 4)))
    with pytest.raises(InputError, match=r"shape \(2, 10\), but there are 2 descr.* 9 observed"):
        report_page(other, seen, retrieval)


def test_forty_descriptions_of_an_hour_stay_below_two_megabytes() -> None:
    made = generate(
        7, states=tuple("abcdefghij"), frames=108_000, dimension=16, descriptions=4, missing=0.1
    )
    rng = np.random.default_rng(0)
    responses = rng.normal(size=(40, len(made.history)))
    seen = Evidence(
        np.zeros((40, 1), np.float32), np.zeros(40), np.ones(40), responses, made.history.frames
    )
    history = History(
        made.history.features, made.history.frames, times_s=made.history.frames / 29.97
    )
    retrieval = locate(made.history, made.vocabulary, readout=Scan(durations=(8,)))
    page = report_page(history, seen, retrieval, references=made.references)
    assert len(page.encode()) < 2_000_000
    paths = re.findall(r'class="line dense" d="([^"]*)"', page)
    assert len(paths) == 40
    assert all(500 < len(re.findall(r"\d+ \d+", path)) <= 2_000 for path in paths)
    assert page.count('class="mean"') == 40


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=400),
    st.integers(2, 40),
    st.integers(0, 2**32 - 1),
)
def test_a_thinned_curve_keeps_the_extremes_of_every_bin(steps, most, seed) -> None:
    frames = np.cumsum(steps)
    row = np.random.default_rng(seed).normal(size=len(frames))
    kept = decimate(frames, row, most)
    assert len(kept) <= max(most, 2)
    assert (np.diff(kept) > 0).all()
    if len(frames) <= most:
        assert len(kept) == len(frames)
        return
    span = frames[-1] - frames[0] + 1
    for number in range(most // 2):
        own = [i for i, f in enumerate(frames) if (f - frames[0]) * (most // 2) // span == number]
        if own:
            assert row[own].min() in row[kept]
            assert row[own].max() in row[kept]


def test_a_curve_breaks_at_gaps_and_a_lonely_frame_is_a_dot() -> None:
    axis = Axis(History(np.ones((4, 2)), [0, 1, 4, 9]))
    path = curve_path(axis, np.array([0.0, 1.0, 0.5, 0.0]), 0.0, 1.0)
    # ten frames of 1000 units; 1 lies at 150, 0 at 960
    assert path == "M500 960 1500 150M4500 555h0M9500 960h0"
    assert mean_path(axis, np.zeros(4), 0.0, 1.0) == ""


def test_a_thinned_curve_still_breaks_at_a_wide_gap() -> None:
    frames = np.concatenate((np.arange(0, 5_000), np.arange(6_000, 10_000)))
    axis = Axis(History(np.ones((len(frames), 2)), frames))
    row = np.sin(frames / 50.0)
    for path in (curve_path(axis, row, -1.0, 1.0), mean_path(axis, row, -1.0, 1.0)):
        pieces = path.split("M")[1:]
        ends = [
            (int(x[0]), int(x[-1])) for x in (re.findall(r"(\d+) \d+", piece) for piece in pieces)
        ]
        assert len(pieces) == 2
        assert ends[0][1] <= 5_000 < 6_000 <= ends[1][0]


def test_gaps_and_runs_are_drawn_to_scale() -> None:
    axis = Axis(History(np.ones((4, 2)), [0, 1, 4, 9]))
    assert gaps_path(axis) == "M2000 0h2000v1000h-2000zM5000 0h4000v1000h-4000z"
    assert observed_path(axis) == "M0 0H2000V1000H0zM4000 0H5000V1000H4000zM9000 0H10000V1000H9000z"
    assert gaps_path(Axis(History(np.ones((3, 2))))) == "M0 0h0"


def test_very_many_gaps_are_drawn_as_stretches_and_a_profile() -> None:
    frames = np.concatenate((np.arange(0, 8_000, 2), np.arange(12_000, 20_000, 2)))
    axis = Axis(History(np.ones((len(frames), 2)), frames))
    gaps = re.findall(r"M(\d+) 0h(\d+)", gaps_path(axis))
    assert len(gaps) <= MAX_GAPS
    widest = max(gaps, key=lambda gap: int(gap[1]))
    assert abs(int(widest[0]) - 4_000) <= 10  # 8000 of 20000 frames, in units of 10000
    assert abs(int(widest[1]) - 2_000) <= 20
    profile = observed_path(axis)
    assert profile.count("H") == MAX_GAPS
    assert re.search(r"V500H\d+", profile)
    assert re.search(r"V1000H5000", profile)


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
    frames = axis.ticks("frame")
    assert [label for _, label, _ in frames] == ["0", "20", "40", "60", "80"]
    assert [x for x, _, _ in frames] == pytest.approx([0.005, 0.205, 0.405, 0.605, 0.805])
    assert [minor for _, _, minor in frames] == [False, True, False, True, False]
    times = axis.ticks("time")
    assert [label for _, label, _ in times] == [f"{10 + n / 2:.1f} s" for n in range(8)]
    assert times[1][0] == pytest.approx((12.5 + 0.5) / 100)  # 10.5 s lies at frame 12.5


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
    made = {"frames": looked_at}
    axis = Axis(History(np.ones((len(frames), 2)), frames, times_s=times, made_with=made))
    for unit in ("frame", "time"):
        ticks = axis.ticks(unit)
        assert len(ticks) <= 11
        assert all(-1e-9 <= tick.share <= 1 for tick in ticks)


def test_times_that_do_not_grow_give_no_axis_of_seconds() -> None:
    times = np.array([0, 1, 2, 3, 6, 7, 7, 9, 10, 11.0])
    page = report_page(*small(times))
    assert 'data-unit="time"' not in page
    assert "seconds" in table_of(page)[0]


def test_a_single_frame_and_a_flat_response_are_drawn() -> None:
    history = History(np.ones((1, 4)), [7], "one", times_s=[0.5])
    zero = np.zeros((1, 1))
    seen = Evidence(zero.astype(np.float32), np.zeros(1), np.ones(1), zero, history.frames)
    page = report_page(
        history, seen, Retrieval((Moment("a", "an a", Window(7, 7), 0.0),), {}, "one")
    )
    Outline(page)
    assert 'd="M5000 150h0"' in page
    assert table_of(page)[1] == ["1 a", "an a", "7 – 7", "0.50 – 0.50", "0.00"]


def test_a_sampled_history_shows_both_counts_and_references_where_they_lie() -> None:
    history, seen, retrieval = small()
    sampled = History(history.features, history.frames, "cup", source_frames=5 * history.frames)
    truth = {"empty": (Window(0, 12),), "filled": (Window(30, 44),)}
    page = report_page(sampled, seen, retrieval, references=truth, object="coffee cup")
    words = Outline(page).text
    assert "source frames" in words
    assert "30 – 45 " in words  # frames 6 – 9 of the samples
    assert "30 – 44 " in words  # the reference, as it was given
    assert f"{Window(30, 45).iou(Window(30, 44)):.2f}" in words
    assert "Object coffee cup" in words
    bars = [svg for svg in drawings(page) if svg.find("./rect[@class='reference']") is not None]
    plain = report_page(*small(), references={"empty": (Window(0, 2),), "filled": (Window(6, 8),)})
    drawn = [svg for svg in drawings(plain) if svg.find("./rect[@class='reference']") is not None]
    assert [rectangles(svg) for svg in bars] == [rectangles(svg) for svg in drawn]


def rectangles(svg) -> list[tuple[str, str]]:
    found = svg.findall("./rect[@class='reference']")
    return [(own.get("x"), own.get("width")) for own in found]


def test_all_frames_taken_need_no_second_count() -> None:
    history, seen, retrieval = small()
    whole = History(history.features, history.frames, "cup", source_frames=history.frames)
    words = Outline(report_page(whole, seen, retrieval)).text
    assert "source frames" not in words
    assert "Object cup" in words


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
            evidence(history, vocabulary, readout="contrast"),
            locate(history, vocabulary, readout="contrast"),
            doubts=[(Window(100, 111), "it is out of sight"), (Window(5000, 5001), "far away")],
            tracker="light, approximate",
        )
        assert f"frames 100 – 111{of}: it is out of sight" in page
        assert f"Doubtful: frames 100 to 111{of}." in page
        assert 'class="doubt"' in page
        assert "far away" not in page
        assert "light, approximate" in page


@pytest.mark.parametrize(
    ("count", "tail"), [(12, None), (13, "… and 1 more"), (20, "… and 8 more")]
)
def test_of_many_doubts_the_first_twelve_are_listed_and_the_others_counted(count, tail):
    history, seen, found = small()
    doubts = [(Window(6, 6), f"doubt {n}") for n in range(count)]
    words = Outline(report_page(history, seen, found, doubts=doubts)).words
    listed = [word for word in words if word.startswith("frame 6: doubt")]
    assert listed == [f"frame 6: doubt {n}" for n in range(12)]
    assert [word for word in words if word.endswith("more") and "… and" in word] == (
        [tail] if tail else []
    )


@pytest.mark.parametrize(("count", "tail"), [(20, None), (21, "and 1 more")])
def test_of_many_runs_the_first_twenty_are_named_and_the_others_counted(count, tail):
    frames = np.arange(0, 2 * count, 2)
    history = History(np.ones((count, 2)), frames, "cup")
    seen = Evidence(
        np.zeros((1, count), np.float32), np.zeros(1), np.ones(1), np.zeros((1, count)), frames
    )
    found = Retrieval((Moment("empty", "empty cup", Window(0, 0), 1.0),), {}, "cup")
    words = Outline(report_page(history, seen, found)).words
    (runs,) = [word for word in words if word.startswith("[0, 0], [2, 2]")]
    assert runs.count("[") == 20
    assert runs.endswith(f", {tail}" if tail else "]")


def test_a_state_that_is_absent_has_no_window_on_the_page():
    scene = generate(3)
    found = locate(scene.history, scene.vocabulary, readout="contrast")
    gone = Retrieval(
        [
            Moment(m.state, m.description, m.window, m.score, m.level, p_value=0.9, absent=True)
            for m in found
        ],
        found.settings,
        "h",
    )
    seen = evidence(scene.history, scene.vocabulary, readout="contrast")
    assert 'class="found" x="0"' not in report_page(scene.history, seen, gone)
    page = Outline(report_page(scene.history, seen, gone))
    assert any("not found" in word for word in page.words)
    assert any("0.90" in word for word in page.words)


def test_descriptions_share_a_curve_only_where_their_evidence_is_the_same():
    scene = generate(3)
    for readout, count in (("contrast", 2), ("non-overlap", 4), ("scan", 4)):
        found = locate(scene.history, scene.vocabulary, readout=readout)
        seen = evidence(scene.history, scene.vocabulary, readout="scan" if count == 4 else readout)
        page = report_page(scene.history, seen, found)
        assert len(re.findall(r'<div class="row curve" style="--c:', page)) == count
