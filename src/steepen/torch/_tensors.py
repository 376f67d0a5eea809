"""Arithmetic on lists of tensors, sharded ones too, without asking the device for a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["add_", "copy_", "curvature", "local", "norm", "sub_"]

_torch: Any = torch  # the operations on lists have no types


def local(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the parts of tensors that lie on this rank; all of those that are not sharded."""
    return [tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors]  # pyright: ignore


def norm(tensors: Sequence[Tensor]) -> Tensor:
    """Return the norm over all tensors, in float32 at least; over all ranks where they are sharded."""
    kinds = [[t for t in tensors if hasattr(t, "to_local") is sharded] for sharded in (False, True)]
    return _length([_total(kind) for kind in kinds if kind])


def _total(tensors: Sequence[Tensor]) -> Tensor:
    dtypes = {torch.promote_types(dtype, torch.float32) for dtype in {t.dtype for t in tensors}}
    dtype = max(dtypes, key=lambda d: d.itemsize)
    total: Any = _length(_torch._foreach_norm(tensors, 2, dtype))
    return total.full_tensor() if hasattr(total, "full_tensor") else total


def _length(norms: Sequence[Tensor]) -> Tensor:
    return norms[0] if len(norms) == 1 else _torch.linalg.vector_norm(torch.stack(list(norms)))


def copy_(to: Sequence[Tensor], from_: Sequence[Tensor]) -> None:
    """Copy a list of tensors into another."""
    _torch._foreach_copy_(to, from_)


def add_(xs: Sequence[Tensor], c: Tensor, ys: Sequence[Tensor], *, may_overwrite: bool = False) -> None:
    """Add c·y to each x; where the ys are to may_overwrite, they become c·y on the way."""
    if may_overwrite:
        _torch._foreach_mul_(ys, c)
    else:
        ys = _torch._foreach_mul(ys, c)
    _torch._foreach_add_(xs, ys)


def sub_(xs: Sequence[Tensor], ys: Sequence[Tensor]) -> None:
    """Subtract each y from its x."""
    _torch._foreach_sub_(xs, ys)


def curvature(graphs: Sequence[Tensor], params: Sequence[Tensor], along: Sequence[Tensor]) -> list[Tensor]:
    """Return H·v from gradients that carry their graph; where f is linear in a parameter, there is none."""
    pairs = [(graph, v) for graph, v in zip(graphs, along, strict=True) if graph.requires_grad]
    if not pairs:
        return [torch.zeros_like(p) for p in params]
    with torch.enable_grad():
        of, with_ = [graph for graph, _ in pairs], [v for _, v in pairs]
        found = torch.autograd.grad(of, params, with_, allow_unused=True, materialize_grads=True)
    return [product.detach() for product in found]
