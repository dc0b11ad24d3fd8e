"""The figures by which the paper's encoder is known, and encoders that are not it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused

import dejacue
from dejacue.models.encoders import FORMS, Encoder
from dejacue.models.encoders.sentences import (
    FIGURES,
    compare,
    compare_with_release,
    read_sentences,
)
from dejacue_paper.data.sentences import figures, text_rows

pytestmark = pytest.mark.release


class Stored(Encoder):
    """The release's own rows, by text."""

    name = identity = "stored"
    dimension, size = 768, 1

    def __init__(self, rows) -> None:
        self.rows = rows

    def encode_images(self, crops):
        raise NotImplementedError

    def encode_texts(self, texts):
        return np.stack([self.rows[text] for text in texts])


@pytest.fixture(scope="module")
def rows(release):
    """Return the release's row of each sentence in each form."""
    of_forms = {form: text_rows(release, form) for form in FORMS}
    return {
        FORMS[form].format(text): of_form[text]
        for form, of_form in of_forms.items()
        for text in read_sentences(release.folder)
    }


@pytest.fixture(autouse=True)
def here(release, monkeypatch):
    monkeypatch.setenv("DEJACUE_DATA", str(release.folder))


def compared(encoder, **options):
    return compare(encoder, read_sentences(), **options)


def test_the_stored_figures_are_those_of_the_release(release) -> None:
    computed = {name: values.tolist() for name, values in figures(release).items()}
    assert {name: [*map(int, text.split())] for name, text in FIGURES.items()} == computed
    assert all(len(values) == 66 for values in computed.values())


def test_the_releases_own_rows_agree(rows) -> None:
    result = compared(Stored(rows))
    assert result.largest < 1e-4  # rounded to four digits, and the mean of three rows
    assert not result.differs
    assert compare_with_release("siglip2", Stored(rows)) == (
        "siglip2: the cosines of 12 sentences of the paper differ from the published ones by at "
        f"most {result.largest:.4f} (allowed: 0.0020)"
    )


@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_noise_is_within_the_tolerance_or_another_precision(rows, noise) -> None:
    rng = np.random.default_rng(0)
    sigma = noise / np.sqrt(768)
    noisy = Stored({text: row + rng.normal(0, sigma, 768) for text, row in rows.items()})
    result = compared(noisy)
    assert result.slight == (noise == 0.1) == (result.largest > 0.002)
    assert result.differs.startswith("the precision" if result.slight else "")
    assert not compared(noisy, tolerance=0.02).differs
    assert compare_with_release("siglip2", noisy)  # says so, and refuses neither


@pytest.mark.parametrize("form", FORMS)
def test_a_prompt_that_is_always_the_same_is_named(rows, form) -> None:
    def always(text: str) -> str:
        return next(FORMS[form].format(plain) for plain in read_sentences() if text.endswith(plain))

    wrong = Stored({text: rows[always(text)] for text in rows})
    assert compared(wrong).differs == f'the prompt (they are those of "{form}" alone)'
    with refused("siglip2"):
        compare_with_release("siglip2", wrong)


def test_other_pooling_another_model_and_other_rows_are_told_apart(rows) -> None:
    shifted = {text: row + 0.02 for text, row in rows.items()}
    mixed = dict(zip(rows, np.roll(list(rows.values()), 5, axis=0), strict=True))
    shorter = {text: row[:512] for text, row in rows.items()}
    random = np.random.default_rng(0).normal(size=(len(rows), 768))
    expected = {
        "pooling, normalisation or a prompt (their order is kept)": shifted,
        "the tokenizer or the model (not even their order is kept)": mixed,
        "the model (rows of 512, not 768, numbers)": shorter,
    }
    for differs, wrong in expected.items():
        assert compared(Stored(wrong)).differs == differs
    nonsense = compared(Stored(dict(zip(rows, random, strict=True))))
    assert nonsense.differs.startswith("the tokenizer or the model")


def test_sentences_of_another_release_are_not_compared(release, tmp_path) -> None:
    features = release.folder / "data" / "features" / "siglip2"
    copy = shutil.copytree(features, tmp_path / "data" / "features" / "siglip2")
    assert read_sentences(tmp_path) == read_sentences(release.folder)
    shutil.copy(copy / "H003" / "text_features.npz", copy / "H002" / "text_features.npz")
    with refused(copy, "does not have the sentences of the paper's"):
        read_sentences(tmp_path)


def test_no_sentence_of_the_release_is_stored_in_the_product() -> None:
    package = Path(dejacue.__file__).parent
    sources = [path.read_text(encoding="utf-8") for path in package.rglob("*.py")]
    assert not [text for text in read_sentences() for source in sources if text in source]
