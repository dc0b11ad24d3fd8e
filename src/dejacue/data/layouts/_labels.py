"""What ChangeIt, ChangeIt-Frames and HowToChange share: labels of seconds, and lists of words.

None of them has words for its states. Lists of one's own, vocabularies/NAME.yaml in the folder,
become those of the clips of this category; what they do not name is left out of the references.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from dejacue.data.layouts._records import folders_in
from dejacue.errors import InputError
from dejacue.records import Vocabulary, Window
from dejacue.sources.documents import named, read_text
from dejacue.sources.files import read_vocabulary

ENDING = ".fps1.csv"
STATES = {1: "state1", 2: "action", 3: "state2"}  # 0: none of them
WORDS = "vocabularies"
_WHOLE = re.compile("[0-9]{1,9}")


def annotations_in(folder: Path) -> dict[tuple[str, str], Path]:
    """(category, video) → its labels."""
    found = {}
    for root in (folder / "annotations", folder):
        for category in folders_in(root):
            for path in sorted(category.glob(f"*{ENDING}")):
                found[category.name, path.name.removesuffix(ENDING)] = path
        if found:
            break
    return found


def labels_of(path: Path) -> dict[int, int]:
    """Second → label, of a file of ChangeIt."""
    labels: dict[int, int] = {}
    for number, row in enumerate(csv.reader(read_text(path).splitlines()), 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or (number == 1 and not any(c.isdigit() for c in cells)):
            continue  # a header
        with named(f"{path.parent.name}/{path.name}, line {number}"):
            if len(cells) != 2 or not all(map(_WHOLE.fullmatch, cells)):
                raise InputError(f'"{",".join(cells)}" is not "second,label"')
            second, label = map(int, cells)
            if label not in (0, *STATES):
                raise InputError(f"the label {label} is not one of 0, 1, 2, 3")
            if second in labels:
                raise InputError(f"second {second} already has a label; keep one")
            labels[second] = label
    return labels


def words_in(folder: Path, known: Sequence[str]) -> tuple[dict[str, Vocabulary], list[str]]:
    """Name → the list of words that lies in the folder for it, and what is wrong with them."""
    found, problems = {}, []
    place = folder / WORDS
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        if path.suffix.lower() not in (".yaml", ".yml", ".json"):
            continue
        try:
            vocabulary = read_vocabulary(path)
        except InputError as error:
            problems.append(str(error))
            continue
        other = [state for state in vocabulary.state_names if state not in known]
        if other:
            problems.append(
                f'{WORDS}/{path.name}: the state "{other[0]}" is not one of the labels '
                f"{', '.join(known)}; rename it"
            )
        found[path.stem] = vocabulary
    return found, problems


def told(
    states: Mapping[str, Sequence[Window]], words: Vocabulary | None
) -> dict[str, tuple[Window, ...]]:
    """Those that the list of words has, or all."""
    return {
        state: tuple(own) for state, own in states.items() if words is None or state in words.states
    }
