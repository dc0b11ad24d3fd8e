"""Masks as users of SAM 2 and supervision have them, and which ids are which object."""

from __future__ import annotations

import json
import pickle
import re

import numpy as np
import pytest

from dejacue import InputError, Live, build_history, find, find_each, load_encoder
from dejacue.pipeline import Job
from dejacue.pipeline.ingest import ingest
from dejacue.sources.masks import open_masks, write_masks
from dejacue.sources.masks._arrays import SAVE
from dejacue.sources.masks.objects import object_groups, parse_objects
from dejacue.sources.video import Frame, open_video
from dejacue.store import Store

H, W = 12, 16


def frame(index: int) -> Frame:
    return Frame(index, index, None, None, np.zeros((H, W, 3), np.uint8))


def box(x: int, y: int, width: int, height: int) -> np.ndarray:
    mask = np.zeros((H, W), dtype=bool)
    mask[y : y + height, x : x + width] = True
    return mask


SEGMENTS = {
    0: {1: box(2, 1, 3, 2)[None], 2: box(9, 9, 2, 2)[None]},
    1: {1: box(4, 4, 2, 2)[None], 2: np.zeros((1, H, W), bool)},
    3: {1: box(5, 5, 2, 2)[None]},
}


def logits(masks: dict) -> dict:
    return {
        f: {o: np.where(m, 3.5, -7.0).astype(np.float32) for o, m in own.items()}
        for f, own in masks.items()
    }


def look(masks, at: int, *ids: int) -> np.ndarray | None:
    return masks.unions(frame(at), [frozenset(ids)])[0]


def check(masks) -> None:
    assert masks.ids() == (1, 2)
    for at, own in SEGMENTS.items():
        for one, mask in own.items():
            found = look(masks, at, one)
            assert np.array_equal(np.zeros((H, W), bool) if found is None else found, mask[0])
    assert look(masks, 2, 1) is None
    assert np.array_equal(look(masks, 0, 1, 2), SEGMENTS[0][1][0] | SEGMENTS[0][2][0])


# video_segments


def test_a_dictionary_is_taken_as_sam_2_gives_it() -> None:
    check(open_masks(SEGMENTS))
    check(
        open_masks(
            {
                np.int64(f): {np.int32(o): m[0] for o, m in own.items()}
                for f, own in SEGMENTS.items()
            }
        )
    )
    check(
        open_masks(
            {
                f: {o: m.astype(np.uint8) * 255 for o, m in own.items()}
                for f, own in SEGMENTS.items()
            }
        )
    )
    check(open_masks(logits(SEGMENTS), kind="logits"))
    check(open_masks(logits(SEGMENTS), kind="logits:3.4"))
    assert look(open_masks(logits(SEGMENTS), kind="logits:4"), 0, 1) is None


def test_tensors_are_taken_as_well() -> None:
    torch = pytest.importorskip("torch")
    given = {f: {o: torch.from_numpy(m) for o, m in own.items()} for f, own in SEGMENTS.items()}
    check(open_masks(given))
    soft = {
        f: {o: torch.from_numpy(m).bfloat16().requires_grad_() for o, m in own.items()}
        for f, own in logits(SEGMENTS).items()
    }
    check(open_masks(soft, kind="logits"))


def test_a_dictionary_may_change_after_it_was_given_and_its_content_is_its_key() -> None:
    given = {0: {1: box(2, 1, 3, 2)}}
    masks = open_masks(given)
    given[0][1][:] = False
    assert look(masks, 0, 1) is not None
    assert masks.in_memory
    assert masks.key == open_masks({0: {1: box(2, 1, 3, 2)[None]}}).key
    others = ({0: {1: box(2, 1, 3, 3)}}, {1: {1: box(2, 1, 3, 2)}}, {0: {2: box(2, 1, 3, 2)}})
    assert len({masks.key, *(open_masks(other).key for other in others)}) == 4
    soft = {0: {1: np.where(box(2, 1, 3, 2), 3.5, -1.0)}}
    assert open_masks(soft, kind="logits").key != open_masks(soft, kind="logits:1").key


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({}, None, "holds no masks"),
        ({0: {}}, None, "holds no masks"),
        ({"a": {1: box(0, 0, 1, 1)}}, None, "a dictionary of masks is {frame: {object: mask}}"),
        ({-1: {1: box(0, 0, 1, 1)}}, None, "frames counted from 0"),
        ({0: box(0, 0, 1, 1)}, None, "a dictionary of masks is"),
        (
            {0: {"cup": box(0, 0, 1, 1)}},
            None,
            "frame 0, object cup: the object id is not a whole number",
        ),
        (
            {0: {1: np.ones((2, H, W), bool)}},
            None,
            r"the mask has shape \(2, 12, 16\); give \(H, W\)",
        ),
        (
            {0: {1: np.ones((1, H, W))}},
            None,
            'the mask has type float64; give the value above .* the kind "logits"',
        ),
        ({0: {1: [["a"]]}}, None, "the mask has type <U1; give bool, or logits"),
        ({0: {1: np.ones((H, W))}}, "logits:x", "give logits, or logits:0.5 with a number"),
        ({0: {1: np.ones((H, W))}}, "logits:nan", "give logits, or logits:0.5 with a number"),
        ({0: {1: np.ones((H, W))}}, "stack:1", 'unknown kind of masks "stack:1"'),
    ],
)
def test_what_is_wrong_with_a_dictionary_is_said(given, kind, message) -> None:
    with pytest.raises(InputError, match=message) as caught:
        open_masks(given, kind=kind)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("mark", ["_", "/"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_holds_an_array_for_each_mask(tmp_path, save, mark) -> None:
    own = {f"{f}{mark}{o}": m for f, own in SEGMENTS.items() for o, m in own.items()}
    save(tmp_path / "masks.npz", **own)
    check(open_masks(tmp_path / "masks.npz"))
    save(tmp_path / "soft.npz", **{n: np.where(m, 0.9, 0.1) for n, m in own.items()})
    check(open_masks(tmp_path / "soft.npz", kind="logits:0.5"))
    with pytest.raises(
        InputError, match=r"soft\.npz: 0.1: the mask has type float64; give the value above which"
    ):
        open_masks(tmp_path / "soft.npz")


def test_a_damaged_mask_of_an_archive_is_refused_when_its_frame_comes(tmp_path) -> None:
    path = tmp_path / "masks.npz"
    np.savez(path, **{"0_1": np.ones((300, 400), bool)})
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    frame = Frame(0, 0, None, None, np.zeros((300, 400, 3), np.uint8))
    with pytest.raises(InputError, match=r"masks\.npz: 0_1: cannot be read; the file is damaged"):
        open_masks(path).unions(frame, [None])


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
    with pytest.raises(InputError, match="the mask has shape"):
        deep.push(picture, mask=np.ones((2, H, W), bool))


def test_pickles_are_not_opened_and_it_is_said_how_to_save(tmp_path) -> None:
    np.savez(tmp_path / "a.npz", video_segments=np.array(SEGMENTS, dtype=object))
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(SEGMENTS))
    (tmp_path / "a.pt").write_bytes(b"x")
    for name in ("a.npz", "a.pkl", "a.pt"):
        with pytest.raises(InputError, match="pickle") as caught:
            open_masks(tmp_path / name)
        assert SAVE in str(caught.value)
        assert len(str(caught.value)) < 600


# stacks


def test_logits_in_a_stack_need_a_threshold(tmp_path) -> None:
    soft = np.where(np.stack([box(2, 1, 3, 2), box(4, 4, 2, 2)]), 2.0, -2.0).astype(np.float16)
    np.save(tmp_path / "m.npy", soft)
    masks = open_masks(tmp_path / "m.npy", kind="logits")
    assert np.array_equal(look(masks, 1, 1), box(4, 4, 2, 2))
    np.savez(tmp_path / "m.npz", masks=soft[:, None], ids=[7])
    assert np.array_equal(
        look(open_masks(tmp_path / "m.npz", kind="logits"), 0, 7), box(2, 1, 3, 2)
    )
    with pytest.raises(
        InputError, match=r'type float16; give the value above which .* "logits:0\.5"'
    ):
        open_masks(tmp_path / "m.npy")
    with pytest.raises(InputError, match=r"logits are read from an \.npz or \.npy file"):
        open_masks(tmp_path, kind="logits")


def test_a_plane_of_labels_for_each_frame(tmp_path) -> None:
    labels = np.stack([box(2, 1, 3, 2) * 1 + box(9, 9, 2, 2) * 2]).astype(np.uint8)
    np.save(tmp_path / "m.npy", labels[:, None])
    masks = open_masks(tmp_path / "m.npy")
    assert masks.ids() == (1, 2)
    assert np.array_equal(look(masks, 0, 2), box(9, 9, 2, 2))


# supervision


def detection(at: int, track: object, x: float, y: float, **more: object) -> dict:
    """As JSONSink writes it."""
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
        **more,
    }


def test_the_detections_of_a_json_sink(tmp_path) -> None:
    path = tmp_path / "found.json"
    rows = [detection(0, 1, 2, 1), detection(0, 2, 9, 9), detection(2, 1, 4, 4)]
    path.write_text(json.dumps(rows))
    masks = open_masks(path)
    assert masks.ids() == (1, 2)
    assert np.array_equal(look(masks, 0, 1), box(2, 1, 3, 2))
    assert np.array_equal(look(masks, 2, 1), box(4, 4, 3, 2))
    assert look(masks, 1, 1) is None
    path.write_text(json.dumps([detection(0, "", 2, 1), detection(1, None, 3, 1)]))
    assert open_masks(path).ids() == (1,)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"x_min": 1, "y_min": 1, "x_max": 3, "y_max": 3},
            "detection 1: has no frame; "
            r"write it with sink.append\(detections, custom_data=",
        ),
        (detection(0.5, 1, 2, 1), "detection 1: frame '0.5' is not a whole number"),
        (detection(0, "x", 2, 1), "detection 1: id 'x' is not a finite number"),
        (detection(0, 1, 2, 1, x_max=None), "detection 1: x2 '' is not a finite number"),
    ],
)
def test_a_detection_that_cannot_be_read_is_named(tmp_path, row, message) -> None:
    (tmp_path / "found.json").write_text(json.dumps([row]))
    with pytest.raises(InputError, match=message) as caught:
        open_masks(tmp_path / "found.json")
    assert len(str(caught.value)) < 600


# which ids are one object


def test_commas_part_objects_and_plus_joins_their_pieces() -> None:
    assert parse_objects("1") == [[1]]
    assert parse_objects("1,2") == [[1], [2]]
    assert parse_objects("1+2") == [[1, 2]]
    assert parse_objects("1+2, 3") == [[1, 2], [3]]
    assert object_groups([1, 2]) == object_groups((np.int64(1), 2)) == [[1, 2]]
    assert object_groups([[1], [2, 3]]) == object_groups("1,2+3") == [[1], [2, 3]]
    for wrong in ("", "1,", "1++2", "one", "1.5", [], [[]], [True], [1, []], None, {1: 2}.values):
        with pytest.raises(InputError, match="give at least one mask id"):
            object_groups(wrong)
    for twice in ("1,1", "1+2,2", [[1], [1]]):
        with pytest.raises(InputError, match="an id appears twice"):
            object_groups(twice)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """A rendered video, its words, and masks of two halves of its object: files, and as SAM 2
    gives them."""
    from dejacue.cli.find import demo

    folder = tmp_path_factory.mktemp("demo")
    demo(folder, 7)
    scene = folder / "scene"
    video = open_video(scene / "scene.mp4")
    masks = open_masks(scene / "Annotations")
    segments = {}
    for own in video:
        if (found := masks.unions(own, [frozenset([1])])[0]) is not None:
            left = np.arange(found.shape[1]) < np.flatnonzero(found.any(axis=0)).mean()
            segments[own.source] = {1: (found & left)[None], 2: (found & ~left)[None]}
    write_masks(
        scene / "halves",
        ((at, {one: mask[0] for one, mask in own.items()}) for at, own in segments.items()),
    )
    return scene, segments


@pytest.mark.long
def test_every_way_says_the_same_of_objects(scene, tmp_path, dejacue) -> None:
    folder, _ = scene
    given = [folder / "scene.mp4", "--masks", folder / "halves", "--encoder", "mini"]

    def encoded(objects: str) -> list[str]:
        place = tmp_path / objects
        assert dejacue("encode", *given, "--objects", objects, "-o", place).code == 0
        return sorted(path.name for path in place.glob("*.history.npz"))

    assert encoded("1,2") == encoded("all") == ["scene-1.history.npz", "scene-2.history.npz"]
    assert encoded("1+2") == ["scene.history.npz"]
    words = ["-v", folder / "vocabulary.yaml"]
    ran = dejacue("find", *given, *words, "--objects", "1,2", "-o", tmp_path / "found")
    assert ran.code == 0
    assert (tmp_path / "found" / "scene-2" / "report.html").is_file()
    ran = dejacue("live", *given, *words, "--objects", "1,2")
    assert ran.code == 2
    assert "choose it with --object 1, or its pieces with 1+2" in ran.err
    for column, ids in (("1+2", ["scene"]), ('"1,2"', ["scene-1", "scene-2"])):
        manifest = tmp_path / "all.csv"
        line = f"{folder / 'scene.mp4'},{folder / 'halves'},{column}"
        manifest.write_text(f"video,masks,objects\n{line}\n")
        store = tmp_path / f"store{len(ids)}"
        assert sorted(ingest(manifest, store, encoder="mini").added) == ids
        assert sorted(ingest(manifest, store, encoder="mini").skipped) == ids
        with Store.open(store) as there:
            assert sorted(there.ids()) == ids
    several = find_each(
        folder / "scene.mp4",
        folder / "vocabulary.yaml",
        encoder="mini",
        masks=folder / "halves",
        objects="1,2",
    )
    assert [own.history.id for own in several] == ["scene-1", "scene-2"]
    ran = dejacue("find", *given, *words)
    assert "pieces of one with --object 1+2, or take several with --objects 1,2" in ran.err


@pytest.mark.long
def test_a_dictionary_finds_what_its_files_find(scene, tmp_path) -> None:
    folder, segments = scene
    encoder = load_encoder("mini")
    video, words = folder / "scene.mp4", folder / "vocabulary.yaml"
    filed = find(video, words, masks=folder / "halves", objects=1, encoder=encoder)
    given = find(video, words, masks=segments, objects=1, encoder=encoder, folder=tmp_path / "out")
    assert np.array_equal(filed.history.features, given.history.features)
    assert given.made.masks is None
    assert given.read(tmp_path / "out").made.masks is None
    alone = build_history(video, segments, encoder, objects=1)
    assert np.array_equal(alone.features, given.history.features)
    with pytest.raises(InputError, match="build_history takes one"):
        build_history(video, segments, encoder, objects="1,2")
    soft = logits(segments)
    observed = Job(video=video, masks=soft, kind="logits", objects="1,2").observe()
    assert list(observed.objects) == ["scene-1", "scene-2"]
    with pytest.raises(
        InputError, match=re.escape("video_segments: holds the objects 1, 2; choose one")
    ):
        find(video, words, masks=segments, encoder=encoder)


@pytest.mark.long
def test_mini_says_of_itself_what_it_is_in_ingest_and_over_a_store(
    scene, tmp_path, dejacue
) -> None:
    folder, _ = scene
    manifest = tmp_path / "all.csv"
    line = f"{folder / 'scene.mp4'},{folder / 'halves'},1"
    manifest.write_text(f"video,masks,objects\n{line}\n")
    told = "note: mini only knows the rendered scenes of this project"
    ran = dejacue("ingest", manifest, "--store", tmp_path / "s", "--encoder", "mini")
    assert ran.code == 0
    assert told in ran.err
    asked = dejacue("store", "ask", tmp_path / "s", "-v", folder / "vocabulary.yaml", "--jsonl")
    assert asked.code == 0
    assert told in asked.err
    strange = tmp_path / "words.yaml"
    strange.write_text("states:\n  a: [plugh]\n  b: [xyzzy]\n")
    ran = dejacue("store", "ask", tmp_path / "s", "-v", strange)
    assert ran.code == 2
    assert "mini knows none of its words" in ran.err
