"""The command line on a video: what is kept and taken again, where it goes, what is said."""

from __future__ import annotations

import importlib.metadata
import io
import json
import re
import warnings
from importlib.resources import files

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from rich.table import Table

from dejacue.cli import tables
from dejacue.files import read_history
from dejacue.models.encoders import Encoder, siglip
from dejacue.models.encoders.mini import Mini
from dejacue.models.weights import Weights
from dejacue.report.thumbnails import thumbnail
from dejacue.video.video import Video
from dejacue_paper.data.rendered import render, write_scene


@pytest.fixture
def locate(dejacue, scene, tmp_path, monkeypatch):
    """Run ``dejacue find`` on the scene, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    masks = ("--masks", scene / "Annotations", "-v", scene / "vocabulary.yaml")
    words = ("find", scene / "scene.mp4", *masks, "--encoder", "mini")
    return lambda *arguments: dejacue(
        *words, *(arguments if "--objects" in arguments else ("--object", 1, *arguments))
    )


@pytest.fixture
def encode(dejacue, scene, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    masks = ("--masks", scene / "Annotations", "--object", 1)
    words = ("encode", scene / "scene.mp4", *masks, "--encoder", "mini")
    return lambda *arguments: dejacue(*words, *arguments)


def never(*_: object) -> None:
    raise AssertionError("the video was decoded again")


def test_borders_are_finer_than_the_frames_that_are_taken(locate, dejacue, tmp_path):
    assert locate("-o", "whole").code == 0
    ran = locate("--fps", 3, "-o", "out")
    assert ran.code == 0
    history = read_history(tmp_path / "out" / "scene.history.npz")
    assert set(np.diff(history.source_frames).tolist()) == {4}
    borders = {}
    for folder in ("whole", "out"):
        document = json.loads((tmp_path / folder / "timeline.json").read_text(encoding="utf-8"))
        empty, full = document["intervals"]
        borders[folder] = full
        assert empty["end_s"] == full["start_s"]
        frame = full.get("source_start", full["start"])
        assert full["start_s"] == pytest.approx(frame / 12)
    assert borders["out"]["source_start"] == borders["whole"]["start"]
    assert borders["out"]["source_start"] not in history.source_frames
    assert borders["out"]["start"] in history.frames
    seconds = f"{borders['out']['start_s']:.2f}"
    assert f"{seconds} – 5.00" in ran.out
    assert f"{seconds} – 5.00 s" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    cues = (tmp_path / "out" / "timeline.vtt").read_text(encoding="utf-8")
    assert f"00:00:0{seconds}0 --> 00:00:05.000" in cues
    store = dejacue("find", tmp_path / "out", "-o", tmp_path / "again.json")
    assert store.code == 0
    again = json.loads((tmp_path / "again.json").read_text(encoding="utf-8"))["intervals"]
    assert again[1]["source_start"] == borders["out"]["source_start"]


# What is kept


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_text("x")])
def test_pictures_that_are_gone_are_made_again(locate, tmp_path, damage):
    locate("-o", "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    damage(tmp_path / "out" / "scene.thumbnails.npz")
    again = locate("-o", "out")
    assert "reused out/scene.history.npz" in again.err
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8") == page


def test_pictures_of_other_frames_are_not_taken(locate, tmp_path):
    locate("-o", "out")
    before = (tmp_path / "out" / "scene.thumbnails.npz").read_bytes()
    assert locate("-o", "out", "--start", 20).code == 0
    assert (tmp_path / "out" / "scene.thumbnails.npz").read_bytes() != before


def test_only_the_objects_that_are_missing_are_built(locate, tmp_path):
    assert locate("-o", "out", "--objects", "all").code == 0
    (tmp_path / "out" / "scene-2.history.npz").unlink()
    again = locate("-o", "out", "--objects", "all")
    assert again.code == 0
    assert "reused out/scene-1.history.npz: " in again.err
    assert "60 frames, " in again.err
    assert (tmp_path / "out" / "scene-2.history.npz").exists()


def test_encode_takes_a_finished_file_as_it_is(encode, tmp_path, monkeypatch):
    first = encode("-o", "cup.history.npz")
    assert first.code == 0
    state = (tmp_path / "cup.history.npz").stat().st_mtime_ns
    other = encode("-o", "cup.history.npz", "--stride", 2)
    assert "reused" not in other.err
    encode("-o", "cup.history.npz")
    state = (tmp_path / "cup.history.npz").stat().st_mtime_ns
    monkeypatch.setattr(Video, "_frames", never)
    again = encode("-o", "cup.history.npz")
    assert (again.code, again.out) == (0, first.out)
    assert "note: reused cup.history.npz" in again.err
    assert (tmp_path / "cup.history.npz").stat().st_mtime_ns == state


def test_stopping_says_what_is_kept_and_the_next_run_goes_on(encode, tmp_path, monkeypatch):
    real = Mini.encode_images
    monkeypatch.setattr(Mini, "batch", 8)
    calls = []

    def stop(self, crops):
        calls.append(len(crops))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(self, crops)

    monkeypatch.setattr(Mini, "encode_images", stop)
    ran = encode("-o", "cup.history.npz")
    partial = tmp_path / ".cup.history.npz.partial"
    assert ran.code == 130
    message = rf"dejacue: stopped; (\d+) of 60 frames are kept in {partial.name} and will be reused"
    match = re.fullmatch(message, ran.err.splitlines()[-1])
    assert match is not None
    count = int(match[1])
    assert count in (24, 32, 40)  # batches that were on their way are kept, too
    assert [path.name for path in tmp_path.iterdir()] == [partial.name]
    monkeypatch.setattr(Mini, "encode_images", real)
    ran = encode("-o", "cup.history.npz")
    assert ran.code == 0
    assert f"note: resuming after {count} encoded crops" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["cup.history.npz"]
    assert len(read_history(tmp_path / "cup.history.npz")) == 60


def test_stopping_before_the_first_crop_leaves_nothing(encode, tmp_path, monkeypatch):
    def stop(self, crops):
        raise KeyboardInterrupt

    monkeypatch.setattr(Mini, "encode_images", stop)
    ran = encode("-o", "cup.history.npz")
    assert ran.code == 130
    assert "dejacue: stopped before anything was encoded\n" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_find_that_is_stopped_writes_no_answer_and_the_next_run_goes_on(
    locate, tmp_path, monkeypatch
):
    real, stopped = Mini.encode_images, []

    def stop(self, crops):
        stopped.append(len(crops))
        if len(stopped) == 4:
            raise KeyboardInterrupt
        return real(self, crops)

    monkeypatch.setattr(Mini, "batch", 8)
    monkeypatch.setattr(Mini, "encode_images", stop)
    ran = locate("-o", "out")
    assert ran.code == 130
    assert "are kept in" in ran.err.splitlines()[-1]
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".scene.history.npz.partial"]
    monkeypatch.setattr(Mini, "encode_images", real)
    again, alone = locate("-o", "out"), locate("-o", "alone")
    assert (again.code, alone.code) == (0, 0)
    assert "note: resuming after" in again.err
    names = [sorted(path.name for path in (tmp_path / f).iterdir()) for f in ("out", "alone")]
    assert names[0] == names[1]
    answers = [(tmp_path / folder / "timeline.json").read_text() for folder in ("out", "alone")]
    assert answers[0] == answers[1]


def test_stopping_anywhere_else_is_one_word(dejacue, monkeypatch):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dejacue.plugins.packages", stop)
    assert dejacue("info") == (130, "", "dejacue: stopped\n")


def test_a_log_gets_a_line_of_progress_every_ten_seconds(capsys):
    now = 0.0
    with tables.Bars(lambda: now) as progress:
        for second in range(35):
            now = float(second)
            progress("encode", second, 100)
    assert capsys.readouterr().err.splitlines() == [
        "encode: 10 of 100",
        "encode: 20 of 100",
        "encode: 30 of 100",
    ]


# Where it goes


@pytest.mark.parametrize(
    ("name", "start"), [("f.csv", "history,"), ("f.json", "{"), ("f.txt", "s")]
)
def test_one_file_is_written_where_one_is_asked_for(locate, tmp_path, name, start):
    ran = locate("-o", f"new/{name}")
    assert (ran.code, ran.out) == (0, "")
    assert (tmp_path / "new" / name).read_text(encoding="utf-8").startswith(start)
    assert [path.name for path in (tmp_path / "new").iterdir()] == [name]
    assert [path.name for path in (tmp_path / "out" / "scene").iterdir()] == ["scene.history.npz"]
    assert "history: out/scene/scene.history.npz" in ran.err
    assert "reused out/scene/scene.history.npz" in locate("-o", name).err


@pytest.mark.parametrize("name", ["f.csv", "f.json"])
def test_several_objects_share_the_file(locate, dejacue, tmp_path, name):
    from dejacue.files import read_timelines

    assert locate("-o", name, "--objects", "all").code == 0
    names = [timeline.history_id for timeline in read_timelines(tmp_path / name)]
    assert names == ["scene-1", "scene-2"]


@pytest.mark.long
def test_a_glob_and_a_folder_name_the_output_after_the_folder(dejacue, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rendered = render(5, family="cup", topology="binary", frames=30)
    write_scene(tmp_path / "cup", rendered)
    frames = tmp_path / "kitchen.v2"
    frames.mkdir()
    for at, (image, _) in enumerate(rendered):
        Image.fromarray(image).save(frames / f"{at:05}.png")
    words = ("--masks", "cup/Annotations", "-v", "cup/vocabulary.yaml", "--encoder", "mini")
    for source in ("kitchen.v2/*.png", "kitchen.v2"):
        ran = dejacue("find", source, *words, "--object", 1)
        assert ran.code == 0
        assert "report: out/kitchen.v2/report.html" in ran.err
        assert ran.out.count("note: images have no timestamps, so there are no seconds") == 1
    assert not (tmp_path / "out" / "kitchen.v2" / "timeline.vtt").exists()
    timed = dejacue("find", "kitchen.v2", *words, "--object", 1, "--set", "rate=10")
    assert "images have no timestamps" not in timed.out + timed.err


def test_a_glob_without_quotes_is_recognised(dejacue, tmp_path):
    paths = [tmp_path / f"{n}.jpg" for n in range(84)]
    ran = dejacue("find", *paths, "--masks", "m", "-v", "v.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"dejacue: 84 files are given; quote the glob: '{tmp_path}/*.jpg', or give the folder: "
        f"{tmp_path}\n"
    )
    ran = dejacue("encode", tmp_path / "a.mp4", tmp_path / "b" / "c.mp4", "-o", "x")
    assert ran.code == 2
    assert "2 paths are given" in ran.err


@pytest.mark.parametrize("words", [("-o", "file"), ("-o", "file/x.csv"), ("--plot", "file/p.png")])
def test_a_file_in_the_way_is_said_before_the_work(locate, encode, tmp_path, monkeypatch, words):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(Video, "_frames", never)
    ran = locate(*words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"dejacue: {words[1]}: ")
    assert "is a file, not a folder; give another place" in ran.err
    ran = encode("-o", "file/x.npz")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# What is shown and said


def test_the_object_is_outlined_in_the_pictures():
    image = np.full((96, 192, 3), 100, np.uint8)
    mask = np.zeros((96, 192), bool)
    mask[40:60, 50:90] = True
    pixels = np.asarray(Image.open(io.BytesIO(thumbnail(image, mask)))).astype(int)
    assert pixels.shape == image.shape
    line = (pixels[..., 0] < 60) & (pixels[..., 1] > 180) & (pixels[..., 2] > 180)
    assert line[38, 55:85].all()  # above the object
    assert line[45:55, 48].all()  # beside it
    assert not line[40:60, 50:90].any()  # not on it
    assert abs(pixels[10:30, 10:30] - 100).max() < 8
    plain = np.asarray(Image.open(io.BytesIO(thumbnail(image, None))))
    assert abs(plain.astype(int) - 100).max() < 3


def test_a_tiny_object_is_outlined_too():
    mask = np.zeros((1080, 1920), bool)
    mask[500:503, 700:703] = True
    data = thumbnail(np.zeros((1080, 1920, 3), np.uint8), mask)
    pixels = np.asarray(Image.open(io.BytesIO(data))).astype(int)
    assert (pixels[..., 1] > 150).sum() >= 8


def test_the_report_names_the_object_of_the_vocabulary(locate, tmp_path):
    locate("-o", "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<dt>Object</dt><dd><bdi>cup</bdi></dd>" in page


def test_a_still_video_gives_no_answer(dejacue, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Mini, "knows_pictures", staticmethod(Encoder.knows_pictures))
    image = np.full((48, 64, 3), 90, np.uint8)
    image[10:30, 10:40] = (200, 60, 40)
    mask = np.zeros((48, 64), np.uint8)
    mask[10:30, 10:40] = 1
    for at in range(12):
        for folder, pixels in (("frames", image), ("masks", mask)):
            (tmp_path / folder).mkdir(exist_ok=True)
            Image.fromarray(pixels).save(tmp_path / folder / f"{at:03}.png")
    (tmp_path / "v.yaml").write_text("empty: empty cup\nfull: full cup\n")
    ran = dejacue("find", "frames", "--masks", "masks", "-v", "v.yaml", "--encoder", "mini")
    assert ran.code == 3
    assert "meaningless: all frames look the same to the encoder" in ran.out
    timeline = json.loads((tmp_path / "out" / "frames" / "timeline.json").read_text())
    notes = [(note["severity"], note["text"].split()[0]) for note in timeline["notes"]]
    assert notes == [("meaningless", "all"), ("information", "mini"), ("information", "images")]
    assert timeline["intervals"] == []


def test_a_moving_video_is_not_said_to_be_still(locate):
    assert "look the same" not in locate("-o", "out").out


def test_warnings_are_notes_in_one_line(dejacue, monkeypatch):
    def packages() -> list[str]:
        warnings.warn("masks are resized\nto the frames", stacklevel=1)
        return []

    monkeypatch.setattr("dejacue.plugins.packages", packages)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        ran = dejacue("info")
    assert (ran.code, ran.err) == (0, "note: masks are resized to the frames\n")


# Narrow terminals


def terminal(monkeypatch, width: int) -> io.StringIO:
    stream = io.StringIO()
    screen = Console(file=stream, width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(tables, "console", lambda stderr=False: screen)
    return stream


def a_table() -> Table:
    table = Table(title="cup")
    table.add_column("description", overflow="fold")
    for name in ("frames", "source\nframes", "seconds", "score"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("cup filled with coffee", "1000 – 2000", "3000 – 6000", "100.00 – 200.00", "3.25")
    return table


def test_a_narrow_terminal_gets_lines_with_every_column(monkeypatch):
    stream = terminal(monkeypatch, 40)
    tables.show_tables(a_table())
    lines = stream.getvalue().splitlines()
    assert all(len(line) <= 40 for line in lines)
    words = " ".join(stream.getvalue().split())
    assert words == (
        "cup cup filled with coffee frames 1000 – 2000 · source frames 3000 – 6000 · "
        "seconds 100.00 – 200.00 · score 3.25"
    )


def test_a_wide_terminal_gets_a_table(monkeypatch):
    stream = terminal(monkeypatch, 100)
    tables.show_tables(a_table(), a_table())
    assert stream.getvalue().count("┏") == 2
    assert "100.00 – 200.00" in stream.getvalue()


def test_a_pipe_gets_the_whole_table_whatever_its_width(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    tables.show_tables(a_table())
    out = capsys.readouterr().out
    assert "┏" in out
    assert "100.00 – 200.00" in out
    assert "cup filled with coffee" in out


def test_info_says_which_encoders_are_ready(dejacue, tmp_path, monkeypatch):
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "1000")
    onnx = tmp_path / "onnx-community" / "siglip2-base-patch16-224-ONNX" / "onnx"
    google = tmp_path / "google" / "siglip2-base-patch16-224"
    for folder in (onnx, google):
        folder.mkdir(parents=True)
    (onnx / "vision_model.onnx").write_text("")
    out = dejacue("info").out
    assert "damaged: siglip2; " in out
    assert str(tmp_path) in out
    model = files("dejacue.models.encoders").joinpath("mini_image.onnx").read_bytes()
    for tower in ("vision", "text"):
        (onnx / f"{tower}_model.onnx").write_bytes(model)
    tokenizer = Weights(siglip.REPOSITORY, siglip.REVISION, {"tokenizer.json": None})
    monkeypatch.setattr(siglip, "TOKENIZER", tokenizer)
    (google / "tokenizer.json").write_text("{}")
    facts = dict(line.split(maxsplit=1) for line in dejacue("info").out.splitlines())
    states = dict(part.split(": ") for part in facts["encoders"].strip().split("; "))
    assert {"mini", "siglip2"} <= set(states["ready"].split(", "))
    assert "siglip2:torch" in states["damaged"].split(", ")  # for torch it is pinned
    everything = ", ".join(facts.values()).replace(";", ",").split(", ")
    assert everything.count("siglip2-large-384") == 1
    for family, package in (("openclip:NAME", "open_clip_torch"), ("timm:NAME", "timm")):
        lacking = facts[package].strip() == "not installed"
        assert (f"{family} (needs" in facts["others"]) == lacking
    for name in ("onnxruntime", "av", "torch", "transformers", "pyarrow"):
        try:
            expected = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            expected = "not installed"
        assert facts[name].strip() == expected
