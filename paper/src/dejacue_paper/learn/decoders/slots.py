"""Slot attention: a few vectors divide the frames among themselves."""

from __future__ import annotations

from torch import Tensor, nn

from dejacue_paper.learn.decoders import layers as la
from dejacue_paper.learn.decoders.layers import WIDTH, Linear, Norm


class Slots(nn.Module):
    """Slot attention; rounds of: softmax over slots, renormalised over frames; slot += update
    (+= MLP)."""

    def __init__(self, members: int, rounds: int, thinking: bool) -> None:
        super().__init__()
        self.rounds = rounds
        self.norm_x, self.norm_slot = Norm(members), Norm(members)
        self.norm_think = Norm(members)
        self.q, self.k, self.v = (Linear(members, WIDTH, WIDTH, init="xavier") for _ in range(3))
        self.think = la.MLP(members, (WIDTH, WIDTH, WIDTH), "xavier") if thinking else None

    def forward(self, slots: Tensor, x: Tensor, there: Tensor) -> Tensor:
        x = self.norm_x(x)
        k, v = self.k(x), self.v(x)
        for _ in range(self.rounds):
            logits = self.q(self.norm_slot(slots)) @ k.transpose(-1, -2) / WIDTH**0.5
            share = logits.softmax(-2) * there[:, :, None]
            slots = slots + (share / share.sum(-1, keepdim=True).clamp(min=1e-8)) @ v
            if self.think is not None:
                slots = slots + self.think(self.norm_think(slots))
        if self.think is None:
            slots = self.norm_think(slots)
        return slots
