"""Apply what a person confirmed in findings to other videos; list the answers, the least sure
first."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query

from dejacue.corpus import Store
from dejacue.errors import Cancelled, DejaCueError, InputError, one_line
from dejacue.files.findings import Provenance, read_document
from dejacue.files.histories import file_name, read_vocabulary
from dejacue.finding._find import findings_of, read_again, saved_finding
from dejacue.finding.by_name import read_search
from dejacue.finding.finding import Finding
from dejacue.finding.request import FindRequest
from dejacue.masks import sees_whole_picture
from dejacue.method.readout import Readout
from dejacue.method.teaching import taught
from dejacue.progress import Progress, silent
from dejacue.records import Vocabulary
from dejacue.studio.errors import NEW
from dejacue.studio.findings import APPLIED, finding_row, objects_of
from dejacue.studio.jobs import TaskProgress, Work
from dejacue.studio.models import Id, Json, Place, StudioDep
from dejacue.studio.state import Studio

router = APIRouter(tags=["teaching"])
MIN_STATES = 2  # with confirmed frames, in a teacher


@dataclass(frozen=True, eq=False)
class Teachers:
    """Findings in which a person confirmed states, the words of the first one, and how it was
    read."""

    findings: Sequence[Finding]
    words: Vocabulary
    readout: Readout

    def search(self, source: Any, **fields: Any) -> Finding:
        """Return what they tell of a video or a history; the finding is not written.

        fields   further ones of the request
        """
        request = FindRequest(
            source, self.words, like=self.findings, readout=self.readout, **fields
        )
        saved = saved_finding(source)
        if saved is not None:
            return read_again(saved, request)
        (finding,) = findings_of(request, single=True)
        return finding


class Target(NamedTuple):
    """A video or history that teachers are applied to; find: returns its finding and how the object
    in it is known."""

    name: str
    finding: str  # the id that its finding gets
    find: Callable[[Progress], tuple[Finding, str]]


def confirmed_teachers(studio: Studio, ids: Sequence[str]) -> Teachers:
    """Return findings as teachers; refuse one in which fewer than two states are confirmed, those
    of several encoders, and those without common states."""
    findings = [studio.finding(id) for id in dict.fromkeys(ids)]
    first = findings[0]
    words = first.vocabulary
    if words.features is not None:
        words = replace(words, examples=(), changes=())
        taught(words, findings)
    else:  # the teachers alone show the states
        bare = taught(None, findings)
        words = replace(bare, object=words.object, exhaustive=words.exhaustive)
    return Teachers(findings, words, first.readout)


def apply_to_videos(
    studio: Studio, teachers: Teachers, folder: str, videos: Sequence[str] | None
) -> Work:
    """Return the work of a job that makes a finding of each video; those of the teachers are left
    out."""
    first, known = teachers.findings[0], {studio.video_of(t.provenance) for t in teachers.findings}
    listed = studio.workspace.contents().videos if videos is None else dict.fromkeys(videos)
    chosen = [id for id in listed if id not in known]
    if not chosen:
        problem = "there is no other video to apply this to"
        raise InputError(f"{problem}; copy some into the workspace, or choose a store")
    for id in chosen if videos is not None else ():
        studio.workspace.video(id)

    def target(id: str, name: str) -> Target:
        finding = f"{folder}/{name}"

        def find(progress: Progress) -> tuple[Finding, str]:
            path, place = studio.workspace.video(id), studio.output_folder(finding)
            FindRequest(path).opened()  # a video that cannot be read says so first
            text, fields = _known_object(studio, first, id, finding)
            answer = teachers.search(
                path,
                encoder=studio.encoder_of(first.history),
                folder=place,
                progress=progress,
                **fields,
            )
            return answer, text

        return Target(id, finding, find)

    stems = [os.path.splitext(id)[0] for id in chosen]  # a finding has that of its video, if it can
    counts = Counter(stems)
    targets = [
        target(id, stem if counts[stem] == 1 else id)
        for id, stem in zip(chosen, stems, strict=True)
    ]

    def work(progress: TaskProgress) -> None:
        studio.encoder_of(first.history)  # without its weights, no video is begun
        _apply(studio, targets, progress)

    return work


def apply_to_store(studio: Studio, teachers: Teachers, folder: str, store: str, count: int) -> Work:
    """Return the work of a job that makes findings of the histories that look most like the objects
    of the teachers."""
    path = studio.workspace.existing(store, "store")
    if not Store.is_at(path):
        raise InputError(f'"{store}" contains no store')
    with Store.open(path) as opened:
        opened.query(teachers.words, like=teachers.findings, top=1)  # refuses another encoder

    def target(opened: Store, id: str) -> Target:
        def find(progress: Progress) -> tuple[Finding, str]:
            finding = teachers.search(opened[id], progress=silent)
            source = opened.labels(id)["source"]
            video = studio.video_of(Provenance(video=source))
            provenance = finding.provenance
            if video is not None:
                provenance = replace(provenance, video=str(studio.workspace.root / video))
            return replace(finding, provenance=provenance), f"a history of {store}"

        return Target(id, f"{folder}/{file_name(id)}", find)

    def work(progress: TaskProgress) -> None:
        with Store.open(path) as opened:
            matches = opened.query(teachers.words, like=teachers.findings, top=count)
            ids = dict.fromkeys(match.history for match in matches)
            _apply(studio, [target(opened, id) for id in ids], progress)

    return work


def _apply(studio: Studio, targets: Sequence[Target], progress: TaskProgress) -> None:
    """Make and write the finding of each target; what is wrong with one is a sentence, and the
    others follow."""
    for number, target in enumerate(targets, 1):
        at = f"{number} of {len(targets)}, {target.name}"

        def report(
            stage: str, done: int, total: int | None = None, note: str = "", at: str = at
        ) -> None:
            progress(f"{at}: {stage}", done, total)

        row: Json = {"name": target.name, "finding": None, "object": None, "problem": None}
        report("open", 0)
        try:
            row["object"] = _find_and_write(studio, target, report)
            row["finding"] = target.finding
        except Cancelled:
            raise
        except (DejaCueError, OSError) as error:
            sentence = one_line(studio.workspace.as_ids(str(error)))
            row["problem"] = sentence.removeprefix(f"{target.name}: ")
        progress.add_row(row)


def _find_and_write(studio: Studio, target: Target, progress: Progress) -> str | None:
    """Return how the object is known; None: a person has named frames in its finding or saved it,
    and it stays."""
    folder = studio.workspace.place(target.finding)
    before = studio.revision(folder)
    if before != NEW:
        known = studio.finding(target.finding)
        if known.named or APPLIED not in known.provenance.options:
            return None
    finding, text = target.find(progress)
    options = {**finding.provenance.options, APPLIED: "true"}
    finding = replace(finding, provenance=replace(finding.provenance, options=options))
    with studio.saving:
        if studio.revision(folder) != before:
            return None  # a person has saved it since
        finding.save(folder)
    studio.workspace.changed()
    return text


def _known_object(studio: Studio, teacher: Finding, id: str, finding: str) -> tuple[str, Json]:
    """Return where the object of a video is, in words and as fields of a request: as in the teacher
    the whole picture; else as in a finding of this video, in masks that lie beside it as the
    teacher's do, or by the name that the teacher's was found by. Refuse a video of which nothing is
    known.

    finding   the id of the one that is made, which knows best where it was before
    """
    if sees_whole_picture(teacher.history):
        return "the whole picture", {"whole": True}
    for known_id in _findings_of(studio, teacher, id, finding):
        known = studio.finding(known_id)
        masks = studio.masks_path(known)
        if masks is not None and not sees_whole_picture(known.history):
            text = "as before" if known_id == finding else f"the object of {known_id}"
            return text, {"masks": masks, "objects": objects_of(known)}
    path, of_teacher = studio.workspace.video(id), studio.masks_path(teacher)
    if of_teacher is not None and (masks := _masks_beside(studio, teacher, of_teacher, path)):
        text = f"masks in {studio.workspace.id_of(masks)}"
        return text, {"masks": masks, "objects": objects_of(teacher)}
    search = None if of_teacher is None else read_search(of_teacher)
    if search is not None and search.names:
        models = {"detector": studio.detector(), "tracker": studio.tracker()}
        text = f"found by name: {', '.join(search.names)}"
        return text, {"name": search.names, **models}
    raise InputError(
        f"{path}: nobody has said where the object is in it; "
        "open it, draw a box around the object or find it by its name, and apply again"
    )


def _findings_of(studio: Studio, teacher: Finding, video: str, first: str) -> list[str]:
    """Return the findings of a video: ``first``, those of an object of the same name, others."""
    ids = [
        id
        for id in studio.workspace.contents().findings
        if studio.video_of(studio.provenance(id)) == video
    ]
    name = teacher.vocabulary.object

    def order(id: str) -> tuple[bool, bool]:
        return id != first, name is None or finding_row(studio, id)["object"] != name

    return sorted(ids, key=order)


def _masks_beside(studio: Studio, teacher: Finding, masks: Path, path: Path) -> Path | None:
    """Return the masks that lie beside a video as those of the teacher lie beside its video: in a
    place that has the name of the video, or in its folder if that has no other video."""
    video = studio.video_of(teacher.provenance)
    if video is None:
        return None
    before = studio.workspace.root / video
    name, new_name = (p.stem if p.is_file() else p.name for p in (before, path))
    parts = Path(os.path.relpath(masks, before.parent)).parts
    renamed = [new_name + part[len(name) :] if part.startswith(name) else part for part in parts]
    place = Path(os.path.normpath(path.parent.joinpath(*renamed)))
    ids = studio.workspace.contents().videos
    alone = sum((studio.workspace.root / id).parent == path.parent for id in ids) == 1
    is_of_video = alone or renamed != list(parts)
    inside = place.exists() and studio.workspace.id_of(place) is not None
    return place if is_of_video and inside and place != masks else None


@router.get("/api/teaching/{id:path}")
def teaching(id: Id, studio: StudioDep, folder: Annotated[Place | None, Query()] = None) -> Json:
    """Return the states that are confirmed in a finding, which findings can teach with it, and
    those below a folder, the least sure first. Confirmed ones come last."""
    ids, encoder = studio.workspace.contents().findings, finding_row(studio, id)["encoder"]
    confirmed = {known: studio.summary(known, _read_confirmed) for known in (*ids, id)}
    teachers = [
        {"id": known, "confirmed": states}
        for known, states in confirmed.items()
        if len(states) >= MIN_STATES and finding_row(studio, known)["encoder"] == encoder
    ]
    rows = [
        finding_row(studio, below) | {"confirmed": confirmed[below]}
        for below in ids
        if folder is not None and below.startswith(f"{folder}/")
    ]
    rows.sort(key=_by_trust)
    return {"id": id, "confirmed": confirmed[id], "teachers": teachers, "rows": rows}


def _by_trust(row: Json) -> tuple[bool, bool, float]:
    is_confirmed, least = len(row["confirmed"]) >= MIN_STATES, row["confidence"]
    return is_confirmed, row["trust"] == "confirmed", -math.inf if least is None else least


def _read_confirmed(folder: Path) -> list[str]:
    """Return the states that a person has confirmed in a finding; only one in which frames are
    named is read as a whole."""
    try:
        words = read_document(folder).files.get("vocabulary", "")
        if not read_vocabulary(folder / words).frame_examples:
            return []
        return list(Finding.read(folder).confirmed)
    except (InputError, OSError):
        return []  # its row says what is wrong with it
