"""UVCOM: prototypes of frames and words, mixed by a random walk; queries start at the text."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dejacue_paper.learn.decoders import core
from dejacue_paper.learn.decoders import layers as la
from dejacue_paper.learn.decoders.layers import WIDTH, Linear, Norm, Table
from dejacue_paper.learn.decoders.losses import Output, TrainingBatch, average, both_ways, set_loss
from dejacue_paper.learn.decoders.slots import Slots

QUERIES, TEXT_PROTOTYPES, VIDEO_PROTOTYPES, ROUNDS = 30, 5, 30, 5
SPREAD = 2.88  # 2σ², σ = 1.2
WALK = 0.5
HIDDEN = 2048  # with which the number of weights is the published one


def prototypes(start: Tensor, x: Tensor, there: Tensor) -> Tensor:
    """Return a soft clustering of the tokens that are there: (K, B, prototypes, width)."""
    mu, unit = start, F.normalize(x, dim=-1)
    for _ in range(ROUNDS):
        apart = 2 - 2 * F.normalize(mu, dim=-1) @ unit.transpose(-1, -2)
        share = (-apart / SPREAD).softmax(-2) * there[:, :, None]
        mu = (share / share.sum(-1, keepdim=True).clamp(min=1e-8)) @ x
    return mu


def walked(x: Tensor, there: Tensor, words: Tensor, as_published: bool) -> Tensor:
    """Return ½ (I − ¼A)⁻¹ (½ zᵀy + x), A = zᵀz̃: frames that reach each other over text prototypes
    y.

    A has rank 5, so that only a 5 × 5 matrix M = z̃zᵀ is inverted. Its rows sum to one: the series
    of ¼M converges. Published, the inverse is left out.
    """
    z = (5 * la.cosine(words, x)).softmax(-2) * there[:, :, None]
    even = z / z.sum(-1, keepdim=True).clamp(min=1e-8)
    mixed = WALK * z.transpose(-1, -2) @ words + x
    share = WALK**2
    if as_published:
        return (1 - WALK) * (mixed - share * z.transpose(-1, -2) @ (even @ mixed))
    power = share * even @ z.transpose(-1, -2)
    identity = torch.eye(power.shape[-1], dtype=x.dtype, device=x.device)
    inverse = identity + power
    for _ in range(3):  # (1 + P)(1 + P²)(1 + P⁴)(1 + P⁸); what is left is below 4⁻¹⁶
        power = power @ power
        inverse = inverse @ (identity + power)
    return (1 - WALK) * (mixed + share * z.transpose(-1, -2) @ (inverse @ (even @ mixed)))


class Convolution(nn.Module):
    """1-3-1 over neighbouring frames; the three taps are maps of shifted frames."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.first, self.last = Linear(members, WIDTH, WIDTH), Linear(members, WIDTH, WIDTH)
        self.taps = Linear(members, 3 * WIDTH, WIDTH)

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        h = self.first(x).relu() * there[..., None]
        near = [F.pad(h, (0, 0, 1, 0))[:, :, :-1], h, F.pad(h, (0, 0, 0, 1))[:, :, 1:]]
        out: Tensor = x + self.last(self.taps(torch.cat(near, -1)).relu())
        return out


class UVCOM(core.RivalModel):
    turns = (0.4,)

    def __init__(self, members: int, dimension: int, as_published: bool = False) -> None:
        super().__init__(members, dimension, as_published)
        self.asking = nn.ModuleList(la.CrossLayer(members, HIDDEN) for _ in range(3))
        self.telling = nn.ModuleList(la.CrossLayer(members, HIDDEN) for _ in range(3))
        self.text_norm, self.text_map = Norm(members), Linear(members, WIDTH, WIDTH)
        self.of_text = Table(members, TEXT_PROTOTYPES)
        self.of_video = Table(members, VIDEO_PROTOTYPES)
        self.convolution = Convolution(members)
        self.encoder = core.encoder(members, 3, "prelu", HIDDEN)
        self.slots = Slots(members, ROUNDS, thinking=False)
        self.queries = Table(members, QUERIES)
        self.decoder = core.AnchorDecoder(members, 3, QUERIES, after=True)
        self.of_frame, self.of_all = Linear(members, WIDTH, WIDTH), Linear(members, WIDTH, WIDTH)

    def encode(self, batch: TrainingBatch, words: Tensor, spoken: Tensor) -> dict[str, Tensor]:
        seen, heard, pos = self.see(batch.video), self.hear(words), la.positions(batch.frames)
        many, x, tokens = seen.shape[1], seen, heard
        for layer in self.asking:
            x, _ = layer(x, pos, heard, spoken)
        for layer in self.telling:
            tokens, _ = layer(tokens, torch.zeros_like(tokens), seen + pos, batch.frames)
        text = la.masked_mean(self.text_norm(self.text_map(tokens)), spoken)
        y = prototypes(self.of_text(many), tokens, spoken)
        v = prototypes(self.of_video(many), x, batch.frames)
        x = x + walked(self.convolution(x, batch.frames), batch.frames, y, self.as_published)
        best = la.cosine(v, y).mean(-1).argmax(-1)
        token = la.picked(best, VIDEO_PROTOTYPES)[:, :, None] @ v
        place = torch.zeros_like(token)
        hidden = core.through(self.encoder, *core.before(token, place, x, pos, batch.frames))
        memory, token = hidden[:, :, 1:], hidden[:, :, :1]
        saliency = (self.of_frame(memory) * self.of_all(token)).sum(-1) / WIDTH**0.5
        return {
            "memory": memory,
            "pos": pos,
            "text": text,
            "all": token[:, :, 0],
            "saliency": saliency,
        }

    def salient(self, batch: TrainingBatch, words: Tensor, spoken: Tensor, phase: int) -> Tensor:
        return self.encode(batch, words, spoken)["saliency"]

    def read(self, batch: TrainingBatch, phase: int) -> Output:
        known = self.encode(batch, batch.words, batch.spoken)
        start = known["text"][:, :, None].expand(-1, -1, QUERIES, -1)
        slots = self.slots(start, known["memory"], batch.frames) + self.queries(start.shape[1])
        spans, logits, _ = self.decoder(known["memory"], known["pos"], batch.frames, slots)
        return Output(spans, logits, known["saliency"], known)

    def rivals(self, batch: TrainingBatch, phase: int) -> Tensor:
        """Return the least similar text of the batch in later epochs, instead of the next one."""
        if phase == 0:
            return batch.rival
        targets = batch.words[:, :, 0]
        apart = (batch.weight == 0)[:, None, :] | batch.same
        near = la.cosine(targets, targets)
        diagonal = torch.eye(near.shape[-1], dtype=torch.bool, device=near.device)
        return near.masked_fill(apart | diagonal, torch.inf).argmin(-1)

    def loss(self, batch: TrainingBatch, output: Output, phase: int) -> Tensor:
        known = output.extra
        pairs = both_ways(la.cosine(known["all"], known["text"]), batch)
        near = la.cosine(known["memory"], known["text"][:, :, None])[..., 0]
        log = near.masked_fill(~batch.frames, -torch.inf).log_softmax(-1)
        values = -log.masked_fill(~batch.frames, 0)
        clips = average(values, batch.inside * batch.weight[..., None])
        return (
            set_loss(output, batch)
            + self.saliency_loss(batch, output, phase)
            + 0.5 * pairs
            + 0.5 * clips
        )
