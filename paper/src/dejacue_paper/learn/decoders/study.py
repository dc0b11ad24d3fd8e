"""Train decoders under several conditions and write what they find, to be compared elsewhere.

    python -m dejacue_paper.learn.decoders.study PACK OUT.json [--jobs 4] [--seconds 480]

Needs numpy and torch only. Every job is one decoder under one condition, all seeds side by side.
What is not done after ``--seconds`` is left out, and the file says so.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before torch: one order of sums

import numpy as np
import torch

from dejacue.errors import Cancelled, DejaCueError, InputError, first_line
from dejacue_paper.data.synthetic import generate
from dejacue_paper.learn.decoders import DECODERS
from dejacue_paper.learn.decoders.pack import read_pack
from dejacue_paper.learn.decoders.reading import frames_of, predict, scores_of
from dejacue_paper.learn.decoders.records import DecoderExample
from dejacue_paper.learn.decoders.training import SEEDS, Settings, Training
from dejacue_paper.method.windows import description_windows

Groups = dict[str, list[Any]]
FOLDS = 5
SLOW = ("tr", "sim", "uvcom", "cg")  # begun first
GENERATED, GENERATED_TESTS = 200, 24
TEST_SEED = 1_000_000
STATES = ("empty", "filled", "half", "open")


@dataclass(frozen=True)
class Condition:
    """Settings of one training: from what, how long, and which groups are read afterwards.

    folds   members learn from all components but a fifth, and are asked about that one
    most    seeds at most
    """

    train: str
    epochs: int
    groups: tuple[str, ...]
    as_published: bool = False
    folds: bool = False
    most: int = 5


CONDITIONS = {
    "published": Condition("development", 200, ("development", "seven"), as_published=True),
    "negatives": Condition("development", 200, ("development", "seven", "vost")),
    "vost": Condition("vost", 40, ("vost", "seven"), folds=True),
    "rendered": Condition("rendered", 20, ("rendered", "rendered-tests"), most=3),
    "generated": Condition(
        "generated", 10, ("generated", "generated-tests", "seven", "vost"), most=3
    ),
}


@dataclass(frozen=True)
class TrainingJob:
    decoder: str
    condition: str
    pack: str
    seeds: tuple[int, ...]
    share: float  # of the epochs: 1, or less for a rehearsal
    until: float  # no epoch begins after this time
    graph: bool = True
    device: str | None = None


def generated_history(seed: int) -> Any:
    """Return a generated history with features as wide as the release's: two to four states."""
    random = np.random.default_rng([seed, 7])
    states = STATES[: int(random.integers(2, 5))]
    start = int(random.integers(20, 200))
    return generate(
        seed,
        states=states,
        frames=240,
        recurrences=int(random.integers(1, 3)),
        dimension=768,
        signal=float(random.uniform(0.5, 2)),
        gaps=[(start, int(random.integers(3, 10)))],
    )


def groups_of(pack: str, names: Sequence[str]) -> Groups:
    """Return the groups that a condition needs, from the pack or generated."""
    first = {"generated": 0, "generated-tests": TEST_SEED}
    counts = {"generated": GENERATED, "generated-tests": GENERATED_TESTS}
    packed = read_pack(Path(pack))
    groups: Groups = {}
    for name in names:
        if name in first:
            groups[name] = [generated_history(first[name] + k) for k in range(counts[name])]
        elif name in packed:
            groups[name] = list(packed[name])
        else:
            raise InputError(f'{pack}: has no group "{name}"; it has {", ".join(packed)}')
    return groups


def folds_of(entries: Sequence[Any]) -> list[np.ndarray]:
    """Return, for each fold, the numbers of the histories it leaves out; a component is in one
    fold."""
    names = sorted({entry.component for entry in entries})
    order = np.random.default_rng(SEEDS[0]).permutation(len(names))
    fold = {names[k]: at % FOLDS for at, k in enumerate(order.tolist())}
    fold_of_entry = np.array([fold[entry.component] for entry in entries])
    return [np.flatnonzero(fold_of_entry == k) for k in range(FOLDS)]


def predictions(training: Training, groups: Groups, condition: Condition) -> dict[str, Any]:
    """Return what the present weights predict for every group, member by member; folds together."""
    answers: dict[str, Any] = {}
    for name in condition.groups:
        entries = groups[name]
        members = [frames_of(entries, rows) for rows in predict(training.model, entries)]
        if condition.folds and name == condition.train:
            left_out = {int(h): k for k, fold in enumerate(folds_of(entries)) for h in fold}
            members = [[members[left_out[h]][h] for h in range(len(entries))]]
        answers[name] = [_answer(entries, windows, name) for windows in members]
    return answers


def _answer(entries: Sequence[DecoderExample], windows: Any, name: str) -> dict[str, Any]:
    answer = scores_of(entries, windows)
    if name in ("seven", "development"):
        names = [entry.history.id for entry in entries]
        answer["windows"] = {n: rows.tolist() for n, rows in zip(names, windows, strict=True)}
    else:
        del answer["histories"]
    return answer


def run(job: TrainingJob) -> dict[str, Any]:
    """Train and score one decoder under one condition; an error is part of the answer."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    setting: Any = torch.utils.deterministic
    setting.fill_uninitialized_memory = False  # all of it is written anyway
    torch.set_float32_matmul_precision("high")
    condition = CONDITIONS[job.condition]
    answer: dict[str, Any] = {"decoder": job.decoder, "condition": job.condition}
    if time.time() > job.until:
        return {**answer, "error": "not started: time limit reached"}
    try:
        answer |= _run(job, condition)
    except (DejaCueError, RuntimeError) as error:  # torch raises RuntimeError for all it cannot do
        answer["error"] = f"{type(error).__name__}: {first_line(error)}"
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return answer


def _run(job: TrainingJob, condition: Condition) -> dict[str, Any]:
    groups = groups_of(job.pack, list(dict.fromkeys((condition.train, *condition.groups))))
    entries = groups[condition.train]
    only, seeds = None, job.seeds[: condition.most]
    if condition.folds:
        numbers, seeds = np.arange(len(entries)), SEEDS[:FOLDS]
        only = [np.setdiff1d(numbers, fold) for fold in folds_of(entries)]
    epochs = max(1, round(condition.epochs * job.share))
    settings = Settings(job.decoder, seeds, epochs, as_published=condition.as_published, clip=True)
    training = Training(settings, entries, job.device, only=only, graph=job.graph)
    training.model.eval()
    before = predictions(training, groups, condition)

    def note(_: str, done: int, total: int) -> None:
        if time.time() > job.until:
            raise Cancelled(f"stopped after {done} of {total} epochs: time limit reached")

    training.run(note=note)
    training.final()
    records = training.records
    return {
        "settings": asdict(settings),
        "family": training.family,
        "graph": training.graphed,
        "seconds": round(training.seconds, 1),
        "records": len(records.positive),
        "negatives": len(records.negative),
        "steps": training.steps,
        "loss": {"first": training.losses[0], "last": training.losses[-1]},
        "untrained": before,
        "trained": predictions(training, groups, condition),
    }


def baselines(pack: str) -> dict[str, Any]:
    """Score the frozen readouts and windows that look at nothing, on what only exists here."""
    predictions: dict[str, Any] = {}
    packed = read_pack(Path(pack))
    for name in ("generated-tests", "rendered-tests"):
        if name == "rendered-tests" and name not in packed:
            continue
        entries = groups_of(pack, [name])[name]
        predictions[name] = {}
        for readout in ("contrast", "published", "longest-run"):
            windows = [
                description_windows([entry.history], entry.vocabulary, readout=readout)[0]
                for entry in entries
            ]
            predictions[name][readout] = _answer(entries, windows, name)
    return predictions


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pack")
    parser.add_argument("out", type=Path)
    parser.add_argument("--decoders", default=",".join(DECODERS))
    parser.add_argument("--conditions", default=",".join(CONDITIONS))
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    parser.add_argument("--share", type=float, default=1.0, help="of the epochs, for a rehearsal")
    parser.add_argument("--jobs", type=int, default=4, help="processes side by side")
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument("--device")
    options = parser.parse_args(arguments)
    began = time.time()
    seeds = tuple(int(seed) for seed in options.seeds.split(","))
    decoders = sorted(options.decoders.split(","), key=SLOW.__contains__, reverse=True)
    jobs = [
        TrainingJob(
            decoder,
            condition,
            options.pack,
            seeds,
            options.share,
            began + options.seconds,
            device=options.device,
        )
        for condition in options.conditions.split(",")
        for decoder in decoders
    ]
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    results: dict[str, Any] = {
        "command": f"python -m dejacue_paper.learn.decoders.study PACK OUT --jobs {options.jobs} "
        f"--seconds {options.seconds:g}"
        + (f" --share {options.share:g}" if options.share < 1 else ""),
        "machine": gpu or platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "runs": [],
        "baselines": {},
    }
    failed = _all(jobs, options, results, began)
    again = [TrainingJob(**{**vars(job), "graph": False}) for job in failed]
    if again and gpu and time.time() < began + options.seconds:
        _all(again, options, results, began)
    results["baselines"] = baselines(options.pack)
    _write(options.out, results, began)


def _all(
    jobs: Sequence[TrainingJob], options: Any, results: dict[str, Any], began: float
) -> list[TrainingJob]:
    """Run jobs side by side, write after each, and return those that failed."""
    failed = []
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(run, job): job for job in jobs}
        for done in as_completed(waiting):
            job = waiting[done]
            try:
                answer = done.result()
            except Exception as error:  # a process that died takes its job with it, not the others
                answer = {
                    "decoder": job.decoder,
                    "condition": job.condition,
                    "error": f"{type(error).__name__}: {error}",
                }
            if "error" in answer:
                failed.append(job)
            results["runs"].append(answer)
            _write(options.out, results, began)
            outcome = answer.get("error") or f"{answer['seconds']} s, {_short(answer)}"
            print(
                f"{time.time() - began:6.1f} {job.decoder} {job.condition}: {outcome}", flush=True
            )
    return failed


def _short(answer: dict[str, Any]) -> str:
    parts = []
    for name, members in answer["trained"].items():
        mean = 100 * np.mean([member["mean"] for member in members], axis=0)
        same = np.mean([member["same"] for member in members])
        parts.append(f"{name} {mean[0]:.1f}/{mean[1]:.1f}/{mean[2]:.1f} same {same:.2f}")
    return "; ".join(parts)


def _write(path: Path, results: dict[str, Any], began: float) -> None:
    results["seconds"] = round(time.time() - began, 1)
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(results, separators=(",", ":")), encoding="utf-8")
    temporary.replace(path)


if __name__ == "__main__":
    main()
