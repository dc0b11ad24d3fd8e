"""``dejacue demo``."""

from __future__ import annotations

import shutil
from pathlib import Path

from dejacue.cli.locate import Wanted
from dejacue.cli.locate import run as locate
from dejacue.cli.tables import say
from dejacue.data.rendered import render, write_scene
from dejacue.pipeline import Job, Search
from dejacue.sources.atomic import check_place


def run(output: Path, seed: int) -> None:
    """A rendered cup: video and masks → history → windows → report, with the truth beside it."""
    check_place(output, folder=True)
    scene = output / "scene"
    shutil.rmtree(scene, ignore_errors=True)
    write_scene(scene, render(seed, family="cup", topology="three", hand=0.3, exits=1))
    video, masks, words = scene / "scene.mp4", scene / "Annotations", scene / "vocabulary.yaml"
    truth = scene / "references.json"
    job = Job(video=video, masks=masks, objects=[1], encoder="mini")
    locate(video, Search(video, words, job), Wanted(output=output, references=truth))
    again = (
        f"dejacue locate {video} --masks {masks} --object 1 --vocabulary {words} --encoder mini "
        f"--references {truth} --output {output}"
    )
    measure = f"dejacue evaluate {output / 'timeline.json'} {truth}"
    for what, command in (("again", again), ("measure", measure)):
        say(f"{what}: {command}")
