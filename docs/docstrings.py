"""Docstrings for the site: what they list in columns (name, spaces, text) becomes a table, an
example becomes code."""

from __future__ import annotations

import re
from typing import Any

import griffe

ITEM = re.compile(r"(\S(?:.*?\S)?) {2,}(\S.*)")


class Columns(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            paragraphs = re.split(r"\n\s*\n", obj.docstring.value)
            obj.docstring.value = "\n\n".join(map(as_table, paragraphs))


def as_table(paragraph: str) -> str:
    """The paragraph as it is, or its lines before the first item and the items as a table."""
    if paragraph.startswith(">>>"):
        return f"```pycon\n{paragraph}\n```"
    before: list[str] = []
    items: list[list[str]] = []
    column = 0
    for line in paragraph.splitlines():
        if found := ITEM.fullmatch(line):
            column = found.start(2)
            items.append([found[1], found[2]])
        elif not items:
            before.append(line)
        elif line.startswith("   "):
            items[-1][1] += " " + line.strip()
        elif line[column - 1 : column] == " ":  # a name as wide as its column
            items.append([line[:column].strip(), line[column:]])
        else:
            return paragraph
    if not items:
        return paragraph
    rows = [f"| {names(name)} | {text.replace('|', chr(92) + '|')} |" for name, text in items]
    return "\n".join([*before, "", "| | |", "|---|---|", *rows]).strip()


def names(text: str) -> str:
    return ", ".join(part if part == "…" else f"`{part}`" for part in text.split(", "))
