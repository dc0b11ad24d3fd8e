"""evaluate_dataset: from the folder of a data set to the scores of readouts on it.

clips with words and true windows ──▶ ingest ──▶ store ──▶ locate_many by each readout ──▶ evaluate
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from fnmatch import fnmatchcase
from typing import Any

from dejacue.corpus import Store
from dejacue.corpus.ingest import ingest
from dejacue.corpus.ingest.writer import Ingested, check_encoder_of, encoder_of
from dejacue.errors import InputError, StrPath, unknown
from dejacue.evaluation.evaluate import Evaluation, evaluate
from dejacue.finding._readout import encode_words
from dejacue.finding.request import Lazy, loaded_encoder, unwrapped
from dejacue.method.localization import Plan, locate_many
from dejacue.method.readout import Readout
from dejacue.models.encoders import Encoder
from dejacue.progress import Progress, default_progress
from dejacue.records import Reference, Timeline, Vocabulary
from dejacue.records.history import MEANINGLESS
from dejacue_paper.data.layouts import Clip, Dataset, clip_rows, open_dataset

READOUTS = ("contrast", "published", "whole-history", "longest-run")


@dataclass(frozen=True, eq=False)
class Measured:
    """The result of ``evaluate_dataset``.

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
        """Return an evaluation of the clips of each split, category, object …, by its value."""
        check_name(name, self.dataset)
        groups: dict[str, list[str]] = {}
        for clip in self.dataset.clips:
            if clip.id not in self.left_out and name in (columns := _columns(clip)):
                groups.setdefault(columns[name], []).append(clip.id)
        references = {reference.history_id: reference for reference in self.dataset.references}
        return {
            value: _each_alone(
                {
                    readout: [timeline for timeline in timelines if timeline.history_id in ids]
                    for readout, timelines in self.timelines.items()
                },
                [references[id] for id in ids],
            )
            for value, ids in sorted(groups.items())
        }

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.evaluation.to_dict(),
            "layout": self.dataset.layout,
            "folder": str(self.dataset.folder),
            "encoder": self.encoder,
            "clips_left_out": dict(self.left_out),
            "warnings": list(self.warnings),
        }


def evaluate_dataset(
    dataset: Dataset | StrPath,
    store: StrPath,
    *,
    layout: str | None = None,
    readouts: Mapping[str, str | Readout] | Sequence[str] = READOUTS,
    encoder: Encoder | str | Lazy | None = None,
    masks: StrPath | None = None,
    where: Mapping[str, str] | None = None,
    workers: int | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> Measured:
    """Encode the clips of a data set into a store, and score readouts by its true windows.

    dataset    what ``open_dataset`` returns, or the folder; layout: which, if it is ambiguous
    store      for the histories; created if missing. What it has is not made again, so the same
               call resumes one that was stopped
    readouts   names, or name → readout; every later one is compared with the first
    encoder    a name or an Encoder (None: that of the store, or siglip2)
    masks      a folder of masks or boxes of one's own (paper/docs/data.md)
    where      only these clips: {"split": "val", "id": "*_peel_*"}
    replace    redo histories of the same id made from other inputs, which fail otherwise

    Clips without video, masks, words or true windows, and those that cannot be encoded, are listed
    in ``left_out``; it is an error where none remains.
    """
    progress = progress or default_progress()
    if not isinstance(dataset, Dataset):
        dataset = open_dataset(dataset, layout, progress=progress)
    chosen = _readouts(readouts)
    dataset = changed(dataset, clips=tuple(_matching(dataset, where)))
    left_out = _unusable(dataset)
    rows, without_masks = clip_rows(_rest(dataset, left_out), masks)
    left_out |= without_masks
    usable = _rest(dataset, left_out)
    model = _model(store, encoder)
    words, warnings = _words(usable, model, left_out)
    _rest(dataset, left_out)
    ingested = ingest(
        [row for row in rows if row["id"] in words],
        store,
        encoder=model,
        workers=workers,
        replace=replace,
        progress=progress,
    )
    left_out |= {failure.id: failure.what for failure in ingested.failed}
    clips = _rest(dataset, left_out)
    timelines: dict[str, list[Timeline]] = {}
    with Store.open(store) as opened:
        made_with = {clip.id: opened.origin(clip.id).made_with for clip in clips}
        left_out |= {
            id: details[MEANINGLESS] for id, details in made_with.items() if MEANINGLESS in details
        }
        clips = _rest(dataset, left_out)
        for done, (name, readout) in enumerate(chosen.items(), 1):
            histories = (opened[clip.id] for clip in clips)
            vocabularies = (words[clip.id] for clip in clips)
            timelines[name] = list(locate_many(histories, vocabularies, readout=readout))
            progress("read", done, len(chosen), name)
    references = clips.references
    if len({reference.component for reference in references}) > 1:
        evaluation = evaluate(timelines, references, only_common=True)
    else:
        evaluation = _each_alone(timelines, references)
    return Measured(dataset, model.identity, evaluation, timelines, ingested, left_out, warnings)


def _each_alone(
    timelines: Mapping[str, Sequence[Timeline]], references: Sequence[Reference]
) -> Evaluation:
    """Score readouts without comparing them, which takes two components."""
    parts = {
        name: evaluate({name: of_readout}, references, only_common=True)
        for name, of_readout in timelines.items()
    }
    return changed(
        next(iter(parts.values())),
        methods={name: part.methods[name] for name, part in parts.items()},
        per_component={name: part.per_component[name] for name, part in parts.items()},
        left_out=tuple(sentence for part in parts.values() for sentence in part.left_out),
    )


def _readouts(readouts: Mapping[str, str | Readout] | Sequence[str]) -> dict[str, str | Readout]:
    if isinstance(readouts, str):
        readouts = [readouts]
    chosen: dict[str, str | Readout] = {}
    chosen |= readouts if isinstance(readouts, Mapping) else {name: name for name in readouts}
    if not chosen:
        raise InputError("no readout is given; give at least one")
    for readout in chosen.values():
        Plan.of(readout=readout)
    return chosen


def _matching(dataset: Dataset, where: Mapping[str, str] | None) -> list[Clip]:
    """Select the clips whose columns match the patterns."""
    for name in where or {}:
        check_name(name, dataset)
    clips = []
    for clip in dataset.clips:
        columns = _columns(clip)
        if all(fnmatchcase(columns.get(name, ""), text) for name, text in (where or {}).items()):
            clips.append(clip)
    if not clips:
        raise InputError(f"{dataset.folder}: no clip matches where")
    return clips


def check_name(name: str, dataset: Dataset) -> None:
    """Refuse the name of a column that no clip has."""
    known = dict.fromkeys(column for clip in dataset for column in _columns(clip))
    if name not in known:
        raise unknown("name", name, known)


def _columns(clip: Clip) -> dict[str, str]:
    """Return what is known of a clip, as the manifest has it."""
    source = clip.component or clip.id
    columns = {"id": clip.id, "object": clip.object, "source": source, **clip.columns}
    return {name: text for name, text in columns.items() if text is not None}


def _unusable(dataset: Dataset) -> dict[str, str]:
    """Return why clips without true windows or words are left out."""
    reasons = {}
    for clip in dataset.clips:
        if not clip.states:
            reasons[clip.id] = "no true windows"
        elif clip.vocabulary is None:
            reasons[clip.id] = "no words for its states; add a list of words to vocabularies/"
    return reasons


def _rest(dataset: Dataset, left_out: Mapping[str, str]) -> Dataset:
    """Return the data set without these clips; refuse one in which no clip is left."""
    clips = tuple(clip for clip in dataset.clips if clip.id not in left_out)
    if not clips:
        first, why = list(left_out.items())[-1]
        raise InputError(
            f'{dataset.folder}: nothing can be evaluated; for example, "{first}": {why}'
        )
    return changed(dataset, clips=clips)


def _model(store: StrPath, encoder: Encoder | str | Lazy | None) -> Encoder:
    """Load the encoder, by default that of the store; refuse a place where no store can be."""
    if not Store.is_at(store):
        Store.check_new(store)
        return loaded_encoder(encoder)
    with Store.open(store) as opened:
        name, options = unwrapped(encoder)
        model = loaded_encoder(Lazy(name or encoder_of(opened), options))
        check_encoder_of(opened, model)
        return model


def _words(
    dataset: Dataset, encoder: Encoder, left_out: dict[str, str]
) -> tuple[dict[str, Vocabulary], tuple[str, ...]]:
    """Return the encoded vocabulary of each clip, and warnings; words that clips share are encoded
    once. Clips whose words the encoder cannot read are added to ``left_out``."""
    encoded: dict[Any, Vocabulary | str] = {}  # or why it cannot be encoded
    vocabularies, warnings = {}, []
    for clip in dataset.clips:
        assert clip.vocabulary is not None
        key = tuple(clip.vocabulary.states.items())
        if key not in encoded:
            name = f'the words of "{clip.id}"'
            try:
                encoded[key], sentences = encode_words(clip.vocabulary, encoder, name=name)
                warnings += [f"{name}: {sentence}" for sentence in sentences]
            except InputError as error:
                encoded[key] = str(error)
        vocabulary = encoded[key]
        if isinstance(vocabulary, str):
            left_out[clip.id] = vocabulary
        else:
            vocabularies[clip.id] = vocabulary
    return vocabularies, tuple(warnings)
