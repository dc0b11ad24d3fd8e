"""From the folder of a data set to figures, with commands alone."""

from __future__ import annotations

import json
from pathlib import Path

from layout_folders import document, text

from dejacue.data.rendered import Scene, render, write_scene


def changeit(root: Path) -> Scene:
    """A rendered cup, two frames a second, in the layout of ChangeIt."""
    scene = render(3, family="cup", frames=60, size=(72, 96), rate=2)
    write_scene(root / "videos", scene)
    states = {"full": 1, "empty": 3}
    rows = []
    for second in range(30):
        held = [s for s, own in scene.references.items() if any(2 * second in w for w in own)]
        rows.append(f"{second},{states[held[0]] if held else 0}\n")
    text(root / "annotations" / "cup" / "scene.fps1.csv", "".join(rows))
    words = {
        "state1": list(scene.vocabulary.states["full"]),
        "state2": list(scene.vocabulary.states["empty"]),
    }
    document(root / "vocabularies" / "cup.json", {"object": "cup", "states": words})
    (root / "tracked").mkdir()
    (root / "videos" / "Annotations").rename(root / "tracked" / "cup-scene")
    return scene


def test_changeit_is_ingested_located_and_evaluated(tmp_path, dejacue, monkeypatch) -> None:
    changeit(tmp_path / "set")
    monkeypatch.chdir(tmp_path)
    for line in (
        "data open set --manifest all.csv --masks set/tracked --references truth.json"
        " --vocabularies words",
        "ingest all.csv --store corpus --encoder mini",
        "store export corpus -o histories",
        "locate histories/cup-scene.history.npz -v words/cup-scene.json --encoder mini"
        " -o found.json",
        "evaluate found.json truth.json -o figures.json",
    ):
        ran = dejacue(*line.split())
        assert ran.code == 0, (line, ran.err)
    figures = json.loads(Path("figures.json").read_text())
    assert figures["counts"]["histories"] == 1
    assert figures["methods"]["found"]["top1_tiou"]["mean"] > 0.6
