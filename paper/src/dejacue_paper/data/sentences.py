"""The figures by which ``dejacue weights check siglip2`` knows the paper's encoder.

python -m dejacue_paper.data.sentences RELEASE
"""

from __future__ import annotations

import sys
import textwrap
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dejacue.models.encoders.sentences import cosines, read_sentences
from dejacue_paper.data.release import TEMPLATES, Release, load_release


def text_rows(release: Release, prompts: str) -> dict[str, NDArray[np.float32]]:
    """Return the row of every description of VOST."""
    rows: dict[str, NDArray[np.float32]] = {}
    for entry in release.vost:
        vocabulary = entry.prompted(prompts)
        assert vocabulary.features is not None
        rows |= zip(vocabulary.descriptions, vocabulary.features, strict=True)
    return rows


def figures(release: Release) -> dict[str, NDArray[np.int64]]:
    """Return the cosines of all pairs of the sentences, in ten-thousandths, by prompt variant."""
    result, sentences = {}, read_sentences(release.folder)
    for prompts in TEMPLATES:
        rows = text_rows(release, prompts)
        pairs = cosines(np.stack([rows[text] for text in sentences]))
        result[prompts] = np.rint(pairs * 1e4).astype(np.int64)
    return result


if __name__ == "__main__":
    printed = figures(load_release(sys.argv[1]))
    for prompts, values in printed.items():
        print(f"{prompts}:\n{textwrap.fill(' '.join(map(str, values)), 96)}")
    for pair in combinations(printed, 2):
        first, second = (printed[prompts] for prompts in pair)
        print(f"{' and '.join(pair)} differ by up to {np.abs(first - second).max() / 1e4:.4f}")
