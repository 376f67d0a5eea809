"""Where the weights and the gradient of a step are kept: a long vector of each for a kind of parameter.

On long vectors the arithmetic of a step is a handful of kernels, however many parameters there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import torch
from torch import Tensor

from ._tensors import add_, copy_, is_dense, local, norm, shards

__all__ = ["Bucket", "Plan"]


class Bucket:
    """Parameters of one dtype, weight and η, sharded over the same ranks, with room for one or two copies.

    `kept` is for the weights, and then for the second gradient; `held` for the first gradient, where that is
    needed again. Both are one vector each, with views laid out like the parameters.
    """

    def __init__(self, params: list[Tensor], places: list[int], kind: tuple[Any, ...], copies: int) -> None:
        self.params = params
        self.places = places  # among all the parameters
        _, self.weight, self.eta, self.ranks = kind
        self.x = [local(p) for p in params]
        self.kept, self.views = _room(self.x)
        self.held, self.g = _room(self.x) if copies == 2 else (self.kept[:0], [])
        self.dense = [is_dense(x) for x in self.x]  # else a strided view of something

    def add(self, c: Tensor, ys: Sequence[Tensor], skip: Tensor | None = None) -> None:
        """Add c·y to the parameters; nothing where `skip` is 1."""
        fits = [
            dense and x.stride() == y.stride() and x.dtype == y.dtype  # to be fused
            for dense, x, y in zip(self.dense, self.x, ys, strict=True)
        ]
        if any(fits):
            add_(list(compress(self.x, fits)), c, list(compress(ys, fits)), skip)
        for x, y in compress(zip(self.x, ys, strict=True), [not fit for fit in fits]):
            # one at a time: no further copy of all the parameters
            wide = torch.promote_types(x.dtype, torch.float32)
            new = x.to(wide) + c * y.to(wide)
            x.copy_(new if skip is None else torch.where(skip > 0, x.to(wide), new))

    def move(self, c: Tensor, grads: list[Tensor], skip: Tensor) -> None:
        """Move the parameters to x + s: s = c·g, or c·T²g with ASAM's T = |x| + η; nowhere if `skip` is 1."""
        c = c if self.weight == 1.0 else c * self.weight
        if self.eta is None:
            self.add(c, grads, skip)
            return
        for x, g in zip(self.x, grads, strict=True):
            wide = torch.promote_types(x.dtype, torch.float32)
            before = x.to(wide)
            along = before.abs().add_(self.eta).square_().mul_(g.to(wide))
            x.copy_(torch.where(skip > 0, before, before + c * along))


class Plan:
    """The buckets of the parameters that have a gradient; it holds as long as they stay where they are."""

    def __init__(
        self, params: Sequence[Tensor], weights: Sequence[float], etas: Sequence[float | None], copies: int
    ) -> None:
        self.ids = list(map(id, params))
        self.settings = [*weights, *etas]
        self.whole = False  # the copy of the weights
        devices = {p.device for p in params}
        if len(devices) > 1:
            names = ", ".join(sorted(map(str, devices)))
            raise ValueError(f"base: expected parameters on one device, got {names}; shard the model instead")
        kinds: dict[tuple[Any, ...], list[int]] = {}
        for i, (p, weight, eta) in enumerate(zip(params, weights, etas, strict=True)):
            kinds.setdefault((p.dtype, weight, eta, shards(p)), []).append(i)
        self.buckets = [
            Bucket([params[i] for i in places], places, kind, copies) for kind, places in kinds.items()
        ]
        self.params = list(params)
        self.adapts = any(eta is not None for eta in etas)
        self.along_g = not self.adapts and all(weight == 1 for weight in weights)
        self.device = params[0].device
        wide = any(p.dtype == torch.float64 for p in params)
        self.dtype = torch.float64 if wide else torch.float32  # of norms and factors
        self.plain = not any(hasattr(p, "to_local") for p in params)
        self.layout = self._layout()

    def fits(self, params: Sequence[Tensor], weights: Sequence[float], etas: Sequence[float | None]) -> bool:
        """Say whether these are the parameters, where and as they were, and set the same way."""
        same = self.ids == list(map(id, params)) and self.settings == [*weights, *etas]
        return same and self.layout == self._layout()

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
        """Return the norm of all that is "held" or "kept"."""
        return norm([([getattr(b, which)], b.ranks) for b in self.buckets], self.dtype)

    def norm_of(self, tensors: Sequence[Sequence[Tensor]]) -> Tensor:
        """Return the norm of tensors sorted by `parts`."""
        return norm([(ts, b.ranks) for b, ts in zip(self.buckets, tensors, strict=True)], self.dtype)

    def adapted(self, grads: Sequence[Sequence[Tensor]]) -> Tensor:
        """Return ‖T·g‖ with ASAM's T = |x| + η, and T = 1 where there is no η."""
        wide = self.dtype

        def size(bucket: Bucket, x: Tensor, g: Tensor) -> Tensor:  # a tensor at a time: each is a copy
            one = g if bucket.eta is None else (x.to(wide).abs() + bucket.eta) * g.to(wide)
            return norm([([one], ())], wide)

        sizes = [
            [size(b, x, g) for x, g in zip(b.views, gs, strict=True)]
            for b, gs in zip(self.buckets, grads, strict=True)
        ]
        return self.norm_of(sizes)


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
