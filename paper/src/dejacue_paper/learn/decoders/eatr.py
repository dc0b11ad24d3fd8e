"""EaTR: slots that divide the frames into events are the queries."""

from __future__ import annotations

import torch
from torch import Tensor

from dejacue_paper.learn.decoders import core
from dejacue_paper.learn.decoders import layers as la
from dejacue_paper.learn.decoders.layers import WIDTH, Linear
from dejacue_paper.learn.decoders.losses import (
    GIOU,
    L1,
    Output,
    TrainingBatch,
    average,
    hinge,
    overlaps,
    set_loss,
)
from dejacue_paper.learn.decoders.matcher import assign
from dejacue_paper.learn.decoders.slots import Slots

QUERIES, EVENTS = 10, 3.0


class EventDecoder(core.AnchorDecoder):
    """The first layer mixes the text into the queries; one head refines and outputs."""

    sine_width = WIDTH

    def __init__(self, members: int) -> None:
        super().__init__(members, 2, QUERIES, "relu")
        del self.anchors, self.span  # slots give the anchors, ``refine`` the spans
        self.refine = la.MLP(members, (WIDTH, WIDTH, WIDTH, 2), last="zero")
        self.asking, self.among_queries = la.Attention(members, 1), la.Attention(members, 1)
        self.gate = Linear(members, WIDTH, WIDTH, init="xavier")
        self.text: Tensor | None = None

    def near(self, places: Tensor, h: Tensor, at: Tensor, layer: int) -> Tensor:
        return super().near(places[..., :WIDTH], h, at, layer)

    def among(self, layer: int, h: Tensor, place: Tensor, at: Tensor) -> Tensor:
        h = super().among(layer, h, place, at)
        if layer or self.text is None:
            return h
        attended, _ = self.asking(h, self.text, self.text, None)
        q = h + attended
        mixed, _ = self.among_queries(q, q, q, None)
        out: Tensor = h + self.gate((h * attended).sigmoid() * mixed).relu()
        return out

    def spans(self, read: Tensor, anchor: Tensor, moved: Tensor) -> Tensor:
        out: Tensor = (self.refine(read) + la.unsigmoid(anchor)).sigmoid()
        return out


class EaTR(core.DecoderModel):
    def __init__(self, members: int, dimension: int, as_published: bool = False) -> None:
        super().__init__(members, dimension, as_published)
        self.encoder = core.encoder(members, 2, "relu")
        self.queries = la.Table(members, QUERIES)
        self.slots = Slots(members, 3, thinking=True)
        self.event_span = la.MLP(members, (WIDTH, WIDTH, WIDTH, 2))
        self.decoder = EventDecoder(members)
        self.salient = Linear(members, WIDTH, 1)

    def read(self, batch: TrainingBatch, phase: int) -> Output:
        seen, heard, frame_pos = self.see(batch.video), self.hear(batch.words), None
        frame_pos = la.positions(batch.frames)
        there = torch.cat([batch.frames, batch.spoken], -1)
        pos = torch.cat([frame_pos, torch.zeros_like(heard)], 2)
        memory = core.through(self.encoder, torch.cat([seen, heard], 2), pos, there)
        slots = self.slots(self.queries(seen.shape[1]), seen + frame_pos, batch.frames)
        events = self.event_span(slots).sigmoid()
        hidden = heard.masked_fill(~batch.spoken[..., None], -torch.inf)
        self.decoder.text = hidden.amax(2, keepdim=True)
        spans, logits, _ = self.decoder(memory, pos, there, slots, events)
        saliency = self.salient(memory[:, :, : seen.shape[2]])[..., 0]
        return Output(spans, logits, saliency, {"events": events})

    def loss(self, batch: TrainingBatch, output: Output, phase: int) -> Tensor:
        slots = output.extra["events"]
        apart = (slots[..., :, None, :] - batch.events[..., None, :, :]).abs()
        over = 1 - overlaps(slots[..., :, None, :], batch.events[..., None, :, :])[1]
        match = assign(L1 * apart.sum(-1) + GIOU * over, batch.parted).transpose(-1, -2)
        paired = match * batch.weight[..., None, None]
        event_loss = L1 * average(apart.mean(-1), paired) + GIOU * average(over, paired)
        return set_loss(output, batch) + hinge(output.saliency, batch) + EVENTS * event_loss
