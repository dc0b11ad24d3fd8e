"""The formats of other tools by name: endings, how they count, who reads and writes them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from dejacue.errors import InputError
from dejacue.plugins import Registry
from dejacue.sources.documents import named, parse_documents, read_text
from dejacue.sources.formats import (
    benchmarks,
    cvat,
    eaf,
    fiftyone,
    label_studio,
    otio,
    recording,
    subtitles,
)
from dejacue.sources.formats.spans import Marks, Span

MOST_BYTES = 256 << 20
MILLISECOND = 1e-3
EXACT = 1e-6


@dataclass(frozen=True)
class Format:
    """How a tool counts, and who reads and writes its files.

    suffixes      endings of its files, the usual one first
    base, end     what it counts from, and what its end is, in words
    tolerance_s   how exact its seconds are; None: it counts frames
    package       what reading and writing need beside dejacue
    opens         its tool opens the video, so that it must have the path, not a name
    binary        ``read`` takes the path, not the text
    """

    name: str
    suffixes: tuple[str, ...]
    base: str
    end: str
    tolerance_s: float | None
    write: Callable[[Marks], str | bytes]
    read: Callable[[str], list[Span]]
    package: str | None = None
    opens: bool = False
    binary: bool = False

    @property
    def suffix(self) -> str:
        return self.suffixes[0]

    @property
    def timed(self) -> bool:
        return self.tolerance_s is not None

    def spans(self, path: str | os.PathLike[str]) -> list[Span]:
        """What a file says."""
        name = os.fspath(path)
        given = name if self.binary else read_text(name, MOST_BYTES, "split it")
        with named(name):
            return self.read(given)


_PLAIN = (".json", ".jsonl", ".xml")
_ROOTS = {"ANNOTATION_DOCUMENT": "eaf", "annotations": "cvat"}  # of XML
_KEYS = {  # that a JSON document, or the first of a list, has
    ("relevant_windows", "pred_relevant_windows"): "qvhighlights",
    ("database",): "activitynet",
    ("annotations", "predictions"): "label-studio",
    ("labels", "samples"): "fiftyone",
    ("OTIO_SCHEMA",): "otio",
}
_LAST = "last frame, included"
_AFTER = "end of the last frame"
FORMATS: Registry[Format] = Registry(
    "formats",
    {
        own.name: own
        for own in (
            Format(
                "vtt",
                (".vtt",),
                "milliseconds",
                _AFTER,
                MILLISECOND,
                subtitles.write_vtt,
                subtitles.read,
            ),
            Format(
                "srt",
                (".srt",),
                "milliseconds",
                _AFTER,
                MILLISECOND,
                subtitles.write_srt,
                subtitles.read,
            ),
            Format(
                "eaf",
                (".eaf",),
                "milliseconds",
                _AFTER,
                MILLISECOND,
                eaf.write,
                eaf.read,
                opens=True,
            ),
            Format(
                "otio",
                (".otio",),
                "frames from 0 at the rate, or microseconds",
                _AFTER,
                EXACT,
                otio.write,
                otio.read,
                opens=True,
            ),
            Format(
                "rerun",
                (".rrd",),
                "seconds",
                _AFTER,
                EXACT,
                recording.write,
                recording.read,
                package="rerun-sdk",
                binary=True,
            ),
            Format(
                "fiftyone",
                (".fiftyone.json",),
                "frames from 1",
                _LAST,
                None,
                fiftyone.write,
                fiftyone.read,
                opens=True,
            ),
            Format(
                "label-studio",
                (".labelstudio.json", ".label-studio.json"),
                "frames from 1",
                _LAST,
                None,
                label_studio.write,
                label_studio.read,
                opens=True,
            ),
            Format(
                "cvat",
                (".cvat.xml",),
                "frames from 0",
                "first frame outside",
                None,
                cvat.write,
                cvat.read,
                opens=True,
            ),
            Format(
                "qvhighlights",
                (".qvhighlights.jsonl",),
                "seconds",
                _AFTER,
                EXACT,
                benchmarks.write_qvhighlights,
                benchmarks.read_qvhighlights,
            ),
            Format(
                "activitynet",
                (".activitynet.json",),
                "seconds",
                _AFTER,
                EXACT,
                benchmarks.write_activitynet,
                benchmarks.read_activitynet,
            ),
        )
    },
)


def format_in(path: str | os.PathLike[str]) -> Format | None:
    """The format of a file that is there: by its ending or, since tools call their exports as they
    like (labels.json, annotations.xml), by what it holds; None: it is none of another tool."""
    name = os.fspath(path)
    if os.path.isdir(name) or name.lower().endswith(".zip"):
        what = "a folder;" if os.path.isdir(name) else "an archive; unpack it and"
        raise InputError(f"{name}: is {what} give the file inside: labels.json, annotations.xml …")
    if (own := format_of(name)) is not None or not name.lower().endswith(_PLAIN):
        return own
    text = read_text(name, MOST_BYTES, "split it")
    if text.lstrip().startswith("<"):
        found = next((kind for root, kind in _ROOTS.items() if f"<{root}" in text[:4096]), None)
        return None if found is None else FORMATS[found]
    if any(f'"{key}"' in text for key in ("histories", "intervals", "moments")):  # ours
        return None
    try:
        documents = parse_documents(text)
    except InputError:
        return None  # whoever reads it says what is wrong
    first = documents[0] if documents else None
    first = first[0] if isinstance(first, list) and first else first
    if not isinstance(first, dict):
        return None
    found = next((kind for keys, kind in _KEYS.items() if first.keys() & set(keys)), None)
    return None if found is None else FORMATS[found]


def format_of(path: str | os.PathLike[str]) -> Format | None:
    """The format that the ending of a name tells; None: it is none of another tool."""
    name = os.fspath(path).lower()
    for own in FORMATS.loaded().values():
        if name.endswith(own.suffixes):
            return own
    return None
