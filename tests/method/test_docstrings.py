"""The examples in the docstrings of the method run as they stand."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from dejacue import History, Vocabulary, method

MODULES = [m.name for m in pkgutil.iter_modules(method.__path__) if m.name != "_kernel"]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name) -> None:
    module = importlib.import_module(f"dejacue.method.{name}")
    names = {
        "History": History,
        "Vocabulary": Vocabulary,
        **{n: getattr(method, n) for n in method.__all__},
    }
    failed, _ = doctest.testmod(module, extraglobs=names)
    assert not failed


@pytest.mark.parametrize("name", sorted({*method.__all__} - {"LiveReading", "Question"}))
def test_every_public_name_has_an_example(name) -> None:
    public = getattr(method, name)
    if public.__module__.startswith("dejacue.method"):
        assert ">>>" in public.__doc__
