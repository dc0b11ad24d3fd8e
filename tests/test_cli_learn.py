"""``dejacue learn``: from labelled files to a decoder, what it is worth, and its windows."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from dejacue.cli.app import app
from dejacue.cli.learn import labelled
from dejacue.data.synthetic import generate
from dejacue.errors import InputError
from dejacue.records import Reference
from dejacue.sources.files import write_history, write_vocabulary
from dejacue.sources.results import write_references

pytest.importorskip("torch")
pytest.importorskip("safetensors")


@pytest.fixture
def files(tmp_path):
    cup = generate(1, frames=10, dimension=8)
    write_history(tmp_path / "cup.npz", cup.history)
    write_vocabulary(tmp_path / "words.npz", cup.vocabulary)
    write_references(tmp_path / "true.json", [Reference(cup.history.id, cup.references)])
    return tmp_path


def run(*arguments: object) -> str:
    ran = CliRunner().invoke(app, [str(own) for own in arguments], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.output


def test_files_become_a_decoder_that_is_evaluated_and_read_with(files) -> None:
    given = (files / "cup.npz", "--words", files / "words.npz", "--references", files / "true.json")
    model = files / "model"
    run("learn", "train", "moment", *given, "-o", model, "--epochs", 1, "--seeds", "1,2",
        "--device", "cpu")  # fmt: skip
    assert {own.name for own in model.iterdir()} == {"settings.json", "weights.safetensors"}
    table = run("learn", "eval", model, *given)
    assert "same" in table
    run("learn", "predict", model, files / "cup.npz", "--words", files / "words.npz", "-o",
        files / "found.json")  # fmt: skip
    (found,) = json.loads((files / "found.json").read_text())
    assert len(found["moments"]) == 4


def test_files_without_words_or_labels_are_refused(files) -> None:
    cup, words, true = files / "cup.npz", files / "words.npz", files / "true.json"
    with pytest.raises(InputError, match="histories need --words"):
        labelled(None, None, [cup], None, true)
    with pytest.raises(InputError, match='unknown group "six"'):
        labelled("six", None, [], None, None)
    other = generate(2, frames=10, dimension=8)
    write_history(files / "other.npz", other.history)
    with pytest.raises(InputError, match="has no moments of history"):
        labelled(None, None, [files / "other.npz"], words, true)
