"""The public surface, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files

import pytest

import dejacue

HEAVY = (
    "torch",
    "transformers",
    "av",
    "onnxruntime",
    "matplotlib",
    "fastapi",
    "ray",
    "pandas",
    "jinja2",
    "anywidget",
    "IPython",
)


NAMES = """
    __version__ find find_each strip load Sampling Finding Interval Timeline
    History Vocabulary Example Reference
    Video Masks open_video open_masks load_encoder encode_vocabulary
    locate_object encode read
    load_tracker Prompt Store ingest evaluate Live check_words
    locate DejaCueError InputError
"""


def test_the_public_names_are_these() -> None:
    assert sorted(dejacue.__all__) == sorted(NAMES.split())


def test_every_public_name_exists_and_has_a_docstring() -> None:
    for name in dejacue.__all__:
        value = getattr(dejacue, name)
        assert name == "__version__" or value.__doc__, name
    assert set(dir(dejacue)) == set(dejacue.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="localise"):
        _ = dejacue.localise


def test_import_is_light_even_when_every_name_is_used() -> None:
    code = (
        "import sys, dejacue; [getattr(dejacue, n) for n in dejacue.__all__];"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_loads_neither_numpy_nor_anything_heavy() -> None:
    code = (
        "import sys; sys.argv = ['dejacue', '--help']\n"
        "from dejacue.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print('loaded', [m for m in {('numpy', *HEAVY)!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("loaded []")


def test_the_package_is_typed() -> None:
    assert files("dejacue").joinpath("py.typed").is_file()
