"""One iteration, in functions from a carry to a carry: the order that every driver follows.

    begin, then again and again: arrive, stand, aim, search, settle

Each takes a carry, uses it up and returns it. None of them raises, drops rows, or asks for the time: a row
that must end gets a status, and evaluations are made for the rows without one. The eager driver (`_run`)
takes ended rows out of the carry between two of them; the compiled one (`jax`) leaves them where they are.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from ._core.arrays import Array, Mask, Scalar, Whole
from ._core.guard import guarded
from ._core.judge import asked, judge_gradient, judge_step
from ._core.records import NAN, RUNNING, Best, Carry, Point
from ._core.result import Status
from ._oracle import tuning
from ._oracle.ledger import Cost
from ._oracle.oracle import Context
from ._problem import Settings
from ._roundoff import at_floor
from .steps import Along

SHOWS = 4.0
"""A decrease of no more than this many roundings of f is not measurable."""

LOST = tuple(map(int, (Status.NONFINITE_VALUE, Status.NONFINITE_GRADIENT, Status.UNBOUNDED, Status.DIVERGED)))
"""Ends at a point that is no use: the best one seen is given instead."""

(
    CONVERGED, PRECISION, NOISE, NO_DESCENT, DIVERGED, MAX_ITERATIONS, MAX_EVALUATIONS, ARTIFICIAL,
    ROUGH_GRADIENT,
) = map(
    int,
    (
        Status.CONVERGED, Status.PRECISION, Status.NOISE, Status.NO_DESCENT,
        Status.DIVERGED, Status.MAX_ITERATIONS, Status.MAX_EVALUATIONS, Status.ARTIFICIAL,
        Status.ROUGH_GRADIENT,
    ),
)  # fmt: skip
FIRST_HIDDEN, LAST_HIDDEN = int(Status.SMALL_DECREASE), int(Status.MAX_SECONDS)

NOTHING = Cost()

DOUBT, ALARMING = 10.0, 1e-2
"""‖∇f‖ ≤ gtol is doubted where, by the slope, x of twice the size would change more than DOUBT·gtol of f."""

NEAR = 1e-6
"""A step by this part of x or less does not move it."""

SMALL = 1e-3
"""f is small where neither it nor its decrease so far is more; the default gtol then says little."""

ENOUGH, DOUBTS = 1e-9, 3
"""A doubt ends where a step lowers f by no more than this part; after an ALARMING one, so often at most."""


class Iteration:
    """Direction × step × switch, on an oracle, in a space."""

    def __init__(self, context: Context, settings: Settings):
        self.context, self.settings = context, settings
        self.kit, self.space, self.oracle, self.ledger = (
            context.kit, context.space, context.oracle, context.ledger,
        )  # fmt: skip
        self.direction, self.step, self.switch = settings.direction, settings.step, settings.switch
        self.tolerances = tolerances = settings.tolerances
        # these are asked for in every iteration
        self._constant, self._searches = self.step.constant, self.step.searches
        self._brings = self.step.brings
        self._steepest, self._penalised = self.direction.steepest, self.direction.penalised
        self._moves, self._judged = asked(tolerances.x), asked(tolerances.f) or asked(tolerances.x)
        self._bottom, self._gtol, self.relative = tolerances.bottom, tolerances.g, asked(tolerances.rel)
        self._far = -tolerances.bottom  # a step that is shorter cannot make x overflow
        self._counted, self._bounded = self.ledger.counted, self.space.bounded
        self.source = self.oracle.source
        self._iters: Any = inf if self.ledger.budget.iters is None else self.ledger.budget.iters

    def begin(self, x: Array) -> Carry:
        """Return a run that stands at x, where nothing has been evaluated."""
        direction, rows = self.direction, self.kit.size

        def everyone(value: Any) -> Any:
            return value if rows is None else np.full(rows, value)

        # steepest descent is what every run falls back to: a run of it alone has nothing switched on
        on = everyone(not direction.steepest)
        c = Carry(0, Point(x), Best(x, everyone(inf)), on, direction.start(self.kit, x), Point(x))
        if self._constant is not None:  # then nothing else is known of the next point, ever
            c.move.alpha = self._constant
        return c

    def arrive(self, c: Carry) -> Carry:
        """Evaluate f; judge the step that led here."""
        kit, point, best = self.kit, c.point, c.best
        searched = point.f is not None
        if not searched:
            point.f = self.oracle.value(point.x, None if c.status is RUNNING else self._live(c))
            point.g = self.oracle.came
        f = point.f
        if kit.all((f < best.f) & (f >= self._bottom)):  # so f is finite, too
            best.x, best.f, best.k = point.x, f, c.k
            if self._judged:
                self._end(c, judge_step(kit, point, c.move, self.tolerances))
        else:
            better = (f < best.f) & (f > -inf)
            best.x, best.f = kit.where(better, point.x, best.x), kit.pick(better, f, best.f)
            best.k = kit.pick(better, c.k, best.k)
            self._end(c, judge_step(kit, point, c.move, self.tolerances))
        if (c.k == 0) is True:  # in a compiled loop, which begins after the start, k has no value
            c.first = f
            return c
        if self._penalised and c.on is not False:
            off = self.switch.off(c.k - 1, c.move.guarded, c.move.before, f, c.first)
            if kit.any(off):
                c.on = kit.without(c.on, off)
        if searched:
            least = kit.num.maximum(SHOWS * self.context.eps * abs(f), c.move.noise)
            if not self.source.cheap:
                least = kit.num.maximum(least, self.source.eps_f(f))
            made = c.move.trial == 0  # and not a step that is still being searched for
            c.idle = kit.pick(c.move.before - f > least, 0, c.idle + made)
        return c

    def look(self, c: Carry) -> Point:
        """Evaluate ∇f where it is not known, and the budget covers it; return the point."""
        kit, point = self.kit, c.point
        g, known = point.g, point.known
        if g is not None and kit.all(known):
            return point
        if self._counted:
            poor = self.ledger.over(self.oracle.cost_grad, NOTHING, False)
            self._end(c, poor if known is False else kit.pick(known, RUNNING, poor))
            if c.status is not RUNNING and not kit.any(c.status == RUNNING):
                return point
        live = None if c.status is RUNNING else self._live(c)
        came = g if self._brings else None
        if g is None or not kit.any(known):
            point.g, point.error = self.source.gradient(c, live, came)
        else:
            rest, error = kit.negate(known) if live is None else kit.without(live, known), point.error
            new, point.error = self.source.gradient(c, rest, came)
            point.g = kit.where(known, g, new)
            if point.error is not None:
                point.error = kit.where(known, error, point.error)
        point.known = True if live is None else known | live
        return point

    def stand(self, c: Carry) -> Carry:
        """Evaluate ∇f; judge the point, and whether the budget has a step left."""
        kit, point = self.kit, self.look(c)
        if c.status is not RUNNING and not kit.any(c.status == RUNNING):
            return c
        g = point.g
        point.size = size = kit.norm(g, point.size)
        point.gnorm = gnorm = self.space.residual(point.x, g, size) if self._bounded else size
        if c.status is not RUNNING:
            point.gnorm = gnorm = kit.pick(point.known, gnorm, NAN)
        least = self._gtol
        if self.relative:
            c.top = kit.pick(gnorm > c.top, gnorm, c.top)
            least = kit.num.maximum(least, self.tolerances.rel * c.top)
        if not kit.all_finite(size) or kit.any(gnorm <= least):
            self._judge_gradient(c)
        if self._searches and kit.any(tired := c.idle >= self.source.stalled):
            c.tired = c.tired | (
                tired & (c.status == RUNNING)
            )  # they make no other step, and end as it settles
        if (spent := c.k >= self._iters) is not False:
            self._end(c, kit.pick(kit.without(spent, c.tired), MAX_ITERATIONS, RUNNING))
        if self._counted:
            oracle = self.oracle
            cost = oracle.cost_value.plus(self.step.cost(oracle))
            poor = self.ledger.over(cost, self.direction.cost(oracle), c.on)
            self._end(c, poor if c.tired is False else kit.pick(c.tired, RUNNING, poor))
        return c

    def aim(self, c: Carry) -> Carry:
        """Find the direction: the one proposed where it descends f, else −∇f."""
        self._aim(c)
        self._end(c, self.source.ends(c))
        return c

    def _aim(self, c: Carry) -> None:
        kit, space, point, move = self.kit, self.space, c.point, c.move
        x, g = point.x, point.g
        c.live = live = None if c.status is RUNNING and c.tired is False else self._live(c)
        if not (live is None or kit.any(live)):
            return
        down, size = g, point.size
        if self._bounded:
            down, size = space.descent(x, g, size)
        c.p, c.down, c.size, c.slope = None, down, size, -size * size
        if self._steepest or not kit.any(c.on):
            move.lam, move.guarded, move.penalised, move.vanished = 0.0, False, False, False
            return
        context, direction = self.context, self.direction
        if c.memory:
            c.memory = direction.learn(context, point, c.memory)
        lam = context.live(direction.coefficient(c.k))
        on = c.on if live is None else c.on & live
        p, lam, c.memory, trusted = direction.propose(context, c.k, point, lam, on, c.memory)
        p = space.inward(x, g, p) if self._bounded else p
        c.p, c.slope, used, move.guarded, vanished = guarded(kit, c.on, down, size, p, trusted)
        move.lam = lam if used is True else kit.pick(used, lam, 0.0)
        move.penalised, move.vanished = self._penalised and used, self._penalised and vanished

    def search(self, c: Carry) -> Carry:
        """Find how far to go, and where that leads."""
        kit, point, ahead, move, p = self.kit, c.point, c.ahead, c.move, c.p
        x, live = point.x, c.live
        if not (live is None or kit.any(live)):
            return c
        if self._constant is None:
            along = Along(
                c.k, x, point.f, point.g, -c.down if p is None else p, c.slope, move.alpha, move.noise,
                True if live is None else live, move.trial, move.tried,
            )  # fmt: skip
            slope, length = c.slope, c.size if p is None else kit.norm(p)
            if c.tired is not False:
                slope, length = kit.pick(c.tired, move.slope, slope), kit.pick(c.tired, move.length, length)
            move.slope, move.length = slope, length
            move.alpha, ahead.f, ahead.g, ahead.known, move.noise, move.trial, move.tried = self.step.choose(
                self.context, along
            )
            reach = move.length
        else:
            ahead.f, ahead.g, ahead.known = None, None, False
            reach = c.size if p is None else kit.reach(p)
        alpha = move.alpha
        to = kit.times(-alpha, c.down) if p is None else kit.times(alpha, p)
        to += x
        ahead.x = self.space.project(to) if self._bounded else to
        if self._moves:
            move.moved = self.space.moved(x, ahead.x, c.down if p is None else p, alpha)
        if not kit.all(alpha * reach < self._far):
            finite = kit.arrived(ahead.x, alpha * reach)
            if not kit.all(finite):
                self._end(c, kit.pick(finite, RUNNING, DIVERGED))
        if ahead.f is not None and self._counted and kit.any(stuck := alpha == 0):
            poor = self.ledger.over(self.oracle.cost_value, NOTHING, False)
            self._end(c, kit.pick(kit.without(stuck, c.tired), poor, RUNNING))
        return c

    def settle(self, c: Carry) -> Carry:
        """Where the search found nothing, end the run or prepare another proposal; name α and λ."""
        move = c.move
        if c.ahead.f is not None or c.tired is not False:
            self._searched(c)
        if c.p is None:
            move.shown = move.alpha
        else:
            move.shown, move.lam = self.direction.amounts(move.alpha, move.lam, c.memory)
        return c

    def _searched(self, c: Carry) -> None:
        """Settle the rows whose search found nothing, or that have none left to make."""
        kit, stuck = self.kit, c.tired
        if c.ahead.f is not None:
            stuck = stuck | ((c.move.alpha == 0) & (c.move.trial == 0))
        held = stuck
        if stuck is not False and kit.any(stuck):
            near = stuck & (c.point.gnorm <= self._gtol) if self.direction.doubts else False
            near = near & self.source.trusts(c) if kit.any(near) else near
            rest = stuck
            if kit.any(near):  # what they were doubted for is settled, unless it is alarming
                code = self._settled(c)
                self._end(
                    c, kit.pick(kit.without(near & (code == CONVERGED), self._alarming(c)), code, RUNNING)
                )
                c.doubts = kit.pick(near, c.doubts + 1, c.doubts)
                rest = kit.without(stuck, near & (code == CONVERGED))
            rest = rest & (c.status == RUNNING)
            better, code = self.source.improves(c, rest)
            self._end(c, code)
            if kit.any(better):
                self._anew(c, better)
                rest = kit.without(rest, better)
                stuck = rest | near
            if self.source.cheap:
                self._floored(c, rest)
            self._recover(c, stuck, near)
            c.tired = False
        self.source.relax(c, kit.without(c.idle == 0, held))

    # --- what is rare ----------------------------------------------------------------------------------

    def _judge_gradient(self, c: Carry) -> None:
        """End the rows whose gradient is within a tolerance, or is not finite; look twice at some of them."""
        kit, context, point = self.kit, self.context, c.point
        self._end(c, self.source.recheck(c))
        code = judge_gradient(kit, point, self.tolerances, c.top)
        code = kit.pick(kit.without(code == CONVERGED, self.source.trusts(c)), RUNNING, code)
        if self.direction.doubts:
            code = kit.pick(self._doubted(c, (code == CONVERGED) & (c.status == RUNNING)), RUNNING, code)
        if (c.k == 0) is True and self.direction.leaves:
            still = (code == CONVERGED) & (c.status == RUNNING)
            c.memory, leaving = kit.when(
                still, lambda s: self.direction.leave(context, point, still, s[0]), (c.memory, still & False)
            )
            code = kit.pick(leaving, RUNNING, code)
        self._end(c, code)

    def _doubted(self, c: Carry, near: Mask) -> Mask:
        """Return the rows, of those within gtol, that go on: ∇f is small there for the units of x alone.

        They go on while their steps lower f; where that has ended and the change is ALARMING, they are tired,
        and the direction may have something else to propose.
        """
        kit, move, f = self.kit, c.move, c.point.f
        unit = self._unit(c)
        doubt = near & (self._change(c) > DOUBT * self._gtol)
        if (c.k == 0) is True or not kit.any(doubt):
            return doubt
        falls = move.before - f > ENOUGH * kit.num.maximum(abs(f), unit)
        # where f is small there is one more way to tell: x does not move
        if self._constant is None:
            falls = falls & ((unit == 1.0) | (move.alpha * move.length > NEAR * kit.norm(c.point.x)))
        falls = falls | (move.alpha == 0)
        if not self._searches:
            return doubt & falls
        tired = kit.without(doubt, falls) & (self._alarming(c) | (self._settled(c) == NO_DESCENT))
        tired = kit.without(tired, c.k >= self._iters)
        c.tired = c.tired | tired
        return (doubt & falls) | tired

    def _change(self, c: Carry) -> Scalar:
        """Return how much of f a change of x by its own size would change, by the slope."""
        return self.kit.ratio(self._slope_over_x(c), self.kit.num.maximum(abs(c.point.f), self._unit(c)))

    def _slope_over_x(self, c: Carry) -> Scalar:
        """Return how much a change of x by its own size would change f, by the slope."""
        kit, x = self.kit, c.point.x
        wide = kit.xp.maximum(abs(x), kit.xp.ones_like(x))
        return kit.norm(self.space.measure(x, c.point.g) * wide)

    def _unit(self, c: Carry) -> Scalar:
        """Return what f is measured in: 1, or what it has changed by so far if that, and f itself, is small.

        A gtol that was given is meant as it stands.
        """
        if not self.tolerances.assumed:
            return 1.0
        size = self.kit.num.maximum(abs(c.point.f), c.first - c.point.f)
        return self.kit.pick(size < SMALL, size, 1.0)

    def _alarming(self, c: Carry) -> Mask:
        return (self._change(c) > self.kit.num.maximum(ALARMING, DOUBT * self._gtol)) & (c.doubts < DOUBTS)

    def _settled(self, c: Carry) -> Whole:
        """Return how rows within gtol end: a slope that would change f by more than it has is not zero.

        Unless f is known to bend so that it rises within that move.
        """
        change, maximum = self._slope_over_x(c), self.kit.num.maximum
        size, known = abs(c.point.f), maximum(c.first - c.point.f, self.source.rise(c.point.x))
        steep = (change > ALARMING * maximum(size, self._unit(c))) & (change > known)
        return self.kit.pick(steep, NO_DESCENT, CONVERGED)

    def _floored(self, c: Carry, mask: Mask) -> None:
        """End the rows in which f is as low as its rounding, or its noise, lets it be."""
        kit, point, move = self.kit, c.point, c.move
        mask = mask & (c.status == RUNNING)

        def ask(code: Whole) -> Whole:
            floored, noisy = at_floor(
                self.context, point.x, point.f, point.g, -move.slope, move.length, move.noise, mask
            )
            return kit.pick(noisy, NOISE, kit.pick(floored, PRECISION, code))

        self._end(c, kit.when(mask, ask, RUNNING))

    def _anew(self, c: Carry, rows: Mask) -> None:
        """Stay at the point for an iteration, and have another gradient made."""
        kit, ahead, point = self.kit, c.ahead, c.point
        self._end(c, kit.pick(rows & (c.k >= self._iters), MAX_ITERATIONS, RUNNING))
        rows = rows & (c.status == RUNNING)
        self.oracle.memo.put(point.x, point.f, None if kit.size is None else rows)
        ahead.x = kit.where(rows, point.x, ahead.x)
        ahead.f = None if ahead.f is None else kit.pick(rows, point.f, ahead.f)  # a search may have made none
        ahead.known = kit.without(ahead.known, rows)
        c.idle = kit.pick(rows, 0, c.idle)
        c.tired = kit.without(c.tired, rows)

    def _recover(self, c: Carry, stuck: Mask, near: Mask) -> None:
        """Stay here for this iteration where the direction has something else to propose; else end.

        Rows `near` are within gtol, and end as CONVERGED unless f is steep there.
        """
        kit, context, point, ahead = self.kit, self.context, c.point, c.ahead
        stuck = stuck & (c.status == RUNNING)
        if self.direction.recovers:
            rows = kit.without(stuck, kit.without(c.tired, near))
            if not self.source.cheap:
                # a run that crawls from failure to failure is at a kink, and ends there
                crawls = c.failed - point.f <= tuning.CRAWLS * (c.first - point.f)
                rows, c.failed = kit.without(rows, crawls), kit.pick(rows, point.f, c.failed)
            c.memory, again = kit.when(
                rows, lambda s: self.direction.recover(context, point, rows, s[0]), (c.memory, rows & False)
            )
            ahead.g, ahead.known = kit.where(again, point.g, ahead.g), ahead.known | again
            if point.error is not None:
                ahead.error = (
                    point.error if ahead.error is None else kit.where(again, point.error, ahead.error)
                )
            if near is not False:  # of these, the tired ones have not been searched
                ahead.x = kit.where(again, point.x, ahead.x)
                ahead.f = None if ahead.f is None else kit.pick(again, point.f, ahead.f)
                c.move.alpha = kit.pick(again, 0.0, c.move.alpha)
            stuck = kit.without(stuck, again)
        code = NO_DESCENT if near is False else kit.pick(near, self._settled(c), NO_DESCENT)
        self._end(c, kit.pick(stuck, code, RUNNING))

    # --- ends ------------------------------------------------------------------------------------------

    def _live(self, c: Carry) -> Any:
        """Return the rows that are to go on."""
        return self.kit.without(c.status == RUNNING, c.tired)

    def _end(self, c: Carry, code: Whole) -> None:
        """Give rows a status; the first one stands."""
        if self.kit.any(code != RUNNING):
            c.status = self.kit.pick(c.status == RUNNING, self.unhidden(c, code), c.status)

    def confirmed(self, c: Carry, code: Whole) -> tuple[Whole, Scalar]:
        """Return the codes as they may be told, and the error of a gradient too inaccurate for them."""
        kit, source, error = self.kit, self.source, NAN
        told = ((code == CONVERGED) | (code == PRECISION)) & source.coarse
        if kit.any(told):
            poor = kit.without(told, self.context.affords(source.cost_error))
            code = self.unhidden(c, kit.pick(poor, MAX_EVALUATIONS, code))
            if kit.any(told := kit.without(told, poor)):
                x, f, g = c.point.x, c.point.f, c.point.g
                error = source.error(x, f, g, c.move.noise, told)
                error = kit.norm(self.space.free(x, g, error))
                rough = kit.without(told, error <= self._gtol)
                code = kit.pick(rough, ROUGH_GRADIENT, code)
        return code, error

    def unhidden(self, c: Carry, code: Whole) -> Whole:
        """Name artificial stationary points, which small steps and budgets may hide."""
        if not self._penalised:
            return code
        hidden = (code >= FIRST_HIDDEN) & (code <= LAST_HIDDEN) & c.move.vanished
        return self.kit.pick(hidden, ARTIFICIAL, code) if self.kit.any(hidden) else code

    def outcome(self, c: Carry, code: Whole) -> tuple[Array, Scalar, Array]:
        """Return x, f and ∇f of rows that have ended with these codes: the best x where theirs is no use."""
        kit, point, best = self.kit, c.point, c.best
        x, nowhere, evaluated = point.x, point.x * NAN, point.f is not None
        f = point.f if evaluated else best.f * NAN
        g = nowhere if point.g is None else kit.where(point.known, self.source.reported(point.g), nowhere)
        lost: Any = code != code if evaluated else code == code
        for end in LOST:
            lost = lost | (code == end)
        if kit.any(lost):
            seen = lost & kit.num.isfinite(best.f)
            x, f, g = kit.where(seen, best.x, x), kit.pick(seen, best.f, f), kit.where(lost, nowhere, g)
        return x, f, g
