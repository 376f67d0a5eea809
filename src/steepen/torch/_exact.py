"""The exact mode: d = g + 2λHg, by a backward pass through the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ._guard import Guard
from ._passes import find, refuse_sparse, scale_of, unscale

__all__ = ["curvature", "curve"]


def curve(
    groups: Sequence[dict[str, Any]], strengths: Sequence[float], guard: Guard, scaler: Any, optimizer: Any
) -> tuple[Tensor, bool]:
    """Put d in the place of the gradient, which must carry its graph; return the numbers to be told.

    With a λ for each group the penalty is Σ λ_i‖g_i‖², and d = g + 2H(Λg).
    """
    params, graphs, weights, _ = find(groups, strengths)
    refuse_sparse(graphs)
    if any(hasattr(p, "to_local") for p in params):
        raise ValueError("mode: the exact mode does not go with sharded parameters; use mode='difference'")
    if not any(grad.requires_grad for grad in graphs):  # that of a parameter f is linear in has none
        raise RuntimeError(
            "the exact mode differentiates the gradient: call backward(create_graph=True) on the loss"
        )
    gradients = [grad.detach().clone() for grad in graphs]
    for p, g in zip(params, gradients, strict=True):
        p.grad = g  # nor is there a cycle any more from p to its graph and back
    unscale(scaler, optimizer)
    along = [g * weight for g, weight in zip(gradients, weights, strict=True)]
    curved = curvature(graphs, params, along)
    if scaler is not None:
        curved = [u / scale_of(scaler, u.device) for u in curved]
    wide = torch.float64 if any(p.dtype == torch.float64 for p in params) else torch.float32

    def product(pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        return torch.stack([(a.to(wide) * b.to(wide)).sum() for a, b in pairs]).sum()

    n = product([(g, g) for g in gradients]).sqrt()
    nu = torch.full_like(n, 2 * max(strengths, key=abs))
    inner = product(list(zip(gradients, curved, strict=True)))
    after = (n * n + 2 * nu * inner + nu * nu * product([(u, u) for u in curved])).clamp(min=0).sqrt()
    guard.start(n.device)
    skip = guard.judge(n, nu, inner, after)
    guard.report()
    for g, u in zip(gradients, curved, strict=True):
        g.copy_(torch.where(skip > 0, g, g + (nu * u).to(g.dtype)))
    return torch.stack((n, torch.ones_like(n), nu, inner, after)), all(weight == 1 for weight in weights)


def curvature(graphs: Sequence[Tensor], params: Sequence[Tensor], along: Sequence[Tensor]) -> list[Tensor]:
    """Return H·v from gradients that carry their graph; of a parameter that f is linear in there is none."""
    pairs = [(graph, v) for graph, v in zip(graphs, along, strict=True) if graph.requires_grad]
    if not pairs:
        return [torch.zeros_like(p) for p in params]
    with torch.enable_grad():
        found = torch.autograd.grad(
            [graph for graph, _ in pairs],
            params,
            [v for _, v in pairs],
            allow_unused=True,
            materialize_grads=True,
        )
    return [product.detach() for product in found]
