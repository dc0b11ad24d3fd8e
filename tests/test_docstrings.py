"""The examples in the docstrings run as they stand, and every public name has one."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

import dejacue
from dejacue import method, records
from dejacue.video.video import write_video

LEFT_OUT = ("dejacue.__main__", "dejacue.method._kernel", "dejacue.video._pixels")
MODULES = [
    module.name
    for module in pkgutil.walk_packages(dejacue.__path__, "dejacue.")
    if module.name not in LEFT_OUT
]
PUBLIC = [
    *((dejacue, name) for name in dejacue.__all__ if name != "__version__"),
    *((method, name) for name in method.__all__),
    *((records, name) for name in ("Window", "Note")),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a video and three pictures."""
    folder = tmp_path_factory.mktemp("examples")
    images = [np.full((32, 64, 3), 8 * k, np.uint8) for k in range(30)]
    write_video(folder / "cup.mp4", images, 10)
    (folder / "pictures").mkdir()
    for k in (1, 2, 10):
        Image.fromarray(images[k]).save(folder / "pictures" / f"cup{k}.png")
    return folder


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name, place, monkeypatch) -> None:
    module = importlib.import_module(name)
    monkeypatch.chdir(place)
    (place / "cups.dejacue").unlink(missing_ok=True)
    names = {public: getattr(home, public) for home, public in PUBLIC}
    # what the module itself calls by such a name stays that
    extra = {key: value for key, value in names.items() if key not in vars(module)}
    extra |= {} if "closing" in vars(module) else {"closing": closing}
    failed, _ = doctest.testmod(module, extraglobs=extra, optionflags=doctest.ELLIPSIS)
    assert not failed


@pytest.mark.parametrize(
    ("home", "name"), PUBLIC, ids=lambda value: getattr(value, "__name__", value)
)
def test_every_public_name_has_an_example(home, name) -> None:
    assert ">>>" in (getattr(home, name).__doc__ or "")
