"""The pictures that are kept while a video of any length goes by."""

from __future__ import annotations

import numpy as np
import pytest

from dejacue.report.thumbnails import MOST, PictureMasks
from dejacue.sources.video import Frame


class Everywhere:
    """Masks of one object that is seen in every frame but those that are divisible by three."""

    key, path, problems = "key", "masks", ("a sentence",)

    def check_matched(self) -> None:
        pass

    def unions(self, frame: Frame, lineages) -> list[np.ndarray | None]:
        return [None if frame.index % 3 == 0 else np.ones((6, 8), bool) for _ in lineages]


def kept(count: int) -> PictureMasks:
    masks = PictureMasks(Everywhere())
    for index in range(count):
        frame = Frame(index, index, None, None, np.full((6, 8, 3), index % 256, np.uint8))
        assert masks.unions(frame, [None]) is not None
        assert len(masks._kept) <= 4 * MOST
    return masks


@pytest.mark.parametrize(
    ("count", "frames"),
    [
        (1, [0]),
        (5, range(5)),
        (12, range(12)),
        (13, [*range(11), 12]),
        (45, range(0, 45, 4)),
        (200, [8 * (k * 24 // 11) for k in range(12)]),  # every eighth is kept by then
        (1000, [32 * (k * 31 // 11) for k in range(12)]),
    ],
)
def test_twelve_pictures_lie_evenly_over_a_video_whose_length_is_not_known(count, frames) -> None:
    pictures = kept(count).pictures(0)
    assert list(pictures.thumbnails) == list(frames)
    assert max(frames) >= 0.96 * (count - 1)  # the end is seen
    assert list(pictures.crops) == [frame for frame in frames if frame % 3]
    assert all(data.startswith(b"\xff\xd8\xff") for data in pictures.thumbnails.values())


def test_the_masks_are_those_that_were_given() -> None:
    masks = kept(3)
    assert (masks.key, masks.path, masks.problems) == ("key", "masks", ("a sentence",))
