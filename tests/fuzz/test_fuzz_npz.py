"""Arrays in .npz files: histories and vocabularies."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.altered import check_altered

from dejacue import InputError
from dejacue.files import read_history, read_vocabulary, write_history, write_vocabulary
from dejacue_paper import generate


def history(path: Path) -> None:
    write_history(path, generate(frames=12, dimension=9).history)


def vocabulary(path: Path) -> None:
    scene = generate(frames=12, dimension=9)
    frame = int(scene.history.frames[0])
    examples = {next(iter(scene.vocabulary.states)): [1, (scene.history, frame)], None: 2}
    write_vocabulary(path, scene.vocabulary.with_examples(examples, changes=3))


@pytest.mark.parametrize(
    ("write", "read"), [(history, read_history), (vocabulary, read_vocabulary)]
)
def test_altered_arrays_are_read_or_refused_by_the_name_of_the_file(tmp_path, write, read) -> None:
    def named(_: object, folder: Path) -> None:
        path = next(iter(sorted(folder.iterdir())))
        try:
            read(path)
        except InputError as error:
            assert str(error).startswith(str(path))  # noqa: PT017 - either outcome is right
            raise

    check_altered(tmp_path, lambda folder: write(folder / "x.npz"), named)
