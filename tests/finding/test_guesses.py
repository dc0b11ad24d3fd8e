"""What somebody types who has read one example and guesses the rest."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.errors import refused

import dejacue
from dejacue.demo import write_demo

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
