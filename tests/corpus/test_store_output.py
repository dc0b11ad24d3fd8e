"""The answers of a store are written to files and pipes as they come, whole or not at all."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import History, InputError, Store, Vocabulary
from dejacue.corpus import Match, _file, _query
from dejacue.errors import MissingExtra
from dejacue.files import write_vocabulary

D = 16
COLUMNS = {"camera": "left, \u00e9"}


def history(seed: int) -> History:
    """Make a history with times, with frames of a file, or with neither."""
    frames = np.arange(20)
    return History(
        np.random.default_rng(seed).normal(size=(20, D)),
        frames,
        f"h,{seed}\u00e9",
        "e",
        times_s=frames / 5.0 if seed % 3 == 0 else None,
        source_frames=6 * frames + 2 if seed % 3 == 1 else None,
    )


def words() -> Vocabulary:
    states = {"open": ["open drawer", 'a "drawer", pulled out'], "closed": ["closed drawer"]}
    return Vocabulary(states, np.random.default_rng(1).normal(size=(3, D)), encoder="e")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.create(tmp_path / "store")
    first, *others = (history(seed) for seed in range(7))
    first = replace(first, made_with={**COLUMNS, "columns": "camera", "padding": "0.2"})
    store.add([first, *others], source="kitchen.mp4", object="cup")
    return store


def flat(match: Match) -> dict[str, object]:
    """Return the expected row of a table."""
    interval = match.interval
    columns = COLUMNS if match.history == "h,0\u00e9" else None
    return {
        "rank": match.rank,
        "history": match.history,
        "source": "kitchen.mp4",
        "object_score": match.object_score,
        "state": interval.state,
        "description": None,
        "start": interval.start,
        "end": interval.end,
        "start_s": interval.start_s,
        "end_s": interval.end_s,
        "source_start": interval.source_start,
        "source_end": interval.source_end,
        "score": interval.score,
        "confidence": interval.confidence,
        "notes": None,
        "object": "cup",
        "columns": columns and json.dumps(columns, ensure_ascii=False),
    }


def test_the_same_answers_are_in_every_format(store, tmp_path, monkeypatch) -> None:
    import pyarrow.parquet

    monkeypatch.setattr(_query, "PARQUET_GROUP_ROWS", 5)
    monkeypatch.setattr(_query, "CHUNK_HISTORIES", 2)
    matches = list(store.query(words()))
    clocks = {(m.interval.times_s is None, m.interval.source_start is None) for m in matches}
    assert clocks == {(True, True), (False, True), (True, False)}
    for suffix in _query.WRITERS:
        assert store.query(words()).write(tmp_path / f"x{suffix}") == len(matches) == 14
    file = pyarrow.parquet.ParquetFile(tmp_path / "x.parquet")
    assert file.num_row_groups == 3
    assert file.read().to_pylist() == [flat(match) for match in matches]
    with open(tmp_path / "x.csv", encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    expected = [{k: "" if v is None else str(v) for k, v in flat(m).items()} for m in matches]
    assert rows == expected
    plain = [
        {name: value for name, value in flat(match).items() if value is not None}
        | {"columns": COLUMNS if match.history == "h,0\u00e9" else {}}
        for match in matches
    ]
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8")) == plain
    lines = (tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == plain


@pytest.mark.parametrize("suffix", list(_query.WRITERS))
def test_a_file_without_answers_is_a_file(store, tmp_path, suffix) -> None:
    import pyarrow.parquet

    path = tmp_path / f"x{suffix}"
    assert store.query(words(), where={"id": "nobody"}).write(path) == 0
    if suffix == ".parquet":
        assert pyarrow.parquet.read_table(path).num_rows == 0
    elif suffix == ".json":
        assert json.loads(path.read_text()) == []
    else:
        assert len(path.read_text().splitlines()) == (suffix == ".csv")


@pytest.mark.parametrize("suffix", list(_query.WRITERS))
def test_what_fails_on_the_way_leaves_the_file_as_it_was(
    store, tmp_path, monkeypatch, suffix
) -> None:
    monkeypatch.setattr(_query, "CHUNK_HISTORIES", 2)
    path = tmp_path / "out" / f"x{suffix}"
    store.query(words(), top=1).write(path)
    before = path.read_bytes()

    def stop(stage: str, done: int, *_: object) -> None:
        if done == 4:
            raise InputError("no more")

    with pytest.raises(InputError, match="no more"):
        store.query(words(), progress=stop).write(path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_names_and_places_that_cannot_be_are_refused_before_anything_is_computed(
    store, tmp_path, monkeypatch
) -> None:
    (tmp_path / "file").write_text("")
    matches = store.query(words())
    for name in ("x.xlsx", "x"):
        with refused(tmp_path / name):
            matches.write(tmp_path / name)
    with pytest.raises(InputError, match="is a file, not a folder"):
        matches.write(tmp_path / "file" / "x.csv")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with refused("pip install pyarrow, or write x.csv", kind=MissingExtra):
        matches.write(tmp_path / "x.parquet")
    assert matches.write(tmp_path / "x.csv") == 14  # still unread
    with pytest.raises(InputError, match="have already been read"):
        matches.write(tmp_path / "y.csv")
    assert not (tmp_path / "y.csv").exists()


def test_lines_are_printed_before_the_last_history_is_read(
    store, tmp_path, dejacue, monkeypatch
) -> None:
    """The last history cannot be read; the answers of the first are printed all the same."""
    write_vocabulary(tmp_path / "v.npz", words())
    ranked = [match.history for match in store.query(words())]
    with _file.transaction(store.path) as now:
        now.execute("UPDATE histories SET frames = zeroblob(160) WHERE id = ?", (ranked[-1],))
    monkeypatch.setattr(_query, "CHUNK_HISTORIES", 2)
    ran = dejacue("store", "query", store.path, "-v", tmp_path / "v.npz", "--jsonl", "--top", 0)
    printed = [json.loads(line)["history"] for line in ran.out.splitlines()]
    assert len(printed) >= 8
    assert printed == ranked[: len(printed)]
    assert ran.code == 2
    assert f'history "{ranked[-1]}" is damaged' in ran.err


def test_a_reader_that_goes_away_is_no_error(store, tmp_path) -> None:
    write_vocabulary(tmp_path / "v.npz", words())
    store.add([history(seed) for seed in range(10, 600)])
    command = ["store", "query", store.path, "-v", tmp_path / "v.npz", "--jsonl", "--top", "0"]
    run = subprocess.Popen(
        [sys.executable, "-m", "dejacue", *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    with run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert json.loads(run.stdout.readline())["rank"] == 1
        run.stdout.close()  # as head does
        assert run.stderr.read() == ""


def test_the_command_writes_files(store, tmp_path, dejacue, monkeypatch) -> None:
    from dejacue.cli import store as command

    vocabulary = tmp_path / "v.npz"
    write_vocabulary(vocabulary, words())
    query = ("store", "query", store.path, "-v", vocabulary)
    ran = dejacue(*query, "-o", tmp_path / "x.csv", "--top", 3)
    assert (ran.code, ran.out) == (0, "")
    assert "6 answers in: " in ran.err
    assert len((tmp_path / "x.csv").read_text(encoding="utf-8").splitlines()) == 7
    for more in (("-o", tmp_path / "x.txt"), ("-o", tmp_path / "x.csv", "--jsonl"), ("--top", -1)):
        ran = dejacue(*query, *more)
        assert (ran.code, ran.err.count("\n")) == (2, 1), more
    monkeypatch.setattr(command, "MAX_TABLE_ROWS", 2)
    listed = dejacue(*query, "--top", 0)
    assert "the first 2 histories are listed; --jsonl or --output gives all" in listed.err
    assert "listed" not in dejacue(*query, "--top", 2).err
