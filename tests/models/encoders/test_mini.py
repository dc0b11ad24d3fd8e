"""``mini`` tells pictures of rendered scenes from all others."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.histories import build_history

from dejacue import (
    Store,
    encode_vocabulary,
    find,
    load_encoder,
    locate,
    open_masks,
    open_video,
)
from dejacue.models.encoders.base import UNKNOWN_PICTURES
from dejacue.models.encoders.mini import MAX_DISTANCE
from dejacue_paper.data.crops import crops

SEQUENCES = (
    "3161_peel_banana",
    "3316_peel_onion",
    "555_tear_aluminium_foil",
    "556_cut_tomato",
    "9671_split_cups",
)


@pytest.fixture(scope="module")
def mini():
    return load_encoder("mini")


def test_crops_of_scenes_that_were_not_trained_on_are_known(mini) -> None:
    images = [crop.image for seed in (70_001, 70_002) for crop in crops(seed, 150, size=64)]
    rows = mini.encode_images(images)
    assert mini.knows_pictures(rows)
    assert (mini.distances(rows) < MAX_DISTANCE).mean() >= 0.99


@pytest.mark.parametrize("name", SEQUENCES)
def test_objects_of_real_videos_are_not_known_and_get_no_answer(
    mini, footage, name, tmp_path
) -> None:
    video = open_video(footage / "JPEGImages" / name, stride=4)
    history = build_history(video, open_masks(footage / "Annotations" / name), mini)
    assert not mini.knows_pictures(np.asarray(history.features, np.float32))
    words = encode_vocabulary({"empty": "empty cup", "filled": "filled cup"}, mini)
    shown = words.with_examples(empty=int(history.frames[0]), filled=int(history.frames[-1]))
    for timeline in (locate(history, words), find(history, words), find(history, shown)):
        assert list(timeline) == []
        assert timeline.meaningless == UNKNOWN_PICTURES
    with Store.create(tmp_path / "store") as store:
        store.add(history)
        answers = store.query(words)
        assert list(answers) == []
        assert answers.meaningless == {history.id: UNKNOWN_PICTURES}
        (row,) = store.query(words).rows()
        assert (row["history"], row["state"]) == (history.id, None)
        assert row["notes"] == f"meaningless: {UNKNOWN_PICTURES}"


@pytest.mark.parametrize("name", ["sam2_coffee", "torchocolate"])
def test_pictures_of_real_videos_are_not_known(mini, footage, name) -> None:
    frames = [frame.image for frame in open_video(footage / "clips" / f"{name}.mp4", stride=16)]
    assert not mini.knows_pictures(mini.encode_images(frames))


def test_other_encoders_do_not_tell(mini) -> None:
    assert super(type(mini), mini).knows_pictures(np.zeros((1, mini.dimension), np.float32))
