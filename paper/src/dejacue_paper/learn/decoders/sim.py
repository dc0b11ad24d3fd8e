"""Sim-DETR: queries that claim the same moment damp each other; scores are class times overlap."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dejacue_paper.learn.decoders import core
from dejacue_paper.learn.decoders import layers as la
from dejacue_paper.learn.decoders.layers import WIDTH, Linear
from dejacue_paper.learn.decoders.losses import (
    CLASS,
    GIOU,
    L1,
    Output,
    TrainingBatch,
    average,
    ends,
    hinge,
    overlaps,
    rank,
    set_terms,
)
from dejacue_paper.learn.decoders.tr import TRDETR

MASK, IOU = 6.0, 2.0


class RankedDecoder(core.AnchorDecoder):
    """From the second layer on, attention among queries is scaled by how they rank and overlap."""

    def __init__(self, members: int) -> None:
        super().__init__(members, 4, 10)
        self.damp = la.MLP(members, (1, 16, 1), "xavier")
        self.overlap = Linear(members, WIDTH, 1)
        self.ranked: Tensor | None = None

    def known(self, spans: Tensor, logits: Tensor, read: Tensor) -> None:
        score = (logits[..., 0].sigmoid() * self.overlap(read)[..., 0].sigmoid()).detach()
        sign = torch.where(score[..., :, None] >= score[..., None, :], 1.0, -1.0)
        both = torch.stack(ends(spans.detach()), -1)
        apart = ((both[..., :, None, :] - both[..., None, :, :]) ** 2).mean(-1)
        self.ranked = sign * (1 - apart)

    def among(self, layer: int, h: Tensor, place: Tensor, at: Tensor) -> Tensor:
        many = h.shape[2]
        ranked = h.new_zeros(*h.shape[:2], many, many) if layer == 0 else self.ranked
        assert ranked is not None
        damp = self.damp(ranked.flatten(2)[..., None]).sigmoid().view(*h.shape[:2], many, many)
        out: Tensor = self.layers[layer].among(h, place, damp)
        return out


class SimDETR(TRDETR):
    slower = 0.5

    def build(self, members: int) -> None:
        self.decoder: Any = RankedDecoder(members)
        self.mask = la.MLP(members, (WIDTH, WIDTH, WIDTH, WIDTH))
        self.sharpness = nn.Parameter(torch.full((members,), math.log(1 / 0.07)))

    def read(self, batch: TrainingBatch, phase: int) -> Output:
        known = self.encode(batch)
        memory = known["memory"]
        content = known["heard"][:, :, :1].expand(-1, -1, 10, -1)
        spans, logits, states = self.decoder(memory, known["pos"], batch.frames, content)
        known["overlap"] = torch.stack([self.decoder.overlap(state)[..., 0] for state in states])
        sharp = self.sharpness.exp()[:, None, None, None]
        masks = [
            (sharp * la.cosine(state + self.mask(state), memory)).sigmoid() for state in states
        ]
        known["masks"] = torch.stack(masks) * batch.frames[:, :, None]
        return Output(spans, logits, self.salient(memory), known)

    def scores(self, output: Output) -> Tensor:
        return super().scores(output) * output.extra["overlap"][-1].sigmoid()

    def loss(self, batch: TrainingBatch, output: Output, phase: int) -> Tensor:
        known = output.extra
        apart = self.unlike(known["masks"], batch)  # (layers, K, B, Q, G)
        near, over, named, match = set_terms(output, batch, focal=True, extra=MASK * apart.detach())
        total = L1 * near + GIOU * over + CLASS * named
        paired = match.transpose(-1, -2) * batch.weight[:, :, None, None]
        for apart_of_layer, matched in zip(apart[:-1], paired[:-1], strict=True):
            total = total + MASK * average(apart_of_layer, matched)
        true = overlaps(output.spans[..., :, None, :], batch.spans[:, :, None])[0]
        best = (true * batch.true[:, :, None]).amax(-1).detach()
        for predicted, expected in zip(known["overlap"], best, strict=True):
            error = F.mse_loss(predicted.sigmoid(), expected, reduction="none").mean(-1)
            total = total + IOU * average(error, batch.weight)
        shining = hinge(output.saliency, batch) + rank(output.saliency, batch)
        return total + shining + self.alignment(batch, known, known["heard"][:, :, 0])

    def unlike(self, masks: Tensor, batch: TrainingBatch) -> Tensor:
        """Return 1 − soft overlap of frame masks with the targets."""
        first, last = (end[..., None] for end in ends(batch.spans))
        count = batch.frames.sum(-1)[..., None, None]
        at = (torch.arange(masks.shape[-1], device=masks.device) + 0.5) / count
        expected = ((first <= at) & (at < last) & batch.frames[:, :, None]).to(masks.dtype)
        shared = masks @ expected.transpose(-1, -2)
        union = masks.sum(-1)[..., None] + expected.sum(-1)[..., None, :] - shared
        return 1 - shared / union.clamp(min=1e-6)
