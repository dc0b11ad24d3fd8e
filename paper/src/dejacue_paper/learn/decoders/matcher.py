"""Optimal assignment of many small problems at once, on any device and without waiting for it.

The shortest augmenting path method with a fixed number of steps: problems that are done wait.
"""

from __future__ import annotations

import torch
from torch import Tensor

NEVER_MATCHED = 1e4  # more than any cost of a real pair


@torch.no_grad()
def assign(cost: Tensor, there: Tensor) -> Tensor:
    """Match (…, queries, targets) costs; return (…, targets, queries) zeros and ones.

    there   (…, targets): the others are matched with nothing. As many pairs as possible are made,
            and of all such matchings the cheapest is taken.
    """
    queries, targets = cost.shape[-2:]
    table = cost.detach().to(torch.float64).nan_to_num(NEVER_MATCHED, NEVER_MATCHED, -NEVER_MATCHED)
    if targets <= queries:
        # a target that is not there costs the same everywhere: it takes what the others leave
        rows = (table * there[..., None, :]).transpose(-1, -2)
        chosen = _rows(rows.reshape(-1, targets, queries)).view(rows.shape)
    else:
        rows = torch.where(there[..., None, :], table, NEVER_MATCHED)
        chosen = _rows(rows.reshape(-1, queries, targets)).view(rows.shape).transpose(-1, -2)
    return (chosen & there[..., None]).to(cost.dtype)


def _rows(cost: Tensor) -> Tensor:
    """Return (N, n, m) bool in which every row has one column, for (N, n, m) costs with n ≤ m."""
    many, n, m = cost.shape
    device = cost.device
    columns, names = torch.arange(m + 1, device=device), torch.arange(n + 1, device=device)
    # row and column 0 are the root of the search, as in the textbook
    padded = cost.new_zeros(many, n + 1, m + 1)
    padded[:, 1:, 1:] = cost
    u, v = cost.new_zeros(many, n + 1), cost.new_zeros(many, m + 1)
    owner = torch.zeros(many, m + 1, dtype=torch.long, device=device)
    for row in range(1, n + 1):
        owner = torch.where(columns == 0, row, owner)
        at = torch.zeros(many, 1, dtype=torch.long, device=device)
        least = torch.full_like(v, torch.inf)
        way = torch.zeros_like(owner)
        used = torch.zeros(many, m + 1, dtype=torch.bool, device=device)
        searching = torch.ones(many, 1, dtype=torch.bool, device=device)
        for _ in range(row):  # a path meets at most the rows so far
            used = used | ((columns == at) & searching)
            current = owner.gather(1, at)
            reduced = padded.gather(1, current[..., None].expand(-1, -1, m + 1))[:, 0]
            reduced = reduced - u.gather(1, current) - v
            better = (reduced < least) & ~used & searching
            least, way = torch.where(better, reduced, least), torch.where(better, at, way)
            free = torch.where(used | (columns == 0), torch.inf, least)
            step, following = free.min(1, keepdim=True)
            step = torch.where(searching, step, 0.0)
            in_tree = ((owner[..., None] == names) & used[..., None]).any(1)
            u = u + step * in_tree
            v = v - step * used
            least = torch.where(used, least, least - step)
            at = torch.where(searching, following, at)
            searching = searching & (owner.gather(1, at) != 0)
        for _ in range(row):  # back along the path
            before = way.gather(1, at)
            moved = (columns == at) & (at != 0)
            owner = torch.where(moved, owner.gather(1, before), owner)
            at = torch.where(at != 0, before, at)
    return owner[:, None, 1:] == names[1:, None]
