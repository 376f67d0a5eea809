"""The compiled driver: the iteration in a `while_loop`.

The loop is entered after the first `stand`, so that what happens only at a start is outside: a turn is aim,
search, settle, and then arrive and stand at the next point.
"""

# what JAX maps over has no types
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

from .._core.kits import Traced
from .._core.records import NAN, RUNNING, Best, Carry, Counts, Move, Point
from .._core.result import Status
from .._core.space import Box, Everywhere
from .._iteration import Iteration
from .._oracle.oracle import Context
from ._function import Function, Tally
from ._jax import jax, jnp
from ._kernel import in_one
from ._program import Program

NOT: Any = None
"""What stands for a part of a run that is not handed on."""

for record in (Carry, Point, Move, Best):
    jax.tree_util.register_dataclass(record)


class Inputs(NamedTuple):
    """The arguments of a program: those of fun, the numbers of the settings, and the bounds."""

    args: Any
    numbers: dict[str, Any]
    bounds: tuple[Any, Any] | None = None


class Trace(NamedTuple):
    """The last iterates of a run, oldest first; k is −1 where there are fewer.

    Examples
    --------
    >>> Trace._fields[:4]
    ('k', 'x', 'f', 'gnorm')
    """

    k: Any
    x: Any
    f: Any
    gnorm: Any
    lam: Any
    step: Any
    penalised: Any
    guarded: Any
    nfev: Any
    njev: Any
    nhvp: Any


class Lane(NamedTuple):
    """A run between two iterations."""

    c: Carry
    counts: Counts
    ring: Trace | None

    @property
    def running(self) -> Any:
        """Whether the run goes on."""
        return self.c.status == RUNNING


class Ended(NamedTuple):
    """A run that has ended."""

    x: Any
    fun: Any
    jac: Any
    status: Any
    nit: Any
    counts: Counts
    best: Best
    trace: Trace | None


class Driver:
    """One run of a program."""

    def __init__(
        self, program: Program, inputs: Inputs, like: Any, derive: Any = jax.grad, alone: bool = True
    ):
        self.program, self.kit = program, Traced(like, alone)
        settings = program.parts(inputs.numbers)
        self.space, self.bounds = Everywhere(self.kit), inputs.bounds
        if inputs.bounds is not None:
            self.space = Box.of(*inputs.bounds, self.kit)
        self.ledger = Tally(self.kit, settings.budget)

        def fun(x: Any) -> Any:
            return program(x, inputs.args)

        oracle: Any = Function(
            fun, derive, alone, self.kit, self.space, self.ledger, like.dtype, settings.tolerances.g
        )
        self.iteration = Iteration(Context(oracle, self.kit, self.space), settings)

    def start(self, x: Any) -> Lane:
        """Return a run that stands at its start, with all that is known there."""
        run, self.kit.seldom = self.iteration, True
        c = run.arrive(run.begin(self.space.project(x)))
        c.point.size = abs(run.look(c).g).max()
        c = run.stand(c)
        self.kit.seldom = False
        if self.bounds is not None:  # what is traced was not checked
            empty = (self.bounds[0] > self.bounds[1]).any()
            c.status = self.kit.pick(empty, int(Status.INFEASIBLE), c.status)
        return self._closed(c, None if self.program.trace is None else self._empty(x))

    def turn(self, lane: Lane, **known: Any) -> Lane:
        """Make a step; `known` are parts of the carry that need not be asked for, such as its status."""
        run, c = self.iteration, self._opened(jax.tree.map(lambda a: a, lane.c))  # a carry of our own
        for name, value in known.items():
            setattr(c, name, value)
        self.ledger.counts = lane.counts
        c = run.settle(run.search(run.aim(c)))
        ring = self._recorded(lane.ring, c, c.status == RUNNING)
        self._advance(c)
        c.spent = (self.ledger.nfev, self.ledger.njev, self.ledger.nhvp)
        new = self._closed(run.stand(run.arrive(c)), ring)
        return self.kit.cast(new, lane)

    def run(self, x: Any) -> Ended:
        """Go from a start to the end: what is switched off stays off, so a penalty has a loop of its own."""
        lane, loop, turn = self.start(x), in_one, partial(self.turn, status=RUNNING)
        if not self.iteration.direction.penalised:
            return self.end(loop(lambda lane: lane.running, turn, lane))
        lane = loop(lambda lane: lane.running & lane.c.on, partial(turn, on=True), lane)
        return self.end(loop(lambda lane: lane.running, partial(turn, on=False), lane))

    def end(self, lane: Lane) -> Ended:
        """Return how a run ended."""
        c = jax.tree.map(lambda a: a, lane.c)
        x, f, g = self.iteration.outcome(c, c.status)
        c.move.lam, c.move.shown, c.move.penalised, c.move.guarded = NAN, NAN, False, False
        trace = self._recorded(lane.ring, c, True)
        if trace is not None:
            order = jnp.argsort(jnp.where(trace.k < 0, jnp.iinfo(trace.k.dtype).max, trace.k))
            trace = Trace(*(column[order] for column in trace))
        return Ended(x, f, g, c.status, c.k, lane.counts, c.best, trace)

    def _advance(self, c: Carry) -> None:
        """Go to the next point, unless the run has ended at this one."""
        pick, live, here, ahead = self.kit.pick, c.status == RUNNING, c.point, c.ahead
        x, f, g, known = pick(live, ahead.x, here.x), None, None, False
        if ahead.f is not None:
            f, g = pick(live, ahead.f, here.f), pick(live, ahead.g, here.g)
            known = pick(live, ahead.known, here.known)
        c.move.before = here.f
        c.point, c.k = Point(x, f, g, known, here.size), c.k + jnp.asarray(live, jnp.int32)

    def _closed(self, c: Carry, ring: Trace | None) -> Lane:
        """Return a run between two iterations, with no more than the next one needs."""
        move = c.move
        kept: dict[str, Any] = {"alpha": move.alpha}
        if self.iteration.step.searches:
            kept |= {"noise": move.noise, "slope": move.slope, "length": move.length}
            if not self.iteration.step.wait:
                kept |= {"trial": move.trial, "tried": move.tried}
        else:
            c.tired = c.idle = NOT
        if not self.iteration.direction.penalised:
            c.on = NOT
            if not self.iteration.direction.doubts:
                c.first = NOT
        if not self.iteration.relative:
            c.top = NOT
        if ring is None:
            c.spent = NOT
            if not self.iteration.direction.doubts:
                c.point.gnorm = NOT
        if not self.iteration.direction.doubts:
            c.doubts = NOT
        c.failed = c.ahead = c.p = c.down = c.size = c.slope = c.live = NOT
        c.move = Move(**({field.name: NOT for field in fields(Move)} | kept))
        return self.kit.fixed(Lane(c, self.ledger.counts, ring))

    def _opened(self, c: Carry) -> Carry:
        """Return a run as an iteration takes it."""
        run = self.iteration
        c.ahead, c.tired = Point(c.point.x), False if c.tired is NOT else c.tired
        if not run.direction.penalised:
            c.on = not run.direction.steepest
        return c

    def _empty(self, x: Any) -> Trace:
        length = self.program.trace or 1
        whole, real = jnp.full(length, -1, jnp.int32), jnp.full(length, NAN, x.dtype)
        points, flags = jnp.full((length, *x.shape), NAN, x.dtype), whole > 0
        return Trace(whole, points, real, real, real, real, flags, flags, whole, whole, whole)

    def _recorded(self, ring: Trace | None, c: Carry, rows: Any) -> Trace | None:
        """Return the trace with an iterate, and the step taken from it, in the place of the oldest."""
        if ring is None:
            return None
        point, move = c.point, c.move
        row = Trace(
            c.k, point.x, point.f, point.gnorm, move.lam, move.shown, move.penalised, move.guarded, *c.spent
        )
        place = c.k % ring.k.shape[0]
        put = self.kit.put
        return Trace(*(put(column, place, value, rows) for column, value in zip(ring, row, strict=True)))
