"""Whether an encoder is the paper's: cosines of twelve sentences of its release, by prompt variant.

The sentences belong to the dataset HaofanCao/deja-cue-data (Cao et al.), whose terms are its own:
they are read from it, and only numbers are stored here. These are ten-thousandths, of the pairs
(0, 1), (0, 2) … (10, 11), as printed by ``python -m dejacue_paper.data.sentences RELEASE``, which
also prints how far the variants differ.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dejacue.atomic import cache_folder
from dejacue.errors import InputError, MissingData
from dejacue.files.npz import read_npz
from dejacue.models.encoders.base import Encoder, encode_vocabulary

TOLERANCE = 0.002
SLIGHT = 0.02  # half of what the two nearest prompt variants differ by
IN_ORDER = 0.9  # rank correlation of cosines that keep their order
DIMENSION = 768
PLACES = (  # of a sentence: history, and position among its descriptions
    *product(("H002", "H001", "H034", "H060"), (0, 2)),
    *product(("H009",), (1, 3)),
    *product(("H010",), (0, 2)),
)
# of the sentences, a line each
SHA256 = "c3510db3bf08fc5f43ba3e48a1ab4bf05f10f3c5257cf10e7380ed3aa31d3449"
FIGURES = {
    "ensemble": """
9599 7417 6670 7590 7677 7631 7599 5881 5859 7543 7610 7442 6790 7786 7880 7753 7836 5975 5973
7671 7794 9227 7425 7323 7777 7795 5829 5729 7664 7464 6859 6723 7445 7610 5606 5564 6755 6968
9482 7720 7875 5454 5477 7438 7445 7981 8149 5674 5681 7522 7650 9280 6226 6065 7592 7731 6055
6092 7605 7765 9637 5838 5900 5756 5844 9638
""",
    "raw": """
9578 7578 6772 7560 7635 7409 7756 5856 5761 7681 7662 7423 6823 7617 7702 7355 7705 5789 5724
7627 7678 9183 7482 7430 7783 8045 5831 5674 7846 7615 6879 6797 7452 7449 5584 5506 6889 6974
9439 7439 7783 5316 5225 7399 7417 7623 8046 5550 5457 7467 7570 9101 6021 5710 7390 7383 5868
5760 7687 7663 9614 5737 5684 5581 5566 9517
""",
    "photo": """
9631 7295 6661 7442 7476 7527 7196 5752 5887 7234 7285 7401 6801 7669 7744 7742 7554 5902 6070
7467 7576 9237 7215 7073 7673 7478 5611 5652 7512 7227 6661 6529 7414 7617 5428 5529 6679 7035
9426 7558 7498 5211 5424 7253 7095 7816 7747 5415 5590 7301 7297 8973 6132 6107 7481 7588 5851
6052 7310 7539 9612 5687 5844 5726 5871 9504
""",
    "definite": """
9377 7085 6304 7552 7710 7604 7411 5910 5804 7528 7639 7211 6472 7881 8021 7836 7751 6130 6034
7736 7857 9225 7423 7182 7334 7213 6019 5818 7395 7197 6889 6603 6988 7102 5755 5595 6478 6538
9350 7763 7803 5807 5752 7505 7537 8092 8124 5961 5901 7579 7735 9036 6213 6042 7540 7703 6054
6038 7380 7587 9653 6007 6006 5873 5905 9656
""",
}


@dataclass(frozen=True)
class Comparison:
    """Says how far the cosines of an encoder are from the release's.

    largest   difference of a cosine
    differs   what does, as far as the figures tell; empty within the tolerance
    slight    whether it is no more than another precision explains
    """

    largest: float
    differs: str = ""
    slight: bool = False


def cosines(rows: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the cosines of all pairs of unit rows."""
    wide = rows.astype(np.float64)
    return (wide @ wide.T)[np.triu_indices(len(wide), 1)]


def release_folder() -> Path:
    """Return the folder that DEJACUE_DATA names, else where ``dejacue data fetch`` puts the paper's
    release."""
    return Path(os.environ.get("DEJACUE_DATA") or cache_folder() / "release").expanduser()


def read_sentences(folder: Path | None = None) -> tuple[str, ...]:
    """Return the sentences from the paper's release; refuse a folder that does not have them."""
    features = (folder or release_folder()) / "data" / "features" / "siglip2"
    if not features.is_dir():
        raise MissingData(
            "the paper's release is not here, whose sentences are compared; run \"dejacue data "
            'fetch" (pip install dejacue-paper), or set DEJACUE_DATA to the folder that contains '
            "data/"
        )
    texts = {}
    for history in dict.fromkeys(history for history, _ in PLACES):
        path = features / history / "text_features.npz"
        texts[history] = read_npz(path, ["state_texts"]).get("state_texts", np.array([]))
    sentences = tuple(str(texts[history][at]) for history, at in PLACES if at < texts[history].size)
    if hashlib.sha256("\n".join(sentences).encode()).hexdigest() != SHA256:
        problem = "does not have the sentences of the paper's release"
        raise InputError(f"{features}: {problem}; fetch the release again")
    return sentences


def compare(encoder: Encoder, sentences: Sequence[str], tolerance: float = TOLERANCE) -> Comparison:
    """Encode the sentences as ``find`` does (the ensemble of prompts), and compare."""
    rows = encode_vocabulary(sentences, encoder).features
    assert rows is not None
    measured = cosines(rows)
    figures = {name: np.array(text.split(), float) / 1e4 for name, text in FIGURES.items()}
    away = {name: float(np.abs(measured - known).max()) for name, known in figures.items()}
    largest, nearest = away["ensemble"], min(away, key=lambda name: away[name])
    if largest <= tolerance:
        return Comparison(largest)
    if away[nearest] <= tolerance:
        return Comparison(largest, f'the prompt (they are those of "{nearest}" alone)')
    if rows.shape[1] != DIMENSION:
        return Comparison(largest, f"the model (rows of {rows.shape[1]}, not {DIMENSION}, numbers)")
    if largest <= SLIGHT:
        return Comparison(largest, "the precision (all are near)", slight=True)
    ranks = [np.argsort(np.argsort(values)) for values in (measured, figures["ensemble"])]
    if np.asarray(np.corrcoef(ranks))[0, 1] >= IN_ORDER:
        return Comparison(largest, "pooling, normalisation or a prompt (their order is kept)")
    return Comparison(largest, "the tokenizer or the model (not even their order is kept)")


def compare_with_release(name: str, encoder: Encoder, tolerance: float = TOLERANCE) -> str:
    """Say how far an encoder's texts are from those of the paper's release; refuse one that is
    further away than another precision explains. MissingData: the release is not here."""
    sentences = read_sentences()
    result = compare(encoder, sentences, tolerance)
    of = f"{len(sentences)} sentences of the paper"
    if not result.differs:
        within = f"at most {result.largest:.4f} (allowed: {tolerance:.4f})"
        return f"{name}: the cosines of {of} differ from the published ones by {within}"
    problem = (
        f"{name}: the cosines of {of} differ from the published ones by up to "
        f"{result.largest:.4f}; what differs is {result.differs}"
    )
    if result.slight:
        return problem
    raise InputError(
        f"{problem}; delete its files, which dejacue weights ls {name} lists, then run dejacue "
        f"weights fetch {name}; if that does not help, its source has changed"
    )
