"""The compiled driver: the iteration in a `while_loop`.

A turn begins after `check_convergence`, so that what happens only at a start is outside of the loop.
"""

# what JAX maps over has no types
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

from .._core.backends import Traced
from .._core.space import Box, Everywhere
from .._core.state import NAN, RUNNING, Best, Counts, Point, SolverState, StepInfo
from .._core.status import Status
from .._evaluation.evaluator import Context
from .._solver.iteration import Iteration
from .._solver.recorder import COLUMNS, entry
from ._function import Function, Tally
from ._jax import jax, jnp
from ._program import Program
from ._solution import Solution, Trace

CONVERGED, DEFERRED = int(Status.CONVERGED), -2
"""DEFERRED: a quick run came to a rare case, and must be repeated by the full program."""

NOT: Any = None
"""Takes the place of a field that is not passed on."""

WITHIN = dict.fromkeys(("failed", "next_point", "p", "free_gradient", "size", "slope", "live"), False)
"""Fields without meaning between two iterations."""

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


class Driver:
    """One run of a program."""

    def __init__(
        self, program: Program, inputs: Inputs, like: Any, derive: Any = jax.grad, alone: bool = True,
        quick: bool = False,
    ):  # fmt: skip
        settings = program.parts(inputs.numbers)
        quick = quick and settings.step.searches  # without a line search there are no rare cases
        self.program, self.backend = program, Traced(like, alone, quick)
        self.space, self.bounds = Everywhere(self.backend), inputs.bounds
        if inputs.bounds is not None:
            self.space = Box(*inputs.bounds, self.backend)
        self.counter = Tally(self.backend, settings.budget)
        fun = partial(program, args=inputs.args)
        evaluator: Any = Function(fun, derive, self.backend, self.space, self.counter, settings.tolerances.g)
        self.iteration = Iteration(Context(evaluator, self.backend, self.space), settings)
        self._descends = quick and self.iteration.descends  # then each point is the best so far
        self._noiseless = not settings.step.searches or (quick and alone)  # then noise is not estimated

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
        length = self.program.trace
        return self._closed(c, None if length is None else self._empty(x, length))

    def turn(self, slot: Slot, **known: Any) -> Slot:
        """Do one iteration; `known` are fields of the state with a known value, such as its status."""
        run, c = self.iteration, self._opened(slot)
        for name, value in known.items():
            setattr(c, name, value)
        self.counter.counts = slot.counts
        c = run.handle_failure(run.line_search(run.compute_direction(c)))
        ring = self._recorded(slot.ring, c, c.status == RUNNING)
        self._advance(c)
        c.spent = (self.counter.nfev, self.counter.njev, self.counter.nhvp)
        new = self._closed(run.check_convergence(run.evaluate(c)), ring)
        return self.backend.cast(new, slot)

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
        best = {"best_x": c.best.x, "best_fun": c.best.f, "best_nit": c.best.k}
        return Solution(x, f, g, c.status, c.k, *slot.counts, **best, trace=trace)

    def _advance(self, c: SolverState) -> None:
        """Move to the next point, unless the run has ended at this one."""
        live, here, ahead = c.status == RUNNING, c.point, c.next_point
        for name in ("x",) if ahead.f is None else ("x", "f", "g", "known"):
            setattr(ahead, name, self.backend.select(live, getattr(ahead, name), getattr(here, name)))
        ahead.size = here.size
        c.advance()
        c.k -= jnp.asarray(self.backend.negate(live), jnp.int32)

    def _closed(self, c: SolverState, ring: Trace | None) -> Slot:
        """Return a run between two iterations, with only the fields that the next one needs."""
        run, quick = self.iteration, self.backend.quick
        searches, doubts, penalised = run.step.searches, run.direction.doubts, run.direction.penalised
        needed = WITHIN | {
            "best": not self._descends, "n_stalled": searches, "stalled": searches and not quick,
            "active": penalised, "first": penalised or doubts, "max_gnorm": run.relative,
            "doubts": doubts and not quick, "spent": ring is not None,
        }  # fmt: skip
        for name, need in needed.items():
            setattr(c, name, getattr(c, name) if need else NOT)
        if ring is None and (quick or not doubts):
            c.point.gnorm = NOT
        kept = ["alpha"] if self._noiseless else ["alpha", "noise"]
        if searches and not self._descends:
            kept += ["slope", "length"] if run.step.wait else ["slope", "length", "trial", "tried"]
        for field in fields(StepInfo):
            setattr(c.step_info, field.name, getattr(c.step_info, field.name) if field.name in kept else NOT)
        if quick:
            c.status = self.backend.select(self.backend.deferred, DEFERRED, c.status)
            self.backend.deferred = False
        return self.backend.fixed(Slot(c, self.counter.counts, ring))

    def _opened(self, slot: Slot) -> SolverState:
        """Return a copy of the state, with the fields that were not passed on."""
        run, c = self.iteration, jax.tree.map(lambda a: a, slot.c)
        c.next_point, c.stalled = Point(c.point.x), False if c.stalled is NOT else c.stalled
        if self._descends:
            c.best = Best(c.point.x, c.point.f, c.k)
        if self._noiseless:
            c.step_info.noise = 0.0
        if not run.direction.penalised:
            c.active = not run.direction.steepest
        return c

    def _empty(self, x: Any, length: int) -> Trace:
        whole, points = jnp.full(length, -1, jnp.int32), jnp.full((length, *x.shape), NAN, x.dtype)
        kinds = {"d": points[:, 0], "q": whole, "?": whole > 0}
        return Trace(whole, points, *(kinds[kind] for kind in COLUMNS.values()))

    def _recorded(self, ring: Trace | None, c: SolverState, rows: Any) -> Trace | None:
        """Return the trace with this iterate, and the step taken from it, in place of the oldest one."""
        if ring is None:
            return None
        place, put = c.k % ring.k.shape[0], self.backend.put
        row = Trace(c.k, c.point.x, *entry(c))
        return jax.tree.map(lambda column, value: put(column, place, value, rows), ring, row)
