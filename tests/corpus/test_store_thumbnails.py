"""Thumbnails of a store are small, stay with their histories, and are never in the way."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused
from PIL import Image

from dejacue import Finding, History, Sampling, Store, Vocabulary, find, locate
from dejacue.corpus import _file

D = 8
MAX_BYTES = 8192  # of a thumbnail, as the docstring of Store.add says


def history(id: str, seed: int = 0) -> History:
    features = np.random.default_rng(seed).normal(size=(20, D)).astype(np.float16)
    return History(features, id=id, encoder="e")


def jpeg(seed: int = 0, side: int = 32, quality: int = 75) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (side, side, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=quality)
    return stream.getvalue()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def test_a_thumbnail_comes_back_with_its_history(store) -> None:
    store.add([history("a"), history("b")], thumbnails={"b": jpeg(1)})
    assert store.thumbnail("a") is None
    assert store.thumbnail("b") == jpeg(1)
    assert [row.thumbnail for row in store.rows()] == [False, True]
    for id in ("c", 3, "\udcff"):
        with refused(id):
            store.thumbnail(id)
    store.add(history("b", 2), replace=True)  # other pixels
    assert store.thumbnail("b") is None


def test_thumbnails_may_be_made_while_histories_are(store) -> None:
    pictures: dict[str, bytes] = {}

    def one_by_one():
        for id in "abc":
            pictures[id] = jpeg(ord(id))
            yield history(id)

    store.add(one_by_one(), thumbnails=pictures)
    assert [store.thumbnail(id) for id in "abc"] == [jpeg(ord(id)) for id in "abc"]


def test_a_large_picture_is_made_small(store) -> None:
    large = jpeg(1, 700, 95)
    assert len(large) > 300_000
    store.add(history("a"), thumbnails={"a": large})
    small = store.thumbnail("a")
    assert len(small) <= MAX_BYTES
    assert max(Image.open(io.BytesIO(small)).size) <= 160


@pytest.mark.parametrize(
    ("thumbnails", "id"),
    [
        ({"b": b"GIF89a"}, "b"),
        ({"b": "b.jpg"}, "b"),
        ({"b": jpeg(1)[:3] + bytes(9000)}, "b"),
        ({"c": jpeg(1)}, "c"),
    ],
)
def test_what_is_no_thumbnail_is_refused_and_nothing_added(store, thumbnails, id) -> None:
    store.add(history("a"))
    with refused(store.path, id):
        store.add(history("b"), thumbnails=thumbnails)
    assert store.ids() == ["a"]


def test_compact_keeps_those_of_the_living_and_frees_the_others(store) -> None:
    pictures = {id: jpeg(ord(id)) for id in "abc"}
    store.add([history(id) for id in "abc"], thumbnails=pictures)
    store.remove("b")
    store.compact()
    with _file.snapshot(store.path) as now:
        assert now.execute("SELECT count(*) FROM thumbnails").fetchone() == (2,)
    store.add(history("d"))  # whatever number it gets, it has no picture
    assert [store.thumbnail(id) for id in "acd"] == [pictures["a"], pictures["c"], None]
    assert store.verify() == []


def test_verify_names_the_history_whose_thumbnail_is_damaged(store) -> None:
    store.add([history("a"), history("b")], thumbnails={"a": jpeg(1), "b": jpeg(2)})
    with _file.transaction(store.path) as now:
        now.execute("UPDATE thumbnails SET jpeg = ? WHERE history = 2", (jpeg(3),))
    (damage,) = store.verify()
    assert damage.id == "b"
    assert "has changed since it was written; remove it" in str(damage)


def test_neither_opening_nor_querying_looks_at_thumbnails(store, statements) -> None:
    store.add([history("a"), history("b")], thumbnails={"a": jpeg(1)})
    statements.clear()
    again = Store.open(store.path)
    assert len(list(again.query(Vocabulary({"x": "y", "z": "w"}, np.eye(2, D), encoder="e")))) == 4
    assert statements
    assert not any("thumbnails" in statement for statement in statements)


def test_exports_keep_them_and_they_are_added_again(store, tmp_path, dejacue) -> None:
    import pyarrow.parquet

    store.add([history("a"), history("b")], thumbnails={"a": jpeg(1)})
    store.export(tmp_path / "x.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "x.parquet")
    assert table["thumbnail"].to_pylist() == [jpeg(1), None]
    store.export(tmp_path / "out")
    assert (tmp_path / "out" / "a.jpg").read_bytes() == jpeg(1)
    Store.create(tmp_path / "again").close()
    assert dejacue("store", "add", tmp_path / "again", tmp_path / "out").code == 0
    with Store.open(tmp_path / "again") as again:
        assert [again.thumbnail(id) for id in "ab"] == [jpeg(1), None]


def test_the_commands_show_them(store, tmp_path, dejacue) -> None:
    store.add([history("a"), history("b")], thumbnails={"a": jpeg(1)})
    assert dejacue("store", "ls", store.path).out.count("yes") == 1
    assert '"thumbnail": true' in dejacue("store", "ls", store.path, "--jsonl").out
    assert "thumbnail: 1." in dejacue("store", "ls", store.path, "a").out
    assert "thumbnail" not in dejacue("store", "ls", store.path, "b").out
    file = tmp_path / "a.jpg"
    assert dejacue("store", "ls", store.path, "a", "--thumbnail", file).code == 0
    assert file.read_bytes() == jpeg(1)
    ran = dejacue("store", "ls", store.path, "b", "--thumbnail", tmp_path / "b.jpg")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert 'history "b" has no thumbnail' in ran.err


def test_a_finding_has_one_and_its_folder_is_added_with_it(tmp_path, dejacue) -> None:
    from dejacue_paper.data.rendered import render, write_scene

    write_scene(tmp_path / "cup", render(7, family="cup", topology="three"), overwrite=True)
    finding = find(
        tmp_path / "cup" / "scene.mp4",
        tmp_path / "cup" / "vocabulary.yaml",
        masks=tmp_path / "cup" / "Annotations",
        encoder="mini",
        sampling=Sampling(stride=8),
        folder=tmp_path / "out",
    )
    assert finding.thumbnail in finding.crops.values()
    Store.create(tmp_path / "s").close()
    assert dejacue("store", "add", tmp_path / "s", tmp_path / "out").code == 0
    with Store.open(tmp_path / "s") as store:
        picture = store.thumbnail(finding.history.id)
        assert picture is not None
        assert len(picture) <= MAX_BYTES


def test_a_finding_without_pictures_has_none() -> None:
    record = history("a")
    words = Vocabulary({"x": "y", "z": "w"}, np.eye(2, D), encoder="e")
    assert Finding(record, words, locate(record, words)).thumbnail is None
