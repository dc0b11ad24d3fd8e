"""Readers of data sets: which layout a folder has, and the ones made of pictures and masks."""

from __future__ import annotations

import json

import pytest
from data_sets import (
    document,
    m3_vos,
    manifest,
    mask,
    picture,
    problems,
    sequence,
    text,
    transformation,
    vost,
    vost_tas,
    youtube_vos,
)
from helpers.errors import refused

from dejacue import encode, locate_object, open_masks
from dejacue.corpus.ingest import read_manifest
from dejacue.files import read_references, read_vocabulary
from dejacue.method import Window
from dejacue_paper import open_dataset
from dejacue_paper.data.layouts import LAYOUTS, write_manifest

# Which layout


def test_a_folder_that_may_be_two_layouts_asks_which(tmp_path, dejacue) -> None:
    vost(tmp_path)
    vost_tas(tmp_path, {"7_peel_onion_1": {"transformations": []}})
    with refused(tmp_path, "layout", "vost", "vost-tas"):
        open_dataset(tmp_path)
    ran = dejacue("data", "open", tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert 'name the layout, such as "vost"' in ran.err
    assert open_dataset(tmp_path, "vost").layout == "vost"


def test_a_folder_of_no_layout_is_refused_and_the_known_ones_are_named(tmp_path) -> None:
    picture(tmp_path / "a" / "b.jpg")
    with refused(tmp_path, "layout") as caught:
        open_dataset(tmp_path)
    assert all(layout in str(caught.value) for layout in LAYOUTS)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_that_is_asked_for_says_what_it_needs(layout, tmp_path) -> None:
    with refused(tmp_path, "layout", layout, LAYOUTS[layout].needs):
        open_dataset(tmp_path, layout)


def test_what_is_no_folder_or_no_layout_is_refused(tmp_path) -> None:
    for path in (tmp_path / "nothing", text(tmp_path / "file", "x")):
        with refused(path):
            open_dataset(path)
    with refused("layout", "vosst"):
        open_dataset(tmp_path, "vosst")


# VOST


def test_vost_is_read_with_splits_and_nouns(tmp_path) -> None:
    dataset = open_dataset(vost(tmp_path))
    assert dataset.layout == "vost"
    assert not dataset.missing
    assert not dataset.references
    onion, tomato = dataset
    assert (onion.id, onion.object, onion.columns["split"]) == ("7_peel_onion", "onion", "train")
    assert (tomato.object, tomato.columns["split"], tomato.frames) == ("tomato", "val", 10)
    assert open_masks(onion.masks, kind=onion.kind).ids() == (1, 2)  # 255 is void
    assert onion.open().length == 10


def test_all_that_is_missing_is_listed_at_once(tmp_path, dejacue) -> None:
    vost(tmp_path)
    text(tmp_path / "ImageSets" / "test.txt", "9_fold_cloth\n10_break_egg\n")
    mask(tmp_path / "Annotations" / "10_break_egg" / "frame00000.png", 1)
    mask(tmp_path / "Annotations" / "7_peel_onion" / "frame00099.png", 1)
    dataset = open_dataset(tmp_path)
    assert sorted(dataset.missing) == [
        "10_break_egg: its pictures are missing",
        "7_peel_onion: 1 of its masks have no picture: frame00099.png",
        "9_fold_cloth: its pictures and masks are missing",
    ]
    ran = dejacue("data", "open", tmp_path, "--manifest", tmp_path / "all.csv")
    assert ran.code == 0
    assert ran.err.count("missing:") == 3
    assert "not in the manifest: 2 clips (9_fold_cloth, 10_break_egg): no video" in ran.err
    assert len(manifest(tmp_path / "all.csv")) == 2


def test_a_manifest_is_one_that_ingest_takes(tmp_path) -> None:
    vost(tmp_path / "data")
    path = tmp_path / "lists" / "all.csv"
    assert write_manifest(path, open_dataset(tmp_path / "data")) == {}
    items = read_manifest(path)
    assert [
        (item.id, item.request.objects, item.request.masks.options.get("kind")) for item in items
    ] == [
        ("7_peel_onion", "all", "indexed"),
        ("8_cut_tomato", "all", "indexed"),
    ]
    assert items[0].object == "onion"
    assert items[0].extra["split"] == "train"


# VOST-TAS


def test_vost_tas_takes_what_lies_between_transformations(tmp_path) -> None:
    vost(tmp_path)
    steps = [
        transformation(2, 3, "onion", "onion_peel", "onion_peel"),
        transformation(5, 6, "onion", "onion_peel"),
        transformation(8, 8, "peeled_onion"),
    ]
    vost_tas(tmp_path, {"7_peel_onion_2": {"anno_end": -1, "transformations": steps}})
    (clip,) = open_dataset(tmp_path, "vost-tas")
    assert clip.states == {
        "before": (Window(0, 1),),
        "onion and onion peel": (Window(4, 4), Window(7, 7)),
        "peeled onion": (Window(9, 9),),
    }
    assert (clip.objects, clip.component, clip.frames) == ((2,), "7_peel_onion", 10)
    assert clip.vocabulary.states["before"] == ("onion",)
    assert list(clip.vocabulary.states) == list(clip.states)


def test_vost_tas_ends_where_the_annotation_ends(tmp_path) -> None:
    vost(tmp_path)
    annotation = {"anno_end": 6, "transformations": [transformation(2, 3, "onion_half")]}
    vost_tas(tmp_path, {"7_peel_onion_1": annotation})
    (clip,) = open_dataset(tmp_path, "vost-tas")
    assert clip.states["onion half"] == (Window(4, 6),)
    assert clip.sampling == {"end": 6}
    assert clip.open().length == 7


def test_vost_tas_without_pictures_still_has_references(tmp_path) -> None:
    annotation = {"transformations": [transformation(2, 3, "onion_half")]}
    vost_tas(tmp_path, {"7_peel_onion_1": annotation, "9_cut_egg_1": {"transformations": []}})
    dataset = open_dataset(tmp_path)
    assert [reference.history_id for reference in dataset.references] == ["7_peel_onion_1"]
    assert len(dataset.missing) == 2
    assert "9_cut_egg_1" in dataset.notes[0]


def test_vost_tas_with_frames_beyond_the_video_is_refused_with_all_of_them(tmp_path) -> None:
    late = {"transformations": [transformation(8, 12, "a")]}
    mixed = {"transformations": [transformation(2, 6, "a"), transformation(5, 8, "b")]}
    beyond = {"anno_end": 10, "transformations": []}
    vost_tas(tmp_path, {"1_a_b_1": late, "2_a_b_1": mixed, "3_a_b_1": beyond, "4_a_b_x": late})
    sentences = problems(tmp_path)
    assert len(sentences) == 4
    assert sentences[0].startswith(
        '"1_a_b_1": the transformation 8–12 is not inside the remaining frames 0–9'
    )
    assert "is annotated up to frame 10, but has 10 frames" in sentences[2]
    assert "SEQUENCE_OBJECT" in sentences[3]


def test_vost_tas_says_which_sequences_lack_pictures(tmp_path) -> None:
    vost(tmp_path)
    vost_tas(tmp_path, {"7_peel_onion_1": {"transformations": []}}, frames=12)
    missing = open_dataset(tmp_path, "vost-tas").missing
    assert "JPEGImages/7_peel_onion: has 10 pictures, but vost_tas.json lists 12" in missing


def test_real_vost_tas_agrees_with_the_intervals_that_were_taken_by_hand(footage) -> None:
    dataset = open_dataset(footage, "vost-tas")
    assert len(dataset) == 57
    assert len(dataset.references) == 50
    by_hand = {
        item["id"]: sorted(w for windows in item["states"].values() for w in windows)
        for item in json.loads((footage / "states.json").read_text())["items"]
    }
    clips = {clip.id: clip for clip in dataset}
    for name in ("3161_peel_banana", "3316_peel_onion", "556_cut_tomato"):
        states = clips[f"{name}_1"].states
        assert sorted(list(w) for windows in states.values() for w in windows) == by_hand[name]
        assert clips[f"{name}_1"].open().length == clips[f"{name}_1"].frames


def test_real_vost_is_read(footage) -> None:
    dataset = open_dataset(footage, "vost")
    assert [clip.frames for clip in dataset] == [85, 110, 51, 98, 42]
    assert not dataset.missing


# DAVIS, YouTube-VOS, MOSE, M³-VOS


def test_davis_takes_480p_and_its_void(tmp_path) -> None:
    sequence(tmp_path, "bear", below="480p", ids=(1, 2, 255))
    text(tmp_path / "ImageSets" / "2017" / "train.txt", "bear\n")
    (clip,) = open_dataset(tmp_path)
    assert clip.video.endswith("JPEGImages/480p/bear")
    assert clip.columns == {"split": "train"}
    assert open_masks(clip.masks, kind=clip.kind).ids() == (1, 2)


def test_davis_2016_has_one_object_that_is_white(tmp_path) -> None:
    sequence(tmp_path, "bear", below="480p", ids=(255,))
    line = "/JPEGImages/480p/bear/00000.jpg /Annotations/480p/bear/00000.png\n"
    text(tmp_path / "ImageSets" / "480p" / "train.txt", line)
    (clip,) = open_dataset(tmp_path)
    assert clip.kind == "binary"
    assert open_masks(clip.masks, kind=clip.kind).ids() == (1,)


def test_youtube_vos_has_a_clip_for_each_object(tmp_path) -> None:
    youtube_vos(tmp_path / "train")
    cat, dog = open_dataset(tmp_path)
    assert (cat.id, cat.object, cat.objects, cat.component) == ("0a1b-1", "cat", (1,), "0a1b")
    assert (dog.object, dog.columns, dog.sampling) == ("dog", {"split": "train"}, {})


def test_youtube_vos_with_all_frames_takes_every_fifth(tmp_path) -> None:
    cat, _ = open_dataset(youtube_vos(tmp_path, range(27)))
    assert cat.sampling == {"stride": 5}
    assert [frame.source for frame in cat.open()] == [0, 5, 10, 15, 20, 25]
    video = cat.open()
    masks = locate_object(video, masks=cat.masks, objects=cat.objects, id=cat.id)
    history = encode(video, masks, "mini")[cat.id]
    assert list(history.frames) == list(range(6))  # one run, where every frame would give six


def test_youtube_vos_with_a_false_meta_is_refused(tmp_path) -> None:
    youtube_vos(tmp_path)
    document(tmp_path / "meta.json", {"videos": {"a": {}, "b": {"objects": {"x": {}}}}})
    assert [sentence.split(":")[0] for sentence in problems(tmp_path)] == ['video "a"', 'video "b"']


def test_an_object_number_of_thousands_of_digits_is_refused(tmp_path) -> None:
    youtube_vos(tmp_path)
    document(tmp_path / "meta.json", {"videos": {"a": {"objects": {"1" * 5000: {}}}}})
    assert [sentence.split(":")[0] for sentence in problems(tmp_path)] == ['video "a"']


def test_mose_has_no_lists(tmp_path) -> None:
    sequence(tmp_path / "train", "0f2e")
    sequence(tmp_path / "valid", "1a2b", masked=[0])
    dataset = open_dataset(tmp_path)
    assert dataset.layout == "mose"
    assert [(clip.id, clip.columns["split"]) for clip in dataset] == [
        ("0f2e", "train"),
        ("1a2b", "valid"),
    ]


def test_m3_vos_has_words_and_no_times(tmp_path, dejacue) -> None:
    dataset = open_dataset(m3_vos(tmp_path))
    ice, other = dataset
    assert dataset.layout == "m3-vos"
    assert (ice.id, ice.objects) == ("0001_melt_ice-1", (1,))
    assert list(ice.vocabulary.states) == ["solid", "liquid"]
    assert ice.columns["transition"] == "melting"
    assert other.vocabulary is None
    assert "0001_melt_ice-2" in dataset.notes[0]
    ran = dejacue("data", "open", tmp_path, "--references", tmp_path / "r.json")
    assert ran.code == 2
    assert "m3-vos has no times of states" in ran.err
    assert not (tmp_path / "r.json").exists()


def test_m3_vos_without_a_state_is_refused(tmp_path) -> None:
    assert 'object "1"' in problems(m3_vos(tmp_path, after_state=None))[0]


# The command


def test_the_command_writes_what_other_commands_take(tmp_path, dejacue) -> None:
    vost(tmp_path)
    annotation = {"transformations": [transformation(2, 3, "onion_half")]}
    vost_tas(tmp_path, {"7_peel_onion_1": annotation})
    out = tmp_path / "out"
    ran = dejacue(
        "data",
        "open",
        tmp_path,
        "--as",
        "vost-tas",
        "--references",
        out / "r.json",
        "--manifest",
        out / "m.csv",
        "--vocabularies",
        out / "words",
        "--json",
    )
    assert ran.code == 0, ran.err
    summary = json.loads(ran.out)
    assert (summary["layout"], summary["clips"], summary["with references"]) == ("vost-tas", 1, 1)
    (reference,) = read_references(out / "r.json")
    assert reference.states["before"] == (Window(0, 1),)
    words = read_vocabulary(out / "words" / "7_peel_onion_1.json")
    assert words.states["onion half"] == ("onion half",)
    assert words.object == "onion"
    (item,) = read_manifest(out / "m.csv")
    assert (item.id, item.request.objects) == ("7_peel_onion_1", (1,))


def test_nothing_is_written_where_one_of_the_files_cannot_be(tmp_path, dejacue) -> None:
    vost(tmp_path)
    ran = dejacue(
        "data", "open", tmp_path, "--manifest", tmp_path / "m.csv", "--vocabularies", tmp_path / "w"
    )
    assert ran.code == 2
    assert "has no words for its states" in ran.err
    assert not (tmp_path / "m.csv").exists()
    assert not (tmp_path / "w").exists()


def test_problems_are_all_listed_by_the_command(tmp_path, dejacue) -> None:
    late = {"transformations": [transformation(8, 12, "a")]}
    vost_tas(tmp_path, {"1_a_b_1": late, "2_a_b_1": late})
    ran = dejacue("data", "open", tmp_path, "--references", tmp_path / "r.json")
    assert ran.code == 2
    assert ran.err.count("note:") == 1  # the first is in the sentence
    assert all(name in ran.err for name in ("1_a_b_1", "2_a_b_1"))
    assert "(and 1 more problem)" in ran.err
    assert not (tmp_path / "r.json").exists()


def test_a_list_that_leads_out_of_the_folder_is_refused(tmp_path) -> None:
    vost(tmp_path)
    text(tmp_path / "ImageSets" / "test.txt", "../../secret\n")
    with refused("name", "../../secret"):
        open_dataset(tmp_path)


def test_words_about_a_clip_are_columns_that_ingest_keeps(tmp_path) -> None:
    write_manifest(tmp_path / "m.csv", open_dataset(m3_vos(tmp_path / "set")))
    first = read_manifest(tmp_path / "m.csv")[0]
    assert first.extra == {
        "split": "train",
        "before_state": "solid",
        "after_state": "liquid",
        "transition": "melting",
    }
