"""Is f as low as precision allows? Asked by iteration and search; evaluates near x, within the budget."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import NamedTuple

from ...arrays import Array, Mask, Scalar, Whole
from .backend import Backend
from .context import Context
from .state import Point, StepInfo

FLOOR = 30.0  # f is at its floor if no decrease of f, nor move of x, of more roundings is predicted
NOISE_LEVELS = 10.0  # a decrease counts from this many times the measured noise of f on
KINK = 3.0  # curvatures of two probes, one ten times as long, that differ by more are not those at x
LONGEST = 1e-3  # noise makes probes longer, up to this part of the size of x
DEEP = 5  # the most directions that are probed in each metric
NEAR = 0.1  # noise is looked for at this part of the step in doubt


def roundoff_limited(context: Context, point: Point, last: StepInfo, mask: Mask) -> tuple[Mask, Mask]:
    """Return for which of these rows no visible decrease of f or move of x is predicted, and where by noise.

    The prediction is that of the last direction, by its slope and its length, and then of the first
    directions of conjugate gradients, from −∇f on, in two metrics: the plain one and that of the sizes of the
    variables. The last direction may know the stiff variables only; these find the soft ones. Where a
    curvature is not positive, nothing is proved. The first probe of each metric is repeated ten times as
    long: at a kink, and where a probe leads far from x, it shows another curvature.
    """
    backend = context.backend
    ground = _Ground(context, point, last.noise)
    left = _Left(mask, -last.slope, last.length)
    left = left._replace(mask=mask & ground.hidden(left))
    left = backend.repeat(partial(_in_metric, ground), _Metrics(0, left, left.mask), 2).left
    return left.mask, backend.and_not(left.mask, ground.by_rounding(left))


class _Left(NamedTuple):
    """The rows that may be at their floor, and the largest decrease of f and move of x predicted so far."""

    mask: Mask
    decrease: Scalar
    move: Scalar


class _Metrics(NamedTuple):
    turn: Whole
    left: _Left
    open: Mask


class _Probes(NamedTuple):
    """Conjugate gradients in y = x/metric: the last direction and its probe, and the step so far."""

    turn: Whole
    left: _Left
    residual: Array
    way: Array
    before: Scalar  # ‖residual‖² of the last direction
    to: Array
    decrease: Scalar
    change: Array  # H·v of the last probe, and the step that follows from it
    step: Scalar
    open: Mask


class _Ground:
    """A point, the gradient there without what bounds hold, and what cannot be seen from there."""

    def __init__(self, context: Context, point: Point, noise: Scalar) -> None:
        backend, part = context.backend, FLOOR * context.eps
        self.context, self.x, self.g = context, point.x, point.g
        self.top = backend.norm(point.x)
        self.still, self.low = part * self.top, part * abs(point.f)
        self.limit = backend.num.maximum(self.low, NOISE_LEVELS * noise)
        rounding = context.eps * abs(point.f)
        longer = backend.num.sqrt(backend.ratio(noise, rounding))
        longer = backend.num.minimum(longer, LONGEST / context.eps**0.5)
        self.stretch = backend.select(noise > rounding, longer, 1.0)
        free = context.space.free(point.x, point.g, point.g)
        self.size = backend.norm(free)
        self.unit = _unit(backend, self.size, free)

    def by_rounding(self, left: _Left) -> Mask:
        """Return where rounding hides what is predicted."""
        return _within(left.decrease, self.low) | _within(left.move, self.still)

    def hidden(self, left: _Left) -> Mask:
        """Return where rounding or noise hides what is predicted."""
        return _within(left.decrease, self.limit) | _within(left.move, self.still)


def _in_metric(ground: _Ground, s: _Metrics) -> _Metrics:
    """Probe the first directions in the plain metric, and then in that of the sizes of the variables."""
    backend, x = ground.context.backend, ground.x
    metric = backend.select(s.turn == 0, 0.0 * x + 1.0, _unit(backend, ground.top, abs(x)))
    residual, none, zero = metric * ground.unit, 0.0 * x, 0.0 * ground.size
    least = ground.context.eps * backend.dot(residual, residual)
    start = _Probes(
        0, s.left, residual, way=none, before=zero, to=none, decrease=zero, change=none, step=zero,
        open=s.left.mask,
    )  # fmt: skip
    left = backend.repeat(partial(_next, ground, metric, least), start, DEEP).left
    return _Metrics(s.turn + 1, left, left.mask)


def _next(ground: _Ground, metric: Array, least: Scalar, s: _Probes) -> _Probes:
    """Make the next probe, and add the decrease that it predicts."""
    context, backend, x = ground.context, ground.context.backend, ground.x
    evaluator, maximum = context.evaluator, backend.num.maximum
    along = backend.select(s.open, backend.ratio(s.step, ground.size), 0.0)
    residual = s.residual - backend.times(along, metric * s.change)
    square = backend.dot(residual, residual)
    way = residual + backend.times(backend.select(s.before > 0, backend.ratio(square, s.before), 0.0), s.way)
    y = _unit(backend, backend.norm(metric * way), way)
    slope = ground.size * backend.dot(residual, y)
    slope = backend.select((s.turn > 0) & (square <= least), 0.0, slope)  # what is left is a probe's error
    mask = _unless(backend, s.left.mask, s.open, context.affords(evaluator.cost_difference) & (slope >= 0))
    asked = s.open & mask & (slope > 0)
    if not backend.any(asked):
        return s._replace(left=s.left._replace(mask=mask), open=asked)
    v = metric * y
    r = ground.stretch * evaluator.difference_length(x, v)
    change = backend.times(backend.ratio(1.0, r), evaluator.change(x, v, ground.g, r, asked))
    change = context.space.free(x, ground.g, change)
    bend = backend.dot(v, change)
    step = backend.select(asked, backend.ratio(slope, bend), 0.0)
    to, decrease = s.to + backend.times(step, y), s.decrease + 0.5 * slope * step
    left = _Left(
        mask,
        backend.select(asked, maximum(s.left.decrease, decrease), s.left.decrease),
        backend.select(asked, maximum(s.left.move, backend.norm(to)), s.left.move),
    )
    mask = _unless(backend, mask, asked, (bend > 0) & ground.hidden(left))
    first = asked & mask & (s.turn == 0)
    mask = _unless(backend, mask, first, context.affords(evaluator.cost_difference))

    def repeated(mask: Mask) -> Mask:
        again = backend.ratio(backend.dot(v, evaluator.change(x, v, ground.g, 10 * r, first & mask)), 10 * r)
        return _unless(backend, mask, first, _within(bend, KINK * again) & _within(again, KINK * bend))

    left = left._replace(mask=backend.when(first & mask, repeated, mask))
    return _Probes(
        s.turn + 1, left, residual, way=way, before=square, to=to, decrease=decrease, change=change,
        step=step, open=asked & left.mask,
    )  # fmt: skip


def _unless(backend: Backend, held: Mask, asked: Mask, fine: Mask) -> Mask:
    """Return a mask without the rows that were probed and failed."""
    return backend.and_not(held, backend.and_not(asked, fine))


def _unit(backend: Backend, size: Scalar, v: Array) -> Array:
    return backend.times(1 / backend.select(size > 0, size, 1.0), v)


def _within(value: Scalar, limit: Scalar) -> Mask:
    """Return whether a value is no more than a limit, both being numbers: never by inf ≤ inf, nor by NaN."""
    return (value <= limit) & (limit < inf)


class _Looks(NamedTuple):
    turn: Whole
    found: Scalar
    open: Mask


def noise_of(context: Context, x: Array, f: Scalar, g: Array, way: Array, mask: Mask) -> Scalar:
    """Return what values near x differ by beyond what a given gradient explains; 0 outside the mask.

    Two values are taken, one ahead on the way of a step, one half as far behind (ahead where bounds leave no
    room), and the smaller difference counts: a kink or a jump shows on one side only, noise on both.
    """
    backend, evaluator = context.backend, context.evaluator
    none = 0.0 * f
    mask = mask & context.affords(evaluator.cost_value.plus(evaluator.cost_value))
    if not backend.any(mask):
        return none
    ahead = NEAR * way

    def look(s: _Looks) -> _Looks:
        point = context.space.project(x + (1.0 - 1.5 * s.turn) * ahead)
        point = backend.select(backend.same(point, x), context.space.project(x + 0.5 * ahead), point)
        value = evaluator.value(point, mask)
        found = backend.num.minimum(s.found, abs(value - f - backend.dot(g, point - x)))
        return _Looks(s.turn + 1, found, s.open)

    found = backend.repeat(look, _Looks(0, none + inf, mask), 2).found
    return backend.select(mask & (found < inf), found, none)
