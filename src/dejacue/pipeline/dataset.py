"""evaluate_dataset: from the folder of a data set to what readouts are worth on it.

clips with words and true windows ──▶ ingest ──▶ store ──▶ locate_many by each readout ──▶ evaluate
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from fnmatch import fnmatchcase
from typing import Any

from dejacue.data.layouts import Clip, Dataset, clip_rows, open_dataset
from dejacue.errors import InputError, unknown
from dejacue.evaluation.evaluate import Evaluation, evaluate
from dejacue.method.locate import locate_many
from dejacue.method.plan import Plan
from dejacue.method.view import Readout
from dejacue.pipeline._read import Words
from dejacue.pipeline.ingest import Ingested, ingest
from dejacue.pipeline.ingest.writer import check_encoder_of, encoder_of
from dejacue.pipeline.options import EncoderOptions
from dejacue.progress import Progress, default_progress
from dejacue.records import Timeline, Vocabulary
from dejacue.sources.encoders import Encoder
from dejacue.store import Store

Place = str | os.PathLike[str]
READOUTS = ("contrast", "published", "whole-history", "longest-run")


@dataclass(frozen=True, eq=False)
class Measured:
    """What ``evaluate_dataset`` gives back.

    evaluation   of the readouts, each compared with the first
    timelines    readout → the timeline of each clip
    ingested     what became of the videos
    left_out     clip → why it does not count
    warnings     what a reader should know of the words
    """

    dataset: Dataset
    encoder: str
    evaluation: Evaluation
    timelines: Mapping[str, Sequence[Timeline]]
    ingested: Ingested
    left_out: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    def by(self, name: str) -> dict[str, Evaluation]:
        """The same for the clips of each split, category, object …, by its value."""
        check_name(name, self.dataset)
        groups: dict[str, list[str]] = {}
        for clip in self.dataset.clips:
            if clip.id not in self.left_out and name in (known := _names(clip)):
                groups.setdefault(known[name], []).append(clip.id)
        references = {own.history_id: own for own in self.dataset.references}
        return {
            value: evaluate(
                {
                    readout: [own for own in found if own.history_id in ids]
                    for readout, found in self.timelines.items()
                },
                [references[id] for id in ids],
                only_common=True,
                compared=False,
            )
            for value, ids in sorted(groups.items())
        }

    def to_dict(self) -> dict[str, Any]:
        """The evaluation, and what of."""
        return {
            **self.evaluation.to_dict(),
            "layout": self.dataset.layout,
            "folder": str(self.dataset.folder),
            "encoder": self.encoder,
            "clips_left_out": dict(self.left_out),
            "warnings": list(self.warnings),
        }


def evaluate_dataset(
    dataset: Dataset | Place,
    store: Place,
    *,
    layout: str | None = None,
    readouts: Mapping[str, str | Readout] | Sequence[str] = READOUTS,
    encoder: Encoder | str | None = None,
    masks: Place | None = None,
    where: Mapping[str, str] | None = None,
    workers: int | None = None,
    replace: bool = False,
    encoder_options: EncoderOptions | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Encodes the clips of a data set into a store and scores readouts by its true windows.

    dataset    what ``open_dataset`` gives, or the folder; layout: its own, where it may be several
    store      where histories go; made if it is not there. What it has is not made again, so the
               same call goes on where another was stopped
    readouts   names, or name → readout; every later one is compared with the first
    encoder    a name or an Encoder (None: that of the store, or siglip2)
    masks      a folder of masks or boxes of one's own (docs/data.md)
    where      only these clips: {"split": "val", "id": "*_peel_*"}
    replace    histories of the same id that were made of something else; they fail otherwise

    Clips without video, masks, words or true windows, and those that cannot be encoded, are listed
    in ``left_out``; it is an error where none remains.
    """
    told = progress or default_progress()
    if not isinstance(dataset, Dataset):
        dataset = open_dataset(dataset, layout, progress=told)
    chosen = _readouts(readouts)
    dataset = changed(dataset, clips=tuple(_wanted(dataset, where)))
    left_out = _not_asked(dataset)
    rows, without = clip_rows(_rest(dataset, left_out), masks)
    left_out |= without
    usable = _rest(dataset, left_out)
    options = encoder_options or EncoderOptions()
    model = options.load(encoder or _usual(store))
    _check_store(store, model)
    words, warnings = _words(usable, model, options, left_out)
    _rest(dataset, left_out)
    made = ingest(
        [row for row in rows if row["id"] in words],
        store,
        encoder=model,
        workers=workers,
        replace=replace,
        encoder_options=options,
        progress=told,
    )
    left_out |= {own.id: own.what for own in made.failed}
    clips = _rest(dataset, left_out)
    found: dict[str, list[Timeline]] = {}
    with Store.open(store) as there:
        for done, (name, readout) in enumerate(chosen.items(), 1):
            histories = (there[clip.id] for clip in clips)
            vocabularies = (words[clip.id] for clip in clips)
            found[name] = list(locate_many(histories, vocabularies, readout=readout))
            told("read", done, len(chosen), name)
    references = clips.references
    several = len({own.component for own in references}) > 1
    measured = evaluate(found, references, only_common=True, compared=several)
    return Measured(dataset, model.identity, measured, found, made, left_out, warnings)


def _readouts(given: Mapping[str, str | Readout] | Sequence[str]) -> dict[str, str | Readout]:
    if isinstance(given, str):
        given = [given]
    chosen: dict[str, str | Readout] = {}
    chosen |= given if isinstance(given, Mapping) else {name: name for name in given}
    if not chosen:
        raise InputError("no readout is given; give at least one")
    for readout in chosen.values():
        Plan.of(None, readout, None, 1, False, "auto")  # refuses one that is not known
    return chosen


def _wanted(dataset: Dataset, where: Mapping[str, str] | None) -> list[Clip]:
    """Those that look as it says."""
    named = [_names(clip) for clip in dataset.clips]
    for name in where or {}:
        check_name(name, dataset)
    found = [
        clip
        for clip, own in zip(dataset.clips, named, strict=True)
        if all(fnmatchcase(own.get(name, ""), text) for name, text in (where or {}).items())
    ]
    if not found:
        raise InputError(f"{dataset.folder}: no clip matches where")
    return found


def check_name(name: str, dataset: Dataset) -> None:
    """Refuses what nothing is known by of its clips."""
    known = dict.fromkeys(own for clip in dataset for own in _names(clip))
    if name not in known:
        raise unknown("name", name, known)


def _names(clip: Clip) -> dict[str, str]:
    """What is known of a clip, as the manifest has it."""
    own = {"id": clip.id, "object": clip.object, "source": clip.component or clip.id, **clip.more}
    return {name: text for name, text in own.items() if text is not None}


def _not_asked(dataset: Dataset) -> dict[str, str]:
    found = {}
    for clip in dataset.clips:
        if not clip.states:
            found[clip.id] = "no true windows"
        elif clip.vocabulary is None:
            found[clip.id] = "no words for its states; add a list to vocabularies/ (docs/data.md)"
    return found


def _rest(dataset: Dataset, left_out: Mapping[str, str]) -> Dataset:
    """Without these; refused where that is nothing."""
    clips = tuple(own for own in dataset.clips if own.id not in left_out)
    if not clips:
        first, why = list(left_out.items())[-1]
        raise InputError(
            f'{dataset.folder}: nothing can be evaluated; for example, "{first}": {why}'
        )
    return changed(dataset, clips=clips)


def _usual(store: Place) -> str | None:
    """That of a store, or None for the default, whose weights may have to be fetched first."""
    if not Store.is_at(store):
        return None
    with Store.open(store) as there:
        return encoder_of(there)


def _check_store(store: Place, encoder: Encoder) -> None:
    if not Store.is_at(store):
        Store.check_new(store)
        return
    with Store.open(store) as there:
        check_encoder_of(there, encoder)


def _words(
    dataset: Dataset, encoder: Encoder, options: EncoderOptions, left_out: dict[str, str]
) -> tuple[dict[str, Vocabulary], tuple[str, ...]]:
    """Clip → its vocabulary with features, and warnings; a list that many share is encoded once.
    Clips whose words the encoder cannot read are added to ``left_out``."""
    made: dict[Any, Vocabulary | str] = {}
    found, warnings = {}, []
    for clip in dataset.clips:
        assert clip.vocabulary is not None
        key = tuple(clip.vocabulary.states.items())
        if key not in made:
            name = f'the words of "{clip.id}"'
            try:
                made[key], said = Words(clip.vocabulary, name, options).encoded(encoder)
                warnings += [f"{name}: {sentence}" for sentence in said]
            except InputError as error:
                made[key] = str(error)
        own = made[key]
        if isinstance(own, str):
            left_out[clip.id] = own
        else:
            found[clip.id] = own
    return found, tuple(warnings)
