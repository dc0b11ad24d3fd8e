"""``dejacue learn``: from labelled files to a decoder, what it is worth, and its windows."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from dejacue.files.histories import write_history, write_vocabulary  # noqa: E402
from dejacue.files.results import read_references, write_references  # noqa: E402
from dejacue.records import Reference  # noqa: E402
from dejacue_paper.cli import learn  # noqa: E402
from dejacue_paper.data.synthetic import generate  # noqa: E402
from dejacue_paper.learn.decoders import checkpoint  # noqa: E402
from dejacue_paper.learn.decoders.training import Stepper, Training  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def files(tmp_path):
    cup = generate(1, frames=10, dimension=8)
    history, true = cup.history, cup.references
    write_history(tmp_path / "cup.npz", history)
    write_vocabulary(tmp_path / "words.npz", cup.vocabulary)
    for name, states in (
        ("true", true),
        ("one", {"empty": true["empty"]}),
        ("other", {**true, "boiling": true["empty"]}),
    ):
        write_references(tmp_path / f"{name}.json", [Reference(history.id, states)])
    write_references(tmp_path / "none.json", [])
    return tmp_path


@pytest.fixture
def histories_and_words(files):
    """Return a function for the arguments that name histories, their words and their labels."""

    def words(history="cup.npz", labels="true.json", known="words.npz"):
        return (files / history, "--words", files / known, "--references", files / labels)

    return words


def test_files_become_a_decoder_that_is_evaluated_and_read_with(
    dejacue, files, histories_and_words
) -> None:
    model, cup, words = files / "model", files / "cup.npz", files / "words.npz"
    ran = dejacue(
        "learn",
        "train",
        "moment",
        *histories_and_words(),
        "-o",
        model,
        "--epochs",
        1,
        "--seeds",
        "1,2",
        "--device",
        "cpu",
    )
    assert ran.code == 0, ran.err
    assert {path.name for path in model.iterdir()} == {"settings.json", "weights.safetensors"}
    for labels in ("true.json", "one.json"):  # states without labels do not count
        ran = dejacue("learn", "eval", model, *histories_and_words(labels=labels))
        assert ran.code == 0, ran.err
        for row in ("moment, seed 1", "moment, seed 2", "contrast", "longest-run", "same"):
            assert row in ran.out
    ran = dejacue("learn", "predict", model, cup, "--words", words, "-o", files / "found.json")
    assert ran.code == 0, ran.err
    (timeline,) = json.loads((files / "found.json").read_text())
    assert len(timeline["intervals"]) == 4
    refused = dejacue("learn", "eval", model, *histories_and_words(labels="other.json"))
    assert "boiling" in refused.err


def refusals(files):
    """Return what is given for train, and what is said."""
    cup = generate(1, frames=10, dimension=8)
    gap = generate(1, frames=10, dimension=8, gaps=[(1, 2)])
    write_history(files / "gap.npz", gap.history)
    write_history(files / "strange.npz", replace(cup.history, encoder="another"))
    write_history(files / "other.npz", generate(2, frames=10, dimension=8).history)
    cups = (files / "cup.npz",) * 2
    known = ("--words", files / "words.npz", "--references")
    true = (*known, files / "true.json")
    return [
        ((cups[0], *known, files / "none.json"), "has no windows for history generated-1; label"),
        ((cups[0], *known, files / "one.json"), "only one state"),
        ((cups[0], *known, files / "other.json"), 'is labelled "boiling", but the vocabulary has'),
        ((files / "gap.npz", *true), "crosses a gap"),
        ((files / "strange.npz", *true), 'was encoded with "another"'),
        ((files / "other.npz", *true), "has no windows for history generated-2"),
        ((*cups, *true), "given twice"),
        ((cups[0],), "histories need --words"),
        (("--group", "six"), 'unknown group "six"'),
        ((cups[0], *true, "--device", "gpu"), 'unknown device "gpu"'),
        ((cups[0], *true, "--device", "cuda:77"), "is not available"),
        ((cups[0], *true, "--seeds", "a"), "give whole numbers"),
        ((cups[0], *true, "--epochs", "-1"), "must be 0 or more"),
        ((cups[0], *true, "--resume"), "contains no training run to resume"),
    ]


def test_what_cannot_be_trained_with_is_refused_in_one_sentence(dejacue, files) -> None:
    for words, message in refusals(files):
        ran = dejacue("learn", "train", "moment", *words, "-o", files / "model")
        assert ran.code == 2, message
        assert message in ran.err
        assert len(ran.err.strip().splitlines()) == 1
        assert len(ran.err) < 600
        assert not (files / "model").exists()


def test_features_of_another_encoder_are_not_evaluated(dejacue, files, histories_and_words) -> None:
    model = files / "model"
    ran = dejacue("learn", "train", "moment", *histories_and_words(), "-o", model, "--epochs", 0)
    assert ran.code == 0, ran.err  # untrained weights
    cup, wide = generate(1, frames=10, dimension=8), generate(1, frames=10, dimension=16)
    write_history(files / "strange.npz", replace(cup.history, encoder="another"))
    write_vocabulary(files / "strange_words.npz", replace(cup.vocabulary, encoder="another"))
    write_history(files / "wide.npz", wide.history)
    write_vocabulary(files / "wide_words.npz", wide.vocabulary)
    for name, message in (
        ("strange", 'has features of "another" (8)'),
        ("wide", '"generated" (16)'),
    ):
        ran = dejacue(
            "learn", "eval", model, *histories_and_words(f"{name}.npz", known=f"{name}_words.npz")
        )
        assert ran.code == 2
        assert message in ran.err


def test_a_decoder_of_another_version_is_refused_in_one_sentence(
    dejacue, files, histories_and_words
) -> None:
    model, known = files / "model", ("--words", files / "words.npz")
    ran = dejacue("learn", "train", "moment", *histories_and_words(), "-o", model, "--epochs", 0)
    assert ran.code == 0, ran.err
    about = json.loads((model / "settings.json").read_text())
    (model / "settings.json").write_text(json.dumps({**about, "version": 2}))
    for command in (
        ("learn", "eval", model, *histories_and_words()),
        ("learn", "predict", model, files / "cup.npz", *known),
    ):
        ran = dejacue(*command)
        assert ran.code == 2
        assert "has version 2, but this dejacue reads version 1; train the decoder again" in ran.err
        assert len(ran.err.strip().splitlines()) == 1


def test_a_full_disk_is_told_and_leaves_no_file(
    dejacue, files, histories_and_words, monkeypatch
) -> None:
    def full(path, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(checkpoint, "write_bytes", full)
    ran = dejacue(
        "learn", "train", "moment", *histories_and_words(), "-o", files / "model", "--epochs", 0
    )
    assert ran.code == 1
    assert ran.err.strip().endswith("weights.safetensors: No space left on device")
    assert not list((files / "model").iterdir())


def test_a_loss_that_is_no_number_is_told_in_one_sentence(
    dejacue, files, histories_and_words, monkeypatch
) -> None:
    monkeypatch.setattr(Stepper, "_work", lambda self, *_: self.loss.fill_(float("nan")))
    ran = dejacue(
        "learn", "train", "moment", *histories_and_words(), "-o", files / "model", "--epochs", 2
    )
    assert ran.code == 1
    assert "moment, seed 3407: the loss is nan in epoch 1, step 1; lower" in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert not (files / "model").exists()


@pytest.mark.long
def test_a_stopped_training_is_kept_and_goes_on_with_its_own_data(
    dejacue, files, histories_and_words, monkeypatch
) -> None:
    begin = ("learn", "train", "moment")
    settings = ("--epochs", 2, "--device", "cpu")
    run = Training.run

    def stopped(self, **options):
        if self.epoch == 1:
            raise KeyboardInterrupt
        run(self, **options)

    monkeypatch.setattr(Training, "run", stopped)
    ran = dejacue(*begin, *histories_and_words(), "-o", files / "model", *settings)
    assert ran.code == 130
    assert "stopped before anything was kept" in ran.err
    monkeypatch.setattr(learn, "KEEP_EVERY", 1)
    ran = dejacue(*begin, *histories_and_words(), "-o", files / "model", *settings)
    assert ran.code == 130
    assert "has the state after 1 epoch; run the same command with --resume" in ran.err
    monkeypatch.setattr(Training, "run", run)
    ran = dejacue(*begin, *histories_and_words(), "-o", files / "model", *settings)
    assert "contains an interrupted training run" in ran.err
    cup = generate(1, frames=10, dimension=8)
    rows = cup.history.features.copy()
    rows[0, 0] += 1
    write_history(files / "changed.npz", replace(cup.history, features=rows))
    again = ("-o", files / "model", *settings, "--resume")
    ran = dejacue(*begin, *histories_and_words("changed.npz"), *again)
    assert f"{files / 'model'}: the training run was started with other histories" in ran.err
    assert dejacue(*begin, *histories_and_words(), *again).code == 0
    assert dejacue(*begin, *histories_and_words(), "-o", files / "whole", *settings).code == 0
    for name in ("weights.safetensors", "settings.json"):
        assert (files / "model" / name).read_bytes() == (files / "whole" / name).read_bytes()


def test_labels_count_frames_of_the_file(files) -> None:
    cup = generate(1, frames=10, dimension=8)
    sampled = replace(cup.history, source_frames=5 * np.asarray(cup.history.frames))
    write_history(files / "cup.npz", sampled)
    (true,) = read_references(files / "true.json")
    wide = {
        s: [(5 * w.start - 2, 5 * w.end + 2) for w in windows] for s, windows in true.states.items()
    }
    wide = {s: [(max(0, a), b) for a, b in spans] for s, spans in wide.items()}
    write_references(files / "wide.json", [Reference(cup.history.id, wide)])
    places = (files / "words.npz", files / "wide.json")
    (entry,) = learn.labelled(None, None, [files / "cup.npz"], *places)
    assert entry.references == {state: tuple(windows) for state, windows in cup.references.items()}
