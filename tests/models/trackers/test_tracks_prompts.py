"""Where the object is, as people write it."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.errors import refused
from PIL import Image

from dejacue.models.trackers import Prompt
from dejacue.models.trackers.prompts import parse_prompts, place_prompts
from dejacue.video.video import open_video


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write 30 frames of 40 × 30 pixels."""
    folder = tmp_path_factory.mktemp("frames")
    for at in range(30):
        Image.new("RGB", (40, 30), (8 * at, 0, 0)).save(folder / f"{at:03d}.png")
    return folder


def placed(folder, *boxes: str, points=(), not_points=(), masks=(), at=None, adds=(), **sampling):
    typed = parse_prompts(boxes, points, not_points=not_points, masks=masks, at=at, adds=adds)
    return place_prompts(open_video(folder, **sampling), typed)


def test_a_box_has_four_numbers_and_may_name_object_and_frame() -> None:
    (prompt,) = parse_prompts(["2:10,5,20.5,15@12"])
    assert (prompt.object, prompt.source, prompt.box) == (2, 12, (10, 5, 20.5, 15))
    assert prompt.piece_of is None


def test_the_default_frame_is_the_one_of_at_and_else_the_first() -> None:
    box, point = parse_prompts(["1,1,9,9"], ["3,4@7"], at=5)
    assert (box.source, point.source) == (5, 7)
    (first,) = parse_prompts(["1,1,9,9"])
    assert (first.source, first.frame) == (None, 0)


@pytest.mark.parametrize("text", ["1,2,3", "1,2,3,4,5", "a,b,c,d", "", "1,2,3,nan", "1 2 3 4"])
def test_what_is_no_box_is_refused_with_an_example(text) -> None:
    with refused("box", text, "120,80,300,260@0"):
        parse_prompts([text])


@pytest.mark.parametrize("number", ["0", "255"])
def test_objects_are_numbered_as_an_indexed_picture_can(number) -> None:
    with refused("box", f"{number}:1,1,9,9"):
        parse_prompts([f"{number}:1,1,9,9"])


def test_an_added_piece_is_a_further_id_of_the_same_object(folder) -> None:
    placed_prompts = placed(folder, "1:1,1,9,9", "4:5,5,9,9", adds=["4:2,2,4,4@9", "1:3,3@8"])
    (*_, point, box) = placed_prompts
    assert [(prompt.object, prompt.piece_of) for prompt in placed_prompts] == [
        *((1, None), (4, None), (6, 1), (5, 4))
    ]
    assert (box.source, box.box) == (9, (2, 2, 4, 4))
    assert (point.source, point.points) == (8, ((3, 3, True),))


def test_pieces_alone_are_added_to_what_was_given_before(folder) -> None:
    before = [
        Prompt(object=1, source=0, box=(1, 1, 9, 9)),
        Prompt(object=2, source=5, points=((3, 3, True),), piece_of=1),
    ]
    adds = parse_prompts(adds=["4,4,8,8@20"])
    prompts = place_prompts(open_video(folder), adds, before)
    numbers = [(prompt.object, prompt.source, prompt.piece_of) for prompt in prompts]
    assert numbers == [(1, 0, None), (2, 5, 1), (3, 20, 1)]


@pytest.mark.parametrize(
    ("boxes", "add", "fact"),
    [
        ([], "1,1,5,5@3", "show it with a box, a point or a mask"),
        (["1,1,9,9"], "7:1,1,5,5@3", "known: 1"),
        (["1,1,9,9", "2:1,1,5,5"], "1,1,5,5@3", "name the object it is a piece of"),
    ],
)
def test_a_piece_of_an_unknown_object_is_refused(folder, boxes, add, fact) -> None:
    with refused("add 1,1,5,5@3", fact):
        placed(folder, *boxes, adds=[add])


def test_frames_of_the_file_become_positions_of_the_sample(folder) -> None:
    prompts = placed(folder, "1,1,9,9@20", "2:1,1,9,9", start=10, stride=5)
    assert [(prompt.object, prompt.frame) for prompt in prompts] == [(2, 0), (1, 2)]
    assert placed(folder, "1,1,9,9@20")[0].frame == 20
    assert placed(folder, "1,1,9,9@20", fps=5, rate=10)[0].frame == 10


@pytest.mark.parametrize(
    ("frame", "sampling", "remedy"),
    [
        (30, {}, "the last frame is 29"),
        (12, {"stride": 5}, "give one of its neighbours, 10 or 15"),
        (3, {"start": 10}, "the first sampled frame is 10"),
        (25, {"end": 20}, "the last frame is 20"),
    ],
)
def test_a_frame_that_is_not_looked_at_is_refused(folder, frame, sampling, remedy) -> None:
    with refused(folder, "frame", frame, remedy):
        placed(folder, f"1,1,9,9@{frame}", **sampling)


def test_a_frame_that_cannot_be_decoded_is_refused(folder, tmp_path) -> None:
    for at in range(4):
        data = (folder / f"{at:03d}.png").read_bytes()
        (tmp_path / f"{at}.png").write_bytes(data if at != 2 else data[:60])
    with refused(tmp_path, "frame", 2):
        placed(tmp_path, "1,1,9,9@2")


def test_a_box_that_sticks_out_a_little_is_clipped_and_noted(folder) -> None:
    video = open_video(folder)
    (prompt,) = place_prompts(video, parse_prompts(["-1,2,39,20"]))
    assert prompt.box == (0, 2, 39, 20)
    note = "the box -1,2,39,20 reaches outside the picture of 40 × 30 pixels and is clipped"
    assert video.problems == [f"{folder}: {note}"]
    for _ in video:
        break
    assert video.problems == [f"{folder}: {note}"]
    (prompt,) = place_prompts(video, parse_prompts(["0,0,40.01,30"]))
    assert prompt.box == (0, 0, 40, 30)
    assert len(video.problems) == 1


@pytest.mark.parametrize("box", ["-5,0,35,20", "0,0,80,60", "50,5,60,15", "5,-20,15,0"])
def test_a_box_beyond_a_tenth_outside_is_refused_with_the_size_of_the_picture(folder, box) -> None:
    with refused(folder, "box", "40 × 30 pixels"):
        placed(folder, box)


@pytest.mark.parametrize(
    ("box", "remedy"),
    [
        ("5,5,5,15", "x0,y0,x1,y1 are two corners"),
        ("20,5,5,15", "give the upper left corner first"),
    ],
)
def test_a_box_without_pixels_is_refused(folder, box, remedy) -> None:
    with refused(folder, "box", remedy, "object 1, frame 0"):
        placed(folder, box)


def test_all_prompts_of_an_object_in_a_frame_become_one(folder) -> None:
    (prompt,) = placed(folder, "1,1,9,9", "1,1,9,9", points=["3,3"], not_points=["8,8", "20,20"])
    assert prompt.box == (1, 1, 9, 9)
    assert prompt.points == ((3, 3, True), (8, 8, False), (20, 20, False))


@pytest.mark.parametrize(
    ("boxes", "clicks", "facts"),
    [
        (["1,1,9,9", "1,1,9,8"], {}, ("keep one",)),
        (
            [],
            {"points": ["3,3"], "not_points": ["3.4,3.2"]},
            ("keep one",),
        ),
        ([], {"points": ["50,3"]}, ("object 1, frame 0: the point 50,3 lies outside",)),
        (["1,1,9,9"], {"points": ["20,20"]}, ("object 1, frame 0: the point 20,20 lies outside",)),
        ([], {"not_points": ["3,3"]}, ("object 1, frame 0: only clicks outside",)),
    ],
)
def test_prompts_that_contradict_are_refused(folder, boxes, clicks, facts) -> None:
    with refused(folder, *facts, "object 1, frame 0"):
        placed(folder, *boxes, **clicks)


def test_different_frames_and_objects_do_not_contradict(folder) -> None:
    assert len(placed(folder, "1,1,9,9", "1,1,9,8@4", "2:20,20,30,30")) == 3


@pytest.fixture
def picture(tmp_path):
    """Draw object 3 in the upper left quarter, object 5 below it."""
    labels = np.zeros((30, 40), np.uint8)
    labels[:15, :20], labels[15:, :20] = 3, 5
    path = tmp_path / "first.png"
    Image.fromarray(labels).save(path)
    return path


def test_a_mask_is_one_number_of_a_picture(folder, picture) -> None:
    (prompt,) = placed(folder, masks=[f"2:{picture}#5@4"])
    assert (prompt.object, prompt.frame, prompt.box) == (2, 4, None)
    assert prompt.mask.sum() == 300
    assert prompt.mask[15:, :20].all()


def test_a_scaled_mask_is_brought_to_the_size_of_the_frame(folder, tmp_path) -> None:
    mask = np.zeros((60, 80), np.uint8)
    mask[:30, :40] = 255
    Image.fromarray(mask).save(tmp_path / "large.png")
    (prompt,) = placed(folder, masks=[str(tmp_path / "large.png")])
    expected = np.zeros((30, 40), bool)
    expected[:15, :20] = True
    assert (prompt.mask == expected).all()


def test_masks_that_cannot_be_used_are_refused(folder, picture, tmp_path) -> None:
    def check(facts, mask, *boxes: str, **clicks) -> None:
        with refused(*facts):
            placed(folder, *boxes, masks=[str(mask)], **clicks)

    check([picture, "objects 3, 5"], picture)
    check([picture, "object 4"], f"{picture}#4")
    check([folder, "box 30,5,39,20"], f"{picture}#3", "30,5,39,20")
    check([folder, "point 30,5"], f"{picture}#3", points=["30,5"])
    check([folder, "point 5,5"], f"{picture}#3", not_points=["5,5"])
    check([tmp_path / "none.png", "no such file"], tmp_path / "none.png")
    for name, size, value, fact in (
        ("empty.png", (40, 30), 0, "empty.png: is empty"),
        ("tall.png", (40, 90), 255, "the mask is 40 × 90"),
        ("wider.png", (44, 30), 255, "the mask is 44 × 30"),
    ):
        Image.new("L", size, value).save(tmp_path / name)
        check([fact], tmp_path / name)


def test_a_mask_says_more_than_a_box_that_agrees_with_it(folder, picture) -> None:
    (prompt,) = placed(folder, "2,2,30,20", masks=[f"{picture}#3"], points=["4,4"])
    assert prompt.box is None
    assert prompt.points == ()
    assert prompt.mask.sum() == 300


def test_prompts_made_in_python_are_checked_alike(folder) -> None:
    video = open_video(folder, stride=10)
    (prompt,) = place_prompts(video, [Prompt(2, 1, box=(-0.5, 0, 9, 9))])
    assert (prompt.frame, prompt.box) == (2, (0, 0, 9, 9))
    for wrong, fact in (
        (Prompt(3, 1, box=(1, 1, 9, 9)), "frame 3"),
        (Prompt(0, 0, box=(1, 1, 9, 9)), "object 0"),
        (Prompt(0, 1), "the prompt is empty"),
        (Prompt(0, 1, mask=np.ones((3, 3), bool)), "3 × 3"),
        (Prompt(0, 1, mask=np.ones((30, 40), int)), "int64"),
        (Prompt(source=12, box=(1, 1, 9, 9)), "frame 12"),
        (Prompt(source=-1, box=(1, 1, 9, 9)), "frame -1"),
    ):
        with refused(folder, fact):
            place_prompts(video, [wrong])
    mask = np.zeros((30, 40), bool)
    mask[5:9, 5:9] = True
    click = Prompt(0, 1, points=((20, 15, True),))
    for contradicting, fact in (
        ([Prompt(0, 1, mask=mask), Prompt(0, 1, mask=~mask)], "two different masks"),
        ([Prompt(0, 1, mask=mask), click], "point 20,15"),
    ):
        with refused(folder, fact):
            place_prompts(video, contradicting)
    with refused(folder, "show where the object is"):
        place_prompts(video, [])
