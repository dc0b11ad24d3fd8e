"""What the release does not allow, with its reason."""

from __future__ import annotations

from dejacue_paper.experiments.table import Experiment

EXPERIMENTS = (
    Experiment(
        "agreement",
        "Agreement of two annotation passes",
        reason="the label files of S05–S07 are not released",
    ),
    Experiment(
        "recurrence",
        "Several occurrences on D-NeRF jumping jacks",
        reason="its features and renders are not released",
    ),
    Experiment(
        "lexical",
        "Vocabulary extended by new descriptions",
        reason="the added descriptions and their features are not released",
    ),
    Experiment(
        "runtime",
        "15.2 ms per query on an RTX 4090",
        reason='that machine is not available; "make bench" measures this one',
    ),
    Experiment(
        "selection",
        "Settings chosen on the five development histories",
        reason="the visual features of D01 are not released",
    ),
)
