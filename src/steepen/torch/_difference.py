"""The passes of a step: the weights to x + s and back, and d = g + ν(g⁺ − g) in the place of the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from ._auto import Steering
from ._family import PROBE, Family, Probe
from ._guard import Guard
from ._launch import Launch
from ._numbers import Numbers
from ._passes import Passes, aligned, find, refuse_sparse, scale_of, unscale
from ._plan import Plan
from ._replay import Replay
from ._tensors import add_, copy_, local

__all__ = ["Difference", "Stage"]

_dist: Any = torch.distributed  # without types


class Stage(Enum):
    """Where a step stands."""

    READY = "the weights are at x: between two steps, or in the first pass of a loop"
    FIRST = "the first pass of a closure is running"
    PROBED = "the weights are at x + s, and a gradient is due there"
    SECOND = "the second pass of a closure is running, at x + s"


class Difference:
    """Moves the weights to the probe and back, and forms d."""

    def __init__(
        self,
        probe: Probe,
        family: Family,
        guard: Guard,
        replay: Replay,
        passes: Passes,
        ranks: Any,
        steering: Steering | None,
    ) -> None:
        self.to = probe
        self.family = family
        self.guard = guard
        self.replay = replay
        self.passes = passes
        self.ranks = ranks  # that each probe along their own gradient, if any
        self.steering = steering
        self.stage = Stage.READY
        self.along_g = True  # or the probe of the last step was along a g that is weighted
        self._plan: Plan | None = None
        self._move: Any = None
        self._form: Any = None
        self.scaler: Any = None  # of the probe
        self._count = 0  # backward passes before the probe
        self._sums: list[Any] = []  # of the first gradient over the ranks, under way

    def __getstate__(self) -> dict[str, Any]:
        if self.moved:
            raise RuntimeError("a copy between probe() and step(): call restore() first")
        return self.__dict__ | {"_plan": None, "_move": None, "_form": None}  # made anew at the next step

    @property
    def moved(self) -> bool:
        """Whether the weights are at x + s."""
        return self.stage in (Stage.PROBED, Stage.SECOND)

    def release(self) -> None:
        """Give the memory of the copies back."""
        self._plan = self._move = self._form = None

    def probe(self, optimizer: Any, strengths: Sequence[float], scaler: Any, *, closure: bool) -> None:
        """Move the weights to x + s, and keep what is needed of the first gradient."""
        if self.moved:
            raise RuntimeError("probe() twice: a second backward pass and step() are due")
        kind = self.to.kind
        states = optimizer.state if kind == "momentum" else None
        params, found, weights, etas = find(optimizer.param_groups, strengths, optimizer.eta_key, states)
        if states is None:
            self.passes.refuse_old(params)
        if kind == "difference":
            unscale(scaler, optimizer, self.ranks)
        plan = self._plan
        if plan is None or not plan.fits(params, weights, etas):
            refuse_sparse(found)
            plan = self._prepare(params, weights, etas)
        self._dial(self.family.numbers(optimizer.k, max(strengths, key=abs), self._accurate(plan)))
        if self.steering is not None:
            self.steering.dial(optimizer.k)
        grads = plan.parts(found)
        self.scaler = scaler
        scale = scale_of(scaler, plan.device) if kind == "share" and scaler is not None else None
        try:
            if scale is None:
                self._move(lambda: self._to_probe(plan, grads, None), found)
            else:
                self._to_probe(plan, grads, scale)
        except BaseException:
            if plan.whole:
                plan.put_back()
            raise
        self.stage, plan.whole = Stage.PROBED, True
        try:
            if plan.plain:  # for autograd: a graph of the first pass is of no use in the second
                torch.autograd.graph.increment_version(params)
            torch.clear_autocast_cache()  # it holds the weights of the first pass
            if kind == "momentum":
                return
            for p in params:
                p.grad = None  # the second pass makes its own, whatever zero_grad does
            if self.ranks is not None and kind == "difference":  # while the second pass runs
                self._sums = [_dist.all_reduce(b.held, group=self.ranks, async_op=True) for b in plan.buckets]
            self._count = self.passes.count
            self.passes.clear()
            self.replay.second(closure=closure)
        except BaseException:
            self.restore()
            raise

    def restore(self) -> None:
        """Put the weights back bit for bit, and the first gradient; nothing, where no probe is under way."""
        if not self.moved:
            return
        whole = self._plan is not None and self._plan.whole
        plan = self._end()
        if self.to.kind == "difference":
            self.passes.clear(self._count)
        with torch.no_grad():
            if whole:
                plan.put_back()
            self._mean(plan)
            for bucket in plan.buckets:
                for p, g in zip(bucket.params, bucket.g, strict=False):  # of one copy, no gradient is kept
                    p.grad = _like(p, g.clone())

    def finish(self, params: Sequence[Tensor]) -> None:
        """Put the weights back, and d in the place of the gradient."""
        plan = self._plan
        assert plan is not None
        try:
            self._refuse(params)
            if self.to.alone:
                self._form(lambda: self._put_back(plan), self._judged(plan))
            else:
                self._combine(plan)
        except BaseException:
            self.restore()
            raise
        self._end()
        self.guard.report()
        if not self.to.alone and len(params) > len(plan.params):
            self._rest(params, plan)

    def _combine(self, plan: Plan) -> None:
        """Find the second gradient, and form d of it."""
        found = [grad if (grad := p.grad) is not None else _zeros(p) for p in plan.params]
        if not plan.plain:
            found = [aligned(p) for p in plan.params]
        plus = plan.parts(found)
        if self._mean(plan):
            self.numbers.n.copy_(plan.norm("held"))
        if self.scaler is None:
            self._form(lambda: self._to_direction(plan, plus, None), found)
        else:
            self._to_direction(plan, plus, scale_of(self.scaler, plan.device))

    def _refuse(self, params: Sequence[Tensor]) -> None:
        """Refuse a second gradient that is missing, or of other data than the first."""
        if self.to.kind == "momentum":
            return
        if all(p.grad is None for p in params):
            raise RuntimeError("the second pass gave no gradient: it must call backward() on its loss")
        before, after = self._count, self.passes.count
        if before != after and before and after:  # none: gradients that were put there by hand
            raise RuntimeError(
                f"{before} backward passes before the probe, and {after} after it: both gradients must be of "
                "the same micro-batches"
            )

    def _end(self) -> Plan:
        plan = self._plan
        assert plan is not None
        self.stage, plan.whole = Stage.READY, False
        self.replay.end()
        torch.clear_autocast_cache()
        return plan

    def _rest(self, params: Sequence[Tensor], plan: Plan) -> None:
        """Form d of parameters that only the second pass came by: their g is 0."""
        known = set(plan.params)
        nu, skip = self.numbers.nu, self.numbers.skip
        if self.scaler is not None:
            nu = nu / scale_of(self.scaler, plan.device)
        for p in params:
            if p.grad is not None and p not in known:
                part = local(aligned(p))
                new = part * nu
                part.copy_(torch.where(skip > 0, torch.zeros_like(new), new))

    def _mean(self, plan: Plan) -> bool:
        """End the sums over the ranks, if any, in a mean of the first gradients."""
        works, self._sums = self._sums, []
        for work in works:
            work.wait()
        for bucket in plan.buckets if works else []:
            bucket.held.div_(_dist.get_world_size(self.ranks))
        return bool(works)

    def _prepare(
        self, params: Sequence[Tensor], weights: Sequence[float], etas: Sequence[float | None]
    ) -> Plan:
        self.release()  # before room is made for another
        plan = Plan(params, weights, etas, copies=1 if self.to.alone else 2)
        self.numbers = Numbers.make(plan.dtype, plan.device)
        self.along_g = plan.along_g
        self._dialled: tuple[float, ...] = (0.0,) * 4
        self.guard.start(plan.device)
        if self.steering is not None:
            self.steering.start(plan.device)
        self.passes.watch(params)
        if not self.replay.shared:
            self.replay.look()
        alone = self.ranks is None and plan.plain
        self._move, self._form = Launch.pair(plan.device, graph=alone)
        self._plan = plan
        return plan

    def _dial(self, numbers: tuple[float, ...]) -> None:
        """Bring the numbers of this step to the device, each as an argument of a kernel: without a wait."""
        for i, (old, new) in enumerate(zip(self._dialled, numbers, strict=True)):
            if old != new:
                self.numbers.all[i].fill_(new)
        self._dialled = numbers

    def _to_probe(self, plan: Plan, grads: list[list[Tensor]], scale: Tensor | None) -> None:
        """Work on fixed places only, for a graph: the plan's, the numbers' and those of the gradients."""
        numbers = self.numbers
        plan.keep()
        if not self.to.alone:
            for bucket, tensors in zip(plan.buckets, grads, strict=True):
                copy_(bucket.g, tensors)
            grads = [bucket.g for bucket in plan.buckets]
        n = self._common(plan.norm_of(grads) if self.to.alone else plan.norm("held"), scale)
        length = self._common(plan.adapted(grads), scale) if plan.adapts else n
        x = plan.norm("kept") if self.family.needs_x else None
        asked = numbers.length if self.steering is None else numbers.length * self.steering.gain
        c, nu = self.family.weights(asked, numbers.least, numbers.limit, numbers.weight, length, x)
        if self.to.kind == "momentum":
            c = -c  # the way the momentum is going
        # where the gradient is not finite, or the guard has ended all this, the pass stays where it is
        lost = n.isfinite().logical_not().float()
        if self.to.alone:
            lost = torch.maximum(lost, self.guard.over)
        factor = c if scale is None else c / scale
        for bucket, tensors in zip(plan.buckets, grads, strict=True):
            bucket.move(factor, tensors, lost)
        numbers.write(n=n, c=c, nu=nu)

    def _common(self, norm: Tensor, scale: Tensor | None) -> Tensor:
        """Make ranks that probe along their own gradients agree on a length: the root of the mean square."""
        norm = norm if scale is None else norm / scale
        if self.ranks is None:
            return norm
        return self._mean_of(norm * norm).sqrt()

    def _mean_of(self, value: Tensor) -> Tensor:
        """Return the mean of a number over the ranks that each probe along their own gradient."""
        if self.ranks is None:
            return value
        _dist.all_reduce(value, group=self.ranks)
        return value / _dist.get_world_size(self.ranks)

    def _to_direction(self, plan: Plan, plus: list[list[Tensor]], scale: Tensor | None) -> None:
        """Work on fixed places only, for a graph: the plan's and the numbers'."""
        numbers = self.numbers
        plan.put_back()
        plan.whole = False  # from here on it is the second gradient's room
        for bucket, tensors in zip(plan.buckets, plus, strict=True):
            copy_(bucket.views, tensors)
            if scale is not None:
                bucket.kept.div_(scale)
        after = plan.norm("kept")
        for bucket in plan.buckets:
            bucket.kept.sub_(bucket.held)  # before ν: the difference is small, and ν may be large
        n, nu, size = numbers.n, numbers.nu, plan.norm("kept")
        # ⟨g, u⟩ of three norms: a product of BLAS would take a work space of its own
        along = (after * after - n * n - size * size) / 2
        skip = self.guard.judge(n, nu, along, after)
        for bucket, tensors in zip(plan.buckets, plus, strict=True):
            add_([bucket.held], nu, [bucket.kept], skip)
            copy_(tensors, bucket.g)
        numbers.write(along=along, after=after, skip=skip.to(n.dtype))
        numbers.tell()

    def _judged(self, plan: Plan) -> list[Tensor]:
        """Return the gradients at x + s, where the guard is to look at them."""
        if not self._looks:
            return []
        return [aligned(p) if p.grad is not None else _zeros(p) for p in plan.params]

    @property
    def _looks(self) -> bool:
        """Whether ⟨g, d⟩ or ⟨s, d⟩ is asked for, where g⁺ is d."""
        return self.guard.on_guard != "off" or self.steering is not None

    def _put_back(self, plan: Plan) -> None:
        """Where g⁺ is d: put the weights back; on the way the guard looks at ⟨g, d⟩, the steering at ⟨s, d⟩.

        Fixed places only, as above. What is left of g is s = x⁺ − x, which takes the place of the weights
        for as long as it is looked at: with a = ‖s‖/‖d‖ the cosine is ‖s + a·d‖²/(2‖s‖²) − 1.
        """
        numbers = self.numbers
        nan = torch.full_like(numbers.n, torch.nan)
        along, after = nan, nan
        if self._looks:
            grads = plan.parts([p.grad for p in plan.params])  # pyright: ignore
            after = plan.norm_of(grads)
            for bucket in plan.buckets:
                bucket.add(torch.full_like(after, -1), bucket.views)
            s = plan.norm_of([bucket.x for bucket in plan.buckets])
            for bucket, tensors in zip(plan.buckets, grads, strict=True):
                bucket.add(s / after, tensors)
            both = plan.norm_of([bucket.x for bucket in plan.buckets])
            cosine = torch.where(s > 0, both * both / (2 * s * s) - 1, 1.0)
            if self.scaler is not None:
                after = after / scale_of(self.scaler, plan.device)
            along = numbers.n * (after * cosine * numbers.c.sign() - numbers.n)
            if self.steering is not None:  # to second order f(x + s) − f(x), up to half of ⟨s, ∇f(x)⟩
                self.steering.steer(self._mean_of(torch.where(s > 0, after * s * cosine / 2, torch.nan)))
        if self.guard.on_guard == "off":
            self.guard.pass_by(numbers.n)
        else:
            self.guard.judge(numbers.n, numbers.nu, along, after)
        plan.put_back()
        numbers.write(along=along, after=after)
        numbers.tell()

    def _accurate(self, plan: Plan) -> float:
        """Return the length at which a difference is accurate in the precision of the passes."""
        if self.to.dtype is not None:
            dtypes = {self.to.dtype}
        elif torch.is_autocast_enabled(plan.device.type):
            dtypes = {torch.get_autocast_dtype(plan.device.type)}
        else:
            dtypes = {bucket.kept.dtype for bucket in plan.buckets}
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
