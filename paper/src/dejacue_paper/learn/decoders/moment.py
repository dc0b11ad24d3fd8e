"""Moment-DETR: one encoder over frames and words, a plain decoder with learned queries."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dejacue_paper.learn.decoders import core
from dejacue_paper.learn.decoders import layers as la
from dejacue_paper.learn.decoders.layers import WIDTH, Norm
from dejacue_paper.learn.decoders.losses import Output, TrainingBatch

QUERIES = 10


class PlainLayer(nn.Module):
    """Self-attention, cross-attention, feed-forward; positions are added to queries and keys."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.own, self.cross = la.Attention(members), la.Attention(members)
        self.forward_part = la.FeedForward(members, "relu")
        self.norms = nn.ModuleList(Norm(members) for _ in range(3))

    def forward(
        self, h: Tensor, place: Tensor, memory: Tensor, pos: Tensor, there: Tensor
    ) -> Tensor:
        q = h + place
        h = self.norms[0](h + la.drop(self.own(q, q, h, None)[0], self))
        h = self.norms[1](h + la.drop(self.cross(h + place, memory + pos, memory, there)[0], self))
        out: Tensor = self.norms[2](h + la.drop(self.forward_part(h), self))
        return out


class MomentDETR(core.DecoderModel):
    def __init__(self, members: int, dimension: int, as_published: bool = False) -> None:
        super().__init__(members, dimension, as_published)
        self.encoder = core.encoder(members, 2, "relu")
        self.queries = la.Table(members, QUERIES)
        self.decoder = nn.ModuleList(PlainLayer(members) for _ in range(2))
        self.norm = Norm(members)
        self.span = la.MLP(members, (WIDTH, WIDTH, WIDTH, 2))
        self.named = la.Linear(members, WIDTH, 2)
        self.salient = la.Linear(members, WIDTH, 1)

    def read(self, batch: TrainingBatch, phase: int) -> Output:
        seen, heard = self.see(batch.video), self.hear(batch.words)
        there = torch.cat([batch.frames, batch.spoken], -1)
        pos = torch.cat([la.positions(batch.frames), torch.zeros_like(heard)], 2)
        memory = core.through(self.encoder, torch.cat([seen, heard], 2), pos, there)
        place = self.queries(seen.shape[1])
        h, spans, logits = torch.zeros_like(place), [], []
        for layer in self.decoder:
            h = layer(h, place, memory, pos, there)
            read = self.norm(h)
            spans.append(self.span(read).sigmoid())
            logits.append(self.named(read))
        saliency = self.salient(memory[:, :, : seen.shape[2]])[..., 0]
        return Output(torch.stack(spans), torch.stack(logits), saliency)
