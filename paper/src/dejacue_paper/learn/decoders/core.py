"""What the eight decoders share: the model they derive from and the anchor decoder."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dejacue_paper.learn.decoders import layers as la
from dejacue_paper.learn.decoders.layers import HEADS, WIDTH, Linear, Norm
from dejacue_paper.learn.decoders.losses import (
    Output,
    TrainingBatch,
    foreground,
    hinge,
    of_rival,
    rank,
    rejected,
    set_loss,
)


class DecoderModel(nn.Module):
    """A decoder: K members that read batches.

    family         how its batches are made when it is trained as published
    focal          whether classes are two sigmoids instead of a softmax
    turns          shares of the training after which it behaves otherwise
    most_frames    runs that are longer are resampled to so many
    averaged       decay per epoch of the average of the weights that is kept, or 0
    slower         share of the training after which the learning rate falls to a tenth
    """

    family: ClassVar[str] = "once"
    focal: ClassVar[bool] = False
    turns: ClassVar[tuple[float, ...]] = ()
    most_frames: ClassVar[int | None] = None
    averaged: ClassVar[float] = 0.0
    slower: ClassVar[float | None] = None

    def __init__(self, members: int, dimension: int, as_published: bool = False) -> None:
        super().__init__()
        self.members, self.dimension, self.as_published = members, dimension, as_published
        self.see = la.Projection(members, dimension + 2)
        self.hear = la.Projection(members, dimension + 1)

    def read(self, batch: TrainingBatch, phase: int) -> Output:
        raise NotImplementedError

    def loss(self, batch: TrainingBatch, output: Output, phase: int) -> Tensor:
        """Return the loss of each member, (K,)."""
        return set_loss(output, batch, focal=self.focal) + hinge(output.saliency, batch)

    def forward(self, batch: TrainingBatch, phase: int = 0) -> Output:
        return self.read(batch, phase)

    def scores(self, output: Output) -> Tensor:
        """Return (K, B, Q): how good each span of the last layer is."""
        return foreground(output.logits[-1], self.focal)


class RivalModel(DecoderModel):
    """A decoder whose saliency also learns from wrong texts: ``salient`` reads frames with any."""

    family = "cycle"

    def salient(self, batch: TrainingBatch, words: Tensor, spoken: Tensor, phase: int) -> Tensor:
        raise NotImplementedError

    def rivals(self, batch: TrainingBatch, phase: int) -> Tensor:
        return batch.rival

    def saliency_loss(self, batch: TrainingBatch, output: Output, phase: int) -> Tensor:
        rival = self.rivals(batch, phase)
        words, spoken = of_rival(batch.words, rival), of_rival(batch.spoken, rival)
        wrong = self.salient(batch, words, spoken, phase)
        return self.three(output.saliency, wrong, batch)

    def three(self, right: Tensor, wrong: Tensor, batch: TrainingBatch) -> Tensor:
        return (
            hinge(right, batch)
            + rank(right, batch, wrong)
            + rejected(wrong, batch, self.as_published)
        )

    def loss(self, batch: TrainingBatch, output: Output, phase: int) -> Tensor:
        return set_loss(output, batch) + self.saliency_loss(batch, output, phase)


class GlobalToken(nn.Module):
    """A learned token before the frames, with its own position."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.token, self.place = la.Table(members, 1), la.Table(members, 1)

    def forward(self, x: Tensor, pos: Tensor, there: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return before(self.token(x.shape[1]), self.place(x.shape[1]), x, pos, there)


def before(
    token: Tensor, place: Tensor, x: Tensor, pos: Tensor, there: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Put a token that is always there before the others."""
    return torch.cat([token, x], 2), torch.cat([place, pos], 2), F.pad(there, (1, 0), value=True)


def encoder(members: int, count: int, activation: str, hidden: int = la.HIDDEN) -> nn.ModuleList:
    return nn.ModuleList(la.EncoderLayer(members, activation, hidden) for _ in range(count))


def through(stack: nn.ModuleList, x: Tensor, pos: Tensor, there: Tensor) -> Tensor:
    for layer in stack:
        x = layer(x, pos, there)
    return x


class AnchorLayer(nn.Module):
    """Queries look at each other, then at the frames near their anchors."""

    def __init__(self, members: int, first: bool, activation: str) -> None:
        super().__init__()

        def maps(*names: str) -> nn.ModuleDict:
            return nn.ModuleDict(
                {name: Linear(members, WIDTH, WIDTH, init="xavier") for name in names}
            )

        self.own = maps("q", "q_place", "k", "k_place", "v", "out")
        self.cross = maps("q", "q_sine", "k", "k_place", "v", "out")
        self.q_place = Linear(members, WIDTH, WIDTH, init="xavier") if first else None
        self.forward_part = la.FeedForward(members, activation)
        self.norms = nn.ModuleList(Norm(members) for _ in range(3))

    def among(self, h: Tensor, place: Tensor, damp: Tensor | None = None) -> Tensor:
        """Apply self-attention; ``damp`` (K, B, Q, Q) multiplies the logits."""
        maps = self.own
        q = la.heads(maps["q"](h) + maps["q_place"](place))
        k = la.heads(maps["k"](h) + maps["k_place"](place))
        logits = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        if damp is not None:
            logits = logits * damp[:, :, None]
        used, _ = la.weigh(logits, None, self.training)
        attended = maps["out"](la.joined(used @ la.heads(maps["v"](h))))
        out: Tensor = self.norms[0](h + la.drop(attended, self))
        return out

    def at_frames(
        self, h: Tensor, place: Tensor, near: Tensor, memory: Tensor, pos: Tensor, there: Tensor
    ) -> Tensor:
        maps = self.cross
        q, k, where = maps["q"](h), maps["k"](memory), maps["k_place"](pos)
        if self.q_place is not None:
            q, k = q + self.q_place(place), k + where
        asked = torch.cat([la.heads(q), la.heads(maps["q_sine"](near))], -1)
        known = torch.cat([la.heads(k), la.heads(where)], -1)
        logits = asked @ known.transpose(-1, -2) / math.sqrt(2 * WIDTH // HEADS)
        used, _ = la.weigh(logits, there, self.training)
        attended = maps["out"](la.joined(used @ la.heads(maps["v"](memory))))
        h = self.norms[1](h + la.drop(attended, self))
        out: Tensor = self.norms[2](h + la.drop(self.forward_part(h), self))
        return out


class AnchorDecoder(nn.Module):
    """Queries with an anchor (centre, width) that every layer moves.

    after    spans come from the anchor after the layer instead of the one before it
    """

    sine_width: ClassVar[int] = WIDTH // 2  # per coordinate

    def __init__(
        self,
        members: int,
        count: int,
        queries: int,
        activation: str = "prelu",
        after: bool = False,
    ) -> None:
        super().__init__()
        self.after = after
        self.anchors = la.Table(members, queries, 2)
        self.layers: Any = nn.ModuleList(
            AnchorLayer(members, k == 0, activation) for k in range(count)
        )
        self.point = la.MLP(members, (2 * self.sine_width, WIDTH, WIDTH), "xavier")
        self.scale = la.MLP(members, (WIDTH, WIDTH, WIDTH), "xavier")
        self.width = la.MLP(members, (WIDTH, WIDTH, 1), "xavier")
        self.refine = la.MLP(members, (WIDTH, WIDTH, WIDTH, 2), "xavier")
        self.norm = Norm(members)
        self.span = la.MLP(members, (WIDTH, WIDTH, WIDTH, 2))
        self.named = Linear(members, WIDTH, 2)

    def first(self, batch: int) -> Tensor:
        """Return the anchors to begin with: (K, B, Q, 2)."""
        out: Tensor = self.anchors(batch).sigmoid()
        return out

    def near(self, places: Tensor, h: Tensor, at: Tensor, layer: int) -> Tensor:
        """Return where a query looks, scaled by what it expects of its width."""
        scaled = places * self.scale(h) if layer else places
        out: Tensor = scaled * self.width(h).sigmoid() / at[..., 1:].clamp(min=la.MIN_COORDINATE)
        return out

    def among(self, layer: int, h: Tensor, place: Tensor, at: Tensor) -> Tensor:
        out: Tensor = self.layers[layer].among(h, place)
        return out

    def forward(
        self,
        memory: Tensor,
        pos: Tensor,
        there: Tensor,
        content: Tensor | None = None,
        anchor: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return spans and logits (layers, K, B, Q, 2), and the queries (layers, K, B, Q,
        width)."""
        anchor = self.first(memory.shape[1]) if anchor is None else anchor
        h = memory.new_zeros(*anchor.shape[:-1], WIDTH) if content is None else content
        spans, logits, states = [], [], []
        for k, layer in enumerate(self.layers):
            at = anchor.detach() if k else anchor
            places = la.sine(2 * math.pi * at, self.sine_width).flatten(-2)
            place = self.point(places)
            near = self.near(places, h, at, k)
            h = self.among(k, h, place, at)
            h = layer.at_frames(h, place, near, memory, pos, there)
            moved = (self.refine(h) + la.unsigmoid(at)).sigmoid()
            read = self.norm(h)
            spans.append(self.spans(read, moved if self.after else anchor, moved))
            logits.append(self.named(read))
            states.append(read)
            anchor = moved
            self.known(spans[-1], logits[-1], read)
        return torch.stack(spans), torch.stack(logits), torch.stack(states)

    def spans(self, read: Tensor, anchor: Tensor, moved: Tensor) -> Tensor:
        out: Tensor = (self.span(read) + la.unsigmoid(anchor)).sigmoid()
        return out

    def known(self, spans: Tensor, logits: Tensor, read: Tensor) -> None:
        """Return what a layer found, for a decoder whose next layer looks at it."""
