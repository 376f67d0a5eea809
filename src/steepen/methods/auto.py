"""cgd-auto, the default. No α, λ or r: unit steps are CGD steps with the last ∇f as second gradient.

In a metric G, let s = −Gg be the step from x, and y the change that it made to the gradient. The BFGS step
that follows ends at

    x − α(Gg + 2λ·G·H̄·Gg),   λ = −½·sᵀy/(sᵀy + yᵀGy),   α = (gᵀGg/sᵀy)(1 + yᵀGy/sᵀy),

with H̄ the mean Hessian between the two points. That is the CGD direction at x in the metric G, with α and λ
from the curvature just seen. The probe was a step too: an iteration costs one gradient, CGD-FD pays two.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self, cast

import numpy as np

from .._tools.check import whole
from ..arrays import namespace
from ..problem import Problem
from ..questions import Asking, Point, Vector
from ..vectors import dot, norm, own, ratio, root
from .method import Method, Proposal
from .pairs import Pairs
from .saddle import way_down

MOST, FAST, ENOUGH = 200, 15_000, 25  # pairs: MOST; for large n as many as fit in FAST numbers, or ENOUGH
FULL, SPARE = 1000, 8  # up to FULL variables, n + SPARE pairs of one quadratic
ROOM = 40_000_000  # but not in a batch where that is more than ROOM pairs of numbers, over all rows
PLACES, FEWEST = 10_000_000, 10  # for very large n: as many as fit in PLACES numbers, or FEWEST
GROWTH = 10.0  # a step is at most this many times the longest one before it
BOOST, BOLD = 2.0, 1024.0  # at negative curvature the next step is this many times as long; BOLD after BOLD
FAINT = 0.01  # a first step that changes the slope by less gives no scale: the next is GROWTH times as long
NOISE = 1e4  # the third-order term of y is used where sᵀy is more than this many roundings of f
START, CAREFUL = 1.0, 1e-3  # the length of a trial along −∇f: after a reset, and after failed line searches
SHORTEST, LONGEST = 0.1, 1.0  # the first trial is 2|f|/‖∇f‖ long, within SHORTEST and LONGEST·max(1, ‖x‖)
LEAST = 1e-3  # in the metric scaled by |x|, a variable that is 0 counts as this fraction of ‖x‖
PART = 0.1  # in a first step a variable moves by no more than |xᵢ|, or this fraction of the largest |xᵢ|


@dataclass
class CGDAuto(Method):
    """CGD that needs no α, λ or r: a BFGS method whose every unit step is a CGD step.

    It stores pairs of steps and gradient changes, mutually conjugate as long as one quadratic explains them,
    with a diagonal initial metric that adapts to the scales of the variables. In the trace, `lam` and `step`
    are the λ and α of the equivalent CGD step in the previous metric, ignoring bounds.

    `memory` is the maximum number of pairs: 3·memory·n numbers. By default it is 200, fewer from n = 76 on,
    25 from n = 600 on, and down to 10 from n = 400 000 on; more than 2n + 8 would add no information. Up to
    n = 1000, while one quadratic explains the pairs, the default grows to n + 8, and the end is superlinear.

    Examples
    --------
    >>> import steepen as st
    >>> f = st.functions["rosenbrock"].at(n=2)
    >>> res = st.minimize(f, [-1.2, 1.0], method=st.CGDAuto(memory=20))
    >>> res.status.name, bool(res.njev < 60)
    ('CONVERGED', True)
    """

    memory: int | None = None

    rows: int = field(default=1, init=False, repr=False)
    """The rows of the batch that the run belongs to."""

    # --- what it has learnt; gradients and values are those of scale·f
    pairs: Pairs = field(default=cast(Pairs, None), init=False, repr=False)
    scale: float = field(default=1.0, init=False, repr=False)
    x: Vector = field(default=None, init=False, repr=False)
    f: float = field(default=math.nan, init=False, repr=False)
    g: Vector = field(default=None, init=False, repr=False)
    g_before: Vector = field(default=None, init=False, repr=False)
    way: Vector = field(default=None, init=False, repr=False)
    """A direction of descent from a start where ∇f vanishes."""
    boost: float = field(default=1.0, init=False, repr=False)
    """How many times as long the next step is, for negative curvature."""
    longest: float = field(default=0.0, init=False, repr=False)
    """The longest step so far."""
    tries: int = field(default=0, init=False, repr=False)
    """Restarts since the last pair."""
    paired: int = field(default=0, init=False, repr=False)
    """Steps that gave a pair."""

    # --- the last direction, and the step taken along it
    slope: float = field(default=0.0, init=False, repr=False)
    """∇fᵀp of the unit step, the same with the last ∇f, and ‖p‖."""
    past: float = field(default=0.0, init=False, repr=False)
    length: float = field(default=0.0, init=False, repr=False)
    factor: float = field(default=1.0, init=False, repr=False)
    """How much longer the proposal was than that."""
    taken: float = field(default=0.0, init=False, repr=False)
    """How much of the unit step was taken; 0 where it gave no pair. Then sᵀy, and −∇fᵀp of that unit step."""
    sy: float = field(default=0.0, init=False, repr=False)
    omega: float = field(default=0.0, init=False, repr=False)

    name = "cgd-auto"
    unit = True
    probes = True
    inverts = True
    verifies = True
    by_values = True
    escapes_saddles = True

    def __post_init__(self) -> None:
        if self.memory is not None:
            whole("memory", self.memory, 1)

    def prepare(self, total: int | None = None, row: int | None = None, rows: int | None = None) -> Self:
        method = copy.copy(self)  # nothing is in its memory before `begin`
        method.rows = rows or 1
        return method

    def capacity(self, n: int) -> int:
        """Return the maximum number of pairs for n variables."""
        most = min(MOST, max(ENOUGH, FAST // n), max(FEWEST, PLACES // n))
        return min(most if self.memory is None else self.memory, 2 * n + 8)

    def most(self, n: int) -> int:
        """Return the maximum number of pairs while one quadratic explains them; 0: no more than else."""
        fits = n <= FULL and self.rows * n * (n + SPARE) <= ROOM
        return n + SPARE if fits and self.memory is None else 0

    # --- at the start ----------------------------------------------------------------------------------

    def begin(self, problem: Problem, here: Point) -> None:
        """Choose the scale of f and the length of the first trial."""
        x, size = here.x, norm(here.g)
        if size > 0:  # a power of two keeps products of gradients in range, and every digit
            self.scale = 2.0 ** -round(math.log2(min(max(size, 1e-300), 1e300)))
        self._move_to(here)
        self.g_before = self.g
        n = int(x.shape[-1])
        self.pairs = pairs = Pairs(x, self.capacity(n), self.most(n))
        curvature, length = problem.gradients.curvature, START
        if not problem.space.bounded and curvature is None:
            length = self._guessed(problem, x, here.f, size)
        pairs.gamma = self._gamma_for(problem, length)
        if curvature is not None:
            self._take_curvature(pairs, curvature)

    def _move_to(self, here: Point) -> None:
        self.x, self.f, self.g = here.x, self.scale * here.f, self.scale * here.g

    @staticmethod
    def _unit_length(problem: Problem, x: Vector) -> float:
        """Return the length of a first trial: 1, or more if that would be lost in the rounding of x."""
        return max(1.0, problem.eps**0.5 * norm(x))

    def _guessed(self, problem: Problem, x: Vector, f: float, size: float) -> float:
        """Return TAO's length of a first trial, in unit lengths: exact for a parabola with minimum 0."""
        unit = self._unit_length(problem, x)
        longest = LONGEST * max(norm(x), 1.0)
        return min(max(2 * ratio(abs(f), size) / unit, SHORTEST), longest / unit)

    def _gamma_for(self, problem: Problem, length: float) -> float:
        """Return γ for which a step along −∇f has this many unit lengths."""
        free = problem.space.free(self.x, self.g, self.g)
        return length * self._unit_length(problem, self.x) / (root(dot(free, free), free) or 1.0)

    def _take_curvature(self, pairs: Pairs, curvature: Any) -> None:
        """Take D from f″ along each variable, where finite differences have measured it."""
        seen = np.isfinite(curvature)
        if not seen.any():
            return
        typical = math.exp(np.log(curvature[seen]).sum() / seen.sum())
        x, xp = self.x, namespace(self.x)
        found = self.scale * own(x, np.where(seen, curvature, typical))
        top = float(abs(x).max())
        least = PART * top if top > 0 else 1.0
        size = xp.maximum(abs(x), least + 0.0 * x)
        found = xp.maximum(found, abs(self.g) / size)
        pairs.metric, pairs.curvature, pairs.gamma = 1 / found, found, 1.0

    def escape_saddle(self, problem: Problem, here: Point) -> Asking[bool]:
        self.way = yield from way_down(problem, here)
        return self.way is not None

    # --- after a step ----------------------------------------------------------------------------------

    def learn(self, problem: Problem, before: Point, here: Point) -> None:
        pairs, scale = self.pairs, self.scale
        g, f = scale * here.g, scale * here.f
        s, y = here.x - self.x, g - self.g
        length, sy, ahead = norm(s), float(s.dot(y)), float(g.dot(s))
        useful = False
        if length > 0:
            third = 6 * (self.f - f + ahead) - 3 * sy
            if sy > NOISE * problem.eps * abs(f) and abs(third) < sy:
                # y and sᵀy with the curvature at the new point, by the cubic through both values and slopes;
                # else it is the mean over the step (Zhang, Deng and Chen, 1999)
                y, sy = y + third / length / length * s, sy + third
            faint = self.paired == 0 and 0 < sy < -FAINT * dot(self.g, s)
            # what may be the error of two gradients is no curvature (Shi, Xie, Byrd and Nocedal 2022)
            clear = here.error is None or abs(sy) > scale * norm(s * here.error)
            useful = clear and not faint and pairs.add(s, y, sy, length)
            if not useful:
                short = clear and (sy <= 0 or faint)
                if not clear:  # so is a step along which f falls and does not bend visibly
                    short = self.f - f > scale * problem.gradients.eps_f(here.f)
                if short:
                    self.boost *= GROWTH if faint else BOOST if self.boost < BOLD else BOLD
        if useful:
            self.boost, self.tries, self.paired = 1.0, 0, self.paired + 1
            if here.error is not None:
                problem.gradients.set_curvature((1 / scale) * pairs.curvature)
        # without a new pair the step to come is a plain one in the same metric
        self.taken = length / self.length if useful and self.length > 0 else 0.0
        self.longest = max(self.longest, length)
        self.x, self.f, self.g, self.g_before = here.x, f, g, self.g
        self.sy, self.omega = sy, -self.slope

    def revise(self, here: Point) -> None:
        self._move_to(here)
        self.taken = 0.0

    # --- the next step ---------------------------------------------------------------------------------

    def direction(self, problem: Problem, here: Point) -> Proposal | Vector:
        """Return −G·∇f, longer at negative curvature, but at most GROWTH times the longest step so far."""
        if self.way is not None:
            p, self.way = self._unit_length(problem, here.x) * self.way, None
            return Proposal(p, trusted=True)
        pairs, g = self.pairs, self.g
        p = problem.space.downhill(pairs.product, pairs.diagonal, self.x, g)
        self.slope, self.past = float(g.dot(p)), float(self.g_before.dot(p))
        self.length = length = norm(p)
        factor = self.boost
        if self.longest > 0 and factor * length > GROWTH * self.longest:
            factor = GROWTH * self.longest / length
        self.factor = factor
        if factor != 1.0:
            p *= factor
        return p

    def amounts(self, alpha: float, lam: float) -> tuple[float, float]:
        """Return the α and λ of the CGD step from the previous point that ends where this step does."""
        t, taken, omega = alpha * self.factor, self.taken, self.omega
        if not taken > 0:
            return t, 0.0
        unit = 1 + taken - ratio(self.past, omega)
        whole_step = t * unit
        both = whole_step + (1 - t) * taken
        return both, ratio(whole_step * ratio(-0.5 * taken * taken * omega, unit * self.sy), both or 1.0)

    # --- after a failed line search --------------------------------------------------------------------

    def restart(self, problem: Problem, here: Point) -> Asking[bool]:
        """Try the metric scaled by |x|, since the pairs may cover the stiff variables only; then −∇f."""
        self.tries += 1
        if self.tries == 1 and (yield from self._rescale(problem, here)):
            return True
        if self.tries > 2:
            return False
        self.tries = 2
        self._move_to(here)
        self._forget(problem, CAREFUL)
        return True

    def _rescale(self, problem: Problem, here: Point) -> Asking[bool]:
        """Restart with D = diag(xᵢ²)."""
        x, scale = here.x, self.scale
        slope = scale * here.g
        g = problem.space.free(x, slope, slope)
        if not norm(g) > 0:
            return False
        top = norm(x) or 1.0
        size = (1 / top) * abs(x)
        size = namespace(x).where(size > 0, size, size * 0 + LEAST)
        v = size * size * g
        r = problem.difference_length(x, v) * min(1.0, top)
        bend = yield from problem.change(x, v, here.g, r)
        along = dot(v, ratio(scale, r) * bend)
        if not 0 < along < math.inf:
            return False
        self._move_to(here)
        self._forget(problem, START, size * size)
        self.pairs.gamma = dot(v, g) / along
        return True

    def _forget(self, problem: Problem, length: float, metric: Vector = None) -> None:
        """Forget all pairs, so that the next trial is along −∇f, this many unit lengths long."""
        pairs = self.pairs
        pairs.clear(metric)
        pairs.gamma = self._gamma_for(problem, length)
        self.longest, self.boost, self.taken, self.paired = 0.0, 1.0, 0.0, 0

    # --- what remains ----------------------------------------------------------------------------------

    def inverse(self, x: Vector, g: Vector) -> Callable[[Vector], Vector]:
        pairs, scale = self.pairs, self.scale
        if self.x is None:  # the run ended where it began
            return lambda v: v
        s, y = x - self.x, scale * g - self.g
        pairs.add(s, y, dot(s, y), norm(s))
        return lambda v: scale * pairs.product(v)  # the pairs are those of scale·f
