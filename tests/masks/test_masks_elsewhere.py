"""Tracks made by other tools → masks; a folder for each object, patterns, and masks as a stream."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused
from helpers.masks import SHAPE, box, frame, rle, save, union

from dejacue.masks import open_masks, write_masks

H, W = SHAPE


def text(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


# Tables of boxes


@pytest.mark.parametrize(
    "lines",
    [
        ("frame,x,y,w,h", "0,2,1,3,2", "2,4,4,2,2"),
        ("frame_index,x1,y1,x2,y2", "0,2,1,5,3", "2,4,4,6,6"),
        ("frame,x1,y1,x2,y2,width,height", "0,2,1,5,3,16,12", "2,4,4,6,6,16,12"),
        ("1,-1,2,1,3,2,0.9,-1,-1,-1", "3,-1,4,4,2,2,0.8,-1,-1,-1"),  # MOT's detections
        (
            "x_min,y_min,x_max,y_max,class_id,confidence,tracker_id,frame_number",
            "2,1,5,3,0,0.9,,0",
            "4,4,6,6,0,,,2",
        ),
    ],
)
def test_boxes_without_ids_are_one_object(tmp_path, lines):
    masks = open_masks(text(tmp_path / "m.csv", *lines))
    assert masks.ids() == (1,)
    assert np.array_equal(union(masks, frame(0), 1), box(2, 1, 3, 2))
    assert union(masks, frame(1)) is None
    assert np.array_equal(union(masks, frame(2), 1), box(4, 4, 2, 2))


def test_two_boxes_in_a_frame_need_ids(tmp_path):
    path = text(tmp_path / "m.csv", "frame,x,y,w,h", "0,2,1,3,2", "1,2,1,3,2", "0,5,5,2,2")
    with refused(path, "line 4", "id"):
        open_masks(path)


def test_the_table_of_supervision(tmp_path):
    path = text(
        tmp_path / "tracks.csv",
        "x_min,y_min,x_max,y_max,class_id,confidence,tracker_id,class_name,frame_index",
        "2.0,1.0,5.0,3.0,39,0.91,7,bottle,0",
        "8.0,8.0,9.0,9.0,39,0.30,,bottle,0",  # seen, but not yet tracked
        "4.0,4.0,6.0,6.0,41,0.88,8,cup,0",
        "3.0,1.0,6.0,3.0,39,0.90,7,bottle,1",
    )
    masks = open_masks(path)
    assert masks.ids() == (7, 8)
    assert np.array_equal(union(masks, frame(0), 7), box(2, 1, 3, 2))
    assert np.array_equal(union(masks, frame(0)), box(2, 1, 3, 2) | box(4, 4, 2, 2))
    assert np.array_equal(union(masks, frame(1), 7), box(3, 1, 3, 2))
    path = text(path, "x_min,y_min,x_max,y_max,class_id,confidence,tracker_id", "2,1,5,3,0,.9,7")
    with refused(path, "line 1", "frame"):
        open_masks(path)


def test_a_track_goes_before_the_id_of_a_row(tmp_path):
    path = text(tmp_path / "m.csv", "id,frame,track_id,x,y,w,h", "90,0,3,2,1,3,2")
    assert open_masks(path).ids() == (3,)


def test_the_text_of_bytetrack(tmp_path):
    path = text(
        tmp_path / "out.txt",
        "1,4,2.00,1.00,3.00,2.00,0.92,-1,-1,-1",
        "2,4,4.00,4.00,2.00,2.00,-1,-1,-1,-1",
    )
    masks = open_masks(path)
    assert masks.ids() == (4,)
    assert np.array_equal(union(masks, frame(0), 4), box(2, 1, 3, 2))  # frames count from 1
    assert np.array_equal(union(masks, frame(1), 4), box(4, 4, 2, 2))  # and −1 is a confidence


# YOLO

FIRST, SECOND = "0 0.25 0.25 0.25 0.5", "0 0.5 0.5 0.25 0.5"  # 4 × 6 pixels around (4, 3), (8, 6)


@pytest.mark.parametrize(
    ("ends", "ids"),
    [
        ((" 0.91 3", " 0.88 3"), (3,)),
        ((" 3", " 3"), (3,)),
        ((" 0.91", " 1"), (1,)),  # confidences, one of them 1
        ((" -1", " -1"), (1,)),  # not tracked
        (("", ""), (1,)),
    ],
)
def test_the_texts_of_yolo_count_from_one(tmp_path, ends, ids):
    text(tmp_path / "labels" / "kitchen_2.txt", FIRST + ends[0])
    text(tmp_path / "labels" / "kitchen_11.txt", SECOND + ends[1])
    masks = open_masks(tmp_path)
    assert (masks.kind, masks.ids(), len(masks)) == ("boxes", ids, 2)
    assert np.array_equal(union(masks, frame(1), *ids), box(2, 0, 4, 6))
    assert np.array_equal(union(masks, frame(10), *ids), box(6, 3, 4, 6))
    assert union(masks, frame(0)) is union(masks, frame(2)) is None
    large = union(masks, frame(1, shape=(2 * H, 2 * W)))
    assert large.sum() == 4 * 6 * 4  # a box is drawn at the size of the frame
    assert masks.problems == []


def test_the_texts_of_yolo_for_images_are_named_as_they_are(tmp_path):
    text(tmp_path / "img_0002.txt", FIRST + " 0.9 5", SECOND + " 0.8 6", "0 .1 .1 .1 .1 0.3")
    text(tmp_path / "img_0004.txt")
    text(tmp_path / "classes.txt", "cup")
    masks = open_masks(tmp_path, kind="boxes")
    assert masks.ids() == (5, 6)
    assert np.array_equal(union(masks, frame(0, name="img_0002"), 5), box(2, 0, 4, 6))
    assert union(masks, frame(1, name="img_0004")) is None


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        ([FIRST, SECOND], ("line 2", "id")),
        (["0 100 80 20 20 3"], ("line 1", "box")),
        ([FIRST + " 0.9 3.5"], ("line 1", "track", 3.5)),
        ([FIRST, "0 .1 .1 .2"], ("line 2",)),
        (["0 1 1 20 1 20 20 .1 .2"], ("line 1", "outline")),
        (["0 .1 .1 .2 .1 .2 nan"], ("line 1",)),
        (["0 .1 .1 .2 .1 .2 .2 .1 .3", FIRST], ("line 2", "id")),
        ([FIRST, "0 a b c d"], ("a YOLO line holds only numbers: class cx cy w h",)),
        ([FIRST + " 0.9 3", "0 0 nan 1 1 0.5 3"], ("line 2", "box")),
        (["0 0 nan 1 1 0.5 3"], ("line 1", "box")),
        ([FIRST + " nan 3"], ("line 1",)),
    ],
)
def test_a_broken_text_of_yolo_is_named(tmp_path, lines, facts):
    path = text(tmp_path / "v_1.txt", *lines)
    with refused(path, *facts):
        open_masks(tmp_path, kind="boxes")


OUTLINE = ".25 .25 .5 .25 .5 .75 .25 .75"  # x from 4 to 8, y from 3 to 9
CUT = ".25 .25 .5 .25 .25 .75"  # half of it


@pytest.mark.parametrize(
    ("lines", "ids"),
    [
        ([OUTLINE], (1,)),
        ([OUTLINE + " 0.9"], (1,)),
        ([OUTLINE + " 4"], (4,)),
        ([OUTLINE + " 0.9 4"], (4,)),
        ([OUTLINE + " 0.9 4", CUT + " .8 5"], (4, 5)),
        ([OUTLINE + " 4", CUT + " 5", ".5 .5 .1 .1 6"], (4, 5, 6)),  # the last is a box
        ([OUTLINE + " 4", CUT + " -1"], (4,)),
    ],
)
def test_outlines_of_yolo_are_drawn_at_the_size_of_the_frame(tmp_path, lines, ids):
    text(tmp_path / "v_1.txt", *(f"0 {line}" for line in lines))
    masks = open_masks(tmp_path)
    assert (masks.kind, masks.ids()) == ("boxes", ids)
    assert np.array_equal(union(masks, frame(0), ids[0]), box(4, 3, 4, 6))
    assert union(masks, frame(0, shape=(2 * H, 2 * W)), ids[0]).sum() == 4 * 24


def test_outlines_of_yolo_may_reach_beyond_the_frame(tmp_path):
    text(tmp_path / "v_1.txt", "0 .75 .25 1.5 .25 1.5 .75 .75 .75")
    assert np.array_equal(union(open_masks(tmp_path), frame(0)), box(12, 3, 4, 6))


def test_triangles_of_yolo_are_no_boxes_with_a_track(tmp_path):
    text(tmp_path / "v_1.txt", f"0 {CUT}")
    text(tmp_path / "v_2.txt", "0 .25 .25 .5 .25 .25 1")  # its last number alone might be a track
    masks = open_masks(tmp_path)
    assert masks.ids() == (1,)
    drawn = union(masks, frame(0))
    assert drawn[3, 4]
    assert not drawn[8, 7]  # in the box around it
    assert 8 <= drawn.sum() <= 16


def test_corners_at_the_lower_edge_are_not_taken_for_tracks(tmp_path):
    path = text(tmp_path / "v_1.txt", "0 0 .5 0.25 .5 .25 1 0 1", "0 .5 .5 .75 .5 .75 1 .5 1")
    with refused(path, "line 2", "id"):
        open_masks(tmp_path)


def test_a_long_outline_of_yolo_is_known_by_its_beginning(tmp_path):
    corners = [(0.5 + 0.4 * math.cos(at / 50), 0.5 + 0.4 * math.sin(at / 50)) for at in range(314)]
    text(tmp_path / "v_1.txt", "0 " + " ".join(f"{x:.17g} {y:.17e}" for x, y in corners))
    assert union(open_masks(tmp_path), frame(0, shape=(100, 100))).sum() == pytest.approx(
        5027, 0.02
    )


@pytest.mark.parametrize("none", [" 0.9 -1", " -1"])
def test_a_yolo_track_of_minus_one_is_none_as_in_mot(tmp_path, none):
    tracked = " 0.9 3" if none == " 0.9 -1" else " 3"
    text(tmp_path / "v_1.txt", FIRST + tracked, SECOND + none, FIRST + none)
    assert open_masks(tmp_path).ids() == (3,)


def test_a_folder_without_texts_of_yolo(tmp_path):
    save(tmp_path, {"a.png": np.ones((H, W), np.uint8)})
    with refused(tmp_path):
        open_masks(tmp_path, kind="boxes")


# JSON


def sam2(frame_index: int, **objects: np.ndarray) -> dict:
    results = [{"object_id": int(o[1:]), "mask": rle(mask)} for o, mask in objects.items()]
    return {"frame_index": frame_index, "results": results}


@pytest.mark.parametrize("form", ["list", "lines", "in an object", "one"])
def test_what_the_sam_2_demo_streams(tmp_path, form):
    rows = [
        sam2(0, o0=box(2, 1, 3, 2), o2=box(9, 9, 2, 2)),
        sam2(1, o0=box(0, 0, 1, 1)),
        sam2(1, o0=box(4, 4, 2, 2)),  # corrected later
    ]
    contents = {
        "list": json.dumps(rows),
        "lines": "".join(json.dumps(row) + "\n" for row in rows),
        "in an object": json.dumps({"frames": rows}),
        "one": json.dumps(rows[0]),
    }
    path = text(tmp_path / ("m.jsonl" if form == "lines" else "m.json"), contents[form])
    masks = open_masks(path)
    assert (masks.kind, masks.ids()) == ("coco", (0, 2))
    assert np.array_equal(union(masks, frame(0), 0), box(2, 1, 3, 2))
    assert np.array_equal(union(masks, frame(0), 2), box(9, 9, 2, 2))
    mask = union(masks, frame(1), 0)
    assert mask is None if form == "one" else np.array_equal(mask, box(4, 4, 2, 2))


@pytest.mark.parametrize(
    ("rows", "place", "facts"),
    [
        ([sam2(0), {"frame_index": 1, "results": 3}], "result 2", ("results",)),
        ([sam2(0), 3], "result 2", ("result 2: must be an object with the keys",)),
        (
            [{"frame_index": -1, "results": []}],
            "result 1",
            ("result 1: frame_index -1 is not a whole number",),
        ),
        (
            [{"frame_index": 4, "results": [{"object_id": 1, "mask": "x"}]}],
            "result 1: frame 4, object 1",
            ("segmentation", "x"),
        ),
        (
            [{"frame_index": 4, "results": [{"object_id": "cup"}]}],
            "result 1",
            ("object_id", "cup"),
        ),
        ([{"image": 1, "segments": []}], "mask 1", ("frame",)),
        ({"tracks": {}, "info": 1}, "the keys tracks, info", ("annotations",)),
    ],
)
def test_json_of_another_shape_is_named(tmp_path, rows, place, facts):
    path = text(tmp_path / "m.json", json.dumps(rows))
    with refused(path, *facts, place):
        open_masks(path)


def test_numbers_of_thousands_of_digits_in_names_are_refused(tmp_path):
    digits = "1" * 5000
    images = {"images": [{"id": 1, "file_name": f"{digits}.png"}], "annotations": []}
    path = text(tmp_path / "m.json", json.dumps(images))
    with refused(path, "a mask is named"):
        open_masks(path)
    np.savez(tmp_path / "m.npz", masks=np.ones((1, 4, 4), bool), names=[digits])
    with refused(tmp_path / "m.npz", "a mask is named"):
        open_masks(tmp_path / "m.npz")
    folder = save(tmp_path / "v", {"0.png": box(0, 0, 2, 2)})
    meta = text(tmp_path / "meta.json", json.dumps({"videos": {"v": {"objects": {digits: {}}}}}))
    with refused(meta, "objects"):
        open_masks(folder)
    with refused("frame number is above"):
        write_masks(tmp_path / "new.npz", [(10**5000, {1: np.ones((4, 4), bool)})])


@pytest.mark.parametrize("owner", ["instance_id", "track_id"])
@pytest.mark.parametrize("first", [0, 1])
def test_coco_vid_counts_frames_from_zero_or_one(tmp_path, owner, first):
    names = [f"v/{n:06d}.jpg" for n in (1, 2, 3)]
    images = [
        {
            "id": 10 + n,
            "video_id": 1,
            "file_name": name,
            "frame_id": n + first,
            "height": H,
            "width": W,
        }
        for n, name in enumerate(names)
    ]
    annotations = [
        {"id": 1, "image_id": 10, owner: 5, "category_id": 1, "bbox": [2, 1, 3, 2]},
        {"id": 2, "image_id": 12, owner: 5, "category_id": 1, "segmentation": rle(box(4, 4, 2, 2))},
    ]
    content = {"videos": [{"id": 1}], "images": images, "annotations": annotations}
    path = text(tmp_path / "m.json", json.dumps(content))
    for at in ([frame(n) for n in range(3)], [frame(n, name=f"{n + 1:06d}") for n in range(3)]):
        masks = open_masks(path)
        assert masks.ids() == (5,)
        first, second, third = (union(masks, each, 5) for each in at)
        assert np.array_equal(first, box(2, 1, 3, 2))
        assert second is None
        assert np.array_equal(third, box(4, 4, 2, 2))


# Folders and patterns


@pytest.mark.parametrize("names", [("1", "2", "10"), ("obj_1", "obj_2", "obj_10")])
@pytest.mark.parametrize("value", [1, 255])
def test_a_folder_for_each_object(tmp_path, names, value):
    first, second, empty = (
        box(*b).astype(np.uint8) * value for b in ((2, 1, 3, 2), (4, 2, 3, 3), (0, 0, 0, 0))
    )
    save(
        tmp_path,
        {
            f"{names[0]}/00000.png": first,
            f"{names[0]}/00001.png": empty,
            f"{names[1]}/00000.png": second,
            f"{names[2]}/00001.png": second,
        },
    )
    masks = open_masks(tmp_path)
    assert (masks.kind, masks.ids(), len(masks)) == ("binary", (1, 2, 10), 2)
    assert np.array_equal(union(masks, frame(0), 1), first > 0)
    assert np.array_equal(union(masks, frame(0), 1, 2), (first > 0) | (second > 0))  # may overlap
    assert union(masks, frame(0), 10) is union(masks, frame(1), 1) is None
    assert np.array_equal(union(masks, frame(1)), second > 0)


def test_numbered_videos_are_not_taken_for_objects(tmp_path):
    both = box(2, 1, 3, 2).astype(np.uint8) + 2 * box(8, 8, 2, 2).astype(np.uint8)
    single = box(2, 1, 3, 2).astype(np.uint8)
    save(tmp_path / "indexed", {"1/0.png": both, "2/0.png": single})
    with refused(tmp_path / "indexed", "give the one for this video"):
        open_masks(tmp_path / "indexed")
    save(tmp_path / "Annotations", {"1/0.png": single, "2/0.png": single})
    with refused(tmp_path / "Annotations", "give the one for this video"):
        open_masks(tmp_path / "Annotations")
    save(tmp_path / "mixed", {"1/0.png": single, "1/1.png": both, "2/0.png": single})
    masks = open_masks(tmp_path / "mixed")
    assert union(masks, frame(0), 2).sum() == 6
    with refused(tmp_path / "mixed" / "1" / "1.png"):
        masks.unions(frame(1), [None])


def test_a_pattern_is_a_folder_of_its_matches(tmp_path):
    labels = box(2, 1, 3, 2).astype(np.uint8)
    save(tmp_path, {"m/00000.png": labels, "m/00001.png": labels, "m/preview.png": labels * 7})
    masks = open_masks(tmp_path / "m" / "0*.png")
    assert (masks.kind, len(masks), masks.ids()) == ("indexed", 2, (1,))
    assert np.array_equal(union(masks, frame(1)), labels > 0)
    assert masks.path == tmp_path / "m" / "0*.png"
    with refused(tmp_path / "m" / "x*.png"):
        open_masks(tmp_path / "m" / "x*.png")
    with refused(tmp_path / "m" / "0*.png", "kind", "coco"):
        open_masks(str(tmp_path / "m" / "0*.png"), kind="coco")


# Masks as a stream


@pytest.mark.parametrize("name", ["m", "m.npz", "m.json"])
@pytest.mark.parametrize("named", [False, True])
def test_masks_are_written_in_any_order_of_frames(tmp_path, name, named):
    # as when an object is followed forwards and then backwards from a frame in the middle
    order = [11, 12, 13, 10, 9, 8, 2]
    rows = ((f"f{n}" if named else n, {1: box(n, 0, 1, 1)} if n != 9 else {}) for n in order)
    masks = open_masks(write_masks(tmp_path / name, rows), match="stem" if named else "source")
    assert len(masks) == 7
    for n in range(14):
        mask = union(masks, frame(n, name=f"f{n}"))
        if n in order and n != 9:
            assert np.array_equal(mask, box(n, 0, 1, 1))
        else:
            assert mask is None


@pytest.mark.parametrize("named", [False, True])
def test_what_is_written_is_sorted(tmp_path, named):
    rows = [(f"f{n}" if named else n, {1: box(n, 0, 1, 1)}) for n in (10, 9, 2)]
    write_masks(tmp_path / "m.npz", rows)
    write_masks(tmp_path / "m.json", rows)
    sorted_keys = ["f2", "f9", "f10"] if named else [2, 9, 10]
    with np.load(tmp_path / "m.npz") as stack:
        assert stack["names" if named else "frames"].tolist() == sorted_keys
        assert stack["masks"][2, 0].argmax() == 10
    images = json.loads((tmp_path / "m.json").read_text())["images"]
    keys = [i["file_name"].removesuffix(".png") if named else i["frame_index"] for i in images]
    assert keys == sorted_keys


@pytest.mark.long
@pytest.mark.parametrize("name", ["m", "m.npz", "m.json"])
def test_a_long_stream_takes_little_memory(tmp_path, name):
    shape, count = (200, 300), 400

    def rows():
        for n in range(count):
            mask = np.zeros(shape, dtype=bool)
            mask[50:90, n % 200 : n % 200 + 50] = True
            yield n, {1: mask}

    write_masks(tmp_path / f"first-{name}", [(0, {1: np.ones((2, 2), bool)})])  # imports
    tracemalloc.start()
    try:
        write_masks(tmp_path / name, rows())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < count * shape[0] * shape[1] / 8  # an eighth of the masks themselves


def test_a_table_numbered_from_one_to_the_number_of_frames_counts_from_one(tmp_path) -> None:
    rows = [f"{number},10,10,20,20" for number in range(1, 6)]
    masks = open_masks(text(tmp_path / "boxes.csv", "frame,x1,y1,x2,y2", *rows), frames=5)
    for at in range(5):
        assert union(masks, frame(at, shape=(40, 40))).sum() == 100


def test_a_folder_for_each_object_may_be_coloured(tmp_path):
    red = box(2, 1, 3, 2)[..., None] * np.array([200, 0, 0], np.uint8)
    blue = box(4, 2, 3, 3)[..., None] * np.array([0, 0, 99], np.uint8)
    save(tmp_path, {"1/00000.png": red, "2/00000.png": blue})
    masks = open_masks(tmp_path)
    assert np.array_equal(union(masks, frame(0), 1), box(2, 1, 3, 2))
    assert np.array_equal(union(masks, frame(0), 2), box(4, 2, 3, 3))
