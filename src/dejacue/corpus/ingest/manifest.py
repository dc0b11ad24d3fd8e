"""A manifest: which videos, masks and objects go into a store; a line each, CSV or JSONL."""

from __future__ import annotations

import contextlib
import csv
import difflib
import glob
import io
import json
import os
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec

from dejacue.errors import DejaCueError, InputError, SeveralProblems, StrPath, in_file, shortened
from dejacue.files import remote
from dejacue.files.documents import parse_json, read_text
from dejacue.finding.locate import way_of
from dejacue.finding.request import FindRequest, Lazy, Sampling, asked_fields, unwrapped
from dejacue.masks import MATCHES, check_kind
from dejacue.masks._masks import object_groups
from dejacue.models.detectors.base import check_names
from dejacue.models.trackers import Prompt
from dejacue.models.trackers.prompts import parse_prompts
from dejacue.records.history import COLUMNS, FRAME_STEP, LOOKED_AT, MEANINGLESS, PROBLEMS
from dejacue.video.video import ERRORS

MAX_MANIFEST_BYTES = 1 << 30
FRAMES = {  # the columns that say which frames are used, and their types
    name: text.written
    for name, text in asked_fields().items()
    if text.group == "Frames" and name != "sampling"
}
TYPES = {"whole": bool, **FRAMES}
TYPE_NAMES = {int: "a whole number", float: "a number", bool: "yes or no"}
ADDRESS = "address"  # in made_with: Item.address
KNOWN = (
    *("video", "masks", "fixed", "whole", "objects", "kind", "match", *FRAMES),
    *("id", "object", "source"),
)
CHOICES = {"match": MATCHES, "errors": ERRORS}
TAKEN = (  # in made_with
    "padding",
    "minimum",
    "backend",
    "precision",
    COLUMNS,
    FRAME_STEP,
    LOOKED_AT,
    PROBLEMS,
    MEANINGLESS,
    ADDRESS,
)
ELSEWHERE = {  # what find takes and a manifest does not
    "box": "a box that stays goes into the column fixed",
    **dict.fromkeys(("encoder", "detector", "tracker"), "one serves all lines"),
    **dict.fromkeys(("examples", "order", "exhaustive", "readout"), "states are read by a query"),
}
MIN_TYPO_RATIO = 0.85  # similarity of a column to a known one
MAX_LOOKUPS = 16  # of files at once
MAX_LOOKUP_PATHS = 256  # of a task: to start one costs more than to look at a local file
MAX_PATTERN_LETTERS = 1000
ALL_FRAMES = Sampling()
MAX_PROBLEMS = 1000  # that are collected


@dataclass(frozen=True, kw_only=True)
class Item:
    """A line of a manifest: a request, and what goes beside its histories in a store.

    id        of the history; those of several objects go on with -1, -2+3 …
    object    what it is (cup), by which it is found where nothing else says where it is; source:
              where it is from (default: the video)
    extra     the other columns
    known     made_with of those of its histories that are in the store
    address   of remote files: a digest of their listing and of how they are read
    replace   whether to replace histories that were made from other inputs
    """

    id: str
    request: FindRequest
    object: str | None = None
    source: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    replace: bool = False
    address: str | None = None

    @property
    def video(self) -> str:
        return str(self.request.video)

    @property
    def paths(self) -> list[str]:
        """Return the paths or addresses of its files."""
        masks, _ = unwrapped(self.request.masks)
        return [self.video] if masks is None else [self.video, str(masks)]

    def moved(self, move: Callable[[str], str]) -> Item:
        """Return the item with other paths."""
        masks, options = unwrapped(self.request.masks)
        moved = None if masks is None else Lazy(move(str(masks)), options)
        return replace(self, request=replace(self.request, video=move(self.video), masks=moved))


def read_manifest(path: StrPath, root: StrPath | None = None) -> list[Item]:
    """Return the items of a .csv or .jsonl file; paths in it are relative to its folder.

    One that is fetched from a URL may only name what lies below its own address, or below ``root``.
    All problems, missing files included, are raised at once as SeveralProblems.
    """
    name = os.fspath(path)
    suffix = Path(name).suffix.lower()
    if suffix not in (".csv", ".jsonl"):
        remedy = "write one: names of columns (video,whole), then a line for each video (a.mp4,yes)"
        raise InputError(f"{name}: is no manifest (.csv or .jsonl); {remedy}")
    with remote.local_copy(name) as here:
        text = read_text(here, MAX_MANIFEST_BYTES)
    with in_file(name):
        rows = list(_csv_rows(text) if suffix == ".csv" else _json_rows(text))
    folder = name[: name.rfind("/") + 1]
    allowed = [folder, *([] if root is None else [os.fspath(root)])]
    return _items(name, rows, folder, allowed if remote.is_remote(name) else None)


def as_items(rows: Iterable[Mapping[str, Any]]) -> list[Item]:
    """Return the items of mappings; paths are relative to the current folder."""
    items: list[tuple[str, Any]] = []
    for at, row in enumerate(rows, 1):
        wrong = f"must be a mapping with a video, not {reprlib.repr(row)}"
        items.append((f"item {at}", dict(row) if isinstance(row, Mapping) else wrong))
    return _items("the manifest", items, "")


def _csv_rows(text: str) -> Iterator[tuple[str, Any]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = [column.strip() for column in next(reader)]
        for mark, name in ((";", "semicolons"), ("\t", "tabs")):
            if len(columns) == 1 and mark in columns[0]:
                problem = f"cells are separated by {name}"
                raise InputError(f"line 1: {problem}; save the file with commas instead")
        columns = list(map(_column, columns))
        times = Counter(columns)
        twice = sorted(name for name in times if times[name] > 1 or not name)
        if twice:
            raise InputError(f'line 1: the column "{twice[0]}" appears twice or has no name')
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            line = f"line {reader.line_num}"
            if len(cells) != len(columns):
                yield line, f"{len(cells)} cells for {len(columns)} columns"
            else:
                yield line, dict(zip(columns, cells, strict=True))
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: not CSV ({error})") from None


def _column(name: str) -> str:
    """Return the name of a column; known ones may be written in capitals."""
    return name.lower() if name.lower() in KNOWN else name


def _json_rows(text: str) -> Iterator[tuple[str, Any]]:
    wrong = 0
    for at, line in enumerate(text.splitlines(), 1):
        if line.strip() and wrong < MAX_PROBLEMS:
            try:
                row = parse_json(line)
                if isinstance(row, dict):
                    row = _with_columns(row)
            except InputError as error:
                row, wrong = str(error), wrong + 1
            yield (
                f"line {at}",
                row if isinstance(row, dict | str) else 'give an object, {"video": …, "masks": …}',
            )


def _with_columns(row: dict[str, Any]) -> dict[str, Any]:
    renamed = {_column(key): value for key, value in row.items()}
    if len(renamed) < len(row):
        twice = next(key for key in row if _column(key) != key and _column(key) in row)
        raise InputError(f'"{twice}" appears twice, in different case; keep one')
    return renamed


def _items(
    name: str, rows: list[tuple[str, Any]], folder: str, allowed: list[str] | None = None
) -> list[Item]:
    """Return the items; their paths lie below an allowed folder, unless all are allowed."""
    if not rows:
        raise InputError(f"{name}: lists no video; add a line for each")
    problems: list[str] = []
    names = dict.fromkeys(key for _, row in rows if isinstance(row, dict) for key in row)
    problems += filter(None, map(_column_problem, islice(names, MAX_PROBLEMS)))
    items: dict[str, tuple[str, Item]] = {}
    for where, row in rows:
        if len(problems) >= MAX_PROBLEMS:
            raise SeveralProblems(name, problems, complete=False)
        if isinstance(row, str):
            problems.append(f"{where}: {row}")
            continue
        item, wrong = _item(row, folder)
        problems += [f"{where}: {text}" for text in wrong]
        if item is not None:
            before, _ = items.setdefault(item.id, (where, item))
            if before != where:
                problems.append(
                    f'{where}: the id "{shortened(item.id)}" is also that of {before}; give '
                    "each its own in the column id"
                )
    paths = [(where, path) for where, item in items.values() for path in item.paths]
    outside = {
        (where, path): None
        for where, path in paths
        if allowed and not any(remote.is_below(path, place) for place in allowed)
    }
    problems += [
        f"{where}: {path} is not below {' or '.join(allowed or ())}, as it must be in a manifest "
        "that is fetched; name the folder that may be used as its root"
        for where, path in outside
    ]
    missing = _missing([place for place in paths if place not in outside])
    problems += islice(missing, max(1, MAX_PROBLEMS - len(problems)))
    if problems:
        raise SeveralProblems(name, problems, len(problems) < MAX_PROBLEMS)
    return [item for _, item in items.values()]


def column_is_taken(column: str) -> str:
    """Return the sentence that refuses a column named like a detail of histories."""
    return f'column "{column}": histories already have a field of this name; rename the column'


def _column_problem(column: str) -> str | None:
    if column in KNOWN:
        return None
    if column in TAKEN:
        return column_is_taken(column)
    if column in ELSEWHERE:
        return f'column "{column}": {ELSEWHERE[column]}; a note of your own needs another name'
    folded = column.strip().lower()
    near = difflib.get_close_matches(folded, KNOWN, 1, MIN_TYPO_RATIO) or [
        known for known in KNOWN if sorted(known) == sorted(folded)
    ]
    if not near:
        return None
    return f'column "{shortened(column)}": did you mean "{near[0]}"? If not, give it another name'


def _item(row: Mapping[str, Any], folder: str) -> tuple[Item | None, list[str]]:
    """Return an item, or None and what is wrong with the row."""
    wrong: list[str] = []

    def checked(read: Any, *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except InputError as error:
            wrong.append(str(error))

    cells = {key: value for key, value in row.items() if value not in (None, "")}
    values = {key: checked(_value, key, cells[key]) for key in cells}
    for key, known in CHOICES.items():
        if values.get(key) is not None and values[key] not in known:
            wrong.append(f'{key} "{shortened(values[key])}" is not one of {", ".join(known)}')
    checked(check_kind, values.get("kind"))
    video = _placed(values.get("video"), folder)
    if not video:
        wrong.append("has no video; put its path in the column video")
    sampling = checked(_sampling, values)
    request = checked(_request, video, values, folder, sampling)
    if wrong or not video:
        return None, wrong
    item = Item(
        id=values.get("id") or video_name(video),
        request=request,
        object=values.get("object"),
        source=values.get("source", str(row["video"])),
        extra={key: value for key, value in values.items() if key not in KNOWN},
    )
    return item, wrong


def _sampling(values: Mapping[str, Any]) -> Sampling:
    options = {key: values[key] for key in FRAMES if values.get(key) is not None}
    if not options:
        return ALL_FRAMES  # one, shared, because a manifest may have millions of lines
    return Sampling.between(options.pop("start", None), options.pop("end", None), **options)


def _request(
    video: str | None, values: Mapping[str, Any], folder: str, sampling: Sampling
) -> FindRequest:
    """Return what a row asks; an object of which nothing else is said is found by its name."""
    masks, fixed, name = values.get("masks"), values.get("fixed"), None
    whole = values.get("whole", False)  # None: what the cell says is refused already
    if not masks and not fixed and whole is False:
        if not values.get("object"):
            raise InputError(
                "does not say where the object is; give masks, a fixed box, whole, or its name in "
                "the column object, to find it"
            )
        name = check_names(values["object"])
    of_masks = {key: values[key] for key in ("kind", "match") if values.get(key)}
    request = FindRequest(
        video or "",
        masks=Lazy(str(_placed(masks, folder)), of_masks) if masks else None,
        objects=values.get("objects"),
        prompts=_boxes(fixed) if fixed else (),
        name=name,
        whole=bool(whole),
        fixed=bool(fixed),
        sampling=sampling,
    )
    way_of(**request.where)
    return request


def _boxes(text: str) -> list[Prompt]:
    try:
        return parse_prompts(text.split())
    except InputError:
        problem = f'fixed "{shortened(text)}": give x0,y0,x1,y1 in pixels, or several of these'
        remedy = "separate several with blanks, and add @FRAME to each"
        raise InputError(f"{problem}; {remedy}") from None


def _value(key: str, value: Any) -> Any:
    """Return the value of a cell, of the type that the request declares; others are texts."""
    if key == "objects":
        return _objects(value)
    type_ = TYPES.get(key, str)
    if type_ is str:
        return _text(key, value)
    if type_ is bool and isinstance(value, str):
        value = {"yes": True, "no": False}.get(value.strip().lower(), value)
    try:
        return msgspec.convert(value, type_, strict=False)
    except msgspec.ValidationError:
        text = shortened(str(value), 40)
        raise InputError(f'{key} "{text}" is not {TYPE_NAMES[type_]}') from None


def _text(key: str, value: Any) -> str:
    text = value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
        if "\0" in text:
            raise ValueError
    except ValueError:
        raise InputError(f"{key}: is not valid Unicode; give it another name") from None
    return text


def _objects(value: Any) -> tuple[int, ...] | tuple[tuple[int, ...], ...] | str | None:
    if value is None or value == "all":
        return value  # type: ignore[no-any-return]
    groups = tuple(map(tuple, object_groups(value)))
    return groups if len(groups) > 1 else groups[0]


def _placed(path: str | None, folder: str) -> str | None:
    """Return the path in a folder, which is empty or ends with a slash; both may be URLs."""
    if not path:
        return None
    return path if remote.is_remote(path) or os.path.isabs(path) else f"{folder}{path}"


def video_name(path: str) -> str:
    """Return the name that open_video gives: of a folder its name, of a file its stem, of a
    pattern of images that of their folder."""
    if remote.is_remote(path):
        return Path(path.rstrip("/")).stem
    place = os.path.abspath(path)
    folder, name = os.path.split(place)
    stem = Path(name).stem
    if glob.has_magic(path) and not os.path.exists(place):
        return os.path.basename(folder)
    # os.path.isdir is False where Path.is_dir raises, as for names that are too long
    return name if stem != name and os.path.isdir(place) else stem


def _missing(paths: list[tuple[str, str]]) -> Iterator[str]:
    """Yield a sentence for each missing file, on this machine or elsewhere."""

    def look(place: tuple[str, str]) -> str | None:
        where, path = place
        if remote.is_remote(path):
            try:
                return None if remote.is_there(path) else f"{where}: {path} does not exist"
            except DejaCueError as error:
                return f"{where}: {error}"
        pattern = len(path) < MAX_PATTERN_LETTERS and glob.has_magic(path)  # their square, in glob
        exists = os.path.exists(path) or (pattern and next(glob.iglob(path), None))
        return None if exists else f"{where}: {path} does not exist"

    def look_at_all(places: list[tuple[str, str]]) -> list[str]:
        return list(filter(None, map(look, places)))

    size = min(MAX_LOOKUP_PATHS, len(paths) // (4 * MAX_LOOKUPS) + 1)
    parts = [paths[at : at + size] for at in range(0, len(paths), size)]
    seen: set[str] = set()
    with ThreadPoolExecutor(MAX_LOOKUPS) as pool:
        for problem in chain.from_iterable(pool.map(look_at_all, parts)):
            if problem not in seen:
                seen.add(problem)
                yield problem


@contextlib.contextmanager
def fetched(item: Item) -> Iterator[Item]:
    """Yield the item with its files on this machine, as long as the block runs."""
    with contextlib.ExitStack() as stack:
        yield item.moved(lambda path: stack.enter_context(remote.local_copy(path)))
