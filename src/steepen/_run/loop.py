"""The one loop: order, budget, stopping, trace. It knows no method's formulas."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from .._core.arrays import Array, Kit, Many, Mask, Rows, Scalar, is_numpy
from .._core.box import Box
from .._core.carry import NAN, Carry, Ended, State, Tolerances
from .._core.floor import at_floor
from .._core.result import Status
from .._oracle.budget import Budget
from .._oracle.oracle import Cost, Oracle, OutOfTime
from ..directions._direction import Context, Direction
from ..directions.steepest import GD
from ..steps import Along, Step
from ..switches import Never, Switch
from .interrupt import Wish, held_back
from .recorder import BatchRecorder, Recorder

VANISHED = 1e-3
"""A penalised direction this small against ∇f has led to an artificial stationary point."""

IDLE = 11
"""So many steps running without a fall of f that shows end a run."""

SHOWS = 4.0
"""A fall of no more than so many roundings of f does not show."""

HIDING = {s for s in Status if Status.SMALL_DECREASE <= s <= Status.MAX_SECONDS}
"""Ends that may hide such a point."""

LOST = (Status.NONFINITE_VALUE, Status.NONFINITE_GRADIENT, Status.UNBOUNDED, Status.DIVERGED)
"""Ends at a point that is no use: the best one seen is given instead."""

TOLD = (Status.CONVERGED, Status.PRECISION)
"""Ends that the gradient tells."""

BOTTOM = -1e-8
"""f is unbounded below if it falls under this part of the largest number."""

TINY, FAR = 1e-300, 1e300


class Loop:
    """Direction × step × switch, on an oracle."""

    def __init__(
        self,
        oracle: Oracle,
        kit: Kit,
        direction: Direction,
        step: Step,
        switch: Switch,
        budget: Budget,
        tolerances: Tolerances,
        recorder: Recorder | BatchRecorder | None,
        callback: Callable[[State], object] | None,
        watch: Callable[[Loop], object] | None,
        x0: Array,
        box: Box | None = None,
    ):
        self.oracle, self.kit, self.recorder = oracle, kit, recorder
        self.direction, self.step, self.switch = direction, step, switch
        self.budget, self.tolerances = budget, tolerances
        self.callback, self.watch = callback, watch
        self.context = Context(oracle, kit, self._too_late, self._affords, box)
        self.box = box
        self.ended: list[Ended] = []
        self.undone: list[Rows | None] = []  # rows whose last step came to no end
        # steepest descent is what every run falls back to: a run of it alone has nothing switched on
        steepest = isinstance(direction, GD)
        self.carry = Carry(
            k=0,
            x=x0,
            memory=direction.start(x0, kit),
            on=not steepest if kit.size is None else np.full(kit.size, not steepest),
            best_x=x0,
            best_f=np.inf if kit.size is None else np.full(kit.size, np.inf),
            best_k=0,
        )
        self._constant = step.constant
        self._iters = inf if budget.iters is None else budget.iters
        self._rationed = any(limit is not None for limit in (budget.grads, budget.evals, budget.seconds))
        self._penalises = direction.penalised
        self._switching = not isinstance(switch, Never)
        self._small = bool(tolerances.f or tolerances.x)
        self._bottom = BOTTOM * float(kit.xp.finfo(x0.dtype).max)
        self.earlier = 0.0  # seconds of the runs that a checkpoint continues
        self._began = time.perf_counter()
        if budget.seconds is not None:
            oracle.limit(self._too_late)

    @property
    def seconds(self) -> float:
        """Wall time, earlier parts of a resumed run included."""
        return self.earlier + time.perf_counter() - self._began

    def run(self) -> None:
        """Iterate until every row has ended."""
        try:
            with held_back() as wish:
                self._iterate(wish)
        except OutOfTime:
            self._cut(Status.MAX_SECONDS)
        except KeyboardInterrupt:
            self._cut(Status.INTERRUPTED)
        except Exception:
            self._cut(Status.FAILED)
            raise

    def _iterate(self, wish: Wish) -> None:
        c, oracle, watch = self.carry, self.oracle, self.watch
        batch = self.recorder if isinstance(self.recorder, BatchRecorder) else None
        if self._constant is not None:  # then nothing else is known of the next point, ever
            c.alpha = self.context.pick(self._constant)
        while True:
            c.spent = (oracle.nfev, oracle.njev, oracle.nhvp)
            if wish.pressed:
                raise KeyboardInterrupt
            if watch is not None:
                watch(self)
            if self._value(c) or self._gradient(c) or self._step(c):
                return
            if batch is not None:
                batch.close()
            c.advance()

    # Each part ends the rows that must end there, and says whether none is left.

    def _value(self, c: Carry) -> bool:
        """Evaluate f at x_k; judge the step that led there."""
        kit = self.kit
        searched = c.f is not None
        if not searched:
            if self._rationed and self._late():
                return True
            c.f = self.oracle.value(c.x)
        if kit.all((c.f < c.best_f) & (c.f >= self._bottom)):  # so f is finite, too
            c.best_x, c.best_f, c.best_k = c.x, c.f, c.k
        elif self._not_lower(c):
            return True
        if c.k == 0:
            return False
        if self._switching and kit.any(off := self.switch.off(c.k - 1, c.guarded, c.before, c.f)):
            c.on = kit.without(c.on, off)
        if self._small and self._small_step(c):
            return True
        if searched:
            shows = c.before - c.f > np.maximum(SHOWS * self.oracle.eps * abs(c.f), c.noise)
            c.idle = kit.pick(shows, 0, c.idle + 1)
        return self.callback is not None and self._called(c)

    def _gradient(self, c: Carry) -> bool:
        """Evaluate ∇f at x_k; judge the point."""
        kit = self.kit
        if c.g is None or not kit.all(c.known):
            if self._rationed and (self._over(self.oracle.cost_grad) or self._late()):
                return True
            if c.g is None:
                c.g = self.oracle.grad(c.x)
            else:
                c.g = kit.where(c.known, c.g, self.oracle.grad(c.x, kit.negate(c.known)))
        c.gnorm = kit.norm(c.g)
        if not kit.all_finite(c.gnorm) and self._end(~np.isfinite(c.gnorm), Status.NONFINITE_GRADIENT):
            return True
        if self.box is not None:
            c.gnorm = kit.norm(self.box.measure(c.x, c.g))
        if kit.any(done := c.gnorm <= self.tolerances.g):
            if c.k == 0:
                if self.oracle.differentiates and self._flat(c):
                    return True
                done = c.gnorm <= self.tolerances.g
                c.leaving = self.direction.leave(self.context, c.x, c.g, done, c.memory)
                done = kit.without(done, c.leaving)
            if kit.any(done) and self._end(done, Status.CONVERGED):
                return True
        if self._constant is None and kit.any(idle := c.idle >= IDLE):
            if self._floored(idle):
                return True
            if kit.any(idle := c.idle >= IDLE) and self._end(idle, Status.NO_DESCENT):
                return True
        if c.k >= self._iters:
            return self._end(c.gnorm == c.gnorm, Status.MAX_ITERATIONS)
        if not self._rationed:
            return False
        always = self.oracle.cost_value.plus(self.step.cost(self.oracle))
        return self._over(always, self.direction.cost(self.oracle)) or self._late()

    def _step(self, c: Carry) -> bool:
        """Go along the direction where it descends f, else along −∇f: the paper's guard."""
        kit, context, box = self.kit, self.context, self.box
        x, g, size = c.x, c.g, c.gnorm
        if box is not None:
            g = box.free(x, g, g)
            size = kit.norm(g)
        if kit.any(c.on):
            if c.memory:
                self.direction.learn(context, x, c.f, c.g, c.memory)
            p, c.lam = self.direction.propose(context, c.k, x, c.g, c.on, c.memory)
            if box is not None:
                p = box.inward(x, c.g, p)
            slope = kit.dot(g, p)
            # a short direction has a small slope: where none is, p needs no closer look
            if kit.all(c.on & (slope > -inf) & (slope < -VANISHED * size * size)):
                c.guarded, c.penalised, c.vanished = False, self._penalises, False
            else:
                p, slope = self._guard(c, g, size, p, slope)
        else:
            p, slope = None, -size * size  # steepest descent
            c.lam, c.guarded, c.penalised, c.vanished = 0.0, False, False, False
        if self._constant is None:
            along = Along(c.k, x, c.f, c.g, -g if p is None else p, slope, c.alpha, c.noise)
            c.slope, c.unit = slope, size if p is None else kit.norm(p)
            c.alpha, c.to_f, c.to_g, c.to_known, c.noise = self.step.choose(context, along)
        to_x = kit.times(-c.alpha, g) if p is None else kit.times(c.alpha, p)
        to_x += x
        c.to_x = to_x if box is None else box.project(to_x)
        if (p is not None or not kit.all(c.alpha * size < FAR)) and self._diverged(c):
            return True
        if self.tolerances.x:
            c.moved = c.alpha * kit.norm(g if p is None else p) if box is None else kit.norm(c.to_x - x)
        if c.to_f is not None and self._stuck(c):
            return True
        if p is None:
            c.shown = c.alpha
        else:
            c.shown, c.lam = self.direction.amounts(c.alpha, c.lam, c.memory)
        if self.recorder is not None:
            self.recorder.add(context.rows, c)
        return False

    def _guard(self, c: Carry, g: Array, size: Scalar, p: Array, slope: Scalar) -> tuple[Array, Scalar]:
        """Put −∇f where p does not descend f; say where p has vanished."""
        kit = self.kit
        good = (slope < 0) & (slope > -inf)
        if c.k == 0 and kit.any(c.leaving):  # there the slope is zero: any lower point will do
            good = good | c.leaving
            slope = kit.pick(c.leaving, np.minimum(slope, -TINY), slope)
        used = c.on & good
        c.guarded, c.penalised = kit.without(c.on, good), self._penalises and used
        if not kit.all(used):
            p, c.lam = kit.where(used, p, -g), kit.pick(used, c.lam, 0.0)
            slope = kit.pick(used, slope, -size * size)
        c.vanished = c.penalised & (kit.norm(p) <= VANISHED * size)
        return p, slope

    # --- ends -----------------------------------------------------------------------------------

    def _not_lower(self, c: Carry) -> bool:
        """End the rows whose f is no use; keep the best of the others."""
        kit = self.kit
        better = (c.f < c.best_f) & (c.f > -inf)
        if kit.any(better):
            c.best_x = kit.where(better, c.x, c.best_x)
            c.best_f = kit.pick(better, c.f, c.best_f)
            c.best_k = kit.pick(better, c.k, c.best_k)
        if kit.any(bottomless := c.f < self._bottom) and self._end(bottomless, Status.UNBOUNDED):
            return True
        return not kit.all_finite(c.f) and self._end(~np.isfinite(c.f), Status.NONFINITE_VALUE)

    def _small_step(self, c: Carry) -> bool:
        kit, tolerances = self.kit, self.tolerances
        if tolerances.f:
            scale = np.maximum(np.maximum(abs(c.before), abs(c.f)), 1.0)
            fall = c.before - c.f
            small = (fall >= 0) & (fall <= tolerances.f * scale) & (c.alpha > 0)
            if kit.any(small) and self._end(small, Status.SMALL_DECREASE):
                return True
        if tolerances.x:
            small = (
                (c.moved <= tolerances.x * np.maximum(kit.norm(c.x), 1.0)) & (c.moved < inf) & (c.alpha > 0)
            )
            return kit.any(small) and self._end(small, Status.SMALL_MOVE)
        return False

    def _diverged(self, c: Carry) -> bool:
        """End the rows whose next point is not finite."""
        finite = self.kit.finite(c.to_x)
        return not self.kit.all(finite) and self._end(self.kit.negate(finite), Status.DIVERGED)

    def _called(self, c: Carry) -> bool:
        assert self.callback is not None
        scalars: Any = (c.f, c.lam, c.shown, c.penalised, c.guarded, *c.spent)
        rows = self.context.rows
        if self.oracle.rows is not None:
            scalars = [np.array(np.broadcast_to(s, self.oracle.rows)) for s in scalars]
            rows = np.arange(self.oracle.rows) if rows is None else rows.copy()
        state = State(c.k, self.kit.copy(c.x), *scalars, seconds=self.seconds, rows=rows)
        try:
            stop: Any = self.callback(state)
        except StopIteration:
            stop = True
        if stop is True or stop is np.True_:
            return self._end(c.f == c.f, Status.CALLBACK)
        if is_numpy(stop) and self.kit.size is not None:
            if stop.dtype != bool or stop.shape != (self.oracle.rows,):
                raise TypeError(f"callback: expected one bool for each row, got {stop!r}")
            return self.kit.any(stop) and self._end(stop, Status.CALLBACK)
        return False

    def _too_late(self) -> bool:
        return self.budget.seconds is not None and self.seconds >= self.budget.seconds

    def _late(self) -> bool:
        if not self._too_late():
            return False
        everyone = True if self.oracle.rows is None else np.ones(self.oracle.rows, dtype=bool)
        return self._end(everyone, Status.MAX_SECONDS)

    def _over(self, always: Cost, if_on: Cost | None = None) -> bool:
        """End the rows whose budget does not cover a cost (`if_on`: only where the penalty is on)."""
        kit, oracle, c = self.kit, self.oracle, self.carry
        extra = if_on or Cost()
        for limit, counter, base, more, status in (
            (self.budget.grads, "njev", always.grads, extra.grads, Status.MAX_GRADIENTS),
            (self.budget.evals, "nfev", always.evals, extra.evals, Status.MAX_EVALUATIONS),
        ):
            if limit is not None:
                over = getattr(oracle, counter) + base + c.on * more > limit
                if kit.any(over) and self._end(over, status):
                    return True
        return False

    def _affords(self, cost: Cost) -> Mask:
        """Say where the budget still covers a cost."""
        rows, covered = self.oracle.rows, True
        for limit, counter, more in (
            (self.budget.evals, "nfev", cost.evals),
            (self.budget.grads, "njev", cost.grads),
        ):
            if limit is not None and more:
                covered = covered & (getattr(self.oracle, counter) + more <= limit)
        return covered if rows is None else np.broadcast_to(covered, rows)

    def _stuck(self, c: Carry) -> bool:
        """End the rows for which the line search found no step, or no budget for one."""
        kit, oracle = self.kit, self.oracle
        for limit, counter, status in (
            (self.budget.evals, "nfev", Status.MAX_EVALUATIONS),
            (self.budget.grads if oracle.cost_value.grads else None, "njev", Status.MAX_GRADIENTS),
        ):
            if limit is not None:
                poor = (c.alpha == 0) & (getattr(oracle, counter) >= limit)
                if kit.any(poor) and self._end(poor, status):
                    return True
        stuck = c.alpha == 0
        if not kit.any(stuck):
            return False
        if self._too_late():
            return self._end(stuck, Status.MAX_SECONDS)
        if self._floored(stuck):
            return True
        stuck = c.alpha == 0
        again = self.direction.recover(self.context, c.x, stuck, c.memory)
        if kit.any(again):  # they stay where they are, for this iteration
            other = c.g * NAN if c.to_g is None else c.to_g
            c.to_g, c.to_known = kit.where(again, c.g, other), c.to_known | again
        stuck = kit.without(stuck, again)
        return kit.any(stuck) and self._end(stuck, Status.NO_DESCENT)

    def _floored(self, mask: Mask) -> bool:
        """End the rows in which f is as low as its rounding, or its noise, lets it be."""
        c, kit = self.carry, self.kit
        floored, noisy = at_floor(self.context, c.x, c.f, c.g, -c.slope, c.unit, c.noise, mask)
        if kit.any(precise := kit.without(floored, noisy)):
            if self._end(precise, Status.PRECISION):
                return True
            noisy = noisy[~precise]
        return kit.any(noisy) and self._end(noisy, Status.NOISE)

    def _flat(self, c: Carry) -> bool:
        """Look whether a start without any gradient is one, or a function that autodiff cannot follow."""
        kit = self.kit
        flat = kit.norm(c.g) == 0
        poor = kit.without(flat, self._affords(self.oracle.cost_value))
        if kit.any(poor):
            if self._end(poor, Status.MAX_EVALUATIONS):
                return True
            flat = flat[~poor]
        if kit.any(flat):
            self.oracle.refuse_cut_graph(c.x, c.f, None if kit.size is None else flat)
        return False

    def _rough(self, mask: Mask) -> Mask:
        """Say for which of these rows the gradient's own error is more than gtol."""
        kit, c = self.kit, self.carry
        if not kit.any(mask):
            return mask
        error = self.oracle.error(c.x, c.f, c.g, None if kit.size is None else mask)
        c.error = kit.norm(self.context.free(c.x, c.g, error))
        return mask & kit.negate(c.error <= self.tolerances.g)

    def _cut(self, status: Status) -> None:
        """End everything at once, wherever the iteration stands."""
        c = self.carry
        if self.kit.size is None and self.ended:
            return  # it had just ended by itself
        if self.recorder is not None and self.recorder.length > c.k:
            # the step was made and recorded
            c.advance()
        everyone = True if self.oracle.rows is None else np.ones(self.oracle.rows, dtype=bool)
        self._end(everyone, status)

    def _end(self, mask: Mask, status: Status) -> bool:
        """End these rows with this status; say whether none is left."""
        c, kit, oracle = self.carry, self.kit, self.oracle
        if status in HIDING and kit.any(lost := mask & c.vanished):
            if self._end(lost, Status.ARTIFICIAL):
                return True
            mask = mask[~lost]
            if not kit.any(mask):
                return False
        if status in TOLD and oracle.coarse:
            poor = kit.without(mask, self._affords(oracle.cost_error))
            if kit.any(poor):
                if self._end(poor, Status.MAX_EVALUATIONS):
                    return True
                mask = mask[~poor]
            if kit.any(rough := self._rough(mask)):
                if self._end(rough, Status.ROUGH_GRADIENT):
                    return True
                mask = mask[~rough]
            if not kit.any(mask):
                return False
        counts = (oracle.nfev, oracle.njev, oracle.nhvp, oracle.nhev)
        if isinstance(kit, Many):
            rows, left = np.flatnonzero(mask), np.flatnonzero(~mask)
            live = self.context.rows
            live = np.arange(kit.size) if live is None else live
            leaving = copy(c)
            if len(left):
                leaving.keep(rows, kit)
            self._close(
                leaving,
                live[rows],
                status,
                tuple(np.broadcast_to(count, len(mask))[rows] for count in counts),
            )
            if len(left):
                c.keep(left, kit)
                oracle.keep(left)
                self.context.rows = live[left]
                return False
        else:
            self._close(c, None, status, counts)
        if isinstance(self.recorder, BatchRecorder):
            self.recorder.close()
        return True

    def _close(self, c: Carry, rows: Rows | None, status: Status, counts: tuple[Any, ...]) -> None:
        kit, nit, known = self.kit, c.k, c.f is not None
        if not known and nit:
            # cut before f was known here: the last step does not count
            nit -= 1
            self.undone.append(rows)
        x, f, g = (
            c.x,
            c.f if known else c.best_f * NAN,
            c.x * NAN if c.g is None else self.oracle.reported(c.g),
        )
        if self.recorder is not None and known:
            together = rows is None or len(rows) == kit.size
            last = replace(c, lam=NAN, shown=NAN, penalised=False, guarded=False)
            self.recorder.add(None if together else rows, last)
        if not known or status in LOST:
            seen = np.isfinite(c.best_f)
            f = kit.pick(seen, c.best_f, f)
            x, g = kit.where(seen, c.best_x, x), x * NAN
        self.ended.append(Ended(rows, status, nit, x, f, g, c.best_x, c.best_f, c.best_k, counts, c.error))
