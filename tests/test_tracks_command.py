"""``dejacue track``: masks that ``locate`` takes as they are, a summary, a contact sheet."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
import typer
import typer.main
from PIL import Image
from test_tracks_tracking import COLOURS, FRAMES, GONE, HEIGHT, WIDTH, Colour, box, truth

from dejacue import InputError
from dejacue.cli import Stopped, tracking
from dejacue.data.rendered import render, write_scene
from dejacue.report.contact import Shot, chosen, contact_sheet, drawn
from dejacue.sources.masks import open_masks
from dejacue.sources.tracks import partial, read_notes
from dejacue.sources.video import open_video, write_video

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def track(
    video: Path,
    output: Annotated[Path, typer.Option("--output", "-o")],
    box: Annotated[list[str] | None, typer.Option()] = None,
    point: Annotated[list[str] | None, typer.Option()] = None,
    not_point: Annotated[list[str] | None, typer.Option()] = None,
    mask: Annotated[list[str] | None, typer.Option()] = None,
    at: Annotated[int | None, typer.Option()] = None,
    add: Annotated[list[str] | None, typer.Option()] = None,
    tracker: Annotated[str, typer.Option()] = "light",
    presence: Annotated[float, typer.Option()] = 0.5,
    backward: Annotated[bool, typer.Option()] = True,
    start: Annotated[str | None, typer.Option()] = None,
    end: Annotated[str | None, typer.Option()] = None,
    stride: Annotated[int, typer.Option()] = 1,
    fps: Annotated[float | None, typer.Option()] = None,
    rate: Annotated[float | None, typer.Option()] = None,
) -> None:
    clicks = tracking.Clicks.of(box, point, not_point, mask, at, add)
    following = tracking.Following(tracker, None, None, presence, backward)
    opened = tracking.opened(video, start, end, stride, fps, rate, "skip")
    tracking.track(opened, clicks, following, output)


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs the command and gives what it prints, on both streams; errors are raised."""
    monkeypatch.setenv("COLUMNS", "160")
    command = typer.main.get_command(app)

    def run(*words: object) -> str:
        command.main([str(word) for word in words], standalone_mode=False)
        return "".join(capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moving") / "frames"
    folder.mkdir()
    for at in range(FRAMES):
        Image.fromarray(picture(at)).save(folder / f"{at:05d}.png")
    return folder


def picture(at: int) -> np.ndarray:
    image = np.full((HEIGHT, WIDTH, 3), 128, np.uint8)
    for one, colour in COLOURS.items():
        image[truth(one, at)] = colour
    return image


@pytest.fixture
def exact(monkeypatch):
    """The tracker that is always right, whatever is asked for."""
    made: list[Colour] = []

    def load(name, **_):
        made.append(Colour())
        return made[-1]

    monkeypatch.setattr(tracking, "load_tracker", load)
    return made


def text(one: int, at: int) -> str:
    return ",".join(str(side) for side in box(one, at))


def test_the_command_writes_masks_notes_and_a_contact_sheet(folder, tmp_path, exact, run) -> None:
    out = run(folder, "--box", text(1, 0), "-o", tmp_path / "masks", "--rate", 10)
    assert f"object 1: seen in {FRAMES - len(GONE)} of {FRAMES} frames" in out
    assert "frames 10 – 12 (1.00 s): it is out of sight (3 frames)" in out
    assert "frame 13 (1.30 s): it comes back" in out
    assert {path.name for path in tmp_path.iterdir()} == {"masks", "masks-contact.png"}
    with Image.open(tmp_path / "masks-contact.png") as sheet:
        assert sheet.width > 6 * 240
    opened = open_masks(tmp_path / "masks")  # as locate does, without being told anything
    for frame in open_video(folder):
        (mask,) = opened.unions(frame, [frozenset([1])])
        assert (mask is None) == (frame.index in GONE)
        assert mask is None or (mask == truth(1, frame.index)).all()


@pytest.mark.parametrize("sampling", [{}, {"start": 3, "stride": 4}, {"stride": 5}, {"start": 1}])
@pytest.mark.parametrize("name", ["masks", "masks.npz", "masks.json"])
def test_masks_of_a_video_are_numbered_as_its_frames(tmp_path, exact, sampling, name, run) -> None:
    scaled = (picture(at).repeat(2, axis=0).repeat(2, axis=1) for at in range(FRAMES))
    video = write_video(tmp_path / "v.mp4", scaled, 10)
    words = [word for key, value in sampling.items() for word in (f"--{key}", value)]
    first = sampling.get("start", 0)
    x0, y0, x1, y1 = (2 * side for side in box(2, first))
    run(video, "--box", f"{x0},{y0},{x1},{y1}", *words, "-o", tmp_path / name)
    notes = read_notes(tmp_path / name)
    taken = open_video(video, **sampling)
    assert notes.match == "source"
    assert notes.frames == tuple(frame.source for frame in taken)
    told = open_masks(tmp_path / name, match=notes.match)
    auto = open_masks(tmp_path / name, frames=taken.length)
    for frame in taken:
        (mask,) = told.unions(frame, [None])
        expected = truth(2, frame.source).repeat(2, axis=0).repeat(2, axis=1)
        assert (mask & expected).sum() / (mask | expected).sum() > 0.8  # the codec blurs colours
        if not sampling or (name == "masks" and sampling != {"start": 1}):  # else it is unclear
            (same,) = auto.unions(frame, [None])
            assert (mask == same).all()


def test_a_second_run_takes_what_is_there_and_an_added_piece_is_followed_alone(
    folder, tmp_path, exact, run
) -> None:
    masks = tmp_path / "masks"
    run(folder, "--box", text(1, 0), "-o", masks)
    assert "taken from" in run(folder, "--box", text(1, 0), "-o", masks)
    assert exact[1].steps == 0
    out = run(folder, "--add", f"{text(3, 9)}@9", "-o", masks)
    assert all(list(session.colours) == [2] for session in exact[2].sessions)
    assert "object 2 (a piece of 1): seen in 16 of 24 frames" in out
    assert "locate with --object 1,2" in out
    assert read_notes(masks).lineages == {1: (1, 2)}
    assert "taken from" in run(folder, "--box", text(1, 0), "--add", f"{text(3, 9)}@9", "-o", masks)


def test_the_masks_of_a_second_object_need_no_new_pass_of_the_first(
    folder, tmp_path, exact, run
) -> None:
    masks = tmp_path / "masks.npz"
    run(folder, "--box", text(1, 0), "-o", masks)
    out = run(folder, "--box", text(1, 0), "--box", f"2:{text(2, 4)}", "--at", 0, "-o", masks)
    assert [list(session.colours) for session in exact[1].sessions] == [[2]]
    assert "locate with --object 1 or --object 2" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "say where the object is"),
        (["--box", "99,1,120,9"], "lies outside the frame of 60 × 40"),
        (["--box", "1,1,9,9@24"], "frame 24 lies past the end"),
        (["--add", "1,1,9,9@3"], "there is no object yet"),
        (["--box", "1,1,9,9", "--presence", 3], "--presence 3"),
        (["--mask", "none.png"], "no such file"),
        (["--box", "1,1,9,9", "--tracker", "sma2"], "unknown tracker"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    folder, tmp_path, words, sentence, run
) -> None:
    with pytest.raises(InputError, match=sentence):
        run(folder, *words, "-o", tmp_path / "masks")
    assert list(tmp_path.iterdir()) == []


def test_the_sheet_must_not_lie_among_the_images(folder, exact, run) -> None:
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(InputError, match=r"masks-contact\.png would be taken for"):
        run(folder, "--box", text(1, 0), "-o", folder / "masks")
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_stopped_run_says_how_to_go_on(folder, tmp_path, monkeypatch, run) -> None:
    monkeypatch.setattr(partial, "EVERY_FRAMES", 4)
    monkeypatch.setattr(tracking, "load_tracker", lambda name, **_: Colour(stop=11))
    with pytest.raises(Stopped, match="run it again to go on"):
        run(folder, "--box", text(1, 0), "-o", tmp_path / "masks")
    again = Colour()
    monkeypatch.setattr(tracking, "load_tracker", lambda name, **_: again)
    run(folder, "--box", text(1, 0), "-o", tmp_path / "masks")
    assert again.steps == FRAMES - 8


def test_light_is_called_approximate_and_follows_a_rendered_cup(tmp_path, run) -> None:
    scene = render(7, family="cup", topology="three", frames=30)
    write_scene(tmp_path / "scene", scene, video=False)
    rows, columns = np.nonzero(scene.true_labels(0) == 1)
    edges = f"{columns.min()},{rows.min()},{columns.max() + 1},{rows.max() + 1}"
    masks = tmp_path / "masks"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = run(tmp_path / "scene" / "JPEGImages", "--box", edges, "-o", masks)
    assert "light are approximate" in out
    assert "--tracker sam2" in out
    assert read_notes(masks).approximate
    opened = open_masks(masks)
    overlaps = []
    for frame in open_video(tmp_path / "scene" / "JPEGImages"):
        (mask,) = opened.unions(frame, [frozenset([1])])
        true = scene.true_labels(frame.index) == 1
        overlaps.append((mask & true).sum() / (mask | true).sum())
    assert np.mean(overlaps) > 0.7


# The contact sheet


def test_frames_of_the_sheet_are_even_and_hold_the_doubtful_ones() -> None:
    assert chosen(5) == [0, 1, 2, 3, 4]
    even = chosen(1000)
    assert len(even) == 24
    assert (even[0], even[-1]) == (0, 999)
    assert set(chosen(1000, [17, 18])) == {*even, 17, 18}
    assert len(chosen(1000, range(1, 400, 2))) == 24 + 12
    assert chosen(3, [7]) == [0, 1, 2]


def test_the_mask_is_tinted_and_outlined() -> None:
    image = np.full((60, 120, 3), 100, np.uint8)
    mask = np.zeros((60, 120), bool)
    mask[20:40, 40:80] = True
    found = drawn(image, {1: mask, 2: np.zeros_like(mask)}, width=120)
    blue = (0x00, 0x72, 0xB2)
    assert tuple(found[5, 5]) == (100, 100, 100)
    assert tuple(found[30, 39]) == blue  # just outside
    assert tuple(found[30, 38]) == (255, 255, 255)
    tint = [int(0.65 * 100 + 0.35 * part) for part in blue]
    assert found[30, 60].tolist() == tint
    half = drawn(image, {1: mask}, width=60)
    assert half.shape == (30, 60, 3)
    assert half[15, 30].tolist() == tint


def test_an_object_of_one_pixel_is_still_shown() -> None:
    image = np.full((600, 1200, 3), 100, np.uint8)
    mask = np.zeros((600, 1200), bool)
    mask[300, 600] = True
    assert (drawn(image, {1: mask}) != 100).any()


def test_doubtful_pictures_are_framed_in_red() -> None:
    image = np.full((50, 100, 3), 200, np.uint8)
    shots = [Shot(image, "0", "presence 1.00"), Shot(image, "1", "", ("it jumps " * 40,))]
    with Image.open(io.BytesIO(contact_sheet(shots, "x" * 500))) as sheet:
        pixels = np.asarray(sheet.convert("RGB")).astype(int)
    red = (pixels[..., 0] > 150) & (pixels[..., 1] < 80) & (pixels[..., 2] < 80)
    left = 8 + 108
    assert red[:, left - 2].sum() >= 50
    assert not red[:, : left - 4].any()
    assert not red[:, left + 102 :].any()  # the sentence is cut to the width of its picture
