"""One iteration, in functions from a SolverState to a SolverState, which `_loop` calls.

    begin, then repeatedly: evaluate, check_convergence, compute_direction, line_search, handle_failure

Each modifies the state and returns it. None raises or reads the clock: a row that must end gets a status, and
only rows without one are evaluated.
"""

from __future__ import annotations

from math import inf
from typing import Any

from ...arrays import Array, Mask, Scalar, Whole
from ...status import Status
from .context import Context
from .convergence import asked, status_of_gradient, status_of_step
from .counter import Cost
from .guard import guarded
from .roundoff import roundoff_limited
from .settings import Settings
from .small_gradient import SmallGradient
from .state import NAN, RUNNING, Best, Point, SolverState
from .step import Along

STALLED = 11
"""A run ends after this many consecutive steps without a measurable decrease."""

SHOWS = 4.0
"""A decrease of no more than this many roundings of f is not measurable."""

LOST = tuple(map(int, (Status.NONFINITE_VALUE, Status.NONFINITE_GRADIENT, Status.UNBOUNDED, Status.DIVERGED)))
"""Statuses whose last point is of no use: the best one is returned instead."""

CONVERGED, ROUNDOFF, NOISE = map(int, (Status.CONVERGED, Status.ROUNDOFF, Status.NOISE))
MAX_ITERATIONS, ARTIFICIAL = map(int, (Status.MAX_ITERATIONS, Status.ARTIFICIAL))
LINE_SEARCH_FAILED, DIVERGED = map(int, (Status.LINE_SEARCH_FAILED, Status.DIVERGED))
FIRST_HIDDEN, LAST_HIDDEN = int(Status.FTOL), int(Status.MAX_SECONDS)

NOTHING = Cost()


class Iteration:
    """Direction × step × switch, on an evaluator, in a space."""

    def __init__(self, context: Context, settings: Settings):
        self.context, self.settings = context, settings
        self.backend, self.space = context.backend, context.space
        self.evaluator, self.counter = context.evaluator, context.counter
        self.direction, self.step, self.switch = settings.direction, settings.step, settings.switch
        self.tolerances = tolerances = settings.tolerances
        # used in every iteration
        self._constant, self._searches = self.step.constant, self.step.searches
        self._returns_gradient = self.step.returns_gradient
        self.descends = self._searches and self.step.wait  # in every iteration, unless f is noisy
        self._steepest, self._penalised = self.direction.steepest, self.direction.penalised
        self._moves, self._judged = asked(tolerances.x), asked(tolerances.f) or asked(tolerances.x)
        self._bottom, self._gtol, self.relative = tolerances.bottom, tolerances.g, asked(tolerances.rel)
        self._far = -tolerances.bottom  # a step that is shorter cannot make x overflow
        self._counted = self.counter.counted
        self.small_gradient = SmallGradient(context, settings)
        self._iters: Any = inf if self.counter.budget.iters is None else self.counter.budget.iters

    def begin(self, x: Array) -> SolverState:
        """Return the initial state at x; nothing has been evaluated."""
        direction = self.direction
        # steepest descent is what every run falls back to: a run of it alone has nothing switched on
        active = not direction.steepest
        c = SolverState(0, Point(x), Best(x, inf), active, direction.start(self.backend, x))
        c.next_point = Point(x)
        if self._constant is not None:  # then no search ever sets it
            c.step_info.alpha = self._constant
        return c

    def evaluate(self, c: SolverState) -> SolverState:
        """Evaluate f; judge the step that led here."""
        backend, point, best = self.backend, c.point, c.best
        searched = point.f is not None
        if not searched:
            point.f = self.evaluator.value(point.x, None if c.status is RUNNING else self._live(c))
            point.g = self.evaluator.cached_gradient
        f = point.f
        falls = (f < best.f) & (f >= self._bottom)  # so f is finite, too
        if backend.all(falls) or (self.descends and backend.defers(backend.negate(falls))):
            best.x, best.f, best.k = point.x, f, c.k
            if self._judged:
                self._end(c, status_of_step(backend, point, c.step_info, self.tolerances))
        else:
            better = (f < best.f) & (f > -inf)
            best.x, best.f = backend.select(better, point.x, best.x), backend.select(better, f, best.f)
            best.k = backend.select(better, c.k, best.k)
            self._end(c, status_of_step(backend, point, c.step_info, self.tolerances))
        if (c.k == 0) is True:  # in a compiled loop, which begins after the start, k has no value
            c.first = f
            return c
        if self._penalised and c.active is not False:
            off = self.switch.off(c.k - 1, c.step_info.guarded, c.step_info.before, f, c.first)
            off = off & (c.step_info.trial == 0)  # by steps, not by trials of an unfinished search
            if backend.any(off):
                c.active = backend.and_not(c.active, off)
        if searched:
            least = backend.num.maximum(SHOWS * self.context.eps * abs(f), c.step_info.noise)
            made = c.step_info.trial == 0  # and not a trial of an unfinished search
            c.n_stalled = backend.select(c.step_info.before - f > least, 0, c.n_stalled + made)
        return c

    def evaluate_gradient(self, c: SolverState) -> Point:
        """Evaluate ∇f where it is not known, and the budget covers it; return the point."""
        backend, point = self.backend, c.point
        g, known = point.g, point.known
        if g is not None and backend.all(known):
            return point
        if self._counted:
            poor = self.counter.over(self.evaluator.cost_grad, NOTHING, False)
            self._end(c, poor if known is False else backend.select(known, RUNNING, poor))
            if c.status is not RUNNING and not backend.any(c.status == RUNNING):
                return point
        live = None if c.status is RUNNING else self._live(c)
        cached = g if self._returns_gradient else None
        if g is None or not backend.any(known):
            point.g = self.evaluator.grad(point.x, live, cached)
        elif backend.any(rest := backend.negate(known) if live is None else backend.and_not(live, known)):
            new = self.evaluator.grad(point.x, rest, cached)
            point.g = backend.select(known, g, new)
        point.known = True if live is None else known | live
        return point

    def check_convergence(self, c: SolverState) -> SolverState:
        """Evaluate ∇f; judge the point, and whether the budget has a step left."""
        backend, point = self.backend, self.evaluate_gradient(c)
        if c.status is not RUNNING and not backend.any(c.status == RUNNING):
            return c
        g = point.g
        point.size = size = backend.norm(g, point.size)
        point.gnorm = gnorm = self.space.residual(point.x, g, size)
        if c.status is not RUNNING:
            point.gnorm = gnorm = backend.select(point.known, gnorm, NAN)
        least = self._gtol
        if self.relative:
            c.max_gnorm = backend.select(gnorm > c.max_gnorm, gnorm, c.max_gnorm)
            least = backend.num.maximum(least, self.tolerances.rel * c.max_gnorm)
        if not backend.all(size < inf) or backend.any(gnorm <= least):
            self._judge_gradient(c)
        if self._searches and backend.any(stalled := c.n_stalled >= STALLED):
            stalled = stalled & (c.status == RUNNING)
            if not backend.defers(stalled):  # they take no other step, and end in `handle_failure`
                c.stalled = c.stalled | stalled
        if (spent := c.k >= self._iters) is not False:
            self._end(c, backend.select(backend.and_not(spent, c.stalled), MAX_ITERATIONS, RUNNING))
        if self._counted:
            evaluator = self.evaluator
            poor = self.counter.over(evaluator.cost_value, self.direction.cost(evaluator), c.active)
            self._end(c, poor if c.stalled is False else backend.select(c.stalled, RUNNING, poor))
        return c

    def compute_direction(self, c: SolverState) -> SolverState:
        """Find the direction: the one proposed where it descends f, else −∇f."""
        backend, space, point, step_info = self.backend, self.space, c.point, c.step_info
        x, g = point.x, point.g
        c.live = live = None if c.status is RUNNING and c.stalled is False else self._live(c)
        if not (live is None or backend.any(live)):
            return c
        free_gradient, size = space.descent(x, g, point.size)
        c.p, c.free_gradient, c.size, c.slope = None, free_gradient, size, -size * size
        if self._steepest or not backend.any(c.active):
            step_info.lam, step_info.guarded = 0.0, False
            step_info.penalised = step_info.vanished = False
            return c
        context, direction = self.context, self.direction
        if c.memory:
            c.memory = direction.learn(context, point, c.memory)
        lam = direction.coefficient(c.k)
        active = c.active if live is None else c.active & live
        p, lam, c.memory, trusted = direction.propose(context, c.k, point, lam, active, c.memory)
        p = space.inward(x, g, p)
        found = guarded(backend, c.active, free_gradient, size, p, trusted, not self._penalised)
        c.p, c.slope, used, step_info.guarded, vanished = found
        step_info.lam = lam if used is True else backend.select(used, lam, 0.0)
        step_info.penalised, step_info.vanished = self._penalised and used, self._penalised and vanished
        return c

    def line_search(self, c: SolverState) -> SolverState:
        """Choose the step size and the next point."""
        backend, point, next_point, step_info, p = self.backend, c.point, c.next_point, c.step_info, c.p
        x, live = point.x, c.live
        if not (live is None or backend.any(live)):
            return c
        if self._constant is None:
            along = Along(
                c.k, x, point.f, point.g, -c.free_gradient if p is None else p, c.slope, step_info.alpha,
                noise=step_info.noise, live=True if live is None else live, trial=step_info.trial,
                tried=step_info.tried,
            )  # fmt: skip
            slope, length = c.slope, c.size if p is None else backend.norm(p)
            if c.stalled is not False:
                slope = backend.select(c.stalled, step_info.slope, slope)
                length = backend.select(c.stalled, step_info.length, length)
            step_info.slope, step_info.length = slope, length
            chosen = self.step.choose(self.context, along)
            step_info.alpha, next_point.f, next_point.g, next_point.known = chosen[:4]
            step_info.noise, step_info.trial, step_info.tried = chosen[4:]
            reach = step_info.length
        else:
            next_point.f, next_point.g, next_point.known = None, None, False
            reach = c.size if p is None else backend.reach(p)
        alpha = step_info.alpha
        next_point.x = backend.times(-alpha, c.free_gradient) if p is None else backend.times(alpha, p)
        next_point.x += x
        next_point.x = self.space.project(next_point.x)
        if self._moves:
            step_info.moved = backend.norm(next_point.x - x)
        if not backend.all(alpha * reach < self._far):
            finite = backend.arrived(next_point.x, alpha * reach)
            if not backend.all(finite) and not backend.defers(backend.negate(finite)):
                self._end(c, backend.select(finite, RUNNING, DIVERGED))
        if next_point.f is not None and self._counted and backend.any(stuck := alpha == 0):
            poor = self.counter.over(self.evaluator.cost_value, NOTHING, False)
            self._end(c, backend.select(backend.and_not(stuck, c.stalled), poor, RUNNING))
        return c

    def handle_failure(self, c: SolverState) -> SolverState:
        """After a failed line search, end the run or prepare a restart; report α and λ."""
        step_info = c.step_info
        if c.next_point.f is not None or c.stalled is not False:
            self._handle_stuck(c)
        if c.p is None:
            step_info.shown = step_info.alpha
        else:
            step_info.shown, step_info.lam = self.direction.amounts(step_info.alpha, step_info.lam, c.memory)
        return c

    def _handle_stuck(self, c: SolverState) -> None:
        """Handle the rows whose line search failed, or that have stalled."""
        backend, stuck = self.backend, c.stalled
        if c.next_point.f is not None:
            stuck = stuck | ((c.step_info.alpha == 0) & (c.step_info.trial == 0))
        if stuck is not False and not backend.defers(stuck) and backend.any(stuck):
            near = stuck & (c.point.gnorm <= self._gtol) if self.direction.doubts else False
            rest = stuck
            if backend.any(near):  # what they were doubted for is settled, unless it is alarming
                converged = near & (self.small_gradient.status(c) == CONVERGED)
                settled = backend.and_not(converged, self.small_gradient.alarming(c))
                self._end(c, backend.select(settled, CONVERGED, RUNNING))
                c.doubts = backend.select(near, c.doubts + 1, c.doubts)
                rest = backend.and_not(stuck, converged)
            rest = rest & (c.status == RUNNING)
            self._end_at_roundoff(c, rest)
            self._restart(c, stuck, near)
            c.stalled = False

    # --- what is rare ----------------------------------------------------------------------------------

    def _judge_gradient(self, c: SolverState) -> None:
        """End the rows whose gradient is within a tolerance, and not doubted, or is not finite."""
        backend, context, point = self.backend, self.context, c.point
        code = status_of_gradient(backend, point, self.tolerances, c.max_gnorm)
        if self.direction.doubts and not backend.quick:
            doubted, stalled = self.small_gradient.doubted(c, (code == CONVERGED) & (c.status == RUNNING))
            if stalled is not False:
                stalled = backend.and_not(stalled, c.k >= self._iters)
                c.stalled = c.stalled | stalled
            code = backend.select(doubted | stalled, RUNNING, code)
        if (c.k == 0) is True and self.direction.escapes_saddles:
            still, escape = (code == CONVERGED) & (c.status == RUNNING), self.direction.escape_saddle
            if not backend.defers(still):
                start = c.memory, still & False
                c.memory, leaving = backend.when(still, lambda s: escape(context, point, still, s[0]), start)
                code = backend.select(leaving, RUNNING, code)
        self._end(c, code)

    def _end_at_roundoff(self, c: SolverState, mask: Mask) -> None:
        """End the rows where f cannot be lowered by more than its rounding or its noise."""
        backend, point, step_info = self.backend, c.point, c.step_info
        mask = mask & (c.status == RUNNING)

        def ask(code: Whole) -> Whole:
            floored, noisy = roundoff_limited(self.context, point, step_info, mask)
            return backend.select(noisy, NOISE, backend.select(floored, ROUNDOFF, code))

        self._end(c, backend.when(mask, ask, RUNNING))

    def _restart(self, c: SolverState, stuck: Mask, near: Mask) -> None:
        """Stay here for an iteration where the direction can restart; else end (rows `near`: by gtol)."""
        backend, context, point, next_point = self.backend, self.context, c.point, c.next_point
        stuck = stuck & (c.status == RUNNING)
        if self.direction.restarts:
            rows = backend.and_not(stuck, backend.and_not(c.stalled, near))
            c.memory, again = backend.when(
                rows, lambda s: self.direction.restart(context, point, rows, s[0]), (c.memory, rows & False)
            )
            next_point.g = backend.select(again, point.g, next_point.g)
            next_point.known = next_point.known | again
            if near is not False:  # of these, the stalled ones have not been searched
                next_point.x = backend.select(again, point.x, next_point.x)
                if next_point.f is not None:
                    next_point.f = backend.select(again, point.f, next_point.f)
                c.step_info.alpha = backend.select(again, 0.0, c.step_info.alpha)
            stuck = backend.and_not(stuck, again)
        code = LINE_SEARCH_FAILED
        if near is not False:
            code = backend.select(near, self.small_gradient.status(c), code)
        self._end(c, backend.select(stuck, code, RUNNING))

    # --- ends ------------------------------------------------------------------------------------------

    def _live(self, c: SolverState) -> Any:
        """Return the rows that continue."""
        return self.backend.and_not(c.status == RUNNING, c.stalled)

    def _end(self, c: SolverState, code: Whole) -> None:
        """Give rows a status, unless they have one."""
        if self.backend.any(code != RUNNING):
            c.status = self.backend.select(c.status == RUNNING, self.mark_artificial(c, code), c.status)

    def mark_artificial(self, c: SolverState, code: Whole) -> Whole:
        """Name artificial stationary points, which small steps and budgets may hide."""
        if not self._penalised:
            return code
        hidden = (code >= FIRST_HIDDEN) & (code <= LAST_HIDDEN) & c.step_info.vanished
        return self.backend.select(hidden, ARTIFICIAL, code) if self.backend.any(hidden) else code

    def outcome(self, c: SolverState, code: Whole) -> tuple[Array, Scalar, Array]:
        """Return x, f and ∇f of ended rows with these codes: the best x where theirs is of no use."""
        backend, point, best = self.backend, c.point, c.best
        x, nowhere, evaluated = point.x, point.x * NAN, point.f is not None
        f = point.f if evaluated else best.f * NAN
        g = nowhere if point.g is None else backend.select(point.known, point.g, nowhere)
        lost: Any = code != code if evaluated else code == code
        for end in LOST:
            lost = lost | (code == end)
        if backend.any(lost):
            seen = lost & backend.num.isfinite(best.f)
            x, f = backend.select(seen, best.x, x), backend.select(seen, best.f, f)
            g = backend.select(lost, nowhere, g)
        return x, f, g
