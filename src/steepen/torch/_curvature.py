"""Products of the Hessian with a vector, by differentiating a gradient again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["curvature"]


def curvature(graphs: Sequence[Tensor], params: Sequence[Tensor], along: Sequence[Tensor]) -> list[Tensor]:
    """Return H·v from gradients that carry their graph; where f is linear in a parameter, there is none."""
    pairs = [(graph, v) for graph, v in zip(graphs, along, strict=True) if graph.requires_grad]
    if not pairs:
        return [torch.zeros_like(p) for p in params]
    with torch.enable_grad():
        of, with_ = [graph for graph, _ in pairs], [v for _, v in pairs]
        found = torch.autograd.grad(of, params, with_, allow_unused=True, materialize_grads=True)
    return [product.detach() for product in found]
