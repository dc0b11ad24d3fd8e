"""What routes share: types of parameters, the base of request bodies, and dependencies."""

from __future__ import annotations

import pathlib
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from dejacue.finding.request import asked_fields
from dejacue.studio.state import Studio

MAX_FRAME = 1 << 53
Frame = Annotated[int, Field(ge=0, le=MAX_FRAME)]
Text = Annotated[str, Field(min_length=1, max_length=500)]
Place = Annotated[str, Field(min_length=1, max_length=1024)]  # a path in the workspace
Id = Annotated[str, Path(min_length=1, max_length=1024, description="A path in the workspace.")]
Revision = Annotated[
    str | None,
    Field(max_length=64, description="As it was loaded; new: it must not exist; null: any."),
]
Json = dict[str, Any]


def _mapping(value: Any) -> Any:
    """Return pairs of names and values as a mapping; refuse a name that comes twice."""
    if not isinstance(value, list):
        return value
    mapping: Json = {}
    for pair in value:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise ValueError("give pairs of a name and its value")
        if pair[0] in mapping:
            raise ValueError(f'"{pair[0]}" comes twice')
        mapping[pair[0]] = pair[1]
    return mapping


# A mapping, or its pairs: JavaScript has no order of its own for names that are numbers
PairsToo = BeforeValidator(_mapping)


class RequestModel(BaseModel):
    """The base of all bodies: unknown keys, NaN and infinity are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


# How the fields of a request are written in a body, by how they are typed: paths are places
_WRITTEN: dict[Any, Any] = {
    str: Text | None,
    pathlib.Path: Place | None,
    int: Annotated[int, Field(ge=1, le=1_000_000)] | None,
    float: Annotated[float, Field(gt=0, le=1000)] | None,
}
_AS_NAMED = {"start": Frame | Text | None, "end": Frame | Text | None}


def asked(*names: str) -> Any:
    """Return the base of a body with these fields of a request, described as there."""
    fields: Json = {}
    for name in names:
        text = asked_fields()[name]
        kind: Any = _AS_NAMED.get(name) or _WRITTEN.get(text.written)
        default: Any = None
        if text.written is bool:
            kind, default = bool, False
        elif text.written == list[str]:
            kind, default = Annotated[list[Text], Field(max_length=50)], []
        fields[name] = (Annotated[kind, Field(description=text.help)], default)
    return create_model("Asked", __base__=RequestModel, **fields)


def _studio(request: Request) -> Any:
    return request.app.state.studio


StudioDep = Annotated[Studio, Depends(_studio)]
