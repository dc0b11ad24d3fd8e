"""dejacue store answers bad input with one sentence that names the place, and changes nothing."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from dejacue import History, Store
from dejacue.files import write_history


def history(id: str, encoder: str | None = "e", dimension: int = 8) -> History:
    features = np.random.default_rng(0).normal(size=(10, dimension))
    return History(features, id=id, encoder=encoder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a store of "a", one of another version, and files that do not fit."""
    with Store.create(tmp_path / "store") as store:
        store.add(history("a"))
    with Store.create(tmp_path / "unnamed") as store:
        store.add(history("a", None))
    with Store.create(tmp_path / "pictures") as store:
        store.add(history("a", "efficientnet-lite0@1"))
    Store.create(tmp_path / "empty").close()
    Store.create(tmp_path / "newer").close()
    with contextlib.closing(sqlite3.connect(tmp_path / "newer")) as now:
        now.execute("PRAGMA user_version = 99")
    write_history(tmp_path / "a.npz", history("a"))
    write_history(tmp_path / "b.npz", history("b"))
    write_history(tmp_path / "other.npz", history("c", "other@1"))
    write_history(tmp_path / "narrow.npz", history("c", "e", 4))
    write_history(tmp_path / "unnamed.npz", history("c", None))
    (tmp_path / "w.yaml").write_text("open: [open drawer]\nclosed: [closed drawer]\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("add store b.npz a.npz", ["store: ", '"a"', "replace the other one"]),
        ("add store b.npz b.npz", ["store: ", '"b"', "twice"]),
        ("add store b.npz other.npz", ['"c"', '"other@1"', '"e"']),
        ("add store b.npz unnamed.npz", ['"c"', "unnamed encoder"]),
        ("add store b.npz narrow.npz", ['"c"', "4 dimensions", "has 8"]),
        ("add store b.npz none.npz", ["none.npz: no such file"]),
        ("add store b.npz w.yaml", ["w.yaml: "]),
        ("add newer b.npz", ["newer: ", "version 99", "another version", "make it again"]),
        ("ls w.yaml", ["w.yaml: is not a store"]),
        ("ls .", ["is a folder, but a store is a file"]),
        ("add w.yaml b.npz", ["w.yaml: is not a store"]),
        ("query store -v w.yaml --top -1", ["--top -1"]),
        ("ls newer", ["newer: ", "version 99"]),
        ("query newer -v w.yaml", ["newer: ", "version 99"]),
        ("add fresh --encoder siglip2", ["fresh: ", '"siglip2"', "leave it out"]),
        ("add store", ["store: is already a store"]),
        ("query pictures -v w.yaml", ["pictures: ", "lite, which has no words", "--like"]),
        ("query store -v w.yaml", ['history a was made with "e"', "name the encoder"]),
        ("query store -v w.yaml --encoder sigl", ['encoder "sigl"', '"siglip2"']),
        ("query unnamed -v w.yaml", ["an unnamed encoder", "name the encoder"]),
        ("query empty -v w.yaml", ["empty: is empty", "dejacue store add"]),
        ("query store -v w.yaml -o x.docx", ["x.docx: ", ".csv"]),
        ("ls store z", ["store: ", '"z"', "dejacue store ls"]),
        ("rm store a z", ["store: ", '"z"', "nothing was removed"]),
        ("export store -o store", ["store: is the store itself"]),
    ],
)
def test_it_is_said_in_a_sentence_and_nothing_changes(folder, dejacue, command, names) -> None:
    files = {path.name for path in folder.iterdir()} | {"fresh"}
    name, *rest = command.split()
    ran = dejacue("store", name, *(folder / word if word in files else word for word in rest))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert len(ran.err) < 600
    assert [name for name in names if name not in ran.err] == [], ran.err
    with Store.open(folder / "store") as store:
        assert store.ids() == ["a"]
        assert store.verify() == []
    assert {path.name for path in folder.iterdir()} == files - {"fresh"}
