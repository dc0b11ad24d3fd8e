"""What routes share: types of parameters, the base of request bodies, and dependencies."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

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


def _studio(request: Request) -> Any:
    return request.app.state.studio


StudioDep = Annotated[Studio, Depends(_studio)]
