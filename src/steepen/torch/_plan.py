"""Where the gradients and the weights of a step are kept: two long vectors for each kind of parameter.

On long vectors the arithmetic of a step is a handful of kernels, however many parameters there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ._tensors import add_, copy_, is_dense, local, norm, shards

__all__ = ["Bucket", "Plan"]


class Bucket:
    """Parameters of one dtype and one weight, sharded over the same ranks, with room for two copies.

    `held` is for the first gradient; `kept` for the weights and then for the second gradient. Both are one
    vector each, with views laid out like the parameters.
    """

    def __init__(
        self, params: list[Tensor], places: list[int], weight: float, ranks: tuple[Any, ...]
    ) -> None:
        self.params = params
        self.places = places  # among all the parameters
        self.weight = weight
        self.ranks = ranks
        self.x = [local(p) for p in params]
        self.held, self.g = _room(self.x)
        self.kept, self.views = _room(self.x)
        loose = [not is_dense(x) for x in self.x]  # a strided view of something: not for a fused kernel
        self.dense = [i for i, strange in enumerate(loose) if not strange]
        self.loose = [i for i, strange in enumerate(loose) if strange]

    def move(self, c: Tensor, eta: float | None, skip: Tensor) -> None:
        """Move the parameters to x + s: s = c·g, or c·T²g with ASAM's T = |x| + η; nowhere if `skip` is 1."""
        c = c if self.weight == 1.0 else c * self.weight
        if eta is None and self.dense:
            add_([self.x[i] for i in self.dense], c, [self.g[i] for i in self.dense], skip)
        for i in self.loose if eta is None else range(len(self.x)):
            # one at a time: no third copy of all the parameters
            old, g = (
                tensor.to(torch.promote_types(tensor.dtype, torch.float32))
                for tensor in (self.views[i], self.g[i])
            )
            along = g if eta is None else old.abs().add_(eta).square_().mul_(g)
            self.x[i].copy_(torch.where(skip > 0, old, old + c * along))

    def adapted(self, eta: float, dtype: torch.dtype) -> Iterator[Tensor]:
        """Give T·g, a tensor at a time."""
        for x, g in zip(self.views, self.g, strict=True):
            yield (x.to(dtype).abs() + eta) * g.to(dtype)


class Plan:
    """The buckets of the parameters that have a gradient; it holds as long as they stay where they are.

    Examples
    --------
    >>> p = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> plan = Plan([p], [1.0])
    >>> with torch.no_grad():
    ...     plan.keep()
    >>> plan.norm("kept")
    tensor(5.)
    """

    def __init__(self, params: Sequence[Tensor], weights: Sequence[float]) -> None:
        self.ids = list(map(id, params))
        self.weights = list(weights)
        self.whole = False  # the copy of the weights
        devices = {p.device for p in params}
        if len(devices) > 1:
            names = ", ".join(sorted(map(str, devices)))
            raise ValueError(f"base: expected parameters on one device, got {names}; shard the model instead")
        kinds: dict[tuple[Any, ...], list[int]] = {}
        for i, (p, weight) in enumerate(zip(params, weights, strict=True)):
            kinds.setdefault((p.dtype, weight, shards(p)), []).append(i)
        self.buckets = [
            Bucket([params[i] for i in places], places, kind[1], kind[2]) for kind, places in kinds.items()
        ]
        self.params = list(params)
        self.device = params[0].device
        wide = any(p.dtype == torch.float64 for p in params)
        self.dtype = torch.float64 if wide else torch.float32  # of norms and factors
        self.plain = not any(hasattr(p, "to_local") for p in params)
        self.layout = self._layout()

    def fits(self, params: Sequence[Tensor], weights: Sequence[float]) -> bool:
        """Say whether these are the parameters, where and as they were, and weighted the same way."""
        return self.ids == list(map(id, params)) and self.layout == self._layout() and self.weights == weights

    def _layout(self) -> list[Any]:
        here = self.params if self.plain else [local(p) for p in self.params]
        places = [p.data_ptr() for p in here]
        return [places, [p.numel() for p in self.params], [p.stride() for p in self.params]]

    def parts(self, tensors: Sequence[Tensor]) -> list[list[Tensor]]:
        """Sort the parts of tensors that lie on this rank, one for each parameter, into the buckets."""
        here = list(tensors) if self.plain else [local(tensor) for tensor in tensors]
        if len(self.buckets) == 1:
            return [here]
        return [[here[i] for i in bucket.places] for bucket in self.buckets]

    def keep(self) -> None:
        """Copy the weights."""
        self.whole = False
        for bucket in self.buckets:
            copy_(bucket.views, bucket.x)
        self.whole = True

    def put_back(self) -> None:
        """Give the weights their old values."""
        for bucket in self.buckets:
            copy_(bucket.x, bucket.views)

    def norm(self, which: str) -> Tensor:
        """Give the norm of all that is "held" or "kept"."""
        return norm([([getattr(b, which)], b.ranks) for b in self.buckets], self.dtype)

    def adapted(self, eta: float) -> Tensor:
        """Give ‖T·g‖ with ASAM's T = |x| + η."""
        wide = self.dtype
        parts = [
            ((x.to(wide).abs() + eta) * g.to(wide) for x, g in zip(b.views, b.g, strict=True))
            for b in self.buckets
        ]
        return norm(zip(parts, [b.ranks for b in self.buckets], strict=True), wide)  # a tensor at a time


def _room(like: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Make one vector with a view for each tensor, each at an address that wide loads can use."""
    first = like[0]
    step = 128 // first.element_size()
    starts: list[int] = []
    total = 0
    for x in like:
        starts.append(total)
        total += -(-x.numel() // step) * step
    vector = torch.zeros(total, dtype=first.dtype, device=first.device)
    views = [
        vector.as_strided(x.shape, x.stride() if is_dense(x) else _contiguous(x.shape), start)
        for x, start in zip(like, starts, strict=True)
    ]
    return vector, views


def _contiguous(shape: Sequence[int]) -> list[int]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * max(size, 1))
    return strides[: len(shape)]
