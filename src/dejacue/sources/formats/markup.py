"""XML of other tools: read without surprises, written as any parser takes it."""

from __future__ import annotations

from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from dejacue.errors import InputError, first_line


def parse_xml(text: str, root: str, what: str) -> Element:
    """Return the root of a document; definitions, which can grow without bounds, are refused."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        problem = "defines entities (<!DOCTYPE>), which such files do not need"
        raise InputError(problem, field="DOCTYPE", remedy="remove them")
    try:
        element = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"not valid XML, or cut short ({first_line(error)})") from None
    if element.tag != root:
        problem = f"begins with <{element.tag:.40}>, not with <{root}>"
        raise InputError(problem, field=root, remedy=f"check that it is {what}")
    return element


def as_xml(root: Element, *, declaration: bool = True) -> str:
    """Return a document as text, with or without the <?xml …?> line that not every tool takes."""
    ElementTree.indent(root)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n' if declaration else ""
    return f"{head}{ElementTree.tostring(root, 'unicode')}\n"


def add(parent: Element, tag: str, text: str | None = None, **attributes: str) -> Element:
    """Append a child element and return it."""
    child = ElementTree.SubElement(parent, tag, attributes)
    child.text = text
    return child


def add_texts(parent: Element, **texts: str) -> None:
    """Append a child with text for each keyword, which is its tag."""
    for tag, text in texts.items():
        add(parent, tag, text)
