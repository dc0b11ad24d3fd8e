"""How the VOST histories were drawn and which of them were kept.

    read_splits ──▶ roster ──▶ annotation, events ──▶ the cohort described by the release

A sequence id is ``<digits>_<action>_<noun…>``, as in ``555_tear_aluminium_foil``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dejacue.errors import InputError, MissingData, in_file
from dejacue.files.documents import read_json
from dejacue.records import Window
from dejacue_paper.data.annotation import Event

SEED = 3407
COUNT = 100
SPLITS = ("train", "validation")
SIDES = ("pre", "transition", "post")
_SEQUENCE = re.compile(r"[0-9]+_([^_\s\0]+)_([^\s\0]+)")


@dataclass(frozen=True)
class Selected:
    """The sequence drawn for a pair of action and noun; its other sequences are reserves."""

    sequence: str
    action: str
    noun: str
    reserves: tuple[str, ...]


@dataclass(frozen=True)
class SampledHistory:
    """One of the 100 sampled histories, as the release describes it.

    id        H001 … H100 in the order of the roster; evaluation_id is its id in the benchmark
              (H001 … H078), None where it was excluded
    noun      the annotated object, in words; not always the noun of the sequence
    failure   why it has no qualifying event, None where it has one
    event     the designated event; events: the number of qualifying ones
    pre_runs, post_runs   the numbers of runs of each stable state
    """

    id: str
    evaluation_id: str | None
    sequence: str
    action: str
    noun: str
    failure: str | None
    event: Event | None
    events: int
    pre_runs: int
    post_runs: int

    @property
    def retained(self) -> bool:
        return self.event is not None


def roster(sequences: Iterable[str], seed: int = SEED, count: int = COUNT) -> list[Selected]:
    """Draw ``count`` sequences, one for each pair of action and noun; the input's order is free.

    Round r takes the r-th noun of every action that has one, in the order of the actions.
    Actions, nouns within an action and sequences within a pair are ordered by a hash with the
    seed.
    """
    pairs = _pairs(sequences)
    total = sum(len(nouns) for nouns in pairs.values())
    if not 1 <= count <= total:
        raise InputError(
            f"cannot draw {count} sequences: there are {total} pairs of action and noun, and each "
            "gives one"
        )
    actions = _ordered(pairs, seed, "action")
    nouns = {action: _ordered(pairs[action], seed, action) for action in actions}
    rounds = range(max(map(len, nouns.values())))
    order = [(a, listed[r]) for r in rounds for a, listed in nouns.items() if r < len(listed)]
    selected = []
    for action, noun in order[:count]:
        first, *reserves = _ordered(pairs[action][noun], seed, action, noun)
        selected.append(Selected(first, action, noun, tuple(reserves)))
    return selected


def _ordered(names: Iterable[str], seed: int, *above: str) -> list[str]:
    return sorted(names, key=lambda name: _key(seed, *above, name))


def _key(seed: int, *parts: str) -> bytes:
    return hashlib.sha256("\0".join((str(seed), *parts)).encode()).digest()


def _pairs(sequences: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Return action → noun → its sequences."""
    pairs: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    counts = Counter(sequences)
    for sequence, times in counts.items():
        match = _SEQUENCE.fullmatch(sequence) if isinstance(sequence, str) else None
        if not match:
            raise InputError(
                f"{sequence!r} is not a sequence; "
                "ids have the form <digits>_<action>_<noun>, as in 555_tear_aluminium_foil"
            )
        if times > 1:
            raise InputError(f"the sequence {sequence} is given {times} times; keep one")
        pairs[match[1]][match[2]].append(sequence)
    return pairs


def read_splits(folder: str | os.PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Read the sequences of VOST's training and validation split from the release folder."""
    splits = {}
    for split in SPLITS:
        path = _released(folder, f"data/protocol/vost/{split}.txt")
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read ({error})") from None
        splits[split] = tuple(line.strip() for line in lines if line.strip())
        with in_file(path):
            _pairs(splits[split])
    return splits


def read_cohort(folder: str | os.PathLike[str]) -> tuple[SampledHistory, ...]:
    """Read the sampled histories, in order, from the release folder."""
    path = _released(folder, "data/reference/vost_cohort.json")
    document = read_json(path)
    try:
        return tuple(_sampled(row) for row in document["roster"])
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: is not in the format of the release ({type(error).__name__}: {error}); "
            "download it again"
        ) from None


def _released(folder: str | os.PathLike[str], relative: str) -> Path:
    path = Path(folder) / relative
    if not path.is_file():
        raise MissingData(f"{path}: no such file; is {os.fspath(folder)} the release folder?")
    return path


def _sampled(row: dict[str, Any]) -> SampledHistory:
    event = row["selected_event"]
    if (event is not None) != (row["status"] == "retained"):
        raise InputError(f"{row['history_id']} is {row['status']}, which contradicts its event")
    return SampledHistory(
        id=row["history_id"],
        evaluation_id=row["evaluation_history_id"],
        sequence=row["sequence_id"],
        action=row["action"],
        noun=row["target_noun"],
        failure=row["eligibility_failure"],
        event=event and Event(*(_window(event[f"{side}_interval"]) for side in SIDES)),
        events=row["qualifying_event_count"],
        pre_runs=row["run_summary"]["pre_run_count"],
        post_runs=row["run_summary"]["post_run_count"],
    )


def _window(interval: dict[str, Any]) -> Window:
    return Window(interval["evaluation_start"], interval["evaluation_end"])
