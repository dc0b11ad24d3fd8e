"""Results of an earlier run are reused, unless they were made for others or are not whole."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from dejacue.masks import open_masks
from dejacue.models.trackers import Prompt, read_notes
from dejacue.models.trackers.base import Observation
from dejacue.models.trackers.follow import follow
from dejacue.models.trackers.notes import notes_path
from dejacue.models.trackers.prompts import place_prompts
from dejacue.video.video import open_video

FRAMES, HEIGHT, WIDTH = 12, 40, 60
A, B, INSIDE_A = (0, 0, 20, 20), (10, 10, 30, 30), (5, 5, 12, 12)


class Still:
    """A tracker of objects that stay in their box; it counts its steps and may stop in one."""

    name, independent = "still", True

    def __init__(self, stop: int | None = None) -> None:
        self.details = {}
        self.steps, self.stop, self.followed = 0, stop, set()

    def session(self):
        return StillSession(self)


class StillSession:
    def __init__(self, tracker: Still) -> None:
        self.tracker, self.masks = tracker, {}

    def step(self, image, prompts=()):
        self.tracker.steps += 1
        if self.tracker.steps == self.tracker.stop:
            raise KeyboardInterrupt
        self.masks |= {prompt.object: area(prompt.box) for prompt in prompts}
        self.tracker.followed |= self.masks.keys()
        return {id: Observation(mask, 1.0) for id, mask in self.masks.items()}


def area(box) -> np.ndarray:
    mask = np.zeros((HEIGHT, WIDTH), bool)
    x0, y0, x1, y1 = map(int, box)
    mask[y0:y1, x0:x1] = True
    return mask


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("still") / "frames"
    folder.mkdir()
    for at in range(FRAMES):
        Image.fromarray(np.full((HEIGHT, WIDTH, 3), 10 * at, np.uint8)).save(folder / f"{at}.png")
    return folder


@pytest.fixture
def write(folder):
    """Return a function that follows boxes, by number, into a path and returns the notes and the
    tracker."""

    def write(path, boxes, pieces_of=None):
        tracker = Still()
        pieces = pieces_of or {}
        prompts = [Prompt(0, id, box=box, piece_of=pieces.get(id)) for id, box in boxes.items()]
        return follow(open_video(folder), prompts, path, tracker=tracker), tracker

    return write


@pytest.fixture
def masks(folder):
    """Return a function that reads the mask of an object, which is the same in all frames."""

    def masks(path, id):
        opened = open_masks(path, match=read_notes(path).match)
        first, *others = (opened.unions(at, [frozenset([id])])[0] for at in open_video(folder))
        assert all((mask == first).all() for mask in others)
        return first

    return masks


# Objects that depend on each other


def test_where_objects_share_pixels_all_are_followed_when_one_is_added(folder, tmp_path) -> None:
    first, second = Prompt(0, 1, box=A), Prompt(0, 2, box=(40, 20, 60, 40))
    for independent, followed in ((True, {2}), (False, {1, 2})):
        path = tmp_path / f"{independent}"
        for prompts in ([first], [first, second]):
            tracker = Still()
            tracker.independent = independent
            follow(open_video(folder), prompts, path, tracker=tracker)
        assert tracker.followed == followed


# Objects that overlap


@pytest.mark.parametrize("name", ["masks.npz", "masks.json"])
def test_files_keep_overlapping_objects_whole(tmp_path, write, masks, name) -> None:
    notes, _ = write(tmp_path / name, {1: A, 2: B, 3: INSIDE_A})
    for id, box in ((1, A), (2, B), (3, INSIDE_A)):
        assert (masks(tmp_path / name, id) == area(box)).all()
        assert (notes.objects[id].seen, notes.objects[id].cut) == (FRAMES, 0)
    assert notes.problems == []


def test_in_a_folder_the_lower_number_keeps_its_pixels_and_the_notes_say_so(
    tmp_path, write, masks
) -> None:
    path = tmp_path / "masks"
    notes, _ = write(path, {1: A, 2: B, 3: INSIDE_A}, {3: 1})
    assert (masks(path, 1) == area(A)).all()
    assert (masks(path, 2) == area(B) & ~area(A)).all()
    assert open_masks(path).ids() == (1, 2)
    assert {id: (noted.seen, noted.cut) for id, noted in notes.objects.items()} == {
        1: (FRAMES, 0),
        2: (FRAMES, FRAMES),
        3: (0, FRAMES),
    }
    assert notes.seen_groups == {1: (1,), 2: (2,)}
    second, third = notes.problems
    assert second.startswith(f"object 2 lies under others in {FRAMES} frames")
    assert third.startswith("object 3 lies under others throughout, and nothing is left")
    assert all(".npz keeps overlapping objects whole" in sentence for sentence in notes.problems)
    again = read_notes(path)
    assert again.problems == notes.problems
    assert again.seen_groups == notes.seen_groups


def test_an_object_that_was_cut_is_followed_again_and_has_no_holes(tmp_path, write, masks) -> None:
    path = tmp_path / "masks"
    write(path, {1: A, 2: B})
    notes, tracker = write(path, {2: B})
    assert tracker.steps == FRAMES
    assert (masks(path, 2) == area(B)).all()
    assert notes.objects[2].cut == 0
    notes, tracker = write(path, {1: A, 2: B})  # 2 is whole: only 1 is followed
    assert tracker.followed == {1}
    assert (masks(path, 2) == area(B) & ~area(A)).all()
    assert notes.objects[2].cut == FRAMES
    _, tracker = write(path, {1: A, 2: B})
    assert tracker.steps == 0
    _, tracker = write(path, {1: INSIDE_A, 2: B})
    assert tracker.followed == {1, 2}
    assert (masks(path, 2) == area(B) & ~area(INSIDE_A)).all()


def test_other_lineages_need_new_notes_only(tmp_path, write) -> None:
    path = tmp_path / "masks"
    write(path, {1: A, 2: B})
    state = (path / "0.png").stat().st_ino
    notes, tracker = write(path, {1: A, 2: B}, {2: 1})
    assert (tracker.steps, (path / "0.png").stat().st_ino) == (0, state)
    assert notes.groups == read_notes(path).groups == {1: (1, 2)}


# What lies on disk


def test_masks_that_are_gone_are_made_again(tmp_path, write) -> None:
    path = tmp_path / "masks"
    write(path, {1: A})
    (path / "5.png").unlink()
    _, tracker = write(path, {1: A})
    assert tracker.steps == FRAMES
    assert (path / "5.png").is_file()
    for name in ("masks.npz", "masks.json"):
        write(tmp_path / name, {1: A})
        (tmp_path / name).write_bytes(b"cut short")
        _, tracker = write(tmp_path / name, {1: A})
        assert tracker.steps == FRAMES


def test_a_stack_and_a_json_of_one_name_have_notes_of_their_own(tmp_path, write) -> None:
    write(tmp_path / "x.npz", {1: A})
    write(tmp_path / "x.json", {2: B})
    assert list(read_notes(tmp_path / "x.npz").objects) == [1]
    assert list(read_notes(tmp_path / "x.json").objects) == [2]
    _, tracker = write(tmp_path / "x.npz", {1: A})
    assert tracker.steps == 0


@pytest.mark.parametrize("name", ["masks", "masks.npz"])
def test_a_link_stays_one(tmp_path, write, masks, name) -> None:
    real = tmp_path / "elsewhere" / f"real-{name}"
    real.parent.mkdir()
    link = tmp_path / name
    link.symlink_to(real)
    for boxes in ({1: A}, {1: B}):
        write(link, boxes)
        assert link.is_symlink()
        assert real.exists()
        assert (masks(link, 1) == area(boxes[1])).all()
    left = {path.name for path in (*tmp_path.iterdir(), *real.parent.iterdir())}
    notes = set() if name == "masks" else {"masks.npz.track.json"}
    assert left == {"elsewhere", name, real.name} | notes


def test_pieces_that_are_given_again_are_left_out_and_numbers_close_up(folder) -> None:
    mask = area(A)
    repeated = [
        Prompt(0, 1, box=A),
        Prompt(3, 2, box=B, piece_of=1),
        Prompt(4, 5, mask=mask),
        Prompt(3, 6, box=B, piece_of=1),
        Prompt(4, 7, mask=mask.copy(), piece_of=1),
        Prompt(9, 8, box=B, piece_of=1),
    ]
    prompts = place_prompts(open_video(folder), repeated)
    numbers = [(prompt.object, prompt.frame, prompt.piece_of) for prompt in prompts]
    # the mask is a piece of 1, as 5 is none of it
    assert numbers == [(1, 0, None), (2, 3, 1), (5, 4, None), (6, 4, 1), (7, 9, 1)]


def test_notes_lie_in_the_folder_of_the_masks_or_beside_their_file(tmp_path) -> None:
    (tmp_path / "masks.v2").mkdir()
    assert notes_path(tmp_path / "masks.v2") == tmp_path / "masks.v2" / "track.json"
    assert notes_path(tmp_path / "to be made") == tmp_path / "to be made" / "track.json"
    assert notes_path(tmp_path / "m.npz") == tmp_path / "m.npz.track.json"
