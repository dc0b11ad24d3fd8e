"""Measure where the rows of ``mini`` lie for rendered scenes, so that it can tell other footage.

    python -m dejacue_paper.learn.mini_scenes --out src/dejacue/models/encoders/mini_scenes.npz

Renders crops with the seeds of training, encodes them, and writes their mean and a matrix that
makes their deviations round (squared lengths after it are Mahalanobis distances).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dejacue import load_encoder
from dejacue_paper.learn.mini import rendered

SEEDS, CROPS = 12, 250
RIDGE = 1e-3  # of the mean variance, added to all: directions in which crops hardly differ


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--crops", type=int, default=CROPS, help="of each seed")
    options = parser.parse_args(argv)
    encoder = load_encoder("mini")
    parts = [
        encoder.encode_images(list(rendered((seed, options.crops))[0]))
        for seed in range(options.seeds)
    ]
    rows = np.concatenate(parts).astype(np.float64)
    mean = rows.mean(axis=0)
    covariance = np.cov(rows.T)
    covariance += RIDGE * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    whitening = np.linalg.cholesky(np.linalg.inv(covariance))
    np.savez_compressed(
        options.out, mean=mean.astype(np.float32), whitening=whitening.astype(np.float32)
    )
    distances = np.square((rows - mean) @ whitening).sum(axis=1)
    print(f"{options.out}: {len(rows)} crops; distances at 50, 99 and 99.9 %:")
    print(*np.percentile(distances, [50, 99, 99.9]).round(0))


if __name__ == "__main__":
    main()
