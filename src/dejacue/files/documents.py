"""Input documents: text → JSON → checked values, and back to JSON.

Shared by vocabularies and results. An error is one sentence; callers that know the
file or the place in it prepend it with ``in_file`` or ``named``.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dejacue.atomic import check_name, write_text
from dejacue.errors import InputError, in_file, shortened, unknown

MAX_BYTES = 64 << 20
TWICE = "given twice in one object; keep one"
T = TypeVar("T")
_INK = re.compile(r"[^ \t\r\n]")
_IN_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "array": "a list",
    "object": "an object",
    "bool": "true or false",
}
_STRING_OR_CONSTANT = re.compile(r'"(?:\\.|[^"\\])*"|(NaN|-?Infinity)')
_MAYBE_INFINITE = re.compile(r"[0-9]{200}|[eE]\+?[0-9]{3}")  # a number that float() may not hold


def read_text(
    path: str | os.PathLike[str],
    limit: int = MAX_BYTES,
    remedy: str = "check that it is the right file",
) -> str:
    """Read a UTF-8 file; refuse one that is empty or larger than ``limit`` bytes."""
    check_name(path)
    with in_file(path):
        try:
            raw = bytearray()
            with open(path, "rb") as stream:
                while piece := stream.read(1 << 20):  # room is made for as much as is asked for
                    raw += piece
                    if len(raw) > limit:
                        raise InputError(f"larger than {limit >> 20} MB; {remedy}")
            text = raw.decode("utf-8-sig")
        except FileNotFoundError:
            raise InputError("no such file") from None
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror or error})") from None
        except UnicodeDecodeError:
            raise InputError("is not UTF-8 text; save it as UTF-8") from None
        if not text.strip():
            raise InputError("is empty")
        return text


def read_json(path: str | os.PathLike[str]) -> Any:
    text = read_text(path)
    with in_file(path):
        return parse_json(text)


def parse_json(text: str, *, twice: str = TWICE) -> Any:
    """Return the one JSON document that a text is."""
    documents = parse_documents(text, twice=twice)
    if len(documents) != 1:
        raise InputError(f"holds {len(documents)} JSON documents in a row; keep one")
    return documents[0]


def parse_documents(text: str, *, twice: str = TWICE, remedy: str = "") -> list[Any]:
    """Return the JSON documents of a text: one, or one after the other, as in JSON lines.

    No key is given twice in one object, no number is NaN or infinite, no text holds half a
    character. ``twice`` is the message for such a key, ``remedy`` what to do if it is not JSON.
    """

    def constant(word: str) -> None:  # json does not say where; the first outside a string
        first = next(match for match in _STRING_OR_CONSTANT.finditer(text) if match[1])
        line = text.count("\n", 0, first.start()) + 1
        remedy = "give a finite one, or text in quotes"
        raise InputError(f"line {line}: {word} is not a JSON number; {remedy}")

    def finite(digits: str) -> float:
        if math.isinf(value := float(digits)):
            line = text.count("\n", 0, text.index(digits)) + 1
            problem = f"{shortened(digits, 40)} is too large a number"
            raise InputError(f"line {line}: {problem}; give a finite one")
        return value

    def whole(digits: str) -> int:
        finite(digits)  # what a float can hold, int() can read
        return int(digits)

    checked: dict[str, Any] = {}
    if _MAYBE_INFINITE.search(text):  # else json's own, which are quicker
        checked = {"parse_float": finite, "parse_int": whole}
    decoder = json.JSONDecoder(
        object_pairs_hook=lambda pairs: unique(pairs, twice), parse_constant=constant, **checked
    )
    documents = []
    at = _INK.search(text)
    try:
        while at:
            document, end = decoder.raw_decode(text, at.start())
            documents.append(document)
            at = _INK.search(text, end)
        if "\\ud" in text.lower():  # an escape that may be half a character, which no file can hold
            json.dumps(documents, ensure_ascii=False).encode()
    except InputError:
        raise
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        problem = f"{half} is half of a surrogate pair, not a character"
        raise InputError(f"{problem}; write both halves, or remove it") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        problem = f"not valid JSON, or cut short ({reason})"
        raise InputError(f"{problem}; {remedy}" if remedy else problem) from None
    return documents


def unique(pairs: Sequence[tuple[Any, Any]], twice: str) -> dict[Any, Any]:
    """Return the pairs as a mapping; refuse a key that comes twice with the message ``twice``."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        key = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise InputError(f'"{shortened(str(key))}" is {twice}')
    return mapping


def declared(
    value: Any, kind: type[T], *, schema: str | None = None, strict: bool = True, rows: Any = ()
) -> T:
    """Return the value as its type declares it; else say in one sentence where it differs.

    schema   what its "schema" must be
    strict   if not, text is taken for the number that it spells, as in a CSV
    rows     arrays, which the value names by their number
    """
    keys: tuple[str, ...] = getattr(kind, "__struct_encode_fields__", ())
    if keys:
        config = kind.__struct_config__  # type: ignore[attr-defined]
        check_object(value, keys)
        if schema is not None or (config.tag is not None and "schema" in value):
            check_schema(value.get("schema"), schema or config.tag)
        if config.forbid_unknown_fields:
            check_keys(value, (*keys, *["schema"] * (config.tag is not None)))

    def decoded(kind: Any, value: Any) -> Any:
        if hasattr(kind, "Fields"):  # a record that is no Struct, by those that it declares
            return declared(value, kind.Fields).record()
        if type(value) is not int or not 0 <= value < len(rows):
            raise InputError(f"{value!r:.40} is not the number of one of {len(rows)} rows")
        return rows[value]

    def converted() -> T:
        return msgspec.convert(value, kind, strict=strict, dec_hook=decoded)

    try:
        return converted()
    except msgspec.ValidationError as error:
        raise _refusal(error, value, converted) from None


def _refusal(error: msgspec.ValidationError, value: Any, again: Callable[[], object]) -> InputError:
    """Return the error in words: moments[3].start 'a': expected a whole number."""
    problem, _, path = re.sub(" - at `key` in `", " - at `", str(error)).partition(" - at `$")
    place = ""
    for name, index in re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", path):
        key: Any = name or (_failing_key(value, error, again) if index == "..." else int(index))
        place += f".{name}" if name else f"[{key}]" if index != "..." else f'["{shortened(key)}"]'
        value = value[key]
    place = place.removeprefix(".")
    if problem.startswith("Expected"):
        place = f"{place} {value!r:.40}"
        problem = re.sub(", got `.*`", "", problem).replace("Expected", "expected")
        problem = re.sub(r"\w+(?= \||`)", lambda word: _IN_WORDS.get(word[0], word[0]), problem)
        problem = problem.replace(" | ", " or ").replace("`", "")
        problem = re.sub(r"a number [<>]= -?1\.79.*", "a finite number", problem)
        problem = problem.replace(r"matching regex '\S'", "that is not empty")
    elif key := re.fullmatch("(?s)Object contains unknown field `(.*)`", problem):
        problem = f'unknown key "{key[1]}"; remove it'
    elif key := re.fullmatch("Object missing required field `(.*)`", problem):
        problem = f'has no "{key[1]}"; add it'
    return InputError(f"{place}: {problem}".lstrip(": "))


def _failing_key(
    mapping: dict[str, Any], error: msgspec.ValidationError, again: Callable[[], object]
) -> str:
    """Return the key that msgspec does not name: with it, or without others, it fails as before."""
    keys, items = list(mapping), dict(mapping)
    while len(keys) > 1:
        half = keys[: len(keys) // 2]
        mapping.clear()
        mapping.update({key: items[key] for key in half})
        try:
            again()
            failed = False
        except msgspec.ValidationError as other:
            failed = str(other) == str(error)
        keys = half if failed else keys[len(half) :]
    mapping.clear()
    mapping.update(items)
    return keys[0]


def check_schema(schema: object, expected: str) -> None:
    if not isinstance(schema, str):
        raise InputError(f'"schema" is missing or not text; it must be "{expected}"')
    if schema != expected:
        problem = f'is "{schema:.40}", not "{expected}"'
        if not schema.startswith(expected.rstrip("0123456789")):
            raise InputError(problem)
        problem += ": made by another version of dejacue"
        raise InputError(f"{problem}; make it again")


def check_keys(keys: Iterable[str], known: Sequence[str]) -> None:
    for key in keys:
        if key not in known:
            raise unknown("key", key, known)


def check_object(value: object, keys: Iterable[str]) -> None:
    if not isinstance(value, dict):
        raise InputError(f"must be an object with the keys {', '.join(keys)}, not {value!r:.40}")


def whole_number(value: object, what: str) -> int:
    """Return a whole number, 0 or more, such as a frame or rank; refuse True and 3.0."""
    from dejacue.records.fields import MAX_FRAME

    if type(value) is not int or not 0 <= value <= MAX_FRAME:
        raise InputError(f"{what} {value!r:.40} is not a whole number, 0 or more")
    return value


def as_json(value: object, indent: int | None = None) -> str:
    """Return plain values or Structs as strict JSON: no NaN or infinity, no half characters."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_of_struct)
        text.encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"cannot be written as JSON ({error})") from None
    return text if indent is None else msgspec.json.format(text, indent=indent)


def _of_struct(value: object) -> Any:
    from dejacue.records.timeline import encoded  # the help of a command does without numpy

    if not isinstance(value, msgspec.Struct):
        raise TypeError(f"JSON has no word for a {type(value).__name__}")
    return msgspec.to_builtins(value, enc_hook=encoded)


def write_document(
    path: str | os.PathLike[str], head: Mapping[str, Any], key: str, rows: Iterable[str]
) -> Path:
    """Write an object that ends in a list, one row a line, so that it is easy to edit.

    rows   as ``as_json`` gives them
    """
    opening = "".join(f"  {as_json(name)}: {as_json(value)},\n" for name, value in head.items())
    body = ",\n".join(f"    {row}" for row in rows)
    return write_text(path, f"{{\n{opening}  {as_json(key)}: [\n{body}\n  ]\n}}\n")
