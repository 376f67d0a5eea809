"""Is f as low as precision allows? A run asks after a failed search, Armijo where values contradict."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from .problem import Problem
from .questions import Asking, Point, Value, Vector
from .status import Status
from .vectors import dot, norm, ratio, same

if TYPE_CHECKING:
    from .run import Run

FLOOR = 30.0  # f is at its floor if no decrease of f, nor move of x, of more roundings is predicted
NOISE_LEVELS = 10.0  # a decrease counts from this many times the measured noise of f on
KINK = 3.0  # curvatures of two probes, one ten times as long, that differ by more are not those at x
LONGEST = 1e-3  # noise makes probes longer, up to this part of the size of x
DEEP = 5  # the most directions that are probed in each metric
DROWNS = 4e-6  # noise drowns f where it is more than this part of it
NEAR = 0.1  # noise is looked for at this part of the step in doubt


def at_roundoff(run: Run) -> Asking[Status | None]:
    """Return ROUNDOFF or NOISE if no decrease of f or move of x is predicted that could be seen.

    The prediction is that of the last direction, by its slope and its length, and then of the first
    directions of conjugate gradients, from −∇f on, in two metrics: the plain one and that of the sizes of the
    variables. The last direction may know the stiff variables only; these find the soft ones. Where a
    curvature is not positive, nothing is proved.
    """
    if not run.problem.gradients.exact:  # a difference hides more than the values do
        return None
    ground = _Ground(run.problem, run.here, run.step.noise)
    left = _Predicted(-run.slope, norm(run.p))
    if not ground.hides(left):
        return None
    sizes = abs(ground.x) * (1 / (ground.top or 1.0))
    for metric in (0.0 * ground.x + 1.0, sizes):
        left = yield from _probed(ground, metric, left)
        if left is None:
            return None
    return Status.ROUNDOFF if ground.rounds(left) else Status.NOISE


class _Predicted(NamedTuple):
    """The largest decrease of f, and move of x, predicted so far."""

    decrease: float
    move: float


class _Ground:
    """A point, the gradient there without what bounds hold, and what cannot be seen from there."""

    def __init__(self, problem: Problem, here: Point, noise: float) -> None:
        f, part = here.f, FLOOR * problem.eps
        self.problem, self.x, self.g = problem, here.x, here.g
        self.top = norm(here.x)
        self._still, self._low = part * self.top, part * abs(f)
        self._limit = max(self._low, NOISE_LEVELS * noise)
        rounding = problem.eps * abs(f)
        longer = math.sqrt(ratio(noise, rounding)) if noise > rounding else 1.0
        self.stretch = min(longer, LONGEST / problem.eps**0.5) if noise > rounding else 1.0
        free = problem.space.free(here.x, here.g, here.g)
        self.size = norm(free)
        self.unit = (1 / (self.size or 1.0)) * free

    def rounds(self, left: _Predicted) -> bool:
        """Return whether rounding hides what is predicted."""
        return _within(left.decrease, self._low) or _within(left.move, self._still)

    def hides(self, left: _Predicted) -> bool:
        """Return whether rounding or noise hides what is predicted."""
        return _within(left.decrease, self._limit) or _within(left.move, self._still)


def _probed(ground: _Ground, metric: Vector, left: _Predicted) -> Asking[_Predicted | None]:
    """Return what the first directions of conjugate gradients in y = x/metric predict; None if it shows.

    The first probe is repeated ten times as long: at a kink, and where a probe leads far from x, it shows
    another curvature.
    """
    problem, x = ground.problem, ground.x
    residual = metric * ground.unit
    square = dot(residual, residual)
    least = problem.eps * square
    way, to, decrease = residual, 0.0 * x, 0.0
    for turn in range(DEEP):
        y = (1 / (norm(metric * way) or 1.0)) * way
        slope = ground.size * dot(residual, y)
        if turn and square <= least:
            return left  # what is left is a probe's error
        if not slope >= 0:
            return None
        if slope == 0:
            return left
        v = metric * y
        r = ground.stretch * problem.difference_length(x, v)
        change = ratio(1.0, r) * (yield from problem.change(x, v, ground.g, r))
        change = problem.space.free(x, ground.g, change)
        bend = dot(v, change)
        step = ratio(slope, bend)
        to, decrease = to + step * y, decrease + 0.5 * slope * step
        left = _Predicted(max(left.decrease, decrease), max(left.move, norm(to)))
        if not (bend > 0 and ground.hides(left)):
            return None
        if turn == 0:
            again = ratio(dot(v, (yield from problem.change(x, v, ground.g, 10 * r))), 10 * r)
            if not (_within(bend, KINK * again) and _within(again, KINK * bend)):
                return None
        before = square
        residual = residual - ratio(step, ground.size) * (metric * change)
        square = dot(residual, residual)
        way = residual + ratio(square, before) * way if before > 0 else residual
    return left


def drowns(noise: float, f: float) -> bool:
    """Return whether noise is so large a part of f that, where ∇f is given, slopes say more than values."""
    return noise > DROWNS * abs(f)


def _within(value: float, limit: float) -> bool:
    """Return whether a value is no more than a limit, both being numbers: never by inf ≤ inf, nor by NaN."""
    return value <= limit < math.inf


def noise_near(problem: Problem, here: Point, way: Vector) -> Asking[float]:
    """Return what values near x differ by beyond what a given gradient explains.

    Two values are taken, one ahead on the way of a step, one half as far behind (ahead where bounds leave no
    room), and the smaller difference counts: a kink or a jump shows on one side only, noise on both.
    """
    x, f, ahead, found = here.x, here.f, NEAR * way, math.inf
    for part in (1.0, -0.5):
        point = problem.space.project(x + part * ahead)
        if same(point, x):
            point = problem.space.project(x + 0.5 * ahead)
        value = yield Value(point)
        found = min(found, abs(value - f - dot(here.g, point - x)))
    return found if found < math.inf else 0.0
