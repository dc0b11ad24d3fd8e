"""What the decoders are trained with; every loss is one value per member, (K,).

Absent records (weight 0) fill a batch up and count nowhere. A record without a target (a run in
which the state does not hold) has no spans to fit: it trains the classes and the saliency.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from dejacue_paper.learn.decoders.layers import picked
from dejacue_paper.learn.decoders.matcher import assign

L1, GIOU, CLASS = 10.0, 1.0, 4.0
BACKGROUND = 0.1
MARGIN, TEMPERATURE, LEVELS = 0.2, 0.5, 12
ALPHA, GAMMA = 0.25, 2.0


@dataclass(frozen=True)
class TrainingBatch:
    """K members, each with its own B records: T frames, W words, G targets.

    video, words     tokens; ``frames`` and ``spoken`` say which are there; the target text is first
    spans, true      (centre, width) of the targets as shares of the run, and which are there
    inside           1 for frames inside a target
    drawn            (K, B, 2, 2): two frames inside and two outside a target, for the hinge
    hinged           whether there are such
    weight           0 for records that only fill the batch up
    rival, rivalled  another record of the batch whose text is wrong here, and whether there is one
    same             pairs of records that are no negatives of each other: equal text or object
    events, parted   spans between the changes of a run (for EaTR)
    """

    video: Tensor
    frames: Tensor
    words: Tensor
    spoken: Tensor
    spans: Tensor
    true: Tensor
    inside: Tensor
    drawn: Tensor
    hinged: Tensor
    weight: Tensor
    rival: Tensor
    rivalled: Tensor
    same: Tensor
    events: Tensor
    parted: Tensor


@dataclass
class Output:
    """Outputs of a decoder: spans (layers, K, B, Q, 2), logits likewise, saliency (K, B, T), and
    what a loss needs."""

    spans: Tensor
    logits: Tensor
    saliency: Tensor
    extra: dict[str, Tensor] = field(default_factory=dict)


def average(values: Tensor, weight: Tensor) -> Tensor:
    """Average (K, …) to (K,)."""
    return (values * weight).flatten(1).sum(1) / weight.flatten(1).sum(1).clamp(min=1)


def of_rival(rows: Tensor, rival: Tensor) -> Tensor:
    """Return the rows (K, B, …) of every record's rival."""
    members = torch.arange(len(rows), device=rows.device)[:, None]
    return rows[members, rival]


def ends(spans: Tensor) -> tuple[Tensor, Tensor]:
    centre, width = spans.unbind(-1)
    return centre - width / 2, centre + width / 2


def overlaps(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return IoU and generalised IoU of spans, with broadcasting."""
    (a, b), (c, d) = ends(first), ends(second)
    shared = (torch.minimum(b, d) - torch.maximum(a, c)).clamp(min=0)
    union = (b - a) + (d - c) - shared
    hull = (torch.maximum(b, d) - torch.minimum(a, c)).clamp(min=1e-6)
    iou = shared / union.clamp(min=1e-6)
    return iou, iou - (hull - union) / hull


def costs(spans: Tensor, foreground: Tensor, targets: Tensor) -> Tensor:
    """Return the costs (…, Q, G) of matching spans with targets."""
    first, second = spans[..., :, None, :], targets[..., None, :, :]
    apart = (first - second).abs().sum(-1)
    return L1 * apart - GIOU * overlaps(first, second)[1] - CLASS * foreground[..., None]


def span_terms(spans: Tensor, match: Tensor, targets: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    """Return mean |Δ(c, w)| and mean 1 − gIoU over the matched pairs: (K,) each.

    spans (K, B, Q, 2), match (K, B, G, Q), targets (K, B, G, 2)
    """
    matched = match @ spans
    paired = match.sum(-1) * weight[..., None]
    apart = (matched - targets).abs().mean(-1)
    # a target without a query has an empty span here, which is harmless: its weight is 0
    wide = torch.where(paired[..., None] > 0, matched, targets)
    return average(apart, paired), average(1 - overlaps(wide, targets)[1], paired)


def class_term(logits: Tensor, match: Tensor, weight: Tensor) -> Tensor:
    """Return the cross-entropy, foreground first, with little weight for the background."""
    matched = match.sum(-2)
    log = logits.log_softmax(-1)
    values = -(matched * log[..., 0] + BACKGROUND * (1 - matched) * log[..., 1])
    return average(values.mean(-1), weight)


def focal_term(logits: Tensor, match: Tensor, weight: Tensor) -> Tensor:
    """Return the sigmoid focal loss of both logits, per target."""
    matched = match.sum(-2)
    expected = torch.stack([matched, 1 - matched], dim=-1)
    p = logits.sigmoid()
    p = p * expected + (1 - p) * (1 - expected)
    entropy = F.binary_cross_entropy_with_logits(logits, expected, reduction="none")
    share = ALPHA * expected + (1 - ALPHA) * (1 - expected)
    total = (share * (1 - p) ** GAMMA * entropy).sum((-1, -2)) * weight
    targets = (match.sum((-1, -2)) * weight).sum(1)
    return total.sum(1) / targets.clamp(min=1)


def foreground(logits: Tensor, focal: bool) -> Tensor:
    return logits[..., 0].sigmoid() if focal else logits.softmax(-1)[..., 0]


def set_terms(
    output: Output, batch: TrainingBatch, *, focal: bool = False, extra: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return L1, gIoU and class terms summed over layers, (K,) each, and the match (L, K, B, G, Q).

    extra  further costs, (layers, K, B, Q, G)
    """
    targets = batch.spans.expand(len(output.spans), -1, -1, -1, -1)
    table = costs(output.spans, foreground(output.logits, focal), targets)
    match = assign(table if extra is None else table + extra, batch.true.expand(targets.shape[:-1]))
    term = focal_term if focal else class_term
    near = over = named = output.spans.new_zeros(())
    for spans, logits, layer_match in zip(output.spans, output.logits, match, strict=True):
        apart, outside = span_terms(spans, layer_match, batch.spans, batch.weight)
        near, over, named = (
            near + apart,
            over + outside,
            named + term(logits, layer_match, batch.weight),
        )
    return near, over, named, match


def set_loss(output: Output, batch: TrainingBatch, *, focal: bool = False) -> Tensor:
    near, over, named, _ = set_terms(output, batch, focal=focal)
    return L1 * near + GIOU * over + CLASS * named


def hinge(saliency: Tensor, batch: TrainingBatch) -> Tensor:
    """Return the loss of frames inside that are not above frames outside by a margin: two of
    each."""
    drawn = picked(batch.drawn, saliency.shape[-1])  # (K, B, 2, 2, T)
    inside, outside = (drawn @ saliency[:, :, None, :, None])[..., 0].unbind(2)
    values = (MARGIN + outside - inside).clamp(min=0).sum(-1)
    return average(values * batch.hinged, batch.weight)


def rank(saliency: Tensor, batch: TrainingBatch, wrong: Tensor | None = None) -> Tensor:
    """Return −log softmax(s/τ) of frames inside against all frames, and those read with a wrong
    text."""
    logits = saliency.masked_fill(~batch.frames, -torch.inf)
    if wrong is not None:
        allowed = batch.frames & (batch.rivalled > 0)[..., None]
        logits = torch.cat([logits, wrong.masked_fill(~allowed, -torch.inf)], dim=-1)
    log = (logits / TEMPERATURE).log_softmax(-1)[..., : saliency.shape[-1]]
    log = log.masked_fill(~batch.frames, 0)
    count = batch.inside.sum(-1)
    values = -(log * batch.inside).sum(-1) / count.clamp(min=1)
    return average(values * (count > 0), batch.weight) / LEVELS


def rejected(wrong: Tensor, batch: TrainingBatch, as_published: bool) -> Tensor:
    """Return −log(1 − σ(s)), summed (published) or averaged: no frame is salient for a wrong
    text."""
    values = F.softplus(wrong) * batch.frames
    values = values.sum(-1) if as_published else values.sum(-1) / batch.frames.sum(-1)
    return average(values * batch.rivalled, batch.weight)


def contrast(similarity: Tensor, batch: TrainingBatch) -> Tensor:
    """Compare each row's own column with the others of the batch that are negatives: (K, B, B) →
    (K,)."""
    absent = (batch.weight == 0)[:, None, :] | batch.same
    diagonal = torch.eye(similarity.shape[-1], dtype=torch.bool, device=similarity.device)
    log = similarity.masked_fill(absent & ~diagonal, -torch.inf).log_softmax(-1)
    return average(-log.diagonal(dim1=-2, dim2=-1), batch.weight)


def both_ways(similarity: Tensor, batch: TrainingBatch) -> Tensor:
    return (contrast(similarity, batch) + contrast(similarity.transpose(-1, -2), batch)) / 2


def frame_entropy(logits: Tensor, batch: TrainingBatch) -> Tensor:
    """Return the binary cross-entropy of frames being inside, averaged over those of a record."""
    values = F.binary_cross_entropy_with_logits(logits, batch.inside, reduction="none")
    return average((values * batch.frames).sum(-1) / batch.frames.sum(-1), batch.weight)
