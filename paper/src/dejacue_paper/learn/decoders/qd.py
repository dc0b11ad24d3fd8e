"""QD-DETR: frames ask the words first, and a global token decides what is salient."""

from __future__ import annotations

from torch import Tensor, nn

from dejacue_paper.learn.decoders import core
from dejacue_paper.learn.decoders import layers as la
from dejacue_paper.learn.decoders.layers import WIDTH, Linear
from dejacue_paper.learn.decoders.losses import Output, TrainingBatch


class QDDETR(core.RivalModel):
    def __init__(self, members: int, dimension: int, as_published: bool = False) -> None:
        super().__init__(members, dimension, as_published)
        self.asking = nn.ModuleList(la.CrossLayer(members) for _ in range(2))
        self.token = core.GlobalToken(members)
        self.encoder = core.encoder(members, 2, "prelu")
        self.decoder = core.AnchorDecoder(members, 2, 10)
        self.of_frame, self.of_all = Linear(members, WIDTH, WIDTH), Linear(members, WIDTH, WIDTH)

    def encode(
        self, batch: TrainingBatch, words: Tensor, spoken: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return frames that know the words, their positions, and their saliency."""
        x, pos, heard = self.see(batch.video), la.positions(batch.frames), self.hear(words)
        for layer in self.asking:
            x, _ = layer(x, pos, heard, spoken)
        hidden = core.through(self.encoder, *self.token(x, pos, batch.frames))
        memory = hidden[:, :, 1:]
        saliency = (self.of_frame(memory) * self.of_all(hidden[:, :, :1])).sum(-1) / WIDTH**0.5
        return memory, pos, saliency

    def salient(self, batch: TrainingBatch, words: Tensor, spoken: Tensor, phase: int) -> Tensor:
        return self.encode(batch, words, spoken)[2]

    def read(self, batch: TrainingBatch, phase: int) -> Output:
        memory, pos, saliency = self.encode(batch, batch.words, batch.spoken)
        spans, logits, _ = self.decoder(memory, pos, batch.frames)
        return Output(spans, logits, saliency)
