"""Bad input of dejacue store: one sentence that names the place and the remedy, nothing changed."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from dejacue import History, Store, write_history
from dejacue.store import _index


def history(id: str, encoder: str | None = "e", dimension: int = 8) -> History:
    features = np.random.default_rng(0).normal(size=(10, dimension))
    return History(features, id=id, encoder=encoder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store of "a", a newer store, and files that do not fit."""
    with Store.create(tmp_path / "store") as store:
        store.add(history("a"))
    with Store.create(tmp_path / "unnamed") as store:
        store.add(history("a", None))
    Store.create(tmp_path / "empty").close()
    Store.create(tmp_path / "newer").close()
    with sqlite3.connect(tmp_path / "newer" / _index.NAME) as index:
        index.execute("PRAGMA user_version = 99")
    index.close()
    write_history(tmp_path / "a.npz", history("a"))
    write_history(tmp_path / "b.npz", history("b"))
    write_history(tmp_path / "other.npz", history("c", "other@1"))
    write_history(tmp_path / "narrow.npz", history("c", "e", 4))
    write_history(tmp_path / "unnamed.npz", history("c", None))
    (tmp_path / "w.yaml").write_text("open: [open drawer]\nclosed: [closed drawer]\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("add store b.npz a.npz", 'store: already has a history "a"; rename it, or .* --replace'),
        (
            "add store b.npz b.npz",
            'store: history "b" is given twice; every history needs its own id',
        ),
        (
            "add store b.npz other.npz",
            '"c" was encoded with "other@1", but the store contains "e"; use',
        ),
        ("add store b.npz unnamed.npz", '"c" was encoded with an unnamed encoder, but the store'),
        ("add store b.npz narrow.npz", '"c" has 4 dimensions, but the store has 8; encode it with'),
        ("add store b.npz none.npz", "none.npz: no such file"),
        ("add store b.npz w.yaml", "w.yaml: not an .npz file"),
        ("add newer b.npz", "newer: is a store of version 99, .* versions up to 3; update dejacue"),
        ("ls w.yaml", "w.yaml: is a file, but a store is a folder"),
        ("ask store -v w.yaml --top -1", "--top -1: give a number of histories, or 0 for all"),
        ("ls newer", "newer: is a store of version 99"),
        ("ask newer -v w.yaml", "newer: is a store of version 99"),
        (
            "add fresh --encoder siglip2",
            'fresh: "siglip2" is the name of an encoder, .*; leave it out',
        ),
        ("add store", "store: is already a store; give histories to add"),
        ("ask store -v w.yaml", 'history a was made with "e"; name the encoder .* --encoder'),
        ("ask store -v w.yaml --encoder sigl", 'unknown encoder "sigl"; did you mean "siglip2"'),
        ("ask unnamed -v w.yaml", 'with "an unnamed encoder"; name the encoder'),
        ("ask empty -v w.yaml", "empty: is empty; add histories with dejacue store add"),
        (
            "ask store -v w.yaml -o x.docx",
            "x.docx: the file name decides the format; use one that ends",
        ),
        ("ls store z", 'store: has no history "z"; dejacue store ls'),
        ("rm store a z", 'store: has no history "z", so nothing was removed'),
        ("export store -o store", "store: is inside the store itself; give another place"),
        ("export store -o x --kind zarr", 'unknown kind "zarr"'),
    ],
)
def test_it_is_said_in_a_sentence_and_nothing_changes(folder, dejacue, command, sentence) -> None:
    names = {own.name for own in folder.iterdir()} | {"fresh"}
    name, *rest = command.split()
    said = dejacue("store", name, *(folder / own if own in names else own for own in rest))
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert len(said.err) < 600
    assert re.search(sentence, said.err), said.err
    with Store.open(folder / "store") as store:
        assert store.ids() == ["a"]
        assert store.verify() == []
    assert {own.name for own in folder.iterdir()} == names - {"fresh"}
