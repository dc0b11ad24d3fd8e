"""TR-DETR: frames and words are fused first; saliency and spans refine each other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dejacue_paper.learn.decoders import core
from dejacue_paper.learn.decoders import layers as la
from dejacue_paper.learn.decoders.layers import WIDTH, Linear
from dejacue_paper.learn.decoders.losses import (
    Output,
    TrainingBatch,
    both_ways,
    ends,
    frame_entropy,
    hinge,
    rank,
    set_loss,
)

TEMPERATURE, CLIPS, PAIRS = 0.07, 0.5, 0.3


class Fuser(nn.Module):
    """Every frame with the words it is like, and with the frames that are like these words."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.of_frame = Linear(members, WIDTH, 1, bias=False, init="xavier")
        self.of_word = Linear(members, WIDTH, 1, bias=False, init="xavier")
        self.of_both = Linear(members, WIDTH, 1, bias=False, init="xavier")
        self.of_text = Linear(members, WIDTH, 1, bias=False, init="xavier")
        self.four = Linear(members, 4 * WIDTH, WIDTH, init="xavier")
        self.two = Linear(members, 2 * WIDTH, WIDTH, init="xavier")

    def forward(self, c: Tensor, q: Tensor, there: Tensor, spoken: Tensor) -> Tensor:
        both = (c * self.of_both.weight[:, :, None]) @ q.transpose(-1, -2)
        table = self.of_frame(c) + self.of_word(q).transpose(-1, -2) + both
        by_word = table.masked_fill(~spoken[:, :, None], -torch.inf).softmax(-1)
        by_frame = table.masked_fill(~there[..., None], -torch.inf).softmax(-2)
        a = by_word @ q
        b = by_word @ (by_frame.transpose(-1, -2) @ c)
        fused = self.four(torch.cat([c, a, c * a, c * b], -1))
        weight = self.of_text(q).masked_fill(~spoken[..., None], -torch.inf).softmax(-2)
        pooled = (weight * q).sum(2, keepdim=True).expand_as(fused)
        out: Tensor = self.two(torch.cat([fused, pooled], -1)).relu()
        return out


class GRU(nn.Module):
    """The last state after reading the frames from ``first`` to ``last``, inclusive."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.seen, self.kept = (Linear(members, WIDTH, 3 * WIDTH) for _ in range(2))

    def forward(self, x: Tensor, first: Tensor, last: Tensor) -> Tensor:
        projected = self.seen(x)
        h = torch.zeros_like(x[:, :, :1])
        for t in range(x.shape[2]):
            r, z, n = projected[:, :, t : t + 1].chunk(3, -1)
            hr, hz, hn = self.kept(h).chunk(3, -1)
            new = (n + (r + hr).sigmoid() * hn).tanh()
            update = (z + hz).sigmoid()
            inside = ((first <= t) & (t <= last))[:, :, None, None]
            h = torch.where(inside, (1 - update) * new + update * h, h)
        return h


class TRDETR(core.DecoderModel):
    family = "unique"
    focal = True

    def __init__(self, members: int, dimension: int, as_published: bool = False) -> None:
        super().__init__(members, dimension, as_published)
        self.fuse = Fuser(members)
        self.asking = nn.ModuleList(la.CrossLayer(members) for _ in range(2))
        self.encoder = core.encoder(members, 2, "prelu")
        self.shine = Linear(members, WIDTH, WIDTH)
        self.build(members)

    def build(self, members: int) -> None:
        self.decoder: Any = core.AnchorDecoder(members, 2, 10)
        self.gru = GRU(members)

    def encode(self, batch: TrainingBatch) -> dict[str, Tensor]:
        seen, heard, pos = self.see(batch.video), self.hear(batch.words), la.positions(batch.frames)
        x = self.fuse(seen, heard, batch.frames, batch.spoken)
        for layer in self.asking:
            x, _ = layer(x, pos, heard, batch.spoken)
        memory = core.through(self.encoder, x, pos, batch.frames)
        saliency = self.salient(memory)
        if not self.as_published:  # published, padding takes part
            saliency = saliency.masked_fill(~batch.frames, -torch.inf)
        memory = memory + saliency.softmax(-1)[..., None] * x
        memory = core.through(self.encoder, memory, pos, batch.frames)
        # the mean over target and siblings says little of the target
        text = la.masked_mean(heard, batch.spoken) if self.as_published else heard[:, :, 0]
        return {"seen": seen, "heard": heard, "pos": pos, "memory": memory, "text": text}

    def salient(self, memory: Tensor) -> Tensor:
        out: Tensor = self.shine(memory).sum(-1) / WIDTH**0.5
        return out

    def read(self, batch: TrainingBatch, phase: int) -> Output:
        known = self.encode(batch)
        memory = known["memory"]
        spans, logits, _ = self.decoder(memory, known["pos"], batch.frames)
        if not self.training:  # spans do not depend on what follows
            return Output(spans, logits, self.salient(memory), known)
        best = la.picked(logits[-1, ..., 0].argmax(-1, keepdim=True), spans.shape[-2])
        first, last = ends((best @ spans[-1].detach())[:, :, 0])
        count = batch.frames.sum(-1)
        last = ((last * count).round().long() - 1).clamp(min=0).minimum(count - 1)
        first = (first * count).round().long().clamp(min=0).minimum(last)
        moment = self.gru(known["seen"], first, last)
        gain = (moment * known["seen"]).sum(-1, keepdim=True)
        return Output(spans, logits, self.salient(memory * (1 + gain)), known)

    def alignment(self, batch: TrainingBatch, known: dict[str, Tensor], text: Tensor) -> Tensor:
        """Return the loss that draws frames inside to the text, and records to their own."""
        near = la.cosine(known["seen"], known["text"][:, :, None])[..., 0] / TEMPERATURE
        whole = la.masked_mean(known["seen"], batch.frames)
        pairs = both_ways(la.cosine(whole, text) / TEMPERATURE, batch)
        return CLIPS * frame_entropy(near, batch) + PAIRS * pairs

    def loss(self, batch: TrainingBatch, output: Output, phase: int) -> Tensor:
        return (
            set_loss(output, batch, focal=True)
            + hinge(output.saliency, batch)
            + rank(output.saliency, batch)
            + self.alignment(batch, output.extra, output.extra["text"])
        )
