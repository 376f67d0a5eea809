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
from ._oracle.context import Context
from ._oracle.exhausted import at_bottom, relax, shown, spent, unsure
from ._oracle.floor import at_floor
from ._oracle.ledger import Cost
from ._oracle.valleys import Around
from ._problem import Settings
from .steps import Along

IDLE = 11
"""A run ends after this many consecutive steps without a measurable decrease of f."""

IDLE_BY_VALUES = 3
"""The same where a gradient is made of values, and costs as many as f has variables."""

SHOWS = 4.0
"""A decrease of no more than this many roundings of f is not measurable."""

LOST = tuple(map(int, (Status.NONFINITE_VALUE, Status.NONFINITE_GRADIENT, Status.UNBOUNDED, Status.DIVERGED)))
"""Ends at a point that is no use: the best one seen is given instead."""

CONVERGED, PRECISION, NOISE, DIFFERENCES, NO_DESCENT, DIVERGED, NONFINITE, MAX_ITERATIONS, ARTIFICIAL = map(
    int,
    (
        Status.CONVERGED, Status.PRECISION, Status.NOISE, Status.DIFFERENCES, Status.NO_DESCENT,
        Status.DIVERGED, Status.NONFINITE_GRADIENT, Status.MAX_ITERATIONS, Status.ARTIFICIAL,
    ),
)  # fmt: skip
FIRST_HIDDEN, LAST_HIDDEN = int(Status.SMALL_DECREASE), int(Status.MAX_SECONDS)

NOTHING = Cost()

DOUBT, ALARMING = 10.0, 1e-2
"""‖∇f‖ ≤ gtol is doubted where, by the slope, x of twice the size would change more than DOUBT·gtol of f."""

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
        self._adaptive = self.oracle.adaptive
        self._idle = IDLE_BY_VALUES if self._adaptive else IDLE
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
            if self._adaptive:
                least = kit.num.maximum(least, self.oracle.level(f))
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
            point.g = self.oracle.grad(point.x, live, came)
        else:
            rest = kit.negate(known) if live is None else kit.without(live, known)
            point.g = kit.where(known, g, self.oracle.grad(point.x, rest, came))
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
        if self._searches and kit.any(tired := c.idle >= self._idle):
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
        kit, space, point, move = self.kit, self.space, c.point, c.move
        x, g = point.x, point.g
        c.live = live = None if c.status is RUNNING and c.tired is False else self._live(c)
        if not (live is None or kit.any(live)):
            return c
        down, size = g, point.size
        if self._bounded:
            down, size = space.descent(x, g, size)
        c.p, c.down, c.size, c.slope = None, down, size, -size * size
        if self._steepest or not kit.any(c.on):
            move.lam, move.guarded, move.penalised, move.vanished = 0.0, False, False, False
            return c
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
        return c

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
        kit, stuck, adaptive = self.kit, c.tired, self._adaptive
        if c.ahead.f is not None:
            stuck = stuck | ((c.move.alpha == 0) & (c.move.trial == 0))
        held = stuck
        if stuck is not False and kit.any(stuck):
            near = stuck & (c.point.gnorm <= self._gtol) if self.direction.doubts else False
            if kit.any(near):  # what they were doubted for is settled, unless it is alarming
                self._end(c, kit.pick(kit.without(near, self._alarming(c)), CONVERGED, RUNNING))
                c.doubts = kit.pick(near, c.doubts + 1, c.doubts)
            rest = kit.without(stuck, near)
            if adaptive:
                rest = self._refined(c, rest)
                stuck = rest | near
            self._floored(c, rest)
            self._recover(c, stuck, near)
            c.tired = False
        if adaptive:
            # a step that gained nothing shows that they are not
            calm = kit.without(c.idle == 0, held)
            relax(self.context, c.point.x, c.point.f, c.point.g, self.tolerances.g, calm)

    # --- what is rare ----------------------------------------------------------------------------------

    def _judge_gradient(self, c: Carry) -> None:
        """End the rows whose gradient is within a tolerance, or is not finite; look twice at some of them."""
        kit, context, point = self.kit, self.context, c.point
        code = judge_gradient(kit, point, self.tolerances, c.top)
        if self._adaptive:
            code = kit.pick(
                (code == CONVERGED) & unsure(context, point.x, point.f, self._gtol), RUNNING, code
            )
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
        doubt = near & (self._change(c) > DOUBT * self._gtol)
        if (c.k == 0) is True or not kit.any(doubt):
            return doubt
        falls = (move.before - f > ENOUGH * kit.num.maximum(abs(f), 1.0)) | (move.alpha == 0)
        if not self._searches:
            return doubt & falls
        tired = kit.without(kit.without(doubt, falls) & self._alarming(c), c.k >= self._iters)
        c.tired = c.tired | tired
        return (doubt & falls) | tired

    def _change(self, c: Carry) -> Scalar:
        """Return how much of f a change of x by its own size would change, by the slope."""
        kit, x, f = self.kit, c.point.x, c.point.f
        wide = kit.xp.maximum(abs(x), kit.xp.ones_like(x))
        return kit.norm(self.space.measure(x, c.point.g) * wide) / kit.num.maximum(abs(f), 1.0)

    def _alarming(self, c: Carry) -> Mask:
        return (self._change(c) > self.kit.num.maximum(ALARMING, DOUBT * self._gtol)) & (c.doubts < DOUBTS)

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

    def at_bottom(self, c: Carry, mask: Mask) -> None:
        """End the rows whose direction promises no fall of f that its values would show."""
        kit, context, oracle, point = self.kit, self.context, self.oracle, c.point
        mask = mask & (c.status == RUNNING)
        quiet, noisy = at_bottom(context, point.x, point.f, point.g, -c.slope, mask, c.tired)
        loud, quiet = self._around(c, quiet & noisy), kit.without(quiet, noisy)
        # a tired row, at its last point, would have made no step
        self._end(c, kit.pick(loud.lower & (c.k >= self._iters), MAX_ITERATIONS, RUNNING))
        if kit.any(loud.lower):
            c.p = kit.where(loud.lower, loud.x - point.x, -c.down if c.p is None else c.p)
            c.slope = kit.pick(loud.lower, kit.dot(point.g, c.p), c.slope)
        if kit.any(loud.wrong | loud.lower):  # they make no step, or this one
            oracle.refine(loud.wrong, False)
            c.tired = kit.without(c.tired, loud.lower) | loud.wrong
            c.live = self._live(c)
        self._end_in_noise(c, loud.lowest)
        quiet = quiet & context.affords(oracle.cost_smooth)
        if kit.any(quiet):
            self._end(c, kit.pick(oracle.smooth(point.x, point.f, quiet), DIFFERENCES, RUNNING))

    def _end_in_noise(self, c: Carry, lowest: Mask) -> None:
        """End the rows where noise hides any decrease; what is gone on a shorter line was a kink."""
        kit, oracle = self.kit, self.oracle
        lowest = lowest & self.context.affords(oracle.cost_persists)
        if kit.any(lowest):
            noisy = oracle.persists(c.point.x, c.point.f, lowest)
            self._end(c, kit.pick(lowest, kit.pick(noisy, NOISE, NO_DESCENT), RUNNING))

    def _around(self, c: Carry, noisy: Mask) -> Around:
        """Find out whether f is lower nearby where noise may hide it."""
        context, oracle, point = self.context, self.oracle, c.point
        noisy = noisy & context.affords(oracle.cost_around)
        p = -point.g if c.p is None else c.p
        return oracle.around(point.x, point.f, point.g, p, shown(context, point.f), noisy)

    def _refined(self, c: Carry, stuck: Mask) -> Mask:
        """Where a search by one-sided differences found nothing, take central ones; return who has those.

        Of these, end the rows whose gradient is no more than its error. Where it is more, the noise of f may
        be louder than it was taken to be.
        """
        kit, context, oracle, point = self.kit, self.context, self.oracle, c.point
        stuck = stuck & (c.status == RUNNING)
        rough = kit.without(stuck, oracle.digits.central)
        oracle.refine(rough, True)
        stuck, there, value = kit.without(stuck, rough), point.x, point.f
        if kit.any(stuck):
            over = spent(context, point.x, point.f, point.g, stuck)
            doubt = kit.without(stuck, over) & context.affords(oracle.cost_listen)
            if kit.any(doubt) and kit.any(louder := oracle.listen_again(point.x, point.f, doubt)):
                rough, stuck = rough | louder, kit.without(stuck, louder)
            over, noisy = over & (oracle.grain == 0), oracle.noisy(point.f)
            loud, quiet = self._around(c, over & noisy), kit.without(over, noisy)
            there, value, moved = loud.x, loud.f, loud.lower | loud.wrong
            rough, stuck = rough | moved, kit.without(stuck, moved)
            self._end_in_noise(c, loud.lowest)
            quiet = quiet & context.affords(oracle.cost_smooth)
            if kit.any(quiet):
                self._end(c, kit.pick(oracle.smooth(point.x, point.f, quiet), DIFFERENCES, RUNNING))
                forgotten = kit.without(quiet, oracle.known)
                rough, stuck = rough | forgotten, kit.without(stuck, forgotten)
        if kit.any(rough):  # another gradient is for another iteration
            self._end(c, kit.pick(rough & (c.k >= self._iters), MAX_ITERATIONS, RUNNING))
            self._anew(c, rough & (c.status == RUNNING), there, value)
        return stuck

    def _anew(self, c: Carry, rows: Mask, x: Array, f: Scalar) -> None:
        """Be at x after this iteration, and have another gradient made."""
        kit, ahead = self.kit, c.ahead
        self.oracle.memo.put(x, f, None if kit.size is None else rows)
        ahead.x = kit.where(rows, x, ahead.x)
        ahead.f = None if ahead.f is None else kit.pick(rows, f, ahead.f)  # a search may have made none
        ahead.known = kit.without(ahead.known, rows)
        c.idle = kit.pick(rows, 0, c.idle)
        c.tired = kit.without(c.tired, rows)

    def _recover(self, c: Carry, stuck: Mask, near: Mask) -> None:
        """Stay here for this iteration where the direction has something else to propose; else end.

        Rows `near` are within gtol, and end as CONVERGED.
        """
        kit, context, point, ahead = self.kit, self.context, c.point, c.ahead
        stuck = stuck & (c.status == RUNNING)
        if self.direction.recovers:
            rows = kit.without(stuck, kit.without(c.tired, near))
            c.memory, again = kit.when(
                rows, lambda s: self.direction.recover(context, point, rows, s[0]), (c.memory, rows & False)
            )
            ahead.g, ahead.known = kit.where(again, point.g, ahead.g), ahead.known | again
            if near is not False:  # of these, the tired ones have not been searched
                ahead.x = kit.where(again, point.x, ahead.x)
                ahead.f = None if ahead.f is None else kit.pick(again, point.f, ahead.f)
                c.move.alpha = kit.pick(again, 0.0, c.move.alpha)
            stuck = kit.without(stuck, again)
        self._end(c, kit.pick(stuck, kit.pick(near, CONVERGED, NO_DESCENT), RUNNING))

    # --- ends ------------------------------------------------------------------------------------------

    def _live(self, c: Carry) -> Any:
        """Return the rows that are to go on."""
        return self.kit.without(c.status == RUNNING, c.tired)

    def _end(self, c: Carry, code: Whole) -> None:
        """Give rows a status; the first one stands."""
        if self.kit.any(code != RUNNING):
            c.status = self.kit.pick(c.status == RUNNING, self.unhidden(c, code), c.status)

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
        g = nowhere if point.g is None else kit.where(point.known, self.oracle.reported(point.g), nowhere)
        lost: Any = code != code if evaluated else code == code
        for end in LOST:
            lost = lost | (code == end)
        if kit.any(lost):
            seen = lost & kit.num.isfinite(best.f)
            x, f, g = kit.where(seen, best.x, x), kit.pick(seen, best.f, f), kit.where(lost, nowhere, g)
        return x, f, g
