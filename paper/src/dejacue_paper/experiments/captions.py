"""Texts of the page of reproduced tables: legend, introduction, captions, protocol notes."""

LEGEND = (
    "✓ rounds to the published number · ≈ is between the smallest and the largest of our draws "
    "(in brackets) · ✗ neither · – nothing to compare · numbers in %, intervals 95 %; an interval "
    "counts as three values"
)

INTRODUCTION = """# The published figures, recomputed

Written by `dejacue reproduce {asked}`. **{summary}.**

- ✓ rounds to the published number: six decimals, or as many as the paper prints.
- ≈ the published draws are not known, but the published number lies between the smallest and the
  largest of ours (in brackets; each draw has the published size).
- ✗ neither; the notes below the table say what we found.
- – nothing to compare: a row that is not in the paper, a published number whose inputs are not
  in the release, or one that follows from other published numbers.

Numbers are in %, differences (of means) are in the same unit, and intervals are 95 %. An interval
counts as three values.
"""

CAPTIONS = {
    "vost_effects": "VOST, vocabulary minus absolute coordinates: the change in R@1 .5 of every "
    "source component, in order (a); mean changes with 95 % intervals (b).",
    "vost_ranking": "VOST: how high good candidates rank; the oracle is the best candidate.",
    "vost_diagnostics": "VOST: agreement of two wordings of one state (a); selected window and "
    "best candidate (b); two ways to score a window (c).",
    "evidence_cases": "Evidence in dual coordinates: a state found in part, a state found, and a "
    "state mistaken for the moment before it.",
    "seven_ranking": "Seven histories: how high good candidates rank.",
    "missing_observations": "Frames removed at random, dual coordinates: mean (line) and range "
    "(band) of 20 draws of three seeds; crosses are the published means.",
    "circular_shifts": "Features rolled within runs, R@1 .5 in dual coordinates: a small roll, as "
    "with seed 7, changes little.",
    "synthetic_durations": "Synthetic study: which norm finds intervals of which length.",
    "rendered_retrieval": "Rendered scenes with mini: four coordinates and two windows chosen "
    "without looking at a frame, by topology.",
    "rendered_masks": "Rendered scenes: masks eroded, dilated, drifting, or switched to another "
    "object.",
    "rendered_difficulty": "Rendered scenes: one difficulty at a time.",
}

PROTOCOL = """## Where the protocol differs from the paper's text, or goes beyond it

- **Durations.** The 33 lengths are a fixed list. The recursion in the paper, restarted for each
  history, gives other lengths (`durations="generated"`). The published figures need the list.
- **Holm's correction.** The paper quotes p = .004 for R@1 .5 (family: the four coordinate
  comparisons); within the three metrics of one comparison it is .0032. Both are shown, and every
  corrected p names its family.
- **max-frame** has two meanings: in the VOST table, the earliest window of the schedule that
  contains the best frame; in the matched controls, that frame alone.
- **Bridged windows** also cross natural gaps, start and end on observed frames, and are divided by
  the root of their number of observed frames.
- **Texts of S05–S07** contain one state more than the manifest. Only the manifest's states count,
  including for the origin of the coordinates.
- **Ties** go to the earliest start, then the earliest end, as in the paper. Scores within 1e-9 of
  the best count as equal, so the order of summation does not matter.
- **Trivial baselines** (whole history, longest run, random window) are ours.
"""
