"""cgd-auto, the drivers' default: no α, λ or r. Unit steps are CGD steps with the last ∇f as second gradient.

In a metric G, let s = −Gg be the step from x, and y the change that it made to the gradient. The BFGS step
that follows ends at

    x − α(Gg + 2λ·G·H̄·Gg),   λ = −½·sᵀy/(sᵀy + yᵀGy),   α = (gᵀGg/sᵀy)(1 + yᵀGy/sᵀy),

with H̄ the mean Hessian between the two points. That is the CGD direction at x in the metric G, with α and λ
from the curvature just seen. The probe was a step too: an iteration costs one gradient, CGD-FD pays two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from ...arrays import Array, Mask, Scalar, Whole
from .backend import Backend
from .context import Context
from .direction import Direction, Proposal
from .pairs import Pairs
from .saddle import way_down
from .state import Point

MOST, FAST, ENOUGH = 200, 15_000, 25  # pairs: MOST; for large n as many as fit in FAST numbers, or ENOUGH
PLACES, FEWEST = 10_000_000, 10  # for very large n: as many as fit in PLACES numbers, or FEWEST
GROWTH = 10.0  # a step is at most this many times the longest one before it
BOOST, BOLD = 2.0, 1024.0  # at negative curvature the next step is this many times as long; BOLD after BOLD
FAINT = 0.01  # a first step that changes the slope by less gives no scale: the next is GROWTH times as long
NOISE = 1e4  # the third-order term of y is used where sᵀy is more than this many roundings of f
START, CAREFUL = 1.0, 1e-3  # the length of a trial along −∇f: after a reset, and after failed line searches
SHORTEST, LONGEST = 0.1, 1.0  # the first trial is 2|f|/‖∇f‖ long, within SHORTEST and LONGEST·max(1, ‖x‖)
LEAST = 1e-3  # in the metric scaled by |x|, a variable that is 0 counts as this fraction of ‖x‖


class Learnt(NamedTuple):
    """The memory of cgd-auto; gradients and values are those of scale·f."""

    pairs: Pairs
    scale: Scalar
    x: Array  # of the last point: x, f, ∇f, and ∇f of the one before
    f: Scalar
    g: Array
    before: Array
    slope: Scalar  # of the last step: ∇fᵀp and ‖p‖ of the unit step, the fraction of it that was taken, sᵀy
    length: Scalar
    t: Scalar
    sy: Scalar
    boost: Scalar  # of the next step: its factor at negative curvature
    longest: Scalar  # the longest step so far
    tries: Whole  # failed line searches
    paired: Whole  # steps that gave a pair
    way: Array  # descent direction from a start where ∇f vanishes
    factor: Scalar  # of the equivalent CGD step: its length relative to the unit step, α and λ
    alpha: Scalar
    lam: Scalar


@dataclass(frozen=True)
class CGDAuto(Direction):
    """CGD that needs no α, λ or r: a BFGS method whose every unit step is a CGD step.

    It stores pairs of steps and gradient changes, mutually conjugate as long as one quadratic explains them,
    with a diagonal initial metric that adapts to the scales of the variables. In the trace, `lam` and `step`
    are the λ and α of the equivalent CGD step in the previous metric, ignoring bounds.

    `memory` is the maximum number of pairs: 2·memory·n numbers. By default it is 200, fewer from n = 76 on,
    25 from n = 600 on, and down to 10 from n = 400 000 on; more than 2n + 8 would add no information.
    """

    memory: int | None = None

    name = "cgd-auto"
    unit = True
    probes = True
    doubts = True

    def start(self, backend: Backend, x: Array) -> Learnt:
        zero = backend.norm(x) * 0
        pairs = Pairs.start(backend, x, self.capacity(int(x.shape[-1])))
        return Learnt(
            pairs, scale=zero, x=x, f=zero, g=x, before=x, slope=zero, length=zero, t=zero, sy=zero,
            boost=zero + 1, longest=zero, tries=0, paired=0, way=x * 0, factor=zero, alpha=zero,
            lam=zero,
        )  # fmt: skip

    def begin(self, context: Context, point: Point, memory: Learnt) -> Learnt:
        """Return the memory at the first gradient, which sets the scale of f and the first trial."""
        backend, x = context.backend, point.x
        # a power of two keeps products of gradients in range, and every digit
        size = backend.num.clip(point.size, 1e-300, backend.at_most(1e300))
        size = backend.select(point.size > 0, size, 1.0)
        scale = 2.0 ** -backend.num.round(backend.num.log2(size))
        g = backend.times(scale, point.g)
        length = backend.select(context.space.limited, START, self._guess(context, x, point.f, size))
        gamma = backend.select(scale > 0, self._trial(context, length, x, g), memory.pairs.gamma)
        return memory._replace(pairs=memory.pairs._replace(gamma=gamma), scale=scale, x=x, g=g)

    def learn(self, context: Context, point: Point, memory: Learnt) -> Learnt:
        backend, x = context.backend, point.x
        g, f = backend.times(memory.scale, point.g), backend.scalar(point.f * memory.scale)
        s, y = x - memory.x, g - memory.g
        square, sy, ahead = backend.inner((s, s), (s, y), (g, s))
        length = backend.root(square, s)
        moved = length > 0
        useful, pairs, boost = moved & False, memory.pairs, memory.boost
        if backend.any(moved):
            third = 6 * (memory.f - f + ahead) - 3 * sy
            y, sy = self._third_order(context, s, y, length, sy, third, f)
            faint = (memory.paired == 0) & (sy > 0)
            if backend.any(faint):
                faint = faint & (sy < -FAINT * backend.dot(memory.g, s))
            taken = backend.select(backend.and_not(moved, faint), sy, 0.0)
            pairs, useful = pairs.add(backend, s, y, taken, length)
            if not backend.all(useful):
                bolder = boost * backend.select(faint, GROWTH, backend.select(boost < BOLD, BOOST, BOLD))
                short = moved & ((sy <= 0) | faint)
                boost = backend.select(short, bolder, boost)
        # without a new pair the step to come is a plain one in the same metric
        known = useful & (memory.length > 0)
        return memory._replace(
            pairs=pairs, x=x, f=f, g=g, before=memory.g, sy=sy, boost=backend.select(useful, 1.0, boost),
            t=backend.select(known, length / backend.select(known, memory.length, 1.0), 0.0),
            longest=backend.num.maximum(memory.longest, length),
            tries=backend.select(useful, 0, memory.tries), paired=memory.paired + useful,
        )  # fmt: skip

    def propose(
        self, context: Context, k: int, point: Point, lam: Scalar, on: Mask, memory: Learnt
    ) -> Proposal:
        """Return −G·∇f, longer at negative curvature, but at most GROWTH times the longest step so far."""
        backend, num, x, g = context.backend, context.backend.num, point.x, memory.g
        space, pairs = context.space, memory.pairs
        product, diagonal = pairs.products(backend, space.bounded), partial(pairs.diagonal, backend)
        p = space.downhill(product, diagonal, x, g)
        slope, square, past = backend.inner((g, p), (p, p), (memory.before, p))
        length = backend.root(square, p, wild=True)
        alpha, shown = self._amount(backend, past, memory)
        room = backend.select(memory.longest > 0, GROWTH * memory.longest, np.inf)
        factor = num.minimum(memory.boost, room / backend.select(length > 0, length, 1.0))
        memory = memory._replace(slope=slope, length=length, alpha=alpha, lam=shown, factor=factor)
        leaving = False
        if backend.any(factor != 1.0):
            p = backend.times(factor, p)
        if not backend.quick and backend.any(k == 0):
            leaving = (k == 0) & (backend.norm(memory.way) > 0)
            p = backend.select(leaving, backend.times(self._first(context, x), memory.way), p)
        return Proposal(p, 0.0, memory, leaving)

    @staticmethod
    def _amount(backend: Backend, past: Scalar, memory: Learnt) -> tuple[Scalar, Scalar]:
        """Return the α and λ of the CGD step from the previous point equivalent to the unit step."""
        t, omega = memory.t, -memory.slope
        alpha = backend.select(t > 0, 1 + t - backend.ratio(past, omega), 1.0)
        return alpha, backend.select(t > 0, backend.ratio(-0.5 * t * t * omega, alpha * memory.sy), 0.0)

    def amounts(self, alpha: Scalar, lam: Scalar, memory: Learnt) -> tuple[Scalar, Scalar]:
        """Return the α and λ of the CGD step from the previous point that ends where this step does."""
        t = alpha * memory.factor
        whole_step = t * memory.alpha
        both = whole_step + (1 - t) * memory.t
        return both, whole_step * memory.lam / (both + (both == 0))

    def restart(self, context: Context, point: Point, stuck: Mask, memory: Learnt) -> tuple[Learnt, Mask]:
        """After a failed line search, restart: in the metric scaled by |x|, and then along −∇f."""
        backend, tries = context.backend, memory.tries
        scaled = stuck & (tries == 0)
        if backend.any(scaled):
            memory, scaled = self._rescale(context, point, scaled, memory)
        careful = backend.and_not(stuck & (tries < 2), scaled)
        if backend.any(careful):
            memory = self._restart(context, careful, CAREFUL, memory)
        tries = backend.select(stuck, backend.select(scaled, 1, 2), tries)
        return memory._replace(tries=tries), scaled | careful

    def _rescale(self, context: Context, point: Point, rows: Mask, memory: Learnt) -> tuple[Learnt, Mask]:
        """Restart with D = diag(xᵢ²), since the pairs may cover the stiff variables only."""
        backend, evaluator, x = context.backend, context.evaluator, point.x
        here = backend.times(memory.scale, point.g)
        g = context.space.free(x, here, here)
        rows = rows & (backend.norm(g) > 0) & context.affords(evaluator.cost_difference)
        if not backend.any(rows):
            return memory, rows
        top = backend.norm(x)
        top = backend.select(top > 0, top, 1.0)
        size = backend.times(1 / top, abs(x))
        size = backend.xp.where(size > 0, size, size * 0 + LEAST)
        v = size * size * g
        r = evaluator.difference_length(x, v) * backend.num.minimum(1.0, top)
        bend = evaluator.change(x, v, point.g, r, rows)
        along = backend.dot(v, backend.times(backend.ratio(memory.scale, r), bend))
        rows = rows & (along > 0) & (along < np.inf)
        memory = memory._replace(  # the step that led here must not give a pair
            x=backend.select(rows, x, memory.x), g=backend.select(rows, here, memory.g),
            f=backend.select(rows, point.f * memory.scale, memory.f),
        )  # fmt: skip
        memory = self._restart(context, rows, START, memory)
        pairs = memory.pairs.clear(backend, rows, size * size)
        gamma = backend.select(rows, backend.dot(v, g) / backend.select(rows, along, 1.0), pairs.gamma)
        return memory._replace(pairs=pairs._replace(gamma=gamma)), rows

    def escape_saddle(
        self, context: Context, point: Point, still: Mask, memory: Learnt
    ) -> tuple[Learnt, Mask]:
        way, found = way_down(context, point, still, memory.tries * 0)
        backend = context.backend
        return memory._replace(way=backend.select(found, way, backend.xp.zeros_like(way))), found

    # --- parts -----------------------------------------------------------------------------------------

    def capacity(self, n: int) -> int:
        """Return the maximum number of pairs for n variables."""
        most = min(MOST, max(ENOUGH, FAST // n), max(FEWEST, PLACES // n))
        return min(most if self.memory is None else self.memory, 2 * n + 8)

    @staticmethod
    def _first(context: Context, x: Array) -> Scalar:
        """Return the length of a first trial: 1, or more if that would be lost in the rounding of x."""
        return context.backend.num.maximum(1.0, context.eps**0.5 * context.backend.norm(x))

    def _guess(self, context: Context, x: Array, f: Scalar, size: Scalar) -> Scalar:
        """Return TAO's length of a first trial relative to `_first`, exact for a parabola with minimum 0."""
        num, unit = context.backend.num, self._first(context, x)
        longest = LONGEST * num.maximum(context.backend.norm(x), 1.0)
        return num.clip(2 * context.backend.ratio(abs(f), size) / unit, SHORTEST, longest / unit)

    def _trial(self, context: Context, length: Scalar, x: Array, g: Array) -> Scalar:
        """Return γ for which a step along −∇f has this length, or is not lost in the rounding of x."""
        backend, free = context.backend, context.space.free(x, g, g)
        size = backend.root(backend.dot(free, free), free, wild=True)
        return length * self._first(context, x) / backend.select(size > 0, size, 1.0)

    def _restart(self, context: Context, rows: Mask, length: float, memory: Learnt) -> Learnt:
        """Reset the memory of these rows, so that their next trial is along −∇f."""
        backend, gamma = context.backend, self._trial(context, length, memory.x, memory.g)
        pairs = memory.pairs.clear(backend, rows)
        return memory._replace(
            pairs=pairs._replace(gamma=backend.select(rows, gamma, pairs.gamma)),
            longest=backend.select(rows, 0.0, memory.longest), boost=backend.select(rows, 1.0, memory.boost),
            t=backend.select(rows, 0.0, memory.t), paired=backend.select(rows, 0, memory.paired),
        )  # fmt: skip

    @staticmethod
    def _third_order(
        context: Context, s: Array, y: Array, length: Scalar, sy: Scalar, third: Scalar, f: Scalar
    ) -> tuple[Array, Scalar]:
        """Return y and sᵀy with the curvature at the new point, by the cubic through both values and slopes.

        Else it is the mean over the step (Zhang, Deng and Chen, 1999).
        """
        backend = context.backend
        sound = (sy > NOISE * context.eps * abs(f)) & (abs(third) < sy)
        if not backend.any(sound):
            return y, sy
        third, length = backend.select(sound, third, 0.0), backend.select(sound, length, 1.0)
        return y + backend.times(third / length / length, s), sy + third
