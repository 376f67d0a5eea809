"""The difference mode: d = g + ν(g⁺ − g), with g⁺ at x + s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ._diagnostics import Seen
from ._family import PROBE, Family
from ._gradients import collect, combine, missing, scale_of, unscale
from ._guard import Guard
from ._replay import Replay
from ._tensors import Bucket, copy_, div_, local, move, norm, precise, scaled, sub_, twice_product

__all__ = ["Difference"]

_dist: Any = torch.distributed  # without types


@dataclass
class _Second:
    """Between the passes: what the second one is to be compared with."""

    buckets: list[Bucket]
    n: Tensor
    c: Tensor | float
    nu: Tensor | float
    scaler: Any
    sums: list[Any] = field(default_factory=list[Any])  # of the first gradient over the ranks, under way


class Difference:
    """Moves the weights to the probe and back, and forms d.

    Parameters
    ----------
    family, guard, replay
        How far and with what weight; whether d is taken; what the second pass must see again.
    eta : float, optional
        ASAM's η.
    dtype : torch.dtype, optional
        The precision of the passes.
    ranks : process group, optional
        Of ranks that each probe along their own gradient.
    """

    def __init__(
        self,
        family: Family,
        guard: Guard,
        replay: Replay,
        eta: float | None,
        dtype: torch.dtype | None,
        ranks: Any,
    ) -> None:
        self.family = family
        self.guard = guard
        self.replay = replay
        self.eta = eta
        self.dtype = dtype
        self.ranks = ranks
        self._second: _Second | None = None
        self._backup: dict[Tensor, Tensor] = {}

    @property
    def pending(self) -> bool:
        """Whether the weights are at the probe, and a second gradient is due."""
        return self._second is not None

    def free(self) -> None:
        """Give the memory of the backup back."""
        self._backup.clear()

    def probe(
        self,
        groups: Sequence[dict[str, Any]],
        strengths: Sequence[float],
        k: int,
        scaler: Any,
        optimizer: Any,
    ) -> None:
        """Keep the first gradient, and move the weights to x + s."""
        if self.pending:
            raise RuntimeError("probe() twice: a second backward pass and step() are due")
        largest = max(strengths, key=abs)
        found = collect(groups, [strength / largest for strength in strengths])
        unscale(scaler, optimizer)
        dtype = precise(found)
        n = norm([(bucket.g, bucket.ranks) for bucket in found], dtype)
        if self.ranks is not None:  # one length for all ranks, along the gradient of each
            square = n * n
            _dist.all_reduce(square, group=self.ranks)
            n = (square / _dist.get_world_size(self.ranks)).sqrt()
        x = norm([(bucket.x, bucket.ranks) for bucket in found], dtype) if self.family.needs_x else None
        length = n if self.eta is None else norm([(scaled(b, self.eta), b.ranks) for b in found], dtype)
        c, nu = self.family.weights(k, largest, length, x, self._accurate(found))
        for bucket in found:
            bucket.backup = [self._kept(p, x) for p, x in zip(bucket.params, bucket.x, strict=True)]
            copy_(bucket.backup, bucket.x)
        self._second = _Second(found, n, c, nu, scaler)
        try:
            for bucket in found:
                move(bucket, c, self.eta)
                for p in bucket.params:
                    p.grad = None  # the second pass makes its own, whatever zero_grad does
            if self.ranks is not None:  # the mean of the first gradients, while the second pass runs
                self._second.sums = [
                    _dist.all_reduce(g, group=self.ranks, async_op=True) for b in found for g in b.g
                ]
            torch.clear_autocast_cache()  # it holds the weights of the first pass
            self.replay.start()
        except BaseException:
            self.restore()
            raise

    def restore(self) -> None:
        """Put the weights back bit for bit, and the first gradient; nothing, where no probe is under way."""
        if self._second is None:
            return
        second, self._second = self._second, None
        self._return(second)
        for bucket in second.buckets:
            for p, grad in zip(bucket.params, bucket.held, strict=True):
                p.grad = grad

    def finish(self, groups: Sequence[dict[str, Any]]) -> Seen:
        """Put the weights back, and d in the place of the gradient."""
        second = self._second
        assert second is not None
        params = [p for group in groups for p in group["params"]]
        if all(p.grad is None for p in params):
            self.restore()
            raise RuntimeError("the second pass gave no gradient: it must call backward() on its loss")
        self._second = None
        self._return(second)
        found = second.buckets + missing(second.buckets, params)
        plus = [[_or_zero(p, g) for p, g in zip(b.params, b.g, strict=True)] for b in found]
        if second.scaler is not None:
            for tensors in plus:
                div_(tensors, scale_of(second.scaler, params[0].device))
        n, dtype = second.n, second.n.dtype
        if self.ranks is not None:
            for work in second.sums:
                work.wait()
            for bucket in found:
                div_(bucket.g, float(_dist.get_world_size(self.ranks)))
            n = norm([(bucket.g, bucket.ranks) for bucket in found], dtype)
        ranks = [bucket.ranks for bucket in found]
        after = norm(zip(plus, ranks, strict=True), dtype) if self.guard.on_guard != "off" else None
        for bucket, tensors in zip(found, plus, strict=True):
            sub_(tensors, bucket.g)  # before ν: the difference is small, and ν may be large
        size = norm(zip(plus, ranks, strict=True), dtype)
        product = None if after is None else twice_product(n, after, size)
        return combine(found, plus, self.guard, Seen(n, second.c, second.nu, product, size))

    def _return(self, second: _Second) -> None:
        self.replay.end()
        with torch.no_grad():
            for bucket in second.buckets:
                copy_(bucket.x, bucket.backup)
                bucket.backup = []
        torch.clear_autocast_cache()

    def _kept(self, p: Tensor, x: Tensor) -> Tensor:
        """Give the memory for a backup of x, the same from step to step."""
        kept = self._backup.get(p)
        if kept is None or kept.shape != x.shape or kept.dtype != x.dtype or kept.device != x.device:
            kept = self._backup[p] = torch.empty_like(x)
        return kept

    def _accurate(self, found: Sequence[Bucket]) -> float:
        """Give the length at which a difference is accurate in the precision of the passes."""
        kind = found[0].x[0].device.type
        if self.dtype is not None:
            dtypes = {self.dtype}
        elif torch.is_autocast_enabled(kind):
            dtypes = {torch.get_autocast_dtype(kind)}
        else:
            dtypes = {bucket.x[0].dtype for bucket in found}
        return max(PROBE.get(dtype, PROBE[torch.bfloat16]) for dtype in dtypes)


def _or_zero(p: Tensor, g: Tensor) -> Tensor:
    return torch.zeros_like(g) if p.grad is None else local(p.grad)
