"""From the folder of a data set to figures, with commands alone."""

from __future__ import annotations

import json
from pathlib import Path

from data_sets import changeit


def test_changeit_is_ingested_located_and_evaluated(tmp_path, dejacue, monkeypatch) -> None:
    changeit(tmp_path / "set")
    monkeypatch.chdir(tmp_path)
    for line in (
        "data open set --manifest all.csv --masks set/tracked --references truth.json"
        " --vocabularies words",
        "ingest all.csv --store corpus --encoder mini",
        "store export corpus -o histories",
        "find histories/cup-scene.history.npz -v words/cup-scene.json --encoder mini -o found.json",
        "evaluate found.json truth.json -o figures.json",
    ):
        ran = dejacue(*line.split())
        assert ran.code == 0, (line, ran.err)
    figures = json.loads(Path("figures.json").read_text())
    assert figures["counts"]["histories"] == 1
    assert figures["methods"]["found"]["top1_tiou"]["mean"] > 0.6
