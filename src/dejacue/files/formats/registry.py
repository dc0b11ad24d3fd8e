"""The formats of other tools by name: endings, and who reads and writes them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from dejacue.errors import InputError, in_file
from dejacue.files.documents import parse_json, read_text
from dejacue.files.formats import (
    cvat,
    eaf,
    fiftyone,
    label_studio,
    recording,
    subtitles,
)
from dejacue.files.formats.spans import Marks, Span

MAX_BYTES = 256 << 20


@dataclass(frozen=True)
class Format:
    """A file format of a tool, and the functions that read and write it.

    suffixes      endings of its files, the usual one first
    tolerance_s   how exact its seconds are; None: it counts frames
    needs         a package that reading and writing need, and how to install it
    opens         its tool opens the video, so that it must have the path, not a name
    binary        ``read`` takes the path, not the text
    """

    name: str
    suffixes: tuple[str, ...]
    tolerance_s: float | None
    write: Callable[[Marks], str | bytes]
    read: Callable[[str], list[Span]]
    needs: tuple[str, str] | None = None
    opens: bool = False
    binary: bool = False

    @property
    def suffix(self) -> str:
        return self.suffixes[0]

    @property
    def timed(self) -> bool:
        return self.tolerance_s is not None

    def spans(self, path: str | os.PathLike[str]) -> list[Span]:
        """Return the spans that a file holds."""
        name = os.fspath(path)
        content = name if self.binary else read_text(name, MAX_BYTES, "split it")
        with in_file(name):
            return self.read(content)


_RERUN = ("rerun", "pip install rerun-sdk")
FORMATS = {
    format.name: format
    for format in (
        Format("vtt", (".vtt",), 1e-3, subtitles.write_vtt, subtitles.read),
        Format("srt", (".srt",), 1e-3, subtitles.write_srt, subtitles.read),
        Format("eaf", (".eaf",), 1e-3, eaf.write, eaf.read, opens=True),
        Format("rerun", (".rrd",), 1e-6, recording.write, recording.read, _RERUN, binary=True),
        Format("fiftyone", (".fiftyone.json",), None, fiftyone.write, fiftyone.read, opens=True),
        Format(
            "label-studio",
            (".labelstudio.json", ".label-studio.json"),
            None,
            label_studio.write,
            label_studio.read,
            opens=True,
        ),
        Format("cvat", (".cvat.xml",), None, cvat.write, cvat.read, opens=True),
    )
}
_XML_ROOTS = {"ANNOTATION_DOCUMENT": "eaf", "annotations": "cvat"}
_JSON_KEYS = {  # of the document or, in a list, of the first one
    ("annotations", "predictions"): "label-studio",
    ("labels", "samples"): "fiftyone",
}


def format_in(path: str | os.PathLike[str]) -> Format | None:
    """Return the format of a file that is there; None: it is none of another tool.

    Its ending tells or, since tools call their exports as they like (labels.json,
    annotations.xml), what it holds.
    """
    name = os.fspath(path)
    if os.path.isdir(name) or name.lower().endswith(".zip"):
        what, remedy = ("a folder", "") if os.path.isdir(name) else ("an archive", "unpack it and ")
        remedy += "give the file inside: labels.json, annotations.xml …"
        raise InputError(f"{name}: is {what}; {remedy}")
    format = format_of(name)
    if format is not None or not name.lower().endswith((".json", ".xml")):
        return format
    kind = _kind_of(read_text(name, MAX_BYTES, "split it"))
    return None if kind is None else FORMATS[kind]


def _kind_of(text: str) -> str | None:
    """Return the name of the format that a text is in, by its root or its keys."""
    if text.lstrip().startswith("<"):
        return next((kind for root, kind in _XML_ROOTS.items() if f"<{root}" in text[:4096]), None)
    if any(f'"{key}"' in text for key in ("histories", "intervals")):  # ours
        return None
    try:
        document = parse_json(text)
    except InputError:
        return None  # whoever reads it says what is wrong
    first = document[0] if isinstance(document, list) and document else document
    if not isinstance(first, dict):
        return None
    return next((kind for keys, kind in _JSON_KEYS.items() if first.keys() & set(keys)), None)


def format_of(path: str | os.PathLike[str]) -> Format | None:
    """Return the format that the ending of a name tells; None: it is none of another tool."""
    name = os.fspath(path).lower()
    return next((f for f in FORMATS.values() if name.endswith(f.suffixes)), None)
