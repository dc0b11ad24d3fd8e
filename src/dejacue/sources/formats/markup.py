"""XML of other tools: read without surprises, written as any parser takes it."""

from __future__ import annotations

from xml.etree import ElementTree

from dejacue.errors import InputError, first_line

Element = ElementTree.Element


def parse_xml(text: str, root: str, what: str) -> Element:
    """The root of a document; definitions, which can grow without bounds, are refused."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError("defines entities (<!DOCTYPE>), which such files do not need; remove them")
    try:
        found = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"not valid XML, or cut short ({first_line(error)})") from None
    if found.tag != root:
        raise InputError(
            f"begins with <{found.tag:.40}>, not with <{root}>; check that it is {what}"
        )
    return found


def as_xml(root: Element, *, declared: bool = True) -> str:
    """``declared``: with the line that says that it is XML, which not every tool takes."""
    ElementTree.indent(root)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n' if declared else ""
    return f"{head}{ElementTree.tostring(root, 'unicode')}\n"


def add(parent: Element, tag: str, text: str | None = None, **attributes: str) -> Element:
    """A child."""
    child = ElementTree.SubElement(parent, tag, attributes)
    child.text = text
    return child
