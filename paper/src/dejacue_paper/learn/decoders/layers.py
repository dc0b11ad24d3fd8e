"""Layers whose parameters have a first axis for members: one model per seed, trained side by side.

Activations are (members, batch, tokens, width). Members share no parameter, so the gradient of the
sum of their losses is the gradient of each, and one step of five seeds costs little more than one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, HEADS, HIDDEN, DROPOUT = 256, 8, 1024, 0.1
MIN_COORDINATE = 1e-3  # of a coordinate before its inverse sigmoid


class Start(nn.Module):
    """A module that fills the parameters of one member from a generator."""

    def start(self, member: int, random: torch.Generator) -> None:
        raise NotImplementedError


def start(model: nn.Module, seeds: Sequence[int]) -> None:
    """Initialise every member from its own seed, as if it were alone."""
    with torch.no_grad():
        for member, seed in enumerate(seeds):
            random = torch.Generator().manual_seed(seed)
            for module in model.modules():
                if isinstance(module, Start):
                    module.start(member, random)


class Linear(Start):
    """A linear map per member. init: "default" (uniform by fan-in), "xavier", or "zero"."""

    def __init__(
        self, members: int, inputs: int, outputs: int, *, bias: bool = True, init: str = "default"
    ) -> None:
        super().__init__()
        self.init = init
        self.weight = nn.Parameter(torch.zeros(members, outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(members, outputs)) if bias else None

    def start(self, member: int, random: torch.Generator) -> None:
        outputs, inputs = self.weight.shape[1:]
        bound = 1 / math.sqrt(inputs)
        if self.init == "zero":
            return
        if self.bias is not None:
            self.bias[member].uniform_(-bound, bound, generator=random)
        if self.init == "xavier":
            bound = math.sqrt(6 / (inputs + outputs))
        self.weight[member].uniform_(-bound, bound, generator=random)

    def forward(self, x: Tensor) -> Tensor:
        flat, weight = x.flatten(1, -2), self.weight.transpose(1, 2)
        if self.bias is None:
            out = torch.bmm(flat, weight)
        else:
            out = torch.baddbmm(self.bias[:, None], flat, weight)
        return out.view(*x.shape[:-1], -1)


class Table(Start):
    """Learned vectors (members, rows, width), normally distributed."""

    def __init__(self, members: int, rows: int, width: int = WIDTH) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.zeros(members, rows, width))

    def start(self, member: int, random: torch.Generator) -> None:
        self.rows[member].normal_(generator=random)

    def forward(self, batch: int) -> Tensor:
        """Return the table for every record of a batch: (members, batch, rows, width)."""
        return self.rows[:, None].expand(-1, batch, -1, -1)


class Norm(nn.Module):
    """Applies LayerNorm over the last axis."""

    def __init__(self, members: int, width: int = WIDTH) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(members, width))
        self.bias = nn.Parameter(torch.zeros(members, width))

    def forward(self, x: Tensor) -> Tensor:
        shape = (len(self.weight), *([1] * (x.dim() - 2)), -1)
        normal = F.layer_norm(x, x.shape[-1:])
        return normal * self.weight.view(shape) + self.bias.view(shape)


class PReLU(nn.Module):
    def __init__(self, members: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((members,), 0.25))

    def forward(self, x: Tensor) -> Tensor:
        slope = self.weight.view(-1, *([1] * (x.dim() - 1)))
        return x.clamp(min=0) + slope * x.clamp(max=0)


class MLP(nn.Module):
    """Applies linear layers with ReLU between; last: how the last one starts."""

    def __init__(
        self, members: int, widths: Sequence[int], init: str = "default", last: str | None = None
    ) -> None:
        super().__init__()
        pairs = list(pairwise(widths))
        inits = [init] * (len(pairs) - 1) + [last or init]
        self.layers = nn.ModuleList(
            Linear(members, a, b, init=init) for (a, b), init in zip(pairs, inits, strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        out: Tensor = self.layers[-1](x)
        return out


class Projection(nn.Module):
    """From features to the width of the model: twice LayerNorm, dropout, linear."""

    def __init__(self, members: int, inputs: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([Norm(members, inputs), Norm(members)])
        self.maps = nn.ModuleList([Linear(members, inputs, WIDTH), Linear(members, WIDTH, WIDTH)])

    def forward(self, x: Tensor) -> Tensor:
        for k in range(2):
            x = self.maps[k](F.dropout(self.norms[k](x), 0.5, self.training))
            x = x if k else x.relu()
        return x


class FeedForward(nn.Module):
    def __init__(self, members: int, activation: str, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.first = Linear(members, WIDTH, hidden, init="xavier")
        self.second = Linear(members, hidden, WIDTH, init="xavier")
        self.activation = PReLU(members) if activation == "prelu" else nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(self.activation(self.first(x)), DROPOUT, self.training)
        out: Tensor = self.second(x)
        return out


def heads(x: Tensor, count: int = HEADS) -> Tensor:
    """Split (K, B, T, width) into (K, B, heads, T, width / heads)."""
    return x.reshape(*x.shape[:-1], count, -1).transpose(2, 3)


def weigh(logits: Tensor, there: Tensor | None, training: bool) -> tuple[Tensor, Tensor]:
    """Return attention over the tokens that are there: with dropout, and as it is."""
    if there is not None:
        logits = logits.masked_fill(~there[:, :, None, None], -torch.inf)
    weights = logits.softmax(-1)
    return F.dropout(weights, DROPOUT, training), weights


def joined(x: Tensor) -> Tensor:
    """Join what ``heads`` has split."""
    return x.transpose(2, 3).flatten(-2)


class Attention(nn.Module):
    """Multi-head attention; values of the first ``silent`` keys are left out of the sum."""

    def __init__(self, members: int, count: int = HEADS, out: bool = True) -> None:
        super().__init__()
        self.count = count
        self.q, self.k, self.v = (Linear(members, WIDTH, WIDTH, init="xavier") for _ in range(3))
        self.out = Linear(members, WIDTH, WIDTH, init="xavier") if out else nn.Identity()

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, there: Tensor | None, silent: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Return the answer, and the weights (K, B, heads, queries, keys) before dropout."""
        q, k, v = (
            heads(m(x), self.count) for m, x in ((self.q, query), (self.k, key), (self.v, value))
        )
        logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        used, weights = weigh(logits, there, self.training)
        return self.out(joined(used[..., silent:] @ v[..., silent:, :])), weights


class EncoderLayer(nn.Module):
    """Applies self-attention, then normalises."""

    def __init__(self, members: int, activation: str, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.attention = Attention(members)
        self.forward_part = FeedForward(members, activation, hidden)
        self.norm1, self.norm2 = Norm(members), Norm(members)

    def forward(self, x: Tensor, pos: Tensor, there: Tensor) -> Tensor:
        q = x + pos
        x = self.norm1(x + drop(self.attention(q, q, x, there)[0], self))
        out: Tensor = self.norm2(x + drop(self.forward_part(x), self))
        return out


class CrossLayer(nn.Module):
    """One modality asks the other (frames the words: "T2V"); only the asking one changes."""

    def __init__(
        self, members: int, hidden: int = HIDDEN, out: bool = True, path: float = 0.0
    ) -> None:
        super().__init__()
        self.attention = Attention(members, out=out)
        self.forward_part = FeedForward(members, "prelu", hidden)
        self.norm1, self.norm2 = Norm(members), Norm(members)
        self.path = path

    def forward(
        self, x: Tensor, pos: Tensor, context: Tensor, there: Tensor, silent: int = 0
    ) -> tuple[Tensor, Tensor]:
        attended, weights = self.attention(x + pos, context, context, there, silent)
        return self.alone(x + self._path(drop(attended, self))), weights

    def alone(self, x: Tensor) -> Tensor:
        """Return what is left of the layer where there are no keys."""
        out: Tensor = self.norm2(x + self._path(drop(self.forward_part(self.norm1(x)), self)))
        return out

    def _path(self, x: Tensor) -> Tensor:
        """Leave out the whole branch of a record at random, or make it larger (drop-path)."""
        if not self.training or not self.path:
            return x
        return x * F.dropout(torch.ones_like(x[..., :1, :1]), self.path)


def drop(x: Tensor, module: nn.Module) -> Tensor:
    return F.dropout(x, DROPOUT, module.training)


def sine(x: Tensor, width: int = WIDTH) -> Tensor:
    """Return sines and cosines of x: (…) → (…, width)."""
    even = torch.arange(0, width, 2, device=x.device, dtype=x.dtype)
    angle = x[..., None] / 10_000 ** (even / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


def positions(there: Tensor) -> Tensor:
    """Return sine positions 2πi/L of the first L tokens, which are there, i = 1…L; zero
    elsewhere."""
    count = torch.arange(1, there.shape[-1] + 1, device=there.device, dtype=torch.float32)
    turn = 2 * math.pi * count / there.sum(-1, keepdim=True).clamp(min=1)
    return sine(turn) * there[..., None]


def picked(index: Tensor, size: int) -> Tensor:
    """Return (…, size) zeros and a one, to pick rows by a product: gradients have one order."""
    return (index[..., None] == torch.arange(size, device=index.device)).to(torch.float32)


def unsigmoid(x: Tensor) -> Tensor:
    x = x.clamp(0, 1)
    return (x.clamp(min=MIN_COORDINATE) / (1 - x).clamp(min=MIN_COORDINATE)).log()


def masked_mean(x: Tensor, there: Tensor) -> Tensor:
    """Average (…, T, d) over the tokens that are there."""
    weight = there[..., None].to(x.dtype)
    return (x * weight).sum(-2) / weight.sum(-2).clamp(min=1)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Return the cosines (…, n, m) of (…, n, d) and (…, m, d)."""
    return F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).transpose(-1, -2)
