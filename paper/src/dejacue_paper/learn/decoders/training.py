"""Training all members side by side: batches are gathered, matched and learned from on the device,
and on a GPU the whole step is one recorded graph, so that nothing waits for the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dejacue.errors import DejaCueError, InputError, unknown
from dejacue_paper.learn.decoders import model as make
from dejacue_paper.learn.decoders.batches import FAMILIES, BatchSchedule, schedule
from dejacue_paper.learn.decoders.core import DecoderModel
from dejacue_paper.learn.decoders.layers import start
from dejacue_paper.learn.decoders.losses import TrainingBatch
from dejacue_paper.learn.decoders.records import DecoderExample, Records, check_labels, records_of

RATE, DECAY, CLIP, EPOCHS = 1e-4, 1e-4, 0.1, 200
BETAS, SMALL = (0.9, 0.999), 1e-8
SEEDS = (3407, 3408, 3409, 3410, 3411)
EAGER_STEPS = 3  # before a graph is recorded
Note = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Settings:
    """Settings with which a decoder is trained.

    family         of batches; None: "balanced" (negative runs too), or the decoder's own
                   where it is trained as_published
    as_published   batches, masks and losses as in the published code where these differ
    clip           cut moments that cross a gap
    """

    decoder: str
    seeds: tuple[int, ...] = SEEDS
    epochs: int = EPOCHS
    rate: float = RATE
    as_published: bool = False
    family: str | None = None
    clip: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "seeds", tuple(self.seeds))
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise InputError(
                f"seeds {self.seeds}: give one or more different whole numbers, 0 or more"
            )
        if self.epochs < 0 or not 0 < self.rate < 1:
            raise InputError(
                f"epochs {self.epochs} must be 0 or more and the learning rate {self.rate} "
                "between 0 and 1"
            )
        if self.family not in (None, *FAMILIES):
            raise unknown("family", self.family, FAMILIES)


def device_named(name: str | None) -> torch.device:
    """Return the device of this name; a GPU where there is one and none is named."""
    there = torch.cuda.is_available()
    if name is None:
        return torch.device("cuda" if there else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise unknown("device", name, ("cuda", "cpu")) from None
    if device.type not in ("cuda", "cpu"):
        raise unknown("device", name, ("cuda", "cpu"))
    if device.type == "cuda" and not (there and (device.index or 0) < torch.cuda.device_count()):
        raise InputError(f'the device "{name}" is not available; leave out --device, or use cpu')
    return device


class Data:
    """Records that lie on a device."""

    def __init__(self, records: Records, device: torch.device) -> None:
        self.records = records
        moved = {}
        for name, values in vars(records).items():
            moved[name] = torch.from_numpy(np.ascontiguousarray(values)).to(device)
        self.kept: dict[str, Tensor] = moved

    def batch(
        self,
        rows: Tensor,
        weight: Tensor,
        drawn: Tensor,
        hinged: Tensor,
        rival: Tensor,
        rivalled: Tensor,
        *,
        longest: int | None = None,
        masked: bool = True,
    ) -> TrainingBatch:
        """Return a batch; ``masked``: records of one history or with equal texts are no
        negatives."""
        tensors = self.kept
        run, text = tensors["run"][rows], tensors["text"][rows]
        longest = longest or tensors["video"].shape[1]

        def there(count: Tensor, size: int) -> Tensor:
            return torch.arange(size, device=rows.device) < count[..., None]

        def pairs(names: Tensor) -> Tensor:
            row_names = names[rows]
            return row_names[..., :, None] == row_names[..., None, :]

        same = (pairs(tensors["history"]) | pairs(tensors["wording"])) & (
            ~torch.eye(rows.shape[-1], dtype=torch.bool, device=rows.device)
        )
        return TrainingBatch(
            video=tensors["video"][:, :longest][run],
            frames=there(tensors["length"][run], longest),
            words=tensors["words"][text],
            spoken=there(tensors["count"][text], tensors["words"].shape[1]),
            spans=tensors["spans"][rows],
            true=there(tensors["targets"][rows], tensors["spans"].shape[1]),
            inside=tensors["inside"][:, :longest][rows].float(),
            drawn=drawn,
            hinged=hinged,
            weight=weight,
            rival=rival,
            rivalled=rivalled,
            same=same if masked else torch.zeros_like(same),
            events=tensors["events"][run],
            parted=there(tensors["parts"][run], tensors["events"].shape[1]),
        )


class Flat:
    """All parameters of a model in one (members, P) table, so that a step is a few operations."""

    def __init__(self, model: DecoderModel) -> None:
        self.parameters = list(model.parameters())
        with torch.no_grad():
            self.values = torch.cat(
                [p.flatten(1) if p.dim() > 1 else p[:, None] for p in self.parameters], dim=1
            )
            at = 0
            for p in self.parameters:
                part = self.values[:, at : at + p[0].numel()]
                p.data = part.view(p.shape) if p.dim() > 1 else part[:, 0]
                at += part.shape[1]
        self.first, self.second = torch.zeros_like(self.values), torch.zeros_like(self.values)
        self.count = torch.zeros((), device=self.values.device)

    def gradient(self, loss: Tensor) -> Tensor:
        """Return (members, P), at most CLIP long for each member."""
        gradients = torch.autograd.grad(loss.sum(), self.parameters, allow_unused=True)
        rows = [
            torch.zeros_like(p) if g is None else g
            for p, g in zip(self.parameters, gradients, strict=True)
        ]
        table = torch.cat([row.flatten(1) if row.dim() > 1 else row[:, None] for row in rows], 1)
        length = table.norm(dim=1, keepdim=True)
        out: Tensor = table * (CLIP / (length + 1e-6)).clamp(max=1)
        return out

    @torch.no_grad()
    def step(self, gradient: Tensor, rate: Tensor) -> None:
        """Apply a step of AdamW, for all members at once."""
        a, b = BETAS
        self.count += 1
        self.values.mul_(1 - rate * DECAY)
        self.first.lerp_(gradient, 1 - a)
        self.second.mul_(b).addcmul_(gradient, gradient, value=1 - b)
        spread = (self.second / (1 - b**self.count)).sqrt_().add_(SMALL)
        self.values.sub_(rate * self.first / (1 - a**self.count) / spread)


class Training:
    """A decoder that learns from labelled histories.

        training = Training(Settings("qd"), entries)
        training.run()
        training.model

    device   "cpu", "cuda", or None: a GPU where there is one
    only     for each member, the numbers of the histories it learns from; None: all
    graph    whether a GPU records its steps
    """

    def __init__(
        self,
        settings: Settings,
        entries: Sequence[DecoderExample],
        device: str | None = None,
        *,
        only: Sequence[NDArray[np.int64] | None] | None = None,
        graph: bool = True,
    ) -> None:
        check_labels(entries)
        self.settings, self.only, self.graph = settings, only, graph
        self.device = device_named(device)
        dimension = entries[0].history.dimension
        self.encoder = entries[0].history.encoder
        self.model = make(settings.decoder, len(settings.seeds), dimension, settings.as_published)
        start(self.model, settings.seeds)
        self.model.to(self.device)
        self.flat = Flat(self.model)
        records = records_of(
            entries,
            clip=settings.clip,
            most_frames=self.model.most_frames,
            events=settings.decoder == "eatr",
        )
        self.records = records
        self.data = Data(records, self.device)
        self.average = self.flat.values.clone() if self.model.averaged else None
        self.epoch = 0
        self.losses: list[list[float]] = []  # mean of every epoch, per member
        self.seconds, self.steps = 0.0, 0
        self.graphed = False
        self._random: tuple[Tensor, Tensor | None] | None = None

    @property
    def family(self) -> str:
        family = self.model.family if self.settings.as_published else "balanced"
        return self.settings.family or family

    def run(self, *, until: int | None = None, note: Note | None = None) -> None:
        """Train to the last epoch, or to ``until``; the weights in use afterwards are the ones to
        predict with (an average, where the decoder has one)."""
        last = min(until or self.settings.epochs, self.settings.epochs)
        started = time.perf_counter()
        if self.epoch < last:
            plan = schedule(
                self.records,
                self.family,
                self.settings.seeds,
                range(self.epoch, last),
                self.settings.as_published,
                self.only,
            )
            devices = [self.device] if self.device.type == "cuda" else []
            with torch.random.fork_rng(devices):
                self._seed()
                self.model.train()
                self._epochs(plan, last, note)
                self._random = _random_state(self.device)
        self.seconds += time.perf_counter() - started
        self.model.eval()

    def _seed(self) -> None:
        """Set the state of dropout: where it stopped, or from the seeds."""
        if self._random is None:
            torch.manual_seed(int(np.random.SeedSequence(self.settings.seeds).generate_state(1)[0]))
            return
        torch.set_rng_state(self._random[0])
        if self._random[1] is not None:
            torch.cuda.set_rng_state(self._random[1])

    def _epochs(self, plan: BatchSchedule, last: int, note: Note | None) -> None:
        stepper = Stepper(self, plan)
        first = self.epoch
        for epoch in range(first, last):
            done = epoch / self.settings.epochs
            phase = sum(done >= turn for turn in self.model.turns)
            slow = self.model.slower is not None and done >= self.model.slower
            stepper.rate.fill_(self.settings.rate * (0.1 if slow else 1))
            begin = (epoch - first) * plan.steps
            for step in range(begin, begin + plan.steps):
                stepper.step(step, phase)
            if self.average is not None:
                self.average.lerp_(self.flat.values, 1 - self.model.averaged)
            self.epoch = epoch + 1
            self.steps += plan.steps
            if self.epoch % 10 == 0 or self.epoch == last:  # the only places that wait
                self._check(stepper.losses[: begin + plan.steps], first, plan.steps)
            if note is not None:
                note(self.settings.decoder, self.epoch, self.settings.epochs)
        self.graphed = self.graphed or bool(stepper.graphs)

    def _check(self, losses: Tensor, first: int, steps: int) -> None:
        table = losses.cpu().numpy()
        bad = np.argwhere(~np.isfinite(table))
        if len(bad):
            step, member = bad[0].tolist()
            raise DejaCueError(
                f"{self.settings.decoder}, seed {self.settings.seeds[member]}: the loss is "
                f"{table[step, member]} in epoch {first + step // steps + 1}, step "
                f"{step % steps + 1}; lower the learning rate ({self.settings.rate}), or look for "
                "outliers among the features"
            )
        means = table.reshape(-1, steps, table.shape[1]).mean(axis=1)
        self.losses[first:] = means.tolist()

    def state(self) -> dict[str, Tensor]:
        """Return what it takes to go on."""
        state = {
            "values": self.flat.values,
            "first": self.flat.first,
            "second": self.flat.second,
            "count": self.flat.count,
            "average": self.average,
        }
        random = self._random or (None, None)
        state |= {
            "random": random[0],
            "random_gpu": random[1],
            "epoch": torch.tensor(self.epoch),
            "losses": torch.tensor(self.losses, dtype=torch.float64),
            "records": self._digest(),
        }
        return {
            name: tensor.cpu().contiguous() for name, tensor in state.items() if tensor is not None
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Start where ``state`` was taken."""
        flat = self.flat
        needed = {"values", "first", "second", "count", "random", "epoch", "losses", "records"}
        if needed - state.keys() or state["values"].shape != flat.values.shape:
            raise InputError("the state of the training run does not fit the decoder; start again")
        if not torch.equal(state["records"], self._digest()):
            raise InputError(
                "the training run was started with other histories, words or labels; give the "
                "same ones, or another folder"
            )
        with torch.no_grad():
            for name, tensor in (
                ("values", flat.values),
                ("first", flat.first),
                ("second", flat.second),
                ("count", flat.count),
                ("average", self.average),
            ):
                if tensor is not None:
                    tensor.copy_(state[name])
        self._random = (state["random"], state.get("random_gpu"))
        self.epoch, self.losses = int(state["epoch"]), state["losses"].tolist()

    def _digest(self) -> Tensor:
        return torch.tensor(list(self.records.digest), dtype=torch.uint8)

    def final(self) -> DecoderModel:
        """Return the model with the weights to predict with."""
        if self.average is not None:
            with torch.no_grad():
                self.flat.values.copy_(self.average)
        self.model.eval()
        return self.model


class Stepper:
    """One step after another; on a GPU, recorded once per phase and then replayed."""

    def __init__(self, training: Training, plan: BatchSchedule) -> None:
        self.training, self.plan = training, plan
        device = training.device
        arrays = (plan.rows, plan.weight, plan.drawn, plan.hinged, plan.rival, plan.rivalled)
        self.all = [torch.from_numpy(array).to(device) for array in arrays]
        self.now = [tensor[0].clone() for tensor in self.all]
        self.rate = torch.zeros((), device=device)
        steps, members = plan.rows.shape[:2]
        self.losses = torch.zeros(steps, members, device=device)
        self.loss = torch.zeros(members, device=device)
        self.graphs: dict[int, Any] = {}
        self.seen: dict[int, int] = {}
        cuda: Any = torch.cuda
        self.stream = cuda.Stream() if device.type == "cuda" else None

    def step(self, step: int, phase: int) -> None:
        if self.stream is None:
            longest = int(
                self.training.records.length[self.training.records.run[self.plan.rows[step]]].max()
            )
            self._load(step)
            self._work(phase, longest)
        else:
            self._on_gpu(step, phase)
        self.losses[step].copy_(self.loss)

    def _load(self, step: int) -> None:
        for current, table in zip(self.now, self.all, strict=True):
            current.copy_(table[step])

    def _on_gpu(self, step: int, phase: int) -> None:
        self._load(step)
        count = self.seen[phase] = self.seen.get(phase, 0) + 1
        if phase in self.graphs:
            self.graphs[phase].replay()
            return
        assert self.stream is not None
        if count <= EAGER_STEPS or not self.training.graph:
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                self._work(phase, None)
            torch.cuda.current_stream().wait_stream(self.stream)
            return
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # a graph has memory of its own, which all phases share
        graph = torch.cuda.CUDAGraph()
        pool = next((graph.pool() for graph in self.graphs.values()), None)
        with torch.cuda.graph(graph, pool=pool, stream=self.stream):
            self._work(phase, None)
        self.graphs[phase] = graph
        graph.replay()

    def _work(self, phase: int, longest: int | None) -> None:
        training = self.training
        masked = not training.settings.as_published
        batch = training.data.batch(*self.now, longest=longest, masked=masked)
        loss = training.model.loss(batch, training.model(batch, phase), phase)
        training.flat.step(training.flat.gradient(loss), self.rate)
        self.loss.copy_(loss.detach())


def _random_state(device: torch.device) -> tuple[Tensor, Tensor | None]:
    gpu = torch.cuda.get_rng_state() if device.type == "cuda" else None
    return torch.get_rng_state(), gpu
