"""Histories from video, masks and an encoder; resuming; the whole command from pixels."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.clips import Boxes, Still
from helpers.errors import refused
from helpers.histories import build_history
from PIL import Image

from dejacue import History, InputError, Vocabulary, locate
from dejacue.files import partial, read_history
from dejacue.files.partial import PartialRows
from dejacue.finding._encode import build_histories, prefetch
from dejacue.masks import open_masks
from dejacue.models.encoders import encode_vocabulary, load_encoder
from dejacue.models.encoders.base import Encoder, EncoderInfo
from dejacue.video.crops import crop, fit
from dejacue.video.video import Frame, open_video
from dejacue_paper.data.rendered import render, write_scene


class Means(Encoder):
    """Encode a crop as its mean colour and a constant, and count the crops."""

    name = identity = "means"
    dimension, size, batch = 4, 16, 3

    def __init__(self) -> None:
        self.details = {"backend": "none"}
        self.count = 0

    def encode_images(self, crops):
        self.count += len(crops)
        rows = [[*crop.reshape(-1, 3).mean(axis=0) / 255, 1.0] for crop in crops]
        return np.array(rows, dtype=np.float32)

    def encode_texts(self, texts):
        return np.ones((len(texts), 4), np.float32)


def test_a_history_is_the_encoded_crops_of_the_observed_frames() -> None:
    video, encoder = Still(), Means()
    history = build_history(video, Boxes(), encoder, objects=[1], id="cup")
    assert history.frames.tolist() == [0, 1, 2, 3, 6, 7, 8, 9]
    assert history.source_frames.tolist() == [0, 2, 4, 6, 12, 14, 16, 18]
    assert history.times_s.tolist() == pytest.approx([k / 5 for k in history.frames])
    assert (history.id, history.encoder) == ("cup", "means")
    assert history.made_with["padding"] == "0.2"
    assert (history.made_with["video"], history.made_with["masks"]) == ("still", "boxes")
    mask = Boxes().unions(Frame(0, 0, 0.0, None, video.images[0]), [frozenset([1])])[0]
    expected = encoder.encode_images([fit(crop(video.images[0], mask), 16)])[0]
    assert history.features[0].tolist() == pytest.approx(expected.tolist())


def test_several_objects_take_one_pass_and_lineages_unite() -> None:
    encoder = Means()
    groups = {"one": frozenset([1]), "two": frozenset([2]), "both": frozenset([1, 2])}
    histories = build_histories(Still(), Boxes(), encoder, groups)
    assert [len(histories[name]) for name in groups] == [8, 10, 10]
    assert encoder.count == 28


def test_an_object_that_is_never_visible_is_refused() -> None:
    with refused("still", "cup is never visible"):
        build_history(Still(), Boxes(), Means(), objects=[9], id="cup")


def test_masks_of_several_objects_are_refused_and_their_ids_named(tmp_path) -> None:
    masks = {0: {1: np.eye(16, dtype=bool), 2: np.ones((16, 16), bool)}}
    (tmp_path / "frames").mkdir()
    Image.fromarray(np.zeros((16, 16, 3), np.uint8)).save(tmp_path / "frames" / "0.png")
    with refused("objects", "holds the objects 1, 2"):
        build_history(tmp_path / "frames", masks, Means())
    assert len(build_history(tmp_path / "frames", masks, Means(), objects=[1, 2])) == 1


def test_masks_named_from_one_are_for_the_frames_of_the_video(tmp_path) -> None:
    for kind in ("frames", "masks"):
        (tmp_path / kind).mkdir()
    for at in range(5):
        image = np.full((16, 16, 3), 50 * at, np.uint8)
        Image.fromarray(image).save(tmp_path / "frames" / f"{at:05d}.png")
        mask = np.ones((16, 16), np.uint8)
        Image.fromarray(mask).save(tmp_path / "masks" / f"{at + 1:05d}.png")
    history = build_history(tmp_path / "frames", tmp_path / "masks", Means())
    assert history.frames.tolist() == [0, 1, 2, 3, 4]
    assert history.features[:, 0] == pytest.approx(np.arange(5) * 50 / 255)


def test_an_encoder_that_lacks_something_is_told_what() -> None:
    class Half:
        identity, size = "half", 16

    with refused("encoder", "dimension, details, batch, workers, encode_images"):
        build_history(Still(), Boxes(), Half())


def test_a_full_disk_names_the_partial_file_and_leaves_no_empty_one(tmp_path, monkeypatch) -> None:
    path = tmp_path / "partial"
    real = open

    class Full:
        """A file on a disk with room for so many bytes."""

        def __init__(self, stream, room):
            self.stream, self.room = stream, room

        def write(self, data):
            self.room -= len(data)
            if self.room < 0:
                raise OSError(28, "No space left on device")
            self.stream.write(data)

        def __getattr__(self, name):
            return getattr(self.stream, name)

    for room, left in ((10, False), (400, True)):
        monkeypatch.setattr(
            partial,
            "open",
            lambda *arguments, room=room: Full(real(*arguments), room),
            raising=False,
        )
        with pytest.raises(OSError, match="No space left") as caught:
            build_history(Still(40), Boxes(), Means(), objects=[2], partial=path)
        assert caught.value.filename == str(path)
        assert path.exists() == left
    monkeypatch.undo()
    assert len(PartialRows(path, EncoderInfo.of(Means()).key)) > 0
    whole = build_history(Still(40), Boxes(), Means(), objects=[2])
    again = build_history(Still(40), Boxes(), Means(), objects=[2], partial=path)
    assert np.array_equal(again.features, whole.features)


def test_a_run_that_is_stopped_before_the_first_crop_leaves_nothing(tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt):
        build_history(Still(stop=0), Boxes(), Means(), partial=tmp_path / "partial")
    assert list(tmp_path.iterdir()) == []


def test_progress_is_reported() -> None:
    reported = {}
    build_history(
        Still(),
        Boxes(),
        Means(),
        objects=[1],
        progress=lambda stage, done, total=None, note="": reported.update({stage: done}),
    )
    assert reported == {"decode": 10, "crop": 8, "encode": 8}


def test_a_stopped_run_goes_on_where_it_was(tmp_path) -> None:
    path = tmp_path / "partial"
    with pytest.raises(KeyboardInterrupt):
        build_history(Still(90, stop=80), Boxes(), Means(), objects=[2], partial=path)
    again = Means()
    history = build_history(Still(90), Boxes(), again, objects=[2], partial=path)
    assert 0 < again.count < 60
    whole = build_history(Still(90), Boxes(), Means(), objects=[2])
    assert np.array_equal(history.features, whole.features)


def test_other_masks_or_another_encoder_are_never_taken_from_the_partial_file(tmp_path) -> None:
    path = tmp_path / "partial"
    build_history(Still(), Boxes(), Means(), objects=[1], partial=path)
    moved = Means()
    history = build_history(Still(), Boxes(shift=3), moved, objects=[1], partial=path)
    assert moved.count == 8
    assert np.array_equal(
        history.features, build_history(Still(), Boxes(3), Means(), objects=[1]).features
    )
    other = Means()
    other.details = {"backend": "another"}
    build_history(Still(), Boxes(), other, objects=[1], partial=path)
    assert other.count == 8


@pytest.mark.parametrize("keep", [0, 10, 100, 150])
def test_a_damaged_partial_file_is_used_as_far_as_it_is_good(tmp_path, keep) -> None:
    path = tmp_path / "partial"
    build_history(Still(), Boxes(), Means(), objects=[2], partial=path)
    data = bytearray(path.read_bytes())
    path.write_bytes(bytes(data[:keep]) + b"\xff" * 5)
    encoder = Means()
    history = build_history(Still(), Boxes(), encoder, objects=[2], partial=path)
    whole = build_history(Still(), Boxes(), Means(), objects=[2])
    assert np.array_equal(history.features, whole.features)
    assert len(PartialRows(path, EncoderInfo.of(encoder).key)) == 10  # and is whole again


def test_results_come_in_order_from_several_threads() -> None:
    assert list(prefetch(lambda x: x * x, range(100), 3, 4)) == [x * x for x in range(100)]


def test_an_error_in_a_thread_is_the_callers() -> None:
    def fail(x: int) -> int:
        raise InputError(f"fails at {x}")

    with refused("fails at 0"):
        list(prefetch(fail, range(10), 2))


# From pixels, with the embedded encoder


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scene") / "cup"
    rendered = render(11, family="cup", topology="three", frames=90, hand=0.2, exits=1)
    write_scene(folder, rendered)
    return folder, rendered


@pytest.fixture
def find_cup(dejacue, scene, tmp_path):
    """Run ``dejacue find`` on the cup of the scene, into the folder "out"."""
    folder, _ = scene
    cup = ("--masks", folder / "Annotations", "--object", 1, "-v", folder / "vocabulary.yaml")
    words = ("find", folder / "scene.mp4", *cup, "--encoder", "mini", "-o", tmp_path / "out")
    return lambda *more: dejacue(*words, *more)


def test_mini_finds_the_states_of_a_scene(scene) -> None:
    folder, rendered = scene
    encoder = load_encoder("mini")
    video = open_video(folder / "scene.mp4")
    history = build_history(video, open_masks(folder / "Annotations"), encoder, objects=[1])
    assert history.frames.tolist() == np.flatnonzero(rendered.visible).tolist()
    timeline = locate(history, encode_vocabulary(rendered.vocabulary, encoder))
    overlaps = [max(m.window.iou(w) for w in rendered.references[m.state]) for m in timeline]
    assert min(overlaps) > 0.5


def test_encoders_are_not_mixed() -> None:
    encoder = load_encoder("mini")
    words = Vocabulary({"empty": ["empty cup"], "full": ["full cup"]})
    history = History(np.ones((5, encoder.dimension)), encoder="google/siglip2@x")
    with pytest.raises(InputError, match=r"google/siglip2@x.*dejacue-mini"):
        locate(history, encode_vocabulary(words, encoder))


def test_the_command_goes_from_video_to_report(find_cup, scene, tmp_path) -> None:
    out = tmp_path / "out"
    ran = find_cup("--references", scene[0] / "references.json", "--cut")
    assert ran.code == 0
    assert "report: " in ran.err
    names = {path.name for path in out.iterdir()}
    tables = {"timeline.json", "timeline.csv", "timeline.vtt"}
    assert names >= {"report.html", "scene.history.npz", "clips", *tables}
    assert not [name for name in names if name.startswith(".")]  # nothing partial is left
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "data:image/jpeg;base64," in page
    intervals = json.loads((out / "timeline.json").read_text())["intervals"]
    assert len({row["state"] for row in intervals}) == 3
    assert all("start_s" in row for row in intervals)
    first = intervals[0]  # clips are numbered in time, as intervals are listed
    clip = open_video(out / "clips" / f"01-{first['state']}.mp4")
    assert len(list(clip)) == first["end"] - first["start"] + 1
    again = find_cup()
    assert again.code == 0
    assert "reused" in again.err
    other = find_cup("--stride", 2)
    assert other.code == 0
    assert "reused" not in other.err


def test_another_object_is_never_taken_from_an_earlier_run(dejacue, tmp_path) -> None:
    write_scene(tmp_path / "scene", render(3, family="cup", frames=30, distractors=1))
    folder, out = tmp_path / "scene", ("--encoder", "mini", "-o", tmp_path / "out")
    files = ("--masks", folder / "Annotations", "-v", folder / "vocabulary.yaml", *out)
    rows = []
    for id in (1, 2):
        ran = dejacue("find", folder / "scene.mp4", *files, "--object", id)
        assert ran.code == 0
        assert "reused" not in ran.err
        rows.append(read_history(tmp_path / "out" / "scene.history.npz"))
    assert [history.made_with["objects"] for history in rows] == ["1", "2"]
    assert not np.array_equal(rows[0].features, rows[1].features)


def test_references_count_the_frames_of_the_file_also_when_it_is_sampled(
    dejacue, find_cup, scene, tmp_path
):
    folder, _ = scene
    ran = find_cup("--stride", 2, "--references", folder / "references.json")
    assert ran.code == 0
    assert "frames are numbered as sampled" in ran.out
    overlaps = [
        float(line.split("│")[-2]) for line in ran.out.splitlines() if " – " in line and "│" in line
    ]
    assert len(overlaps) == 3  # one for each state
    assert min(overlaps) > 0.5
    rows = json.loads((tmp_path / "out" / "timeline.json").read_text())["intervals"]
    assert all(0 <= 2 * row["start"] - row["source_start"] < 2 for row in rows)
    assert all(0 <= row["source_end"] - 2 * row["end"] < 2 for row in rows)
    first = next(line for line in ran.out.splitlines() if rows[0]["state"] in line)
    assert "{source_start} – {source_end}".format(**rows[0]) in first
    measured = dejacue(
        "evaluate", tmp_path / "out" / "timeline.csv", folder / "references.json", "-f", "json"
    )
    mean = json.loads(measured.out)["methods"]["timeline"]["top1_tiou"]["mean"]
    assert mean == pytest.approx(np.mean(overlaps), abs=0.005)


def test_several_objects_are_never_taken_for_one(dejacue, tmp_path):
    rendered = render(3, family="cup", topology="binary", frames=30, distractors=1)
    write_scene(tmp_path / "scene", rendered)
    files = ("--masks", tmp_path / "scene" / "Annotations", "--encoder", "mini")
    ran = dejacue("encode", tmp_path / "scene" / "scene.mp4", *files, "-o", tmp_path / "x.npz")
    assert (ran.code, ran.out) == (2, "")
    assert "holds the objects 1, 2; choose one (objects 1)" in ran.err
    ran = dejacue(
        "encode", tmp_path / "scene" / "scene.mp4", *files, "--objects", "all", "-o", tmp_path / "o"
    )
    assert ran.code == 0
    names = sorted(path.name for path in (tmp_path / "o").iterdir())
    assert names == ["scene-1.history.npz", "scene-2.history.npz"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--masks", "nowhere"), "nowhere: "),
        (("--masks", "MASKS", "--object", "7"), "7"),
        (("--masks", "MASKS", "--object", "cup"), 'the pieces of one (1+2), or "all"'),
        (("--masks", "MASKS", "--encoder", "minni"), 'did you mean "mini"'),
        (("--masks", "MASKS", "--encoder", "mini", "--device", "cpu"), "mini has no option device"),
        (("--masks", "MASKS", "--start", "soon"), "give a frame"),
        (("--masks", "MASKS", "--start", "500"), "past the last of its 90 frames"),
        (("--masks", "MASKS", "--set", "match=names"), "unknown"),
        (("--masks", "MASKS", "-o", "x.pdf"), ".rrd, .txt (the table), or a folder"),
        (("--masks", "MASKS", "-o", "/proc/x/y"), "no file can be created there"),
    ],
)
def test_bad_input_from_pixels_is_one_sentence(
    dejacue, scene, tmp_path, monkeypatch, more, message
):
    folder, _ = scene
    monkeypatch.chdir(tmp_path)
    options = [folder / "Annotations" if word == "MASKS" else word for word in more]
    options += () if "--encoder" in options else ("--encoder", "mini")
    ran = dejacue("find", folder / "scene.mp4", "-v", folder / "vocabulary.yaml", *options)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert not list(tmp_path.rglob("*.npz"))
