"""Public functions called with arguments of any type: an answer, an InputError, or a TypeError that
names the argument."""

from __future__ import annotations

import contextlib
import datetime
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import readers
from readers import Target

import dejacue
from dejacue import DejaCueError


@cache
def records() -> dict[str, Any]:
    """Return valid arguments by what they are; all are small."""
    example = readers.scene()
    finding = dejacue.find(example.history, example.vocabulary)
    state = next(iter(example.vocabulary.states))
    return {
        "history": example.history,
        "vocabulary": example.vocabulary,
        "finding": finding,
        "timeline": finding.timeline,
        "reference": dejacue.Reference(example.history.id, {state: [(0, 3)]}),
        "encoder": dejacue.load_encoder("mini"),
        "mask": np.ones((readers.HEIGHT, readers.WIDTH), bool),
        "prompt": dejacue.Prompt(0, 1, (1, 1, 9, 9)),
    }


def calls(folder: Path) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Return the public names and others behind them, with arguments that are right."""
    values = records()
    video, words = folder / "clip.mkv", {"a": "full cup", "b": "empty cup"}
    history, vocabulary, finding = values["history"], values["vocabulary"], values["finding"]
    located = {"history": history, "vocabulary": vocabulary}
    masks = {0: {1: values["mask"]}, 1: {1: values["mask"]}}
    clip = {"video": video, "vocabulary": words, "masks": masks, "encoder": values["encoder"]}
    return {
        "find": (dejacue.find, {"video": history, "vocabulary": vocabulary}),
        "find-video": (dejacue.find, clip),
        "find_each": (dejacue.find_each, {"video": history, "vocabulary": vocabulary}),
        "Finding": (dejacue.Finding, {**located, "timeline": values["timeline"]}),
        "Finding.read": (dejacue.Finding.read, {"folder": folder / "finding"}),
        "finding.with_words": (finding.with_words, {"vocabulary": vocabulary}),
        "finding.correct": (finding.correct, {"changes": 3}),
        "finding.export": (finding.export, {"kind": "csv", "path": folder / "out.csv"}),
        "finding.write": (finding.write, {"folder": folder / "out"}),
        "finding.next_question": (finding.next_question, {"count": 1}),
        "Interval": (dejacue.Interval, {"state": "a", "start": 0, "end": 1}),
        "Timeline.of": (dejacue.Timeline.of, {"intervals": [], "states": {"a": ["x"]}}),
        "timeline.at": (values["timeline"].at, {"time_s": 0.1}),
        "History": (dejacue.History, {"features": history.features}),
        "Vocabulary": (dejacue.Vocabulary, {"states": {"a": ["x"], "b": ["y"]}}),
        "Vocabulary.from_dict": (dejacue.Vocabulary.from_dict, {"document": words}),
        "Example": (dejacue.Example, {"state": "a", "span": (1, 2)}),
        "Reference": (dejacue.Reference, {"history_id": "h", "states": {"a": [(0, 1)]}}),
        "open_video": (dejacue.open_video, {"path": video}),
        "open_masks": (dejacue.open_masks, {"path": masks}),
        "load_encoder": (dejacue.load_encoder, {"name": "mini"}),
        "encode_vocabulary": (
            dejacue.encode_vocabulary,
            {"vocabulary": words, "encoder": values["encoder"]},
        ),
        "build_history": (
            dejacue.build_history,
            {"video": video, "masks": masks, "encoder": values["encoder"]},
        ),
        "track": (
            lambda **options: list(dejacue.track(**options)),
            {"video": video, "prompts": values["prompt"], "tracker": "still"},
        ),
        "load_tracker": (dejacue.load_tracker, {"name": "still"}),
        "Prompt": (dejacue.Prompt, {"frame": 0, "object": 1, "box": (1, 1, 9, 9)}),
        "Store.open": (dejacue.Store.open, {"path": folder / "nothing"}),
        "Store.create": (dejacue.Store.create, {"path": folder / "store"}),
        "ingest": (dejacue.ingest, {"manifest": [], "store": folder / "store"}),
        "evaluate": (
            dejacue.evaluate,
            {"timelines": {"a": [values["timeline"]]}, "references": [values["reference"]]},
        ),
        "evaluate_dataset": (
            dejacue.evaluate_dataset,
            {"dataset": folder / "nothing", "store": folder / "store"},
        ),
        "open_dataset": (dejacue.open_dataset, {"folder": folder}),
        "Live": (dejacue.Live, {"vocabulary": words, "encoder": values["encoder"]}),
        "check_words": (dejacue.check_words, {"vocabulary": vocabulary}),
        "locate": (dejacue.locate, located),
    }


SIGNATURES = {"track": dejacue.track}


def wrong() -> tuple[Any, ...]:
    """Return values, of which few fit an argument."""
    values = records()
    return (
        *(None, 5, -1, 2.5, float("nan"), True, "x", "", b"x", 10**30, 1j, object()),
        *([], [1], ["a"], [None], {}, {"a": 1}, {1: 2}, {"a": [1]}, (), (1, 2), set(), range(3)),
        *(np.zeros(3), np.zeros((2, 2)), np.array("x"), np.float32(2), datetime.date(2020, 1, 1)),
        *(Path("nothing"), iter([1]), values["history"], values["vocabulary"], values["timeline"]),
        *(
            values["reference"],
            values["finding"],
            values["prompt"],
            values["encoder"],
            values["mask"],
        ),
    )


def call(name: str, changes: dict[str, Any], folder: Path) -> None:
    """Call with some arguments replaced; a TypeError names one of them."""
    function, arguments = calls(folder)[name]
    try:
        result = function(**arguments | changes)
    except DejaCueError:
        return
    except TypeError as error:
        if not any(argument in str(error) for argument in changes):
            raise AssertionError(f"{name}: which argument is wrong? {error}") from error
        return
    with contextlib.suppress(AttributeError):
        result.close()


def parameters(name: str, folder: Path) -> list[str]:
    function = SIGNATURES.get(name, calls(folder)[name][0])
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    signature = inspect.signature(function)
    return [p.name for p in signature.parameters.values() if p.kind in kinds]


def prepared(folder: Path) -> None:
    records()
    readers.small_video(folder / "clip.mkv")
    records()["finding"].write(folder / "finding")


def any_call(rng: Random, valid: Path, folder: Path) -> None:
    for path in valid.iterdir():
        (folder / path.name).symlink_to(path)
    name = rng.choice(list(calls(folder)))
    names = parameters(name, folder)
    chosen = rng.sample(names, min(len(names), rng.choice((1, 1, 1, 2))))
    changes = {argument: rng.choice(wrong()) for argument in chosen}
    (folder / "call.txt").write_text(f"{name} {changes!r}"[:2000])
    call(name, changes, folder)


def all_calls(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every name with every value in place of each of its arguments."""
    for name in calls(folder):
        for argument in parameters(name, folder):
            for value in wrong():
                yield name, {argument: value}


TARGETS = [Target("arguments", 60, prepared, any_call)]
