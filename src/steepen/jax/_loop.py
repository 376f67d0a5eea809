"""The compiled driver, for slots and optimistix: a traced iteration in a `while_loop`, f with autodiff.

A turn begins after `check_convergence`, so that what happens only at a start is outside of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ..status import Status
from ._jax import jax, jnp
from ._program import Program
from ._solution import Solution, Trace
from .masked.backend import Backend
from .masked.calls import GradientDifference
from .masked.columns import COLUMNS, entry
from .masked.context import Context
from .masked.counter import Cost, EvaluationCounter
from .masked.iteration import Iteration
from .masked.space import Box, Everywhere, Space
from .masked.state import NAN, RUNNING, Best, Counts, Point, SolverState, StepInfo

CONVERGED = int(Status.CONVERGED)
DEFERRED = -2  # a quick run came to a rare case, and must be repeated by the full program

for record in (SolverState, Point, StepInfo, Best):
    jax.tree_util.register_dataclass(record)


class Inputs(NamedTuple):
    """The arguments of a program: those of fun, the numbers of the settings, and the bounds."""

    args: Any
    numbers: dict[str, Any]
    bounds: tuple[Any, Any] | None = None


class Slot(NamedTuple):
    """A run between two iterations."""

    c: SolverState
    counts: Counts
    ring: Trace | None

    @property
    def running(self) -> Any:
        return self.c.status == RUNNING


class Hessian:
    """H·v and H by autodiff."""

    source = matrix_source = "jax"
    cost_product = cost_matrix = Cost()

    def __init__(self, grad: Callable[[Any], Any], counter: EvaluationCounter):
        self._grad, self._counter = grad, counter

    def product(self, x: Any, v: Any, g: Any, only: Any = None) -> Any:
        self._counter.count(only, "nhvp")
        return jax.linearize(self._grad, x)[1](v)

    def matrix(self, x: Any, g: Any, only: Any = None) -> Any:
        self._counter.count(only, "nhev")
        return jax.jacfwd(self._grad)(x)


class Function(GradientDifference):
    """f of a vector, and its derivatives by autodiff."""

    cost_value, cost_grad, cost_difference = Cost(1, 0), Cost(0, 1), Cost(0, 1)
    hessian: Any = Hessian

    def __init__(self, fun: Any, derive: Any, backend: Backend, space: Space, counter: EvaluationCounter):
        super().__init__(backend, space, backend.eps)
        self.counter, self._traced, self._fun, self._grad = counter, backend, fun, derive(fun)
        self.hessian = Hessian(self._grad, counter)
        self._both = jax.jit(derive(lambda x: (fun(x),) * 2, has_aux=True))  # traced once for all its places

    @property
    def _comes(self) -> bool:
        """Whether ∇f is evaluated with f: in rare code, and in a single run, which accepts most trials."""
        return self._traced.alone or self._traced.seldom

    def value(self, x: Any, only: Any = None) -> Any:
        self.counter.count(only, "nfev")
        if self._comes:
            self.cached_gradient, f = self._both(x)
            return f
        self.cached_gradient = None
        return _once(self._fun(x), only)

    def grad(self, x: Any, only: Any = None, cached: Any = None, *, spare: bool = False) -> Any:
        self.counter.count(only, "njev")
        if cached is not None and self._comes:
            return cached
        return self._both(x)[0] if self._traced.seldom else _once(self._grad(x), only)


def _once(found: Any, only: Any) -> Any:
    """Return `found` plus zeros that depend on the mask, or XLA would repeat the evaluation for each use."""
    return found if only is None or isinstance(only, bool) else found + 0.0 * only


class Driver:
    """One run of a program."""

    def __init__(
        self, program: Program, inputs: Inputs, like: Any, derive: Any = jax.grad, alone: bool = True,
        quick: bool = False,
    ):  # fmt: skip
        settings = program.parts(inputs.numbers)
        quick = quick and settings.step.searches  # without a line search there are no rare cases
        self.program, self.bounds, self.backend = program, inputs.bounds, Backend(like, alone, quick)
        space: Any = Everywhere if self.bounds is None else Box
        self.space = space(*(self.bounds or ()), self.backend)
        self.counter = self.backend.counter = EvaluationCounter(self.backend, settings.budget)
        fun = partial(program, args=inputs.args)
        evaluator = Function(fun, derive, self.backend, self.space, self.counter)
        self.iteration = Iteration(Context(evaluator, self.backend, self.space), settings)
        self._descends = quick and self.iteration.descends  # then each point is the best so far

    def start(self, x: Any) -> Slot:
        """Return a run at its start, with f and ∇f evaluated."""
        run, self.backend.seldom = self.iteration, True
        c = run.evaluate(run.begin(self.space.project(x)))
        c.point.size = abs(run.evaluate_gradient(c).g).max()
        c = run.check_convergence(c)
        c.memory = run.direction.begin(run.context, c.point, c.memory)
        self.backend.seldom = False
        if self.bounds is not None:  # traced bounds have not been checked
            empty = (self.bounds[0] > self.bounds[1]).any()
            c.status = self.backend.select(empty, int(Status.INFEASIBLE), c.status)
        if (length := self.program.trace) is None:
            return self._closed(c, None)
        whole, points = jnp.full(length, -1, jnp.int32), jnp.full((length, *x.shape), NAN, x.dtype)
        kinds = {"d": points[:, 0], "q": whole, "?": whole > 0}
        return self._closed(c, Trace(whole, points, *(kinds[kind] for kind in COLUMNS.values())))

    def turn(self, slot: Slot, **known: Any) -> Slot:
        """Do one iteration; `known` are fields of the state with a known value, such as its status."""
        run, c = self.iteration, self._opened(slot)
        for name, value in known.items():
            setattr(c, name, value)
        self.counter.counts = slot.counts
        c = run.handle_failure(run.line_search(run.compute_direction(c)))
        ring = self._recorded(slot.ring, c, c.status == RUNNING)
        live, here, ahead = c.status == RUNNING, c.point, c.next_point  # a run that has ended stays here
        for name in ("x",) if ahead.f is None else ("x", "f", "g", "known"):
            setattr(ahead, name, self.backend.select(live, getattr(ahead, name), getattr(here, name)))
        ahead.size = here.size
        c.advance()
        c.k -= jnp.asarray(self.backend.negate(live), jnp.int32)
        c.spent = (self.counter.nfev, self.counter.njev, self.counter.nhvp)
        new = self._closed(run.check_convergence(run.evaluate(c)), ring)
        return self.backend.cast(new, slot)

    def turn_if_running(self, slot: Slot) -> Slot:
        """Do one iteration, or nothing if the run has ended; its state is then as `end` needs it."""
        new = self.turn(slot)
        kept = partial(jax.tree.map, partial(jnp.where, slot.running))
        for name in ("status", "spent") if self.iteration.step.searches else ("status", "spent", "point"):
            setattr(new.c, name, kept(getattr(new.c, name), getattr(slot.c, name)))
        return new._replace(counts=kept(new.counts, slot.counts))

    def run(self, x: Any) -> Solution:
        """Run from a start to the end; a penalty, which stays off once it is, has a loop of its own."""
        slot, loop, turn = self.start(x), jax.lax.while_loop, partial(self.turn, status=RUNNING)
        if not self.iteration.direction.penalised:
            return self.end(loop(lambda slot: slot.running, turn, slot))
        slot = loop(lambda slot: slot.running & slot.c.active, partial(turn, active=True), slot)
        return self.end(loop(lambda slot: slot.running, partial(turn, active=False), slot))

    def end(self, slot: Slot) -> Solution:
        """Return the solution of a run that has ended, with points as vectors."""
        c = self._opened(slot)
        if self.backend.quick and self.iteration.direction.doubts:
            doubt = self.iteration.small_gradient.doubtful(c, c.status == CONVERGED)
            c.status = self.backend.select(doubt, DEFERRED, c.status)
        x, f, g = self.iteration.outcome(c, c.status)
        c.step_info = StepInfo()  # no step was taken from the last iterate
        trace = self._recorded(slot.ring, c, True)
        if trace is not None:
            order = jnp.argsort(jnp.where(trace.k < 0, jnp.iinfo(trace.k.dtype).max, trace.k))
            trace = jax.tree.map(lambda column: column[order], trace)
        own = slot.counts._asdict() | {"best_x": c.best.x, "best_fun": c.best.f, "best_nit": c.best.k}
        return Solution(x, f, g, c.status, c.k, **own, trace=trace)

    def _closed(self, c: SolverState, ring: Trace | None) -> Slot:
        """Return a run between two iterations, with only the fields that the next one reads.

        XLA would drop the others itself, but not from slots.
        """
        direction, quick = self.iteration.direction, self.backend.quick

        def drop(part: Any, *names: str) -> None:
            for name in names:
                setattr(part, name, None)

        drop(c, "next_point", "p", "free_gradient", "size", "slope", "live")
        drop(c.step_info, "before", "lam", "shown", "moved", "penalised", "guarded", "vanished")
        if self._descends:
            drop(c, "best")
            drop(c.step_info, "slope", "length", "trial", "tried")
        if quick or not self.iteration.step.searches:
            drop(c, "stalled")
        if not direction.penalised:
            drop(c, "active")
        if ring is None:
            drop(c, "spent")
            drop(c.point, *(["gnorm"] if quick or not direction.doubts else []))
        if quick:
            c.status = self.backend.select(self.backend.deferred, DEFERRED, c.status)
            self.backend.deferred = False
        return self.backend.fixed(Slot(c, self.counter.counts, ring))

    def _opened(self, slot: Slot) -> SolverState:
        """Return a copy of the state, with the fields that were not passed on."""
        direction, c = self.iteration.direction, jax.tree.map(lambda a: a, slot.c)
        c.next_point, c.stalled = Point(c.point.x), False if c.stalled is None else c.stalled
        if self._descends:
            c.best = Best(c.point.x, c.point.f, c.k)
        if not direction.penalised:
            c.active = not direction.steepest
        return c

    def _recorded(self, ring: Trace | None, c: SolverState, rows: Any) -> Trace | None:
        """Return the trace with this iterate, and the step taken from it, in place of the oldest one."""
        if ring is None:
            return None
        place, put, row = c.k % ring.k.shape[0], self.backend.put, Trace(c.k, c.point.x, *entry(c))
        return jax.tree.map(lambda column, value: put(column, place, value, rows), ring, row)
