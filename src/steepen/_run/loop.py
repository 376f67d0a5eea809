"""The one loop: order, budget, ends, trace. It knows no method's formulas."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from math import inf
from typing import Any, NoReturn

import numpy as np

from .._core.arrays import Array, Mask, Rows, Scalar, Whole, is_numpy
from .._core.context import Context
from .._core.floor import at_floor
from .._core.guard import guarded
from .._core.judge import RUNNING, Tolerances, judge_gradient, judge_step
from .._core.records import NAN, Best, Carry, Counts, Ended, Point, State, each
from .._core.result import Status
from .._core.saved import Saved, require
from .._oracle.ledger import Cost, OutOfTime
from ..directions._direction import Direction
from ..steps import Along, Step
from ..switches import Switch
from .interrupt import Wish, held_back
from .recorder import BatchRecorder, Recorder

IDLE = 11
"""A run ends after this many consecutive steps without a measurable decrease of f."""

SHOWS = 4.0
"""A decrease of no more than this many roundings of f is not measurable."""

LOST = (Status.NONFINITE_VALUE, Status.NONFINITE_GRADIENT, Status.UNBOUNDED, Status.DIVERGED)
"""Ends at a point that is no use: the best one seen is given instead."""

FAR = 1e-8
"""A step that is shorter than this part of the largest number cannot make x overflow."""


class Over(Exception):
    """The last row has ended."""


class Loop:
    """Direction × step × switch, on an oracle, in a space.

    Each part of an iteration ends the rows that must end there; `Over` is raised when none is left.
    """

    def __init__(
        self,
        context: Context,
        direction: Direction,
        step: Step,
        switch: Switch,
        tolerances: Tolerances,
        recorder: Recorder | BatchRecorder | None,
        callback: Callable[[State], object] | None,
        watch: Callable[[Loop], object] | None,
        x0: Array,
    ):
        self.context, self.kit, self.space = context, context.kit, context.space
        self.oracle, self.ledger, self.recorder = context.oracle, context.ledger, recorder
        self.direction, self.step, self.switch = direction, step, switch
        self.tolerances, self.callback, self.watch = tolerances, callback, watch
        self.ended: list[Ended] = []
        self.undone: list[Rows | None] = []  # rows whose last step came to no end
        memory = direction.start(self.kit, x0)
        # steepest descent is what every run falls back to: a run of it alone has nothing switched on
        best = Best(x0, self._everyone(inf))
        on = self._everyone(not direction.steepest)
        self.carry = Carry(0, Point(x0), best, on, memory, Point(x0))
        self._constant = step.constant
        self._far = FAR * float(self.kit.xp.finfo(x0.dtype).max)
        self._iters = inf if self.ledger.budget.iters is None else self.ledger.budget.iters
        # these are asked for in every iteration
        self._judged, self._bottom = bool(tolerances.f or tolerances.x), tolerances.bottom
        self._limited, self._penalised = self.ledger.limited, direction.penalised
        self._close: Callable[[], None] | None = getattr(recorder, "close", None)  # of a batch

    def run(self) -> None:
        """Iterate until every row has ended."""
        try:
            with held_back() as wish:
                self._iterate(self.carry, wish)
        except Over:
            pass
        except OutOfTime:
            self._cut(Status.MAX_SECONDS)
        except KeyboardInterrupt:
            self._cut(Status.INTERRUPTED)
        except Exception:
            self._cut(Status.FAILED)
            raise

    def _iterate(self, c: Carry, wish: Wish) -> None:
        ledger, watch, close = self.ledger, self.watch, self._close
        if self._constant is not None:  # then nothing else is known of the next point, ever
            c.move.alpha = self.context.live(self._constant)
        while True:
            c.spent = (ledger.nfev, ledger.njev, ledger.nhvp)
            if wish.pressed:
                raise KeyboardInterrupt
            if watch is not None:
                watch(self)
            self._arrive(c)
            self._stand(c)
            self._step(c)
            if close is not None:
                close()
            c.advance()

    # --- an iteration ----------------------------------------------------------------------------------

    def _arrive(self, c: Carry) -> None:
        """Evaluate f; judge the step that led here."""
        kit, point, best = self.kit, c.point, c.best
        searched = point.f is not None
        if not searched:
            if self._limited:
                self._in_time()
            point.f = self.oracle.value(point.x)
        f = point.f
        if kit.all((f < best.f) & (f >= self._bottom)):  # so f is finite, too
            best.x, best.f, best.k = point.x, f, c.k
            if self._judged:
                self._end(judge_step(kit, point, c.move, self.tolerances))
        else:
            better = (f < best.f) & (f > -inf)
            best.x, best.f = kit.where(better, point.x, best.x), kit.pick(better, f, best.f)
            best.k = kit.pick(better, c.k, best.k)
            self._end(judge_step(kit, point, c.move, self.tolerances))
        if c.k == 0:
            c.first = c.point.f
            return
        if self._penalised:
            off = self.switch.off(c.k - 1, c.move.guarded, c.move.before, c.point.f, c.first)
            if kit.any(off):
                c.on = kit.without(c.on, off)
        if searched:
            f = c.point.f
            least = kit.num.maximum(SHOWS * self.context.eps * abs(f), c.move.noise)
            c.idle = kit.pick(c.move.before - f > least, 0, c.idle + 1)
        if self.callback is not None:
            self._call_back(c)

    def _stand(self, c: Carry) -> None:
        """Evaluate ∇f; judge the point, and whether the budget has a step left."""
        kit, oracle, point = self.kit, self.oracle, c.point
        if point.g is None or not kit.all(point.known):
            if self._limited:
                self._covered(oracle.cost_grad)
                self._in_time()
                point = c.point
            if point.g is None or not kit.any(point.known):
                point.g = oracle.grad(point.x)
            else:
                rest = kit.negate(point.known)
                point.g = kit.where(point.known, point.g, oracle.grad(point.x, rest))
            point.known = True
        point.size = kit.norm(point.g)
        point.gnorm = self.space.residual(point.x, point.g, point.size)
        if not kit.all_finite(point.size) or kit.any(point.gnorm <= self.tolerances.g):
            self._judge_gradient(c)
        if self._constant is None and kit.any(c.idle >= IDLE):
            self._floored(c.idle >= IDLE)
            self._end(kit.pick(c.idle >= IDLE, Status.NO_DESCENT, RUNNING))
        if c.k >= self._iters:
            self._end(self._everyone(Status.MAX_ITERATIONS))
        if self._limited:
            self._covered(oracle.cost_value.plus(self.step.cost(oracle)), self.direction.cost(oracle))
            self._in_time()

    def _step(self, c: Carry) -> None:
        """Go along the direction where it descends f, else along −∇f."""
        kit, context, space, point, move = self.kit, self.context, self.space, c.point, c.move
        x = point.x
        g, size = space.descent(x, point.g, point.size)
        p, slope = None, -size * size  # steepest descent
        if kit.any(c.on):
            if c.memory:
                c.memory = self.direction.learn(context, point, c.memory)
            lam = context.live(self.direction.coefficient(c.k))
            p, lam, c.memory, trusted = self.direction.propose(context, c.k, point, lam, c.on, c.memory)
            p = space.inward(x, point.g, p)
            p, slope, used, move.guarded, vanished = guarded(kit, c.on, g, size, p, trusted)
            move.lam = lam if used is True else kit.pick(used, lam, 0.0)
            move.penalised, move.vanished = self._penalised and used, self._penalised and vanished
        else:
            move.lam, move.guarded, move.penalised, move.vanished = 0.0, False, False, False
        ahead = c.ahead
        if self._constant is None:
            along = Along(c.k, x, point.f, point.g, -g if p is None else p, slope, move.alpha, move.noise)
            move.slope, move.length = slope, size if p is None else kit.norm(p)
            move.alpha, ahead.f, ahead.g, ahead.known, move.noise = self.step.choose(context, along)
            reach = move.length
        else:
            ahead.f, ahead.g, ahead.known = None, None, False
            reach = size if p is None else inf
        to = kit.times(-move.alpha, g) if p is None else kit.times(move.alpha, p)
        to += x
        ahead.x = space.project(to)
        if self.tolerances.x:
            move.moved = space.moved(x, ahead.x, g if p is None else p, move.alpha)
        if not kit.all(move.alpha * reach < self._far):
            finite = kit.finite(ahead.x)
            if not kit.all(finite):
                self._end(kit.pick(finite, RUNNING, Status.DIVERGED))
        if c.ahead.f is not None:
            self._searched(c)
        if p is None:
            c.move.shown = c.move.alpha
        else:
            c.move.shown, c.move.lam = self.direction.amounts(c.move.alpha, c.move.lam, c.memory)
        if self.recorder is not None:
            self.recorder.add(context.rows, c)

    # --- what is rare ----------------------------------------------------------------------------------

    def _judge_gradient(self, c: Carry) -> None:
        """End the rows whose gradient is within gtol, or is not finite; look twice at a start without one."""
        self._look_closer(c)
        if c.k == 0:
            self._end(self._broken_gradient(c))
            if self.oracle.differentiates:
                self._refuse_cut_graphs(c)
            still = c.point.gnorm <= self.tolerances.g
            c.memory, leaving = self.direction.leave(self.context, c.point, still, c.memory)
            self._end(self.kit.pick(self.kit.without(still, leaving), Status.CONVERGED, RUNNING))
        else:
            self._end(judge_gradient(self.kit, c.point, self.tolerances))

    def _look_closer(self, c: Carry) -> None:
        """Where a difference is exactly 0, find out whether f has the digits to show a slope."""
        kit, oracle, gtol = self.kit, self.oracle, self.tolerances.g
        small = c.point.gnorm <= gtol
        if not kit.any(doubt := small & oracle.doubtful(c.point.x, c.point.g)):
            return
        self._end(kit.pick(doubt, self.ledger.over(oracle.cost_look, Cost(), False), RUNNING))
        point = c.point
        doubt = (point.gnorm <= gtol) & oracle.doubtful(point.x, point.g)
        if kit.any(doubt) and kit.any(coarse := oracle.look_closer(point.x, point.f, point.g, gtol, doubt)):
            point.g = kit.where(coarse, oracle.grad(point.x, coarse), point.g)
            point.size = kit.norm(point.g)
            point.gnorm = self.space.residual(point.x, point.g, point.size)

    def _broken_gradient(self, c: Carry) -> Whole:
        return self.kit.pick(np.isfinite(c.point.size), RUNNING, Status.NONFINITE_GRADIENT)

    def _refuse_cut_graphs(self, c: Carry) -> None:
        """Look whether a start without any gradient is one, or a function that autodiff cannot follow."""
        kit, flat = self.kit, c.point.size == 0
        poor = kit.without(flat, self.context.affords(self.oracle.cost_value))
        self._end(kit.pick(poor, Status.MAX_EVALUATIONS, RUNNING))
        if kit.any(flat := c.point.size == 0):
            self.oracle.refuse_cut_graph(c.point.x, c.point.f, flat)

    def _searched(self, c: Carry) -> None:
        """End the rows for which the line search found no step, or no budget for one."""
        kit, context = self.kit, self.context
        if not kit.any(c.move.alpha == 0):
            return
        poor = self.ledger.over(self.oracle.cost_value, Cost(), False)
        self._end(kit.pick(c.move.alpha == 0, poor, RUNNING))
        if self.ledger.late():
            self._end(kit.pick(c.move.alpha == 0, Status.MAX_SECONDS, RUNNING))
        self._floored(c.move.alpha == 0)
        stuck = c.move.alpha == 0
        if not kit.any(stuck):
            return
        c.memory, again = self.direction.recover(context, c.point, stuck, c.memory)
        # they stay where they are, for this iteration
        c.ahead.g, c.ahead.known = kit.where(again, c.point.g, c.ahead.g), c.ahead.known | again
        self._end(kit.pick(kit.without(stuck, again), Status.NO_DESCENT, RUNNING))

    def _floored(self, mask: Mask) -> None:
        """End the rows in which f is as low as its rounding, or its noise, lets it be."""
        kit, point, move = self.kit, self.carry.point, self.carry.move
        if kit.any(mask):
            floored, noisy = at_floor(
                self.context, point.x, point.f, point.g, -move.slope, move.length, move.noise, mask
            )
            self._end(kit.pick(noisy, Status.NOISE, kit.pick(floored, Status.PRECISION, RUNNING)))

    def _call_back(self, c: Carry) -> None:
        assert self.callback is not None
        move, rows, live = c.move, self.context.rows, self.ledger.rows
        scalars: Any = (c.point.f, move.lam, move.shown, move.penalised, move.guarded, *c.spent)
        if live is not None:
            scalars = [np.array(np.broadcast_to(s, live)) for s in scalars]
            rows = np.arange(live) if rows is None else rows.copy()
        state = State(c.k, self.kit.copy(c.point.x), *scalars, seconds=self.ledger.seconds, rows=rows)
        try:
            stop: Any = self.callback(state)
        except StopIteration:
            stop = True
        if stop is True or stop is np.True_:
            self._end(self._everyone(Status.CALLBACK))
        elif is_numpy(stop) and live is not None:
            if stop.dtype != bool or stop.shape != (live,):
                raise TypeError(f"callback: expected one bool for each row, got {stop!r}")
            self._end(self.kit.pick(stop, Status.CALLBACK, RUNNING))

    # --- checkpoints -----------------------------------------------------------------------------------

    def parts(self) -> dict[str, Any]:
        """Return what has state, by name."""
        return {"run": self, "ledger": self.ledger, "oracle": self.oracle}

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds: all that the next iteration needs, and the rows that have ended."""
        c, kit = self.carry, self.kit
        point = replace(c.point, g=c.point.g if kit.any(c.point.known) else None)
        return {
            "k": c.k, "rows": self.context.rows, "on": c.on, "idle": c.idle, "first": c.first,
            "point": point, "best": replace(c.best), "move": replace(c.move),
            "memory": each(lambda a: np.array(kit.host(a), order="K"), c.memory),  # these change in place
            "ended": {str(i): piece for i, piece in enumerate(self.ended)},
        }  # fmt: skip

    def load(self, saved: Saved, name: str) -> None:
        """Go on from a checkpoint."""
        c, size = self.carry, self.kit.size
        c.k = saved.k = saved.number(f"{name}.k", np.int64, 0, inf)
        self.context.rows = live = saved.rows(f"{name}.rows", none=True)
        require(live is None or size is not None, "a single run has no rows")
        saved.live = size if live is None else len(live)
        if size is not None:
            while f"{name}.ended.{len(self.ended)}.rows" in saved.arrays:
                self.ended.append(self._load_ended(saved, f"{name}.ended.{len(self.ended)}"))
            rows: list[Any] = [np.arange(size) if live is None else live, *(end.rows for end in self.ended)]
            require(np.array_equal(np.sort(np.concatenate(rows)), np.arange(size)), "rows are missing")
        c.on = saved.value(f"{name}.on", "Mask", saved.live)
        c.idle = saved.value(f"{name}.idle", "Whole", saved.live)
        c.first = saved.value(f"{name}.first", "Scalar", saved.live)
        c.point = saved.record(f"{name}.point", c.point, saved.live)
        c.move = saved.record(f"{name}.move", c.move, saved.live)
        c.best = self._load_best(saved, f"{name}.best", saved.live)
        c.memory = saved.record(f"{name}.memory", c.memory, saved.live)

    def _load_best(self, saved: Saved, name: str, rows: int | None) -> Best:
        best = saved.record(name, self.carry.best, rows)
        k = np.asarray(best.k)
        require((k >= 0) & (k <= saved.k), f"{name}.k is not within 0 and {saved.k}")
        require(~np.isnan(best.f), f"{name}.f is NaN")
        return best

    def _load_ended(self, saved: Saved, name: str) -> Ended:
        """Return rows that ended together."""
        rows = saved.rows(f"{name}.rows")
        one, n = self.carry.point.x, len(rows)
        status = saved.take(f"{name}.status", np.int64, (n,))
        require(np.isin(status, list(Status)), f"{name}.status is {status}")
        nit = saved.number(f"{name}.nit", np.int64, 0, saved.k)
        x, f, g, error = (
            saved.value(f"{name}.{part}", kind, n, one if kind == "Array" else None)
            for part, kind in (("x", "Array"), ("f", "Scalar"), ("g", "Array"), ("error", "Scalar"))
        )
        best = self._load_best(saved, f"{name}.best", n)
        counts = saved.record(f"{name}.counts", Counts(), n)
        require(all(np.shape(count) == (n,) for count in counts), f"{name}.counts are not one a row")
        require(np.concatenate(counts) >= 0, f"{name}.counts is negative")
        return Ended(rows, status, nit, x, f, g, best, counts, error)

    # --- ends ------------------------------------------------------------------------------------------

    def _everyone(self, value: Any) -> Any:
        """Return a value for each live row."""
        return value if self.ledger.rows is None else np.full(self.ledger.rows, value)

    def _in_time(self) -> None:
        if self.ledger.late():
            self._end(self._everyone(Status.MAX_SECONDS))

    def _covered(self, cost: Cost, more: Cost = Cost()) -> None:  # noqa: B008  it is immutable
        """End the rows whose budget does not cover a cost, and more of it where the direction is on."""
        self._end(self.ledger.over(cost, more, self.carry.on))

    def _cut(self, status: Status) -> None:
        """End everything at once, wherever the iteration stands."""
        c = self.carry
        if self.kit.size is None and self.ended:
            return  # it had just ended by itself
        if self.recorder is not None and self.recorder.length > c.k:
            # the step was made and recorded
            c.advance()
        with suppress(Over):
            self._end(self._everyone(status))

    def _end(self, code: Whole) -> None:
        """End the rows that have a status."""
        c, kit, context = self.carry, self.kit, self.context
        if not kit.any(code != RUNNING):
            return
        code, error = self._honest(c, code)
        counts = self.ledger.counts
        if kit.size is None:
            self._put_away(c, None, code, counts, error)
            self._leave()
        codes: Any = np.broadcast_to(code, (self.ledger.rows or 0,))
        rows, left = np.flatnonzero(codes != RUNNING), np.flatnonzero(codes == RUNNING)
        if not len(rows):
            return
        live = np.arange(kit.size) if context.rows is None else context.rows
        whole = [np.broadcast_to(part, len(codes))[rows] for part in (codes, error, *counts)]
        leaving = each(lambda a: kit.take(a, rows), c) if len(left) else c
        self._put_away(leaving, live[rows], whole[0], Counts(*whole[2:]), whole[1])
        if not len(left):
            self._leave()
        staying = each(lambda a: kit.take(a, left), c)
        for field in fields(c):
            setattr(c, field.name, getattr(staying, field.name))
        self.oracle.keep(left)
        context.rows = live[left]

    def _leave(self) -> NoReturn:
        if self._close is not None:
            self._close()
        raise Over

    def _honest(self, c: Carry, code: Whole) -> tuple[Whole, Scalar]:
        """Return the codes as they may be told, and the error of a gradient that is too rough for them."""
        kit, oracle = self.kit, self.oracle
        code, error = self._unhidden(c, code), NAN
        told = ((code == Status.CONVERGED) | (code == Status.PRECISION)) & oracle.coarse
        if kit.any(told):
            poor = kit.without(told, self.context.affords(oracle.cost_error))
            code = self._unhidden(c, kit.pick(poor, Status.MAX_EVALUATIONS, code))
            if kit.any(told := kit.without(told, poor)):
                x, g = c.point.x, c.point.g
                error = kit.norm(self.space.free(x, g, oracle.error(x, c.point.f, g, c.move.noise, told)))
                rough = kit.without(told, error <= self.tolerances.g)
                code = kit.pick(rough, Status.ROUGH_GRADIENT, code)
        return code, error

    def _unhidden(self, c: Carry, code: Whole) -> Whole:
        """Name artificial stationary points, which small steps and budgets may hide."""
        hidden = (code >= Status.SMALL_DECREASE) & (code <= Status.MAX_SECONDS) & c.move.vanished
        return self.kit.pick(hidden, Status.ARTIFICIAL, code) if self.kit.any(hidden) else code

    def _put_away(self, c: Carry, rows: Rows | None, code: Any, counts: Counts, error: Scalar) -> None:
        kit, point, nit, evaluated = self.kit, c.point, c.k, c.point.f is not None
        if not evaluated and nit:
            # cut before f was known here: the last step does not count
            nit -= 1
            self.undone.append(rows)
        x, nowhere = point.x, point.x * NAN
        f = point.f if evaluated else c.best.f * NAN
        g = nowhere if point.g is None else kit.where(point.known, self.oracle.reported(point.g), nowhere)
        if self.recorder is not None and evaluated:
            together = rows is None or len(rows) == kit.size
            last = replace(c.move, lam=NAN, shown=NAN, penalised=False, guarded=False)
            self.recorder.add(None if together else rows, replace(c, move=last))
        lost = np.isin(code, LOST) | (not evaluated)
        if kit.any(lost):
            seen = lost & np.isfinite(c.best.f)
            f, x, g = kit.pick(seen, c.best.f, f), kit.where(seen, c.best.x, x), kit.where(lost, nowhere, g)
        self.ended.append(Ended(rows, code, nit, x, f, g, c.best, counts, error))
