"""CG-DETR: dummies take the attention that no word deserves; what is left is supervised."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dejacue_paper.learn.decoders import core
from dejacue_paper.learn.decoders import layers as la
from dejacue_paper.learn.decoders.layers import WIDTH, Linear, Table
from dejacue_paper.learn.decoders.losses import (
    Output,
    TrainingBatch,
    average,
    frame_entropy,
    of_rival,
    set_loss,
)

DUMMIES, PROMPTS, CHOSEN = 45, 10, 2


class CGDETR(core.RivalModel):
    """Attention of frames has no map after it, and saliency one map for both sides: with these the
    number of weights is the published one."""

    def __init__(self, members: int, dimension: int, as_published: bool = False) -> None:
        super().__init__(members, dimension, as_published)
        self.kinds = Table(members, 2)
        self.dummies, self.dummy_place = Table(members, DUMMIES), Table(members, DUMMIES)
        self.mixing = core.encoder(members, 2, "prelu")
        self.asking: Any = nn.ModuleList(
            la.CrossLayer(members, out=False, path=0.1) for _ in range(2)
        )
        self.prompts = Table(members, PROMPTS)
        self.place = Table(members, 1)
        self.encoder = core.encoder(members, 3, "prelu")
        self.of_moment, self.of_sentence = Table(members, 2), Table(members, 1)
        self.moment_layer = la.EncoderLayer(members, "prelu")
        self.sentence_layer = la.EncoderLayer(members, "prelu")
        self.decoder = core.AnchorDecoder(members, 3, 10)
        self.shared = Linear(members, WIDTH, WIDTH)

    def encode(self, batch: TrainingBatch, words: Tensor, spoken: Tensor) -> dict[str, Tensor]:
        many = batch.video.shape[1]
        kinds = self.kinds(many)
        seen = self.see(batch.video) + kinds[:, :, :1]
        heard = self.hear(words) + kinds[:, :, 1:]
        pos, dummies = la.positions(batch.frames), self.dummies(many)
        both_there = F.pad(spoken, (DUMMIES, 0), value=True)
        both_pos = torch.cat([self.dummy_place(many), torch.zeros_like(heard)], 2)
        mixed = core.through(self.mixing, torch.cat([dummies, heard], 2), both_pos, both_there)
        dummies = mixed[:, :, :DUMMIES]
        keys = torch.cat([dummies, heard], 2)
        x, weights = seen, []
        for layer in self.asking:
            x, layer_weights = layer(x, pos, keys, both_there, DUMMIES)
            weights.append(layer_weights.mean(2))
        attention = torch.stack(weights).mean(0)  # (K, B, T, dummies + words)
        mass = attention[..., DUMMIES:].sum(-1)
        token = self.first_token(seen, mass, batch.frames)
        for layer in self.asking:
            token = layer.alone(token)
        hidden = core.through(
            self.encoder, *core.before(token, self.place(many), x, pos, batch.frames)
        )
        memory = hidden[:, :, 1:] + hidden[:, :, :1]
        salient = (self.shared(hidden[:, :, 1:]) * self.shared(hidden[:, :, :1])).sum(-1)
        return {
            "seen": seen,
            "heard": heard,
            "dummies": dummies,
            "attention": attention,
            "mass": mass,
            "memory": memory,
            "pos": pos,
            "saliency": salient / WIDTH**0.5,
        }

    def first_token(self, seen: Tensor, mass: Tensor, there: Tensor) -> Tensor:
        """Return the mean frame and the two prompts that fit the frames best: (K, B, 1, width)."""
        mean = la.masked_mean(seen, there)[:, :, None].detach()
        prompts = self.prompts(seen.shape[1])
        fit = la.cosine(seen - mean, prompts).softmax(-1) * mass.detach()[..., None]
        fit = la.masked_mean(fit, there)
        best, at = fit.topk(CHOSEN, dim=-1)
        chosen = la.picked(at, PROMPTS) @ prompts
        out: Tensor = mean + (best[..., None] * chosen).sum(2, keepdim=True)
        return out

    def read(self, batch: TrainingBatch, phase: int) -> Output:
        known = self.encode(batch, batch.words, batch.spoken)
        spans, logits, _ = self.decoder(known["memory"], known["pos"], batch.frames)
        return Output(spans, logits, known["saliency"], known)

    def loss(self, batch: TrainingBatch, output: Output, phase: int) -> Tensor:
        known, rival = output.extra, batch.rival
        wrong = self.encode(batch, of_rival(batch.words, rival), of_rival(batch.spoken, rival))
        mass, rival_mass = (
            attention["mass"].clamp(1e-6, 1 - 1e-6).logit() for attention in (known, wrong)
        )
        return (
            set_loss(output, batch)
            + self.three(output.saliency, wrong["saliency"], batch)
            + self.three(mass, rival_mass, batch)
            + frame_entropy(mass, batch)
            + self.aligned(known, batch)
            + self.distilled(known, batch)
            + self.apart(self.dummies.rows)
            + self.apart(self.prompts.rows)
        )

    def aligned(self, known: dict[str, Tensor], batch: TrainingBatch) -> Tensor:
        """Return the loss that draws a moment to its own sentence, and what is outside it to that
        of the dummies."""
        seen, pos, many = known["seen"], known["pos"], batch.video.shape[1]
        inside = batch.inside > 0
        tokens, sentence = self.of_moment(many), self.of_sentence(many)
        place = torch.zeros_like(sentence)

        def summary(
            layer: nn.Module, token: Tensor, x: Tensor, at: Tensor, there: Tensor
        ) -> Tensor:
            out: Tensor = layer(*core.before(token, place, x, at, there))[:, :, 0]
            return out

        m = summary(self.moment_layer, tokens[:, :, :1], seen, pos, inside)
        n = summary(self.moment_layer, tokens[:, :, 1:], seen, pos, batch.frames & ~inside)
        heard, dummies = known["heard"], known["dummies"]
        spoken = summary(
            self.sentence_layer, sentence, heard, torch.zeros_like(heard), batch.spoken
        )
        always = torch.ones_like(dummies[..., 0], dtype=torch.bool)
        unsaid = summary(self.sentence_layer, sentence, dummies, torch.zeros_like(dummies), always)
        near = frame_entropy((m[:, :, None] * seen).sum(-1) / WIDTH**0.5, batch)
        return self.chosen(spoken, m, n, batch) + self.chosen(unsaid, n, m, batch) + near

    def chosen(
        self, sentence: Tensor, moment: Tensor, rival: Tensor, batch: TrainingBatch
    ) -> Tensor:
        """Return the cross-entropy over all of the batch, without those that are no negatives."""
        absent = (batch.weight == 0)[:, None, :].expand_as(batch.same)
        diagonal = torch.eye(batch.same.shape[-1], dtype=torch.bool, device=absent.device)
        similarity = la.cosine(sentence, moment).masked_fill(
            (absent | batch.same) & ~diagonal, -torch.inf
        )
        two = la.cosine(sentence, rival).masked_fill((absent | batch.same) & ~diagonal, -torch.inf)
        log = torch.cat([similarity, two], -1).log_softmax(-1)
        weight = batch.weight * (batch.inside.sum(-1) > 0)
        return average(-log.diagonal(dim1=-2, dim2=-1), weight)

    def distilled(self, known: dict[str, Tensor], batch: TrainingBatch) -> Tensor:
        """Return the loss that lets attention follow the similarity of frames to dummies and words,
        inside targets."""
        keys = torch.cat([known["dummies"], known["heard"]], 2)
        there = F.pad(batch.spoken, (DUMMIES, 0), value=True)[:, :, None]
        logits = (known["seen"] @ keys.transpose(-1, -2)).masked_fill(~there, -torch.inf)
        expected = logits.softmax(-1).detach()
        got = known["attention"].clamp(min=1e-8).log()
        values = (expected * (expected.clamp(min=1e-8).log() - got)).sum(-1)
        return average(values * batch.inside, batch.inside * batch.weight[..., None])

    def apart(self, rows: Tensor) -> Tensor:
        near = la.cosine(rows, rows).abs()
        count = rows.shape[1]
        return (near.sum((-1, -2)) - near.diagonal(dim1=-2, dim2=-1).sum(-1)) / (
            count * (count - 1)
        )
