"""Arithmetic on lists of tensors and on long vectors, without asking the device for a number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

__all__ = ["add_", "copy_", "dot", "is_dense", "local", "mix_", "norm", "shards"]

_torch: Any = torch  # its operations on lists have names with an underscore, and no types
copy_ = _torch._foreach_copy_
_SHORT = (torch.bfloat16, torch.float16)
_LONGEST = 2**30  # elements that one product of BLAS takes


def local(tensor: Tensor) -> Tensor:
    """Give the part of a tensor that lies on this rank; all of it, where it is not sharded.

    Examples
    --------
    >>> local(torch.ones(2))
    tensor([1., 1.])
    """
    # torch.distributed.tensor is heavy, and no DTensor exists before somebody has imported it
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor  # pyright: ignore


def shards(tensor: Tensor) -> tuple[Any, ...]:
    """Give the process groups over which a tensor is sharded; none for a plain one.

    Examples
    --------
    >>> shards(torch.ones(2))
    ()
    """
    mesh = getattr(tensor, "device_mesh", None)
    if mesh is None:
        return ()
    placements: Any = getattr(tensor, "placements", ())
    return tuple(mesh.get_group(i) for i, placement in enumerate(placements) if placement.is_shard())


def is_dense(tensor: Tensor) -> bool:
    """Say whether the elements lie side by side in memory, in whatever order of the axes.

    Examples
    --------
    >>> is_dense(torch.ones(2, 3).T), is_dense(torch.ones(4)[::2])
    (True, False)
    """
    if tensor.is_contiguous():
        return True
    axes = sorted(range(tensor.ndim), key=tensor.stride, reverse=True)
    return tensor.permute(axes).is_contiguous()


def add_(xs: list[Tensor], c: Tensor, ys: list[Tensor]) -> None:
    """Add c·y to each x, computed in float32 where x is shorter; each y must be laid out like its x.

    Examples
    --------
    >>> x = [torch.ones(2)]
    >>> add_(x, torch.tensor(0.5), [torch.full((2,), 4.0)])
    >>> x
    [tensor([3., 3.])]
    """
    _sgd(xs, ys, -c)


def mix_(x: Tensor, weight: Tensor, y: Tensor, skip: Tensor) -> None:
    """Replace x by x + weight·(y − x), the difference formed first; nothing is touched where `skip` is 1.

    A skipped update does not let a NaN of y through.

    Examples
    --------
    >>> x, y = torch.ones(2), torch.full((2,), 3.0)
    >>> mix_(x, torch.tensor(0.5), y, torch.tensor(0.0))
    >>> mix_(x, torch.tensor(0.5), y * torch.nan, torch.tensor(1.0))
    >>> x
    tensor([2., 2.])
    """
    _sgd([x], [y], -weight, decay=-1.0, skip=skip)


def _sgd(
    xs: list[Tensor], ys: list[Tensor], lr: Tensor, decay: float = 0.0, skip: Tensor | None = None
) -> None:
    """Take x − lr·(y + decay·x): the fused step of torch reads its factor and its flag on the device."""
    dtype = xs[0].dtype
    # on a CPU it leaves short numbers alone (pytorch issue 191763); on a GPU it reads a float32 factor
    if dtype == torch.float64 if lr.is_cuda else dtype in _SHORT:
        wide = torch.promote_types(dtype, torch.float32)
        for x, y in zip(xs, ys, strict=True):
            new = x.to(wide) - lr * (y.to(wide) + decay * x.to(wide))
            x.copy_(new if skip is None else torch.where(skip > 0, x.to(wide), new))
        return
    _torch._fused_sgd_(
        xs,
        ys,
        [],
        weight_decay=decay,
        momentum=0.0,
        lr=lr.float() if lr.is_cuda else lr,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=False,
        found_inf=skip,
    )


def norm(parts: Iterable[tuple[Iterable[Tensor], tuple[Any, ...]]], dtype: torch.dtype) -> Tensor:
    """Give the norm over all tensors, each list with the process groups it is sharded over.

    Examples
    --------
    >>> norm([([torch.tensor([3.0]), torch.tensor([4.0])], ())], torch.float32)
    tensor(5.)
    """
    norms: list[Tensor] = []
    for tensors, ranks in parts:
        own: list[Tensor] = [_torch.linalg.vector_norm(tensor, dtype=dtype) for tensor in tensors]
        norms += [sum_over(_length(own).square(), ranks).sqrt()] if ranks else own
    return _length(norms)


def dot(parts: Iterable[tuple[Tensor, Tensor, tuple[Any, ...]]], dtype: torch.dtype) -> Tensor:
    """Give ⟨a, b⟩ over all pairs of vectors, each with the process groups it is sharded over.

    Examples
    --------
    >>> a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    >>> dot([(a, b, ())], torch.float32)
    tensor(11.)
    """
    products: list[Tensor] = []
    for a, b, ranks in parts:
        if a.dtype == dtype:
            starts = range(0, max(len(a), 1), _LONGEST)
            product = _sum([torch.dot(a[i : i + _LONGEST], b[i : i + _LONGEST]) for i in starts])
        else:  # bfloat16: its dot would be rounded to 8 bits; 2⟨a, b⟩ = ‖a‖² + ‖b‖² − ‖a − b‖²
            sizes: list[Tensor] = [_torch.linalg.vector_norm(x, dtype=dtype).square() for x in (a, b, a - b)]
            product = (sizes[0] + sizes[1] - sizes[2]) / 2
        products.append(sum_over(product, ranks))
    return _sum(products)


def sum_over(value: Tensor, ranks: tuple[Any, ...]) -> Tensor:
    """Add up a number over process groups, in place.

    Examples
    --------
    >>> sum_over(torch.tensor(2.0), ())
    tensor(2.)
    """
    for group in ranks:
        _torch.distributed.all_reduce(value, group=group)
    return value


def _length(norms: list[Tensor]) -> Tensor:
    return norms[0] if len(norms) == 1 else _torch.linalg.vector_norm(torch.stack(norms))


def _sum(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.stack(values).sum()
