"""Small files that unfold: read within a bound of time and memory, or refused within it.

Each shape is one field that is repeated, long or nested until the file has its size. A run of
fuzz.py draws shapes and sizes; with ``--sizes`` it reads every shape at its full size.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from readers import Target, clock

from dejacue.data import annotation as passes
from dejacue.errors import DejaCueError
from dejacue.files import read_vocabulary
from dejacue.pipeline.ingest.manifest import read_manifest
from dejacue.sources.findings import read_document
from dejacue.sources.masks import open_masks
from dejacue.sources.results import read_references, read_timelines

MAX_CPU_S, MAX_BYTES, FILE_BYTES = 5, 300 << 20, 1 << 20
Unit = Callable[[int], str]


def memory(field: str) -> int:
    """Return VmRSS or VmHWM of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


class Cost:
    """The seconds of the processor and the bytes above the base that a block took."""

    def __enter__(self) -> Cost:
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again
        self.base, self.began = memory("VmRSS"), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_s = time.process_time() - self.began
        self.peak = memory("VmHWM") - self.base


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Fail when what runs inside computes too long, or takes too much memory."""
    cost = Cost()
    try:
        with cost:
            yield
    finally:
        assert cost.cpu_s < MAX_CPU_S, f"computed for {cost.cpu_s:.1f} s"
        assert cost.peak < MAX_BYTES, f"took {cost.peak >> 20} MB"


def filled(head: str, unit: str | Unit, tail: str, size: int, between: str = ",") -> bytes:
    """Return head, as many units as fit into the size, and tail."""
    room = size - len(head) - len(tail)
    if isinstance(unit, str):
        body = between.join([unit] * (room // (len(unit.encode()) + len(between))))
    else:
        parts: list[str] = []
        for k in count():
            part = unit(k)
            room -= len(part) + len(between)
            if room < 0:
                break
            parts.append(part)
        body = between.join(parts)
    return (head + body + tail).encode()


def text(name: str, head: str, unit: str | Unit, tail: str = "", between: str = "") -> Any:
    return name, lambda size: filled(head, unit, tail, size, between)


def listed(name: str, head: str, unit: str | Unit, tail: str) -> Any:
    return name, lambda size: filled(head, unit, tail, size)


def table(name: str, kind: str, size: int) -> bytes:
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
    if name.endswith(".parquet"):
        parquet.write_table(made, stream, compression="zstd")
    else:
        packing = "zstd" if kind == "zipped" else None
        options = pyarrow.ipc.IpcWriteOptions(compression=packing)
        with pyarrow.ipc.new_file(stream, made.schema, options=options) as writer:
            writer.write_table(made)
    return stream.getvalue()


def tables(suffix: str) -> Iterator[Any]:
    for kind in ("dictionary", "needed", "zipped", "list", "wide", "long", "rows"):
        yield f"x{suffix}", partial(table, f"x{suffix}", kind)


def nested(opening: str, closing: str = "", name: str = "x.json") -> Any:
    def make(size: int) -> bytes:
        times = size // (len(opening) + len(closing))
        return (opening * times + closing * times).encode()

    return name, make


def laughs(words: str) -> Any:
    """Return a YAML vocabulary in which aliases unfold to 9^40 values."""
    lists = (f"- &a{k} [{','.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 40))
    lines = ("changes:", "- &a0 [x]", *lists, f"states: {{a: x, b: {words}}}")
    return "x.yaml", lambda size: "\n".join(lines).encode()


CUE = "00:00:00.000 --> 00:00:00.500\n"
TIMES = '"start_time":{"value":0,"rate":25},"duration":{"value":5,"rate":25}'
MARKER = f'{{"name":"a","marked_range":{{{TIMES}}}}}'
SLOTS = '<TIME_ORDER><TIME_SLOT TIME_SLOT_ID="a" TIME_VALUE="0"/><TIME_SLOT TIME_SLOT_ID="b" \
TIME_VALUE="500"/></TIME_ORDER>'
ELAN = f'<ANNOTATION_DOCUMENT><HEADER MEDIA_FILE="" TIME_UNITS="milliseconds"/>{SLOTS}'
ALIGNED = '<ANNOTATION><ALIGNABLE_ANNOTATION TIME_SLOT_REF1="a" TIME_SLOT_REF2="b">\
<ANNOTATION_VALUE>{}</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>'
REGION = '{"type":"timelinelabels","value":{'
TASK = '[{"data":{"video":"x"},"annotations":[{"result":['
MANY = "history,state,start,end"
PASS = '{"schema":"dejacue.annotation/2","history":"h","annotator":"a",'
BOX = '<box frame="{}" outside="0"><attribute name="state">s{}</attribute></box>'
RLE = '{"size":[8192,8192],"counts":[67108864]}'

REFERENCES = [
    text("x.vtt", f"WEBVTT\n\n{CUE}", "<"),
    text("x.vtt", f"WEBVTT\n\n{CUE}", "&#"),
    text("x.vtt", f"WEBVTT\n\n{CUE}&#", "9", ";"),
    text("x.vtt", f"WEBVTT\n\n{CUE}", "&gt"),
    text("x.vtt", "WEBVTT\n\n", lambda k: f"{CUE}s{k}\n\n"),
    text("x.vtt", "WEBVTT\n\n", lambda k: f"{CUE}s\n\n"),
    text("x.vtt", "WEBVTT\n\n", "\n \t"),
    text("x.vtt", f"WEBVTT\n\n{CUE}a: ", " / "),
    text("x.srt", "1\n", " ", "-->"),
    text("x.srt", "1\n00:00:00,000 -->", " ", "x"),
    text("x.srt", f"1\n{CUE}", "a\n"),
    text("x.srt", "", lambda k: f"{k}\n00:00:00,000 --> 00:00:00,{1 + k % 700:03}\na\n\n"),
    text("x.srt", "", lambda k: f"1\n00:00:00,000 --> 00:00:00,500\no{k} · a\n\n"),
    text("x.eaf", ELAN, lambda k: f'<TIER TIER_ID="{k}"/>', "</ANNOTATION_DOCUMENT>"),
    text(
        "x.eaf",
        ELAN,
        lambda k: f'<TIER TIER_ID="{k}">{ALIGNED.format("a")}{ALIGNED.format("b")}</TIER>',
        "</ANNOTATION_DOCUMENT>",
    ),
    text(
        "x.eaf",
        f'{ELAN}<TIER TIER_ID="t">',
        lambda k: ALIGNED.format(k),
        "</TIER></ANNOTATION_DOCUMENT>",
    ),
    text("x.eaf", ELAN, "<TIER>", "</ANNOTATION_DOCUMENT>"),
    (
        "x.eaf",
        lambda size: (
            ELAN
            + '<TIER TIER_ID="a">' * (size // 25)
            + ALIGNED.format("a")
            + "</TIER>" * (size // 25)
            + "</ANNOTATION_DOCUMENT>"
        ).encode(),
    ),
    text("x.eaf", ELAN, "<a/>", "</ANNOTATION_DOCUMENT>"),
    text(
        "x.eaf",
        f'{ELAN}<TIER TIER_ID="',
        " (1)",
        f'">{ALIGNED.format("a")}</TIER></ANNOTATION_DOCUMENT>',
    ),
    text("x.eaf", f"{ELAN}<TIER ", lambda k: f'a{k}="" ', "/></ANNOTATION_DOCUMENT>"),
    listed("x.otio", '{"OTIO_SCHEMA":"Clip.2","markers":[', MARKER, "]}"),
    listed("x.otio", '{"OTIO_SCHEMA":"Timeline.1","children":[', "[]", "]}"),
    nested('{"OTIO_SCHEMA":"Clip.2","children":[', "]}", "x.otio"),
    nested('{"OTIO_SCHEMA":"Clip.2","tracks":', "}", "x.otio"),
    (
        "x.otio",
        lambda size: (
            '{"OTIO_SCHEMA":"Clip.2","children":[' * 200
            + filled('{"OTIO_SCHEMA":"Clip.2","markers":[', MARKER, "]}", size - 9000).decode()
            + "]}" * 200
        ).encode(),
    ),
    text(
        "x.cvat.xml",
        '<annotations><track id="0" label="a">',
        lambda k: BOX.format(k, k),
        "</track></annotations>",
    ),
    text(
        "x.cvat.xml",
        '<annotations><track id="0" label="a">',
        lambda k: BOX.format(k, k % 2),
        "</track></annotations>",
    ),
    text(
        "x.cvat.xml",
        "<annotations>",
        lambda k: f'<track id="{k}" label="l{k}">{BOX.format(k, 0)}</track>',
        "</annotations>",
    ),
    text("x.cvat.xml", "<annotations>", "<track>", "</annotations>"),
    (
        "x.cvat.xml",
        lambda size: (
            "<annotations>"
            + "<track>" * (size // 15)
            + "</track>" * (size // 15)
            + "</annotations>"
        ).encode(),
    ),
    (
        "x.cvat.xml",
        lambda size: (
            '<annotations><track label="a">'
            + '<box frame="1">' * (size // 21)
            + "</box>" * (size // 21)
            + "</track></annotations>"
        ).encode(),
    ),
    text("x.cvat.xml", '<annotations><track><box frame="', "9", '"/></track></annotations>'),
    listed("x.fiftyone.json", '{"labels":{"v":[', '{"label":"a","support":[1,2]}', "]}}"),
    listed(
        "x.fiftyone.json",
        '{"labels":{"v":[',
        lambda k: f'{{"label":"a","support":[1,{k + 1}]}}',
        "]}}",
    ),
    listed("x.fiftyone.json", '{"labels":{', lambda k: f'"{k}":[]', "}}"),
    listed(
        "x.fiftyone.json",
        '{"samples":[{"filepath":"v",',
        lambda k: f'"f{k}":{{"_cls":"TemporalDetections"}}',
        "}]}",
    ),
    (
        "x.labelstudio.json",
        lambda size: (
            TASK
            + REGION
            + filled('"timelinelabels":[', lambda k: f'"{k}"', "],", size // 2).decode()
            + filled('"ranges":[', '{"start":1,"end":2}', "]}}]}]}]", size // 2).decode()
        ).encode(),
    ),
    listed(
        "x.labelstudio.json",
        TASK,
        lambda k: f'{REGION}"timelinelabels":["a"],"ranges":[{{"start":1,"end":{k + 1}}}]}}}}',
        "]}]}]",
    ),
    listed("x.labelstudio.json", "[", '{"annotations":[]}', "]"),
    listed("x.labelstudio.json", '[{"annotations":[', "{}", "]}]"),
    listed(
        "x.qvhighlights.jsonl",
        '{"query":"a","vid":"x","relevant_windows":[',
        "[0,0.5]",
        "]}",
    ),
    text(
        "x.qvhighlights.jsonl",
        "",
        lambda k: f'{{"query":"{k}","vid":"x","relevant_windows":[[0,0.5]]}}\n',
    ),
    text("x.qvhighlights.jsonl", "", "{}"),
    listed(
        "x.activitynet.json",
        '{"database":{',
        lambda k: f'"{k}":{{"annotations":[{{"label":"a","segment":[0,0.5]}}]}}',
        "}}",
    ),
    listed("x.csv", "", lambda k: f"c{k}", ""),
    listed("x.csv", MANY, lambda k: f"c{k}", ""),
    listed("x.csv", f"{MANY},", "c", ""),
    text("x.csv", f"{MANY}\n", lambda k: f"h,s,{k},{k}\n"),
    text("x.csv", f"{MANY}\n", lambda k: f"h,{k},1,2\n"),
    text("x.csv", f"{MANY}\n", lambda k: f"{k},s,1,2\n"),
    text("x.csv", f"{MANY},component\n", lambda k: f"{k},s,1,2,{k}\n"),
    text("x.csv", f"{MANY}\n", '"'),
    text("x.csv", f"{MANY}\nh,s,1,", "2"),
    text("x.csv", f"{MANY}\nh,", '""', ",1,2\n"),
    text("x.csv", f"{MANY}\n", "\n"),
    listed(
        "x.json", '{"histories":[', lambda k: f'{{"history":"{k}","states":{{"a":[[0,1]]}}}}', "]}"
    ),
    listed("x.json", '{"histories":[{"history":"h","states":{"a":[', "[0,1]", "]}}]}"),
    listed("x.json", '{"histories":[{"history":"h","states":{', lambda k: f'"{k}":[[0,1]]', "}}]}"),
    listed(
        "x.json",
        '{"histories":[{"history":"h","states":{"a":[[0,1]]},"descriptions":{"a":[',
        lambda k: f'"{k}"',
        "]}}]}",
    ),
    listed("x.json", '{"histories":[', "[]", "]}"),
    listed("x.json", '{"histories":[', "{}", "]}"),
    listed("x.json", "{", lambda k: f'"{k}":{{}}', "}"),
    listed("x.json", "{", '"a":1', "}"),
    nested("[", "]"),
    nested("["),
    nested('{"a":', "}"),
    text("x.json", '{"histories":', "1", "}"),
    text("x.json", '{"histories":[', "1e400,", "1]}"),
    text("x.json", '{"histories":[', '"', "NaN]}"),
    text("x.json", '{"histories":"', "\\ud83d\\ude00", '"}'),
    text("x.json", "", " [] "),
    *tables(".parquet"),
    *tables(".arrow"),
]
INTERVAL = '{"state":"a","start":0,"end":1'
TIMELINES = [
    listed(
        "x.json", '{"history":"h","intervals":[', lambda k: f'{INTERVAL},"rank":{k + 1}}}', "]}"
    ),
    listed(
        "x.json",
        '{"history":"h","intervals":[',
        lambda k: f'{{"state":"{k}","start":0,"end":1}}',
        "]}",
    ),
    listed(
        "x.json",
        '{"history":"h","intervals":[',
        lambda k: f'{INTERVAL},"description":"{k}"}}',
        "]}",
    ),
    listed("x.json", '{"history":"h","states":{', lambda k: f'"{k}":["x"]', '},"intervals":[]}'),
    listed("x.json", '{"history":"h","states":{"a":[', lambda k: f'"{k}"', ']},"intervals":[]}'),
    listed("x.json", '{"history":"h","intervals":[],"notes":[', lambda k: f'"{k}"', "]}"),
    listed(
        "x.json",
        '{"history":"h","moments":[',
        lambda k: f'{INTERVAL},"description":"{k}","level":"state"}}',
        "]}",
    ),
    listed(
        "x.json",
        f'{{"history":"h","moments":[{INTERVAL},"description":"x","alternatives":[',
        '{"start":0,"end":1}',
        "]}]}",
    ),
    nested('{"history":"h","intervals":[],"settings":', "}"),
    text("x.jsonl", "", lambda k: f'{{"history":"{k}","intervals":[]}}\n'),
    text("x.csv", f"{MANY},rank\n", lambda k: f"h,s,{k},{k},{k + 1}\n"),
    text("x.csv", f"{MANY}\n", lambda k: f"h,{k},1,2\n"),
    text("x.csv", f"{MANY}\n", lambda k: f"{k},s,1,2\n"),
    text("x.csv", f"{MANY},description\n", lambda k: f"h,s,1,2,{k}\n"),
    text("x.csv", f"{MANY},notes\nh,s,1,2,", lambda k: f"{k} | "),
    listed("x.csv", f"{MANY},", lambda k: f"c{k}", ""),
    *tables(".parquet"),
    *tables(".arrow"),
]
VOCABULARIES = [
    listed("x.json", '{"a":[', lambda k: f'"{k}"', '],"b":["x"]}'),
    listed("x.json", '{"a":[', '"x"', '],"b":["y"]}'),
    listed("x.json", "{", lambda k: f'"{k}":["{k}"]', "}"),
    listed("x.json", '{"states":{"a":"x","b":{"examples":[', lambda k: f"{k}", "]}}}"),
    listed("x.json", '{"states":{"a":"x","b":{"examples":["', "1", '"]}}}'),
    listed("x.json", "[", lambda k: f'"cup {k}"', "]"),
    listed("x.json", '{"states":{"a":"x","b":"y"},"changes":[', lambda k: f"{k}", "]}"),
    nested('{"states":', "}"),
    text("x.yaml", "a: x\nb: ", "1:", "1"),
    text("x.yaml", "a: x\nb: ", "1:", "1.5"),
    text("x.yaml", "a: x\nb: 0x", "f"),
    text("x.yaml", "a: x\nb: ", "9"),
    text("x.yaml", "a: x\nb: ", "1_"),
    text("x.yaml", "a: x\nb: 1", "0", ".5"),
    text("x.yaml", "b: y\na:\n", lambda k: f"- x{k}\n"),
    text("x.yaml", "b: y\na:\n", lambda k: f"- a longer sentence about a cup, number {k}\n"),
    text("x.yaml", "", lambda k: f"s{k}: x{k}\n"),
    text("x.yaml", "b: y\na: [", "x,", "]"),
    text("x.yaml", "b: y\na: [", ",", "]"),
    text("x.yaml", "b: y\na: [", "[", "]"),
    text("x.yaml", "b: y\na: {", "a: ", "}"),
    text("x.yaml", "b: y\na: ", "- "),
    text("x.yaml", "b: y\na: ", "? "),
    text("x.yaml", "b: y\na: ", ": "),
    text("x.yaml", "", "a:\n "),
    text("x.yaml", "", " "),
    text("x.yaml", "a: ", "&"),
    text("x.yaml", "a: ", "&a "),
    text("x.yaml", "a: ", "!"),
    text("x.yaml", "a: ", "!a "),
    text("x.yaml", "a: '", "x\n\n", "'"),
    text("x.yaml", 'a: "', "\\u2028", '"'),
    text("x.yaml", 'a: "', "x", '"'),
    text("x.yaml", "a: |\n", " x\n"),
    text("x.yaml", "a: >\n", " x\n"),
    text("x.yaml", "a: |\n", lambda k: " " * (k + 1) + "\n"),
    text("x.yaml", "a: &a [x]\nb: [", "*a,", "*a]"),
    text("x.yaml", "", "--- a\n"),
    text("x.yaml", "", "# x\n", "a: x"),
    text("x.yaml", "", "%YAML 1.1\n", "---\na: x"),
    *map(laughs, ("*a39", "{words: {x: *a39}}", "{examples: *a39}", "{examples: [*a39]}")),
    ("x.yaml", lambda size: ("\n".join(" " * k + "a:" for k in range(size)[:1400])).encode()),
]
PASSES = [
    listed("x.json", f'{PASS}"states":[', lambda k: f'"{k}"', '],"runs":[]}'),
    (
        "x.json",
        lambda size: (
            filled(f'{PASS}"states":[', lambda k: f'"s{k}"', '],"runs":[', size // 3)
            + filled("", lambda k: f'{{"start":{k},"end":{k},"label":"none"}}', "]}", size // 2)
        ),
    ),
    listed(
        "x.json",
        f'{PASS}"states":["a"],"runs":[',
        lambda k: f'{{"start":{k},"end":{k},"label":"a"}}',
        "]}",
    ),
    (
        "x.json",
        lambda size: (
            f'{PASS}"states":["a"],"runs":[{{"start":0,"end":9999999,"label":"a"}}]}}'.encode()
        ),
    ),
]
MANIFESTS = [
    listed("x.csv", "video,masks,", lambda k: f"c{k}", ""),
    listed("x.csv", "video,masks,", "c", ""),
    text("x.csv", "video,masks\n", lambda k: f"{k}.mp4,{k}\n"),
    text("x.csv", "video,masks,", lambda k: f"c{k},", "\n"),
    text("x.csv", "video,masks,id\n", "x.mp4,x,a\n"),
    text("x.csv", "video,masks,id\n", lambda k: f".,.,{k}\n"),
    text("x.csv", "video,masks\n", lambda k: f"{k},x\n"),
    text("x.csv", "video,masks,objects\nx.mp4,x,", "1+", "1\n"),
    text("x.csv", "video,masks,objects\nx.mp4,x,", lambda k: f"{k}+", "1\n"),
    text("x.csv", "video,masks,start\nx.mp4,x,", "9", "\n"),
    text("x.csv", "video,masks\n", "*,[,\n"),
    text("x.csv", "video,masks\n", "**/*?,x\n"),
    text("x.csv", "video,masks\nx,", "*/", "\n"),
    text("x.csv", "video,masks\nx,", "[", "\n"),
    text("x.jsonl", "", "{}\n"),
    text("x.jsonl", "", "[\n"),
    text("x.jsonl", "{", lambda k: f'"{k}":1,', '"video":"x"}'),
    text("x.jsonl", "", lambda k: f'{{"video":"{k}","masks":"{k}"}}\n'),
    text("x.jsonl", "", lambda k: f'{{"c{k}":"{k}","masks":"{k}"}}\n'),
]
IMAGE = '{"id":0,"file_name":"a.png","height":8192,"width":8192}'
POLYGON = '"segmentation":[[0,0,9,0,9,9]]'
MASKS = [
    listed(
        "x.json",
        f'{{"images":[{IMAGE}],"annotations":[',
        lambda k: f'{{"id":{k},"image_id":0,"bbox":[0,0,9,9]}}',
        "]}",
    ),
    listed(
        "x.json",
        f'{{"images":[{IMAGE}],"annotations":[',
        f'{{"id":1,"image_id":0,{POLYGON}}}',
        "]}",
    ),
    listed("x.json", "[", lambda k: f'{{"frame":{k},"id":1,{POLYGON}}}', "]"),
    listed("x.json", "[", lambda k: f'{{"frame":0,"id":{k},"segmentation":{RLE}}}', "]"),
    listed("x.json", "[", f'{{"frame":0,"id":1,"segmentation":{RLE}}}', "]"),
    listed(
        "x.json",
        '{"images":[',
        lambda k: f'{{"id":{k},"file_name":"{k}.png"}}',
        '],"annotations":[]}',
    ),
    listed(
        "x.json",
        '{"videos":[{"file_names":["a.png"]}],"annotations":[',
        lambda k: f'{{"id":{k},"segmentations":[null]}}',
        "]}",
    ),
    listed("x.json", '[{"frame":0,"id":1,"segmentation":[[', "0,0", "]]}]"),
    listed("x.json", '[{"frame":0,"id":1,"segmentation":[[', "0,0,90000,90000", "]]}]"),
    listed("x.json", '[{"frame":0,"id":1,"segmentation":[[', "0,0,6000,6000", "]]}]"),
    listed("x.json", '[{"frame":0,"id":1,"segmentation":{"size":[9,9],"counts":[', "0", ",81]}}]"),
    text("x.csv", "frame,x,y,w,h\n", lambda k: f"{k},0,0,9,9\n"),
    text("x.csv", "frame,x,y,w,h\n", "0,0,0,9,9\n"),
    text("x.csv", "frame,id,x,y,w,h\n", lambda k: f"0,{k},0,0,9,9\n"),
    listed("x.csv", "frame,x,y,w,h,", lambda k: f"c{k}", "\n"),
    text("x.txt", "", lambda k: f"1,{k},0,0,9,9\n"),
    text("x.txt", "", "1 "),
    text("x.jsonl", "", lambda k: f'{{"frame_index":{k},"results":[]}}\n'),
]
DOCUMENTS = [
    (
        "finding.json",
        lambda size: filled(
            '{"schema":"dejacue.finding/2","files":{',
            lambda k: f'"{k}":""',
            '},"timeline":{"history":"h","intervals":[]}}',
            size,
        ),
    ),
    (
        "finding.json",
        lambda size: filled(
            '{"schema":"dejacue.finding/2","files":{},"doubts":[',
            '[[0,1],""]',
            '],"timeline":{"history":"h","intervals":[]}}',
            size,
        ),
    ),
]


def read_masks(path: Path) -> None:
    masks = open_masks(path)
    from readers import FRAMES

    masks.ids()
    for frame in FRAMES[:1]:
        masks.unions(frame, [None])
    masks.check_matched()


READERS: dict[str, tuple[Callable[[Path], object], list[Any]]] = {
    "references": (lambda path: read_references(path, times=clock()), REFERENCES),
    "timelines": (read_timelines, TIMELINES),
    "vocabulary": (read_vocabulary, VOCABULARIES),
    "annotation": (passes.read_pass, PASSES),
    "manifest": (read_manifest, MANIFESTS),
    "masks": (read_masks, MASKS),
    "finding": (lambda path: read_document(path.parent), DOCUMENTS),
}


def unfold(what: str, rng: Random, valid: Path, folder: Path) -> None:
    read, shapes = READERS[what]
    name, make = rng.choice(shapes)
    path = folder / name
    path.write_bytes(make(round(2 ** rng.uniform(14, FILE_BYTES.bit_length() - 1))))
    with bounded():
        read(path)


TARGETS = [
    Target(f"size-{what}", 1, lambda folder: None, partial(unfold, what)) for what in READERS
]


def measure_all(targets: Sequence[str] = ()) -> int:
    """Read every shape of the targets (all by default) at its full size, and print the most that
    one took; return 1 if one is over a bound."""
    costs: list[tuple[Cost, str]] = []
    for what, (read, shapes) in READERS.items():
        if targets and f"size-{what}" not in targets:
            continue
        for at, (name, make) in enumerate(shapes):
            with tempfile.TemporaryDirectory() as place:
                path = Path(place, name)
                path.write_bytes(make(FILE_BYTES))
                with contextlib.suppress(DejaCueError), Cost() as cost:
                    read(path)
            costs.append((cost, f"{what} {at}, {name}"))
    slowest = max(costs, key=lambda item: item[0].cpu_s)
    largest = max(costs, key=lambda item: item[0].peak)
    over = [text for cost, text in costs if cost.cpu_s >= MAX_CPU_S or cost.peak >= MAX_BYTES]
    print(
        f"{len(costs)} shapes of {FILE_BYTES >> 20} MB: at most {slowest[0].cpu_s:.1f} s of the "
        f"processor ({slowest[1]}) and {largest[0].peak >> 20} MB ({largest[1]}); "
        f"{len(over)} over {MAX_CPU_S} s or {MAX_BYTES >> 20} MB"
    )
    print(*over, sep="\n", end="\n" if over else "")
    return int(bool(over))
