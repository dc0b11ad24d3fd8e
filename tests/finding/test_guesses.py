"""What somebody types who has read one example and guesses the rest."""

import re
from base64 import b64decode
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.errors import refused

import dejacue
import dejacue.video.video
from dejacue.demo import write_demo
from dejacue.report.clips import small_copy
from dejacue.report.page import report_page

RATE = 12  # frames a second of the demo


@pytest.fixture(scope="module")
def cup(tmp_path_factory):
    return write_demo(tmp_path_factory.mktemp("guesses") / "cup")


@pytest.fixture(scope="module")
def frames(cup):
    return np.stack([frame.image for frame in dejacue.open_video(cup / "scene.mp4")])


@pytest.fixture(scope="module")
def finding(cup):
    options = {"masks": cup / "Annotations", "encoder": "mini"}
    return dejacue.find(cup / "scene.mp4", cup / "vocabulary.yaml", **options)


def test_pictures_first_then_names(cup, tmp_path):
    strip = dejacue.strip(cup / "scene.mp4", box=(60, 40, 140, 120), fixed=True, encoder="mini")
    strip.save(tmp_path / "strip.png")
    assert "no states yet" in repr(strip.finding)
    assert "120 of 120 frames" in strip.finding._repr_html_()
    finding = strip.mark({"visible": [1, (5, 6), 9]})
    assert finding.labels == strip.mark(visible="1, 5-6, 9").labels
    assert finding.states == ["visible"]


def test_what_was_found_is_looked_at_and_kept(finding, tmp_path):
    assert finding.states == ["empty", "half full", "full"]
    assert [i.state for i in finding.intervals] == [i.state for i in finding]
    assert {state: len(found) for state, found in finding.items()} == {
        state: len(finding[state]) for state in finding.states
    }
    assert list(finding.to_dataframe()["state"]) == [i.state for i in finding]
    assert len(finding.labels) == len(finding.history)
    finding.save(tmp_path / "found")
    assert dejacue.load(tmp_path / "found").labels == finding.labels
    assert finding.export(tmp_path / "x.vtt").read_text("utf-8").startswith("WEBVTT")
    named = finding.export(tmp_path / "x.csv", "labels").read_text("utf-8")
    assert named != finding.export(tmp_path / "x.csv").read_text("utf-8")
    with refused("x.odd"):
        finding.export(tmp_path / "x.odd")


@pytest.fixture(name="command")
def _command(request):
    return request.getfixturevalue("dejacue")


class Decord:
    """What decord.VideoReader is like."""

    def __init__(self, frames):
        self.frames = frames

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, at):
        return SimpleNamespace(asnumpy=lambda: self.frames[at])

    def get_avg_fps(self):
        return float(RATE)


class Batches:
    """What gives frames in batches alone."""

    def __init__(self, frames):
        self.frames, self.metadata = frames, SimpleNamespace(average_fps=float(RATE))

    def __len__(self):
        return len(self.frames)

    def get_batch(self, at):
        return self.frames[at]


class TorchCodec(Batches):
    """What torchcodec's VideoDecoder is like: channels first."""

    get_batch = None

    def get_frame_at(self, at):
        return SimpleNamespace(data=self.frames[at].transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("made", "options"),
    [
        (np.asarray, {"fps": RATE}),
        (list, {"fps": RATE}),
        (iter, {"fps": RATE}),
        (Decord, {}),
        (TorchCodec, {}),
        (Batches, {}),
    ],
)
def test_frames_may_come_from_anywhere(frames, cup, made, options, tmp_path):
    words = cup / "vocabulary.yaml"
    asked = {"whole": True, "encoder": "mini"}
    found = dejacue.find(made(frames[:40]), words, **asked, **options)
    rate = {"rate": RATE} if options else {}
    sampling = dejacue.Sampling(**rate, end=39)
    same = dejacue.find(frames, words, **asked, sampling=dejacue.Sampling(rate=RATE, end=39))
    assert found.labels == same.labels
    assert np.array_equal(found.history.times_s, np.arange(40) / RATE)
    assert found.provenance.video is None
    assert "<html" in found.report()
    assert found.strip(4).missing is None
    assert len(dejacue.open_video(made(frames), **vars(sampling)).frames_at([39]).__next__().image)


def test_frames_that_are_none_are_refused(frames):
    for wrong, fact in (
        ([], "there are no frames"),
        (np.zeros((3, 8, 8, 3)), "float64"),
        (np.zeros((3, 8, 8), np.uint8), "(8, 8)"),
        (7, "a int is no video"),
        ([frames[0], frames[0][:20]], "pixels"),
    ):
        with refused(fact):
            dejacue.find(wrong, examples={"a": 0}, whole=True, encoder="mini")
    with refused("give their rate"):
        dejacue.open_video(frames, start_s=1)


def test_a_report_to_send_is_one_file(finding, cup, tmp_path, command):
    page = finding.report(tmp_path / "x.html", embed=True).read_text("utf-8")
    data = b64decode(re.search(r'src="data:video/mp4;base64,([^"]+)"', page)[1])
    (tmp_path / "copy.mp4").write_bytes(data)
    whole = [frame.time_s for frame in dejacue.open_video(cup / "scene.mp4")]
    copied = list(dejacue.open_video(tmp_path / "copy.mp4"))
    assert [frame.time_s for frame in copied] == pytest.approx(whole, abs=1e-3)
    assert "A small copy of the video." in page
    beside = finding.report(tmp_path / "y.html")
    assert "--embed" in beside.read_text("utf-8")
    words = ("find", cup / "scene.mp4", "-v", cup / "vocabulary.yaml", "--whole")
    ran = command(*words, "--encoder", "mini", "--embed", "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    report = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "data:video/mp4" in report
    assert 'class="crop"' not in report  # the object is the whole picture
    with refused("video"):
        replace(finding, provenance=replace(finding.provenance, video=None)).report(embed=True)


def test_the_copy_of_a_long_video_has_fewer_frames_and_of_a_large_one_fewer_lines(
    finding, tmp_path
):
    video = tmp_path / "large.mp4"
    noise = np.random.default_rng(0).integers(0, 256, (30, 600, 64, 3), np.uint8)
    dejacue.video.video.write_video(video, noise, 10)
    whole, step = small_copy(str(video))
    assert step == 1
    thinned, step = small_copy(str(video), max_bytes=len(whole) // 3)
    assert step > 2
    assert len(thinned) <= len(whole) // 3
    (tmp_path / "copy.mp4").write_bytes(thinned)
    frames = list(dejacue.open_video(tmp_path / "copy.mp4"))
    assert frames[0].image.shape == (480, 52, 3)  # even, as H.264 wants it
    assert [f.time_s for f in frames] == pytest.approx([k / 10 for k in range(0, 30, step)])
    page = report_page(finding.history, finding.timeline, copy=(thinned, step))
    assert f"one of every {step} frames" in page


def test_arrays_of_features_are_enough():
    features, text = np.eye(2).repeat(6, axis=0), np.eye(2)
    found = dejacue.locate(features, text, ["empty", "full"])
    assert [(i.state, i.start, i.end) for i in found] == [("empty", 0, 5), ("full", 6, 11)]
    with refused("states"):
        dejacue.locate(features, text)


def test_two_numbers_are_a_range_of_frames_or_seconds(cup):
    options = {"masks": cup / "Annotations", "encoder": "mini"}
    shown = {"full": (3, 30), "empty": [(7.0, 8.5), 100]}
    finding = dejacue.find(cup / "scene.mp4", examples=shown, **options)
    assert finding.named["full"][0].length == 28
    assert {finding.at(frame=frame) for frame in range(3, 31)} == {"full"}
    assert finding.at(7.5) == "empty"
