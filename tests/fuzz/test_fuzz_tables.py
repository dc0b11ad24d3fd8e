"""References, timelines, vocabularies, manifests and findings: texts and tables."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.altered import Shape, check_altered, check_shapes, shape

from dejacue import Finding, History, Reference, find
from dejacue.corpus.ingest.manifest import read_manifest
from dejacue.files import read_vocabulary
from dejacue.files.findings import read_document
from dejacue.files.results import (
    read_references,
    read_timelines,
    write_references,
    write_timelines,
)
from dejacue.method import Window
from dejacue_paper import generate

CLOCK = History(np.ones((20, 2)), id="x", times_s=np.arange(20) / 25)
FOREIGN = (".eaf", ".srt", ".vtt", ".cvat.xml", ".fiftyone.json", ".labelstudio.json")
STATE = {"words": ["one"], "examples": [3, "4.5s", "1-2", "cup.jpg", "a.mp4@7"]}
WORDS = {"object": "cup", "states": {"a": STATE, "b": ["three"]}, "none": [5], "changes": 6}
YAML = """# states
states:
  a: [one, two]
  b: {words: 'four', examples: [3, 1-2, a.jpg]}
none: 4
changes: [2]
"""


def found() -> Finding:
    scene = generate(frames=12, dimension=9)
    return find(scene.history, scene.vocabulary)


def references(folder: Path, suffix: str) -> None:
    records = [Reference("x", {"a": [Window(0, 3)], "b": [Window(5, 9), Window(12, 12)]})]
    write_references(folder / f"x{suffix}", records, times=CLOCK)


def timelines(folder: Path, suffix: str) -> None:
    timeline = found().timeline
    if suffix != ".csv":
        write_timelines(folder / f"x{suffix}", [timeline])
        return
    rows = timeline.to_rows()
    with (folder / "x.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        writer.writerows(rows)


def vocabulary(folder: Path, suffix: str) -> None:
    (folder / f"x{suffix}").write_text(json.dumps(WORDS) if suffix == ".json" else YAML)


def manifest(folder: Path, suffix: str) -> None:
    row = {"video": "clip.mp4", "masks": "masks", "id": "a", "objects": "1+2", "start": "3"}
    table = f"{','.join(row)}\n{','.join(row.values())}\n"
    (folder / f"x{suffix}").write_text(table if suffix == ".csv" else json.dumps(row))
    for name in ("clip.mp4", "masks"):
        (folder / name).touch()


def read_marked(path: Path) -> None:
    for reference in read_references(path, times=CLOCK):
        assert reference.states


CASES = [
    *((references, suffix, read_references) for suffix in (".json", ".csv")),
    *((references, suffix, read_marked) for suffix in (*FOREIGN, ".parquet", ".arrow")),
    *((timelines, suffix, read_timelines) for suffix in (".json", ".jsonl", ".csv")),
    *((vocabulary, suffix, read_vocabulary) for suffix in (".json", ".yaml")),
    *((manifest, suffix, read_manifest) for suffix in (".csv", ".jsonl")),
]


@pytest.mark.parametrize(("make", "suffix", "read"), CASES)
def test_an_altered_table_is_read_or_refused(tmp_path, make, suffix, read) -> None:
    check_altered(
        tmp_path,
        partial(make, suffix=suffix),
        lambda rng, folder: read(next(iter(sorted(folder.glob("x.*"))), folder / "x.gone")),
    )


def test_an_altered_folder_of_a_finding_is_read_or_refused(tmp_path) -> None:
    finding = found()
    check_altered(tmp_path, finding.save, lambda rng, folder: Finding.read(folder))


# Small files that unfold


def table(suffix: str, kind: str, size: int) -> bytes:
    """Return a table whose columns unfold: one long text for all rows, lists, or many columns."""
    import pyarrow
    from pyarrow import parquet

    rows = {"rows": size // 4, "wide": 3, "needed": 100_000}.get(kind, size // 40)
    words = "x" * (size // 4 if kind in ("dictionary", "zipped") else 3)
    column: Any = pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [words])
    if kind == "list":
        column = pyarrow.array([[[None] * 300] * 3] * min(rows, 9000))
        rows = len(column)
    elif kind == "zipped":
        rows = 200
        column = pyarrow.array([words] * rows)
    numbers = np.zeros(rows, int) if kind == "rows" else np.arange(rows)
    columns: dict[str, Any] = {"history": ["h"] * rows, "state": ["s"] * rows}
    columns |= {"start": numbers, "end": numbers}
    if kind == "wide":
        columns |= {f"c{k}": numbers for k in range(size // 400)}
    elif kind == "long":
        columns["state"] = [f"s{k}" for k in range(rows)]
    elif kind == "needed":
        columns["state"] = pyarrow.DictionaryArray.from_arrays(
            np.zeros(rows, np.int32), ["x" * (size // 2)]
        )
    else:
        columns["notes" if kind == "list" else "component"] = column
    made, stream = pyarrow.table(columns), io.BytesIO()
    if kind == "rows":
        made = made.replace_schema_metadata({"x": "x" * (size - 9000)})  # more bytes, more rows
    if suffix == ".parquet":
        parquet.write_table(made, stream, compression="zstd")
    else:
        packing = "zstd" if kind == "zipped" else None
        options = pyarrow.ipc.IpcWriteOptions(compression=packing)
        with pyarrow.ipc.new_file(stream, made.schema, options=options) as writer:
            writer.write_table(made)
    return stream.getvalue()


def laughs(words: str) -> Shape:
    """Return a YAML vocabulary in which aliases unfold to 9^40 values."""
    lists = (f"- &a{k} [{','.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 40))
    lines = ("changes:", "- &a0 [x]", *lists, f"states: {{a: x, b: {words}}}")
    return "x.yaml", lambda size: "\n".join(lines).encode()


CUE = "00:00:00.000 --> 00:00:00.500\n"
SLOTS = '<TIME_ORDER><TIME_SLOT TIME_SLOT_ID="a" TIME_VALUE="0"/><TIME_SLOT TIME_SLOT_ID="b" \
TIME_VALUE="500"/></TIME_ORDER>'
ELAN = f'<ANNOTATION_DOCUMENT><HEADER MEDIA_FILE="" TIME_UNITS="milliseconds"/>{SLOTS}'
END = "</ANNOTATION_DOCUMENT>"
ALIGNED = '<ANNOTATION><ALIGNABLE_ANNOTATION TIME_SLOT_REF1="a" TIME_SLOT_REF2="b">\
<ANNOTATION_VALUE>{}</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>'
REGION = '{"type":"timelinelabels","value":{"ranges":[{"start":1,"end":2}],"timelinelabels":["'
TASK = '[{"data":{"video":"x"},"annotations":[{"result":['
BOX = '<box frame="{}" outside="0"><attribute name="state">s{}</attribute></box>'
MANY = "history,state,start,end"
HISTORY = '{"histories":[{"history":"h","states":{'
TIMELINE = '{"history":"h","intervals":['
INTERVAL = '{"state":"a","start":0,"end":1'
FINDING = '{"schema":"dejacue.finding/3","files":{'
REFERENCES = [
    shape("x.vtt", f"WEBVTT\n\n{CUE}", "&#"),
    shape("x.vtt", f"WEBVTT\n\n{CUE}&#", "9", ";"),
    shape("x.vtt", "WEBVTT\n\n", lambda k: f"{CUE}s{k}\n\n"),
    shape("x.vtt", "WEBVTT\n\n", "\n \t"),
    shape("x.srt", "1\n00:00:00,000 -->", " ", "x"),
    shape("x.srt", "", lambda k: f"{k}\n00:00:00,000 --> 00:00:00,{1 + k % 700:03}\na\n\n"),
    shape("x.eaf", ELAN, lambda k: f'<TIER TIER_ID="{k}">{ALIGNED.format(k)}</TIER>', END),
    shape("x.eaf", f'{ELAN}<TIER TIER_ID="t">', ALIGNED.format, f"</TIER>{END}"),
    shape("x.eaf", ELAN, "<TIER>", END),
    shape("x.eaf", f"{ELAN}<TIER ", lambda k: f'a{k}="" ', f"/>{END}"),
    shape("x.cvat.xml", '<annotations><track label="a">', lambda k: BOX.format(k, k)),
    shape("x.cvat.xml", '<annotations><track><box frame="', "9", '"/></track></annotations>'),
    shape("x.fiftyone.json", '{"labels":{"v":[', '{"label":"a","support":[1,2]}', "]}}", ","),
    shape("x.labelstudio.json", TASK, lambda k: f'{REGION}{k}"]}}}}', "]}]}]", ","),
    shape("x.csv", f"{MANY},", lambda k: f"c{k},"),
    shape("x.csv", f"{MANY}\n", lambda k: f"h,s,{k},{k}\n"),
    shape("x.csv", f"{MANY}\n", lambda k: f"{k},{k},1,2\n"),
    shape("x.csv", f"{MANY}\n", '"'),
    shape("x.csv", f"{MANY}\nh,s,1,", "2"),
    shape("x.json", '{"histories":[', lambda k: f'{{"history":"{k}","states":{{}}}}', "]}", ","),
    shape("x.json", f'{HISTORY}"a":[', "[0,1]", "]}}]}", ","),
    shape("x.json", HISTORY, lambda k: f'"{k}":[[0,1]]', "}}]}", ","),
    shape("x.json", "", "["),
    shape("x.json", "", '{"a":'),
    shape("x.json", '{"histories":', "1", "}"),
    *(
        (f"x{suffix}", partial(table, suffix, kind))
        for suffix in (".parquet", ".arrow")
        for kind in ("dictionary", "needed", "zipped", "list", "wide", "long", "rows")
    ),
]
TIMELINES = [
    shape("x.json", TIMELINE, lambda k: f'{INTERVAL},"description":"{k}","rank":1}}', "]}", ","),
    shape("x.json", f'{TIMELINE}],"states":{{', lambda k: f'"{k}":["x"]', "}}", ","),
    shape("x.json", f'{TIMELINE}],"notes":[', lambda k: f'"{k}"', "]}", ","),
    shape("x.jsonl", "", lambda k: f'{{"history":"{k}","intervals":[]}}\n'),
    shape("x.csv", f"{MANY},rank\n", lambda k: f"h,s,{k},{k},{k + 1}\n"),
    shape("x.csv", f"{MANY},description\n", lambda k: f"h,{k},1,2,{k}\n"),
    shape("x.csv", f"{MANY},notes\nh,s,1,2,", lambda k: f"{k} | "),
]
VOCABULARIES = [
    shape("x.json", '{"a":[', lambda k: f'"{k}"', '],"b":["x"]}', ","),
    shape("x.json", "{", lambda k: f'"{k}":["{k}"]', "}", ","),
    shape("x.json", '{"states":{"a":"x","b":{"examples":[', str, "]}}}", ","),
    shape("x.yaml", "a: x\nb: ", "1:", "1.5"),
    shape("x.yaml", "a: x\nb: 0x", "f"),
    shape("x.yaml", "b: y\na:\n", lambda k: f"- a longer sentence about a cup, number {k}\n"),
    shape("x.yaml", "", lambda k: f"s{k}: x{k}\n"),
    shape("x.yaml", "b: y\na: [", "[", "]"),
    shape("x.yaml", "b: y\na: {", "a: ", "}"),
    shape("x.yaml", "b: y\na: ", "- "),
    shape("x.yaml", "a: ", "&a "),
    shape("x.yaml", 'a: "', "\\u2028", '"'),
    shape("x.yaml", "a: &a [x]\nb: [", "*a,", "*a]"),
    *map(laughs, ("*a39", "{words: {x: *a39}}", "{examples: [*a39]}")),
    ("x.yaml", lambda size: "\n".join(" " * k + "a:" for k in range(1400)).encode()),
]
MANIFESTS = [
    shape("x.csv", "video,masks,", lambda k: f"c{k},"),
    shape("x.csv", "video,masks\n", lambda k: f"{k}.mp4,{k}\n"),
    shape("x.csv", "video,masks,objects\nx.mp4,x,", lambda k: f"{k}+", "1\n"),
    shape("x.csv", "video,masks\n", "**/*?,x\n"),
    shape("x.csv", "video,masks\nx,", "[", "\n"),
    shape("x.jsonl", "{", lambda k: f'"{k}":1,', '"video":"x"}'),
    shape("x.jsonl", "", lambda k: f'{{"video":"{k}","masks":"{k}"}}\n'),
]
FINDINGS = [
    shape("finding.json", FINDING, lambda k: f'"{k}":""', f'}},"timeline":{TIMELINE}]}}}}', ","),
    shape(
        "finding.json",
        f'{FINDING}}},"doubts":[',
        '[[0,1],""]',
        f'],"timeline":{TIMELINE}]}}}}',
        ",",
    ),
]
READERS: list[tuple[Callable[[Path], object], list[Shape]]] = [
    (read_marked, REFERENCES),
    (read_timelines, TIMELINES),
    (read_vocabulary, VOCABULARIES),
    (read_manifest, MANIFESTS),
    (lambda path: read_document(path.parent), FINDINGS),
]


@pytest.mark.long
@pytest.mark.parametrize(("read", "shapes"), READERS)
def test_tables_of_a_megabyte_take_seconds_and_little_memory(tmp_path, read, shapes) -> None:
    check_shapes(tmp_path, shapes, read)
