"""Name the argument of a public function that is of the wrong type.

``checked`` compares arguments with their annotations after the function has failed: what works
costs nothing, and what the function refuses in its own words stays as it is.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import numbers
import os
import reprlib
import sys
import types
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from dejacue.errors import DejaCueError, InputError

F = TypeVar("F", bound=Callable[..., Any])
StrPath = str | os.PathLike[str]
_NUMBERS: dict[Any, type] = {int: numbers.Integral, float: numbers.Real}
_SEVERAL = (Sequence, Iterable, Collection)


def checked(function: F) -> F:
    """Return the function; where it fails and an argument is not as annotated, that is refused."""

    @functools.wraps(function)
    def call(*values: Any, **options: Any) -> Any:
        with _named(function, values, options):
            result = function(*values, **options)
        return iterated(result, values, options) if isinstance(result, Generator) else result

    def iterated(results: Any, values: tuple[Any, ...], options: dict[str, Any]) -> Iterator[Any]:
        with _named(function, values, options):
            yield from results

    return call  # type: ignore[return-value]


@contextlib.contextmanager
def _named(function: F, values: tuple[Any, ...], options: dict[str, Any]) -> Iterator[None]:
    try:
        yield
    except DejaCueError:
        raise
    except (TypeError, ValueError, AttributeError, LookupError, OverflowError, Warning) as error:
        hints = _hints(function)
        arguments = {
            **dict(zip(inspect.signature(function).parameters, values, strict=False)),
            **options,
        }
        for name, value in arguments.items():
            if name in hints and not fits(value, hints[name]):
                problem = f"{name} {reprlib.repr(value)} is a {type(value).__name__}"
                remedy = f"give {in_words(hints[name])}"
                raise InputError(problem, field=name, value=value, remedy=remedy) from error
        raise


@functools.cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations by argument; a name that cannot be resolved allows anything."""
    public = sys.modules["dejacue"]
    scope = {**vars(sys.modules[function.__module__])}
    hints = {}
    for name, parameter in inspect.signature(function).parameters.items():
        plain = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        while plain and isinstance(parameter.annotation, str) and name not in hints:
            try:
                hints[name] = eval(parameter.annotation, scope)  # our own source
            except NameError as error:  # imported for type checkers only
                scope[str(error.name)] = getattr(public, str(error.name), Any)
    return hints


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") and hasattr(value, "ndim") and hasattr(value, "tolist")


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value, and what a list, tuple or mapping holds, is of an annotated type."""
    kind, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if kind in (Union, types.UnionType):
        return any(fits(value, option) for option in inner)
    if kind is Annotated:
        return fits(value, inner[0])
    if kind is Literal:
        return any(value is option or value == option for option in inner if not _is_array(value))
    if hint in (None, type(None)):
        return value is None
    if hint is bool:
        return isinstance(value, int) or type(value).__name__ in ("bool", "bool_")
    kind = _NUMBERS.get(hint, kind or hint)
    if kind is Callable:
        return callable(value)
    if getattr(kind, "_is_protocol", False):
        methods = [name for name in vars(kind) if name == "__call__" or not name.startswith("_")]
        return all(hasattr(value, name) for name in methods)
    if not isinstance(kind, type):
        return True
    if kind in _SEVERAL and (isinstance(value, str | bytes | Mapping) or _is_array(value)):
        return False
    if not isinstance(value, kind):
        return False
    if isinstance(value, Mapping) and len(inner) == 2:
        return all(fits(key, inner[0]) and fits(item, inner[1]) for key, item in value.items())
    if isinstance(value, list | tuple | set | range) and inner and kind is not tuple:
        return all(fits(item, inner[0]) for item in value)
    return True


def in_words(hint: Any) -> str:
    """Return the types of an annotation for a sentence: "text, a History or None"."""
    known = {str: "text", int: "a whole number", float: "a number", bool: "True or False"}
    if get_origin(hint) in (Union, types.UnionType):
        options = list(dict.fromkeys(map(in_words, get_args(hint))))
        return " or ".join(filter(None, [", ".join(options[:-1]), options[-1]]))
    if hint in (None, type(None)):
        return "None"
    kind = get_origin(hint) or hint
    name = {"PathLike": "a path", "ndarray": "an array"}.get(getattr(kind, "__name__", ""))
    return name or known.get(kind) or f"a {getattr(kind, '__name__', str(kind))}"
