"""The page on files lists the fields of the classes that are written and read."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import msgspec

from dejacue.files import read_references, read_timelines
from dejacue.records import Example

DOCS = Path(__file__).resolve().parents[2] / "docs"
PRINTER = runpy.run_path(str(DOCS / "file_fields.py"))
PAGE = (DOCS / "files.md").read_text(encoding="utf-8")


def test_the_page_is_as_the_classes_are() -> None:
    assert PRINTER["page"]() == PAGE, "run python docs/file_fields.py"
    assert set(re.findall(r"<!--fields:(\w+)-->", PAGE)) == set(PRINTER["CLASSES"])


def test_what_the_page_shows_is_read(tmp_path) -> None:
    documents = {}
    for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL):
        document = json.loads(text)
        path = documents[document["schema"]] = tmp_path / f"{len(documents)}.json"
        path.write_text(text, encoding="utf-8")
    timeline, references = documents.values()
    assert read_timelines(timeline)[0].best("filled").confirmed
    assert read_references(references)[0].complete
    (example,) = re.findall(r'such as `({"state".*?})`', PAGE)
    assert msgspec.json.decode(example, type=Example).name == "120-180"
