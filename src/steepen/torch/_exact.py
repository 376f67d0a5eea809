"""The exact mode: d = g + 2λHg, by a backward pass through the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ._diagnostics import Seen
from ._gradients import collect, combine, scale_of, unscale
from ._guard import Guard
from ._tensors import div_, norm, precise

__all__ = ["curve"]


def curve(
    groups: Sequence[dict[str, Any]], strengths: Sequence[float], guard: Guard, scaler: Any, optimizer: Any
) -> Seen:
    """Put d in the place of the gradient, which must carry its graph.

    With a λ for each group the penalty is Σ λ_i‖g_i‖², and d = g + 2H(Λg).
    """
    params: list[Tensor] = [p for group in groups for p in group["params"] if p.grad is not None]
    graphs = [p.grad for p in params if p.grad is not None]
    if not all(grad.requires_grad for grad in graphs):
        raise RuntimeError(
            "the exact mode differentiates the gradient: call backward(create_graph=True) on the loss"
        )
    for p, grad in zip(params, graphs, strict=True):
        p.grad = grad.detach().clone()  # nor is there a cycle any more from p to its graph and back
    lam = max(strengths, key=abs)
    found = collect(groups, [strength / lam for strength in strengths])
    unscale(scaler, optimizer)
    along = {p: g * b.weight for b in found for p, g in zip(b.params, b.held, strict=True)}
    with torch.enable_grad():
        rows = torch.autograd.grad(
            graphs, params, [along[p] for p in params], allow_unused=True, materialize_grads=True
        )
    product = {p: row.detach() for p, row in zip(params, rows, strict=True)}
    ups = [[product[p] for p in bucket.params] for bucket in found]
    if scaler is not None:
        for up in ups:
            div_(up, scale_of(scaler, params[0].device))
    dtype = precise(found)
    n = norm([(bucket.g, ()) for bucket in found], dtype)
    size = norm([(up, ()) for up in ups], dtype)
    dots = [
        (g * u).sum(dtype=dtype)
        for b, up in zip(found, ups, strict=True)
        for g, u in zip(b.g, up, strict=True)
    ]
    return combine(found, ups, guard, Seen(n, 1.0, 2 * lam, 2 * torch.stack(dots).sum(), size))
