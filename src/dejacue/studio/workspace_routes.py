"""The workspace as a whole, its vocabularies, and the session of whoever asks."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import Field

from dejacue._version import __version__
from dejacue.errors import InputError
from dejacue.method.coordinates import COORDINATES
from dejacue.method.plan import PRESETS, READOUTS
from dejacue.records import Vocabulary
from dejacue.report.exports import EXPORTS
from dejacue.sources.atomic import write_text
from dejacue.sources.encoders import BUILT_IN, EXAMPLES, SIZES
from dejacue.sources.files import read_vocabulary, vocabulary_yaml
from dejacue.sources.tracks import default_tracker
from dejacue.sources.tracks.sam2.loading import REPOSITORIES
from dejacue.studio.models import PROBLEMS, Asked, Id, Object, Own, Text, Who, owner_only
from dejacue.studio.workspace import WORDS

router = APIRouter(tags=["workspace"], responses=PROBLEMS)
Owner = Depends(owner_only)


class States(Asked):
    """A vocabulary, as in its file."""

    object: Text | None = None
    states: Annotated[
        dict[Text, Annotated[list[Text], Field(min_length=1, max_length=100)]],
        Field(min_length=2, max_length=50),
    ]


@router.get("/api/workspace")
def workspace(studio: Own, who: Who) -> Object:
    """The contents of the folder, and what this studio can do."""
    found = studio.workspace.contents()
    blind = who.annotator is not None
    return {
        "name": studio.workspace.name,
        "version": __version__,
        "annotator": who.annotator,
        "owner": who.owner,
        "opened": studio.opened,
        "whole": found.whole,
        "videos": found.videos,
        "findings": [] if blind else found.findings,
        "vocabularies": [] if blind else found.vocabularies,
        "references": [] if blind else found.references,
        "encoder": studio.encoder_name or "siglip2",
        "tracker": studio.tracker_name or default_tracker(),
        "encoders": [*BUILT_IN, *SIZES, *EXAMPLES],
        "trackers": ["box", *REPOSITORIES],
        "readouts": [*READOUTS, *PRESETS],
        "coordinates": list(COORDINATES),
        "exports": list(EXPORTS),
    }


@router.get("/api/vocabularies", dependencies=[Owner])
def list_vocabularies(studio: Own) -> list[Object]:
    """The word lists of the workspace."""
    return [{"id": id} for id in studio.workspace.contents().vocabularies]


@router.get("/api/vocabularies/{id:path}", dependencies=[Owner])
def read_words(id: Id, studio: Own) -> Object:
    """The states and descriptions of a word list."""
    path = studio.workspace.existing(id, "vocabulary")
    if path.suffix.lower() not in WORDS:
        raise InputError(f'"{id}" is not a word list; word lists end in .yaml')
    found = read_vocabulary(path)
    states = {state: list(texts) for state, texts in found.states.items()}
    return {"id": id, "object": found.object, "states": states}


@router.put("/api/vocabularies/{id:path}", dependencies=[Owner])
def write_words(id: Id, given: States, studio: Own) -> Object:
    """Writes a word list (.yaml), as ``dejacue find --vocabulary`` reads it."""
    path = studio.workspace.place(id)
    if path.suffix.lower() not in WORDS:
        raise InputError(f'"{id}": a word list ends in .yaml')
    Vocabulary(given.states, object=given.object)  # what is wrong is said before it is written
    text = vocabulary_yaml(given.states, given.object)
    with studio.writing:
        write_text(path, text)
        studio.workspace.changed()
    return {"id": id}
