"""The VOST sample and its designated events, and the sizes of the three groups of histories."""

from __future__ import annotations

from dejacue_paper.data.protocol import SampledHistory, read_cohort, read_splits, roster
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.experiments.corpus import Benchmark
from dejacue_paper.experiments.table import Experiment, Result, Value, published


def vost_roster(benchmark: Benchmark) -> Result:
    """Compare the seed-3407 sample from the split lists with the published cohort."""
    folder = benchmark.release.folder
    drawn = roster([name for names in read_splits(folder).values() for name in names])
    cohort = read_cohort(folder)
    figures = published()["paper"]["inventory"]["vost"]
    same = sum(a.sequence == b.sequence for a, b in zip(drawn, cohort, strict=False))
    retained = [row for row in cohort if row.retained]
    entries = benchmark.release.vost
    events = sum(
        _event_is_the_reference(row, entries[row.evaluation_id])
        for row in retained
        if row.evaluation_id
    )
    here = {
        "sampled": len(drawn),
        "histories": len(entries),
        "excluded": len(cohort) - len(retained),
        "states": sum(len(entry.references) for entry in entries),
        "descriptions": sum(len(entry.vocabulary) for entry in entries),
        "components": len({entry.component for entry in entries}),
        "several pre runs": sum(row.pre_runs > 1 for row in retained),
        "several post runs": sum(row.post_runs > 1 for row in retained),
    }
    values = [
        Value("drawn from the split lists", "in place", same, figures["sampled"], unit="count"),
        Value("designated events", "references", events, figures["histories"], unit="count"),
        *(Value("VOST", name, here[name], there, unit="count") for name, there in figures.items()),
    ]
    return Result(tuple(values))


def _event_is_the_reference(row: SampledHistory, entry: ReleaseEntry) -> bool:
    if row.event is None:
        return False
    sides = {"pre": row.event.pre, "post": row.event.post}
    return all(windows == (sides[s.split("_")[0]],) for s, windows in entry.references.items())


def seven_inventory(benchmark: Benchmark) -> Result:
    entries = benchmark.release.seven
    here = {
        "states": sum(len(entry.references) for entry in entries),
        "descriptions": sum(len(entry.vocabulary) for entry in entries),
        "episodes": sum(len(w) for entry in entries for w in entry.references.values()),
        "observed frames": sum(len(entry.history) for entry in entries),
    }
    figures = published()["paper"]["inventory"]["seven"]
    return Result(
        tuple(Value("seven", name, here[name], n, unit="count") for name, n in figures.items())
    )


EXPERIMENTS = (
    Experiment("roster", "VOST: the sample of seed 3407 and its designated events", vost_roster),
    Experiment("inventory", "Seven histories: their contents", seven_inventory),
)
