"""Step sizes α_k along a direction.

A number, a schedule or a callable of k is a step by itself. `safe` and `quadratic_optimal` are the paper's
formulas and give a number (or a schedule, for a λ that changes); `Quadratic` and `Armijo` look at f along p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from . import theory
from ._core.arrays import Array, Mask, Scalar
from ._core.noise import noise_of
from ._oracle.oracle import Cost, Oracle
from ._tools.check import number, whole
from .directions._direction import Context
from .schedules import ByCurvature, Constant, Cosine, L, Mapped, Schedule, ScheduleLike, as_schedule

__all__ = ["Along", "Armijo", "Chosen", "Fixed", "Quadratic", "Step", "quadratic_optimal", "safe"]


LEVEL = 10.0
"""Values of f that differ by no more than this many roundings, or this many times its noise, are level."""

FLATTER = 0.9
"""Among level points, a step is taken if it brings the slope down to this part."""

SUSPECT = 1e-6
"""Values that rise by less than this part of f, where the slope promises a fall of no more, may be noise."""

DOUBTS = 4
"""After this many trials that may have been spoilt by noise, the noise is measured."""


class Along(NamedTuple):
    """A direction at a point, as a step rule sees it: k, x, f, ∇f, p, ∇fᵀp, the last α, the noise of f.

    Examples
    --------
    >>> Along._fields
    ('k', 'x', 'f', 'g', 'p', 'slope', 'last', 'noise')
    """

    k: int
    x: Array
    f: Scalar
    g: Array
    p: Array
    slope: Scalar
    last: Scalar
    noise: Scalar = 0.0


class Chosen(NamedTuple):
    """A step: α, f and ∇f at the new point as far as evaluated (∇f for the rows `known`), the noise of f.

    Examples
    --------
    >>> Chosen(0.5)
    Chosen(alpha=0.5, f=None, g=None, known=False, noise=0.0)
    """

    alpha: Scalar
    f: Scalar = None
    g: Array = None
    known: Mask = False
    noise: Scalar = 0.0


class Step:
    """Base of all step rules.

    Examples
    --------
    >>> isinstance(Armijo(), Step)
    True
    """

    @property
    def constant(self) -> Scalar | None:
        """The α of every iteration, where it is always the same."""
        return None

    def prepare(self, total: int | None, rows: int | None) -> Step:
        """Fit schedules to a run of `total` iterations and `rows` rows, and check them."""
        return self

    def cost(self, oracle: Oracle) -> Cost:
        """Say what the choice costs beyond f at the new point."""
        return Cost()

    def source(self, oracle: Oracle) -> str | None:
        """Say where H·v comes from; None where the rule needs none."""
        return None

    def choose(self, context: Context, along: Along) -> Chosen:
        """Give α_k, 0 where there is none, and what is known at the new point."""
        raise NotImplementedError


@dataclass(frozen=True)
class Fixed(Step):
    """α_k from a number or a schedule, whatever f does.

    Examples
    --------
    >>> Fixed(0.01)
    Fixed(schedule=0.01)
    """

    schedule: ScheduleLike

    @property
    def constant(self) -> Scalar | None:
        """The α of every iteration, where it is always the same."""
        return self.schedule.value if isinstance(self.schedule, Constant) else None

    def prepare(self, total: int | None, rows: int | None) -> Step:
        """Fit the schedule to the run."""
        schedule = as_schedule(self.schedule, "step", rows).fit(total)
        if isinstance(schedule, ByCurvature):
            raise ValueError(f"step: {schedule!r} is a schedule for lam")
        known: Any = getattr(schedule, "value", getattr(schedule, "values", ()))
        if isinstance(schedule, L | Cosine):
            known = (schedule.start, schedule.end)
        if not np.all(np.asarray(known) > 0):
            raise ValueError(f"step: expected positive values, got {known!r}")
        return Fixed(schedule)

    def choose(self, context: Context, along: Along) -> Chosen:
        """Give the schedule's α_k."""
        alpha = cast(Schedule, self.schedule)(along.k)  # since `prepare`
        if not np.all(alpha > 0):
            raise ValueError(f"step: expected positive values, got {alpha!r} at k = {along.k}")
        return Chosen(context.pick(alpha))


@dataclass(frozen=True)
class Quadratic(Step):
    """The minimiser of the quadratic model along p, α = −∇fᵀp/pᵀHp, for one H·v.

    On a quadratic this is the exact line search. Where the model has no minimiser, α is `fallback`.

    Examples
    --------
    >>> import numpy as np, steepen as st
    >>> q = st.functions.quadratic(np.diag([1.0, 10.0]))
    >>> st.minimize(q, [1.0, 1.0], method="bfgs", step=st.steps.Quadratic()).nit
    2
    """

    fallback: float = 1.0

    def __post_init__(self) -> None:
        number("fallback", self.fallback, "a positive number", above=0)

    def cost(self, oracle: Oracle) -> Cost:
        """Say what one H·v costs."""
        return oracle.cost_hvp

    def source(self, oracle: Oracle) -> str | None:
        """Say where H·v comes from."""
        return oracle.hvp_source

    def choose(self, context: Context, along: Along) -> Chosen:
        """Give −∇fᵀp/pᵀHp."""
        kit = context.kit
        bend = kit.dot(along.p, context.oracle.hvp(along.x, along.p, along.g))
        convex = bend > 0
        return Chosen(kit.pick(convex, -along.slope / kit.pick(convex, bend, 1.0), self.fallback))


@dataclass(frozen=True)
class Armijo(Step):
    """Backtracking until f falls by `c` of what the slope promises; cuts by interpolation.

    The first trial is `initial`, and after that the last accepted α times `grow`, at most `longest`. With
    `grow=inf` every search starts at `longest`, which is right where α = 1 is natural.

    Examples
    --------
    >>> import steepen as st
    >>> st.minimize(st.functions["booth"], [8.0, -8.0], method="gd", step=st.steps.Armijo()).success
    True
    """

    initial: float = 1.0
    c: float = 1e-4
    grow: float = 2.0
    longest: float = math.inf
    trials: int = 60

    def __post_init__(self) -> None:
        number("initial", self.initial, "a positive number", above=0)
        number("c", self.c, "a number between 0 and 1", above=0, below=1)
        for name, value, least in (("grow", self.grow, 1.0), ("longest", self.longest, self.initial)):
            if value != math.inf:
                number(name, value, f"a number, {least:g} or more", least=least)
        if self.grow == self.longest == math.inf:
            raise ValueError("longest: expected a finite number where grow is infinite, got inf")
        whole("trials", self.trials, 1)

    def choose(self, context: Context, along: Along) -> Chosen:
        """Backtrack from the first trial."""
        kit, oracle = context.kit, context.oracle
        k, x, f, _, _, slope, last, noise = along
        known = (k > 0) & (last > 0)  # a search that found nothing begins anew
        t = kit.pick(known, np.minimum(self.longest, self.grow * kit.pick(known, last, 1.0)), self.initial)
        t = kit.scalar(t + 0.0 * slope)  # one a row
        accepted = seen = kit.negate(t > 0)  # none yet
        value, g, doubts = f, None, 0
        for trial in range(self.trials):
            point, way, fall = self._trial(context, along, t)
            todo = kit.without(context.affords(oracle.cost_value), accepted)
            if trial:  # a step that is lost in the rounding of x, or in the noise of f, needs no value
                todo = kit.without(todo, kit.same(point, x)) & (noise <= LEVEL * abs(fall))
            if not kit.any(todo) or context.late():
                break
            found = oracle.value(point, None if kit.size is None else todo)
            ok = todo & (found <= f + self.c * fall) & (found < f)
            close = False
            if not kit.all(ok):
                rise, size = abs(found - f), abs(f)
                close = (np.maximum(rise, abs(fall)) <= SUSPECT * size) | (rise <= LEVEL * context.eps * size)
                close = kit.without(todo & close & context.affords(oracle.cost_grad), ok)
            if kit.any(close):
                doubts = doubts + close
                ahead = oracle.grad(point, None if kit.size is None else close)
                flatter = close & (abs(kit.dot(ahead, way)) < FLATTER * abs(fall))
                doubt = flatter | (close & (doubts == DOUBTS))
                noise = self._noise(context, along, way, found, noise, doubt)
                flatter = flatter & self._level(context, along, found, noise)
                g = kit.where(flatter, ahead, ahead * math.nan if g is None else g)
                seen, ok = seen | flatter, ok | flatter
            value = kit.pick(ok, found, value)
            accepted = accepted | ok
            if kit.all(accepted):
                break
            t = kit.pick(accepted, t, kit.scalar(self._shorter(t, found, f, fall)))
        return Chosen(kit.pick(accepted, t, 0.0), value, g, seen, noise)

    @staticmethod
    def _level(context: Context, along: Along, found: Scalar, noise: Scalar) -> Mask:
        """Say whether rounding or noise hides whether f falls: then the slope decides (Hager and Zhang)."""
        return abs(found - along.f) <= LEVEL * np.maximum(context.eps * abs(along.f), noise)

    def _noise(
        self, context: Context, along: Along, way: Array, found: Scalar, noise: Scalar, mask: Mask
    ) -> Scalar:
        """Measure the noise of f where values contradict slopes by more than is known of it."""
        kit = context.kit
        doubt = kit.without(mask, self._level(context, along, found, noise))
        if not kit.any(doubt):
            return noise
        measured = noise_of(context, along.x, along.f, along.g, way, doubt)
        return kit.pick(doubt & self._level(context, along, found, measured), measured, noise)

    @staticmethod
    def _trial(context: Context, along: Along, t: Scalar) -> tuple[Array, Array, Scalar]:
        """Return the point at t, the way there, and the fall of f that the gradient promises."""
        kit, x = context.kit, along.x
        way = kit.times(t, along.p)
        if context.box is None:
            return x + way, way, t * along.slope
        point = context.inside(x + way)
        way = point - x
        return point, way, kit.dot(along.g, way)

    @staticmethod
    def _shorter(t: Scalar, found: Scalar, f: Scalar, fall: Scalar) -> Any:
        """Minimise the parabola through f, the slope and the trial, within [t/10, t/2]."""
        best = -fall * t / (2 * (np.float64(found) - f - fall))
        return np.clip(np.where(np.isfinite(best), best, 0.0), 0.1 * t, 0.5 * t)


def safe(L: float, lam: ScheduleLike) -> Any:
    """Give Theorem 1's step 1/(L(1 + 2λL)²) for an L-smooth convex f.

    Examples
    --------
    >>> safe(L=1.0, lam=0.5)
    0.25
    """
    return _of_lam(partial(theory.safe_step, L), lam)


def quadratic_optimal(l: float, L: float, lam: ScheduleLike) -> Any:  # noqa: E741
    """Give the best constant step 2/((1+2λL)L + (1+2λl)l) on a quadratic with spectrum in [l, L].

    Examples
    --------
    >>> quadratic_optimal(l=1.0, L=1.0, lam=0.0)
    1.0
    """
    return _of_lam(partial(theory.quadratic_step, l, L), lam)


def _of_lam(formula: Any, lam: ScheduleLike) -> Any:
    if isinstance(lam, ByCurvature):
        raise ValueError(f"lam: expected values known in advance, got {lam!r}")
    if isinstance(lam, Schedule) or callable(lam):
        return Mapped(formula, as_schedule(lam, "lam"))
    return formula(lam)
