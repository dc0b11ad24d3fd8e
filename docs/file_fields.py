"""Write the lists of docs/files.md that say the fields of a file: python docs/file_fields.py

A list stands between <!--fields:NAME--> and <!--end-->. Names and types come from the class
that is written and read, what they mean from its docstring.
"""

from __future__ import annotations

import re
from inspect import cleandoc
from pathlib import Path
from typing import Any

from msgspec import inspect

from dejacue.files.findings import Manifest
from dejacue.records import Interval, Reference, Timeline

PAGE = Path(__file__).resolve().parent / "files.md"
CLASSES = {
    "Timeline": Timeline.Fields,
    "Interval": Interval,
    "Reference": Reference,
    "Finding": Manifest,
}
_LIST = re.compile(r"(<!--fields:(\w+)-->\n).*?(<!--end-->)", re.DOTALL)
_ENTRY = re.compile(r"(\w+(?:, \w+)*) {2,}(.+)")  # "start, end   first and last frame"
_WORDS = {
    inspect.StrType: "text",
    inspect.BoolType: "true or false",
    inspect.AnyType: "any",
    inspect.NoneType: "null",
}


def meanings(kind: type) -> dict[tuple[str, ...], str]:
    """Return fields → what they mean, as the docstring of a class lists them in columns."""
    entries: dict[tuple[str, ...], str] = {}
    for line in cleandoc(kind.__doc__ or "").splitlines():
        if entry := _ENTRY.fullmatch(line):
            names = tuple(entry[1].split(", "))
            entries[names] = entry[2]
        elif entries and line.startswith("  "):
            entries[names] += f" {line.strip()}"
        elif entries:
            break  # an example follows
    return {names: text.replace("``", "`") for names, text in entries.items()}


def in_words(kind: Any) -> str:
    """Return a type in words: a list of text, a whole number."""
    match kind:
        case inspect.IntType():
            return "whole number"
        case inspect.FloatType():
            return "number" + (", 0 … 1" if kind.ge == 0 else "")
        case inspect.LiteralType():
            return ", ".join(f"`{value}`" for value in kind.values)
        case inspect.UnionType():
            return " or ".join(map(in_words, kind.types))
        case inspect.ListType() | inspect.VarTupleType():
            return f"list of {in_words(kind.item_type)}"
        case inspect.TupleType():
            return f"[{', '.join(map(in_words, kind.item_types))}]"
        case inspect.DictType():
            return f"object of {in_words(kind.value_type)}"
        case inspect.StructType(array_like=True):
            return f"[{', '.join(field.encode_name for field in kind.fields)}]"
        case inspect.StructType() | inspect.DataclassType():
            return kind.cls.__name__.lower()
        case inspect.CustomType():
            return {"ndarray": "number of a row"}.get(name := _name(kind.cls), name.lower())
    return _WORDS[type(kind)]


def _name(kind: Any) -> str:
    return str(getattr(kind, "__origin__", kind).__name__)


def fields_of(name: str) -> str:
    """Return the fields of a class as a list."""
    kind = CLASSES[name]
    known = inspect.type_info(kind)
    assert isinstance(known, inspect.StructType)
    fields = {field.name: field for field in known.fields}
    rows = [f"- `{known.tag_field}`: `{known.tag}`"] if known.tag is not None else []
    for names, meaning in meanings(kind).items():
        same = [fields.pop(name) for name in names]
        keys = ", ".join(f"`{field.encode_name}`" for field in same)
        words = in_words(same[0].type)
        if not same[0].required:  # where it is not known, it is left out
            words = f"{words.removesuffix(' or null')}, optional"
        rows.append(f"- {keys} ({words}): {meaning}")
    assert not fields, f"the docstring of {name} leaves out {', '.join(fields)}"
    return "\n".join(rows) + "\n"


def page() -> str:
    """Return the page as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    return _LIST.sub(lambda found: f"{found[1]}\n{fields_of(found[2])}\n{found[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
