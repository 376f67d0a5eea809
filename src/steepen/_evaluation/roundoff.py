"""Whether f is as low as working precision lets it be."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import NamedTuple

from .._core.arrays import Array, Mask, Scalar, Whole
from .._core.backends import Backend
from .._core.state import Point, StepInfo
from .evaluator import Context

FLOOR = 30.0  # f is at its floor if no decrease of f, nor move of x, of more roundings is predicted
ROUGH, SLIGHT = 30.0, 1e-8  # where gradients are differences: a move of x in units of √ε, a part of |f|
NOISE_LEVELS = 10.0  # a decrease counts from this many times the measured noise of f on
LONGEST = 1e-3  # noise makes probes longer, up to this part of the size of x
KINK = (
    3.0  # curvatures of two probes, one ten times as long, that differ by more are those of a kink or noise
)
DEEP = 5  # the most directions that are probed in each metric
NEAR = 0.1  # noise is looked for at this part of the step in doubt


def roundoff_limited(context: Context, point: Point, last: StepInfo, mask: Mask) -> tuple[Mask, Mask]:
    """Return for which of these rows no visible decrease of f or move of x is predicted, and where by noise.

    The prediction is that of the last direction, by its slope and its length, and then of the first
    directions of conjugate gradients, from −∇f on, in two metrics: the plain one and that of the sizes of the
    variables. The last direction may know the stiff variables only; these find the soft ones. Where a
    curvature is not positive, or lost in its rounding, nothing is proved. The first probe of each metric is
    repeated ten times as long: at a kink the curvature falls with the length of the probe.
    """
    ground = _Ground(context, point.x, point.f, point.g, last.noise, mask)
    rows = ground.screened(-last.slope, last.length)
    backend, asked = context.backend, partial(_asked, ground)
    rows = backend.repeat(asked, _Metrics(0, rows, rows.mask), 2).rows
    return rows.mask, backend.and_not(rows.mask, rows.level | rows.still)


class _Rows(NamedTuple):
    mask: Mask  # the rows that may be at their floor
    level: Mask  # where the decrease of f would be lost in rounding
    within_noise: Mask  # where it is no more than `noise_limit`
    still: Mask  # where the move of x would be lost
    noise_limit: Scalar


class _Metrics(NamedTuple):
    turn: Whole
    rows: _Rows
    open: Mask


class _Ways(NamedTuple):
    """The last direction of conjugate gradients in y = x/metric; in turn 1 the first probe is repeated."""

    turn: Whole
    rows: _Rows
    left: Array
    way: Array
    before: Scalar
    to: Array
    fall: Scalar
    v: Array  # the last probe: its direction and length, H·v, vᵀHv, and the step that follows from it
    r: Scalar
    change: Array
    bend: Scalar
    step: Scalar
    open: Mask


class _Ground:
    """A point, the gradient there without what bounds hold, the errors of both, and the length of a probe."""

    def __init__(self, context: Context, x: Array, f: Scalar, g: Array, noise: Scalar, mask: Mask) -> None:
        backend, evaluator = context.backend, context.evaluator
        self.context, self.x, self.f, self.g, self.noise = context, x, f, g, noise
        self.part = FLOOR * context.eps
        self.low = self.part * abs(f)
        if not evaluator.source.exact:  # the error of its gradient moves x by more, and hides more
            self.part = ROUGH * context.eps**0.5
            self.low = backend.num.maximum(self.low, SLIGHT * abs(f))
            mask = mask & context.affords(evaluator.source.cost_error)
        self.top, self.mask = backend.norm(x), mask
        rounding = context.eps * abs(f)
        self.noisy = noise > rounding
        longest = LONGEST / context.eps**0.5
        longer = backend.num.minimum(backend.num.sqrt(backend.ratio(noise, rounding)), longest)
        self.stretch = backend.select(self.noisy, longer, 1.0)
        free = context.space.free(x, g, g)
        self.size, self.rough = backend.norm(free), 0.0
        self.unit = _unit(backend, self.size, free)

    def screened(self, predicted: Scalar, length: Scalar) -> _Rows:
        """Return what the last direction shows, by its predicted decrease and its length."""
        context, backend = self.context, self.context.backend
        exact, noise_limit = context.evaluator.source.exact, self.low
        if exact:  # other differences show the stiff directions of a noisy f, and no others
            noise_limit = backend.num.maximum(noise_limit, NOISE_LEVELS * self.noise)
        level, within_noise = _within(predicted, self.low), _within(predicted, noise_limit)
        still = _within(length, self.part * self.top)
        mask = self.mask & (within_noise | still)
        if not exact and backend.any(mask):  # a slope of its error may be there, unseen
            error = context.evaluator.source.error(self.x, self.f, self.g, self.noise, mask)
            certain = backend.xp.where(abs(self.g) > error, self.g, 0.0 * self.g)  # only these can be held
            self.rough = backend.norm(context.space.free(self.x, certain, error))
        return _Rows(mask, level, within_noise, still, noise_limit)

    def judged(self, rows: _Rows, asked: Mask, to: Array, fall: Scalar) -> _Rows:
        """Return what a predicted move of this length and a predicted decrease of this size show."""
        backend = self.context.backend
        still = _unless(backend, rows.still, asked, _within(backend.norm(to), self.part * self.top))
        if not self.context.evaluator.source.exact:  # a small move of x is then no proof by itself
            still = _unless(backend, still, asked, self.f == 0)
        level = _unless(backend, rows.level, asked, _within(fall, self.low))
        within_noise = _unless(backend, rows.within_noise, asked, _within(fall, rows.noise_limit))
        return rows._replace(level=level, still=still, within_noise=within_noise)

    def doubted(self, rows: _Rows, asked: Mask, way: Array, fall: Scalar) -> _Rows:
        """Where noise alone hides the fall, measure it here: it was perhaps measured somewhere else."""
        backend = self.context.backend
        doubt = backend.and_not(asked & rows.within_noise, rows.level | rows.still)

        def measure(noise_limit: Scalar) -> Scalar:
            here = noise_of(self.context, self.x, self.f, self.g, way, doubt)
            new = backend.num.maximum(self.low, NOISE_LEVELS * backend.num.minimum(self.noise, here))
            return backend.select(doubt, new, noise_limit)

        noise_limit = backend.when(doubt, measure, rows.noise_limit)
        within_noise = _unless(backend, rows.within_noise, doubt, _within(fall, noise_limit))
        return rows._replace(noise_limit=noise_limit, within_noise=within_noise)


def _asked(ground: _Ground, s: _Metrics) -> _Metrics:
    """Probe the first directions in the plain metric, and then in that of the sizes of the variables."""
    backend, x = ground.context.backend, ground.x
    metric = backend.where(s.turn == 0, 0.0 * x + 1.0, _unit(backend, ground.top, abs(x)))
    left, none, zero = metric * ground.unit, 0.0 * x, 0.0 * ground.size
    least = ground.context.eps * backend.dot(left, left)
    start = _Ways(
        turn=0, rows=s.rows, left=left, way=none, before=zero, to=none, fall=zero, v=none, r=zero,
        change=none, bend=zero, step=zero, open=s.rows.mask,
    )  # fmt: skip
    rows = backend.repeat(partial(_next, ground, metric, least), start, 1 + DEEP).rows
    return _Metrics(s.turn + 1, rows, rows.mask)


def _next(ground: _Ground, metric: Array, least: Scalar, s: _Ways) -> _Ways:
    """Make the next probe, and add the decrease that it predicts."""
    context, backend, x = ground.context, ground.context.backend, ground.x
    evaluator, again = context.evaluator, s.turn == 1
    along = backend.select(backend.and_not(s.open, again), backend.ratio(s.step, ground.size), 0.0)
    left = s.left - backend.times(along, metric * s.change)
    square = backend.dot(left, left)
    way = left + backend.times(backend.select(s.before > 0, backend.ratio(square, s.before), 0.0), s.way)
    y = _unit(backend, backend.norm(metric * way), way)
    slope = ground.size * backend.dot(left, y)
    # later, what is within the errors of the gradient and of a probe is nothing
    seen = backend.select((slope <= ground.rough) | (square <= least), 0.0, slope)
    slope = backend.select(s.turn == 0, slope + ground.rough, seen)
    fine = context.affords(evaluator.cost_difference) & (again | (slope >= 0))
    mask = _unless(backend, s.rows.mask, s.open, fine)
    asked = s.open & mask & (again | (slope > 0))
    if not backend.any(asked):
        return s._replace(rows=s.rows._replace(mask=mask), open=asked)
    v = backend.where(again, s.v, metric * y)
    r = backend.select(again, 10 * s.r, ground.stretch * evaluator.difference_length(x, v))
    whole = backend.scaled(backend.ratio(1.0, r), evaluator.change(x, v, ground.g, r, asked))
    change = context.space.free(x, ground.g, whole)
    bend = backend.dot(v, backend.where(again, whole, change))
    # the curvature must not be that of a kink, nor of noise, nor of places far from x
    alike = _within(s.bend, KINK * bend) & _within(bend, KINK * s.bend)
    mask = _unless(backend, mask, asked & again, alike)
    new = backend.and_not(asked, again)
    step = backend.select(new, backend.ratio(slope, bend), 0.0)
    to, fall = s.to + backend.times(step, y), s.fall + backend.select(new, 0.5 * slope * step, 0.0)
    rows = ground.judged(s.rows, new, to, fall)
    rows = ground.doubted(rows, new & (s.turn == 0), backend.times(-step, v), fall)
    proved = (bend > backend.ratio(ground.rough, r)) & (rows.within_noise | rows.still)
    mask = _unless(backend, mask, new, proved)
    return _Ways(
        turn=s.turn + 1, rows=rows._replace(mask=mask), left=left, way=backend.where(again, s.way, way),
        before=backend.select(again, s.before, square), to=to, fall=fall, v=v, r=r,
        change=backend.where(again, s.change, change), bend=backend.select(again, s.bend, bend),
        step=backend.select(again, s.step, step), open=asked & mask,
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
    if not backend.any(mask) or context.late():
        return none
    ahead = NEAR * way

    def look(s: _Looks) -> _Looks:
        point = context.space.project(x + (1.0 - 1.5 * s.turn) * ahead)
        point = backend.where(backend.same(point, x), context.space.project(x + 0.5 * ahead), point)
        value = evaluator.value(point, mask)
        found = backend.num.minimum(s.found, abs(value - f - backend.dot(g, point - x)))
        return _Looks(s.turn + 1, found, s.open)

    found = backend.repeat(look, _Looks(0, none + inf, mask), 2).found
    return backend.select(mask & (found < inf), found, none)
