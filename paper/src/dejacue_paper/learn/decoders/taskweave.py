"""TaskWeave (from moments to highlights): an expert for each task over shared frames."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dejacue_paper.learn.decoders import core
from dejacue_paper.learn.decoders import layers as la
from dejacue_paper.learn.decoders.layers import WIDTH, Linear, Norm, Start
from dejacue_paper.learn.decoders.losses import Output, TrainingBatch, ends, set_terms

TAPS = 5


def pooled(x: Tensor, there: Tensor) -> Tensor:
    """Return the largest of five neighbouring frames, of those that are there."""
    low = x.masked_fill(~there[..., None], -torch.inf)
    return torch.stack(_near(low, -torch.inf)).amax(0).masked_fill(~there[..., None], 0)


def _near(x: Tensor, outside: float) -> list[Tensor]:
    """Return the frames two before, one before, …, two after."""
    wide = F.pad(x, (0, 0, TAPS // 2, TAPS // 2), value=outside)
    return [wide[:, :, k : k + x.shape[2]] for k in range(TAPS)]


class Expert(Start):
    """Convolves each channel over five frames, normalises, and maps."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.taps = nn.Parameter(torch.zeros(members, WIDTH, TAPS))
        self.shift = nn.Parameter(torch.zeros(members, WIDTH))
        self.norm, self.map = Norm(members), Linear(members, WIDTH, WIDTH, init="xavier")

    def start(self, member: int, random: torch.Generator) -> None:
        bound = TAPS**-0.5
        self.taps[member].uniform_(-bound, bound, generator=random)
        self.shift[member].uniform_(-bound, bound, generator=random)

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        mixed = self.shift[:, None, None]
        for near, tap in zip(_near(x * there[..., None], 0.0), self.taps.unbind(-1), strict=True):
            mixed = mixed + near * tap[:, None, None]
        out: Tensor = self.map(self.norm(mixed).relu())
        return out


class TaskWeave(core.RivalModel):
    """Published, the expert's convolution sees the padding instead of the frames, so that it is the
    same vector for every frame."""

    family = "unique"
    turns = (0.5,)
    most_frames = 75
    averaged = 0.9

    def __init__(self, members: int, dimension: int, as_published: bool = False) -> None:
        super().__init__(members, dimension, as_published)
        self.asking = nn.ModuleList(la.CrossLayer(members) for _ in range(2))
        self.for_spans, self.for_frames = (Linear(members, WIDTH, WIDTH) for _ in range(2))
        self.token = core.GlobalToken(members)
        self.encoder = core.encoder(members, 2, "prelu")
        self.expert = Expert(members)
        self.decoder = core.AnchorDecoder(members, 2, 10)
        self.of_frame, self.of_all = Linear(members, WIDTH, WIDTH), Linear(members, WIDTH, WIDTH)
        self.doubt = nn.Parameter(torch.zeros(members, 2))

    def encode(self, batch: TrainingBatch, words: Tensor, spoken: Tensor) -> tuple[Tensor, ...]:
        """Return frames for spans, frames for saliency, the global token, positions."""
        x, pos, heard = self.see(batch.video), la.positions(batch.frames), self.hear(words)
        for layer in self.asking:
            x, _ = layer(x, pos, heard, spoken)
        x = pooled(x, batch.frames)
        hidden = core.through(self.encoder, *self.token(x, pos, batch.frames))
        shared = pooled(hidden[:, :, 1:], batch.frames)
        visible = ~batch.frames if self.as_published else batch.frames
        spans = self.expert(self.for_spans(x), visible) * shared
        return spans, self.for_frames(x) * shared, hidden[:, :, :1], pos

    def shine(self, frames: Tensor, token: Tensor) -> Tensor:
        out: Tensor = (self.of_frame(frames) * self.of_all(token)).sum(-1) / WIDTH**0.5
        return out

    def salient(self, batch: TrainingBatch, words: Tensor, spoken: Tensor, phase: int) -> Tensor:
        _, frames, token, _ = self.encode(batch, words, spoken)
        return self.shine(frames, token)

    def read(self, batch: TrainingBatch, phase: int) -> Output:
        memory, frames, token, pos = self.encode(batch, batch.words, batch.spoken)
        spans, logits, _ = self.decoder(memory, pos, batch.frames)
        if phase:
            frames = frames * (1 + self.covered(spans[-1], batch.frames))[..., None]
        return Output(spans, logits, self.shine(frames, token))

    def covered(self, spans: Tensor, there: Tensor) -> Tensor:
        """Return how many spans hold each frame, as a vector of unit length."""
        first, last = (end[..., None] for end in ends(spans.detach()))
        count = there.sum(-1)[..., None, None]
        at = (torch.arange(there.shape[-1], device=there.device) + 0.5) / count
        inside = (first <= at) & (at < last) & there[:, :, None]
        return F.normalize(inside.sum(2).to(spans.dtype), dim=-1)

    def loss(self, batch: TrainingBatch, output: Output, phase: int) -> Tensor:
        near, over, named, _ = set_terms(output, batch)
        shining = self.saliency_loss(batch, output, phase)
        a, b = self.doubt.unbind(-1)
        return 2 * shining * (-a).exp() + (near + over + named) * (-b).exp() + a + b
