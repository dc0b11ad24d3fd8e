"""A video with masks, all of it seen or a part: ``python benchmarks/looks.py [--looks 20%]``.

A minute of 1080p with an object of about 400 pixels and PNG masks is answered with every sampled
frame and with ``--looks``; printed are the wall time, the pictures that the encoder was given and
the quotient. The model has the size of SigLIP 2 base-patch16-224 and random weights, so that none
are needed; what they answer means nothing and seldom settles, so the share of looks is a budget.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from _common import Parser
from encode import random_model
from files import RATE, write_files

from dejacue import find
from dejacue.sources.encoders.siglip import TorchSiglip

WORDS = {"empty": ["an empty cup"], "full": ["a full cup"]}


class Counting(TorchSiglip):
    """Counts the pictures that it is given."""

    pictures = 0

    def encode_images(self, crops):
        self.pictures += len(crops)
        return super().encode_images(crops)


def main() -> None:
    parser = Parser(__doc__, frames=6, layers=1, looks=2)
    parser.add_argument("--frames", type=int, default=60 * RATE)
    parser.add_argument("--stride", type=int, default=7, help="sampling: about four a second")
    parser.add_argument("--looks", default="20%")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(0, folder, options.frames, 8_000_000)
        random_model(folder / "model", options.layers)
        seconds = {}
        for looks in ("all", options.looks):
            encoder = Counting(folder=folder / "model", device=options.device)
            start = time.perf_counter()
            finding = find(
                folder / "kind0.mp4",
                WORDS,
                masks=folder / "masks0",
                encoder=encoder,
                stride=1 if options.smoke else options.stride,
                looks=looks,
                folder=folder / f"out-{looks}",
            )
            seconds[looks] = time.perf_counter() - start
            seen = f"{encoder.pictures} of {len(finding.history)} frames seen"
            video_s = options.frames / RATE
            print(f"looks {looks}: {seconds[looks]:.1f} s for {video_s:.1f} s of video, {seen}")
    print(f"{seconds['all'] / seconds[options.looks]:.2f} × faster")


if __name__ == "__main__":
    main()
