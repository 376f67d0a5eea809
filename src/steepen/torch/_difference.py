"""The difference mode: d = g + ν(g⁺ − g), with g⁺ at x + s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ._diagnostics import Seen
from ._family import PROBE, Family
from ._gradients import aligned, find, refuse_sparse, scale_of, unscale
from ._guard import Guard
from ._launch import Launch
from ._plan import Plan
from ._replay import Replay
from ._tensors import add_, copy_, local

__all__ = ["Difference"]

_dist: Any = torch.distributed  # without types

# The slate: the numbers of the step, on the device. First those that the family asks for, then ‖g‖, c, ν,
# ⟨g, g⁺ − g⟩, ‖g⁺‖, and whether the guard said no.
_N, _NU, _SKIP = 4, 6, 9


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
        self.pending = False  # the weights are at the probe, and a second gradient is due
        self._plan: Plan | None = None
        self._move: Any = None
        self._form: Any = None
        self.scaler: Any = None  # of the probe
        self._sums: list[Any] = []  # of the first gradient over the ranks, under way

    def __getstate__(self) -> dict[str, Any]:
        if self.pending:
            raise RuntimeError("a copy between probe() and step(): call restore() first")
        return self.__dict__ | {"_plan": None, "_move": None, "_form": None}  # made anew at the next step

    def free(self) -> None:
        """Give the memory of both copies back."""
        self._plan = self._move = self._form = None

    def probe(
        self,
        groups: Sequence[dict[str, Any]],
        strengths: Sequence[float],
        k: int,
        scaler: Any,
        optimizer: Any,
        *,
        fresh: bool,
    ) -> None:
        """Keep the first gradient, and move the weights to x + s; `fresh`: it cannot be an old one."""
        if self.pending:
            raise RuntimeError("probe() twice: a second backward pass and step() are due")
        params, found, weights = find(groups, strengths, fresh=fresh)
        unscale(scaler, optimizer, self.ranks)
        plan = self._plan
        if plan is None or not plan.fits(params, weights):
            refuse_sparse(found)
            plan = self._prepare(params, weights)
        self._dial(self.family.numbers(k, max(strengths, key=abs), self._accurate(plan)))
        grads = plan.parts(found)
        self.scaler = scaler
        try:
            self._move(lambda: self._to_probe(plan, grads), found)
        except BaseException:
            if plan.whole:
                plan.put_back()
            raise
        self.pending = plan.whole = True
        try:
            if plan.plain:  # for autograd: a graph of the first pass is of no use in the second
                torch.autograd.graph.increment_version(params)
            for p in params:
                p.grad = None  # the second pass makes its own, whatever zero_grad does
            if self.ranks is not None:  # the mean of the first gradients, while the second pass runs
                self._sums = [_dist.all_reduce(b.held, group=self.ranks, async_op=True) for b in plan.buckets]
            torch.clear_autocast_cache()  # it holds the weights of the first pass
            self.replay.start()
        except BaseException:
            self.restore()
            raise

    def restore(self) -> None:
        """Put the weights back bit for bit, and the first gradient; nothing, where no probe is under way."""
        if not self.pending:
            return
        whole = self._plan is not None and self._plan.whole
        plan = self._end()
        with torch.no_grad():
            if whole:
                plan.put_back()
            self._mean(plan)
            for bucket in plan.buckets:
                for p, g in zip(bucket.params, bucket.g, strict=True):
                    p.grad = _like(p, g.clone())

    def finish(self, groups: Sequence[dict[str, Any]]) -> Seen:
        """Put the weights back, and d in the place of the gradient."""
        plan = self._plan
        assert plan is not None
        try:
            params: list[Tensor] = [p for group in groups for p in group["params"]]
            if all(p.grad is None for p in params):
                raise RuntimeError("the second pass gave no gradient: it must call backward() on its loss")
            found = [grad if (grad := p.grad) is not None else _zeros(p) for p in plan.params]
            if not plan.plain:
                found = [aligned(p) for p in plan.params]
            plus = plan.parts(found)
            scale = None if self.scaler is None else scale_of(self.scaler, plan.device)
            self.replay.check()
            if self._mean(plan):
                self._slate[_N].copy_(plan.norm("held"))
            if scale is None:
                self._form(lambda: self._to_direction(plan, plus, None), found)
            else:
                self._to_direction(plan, plus, scale)
        except BaseException:
            self.restore()
            raise
        self._end()
        self.guard.report()
        if len(params) > len(plan.params):
            self._rest(params, plan, scale)
        return Seen(self._last, self._along_g)

    def _end(self) -> Plan:
        plan = self._plan
        assert plan is not None
        self.pending = plan.whole = False
        self.replay.end()
        torch.clear_autocast_cache()
        return plan

    def _rest(self, params: Sequence[Tensor], plan: Plan, scale: Tensor | None) -> None:
        """Form d of parameters that only the second pass came by: their g is 0."""
        known = set(plan.params)
        nu, skip = self._slate[_NU], self._slate[_SKIP]
        for p in params:
            if p.grad is not None and p not in known:
                part = local(aligned(p))
                new = part * nu if scale is None else part * nu / scale
                part.copy_(torch.where(skip > 0, torch.zeros_like(new), new))

    def _mean(self, plan: Plan) -> bool:
        """End the sums over the ranks, if any, in a mean of the first gradients."""
        works, self._sums = self._sums, []
        for work in works:
            work.wait()
        for bucket in plan.buckets if works else []:
            bucket.held.div_(_dist.get_world_size(self.ranks))
        return bool(works)

    def _prepare(self, params: Sequence[Tensor], weights: Sequence[float]) -> Plan:
        self.free()  # before room is made for another
        plan = Plan(params, weights)
        self._slate = torch.zeros(_SKIP + 1, dtype=plan.dtype, device=plan.device)
        self._last = self._slate[_N:_SKIP].clone()
        self._along_g = self.eta is None and all(weight == 1 for weight in weights)
        self._numbers: tuple[float, ...] = (0.0,) * _N
        self.guard.start(plan.device)
        self.replay.look()
        alone = self.ranks is None and plan.plain
        self._move, self._form = Launch.pair(plan.device, graph=alone)
        self._plan = plan
        return plan

    def _dial(self, numbers: tuple[float, ...]) -> None:
        """Bring the numbers of this step to the device, each as an argument of a kernel: without a wait."""
        for i, (old, new) in enumerate(zip(self._numbers, numbers, strict=True)):
            if old != new:
                self._slate[i].fill_(new)
        self._numbers = numbers

    def _to_probe(self, plan: Plan, grads: list[list[Tensor]]) -> None:
        """Work on fixed places only, for a graph: the plan's and the slate."""
        plan.keep()
        for bucket, tensors in zip(plan.buckets, grads, strict=True):
            copy_(bucket.g, tensors)
        n = self._common(plan.norm("held"))
        length = n if self.eta is None else self._common(plan.adapted(self.eta))
        x = plan.norm("kept") if self.family.needs_x else None
        c, nu = self.family.weights(self._slate[:_N], length, x)
        lost = n.isfinite().logical_not().float()  # then the second pass stays where the first was
        for bucket in plan.buckets:
            bucket.move(c, self.eta, lost)
        self._slate[_N : _NU + 1].copy_(torch.stack((n, c, nu)))

    def _common(self, norm: Tensor) -> Tensor:
        """Make ranks that probe along their own gradients agree on a length: the root of the mean square."""
        if self.ranks is None:
            return norm
        square = norm * norm
        _dist.all_reduce(square, group=self.ranks)
        return (square / _dist.get_world_size(self.ranks)).sqrt()

    def _to_direction(self, plan: Plan, plus: list[list[Tensor]], scale: Tensor | None) -> None:
        """Work on fixed places only, for a graph: the plan's and the slate."""
        plan.put_back()
        plan.whole = False  # from here on it is the second gradient's room
        for bucket, tensors in zip(plan.buckets, plus, strict=True):
            copy_(bucket.views, tensors)
            if scale is not None:
                bucket.kept.div_(scale)
        after = plan.norm("kept")
        for bucket in plan.buckets:
            bucket.kept.sub_(bucket.held)  # before ν: the difference is small, and ν may be large
        n, nu, size = self._slate[_N], self._slate[_NU], plan.norm("kept")
        # ⟨g, u⟩ of three norms: a product of BLAS would take a work space of its own
        along = (after * after - n * n - size * size) / 2
        skip = self.guard.judge(n, nu, along, after)
        for bucket, tensors in zip(plan.buckets, plus, strict=True):
            add_([bucket.held], nu, [bucket.kept], skip)
            copy_(tensors, bucket.g)
        self._slate[_NU + 1 :].copy_(torch.stack((along, after, skip.to(n.dtype))))
        self._last.copy_(self._slate[_N:_SKIP])

    def _accurate(self, plan: Plan) -> float:
        """Give the length at which a difference is accurate in the precision of the passes."""
        if self.dtype is not None:
            dtypes = {self.dtype}
        elif torch.is_autocast_enabled(plan.device.type):
            dtypes = {torch.get_autocast_dtype(plan.device.type)}
        else:
            dtypes = {bucket.held.dtype for bucket in plan.buckets}
        return max(PROBE.get(dtype, PROBE[torch.bfloat16]) for dtype in dtypes)


def _zeros(p: Tensor) -> Tensor:
    """Give a parameter that the second pass did not come by the gradient that it has there."""
    p.grad = torch.zeros_like(p)
    return p.grad


def _like(p: Tensor, part: Tensor) -> Tensor:
    """Give this rank's part of a gradient the form of its parameter."""
    if not hasattr(p, "to_local"):
        return part
    whole: Any = torch.zeros_like(p)
    local(whole).copy_(part)
    return whole
