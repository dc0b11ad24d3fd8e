"""Masks as users of SAM 2 and supervision have them, and which ids are which object."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from helpers.errors import refused
from helpers.masks import SHAPE, box, frame, union

from dejacue import InputError, Live, encode, find, find_each, load_encoder, locate_object
from dejacue.corpus import Store
from dejacue.corpus.ingest import ingest
from dejacue.finding.request import Lazy
from dejacue.masks import open_masks, write_masks
from dejacue.masks._arrays import SAVE
from dejacue.masks._masks import object_groups
from dejacue.video.video import open_video

H, W = SHAPE
SEGMENTS = {
    0: {1: box(2, 1, 3, 2)[None], 2: box(9, 9, 2, 2)[None]},
    1: {1: box(4, 4, 2, 2)[None], 2: np.zeros((1, H, W), bool)},
    3: {1: box(5, 5, 2, 2)[None]},
}


def converted(segments: dict, convert) -> dict:
    """Return the segments with each mask converted."""
    return {
        at: {id: convert(mask) for id, mask in objects.items()} for at, objects in segments.items()
    }


def logits(segments: dict) -> dict:
    return converted(segments, lambda mask: np.where(mask, 3.5, -7.0).astype(np.float32))


def check(masks) -> None:
    """Check that these are the masks of SEGMENTS."""
    assert masks.ids() == (1, 2)
    for at, objects in SEGMENTS.items():
        for id, expected in objects.items():
            mask = union(masks, frame(at), id)
            assert np.array_equal(np.zeros(SHAPE, bool) if mask is None else mask, expected[0])
    assert union(masks, frame(2), 1) is None
    assert np.array_equal(union(masks, frame(0), 1, 2), SEGMENTS[0][1][0] | SEGMENTS[0][2][0])


# video_segments


def test_a_dictionary_is_taken_as_sam_2_gives_it() -> None:
    check(open_masks(SEGMENTS))
    numpy_ids = {
        np.int64(at): {np.int32(id): mask[0] for id, mask in objects.items()}
        for at, objects in SEGMENTS.items()
    }
    check(open_masks(numpy_ids))
    check(open_masks(converted(SEGMENTS, lambda mask: mask.astype(np.uint8) * 255)))
    check(open_masks(logits(SEGMENTS), kind="logits"))
    check(open_masks(logits(SEGMENTS), kind="logits:3.4"))
    assert union(open_masks(logits(SEGMENTS), kind="logits:4"), frame(0), 1) is None


def test_tensors_are_taken_as_well() -> None:
    torch = pytest.importorskip("torch")
    check(open_masks(converted(SEGMENTS, torch.from_numpy)))
    soft = converted(
        logits(SEGMENTS), lambda mask: torch.from_numpy(mask).bfloat16().requires_grad_()
    )
    check(open_masks(soft, kind="logits"))


def test_a_dictionary_may_change_after_it_was_given_and_its_content_is_its_key() -> None:
    segments = {0: {1: box(2, 1, 3, 2)}}
    masks = open_masks(segments)
    segments[0][1][:] = False
    assert union(masks, frame(0), 1) is not None
    assert masks.in_memory
    assert masks.key == open_masks({0: {1: box(2, 1, 3, 2)[None]}}).key
    others = ({0: {1: box(2, 1, 3, 3)}}, {1: {1: box(2, 1, 3, 2)}}, {0: {2: box(2, 1, 3, 2)}})
    assert len({masks.key, *(open_masks(other).key for other in others)}) == 4
    soft = {0: {1: np.where(box(2, 1, 3, 2), 3.5, -1.0)}}
    assert open_masks(soft, kind="logits").key != open_masks(soft, kind="logits:1").key


@pytest.mark.parametrize(
    ("segments", "kind", "fact"),
    [
        ({}, None, "masks"),
        ({0: {}}, None, "masks"),
        ({"a": {1: box(0, 0, 1, 1)}}, None, "a"),
        ({-1: {1: box(0, 0, 1, 1)}}, None, "masks: -1: a dictionary of masks is {frame"),
        ({0: box(0, 0, 1, 1)}, None, "counted from 0"),
        ({0: {"cup": box(0, 0, 1, 1)}}, None, "cup"),
        ({0: {1: np.ones((2, H, W), bool)}}, None, (2, H, W)),
        ({0: {1: np.ones((1, H, W))}}, None, "mask"),
        ({0: {1: [["a"]]}}, None, np.dtype("<U1")),
        ({0: {1: np.ones((H, W))}}, "logits:x", "logits:x"),
        ({0: {1: np.ones((H, W))}}, "logits:nan", "logits:nan"),
        ({0: {1: np.ones((H, W))}}, "stack:1", "stack:1"),
    ],
)
def test_what_is_wrong_with_a_dictionary_is_named(segments, kind, fact) -> None:
    with refused(fact) as caught:
        open_masks(segments, kind=kind)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("mark", ["_", "/"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_holds_an_array_for_each_mask(tmp_path, save, mark) -> None:
    arrays = {
        f"{at}{mark}{id}": mask for at, objects in SEGMENTS.items() for id, mask in objects.items()
    }
    save(tmp_path / "masks.npz", **arrays)
    check(open_masks(tmp_path / "masks.npz"))
    save(tmp_path / "soft.npz", **{n: np.where(m, 0.9, 0.1) for n, m in arrays.items()})
    check(open_masks(tmp_path / "soft.npz", kind="logits:0.5"))
    with refused(tmp_path / "soft.npz", "mask", f"0{mark}1"):
        open_masks(tmp_path / "soft.npz")


def test_a_damaged_mask_of_an_archive_is_refused_when_its_frame_comes(tmp_path) -> None:
    path = tmp_path / "masks.npz"
    np.savez(path, **{"0_1": np.ones((300, 400), bool)})
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    masks = open_masks(path)
    with refused(path, "0_1"):
        masks.unions(frame(0, shape=(300, 400)), [None])


def test_the_line_that_saves_a_dictionary_works(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(SAVE, {"np": np, "video_segments": SEGMENTS})
    check(open_masks("masks.npz"))


def test_a_dictionary_is_written_as_it_is(tmp_path) -> None:
    for name in ("masks.npz", "masks.json", "masks"):
        check(open_masks(write_masks(tmp_path / name, SEGMENTS.items())))


def test_live_takes_a_mask_as_sam_2_gives_it() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (H, W, 3), np.uint8)
    words = {"empty": ["empty cup"], "full": ["full cup"]}
    flat, deep = (Live(words, encoder="mini") for _ in range(2))
    flat.push(picture, mask=box(2, 1, 9, 9))
    deep.push(picture, mask=box(2, 1, 9, 9)[None])
    assert deep.reading.observed == flat.reading.observed == 1
    with pytest.raises(InputError, match="shape"):
        deep.push(picture, mask=np.ones((2, H, W), bool))


def test_pickles_are_not_opened_and_the_remedy_is_how_to_save(tmp_path) -> None:
    np.savez(tmp_path / "a.npz", video_segments=np.array(SEGMENTS, dtype=object))
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(SEGMENTS))
    (tmp_path / "a.pt").write_bytes(b"x")
    for name in ("a.npz", "a.pkl", "a.pt"):
        with refused(tmp_path / name, SAVE) as caught:
            open_masks(tmp_path / name)
        assert len(str(caught.value)) < 600


# stacks


def test_logits_in_a_stack_need_a_threshold(tmp_path) -> None:
    soft = np.where(np.stack([box(2, 1, 3, 2), box(4, 4, 2, 2)]), 2.0, -2.0).astype(np.float16)
    np.save(tmp_path / "m.npy", soft)
    masks = open_masks(tmp_path / "m.npy", kind="logits")
    assert np.array_equal(union(masks, frame(1), 1), box(4, 4, 2, 2))
    np.savez(tmp_path / "m.npz", masks=soft[:, None], ids=[7])
    masks = open_masks(tmp_path / "m.npz", kind="logits")
    assert np.array_equal(union(masks, frame(0), 7), box(2, 1, 3, 2))
    with refused(tmp_path / "m.npy", "masks"):
        open_masks(tmp_path / "m.npy")
    with refused(tmp_path, "kind", "logits"):
        open_masks(tmp_path, kind="logits")


def test_a_plane_of_labels_for_each_frame(tmp_path) -> None:
    labels = np.stack([box(2, 1, 3, 2) * 1 + box(9, 9, 2, 2) * 2]).astype(np.uint8)
    np.save(tmp_path / "m.npy", labels[:, None])
    masks = open_masks(tmp_path / "m.npy")
    assert masks.ids() == (1, 2)
    assert np.array_equal(union(masks, frame(0), 2), box(9, 9, 2, 2))


# supervision


def detection(at: int, track: object, x: float, y: float, **options: object) -> dict:
    """Return a row as JSONSink writes it."""
    return {
        "x_min": x,
        "y_min": y,
        "x_max": x + 3,
        "y_max": y + 2,
        "class_id": 41,
        "confidence": 0.8,
        "tracker_id": track,
        "class_name": "cup",
        "frame_index": at,
        **options,
    }


def test_the_detections_of_a_json_sink(tmp_path) -> None:
    path = tmp_path / "detections.json"
    rows = [detection(0, 1, 2, 1), detection(0, 2, 9, 9), detection(2, 1, 4, 4)]
    path.write_text(json.dumps(rows))
    masks = open_masks(path)
    assert masks.ids() == (1, 2)
    assert np.array_equal(union(masks, frame(0), 1), box(2, 1, 3, 2))
    assert np.array_equal(union(masks, frame(2), 1), box(4, 4, 3, 2))
    assert union(masks, frame(1), 1) is None
    path.write_text(json.dumps([detection(0, "", 2, 1), detection(1, None, 3, 1)]))
    assert open_masks(path).ids() == (1,)


@pytest.mark.parametrize(
    ("row", "fact"),
    [
        ({"x_min": 1, "y_min": 1, "x_max": 3, "y_max": 3}, "frame"),
        (detection(0.5, 1, 2, 1), "0.5"),
        (detection(0, "x", 2, 1), "x"),
        (detection(0, 1, 2, 1, x_max=None), "x2"),
    ],
)
def test_a_detection_that_cannot_be_read_is_named(tmp_path, row, fact) -> None:
    (tmp_path / "detections.json").write_text(json.dumps([row]))
    with refused(tmp_path / "detections.json", fact, "detection 1") as caught:
        open_masks(tmp_path / "detections.json")
    assert len(str(caught.value)) < 600


# which ids are one object


def test_commas_part_objects_and_plus_joins_their_pieces() -> None:
    assert object_groups("1") == [[1]]
    assert object_groups("1,2") == [[1], [2]]
    assert object_groups("1+2") == [[1, 2]]
    assert object_groups("1+2, 3") == [[1, 2], [3]]
    assert object_groups([1, 2]) == object_groups((np.int64(1), 2)) == [[1, 2]]
    assert object_groups([[1], [2, 3]]) == object_groups("1,2+3") == [[1], [2, 3]]
    for wrong in ("", "1,", "1++2", "one", "1.5", [], [[]], [True], [1, []], None, {1: 2}.values):
        with refused("objects"):
            object_groups(wrong)
    for twice in ("1,1", "1+2,2", [[1], [1]]):
        with refused("objects", twice, "each id belongs to one object"):
            object_groups(twice)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """Render a video with its words and the masks of two halves of its object: in files, and as
    SAM 2 gives them."""
    from dejacue.cli.find import demo

    folder = tmp_path_factory.mktemp("demo")
    demo(folder)
    scene = folder / "scene"
    video = open_video(scene / "scene.mp4")
    masks = open_masks(scene / "Annotations")
    segments = {}
    for at in video:
        if (mask := union(masks, at, 1)) is not None:
            left = np.arange(mask.shape[1]) < np.flatnonzero(mask.any(axis=0)).mean()
            segments[at.source] = {1: (mask & left)[None], 2: (mask & ~left)[None]}
    write_masks(scene / "halves", segments.items())
    return scene, segments


@pytest.mark.long
def test_every_way_says_the_same_of_objects(scene, tmp_path, dejacue) -> None:
    folder, _ = scene
    video = [folder / "scene.mp4", "--masks", folder / "halves", "--encoder", "mini"]

    def encoded(objects: str) -> list[str]:
        place = tmp_path / objects
        assert dejacue("encode", *video, "--objects", objects, "-o", place).code == 0
        return sorted(path.name for path in place.glob("*.history.npz"))

    assert encoded("1,2") == encoded("all") == ["scene-1.history.npz", "scene-2.history.npz"]
    assert encoded("1+2") == ["scene.history.npz"]
    words = ["-v", folder / "vocabulary.yaml"]
    ran = dejacue("find", *video, *words, "--objects", "1,2", "-o", tmp_path / "findings")
    assert ran.code == 0
    assert (tmp_path / "findings" / "scene-2" / "report.html").is_file()
    ran = dejacue("live", *video, *words, "--objects", "1,2")
    assert ran.code == 2
    assert "--object 1" in ran.err
    for column, ids in (("1+2", ["scene"]), ('"1,2"', ["scene-1", "scene-2"])):
        manifest = tmp_path / "all.csv"
        line = f"{folder / 'scene.mp4'},{folder / 'halves'},{column}"
        manifest.write_text(f"video,masks,objects\n{line}\n")
        store = tmp_path / f"store{len(ids)}"
        assert sorted(ingest(manifest, store, encoder="mini").added) == ids
        assert sorted(ingest(manifest, store, encoder="mini").skipped) == ids
        with Store.open(store) as opened:
            assert sorted(opened.ids()) == ids
    several = find_each(
        folder / "scene.mp4",
        folder / "vocabulary.yaml",
        encoder="mini",
        masks=folder / "halves",
        objects="1,2",
    )
    assert [finding.history.id for finding in several] == ["scene-1", "scene-2"]
    ran = dejacue("find", *video, *words)
    assert "objects 1+2" in ran.err
    assert "objects 1,2" in ran.err


@pytest.mark.long
def test_a_dictionary_finds_what_its_files_find(scene, tmp_path) -> None:
    folder, segments = scene
    encoder = load_encoder("mini")
    video, words = folder / "scene.mp4", folder / "vocabulary.yaml"
    from_files = find(video, words, masks=folder / "halves", objects=1, encoder=encoder)
    finding = find(
        video, words, masks=segments, objects=1, encoder=encoder, folder=tmp_path / "out"
    )
    assert np.array_equal(from_files.history.features, finding.history.features)
    assert finding.provenance.masks is None
    assert finding.read(tmp_path / "out").provenance.masks is None
    one = locate_object(video, masks=segments, objects=1)
    history = encode(video, one, encoder)["scene"]
    assert np.array_equal(history.features, finding.history.features)
    soft = Lazy(logits(segments), {"kind": "logits"})
    both = locate_object(video, masks=soft, objects="1,2")
    assert list(both.objects) == ["scene-1", "scene-2"]
    with refused("video_segments", "1, 2"):
        find(video, words, masks=segments, encoder=encoder)


@pytest.mark.long
def test_mini_says_of_itself_what_it_is_in_ingest_and_over_a_store(
    scene, tmp_path, dejacue
) -> None:
    folder, _ = scene
    manifest = tmp_path / "all.csv"
    line = f"{folder / 'scene.mp4'},{folder / 'halves'},1"
    manifest.write_text(f"video,masks,objects\n{line}\n")
    note = "note: mini only knows the rendered scenes of this project"
    ran = dejacue("ingest", manifest, "--store", tmp_path / "s", "--encoder", "mini")
    assert ran.code == 0
    assert note in ran.err
    ran = dejacue("store", "query", tmp_path / "s", "-v", folder / "vocabulary.yaml", "--jsonl")
    assert ran.code == 0
    assert note in ran.err
    strange = tmp_path / "words.yaml"
    strange.write_text("states:\n  a: [plugh]\n  b: [xyzzy]\n")
    ran = dejacue("store", "query", tmp_path / "s", "-v", strange)
    assert ran.code == 2
    assert "mini knows none of its words" in ran.err
