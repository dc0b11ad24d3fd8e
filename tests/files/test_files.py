"""Histories and vocabularies on disk: what is written comes back, what is broken is named."""

from __future__ import annotations

import io
import json
import math
import os
import stat
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import (
    DejaCueError,
    Finding,
    History,
    Vocabulary,
    find,
    open_masks,
    open_video,
)
from dejacue.atomic import check_place, write_text, write_whole
from dejacue.files import (
    read_history,
    read_references,
    read_vocabulary,
    write_history,
    write_vocabulary,
)
from dejacue.files.histories import vocabulary_yaml
from dejacue.files.npz import read_npz, write_npz
from dejacue.masks import write_masks
from dejacue.models.trackers import check_target
from dejacue_paper import load_release

ROWS = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
WORDS = "empty: [empty cup, cup with nothing in it]\nfilled: cup with coffee\n"


def save(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def npy(array: object) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array))
    return stream.getvalue()


def header(text: str, version: tuple[int, int] = (1, 0)) -> bytes:
    """Return an .npy header that holds the text, whatever it says."""
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text) + 1)
    return b"\x93NUMPY" + bytes(version) + size + text.encode() + b"\n"


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


# Round trips


def test_a_full_history_comes_back_as_it_was(tmp_path):
    history = History(
        ROWS,
        [0, 1, 5, 6],
        "cup",
        "siglip@1",
        times_s=[0.0, 0.1, 0.5, 0.6],
        source_frames=[0, 3, 15, 18],
        presence=[1.0, 0.9, 0.2, 1.0],
    )
    back = read_history(write_history(tmp_path / "cup.npz", history))
    assert (back.id, back.encoder) == ("cup", "siglip@1")
    for name in ("features", "frames", "times_s", "source_frames", "presence"):
        before, after = getattr(history, name), getattr(back, name)
        assert before.dtype == after.dtype
        assert np.array_equal(before, after)


def test_a_bare_history_comes_back_without_columns(tmp_path):
    back = read_history(write_history(tmp_path / "cup.npz", History(ROWS)))
    assert back.encoder is back.times_s is back.source_frames is back.presence is None


def test_half_precision_stays_half_precision(tmp_path):
    history = History(ROWS.astype(np.float16))
    back = read_history(write_history(tmp_path / "cup.npz", history))
    assert back.features.dtype == np.float16
    assert np.array_equal(back.features, history.features)


@pytest.mark.parametrize("name", ["", "Tasse ☕ mit 空", "a\nb"])
def test_names_come_back_letter_by_letter(tmp_path, name):
    path = write_history(tmp_path / "x.npz", History(ROWS, id=name, encoder=name))
    assert read_history(path).id == read_history(path).encoder == name


def test_a_history_without_a_name_is_called_after_its_file(tmp_path):
    assert read_history(save(tmp_path / "cup.npz", features=ROWS)).id == "cup"
    assert read_history(save(tmp_path / "cup.history.npz", features=ROWS)).id == "cup"


def test_a_vocabulary_comes_back_as_it_was(tmp_path):
    states = {"leer": ["leere Tasse", "Tasse ohne Inhalt"], "voll": ["volle Tasse ☕"]}
    vocabulary = Vocabulary(states, ROWS[:3].astype(np.float16), "siglip@1", "Tasse")
    back = read_vocabulary(write_vocabulary(tmp_path / "v.npz", vocabulary))
    assert back.states == vocabulary.states
    assert (back.encoder, back.object) == ("siglip@1", "Tasse")
    assert back.features.dtype == np.float16
    assert np.array_equal(back.features, vocabulary.features)


def test_a_bare_vocabulary_comes_back_without_names(tmp_path):
    path = write_vocabulary(tmp_path / "v.npz", Vocabulary({"a": "x", "b": "y"}, ROWS[:2]))
    back = read_vocabulary(path)
    assert back.encoder is back.object is None


def test_a_vocabulary_without_features_is_not_written(tmp_path):
    with refused("features"):
        write_vocabulary(tmp_path / "v.npz", Vocabulary({"a": "x", "b": "y"}))
    assert list(tmp_path.iterdir()) == []


def test_what_is_read_is_read_only(tmp_path):
    history = read_history(write_history(tmp_path / "cup.npz", History(ROWS)))
    with pytest.raises(ValueError, match="read-only"):
        history.features[0, 0] = 1


def test_numpy_reads_what_is_written(tmp_path):
    path = write_history(tmp_path / "cup.npz", History(ROWS, id="cup"))
    with np.load(path, allow_pickle=False) as arrays:
        assert set(arrays) == {"schema", "id", "features", "frames"}
        assert str(arrays["schema"]) == "dejacue.history/1"
        assert np.array_equal(arrays["features"], ROWS)


def test_compressed_and_fortran_ordered_arrays_are_read(tmp_path):
    np.savez_compressed(tmp_path / "f.npz", features=np.asfortranarray(ROWS))
    assert np.array_equal(read_history(tmp_path / "f.npz").features, ROWS)


# The keys of the public release


def test_a_history_of_the_release_is_read(tmp_path):
    path = save(tmp_path / "h.npz", visual_features=ROWS, frame_indices=np.array([3, 4, 8, 9]))
    history = read_history(path)
    assert history.frames.tolist() == [3, 4, 8, 9]
    assert np.array_equal(history.features, ROWS)


@pytest.mark.parametrize("key", ["states", "state_ids", "state_tokens"])
def test_rows_interleaved_between_states_are_regrouped(tmp_path, key):
    path = save(
        tmp_path / "v.npz",
        **{key: np.array(["b", "a", "b", "a"])},
        state_texts=np.array(["b1", "a1", "b2", "a2"]),
        text_features=ROWS,
    )
    vocabulary = read_vocabulary(path)
    assert vocabulary.states == {"b": ("b1", "b2"), "a": ("a1", "a2")}
    assert np.array_equal(vocabulary.features, ROWS[[0, 2, 1, 3]])


@pytest.fixture
def prompts_file(tmp_path) -> Path:
    return save(
        tmp_path / "p.npz",
        state_ids=np.array(["a", "b"]),
        state_texts=np.array(["a1", "b1"]),
        variant_names=np.array(["raw", "photo"]),
        text_features=ROWS.reshape(2, 2, 5),
    )


@pytest.mark.parametrize(("prompts", "rows"), [("raw", slice(0, 2)), ("photo", slice(2, 4))])
def test_a_prompt_variant_is_picked_by_name(prompts_file, prompts, rows):
    vocabulary = read_vocabulary(prompts_file, templates=prompts)
    assert np.array_equal(vocabulary.features, ROWS[rows])


def test_prompt_variants_have_to_be_chosen(prompts_file):
    with refused(prompts_file, "templates"):
        read_vocabulary(prompts_file)
    with refused(prompts_file, "templates", "phto"):
        read_vocabulary(prompts_file, templates="phto")


def test_a_vocabulary_without_variants_has_none_to_choose(tmp_path):
    path = write_vocabulary(tmp_path / "v.npz", Vocabulary({"a": "x", "b": "y"}, ROWS[:2]))
    with refused(path, "templates"):
        read_vocabulary(path, templates="raw")


def test_variant_names_must_fit_the_features(tmp_path):
    path = save(
        tmp_path / "p.npz",
        state_ids=np.array(["a", "b"]),
        state_texts=np.array(["a1", "b1"]),
        variant_names=np.array(["raw", "photo", "more"]),
        text_features=ROWS.reshape(2, 2, 5),
    )
    with refused(path, "variant names"):
        read_vocabulary(path, templates="raw")


# YAML and JSON


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".YAML"])
def test_words_are_read_from_yaml(tmp_path, suffix):
    path = write_text(tmp_path / f"cup{suffix}", WORDS)
    assert read_vocabulary(path).states == {
        "empty": ("empty cup", "cup with nothing in it"),
        "filled": ("cup with coffee",),
    }


def test_words_that_yaml_reads_otherwise_come_back(tmp_path):
    states = {"yes": ["it's: so", "# not"], "no": ["- none", "émpty “x”"], "a: b\nc": ["3\n\n4"]}
    path = tmp_path / "odd.yaml"
    path.write_text(vocabulary_yaml(states, "null", exhaustive=True), encoding="utf-8")
    vocabulary = read_vocabulary(path)
    assert {state: list(texts) for state, texts in vocabulary.states.items()} == states
    assert (vocabulary.object, vocabulary.exhaustive) == ("null", True)


def test_words_are_read_from_json_with_an_object(tmp_path):
    document = {"object": "Tasse", "states": {"leer": "leere Tasse", "voll": ["volle Tasse"]}}
    path = write_text(tmp_path / "cup.json", json.dumps(document))
    vocabulary = read_vocabulary(path)
    assert vocabulary.object == "Tasse"
    assert vocabulary.descriptions == ("leere Tasse", "volle Tasse")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cup.yaml", "- empty cup\n- filled cup\n"),
        ("cup.json", '["empty cup", "filled cup"]'),
        ("cup.json", '{"object": "cup", "states": ["empty cup", "filled cup"]}'),
    ],
)
def test_a_list_of_sentences_is_a_vocabulary_of_as_many_states(tmp_path, name, text):
    vocabulary = read_vocabulary(write_text(tmp_path / name, text))
    assert dict(vocabulary.states) == {s: (s,) for s in ("empty cup", "filled cup")}
    assert Vocabulary.from_dict(["empty cup", "filled cup"]).states == vocabulary.states


@pytest.mark.parametrize(
    ("name", "text"), [("cup.yaml", WORDS), ("cup.json", '{"empty": "a", "filled": "b"}')]
)
def test_a_byte_order_mark_is_no_part_of_the_words(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert list(read_vocabulary(path).states) == ["empty", "filled"]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("empty: a\nfilled: b\nempty: c\n", ("empty",)),
        ("states: {a: x, b: y}\nstates: {c: x, d: y}\n", ("states",)),
        ("on: lamp on\noff: lamp off\n", ("line 1", "on")),
        ("a: x\nb: [y, Off]\n", ("line 2", "Off")),
        ("object: yes\nstates: {a: x, b: y}\n", ("line 1", "yes")),
        ("1: one\n2: two\n", ("vocabulary: state name 1 is not text",)),
        ("empty: 5\nfilled: full\n", ('vocabulary: state "empty" must list',)),
        ("empty:\nfilled: full\n", ('vocabulary: state "empty" has no description',)),
        ("empty: a cup\n", ("vocabulary: 1 state in words alone",)),
        ("- empty\n- empty\n", ("empty",)),
        ("- empty\n- 5\n", (5,)),
        (f"a: x\nb: {'1:' * 5000}1\n", ("line 2", "put it in quotes")),
        (f"a: x\nb: 0x{'f' * 5000}\n", ("line 2",)),
        (f"a: x\nb: [{'y,' * 40_000}y]\n", ("write it as JSON",)),
        ("# to be filled in\n", ("vocabulary: expected states and their",)),
        ("", ("is empty",)),
    ],
)
def test_yaml_that_is_no_vocabulary_is_refused_in_one_line(tmp_path, text, facts):
    path = write_text(tmp_path / "cup.yaml", text)
    with refused(path, *facts) as caught:
        read_vocabulary(path)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "empty: [a\n",
        "a: x\n--- \nb: y\n",
        "a: !!python/object/apply:os.getcwd []\nb: y\n",
        "a: !!int ''\nb: y\n",
        "a: !!bool maybe\nb: y\n",
        "a: !!timestamp now\nb: y\n",
        "? [a]\n: x\nb: y\n",
        "&a {x: *a}\n",
        "a: " + "[" * 1500,
    ],
)
def test_what_is_not_valid_yaml_is_refused_in_one_line(tmp_path, text):
    path = write_text(tmp_path / "cup.yaml", text)
    with refused(path) as caught:
        read_vocabulary(path)
    caught.match("not valid YAML")
    assert len(str(caught.value).splitlines()) == 1


def test_quotes_make_on_and_off_names(tmp_path):
    path = write_text(tmp_path / "lamp.yaml", '"on": lamp on\n"off": lamp off\n')
    assert list(read_vocabulary(path).states) == ["on", "off"]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ('{"a": "x", "b": "y", "a": "z"}', ("a",)),
        ('{"states": {"a": "x", "b": "y", "b": "z"}}', ("b",)),
        ('{"a": "x",', ("not valid JSON, or cut short",)),
        ("", ("is empty",)),
        ("[" * 100_000, ("not valid JSON, or cut short",)),
        ('{"a": ' + "1" * 5000 + "}", ("line 1",)),
        ('{"a": "x",\n"b": NaN}', ("line 2", "NaN")),
        ('{"a": 1e999, "b": "y"}', ("line 1", "1e999")),
        ('{"a": "x"}\n{"b": "y"}', ("keep one",)),
        (r'{"a": "x", "b": "\ud83d"}', (r"\ud83d",)),
        ('["a"]', ("vocabulary: 1 state in words alone",)),
        ("null", ("vocabulary: expected states and their",)),
    ],
)
def test_bad_json_is_refused_in_one_line(tmp_path, text, facts):
    path = write_text(tmp_path / "cup.json", text)
    with refused(path, *facts) as caught:
        read_vocabulary(path)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_text_that_is_not_utf_8_is_refused(tmp_path, suffix):
    path = tmp_path / f"cup{suffix}"
    path.write_bytes("leer: Gefäß\n".encode("latin-1"))
    with refused(path, "save it as UTF-8"):
        read_vocabulary(path)


def test_a_word_list_of_more_than_a_megabyte_is_refused(tmp_path):
    path = write_text(tmp_path / "cup.yaml", "#" * (1 << 20) + "\n" + WORDS)
    with refused(path, "check that it is a vocabulary"):
        read_vocabulary(path)


@pytest.mark.parametrize("name", ["cup.txt", "cup", "cup.npz.bak"])
def test_an_unknown_suffix_is_refused(tmp_path, name):
    path = write_text(tmp_path / name, WORDS)
    with refused(path, "a vocabulary is an .npz, .yaml"):
        read_vocabulary(path)


@pytest.mark.parametrize("suffix", [".yaml", ".json", ".npz"])
def test_a_missing_vocabulary_or_a_folder_is_named(tmp_path, suffix):
    path = tmp_path / f"cup{suffix}"
    with refused(path) as caught:
        read_vocabulary(path)
    caught.match("no such file")
    path.mkdir()
    with refused(path) as caught:
        read_vocabulary(path)
    caught.match("cannot be read")


# Broken .npz files


def test_a_missing_history_a_folder_or_a_file_in_a_file_is_named(tmp_path):
    write_text(tmp_path / "file", "x")
    for path in (tmp_path / "nowhere.npz", tmp_path, tmp_path / "file" / "x.npz"):
        with refused(path):
            read_history(path)


@pytest.mark.parametrize("content", [b"", b"hello", npy(ROWS), b"PK\x03\x04", b"\0" * 1000])
def test_a_file_that_is_no_zip_is_refused(tmp_path, content):
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with refused(path) as caught:
        read_history(path)
    caught.match("not an .npz file, or a damaged one")


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path):
    path = write_history(tmp_path / "x.npz", History(ROWS, times_s=np.arange(4.0)))
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 41), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with refused(path):
            read_history(path)


def test_objects_are_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self) -> tuple:
            return os.mkdir, (str(tmp_path / "sprung"),)

    path = tmp_path / "x.npz"
    np.savez(path, features=np.array([Trap()], dtype=object))
    with refused(path, "features.npy", "save plain numbers and strings"):
        read_history(path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("content", "keyword"),
    [
        (
            header(
                "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 5)}" + " " * 20_000, (2, 0)
            )
            + ROWS.tobytes(),
            "Header info length",
        ),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", "header"),
        (b"\x93NUMPY\x01\x00", "header"),
        (b"\x93NUMPY\x09\x09" + b" " * 100, "version"),
        (b"hello", "header"),
        (b"", "header"),
        (header("{'descr': '<f4', 'fortran_order': False"), "header"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,"), "header"),
        (header("(" * 3000), "header"),
        (header("{'descr': '<q9', 'fortran_order': False, 'shape': (3,)}"), "header"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': 'x'}"), "header"),
        (header("{'descr': '<f4', 'fortran_order': False}"), "header"),
        (
            header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({10**30}, 768)}}"),
            "not a history",
        ),
        (
            header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({10**6}, 768)}}"),
            "3072000000 bytes of data but holds 0",
        ),
        (
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 5)}") + b"\0" * 20,
            "negative",
        ),
        (
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -2)}") + b"\0" * 16,
            "negative",
        ),
        (npy(ROWS)[:-1], "80 bytes of data but holds 79"),
        (npy(ROWS) + b"\0", "80 bytes of data but holds 81"),
    ],
)
def test_a_bad_array_is_named_and_refused(tmp_path, content, keyword):
    path = zipped(tmp_path / "x.npz", {"features.npy": content})
    with refused(path, "features.npy") as caught:
        read_history(path)
    caught.match(keyword)


def test_an_array_of_nothing_is_refused(tmp_path):
    content = header("{'descr': '|V0', 'fortran_order': False, 'shape': (3,)}")
    path = zipped(tmp_path / "x.npz", {"features.npy": content})
    with refused(path):
        read_history(path)


def test_only_arrays_may_be_members(tmp_path):
    path = zipped(tmp_path / "x.npz", {"features.npy": npy(ROWS), "readme.txt": b"hello"})
    with refused(path, "readme.txt"):
        read_history(path)


def bomb(path, members):
    """Write zeros, which pack a thousandfold, as arrays {name: (shape, dtype)}."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (shape, dtype) in members.items():
            text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}"
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                stream.write(header(text))
                left = math.prod(shape) * np.dtype(dtype).itemsize
                while left:
                    left -= stream.write(b"\0" * min(left, 1 << 20))
    return path


def test_a_file_that_unpacks_a_hundredfold_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("dejacue.files.npz.ALWAYS_UNPACKED_BYTES", 1 << 24)
    shape = (10_000, 768)
    path = bomb(tmp_path / "x.npz", {"features": (shape, "<f4"), "frames": (shape[:1], "<i8")})
    tracemalloc.start()
    with refused(path, "29 MB"):
        read_history(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


def test_what_nobody_asks_for_is_not_unpacked(tmp_path):
    path = bomb(tmp_path / "x.npz", {"extra": ((30 << 20,), "|u1")})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("features.npy", npy(ROWS))
    tracemalloc.start()
    assert len(read_history(path)) == len(ROWS)
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


def test_an_array_that_is_there_twice_is_refused(tmp_path):
    path = zipped(tmp_path / "x.npz", {"features.npy": npy(ROWS)})
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("features.npy", npy(ROWS))
    with refused(path, "features", "the file is damaged"):
        read_history(path)


def test_an_encrypted_member_is_refused(tmp_path):
    path = zipped(tmp_path / "x.npz", {"features.npy": npy(ROWS)})
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    path.write_bytes(content)
    with refused(path, "features.npy", "save it without a password"):
        read_history(path)


@pytest.mark.parametrize("copies", [1, 1000])
def test_a_wrong_checksum_is_noticed(tmp_path, copies):
    rows = np.tile(ROWS, (copies, 1))
    path = write_history(tmp_path / "x.npz", History(rows))
    content = path.read_bytes()
    last = content.index(rows.tobytes()) + rows.nbytes - 1
    path.write_bytes(content[:last] + b"\x01" + content[last + 1 :])
    with refused(path) as caught:
        read_history(path)
    caught.match("Bad CRC-32 for file 'features.npy'")


def test_a_checksum_is_verified_for_compressed_arrays_too(tmp_path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, features=ROWS)
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 14), (b"PK\x01\x02", 16)):
        content[content.index(signature) + offset] ^= 1
    path.write_bytes(content)
    with refused(path) as caught:
        read_history(path)
    caught.match("Bad CRC-32")


def test_text_that_is_not_unicode_is_refused(tmp_path):
    beyond = np.array([0x110000], "<u4").view("<U1").reshape(())
    for bad in (beyond, np.array("\ud800")):
        path = save(tmp_path / "x.npz", features=ROWS, id=bad)
        with refused(path, "id.npy"):
            read_history(path)


def test_a_vocabulary_is_not_a_history_nor_the_other_way_round(tmp_path):
    vocabulary = write_vocabulary(tmp_path / "v.npz", Vocabulary({"a": "x", "b": "y"}, ROWS[:2]))
    history = write_history(tmp_path / "h.npz", History(ROWS))
    with refused(vocabulary, "dejacue.vocabulary/2"):
        read_history(vocabulary)
    with refused(history, "dejacue.history/1"):
        read_vocabulary(history)


@pytest.mark.parametrize("schema", [np.arange(3), np.array(b"dejacue.history/1"), np.array(["x"])])
def test_a_schema_is_one_piece_of_text(tmp_path, schema):
    path = save(tmp_path / "x.npz", features=ROWS, schema=schema)
    with refused(path, "schema"):
        read_history(path)


def test_a_file_with_other_arrays_says_which(tmp_path):
    path = save(tmp_path / "x.npz", embeddings=ROWS, index=np.arange(4))
    for read in (read_history, read_vocabulary):
        with refused(path, "features") as caught:
            read(path)
        caught.match("holds embeddings, index")
    with refused(zipped(tmp_path / "empty.npz", {}), "features"):
        read_history(tmp_path / "empty.npz")


def test_a_bad_history_is_refused_under_the_name_of_its_file(tmp_path):
    path = save(tmp_path / "x.npz", features=ROWS, frames=np.array([0, 1, 1, 2]))
    with refused(path) as caught:
        read_history(path)
    caught.match("frames are repeated")
    path = save(tmp_path / "x.npz", features=ROWS, times_s=np.array(["a", "b", "c", "d"]))
    with refused(path) as caught:
        read_history(path)
    caught.match("times_s")
    path = save(tmp_path / "x.npz", features=ROWS, id=np.array(5))
    with refused(path, "id"):
        read_history(path)


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"features": ROWS[:1]}, ("features",)),
        ({"features": np.float32(1)}, ("features",)),
        ({"states": np.array("a")}, ("features",)),
        ({"descriptions": np.array(["x"])}, ("features",)),
        ({"states": np.array([1, 2])}, ("states",)),
        ({"descriptions": np.array([b"x", b"y"])}, ("states",)),
        ({"descriptions": np.array(["x", "x"])}, ('vocabulary: "x" describes both "a" and "b"',)),
        ({"states": np.array(["a", "a"])}, ("vocabulary: 1 state in words alone",)),
        ({"features": np.zeros((2, 5))}, ("vocabulary: features: row 0 is a zero vector",)),
    ],
)
def test_a_bad_vocabulary_is_refused_under_the_name_of_its_file(tmp_path, changed, facts):
    arrays = {
        "features": ROWS[:2],
        "states": np.array(["a", "b"]),
        "descriptions": np.array(["x", "y"]),
    }
    assert len(read_vocabulary(save(tmp_path / "good.npz", **arrays))) == 2
    path = save(tmp_path / "x.npz", **(arrays | changed))
    with refused(path, *facts):
        read_vocabulary(path)


def test_brackets_without_end_are_refused_at_once(tmp_path):
    (path := tmp_path / "x.yaml").write_text("# states\na: " + "[" * 1_000_000)
    with refused(path) as caught:
        read_vocabulary(path)
    caught.match("line 2: brackets")


# Writing


def test_a_writer_that_fails_leaves_the_old_file_as_it_was(tmp_path):
    target = tmp_path / "out.bin"
    target.write_bytes(b"the old content")

    def fail(stream):
        stream.write(b"half of it")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(target, fail)
    assert target.read_bytes() == b"the old content"
    assert list(tmp_path.iterdir()) == [target]


def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path):
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    seen = []

    def write(stream):
        stream.write(b"new, first half; ")
        stream.flush()
        seen.append(target.read_bytes())
        stream.write(b"second half")

    assert write_whole(target, write) == target
    assert seen == [b"old"]
    assert target.read_bytes() == b"new, first half; second half"
    assert list(tmp_path.iterdir()) == [target]


def test_an_array_that_cannot_be_saved_leaves_nothing_behind(tmp_path):
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_npz(tmp_path / "x.npz", {"good": ROWS, "bad": np.array([object()])})
    assert list(tmp_path.iterdir()) == []


def test_folders_are_made_for_a_file(tmp_path):
    path = write_npz(tmp_path / "a" / "b" / "x.npz", {"good": ROWS})
    assert np.array_equal(read_npz(path, ["good"])["good"], ROWS)


@pytest.mark.skipif(os.name != "posix", reason="permissions and links are those of POSIX")
def test_a_written_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").touch()
    written = write_text(tmp_path / "written", "x")
    assert stat.S_IMODE(written.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


@pytest.mark.skipif(os.name != "posix", reason="permissions and links are those of POSIX")
@pytest.mark.parametrize(
    "use",
    [
        lambda path: write_text(path, "new"),
        check_place,
        lambda path: check_place(path, folder=True),
        lambda path: check_place(path / "inside"),
        load_release,
        check_target,
        lambda path: write_masks(path, [(0, {1: np.ones((4, 4), bool)})]),
        read_references,
        open_masks,
        open_video,
        Finding.read,
        lambda path: find(path, {"a": "x", "b": "y"}, masks=path),
    ],
)
def test_links_that_lead_back_to_themselves_and_endless_names_are_refused(tmp_path, use):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for path in (tmp_path / "a", tmp_path / ("n" * 300)):
        with pytest.raises(DejaCueError) as caught:
            use(path)
        assert str(caught.value).startswith(str(path))
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.skipif(os.name != "posix", reason="permissions and links are those of POSIX")
def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_folder_is_never_replaced_by_a_file(tmp_path):
    with refused(tmp_path, "give another name"):
        write_text(tmp_path, "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="there is no /dev/null")
def test_a_device_is_never_replaced_by_a_file(tmp_path):
    (tmp_path / "null").symlink_to("/dev/null")
    with refused(tmp_path / "null", "give another name"):
        write_text(tmp_path / "null", "x")
    assert Path("/dev/null").is_char_device()


# Where files can be made


def test_a_place_is_checked_without_making_anything(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    for path, folder in (("new/x.json", False), ("new", True), ("file", False), ("", True)):
        check_place(tmp_path / path, folder=folder)
    with refused(tmp_path / "file", "give another place"):
        check_place(tmp_path / "file", folder=True)
    with refused(tmp_path / "file" / "x.json", "give another place"):
        check_place(tmp_path / "file" / "x.json")
    with refused("/proc/x/y", "give another place"):
        check_place("/proc/x/y")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_place_without_permission_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with refused(tmp_path / "x.json") as caught:
        check_place(tmp_path / "x.json")
    caught.match("not writable")


@pytest.mark.parametrize("name", ["file/x.json", "file/deeper/x.json"])
def test_a_file_that_cannot_be_made_names_the_place(tmp_path, name) -> None:
    (tmp_path / "file").write_text("")
    with refused(tmp_path / name, "give another place"):
        write_text(tmp_path / name, "x")
    with refused(tmp_path / ("x" * 400), "give another place"):
        write_text(tmp_path / ("x" * 400), "x")


def test_of_many_strange_arrays_a_few_are_named(tmp_path) -> None:
    path = write_npz(tmp_path / "x.npz", {f"array{n:02d}": np.zeros(1) for n in range(98)})
    with refused(path, "features") as caught:
        read_history(path)
    caught.match("array00.*array07, … and")
    assert len(str(caught.value)) < 300 + len(str(path))
    path = write_npz(tmp_path / "eight.npz", {f"array{n}": np.zeros(1) for n in range(8)})
    with refused(path, "features") as caught:
        read_history(path)
    caught.match("array6, array7 and")


@pytest.mark.parametrize(("text", "known"), [("120", 120), ("9" * 5000, None), ("٣", None)])
def test_the_number_of_frames_looked_at_is_read_with_care(text, known) -> None:
    history = History(np.ones((3, 2)), made_with={"frames": text})
    assert history.frames_looked_at == known


@pytest.mark.parametrize(("kind", "shape"), [("|S0", (10**12,)), ("<f4", (10**12, 0))])
def test_values_without_size_are_not_counted_out(tmp_path, kind, shape) -> None:
    content = header(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}")
    path = zipped(tmp_path / "x.npz", {"states.npy": content})
    with refused(path, "states.npy") as caught:
        read_vocabulary(path)
    caught.match("size zero")
