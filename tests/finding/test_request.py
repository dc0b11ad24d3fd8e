"""What is asked of a video is declared once: ``find`` and its command have the fields of it."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields
from typing import ForwardRef, get_args, get_origin

import pytest
import typer
from helpers.errors import refused

from dejacue import Sampling, find
from dejacue.cli.app import app
from dejacue.finding.request import FindRequest, asked_fields
from dejacue.method import Reading
from dejacue_paper import generate

# Fields that a command has no option of its own for, or behind --set
NOT_TYPED = {"order", "prompts", "sampling", "detector", "folder", "progress"}
NOT_TYPED |= {"start_s", "end_s", "rate", "errors"}


def _spelt(type_: object) -> str:
    """Return a type of a field as it is written in the signature of ``find``."""
    first = get_args(type_)[0]
    if isinstance(first, ForwardRef):
        return first.__forward_arg__
    return re.sub(r"\w+\.", "", inspect.formatannotation(first))


def test_find_has_the_fields_of_a_request_with_their_defaults() -> None:
    parameters = inspect.signature(find).parameters
    assert list(parameters) == [field.name for field in fields(FindRequest)]
    assert len(parameters) <= 24
    for field in fields(FindRequest):
        parameter = parameters[field.name]
        default = parameter.empty if field.default is MISSING else field.default
        assert parameter.default == default, field.name
        assert (parameter.kind is parameter.KEYWORD_ONLY) == field.kw_only, field.name
        assert parameter.annotation == _spelt(field.type), field.name


def test_the_command_has_the_help_the_group_and_the_defaults_of_the_fields() -> None:
    known, options = asked_fields(), {}
    defaults = {field.name: field.default for field in (*fields(Sampling), *fields(FindRequest))}
    for parameter in typer.main.get_command(app).commands["find"].params:
        if parameter.name in known:
            options[parameter.name] = parameter
    assert known.keys() - options.keys() == NOT_TYPED
    for name, parameter in options.items():
        assert parameter.help.startswith(known[name].help), name
        if name != "video":
            assert parameter.rich_help_panel == known[name].group, name
            assert (parameter.default or None) == (defaults[name] or None), name
            assert parameter.multiple is (get_origin(known[name].written) is list), name
            assert set(known[name].names) <= set(parameter.opts), name


@pytest.mark.parametrize(
    ("request_", "sampling"),
    [
        ({"start": 3, "end": "9"}, Sampling(start=3, end=9)),
        ({"start": "4.5s", "end": "1:30"}, Sampling(start_s=4.5, end_s=90)),
        ({"fps": 5, "sampling": Sampling(stream=1)}, Sampling(fps=5, stream=1)),
        ({}, Sampling()),
    ],
)
def test_frames_are_named_by_numbers_by_times_and_by_what_is_rare(request_, sampling) -> None:
    assert FindRequest("x.mp4", **request_).sampled == sampling


@pytest.mark.parametrize(
    ("twice", "name"),
    [
        ({"fps": 5, "sampling": Sampling(fps=3)}, "fps"),
        ({"start": "1s", "sampling": Sampling(start_s=2)}, "start_s"),
    ],
)
def test_what_is_given_twice_is_refused(twice, name) -> None:
    with refused(name, "sampling"):
        _ = FindRequest("x.mp4", **twice).sampled


def test_an_order_is_that_of_the_timeline() -> None:
    sample = generate(3)
    states = list(sample.vocabulary.states)
    ordered = find(sample.history, sample.vocabulary, order=states)
    expected = find(sample.history, sample.vocabulary, readout=Reading(order=states))
    assert ordered.timeline.to_dict() == expected.timeline.to_dict()
    assert ordered.timeline.settings["readout"]["order"] == tuple(states)
