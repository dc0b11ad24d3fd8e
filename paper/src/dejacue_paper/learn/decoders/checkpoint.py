"""Trained decoders as files: a folder with settings.json and weights.safetensors.

While a training is under way, state.safetensors holds what it needs to go on: its result is the
same as that of one that was never stopped.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from msgspec import Meta
from torch import Tensor

from dejacue._version import __version__
from dejacue.atomic import write_bytes, write_text
from dejacue.errors import InputError, MissingData, brief, first_line, in_file, need
from dejacue.files.documents import declared, read_json
from dejacue.records import History
from dejacue_paper.learn.decoders import DECODERS, REMEDY
from dejacue_paper.learn.decoders import model as make
from dejacue_paper.learn.decoders.core import DecoderModel
from dejacue_paper.learn.decoders.training import Settings, Training

FORMAT, VERSION = "dejacue decoder", 1
MAX_DIMENSION = 1 << 14  # of features
SETTINGS, WEIGHTS, STATE = "settings.json", "weights.safetensors", "state.safetensors"


@dataclass(frozen=True)
class About:
    """The contents of settings.json."""

    settings: Settings
    dimension: Annotated[int, Meta(ge=1, le=MAX_DIMENSION)]
    encoder: str | None
    epoch: Annotated[int, Meta(ge=0)]
    losses: list[list[float]]

    def check(self, history: History, folder: Path | str) -> None:
        """Refuse a history whose features are others than those that were learned from."""
        strange = None not in (history.encoder, self.encoder) and history.encoder != self.encoder
        if strange or history.dimension != self.dimension:
            raise InputError(
                f'{folder}: was trained on features of "{self.encoder}" ({self.dimension} '
                f'numbers), but history {history.id} has features of "{history.encoder}" '
                f"({history.dimension}); encode with the same encoder"
            )


def save(training: Training, folder: Path, *, resumable: bool = False) -> None:
    """Write each file whole; if ``resumable``, with the state that a training goes on from."""
    tensors = need("safetensors.torch", REMEDY)
    about = {
        "format": FORMAT,
        "version": VERSION,
        "dejacue": __version__,
        "settings": asdict(training.settings),
        "dimension": training.model.dimension,
        "encoder": training.encoder,
        "epoch": training.epoch,
        "losses": training.losses,
    }
    weights = {
        name: tensor.detach().cpu().contiguous() for name, tensor in _weights(training).items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    if resumable:  # first: it stands for itself, also beside older weights
        write_bytes(folder / STATE, tensors.save(training.state()))
    write_bytes(folder / WEIGHTS, tensors.save(weights))
    write_text(folder / SETTINGS, json.dumps(about, indent=1) + "\n")
    if not resumable:
        (folder / STATE).unlink(missing_ok=True)


def _weights(training: Training) -> dict[str, Tensor]:
    """Return the weights to predict with, whether or not the training is over."""
    values = training.flat.values.clone()
    if training.average is not None:
        with torch.no_grad():
            training.flat.values.copy_(training.average)
    weights = {name: tensor.clone() for name, tensor in training.model.state_dict().items()}
    with torch.no_grad():
        training.flat.values.copy_(values)
    return weights


def read_about(folder: Path) -> About:
    path = folder / SETTINGS
    if not path.is_file():
        raise MissingData(
            f'{folder}: contains no trained decoder; "dejacue learn train" writes one'
        )
    document = read_json(path)
    with in_file(path):
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise InputError("does not contain the settings of a decoder; train it again")
        if (version := document.get("version")) != VERSION:
            problem = f"has version {brief(version)}, but this dejacue reads version {VERSION}"
            raise InputError(f"{problem}; train the decoder again")
        return declared(document, About)


def load(folder: Path, seed: int | None = None) -> tuple[DecoderModel, About]:
    """Return the model of one seed (the first, if none is named), on the CPU."""
    about = read_about(folder)
    seeds = about.settings.seeds
    if seed is not None and seed not in seeds:
        raise InputError(
            f"{folder}: was trained with the seeds {', '.join(map(str, seeds))}, not {seed}"
        )
    if about.settings.decoder not in DECODERS:
        raise InputError(f'{folder}: unknown decoder "{about.settings.decoder}"; train it again')
    model = make(about.settings.decoder, 1, about.dimension, about.settings.as_published)
    member = 0 if seed is None else seeds.index(seed)
    weights = _tensors(folder / WEIGHTS)
    try:
        model.load_state_dict(
            {name: tensor[member : member + 1] for name, tensor in weights.items()}
        )
    except (RuntimeError, IndexError):
        raise InputError(
            f"{folder / WEIGHTS}: does not contain the weights of {about.settings.decoder}; "
            "train it again"
        ) from None
    model.eval()
    return model, about


def _tensors(path: Path) -> dict[str, Any]:
    tensors = need("safetensors.torch", REMEDY)
    safe = need("safetensors", REMEDY)
    if not path.is_file():
        raise MissingData(f"{path}: is missing; train the decoder again")
    try:
        loaded: dict[str, Any] = tensors.load_file(path)
    except (OSError, ValueError, safe.SafetensorError) as error:
        raise InputError(f"{path}: is damaged ({first_line(error)}); train it again") from None
    return loaded


def resume(training: Training, folder: Path) -> None:
    """Put a training where the one in the folder stopped."""
    if not (folder / SETTINGS).is_file():
        raise InputError(f"{folder}: contains no training run to resume; leave out --resume")
    about = read_about(folder)
    if about.settings != training.settings or about.encoder != training.encoder:
        raise InputError(
            f"{folder}: was started with other settings or another encoder; "
            "give the same ones, or another folder"
        )
    if not (folder / STATE).is_file():
        raise InputError(
            f"{folder}: the training run is already complete; give another folder to train again"
        )
    state = _tensors(folder / STATE)
    with in_file(folder):
        training.restore(state)


def check_free(folder: Path) -> None:
    """Refuse to begin where another training was stopped."""
    if (folder / STATE).is_file():
        raise InputError(
            f"{folder}: contains an interrupted training run; "
            "continue it (--resume), or give another folder"
        )
