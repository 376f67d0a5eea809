"""One run: the order of an iteration, the guard, and how it ends. Read this first.

A run asks, a driver answers. `Run.iterate` is a generator: where it needs f(x) or ∇f(x) it yields the
question (`questions.py`) and goes on with the answer. It calls no function of the user's and knows no budget,
no clock and no file: those are the driver's (`drivers/`), which denies a question that is one too many.

    method      the direction p from the point, and its own memory      methods/
    step        the next point along p                                  steps/
    switch      is the penalty still worth its second gradient?         switches.py
    space       where x may be                                          space.py
    gradients   where ∇f comes from, and its error                      differences/
    endings     what a small gradient and a failed search mean          endings.py, roundoff.py

All that one iteration hands to the next is in the fields of `Run` and of its parts; a generator lives for one
iteration, and is never saved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from inspect import isgenerator, isgeneratorfunction
from math import inf, nan
from typing import Any, cast

from . import endings
from .gradient_check import refuse_cut_graph
from .methods.method import Method, Proposal
from .problem import Problem
from .questions import Asking, Denied, Gradient, Iterate, Moved, Point, Value, Vector
from .roundoff import at_roundoff, drowns
from .schedules import VANISHED
from .status import Status
from .steps.step import Found, Step
from .switches import Switch
from .tolerances import Tolerances
from .vectors import dot, finite, norm

SHOWS = 4.0
"""A decrease of no more than this many roundings of f is not measurable."""

SMALLEST = 1e-300

HIDDEN = frozenset(status for status in Status if Status.FTOL <= status <= Status.MAX_SECONDS)
"""The ends that may hide an artificial stationary point."""


@dataclass
class Run:
    """A run from one start. The parts are as `prepare` has fitted them to the run, and are this run's own."""

    problem: Problem
    method: Method
    step: Step
    switch: Switch
    tolerances: Tolerances
    start: Vector
    watched: bool = False
    """Whether the driver wants to know of a step before the run evaluates there."""
    checked: Point | None = None
    """f and ∇f at the start, if a check of the gradient has evaluated them."""

    # --- where it is
    here: Point = field(init=False)
    """The last iterate. It is replaced as a whole, so that whatever cuts a run off finds no half of it."""
    before: Point | None = None
    """The iterate before it."""
    best: Point | None = None
    """The lowest finite iterate."""
    f_start: float = nan
    """f at the start."""
    gradient_norm: float = nan
    """‖∇f‖."""
    gnorm: float = nan
    """The optimality measure: ‖∇f‖, or with bounds the norm of the projected gradient."""
    largest_gnorm: float = 0.0
    """The largest of these so far."""
    least_gnorm: float = inf
    """The smallest."""
    status: Status | None = None
    error: float = nan
    """The error of the last gradient, where the end had to be confirmed by it."""

    # --- the step that led here, or that is about to be taken
    alpha: float = nan
    lam: float = nan
    slope: float = nan
    """∇fᵀp."""
    p: Vector = None
    """The direction."""
    moved: bool = False
    """Whether x is another one than before."""
    penalised: bool = False
    guarded: bool = False
    vanished: bool = False
    """Whether the penalised direction was tiny beside ∇f."""

    # --- what it has seen
    begun: bool = False
    """Whether the method has begun."""
    follows: bool = True
    """Whether it follows the method, rather than −∇f: until the switch turns the penalty off."""
    stalls: int = 0
    """Steps since f last decreased or, where noise drowns it, since ‖∇f‖ did."""
    stalled: bool = False
    """Whether these are too many."""
    times_doubted: int = 0
    """How often a gradient within gtol was distrusted, and a step in the metric of x was tried instead."""
    f_failed: float = nan
    """f where a line search last failed; only with differences."""

    def __post_init__(self) -> None:
        self.here = Point(self.start)
        self.follows = not self.method.steepest
        self._asks = isgeneratorfunction(self.method.direction)
        self.searches = isgeneratorfunction(self.step.along)
        self._given = self.problem.gradients.given

    @property
    def f_before(self) -> float:
        """F at the iterate before this one."""
        return nan if self.before is None else self.before.f

    @property
    def amounts(self) -> tuple[float, float]:
        """α and λ of the step, as a trace shows them."""
        return (self.alpha, self.lam) if self.guarded else self.method.amounts(self.alpha, self.lam)

    def iterate(self) -> Asking[None]:
        """Run to the end. Whatever cuts it off, `here` and `best` are the run so far."""
        try:
            if self.here.f is None:  # else it goes on from where it was saved
                yield from self._begin()
            iterate = Iterate(self)
            while self.status is None:
                status = yield iterate
                if status is None:
                    yield from self._advance()
                else:
                    self._end(status)
            yield from self._confirm()
        except Denied as denied:
            self.status = None
            self._end(denied.status)

    # --- an iteration ----------------------------------------------------------------------------------

    def _begin(self) -> Asking[None]:
        start = self.checked
        if start is None:
            start = Point(self.start, (yield Value(self.start)))
        self.f_start = start.f
        yield from self._arrive(start)

    def _advance(self) -> Asking[None]:
        """Take one step from here."""
        gradients, here = self.problem.gradients, self.here
        if not self.stalled:
            self.p = yield from self._direction(here)
        if not self._given and (end := (yield from gradients.ends(self))) is not None:
            return (yield from self._follow(end))
        if self.stalled:  # p and slope are those of the last step
            return (yield from self._recover(here))
        if self.searches:
            asks: Asking[Found | None] = self.step.along(self.problem, here, self.p, self.slope)
            found = yield from asks
        else:
            found = self.step.along(self.problem, here, self.p, self.slope)
        if found is None or found.alpha == 0.0:
            self.alpha = 0.0
            return (yield from self._recover(here))
        self.alpha, x, f, g = found
        if not finite(x):
            return self._end(Status.DIVERGED)
        if not self._given and self.stalls == 0:
            gradients.relax(self)
        if self.watched:
            yield Moved(self)
        searched = f is not None
        if not searched:
            f = yield Value(x)
        self.before, self.moved = here, True
        yield from self._arrive(Point(x, f, g, here.k + 1), searched)

    def _direction(self, here: Point) -> Asking[Vector]:
        """Return the direction: the method's where it descends f, else −∇f."""
        space, g = self.problem.space, here.g
        free, size = space.descent(here.x, g, self.gradient_norm)
        self.lam, self.guarded, self.penalised, self.vanished = 0.0, False, False, False
        if not self.follows:
            self.slope = -size * size
            return -free
        if not self.begun:
            self.begun = True
            self.method.begin(self.problem, here)
        elif self.moved and self.before is not None:
            self.method.learn(self.problem, self.before, here)
        if self._asks:
            asks: Asking[Any] = self.method.direction(self.problem, here)
            made = yield from asks
        else:
            made = self.method.direction(self.problem, here)
        p, lam, trusted = made if type(made) is Proposal else (made, 0.0, False)
        p = space.inward(here.x, g, p)
        slope = float(free.dot(p))
        # a short direction has a small slope: where none is, p needs no closer look
        if -inf < slope < -VANISHED * size * size:
            self.slope, self.lam, self.penalised = slope, lam, self.method.penalised
            return p
        return self._guard(free, size, p, slope, lam, trusted)

    def _guard(self, free: Vector, size: float, p: Vector, slope: float, lam: float, trusted: bool) -> Vector:
        """Return p where ∇fᵀp < 0, else −∇f; a trusted p is one where ∇f vanishes, and any slope will do."""
        if trusted:
            slope = min(slope, -SMALLEST)
        if not (-inf < slope < 0 or trusted or not self.method.guard):
            self.guarded, self.slope = True, -size * size
            return -free
        self.slope, self.lam, self.penalised = slope, lam, self.method.penalised
        self.vanished = self.penalised and norm(p) <= VANISHED * size
        return p

    def _arrive(self, here: Point, searched: bool = False) -> Asking[None]:
        """Move to a point where f is known; see whether it is an end, and evaluate ∇f there if it is not."""
        self.here, f = here, here.f
        if -inf < f < (inf if self.best is None else self.best.f):
            self.best = here
        status = endings.by_value(self)
        if here.k and self.method.penalised and self.follows:
            off = self.switch.off(here.k - 1, self.guarded, self.f_before, f, self.f_start)
            self.follows = not off
        if searched:
            self._count_stalls(f)
        if status is not None:
            return self._end(status)
        yield from self._judge()

    def _count_stalls(self, f: float) -> None:
        """Count the searches since one has lowered f visibly."""
        least = max(SHOWS * self.problem.eps * abs(f), self.step.noise)
        if not self._given:
            least = max(least, self.problem.gradients.eps_f(f))
        self.stalls = 0 if self.f_before - f > least else self.stalls + 1

    def _judge(self) -> Asking[None]:
        """Evaluate ∇f where it is not known, and see what it says."""
        here = self.here
        if here.g is None:
            if self._given:
                g, error = (yield Gradient(here.x)), None
            else:
                g, error, fresh = yield from self.problem.gradients.arrive(self)
                self.stalls = 0 if fresh else self.stalls
            self.here = here = Point(here.x, here.f, g, here.k, error)
            if self.best is not None and self.best.k == here.k:
                self.best = here
        self._measure()
        tolerances = self.tolerances
        if not self.gradient_norm < inf or self.gnorm <= max(
            tolerances.g, tolerances.rel * self.largest_gnorm
        ):
            yield from self._judge_small()
        if self.searches and self.stalls >= self.problem.gradients.stall_limit and self.status is None:
            self.stalled = True

    def _measure(self) -> None:
        """Note the size of ∇f."""
        here = self.here
        self.gradient_norm = norm(here.g)
        self.gnorm = self.problem.space.residual(here.x, here.g, self.gradient_norm)
        if self.gnorm > self.largest_gnorm:
            self.largest_gnorm = self.gnorm
        if self.gnorm < self.least_gnorm:
            self.least_gnorm = self.gnorm
            if self.step.noise and drowns(self.step.noise, here.f):
                self.stalls = 0

    def _judge_small(self) -> Asking[None]:
        """End the run where ∇f is within a tolerance, and not doubted, or is not finite."""
        gradients = self.problem.gradients
        if self.problem.differentiates and self.before is None and self.gradient_norm == 0.0:
            yield from refuse_cut_graph(self.problem, self.here)
        if not self._given and (again := (yield from gradients.recheck(self))):
            self.here = self.here._replace(g=again[0], error=again[1])
            self._measure()
        status = endings.by_gradient(self)
        if status is Status.CONVERGED:
            if not self._given and not gradients.trusts(self):
                status = None
            elif self.method.verifies and (doubted := endings.doubted(self)) is not endings.Doubt.NONE:
                status, self.stalled = None, doubted is endings.Doubt.STALLED
            elif self.here.k == 0 and (yield from self._leaves_saddle()):
                status = None
        if status is not None:
            self._end(status)

    def _leaves_saddle(self) -> Asking[bool]:
        """Return whether the method can leave a start where ∇f vanishes."""
        if not self.method.escapes_saddles:
            return False
        asks: Asking[bool] = self.method.escape_saddle(self.problem, self.here)
        return (yield from asks)

    # --- where no step was found -----------------------------------------------------------------------

    def _recover(self, here: Point) -> Asking[None]:
        """After a failed or stalled search: end, or try again from the same x.

        In this order:
        1. ∇f is within gtol, and that was doubted: CONVERGED, unless the doubt is alarming.
        2. f is as low as its digits, its noise or its differences show: ROUNDOFF, NOISE, RESOLUTION or
           FD_LIMIT.
        3. a more accurate gradient can be had: again, with it.
        4. the method has another direction: again, with it. A run that has stalled does not ask for one, nor
           does one that crawls from failure to failure.
        5. else LINE_SEARCH_FAILED, or what a gradient within gtol means.
        """
        stalled, self.stalled = self.stalled, False
        doubted = self.method.verifies and self.gnorm <= self.tolerances.g
        doubted = doubted and self.problem.gradients.trusts(self)
        end = endings.of_small_gradient(self) if doubted else Status.LINE_SEARCH_FAILED
        if end is Status.CONVERGED and not endings.alarming(self):
            return self._end(end)
        if doubted:
            self.times_doubted += 1
        better = False
        if end is not Status.CONVERGED:
            better, closer = yield from self._look_closer(stalled)
            if closer is not None:
                return (yield from self._follow(closer))
        if better and not doubted:
            self.stalls = 0
            yield from self._stay(here._replace(g=None, error=None))
            return self.method.revise(self.here)
        asks = (doubted or not stalled) and not self._crawls(here)
        if asks and (yield from self._restart(here)):
            return (yield from self._stay(here))
        self._end(end)

    def _follow(self, end: Status | Point) -> Asking[None]:
        """End, or go on at a lower point that values have shown and no direction led to."""
        if isinstance(end, Status):
            return self._end(end)
        here, self.stalled = self.here, False
        self.method.revise(here)
        self.p, self.alpha, self.lam = end.x - here.x, 1.0, 0.0
        self.slope = dot(here.g, self.p)
        if self.watched:
            yield Moved(self)
        self.before, self.moved = here, True
        yield from self._arrive(end._replace(k=here.k + 1), searched=True)

    def _look_closer(self, stalled: bool) -> Asking[tuple[bool, Status | Point | None]]:
        """Return whether a more accurate gradient can be had, and the status where f cannot be lowered."""
        gradients = self.problem.gradients
        if self._given:
            return False, (yield from at_roundoff(self))
        better, status = yield from gradients.improves(self, stalled)
        if status is None and not better and gradients.cheap:
            status = yield from at_roundoff(self)
        return better, status

    def _crawls(self, here: Point) -> bool:
        """Return whether the run crawls from failure to failure, as it does at a kink, by differences."""
        if self._given:
            return False
        f, before = here.f, self.f_failed
        crawls = before - f <= endings.CRAWLS * (self.f_start - f)
        if not crawls:
            self.f_failed = f
        return crawls

    def _restart(self, here: Point) -> Asking[bool]:
        """Return whether the method has another proposal."""
        again: Any = self.method.restart(self.problem, here)
        if isgenerator(again):
            again = yield from cast("Asking[bool]", again)
        return bool(again)

    def _stay(self, here: Point) -> Asking[None]:
        """Try again from the same x, which is no new iteration."""
        self.before, self.here, self.moved, self.alpha = here, here, False, 0.0
        self.stalls += 1
        yield from self._judge()

    # --- ends ------------------------------------------------------------------------------------------

    def _end(self, status: Status) -> None:
        """End, unless the run has ended. Small steps and budgets may hide an artificial stationary point."""
        if self.status is None:
            self.status = Status.ARTIFICIAL if self.vanished and status in HIDDEN else status

    def _confirm(self) -> Asking[None]:
        """Where gradients are coarse, confirm a success by the error of the last one."""
        gradients, here = self.problem.gradients, self.here
        if self._given or not gradients.coarse:
            return
        if self.status in (Status.CONVERGED, Status.ROUNDOFF):
            error = yield from gradients.error(here.x, here.f, here.g, self.step.noise)
            self.error = norm(self.problem.space.free(here.x, here.g, error))
            if not self.error <= self.tolerances.g:
                self.status = Status.INACCURATE_GRADIENT
