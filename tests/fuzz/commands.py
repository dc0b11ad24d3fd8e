"""The command line: every option of every command that takes milliseconds, with any value."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import matplotlib
import mutate
import readers
from readers import Target

from dejacue import Store
from dejacue.cli import main, options, readouts
from dejacue.cli.annotate import _frames
from dejacue.files import write_history, write_vocabulary
from dejacue.sources.masks._masks import object_groups
from dejacue.sources.tracks.prompts import TypedPrompts, parse_prompts

LONG = ("demo", "reproduce", "fetch", "studio")  # they compute long, download, or serve
HISTORIES, VIDEOS = ["x.npz", "finding", "x.npz"], ["clip.mkv", "images", "images/*.png"]
HISTORY_ID = readers.scene().history.id
LIKELY: dict[str, list[str]] = {
    "source": [*HISTORIES, *HISTORIES, *VIDEOS],
    "video": VIDEOS,
    "history": ["x.npz"],
    "vocabulary": ["words.npz", "words.npz", "words.yaml"],
    "masks": ["masks.csv"],
    "output": ["out", "out.json", "out.csv", "out.npz", "a/b.vtt", "x.npz", "finding", "."],
    "encoder": ["mini"],
    "tracker": ["still"],
    "box": ["4,4,30,30", "2:4,4,30,30@2"],
    "point": ["9,9"],
    "mask": ["mask.png"],
    "add": ["1:9,9,20,20@3"],
    "objects": ["1", "1,2", "all"],
    "readout": ["contrast", "joint", "published", "scan", "peak", "boxcar", "non-overlap"],
    "coordinates": ["absolute", "dual", "vocabulary", "trajectory"],
    "top": ["1", "3", "1000000"],
    "smoothing": ["3", "0.8s", "1e300s"],
    "durations": ["5,10", "generated", "published"],
    "example": ["a=1", "b=3-4", "none=2", "a=0.2s", "b=mask.png", "a=x.npz@1"],
    "change": ["2", "0.3s"],
    "mark": ["a=1", "b=3-4", "none=2", "a=0.2s"],
    "like": ["finding", "x.npz"],
    "object_name": ["cup"],
    "stream": ["0", "1"],
    "device": ["cpu"],
    "at": ["1", "0.2s"],
    "store": ["store", "new"],
    "times": ["x.npz", "clip.mkv"],
    "questions": ["1", "3"],
    "delay": ["0.2"],
    "horizon": ["1"],
    "order": ["a,b"],
    "stay": ["1", "5"],
    "norm": ["sqrt", "mean"],
    "runs": ["strict", "bridged"],
    "bridge": ["auto", "3"],
    "format": ["json", "csv", "table"],
    "kernel": ["numpy", "baseline"],
    "files": ["found.json", "truth.json", "one.json", "x.npz", "finding"],
    "path": ["store", "store", "store", "new", "finding"],
    "ids": [HISTORY_ID],
    "dtype": ["float32"],
    "where": ["id=*", "source=k*", "object=cup"],
    "threads": ["1", "2"],
    "references": ["truth.json"],
    "states": ["a,b", "a", "none"],
    "first": ["one.json"],
    "second": ["other.json"],
    "decisions": ["decisions.json"],
    "start": ["0", "1", "0.1s", "0:00.2"],
    "end": ["3", "0.4s"],
    "stride": ["1", "2"],
    "frames": ["0:9"],
    "id": ["h", HISTORY_ID],
    "annotator": ["ann"],
    "group": ["vost"],
    "plot": ["out.png"],
    "fps": ["5", "1e-9"],
    "rate": ["10"],
    "match": ["auto", "stem", "index"],
    "kind": ["boxes", "npz", "parquet"],
    "errors": ["skip", "fail"],
    "pooling": ["0.5"],
    "templates": ["raw", "ensemble"],
}
SETTINGS = ("kind", "match", "rate", "errors", "templates", "coordinates", "kernel", "smoothing")
SETTINGS += ("pooling", "bridge", "order", "stay", "durations", "norm", "runs", "precision")
FIXED = ("encoder", "tracker", "vocabulary")  # given more often: the defaults need models
RARE = ("plot", "cut")  # they draw and encode, which takes longer


def alone(place: Path) -> None:
    """Hide models, data, settings and temporary files of whoever runs this."""
    os.environ["TMPDIR"] = tempfile.tempdir = str(place)
    os.environ["MPLCONFIGDIR"] = matplotlib.get_cachedir()  # its fonts take long to list
    for name in ("HOME", "XDG_CACHE_HOME", "HF_HOME", "DEJACUE_DATA"):
        os.environ[name] = str(place / "home")
    os.environ |= {"HF_HUB_OFFLINE": "1", "COLUMNS": "100", "TERM": "dumb", "OMP_NUM_THREADS": "1"}


def files(folder: Path) -> None:
    scene = readers.scene()
    write_history(folder / "x.npz", scene.history)
    write_vocabulary(folder / "words.npz", scene.vocabulary)
    with Store.create(folder / "store") as store:
        store.add([scene.history, replace(scene.history, id="other")], object="cup", source="k.mp4")
    (folder / "words.yaml").write_text("a: a full cup\nb: an empty cup\n")
    for name in ("finding", "images"):
        (folder / name).mkdir()
    readers.finding(folder / "finding")
    readers.images(folder / "images")
    shutil.copy2(folder / "images" / "1.png", folder / "mask.png")
    readers.small_video(folder / "clip.mkv")
    rows = [f"{k},4,5,20,22" for k in range(readers.COUNT)]
    (folder / "masks.csv").write_text("\n".join(["frame,x,y,w,h", *rows]) + "\n")
    readers.two_passes(folder)
    readers.timelines(folder, ".json")
    (folder / "x.json").rename(folder / "found.json")
    readers.references(folder, ".json")
    (folder / "x.json").rename(folder / "truth.json")


@cache
def known_commands() -> list[tuple[tuple[str, ...], list[Any]]]:
    """Return the words that name each command, and its parameters."""
    from typer.main import get_command

    from dejacue.cli.app import app

    leaves: list[tuple[tuple[str, ...], list[Any]]] = []

    def walk(command: Any, words: tuple[str, ...]) -> None:
        if words[-1:] and words[-1] in LONG:
            return
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*words, name))
        if not hasattr(command, "commands"):
            leaves.append((words, command.params))

    walk(get_command(app), ())
    return leaves


def typed(rng: Random, name: str) -> str:
    if name == "settings":
        key = rng.choice(SETTINGS)
        return f"{key}={typed(rng, key)}"
    likely = LIKELY.get(name)
    if likely and rng.random() < 0.75:
        return rng.choice(likely)
    return mutate.word(rng).replace("\0", "")


def line(rng: Random) -> list[str]:
    """Return the words of a command with some of its options."""
    words, parameters = rng.choice(known_commands())
    arguments = list(words)
    usual = rng.choice((0.03, 0.1, 0.4))
    for parameter in parameters:
        flag = getattr(parameter, "is_flag", False)
        if parameter.param_type_name == "argument":
            often = 0.97 if parameter.required else 0.5
        elif parameter.required or parameter.name in FIXED:
            often = 0.95
        else:
            often = 0.01 if parameter.name in RARE else usual
        if rng.random() > often or parameter.name == "help":
            continue
        for _ in range(rng.choice((1, 1, 2)) if parameter.multiple or parameter.nargs == -1 else 1):
            names = [] if parameter.param_type_name == "argument" else [rng.choice(parameter.opts)]
            arguments += names if flag else [*names, typed(rng, parameter.name)]
    return arguments


def command(rng: Random, valid: Path, folder: Path) -> None:
    shutil.copytree(valid, folder, dirs_exist_ok=True)
    arguments = line(rng)
    (folder / "command.txt").write_text(repr(arguments))
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["dejacue", *arguments]
    code: Any = 0
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("default")  # the command line shows them
            main()
    except SystemExit as leaving:
        code = leaving.code or 0
    finally:
        sys.argv = before
    assert code in (0, 1, 2, 3), f"exit code {code}"
    assert "Traceback" not in err.getvalue()
    messages = [text for text in err.getvalue().splitlines() if text.startswith("dejacue: ")]
    assert code != 1 or messages, f"exit code 1 without a word: {err.getvalue()[-300:]!r}"
    assert max(map(len, messages), default=0) < 2000, f"a long message: {messages[-1][:300]}"


def texts(rng: Random, valid: Path, folder: Path) -> None:
    """Parse what is typed as one option, without the command around it."""
    kind = rng.randrange(6)
    if kind == 0:
        options.sampling(typed(rng, "start"), typed(rng, "end"), stride=1)
    elif kind == 1:
        object_groups(typed(rng, "objects"))
    elif kind == 2:
        names = ("smoothing", "durations", "order", "bridge", "norm", "runs", "stay", "pooling")
        chosen = {name: typed(rng, name) for name in rng.sample(names, rng.randint(1, 2))}
        readouts.readout_from(typed(rng, "readout"), chosen)
    elif kind == 3:
        prompts = {
            name: (typed(rng, key),)
            for name, key in (
                ("boxes", "box"),
                ("points", "point"),
                ("masks", "mask"),
                ("adds", "add"),
            )
            if rng.random() < 0.5
        }
        parse_prompts(TypedPrompts(at=rng.choice((None, 0, -1, 10**12)), **prompts))
    elif kind == 4:
        _frames(typed(rng, "frames"))
    else:
        paths = [Path(typed(rng, "video")) for _ in range(rng.randint(1, 3))]
        options.single_path(paths[0], [str(path) for path in paths[1:]])


TARGETS = [
    Target("command", 30, files, command),
    Target("text", 150, lambda folder: None, texts),
]
