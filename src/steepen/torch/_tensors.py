"""Arithmetic on lists of tensors and on long vectors, without asking the device for a number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ._private import copy_, fused_sgd, norms

__all__ = ["add_", "copy_", "is_dense", "local", "norm", "shards"]

_torch: Any = torch  # its linalg and distributed have no types
_SHORT = (torch.bfloat16, torch.float16)
_ROW, _LONG = 1024, 1 << 16  # numbers that a CPU may add up one by one; and from where on it must not


def local(tensor: Tensor) -> Tensor:
    """Give the part of a tensor that lies on this rank; all of it, where it is not sharded."""
    # torch.distributed.tensor is heavy, and no DTensor exists before somebody has imported it
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor  # pyright: ignore


def shards(tensor: Tensor) -> tuple[Any, ...]:
    """Give the process groups over which a tensor is sharded; none for a plain one."""
    mesh = getattr(tensor, "device_mesh", None)
    if mesh is None:
        return ()
    placements: Any = getattr(tensor, "placements", ())
    return tuple(mesh.get_group(i) for i, placement in enumerate(placements) if not placement.is_replicate())


def is_dense(tensor: Tensor) -> bool:
    """Say whether the elements lie side by side in memory, in whatever order of the axes."""
    if tensor.is_contiguous():
        return True
    axes = sorted(range(tensor.ndim), key=tensor.stride, reverse=True)
    return tensor.permute(axes).is_contiguous()


def add_(xs: list[Tensor], c: Tensor, ys: list[Tensor], skip: Tensor | None = None) -> None:
    """Add c·y to each x, computed in float32 where x is shorter; nothing is touched where `skip` is 1.

    The fused SGD step of torch is just that: it reads its factor and its flag on the device, so neither costs
    a wait, and a skipped update does not let a NaN of y through. Each y must be laid out like its x.
    """
    dtype = xs[0].dtype
    # on a CPU it leaves short numbers alone (pytorch issue 191763); on a GPU it reads a float32 factor
    if fused_sgd is None or (dtype == torch.float64 if c.is_cuda else dtype in _SHORT):
        wide = _wide(xs[0])
        for x, y in zip(xs, ys, strict=True):
            new = x.to(wide) + c * y.to(wide)
            x.copy_(new if skip is None else torch.where(skip > 0, x.to(wide), new))
        return
    fused_sgd(
        xs,
        ys,
        [],
        weight_decay=0.0,
        momentum=0.0,
        lr=c.float() if c.is_cuda else c,
        dampening=0.0,
        nesterov=False,
        maximize=True,
        is_first_step=False,
        found_inf=skip,
    )


def norm(parts: Iterable[tuple[Sequence[Tensor], tuple[Any, ...]]], dtype: torch.dtype) -> Tensor:
    """Return the norm over all tensors, each list with the process groups it is sharded over.

    A CPU adds the squares of a vector up one after another, and after millions of them float32 has forgotten
    three digits: there it is a norm of norms of rows.
    """
    all_: list[Tensor] = []
    for tensors, ranks in parts:
        rows = [row for tensor in tensors for row in _rows(tensor)]
        own = norms(rows, dtype)
        all_ += [sum_over(_length(own).square(), ranks).sqrt()] if ranks else own
    return _length(all_)


def _rows(tensor: Tensor) -> list[Tensor]:
    if tensor.is_cuda or tensor.numel() < _LONG or not is_dense(tensor):
        return [tensor]
    flat = tensor.as_strided((tensor.numel(),), (1,))
    whole = flat.numel() // _ROW * _ROW
    rows = _torch.linalg.vector_norm(flat[:whole].view(-1, _ROW), dim=1, dtype=_wide(flat))
    return [_torch.linalg.vector_norm(rows, dtype=torch.float64).to(rows.dtype), flat[whole:]]


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)


def sum_over(value: Tensor, ranks: tuple[Any, ...]) -> Tensor:
    """Add up a number over process groups, in place."""
    for group in ranks:
        _torch.distributed.all_reduce(value, group=group)
    return value


def _length(norms: list[Tensor]) -> Tensor:
    return norms[0] if len(norms) == 1 else _torch.linalg.vector_norm(torch.stack(norms))
