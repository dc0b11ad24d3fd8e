"""The pictures that are kept while a video of any length goes by."""

from __future__ import annotations

import numpy as np
import pytest

from dejacue.report.thumbnails import MAX_PICTURES, Album, PictureAlbum


def filled_album(count: int) -> PictureAlbum:
    """Show frames to an album; the object is absent in those that are divisible by three."""
    album = PictureAlbum()
    for index in range(count):
        image = np.full((6, 8, 3), index % 256, np.uint8)
        mask = None if index % 3 == 0 else np.ones((6, 8), bool)
        album.see(index, lambda image=image: image, {"cup": mask})
        assert len(album._album.items) <= 4 * MAX_PICTURES
    return album


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
    pictures = filled_album(count).pictures("cup")
    assert list(pictures.thumbnails) == list(frames)
    assert max(frames) >= 0.96 * (count - 1)  # the end is seen
    assert list(pictures.crops) == [frame for frame in frames if frame % 3]
    assert all(data.startswith(b"\xff\xd8\xff") for data in pictures.thumbnails.values())


def test_a_picture_that_is_not_kept_is_not_made() -> None:
    calls = []
    album: Album[int] = Album(4)
    for index in range(100):
        album.see(index, lambda index=index: calls.append(index) or index)
    assert list(album.items) == [0, 32, 64, 96]
    assert len(calls) < 20
