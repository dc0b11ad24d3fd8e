"""The public names of the paper's package."""

from __future__ import annotations

import pytest

import dejacue_paper

NAMES = (
    "load_release open_dataset evaluate_dataset generate "
    "MeanWindow Boxcar MaxFrame Peak NonOverlap Ordered"
)


def test_the_public_names_are_these_and_have_docstrings() -> None:
    assert sorted(dejacue_paper.__all__) == sorted(NAMES.split()) == dir(dejacue_paper)
    for name in dejacue_paper.__all__:
        assert getattr(dejacue_paper, name).__doc__, name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="localise"):
        _ = dejacue_paper.localise
