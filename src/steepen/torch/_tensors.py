"""Arithmetic on lists of tensors, in few kernels and without asking the device for a number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "Bucket",
    "add_",
    "buckets",
    "copy_",
    "div_",
    "local",
    "move",
    "norm",
    "precise",
    "scaled",
    "sub_",
    "twice_product",
]

_torch: Any = torch  # its operations on lists have names with an underscore, and no types
copy_, div_, sub_ = _torch._foreach_copy_, _torch._foreach_div_, _torch._foreach_sub_


@dataclass
class Bucket:
    """Parameters that one fused call can take: one dtype, one weight, sharded over the same ranks.

    `g` holds the parts of the first gradient that lie on this rank, `x` those of the parameters. A tensor
    that is not laid out like its parameter, as of a strided view, stands in a bucket of its own.
    """

    weight: float
    ranks: tuple[Any, ...]
    fused: bool
    params: list[Tensor] = field(default_factory=list[Tensor])
    held: list[Tensor] = field(default_factory=list[Tensor])
    x: list[Tensor] = field(default_factory=list[Tensor])
    g: list[Tensor] = field(default_factory=list[Tensor])
    backup: list[Tensor] = field(default_factory=list[Tensor])


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
    """Give the process groups over which a tensor is sharded; none for a plain one."""
    mesh = getattr(tensor, "device_mesh", None)
    if mesh is None:
        return ()
    placements: Any = getattr(tensor, "placements", ())
    return tuple(mesh.get_group(i) for i, placement in enumerate(placements) if placement.is_shard())


def buckets(entries: Iterable[tuple[Tensor, Tensor, float]]) -> list[Bucket]:
    """Sort (parameter, gradient, weight) into buckets.

    Examples
    --------
    >>> p = torch.zeros(3)
    >>> [len(bucket.x) for bucket in buckets([(p, torch.ones(3), 1.0), (p, torch.ones(3), 0.5)])]
    [1, 1]
    """
    found: dict[tuple[Any, ...], Bucket] = {}
    for p, grad, weight in entries:
        x, g = local(p), local(grad)
        ranks = shards(p)
        fused = x.stride() == g.stride() and _dense(x)
        key = (x.dtype, weight, ranks, fused)
        bucket = found.get(key)
        if bucket is None:
            bucket = found[key] = Bucket(weight, ranks, fused)
        bucket.params.append(p)
        bucket.held.append(grad)
        bucket.x.append(x)
        bucket.g.append(g)
    return list(found.values())


def precise(found: Sequence[Bucket]) -> torch.dtype:
    """Give the dtype for norms and factors: at least float32.

    Examples
    --------
    >>> precise(buckets([(torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16), 1.0)]))
    torch.float32
    """
    return torch.float64 if any(bucket.x[0].dtype == torch.float64 for bucket in found) else torch.float32


def _dense(tensor: Tensor) -> bool:
    if tensor.is_contiguous():
        return True
    # the axes in the order of their strides must be contiguous: true of channels_last, false of x[::2]
    axes = sorted(range(tensor.ndim), key=tensor.stride, reverse=True)
    return tensor.permute(axes).is_contiguous()


def add_(
    xs: Sequence[Tensor],
    c: Tensor | float,
    ys: Sequence[Tensor],
    *,
    fused: bool = True,
    skip: Tensor | None = None,
) -> None:
    """Add c·y to each x, computed in float32 where x is shorter; nothing is touched where `skip` is 1.

    The fused SGD step of torch is just that: it reads its factor and its flag on the device, so neither costs
    a wait, and a skipped update does not let a NaN of y through.

    Examples
    --------
    >>> x = [torch.ones(2)]
    >>> add_(x, torch.tensor(0.5), [torch.full((2,), 4.0)])
    >>> add_(x, 1.0, [torch.full((2,), torch.nan)], skip=torch.ones(()))
    >>> x
    [tensor([3., 3.])]
    """
    if not fused:
        for x, y in zip(xs, ys, strict=True):
            wide = torch.promote_types(x.dtype, torch.float32)
            total = (x.to(wide) + c * y.to(wide)).to(x.dtype)
            x.copy_(total if skip is None else torch.where(skip > 0, x, total))
        return
    if isinstance(c, Tensor) and c.is_cuda:
        c = c.float()  # the kernel reads a float32
    _torch._fused_sgd_(
        list(xs),
        list(ys),
        [],
        weight_decay=0.0,
        momentum=0.0,
        lr=c,
        dampening=0.0,
        nesterov=False,
        maximize=True,
        is_first_step=False,
        found_inf=skip,
    )


def move(bucket: Bucket, c: Tensor | float, eta: float | None) -> None:
    """Move the parameters to x + s: s = c·g, or c·T²g with ASAM's T = |x| + η.

    Examples
    --------
    >>> x = torch.tensor([1.0, 2.0])
    >>> (bucket,) = buckets([(x, torch.ones(2), 1.0)])
    >>> move(bucket, 0.5, eta=0.0)
    >>> x
    tensor([1.5000, 4.0000])
    """
    c = c if bucket.weight == 1.0 else c * bucket.weight
    if eta is None:
        add_(bucket.x, c, bucket.g, fused=bucket.fused)
        return
    for x, g in zip(bucket.x, bucket.g, strict=True):  # one at a time: no copy of all the parameters
        x.add_(x.abs().add_(eta).square_().mul_(g).mul_(c))


def scaled(bucket: Bucket, eta: float) -> list[Tensor]:
    """Give the norms of T·g, T = |x| + η, a tensor at a time.

    Examples
    --------
    >>> (bucket,) = buckets([(torch.tensor([3.0, -4.0]), torch.ones(2), 1.0)])
    >>> scaled(bucket, eta=0.0)
    [tensor(5.)]
    """
    return [
        _torch.linalg.vector_norm(x.abs().add_(eta).mul_(g)) for x, g in zip(bucket.x, bucket.g, strict=True)
    ]


def norm(lists: Iterable[tuple[Sequence[Tensor], tuple[Any, ...]]], dtype: torch.dtype) -> Tensor:
    """Give the norm over all tensors, each list with the process groups it is sharded over.

    Examples
    --------
    >>> norm([([torch.tensor([3.0]), torch.tensor([4.0])], ())], torch.float32)
    tensor(5.)
    """
    here: list[Tensor] = []
    spread: dict[tuple[Any, ...], list[Tensor]] = {}
    for tensors, ranks in lists:
        (spread.setdefault(ranks, []) if ranks else here).extend(
            _torch._foreach_norm(list(tensors), 2, dtype=dtype)
        )
    for ranks, norms in spread.items():
        square = torch.stack(norms).square().sum()
        for group in ranks:
            _torch.distributed.all_reduce(square, group=group)
        here.append(square.sqrt())
    return _torch.linalg.vector_norm(torch.stack(here)) if len(here) > 1 else here[0]


def twice_product(g: Tensor, plus: Tensor, difference: Tensor) -> Tensor:
    """Give 2⟨g, u⟩ from ‖g‖, ‖g + u‖ and ‖u‖: two norms cost less than a product of many tensors.

    Examples
    --------
    >>> twice_product(torch.tensor(1.0), torch.tensor(3.0), torch.tensor(2.0))
    tensor(4.)
    """
    return (plus * plus).addcmul_(g, g, value=-1).addcmul_(difference, difference, value=-1)
