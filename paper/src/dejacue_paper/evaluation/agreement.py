"""How far two annotation passes agree; every pass has one label per frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from dejacue.errors import InputError

Labels = Sequence[Hashable]


@dataclass(frozen=True)
class Agreement:
    """Says how far two annotators agree about the same frames.

    observed   agreed / frames, the exact rate
    chance     the rate two independent annotators with these label frequencies would reach
    kappa      Cohen's κ: (observed − chance) / (1 − chance)
    """

    frames: int
    agreed: int
    observed: float
    chance: float
    kappa: float


def cohen_kappa(first: Labels, second: Labels) -> Agreement:
    """Return exact rate and Cohen's κ of two label sequences of one length.

    Where both passes use one and the same label throughout, chance is 1 and κ is 0/0. The passes
    then agree on every frame, and κ is given as 1, its value in every other full agreement.
    """
    a, b = list(first), list(second)
    if len(a) != len(b):
        problem = f"one pass has {len(a)} labels, the other {len(b)}"
        raise InputError(f"{problem}; both must label the same frames")
    if not a:
        raise InputError("nothing to compare: both passes are empty")
    if None in a or None in b:
        at = min(labels.index(None) for labels in (a, b) if None in labels)
        raise InputError(f"label {at} is missing from one of the passes; complete it first")
    agreed = sum(x == y for x, y in zip(a, b, strict=True))
    uses = Counter(b)
    pairs = sum(count * uses[label] for label, count in Counter(a).items())
    observed, chance = agreed / len(a), pairs / len(a) ** 2
    kappa = (observed - chance) / (1 - chance) if pairs < len(a) ** 2 else 1.0
    return Agreement(len(a), agreed, observed, chance, kappa)
