"""One command turns the folder of a data set into a table of readouts."""

from __future__ import annotations

import csv
import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from data_sets import changeit, document, sequence, text, transformation, vost_tas
from helpers.errors import refused

from dejacue import evaluate
from dejacue.corpus import Store
from dejacue.errors import InputError
from dejacue.files import read_timelines
from dejacue.models.encoders import Encoder
from dejacue.models.encoders.mini import Mini
from dejacue_paper import evaluate_dataset, open_dataset
from dejacue_paper.data.rendered import render, write_scene

FULL, EMPTY = "filled up cup", "cup with nothing in it"


def cups(root: Path, seeds: tuple[int, ...] = (1, 3)) -> Path:
    """Render cups in the layout of VOST-TAS."""
    annotations = {}
    for seed in seeds:
        scene = render(seed, family="cup", frames=40, size=(72, 96))
        name = f"{seed}_use_cup"
        write_scene(root / "scene", scene, video=False, overwrite=True)
        for kind in ("JPEGImages", "Annotations"):
            (root / kind).mkdir(exist_ok=True)
            (root / "scene" / kind).rename(root / kind / name)
        truth = sorted((w, state) for state, windows in scene.references.items() for w in windows)
        words = {"full": FULL, "empty": EMPTY}
        steps = [transformation(0, truth[0][0].start, words[truth[0][1]])]
        steps += [
            transformation(a.end, b.start, words[state]) for (a, _), (b, state) in pairwise(truth)
        ]
        annotations[f"{name}_1"] = {"transformations": steps}
    return vost_tas(root, annotations, frames=40).parent


@pytest.fixture(scope="module")
def two_cups(tmp_path_factory) -> Path:
    return cups(tmp_path_factory.mktemp("cups") / "set")


def test_a_folder_becomes_a_table_of_readouts(two_cups, tmp_path, dejacue, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("data", "evaluate", two_cups, "--store", "corpus", "--encoder", "mini")
    ran = dejacue(*words, "-o", "table.json", "--timelines", "timelines")
    assert ran.code == 0, ran.err
    assert "corpus: 2 added" in ran.err
    table = json.loads(Path("table.json").read_text())
    assert list(table["methods"]) == ["contrast", "published", "whole-history", "longest-run"]
    assert table["layout"] == "vost-tas"
    assert table["counts"]["components"] == 2
    best, whole = (table["methods"][name]["top1_tiou"] for name in ("contrast", "whole-history"))
    assert best["mean"] > whole["mean"]
    assert best["low"] <= best["mean"] <= best["high"]
    assert "published - contrast" in table["comparisons"]
    # what was found is worth the same to whoever measures it again
    again = evaluate(
        {"contrast": read_timelines("timelines/contrast.json")}, open_dataset(two_cups).references
    )
    assert again.methods["contrast"]["top1_tiou"].mean == pytest.approx(best["mean"], abs=1e-12)


def test_nothing_is_encoded_twice_and_the_table_is_also_csv_and_markdown(
    two_cups, tmp_path, dejacue, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("data", "evaluate", two_cups, "--store", "corpus")
    assert dejacue(*words, "--encoder", "mini", "-r", "contrast").code == 0
    ran = dejacue(*words, "-r", "contrast, peak", "-o", "table.md")  # the encoder of the store
    assert ran.code == 0, ran.err
    assert "corpus: 2 already in the store" in ran.err
    lines = Path("table.md").read_text().splitlines()
    assert lines[2:4] == [
        "| method | R@1 .3 | R@1 .5 | Top-1 tIoU |",
        "| --- | ---: | ---: | ---: |",
    ]
    assert lines[4].startswith("| contrast | ")
    assert any(line.startswith("| peak − contrast | R@1 .3 | ") for line in lines)
    assert lines[-1].startswith("2 histories, ")
    assert dejacue(*words, "-r", "contrast", "-o", "table.csv").code == 0
    rows = list(csv.DictReader(Path("table.csv").read_text().splitlines()))
    assert [row["name"] for row in rows] == ["contrast"] * 3
    assert dejacue(*words, "-r", "contrast", "-o", "table.csv", "--by", "source").code == 0
    rows = list(csv.DictReader(Path("table.csv").read_text().splitlines()))
    kinds = [row["kind"] for row in rows if row["metric"] == "top1_tiou"]
    assert kinds == ["method", "source=1_use_cup", "source=3_use_cup"]
    first, *parts = (float(row["value"]) for row in rows if row["metric"] == "top1_tiou")
    assert first == pytest.approx(sum(parts) / 2)
    printed = dejacue(*words, "-r", "contrast", "--by", "source").out
    assert "source=3_use_cup (1), means in %" in printed


def test_where_chooses_clips_and_one_component_gives_means_alone(two_cups, tmp_path) -> None:
    result = evaluate_dataset(
        two_cups,
        tmp_path / "corpus",
        encoder="mini",
        where={"id": "3_*"},
        readouts=["contrast", "published"],
    )
    assert result.ingested.added == ("3_use_cup_1",)
    (alone,) = result.by("object").values()
    assert alone.methods == result.evaluation.methods
    with refused("name", "split"):
        result.by("split")
    assert result.evaluation.comparisons == {}
    assert result.evaluation.methods["published"]["r1_03"].low is None
    for where, field in (({"split": "val"}, "name"), ({"id": "x"}, "where")):
        with refused(field):
            evaluate_dataset(two_cups, tmp_path / "other", encoder="mini", where=where)
    assert not (tmp_path / "other").exists()


def test_clips_that_lack_something_are_named_and_the_rest_is_measured(
    tmp_path, dejacue, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = cups(tmp_path / "set", (3,))
    listed = json.loads((root / "vost_tas.json").read_text())
    sequence(root, "8_cut_zzz", range(0, 60, 6), form="frame{:05}")
    sequence(root, "9_cut_tomato", range(0, 60, 6), form="frame{:05}")
    labels = {"transformations": [transformation(3, 4, "empty tomato")]}
    for name, annotation in {
        "4_cut_away_1": labels,  # no pictures
        "8_cut_zzz_1": {"transformations": [transformation(3, 4, "qqq")]},  # no word is known
        "9_cut_tomato_1": {"transformations": []},  # a single state
        "9_cut_tomato_7": labels,  # not in the masks
    }.items():
        listed["annotations"][name] = annotation
        listed["frames"][name] = ["x"] * 10
    document(root / "vost_tas.json", listed)
    ran = dejacue("data", "evaluate", root, "--store", "corpus", "--encoder", "mini")
    assert ran.code == 1  # one of the videos could not be encoded
    assert "contrast" in ran.out
    for sentence in (
        "(4_cut_away_1): no video",
        "(9_cut_tomato_1): no true windows",
        'the words of "8_cut_zzz_1": mini knows none of its words',
        "(9_cut_tomato_7): ",
        "no object 7",
    ):
        assert sentence in ran.err
    with Store.open("corpus") as store:
        assert list(store.ids()) == ["3_use_cup_1"]


@pytest.mark.long
def test_changeit_with_masks_of_ones_own(tmp_path, dejacue, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    changeit(Path("set"))
    words = ("data", "evaluate", "set", "--store", "corpus", "--encoder", "mini")
    ran = dejacue(*words, "-r", "contrast", "--where", "category=cup")
    assert ran.code == 2
    assert 'nothing can be evaluated; for example, "cup-scene": no masks' in ran.err
    ran = dejacue(*words, "-r", "contrast", "--masks", "set/tracked", "-o", "table.json")
    assert ran.code == 0, ran.err
    figures = json.loads(Path("table.json").read_text())
    assert figures["methods"]["contrast"]["top1_tiou"]["mean"] > 0.6


@pytest.mark.long
def test_what_was_made_of_something_else_is_made_again_only_when_asked(
    tmp_path, dejacue, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cups(Path("a"), (3,))
    words = ("data", "evaluate", "a", "--store", "corpus", "--encoder", "mini", "-r", "contrast")
    assert dejacue(*words).code == 0
    for picture in sorted(Path("a/JPEGImages/3_use_cup").iterdir())[:9]:
        shutil.copy("a/JPEGImages/3_use_cup/00030.jpg", picture)
    ran = dejacue(*words)
    assert ran.code == 2
    assert "is already in the store, made from another video" in ran.err
    ran = dejacue(*words, "--replace")
    assert (ran.code, "1 replaced" in ran.err) == (0, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-r", "contrats"), 'readout "contrats"'),
        (("-r", ","), "no readout is given"),
        (("-r", "fit/a.json,other/a.json"), "fit/a.json"),
        (("-o", "set"), "is a folder"),
        (("--as", "davis"), "the layout davis"),
        (("--masks", "nowhere"), "nowhere: "),
        (("--where", "split"), "NAME=PATTERN"),
        (("--by", "split"), 'name "split"'),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_encoded(
    two_cups, tmp_path, dejacue, monkeypatch, words, sentence
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("set").mkdir()
    ran = dejacue("data", "evaluate", two_cups, "--store", "corpus", "--encoder", "mini", *words)
    assert ran.code == 2
    assert sentence in ran.err
    assert len(ran.err.splitlines()) == 1
    assert sorted(Path().iterdir()) == [Path("set")]


def test_a_data_set_without_words_or_times_says_so(tmp_path) -> None:
    root = tmp_path / "set"
    for second in range(4):
        text(root / "annotations" / "cup" / "a.fps1.csv", f"{second},1\n")
    with pytest.raises(InputError, match='"cup-a": no words for its states'):
        evaluate_dataset(root, tmp_path / "corpus", encoder="mini")


class Credulous(Mini):
    """mini, as if it knew every picture: an encoder of another name, which nobody judges."""

    knows_pictures = staticmethod(Encoder.knows_pictures)

    def __init__(self) -> None:
        super().__init__()
        self.name = self.identity = "credulous"


@pytest.mark.long
def test_real_footage_in_the_layout_of_vost_tas(footage, tmp_path) -> None:
    with pytest.raises(InputError, match="mini knows only the rendered scenes"):
        evaluate_dataset(
            footage, tmp_path / "s", layout="vost-tas", encoder="mini", where={"id": "9671_*"}
        )
    result = evaluate_dataset(footage, tmp_path / "corpus", layout="vost-tas", encoder=Credulous())
    assert sorted(result.ingested.added) == [
        "555_tear_aluminium_foil_1",
        "556_cut_tomato_1",
        "9671_split_cups_1",
    ]
    assert "no object 2" in result.left_out["556_cut_tomato_2"]
    assert "mini knows none of its words" in result.left_out["3316_peel_onion_1"]
    assert result.evaluation.counts["components"] == 3
